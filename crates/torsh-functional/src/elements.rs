//! Pointwise functions with options, limits or several tensors.

use torsh_tensor::{
    AddOptions, AddcmulOptions, DivOptions, IntoLimit, LogitOptions, NanToNumOptions, Operand,
    Result, Tensor,
};

use crate::{IscloseOptions, IsinOptions, tensor};

/// `input + tensor1 / tensor2` (`torch.addcdiv`).
///
/// The shapes broadcast and the dtypes promote. An error where they do not, and for three integer
/// tensors.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::addcdiv(&tensor![1.0, 1.0], &tensor![1.0, 3.0], &tensor![2.0, 4.0])?, tensor![1.5, 1.75]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn addcdiv(input: &Tensor, tensor1: &Tensor, tensor2: &Tensor) -> Result<Tensor> {
    input.addcdiv(tensor1, tensor2)
}

/// `input + value * tensor1 / tensor2`, by the option `value`; else as [`addcdiv`].
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let options = F::AddcmulOptions::new().value(2);
/// assert_eq!(F::addcdiv_with(&tensor![1.0, 1.0], &tensor![1.0, 3.0], &tensor![2.0, 4.0], options)?, tensor![2.0, 2.5]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn addcdiv_with(
    input: &Tensor,
    tensor1: &Tensor,
    tensor2: &Tensor,
    options: AddcmulOptions,
) -> Result<Tensor> {
    input.addcdiv_with(tensor1, tensor2, options)
}

/// `input + tensor1 * tensor2` (`torch.addcmul`).
///
/// The shapes broadcast and the dtypes promote; an error where they do not.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::addcmul(&tensor![1, 1], &tensor![2, 3], &tensor![4, 5])?, tensor![9, 16]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn addcmul(input: &Tensor, tensor1: &Tensor, tensor2: &Tensor) -> Result<Tensor> {
    input.addcmul(tensor1, tensor2)
}

/// `input + value * tensor1 * tensor2`, by the option `value`; else as [`addcmul`].
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let options = F::AddcmulOptions::new().value(10);
/// assert_eq!(F::addcmul_with(&tensor![1, 1], &tensor![2, 3], &tensor![4, 5], options)?, tensor![81, 151]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn addcmul_with(
    input: &Tensor,
    tensor1: &Tensor,
    tensor2: &Tensor,
    options: AddcmulOptions,
) -> Result<Tensor> {
    input.addcmul_with(tensor1, tensor2, options)
}

/// The angle of each complex element in radians; of real ones 0, or pi for negative ones
/// (`torch.angle`).
///
/// The result has the operand's shape, and for complex tensors the real dtype of that size;
/// integers give the default dtype, nan gives nan.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert!(F::angle(&tensor![2.0, -2.0])?.allclose(&tensor![0.0, 3.141593])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn angle(input: &Tensor) -> Result<Tensor> {
    input.angle()
}

/// Each element limited to [`min`, `max`] (`torch.clamp`): numbers, tensors, or `None` for no
/// limit. `max` wins where the limits cross; nan stays.
///
/// The shapes of limits broadcast with `input`, and their dtypes promote with its own. An error
/// where both limits are `None`, and for complex tensors.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::clamp(&tensor![-5, 1, 5], -2, 3)?, tensor![-2, 1, 3]);
/// assert_eq!(F::clamp(&tensor![-5.0, 1.0, 5.0], None, &tensor![0.0, 2.0, 4.0])?, tensor![-5.0, 1.0, 4.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn clamp<'a>(
    input: &Tensor,
    min: impl IntoLimit<'a>,
    max: impl IntoLimit<'a>,
) -> Result<Tensor> {
    input.clamp(min, max)
}

/// Each element, or `max` where that is smaller; nan stays (`torch.clamp_max`).
///
/// A number or a tensor that broadcasts; the dtypes promote. An error for complex tensors.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::clamp_max(&tensor![1, 5], 3)?, tensor![1, 3]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn clamp_max<'a>(input: &Tensor, max: impl Into<Operand<'a>>) -> Result<Tensor> {
    input.clamp_max(max)
}

/// Each element, or `min` where that is larger; nan stays (`torch.clamp_min`).
///
/// A number or a tensor that broadcasts; the dtypes promote. An error for complex tensors.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::clamp_min(&tensor![1, 5], 3)?, tensor![3, 5]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn clamp_min<'a>(input: &Tensor, min: impl Into<Operand<'a>>) -> Result<Tensor> {
    input.clamp_min(min)
}

/// The complex conjugate; a real tensor comes back as it is (`torch.conj`).
///
/// Shape and dtype stay.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let z = F::view_as_complex(&tensor![[3.0, 4.0]])?;
/// assert_eq!(F::view_as_real(&F::conj(&z)?)?, tensor![[3.0, -4.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn conj(input: &Tensor) -> Result<Tensor> {
    input.conj()
}

