//! Direct solvers: decompositions of sparse matrices that solve for many right-hand sides.

use std::fmt;
use std::sync::Arc;

use torsh_tensor::devices::{Fallback, fallback};
use torsh_tensor::sparse::Pattern;
use torsh_tensor::{Result, Tensor, TorshError, is_grad_enabled, no_grad};

use crate::csr::{carrier, flat_values, one_dtype};
use crate::factors::{Analysis, Columns, Factored, Method, With, answered, factors};
use crate::help::within;
use crate::triangular::{for_sides, square};

/// A matrix that is factored.
#[derive(Clone)]
struct System {
    method: Method,
    columns: Arc<Columns>,
    analysis: Arc<Analysis>,
    factors: Arc<dyn Factored>,
    carrier: Tensor,
    /// Without elements, of the matrix's dtype and device.
    nothing: Tensor,
    /// The matrix and its version, where gradients flow to it.
    matrix: Option<(Tensor, u64)>,
}

impl System {
    fn new(method: Method, a: &Tensor) -> Result<System> {
        let pattern = square(a)?;
        check_device(a)?;
        let columns = Columns::of(&pattern)?;
        let analysis = Analysis::of(method, &pattern, &columns)?;
        System::of(method, a, &pattern, columns, analysis)
    }

    fn of(
        method: Method,
        a: &Tensor,
        pattern: &Pattern,
        columns: Arc<Columns>,
        analysis: Arc<Analysis>,
    ) -> Result<System> {
        let factors = factors(&analysis, &columns, &no_grad(|| flat_values(a))?)?;
        let differentiable = a.requires_grad() && is_grad_enabled();
        Ok(System {
            method,
            columns,
            analysis,
            factors,
            carrier: carrier(pattern)?,
            nothing: Tensor::zeros(0, a.dtype(), a.device())?,
            matrix: differentiable.then(|| (a.clone(), a.version())),
        })
    }

    /// The factors of other values at the same places.
    fn renewed(&self, a: &Tensor) -> Result<System> {
        let pattern = square(a)?;
        check_device(a)?;
        one_dtype(&self.nothing, a)?;
        let n = self.columns.n;
        let other = |what: String| {
            TorshError::invalid("", format!("the factors are of another pattern: {what}"))
                .with_hint(
                    "factor the matrix anew, or store zeros so that all matrices have one pattern",
                )
        };
        if a.dims()[0] != n {
            return Err(other(format!(
                "the matrix has the shape {}, theirs has [{n}, {n}]",
                a.shape()
            )));
        }
        let columns = Columns::of(&pattern)?;
        if !columns.is_same(&self.columns) {
            return Err(other(
                "the matrix stores elements at other places".to_string(),
            ));
        }
        System::of(self.method, a, &pattern, columns, self.analysis.clone())
    }

    fn solution(&self, b: &Tensor, adjoint: bool) -> Result<Tensor> {
        one_dtype(&self.nothing, b)?;
        if b.device() != self.nothing.device() {
            return Err(TorshError::device(
                "",
                format!(
                    "the matrix is on {}, the right-hand side on {}",
                    self.nothing.device(),
                    b.device()
                ),
            )
            .with_hint("move one of them with to_device(..)"));
        }
        let values = match &self.matrix {
            Some((a, version)) if is_grad_enabled() => {
                if a.version() != *version {
                    return Err(TorshError::autograd(
                        "",
                        "the matrix was written after it was factored: its gradient would be that of other values",
                    )
                    .with_hint("call refactor(&a) after each change of the matrix"));
                }
                flat_values(a)?
            }
            _ => self.nothing.clone(),
        };
        let with = With {
            factors: self.factors.clone(),
            method: self.method,
            adjoint,
        };
        for_sides(self.columns.n, b, |b| {
            answered(&values, &self.carrier, b, &with)
        })
    }

    fn show(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(name)
            .field("n", &self.columns.n)
            .field("dtype", &self.nothing.dtype())
            .finish()
    }
}

/// Refuses a matrix whose values are not known, and one that the CPU may not factor for its device.
fn check_device(a: &Tensor) -> Result<()> {
    let device = a.device();
    if !device.has_data() {
        return Err(TorshError::invalid(
            "",
            "the values of a tensor on the meta device are not known",
        ));
    }
    match device.is_host() || fallback() == Fallback::Cpu {
        true => Ok(()),
        false => Err(TorshError::device(
            "",
            format!(
                "{device} has no kernel that factors a matrix of the layout {}",
                a.layout()
            ),
        )
        .with_hint("call set_fallback(Fallback::Cpu) to factor it on the CPU, or move the operands there with to_device(Device::Cpu)")),
    }
}

