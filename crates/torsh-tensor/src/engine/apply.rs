//! Running one node's formula, and fitting what it gives to the operands.

use smallvec::SmallVec;
use torsh_core::{DType, Result, Shape, Shared, TorshError};

use super::take_saved;
use crate::Tensor;
use crate::node::{BackwardCx, Edge, Grads, Kind, Node, SavedSet};
use crate::record::Backward;

/// Runs one node's formula. It writes to `results`, because returning them would cost as much as
/// allocating them.
pub(super) fn apply(
    node: &Shared<Node>,
    saved: &SavedSet,
    grads: &mut Grads,
    wanted: u64,
    out: &mut Grads,
) -> Result<()> {
    match &node.kind {
        Kind::Op { record, .. } => {
            if let Backward::Missing = record.backward {
                return Err(TorshError::autograd(
                    record.base_name(),
                    format!(
                        "the derivative of {} is not implemented",
                        record.base_name()
                    ),
                )
                .with_hint("compute it under no_grad, or write it with other ops"));
            }
            if let Backward::PerInput(list) = record.backward {
                let cx = BackwardCx {
                    node,
                    saved,
                    grads,
                    first: zeros_for_first(node, grads)?,
                    wanted,
                };
                for i in 0..node.inputs.len() {
                    let g = match list.get(i) {
                        Some(f) if wanted & (1 << i.min(63)) != 0 => {
                            Some(fit(node, i, (f.formula)(&cx)?)?)
                        }
                        _ => None,
                    };
                    out.push(g);
                }
                return Ok(());
            }
            let Backward::Full { formula, .. } = record.backward else {
                return Err(TorshError::autograd(
                    record.base_name(),
                    "a composite op cannot be a node",
                ));
            };
            *out = formula(&BackwardCx {
                node,
                saved,
                grads,
                first: zeros_for_first(node, grads)?,
                wanted,
            })?;
            out.resize(node.inputs.len(), None);
            for (i, g) in out.iter_mut().enumerate() {
                if wanted & (1 << i.min(63)) == 0 {
                    *g = None;
                } else if let Some(t) = g.take() {
                    *g = Some(fit(node, i, t)?);
                }
            }
            Ok(())
        }
        Kind::CopySlices(c) => {
            let (inner, base, view) = (&c.inner, &c.base, &c.view);
            let Some(g) = grads[0].take() else {
                out.resize(node.inputs.len(), None);
                return Ok(());
            };
            let complex = (
                node.outputs[0].dtype.is_complex(),
                inner.outputs[0].dtype.is_complex(),
            );
            let (window, region) = crate::ops::strided::cut(&g, base, view, complex)?;
            let mut inner_grads: Grads = SmallVec::from_iter([Some(window)]);
            let inner_saved = take_saved(inner, true)?;
            apply(inner, &inner_saved, &mut inner_grads, wanted, out)?;
            let hole = out.first_mut().and_then(Option::take);
            let first = match wanted & 1 != 0 {
                true => Some(crate::ops::strided::put(
                    &region, hole, base, view, complex,
                )?),
                false => None,
            };
            match out.first_mut() {
                Some(slot) => *slot = first,
                None => out.push(first),
            }
            Ok(())
        }
        Kind::Custom { f, sources } => {
            let cx = BackwardCx {
                node,
                saved,
                grads,
                first: None,
                wanted,
            };
            let tensors = (0..sources.len())
                .map(|i| cx.custom_saved(i))
                .collect::<Result<Vec<_>>>()?;
            let results = f.backward(grads, &tensors)?;
            if results.len() != node.inputs.len() {
                return Err(TorshError::autograd(
                    f.name().to_string(),
                    format!(
                        "backward returned {} gradients for {} operands",
                        results.len(),
                        node.inputs.len()
                    ),
                ));
            }
            for (i, g) in results.into_iter().enumerate() {
                out.push(match g {
                    Some(g) if wanted & (1 << i.min(63)) != 0 => {
                        let (shape, _) = node.input_spec(i);
                        if g.shape() != shape && !shape.can_broadcast_to(g.shape()) {
                            return Err(TorshError::autograd(
                                f.name().to_string(),
                                format!("backward returned a gradient {} for operand {i} of shape {shape}", g.describe()),
                            ));
                        }
                        Some(fit(node, i, g)?)
                    }
                    _ => None,
                });
            }
            Ok(())
        }
        Kind::Accumulate(_) => Ok(()),
    }
}

/// What [`BackwardCx::g`] is where only other outputs received a gradient: zeros. [`BackwardCx::grad`] still says that
/// output 0 received none, so that a formula can leave out what is not needed. Zeros there would become NaN where the
/// formula divides by 0, as that of singular vectors does where singular values are equal.
fn zeros_for_first(node: &Node, grads: &Grads) -> Result<Option<Tensor>> {
    let o = &node.outputs[0];
    if grads[0].is_some() || !o.dtype.is_differentiable() {
        return Ok(None);
    }
    Tensor::zeros(&o.shape, o.dtype, o.device).map(Some)
}

/// Undoes broadcasting and promotion: the gradient in the operand's shape and dtype.
fn fit(node: &Node, i: usize, g: Tensor) -> Result<Tensor> {
    let (shape, dtype): (&Shape, DType) = node.input_spec(i);
    let mut g = g;
    if g.dtype().is_complex() && !dtype.is_complex() {
        g = g.real()?;
    }
    if g.shape() != shape {
        if !shape.can_broadcast_to(g.shape()) {
            return Err(TorshError::autograd(
                node.name(),
                format!(
                    "the derivative gave {} for operand {i} of shape {shape}",
                    g.describe()
                ),
            ));
        }
        g = g.sum_to(shape)?;
    }
    if g.dtype() != dtype {
        g = g.to_dtype(dtype)?;
    }
    match &node.inputs[i].edge {
        Some(e) if e.device().is_some_and(|d| d != g.device()) => to_operand(node, i, e, g),
        _ => Ok(g),
    }
}

/// Moves a gradient to the device of its operand: a 0-d CPU operand was a number of a call on
/// another device.
#[cold]
fn to_operand(node: &Node, i: usize, e: &Edge, g: Tensor) -> Result<Tensor> {
    match e.device() {
        Some(d) if g.ndim() == 0 => g.to_device(d),
        d => Err(TorshError::autograd(
            node.name(),
            format!(
                "the derivative gave {} for operand {i}, which is on {}",
                g.describe(),
                d.unwrap_or_default()
            ),
        )),
    }
}
