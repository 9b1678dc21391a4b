//! Checkpoints of PyTorch go on here, and ours there.

use torsh_nn::{Linear, Module, ModuleExt, StateDict};
use torsh_optim::lr_scheduler::{
    ConstantLR, CosineAnnealingLR, ExponentialLR, LRScheduler, MultiStepLR, OneCycleLR,
    SequentialLR, StepLR,
};
use torsh_optim::{
    ASGD, Adadelta, Adafactor, Adagrad, Adam, AdamW, Adamax, GradScaler, GradScalerOptions, Muon,
    NAdam, Optimizer, OptimizerState, RAdam, RMSprop, Rprop, SGD, named_values, values_by_name,
};
use torsh_serialize::{Dict, Value};
use torsh_tensor::{DType, Device, Result, Tensor};

/// Saved by PyTorch 2.15 after a step of `Adam(model.parameters(), lr=0.01)` and
/// `StepLR(adam, 10)` on the sum of `Linear(2, 1)` at (1, 1), from the weights (0.5, -0.25) and
/// the bias 0.125.
fn checkpoint(name: &str) -> Value {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../torsh-serialize/tests/data/"
    );
    torsh_serialize::load(format!("{folder}{name}")).unwrap()
}

fn all(net: &Linear) -> Vec<f64> {
    let parameters = net.parameters();
    let values = parameters.iter().map(|p| p.to_vec::<f64>().unwrap());
    values.flatten().collect()
}

fn step(net: &Linear, adam: &Adam) {
    let x = Tensor::ones([1, 2], DType::F32, Device::Cpu).unwrap();
    adam.zero_grad();
    net.forward(&x).unwrap().sum().unwrap().backward().unwrap();
    adam.step().unwrap();
}

#[test]
fn training_goes_on_from_pytorchs_checkpoint() {
    for name in ["zip.pt", "legacy.pt"] {
        let saved = checkpoint(name);
        let net = Linear::new(2, 1);
        net.load_state_dict(&StateDict::try_from(saved.get("model").unwrap()).unwrap())
            .unwrap();
        let adam = Adam::new(net.parameters(), 0.5).unwrap();
        let scheduler = StepLR::new(&adam, 3, 0.5).unwrap();
        let state = OptimizerState::try_from(saved.get("optimizer").unwrap()).unwrap();
        assert_eq!(state.state[&0]["step"].as_f64(), Some(1.0));
        adam.load_state_dict(&state).unwrap();
        scheduler
            .load_state_dict(&named_values(saved.get("scheduler").unwrap()).unwrap())
            .unwrap();
        assert_eq!(adam.get_lr(), 0.01);
        for _ in 0..9 {
            step(&net, &adam);
            scheduler.step().unwrap();
        }
        // What PyTorch comes to.
        let want = [0.4000001, -0.3499999, 0.0250000153];
        for (a, b) in all(&net).iter().zip(want) {
            assert!((a - b).abs() < 1e-7, "{name}: {a} is not {b}");
        }
        assert!((adam.get_lr() - 0.001).abs() < 1e-12);
    }
}

