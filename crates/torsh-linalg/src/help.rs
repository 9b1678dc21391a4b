//! What the functions share: checks of operands, batches that broadcast, and names in errors.

use torsh_core::{DType, Shape, attrs};
use torsh_tensor::observe;
use torsh_tensor::record::PlanCx;
use torsh_tensor::{DiagonalOptions, Result, Tensor, TorshError};

/// Runs a function that is written in ops: observers see it, and errors name it.
#[track_caller]
pub(crate) fn within<T>(
    op: &'static str,
    args: &[&Tensor],
    f: impl FnOnce() -> Result<T>,
) -> Result<T> {
    observe::composite(op, args, f).map_err(|e| e.renamed(op))
}

/// The dtypes that decompositions have.
pub(crate) fn check_dtype(t: &Tensor) -> Result<DType> {
    match t.dtype() {
        d @ (DType::F32 | DType::F64 | DType::C64 | DType::C128) => Ok(d),
        d @ (DType::F16 | DType::BF16) => Err(TorshError::dtype(
            "",
            format!("low precision dtypes are not supported, got {d}"),
        )
        .with_hint("convert it with to_dtype(DType::F32)")),
        d => Err(TorshError::dtype(
            "",
            format!("expected a floating point or complex tensor as input, got {d}"),
        )
        .with_hint("convert it with to_dtype(DType::F32)")),
    }
}

/// Refuses what has fewer than two dimensions.
pub(crate) fn check_matrix(t: &Tensor) -> Result<()> {
    match t.ndim() {
        0 | 1 => Err(TorshError::shape(
            "",
            format!(
                "the input must have at least 2 dimensions, got {}",
                t.shape()
            ),
        )),
        _ => Ok(()),
    }
}

/// Refuses what is not a batch of square matrices.
pub(crate) fn check_square(t: &Tensor) -> Result<()> {
    check_matrix(t)?;
    let (m, n) = sides(t);
    match m == n {
        true => Ok(()),
        false => Err(TorshError::shape(
            "",
            format!("expected batches of square matrices, got {m} by {n} matrices"),
        )),
    }
}

/// Rows and columns of a matrix.
pub(crate) fn sides(t: &Tensor) -> (usize, usize) {
    match *t.dims() {
        [.., m, n] => (m, n),
        _ => (0, 0),
    }
}

/// The dimensions before the last two.
pub(crate) fn batch(t: &Tensor) -> &[usize] {
    &t.dims()[..t.ndim().saturating_sub(2)]
}

/// A shape of batch dimensions and others.
pub(crate) fn shape(batch: &[usize], rest: &[usize]) -> Shape {
    Shape::from([batch, rest].concat())
}

/// The first operand of a plan: a batch of matrices of a dtype that decompositions have.
pub(crate) fn matrices<'a>(c: &PlanCx<'a>, i: usize) -> Result<&'a Tensor> {
    let t = c.tensor(i)?;
    check_dtype(t)?;
    check_matrix(t)?;
    Ok(t)
}

/// As [`matrices`], square ones.
pub(crate) fn squares<'a>(c: &PlanCx<'a>, i: usize) -> Result<&'a Tensor> {
    let t = matrices(c, i)?;
    check_square(t)?;
    Ok(t)
}

/// Refuses operands of another dtype or batch than the first's.
pub(crate) fn alike(a: &Tensor, b: &Tensor) -> Result<()> {
    check_matrix(b)?;
    if a.dtype() != b.dtype() {
        return Err(TorshError::dtype(
            "",
            format!(
                "expected operands of one dtype, got {} and {}",
                a.dtype(),
                b.dtype()
            ),
        ));
    }
    match batch(a) == batch(b) {
        true => Ok(()),
        false => Err(TorshError::shape(
            "",
            format!(
                "the batches of {} and {} are not the same",
                a.shape(),
                b.shape()
            ),
        )),
    }
}

/// Both operands with the batch that theirs broadcast to.
pub(crate) fn broadcast(a: &Tensor, b: &Tensor) -> Result<(Tensor, Tensor)> {
    let (of_a, of_b) = (batch(a), batch(b));
    if of_a == of_b {
        return Ok((a.clone(), b.clone()));
    }
    let whole = Shape::from(of_a.to_vec()).broadcast(&Shape::from(of_b.to_vec()))?;
    let to = |t: &Tensor| {
        let (m, n) = sides(t);
        t.expand(shape(whole.dims(), &[m, n]))
    };
    Ok((to(a)?, to(b)?))
}

/// Whether `b` is a vector, or a batch of vectors, beside the matrices `a`, as PyTorch decides it.
pub(crate) fn is_vector(a: &Tensor, b: &Tensor) -> bool {
    b.ndim() == 1 || a.ndim() == b.ndim() + 1 && b.dims() == &a.dims()[..a.ndim() - 1]
}

/// The diagonals of matrices.
pub(crate) fn diagonal(t: &Tensor) -> Result<Tensor> {
    t.diagonal_with(DiagonalOptions::new().dim1(-2).dim2(-1))
}

/// Diagonal matrices.
pub(crate) fn embed(t: &Tensor) -> Result<Tensor> {
    t.diag_embed(0, -2, -1)
}

/// The identity, as the matrices of `t` are.
pub(crate) fn eye_like(t: &Tensor, n: usize) -> Result<Tensor> {
    Tensor::eye(n, t.dtype(), t.device())
}

/// Refuses results whose `info` says that something is wrong. `what` is told the matrix, as errors name it, and its
/// number.
pub(crate) fn check_info(info: &Tensor, what: impl Fn(String, i32) -> String) -> Result<()> {
    if !info.device().has_data() {
        return Ok(());
    }
    let all = info.detach().to_vec::<i32>()?;
    match all.iter().position(|&i| i != 0) {
        None => Ok(()),
        Some(i) => {
            let which = match info.ndim() {
                0 => "the matrix".to_string(),
                _ => format!("matrix {i} of the batch"),
            };
            Err(TorshError::failed("", what(which, all[i])))
        }
    }
}

/// The text for a matrix whose LU factor has a zero on its diagonal.
pub(crate) fn singular(which: String, info: i32) -> String {
    format!("{which} is singular: U[{0}, {0}] is zero (LU)", info - 1)
}

/// No attributes.
pub(crate) const NONE: &dyn torsh_core::Attributes = attrs::NONE;
