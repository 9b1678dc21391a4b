//! Derivatives, integrals and statistics of sampled functions, and properties of numbers.

use torsh_tensor::{
    CovOptions, GradientOptions, IndexReduceOptions, IntoDim, IntoShape, Result, Tensor,
    TrapezoidSpacing,
};

/// The derivative along each dimension, estimated from neighbouring elements one apart: central differences
/// inside, one-sided ones at the ends (`torch.gradient`). One tensor of this shape for each dimension. Signed
/// integers, floats and complex; an error for a dimension with fewer than two elements.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let x = tensor![1.0, 4.0, 9.0, 16.0];
/// assert_eq!(F::gradient(&x)?, [tensor![3.0, 4.0, 6.0, 7.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn gradient(input: &Tensor) -> Result<Vec<Tensor>> {
    input.gradient()
}

/// [`Tensor::gradient`] with PyTorch's keyword arguments: the distances or coordinates of the elements, the
/// dimensions, and the order of the estimates at the ends (`torch.gradient`).
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{GradientOptions, tensor};
/// let x = tensor![1.0, 4.0, 9.0, 16.0];
/// let options = GradientOptions::new().spacing(2.0).edge_order(2);
/// assert_eq!(F::gradient_with(&x, options)?, [tensor![1.0, 2.0, 3.0, 4.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn gradient_with(input: &Tensor, options: GradientOptions) -> Result<Vec<Tensor>> {
    input.gradient_with(options)
}

/// The covariance matrix of variables in the rows and observations in the columns, with one observation less in
/// the divisor (`torch.cov`). A 1-d tensor is one variable, whose variance is 0-d. Every number type but bool;
/// an error for more than two dimensions.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let x = tensor![[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]];
/// assert_eq!(F::cov(&x)?, tensor![[1.0, -1.0], [-1.0, 1.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn cov(input: &Tensor) -> Result<Tensor> {
    input.cov()
}

/// [`Tensor::cov`] with PyTorch's keyword arguments: the correction of the divisor, and weights of the
/// observations (`torch.cov`). An error for weights of other shapes and dtypes, and for negative ones.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{CovOptions, tensor};
/// let x = tensor![[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]];
/// let y = F::cov_with(&x, CovOptions::new().correction(0))?;
/// assert!(y.allclose(&tensor![[0.666667, -0.666667], [-0.666667, 0.666667]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn cov_with(input: &Tensor, options: CovOptions) -> Result<Tensor> {
    input.cov_with(options)
}

/// Pearson's correlation coefficients of variables in the rows and observations in the columns
/// (`torch.corrcoef`). Every number type but bool; an error for more than two dimensions.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let x = tensor![[0.0, 1.0, 2.0], [4.0, 2.0, 0.0]];
/// assert!(F::corrcoef(&x)?.allclose(&tensor![[1.0, -1.0], [-1.0, 1.0]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn corrcoef(input: &Tensor) -> Result<Tensor> {
    input.corrcoef()
}

/// All choices of `r` elements of a vector, one a row, in order (`torch.combinations`). Every dtype; an error
/// for other ranks than 1, and for a negative `r`.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::combinations(&tensor![1, 2, 3], 2, false)?, tensor![[1, 2], [1, 3], [2, 3]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn combinations(input: &Tensor, r: i64, with_replacement: bool) -> Result<Tensor> {
    input.combinations(r, with_replacement)
}

/// The tensor rotated `k` times by 90 degrees in the plane of two dimensions, from the first towards the second
/// (`torch.rot90`). Every dtype; an error for fewer than two dimensions, and for equal ones.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let x = tensor![[1, 2], [3, 4]];
/// assert_eq!(F::rot90(&x, 1, [0, 1])?, tensor![[2, 4], [1, 3]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn rot90(input: &Tensor, k: i64, dims: [i64; 2]) -> Result<Tensor> {
    input.rot90(k, dims)
}

