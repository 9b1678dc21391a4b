//! Cases of models: keys, initial weights, results, gradients, a step.
//!
//! A model is built once for all its checks, and freed before the next.

use std::any::Any;

use serde::Deserialize;
use serde_json::Value as Json;
use torsh_core::random::manual_seed;
use torsh_functional as F;
use torsh_nn::{AlphaDropout, Dropout, Dropout1d, Dropout2d, Dropout3d, ModuleExt};
use torsh_tensor::{DType, Device, Tensor, TorshError, no_grad, rand, randint};
use torsh_vision::models::blocks::StochasticDepth;
use torsh_vision::models::{ModelOptions, VisionModel, get_model};

use super::{Options, Report, detection, flow};
use crate::case::Ordered;
use crate::section::compare_keys;
pub(super) use crate::section::{Problems, field, number, numbers, sizes, text};
use crate::source::Source;
use crate::torsh::drawing;

/// A file of a model.
pub(super) struct Case {
    /// All of it.
    pub(super) json: Json,
    /// The state dict, in order.
    state: Vec<(String, Json)>,
}

#[derive(Deserialize)]
struct State {
    state: Ordered,
}

impl Case {
    fn read(source: &Source, name: &str) -> Result<Case, String> {
        let bytes = super::read(source, &format!("models/{name}.json"))?;
        let wrong = |e: serde_json::Error| format!("{name}.json: {e}");
        let json: Json = serde_json::from_slice(&bytes).map_err(wrong)?;
        let state: State = serde_json::from_slice(&bytes).map_err(wrong)?;
        Ok(Case {
            json,
            state: state.state.0,
        })
    }

    /// The model's name.
    pub(super) fn name(&self) -> &str {
        self.json.get("name").and_then(Json::as_str).unwrap_or("")
    }

    fn kind(&self) -> &str {
        self.json.get("kind").and_then(Json::as_str).unwrap_or("")
    }

    fn shapes_only(&self) -> bool {
        self.json.get("shapes_only").and_then(Json::as_bool) == Some(true)
    }

    /// The number of parameters, which files of shapes alone do not say: those models are very large.
    fn params(&self) -> u64 {
        let params = self.json.get("params").and_then(Json::as_u64);
        params.unwrap_or(match self.shapes_only() {
            true => 0,
            false => u64::MAX,
        })
    }

    fn options(&self) -> Result<ModelOptions, String> {
        let mut options = ModelOptions::default();
        let kwargs = field(&self.json, "kwargs")?;
        for (name, value) in kwargs.as_object().ok_or("kwargs are no object")? {
            match (name.as_str(), value.as_u64()) {
                ("num_classes", Some(classes)) => options.num_classes = Some(classes as usize),
                _ => options = options.option(name.clone(), value.clone()),
            }
        }
        if self.shapes_only() {
            options.device = Some(Device::Meta);
        }
        Ok(options)
    }
}

/// Runs the cases.
///
/// # Errors
/// If the files cannot be read.
pub fn run(source: &Source, options: &Options) -> Result<Report, String> {
    let mut report = Report::default();
    for (i, name) in source.list("models")?.iter().enumerate() {
        if !options.takes(i, name) {
            continue;
        }
        let case = Case::read(source, name)?;
        if options.max_params.is_some_and(|most| case.params() > most) {
            continue;
        }
        let started = std::time::Instant::now();
        let result = one(&case, options);
        if options.verbose {
            let verdict = if result.is_ok() { "passes" } else { "fails" };
            println!("{name} {verdict}, {:.1} s", started.elapsed().as_secs_f64());
        }
        report.add(name.as_str(), result);
    }
    Ok(report)
}

fn one(case: &Case, options: &Options) -> Result<(), String> {
    let mut problems = Problems::default();
    // Tests run at the same time, and the generator is the process's.
    let _drawing = drawing();
    let seed = case.json.get("seed").and_then(Json::as_u64).unwrap_or(0);
    manual_seed(seed);
    let mut model = get_model(case.name(), case.options()?).map_err(text)?;
    if !case.shapes_only() {
        let next = rand(&[1]).item::<f64>().map_err(text)?;
        let expected = number(&case.json, "torch_next")?;
        if (next - expected).abs() > 1e-7 {
            problems.add(format!("the next draw is {next}, not {expected}"));
        }
        let params = model.num_parameters() as u64;
        if params != case.params() {
            problems.add(format!("{params} parameters, not {}", case.params()));
        }
    }
    state(case, &*model, &mut problems)?;
    if case.shapes_only() || options.weights_only {
        return problems.result();
    }
    match case.kind() {
        "detection" => detection::check(case, &mut model, &mut problems)?,
        "flow" => flow::check(case, &mut model, &mut problems)?,
        _ => results(case, &mut model, &mut problems)?,
    }
    problems.result()
}

