//! Every scheduler against PyTorch's values, resuming, and errors.

use torsh_optim::lr_scheduler::{
    ChainedScheduler, ConstantLR, CosineAnnealingLR, CosineAnnealingWarmRestarts, CyclicLR,
    CyclicLROptions, ExponentialLR, LRScheduler, LambdaLR, LinearLR, MultiStepLR, MultiplicativeLR,
    OneCycleLR, OneCycleLROptions, PolynomialLR, ReduceLROnPlateau, ReduceLROnPlateauOptions,
    SWALR, SequentialLR, StepLR, WarmupCosine,
};
use torsh_optim::{Adam, Optimizer, ParamGroup, Rprop, SGD};
use torsh_tensor::{Result, Tensor};

fn parameter() -> Result<Tensor> {
    Ok(Tensor::from_data(&[0.0f32], [1])?.requires_grad_(true))
}

/// An optimizer of two groups with the learning rates 0.5 and 0.05.
fn optimizer(sgd: bool) -> Result<Box<dyn Optimizer>> {
    let groups = [
        ParamGroup::new([parameter()?]),
        ParamGroup::new([parameter()?]).lr(0.05),
    ];
    Ok(if sgd {
        Box::new(SGD::builder(groups).lr(0.5).momentum(0.9).build()?)
    } else {
        Box::new(Adam::builder(groups).lr(0.5).build()?)
    })
}

/// Both learning rates, and the momentum or first beta.
fn now(o: &dyn Optimizer) -> [f64; 3] {
    let lrs = o.group_lrs();
    let momentum = match o.get_option(0, "betas") {
        Some(v) => v.as_floats().map(|b| b[0]),
        None => o.get_option(0, "momentum").and_then(|v| v.as_f64()),
    };
    [lrs[0], lrs[1], momentum.expect("a momentum")]
}

type Make = fn(&dyn Optimizer) -> Result<Box<dyn LRScheduler>>;

/// Compares a schedule with PyTorch's, then the same with the optimizer and the scheduler
/// swapped for new ones with their states after four steps.
fn check(sgd: bool, make: Make, want: &[[f64; 3]]) -> Result<()> {
    for resume in [false, true] {
        let mut o = optimizer(sgd)?;
        let mut s = make(&*o)?;
        for (i, want) in want.iter().enumerate() {
            if resume && i == 4 {
                let fresh = optimizer(sgd)?;
                let scheduler = make(&*fresh)?;
                fresh.load_state_dict(&o.state_dict())?;
                scheduler.load_state_dict(&s.state_dict())?;
                (o, s) = (fresh, scheduler);
            }
            let got = now(&*o);
            for (a, b) in got.iter().zip(want) {
                assert!(
                    (a - b).abs() <= 1e-14,
                    "step {i}, resumed {resume}: {got:?} for {want:?}"
                );
            }
            assert_eq!(s.get_last_lr(), got[..2]);
            s.step()?;
        }
        assert_eq!(s.last_epoch(), want.len() as i64);
    }
    Ok(())
}

