//! Hooks on gradients, on state dicts and of all modules; what modules save besides; other modules in the place of some.
//! The values are PyTorch's.

mod modules;

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use torsh_nn::{
    Bilinear, Conv2d, GRU, HookOptions, Hooks, LSTMCell, Linear, LoadStateDictOptions, MSELoss,
    Module, ModuleExt, MultiheadAttention, MultiheadAttentionOptions, ReLU, Sequential, StateDict,
    Tanh, init, register_module_forward_hook, register_module_forward_pre_hook,
    register_module_full_backward_hook, register_module_full_backward_pre_hook, sequential,
};
use torsh_tensor::{Device, Result, Tensor, TorshError, checkpoint, grad, no_grad, tensor};

type Log<T> = Arc<Mutex<Vec<T>>>;
type Grads = Vec<Option<Vec<f32>>>;

fn put<T>(log: &Log<T>, value: T) {
    log.lock().unwrap().push(value);
}

fn taken<T>(log: &Log<T>) -> Vec<T> {
    std::mem::take(&mut *log.lock().unwrap())
}

fn values(grads: &[Option<Tensor>]) -> Grads {
    let values = |g: &Tensor| g.detach().flatten(0).unwrap().to_vec::<f32>().unwrap();
    grads.iter().map(|g| g.as_ref().map(values)).collect()
}

fn linear(weight: Tensor, bias: Option<Tensor>) -> Linear {
    let builder = Linear::builder(weight.dims()[1], weight.dims()[0]);
    let layer = builder.bias(bias.is_some()).build().unwrap();
    no_grad(|| {
        layer.weight.copy_(&weight)?;
        if let (Some(own), Some(bias)) = (&layer.bias, &bias) {
            own.copy_(bias)?;
        }
        Ok(())
    })
    .unwrap();
    layer
}

fn net() -> Sequential {
    sequential![
        linear(tensor![[1.0, 2.0], [3.0, 4.0]], Some(tensor![0.5, -9.0])),
        ReLU::new(),
        linear(tensor![[2.0, -1.0]], Some(tensor![1.0])),
    ]
}

type Call = (String, Grads, Grads);

/// Notes all calls of backward hooks of a model.
fn watch(net: &dyn Module) -> Log<Call> {
    let log: Log<Call> = Log::default();
    for (name, module) in net.named_modules() {
        let (first, second) = (log.clone(), log.clone());
        let pre = format!("{name} pre");
        module
            .register_full_backward_hook(move |_, gi, go| {
                put(&first, (name.clone(), values(gi), values(go)));
                Ok(None)
            })
            .unwrap();
        module
            .register_full_backward_pre_hook(move |_, go| {
                put(&second, (pre.clone(), Vec::new(), values(go)));
                Ok(None)
            })
            .unwrap();
    }
    log
}

fn expected() -> Vec<Call> {
    let call = |name: &str, gi: &[&[f32]], go: &[f32]| {
        let gi = gi.iter().map(|g| Some(g.to_vec())).collect();
        (name.to_string(), gi, vec![Some(go.to_vec())])
    };
    let two = [2.0, -1.0, 2.0, -1.0];
    let relu = [2.0, 0.0, 2.0, -1.0];
    let input = [2.0, 4.0, -1.0, 0.0];
    vec![
        call(" pre", &[], &[1.0, 1.0]),
        call("2 pre", &[], &[1.0, 1.0]),
        call("2", &[&two], &[1.0, 1.0]),
        call("1 pre", &[], &two),
        call("1", &[&relu], &two),
        call("0 pre", &[], &relu),
        call("0", &[&input], &relu),
        call("", &[&input], &[1.0, 1.0]),
    ]
}

#[test]
fn full_backward_hooks_see_the_gradients_of_all_modules() -> Result<()> {
    let net = net();
    let log = watch(&net);
    let x = tensor![[1.0, 1.0], [2.0, 1.0]].requires_grad_(true);
    net.forward(&x)?.sum()?.backward()?;
    assert_eq!(taken(&log), expected());
    assert_eq!(x.grad(), Some(tensor![[2.0, 4.0], [-1.0, 0.0]]));
    let weight = net.get_parameter("0.weight")?;
    assert_eq!(weight.grad(), Some(tensor![[6.0, 4.0], [-2.0, -1.0]]));
    // Nothing is called where nothing is recorded.
    no_grad(|| net.forward(&x))?;
    assert!(taken(&log).is_empty());
    Ok(())
}

