//! Every workload computes what its name says: the same function as the suite times, at a small
//! size, against plain loops in float64 that use nothing of ToRSh.

mod layers;
mod models;
mod ops;
mod random;
mod science;
mod small;
mod sparse;
mod tape;

use layers::T;
use models::Values;
use small::small;
use tape::{V, gradients};
use torsh_bench::inputs::Layout;
use torsh_bench::limits;
use torsh_bench::models::Model;
use torsh_bench::spec::{Out, Rule, Spec};
use torsh_bench::suite::workloads;
use torsh_core::random::manual_seed;
use torsh_tensor::{DType, Result, Tensor, TorshError};

/// The seed before each call.
const SEED: u32 = 7;

fn numbers(t: &Tensor) -> Result<T> {
    Ok(T::numbers(t.dims(), &t.detach().to_vec::<f64>()?))
}

fn all_numbers(of: &[Tensor]) -> Result<Vec<T>> {
    of.iter().map(numbers).collect()
}

fn differ(what: String) -> TorshError {
    TorshError::Other(what)
}

/// Whether numbers are those expected, to within `tolerance` of the greatest expected one.
fn close(what: &str, got: &[f64], expected: &[f64], tolerance: f64) -> Result<()> {
    if got.len() != expected.len() {
        return Err(differ(format!(
            "{what}: {} numbers, not {}",
            got.len(),
            expected.len()
        )));
    }
    let most = expected.iter().fold(0f64, |m, e| m.max(e.abs()));
    for (i, (g, e)) in got.iter().zip(expected).enumerate() {
        // Not a number is as wrong as another one.
        if !((g - e).abs() <= tolerance * (most + 1e-3)) {
            return Err(differ(format!("{what}: {g} at {i}, not {e}")));
        }
    }
    Ok(())
}

fn check(spec: &Spec, layout: Layout) -> Result<()> {
    tape::clear();
    match spec {
        Spec::AutogradChain { ops } => chain(spec, *ops),
        Spec::Step { rule, n } => step(spec, *rule, *n),
        Spec::StepRows { rows, width, .. } => step_rows(spec, *rows, *width),
        Spec::Train { model, rule, .. } => train(spec, model, *rule),
        Spec::Infer { model, .. } => infer(spec, model, layout),
        Spec::Science(row) => science::check(row, layout),
        _ => {
            let mut w = spec.make(layout)?;
            let (inputs, state) = (all_numbers(&w.inputs)?, all_numbers(&w.state)?);
            let expected = ops::results(spec, &inputs, &state, SEED);
            manual_seed(SEED.into());
            let results = (w.call)()?.tensors();
            if results.len() != expected.len() {
                return Err(differ(format!(
                    "{} results, not {}",
                    results.len(),
                    expected.len()
                )));
            }
            let half = results.iter().any(|r| r.dtype() == DType::BF16);
            let tolerance = if half { 1e-2 } else { 3e-6 };
            for (r, e) in results.iter().zip(&expected) {
                close("result", &r.detach().to_vec::<f64>()?, e, tolerance)?;
            }
            match spec {
                // The input itself has changed.
                Spec::AddInplace { .. } => close(
                    "input",
                    &w.inputs[0].to_vec::<f64>()?,
                    &expected[0],
                    tolerance,
                ),
                Spec::View { .. } => {
                    let (of, view) = (w.inputs[0].stride(), results[0].stride());
                    match view == [of[1], of[0]] {
                        true => Ok(()),
                        false => Err(differ("not a view".into())),
                    }
                }
                _ => Ok(()),
            }
        }
    }
}

fn gradient(of: &Tensor) -> Result<Vec<f64>> {
    let g = of.grad().ok_or_else(|| differ("no gradient".into()))?;
    g.to_vec::<f64>()
}

fn chain(spec: &Spec, ops: usize) -> Result<()> {
    let mut w = spec.make(Layout::Contiguous)?;
    for calls in [1.0, 2.0] {
        (w.call)()?;
        let expected = calls * 1.01f64.powi(ops as i32);
        close("gradient", &gradient(&w.inputs[0])?, &[expected], 1e-6)?;
    }
    Ok(())
}

/// The averages of an optimizer, and its formula.
struct Stepper {
    rule: Rule,
    steps: i32,
    first: Vec<f64>,
    second: Vec<f64>,
    /// The least gradient seen, by which Adam divides.
    least: Vec<f64>,
}

