//! The choices of the loops' algorithms.

use std::fmt;

use torsh_core::machine::Machine;

use super::tuning;
use crate::machine::choice::{Algorithm, pick};

crate::operations! {
    ProductAlgorithm, PatternAlgorithm, TermsAlgorithm, OrderAlgorithm, BlocksAlgorithm, BlocksSplit
}

/// Declares an algorithm's enum: its variants with their names, and the operation.
macro_rules! algorithms {
    ($(#[$doc:meta])* $name:ident of $op:literal { $($(#[$each:meta])* $variant:ident $text:literal,)* } $($rest:tt)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name {
            $($(#[$each])* $variant,)*
        }

        impl Algorithm for $name {
            const OP: &'static str = $op;
            const ALL: &'static [Self] = &[$(Self::$variant),*];

            fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }

            $($rest)*
        }
    };
}

/// Bytes of the L2 cache, which panels are made for.
pub(super) fn l2() -> usize {
    torsh_core::machine::machine().l2
}

/// A product of a sparse and a dense matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ProductProblem {
    pub rows: usize,
    /// Columns of the sparse matrix.
    pub width: usize,
    pub stored: usize,
    /// Columns of the dense matrix.
    pub columns: usize,
    /// Bytes of an element.
    pub bytes: usize,
}

impl ProductProblem {
    /// Columns of a cache line.
    fn line(&self) -> usize {
        (64 / self.bytes).max(1)
    }

    /// Columns of a panel of the dense matrix that stays in L2: whole cache lines.
    pub(super) fn panel(&self, l2: usize) -> usize {
        let line = self.line();
        let fits = tuning::panel_bytes(l2) / (self.width.max(1) * self.bytes);
        (fits / line * line).max(line)
    }

    /// The fewest stored elements that repay panels of so many columns.
    fn repays(&self, panel: usize) -> usize {
        let narrower = (tuning::PANEL_LINES * self.line()).div_ceil(panel);
        (tuning::PANEL_REUSE * narrower).saturating_mul(self.width)
    }
}

impl fmt::Display for ProductProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ProductProblem {
            rows,
            width,
            stored,
            columns,
            bytes,
        } = self;
        write!(
            f,
            "rows={rows} width={width} stored={stored} columns={columns} bytes={bytes}"
        )
    }
}

algorithms! {
    /// In which order the columns of a dense operand are taken.
    ProductAlgorithm of "sparse.product" {
        /// All columns of a row of the result, then the next row.
        Rows "rows",
        /// All rows for a panel of columns, then the next panel.
        Panels "panels",
    }

    type Problem = ProductProblem;

    fn accepts(self, _: &ProductProblem, _: &Machine) -> bool {
        true
    }

    #[inline]
    fn choose(p: &ProductProblem, machine: &Machine, _: usize) -> (Self, &'static str) {
        let panel = p.panel(machine.l2);
        let fits = p.width.saturating_mul(panel * p.bytes) <= machine.l2;
        if panel >= p.columns {
            (Self::Rows, "the dense operand stays in L2, or is a panel wide")
        } else if fits && p.stored >= p.repays(panel) {
            (Self::Panels, "a packed panel of the dense operand stays in L2 and is read often")
        } else {
            (Self::Rows, "rows of the dense operand are read too seldom to be kept")
        }
    }

    fn examples() -> Vec<ProductProblem> {
        let problem = |rows, stored, columns| ProductProblem { rows, width: rows, stored, columns, bytes: 4 };
        vec![
            problem(10_000, 1_000_000, 64),
            problem(100_000, 1_000_000, 32),
            problem(1024, 105_000, 1024),
            problem(100_000, 1_000_000, 1),
            problem(1000, 2000, 1024),
        ]
    }
}

/// The pattern of a product of two sparse matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PatternProblem {
    pub rows: usize,
    /// Columns of the result.
    pub columns: usize,
    /// Products of two elements.
    pub terms: usize,
}

impl fmt::Display for PatternProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PatternProblem {
            rows,
            columns,
            terms,
        } = self;
        write!(f, "rows={rows} columns={columns} terms={terms}")
    }
}

algorithms! {
    /// How the columns of a row of a product are found, and what falls on each is summed.
    PatternAlgorithm of "sparse.pattern" {
        /// Marks of all columns, in levels of 64, which are read in order.
        Marks "marks",
        /// The columns of all terms, sorted.
        Sorted "sorted",
    }

    type Problem = PatternProblem;

    fn accepts(self, p: &PatternProblem, _: &Machine) -> bool {
        self != Self::Marks || p.columns <= tuning::MOST_MARKED
    }

    #[inline]
    fn choose(p: &PatternProblem, machine: &Machine, _: usize) -> (Self, &'static str) {
        let few = p.terms / p.rows.max(1) < p.columns / tuning::MARKED_COLUMNS;
        match few || !Self::Marks.accepts(p, machine) {
            true => (Self::Sorted, "few terms for so many columns"),
            false => (Self::Marks, "the marks of all columns stay in the caches"),
        }
    }

    fn examples() -> Vec<PatternProblem> {
        let problem = |rows, columns, terms| PatternProblem { rows, columns, terms };
        vec![
            problem(10_000, 10_000, 1_000_000),
            problem(1_000_000, 1_000_000, 1000),
            problem(100, usize::try_from(1u64 << 40).unwrap_or(usize::MAX), 100_000),
        ]
    }
}

/// Elements of a product of two sparse matrices, at given places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TermsProblem {
    /// Terms of row by row products: those outside of the places are dropped.
    pub by_rows: usize,
    /// Terms of inner products: those whose left factor is not stored are zero.
    pub inner: usize,
}

impl fmt::Display for TermsProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "by_rows={} inner={}", self.by_rows, self.inner)
    }
}