#[test]
fn states_survive_a_file() {
    let net = Linear::new(2, 1);
    let adam = Adam::builder(net.parameters())
        .lr(0.1)
        .amsgrad(true)
        .build()
        .unwrap();
    let scheduler = MultiStepLR::new(&adam, [2, 2, 5], 0.5).unwrap();
    for _ in 0..3 {
        step(&net, &adam);
        scheduler.step().unwrap();
    }
    let saved = Value::from([
        ("optimizer", Value::from(&adam.state_dict())),
        ("scheduler", values_by_name(&scheduler.state_dict())),
        ("model", Value::from(&net.state_dict())),
    ]);
    let counts = saved.at(&["scheduler", "milestones"]).unwrap();
    assert_eq!(counts.get(2).unwrap(), &Value::Int(2));
    let path = std::env::temp_dir().join(format!("torsh-optim-files-{}.pt", std::process::id()));
    torsh_serialize::save(&saved, &path).unwrap();
    let read = torsh_serialize::load(&path).unwrap();
    std::fs::remove_file(&path).unwrap();

    let other = Linear::new(2, 1);
    other
        .load_state_dict(&StateDict::try_from(read.get("model").unwrap()).unwrap())
        .unwrap();
    let again = Adam::builder(other.parameters())
        .amsgrad(true)
        .build()
        .unwrap();
    let schedule = MultiStepLR::new(&again, [1], 0.9).unwrap();
    again
        .load_state_dict(&OptimizerState::try_from(read.get("optimizer").unwrap()).unwrap())
        .unwrap();
    schedule
        .load_state_dict(&named_values(read.get("scheduler").unwrap()).unwrap())
        .unwrap();
    for _ in 0..4 {
        step(&net, &adam);
        scheduler.step().unwrap();
        step(&other, &again);
        schedule.step().unwrap();
    }
    assert_eq!(all(&net), all(&other));
    assert_eq!(adam.get_lr(), again.get_lr());
    assert_eq!(adam.get_lr(), 0.1 * 0.125);
}

fn one_parameter() -> Result<Tensor> {
    Ok(Tensor::from_data(&[0.0f32], [1])?.requires_grad_(true))
}

/// The state of PyTorch's `OneCycleLR(sgd, 0.8, 8, pct_start=0.5, anneal_strategy="linear")` after two steps, and what
/// follows.
#[test]
fn one_cycle_goes_on_from_pytorchs_state() -> Result<()> {
    let phase = |end: Value, lrs: [&str; 2], momenta: [&str; 2]| {
        Value::from([
            ("end_step", end),
            ("start_lr", lrs[0].into()),
            ("end_lr", lrs[1].into()),
            ("start_momentum", momenta[0].into()),
            ("end_momentum", momenta[1].into()),
        ])
    };
    let phases = |end: Value| {
        let momenta = ["max_momentum", "base_momentum"];
        Value::List(vec![
            phase(Value::from(3.0), ["initial_lr", "max_lr"], momenta),
            phase(end, ["max_lr", "min_lr"], [momenta[1], momenta[0]]),
        ])
    };
    let saved = Value::from([
        ("total_steps", Value::from(8)),
        ("_schedule_phases", phases(Value::from(7))),
        ("_anneal_func_type", "linear".into()),
        ("cycle_momentum", true.into()),
        ("use_beta1", false.into()),
        ("base_lrs", Value::List(vec![0.032.into()])),
        ("last_epoch", 2.into()),
        ("_step_count", 3.into()),
        ("_is_initial", false.into()),
        ("_get_lr_called_within_step", false.into()),
        ("_last_lr", Value::List(vec![0.544.into()])),
    ]);
    let sgd = SGD::builder([one_parameter()?])
        .lr(0.5)
        .momentum(0.9)
        .build()?;
    let scheduler = OneCycleLR::new(&sgd, 0.1, 20)?;
    let mut state = sgd.state_dict();
    for (name, value) in [
        ("lr", 0.544),
        ("initial_lr", 0.032),
        ("max_lr", 0.8),
        ("min_lr", 3.2e-06),
    ] {
        state.param_groups[0]
            .options
            .insert(name.into(), value.into());
    }
    sgd.load_state_dict(&state)?;
    let loaded = named_values(&saved)?;
    scheduler.load_state_dict(&loaded)?;
    // The form that PyTorch reads again.
    let written = values_by_name(&scheduler.state_dict());
    assert_eq!(written.get("_schedule_phases")?, &phases(Value::from(7.0)));
    for name in ["total_steps", "_anneal_func_type", "cycle_momentum"] {
        assert_eq!(written.get(name)?, saved.get(name)?);
    }
    for [lr, momentum] in [
        [0.8, 0.85],
        [0.6000008, 0.875],
        [0.4000016, 0.8999999999999999],
        [0.20000240000000002, 0.9249999999999999],
        [3.199999999980996e-06, 0.95],
    ] {
        scheduler.step()?;
        assert!(
            (sgd.get_lr() - lr).abs() < 1e-14,
            "{} is not {lr}",
            sgd.get_lr()
        );
        let own = sgd.get_option(0, "momentum").and_then(|v| v.as_f64());
        assert!(own.is_some_and(|m| (m - momentum).abs() < 1e-14), "{own:?}");
    }
    Ok(())
}

