//! CPU kernels of ToRSh

pub mod arch;
mod index;
mod sort;
pub mod vmath;
