//! Squares of vectors, transposed with each instruction set's shuffles.

use pulp::Simd;
use pulp::bytemuck::{self, Pod};

use super::MOST;

/// An instruction set that transposes.
pub(super) trait Square: Simd {
    /// Transposes the square of the first rows, as many as a row has float32 numbers.
    #[inline(always)]
    fn single(self, rows: &mut [Self::f32s; MOST]) {
        plain::<f32, _>(rows, Self::F32_LANES);
    }
    /// As [`Square::single`], of float64.
    #[inline(always)]
    fn double(self, rows: &mut [Self::f64s; MOST]) {
        plain::<f64, _>(rows, Self::F64_LANES);
    }
}

/// Element by element.
#[inline(always)]
#[cfg_attr(target_arch = "x86_64", allow(dead_code))] // x86-64 has shuffles for both.
fn plain<T: Pod, V: Pod>(rows: &mut [V; MOST], n: usize) {
    let all: &mut [T] = bytemuck::cast_slice_mut(&mut rows[..n]);
    for i in 0..n {
        for j in 0..i {
            all.swap(i * n + j, j * n + i);
        }
    }
}

#[cfg(target_arch = "aarch64")]
impl Square for pulp::aarch64::Neon {}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{__m256, __m256d, __m512, __m512d};

    use pulp::bytemuck::cast;
    use pulp::x86::{V3, V4};
    use pulp::{f32x8, f32x16, f64x4, f64x8};

    use super::{MOST, Square};

    impl Square for V3 {
        #[inline(always)]
        fn single(self, rows: &mut [f32x8; MOST]) {
            let simd = self.avx;
            let mut r: [__m256; 8] = std::array::from_fn(|i| cast(rows[i]));
            // Pairs of rows, then fours; then the halves of the registers change places.
            let mut t = r;
            for i in 0..4 {
                t[2 * i] = simd._mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
                t[2 * i + 1] = simd._mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
            }
            for i in 0..2 {
                for h in 0..2 {
                    let (a, b): (__m256d, __m256d) = (cast(t[4 * i + h]), cast(t[4 * i + 2 + h]));
                    r[4 * i + 2 * h] = cast(simd._mm256_unpacklo_pd(a, b));
                    r[4 * i + 2 * h + 1] = cast(simd._mm256_unpackhi_pd(a, b));
                }
            }
            for c in 0..4 {
                rows[c] = cast(simd._mm256_permute2f128_ps::<0x20>(r[c], r[4 + c]));
                rows[4 + c] = cast(simd._mm256_permute2f128_ps::<0x31>(r[c], r[4 + c]));
            }
        }

        #[inline(always)]
        fn double(self, rows: &mut [f64x4; MOST]) {
            let simd = self.avx;
            let r: [__m256d; 4] = std::array::from_fn(|i| cast(rows[i]));
            for h in 0..2 {
                let pair = |i: usize| match h {
                    0 => simd._mm256_unpacklo_pd(r[i], r[i + 1]),
                    _ => simd._mm256_unpackhi_pd(r[i], r[i + 1]),
                };
                let (a, b) = (pair(0), pair(2));
                rows[h] = cast(simd._mm256_permute2f128_pd::<0x20>(a, b));
                rows[2 + h] = cast(simd._mm256_permute2f128_pd::<0x31>(a, b));
            }
        }
    }

    impl Square for V4 {
        #[inline(always)]
        fn single(self, rows: &mut [f32x16; MOST]) {
            let simd = self.avx512f;
            let mut r: [__m512; 16] = std::array::from_fn(|i| cast(rows[i]));
            // Pairs of rows, fours, then quarters of registers, twice.
            let mut t = r;
            for i in 0..8 {
                t[2 * i] = simd._mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
                t[2 * i + 1] = simd._mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
            }
            for i in 0..4 {
                for h in 0..2 {
                    let (a, b): (__m512d, __m512d) = (cast(t[4 * i + h]), cast(t[4 * i + 2 + h]));
                    r[4 * i + 2 * h] = cast(simd._mm512_unpacklo_pd(a, b));
                    r[4 * i + 2 * h + 1] = cast(simd._mm512_unpackhi_pd(a, b));
                }
            }
            for c in 0..4 {
                let even = |i: usize| simd._mm512_shuffle_f32x4::<0x88>(r[i + c], r[i + 4 + c]);
                let odd = |i: usize| simd._mm512_shuffle_f32x4::<0xdd>(r[i + c], r[i + 4 + c]);
                let (e0, e1, o0, o1) = (even(0), even(8), odd(0), odd(8));
                rows[c] = cast(simd._mm512_shuffle_f32x4::<0x88>(e0, e1));
                rows[8 + c] = cast(simd._mm512_shuffle_f32x4::<0xdd>(e0, e1));
                rows[4 + c] = cast(simd._mm512_shuffle_f32x4::<0x88>(o0, o1));
                rows[12 + c] = cast(simd._mm512_shuffle_f32x4::<0xdd>(o0, o1));
            }
        }

        #[inline(always)]
        fn double(self, rows: &mut [f64x8; MOST]) {
            let simd = self.avx512f;
            let r: [__m512d; 8] = std::array::from_fn(|i| cast(rows[i]));
            for h in 0..2 {
                let pair = |i: usize| match h {
                    0 => simd._mm512_unpacklo_pd(r[i], r[i + 1]),
                    _ => simd._mm512_unpackhi_pd(r[i], r[i + 1]),
                };
                let (a, b, c, d) = (pair(0), pair(2), pair(4), pair(6));
                let e0 = simd._mm512_shuffle_f64x2::<0x88>(a, b);
                let e1 = simd._mm512_shuffle_f64x2::<0x88>(c, d);
                let o0 = simd._mm512_shuffle_f64x2::<0xdd>(a, b);
                let o1 = simd._mm512_shuffle_f64x2::<0xdd>(c, d);
                rows[h] = cast(simd._mm512_shuffle_f64x2::<0x88>(e0, e1));
                rows[4 + h] = cast(simd._mm512_shuffle_f64x2::<0xdd>(e0, e1));
                rows[2 + h] = cast(simd._mm512_shuffle_f64x2::<0x88>(o0, o1));
                rows[6 + h] = cast(simd._mm512_shuffle_f64x2::<0xdd>(o0, o1));
            }
        }
    }
}
