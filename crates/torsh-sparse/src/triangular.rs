//! Triangular systems with a sparse matrix.

use smallvec::SmallVec;
use torsh_backend_cpu::sparse::{self as kernels, Index, Number, Rows, Triangle};
use torsh_core::Element;
use torsh_core::attrs::Field;
use torsh_core::kernel::HostCall;
use torsh_tensor::call::{Arg, Outputs};
use torsh_tensor::record::{OpRecord, Plan};
use torsh_tensor::sparse::{Pattern, SparseCall};
use torsh_tensor::{Result, Tensor, TorshError, no_grad};

use crate::attrs;
use crate::csr::{
    carrier, conj, elements, flat_values, lines, matrix, one_dtype, pattern_of, sampled, strided,
};
use crate::help::{by_dtype, first, of_layout, one};

torsh_core::kernel_keys! {
    SOLVE_KEY "SparseSolve" |c| by_dtype!(c, solve_host, any indexed);
}

/// The kernel: operands are the values, pointers and indices by rows, the right-hand sides, and where each value is.
pub(crate) static SOLVE: OpRecord = OpRecord::new(
    "_sparse_solve",
    "The solutions of a triangular system.",
    "(Tensor values, Tensor pointers, Tensor indices, Tensor b, Tensor? order, *, bool upper, bool transposed, bool unit)",
)
.internal()
.with_key(&SOLVE_KEY, |c| {
    let b = c.tensor(3)?;
    let dtype = one_dtype(c.tensor(0)?, b)?;
    if b.ndim() != 2 {
        return Err(TorshError::shape("", "the right-hand side must be a matrix"));
    }
    if !dtype.is_floating_point() && !dtype.is_complex() {
        return Err(TorshError::dtype("", format!("not implemented for {dtype}"))
            .with_hint("convert the operands with to_dtype(DType::F32)"));
    }
    Ok(Plan::one(dtype, b.shape().clone(), dtype))
})
.constant();

fn solve_host<T: Number, I: Index + Element>(c: &mut HostCall<'_>) -> Result<()> {
    let a = c.attrs::<attrs::SparseTriangle>()?;
    let triangle = Triangle {
        upper: a.upper,
        unit: a.unit,
    };
    let (values, pointers, indices) = (c.input::<T>(0)?, c.input::<I>(1)?, c.input::<I>(2)?);
    let (b, order) = (c.input::<T>(3)?, c.input::<i64>(4).ok());
    let &[n, m] = c.input_shape(3)? else {
        return Err(TorshError::shape(
            "",
            "the right-hand side must be a matrix",
        ));
    };
    let a = Rows::new(&pointers, &indices, &values, order.as_deref(), n)?;
    kernels::solve(a, &b, m, triangle, c.output::<T>(0)?)
}

fn plain(
    values: &Tensor,
    pattern: &Pattern,
    b: &Tensor,
    a: &attrs::SparseTriangle,
) -> Result<Tensor> {
    no_grad(|| {
        let rows = lines(pattern, a.transposed)?;
        let (values, b) = (values.contiguous()?, b.contiguous()?);
        // The transposed matrix has the other triangle.
        let attrs = attrs::SparseTriangle {
            upper: a.upper != a.transposed,
            ..a.clone()
        };
        let args = [
            Arg::T(&values),
            Arg::T(&rows.pointers),
            Arg::T(&rows.indices),
            Arg::T(&b),
            rows.order(),
        ];
        let x = SOLVE.call1(&args, &attrs);
        x.map_err(|e| of_layout(e, pattern.layout()))
    })
}

pub(crate) static SOLVE_VALUES: OpRecord = OpRecord::new(
    "_sparse_solve_values",
    "The solutions of a triangular system with the matrix of some values.",
    "(Tensor values, Tensor pattern, Tensor b, *, bool upper, bool transposed, bool unit)",
)
.internal()
.grads(0b11, 1, |c| {
    let a = c.attrs::<attrs::SparseTriangle>()?;
    let (values, pattern) = (c.x()?, c.y()?);
    let back = attrs::SparseTriangle {
        transposed: !a.transposed,
        ..a.clone()
    };
    let to_b = solve_values(&conj(&values)?, &pattern, &strided(c.g())?, &back)?;
    let to_values = match c.needs(0) {
        true => {
            let x = conj(&c.out()?)?;
            let product = match a.transposed {
                false => sampled(&pattern, &to_b, &x)?,
                true => sampled(&pattern, &x, &to_b)?,
            };
            Some(kept(&product.neg()?, &pattern_of(&pattern)?, a)?)
        }
        false => None,
    };
    Ok(SmallVec::from_iter([
        to_values,
        None,
        c.needs(2).then_some(to_b),
    ]))
});

