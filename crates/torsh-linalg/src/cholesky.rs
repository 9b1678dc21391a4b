//! The Cholesky decomposition, and what solves with it.

use smallvec::smallvec;
use torsh_core::DType;
use torsh_tensor::call::Arg;
use torsh_tensor::record::{Backward, OpRecord, Plan, Spec, sample};
use torsh_tensor::sample::Sampler;
use torsh_tensor::{Autocast, Result, Tensor, TorshError, Value};

use crate::attrs;
use crate::help::{
    batch, check_info, check_matrix, check_square, eye_like, shape, squares, within,
};
use crate::kernels::keys;
use crate::options::{CholeskyExOptions, CholeskyOptions};
use crate::solve::{triangular, whole_triangular};

pub(crate) const RECORDS: &[&OpRecord] = &[
    &CHOLESKY_EX,
    &LINALG_CHOLESKY,
    &CHOLESKY,
    &CHOLESKY_SOLVE,
    &CHOLESKY_INVERSE,
];

/// Hermitian positive definite matrices.
pub(crate) fn positive_definite(s: &mut Sampler, shape: &[usize]) -> Result<Vec<Tensor>> {
    let n = shape[shape.len() - 1];
    let make = |a: Tensor| {
        let id = eye_like(&a, n)?;
        a.matmul(&a.adjoint()?)?.add(&id)
    };
    Ok(vec![make(s.real(shape)?)?, make(s.complex(shape)?)?])
}

#[torsh_tensor::by_name(cholesky_ex_with(.., CholeskyExOptions))]
static CHOLESKY_EX: OpRecord = OpRecord::new(
    "linalg.cholesky_ex",
    "The Cholesky factor of Hermitian positive definite matrices, and the order of the first leading minor of each that is not positive definite (0 where there is none).",
    "(Tensor A, *, bool upper=False, bool check_errors=False)",
)
.with_key(&keys::CHOLESKY, |c| {
    let a = squares(c, 0)?;
    let info = shape(batch(a), &[]);
    c.attrs::<attrs::LinalgCholesky>()?;
    Ok(Plan::many(
        a.dtype(),
        [Spec::new(a.shape().clone(), a.dtype()), Spec::new(info, DType::I32)],
    ))
})
.backward(Backward::Full {
    inputs: 0,
    outputs: 1,
    constant: 2,
    formula: |c| {
        let upper = c.attrs::<attrs::LinalgCholesky>()?.upper;
        let (l, g) = match upper {
            true => (c.out()?.adjoint()?, c.g().adjoint()?),
            false => (c.out()?, c.g().clone()),
        };
        let product = l.adjoint()?.matmul(&g)?.tril(0)?;
        let middle = product.add(&product.tril(-1)?.adjoint()?)?.mul(0.5)?;
        let right = triangular(&l, &middle, false, false, false)?;
        Ok(smallvec![Some(triangular(&l.adjoint()?, &right, true, true, false)?)])
    },
})
.autocast(Autocast::Fp32)
.samples(|s| {
    let all = positive_definite(s, &[3, 3])?;
    Ok(all.into_iter().map(|a| sample![a]).collect())
});

#[torsh_tensor::by_name(cholesky_with(.., CholeskyOptions))]
static LINALG_CHOLESKY: OpRecord = OpRecord::new(
    "linalg.cholesky",
    "The Cholesky factor of Hermitian positive definite matrices.",
    "(Tensor A, *, bool upper=False)",
)
.samples(|s| {
    let all = positive_definite(s, &[2, 3, 3])?;
    Ok(all.into_iter().map(|a| sample![a]).collect())
});

static CHOLESKY: OpRecord = OpRecord::new(
    "cholesky",
    "The Cholesky factor of Hermitian positive definite matrices; linalg.cholesky under its old name.",
    "(Tensor input, bool upper=False)",
)
.by_name(|b| {
    let options = CholeskyOptions { upper: b.bool(1) };
    cholesky_with(b.tensor(0)?, options).map(Value::Tensor).map_err(|e| e.renamed("cholesky"))
})
.samples(|s| {
    let all = positive_definite(s, &[3, 3])?;
    Ok(all.into_iter().map(|a| sample![a, true]).collect())
});

