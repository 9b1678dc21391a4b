//! Small matrices side by side: each lane of a vector register holds an element of another matrix of the batch.
//!
//! A block of as many matrices as a register has lanes (16 in float32 with AVX-512) is interleaved into vectors, one for
//! each element of a matrix, decomposed by one sequence of vector instructions, and written back. No lane waits for
//! another: what differs between the matrices, such as the row of a pivot, is chosen with masks. A matrix that the
//! vectorised algorithm does not do well, because it holds nan or infinity, or numbers whose squares vanish, is reported,
//! and decomposed by itself.
//!
//! The algorithms are written over [`Simd`], the operations of the processor's vectors.

mod batched;
mod exponential;
mod jacobi;
mod lanes_cholesky;
mod lanes_lu;
mod lanes_qr;

use num_traits::Float;
use torsh_backend_cpu::simd::{FloatVector, MOST_LANES, Simd};

use super::field::{Field, Real};
use super::tuning::LANES_COLUMNS;

pub(crate) use batched::Batched;
pub(crate) use exponential::exponential;
pub(crate) use jacobi::{eigh, svd};
pub(crate) use lanes_cholesky::cholesky;
pub(crate) use lanes_lu::{Sides, lu, solve, triangular};
pub(crate) use lanes_qr::qr;

/// Vectors of real numbers.
pub(crate) trait Lanes: FloatVector<T: Real> {}
impl<V: FloatVector<T: Real>> Lanes for V {}

/// What is done to a block of matrices in the vectors of some instruction set.
pub(crate) trait Block<T: Field> {
    /// Does it, and says which matrices it left; to be inlined, so that it is compiled for the instruction set.
    fn run<V: Lanes<T = T>>(self, l: Simd<V>) -> Missed;
}

/// A thread's memory for vectors, used again from block to block.
pub(crate) struct Scratch<T> {
    data: Vec<T>,
    /// Matrices one after the other.
    rows: Vec<T>,
}

impl<T> Scratch<T> {
    /// No memory.
    pub fn new() -> Scratch<T> {
        Scratch {
            data: Vec::new(),
            rows: Vec::new(),
        }
    }
}

impl<T: Real> Scratch<T> {
    /// `n` vectors, on cache lines of their own, with what was last written there.
    #[inline(always)]
    fn vectors<V: Lanes<T = T>>(&mut self, l: Simd<V>, n: usize) -> &mut [V] {
        l.vectors(&mut self.data, n)
    }

    /// As [`Scratch::vectors`], and matrices one after the other.
    #[inline(always)]
    fn both<V: Lanes<T = T>>(&mut self, l: Simd<V>, n: usize) -> (&mut [V], &mut Vec<T>) {
        (l.vectors(&mut self.data, n), &mut self.rows)
    }
}

/// Matrices that a block could not decompose, one bit each.
pub(crate) type Missed = u32;

/// The lanes of `m`, as bits.
#[inline(always)]
fn bits<V: Lanes>(l: Simd<V>, m: V::Mask) -> Missed {
    if !l.any(m) {
        return 0;
    }
    let one = <V::T as Field>::ONE;
    let zero = <V::T as Field>::ZERO;
    let chosen = [l.select(m, l.splat(one), l.splat(zero))];
    let chosen: &[V::T] = l.numbers(&chosen);
    chosen
        .iter()
        .enumerate()
        .fold(0, |all, (i, v)| all | (Missed::from(*v == one) << i))
}

/// Interleaves `count` matrices of `size` elements; lanes beyond them repeat the last one. Returns which of them hold nan
/// or infinity.
#[inline(always)]
fn load<V: Lanes>(l: Simd<V>, from: &[V::T], count: usize, size: usize, to: &mut [V]) -> Missed {
    let zero = l.splat(<V::T as Field>::ZERO);
    let mut odd = zero;
    let whole = size - size % V::N;
    let mut rows = [zero; MOST_LANES];
    for at in (0..whole).step_by(V::N) {
        for (lane, row) in rows[..V::N].iter_mut().enumerate() {
            let from = &from[lane.min(count - 1) * size + at..][..V::N];
            *row = l.load(from);
        }
        l.transpose(&mut rows);
        for (to, v) in to[at..][..V::N].iter_mut().zip(&rows) {
            // Only finite numbers give 0.
            odd = l.mul_add(*v, zero, odd);
            *to = *v;
        }
    }
    for at in whole..size {
        let v: &mut [V::T] = l.numbers_mut(&mut to[at..=at]);
        for (lane, v) in v.iter_mut().enumerate() {
            *v = from[lane.min(count - 1) * size + at];
        }
        odd = l.mul_add(to[at], zero, odd);
    }
    let odd: [V; 1] = [odd];
    let odd: &[V::T] = l.numbers(&odd);
    odd.iter().enumerate().fold(0, |all, (i, v)| {
        all | (Missed::from(Float::is_nan(*v)) << i)
    })
}

/// Writes vectors as `count` matrices of `size` elements.
#[inline(always)]
fn store<V: Lanes>(l: Simd<V>, from: &[V], to: &mut [V::T], count: usize, size: usize) {
    let whole = size - size % V::N;
    let mut rows = [l.splat(<V::T as Field>::ZERO); MOST_LANES];
    for at in (0..whole).step_by(V::N) {
        rows[..V::N].copy_from_slice(&from[at..][..V::N]);
        l.transpose(&mut rows);
        for (lane, row) in rows[..V::N].iter().enumerate().take(count) {
            l.store(*row, &mut to[lane * size + at..]);
        }
    }
    for at in whole..size {
        let v: &[V::T] = l.numbers(&from[at..=at]);
        for (lane, v) in v.iter().enumerate().take(count) {
            to[lane * size + at] = *v;
        }
    }
}

/// `rows` of `cols` vectors times the others: `x[i] -= sum of a(j) x[j]` over `known`, where row `i` is not known.
#[inline(always)]
fn eliminate<V: Lanes>(
    l: Simd<V>,
    x: &mut [V],
    cols: usize,
    i: usize,
    known: std::ops::Range<usize>,
    a: impl Fn(usize) -> V,
    scale: impl Fn(V) -> V,
) {
    let mut c = 0;
    while c + LANES_COLUMNS <= cols {
        let mut sum = [x[0]; LANES_COLUMNS];
        sum.copy_from_slice(&x[i * cols + c..][..LANES_COLUMNS]);
        for j in known.clone() {
            let by = a(j);
            for (s, v) in sum.iter_mut().zip(&x[j * cols + c..][..LANES_COLUMNS]) {
                *s = l.neg_mul_add(by, *v, *s);
            }
        }
        for (to, s) in x[i * cols + c..][..LANES_COLUMNS].iter_mut().zip(sum) {
            *to = scale(s);
        }
        c += LANES_COLUMNS;
    }
    for c in c..cols {
        let mut s = x[i * cols + c];
        for j in known.clone() {
            s = l.neg_mul_add(a(j), x[j * cols + c], s);
        }
        x[i * cols + c] = scale(s);
    }
}
