//! Plans for sizes that are not here: what a step takes on thousands of ranks, and which mesh is best.
//!
//! The planner is the crate [`torsh_planner`], whose page says what is modelled; [`measure()`] measures the group at hand for
//! it. The program `torsh-plan` is the face of both.

mod measure;
#[cfg(test)]
mod traffic_tests;

pub use measure::{Measurement, StepCheck, measure};
#[doc(inline)]
pub use torsh_planner::*;