/// The state of `SequentialLR(sgd, [ConstantLR(sgd, 0.5, 10), MultiStepLR(sgd, [2, 2], 0.5)], [2])` after a step.
#[test]
fn a_sequence_goes_on_from_pytorchs_state() -> Result<()> {
    let rates = |epoch: i64, count: i64| {
        [
            ("base_lrs", Value::List(vec![0.5.into()])),
            ("last_epoch", epoch.into()),
            ("_step_count", count.into()),
            ("_last_lr", Value::List(vec![0.25.into()])),
        ]
    };
    let mut counts = Dict::new();
    counts.insert(2, 2).unwrap();
    let constant = [("factor", Value::from(0.5)), ("total_iters", 10.into())];
    let steps = [("milestones", Value::Dict(counts)), ("gamma", 0.5.into())];
    let saved = Value::from([
        ("_milestones", Value::List(vec![2.into()])),
        ("last_epoch", 1.into()),
        ("_last_lr", Value::List(vec![0.25.into()])),
        (
            "_schedulers",
            Value::List(vec![
                constant.into_iter().chain(rates(1, 2)).collect(),
                steps.into_iter().chain(rates(-1, 1)).collect(),
            ]),
        ),
    ]);
    let sgd = SGD::new([one_parameter()?], 0.5)?;
    let parts: Vec<Box<dyn LRScheduler>> = vec![
        Box::new(ConstantLR::new(&sgd, 0.1, 3)?),
        Box::new(MultiStepLR::new(&sgd, [7], 0.9)?),
    ];
    let scheduler = SequentialLR::new(&sgd, parts, &[5])?;
    sgd.set_lr(0.25);
    scheduler.load_state_dict(&named_values(&saved)?)?;
    let written = values_by_name(&scheduler.state_dict());
    let place = ["_schedulers", "_milestones"].map(|name| written.get(name).unwrap());
    assert_eq!(place[0].as_list()?.len(), 2);
    assert_eq!(
        place[0].as_list()?[1].get("milestones")?,
        saved.get("_schedulers")?.as_list()?[1].get("milestones")?
    );
    for lr in [0.5, 0.5, 0.125, 0.125] {
        scheduler.step()?;
        assert_eq!(sgd.get_lr(), lr);
    }
    Ok(())
}

/// State dicts of earlier PyTorch lack settings, and have steps that are no tensors.
#[test]
fn states_of_earlier_versions_are_loaded() -> Result<()> {
    let w = one_parameter()?;
    let build = || {
        Adam::builder([&w])
            .lr(0.5)
            .amsgrad(true)
            .maximize(true)
            .build()
    };
    let (adam, tensor) = (build()?, Tensor::from_data(&[0.5f32], [1])?);
    let mut remembered = Dict::new();
    let of_adam = Value::from([
        ("step", Value::from(3)),
        ("exp_avg", Value::Tensor(tensor.clone())),
        ("exp_avg_sq", Value::Tensor(tensor)),
    ]);
    remembered.insert(140_234, of_adam).unwrap();
    let saved = Value::from([
        ("state", Value::Dict(remembered)),
        (
            "param_groups",
            Value::List(vec![Value::from([
                ("lr", Value::from(0.25)),
                ("betas", Value::Tuple(vec![0.9.into(), 0.999.into()])),
                ("eps", 1e-8.into()),
                ("weight_decay", 0.into()),
                // The ids of Python's objects.
                ("params", Value::List(vec![140_234.into()])),
            ])]),
        ),
    ]);
    adam.load_state_dict(&OptimizerState::try_from(&saved)?)?;
    let options = adam.options(0).expect("a group");
    assert_eq!(
        (options.lr, options.amsgrad, options.maximize, options.betas),
        (0.25, false, false, (0.9, 0.999))
    );
    let state = adam.state_dict();
    assert_eq!(state.state[&0]["step"].as_i64(), Some(3));
    // Not off, but missing.
    let rms = RMSprop::builder([&w])
        .lr(0.5)
        .momentum(0.9)
        .centered(true)
        .build()?;
    let mut old = rms.state_dict();
    for name in ["momentum", "centered", "maximize"] {
        old.param_groups[0].options.remove(name);
    }
    old.param_groups[0]
        .options
        .insert("alpha".into(), 0.5.into());
    rms.load_state_dict(&old)?;
    let options = rms.options(0).expect("a group");
    assert_eq!(
        (options.momentum, options.centered, options.alpha),
        (0.0, false, 0.5)
    );
    Ok(())
}