/// Keys in order, shapes, dtypes, digests.
fn state(case: &Case, model: &dyn VisionModel, problems: &mut Problems) -> Result<(), String> {
    let ours = model.state_dict();
    let (names, expected): (Vec<&str>, Vec<&str>) = (
        ours.keys().collect(),
        case.state.iter().map(|(name, _)| name.as_str()).collect(),
    );
    compare_keys(&names, &expected, problems);
    for (name, row) in &case.state {
        let Some(tensor) = ours.get(name) else {
            continue;
        };
        let row = row.as_array().ok_or("a row of state is no list")?;
        let [shape, dtype, digest @ ..] = &row[..] else {
            return Err("a row of state has a shape and a dtype".into());
        };
        if tensor.dims() != sizes(shape)? {
            problems.add(format!("{name} is {:?}, not {shape}", tensor.dims()));
            continue;
        }
        if Some(tensor.dtype().to_string().as_str()) != dtype.as_str() {
            problems.add(format!("{name} is {}, not {dtype}", tensor.dtype()));
        }
        if let [_, ..] = digest {
            let digest: Option<Vec<f64>> = digest.iter().map(Json::as_f64).collect();
            let digest = digest.ok_or("a digest is no list of numbers")?;
            compare_digest(name, tensor, &digest, 1e-6, problems)?;
        }
    }
    Ok(())
}

/// Sum, norm, first, middle and last element.
fn digest(tensor: &Tensor) -> Result<[f64; 5], TorshError> {
    const AT_ONCE: usize = 1 << 24;
    let flat = tensor.detach().reshape([-1])?;
    let n = flat.numel();
    if n == 0 {
        return Ok([0.0; 5]);
    }
    let (mut sum, mut squares) = (0.0, 0.0);
    for start in (0..n).step_by(AT_ONCE) {
        let part = flat.narrow(0, start as i64, AT_ONCE.min(n - start) as i64)?;
        let part = part.to_dtype(DType::F64)?;
        sum += part.sum()?.item::<f64>()?;
        squares += part.mul(&part)?.sum()?.item::<f64>()?;
    }
    let at = |i: usize| {
        flat.select(0, i as i64)?
            .to_dtype(DType::F64)?
            .item::<f64>()
    };
    Ok([sum, squares.sqrt(), at(0)?, at(n / 2)?, at(n - 1)?])
}

/// Compares a tensor with a digest, to `tolerance` of the size of its elements.
pub(super) fn compare_digest(
    name: &str,
    tensor: &Tensor,
    expected: &[f64],
    tolerance: f64,
    problems: &mut Problems,
) -> Result<(), String> {
    let ours = digest(tensor).map_err(text)?;
    let n = (tensor.numel().max(1) as f64).sqrt();
    let [_, norm, ..] = *expected else {
        return Err(format!("{name}: a digest has five numbers"));
    };
    let allowed = [n * norm, norm, norm / n, norm / n, norm / n];
    for ((what, ours), (theirs, size)) in ["sum", "norm", "first", "middle", "last"]
        .iter()
        .zip(ours)
        .zip(expected.iter().zip(allowed))
    {
        let near = (ours - theirs).abs() <= tolerance * size.max(theirs.abs()) + 1e-12;
        if !near {
            problems.add(format!("{name}: {what} is {ours}, not {theirs}"));
            break;
        }
    }
    Ok(())
}

/// Compares a tensor with its shape, first elements and digest.
pub(super) fn compare_output(
    name: &str,
    tensor: &Tensor,
    expected: &Json,
    tolerance: f64,
    problems: &mut Problems,
) -> Result<(), String> {
    if tensor.dims() != sizes(field(expected, "shape")?)? {
        problems.add(format!(
            "{name} is {:?}, not {}",
            tensor.dims(),
            expected["shape"]
        ));
        return Ok(());
    }
    let digest = numbers(field(expected, "digest")?)?;
    let before = problems.len();
    compare_digest(name, tensor, &digest, tolerance, problems)?;
    let head = numbers(field(expected, "head")?)?;
    let rms = digest[1] / (tensor.numel().max(1) as f64).sqrt();
    let flat = tensor.detach().reshape([-1]).map_err(text)?;
    let count = head.len().min(flat.numel());
    let ours = flat
        .narrow(0, 0, count as i64)
        .and_then(|t| t.to_dtype(DType::F64)?.to_vec::<f64>())
        .map_err(text)?;
    let differs = ours
        .iter()
        .zip(&head)
        .position(|(a, b)| (a - b).abs() > tolerance * rms.max(b.abs()) + 1e-12);
    if let Some(i) = differs
        && problems.len() == before
    {
        let (a, b) = (ours[i], head[i]);
        problems.add(format!("{name}: element {i} is {a}, not {b}"));
    }
    Ok(())
}

