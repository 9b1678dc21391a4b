//! The choices of indexing: gathers, scatters, and what is selected by masks or keys.

use std::fmt;

use torsh_core::machine::{Level, Machine};

use super::positions::Offsets;
use super::walk::IndexWalk;
use crate::machine::choice::Algorithm;
use crate::machine::tuning::index::{LINEAR_KEYS, MANY, MANY_FOR_EACH, SPREAD};
use crate::memory::stream;

/// How the innermost dimension of a walk over the dense side, the indexed side and the index lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Along {
    /// One of several rows: adjacent on both sides, with one index value.
    Row,
    /// Elements with one index value.
    OneIndex,
    /// Adjacent on the dense side, with adjacent index values that are offsets by themselves.
    Offsets,
    /// Anything else.
    Apart,
}

impl Along {
    /// That of a walk.
    #[inline]
    pub fn of(walk: &IndexWalk<3>, at: Offsets) -> Along {
        match walk.inner() {
            (_, [1, 1, 0]) if walk.innermost().is_some() => Along::Row,
            (_, [_, _, 0]) => Along::OneIndex,
            (_, [1, 0, 1]) if at.plain().is_some() => Along::Offsets,
            _ => Along::Apart,
        }
    }
}

impl fmt::Display for Along {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Along::Row => "row",
            Along::OneIndex => "one-index",
            Along::Offsets => "offsets",
            Along::Apart => "apart",
        })
    }
}

/// A read through an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GatherProblem {
    /// Bytes of an element.
    pub size: usize,
    /// Elements of the innermost dimension, and how many times it is repeated.
    pub n: usize,
    pub rows: usize,
    pub along: Along,
}

impl fmt::Display for GatherProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GatherProblem {
            size,
            n,
            rows,
            along,
        } = self;
        write!(f, "size={size} n={n} rows={rows} along={along}")
    }
}

/// How elements are gathered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GatherAlgorithm {
    /// Row after row, prefetched.
    Rows,
    /// The same from nearer ahead, with the places they go to prefetched too.
    RowsAndPlaces,
    /// Row after row, with stores past the caches (non-temporal stores).
    RowsStreamed,
    /// Runs with one index value each.
    Runs,
    /// Adjacent elements at adjacent offsets.
    Offsets,
    /// Element by element.
    Elements,
}

impl Algorithm for GatherAlgorithm {
    type Problem = GatherProblem;
    const OP: &'static str = "gather";
    const ALL: &'static [Self] = &[
        GatherAlgorithm::Rows,
        GatherAlgorithm::RowsAndPlaces,
        GatherAlgorithm::RowsStreamed,
        GatherAlgorithm::Runs,
        GatherAlgorithm::Offsets,
        GatherAlgorithm::Elements,
    ];

    fn name(self) -> &'static str {
        match self {
            GatherAlgorithm::Rows => "rows",
            GatherAlgorithm::RowsAndPlaces => "rows-and-places",
            GatherAlgorithm::RowsStreamed => "rows-streamed",
            GatherAlgorithm::Runs => "runs",
            GatherAlgorithm::Offsets => "offsets",
            GatherAlgorithm::Elements => "elements",
        }
    }

    fn accepts(self, p: &GatherProblem, machine: &Machine) -> bool {
        match self {
            GatherAlgorithm::Rows | GatherAlgorithm::RowsAndPlaces => p.along == Along::Row,
            GatherAlgorithm::RowsStreamed => machine.streaming_stores && p.along == Along::Row,
            GatherAlgorithm::Runs => matches!(p.along, Along::Row | Along::OneIndex),
            GatherAlgorithm::Offsets => p.along == Along::Offsets,
            GatherAlgorithm::Elements => true,
        }
    }

    #[inline]
    fn choose(p: &GatherProblem, machine: &Machine, _: usize) -> (Self, &'static str) {
        match p.along {
            Along::Row => {
                let bytes = p.rows * p.n * p.size;
                // Where buffers are few, writing past the caches costs as much as it saves until little
                // of the result is in the caches at last, and what is fetched far ahead keeps the rest
                // waiting.
                let few = machine.few_fill_buffers;
                if stream::pays_on(machine, if few { bytes / 2 } else { bytes }) {
                    (GatherAlgorithm::RowsStreamed, "larger than the caches")
                } else if few && bytes >= stream::FAR {
                    (
                        GatherAlgorithm::RowsAndPlaces,
                        "few line-fill buffers, and more than a core's own caches hold",
                    )
                } else {
                    (GatherAlgorithm::Rows, "rows in one piece")
                }
            }
            Along::OneIndex => (GatherAlgorithm::Runs, "one index value for a run"),
            Along::Offsets => (GatherAlgorithm::Offsets, "index values are offsets"),
            Along::Apart => (GatherAlgorithm::Elements, "elements or index lie apart"),
        }
    }
}

