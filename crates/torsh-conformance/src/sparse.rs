//! Sparse tensors: calls whose operands, results, cotangents and gradients may be sparse, calls that PyTorch refuses, and
//! what is printed.
//!
//! ```text
//! cargo run --release -p torsh-conformance -- sparse DIR [--only NAME ...] [--share I/N] [--device NAME]
//! ```
//!
//! Cases are those of operators, with sparse tensors written by their parts ([`crate::parts`]). A result has PyTorch's
//! layout, shape, dtype and coalesced flag. The indices of a compressed one are equal; COO tensors are compared after equal
//! indices were added up on both sides, with the same stored elements. Values pass as those of other operators do,
//! where float64 decides ([`crate::exact`]) too.
//!
//! Where a case says that the dense operation defines it, our result's `to_dense()` is compared. There our gradient may
//! have any layout, and is compared at the elements that the operand stores.
//!
//! Every case runs in further arrangements ([`Arrangement`]). Nothing is left out but what [`DEFECTS`] lists.

use crate::case::{After, Case, Expect, OpFile, TensorRef, Value};
use crate::dtypes_and_printing::Print;
use crate::exact::{Accepted, Exact};
use crate::executor::{Call, Executor};
use crate::layouts::Memory;
use crate::panics;
use crate::parts::Operand;
use crate::runner::{lacking, numbered, refused, written};
use crate::section;
use crate::source::Source;
use crate::tensors::TensorFile;

mod arrange;
mod check;
mod given;
mod report;

pub use arrange::Arrangement;
use check::{Wanted, Wide, check};
pub use report::{FileReport, Report};

/// The section's name, and its directory's.
const SECTION: &str = "sparse";

/// A case in which PyTorch is wrong, so that it is not run.
#[derive(Clone, Copy, Debug)]
pub struct Defect {
    /// The file.
    pub name: &'static str,
    /// The case's number in it; of refused calls after those of the cases.
    pub case: usize,
    /// What PyTorch does, and what would be right.
    pub reason: &'static str,
}

/// Every such case.
pub const DEFECTS: &[Defect] = &[Defect {
    name: "mul_",
    case: 0,
    reason: "PyTorch forgets that the tensor is coalesced, which its mul does not",
}];

/// What to run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Which cases, and how much to tell.
    pub cases: section::Options,
    /// On which device, where not on the executor's own.
    pub device: Option<String>,
}

impl Options {
    /// Reads the arguments after the name of the section: the directory, and flags.
    ///
    /// # Errors
    /// What is wrong with them.
    ///
    /// ```
    /// use torsh_conformance::sparse::Options;
    /// let args = ["cases", "--share", "1/4", "--device", "mock", "--only", "add", "mm"].map(String::from);
    /// let (source, options) = Options::parse(&args)?;
    /// assert_eq!(source.to_str(), Some("cases"));
    /// assert_eq!(options.device.as_deref(), Some("mock"));
    /// assert_eq!((options.cases.share, options.cases.only.len()), (Some((1, 4)), 2));
    /// assert!(Options::parse(&args[1..]).is_err_and(|e| e.contains("directory")));
    /// # Ok::<(), String>(())
    /// ```
    pub fn parse(args: &[String]) -> Result<(std::path::PathBuf, Options), String> {
        let first = args.first().filter(|a| !a.starts_with('-'));
        let source = first.ok_or("sparse takes a directory of cases, or an archive, first")?;
        let mut rest = args[1..].to_vec();
        let mut device = None;
        if let Some(at) = rest.iter().position(|a| a == "--device") {
            let name = rest.get(at + 1).filter(|n| !n.starts_with("--"));
            device = Some(
                name.ok_or("--device needs a name, as mock or cuda:0")?
                    .clone(),
            );
            rest.drain(at..at + 2);
        }
        let cases = section::Options::flags(SECTION, &[], &rest)?;
        Ok((source.into(), Options { cases, device }))
    }
}

/// The cases of one file, whose tensors may be sparse.
type File = OpFile<Operand<TensorRef>>;

