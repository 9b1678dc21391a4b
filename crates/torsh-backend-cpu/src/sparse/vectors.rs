//! The inner loops: blocks of columns in vector registers.

use std::ops::Range;

use num_complex::Complex;

use super::number::{Index, Number};
use super::rows::Rows;
use super::sampled::Majors;
use crate::multiversion;
use crate::scalar::Real;
use crate::simd::{FloatVector, Simd, VectorWork, Vectors, vectorized};

/// Rows `range` of a product, of the columns `columns`: what one thread computes.
pub struct RowsWork<'w, 'a, T, I> {
    pub(super) a: Rows<'a, T, I>,
    pub(super) range: Range<usize>,
    pub(super) dense: &'a [T],
    /// The columns of the dense operand.
    pub(super) m: usize,
    pub(super) columns: Range<usize>,
    /// The rows of the result, whole ones.
    pub(super) out: &'w mut [T],
}

/// Elements `range` of a product that is computed at some places alone.
pub struct SamplesWork<'w, 'a, T, I> {
    pub(super) majors: Majors<'a, I>,
    pub(super) minors: &'a [I],
    pub(super) range: Range<usize>,
    pub(super) x: &'a [T],
    pub(super) y: &'a [T],
    /// Terms of each element.
    pub(super) k: usize,
    pub(super) out: &'w mut [T],
}

/// Columns that loops without vectors sum at a time.
const PLAIN: usize = 16;

multiversion! {
    /// Rows of a product, number by number.
    pub fn plain_rows<A, T: Number, I: Index>(work: RowsWork<'_, '_, T, I>) -> Option<()> {
        let RowsWork { a, range, dense, m, columns, out } = work;
        for (i, out) in range.zip(out.chunks_exact_mut(m.max(1))) {
            let row = a.row(i);
            if m == 1 {
                out[0] = T::rounded(a.dot::<A>(row, dense)?);
                continue;
            }
            let mut j = columns.start;
            while j < columns.end {
                let n = PLAIN.min(columns.end - j);
                let mut sums = [T::ZERO; PLAIN];
                for e in row.clone() {
                    let (c, v) = a.at(e)?;
                    let (v, b) = (v.wide(), &dense[c * m + j..][..n]);
                    if n == PLAIN {
                        for k in 0..PLAIN {
                            sums[k] = T::add_product::<A>(sums[k], v, b[k].wide());
                        }
                    } else {
                        for (sum, b) in sums.iter_mut().zip(b) {
                            *sum = T::add_product::<A>(*sum, v, b.wide());
                        }
                    }
                }
                for (to, sum) in out[j..j + n].iter_mut().zip(sums) {
                    *to = T::rounded(sum);
                }
                j += n;
            }
        }
        Some(())
    }

    /// Elements of a sampled product, number by number.
    pub fn plain_samples<A, T: Number, I: Index>(work: SamplesWork<'_, '_, T, I>) -> Option<()> {
        let SamplesWork { majors, minors, range, x, y, k, out } = work;
        let mut walk = majors.walk(range.start);
        for (e, to) in range.zip(out) {
            let (i, j) = (walk.major(e), minors[e].place());
            let (a, b) = (line(x, i, k)?, line(y, j, k)?);
            let mut sums = [T::ZERO; 4];
            let mut quads = a.chunks_exact(4).zip(b.chunks_exact(4));
            for (a, b) in &mut quads {
                for l in 0..4 {
                    sums[l] = T::add_product::<A>(sums[l], a[l].wide(), b[l].wide());
                }
            }
            let rest = k - k % 4;
            for (a, b) in a[rest..].iter().zip(&b[rest..]) {
                sums[0] = T::add_product::<A>(sums[0], a.wide(), b.wide());
            }
            *to = T::rounded(T::add(T::add(sums[0], sums[1]), T::add(sums[2], sums[3])));
        }
        Some(())
    }
}

/// Row `i` of a matrix of `k` columns; `None` beyond its last.
#[inline(always)]
fn line<T>(all: &[T], i: usize, k: usize) -> Option<&[T]> {
    let start = i.checked_mul(k)?;
    all.get(start..start.checked_add(k)?)
}

