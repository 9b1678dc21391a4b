//! LU decompositions, and what solves with them.

use smallvec::smallvec;
use torsh_core::DType;
use torsh_tensor::call::Arg;

use torsh_tensor::record::{Backward, OpRecord, Plan, Spec, sample};
use torsh_tensor::{
    Autocast, BackwardCx, Grads, Result, Tensor, TorshError, Value, is_grad_enabled, no_grad,
};

use crate::attrs;
use crate::help::{
    alike, batch, broadcast, check_info, check_matrix, check_square, eye_like, matrices, shape,
    sides, singular, squares, within,
};
use crate::kernels::keys;
use crate::options::{LuFactorExOptions, LuOptions, LuSolveOptions, LuUnpackOptions};
use crate::solve::{regular, triangular};

pub(crate) const RECORDS: &[&OpRecord] = &[
    &LU_FACTOR_EX,
    &LU_FACTOR,
    &LU,
    &LU_UNPACK,
    &LU_KERNEL,
    &LINALG_LU_SOLVE,
    &LU_SOLVE,
    &OLD_LU,
];

#[torsh_tensor::by_name(lu_factor_ex_with(.., LuFactorExOptions))]
static LU_FACTOR_EX: OpRecord = OpRecord::new(
    "linalg.lu_factor_ex",
    "Both LU factors of matrices in one matrix each, the rows that were exchanged (from 1), and the position of the first zero on the diagonal of U (0 where there is none).",
    "(Tensor A, *, bool pivot=True, bool check_errors=False)",
)
.with_key(&keys::LU_FACTOR, |c| {
    let a = matrices(c, 0)?;
    if !c.attrs::<attrs::LinalgLuFactor>()?.pivot && a.device().is_host() {
        return Err(TorshError::invalid("", "LU without pivoting is not implemented on the CPU")
            .with_hint("leave pivot=true"));
    }
    let (m, n) = sides(a);
    Ok(Plan::many(
        a.dtype(),
        [
            Spec::new(a.shape().clone(), a.dtype()),
            Spec::new(shape(batch(a), &[m.min(n)]), DType::I32),
            Spec::new(shape(batch(a), &[]), DType::I32),
        ],
    ))
})
.backward(Backward::Full {
    inputs: 0,
    outputs: 0b11,
    constant: 0b110,
    formula: lu_backward,
})
.autocast(Autocast::Fp32)
.samples(|s| {
    let [a, z] = regular(s, &[3, 3])?;
    Ok(vec![
        sample![a],
        sample![z],
        sample![s.real(&[2, 4])?],
        sample![s.real(&[2, 4, 2])?],
    ])
});

/// The gradient of `A` from that of its packed factors.
fn lu_backward(c: &BackwardCx<'_>) -> Result<Grads> {
    let (lu, pivots, g) = (c.output(0)?, c.output(1)?, c.g());
    let (m, n) = sides(&lu);
    let k = m.min(n);
    let (l, u) = unpacked(&lu)?;
    let (gl, gu) = (g.narrow(-1, 0, k)?.tril(-1)?, g.narrow(-2, 0, k)?.triu(0)?);
    let (l1, u1) = (l.narrow(-2, 0, k)?, u.narrow(-1, 0, k)?);
    let mut lower = l1.adjoint()?.matmul(&gl.narrow(-2, 0, k)?)?;
    let mut upper = gu.narrow(-1, 0, k)?.matmul(&u1.adjoint()?)?;
    let x = if n > m {
        let (gu2, u2) = (gu.narrow(-1, k, n - k)?, u.narrow(-1, k, n - k)?);
        lower = lower.sub(&gu2.matmul(&u2.adjoint()?)?)?;
        let first = lower.tril(-1)?.add(&upper.triu(0)?)?;
        let first = triangular(&u1.adjoint()?, &first, false, false, false)?;
        let both = Tensor::cat(&[first, gu2], -1)?;
        triangular(&l1.adjoint()?, &both, true, true, true)?
    } else {
        let below = match m > n {
            true => Some((gl.narrow(-2, k, m - k)?, l.narrow(-2, k, m - k)?)),
            false => None,
        };
        if let Some((gl2, l2)) = &below {
            upper = upper.sub(&l2.adjoint()?.matmul(gl2)?)?;
        }
        let first = lower.tril(-1)?.add(&upper.triu(0)?)?;
        let mut all = triangular(&l1.adjoint()?, &first, true, true, true)?;
        if let Some((gl2, _)) = below {
            all = Tensor::cat(&[all, gl2], -2)?;
        }
        triangular(&u1.adjoint()?, &all, false, false, false)?
    };
    Ok(smallvec![Some(permuted(&x, &pivots)?)])
}

