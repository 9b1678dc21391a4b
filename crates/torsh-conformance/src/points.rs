//! The section `points`: results and gradients at special points. These are ties, corners, bounds, zeros of both signs,
//! infinities, nan, denormals, and numbers whose squares or quotients underflow or overflow.
//!
//! `golden/points.py` makes the section from PyTorch. Every element of every result and gradient is a point. It is
//! compared in every layout, with a tolerance for formulas whose terms cancel: at these points, what is wrong is a nan, an
//! infinity, or the whole of a gradient. Some differ on purpose: [`LISTED`] names them, with a reason for each.

use std::fmt::Write;
use std::path::PathBuf;

use crate::case::{Case, Expect, OpFile, TensorRef, Value};
use crate::compare::{Of, compare_kind, distance};
use crate::executor::Executor;
use crate::layouts::Layout;
use crate::panics;
use crate::runner::{ExpectedGradient, lay_out, short, written};
use crate::section::read;
use crate::source::Source;
use crate::tensors::{Dtype, Element, TensorData, TensorFile};

pub use listed::{LISTED, Listed};

mod listed;

/// Which names run, and how much is told.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Only these names; all if empty.
    pub only: Vec<String>,
    /// Tell every point that differs, listed ones as well.
    pub verbose: bool,
}

impl Options {
    /// Reads the arguments after `points`.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn parse(args: &[String]) -> Result<(PathBuf, Options), String> {
        let (mut source, mut options) = (None, Options::default());
        let mut args = args.iter().peekable();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--only" => {
                    while let Some(name) = args.next_if(|a| !a.starts_with("--")) {
                        options.only.push(name.clone());
                    }
                    if options.only.is_empty() {
                        return Err("--only needs a name".to_string());
                    }
                }
                "--verbose" => options.verbose = true,
                flag if flag.starts_with('-') => return Err(format!("points has no flag {flag}")),
                path if source.is_none() => source = Some(PathBuf::from(path)),
                more => return Err(format!("points takes one archive, not also {more}")),
            }
        }
        let source = source.ok_or("points takes an archive, as golden/points.zip")?;
        Ok((source, options))
    }
}

/// What came of one name.
#[derive(Clone, Debug)]
pub struct Name {
    /// PyTorch's name of the operator.
    pub name: String,
    /// How many elements were compared in the first layout.
    pub points: usize,
    /// The results that differ, and those of the gradients, in the layout where most do.
    pub differing: [Vec<String>; 2],
    /// Calls that gave an error, or results of another number, shape or dtype.
    pub errors: Vec<String>,
}

impl Name {
    /// How many points differ: of results, and of gradients.
    pub fn counts(&self) -> [usize; 2] {
        [self.differing[0].len(), self.differing[1].len()]
    }

    /// The entry of the list for these results.
    fn listed(&self, of: Of) -> Option<&'static Listed> {
        LISTED.iter().find(|l| l.op == self.name && l.of == of)
    }

    /// Whether every difference is listed.
    pub fn passes(&self) -> bool {
        let allowed = |of| self.listed(of).map_or(0, |l| l.points);
        let [outputs, gradients] = self.counts();
        self.errors.is_empty()
            && outputs <= allowed(Of::Output)
            && gradients <= allowed(Of::Gradient)
    }
}

/// What came of the section.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Every name, sorted.
    pub names: Vec<Name>,
}

impl Report {
    /// Whether every difference is listed.
    pub fn passes(&self) -> bool {
        self.names.iter().all(Name::passes)
    }

    /// How many points there are.
    pub fn points(&self) -> usize {
        self.names.iter().map(|n| n.points).sum()
    }

    /// A line for each name, with its differences below.
    pub fn text(&self, verbose: bool) -> String {
        let mut text = String::new();
        let mut failed = 0;
        for name in &self.names {
            let [outputs, gradients] = name.counts();
            let _ = write!(text, "{}: {} points", name.name, name.points);
            failed += usize::from(!name.passes());
            let _ = match outputs + gradients + name.errors.len() {
                0 => writeln!(text, ", 0 differences"),
                _ => writeln!(
                    text,
                    ", {outputs} results and {gradients} gradients differ{}",
                    if name.passes() {
                        " (listed)"
                    } else {
                        ", FAILED"
                    }
                ),
            };
            for of in [Of::Output, Of::Gradient] {
                if let Some(listed) = name.listed(of) {
                    let _ = writeln!(
                        text,
                        "    listed: {} points, {}",
                        listed.points, listed.reason
                    );
                }
            }
            let shown = match (verbose, name.passes()) {
                (true, _) => usize::MAX,
                (false, false) => 5,
                (false, true) => 0,
            };
            for list in [&name.errors, &name.differing[0], &name.differing[1]] {
                list.iter().take(shown).for_each(|line| {
                    let _ = writeln!(text, "    {line}");
                });
            }
        }
        let _ = writeln!(
            text,
            "{} names, {} points, {failed} names failed",
            self.names.len(),
            self.points()
        );
        text
    }
}