/// The solution of a system whose matrix is not triangular.
pub(crate) fn solution(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    System::new(Method::Lu, a)?.solution(b, false)
}

/// The LU decomposition of a sparse square matrix, `[n, n]`: it is computed once, and solves for any number of
/// right-hand sides.
///
/// The matrix has any sparse layout, and the dtype float32, float64, complex64 or complex128. Rows are exchanged for a
/// large pivot, columns for sparse factors. The factors are a copy: they stay what they are when the matrix is written.
///
/// The CPU computes factors and solutions. For a matrix on another device it does so where
/// [`set_fallback`](torsh_tensor::devices::set_fallback) allows it; solutions are on the matrix's device.
///
/// ```
/// use torsh_sparse::{self as sparse, SparseExt};
/// use torsh_tensor::tensor;
/// let a = tensor![[4.0, 2.0], [2.0, -4.0]].to_sparse_csr()?;
/// let lu = sparse::lu(&a)?;
/// assert_eq!(lu.solve(&tensor![10.0, 0.0])?, tensor![2.0, 1.0]);
/// assert_eq!(lu.solve(&tensor![[4.0], [2.0]])?, tensor![[1.0], [0.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If `a` is not sparse, not square, a batch, of another dtype, or singular, or has elements that are infinite or nan; if it
/// is on another device than the CPU, unless the fallback is the CPU.
#[torsh_tensor::names_caller]
pub fn lu(a: &Tensor) -> Result<SparseLu> {
    within("sparse.lu", &[a], || {
        System::new(Method::Lu, a).map(SparseLu)
    })
}

/// The Cholesky decomposition of a sparse Hermitian positive definite matrix, `[n, n]`: it is computed once, and solves
/// for any number of right-hand sides, in about half the time and memory of [`lu`].
///
/// As `torch.linalg.cholesky` does, it reads the diagonal and the elements below it; elements above it may be stored or
/// not. The gradient of an element below the diagonal counts for the one above it too, whose own gradient is 0. Layouts
/// and dtypes are those of [`lu`].
///
/// ```
/// use torsh_sparse::{self as sparse, SparseExt};
/// use torsh_tensor::tensor;
/// let lower = tensor![[25.0, 0.0], [20.0, 25.0]].to_sparse_csr()?;
/// let cholesky = sparse::cholesky(&lower)?;
/// assert_eq!(cholesky.solve(&tensor![65.0, 70.0])?, tensor![1.0, 2.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If `a` is not sparse, not square, a batch, of another dtype, or not positive definite, or has elements that are
/// infinite or nan; if it is on another device than the CPU, unless the fallback is the CPU.
#[torsh_tensor::names_caller]
pub fn cholesky(a: &Tensor) -> Result<SparseCholesky> {
    within("sparse.cholesky", &[a], || {
        System::new(Method::Cholesky, a).map(SparseCholesky)
    })
}

/// The factors that [`lu`] computes.
///
/// If the matrix requires a gradient when it is factored, solutions give it one, of its pattern. A clone shares the
/// factors.
///
/// ```
/// use torsh_sparse::{self as sparse, SparseExt};
/// use torsh_tensor::tensor;
/// let a = tensor![[4.0, 2.0], [2.0, -4.0]].to_sparse_csr()?.requires_grad_(true);
/// let lu = sparse::lu(&a)?;
/// lu.solve(&tensor![10.0, 0.0])?.select(0, 0)?.backward()?;
/// let g = a.grad().expect("a gradient").to_dense()?;
/// assert!(g.allclose(&tensor![[-0.4, -0.2], [-0.2, -0.1]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone)]
pub struct SparseLu(System);

