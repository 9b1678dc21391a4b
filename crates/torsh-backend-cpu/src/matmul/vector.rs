//! A matrix times a vector, and the inner product: bound by memory, not arithmetic.

use super::gemm::Matrix;
use crate::arch::Arch;
use crate::multiversion;
use crate::scalar::Real;

/// Rows whose sums are kept in the first-level cache while columns stream by.
const ROWS: usize = 1024;

macro_rules! versions {
    ($($t:ident),*) => {$(
        multiversion! {
            /// `y = alpha * a x`, or `y += alpha * a x` where `add`, for `m` rows and `k` columns.
            ///
            /// # Safety
            /// The operands are valid for their sizes, and `y` overlaps neither other.
            pub(super) unsafe fn $t<A>(m: usize, k: usize, y: *mut $t, y_step: isize, a: Matrix<$t>, x: *const $t, x_step: isize, alpha: $t, add: bool) {
                // SAFETY: the caller's promise.
                unsafe { times::<A, $t>(m, k, y, y_step, a, x, x_step, alpha, add) }
            }
        }
    )*};
}
versions!(f32, f64);

/// # Safety
/// As the functions above.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn times<A: Arch, T: Real>(
    m: usize,
    k: usize,
    y: *mut T,
    y_step: isize,
    a: Matrix<T>,
    x: *const T,
    x_step: isize,
    alpha: T,
    add: bool,
) {
    let put = |i: usize, sum: T| {
        let y = y.wrapping_offset(i as isize * y_step);
        // SAFETY: row `i` is one of the `m`.
        unsafe {
            *y = if add {
                alpha.fma::<A>(sum, *y)
            } else {
                alpha * sum
            }
        };
    };
    // SAFETY: the caller's promise; every index is below its size.
    unsafe {
        if a.col == 1 && x_step == 1 {
            let mut i = 0;
            while i + 4 <= m {
                let sums = dots::<A, T, 4, 16>(k, a.at(i, 0), x);
                for (r, &sum) in sums.iter().enumerate() {
                    put(i + r, sum);
                }
                i += 4;
            }
            while i < m {
                put(i, dot::<A, T>(k, a.at(i, 0).ptr, x));
                i += 1;
            }
        } else if a.row == 1 {
            let mut sums = [T::ZERO; ROWS];
            let mut first = 0;
            while first < m {
                let rows = ROWS.min(m - first);
                let sums = &mut sums[..rows];
                sums.fill(T::ZERO);
                let value = |p: usize| *x.wrapping_offset(p as isize * x_step);
                let mut p = 0;
                while p + 4 <= k {
                    let c: [*mut T; 4] = std::array::from_fn(|q| a.at(first, p + q).ptr);
                    let v: [T; 4] = std::array::from_fn(|q| value(p + q));
                    for (i, sum) in sums.iter_mut().enumerate() {
                        let s = v[0].fma::<A>(*c[0].add(i), *sum);
                        let s = v[1].fma::<A>(*c[1].add(i), s);
                        let s = v[2].fma::<A>(*c[2].add(i), s);
                        *sum = v[3].fma::<A>(*c[3].add(i), s);
                    }
                    p += 4;
                }
                while p < k {
                    let (c, v) = (a.at(first, p).ptr, value(p));
                    for (i, sum) in sums.iter_mut().enumerate() {
                        *sum = v.fma::<A>(*c.add(i), *sum);
                    }
                    p += 1;
                }
                for (i, &sum) in sums.iter().enumerate() {
                    put(first + i, sum);
                }
                first += rows;
            }
        } else {
            for i in 0..m {
                let row = a.at(i, 0);
                let mut sums = [T::ZERO; 4];
                for p in 0..k {
                    let v = *x.wrapping_offset(p as isize * x_step);
                    sums[p % 4] = v.fma::<A>(*row.at(0, p).ptr, sums[p % 4]);
                }
                put(i, (sums[0] + sums[1]) + (sums[2] + sums[3]));
            }
        }
    }
}

/// The sum of lanes, pairwise.
#[inline(always)]
fn total<T: Real, const L: usize>(mut lanes: [T; L]) -> T {
    let mut half = L / 2;
    while half > 0 {
        for l in 0..half {
            lanes[l] = lanes[l] + lanes[l + half];
        }
        half /= 2;
    }
    lanes[0]
}

/// The inner products of `R` rows with `x`.
///
/// # Safety
/// The rows and `x` are valid for `k` adjacent values.
#[inline(always)]
unsafe fn dots<A: Arch, T: Real, const R: usize, const L: usize>(
    k: usize,
    a: Matrix<T>,
    x: *const T,
) -> [T; R] {
    let rows: [*mut T; R] = std::array::from_fn(|r| a.at(r, 0).ptr);
    let mut acc = [[T::ZERO; L]; R];
    let mut tail = [T::ZERO; R];
    let whole = k / L * L;
    // SAFETY: every index is below `k`.
    unsafe {
        let mut p = 0;
        while p < whole {
            for (acc, row) in acc.iter_mut().zip(rows) {
                for (l, acc) in acc.iter_mut().enumerate() {
                    *acc = (*row.add(p + l)).fma::<A>(*x.add(p + l), *acc);
                }
            }
            p += L;
        }
        for (tail, row) in tail.iter_mut().zip(rows) {
            for p in whole..k {
                *tail = (*row.add(p)).fma::<A>(*x.add(p), *tail);
            }
        }
    }
    std::array::from_fn(|r| total(acc[r]) + tail[r])
}

/// The inner product of `k` adjacent values each.
///
/// # Safety
/// Both are valid for `k` reads.
#[inline(always)]
pub(super) unsafe fn dot<A: Arch, T: Real>(k: usize, a: *mut T, x: *const T) -> T {
    // SAFETY: the caller's promise.
    unsafe {
        if k >= 256 {
            dots::<A, T, 1, 64>(k, Matrix::new(a, 0, 1), x)[0]
        } else {
            dots::<A, T, 1, 16>(k, Matrix::new(a, 0, 1), x)[0]
        }
    }
}