#[test]
#[rustfmt::skip]
fn schedules_are_pytorchs() -> Result<()> {
    check(
        true,
        |o| Ok(Box::new(LambdaLR::new(o, |e| 0.9f64.powi(e as i32))?)),
        &[[0.5, 0.05, 0.9], [0.45, 0.045000000000000005, 0.9], [0.405, 0.04050000000000001, 0.9], [0.36450000000000005, 0.03645, 0.9], [0.32805, 0.032805, 0.9], [0.29524500000000004, 0.029524500000000006, 0.9], [0.2657205, 0.026572050000000003, 0.9], [0.23914845000000004, 0.023914845000000004, 0.9], [0.21523360500000005, 0.021523360500000005, 0.9]],
    )?;
    check(
        true,
        |o| Ok(Box::new(MultiplicativeLR::new(o, |e| 1.0 / (1.0 + e as f64))?)),
        &[[0.5, 0.05, 0.9], [0.25, 0.025, 0.9], [0.08333333333333333, 0.008333333333333333, 0.9], [0.020833333333333332, 0.0020833333333333333, 0.9], [0.004166666666666667, 0.0004166666666666667, 0.9], [0.0006944444444444444, 6.944444444444444e-05, 0.9], [9.920634920634919e-05, 9.92063492063492e-06, 0.9], [1.2400793650793649e-05, 1.240079365079365e-06, 0.9], [1.3778659611992942e-06, 1.3778659611992944e-07, 0.9]],
    )?;
    check(
        true,
        |o| Ok(Box::new(StepLR::new(o, 3, 0.3)?)),
        &[[0.5, 0.05, 0.9], [0.5, 0.05, 0.9], [0.5, 0.05, 0.9], [0.15, 0.015, 0.9], [0.15, 0.015, 0.9], [0.15, 0.015, 0.9], [0.045, 0.0045, 0.9], [0.045, 0.0045, 0.9], [0.045, 0.0045, 0.9]],
    )?;
    check(
        true,
        |o| Ok(Box::new(MultiStepLR::new(o, [2, 5, 5], 0.5)?)),
        &[[0.5, 0.05, 0.9], [0.5, 0.05, 0.9], [0.25, 0.025, 0.9], [0.25, 0.025, 0.9], [0.25, 0.025, 0.9], [0.0625, 0.00625, 0.9], [0.0625, 0.00625, 0.9], [0.0625, 0.00625, 0.9], [0.0625, 0.00625, 0.9]],
    )?;
    check(
        true,
        |o| Ok(Box::new(ConstantLR::new(o, 0.3, 4)?)),
        &[[0.15, 0.015, 0.9], [0.15, 0.015, 0.9], [0.15, 0.015, 0.9], [0.15, 0.015, 0.9], [0.5, 0.05, 0.9], [0.5, 0.05, 0.9], [0.5, 0.05, 0.9], [0.5, 0.05, 0.9], [0.5, 0.05, 0.9]],
    )?;
    check(
        true,
        |o| Ok(Box::new(LinearLR::new(o, 0.25, 0.75, 5)?)),
        &[[0.125, 0.0125, 0.9], [0.175, 0.017499999999999998, 0.9], [0.22499999999999995, 0.022499999999999996, 0.9], [0.27499999999999997, 0.027499999999999997, 0.9], [0.32499999999999996, 0.0325, 0.9], [0.3749999999999999, 0.0375, 0.9], [0.3749999999999999, 0.0375, 0.9], [0.3749999999999999, 0.0375, 0.9], [0.3749999999999999, 0.0375, 0.9]],
    )?;
    check(
        true,
        |o| Ok(Box::new(ExponentialLR::new(o, 0.8)?)),
        &[[0.5, 0.05, 0.9], [0.4, 0.04000000000000001, 0.9], [0.32000000000000006, 0.03200000000000001, 0.9], [0.25600000000000006, 0.025600000000000008, 0.9], [0.20480000000000007, 0.02048000000000001, 0.9], [0.16384000000000007, 0.016384000000000006, 0.9], [0.13107200000000005, 0.013107200000000006, 0.9], [0.10485760000000005, 0.010485760000000005, 0.9], [0.08388608000000004, 0.008388608000000004, 0.9]],
    )?;
    check(
        true,
        |o| Ok(Box::new(PolynomialLR::new(o, 6, 1.5)?)),
        &[[0.5, 0.05, 0.9], [0.3803628871563654, 0.038036288715636545, 0.9], [0.27216552697590873, 0.02721655269759088, 0.9], [0.1767766952966369, 0.01767766952966369, 0.9], [0.09622504486493766, 0.009622504486493766, 0.9], [0.03402069087198858, 0.0034020690871988577, 0.9], [0.0, 0.0, 0.9], [0.0, 0.0, 0.9], [0.0, 0.0, 0.9]],
    )?;
    check(
        true,
        |o| Ok(Box::new(CosineAnnealingLR::new(o, 3, 0.01)?)),
        &[[0.5, 0.05, 0.9], [0.3775, 0.04, 0.9], [0.13250000000000006, 0.020000000000000004, 0.9], [0.01, 0.01, 0.9], [0.13249999999999998, 0.019999999999999997, 0.9], [0.3775000000000003, 0.040000000000000015, 0.9], [0.5000000000000003, 0.05000000000000002, 0.9], [0.37750000000000034, 0.04000000000000002, 0.9], [0.13250000000000026, 0.020000000000000018, 0.9]],
    )?;
    check(
        true,
        |o| Ok(Box::new(CosineAnnealingWarmRestarts::new(o, 2, 2, 0.01)?)),
        &[[0.5, 0.05, 0.9], [0.255, 0.03, 0.9], [0.5, 0.05, 0.9], [0.4282411613907041, 0.044142135623730955, 0.9], [0.255, 0.03, 0.9], [0.08175883860929586, 0.01585786437626905, 0.9], [0.5, 0.05, 0.9], [0.48135048546526527, 0.048477590650225735, 0.9], [0.4282411613907041, 0.044142135623730955, 0.9]],
    )?;
    check(
        true,
        |o| Ok(Box::new(CyclicLR::new_with(o, 0.1, 0.4, CyclicLROptions::new().step_size_up(2).step_size_down(3).mode("exp_range").gamma(0.9))?)),
        &[[0.1, 0.1, 0.9], [0.23500000000000001, 0.23500000000000001, 0.8550000000000001], [0.34299999999999997, 0.34299999999999997, 0.8190000000000001], [0.24580000000000002, 0.24580000000000002, 0.8514], [0.16561, 0.16561, 0.8781300000000001], [0.1, 0.1, 0.9], [0.1797161500000001, 0.1797161500000001, 0.87342795], [0.24348907000000003, 0.24348907000000003, 0.85217031], [0.186093442, 0.186093442, 0.871302186]],
    )?;
    check(
        false,
        |o| Ok(Box::new(CyclicLR::new_with(o, 0.1, 0.4, CyclicLROptions::new().step_size_up(2).base_momentum(0.5))?)),
        &[[0.1, 0.1, 0.9], [0.25, 0.25, 0.7], [0.4, 0.4, 0.5], [0.25, 0.25, 0.7], [0.1, 0.1, 0.9], [0.25, 0.25, 0.7], [0.4, 0.4, 0.5], [0.25, 0.25, 0.7], [0.1, 0.1, 0.9]],
    )?;
    check(
        true,
        |o| Ok(Box::new(OneCycleLR::new(o, 0.9, 9)?)),
        &[[0.03600000000000003, 0.03600000000000003, 0.95], [0.5862224117111399, 0.5862224117111399, 0.8863168504963959], [0.8949738919058206, 0.8949738919058206, 0.8505584586887436], [0.8087099934118022, 0.8087099934118022, 0.8601433746388538], [0.6350802560919897, 0.6350802560919897, 0.8794356448434694], [0.41637339240027754, 0.41637339240027754, 0.9037365046793212], [0.20585695784368327, 0.20585695784368327, 0.9271273131932879], [0.05480367278222917, 0.05480367278222917, 0.9439110786685114], [3.6000000000000003e-06, 3.6000000000000003e-06, 0.95]],
    )?;
    check(
        false,
        |o| Ok(Box::new(OneCycleLR::new_with(o, 0.9, 10, OneCycleLROptions::new().anneal_strategy("linear").three_phase(true).div_factor(10.0))?)),
        &[[0.09, 0.09, 0.95], [0.495, 0.495, 0.8999999999999999], [0.9, 0.9, 0.85], [0.495, 0.495, 0.8999999999999999], [0.08999999999999997, 0.08999999999999997, 0.95], [0.07200179999999999, 0.07200179999999999, 0.95], [0.05400359999999999, 0.05400359999999999, 0.95], [0.0360054, 0.0360054, 0.95], [0.018007199999999987, 0.018007199999999987, 0.95]],
    )?;
    check(
        true,
        |o| Ok(Box::new(SWALR::new(o, 0.2, 4, "cos")?)),
        &[[0.5, 0.05, 0.9], [0.4560660171779821, 0.07196699141100893, 0.9], [0.35, 0.125, 0.9], [0.2439339828220179, 0.17803300858899107, 0.9], [0.2, 0.2, 0.9], [0.2, 0.2, 0.9], [0.2, 0.2, 0.9], [0.2, 0.2, 0.9], [0.2, 0.2, 0.9]],
    )?;
    check(
        true,
        |o| Ok(Box::new(ChainedScheduler::new(vec![Box::new(ConstantLR::new(o, 0.5, 3)?), Box::new(StepLR::new(o, 4, 0.1)?)])?)),
        &[[0.25, 0.025, 0.9], [0.25, 0.025, 0.9], [0.25, 0.025, 0.9], [0.5, 0.05, 0.9], [0.05, 0.005000000000000001, 0.9], [0.05, 0.005000000000000001, 0.9], [0.05, 0.005000000000000001, 0.9], [0.05, 0.005000000000000001, 0.9], [0.005000000000000001, 0.0005000000000000001, 0.9]],
    )?;
    check(
        true,
        |o| Ok(Box::new(SequentialLR::new(o, vec![Box::new(LinearLR::new(o, 0.5, 1.0, 3)?), Box::new(CosineAnnealingWarmRestarts::new(o, 2, 1, 0.0)?), Box::new(ExponentialLR::new(o, 0.5)?)], &[3, 6])?)),
        &[[0.25, 0.025, 0.9], [0.3333333333333333, 0.03333333333333333, 0.9], [0.41666666666666663, 0.041666666666666664, 0.9], [0.5, 0.05, 0.9], [0.25, 0.025, 0.9], [0.5, 0.05, 0.9], [0.5, 0.05, 0.9], [0.25, 0.025, 0.9], [0.125, 0.0125, 0.9]],
    )?;
    Ok(())
}