/// `L` and `U` of packed factors.
fn unpacked(lu: &Tensor) -> Result<(Tensor, Tensor)> {
    let (m, n) = sides(lu);
    let k = m.min(n);
    let id = Tensor::eye_nm(m, k, lu.dtype(), lu.device())?;
    let l = lu.narrow(-1, 0, k)?.tril(-1)?.add(&id)?;
    Ok((l, lu.narrow(-2, 0, k)?.triu(0)?))
}

/// For each matrix of `m` rows, where the rows of `P^T A` come from, and where its rows go to: both int64 of the shape of
/// the batch and `m`.
fn permutation(pivots: &Tensor, m: usize) -> Result<(Tensor, Tensor)> {
    let lead = &pivots.dims()[..pivots.ndim().saturating_sub(1)];
    let whole = shape(lead, &[m]);
    if !pivots.device().has_data() {
        let t = Tensor::zeros(&whole, DType::I64, pivots.device())?;
        return Ok((t.clone(), t));
    }
    let k = pivots.dims().last().copied().unwrap_or(0);
    let count: usize = lead.iter().product();
    let all = pivots.detach().to_vec::<i32>()?;
    let (mut from, mut to) = (Vec::with_capacity(count * m), vec![0i64; count * m]);
    for i in 0..count {
        let mut rows: Vec<i64> = (0..m as i64).collect();
        for (j, &p) in all[i * k..(i + 1) * k].iter().enumerate() {
            match usize::try_from(p - 1) {
                Ok(p) if p < m && j < m => rows.swap(j, p),
                _ => {
                    let text = format!("pivot {p} is not a row from 1 to {m}");
                    return Err(TorshError::invalid("", text));
                }
            }
        }
        for (j, &r) in rows.iter().enumerate() {
            to[i * m + r as usize] = j as i64;
        }
        from.extend(rows);
    }
    let make = |v: &[i64]| Tensor::from_slice(v, &whole, DType::I64, pivots.device());
    Ok((make(&from)?, make(&to)?))
}

/// Picks rows of matrices.
fn rows(x: &Tensor, which: &Tensor) -> Result<Tensor> {
    let index = which.unsqueeze(-1)?.expand(x.shape())?;
    x.gather(-2, &index)
}

/// `P X`.
fn permuted(x: &Tensor, pivots: &Tensor) -> Result<Tensor> {
    rows(x, &permutation(pivots, sides(x).0)?.1)
}

/// `P^T X`.
fn permuted_back(x: &Tensor, pivots: &Tensor) -> Result<Tensor> {
    rows(x, &permutation(pivots, sides(x).0)?.0)
}

#[track_caller]
fn factors(a: &Tensor, pivot: bool) -> Result<(Tensor, Tensor, Tensor)> {
    let mut outs = LU_FACTOR_EX.call(&[Arg::T(a)], &attrs::LinalgLuFactor { pivot })?;
    match (outs.pop(), outs.pop(), outs.pop()) {
        (Some(info), Some(pivots), Some(lu)) => Ok((lu, pivots, info)),
        _ => Err(TorshError::failed("", "the kernel gave too few results")),
    }
}

#[torsh_tensor::by_name(lu_factor_with(.., LuOptions))]
static LU_FACTOR: OpRecord = OpRecord::new(
    "linalg.lu_factor",
    "Both LU factors of matrices in one matrix each, and the rows that were exchanged, from 1.",
    "(Tensor A, *, bool pivot=True)",
)
.samples(|s| Ok(vec![sample![regular(s, &[2, 3, 3])?[0].clone()]]));