#[test]
fn full_backward_hooks_within_a_checkpoint() -> Result<()> {
    let net = Arc::new(net());
    let log = watch(&*net);
    let x = tensor![[1.0, 1.0], [2.0, 1.0]].requires_grad_(true);
    let (inner, model) = (x.clone(), net.clone());
    checkpoint(move || model.forward(&inner))?
        .sum()?
        .backward()?;
    assert_eq!(taken(&log), expected());
    assert_eq!(x.grad(), Some(tensor![[2.0, 4.0], [-1.0, 0.0]]));
    Ok(())
}

/// A module of a program's own.
#[derive(Module)]
struct Own {
    first: Linear,
    second: Linear,
    hooks: Hooks,
}

impl Module for Own {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks
            .run(self, x, |x| self.second.forward(&self.first.forward(x)?))
    }
}

fn own() -> Own {
    Own {
        first: linear(tensor![[2.0]], None),
        second: linear(tensor![[5.0]], None),
        hooks: Hooks::new(),
    }
}

#[test]
fn full_backward_hooks_of_derived_modules() -> Result<()> {
    let net = own();
    let seen: Log<(Grads, Grads)> = Log::default();
    let log = seen.clone();
    let handle = net.register_full_backward_hook(move |module, gi, go| {
        assert_eq!(module, "Own");
        put(&log, (values(gi), values(go)));
        Ok(None)
    })?;
    let x = tensor![[3.0]].requires_grad_(true);
    net.forward(&x)?.mul(2.0)?.backward()?;
    assert_eq!(
        taken(&seen),
        [(vec![Some(vec![20.0])], vec![Some(vec![2.0])])]
    );
    handle.remove();
    net.forward(&x)?.backward()?;
    assert!(taken(&seen).is_empty());
    Ok(())
}

#[test]
fn full_backward_hooks_replace_gradients_in_their_order() -> Result<()> {
    let layer = linear(tensor![[3.0]], None);
    let seen: Log<(f32, f32)> = Log::default();
    layer.register_full_backward_pre_hook(|_, go| {
        Ok(Some(vec![go[0].as_ref().map(|g| g.mul(10.0)).transpose()?]))
    })?;
    let number = |g: &Option<Tensor>| g.as_ref().unwrap().item::<f32>();
    let log = seen.clone();
    layer.register_full_backward_hook(move |_, gi, go| {
        put(&log, (number(&gi[0])?, number(&go[0])?));
        Ok(Some(vec![gi[0].as_ref().map(|g| g.add(1.0)).transpose()?]))
    })?;
    let log = seen.clone();
    layer.register_full_backward_hook_with(
        move |_, gi, go| {
            put(&log, (number(&gi[0])?, number(&go[0])?));
            Ok(Some(vec![gi[0].as_ref().map(|g| g.mul(2.0)).transpose()?]))
        },
        HookOptions::new().prepend(true),
    )?;
    let x = tensor![[2.0]].requires_grad_(true);
    layer.forward(&x)?.backward()?;
    assert_eq!(taken(&seen), [(30.0, 10.0), (60.0, 10.0)]);
    assert_eq!(x.grad(), Some(tensor![[61.0]]));
    assert_eq!(layer.weight.grad(), Some(tensor![[20.0]]));
    // In the middle of a model.
    let net = sequential![
        linear(tensor![[1.0, 2.0]], None),
        Tanh::new(),
        linear(tensor![[2.0]], None)
    ];
    net[1].register_full_backward_hook(|_, gi, _| {
        let g = gi[0].as_ref().map(|g| g.mul(0.0)?.add(7.0)).transpose()?;
        Ok(Some(vec![g]))
    })?;
    let x = tensor![[0.1, 0.2]].requires_grad_(true);
    net.forward(&x)?.backward()?;
    assert_eq!(x.grad(), Some(tensor![[7.0, 14.0]]));
    let last = net.get_parameter("2.weight")?.grad().unwrap();
    assert!((last.item::<f32>()? - 0.462117).abs() < 1e-6);
    Ok(())
}

#[test]
fn full_backward_hooks_without_a_gradient_of_the_input() -> Result<()> {
    let layer = linear(tensor![[1.0, 2.0]], None);
    let seen: Log<(Grads, Grads)> = Log::default();
    let log = seen.clone();
    layer.register_full_backward_hook(move |_, gi, go| {
        put(&log, (values(gi), values(go)));
        Ok(Some(vec![None]))
    })?;
    layer.forward(&tensor![[1.0, 1.0]])?.sum()?.backward()?;
    assert_eq!(taken(&seen), [(vec![None], vec![Some(vec![1.0])])]);
    let layer = linear(tensor![[1.0, 2.0]], None);
    layer.register_full_backward_hook(|_, _, go| Ok(Some(go.to_vec())))?;
    let error = layer.forward(&tensor![[1.0, 1.0]])?.backward();
    let error = error.expect_err("no input requires a gradient").to_string();
    assert!(
        error.contains("no input of Linear requires a gradient"),
        "{error}"
    );
    Ok(())
}