#[test]
fn plateaus_are_pytorchs() -> Result<()> {
    let metrics = [1.0, 0.5, 0.6, 0.7, 0.49999, 0.8, 0.9, 0.9, 0.9];
    let least = ReduceLROnPlateauOptions::new()
        .factor(0.5)
        .patience(1usize)
        .cooldown(1usize)
        .min_lr(vec![0.1, 0.02]);
    let most = ReduceLROnPlateauOptions::new()
        .mode("max")
        .threshold(0.2)
        .threshold_mode("abs")
        .factor(0.5)
        .patience(0usize);
    let wants: [(_, [[f64; 2]; 9]); 2] = [
        (
            least,
            [
                [0.5, 0.05],
                [0.5, 0.05],
                [0.5, 0.05],
                [0.25, 0.025],
                [0.25, 0.025],
                [0.25, 0.025],
                [0.125, 0.02],
                [0.125, 0.02],
                [0.125, 0.02],
            ],
        ),
        (
            most,
            [0, 1, 2, 3, 4, 5, 6, 7, 8].map(|i| [0.5 / 2f64.powi(i), 0.05 / 2f64.powi(i)]),
        ),
    ];
    for (options, want) in wants {
        let o = optimizer(true)?;
        let mut s = ReduceLROnPlateau::new_with(&o, options.clone())?;
        for (i, (metric, want)) in metrics.into_iter().zip(want).enumerate() {
            if i == 3 {
                let fresh = ReduceLROnPlateau::new_with(&o, options.clone())?;
                fresh.load_state_dict(&s.state_dict())?;
                s = fresh;
            }
            s.step_metric(metric)?;
            assert_eq!(o.group_lrs(), want, "{metric}");
            assert_eq!(s.get_last_lr(), want);
        }
    }
    Ok(())
}

