//! Products on AMX, the matrix unit of Intel's server processors since 2023.
//!
//! The unit multiplies bfloat16 and adds in float32. A float32 is the exact sum of three
//! bfloat16 of 8 bits each, and of the nine products of two such sums six carry all that the 24
//! bits of a result can show; the others are below its last bit by a factor of 8. That makes
//! float32 products of full precision at a sixth of the unit's rate, which is still more than
//! twice that of AVX-512. (G. Henry, P. Tang, A. Heinecke, "Leveraging the bfloat16 artificial
//! intelligence datatype for higher-precision computations", ARITH 2019.)
//!
//! The unit takes subnormal numbers for zeros, so parts of a term below about 1e-38 are lost.
//! Infinities and NaN do not survive the splitting: where a result is not finite, its block is
//! computed again by the general kernel.

use std::arch::asm;
use std::arch::x86_64::*;
use std::sync::atomic::{AtomicU8, Ordering};

use super::gemm::{Matrix, general};
use crate::arch::Level;
use crate::dense::Scratch;

/// Rows and columns of the results that one call of the inner kernel makes: 2 x 2 tiles.
const SIDE: usize = 32;
/// Terms of a step: the bfloat16 in a row of a tile.
const STEP: usize = 32;
/// Bytes of a tile: 16 rows of 64.
const TILE: usize = 1024;
/// Terms of a block, divided by the number of parts: a panel of packed lines is 96 KiB.
const TERMS: usize = 1536;
/// Rows of the left operand that are packed at a time and stay in the L2 cache.
const ROWS: usize = 256;
/// Rows and columns of results whose sums are kept from one block of terms to the next.
const BLOCK: usize = 1024;

