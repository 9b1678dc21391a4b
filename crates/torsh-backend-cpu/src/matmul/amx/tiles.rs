//! The unit's instructions: its tiles' shape, sums, and the two inner loops.

use std::arch::asm;

/// Rows and columns of the results that one call of an inner loop makes: 2 x 2 tiles.
pub(super) const SIDE: usize = 32;
/// Terms of a step: the bfloat16 in a row of a tile.
pub(super) const STEP: usize = 32;
/// Bytes of a tile: 16 rows of 64.
pub(super) const TILE: usize = 1024;

/// The shape of the tiles, as LDTILECFG reads it.
#[repr(C, align(64))]
struct Config {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    bytes: [u16; 16],
    rows: [u8; 16],
}

static CONFIG: Config = {
    let mut c = Config {
        palette: 1,
        start_row: 0,
        reserved: [0; 14],
        bytes: [0; 16],
        rows: [0; 16],
    };
    let mut t = 0;
    while t < 8 {
        c.bytes[t] = 64;
        c.rows[t] = 16;
        t += 1;
    }
    c
};

/// Gives this thread's tiles their shape.
///
/// # Safety
/// The unit must be there.
pub(super) unsafe fn configure() {
    // SAFETY: the configuration is a valid one.
    unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const CONFIG, options(nostack)) };
}

/// Ends this thread's use of its tiles, so that the system need not keep them.
///
/// # Safety
/// The unit must be there.
pub(super) unsafe fn release() {
    // SAFETY: nothing else uses the tiles.
    unsafe { asm!("tilerelease", options(nomem, nostack)) };
}

/// The sums of a block, whose rows are `step` bytes apart.
#[derive(Clone, Copy)]
pub(super) struct Sums {
    pub ptr: *mut f32,
    pub step: usize,
}

impl Sums {
    /// The block after this one, where blocks lie one after the other.
    #[inline]
    pub fn next(self) -> Sums {
        Sums {
            ptr: self.ptr.wrapping_add(SIDE * SIDE),
            ..self
        }
    }

    /// Starts the sums of a block from zero.
    ///
    /// # Safety
    /// The tiles must be configured.
    #[inline]
    pub unsafe fn clear() {
        // SAFETY: nothing else uses the tiles.
        unsafe {
            asm!(
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                options(nomem, nostack),
            );
        }
    }

    /// Goes on with these sums.
    ///
    /// # Safety
    /// They must be valid for a block, and the tiles be configured.
    #[inline]
    pub unsafe fn resume(self) {
        // SAFETY: the caller's promise. Nothing else uses the tiles.
        unsafe {
            asm!(
                "tileloadd tmm0, [{c} + {w}]",
                "tileloadd tmm1, [{c} + {w} + 64]",
                "tileloadd tmm2, [{d} + {w}]",
                "tileloadd tmm3, [{d} + {w} + 64]",
                c = in(reg) self.ptr,
                d = in(reg) self.ptr.wrapping_byte_add(16 * self.step),
                w = in(reg) self.step,
                options(readonly, nostack),
            );
        }
    }

    /// Writes the tiles' sums.
    ///
    /// # Safety
    /// There must be room for a block, and the tiles be configured.
    #[inline]
    pub unsafe fn store(self) {
        // SAFETY: the caller's promise. Nothing else uses the tiles.
        unsafe {
            asm!(
                "tilestored [{c} + {w}], tmm0",
                "tilestored [{c} + {w} + 64], tmm1",
                "tilestored [{d} + {w}], tmm2",
                "tilestored [{d} + {w} + 64], tmm3",
                c = in(reg) self.ptr,
                d = in(reg) self.ptr.wrapping_byte_add(16 * self.step),
                w = in(reg) self.step,
                options(nostack),
            );
        }
    }
}

/// What the cache is to fetch meanwhile: pieces of 128 bytes, `step` bytes apart.
#[derive(Clone, Copy)]
pub(super) struct Ahead {
    pub ptr: *const u8,
    pub step: usize,
}

/// The pieces that [`three`] fetches in a step.
pub(super) const PIECES: usize = 12;