impl Stepper {
    fn new(rule: Rule, n: usize) -> Stepper {
        let (first, second, least) = (vec![0.0; n], vec![0.0; n], vec![f64::MAX; n]);
        Stepper {
            rule,
            steps: 0,
            first,
            second,
            least,
        }
    }

    /// Parameters after a step, and by how much float32 may be off.
    fn step(&mut self, parameters: &[f64], gradients: &[f64]) -> (Vec<f64>, Vec<f64>) {
        self.steps += 1;
        let most = gradients.iter().fold(0f64, |m, g| m.max(g.abs()));
        let mut out = (vec![], vec![]);
        for (i, (&p, &g)) in parameters.iter().zip(gradients).enumerate() {
            self.least[i] = self.least[i].min(g.abs());
            let rounding = 1e-6 * (p.abs() + 0.1);
            let (change, off) = match self.rule {
                Rule::Adam => {
                    self.first[i] = 0.9 * self.first[i] + 0.1 * g;
                    self.second[i] = 0.999 * self.second[i] + 0.001 * g * g;
                    let first = self.first[i] / (1.0 - 0.9f64.powi(self.steps));
                    let second = self.second[i] / (1.0 - 0.999f64.powi(self.steps));
                    // The sign of a gradient that is 0 but for rounding says nothing.
                    let off = if self.least[i] < 1e-3 * most + 1e-7 {
                        2.5e-3
                    } else {
                        2e-5
                    };
                    (1e-3 * first / (second.sqrt() + 1e-8), off)
                }
                Rule::Sgd => {
                    self.first[i] = 0.9 * self.first[i] + g;
                    (0.01 * self.first[i], 0.01 * 5e-3 * most)
                }
            };
            out.0.push(p - change);
            out.1.push(off + rounding);
        }
        out
    }

    fn check(&mut self, what: &str, now: &[f64], before: &[f64], gradients: &[f64]) -> Result<()> {
        let (expected, off) = self.step(before, gradients);
        for i in 0..now.len() {
            if !((now[i] - expected[i]).abs() <= off[i]) {
                let (got, expected) = (now[i] - before[i], expected[i] - before[i]);
                return Err(differ(format!(
                    "{what}: step of {got} at {i}, not {expected}"
                )));
            }
        }
        Ok(())
    }
}

fn step(spec: &Spec, rule: Rule, n: usize) -> Result<()> {
    let mut w = spec.make(Layout::Contiguous)?;
    let g = w.inputs[0].to_vec::<f64>()?;
    let mut stepper = Stepper::new(rule, n);
    for _ in 0..3 {
        let before = w.state[0].detach().to_vec::<f64>()?;
        (w.call)()?;
        let now = w.state[0].detach().to_vec::<f64>()?;
        stepper.check("parameter", &now, &before, &g)?;
    }
    Ok(())
}

/// Adam's steps at the rows of a gradient that adds up; the other rows stay.
fn step_rows(spec: &Spec, rows: usize, width: usize) -> Result<()> {
    let mut w = spec.make(Layout::Contiguous)?;
    let (index, values) = (w.inputs[0].to_vec::<f64>()?, w.inputs[1].to_vec::<f64>()?);
    let (mut g, mut used) = (vec![0.0; rows * width], vec![false; rows]);
    for (&row, line) in index.iter().zip(values.chunks(width)) {
        let row = row as usize;
        used[row] = true;
        let sums = &mut g[row * width..][..width];
        sums.iter_mut().zip(line).for_each(|(sum, v)| *sum += v);
    }
    let mut stepper = Stepper::new(Rule::Adam, rows * width);
    for _ in 0..3 {
        let before = w.state[0].detach().to_vec::<f64>()?;
        (w.call)()?;
        let now = w.state[0].detach().to_vec::<f64>()?;
        stepper.check("parameter", &now, &before, &g)?;
        for (row, used) in used.iter().enumerate() {
            let line = row * width..(row + 1) * width;
            if !used && now[line.clone()] != before[line] {
                return Err(differ(format!("row {row} has no gradient and has changed")));
            }
        }
    }
    Ok(())
}

