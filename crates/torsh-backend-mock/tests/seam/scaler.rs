//! Loss scaling and optimizers, whose steps are left out on the device.

use torsh_core::Device;
use torsh_optim::{
    Adadelta, Adagrad, Adam, AdamW, Adamax, GradScaler, GradScalerOptions, NAdam, Optimizer, RAdam,
    RMSprop, Rprop, SGD,
};
use torsh_tensor::{Result, Tensor};

use crate::{alone, assert_near, numbers, waits};

type Make = fn(&[Tensor]) -> Result<Box<dyn Optimizer>>;

fn parameters(device: Device) -> Result<Vec<Tensor>> {
    let a = Tensor::from_fn([3, 2], |i| (i[0] * 2 + i[1]) as f32 / 4.0 - 0.5)?;
    let b = Tensor::from_fn([5], |i| i[0] as f32 / 3.0)?;
    [a, b]
        .into_iter()
        .map(|t| Ok(t.to_device(device)?.detach().requires_grad_(true)))
        .collect()
}

/// Iterations whose losses are multiplied by factors, of which some are infinite.
fn iterate(
    parameters: &[Tensor],
    optimizer: &dyn Optimizer,
    scaler: &GradScaler,
    factors: &[f64],
) -> Result<()> {
    for &factor in factors {
        optimizer.zero_grad();
        let mut loss = parameters[0].sum()?.mul(0.0)?;
        for p in parameters {
            loss = loss.add(&p.square()?.sum()?)?;
        }
        scaler.scale(&loss.mul(factor)?)?.backward()?;
        scaler.step(optimizer)?;
        scaler.update()?;
    }
    Ok(())
}

const FACTORS: [f64; 7] = [f64::INFINITY, 1.0, 0.5, f64::NAN, 2.0, f64::INFINITY, 0.25];

fn scaler() -> Result<GradScaler> {
    GradScaler::new_with(
        GradScalerOptions::new()
            .init_scale(1024.0)
            .growth_interval(2),
    )
}

const OPTIMIZERS: [(&str, Make, bool); 12] = [
    ("SGD", |p| Ok(Box::new(SGD::new(p, 0.1)?)), true),
    (
        "SGD with momentum",
        |p| Ok(Box::new(SGD::builder(p).lr(0.1).momentum(0.9).build()?)),
        true,
    ),
    (
        "SGD with dampening",
        |p| {
            let sgd = SGD::builder(p).lr(0.1).momentum(0.9).dampening(0.5);
            Ok(Box::new(sgd.build()?))
        },
        false,
    ),
    ("Adam", |p| Ok(Box::new(Adam::new(p, 0.1)?)), true),
    (
        "AdamW with amsgrad",
        |p| Ok(Box::new(AdamW::builder(p).lr(0.1).amsgrad(true).build()?)),
        true,
    ),
    ("RAdam", |p| Ok(Box::new(RAdam::new(p, 0.1)?)), true),
    ("Adamax", |p| Ok(Box::new(Adamax::new(p, 0.1)?)), true),
    (
        "Adagrad",
        |p| Ok(Box::new(Adagrad::builder(p).lr(0.1).lr_decay(0.1).build()?)),
        true,
    ),
    ("Adadelta", |p| Ok(Box::new(Adadelta::new(p, 0.5)?)), true),
    ("RMSprop", |p| Ok(Box::new(RMSprop::new(p, 0.05)?)), true),
    ("Rprop", |p| Ok(Box::new(Rprop::new(p, 0.05)?)), true),
    ("NAdam", |p| Ok(Box::new(NAdam::new(p, 0.1)?)), false),
];

#[test]
fn steps_are_left_out_without_waiting() -> Result<()> {
    let (d, mock, _alone) = alone();
    for (name, make, conditional) in OPTIMIZERS {
        let run = |device: Device| {
            let p = parameters(device)?;
            let (optimizer, scaler) = (make(&p)?, scaler()?);
            let (waited, ()) = waits(mock, || iterate(&p, &*optimizer, &scaler, &FACTORS))?;
            let mut all = numbers(&p)?;
            all.push(scaler.get_scale()?);
            let state = scaler.state_dict()?;
            all.extend(state["_growth_tracker"].as_f64());
            // Only the steps that were made are counted.
            for s in optimizer.state_dict().state.values() {
                all.extend(s.get("step").and_then(|n| n.as_f64()));
            }
            Ok::<_, torsh_tensor::TorshError>((waited, all))
        };
        let (waited, there) = run(d)?;
        assert_eq!(waited == 0, conditional, "{name} waited {waited} times");
        let (_, here) = run(Device::Cpu)?;
        assert_eq!(there.len(), here.len(), "{name}");
        assert_near(&there, &here);
    }
    Ok(())
}

#[test]
fn the_step_tells_whether_it_was_made() -> Result<()> {
    let (d, _, _alone) = alone();
    let p = parameters(d)?;
    let (adam, scaler) = (Adam::new(&p, 0.1)?, scaler()?);
    for (factor, made) in [(1.0, true), (f64::INFINITY, false)] {
        adam.zero_grad();
        scaler.scale(&p[0].sum()?.mul(factor)?)?.backward()?;
        let step = scaler.step(&adam)?;
        scaler.update()?;
        assert_eq!(step.made()?, made);
    }
    assert_eq!(scaler.get_scale()?, 512.0);
    Ok(())
}

#[test]
fn parameters_that_part_are_counted_apart() -> Result<()> {
    let (d, mock, _alone) = alone();
    let run = |device: Device| {
        let p = parameters(device)?;
        let adam = Adam::new(&p, 0.1)?;
        let (waited, ()) = waits(mock, || {
            // The second has no gradient in the third step.
            for both in [true, true, false, true] {
                adam.zero_grad();
                let mut loss = p[0].square()?.sum()?;
                if both {
                    loss = loss.add(p[1].square()?.sum()?)?;
                }
                loss.backward()?;
                adam.step()?;
            }
            Ok(())
        })?;
        assert_eq!(waited, 0);
        let state = adam.state_dict().state;
        let steps: Vec<_> = state.values().map(|s| s["step"].as_f64()).collect();
        assert_eq!(steps, [Some(4.0), Some(3.0)]);
        numbers(&p)
    };
    assert_near(&run(d)?, &run(Device::Cpu)?);
    Ok(())
}

#[test]
fn a_scaler_goes_on_from_its_state_on_the_other_device() -> Result<()> {
    let (d, _, _alone) = alone();
    let state_of = |device: Device| {
        let (p, scaler) = (parameters(device)?, scaler()?);
        iterate(&p, &SGD::new(&p, 0.0)?, &scaler, &FACTORS[..3])?;
        scaler.state_dict()
    };
    for (from, to) in [(d, Device::Cpu), (Device::Cpu, d)] {
        let (p, other) = (parameters(to)?, scaler()?);
        let sgd = SGD::new(&p, 0.0)?;
        iterate(&p, &sgd, &other, &[1.0])?;
        other.load_state_dict(&state_of(from)?)?;
        // Two iterations without infinities made it grow from 512; one more does not.
        assert_eq!(other.get_scale()?, 1024.0);
        iterate(&p, &sgd, &other, &[1.0])?;
        assert_eq!(other.get_scale()?, 1024.0);
        iterate(&p, &sgd, &other, &[1.0])?;
        assert_eq!(other.get_scale()?, 2048.0);
    }
    Ok(())
}
