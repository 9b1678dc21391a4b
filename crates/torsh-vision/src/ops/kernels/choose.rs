//! The choice of an algorithm for RoI align. [`torsh_backend_cpu::operations`] prints, forces and tunes it.

use std::fmt;

use torsh_backend_cpu::operations::Algorithm;
use torsh_core::machine::Machine;

use super::tuning::{ROI_BINS, ROI_COLUMNS};

torsh_backend_cpu::operations! { AlignAlgorithm }

/// The columns of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct AlignProblem {
    /// Bins along a row.
    pub bins: usize,
    /// Columns of the image that a row of bins reads.
    pub span: usize,
    /// Columns of the image.
    pub width: usize,
}

impl fmt::Display for AlignProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AlignProblem { bins, span, width } = self;
        write!(f, "bins={bins} span={span} width={width}")
    }
}

/// How the bins of a region are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AlignAlgorithm {
    /// In vectors of few columns, by the dense matrix of their weights.
    ShortVectors,
    /// In vectors of more columns.
    LongVectors,
    /// A row of any length after the other.
    Lines,
}

use AlignAlgorithm::*;

impl Algorithm for AlignAlgorithm {
    type Problem = AlignProblem;
    const OP: &'static str = "vision.roi-align";
    const ALL: &'static [Self] = &[ShortVectors, LongVectors, Lines];

    fn name(self) -> &'static str {
        match self {
            ShortVectors => "short-vectors",
            LongVectors => "long-vectors",
            Lines => "lines",
        }
    }

    #[inline]
    fn accepts(self, p: &AlignProblem, _: &Machine) -> bool {
        let fits = |columns| p.bins <= ROI_BINS && p.span <= columns && columns <= p.width;
        match self {
            ShortVectors => fits(ROI_COLUMNS[0]),
            LongVectors => fits(ROI_COLUMNS[1]),
            Lines => true,
        }
    }

    #[inline]
    fn choose(p: &AlignProblem, machine: &Machine, _: usize) -> (Self, &'static str) {
        if ShortVectors.accepts(p, machine) {
            return (ShortVectors, "all columns fit");
        }
        match LongVectors.accepts(p, machine) {
            true => (LongVectors, "all columns fit"),
            false => (Lines, "many bins or columns, or a narrow image"),
        }
    }

    fn examples() -> Vec<AlignProblem> {
        [
            (7, 12, 200),
            (7, 30, 200),
            (7, 90, 200),
            (14, 12, 200),
            (7, 7, 10),
        ]
        .map(|(bins, span, width)| AlignProblem { bins, span, width })
        .to_vec()
    }
}
