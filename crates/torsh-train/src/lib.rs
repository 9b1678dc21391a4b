//! Training: metrics.
#![forbid(unsafe_code)]

pub mod metrics;
