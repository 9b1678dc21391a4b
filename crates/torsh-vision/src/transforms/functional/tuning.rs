//! Sizes of the pieces that threads take, in one place, as in the CPU backend's `machine/tuning.rs`.

/// Bytes of an image that are looked up in a table at a time.
pub(super) const LOOKED_UP: usize = 1 << 14;

/// Pixels whose colours are changed together.
pub(super) const COLORS: usize = 1 << 12;

/// Pixels whose greys are summed up without an overflow of 32 bits, and as one piece.
pub(super) const GRAYS: usize = 1 << 12;

/// Rows of a warped image that share the memory of their taps.
pub(super) const WARPED_ROWS: usize = 8;

/// Rows of a resized image that a thread takes at a time.
pub(super) const RESIZED_ROWS: usize = 16;

/// Columns of a resized image that are summed up side by side.
pub(super) const RESIZED_COLUMNS: usize = 32;