/// Replays the section.
///
/// # Errors
/// A source or a file that cannot be read.
pub fn run(source: &Source, executor: &dyn Executor, options: &Options) -> Result<Report, String> {
    let mut report = Report::default();
    for stem in source.list("points")? {
        let name = format!("points/{stem}.json");
        let fail = |e: String| format!("{name}: {e}");
        let file = OpFile::parse(&read(source, &name)?).map_err(fail)?;
        if !options.only.is_empty() && !options.only.contains(&file.op) {
            continue;
        }
        let tensors = read(source, &format!("points/{stem}.safetensors"))?;
        let tensors = TensorFile::parse(&tensors).map_err(fail)?;
        report.names.push(one(&file, &tensors, executor));
    }
    if report.names.is_empty() {
        return Err("the source holds no such points".to_string());
    }
    report.names.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(report)
}

fn one(file: &OpFile, tensors: &TensorFile, executor: &dyn Executor) -> Name {
    let mut name = Name {
        name: file.op.clone(),
        points: 0,
        differing: [Vec::new(), Vec::new()],
        errors: Vec::new(),
    };
    if !executor.has(&file.op) {
        name.errors.push("the operator is absent".to_string());
        return name;
    }
    for (i, case) in file.cases.iter().enumerate() {
        let mut most = Differences::default();
        for layout in Layout::ALL {
            let mut found = Differences::default();
            if let Err(e) = compared(case, tensors, layout, executor, &mut found) {
                name.errors
                    .push(format!("case {i}, {layout}: {} {e}", written(case)));
                break;
            }
            if layout == Layout::Contiguous {
                name.points += found.points;
            }
            for (most, found) in most.lines.iter_mut().zip(found.lines) {
                if found.len() > most.len() {
                    *most = found;
                }
            }
        }
        for (all, of_case) in name.differing.iter_mut().zip(most.lines) {
            all.extend(of_case.into_iter().map(|line| format!("case {i}: {line}")));
        }
    }
    name
}

/// What differs in one call, of results and of gradients.
#[derive(Default)]
struct Differences {
    points: usize,
    lines: [Vec<String>; 2],
}

