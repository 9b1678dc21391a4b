//! Checks that unit tests and `torsh-distributed-check` run on every engine.

pub mod checkpoint;
pub mod collectives;
pub mod ddp;
pub mod engine;
pub mod fsdp;
pub mod pipeline;
pub mod tensor_parallel;
