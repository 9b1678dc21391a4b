//! Runs cases: every layout, outputs, gradients, refused calls.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::case::{Case, Expect, Gradient, OpFile, Reference, TensorRef, Value};
use crate::compare::{Of, compare, default_tolerance};
use crate::dtypes_and_printing;
use crate::exact::{Accepted, Exact};
use crate::executor::{Call, Executor, Outcome};
use crate::layouts::{Layout, Memory};
use crate::modules::run as modules;
use crate::panics;
use crate::report::{Group, OpReport, Report};
use crate::source::Source;
use crate::tensors::{TensorData, TensorFile};
use crate::tiers::{Tier, Tiers};
use crate::ties::TieRule;
use crate::training;

/// Operators that may refuse an input that is not contiguous: they promise a view, and there is
/// none.
pub const MAY_REFUSE: &[&str] = &["view", "view_as", "view_as_complex"];

/// Refused calls of the database that PyTorch itself accepts, by operator and number; they are
/// left out and told.
pub const NOT_REFUSED: &[(&str, usize, &str)] = &[
    (
        "clamp_max",
        0,
        "PyTorch 2.15 gives a result for clamp_max(tensor, 2)",
    ),
    (
        "clamp_min",
        0,
        "PyTorch 2.15 gives a result for clamp_min(tensor, 2)",
    ),
];

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Only these operators (`add`) or files (`add.extra`); all if empty.
    pub ops: Vec<String>,
    /// Only this tier.
    pub tier: Option<Tier>,
    /// Files run at the same time.
    pub threads: usize,
    /// Only this part of so many parts of the files of operators and modules, and nothing else.
    pub share: Option<(usize, usize)>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            ops: Vec::new(),
            tier: None,
            threads: 1,
            share: None,
        }
    }
}

impl Options {
    /// Whether an operator's file is asked for.
    pub fn wants(&self, op: &str, stem: &str) -> bool {
        self.ops.is_empty() || self.ops.iter().any(|o| o == op || o == stem)
    }
}

/// Runs everything that `source` holds and `options` ask for.
///
/// # Errors
/// A source that cannot be read at all; a single bad file is a failure in the report.
pub fn run(source: &Source, executor: &dyn Executor, options: &Options) -> Result<Report, String> {
    let tiers = source.tiers()?;
    let mut jobs = Vec::new();
    for section in ["ops", "decompose", "modules"] {
        jobs.extend(
            source
                .list(section)?
                .into_iter()
                .map(|stem| (section, stem)),
        );
    }
    if let Some((part, parts)) = options.share {
        jobs = jobs.into_iter().skip(part).step_by(parts).collect();
    }
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..options.threads.max(1) {
            scope.spawn(|| {
                while let Some((section, stem)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let report = match *section {
                        "ops" | "decompose" => {
                            run_stem(source, &tiers, (section, stem), executor, options)
                        }
                        _ => modules::run_stem(source, stem, executor, options),
                    };
                    if let Some(report) = report {
                        done.lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .push(report);
                    }
                }
            });
        }
    });
    let mut ops = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    ops.sort_by(|a, b| {
        let order = |r: &OpReport| match r.group {
            Group::Modules => 2,
            Group::Decompositions => 1,
            _ => 0,
        };
        (order(a), &a.name).cmp(&(order(b), &b.name))
    });
    let mut report = Report {
        ops,
        ..Report::default()
    };
    if options.share.is_some() {
        report.notes = executor.notes();
        return Ok(report);
    }
    dtypes_and_printing::promotion(source, executor, options, &mut report)?;
    dtypes_and_printing::printing(source, executor, options, &mut report)?;
    for (op, i, reason) in NOT_REFUSED {
        if report.ops.iter().any(|r| r.name == *op && !r.absent) {
            report.skip(format!("refused call {i} of {op}"), reason);
        }
    }
    training::run(source, executor, options, &mut report)?;
    report.notes = executor.notes();
    Ok(report)
}

fn run_stem(
    source: &Source,
    tiers: &Tiers,
    (section, stem): (&str, &str),
    executor: &dyn Executor,
    options: &Options,
) -> Option<OpReport> {
    let name = format!("{section}/{stem}.json");
    let read = || {
        let cases = source.read(&name)?.ok_or("not there")?;
        let file = OpFile::parse(&cases)?;
        let tensors = match source.read(&format!("{section}/{stem}.safetensors"))? {
            Some(bytes) => TensorFile::parse(&bytes)?,
            None => TensorFile::default(),
        };
        Ok::<_, String>((file, tensors))
    };
    let group = |op: &str| match section {
        "decompose" => Group::Decompositions,
        _ => Group::Tier(tiers.of(op, stem)),
    };
    let (file, tensors) = match read() {
        Ok(read) => read,
        Err(e) => {
            let mut report = OpReport::new(stem, stem, group(stem));
            report.fail(format!("{name}: {e}"));
            return Some(report);
        }
    };
    let group = group(&file.op);
    if !options.wants(&file.op, stem) || options.tier.is_some_and(|t| group != Group::Tier(t)) {
        return None;
    }
    Some(run_file(&file, stem, group, &tensors, executor))
}

