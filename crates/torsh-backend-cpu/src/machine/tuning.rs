//! Thresholds and block sizes, in one place.
//!
//! Each constant says its unit, what it decides, and where it was measured. `torsh-bench --tune`
//! measures the algorithms on both sides of a threshold on the machine at hand.
//!
//! Unless a constant says otherwise, it was measured with `torsh-bench` on Zen 4, Zen 5 and Sapphire
//! Rapids, with one thread and with two.
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

/// The least number of items worth a thread, of which each takes so many nanoseconds.
pub(crate) fn items(nanoseconds: usize) -> usize {
    (THREAD_WORK / 1000 / nanoseconds.max(1)).max(1)
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
    /// Bytes of the planes of real and imaginary parts that a complex product is computed in at a time: what the last
    /// cache holds beside the operands.
    pub(crate) const COMPLEX_PLANES: usize = 4 * 1024 * 1024;
    /// The fewest rows of them, so that the right operand is not packed too often.
    pub(crate) const COMPLEX_ROWS: usize = 128;

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

    /// Rows of a panel of the result that are computed before they are finished, so that they still are in L1.
    pub(crate) const FINISHED_ROWS: usize = 64;
    /// Bytes of a packed block of the right operand in the shared cache.
    pub(crate) const SHARED_BLOCK: usize = 2 * 1024 * 1024;
    /// Bytes of a right operand that each thread may pack for itself: reading what another core has just
    /// written costs more.
    pub(crate) const OWN_RIGHT: usize = 512 * 1024;
    /// Terms whose numbers of a few columns stay in L1 wherever they are, so that they need no packing,
    /// unless rows share its sets.
    pub(crate) const UNPACKED_RIGHT_TERMS: usize = 64;

    /// Bytes of the sums of rows that are kept in the nearest caches while columns stream by: long pieces
    /// of columns, since the processor begins anew with each.
    pub(crate) const VECTOR_SUMS: usize = 16 * 1024;

    /// Bytes of a matrix of a half type, times a vector, from which on it is read in memory's order, one row or column after
    /// the other: one that is in L2 is read faster several together. Zen 5, bfloat16, from memory: 36 to 41 GB/s one by
    /// one, 22 to 32 four together; from L2: 55 to 85, and 90 to 130. (float32 from memory: 41 one by one, 46 together.)
    pub(crate) const VECTOR_FAR: usize = 512 * 1024;

    /// Bytes ahead of what is read that such a matrix is prefetched: more than a page, where the processor's own
    /// prefetching ends. Zen 5: 2 KiB 37 GB/s, 4 to 8 KiB 39 to 41.
    pub(crate) const VECTOR_AHEAD: usize = 6 * 1024;
}

/// Blocks of packed matrix products.
pub(crate) mod product_blocks {
    /// What the product of large matrices is cut into.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct BlockSizes {
        /// Terms of a block. A panel of the right operand stays in the nearest caches while the left
        /// operand's pass by; the more terms, the less often the result is read and written.
        pub terms: usize,
        /// Bytes of a block of the left operand, in a core's second-level cache.
        pub left: usize,
        /// Terms that are summed one after the other. The sums of such stretches are summed in turn, so
        /// that the rounding of a long sum grows with the root of their length and number, not of all
        /// terms.
        pub chain: usize,
        /// Panels of the right operand up to which rows of the left one are read where they are.
        pub in_place: usize,
        /// Bytes of a block of the right operand in a core's second-level cache, past which rows of the
        /// left one are read where they are, a tile's at a time; 0 where the left one's blocks stay there.
        pub right: usize,
    }

    /// [`BlockSizes::chain`] where nothing speaks for another.
    pub(crate) const CHAIN: usize = 96;

    /// For second-level caches of 512 KiB.
    pub(crate) const MODEST: BlockSizes = BlockSizes {
        terms: 384,
        left: 192 * 1024,
        chain: CHAIN,
        in_place: 4,
        right: 0,
    };
    /// For those of 1 MiB and more, which all processors with AVX-512 have.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    pub(crate) const LARGE: BlockSizes = BlockSizes {
        terms: 512,
        left: 384 * 1024,
        chain: 128,
        in_place: 8,
        right: 0,
    };
    /// The same for float64, whose panels of as many terms take twice the room.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    pub(crate) const WIDE: BlockSizes = BlockSizes {
        right: 768 * 1024,
        ..LARGE
    };
    #[cfg(target_arch = "x86_64")]
    /// For pairs of bfloat16: terms are twice as many as pairs.
    pub(crate) const PAIRS: BlockSizes = BlockSizes {
        terms: 1024,
        left: 512 * 1024,
        chain: 512,
        in_place: 24,
        right: 0,
    };
}

