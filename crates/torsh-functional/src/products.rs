//! Products of matrices and vectors.

use torsh_tensor::{AddmmOptions, MultinomialOptions, Result, Tensor};

/// `input` plus the sum over the batch of `batch1 @ batch2` (`torch.addbmm`).
///
/// `[b, n, m]` and `[b, m, p]` of one dtype; `input` broadcasts to `[n, p]`, the result's shape. An
/// error for other shapes, and for dtypes that differ.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let (a, b) = (tensor![[[1.0, 2.0]], [[3.0, 4.0]]], tensor![[[1.0], [1.0]], [[1.0], [1.0]]]);
/// assert_eq!(F::addbmm(&tensor![[100.0]], &a, &b)?, tensor![[110.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn addbmm(input: &Tensor, batch1: &Tensor, batch2: &Tensor) -> Result<Tensor> {
    input.addbmm(batch1, batch2)
}

/// `beta * input` plus `alpha` times the sum over the batch of `batch1 @ batch2`; with `beta` 0
/// `input` is not read. Else as [`addbmm`].
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let (a, b) = (tensor![[[1.0, 2.0]], [[3.0, 4.0]]], tensor![[[1.0], [1.0]], [[1.0], [1.0]]]);
/// let options = F::AddmmOptions::new().beta(0).alpha(2);
/// assert_eq!(F::addbmm_with(&tensor![[100.0]], &a, &b, options)?, tensor![[20.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn addbmm_with(
    input: &Tensor,
    batch1: &Tensor,
    batch2: &Tensor,
    options: AddmmOptions,
) -> Result<Tensor> {
    input.addbmm_with(batch1, batch2, options)
}

/// `input + mat1 @ mat2` (`torch.addmm`).
///
/// `[n, m]` and `[m, p]` of one dtype; `input` broadcasts to `[n, p]`, the result's shape. An error
/// for other shapes, and for dtypes that differ.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let (a, b) = (tensor![[1.0, 2.0]], tensor![[3.0], [4.0]]);
/// assert_eq!(F::addmm(&tensor![0.5], &a, &b)?, tensor![[11.5]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn addmm(input: &Tensor, mat1: &Tensor, mat2: &Tensor) -> Result<Tensor> {
    input.addmm(mat1, mat2)
}

/// `beta * input + alpha * (mat1 @ mat2)`; with `beta` 0 `input` is not read. Else as [`addmm`].
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let (a, b) = (tensor![[1.0, 2.0]], tensor![[3.0], [4.0]]);
/// let options = F::AddmmOptions::new().beta(2).alpha(10);
/// assert_eq!(F::addmm_with(&tensor![0.5], &a, &b, options)?, tensor![[111.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn addmm_with(
    input: &Tensor,
    mat1: &Tensor,
    mat2: &Tensor,
    options: AddmmOptions,
) -> Result<Tensor> {
    input.addmm_with(mat1, mat2, options)
}

/// `input + mat @ vec` (`torch.addmv`).
///
/// `[n, m]` and `[m]` of one dtype; `input` broadcasts to `[n]`, the result's shape. An error for
/// other shapes, and for dtypes that differ.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let (mat, vec) = (tensor![[1.0, 2.0], [3.0, 4.0]], tensor![1.0, 1.0]);
/// assert_eq!(F::addmv(&tensor![10.0, 20.0], &mat, &vec)?, tensor![13.0, 27.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn addmv(input: &Tensor, mat: &Tensor, vec: &Tensor) -> Result<Tensor> {
    input.addmv(mat, vec)
}

/// `beta * input + alpha * (mat @ vec)`; with `beta` 0 `input` is not read. Else as [`addmv`].
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let (mat, vec) = (tensor![[1.0, 2.0], [3.0, 4.0]], tensor![1.0, 1.0]);
/// let options = F::AddmmOptions::new().alpha(2);
/// assert_eq!(F::addmv_with(&tensor![10.0, 20.0], &mat, &vec, options)?, tensor![16.0, 34.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn addmv_with(
    input: &Tensor,
    mat: &Tensor,
    vec: &Tensor,
    options: AddmmOptions,
) -> Result<Tensor> {
    input.addmv_with(mat, vec, options)
}

/// `input + outer(vec1, vec2)` (`torch.addr`).
///
/// `[n]` and `[m]`; `input` broadcasts to `[n, m]`, the result's shape; the dtypes promote. An
/// error for other shapes.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::addr(&tensor![[100.0]], &tensor![1.0, 2.0], &tensor![3.0, 4.0])?, tensor![[103.0, 104.0], [106.0, 108.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn addr(input: &Tensor, vec1: &Tensor, vec2: &Tensor) -> Result<Tensor> {
    input.addr(vec1, vec2)
}