/// The integral along a dimension by the trapezoidal rule, for points one apart (`torch.trapezoid`). The
/// dimension goes away. Every number type but bool.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::trapezoid(&tensor![1.0, 2.0, 3.0], -1)?.item::<f32>()?, 4.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn trapezoid(input: &Tensor, dim: impl IntoDim) -> Result<Tensor> {
    input.trapezoid(dim)
}

/// [`Tensor::trapezoid`] for points at a distance or at coordinates (`torch.trapezoid`). An error for another
/// number of coordinates.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{TrapezoidSpacing, tensor};
/// let y = tensor![1.0, 2.0, 3.0];
/// let x = tensor![0.0, 1.0, 3.0];
/// assert_eq!(F::trapezoid_with(&y, -1, TrapezoidSpacing::At(x))?.item::<f32>()?, 6.5);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn trapezoid_with(
    input: &Tensor,
    dim: impl IntoDim,
    spacing: TrapezoidSpacing,
) -> Result<Tensor> {
    input.trapezoid_with(dim, spacing)
}

/// The integrals up to each point along a dimension by the trapezoidal rule, for points one apart
/// (`torch.cumulative_trapezoid`). One element less along the dimension. Every number type but bool.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::cumulative_trapezoid(&tensor![1.0, 2.0, 3.0], -1)?, tensor![1.5, 4.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn cumulative_trapezoid(input: &Tensor, dim: impl IntoDim) -> Result<Tensor> {
    input.cumulative_trapezoid(dim)
}

/// [`Tensor::cumulative_trapezoid`] for points at a distance or at coordinates (`torch.cumulative_trapezoid`).
/// An error for another number of coordinates.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{TrapezoidSpacing, tensor};
/// let y = tensor![1.0, 2.0, 3.0];
/// assert_eq!(F::cumulative_trapezoid_with(&y, -1, TrapezoidSpacing::Step(2.0))?, tensor![3.0, 8.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn cumulative_trapezoid_with(
    input: &Tensor,
    dim: impl IntoDim,
    spacing: TrapezoidSpacing,
) -> Result<Tensor> {
    input.cumulative_trapezoid_with(dim, spacing)
}

/// Whether the imaginary part of each element is 0: bools of this shape (`torch.isreal`). Every dtype.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let z = tensor![[1.0, 0.0], [1.0, 2.0]].view_as_complex()?;
/// assert_eq!(F::isreal(&z)?, tensor![true, false]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn isreal(input: &Tensor) -> Result<Tensor> {
    input.isreal()
}

/// The operand: conjugation is done at once, so no tensor waits for it (`torch.resolve_conj`).
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let x = tensor![1.0, 2.0];
/// assert_eq!(F::resolve_conj(&x), x);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn resolve_conj(input: &Tensor) -> Tensor {
    input.resolve_conj()
}

/// The operand: negation is done at once, so no tensor waits for it (`torch.resolve_neg`).
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let x = tensor![1.0, 2.0];
/// assert_eq!(F::resolve_neg(&x), x);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn resolve_neg(input: &Tensor) -> Tensor {
    input.resolve_neg()
}

