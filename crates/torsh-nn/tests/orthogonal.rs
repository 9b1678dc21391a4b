//! Weights that stay orthogonal, with PyTorch's values.

use torsh_core::random::LocalGenerator;
use torsh_nn::utils::parametrizations::OrthogonalMap::{self, Cayley, Householder, MatrixExp};
use torsh_nn::utils::parametrizations::{
    OrthogonalOptions, orthogonal, orthogonal_with, remove_parametrizations,
};
use torsh_nn::utils::{Reparametrized, remove_spectral_norm, remove_weight_norm};
use torsh_nn::{Conv1d, Linear, Module, ModuleExt};
use torsh_tensor::{DType, Result, Tensor, no_grad, tensor};

/// Shape, map, `use_trivialization`; the weight, the weight after a change, the gradient of a weighted sum.
type Case = (
    [usize; 2],
    OrthogonalMap,
    bool,
    &'static [f64],
    &'static [f64],
    &'static [f64],
);

#[rustfmt::skip]
// PyTorch's numbers, one of which is near a constant.
#[allow(clippy::approx_constant)]
fn cases() -> Vec<Case> {
    vec![
        ([3, 3], MatrixExp, true, &[-0.83205, -0.269069, 0.485071, 0.5547, -0.403604, 0.727607, 0.0, 0.874475, 0.485071], &[-0.607597, 0.063321, 0.791718, 0.781749, -0.128453, 0.61022, 0.140338, 0.989692, 0.028547], &[0.0, 0.0, 0.0, 1.643175, 0.0, 0.0, -1.30438, -4.320793, 0.0]),
        ([3, 3], MatrixExp, false, &[0.621568, -0.539842, 0.567648, 0.539841, -0.229905, -0.809762, 0.567648, 0.809763, 0.148528], &[0.604761, -0.586848, 0.538399, 0.14644, -0.582568, -0.799482, 0.782828, 0.562338, -0.266376], &[0.0, 0.0, 0.0, 2.748938, 0.0, 0.0, -6.631126, -10.132248, 0.0]),
        ([3, 3], Cayley, true, &[-0.83205, -0.269069, 0.485071, 0.5547, -0.403604, 0.727607, 0.0, 0.874475, 0.485071], &[-0.614862, 0.053282, 0.786833, 0.776337, -0.134619, 0.615775, 0.138732, 0.989464, 0.041407], &[0.0, 0.0, 0.0, 1.644861, 0.0, 0.0, -1.02116, -3.894657, 0.0]),
        ([3, 3], Cayley, false, &[0.724138, -0.551724, 0.413793, 0.551724, 0.103448, -0.827586, 0.413793, 0.827586, 0.37931], &[0.728607, -0.61645, 0.298532, 0.31404, -0.08668, -0.945444, 0.608696, 0.782609, 0.130435], &[0.0, 0.0, 0.0, 2.941269, 0.0, 0.0, -3.524331, -5.349051, 0.0]),
        ([3, 3], Householder, true, &[-0.83205, -0.269069, 0.485071, 0.5547, -0.403604, 0.727607, 0.0, 0.874475, 0.485071], &[-0.369245, 0.0, 0.0, 0.848291, 0.0, 0.0, 0.379553, 0.0, 0.0], &[0.0, 0.0, 0.0, 6.598615, 0.0, 0.0, 5.018744, -1e-06, 0.0]),
        ([3, 3], Householder, false, &[-0.83205, -0.269069, 0.485071, 0.5547, -0.403604, 0.727607, 0.0, 0.874475, 0.485071], &[-0.0, -0.570748, 0.0, 0.0, -0.817903, -0.0, -0.0, 0.072673, -0.0], &[0.0, 0.0, 0.0, 1.079767, 0.0, 0.0, -4.294031, -13.192719, 0.0]),
        ([4, 2], MatrixExp, true, &[-0.727607, -0.307165, 0.485071, -0.375424, 0.0, 0.870302, -0.485071, 0.085324], &[-0.842831, -0.530576, 0.366528, -0.581117, -0.273344, 0.531929, -0.28386, 0.312798], &[0.0, 0.0, 5.616233, 0.0, -5.28413, -7.687636, 3.494629, 1.026725]),
        ([4, 2], MatrixExp, false, &[0.247717, -0.21877, 0.554586, -0.256008, 0.603137, 0.778841, -0.517006, 0.529156], &[0.521764, -0.185064, 0.406908, -0.578084, 0.721017, 0.606644, -0.205724, 0.513374], &[0.0, 0.0, 1.315306, 0.0, -1.865554, -6.537017, 1.096716, 0.952328]),
        ([4, 2], Cayley, true, &[-0.727607, -0.307165, 0.485071, -0.375424, 0.0, 0.870302, -0.485071, 0.085324], &[-0.842605, -0.527745, 0.370057, -0.575658, -0.262992, 0.5452, -0.289672, 0.304727], &[0.0, 0.0, 5.446151, 0.0, -5.122072, -7.394266, 3.430176, 1.137583]),
        ([4, 2], Cayley, false, &[0.434483, -0.331034, 0.551724, 0.103448, 0.413793, 0.827586, -0.57931, 0.441379], &[0.638535, -0.317833, 0.463892, -0.085588, 0.528795, 0.776273, -0.312175, 0.537641], &[0.0, 0.0, 1.609085, 0.0, -0.588974, -2.731558, 2.28358, 2.63571]),
        ([4, 2], Householder, true, &[-0.727607, -0.307165, 0.485071, -0.375424, 0.0, 0.870302, -0.485071, 0.085324], &[-0.920744, 0.0, 0.1244, 0.0, -0.368885, 0.0, -0.026051, 0.0], &[0.0, 0.0, 5.361453, 0.0, -9.09342, -1e-06, 7.271089, -1e-06]),
        ([4, 2], Householder, false, &[-0.727607, -0.307166, 0.485071, -0.375425, 0.0, 0.870302, -0.485071, 0.085324], &[-0.0, 0.065137, 0.0, -0.647629, -0.0, 0.571447, -0.0, -0.499783], &[0.0, 0.0, 4.575422, 0.0, -3.539092, -10.837206, 3.836069, -0.250616]),
        ([2, 4], MatrixExp, true, &[-0.688247, 0.0, 0.688247, -0.229416, 0.471404, -0.471405, 0.235702, -0.707107], &[-0.741548, 0.131826, 0.636315, -0.166827, 0.013714, -0.727859, -0.012941, -0.685467], &[0.0, -2.887234, 0.773235, -3.108407, 0.0, 0.0, -0.253356, -6.949219]),
        ([2, 4], MatrixExp, false, &[0.062078, -0.478225, 0.875384, -0.033913, -0.478225, 0.062078, 0.033913, -0.875384], &[0.143634, -0.657189, 0.739874, -0.007563, -0.528389, 0.310519, 0.371264, -0.697528], &[0.0, -3.386497, -1.1241, 2.595957, 0.0, 0.0, -0.826335, 7.797802]),
        ([2, 4], Cayley, true, &[-0.688247, 0.0, 0.688247, -0.229416, 0.471404, -0.471405, 0.235702, -0.707107], &[-0.741282, 0.12876, 0.636499, -0.169678, 0.027173, -0.723962, -0.005649, -0.689281], &[0.0, -2.847476, 0.798022, -3.043597, 0.0, 0.0, -0.164338, -6.670905]),
        ([2, 4], Cayley, false, &[0.3, -0.3, 0.9, -0.1, -0.3, 0.3, 0.1, -0.9], &[0.374242, -0.473022, 0.795291, -0.060868, -0.33147, 0.487484, 0.391865, -0.706349], &[0.0, -2.909386, -0.220551, 2.043118, 0.0, 0.0, 1.130268, 6.398476]),
        ([2, 4], Householder, true, &[-0.688247, 0.0, 0.688247, -0.229416, 0.471404, -0.471405, 0.235702, -0.707107], &[-0.821753, 0.211162, 0.51923, -0.102624, 0.0, 0.0, 0.0, 0.0], &[0.0, -3.653178, 0.94408, -5.953594, 0.0, 0.0, -0.0, 0.0]),
        ([2, 4], Householder, false, &[-0.688247, 0.0, 0.688247, -0.229416, 0.471404, -0.471405, 0.235702, -0.707107], &[-0.0, 0.0, 0.0, -0.0, 0.243309, -0.060887, -0.172002, -0.952633], &[0.0, 1.390112, 1.950173, 4.418801, 0.0, 0.0, -6.727213, 5.804697]),
    ]
}

