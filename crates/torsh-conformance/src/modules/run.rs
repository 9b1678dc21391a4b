//! Runs the cases of modules: every layout, outputs, gradients, buffers.

use serde::Deserialize;
use serde_json::Value as Json;

use crate::case::{Ordered, TensorRef, Value, gradient, tensor_ref, value};
use crate::compare::{compare, tolerance};
use crate::executor::{Executor, ModuleCall, ModuleOutcome};
use crate::layouts::{Layout, Memory};
use crate::panics;
use crate::report::{Group, OpReport};
use crate::runner::{Options, short};
use crate::source::Source;
use crate::tensors::{Dtype, TensorData, TensorFile};

#[derive(Deserialize)]
struct File {
    module: String,
    cases: Vec<Raw>,
}

#[derive(Deserialize)]
struct Raw {
    dtype: String,
    training: bool,
    sample: i64,
    init_args: Vec<Json>,
    init_kwargs: Ordered,
    state_dict: Ordered,
    args: Vec<Json>,
    kwargs: Ordered,
    expect: Vec<Json>,
    cotangents: Vec<Json>,
    grads: Vec<Json>,
    param_grads: Ordered,
    state_dict_after: Ordered,
}

/// An argument's values, and whether it requires grad.
type Argument = Value<(TensorData, bool)>;

struct Case {
    written: String,
    dtype: Dtype,
    training: bool,
    init_args: Vec<Argument>,
    init_kwargs: Vec<(String, Argument)>,
    state: Vec<(String, TensorData)>,
    args: Vec<Argument>,
    kwargs: Vec<(String, Argument)>,
    cotangents: Vec<(usize, TensorData)>,
    expect: ModuleOutcome,
}

impl Case {
    /// The dtypes that the case needs.
    fn dtypes(&self) -> Vec<Dtype> {
        let init = self
            .init_args
            .iter()
            .chain(self.init_kwargs.iter().map(|(_, v)| v));
        let args = self.args.iter().chain(self.kwargs.iter().map(|(_, v)| v));
        let outputs = self.expect.outputs.iter().map(|t| t.dtype);
        init.chain(args)
            .flat_map(|v| v.dtypes(&|(data, _)| data.dtype))
            .chain(self.state.iter().map(|(_, t)| t.dtype))
            .chain(outputs)
            .chain([self.dtype])
            .collect()
    }
}

impl Raw {
    fn read(&self, module: &str, tensors: &TensorFile) -> Result<Case, String> {
        let load = |r: &TensorRef| tensors.get(r);
        let mut argument = |r: &TensorRef| Ok((load(r)?, r.requires_grad));
        let mut shown = Vec::new();
        let mut one = |json: &Json, name: &str| -> Result<Argument, String> {
            let v = value(json)?;
            let equals = if name.is_empty() { "" } else { "=" };
            shown.push(format!("{name}{equals}{}", short(&v)));
            v.try_map(&mut argument)
        };
        let mut list = |v: &[Json]| v.iter().map(|j| one(j, "")).collect::<Result<Vec<_>, _>>();
        let (init_args, args) = (list(&self.init_args)?, list(&self.args)?);
        let mut named = |v: &Ordered| {
            let one = |(k, j): &(String, Json)| Ok((k.clone(), one(j, k)?));
            v.0.iter().map(one).collect::<Result<Vec<_>, String>>()
        };
        let (init_kwargs, kwargs) = (named(&self.init_kwargs)?, named(&self.kwargs)?);
        let tensor = |j: &Json| load(&tensor_ref(j)?);
        let optional = |j: &Json| match j {
            Json::Null => Ok(None),
            other => tensor(other).map(Some),
        };
        let all = |v: &Ordered| {
            let one = |(k, j): &(String, Json)| Ok((k.clone(), tensor(j)?));
            v.0.iter().map(one).collect::<Result<Vec<_>, String>>()
        };
        let state = all(&self.state_dict)?;
        let mut after = state.clone();
        for (name, data) in all(&self.state_dict_after)? {
            match after.iter_mut().find(|(n, _)| *n == name) {
                Some(entry) => entry.1 = data,
                None => return Err(format!("state_dict_after has {name}, state_dict not")),
            }
        }
        let param_grads = self.param_grads.0.iter();
        let asked = gradient(&self.cotangents, &self.grads)?;
        let cotangents = asked.cotangents.iter();
        Ok(Case {
            written: format!("{module}({})", shown.join(", ")),
            dtype: Dtype::from_name(&self.dtype)
                .ok_or_else(|| format!("unknown dtype {}", self.dtype))?,
            training: self.training,
            init_args,
            init_kwargs,
            state,
            args,
            kwargs,
            cotangents: cotangents
                .map(|(i, r)| Ok((*i, load(r)?)))
                .collect::<Result<_, String>>()?,
            expect: ModuleOutcome {
                outputs: self.expect.iter().map(tensor).collect::<Result<_, _>>()?,
                grads: self.grads.iter().map(optional).collect::<Result<_, _>>()?,
                param_grads: param_grads
                    .map(|(k, j)| Ok((k.clone(), optional(j)?)))
                    .collect::<Result<_, String>>()?,
                state: after,
            },
        })
    }
}

