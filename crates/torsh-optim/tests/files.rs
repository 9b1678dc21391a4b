//! Checkpoints of PyTorch go on here, and ours there.

use torsh_nn::{Linear, Module, ModuleExt, StateDict};
use torsh_optim::lr_scheduler::{LRScheduler, MultiStepLR, StepLR};
use torsh_optim::{Adam, Optimizer, OptimizerState, named_values, values_by_name};
use torsh_serialize::Value;
use torsh_tensor::{DType, Device, Tensor};

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
