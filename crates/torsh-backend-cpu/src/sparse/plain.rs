//! What one thread computes of a product, and the loops that compute it number by number.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::number::{Index, Number};
use super::rows::{Majors, Rows};
use crate::multiversion;

/// Rows `range` of a product, of the columns `columns`: what one thread computes.
pub struct RowsWork<'w, 'a, T, I> {
    /// With its values in the order of the stored elements, unless the dense operand is a vector.
    pub(super) a: Rows<'a, T, I>,
    pub(super) range: Range<usize>,
    /// These columns of the dense operand.
    pub(super) dense: &'a [T],
    /// From row to row of them; 0 where one row stands for all.
    pub(super) stride: usize,
    pub(super) columns: Range<usize>,
    /// The columns of the result.
    pub(super) m: usize,
    /// How many stored elements ahead the rows of the dense operand are prefetched; 0 where they are near.
    pub(super) ahead: usize,
    /// The rows of the result, whole ones.
    pub(super) out: &'w mut [MaybeUninit<T>],
}

impl<T, I> RowsWork<'_, '_, T, I> {
    /// Whether the dense operand is a vector, of a number for each column of the sparse one.
    pub(super) fn is_of_a_vector(&self) -> bool {
        self.m == 1 && self.stride == 1
    }
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
    /// How many elements ahead the rows of `y` are prefetched; 0 where they are near.
    pub(super) ahead: usize,
    pub(super) out: &'w mut [MaybeUninit<T>],
}

/// Columns that loops without vectors sum at a time.
const PLAIN: usize = 16;

multiversion! {
    /// Rows of a product, number by number; `None` if an index is out of range.
    pub fn plain_rows<A, T: Number, I: Index>(work: RowsWork<'_, '_, T, I>) -> Option<()> {
        let RowsWork { a, range, dense, stride, columns, m, out, .. } = work;
        let w = columns.len();
        for (i, out) in range.zip(out.chunks_exact_mut(m.max(1))) {
            let (row, out) = (a.row(i), &mut out[columns.clone()]);
            if w == 1 && stride == 1 {
                out[0].write(T::rounded(dot::<A, T, I>(&a, row, dense)?));
                continue;
            }
            let mut j = 0;
            while j < w {
                let n = PLAIN.min(w - j);
                let mut sums = [T::ZERO; PLAIN];
                for e in row.clone() {
                    let (c, v) = a.at(e)?;
                    let (v, b) = (v.wide(), &dense[c * stride + j..][..n]);
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
                    to.write(T::rounded(sum));
                }
                j += n;
            }
        }
        Some(())
    }

    /// Elements of a sampled product, number by number; `None` if an index is out of range.
    pub fn plain_samples<A, T: Number, I: Index>(work: SamplesWork<'_, '_, T, I>) -> Option<()> {
        let SamplesWork { majors, minors, range, x, y, k, out, .. } = work;
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
            to.write(T::rounded(T::add(T::add(sums[0], sums[1]), T::add(sums[2], sums[3]))));
        }
        Some(())
    }
}

/// Row `i` of a matrix of `k` columns; `None` beyond its last.
#[inline(always)]
pub(super) fn line<T>(all: &[T], i: usize, k: usize) -> Option<&[T]> {
    let start = i.checked_mul(k)?;
    all.get(start..start.checked_add(k)?)
}

/// The product of stored elements and a vector: four sums that do not wait for one another.
#[inline(always)]
fn dot<A: crate::simd::Arch, T: Number, I: Index>(
    a: &Rows<'_, T, I>,
    row: Range<usize>,
    x: &[T],
) -> Option<T::Sum> {
    let mut sums = [T::ZERO; 4];
    let term = |sum: &mut T::Sum, e: usize| {
        let (c, v) = a.at(e)?;
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