#[test]
fn what_is_no_state_is_refused() {
    let saved = checkpoint("zip.pt");
    let error = OptimizerState::try_from(saved.get("model").unwrap()).unwrap_err();
    assert!(error.to_string().contains("state"), "{error}");
    let bad = Value::from([
        ("state", Value::from([("x", Value::None)])),
        ("param_groups", Value::List(vec![])),
    ]);
    assert!(OptimizerState::try_from(&bad).is_err());
    assert!(named_values(&Value::from([("a", Value::Bytes(vec![1]))])).is_err());
}

/// A training run of one optimizer, with a scheduler and a scaler.
struct Training {
    params: Vec<Tensor>,
    optimizer: Box<dyn Optimizer>,
    scheduler: StepLR,
    scaler: GradScaler,
}

type Build = fn(&[Tensor]) -> Result<Box<dyn Optimizer>>;

macro_rules! optimizers {
    ($($name:ident)*) => {
        [$((stringify!($name), |p| Ok(Box::new($name::new(p, 0.05)?))),)*]
    };
}

const OPTIMIZERS: [(&str, Build); 13] = optimizers! {
    SGD Adam AdamW NAdam RAdam Adamax Adagrad Adadelta RMSprop Rprop ASGD Adafactor Muon
};

impl Training {
    fn new(build: Build) -> Result<Training> {
        let values = [[1.0, -2.0], [0.5, 0.25], [-0.75, 3.0]];
        let first = Tensor::from_data(&values.concat(), [3, 2])?;
        let second = first.narrow(0, 1, 1)?.neg()?;
        let params = vec![first.requires_grad_(true), second.requires_grad_(true)];
        let optimizer = build(&params)?;
        let scaler = GradScalerOptions::new().init_scale(8.0).growth_interval(2);
        Ok(Training {
            scheduler: StepLR::new(&*optimizer, 2, 0.5)?,
            scaler: GradScaler::new_with(scaler)?,
            params,
            optimizer,
        })
    }

    /// The steps of these numbers, with the gradients of `data/go_on.py`.
    fn run(&self, steps: std::ops::Range<usize>) -> Result<()> {
        for step in steps {
            let scale = self
                .scaler
                .scale(&Tensor::ones((), DType::F64, Device::Cpu)?)?;
            for (i, p) in self.params.iter().enumerate() {
                let g = gradient(p, i, step).to_dtype(DType::F64)?.mul(&scale)?;
                p.set_grad(Some(g))?;
            }
            self.scaler.step(&self.optimizer)?;
            self.scaler.update()?;
            self.scheduler.step()?;
        }
        Ok(())
    }

    fn save(&self) -> Result<Value> {
        let params = self.params.iter().map(|p| Value::from(p.detach()));
        Ok(Value::from([
            ("params", Value::List(params.collect())),
            ("optimizer", Value::from(&self.optimizer.state_dict())),
            ("scheduler", values_by_name(&self.scheduler.state_dict())),
            ("scaler", values_by_name(&self.scaler.state_dict()?)),
        ]))
    }