/// The quotient rounded by `"trunc"` (towards zero) or `"floor"` (down), or not at all (`torch.div`
/// with `rounding_mode`).
///
/// The shapes broadcast and the dtypes promote; integers stay integers where the quotient is
/// rounded. An error for another word, for an integer division by 0 that is rounded, and for
/// complex quotients that are rounded.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let down = F::DivOptions::new().rounding_mode("floor");
/// assert_eq!(F::div_with(&tensor![7, -7], 2, down)?, tensor![3, -4]);
/// assert_eq!(F::div_with(&tensor![7, -7], 2, F::DivOptions::new().rounding_mode("trunc"))?, tensor![3, -3]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn div_with<'a>(
    input: &Tensor,
    other: impl Into<Operand<'a>>,
    options: DivOptions,
) -> Result<Tensor> {
    input.div_with(other, options)
}

/// A tensor of this one's shape and dtype that holds one number (or the value of a 0-d tensor,
/// through which gradients flow) everywhere (`torch.fill`).
///
/// An error for a tensor with more dimensions, and for a number that the dtype cannot hold.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::fill(&tensor![1.0, 2.0], 7)?, tensor![7.0, 7.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn fill<'a>(input: &Tensor, value: impl Into<Operand<'a>>) -> Result<Tensor> {
    input.fill(value)
}

/// Powers computed in float64 or complex128, whatever the operands' dtypes (`torch.float_power`).
///
/// The shapes broadcast; an error where they do not.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let y = F::float_power(&tensor![2, 3], -1)?;
/// assert_eq!(y.to_vec::<f64>()?, [0.5, 1.0 / 3.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn float_power<'a>(input: &Tensor, exponent: impl Into<Operand<'a>>) -> Result<Tensor> {
    input.float_power(exponent)
}

/// A view of the imaginary parts (`torch.imag`); an error for a real tensor.
///
/// The result has the operand's shape and the real dtype of that size.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::imag(&F::view_as_complex(&tensor![[3.0, 4.0]])?)?, tensor![4.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn imag(input: &Tensor) -> Result<Tensor> {
    input.imag()
}

/// Whether the elements are equal within PyTorch's default tolerances (`torch.isclose`): `|input -
/// other| <= 1e-8 + 1e-5 * |other|`.
///
/// A bool tensor of the shape that both broadcast to. An error where the dtypes differ.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::isclose(&tensor![1.0, 1.0], &tensor![1.000001, 1.1])?, tensor![true, false]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn isclose(input: &Tensor, other: &Tensor) -> Result<Tensor> {
    input.isclose(other)
}

/// Whether the elements differ by at most `atol + rtol * |other|`; two nans are close where
/// `equal_nan`.
///
/// Shapes, dtypes and errors as in [`isclose`]; negative tolerances are errors.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let options = F::IscloseOptions::new().rtol(0.0).atol(0.2);
/// assert_eq!(F::isclose_with(&tensor![1.0, 1.0], &tensor![1.1, 1.3], options)?, tensor![true, false]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn isclose_with(input: &Tensor, other: &Tensor, options: IscloseOptions) -> Result<Tensor> {
    input.isclose_with(other, options)
}

/// `input + weight * (end - input)`; the weight is a number or a tensor (`torch.lerp`).
///
/// The shapes broadcast; floating-point or complex tensors of one dtype, an error for others.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::lerp(&tensor![0.0, 10.0], &tensor![4.0, 20.0], 0.25)?, tensor![1.0, 12.5]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn lerp<'a>(input: &Tensor, end: &Tensor, weight: impl Into<Operand<'a>>) -> Result<Tensor> {
    input.lerp(end, weight)
}

/// `log(x / (1 - x))` of each element, the inverse of `sigmoid` (`torch.logit`).
///
/// Shape stays; integers give the default dtype. Elements outside [0, 1] give nan.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert!(F::logit(&tensor![0.5, 0.75])?.allclose(&tensor![0.0, 1.098612])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn logit(input: &Tensor) -> Result<Tensor> {
    input.logit()
}

/// [`logit`] of each element limited to [`eps`, `1 - eps`].
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let options = F::LogitOptions::new().eps(0.25);
/// assert!(F::logit_with(&tensor![0.5, 1.0], options)?.allclose(&tensor![0.0, 1.098612])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn logit_with(input: &Tensor, options: LogitOptions) -> Result<Tensor> {
    input.logit_with(options)
}

/// Each element with nan replaced by 0 and the infinities by the dtype's largest and smallest
/// number (`torch.nan_to_num`).
///
/// Shape and dtype stay; integers come back as they are.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let x = tensor![f32::NAN, 1.0, f32::INFINITY];
/// assert_eq!(F::nan_to_num(&x)?, tensor![0.0, 1.0, f32::MAX]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn nan_to_num(input: &Tensor) -> Result<Tensor> {
    input.nan_to_num()
}

/// [`nan_to_num`] with other replacements for nan, infinity and minus infinity.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let options = F::NanToNumOptions::new().nan(-1.0).posinf(9.0);
/// assert_eq!(F::nan_to_num_with(&tensor![f32::NAN, 1.0, f32::INFINITY], options)?, tensor![-1.0, 1.0, 9.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn nan_to_num_with(input: &Tensor, options: NanToNumOptions) -> Result<Tensor> {
    input.nan_to_num_with(options)
}

