//! PyTorch's methods of tensors.

use torsh_tensor::{Result, Tensor};

use crate::options::{CholeskyOptions, OrmqrOptions, TriangularSolveOptions};

/// The methods that PyTorch's tensors have for linear algebra; the prelude of the crate `torsh` brings it into scope.
///
/// ```
/// use torsh_linalg::LinalgExt;
/// use torsh_tensor::tensor;
/// let a = tensor![[2.0, 0.0], [0.0, 4.0]];
/// assert_eq!(a.det()?.item::<f32>()?, 8.0);
/// assert_eq!(a.inverse()?, tensor![[0.5, 0.0], [0.0, 0.25]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub trait LinalgExt: sealed::Sealed {
    /// [`crate::cholesky`].
    fn cholesky(&self) -> Result<Tensor>;
    /// [`crate::cholesky_inverse`].
    fn cholesky_inverse(&self) -> Result<Tensor>;
    /// [`crate::cholesky_solve_with`], of the right-hand sides.
    fn cholesky_solve(&self, l: &Tensor, upper: bool) -> Result<Tensor>;
    /// [`crate::det`].
    fn det(&self) -> Result<Tensor>;
    /// [`crate::geqrf`].
    fn geqrf(&self) -> Result<(Tensor, Tensor)>;
    /// [`crate::inv`].
    fn inverse(&self) -> Result<Tensor>;
    /// [`crate::logdet`].
    fn logdet(&self) -> Result<Tensor>;
    /// [`crate::lu_factor`]: both factors in one matrix, and the pivots.
    fn lu(&self) -> Result<(Tensor, Tensor)>;
    /// [`crate::lu_solve`], of the right-hand sides.
    fn lu_solve(&self, lu: &Tensor, pivots: &Tensor) -> Result<Tensor>;
    /// [`crate::matrix_exp`].
    fn matrix_exp(&self) -> Result<Tensor>;
    /// [`crate::matrix_power`].
    fn matrix_power(&self, n: i64) -> Result<Tensor>;
    /// [`crate::householder_product`].
    fn orgqr(&self, tau: &Tensor) -> Result<Tensor>;
    /// [`crate::ormqr`].
    fn ormqr(&self, tau: &Tensor, other: &Tensor) -> Result<Tensor>;
    /// [`crate::ormqr_with`].
    fn ormqr_with(&self, tau: &Tensor, other: &Tensor, options: OrmqrOptions) -> Result<Tensor>;
    /// [`crate::pinverse`], with 1e-15.
    fn pinverse(&self) -> Result<Tensor>;
    /// [`crate::qr`].
    fn qr(&self) -> Result<(Tensor, Tensor)>;
    /// [`crate::slogdet`].
    fn slogdet(&self) -> Result<(Tensor, Tensor)>;
    /// [`crate::old_svd`]: `(U, S, V)`, with as many vectors as singular values.
    fn svd(&self) -> Result<(Tensor, Tensor, Tensor)>;
    /// [`crate::triangular_solve`], of the right-hand sides.
    fn triangular_solve(&self, a: &Tensor) -> Result<(Tensor, Tensor)>;
    /// [`crate::triangular_solve_with`], of the right-hand sides.
    fn triangular_solve_with(
        &self,
        a: &Tensor,
        options: TriangularSolveOptions,
    ) -> Result<(Tensor, Tensor)>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for torsh_tensor::Tensor {}
}

impl LinalgExt for Tensor {
    #[torsh_tensor::names_caller]
    fn cholesky(&self) -> Result<Tensor> {
        crate::cholesky(self)
    }
    #[track_caller]
    fn cholesky_inverse(&self) -> Result<Tensor> {
        crate::cholesky_inverse(self)
    }
    #[torsh_tensor::names_caller]
    fn cholesky_solve(&self, l: &Tensor, upper: bool) -> Result<Tensor> {
        crate::cholesky_solve_with(self, l, CholeskyOptions { upper })
    }
    #[torsh_tensor::names_caller]
    fn det(&self) -> Result<Tensor> {
        crate::det(self)
    }
    #[torsh_tensor::names_caller]
    fn geqrf(&self) -> Result<(Tensor, Tensor)> {
        crate::geqrf(self)
    }
    #[track_caller]
    fn inverse(&self) -> Result<Tensor> {
        crate::inv(self)
    }
    #[track_caller]
    fn logdet(&self) -> Result<Tensor> {
        crate::logdet(self)
    }
    #[torsh_tensor::names_caller]
    fn lu(&self) -> Result<(Tensor, Tensor)> {
        crate::lu_factor(self)
    }
    #[torsh_tensor::names_caller]
    fn lu_solve(&self, lu: &Tensor, pivots: &Tensor) -> Result<Tensor> {
        crate::lu_solve(lu, pivots, self)
    }
    #[torsh_tensor::names_caller]
    fn matrix_exp(&self) -> Result<Tensor> {
        crate::matrix_exp(self)
    }
    #[track_caller]
    fn matrix_power(&self, n: i64) -> Result<Tensor> {
        crate::matrix_power(self, n)
    }
    #[torsh_tensor::names_caller]
    fn orgqr(&self, tau: &Tensor) -> Result<Tensor> {
        crate::householder_product(self, tau)
    }
    #[torsh_tensor::names_caller]
    fn ormqr(&self, tau: &Tensor, other: &Tensor) -> Result<Tensor> {
        crate::ormqr(self, tau, other)
    }
    #[track_caller]
    fn ormqr_with(&self, tau: &Tensor, other: &Tensor, options: OrmqrOptions) -> Result<Tensor> {
        crate::ormqr_with(self, tau, other, options)
    }
    #[track_caller]
    fn pinverse(&self) -> Result<Tensor> {
        crate::pinverse(self, 1e-15)
    }
    #[torsh_tensor::names_caller]
    fn qr(&self) -> Result<(Tensor, Tensor)> {
        crate::qr(self)
    }
    #[torsh_tensor::names_caller]
    fn slogdet(&self) -> Result<(Tensor, Tensor)> {
        crate::slogdet(self)
    }
    #[track_caller]
    fn svd(&self) -> Result<(Tensor, Tensor, Tensor)> {
        crate::old_svd(self)
    }
    #[track_caller]
    fn triangular_solve(&self, a: &Tensor) -> Result<(Tensor, Tensor)> {
        crate::triangular_solve(self, a)
    }
    #[track_caller]
    fn triangular_solve_with(
        &self,
        a: &Tensor,
        options: TriangularSolveOptions,
    ) -> Result<(Tensor, Tensor)> {
        crate::triangular_solve_with(self, a, options)
    }
}
