//! Products of matrices and vectors.

use torsh_tensor::{AddmmOptions, MultinomialOptions, Result, Tensor};

/// `self` plus the sum over the batch of `batch1 @ batch2`.
#[track_caller]
pub fn addbmm(input: &Tensor, batch1: &Tensor, batch2: &Tensor) -> Result<Tensor> {
    input.addbmm(batch1, batch2)
}

/// `beta * self` plus `alpha` times the sum over the batch of `batch1 @ batch2`; with `beta` 0
/// this tensor is not read.
#[track_caller]
pub fn addbmm_with(
    input: &Tensor,
    batch1: &Tensor,
    batch2: &Tensor,
    options: AddmmOptions,
) -> Result<Tensor> {
    input.addbmm_with(batch1, batch2, options)
}

/// `self + mat1 @ mat2`; this tensor broadcasts.
#[track_caller]
pub fn addmm(input: &Tensor, mat1: &Tensor, mat2: &Tensor) -> Result<Tensor> {
    input.addmm(mat1, mat2)
}

/// `beta * self + alpha * (mat1 @ mat2)`; with `beta` 0 this tensor is not read.
#[track_caller]
pub fn addmm_with(
    input: &Tensor,
    mat1: &Tensor,
    mat2: &Tensor,
    options: AddmmOptions,
) -> Result<Tensor> {
    input.addmm_with(mat1, mat2, options)
}

/// `self + mat @ vec`; this tensor broadcasts.
#[track_caller]
pub fn addmv(input: &Tensor, mat: &Tensor, vec: &Tensor) -> Result<Tensor> {
    input.addmv(mat, vec)
}

/// `beta * self + alpha * (mat @ vec)`; with `beta` 0 this tensor is not read.
#[track_caller]
pub fn addmv_with(
    input: &Tensor,
    mat: &Tensor,
    vec: &Tensor,
    options: AddmmOptions,
) -> Result<Tensor> {
    input.addmv_with(mat, vec, options)
}

/// `self + outer(vec1, vec2)`; this tensor broadcasts.
#[track_caller]
pub fn addr(input: &Tensor, vec1: &Tensor, vec2: &Tensor) -> Result<Tensor> {
    input.addr(vec1, vec2)
}

/// `beta * self + alpha * outer(vec1, vec2)`; with `beta` 0 this tensor is not read.
#[track_caller]
pub fn addr_with(
    input: &Tensor,
    vec1: &Tensor,
    vec2: &Tensor,
    options: AddmmOptions,
) -> Result<Tensor> {
    input.addr_with(vec1, vec2, options)
}

/// `self + batch1 @ batch2`; this tensor broadcasts.
#[track_caller]
pub fn baddbmm(input: &Tensor, batch1: &Tensor, batch2: &Tensor) -> Result<Tensor> {
    input.baddbmm(batch1, batch2)
}

/// `beta * self + alpha * (batch1 @ batch2)`; with `beta` 0 this tensor is not read.
#[track_caller]
pub fn baddbmm_with(
    input: &Tensor,
    batch1: &Tensor,
    batch2: &Tensor,
    options: AddmmOptions,
) -> Result<Tensor> {
    input.baddbmm_with(batch1, batch2, options)
}

/// The products of two batches of matrices, `[b, n, m]` and `[b, m, p]`.
#[track_caller]
pub fn bmm(input: &Tensor, mat2: &Tensor) -> Result<Tensor> {
    input.bmm(mat2)
}

/// The sum of the products of two vectors.
#[track_caller]
pub fn dot(input: &Tensor, tensor: &Tensor) -> Result<Tensor> {
    input.dot(tensor)
}

/// Sums of products along the last dimension of both, of shape `[..self, ..other]` without it.
#[track_caller]
pub fn inner(input: &Tensor, other: &Tensor) -> Result<Tensor> {
    input.inner(other)
}

/// The product of two tensors (`torch.matmul`): of vectors their inner product, of a matrix
/// and a vector or another matrix the product, and of more dimensions the products of the
/// matrices in the last two, for batch dimensions that broadcast. Dtypes must be equal.
#[track_caller]
pub fn matmul(input: &Tensor, other: &Tensor) -> Result<Tensor> {
    input.matmul(other)
}

/// The product of two matrices.
#[track_caller]
pub fn mm(input: &Tensor, mat2: &Tensor) -> Result<Tensor> {
    input.mm(mat2)
}

/// The product of a matrix and a vector.
#[track_caller]
pub fn mv(input: &Tensor, vec: &Tensor) -> Result<Tensor> {
    input.mv(vec)
}

/// The matrix of all products of elements of two vectors.
#[track_caller]
pub fn outer(input: &Tensor, vec2: &Tensor) -> Result<Tensor> {
    input.outer(vec2)
}

/// Sums of products over dimensions `dims` of this tensor and `other_dims` of the other
/// (`torch.tensordot`), of the remaining dimensions of both.
#[track_caller]
pub fn tensordot(
    input: &Tensor,
    other: &Tensor,
    dims: &[i64],
    other_dims: &[i64],
) -> Result<Tensor> {
    input.tensordot(other, dims, other_dims)
}

/// `dot` with this vector conjugated.
#[track_caller]
pub fn vdot(input: &Tensor, other: &Tensor) -> Result<Tensor> {
    input.vdot(other)
}

/// Sums of products in Einstein's notation (`torch.einsum`): `F::einsum("ij,jk->ik", &[&a, &b])`.
#[track_caller]
pub fn einsum<T: std::borrow::Borrow<Tensor>>(equation: &str, operands: &[T]) -> Result<Tensor> {
    Tensor::einsum(equation, operands)
}

/// Ones drawn with the probabilities in `input`, else zeros (`torch.bernoulli`).
#[track_caller]
pub fn bernoulli(input: &Tensor) -> Result<Tensor> {
    input.bernoulli()
}

/// Different indices drawn with the weights in the rows of `input` (`torch.multinomial`).
#[track_caller]
pub fn multinomial(input: &Tensor, num_samples: i64) -> Result<Tensor> {
    input.multinomial(num_samples)
}

/// [`multinomial`] with replacement, or from another generator.
#[track_caller]
pub fn multinomial_with(
    input: &Tensor,
    num_samples: i64,
    options: MultinomialOptions,
) -> Result<Tensor> {
    input.multinomial_with(num_samples, options)
}

/// The first half of a dimension times the sigmoid of the second (`torch.nn.functional.glu`).
#[track_caller]
pub fn glu(input: &Tensor, dim: i64) -> Result<Tensor> {
    input.glu(dim)
}
