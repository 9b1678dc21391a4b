//! The runner of modules and training files: ToRSh's answers pass, and each way of being wrong
//! fails.

use std::path::Path;

use torsh_conformance::executor::{Call, Executor, ModuleCall, ModuleOutcome, Outcome};
use torsh_conformance::layouts::Memory;
use torsh_conformance::report::Report;
use torsh_conformance::runner::{self, Options};
use torsh_conformance::source::Source;
use torsh_conformance::tensors::{Element, TensorData};
use torsh_conformance::torsh::Torsh;
use torsh_conformance::training::optim::{Stepped, Steps};
use torsh_conformance::training::random::Draw;
use torsh_conformance::training::runs::{Run, Start, Trained};
use torsh_conformance::training::schedule::{Rates, Schedule};

type Spoil<C, T> = fn(&C, &mut T);

/// ToRSh, with its answers changed on their way back.
#[derive(Default)]
struct Spoilt {
    module: Option<Spoil<ModuleCall, ModuleOutcome>>,
    draw: Option<Spoil<Draw, TensorData>>,
    optimize: Option<Spoil<Steps, Stepped>>,
    schedule: Option<Spoil<Schedule, Rates>>,
    train: Option<Spoil<Run, Trained>>,
}

/// The answer, spoilt where there is something to spoil it.
fn spoil<C, T>(
    by: Option<Spoil<C, T>>,
    call: &C,
    answer: Option<Result<T, String>>,
) -> Option<Result<T, String>> {
    answer.map(|answer| {
        answer.map(|mut answer| {
            if let Some(by) = by {
                by(call, &mut answer);
            }
            answer
        })
    })
}

impl Executor for Spoilt {
    fn has(&self, op: &str) -> bool {
        Torsh.has(op)
    }

    fn call(&self, call: &Call) -> Result<Outcome, String> {
        Torsh.call(call)
    }

    fn module(&self, call: &ModuleCall) -> Option<Result<ModuleOutcome, String>> {
        spoil(self.module, call, Torsh.module(call))
    }

    fn draw(&self, draw: &Draw) -> Option<Result<TensorData, String>> {
        spoil(self.draw, draw, Torsh.draw(draw))
    }

    fn optimize(&self, steps: &Steps) -> Option<Result<Stepped, String>> {
        spoil(self.optimize, steps, Torsh.optimize(steps))
    }

    fn schedule(&self, schedule: &Schedule) -> Option<Result<Rates, String>> {
        spoil(self.schedule, schedule, Torsh.schedule(schedule))
    }

    fn train(&self, run: &Run) -> Option<Result<Trained, String>> {
        spoil(self.train, run, Torsh.train(run))
    }

    fn print(&self, value: &Memory, doubled: bool) -> Result<String, String> {
        Torsh.print(value, doubled)
    }
}

fn run(archive: &str, name: &str, executor: &dyn Executor) -> Report {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("golden")
        .join(archive);
    let options = Options {
        ops: vec![name.to_string()],
        ..Options::default()
    };
    runner::run(&Source::open(&path).unwrap(), executor, &options).unwrap()
}

/// Every failure says this, and there are failures.
fn fails(archive: &str, name: &str, executor: &Spoilt, contains: &str) {
    let right = run(archive, name, &Torsh);
    assert!(
        right.passed() > 0 && right.failed() == 0,
        "{}",
        right.text(true)
    );
    let report = run(archive, name, executor);
    assert_eq!(report.passed() + report.failed(), right.passed());
    let failures: Vec<_> = report.ops.iter().flat_map(|o| &o.failures).collect();
    assert!(!failures.is_empty(), "{name} must fail: {contains}");
    for failure in failures {
        assert!(failure.contains(contains), "{contains}: {failure}");
    }
}

/// Moves one element by a hundredth, or by one.
fn nudge(t: &mut TensorData) {
    let mut elements: Vec<_> = t.elements().collect();
    if let Some(first) = elements.first_mut() {
        *first = match *first {
            Element::Float(x) => Element::Float(x + 0.01 + 0.01 * x.abs()),
            Element::Int(i) => Element::Int(i + 1),
            other => other,
        };
    }
    *t = TensorData::from_elements(t.dtype, &t.shape, &elements);
}

/// The first element of a float32 tensor moved by so many representable numbers.
fn up(t: &mut TensorData, by: i32) {
    if t.dtype.size() == 4 {
        let first = t.bytes.first_chunk_mut::<4>().unwrap();
        *first = (i32::from_le_bytes(*first) + by).to_le_bytes();
    }
}

fn of_module(f: Spoil<ModuleCall, ModuleOutcome>) -> Spoilt {
    Spoilt {
        module: Some(f),
        ..Spoilt::default()
    }
}

#[test]
fn a_changed_output_of_a_module_fails() {
    let by = of_module(|_, o| nudge(&mut o.outputs[0]));
    fails("modules.zip", "Linear", &by, "contiguous: output 0 at [");
    let by = of_module(|_, o| o.outputs.clear());
    fails("modules.zip", "Linear", &by, "number of outputs");
}

#[test]
fn an_output_changed_in_one_layout_fails() {
    let by = of_module(|call, o| {
        let all = call.args.iter().chain(call.kwargs.iter().map(|(_, v)| v));
        let mut all = all.flat_map(|v| v.tensors());
        if all.any(|m| m.strides.last() == Some(&2)) {
            nudge(&mut o.outputs[0]);
        }
    });
    fails("modules.zip", "Linear", &by, "step 2: output 0 at [");
}