    fn load(&self, saved: &Value) -> Result<()> {
        for (p, s) in self.params.iter().zip(saved.get("params")?.as_list()?) {
            p.detach().copy_(s.as_tensor()?)?;
        }
        let optimizer = OptimizerState::try_from(saved.get("optimizer")?)?;
        self.optimizer.load_state_dict(&optimizer)?;
        let scheduler = named_values(saved.get("scheduler")?)?;
        self.scheduler.load_state_dict(&scheduler)?;
        let scaler = named_values(saved.get("scaler")?)?;
        self.scaler.load_state_dict(&scaler)
    }

    fn near(&self, other: &Training, name: &str) -> Result<()> {
        // Muon's iterations are in bfloat16, whose sums have no fixed order.
        let near = if name == "Muon" { 1e-3 } else { 1e-12 };
        for (p, q) in self.params.iter().zip(&other.params) {
            for (a, b) in p.to_vec::<f64>()?.into_iter().zip(q.to_vec::<f64>()?) {
                assert!((a - b).abs() < near, "{name}: {a}, not {b}");
            }
        }
        assert_eq!(self.optimizer.get_lr(), other.optimizer.get_lr(), "{name}");
        assert_eq!(
            self.scaler.get_scale()?,
            other.scaler.get_scale()?,
            "{name}"
        );
        Ok(())
    }
}

