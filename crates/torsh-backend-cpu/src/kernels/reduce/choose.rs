//! The choices of a reduction's loop order, and of what threads share.

use std::fmt;

use torsh_core::machine::{Level, Machine};

use crate::machine::choice::Algorithm;
use crate::machine::tuning::reduce::{COLUMNS_KEPT, SHARED_RESULTS, SHORT, SHORT_KEPT};

/// A reduction as its innermost dimensions: the kept one, whose neighbours are neighbouring results, and
/// the reduced one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ReduceProblem {
    /// Results in all, and elements of each.
    pub results: usize,
    pub count: usize,
    /// Elements of the innermost kept dimension, and of the innermost reduced one.
    pub kept: usize,
    pub reduced: usize,
    /// Whether neighbours along the kept dimension are closer in memory.
    pub kept_is_closer: bool,
    /// Elements of a run below which it costs what joining the lanes of its vectors does.
    pub short: usize,
}

impl fmt::Display for ReduceProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ReduceProblem {
            results,
            count,
            kept,
            reduced,
            short,
            kept_is_closer,
        } = self;
        let closer = if *kept_is_closer { "kept" } else { "reduced" };
        write!(
            f,
            "results={results} count={count} kept={kept} reduced={reduced} "
        )?;
        write!(f, "closer={closer} short={short}")
    }
}

/// How a reduction goes through its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReduceAlgorithm {
    /// Each result folds its own elements, a run at a time.
    Rows,
    /// A block of neighbouring results folds one row of the input after the other.
    Columns,
}

use ReduceAlgorithm::*;

impl ReduceProblem {
    /// Elements of a run below which runs are folded side by side.
    pub fn limit(&self, machine: &Machine) -> usize {
        match machine.level >= Level::Avx2 {
            true => self.short,
            false => SHORT,
        }
    }
}

impl Algorithm for ReduceAlgorithm {
    type Problem = ReduceProblem;
    const OP: &'static str = "reduce";
    const ALL: &'static [Self] = &[Rows, Columns];

    fn name(self) -> &'static str {
        match self {
            Rows => "rows",
            Columns => "columns",
        }
    }

    fn accepts(self, _: &ReduceProblem, _: &Machine) -> bool {
        true
    }

    #[inline]
    fn choose(p: &ReduceProblem, machine: &Machine, _: usize) -> (Self, &'static str) {
        if p.kept < COLUMNS_KEPT {
            return (Rows, "few neighbouring results");
        }
        if p.kept_is_closer {
            return (
                Columns,
                "neighbours in memory belong to neighbouring results",
            );
        }
        if p.reduced < p.limit(machine) && p.kept >= SHORT_KEPT {
            return (Columns, "short runs are folded side by side");
        }
        (Rows, "neighbours in memory belong to one result")
    }
}

/// A reduction that threads share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SplitProblem {
    /// Results in all, and in how many blocks they are computed.
    pub results: usize,
    pub blocks: usize,
    /// Elements of the outermost reduced dimension; 0 where nothing is reduced.
    pub outermost: usize,
    /// Threads that the elements are worth.
    pub parts: usize,
}

impl fmt::Display for SplitProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SplitProblem {
            results,
            blocks,
            outermost,
            parts,
        } = self;
        write!(
            f,
            "results={results} blocks={blocks} outermost={outermost} parts={parts}"
        )
    }
}

/// What the threads of a reduction share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReduceSplit {
    /// Blocks of results.
    Results,
    /// The outermost reduced dimension: each thread has states of all results, which are merged.
    Reduced,
}

impl Algorithm for ReduceSplit {
    type Problem = SplitProblem;
    const OP: &'static str = "reduce.split";
    const ALL: &'static [Self] = &[ReduceSplit::Results, ReduceSplit::Reduced];

    fn name(self) -> &'static str {
        match self {
            ReduceSplit::Results => "results",
            ReduceSplit::Reduced => "reduced",
        }
    }

    #[inline]
    fn accepts(self, p: &SplitProblem, _: &Machine) -> bool {
        match self {
            ReduceSplit::Results => true,
            ReduceSplit::Reduced => p.results <= SHARED_RESULTS && p.parts <= p.outermost,
        }
    }

    #[inline]
    fn choose(p: &SplitProblem, machine: &Machine, _: usize) -> (Self, &'static str) {
        if p.parts == 1 {
            return (ReduceSplit::Results, "not worth a second thread");
        }
        let uneven = p.blocks < 2 * p.parts && !p.blocks.is_multiple_of(p.parts);
        match uneven && ReduceSplit::Reduced.accepts(p, machine) {
            true => (
                ReduceSplit::Reduced,
                "few results, which cannot be dealt out evenly",
            ),
            false => (ReduceSplit::Results, "enough blocks of results"),
        }
    }
}