/// Products on AMX.
#[cfg(target_arch = "x86_64")]
pub(crate) mod matmul_amx {
    /// Columns of the right operand that are packed at a time, for all threads.
    pub(crate) const COLUMNS: usize = 2048;
    /// Bytes of a right operand, not packed, that each thread may pack for rows of its own.
    pub(crate) const OWN: usize = 256 * 1024;
    /// Bytes of a packed block of the right operand up to which each thread packs what it needs of it.
    pub(crate) const ALONE: usize = 1024 * 1024;
    /// Bytes of a thread's share of a packed block of the right operand that is still in the second cache
    /// when it is read.
    pub(crate) const NEAR: usize = 512 * 1024;
    /// Bytes ahead of a line of terms that are asked for.
    pub(crate) const LINE_AHEAD: usize = 512;
    /// Bytes ahead of a term of lines that are asked for.
    pub(crate) const TERM_AHEAD: usize = 256;
}

/// Convolutions on AMX.
#[cfg(target_arch = "x86_64")]
pub(crate) mod conv_amx {
    /// The most bytes of packed kernels, which stay in the second-level cache with a band.
    pub(crate) const KERNELS: usize = 1024 * 1024;
    /// About the bytes of a band.
    pub(crate) const BAND: usize = 640 * 1024;
    /// Results of a channel below which a band is of several images.
    pub(crate) const FEW: usize = 512;
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

    /// Elements worth a thread of their own.
    pub(crate) const FOLD_GRAIN: usize = super::grain(512);
    /// Bytes of columns to have at a time: half of L2.
    pub(crate) const COLUMNS: usize = 512 * 1024;
}

/// Steps of optimizers.
pub(crate) mod optim {
    /// The least number of elements worth a thread of their own.
    pub(crate) const GRAIN: usize = super::grain(512);
    /// How many elements of a half type are converted at once.
    pub(crate) const BLOCK: usize = 512;
    /// Nanoseconds of a row among others, and of each of its elements, where rows lie anywhere in memory. Estimates, not
    /// measured: a row of 64 float32 of a parameter and two tensors of state is 12 cache lines, read and written.
    pub(crate) const ROW: usize = 20;
    pub(crate) const ROW_ELEMENT: usize = 1;
}

/// Pooling.
pub(crate) mod pooling {
    /// Window elements worth a thread of their own.
    pub(crate) const GRAIN: usize = super::grain(1024);
    /// Results of a piece that is written past the caches by way of memory in L1.
    pub(crate) const PIECE: usize = 2048;
    /// How many bytes ahead large images are asked for.
    pub(crate) const AHEAD: usize = 8192;
    /// Elements of a row from which on its sum is taken in lanes.
    pub(crate) const LONG: usize = 16;
    /// Whole windows along the width from which on they are computed side by side.
    pub(crate) const RUN: usize = 4;
    /// Windows whose part of the image is laid out at once, in L1.
    pub(crate) const RUN_WINDOWS: usize = 64;
    /// The most columns and rows of windows that are computed side by side: what is laid out of all of
    /// them stays in L1.
    pub(crate) const RUN_COLUMNS: usize = 32;
    pub(crate) const RUN_ROWS: usize = 16;
}

/// Batch and instance norm.
pub(crate) mod batch_norm {
    /// Elements worth a thread of their own.
    pub(crate) const GRAIN: usize = super::grain(512);
    /// Elements of channels that are read several times before the next ones are.
    pub(crate) const CACHED: usize = 64 * 1024;
    /// Elements that are computed in L1 before they are written past it.
    pub(crate) const STREAM: usize = 1024;
    /// Adjacent elements of a channel from which loops along them pay.
    pub(crate) const LONG: usize = 8;
}

/// Attention.
pub(crate) mod attention_forward {
    /// Queries of a block.
    pub(crate) const QUERIES: usize = 48;
    /// Keys of a block.
    pub(crate) const KEYS: usize = 512;
    /// Products of a query, a key and a column worth a thread of their own.
    pub(crate) const GRAIN: usize = super::grain(16);
    /// Bytes of a row up to which panels of its columns are read where they are: of rows further apart the
    /// L1 holds few.
    pub(crate) const NEAR: usize = 512;
}

