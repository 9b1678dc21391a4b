//! Settings for each parameter group, and groups that are added after a scheduler was made, against PyTorch's values.

use torsh_optim::lr_scheduler::{
    ChainedScheduler, ConstantLR, CosineAnnealingLR, CosineAnnealingWarmRestarts, CyclicLR,
    CyclicLROptions, ExponentialLR, LRScheduler, LambdaLR, LinearLR, MultiStepLR, MultiplicativeLR,
    OneCycleLR, OneCycleLROptions, PerGroup, PolynomialLR, ReduceLROnPlateau,
    ReduceLROnPlateauOptions, SWALR, SequentialLR, StepLR,
};
use torsh_optim::{Adam, Optimizer, ParamGroup, SGD};
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
    Ok(match sgd {
        true => Box::new(SGD::builder(groups).lr(0.5).momentum(0.9).build()?),
        false => Box::new(Adam::builder(groups).lr(0.5).build()?),
    })
}

fn momentum(o: &dyn Optimizer, group: usize) -> f64 {
    let betas = o.get_option(group, "betas");
    let value = match betas.and_then(|v| v.as_floats()) {
        Some(betas) => Some(betas[0]),
        None => o.get_option(group, "momentum").and_then(|v| v.as_f64()),
    };
    value.expect("a momentum")
}

#[track_caller]
fn same(got: &[f64], want: &[f64]) {
    let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-14;
    assert!(
        got.len() == want.len() && got.iter().zip(want).all(close),
        "{got:?} is not {want:?}"
    );
}

type Make = fn(&dyn Optimizer) -> Result<Box<dyn LRScheduler>>;

/// Compares both learning rates and both momenta, then the same with fresh objects that took over the states on the way.
#[track_caller]
fn check(sgd: bool, make: Make, want: &[[f64; 4]]) -> Result<()> {
    for resume in [false, true] {
        let mut o = optimizer(sgd)?;
        let mut s = make(&*o)?;
        for (i, want) in want.iter().enumerate() {
            if resume && i == 3 {
                let fresh = optimizer(sgd)?;
                let scheduler = make(&*fresh)?;
                fresh.load_state_dict(&o.state_dict())?;
                scheduler.load_state_dict(&s.state_dict())?;
                (o, s) = (fresh, scheduler);
            }
            let lrs = o.group_lrs();
            same(&[lrs[0], lrs[1], momentum(&*o, 0), momentum(&*o, 1)], want);
            s.step()?;
        }
    }
    Ok(())
}

#[test]
#[rustfmt::skip]
fn lists_are_pytorchs() -> Result<()> {
    check(
        true,
        |o| Ok(Box::new(OneCycleLR::new_with(o, [0.9, 0.3], 9, OneCycleLROptions::new().base_momentum([0.8, 0.7]).max_momentum(vec![0.95, 0.9]))?)),
        &[[0.03600000000000003, 0.01200000000000001, 0.95, 0.9], [0.5862224117111399, 0.19540747057037994, 0.8544752757445938, 0.7726337009927917], [0.8949738919058206, 0.29832463063527354, 0.8008376880331154, 0.7011169173774872], [0.8087099934118022, 0.26956999780393404, 0.8152150619582809, 0.7202867492777077], [0.6350802560919897, 0.2116934186973299, 0.8441534672652041, 0.7588712896869387], [0.41637339240027754, 0.13879113080009253, 0.8806047570189818, 0.8074730093586424]],
    )?;
    check(
        false,
        |o| Ok(Box::new(OneCycleLR::new_with(o, &[0.9, 0.3], 8, OneCycleLROptions::new().three_phase(true).anneal_strategy("linear").div_factor(10.0))?)),
        &[[0.09, 0.03, 0.95, 0.95], [0.6685714285714286, 0.22285714285714286, 0.8785714285714286, 0.8785714285714286], [0.5528571428571427, 0.18428571428571425, 0.8928571428571428, 0.8928571428571428], [0.08571471428571428, 0.028571571428571425, 0.95, 0.95], [0.06428828571428571, 0.02142942857142857, 0.95, 0.95], [0.04286185714285714, 0.014287285714285714, 0.95, 0.95]],
    )?;
    check(
        true,
        |o| Ok(Box::new(CyclicLR::new_with(o, [0.1, 0.01], [0.4, 0.09], CyclicLROptions::new().step_size_up(2).base_momentum([0.8, 0.5]))?)),
        &[[0.1, 0.01, 0.9, 0.9], [0.25, 0.05, 0.8500000000000001, 0.7], [0.4, 0.09, 0.8, 0.5], [0.25, 0.05, 0.8500000000000001, 0.7], [0.1, 0.01, 0.9, 0.9], [0.25, 0.05, 0.8500000000000001, 0.7]],
    )?;
    check(
        false,
        |o| Ok(Box::new(CyclicLR::new_with(o, 0.1, [0.4, 0.2], CyclicLROptions::new().step_size_up(2).mode("triangular2").max_momentum([0.9, 0.99]))?)),
        &[[0.1, 0.1, 0.9, 0.99], [0.25, 0.15000000000000002, 0.8500000000000001, 0.895], [0.4, 0.2, 0.8, 0.8], [0.25, 0.15000000000000002, 0.8500000000000001, 0.895], [0.1, 0.1, 0.9, 0.99], [0.17500000000000002, 0.125, 0.875, 0.9425]],
    )?;
    check(
        true,
        |o| Ok(Box::new(SWALR::new(o, [0.2, 0.01], 3, "linear")?)),
        &[[0.5, 0.05, 0.9, 0.9], [0.4, 0.036666666666666674, 0.9, 0.9], [0.30000000000000004, 0.023333333333333338, 0.9, 0.9], [0.2, 0.01, 0.9, 0.9], [0.2, 0.01, 0.9, 0.9], [0.2, 0.01, 0.9, 0.9]],
    )
}