#[test]
fn wrong_results_of_backward_hooks_are_errors() -> Result<()> {
    let refused = |layer: Linear, text: &str| -> Result<()> {
        let x = tensor![[1.0, 1.0]].requires_grad_(true);
        let error = layer.forward(&x)?.backward().expect_err("refused");
        assert!(error.to_string().contains(text), "{error}");
        Ok(())
    };
    let layer = linear(tensor![[1.0, 2.0]], None);
    layer.register_full_backward_hook(|_, gi, _| Ok(Some([gi, gi].concat())))?;
    refused(layer, "returned 2 tensors of grad_input, but there are 1")?;
    let layer = linear(tensor![[1.0, 2.0]], None);
    layer.register_full_backward_pre_hook(|_, go| Ok(Some([go, go].concat())))?;
    refused(layer, "returned 2 tensors of grad_output, but there are 1")?;
    let layer = linear(tensor![[1.0, 2.0]], None);
    layer.register_full_backward_hook(|_, gi, _| {
        Ok(Some(vec![gi[0].as_ref().map(Tensor::sum).transpose()?]))
    })?;
    refused(layer, "must keep shape and dtype")?;
    let layer = linear(tensor![[1.0, 2.0]], None);
    layer.register_full_backward_hook(|_, _, _| Err("stop".to_string().into()))?;
    refused(layer, "stop")
}

#[test]
fn what_a_module_with_backward_hooks_takes_and_gives_is_not_written_in_place() -> Result<()> {
    let hooked = torsh_nn::Dropout::new(0.5)?.inplace(true);
    hooked.register_full_backward_hook(|_, _, _| Ok(None))?;
    let x = tensor![1.0, 1.0].requires_grad_(true);
    let error = hooked.forward(&x.mul(1.0)?).expect_err("a view");
    assert!(
        error.to_string().contains("is being modified inplace"),
        "{error}"
    );
    let layer = linear(tensor![[1.0, 2.0]], None);
    layer.register_full_backward_hook(|_, _, _| Ok(None))?;
    let error = layer
        .forward(&tensor![[1.0, 1.0]])?
        .add_(1.0)
        .expect_err("a view");
    assert!(
        error.to_string().contains("is being modified inplace"),
        "{error}"
    );
    Ok(())
}

#[test]
fn full_backward_hooks_in_a_second_derivative() -> Result<()> {
    let layer = linear(tensor![[3.0]], None);
    let seen: Log<(Grads, Grads)> = Log::default();
    let log = seen.clone();
    layer.register_full_backward_hook(move |_, gi, go| {
        put(&log, (values(gi), values(go)));
        Ok(None)
    })?;
    let x = tensor![[2.0]].requires_grad_(true);
    let y = layer.forward(&x)?.pow(3.0)?;
    let first = grad(&[y], std::slice::from_ref(&x), &[], true, true, false)?;
    let first = first[0].clone().expect("a gradient");
    assert_eq!(first.detach(), tensor![[324.0]]);
    first.backward()?;
    assert_eq!(x.grad(), Some(tensor![[324.0]]));
    let both = (vec![Some(vec![324.0])], vec![Some(vec![108.0])]);
    assert_eq!(taken(&seen), [both.clone(), both]);
    Ok(())
}

