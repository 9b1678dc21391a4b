//! CPU kernels of ToRSh