/// Attention row by row.
pub(crate) mod attention_rows {
    /// Queries for each head of keys up to which keys and values are not packed.
    pub(crate) const QUERIES: usize = 8;
    /// Products of a query, a key and a column worth a thread of their own.
    pub(crate) const GRAIN: usize = super::grain(64);
}

/// The gradients of attention.
pub(crate) mod attention_backward {
    /// Queries of a block.
    pub(crate) const QUERIES: usize = 96;
    /// Keys of a block.
    pub(crate) const KEYS: usize = 128;
    /// Products of a query, a key and a column worth a thread of their own.
    pub(crate) const GRAIN: usize = super::grain(32);
}

/// Attention over stored blocks, and its gradients.
pub(crate) mod attention_blocks {
    /// Blocks of keys whose scores are made before any is summed up: in one pass over the scores rather than one for each.
    pub(crate) const FORWARD: usize = 8;
    /// The same of the gradients, which keep two numbers for each score.
    pub(crate) const BACKWARD: usize = 2;
    /// Shares of the queries, or of the keys, for each thread: one core may be slower than another.
    pub(crate) const SHARES: usize = 4;
    /// Products of a query, a key and a column worth a thread of their own.
    pub(crate) const GRAIN: usize = super::grain(16);
}

/// Cross products.
pub(crate) mod cross {
    /// Vectors worth a thread of their own.
    pub(crate) const GRAIN: usize = super::grain(1024);
}

/// Softmax.
pub(crate) mod softmax {
    /// Columns of a tile.
    pub(crate) const WIDTH: usize = 512;
    /// Bytes of a tile, which should stay in L2 cache.
    pub(crate) const TILE: usize = 128 * 1024;
    /// Elements worth a thread of their own.
    pub(crate) const GRAIN: usize = super::grain(1024);
    /// Elements that a map takes at a time: few enough for L1, too many for loops over them to be
    /// unrolled, which would keep LLVM from vectorising.
    pub(crate) const BLOCK: usize = 256;
}

/// Equally spaced numbers.
pub(crate) mod spaced {
    /// Points made at a time, in L1.
    pub(crate) const BLOCK: usize = 256;
}

/// Radix sort.
pub(crate) mod radix {
    /// Below this many elements a comparison sort is faster than counting.
    pub(crate) const SMALL: usize = 512;
    /// Elements from which on digits have 11 bits in place of 8: what 256 digits write to at a time stays in
    /// L1, but longer lines leave it anyway, and fewer passes are worth more.
    pub(crate) const LONG: usize = 1 << 12;
    /// The least number of elements worth a thread.
    pub(crate) const GRAIN: usize = super::grain(1024);
}

/// `topk`.
pub(crate) mod topk {
    /// Elements that are looked at together: most of the time none of them is among the best.
    pub(crate) const BLOCK: usize = 32;
    /// The least number of elements worth a thread.
    pub(crate) const GRAIN: usize = super::grain(128);
}

/// Sorting.
pub(crate) mod sort {
    /// The least number of elements worth a thread.
    pub(crate) const GRAIN: usize = super::grain(2048);
    /// From this length on the threads share a line where there are fewer lines than threads.
    pub(crate) const LONG: usize = 1 << 14;
}

/// Pointwise kernels.
pub(crate) mod pointwise {
    /// The bytes that a number is repeated in for the loop: few enough to stay in L1.
    pub(crate) const REPEAT: usize = 4096;
    /// Results that are computed in L1 before they are stored past the caches.
    pub(crate) const RESULTS: usize = 2048;
    /// The same where a core has few line-fill buffers, so that reads wait less.
    pub(crate) const FEW_RESULTS: usize = 512;
    /// So few elements are done one by one rather than as a padded group.
    pub(crate) const FEW: usize = 8;
    /// Terms of a series between two looks at whether a group of numbers needs more of them.
    pub(crate) const TERMS: usize = 4;
    /// Vectors that go through a recurrence side by side, since each step waits for the one before it.
    pub(crate) const VECTORS: usize = 4;
}

