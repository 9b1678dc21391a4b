//! What modules save besides their parameters, and other modules in the place of some.

use super::*;

/// A module that counts its calls, and saves the count.
#[derive(Module)]
struct Counted {
    fc: Linear,
    #[module(skip)]
    calls: AtomicI64,
}

impl Module for Counted {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.fc.forward(x)
    }

    fn get_extra_state(&self) -> Option<Tensor> {
        Some(tensor![self.calls.load(Ordering::Relaxed)])
    }

    fn set_extra_state(&self, state: &Tensor) -> Result<()> {
        self.calls.store(state.item()?, Ordering::Relaxed);
        Ok(())
    }
}

fn counted(calls: i64) -> Counted {
    Counted {
        fc: Linear::new(1, 1),
        calls: AtomicI64::new(calls),
    }
}

#[test]
fn extra_states_are_saved_and_loaded() -> Result<()> {
    // Through a box and an Arc as well.
    let boxed: Box<dyn Module> = Box::new(counted(2));
    let net = sequential![counted(1), boxed, Arc::new(counted(3))];
    let state = net.state_dict();
    let names: Vec<&str> = state.keys().collect();
    assert_eq!(
        names,
        [
            "0._extra_state",
            "0.fc.weight",
            "0.fc.bias",
            "1._extra_state",
            "1.fc.weight",
            "1.fc.bias",
            "2._extra_state",
            "2.fc.weight",
            "2.fc.bias",
        ]
    );
    let mut other = sequential![counted(0), counted(0), counted(0)];
    other.load_state_dict(&state)?;
    let extra = |net: &Sequential| -> Result<Vec<i64>> {
        let states = net
            .modules()
            .into_iter()
            .filter_map(|m| m.get_extra_state());
        states.map(|s| s.item()).collect()
    };
    assert_eq!(extra(&other)?, [1, 2, 3]);
    other[0].forward(&tensor![[1.0]])?;
    assert_eq!(extra(&other)?, [2, 2, 3]);
    other.assign_state_dict(&state)?;
    assert_eq!(extra(&other)?, [1, 2, 3]);
    // Strict both ways.
    let mut lacks = state.clone();
    lacks.remove("1._extra_state");
    let error = other.load_state_dict(&lacks).expect_err("missing");
    assert!(error.to_string().contains("1._extra_state"), "{error}");
    let plain = Linear::new(1, 1);
    let mut more = plain.state_dict();
    more.insert("_extra_state", tensor![1]);
    let error = plain.load_state_dict(&more).expect_err("unexpected");
    assert!(error.to_string().contains("_extra_state"), "{error}");
    let error = plain.set_extra_state(&tensor![1]).expect_err("it has none");
    assert!(error.to_string().contains("Linear has no extra state"));
    Ok(())
}

#[test]
fn to_empty_gives_memory_to_a_model_of_the_meta_device() -> Result<()> {
    let source = sequential![Linear::new(2, 3), torsh_nn::BatchNorm1d::new(3)?];
    let state = source.state_dict();
    let mut net = torsh_nn::construct::Construction::new()
        .device(Device::Meta)
        .run(|| {
            Ok::<_, TorshError>(sequential![
                Linear::new(2, 3),
                torsh_nn::BatchNorm1d::new(3)?
            ])
        })?;
    net.get_parameter("0.bias")?;
    net.parameters()[0].tensor().clone().requires_grad_(false);
    net.to_empty(Device::Cpu)?;
    assert!(net.parameters().iter().all(|p| p.device() == Device::Cpu));
    assert!(net.buffers().iter().all(|b| b.device() == Device::Cpu));
    let wants: Vec<bool> = net.parameters().iter().map(|p| p.requires_grad()).collect();
    assert_eq!(wants, [false, true, true, true]);
    net.load_state_dict(&state)?;
    for (name, tensor) in &state {
        assert_eq!(&net.state_dict()[name], tensor);
    }
    // On the same device the memory is new as well.
    let before = net.get_parameter("0.weight")?.detach();
    net.to_empty(Device::Cpu)?;
    assert!(!net.get_parameter("0.weight")?.shares_storage(&before));
    Ok(())
}

#[test]
fn set_submodule_replaces_modules() -> Result<()> {
    #[derive(Module)]
    struct Net {
        body: Box<dyn Module>,
        head: Linear,
        blocks: Vec<Box<dyn Module>>,
        hooks: Hooks,
    }
    impl Module for Net {
        fn forward(&self, x: &Tensor) -> Result<Tensor> {
            let x = self.head.forward(&self.body.forward(x)?)?;
            self.blocks.iter().try_fold(x, |x, b| b.forward(&x))
        }
    }
    let mut net = Net {
        body: Box::new(ReLU::new()),
        head: linear(tensor![[2.0]], None),
        blocks: vec![Box::new(Tanh::new()), Box::new(sequential![Tanh::new()])],
        hooks: Hooks::new(),
    };
    net.set_submodule("body", linear(tensor![[5.0]], None))?;
    net.set_submodule("head", linear(tensor![[3.0]], None))?;
    net.set_submodule("blocks.0", linear(tensor![[-1.0]], None))?;
    net.set_submodule("blocks.1.0", ReLU::new())?;
    assert_eq!(net.forward(&tensor![[-2.0]])?, tensor![[30.0]]);
    let names: Vec<&str> = net.modules().iter().map(|m| m.type_name()).collect();
    assert_eq!(
        names,
        ["Net", "Linear", "Linear", "Linear", "Sequential", "ReLU"]
    );
    // A box may be replaced by a box.
    let boxed: Box<dyn Module> = Box::new(ReLU::new());
    net.set_submodule("body", boxed)?;
    assert_eq!(net.get_submodule("body")?.type_name(), "ReLU");
    let refused = |net: &mut Net, name: &str, text: &str| {
        let error = net.set_submodule(name, ReLU::new()).expect_err("refused");
        assert!(error.to_string().contains(text), "{error}");
    };
    refused(
        &mut net,
        "head",
        "`head` is a Linear that a ReLU cannot replace",
    );
    refused(&mut net, "tail", "has no module `tail`");
    refused(&mut net, "", "its own place");
    let shared = Arc::new(ReLU::new());
    let mut holder = sequential![shared.clone()];
    holder.set_submodule("0", Tanh::new())?;
    assert_eq!(holder[0].type_name(), "Tanh");
    Ok(())
}

#[test]
fn gradients_of_hooked_modules_are_asked_for() -> Result<()> {
    // `grad` of the input alone goes through both nodes.
    let net = net();
    let log = watch(&net);
    let x = tensor![[1.0, 1.0], [2.0, 1.0]].requires_grad_(true);
    let y = net.forward(&x)?.sum()?;
    let g = grad(&[y], std::slice::from_ref(&x), &[], false, false, false)?;
    assert_eq!(g[0], Some(tensor![[2.0, 4.0], [-1.0, 0.0]]));
    assert_eq!(taken(&log), expected());
    assert!(net.parameters().iter().all(|p| p.grad().is_none()));
    Ok(())
}
