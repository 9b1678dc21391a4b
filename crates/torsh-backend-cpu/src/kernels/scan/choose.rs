//! The choice of a scan's loop order.

use std::fmt;

use torsh_core::DType;
use torsh_core::machine::{Level, Machine};

use crate::machine::choice::Algorithm;
use crate::machine::tuning::scan::COLUMNS;

/// A scan along a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ScanProblem {
    /// The dtype of a running sum that may be computed in chunks; `None` for other scans.
    pub sums: Option<DType>,
    /// Elements of a line, and lines in all.
    pub n: usize,
    pub lines: usize,
    /// Elements of the innermost other dimension, whose neighbours are neighbouring lines.
    pub across: usize,
    /// Whether neighbours across lines are closer in memory than those along them.
    pub across_is_closer: bool,
    /// Whether elements are adjacent along lines, in input and result.
    pub adjacent_along: bool,
}

impl fmt::Display for ScanProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ScanProblem {
            n, lines, across, ..
        } = self;
        if let Some(dtype) = self.sums {
            write!(f, "sums={dtype} ")?;
        }
        write!(f, "n={n} lines={lines} across={across}")?;
        for (name, flag) in [
            ("across-closer", self.across_is_closer),
            ("adjacent-along", self.adjacent_along),
        ] {
            if flag {
                write!(f, " {name}=1")?;
            }
        }
        Ok(())
    }
}

/// How a scan goes through its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScanAlgorithm {
    /// One line after the other, through a buffer.
    Lines,
    /// A block of neighbouring lines, one element of all of them after the other.
    Columns,
    /// Running sums in place: chunks are summed by themselves, so that threads can share a line.
    Chunks,
    /// The same, in vectors of 256 bits and with additions as products by one.
    ChunksInFours,
}

use ScanAlgorithm::*;

impl Algorithm for ScanAlgorithm {
    type Problem = ScanProblem;
    const OP: &'static str = "scan";
    const ALL: &'static [Self] = &[Lines, Columns, Chunks, ChunksInFours];

    fn name(self) -> &'static str {
        match self {
            Lines => "lines",
            Columns => "columns",
            Chunks => "chunks",
            ChunksInFours => "chunks-in-fours",
        }
    }

    #[inline]
    fn accepts(self, p: &ScanProblem, machine: &Machine) -> bool {
        match self {
            Lines => true,
            Columns => p.across > 1,
            Chunks => p.sums.is_some() && p.adjacent_along,
            ChunksInFours => {
                p.sums == Some(DType::F32) && p.adjacent_along && machine.level == Level::Avx512
            }
        }
    }

    #[inline]
    fn choose(p: &ScanProblem, machine: &Machine, _: usize) -> (Self, &'static str) {
        if p.across >= COLUMNS && p.across_is_closer {
            return (Columns, "neighbours in memory belong to neighbouring lines");
        }
        if machine.half_rate_512 && ChunksInFours.accepts(p, machine) {
            return (ChunksInFours, "512-bit additions take two cycles");
        }
        if Chunks.accepts(p, machine) {
            return (Chunks, "additions need not wait for one another");
        }
        (
            Lines,
            "neighbours in memory belong to one line, or few lines do",
        )
    }
}