#[test]
fn a_changed_gradient_of_a_module_fails() {
    let by = of_module(|_, o| o.grads.iter_mut().flatten().for_each(nudge));
    fails("modules.zip", "Linear", &by, "gradient 0 at [");
    let by = of_module(|_, o| o.grads[0] = None);
    fails("modules.zip", "ReLU", &by, "expected one, got none");
    let by = of_module(|_, o| o.param_grads[0].1.iter_mut().for_each(nudge));
    fails("modules.zip", "Linear", &by, "gradient of weight at [");
    let by = of_module(|_, o| o.param_grads[0].0 = "kernel".to_string());
    fails(
        "modules.zip",
        "Linear",
        &by,
        "no gradient of the parameter weight",
    );
}

#[test]
fn a_changed_buffer_fails() {
    let by = of_module(|_, o| {
        let means = o.state.iter_mut().filter(|(n, _)| n == "running_mean");
        means.for_each(|(_, t)| nudge(t));
    });
    fails(
        "modules.zip",
        "BatchNorm2d",
        &by,
        "running_mean afterwards at [",
    );
    let by = of_module(|_, o| drop(o.state.pop()));
    fails(
        "modules.zip",
        "Linear",
        &by,
        "number of tensors in the state dict",
    );
}

#[test]
fn a_changed_draw_fails() {
    let spoilt = |f| Spoilt {
        draw: Some(f),
        ..Spoilt::default()
    };
    let by = spoilt(|_, t| nudge(t));
    fails("training.zip", "random.randperm", &by, "at [0]: expected");
    // The least change that float32 can show is too much for rand, and three for randn.
    fails(
        "training.zip",
        "random.rand",
        &spoilt(|_, t| up(t, 1)),
        "at [0]: expected",
    );
    fails(
        "training.zip",
        "random.randn",
        &spoilt(|_, t| up(t, 5)),
        "ulp",
    );
}

#[test]
fn a_changed_step_of_an_optimizer_fails() {
    let spoilt = |f| Spoilt {
        optimize: Some(f),
        ..Spoilt::default()
    };
    let by = spoilt(|_, o| nudge(&mut o.params[7][0]));
    for optimizer in ["optim.SGD", "optim.Adam"] {
        fails("training.zip", optimizer, &by, "step 7, parameter 0: at [");
    }
    fails(
        "training.zip",
        "optim.Muon",
        &by,
        "step 7, parameter 0: the update is off",
    );
    let by = spoilt(|_, o| o.losses[1] *= 1.0 + 1e-8);
    fails("training.zip", "optim.LBFGS", &by, "step 1: loss");
    let by = spoilt(|_, o| drop(o.params.pop()));
    fails("training.zip", "optim.SGD", &by, "steps, expected");
}

#[test]
fn a_changed_learning_rate_or_momentum_fails() {
    let spoilt = |f| Spoilt {
        schedule: Some(f),
        ..Spoilt::default()
    };
    let by = spoilt(|_, rates| rates[30].0 *= 1.0 + 1e-10);
    fails(
        "training.zip",
        "lr_scheduler.StepLR",
        &by,
        "learning rate after 30 steps",
    );
    let by = spoilt(|_, rates| rates[12].1 += 1e-9);
    fails(
        "training.zip",
        "lr_scheduler.OneCycleLR",
        &by,
        "momentum after 12 steps",
    );
    let by = spoilt(|_, rates| rates.truncate(40));
    fails(
        "training.zip",
        "lr_scheduler.StepLR",
        &by,
        "rates, expected",
    );
}

#[test]
fn a_changed_training_run_fails() {
    let spoilt = |f| Spoilt {
        train: Some(f),
        ..Spoilt::default()
    };
    let name = "training.mlp";
    let by = spoilt(|_, o| o.losses[19] *= 1.0002);
    fails("training.zip", name, &by, "loss of step 19");
    let by = spoilt(|_, o| o.grad_norms[3] *= 1.01);
    fails("training.zip", name, &by, "gradient norm of step 3");
    let by = spoilt(|_, o| nudge(&mut o.last[0].1));
    fails("training.zip", name, &by, "final");
    let by = spoilt(|run, o| {
        if matches!(run.start, Start::Seed(_)) {
            nudge(&mut o.initial[0].1);
        }
    });
    fails("training.zip", name, &by, "from a seed: initial");
}

#[test]
fn an_argument_that_is_not_passed_on_fails() {
    // A layer built without one of PyTorch's arguments must not pass by luck.
    let archive = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/modules.zip");
    let archive = Source::open(Path::new(archive)).unwrap();
    let text = archive.read("modules/Linear.json").unwrap().unwrap();
    let text = String::from_utf8(text).unwrap();
    let text = text.replace("\"init_kwargs\":{", "\"init_kwargs\":{\"inplace\":true,");
    let text = text.replace("true,}", "true}");
    let root = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("unread");
    let _ = std::fs::remove_dir_all(&root);
    std::fs::create_dir_all(root.join("modules")).unwrap();
    std::fs::write(root.join("modules/Linear.json"), text).unwrap();
    let tensors = archive.read("modules/Linear.safetensors").unwrap();
    std::fs::write(root.join("modules/Linear.safetensors"), tensors.unwrap()).unwrap();
    let source = Source::open(&root.join("modules")).unwrap();
    let report = runner::run(&source, &Torsh, &Options::default()).unwrap();
    assert_eq!(report.passed(), 0);
    let failures = &report.ops[0].failures;
    assert!(!failures.is_empty());
    assert!(
        failures
            .iter()
            .all(|f| f.contains("passes on no argument inplace")),
        "{failures:?}"
    );
}
