//! Products of matrices and vectors: one kernel, and one derivative, under PyTorch's names.

pub(crate) mod methods;

use smallvec::SmallVec;
use torsh_core::{DType, Dims, Kernel, Result, Scalar, Shape, TorshError, attrs};

use super::index::check_number;
use crate::autocast::{Autocast, body};
use crate::call::{Arg, call1};
use crate::node::{BackwardCx, Grads};
use crate::record::{OpRecord, Plan, PlanCx, Sample, sample};
use crate::sample::Sampler;
use crate::{AddmmOptions, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[
    &MATMUL, &MM, &BMM, &MV, &DOT, &VDOT, &INNER, &OUTER, &ADDMM, &ADDMV, &ADDBMM, &BADDBMM, &ADDR,
    &LINEAR, &TENSORDOT,
];

/// Checks what the kernel has no say in: dtypes that are equal and that products have.
fn dtypes(c: &PlanCx<'_>) -> Result<DType> {
    let dtype = c.tensor(0)?.dtype();
    for i in 1..c.len() {
        if let Some(t) = c.opt_tensor(i)
            && t.dtype() != dtype
        {
            return Err(TorshError::dtype(
                "",
                format!(
                    "expected all operands to have the same dtype, but got {dtype} and {}",
                    t.dtype()
                ),
            )
            .with_hint("convert one of them with to_dtype(..)"));
        }
    }
    if dtype == DType::Bool {
        return Err(TorshError::dtype("", "not implemented for bool")
            .with_hint("convert the operands to an integer type"));
    }
    Ok(dtype)
}

/// Sizes that cannot be multiplied.
#[cold]
fn mismatch(a: &Tensor, b: &Tensor) -> TorshError {
    TorshError::shape(
        "",
        format!(
            "the shapes {} and {} cannot be multiplied",
            a.shape(),
            b.shape()
        ),
    )
    .with_hint("the last size of the first must be the last but one (or only) size of the second")
}

/// The shape of a product of two tensors, which may come with their last two dimensions swapped.
fn plan(c: &PlanCx<'_>) -> Result<Plan> {
    let a = c.attrs::<attrs::MatMul>()?;
    plan_of(c, a.transpose_a, a.transpose_b)
}

/// [`plan`] with what the attributes say. The addend's shape must broadcast to the product's.
fn plan_of(c: &PlanCx<'_>, transpose_a: bool, transpose_b: bool) -> Result<Plan> {
    let dtype = dtypes(c)?;
    let (a, b) = (c.tensor(0)?, c.tensor(1)?);
    if a.ndim() == 0 || b.ndim() == 0 {
        return Err(TorshError::shape(
            "",
            format!(
                "both arguments need to be at least 1D, but they are {}D and {}D",
                a.ndim(),
                b.ndim()
            ),
        ));
    }
    let last_two = |t: &Tensor, swapped: bool| {
        let d = t.dims();
        let (r, c) = (d[d.len() - 2], d[d.len() - 1]);
        if swapped { (c, r) } else { (r, c) }
    };
    // A vector on the left is a row, on the right a column; the result is without that dimension.
    let (m, k) = match a.ndim() {
        1 => (None, a.dims()[0]),
        _ => {
            let (m, k) = last_two(a, transpose_a);
            (Some(m), k)
        }
    };
    let (k2, n) = match b.ndim() {
        1 => (b.dims()[0], None),
        _ => {
            let (k, n) = last_two(b, transpose_b);
            (k, Some(n))
        }
    };
    if k != k2 {
        return Err(mismatch(a, b));
    }
    let lead = |t: &Tensor| Shape::new(&t.dims()[..t.ndim().saturating_sub(2)]);
    let mut dims = Dims::from_slice(lead(a).broadcast(&lead(b))?.dims());
    dims.extend(m);
    dims.extend(n);
    let shape: Shape = dims.into();
    if let Some(add) = c.opt_tensor(2)
        && !add.shape().can_broadcast_to(&shape)
    {
        return Err(TorshError::shape(
            "",
            format!(
                "the addend of shape {} does not broadcast to the product's shape {shape}",
                add.shape()
            ),
        ));
    }
    Ok(Plan::one(dtype, shape, dtype))
}

/// The shape of a product of operands of fixed ranks, which come as they are.
fn ranked(c: &PlanCx<'_>, ranks: [usize; 2]) -> Result<Plan> {
    for (i, rank) in ranks.into_iter().enumerate() {
        let t = c.tensor(i)?;
        if t.ndim() != rank {
            let what = [
                "a number",
                "a vector (1D)",
                "a matrix (2D)",
                "a batch of matrices (3D)",
            ][rank];
            let message = format!(
                "{rank}D tensors expected: operand {i} must be {what}, but is {}D",
                t.ndim()
            );
            return Err(TorshError::shape("", message));
        }
    }
    if ranks == [3, 3] {
        let (a, b) = (c.tensor(0)?, c.tensor(1)?);
        if a.dims()[0] != b.dims()[0] {
            return Err(TorshError::shape(
                "",
                format!(
                    "batch1 and batch2 must have the same number of batches, got {} and {}",
                    a.dims()[0],
                    b.dims()[0]
                ),
            ));
        }
    }
    plan_of(c, false, false)
}

/// `alpha * op(a) op(b)`, where `op` swaps the last two dimensions where told to.
fn product(
    a: &Tensor,
    b: &Tensor,
    transpose_a: bool,
    transpose_b: bool,
    alpha: Scalar,
) -> Result<Tensor> {
    let attrs = attrs::MatMul {
        alpha,
        transpose_a,
        transpose_b,
    };
    call1(&MATMUL, &[Arg::T(a), Arg::T(b)], &attrs)
}

/// All but the last dimension as one.
fn rows(t: &Tensor) -> Result<Tensor> {
    let last = t.dims()[t.ndim() - 1];
    let count: usize = t.dims()[..t.ndim() - 1].iter().product();
    t.reshape([count, last])
}

/// The gradients of the two factors and, where there is one, the addend.
fn gradients(c: &BackwardCx<'_>) -> Result<Grads> {
    gradients_of(c, c.attrs()?, Scalar::Int(1))
}

/// [`gradients`] where the addend has a factor too.
fn sum_gradients(c: &BackwardCx<'_>) -> Result<Grads> {
    let &attrs::AddMm { beta, alpha } = c.attrs()?;
    let product = attrs::MatMul {
        alpha,
        ..attrs::MatMul::PLAIN
    };
    gradients_of(c, &product, beta)
}

/// The gradients of `of.alpha * op(a) op(b) + beta * addend`.
fn gradients_of(c: &BackwardCx<'_>, of: &attrs::MatMul, beta: Scalar) -> Result<Grads> {
    let mut grads: Grads = SmallVec::from_iter([None, None, None]);
    let alpha = of.alpha.conj();
    let (rank_a, rank_b) = (c.input_shape(0).ndim(), c.input_shape(1).ndim());
    let (swap_a, swap_b) = (of.transpose_a && rank_a > 1, of.transpose_b && rank_b > 1);
    if c.needs(0) || c.needs(1) {
        let mut g = c.g().clone();
        if rank_b == 1 {
            g = g.unsqueeze(-1)?;
        }
        if rank_a == 1 {
            g = g.unsqueeze(-2)?;
        }
        if c.needs(0) {
            let mut b = c.input(1)?.conj()?;
            if rank_b == 1 {
                b = b.unsqueeze(-1)?;
            }
            let ga = match swap_a {
                false => product(&g, &b, false, !swap_b, alpha)?,
                true => product(&b, &g, swap_b, true, alpha)?,
            };
            grads[0] = Some(if rank_a == 1 { ga.squeeze(-2)? } else { ga });
        }
        if c.needs(1) {
            let mut a = c.input(0)?.conj()?;
            if rank_a == 1 {
                a = a.unsqueeze(-2)?;
            }
            let shared = rank_b <= 2 && g.ndim() > 2 && !swap_a && a.ndim() == g.ndim();
            let gb = if shared {
                // The batches of a shared factor add up within one product.
                let (a, g) = (rows(&a)?, rows(&g)?);
                if swap_b {
                    product(&g, &a, true, false, alpha)?
                } else {
                    product(&a, &g, true, false, alpha)?
                }
            } else if swap_b {
                product(&g, &a, true, swap_a, alpha)?
            } else {
                product(&a, &g, !swap_a, false, alpha)?
            };
            grads[1] = Some(if rank_b == 1 { gb.squeeze(-1)? } else { gb });
        }
    }
    if c.needs(2) {
        grads[2] = Some(match beta.to_complex() == (1.0, 0.0) {
            true => c.g().clone(),
            false => c.g().mul(beta.conj())?,
        });
    }
    Ok(grads)
}

/// The factors of two operands (`mm` and kin) are operands 0 and 1, an addend operand 2.
const fn factors(record: OpRecord, plan: fn(&PlanCx<'_>) -> Result<Plan>) -> OpRecord {
    record.kernel(Kernel::MatMul, plan).grads(3, 0, gradients)
}

/// [`factors`] of an op whose attributes are [`attrs::AddMm`].
const fn scaled(record: OpRecord, plan: fn(&PlanCx<'_>) -> Result<Plan>) -> OpRecord {
    factors(record, plan).grads(3, 0, sum_gradients)
}

fn pair(s: &mut Sampler, a: &[usize], b: &[usize]) -> Result<Sample> {
    Ok(sample![s.real(a)?, s.real(b)?])
}

#[torsh_tensor::by_name(Tensor::matmul)]
pub static MATMUL: OpRecord = factors(
    OpRecord::new(
        "matmul",
        "Product of two tensors: of vectors, matrices, or batches of matrices, whose batch dimensions broadcast.",
        "(Tensor input, Tensor other)",
    )
.autocast(Autocast::Lower),
    plan,
)
.samples(|s| {
    Ok(vec![
        pair(s, &[4], &[4])?,
        pair(s, &[2, 3], &[3])?,
        pair(s, &[3], &[3, 2])?,
        pair(s, &[2, 3], &[3, 4])?,
        pair(s, &[2, 2, 3], &[3, 4])?,
        pair(s, &[2, 1, 2, 3], &[3, 3, 2])?,
        pair(s, &[3], &[2, 3, 2])?,
        pair(s, &[2, 2, 3], &[3])?,
    ])
});

#[torsh_tensor::by_name(Tensor::mm)]
pub static MM: OpRecord = factors(
    OpRecord::new(
        "mm",
        "Product of two matrices.",
        "(Tensor input, Tensor mat2)",
    )
    .autocast(Autocast::Lower),
    |c| ranked(c, [2, 2]),
)
.samples(|s| Ok(vec![pair(s, &[2, 3], &[3, 4])?, pair(s, &[2, 0], &[0, 3])?]));

#[torsh_tensor::by_name(Tensor::bmm)]
pub static BMM: OpRecord = factors(
    OpRecord::new(
        "bmm",
        "Products of two batches of matrices.",
        "(Tensor input, Tensor mat2)",
    )
    .autocast(Autocast::Lower),
    |c| ranked(c, [3, 3]),
)
.samples(|s| Ok(vec![pair(s, &[2, 2, 3], &[2, 3, 2])?]));

#[torsh_tensor::by_name(Tensor::mv)]
pub static MV: OpRecord = factors(
    OpRecord::new(
        "mv",
        "Product of a matrix and a vector.",
        "(Tensor input, Tensor vec)",
    ),
    |c| ranked(c, [2, 1]),
)
.samples(|s| Ok(vec![pair(s, &[2, 3], &[3])?]));

#[torsh_tensor::by_name(Tensor::dot)]
pub static DOT: OpRecord = factors(
    OpRecord::new(
        "dot",
        "Sum of the products of two vectors; complex ones are not conjugated.",
        "(Tensor input, Tensor tensor)",
    ),
    |c| ranked(c, [1, 1]),
)
.samples(|s| Ok(vec![pair(s, &[4], &[4])?]));

#[torsh_tensor::by_name(Tensor::vdot)]
pub static VDOT: OpRecord = OpRecord::new(
    "vdot",
    "Sum of the products of two vectors, the first of which is conjugated.",
    "(Tensor input, Tensor other)",
)
.samples(|s| Ok(vec![sample![s.complex(&[3])?, s.complex(&[3])?]]));

#[torsh_tensor::by_name(Tensor::inner)]
pub static INNER: OpRecord = OpRecord::new(
    "inner",
    "Sums of the products along the last dimension of both; of a number, the plain product.",
    "(Tensor input, Tensor other)",
)
.samples(|s| Ok(vec![pair(s, &[2, 3], &[4, 3])?, pair(s, &[], &[2])?]));

#[torsh_tensor::by_name(Tensor::outer)]
pub static OUTER: OpRecord = OpRecord::new(
    "outer",
    "The matrix of all products of elements of two vectors.",
    "(Tensor input, Tensor vec2)",
)
.samples(|s| Ok(vec![pair(s, &[2], &[3])?]));

fn triple(s: &mut Sampler, c: &[usize], a: &[usize], b: &[usize]) -> Result<Vec<Sample>> {
    let of = |s: &mut Sampler| Ok::<_, TorshError>(sample![s.real(c)?, s.real(a)?, s.real(b)?]);
    Ok(vec![of(s)?, of(s)?.kw("beta", 0.5).kw("alpha", -1.5)])
}

pub static ADDMM: OpRecord = scaled(
    OpRecord::new(
        "addmm",
        "beta * input + alpha * (mat1 @ mat2); input broadcasts, and is not read where beta is 0.",
        "(Tensor input, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1)",
    )
    .autocast(Autocast::Lower),
    |c| ranked(c, [2, 2]),
)
.by_name(|b| added(&ADDMM, b))
.samples(|s| triple(s, &[3], &[2, 4], &[4, 3]));

pub static ADDMV: OpRecord = scaled(
    OpRecord::new(
        "addmv",
        "beta * input + alpha * (mat @ vec); input broadcasts, and is not read where beta is 0.",
        "(Tensor input, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1)",
    ),
    |c| ranked(c, [2, 1]),
)
.by_name(|b| added(&ADDMV, b))
.samples(|s| triple(s, &[2], &[2, 4], &[4]));

pub static BADDBMM: OpRecord = scaled(
    OpRecord::new(
        "baddbmm",
        "beta * input + alpha * (batch1 @ batch2); input broadcasts, and is not read where beta is 0.",
        "(Tensor input, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1)",
    )
.autocast(Autocast::Lower),
    |c| ranked(c, [3, 3]),
)
.by_name(|b| added(&BADDBMM, b))
.samples(|s| triple(s, &[2, 1, 3], &[2, 2, 4], &[2, 4, 3]));

#[torsh_tensor::by_name(Tensor::addbmm_with(.., AddmmOptions))]
pub static ADDBMM: OpRecord = OpRecord::new(
    "addbmm",
    "beta * input + alpha * the sum over the batch of batch1 @ batch2; input broadcasts, and is not read where beta is 0.",
    "(Tensor input, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1)",
)
.autocast(Autocast::Lower)
.samples(|s| triple(s, &[2, 3], &[2, 2, 4], &[2, 4, 3]));

#[torsh_tensor::by_name(Tensor::addr_with(.., AddmmOptions))]
pub static ADDR: OpRecord = OpRecord::new(
    "addr",
    "beta * input + alpha * outer(vec1, vec2); input broadcasts, and is not read where beta is 0.",
    "(Tensor input, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1)",
)
.samples(|s| triple(s, &[3], &[2], &[3]));

fn added(record: &'static OpRecord, b: &crate::Bound) -> Result<Value> {
    sum_of(
        record,
        b.tensor(0)?,
        b.tensor(1)?,
        b.tensor(2)?,
        b.scalar(3),
        b.scalar(4),
    )
    .map(Value::Tensor)
}

#[track_caller]
fn sum_of(
    record: &'static OpRecord,
    c: &Tensor,
    a: &Tensor,
    b: &Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Result<Tensor> {
    // The half types multiply in float32, numbers included.
    let held = match a.dtype() {
        DType::F16 | DType::BF16 => DType::F32,
        dtype => dtype,
    };
    for number in [beta, alpha] {
        check_number(number, held).map_err(|e| e.renamed(record.base_name()))?;
    }
    call1(
        record,
        &[Arg::T(a), Arg::T(b), Arg::T(c)],
        &attrs::AddMm { beta, alpha },
    )
}

/// A layer's product with its weights. The weight comes as `[out, in]`.
#[torsh_tensor::by_name(Tensor::linear)]
pub static LINEAR: OpRecord = factors(
    OpRecord::new(
        "nn.functional.linear",
        "input @ weight.T + bias, for input of [.., in], weight of [out, in] or [in], bias of [out].",
        "(Tensor input, Tensor weight, Tensor? bias=None)",
    )
.autocast(Autocast::Lower),
    |c| {
        let (x, w) = (c.tensor(0)?, c.tensor(1)?);
        if w.ndim() > 2 || w.ndim() == 0 {
            return Err(TorshError::shape("", format!("weight must be 1D or 2D, got {}D", w.ndim())));
        }
        if x.ndim() > 0 && x.dims()[x.ndim() - 1] != w.dims()[w.ndim() - 1] {
            return Err(TorshError::shape(
                "",
                format!("mat1 and mat2 shapes cannot be multiplied: the last size of the input {} is not that of the weight {}", x.shape(), w.shape()),
            )
            .with_hint("a layer's input is [.., in_features]; flatten(1) makes one row of each sample of a batch"));
        }
        plan(c)
    },
)
.samples(|s| {
    Ok(vec![
        sample![s.real(&[2, 3])?, s.real(&[4, 3])?, s.real(&[4])?],
        sample![s.real(&[3])?, s.real(&[4, 3])?],
        sample![s.real(&[2, 2, 3])?, s.real(&[4, 3])?, s.real(&[4])?],
        sample![s.real(&[2, 3])?, s.real(&[3])?],
    ])
});

pub static TENSORDOT: OpRecord = OpRecord::new(
    "tensordot",
    "Sums of products over dimensions of both: the last `dims` of a with the first of b, or lists of them.",
    "(Tensor a, Tensor b, Any dims=2)",
)
.by_name(|b| {
    let (x, y) = (b.tensor(0)?, b.tensor(1)?);
    let refuse = || TorshError::invalid("tensordot", "dims must be an integer or two lists of dimensions");
    let (first, second) = match b.value(2) {
        Value::Int(n) => {
            if *n < 0 {
                return Err(TorshError::invalid("tensordot", format!("dims must be 0 or more, got {n}")));
            }
            let most = x.ndim().min(y.ndim()) as i64;
            if *n > most {
                return Err(TorshError::invalid("tensordot", format!("dims must be at most {most} for these tensors, got {n}")));
            }
            ((x.ndim() as i64 - n..x.ndim() as i64).collect(), (0..*n).collect::<Vec<i64>>())
        }
        v => {
            let [Some(p), Some(q)] = [0, 1].map(|i| v.items().and_then(|l| l.get(i)).and_then(integers)) else {
                return Err(refuse());
            };
            (p, q)
        }
    };
    x.tensordot(y, &first, &second).map(Value::Tensor)
})
.samples(|s| {
    Ok(vec![
        sample![s.real(&[2, 3, 2])?, s.real(&[3, 2, 2])?, 2],
        sample![s.real(&[2, 3, 2])?, s.real(&[4, 2, 3])?, Value::Tuple(vec![vec![0i64, 1].into(), vec![1i64, 2].into()])],
    ])
});

fn integers(v: &Value) -> Option<Vec<i64>> {
    match v {
        Value::Int(i) => Some(vec![*i]),
        v => v
            .items()?
            .iter()
            .map(|i| i.number().map(Scalar::to_i64))
            .collect(),
    }
}