/// `beta * input + alpha * outer(vec1, vec2)`; with `beta` 0 `input` is not read. Else as [`addr`].
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let options = F::AddmmOptions::new().alpha(10);
/// assert_eq!(F::addr_with(&tensor![[1.0]], &tensor![1.0, 2.0], &tensor![3.0], options)?, tensor![[31.0], [61.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn addr_with(
    input: &Tensor,
    vec1: &Tensor,
    vec2: &Tensor,
    options: AddmmOptions,
) -> Result<Tensor> {
    input.addr_with(vec1, vec2, options)
}

/// `input + batch1 @ batch2`, matrix by matrix (`torch.baddbmm`).
///
/// `[b, n, m]` and `[b, m, p]` of one dtype; `input` broadcasts to `[b, n, p]`, the result's shape.
/// An error for other shapes, and for dtypes that differ.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let (a, b) = (tensor![[[1.0, 2.0]], [[3.0, 4.0]]], tensor![[[1.0], [1.0]], [[1.0], [1.0]]]);
/// assert_eq!(F::baddbmm(&tensor![[[100.0]]], &a, &b)?, tensor![[[103.0]], [[107.0]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn baddbmm(input: &Tensor, batch1: &Tensor, batch2: &Tensor) -> Result<Tensor> {
    input.baddbmm(batch1, batch2)
}

/// `beta * input + alpha * (batch1 @ batch2)`; with `beta` 0 `input` is not read. Else as
/// [`baddbmm`].
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let (a, b) = (tensor![[[1.0, 2.0]]], tensor![[[1.0], [1.0]]]);
/// let options = F::AddmmOptions::new().beta(0.5).alpha(2);
/// assert_eq!(F::baddbmm_with(&tensor![[[100.0]]], &a, &b, options)?, tensor![[[56.0]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn baddbmm_with(
    input: &Tensor,
    batch1: &Tensor,
    batch2: &Tensor,
    options: AddmmOptions,
) -> Result<Tensor> {
    input.baddbmm_with(batch1, batch2, options)
}

/// The products of two batches of matrices, `[b, n, m]` and `[b, m, p]` (`torch.bmm`).
///
/// Gives `[b, n, p]`. An error for other shapes, and for dtypes that differ.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let (a, b) = (tensor![[[1.0, 2.0]], [[3.0, 4.0]]], tensor![[[1.0], [1.0]], [[2.0], [2.0]]]);
/// assert_eq!(F::bmm(&a, &b)?, tensor![[[3.0]], [[14.0]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn bmm(input: &Tensor, mat2: &Tensor) -> Result<Tensor> {
    input.bmm(mat2)
}

/// The sum of the products of two vectors, a 0-d tensor (`torch.dot`).
///
/// An error for other than two vectors of one length and one dtype.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::dot(&tensor![1, 2, 3], &tensor![4, 5, 6])?.item::<i64>()?, 32);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn dot(input: &Tensor, tensor: &Tensor) -> Result<Tensor> {
    input.dot(tensor)
}

/// Sums of products along the last dimension of both, of shape `[..input, ..other]` without it
/// (`torch.inner`).
///
/// A 0-d operand multiplies. An error where the last sizes or the dtypes differ.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::inner(&tensor![[1.0, 2.0], [3.0, 4.0]], &tensor![1.0, 10.0])?, tensor![21.0, 43.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn inner(input: &Tensor, other: &Tensor) -> Result<Tensor> {
    input.inner(other)
}

/// The product of two tensors (`torch.matmul`): of vectors their inner product, of a matrix and a
/// vector or another matrix the product, and of more dimensions the products of the matrices in the
/// last two, for batch dimensions that broadcast.
///
/// An error for a 0-d tensor, for sizes that do not fit, and for dtypes that differ.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let a = tensor![[1.0, 2.0], [3.0, 4.0]];
/// assert_eq!(F::matmul(&a, &tensor![[5.0, 6.0], [7.0, 8.0]])?, tensor![[19.0, 22.0], [43.0, 50.0]]);
/// assert_eq!(F::matmul(&a, &tensor![1.0, 1.0])?, tensor![3.0, 7.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn matmul(input: &Tensor, other: &Tensor) -> Result<Tensor> {
    input.matmul(other)
}

/// The product of two matrices, `[n, m]` and `[m, p]` (`torch.mm`).
///
/// Gives `[n, p]`. An error for other shapes, and for dtypes that differ.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::mm(&tensor![[1, 2], [3, 4]], &tensor![[1], [10]])?, tensor![[21], [43]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn mm(input: &Tensor, mat2: &Tensor) -> Result<Tensor> {
    input.mm(mat2)
}

