//! The integration tests of `torsh-train` in one program: a link costs more than most of them.

mod checkpoint;
mod common;
mod config;
mod detection;
mod interrupt;
mod killed;
mod loggers;
mod memory;
mod metrics;
mod plots;
mod resume;
mod trainer;
