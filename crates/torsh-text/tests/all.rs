//! The integration tests of `torsh-text` in one program: a link costs more than most of them.

mod configs;
mod errors;
mod round_trip;