/// Loops over blocks of any layout.
pub(crate) mod blocks {
    /// Bytes of one block buffer.
    pub(crate) const BLOCK_BYTES: usize = 8192;
    /// The most elements of a block.
    pub(crate) const BLOCK: usize = 1024;
    /// Runs at least this long are worth a call of the loop each; shorter ones are put together.
    pub(crate) const LONG_RUN: usize = 128;
    /// The least number of elements worth a thread.
    pub(crate) const GRAIN: usize = super::grain(512);
    /// From this many elements on, transposed inputs are copied in tiles first: a gather with a long
    /// step touches a cache line per element.
    pub(crate) const TRANSPOSE: usize = 4096;
    /// Calls of so many elements go through memory from its end every other time, where
    /// the processor gains from it.
    pub(crate) const TURNS: std::ops::Range<usize> = 256 * 1024..8 * 1024 * 1024;
    /// Elements of a part of such a call, within which it goes forward.
    pub(crate) const PART: usize = 16 * 1024;
}

/// Convolutions as packed products.
pub(crate) mod conv_implicit {
    /// Numbers of the lines that are turned into a panel at a time, in L1.
    pub(crate) const LINES: usize = 2048;
    /// Output pixels of an image up to which several images make one product: panels cut at an
    /// image's end would hold too little.
    pub(crate) const FEW: usize = 256;
    /// Output channels below which the gradient of a weight sums groups of images apart, since the
    /// products of one image are too small to share.
    pub(crate) const ROWS: usize = 64;
    /// Elements of the weight up to which it does.
    pub(crate) const SMALL: usize = 16 * 1024;
    /// Groups of images that are summed apart, for any number of threads.
    pub(crate) const SUMS: usize = 8;
    /// Output channels whose kernels are turned at a time.
    pub(crate) const TURNED: usize = 16;
}

/// Depthwise convolutions.
pub(crate) mod conv_depthwise {
    /// Results of a band, which on their way past the caches stay in L1.
    pub(crate) const BAND: usize = 2048;
    /// How many bytes ahead large images are asked for.
    pub(crate) const AHEAD: usize = 4096;
}

/// Convolutions by register tiles.
pub(crate) mod conv_tiles {
    /// Bytes of a band of padded rows, about: a part of L2.
    pub(crate) const BAND: usize = 384 * 1024;
    /// The same with AVX-512, whose processors have an L2 of 1 MiB and more.
    pub(crate) const LARGE_BAND: usize = 576 * 1024;
    /// The most bytes of a band.
    pub(crate) const MOST: usize = 8 * 1024 * 1024;
    /// Channels whose sums are in L1 at a time, with a strip of the image.
    pub(crate) const OUTS: usize = 64;
    /// Multiply-adds for each pixel that are worth a second copy of it.
    pub(crate) const AGAIN: usize = 8;
}

/// Direct convolutions.
pub(crate) mod conv_direct {
    /// Bytes of a band of padded rows, about: they are to stay in L1 and L2.
    pub(crate) const BAND: usize = 32 * 1024;
    /// The most bytes of a band.
    pub(crate) const MOST: usize = 512 * 1024;
}

/// Winograd's filtering.
pub(crate) mod winograd {
    /// Terms that are summed one after the other: errors of the products grow in the transform of the
    /// outputs.
    pub(crate) const CHAIN: usize = 16;
    /// Terms whose stretches are summed one after the other; the sums of so many are summed in turn.
    pub(crate) const TERMS: usize = 128;
    /// Numbers between the panels of two products, so that they do not share the sets of a cache.
    pub(crate) const GAP: usize = 16;
    /// The most bytes of transformed kernels that each thread reads all of.
    pub(crate) const SHARED: usize = 3 * 1024 * 1024;
    /// Bytes of transformed inputs to have at a time where all threads share them.
    pub(crate) const INPUTS: usize = 8 * 1024 * 1024;
    /// Bytes of products to have at a time.
    pub(crate) const SUMS: usize = 320 * 1024;
    /// Bytes of transformed kernels to have at a time where each thread has some of its own.
    pub(crate) const OWN: usize = 2 * 1024 * 1024;
    /// Numbers ahead of those being written that are fetched: two cache lines.
    pub(crate) const AHEAD: usize = 32;
    /// Kernels ahead of those being transformed that are fetched, of each row.
    pub(crate) const SOON: usize = 32;
}