#[test]
fn backward_hooks_see_all_that_a_module_takes_and_gives() -> Result<()> {
    let seen: Log<(Grads, Grads)> = Log::default();
    let note = |module: &dyn Module| {
        let log = seen.clone();
        module.register_full_backward_hook(move |_, gi, go| {
            put(&log, (values(gi), values(go)));
            Ok(None)
        })
    };
    let layer = Bilinear::builder(1, 1, 1).bias(false).build()?;
    init::constant_(&layer.weight, 3.0)?;
    note(&layer)?;
    let x = tensor![[2.0]].requires_grad_(true);
    layer.forward_with(&x, &tensor![[5.0]])?.backward()?;
    let some = |v: &[f32]| Some(v.to_vec());
    assert_eq!(
        taken(&seen),
        [(vec![some(&[15.0]), some(&[0.0])], vec![some(&[1.0])])]
    );
    let loss = MSELoss::new();
    note(&loss)?;
    let x = tensor![1.0, 4.0].requires_grad_(true);
    loss.forward_with(&x, &tensor![0.0, 0.0])?.backward()?;
    assert_eq!(
        taken(&seen),
        [(
            vec![some(&[1.0, 4.0]), some(&[0.0, 0.0])],
            vec![some(&[1.0])]
        )]
    );
    // A recurrent layer's result and last state, and the state that it was given.
    let gru = GRU::new(1, 1)?;
    for p in gru.parameters() {
        init::constant_(&p, 0.3)?;
    }
    note(&gru)?;
    let near = |have: &Option<Vec<f32>>, want: &[f32]| {
        let have = have.as_ref().expect("a gradient");
        assert_eq!(have.len(), want.len());
        for (a, b) in have.iter().zip(want) {
            assert!((a - b).abs() < 1e-5, "{have:?} is not {want:?}");
        }
    };
    let x = tensor![[[1.0]], [[-2.0]]].requires_grad_(true);
    let (_, h) = gru.forward_with(&x, None)?;
    h.sum()?.backward()?;
    let (gi, go) = taken(&seen).remove(0);
    assert_eq!((gi.len(), go), (1, vec![None, some(&[1.0])]));
    near(&gi[0], &[0.005727, 0.179734]);
    let (y, h) = gru.forward_with(&x, Some(&tensor![[[0.0]]]))?;
    y.sum()?.add(&h.sum()?)?.backward()?;
    let (gi, go) = taken(&seen).remove(0);
    assert_eq!(go, [some(&[1.0, 1.0]), some(&[1.0])]);
    near(&gi[0], &[0.020625, 0.359469]);
    assert_eq!(gi[1], some(&[0.0]));
    let cell = LSTMCell::new(1, 1)?;
    note(&cell)?;
    let x = tensor![[1.0]].requires_grad_(true);
    let (h, c) = cell.forward_with(&x, None)?;
    h.add(&c)?.sum()?.backward()?;
    assert_eq!(taken(&seen)[0].1, [some(&[1.0]), some(&[1.0])]);
    // The sum over queries, keys and values is the gradient of the one tensor they are.
    let attention = MultiheadAttention::builder(2, 1)
        .bias(false)
        .batch_first(true)
        .build()?;
    for p in attention.parameters() {
        let numbers = torsh_tensor::arange(0, p.numel() as i64, 1).mul(0.1)?;
        no_grad(|| p.copy_(&numbers.reshape(p.shape())?))?;
    }
    note(&attention)?;
    let q = tensor![[[1.0, 0.5], [0.2, -1.0]]].requires_grad_(true);
    let options = MultiheadAttentionOptions::default();
    let (y, _) = attention.forward_with(&q, &q, &q, options)?;
    y.sum()?.backward()?;
    let (gi, _) = taken(&seen).remove(0);
    near(&gi[0], &[0.0714, 0.132066, 0.072216, 0.133576]);
    near(&gi[1], &[0.007410, 0.008248, -0.007410, -0.008248]);
    near(&gi[2], &[0.568031, 0.628891, 0.551969, 0.611109]);
    Ok(())
}

/// A module whose `forward` fails.
#[derive(Module, Default)]
struct Fails {
    hooks: Hooks,
}

impl Module for Fails {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks
            .run(self, x, |_| Err("no forward".to_string().into()))
    }
}

