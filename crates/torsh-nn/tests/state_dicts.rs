//! State dicts that PyTorch 2.15 loads strictly, in other forms than the module's own.

use torsh_core::random::{LocalGenerator, manual_seed};
use torsh_nn::utils::{self, parametrizations, spectral_norm, weight_norm};
use torsh_nn::{
    BatchNorm1d, BatchNorm2d, Conv1d, ConvTranspose1d, InstanceNorm1d, LazyBatchNorm1d, Linear,
    LoadStateDictOptions, Module, ModuleExt, PReLU, Parameter, Sequential, StateDict,
    SyncBatchNorm, sequential,
};
use torsh_tensor::{DType, Result, Tensor, no_grad, tensor};

#[track_caller]
fn close(t: &Tensor, expected: &[f64]) {
    let ours = t.to_vec::<f64>().unwrap();
    assert_eq!(ours.len(), expected.len(), "{ours:?}");
    for (a, b) in ours.iter().zip(expected) {
        assert!(
            (a - b).abs() <= 2e-6 * b.abs().max(1.0),
            "{ours:?} is not {expected:?}"
        );
    }
}

fn names(m: &dyn Module) -> Vec<String> {
    m.state_dict().keys().map(String::from).collect()
}

/// The state dict of a norm with one channel that saw a batch, without the count.
fn without_count(module: &dyn Module) -> StateDict {
    let state = module.state_dict().into_iter();
    let other = state.map(|(name, t)| (name, t.copy().and_then(|t| t.add(3.0)).unwrap()));
    other
        .filter(|(name, _)| !name.ends_with("num_batches_tracked"))
        .collect()
}

#[test]
fn norms_load_without_their_count() -> Result<()> {
    let norms: Vec<Box<dyn Module>> = vec![
        Box::new(BatchNorm1d::new(2)?),
        Box::new(SyncBatchNorm::new(2)?),
        Box::new(
            InstanceNorm1d::builder(2)
                .track_running_stats(true)
                .build()?,
        ),
        Box::new(sequential![
            Linear::new(2, 2),
            sequential![BatchNorm2d::new(2)?]
        ]),
    ];
    for mut norm in norms {
        let count = norm.buffers().pop().expect("a count");
        assert_eq!(count.dtype(), DType::I64);
        no_grad(|| count.fill_(5))?;
        let old = without_count(&norm);
        norm.load_state_dict(&old)?;
        for (name, t) in &old {
            assert_eq!(&norm.state_dict()[name.as_str()], t, "{name}");
        }
        // PyTorch leaves the count as it is.
        assert_eq!(norm.buffers().pop().expect("a count").item::<i64>()?, 5);
        norm.assign_state_dict(&old)?;
        assert_eq!(norm.buffers().pop().expect("a count").item::<i64>()?, 5);
    }
    let lazy = LazyBatchNorm1d::new()?;
    lazy.load_state_dict(&without_count(&BatchNorm1d::new(2)?))?;
    assert_eq!(lazy.state_dict()["weight"], tensor![4.0, 4.0]);
    // What else is missing is missing.
    let mut old = without_count(&BatchNorm1d::new(2)?);
    old.remove("running_var");
    let error = BatchNorm1d::new(2)?.load_state_dict(&old).unwrap_err();
    assert!(
        error.to_string().contains("missing: running_var"),
        "{error}"
    );
    Ok(())
}

