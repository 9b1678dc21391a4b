//! The backward pass of a unit, which is one node of the graph around it.

use std::sync::Arc;

use parking_lot::Mutex;
use torsh_tensor::{CustomBackward, Result, Tensor, TorshError, is_grad_enabled, record_function};

use super::unit::Unit;

/// A call of a unit's module. Its own graph leads from `y` to `x`, where the graph around it ends; so the unit knows when
/// its backward pass begins and when all its gradients are there.
struct Call {
    unit: Arc<Unit>,
    /// The input and the result in the unit's own graph, until the backward pass.
    graph: Mutex<Option<(Tensor, Tensor)>>,
    versions: Vec<u64>,
    name: String,
}

/// Makes `y`, which the module computed from `x`, the result of one node on `outer`, the input as it came.
pub(crate) fn record(unit: &Arc<Unit>, outer: &Tensor, x: &Tensor, y: Tensor) -> Result<Tensor> {
    let call = Call {
        unit: unit.clone(),
        versions: unit.versions(),
        name: format!("FullyShard({})", unit.name),
        graph: Mutex::new(None),
    };
    let result = y.detach();
    *call.graph.lock() = Some((x.clone(), y));
    let inputs = [outer.clone(), unit.anchor.clone()];
    let results = record_function(&inputs, vec![result], &[], 0, Box::new(call))?;
    results.into_iter().next().ok_or_else(|| {
        TorshError::autograd(
            "fully_shard",
            format!("the call of {} gave no result", unit.name),
        )
    })
}

impl CustomBackward for Call {
    fn name(&self) -> &str {
        &self.name
    }

    fn backward(&self, grads: &[Option<Tensor>], _: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        if is_grad_enabled() {
            return Err(TorshError::autograd(
                "fully_shard",
                format!(
                    "a backward pass through {} cannot be recorded for a second one",
                    self.unit.name
                ),
            )
            .with_hint(
                "compute higher derivatives without fully_shard, with the module as it was",
            ));
        }
        let Some(g) = grads.first().cloned().flatten() else {
            return Ok(vec![None, None]);
        };
        let Some((x, y)) = self.graph.lock().take() else {
            return Err(TorshError::autograd(
                "backward",
                format!(
                    "a second backward pass through {}, whose values the first one freed",
                    self.unit.name
                ),
            )
            .with_hint("compute the result anew for each pass"));
        };
        self.unit.call_is_over();
        let mut of_x = None;
        self.unit.backward(&self.versions, || {
            torsh_tensor::backward(&[y], &[Some(g)], false, false)?;
            of_x = x.is_leaf().then(|| x.grad()).flatten();
            if of_x.is_some() {
                x.set_grad(None)?;
            }
            Ok(())
        })?;
        Ok(vec![of_x, None])
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if self.graph.get_mut().is_some() {
            self.unit.call_is_over();
        }
    }
}