fn not_refused(op: &str, call: usize, stem: &str) -> Option<&'static str> {
    let entry = NOT_REFUSED.iter().find(|(o, i, _)| *o == op && *i == call);
    entry.filter(|_| stem == op).map(|(_, _, reason)| *reason)
}

/// Runs the cases of one file, or notes that its operator is absent.
pub fn run_file(
    file: &OpFile,
    stem: &str,
    group: Group,
    tensors: &TensorFile,
    executor: &dyn Executor,
) -> OpReport {
    let mut report = OpReport::new(stem, &file.op, group);
    if !executor.has(&file.op) {
        report.absent = true;
        return report;
    }
    for (i, case) in file.cases.iter().enumerate() {
        if let Some(reason) = lacking(case, executor) {
            report.leave_out(reason);
            continue;
        }
        match run_case(case, tensors, executor, &mut report) {
            Ok(accepted) => {
                report.passed += 1;
                let listed = |a: &&Accepted| matches!(a, Accepted::Listed(_));
                match accepted.iter().find(listed).or(accepted.first()) {
                    Some(Accepted::Nearer(told)) => {
                        report.nearer.push(format!("{}: {told}", numbered(i, case)));
                    }
                    Some(Accepted::Listed(told)) => {
                        report.listed.push(format!("{}: {told}", numbered(i, case)));
                    }
                    None => {}
                }
            }
            Err(e) => report.fail(format!("{}: {e}", numbered(i, case))),
        }
    }
    for (i, case) in file.errors.iter().enumerate() {
        if not_refused(&file.op, i, stem).is_some() {
            continue;
        }
        if let Some(reason) = lacking(case, executor) {
            report.leave_out(reason);
            continue;
        }
        report.error_cases += 1;
        match run_case(case, tensors, executor, &mut report) {
            Ok(_) => report.passed += 1,
            Err(e) => report.fail(format!("refused call {i} {}: {e}", written(case))),
        }
    }
    report
}

/// Why a case cannot be run where a dtype that it needs is lacking.
pub(crate) fn lacking<T: Reference>(case: &Case<T>, executor: &dyn Executor) -> Option<String> {
    let kwargs = case.kwargs.iter().map(|(_, v)| v);
    let asked = case
        .args
        .iter()
        .chain(kwargs)
        .flat_map(|v| v.dtypes(&|r| r.dtype()));
    let mut given = Vec::new();
    if let Expect::Outputs(outputs, gradient) = &case.expect {
        given.extend(outputs.iter().map(|r| r.dtype()));
        if let Some(g) = gradient {
            given.extend(g.cotangents.iter().map(|(_, r)| r.dtype()));
            given.extend(g.grads.iter().flatten().map(|r| r.dtype()));
        }
    }
    asked.chain(given).find_map(|d| executor.lacks(d))
}

/// An argument's values, and whether it requires grad.
type Argument = Value<(TensorData, bool)>;