/// PyTorch 0.3 had no tensors without dimensions.
#[test]
fn one_element_fits_a_tensor_without_dimensions() -> Result<()> {
    for count in [
        tensor![7].to_dtype(DType::I64)?,
        tensor![7].to_dtype(DType::I32)?.reshape(())?,
        tensor![7.0],
        tensor![7.0].to_dtype(DType::F64)?.reshape(())?,
    ] {
        let mut norm = BatchNorm1d::new(2)?;
        let mut state = norm.state_dict();
        state.insert("num_batches_tracked", count);
        norm.load_state_dict(&state)?;
        let own = || -> Result<Tensor> { Ok(norm.state_dict()["num_batches_tracked"].clone()) };
        assert_eq!(own()?, tensor![7].to_dtype(DType::I64)?.reshape(())?);
        norm.assign_state_dict(&state)?;
        assert_eq!(norm.state_dict()["num_batches_tracked"].item::<i64>()?, 7);
    }
    let whole = || weight_norm(Linear::new(3, 2), "weight", None);
    let mut state = whole()?.state_dict();
    state.insert("weight_g", tensor![2.0]);
    let layer = whole()?;
    layer.load_state_dict(&state)?;
    assert_eq!(layer.state_dict()["weight_g"].item::<f32>()?, 2.0);
    // Only one element, and not the other way round.
    state.insert("weight_g", tensor![2.0, 3.0]);
    let error = layer.load_state_dict(&state).unwrap_err().to_string();
    assert!(error.contains("weight_g is [] here and [2]"), "{error}");
    let prelu = PReLU::new()?;
    let scalar = StateDict::from([("weight", tensor![0.5].reshape(())?)]);
    assert!(prelu.load_state_dict(&scalar).is_err());
    Ok(())
}

#[test]
fn weight_norm_reads_both_names() -> Result<()> {
    let x = tensor![[1.0, -2.0, 3.0]];
    let (bias, g) = (tensor![0.0, 0.0], tensor![[2.0], [3.0]]);
    let v = tensor![[3.0, 0.0, 4.0], [0.0, 1.0, 0.0]];
    let old = StateDict::from([
        ("bias", bias.clone()),
        ("weight_g", g.clone()),
        ("weight_v", v.clone()),
    ]);
    let new = StateDict::from([
        ("bias", bias),
        ("parametrizations.weight.original0", g),
        ("parametrizations.weight.original1", v),
    ]);
    for state in [&old, &new] {
        let hook = weight_norm(Linear::new(3, 2), "weight", 0)?;
        hook.load_state_dict(state)?;
        close(&hook.forward(&x)?, &[6.0, -6.0]);
        assert_eq!(names(&hook), ["bias", "weight_g", "weight_v"]);
        let mut layer = parametrizations::weight_norm(Linear::new(3, 2), "weight", 0)?;
        layer.assign_state_dict(state)?;
        close(&layer.forward(&x)?, &[6.0, -6.0]);
        assert_eq!(names(&layer), new.keys().collect::<Vec<_>>());
        close(
            &utils::remove_weight_norm(layer)?.weight,
            &[1.2, 0.0, 1.6, 0.0, 3.0, 0.0],
        );
    }
    // Below another module, whose other names stay.
    let net = sequential![
        Conv1d::builder(1, 2, 1).build()?,
        weight_norm(Conv1d::builder(2, 2, 1).build()?, "weight", 0)?
    ];
    let mut state = net.state_dict();
    for (old, new) in [("g", "0"), ("v", "1")] {
        let t = state
            .remove(&format!("1.weight_{old}"))
            .expect("its weight");
        state.insert(
            format!("1.parametrizations.weight.original{new}"),
            t.add(1.0)?,
        );
    }
    net.load_state_dict(&state)?;
    assert_eq!(
        net.state_dict()["1.weight_g"],
        state["1.parametrizations.weight.original0"]
    );
    // Half of it is not enough.
    state.remove("1.parametrizations.weight.original0");
    let error = net.load_state_dict(&state).unwrap_err().to_string();
    assert!(error.contains("missing: 1.weight_g, 1.weight_v"), "{error}");
    Ok(())
}

