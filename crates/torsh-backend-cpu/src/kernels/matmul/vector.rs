//! A matrix times a vector, and the inner product: bound by memory, not arithmetic.

use std::mem::MaybeUninit;

use super::operands::Matrix;
use crate::machine::tuning::matmul::VECTOR_SUMS as SUMS;
use crate::memory::stream;
use crate::multiversion;
use crate::scalar::Real;
use crate::simd::Arch;
use crate::simd::{Vector, Vectors};

/// Rows that are so many, of the smallest numbers.
const ROWS: usize = SUMS / size_of::<f32>();

/// Numbers of the widest vector.
const WIDEST: usize = 16;

multiversion! {
    /// `y = alpha * a x`, or `y += alpha * a x` where `add`, for `m` rows and `k` columns.
    ///
    /// # Safety
    /// The operands are valid for their sizes, and `y` overlaps neither other.
    pub(super) unsafe fn times<A, T: Vectors>(m: usize, k: usize, y: *mut T, y_step: isize, a: Matrix<T>, x: *const T, x_step: isize, alpha: T, add: bool) {
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
                    let sums = dots::<T::V<A>, 4, 2>(k, a.at(i, 0), x);
                    for (r, &sum) in sums.iter().enumerate() {
                        put(i + r, sum);
                    }
                    i += 4;
                }
                while i < m {
                    put(i, dot::<A, T>(k, a.at(i, 0).ptr, x));
                    i += 1;
                }
            } else if a.row.unsigned_abs() < a.col.unsigned_abs() {
                // Columns in memory's order, several together where their numbers are adjacent.
                let far = m * k * size_of::<T>() >= stream::FAR;
                let mut sums = [const { MaybeUninit::<T>::uninit() }; ROWS];
                let mut first = 0;
                while first < m {
                    let rows = (SUMS / size_of::<T>()).min(ROWS).min(m - first);
                    let sums = sums.as_mut_ptr().cast::<T>();
                    for i in 0..rows {
                        sums.add(i).write(T::ZERO);
                    }
                    let sums = std::slice::from_raw_parts_mut(sums, rows);
                    let value = |p: usize| *x.wrapping_offset(p as isize * x_step);
                    let mut p = 0;
                    while a.row == 1 && p + 4 <= k {
                        let c: [*mut T; 4] = std::array::from_fn(|q| a.at(first, p + q).ptr);
                        let v: [T; 4] = std::array::from_fn(|q| value(p + q));
                        columns::<T::V<A>>(sums, c, v, 4 * a.col * isize::from(far));
                        p += 4;
                    }
                    while p < k {
                        let v = value(p);
                        for (i, sum) in sums.iter_mut().enumerate() {
                            *sum = v.fma::<A>(*a.at(first + i, p).ptr, *sum);
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
                    let mut sums = [T::ZERO; 4];
                    let mut p = 0;
                    while p + 4 <= k {
                        for q in 0..4 {
                            let v = *x.wrapping_offset((p + q) as isize * x_step);
                            sums[q] = v.fma::<A>(*a.at(i, p + q).ptr, sums[q]);
                        }
                        p += 4;
                    }
                    while p < k {
                        let v = *x.wrapping_offset(p as isize * x_step);
                        sums[0] = v.fma::<A>(*a.at(i, p).ptr, sums[0]);
                        p += 1;
                    }
                    put(i, (sums[0] + sums[1]) + (sums[2] + sums[3]));
                }
            }
        }
    }
}

/// `sums += v[0] c[0] + v[1] c[1] + ..`, meanwhile asking for the columns `ahead` of these, if not 0:
/// the processor would begin anew with each.
///
/// # Safety
/// The columns are as long as `sums`; the processor has the vector.
#[inline(always)]
unsafe fn columns<V: Vector<T: Real>>(
    sums: &mut [V::T],
    c: [*mut V::T; 4],
    v: [V::T; 4],
    ahead: isize,
) {
    let whole = sums.len() / V::N * V::N;
    // SAFETY: the caller's promise; every index is below the length.
    unsafe {
        let to = sums.as_mut_ptr();
        for i in (0..whole).step_by(V::N) {
            let mut sum = V::load(to.add(i));
            for q in 0..4 {
                let from = c[q].add(i);
                if ahead != 0 {
                    stream::prefetch(from.wrapping_offset(ahead).cast());
                }
                sum = sum.add_product(V::splat(v[q]), V::load(from));
            }
            sum.store(to.add(i));
        }
        for i in whole..sums.len() {
            for q in 0..4 {
                *to.add(i) = *to.add(i) + v[q] * *c[q].add(i);
            }
        }
    }
}

/// The sum of a vector's numbers, pairwise.
///
/// # Safety
/// The processor has the vector.
#[inline(always)]
unsafe fn total<V: Vector<T: Real>>(v: V) -> V::T {
    let mut lanes = [V::T::ZERO; WIDEST];
    // SAFETY: there is room for the widest vector.
    unsafe { v.store(lanes.as_mut_ptr()) };
    let mut half = V::N / 2;
    while half > 0 {
        for l in 0..half {
            lanes[l] = lanes[l] + lanes[l + half];
        }
        half /= 2;
    }
    lanes[0]
}