#[torsh_tensor::by_name(lu_with(.., LuOptions))]
static LU: OpRecord = OpRecord::new(
    "linalg.lu",
    "The permutation P, the lower triangular L and the upper triangular U with A = P L U.",
    "(Tensor A, *, bool pivot=True)",
)
.samples(|s| {
    let [a, z] = regular(s, &[3, 3])?;
    Ok(vec![
        sample![a],
        sample![z],
        sample![s.real(&[3, 2])?],
        sample![s.real(&[2, 3])?],
    ])
});

#[torsh_tensor::by_name(lu_unpack_with(.., LuUnpackOptions))]
static LU_UNPACK: OpRecord = OpRecord::new(
    "lu_unpack",
    "The permutation P, the lower triangular L and the upper triangular U of packed LU factors.",
    "(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True)",
)
.samples(|s| {
    let pivots = Tensor::from_data(&[2i32, 2], [2])?;
    Ok(vec![sample![s.real(&[2, 3])?, pivots]])
});

/// The solution from packed factors, without derivatives.
static LU_KERNEL: OpRecord = OpRecord::new(
    "_lu_solve",
    "The solution of A X = B from LU factors and pivots.",
    "(Tensor LU, Tensor pivots, Tensor B, *, bool left, bool adjoint)",
)
.internal()
.with_key(&keys::LU_SOLVE, |c| {
    let (lu, pivots, b) = (squares(c, 0)?, c.tensor(1)?, c.tensor(2)?);
    alike(lu, b)?;
    let left = c.attrs::<attrs::LinalgLuSolve>()?.left;
    let (n, (rows, cols)) = (sides(lu).0, sides(b));
    if pivots.dtype() != DType::I32 {
        let text = format!("pivots are int32, got {}", pivots.dtype());
        return Err(TorshError::dtype("", text));
    }
    if n != if left { rows } else { cols } || pivots.shape() != &shape(batch(lu), &[n]) {
        let text = format!(
            "factors of shape {}, pivots of shape {} and B of shape {} do not go together",
            lu.shape(),
            pivots.shape(),
            b.shape()
        );
        return Err(TorshError::shape("", text));
    }
    Ok(Plan::one(b.dtype(), b.shape().clone(), b.dtype()))
})
.autocast(Autocast::Fp32)
.constant();

/// Solves with packed factors; nothing is recorded.
pub(crate) fn lu_solve_kernel(
    lu: &Tensor,
    pivots: &Tensor,
    b: &Tensor,
    left: bool,
    adjoint: bool,
) -> Result<Tensor> {
    let attrs = attrs::LinalgLuSolve { left, adjoint };
    no_grad(|| LU_KERNEL.call1(&[Arg::T(lu), Arg::T(pivots), Arg::T(b)], &attrs))
}

#[torsh_tensor::by_name(lu_solve_with(.., LuSolveOptions))]
static LINALG_LU_SOLVE: OpRecord = OpRecord::new(
    "linalg.lu_solve",
    "The solution of A X = B (or X A = B, or with the conjugate transpose) from LU factors of A.",
    "(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False)",
)
.samples(|s| {
    let [a, z] = regular(s, &[3, 3])?;
    let pivots = Tensor::from_data(&[2i32, 3, 3], [3])?;
    let call = |lu: Tensor, b: Tensor| sample![lu, &pivots, b];
    Ok(vec![
        call(a.clone(), s.real(&[3, 2])?),
        call(a.clone(), s.real(&[3, 2])?).kw("adjoint", true),
        call(z.clone(), s.complex(&[2, 3])?).kw("left", false),
        call(z, s.complex(&[2, 3])?)
            .kw("left", false)
            .kw("adjoint", true),
    ])
});

