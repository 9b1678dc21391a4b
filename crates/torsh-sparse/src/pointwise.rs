//! Elementwise ops: sums of sparse tensors have the elements of both, products those of both at once, and what is computed
//! with a number or a strided tensor keeps the elements that are stored.

use smallvec::SmallVec;
use torsh_core::attrs::{Field, NONE};
use torsh_core::pointwise::numbers::AddAlpha;
use torsh_core::{Attributes, DType, Device, Scalar, TensorLayout};
use torsh_tensor::call::{Arg, Outputs};
use torsh_tensor::record::OpRecord;
use torsh_tensor::sparse::{self, SparseCall, SparseRule};
use torsh_tensor::{AddOptions, Grads, Operand, Result, Tensor, TorshError, no_grad};

use crate::grid::{self, Grid, linear, pattern, settled};
use crate::help::{first, one};
use crate::invariants::{known, verified};
use crate::{coalesce, convert, coords, join};

/// What elementwise ops do with sparse operands.
pub static POINTWISE: &[SparseRule] = &[
    SparseRule {
        op: "add",
        call: add,
    },
    SparseRule {
        op: "sub",
        call: sub,
    },
    SparseRule {
        op: "rsub",
        call: rsub,
    },
    SparseRule {
        op: "mul",
        call: mul,
    },
    SparseRule {
        op: "div",
        call: div,
    },
    SparseRule {
        op: "div.trunc",
        call: kept,
    },
    SparseRule {
        op: "floor_divide",
        call: kept,
    },
    SparseRule {
        op: "remainder",
        call: kept,
    },
    SparseRule {
        op: "fmod",
        call: kept,
    },
    SparseRule {
        op: "pow",
        call: pow,
    },
    SparseRule {
        op: "eq",
        call: kept,
    },
    SparseRule {
        op: "ne",
        call: kept,
    },
    SparseRule {
        op: "lt",
        call: kept,
    },
    SparseRule {
        op: "le",
        call: kept,
    },
    SparseRule {
        op: "gt",
        call: kept,
    },
    SparseRule {
        op: "ge",
        call: kept,
    },
    SparseRule {
        op: "maximum",
        call: kept,
    },
    SparseRule {
        op: "minimum",
        call: kept,
    },
    SparseRule {
        op: "fmax",
        call: kept,
    },
    SparseRule {
        op: "fmin",
        call: kept,
    },
    SparseRule {
        op: "atan2",
        call: kept,
    },
    SparseRule {
        op: "copysign",
        call: kept,
    },
    SparseRule {
        op: "logical_and",
        call: kept,
    },
    SparseRule {
        op: "bitwise_and",
        call: kept,
    },
    SparseRule {
        op: "angle",
        call: angle,
    },
    SparseRule {
        op: "real",
        call: |c| by_values(&linear(c.tensor(0)?)?, Tensor::real).map(one),
    },
    SparseRule {
        op: "imag",
        call: |c| by_values(&linear(c.tensor(0)?)?, Tensor::imag).map(one),
    },
];

/// Ops of this file that only rules call.
pub static RECORDS: &[&OpRecord] = &[&SUM_OF_TWO, &PRODUCT_OF_TWO];

/// `x + alpha * y`: both get the gradient as it comes, of whatever layout.
static SUM_OF_TWO: OpRecord = OpRecord::new(
    "_sparse_add",
    "The sum of a sparse tensor and another tensor, which is multiplied by `alpha`.",
    "(Tensor input, Tensor other, *, Scalar alpha)",
)
.internal()
.grads(0, 0, |c| {
    let alpha = c.attrs::<AddAlpha>()?.alpha;
    let first = c.needs(0).then(|| c.g().clone());
    let second = match (c.needs(1), is_one(alpha)) {
        (false, _) => None,
        (true, true) => Some(c.g().clone()),
        (true, false) => Some(c.g().mul(alpha.conj())?),
    };
    Ok(Grads::from_iter([first, second]))
});

/// The product of two sparse tensors of one layout, whose gradients have the elements of the product.
static PRODUCT_OF_TWO: OpRecord = OpRecord::new(
    "_sparse_mul",
    "The product of two sparse tensors, elementwise.",
    "(Tensor input, Tensor other)",
)
.internal()
.grads(3, 0, |c| {
    let by = |i: usize| -> Result<Option<Tensor>> {
        match c.needs(1 - i) {
            true => c.mul_conj(i).map(Some),
            false => Ok(None),
        }
    };
    Ok(Grads::from_iter([by(1)?, by(0)?]))
});

