//! The integration tests of `torsh-profiler` in one program: a link costs more than most of them.

mod models;
mod profile;
mod sparse;
mod table;
mod tools;
mod trace;
