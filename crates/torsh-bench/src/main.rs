//! The benchmark suite of ToRSh.
fn main() {}
