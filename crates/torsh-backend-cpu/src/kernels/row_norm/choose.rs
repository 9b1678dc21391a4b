//! The choice of a row norm's loops.

use std::fmt;

use torsh_core::DType;
use torsh_core::machine::Machine;

use crate::machine::choice::Algorithm;
use crate::memory::stream;

/// A normalisation of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RowNormProblem {
    /// The dtype that is computed in, and whether the result has it.
    pub dtype: DType,
    pub same: bool,
    pub rows: usize,
    pub n: usize,
}

impl fmt::Display for RowNormProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RowNormProblem { dtype, rows, n, .. } = self;
        write!(f, "{dtype} rows={rows} n={n}")?;
        match self.same {
            true => Ok(()),
            false => f.write_str(" converted=1"),
        }
    }
}

/// How rows are read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowNormAlgorithm {
    /// As the processor prefetches them.
    Rows,
    /// With the next row prefetched while the squares of one are summed.
    Prefetched,
    /// With results stored past the caches (non-temporal stores).
    Streamed,
    /// With both.
    PrefetchedStreamed,
}

use RowNormAlgorithm::*;

impl RowNormAlgorithm {
    pub fn prefetches(self) -> bool {
        matches!(self, Prefetched | PrefetchedStreamed)
    }

    pub fn streams(self) -> bool {
        matches!(self, Streamed | PrefetchedStreamed)
    }
}

impl Algorithm for RowNormAlgorithm {
    type Problem = RowNormProblem;
    const OP: &'static str = "row_norm";
    const ALL: &'static [Self] = &[Rows, Prefetched, Streamed, PrefetchedStreamed];

    fn name(self) -> &'static str {
        match self {
            Rows => "rows",
            Prefetched => "prefetched",
            Streamed => "streamed",
            PrefetchedStreamed => "prefetched-streamed",
        }
    }

    fn accepts(self, p: &RowNormProblem, machine: &Machine) -> bool {
        let streams = machine.streaming_stores && p.same;
        let fetches = stream::fetches_rows(p.n * p.dtype.size());
        (!self.streams() || streams) && (!self.prefetches() || fetches)
    }

    #[inline]
    fn choose(p: &RowNormProblem, machine: &Machine, _: usize) -> (Self, &'static str) {
        let bytes = p.rows * p.n * p.dtype.size();
        let streams = machine.streams_rows && stream::pays_on(machine, bytes / 2) && p.same;
        let fetches = !machine.prefetches_rows && stream::fetches_rows(p.n * p.dtype.size());
        match (streams, fetches) {
            (true, true) => (
                PrefetchedStreamed,
                "larger than the caches, and rows are not prefetched by themselves",
            ),
            (true, false) => (Streamed, "larger than the caches"),
            (false, true) => (Prefetched, "rows are not prefetched by themselves"),
            (false, false) => (Rows, "rows are prefetched by themselves, or long"),
        }
    }
}