/// Whether a conjugation waits to be done: never (`torch.is_conj`).
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert!(!F::is_conj(&tensor![1.0]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn is_conj(input: &Tensor) -> bool {
    input.is_conj()
}

/// Whether a negation waits to be done: never (`torch.is_neg`).
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert!(!F::is_neg(&tensor![1.0]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn is_neg(input: &Tensor) -> bool {
    input.is_neg()
}

/// Whether the dtype has negative numbers (`torch.is_signed`).
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert!(F::is_signed(&tensor![1]) && !F::is_signed(&tensor![true]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn is_signed(input: &Tensor) -> bool {
    input.is_signed()
}

/// Whether the only element is not 0 (`torch.is_nonzero`). An error for another number of elements.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert!(F::is_nonzero(&tensor![2.0])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn is_nonzero(input: &Tensor) -> Result<bool> {
    input.is_nonzero()
}

/// Mantissa and exponent of each element: `x = mantissa * 2^exponent` with `0 (`torch.frexp`).5 <= |mantissa| <
/// 1`. The mantissa has this dtype, the exponent is int32; zeros, infinities and nan are their own mantissas,
/// with the exponent 0. Real floating-point dtypes.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{DType, tensor};
/// let (mantissa, exponent) = F::frexp(&tensor![3.0, -8.0])?;
/// assert_eq!(mantissa, tensor![0.75, -0.5]);
/// assert_eq!(exponent, tensor![2, 4].to_dtype(DType::I32)?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn frexp(input: &Tensor) -> Result<(Tensor, Tensor)> {
    input.frexp()
}

/// The positions in a tensor of `shape` of elements that are counted row-major: one tensor of this shape for
/// each dimension (`torch.unravel_index`). Integers; an error for other dtypes, and for a negative size.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let parts = F::unravel_index(&tensor![5, 7], [2, 4])?;
/// assert_eq!(parts, [tensor![1, 1], tensor![1, 3]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn unravel_index(input: &Tensor, shape: impl IntoShape) -> Result<Vec<Tensor>> {
    input.unravel_index(shape)
}

/// The first `size` rows of [`Tensor::nonzero`], with `fill_value` in the rows that there are too few for:
/// int64 of shape `[size, ndim]`, whatever the values (`torch.nonzero_static`). Every dtype; an error for a
/// negative size.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::nonzero_static(&tensor![1, 0, 2], 3, -1)?, tensor![[0], [2], [-1]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn nonzero_static(input: &Tensor, size: impl IntoDim, fill_value: i64) -> Result<Tensor> {
    input.nonzero_static(size, fill_value)
}

/// A copy of this tensor in which the slices of `source` are joined to those at the positions of `index` along
/// a dimension, by `prod`, `mean`, `amax` or `amin` (`torch.index_reduce`). Every number type but complex; an
/// error for other reductions, for shapes that do not fit, and for a position out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let x = tensor![1, 2, 3];
/// let y = F::index_reduce(&x, 0, &tensor![0, 0, 2], &tensor![4, 5, 6], "prod")?;
/// assert_eq!(y, tensor![20, 2, 18]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn index_reduce(
    input: &Tensor,
    dim: impl IntoDim,
    index: &Tensor,
    source: &Tensor,
    reduce: &str,
) -> Result<Tensor> {
    input.index_reduce(dim, index, source, reduce)
}

/// [`Tensor::index_reduce`] with PyTorch's keyword argument: whether the elements that are there take part
/// (`torch.index_reduce`).
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{IndexReduceOptions, tensor};
/// let x = tensor![1, 2];
/// let options = IndexReduceOptions::new().include_self(false);
/// assert_eq!(F::index_reduce_with(&x, 0, &tensor![0], &tensor![5], "amin", options)?, tensor![5, 2]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn index_reduce_with(
    input: &Tensor,
    dim: impl IntoDim,
    index: &Tensor,
    source: &Tensor,
    reduce: &str,
    options: IndexReduceOptions,
) -> Result<Tensor> {
    input.index_reduce_with(dim, index, source, reduce, options)
}

/// Complex numbers of real parts, this tensor, and imaginary parts, with which it broadcasts (`torch.complex`).
/// Both float32 or both float64; an error for other dtypes.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let z = F::complex(&tensor![3.0], &tensor![4.0])?;
/// assert_eq!(z.abs()?, tensor![5.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn complex(input: &Tensor, imag: &Tensor) -> Result<Tensor> {
    input.complex(imag)
}

/// Complex numbers of absolute values, this tensor, and angles, with which it broadcasts (`torch.polar`). Both
/// float32 or both float64; an error for other dtypes.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let z = F::polar(&tensor![2.0], &tensor![0.0])?;
/// assert_eq!(z.real()?, tensor![2.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn polar(input: &Tensor, angle: &Tensor) -> Result<Tensor> {
    input.polar(angle)
}

/// [`trapezoid`] under its older name (`torch.trapz`).
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::trapz(&tensor![1.0, 2.0, 3.0], -1)?.item::<f32>()?, 4.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn trapz(input: &Tensor, dim: impl IntoDim) -> Result<Tensor> {
    input.trapezoid(dim)
}
