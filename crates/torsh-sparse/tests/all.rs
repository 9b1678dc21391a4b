//! The integration tests of `torsh-sparse` in one program: a link costs more than most of them.

mod basics;
mod properties;
