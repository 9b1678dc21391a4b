//! Blocks in registers: rows are interleaved in pairs, then pairs of pairs, until a
//! register holds a column. Rows are `from` bytes apart in the input, `to` in the output.
//!
//! Intrinsics: Elements of 1 and 2 bytes are interleaved, and lines of integers and floats stored past the caches.

use std::arch::x86_64::*;

/// 8 x 8 elements of 1 byte.
///
/// # Safety
/// Both blocks must be valid.
pub(super) unsafe fn block8_of_1(src: *const u8, from: isize, dst: *mut u8, to: isize) {
    // SAFETY: the caller's promise; SSE2 is part of x86-64.
    unsafe {
        let row = |i: isize| _mm_loadl_epi64(src.wrapping_offset(from * i) as *const __m128i);
        let two = |i| _mm_unpacklo_epi8(row(i), row(i + 1));
        let (a, b, c, d) = (two(0), two(2), two(4), two(6));
        let (ab0, ab1) = (_mm_unpacklo_epi16(a, b), _mm_unpackhi_epi16(a, b));
        let (cd0, cd1) = (_mm_unpacklo_epi16(c, d), _mm_unpackhi_epi16(c, d));
        let columns = [
            _mm_unpacklo_epi32(ab0, cd0),
            _mm_unpackhi_epi32(ab0, cd0),
            _mm_unpacklo_epi32(ab1, cd1),
            _mm_unpackhi_epi32(ab1, cd1),
        ];
        for (j, v) in columns.into_iter().enumerate() {
            let at = dst.wrapping_offset(to * 2 * j as isize);
            _mm_storel_epi64(at as *mut __m128i, v);
            let next = at.wrapping_offset(to);
            _mm_storel_epi64(next as *mut __m128i, _mm_unpackhi_epi64(v, v));
        }
    }
}

/// 8 x 8 elements of 2 bytes.
///
/// # Safety
/// Both blocks must be valid.
pub(super) unsafe fn block8_of_2(src: *const u8, from: isize, dst: *mut u8, to: isize) {
    // SAFETY: the caller's promise; SSE2 is part of x86-64.
    unsafe {
        let row = |i: isize| _mm_loadu_si128(src.wrapping_offset(from * i) as *const __m128i);
        let four = |i: isize| {
            let (a, b, c, d) = (row(i), row(i + 1), row(i + 2), row(i + 3));
            let (ab0, ab1) = (_mm_unpacklo_epi16(a, b), _mm_unpackhi_epi16(a, b));
            let (cd0, cd1) = (_mm_unpacklo_epi16(c, d), _mm_unpackhi_epi16(c, d));
            [
                _mm_unpacklo_epi32(ab0, cd0),
                _mm_unpackhi_epi32(ab0, cd0),
                _mm_unpacklo_epi32(ab1, cd1),
                _mm_unpackhi_epi32(ab1, cd1),
            ]
        };
        for (j, (x, y)) in four(0).into_iter().zip(four(4)).enumerate() {
            let at = dst.wrapping_offset(to * 2 * j as isize);
            _mm_storeu_si128(at as *mut __m128i, _mm_unpacklo_epi64(x, y));
            let next = at.wrapping_offset(to);
            _mm_storeu_si128(next as *mut __m128i, _mm_unpackhi_epi64(x, y));
        }
    }
}

/// Two registers side by side, a cache line, past the caches if `STREAM`.
///
/// # Safety
/// 64 bytes must be writable, at a multiple of 32 if `STREAM`, and the machine must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn put<const STREAM: bool>(dst: *mut u8, a: __m256, b: __m256) {
    let dst = dst as *mut f32;
    // SAFETY: the caller's promise.
    unsafe {
        if STREAM {
            _mm256_stream_ps(dst, a);
            _mm256_stream_ps(dst.add(8), b);
        } else {
            _mm256_storeu_ps(dst, a);
            _mm256_storeu_ps(dst.add(8), b);
        }
    }
}

/// 16 rows of 8 elements of 4 bytes: 8 whole lines of the output.
///
/// # Safety
/// Both blocks must be valid, the output's lines aligned to 32 bytes if `STREAM`, and the machine
/// must have AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn lines_of_4<const STREAM: bool>(
    src: *const u8,
    from: isize,
    dst: *mut u8,
    to: isize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let row = |i: isize| _mm256_loadu_ps(src.wrapping_offset(from * i) as *const f32);
        let four = |i: isize| {
            let (a, b, c, d) = (row(i), row(i + 1), row(i + 2), row(i + 3));
            let (ab0, ab1) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
            let (cd0, cd1) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
            [
                _mm256_shuffle_ps::<0x44>(ab0, cd0),
                _mm256_shuffle_ps::<0xee>(ab0, cd0),
                _mm256_shuffle_ps::<0x44>(ab1, cd1),
                _mm256_shuffle_ps::<0xee>(ab1, cd1),
            ]
        };
        // Each holds column j of four rows in its lower half, column j + 4 in its upper one.
        let (x, y, z, w) = (four(0), four(4), four(8), four(12));
        for j in 0..4 {
            let at = dst.wrapping_offset(to * j as isize);
            put::<STREAM>(
                at,
                _mm256_permute2f128_ps::<0x20>(x[j], y[j]),
                _mm256_permute2f128_ps::<0x20>(z[j], w[j]),
            );
            put::<STREAM>(
                at.wrapping_offset(to * 4),
                _mm256_permute2f128_ps::<0x31>(x[j], y[j]),
                _mm256_permute2f128_ps::<0x31>(z[j], w[j]),
            );
        }
    }
}

/// 8 rows of 4 elements of 8 bytes: 4 whole lines of the output.
///
/// # Safety
/// As [`lines_of_4`].
#[target_feature(enable = "avx2")]
pub(super) unsafe fn lines_of_8<const STREAM: bool>(
    src: *const u8,
    from: isize,
    dst: *mut u8,
    to: isize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let row = |i: isize| _mm256_loadu_pd(src.wrapping_offset(from * i) as *const f64);
        let two = |i: isize| {
            let (a, b) = (row(i), row(i + 1));
            [_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b)]
        };
        let (x, y, z, w) = (two(0), two(2), two(4), two(6));
        for j in 0..2 {
            let at = dst.wrapping_offset(to * j as isize);
            let low = |a, b| _mm256_castpd_ps(_mm256_permute2f128_pd::<0x20>(a, b));
            let high = |a, b| _mm256_castpd_ps(_mm256_permute2f128_pd::<0x31>(a, b));
            put::<STREAM>(at, low(x[j], y[j]), low(z[j], w[j]));
            let next = at.wrapping_offset(to * 2);
            put::<STREAM>(next, high(x[j], y[j]), high(z[j], w[j]));
        }
    }
}