/// Runs one case in every layout; tells how results passed that are not within the default
/// tolerance.
pub(crate) fn run_case(
    case: &Case,
    tensors: &TensorFile,
    executor: &dyn Executor,
    report: &mut OpReport,
) -> Result<Vec<Accepted>, String> {
    let mut load = |r: &TensorRef| tensors.get(r).map(|data| (data, r.requires_grad));
    let mut args: Vec<Argument> = Vec::new();
    for a in &case.args {
        args.push(a.try_map(&mut load)?);
    }
    let mut kwargs = Vec::new();
    for (name, v) in &case.kwargs {
        kwargs.push((name.clone(), v.try_map(&mut load)?));
    }
    let (outputs, gradient) = match &case.expect {
        Expect::Error(_) => {
            report.layouts[0] += 1;
            let call = lay_out(case, &args, &kwargs, &[], Layout::Contiguous);
            return refused(&case.op, panics::catch(|| executor.call(&call))).map(|()| Vec::new());
        }
        Expect::Outputs(outputs, gradient) => (outputs, gradient),
    };
    let outputs = outputs
        .iter()
        .map(|r| tensors.get(r))
        .collect::<Result<Vec<_>, _>>()?;
    let gradient = gradient
        .as_ref()
        .map(|g| ExpectedGradient::load(g, tensors))
        .transpose()?;
    report.gradient_cases += usize::from(gradient.is_some());
    let cotangents = gradient.as_ref().map_or(&[][..], |g| &g.cotangents);
    let all: Vec<_> = args.iter().chain(kwargs.iter().map(|(_, v)| v)).collect();
    let changes = |layout: Layout| {
        let shapes = all.iter().flat_map(|v| v.tensors());
        shapes
            .into_iter()
            .any(|(data, _)| layout.changes(&data.shape))
    };
    let mut exact = None;
    let mut accepted = Vec::new();
    for (i, layout) in Layout::ALL.into_iter().enumerate() {
        if layout != Layout::Contiguous && !changes(layout) {
            continue;
        }
        report.layouts[i] += 1;
        let mut call = lay_out(case, &args, &kwargs, cotangents, layout);
        if gradient.is_none() {
            call.cotangents = None;
        }
        if case.eigenvalues {
            call.eigenvalues = outputs.first().cloned();
        }
        let outcome = match panics::catch(|| executor.call(&call)) {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_))
                if layout != Layout::Contiguous && MAY_REFUSE.contains(&case.op.as_str()) =>
            {
                report.refused += 1;
                continue;
            }
            Ok(Err(e)) => return Err(format!("{layout}: error: {e}")),
            Err(e) => return Err(format!("{layout}: {e}")),
        };
        // The first layout is the contiguous one.
        let exact = exact.get_or_insert_with(|| Exact::new(call, executor));
        let more = check(case, &args, &outputs, gradient.as_ref(), &outcome, exact)
            .map_err(|e| format!("{layout}: {e}"))?;
        accepted.extend(more.into_iter().map(|a| a.at(layout)));
    }
    Ok(accepted)
}

/// The call with every tensor in that layout, cotangents included.
pub(crate) fn lay_out(
    case: &Case,
    args: &[Argument],
    kwargs: &[(String, Argument)],
    cotangents: &[(usize, TensorData)],
    layout: Layout,
) -> Call {
    let arrange = |v: &Argument| {
        let mut f = |(data, requires_grad): &(TensorData, bool)| {
            Ok::<_, std::convert::Infallible>(Memory::arrange(data, layout, *requires_grad))
        };
        match v.try_map(&mut f) {
            Ok(v) => v,
            Err(never) => match never {},
        }
    };
    let cotangent =
        |(output, data): &(usize, TensorData)| (*output, Memory::arrange(data, layout, false));
    Call {
        op: case.op.clone(),
        args: args.iter().map(arrange).collect(),
        kwargs: kwargs
            .iter()
            .map(|(k, v)| (k.clone(), arrange(v)))
            .collect(),
        writes: case.writes(),
        cotangents: Some(cotangents.iter().map(cotangent).collect()),
        after: case.after.clone(),
        eigenvalues: None,
    }
}

pub(crate) struct ExpectedGradient {
    pub(crate) cotangents: Vec<(usize, TensorData)>,
    pub(crate) grads: Vec<Option<TensorData>>,
}

impl ExpectedGradient {
    pub(crate) fn load(
        gradient: &Gradient,
        tensors: &TensorFile,
    ) -> Result<ExpectedGradient, String> {
        let cotangents = gradient.cotangents.iter();
        let grads = gradient.grads.iter();
        Ok(ExpectedGradient {
            cotangents: cotangents
                .map(|(output, r)| Ok((*output, tensors.get(r)?)))
                .collect::<Result<_, String>>()?,
            grads: grads
                .map(|g| g.as_ref().map(|r| tensors.get(r)).transpose())
                .collect::<Result<_, String>>()?,
        })
    }
}

