//! torch.nn.utils against PyTorch's values.

use torsh_core::random::{LocalGenerator, manual_seed};
use torsh_nn::utils::{
    FuseBnWeightsOptions, SpectralNormOptions, fuse_conv_bn_eval, fuse_conv_transpose_bn_weights,
    fuse_linear_bn_eval, parameters_to_vector, remove_spectral_norm, remove_weight_norm,
    spectral_norm, spectral_norm_with, vector_to_parameters, weight_norm,
};
use torsh_nn::{
    AdaptiveLogSoftmaxWithLoss, BatchNorm1d, BatchNorm2d, Conv2d, Linear, Module, ModuleExt,
    Sequential,
};
use torsh_tensor::{DType, Device, Result, Tensor, no_grad, tensor};

#[track_caller]
fn close(t: &Tensor, expected: &[f64]) {
    let ours = t.to_vec::<f64>().unwrap();
    assert_eq!(ours.len(), expected.len());
    for (a, b) in ours.iter().zip(expected) {
        assert!((a - b).abs() <= 2e-6 * b.abs().max(1.0), "{a} is not {b}");
    }
}

fn input() -> Tensor {
    tensor![[1.0, -2.0, 3.0]]
}

#[test]
fn weight_norm_is_pytorchs() -> Result<()> {
    LocalGenerator::new(0).scope(|| {
        manual_seed(3);
        let layer = weight_norm(Linear::new(3, 2), "weight", 0)?;
        let names = |m: &dyn Module| m.state_dict().keys().map(String::from).collect::<Vec<_>>();
        assert_eq!(names(&layer), ["bias", "weight_g", "weight_v"]);
        let g = layer.get_parameter("weight_g")?;
        assert_eq!(g.dims(), [2, 1]);
        no_grad(|| g.mul_(2.0))?;
        let y = layer.forward(&input())?;
        close(&y, &[-0.4928604066371918, -3.7275476455688477]);
        y.square()?.sum()?.backward()?;
        close(
            &g.grad().unwrap(),
            &[0.5149487853050232, 20.015064239501953],
        );
        let v = layer.get_parameter("weight_v")?;
        close(
            &v.grad().unwrap(),
            &[
                -1.2079626321792603,
                4.550342082977295,
                -5.584502696990967,
                14.375968933105469,
                31.57773208618164,
                -17.4974308013916,
            ],
        );
        assert_eq!(
            layer.repr(),
            "Linear(in_features=3, out_features=2, bias=True)"
        );

        manual_seed(3);
        let whole = weight_norm(Linear::new(3, 2), "weight", None)?;
        close(
            whole.get_parameter("weight_g")?.tensor(),
            &[1.074100375175476],
        );
        manual_seed(3);
        let conv = weight_norm(Conv2d::new(2, 2, 1, 1, 0)?, "weight", 1)?;
        assert_eq!(conv.get_parameter("weight_g")?.dims(), [1, 2, 1, 1]);
        close(
            conv.get_parameter("weight_g")?.tensor(),
            &[0.7636989951133728, 0.8710307478904724],
        );
        Ok(())
    })
}

#[test]
fn two_calls_ahead_of_one_backward_keep_their_weights() -> Result<()> {
    for layer in [
        weight_norm(Linear::new(3, 2), "weight", 0)?,
        spectral_norm(Linear::new(3, 2), "weight")?,
    ] {
        let (a, b) = (layer.forward(&input())?, layer.forward(&input().neg()?)?);
        a.sub(&b)?.sum()?.backward()?;
        for p in layer.parameters() {
            assert!(p.grad().is_some());
        }
    }
    Ok(())
}

#[test]
fn a_reparametrized_layer_is_moved_loaded_and_restored() -> Result<()> {
    let plain = Linear::new(3, 2);
    let before = plain.forward(&input())?;
    let mut layer = weight_norm(plain, "weight", 0)?;
    let saved = layer.state_dict();
    layer.to_dtype(DType::F64)?;
    assert_eq!(layer.named_parameters().len(), 3);
    assert!(layer.parameters().iter().all(|p| p.dtype() == DType::F64));
    close(
        &layer.forward(&input().to_dtype(DType::F64)?)?,
        &before.to_vec::<f64>()?,
    );
    let other = weight_norm(Linear::new(3, 2), "weight", 0)?;
    other.load_state_dict(&saved)?;
    close(&other.forward(&input())?, &before.to_vec::<f64>()?);
    other.eval();
    let other = remove_weight_norm(other)?;
    assert!(!other.is_training() && other.weight.requires_grad());
    assert_eq!(
        other.state_dict().keys().collect::<Vec<_>>(),
        ["weight", "bias"]
    );
    close(&other.forward(&input())?, &before.to_vec::<f64>()?);

    assert!(weight_norm(Linear::new(3, 2), "weights", 0).is_err());
    assert!(weight_norm(Linear::new(3, 2), "weight", 2).is_err());
    assert!(weight_norm(Sequential::new().add(Linear::new(3, 2)), "0.weight", 0).is_err());
    assert!(remove_spectral_norm(weight_norm(Linear::new(3, 2), "weight", 0)?).is_err());
    Ok(())
}

