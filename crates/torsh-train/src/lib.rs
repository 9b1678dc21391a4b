//! Training: the [`Trainer`] with its [`callbacks`], [`metrics`], checkpoints ([`Checkpoint`]),
//! configurations ([`ExperimentConfig`]), registries and pools of [`memory`].
#![forbid(unsafe_code)]

pub mod callbacks;
pub mod checkpoint;
pub mod config;
pub mod memory;
pub mod metrics;
pub mod registry;
mod trainer;

pub use checkpoint::{Checkpoint, CheckpointBuilder, Stateful};
pub use config::ExperimentConfig;
pub use trainer::{
    EpochResults, Loader, Metrics, StepOutput, Stop, StopHandle, Trainer, TrainerBuilder,
    TrainingResults,
};