fn compared(
    case: &Case,
    tensors: &TensorFile,
    layout: Layout,
    executor: &dyn Executor,
    found: &mut Differences,
) -> Result<(), String> {
    let mut load = |r: &TensorRef| tensors.get(r).map(|data| (data, r.requires_grad));
    let args: Vec<_> = case
        .args
        .iter()
        .map(|a| a.try_map(&mut load))
        .collect::<Result<_, _>>()?;
    let kwargs: Vec<_> = case
        .kwargs
        .iter()
        .map(|(name, v)| Ok((name.clone(), v.try_map(&mut load)?)))
        .collect::<Result<_, String>>()?;
    let Expect::Outputs(outputs, gradient) = &case.expect else {
        return Err("a point has no result".to_string());
    };
    let gradient = gradient
        .as_ref()
        .map(|g| ExpectedGradient::load(g, tensors))
        .transpose()?;
    let cotangents = gradient.as_ref().map_or(&[][..], |g| &g.cotangents);
    let mut call = lay_out(case, &args, &kwargs, cotangents, layout);
    if gradient.is_none() {
        call.cotangents = None;
    }
    let outcome = panics::catch(|| executor.call(&call))??;
    let operands: Vec<&TensorData> = args
        .iter()
        .chain(kwargs.iter().map(|(_, v)| v))
        .flat_map(Value::tensors)
        .map(|(data, _)| data)
        .collect();
    let numbers: Vec<String> = case
        .args
        .iter()
        .chain(case.kwargs.iter().map(|(_, v)| v))
        .filter(|v| v.tensors().is_empty())
        .map(short)
        .collect();
    let at = |i: usize, of: &TensorData| {
        let values = operands
            .iter()
            .filter(|o| o.numel() == of.numel() && of.numel() > 1);
        let values = values
            .map(|o| o.get(i).to_string())
            .chain(numbers.iter().cloned());
        format!(
            "{:?} of ({})",
            of.index_of(i),
            values.collect::<Vec<_>>().join(", ")
        )
    };
    if outcome.outputs.len() != outputs.len() {
        let (want, got) = (outputs.len(), outcome.outputs.len());
        return Err(format!("number of results: expected {want}, got {got}"));
    }
    let mut compare = |kind: usize, what: String, got: &TensorData, want: &TensorData| {
        compare_kind(got, want).map_err(|e| format!("{what}: {e}"))?;
        found.points += want.numel();
        for i in (0..want.numel()).filter(|&i| !near(got.get(i), want.get(i), want.dtype)) {
            found.lines[kind].push(format!(
                "{} {what} at {}: expected {}, got {}",
                want.dtype,
                at(i, want),
                want.get(i),
                got.get(i)
            ));
        }
        Ok::<_, String>(())
    };
    for (i, (got, want)) in outcome.outputs.iter().zip(outputs).enumerate() {
        compare(0, format!("result {i}"), got, &tensors.get(want)?)?;
    }
    let Some(expected) = gradient else {
        return Ok(());
    };
    let grads = match outcome.grads {
        Some(grads) => grads.map_err(|e| format!("gradient: {e}"))?,
        None => return Err("no gradient".to_string()),
    };
    for (i, (got, want)) in grads.iter().zip(&expected.grads).enumerate() {
        match (got, want) {
            (Some(got), Some(want)) => compare(1, format!("gradient {i}"), got, want)?,
            (None, None) => {}
            (None, Some(_)) => return Err(format!("gradient {i}: expected one, got none")),
            // Zeros say the same.
            (Some(got), None) => {
                let zero = |e| distance(e, Element::Float(0.0)) == 0.0;
                if !(0..got.numel()).all(|i| zero(got.get(i))) {
                    return Err(format!("gradient {i}: expected none, got one"));
                }
            }
        }
    }
    Ok(())
}

/// Whether a point is PyTorch's: the same nan or infinity, or a number within a tolerance.
fn near(got: Element, want: Element, dtype: Dtype) -> bool {
    if got.same(want) {
        return true;
    }
    let (rtol, atol) = match dtype {
        Dtype::Float16 => (5e-3, 1e-3),
        Dtype::BFloat16 => (3.2e-2, 8e-3),
        Dtype::Float32 | Dtype::Complex64 => (1e-4, 1e-5),
        Dtype::Float64 | Dtype::Complex128 => (1e-6, 1e-7),
        _ => return false,
    };
    let off = distance(got, want);
    off.is_finite() && off <= atol + rtol * distance(want, Element::Float(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_near_by_their_own_size() {
        let f =
            |got: f64, want: f64| near(Element::Float(got), Element::Float(want), Dtype::Float32);
        assert!(f(f64::NAN, f64::NAN) && f(f64::INFINITY, f64::INFINITY) && f(-0.0, 0.0));
        assert!(f(1.00001, 1.0) && f(1e-20, 0.0));
        assert!(!f(f64::NAN, 0.0) && !f(0.0, f64::NAN) && !f(f64::INFINITY, 3e38));
        assert!(!f(0.0, 1e-3) && !f(1.001, 1.0));
        assert!(!near(Element::Int(1), Element::Int(2), Dtype::Int64));
    }

    #[test]
    fn every_listed_name_has_a_reason_and_stands_once() {
        for (i, l) in LISTED.iter().enumerate() {
            assert!(l.reason.len() > 20 && l.points > 0, "{}", l.op);
            let same = |o: &&Listed| o.op == l.op && o.of == l.of;
            assert_eq!(LISTED.iter().skip(i + 1).find(same).map(|o| o.op), None);
        }
    }

    #[test]
    fn bad_arguments_are_named() {
        for (text, part) in [
            ("", "archive"),
            ("a b", "also b"),
            ("a --only", "--only"),
            ("a --what", "--what"),
        ] {
            let args: Vec<_> = text.split_whitespace().map(str::to_string).collect();
            let error = Options::parse(&args).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
