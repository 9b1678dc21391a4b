//! CPU kernels of ToRSh

pub mod arch;
pub mod scalar;
pub mod vmath;
