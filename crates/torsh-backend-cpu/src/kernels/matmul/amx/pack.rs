//! Operands packed into tiles of bfloat16.
//!
//! Intrinsics: Splitting float32 into bfloat16 parts works on the bits of 16 and 32 bit lanes.

use std::arch::x86_64::*;

use super::SplitParts;
use super::tiles::{SIDE, STEP, TILE};
use crate::machine::tuning::matmul_amx::{LINE_AHEAD, TERM_AHEAD};

/// Rows of the left operand or columns of the right one.
#[derive(Clone, Copy)]
pub(crate) struct AmxLines {
    pub ptr: *const u8,
    /// Bytes from one line to the next, and from one term to the next.
    pub across: isize,
    pub along: isize,
    pub count: usize,
    pub terms: usize,
}

/// The first `n` of 16.
#[inline]
pub(crate) fn first(n: usize) -> u16 {
    ((1u32 << n.min(16)) - 1) as u16
}

impl AmxLines {
    /// Packs the lines into tiles, with zeros where there are fewer: panels of [`SIDE`] lines, in
    /// them for each step, for each part, two tiles of 16 lines. A tile of the left operand has a
    /// line in each row; one of the right operand (`PAIRS`) a pair of terms of all its lines.
    /// Returns the bits of the greatest magnitude of float32, those of a NaN being greater than an
    /// infinity's; nothing of bfloat16.
    ///
    /// # Safety
    /// The lines must be valid, and `to` have room for all panels.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]
    pub unsafe fn pack<const PAIRS: bool>(&self, to: *mut u8, parts: SplitParts) -> u32 {
        let step = 2 * TILE * parts.count();
        let steps = self.terms.div_ceil(STEP);
        let halves = self.count.next_multiple_of(SIDE) / 16;
        let mut greatest = _mm512_setzero_si512();
        let along_first = self.along.unsigned_abs() < self.across.unsigned_abs();
        let at = |half: usize, s: usize| {
            let at = (16 * half) as isize * self.across + (s * STEP) as isize * self.along;
            self.ptr.wrapping_offset(at)
        };
        let mut tile = |half: usize, s: usize| {
            let to = to.wrapping_add((half / 2 * steps + s) * step + half % 2 * TILE);
            let lines = AmxLines {
                ptr: at(half, s),
                count: self.count.saturating_sub(16 * half).min(16),
                terms: STEP.min(self.terms - s * STEP),
                ..*self
            };
            // SAFETY: the caller's promise; every tile is within a panel.
            unsafe {
                match parts {
                    SplitParts::One => lines.tile::<PAIRS>(to),
                    SplitParts::Three => {
                        let of_tiles = lines.tiles::<PAIRS>(to);
                        greatest = _mm512_max_epu32(greatest, of_tiles);
                    }
                }
            }
        };
        // Adjacent elements one after the other.
        if along_first {
            // Lines of a weight are asked for in memory's order, those of the next tiles while these
            // are packed, which read a little of each.
            let asks = PAIRS && parts == SplitParts::Three;
            for half in 0..halves {
                let (mut line, mut from) = (at(half + 1, 0), 0);
                for s in 0..steps {
                    for _ in 0..if asks { STEP } else { 0 } {
                        _mm_prefetch::<_MM_HINT_T1>(line.wrapping_add(from).cast());
                        from += 64;
                        if from >= 4 * self.terms {
                            (line, from) = (line.wrapping_offset(self.across), 0);
                        }
                    }
                    tile(half, s);
                }
            }
        } else {
            for s in 0..steps {
                for half in 0..halves {
                    tile(half, s);
                }
            }
        }
        _mm512_reduce_max_epu32(greatest)
    }

