//! CPU kernels of ToRSh

pub mod arch;
pub mod reduce;
pub mod scan;
pub mod softmax;
mod blocks;
mod convert;
mod copy;
mod create;
mod index;
mod pointwise;
pub mod scalar;
mod sort;
pub mod strided;
mod table;
mod transpose;
pub mod vmath;

pub use table::{CpuBackend, kernel};