/// Losses.
pub(crate) mod loss {
    /// Scores worth a thread of their own.
    pub(crate) const GRAIN: usize = super::grain(1024);
    /// Positions worked on together where their scores are adjacent.
    pub(crate) const BLOCK: usize = 64;
    /// Scores of a stretch, which stays in L1 between the two passes over it.
    pub(crate) const CHAIN: usize = 1024;
}

/// Transposed copies.
pub(crate) mod transpose {
    /// Elements of both lines below which tiles would not even fill the smallest block of registers.
    pub(crate) const LEAST: usize = 4;
    /// Bytes of a tile along the input's and the output's lines: so many neighbouring cache lines are read
    /// and written one soon after the other.
    pub(crate) const SIDE: usize = 256;
    /// The same where the output is written past the caches.
    pub(crate) const NARROW: usize = 128;
}

/// Interpolation.
pub(crate) mod resample {
    /// Elements of a row that are blended at a time where they are written past the caches.
    pub(crate) const PIECE: usize = 1024;
    /// How many bytes ahead rows are asked for.
    pub(crate) const AHEAD: usize = 2048;
    /// Multiply-adds worth a thread of their own.
    pub(crate) const GRAIN: usize = super::grain(512);
}

/// Packing.
pub(crate) mod panel {
    /// Panels that are written at a time: adjacent lines are read along, some cache lines of each term.
    /// Narrow ones half as many, since those of 512 terms all start at one set of the L1,
    /// which may have 8 ways.
    pub(crate) const TOGETHER: usize = 8;
    /// Terms of which all lines are copied before further ones, so that what is written stays in the
    /// L1 until it is whole.
    pub(crate) const CHUNK: usize = 128;
    /// Cache lines of the next block that are prefetched before a tile.
    pub(crate) const FETCHED: usize = 16;
}

/// Cumulative sums and the like.
pub(crate) mod scan {
    /// Neighbouring lines from which on they are scanned side by side, if they are closer in memory than
    /// the elements of one.
    pub(crate) const COLUMNS: usize = 8;
    /// Elements of whole lines worth a thread of their own.
    pub(crate) const LINE_GRAIN: usize = super::grain(512);
    /// Elements of a chunk.
    pub(crate) const CHUNK: usize = 4096;
    /// The least number of chunks worth a thread.
    pub(crate) const GRAIN: usize = 8;
    /// Elements ahead of what is summed that memory is asked for.
    pub(crate) const AHEAD: usize = 512;
    /// Elements of a block.
    pub(crate) const BLOCK: usize = 256;
}

/// Recurrent cells.
pub(crate) mod rnn {
    /// Numbers of a weight that stays in L2.
    pub(crate) const WEIGHT: usize = 256 * 1024;
    /// Sequences worth a thread of their own.
    pub(crate) const SEQUENCES: usize = 2;
    /// Multiply-adds worth a fork.
    pub(crate) const FORK: usize = 512 * 1024;
    /// Terms that are summed one after the other.
    pub(crate) const TERMS: usize = 128;
    /// Elements of a state worth a thread of their own.
    pub(crate) const GRAIN: usize = super::grain(2048);
}

/// Layer and group norm.
pub(crate) mod row_norm {
    /// Elements worth a thread of their own.
    pub(crate) const GRAIN: usize = super::grain(1024);
    /// Bytes of a part, where parts are taken from the last to the first.
    pub(crate) const PART: usize = 256 * 1024;
    /// Elements that the set-up of a row costs as much as.
    pub(crate) const ROW: usize = 64;
    /// Elements that are computed in L1 before they are written past it.
    pub(crate) const STREAM: usize = 1024;
    /// Into how many blocks rows are divided at most where sums over rows are taken. It does not
    /// depend on the number of threads, and neither do the sums.
    pub(crate) const BLOCKS: usize = 32;
}

/// Gathering and scattering.
pub(crate) mod index {
    /// Elements looked at before those selected are moved on.
    pub(crate) const MASKED_BLOCK: usize = 256;
    /// Elements that are updated together where several have one destination.
    pub(crate) const FEW: usize = 4;
    /// The parts into which elements are cut.
    pub(crate) const PARTS: usize = 8;
    /// Columns of a gradient worth a thread, however many rows are added to each.
    pub(crate) const COLUMNS: usize = 16;
    /// Elements, in all and for each place, from which on a sum into places is taken in parts, each with
    /// places of its own.
    pub(crate) const MANY: usize = 1 << 15;
    pub(crate) const MANY_FOR_EACH: usize = 32;
    /// Up to this many places, neighbours go to different copies of them: an element that goes where
    /// the last one went would wait for it.
    pub(crate) const SPREAD: usize = 256;
    /// Keys up to which an element is compared with each, which vectors do, rather than by bisection.
    pub(crate) const LINEAR_KEYS: usize = 16;
    /// Index values checked at once, before they are used.
    pub(crate) const BLOCK: usize = 1024;
    /// Elements per thread below which a parallel walk is not worth it.
    pub(crate) const GRAIN: usize = super::grain(256);
}

