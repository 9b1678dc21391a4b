//! The sum of a short row of floats, in registers.
//!
//! Compilers bring the lanes of a row that is no multiple of them about by way of memory, which takes
//! longer than such a row's additions.

pub(super) use crate::machine::tuning::reduce_short::SUMS as SHORT;
use crate::machine::tuning::reduce_short::{VECTORS_F32, VECTORS_F64};
use crate::memory::stream;
use crate::scalar::Real;
use crate::simd::{Arch, FloatVector, Level, Vector, Vectors, lanes};

/// The sum of `n` numbers in 64 lanes (32 of float64), which are joined as the lanes of longer rows are; `None` for
/// rows so long that those are as fast, and where the level has no vectors. A row may `fetch` the
/// next one meanwhile.
///
/// # Safety
/// `x` must be valid for `n` reads.
#[inline(always)]
pub(super) unsafe fn sum<A: Arch, T: Vectors>(x: *const T, n: usize, fetch: bool) -> Option<T> {
    let long = if size_of::<T>() == 4 {
        VECTORS_F32
    } else {
        VECTORS_F64
    };
    if A::LEVEL == Level::Base || n >= long {
        return None;
    }
    // SAFETY: the caller's promise; the code is compiled for the level.
    unsafe {
        match <T::Short<A> as Vector>::N * size_of::<T>() {
            32 => Some(in_vectors::<T::Short<A>, 8>(x, n, fetch)),
            _ => Some(in_vectors::<T::Short<A>, 16>(x, n, fetch)),
        }
    }
}

/// [`sum`] in `K` vectors.
#[inline(always)]
unsafe fn in_vectors<V: FloatVector, const K: usize>(
    x: *const V::T,
    n: usize,
    fetch: bool,
) -> V::T {
    let step = K * V::N;
    // SAFETY: the caller's promise; all places are below n.
    unsafe {
        let zero = V::splat(V::T::ZERO);
        let mut sums = [zero; K];
        let mut i = 0;
        while i + step <= n {
            if fetch {
                stream::prefetch_all::<u8, 256>(x.wrapping_add(n + i).cast());
            }
            for k in 0..K {
                sums[k] = sums[k].add(V::load(x.add(i + k * V::N)));
            }
            i += step;
        }
        for k in 0..K {
            if i + V::N > n {
                break;
            }
            sums[k] = sums[k].add(V::load(x.add(i)));
            i += V::N;
        }
        if i < n {
            // At most K - 1 whole vectors were left: the last sums took none of them.
            sums[K - 1] = sums[K - 1].add(V::load_part(x.add(i), 0, n - i, zero));
        }
        lanes::joined(sums).reduce_sum()
    }
}

#[cfg(all(feature = "unit-tests", target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::simd::{Avx2, level};

    #[target_feature(enable = "avx2,fma")]
    unsafe fn both(x: &[f32], wide: &[f64]) -> [Option<f64>; 2] {
        // SAFETY: the slices are valid; the level has AVX2.
        unsafe {
            [
                sum::<Avx2, f32>(x.as_ptr(), x.len(), false).map(f64::from),
                sum::<Avx2, f64>(wide.as_ptr(), wide.len(), false),
            ]
        }
    }

    #[torsh_macros::unit_test]
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