#[test]
fn a_list_has_a_number_for_each_group() -> Result<()> {
    let o = optimizer(true)?;
    let o = &*o;
    fn text<T>(r: Result<T>) -> String {
        r.map(|_| ()).expect_err("must fail").to_string()
    }
    let one = OneCycleLROptions::new();
    let cyclic = CyclicLROptions::new();
    for (e, name, n) in [
        (text(OneCycleLR::new(o, [0.1], 5)), "max_lr", 1),
        (
            text(OneCycleLR::new_with(o, 0.1, 5, one.base_momentum([0.1; 3]))),
            "base_momentum",
            3,
        ),
        (text(CyclicLR::new(o, [0.1; 3], 0.5, 2)), "base_lr", 3),
        (text(CyclicLR::new(o, 0.1, vec![], 2)), "max_lr", 0),
        (
            text(CyclicLR::new_with(o, 0.1, 0.5, cyclic.max_momentum([0.9]))),
            "max_momentum",
            1,
        ),
        (text(SWALR::new(o, [0.1; 3], 2, "cos")), "swa_lr", 3),
    ] {
        let part = format!("{name} has {n} values, and the optimizer has 2 parameter groups");
        assert!(e.contains(&part), "{e}");
    }
    // A refused scheduler leaves the groups as they were.
    assert_eq!(o.group_lrs(), [0.5, 0.05]);
    assert!(o.get_option(0, "max_lr").is_none());
    let plateau = ReduceLROnPlateauOptions::new().min_lr([0.1]);
    let e = text(ReduceLROnPlateau::new_with(o, plateau));
    assert!(e.contains("expected 2 min_lrs, got 1"), "{e}");
    assert_eq!(PerGroup::from(&[0.5, 0.1]), PerGroup::Each(vec![0.5, 0.1]));
    Ok(())
}

