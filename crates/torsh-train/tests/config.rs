//! Configurations in three forms, and what is said of mistakes in them.

use torsh_nn::{Linear, Module, ModuleExt};
use torsh_optim::Optimizer;
use torsh_optim::lr_scheduler::LRScheduler;
use torsh_tensor::{DType, Device, Tensor};
use torsh_train::config::{
    EarlyStoppingConfig, ExperimentConfig, Format, Interval, Mode, ModelConfig, OptimizerConfig,
    SchedulerConfig,
};
use torsh_train::registry::{create_model, create_optimizer, create_scheduler, schedulers};

const YAML: &str = "\
name: digits
seed: 3
model:
  architecture: mlp
  input_size: 64
  dropout: 0.25
  options: {heads: 4}
optimizer:
  name: AdamW
  lr: 1e-3
  betas: [0.9, 0.95]
scheduler:
  name: warmup_cosine
  interval: step
  warmup_steps: 10
  total_steps: 100
training:
  epochs: 5
  batch_size: 16
  clip_grad_norm: 1
  early_stopping:
    patience: 2
    metric: accuracy
    mode: max
evaluation:
  metrics: [accuracy, f1_macro]
";

const JSON: &str = r#"{
  "name": "digits",
  "seed": 3,
  "model": {"architecture": "mlp", "input_size": 64, "dropout": 0.25, "options": {"heads": 4}},
  "optimizer": {
    "name": "AdamW",
    "lr": 1e-3,
    "betas": [0.9, 0.95]
  },
  "scheduler": {"name": "warmup_cosine", "interval": "step", "warmup_steps": 10, "total_steps": 100},
  "training": {
    "epochs": 5,
    "batch_size": 16,
    "clip_grad_norm": 1,
    "early_stopping": {"patience": 2, "metric": "accuracy", "mode": "max"}
  },
  "evaluation": {"metrics": ["accuracy", "f1_macro"]}
}
"#;

const TOML: &str = r#"name = "digits"
seed = 3

[model]
architecture = "mlp"
input_size = 64
dropout = 0.25
options = { heads = 4 }

[optimizer]
name = "AdamW"
lr = 1e-3
betas = [0.9, 0.95]

[scheduler]
name = "warmup_cosine"
interval = "step"
warmup_steps = 10
total_steps = 100

[training]
epochs = 5
batch_size = 16
clip_grad_norm = 1

[training.early_stopping]
patience = 2
metric = "accuracy"
mode = "max"

[evaluation]
metrics = ["accuracy", "f1_macro"]
"#;

fn expected() -> ExperimentConfig {
    let mut c = ExperimentConfig {
        name: "digits".into(),
        seed: Some(3),
        model: ModelConfig {
            input_size: 64,
            dropout: 0.25,
            ..ModelConfig::new("mlp")
        },
        optimizer: OptimizerConfig::new("AdamW")
            .option("lr", 1e-3)
            .option("betas", vec![0.9, 0.95]),
        scheduler: Some(
            SchedulerConfig::new("warmup_cosine")
                .interval(Interval::Step)
                .option("warmup_steps", 10)
                .option("total_steps", 100),
        ),
        ..ExperimentConfig::default()
    };
    c.model.options.insert("heads".into(), 4.into());
    c.training.epochs = 5;
    c.training.batch_size = 16;
    c.training.clip_grad_norm = Some(1.0);
    c.training.early_stopping = Some(EarlyStoppingConfig {
        patience: 2,
        metric: "accuracy".into(),
        mode: Mode::Max,
        ..EarlyStoppingConfig::default()
    });
    c.evaluation.metrics = vec!["accuracy".into(), "f1_macro".into()];
    c
}

const ALL: [(Format, &str, &str); 3] = [
    (Format::Yaml, "run.yaml", YAML),
    (Format::Json, "run.json", JSON),
    (Format::Toml, "run.toml", TOML),
];