/// A write through an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ScatterProblem {
    /// Bytes of an element.
    pub size: usize,
    /// Elements of the innermost dimension, and how many times it is repeated.
    pub n: usize,
    pub rows: usize,
    pub along: Along,
    /// Whether the elements that are there are read too.
    pub updates: bool,
}

impl fmt::Display for ScatterProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ScatterProblem {
            size,
            n,
            rows,
            along,
            updates,
        } = self;
        let how = if *updates { "update" } else { "write" };
        write!(f, "{how} size={size} n={n} rows={rows} along={along}")
    }
}

/// How elements are scattered, in row-major order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScatterAlgorithm {
    /// Updates of row after row, prefetched.
    Rows,
    /// Writes of runs with one index value each.
    Runs,
    /// Adjacent elements to adjacent offsets, of which some are read before any is written.
    Offsets,
    /// Element by element.
    Elements,
}

impl Algorithm for ScatterAlgorithm {
    type Problem = ScatterProblem;
    const OP: &'static str = "scatter";
    const ALL: &'static [Self] = &[
        ScatterAlgorithm::Rows,
        ScatterAlgorithm::Runs,
        ScatterAlgorithm::Offsets,
        ScatterAlgorithm::Elements,
    ];

    fn name(self) -> &'static str {
        match self {
            ScatterAlgorithm::Rows => "rows",
            ScatterAlgorithm::Runs => "runs",
            ScatterAlgorithm::Offsets => "offsets",
            ScatterAlgorithm::Elements => "elements",
        }
    }

    fn accepts(self, p: &ScatterProblem, _: &Machine) -> bool {
        match self {
            ScatterAlgorithm::Rows => p.updates && p.along == Along::Row,
            ScatterAlgorithm::Runs => !p.updates && matches!(p.along, Along::Row | Along::OneIndex),
            ScatterAlgorithm::Offsets => p.along == Along::Offsets,
            ScatterAlgorithm::Elements => true,
        }
    }

    #[inline]
    fn choose(p: &ScatterProblem, _: &Machine, _: usize) -> (Self, &'static str) {
        match (p.along, p.updates) {
            (Along::Row, true) => (ScatterAlgorithm::Rows, "rows in one piece"),
            (Along::Row | Along::OneIndex, false) => {
                (ScatterAlgorithm::Runs, "one index value for a run")
            }
            (Along::Offsets, _) => (ScatterAlgorithm::Offsets, "index values are offsets"),
            _ => (ScatterAlgorithm::Elements, "elements or index lie apart"),
        }
    }
}

/// A sum of elements into places of one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ScatterSumProblem {
    pub n: usize,
    pub places: usize,
}

impl fmt::Display for ScatterSumProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n={} places={}", self.n, self.places)
    }
}

/// How it is summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScatterSumAlgorithm {
    /// One element after the other, as any scatter.
    InOrder,
    /// In parts with places of their own, which threads share.
    Parts,
    /// The same with four copies of each part's places, to which neighbours go in turn.
    SpreadParts,
}

impl Algorithm for ScatterSumAlgorithm {
    type Problem = ScatterSumProblem;
    const OP: &'static str = "scatter.sum";
    const ALL: &'static [Self] = &[
        ScatterSumAlgorithm::InOrder,
        ScatterSumAlgorithm::Parts,
        ScatterSumAlgorithm::SpreadParts,
    ];

    fn name(self) -> &'static str {
        match self {
            ScatterSumAlgorithm::InOrder => "in-order",
            ScatterSumAlgorithm::Parts => "parts",
            ScatterSumAlgorithm::SpreadParts => "spread-parts",
        }
    }

    fn accepts(self, p: &ScatterSumProblem, _: &Machine) -> bool {
        self == ScatterSumAlgorithm::InOrder || p.places <= p.n
    }

    #[inline]
    fn choose(p: &ScatterSumProblem, _: &Machine, _: usize) -> (Self, &'static str) {
        if p.n < MANY || p.n / MANY_FOR_EACH < p.places {
            return (
                ScatterSumAlgorithm::InOrder,
                "too few elements to repay the places of parts",
            );
        }
        match p.places <= SPREAD {
            true => (
                ScatterSumAlgorithm::SpreadParts,
                "neighbours often go to one place",
            ),
            false => (ScatterSumAlgorithm::Parts, "many elements for each place"),
        }
    }
}

/// A selection by a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SelectProblem {
    /// Bytes of an element.
    pub size: usize,
    pub n: usize,
    /// Whether elements, mask and result are each adjacent.
    pub adjacent: bool,
}

