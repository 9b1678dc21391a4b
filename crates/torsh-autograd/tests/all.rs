//! The integration tests of `torsh-autograd` in one program: a link costs more than most of them.

mod anomaly;
mod checkpoint;
mod common;
mod ctc_loss;
mod function;
mod functional;
mod graph;
mod hooks;
mod inplace;
mod modes;
mod own_op;
mod random_graphs;
mod records;
mod threads;
mod views;
