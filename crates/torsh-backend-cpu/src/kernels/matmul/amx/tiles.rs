//! AMX's instructions: its tiles' shape, sums, and the inner loops.

use super::SplitParts;
use crate::simd::isa::amx::tile_asm;

/// Rows and columns of the results that one call of an inner loop makes: 2 x 2 tiles.
pub(crate) const SIDE: usize = 32;
/// Terms of a step: the bfloat16 in a row of a tile.
pub(crate) const STEP: usize = 32;
/// Bytes of a tile: 16 rows of 64.
pub(crate) const TILE: usize = 16 * 64;

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
/// AMX must be there.
pub(crate) unsafe fn configure() {
    // SAFETY: the configuration is a valid one.
    unsafe { tile_asm!(["ldtilecfg [{c}]"], c = in(reg) &raw const CONFIG; nostack) };
}

/// Ends this thread's use of its tiles, so that the system need not keep them.
///
/// # Safety
/// AMX must be there.
pub(crate) unsafe fn release() {
    // SAFETY: nothing else uses the tiles.
    unsafe { tile_asm!(["tilerelease"]; nomem, nostack) };
}

/// The sums of a block, whose rows are `step` bytes apart.
#[derive(Clone, Copy)]
pub(crate) struct Sums {
    pub ptr: *mut f32,
    pub step: usize,
}