impl<T: Number, I: Index> Rows<'_, T, I> {
    /// The product of stored elements and a vector: four sums that do not wait for one another.
    #[inline(always)]
    fn dot<A: crate::simd::Arch>(&self, row: Range<usize>, x: &[T]) -> Option<T::Sum> {
        let mut sums = [T::ZERO; 4];
        let term = |sum: &mut T::Sum, e: usize| {
            let (c, v) = self.at(e)?;
            *sum = T::add_product::<A>(*sum, v.wide(), x.get(c)?.wide());
            Some(())
        };
        let mut e = row.start;
        while e + 4 <= row.end {
            for (l, sum) in sums.iter_mut().enumerate() {
                term(sum, e + l)?;
            }
            e += 4;
        }
        for e in e..row.end {
            term(&mut sums[0], e)?;
        }
        Some(T::add(T::add(sums[0], sums[1]), T::add(sums[2], sums[3])))
    }
}

/// Rows of a product of real numbers.
pub fn real_rows<T: Vectors + Number, I: Index>(work: RowsWork<'_, '_, T, I>) -> Option<()> {
    match work.m {
        1 => plain_rows(work),
        _ => vectorized::<T, _>(work),
    }
}

impl<T: Vectors + Number, I: Index> VectorWork<T> for RowsWork<'_, '_, T, I> {
    type Output = Option<()>;

    #[inline(always)]
    fn run<V: FloatVector<T = T>>(self, simd: Simd<V>) -> Option<()> {
        let RowsWork {
            a,
            range,
            dense,
            m,
            columns,
            out,
        } = self;
        for (i, out) in range.zip(out.chunks_exact_mut(m)) {
            let row = a.row(i);
            let mut j = columns.start;
            while columns.end - j >= 8 * V::N {
                real_block::<V, 8, T, I>(simd, &a, row.clone(), dense, m, j, out)?;
                j += 8 * V::N;
            }
            if columns.end - j >= 4 * V::N {
                real_block::<V, 4, T, I>(simd, &a, row.clone(), dense, m, j, out)?;
                j += 4 * V::N;
            }
            if columns.end - j >= 2 * V::N {
                real_block::<V, 2, T, I>(simd, &a, row.clone(), dense, m, j, out)?;
                j += 2 * V::N;
            }
            if columns.end - j >= V::N {
                real_block::<V, 1, T, I>(simd, &a, row.clone(), dense, m, j, out)?;
                j += V::N;
            }
            if j < columns.end {
                let n = columns.end - j;
                let mut sum = simd.splat(<T as Real>::ZERO);
                let none = sum;
                for e in row {
                    let (c, v) = a.at(e)?;
                    let b = dense.get(c * m + j..c * m + j + n)?;
                    // SAFETY: a `Simd` exists only where the processor has the vectors, and `n` numbers are there.
                    let b = unsafe { V::load_part(b.as_ptr(), 0, n, none) };
                    sum = simd.mul_add(simd.splat(v), b, sum);
                }
                let to = &mut out[j..j + n];
                // SAFETY: as above; there is room for `n` numbers, fewer than a vector has.
                unsafe { sum.store_first(n, to.as_mut_ptr()) };
            }
        }
        Some(())
    }

    fn plain(self) -> Option<()> {
        plain_rows(self)
    }
}

/// `K` vectors of columns of one row.
#[inline(always)]
fn real_block<V: FloatVector<T = T>, const K: usize, T: Vectors + Number, I: Index>(
    simd: Simd<V>,
    a: &Rows<'_, T, I>,
    row: Range<usize>,
    dense: &[T],
    m: usize,
    j: usize,
    out: &mut [T],
) -> Option<()> {
    let mut sums = [simd.splat(<T as Real>::ZERO); K];
    for e in row {
        let (c, v) = a.at(e)?;
        let b = dense.get(c * m + j..)?.get(..K * V::N)?;
        let v = simd.splat(v);
        for k in 0..K {
            sums[k] = simd.mul_add(v, simd.load(&b[k * V::N..]), sums[k]);
        }
    }
    let to = &mut out[j..j + K * V::N];
    for k in 0..K {
        simd.store(sums[k], &mut to[k * V::N..]);
    }
    Some(())
}

/// Rows of a product of complex numbers.
pub fn complex_rows<R: Vectors, I: Index>(work: RowsWork<'_, '_, Complex<R>, I>) -> Option<()>
where
    Complex<R>: Number,
{
    match work.m {
        1 => plain_rows(work),
        _ => vectorized::<R, _>(ComplexRows(work)),
    }
}

struct ComplexRows<'w, 'a, R, I>(RowsWork<'w, 'a, Complex<R>, I>);