/// Loss, every gradient, every parameter and every buffer, after each of three steps.
fn train(spec: &Spec, model: &Model, rule: Rule) -> Result<()> {
    let mut w = spec.make(Layout::Contiguous)?;
    // Parameters come first; what they are is told by their gradients.
    let split = w.state.iter().take_while(|t| t.requires_grad()).count();
    let mut steppers: Vec<Stepper> = w.state[..split]
        .iter()
        .map(|t| Stepper::new(rule, t.numel()))
        .collect();
    let tolerance = match model {
        Model::ResNet18 { .. } => 5e-3,
        _ => 1e-4,
    };
    for step in 0..3 {
        tape::clear();
        let (x, t) = (numbers(&w.inputs[0])?, w.inputs[1].to_vec::<f64>()?);
        let (parameters, buffers) = (
            all_numbers(&w.state[..split])?,
            all_numbers(&w.state[split..])?,
        );
        let mut values = Values::new(parameters.clone(), buffers, true);
        let y = models::forward(model, &x, &mut values);
        assert!(values.spent(), "{model:?} has more parameters");
        let expected: V = layers::cross_entropy(&y, &t);
        let all = gradients(expected);
        let Out::One(loss) = (w.call)()? else {
            return Err(differ("no loss".into()));
        };
        let what = |part: &str| format!("step {step}, {part}");
        let loss = loss.detach().to_vec::<f64>()?;
        close(&what("loss"), &loss, &[expected.get()], tolerance)?;
        for (i, p) in parameters.iter().enumerate() {
            let g: Vec<f64> = p.v.iter().map(|v| v.of(&all)).collect();
            let part = format!("parameter {i} {:?}", p.shape);
            close(
                &what(&format!("gradient of {part}")),
                &gradient(&w.state[i])?,
                &g,
                tolerance,
            )?;
            let now = w.state[i].detach().to_vec::<f64>()?;
            steppers[i].check(&what(&part), &now, &p.get(), &g)?;
        }
        for (i, expected) in values.updated.iter().enumerate() {
            let now = w.state[split + i].to_vec::<f64>()?;
            close(&what(&format!("buffer {i}")), &now, expected, 1e-4)?;
        }
    }
    Ok(())
}

fn infer(spec: &Spec, model: &Model, layout: Layout) -> Result<()> {
    let mut w = spec.make(layout)?;
    let (parameters, buffers): (Vec<&Tensor>, Vec<&Tensor>) =
        w.state.iter().partition(|t| t.requires_grad());
    let all = |of: Vec<&Tensor>| of.into_iter().map(numbers).collect::<Result<Vec<T>>>();
    let mut values = Values::new(all(parameters)?, all(buffers)?, false);
    let expected = models::forward(model, &numbers(&w.inputs[0])?, &mut values);
    assert!(values.spent(), "{model:?} has more parameters");
    let Out::One(y) = (w.call)()? else {
        return Err(differ("no output".into()));
    };
    if y.requires_grad() || y.dims() != expected.shape {
        return Err(differ(format!(
            "{y:?} was recorded or has not the shape {:?}",
            expected.shape
        )));
    }
    close("output", &y.to_vec::<f64>()?, &expected.get(), 1e-5)
}

/// Whether a workload is of `torsh-vision`, whose models and operators `torsh-conformance vision` compares with
/// torchvision's results.
fn of_vision(name: &str, spec: &Spec) -> bool {
    let operators = ["nms_", "batched_nms_", "roi_align_", "deform_conv2d_"];
    let (Spec::Train { model, .. } | Spec::Infer { model, .. }) = spec else {
        return operators.iter().any(|o| name.starts_with(o));
    };
    matches!(model, Model::Vision { .. })
}

/// Every workload of the suite and of the limits at a small size, in every layout of its inputs.
#[test]
fn workloads_compute_what_plain_loops_do() {
    let rows = limits::rows().into_iter().map(|r| (r.name, r.spec));
    let mut seen: Vec<Spec> = Vec::new();
    let mut wrong = Vec::new();
    for (name, spec) in workloads().into_iter().chain(rows) {
        if of_vision(&name, &spec) {
            continue;
        }
        let spec = small(&spec);
        if seen.contains(&spec) {
            continue;
        }
        for layout in Layout::ALL {
            manual_seed(3);
            if let Err(e) = check(&spec, layout) {
                wrong.push(format!("{name}, {layout:?}: {e}"));
            }
        }
        seen.push(spec);
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(seen.len() >= 60, "{}", seen.len());
}
