//! PyTorch's rules for in-place ops on leaves, bases and views, all in this file.
//!
//! * An in-place op on a leaf that requires grad, or on a view of one, is refused.
//! * An in-place op on a tensor replaces its `grad_fn` by the op's node.
//! * An in-place op on a view is recorded on the view's base as `CopySlices`, which cuts the
//!   window out of the base's gradient, sends it through the op, and puts it back.
//! * A view notices by the storage's version that its base was written, and takes its history
//!   from the base again, as a strided window of it.
//! * Saved values carry the version they were saved at; see `node.rs`.

use std::sync::atomic::Ordering;

use smallvec::SmallVec;
use torsh_core::{
    Attributes, DType, Device, Layout, Result, SavedAttributes, Shape, Shared, TorshError,
};

use crate::Tensor;
use crate::memory::{Creation, ViewOf};
use crate::mode;
use crate::node::{CopySlices, Edge, Input, InputSpec, Kind, Node, Output, SavedSet};
use crate::ops::{complex, strided};
use crate::record::OpRecord;
use crate::tensor::Meta;

/// Refuses an in-place op that cannot be recorded, before anything is written.
pub(crate) fn check(target: &Tensor, recorded: bool) -> Result<()> {
    check_elements(target)?;
    check_history(target, recorded)
}

fn check_elements(target: &Tensor) -> Result<()> {
    if target.is_strided() && target.memory_layout().may_overlap_itself() {
        return Err(TorshError::invalid(
            "",
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location",
        )
        .with_hint("the tensor is expanded: copy() it before writing into it"));
    }
    Ok(())
}

/// [`check`] without the rule that no element is written twice, which may be where all elements
/// get the same value.
pub(crate) fn check_history(target: &Tensor, recorded: bool) -> Result<()> {
    if target.is_inference() && !mode::is_inference_mode() {
        return Err(TorshError::autograd(
            "",
            "inplace update to inference tensor outside inference mode is not allowed",
        )
        .with_hint("copy() it to get a normal tensor"));
    }
    if !mode::is_grad_enabled() {
        return Ok(());
    }
    if let Some(v) = target.view_of() {
        let wants = recorded || target.requires_grad() || v.base.requires_grad();
        match v.creation {
            Creation::Recorded if wants && v.base.requires_grad() && v.base.is_leaf() => {
                return Err(TorshError::autograd(
                        "",
                        "a view of a leaf Variable that requires grad is being used in an in-place operation",
                    )
                    .with_hint("do it under no_grad, or on a copy()"));
            }
            Creation::NoGrad if wants => {
                return Err(TorshError::autograd(
                    "",
                    "a view was created in no_grad mode and is being modified inplace with grad mode enabled",
                )
                .with_hint("make the view with recording on, or do both under no_grad"));
            }
            Creation::Multiple if wants => {
                return Err(TorshError::autograd(
                    "",
                    "a view that is one of several outputs of a function cannot be modified inplace",
                )
                .with_hint("use narrow() or select() to make the view, or copy() it"));
            }
            Creation::Function if wants => {
                return Err(TorshError::autograd(
                    "",
                    "a view created inside a custom Function (or an input it returned as it is) is being modified inplace",
                )
                .with_hint("return a copy() from the function"));
            }
            _ => {}
        }
    }
    let wants = target
        .meta()
        .is_some_and(|m| m.requires_grad.load(Ordering::Acquire));
    if wants && target.is_leaf() {
        return Err(TorshError::autograd(
            "",
            "a leaf Variable that requires grad is being used in an in-place operation",
        )
        .with_hint("do it under no_grad, or on a copy()"));
    }
    Ok(())
}

/// Whether a view's history cannot be made anew and its data was written since it was made, while
/// its base takes part in recording: what its gradient would be, nobody knows.
pub(crate) fn is_stale(t: &Tensor) -> bool {
    t.view_of().is_some_and(|v| {
        v.creation != Creation::Recorded
            && v.base.requires_grad()
            && t.view_version(v) != t.storage().version()
    })
}