/// Whether the processor has the unit and the system lets this process use it; never where
/// `TORSH_SIMD` names a lesser instruction set. Asked once.
pub(super) fn is_available() -> bool {
    static STATE: AtomicU8 = AtomicU8::new(0);
    match STATE.load(Ordering::Relaxed) {
        1 => true,
        2 => false,
        _ => {
            let yes = detect();
            STATE.store(if yes { 1 } else { 2 }, Ordering::Relaxed);
            yes
        }
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
fn detect() -> bool {
    if std::env::var_os("TORSH_SIMD").is_some() || !Level::Avx512.is_available() {
        return false;
    }
    let (max, features) = (__cpuid(0).eax, __cpuid_count(7, 0).edx);
    // Bits 22 and 24: AMX-BF16 and AMX-TILE.
    if max < 7 || features >> 22 & 1 == 0 || features >> 24 & 1 == 0 {
        return false;
    }
    // The tiles' state is large, so Linux wants to be asked for it, once for all threads
    // (ARCH_REQ_XCOMP_PERM of component 18).
    const ARCH_PRCTL: i64 = 158;
    const REQUEST: i64 = 0x1023;
    let result: i64;
    // SAFETY: a system call without pointers, which changes nothing but this permission.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => result,
            in("rdi") REQUEST,
            in("rsi") 18i64,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    result == 0
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn detect() -> bool {
    false
}

/// Whether a product is large enough to be worth the packing, which takes `(m + n) k` where the
/// product takes `m n k`.
#[inline]
pub(super) fn suits(m: usize, n: usize, k: usize, parts: Parts) -> bool {
    let ratio = match parts {
        Parts::One => 24,
        Parts::Three => 64,
    };
    k >= 64 && m * n >= ratio * (m + n) && is_available()
}

/// Into how many bfloat16 a float32 operand is split.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Parts {
    /// The operands are bfloat16 that were widened.
    One,
    /// Any float32.
    Three,
}

impl Parts {
    fn count(self) -> usize {
        match self {
            Parts::One => 1,
            Parts::Three => 3,
        }
    }
}

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

/// As [`Number::product`](super::Number::product) of float32; `false`, with nothing done, where
/// there is no memory to pack into.
///
/// # Safety
/// As there, and [`is_available`].
#[allow(clippy::too_many_arguments)]
pub(super) unsafe fn product(
    m: usize,
    n: usize,
    k: usize,
    out: Matrix<f32>,
    a: Matrix<f32>,
    b: Matrix<f32>,
    alpha: f32,
    add: bool,
    parts: Parts,
) -> bool {
    // SAFETY: the caller's promise; transposing all three transposes the product.
    unsafe {
        if out.col != 1 && out.row == 1 {
            blocks(n, m, k, out.t(), b.t(), a.t(), alpha, add, parts)
        } else {
            blocks(m, n, k, out, a, b, alpha, add, parts)
        }
    }
}

/// # Safety
/// As [`product`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]
#[allow(clippy::too_many_arguments)]
unsafe fn blocks(
    m: usize,
    n: usize,
    k: usize,
    out: Matrix<f32>,
    a: Matrix<f32>,
    b: Matrix<f32>,
    alpha: f32,
    add: bool,
    parts: Parts,
) -> bool {
    // Blocks of about equal size.
    let even =
        |n: usize, most: usize, unit: usize| n.div_ceil(n.div_ceil(most)).next_multiple_of(unit);
    let terms = even(k, TERMS / parts.count(), STEP);
    let (rows, columns) = (even(m, BLOCK, SIDE), even(n, BLOCK, SIDE));
    let some = even(rows, ROWS, SIDE);
    // Bytes that one row of the left operand, or column of the right one, takes in a block.
    let line = terms * 2 * parts.count();
    let once = k <= terms;
    let sums = if once { SIDE * SIDE } else { rows * columns };
    let size = (some + columns) * line + sums * 4;
    let Ok(scratch) = Scratch::<u8>::new(size) else {
        return false;
    };
    let packed_a = scratch.ptr();
    let packed_b = packed_a.wrapping_add(some * line);
    let sums = packed_b.wrapping_add(columns * line).cast::<f32>();
    // SAFETY: the configuration is a valid one, and every index below is within its matrix; the
    // scratch memory has the room computed above.
    unsafe {
        asm!("ldtilecfg [{}]", in(reg) &raw const CONFIG, options(nostack));
        for i0 in (0..m).step_by(rows) {
            for j0 in (0..n).step_by(columns) {
                let (mb, nb) = (rows.min(m - i0), columns.min(n - j0));
                for k0 in (0..k).step_by(terms) {
                    let kb = terms.min(k - k0);
                    let steps = kb.div_ceil(STEP);
                    let (first, last) = (k0 == 0, k0 + kb == k);
                    let panel = steps * STEP * 2 * parts.count() * SIDE;
                    let right = Lines {
                        ptr: b.at(k0, j0).ptr,
                        across: b.col,
                        along: b.row,
                        count: nb,
                        terms: kb,
                    };
                    let right_is_sound = right.pack::<true>(packed_b, parts);
                    for i1 in (0..mb).step_by(some) {
                        let left = Lines {
                            ptr: a.at(i0 + i1, k0).ptr,
                            across: a.row,
                            along: a.col,
                            count: some.min(mb - i1),
                            terms: kb,
                        };
                        let sound = left.pack::<false>(packed_a, parts) & right_is_sound;
                        let count = left.count.div_ceil(SIDE);
                        for j in (0..nb).step_by(SIDE) {
                            let pb = packed_b.add(j / SIDE * panel);
                            for p in 0..count {
                                let i = i1 + p * SIDE;
                                let pa = packed_a.add(p * panel);
                                // Blocks lie in the order in which they are walked.
                                let block = match once {
                                    true => sums,
                                    false => sums.add(j * rows + i * SIDE),
                                };
                                // Meanwhile the cache fetches the next block and a share of
                                // the next panel.
                                let ahead = pb.wrapping_add(panel + panel / count * p);
                                let near = if first {
                                    clear();
                                    0
                                } else {
                                    resume(block);
                                    steps / 4
                                };
                                let kernel = match parts {
                                    Parts::One => one,
                                    Parts::Three => three,
                                };
                                if near > 0 {
                                    kernel(near, pa, pb, block.wrapping_add(SIDE * SIDE).cast());
                                }
                                let skip = panel / steps * near;
                                kernel(steps - near, pa.add(skip), pb.add(skip), ahead);
                                store(block);
                                if !sound {
                                    *block = f32::NAN;
                                }
                                if !last {
                                    continue;
                                }
                                let (rows, cols) = (SIDE.min(mb - i), SIDE.min(nb - j));
                                let o = out.at(i0 + i, j0 + j);
                                if !finish(block, o, rows, cols, alpha, add) {
                                    let (a, b) = (a.at(i0 + i, 0), b.at(0, j0 + j));
                                    general(rows, cols, k, o, a, b, alpha, add);
                                }
                            }
                        }
                    }
                }
            }
        }
        asm!("tilerelease", options(nomem, nostack));
    }
    true
}

/// Writes a block's results, unless one is not finite.
///
/// # Safety
/// `block` is a whole block, `out` valid for `rows` and `cols`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]
unsafe fn finish(
    block: *const f32,
    out: Matrix<f32>,
    rows: usize,
    cols: usize,
    alpha: f32,
    add: bool,
) -> bool {
    const INFINITE: i32 = 0x7f80_0000;
    // SAFETY: the caller's promise.
    unsafe {
        let infinite = _mm512_set1_epi32(INFINITE);
        let mut found = 0;
        for i in 0..SIDE * SIDE / 16 {
            let x = _mm512_loadu_si512(block.add(16 * i).cast());
            found |= _mm512_cmpeq_epi32_mask(_mm512_and_si512(x, infinite), infinite);
        }
        if found != 0 {
            return false;
        }
        for i in 0..rows {
            let from = block.add(i * SIDE);
            let to = out.at(i, 0);
            if to.col != 1 {
                for j in 0..cols {
                    let o = to.at(0, j).ptr;
                    let before = if add { *o } else { 0.0 };
                    *o = alpha.mul_add(*from.add(j), before);
                }
                continue;
            }
            for half in 0..2 {
                let count = cols.saturating_sub(16 * half).min(16);
                let mask = ((1u32 << count) - 1) as u16;
                let to = to.ptr.wrapping_add(16 * half);
                let x = _mm512_loadu_ps(from.add(16 * half));
                let x = match add {
                    true => {
                        _mm512_fmadd_ps(_mm512_set1_ps(alpha), x, _mm512_maskz_loadu_ps(mask, to))
                    }
                    false => _mm512_mul_ps(_mm512_set1_ps(alpha), x),
                };
                _mm512_mask_storeu_ps(to, mask, x);
            }
        }
    }
    true
}

/// Rows of the left operand or columns of the right one.
struct Lines {
    ptr: *mut f32,
    /// From one line to the next, and from one term to the next.
    across: isize,
    along: isize,
    count: usize,
    terms: usize,
}

impl Lines {
    /// Packs the lines into tiles, with zeros where there are fewer: panels of [`SIDE`] lines, in
    /// them for each step, for each part, two tiles of 16 lines. A tile of the left operand has a
    /// line in each row; one of the right operand (`PAIRS`) a pair of terms of all its lines.
    /// `false` where something is NaN.
    ///
    /// # Safety
    /// The lines must be valid, and `to` have room for all panels.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]
    unsafe fn pack<const PAIRS: bool>(&self, to: *mut u8, parts: Parts) -> bool {
        let step = 2 * TILE * parts.count();
        let steps = self.terms.div_ceil(STEP);
        let halves = self.count.next_multiple_of(SIDE) / 16;
        let mut nan = 0;
        // SAFETY: the caller's promise; every tile is within a panel.
        unsafe {
            // Adjacent elements one after the other.
            if self.along == 1 {
                for half in 0..halves {
                    for s in 0..steps {
                        let to = to.add((half / 2 * steps + s) * step + half % 2 * TILE);
                        nan |= self.tile::<PAIRS>(half, s, to, parts);
                    }
                }
            } else {
                for s in 0..steps {
                    for half in 0..halves {
                        let to = to.add((half / 2 * steps + s) * step + half % 2 * TILE);
                        nan |= self.tile::<PAIRS>(half, s, to, parts);
                    }
                }
            }
        }
        nan == 0
    }

    /// Packs 16 lines of one step. Returns a mask of NaNs.
    ///
    /// # Safety
    /// As [`Lines::pack`], for one tile of each part.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]
    unsafe fn tile<const PAIRS: bool>(
        &self,
        half: usize,
        s: usize,
        to: *mut u8,
        parts: Parts,
    ) -> u16 {
        let count = self.count.saturating_sub(16 * half).min(16);
        let terms = STEP.min(self.terms - s * STEP);
        let at = (16 * half) as isize * self.across + (s * STEP) as isize * self.along;
        let from = self.ptr.wrapping_offset(at);
        let mut nan = 0;
        // SAFETY: the caller's promise; the masks leave out what is not there.
        unsafe {
            if self.across == 1 && self.along != 1 {
                // Term by term.
                let first = load(from, self.along, terms, count, &mut nan);
                let next = from.wrapping_offset(16 * self.along);
                let second = load(next, self.along, terms.saturating_sub(16), count, &mut nan);
                if PAIRS {
                    by_pairs(&first, to, parts);
                    by_pairs(&second, to.add(TILE / 2), parts);
                } else {
                    by_lines(&transpose(first), &transpose(second), to, parts);
                }
                return nan;
            }
            // Line by line.
            let mut dense = [0f32; 16 * STEP];
            let (from, across) = if self.along == 1 {
                (from.cast_const(), self.across)
            } else {
                for l in 0..count {
                    for t in 0..terms {
                        let at = l as isize * self.across + t as isize * self.along;
                        dense[l * STEP + t] = *from.wrapping_offset(at);
                    }
                }
                (dense.as_ptr(), STEP as isize)
            };
            let first = load(from, across, count, terms.min(16), &mut nan);
            let next = from.wrapping_add(16);
            let second = load(next, across, count, terms.saturating_sub(16), &mut nan);
            if PAIRS {
                by_pairs(&transpose(first), to, parts);
                by_pairs(&transpose(second), to.add(TILE / 2), parts);
            } else {
                by_lines(&first, &second, to, parts);
            }
        }
        nan
    }
}

/// The first `width` elements of `count` vectors, zeros beyond; notes NaNs.
///
/// # Safety
/// `from` must be valid for those vectors, which are `step` elements apart.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load(
    from: *const f32,
    step: isize,
    count: usize,
    width: usize,
    nan: &mut u16,
) -> [__m512; 16] {
    let mask = ((1u32 << width) - 1) as u16;
    let mut x = [_mm512_setzero_ps(); 16];
    if count >= 16 && width == 16 {
        for (i, x) in x.iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            *x = unsafe { _mm512_loadu_ps(from.wrapping_offset(i as isize * step)) };
        }
    } else {
        for (i, x) in x.iter_mut().enumerate().take(count) {
            // SAFETY: the caller's promise.
            *x = unsafe { _mm512_maskz_loadu_ps(mask, from.wrapping_offset(i as isize * step)) };
        }
    }
    // One comparison finds the NaNs of two vectors.
    for i in 0..8 {
        *nan |= _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x[2 * i], x[2 * i + 1]);
    }
    x
}