#[torsh_tensor::by_name(cholesky_solve_with(.., CholeskyOptions))]
static CHOLESKY_SOLVE: OpRecord = OpRecord::new(
    "cholesky_solve",
    "The solution of A X = B for a matrix A of which the Cholesky factor L is given.",
    "(Tensor input, Tensor L, bool upper=False)",
)
.samples(|s| {
    let factor = |a: Tensor, n| a.add(&eye_like(&a, n)?.mul(3.0)?);
    let l = factor(s.real(&[3, 3])?, 3)?;
    let u = factor(s.complex(&[2, 3, 3])?, 3)?;
    Ok(vec![
        sample![s.real(&[3, 2])?, l],
        sample![s.complex(&[3, 2])?, u, true],
    ])
});

#[torsh_tensor::by_name(cholesky_inverse_with(.., CholeskyOptions))]
static CHOLESKY_INVERSE: OpRecord = OpRecord::new(
    "cholesky_inverse",
    "The inverse of a matrix of which the Cholesky factor L is given.",
    "(Tensor L, bool upper=False)",
)
.samples(|s| {
    let factor = |a: Tensor, n| a.add(&eye_like(&a, n)?.mul(3.0)?);
    let l = factor(s.real(&[3, 3])?, 3)?;
    let u = factor(s.complex(&[2, 3, 3])?, 3)?;
    Ok(vec![sample![l], sample![u, true]])
});

/// The lower triangular factor `L` of Hermitian positive definite matrices, with `A = L Lᴴ` (`torch.linalg.cholesky`).
///
/// `a` has the shape `[.., n, n]` and a float32, float64, complex64 or complex128 dtype; so has the result. The lower
/// triangle is read.
///
/// It is the cheapest way to solve systems with such matrices, to take the logarithm of their determinants, and to draw
/// from normal distributions with them as covariances. It costs `n^3 / 3` operations, half of
/// [`lu_factor`](crate::lu_factor); with [`cholesky_solve`] each right-hand side costs `2 n^2` more.
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// let l = linalg::cholesky(&tensor![[4.0, 2.0], [2.0, 10.0]])?;
/// assert_eq!(l, tensor![[2.0, 0.0], [1.0, 3.0]]);
/// let e = linalg::cholesky(&tensor![[1.0, 2.0], [2.0, 1.0]]).unwrap_err();
/// assert!(e.to_string().starts_with("linalg.cholesky: the matrix: the leading minor of order 2 is not positive definite"));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If `a` is not a batch of square matrices, has another dtype, or a matrix is not positive definite.
#[track_caller]
pub fn cholesky(a: &Tensor) -> Result<Tensor> {
    cholesky_with(a, CholeskyOptions::new())
}

/// [`cholesky`], or the upper triangular factor `U` with `A = Uᴴ U`, of the upper triangle.
///
/// ```
/// use torsh_linalg::{self as linalg, CholeskyOptions};
/// use torsh_tensor::tensor;
/// let u = linalg::cholesky_with(&tensor![[4.0, 2.0], [2.0, 10.0]], CholeskyOptions { upper: true })?;
/// assert_eq!(u, tensor![[2.0, 1.0], [0.0, 3.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`cholesky`].
#[torsh_tensor::names_caller]
pub fn cholesky_with(a: &Tensor, options: CholeskyOptions) -> Result<Tensor> {
    within("linalg.cholesky", &[a], || {
        let (l, info) = factor(a, options.upper)?;
        check_info(&info, not_positive)?;
        Ok(l)
    })
}

fn not_positive(which: String, order: i32) -> String {
    format!("{which}: the leading minor of order {order} is not positive definite")
}

#[track_caller]
fn factor(a: &Tensor, upper: bool) -> Result<(Tensor, Tensor)> {
    let mut outs = CHOLESKY_EX.call(&[Arg::T(a)], &attrs::LinalgCholesky { upper })?;
    match (outs.pop(), outs.pop()) {
        (Some(info), Some(l)) => Ok((l, info)),
        _ => Err(TorshError::failed("", "the kernel gave too few results")),
    }
}

/// The Cholesky factor, and for each matrix the order of the first leading minor that is not positive definite, or 0
/// (`torch.linalg.cholesky_ex`). The factor of such a matrix is not defined, and that is no error.
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// let (_, info) = linalg::cholesky_ex(&tensor![[1.0, 2.0], [2.0, 1.0]])?;
/// assert_eq!(info.item::<i32>()?, 2);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If `a` is not a batch of square matrices of a dtype that [`cholesky`] takes.
#[track_caller]
pub fn cholesky_ex(a: &Tensor) -> Result<(Tensor, Tensor)> {
    cholesky_ex_with(a, CholeskyExOptions::new())
}

