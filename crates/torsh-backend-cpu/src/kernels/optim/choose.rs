//! The choice of an optimizer step's loop.

use std::fmt;

use torsh_core::machine::{Level, Machine};
use torsh_core::{DType, Kernel};

use crate::machine::choice::Algorithm;

/// One parameter's step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StepProblem {
    /// The row of `torsh_core::steps`.
    pub row: Kernel,
    /// The parameter's dtype.
    pub dtype: DType,
    /// Whether it is Adam with numbers that its own loop takes, without the largest second moment.
    pub plain_adam: bool,
}

impl fmt::Display for StepProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.row, self.dtype)?;
        match self.plain_adam {
            true => f.write_str(" plain=1"),
            false => Ok(()),
        }
    }
}

/// The loops over a parameter's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepAlgorithm {
    /// The loop that is compiled from the row.
    Row,
    /// Adam's own, which spares the processor's only divider.
    AdamEstimates,
}

use StepAlgorithm::*;

impl Algorithm for StepAlgorithm {
    type Problem = StepProblem;
    const OP: &'static str = "step";
    const ALL: &'static [Self] = &[Row, AdamEstimates];

    fn name(self) -> &'static str {
        match self {
            Row => "row",
            AdamEstimates => "adam-estimates",
        }
    }

    #[inline]
    fn accepts(self, p: &StepProblem, machine: &Machine) -> bool {
        match self {
            Row => true,
            AdamEstimates => {
                machine.level == Level::Avx512 && p.plain_adam && p.dtype != DType::F64
            }
        }
    }

    #[inline]
    fn choose(p: &StepProblem, machine: &Machine, _: usize) -> (Self, &'static str) {
        match AdamEstimates.accepts(p, machine) {
            true => (
                AdamEstimates,
                "roots and quotients from estimates, correctly rounded",
            ),
            false => (Row, "the row's own loop"),
        }
    }
}