/// Runs everything that `source` holds and `options` ask for.
///
/// # Errors
/// A source that cannot be read at all, or without sparse cases; a single bad file is a failure in the report.
pub fn run(source: &Source, executor: &dyn Executor, options: &Options) -> Result<Report, String> {
    let stems = source.list(SECTION)?;
    if stems.is_empty() {
        return Err("there are no cases of sparse tensors".to_string());
    }
    let only = &options.cases.only;
    // A text that is no name stands for the names that contain it.
    let wanted = |stem: &str| {
        let part = |t: &String| !stems.contains(t) && stem.contains(t.as_str());
        only.is_empty() || only.iter().any(|t| t == stem || part(t))
    };
    let mut turn = Turn {
        share: options.cases.share,
        number: 0,
    };
    let mut report = Report::default();
    for stem in stems.iter().filter(|s| wanted(s)) {
        if stem == "printing" {
            printing(source, executor, &mut turn, &mut report)?;
            continue;
        }
        let file = read(source, stem);
        match file {
            Ok((file, tensors)) => {
                run_file(&file, stem, &tensors, executor, &mut turn, &mut report)
            }
            Err(e) => report
                .file(stem)
                .fail(format!("{SECTION}/{stem}.json: {e}")),
        }
    }
    report.notes = executor.notes();
    Ok(report)
}

/// Shares out cases by their number.
struct Turn {
    share: Option<(usize, usize)>,
    number: usize,
}

impl Turn {
    /// Whether the next case runs.
    fn takes(&mut self) -> bool {
        let number = self.number;
        self.number += 1;
        let taken = |(part, parts): (usize, usize)| number % parts == part;
        self.share.is_none_or(taken)
    }
}

fn read(source: &Source, stem: &str) -> Result<(File, TensorFile), String> {
    let cases = source.read(&format!("{SECTION}/{stem}.json"))?;
    let file = OpFile::parse_as(&cases.ok_or("not there")?)?;
    let tensors = match source.read(&format!("{SECTION}/{stem}.safetensors"))? {
        Some(bytes) => TensorFile::parse(&bytes)?,
        None => TensorFile::default(),
    };
    Ok((file, tensors))
}

fn run_file(
    file: &File,
    stem: &str,
    tensors: &TensorFile,
    executor: &dyn Executor,
    turn: &mut Turn,
    report: &mut Report,
) {
    let all = file.cases.iter().chain(&file.errors);
    for (at, case) in all.enumerate() {
        if !turn.takes() {
            continue;
        }
        let name = match at.checked_sub(file.cases.len()) {
            None => numbered(at, case),
            Some(i) => format!("refused call {i} {}", written(case)),
        };
        if let Some(defect) = DEFECTS.iter().find(|d| d.name == stem && d.case == at) {
            report
                .skipped
                .push((format!("{stem}: {name}"), defect.reason.to_string()));
            continue;
        }
        if let Some(reason) = lacking(case, executor) {
            *report.left_out.entry(reason).or_default() += 1;
            continue;
        }
        let result = match executor.has(&file.op) {
            true => run_case(case, tensors, executor, report),
            false => Err("there is no operator of this name".to_string()),
        };
        let file = report.file(stem);
        match result {
            Ok(accepted) => file.pass(&name, &accepted),
            Err(e) => file.fail(format!("{name}: {e}")),
        }
    }
}

/// An argument's values, and whether it requires grad.
type Argument = Value<(Operand, bool)>;