/// Selecting rows.
pub(crate) mod index_rows {
    /// Bytes of rows of a part, where parts are taken from the last to the first.
    pub(crate) const PART: usize = 256 * 1024;
    /// Bytes of rows that are fetched ahead.
    pub(crate) const AHEAD: usize = 8192;
    /// The same where their places are, too.
    pub(crate) const NEAR: usize = 2048;
    /// Of long rows only the start is fetched; the processor follows from there.
    pub(crate) const FETCHED: usize = 1024;
    /// Bytes of a row of whole cache lines up to which a loop with a store for each line beats a call.
    pub(crate) const LINES: usize = 4096;
}

/// Conversions.
pub(crate) mod convert {
    /// How many elements go through the stack at once where a cast takes two steps.
    pub(crate) const STEP: usize = 512;
}

/// `embedding_bag`.
pub(crate) mod embedding_bag {
    /// Elements worth a thread of their own.
    pub(crate) const GRAIN: usize = super::grain(512);
}

/// Prefetches and stores past the caches.
pub(crate) mod stream {
    /// From this many bytes on a result is written past the caches.
    pub(crate) const STREAMED: usize = 16 << 20;
    /// From this many bytes on images are asked for ahead of time: smaller ones are in a core's own caches.
    pub(crate) const FAR: usize = 2 << 20;
    /// Bytes of a row up to which loops over rows prefetch the next one: through longer ones the
    /// processor finds its way.
    pub(crate) const ROW: usize = 16 * 1024;
    /// More bytes than a share of the shared cache.
    pub(crate) const FARTHER: usize = 24 << 20;
    /// Bytes ahead of a loop over rows in L1 that it asks for: the row after the next
    /// one, if rows are of a thousand numbers. What is asked for just a row ahead comes late.
    pub(crate) const AHEAD: usize = 8 * 1024;
}

/// Copies.
pub(crate) mod copy {
    /// Bytes of a row up to which a run for each costs as much as the copy itself.
    pub(crate) const ROW: usize = 512;
}

/// Reductions.
pub(crate) mod reduce {
    /// Neighbouring results from which on a block of them folds one row of the input after the other.
    pub(crate) const COLUMNS_KEPT: usize = 8;
    /// The same where runs are folded side by side only because they are short.
    pub(crate) const SHORT_KEPT: usize = 16;
    /// Most results of a block.
    pub(crate) const WIDTH: usize = 1024;
    /// Elements of a run that one call folds; twice over they stay in L1 cache.
    pub(crate) const RUN: usize = 4096;
    /// Rows that one call of a column loop folds.
    pub(crate) const ROWS: usize = 64;
    /// Bytes of the buffer for converted or gathered elements.
    pub(crate) const BUFFER: usize = 16 * 1024;
    /// Runs of fewer elements are folded side by side, as columns, since each costs what joining its lanes
    /// does. A `ReduceOp` may say otherwise.
    pub(crate) const SHORT: usize = 64;
    /// Elements of a part of a long run.
    pub(crate) const PART: usize = 16 * RUN;
    /// The most parts of a long run.
    pub(crate) const PARTS: usize = 256;
    /// The most bands that the rows of large columns are folded in.
    pub(crate) const BANDS: usize = 8;
    /// Bytes that a block of columns takes of a row, of elements of 4 and 8 bytes: less is read more slowly
    /// from memory, of more the states leave the L1.
    pub(crate) const CHAIN: usize = 4096;
    /// Elements worth a thread.
    pub(crate) const GRAIN: usize = super::grain(256);
    /// Elements worth a thread where their order is wanted (median, k-th value, mode).
    pub(crate) const ORDER_GRAIN: usize = super::grain(2048);
    /// The most results, in blocks that are no multiple of the threads, whose reduced dimensions threads
    /// share instead: each thread then has results of its own, which are joined.
    pub(crate) const SHARED_RESULTS: usize = 64 * 1024;
    /// Folds of at most this cost run at the light level: see `Machine::light_level`.
    pub(crate) const LIGHT: usize = 2;
}

