//! The choice of a recurrent layer's loops.

use std::fmt;

use torsh_core::machine::Machine;

use crate::machine::choice::Algorithm;
use crate::machine::tuning::rnn::WEIGHT;

/// A recurrent layer in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RnnProblem {
    /// Whether gradients are wanted.
    pub backward: bool,
    /// Sequences, and the rows of all steps.
    pub batch: usize,
    pub rows: usize,
    /// Rows and columns of the weight of the hidden state.
    pub weight: [usize; 2],
    /// Whether states are projected.
    pub projected: bool,
}

impl fmt::Display for RnnProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RnnProblem {
            batch,
            rows,
            weight: [width, p],
            ..
        } = self;
        let pass = if self.backward { "backward" } else { "forward" };
        write!(f, "{pass} batch={batch} rows={rows} weight={width}x{p}")?;
        match self.projected {
            true => f.write_str(" projected=1"),
            false => Ok(()),
        }
    }
}

/// Which product a step makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RnnAlgorithm {
    /// One for all sequences, which threads share.
    Steps,
    /// One for the sequences of each thread, with the weight packed once for all steps.
    Sequences,
}

use RnnAlgorithm::*;

impl Algorithm for RnnAlgorithm {
    type Problem = RnnProblem;
    const OP: &'static str = "rnn";
    const ALL: &'static [Self] = &[Steps, Sequences];

    fn name(self) -> &'static str {
        match self {
            Steps => "steps",
            Sequences => "sequences",
        }
    }

    fn accepts(self, p: &RnnProblem, _: &Machine) -> bool {
        self == Steps || !p.projected && p.batch > 0
    }

    // Both round sums differently, so the choice must not depend on the threads.
    #[inline]
    fn choose(p: &RnnProblem, _: &Machine, _: usize) -> (Self, &'static str) {
        if p.projected {
            return (Steps, "two products in a step");
        }
        if p.weight[0] * p.weight[1] > WEIGHT {
            return (Steps, "the weight does not fit L2");
        }
        match p.batch < 2 {
            true => (Steps, "one sequence"),
            false => (
                Sequences,
                "the weight stays in L2, and no step waits for a thread",
            ),
        }
    }
}