#[test]
fn spectral_norm_reads_both_names() -> Result<()> {
    let x = tensor![[1.0, -2.0, 3.0]];
    LocalGenerator::new(0).scope(|| {
        manual_seed(3);
        let layer = parametrizations::spectral_norm(Linear::new(3, 2), "weight")?;
        let new = [
            "bias",
            "parametrizations.weight.original",
            "parametrizations.weight.0._u",
            "parametrizations.weight.0._v",
        ];
        assert_eq!(names(&layer), new);
        let state = layer.state_dict();
        close(&state[new[2]], &[0.7220781445503235, 0.6918113827705383]);
        close(
            &state[new[3]],
            &[
                -0.7794367074966431,
                -0.34630903601646423,
                -0.5220617651939392,
            ],
        );
        let before: StateDict = state.iter().map(|(n, t)| (n, t.copy().unwrap())).collect();
        let y = layer.forward(&x)?;
        let expected = [-0.08345982432365417, -1.6932170391082764];
        close(&y, &expected);
        y.square()?.sum()?.backward()?;
        close(
            &layer.get_parameter(new[1])?.grad().expect("a gradient"),
            &[
                3.579772472381592,
                1.9924428462982178,
                2.014545202255249,
                0.2512705326080322,
                8.265830993652344,
                -7.605251312255859,
            ],
        );
        layer.eval();
        close(&layer.forward(&x)?, &expected);

        let hook = spectral_norm(Linear::new(3, 2), "weight")?;
        hook.eval();
        hook.load_state_dict(&before)?;
        assert_eq!(
            names(&hook),
            ["bias", "weight_orig", "weight_u", "weight_v"]
        );
        close(&hook.forward(&x)?, &expected);
        let back = parametrizations::spectral_norm(Linear::new(3, 2), "weight")?;
        back.eval();
        back.load_state_dict(&hook.state_dict())?;
        close(&back.forward(&x)?, &expected);
        assert_eq!(names(&back), new);
        Ok(())
    })
}

#[derive(Module)]
struct Vector {
    weight: Parameter,
}

impl Module for Vector {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.mul(&self.weight)
    }
}

/// The parametrization divides a vector by its length, and keeps no vectors.
#[test]
fn spectral_norm_of_a_vector() -> Result<()> {
    let vector = |data: Tensor| Vector {
        weight: Parameter::new(data),
    };
    let (x, start) = (tensor![1.0, 1.0], tensor![1.0, 0.0]);
    let new = parametrizations::spectral_norm(vector(tensor![3.0, -4.0]), "weight")?;
    assert_eq!(names(&new), ["parametrizations.weight.original"]);
    close(&new.forward(&x)?, &[0.6, -0.8]);
    let old = spectral_norm(vector(start.copy()?), "weight")?;
    old.load_state_dict(&new.state_dict())?;
    old.eval();
    close(&old.forward(&x)?, &[0.6, -0.8]);
    let again = parametrizations::spectral_norm(vector(start), "weight")?;
    again.load_state_dict(&old.state_dict())?;
    close(&again.forward(&x)?, &[0.6, -0.8]);
    Ok(())
}

/// Before PyTorch 1.0 there was the computed weight, and no `v`.
#[test]
fn spectral_norm_of_before_version_1() -> Result<()> {
    let old = |weight: &Tensor, sigma: f64, u: &Tensor, bias: &Tensor| -> Result<StateDict> {
        Ok(StateDict::from([
            ("bias", bias.clone()),
            ("weight_orig", weight.clone()),
            ("weight", weight.div(sigma)?),
            ("weight_u", u.clone()),
        ]))
    };
    let weight = tensor![[1.0, 2.0, -1.0], [0.5, -1.0, 3.0]];
    let state = old(&weight, 2.5, &tensor![0.6, -0.8], &tensor![0.25, -0.5])?;
    for layer in [
        spectral_norm(Linear::new(3, 2), "weight")?,
        parametrizations::spectral_norm(Linear::new(3, 2), "weight")?,
    ] {
        layer.load_state_dict(&state)?;
        let v = layer.buffers().pop().expect("v");
        // `W v` is `sigma u`. PyTorch gives it from the inverse of a singular matrix in float32, with the same weight.
        close(&v, &[1.0 / 11.0, 4.8 / 11.0, -5.9 / 11.0]);
        layer.eval();
        close(
            &layer.forward(&tensor![[1.0, -2.0, 3.0]])?,
            &[-2.1499998569488525, 4.099999904632568],
        );
    }
    let u = tensor![2.0, 1.0, -2.0].div(3.0)?;
    let weight = tensor![[1.0, 2.0], [-1.0, 0.5], [3.0, -1.0]];
    let layer = spectral_norm(Linear::new(2, 3), "weight")?;
    layer.load_state_dict(&old(&weight, 2.0, &u, &tensor![0.0, 0.0, 0.0])?)?;
    close(
        &layer.state_dict()["weight_v"],
        &[-0.19859574735164642, 0.7703109979629517],
    );
    layer.eval();
    close(&layer.forward(&tensor![[1.0, 2.0]])?, &[2.5, 0.0, 0.5]);
    // The outputs of a transposed convolution are counted by dimension 1.
    let weight = tensor![[[1.0], [2.0], [3.0]], [[-1.0], [0.5], [2.0]]];
    let layer = spectral_norm(ConvTranspose1d::builder(2, 3, 1).build()?, "weight")?;
    layer.load_state_dict(&old(&weight, 4.0, &u, &tensor![0.0, 0.0, 0.0])?)?;
    close(
        &layer.state_dict()["weight_v"],
        &[0.8639999032020569, -2.496000051498413],
    );
    // Of another shape.
    let mut wrong = state.clone();
    wrong.insert("weight_orig", tensor![[1.0]]);
    let layer = spectral_norm(Linear::new(3, 2), "weight")?;
    let error = layer.load_state_dict(&wrong).unwrap_err().to_string();
    assert!(
        error.contains("weight_orig is [2, 3] here and [1, 1]"),
        "{error}"
    );
    Ok(())
}

