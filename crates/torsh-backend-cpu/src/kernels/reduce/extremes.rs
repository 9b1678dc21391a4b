//! The greatest or least of a row of floats, in registers.
//!
//! An instruction's maximum drops a NaN, so those are looked for apart; compilers bring both about for
//! vectors only lane by lane.

pub(super) use crate::machine::tuning::reduce_short::EXTREMES as SHORT;
#[cfg(target_arch = "x86_64")]
use crate::memory::stream;
use crate::simd::Arch;
#[cfg(target_arch = "x86_64")]
use crate::simd::Level;

macro_rules! extreme {
    ($name:ident, $t:ident, $zero:expr, $pick:ident, $load:ident, $all:ident, $compare:ident, $or:ident, $mask:ident,
     |$v:ident| $one:expr) => {
        /// The extreme of `n` numbers, NaN where one is; `None` where there is less than a vector of
        /// them, or nothing to do it with. A row may `fetch` the next one meanwhile.
        ///
        /// # Safety
        /// `x` must be valid for `n` reads.
        #[inline(always)]
        pub(super) unsafe fn $name<A: Arch>(x: *const $t, n: usize, fetch: bool) -> Option<$t> {
            #[cfg(target_arch = "x86_64")]
            if A::LEVEL >= Level::Avx2 && n >= 32 / size_of::<$t>() {
                use std::arch::x86_64::*;
                const LANES: usize = 32 / size_of::<$t>();
                const STEP: usize = 4 * LANES;
                // SAFETY: the level has AVX2; all places are below n.
                unsafe {
                    let low = $all($zero);
                    let (mut best, mut nan) = ([low; 4], [$all(0.0); 4]);
                    let mut i = 0;
                    while i + STEP <= n {
                        if fetch {
                            stream::prefetch_all::<$t, STEP>(x.wrapping_add(n + i));
                        }
                        for k in 0..4 {
                            let v = $load(x.add(i + k * LANES));
                            best[k] = $pick(v, best[k]);
                            nan[k] = $or(nan[k], $compare::<_CMP_UNORD_Q>(v, v));
                        }
                        i += STEP;
                    }
                    while i < n {
                        // The last vector ends with the row; numbers that were seen before change nothing.
                        let v = $load(x.add(i.min(n - LANES)));
                        best[0] = $pick(v, best[0]);
                        nan[0] = $or(nan[0], $compare::<_CMP_UNORD_Q>(v, v));
                        i += LANES;
                    }
                    if $mask($or($or(nan[0], nan[1]), $or(nan[2], nan[3]))) != 0 {
                        return Some($t::NAN);
                    }
                    let $v = $pick($pick(best[3], best[1]), $pick(best[2], best[0]));
                    return Some($one);
                }
            }
            let _ = (x, n, fetch);
            None
        }
    };
}

macro_rules! both {
    ($f32:ident, $f64:ident, $zero:ident, $ps:ident, $ss:ident, $pd:ident, $sd:ident, $ps4:ident, $pd2:ident) => {
        extreme!(
            $f32,
            f32,
            f32::$zero,
            $ps,
            _mm256_loadu_ps,
            _mm256_set1_ps,
            _mm256_cmp_ps,
            _mm256_or_ps,
            _mm256_movemask_ps,
            |v| {
                let v = $ps4(_mm256_extractf128_ps::<1>(v), _mm256_castps256_ps128(v));
                let v = $ps4(_mm_movehl_ps(v, v), v);
                _mm_cvtss_f32($ss(_mm_movehdup_ps(v), v))
            }
        );
        extreme!(
            $f64,
            f64,
            f64::$zero,
            $pd,
            _mm256_loadu_pd,
            _mm256_set1_pd,
            _mm256_cmp_pd,
            _mm256_or_pd,
            _mm256_movemask_pd,
            |v| {
                let v = $pd2(_mm256_extractf128_pd::<1>(v), _mm256_castpd256_pd128(v));
                _mm_cvtsd_f64($sd(_mm_unpackhi_pd(v, v), v))
            }
        );
    };
}

both!(
    most_f32,
    most_f64,
    NEG_INFINITY,
    _mm256_max_ps,
    _mm_max_ss,
    _mm256_max_pd,
    _mm_max_sd,
    _mm_max_ps,
    _mm_max_pd
);
both!(
    least_f32,
    least_f64,
    INFINITY,
    _mm256_min_ps,
    _mm_min_ss,
    _mm256_min_pd,
    _mm_min_sd,
    _mm_min_ps,
    _mm_min_pd
);

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::simd::{Avx2, level};

    #[target_feature(enable = "avx2,fma")]
    unsafe fn all(x: &[f32], wide: &[f64]) -> [Option<f64>; 4] {
        let n = x.len();
        // SAFETY: the slices are valid; the level has AVX2.
        unsafe {
            [
                most_f32::<Avx2>(x.as_ptr(), n, false).map(f64::from),
                least_f32::<Avx2>(x.as_ptr(), n, false).map(f64::from),
                most_f64::<Avx2>(wide.as_ptr(), n, false),
                least_f64::<Avx2>(wide.as_ptr(), n, false),
            ]
        }
    }

    #[test]
    fn every_place_counts_and_a_nan_is_never_lost() {
        if level() < Level::Avx2 {
            return;
        }
        for n in 1..150 {
            for at in 0..n {
                for v in [1e9f32, -1e9, f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
                    let mut x: Vec<f32> = (0..n).map(|i| (i * 37 % 101) as f32 - 50.0).collect();
                    x[at] = v;
                    let wide: Vec<f64> = x.iter().map(|&v| f64::from(v)).collect();
                    let most = wide.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    let least = wide.iter().copied().fold(f64::INFINITY, f64::min);
                    // SAFETY: the level has AVX2.
                    let got = unsafe { all(&x, &wide) };
                    for (k, want) in [most, least, most, least].into_iter().enumerate() {
                        match got[k] {
                            Some(got) if v.is_nan() => assert!(got.is_nan(), "{n} {at} {k}"),
                            Some(got) => assert_eq!(got, want, "{n} {at} {k}"),
                            None => assert!(n < [8, 8, 4, 4][k]),
                        }
                    }
                }
            }
        }
    }
}
