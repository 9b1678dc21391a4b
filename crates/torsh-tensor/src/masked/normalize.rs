//! Masked operations whose result has the operand's shape.

use torsh_core::{DType, Result};

use super::{Identity, filled, norm_with};
use crate::masked::MaskedOptions;
use crate::options::options;
use crate::{CumsumOptions, IntoDim, SoftmaxOptions, Tensor};

options! {
    /// The keyword arguments of the masked `normalize`.
    ///
    /// ```
    /// use torsh_tensor::masked::MaskedNormalizeOptions;
    /// assert_eq!(MaskedNormalizeOptions::new().eps, 1e-12);
    /// ```
    MaskedNormalizeOptions {
        /// The least divisor.
        eps: f64 = 1e-12;
        /// The dtype of the norms.
        dtype: Option<DType> = None, DType => Some;
    }
}

#[track_caller]
fn along(
    op: &'static str,
    x: &Tensor,
    dim: i64,
    mask: Option<&Tensor>,
    identity: Identity,
    f: impl FnOnce(&Tensor, usize) -> Result<Tensor>,
) -> Result<Tensor> {
    let d = x.dim(op, dim)?;
    let run = || f(&filled(x, mask, identity)?, d);
    x.named(op, run().map_err(|e| e.renamed(op)))
}

/// The sums of the elements that count up to each along a dimension, in the dtype of the operand.
///
/// The mask broadcasts with the operand, or is `None`. An error for a dimension out of range.
///
/// ```
/// use torsh_tensor::{masked, tensor};
/// let (x, mask) = (tensor![[1.0, 2.0], [3.0, 4.0]], tensor![[true, false], [true, true]]);
/// let y = masked::cumsum(&x, 1, &mask)?;
/// assert!(y.allclose(&tensor![[1.0, 1.0], [3.0, 7.0]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn cumsum<'m>(
    input: &Tensor,
    dim: impl IntoDim,
    mask: impl Into<Option<&'m Tensor>>,
) -> Result<Tensor> {
    cumsum_with(input, dim, mask, CumsumOptions::new())
}

/// [`cumsum`] with the option `dtype`, in which it computes.
///
/// ```
/// use torsh_tensor::{DType, CumsumOptions, masked, tensor};
/// let (x, mask) = (tensor![[1.0, 2.0], [3.0, 4.0]], tensor![[true, false], [true, true]]);
/// let y = masked::cumsum_with(&x, 1, &mask, CumsumOptions::new().dtype(DType::F64))?;
/// assert_eq!(y.dtype(), DType::F64);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn cumsum_with<'m>(
    input: &Tensor,
    dim: impl IntoDim,
    mask: impl Into<Option<&'m Tensor>>,
    options: CumsumOptions,
) -> Result<Tensor> {
    let f = |x: &Tensor, d: usize| {
        let to = options.dtype.unwrap_or(input.dtype());
        x.cumsum_with(d, CumsumOptions::new().dtype(to))?
            .to_dtype(to)
    };
    along(
        "masked.cumsum",
        input,
        dim.value(),
        mask.into(),
        Identity::Zero,
        f,
    )
}

/// The products of the elements that count up to each along a dimension, in the dtype of the operand.
///
/// The mask broadcasts with the operand, or is `None`. An error for a dimension out of range.
///
/// ```
/// use torsh_tensor::{masked, tensor};
/// let (x, mask) = (tensor![[1.0, 2.0], [3.0, 4.0]], tensor![[true, false], [true, true]]);
/// let y = masked::cumprod(&x, 1, &mask)?;
/// assert!(y.allclose(&tensor![[1.0, 1.0], [3.0, 12.0]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn cumprod<'m>(
    input: &Tensor,
    dim: impl IntoDim,
    mask: impl Into<Option<&'m Tensor>>,
) -> Result<Tensor> {
    cumprod_with(input, dim, mask, CumsumOptions::new())
}

/// [`cumprod`] with the option `dtype`, in which it computes.
///
/// ```
/// use torsh_tensor::{DType, CumsumOptions, masked, tensor};
/// let (x, mask) = (tensor![[1.0, 2.0], [3.0, 4.0]], tensor![[true, false], [true, true]]);
/// let y = masked::cumprod_with(&x, 1, &mask, CumsumOptions::new().dtype(DType::F64))?;
/// assert_eq!(y.dtype(), DType::F64);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn cumprod_with<'m>(
    input: &Tensor,
    dim: impl IntoDim,
    mask: impl Into<Option<&'m Tensor>>,
    options: CumsumOptions,
) -> Result<Tensor> {
    let f = |x: &Tensor, d: usize| {
        let to = options.dtype.unwrap_or(input.dtype());
        x.cumprod_with(d, CumsumOptions::new().dtype(to))?
            .to_dtype(to)
    };
    along(
        "masked.cumprod",
        input,
        dim.value(),
        mask.into(),
        Identity::One,
        f,
    )
}