/// Refuses to record an op on a view whose history is out of date.
pub(crate) fn check_stale(t: &Tensor) -> Result<()> {
    let Some(view) = t.view_of() else {
        return Ok(());
    };
    if view.creation == Creation::Recorded || !is_stale(t) {
        return Ok(());
    }
    let how = match view.creation {
        Creation::NoGrad => "created in no_grad mode",
        Creation::Multiple => "that is the output of a function that returns multiple views",
        _ => "created inside a custom Function",
    };
    Err(TorshError::autograd(
        "",
        format!(
            "the base of a view {how}, or another view of it, has been modified inplace since: the view's history is lost"
        ),
    )
    .with_hint("make the view again after the change; or use detach(), narrow() or select()"))
}

/// Refuses an operand that overlaps what is written without being the same elements.
pub(crate) fn check_overlap(target: &Tensor, operand: &Tensor) -> Result<()> {
    if !target.shares_storage(operand) || target.memory_layout() == operand.memory_layout() {
        return Ok(());
    }
    let (Some(a), Some(b)) = (
        target.memory_layout().extent(),
        operand.memory_layout().extent(),
    ) else {
        return Ok(());
    };
    if a.0 >= b.1 || b.0 >= a.1 {
        return Ok(());
    }
    // The same strides and an offset between two elements: interleaved, never equal.
    if target.stride() == operand.stride()
        && target.shape() == operand.shape()
        && disjoint(target.memory_layout(), operand.memory_layout())
    {
        return Ok(());
    }
    Err(TorshError::invalid(
        "",
        "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory location",
    )
    .with_hint("copy() the operand first"))
}