/// What a group has in the optimizer's state is what is followed.
#[test]
fn entries_of_groups_are_read() -> Result<()> {
    let one_cycle = [
        [0.03600000000000003, 0.03600000000000003, 0.95, 0.95],
        [
            0.7373475944029729,
            0.7373475944029729,
            0.8688255099070633,
            0.8688255099070633,
        ],
        [
            0.8747475996487709,
            0.8747475996487709,
            0.8528058334845816,
            0.8528058334845816,
        ],
        [
            0.40587312818304,
            0.7324529618271364,
            0.8688255099070633,
            0.584714794581785,
        ],
        [
            0.2779927174897699,
            0.5048241918659718,
            0.8944017761948346,
            0.6998079928767558,
        ],
        [
            0.1415316462113409,
            0.26192173609268665,
            0.9216941869558779,
            0.8226238413014505,
        ],
        [
            0.03832227429648758,
            0.07820773134341356,
            0.9423362099614142,
            0.9155129448263639,
        ],
        [3.6000000000000003e-06, 0.01, 0.95, 0.95],
    ];
    let o = optimizer(true)?;
    let s = OneCycleLR::new(&o, 0.9, 8)?;
    for (i, want) in one_cycle.iter().enumerate() {
        let lrs = o.group_lrs();
        same(&[lrs[0], lrs[1], momentum(&*o, 0), momentum(&*o, 1)], want);
        if i == 2 {
            let mut state = o.state_dict();
            let groups = &mut state.param_groups;
            groups[0].options.insert("max_lr".into(), 0.5.into());
            groups[1].options.insert("min_lr".into(), 0.01.into());
            groups[1].options.insert("base_momentum".into(), 0.5.into());
            o.load_state_dict(&state)?;
        }
        if i < 7 {
            s.step()?;
        }
    }
    let o = optimizer(true)?;
    let s = SWALR::new(&o, 0.2, 4, "linear")?;
    for (i, want) in [
        [0.5, 0.05],
        [0.425, 0.08750000000000001],
        [0.35, 0.125],
        [0.275, 0.26250000000000007],
        [0.2, 0.4],
        [0.2, 0.4],
    ]
    .iter()
    .enumerate()
    {
        same(&o.group_lrs(), want);
        if i == 2 {
            o.set_extra(1, "swa_lr", 0.4.into())?;
        }
        s.step()?;
    }
    // The first learning rate of a group, as given with it.
    let groups = [
        ParamGroup::new([parameter()?]).set("initial_lr", 0.3),
        ParamGroup::new([parameter()?]),
    ];
    let o = SGD::new(groups, 0.5)?;
    let s = LambdaLR::new(&o, |_| 0.5)?;
    assert_eq!(s.get_last_lr(), [0.15, 0.25]);
    Ok(())
}

/// Adds a group with the learning rate 0.2 before the third step, and compares all learning rates.
#[track_caller]
fn grown(make: Make, entries: &[(&str, f64)], want: &[&[f64]]) -> Result<()> {
    let o = optimizer(true)?;
    let s = make(&*o)?;
    for (i, want) in want.iter().enumerate() {
        if i == 2 {
            let mut group = ParamGroup::new([parameter()?]).lr(0.2);
            for (name, value) in entries {
                group = group.set(name, *value);
            }
            o.add_param_group(group)?;
        }
        same(&o.group_lrs(), want);
        s.step_metric(1.0)?;
        assert_eq!(s.get_last_lr(), o.group_lrs());
    }
    Ok(())
}