/// A view of the real parts (`torch.real`); a real tensor comes back as it is.
///
/// The result has the operand's shape and, of a complex tensor, the real dtype of that size.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::real(&F::view_as_complex(&tensor![[3.0, 4.0]])?)?, tensor![3.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn real(input: &Tensor) -> Result<Tensor> {
    input.real()
}

/// `other - input` (`torch.rsub`).
///
/// The shapes broadcast and the dtypes promote; an error where they do not, and for bool tensors.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::rsub(&tensor![1, 2], 10)?, tensor![9, 8]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn rsub<'a>(input: &Tensor, other: impl Into<Operand<'a>>) -> Result<Tensor> {
    input.rsub(other)
}

/// `other - alpha * input`, by the option `alpha`; else as [`rsub`].
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::rsub_with(&tensor![1, 2], 10, F::AddOptions::new().alpha(3))?, tensor![7, 4]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn rsub_with<'a>(
    input: &Tensor,
    other: impl Into<Operand<'a>>,
    options: AddOptions,
) -> Result<Tensor> {
    input.rsub_with(other, options)
}

/// A view of a real tensor with a last dimension of 2 as a complex one (`torch.view_as_complex`).
///
/// `[.., 2]` of float32 gives `[..]` of complex64, float64 complex128. An error for other dtypes or
/// sizes, and where the two parts do not lie side by side.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let z = F::view_as_complex(&tensor![[3.0, 4.0], [0.0, 1.0]])?;
/// assert_eq!(F::abs(&z)?, tensor![5.0, 1.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn view_as_complex(input: &Tensor) -> Result<Tensor> {
    input.view_as_complex()
}

/// A view of a complex tensor as a real one with a last dimension of 2 (`torch.view_as_real`).
///
/// An error for a real tensor.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let z = F::view_as_complex(&tensor![[3.0, 4.0]])?;
/// assert_eq!(F::view_as_real(&F::mul(&z, &z)?)?, tensor![[-7.0, 24.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn view_as_real(input: &Tensor) -> Result<Tensor> {
    input.view_as_real()
}

/// A copy of the tensor with its own memory (the method is [`copy`](Tensor::copy)).
///
/// Shape and dtype stay, and gradients flow through.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let x = tensor![1.0, 2.0];
/// let y = F::clone(&x)?;
/// y.zero_()?;
/// assert_eq!(x, tensor![1.0, 2.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn clone(input: &Tensor) -> Result<Tensor> {
    input.copy()
}

/// The elements of `input` where `condition` holds, those of `other` elsewhere (`torch.where`).
///
/// `condition` is a bool tensor; the shapes of all three broadcast, the dtypes of the other two
/// promote. An error where they do not.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let x = tensor![-1.0, 2.0];
/// assert_eq!(F::where_(&x.gt(0)?, &x, 0.0)?, tensor![0.0, 2.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn where_<'a>(
    condition: &Tensor,
    input: impl Into<Operand<'a>>,
    other: impl Into<Operand<'a>>,
) -> Result<Tensor> {
    Tensor::where_(condition, input, other)
}

/// Which elements are among the test elements (`torch.isin`).
///
/// A bool tensor of the shape of `elements`; the dtypes promote. An error for complex tensors.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::isin(&tensor![[1, 2], [3, 4]], &tensor![2, 4])?, tensor![[false, true], [false, true]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn isin<'a, 'b>(
    elements: impl Into<Operand<'a>>,
    test_elements: impl Into<Operand<'b>>,
) -> Result<Tensor> {
    isin_with(elements, test_elements, IsinOptions::default())
}

/// [`isin`], or with the option `invert` which elements are not among them.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let options = F::IsinOptions::new().invert(true);
/// assert_eq!(F::isin_with(&tensor![1, 2, 3], &tensor![2], options)?, tensor![true, false, true]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn isin_with<'a, 'b>(
    elements: impl Into<Operand<'a>>,
    test_elements: impl Into<Operand<'b>>,
    options: IsinOptions,
) -> Result<Tensor> {
    tensor!(elements);
    tensor!(test_elements);
    Tensor::isin_with(elements, test_elements, options)
}

/// Derivative of order `n` of `digamma` of each element (`torch.polygamma`).
///
/// Shape stays; integers give the default dtype. A negative `n` is an error.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert!(F::polygamma(1, &tensor![1.0, 2.0])?.allclose(&tensor![1.644934, 0.644934])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn polygamma(n: i64, input: &Tensor) -> Result<Tensor> {
    input.polygamma(n)
}

/// Logarithm of the multivariate gamma function of order `p` of each element (`torch.mvlgamma`).
///
/// Shape stays; integers give the default dtype. An error for `p` below 1 and above 1,000,000.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert!(F::mvlgamma(&tensor![2.0, 3.0], 2)?.allclose(&tensor![0.451583, 1.550195])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn mvlgamma(input: &Tensor, p: i64) -> Result<Tensor> {
    input.mvlgamma(p)
}