/// Softmax of the elements that count along a dimension; others get 0, and a row without any nan.
///
/// The mask broadcasts with the operand, or is `None`. An error for a dimension out of range.
///
/// ```
/// use torsh_tensor::{masked, tensor};
/// let (x, mask) = (tensor![[1.0, 2.0], [3.0, 4.0]], tensor![[true, false], [true, true]]);
/// let y = masked::softmax(&x, 1, &mask)?;
/// assert!(y.allclose(&tensor![[1.0, 0.0], [0.268941, 0.731059]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn softmax<'m>(
    input: &Tensor,
    dim: impl IntoDim,
    mask: impl Into<Option<&'m Tensor>>,
) -> Result<Tensor> {
    softmax_with(input, dim, mask, SoftmaxOptions::new())
}

/// [`softmax`] with the option `dtype`, in which it computes.
///
/// ```
/// use torsh_tensor::{DType, SoftmaxOptions, masked, tensor};
/// let (x, mask) = (tensor![[1.0, 2.0], [3.0, 4.0]], tensor![[true, false], [true, true]]);
/// let y = masked::softmax_with(&x, 1, &mask, SoftmaxOptions::new().dtype(DType::F64))?;
/// assert_eq!(y.dtype(), DType::F64);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn softmax_with<'m>(
    input: &Tensor,
    dim: impl IntoDim,
    mask: impl Into<Option<&'m Tensor>>,
    options: SoftmaxOptions,
) -> Result<Tensor> {
    let f = |x: &Tensor, d: usize| x.softmax_with(d, options);
    along(
        "masked.softmax",
        input,
        dim.value(),
        mask.into(),
        Identity::Lowest,
        f,
    )
}

/// The logarithm of [`softmax`] along a dimension.
///
/// The mask broadcasts with the operand, or is `None`. An error for a dimension out of range.
///
/// ```
/// use torsh_tensor::{masked, tensor};
/// let (x, mask) = (tensor![[1.0, 2.0], [3.0, 4.0]], tensor![[true, false], [true, true]]);
/// let y = masked::log_softmax(&x, 1, &mask)?;
/// assert!(y.exp()?.allclose(&tensor![[1.0, 0.0], [0.268941, 0.731059]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn log_softmax<'m>(
    input: &Tensor,
    dim: impl IntoDim,
    mask: impl Into<Option<&'m Tensor>>,
) -> Result<Tensor> {
    log_softmax_with(input, dim, mask, SoftmaxOptions::new())
}

/// [`log_softmax`] with the option `dtype`, in which it computes.
///
/// ```
/// use torsh_tensor::{DType, SoftmaxOptions, masked, tensor};
/// let (x, mask) = (tensor![[1.0, 2.0], [3.0, 4.0]], tensor![[true, false], [true, true]]);
/// let y = masked::log_softmax_with(&x, 1, &mask, SoftmaxOptions::new().dtype(DType::F64))?;
/// assert_eq!(y.dtype(), DType::F64);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn log_softmax_with<'m>(
    input: &Tensor,
    dim: impl IntoDim,
    mask: impl Into<Option<&'m Tensor>>,
    options: SoftmaxOptions,
) -> Result<Tensor> {
    let f = |x: &Tensor, d: usize| x.log_softmax_with(d, options);
    along(
        "masked.log_softmax",
        input,
        dim.value(),
        mask.into(),
        Identity::Lowest,
        f,
    )
}

/// [`softmax`] of the negative elements that count.
///
/// The mask broadcasts with the operand, or is `None`. An error for a dimension out of range.
///
/// ```
/// use torsh_tensor::{masked, tensor};
/// let (x, mask) = (tensor![[1.0, 2.0], [3.0, 4.0]], tensor![[true, false], [true, true]]);
/// let y = masked::softmin(&x, 1, &mask)?;
/// assert!(y.allclose(&tensor![[1.0, 0.0], [0.731059, 0.268941]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn softmin<'m>(
    input: &Tensor,
    dim: impl IntoDim,
    mask: impl Into<Option<&'m Tensor>>,
) -> Result<Tensor> {
    softmin_with(input, dim, mask, SoftmaxOptions::new())
}