fn compare_outputs(
    part: &str,
    ours: &[(&'static str, Tensor)],
    expected: &Json,
    tolerance: f64,
    problems: &mut Problems,
) -> Result<(), String> {
    let expected = expected.as_object().ok_or("outputs are no object")?;
    if ours.len() != expected.len() {
        let names: Vec<&str> = ours.iter().map(|(name, _)| *name).collect();
        problems.add(format!("{part}: the outputs are {}", names.join(", ")));
    }
    for (name, expected) in expected {
        match ours.iter().find(|(n, _)| n == name) {
            Some((_, tensor)) => {
                compare_output(
                    &format!("{part}.{name}"),
                    tensor,
                    expected,
                    tolerance,
                    problems,
                )?;
            }
            None => problems.add(format!("{part}: there is no output {name}")),
        }
    }
    Ok(())
}

/// `rand` under the seed, as `input` says.
pub(super) fn input(case: &Case) -> Result<Tensor, String> {
    let input = field(&case.json, "input")?;
    manual_seed(number(input, "seed")? as u64);
    Ok(rand(&sizes(field(input, "rand")?)?[..]))
}

/// Puts the weights that all computers draw alike in the place of the model's, in the dtype it has.
pub(super) fn exact_weights(case: &Case, model: &dyn VisionModel) -> Result<(), String> {
    let exact = field(&case.json, "exact_weights")?;
    manual_seed(number(exact, "seed")? as u64);
    let fill = |name: &str, p: &Tensor| -> Result<(), TorshError> {
        let scale = match (p.ndim(), p.dims()) {
            (2.., [first, ..]) => (3.0 * *first as f64 / p.numel() as f64).sqrt(),
            _ if name.ends_with("bias") => 0.1,
            _ => return Ok(()),
        };
        let drawn = Tensor::rand(p.dims(), DType::F32, Device::Cpu)?.to_dtype(DType::F64)?;
        drawn.mul_(2.0)?.sub_(1.0)?.mul_(scale)?;
        p.copy_(&drawn).map(|_| ())
    };
    no_grad(|| {
        for (name, p) in model.named_parameters() {
            fill(&name, &p)?;
        }
        Ok(())
    })
    .map_err(text)
}

/// Dropout and stochastic depth with a probability of 0.
pub(super) fn drop_nothing(model: &dyn VisionModel) -> Result<(), String> {
    let off = |module: &dyn Any| -> Result<(), TorshError> {
        macro_rules! each {
            ($($ty:ty),*) => {
                $(if let Some(layer) = module.downcast_ref::<$ty>() {
                    layer.set_p(0.0)?;
                })*
            };
        }
        each!(
            Dropout,
            Dropout1d,
            Dropout2d,
            Dropout3d,
            AlphaDropout,
            StochasticDepth
        );
        Ok(())
    };
    for module in model.modules() {
        off(module).map_err(text)?;
    }
    Ok(())
}

/// Gradients after `backward`: norms of some, of all, and what has none.
fn compare_gradients(
    model: &dyn VisionModel,
    train: &Json,
    problems: &mut Problems,
) -> Result<(), String> {
    let mut squares = 0.0;
    let mut without = Vec::new();
    let norms = field(train, "grad_norms")?;
    for (name, p) in model.named_parameters() {
        let Some(grad) = p.grad() else {
            without.push(name);
            continue;
        };
        let norm = grad.norm().and_then(|n| n.item::<f64>()).map_err(text)?;
        squares += norm * norm;
        if let Some(expected) = norms.get(&name).and_then(Json::as_f64)
            && (norm - expected).abs() > 1e-5 * expected.abs() + 1e-10
        {
            problems.add(format!(
                "the gradient of {name} has norm {norm}, not {expected}"
            ));
        }
    }
    let (total, expected) = (squares.sqrt(), number(train, "total_norm")?);
    if (total - expected).abs() > 1e-5 * expected.abs() {
        problems.add(format!("all gradients have norm {total}, not {expected}"));
    }
    let expected: Vec<&str> = field(train, "no_grad")?
        .as_array()
        .map(|names| names.iter().filter_map(Json::as_str).collect())
        .unwrap_or_default();
    if without != expected {
        problems.add(format!(
            "without gradient are {without:?}, not {expected:?}"
        ));
    }
    Ok(())
}

/// Running statistics.
fn compare_running(
    model: &dyn VisionModel,
    train: &Json,
    problems: &mut Problems,
) -> Result<(), String> {
    let state = model.state_dict();
    let running = field(train, "running")?.as_object();
    for (name, expected) in running.ok_or("running is no object")? {
        match state.get(name) {
            Some(tensor) => compare_digest(name, tensor, &numbers(expected)?, 1e-6, problems)?,
            None => problems.add(format!("there is no {name}")),
        }
    }
    Ok(())
}

/// `p -= lr * grad` for all.
fn step(model: &dyn VisionModel, lr: f64) -> Result<(), String> {
    no_grad(|| {
        for p in model.parameters() {
            if let Some(grad) = p.grad() {
                p.sub_(&grad.mul(lr)?)?;
            }
        }
        Ok(())
    })
    .map_err(text)
}

/// Compares gradients and running statistics after a backward pass, makes the step, and returns what is expected after it.
pub(super) fn stepped<'a>(
    case: &'a Case,
    model: &dyn VisionModel,
    train: &Json,
    problems: &mut Problems,
) -> Result<&'a Json, String> {
    compare_gradients(model, train, problems)?;
    compare_running(model, train, problems)?;
    let after = field(&case.json, "after_step")?;
    step(model, number(after, "lr")?)?;
    model.zero_grad();
    model.eval();
    field(after, "eval_f64")
}

