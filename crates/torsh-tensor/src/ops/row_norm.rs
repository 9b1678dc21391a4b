//! Normalisation of the rows of a tensor, on which `layer_norm`, `rms_norm`, `group_norm` and
//! `instance_norm` are built.

use smallvec::SmallVec;
use torsh_core::{Kernel, Result, Shape, TorshError, attrs};

use super::batch_norm::wide;
use super::definitions;
use crate::call::{Arg, call, call1};
use crate::record::{Backward, OpRecord, Plan, Spec};
use crate::{BackwardCx, Grads, Tensor};

pub(crate) const RECORDS: &[&OpRecord] = &[&ROW_NORM, &ROW_NORM_BACKWARD];

/// The kernel under the others: a tensor as rows, each normalised. Operands: input, weight, bias.
/// Results: the normalised input, and mean and inverse deviation of each row.
pub static ROW_NORM: OpRecord = OpRecord::new(
    "_row_norm",
    "Rows less their mean over their deviation, or over their root mean square, scaled and shifted.",
    "(Tensor input, Tensor? weight, Tensor? bias, *, int rows, int n, int groups, int spread, float eps, bool centred)",
)
.internal()
.kernel(Kernel::RowNorm, |c| {
    let x = c.tensor(0)?;
    if !x.dtype().is_floating_point() {
        return Err(TorshError::dtype("", format!("not implemented for {}", x.dtype())));
    }
    for (i, name) in [(1, "weight"), (2, "bias")] {
        if let Some(t) = c.opt_tensor(i)
            && t.dtype() != x.dtype()
            && t.dtype() != wide(x.dtype())
        {
            return Err(TorshError::dtype(
                "",
                format!("mixed dtype: expected {name} to be {} but found {}", wide(x.dtype()), t.dtype()),
            ));
        }
    }
    let rows = c.attrs::<attrs::RowNorm>()?.rows;
    let each = || Spec::new(Shape::new(&[rows]), wide(x.dtype()));
    Ok(Plan::many(x.dtype(), [Spec::new(x.shape().clone(), x.dtype()), each(), each()]))
})
.definition(definitions::row_norm)
.backward(Backward::Full {
    inputs: 0b11,
    outputs: 0b110,
    constant: 0b110,
    formula: |c| {
        if crate::is_grad_enabled() {
            return by_ops(c);
        }
        let weight = if c.has_input(1) { Some(c.input(1)?) } else { None };
        let (x, mean, rstd) = (c.input(0)?, c.output(1)?, c.output(2)?);
        let args = [Arg::T(c.g()), Arg::T(&x), Arg::opt(weight.as_ref()), Arg::T(&mean), Arg::T(&rstd)];
        let &attrs::RowNorm { rows, n, groups, spread, centred, .. } = c.attrs()?;
        let attrs = attrs::RowNormBackward {
            rows,
            n,
            groups,
            spread,
            centred,
            input_grad: c.needs(0),
            parameter_grads: c.needs(1) || c.needs(2),
        };
        let grads = call(&ROW_NORM_BACKWARD, &args, &attrs)?;
        grads
            .into_iter()
            .enumerate()
            .map(|(i, g)| match (c.needs(i), i) {
                (false, _) => Ok(None),
                (true, 0) => Ok(Some(g)),
                (true, _) => g.reshape(c.input_shape(i)).map(Some),
            })
            .collect()
    },
});

/// The gradients of [`ROW_NORM`] in one kernel, for when they are not differentiated again.
pub static ROW_NORM_BACKWARD: OpRecord =
    OpRecord::new(
        "_row_norm_backward",
        "The gradients of _row_norm.",
        "(Tensor grad_output, Tensor input, Tensor? weight, Tensor mean, Tensor invstd, *, int rows, int n, int groups, int spread, bool centred, bool input_grad, bool parameter_grads)",
    )
    .internal()
        .kernel(Kernel::RowNormBackward, |c| {
            let x = c.tensor(1)?;
            let a = c.attrs::<attrs::RowNormBackward>()?;
            let none = Shape::new(&[0]);
            let parameters = match a.parameter_grads {
                true => Shape::new(&[a.groups.saturating_mul(a.n) / a.spread]),
                false => none.clone(),
            };
            let input = match a.input_grad {
                true => x.shape().clone(),
                false => none,
            };
            let dtype = wide(x.dtype());
            Ok(Plan::many(
                x.dtype(),
                [
                    Spec::new(input, x.dtype()),
                    Spec::new(parameters.clone(), dtype),
                    Spec::new(parameters, dtype),
                ],
            ))
        })
        .definition(definitions::row_norm_backward);

/// The gradients in ops that have derivatives.
fn by_ops(c: &BackwardCx<'_>) -> Result<Grads> {
    let x = c.input(0)?;
    let (dtype, shape) = (wide(x.dtype()), x.shape().clone());
    let &attrs::RowNorm {
        rows,
        n,
        groups,
        spread,
        eps,
        centred,
    } = c.attrs()?;
    // Samples, groups, parameters of a group, elements of a parameter.
    let parts = [rows / groups, groups, n / spread, spread];
    let x = x.to_dtype(dtype)?.reshape(parts)?;
    let g = c.g().to_dtype(dtype)?.reshape(parts)?;
    let mean_of = |t: &Tensor| t.sum_dim([2, 3], true)?.div(n as f64);
    let apart = if centred { x.sub(&mean_of(&x)?)? } else { x };
    let rstd = mean_of(&apart.square()?)?.add(eps)?.rsqrt()?;
    let hat = apart.mul(&rstd)?;
    let mut grads: Grads = SmallVec::from_iter([None, None, None]);
    if c.needs(0) {
        let scaled = match c.has_input(1) {
            true => g.mul(
                &c.input(1)?
                    .to_dtype(dtype)?
                    .reshape([groups, parts[2], 1])?,
            )?,
            false => g.clone(),
        };
        let mut inner = scaled.sub(&hat.mul(&mean_of(&scaled.mul(&hat)?)?)?)?;
        if centred {
            inner = inner.sub(&mean_of(&scaled)?)?;
        }
        grads[0] = Some(inner.mul(&rstd)?.reshape(&shape)?);
    }
    for (i, of) in [(1, g.mul(&hat)?), (2, g)] {
        if c.needs(i) {
            grads[i] = Some(of.sum_dim([0, 3], false)?.reshape(c.input_shape(i))?);
        }
    }
    Ok(grads)
}

/// A tensor, normalised as `attrs` says, then scaled and shifted.
pub(super) fn row_norm(
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    attrs: &attrs::RowNorm,
) -> Result<Tensor> {
    call1(
        &ROW_NORM,
        &[Arg::T(x), Arg::opt(weight), Arg::opt(bias)],
        attrs,
    )
}
