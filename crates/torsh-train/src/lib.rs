//! Training: checkpoints, metrics, configurations and registries.
#![forbid(unsafe_code)]

pub mod checkpoint;
pub mod config;
pub mod metrics;
pub mod registry;

pub use checkpoint::{Checkpoint, CheckpointBuilder, Stateful};
pub use config::ExperimentConfig;
