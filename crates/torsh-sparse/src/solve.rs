//! Systems with any square sparse matrix.

use torsh_tensor::sparse::Pattern;
use torsh_tensor::{Result, Tensor, TorshError, no_grad};

use crate::attrs;
use crate::csr::{elements, flat_values, one_dtype};
use crate::help::{host, within};
use crate::triangular::{solution, square};

/// Where the stored elements of a matrix are.
#[derive(Clone, Copy)]
enum Side {
    /// On the diagonal and below it, or on the diagonal alone.
    Lower,
    /// On the diagonal and above it.
    Upper,
    /// On both sides.
    Both,
}

/// The side of the elements. On a device without data it is not known; the shape of the solution is the same for all.
fn side(pattern: &Pattern) -> Result<Side> {
    if !pattern.indices().device().has_data() {
        return Ok(Side::Lower);
    }
    let side = pattern.cached(|| {
        let places = elements(pattern)?;
        let (rows, columns) = (host(&places.rows)?, host(&places.columns)?);
        let pairs = || rows.iter().zip(&columns);
        Ok(
            match (pairs().any(|(i, j)| j > i), pairs().any(|(i, j)| j < i)) {
                (true, true) => Side::Both,
                (true, false) => Side::Upper,
                (false, _) => Side::Lower,
            },
        )
    })?;
    Ok(*side)
}

/// Refuses the solution of a triangular system that comes of a division by 0.
fn check_diagonal(a: &Tensor, pattern: &Pattern, x: &Tensor) -> Result<()> {
    let zero = no_grad(|| {
        if !x.device().has_data() || x.isfinite()?.all()?.item::<bool>()? {
            return Ok(None);
        }
        let places = elements(pattern)?;
        let on = places
            .rows
            .eq(&places.columns)?
            .nonzero()?
            .reshape([-1i64])?;
        let values = flat_values(a)?.index_select(0, &on)?;
        let diagonal = Tensor::zeros(a.dims()[0], a.dtype(), a.device())?.index_add(
            0,
            &places.rows.index_select(0, &on)?,
            &values,
        )?;
        Ok(host(&diagonal.eq(0)?.nonzero()?)?.first().copied())
    })?;
    match zero {
        Some(i) => Err(TorshError::failed(
            "",
            format!("the matrix is singular: element [{i}, {i}] of its diagonal is 0"),
        )),
        None => Ok(()),
    }
}

#[cfg(feature = "linalg")]
fn by_factors(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    crate::direct::solution(a, b)
}

#[cfg(not(feature = "linalg"))]
fn by_factors(_: &Tensor, _: &Tensor) -> Result<Tensor> {
    Err(TorshError::invalid(
        "",
        "the matrix has elements on both sides of its diagonal: to factor it comes with the feature `linalg`",
    )
    .with_hint("add the feature `linalg` of the crate `torsh`; triangular systems need no feature"))
}

/// The solution `X` of `A X = B` for a sparse square matrix, `[n, n]`, and `[n]` or `[n, k]` right-hand sides
/// (`torch.sparse.spsolve`).
///
/// The matrix has any sparse layout. If all its stored elements are on one side of the diagonal, the system is solved
/// row by row, in any floating-point dtype. Other matrices need the feature `linalg`: they are factored as `sparse::lu`
/// does it, in float32, float64, complex64 or complex128. The solution is strided. The gradient of `a` has its pattern.
///
/// ```
/// use torsh_sparse::{self as sparse, SparseExt};
/// use torsh_tensor::tensor;
/// let a = tensor![[2.0, 0.0], [1.0, 4.0]].to_sparse_csr()?;
/// assert_eq!(sparse::spsolve(&a, &tensor![2.0, 9.0])?, tensor![1.0, 2.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If `a` is not sparse, not square, a batch, or singular; if the shapes do not go together; if the dtypes differ or
/// are not floating-point; without the feature `linalg`, if `a` is not triangular.
#[torsh_tensor::names_caller]
pub fn spsolve(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    within("sparse.spsolve", &[a, b], || {
        let pattern = square(a)?;
        one_dtype(a, b)?;
        let upper = match side(&pattern)? {
            Side::Lower => false,
            Side::Upper => true,
            Side::Both => return by_factors(a, b),
        };
        let options = attrs::SparseTriangle {
            upper,
            transposed: false,
            unit: false,
        };
        let x = solution(b, a, &options)?;
        check_diagonal(a, &pattern, &x)?;
        Ok(x)
    })
}