/// Compares outputs, then gradients; tells how those passed that are not within the default
/// tolerance.
fn check(
    case: &Case,
    args: &[Argument],
    outputs: &[TensorData],
    gradient: Option<&ExpectedGradient>,
    outcome: &Outcome,
    exact: &Exact<'_>,
) -> Result<Vec<Accepted>, String> {
    // A variant of the database gives only the first two results.
    let first_two = case.op == "linalg.lstsq" && outputs.len() == 2 && outcome.outputs.len() == 4;
    if outcome.outputs.len() != outputs.len() && !first_two {
        let (want, got) = (outputs.len(), outcome.outputs.len());
        return Err(format!("number of outputs: expected {want}, got {got}"));
    }
    let input = match args.first() {
        Some(Value::Tensor((data, _))) => Some(data),
        _ => None,
    };
    let rule = TieRule::of(case);
    // The indices taken, where they are others than expected and as good.
    let mut taken = None;
    let mut accepted = Vec::new();
    for (i, (got, want)) in outcome.outputs.iter().zip(outputs).enumerate() {
        if case.after.get(i) == Some(&None) {
            continue;
        }
        let Err(difference) = compare(got, want, default_tolerance(want.dtype)) else {
            continue;
        };
        match (rule, input) {
            (Some(rule), Some(input)) if rule.indices == i => {
                rule.check(input, got, want)
                    .map_err(|e| format!("output {i} {e}"))?;
                taken = Some((rule, input, got));
            }
            _ => match exact.accept(Of::Output, i, got, want) {
                Ok(how) => accepted.push(how.at(format_args!("output {i}"))),
                Err(why) => return Err(format!("output {i} {difference}{why}")),
            },
        }
    }
    let Some(expected) = gradient else {
        return Ok(accepted);
    };
    let got = match &outcome.grads {
        Some(Ok(grads)) => grads,
        Some(Err(e)) => return Err(format!("gradient: error: {e}")),
        None => return Err("gradient: none computed".to_string()),
    };
    if got.len() != expected.grads.len() {
        let (want, got) = (expected.grads.len(), got.len());
        return Err(format!("number of gradients: expected {want}, got {got}"));
    }
    for (i, (got, want)) in got.iter().zip(&expected.grads).enumerate() {
        match (got, want) {
            (None, None) => {}
            (Some(_), None) => return Err(format!("gradient {i}: expected none, got one")),
            (None, Some(_)) => return Err(format!("gradient {i}: expected one, got none")),
            (Some(got), Some(want)) => {
                let moved = match (taken, &expected.cotangents[..]) {
                    (Some((rule, input, indices)), [(0, cotangent)]) => {
                        Some(rule.gradient(input, indices, cotangent)?)
                    }
                    _ => None,
                };
                let tolerance = default_tolerance(want.dtype);
                let Err(difference) = compare(got, moved.as_ref().unwrap_or(want), tolerance)
                else {
                    continue;
                };
                // A call in float64 need not break ties as this one did.
                let how = match moved {
                    None => exact.accept(Of::Gradient, i, got, want),
                    Some(_) => Err(String::new()),
                };
                match how {
                    Ok(how) => accepted.push(how.at(format_args!("gradient {i}"))),
                    Err(why) => return Err(format!("gradient {i} {difference}{why}")),
                }
            }
        }
    }
    Ok(accepted)
}

/// Whether a call that must fail failed well: an error that names the operator and says what was
/// wrong with the arguments.
pub(crate) fn refused<O>(
    op: &str,
    outcome: Result<Result<O, String>, String>,
) -> Result<(), String> {
    let text = match outcome {
        Err(panic) => return Err(panic),
        Ok(Ok(_)) => return Err("must be refused, gave a result".to_string()),
        Ok(Err(text)) => text,
    };
    let lower = text.to_lowercase();
    let short = op.rsplit('.').next().unwrap_or(op).to_lowercase();
    if !lower.contains(&short) {
        return Err(format!("the error does not name {op}: {text}"));
    }
    let empty = ["unsupported", "unknown argument", "not implemented"];
    match empty.iter().find(|w| lower.contains(**w)) {
        Some(word) => Err(format!("the error says \"{word}\": {text}")),
        None => Ok(()),
    }
}

/// The case's number, what it was made for, and its call.
pub(crate) fn numbered<T: Reference>(i: usize, case: &Case<T>) -> String {
    let Case { dtype, sample, .. } = case;
    format!("case {i} ({dtype}, sample {sample}) {}", written(case))
}

/// The call as one would write it, tensors as dtype and shape.
pub(crate) fn written<T: Reference>(case: &Case<T>) -> String {
    let named = case.kwargs.iter().map(|(k, v)| format!("{k}={}", short(v)));
    let args: Vec<_> = case.args.iter().map(short).chain(named).collect();
    format!("{}({})", case.op, args.join(", "))
}

pub(crate) fn short<T: Reference>(value: &Value<T>) -> String {
    let list = |v: &[Value<T>]| v.iter().map(short).collect::<Vec<_>>().join(", ");
    match value {
        Value::None => "None".to_string(),
        Value::Bool(b) => b.to_string(),
        Value::Int(i) => i.to_string(),
        Value::Float(x) => format!("{x:?}"),
        Value::Complex(re, im) => format!("({re:?}, {im:?}j)"),
        Value::Str(s) => format!("{s:?}"),
        Value::Dtype(d) => d.to_string(),
        Value::Layout(name) => name.clone(),
        Value::Tensor(t) => t.told(),
        Value::List(v) => format!("[{}]", list(v)),
        Value::Tuple(v) => format!("({})", list(v)),
        Value::Slice(ends) => {
            let end = |e: &Option<i64>| e.map_or(String::new(), |i| i.to_string());
            ends.iter().map(end).collect::<Vec<_>>().join(":")
        }
        Value::Ellipsis => "...".to_string(),
    }
}
