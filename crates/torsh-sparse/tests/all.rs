//! The integration tests of `torsh-sparse` in one program: a link costs more than most of them.

mod basics;
mod blocks;
mod common;
mod devices;
mod gather;
mod gradcheck;
mod lists;
mod memory;
mod modes;
mod products;
mod properties;
mod records;
mod solving;
mod threads;
