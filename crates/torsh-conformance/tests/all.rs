//! The integration tests of `torsh-conformance` in one program: a link costs more than most of them.

mod autocast;
mod common;
mod golden;
mod modules_training;
mod runner;
mod source;
mod sparse;
mod text;
