//! The integration tests of `torsh-functional` in one program: a link costs more than most of them.

mod coverage;
mod ctc_loss;
mod losses;
mod within_samples;
