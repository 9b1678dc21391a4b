//! Distributed training: collectives, data, sharded, tensor and pipeline parallel, as `torch.distributed`.
//!
//! Bytes travel by MPI, which is found when the program runs; everything above is this crate's: reductions in a fixed
//! order, overlap with the backward pass, sharding, schedules, checkpoints, and what happens when a rank fails.

pub mod checkpoint;
mod clip;
mod collectives;
mod comm;
mod coo;
mod data_parallel;
mod ddp;
#[doc(hidden)]
pub mod engine;
mod failure;
mod fsdp;
pub mod functional;
mod group;
mod init;
pub mod launch;
mod mesh;
mod object;
pub mod pipeline;
pub mod plan;
mod reduce;
mod sharded;
mod strategy;
mod sync_batch_norm;
pub mod tensor_parallel;
mod work;
mod zero;

pub use clip::*;
pub use collectives::*;
pub use data_parallel::*;
pub use ddp::*;
pub use failure::*;
pub use fsdp::*;
pub use group::*;
pub use init::*;
pub use mesh::*;
pub use pipeline::{PipelineStage, Schedule};
pub use reduce::*;
pub use sharded::*;
pub use strategy::*;
pub use sync_batch_norm::*;
pub use tensor_parallel::parallelize_module;
pub use work::*;
pub use zero::*;
