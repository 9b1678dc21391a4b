//! Several devices in one process: replicas of a model that share a batch, and a model cut into parts.

mod parts;
mod trainer;

pub use parts::{
    ForwardHandle, ModelPart, ModelParts, combine_outputs, join_all, split_model_across_devices,
};
pub use trainer::DataParallelTrainer;
