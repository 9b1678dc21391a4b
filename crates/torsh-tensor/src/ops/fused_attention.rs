//! Attention as one kernel that does not store the matrix of weights.

use torsh_core::{Kernel, Result, Shape, attrs};

use super::attention::{
    AttentionWindow, ScaledDotProductAttentionOptions, grouped, scale, weights, wide, window,
};
use crate::call::{Arg, call, call1, memory_order_strides};
use crate::record::{Backward, OpRecord, Plan, PlanCx, Spec};
use crate::{BackwardCx, Grads, Tensor};

pub(crate) const RECORDS: &[&OpRecord] = &[&ATTENTION, &ATTENTION_BACKWARD];

/// Operands: query, key, value, mask, as the CPU's `attention` explains them. Results: what is
/// attended to, and the logarithm of each query's sum.
pub static ATTENTION: OpRecord = OpRecord::new(
    "_scaled_dot_product_flash_attention_for_cpu",
    "Attention in blocks of queries and keys, without a matrix of weights.",
    "(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, *, int past, int? left, int? right, float scale, bool enable_gqa)",
)
.internal()
.kernel(Kernel::Attention, |c| {
    let (q, v) = (c.tensor(0)?, c.tensor(2)?);
    let lead = lead_of(c, c.attrs::<attrs::Attention>()?.enable_gqa)?;
    let rows = q.dims()[q.ndim() - 2];
    let sums = Spec::new(with(&lead, &[rows]), wide(q.dtype()));
    let out = like(q, with(&lead, &[rows, v.dims()[v.ndim() - 1]]));
    Ok(Plan::many(q.dtype(), [out, sums]))
})
.backward(Backward::Full {
    inputs: 0b1111,
    outputs: 0b11,
    constant: 0b10,
    formula: |c| {
        if crate::is_grad_enabled() {
            return by_ops(c);
        }
        let (q, k, v, mask) = (c.x()?, c.y()?, c.z()?, mask(c)?);
        let (out, sums) = (c.output(0)?, c.output(1)?);
        let &attrs::Attention {
            past,
            left,
            right,
            scale,
            enable_gqa,
        } = c.attrs()?;
        let attrs = attrs::AttentionBackward {
            past,
            left,
            right,
            scale,
            enable_gqa,
            query_grad: c.needs(0),
            key_grad: c.needs(1),
            value_grad: c.needs(2),
        };
        let [q, k, v, g, out, sums] = [&q, &k, &v, c.g(), &out, &sums].map(Arg::T);
        let grads = call(
            &ATTENTION_BACKWARD,
            &[q, k, v, Arg::opt(mask.as_ref()), g, out, sums],
            &attrs,
        )?;
        let wanted = |(i, g)| c.needs(i).then_some(g);
        Ok(grads
            .into_iter()
            .enumerate()
            .map(wanted)
            .chain([None])
            .collect())
    },
});

/// The gradients of [`ATTENTION`] in one kernel, for when they are not differentiated again.
/// Operands: query, key, value, mask, gradient and both results.
pub static ATTENTION_BACKWARD: OpRecord = OpRecord::new(
    "_scaled_dot_product_flash_attention_for_cpu_backward",
    "The gradients of attention in blocks.",
    "(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, Tensor grad_output, Tensor output, Tensor log_sums, *, int past, int? left, int? right, float scale, bool enable_gqa, bool query_grad, bool key_grad, bool value_grad)",
)
.internal()
.kernel(Kernel::AttentionBackward, |c| {
    let (q, k, v) = (c.tensor(0)?, c.tensor(1)?, c.tensor(2)?);
    let a = c.attrs::<attrs::AttentionBackward>()?;
    let lead = lead_of(c, a.enable_gqa)?;
    let wanted = [a.query_grad, a.key_grad, a.value_grad];
    Ok(plan_of_gradients([q, k, v], &lead, a.enable_gqa, wanted))
});

/// Room for the gradients that are wanted, of operands whose result has these sizes ahead.
pub(super) fn plan_of_gradients(
    [q, k, v]: [&Tensor; 3],
    lead: &Shape,
    grouped: bool,
    [to_q, to_k, to_v]: [bool; 3],
) -> Plan {
    // The gradients of key and value have the result's broadcast sizes, but their own heads.
    let mut own = lead.dims().to_vec();
    if let (true, Some(heads)) = (grouped, own.last_mut()) {
        *heads = k.dims()[k.ndim() - 3];
    }
    let own = Shape::new(&own);
    let spec = |wanted: bool, t: &Tensor, lead: &Shape| match wanted {
        true => like(t, with(lead, &t.dims()[t.ndim() - 2..])),
        false => Spec::new(Shape::new(&[0]), q.dtype()),
    };
    let specs = [
        spec(to_q, q, lead),
        spec(to_k, k, &own),
        spec(to_v, v, &own),
    ];
    Plan::many(q.dtype(), specs)
}

fn mask(c: &BackwardCx<'_>) -> Result<Option<Tensor>> {
    c.has_input(3).then(|| c.input(3)).transpose()
}

/// A result whose dimensions lie in memory as those of an operand, so that heads that were split
/// off are joined without a copy.
pub(super) fn like(t: &Tensor, shape: Shape) -> Spec {
    let ordered = t.ndim() == shape.ndim() && t.stride()[t.ndim() - 1] == 1;
    let strides = ordered.then(|| memory_order_strides(&shape, t.stride()));
    Spec {
        strides,
        ..Spec::new(shape, t.dtype())
    }
}

