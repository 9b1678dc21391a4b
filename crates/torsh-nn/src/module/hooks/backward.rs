//! Hooks on the gradients that flow through a module (`torch.utils.hooks.BackwardHook`).
//!
//! What a module takes and what it gives go through one node each, whose derivative is the identity. A hook on the second
//! node gets the gradients of the results before the module's own backward runs, one on the first node those of what it
//! took after it. The nodes' results are views of what they were given, as PyTorch's are: they cannot be written in place.

use std::sync::{Arc, Mutex, PoisonError};

use torsh_tensor::{
    CustomBackward, DType, Device, Node, Result, Shape, Tensor, TorshError, is_grad_enabled,
    record_function,
};

use super::{BackwardHook, BackwardPreHook, Grads, List, Lists};

/// The backward hooks of one run of a module.
pub(super) struct Backward {
    module: &'static str,
    before: List<BackwardPreHook>,
    after: List<BackwardHook>,
    inputs: usize,
    state: Mutex<State>,
}

type Spec = (Shape, DType, Device);

#[derive(Default)]
struct State {
    /// Shape, dtype and device of the inputs, where one of them requires a gradient.
    inputs: Option<Vec<Spec>>,
    /// The gradients of the results, between the two nodes.
    results: Option<Vec<Option<Tensor>>>,
}

/// The derivative of the identity; a result without a gradient has zeros.
struct Identity {
    results: Vec<Spec>,
}

impl CustomBackward for Identity {
    fn name(&self) -> &str {
        "BackwardHookFunction"
    }

    fn backward(&self, grads: &Grads, _saved: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        filled(grads, &self.results)
    }
}

/// The gradients, with zeros where there is none.
fn filled(grads: &Grads, specs: &[Spec]) -> Result<Vec<Option<Tensor>>> {
    let all = grads.iter().zip(specs);
    let all = all.map(|(g, (shape, dtype, device))| match g {
        Some(g) => Ok(Some(g.clone())),
        None => Tensor::zeros(shape, *dtype, *device).map(Some),
    });
    all.collect()
}

fn specs(tensors: &[Tensor]) -> Vec<Spec> {
    let spec = |t: &Tensor| (t.shape().clone(), t.dtype(), t.device());
    tensors.iter().map(spec).collect()
}

/// Puts views of the tensors behind a node in their place, and gives the node; `None` where none of them takes part in
/// recording.
fn through_node(tensors: &mut Vec<Tensor>) -> Result<Option<torsh_tensor::Shared<Node>>> {
    if !is_grad_enabled() || !tensors.iter().any(Tensor::requires_grad) {
        return Ok(None);
    }
    let mut constant = 0u64;
    for (i, t) in tensors.iter().enumerate() {
        if !t.requires_grad() {
            constant |= 1 << i.min(63);
        }
    }
    let results = specs(tensors);
    let identity = Box::new(Identity { results });
    *tensors = record_function(tensors, tensors.clone(), &[], constant, identity)?;
    Ok(tensors
        .iter()
        .find(|t| t.requires_grad())
        .and_then(Tensor::grad_fn))
}

impl Backward {
    pub(super) fn new(module: &'static str, lists: &Lists, inputs: usize) -> Arc<Backward> {
        Arc::new(Backward {
            module,
            before: lists.backward_before.clone(),
            after: lists.backward.clone(),
            inputs,
            state: Mutex::default(),
        })
    }

    fn with_state<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn wrap_inputs(self: &Arc<Self>, inputs: &mut Vec<Tensor>) -> Result<()> {
        if let Some(node) = through_node(inputs)? {
            self.with_state(|s| s.inputs = Some(specs(inputs)));
            let this = Arc::clone(self);
            node.register_hook(Arc::new(move |grads| this.after(grads)));
        }
        Ok(())
    }

    pub(super) fn wrap_outputs(self: &Arc<Self>, mut outputs: Vec<Tensor>) -> Result<Vec<Tensor>> {
        if let Some(node) = through_node(&mut outputs)? {
            let this = Arc::clone(self);
            node.register_prehook(Arc::new(move |grads| this.before(grads)));
        }
        Ok(outputs)
    }

    /// The gradients of the results are there.
    fn before(&self, grads: &mut Grads) -> Result<()> {
        let mut results = grads.to_vec();
        for hook in &self.before.0 {
            if let Some(others) = (hook.f)(self.module, &results)? {
                check("a backward pre-hook", "grad_output", &results, &others)?;
                results = others;
            }
        }
        grads.clone_from_slice(&results);
        if self.with_state(|s| s.inputs.is_some()) {
            self.with_state(|s| s.results = Some(results));
            return Ok(());
        }
        let none = vec![None; self.inputs];
        for hook in &self.after.0 {
            let given = (hook.f)(self.module, &none, &results)?;
            if given.is_some_and(|g| g.iter().any(Option::is_some)) {
                return Err(TorshError::autograd(
                    "register_full_backward_hook",
                    format!(
                        "no input of {} requires a gradient, so a backward hook returns none, or `None` for all of them",
                        self.module
                    ),
                ));
            }
        }
        Ok(())
    }

    /// The gradients of what the module took are there. Where they did not come through its results, as in a second
    /// derivative, no hook is called.
    fn after(&self, grads: &mut Grads) -> Result<()> {
        let Some(results) = self.with_state(|s| s.results.take()) else {
            return Ok(());
        };
        // As in PyTorch, an input that requires no gradient has zeros.
        let specs = self.with_state(|s| s.inputs.clone()).unwrap_or_default();
        let mut inputs = filled(grads, &specs)?;
        for hook in &self.after.0 {
            if let Some(others) = (hook.f)(self.module, &inputs, &results)? {
                check("a backward hook", "grad_input", &inputs, &others)?;
                inputs = others;
            }
        }
        grads.clone_from_slice(&inputs);
        Ok(())
    }
}

/// An error where a hook gave something else than gradients for those that were there.
fn check(what: &str, of: &str, old: &Grads, new: &Grads) -> Result<()> {
    if old.len() != new.len() {
        return Err(wrong_number(what, of, new.len(), old.len()));
    }
    for (old, new) in old.iter().zip(new) {
        if let (Some(old), Some(new)) = (old, new)
            && (old.shape() != new.shape() || old.dtype() != new.dtype())
        {
            return Err(TorshError::autograd(
                "backward",
                format!(
                    "{what} turned a gradient {} of {of} into {}",
                    old.describe(),
                    new.describe()
                ),
            )
            .with_hint("a hook must keep shape and dtype"));
        }
    }
    Ok(())
}

pub(super) fn wrong_number(what: &str, of: &str, have: usize, want: usize) -> TorshError {
    TorshError::invalid(
        "hook",
        format!("{what} returned {have} tensors of {of}, but there are {want}"),
    )
    .with_hint("return one for each of them")
}
