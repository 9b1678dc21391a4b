//! The tensor, the operator records and the recording of gradients of ToRSh

pub mod print;
