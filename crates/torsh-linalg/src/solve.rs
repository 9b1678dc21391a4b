//! Systems of linear equations, inverses, and tensors as linear maps.

use smallvec::smallvec;
use torsh_core::DType;
use torsh_tensor::call::{Arg, Outputs};
use torsh_tensor::record::{Backward, OpRecord, Plan, PlanCx, Sample, Spec, sample};
use torsh_tensor::sample::Sampler;
use torsh_tensor::{Autocast, Result, Tensor, TorshError, Value, is_grad_enabled};

use crate::attrs;
use crate::help::{
    alike, batch, broadcast, check_info, check_matrix, check_square, eye_like, is_vector, shape,
    sides, singular, squares, within,
};
use crate::kernels::keys;
use crate::lu::lu_solve_kernel;
use crate::options::{
    InvExOptions, SolveExOptions, SolveOptions, SolveTriangularOptions, TriangularSolveOptions,
};

pub(crate) const RECORDS: &[&OpRecord] = &[
    &SOLVE_EX,
    &SOLVE,
    &INV_EX,
    &INV,
    &SOLVE_TRIANGULAR,
    &WHOLE_TRIANGULAR,
    &TRIANGULAR_SOLVE,
    &TENSORINV,
    &TENSORSOLVE,
];

/// Well-conditioned square matrices, real and complex.
pub(crate) fn regular(s: &mut Sampler, shape: &[usize]) -> Result<[Tensor; 2]> {
    let n = shape[shape.len() - 1];
    let make = |a: Tensor| a.add(&eye_like(&a, n)?.mul(3.0)?);
    Ok([make(s.real(shape)?)?, make(s.complex(shape)?)?])
}

/// `X` of `A X = B` or `X A = B`, and what its derivative reuses.
#[torsh_tensor::by_name(solve_ex_with(.., SolveExOptions))]
static SOLVE_EX: OpRecord = OpRecord::new(
    "linalg.solve_ex",
    "The solution of A X = B, and for each matrix the position of the first zero on the diagonal of its LU factor U (0 where there is none).",
    "(Tensor A, Tensor B, *, bool left=True, bool check_errors=False)",
)
.with_key(&keys::SOLVE, |c| {
    let (a, b) = (squares(c, 0)?, c.tensor(1)?);
    alike(a, b)?;
    let left = c.attrs::<attrs::LinalgSolve>()?.left;
    let (n, (rows, cols)) = (sides(a).0, sides(b));
    fits(a, b, n == if left { rows } else { cols })?;
    let dtype = a.dtype();
    Ok(Plan::many(
        dtype,
        [
            Spec::new(b.shape().clone(), dtype),
            Spec::new(a.shape().clone(), dtype),
            Spec::new(shape(batch(a), &[n]), DType::I32),
            Spec::new(shape(batch(a), &[]), DType::I32),
        ],
    ))
})
.backward(Backward::Full {
    inputs: 1,
    outputs: 0b111,
    constant: 0b1110,
    formula: |c| {
        let left = c.attrs::<attrs::LinalgSolve>()?.left;
        let gb = match is_grad_enabled() {
            true => solved(&c.input(0)?.adjoint()?, c.g(), left)?.swap_remove(0),
            false => {
                let (lu, pivots) = (c.output(1)?.detach(), c.output(2)?.detach());
                lu_solve_kernel(&lu, &pivots, c.g(), left, true)?
            }
        };
        let ga = c.needs(0).then(|| outer(&gb, &c.out()?, left)).transpose()?;
        Ok(smallvec![ga, Some(gb)])
    },
})
.autocast(Autocast::Fp32)
.samples(solve_samples);

fn solve_samples(s: &mut Sampler) -> Result<Vec<Sample>> {
    let ([a, z], [c, w]) = (regular(s, &[3, 3])?, regular(s, &[2, 2, 2])?);
    Ok(vec![
        sample![a.clone(), s.real(&[3, 2])?],
        sample![a, s.real(&[3])?],
        sample![z, s.complex(&[2, 3, 1])?],
        sample![c, s.real(&[2, 2])?],
        sample![w, s.complex(&[2, 1, 2])?, left = false],
    ])
}

