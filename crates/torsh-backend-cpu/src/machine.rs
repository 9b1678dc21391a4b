//! What depends on the processor: the choice of algorithms, their thresholds, and the peak rates.
//!
//! [`torsh_core::machine`] describes the processor.

pub(crate) mod choice;
pub mod peak;
#[cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, reason = "some algorithms are of x86-64 alone")
)]
pub(crate) mod tuning;