#[test]
fn each_group_may_have_its_function() -> Result<()> {
    let o = optimizer(true)?;
    let s = LambdaLR::per_group(
        &o,
        vec![Box::new(|_| 1.0), Box::new(|e| 1.0 / (1.0 + e as f64))],
    )?;
    s.step()?;
    assert_eq!(o.group_lrs(), [0.5, 0.025]);
    let e = LambdaLR::per_group(&o, vec![Box::new(|_| 1.0)])
        .expect_err("one of two")
        .to_string();
    assert!(e.contains("Expected 2 lr_lambdas, but got 1"), "{e}");
    Ok(())
}

#[test]
fn a_clone_is_the_same_scheduler() -> Result<()> {
    let o = SGD::new([parameter()?], 0.5)?;
    let s = ExponentialLR::new(o.clone(), 0.5)?;
    let other = s.clone();
    other.step()?;
    s.step()?;
    assert_eq!((o.get_lr(), other.last_epoch()), (0.125, 2));
    let boxed: Box<dyn LRScheduler> = Box::new(&s);
    boxed.step_metric(1.0)?;
    assert_eq!(o.get_lr(), 0.0625);
    Ok(())
}

#[test]
fn errors_say_what_is_wrong() -> Result<()> {
    let o = optimizer(true)?;
    let o = &*o;
    fn text<T>(r: Result<T>) -> String {
        r.map(|_| ()).expect_err("must fail").to_string()
    }
    for (e, part) in [
        (text(StepLR::new(o, 0, 0.1)), "step_size"),
        (text(ConstantLR::new(o, 1.5, 3)), "between 0 and 1, got 1.5"),
        (
            text(LinearLR::new(o, 0.0, 1.0, 3)),
            "Starting multiplicative factor",
        ),
        (
            text(LinearLR::new(o, 0.5, 2.0, 3)),
            "Ending multiplicative factor",
        ),
        (text(PolynomialLR::new(o, 0, 1.0)), "total_iters"),
        (text(CosineAnnealingLR::new(o, 0, 0.0)), "T_max"),
        (
            text(CosineAnnealingWarmRestarts::new(o, 0, 1, 0.0)),
            "positive integer T_0",
        ),
        (text(WarmupCosine::new(o, 5, 3, 0.0)), "warmup_steps (5)"),
        (
            text(OneCycleLR::new(o, 0.1, 0)),
            "positive integer total_steps",
        ),
        (
            text(CyclicLR::new_with(
                o,
                0.1,
                0.2,
                CyclicLROptions::new().mode("square"),
            )),
            "mode is invalid: square",
        ),
        (
            text(SWALR::new(o, 0.1, 3, "exp")),
            "one of 'cos' or 'linear', instead got exp",
        ),
        (
            text(ReduceLROnPlateau::new_with(
                o,
                ReduceLROnPlateauOptions::new().factor(1.0),
            )),
            "Factor should be < 1.0",
        ),
        (
            text(ReduceLROnPlateau::new_with(
                o,
                ReduceLROnPlateauOptions::new().mode("low"),
            )),
            "mode low is unknown",
        ),
        (
            text(ReduceLROnPlateau::new_with(
                o,
                ReduceLROnPlateauOptions::new().min_lr(vec![0.0; 3]),
            )),
            "expected 2 min_lrs, got 3",
        ),
        (text(ReduceLROnPlateau::new(o)?.step()), "step_metric"),
        (
            text(ChainedScheduler::new(vec![])),
            "at least one scheduler",
        ),
        (
            text(ChainedScheduler::new(vec![Box::new(
                ReduceLROnPlateau::new(o)?,
            )])),
            "does not support ReduceLROnPlateau",
        ),
        (
            text(SequentialLR::new(
                o,
                vec![Box::new(ExponentialLR::new(o, 0.5)?)],
                &[1],
            )),
            "one more than the number of milestone",
        ),
    ] {
        assert!(e.contains(part), "{e}");
    }
    let other = optimizer(true)?;
    let foreign: Vec<Box<dyn LRScheduler>> = vec![
        Box::new(ExponentialLR::new(o, 0.5)?),
        Box::new(ExponentialLR::new(&other, 0.5)?),
    ];
    assert!(text(ChainedScheduler::new(foreign)).contains("same optimizer"));
    let rprop = Rprop::new([parameter()?], 0.1)?;
    assert!(text(OneCycleLR::new(&rprop, 0.1, 5)).contains("momentum or beta1"));
    let options = OneCycleLROptions::new().cycle_momentum(false);
    let s = OneCycleLR::new_with(&rprop, 0.1, 2, options)?;
    s.step()?;
    s.step()?;
    assert!(text(s.step()).contains("Tried to step 3 times"));
    let step = StepLR::new(o, 3, 0.5)?;
    let mut state = step.state_dict();
    state.insert("step_size".into(), "three".into());
    assert!(text(step.load_state_dict(&state)).contains("step_size"));
    Ok(())
}