/// Every optimizer is saved after two steps and goes on from the file; where `TORSH_PYTHON` names
/// a Python, PyTorch goes on too, and this crate from PyTorch's file.
#[test]
fn every_optimizer_goes_on_from_a_file() -> Result<()> {
    let dir = std::env::temp_dir().join(format!("torsh-optim-live-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let mut all = Vec::new();
    let mut saved = Dict::new();
    for (name, build) in OPTIMIZERS {
        let training = Training::new(build)?;
        training.run(0..2)?;
        saved.insert(name, training.save()?)?;
        all.push((name, build, training));
    }
    torsh_serialize::save(&Value::Dict(saved), dir.join("ours.pt"))?;
    let ours = torsh_serialize::load(dir.join("ours.pt"))?;
    for (name, build, training) in &all {
        let resumed = Training::new(*build)?;
        resumed.load(ours.get(*name)?)?;
        training.run(2..5)?;
        resumed.run(2..5)?;
        training.near(&resumed, name)?;
    }
    if let Some(python) = std::env::var_os("TORSH_PYTHON") {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/go_on.py");
        let out = std::process::Command::new(python)
            .arg(script)
            .arg(&dir)
            .output()?;
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        let theirs = torsh_serialize::load(dir.join("theirs.pt"))?;
        for (name, build, training) in &all {
            let resumed = Training::new(*build)?;
            resumed.load(theirs.get(*name)?)?;
            training.near(&resumed, name)?;
            training.run(5..7)?;
            resumed.run(5..7)?;
            training.near(&resumed, name)?;
        }
    }
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

/// A published training state, and what PyTorch 2.15 comes to in three steps from it
/// (`data/resume.py`).
struct Published {
    file: &'static str,
    /// The learning rate after each step.
    lrs: [f64; 3],
    /// The sums of the sizes of all parameters, of `exp_avg` and of `exp_avg_sq`.
    sums: [f64; 3],
    /// The last elements of parameters 1, 9, 40, 90 and 98.
    elements: [f64; 5],
}

#[rustfmt::skip]
const PUBLISHED: [Published; 3] = [
    Published {
        file: "chgnet_0.2.0_e30f77s348m32.pth.tar",
        lrs: [4.612593268764345e-06, 4.474215470701414e-06, 4.339989006580372e-06],
        sums: [130263.7427701535, 156.6909750020165, 0.031750586575194695],
        elements: [0.991511881351471, 0.7991986870765686, -0.7730109691619873, -0.016830552369356155, 0.09221151471138],
    },
    Published {
        file: "chgnet_0.3.0_e29f68s314m37.pth.tar",
        lrs: [7.40754531284672e-05, 6.906046381238714e-05, 6.431342517651088e-05],
        sums: [893045.0125364114, 161.3520785009995, 0.02818359869869247],
        elements: [-1.509296178817749, 3.002393960952759, 2.1456942558288574, 0.215281680226326, -2.9976747035980225],
    },
    Published {
        file: "chgnet_r2scan_transfer_learning_e15f36s161m23.pth.tar",
        lrs: [1.000977087621213e-05, 1.0039083119111029e-05, 1.008793557149957e-05],
        sums: [899041.9984459267, 161.50147466486868, 0.043341392003995116],
        elements: [-1.9252561330795288, 3.155221462249756, 1.8064566850662231, 0.24391524493694305, -2.9349758625030518],
    },
];

/// The gradients that `data/resume.py` and `data/go_on.py` give.
fn gradient(p: &Tensor, i: usize, step: usize) -> Tensor {
    let element = |k: usize| (((k * 37 + i * 11 + step * 5) % 17) as f32 - 8.0) / 1024.0;
    let values: Vec<f32> = (0..p.numel()).map(element).collect();
    Tensor::from_data(&values, p.shape()).unwrap()
}

fn size_of_all<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> f64 {
    let sum = |t: &Tensor| t.detach().to_dtype(DType::F64)?.abs()?.sum()?.item::<f64>();
    tensors.into_iter().map(|t| sum(t).unwrap()).sum()
}

/// Runs where `TORSH_CHECKPOINTS` names a folder with the checkpoints of the package chgnet 0.4.2.
#[test]
fn published_training_goes_on() {
    let Some(dir) = std::env::var_os("TORSH_CHECKPOINTS") else {
        return;
    };
    for want in PUBLISHED {
        let path = std::path::Path::new(&dir).join(want.file);
        let saved = torsh_serialize::load(path).unwrap();
        let model = saved.at(&["model", "state_dict"]).unwrap();
        let model = StateDict::try_from(model).unwrap();
        let params: Vec<Tensor> = model
            .iter()
            .map(|(_, t)| t.copy().unwrap().requires_grad_(true))
            .collect();
        let adam = Adam::new(&params, 1.0).unwrap();
        let settings = saved.get("scheduler").unwrap();
        let scheduler: Box<dyn LRScheduler> = if settings.get("T_max").is_ok() {
            Box::new(CosineAnnealingLR::new(&adam, 1, 0.0).unwrap())
        } else {
            Box::new(ExponentialLR::new(&adam, 0.5).unwrap())
        };
        let state = OptimizerState::try_from(saved.get("optimizer").unwrap()).unwrap();
        adam.load_state_dict(&state).unwrap();
        scheduler
            .load_state_dict(&named_values(settings).unwrap())
            .unwrap();
        for (step, lr) in want.lrs.into_iter().enumerate() {
            for (i, p) in params.iter().enumerate() {
                let has = state.state.contains_key(&i) || step == 2;
                p.set_grad(has.then(|| gradient(p, i, step))).unwrap();
            }
            adam.step().unwrap();
            scheduler.step().unwrap();
            let got = adam.get_lr();
            assert!(
                (got / lr - 1.0).abs() < 1e-12,
                "{}: {got}, not {lr}",
                want.file
            );
        }
        for (i, element) in [1, 9, 40, 90, 98].into_iter().zip(want.elements) {
            let got = *params[i].to_vec::<f64>().unwrap().last().unwrap();
            assert!(
                (got / element - 1.0).abs() < 2e-7,
                "{}: {got}, not {element}",
                want.file
            );
        }
        let state = adam.state_dict().state;
        assert_eq!(state.len(), params.len());
        let all = |key: &str| {
            let of = |s: &torsh_optim::ParamState| s[key].as_tensor().unwrap().clone();
            state.values().map(of).collect::<Vec<_>>()
        };
        let sums = [
            size_of_all(&params),
            size_of_all(&all("exp_avg")),
            size_of_all(&all("exp_avg_sq")),
        ];
        for (got, sum) in sums.into_iter().zip(want.sums) {
            assert!(
                (got / sum - 1.0).abs() < 1e-9,
                "{}: {got}, not {sum}",
                want.file
            );
        }
    }
}