impl<R: Vectors, I: Index> VectorWork<R> for ComplexRows<'_, '_, R, I>
where
    Complex<R>: Number,
{
    type Output = Option<()>;

    #[inline(always)]
    fn run<V: FloatVector<T = R>>(self, simd: Simd<V>) -> Option<()> {
        let RowsWork {
            a,
            range,
            dense,
            m,
            columns,
            out,
        } = self.0;
        // Complex numbers of a vector.
        let n = V::N / 2;
        for (i, out) in range.zip(out.chunks_exact_mut(m)) {
            let row = a.row(i);
            let mut j = columns.start;
            while columns.end - j >= 4 * n {
                complex_block::<V, 4, R, I>(simd, &a, row.clone(), dense, m, j, out)?;
                j += 4 * n;
            }
            while columns.end - j >= n {
                complex_block::<V, 1, R, I>(simd, &a, row.clone(), dense, m, j, out)?;
                j += n;
            }
            while j < columns.end {
                let mut sum = Complex::new(R::ZERO, R::ZERO);
                for e in row.clone() {
                    let (c, v) = a.at(e)?;
                    let b = *dense.get(c * m + j)?;
                    sum = Complex::new(
                        sum.re + (v.re * b.re - v.im * b.im),
                        sum.im + (v.re * b.im + v.im * b.re),
                    );
                }
                out[j] = sum;
                j += 1;
            }
        }
        Some(())
    }

    fn plain(self) -> Option<()> {
        plain_rows(self.0)
    }
}

#[inline(always)]
fn complex_block<V: FloatVector<T = R>, const K: usize, R: Vectors, I: Index>(
    simd: Simd<V>,
    a: &Rows<'_, Complex<R>, I>,
    row: Range<usize>,
    dense: &[Complex<R>],
    m: usize,
    j: usize,
    out: &mut [Complex<R>],
) -> Option<()> {
    let n = V::N / 2;
    let mut sums = [simd.splat(R::ZERO); K];
    for e in row {
        let (c, v) = a.at(e)?;
        let b = dense.get(c * m + j..)?.get(..K * n)?;
        let v = simd.splat_complex(v);
        for k in 0..K {
            sums[k] = simd.complex_mul_add(v, simd.load_complex(&b[k * n..]), sums[k]);
        }
    }
    let to = &mut out[j..j + K * n];
    for k in 0..K {
        simd.store_complex(sums[k], &mut to[k * n..]);
    }
    Some(())
}

/// Elements of a sampled product of real numbers.
pub fn real_samples<T: Vectors + Number, I: Index>(work: SamplesWork<'_, '_, T, I>) -> Option<()> {
    vectorized::<T, _>(work)
}

impl<T: Vectors + Number, I: Index> VectorWork<T> for SamplesWork<'_, '_, T, I> {
    type Output = Option<()>;

    #[inline(always)]
    fn run<V: FloatVector<T = T>>(self, simd: Simd<V>) -> Option<()> {
        let SamplesWork {
            majors,
            minors,
            range,
            x,
            y,
            k,
            out,
        } = self;
        let mut walk = majors.walk(range.start);
        for (e, to) in range.zip(out) {
            let (i, j) = (walk.major(e), minors[e].place());
            *to = real_dot(simd, line(x, i, k)?, line(y, j, k)?);
        }
        Some(())
    }

    fn plain(self) -> Option<()> {
        plain_samples(self)
    }
}

/// The inner product of two lines of one length.
#[inline(always)]
fn real_dot<V: FloatVector<T = T>, T: Vectors>(simd: Simd<V>, x: &[T], y: &[T]) -> T {
    let n = x.len();
    let mut sums = [simd.splat(T::ZERO); 4];
    let mut k = 0;
    while n - k >= 4 * V::N {
        let (x, y) = (&x[k..k + 4 * V::N], &y[k..k + 4 * V::N]);
        for l in 0..4 {
            let (x, y) = (simd.load(&x[l * V::N..]), simd.load(&y[l * V::N..]));
            sums[l] = simd.mul_add(x, y, sums[l]);
        }
        k += 4 * V::N;
    }
    while n - k >= V::N {
        sums[0] = simd.mul_add(simd.load(&x[k..]), simd.load(&y[k..]), sums[0]);
        k += V::N;
    }
    if k < n {
        let none = simd.splat(T::ZERO);
        let (x, y) = (&x[k..n], &y[k..n]);
        // SAFETY: a `Simd` exists only where the processor has the vectors, and `n - k` numbers of each are there.
        let (x, y) = unsafe {
            (
                V::load_part(x.as_ptr(), 0, n - k, none),
                V::load_part(y.as_ptr(), 0, n - k, none),
            )
        };
        sums[1] = simd.mul_add(x, y, sums[1]);
    }
    let sum = simd.add(simd.add(sums[0], sums[1]), simd.add(sums[2], sums[3]));
    // SAFETY: as above.
    unsafe { sum.reduce_sum() }
}