#[test]
fn forward_hooks_with_options() -> Result<()> {
    let log: Log<(&str, bool)> = Log::default();
    let failing = Fails::default();
    let seen = log.clone();
    failing.register_forward_hook_with(
        move |_, _, y| {
            put(&seen, ("always", y.is_some()));
            Err("another error".to_string().into())
        },
        HookOptions::new().always_call(true),
    )?;
    let seen = log.clone();
    failing.register_forward_hook(move |_, _, _| {
        put(&seen, ("with a result", true));
        Ok(None)
    })?;
    let error = failing.forward(&tensor![1.0]).expect_err("it fails");
    assert_eq!(error.to_string(), "no forward");
    assert_eq!(taken(&log), [("always", false)]);
    // A hook that fails was called; the ones behind it are called with what it saw.
    let layer = ReLU::new();
    let always = HookOptions::new().always_call(true);
    layer.register_forward_hook_with(|_, _, _| Err("first".to_string().into()), always)?;
    let seen = log.clone();
    layer.register_forward_hook_with(
        move |_, _, y| {
            put(&seen, ("second", y.is_some()));
            Ok(None)
        },
        always,
    )?;
    let error = layer.forward(&tensor![1.0]).expect_err("a hook fails");
    assert_eq!(error.to_string(), "first");
    assert_eq!(taken(&log), [("second", true)]);
    // Pre-hooks ahead of others, and with all that a module takes.
    let layer = Tanh::new();
    layer.register_forward_pre_hook(|_, x| x.mul(10.0).map(Some))?;
    layer.register_forward_pre_hook_with(
        |_, x| Ok(Some(vec![x[0].add(1.0)?])),
        HookOptions::new().prepend(true),
    )?;
    let y = layer.forward(&tensor![-1.05])?;
    assert!((y.item::<f32>()? - (-0.5f32).tanh()).abs() < 1e-6);
    let loss = MSELoss::new();
    loss.register_forward_pre_hook_with(|_, x| Ok(Some(x[..1].to_vec())), HookOptions::new())?;
    let error = loss
        .forward_with(&tensor![1.0], &tensor![2.0])
        .expect_err("one of two");
    assert!(error.to_string().contains("1 tensors of inputs"), "{error}");
    Ok(())
}

#[test]
fn hooks_of_all_modules() -> Result<()> {
    // Other tests run meanwhile, so these only notice tensors of a shape of their own.
    let log: Log<String> = Log::default();
    let mine = |t: &Tensor| t.dims() == [3, 1, 7];
    let mut handles = Vec::new();
    let seen = log.clone();
    handles.push(register_module_forward_pre_hook(move |module, x| {
        if mine(x) {
            put(&seen, format!("{} pre", module.type_name()));
        }
        Ok(None)
    }));
    let seen = log.clone();
    handles.push(register_module_forward_hook(move |module, _, y| {
        if mine(y) {
            put(&seen, module.type_name().to_string());
        }
        Ok(None)
    }));
    let seen = log.clone();
    handles.push(register_module_full_backward_pre_hook(move |module, go| {
        if go[0].as_ref().is_some_and(mine) {
            put(&seen, format!("{module} backward pre"));
        }
        Ok(None)
    }));
    let seen = log.clone();
    handles.push(register_module_full_backward_hook(move |module, gi, _| {
        if gi[0].as_ref().is_some_and(mine) {
            put(&seen, format!("{module} backward"));
        }
        Ok(None)
    }));
    let net = sequential![Tanh::new()];
    let seen = log.clone();
    net[0].register_forward_hook(move |_, _, _| {
        put(&seen, "own".to_string());
        Ok(None)
    })?;
    let x = torsh_tensor::ones([3, 1, 7]).requires_grad_(true);
    net.forward(&x)?.sum()?.backward()?;
    let expected = [
        "Sequential pre",
        "Tanh pre",
        "Tanh",
        "own",
        "Sequential",
        "Sequential backward pre",
        "Tanh backward pre",
        "Tanh backward",
        "Sequential backward",
    ];
    assert_eq!(taken(&log), expected);
    handles.into_iter().for_each(|h| h.remove());
    net.forward(&x)?.sum()?.backward()?;
    assert_eq!(taken(&log), ["own"]);
    Ok(())
}

#[test]
fn layers_with_hooks_are_not_fused() -> Result<()> {
    let net = sequential![
        Conv2d::new(1, 1, 1, 1, 0)?,
        torsh_nn::BatchNorm2d::new(1)?,
        ReLU::new()
    ];
    net.eval();
    let log: Log<()> = Log::default();
    let seen = log.clone();
    net[1].register_forward_hook(move |_, _, _| {
        put(&seen, ());
        Ok(None)
    })?;
    no_grad(|| net.forward(&torsh_tensor::ones([1, 1, 2, 2])))?;
    assert_eq!(taken(&log).len(), 1);
    Ok(())
}

