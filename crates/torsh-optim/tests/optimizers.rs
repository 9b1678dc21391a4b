//! Trajectories against PyTorch's, and the handling of groups, state and errors.

use serde_json::Value as Json;
use torsh_nn::{Linear, Module, ModuleExt};
use torsh_optim::{
    ASGD, Adadelta, Adagrad, Adam, AdamW, Adamax, ClipGradNormOptions, NAdam, Optimizer, Options,
    ParamGroup, RAdam, RMSprop, Rprop, SGD, StateValue, clip_grad_norm_, clip_grad_norm_with,
    clip_grad_value_,
};
use torsh_tensor::{DType, Device, Result, Tensor};

fn numbers(v: &Json) -> Vec<f64> {
    v.as_array()
        .expect("a list")
        .iter()
        .map(|x| x.as_f64().expect("a number"))
        .collect()
}

fn tensor(values: &Json, shape: &[usize], dtype: &str) -> Tensor {
    let v = numbers(values);
    match dtype {
        "float64" => Tensor::from_data(&v, shape).expect("f64"),
        "float32" => Tensor::from_data(&v, shape)
            .expect("f64")
            .to_dtype(DType::F32)
            .expect("f32"),
        _ => {
            let pairs = [shape, &[2]].concat();
            Tensor::from_data(&v, pairs)
                .expect("pairs")
                .view_as_complex()
                .expect("complex")
                .copy()
                .expect("copy")
        }
    }
}

fn real_values(t: &Tensor) -> Vec<f64> {
    let t = t.detach();
    let t = if t.dtype().is_complex() {
        t.view_as_real().expect("pairs")
    } else {
        t
    };
    t.to_vec::<f64>().expect("values")
}

fn value(v: &Json) -> StateValue {
    match v {
        Json::Bool(b) => StateValue::Bool(*b),
        Json::Array(_) => StateValue::Floats(numbers(v)),
        _ => StateValue::Float(v.as_f64().expect("a number")),
    }
}

fn build(name: &str, params: &[Tensor], config: &Json) -> Box<dyn Optimizer> {
    let mut group = ParamGroup::new(params);
    for (k, v) in config.as_object().expect("a map") {
        group = group.set(k, value(v));
    }
    match name {
        "SGD" => Box::new(SGD::builder([group]).build().expect("SGD")),
        "Adam" => Box::new(Adam::builder([group]).build().expect("Adam")),
        "AdamW" => Box::new(AdamW::builder([group]).build().expect("AdamW")),
        other => panic!("{other}"),
    }
}

fn fixture() -> Json {
    serde_json::from_str(include_str!("data/trajectories.json")).expect("the fixture")
}

/// The runs of the fixture: start, `steps` with their gradients (the second parameter has none at
/// step 5), compare. `between` may swap the optimizer after three steps.
fn run_all(
    transposed: bool,
    between: impl Fn(Box<dyn Optimizer>, &[Tensor], &Json) -> Box<dyn Optimizer>,
) {
    let f = fixture();
    let shapes: Vec<Vec<usize>> = f["shapes"]
        .as_array()
        .expect("shapes")
        .iter()
        .map(|s| numbers(s).iter().map(|&n| n as usize).collect())
        .collect();
    let mut count = 0;
    for run in f["runs"].as_array().expect("runs") {
        let dtype = run["dtype"].as_str().expect("a name");
        let data = &f["data"][dtype];
        let params: Vec<Tensor> = (0..2)
            .map(|i| {
                let t = tensor(&data["init"][i], &shapes[i], dtype);
                let t = if transposed && i == 0 {
                    t.transpose(0, 1)
                        .and_then(|t| t.contiguous())
                        .and_then(|t| t.transpose(0, 1))
                        .expect("layout")
                } else {
                    t
                };
                t.detach().requires_grad_(true)
            })
            .collect();
        let mut optimizer = build(
            run["optimizer"].as_str().expect("a name"),
            &params,
            &run["config"],
        );
        let tolerance = if dtype == "float32" { 2e-6 } else { 1e-12 };
        let steps = data["grads"].as_array().expect("steps");
        for (k, grads) in steps.iter().enumerate() {
            if k == 3 {
                optimizer = between(optimizer, &params, run);
            }
            optimizer.zero_grad();
            for (i, p) in params.iter().enumerate() {
                if !(k == 5 && i == 1) {
                    p.set_grad(Some(tensor(&grads[i], &shapes[i], dtype)))
                        .expect("a gradient");
                }
            }
            let versions: Vec<u64> = params.iter().map(Tensor::version).collect();
            optimizer.step().expect("a step");
            assert!(
                params[0].version() > versions[0],
                "the write must be counted"
            );
            let want = match k {
                1 => &run["second"],
                _ if k + 1 == steps.len() => &run["params"],
                _ => continue,
            };
            for (i, p) in params.iter().enumerate() {
                assert!(p.is_leaf() && p.requires_grad());
                for (a, b) in real_values(p).iter().zip(numbers(&want[i])) {
                    assert!(
                        (a - b).abs() <= tolerance * b.abs().max(1.0),
                        "{run}: step {k}: {a} for {b}"
                    );
                    count += 1;
                }
            }
        }
    }
    assert_eq!(count, 12 * 2 * 15 + 3 * 2 * 15 + 3 * 2 * 30);
}

