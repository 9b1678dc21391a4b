//! Automatic differentiation API of ToRSh
