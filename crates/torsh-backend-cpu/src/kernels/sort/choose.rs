//! The choices of a line's sort, and of what threads share.

use std::fmt;

use torsh_core::machine::Machine;

use crate::machine::choice::Algorithm;
use crate::machine::tuning::radix::{LONG, SMALL};
use crate::machine::tuning::sort;

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

/// Lines that are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SortSplitProblem {
    pub lines: usize,
    pub n: usize,
}

impl fmt::Display for SortSplitProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lines={} n={}", self.lines, self.n)
    }
}

/// What the threads of a sort share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SortSplit {
    /// The lines.
    Lines,
    /// Each line, one after the other.
    Together,
}

impl Algorithm for SortSplit {
    type Problem = SortSplitProblem;
    const OP: &'static str = "sort.split";
    const ALL: &'static [Self] = &[SortSplit::Lines, SortSplit::Together];

    fn name(self) -> &'static str {
        match self {
            SortSplit::Lines => "lines",
            SortSplit::Together => "together",
        }
    }

    fn accepts(self, _: &SortSplitProblem, _: &Machine) -> bool {
        true
    }

    #[inline]
    fn choose(p: &SortSplitProblem, _: &Machine, threads: usize) -> (Self, &'static str) {
        match p.lines < threads && p.n >= sort::LONG {
            true => (
                SortSplit::Together,
                "fewer lines than threads, and long ones",
            ),
            false => (SortSplit::Lines, "enough lines, or short ones"),
        }
    }
}
