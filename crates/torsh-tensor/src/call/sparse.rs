//! Calls with sparse operands: the rules that a crate brings for them, in place of the kernels of strided ones.

use std::panic::Location;

use smallvec::SmallVec;
use torsh_core::attrs::NONE;
use torsh_core::{Attributes, Result, Scalar, TorshError};

use super::{Arg, Outputs, attach, first, in_op_named, make_node, run_at, snapshot};
use crate::record::OpRecord;
use crate::{Tensor, inplace, mode, ops};

/// What an op does with sparse operands.
#[derive(Clone, Copy)]
pub struct SparseRule {
    /// The op, by the name of its record without an overload's.
    pub op: &'static str,
    /// Computes the results, recorded where gradients are.
    pub call: fn(&SparseCall<'_>) -> Result<Outputs>,
}

impl std::fmt::Debug for SparseRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.op)
    }
}

/// One call of a rule.
pub struct SparseCall<'a> {
    /// The op's name.
    pub op: &'static str,
    /// Its operands, at least one of which is sparse unless another rule calls this one.
    pub args: &'a [Arg<'a>],
    /// Its other arguments.
    pub attrs: &'a dyn Attributes,
}

impl<'a> SparseCall<'a> {
    /// Operand `i`, which must be a tensor.
    ///
    /// # Errors
    /// Where it is none.
    #[torsh_tensor::names_caller]
    pub fn tensor(&self, i: usize) -> Result<&'a Tensor> {
        self.opt(i)
            .ok_or_else(|| self.refuse(&format!("operand {i} must be a tensor")))
    }

    /// Operand `i`, where it is a tensor.
    pub fn opt(&self, i: usize) -> Option<&'a Tensor> {
        match self.args.get(i) {
            Some(Arg::T(t)) => Some(t),
            _ => None,
        }
    }

    /// Operand `i`, where it is a number.
    pub fn number(&self, i: usize) -> Option<Scalar> {
        match self.args.get(i) {
            Some(Arg::N(n)) => Some(*n),
            _ => None,
        }
    }

    /// The attributes, of the op's struct.
    ///
    /// # Errors
    /// Where the call has another struct.
    #[torsh_tensor::names_caller]
    pub fn attrs<T: Attributes>(&self) -> Result<&'a T> {
        self.attrs.expect()
    }

    /// The error of a call that has no meaning, or none yet.
    pub fn refuse(&self, why: &str) -> TorshError {
        refusal(self.op, self.args, why)
    }
}

/// An error that names the op and the layouts of its operands.
fn refusal(op: &'static str, args: &[Arg<'_>], why: &str) -> TorshError {
    let layouts: Vec<String> = args
        .iter()
        .filter_map(|a| match a {
            Arg::T(t) => Some(format!("{} ({})", t.describe(), t.layout())),
            _ => None,
        })
        .collect();
    TorshError::invalid(
        op,
        format!("{why}; the operands are {}", layouts.join(", ")),
    )
    .with_hint("to_dense() makes a strided tensor of a sparse one")
}

/// Whether an operand is sparse.
#[inline]
pub(crate) fn any(args: &[Arg<'_>]) -> bool {
    args.iter()
        .any(|a| matches!(a, Arg::T(t) if !t.is_strided()))
}

/// The results of a method that is written in other ops, where an operand is sparse and a rule has the method's name.
#[inline]
#[track_caller]
pub(crate) fn by_rule(
    op: &'static str,
    args: &[Arg<'_>],
    attrs: &dyn Attributes,
) -> Option<Result<Tensor>> {
    match any(args) {
        true => Some(call1(op, args, attrs)),
        false => None,
    }
}

/// The only (or first) result of [`call()`].
///
/// # Errors
/// As [`call()`].
#[torsh_tensor::names_caller]
pub fn call1(op: &'static str, args: &[Arg<'_>], attrs: &dyn Attributes) -> Result<Tensor> {
    let outs = call(op, args, attrs)?;
    outs.into_iter()
        .next()
        .ok_or_else(|| refusal(op, args, "the rule gave no result"))
}

/// Runs the rule of an op by its name.
///
/// # Errors
/// What the rule refuses, with the op, its operands and the caller; where there is no such rule.
#[torsh_tensor::names_caller]
pub fn call(op: &'static str, args: &[Arg<'_>], attrs: &dyn Attributes) -> Result<Outputs> {
    let at = Location::caller();
    by_name(op, args, attrs).map_err(|e| in_op_named(e, op, args, at))
}

fn by_name(op: &'static str, args: &[Arg<'_>], attrs: &dyn Attributes) -> Result<Outputs> {
    match ops::sparse_rule(op) {
        Some(rule) => run(rule, op, args, attrs),
        None => Err(no_rule(op, args)),
    }
}