/// Runs one case in every arrangement; tells how results passed that are not within the default tolerance.
fn run_case(
    case: &Case<Operand<TensorRef>>,
    tensors: &TensorFile,
    executor: &dyn Executor,
    report: &mut Report,
) -> Result<Vec<Accepted>, String> {
    let get = |r: &Operand<TensorRef>| r.try_map(|part| tensors.get(part));
    let mut load = |r: &Operand<TensorRef>| Ok::<_, String>((get(r)?, r.requires_grad()));
    let mut args: Vec<Argument> = Vec::new();
    for a in &case.args {
        args.push(a.try_map(&mut load)?);
    }
    let mut kwargs = Vec::new();
    for (name, v) in &case.kwargs {
        kwargs.push((name.clone(), v.try_map(&mut load)?));
    }
    let tried = Tried {
        case,
        args: &args,
        kwargs: &kwargs,
    };
    let (outputs, gradient) = match &case.expect {
        Expect::Error(_) => {
            report.refused += 1;
            let call = tried.call(Arrangement::Given, None);
            let outcome = panics::catch(|| executor.sparse(&call));
            return refused(&case.op, outcome).map(|()| Vec::new());
        }
        Expect::Outputs(outputs, gradient) => (outputs, gradient),
    };
    report.cases += 1;
    let outputs = outputs.iter().map(get).collect::<Result<Vec<_>, _>>()?;
    let (mut cotangents, mut grads) = (None, Vec::new());
    if let Some(g) = gradient {
        report.gradients += 1;
        let all = g.cotangents.iter().map(|(i, r)| Ok((*i, get(r)?)));
        cotangents = Some(all.collect::<Result<Vec<_>, String>>()?);
        for grad in &g.grads {
            grads.push(grad.as_ref().map(get).transpose()?);
        }
    }
    let (mut exact, mut accepted) = (None, Vec::new());
    for arrangement in Arrangement::ALL {
        if !tried.changed_by(arrangement) {
            continue;
        }
        let operands: Vec<_> = tried
            .operands()
            .map(|(o, _)| (o.dtype_and_shape().0, matches!(o, Operand::Sparse(_))))
            .collect();
        let result = outputs.first().map(|o| o.dtype_and_shape().0);
        if arrangement == Arrangement::Split
            && arrange::shows_duplicates(&case.op, &operands, result)
        {
            *report.shown.entry(case.op.clone()).or_default() += 1;
            continue;
        }
        report.arrangements[arrangement as usize] += 1;
        // No gradient is asked for a tensor whose elements were split.
        let kept: Vec<_> = grads
            .iter()
            .zip(tried.leaves())
            .map(|(g, leaf)| (g, !arrangement.splits(leaf)))
            .collect();
        let grads: Vec<_> = kept
            .iter()
            .filter(|(_, kept)| *kept)
            .map(|(g, _)| (*g).clone())
            .collect();
        let asked = cotangents.as_ref().filter(|_| !grads.is_empty());
        let call = tried.call(arrangement, asked);
        let outcome = match panics::catch(|| executor.sparse(&call)) {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(e)) => return Err(format!("{arrangement}: error: {e}")),
            Err(e) => return Err(format!("{arrangement}: {e}")),
        };
        let wanted = Wanted {
            outputs: outputs.clone(),
            grads: asked.map(|_| grads),
            dense: case.dense,
        };
        // The first arrangement is the one of the file, and has all gradients.
        let exact = exact.get_or_insert_with(|| {
            let wanted = wanted.clone();
            Exact::again(Wide {
                call,
                wanted,
                executor,
            })
        });
        let gradient_numbers: Vec<_> = (0..kept.len()).filter(|i| kept[*i].1).collect();
        let more = check(&wanted, &outcome, arrangement, exact, &gradient_numbers)
            .map_err(|e| format!("{arrangement}: {e}"))?;
        accepted.extend(more.into_iter().map(|a| a.at(arrangement)));
    }
    Ok(accepted)
}

/// A case whose values are at hand.
struct Tried<'a> {
    case: &'a Case<Operand<TensorRef>>,
    args: &'a [Argument],
    kwargs: &'a [(String, Argument)],
}

impl<'a> Tried<'a> {
    fn operands(&self) -> impl Iterator<Item = &'a (Operand, bool)> + use<'a> {
        let kwargs = self.kwargs.iter().map(|(_, v)| v);
        self.args.iter().chain(kwargs).flat_map(Value::tensors)
    }

    /// The operands that require grad.
    fn leaves(&self) -> impl Iterator<Item = &'a Operand> + use<'a> {
        self.operands()
            .filter(|(_, leaf)| *leaf)
            .map(|(data, _)| data)
    }

    /// Whether an arrangement is another than that of the file.
    fn changed_by(&self, arrangement: Arrangement) -> bool {
        arrangement == Arrangement::Given
            || self.operands().any(|(data, _)| arrangement.changes(data))
    }

