//! CPU kernels of ToRSh

pub mod arch;
pub mod reduce;
pub mod scan;
pub mod softmax;
pub mod vmath;