/// The bfloat16 whose sum a float32 is, each in the upper half of 32 bits.
#[inline]
#[target_feature(enable = "avx512f")]
fn split(x: __m512, parts: Parts) -> [__m512i; 3] {
    let upper = _mm512_set1_epi32(0xffff_0000u32 as i32);
    if parts == Parts::One {
        let zero = _mm512_setzero_si512();
        return [_mm512_castps_si512(x), zero, zero];
    }
    // To nearest, so that the rest is of either sign and half as large.
    let half = _mm512_set1_epi32(0x8000);
    let first = _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(x), half), upper);
    let rest = _mm512_sub_ps(x, _mm512_castsi512_ps(first));
    let second = _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(rest), half), upper);
    let rest = _mm512_sub_ps(rest, _mm512_castsi512_ps(second));
    // Whoever packs takes the upper half.
    [
        first,
        second,
        _mm512_add_epi32(_mm512_castps_si512(rest), half),
    ]
}

/// Packs the first and second 16 terms of 16 lines, a line to a row.
///
/// # Safety
/// `to` must be valid for a tile of each part.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn by_lines(first: &[__m512; 16], second: &[__m512; 16], to: *mut u8, parts: Parts) {
    // The upper halves of 16 and 16 words.
    const ORDER: [i16; 32] = {
        let mut order = [0; 32];
        let mut i = 0;
        while i < 32 {
            order[i] = 2 * i as i16 + 1;
            i += 1;
        }
        order
    };
    // SAFETY: the caller's promise.
    unsafe {
        let order = _mm512_loadu_si512(ORDER.as_ptr().cast());
        for l in 0..16 {
            let (x, y) = (split(first[l], parts), split(second[l], parts));
            for part in 0..parts.count() {
                let row = _mm512_permutex2var_epi16(x[part], order, y[part]);
                _mm512_storeu_si512(to.add(2 * TILE * part + 64 * l).cast(), row);
            }
        }
    }
}