#[test]
fn trajectories_are_pytorchs() {
    run_all(false, |o, _, _| o);
}

#[test]
fn trajectories_do_not_depend_on_the_layout() {
    run_all(true, |o, _, _| o);
}

#[test]
fn a_loaded_state_continues_the_trajectory() {
    run_all(false, |o, params, run| {
        let state = o.state_dict();
        let config = serde_json::json!({"lr": 123.0});
        let fresh = build(run["optimizer"].as_str().expect("a name"), params, &config);
        fresh.load_state_dict(&state).expect("the state fits");
        fresh
    });
}

fn leaf(v: &[f32]) -> Tensor {
    Tensor::from_data(v, [v.len()])
        .expect("data")
        .requires_grad_(true)
}

#[test]
fn a_parameter_that_is_a_strided_window_is_updated_in_place() -> Result<()> {
    let whole = Tensor::from_data(&[1.0f32, 2.0, 3.0, 4.0], [4])?;
    let odd = whole
        .slice_step(0, Some(0), None, 2)?
        .detach()
        .requires_grad_(true);
    odd.set_grad(Some(Tensor::from_data(&[10.0f32, 20.0], [2])?))?;
    let optimizer = SGD::builder([&odd]).lr(0.1).momentum(0.5).build()?;
    optimizer.step()?;
    optimizer.step()?;
    // Steps of 1 and 1.5 times the gradient.
    assert_eq!(whole.to_vec::<f32>()?, [1.0 - 2.5, 2.0, 3.0 - 5.0, 4.0]);
    Ok(())
}

#[test]
fn half_precision_parameters_step() -> Result<()> {
    for dtype in [DType::F16, DType::BF16] {
        let p = Tensor::from_data(&[1.0f32, -2.0], [2])?
            .to_dtype(dtype)?
            .requires_grad_(true);
        p.set_grad(Some(
            Tensor::from_data(&[0.5f32, 0.25], [2])?.to_dtype(dtype)?,
        ))?;
        let optimizer = SGD::new([&p], 0.5)?;
        optimizer.step()?;
        assert_eq!(p.to_vec::<f32>()?, [0.75, -2.125]);
    }
    Ok(())
}

#[test]
fn groups_have_their_own_settings() -> Result<()> {
    let (a, b) = (leaf(&[1.0]), leaf(&[1.0]));
    let optimizer = SGD::new(
        [
            ParamGroup::new([&a]),
            ParamGroup::new([&b]).lr(0.5).weight_decay(1.0),
        ],
        0.1,
    )?;
    for p in [&a, &b] {
        p.set_grad(Some(Tensor::from_data(&[1.0f32], [1])?))?;
    }
    optimizer.step()?;
    assert_eq!(a.item::<f32>()?, 0.9);
    assert_eq!(b.item::<f32>()?, 0.0);
    let c = leaf(&[2.0]);
    optimizer.add_param_group(ParamGroup::new([&c]))?;
    assert_eq!(optimizer.group_lrs(), [0.1, 0.5, 0.1]);
    let other_handle = optimizer.clone();
    other_handle.set_lr(0.25);
    assert_eq!(optimizer.group_lrs(), [0.25; 3]);
    optimizer.set_group_lr(2, 1.0)?;
    assert_eq!(optimizer.get_lr(), 0.25);
    optimizer.set_option(2, "momentum", 0.9.into())?;
    assert_eq!(
        optimizer.options(2).map(|o| (o.lr, o.momentum)),
        Some((1.0, 0.9))
    );
    assert!(optimizer.set_option(2, "momentum", (-0.5).into()).is_err());
    assert!(optimizer.set_group_lr(3, 1.0).is_err());
    assert_eq!(optimizer.parameters().len(), 3);
    Ok(())
}