#[test]
fn spectral_norm_is_pytorchs() -> Result<()> {
    LocalGenerator::new(0).scope(|| {
        manual_seed(3);
        let layer = spectral_norm(Linear::new(3, 2), "weight")?;
        let state = layer.state_dict();
        assert_eq!(
            state.keys().collect::<Vec<_>>(),
            ["bias", "weight_orig", "weight_u", "weight_v"]
        );
        assert_eq!(layer.named_parameters().len(), 2);
        close(
            &state["weight_u"],
            &[0.03373349457979202, -0.9994308948516846],
        );
        close(
            &state["weight_v"],
            &[0.18878357112407684, 0.5655847191810608, -0.8027917742729187],
        );
        let y = layer.forward(&input())?;
        close(&y, &[-0.10831734538078308, -1.816735029220581]);
        y.square()?.sum()?.backward()?;
        close(
            &state["weight_u"],
            &[-0.6241446733474731, -0.7813087701797485],
        );
        close(
            &layer.get_parameter("weight_orig")?.grad().unwrap(),
            &[
                3.4297475814819336,
                0.5742928981781006,
                2.786663055419922,
                0.7739908695220947,
                7.757687091827393,
                -7.0698089599609375,
            ],
        );
        layer.eval();
        close(
            &layer.forward(&input())?,
            &[-0.10831734538078308, -1.816735029220581],
        );
        let layer = remove_spectral_norm(layer)?;
        close(
            &layer.weight,
            &[
                -0.5991743803024292,
                -0.4767305850982666,
                -0.2588425874710083,
                -0.5717484354972839,
                -0.03430844470858574,
                -0.5316677093505859,
            ],
        );
        let none = SpectralNormOptions::default().n_power_iterations(0);
        assert!(spectral_norm_with(layer, "weight", none).is_err());
        Ok(())
    })
}

#[test]
fn batch_norms_fold_into_the_layer_ahead() -> Result<()> {
    let norm = BatchNorm2d::new(4)?;
    no_grad(|| {
        norm.weight
            .as_ref()
            .unwrap()
            .copy_(&tensor![0.5, 1.0, 2.0, -1.0])?;
        norm.bias
            .as_ref()
            .unwrap()
            .copy_(&tensor![1.0, 0.0, -1.0, 3.0])?;
        norm.running_mean
            .as_ref()
            .unwrap()
            .copy_(&tensor![0.1, -0.2, 0.3, 0.4])?;
        norm.running_var
            .as_ref()
            .unwrap()
            .copy_(&tensor![1.0, 4.0, 0.25, 9.0])
    })?;
    let x = torsh_tensor::randn(&[2, 2, 5, 5]);
    for bias in [true, false] {
        let conv = Conv2d::builder(2, 4, 3).bias(bias).build()?;
        conv.eval();
        norm.train();
        let refused = fuse_conv_bn_eval(Conv2d::builder(2, 4, 3).build()?, &norm);
        assert!(
            refused
                .err()
                .unwrap()
                .to_string()
                .contains("evaluation mode")
        );
        norm.eval();
        let both = norm.forward(&conv.forward(&x)?)?;
        let fused = fuse_conv_bn_eval(conv, &norm)?;
        assert!(fused.weight.requires_grad());
        assert_eq!(fused.bias.as_ref().unwrap().requires_grad(), bias);
        close(&fused.forward(&x)?, &both.to_vec::<f64>()?);
    }
    let (linear, one) = (Linear::new(3, 2), BatchNorm1d::new(2)?);
    linear.eval();
    one.eval();
    let both = one.forward(&linear.forward(&input())?)?;
    close(
        &fuse_linear_bn_eval(linear, &one)?.forward(&input())?,
        &both.to_vec::<f64>()?,
    );
    let linear = Linear::new(3, 5);
    linear.eval();
    assert!(fuse_linear_bn_eval(linear, &one).is_err());
    Ok(())
}

