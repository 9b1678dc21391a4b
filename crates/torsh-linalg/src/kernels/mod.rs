//! The CPU's kernels: each reads a batch of matrices from its operands, and writes their factors or solutions.
//!
//! They check all that they are called with ([`KernelKey`](torsh_core::kernel::KernelKey)). Each is compiled for the four number types once.

pub(crate) mod batch;
mod batched;
mod blocked;
mod choose;
mod divide;
pub(crate) mod field;
mod francis;
mod lanes;
mod ldl;
pub(crate) mod matrix_factor;
pub(crate) mod matrix_solve;
pub(crate) mod matrix_spectral;
mod pade;
mod reduced;
pub(crate) mod small;
mod tridiagonal;
mod tuning;

use num_complex::Complex;
use torsh_core::DType;
use torsh_core::kernel::HostCall;

use batched::batch_factor::{
    cholesky, det, geqrf, householder_product, ldl_factor, lu_factor, ormqr, qr, slogdet,
};
use batched::batch_solve::{
    ldl_solve, lstsq, lu_solve, pinv, solve_general, solve_triangular, sylvester,
};
use batched::batch_spectral::{eig, eigh, matrix_exp, matrix_sqrth, polar, svd};
use field::Real;

/// Calls a kernel in the dtype of the call.
macro_rules! dispatch {
    ($c:ident, $f:ident) => {
        match $c.compute() {
            DType::F32 => $f::<f32>($c),
            DType::F64 => $f::<f64>($c),
            DType::C64 => $f::<Complex<f32>>($c),
            DType::C128 => $f::<Complex<f64>>($c),
            _ => Err($c.unsupported()),
        }
    };
}

/// Calls a kernel in the dtype of the call, which computes in double precision where it is told to.
macro_rules! dispatch_wide {
    ($c:ident, $f:ident, $wide:expr) => {
        match ($c.compute(), $wide) {
            (DType::F32, true) => $f::<f32, f64>($c),
            (DType::F32, false) => $f::<f32, f32>($c),
            (DType::F64, _) => $f::<f64, f64>($c),
            (DType::C64, true) => $f::<Complex<f32>, Complex<f64>>($c),
            (DType::C64, false) => $f::<Complex<f32>, Complex<f32>>($c),
            (DType::C128, _) => $f::<Complex<f64>, Complex<f64>>($c),
            _ => Err($c.unsupported()),
        }
    };
}

/// Whether the matrices of a call are so small that double precision costs nothing: then single precision results are
/// exact to the last place or two.
fn is_small(c: &HostCall<'_>) -> bool {
    matches!(c.input_shape(0), Ok([.., m, n]) if *m.max(n) <= tuning::SMALL)
}

/// The keys of the kernels.
pub(crate) mod keys {
    use super::*;

    torsh_core::kernel_keys! {
        CHOLESKY "LinalgCholesky" |c| dispatch!(c, cholesky);
        LU_FACTOR "LinalgLuFactor" |c| dispatch!(c, lu_factor);
        LU_SOLVE "LinalgLuSolve" |c| dispatch!(c, lu_solve);
        SOLVE "LinalgSolve" |c| dispatch!(c, solve_general);
        SOLVE_TRIANGULAR "LinalgSolveTriangular" |c| dispatch!(c, solve_triangular);
        DET "LinalgDet" |c| dispatch!(c, det);
        SLOGDET "LinalgSlogdet" |c| dispatch!(c, slogdet);
        QR "LinalgQr" |c| dispatch!(c, qr);
        GEQRF "LinalgGeqrf" |c| dispatch!(c, geqrf);
        HOUSEHOLDER_PRODUCT "LinalgHouseholderProduct" |c| dispatch!(c, householder_product);
        ORMQR "LinalgOrmqr" |c| dispatch!(c, ormqr);
        EIGH "LinalgEigh" |c| dispatch_wide!(c, eigh, is_small(c));
        SVD "LinalgSvd" |c| dispatch_wide!(c, svd, is_small(c));
        EIG "LinalgEig" |c| dispatch_wide!(c, eig, is_small(c));
        LDL_FACTOR "LinalgLdlFactor" |c| dispatch!(c, ldl_factor);
        LDL_SOLVE "LinalgLdlSolve" |c| dispatch!(c, ldl_solve);
        LSTSQ "LinalgLstsq" |c| dispatch!(c, lstsq);
        PINV "LinalgPinv" |c| dispatch!(c, pinv);
        MATRIX_EXP "LinalgMatrixExp" |c| dispatch_wide!(c, matrix_exp, is_small(c));
        POLAR "LinalgPolar" |c| dispatch!(c, polar);
        MATRIX_SQRTH "LinalgMatrixSqrth" |c| dispatch!(c, matrix_sqrth);
        SYLVESTER "LinalgSylvester" |c| dispatch!(c, sylvester);
    }
}

/// The distance from 1 to the next number of a dtype's real type.
pub(crate) fn epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::F32 | DType::C64 => <f32 as Real>::EPS.wide(),
        _ => <f64 as Real>::EPS.wide(),
    }
}