#[test]
fn a_closure_is_run_with_recording_on() -> Result<()> {
    let w = leaf(&[3.0]);
    let optimizer = SGD::new([&w], 0.1)?;
    let loss = torsh_tensor::no_grad(|| {
        optimizer.step_closure(|| {
            optimizer.zero_grad();
            let loss = w.mul(&w)?.sum()?;
            loss.backward()?;
            Ok(loss)
        })
    })?;
    assert_eq!(loss.item::<f32>()?, 9.0);
    assert!((w.item::<f32>()? - 2.4).abs() < 1e-6);
    let boxed: Box<dyn Optimizer> = Box::new(&optimizer as &dyn Optimizer);
    boxed.step_closure(|| w.mul(&w)?.sum())?;
    Ok(())
}

#[test]
fn errors_say_what_is_wrong() -> Result<()> {
    let w = leaf(&[1.0]);
    let text = |r: Result<SGD>| r.map(|_| ()).expect_err("must fail").to_string();
    assert!(text(SGD::new(Vec::<Tensor>::new(), 0.1)).contains("empty parameter list"));
    assert!(text(SGD::new([&w], -0.1)).contains("Invalid learning rate: -0.1"));
    assert!(text(SGD::new([&w], f64::NAN)).contains("Invalid learning rate"));
    assert!(text(SGD::builder([&w]).nesterov(true).build()).contains("Nesterov momentum requires"));
    assert!(text(SGD::new([&w, &w], 0.1)).contains("appears"));
    assert!(text(SGD::new([w.mul(2.0)?], 0.1)).contains("non-leaf"));
    let e = text(SGD::new([ParamGroup::new([&w]).set("momentun", 0.9)], 0.1));
    assert!(
        e.contains("no setting momentun") && e.contains("momentum, dampening"),
        "{e}"
    );
    let e = Adam::builder([&w])
        .betas(0.9, 1.0)
        .build()
        .expect_err("a bad beta")
        .to_string();
    assert!(e.contains("Invalid beta parameter at index 1: 1"), "{e}");

    let adam = Adam::new([&w], 0.1)?;
    w.set_grad(Some(Tensor::ones([1], DType::F32, Device::Cpu)?))?;
    adam.step()?;
    let other = Adam::new([leaf(&[1.0, 2.0])], 0.1)?;
    let e = other
        .load_state_dict(&adam.state_dict())
        .expect_err("another shape")
        .to_string();
    assert!(e.contains("exp_avg") && e.contains("float32[1]"), "{e}");
    let two = Adam::new([leaf(&[1.0]), leaf(&[1.0])], 0.1)?;
    let e = two
        .load_state_dict(&adam.state_dict())
        .expect_err("another count")
        .to_string();
    assert!(e.contains("1 parameters"), "{e}");
    Ok(())
}

#[test]
fn a_replaced_parameter_is_an_error() -> Result<()> {
    let mut layer = Linear::new(3, 2);
    let optimizer = Adam::new(layer.parameters(), 1e-3)?;
    layer
        .forward(&Tensor::ones([1, 3], DType::F32, Device::Cpu)?)?
        .sum()?
        .backward()?;
    optimizer.step()?;
    layer.to_dtype(DType::F64)?;
    let e = optimizer
        .step()
        .expect_err("the parameters were replaced")
        .to_string();
    assert!(e.contains("was replaced") && e.contains("hint"), "{e}");
    assert!(e.contains(file!()), "the place is the caller's: {e}");
    Adam::new(layer.parameters(), 1e-3)?.step()
}