/// The values of the triangle that is read, and 0 for the others.
fn kept(values: &Tensor, pattern: &Pattern, a: &attrs::SparseTriangle) -> Result<Tensor> {
    let places = elements(pattern)?;
    let unread = match (a.upper, a.unit) {
        (true, false) => places.columns.lt(&places.rows)?,
        (true, true) => places.columns.le(&places.rows)?,
        (false, false) => places.columns.gt(&places.rows)?,
        (false, true) => places.columns.ge(&places.rows)?,
    };
    values.masked_fill(&unread, 0)
}

#[track_caller]
fn solve_values(
    values: &Tensor,
    carrier: &Tensor,
    b: &Tensor,
    a: &attrs::SparseTriangle,
) -> Result<Tensor> {
    let out = plain(values, &pattern_of(carrier)?, b, a)?;
    let args = [Arg::T(values), Arg::T(carrier), Arg::T(b)];
    first(SOLVE_VALUES.recorded(&args, a, one(out))?)
}

/// The pattern of a matrix of a system: sparse, square, alone.
pub(crate) fn square(a: &Tensor) -> Result<Pattern> {
    let pattern = pattern_of(a)?;
    match matrix(a.dims())? {
        ([], [n, m]) if n == m => Ok(pattern),
        (batch, _) => {
            let e = TorshError::shape(
                "",
                format!(
                    "expected a square matrix, got a tensor of shape {}",
                    a.shape()
                ),
            );
            Err(match batch {
                [] => e,
                _ => e.with_hint("solve with each matrix of a batch: select(0, i) is one of them"),
            })
        }
    }
}

/// The solutions for right-hand sides `[n]` or `[n, k]`, by what solves for `[n, k]`.
#[track_caller]
pub(crate) fn for_sides(
    n: usize,
    b: &Tensor,
    solution: impl FnOnce(&Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    if b.pattern().is_some() {
        return Err(
            TorshError::invalid("", "the right-hand side must be strided")
                .with_hint("to_dense() makes a strided tensor of a sparse one"),
        );
    }
    if b.ndim() == 0 || b.ndim() > 2 || b.dims()[0] != n {
        return Err(TorshError::shape(
            "",
            format!(
                "a right-hand side of shape {} does not belong to a matrix of shape [{n}, {n}]",
                b.shape()
            ),
        )
        .with_hint(format!(
            "pass a vector [{n}] or the columns of a matrix [{n}, k]"
        )));
    }
    match b.ndim() {
        1 => solution(&b.unsqueeze(1)?)?.squeeze(1),
        _ => solution(b),
    }
}

/// The solution of `op(A) X = B` for one or several right-hand sides.
pub(crate) fn solution(b: &Tensor, a: &Tensor, options: &attrs::SparseTriangle) -> Result<Tensor> {
    let pattern = square(a)?;
    one_dtype(a, b)?;
    let (values, carrier) = (flat_values(a)?, carrier(&pattern)?);
    for_sides(a.dims()[0], b, |right| {
        solve_values(&values, &carrier, right, options)
    })
}

/// `triangular_solve` of a sparse matrix: the solution, and an empty tensor in place of the copy of the matrix.
/// Operands are the right-hand sides and the matrix; the attributes have PyTorch's names, in a struct of the caller's.
pub(crate) fn rule(call: &SparseCall<'_>) -> Result<Outputs> {
    let (b, a) = (call.tensor(0)?, call.tensor(1)?);
    if a.pattern().is_none() || b.pattern().is_some() {
        return Err(call.refuse("the matrix may be sparse, the right-hand side is strided"));
    }
    let flag = |name: &str, default: bool| match call.attrs.field(name) {
        Some(Field::Bool(b)) => b,
        _ => default,
    };
    let options = attrs::SparseTriangle {
        upper: flag("upper", true),
        transposed: flag("transpose", false),
        unit: flag("unitriangular", false),
    };
    let x = solution(b, a, &options)?;
    let empty = Tensor::zeros(0, a.dtype(), a.device())?;
    Ok(SmallVec::from_iter([x, empty]))
}