#[test]
fn hooks_of_state_dicts_in_pytorchs_order() -> Result<()> {
    let net = sequential![Linear::new(1, 1), sequential![Linear::new(1, 1)]];
    let log: Log<String> = Log::default();
    for (name, module) in net.named_modules() {
        let seen = log.clone();
        module
            .register_state_dict_pre_hook(move |_, prefix| put(&seen, format!("pre {prefix}")))?;
        let seen = log.clone();
        module.register_state_dict_post_hook(move |_, state, prefix| {
            put(&seen, format!("post {prefix} {}", state.len()));
        })?;
        let seen = log.clone();
        module.register_load_state_dict_pre_hook(move |_, state, prefix| {
            let names: Vec<&str> = state.keys().collect();
            put(&seen, format!("load pre {prefix} {}", names.join(" ")));
            Ok(())
        })?;
        let seen = log.clone();
        module.register_load_state_dict_post_hook(move |_, _| {
            put(&seen, format!("load post {name}"));
            Ok(())
        })?;
    }
    let state = net.state_dict();
    assert_eq!(
        taken(&log),
        [
            "pre ",
            "pre 0.",
            "post 0. 2",
            "pre 1.",
            "pre 1.0.",
            "post 1.0. 4",
            "post 1. 4",
            "post  4",
        ]
    );
    let expected = [
        "load pre  0.weight 0.bias 1.0.weight 1.0.bias",
        "load pre 0. 0.weight 0.bias",
        "load pre 1. 1.0.weight 1.0.bias",
        "load pre 1.0. 1.0.weight 1.0.bias",
        "load post 0",
        "load post 1.0",
        "load post 1",
        "load post ",
    ];
    net.load_state_dict(&state)?;
    assert_eq!(taken(&log), expected);
    let mut net = net;
    net.assign_state_dict(&state)?;
    assert_eq!(taken(&log), expected);
    Ok(())
}

#[test]
fn load_hooks_rename_and_excuse() -> Result<()> {
    let net = sequential![linear(tensor![[1.0]], None), Linear::new(1, 1)];
    net[0].register_load_state_dict_pre_hook(|_, state, prefix| {
        if let Some(w) = state.remove(&format!("{prefix}kernel")) {
            state.insert(format!("{prefix}weight"), w);
        }
        // Names of other modules are none of its business.
        state.insert("1.weight", tensor![[100.0]]);
        Ok(())
    })?;
    let state = StateDict::from([
        ("0.kernel", tensor![[4.0]]),
        ("1.weight", tensor![[5.0]]),
        ("1.bias", tensor![6.0]),
    ]);
    net.load_state_dict(&state)?;
    assert_eq!(
        net.state_dict()["0.weight"].to_vec2::<f32>()?,
        [[4.0]],
        "renamed"
    );
    assert_eq!(net.state_dict()["1.weight"].to_vec2::<f32>()?, [[5.0]]);
    assert!(state.contains_key("0.kernel"), "the caller's stays");
    // Keys that a hook takes away are no error; the others are.
    net[1].register_load_state_dict_post_hook(|_, keys| {
        keys.missing_keys.retain(|name| !name.ends_with("bias"));
        Ok(())
    })?;
    let short = StateDict::from([("0.kernel", tensor![[7.0]]), ("1.weight", tensor![[8.0]])]);
    net.load_state_dict(&short)?;
    assert_eq!(net.state_dict()["0.weight"].to_vec2::<f32>()?, [[7.0]]);
    let wrong = StateDict::from([("0.kernel", tensor![[9.0]])]);
    let error = net
        .load_state_dict(&wrong)
        .expect_err("1.weight is missing");
    assert!(error.to_string().contains("1.weight"), "{error}");
    let keys = net.load_state_dict_with(&wrong, LoadStateDictOptions::default().strict(false))?;
    assert_eq!(keys.missing_keys, ["1.weight"]);
    // An error of a hook ahead of the load leaves the module as it was.
    net[1].register_load_state_dict_pre_hook(|_, _, _| Err("refused".to_string().into()))?;
    let error = net.load_state_dict(&state).expect_err("refused");
    assert!(error.to_string().contains("refused"), "{error}");
    assert_eq!(net.state_dict()["0.weight"].to_vec2::<f32>()?, [[9.0]]);
    Ok(())
}

#[test]
fn modules_without_hooks_say_so() {
    #[derive(Module)]
    struct Plain {
        fc: Linear,
    }
    impl Module for Plain {
        fn forward(&self, x: &Tensor) -> Result<Tensor> {
            self.fc.forward(x)
        }
    }
    let net = Plain {
        fc: Linear::new(1, 1),
    };
    let error = net.register_full_backward_hook(|_, _, _| Ok(None));
    let error = error.expect_err("no hooks").to_string();
    assert!(
        error.contains("register_full_backward_hook") && error.contains("Plain has no hooks"),
        "{error}"
    );
    let error = net.register_state_dict_pre_hook(|_, _| {});
    assert!(
        error
            .expect_err("no hooks")
            .to_string()
            .contains("hooks: Hooks")
    );
}
