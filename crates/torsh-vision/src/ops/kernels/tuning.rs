//! Thresholds and block sizes of the kernels, in one place, as in the CPU backend's `machine/tuning.rs`.

/// NMS: boxes of the highest scores that are compared with all others at a time.
pub(super) const NMS_BLOCK: usize = 64;

/// NMS: boxes that are compared side by side.
pub(super) const NMS_LANES: usize = 32;

/// RoI align: bins along a side up to which sums are vectors of a fixed length.
pub(super) const ROI_BINS: usize = 8;

/// RoI align: the columns of a region of the shorter vectors, and of the longer ones.
pub(super) const ROI_COLUMNS: [usize; 2] = [16, 32];

/// Deformable convolution: the numbers that a block's rows have together, so that they stay in the cache.
pub(super) const DEFORM_BLOCK: usize = 192 << 10;

/// Deformable convolution: pixels, or channels, that are transposed together.
pub(super) const DEFORM_TILE: usize = 16;
