//! The gradient scaler against PyTorch's values.

use torsh_optim::{
    Adam, GradScaler, GradScalerOptions, Optimizer, SGD, clip_grad_norm_, named_values,
    values_by_name,
};
use torsh_serialize::Value;
use torsh_tensor::{DType, Device, Result, Tensor};

fn parameter(values: &[f32]) -> Result<Tensor> {
    Ok(Tensor::from_data(values, [values.len()])?.requires_grad_(true))
}

fn with(o: GradScalerOptions) -> GradScaler {
    GradScaler::new_with(o).expect("settings")
}

fn options() -> GradScalerOptions {
    GradScalerOptions::new()
}

fn tracker(s: &GradScaler) -> Option<i64> {
    s.state_dict().ok()?["_growth_tracker"].as_i64()
}

fn fails(r: Result<impl Sized>, part: &str) {
    let e = r.map(|_| ()).expect_err(part).to_string();
    assert!(e.contains("GradScaler") && e.contains(part), "{e}");
}

#[test]
fn steps_with_infinities_are_skipped() -> Result<()> {
    // What PyTorch comes to: the parameters, the scale, the growth tracker.
    let want = [
        ([0.8, 1.6], 1024.0, 1),
        ([0.46, 0.92], 2048.0, 0),
        ([0.46, 0.92], 1024.0, 0),
        ([0.062, 0.124], 1024.0, 1),
        ([-0.3086, -0.6172], 2048.0, 0),
        ([-0.3086, -0.6172], 1024.0, 0),
        ([-0.58042, -1.16084], 1024.0, 1),
        ([-0.708974, -1.417948], 2048.0, 0),
    ];
    let p = parameter(&[1.0, 2.0])?;
    let sgd = SGD::builder([&p]).lr(0.1).momentum(0.9).build()?;
    let scaler = with(options().init_scale(1024.0).growth_interval(2));
    for (i, (values, scale, count)) in want.into_iter().enumerate() {
        sgd.zero_grad();
        scaler.scale(&p.mul(&p)?.sum()?)?.backward()?;
        let bad = [(2, f32::INFINITY), (5, f32::NAN)]
            .into_iter()
            .find(|b| b.0 == i);
        if let (Some((_, bad)), Some(g)) = (bad, p.grad()) {
            g.narrow(0, 0, 1)?.fill_(bad)?;
        }
        assert_eq!(scaler.step(&sgd)?.made()?, bad.is_none());
        scaler.update()?;
        for (a, b) in p.to_vec::<f64>()?.into_iter().zip(values) {
            assert!((a - b).abs() < 1e-6, "step {i}: {a}, not {b}");
        }
        assert_eq!(
            (scaler.get_scale()?, tracker(&scaler)),
            (scale, Some(count))
        );
    }
    Ok(())
}

#[test]
fn each_optimizer_is_judged_by_its_own_gradients() -> Result<()> {
    let (p, q) = (parameter(&[1.0, 2.0])?, parameter(&[1.0])?);
    let (sgd, adam) = (SGD::new([&p], 0.1)?, Adam::new([&q], 0.1)?);
    let scaler = with(options().init_scale(8.0));
    let handle = scaler.clone();
    handle.scale(&p.sum()?)?;
    p.set_grad(Some(Tensor::from_data(&[8.0f32, f32::INFINITY], [2])?))?;
    q.set_grad(Some(Tensor::from_data(&[8.0f32], [1])?))?;
    assert!(!scaler.step(&sgd)?.made()? && scaler.step(&adam)?.made()?);
    scaler.update()?;
    assert_eq!(p.to_vec::<f32>()?, [1.0, 2.0]);
    assert!((q.item::<f32>()? - 0.9).abs() < 1e-6);
    assert_eq!(handle.get_scale()?, 4.0);
    // A trait object is an optimizer too.
    let any = adam.handle();
    scaler.scale(&q.mul(2.0)?.sum()?)?;
    assert!(scaler.step(&*any)?.made()?);
    scaler.update()
}

#[test]
fn gradients_are_unscaled_before_they_are_clipped() -> Result<()> {
    let p = parameter(&[3.0, 4.0])?;
    let sgd = SGD::new([&p], 1.0)?;
    let scaler = GradScaler::new();
    scaler.scale(&p.mul(&p)?.sum()?)?.backward()?;
    scaler.unscale_gradients(&sgd)?;
    assert_eq!(
        p.grad().map(|g| g.to_vec::<f32>()).transpose()?,
        Some(vec![6.0, 8.0])
    );
    clip_grad_norm_([&p], 5.0)?;
    scaler.step(&sgd)?;
    scaler.update()?;
    for (a, b) in p.to_vec::<f64>()?.into_iter().zip([0.0, 0.0]) {
        assert!((a - b).abs() < 1e-5, "{a}");
    }
    Ok(())
}

