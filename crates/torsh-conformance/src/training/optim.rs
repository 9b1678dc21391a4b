//! Steps of optimizers.

use serde::Deserialize;
use serde_json::Value as Json;
use torsh_optim::{
    ASGD, Adadelta, Adafactor, Adagrad, Adam, AdamW, Adamax, LBFGS, Muon, NAdam, Optimizer,
    ParamGroup, RAdam, RMSprop, Rprop, SGD, SparseAdam, StateValue,
};
use torsh_tensor::{Device, Result, Tensor, TorshError};

use super::{Checked, Config, count, load};
use crate::compare::{Tolerance, compare};
use crate::executor::Executor;
use crate::layouts::{Layout, Memory};
use crate::panics;
use crate::report::{Group, Report};
use crate::runner::Options;
use crate::source::Source;
use crate::tensors::{Element, TensorData, TensorFile};
use crate::torsh::{data, tensor, text};

/// An optimizer and what its steps get.
#[derive(Clone, Debug)]
pub struct Steps {
    /// PyTorch's name of the class.
    pub optimizer: String,
    /// Its settings.
    pub config: Config,
    /// The parameters before the first step.
    pub init: Vec<TensorData>,
    /// The gradients of each step; none where the loss is Rosenbrock's function.
    pub grads: Vec<Vec<TensorData>>,
    /// How many steps.
    pub steps: usize,
}

/// What came of the steps.
#[derive(Clone, Debug, Default)]
pub struct Stepped {
    /// The parameters after each step.
    pub params: Vec<Vec<TensorData>>,
    /// The loss each step returned, where there is one.
    pub losses: Vec<f64>,
}

#[derive(Deserialize)]
struct Row {
    optimizer: String,
    key: String,
    config: Config,
    steps: usize,
    #[serde(default = "one")]
    params: usize,
    #[serde(default)]
    losses: Vec<f64>,
}

fn one() -> usize {
    1
}

/// Runs that are compared for their first steps only: without a line search L-BFGS diverges here.
const FIRST_STEPS: &[(&str, usize)] = &[("LBFGS.0", 2)];

pub(super) fn run(
    source: &Source,
    executor: &dyn Executor,
    options: &Options,
    report: &mut Report,
) -> std::result::Result<(), String> {
    let (rows, tensors) = load::<Row>(source, "optim")?;
    for row in &rows {
        let name = format!("optim.{}", row.optimizer);
        if options.wants("optim", &name) {
            let case = format!("{} {:?}", row.key, row.config);
            count(
                report,
                Group::Optimizers,
                &name,
                &case,
                check(row, &tensors, executor),
            );
        }
    }
    Ok(())
}

fn shortened(row: &Row) -> Option<&'static (&'static str, usize)> {
    FIRST_STEPS.iter().find(|(key, _)| *key == row.key)
}

fn check(row: &Row, tensors: &TensorFile, executor: &dyn Executor) -> Checked {
    let steps = shortened(row).map_or(row.steps, |(_, n)| *n);
    let all = |what: &str| {
        let one = |i| tensors.named(&format!("{}.{what}.{i}", row.key));
        (0..row.params)
            .map(one)
            .collect::<std::result::Result<Vec<_>, _>>()
    };
    let read = || {
        let init = all("init")?;
        let mut grads = Vec::new();
        if row.losses.is_empty() {
            for step in 0..steps {
                grads.push(all(&format!("grad.{step}"))?);
            }
        }
        let params = (0..steps).map(|step| all(&format!("param.{step}")));
        let params = params.collect::<std::result::Result<Vec<_>, _>>()?;
        let run = Steps {
            optimizer: row.optimizer.clone(),
            config: row.config.clone(),
            init,
            grads,
            steps,
        };
        Ok::<_, String>((run, params))
    };
    let (run, want) = match read() {
        Ok(read) => read,
        Err(e) => return Some(Err(e)),
    };
    let got = match panics::catch(|| executor.optimize(&run)) {
        Ok(got) => got?,
        Err(e) => Err(e),
    };
    Some(got.and_then(|got| same(row, &run, &got, &want)))
}

fn same(
    row: &Row,
    run: &Steps,
    got: &Stepped,
    want: &[Vec<TensorData>],
) -> std::result::Result<(), String> {
    if got.params.len() != want.len() {
        return Err(format!(
            "{} steps, expected {}",
            got.params.len(),
            want.len()
        ));
    }
    for (step, (got_now, want_now)) in got.params.iter().zip(want).enumerate() {
        let before = |all: &[Vec<TensorData>]| match step {
            0 => run.init.clone(),
            n => all[n - 1].clone(),
        };
        for (i, (g, w)) in got_now.iter().zip(want_now).enumerate() {
            let checked = if row.optimizer == "Muon" {
                same_update(g, &before(&got.params)[i], w, &before(want)[i])
            } else {
                let close = Tolerance {
                    rtol: 1e-9,
                    atol: 1e-12,
                };
                compare(g, w, close)
            };
            checked.map_err(|e| format!("step {step}, parameter {i}: {e}"))?;
        }
    }
    if row.losses.is_empty() {
        return Ok(());
    }
    for (step, (g, w)) in got.losses.iter().zip(&row.losses).enumerate() {
        if (g - w).abs() > 1e-9 * w.abs() {
            return Err(format!("step {step}: loss {g}, expected {w}"));
        }
    }
    Ok(())
}

