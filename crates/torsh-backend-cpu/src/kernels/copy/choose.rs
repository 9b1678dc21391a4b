//! The choice of a copy.

use std::fmt;

use torsh_core::DType;
use torsh_core::machine::Machine;

use crate::machine::choice::Algorithm;
use crate::machine::tuning::copy::ROW;
use crate::memory::stream;

/// A copy of one view into another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CopyProblem {
    /// The dtypes of input and output.
    pub from: DType,
    pub to: DType,
    pub numel: usize,
    pub layout: CopyLayout,
}

/// How input and output lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CopyLayout {
    /// Both contiguous; `apart` where they do not overlap.
    Contiguous { apart: bool },
    /// Anything else, as a loop over the dimensions in the output's order.
    Strided {
        /// Elements of the innermost dimension, and whether there are others.
        inner: usize,
        several: bool,
        /// Whether neighbours along it are adjacent in the input, and in the output.
        adjacent: [bool; 2],
        /// Whether the output is contiguous in the innermost dimension and the input in another one,
        /// both of some elements.
        transposed: bool,
    },
}

impl fmt::Display for CopyProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.from)?;
        if self.to != self.from {
            write!(f, " to={}", self.to)?;
        }
        write!(f, " n={}", self.numel)?;
        match self.layout {
            CopyLayout::Contiguous { apart: true } => f.write_str(" contiguous=1"),
            CopyLayout::Contiguous { apart: false } => f.write_str(" contiguous=1 overlap=1"),
            CopyLayout::Strided {
                inner,
                several,
                adjacent: [from, to],
                transposed,
            } => {
                write!(f, " inner={inner}")?;
                for (name, flag) in [
                    ("outer", several),
                    ("adjacent-from", from),
                    ("adjacent-to", to),
                    ("transposed", transposed),
                ] {
                    if flag {
                        write!(f, " {name}=1")?;
                    }
                }
                Ok(())
            }
        }
    }
}

/// How elements get from one view to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyAlgorithm {
    /// As bytes.
    Flat,
    /// As bytes, with stores past the caches (non-temporal stores).
    FlatStreamed,
    /// Converted from one contiguous view to the other.
    Converted,
    /// Block by block through a buffer, which converts.
    Blocks,
    /// In tiles, whose rows are the columns of the other view.
    Transposed,
    /// Rows of a few cache lines, without a call for each.
    ShortRows,
    /// Run by run along the innermost dimension.
    Runs,
}

use CopyAlgorithm::*;

impl Algorithm for CopyAlgorithm {
    type Problem = CopyProblem;
    const OP: &'static str = "copy";
    const ALL: &'static [Self] = &[
        Flat,
        FlatStreamed,
        Converted,
        Blocks,
        Transposed,
        ShortRows,
        Runs,
    ];

    fn name(self) -> &'static str {
        match self {
            Flat => "flat",
            FlatStreamed => "flat-streamed",
            Converted => "converted",
            Blocks => "blocks",
            Transposed => "transposed",
            ShortRows => "short-rows",
            Runs => "runs",
        }
    }

    #[inline]
    fn accepts(self, p: &CopyProblem, machine: &Machine) -> bool {
        let same = p.from == p.to;
        match (self, p.layout) {
            (Flat, CopyLayout::Contiguous { .. }) => same,
            (FlatStreamed, CopyLayout::Contiguous { apart }) => {
                machine.streaming_stores && same && apart
            }
            (Converted, CopyLayout::Contiguous { .. }) => !same,
            (Blocks, CopyLayout::Strided { .. }) => true,
            (Transposed, CopyLayout::Strided { transposed, .. }) => same && transposed,
            (
                ShortRows,
                CopyLayout::Strided {
                    several, adjacent, ..
                },
            ) => same && several && adjacent == [true; 2],
            (Runs, CopyLayout::Strided { .. }) => same,
            _ => false,
        }
    }

    #[inline]
    fn choose(p: &CopyProblem, machine: &Machine, _: usize) -> (Self, &'static str) {
        let same = p.from == p.to;
        let CopyLayout::Strided { inner, .. } = p.layout else {
            if !same {
                return (Converted, "contiguous, of two dtypes");
            }
            let bytes = p.numel * p.to.size();
            return match stream::pays_on(machine, bytes) && FlatStreamed.accepts(p, machine) {
                true => (FlatStreamed, "larger than the caches"),
                false => (Flat, "contiguous"),
            };
        };
        if !same {
            return (Blocks, "gathered and converted");
        }
        if Transposed.accepts(p, machine) {
            return (Transposed, "each view is contiguous in another dimension");
        }
        if inner * p.to.size() <= ROW && ShortRows.accepts(p, machine) {
            return (
                ShortRows,
                "a call for each row would cost as much as the row",
            );
        }
        (Runs, "long rows, or elements that lie apart")
    }
}
