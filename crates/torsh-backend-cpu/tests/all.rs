//! The integration tests of `torsh-backend-cpu` in one program: a link costs more than most of them.

mod common;
mod copy;
mod pointwise;
mod strided;
mod vmath;