#[test]
#[rustfmt::skip]
#[allow(clippy::excessive_precision)]
fn an_added_group_goes_on() -> Result<()> {
    grown(
        |o| Ok(Box::new(StepLR::new(o, 2, 0.5)?)), &[],
        &[&[0.5, 0.05], &[0.5, 0.05], &[0.25, 0.025, 0.2], &[0.25, 0.025, 0.2], &[0.125, 0.0125, 0.1], &[0.125, 0.0125, 0.1], &[0.0625, 0.00625, 0.05]],
    )?;
    grown(
        |o| Ok(Box::new(MultiStepLR::new(o, [3, 5], 0.5)?)), &[],
        &[&[0.5, 0.05], &[0.5, 0.05], &[0.5, 0.05, 0.2], &[0.25, 0.025, 0.1], &[0.25, 0.025, 0.1], &[0.125, 0.0125, 0.05], &[0.125, 0.0125, 0.05]],
    )?;
    grown(
        |o| Ok(Box::new(ConstantLR::new(o, 0.25, 4)?)), &[],
        &[&[0.125, 0.0125], &[0.125, 0.0125], &[0.125, 0.0125, 0.2], &[0.125, 0.0125, 0.2], &[0.5, 0.05, 0.8], &[0.5, 0.05, 0.8]],
    )?;
    grown(
        |o| Ok(Box::new(LinearLR::new(o, 0.25, 0.75, 5)?)), &[],
        &[&[0.125, 0.0125], &[0.175, 0.017499999999999998], &[0.22499999999999995, 0.022499999999999996, 0.2], &[0.27499999999999997, 0.027499999999999997, 0.24444444444444446], &[0.32499999999999996, 0.0325, 0.2888888888888889], &[0.3749999999999999, 0.0375, 0.3333333333333333], &[0.3749999999999999, 0.0375, 0.3333333333333333]],
    )?;
    grown(
        |o| Ok(Box::new(ExponentialLR::new(o, 0.5)?)), &[],
        &[&[0.5, 0.05], &[0.25, 0.025], &[0.125, 0.0125, 0.2], &[0.0625, 0.00625, 0.1], &[0.03125, 0.003125, 0.05]],
    )?;
    grown(
        |o| Ok(Box::new(PolynomialLR::new(o, 6, 1.0)?)), &[],
        &[&[0.5, 0.05], &[0.4166666666666667, 0.04166666666666667], &[0.33333333333333337, 0.03333333333333334, 0.2], &[0.25, 0.025, 0.15], &[0.16666666666666669, 0.01666666666666667, 0.1], &[0.08333333333333331, 0.008333333333333331, 0.04999999999999999], &[0.0, 0.0, 0.0]],
    )?;
    grown(
        |o| Ok(Box::new(SWALR::new(o, 0.2, 4, "linear")?)), &[("swa_lr", 0.1)],
        &[&[0.5, 0.05], &[0.425, 0.08750000000000001], &[0.35, 0.125, 0.2], &[0.275, 0.16250000000000003, 0.15000000000000002], &[0.2, 0.2, 0.1], &[0.2, 0.2, 0.1]],
    )?;
    grown(
        |o| Ok(Box::new(OneCycleLR::new(o, 0.9, 8)?)),
        &[("initial_lr", 0.02), ("max_lr", 0.3), ("min_lr", 0.001), ("base_momentum", 0.8), ("max_momentum", 0.9)],
        &[&[0.03600000000000003, 0.03600000000000003], &[0.7373475944029729, 0.7373475944029729], &[0.8747475996487709, 0.8747475996487709, 0.2], &[0.7305710885547867, 0.7305710885547867, 0.24371172537788063], &[0.5003856127104315, 0.5003856127104315, 0.16723868917744447], &[0.2547548983878293, 0.2547548983878293, 0.08563438100192507], &[0.06897743445083077, 0.06897743445083077, 0.023914732215371524]],
    )?;
    grown(
        |o| Ok(Box::new(ReduceLROnPlateau::new_with(o, ReduceLROnPlateauOptions::new().factor(0.5).patience(0usize).min_lr(0.03))?)), &[],
        &[&[0.5, 0.05], &[0.5, 0.05], &[0.25, 0.03, 0.2], &[0.125, 0.03, 0.1], &[0.0625, 0.03, 0.05], &[0.03125, 0.03, 0.03], &[0.03, 0.03, 0.03]],
    )?;
    grown(
        |o| Ok(Box::new(SequentialLR::new(o, vec![Box::new(ConstantLR::new(o, 0.5, 10)?), Box::new(ExponentialLR::new(o, 0.5)?)], &[1])?)), &[],
        &[&[0.25, 0.025], &[0.5, 0.05], &[0.25, 0.025, 0.2], &[0.125, 0.0125, 0.1], &[0.0625, 0.00625, 0.05]],
    )?;
    grown(
        |o| Ok(Box::new(ChainedScheduler::new(vec![Box::new(ConstantLR::new(o, 0.5, 3)?), Box::new(ExponentialLR::new(o, 0.5)?)])?)), &[],
        &[&[0.25, 0.025], &[0.125, 0.0125], &[0.0625, 0.00625, 0.2], &[0.0625, 0.00625, 0.2], &[0.03125, 0.003125, 0.1]],
    )?;
    // Until a step that needs the first learning rates.
    grown(
        |o| Ok(Box::new(CosineAnnealingLR::new(o, 4, 0.01)?)), &[],
        &[&[0.5, 0.05], &[0.42824116139070416, 0.04414213562373096], &[0.255, 0.03, 0.2], &[0.08175883860929587, 0.015857864376269053, 0.06564971157455599]],
    )
}

