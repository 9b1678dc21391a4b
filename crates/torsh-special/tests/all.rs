//! The integration tests of `torsh-special` in one program: a link costs more than most of them.

mod orders;
mod special;
