//! The integration tests of `torsh-data` in one program: a link costs more than most of them.

mod codec;
mod files;
mod idx;
mod iterable_state;
mod loader;
mod parquet;
mod sampler;
mod sparse;
mod workers;
