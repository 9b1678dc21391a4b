//! The choice of how lines are transformed.

use std::fmt;

use torsh_core::machine::Machine;

use super::split::sides;
use super::stages::has_radices;
use crate::machine::choice::Algorithm;
use crate::machine::tuning::fft::{LANES_BYTES, LIBRARY_POINTS, SPLIT_POINTS};

/// The lines of one dimension of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LinesProblem {
    /// Complex points of the transform of a line: half of its length where pairs of real numbers are one.
    pub points: usize,
    /// Bytes of a real number.
    pub size: usize,
    /// Lines one behind the other, and those side by side in each of these places.
    pub outer: usize,
    pub inner: usize,
    /// Whether the elements of the operand's lines are adjacent.
    pub adjacent: bool,
    /// Whether a line is complex, or real with an even length.
    pub even: bool,
}

impl fmt::Display for LinesProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LinesProblem {
            points,
            size,
            outer,
            inner,
            adjacent,
            even,
        } = self;
        write!(
            f,
            "points={points} size={size} outer={outer} inner={inner} adjacent={} even={}",
            u8::from(*adjacent),
            u8::from(*even)
        )
    }
}

/// How lines are transformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinesAlgorithm {
    /// One after the other, by `rustfft`.
    Single,
    /// As many at once as a vector has lanes.
    Lanes,
    /// Each as a matrix, whose columns and rows are transformed in lanes.
    Split,
}

use LinesAlgorithm::{Lanes, Single, Split};

impl Algorithm for LinesAlgorithm {
    type Problem = LinesProblem;
    const OP: &'static str = "fft";
    const ALL: &'static [Self] = &[Single, Lanes, Split];

    fn name(self) -> &'static str {
        match self {
            Single => "single",
            Lanes => "lanes",
            Split => "split",
        }
    }

    fn accepts(self, p: &LinesProblem, _: &Machine) -> bool {
        match self {
            Single => true,
            Lanes => has_radices(p.points) && p.points * p.size <= 8 * LANES_BYTES,
            Split => p.adjacent && p.even && p.inner == 1 && sides(p.points).is_some(),
        }
    }

    fn choose(p: &LinesProblem, machine: &Machine, _: usize) -> (Self, &'static str) {
        let lines = p.outer * p.inner;
        // The most lanes that a vector has.
        let whole = lines >= 64 / p.size;
        let fit = p.points * p.size <= LANES_BYTES;
        let library = p.inner == 1 && p.points.is_power_of_two() && p.points <= LIBRARY_POINTS;
        if p.points >= SPLIT_POINTS && Split.accepts(p, machine) {
            return (Split, "a line that is larger than the caches");
        }
        if !whole || !fit || library || !Lanes.accepts(p, machine) {
            return (
                Single,
                "few lines, long ones, or a length that the library is fast at",
            );
        }
        (Lanes, "a short line for each lane")
    }
}