/// Runs `modules/STEM.json` if it is asked for.
pub(crate) fn run_stem(
    source: &Source,
    stem: &str,
    executor: &dyn Executor,
    options: &Options,
) -> Option<OpReport> {
    if !options.wants(stem, stem) {
        return None;
    }
    let mut report = OpReport::new(stem, stem, Group::Modules);
    if let Err(e) = run_file(source, stem, executor, &mut report) {
        report.fail(format!("modules/{stem}.json: {e}"));
    }
    Some(report)
}

fn run_file(
    source: &Source,
    stem: &str,
    executor: &dyn Executor,
    report: &mut OpReport,
) -> Result<(), String> {
    let cases = source
        .read(&format!("modules/{stem}.json"))?
        .ok_or("not there")?;
    let file: File = serde_json::from_slice(&cases).map_err(|e| e.to_string())?;
    let tensors = match source.read(&format!("modules/{stem}.safetensors"))? {
        Some(bytes) => TensorFile::parse(&bytes)?,
        None => TensorFile::default(),
    };
    for (i, raw) in file.cases.iter().enumerate() {
        let case = raw
            .read(&file.module, &tensors)
            .map_err(|e| format!("case {i}: {e}"))?;
        if let Some(reason) = case.dtypes().into_iter().find_map(|d| executor.lacks(d)) {
            report.leave_out(reason);
            continue;
        }
        match run_case(&file.module, &case, executor, report) {
            None => {
                report.absent = true;
                return Ok(());
            }
            Some(Ok(())) => report.passed += 1,
            Some(Err(e)) => report.fail(format!(
                "case {i} ({}, sample {}, training {}) {}: {e}",
                raw.dtype, raw.sample, raw.training, case.written
            )),
        }
    }
    Ok(())
}

/// Runs a case in every layout that changes an argument; `None` where the layer does not exist.
fn run_case(
    module: &str,
    case: &Case,
    executor: &dyn Executor,
    report: &mut OpReport,
) -> Option<Result<(), String>> {
    let all = case.args.iter().chain(case.kwargs.iter().map(|(_, v)| v));
    let shapes: Vec<_> = all
        .flat_map(Value::tensors)
        .map(|(d, _)| &d.shape)
        .collect();
    let mut counted = false;
    for (i, layout) in Layout::ALL.into_iter().enumerate() {
        if layout != Layout::Contiguous && !shapes.iter().any(|s| layout.changes(s)) {
            continue;
        }
        let call = lay_out(module, case, layout);
        let outcome = match panics::catch(|| executor.module(&call)) {
            Ok(None) => return None,
            Ok(Some(Ok(outcome))) => Ok(outcome),
            Ok(Some(Err(e))) => Err(format!("error: {e}")),
            Err(e) => Err(e),
        };
        report.layouts[i] += 1;
        report.gradient_cases += usize::from(!counted);
        counted = true;
        let checked = outcome.and_then(|outcome| check(module, &case.expect, &outcome));
        if let Err(e) = checked {
            return Some(Err(format!("{layout}: {e}")));
        }
    }
    Some(Ok(()))
}

