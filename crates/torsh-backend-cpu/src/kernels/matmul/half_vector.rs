//! A matrix of a half type times a vector: bound by memory, so the matrix is read once, and converted to float32 a block
//! at a time, in a thread's nearest cache.

use std::ops::Range;

use torsh_core::{DType, Result, View, pool};

use super::operands::Matrix;
use super::{MatmulCall, Problem, cut, vector};
use crate::machine::tuning::matmul::{GRAIN, HALF_VECTOR_BLOCK as BLOCK};
use crate::memory::convert::convert;
use crate::memory::dense::{Ptr, Scratch};

/// Outputs that are computed together where their neighbours are adjacent in the matrix.
const COLUMNS: usize = BLOCK / 4;
/// Outputs of a thread begin at a multiple of these.
const ALIGN: usize = 64;

/// The products of a call with one row or one column, into `out` of float32, with `c` of float32.
pub(super) fn run(call: &MatmulCall<'_>, out: &View<'_>, c: Option<&View<'_>>) -> Result<()> {
    let p = Problem::new(out, call.a, call.b, c);
    let all: usize = p.batch.iter().product();
    let outputs = p.m.max(p.n);
    if all * p.m * p.n == 0 {
        return Ok(());
    }
    let [a, b] = [call.a, call.b].map(|v| Ptr::new(v.ptr().cast::<u16>()));
    let [out, c] = [Some(out), c].map(|v| v.map(|v| Ptr::new(v.ptr().cast::<f32>())));
    let (alpha, beta) = (call.alpha.to_f64() as f32, call.beta.to_f64() as f32);
    let parts = pool::chunk_count(all.saturating_mul(outputs * p.k.max(1)), GRAIN);
    let pieces = parts.div_ceil(all).min(outputs);
    let scratch = Scratch::<f32>::new(parts * (p.k + BLOCK))?;
    let start = Ptr::new(scratch.ptr());
    pool::parallel_parts(all * pieces, parts, &|part, range| {
        for task in range {
            let (index, piece) = (task / pieces, task % pieces);
            let bounds = [piece, piece + 1].map(|i| cut(outputs, pieces, i, ALIGN));
            let (a, b) = (p.matrix(1, a, index), p.matrix(2, b, index));
            let line = |m: Matrix<f32>| (m.ptr, if p.n == 1 { m.row } else { m.col });
            let Some(out) = out.map(|out| line(p.matrix(0, out, index))) else {
                continue;
            };
            // Rows of the matrix are outputs, its columns terms.
            let (matrix, x) = match p.n {
                1 => (a, (b.ptr, b.row)),
                _ => (b.t(), (a.ptr, a.col)),
            };
            let product = Times {
                dtype: call.a.dtype(),
                k: p.k,
                matrix,
                x,
                out,
                start: c.map(|c| (line(p.matrix(3, c, index)), beta)),
                alpha,
            };
            let at = start.at((part * (p.k + BLOCK)) as isize);
            // SAFETY: the matrices are the operands', this task alone writes these outputs, and this part alone uses
            // its piece of the scratch memory.
            unsafe { product.run(bounds[0]..bounds[1], at) };
        }
    });
    Ok(())
}

/// One matrix, a vector and what their product is added to.
struct Times {
    dtype: DType,
    k: usize,
    matrix: Matrix<u16>,
    x: (*mut u16, isize),
    out: (*mut f32, isize),
    start: Option<((*mut f32, isize), f32)>,
    alpha: f32,
}

impl Times {
    /// Converts `n` adjacent numbers.
    ///
    /// # Safety
    /// They are there, and so is the room.
    unsafe fn widen(&self, from: *const u16, to: *mut f32, n: usize) {
        // SAFETY: the caller's promise.
        unsafe { convert(self.dtype, from.cast(), DType::F32, to.cast(), n) }
    }

    /// Converts `n` numbers, `step` apart.
    ///
    /// # Safety
    /// As [`Times::widen`].
    unsafe fn gather(&self, from: *const u16, step: isize, to: *mut f32, n: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match step {
                1 => self.widen(from, to, n),
                _ => (0..n).for_each(|i| {
                    self.widen(from.wrapping_offset(i as isize * step), to.add(i), 1);
                }),
            }
        }
    }

    /// Some of the outputs.
    ///
    /// # Safety
    /// The operands have them, and `at` has room for the vector and a block.
    unsafe fn run(&self, outputs: Range<usize>, at: *mut f32) {
        let (k, out) = (self.k, self.out);
        let y = |i: usize| out.0.wrapping_offset(i as isize * out.1);
        // SAFETY: the caller's promise; every index is below its size.
        unsafe {
            if self.start.is_some() || k == 0 {
                for i in outputs.clone() {
                    *y(i) = match self.start {
                        Some(((c, step), factor)) => factor * *c.wrapping_offset(i as isize * step),
                        None => 0.0,
                    };
                }
            }
            let block = at.wrapping_add(k);
            self.gather(self.x.0, self.x.1, at, k);
            let add = self.start.is_some();
            let multiply = |[m, k]: [usize; 2], first: [usize; 2], of: Matrix<f32>| {
                let ([i, p], add) = (first, add || first[1] > 0);
                let x = at.wrapping_add(p).cast_const();
                vector::times(m, k, y(i), out.1, of, x, 1, self.alpha, add);
            };
            let adjacent_outputs = self.matrix.row == 1 && self.matrix.col != 1;
            let columns = match adjacent_outputs {
                true => COLUMNS.min(outputs.len().max(1)),
                false => (BLOCK / k.max(1)).clamp(1, 16),
            };
            let terms = match adjacent_outputs {
                true => (BLOCK / columns) & !3,
                false => BLOCK / columns,
            };
            for i in outputs.clone().step_by(columns) {
                let m = columns.min(outputs.end - i);
                for p in (0..k).step_by(terms) {
                    let n = terms.min(k - p);
                    let from = self.matrix.at(i, p);
                    if adjacent_outputs {
                        for q in 0..n {
                            self.widen(from.at(0, q).ptr, block.add(q * m), m);
                        }
                        multiply([m, n], [i, p], Matrix::new(block, 1, m as isize));
                    } else {
                        for r in 0..m {
                            self.gather(from.at(r, 0).ptr, from.col, block.add(r * n), n);
                        }
                        multiply([m, n], [i, p], Matrix::new(block, n as isize, 1));
                    }
                }
            }
        }
    }
}