static LU_SOLVE: OpRecord = OpRecord::new(
    "lu_solve",
    "The solution of A X = b from LU factors of A; linalg.lu_solve with the operands in another order.",
    "(Tensor b, Tensor LU_data, Tensor LU_pivots)",
)
.by_name(|b| {
    let solved = lu_solve(b.tensor(1)?, b.tensor(2)?, b.tensor(0)?);
    solved.map(Value::Tensor).map_err(|e| e.renamed("lu_solve"))
})
.samples(|s| {
    let pivots = Tensor::from_data(&[2i32, 2], [2])?;
    let [a, _] = regular(s, &[2, 2])?;
    Ok(vec![sample![s.real(&[2, 3])?, a, pivots]])
});

static OLD_LU: OpRecord = OpRecord::new(
    "lu",
    "Both LU factors in one matrix, and the pivots; with get_infos the info of linalg.lu_factor_ex too.",
    "(Tensor A, bool pivot=True, bool get_infos=False)",
)
.by_name(|b| {
    let options = LuFactorExOptions { pivot: b.bool(1), check_errors: !b.bool(2) };
    let (lu, pivots, info) = lu_factor_ex_with(b.tensor(0)?, options).map_err(|e| e.renamed("lu"))?;
    Ok(match b.bool(2) {
        true => (lu, pivots, info).into(),
        false => (lu, pivots).into(),
    })
})
.samples(|s| Ok(vec![sample![regular(s, &[3, 3])?[0].clone()]]));

/// Both LU factors of each matrix in one, `L` without its diagonal of ones below `U`, and the pivots: row `i` was exchanged
/// with row `pivots[i] - 1` (`torch.linalg.lu_factor`).
///
/// `a` has the shape `[.., m, n]`; the pivots are int32, `[.., min(m, n)]`.
///
/// The factors serve for any number of systems with one matrix: factoring costs `2 n^3 / 3` operations, and each
/// right-hand side of [`lu_solve`] `2 n^2`.
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// let (lu, pivots) = linalg::lu_factor(&tensor![[1.0, 2.0], [2.0, 6.0]])?;
/// assert_eq!(lu, tensor![[2.0, 6.0], [0.5, -1.0]]);
/// assert_eq!(pivots.to_vec::<i32>()?, [2, 2]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If `a` is not a batch of matrices of float32, float64, complex64 or complex128, or `U` has a zero on its diagonal.
#[track_caller]
pub fn lu_factor(a: &Tensor) -> Result<(Tensor, Tensor)> {
    lu_factor_with(a, LuOptions::new())
}

/// [`lu_factor`] with options. The CPU has LU with pivoting only.
///
/// ```
/// use torsh_linalg::{self as linalg, LuOptions};
/// use torsh_tensor::tensor;
/// assert!(linalg::lu_factor_with(&tensor![[1.0]], LuOptions { pivot: false }).is_err());
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`lu_factor`], and without pivoting on the CPU.
#[torsh_tensor::names_caller]
pub fn lu_factor_with(a: &Tensor, options: LuOptions) -> Result<(Tensor, Tensor)> {
    within("linalg.lu_factor", &[a], || {
        let (lu, pivots, info) = factors(a, options.pivot)?;
        check_info(&info, singular)?;
        Ok((lu, pivots))
    })
}

/// [`lu_factor`], and for each matrix the position, from 1, of the first zero on the diagonal of `U`, or 0, which is no
/// error (`torch.linalg.lu_factor_ex`).
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// let (_, _, info) = linalg::lu_factor_ex(&tensor![[1.0, 1.0], [1.0, 1.0]])?;
/// assert_eq!(info.item::<i32>()?, 2);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`lu_factor`], but for zeros on the diagonal.
#[track_caller]
pub fn lu_factor_ex(a: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
    lu_factor_ex_with(a, LuFactorExOptions::new())
}

/// [`lu_factor_ex`] with options.
///
/// ```
/// use torsh_linalg::{self as linalg, LuFactorExOptions};
/// use torsh_tensor::tensor;
/// let options = LuFactorExOptions::new().check_errors(true);
/// assert!(linalg::lu_factor_ex_with(&tensor![[0.0]], options).is_err());
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`lu_factor_ex`]; with `check_errors` as [`lu_factor`].
#[torsh_tensor::names_caller]
pub fn lu_factor_ex_with(
    a: &Tensor,
    options: LuFactorExOptions,
) -> Result<(Tensor, Tensor, Tensor)> {
    let (lu, pivots, info) = factors(a, options.pivot)?;
    if options.check_errors {
        check_info(&info, singular).map_err(|e| e.renamed("linalg.lu_factor_ex"))?;
    }
    Ok((lu, pivots, info))
}