pub(super) fn with(lead: &Shape, more: &[usize]) -> Shape {
    Shape::new(&[lead.dims(), more].concat())
}

fn lead_of(c: &PlanCx<'_>, grouped: bool) -> Result<Shape> {
    lead([c.tensor(0)?, c.tensor(1)?, c.tensor(2)?], grouped)
}

/// The sizes ahead of the result's last two. Grouped, key and value have as many heads as divide
/// the query's.
pub(super) fn lead([q, k, v]: [&Tensor; 3], grouped: bool) -> Result<Shape> {
    let ahead = |t: &Tensor| t.dims()[..t.ndim() - 2].to_vec();
    let own = ahead(q);
    let mut lead = Shape::new(&own);
    for t in [k, v] {
        let mut theirs = ahead(t);
        if let (true, Some(theirs), Some(own)) = (grouped, theirs.last_mut(), own.last()) {
            *theirs = *own;
        }
        lead = lead.broadcast(&Shape::new(&theirs))?;
    }
    Ok(lead)
}

/// Whether the kernel takes the call. It leaves to other ops what draws random numbers, gives the
/// mask a gradient, or has no elements; what is wrong they explain.
pub(super) fn fits(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    o: &ScaledDotProductAttentionOptions,
) -> bool {
    let size = |t: &Tensor, back: usize| t.dims()[t.ndim() - back];
    let heads = |t: &Tensor| t.ndim().checked_sub(3).map_or(0, |d| t.dims()[d]);
    let grouped =
        !o.enable_gqa || heads(k) > 0 && heads(k) == heads(v) && heads(q).is_multiple_of(heads(k));
    let sizes = size(q, 1) == size(k, 1) && size(k, 2) == size(v, 2);
    let device = q.device();
    if !(o.dropout_p == 0.0 && sizes && grouped)
        || [q, k, v]
            .iter()
            .any(|t| t.numel() == 0 || t.device() != device)
        || device.has_data()
            && torsh_backend::kernel(device, Kernel::Attention, q.dtype()).is_none()
    {
        return false;
    }
    let Ok(lead) = lead([q, k, v], o.enable_gqa) else {
        return false;
    };
    o.attn_mask.as_ref().is_none_or(|m| {
        let all = with(&lead, &[size(q, 2), size(k, 2)]);
        m.device() == device
            && m.shape().can_broadcast_to(&all)
            && !(m.requires_grad() && crate::is_grad_enabled())
    })
}

/// The kernel's result.
pub(super) fn run(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    o: &ScaledDotProductAttentionOptions,
) -> Result<Tensor> {
    let AttentionWindow { past, left, right } = window(o);
    call1(
        &ATTENTION,
        &[
            Arg::T(q),
            Arg::T(k),
            Arg::T(v),
            Arg::opt(o.attn_mask.as_ref()),
        ],
        &attrs::Attention {
            past,
            left,
            right,
            scale: scale(q, o.scale),
            enable_gqa: o.enable_gqa,
        },
    )
}

/// The gradients in ops that have derivatives.
fn by_ops(c: &BackwardCx<'_>) -> Result<Grads> {
    let &attrs::Attention {
        past,
        left,
        right,
        scale,
        enable_gqa,
    } = c.attrs()?;
    let window = AttentionWindow { past, left, right };
    let operands = [c.x()?, c.y()?, c.z()?];
    let grads = gradients(c, operands, mask(c)?.as_ref(), &window, (scale, enable_gqa))?;
    Ok(grads.into_iter().chain([None]).collect())
}

/// Those of query, key and value that are wanted, of attention under a mask and a window.
pub(super) fn gradients(
    c: &BackwardCx<'_>,
    [q, k, v]: [Tensor; 3],
    mask: Option<&Tensor>,
    window: &AttentionWindow,
    (factor, shared): (f64, bool),
) -> Result<[Option<Tensor>; 3]> {
    let to = wide(c.input_dtype(0));
    let [q, k, v, g] = [&q, &k, &v, c.g()].map(|t| t.to_dtype(to));
    let (q, k, v, g) = (q?, k?, v?, g?);
    let (many_k, many_v) = match shared {
        true => (grouped(&q, &k)?, grouped(&q, &v)?),
        false => (k.clone(), v.clone()),
    };
    let p = weights(&q, &many_k, mask, window, factor)?;
    let to_p = g.matmul(&many_v.transpose(-2, -1)?)?;
    let along = to_p.mul(&p)?.sum_dim(-1, true)?;
    let to_scores = to_p.sub(&along)?.mul(&p)?.mul(factor)?;
    // The sum over the heads that share one.
    let together = |t: Tensor, like: &Tensor| match shared {
        false => Ok(t),
        true => {
            let heads = like.dims()[like.ndim() - 3];
            let [ahead @ .., own, rows, columns] = t.dims() else {
                return Ok(t);
            };
            let parts = [ahead, &[heads, own / heads, *rows, *columns]].concat();
            t.reshape(&parts[..])?.sum_dim(-3, false)
        }
    };
    let mut grads = [None, None, None];
    if c.needs(0) {
        grads[0] = Some(to_scores.matmul(&many_k)?);
    }
    if c.needs(1) {
        grads[1] = Some(together(to_scores.transpose(-2, -1)?.matmul(&q)?, &k)?);
    }
    if c.needs(2) {
        grads[2] = Some(together(p.transpose(-2, -1)?.matmul(&g)?, &v)?);
    }
    Ok(grads)
}
