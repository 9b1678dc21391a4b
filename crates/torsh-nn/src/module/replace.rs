//! Other parameters, buffers and modules in the place of a module's.

use std::any::Any;
use std::collections::HashMap;

use torsh_tensor::{Device, Result, Tensor, TorshError};

use crate::module::ext::ModuleExt;
use crate::module::{Buffer, FieldMut, FieldRef, Module, Parameter, walk, walk_mut};

/// When [`replace`] puts a converted tensor in the place of the one that was there.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum When {
    /// Where its dtype or device is another.
    Different,
    Always,
}

/// Puts converted tensors in the place of parameters and buffers; all or, on an error, none.
#[track_caller]
pub(super) fn replace<M: Module + ?Sized>(
    op: &'static str,
    module: &mut M,
    when: When,
    convert: impl Fn(&Tensor) -> Result<Tensor>,
) -> Result<()> {
    reachable(op, module)?;
    let stays = |new: &Tensor, old: &Tensor| {
        when == When::Different && new.dtype() == old.dtype() && new.device() == old.device()
    };
    let mut parameters: HashMap<usize, Parameter> = HashMap::new();
    let mut buffers: HashMap<usize, Buffer> = HashMap::new();
    for p in module.parameters() {
        let new = convert(&p.detach())?;
        if stays(&new, &p) {
            continue;
        }
        let new = match p.is_uninitialized() {
            true => Parameter::uninitialized_as(&new, p.requires_grad())?,
            false => Parameter::with_requires_grad(new, p.requires_grad())?,
        };
        if let Some(grad) = p.grad() {
            new.set_grad(Some(convert(&grad.detach())?))?;
        }
        parameters.insert(p.id(), new);
    }
    for b in module.buffers() {
        let new = convert(&b.detach())?;
        if !stays(&new, &b) {
            let new = match b.is_uninitialized() {
                true => Buffer::uninitialized_as(&new, b.is_persistent())?,
                false => Buffer::standing_in(new, b.is_persistent()),
            };
            buffers.insert(b.id(), new);
        }
    }
    walk_mut(module, &mut |_, field| match field {
        FieldMut::Parameter(p) => {
            if let Some(new) = parameters.get(&p.id()) {
                p.mark_replaced();
                *p = new.clone();
            }
        }
        FieldMut::Buffer(b) => {
            if let Some(new) = buffers.get(&b.id()) {
                b.mark_replaced();
                *b = new.clone();
            }
        }
        _ => {}
    });
    Ok(())
}

/// An error where a parameter or buffer cannot be exchanged, as somebody else holds its module.
#[track_caller]
pub(crate) fn reachable<M: Module + ?Sized>(op: &'static str, module: &mut M) -> Result<()> {
    let mut names = Vec::new();
    walk(&*module, &mut |name, field| {
        if matches!(field, FieldRef::Parameter(_) | FieldRef::Buffer(_)) {
            names.push(name.to_string());
        }
    });
    let mut at = 0;
    walk_mut(module, &mut |name, field| {
        if matches!(field, FieldMut::Parameter(_) | FieldMut::Buffer(_))
            && names.get(at).is_some_and(|n| n == name)
        {
            at += 1;
        }
    });
    match names.get(at) {
        None => Ok(()),
        Some(name) => Err(TorshError::invalid(
            op,
            format!("`{name}` cannot be exchanged: its module is in an Arc that somebody else holds too"),
        )
        .with_hint("drop the other handles first; the graph of a checkpointed call is one until its backward or its end")),
    }
}

/// Tensors without values in the place of all; see [`ModuleExt::to_empty`].
#[track_caller]
pub(super) fn to_empty<M: Module + ?Sized>(module: &mut M, device: Device) -> Result<()> {
    replace("to_empty", module, When::Always, |t| {
        Tensor::empty(t.shape(), t.dtype(), device)
    })
}

/// Another module in the place of one; see [`ModuleExt::set_submodule`].
#[track_caller]
pub(super) fn set_submodule<M: Module + ?Sized, N: Module>(
    root: &mut M,
    name: &str,
    module: N,
) -> Result<()> {
    let invalid = |why: String| TorshError::invalid("set_submodule", why);
    if name.is_empty() {
        return Err(invalid("a module cannot take its own place".to_string())
            .with_hint("give the name of a module below it, or assign the variable"));
    }
    let current = root
        .get_submodule(name)
        .map_err(|e| e.renamed("set_submodule"))?;
    let there = current.type_name();
    let mut module = Some(module);
    walk_mut(root, &mut |n, field| {
        if n != name {
            return;
        }
        match field {
            FieldMut::Boxed(slot) => {
                if let Some(module) = module.take() {
                    *slot = Box::new(module);
                }
            }
            FieldMut::Module(slot) => {
                if let Some(slot) = (slot as &mut dyn Any).downcast_mut::<N>()
                    && let Some(module) = module.take()
                {
                    *slot = module;
                }
            }
            _ => {}
        }
    });
    match module {
        None => Ok(()),
        Some(module) => Err(invalid(format!(
            "`{name}` is a {there} that a {} cannot replace",
            module.type_name()
        ))
        .with_hint("a field takes a module of its own type; declare it as `Box<dyn Module>`, or hold it in a Sequential, ModuleList or ModuleDict")),
    }
}
