//! The integration tests of `torsh-linalg` in one program: a link costs more than most of them.

mod batches;
mod common;
mod gradients;
mod invariants;
mod names;
mod spectra;