/// Whether two layouts of the same shape and strides reach different elements (even and odd
/// columns of one matrix).
fn disjoint(a: &Layout, b: &Layout) -> bool {
    let distance = a.offset.abs_diff(b.offset);
    let step = a
        .strides
        .iter()
        .zip(a.shape.iter())
        .filter(|(_, n)| **n > 1)
        .map(|(s, _)| s.unsigned_abs())
        .fold(0usize, gcd);
    step > 1 && !distance.is_multiple_of(step)
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Gives a tensor the history of an in-place op on it; `None` where the op was not recorded.
pub(crate) fn rebase(target: &Tensor, node: Option<Shared<Node>>) -> Result<()> {
    let Some(node) = node else { return Ok(()) };
    let site = node.site;
    let m = target.meta_or_new();
    let Some(view) = target.view_of() else {
        return set_history(target, m, node);
    };
    let base = &view.base;
    let old = base.gradient_edge();
    let mut inputs: SmallVec<[Input; 2]> = SmallVec::new();
    inputs.push(Input {
        edge: old,
        spec: InputSpec::AS_OUTPUT,
    });
    for i in node.inputs.iter().skip(1) {
        inputs.push(Input {
            edge: i.edge.clone(),
            spec: InputSpec::AS_OUTPUT,
        });
    }
    let out = Output {
        shape: base.shape().clone(),
        dtype: base.dtype(),
        device: base.device(),
    };
    let kind = Kind::CopySlices(Box::new(CopySlices {
        inner: node,
        base: base.memory_layout().clone(),
        view: target.memory_layout().clone(),
    }));
    let copy = Node::new(
        kind,
        inputs,
        SmallVec::from_iter([out]),
        SavedSet::default(),
        site,
    );
    set_history(base, base.meta_or_new(), copy)?;
    m.requires_grad.store(true, Ordering::Release);
    // The view's own history is made anew from the base's when somebody asks.
    m.state.lock().view_version = u64::MAX;
    Ok(())
}

fn set_history(t: &Tensor, m: &Meta, node: Shared<Node>) -> Result<()> {
    let mut s = m.state.lock();
    let hooks = std::mem::take(&mut s.hooks);
    if !hooks.is_empty() {
        node.hooks_or_new()
            .lock()
            .tensor
            .extend(hooks.into_iter().map(|k| (0, k)));
    }
    let previous = s.grad_fn.replace(node.clone());
    if let Some(p) = &previous {
        move_retained(t, p, &node);
    }
    s.output_nr = 0;
    s.view_version = t.storage().version();
    m.requires_grad.store(true, Ordering::Release);
    drop(s);
    // The old history may be long: its drop is iterative, and must not hold the lock.
    drop(previous);
    Ok(())
}

/// `retain_grad` asks for the gradient of the tensor as it is last: it goes along to its new node.
fn move_retained(t: &Tensor, from: &Node, to: &Node) {
    let mut moved = Vec::new();
    if let Some(h) = from.hooks.get() {
        h.lock().retain.retain(|(_, w)| {
            let other = w.as_ptr() != Shared::as_ptr(&t.0);
            if !other {
                moved.push((0, w.clone()));
            }
            other
        });
    }
    if !moved.is_empty() {
        to.hooks_or_new().lock().retain.extend(moved);
    }
}

/// Makes the history of a view anew when its storage was written since it was made.
pub(crate) fn refresh_view(t: &Tensor, view: &ViewOf) {
    if view.creation != Creation::Recorded || !t.dtype().is_differentiable() {
        return;
    }
    let version = t.storage().version();
    if t.view_version(view) == version {
        return;
    }
    let edge: Option<Edge> = view.base.gradient_edge();
    let m = t.meta_or_new();
    let mut s = m.state.lock();
    s.view_version = version;
    let Some(edge) = edge else { return };
    if let Some(have) = &s.grad_fn
        && have
            .inputs
            .first()
            .and_then(|i| i.edge.as_ref())
            .is_some_and(|e| Shared::ptr_eq(&e.node, &edge.node))
        && matches!(&have.kind, Kind::Op { .. })
        && have.inputs.len() == 1
    {
        return;
    }
    let (base, device) = (&view.base, t.device());
    // A view of complex numbers as real ones (or the other way) is a window of real numbers.
    let (mut edge, mut from, mut dtype) = (edge, base.memory_layout().clone(), base.dtype());
    let mut to = t.memory_layout().clone();
    let to_complex = t.dtype().is_complex() && !dtype.is_complex();
    if dtype.is_complex() && !t.dtype().is_complex() {
        let input = (from.shape.clone(), dtype);
        from = strided::in_reals(&from);
        dtype = t.dtype();
        let out = (from.shape.clone(), dtype);
        edge = history(
            &complex::VIEW_AS_REAL,
            SavedAttributes::NOTHING,
            edge,
            input,
            out,
            device,
        );
    }
    if to_complex {
        to = strided::in_reals(&to);
    }
    let window = (to.shape.clone(), dtype);
    edge = history(
        &strided::AS_STRIDED,
        strided::AsStrided::new(&from, &to).save(),
        edge,
        (from.shape, dtype),
        window.clone(),
        device,
    );
    if to_complex {
        let out = (t.shape().clone(), t.dtype());
        edge = history(
            &complex::VIEW_AS_COMPLEX,
            SavedAttributes::NOTHING,
            edge,
            window,
            out,
            device,
        );
    }
    let previous = s.grad_fn.replace(edge.node.clone());
    if let Some(p) = &previous {
        move_retained(t, p, &edge.node);
    }
    s.output_nr = 0;
    m.requires_grad.store(true, Ordering::Release);
    drop(s);
    drop(previous);
}

/// The node of an op that was not called: a part of a view's history.
fn history(
    record: &'static OpRecord,
    attrs: SavedAttributes,
    edge: Edge,
    input: (Shape, DType),
    (shape, dtype): (Shape, DType),
    device: Device,
) -> Edge {
    let input = Input {
        edge: Some(edge),
        spec: InputSpec::own(&input.0, input.1),
    };
    let out = Output {
        shape,
        dtype,
        device,
    };
    let node = Node::new(
        Kind::Op { record, attrs },
        SmallVec::from_iter([input]),
        SmallVec::from_iter([out]),
        SavedSet::default(),
        None,
    );
    Edge { node, output_nr: 0 }
}

/// Copies `value` over `target` in place, and gives it `value`'s history: the in-place form of
/// every op that has no kernel of its own for it.
pub(crate) fn assign(target: &Tensor, value: &Tensor) -> Result<()> {
    check(target, value.requires_grad() || target.requires_grad())?;
    if !value.dtype().can_cast(target.dtype()) {
        return Err(TorshError::dtype(
            "",
            format!(
                "result type {} can't be cast to the desired output type {}",
                value.dtype(),
                target.dtype()
            ),
        ));
    }
    if value.shape() != target.shape() {
        return Err(TorshError::shape(
            "",
            format!(
                "output with shape {} doesn't match the result's shape {}",
                target.shape(),
                value.shape()
            ),
        ));
    }
    target.copy_(value)?;
    Ok(())
}
