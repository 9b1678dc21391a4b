//! Calls of op records from outside the crate.

use super::*;

/// Refuses what only an op's own method may call. A built-in record's plan leaves part of what its
/// kernel relies on to the method, as the ranges of its arguments.
fn callable(record: &'static OpRecord) -> Result<()> {
    if matches!(record.rule, Rule::Kernel(_)) && !record.open {
        return Err(TorshError::invalid(
            record.base_name(),
            "a built-in op is called through its method, which checks its arguments",
        )
        .with_hint(format!(
            "call it by name with ops::call(\"{}\", ..), or as a method of Tensor",
            record.name
        )));
    }
    Ok(())
}

impl OpRecord {
    /// Runs the op and returns all its results, recorded where gradients are.
    ///
    /// # Errors
    /// What the op's rule and kernel refuse, with the op, its operands and the caller; and for the
    /// built-in ops that have a plan of their own, which are called through their methods or
    /// [`ops::call`](crate::ops::call).
    #[track_caller]
    pub fn call(&'static self, args: &[Arg<'_>], attrs: &dyn Attributes) -> Result<Outputs> {
        callable(self)?;
        super::call(self, args, attrs)
    }

    /// Runs the op and returns its only (or first) result.
    ///
    /// # Errors
    /// As [`OpRecord::call`].
    #[track_caller]
    pub fn call1(&'static self, args: &[Arg<'_>], attrs: &dyn Attributes) -> Result<Tensor> {
        callable(self)?;
        super::call1(self, args, attrs)
    }

    /// Runs the op in place on `target`, which is also its first operand: pointwise ops write straight
    /// into it, the result of any other is copied over.
    ///
    /// # Errors
    /// As [`OpRecord::call`], and for what in-place ops refuse.
    #[track_caller]
    pub fn call_inplace(
        &'static self,
        target: &Tensor,
        rest: &[Arg<'_>],
        attrs: &dyn Attributes,
    ) -> Result<()> {
        callable(self)?;
        super::call_inplace(self, target, rest, attrs)
    }
}