/// The permutation matrix `P`, the lower triangular `L` with ones on its diagonal, and the upper triangular `U`, with
/// `A = P L U` (`torch.linalg.lu`).
///
/// [`lu_factor`] keeps both factors in one matrix, which solvers read.
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// let (p, l, u) = linalg::lu(&tensor![[1.0, 2.0], [2.0, 6.0]])?;
/// assert_eq!(p, tensor![[0.0, 1.0], [1.0, 0.0]]);
/// assert_eq!(l, tensor![[1.0, 0.0], [0.5, 1.0]]);
/// assert_eq!(u, tensor![[2.0, 6.0], [0.0, -1.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If `a` is not a batch of matrices of a dtype that [`lu_factor`] takes.
#[track_caller]
pub fn lu(a: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
    lu_with(a, LuOptions::new())
}

/// [`lu`] with options. The CPU has LU with pivoting only.
///
/// ```
/// use torsh_linalg::{self as linalg, LuOptions};
/// use torsh_tensor::tensor;
/// let (p, _, _) = linalg::lu_with(&tensor![[2.0]], LuOptions::new().pivot(true))?;
/// assert_eq!(p, tensor![[1.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`lu`], and without pivoting on the CPU.
#[torsh_tensor::names_caller]
pub fn lu_with(a: &Tensor, options: LuOptions) -> Result<(Tensor, Tensor, Tensor)> {
    within("linalg.lu", &[a], || {
        let (lu, pivots, _) = factors(a, options.pivot)?;
        let (l, u) = unpacked(&lu)?;
        Ok((permutation_matrix(&lu, &pivots)?, l, u))
    })
}

fn permutation_matrix(lu: &Tensor, pivots: &Tensor) -> Result<Tensor> {
    let m = sides(lu).0;
    let id = eye_like(lu, m)?.expand(shape(batch(lu), &[m, m]))?;
    permuted(&id, pivots)
}

/// `P`, `L` and `U` of the results of [`lu_factor`] (`torch.lu_unpack`).
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// let (lu, pivots) = linalg::lu_factor(&tensor![[1.0, 2.0], [2.0, 6.0]])?;
/// let (p, l, u) = linalg::lu_unpack(&lu, &pivots)?;
/// assert_eq!(p.matmul(&l)?.matmul(&u)?, tensor![[1.0, 2.0], [2.0, 6.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If the pivots are not int32 of a shape that goes with the factors, or are no rows of them.
#[track_caller]
pub fn lu_unpack(lu: &Tensor, pivots: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
    lu_unpack_with(lu, pivots, LuUnpackOptions::new())
}

/// [`lu_unpack`] with options: what is not asked for is empty.
///
/// ```
/// use torsh_linalg::{self as linalg, LuUnpackOptions};
/// use torsh_tensor::{Tensor, tensor};
/// let options = LuUnpackOptions::new().unpack_pivots(false);
/// let (p, l, _) = linalg::lu_unpack_with(&tensor![[2.0]], &Tensor::from_data(&[1i32], [1])?, options)?;
/// assert_eq!((p.numel(), l), (0, tensor![[1.0]]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`lu_unpack`].
#[torsh_tensor::names_caller]
pub fn lu_unpack_with(
    lu: &Tensor,
    pivots: &Tensor,
    options: LuUnpackOptions,
) -> Result<(Tensor, Tensor, Tensor)> {
    within("lu_unpack", &[lu, pivots], || {
        check_matrix(lu)?;
        let (m, n) = sides(lu);
        if options.unpack_pivots {
            if pivots.dtype() != DType::I32 {
                let text = format!("LU_pivots are int32, got {}", pivots.dtype());
                return Err(
                    TorshError::dtype("", text).with_hint("pass the pivots of linalg.lu_factor")
                );
            }
            if pivots.shape() != &shape(batch(lu), &[m.min(n)]) {
                let text = format!(
                    "pivots of shape {} do not go with factors of shape {}",
                    pivots.shape(),
                    lu.shape()
                );
                return Err(TorshError::shape("", text));
            }
        }
        let empty = || Tensor::zeros([0], lu.dtype(), lu.device());
        let p = match options.unpack_pivots {
            true => permutation_matrix(&lu.detach(), pivots)?,
            false => empty()?,
        };
        let (l, u) = match options.unpack_data {
            true => unpacked(lu)?,
            false => (empty()?, empty()?),
        };
        Ok((p, l, u))
    })
}

