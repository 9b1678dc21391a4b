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
    carrier, conj, elements, flat_values, lines, matrix, numbers, one_dtype, pattern_of, strided,
};
use crate::help::{first, host, one, within};
use crate::sampled::sampled;

torsh_core::kernel_keys! {
    SOLVE_KEY "SparseSolve" |c| numbers!(c, solve_host);
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
        SOLVE.call1(&args, &attrs)
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

/// The solution of `op(A) X = B` for one or several right-hand sides.
fn solution(b: &Tensor, a: &Tensor, options: &attrs::SparseTriangle) -> Result<Tensor> {
    let pattern = pattern_of(a)?;
    one_dtype(a, b)?;
    let (batch, [n, m]) = matrix(a.dims())?;
    if n != m || !batch.is_empty() {
        return Err(TorshError::shape(
            "",
            format!(
                "expected a square matrix, got a tensor of shape {}",
                a.shape()
            ),
        ));
    }
    if b.ndim() == 0 || b.ndim() > 2 || b.dims()[0] != n {
        return Err(TorshError::shape(
            "",
            format!(
                "a right-hand side of shape {} does not belong to a matrix of shape {}",
                b.shape(),
                a.shape()
            ),
        ));
    }
    let right = match b.ndim() {
        1 => b.unsqueeze(1)?,
        _ => b.clone(),
    };
    let x = solve_values(&flat_values(a)?, &carrier(&pattern)?, &right, options)?;
    match b.ndim() {
        1 => x.squeeze(1),
        _ => Ok(x),
    }
}

/// `triangular_solve` of a sparse matrix: the solution, and an empty tensor in place of the copy of the matrix. Operands are the
/// right-hand sides and the matrix; the attributes have PyTorch's names, in a struct of the caller's.
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

/// The solution `X` of `A X = B` for a sparse triangular matrix, `[n, n]`, and `[n]` or `[n, k]` right-hand sides.
///
/// All stored elements are on or below the diagonal, or on or above it. An element of the diagonal that is not stored is 0:
/// then there are infinities or NaN in the solution. The gradient of `a` has its pattern.
///
/// ```
/// use torsh_sparse::{self as sparse, SparseExt};
/// use torsh_tensor::tensor;
/// let a = tensor![[2.0, 0.0], [1.0, 4.0]].to_sparse_csr()?;
/// assert_eq!(sparse::spsolve(&a, &tensor![2.0, 9.0])?, tensor![1.0, 2.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If `a` is not sparse, square and triangular, the shapes do not go together, or the dtypes differ or are integers.
#[torsh_tensor::names_caller]
pub fn spsolve(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    within("sparse.spsolve", &[a, b], || {
        let pattern = pattern_of(a)?;
        matrix(a.dims())?;
        let upper = match pattern.indices().device().has_data() {
            true => {
                let places = elements(&pattern)?;
                let (rows, columns) = (host(&places.rows)?, host(&places.columns)?);
                let pairs = || rows.iter().zip(&columns);
                match (pairs().any(|(i, j)| j > i), pairs().any(|(i, j)| j < i)) {
                    (above, false) => above,
                    (false, true) => false,
                    (true, true) => {
                        return Err(TorshError::invalid(
                            "",
                            "the matrix has elements on both sides of its diagonal",
                        )
                        .with_hint(
                            "only triangular systems are solved; linalg::solve solves strided ones",
                        ));
                    }
                }
            }
            false => false,
        };
        let options = attrs::SparseTriangle {
            upper,
            transposed: false,
            unit: false,
        };
        solution(b, a, &options)
    })
}
