//! Products of a sparse and a dense matrix in vectors: adjacent columns of a row of the result are summed in registers.

use std::mem::MaybeUninit;

use num_complex::Complex;

use super::number::{Index, Number};
use super::plain::{RowsWork, plain_rows};
use crate::memory::stream::{LINE, prefetch};
use crate::simd::{FloatVector, Simd, Vector, VectorWork, Vectors};

/// How numbers lie in vectors: each in a lane, or the parts of a complex one in two.
trait Form: Copy {
    type V: FloatVector;
    type T: Number;
    /// Lanes of a number.
    const LANES: usize;
    /// Numbers of a vector.
    const N: usize = <Self::V as Vector>::N / Self::LANES;
    fn simd(self) -> Simd<Self::V>;
    /// A number in all lanes.
    fn factor(self, value: Self::T) -> Self::V;
    /// `sum + factor * numbers`, fused.
    fn add_product(self, sum: Self::V, factor: Self::V, numbers: Self::V) -> Self::V;

    #[inline(always)]
    fn zero(self) -> Self::V {
        self.factor(Self::T::default())
    }

    /// `sum + factor` times the `n` numbers at an address, at most a vector of them.
    ///
    /// # Safety
    /// So many numbers can be read there.
    #[inline(always)]
    unsafe fn add_term(
        self,
        sum: Self::V,
        factor: Self::V,
        numbers: *const Self::T,
        n: usize,
    ) -> Self::V {
        // SAFETY: a `Simd` exists only where the processor has the vectors; a number is its lanes; the caller's promise.
        let numbers = unsafe {
            match n == Self::N {
                true => Self::V::load(numbers.cast()),
                false => Self::V::load_part(numbers.cast(), 0, n * Self::LANES, self.zero()),
            }
        };
        self.add_product(sum, factor, numbers)
    }