#[test]
fn one_pass_over_gradients_of_all_kinds() -> Result<()> {
    // The inverse of the scale is a float32, as PyTorch's.
    let p = Tensor::from_data(&[1.0f64, 2.0], [2])?.requires_grad_(true);
    let scaler = with(options().init_scale(3.0));
    scaler.scale(&p.sum()?)?;
    p.set_grad(Some(Tensor::from_data(&[1.0, 1e300], [2])?))?;
    scaler.unscale_(&SGD::new([&p], 0.1)?)?;
    let got = p.grad().map(|g| g.to_vec::<f64>()).transpose()?;
    assert_eq!(got, Some(vec![0.3333333432674408, 3.333333432674408e299]));

    for bad in [None, Some(0), Some(41), Some(59)] {
        let mut params = Vec::new();
        for i in 0..60usize {
            let dtype = [DType::F32, DType::F64, DType::BF16, DType::C64][i % 4];
            let n = (i * 977) % 3001 + 1;
            let p = Tensor::zeros([n], dtype, Device::Cpu)?.requires_grad_(true);
            let mut g = Tensor::from_data(&vec![8.0f32; n], [n])?;
            if i % 5 == 0 {
                g = Tensor::stack(&[&g, &g], 1)?.select(1, 0)?;
            }
            if Some(i) == bad {
                g = g.copy()?;
                g.narrow(0, n as i64 - 1, 1)?.fill_(f64::INFINITY)?;
            }
            p.set_grad(Some(g.to_dtype(dtype)?))?;
            params.push(p);
        }
        let sgd = SGD::new(&params, 1.0)?;
        let scaler = with(options().init_scale(4.0));
        scaler.scale(&params[0].sum()?)?;
        assert_eq!(scaler.step(&sgd)?.made()?, bad.is_none());
        for (i, p) in params.iter().enumerate() {
            let want = if bad.is_none() { -2.0 } else { 0.0 };
            let g = p.grad().expect("a gradient");
            let (p, g) = if p.dtype().is_complex() {
                (p.detach().real()?, g.real()?)
            } else {
                (p.detach(), g)
            };
            assert!(p.to_vec::<f64>()?.iter().all(|v| *v == want), "{i}");
            let mut g = g.to_vec::<f64>()?;
            let last = g.pop();
            assert!(g.iter().all(|v| *v == 2.0), "{i}");
            assert_eq!(last.is_some_and(f64::is_finite), Some(i) != bad, "{i}");
        }
    }
    // A gradient of two parameters is unscaled twice, as PyTorch's.
    let (a, b) = (parameter(&[0.0])?, parameter(&[0.0])?);
    let g = Tensor::from_data(&[32.0f32], [1])?;
    a.set_grad(Some(g.clone()))?;
    b.set_grad(Some(g.clone()))?;
    let scaler = with(options().init_scale(4.0));
    scaler.scale(&g)?;
    scaler.unscale_(&SGD::new([&a, &b], 0.1)?)?;
    assert_eq!(g.item::<f32>()?, 2.0);
    Ok(())
}

#[test]
fn scaled_losses_have_pytorchs_dtypes() -> Result<()> {
    let scaler = with(options().init_scale(2.0));
    for (dtype, number, vector) in [
        (DType::F16, DType::F32, DType::F16),
        (DType::BF16, DType::F32, DType::BF16),
        (DType::F32, DType::F32, DType::F32),
        (DType::F64, DType::F64, DType::F64),
        (DType::I64, DType::F32, DType::F32),
    ] {
        let one = scaler.scale(&Tensor::ones((), dtype, Device::Cpu)?)?;
        let two = scaler.scale(&Tensor::ones([2], dtype, Device::Cpu)?)?;
        assert_eq!((one.dtype(), two.dtype()), (number, vector), "{dtype}");
        assert_eq!(
            (one.item::<f64>()?, two.to_vec::<f64>()?),
            (2.0, vec![2.0; 2])
        );
    }
    Ok(())
}

#[test]
fn misuse_is_an_error() -> Result<()> {
    let p = parameter(&[1.0])?;
    let sgd = SGD::new([&p], 0.1)?;
    let scaler = GradScaler::new();
    fails(scaler.step(&sgd), "step was called before any loss");
    fails(scaler.update(), "update was called before any loss");
    fails(scaler.update_with(2.0), "update was called before any loss");
    fails(scaler.unscale_(&sgd), "unscale_ was called before any loss");
    scaler.scale(&p.sum()?)?;
    fails(scaler.update(), "no step was made");
    scaler.unscale_(&sgd)?;
    fails(scaler.step(&sgd), "there is none");
    fails(scaler.update(), "no step was made");
    scaler.update_with(16.0)?;
    assert_eq!(scaler.get_scale()?, 16.0);
    scaler.scale(&p.sum()?)?.backward()?;
    scaler.unscale_(&sgd)?;
    fails(scaler.unscale_(&sgd), "already called");
    scaler.step(&sgd)?;
    fails(scaler.step(&sgd), "already called");
    fails(scaler.unscale_(&sgd), "after step");
    scaler.update()?;
    assert_eq!(tracker(&scaler), Some(1));
    fails(scaler.update(), "no step was made");
    // Unscaled is looked at: no step is needed.
    scaler.unscale_(&sgd)?;
    scaler.update()?;
    assert_eq!(tracker(&scaler), Some(2));

    let half = Tensor::ones([1], DType::F16, Device::Cpu)?.requires_grad_(true);
    half.set_grad(Some(half.detach()))?;
    let adam = Adam::new([&half], 0.1)?;
    fails(scaler.step(&adam), "float16 gradients");
    assert_eq!(half.grad().map(|g| g.item::<f32>()).transpose()?, Some(1.0));
    fails(
        GradScaler::new_with(options().growth_factor(1.0)),
        "growth factor must be > 1.0",
    );
    fails(
        GradScaler::new_with(options().backoff_factor(1.0)),
        "backoff factor must be < 1.0",
    );
    Ok(())
}

