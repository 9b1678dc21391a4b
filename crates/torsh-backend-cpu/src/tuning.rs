//! Thresholds and block sizes, in one place.
//!
//! Each constant says its unit, what it decides, and where it was measured. `torsh-bench --tune`
//! measures the algorithms on both sides of a threshold on the machine at hand.
//!
//! Sizes that follow from an instruction set or a format (lanes of a vector, terms of a polynomial)
//! stand where they are used.

/// Work that is worth a thread of its own: about 8 microseconds, in picoseconds. Waking a parked thread
/// takes 2 to 5 of them. Measured on Zen 4, Zen 5 and Sapphire Rapids.
const THREAD_WORK: usize = 1 << 23;

/// The least number of elements worth a thread, for loops that take so many picoseconds an element.
pub(crate) const fn grain(picoseconds: usize) -> usize {
    match THREAD_WORK / picoseconds {
        0 => 1,
        n => n,
    }
}

/// Matrix products.
pub(crate) mod matmul {
    use super::grain;

    /// Multiply-adds worth a thread of their own.
    pub(crate) const GRAIN: usize = grain(32);

    /// Multiply-adds up to which loops over the operands where they are beat the packed product's
    /// set-up, where they are over whole vectors of adjacent columns. Measured on Zen 4 and Sapphire
    /// Rapids with 8 to 64 rows and columns.
    pub(crate) const UNPACKED: usize = 16 * 1024;
    /// The same for other layouts.
    pub(crate) const UNPACKED_STRIDED: usize = 1024;
    /// The most terms where [`UNPACKED`] holds: few vectors are summed at a time, one term after the
    /// other.
    pub(crate) const UNPACKED_TERMS: usize = 128;
    /// Multiply-adds up to which complex products are summed term by term in double precision.
    pub(crate) const COMPLEX_LOOPS: usize = 2048;

    /// Columns of a register tile of inner products, which both sides must have.
    pub(crate) const DOT_TILE_COLUMNS: usize = 4;
    /// The most terms of inner products: each lane of a vector sums a sixteenth of them, one after the
    /// other, so that the rounding errors stay those of sums of 128.
    pub(crate) const DOT_TILE_TERMS: usize = 128 * 16;
    /// Bytes of both operands that stay in L2 while inner products read them again and again. Measured
    /// on Zen 4 and Sapphire Rapids (L2 of 1 and 2 MiB).
    pub(crate) const DOT_TILE_BYTES: usize = 1024 * 1024;

    /// Terms of an AMX instruction.
    pub(crate) const AMX_STEP: usize = 32;
    /// `m n / (m + n)` from which AMX repays its packing, for bfloat16. Measured on Sapphire Rapids.
    pub(crate) const AMX_RATIO: usize = 16;
    /// The same for float32 in three parts, whose packing takes longer.
    pub(crate) const AMX_SPLIT_RATIO: usize = 56;
    /// The fewest steps of terms for it.
    pub(crate) const AMX_SPLIT_STEPS: usize = 2;
    /// Multiply-adds from which panels of bfloat16 repay their packing. Measured on Zen 4.
    pub(crate) const BF16_DOT: usize = 32 * 1024;

    /// Results up to which threads may share out the terms of a product, since the results are too few to
    /// share.
    pub(crate) const SPLIT_TERMS_RESULTS: usize = 4096;
    /// How many times as many terms as rows or columns that takes.
    pub(crate) const SPLIT_TERMS_RATIO: usize = 64;
    /// Rows of a matrix of a batch below which one tall product repays a copy of a left operand that is
    /// not contiguous, and the columns from which on it does.
    pub(crate) const TALL_ROWS: usize = 128;
    pub(crate) const TALL_COLUMNS: usize = 32;

    /// Bytes of a packed block of the right operand in the shared cache.
    pub(crate) const SHARED_BLOCK: usize = 2 * 1024 * 1024;
    /// Bytes of a right operand that each thread may pack for itself: reading what another core has just
    /// written costs more.
    pub(crate) const OWN_RIGHT: usize = 512 * 1024;
    /// Terms whose numbers of a few columns stay in L1 wherever they are, so that they need no packing,
    /// unless rows share its sets.
    pub(crate) const UNPACKED_RIGHT_TERMS: usize = 64;
}

/// Convolutions.
pub(crate) mod conv {
    use super::grain;

    /// Multiply-adds worth a thread of their own.
    pub(crate) const GRAIN: usize = grain(128);

    /// Channels in and out from which Winograd's filtering is taken. Measured on Zen 4 and Sapphire
    /// Rapids.
    pub(crate) const WINOGRAD_CHANNELS: usize = 32;
    /// The transform of a pair of channels' kernel, in multiply-adds for each column of a panel; and for
    /// the gradient of the weight, in all.
    pub(crate) const WINOGRAD_TRANSFORM: usize = 20;
    pub(crate) const WINOGRAD_WEIGHT_TRANSFORM: usize = 560;

    /// Channels of a group, in or out, up to which register tiles of a product would be mostly empty.
    pub(crate) const DIRECT_CHANNELS: usize = 4;
    /// Input channels of one of several groups, which are products of their own.
    pub(crate) const DIRECT_GROUP_CHANNELS: usize = 16;
    /// Terms that are summed one after the other, but for depthwise convolutions.
    pub(crate) const DIRECT_TERMS: usize = 640;

    /// The fewest terms of a result that repay the padding of bands.
    pub(crate) const DIRECT_TILES_TERMS: usize = 11;

    /// `m n / (m + n)` from which AMX repays splitting and packing, for `m` pixels and `n` channels.
    pub(crate) const AMX_RATIO: usize = 48;
}