/// Packs 16 terms of 16 lines, a pair of terms to a row.
///
/// # Safety
/// `to` must be valid for half a tile of each part.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn by_pairs(terms: &[__m512; 16], to: *mut u8, parts: Parts) {
    let upper = _mm512_set1_epi32(0xffff_0000u32 as i32);
    for pair in 0..8 {
        let (x, y) = (
            split(terms[2 * pair], parts),
            split(terms[2 * pair + 1], parts),
        );
        for part in 0..parts.count() {
            let row = _mm512_or_si512(
                _mm512_srli_epi32::<16>(x[part]),
                _mm512_and_si512(y[part], upper),
            );
            // SAFETY: the caller's promise.
            unsafe { _mm512_storeu_si512(to.add(2 * TILE * part + 64 * pair).cast(), row) };
        }
    }
}

/// Transposes 16 x 16 elements.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose(rows: [__m512; 16]) -> [__m512; 16] {
    let mut r = [_mm512_setzero_si512(); 16];
    for i in 0..16 {
        r[i] = _mm512_castps_si512(rows[i]);
    }
    let mut t = r;
    for i in 0..8 {
        t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
    for i in 0..4 {
        let q = 4 * i;
        r[q] = _mm512_unpacklo_epi64(t[q], t[q + 2]);
        r[q + 1] = _mm512_unpackhi_epi64(t[q], t[q + 2]);
        r[q + 2] = _mm512_unpacklo_epi64(t[q + 1], t[q + 3]);
        r[q + 3] = _mm512_unpackhi_epi64(t[q + 1], t[q + 3]);
    }
    // Now r[4 i + j] holds column 4 l + j of rows 4 i .. 4 i + 4 in its lane l.
    for j in 0..4 {
        let low = _mm512_shuffle_i32x4::<0x88>(r[j], r[4 + j]);
        let high = _mm512_shuffle_i32x4::<0xdd>(r[j], r[4 + j]);
        let low2 = _mm512_shuffle_i32x4::<0x88>(r[8 + j], r[12 + j]);
        let high2 = _mm512_shuffle_i32x4::<0xdd>(r[8 + j], r[12 + j]);
        t[j] = _mm512_shuffle_i32x4::<0x88>(low, low2);
        t[8 + j] = _mm512_shuffle_i32x4::<0xdd>(low, low2);
        t[4 + j] = _mm512_shuffle_i32x4::<0x88>(high, high2);
        t[12 + j] = _mm512_shuffle_i32x4::<0xdd>(high, high2);
    }
    let mut columns = rows;
    for i in 0..16 {
        columns[i] = _mm512_castsi512_ps(t[i]);
    }
    columns
}

