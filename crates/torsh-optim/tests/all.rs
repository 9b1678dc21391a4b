//! The integration tests of `torsh-optim` in one program: a link costs more than most of them.

mod algorithms;
mod autocast;
mod averages;
mod files;
mod hooks;
mod optimizers;
mod pruned;
mod scaler;
mod schedulers;
mod schedulers_by_group;
mod sparse;
