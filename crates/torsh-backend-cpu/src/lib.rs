//! CPU kernels of ToRSh

pub mod arch;
mod blocks;
mod convert;
mod copy;
mod create;
mod pointwise;
pub mod scalar;
pub mod strided;
mod table;
mod transpose;
pub mod vmath;

pub use table::{CpuBackend, kernel};
