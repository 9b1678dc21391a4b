//! The kernels over batches of matrices: what they read from a call, and where the results go.

pub(crate) mod batch_factor;
pub(crate) mod batch_solve;
pub(crate) mod batch_spectral;

use std::ops::Range;

use torsh_backend_cpu::operations::pick;
use torsh_core::kernel::HostCall;
use torsh_core::{Result, TorshError, pool};

use super::batch::{Parts, matrix};
use super::choose::{BatchAlgorithm, BatchProblem};
use super::field::{Field, Real};
use super::lanes::{Batched, Missed};
use super::matrix_factor::finite;

/// A batch of matrices: how many, and their rows and columns.
#[derive(Clone, Copy, PartialEq)]
struct Batch {
    count: usize,
    rows: usize,
    cols: usize,
}

impl Batch {
    fn of(shape: &[usize]) -> Result<Batch> {
        match *shape {
            [ref batch @ .., rows, cols] => Ok(Batch {
                count: batch.iter().product(),
                rows,
                cols,
            }),
            _ => Err(shapes_differ()),
        }
    }

    fn square(shape: &[usize]) -> Result<Batch> {
        let b = Batch::of(shape)?;
        match b.rows == b.cols {
            true => Ok(b),
            false => Err(shapes_differ()),
        }
    }

    fn size(self) -> usize {
        self.rows * self.cols
    }

    /// Roughly what a decomposition takes, in nanoseconds.
    fn cubic(self) -> usize {
        self.rows
            .saturating_mul(self.cols)
            .saturating_mul(self.rows.min(self.cols))
            .max(50)
    }
}

fn shapes_differ() -> TorshError {
    TorshError::shape(
        "",
        "the kernel was called with operands whose shapes do not go together",
    )
}

/// Output `i` as parts of `n` elements for each of `count` matrices.
fn parts<'a, T: torsh_core::Element>(
    c: &mut HostCall<'a>,
    i: usize,
    count: usize,
    n: usize,
) -> Result<Parts<'a, T>> {
    let data = c.output::<T>(i)?;
    match count.checked_mul(n) == Some(data.len()) {
        true => Ok(Parts::new(data, n)),
        false => Err(shapes_differ()),
    }
}

/// An operand of `count` parts of `n` elements.
fn expect(len: usize, count: usize, n: usize) -> Result<()> {
    match count.checked_mul(n) == Some(len) {
        true => Ok(()),
        false => Err(shapes_differ()),
    }
}

/// Part `i` of parts of `n` elements.
#[inline]
fn part<T>(data: &[T], i: usize, n: usize) -> &[T] {
    &data[i * n..][..n]
}

/// Refuses nan and infinity, for which a decomposition is not defined.
fn check_finite<T: Field>(a: &[T], i: usize, count: usize) -> Result<()> {
    match finite(a) {
        true => Ok(()),
        false => Err(TorshError::invalid(
            "",
            format!("{} has an infinity or a nan", matrix(i, count)),
        )
        .with_hint("look for the op that made it, as with detect_anomaly or Tensor::isfinite")),
    }
}

fn of_matrix(e: TorshError, i: usize, count: usize) -> TorshError {
    match (e.info(), count) {
        (Some(info), 2..) => {
            let text = format!("{}: {}", matrix(i, count), info.message);
            TorshError::failed("", text)
        }
        _ => e,
    }
}

/// A number in another precision.
#[inline(always)]
fn convert<A: Field, B: Field>(a: A) -> B {
    B::of_parts(B::R::of_f64(a.re().wide()), B::R::of_f64(a.im().wide()))
}

/// The numbers in another precision, in place of what `to` held.
fn converted<'w, A: Field, B: Field>(a: &[A], to: &'w mut Vec<B>) -> &'w [B] {
    to.clear();
    to.extend(a.iter().map(|&v| convert::<A, B>(v)));
    to
}

/// How many matrices are decomposed together: a lane each where there are enough, or one.
fn width<T: Batched>(b: Batch) -> usize {
    let problem = BatchProblem {
        count: b.count,
        rows: b.rows,
        cols: b.cols,
        real: !T::COMPLEX,
    };
    match pick(&problem, pool::num_threads()) {
        BatchAlgorithm::Lanes => T::lanes(),
        BatchAlgorithm::Single => 1,
    }
}

/// Those of `n` matrices that a block left to the algorithms for one: all where there was none.
fn left(missed: Missed, n: usize) -> impl Iterator<Item = usize> {
    (0..n).filter(move |i| missed >> i & 1 == 1)
}

/// Parts `of` of parts of `n` elements.
#[inline]
fn parts_of<T>(data: &[T], of: Range<usize>, n: usize) -> &[T] {
    &data[of.start * n..of.end * n]
}

/// Part `i` of parts of `n` elements, to write to.
#[inline]
fn part_mut<T>(data: &mut [T], i: usize, n: usize) -> &mut [T] {
    &mut data[i * n..][..n]
}
