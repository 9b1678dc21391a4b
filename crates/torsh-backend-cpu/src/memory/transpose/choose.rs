//! The choice of a transposed copy.

use std::fmt;

use torsh_core::machine::Machine;

use crate::machine::choice::Algorithm;
use crate::memory::stream;

/// A copy of matrices whose output is contiguous in the rows' index, and whose input in the columns'.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TransposeProblem {
    /// Bytes of an element.
    pub size: usize,
    /// The input's rows, and elements of each.
    pub rows: usize,
    pub columns: usize,
    /// Matrices.
    pub others: usize,
    /// Whether the output's lines begin at cache lines.
    pub whole_lines: bool,
}

impl fmt::Display for TransposeProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TransposeProblem {
            size,
            rows,
            columns,
            others,
            whole_lines,
        } = self;
        write!(
            f,
            "size={size} matrices={others} rows={rows} columns={columns}"
        )?;
        match whole_lines {
            true => f.write_str(" whole-lines=1"),
            false => Ok(()),
        }
    }
}

/// How tiles are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransposeAlgorithm {
    /// Into the caches.
    Tiles,
    /// Narrower ones, with stores past the caches (non-temporal stores).
    TilesStreamed,
}

use TransposeAlgorithm::*;

impl Algorithm for TransposeAlgorithm {
    type Problem = TransposeProblem;
    const OP: &'static str = "transpose";
    const ALL: &'static [Self] = &[Tiles, TilesStreamed];

    fn name(self) -> &'static str {
        match self {
            Tiles => "tiles",
            TilesStreamed => "tiles-streamed",
        }
    }

    #[inline]
    fn accepts(self, p: &TransposeProblem, machine: &Machine) -> bool {
        match self {
            Tiles => true,
            TilesStreamed => machine.streaming_stores && p.whole_lines,
        }
    }

    #[inline]
    fn choose(p: &TransposeProblem, machine: &Machine, _: usize) -> (Self, &'static str) {
        let bytes = p.others * p.rows * p.columns * p.size;
        match stream::pays_on(machine, bytes) && TilesStreamed.accepts(p, machine) {
            true => (TilesStreamed, "larger than the caches"),
            false => (Tiles, "the result stays in a cache, or shares its lines"),
        }
    }
}
