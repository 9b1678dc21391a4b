//! CPU kernels of ToRSh

pub mod arch;
mod batch_norm;
mod blocks;
mod conv;
mod convert;
mod copy;
mod create;
pub mod reduce;
pub mod scan;
pub mod softmax;

mod dense;
mod index;
mod loss;
mod matmul;
mod pointwise;
mod pooling;
pub mod scalar;
mod sort;
pub mod strided;
mod table;
mod transpose;
pub mod vmath;

pub use table::{CpuBackend, kernel};