#[test]
fn the_three_forms_say_the_same() {
    let folder = std::env::temp_dir().join(format!("torsh-config-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for (format, name, text) in ALL {
        assert_eq!(
            ExperimentConfig::from_str(text, format).unwrap(),
            expected(),
            "{name}"
        );
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        assert_eq!(
            ExperimentConfig::from_file(&path).unwrap(),
            expected(),
            "{name}"
        );
    }
    // As an editor of Windows writes them.
    for (_, name, text) in ALL {
        let path = folder.join(name);
        std::fs::write(&path, format!("\u{feff}{}", text.replace('\n', "\r\n"))).unwrap();
        let read = ExperimentConfig::from_file(&path).unwrap();
        assert_eq!(read, expected(), "{name}");
    }
    let e = ExperimentConfig::from_file(folder.join("run.ini"))
        .unwrap_err()
        .to_string();
    assert!(e.contains("run.ini") && e.contains(".toml"), "{e}");
    let e = ExperimentConfig::from_file(folder.join("none.yml"))
        .unwrap_err()
        .to_string();
    assert!(e.contains("none.yml"), "{e}");
    std::fs::remove_dir_all(&folder).unwrap();
    let json = expected().to_json().unwrap();
    assert_eq!(
        ExperimentConfig::from_str(&json, Format::Json).unwrap(),
        expected()
    );
    let empty = ExperimentConfig::from_str("", Format::Toml).unwrap();
    assert_eq!(empty, ExperimentConfig::default());
    assert!(empty.validate().is_ok());
}

/// The text with one line changed, and what is said of it.
#[track_caller]
fn said((format, name, text): (Format, &str, &str), from: &str, to: &str, words: &[&str]) {
    assert!(text.contains(from), "{name} has no {from}");
    let e = ExperimentConfig::from_str(&text.replacen(from, to, 1), format).unwrap_err();
    let e = e.to_string();
    assert!(
        words.iter().all(|w| e.contains(w)),
        "{name}: {e}\nhas not {words:?}"
    );
}

#[test]
fn mistakes_are_named_with_field_and_line() {
    let [yaml, json, toml] = ALL;
    // Not a value of the field's type.
    let wrong = "training.epochs: invalid type: string \"five\", expected usize";
    said(yaml, "epochs: 5", "epochs: five", &["YAML:18:11: ", wrong]);
    said(
        json,
        "\"epochs\": 5",
        "\"epochs\": \"five\"",
        &["JSON:12:20: ", wrong],
    );
    said(
        toml,
        "epochs = 5",
        "epochs = \"five\"",
        &["TOML:22:10: ", wrong],
    );
    // No such field.
    let unknown = "unknown field `epoch`, expected one of `epochs`, `batch_size`";
    said(
        yaml,
        "epochs: 5",
        "epoch: 5",
        &["YAML:18:3: training.epoch: unknown", unknown],
    );
    said(
        json,
        "\"epochs\": 5",
        "\"epoch\": 5",
        &["JSON:12:11: training", unknown],
    );
    said(
        toml,
        "epochs = 5",
        "epoch = 5",
        &["TOML:22:1: training", unknown],
    );
    // No such word.
    said(
        yaml,
        "mode: max",
        "mode: top",
        &["YAML:24:11: training.early_stopping.mode", "`top`"],
    );
    said(
        toml,
        "\"max\"",
        "\"top\"",
        &["TOML:29:8: training.early_stopping.mode", "`top`"],
    );
    // A value that cannot be.
    let zero = "training.batch_size: must be at least 1, got 0";
    said(yaml, "size: 16", "size: 0", &["YAML:19:15: ", zero]);
    said(
        json,
        "\"batch_size\": 16",
        "\"batch_size\": 0",
        &["JSON:13:19: ", zero],
    );
    said(
        toml,
        "batch_size = 16",
        "batch_size = 0",
        &["TOML:23:14: ", zero],
    );
    said(
        yaml,
        "norm: 1",
        "norm: -1",
        &["YAML:20:19: training.clip_grad_norm: must be more"],
    );
    said(
        toml,
        "dropout = 0.25",
        "dropout = 2.5",
        &["TOML:7:11: model.dropout", "2.5"],
    );
    // Settings of the optimizer.
    said(
        yaml,
        "lr: 1e-3",
        "lr: -1",
        &["YAML:10:7: optimizer.lr: Invalid learning rate: -1"],
    );
    let no = "optimizer.momentum: there is no setting momentum (the settings are lr, betas";
    said(yaml, "lr: 1e-3", "momentum: 1", &["YAML:10:13: ", no]);
    said(
        json,
        "\"lr\": 1e-3",
        "\"momentum\": 1",
        &["JSON:7:17: ", no],
    );
    said(toml, "lr = 1e-3", "momentum = 1", &["TOML:12:12: ", no]);
    let no = "optimizer.name: there is no optimizer `Adem` (there are Adadelta, Adafactor";
    said(toml, "AdamW", "Adem", &["TOML:11:8: ", no]);
    // Of the scheduler.
    said(
        yaml,
        "warmup_steps",
        "warm_steps",
        &[
            "YAML:13:3: scheduler: ",
            "the option `warmup_steps` is missing",
        ],
    );
    said(
        toml,
        "100",
        "100\nlast = 1",
        &["TOML:20:8: scheduler.last", "no option", "min_lr"],
    );
    said(
        yaml,
        "total_steps: 100",
        "total_steps: x",
        &["YAML:16:16: scheduler.total_steps", "\"x\""],
    );
    said(
        json,
        "warmup_cosine",
        "warm",
        &["JSON:10:3", "scheduler.name", "WarmupCosine"],
    );
    // Of metrics and dtypes.
    said(
        yaml,
        "f1_macro",
        "f2",
        &["YAML:26:23: evaluation.metrics.1: there is no metric `f2`"],
    );
    said(
        toml,
        "64",
        "64\ndtype = 'int64'",
        &["TOML:7:9: model.dtype", "not int64"],
    );
    // No text of the form at all.
    said(yaml, "model:", "model: [", &["YAML:"]);
    said(
        json,
        "\"seed\": 3,",
        "\"seed\": 3",
        &["JSON:4:3: ", "expected `,` or `}`"],
    );
    said(
        json,
        "}\n}\n",
        "}\n} 1\n",
        &["JSON:18:3: trailing characters"],
    );
    said(toml, "seed = 3", "seed = ", &["TOML:2:"]);
}

#[test]
fn configurations_become_models_optimizers_and_schedulers() {
    let c = expected();
    let model = create_model(&c.model).unwrap();
    assert_eq!(
        model.num_parameters(),
        64 * 128 + 128 + 128 * 128 + 128 + 128 * 10 + 10
    );
    model.eval();
    let x = Tensor::ones([2, 8, 8], DType::F32, Device::Cpu).unwrap();
    assert_eq!(model.forward(&x).unwrap().dims(), [2, 10]);

    let optimizer = create_optimizer(&c.optimizer, model.parameters()).unwrap();
    let option = |name: &str| optimizer.get_option(0, name).unwrap();
    assert_eq!(option("betas").as_floats(), Some(vec![0.9, 0.95]));
    assert_eq!(option("weight_decay").as_f64(), Some(0.01));
    let scheduler = create_scheduler(c.scheduler.as_ref().unwrap(), &optimizer).unwrap();
    for _ in 0..10 {
        scheduler.step().unwrap();
    }
    assert!((optimizer.get_lr() - 1e-3).abs() < 1e-15);

    let weights = std::env::temp_dir().join(format!("torsh-config-{}.pt", std::process::id()));
    model.save(&weights).unwrap();
    let again = ModelConfig {
        pretrained: Some(weights.clone()),
        ..c.model
    };
    let again = create_model(&again).unwrap();
    again.eval();
    assert_eq!(again.forward(&x).unwrap(), model.forward(&x).unwrap());
    std::fs::remove_file(&weights).unwrap();
}

#[test]
fn every_scheduler_of_the_registry_is_made() {
    let settings = [
        ("StepLR", "{step_size: 2}", 0.5),
        ("multi_step", "{milestones: [1, 2], gamma: 0.5}", 0.25),
        ("constant", "{factor: 0.5, total_iters: 1}", 0.5),
        ("linear", "{start_factor: 0.5, total_iters: 2}", 0.375),
        ("exponential", "{gamma: 0.5}", 0.25),
        ("polynomial", "{total_iters: 2, power: 1}", 0.25),
        ("cosine_annealing", "{t_max: 2}", 0.25),
        ("cosine-annealing-warm-restarts", "{t_0: 2}", 0.25),
        ("WarmupCosine", "{warmup_steps: 2, total_steps: 4}", 0.25),
        (
            "cyclic",
            "{base_lr: 0.1, max_lr: 0.5, step_size_up: 2}",
            0.3,
        ),
        (
            "one_cycle",
            "{max_lr: 0.5, total_steps: 4, pct_start: 0.5, anneal_strategy: linear}",
            0.5,
        ),
        ("ReduceLROnPlateau", "{patience: 0}", 0.5),
    ];
    assert_eq!(schedulers().names().len(), settings.len());
    for (name, options, after_1) in settings {
        let text = format!(
            "name: {name}\n{}",
            &options.replace(", ", "\n").replace(['{', '}'], "")
        );
        let text = text.replace("[1\n2]", "[1, 2]");
        let config: SchedulerConfig = torsh_train::config::from_str(&text, Format::Yaml).unwrap();
        let net = Linear::new(1, 1);
        let sgd = OptimizerConfig::sgd(0.5).option("momentum", 0.9);
        let sgd = create_optimizer(&sgd, net.parameters()).unwrap();
        let scheduler = create_scheduler(&config, &sgd).unwrap();
        scheduler.step_metric(1.0).unwrap();
        let lr = sgd.get_lr();
        assert!(
            (lr - after_1).abs() < 1e-12,
            "{name}: {lr} is not {after_1}"
        );
    }
}

/// What PyTorch takes per parameter group is a number or a list here too.
#[test]
fn schedulers_take_lists_of_groups() {
    let groups = || {
        let group = |lr: f64| torsh_optim::ParamGroup::new(Linear::new(1, 1).parameters()).lr(lr);
        torsh_optim::SGD::builder([group(0.5), group(0.05)])
            .momentum(0.9)
            .build()
            .unwrap()
    };
    for (name, options, first) in [
        (
            "one_cycle",
            r#"{"max_lr": [0.5, 0.25], "total_steps": 4, "div_factor": 5}"#,
            [0.1, 0.05],
        ),
        (
            "cyclic",
            r#"{"base_lr": [0.1, 0.2], "max_lr": 1, "max_momentum": [0.9, 0.8]}"#,
            [0.1, 0.2],
        ),
        (
            "ReduceLROnPlateau",
            r#"{"min_lr": [0.1, 0.01]}"#,
            [0.5, 0.05],
        ),
    ] {
        let text = options.replacen('{', &format!("{{\"name\": \"{name}\", "), 1);
        let config: SchedulerConfig = torsh_train::config::from_str(&text, Format::Json).unwrap();
        let sgd = groups();
        create_scheduler(&config, &sgd).unwrap();
        for (lr, first) in sgd.group_lrs().into_iter().zip(first) {
            assert!((lr - first).abs() < 1e-12, "{name}: {lr} is not {first}");
        }
    }
    let config = SchedulerConfig::new("one_cycle")
        .option("max_lr", vec![0.5])
        .option("total_steps", 4);
    let error = create_scheduler(&config, &groups())
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("max_lr has 1 values"), "{error}");
}
