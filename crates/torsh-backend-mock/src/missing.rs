//! Which kernels the device lacks.

use torsh_core::Kernel;

/// Kernels of the CPU that this device lacks: the ops they belong to are computed by their records'
/// definitions in other ops.
pub const MISSING: &[Kernel] = &[];
