//! A matrix times a vector, and the inner product: bound by memory, not arithmetic. A matrix of a half type is
//! converted to float32 in registers, so that it is read once and written nowhere.

use std::mem::MaybeUninit;

use half::{bf16, f16};

use super::operands::Matrix;
use crate::machine::tuning::matmul::{
    VECTOR_AHEAD as AHEAD, VECTOR_FAR as FAR, VECTOR_SUMS as SUMS,
};
use crate::memory::stream;
use crate::multiversion;
use crate::scalar::Real;
use crate::simd::{Arch, HalfLoads, Vector, Vectors};

/// Rows that are so many, of the smallest numbers.
const ROWS: usize = SUMS / size_of::<f32>();

/// Numbers of the widest vector.
const WIDEST: usize = 16;

/// Elements of a matrix as memory holds them, which are multiplied and summed as `T`.
pub(super) trait Stored<T: Vectors>: Copy {
    fn widened(self) -> T;
    /// Reads as many as a vector has.
    ///
    /// # Safety
    /// They are there; the processor has the vector.
    unsafe fn load<A: Arch>(from: *const Self) -> T::V<A>;
}

macro_rules! stored {
    ($($stored:ty as $t:ty: |$x:ident| $widened:expr, |$v:ident, $from:ident| $load:expr;)*) => {$(
        impl Stored<$t> for $stored {
            #[inline(always)]
            fn widened(self) -> $t {
                let $x = self;
                $widened
            }
            #[inline(always)]
            unsafe fn load<A: Arch>($from: *const Self) -> <$t as Vectors>::V<A> {
                type $v<A> = <$t as Vectors>::V<A>;
                // SAFETY: the caller's promise.
                unsafe { $load }
            }
        }
    )*};
}
stored! {
    f32 as f32: |x| x, |V, from| V::<A>::load(from);
    f64 as f64: |x| x, |V, from| V::<A>::load(from);
    bf16 as f32: |x| x.to_f32(), |V, from| V::<A>::load_bf16(from);
    f16 as f32: |x| x.to_f32(), |V, from| V::<A>::load_f16(from);
}

/// Elements that memory holds as they are multiplied.
pub(super) trait Unconverted: Vectors + Stored<Self> {}
impl Unconverted for f32 {}
impl Unconverted for f64 {}

multiversion! {
    /// `y = alpha * a x`, or `y += alpha * a x` where `add`, for `m` rows and `k` columns.
    ///
    /// # Safety
    /// The operands are valid for their sizes, and `y` overlaps neither other.
    pub(super) unsafe fn times<A, T: Vectors, S: Stored<T>>(m: usize, k: usize, y: *mut T, y_step: isize, a: Matrix<S>, x: *const T, x_step: isize, alpha: T, add: bool) {
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
            // Each sum has its terms in the same order, however the matrix is read.
            let converted = size_of::<S>() < size_of::<T>();
            let far = m * k * size_of::<S>() >= if converted { FAR } else { stream::FAR };
            if a.col == 1 && x_step == 1 {
                let mut i = 0;
                while i + 4 <= m {
                    let mut sums = [T::ZERO; 4];
                    if far && converted {
                        for (r, sum) in sums.iter_mut().enumerate() {
                            *sum = dots::<A, T, S, 1, 2>(k, a.at(i + r, 0), x, AHEAD)[0];
                        }
                    } else {
                        sums = dots::<A, T, S, 4, 2>(k, a.at(i, 0), x, 0);
                    }
                    for (r, &sum) in sums.iter().enumerate() {
                        put(i + r, sum);
                    }
                    i += 4;
                }
                while i < m {
                    put(i, dots::<A, T, S, 1, 4>(k, a.at(i, 0), x, 0)[0]);
                    i += 1;
                }
            } else if a.row.unsigned_abs() < a.col.unsigned_abs() {
                // Columns in memory's order, several together where their numbers are adjacent.
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
                    if far && converted && a.row == 1 {
                        let ahead = AHEAD.div_ceil(rows * size_of::<S>()) as isize * a.col;
                        while p < k / 4 * 4 {
                            columns::<A, T, S, 1>(sums, [a.at(first, p).ptr], [value(p)], ahead);
                            p += 1;
                        }
                    }
                    while a.row == 1 && p + 4 <= k {
                        let c: [*mut S; 4] = std::array::from_fn(|q| a.at(first, p + q).ptr);
                        let v: [T; 4] = std::array::from_fn(|q| value(p + q));
                        columns::<A, T, S, 4>(sums, c, v, 4 * a.col * isize::from(far));
                        p += 4;
                    }
                    while p < k {
                        let v = value(p);
                        for (i, sum) in sums.iter_mut().enumerate() {
                            *sum = v.fma::<A>((*a.at(first + i, p).ptr).widened(), *sum);
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
                            sums[q] = v.fma::<A>((*a.at(i, p + q).ptr).widened(), sums[q]);
                        }
                        p += 4;
                    }
                    while p < k {
                        let v = *x.wrapping_offset(p as isize * x_step);
                        sums[0] = v.fma::<A>((*a.at(i, p).ptr).widened(), sums[0]);
                        p += 1;
                    }
                    put(i, (sums[0] + sums[1]) + (sums[2] + sums[3]));
                }
            }
        }
    }
}