    /// Packs up to 16 lines of bfloat16 and one step.
    ///
    /// # Safety
    /// The lines must be valid, and `to` have room for a tile.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]
    unsafe fn tile<const PAIRS: bool>(&self, to: *mut u8) {
        let AmxLines {
            ptr: from,
            across,
            along,
            count,
            terms,
        } = *self;
        let mask = ((1u64 << terms) - 1) as u32;
        let line = |l: usize| {
            let from = from.wrapping_offset(l as isize * across);
            let mask = if l < count { mask } else { 0 };
            _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(LINE_AHEAD).cast());
            // SAFETY: the caller's promise; the mask leaves out what is not there.
            unsafe { _mm512_maskz_loadu_epi16(mask, from.cast()) }
        };
        let term = |t: usize| {
            let from = from.wrapping_offset(t as isize * along);
            let mask = if t < terms { first(count) } else { 0 };
            _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(TERM_AHEAD).cast());
            // SAFETY: as above.
            _mm512_cvtepu16_epi32(unsafe { _mm256_maskz_loadu_epi16(mask, from.cast()) })
        };
        let pair =
            |p: usize| _mm512_or_si512(term(2 * p), _mm512_slli_epi32::<16>(term(2 * p + 1)));
        let put = |row: usize, x: __m512i| {
            // SAFETY: the caller's promise.
            unsafe { _mm512_storeu_si512(to.add(64 * row).cast(), x) }
        };
        if along != 2 && across != 2 {
            let mut dense = [0u16; 16 * STEP];
            for l in 0..count {
                for t in 0..terms {
                    let at = from.wrapping_offset(l as isize * across + t as isize * along);
                    // SAFETY: the caller's promise.
                    dense[l * STEP + t] = unsafe { at.cast::<u16>().read() };
                }
            }
            let dense = AmxLines {
                ptr: dense.as_ptr().cast(),
                across: 2 * STEP as isize,
                along: 2,
                ..*self
            };
            // SAFETY: these lines are there, and the room is the caller's promise.
            return unsafe { dense.tile::<PAIRS>(to) };
        }
        match (PAIRS, along == 2) {
            (false, true) => (0..16).for_each(|l| put(l, line(l))),
            (true, false) => (0..16).for_each(|p| put(p, pair(p))),
            (_, adjacent) => {
                let mut rows = [_mm512_setzero_si512(); 16];
                for (i, row) in rows.iter_mut().enumerate() {
                    *row = if adjacent { line(i) } else { pair(i) };
                }
                let rows = transpose(rows);
                (0..16).for_each(|i| put(i, rows[i]));
            }
        }
    }

    /// Packs up to 16 lines of float32 and one step, as a tile of each part. Returns the bits of
    /// magnitudes.
    ///
    /// # Safety
    /// As [`AmxLines::tile`], for three tiles, every other one from `to`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]
    unsafe fn tiles<const PAIRS: bool>(&self, to: *mut u8) -> __m512i {
        let AmxLines {
            ptr,
            across,
            along,
            count,
            terms,
        } = *self;
        let (from, across, along) = (ptr.cast::<f32>(), across / 4, along / 4);
        let mut greatest = _mm512_setzero_si512();
        // What is transposed next, a step further: so many rows at once are not foreseen.
        if !PAIRS && across == 1 {
            for t in STEP..STEP + terms {
                let next = from.wrapping_offset(t as isize * along);
                _mm_prefetch::<_MM_HINT_T1>(next.cast());
            }
        }
        // SAFETY: the caller's promise; the masks leave out what is not there.
        unsafe {
            if PAIRS && across == 1 {
                let mask = first(count);
                for pair in 0..STEP / 2 {
                    let term = |t: usize| {
                        let from = from.wrapping_offset(t as isize * along);
                        let mask = if t < terms { mask } else { 0 };
                        _mm512_maskz_loadu_ps(mask, from)
                    };
                    let (x, y) = (term(2 * pair), term(2 * pair + 1));
                    let to = to.wrapping_add(64 * pair);
                    put_pair(x, y, to, 2 * TILE, &mut greatest);
                }
                return greatest;
            }
            if !PAIRS && along == 1 {
                let masks = [first(terms), first(terms.saturating_sub(16))];
                for l in 0..16 {
                    let from = from.wrapping_offset(l as isize * across);
                    let masks = if l < count { masks } else { [0; 2] };
                    let x = _mm512_maskz_loadu_ps(masks[0], from);
                    let y = _mm512_maskz_loadu_ps(masks[1], from.wrapping_add(16));
                    put_line(x, y, to.wrapping_add(64 * l), &mut greatest);
                }
                return greatest;
            }
            if across == 1 {
                let x = transposed(load(from, along, terms, count));
                let next = from.wrapping_offset(16 * along);
                let y = transposed(load(next, along, terms.saturating_sub(16), count));
                for l in 0..16 {
                    put_line(x[l], y[l], to.wrapping_add(64 * l), &mut greatest);
                }
                return greatest;
            }
            if along == 1 {
                for i in 0..2 {
                    let from = from.wrapping_add(16 * i);
                    let terms = terms.saturating_sub(16 * i);
                    let x = transposed(load(from, across, count, terms));
                    for pair in 0..8 {
                        let to = to.wrapping_add(i * TILE / 2 + 64 * pair);
                        put_pair(x[2 * pair], x[2 * pair + 1], to, 2 * TILE, &mut greatest);
                    }
                }
                return greatest;
            }
            self.gathered::<PAIRS>(to)
        }
    }

    /// [`AmxLines::tiles`] where neither lines nor terms are adjacent. A function of its own, or all
    /// tiles would begin with what this one copies of the lines.
    ///
    /// # Safety
    /// As there.
    #[inline(never)]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]
    unsafe fn gathered<const PAIRS: bool>(&self, to: *mut u8) -> __m512i {
        let mut dense = [0f32; 16 * STEP];
        for l in 0..self.count {
            for t in 0..self.terms {
                let at = l as isize * self.across + t as isize * self.along;
                // SAFETY: the caller's promise.
                dense[l * STEP + t] = unsafe { self.ptr.wrapping_offset(at).cast::<f32>().read() };
            }
        }
        let dense = AmxLines {
            ptr: dense.as_ptr().cast(),
            across: 4 * STEP as isize,
            along: 4,
            ..*self
        };
        // SAFETY: these lines are there, and the room is the caller's promise.
        unsafe { dense.tiles::<PAIRS>(to) }
    }
}