fn ramp(n: usize, shape: &[usize]) -> Result<Tensor> {
    let values: Vec<f32> = (0..n).map(|i| i as f32).collect();
    Tensor::from_vec(values, shape)
}

/// Numbers from -1.5 to 1.5, as the cases have them.
fn layer(shape: [usize; 2]) -> Result<Linear> {
    let layer = Linear::builder(shape[1], shape[0]).bias(false).build()?;
    let numbers = (0..shape[0]).flat_map(|i| (0..shape[1]).map(move |j| (i * 5 + j * 3) % 7));
    let values: Vec<f32> = numbers.map(|v| (v as f32 - 3.0) / 2.0).collect();
    no_grad(|| layer.weight.copy_(&Tensor::from_vec(values, &shape[..])?))?;
    Ok(layer)
}

#[track_caller]
fn close(have: &Tensor, want: &[f64], tolerance: f64, what: &str) -> Result<()> {
    let have = have
        .detach()
        .to_dtype(DType::F64)?
        .flatten(0)?
        .to_vec::<f64>()?;
    assert_eq!(have.len(), want.len(), "{what}");
    for (a, b) in have.iter().zip(want) {
        assert!(
            (a - b).abs() < tolerance,
            "{what}: {have:?} is not {want:?}"
        );
    }
    Ok(())
}