/// The gradient of `A` from that of `B`: `-gB Xᴴ`, or `-Xᴴ gB`.
fn outer(gb: &Tensor, x: &Tensor, left: bool) -> Result<Tensor> {
    let xh = x.adjoint()?;
    match left {
        true => gb.matmul(&xh)?.neg(),
        false => xh.matmul(gb)?.neg(),
    }
}

fn fits(a: &Tensor, b: &Tensor, yes: bool) -> Result<()> {
    match yes {
        true => Ok(()),
        false => Err(TorshError::shape(
            "",
            format!(
                "A of shape {} and B of shape {} do not go together",
                a.shape(),
                b.shape()
            ),
        )),
    }
}

/// The solution, the LU factors, the pivots and `info`, of matrices whose batches are the same.
#[track_caller]
fn solved(a: &Tensor, b: &Tensor, left: bool) -> Result<Outputs> {
    SOLVE_EX.call(&[Arg::T(a), Arg::T(b)], &attrs::LinalgSolve { left })
}

/// The solution and `info`; right-hand sides may be vectors.
#[track_caller]
fn general(a: &Tensor, b: &Tensor, left: bool) -> Result<(Tensor, Tensor)> {
    check_square(a)?;
    let vector = is_vector(a, b);
    if vector && !left {
        return Err(TorshError::shape(
            "",
            "a vector as right-hand side needs left=true",
        ));
    }
    let matrix = if vector { b.unsqueeze(-1)? } else { b.clone() };
    check_matrix(&matrix)?;
    let (a, matrix) = broadcast(a, &matrix)?;
    let mut outs = solved(&a, &matrix, left)?;
    match (outs.pop(), outs.drain(..).next()) {
        (Some(info), Some(x)) => Ok((if vector { x.squeeze(-1)? } else { x }, info)),
        _ => Err(TorshError::failed("", "the kernel gave too few results")),
    }
}

#[torsh_tensor::by_name(solve_with(.., SolveOptions))]
static SOLVE: OpRecord = OpRecord::new(
    "linalg.solve",
    "The solution X of A X = B.",
    "(Tensor A, Tensor B, *, bool left=True)",
)
.samples(solve_samples);

#[torsh_tensor::by_name(inv_ex_with(.., InvExOptions))]
static INV_EX: OpRecord = OpRecord::new(
    "linalg.inv_ex",
    "The inverses of square matrices, and for each matrix the position of the first zero on the diagonal of its LU factor U (0 where there is none).",
    "(Tensor A, *, bool check_errors=False)",
)
.with_key(&keys::SOLVE, |c| {
    let a = squares(c, 0)?;
    Ok(Plan::many(
        a.dtype(),
        [
            Spec::new(a.shape().clone(), a.dtype()),
            Spec::new(shape(batch(a), &[]), DType::I32),
        ],
    ))
})
.backward(Backward::Full {
    inputs: 0,
    outputs: 0b1,
    constant: 0b10,
    formula: |c| {
        let xh = c.out()?.adjoint()?;
        Ok(smallvec![Some(xh.matmul(c.g())?.matmul(&xh)?.neg()?)])
    },
})
.autocast(Autocast::Fp32)
.samples(|s| Ok(regular(s, &[3, 3])?.map(|a| sample![a]).into()));

#[torsh_tensor::by_name(inv)]
static INV: OpRecord = OpRecord::new(
    "linalg.inv",
    "The inverses of square matrices.",
    "(Tensor A)",
)
.samples(|s| Ok(regular(s, &[2, 3, 3])?.map(|a| sample![a]).into()));