fn hint(module: &dyn Module, state: &StateDict) -> Option<String> {
    let error = module.load_state_dict(state).expect_err("must fail");
    error.info().expect("what it is").hint.clone()
}

#[test]
fn hints_leave_no_weights_as_they_were_drawn() -> Result<()> {
    let net: Sequential = sequential![Linear::new(2, 3), Linear::new(3, 1)];
    let own = net.state_dict();
    let renamed = |f: &dyn Fn(&str) -> String| -> StateDict {
        own.iter().map(|(n, t)| (f(n), t.clone())).collect()
    };
    // One more tensor: all others fit.
    let mut more = own.clone();
    more.insert("2.weight", tensor![1.0]);
    let text = hint(&net, &more).expect("a hint");
    assert!(
        text.contains("strict(false)") && text.contains("leaves out"),
        "{text}"
    );
    let keys = net.load_state_dict_with(&more, LoadStateDictOptions::new().strict(false))?;
    assert_eq!(keys.unexpected_keys, ["2.weight"]);
    // One tensor less, another name, another shape besides: no.
    let mut less = own.clone();
    less.remove("1.bias");
    assert_eq!(hint(&net, &less), None);
    less.insert("1.offset", tensor![1.0]);
    assert_eq!(hint(&net, &less), None);
    more.insert("1.bias", tensor![1.0, 2.0]);
    assert_eq!(hint(&net, &more), None);
    assert_eq!(hint(&net, &StateDict::new()), None);
    // Where there are no options.
    more.insert("1.bias", tensor![1.0]);
    let mut owned = sequential![Linear::new(2, 3), Linear::new(3, 1)];
    let error = owned.assign_state_dict(&more).unwrap_err().to_string();
    assert!(
        error.contains("unexpected: 2.weight") && !error.contains("strict"),
        "{error}"
    );
    // Prefixes.
    for (prefix, by) in [
        ("module.", "DistributedDataParallel"),
        ("_orig_mod.", "torch.compile"),
        ("encoder.net.", "begin with"),
    ] {
        let mut state = renamed(&|n| format!("{prefix}{n}"));
        state.insert("n_averaged", tensor![1]);
        let text = hint(&net, &state).expect("a hint");
        let call = format!("consume_prefix_in_state_dict_if_present(&mut state, \"{prefix}\")");
        assert!(text.contains(by) && text.contains(&call), "{text}");
        assert!(!text.contains("strict"), "{text}");
        state.remove("n_averaged");
        utils::consume_prefix_in_state_dict_if_present(&mut state, prefix);
        net.load_state_dict(&state)?;
    }
    let below = renamed(&|n| n.strip_prefix("0.").unwrap_or(n).to_string());
    let first: StateDict = below
        .into_iter()
        .filter(|(n, _)| !n.contains('.'))
        .collect();
    let text = hint(&sequential![Linear::new(2, 3)], &first).expect("a hint");
    assert!(text.contains("begin with `0.`"), "{text}");
    Ok(())
}
