//! CPU kernels of ToRSh

pub mod arch;
mod blocks;
mod convert;
mod copy;
mod index;
mod optim;
mod pointwise;
pub mod scalar;
mod sort;
pub mod strided;
mod table;
mod transpose;
pub mod vmath;

pub use table::{CpuBackend, kernel};