    /// The call in an arrangement, cotangents included.
    fn call(
        &self,
        arrangement: Arrangement,
        cotangents: Option<&Vec<(usize, Operand)>>,
    ) -> Call<Operand<Memory>> {
        let arranged = |at: usize, v: &Argument| {
            // The pattern of the result is this operand's.
            let pattern = self.case.op == "sparse_mask" && at == 1;
            let arrangement = match pattern && arrangement == Arrangement::Split {
                true => Arrangement::Given,
                false => arrangement,
            };
            let mut f = |(data, leaf): &(Operand, bool)| {
                Ok::<_, std::convert::Infallible>(arrangement.of(data, *leaf))
            };
            match v.try_map(&mut f) {
                Ok(v) => v,
                Err(never) => match never {},
            }
        };
        let kwargs = self.kwargs.iter();
        let args = self.args.iter().enumerate();
        let outputs = match &self.case.expect {
            Expect::Outputs(outputs, _) if self.case.dense => outputs.len(),
            _ => 0,
        };
        let to_dense = After {
            op: "to_dense".to_string(),
            args: Vec::new(),
        };
        Call {
            op: self.case.op.clone(),
            args: args.map(|(at, v)| arranged(at, v)).collect(),
            kwargs: kwargs
                .map(|(k, v)| (k.clone(), arranged(usize::MAX, v)))
                .collect(),
            writes: self.case.writes(),
            cotangents: cotangents.map(|all| {
                let one = |(i, data): &(usize, Operand)| (*i, arrangement.of_cotangent(data));
                all.iter().map(one).collect()
            }),
            after: vec![Some(vec![to_dense]); outputs],
            eigenvalues: None,
        }
    }
}

/// Runs `printing.json`: the text of each tensor, in the arrangements that it does not show.
fn printing(
    source: &Source,
    executor: &dyn Executor,
    turn: &mut Turn,
    report: &mut Report,
) -> Result<(), String> {
    let name = "printing";
    let fail = |e: &dyn std::fmt::Display| format!("{SECTION}/{name}: {e}");
    let text = source.read(&format!("{SECTION}/{name}.json"))?;
    let text = text.ok_or_else(|| fail(&"not there"))?;
    let prints: Vec<Print> = serde_json::from_slice(&text).map_err(|e| fail(&e))?;
    let stored = source.read(&format!("{SECTION}/{name}.safetensors"))?;
    let stored = stored.ok_or_else(|| fail(&"no tensors"))?;
    let tensors = TensorFile::parse(&stored).map_err(|e| fail(&e))?;
    if let Some(reason) = executor.only_calls() {
        *report
            .left_out
            .entry(format!("printing was {reason}"))
            .or_default() += prints.len();
        return Ok(());
    }
    for (i, print) in prints.iter().enumerate() {
        if !turn.takes() {
            continue;
        }
        report.prints += 1;
        let result = printed(print, &tensors, executor, report);
        let file = report.file(name);
        match result {
            Ok(()) => file.pass(name, &[]),
            Err(e) => file.fail(format!("case {i}: {e}")),
        }
    }
    Ok(())
}

fn printed(
    print: &Print,
    tensors: &TensorFile,
    executor: &dyn Executor,
    report: &mut Report,
) -> Result<(), String> {
    let doubled = print.doubled()?;
    let reference: Operand<TensorRef> = crate::case::Reference::read(&print.value)?;
    let data = reference.try_map(|part| tensors.get(part))?;
    let leaf = reference.requires_grad() || print.requires_grad || doubled;
    for arrangement in Arrangement::ALL {
        let shown = matches!(arrangement, Arrangement::Int32 | Arrangement::Split);
        let changes = arrangement == Arrangement::Given || arrangement.changes(&data);
        if shown || !changes {
            continue;
        }
        report.arrangements[arrangement as usize] += 1;
        let text = match arrangement.of(&data, leaf) {
            Operand::Strided(memory) => panics::catch(|| executor.print(&memory, doubled)),
            Operand::Sparse(parts) => panics::catch(|| executor.print_sparse(&parts, doubled)),
        };
        let text = text
            .and_then(|t| t)
            .map_err(|e| format!("{arrangement}: {e}"))?;
        if text != print.printed {
            let want = &print.printed;
            return Err(format!("{arrangement}: expected {want:?}, got {text:?}"));
        }
    }
    Ok(())
}