impl Sums {
    /// Its rows, for [`steps`].
    #[inline]
    pub fn ahead(self) -> TilePrefetch {
        TilePrefetch {
            ptr: self.ptr.cast_const().cast(),
            step: self.step,
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
            tile_asm!(
                [
                    "tilezero tmm0",
                    "tilezero tmm1",
                    "tilezero tmm2",
                    "tilezero tmm3",
                ];
                nomem, nostack
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
            tile_asm!(
                [
                    "tileloadd tmm0, [{c} + {w}]",
                    "tileloadd tmm1, [{c} + {w} + 64]",
                    "tileloadd tmm2, [{d} + {w}]",
                    "tileloadd tmm3, [{d} + {w} + 64]",
                ],
                c = in(reg) self.ptr,
                d = in(reg) self.ptr.wrapping_byte_add(16 * self.step),
                w = in(reg) self.step;
                readonly, nostack
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
            tile_asm!(
                [
                    "tilestored [{c} + {w}], tmm0",
                    "tilestored [{c} + {w} + 64], tmm1",
                    "tilestored [{d} + {w}], tmm2",
                    "tilestored [{d} + {w} + 64], tmm3",
                ],
                c = in(reg) self.ptr,
                d = in(reg) self.ptr.wrapping_byte_add(16 * self.step),
                w = in(reg) self.step;
                nostack
            );
        }
    }
}

/// What the cache is to fetch meanwhile: pieces, `step` bytes apart.
#[derive(Clone, Copy)]
pub(crate) struct TilePrefetch {
    pub ptr: *const u8,
    pub step: usize,
}

/// Writes a tile of the sums before, and starts or resumes it.
macro_rules! turn {
    (zero 0) => {
        "tilestored [{c} + {cw}], tmm0\ntilezero tmm0\n"
    };
    (zero 1) => {
        "tilestored [{c} + {cw} + 64], tmm1\ntilezero tmm1\n"
    };
    (zero 2) => {
        "tilestored [{d} + {cw}], tmm2\ntilezero tmm2\n"
    };
    (zero 3) => {
        "tilestored [{d} + {cw} + 64], tmm3\ntilezero tmm3\n"
    };
    (load 0) => {
        "tilestored [{c} + {cw}], tmm0\ntileloadd tmm0, [{f} + {fw}]\n"
    };
    (load 1) => {
        "tilestored [{c} + {cw} + 64], tmm1\ntileloadd tmm1, [{f} + {fw} + 64]\n"
    };
    (load 2) => {
        "tilestored [{d} + {cw}], tmm2\ntileloadd tmm2, [{g} + {fw}]\n"
    };
    (load 3) => {
        "tilestored [{d} + {cw} + 64], tmm3\ntileloadd tmm3, [{g} + {fw} + 64]\n"
    };
}

/// The instructions of a step of operands in one part. Before the first product of each tile of
/// sums comes what its argument says, and between products `$fetch`.
macro_rules! step_of_one {
    ($t0:expr, $t1:expr, $t2:expr, $t3:expr, $fetch:expr) => {
        concat!(
            "tileloaddt1 tmm4, [{a} + {s}]\n",
            "tileloadd tmm6, [{b} + {s}]\n",
            $t0,
            "tdpbf16ps tmm0, tmm4, tmm6\n",
            $fetch,
            "tileloadd tmm7, [{b} + {s} + 1024]\n",
            $t1,
            "tdpbf16ps tmm1, tmm4, tmm7\n",
            $fetch,
            "tileloaddt1 tmm5, [{a} + {s} + 1024]\n",
            $t2,
            "tdpbf16ps tmm2, tmm5, tmm6\n",
            $fetch,
            $t3,
            "tdpbf16ps tmm3, tmm5, tmm7\n",
            $fetch,
            "add {a}, 2048\n",
            "add {b}, 2048\n",
        )
    };
}

/// The same of operands in three parts. The pairs of parts come in an order in which each differs
/// from the one before in one operand, so that half of the tiles stay; what is read twice is the
/// right operand's, which is in the first-level cache.
macro_rules! step_of_three {
    ($t0:expr, $t1:expr, $t2:expr, $t3:expr, $fetch:expr) => {
        concat!(
            "tileloaddt1 tmm4, [{a} + {s} + 4096]\n",
            "tileloadd tmm6, [{b} + {s}]\n",
            "tileloadd tmm7, [{b} + {s} + 1024]\n",
            "tileloaddt1 tmm5, [{a} + {s} + 5120]\n",
            $t0,
            "tdpbf16ps tmm0, tmm4, tmm6\n",
            $fetch,
            $t1,
            "tdpbf16ps tmm1, tmm4, tmm7\n",
            $fetch,
            "tileloaddt1 tmm4, [{a} + {s} + 2048]\n",
            $t2,
            "tdpbf16ps tmm2, tmm5, tmm6\n",
            $t3,
            "tdpbf16ps tmm3, tmm5, tmm7\n",
            $fetch,
            "tileloaddt1 tmm5, [{a} + {s} + 3072]\n",
            "tdpbf16ps tmm0, tmm4, tmm6\n",
            $fetch,
            "tdpbf16ps tmm2, tmm5, tmm6\n",
            "tileloadd tmm6, [{b} + {s} + 2048]\n",
            "tdpbf16ps tmm1, tmm4, tmm7\n",
            $fetch,
            "tdpbf16ps tmm3, tmm5, tmm7\n",
            $fetch,
            "tileloadd tmm7, [{b} + {s} + 3072]\n",
            "tdpbf16ps tmm0, tmm4, tmm6\n",
            "tdpbf16ps tmm1, tmm4, tmm7\n",
            $fetch,
            "tileloaddt1 tmm4, [{a} + {s}]\n",
            "tdpbf16ps tmm2, tmm5, tmm6\n",
            "tdpbf16ps tmm3, tmm5, tmm7\n",
            $fetch,
            "tileloaddt1 tmm5, [{a} + {s} + 1024]\n",
            "tdpbf16ps tmm0, tmm4, tmm6\n",
            "tdpbf16ps tmm2, tmm5, tmm6\n",
            $fetch,
            "tileloadd tmm6, [{b} + {s} + 4096]\n",
            "tdpbf16ps tmm1, tmm4, tmm7\n",
            "tdpbf16ps tmm3, tmm5, tmm7\n",
            "tileloadd tmm7, [{b} + {s} + 5120]\n",
            "tdpbf16ps tmm0, tmm4, tmm6\n",
            "tdpbf16ps tmm2, tmm5, tmm6\n",
            $fetch,
            "tileloadd tmm6, [{b} + {s}]\n",
            "tdpbf16ps tmm1, tmm4, tmm7\n",
            "tdpbf16ps tmm3, tmm5, tmm7\n",
            $fetch,
            "tileloadd tmm7, [{b} + {s} + 1024]\n",
            "tdpbf16ps tmm0, tmm4, tmm6\n",
            "tdpbf16ps tmm1, tmm4, tmm7\n",
            $fetch,
            "tdpbf16ps tmm2, tmm5, tmm6\n",
            "tdpbf16ps tmm3, tmm5, tmm7\n",
            "add {a}, 6144\n",
            "add {b}, 6144\n",
        )
    };
}

/// A loop of steps, which fetches meanwhile.
macro_rules! steps {
    ($step:ident, $fetch:expr, $n:expr, $a:expr, $b:expr, $ahead:expr) => {
        tile_asm!(
            [
                "2:",
                $step!("", "", "", "", $fetch),
                "dec {n}",
                "jnz 2b",
            ],
            a = inout(reg) $a => _,
            b = inout(reg) $b => _,
            q = inout(reg) $ahead.ptr => _,
            n = inout(reg) $n => _,
            w = in(reg) $ahead.step,
            s = in(reg) 64usize;
            readonly, nostack
        )
    };
}

/// Pieces that [`steps`] fetches in a step, and their bytes.
pub(crate) fn pieces(parts: SplitParts) -> (usize, usize) {
    match parts {
        SplitParts::One => (4, 64),
        SplitParts::Three => (12, 128),
    }
}

/// Bytes that [`steps`] fetches in a step.
pub(crate) fn fetched(parts: SplitParts) -> usize {
    let (pieces, size) = pieces(parts);
    pieces * size
}

/// Adds to the sums of a block, and fetches [`pieces`].
///
/// # Safety
/// `a` and `b` must hold `n` packed steps, and the tiles be configured.
#[inline]
pub(crate) unsafe fn steps(
    parts: SplitParts,
    n: usize,
    a: *const u8,
    b: *const u8,
    ahead: TilePrefetch,
) {
    if n == 0 {
        return;
    }
    // SAFETY: the caller's promise. Nothing else uses the tiles.
    unsafe {
        match parts {
            SplitParts::One => steps!(
                step_of_one,
                "prefetcht1 [{q}]\nadd {q}, {w}\n",
                n,
                a,
                b,
                ahead
            ),
            SplitParts::Three => steps!(
                step_of_three,
                "prefetcht1 [{q}]\nprefetcht1 [{q} + 64]\nadd {q}, {w}\n",
                n,
                a,
                b,
                ahead
            ),
        }
    }
}

/// As [`steps`], with the rows of `near` fetched before those of `ahead`.
///
/// # Safety
/// As there.
#[inline]
pub(crate) unsafe fn steps_near(
    parts: SplitParts,
    n: usize,
    a: *const u8,
    b: *const u8,
    near: Option<TilePrefetch>,
    ahead: TilePrefetch,
) {
    let (pieces, _) = pieces(parts);
    // SAFETY: the caller's promise.
    unsafe {
        let Some(near) = near else {
            return steps(parts, n, a, b, ahead);
        };
        let first = SIDE.div_ceil(pieces).min(n);
        let skip = first * 2 * TILE * parts.count();
        steps(parts, first, a, b, near);
        steps(
            parts,
            n - first,
            a.wrapping_add(skip),
            b.wrapping_add(skip),
            ahead,
        );
    }
}

/// Writes the sums of one block, and begins those of the next with the first step: from zero, or
/// from what they are in memory. A tile is written when the products of the others keep AMX
/// busy; all four at once would have it wait.
///
/// # Safety
/// `a` and `b` must hold a packed step, there be room for the sums `before`, and those of `from` be
/// valid.
#[inline]
pub(crate) unsafe fn turn(
    parts: SplitParts,
    before: Sums,
    from: Option<Sums>,
    a: *const u8,
    b: *const u8,
) {
    macro_rules! zero {
        ($step:ident) => {
            tile_asm!(
                [$step!(turn!(zero 0), turn!(zero 1), turn!(zero 2), turn!(zero 3), "")],
                a = inout(reg) a => _,
                b = inout(reg) b => _,
                s = in(reg) 64usize,
                c = in(reg) before.ptr,
                d = in(reg) before.ptr.wrapping_byte_add(16 * before.step),
                cw = in(reg) before.step;
                nostack
            )
        };
    }
    macro_rules! load {
        ($step:ident, $from:ident) => {
            tile_asm!(
                [$step!(turn!(load 0), turn!(load 1), turn!(load 2), turn!(load 3), "")],
                a = inout(reg) a => _,
                b = inout(reg) b => _,
                s = in(reg) 64usize,
                c = in(reg) before.ptr,
                d = in(reg) before.ptr.wrapping_byte_add(16 * before.step),
                cw = in(reg) before.step,
                f = in(reg) $from.ptr,
                g = in(reg) $from.ptr.wrapping_byte_add(16 * $from.step),
                fw = in(reg) $from.step;
                nostack
            )
        };
    }
    // SAFETY: the caller's promise. Nothing else uses the tiles.
    unsafe {
        match (parts, from) {
            (SplitParts::One, None) => zero!(step_of_one),
            (SplitParts::One, Some(from)) => load!(step_of_one, from),
            (SplitParts::Three, None) => zero!(step_of_three),
            (SplitParts::Three, Some(from)) => load!(step_of_three, from),
        }
    }
}

/// The instructions of [`step_of_three`] in quarters of six products. What comes before the first product of
/// each tile of sums is as there.
macro_rules! quarter {
    (0 $t0:expr, $t1:expr, $t2:expr, $t3:expr) => {
        concat!(
            "tileloaddt1 tmm4, [{a} + {s}]\n",
            "tileloadd tmm6, [{b} + {s} + 4096]\n",
            "tileloaddt1 tmm5, [{a} + {s} + 1024]\n",
            "tileloadd tmm7, [{b} + {s} + 5120]\n",
            $t0,
            "tdpbf16ps tmm0, tmm4, tmm6\n",
            $t2,
            "tdpbf16ps tmm2, tmm5, tmm6\n",
            "tileloadd tmm6, [{b} + {s} + 2048]\n",
            $t1,
            "tdpbf16ps tmm1, tmm4, tmm7\n",
            $t3,
            "tdpbf16ps tmm3, tmm5, tmm7\n",
            "tileloadd tmm7, [{b} + {s} + 3072]\n",
            "tdpbf16ps tmm0, tmm4, tmm6\n",
            "tdpbf16ps tmm1, tmm4, tmm7\n",
            "tileloaddt1 tmm4, [{a} + {s} + 2048]\n",
        )
    };
    (1) => {
        concat!(
            "tdpbf16ps tmm2, tmm5, tmm6\n",
            "tdpbf16ps tmm3, tmm5, tmm7\n",
            "tileloaddt1 tmm5, [{a} + {s} + 3072]\n",
            "tdpbf16ps tmm0, tmm4, tmm6\n",
            "tdpbf16ps tmm2, tmm5, tmm6\n",
            "tileloadd tmm6, [{b} + {s}]\n",
            "tdpbf16ps tmm1, tmm4, tmm7\n",
            "tdpbf16ps tmm3, tmm5, tmm7\n",
            "tileloadd tmm7, [{b} + {s} + 1024]\n",
        )
    };
    (2) => {
        concat!(
            "tdpbf16ps tmm0, tmm4, tmm6\n",
            "tdpbf16ps tmm1, tmm4, tmm7\n",
            "tileloaddt1 tmm4, [{a} + {s} + 4096]\n",
            "tdpbf16ps tmm2, tmm5, tmm6\n",
            "tdpbf16ps tmm3, tmm5, tmm7\n",
            "tileloaddt1 tmm5, [{a} + {s} + 5120]\n",
            "tdpbf16ps tmm0, tmm4, tmm6\n",
            "tdpbf16ps tmm1, tmm4, tmm7\n",
            "tileloaddt1 tmm4, [{a} + {s}]\n",
        )
    };
    (3) => {
        concat!(
            "tdpbf16ps tmm2, tmm5, tmm6\n",
            "tdpbf16ps tmm3, tmm5, tmm7\n",
            "tileloaddt1 tmm5, [{a} + {s} + 1024]\n",
            "tdpbf16ps tmm0, tmm4, tmm6\n",
            "tdpbf16ps tmm1, tmm4, tmm7\n",
            "tdpbf16ps tmm2, tmm5, tmm6\n",
            "tdpbf16ps tmm3, tmm5, tmm7\n",
        )
    };
}

/// Adds to the sums of a block of operands in three parts, and does some other work after every quarter of a
/// step: AMX is busy with it for about a hundred cycles. Before that the sums of another block may be to be
/// written, and these be begun, as by [`turn`].
///
/// # Safety
/// As [`turn`], for `n` steps.
#[inline]
pub(super) unsafe fn steps_with(
    n: usize,
    (a, b): (*const u8, *const u8),
    transposed: Option<(Sums, Option<Sums>)>,
    work: &mut dyn FnMut(),
) {
    macro_rules! quarter_of {
        ($a:ident $($b:ident)?, $($quarter:tt)*) => {
            tile_asm!(
                [quarter!($($quarter)*)],
                a = in(reg) $a,
                $(b = in(reg) $b,)?
                s = in(reg) 64usize;
                readonly, nostack
            )
        };
    }
    for step in 0..n {
        let skip = step * 6 * TILE;
        let (a, b) = (a.wrapping_add(skip), b.wrapping_add(skip));
        // SAFETY: the caller's promise. Nothing else uses the tiles, which hold between the pieces.
        unsafe {
            match transposed.filter(|_| step == 0) {
                None => quarter_of!(a b, 0 "", "", "", ""),
                Some((before, None)) => tile_asm!(
                    [quarter!(0 turn!(zero 0), turn!(zero 1), turn!(zero 2), turn!(zero 3))],
                    a = in(reg) a,
                    b = in(reg) b,
                    s = in(reg) 64usize,
                    c = in(reg) before.ptr,
                    d = in(reg) before.ptr.wrapping_byte_add(16 * before.step),
                    cw = in(reg) before.step;
                    nostack
                ),
                Some((before, Some(from))) => tile_asm!(
                    [quarter!(0 turn!(load 0), turn!(load 1), turn!(load 2), turn!(load 3))],
                    a = in(reg) a,
                    b = in(reg) b,
                    s = in(reg) 64usize,
                    c = in(reg) before.ptr,
                    d = in(reg) before.ptr.wrapping_byte_add(16 * before.step),
                    cw = in(reg) before.step,
                    f = in(reg) from.ptr,
                    g = in(reg) from.ptr.wrapping_byte_add(16 * from.step),
                    fw = in(reg) from.step;
                    nostack
                ),
            }
            work();
            quarter_of!(a b, 1);
            work();
            quarter_of!(a, 2);
            work();
            quarter_of!(a, 3);
            work();
        }
    }
}
