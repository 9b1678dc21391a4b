//! CPU kernels of ToRSh

pub mod arch;
pub mod vmath;
