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

/// Picoseconds to find a place in another list, where both are in order.
pub(super) const FIND: usize = 5000;

/// Picoseconds to write a place of two lists into the merged one.
pub(super) const MERGE: usize = 5000;

/// Picoseconds for each element of a strided tensor that is searched for what is not 0, or filled with zeros.
pub(super) const STRIDED: usize = 300;

/// Elements that are cleared at a time.
pub(super) const CLEARED: usize = 1 << 12;

/// Picoseconds for each element of a softmax.
pub(super) const SOFTMAX: usize = 1500;

/// Picoseconds of a multiply-add whose place is looked up.
pub(super) const LOOKED_UP: usize = 2500;

/// How many stored elements ahead a row of a dense operand is prefetched that does not stay in L2. A row of a graph has about
/// ten elements: the next rows' are asked for, too, which the processor does not see behind the end of a loop.
pub(super) const AHEAD: usize = 16;

/// The elements of a product of sparse matrices for each place of its memory that may stay unused.
pub(super) const SPARE: usize = 8;

/// How many stored elements ahead the row of a sparse right operand is prefetched: such rows are short.
pub(super) const AHEAD_ROWS: usize = 4;

/// Bytes of a row of a dense operand that are prefetched: through longer ones the processor follows by itself.
pub(super) const FETCHED: usize = 512;

/// Terms of a product with a vector that are computed at a time before they are summed: they stay in the L1 cache.
pub(super) const TERMS: usize = 1024;

/// Bytes of a panel of columns of the dense operand: a part of the L2 cache, beside the result and the sparse operand.
pub(super) const fn panel_bytes(l2: usize) -> usize {
    l2 / 2
}

/// Cache lines of a panel's row that a stored element repays in one pass.
pub(super) const PANEL_LINES: usize = 4;

/// The fewest stored elements for each row of the dense operand that make up for packing its panels and reading the sparse
/// operand once for each panel of [`PANEL_LINES`]; of narrower panels more of them.
pub(super) const PANEL_REUSE: usize = 8;

/// Bytes of packed panels of the dense operand: they stay in the last cache, beside the sparse operand.
pub(super) const PACKED: usize = 16 << 20;

/// Picoseconds to copy an element of a dense operand into a panel.
pub(super) const PACK: usize = 200;

/// Keys below which a comparison sort is faster than counting digits.
pub(super) const SHORT_SORT: usize = 256;

/// Bits of a digit of a radix sort: the counts of a thread stay in the L1 cache.
pub(super) const DIGIT: u32 = 11;

/// The most columns for each product of a row for which places are looked up in marks of all columns: with more of them
/// the marks cost more to clear and to keep in the caches than sorting the products.
pub(super) const MARKED_COLUMNS: usize = 1 << 16;

/// The most columns that have places of their own, for marks or sums: 8 MiB of float32 for each thread.
pub(super) const MOST_MARKED: usize = 1 << 21;

/// The least number of counts per stored element that a thread of a counting sort may have.
pub(super) const COUNTS_PER_ELEMENT: usize = 2;

/// Columns of right-hand sides that a thread solves for together.
pub(super) const SOLVE_COLUMNS: usize = 64;

/// The fewest rows and columns of a block that register tiles repay.
pub(super) const BLOCK_SIDE: usize = 8;

/// Picoseconds of a multiply-add of a register tile, as of a dense product.
pub(super) const BLOCK_TERM: usize = 32;

/// Columns of the dense operand for which a thread reads all stored blocks.
pub(super) const BLOCK_COLUMNS: usize = 64;

/// Bytes of a thread's panels of the dense operand that are packed at a time: they stay in the last cache, beside the blocks.
pub(super) const BLOCK_PANELS: usize = 4 << 20;

/// Terms of products at stored blocks that are packed at a time: those of a block's rows and columns stay in the nearest
/// caches.
pub(super) const BLOCK_TERMS: usize = 512;
