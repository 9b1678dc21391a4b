//! Sums over rows, in lanes that become vectors.
//!
//! Loops count indices: iterators over arrays of lanes are not always seen through, and leave the
//! lanes in memory.

use std::hint::black_box;

use crate::scalar::Real;
use crate::simd::{Arch, FloatVector, Level, Vector, Vectors};

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

/// [`tree`] of a sum: in registers, where that many lanes of float32 fill a loop's vectors.
#[inline(always)]
pub(crate) fn sum_of<A: Arch, T: Vectors, const N: usize>(lanes: [T; N]) -> T {
    if A::LEVEL != Level::Base && size_of::<T>() == 4 && N == 64 {
        // SAFETY: there are 64 numbers; the code is compiled for the level.
        return unsafe {
            match <T::Short<A> as Vector>::N {
                8 => in_registers::<T::Short<A>, 8>(lanes.as_ptr()),
                _ => in_registers::<T::Short<A>, 16>(lanes.as_ptr()),
            }
        };
    }
    tree(lanes, |a, b| a + b)
}

/// # Safety
/// `x` must be valid for `K` vectors; the caller is compiled for them.
#[inline(always)]
unsafe fn in_registers<V: FloatVector, const K: usize>(x: *const V::T) -> V::T {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [V::load(x); K];
        for k in 1..K {
            sums[k] = V::load(x.add(k * V::N));
        }
        joined(sums).reduce_sum()
    }
}

/// The sum of vectors in the order of [`tree`]: the upper half of them is added to the lower one until one is left.
///
/// # Safety
/// The caller is compiled for the vectors.
#[inline(always)]
pub(crate) unsafe fn joined<V: FloatVector, const K: usize>(mut sums: [V; K]) -> V {
    let mut half = K / 2;
    while half > 0 {
        for k in 0..half {
            // SAFETY: the caller's promise.
            sums[k] = unsafe { sums[k].add(sums[k + half]) };
        }
        half /= 2;
    }
    sums[0]
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

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::simd::Base;
    #[cfg(target_arch = "x86_64")]
    use crate::simd::{Avx2, level};
    use std::cell::Cell;

    #[torsh_macros::unit_test]
    fn every_element_is_added_once() {
        for n in (0..100usize).chain([2047, 2048, 2049, 5000]) {
            let want = (n * n.saturating_sub(1) / 2) as f64;
            assert_eq!(sum(n, |i| i as f32), want, "{n}");
            assert_eq!(sum(n, |i| i as f64), want, "{n}");
        }
    }

    #[torsh_macros::unit_test]
    fn each_is_called_for_whole_groups() {
        let calls = Cell::new(0);
        let each = |i: usize| calls.set(calls.get() + i + 1);
        assert_eq!(sum_with(3 * LANES + 1, each, |_| 1.0f32), 97.0);
        assert_eq!(calls.get(), 3 + LANES + 2 * LANES);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn in_registers(lanes: [f32; 64]) -> f32 {
        sum_of::<Avx2, f32, 64>(lanes)
    }

    #[torsh_macros::unit_test]
    fn a_tree_joins_every_lane() {
        let lanes: [f32; 64] = std::array::from_fn(|i| (i * 37 % 64) as f32);
        assert_eq!(tree(lanes, |a, b| a + b), 2016.0);
        assert_eq!(tree(lanes, |a, b| if b > a { b } else { a }), 63.0);
        assert_eq!(tree([5.0], |_, _| 0.0), 5.0);
        assert_eq!(sum_of::<Base, f32, 64>(lanes), 2016.0);
        #[cfg(target_arch = "x86_64")]
        if level() >= Level::Avx2 {
            // SAFETY: the level has AVX2.
            assert_eq!(unsafe { in_registers(lanes) }, 2016.0);
        }
    }

    #[torsh_macros::unit_test]
    fn nan_and_infinity_pass() {
        assert!(sum(77, |i| if i == 70 { f32::NAN } else { 0.0 }).is_nan());
        assert_eq!(
            sum(50, |i| if i == 3 { f32::INFINITY } else { 1.0 }),
            f64::INFINITY
        );
    }
}