/// [`softmin`] with the option `dtype`, in which it computes.
///
/// ```
/// use torsh_tensor::{DType, SoftmaxOptions, masked, tensor};
/// let (x, mask) = (tensor![[1.0, 2.0], [3.0, 4.0]], tensor![[true, false], [true, true]]);
/// let y = masked::softmin_with(&x, 1, &mask, SoftmaxOptions::new().dtype(DType::F64))?;
/// assert_eq!(y.dtype(), DType::F64);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn softmin_with<'m>(
    input: &Tensor,
    dim: impl IntoDim,
    mask: impl Into<Option<&'m Tensor>>,
    options: SoftmaxOptions,
) -> Result<Tensor> {
    let f = |x: &Tensor, d: usize| x.softmin_with(d, options);
    along(
        "masked.softmin",
        input,
        dim.value(),
        mask.into(),
        Identity::Highest,
        f,
    )
}

/// The elements that count divided by their norm of order `ord` along a dimension; others become 0.
///
/// Floating-point and complex dtypes. The mask broadcasts with the operand, or is `None`.
///
/// ```
/// use torsh_tensor::{masked, tensor};
/// let (x, mask) = (tensor![3.0, 7.0, 4.0], tensor![true, false, true]);
/// assert!(masked::normalize(&x, 2.0, 0, &mask)?.allclose(&tensor![0.6, 0.0, 0.8])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn normalize<'m>(
    input: &Tensor,
    ord: f64,
    dim: impl IntoDim,
    mask: impl Into<Option<&'m Tensor>>,
) -> Result<Tensor> {
    normalize_with(input, ord, dim, mask, MaskedNormalizeOptions::new())
}

/// [`normalize`] with the least divisor, and the dtype of the norms.
///
/// ```
/// use torsh_tensor::{masked::{self, MaskedNormalizeOptions}, tensor};
/// let x = tensor![3.0, 4.0];
/// let y = masked::normalize_with(&x, 2.0, 0, None, MaskedNormalizeOptions::new().eps(10.0))?;
/// assert!(y.allclose(&tensor![0.3, 0.4])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn normalize_with<'m>(
    input: &Tensor,
    ord: f64,
    dim: impl IntoDim,
    mask: impl Into<Option<&'m Tensor>>,
    options: MaskedNormalizeOptions,
) -> Result<Tensor> {
    let mask = mask.into();
    let f = |x: &Tensor, d: usize| {
        let mut o = MaskedOptions::new().dim(d).keepdim(true);
        o.dtype = options.dtype;
        let norm = norm_with(input, ord, mask, o)?;
        let norm = if input.ndim() == 0 {
            norm.reshape(())?
        } else {
            norm
        };
        x.div(&norm.clamp_min(options.eps)?)
    };
    along(
        "masked.normalize",
        input,
        dim.value(),
        mask,
        Identity::Zero,
        f,
    )
}

/// The logarithm of the sum of the exponentials of two tensors, each with a mask of its own; what does not count is
/// minus infinity.
///
/// Real floating-point dtypes. Masks broadcast with their tensors, or are `None`.
///
/// ```
/// use torsh_tensor::{masked, tensor};
/// let (x, y) = (tensor![0.0, 1.0], tensor![0.0, 2.0]);
/// let z = masked::logaddexp(&x, &y, None, &tensor![true, false])?;
/// assert!(z.allclose(&tensor![0.693147, 1.0])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn logaddexp<'m, 'n>(
    input: &Tensor,
    other: &Tensor,
    input_mask: impl Into<Option<&'m Tensor>>,
    other_mask: impl Into<Option<&'n Tensor>>,
) -> Result<Tensor> {
    logaddexp_with(input, other, input_mask, other_mask, MaskedOptions::new())
}

/// [`logaddexp`] with the option `dtype`; the others have no part.
///
/// ```
/// use torsh_tensor::{DType, masked::{self, MaskedOptions}, tensor};
/// let x = tensor![0.0];
/// let z = masked::logaddexp_with(&x, &x, None, None, MaskedOptions::new().dtype(DType::F64))?;
/// assert_eq!(z.dtype(), DType::F64);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn logaddexp_with<'m, 'n>(
    input: &Tensor,
    other: &Tensor,
    input_mask: impl Into<Option<&'m Tensor>>,
    other_mask: impl Into<Option<&'n Tensor>>,
    options: MaskedOptions,
) -> Result<Tensor> {
    let op = "masked.logaddexp";
    let run = || {
        let x = filled(input, input_mask.into(), Identity::Lowest)?;
        let y = filled(other, other_mask.into(), Identity::Lowest)?;
        x.logaddexp(&y)?
            .to_dtype(options.dtype.unwrap_or(input.dtype()))
    };
    input.named(op, run().map_err(|e| e.renamed(op)))
}
