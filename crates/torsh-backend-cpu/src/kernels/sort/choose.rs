//! The choice of a line's sort.

use std::fmt;

use torsh_core::machine::Machine;

use crate::machine::choice::Algorithm;
use crate::machine::tuning::radix::{LONG, SMALL};

/// The keys of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SortProblem {
    pub n: usize,
    /// Bits of a key.
    pub bits: u32,
}

impl fmt::Display for SortProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n={} bits={}", self.n, self.bits)
    }
}

/// The sorts of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SortAlgorithm {
    /// By comparisons of keys and positions.
    Comparison,
    /// Radix sort, in digits of at most 8 bits.
    Radix8,
    /// Radix sort, in digits of at most 11 bits.
    Radix11,
}

use SortAlgorithm::*;

impl Algorithm for SortAlgorithm {
    type Problem = SortProblem;
    const OP: &'static str = "sort";
    const ALL: &'static [Self] = &[Comparison, Radix8, Radix11];

    fn name(self) -> &'static str {
        match self {
            Comparison => "comparison",
            Radix8 => "radix-8",
            Radix11 => "radix-11",
        }
    }

    fn accepts(self, _: &SortProblem, _: &Machine) -> bool {
        true
    }

    #[inline]
    fn choose(p: &SortProblem, _: &Machine, _: usize) -> (Self, &'static str) {
        if p.n < SMALL {
            (Comparison, "too few elements to repay counting")
        } else if p.n < LONG {
            (Radix8, "the 256 places that are written to stay in L1")
        } else {
            (Radix11, "longer than L1 anyway: fewer passes")
        }
    }
}
