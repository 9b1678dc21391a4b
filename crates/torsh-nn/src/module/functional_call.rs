//! Running a module with other tensors in place of its parameters and buffers.

use std::collections::HashMap;

use torsh_tensor::{Result, Tensor, TorshError};

use crate::module::replace::reachable;
use crate::module::{Buffer, FieldMut, FieldRef, Module, Parameter, StateDict, walk, walk_mut};

enum Old {
    Parameter(Parameter),
    Buffer(Buffer),
}

/// Puts the fields back, also when `forward` fails or panics.
struct Restore<'a, M: Module + ?Sized> {
    module: &'a mut M,
    saved: HashMap<String, Old>,
}

impl<M: Module + ?Sized> Drop for Restore<'_, M> {
    fn drop(&mut self) {
        let saved = &mut self.saved;
        walk_mut(
            self.module,
            &mut |name, field| match (field, saved.remove(name)) {
                (FieldMut::Parameter(p), Some(Old::Parameter(old))) => *p = old,
                (FieldMut::Buffer(b), Some(Old::Buffer(old))) => *b = old,
                _ => {}
            },
        );
    }
}

#[track_caller]
pub(super) fn functional_call<M: Module + ?Sized>(
    module: &mut M,
    tensors: &StateDict,
    x: &Tensor,
) -> Result<Tensor> {
    // A tied tensor is given under one of its names, or under several as the same tensor.
    let mut by_id: HashMap<usize, (&str, &Tensor)> = HashMap::new();
    let mut unknown: Vec<&str> = tensors.keys().collect();
    let (mut clash, mut lazy) = (None, None);
    walk(&*module, &mut |name, field| {
        let (id, uninitialized) = match field {
            FieldRef::Parameter(p) => (p.id(), p.is_uninitialized()),
            FieldRef::Buffer(b) => (b.id(), b.is_uninitialized()),
            _ => return,
        };
        if uninitialized {
            lazy.get_or_insert_with(|| name.to_string());
        }
        if let Some((key, tensor)) = tensors.iter().find(|(key, _)| *key == name) {
            unknown.retain(|key| *key != name);
            match by_id.get(&id) {
                Some((other, before)) if !before.is_same(tensor) => {
                    clash = Some(format!(
                        "{other} and {name} are tied, but given as two different tensors"
                    ));
                }
                _ => {
                    by_id.insert(id, (key, tensor));
                }
            }
        }
    });
    if !unknown.is_empty() {
        return Err(TorshError::invalid(
            "functional_call",
            format!(
                "{} has no parameter or buffer {}",
                module.type_name(),
                unknown.join(", ")
            ),
        ));
    }
    if let Some(name) = lazy {
        return Err(
            TorshError::invalid("functional_call", format!("{name} is not initialised"))
                .with_hint("call forward once with an input as it will be, or load a state dict"),
        );
    }
    if let Some(clash) = clash {
        return Err(TorshError::invalid("functional_call", clash));
    }
    reachable("functional_call", module)?;
    let mut guard = Restore {
        module,
        saved: HashMap::new(),
    };
    let saved = &mut guard.saved;
    walk_mut(guard.module, &mut |name, field| match field {
        FieldMut::Parameter(p) => {
            if let Some((_, tensor)) = by_id.get(&p.id()) {
                let old = std::mem::replace(p, Parameter::standing_in((*tensor).clone()));
                saved.insert(name.to_string(), Old::Parameter(old));
            }
        }
        FieldMut::Buffer(b) => {
            if let Some((_, tensor)) = by_id.get(&b.id()) {
                let other = Buffer::standing_in((*tensor).clone(), b.is_persistent());
                saved.insert(name.to_string(), Old::Buffer(std::mem::replace(b, other)));
            }
        }
        _ => {}
    });
    guard.module.forward(x)
}
