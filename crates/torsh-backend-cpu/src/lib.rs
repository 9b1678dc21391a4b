//! CPU kernels of ToRSh

mod kernels;
pub mod machine;
pub mod memory;
pub mod operations;
pub mod scalar;
pub mod shares;
pub mod simd;
pub mod sparse;
mod table;
#[cfg(feature = "unit-tests")]
#[doc(hidden)]
pub mod testing;
pub mod vmath;

/// Keys of attention over the stored blocks of a mask. No table of kernels has them: they are linked into programs that
/// name them.
pub mod attention {
    pub use crate::kernels::attention::blocks::{BLOCKS, BLOCKS_BACKWARD};
}
pub use kernels::fft;
/// Products of matrices, for kernels of other crates.
pub mod matmul {
    pub use crate::kernels::matmul::{Factor, Strided, multiply_add, multiply_add_by, multiply_by};
}
pub use table::{CpuBackend, kernel};
