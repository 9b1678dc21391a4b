//! The operands of a call.

use torsh_core::{KernelArgs, Result, TorshError, View};

/// The first outputs and inputs of a call.
#[inline]
pub(crate) fn operands<'a, const OUTPUTS: usize, const INPUTS: usize>(
    args: &KernelArgs<'a>,
) -> Result<(&'a [View<'a>; OUTPUTS], &'a [View<'a>; INPUTS])> {
    let (outputs, inputs) = (args.outputs().first_chunk(), args.inputs().first_chunk());
    outputs.zip(inputs).ok_or_else(missing)
}

/// The error of a call without the operands that the kernel needs.
#[cold]
pub(crate) fn missing() -> TorshError {
    TorshError::invalid("", "the kernel was called without all its operands")
}
