//! Sums over rows, in lanes that become vectors.
//!
//! Loops count indices: iterators over arrays of lanes are not always seen through, and leave the
//! lanes in memory.

use std::hint::black_box;

use crate::scalar::Real;
use crate::simd::Arch;
#[cfg(target_arch = "x86_64")]
use crate::simd::Level;

/// Lanes of a sum: as many vectors as additions overlap.
pub(crate) const LANES: usize = 32;
/// A rest of this many elements still goes to lanes.
const HALF: usize = LANES / 2;

/// The sum of `f(i)` for `i` below `n`: in lanes, then in float64.
#[inline(always)]
pub(crate) fn sum<T: Real>(n: usize, f: impl Fn(usize) -> T) -> f64 {
    sum_with(n, |_| (), f)
}

/// [`sum`], calling `each` before each [`LANES`] elements, with the first's index.
#[inline(always)]
pub(crate) fn sum_with<T: Real>(n: usize, each: impl Fn(usize), f: impl Fn(usize) -> T) -> f64 {
    let mut total = 0.0;
    let mut i = 0;
    // Blocks short enough that float32 lanes stay exact to a few units.
    while i < n {
        let end = n.min(i + 64 * LANES);
        let mut acc = [T::ZERO; LANES];
        while i + LANES <= end {
            each(i);
            for l in 0..LANES {
                acc[l] = acc[l] + f(i + l);
            }
            i += LANES;
        }
        let mut acc = apart(acc);
        if i + HALF <= end {
            for l in 0..HALF {
                acc[l] = acc[l] + f(i + l);
            }
            i += HALF;
        }
        if i + HALF / 2 <= end {
            for l in 0..HALF / 2 {
                acc[l] = acc[l] + f(i + l);
            }
            i += HALF / 2;
        }
        if i + HALF / 4 <= end {
            for l in 0..HALF / 4 {
                acc[l] = acc[l] + f(i + l);
            }
            i += HALF / 4;
        }
        total += total_of(acc, T::to_f64);
        while i < end {
            total += f(i).to_f64();
            i += 1;
        }
    }
    total
}

/// The sum of lanes that are [`apart`], in float64.
#[inline(always)]
pub(crate) fn total_of<T: Copy, const N: usize>(lanes: [T; N], wide: impl Fn(T) -> f64) -> f64 {
    let mut wider = [0.0; N];
    for l in 0..N {
        wider[l] = wide(lanes[l]);
    }
    tree(wider, |a, b| a + b)
}

/// The lanes joined two by two, `N` being a power of 2: whole vectors down to one, whose lanes are
/// the few that are read one by one.
#[inline(always)]
pub(crate) fn tree<T: Copy, const N: usize>(lanes: [T; N], f: impl Fn(T, T) -> T) -> T {
    const FEW: usize = 16;
    let mut lanes = apart(lanes);
    if N <= FEW {
        return join(lanes, f);
    }
    let mut half = N / 2;
    while half >= FEW {
        for l in 0..half {
            lanes[l] = f(lanes[l], lanes[l + half]);
        }
        half /= 2;
    }
    let mut few = [lanes[0]; FEW];
    few.copy_from_slice(&lanes[..FEW]);
    let few = apart(few);
    // Not `join`, which LLVM turns into lanes written and read back.
    let eight = |l: usize| f(few[l], few[l + 8]);
    let four = |l: usize| f(eight(l), eight(l + 4));
    f(f(four(0), four(2)), f(four(1), four(3)))
}

/// [`tree`] of a sum of float32: in registers, where that many lanes fill eight of AVX2.
#[inline(always)]
pub(crate) fn sum_f32<A: Arch, const N: usize>(lanes: [f32; N]) -> f32 {
    #[cfg(target_arch = "x86_64")]
    if A::LEVEL >= Level::Avx2 && N == 64 {
        // SAFETY: there are 64 numbers; the level has AVX2.
        return unsafe { sum_of_64(lanes.as_ptr()) };
    }
    tree(lanes, |a, b| a + b)
}

/// [`tree`] of a sum of float64.
#[inline(always)]
pub(crate) fn sum_f64<A: Arch, const N: usize>(lanes: [f64; N]) -> f64 {
    tree(lanes, |a, b| a + b)
}

/// # Safety
/// The processor has AVX2; `x` must be valid for 64 reads.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn sum_of_64(x: *const f32) -> f32 {
    use std::arch::x86_64::*;
    // SAFETY: the caller's promise.
    unsafe {
        let two = |k: usize| {
            _mm256_add_ps(
                _mm256_loadu_ps(x.add(8 * k)),
                _mm256_loadu_ps(x.add(8 * k + 32)),
            )
        };
        let all = _mm256_add_ps(_mm256_add_ps(two(0), two(2)), _mm256_add_ps(two(1), two(3)));
        let four = _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps::<1>(all));
        let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
    }
}

/// Lanes by way of memory: LLVM otherwise makes the loop that filled them of the pairs in which
/// they are joined, with vectors of two.
#[inline(always)]
pub(crate) fn apart<T: Copy, const N: usize>(lanes: [T; N]) -> [T; N] {
    black_box(lanes)
}

#[inline(always)]
fn join<T: Copy, const N: usize>(mut lanes: [T; N], f: impl Fn(T, T) -> T) -> T {
    let mut half = N / 2;
    while half > 0 {
        for l in 0..half {
            lanes[l] = f(lanes[l], lanes[l + half]);
        }
        half /= 2;
    }
    lanes[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Avx2, Base, level};
    use std::cell::Cell;

    #[test]
    fn every_element_is_added_once() {
        for n in (0..100usize).chain([2047, 2048, 2049, 5000]) {
            let want = (n * n.saturating_sub(1) / 2) as f64;
            assert_eq!(sum(n, |i| i as f32), want, "{n}");
            assert_eq!(sum(n, |i| i as f64), want, "{n}");
        }
    }

    #[test]
    fn each_is_called_for_whole_groups() {
        let calls = Cell::new(0);
        let each = |i: usize| calls.set(calls.get() + i + 1);
        assert_eq!(sum_with(3 * LANES + 1, each, |_| 1.0f32), 97.0);
        assert_eq!(calls.get(), 3 + LANES + 2 * LANES);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn in_registers(lanes: [f32; 64]) -> f32 {
        sum_f32::<Avx2, 64>(lanes)
    }

    #[test]
    fn a_tree_joins_every_lane() {
        let lanes: [f32; 64] = std::array::from_fn(|i| (i * 37 % 64) as f32);
        assert_eq!(tree(lanes, |a, b| a + b), 2016.0);
        assert_eq!(tree(lanes, |a, b| if b > a { b } else { a }), 63.0);
        assert_eq!(tree([5.0], |_, _| 0.0), 5.0);
        assert_eq!(sum_f32::<Base, 64>(lanes), 2016.0);
        #[cfg(target_arch = "x86_64")]
        if level() >= Level::Avx2 {
            // SAFETY: the level has AVX2.
            assert_eq!(unsafe { in_registers(lanes) }, 2016.0);
        }
    }

    #[test]
    fn nan_and_infinity_pass() {
        assert!(sum(77, |i| if i == 70 { f32::NAN } else { 0.0 }).is_nan());
        assert_eq!(
            sum(50, |i| if i == 3 { f32::INFINITY } else { 1.0 }),
            f64::INFINITY
        );
    }
}