fn triangular_plan(c: &PlanCx<'_>) -> Result<Plan> {
    let (a, b) = (squares(c, 0)?, c.tensor(1)?);
    alike(a, b)?;
    let left = c.attrs::<attrs::LinalgSolveTriangular>()?.left;
    let (rows, cols) = sides(b);
    fits(a, b, sides(a).0 == if left { rows } else { cols })?;
    Ok(Plan::one(a.dtype(), b.shape().clone(), a.dtype()))
}

#[torsh_tensor::by_name(solve_triangular_with(.., SolveTriangularOptions))]
static SOLVE_TRIANGULAR: OpRecord = OpRecord::new(
    "linalg.solve_triangular",
    "The solution of A X = B, or of X A = B, for triangular A.",
    "(Tensor A, Tensor B, *, bool upper, bool left=True, bool unitriangular=False)",
)
.with_key(&keys::SOLVE_TRIANGULAR, triangular_plan)
.grads(1, 1, |c| {
    let &attrs::LinalgSolveTriangular {
        upper,
        left,
        unitriangular,
    } = c.attrs()?;
    let a = c.input(0)?;
    let gb = triangular(&a.adjoint()?, c.g(), !upper, left, unitriangular)?;
    let ga = match c.needs(0) {
        true => {
            let whole = outer(&gb, &c.out()?, left)?;
            let off = i64::from(unitriangular);
            Some(if upper {
                whole.triu(off)?
            } else {
                whole.tril(-off)?
            })
        }
        false => None,
    };
    Ok(smallvec![ga, Some(gb)])
})
.autocast(Autocast::Fp32)
.samples(|s| {
    let ([a, z], [c, w]) = (regular(s, &[3, 3])?, regular(s, &[2, 2, 2])?);
    let call = |a: Tensor, b: Tensor, upper: bool| sample![a, b, upper = upper];
    Ok(vec![
        call(a.clone(), s.real(&[3, 2])?, true),
        call(a, s.real(&[2, 3, 1])?, false).kw("unitriangular", true),
        call(z, s.complex(&[2, 3])?, false).kw("left", false),
        call(c, s.real(&[2, 1])?, true).kw("left", true),
        call(w, s.complex(&[2, 3, 2])?, true)
            .kw("left", false)
            .kw("unitriangular", true),
    ])
});

/// Solves with triangular matrices, of which the batches broadcast.
#[track_caller]
pub(crate) fn triangular(
    a: &Tensor,
    b: &Tensor,
    upper: bool,
    left: bool,
    unitriangular: bool,
) -> Result<Tensor> {
    check_matrix(b)?;
    let (a, b) = broadcast(a, b)?;
    let attrs = attrs::LinalgSolveTriangular {
        upper,
        left,
        unitriangular,
    };
    SOLVE_TRIANGULAR.call1(&[Arg::T(&a), Arg::T(&b)], &attrs)
}

/// As [`SOLVE_TRIANGULAR`], with the gradient of `A` as if all of it were read. PyTorch's derivatives of functions of a
/// Cholesky factor are so.
static WHOLE_TRIANGULAR: OpRecord = OpRecord::new(
    "_solve_factor",
    "The solution of A X = B for a triangular factor A.",
    "(Tensor A, Tensor B, *, bool upper, bool left, bool unitriangular)",
)
.internal()
.with_key(&keys::SOLVE_TRIANGULAR, triangular_plan)
.grads(1, 1, |c| {
    let &attrs::LinalgSolveTriangular {
        upper,
        left,
        unitriangular,
    } = c.attrs()?;
    let gb = whole_triangular(&c.input(0)?.adjoint()?, c.g(), !upper, left, unitriangular)?;
    let ga = c
        .needs(0)
        .then(|| outer(&gb, &c.out()?, left))
        .transpose()?;
    Ok(smallvec![ga, Some(gb)])
})
.autocast(Autocast::Fp32);