/// Reductions of short rows.
pub(crate) mod reduce_short {
    /// Bytes of a row below which columns are faster.
    pub(crate) const SUMS: usize = 64;
    /// Elements of a float32 row from which on the lanes of long rows are as fast as sums in vectors.
    pub(crate) const VECTORS_F32: usize = 256;
    /// The same of float64.
    pub(crate) const VECTORS_F64: usize = 512;
    /// Bytes of a row below which there is less than a vector.
    pub(crate) const EXTREMES: usize = 32;
}

/// Attention on AMX.
pub(crate) mod attention_amx {
    /// Columns of queries and of values from which on AMX is taken: half a step and half a block of tiles
    /// would be zeros.
    pub(crate) const COLUMNS: usize = 32;
    /// Queries, and keys, from which on it is: with fewer, packing takes as long as is saved. Measured on
    /// Sapphire Rapids.
    pub(crate) const LINES: usize = 128;
    /// Magnitudes that sums may have, far from the greatest number of float32: with larger operands the
    /// call is left to the algorithm without AMX.
    pub(crate) const MOST: f64 = 1e30;
}

/// Attention on AMX. Measured on Sapphire Rapids.
pub(crate) mod attention_amx_forward {
    /// Queries of a block.
    pub(crate) const QUERIES: usize = 128;
    /// Keys of a block.
    pub(crate) const KEYS: usize = 512;
    /// Steps of keys whose values stay in L1 while all queries of a block are summed up.
    pub(crate) const CHAIN: usize = 2;
    /// Bytes that are prefetched in a step of products of queries and keys.
    pub(crate) const FETCHED: usize = 1536;
    /// Products of a query, a key and a column worth a thread of their own.
    pub(crate) const GRAIN: usize = super::grain(16);
}

/// The gradients of attention on AMX. Measured on Sapphire Rapids.
pub(crate) mod attention_amx_backward {
    /// Queries of a block.
    pub(crate) const QUERIES: usize = 128;
    /// Keys of a block.
    pub(crate) const KEYS: usize = 128;
    /// Numbers that a row of scores is longer: rows of a power of two would be in few sets of the L1.
    pub(crate) const APART: usize = 16;
    /// Products of a query, a key and a column worth a thread of their own.
    pub(crate) const GRAIN: usize = super::grain(32);
}

/// Fourier transforms.
pub(crate) mod fft {
    /// Picoseconds of a point, for each doubling of the length, on one core with AVX2.
    pub(crate) const POINT: usize = 100;
    /// Bytes of the columns that are transformed together: they stay in L2 beside the twiddle factors.
    pub(crate) const BLOCK: usize = 256 * 1024;
    /// The most of these columns.
    pub(crate) const COLUMNS: usize = 32;
    /// Bytes of the real parts of a line in each lane, up to which lines are transformed in lanes: with a vector of 64
    /// bytes, their two buffers stay in a part of L2 of 1 MiB. Measured on Zen 4.
    pub(crate) const LANES_BYTES: usize = 16 * 1024;
    /// Points, a power of two, up to which `rustfft` transforms adjacent lines faster than a turn into lanes allows.
    /// Measured on Zen 4.
    pub(crate) const LIBRARY_POINTS: usize = 512;
    /// Bytes of a line that is fetched while the one before is transformed: shorter ones the processor fetches itself,
    /// longer ones do not fit L2 beside their results. Measured on Zen 4.
    pub(crate) const FETCH: std::ops::Range<usize> = 4 * 1024 + 64..64 * 1024;
    /// Points from which a line is transformed as a matrix. Measured on Zen 4. Two threads do not lower it: on Zen 5 a line of
    /// 16,384 points takes 17 us as it is, and 22 as a matrix on two threads.
    pub(crate) const SPLIT_POINTS: usize = 64 * 1024;
    /// Plans that are kept.
    pub(crate) const PLANS: usize = 64;
    /// Bytes that the kept plans may have together: one of 2^22 points in double precision still fits.
    pub(crate) const PLAN_BYTES: usize = 256 * 1024 * 1024;
}