/// The inner products of `R` rows with `x`, `C` vectors of terms at a time.
///
/// # Safety
/// The rows and `x` are valid for `k` adjacent values; the processor has the vectors.
#[inline(always)]
unsafe fn dots<V: Vector<T: Real>, const R: usize, const C: usize>(
    k: usize,
    a: Matrix<V::T>,
    x: *const V::T,
) -> [V::T; R] {
    let mut sums = [V::T::ZERO; R];
    // SAFETY: the caller's promise; every index is below `k`. Loops over indices: closures would not
    // be compiled for the instruction set.
    unsafe {
        let mut acc = [[V::splat(V::T::ZERO); C]; R];
        let mut p = 0;
        while p + C * V::N <= k {
            for c in 0..C {
                let x = V::load(x.add(p + c * V::N));
                for r in 0..R {
                    let a = V::load(a.at(r, p + c * V::N).ptr);
                    acc[r][c] = acc[r][c].add_product(a, x);
                }
            }
            p += C * V::N;
        }
        while p + V::N <= k {
            let x = V::load(x.add(p));
            for r in 0..R {
                acc[r][0] = acc[r][0].add_product(V::load(a.at(r, p).ptr), x);
            }
            p += V::N;
        }
        if p < k && k >= V::N {
            // The last vector, what is summed already as zeros.
            let (start, rest) = (k - V::N, k - p);
            let x = V::load(x.add(start)).keep_last(rest);
            for r in 0..R {
                let a = V::load(a.at(r, start).ptr).keep_last(rest);
                acc[r][C - 1] = acc[r][C - 1].add_product(a, x);
            }
            p = k;
        }
        for r in 0..R {
            for q in p..k {
                sums[r] = sums[r] + *a.at(r, q).ptr * *x.add(q);
            }
            for c in 1..C {
                acc[r][0] = acc[r][0].add(acc[r][c]);
            }
            sums[r] = sums[r] + total(acc[r][0]);
        }
    }
    sums
}

/// The inner product of `k` adjacent values each.
///
/// # Safety
/// Both are valid for `k` reads.
#[inline(always)]
pub(super) unsafe fn dot<A: Arch, T: Vectors>(k: usize, a: *mut T, x: *const T) -> T {
    // SAFETY: the caller's promise.
    unsafe { dots::<T::V<A>, 1, 4>(k, Matrix::new(a, 0, 1), x)[0] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Level;

    /// Rows of every length, with nan behind each, and an infinity in what the last vector of a row
    /// has summed already.
    #[test]
    fn rows_of_any_length_times_a_vector() {
        const M: usize = 6;
        for level in Level::ALL.into_iter().filter(|l| l.is_available()) {
            for k in 1..=100 {
                let value = |i: usize| ((i * 7 + 3) % 5) as f32 - 2.0;
                let line = |i: usize| (0..k).map(move |p| value(i * k + p)).chain([f32::NAN]);
                let mut a: Vec<f32> = (0..M).flat_map(line).collect();
                let x: Vec<f32> = line(M).collect();
                let mut want: Vec<f32> = (0..M)
                    .map(|i| (0..k).map(|p| a[i * (k + 1) + p] * x[p]).sum())
                    .collect();
                if k > 1 && x[k - 2] != 0.0 {
                    a[k - 2] = f32::INFINITY;
                    want[0] = f32::INFINITY * x[k - 2];
                }
                let mut y = [f32::NAN; M];
                let matrix = Matrix::new(a.as_mut_ptr(), k as isize + 1, 1);
                // SAFETY: the operands hold what the call says.
                unsafe {
                    times::at(level)(M, k, y.as_mut_ptr(), 1, matrix, x.as_ptr(), 1, 1.0, false);
                }
                assert_eq!(y, want[..], "{level:?}, {k} terms");
            }
        }
    }

    /// Columns of any length, one after the other in memory, also so many that they are asked for.
    #[test]
    fn columns_of_any_length_times_a_vector() {
        let small = (1..=40).map(|m| (m, 7));
        for (m, k) in small.chain([(1031, 6), (1031, 518), (4100, 131)]) {
            let mut a: Vec<f32> = (0..m * k).map(|i| (i * 7 % 5) as f32 - 2.0).collect();
            let x: Vec<f32> = (0..k).map(|p| (p * 3 % 7) as f32 - 3.0).collect();
            let of = |i: usize| (0..k).map(|p| a[p * m + i] * x[p]).sum();
            let want: Vec<f32> = (0..m).map(of).collect();
            for level in Level::ALL.into_iter().filter(|l| l.is_available()) {
                let mut y = vec![f32::NAN; m];
                let matrix = Matrix::new(a.as_mut_ptr(), 1, m as isize);
                // SAFETY: the operands hold what the call says.
                unsafe {
                    times::at(level)(m, k, y.as_mut_ptr(), 1, matrix, x.as_ptr(), 1, 1.0, false);
                }
                assert_eq!(y, want, "{level:?}, {m} x {k}");
            }
        }
    }
}