/// Runs a rule. Errors of the ops that it is written in name the op, unless that is of no concern to users.
fn run(
    rule: &SparseRule,
    op: &'static str,
    args: &[Arg<'_>],
    attrs: &dyn Attributes,
) -> Result<Outputs> {
    (rule.call)(&SparseCall { op, args, attrs }).map_err(|e| match op.starts_with('_') {
        true => e,
        false => e.renamed(op),
    })
}

#[cold]
pub(crate) fn no_rule(op: &'static str, args: &[Arg<'_>]) -> TorshError {
    match ops::families().iter().any(|f| !f.sparse.is_empty()) {
        true => refusal(op, args, &format!("{op} is not defined for sparse tensors")),
        false => refusal(
            op,
            args,
            &format!("{op} of sparse tensors comes with the feature `sparse`"),
        )
        .with_hint("add the feature `sparse` of the crate `torsh`"),
    }
}

/// A call of the dispatcher with a sparse operand.
#[cold]
#[inline(never)]
pub(crate) fn dispatch(
    record: &'static OpRecord,
    args: &[Arg<'_>],
    attrs: &dyn Attributes,
) -> Result<Outputs> {
    let op = record.base_name();
    // An overload may have a rule of its own, as `div.trunc`.
    if let Some(rule) = ops::sparse_rule(record.name).or_else(|| ops::sparse_rule(op)) {
        return run(rule, rule.op, args, attrs);
    }
    match (record.keeps_zeros, args) {
        (Some(kind), [Arg::T(x), rest @ ..]) if !any(rest) => {
            ops::on_values(record, kind, x, rest, attrs).map(|t| SmallVec::from_iter([t]))
        }
        _ => Err(no_rule(op, args)),
    }
}

/// The op of the name in place: the rule's result takes the place of the target's parts.
#[track_caller]
pub(crate) fn in_place_by_rule(
    op: &'static str,
    target: &Tensor,
    rest: &[Arg<'_>],
    attrs: &dyn Attributes,
) -> Result<()> {
    let mut args: SmallVec<[Arg<'_>; 3]> = SmallVec::from_iter([Arg::T(target)]);
    args.extend_from_slice(rest);
    let wanted = args
        .iter()
        .any(|a| matches!(a, Arg::T(t) if t.requires_grad()));
    inplace::check(target, wanted)?;
    let value = call1(op, &args, attrs)?;
    replace(op, target, &value)
}

/// A call of the dispatcher in place, with a sparse target or operand.
#[cold]
pub(crate) fn update(
    record: &'static OpRecord,
    target: &Tensor,
    args: &[Arg<'_>],
    attrs: &dyn Attributes,
    at: &'static Location<'static>,
) -> Result<()> {
    let wanted = args
        .iter()
        .any(|a| matches!(a, Arg::T(t) if t.requires_grad()));
    inplace::check(target, wanted)?;
    let old;
    let mut operands: SmallVec<[Arg<'_>; 3]> = SmallVec::from_slice(args);
    // Rules save operands, which the result is written over.
    if wanted && mode::is_grad_enabled() && !target.is_strided() {
        old = snapshot(target)?;
        for a in &mut operands {
            if matches!(a, Arg::T(t) if t.is_same(target)) {
                *a = Arg::T(&old);
            }
        }
    }
    let value = first(run_at(record, &operands, attrs, at)?);
    match target.is_strided() {
        true => inplace::assign(target, &value),
        false => replace(record.base_name(), target, &value),
    }
}

/// Puts the parts of `value` into a sparse tensor, and its history. Values of the same indices are written into those of the
/// target, which others may share.
pub(crate) fn replace(op: &'static str, target: &Tensor, value: &Tensor) -> Result<()> {
    let args = [Arg::T(target), Arg::T(value)];
    let (Some(to), Some(from)) = (target.0.memory.parts(), value.0.memory.parts()) else {
        return Err(refusal(
            op,
            &args,
            "the result has another layout than the tensor that is written",
        ));
    };
    if target.is_same(value) {
        return Ok(());
    }
    let ((have, old), (pattern, new)) = (to.both(), from.both());
    if have.layout() != pattern.layout()
        || have.shape() != pattern.shape()
        || have.sparse_dim() != pattern.sparse_dim()
    {
        return Err(refusal(
            op,
            &args,
            "the result has another layout or shape than the tensor that is written",
        ));
    }
    if !new.dtype().can_cast(old.dtype()) {
        return Err(TorshError::dtype(
            op,
            format!(
                "result type {} can't be cast to the desired output type {}",
                new.dtype(),
                old.dtype()
            ),
        ));
    }
    mode::no_grad(|| match have.is_same(&pattern) {
        true => old.copy_(&new).map(|_| ()),
        false => {
            to.replace(pattern, new.to_dtype(old.dtype())?);
            Ok(())
        }
    })?;
    if !mode::is_grad_enabled() || !target.dtype().is_differentiable() {
        return Ok(());
    }
    match value.gradient_edge() {
        Some(e) => drop(attach(target.clone(), e.node, e.output_nr)),
        // What is there now does not depend on what was there.
        None if target.requires_grad() => {
            let outs = std::slice::from_ref(target);
            let at = Location::caller();
            let record = &crate::ops::sparse::REPLACED;
            let node = make_node(record, &[Arg::T(target)], NONE, outs, at, None)?;
            drop(attach(target.clone(), node, 0));
        }
        None => {}
    }
    Ok(())
}