/// `sums += v[0] c[0] + v[1] c[1] + ..`, prefetching what is `ahead` of the columns, if not 0.
///
/// # Safety
/// The columns are as long as `sums`; the processor has the vector.
#[inline(always)]
unsafe fn columns<A: Arch, T: Vectors, S: Stored<T>, const Q: usize>(
    sums: &mut [T],
    c: [*mut S; Q],
    v: [T; Q],
    ahead: isize,
) {
    let n = <T::V<A>>::N;
    let whole = sums.len() / n * n;
    // SAFETY: the caller's promise; every index is below the length.
    unsafe {
        let to = sums.as_mut_ptr();
        for i in (0..whole).step_by(n) {
            let mut sum = <T::V<A>>::load(to.add(i));
            for q in 0..Q {
                let from = c[q].add(i);
                if ahead != 0 {
                    stream::prefetch(from.wrapping_offset(ahead).cast());
                }
                sum = sum.add_product(<T::V<A>>::splat(v[q]), S::load::<A>(from));
            }
            sum.store(to.add(i));
        }
        for i in whole..sums.len() {
            for q in 0..Q {
                *to.add(i) = *to.add(i) + v[q] * (*c[q].add(i)).widened();
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

/// The inner products of `R` rows with `x`, `C` vectors of terms at a time, prefetching what is so many
/// bytes `ahead` of the first row, if not 0.
///
/// # Safety
/// The rows and `x` are valid for `k` adjacent values; the processor has the vectors.
#[inline(always)]
unsafe fn dots<A: Arch, T: Vectors, S: Stored<T>, const R: usize, const C: usize>(
    k: usize,
    a: Matrix<S>,
    x: *const T,
    ahead: usize,
) -> [T; R] {
    let n = <T::V<A>>::N;
    let mut sums = [T::ZERO; R];
    // SAFETY: the caller's promise; every index is below `k`. Loops over indices: closures would not
    // be compiled for the instruction set.
    unsafe {
        let mut acc = [[<T::V<A>>::splat(T::ZERO); C]; R];
        let mut p = 0;
        while p + C * n <= k {
            if ahead != 0 {
                let at = a.at(0, p).ptr.cast::<u8>();
                for line in (0..C * n * size_of::<S>()).step_by(64) {
                    stream::prefetch(at.wrapping_add(ahead + line).cast());
                }
            }
            for c in 0..C {
                let x = <T::V<A>>::load(x.add(p + c * n));
                for r in 0..R {
                    let a = S::load::<A>(a.at(r, p + c * n).ptr);
                    acc[r][c] = acc[r][c].add_product(a, x);
                }
            }
            p += C * n;
        }
        while p + n <= k {
            let x = <T::V<A>>::load(x.add(p));
            for r in 0..R {
                acc[r][0] = acc[r][0].add_product(S::load::<A>(a.at(r, p).ptr), x);
            }
            p += n;
        }
        if p < k && k >= n {
            // The last vector, what is summed already as zeros.
            let (start, rest) = (k - n, k - p);
            let x = <T::V<A>>::load(x.add(start)).keep_last(rest);
            for r in 0..R {
                let a = S::load::<A>(a.at(r, start).ptr).keep_last(rest);
                acc[r][C - 1] = acc[r][C - 1].add_product(a, x);
            }
            p = k;
        }
        for r in 0..R {
            for q in p..k {
                sums[r] = sums[r] + (*a.at(r, q).ptr).widened() * *x.add(q);
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
pub(super) unsafe fn dot<A: Arch, T: Unconverted>(k: usize, a: *mut T, x: *const T) -> T {
    // SAFETY: the caller's promise.
    unsafe { dots::<A, T, T, 1, 4>(k, Matrix::new(a, 0, 1), x, 0)[0] }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::simd::Level;

    /// Rows of every length, with nan behind each, and an infinity in what the last vector of a row
    /// has summed already.
    #[torsh_macros::unit_test]
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
    #[torsh_macros::unit_test]
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

    /// Half types in each order of memory: small integers, of which every sum is exact.
    fn halves<S: Stored<f32>>(of: impl Fn(f32) -> S) {
        for (m, k) in [(1, 1), (3, 5), (7, 40), (33, 100), (1031, 18), (5, 0)] {
            let value = |i: usize, p: usize| ((i * 7 + p * 3) % 5) as f32 - 2.0;
            let x: Vec<f32> = (0..k).map(|p| (p * 3 % 7) as f32 - 3.0).collect();
            let dot = |i: usize| (0..k).map(|p| value(i, p) * x[p]).sum::<f32>();
            let want: Vec<f32> = (0..m).map(|i| 1.0 + 2.0 * dot(i)).collect();
            for (row, col) in [(k, 1), (1, m), (2 * k, 2)] {
                let mut a = vec![of(f32::NAN); 2 * m * k];
                for i in 0..m * k {
                    let (i, p) = (i / k, i % k);
                    a[i * row + p * col] = of(value(i, p));
                }
                for level in Level::ALL.into_iter().filter(|l| l.is_available()) {
                    let mut y = vec![1.0; m];
                    let matrix = Matrix::new(a.as_mut_ptr(), row as isize, col as isize);
                    // SAFETY: the operands hold what the call says.
                    unsafe {
                        times::at(level)(m, k, y.as_mut_ptr(), 1, matrix, x.as_ptr(), 1, 2.0, true);
                    }
                    assert_eq!(y, want, "{level:?}, {m} x {k}, steps {row} {col}");
                }
            }
        }
    }

    #[torsh_macros::unit_test]
    fn half_types_times_a_vector() {
        halves(bf16::from_f32);
        halves(f16::from_f32);
    }
}
