//! The choice of a pooling's loops.

use std::fmt;

use torsh_core::DType;
use torsh_core::machine::Machine;

use crate::machine::choice::Algorithm;
use crate::machine::tuning::pooling::RUN_ROWS;
use crate::memory::stream;

/// A pooling of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PoolProblem {
    /// The dtype that is computed in.
    pub dtype: DType,
    pub kind: PoolKind,
    pub planes: usize,
    /// Depth, height and width of an image, and of its result.
    pub input: [usize; 3],
    pub output: [usize; 3],
    /// The most rows of a window.
    pub rows: usize,
    /// Whether windows have 2 or 3 adjacent columns, 1 or 2 apart, but for what lies in the padding.
    pub small: bool,
    /// Whole windows at even distances along the width; 0 where there are too few.
    pub run: usize,
}

/// What is wanted of the windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PoolKind {
    Maxima,
    /// Maxima and their positions.
    Positions,
    Means,
}

impl fmt::Display for PoolProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PoolProblem {
            dtype,
            planes,
            input: [id, ih, iw],
            output: [od, oh, ow],
            rows,
            run,
            small,
            ..
        } = self;
        let kind = match self.kind {
            PoolKind::Maxima => "max",
            PoolKind::Positions => "max-positions",
            PoolKind::Means => "mean",
        };
        write!(f, "{kind} {dtype} planes={planes} in={id}x{ih}x{iw}")?;
        write!(f, " out={od}x{oh}x{ow} rows={rows} run={run}")?;
        match small {
            true => f.write_str(" small=1"),
            false => Ok(()),
        }
    }
}

/// How windows are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PoolAlgorithm {
    /// Vectors of small windows, made of the rows of the image where they are.
    Lines,
    /// The same, with results stored past the caches (non-temporal stores).
    LinesStreamed,
    /// Whole windows of a row side by side, from a copy of their part of the image; others one by one.
    Runs,
    /// Maxima window by window; means of the rows of windows, added first.
    Windows,
}

use PoolAlgorithm::*;

impl Algorithm for PoolAlgorithm {
    type Problem = PoolProblem;
    const OP: &'static str = "pool";
    const ALL: &'static [Self] = &[Lines, LinesStreamed, Runs, Windows];

    fn name(self) -> &'static str {
        match self {
            Lines => "lines",
            LinesStreamed => "lines-streamed",
            Runs => "runs",
            Windows => "windows",
        }
    }

    #[inline]
    fn accepts(self, p: &PoolProblem, machine: &Machine) -> bool {
        let lines =
            p.dtype == DType::F32 && p.kind != PoolKind::Positions && p.small && p.rows <= RUN_ROWS;
        match self {
            Lines => lines,
            LinesStreamed => machine.streaming_stores && lines,
            Runs => {
                let fits = match p.kind {
                    PoolKind::Means => matches!(p.dtype, DType::F32 | DType::F64),
                    _ => p.dtype.is_floating_point(),
                };
                fits && p.run > 0
            }
            Windows => true,
        }
    }

    #[inline]
    fn choose(p: &PoolProblem, machine: &Machine, _: usize) -> (Self, &'static str) {
        if Lines.accepts(p, machine) {
            let bytes = p.planes * p.output.iter().product::<usize>() * p.dtype.size();
            return match stream::pays_on(machine, bytes) {
                true => (
                    LinesStreamed,
                    "small windows, a result larger than the caches",
                ),
                false => (Lines, "small windows at even distances"),
            };
        }
        match Runs.accepts(p, machine) {
            true => (Runs, "windows at even distances"),
            false => (
                Windows,
                "few windows, long ones, or of a dtype without vectors",
            ),
        }
    }
}
