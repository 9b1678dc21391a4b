//! Linear algebra, as `torch.linalg`: decompositions, solvers, determinants, norms and functions of matrices, with their
//! derivatives.
//!
//! ```
//! use torsh_linalg as linalg;
//! use torsh_tensor::tensor;
//!
//! let a = tensor![[4.0, 2.0], [2.0, 3.0]];
//! let x = linalg::solve(&a, &tensor![8.0, 8.0])?;
//! assert!(a.matmul(&x)?.allclose(&tensor![8.0, 8.0])?);
//! let (l, _) = linalg::eigh(&a)?;
//! assert!(l.sum()?.allclose(&tensor![7.0].sum()?)?);
//! # Ok::<(), torsh_tensor::TorshError>(())
//! ```
//!
//! A function takes what PyTorch's requires; `NAME_with` takes the keyword arguments too. Two or three results are a tuple,
//! the four of [`lstsq`] a struct. Operands are batches of matrices: `[.., m, n]`, of any number of dimensions before the
//! last two, any of which may be 0. Decompositions compute in float32, float64, complex64 and complex128.
//!
//! The methods of PyTorch's tensors are those of [`LinalgExt`]. The ops are called by name, too:
//!
//! ```
//! use torsh_linalg as _;
//! use torsh_tensor::{ops, tensor};
//! let d = ops::call("linalg.det", &[(&tensor![[2.0]]).into()], &[])?;
//! assert_eq!(d.tensors()[0].item::<f32>()?, 2.0);
//! # Ok::<(), torsh_tensor::TorshError>(())
//! ```
//!
//! One matrix is decomposed by blocks, on as many threads as are worth it. The crate `faer` finds the singular vectors of
//! float64 and complex matrices, the eigenvalues of large general and of complex matrices, and the eigenvectors of large
//! tridiagonal ones. The matrices of a batch are shared among the threads; where they are real and have at most 32 rows and
//! columns, each lane of a vector holds another one, so that 16 of float32 or 8 of float64 are decomposed at a time.

#![forbid(unsafe_code)]

pub(crate) mod attrs;
mod cholesky;
mod det;
mod help;
mod kernels;
mod ldl;
mod least_squares;
mod lowrank;
mod lu;
mod methods;
mod norms;
mod options;
mod products;
mod qr;
mod roots;
mod solve;
mod spectral;

use torsh_tensor::ops::{Alias, Family};
use torsh_tensor::record::OpRecord;
use torsh_tensor::{IntoDim, Result, Tensor};

pub use cholesky::{
    cholesky, cholesky_ex, cholesky_ex_with, cholesky_inverse, cholesky_inverse_with,
    cholesky_solve, cholesky_solve_with, cholesky_with,
};
pub use det::{det, logdet, slogdet};
pub use ldl::{
    ldl_factor, ldl_factor_ex, ldl_factor_ex_with, ldl_factor_with, ldl_solve, ldl_solve_with,
};
pub use least_squares::{
    Lstsq, lstsq, lstsq_with, matrix_rank, matrix_rank_with, pinv, pinv_with, pinverse,
};
pub use lowrank::{
    lobpcg, lobpcg_with, pca_lowrank, pca_lowrank_with, svd_lowrank, svd_lowrank_with,
};
pub use lu::{
    lu, lu_factor, lu_factor_ex, lu_factor_ex_with, lu_factor_with, lu_solve, lu_solve_with,
    lu_unpack, lu_unpack_with, lu_with,
};
pub use methods::LinalgExt;
pub use norms::{
    cond, cond_with, matrix_norm, matrix_norm_with, norm, norm_with, vector_norm, vector_norm_with,
};
pub use options::*;
pub use products::{
    chain_matmul, diagonal, diagonal_with, matrix_exp, matrix_power, multi_dot, old_vander,
    old_vander_with, vander, vander_with, vecdot, vecdot_with,
};
pub use qr::{geqrf, householder_product, ormqr, ormqr_with, qr, qr_with};
pub use roots::{matrix_sqrth, polar};
pub use solve::{
    inv, inv_ex, inv_ex_with, solve, solve_ex, solve_ex_with, solve_triangular,
    solve_triangular_with, solve_with, tensorinv, tensorsolve, tensorsolve_with, triangular_solve,
    triangular_solve_with,
};
pub use spectral::{
    eig, eigh, eigh_with, eigvals, eigvalsh, eigvalsh_with, old_svd, old_svd_with, svd, svd_with,
    svdvals, svdvals_with,
};
pub use torsh_tensor::NormOrd;

const FAMILIES: [&[&OpRecord]; 11] = [
    cholesky::RECORDS,
    lu::RECORDS,
    det::RECORDS,
    solve::RECORDS,
    qr::RECORDS,
    spectral::RECORDS,
    least_squares::RECORDS,
    norms::RECORDS,
    products::RECORDS,
    ldl::RECORDS,
    roots::RECORDS,
];

const COUNT: usize = {
    let (mut n, mut i) = (lowrank::RECORDS.len(), 0);
    while i < FAMILIES.len() {
        n += FAMILIES[i].len();
        i += 1;
    }
    n
};

/// All records as one list.
static RECORDS: [&OpRecord; COUNT] = {
    let mut all = [lowrank::RECORDS[0]; COUNT];
    let (mut n, mut i) = (0, 0);
    while n < lowrank::RECORDS.len() {
        all[n] = lowrank::RECORDS[n];
        n += 1;
    }
    while i < FAMILIES.len() {
        let mut k = 0;
        while k < FAMILIES[i].len() {
            all[n] = FAMILIES[i][k];
            (n, k) = (n + 1, k + 1);
        }
        i += 1;
    }
    all
};

const fn alias(name: &'static str, base: &'static str) -> Alias {
    Alias {
        name,
        base,
        parameters: &[("input", "A")],
    }
}

static FAMILY: Family = Family {
    feature: "linalg",
    records: &RECORDS,
    aliases: &[
        alias("det", "linalg.det"),
        alias("inverse", "linalg.inv"),
        alias("matrix_exp", "linalg.matrix_exp"),
        alias("matrix_power", "linalg.matrix_power"),
        alias("orgqr", "linalg.householder_product"),
        alias("slogdet", "linalg.slogdet"),
    ],
    attributes: attrs::READERS,
    sparse: &[],
};

torsh_tensor::family!(FAMILY);

/// The cross products of vectors of 3 elements along a dimension (`torch.linalg.cross`); [`Tensor::linalg_cross`].
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// assert_eq!(linalg::cross(&tensor![1, 0, 0], &tensor![0, 1, 0], -1)?, tensor![0, 0, 1]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As the method.
#[track_caller]
pub fn cross(input: &Tensor, other: &Tensor, dim: impl IntoDim) -> Result<Tensor> {
    input.linalg_cross(other, dim)
}

/// The product of matrices or vectors (`torch.linalg.matmul`); [`Tensor::matmul`].
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// assert_eq!(linalg::matmul(&tensor![1.0, 2.0], &tensor![3.0, 4.0])?.item::<f32>()?, 11.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As the method.
#[track_caller]
pub fn matmul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    a.matmul(b)
}
