//! What the tests of the kernels share.

use torsh_core::{Attributes, DType, Kernel, KernelArgs, Result, View};

/// Runs a kernel on views of a test's buffers, which must be as the kernel asks.
pub(crate) fn run<'a>(
    kernel: Kernel,
    compute: DType,
    outputs: &'a [View<'a>],
    inputs: &'a [View<'a>],
    attrs: &dyn Attributes,
) -> Result<()> {
    let f = crate::kernel(kernel).expect("the kernel is in the table");
    // SAFETY: the caller's views are of buffers that outlive the call, of the kernel's shapes.
    f(&unsafe { KernelArgs::new(kernel, compute, outputs, inputs, attrs) })
}