#[test]
fn gradients_are_clipped() -> Result<()> {
    let (a, b, unused) = (leaf(&[0.0, 0.0]), leaf(&[0.0]), leaf(&[0.0]));
    let set = || -> Result<()> {
        a.set_grad(Some(Tensor::from_data(&[3.0f32, -4.0], [2])?))?;
        b.set_grad(Some(Tensor::from_data(&[12.0f32], [1])?))
    };
    let grads = || -> Vec<f32> {
        [&a, &b]
            .iter()
            .flat_map(|t| {
                t.grad()
                    .expect("a gradient")
                    .to_vec::<f32>()
                    .expect("values")
            })
            .collect()
    };
    let near = |got: Vec<f32>, want: [f32; 3]| {
        assert!(
            got.iter().zip(want).all(|(x, y)| (x - y).abs() < 1e-5),
            "{got:?} for {want:?}"
        );
    };
    set()?;
    assert_eq!(
        clip_grad_norm_([&a, &b, &unused], 26.0)?.item::<f32>()?,
        13.0
    );
    near(grads(), [3.0, -4.0, 12.0]);
    clip_grad_norm_([&a, &b, &unused], 6.5)?;
    near(grads(), [1.5, -2.0, 6.0]);
    set()?;
    let one = ClipGradNormOptions::default().norm_type(1.0);
    assert_eq!(
        clip_grad_norm_with([&a, &b], 1.9, one)?.item::<f32>()?,
        19.0
    );
    near(grads(), [0.3, -0.4, 1.2]);
    set()?;
    clip_grad_value_([&a, &b], 3.5)?;
    near(grads(), [3.0, -3.5, 3.5]);
    a.set_grad(Some(Tensor::from_data(&[f32::NAN, 0.0], [2])?))?;
    let strict = ClipGradNormOptions::default().error_if_nonfinite(true);
    assert!(clip_grad_norm_with([&a], 1.0, strict).is_err());
    assert_eq!(clip_grad_norm_([&unused], 1.0)?.item::<f32>()?, 0.0);
    Ok(())
}

#[test]
fn the_state_dict_has_pytorchs_names() -> Result<()> {
    let (w, unused) = (leaf(&[1.0]), leaf(&[1.0]));
    let optimizer = Adam::builder([&w, &unused]).amsgrad(true).build()?;
    w.set_grad(Some(Tensor::from_data(&[2.0f32], [1])?))?;
    optimizer.step()?;
    let s = optimizer.state_dict();
    assert_eq!(s.param_groups[0].params, [0, 1]);
    assert_eq!(s.state.keys().collect::<Vec<_>>(), [&0]);
    let names: Vec<&str> = s.state[&0].keys().map(String::as_str).collect();
    assert_eq!(names, ["exp_avg", "exp_avg_sq", "max_exp_avg_sq", "step"]);
    assert_eq!(s.state[&0]["step"].as_f64(), Some(1.0));
    let mean = s.state[&0]["exp_avg"]
        .as_tensor()
        .expect("a tensor")
        .item::<f32>()?;
    assert!((mean - 0.2).abs() < 1e-7);
    for name in <torsh_optim::AdamOptions as Options>::NAMES {
        assert!(s.param_groups[0].options.contains_key(*name), "{name}");
    }
    Ok(())
}

/// More elements than are converted at once, in both orders of memory.
#[test]
fn half_steps_are_float32_steps_rounded_once() -> Result<()> {
    type Build = fn(&Tensor) -> Result<Box<dyn Optimizer>>;
    macro_rules! optimizers {
        ($($name:ident)*) => {
            [$((stringify!($name), (|p| Ok(Box::new($name::new([p], 0.0625)?))) as Build),)*]
        };
    }
    let all = optimizers!(SGD Adam AdamW NAdam RAdam Adamax Adagrad Adadelta RMSprop Rprop ASGD);
    let value = |k: usize, i: usize| ((k * 7919 + i * 104_729) % 20011) as f32 / 6670.0 - 1.5;
    for dtype in [DType::F16, DType::BF16] {
        for (name, build) in all {
            let tensor = |i: usize| -> Result<Tensor> {
                let values: Vec<f32> = (0..1300).map(|k| value(k, i)).collect();
                let t = Tensor::from_data(&values, [50, 26])?.to_dtype(dtype)?;
                if i == 0 {
                    t.t()?.contiguous()?.t()
                } else {
                    Ok(t)
                }
            };
            let half = tensor(0)?.requires_grad_(true);
            let wide = half.detach().to_dtype(DType::F32)?.requires_grad_(true);
            half.set_grad(Some(tensor(1)?))?;
            wide.set_grad(Some(tensor(1)?.to_dtype(DType::F32)?))?;
            for p in [&half, &wide] {
                build(p)?.step()?;
            }
            assert!(
                half.detach() == wide.detach().to_dtype(dtype)?,
                "{name} {dtype}"
            );
        }
    }
    Ok(())
}