#[test]
fn parameters_are_one_vector() -> Result<()> {
    let layer = Linear::new(2, 2);
    let weights = tensor![1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    vector_to_parameters(&weights, layer.parameters())?;
    assert_eq!(layer.weight.to_vec2::<f32>()?, [[1.0, 2.0], [3.0, 4.0]]);
    assert_eq!(parameters_to_vector(layer.parameters())?, weights);
    assert!(vector_to_parameters(&tensor![1.0], layer.parameters()).is_err());
    parameters_to_vector(layer.parameters())?
        .mul(&weights)?
        .sum()?
        .backward()?;
    assert_eq!(
        layer.bias.unwrap().grad().unwrap().to_vec::<f32>()?,
        [5.0, 6.0]
    );
    Ok(())
}

#[test]
fn adaptive_log_softmax_is_pytorchs() -> Result<()> {
    LocalGenerator::new(0).scope(|| {
        manual_seed(3);
        let layer = AdaptiveLogSoftmaxWithLoss::builder(8, 10, &[3, 6])
            .div_value(2.0)
            .head_bias(true)
            .build()?;
        let state = layer.state_dict();
        let shapes: Vec<(&str, &[usize])> = state.iter().map(|(n, t)| (n, t.dims())).collect();
        let expected: [(&str, &[usize]); 6] = [
            ("head.weight", &[5, 8]),
            ("head.bias", &[5]),
            ("tail.0.0.weight", &[4, 8]),
            ("tail.0.1.weight", &[3, 4]),
            ("tail.1.0.weight", &[2, 8]),
            ("tail.1.1.weight", &[4, 2]),
        ];
        assert_eq!(shapes, expected);
        let x = Tensor::linspace(-1.0, 1.0, 32, DType::F32, Device::Cpu)?.reshape([4, 8])?;
        let x = x.detach().requires_grad_(true);
        let y = layer.forward_with(&x, &tensor![1, 4, 9, 2])?;
        close(
            &y.output,
            &[
                -2.480525255203247,
                -2.8539175987243652,
                -3.022456169128418,
                -0.9532122611999512,
            ],
        );
        close(&y.loss, &[2.3275279998779297]);
        y.loss.backward()?;
        close(
            &x.grad().unwrap().sum_dim(1, false)?,
            &[
                -0.25106081366539,
                0.012152984738349915,
                0.2902390658855438,
                -0.20044755935668945,
            ],
        );
        close(
            &layer.head.weight.grad().unwrap().sum_dim(1, false)?,
            &[
                -0.17512378096580505,
                1.790881872177124,
                -0.9794936180114746,
                0.4236708879470825,
                -1.059935212135315,
            ],
        );
        let tail = layer.get_parameter("tail.1.0.weight")?.grad().unwrap();
        close(
            &tail.sum_dim(1, false)?,
            &[-0.2763975262641907, 0.24690228700637817],
        );
        close(
            &layer.log_prob(&x)?.select(0, 2)?,
            &[
                -1.4887056350708008,
                -1.678983211517334,
                -1.4486403465270996,
                -3.046799421310425,
                -2.9757447242736816,
                -2.872438430786133,
                -3.010301351547241,
                -2.997577428817749,
                -2.99702525138855,
                -3.022456169128418,
            ],
        );
        assert_eq!(layer.predict(&x.mul(30.0)?)?, tensor![9, 9, 2, 2]);
        let one = layer.forward_with(&x.select(0, 1)?, &tensor![4].squeeze(0)?)?;
        assert_eq!(one.output.ndim(), 0);
        close(&one.output, &[-2.8539175987243652]);

        assert!(
            layer
                .forward_with(&x, &tensor![1, 4, 10, 2])
                .unwrap_err()
                .to_string()
                .contains("[0, 9]")
        );
        assert!(layer.forward_with(&x, &tensor![1, 4]).is_err());
        assert!(layer.forward_with(&x, &tensor![[1]]).is_err());
        assert!(Module::forward(&layer, &x).is_err());
        let unfit: [&[usize]; 5] = [&[], &[0, 2], &[3, 3], &[4, 2], &[10]];
        for cutoffs in unfit {
            assert!(AdaptiveLogSoftmaxWithLoss::new(8, 10, cutoffs).is_err());
        }
        Ok(())
    })
}

#[test]
fn folding_names_its_own_function() {
    let (mean, var) = (tensor![0.0, 0.0, 0.0], tensor![1.0, 1.0, 1.0]);
    let e = fuse_conv_transpose_bn_weights(
        &tensor![[[3.0], [4.0]]],
        None,
        &mean,
        &var,
        FuseBnWeightsOptions::new(),
    );
    let e = e.unwrap_err().to_string();
    assert!(
        e.starts_with("fuse_conv_transpose_bn_weights: the weight is "),
        "{e}"
    );
}