/// Starts the sums of a block from zero.
///
/// # Safety
/// The tiles must be configured.
#[inline]
unsafe fn clear() {
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

/// Goes on with the sums of a block.
///
/// # Safety
/// `block` must be valid for a block, and the tiles be configured.
#[inline]
unsafe fn resume(block: *const f32) {
    // SAFETY: the caller's promise. Nothing else uses the tiles.
    unsafe {
        asm!(
            "tileloadd tmm0, [{c} + {w}]",
            "tileloadd tmm1, [{c} + {w} + 64]",
            "tileloadd tmm2, [{c} + {w} + 2048]",
            "tileloadd tmm3, [{c} + {w} + 2112]",
            c = in(reg) block,
            w = in(reg) 4 * SIDE,
            options(readonly, nostack),
        );
    }
}

/// Writes the sums of a block.
///
/// # Safety
/// `block` must have room for a block, and the tiles be configured.
#[inline]
unsafe fn store(block: *mut f32) {
    // SAFETY: the caller's promise. Nothing else uses the tiles.
    unsafe {
        asm!(
            "tilestored [{c} + {w}], tmm0",
            "tilestored [{c} + {w} + 64], tmm1",
            "tilestored [{c} + {w} + 2048], tmm2",
            "tilestored [{c} + {w} + 2112], tmm3",
            c = in(reg) block,
            w = in(reg) 4 * SIDE,
            options(nostack),
        );
    }
}

/// Adds to the sums of a block, of operands in three parts. Fetches 1024 bytes a step from `ahead`
/// into the cache.
///
/// # Safety
/// `a` and `b` must hold `steps` packed steps, more than none, and the tiles be configured.
#[inline]
unsafe fn three(steps: usize, a: *const u8, b: *const u8, ahead: *const u8) {
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
            "tdpbf16ps tmm2, tmm5, tmm6",
            "prefetcht1 [{q} + 64]",
            "tileloadd tmm6, [{b} + {s} + 2048]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "prefetcht1 [{q} + 128]",
            "tileloadd tmm7, [{b} + {s} + 3072]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "prefetcht1 [{q} + 192]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tileloadd tmm4, [{a} + {s} + 2048]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "prefetcht1 [{q} + 256]",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "prefetcht1 [{q} + 320]",
            "tileloadd tmm5, [{a} + {s} + 3072]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "prefetcht1 [{q} + 384]",
            "tileloadd tmm6, [{b} + {s}]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "prefetcht1 [{q} + 448]",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "tileloadd tmm7, [{b} + {s} + 1024]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "prefetcht1 [{q} + 512]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "prefetcht1 [{q} + 576]",
            "tileloadd tmm4, [{a} + {s} + 4096]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "prefetcht1 [{q} + 640]",
            "tileloadd tmm5, [{a} + {s} + 5120]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "prefetcht1 [{q} + 704]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tileloadd tmm4, [{a} + {s}]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "prefetcht1 [{q} + 768]",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "prefetcht1 [{q} + 832]",
            "tileloadd tmm5, [{a} + {s} + 1024]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "prefetcht1 [{q} + 896]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "prefetcht1 [{q} + 960]",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "add {a}, 6144",
            "add {b}, 6144",
            "add {q}, 1024",
            "dec {n}",
            "jnz 2b",
            a = inout(reg) a => _,
            b = inout(reg) b => _,
            q = inout(reg) ahead => _,
            n = inout(reg) steps => _,
            s = in(reg) 64usize,
            options(readonly, nostack),
        );
    }
}

/// Adds to the sums of a block, of operands in one part. Fetches 384 bytes a step from `ahead`.
///
/// # Safety
/// As [`three`].
#[inline]
unsafe fn one(steps: usize, a: *const u8, b: *const u8, ahead: *const u8) {
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
            "tdpbf16ps tmm1, tmm4, tmm7",
            "prefetcht1 [{q} + 128]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "prefetcht1 [{q} + 192]",
            "prefetcht1 [{q} + 256]",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "prefetcht1 [{q} + 320]",
            "add {a}, 2048",
            "add {b}, 2048",
            "add {q}, 384",
            "dec {n}",
            "jnz 2b",
            a = inout(reg) a => _,
            b = inout(reg) b => _,
            q = inout(reg) ahead => _,
            n = inout(reg) steps => _,
            s = in(reg) 64usize,
            options(readonly, nostack),
        );
    }
}

#[cfg(test)]
mod tests;
