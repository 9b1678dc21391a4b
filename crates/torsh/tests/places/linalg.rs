//! Linear algebra and special functions.

#![allow(clippy::redundant_clone)]

use torsh::prelude::*;

use super::fails;

/// One wrong call of each function, on a line of its own.
#[rustfmt::skip]
pub fn calls(x: &Tensor) {
    let x = x.clone();
    // What is called rightly fails for want of memory.
    torsh::alloc::set_limit(Some(1));
    fails(linalg::norm(&x));
    fails(linalg::norm_with(&x, Default::default()));
    fails(linalg::vector_norm(&x));
    fails(linalg::vector_norm_with(&x, Default::default()));
    fails(linalg::matrix_norm(&x));
    fails(linalg::matrix_norm_with(&x, Default::default()));
    fails(linalg::cond(&x));
    fails(linalg::cond_with(&x, Default::default()));
    fails(linalg::polar(&x));
    fails(linalg::matrix_sqrth(&x));
    fails(linalg::svd(&x));
    fails(linalg::svd_with(&x, Default::default()));
    fails(linalg::svdvals(&x));
    fails(linalg::svdvals_with(&x, Default::default()));
    fails(linalg::old_svd(&x));
    fails(linalg::old_svd_with(&x, Default::default()));
    fails(linalg::eigh(&x));
    fails(linalg::eigh_with(&x, Default::default()));
    fails(linalg::eigvalsh(&x));
    fails(linalg::eigvalsh_with(&x, Default::default()));
    fails(linalg::eig(&x));
    fails(linalg::eigvals(&x));
    fails(linalg::lu_factor(&x));
    fails(linalg::lu_factor_with(&x, Default::default()));
    fails(linalg::lu_factor_ex(&x));
    fails(linalg::lu_factor_ex_with(&x, Default::default()));
    fails(linalg::lu(&x));
    fails(linalg::lu_with(&x, Default::default()));
    fails(linalg::lu_unpack(&x, &x));
    fails(linalg::lu_unpack_with(&x, &x, Default::default()));
    fails(linalg::lu_solve(&x, &x, &x));
    fails(linalg::lu_solve_with(&x, &x, &x, Default::default()));
    fails(linalg::det(&x));
    fails(linalg::slogdet(&x));
    fails(linalg::logdet(&x));
    fails(linalg::matrix_power(&x, 9));
    fails(linalg::matrix_exp(&x));
    fails(linalg::diagonal(&x));
    fails(linalg::diagonal_with(&x, Default::default()));
    fails(linalg::vecdot(&x, &x));
    fails(linalg::vecdot_with(&x, &x, Default::default()));
    fails(linalg::vander(&x));
    fails(linalg::vander_with(&x, Default::default()));
    fails(linalg::old_vander(&x));
    fails(linalg::old_vander_with(&x, Default::default()));
    fails(linalg::cross(&x, &x, 9));
    fails(linalg::matmul(&x, &x));
    fails(linalg::lstsq(&x, &x));
    fails(linalg::lstsq_with(&x, &x, Default::default()));
    fails(linalg::pinv(&x));
    fails(linalg::pinv_with(&x, Default::default()));
    fails(linalg::pinverse(&x, 0.5));
    fails(linalg::matrix_rank(&x));
    fails(linalg::matrix_rank_with(&x, Default::default()));
    fails(linalg::qr(&x));
    fails(linalg::qr_with(&x, Default::default()));
    fails(linalg::geqrf(&x));
    fails(linalg::householder_product(&x, &x));
    fails(linalg::ormqr(&x, &x, &x));
    fails(linalg::ormqr_with(&x, &x, &x, Default::default()));
    fails(linalg::svd_lowrank(&x));
    fails(linalg::svd_lowrank_with(&x, Default::default()));
    fails(linalg::pca_lowrank(&x));
    fails(linalg::pca_lowrank_with(&x, Default::default()));
    fails(linalg::lobpcg(&x));
    fails(linalg::lobpcg_with(&x, Default::default()));
    fails(linalg::solve(&x, &x));
    fails(linalg::solve_with(&x, &x, Default::default()));
    fails(linalg::solve_ex(&x, &x));
    fails(linalg::solve_ex_with(&x, &x, Default::default()));
    fails(linalg::inv(&x));
    fails(linalg::inv_ex(&x));
    fails(linalg::inv_ex_with(&x, Default::default()));
    fails(linalg::solve_triangular(&x, &x, false));
    fails(linalg::solve_triangular_with(&x, &x, false, Default::default()));
    fails(linalg::triangular_solve(&x, &x));
    fails(linalg::triangular_solve_with(&x, &x, Default::default()));
    fails(linalg::tensorinv(&x, 9));
    fails(linalg::tensorsolve(&x, &x));
    fails(linalg::tensorsolve_with(&x, &x, None));
    fails(linalg::cholesky(&x));
    fails(linalg::cholesky_with(&x, Default::default()));
    fails(linalg::cholesky_ex(&x));
    fails(linalg::cholesky_ex_with(&x, Default::default()));
    fails(linalg::cholesky_solve(&x, &x));
    fails(linalg::cholesky_solve_with(&x, &x, Default::default()));
    fails(linalg::cholesky_inverse(&x));
    fails(linalg::cholesky_inverse_with(&x, Default::default()));
    fails(linalg::ldl_factor(&x));
    fails(linalg::ldl_factor_with(&x, Default::default()));
    fails(linalg::ldl_factor_ex(&x));
    fails(linalg::ldl_factor_ex_with(&x, Default::default()));
    fails(linalg::ldl_solve(&x, &x, &x));
    fails(linalg::ldl_solve_with(&x, &x, &x, Default::default()));
    fails(special::softmax(&x, 9));
    fails(special::softmax_with(&x, 9, Default::default()));
    fails(special::log_softmax(&x, 9));
    fails(special::log_softmax_with(&x, 9, Default::default()));
    fails(special::logsumexp(&x, 9, false));
    fails(special::logit_with(&x, Default::default()));
    fails(special::round_decimals(&x, 9));
    fails(special::polygamma(9, &x));
    fails(special::multigammaln(&x, 9));
    torsh::alloc::set_limit(None);
}
