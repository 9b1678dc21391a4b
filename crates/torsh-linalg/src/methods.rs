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
#[torsh_tensor::functions(trait LinalgExt)]
impl Tensor {
    /// [`crate::cholesky`].
    #[torsh_tensor::names_caller]
    pub fn cholesky(&self) -> Result<Tensor> {
        crate::cholesky(self)
    }
    /// [`crate::cholesky_inverse`].
    #[track_caller]
    pub fn cholesky_inverse(&self) -> Result<Tensor> {
        crate::cholesky_inverse(self)
    }
    /// [`crate::cholesky_solve_with`], of the right-hand sides.
    #[torsh_tensor::names_caller]
    pub fn cholesky_solve(&self, l: &Tensor, upper: bool) -> Result<Tensor> {
        crate::cholesky_solve_with(self, l, CholeskyOptions { upper })
    }
    /// [`crate::det`].
    #[torsh_tensor::names_caller]
    pub fn det(&self) -> Result<Tensor> {
        crate::det(self)
    }
    /// [`crate::geqrf`].
    #[torsh_tensor::names_caller]
    pub fn geqrf(&self) -> Result<(Tensor, Tensor)> {
        crate::geqrf(self)
    }
    /// [`crate::inv`].
    #[track_caller]
    pub fn inverse(&self) -> Result<Tensor> {
        crate::inv(self)
    }
    /// [`crate::logdet`].
    #[track_caller]
    pub fn logdet(&self) -> Result<Tensor> {
        crate::logdet(self)
    }
    /// [`crate::lu_factor`]: both factors in one matrix, and the pivots.
    #[torsh_tensor::names_caller]
    pub fn lu(&self) -> Result<(Tensor, Tensor)> {
        crate::lu_factor(self)
    }
    /// [`crate::lu_solve`], of the right-hand sides.
    #[torsh_tensor::names_caller]
    pub fn lu_solve(&self, lu: &Tensor, pivots: &Tensor) -> Result<Tensor> {
        crate::lu_solve(lu, pivots, self)
    }
    /// [`crate::matrix_exp`].
    #[torsh_tensor::names_caller]
    pub fn matrix_exp(&self) -> Result<Tensor> {
        crate::matrix_exp(self)
    }
    /// [`crate::matrix_power`].
    #[track_caller]
    pub fn matrix_power(&self, n: i64) -> Result<Tensor> {
        crate::matrix_power(self, n)
    }
    /// [`crate::householder_product`].
    #[torsh_tensor::names_caller]
    pub fn orgqr(&self, tau: &Tensor) -> Result<Tensor> {
        crate::householder_product(self, tau)
    }
    /// [`crate::ormqr`].
    #[torsh_tensor::names_caller]
    pub fn ormqr(&self, tau: &Tensor, other: &Tensor) -> Result<Tensor> {
        crate::ormqr(self, tau, other)
    }
    /// [`crate::ormqr_with`].
    #[track_caller]
    pub fn ormqr_with(
        &self,
        tau: &Tensor,
        other: &Tensor,
        options: OrmqrOptions,
    ) -> Result<Tensor> {
        crate::ormqr_with(self, tau, other, options)
    }
    /// [`crate::pinverse`], with 1e-15.
    #[track_caller]
    pub fn pinverse(&self) -> Result<Tensor> {
        crate::pinverse(self, 1e-15)
    }
    /// [`crate::qr`].
    #[torsh_tensor::names_caller]
    pub fn qr(&self) -> Result<(Tensor, Tensor)> {
        crate::qr(self)
    }
    /// [`crate::slogdet`].
    #[torsh_tensor::names_caller]
    pub fn slogdet(&self) -> Result<(Tensor, Tensor)> {
        crate::slogdet(self)
    }
    /// [`crate::old_svd`]: `(U, S, V)`, with as many vectors as singular values.
    #[track_caller]
    pub fn svd(&self) -> Result<(Tensor, Tensor, Tensor)> {
        crate::old_svd(self)
    }
    /// [`crate::triangular_solve`], of the right-hand sides.
    #[track_caller]
    pub fn triangular_solve(&self, a: &Tensor) -> Result<(Tensor, Tensor)> {
        crate::triangular_solve(self, a)
    }
    /// [`crate::triangular_solve_with`], of the right-hand sides.
    #[track_caller]
    pub fn triangular_solve_with(
        &self,
        a: &Tensor,
        options: TriangularSolveOptions,
    ) -> Result<(Tensor, Tensor)> {
        crate::triangular_solve_with(self, a, options)
    }
}