/// [`triangular`] with [`WHOLE_TRIANGULAR`].
#[track_caller]
pub(crate) fn whole_triangular(
    a: &Tensor,
    b: &Tensor,
    upper: bool,
    left: bool,
    unitriangular: bool,
) -> Result<Tensor> {
    check_matrix(b)?;
    let (a, b) = broadcast(a, b)?;
    let attrs = attrs::LinalgSolveTriangular {
        upper,
        left,
        unitriangular,
    };
    WHOLE_TRIANGULAR.call1(&[Arg::T(&a), Arg::T(&b)], &attrs)
}

#[torsh_tensor::by_name(triangular_solve_with(.., TriangularSolveOptions))]
static TRIANGULAR_SOLVE: OpRecord = OpRecord::new(
    "triangular_solve",
    "The solution of A X = b for triangular A, and a copy of A; linalg.solve_triangular has replaced it.",
    "(Tensor b, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False)",
)
.samples(|s| {
    let [a, z] = regular(s, &[3, 3])?;
    Ok(vec![
        sample![s.real(&[3, 2])?, a],
        sample![s.complex(&[3, 2])?, z, false, true],
    ])
});

#[torsh_tensor::by_name(tensorinv)]
static TENSORINV: OpRecord = OpRecord::new(
    "linalg.tensorinv",
    "The inverse of a tensor as a linear map from its last dimensions to its first ind ones.",
    "(Tensor A, int ind=2)",
)
.samples(|s| {
    let [a, z] = regular(s, &[4, 4])?;
    Ok(vec![
        sample![a.reshape([2, 2, 4])?],
        sample![z.reshape([4, 2, 2])?, 1],
    ])
});

static TENSORSOLVE: OpRecord = OpRecord::new(
    "linalg.tensorsolve",
    "The tensor X with tensordot(A, X) = B, over as many dimensions as X has.",
    "(Tensor A, Tensor B, int[]? dims=None)",
)
.by_name(|b| {
    let dims = b.opt_ints(2);
    tensorsolve_with(b.tensor(0)?, b.tensor(1)?, dims.as_deref()).map(Value::Tensor)
})
.samples(|s| {
    let [a, _] = regular(s, &[4, 4])?;
    Ok(vec![
        sample![a.reshape([2, 2, 4])?, s.real(&[2, 2])?],
        sample![a.reshape([4, 2, 2])?, s.real(&[4])?],
    ])
});

/// The solution `X` of `A X = B` (`torch.linalg.solve`), by LU with partial pivoting.
///
/// `a` has the shape `[.., n, n]`; `b` is `[.., n, k]`, `[n]`, or `[.., n]` with the batch of `a`. Batches broadcast.
///
/// It factors each matrix by LU with row exchanges: `2 n^3 / 3` operations, and `2 n^2` for each right-hand side. Use
/// [`cholesky_solve`](crate::cholesky_solve) for positive definite matrices, [`solve_triangular`] for triangular ones,
/// and [`lu_factor`](crate::lu_factor) if more systems with the matrix follow.
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// let x = linalg::solve(&tensor![[2.0, 0.0], [0.0, 4.0]], &tensor![2.0, 2.0])?;
/// assert_eq!(x, tensor![1.0, 0.5]);
/// let e = linalg::solve(&tensor![[1.0, 1.0], [1.0, 1.0]], &tensor![2.0, 2.0]).unwrap_err();
/// assert!(e.to_string().starts_with("linalg.solve: the matrix is singular: U[1, 1] is zero (LU)"));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If the shapes do not go together, the dtype is not float32, float64, complex64 or complex128, or a matrix is singular.
#[track_caller]
pub fn solve(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    solve_with(a, b, SolveOptions::new())
}

/// [`solve`], or the solution of `X A = B`.
///
/// ```
/// use torsh_linalg::{self as linalg, SolveOptions};
/// use torsh_tensor::tensor;
/// let a = tensor![[1.0, 2.0], [0.0, 1.0]];
/// let x = linalg::solve_with(&a, &tensor![[1.0, 3.0]], SolveOptions { left: false })?;
/// assert_eq!(x, tensor![[1.0, 1.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`solve`].
#[torsh_tensor::names_caller]
pub fn solve_with(a: &Tensor, b: &Tensor, options: SolveOptions) -> Result<Tensor> {
    within("linalg.solve", &[a, b], || {
        let (x, info) = general(a, b, options.left)?;
        check_info(&info, singular)?;
        Ok(x)
    })
}

