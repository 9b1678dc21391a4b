//! Training: the [`Trainer`] with its [`callbacks`], [`metrics`], checkpoints ([`Checkpoint`]),
//! configurations ([`ExperimentConfig`]), registries and pools of [`memory`]. With the feature
//! `plots` a module `plot` draws the curves of a run, and any other line chart, as PNG or SVG.
#![forbid(unsafe_code)]

pub mod callbacks;
pub mod checkpoint;
pub mod config;
pub mod memory;
pub mod metrics;
#[cfg(feature = "plots")]
pub mod plot;
pub mod registry;
mod trainer;

pub use checkpoint::{Checkpoint, CheckpointBuilder, Stateful};
pub use config::ExperimentConfig;
pub use trainer::{
    CaughtSignals, EpochResults, History, Loader, Metrics, RunParts, StepOutput, Stop, StopHandle,
    Strategy, Trainer, TrainerBuilder, TrainingResults,
};
