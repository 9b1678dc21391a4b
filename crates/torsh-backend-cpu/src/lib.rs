//! CPU kernels of ToRSh

mod kernels;
pub mod machine;
pub mod memory;
pub mod operations;
pub mod scalar;
pub mod simd;
mod table;
#[cfg(test)]
mod testing;
pub mod vmath;

pub use kernels::fft;
pub use table::{CpuBackend, kernel};
