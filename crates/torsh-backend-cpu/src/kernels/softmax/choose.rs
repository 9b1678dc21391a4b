//! The choice of softmax's loop order.

use std::fmt;

use torsh_core::DType;
use torsh_core::machine::{Level, Machine};

use crate::machine::choice::Algorithm;
use crate::memory::stream;

/// A softmax, its logarithm, or the gradient of either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SoftmaxProblem {
    /// The operands' dtype, where it is the one that is computed in; `None` where they are converted.
    pub native: Option<DType>,
    /// Whether it is softmax itself.
    pub is_softmax: bool,
    /// Elements of a row, and of the innermost other dimension, whose neighbours' rows are computed
    /// together in tiles.
    pub n: usize,
    pub across: usize,
    /// Rows in all.
    pub rows: usize,
    /// Whether neighbours across rows are closer in memory than those along them.
    pub across_is_closer: bool,
    /// Whether elements are adjacent along rows, and across them, in all operands.
    pub adjacent_along: bool,
    pub adjacent_across: bool,
}

impl fmt::Display for SoftmaxProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SoftmaxProblem {
            n, across, rows, ..
        } = self;
        match self.native {
            Some(dtype) => write!(f, "{dtype}")?,
            None => f.write_str("converted")?,
        }
        write!(f, " n={n} rows={rows} across={across}")?;
        for (name, flag) in [
            ("softmax", self.is_softmax),
            ("across-closer", self.across_is_closer),
            ("adjacent-along", self.adjacent_along),
            ("adjacent-across", self.adjacent_across),
        ] {
            if flag {
                write!(f, " {name}=1")?;
            }
        }
        Ok(())
    }
}

/// How softmax goes through its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SoftmaxAlgorithm {
    /// One row after the other, in place.
    Rows,
    /// The same, with results stored past the caches (non-temporal stores).
    RowsStreamed,
    /// Tiles of neighbouring rows, in place.
    Tiles,
    /// One row after the other, copied to a buffer that converts it.
    BufferedRows,
    /// Tiles of neighbouring rows, copied to a buffer that converts them.
    BufferedTiles,
}

use SoftmaxAlgorithm::*;

impl SoftmaxAlgorithm {
    /// Whether neighbouring rows are computed together.
    pub fn is_tiled(self) -> bool {
        matches!(self, Tiles | BufferedTiles)
    }

    /// Whether operands are read and written where they are.
    pub fn is_direct(self) -> bool {
        matches!(self, Rows | RowsStreamed | Tiles)
    }
}

impl Algorithm for SoftmaxAlgorithm {
    type Problem = SoftmaxProblem;
    const OP: &'static str = "softmax";
    const ALL: &'static [Self] = &[Rows, RowsStreamed, Tiles, BufferedRows, BufferedTiles];

    fn name(self) -> &'static str {
        match self {
            Rows => "rows",
            RowsStreamed => "rows-streamed",
            Tiles => "tiles",
            BufferedRows => "buffered-rows",
            BufferedTiles => "buffered-tiles",
        }
    }

    fn accepts(self, p: &SoftmaxProblem, machine: &Machine) -> bool {
        let rows = p.native.is_some() && (p.adjacent_along || p.n == 1);
        match self {
            Rows => rows,
            RowsStreamed => {
                let bytes = p.n * size_of::<f32>();
                rows && machine.level == Level::Avx512
                    && p.native == Some(DType::F32)
                    && p.is_softmax
                    && bytes.is_multiple_of(stream::LINE)
                    && stream::fetches_rows(bytes)
            }
            Tiles => p.native.is_some() && p.adjacent_across && p.across > 1,
            BufferedRows => true,
            BufferedTiles => p.across > 1,
        }
    }

    fn choose(p: &SoftmaxProblem, machine: &Machine, _: usize) -> (Self, &'static str) {
        // Rows too short for a vector cost as much as one, tiles what they have.
        let wide = p.native == Some(DType::F32) && machine.level == Level::Avx512;
        let short = p.n < if wide { 8 } else { 16 };
        let tiled = p.across > 1 && (p.across_is_closer || short);
        if tiled {
            return match Tiles.accepts(p, machine) {
                true if short => (Tiles, "short rows are computed side by side"),
                true => (Tiles, "neighbours in memory belong to neighbouring rows"),
                false => (BufferedTiles, "tiles are gathered or converted"),
            };
        }
        if !Rows.accepts(p, machine) {
            return (BufferedRows, "rows are gathered or converted");
        }
        let bytes = p.rows * p.n * size_of::<f32>();
        if machine.streams_rows
            && RowsStreamed.accepts(p, machine)
            && stream::pays_on(machine, bytes / 2)
        {
            return (RowsStreamed, "larger than the caches");
        }
        (Rows, "neighbours in memory belong to one row")
    }
}