/// The solution of `A X = B`, and for each matrix the position, from 1, of the first zero on the diagonal of `U`, or 0
/// (`torch.linalg.solve_ex`). The solution with a singular matrix is not defined, and that is no error.
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// let (_, info) = linalg::solve_ex(&tensor![[1.0, 1.0], [1.0, 1.0]], &tensor![2.0, 2.0])?;
/// assert_eq!(info.item::<i32>()?, 2);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`solve`], but for singular matrices.
#[track_caller]
pub fn solve_ex(a: &Tensor, b: &Tensor) -> Result<(Tensor, Tensor)> {
    solve_ex_with(a, b, SolveExOptions::new())
}

/// [`solve_ex`] with options.
///
/// ```
/// use torsh_linalg::{self as linalg, SolveExOptions};
/// use torsh_tensor::tensor;
/// let options = SolveExOptions::new().check_errors(true);
/// assert!(linalg::solve_ex_with(&tensor![[0.0]], &tensor![1.0], options).is_err());
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`solve_ex`]; with `check_errors` as [`solve`].
#[torsh_tensor::names_caller]
pub fn solve_ex_with(a: &Tensor, b: &Tensor, options: SolveExOptions) -> Result<(Tensor, Tensor)> {
    within("linalg.solve_ex", &[a, b], || {
        let (x, info) = general(a, b, options.left)?;
        if options.check_errors {
            check_info(&info, singular)?;
        }
        Ok((x, info))
    })
}

fn inverse(a: &Tensor) -> Result<(Tensor, Tensor)> {
    check_square(a)?;
    let mut outs = INV_EX.call(&[Arg::T(a)], &attrs::LinalgSolve { left: true })?;
    match (outs.pop(), outs.pop()) {
        (Some(info), Some(x)) => Ok((x, info)),
        _ => Err(TorshError::failed("", "the kernel gave too few results")),
    }
}

/// The inverses of square matrices (`torch.linalg.inv`), by LU with partial pivoting. Shape and dtype stay.
///
/// It costs `2 n^3` operations, three times a factorisation. To multiply the inverse with something, [`solve`] is
/// cheaper and more exact.
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// let inverse = linalg::inv(&tensor![[2.0, 0.0], [0.0, 4.0]])?;
/// assert_eq!(inverse, tensor![[0.5, 0.0], [0.0, 0.25]]);
/// let e = linalg::inv(&tensor![[[1.0]], [[0.0]]]).unwrap_err().to_string();
/// assert!(e.starts_with("linalg.inv: matrix 1 of the batch is singular: U[0, 0] is zero (LU)"));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If `a` is not a batch of square matrices of a dtype that [`solve`] takes, or a matrix is singular.
#[torsh_tensor::names_caller]
pub fn inv(a: &Tensor) -> Result<Tensor> {
    within("linalg.inv", &[a], || {
        let (x, info) = inverse(a)?;
        check_info(&info, singular)?;
        Ok(x)
    })
}

/// The inverses of square matrices, and for each the position, from 1, of the first zero on the diagonal of `U`, or 0
/// (`torch.linalg.inv_ex`).
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// assert_eq!(linalg::inv_ex(&tensor![[0.0]])?.1.item::<i32>()?, 1);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`inv`], but for singular matrices.
#[track_caller]
pub fn inv_ex(a: &Tensor) -> Result<(Tensor, Tensor)> {
    inv_ex_with(a, InvExOptions::new())
}