impl fmt::Display for SelectProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SelectProblem { size, n, adjacent } = self;
        write!(f, "size={size} n={n} adjacent={}", u8::from(*adjacent))
    }
}

/// How elements are selected by a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SelectAlgorithm {
    /// The positions of some, then the elements there.
    Positions,
    /// Vectors of elements, compressed under the mask.
    Compress,
}

impl Algorithm for SelectAlgorithm {
    type Problem = SelectProblem;
    const OP: &'static str = "masked_select";
    const ALL: &'static [Self] = &[SelectAlgorithm::Positions, SelectAlgorithm::Compress];

    fn name(self) -> &'static str {
        match self {
            SelectAlgorithm::Positions => "positions",
            SelectAlgorithm::Compress => "compress",
        }
    }

    fn accepts(self, p: &SelectProblem, machine: &Machine) -> bool {
        self == SelectAlgorithm::Positions
            || machine.level == Level::Avx512 && matches!(p.size, 4 | 8) && p.adjacent
    }

    #[inline]
    fn choose(p: &SelectProblem, machine: &Machine, _: usize) -> (Self, &'static str) {
        match SelectAlgorithm::Compress.accepts(p, machine) {
            true => (SelectAlgorithm::Compress, "adjacent, of 4 or 8 bytes"),
            false => (SelectAlgorithm::Positions, "no instruction compresses them"),
        }
    }
}

/// A number written under a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MaskedFillProblem {
    /// Bytes of an element.
    pub size: usize,
    pub n: usize,
    /// Whether the result is the input.
    pub in_place: bool,
    /// Whether elements, mask and result are each adjacent.
    pub adjacent: bool,
}

impl fmt::Display for MaskedFillProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MaskedFillProblem {
            size,
            n,
            in_place,
            adjacent,
        } = self;
        let [in_place, adjacent] = [in_place, adjacent].map(|&flag| u8::from(flag));
        write!(
            f,
            "size={size} n={n} in-place={in_place} adjacent={adjacent}"
        )
    }
}

/// How a number is written under a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MaskedFillAlgorithm {
    /// Where the mask is true, and nowhere else.
    Writes,
    /// Everywhere, the number or what is there, in vectors.
    Selects,
    /// The same, element by element.
    StridedSelects,
}

impl Algorithm for MaskedFillAlgorithm {
    type Problem = MaskedFillProblem;
    const OP: &'static str = "masked_fill";
    const ALL: &'static [Self] = &[
        MaskedFillAlgorithm::Writes,
        MaskedFillAlgorithm::Selects,
        MaskedFillAlgorithm::StridedSelects,
    ];

    fn name(self) -> &'static str {
        match self {
            MaskedFillAlgorithm::Writes => "writes",
            MaskedFillAlgorithm::Selects => "selects",
            MaskedFillAlgorithm::StridedSelects => "strided-selects",
        }
    }

    fn accepts(self, p: &MaskedFillProblem, _: &Machine) -> bool {
        match self {
            MaskedFillAlgorithm::Writes => p.in_place,
            MaskedFillAlgorithm::Selects => p.adjacent,
            MaskedFillAlgorithm::StridedSelects => true,
        }
    }

    #[inline]
    fn choose(p: &MaskedFillProblem, _: &Machine, _: usize) -> (Self, &'static str) {
        match (p.in_place, p.adjacent) {
            (true, _) => (MaskedFillAlgorithm::Writes, "the rest is there"),
            (false, true) => (MaskedFillAlgorithm::Selects, "adjacent"),
            _ => (
                MaskedFillAlgorithm::StridedSelects,
                "something lies apart or is broadcast",
            ),
        }
    }
}

/// A look-up of elements among sorted keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct IsinProblem {
    pub keys: usize,
}

impl fmt::Display for IsinProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "keys={}", self.keys)
    }
}

/// How an element is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IsinAlgorithm {
    /// By comparison with each key.
    Linear,
    /// By bisection.
    Binary,
}

impl Algorithm for IsinAlgorithm {
    type Problem = IsinProblem;
    const OP: &'static str = "isin";
    const ALL: &'static [Self] = &[IsinAlgorithm::Linear, IsinAlgorithm::Binary];

    fn name(self) -> &'static str {
        match self {
            IsinAlgorithm::Linear => "linear",
            IsinAlgorithm::Binary => "binary",
        }
    }

    fn accepts(self, _: &IsinProblem, _: &Machine) -> bool {
        true
    }

    #[inline]
    fn choose(p: &IsinProblem, _: &Machine, _: usize) -> (Self, &'static str) {
        match p.keys <= LINEAR_KEYS {
            true => (IsinAlgorithm::Linear, "vectors compare all keys"),
            false => (IsinAlgorithm::Binary, "many keys"),
        }
    }
}