/// Muon orthogonalises in bfloat16, where the order of a sum shows: an update may be off by two
/// hundredths of its norm.
fn same_update(
    got: &TensorData,
    got_before: &TensorData,
    want: &TensorData,
    want_before: &TensorData,
) -> std::result::Result<(), String> {
    let update = |now: &TensorData, before: &TensorData| -> Vec<f64> {
        let float = |e| match e {
            Element::Float(x) => x,
            _ => f64::NAN,
        };
        let pairs = now.elements().zip(before.elements());
        pairs.map(|(a, b)| float(a) - float(b)).collect()
    };
    let (got, want) = (update(got, got_before), update(want, want_before));
    let norm = |v: &mut dyn Iterator<Item = f64>| v.map(|x| x * x).sum::<f64>().sqrt();
    let off = norm(&mut got.iter().zip(&want).map(|(a, b)| a - b));
    let all = norm(&mut want.iter().copied());
    if got.len() == want.len() && off <= 0.02 * all {
        return Ok(());
    }
    Err(format!("the update is off by {off:.3e} of {all:.3e}"))
}

/// The optimizer of that name over a group with these settings.
pub(super) fn build(
    name: &str,
    params: &[Tensor],
    config: &Config,
) -> Result<Option<Box<dyn Optimizer>>> {
    let mut group = ParamGroup::new(params);
    for (name, setting) in config {
        group = group.set(name, state_value(setting)?);
    }
    let group = [group];
    macro_rules! of {
        ($($optimizer:ident)*) => {
            match name {
                $(stringify!($optimizer) => Box::new($optimizer::builder(group).build()?),)*
                _ => return Ok(None),
            }
        };
    }
    Ok(Some(of!(
        Adadelta Adafactor Adagrad Adam AdamW Adamax ASGD LBFGS Muon NAdam RAdam RMSprop Rprop SGD
        SparseAdam
    )))
}

fn state_value(json: &Json) -> Result<StateValue> {
    let unknown = || TorshError::format("optim", format!("a setting of {json}"));
    Ok(match json {
        Json::Null => StateValue::None,
        Json::Bool(b) => StateValue::Bool(*b),
        Json::String(s) => StateValue::Str(s.clone()),
        Json::Number(n) => match n.as_i64() {
            Some(i) => StateValue::Int(i),
            None => StateValue::Float(n.as_f64().ok_or_else(unknown)?),
        },
        Json::Array(v) => {
            let numbers = v.iter().map(Json::as_f64).collect::<Option<_>>();
            StateValue::Floats(numbers.ok_or_else(unknown)?)
        }
        Json::Object(_) => return Err(unknown()),
    })
}

/// The steps of ToRSh.
pub(crate) fn optimize(run: &Steps) -> Option<std::result::Result<Stepped, String>> {
    let load =
        |t: &TensorData, leaf| tensor(&Memory::arrange(t, Layout::Contiguous, leaf), Device::Cpu);
    let params = match run
        .init
        .iter()
        .map(|t| load(t, true))
        .collect::<std::result::Result<Vec<_>, _>>()
    {
        Ok(params) => params,
        Err(e) => return Some(Err(e)),
    };
    let optimizer = match build(&run.optimizer, &params, &run.config) {
        Ok(optimizer) => optimizer?,
        Err(e) => return Some(Err(text(e))),
    };
    let steps = || {
        let mut out = Stepped::default();
        for step in 0..run.steps {
            if let Some(grads) = run.grads.get(step) {
                for (p, g) in params.iter().zip(grads) {
                    p.set_grad(Some(load(g, false)?)).map_err(text)?;
                }
                optimizer.step().map_err(text)?;
            } else {
                let loss = optimizer.step_dyn(&mut || {
                    optimizer.zero_grad();
                    let loss = rosenbrock(&params[0])?;
                    loss.backward()?;
                    Ok(loss)
                });
                let loss = loss.and_then(|l| l.item::<f64>()).map_err(text)?;
                out.losses.push(loss);
            }
            let now = params
                .iter()
                .map(data)
                .collect::<std::result::Result<_, _>>()?;
            out.params.push(now);
        }
        Ok(out)
    };
    Some(steps())
}

fn rosenbrock(x: &Tensor) -> Result<Tensor> {
    let (x0, x1) = (x.select(0, 0)?, x.select(0, 1)?);
    let valley = x1.sub(&x0.square()?)?.square()?.mul(100.0)?;
    x0.rsub(1.0)?.square()?.add(&valley)
}