fn is_one(n: Scalar) -> bool {
    matches!(n, Scalar::Int(1) | Scalar::Bool(true)) || matches!(n, Scalar::Float(f) if f == 1.0)
}

fn negative(n: Scalar) -> Scalar {
    match n {
        Scalar::Bool(b) => Scalar::Int(-i64::from(b)),
        Scalar::Int(i) => Scalar::Int(i.wrapping_neg()),
        Scalar::Float(f) => Scalar::Float(-f),
        Scalar::Complex(re, im) => Scalar::Complex(-re, -im),
    }
}

/// The factor of the second operand of a sum.
fn alpha(attrs: &dyn Attributes) -> Scalar {
    match attrs.field("alpha") {
        Some(Field::Scalar(n)) => n,
        _ => Scalar::Int(1),
    }
}

const NUMBER_ADDED: &str =
    "a number added to a sparse tensor would make all of its elements different from 0";

fn add(c: &SparseCall<'_>) -> Result<Outputs> {
    let alpha = alpha(c.attrs);
    match (c.opt(0), c.opt(1)) {
        (Some(x), Some(y)) => total(c, x, y, alpha).map(one),
        _ => Err(c.refuse(NUMBER_ADDED)),
    }
}

fn sub(c: &SparseCall<'_>) -> Result<Outputs> {
    let alpha = negative(alpha(c.attrs));
    match (c.opt(0), c.opt(1)) {
        (Some(x), Some(y)) => {
            no_bool(x, y)?;
            total(c, x, y, alpha).map(one)
        }
        _ => Err(c.refuse(NUMBER_ADDED)),
    }
}

fn rsub(c: &SparseCall<'_>) -> Result<Outputs> {
    let alpha = negative(alpha(c.attrs));
    match (c.opt(0), c.opt(1)) {
        (Some(x), Some(y)) => {
            no_bool(x, y)?;
            total(c, y, x, alpha).map(one)
        }
        _ => Err(c.refuse(NUMBER_ADDED)),
    }
}

fn no_bool(x: &Tensor, y: &Tensor) -> Result<()> {
    match x.dtype() == DType::Bool || y.dtype() == DType::Bool {
        true => Err(TorshError::dtype(
            "",
            format!(
                "subtraction with a bool tensor is not supported: {} and {}",
                x.describe(),
                y.describe()
            ),
        )
        .with_hint("use logical_xor or bitwise_xor of strided tensors")),
        false => Ok(()),
    }
}

/// `x + alpha * y`.
fn total(c: &SparseCall<'_>, x: &Tensor, y: &Tensor, alpha: Scalar) -> Result<Tensor> {
    let out = no_grad(|| match (grid::is_sparse(x), grid::is_sparse(y)) {
        (true, true) => union(c, x, y, alpha),
        (false, true) => onto(x, y, alpha),
        // The sum with the strided one first; its factor goes with it.
        (true, false) => match is_one(alpha) {
            true => onto(y, x, alpha),
            false => convert::to_dense(x, None)?.add_with(y, AddOptions::new().alpha(alpha)),
        },
        (false, false) => x.add_with(y, AddOptions::new().alpha(alpha)),
    })?;
    first(SUM_OF_TWO.recorded(&[Arg::T(x), Arg::T(y)], &AddAlpha { alpha }, one(out))?)
}

/// A strided tensor plus a sparse one.
fn onto(x: &Tensor, y: &Tensor, alpha: Scalar) -> Result<Tensor> {
    let p = pattern(y)?;
    let plain = p.block().is_none()
        && x.shape() == y.shape()
        && x.dtype() == y.dtype()
        && x.dtype() != DType::Bool
        && x.ndim() > 0;
    if !plain {
        return x.add_with(&convert::to_dense(y, None)?, AddOptions::new().alpha(alpha));
    }
    let grid = Grid::new(&p)?;
    let mut lines: usize = 1;
    for &n in &grid.sizes {
        lines = lines
            .checked_mul(n)
            .ok_or_else(|| TorshError::invalid("", "the sizes overflow"))?;
    }
    let rows = [&[lines], &grid.element()[..]].concat();
    let at = row_keys(&grid)?;
    let v = grid.flat(&sparse::values(y)?)?;
    let add = AddOptions::new().alpha(alpha);
    x.reshape(&rows[..])?
        .index_add_with(0, &at, &v, add)?
        .reshape(x.shape())
}

