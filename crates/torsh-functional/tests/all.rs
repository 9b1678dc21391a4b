//! The integration tests of `torsh-functional` in one program: a link costs more than most of them.

mod blocks;
mod coverage;
mod ctc_loss;
mod losses;
mod within_samples;
