//! The integration tests of `torsh-vision` in one program: a link costs more than most of them.

mod codec;
mod common;
mod datasets;
mod detection;
mod docs;
mod images;
mod models;
mod ops;
mod transformer_models;
mod transforms;

// Private files of the library with tests of their own, which need nothing else of it.
#[allow(dead_code)]
#[path = "../src/fetch.rs"]
mod fetch;
#[allow(dead_code)]
#[path = "../src/scratch.rs"]
mod scratch;