/// [`cholesky_ex`] with options.
///
/// ```
/// use torsh_linalg::{self as linalg, CholeskyExOptions};
/// use torsh_tensor::tensor;
/// let options = CholeskyExOptions::new().check_errors(true);
/// assert!(linalg::cholesky_ex_with(&tensor![[-1.0]], options).is_err());
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`cholesky_ex`]; with `check_errors` as [`cholesky`].
#[torsh_tensor::names_caller]
pub fn cholesky_ex_with(a: &Tensor, options: CholeskyExOptions) -> Result<(Tensor, Tensor)> {
    let (l, info) = factor(a, options.upper)?;
    if options.check_errors {
        check_info(&info, not_positive).map_err(|e| e.renamed("linalg.cholesky_ex"))?;
    }
    Ok((l, info))
}

/// The solution `X` of `A X = B`, from the lower Cholesky factor `l` of `A` (`torch.cholesky_solve`). Batches broadcast.
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// let l = tensor![[2.0, 0.0], [1.0, 3.0]];
/// let x = linalg::cholesky_solve(&tensor![[8.0], [22.0]], &l)?;
/// assert_eq!(x, tensor![[1.0], [2.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If the shapes do not go together, or the dtypes differ.
#[track_caller]
pub fn cholesky_solve(b: &Tensor, l: &Tensor) -> Result<Tensor> {
    cholesky_solve_with(b, l, CholeskyOptions::new())
}

/// [`cholesky_solve`] from a lower or upper factor.
///
/// ```
/// use torsh_linalg::{self as linalg, CholeskyOptions};
/// use torsh_tensor::tensor;
/// let u = tensor![[2.0, 1.0], [0.0, 3.0]];
/// let x = linalg::cholesky_solve_with(&tensor![[8.0], [22.0]], &u, CholeskyOptions { upper: true })?;
/// assert_eq!(x, tensor![[1.0], [2.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`cholesky_solve`].
#[torsh_tensor::names_caller]
pub fn cholesky_solve_with(b: &Tensor, l: &Tensor, options: CholeskyOptions) -> Result<Tensor> {
    within("cholesky_solve", &[b, l], || {
        check_matrix(b)?;
        check_square(l)?;
        let (first, second) = match options.upper {
            true => (l.adjoint()?, l.clone()),
            false => (l.clone(), l.adjoint()?),
        };
        let y = whole_triangular(&first, b, false, true, false)?;
        whole_triangular(&second, &y, true, true, false)
    })
}

/// The inverse of the matrix of which `l` is the lower Cholesky factor (`torch.cholesky_inverse`).
///
/// Solve with [`cholesky_solve`] if the inverse is only multiplied with something: that is cheaper and more exact.
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// let inverse = linalg::cholesky_inverse(&tensor![[2.0, 0.0], [0.0, 4.0]])?;
/// assert_eq!(inverse, tensor![[0.25, 0.0], [0.0, 0.0625]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If `l` is not a batch of square matrices of a dtype that [`cholesky`] takes.
#[track_caller]
pub fn cholesky_inverse(l: &Tensor) -> Result<Tensor> {
    cholesky_inverse_with(l, CholeskyOptions::new())
}

/// [`cholesky_inverse`] of a lower or upper factor.
///
/// ```
/// use torsh_linalg::{self as linalg, CholeskyOptions};
/// use torsh_tensor::tensor;
/// let u = tensor![[1.0, 1.0], [0.0, 1.0]];
/// let inverse = linalg::cholesky_inverse_with(&u, CholeskyOptions { upper: true })?;
/// assert_eq!(inverse, tensor![[2.0, -1.0], [-1.0, 1.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`cholesky_inverse`].
#[torsh_tensor::names_caller]
pub fn cholesky_inverse_with(l: &Tensor, options: CholeskyOptions) -> Result<Tensor> {
    within("cholesky_inverse", &[l], || {
        check_square(l)?;
        let id = eye_like(l, l.dims()[l.ndim() - 1])?;
        cholesky_solve_with(&id.expand(l.shape())?, l, options)
    })
}
