//! The sum of a short row of floats, in registers.
//!
//! Compilers bring the lanes of a row that is no multiple of them about by way of memory, which takes
//! longer than such a row's additions.

pub(super) use crate::machine::tuning::reduce_short::SUMS as SHORT;
#[cfg(target_arch = "x86_64")]
use crate::memory::stream;
use crate::simd::Arch;
#[cfg(target_arch = "x86_64")]
use crate::simd::Level;

/// From the eighth but `n` on, the mask of a vector's first `n` 32-bit lanes.
#[cfg(target_arch = "x86_64")]
const MASKS: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

macro_rules! sum {
    ($name:ident, $t:ident, $short:literal, $zero:ident, $load:ident, $masked:ident, $add:ident, |$v:ident| $one:expr) => {
        /// The sum of `n` numbers in eight vectors, which are joined as the lanes of longer rows are; `None`
        /// for rows so long that lanes are as fast, and where there is nothing to do it with. A row may
        /// `fetch` the next one meanwhile.
        ///
        /// # Safety
        /// `x` must be valid for `n` reads.
        #[inline(always)]
        pub(super) unsafe fn $name<A: Arch>(x: *const $t, n: usize, fetch: bool) -> Option<$t> {
            #[cfg(target_arch = "x86_64")]
            if A::LEVEL >= Level::Avx2 && n < $short {
                use std::arch::x86_64::*;
                const LANES: usize = 32 / size_of::<$t>();
                const STEP: usize = 8 * LANES;
                // SAFETY: the level has AVX2; all places are below n.
                unsafe {
                    let mut sums = [$zero(); 8];
                    let mut i = 0;
                    while i + STEP <= n {
                        if fetch {
                            stream::prefetch_all::<$t, STEP>(x.wrapping_add(n + i));
                        }
                        for k in 0..8 {
                            sums[k] = $add(sums[k], $load(x.add(i + k * LANES)));
                        }
                        i += STEP;
                    }
                    for k in 0..8 {
                        if i + LANES > n {
                            break;
                        }
                        sums[k] = $add(sums[k], $load(x.add(i)));
                        i += LANES;
                    }
                    if i < n {
                        // At most seven whole vectors were left: the last sums took none of them.
                        let mask = MASKS.as_ptr().add(8 - (n - i) * (8 / LANES)).cast();
                        sums[7] = $add(sums[7], $masked(x.add(i), _mm256_loadu_si256(mask)));
                    }
                    let two = |k: usize| $add(sums[k], sums[k + 4]);
                    let $v = $add($add(two(0), two(2)), $add(two(1), two(3)));
                    return Some($one);
                }
            }
            let _ = (x, n, fetch);
            None
        }
    };
}

sum!(
    sum_f32,
    f32,
    256,
    _mm256_setzero_ps,
    _mm256_loadu_ps,
    _mm256_maskload_ps,
    _mm256_add_ps,
    |v| {
        let v = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
        let v = _mm_add_ps(v, _mm_movehl_ps(v, v));
        _mm_cvtss_f32(_mm_add_ss(v, _mm_movehdup_ps(v)))
    }
);
sum!(
    sum_f64,
    f64,
    512,
    _mm256_setzero_pd,
    _mm256_loadu_pd,
    _mm256_maskload_pd,
    _mm256_add_pd,
    |v| {
        let v = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd::<1>(v));
        _mm_cvtsd_f64(_mm_add_sd(v, _mm_unpackhi_pd(v, v)))
    }
);

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::simd::{Avx2, level};

    #[target_feature(enable = "avx2,fma")]
    unsafe fn both(x: &[f32], wide: &[f64]) -> [Option<f64>; 2] {
        // SAFETY: the slices are valid; the level has AVX2.
        unsafe {
            [
                sum_f32::<Avx2>(x.as_ptr(), x.len(), false).map(f64::from),
                sum_f64::<Avx2>(wide.as_ptr(), wide.len(), false),
            ]
        }
    }

    #[test]
    fn every_place_counts_once() {
        if level() < Level::Avx2 {
            return;
        }
        for n in 0..600 {
            // What follows is not read into the sum.
            let mut all = vec![f32::NAN; n + 8];
            for (i, v) in all[..n].iter_mut().enumerate() {
                *v = (i * 37 % 101) as f32 - 50.0;
            }
            let wide: Vec<f64> = all.iter().map(|&v| f64::from(v)).collect();
            let want = wide[..n].iter().sum::<f64>();
            // SAFETY: the level has AVX2.
            let got = unsafe { both(&all[..n], &wide[..n]) };
            assert_eq!(got[0], (n < 256).then_some(want), "{n}");
            assert_eq!(got[1], (n < 512).then_some(want), "{n}");
            for at in [0, n / 2, n.saturating_sub(1)] {
                if n > 0 {
                    let (mut x, mut y) = (all[..n].to_vec(), wide[..n].to_vec());
                    (x[at], y[at]) = (f32::NAN, f64::NAN);
                    // SAFETY: as above.
                    let got = unsafe { both(&x, &y) };
                    assert!(got.iter().flatten().all(|v| v.is_nan()), "{n} {at}");
                }
            }
        }
    }
}
