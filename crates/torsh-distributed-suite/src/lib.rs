//! Checks that all engines of `torsh-distributed` pass.
//!
//! All ranks of a group call a check together. The tests run them on ranks that are threads, the program
//! `torsh-distributed-check` on real processes and MPI. `torsh-distributed-fault` is the program that fails on purpose.

use torsh_core::random::LocalGenerator;
use torsh_tensor::Result;

/// The reports of a suite's checks: `wrong` is an error of the suite, `check` one unless something holds, and `says`, where
/// it is asked for, one unless a result is an error with these words.
macro_rules! reports {
    ($suite:literal) => {
        fn wrong(what: impl Into<String>) -> torsh_tensor::TorshError {
            torsh_tensor::TorshError::invalid($suite, what.into())
        }

        fn check(right: bool, what: impl FnOnce() -> String) -> torsh_tensor::Result<()> {
            right.then_some(()).ok_or_else(|| wrong(what()))
        }
    };
    ($suite:literal, says) => {
        reports!($suite);

        fn says<T>(result: torsh_tensor::Result<T>, words: &[&str]) -> torsh_tensor::Result<()> {
            match result {
                Ok(_) => Err(wrong(format!("there is no error with {words:?}"))),
                Err(e) => {
                    let text = e.to_string();
                    check(words.iter().all(|w| text.contains(w)), || {
                        format!("{words:?} are not in: {text}")
                    })
                }
            }
        }
    };
}

pub mod checkpoint;
pub mod collectives;
pub mod coo;
pub mod ddp;
pub mod engine;
pub mod fsdp;
pub mod job;
pub mod models;
pub mod pipeline;
pub mod tensor_parallel;

/// The same random numbers on all ranks, also where they are threads.
pub fn seeded<T>(seed: u64, f: impl FnOnce() -> Result<T>) -> Result<T> {
    LocalGenerator::new(seed).scope(f)
}
