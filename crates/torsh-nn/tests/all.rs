//! The integration tests of `torsh-nn` in one program: a link costs more than most of them.

mod checkpointed;
mod embedding;
mod feed_forward;
mod fused;
mod init;
mod layers;
mod lazy;
mod modules;
mod orthogonal;
mod prune;
mod pytorch;
mod recurrent;
mod state_dicts;
mod summary;
mod transformer;
mod utils;
mod words;
