//! The greatest or least of a row of floats, in registers.
//!
//! An instruction's maximum drops a NaN, so those are looked for apart; compilers bring both about for
//! vectors only lane by lane.

pub(super) use crate::machine::tuning::reduce_short::EXTREMES as SHORT;
use crate::memory::stream;
use crate::scalar::Real;
use crate::simd::{Arch, FloatVector, Level, Vector, Vectors};

/// Vectors that are compared side by side.
const WAYS: usize = 4;

/// The largest of `n` numbers, NaN where one is; `None` where there is less than a vector of them, and where the level
/// has no vectors. A row may `fetch` the next one meanwhile.
///
/// # Safety
/// `x` must be valid for `n` reads.
#[inline(always)]
pub(super) unsafe fn largest<A: Arch, T: Vectors>(x: *const T, n: usize, fetch: bool) -> Option<T> {
    if A::LEVEL == Level::Base || n < <T::Short<A> as Vector>::N {
        return None;
    }
    // SAFETY: the caller's promise; the code is compiled for the level.
    Some(unsafe { extreme::<T::Short<A>, true>(x, n, fetch) })
}

/// [`largest`] of the smallest.
///
/// # Safety
/// As there.
#[inline(always)]
pub(super) unsafe fn smallest<A: Arch, T: Vectors>(
    x: *const T,
    n: usize,
    fetch: bool,
) -> Option<T> {
    if A::LEVEL == Level::Base || n < <T::Short<A> as Vector>::N {
        return None;
    }
    // SAFETY: the caller's promise; the code is compiled for the level.
    Some(unsafe { extreme::<T::Short<A>, false>(x, n, fetch) })
}

/// # Safety
/// `x` must be valid for `n` reads, at least a vector; the caller is compiled for the vectors.
#[inline(always)]
unsafe fn extreme<V: FloatVector, const LARGEST: bool>(
    x: *const V::T,
    n: usize,
    fetch: bool,
) -> V::T {
    // SAFETY: the caller's promise; all places are below n.
    unsafe {
        let of = |a: V, b: V| if LARGEST { a.max(b) } else { a.min(b) };
        let first = V::load(x);
        let (mut best, mut nan) = ([first; WAYS], [V::splat(V::T::ZERO); WAYS]);
        let mut i = 0;
        while i + WAYS * V::N <= n {
            if fetch {
                stream::prefetch_all::<u8, 128>(x.wrapping_add(n + i).cast());
            }
            for k in 0..WAYS {
                let v = V::load(x.add(i + k * V::N));
                best[k] = of(v, best[k]);
                nan[k] = nan[k].or_nan(v);
            }
            i += WAYS * V::N;
        }
        while i < n {
            // The last vector ends with the row; numbers that were seen before change nothing.
            let v = V::load(x.add(i.min(n - V::N)));
            best[0] = of(v, best[0]);
            nan[0] = nan[0].or_nan(v);
            i += V::N;
        }
        if V::any_nan(nan) {
            return V::T::NAN;
        }
        let all = of(of(best[3], best[1]), of(best[2], best[0]));
        if LARGEST {
            all.reduce_max()
        } else {
            all.reduce_min()
        }
    }
}

#[cfg(all(feature = "unit-tests", target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::simd::{Avx2, level};

    #[target_feature(enable = "avx2,fma")]
    unsafe fn all(x: &[f32], wide: &[f64]) -> [Option<f64>; 4] {
        let n = x.len();
        // SAFETY: the slices are valid; the level has AVX2.
        unsafe {
            [
                largest::<Avx2, f32>(x.as_ptr(), n, false).map(f64::from),
                smallest::<Avx2, f32>(x.as_ptr(), n, false).map(f64::from),
                largest::<Avx2, f64>(wide.as_ptr(), n, false),
                smallest::<Avx2, f64>(wide.as_ptr(), n, false),
            ]
        }
    }

    #[torsh_macros::unit_test]
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