/// [`inv_ex`] with options.
///
/// ```
/// use torsh_linalg::{self as linalg, InvExOptions};
/// use torsh_tensor::tensor;
/// assert!(linalg::inv_ex_with(&tensor![[0.0]], InvExOptions::new().check_errors(true)).is_err());
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`inv_ex`]; with `check_errors` as [`inv`].
#[torsh_tensor::names_caller]
pub fn inv_ex_with(a: &Tensor, options: InvExOptions) -> Result<(Tensor, Tensor)> {
    within("linalg.inv_ex", &[a], || {
        let (x, info) = inverse(a)?;
        if options.check_errors {
            check_info(&info, singular)?;
        }
        Ok((x, info))
    })
}

/// The solution of `A X = B` for triangular `A` (`torch.linalg.solve_triangular`). Batches broadcast. The other triangle
/// is not read. A zero on the diagonal gives infinities or nan.
///
/// Each right-hand side costs `n^2` operations.
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// let a = tensor![[1.0, 2.0], [9.0, 1.0]];
/// let x = linalg::solve_triangular(&a, &tensor![[3.0], [1.0]], true)?;
/// assert_eq!(x, tensor![[1.0], [1.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If the shapes do not go together, or the dtypes differ or are not of those that [`solve`] takes.
#[track_caller]
pub fn solve_triangular(a: &Tensor, b: &Tensor, upper: bool) -> Result<Tensor> {
    solve_triangular_with(a, b, upper, SolveTriangularOptions::new())
}

/// [`solve_triangular`] with options.
///
/// ```
/// use torsh_linalg::{self as linalg, SolveTriangularOptions};
/// use torsh_tensor::tensor;
/// let options = SolveTriangularOptions::new().unitriangular(true);
/// let x = linalg::solve_triangular_with(&tensor![[5.0]], &tensor![[3.0]], true, options)?;
/// assert_eq!(x, tensor![[3.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`solve_triangular`].
#[torsh_tensor::names_caller]
pub fn solve_triangular_with(
    a: &Tensor,
    b: &Tensor,
    upper: bool,
    options: SolveTriangularOptions,
) -> Result<Tensor> {
    within("linalg.solve_triangular", &[a, b], || {
        check_square(a)?;
        triangular(a, b, upper, options.left, options.unitriangular)
    })
}

/// The solution of `A X = b` for upper triangular `A`, and a copy of `A` (`torch.triangular_solve`).
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// let (x, _) = linalg::triangular_solve(&tensor![[3.0], [1.0]], &tensor![[1.0, 2.0], [0.0, 1.0]])?;
/// assert_eq!(x, tensor![[1.0], [1.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`solve_triangular`].
#[track_caller]
pub fn triangular_solve(b: &Tensor, a: &Tensor) -> Result<(Tensor, Tensor)> {
    triangular_solve_with(b, a, TriangularSolveOptions::new())
}

/// [`triangular_solve`] with options.
///
/// ```
/// use torsh_linalg::{self as linalg, TriangularSolveOptions};
/// use torsh_tensor::tensor;
/// let options = TriangularSolveOptions::new().transpose(true);
/// let a = tensor![[1.0, 2.0], [0.0, 1.0]];
/// let (x, _) = linalg::triangular_solve_with(&tensor![[1.0], [3.0]], &a, options)?;
/// assert_eq!(x, tensor![[1.0], [1.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`triangular_solve`].
#[torsh_tensor::names_caller]
pub fn triangular_solve_with(
    b: &Tensor,
    a: &Tensor,
    options: TriangularSolveOptions,
) -> Result<(Tensor, Tensor)> {
    within("triangular_solve", &[b, a], || {
        if !a.layout().is_strided() {
            let attrs = attrs::TriangularSolve {
                upper: options.upper,
                transpose: options.transpose,
                unitriangular: options.unitriangular,
            };
            let outs =
                torsh_tensor::sparse::call("triangular_solve", &[Arg::T(b), Arg::T(a)], &attrs)?;
            let mut outs = outs.into_iter();
            return match (outs.next(), outs.next()) {
                (Some(x), Some(of)) => Ok((x, of)),
                _ => Err(TorshError::invalid(
                    "",
                    "the rule of triangular_solve gives two results",
                )),
            };
        }
        check_square(a)?;
        check_matrix(b)?;
        let TriangularSolveOptions {
            upper,
            transpose,
            unitriangular,
        } = options;
        let (of, rhs) = broadcast(a, b)?;
        let x = match transpose {
            true => triangular(&of.transpose(-2, -1)?, &rhs, !upper, true, unitriangular)?,
            false => triangular(&of, &rhs, upper, true, unitriangular)?,
        };
        Ok((x, of.copy()?))
    })
}

