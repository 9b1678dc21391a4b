//! Records a user's function as one node.

use smallvec::SmallVec;
use torsh_core::{Result, TorshError};

use crate::Tensor;
use crate::call::{attach, becomes, make_view};
use crate::memory::Creation;
use crate::mode;
use crate::node::{
    CustomBackward, Input, InputSpec, Kind, Node, Output, Saved, SavedArg, SavedSet, Source,
};

/// Makes `outputs`, which were computed from `inputs` without recording, the results of one node
/// whose derivative is `f`. Outputs whose bit in `constant` is set get no gradient.
#[torsh_tensor::names_caller]
pub fn record_function(
    inputs: &[Tensor],
    outputs: Vec<Tensor>,
    saved: &[Tensor],
    constant: u64,
    f: Box<dyn CustomBackward>,
) -> Result<Vec<Tensor>> {
    let recorded = mode::is_grad_enabled() && inputs.iter().any(Tensor::requires_grad);
    // An output that is an input handed on must not take over the input's own history, and an
    // in-place op on it would go around the function's derivative.
    let outputs: Vec<Tensor> = outputs
        .into_iter()
        .map(|t| match inputs.iter().find(|i| i.shares_storage(&t)) {
            Some(base) if recorded => {
                let layout = becomes(t.memory_layout().clone());
                make_view(base, t.dtype(), Creation::Function, layout)
            }
            _ => Ok(t.detach()),
        })
        .collect::<Result<_>>()?;
    if !recorded {
        return Ok(outputs);
    }
    for t in inputs {
        crate::inplace::check_stale(t).map_err(|e| e.renamed(f.name()))?;
    }
    if outputs.is_empty() {
        return Err(TorshError::autograd(
            f.name().to_string(),
            "a function must have at least one output",
        ));
    }
    let node_inputs = inputs
        .iter()
        .map(|t| Input {
            edge: if t.dtype().is_differentiable() {
                t.gradient_edge()
            } else {
                None
            },
            spec: InputSpec::own(t.shape(), t.dtype()),
        })
        .collect();
    let mut set = SavedSet::default();
    let mut sources = Vec::new();
    for t in saved {
        set.inputs.push(SavedArg::Tensor(Saved::of(t, t.version())));
        let at_input = inputs.iter().position(|i| i.is_same(t));
        let at_output = outputs.iter().position(|o| {
            o.shares_storage(t) && o.memory_layout() == t.memory_layout() && o.dtype() == t.dtype()
        });
        sources.push(match (at_input, at_output) {
            (Some(i), _) => Source::Input(i),
            (None, Some(o)) => Source::Output(o),
            _ => Source::Elsewhere,
        });
    }
    let node_outputs: SmallVec<[Output; 1]> = outputs
        .iter()
        .map(|t| Output {
            shape: t.shape().clone(),
            dtype: t.dtype(),
            device: t.device(),
        })
        .collect();
    let site = Some(std::panic::Location::caller());
    let kind = Kind::Custom { f, sources };
    let node = Node::new(kind, node_inputs, node_outputs, set, site);
    Ok(outputs
        .into_iter()
        .enumerate()
        .map(|(i, t)| {
            if t.dtype().is_differentiable() && constant & (1 << i.min(63)) == 0 {
                attach(t, node.clone(), i as u32)
            } else {
                t
            }
        })
        .collect())
}