/// The row-major position of each element of a list.
fn row_keys(grid: &Grid) -> Result<Tensor> {
    let mut keys = grid::keys(&[&grid.indices], &grid.sizes)?;
    keys.pop()
        .ok_or_else(|| TorshError::invalid("", "one list gives one list"))
}

/// The sum of two sparse tensors, in the layout of the first.
fn union(c: &SparseCall<'_>, x: &Tensor, y: &Tensor, alpha: Scalar) -> Result<Tensor> {
    if x.shape() != y.shape() {
        return Err(TorshError::shape(
            "",
            format!(
                "expected sparse operands of one shape, but their sizes {} and {} do not match",
                x.shape(),
                y.shape()
            ),
        ));
    }
    let (p, mut q) = (pattern(x)?, pattern(y)?);
    let mut y = y.clone();
    let alike = p.layout() == q.layout()
        && p.sparse_dim() == q.sparse_dim()
        && p.dense_dim() == q.dense_dim()
        && p.block() == q.block();
    if !alike {
        y = as_layout(c, &y, &p)?;
        q = pattern(&y)?;
    }
    let (a, b) = (sparse::values(x)?, sparse::values(&y)?);
    let with = AddOptions::new().alpha(alpha);
    if p.is_same(&q) {
        return sparse::from_values(&p, &a.add_with(&b, with)?);
    }
    // The dtype, and what the op refuses, without any element.
    let none = |t: &Tensor| t.flatten(0)?.narrow(0, 0, 0);
    let dtype = none(&a)?.add_with(&none(&b)?, with)?.dtype();
    let (g, h) = (Grid::new(&p)?, Grid::new(&q)?);
    let (a, b) = (g.flat(&a)?.to_dtype(dtype)?, h.flat(&b)?.to_dtype(dtype)?);
    let b = match alpha {
        n if is_one(n) => b,
        Scalar::Int(-1) if dtype != DType::Bool => b.neg()?,
        n => b.mul(n)?.to_dtype(dtype)?,
    };
    let (lines, others) = (g.lines()?.contiguous()?, h.lines()?.contiguous()?);
    let once = p.is_coalesced() && q.is_coalesced();
    let (lines, values) = match once && a.device() == Device::Cpu {
        true => {
            verified(&p)?;
            verified(&q)?;
            coords::merged([&lines, &others], [&a, &b], &g.line_sizes())?
        }
        false => {
            let indices = Tensor::cat(&[lines, others], 1)?;
            let values = Tensor::cat(&[a, b], 0)?;
            let shape = [g.line_sizes(), g.element()].concat();
            let listed = grid::coo(&shape, &indices, &values, false)?;
            if !once {
                return Ok(listed);
            }
            let listed = coalesce::coalesce(&listed)?;
            let lines = pattern(&listed)?.indices().clone();
            (lines, sparse::values(&listed)?)
        }
    };
    let merged = known(grid::of_lines(&p, &lines)?)?;
    Grid::new(&merged)?.close(&values)
}

/// A sparse tensor with the layout, the blocks and the dense dimensions of a pattern.
fn as_layout(c: &SparseCall<'_>, x: &Tensor, like: &sparse::Pattern) -> Result<Tensor> {
    let have = pattern(x)?;
    if have.dense_dim() != like.dense_dim() {
        return Err(c.refuse(&format!(
            "the operands have {} and {} dense dimensions",
            like.dense_dim(),
            have.dense_dim()
        )));
    }
    if like.layout() == TensorLayout::SparseCoo {
        return convert::to_coo(x);
    }
    convert::to_layout(x, like.layout(), like.block(), None)
}

