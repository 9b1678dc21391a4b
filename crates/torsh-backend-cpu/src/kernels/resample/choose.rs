//! The choice of an interpolation's loops.

use std::fmt;

use torsh_core::DType;
use torsh_core::machine::Machine;

use crate::machine::choice::Algorithm;
use crate::memory::stream;

/// An interpolation of planes, dimension by dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ResampleProblem {
    /// The dtype that is computed in.
    pub dtype: DType,
    pub planes: usize,
    /// Elements of a plane, before and after.
    pub from: usize,
    pub to: usize,
    /// Dimensions whose size changes.
    pub passes: usize,
    /// Whether the first two are those of an image's rows and columns, of two elements for each result.
    pub adjacent: bool,
}

impl fmt::Display for ResampleProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ResampleProblem {
            dtype,
            planes,
            from,
            to,
            passes,
            adjacent,
        } = self;
        write!(
            f,
            "{dtype} planes={planes} from={from} to={to} passes={passes}"
        )?;
        match adjacent {
            true => f.write_str(" adjacent=1"),
            false => Ok(()),
        }
    }
}

/// How planes are interpolated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResampleAlgorithm {
    /// One dimension after the other.
    Passes,
    /// The same, with results stored past the caches (non-temporal stores).
    PassesStreamed,
    /// Rows and columns together, a few rows at a time.
    Together,
    /// The same, with results stored past the caches.
    TogetherStreamed,
}

use ResampleAlgorithm::*;

impl ResampleAlgorithm {
    pub fn streams(self) -> bool {
        matches!(self, PassesStreamed | TogetherStreamed)
    }

    pub fn together(self) -> bool {
        matches!(self, Together | TogetherStreamed)
    }
}

impl Algorithm for ResampleAlgorithm {
    type Problem = ResampleProblem;
    const OP: &'static str = "resample";
    const ALL: &'static [Self] = &[Passes, PassesStreamed, Together, TogetherStreamed];

    fn name(self) -> &'static str {
        match self {
            Passes => "passes",
            PassesStreamed => "passes-streamed",
            Together => "together",
            TogetherStreamed => "together-streamed",
        }
    }

    fn accepts(self, p: &ResampleProblem, machine: &Machine) -> bool {
        let streams = machine.streaming_stores;
        (!self.streams() || streams) && (!self.together() || p.adjacent)
    }

    #[inline]
    fn choose(p: &ResampleProblem, machine: &Machine, _: usize) -> (Self, &'static str) {
        let large = stream::pays_on(machine, p.planes * p.to * p.dtype.size());
        match (p.adjacent, large) {
            (true, true) => (TogetherStreamed, "rows and columns, larger than the caches"),
            (true, false) => (Together, "rows between the passes stay in L1"),
            (false, true) => (PassesStreamed, "larger than the caches"),
            (false, false) => (Passes, "one dimension, or more than two elements a result"),
        }
    }
}