impl SparseLu {
    /// The number of rows of the matrix.
    ///
    /// ```
    /// use torsh_sparse::{self as sparse, SparseExt};
    /// use torsh_tensor::tensor;
    /// assert_eq!(sparse::lu(&tensor![[4.0]].to_sparse()?)?.n(), 1);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn n(&self) -> usize {
        self.0.columns.n
    }

    /// The solution `X` of `A X = B`, for `[n]` or `[n, k]` right-hand sides of the matrix's dtype. It is strided, of
    /// the shape of `b`.
    ///
    /// ```
    /// use torsh_sparse::{self as sparse, SparseExt};
    /// use torsh_tensor::tensor;
    /// let lu = sparse::lu(&tensor![[0.0, 2.0], [4.0, 0.0]].to_sparse()?)?;
    /// assert_eq!(lu.solve(&tensor![2.0, 8.0])?, tensor![2.0, 1.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// If `b` is sparse, or has another dtype, another device or another number of rows. If the matrix requires a
    /// gradient and was written after it was factored.
    #[torsh_tensor::names_caller]
    pub fn solve(&self, b: &Tensor) -> Result<Tensor> {
        within("SparseLu.solve", &[b], || self.0.solution(b, false))
    }

    /// The solution `X` of `A^H X = B`, with the conjugate transpose of the matrix, by the same factors.
    ///
    /// ```
    /// use torsh_sparse::{self as sparse, SparseExt};
    /// use torsh_tensor::tensor;
    /// let lu = sparse::lu(&tensor![[0.0, 2.0], [4.0, 0.0]].to_sparse()?)?;
    /// assert_eq!(lu.solve_adjoint(&tensor![2.0, 8.0])?, tensor![4.0, 0.5]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`SparseLu::solve`].
    #[torsh_tensor::names_caller]
    pub fn solve_adjoint(&self, b: &Tensor) -> Result<Tensor> {
        within("SparseLu.solve_adjoint", &[b], || self.0.solution(b, true))
    }

    /// Factors another matrix that stores elements at the same places, in any layout. The order of the columns and all
    /// else that depends on the places alone is not computed again. Solutions that were computed before keep their
    /// gradients. After an error the factors are those from before.
    ///
    /// ```
    /// use torsh_sparse::{self as sparse, SparseExt};
    /// use torsh_tensor::tensor;
    /// let a = tensor![[0.0, 2.0], [4.0, 0.0]].to_sparse_csr()?;
    /// let mut lu = sparse::lu(&a)?;
    /// lu.refactor(&a.mul(2.0)?)?;
    /// assert_eq!(lu.solve(&tensor![2.0, 8.0])?, tensor![1.0, 0.5]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// If `a` stores elements at other places, has another shape or dtype, or is singular.
    #[torsh_tensor::names_caller]
    pub fn refactor(&mut self, a: &Tensor) -> Result<()> {
        self.0 = within("SparseLu.refactor", &[a], || self.0.renewed(a))?;
        Ok(())
    }
}

impl fmt::Debug for SparseLu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.show("SparseLu", f)
    }
}

/// The factor that [`cholesky`] computes.
///
/// If the matrix requires a gradient when it is factored, solutions give it one, of its pattern. A clone shares the
/// factor.
///
/// ```
/// use torsh_sparse::{self as sparse, SparseExt};
/// use torsh_tensor::tensor;
/// let a = tensor![[4.0, 0.0], [0.0, 16.0]].to_sparse_csr()?.requires_grad_(true);
/// let cholesky = sparse::cholesky(&a)?;
/// cholesky.solve(&tensor![8.0, 16.0])?.sum()?.backward()?;
/// let g = a.grad().expect("a gradient").to_dense()?;
/// assert!(g.allclose(&tensor![[-0.5, 0.0], [0.0, -0.0625]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone)]
pub struct SparseCholesky(System);

impl SparseCholesky {
    /// The number of rows of the matrix.
    ///
    /// ```
    /// use torsh_sparse::{self as sparse, SparseExt};
    /// use torsh_tensor::tensor;
    /// assert_eq!(sparse::cholesky(&tensor![[4.0]].to_sparse()?)?.n(), 1);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn n(&self) -> usize {
        self.0.columns.n
    }

    /// As [`SparseLu::solve`].
    ///
    /// ```
    /// use torsh_sparse::{self as sparse, SparseExt};
    /// use torsh_tensor::tensor;
    /// let cholesky = sparse::cholesky(&tensor![[4.0, 0.0], [0.0, 16.0]].to_sparse()?)?;
    /// assert_eq!(cholesky.solve(&tensor![8.0, 16.0])?, tensor![2.0, 1.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`SparseLu::solve`].
    #[torsh_tensor::names_caller]
    pub fn solve(&self, b: &Tensor) -> Result<Tensor> {
        within("SparseCholesky.solve", &[b], || self.0.solution(b, false))
    }

    /// As [`SparseLu::refactor`].
    ///
    /// ```
    /// use torsh_sparse::{self as sparse, SparseExt};
    /// use torsh_tensor::tensor;
    /// let a = tensor![[4.0, 0.0], [0.0, 16.0]].to_sparse_csr()?;
    /// let mut cholesky = sparse::cholesky(&a)?;
    /// cholesky.refactor(&a.mul(4.0)?)?;
    /// assert_eq!(cholesky.solve(&tensor![32.0, 64.0])?, tensor![2.0, 1.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// If `a` stores elements at other places, has another shape or dtype, or is not positive definite.
    #[torsh_tensor::names_caller]
    pub fn refactor(&mut self, a: &Tensor) -> Result<()> {
        self.0 = within("SparseCholesky.refactor", &[a], || self.0.renewed(a))?;
        Ok(())
    }
}

impl fmt::Debug for SparseCholesky {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.show("SparseCholesky", f)
    }
}