/// The first `width` elements of `count` vectors, zeros beyond.
///
/// # Safety
/// `from` must be valid for those vectors, which are `step` elements apart.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load(from: *const f32, step: isize, count: usize, width: usize) -> [__m512; 16] {
    let mask = first(width);
    let mut x = [_mm512_setzero_ps(); 16];
    // SAFETY: the caller's promise.
    let at =
        |i: usize| unsafe { _mm512_maskz_loadu_ps(mask, from.wrapping_offset(i as isize * step)) };
    // A number that is not a constant would put the vectors into memory.
    if count >= 16 {
        (0..16).for_each(|i| x[i] = at(i));
    } else {
        (0..count).for_each(|i| x[i] = at(i));
    }
    x
}

/// The bfloat16 whose sum a float32 is, each in the upper half of 32 bits. Whoever packs takes the
/// upper half.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn split(x: __m512, greatest: &mut __m512i) -> [__m512i; 3] {
    let bits = _mm512_castps_si512(x);
    let magnitude = _mm512_and_si512(bits, _mm512_set1_epi32(0x7fff_ffff));
    *greatest = _mm512_max_epu32(*greatest, magnitude);
    // To nearest, so that the rest is of either sign and half as large; 16 bits of it are left at
    // most, which are the other two.
    let upper = _mm512_set1_epi32(0xffff_0000u32 as i32);
    let half = _mm512_set1_epi32(0x8000);
    let first = _mm512_and_si512(_mm512_add_epi32(bits, half), upper);
    let rest = _mm512_sub_ps(x, _mm512_castsi512_ps(first));
    let second = _mm512_and_si512(_mm512_castps_si512(rest), upper);
    let third = _mm512_castps_si512(_mm512_sub_ps(rest, _mm512_castsi512_ps(second)));
    [first, second, third]
}

/// Packs the first and second 16 terms of a line.
///
/// # Safety
/// `to` must be valid for a row of a tile, and those of the further parts.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) unsafe fn put_line(x: __m512, y: __m512, to: *mut u8, greatest: &mut __m512i) {
    let (x, y) = (split(x, greatest), split(y, greatest));
    // SAFETY: the caller's promise.
    unsafe { put_parts_of_line(&x, &y, to) };
}

/// The same of terms that are [`split`].
///
/// # Safety
/// As [`put_line`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) unsafe fn put_parts_of_line(x: &[__m512i; 3], y: &[__m512i; 3], to: *mut u8) {
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
        for part in 0..3 {
            let row = _mm512_permutex2var_epi16(x[part], order, y[part]);
            _mm512_storeu_si512(to.add(2 * TILE * part).cast(), row);
        }
    }
}

/// Packs a pair of terms of 16 lines, each part `apart` bytes behind the one before.
///
/// # Safety
/// `to` must be valid for a row of a tile in each part.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) unsafe fn put_pair(
    x: __m512,
    y: __m512,
    to: *mut u8,
    apart: usize,
    greatest: &mut __m512i,
) {
    let (x, y) = (split(x, greatest), split(y, greatest));
    // SAFETY: the caller's promise.
    unsafe { put_parts_of_pair(&x, &y, to, apart) };
}

/// The same of terms that are [`split`].
///
/// # Safety
/// As [`put_pair`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) unsafe fn put_parts_of_pair(
    x: &[__m512i; 3],
    y: &[__m512i; 3],
    to: *mut u8,
    apart: usize,
) {
    for part in 0..3 {
        // The upper halves of the second and, moved down, of the first.
        let row = _mm512_mask_blend_epi16(0xaaaa_aaaa, _mm512_srli_epi32::<16>(x[part]), y[part]);
        // SAFETY: the caller's promise.
        unsafe { _mm512_storeu_si512(to.add(apart * part).cast(), row) };
    }
}

/// Transposes 16 x 16 elements.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn transposed(mut x: [__m512; 16]) -> [__m512; 16] {
    let mut r = [_mm512_setzero_si512(); 16];
    for i in 0..16 {
        r[i] = _mm512_castps_si512(x[i]);
    }
    r = transpose(r);
    for i in 0..16 {
        x[i] = _mm512_castsi512_ps(r[i]);
    }
    x
}

/// The same of any 32 bits.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose(mut r: [__m512i; 16]) -> [__m512i; 16] {
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
    t
}