#[test]
fn a_scaler_that_is_not_enabled_does_nothing() -> Result<()> {
    let p = parameter(&[1.0])?;
    let sgd = SGD::new([&p], 0.25)?;
    let scaler = with(options().enabled(false).growth_factor(0.0));
    let loss = p.sum()?;
    assert!(scaler.scale(&loss)?.is_same(&loss));
    p.set_grad(Some(Tensor::from_data(&[f32::INFINITY], [1])?))?;
    scaler.unscale_(&sgd)?;
    p.set_grad(Some(Tensor::from_data(&[1.0f32], [1])?))?;
    assert!(scaler.step(&sgd)?.made()? && scaler.step(&sgd)?.made()?);
    scaler.update()?;
    scaler.update_with(3.0)?;
    assert_eq!(p.item::<f32>()?, 0.5);
    assert!(scaler.state_dict()?.is_empty() && !scaler.is_enabled());
    assert_eq!(scaler.get_scale()?, 1.0);
    scaler.load_state_dict(&Default::default())
}

#[test]
fn the_scale_stays_a_finite_float32() -> Result<()> {
    let p = parameter(&[1.0])?;
    let sgd = SGD::new([&p], 0.1)?;
    let scaler = with(
        options()
            .init_scale(1e38)
            .growth_factor(10.0)
            .growth_interval(1),
    );
    assert_eq!(scaler.get_scale()?, 1e38);
    scaler.scale(&p.sum()?)?;
    p.set_grad(Some(Tensor::from_data(&[1.0f32], [1])?))?;
    scaler.step(&sgd)?;
    scaler.update()?;
    assert_eq!(scaler.get_scale()?, f64::from(1e38f32));
    Ok(())
}

#[test]
fn the_state_goes_on_from_a_file() -> Result<()> {
    let names = [
        "_growth_tracker",
        "backoff_factor",
        "growth_factor",
        "growth_interval",
        "scale",
    ];
    let scaler = with(options().init_scale(4.0).growth_interval(7));
    scaler.set_growth_factor(3.0);
    scaler.set_backoff_factor(0.25);
    let p = parameter(&[1.0])?;
    let sgd = SGD::new([&p], 0.1)?;
    for _ in 0..2 {
        scaler.scale(&p.sum()?)?.backward()?;
        scaler.step(&sgd)?;
        scaler.update()?;
    }
    assert!(scaler.state_dict()?.keys().eq(names));
    let saved = Value::from([("scaler", values_by_name(&scaler.state_dict()?))]);
    let path = std::env::temp_dir().join(format!("torsh-optim-scaler-{}.pt", std::process::id()));
    torsh_serialize::save(&saved, &path)?;
    let read = torsh_serialize::load(&path)?;
    std::fs::remove_file(&path)?;
    let state = named_values(read.get("scaler")?)?;
    let fresh = GradScaler::new();
    fresh.load_state_dict(&state)?;
    let factors = (fresh.get_growth_factor(), fresh.get_backoff_factor());
    assert_eq!((fresh.get_scale()?, factors), (4.0, (3.0, 0.25)));
    assert_eq!((fresh.get_growth_interval(), tracker(&fresh)), (7, Some(2)));
    // One that has scaled already takes it over, too.
    let used = GradScaler::new();
    assert_eq!(
        used.scale(&Tensor::ones((), DType::F32, Device::Cpu)?)?
            .item::<f64>()?,
        65536.0
    );
    used.load_state_dict(&state)?;
    for _ in 0..5 {
        p.set_grad(Some(Tensor::from_data(&[1.0f32], [1])?))?;
        used.step(&sgd)?;
        used.update()?;
    }
    assert_eq!((used.get_scale()?, tracker(&used)), (12.0, Some(0)));
    fails(
        used.load_state_dict(&Default::default()),
        "the state is empty",
    );
    let mut partial = state.clone();
    partial.remove("_growth_tracker");
    fails(used.load_state_dict(&partial), "no _growth_tracker");
    assert_eq!(used.get_scale()?, 12.0);
    Ok(())
}