fn results(
    case: &Case,
    model: &mut Box<dyn VisionModel>,
    problems: &mut Problems,
) -> Result<(), String> {
    let x = input(case)?;
    model.eval();
    let out = no_grad(|| model.outputs(&x)).map_err(text)?;
    compare_outputs(
        "eval_f32",
        &out,
        field(&case.json, "eval_f32")?,
        1e-4,
        problems,
    )?;
    drop(out);

    model.to_dtype(DType::F64).map_err(text)?;
    exact_weights(case, &**model)?;
    drop_nothing(&**model)?;
    let x = x.to_dtype(DType::F64).map_err(text)?;
    let out = no_grad(|| model.outputs(&x)).map_err(text)?;
    compare_outputs(
        "eval_f64",
        &out,
        field(&case.json, "eval_f64")?,
        1e-6,
        problems,
    )?;
    drop(out);

    let train = field(&case.json, "train")?;
    model.train();
    let targets = field(train, "targets")?;
    manual_seed(number(targets, "seed")? as u64);
    let range = field(targets, "randint")?
        .as_array()
        .ok_or("randint is no list")?;
    let [low, high, shape] = &range[..] else {
        return Err("randint has three arguments".into());
    };
    let bound = |n: &Json| n.as_i64().ok_or("a bound is no integer");
    let targets = randint(bound(low)?, bound(high)?, &sizes(shape)?[..]);
    let out = model.outputs(&x).map_err(text)?;
    let weights = field(train, "weights")?
        .as_object()
        .ok_or("weights are no object")?;
    let mut loss: Option<Tensor> = None;
    // In the order of the outputs, as Python's sum has it.
    for (name, tensor) in &out {
        let Some(weight) = weights.get(*name).and_then(Json::as_f64) else {
            problems.add(format!("train: the output {name} is not expected"));
            continue;
        };
        let part = F::cross_entropy(tensor, &targets)
            .and_then(|l| l.mul(weight))
            .map_err(text)?;
        loss = Some(match loss {
            Some(loss) => loss.add(&part).map_err(text)?,
            None => part,
        });
    }
    drop(out);
    let loss = loss.ok_or("train: there are no outputs")?;
    let (ours, expected) = (loss.item::<f64>().map_err(text)?, number(train, "loss")?);
    if (ours - expected).abs() > 1e-6 * expected.abs() {
        problems.add(format!("the loss is {ours}, not {expected}"));
    }
    loss.backward().map_err(text)?;
    drop(loss);
    let expected = stepped(case, &**model, train, problems)?;
    let out = no_grad(|| model.outputs(&x)).map_err(text)?;
    compare_outputs("after_step", &out, expected, 1e-6, problems)
}
