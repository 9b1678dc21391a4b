//! Training: checkpoints and metrics.
#![forbid(unsafe_code)]

pub mod checkpoint;
pub mod metrics;

pub use checkpoint::{Checkpoint, CheckpointBuilder, Stateful};
