//! Factors of symmetric and Hermitian matrices that need not be positive definite.

use smallvec::smallvec;
use torsh_core::DType;
use torsh_tensor::call::Arg;
use torsh_tensor::record::{OpRecord, Plan, Spec, sample};
use torsh_tensor::{Autocast, Result, Tensor, TorshError};

use crate::attrs;
use crate::help::{
    alike, batch, broadcast, check_info, check_matrix, check_square, shape, sides, squares, within,
};
use crate::kernels::keys;
use crate::options::{LdlFactorExOptions, LdlOptions};

pub(crate) const RECORDS: &[&OpRecord] = &[&LDL_FACTOR_EX, &LDL_FACTOR, &LDL_SOLVE];

#[torsh_tensor::by_name(ldl_factor_ex_with(.., LdlFactorExOptions))]
static LDL_FACTOR_EX: OpRecord = OpRecord::new(
    "linalg.ldl_factor_ex",
    "The LDL factors of symmetric or Hermitian matrices in LAPACK's packed form, the pivots, and the position of the first zero block (0 where there is none).",
    "(Tensor A, *, bool hermitian=False, bool check_errors=False)",
)
.with_key(&keys::LDL_FACTOR, |c| {
    let a = squares(c, 0)?;
    c.attrs::<attrs::LinalgLdl>()?;
    Ok(Plan::many(
        a.dtype(),
        [
            Spec::new(a.shape().clone(), a.dtype()),
            Spec::new(shape(batch(a), &[sides(a).0]), DType::I32),
            Spec::new(shape(batch(a), &[]), DType::I32),
        ],
    ))
})
.autocast(Autocast::Fp32)
.samples(|s| {
    let a = s.real(&[3, 3])?;
    Ok(vec![sample![a.add(&a.adjoint()?)?]])
});

#[torsh_tensor::by_name(ldl_factor_with(.., LdlOptions))]
static LDL_FACTOR: OpRecord = OpRecord::new(
    "linalg.ldl_factor",
    "The LDL factors of symmetric or Hermitian matrices in LAPACK's packed form, and the pivots.",
    "(Tensor A, *, bool hermitian=False)",
);

#[torsh_tensor::by_name(ldl_solve_with(.., LdlOptions))]
static LDL_SOLVE: OpRecord = OpRecord::new(
    "linalg.ldl_solve",
    "The solution of A X = B from the LDL factors of A.",
    "(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False)",
)
.with_key(&keys::LDL_SOLVE, |c| {
    let (ld, pivots, b) = (squares(c, 0)?, c.tensor(1)?, c.tensor(2)?);
    alike(ld, b)?;
    c.attrs::<attrs::LinalgLdl>()?;
    let n = sides(ld).0;
    if pivots.dtype() != DType::I32 {
        let text = format!("pivots are int32, got {}", pivots.dtype());
        return Err(TorshError::dtype("", text));
    }
    if sides(b).0 != n || pivots.shape() != &shape(batch(ld), &[n]) {
        let text = format!(
            "factors of shape {}, pivots of shape {} and B of shape {} do not go together",
            ld.shape(),
            pivots.shape(),
            b.shape()
        );
        return Err(TorshError::shape("", text));
    }
    Ok(Plan::one(b.dtype(), b.shape().clone(), b.dtype()))
})
.autocast(Autocast::Fp32)
.grads(0b11, 0, |c| {
    if c.needs(0) {
        return Err(
            TorshError::autograd("linalg.ldl_solve", "there is no derivative for LD")
                .with_hint("differentiate linalg.solve of the matrix itself"),
        );
    }
    let attrs = c.attrs::<attrs::LinalgLdl>()?;
    let (ld, pivots) = (c.input(0)?, c.input(1)?);
    let turn = |t: &Tensor| {
        if attrs.hermitian {
            Ok(t.clone())
        } else {
            t.conj()
        }
    };
    let g = LDL_SOLVE.call1(
        &[Arg::T(&ld), Arg::T(&pivots), Arg::T(&turn(c.g())?)],
        attrs,
    )?;
    Ok(smallvec![None, None, Some(turn(&g)?)])
});

#[track_caller]
fn factors(a: &Tensor, hermitian: bool) -> Result<(Tensor, Tensor, Tensor)> {
    let mut outs = LDL_FACTOR_EX.call(&[Arg::T(a)], &attrs::LinalgLdl { hermitian })?;
    match (outs.pop(), outs.pop(), outs.pop()) {
        (Some(info), Some(pivots), Some(ld)) => Ok((ld, pivots, info)),
        _ => Err(TorshError::failed("", "the kernel gave too few results")),
    }
}

fn zero_block(which: String, info: i32) -> String {
    format!("{which} is singular: D[{0}, {0}] is zero (LDL)", info - 1)
}