/// The solution of `A X = B` from the results of [`lu_factor`] of `A` (`torch.linalg.lu_solve`). Batches broadcast.
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// let (lu, pivots) = linalg::lu_factor(&tensor![[1.0, 2.0], [2.0, 6.0]])?;
/// assert_eq!(linalg::lu_solve(&lu, &pivots, &tensor![[3.0], [8.0]])?, tensor![[1.0], [1.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If shapes or dtypes do not go together.
#[track_caller]
pub fn lu_solve(lu: &Tensor, pivots: &Tensor, b: &Tensor) -> Result<Tensor> {
    lu_solve_with(lu, pivots, b, LuSolveOptions::new())
}

/// [`lu_solve`] with options.
///
/// ```
/// use torsh_linalg::{self as linalg, LuSolveOptions};
/// use torsh_tensor::tensor;
/// let (lu, pivots) = linalg::lu_factor(&tensor![[1.0, 2.0], [2.0, 6.0]])?;
/// let options = LuSolveOptions::new().adjoint(true);
/// let x = linalg::lu_solve_with(&lu, &pivots, &tensor![[3.0], [8.0]], options)?;
/// assert_eq!(x, tensor![[1.0], [1.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`lu_solve`].
#[torsh_tensor::names_caller]
pub fn lu_solve_with(
    lu: &Tensor,
    pivots: &Tensor,
    b: &Tensor,
    options: LuSolveOptions,
) -> Result<Tensor> {
    within("linalg.lu_solve", &[lu, pivots, b], || {
        let LuSolveOptions { left, adjoint } = options;
        check_square(lu)?;
        check_matrix(b)?;
        let n = sides(lu).0;
        if pivots.shape() != &shape(batch(lu), &[n]) {
            let text = format!(
                "pivots of shape {} do not go with factors of shape {}",
                pivots.shape(),
                lu.shape()
            );
            return Err(TorshError::shape("", text));
        }
        let (of, rhs) = broadcast(lu, b)?;
        let pivots = pivots.expand(shape(batch(&of), &[n]))?;
        if !(is_grad_enabled() && (lu.requires_grad() || b.requires_grad())) {
            return lu_solve_kernel(&of, &pivots, &rhs, left, adjoint);
        }
        let (lower, upper) = (&of, &of);
        let (lh, uh) = (of.adjoint()?, of.adjoint()?);
        match (left, adjoint) {
            // A = P L U.
            (true, false) => {
                let y = triangular(lower, &permuted_back(&rhs, &pivots)?, false, true, true)?;
                triangular(upper, &y, true, true, false)
            }
            (true, true) => {
                let y = triangular(&uh, &rhs, false, true, false)?;
                permuted(&triangular(&lh, &y, true, true, true)?, &pivots)
            }
            (false, false) => {
                let y = triangular(upper, &rhs, true, false, false)?;
                let y = triangular(lower, &y, false, false, true)?;
                permuted(&y.transpose(-2, -1)?, &pivots)?.transpose(-2, -1)
            }
            (false, true) => {
                let y = permuted_back(&rhs.transpose(-2, -1)?, &pivots)?.transpose(-2, -1)?;
                let y = triangular(&lh, &y, true, false, true)?;
                triangular(&uh, &y, false, false, false)
            }
        }
    })
}
