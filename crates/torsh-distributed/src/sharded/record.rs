//! Gradients of what communicates.
//!
//! The gradient of a replicated tensor is the same on all ranks; that of a partial one too, since each part counts as much.

use torsh_tensor::{CustomBackward, Result, Tensor, TorshError, no_grad, record_function};

use super::{Placement, ShardedTensor};
use crate::{DeviceMesh, ProcessGroup, ReduceOp};

/// How the gradient of a tensor lies.
pub(super) fn of_gradient(placements: &[Placement]) -> Vec<Placement> {
    let of = |p: &Placement| match p {
        Placement::Partial(_) => Placement::Replicate,
        other => *other,
    };
    placements.iter().map(of).collect()
}

struct Redistribute {
    mesh: DeviceMesh,
    shape: Vec<usize>,
    from: Vec<Placement>,
    to: Vec<Placement>,
}

/// The values of `t` placed as `to`, with a gradient.
pub(super) fn redistribute(t: &ShardedTensor, to: &[Placement]) -> Result<Tensor> {
    if t.local.requires_grad()
        && let Some(p) = t.placements.iter().zip(to).find_map(|(a, b)| match a {
            Placement::Partial(ReduceOp::Sum | ReduceOp::Avg) => None,
            Placement::Partial(_) if a != b => Some(a),
            _ => None,
        })
    {
        return Err(TorshError::autograd(
            "redistribute",
            format!("{p} has no gradient, and {} asks for one", t.describe()),
        )
        .with_hint("detach the pieces first"));
    }
    let local = no_grad(|| t.moved(to))?;
    let f = Redistribute {
        mesh: t.mesh.clone(),
        shape: t.shape.clone(),
        from: t.placements.clone(),
        to: to.to_vec(),
    };
    one(record_function(
        std::slice::from_ref(&t.local),
        vec![local],
        &[],
        0,
        Box::new(f),
    )?)
}

fn one(results: Vec<Tensor>) -> Result<Tensor> {
    let first = results.into_iter().next();
    first.ok_or_else(|| TorshError::autograd("redistribute", "no result was recorded"))
}

impl CustomBackward for Redistribute {
    fn name(&self) -> &str {
        "Redistribute"
    }

    fn backward(&self, grads: &[Option<Tensor>], _: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        let Some(g) = grads.first().cloned().flatten() else {
            return Ok(vec![None]);
        };
        let g = ShardedTensor {
            local: g,
            mesh: self.mesh.clone(),
            shape: self.shape.clone(),
            placements: of_gradient(&self.to),
        };
        let mut local = g.redistribute(&of_gradient(&self.from))?.local;
        for (i, (from, to)) in self.from.iter().zip(&self.to).enumerate() {
            if matches!(from, Placement::Partial(ReduceOp::Avg)) && from != to {
                local = local.div(self.mesh.shape()[i] as f64)?;
            }
        }
        Ok(vec![Some(local)])
    }
}

struct Used {
    group: ProcessGroup,
}

/// A replicated tensor that meets pieces: each rank's gradient is a part of the whole one.
pub(super) fn meets_pieces(t: &Tensor, group: ProcessGroup) -> Result<Tensor> {
    if !t.requires_grad() || group.size() == 1 {
        return Ok(t.clone());
    }
    one(record_function(
        std::slice::from_ref(t),
        vec![t.detach()],
        &[],
        0,
        Box::new(Used { group }),
    )?)
}

impl CustomBackward for Used {
    fn name(&self) -> &str {
        "ReplicatedOperand"
    }

    fn backward(&self, grads: &[Option<Tensor>], _: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        let Some(g) = grads.first().cloned().flatten() else {
            return Ok(vec![None]);
        };
        if torsh_tensor::is_grad_enabled() {
            return crate::functional::all_reduce(&g, ReduceOp::Sum, &self.group)
                .map(|g| vec![Some(g)]);
        }
        let own = g.contiguous()?.copy()?;
        Ok(vec![Some(self.group.all_reduce_(&own, ReduceOp::Sum)?)])
    }
}