    /// Writes the `n` first numbers of a vector.
    ///
    /// # Safety
    /// There is room for so many.
    #[inline(always)]
    unsafe fn write(self, v: Self::V, n: usize, to: *mut Self::T) {
        // SAFETY: as above.
        unsafe {
            match n == Self::N {
                true => v.store(to.cast()),
                false => v.store_first(n * Self::LANES, to.cast()),
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Lanes<V>(Simd<V>);

impl<V: FloatVector> Form for Lanes<V>
where
    V::T: Number,
{
    type V = V;
    type T = V::T;
    const LANES: usize = 1;

    #[inline(always)]
    fn simd(self) -> Simd<V> {
        self.0
    }
    #[inline(always)]
    fn factor(self, value: V::T) -> V {
        self.0.splat(value)
    }
    #[inline(always)]
    fn add_product(self, sum: V, factor: V, numbers: V) -> V {
        self.0.mul_add(factor, numbers, sum)
    }
}

#[derive(Clone, Copy)]
struct Pairs<V>(Simd<V>);

impl<V: FloatVector> Form for Pairs<V>
where
    Complex<V::T>: Number,
{
    type V = V;
    type T = Complex<V::T>;
    const LANES: usize = 2;

    #[inline(always)]
    fn simd(self) -> Simd<V> {
        self.0
    }
    #[inline(always)]
    fn factor(self, value: Complex<V::T>) -> V {
        self.0.splat_complex(value)
    }
    #[inline(always)]
    fn add_product(self, sum: V, factor: V, numbers: V) -> V {
        self.0.complex_mul_add(factor, numbers, sum)
    }
}

/// Rows of a product of real numbers with several columns.
impl<T: Vectors + Number, I: Index> VectorWork<T> for RowsWork<'_, '_, T, I> {
    type Output = Option<()>;

    #[inline(always)]
    fn run<V: FloatVector<T = T>>(self, simd: Simd<V>) -> Option<()> {
        rows(Lanes(simd), self)
    }

    fn plain(self) -> Option<()> {
        plain_rows(self)
    }
}

/// Rows of a product of complex numbers with several columns.
pub(super) struct ComplexRows<'w, 'a, R, I>(pub(super) RowsWork<'w, 'a, Complex<R>, I>);

impl<R: Vectors, I: Index> VectorWork<R> for ComplexRows<'_, '_, R, I>
where
    Complex<R>: Number,
{
    type Output = Option<()>;

    #[inline(always)]
    fn run<V: FloatVector<T = R>>(self, simd: Simd<V>) -> Option<()> {
        rows(Pairs(simd), self.0)
    }

    fn plain(self) -> Option<()> {
        plain_rows(self.0)
    }
}

/// The most numbers of as many vectors as are summed in two sets.
const MOST: usize = 64;

#[inline(always)]
fn rows<F: Form, I: Index>(form: F, work: RowsWork<'_, '_, F::T, I>) -> Option<()> {
    let RowsWork {
        a,
        range,
        dense,
        stride,
        columns,
        m,
        ahead,
        out,
    } = work;
    let w = columns.len();
    let last = a.width.saturating_sub(1).checked_mul(stride);
    let end = last.and_then(|last| last.checked_add(w));
    // The loops read rows of the dense operand without further checks than that of the column.
    assert!(a.width == 0 || end.is_some_and(|end| end <= dense.len()));
    assert!(a.order.is_none() && 4 * F::N <= MOST);
    let zeros = [F::T::default(); MOST];
    for (i, out) in range.zip(out.chunks_exact_mut(m)) {
        let (row, out) = (a.row(i), &mut out[columns.clone()]);
        let mut block = Block {
            columns: &a.columns[row.clone()],
            values: &a.values[row.clone()],
            following: &a.columns[row.start..],
            width: a.width,
            dense: dense.as_ptr(),
            stride,
            ahead,
            zeros: &zeros,
        };
        let mut j = 0;
        while w - j >= 8 * F::N {
            block.sum::<F, 8>(form, &mut out[j..])?;
            j += block.pass(8 * F::N);
        }
        if w - j >= 4 * F::N {
            block.sum_twice::<F, 4>(form, 4 * F::N, &mut out[j..])?;
            j += block.pass(4 * F::N);
        }
        if w - j >= 2 * F::N {
            block.sum_twice::<F, 2>(form, 2 * F::N, &mut out[j..])?;
            j += block.pass(2 * F::N);
        }
        if w - j >= F::N {
            block.sum_twice::<F, 1>(form, F::N, &mut out[j..])?;
            j += block.pass(F::N);
        }
        if j < w {
            block.sum_twice::<F, 1>(form, w - j, &mut out[j..])?;
        }
    }
    Some(())
}

/// Some adjacent columns of one row of a product. `dense` is where they begin in the first row of the dense operand: in each
/// of its `width` rows, `stride` apart, as many numbers follow as are summed.
struct Block<'a, T, I> {
    columns: &'a [I],
    values: &'a [T],
    /// The columns of the row's elements and of all that are stored behind them.
    following: &'a [I],
    width: usize,
    dense: *const T,
    stride: usize,
    ahead: usize,
    zeros: &'a [T; MOST],
}

impl<T: Number, I: Index> Block<'_, T, I> {
    /// Goes on to the columns behind `n`.
    #[inline(always)]
    fn pass(&mut self, n: usize) -> usize {
        self.dense = self.dense.wrapping_add(n);
        n
    }

    /// The numbers of a row of the dense operand; `None` if there is no such row.
    #[inline(always)]
    fn line(&self, column: I) -> Option<*const T> {
        let c = column.place();
        // A product that is in memory does not overflow; wrapping, it needs no check.
        (c < self.width).then(|| self.dense.wrapping_add(c.wrapping_mul(self.stride)))
    }

    /// Prefetches `n` numbers for the element that comes `ahead` elements behind element `e` of the row.
    #[inline(always)]
    fn fetch(&self, e: usize, n: usize) {
        if self.ahead == 0 {
            return;
        }
        if let Some(column) = self.following.get(e + self.ahead) {
            let at = column.place().wrapping_mul(self.stride);
            let at = self.dense.wrapping_add(at).cast::<u8>();
            for line in (0..n * size_of::<T>()).step_by(LINE) {
                prefetch(at.wrapping_add(line));
            }
        }
    }

    /// Sums `K` vectors of columns, element by element: so many that the sums do not wait for one another.
    #[inline(always)]
    fn sum<F: Form<T = T>, const K: usize>(
        &self,
        form: F,
        out: &mut [MaybeUninit<T>],
    ) -> Option<()> {
        let mut sums = [form.zero(); K];
        for (e, (column, v)) in self.columns.iter().zip(self.values).enumerate() {
            let b = self.line(*column)?;
            self.fetch(e, K * F::N);
            let v = form.factor(*v);
            for k in 0..K {
                // SAFETY: the row has as many numbers from there on.
                sums[k] = unsafe { form.add_term(sums[k], v, b.wrapping_add(k * F::N), F::N) };
            }
        }
        let to = &mut out[..K * F::N];
        for k in 0..K {
            // SAFETY: there is room for as many numbers.
            unsafe { form.write(sums[k], F::N, to[k * F::N..].as_mut_ptr().cast()) };
        }
        Some(())
    }

    /// The rows of the dense operand and the values of element `e` of the row and of the one behind it. Where there is none it
    /// is 0, so that a loop over pairs ends at one branch. `n` numbers are prefetched for each.
    #[inline(always)]
    fn pair(&self, e: usize, n: usize) -> Option<[(*const T, T); 2]> {
        let alone = e + 1 >= self.columns.len();
        let next = if alone { e } else { e + 1 };
        let (b, c) = (self.line(self.columns[e])?, self.line(self.columns[next])?);
        self.fetch(e, n);
        self.fetch(e + 1, n);
        let second = match alone {
            true => (self.zeros.as_ptr(), T::default()),
            false => (c, self.values[next]),
        };
        Some([(b, self.values[e]), second])
    }

    /// Sums `n` columns of at most `K` vectors in two sets, of the elements in even places and in odd ones: sums of few vectors
    /// would wait for one another. All vectors but the last are whole.
    #[inline(always)]
    fn sum_twice<F: Form<T = T>, const K: usize>(
        &self,
        form: F,
        n: usize,
        out: &mut [MaybeUninit<T>],
    ) -> Option<()> {
        let mut sums = [[form.zero(); K]; 2];
        let last = n - (K - 1) * F::N;
        for e in (0..self.columns.len()).step_by(2) {
            let pair = self.pair(e, n)?;
            for h in 0..2 {
                let (b, v) = (pair[h].0, form.factor(pair[h].1));
                for k in 0..K {
                    let (at, n) = (k * F::N, if k + 1 < K { F::N } else { last });
                    // SAFETY: the row has as many numbers from there on, and so do the zeros.
                    sums[h][k] = unsafe { form.add_term(sums[h][k], v, b.wrapping_add(at), n) };
                }
            }
        }
        let to = &mut out[..n];
        for k in 0..K {
            let sum = form.simd().add(sums[0][k], sums[1][k]);
            let (at, n) = (k * F::N, if k + 1 < K { F::N } else { last });
            // SAFETY: there is room for as many numbers.
            unsafe { form.write(sum, n, to[at..].as_mut_ptr().cast()) };
        }
        Some(())
    }
}