fn mul(c: &SparseCall<'_>) -> Result<Outputs> {
    let out = match (c.opt(0), c.opt(1)) {
        (Some(x), Some(y)) => match (grid::is_sparse(x), grid::is_sparse(y)) {
            (true, true) => product(x, y)?,
            (true, false) => scaled(x, y)?,
            (false, true) => scaled(y, x)?,
            (false, false) => x.mul(y)?,
        },
        (Some(x), None) | (None, Some(x)) => {
            let n = c.number(0).or_else(|| c.number(1));
            let n = n.ok_or_else(|| c.refuse("a factor is missing"))?;
            let x = linear(x)?;
            let out = no_grad(|| by_values(&x, |v| v.mul(n)))?;
            first(MUL_NUMBER.recorded(&[Arg::T(&x), Arg::N(n)], NONE, one(out))?)?
        }
        (None, None) => return Err(c.refuse("a sparse factor is missing")),
    };
    Ok(one(out))
}

/// Not in the table of ops, which has `mul`: it is the node of a product.
static MUL_NUMBER: OpRecord = OpRecord::new(
    "mul",
    "A sparse tensor times a number.",
    "(Tensor input, Scalar other)",
)
.internal()
.grads(2, 0, |c| {
    let g = c.g().mul(&c.y()?.conj()?)?;
    Ok(SmallVec::from_iter([Some(g), None]))
});

/// A function of the stored values.
fn by_values(x: &Tensor, f: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    sparse::from_values(&pattern(x)?, &f(&sparse::values(x)?)?)
}

/// The angle of each element. As in PyTorch, that of real numbers in a compressed layout has a gradient that stores nothing.
fn angle(c: &SparseCall<'_>) -> Result<Outputs> {
    let x = settled(c.tensor(0)?)?;
    let run = || by_values(&x, Tensor::angle);
    let out = match x.layout().is_compressed() && x.dtype().is_floating_point() {
        true => sparse::flat(&x, no_grad(run)?),
        false => run(),
    };
    out.map(one)
}

/// A sparse tensor times a strided one.
fn scaled(x: &Tensor, t: &Tensor) -> Result<Tensor> {
    let x = linear(x)?;
    if t.ndim() == 0 {
        return by_values(&x, |v| v.mul(t));
    }
    let shape = x.shape().broadcast(t.shape())?;
    let x = join::expanded(&x, shape.dims())?;
    let grid = Grid::of(&x)?;
    let v = grid.flat(&sparse::values(&x)?)?;
    grid.close(&v.mul(&grid.gather(t)?)?)
}

/// The product of two sparse tensors, in the layout of the first.
fn product(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let shape = x.shape().broadcast(y.shape()).map_err(|_| {
        TorshError::shape(
            "",
            format!(
                "the shapes {} and {} do not broadcast",
                x.shape(),
                y.shape()
            ),
        )
    })?;
    let (x, y) = (
        join::expanded(x, shape.dims())?,
        join::expanded(y, shape.dims())?,
    );
    let (p, q) = (pattern(&x)?, pattern(&y)?);
    let once = p.is_coalesced() && q.is_coalesced();
    if once && p.is_same(&q) {
        return by_values(&x, |v| v.mul(&sparse::values(&y)?));
    }
    let by_elements = matches!(
        p.layout(),
        TensorLayout::SparseCoo | TensorLayout::SparseCsr
    );
    let alike = p.layout() == q.layout() && p.dense_dim() == q.dense_dim() && p.batch_dim() == 0;
    if by_elements && alike {
        let out = no_grad(|| intersection(&x, &y))?;
        return first(PRODUCT_OF_TWO.recorded(&[Arg::T(&x), Arg::T(&y)], NONE, one(out))?);
    }
    let x = linear(&x)?;
    let other = convert::at_pattern(&y, &pattern(&x)?)?;
    by_values(&x, |v| v.mul(&other))
}

/// The product of two tensors of one layout at the elements that both store; as in PyTorch, at all those of an operand that is
/// not coalesced, the one with fewer elements if neither is.
fn intersection(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let (p, q) = (pattern(x)?, pattern(y)?);
    let kept = match (p.is_coalesced(), q.is_coalesced()) {
        (true, true) => None,
        (false, true) => Some((x, y)),
        (true, false) => Some((y, x)),
        (false, false) if q.nnz() < p.nnz() => Some((y, x)),
        (false, false) => Some((x, y)),
    };
    if let Some((kept, other)) = kept {
        let factors = convert::at_pattern(other, &pattern(kept)?)?;
        return by_values(kept, |v| v.mul(&factors));
    }
    let (from, to) = (y, x);
    let (g, h) = (Grid::of(from)?, Grid::of(to)?);
    let (listed, sorted) = (g.lines()?, h.lines()?);
    let (there, place) = grid::matches(&sorted, &listed, &g.line_sizes())?;
    let v = sparse::values(from)?.index_select(0, &there)?;
    let v = v.mul(&sparse::values(to)?.index_select(0, &place)?)?;
    let lines = listed.index_select(1, &there)?;
    let merged = match g.pattern.layout() {
        TensorLayout::SparseCoo => {
            let once = g.pattern.is_coalesced();
            sparse::Pattern::coo(g.pattern.shape().dims(), &lines, once)?
        }
        _ => grid::of_lines(&g.pattern, &lines)?,
    };
    sparse::from_values(&merged, &v)
}