/// The product of a matrix `[n, m]` and a vector `[m]` (`torch.mv`).
///
/// Gives `[n]`. An error for other shapes, and for dtypes that differ.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::mv(&tensor![[1, 2], [3, 4]], &tensor![1, 10])?, tensor![21, 43]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn mv(input: &Tensor, vec: &Tensor) -> Result<Tensor> {
    input.mv(vec)
}

/// The matrix of all products of elements of two vectors, `[n]` and `[m]` (`torch.outer`).
///
/// Gives `[n, m]`; the dtypes promote. An error for other than vectors.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::outer(&tensor![1, 2], &tensor![3, 4, 5])?, tensor![[3, 4, 5], [6, 8, 10]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn outer(input: &Tensor, vec2: &Tensor) -> Result<Tensor> {
    input.outer(vec2)
}

/// Sums of products over dimensions `dims` of this tensor and `other_dims` of the other
/// (`torch.tensordot`), of the remaining dimensions of both.
///
/// An error where the two lists or the sizes of their dimensions differ, and for dtypes that
/// differ.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let (a, b) = (tensor![[1.0, 2.0], [3.0, 4.0]], tensor![[1.0, 10.0], [100.0, 1000.0]]);
/// assert_eq!(F::tensordot(&a, &b, &[1], &[0])?, F::mm(&a, &b)?);
/// assert_eq!(F::tensordot(&a, &b, &[0, 1], &[0, 1])?.item::<f32>()?, 4321.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn tensordot(
    input: &Tensor,
    other: &Tensor,
    dims: &[i64],
    other_dims: &[i64],
) -> Result<Tensor> {
    input.tensordot(other, dims, other_dims)
}

/// [`dot`] with this vector conjugated (`torch.vdot`).
///
/// An error for other than two vectors of one length and one dtype.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let z = F::view_as_complex(&tensor![[3.0, 4.0]])?;
/// assert_eq!(F::view_as_real(&F::vdot(&z, &z)?)?, tensor![25.0, 0.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn vdot(input: &Tensor, other: &Tensor) -> Result<Tensor> {
    input.vdot(other)
}

/// Sums of products in Einstein's notation (`torch.einsum`).
///
/// Each operand has a letter for each of its dimensions; letters that the result lacks are summed
/// over. An error for letters, sizes or dtypes that do not fit.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let (a, b) = (tensor![[1.0, 2.0], [3.0, 4.0]], tensor![[1.0, 0.0], [0.0, 2.0]]);
/// assert_eq!(F::einsum("ij,jk->ik", &[&a, &b])?, tensor![[1.0, 4.0], [3.0, 8.0]]);
/// assert_eq!(F::einsum("ii->i", &[&a])?, tensor![1.0, 4.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn einsum<T: std::borrow::Borrow<Tensor>>(equation: &str, operands: &[T]) -> Result<Tensor> {
    Tensor::einsum(equation, operands)
}

/// Ones drawn with the probabilities in `input`, else zeros (`torch.bernoulli`).
///
/// Shape and dtype stay; PyTorch's own draws after the same `manual_seed`. An error for integers,
/// and for probabilities outside [0, 1].
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::bernoulli(&tensor![0.0, 1.0, 1.0])?, tensor![0.0, 1.0, 1.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn bernoulli(input: &Tensor) -> Result<Tensor> {
    input.bernoulli()
}

/// Different indices drawn with the weights in the rows of `input` (int64; `torch.multinomial`).
///
/// `[n]` gives `[num_samples]`, `[m, n]` gives `[m, num_samples]`. An error for integers, for
/// negative, infinite or no weights, and for more draws than weights.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let drawn = F::multinomial(&tensor![0.0, 2.0, 0.0, 1.0], 2)?;
/// assert_eq!(F::sort(&drawn)?.0, tensor![1, 3]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn multinomial(input: &Tensor, num_samples: i64) -> Result<Tensor> {
    input.multinomial(num_samples)
}

/// [`multinomial`] with replacement, or from another generator.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let options = F::MultinomialOptions::new().replacement(true);
/// assert_eq!(F::multinomial_with(&tensor![0.0, 2.0], 3, options)?, tensor![1, 1, 1]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn multinomial_with(
    input: &Tensor,
    num_samples: i64,
    options: MultinomialOptions,
) -> Result<Tensor> {
    input.multinomial_with(num_samples, options)
}

/// The first half of a dimension times the sigmoid of the second (`torch.nn.functional.glu`).
///
/// The dimension's size halves; keeps the dtype. An error for an odd size, and for a dimension out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::glu(&tensor![8.0, 6.0, 0.0, 0.0], 0)?, tensor![4.0, 3.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn glu(input: &Tensor, dim: i64) -> Result<Tensor> {
    input.glu(dim)
}