/// The LDL factors of symmetric matrices, with Bunch and Kaufman's pivoting, in LAPACK's packed form of the lower triangle,
/// and the pivots (`torch.linalg.ldl_factor`). [`ldl_solve`] reads them. There is no derivative.
///
/// It solves systems with symmetric matrices that are not positive definite, for which [`cholesky`](crate::cholesky)
/// fails, at its cost of `n^3 / 3`.
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// let (ld, pivots) = linalg::ldl_factor(&tensor![[2.0, 1.0], [1.0, 1.0]])?;
/// assert_eq!(ld, tensor![[2.0, 0.0], [0.5, 0.5]]);
/// assert_eq!(pivots.to_vec::<i32>()?, [1, 2]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If `a` is not a batch of square matrices of float32, float64, complex64 or complex128, or a block of `D` is zero.
#[track_caller]
pub fn ldl_factor(a: &Tensor) -> Result<(Tensor, Tensor)> {
    ldl_factor_with(a, LdlOptions::new())
}

/// [`ldl_factor`] of symmetric or Hermitian matrices.
///
/// ```
/// use torsh_linalg::{self as linalg, LdlOptions};
/// use torsh_tensor::tensor;
/// let (ld, _) = linalg::ldl_factor_with(&tensor![[2.0]], LdlOptions { hermitian: true })?;
/// assert_eq!(ld, tensor![[2.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`ldl_factor`].
#[torsh_tensor::names_caller]
pub fn ldl_factor_with(a: &Tensor, options: LdlOptions) -> Result<(Tensor, Tensor)> {
    within("linalg.ldl_factor", &[a], || {
        let (ld, pivots, info) = factors(a, options.hermitian)?;
        check_info(&info, zero_block)?;
        Ok((ld, pivots))
    })
}

/// [`ldl_factor`], and for each matrix the position, from 1, of the first zero block of `D`, or 0
/// (`torch.linalg.ldl_factor_ex`).
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// assert_eq!(linalg::ldl_factor_ex(&tensor![[0.0]])?.2.item::<i32>()?, 1);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`ldl_factor`], but for zero blocks.
#[track_caller]
pub fn ldl_factor_ex(a: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
    ldl_factor_ex_with(a, LdlFactorExOptions::new())
}

/// [`ldl_factor_ex`] with options.
///
/// ```
/// use torsh_linalg::{self as linalg, LdlFactorExOptions};
/// use torsh_tensor::tensor;
/// let options = LdlFactorExOptions::new().check_errors(true);
/// assert!(linalg::ldl_factor_ex_with(&tensor![[0.0]], options).is_err());
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`ldl_factor_ex`]; with `check_errors` as [`ldl_factor`].
#[torsh_tensor::names_caller]
pub fn ldl_factor_ex_with(
    a: &Tensor,
    options: LdlFactorExOptions,
) -> Result<(Tensor, Tensor, Tensor)> {
    within("linalg.ldl_factor_ex", &[a], || {
        let (ld, pivots, info) = factors(a, options.hermitian)?;
        if options.check_errors {
            check_info(&info, zero_block)?;
        }
        Ok((ld, pivots, info))
    })
}

/// The solution of `A X = B` from the results of [`ldl_factor`] of a symmetric `A` (`torch.linalg.ldl_solve`). Batches
/// broadcast. `B` has a gradient, the factors have none.
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// let (ld, pivots) = linalg::ldl_factor(&tensor![[2.0, 1.0], [1.0, 1.0]])?;
/// assert_eq!(linalg::ldl_solve(&ld, &pivots, &tensor![[3.0], [2.0]])?, tensor![[1.0], [1.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If shapes or dtypes do not go together.
#[track_caller]
pub fn ldl_solve(ld: &Tensor, pivots: &Tensor, b: &Tensor) -> Result<Tensor> {
    ldl_solve_with(ld, pivots, b, LdlOptions::new())
}

/// [`ldl_solve`] of symmetric or Hermitian matrices.
///
/// ```
/// use torsh_linalg::{self as linalg, LdlOptions};
/// use torsh_tensor::{Tensor, tensor};
/// let pivots = Tensor::from_data(&[1i32], [1])?;
/// let x = linalg::ldl_solve_with(&tensor![[2.0]], &pivots, &tensor![[4.0]], LdlOptions { hermitian: true })?;
/// assert_eq!(x, tensor![[2.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`ldl_solve`].
#[torsh_tensor::names_caller]
pub fn ldl_solve_with(
    ld: &Tensor,
    pivots: &Tensor,
    b: &Tensor,
    options: LdlOptions,
) -> Result<Tensor> {
    within("linalg.ldl_solve", &[ld, pivots, b], || {
        check_square(ld)?;
        check_matrix(b)?;
        if pivots.ndim() + 1 != ld.ndim() {
            let text = format!(
                "pivots of shape {} do not go with factors of shape {}",
                pivots.shape(),
                ld.shape()
            );
            return Err(TorshError::shape("", text));
        }
        let (of, rhs) = broadcast(ld, b)?;
        let pivots = pivots.expand(shape(batch(&of), &[sides(ld).0]))?;
        let attrs = attrs::LinalgLdl {
            hermitian: options.hermitian,
        };
        LDL_SOLVE.call1(&[Arg::T(&of), Arg::T(&pivots), Arg::T(&rhs)], &attrs)
    })
}