/// The other operand of a sparse one: a number, or a tensor without dimensions.
fn divisor<'a>(c: &SparseCall<'a>) -> Result<(&'a Tensor, Operand<'a>)> {
    let x = c.opt(0).filter(|x| grid::is_sparse(x));
    let x = x.ok_or_else(|| c.refuse("only the first operand can be sparse"))?;
    match (c.number(1), c.opt(1)) {
        (Some(n), _) => Ok((x, Operand::Number(n))),
        (None, Some(t)) if t.ndim() == 0 && !grid::is_sparse(t) => Ok((x, Operand::Ref(t))),
        _ => Err(
            c.refuse("the second operand must be a number or a strided tensor without dimensions")
        ),
    }
}

fn div(c: &SparseCall<'_>) -> Result<Outputs> {
    let (x, by) = divisor(c)?;
    by_values(&linear(x)?, |v| v.div(by)).map(one)
}

fn pow(c: &SparseCall<'_>) -> Result<Outputs> {
    let (x, exponent) = divisor(c)?;
    let zero = match &exponent {
        Operand::Number(n) => n.to_complex() == (0.0, 0.0),
        Operand::Ref(t) => t.device().has_data() && t.item_scalar()?.to_complex() == (0.0, 0.0),
        Operand::Owned(_) => false,
    };
    if zero {
        return Err(c.refuse("the power 0 of a sparse tensor would make all of its elements 1"));
    }
    by_values(&settled(x)?, |v| v.pow(exponent)).map(one)
}

/// The op of a rule's name on strided tensors.
fn strided(op: &str, x: &Tensor, y: Operand<'_>) -> Option<Result<Tensor>> {
    Some(match op {
        "div.trunc" => x.div_trunc(y),
        "floor_divide" => x.floor_divide(y),
        "remainder" => x.remainder(y),
        "fmod" => x.fmod(y),
        "eq" => x.eq(y),
        "ne" => x.ne(y),
        "lt" => x.lt(y),
        "le" => x.le(y),
        "gt" => x.gt(y),
        "ge" => x.ge(y),
        "maximum" => x.maximum(y),
        "minimum" => x.minimum(y),
        "fmax" => x.fmax(y),
        "fmin" => x.fmin(y),
        "atan2" => x.atan2(y),
        "copysign" => x.copysign(y),
        "logical_and" => x.logical_and(y),
        "bitwise_and" => x.bitwise_and(y),
        _ => return None,
    })
}

/// An op with a number that gives 0 for 0, which is asked first.
fn kept(c: &SparseCall<'_>) -> Result<Outputs> {
    let (x, other) = divisor(c)?;
    let run = |x: &Tensor, other: Operand<'_>| {
        strided(c.op, x, other).unwrap_or_else(|| Err(c.refuse("there is no such elementwise op")))
    };
    let copy = match &other {
        Operand::Number(n) => Operand::Number(*n),
        Operand::Ref(t) => Operand::Owned(t.detach()),
        Operand::Owned(t) => Operand::Owned(t.detach()),
    };
    let quotient = matches!(c.op, "floor_divide" | "div.trunc");
    if x.device().has_data() && !quotient {
        let zero = no_grad(|| run(&Tensor::zeros([1], x.dtype(), x.device())?, copy))?;
        let n = zero.item_scalar()?;
        if n.to_complex() != (0.0, 0.0) {
            return Err(c.refuse(&format!(
                "it gives {n} for 0, so that the result would be dense"
            )));
        }
    }
    by_values(&settled(x)?, |v| run(v, other)).map(one)
}