algorithms! {
    /// How elements at given places are computed.
    TermsAlgorithm of "sparse.terms" {
        /// Rows of the right matrix, added to those places of a row that are wanted.
        Rows "rows",
        /// Inner products with columns of the right matrix, for each place.
        Inner "inner",
    }

    type Problem = TermsProblem;

    fn accepts(self, _: &TermsProblem, _: &Machine) -> bool {
        true
    }

    #[inline]
    fn choose(p: &TermsProblem, _: &Machine, _: usize) -> (Self, &'static str) {
        match p.inner < p.by_rows {
            true => (Self::Inner, "fewer terms than of rows"),
            false => (Self::Rows, "no more terms than of inner products"),
        }
    }

    fn examples() -> Vec<TermsProblem> {
        vec![
            TermsProblem { by_rows: 1_000_000, inner: 10_000_000 },
            TermsProblem { by_rows: 10_000_000, inner: 1_000_000 },
        ]
    }
}

/// Whether elements of `left @ right` at given places are cheaper by inner products than by rows. `left`, `right` and
/// `places` are numbers of stored elements, `inner` and `columns` sizes of the right matrix.
pub fn by_inner_products(
    left: usize,
    right: usize,
    places: usize,
    [inner, columns]: [usize; 2],
) -> bool {
    let terms = |elements: usize, lines: usize| {
        (elements as u128 * right as u128 / lines.max(1) as u128).min(usize::MAX as u128) as usize
    };
    let problem = TermsProblem {
        by_rows: terms(left, inner),
        inner: terms(places, columns),
    };
    pick::<TermsAlgorithm>(&problem, 1) == TermsAlgorithm::Inner
}

/// Places that are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OrderProblem {
    pub n: usize,
    /// Bits of a key.
    pub bits: u32,
}

impl fmt::Display for OrderProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n={} bits={}", self.n, self.bits)
    }
}

algorithms! {
    /// How the places of stored elements are sorted.
    OrderAlgorithm of "sparse.order" {
        /// By comparisons.
        Comparison "comparison",
        /// By counting digits, the lowest first.
        Radix "radix",
    }

    type Problem = OrderProblem;

    fn accepts(self, _: &OrderProblem, _: &Machine) -> bool {
        true
    }

    #[inline]
    fn choose(p: &OrderProblem, _: &Machine, _: usize) -> (Self, &'static str) {
        match p.n < tuning::SHORT_SORT {
            true => (Self::Comparison, "too few places to repay counting"),
            false => (Self::Radix, "linear time"),
        }
    }

    fn examples() -> Vec<OrderProblem> {
        vec![OrderProblem { n: 100, bits: 27 }, OrderProblem { n: 1_000_000, bits: 27 }]
    }
}

/// A matrix of stored blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BlocksProblem {
    /// Rows of a block.
    pub rows: usize,
    /// Columns of a block.
    pub columns: usize,
}

impl fmt::Display for BlocksProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rows={} columns={}", self.rows, self.columns)
    }
}

algorithms! {
    /// How products with a matrix of stored blocks are computed.
    BlocksAlgorithm of "sparse.blocks" {
        /// Element by element, as of any sparse matrix.
        Elements "elements",
        /// By register tiles over whole blocks.
        Blocks "blocks",
    }

    type Problem = BlocksProblem;

    fn accepts(self, _: &BlocksProblem, _: &Machine) -> bool {
        true
    }

    #[inline]
    fn choose(p: &BlocksProblem, _: &Machine, _: usize) -> (Self, &'static str) {
        match p.rows.min(p.columns) < tuning::BLOCK_SIDE {
            true => (Self::Elements, "register tiles of such blocks are mostly empty"),
            false => (Self::Blocks, "blocks fill register tiles"),
        }
    }

    fn examples() -> Vec<BlocksProblem> {
        let problem = |rows, columns| BlocksProblem { rows, columns };
        vec![problem(32, 32), problem(8, 8), problem(1, 32), problem(2, 2)]
    }
}

/// Whether products with a matrix of blocks of so many rows and columns are faster by whole blocks than element by element.
pub fn by_blocks([rows, columns]: [usize; 2]) -> bool {
    pick::<BlocksAlgorithm>(&BlocksProblem { rows, columns }, 1) == BlocksAlgorithm::Blocks
}

/// A product of a matrix of stored blocks and a dense one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BlocksSplitProblem {
    /// Block rows of the result.
    pub lines: usize,
    /// Columns of the dense matrix.
    pub columns: usize,
}

impl fmt::Display for BlocksSplitProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lines={} columns={}", self.lines, self.columns)
    }
}

algorithms! {
    /// What the threads of a product with stored blocks share out.
    BlocksSplit of "sparse.blocks.split" {
        /// Columns of the dense operand: each thread packs its own and reads all blocks.
        Columns "columns",
        /// Block rows, for which all threads have packed columns together.
        Lines "lines",
    }

    type Problem = BlocksSplitProblem;

    fn accepts(self, _: &BlocksSplitProblem, _: &Machine) -> bool {
        true
    }

    #[inline]
    fn choose(p: &BlocksSplitProblem, _: &Machine, threads: usize) -> (Self, &'static str) {
        let threads = threads.max(1);
        if p.lines < threads {
            (Self::Columns, "fewer block rows than threads")
        } else if threads == 1 || p.columns / threads >= tuning::BLOCK_COLUMNS {
            (Self::Columns, "a thread's columns repay reading all blocks")
        } else {
            (Self::Lines, "too few columns for each thread to read all blocks")
        }
    }

    fn examples() -> Vec<BlocksSplitProblem> {
        let problem = |lines, columns| BlocksSplitProblem { lines, columns };
        vec![problem(128, 256), problem(128, 16), problem(1, 16)]
    }
}