/// Adds to the sums of a block, of operands in three parts. Fetches [`PIECES`] pieces a step.
///
/// # Safety
/// `a` and `b` must hold `steps` packed steps, more than none, and the tiles be configured.
#[inline]
pub(super) unsafe fn three(steps: usize, a: *const u8, b: *const u8, ahead: Ahead) {
    // The pairs of parts come in an order in which each differs from the one before in one
    // operand, so that half of the tiles stay.
    // SAFETY: the caller's promise. Nothing else uses the tiles.
    unsafe {
        asm!(
            "2:",
            "tileloadd tmm4, [{a} + {s}]",
            "tileloadd tmm6, [{b} + {s} + 4096]",
            "tileloadd tmm5, [{a} + {s} + 1024]",
            "tileloadd tmm7, [{b} + {s} + 5120]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "prefetcht1 [{q}]",
            "prefetcht1 [{q} + 64]",
            "add {q}, {w}",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "prefetcht1 [{q}]",
            "prefetcht1 [{q} + 64]",
            "add {q}, {w}",
            "tileloadd tmm6, [{b} + {s} + 2048]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "prefetcht1 [{q}]",
            "prefetcht1 [{q} + 64]",
            "add {q}, {w}",
            "tileloadd tmm7, [{b} + {s} + 3072]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "prefetcht1 [{q}]",
            "prefetcht1 [{q} + 64]",
            "add {q}, {w}",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tileloadd tmm4, [{a} + {s} + 2048]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "prefetcht1 [{q}]",
            "prefetcht1 [{q} + 64]",
            "add {q}, {w}",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "prefetcht1 [{q}]",
            "prefetcht1 [{q} + 64]",
            "add {q}, {w}",
            "tileloadd tmm5, [{a} + {s} + 3072]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "prefetcht1 [{q}]",
            "prefetcht1 [{q} + 64]",
            "add {q}, {w}",
            "tileloadd tmm6, [{b} + {s}]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "prefetcht1 [{q}]",
            "prefetcht1 [{q} + 64]",
            "add {q}, {w}",
            "tileloadd tmm7, [{b} + {s} + 1024]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "prefetcht1 [{q}]",
            "prefetcht1 [{q} + 64]",
            "add {q}, {w}",
            "tileloadd tmm4, [{a} + {s} + 4096]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "prefetcht1 [{q}]",
            "prefetcht1 [{q} + 64]",
            "add {q}, {w}",
            "tileloadd tmm5, [{a} + {s} + 5120]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tileloadd tmm4, [{a} + {s}]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "prefetcht1 [{q}]",
            "prefetcht1 [{q} + 64]",
            "add {q}, {w}",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "tileloadd tmm5, [{a} + {s} + 1024]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "prefetcht1 [{q}]",
            "prefetcht1 [{q} + 64]",
            "add {q}, {w}",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "add {a}, 6144",
            "add {b}, 6144",
            "dec {n}",
            "jnz 2b",
            a = inout(reg) a => _,
            b = inout(reg) b => _,
            q = inout(reg) ahead.ptr => _,
            n = inout(reg) steps => _,
            w = in(reg) ahead.step,
            s = in(reg) 64usize,
            options(readonly, nostack),
        );
    }
}

/// The pieces that [`one`] fetches in a step.
pub(super) const PIECES_OF_ONE: usize = 4;

/// Adds to the sums of a block, of operands in one part. Fetches [`PIECES_OF_ONE`] pieces a step.
///
/// # Safety
/// As [`three`].
#[inline]
pub(super) unsafe fn one(steps: usize, a: *const u8, b: *const u8, ahead: Ahead) {
    // SAFETY: the caller's promise. Nothing else uses the tiles.
    unsafe {
        asm!(
            "2:",
            "tileloadd tmm4, [{a} + {s}]",
            "tileloadd tmm5, [{a} + {s} + 1024]",
            "tileloadd tmm6, [{b} + {s}]",
            "tileloadd tmm7, [{b} + {s} + 1024]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "prefetcht1 [{q}]",
            "prefetcht1 [{q} + 64]",
            "add {q}, {w}",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "prefetcht1 [{q}]",
            "prefetcht1 [{q} + 64]",
            "add {q}, {w}",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "prefetcht1 [{q}]",
            "prefetcht1 [{q} + 64]",
            "add {q}, {w}",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "prefetcht1 [{q}]",
            "prefetcht1 [{q} + 64]",
            "add {q}, {w}",
            "add {a}, 2048",
            "add {b}, 2048",
            "dec {n}",
            "jnz 2b",
            a = inout(reg) a => _,
            b = inout(reg) b => _,
            q = inout(reg) ahead.ptr => _,
            n = inout(reg) steps => _,
            w = in(reg) ahead.step,
            s = in(reg) 64usize,
            options(readonly, nostack),
        );
    }
}