fn is_orthogonal(w: &Tensor) -> Result<bool> {
    let w = match w.dims()[0] < w.dims()[1] {
        true => w.t()?,
        false => w.clone(),
    };
    let off = w.t()?.matmul(&w)?.sub(&torsh_tensor::eye(w.dims()[1]))?;
    Ok(off.abs()?.max()?.item::<f32>()? < 1e-5)
}

#[test]
fn orthogonal_weights() -> Result<()> {
    for (shape, map, base, first, then, gradient) in cases() {
        let what = format!("{shape:?} {map:?} {base}");
        let layer = layer(shape)?;
        let _own = LocalGenerator::new(0).enter();
        let options = OrthogonalOptions::new()
            .orthogonal_map(map)
            .use_trivialization(base);
        let layer = orthogonal_with(layer, "weight", options)?;
        close(&layer.weight()?, first, 1e-5, &what)?;
        let original = layer.get_parameter("parametrizations.weight.original")?;
        let n = original.numel();
        let change = ramp(n, original.dims())?.mul(0.1)?.sub(0.25)?;
        no_grad(|| original.add_(&change))?;
        let weight = layer.weight()?;
        close(&weight, then, 1e-5, &what)?;
        weight.mul(&ramp(n, weight.dims())?)?.sum()?.backward()?;
        let have = original.grad().expect("a gradient");
        close(&have, gradient, 2e-4, &what)?;
        let names: Vec<String> = layer.state_dict().keys().map(str::to_string).collect();
        let mut expected = vec!["parametrizations.weight.original"];
        expected.extend(base.then_some("parametrizations.weight.0.base"));
        assert_eq!(names, expected);
    }
    Ok(())
}

#[test]
fn orthogonal_layers_by_default() -> Result<()> {
    let square = orthogonal(layer([3, 3])?, "weight")?;
    let tall = orthogonal(layer([4, 2])?, "weight")?;
    assert!(is_orthogonal(&square.weight()?)? && is_orthogonal(&tall.weight()?)?);
    // A state dict is that of the same map.
    let other = orthogonal(layer([3, 3])?, "weight")?;
    no_grad(|| other.parameters()[0].mul_(0.5))?;
    other.load_state_dict(&square.state_dict())?;
    assert_eq!(other.weight()?, square.weight()?);
    // An orthogonal weight stays as it is.
    let weight = square.weight()?.detach();
    let plain = remove_parametrizations(square)?;
    assert_eq!(plain.weight.detach(), weight);
    assert!(plain.weight.requires_grad());
    let again = orthogonal(plain, "weight")?;
    assert!(again.weight()?.allclose(&weight)?);
    let x = ramp(3, &[1, 3])?;
    assert!(again.forward(&x)?.allclose(&x.matmul(&weight.t()?)?)?);
    // A batch of matrices, those of a convolution's outputs.
    let conv = orthogonal(Conv1d::builder(2, 3, 2).build()?, "weight")?;
    let weight = conv.weight()?;
    for i in 0..3 {
        assert!(is_orthogonal(&weight.select(0, i)?)?);
    }
    Ok(())
}

#[test]
fn what_cannot_be_orthogonal_is_an_error() -> Result<()> {
    let refused = |r: Result<Reparametrized<Linear>>, text: &str| {
        let error = r.err().expect("refused").to_string();
        assert!(error.contains(text), "{error}");
    };
    refused(orthogonal(Linear::new(2, 2), "bias"), "a matrix or a batch");
    refused(
        orthogonal(Linear::new(2, 2), "scale"),
        "no parameter `scale`",
    );
    let mut complex = Linear::new(2, 2);
    complex.to_dtype(DType::C64)?;
    refused(orthogonal(complex, "weight"), "real");
    let layer = orthogonal(Linear::new(2, 2), "weight")?;
    assert!(remove_weight_norm(layer).is_err());
    let layer = orthogonal(Linear::new(2, 2), "weight")?;
    assert!(remove_spectral_norm(layer).is_err());
    Ok(())
}

#[test]
fn maps_may_be_words() -> Result<()> {
    let computed = |options: OrthogonalOptions| -> Result<Tensor> {
        let layer = Linear::builder(2, 2).bias(false).build()?;
        no_grad(|| layer.weight.copy_(&tensor![[1.0, 2.0], [3.0, 4.0]]))?;
        orthogonal_with(layer, "weight", options.use_trivialization(false))?.weight()
    };
    for (word, map) in [
        ("matrix_exp", MatrixExp),
        ("cayley", Cayley),
        ("householder", Householder),
    ] {
        let named = computed(OrthogonalOptions::new().orthogonal_map(word))?;
        assert_eq!(
            named,
            computed(OrthogonalOptions::new().orthogonal_map(map))?
        );
    }
    assert_eq!(
        OrthogonalOptions::new().orthogonal_map(None).orthogonal_map,
        None
    );
    let e = computed(OrthogonalOptions::new().orthogonal_map("caley"))
        .unwrap_err()
        .to_string();
    assert!(
        e.contains("caley is not a valid value for orthogonal_map"),
        "{e}"
    );
    assert!(
        e.contains("\"matrix_exp\", \"cayley\" or \"householder\""),
        "{e}"
    );
    Ok(())
}