/// The inverse of a tensor as a linear map from its last dimensions to its first `ind` ones (`torch.linalg.tensorinv`).
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::eye;
/// let a = eye(4).mul(2.0)?.reshape([2, 2, 4])?;
/// assert_eq!(linalg::tensorinv(&a, 2)?, eye(4).mul(0.5)?.reshape([4, 2, 2])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If `ind` is not between 1 and the number of dimensions, the two parts of the shape have not the same number of
/// elements, or the map is singular.
#[torsh_tensor::names_caller]
pub fn tensorinv(a: &Tensor, ind: i64) -> Result<Tensor> {
    within("linalg.tensorinv", &[a], || {
        let at = usize::try_from(ind)
            .ok()
            .filter(|i| (1..=a.ndim()).contains(i));
        let Some(at) = at else {
            let text = format!("ind must be from 1 to {}, got {ind}", a.ndim());
            return Err(TorshError::invalid("", text));
        };
        let (from, to) = a.dims().split_at(at);
        let (m, n) = (from.iter().product::<usize>(), to.iter().product::<usize>());
        if m != n {
            return Err(TorshError::shape(
                "",
                format!(
                    "the sizes before and from dimension {ind} of {} have the products {m} and {n}, which must be equal",
                    a.shape()
                ),
            ));
        }
        inv(&a.reshape([m, n])?)?.reshape([to, from].concat())
    })
}

/// The tensor `X` with `tensordot(A, X) = B`, over as many dimensions as `X` has (`torch.linalg.tensorsolve`).
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::{eye, tensor};
/// let a = eye(4).mul(2.0)?.reshape([2, 2, 4])?;
/// let x = linalg::tensorsolve(&a, &tensor![[2.0, 4.0], [6.0, 8.0]])?;
/// assert_eq!(x, tensor![1.0, 2.0, 3.0, 4.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If the sizes do not go together, or the map is singular.
#[track_caller]
pub fn tensorsolve(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    tensorsolve_with(a, b, None)
}

/// [`tensorsolve`], after the dimensions `dims` of `a` were moved to the end.
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::{eye, tensor};
/// let a = eye(2).mul(2.0)?;
/// assert_eq!(linalg::tensorsolve_with(&a, &tensor![2.0, 4.0], Some(&[0]))?, tensor![1.0, 2.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`tensorsolve`], and for dimensions that `a` has not, or that come twice.
#[torsh_tensor::names_caller]
pub fn tensorsolve_with(a: &Tensor, b: &Tensor, dims: Option<&[i64]>) -> Result<Tensor> {
    within("linalg.tensorsolve", &[a, b], || {
        let a = match dims {
            None => a.clone(),
            Some(dims) => {
                let last: Vec<i64> = (0..dims.len() as i64)
                    .map(|i| i - dims.len() as i64)
                    .collect();
                a.movedim(dims, last)?
            }
        };
        let rest = a.dims().get(b.ndim()..).unwrap_or(&[]).to_vec();
        let (m, n) = (b.numel(), rest.iter().product::<usize>());
        if a.ndim() < b.ndim() || m != n || a.numel() != m * n {
            return Err(TorshError::shape(
                "",
                format!(
                    "A of shape {} is not a map to tensors of the shape {} of B",
                    a.shape(),
                    b.shape()
                ),
            ));
        }
        solve(&a.reshape([m, n])?, &b.reshape([m])?)?.reshape(rest)
    })
}
