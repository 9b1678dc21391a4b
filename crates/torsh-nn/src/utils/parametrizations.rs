//! [`weight_norm`] and [`spectral_norm`] as `torch.nn.utils.parametrizations` has them: with the same results as those of
//! [`utils`](crate::utils), and a state dict whose names begin with `parametrizations.`. A layer of either kind loads the
//! state dict of the other.

use torsh_tensor::Result;

use crate::module::Module;
use crate::utils::SpectralNormOptions;
pub use crate::utils::orthogonal::{IntoOrthogonalMap, OrthogonalMap, OrthogonalOptions};
use crate::utils::reparametrize::{
    Form, Reparametrized, orthogonal_as, spectral_norm_as, weight_norm_as,
};

/// A layer whose parameter `name` is a direction scaled to a length, for each index of `dim` (0 in PyTorch unless given), or
/// as a whole where `dim` is `None` (`torch.nn.utils.parametrizations.weight_norm`). The lengths are
/// `parametrizations.NAME.original0` of the state dict, the directions `original1`.
///
/// [`remove_weight_norm`](crate::utils::remove_weight_norm) gives the layer back.
///
/// ```
/// use torsh_nn::utils::parametrizations::weight_norm;
/// use torsh_nn::{Linear, ModuleExt};
/// use torsh_tensor::{no_grad, tensor};
/// let layer = Linear::builder(2, 1).bias(false).build()?;
/// no_grad(|| layer.weight.copy_(&tensor![[3.0, 4.0]]))?;
/// let state = weight_norm(layer, "weight", 0)?.state_dict();
/// assert_eq!(state["parametrizations.weight.original0"], tensor![[5.0]]);
/// assert_eq!(state["parametrizations.weight.original1"], tensor![[3.0, 4.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// No parameter of this name, a layer with layers below it, a dimension out of range.
#[torsh_tensor::names_caller]
pub fn weight_norm<M: Module>(
    layer: M,
    name: &str,
    dim: impl Into<Option<i64>>,
) -> Result<Reparametrized<M>> {
    weight_norm_as(Form::Parametrization, layer, name, dim.into())
}

/// A layer whose parameter `name` is the original over its largest singular value, which two vectors estimate
/// (`torch.nn.utils.parametrizations.spectral_norm`): `parametrizations.NAME.original`, `parametrizations.NAME.0._u` and
/// `0._v` of the state dict. The vectors begin after 15 power iterations. A parameter with one dimension is divided by its
/// length and has no vectors.
///
/// [`remove_spectral_norm`](crate::utils::remove_spectral_norm) gives the layer back.
///
/// ```
/// use torsh_nn::utils::parametrizations::spectral_norm;
/// use torsh_nn::{Linear, ModuleExt};
/// use torsh_tensor::{no_grad, tensor};
/// let layer = Linear::builder(2, 2).bias(false).build()?;
/// no_grad(|| layer.weight.copy_(&tensor![[8.0, 0.0], [0.0, 1.0]]))?;
/// let layer = spectral_norm(layer, "weight")?;
/// assert!(layer.weight()?.sub(&tensor![[1.0, 0.0], [0.0, 0.125]])?.abs()?.max()?.item::<f32>()? < 1e-6);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// No parameter of this name, a layer with layers below it.
#[track_caller]
pub fn spectral_norm<M: Module>(layer: M, name: &str) -> Result<Reparametrized<M>> {
    spectral_norm_with(layer, name, SpectralNormOptions::new())
}

/// [`spectral_norm`] with options. An error for no power iterations or a dimension out of range.
#[torsh_tensor::names_caller]
pub fn spectral_norm_with<M: Module>(
    layer: M,
    name: &str,
    options: SpectralNormOptions,
) -> Result<Reparametrized<M>> {
    spectral_norm_as(Form::Parametrization, layer, name, options)
}

/// A layer whose parameter `name` is a matrix, or a batch of matrices in its last two dimensions, with orthonormal columns,
/// or rows where it has fewer of these (`torch.nn.utils.parametrizations.orthogonal`; Lezcano Casado, 2019). What is trained is
/// `parametrizations.NAME.original` of the state dict, the matrix that it starts as is the buffer
/// `parametrizations.NAME.0.base`.
///
/// ```
/// use torsh_nn::utils::parametrizations::orthogonal;
/// use torsh_nn::{Linear, ModuleExt};
/// use torsh_tensor::{no_grad, tensor};
/// let layer = Linear::builder(2, 2).bias(false).build()?;
/// no_grad(|| layer.weight.copy_(&tensor![[3.0, 0.0], [4.0, 1.0]]))?;
/// let layer = orthogonal(layer, "weight")?;
/// assert!(layer.weight()?.allclose(&tensor![[0.6, -0.8], [0.8, 0.6]])?);
/// // It stays orthogonal whatever the training does.
/// no_grad(|| layer.parameters()[0].add_(&tensor![[0.0, 0.0], [0.5, 0.0]]))?;
/// let w = layer.weight()?;
/// assert!(w.t()?.matmul(&w)?.sub(&tensor![[1.0, 0.0], [0.0, 1.0]])?.abs()?.max()?.item::<f32>()? < 1e-6);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// No parameter of this name, one with fewer than two dimensions or of complex numbers, a layer with layers below it.
#[track_caller]
pub fn orthogonal<M: Module>(layer: M, name: &str) -> Result<Reparametrized<M>> {
    orthogonal_with(layer, name, OrthogonalOptions::new())
}

/// [`orthogonal`] with PyTorch's keyword arguments.
///
/// ```
/// use torsh_nn::Linear;
/// use torsh_nn::utils::parametrizations::{OrthogonalMap, OrthogonalOptions, orthogonal_with};
/// use torsh_tensor::{no_grad, tensor};
/// let layer = Linear::builder(2, 2).bias(false).build()?;
/// no_grad(|| layer.weight.copy_(&tensor![[0.0, 0.0], [1.0, 0.0]]))?;
/// let options = OrthogonalOptions::new().orthogonal_map(OrthogonalMap::Cayley).use_trivialization(false);
/// let layer = orthogonal_with(layer, "weight", options)?;
/// assert!(layer.weight()?.allclose(&tensor![[0.6, -0.8], [0.8, 0.6]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`orthogonal`].
#[torsh_tensor::names_caller]
pub fn orthogonal_with<M: Module>(
    layer: M,
    name: &str,
    options: OrthogonalOptions,
) -> Result<Reparametrized<M>> {
    orthogonal_as(layer, name, options)
}

/// The layer of any parametrization with a parameter of its own again, which is as the parametrization computed it last
/// (`torch.nn.utils.parametrize.remove_parametrizations`).
///
/// ```
/// use torsh_nn::Linear;
/// use torsh_nn::utils::parametrizations::{orthogonal, remove_parametrizations};
/// use torsh_tensor::{no_grad, tensor};
/// let layer = Linear::builder(1, 2).bias(false).build()?;
/// no_grad(|| layer.weight.copy_(&tensor![[3.0], [4.0]]))?;
/// let layer = remove_parametrizations(orthogonal(layer, "weight")?)?;
/// assert!(layer.weight.allclose(&tensor![[0.6], [0.8]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Those of computing the parameter.
#[torsh_tensor::names_caller]
pub fn remove_parametrizations<M: Module>(layer: Reparametrized<M>) -> Result<M> {
    layer.remove()
}