/// Where PyTorch's lists have another length, or a group lacks an entry, it raises, and so does this.
#[test]
fn an_added_group_that_cannot_go_on_is_an_error() -> Result<()> {
    let makes: [(Make, &str); 8] = [
        (|o| Ok(Box::new(LambdaLR::new(o, |_| 0.5)?)), "it had 2"),
        (
            |o| Ok(Box::new(MultiplicativeLR::new(o, |_| 0.5)?)),
            "it had 2",
        ),
        (
            |o| Ok(Box::new(CosineAnnealingWarmRestarts::new(o, 3, 1, 0.0)?)),
            "has 3 parameter groups, it had 2",
        ),
        (|o| Ok(Box::new(CyclicLR::new(o, 0.1, 0.4, 2)?)), "it had 2"),
        (
            |o| Ok(Box::new(SWALR::new(o, 0.2, 4, "cos")?)),
            "group 2 has no `swa_lr`",
        ),
        (
            |o| Ok(Box::new(OneCycleLR::new(o, 0.9, 9)?)),
            "group 2 has no `max_momentum`",
        ),
        (
            |o| {
                let options = OneCycleLROptions::new().cycle_momentum(false);
                Ok(Box::new(OneCycleLR::new_with(o, 0.9, 9, options)?))
            },
            "group 2 has no `initial_lr`",
        ),
        (
            |o| {
                let options = ReduceLROnPlateauOptions::new()
                    .patience(0usize)
                    .min_lr([0.1, 0.02]);
                Ok(Box::new(ReduceLROnPlateau::new_with(o, options)?))
            },
            "it had 2",
        ),
    ];
    for (make, part) in makes {
        let o = optimizer(true)?;
        let s = make(&*o)?;
        o.add_param_group(ParamGroup::new([parameter()?]).lr(0.2))?;
        let before = (o.group_lrs(), momentum(&*o, 0));
        // The first metric of a plateau is the best so far.
        s.step_metric(1.0).ok();
        let e = s.step_metric(1.0).expect_err("must fail").to_string();
        assert!(e.contains(part), "{e}");
        assert_eq!((o.group_lrs(), momentum(&*o, 0)), before);
    }
    // The closed form of a milestone is of the groups that were there.
    let o = optimizer(true)?;
    let parts: Vec<Box<dyn LRScheduler>> = vec![
        Box::new(ConstantLR::new(&o, 0.5, 10)?),
        Box::new(ExponentialLR::new(&o, 0.5)?),
    ];
    let s = SequentialLR::new(&o, parts, &[2])?;
    o.add_param_group(ParamGroup::new([parameter()?]).lr(0.2))?;
    s.step()?;
    assert!(s.step().is_err());
    Ok(())
}

/// A state from after a group was added goes on with as many groups.
#[test]
fn the_state_of_a_grown_optimizer_is_loaded() -> Result<()> {
    let grow = |o: &dyn Optimizer| o.add_param_group(ParamGroup::new([parameter()?]).lr(0.2));
    let o = optimizer(true)?;
    let s = StepLR::new(&o, 2, 0.5)?;
    s.step()?;
    grow(&*o)?;
    for _ in 0..2 {
        s.step()?;
    }
    let fresh = optimizer(true)?;
    grow(&*fresh)?;
    let again = StepLR::new(&fresh, 9, 0.1)?;
    fresh.load_state_dict(&o.state_dict())?;
    again.load_state_dict(&s.state_dict())?;
    again.step()?;
    same(&fresh.group_lrs(), &[0.125, 0.0125, 0.05]);
    // Of more groups than there are.
    let two = optimizer(true)?;
    let e = StepLR::new(&two, 2, 0.5)?.load_state_dict(&s.state_dict());
    let e = e.expect_err("must fail").to_string();
    assert!(
        e.contains("of 3 parameter groups, the optimizer has 2"),
        "{e}"
    );
    Ok(())
}

/// What other optimizers do not have stays an error.
#[test]
fn unknown_settings_of_a_group_are_errors() -> Result<()> {
    for name in ["maxlr", "momentum"] {
        let group = ParamGroup::new([parameter()?]).set(name, 0.1);
        let e = Adam::new([group], 0.5).expect_err("must fail").to_string();
        assert!(e.contains(&format!("no setting {name}")), "{e}");
    }
    let o = Adam::new([ParamGroup::new([parameter()?]).set("max_lr", 0.1)], 0.5)?;
    assert_eq!(
        o.get_option(0, "max_lr").and_then(|v| v.as_f64()),
        Some(0.1)
    );
    assert!(o.get_option(0, "min_lr").is_none());
    Ok(())
}

/// PyTorch's division by zero.
#[test]
fn a_rate_of_nothing_does_not_come_back() -> Result<()> {
    let o = optimizer(true)?;
    let s = ConstantLR::new(&o, 0.0, 2)?;
    s.step()?;
    assert_eq!(o.group_lrs(), [0.0, 0.0]);
    let e = s.step().expect_err("must fail").to_string();
    assert!(e.contains("cannot come back from 0"), "{e}");
    Ok(())
}