/// The call with arguments and cotangents in that layout; constructor and state are contiguous.
fn lay_out(module: &str, case: &Case, layout: Layout) -> ModuleCall {
    let arrange = |v: &Argument, layout| {
        let mut f = |(data, requires_grad): &(TensorData, bool)| {
            Ok::<_, std::convert::Infallible>(Memory::arrange(data, layout, *requires_grad))
        };
        match v.try_map(&mut f) {
            Ok(v) => v,
            Err(never) => match never {},
        }
    };
    let list = |v: &[Argument], layout| v.iter().map(|v| arrange(v, layout)).collect();
    let named = |v: &[(String, Argument)], layout| {
        let one = |(k, v): &(String, Argument)| (k.clone(), arrange(v, layout));
        v.iter().map(one).collect()
    };
    let plain = |data: &TensorData, layout| Memory::arrange(data, layout, false);
    ModuleCall {
        module: module.to_string(),
        dtype: case.dtype,
        training: case.training,
        init_args: list(&case.init_args, Layout::Contiguous),
        init_kwargs: named(&case.init_kwargs, Layout::Contiguous),
        state: case
            .state
            .iter()
            .map(|(k, data)| (k.clone(), plain(data, Layout::Contiguous)))
            .collect(),
        args: list(&case.args, layout),
        kwargs: named(&case.kwargs, layout),
        cotangents: case
            .cotangents
            .iter()
            .map(|(i, data)| (*i, plain(data, layout)))
            .collect(),
    }
}

/// Compares outputs, gradients of arguments and parameters, and the state afterwards.
fn check(module: &str, want: &ModuleOutcome, got: &ModuleOutcome) -> Result<(), String> {
    let same = |what: String, got: &TensorData, want: &TensorData| {
        compare(got, want, tolerance(module, want.dtype)).map_err(|e| format!("{what} {e}"))
    };
    let optional =
        |what: String, got: &Option<TensorData>, want: &Option<TensorData>| match (got, want) {
            (None, None) => Ok(()),
            (Some(_), None) => Err(format!("{what}: expected none, got one")),
            (None, Some(_)) => Err(format!("{what}: expected one, got none")),
            (Some(got), Some(want)) => same(what, got, want),
        };
    count("outputs", got.outputs.len(), want.outputs.len())?;
    for (i, (got, want)) in got.outputs.iter().zip(&want.outputs).enumerate() {
        same(format!("output {i}"), got, want)?;
    }
    count("gradients", got.grads.len(), want.grads.len())?;
    for (i, (got, want)) in got.grads.iter().zip(&want.grads).enumerate() {
        optional(format!("gradient {i}"), got, want)?;
    }
    count(
        "parameter gradients",
        got.param_grads.len(),
        want.param_grads.len(),
    )?;
    for (name, want) in &want.param_grads {
        let (_, got) = got
            .param_grads
            .iter()
            .find(|(n, _)| n == name)
            .ok_or_else(|| format!("no gradient of the parameter {name}"))?;
        optional(format!("gradient of {name}"), got, want)?;
    }
    count(
        "tensors in the state dict",
        got.state.len(),
        want.state.len(),
    )?;
    for (name, want) in &want.state {
        let (_, got) = got
            .state
            .iter()
            .find(|(n, _)| n == name)
            .ok_or_else(|| format!("{name} is not in the state dict afterwards"))?;
        same(format!("{name} afterwards"), got, want)?;
    }
    Ok(())
}

fn count(what: &str, got: usize, want: usize) -> Result<(), String> {
    if got == want {
        return Ok(());
    }
    Err(format!("number of {what}: expected {want}, got {got}"))
}
