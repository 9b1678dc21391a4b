//! Thresholds and block sizes of the loops over sparse matrices.
//!
//! Each constant says its unit and what it decides, as those of `machine/tuning.rs`, whose work of a thread they are
//! measured against.

/// Picoseconds for each stored element and vector of columns of a product.
pub(super) const PRODUCT_VECTOR: usize = 900;

/// Picoseconds for each row of a result, besides its elements.
pub(super) const ROW: usize = 5000;

/// Picoseconds for each stored element of a product with one column: reading its indices from memory.
pub(super) const ELEMENT: usize = 1000;

/// Picoseconds to move a stored element to its place in another order.
pub(super) const MOVE: usize = 4000;

/// Picoseconds of a pass over keys, for each of them.
pub(super) const PASS: usize = 2000;

/// Picoseconds of a multiply-add whose place is looked up.
pub(super) const LOOKED_UP: usize = 2500;

/// Bytes of a panel of columns of the dense operand: a part of the L2 cache, beside the result and the sparse operand.
pub(super) const fn panel_bytes(l2: usize) -> usize {
    l2 / 2
}

/// The fewest stored elements for each row of the dense operand that make up for reading the sparse operand once for each
/// panel of columns.
pub(super) const PANEL_REUSE: usize = 8;

/// Keys below which a comparison sort is faster than counting digits.
pub(super) const SHORT_SORT: usize = 256;

/// Bits of a digit of a radix sort: the counts of a thread stay in the L1 cache.
pub(super) const DIGIT: u32 = 11;

/// The most columns for each product of a row for which places are looked up in marks of all columns: with more of them
/// the marks cost more to clear and to keep in the caches than sorting the products.
pub(super) const MARKED_COLUMNS: usize = 1 << 16;

/// The most columns that are marked at all: 8 MiB of marks for each thread.
pub(super) const MOST_MARKED: usize = 1 << 21;

/// The least number of counts per stored element that a thread of a counting sort may have.
pub(super) const COUNTS_PER_ELEMENT: usize = 2;

/// Columns of right-hand sides that a thread solves for together.
pub(super) const SOLVE_COLUMNS: usize = 64;
