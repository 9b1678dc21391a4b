//! A matrix of a half type times a vector, summed in float32: [`vector`]'s loops over parts of the outputs.

use half::{bf16, f16};
use torsh_core::{DType, Result, View, cmath, pool};

use super::operands::Matrix;
use super::vector::{self, Stored};
use super::{MatmulCall, Problem, cut};
use crate::machine::tuning::matmul::GRAIN;
use crate::memory::dense::{Ptr, Scratch};

/// Outputs of a thread begin at a multiple of these.
const ALIGN: usize = 64;

/// The products of a call with one row or one column, into `out` of float32, with `c` of float32.
pub(super) fn run(call: &MatmulCall<'_>, out: &View<'_>, c: Option<&View<'_>>) -> Result<()> {
    match call.a.dtype() {
        DType::BF16 => products::<bf16>(call, out, c),
        _ => products::<f16>(call, out, c),
    }
}

fn products<S: Stored<f32>>(
    call: &MatmulCall<'_>,
    out: &View<'_>,
    c: Option<&View<'_>>,
) -> Result<()> {
    let p = Problem::new(out, call.a, call.b, c);
    let (k, outputs) = (p.k, p.m.max(p.n));
    let all: usize = p.batch.iter().product();
    if all * p.m * p.n == 0 {
        return Ok(());
    }
    let [a, b] = [call.a, call.b].map(|v| Ptr::new(v.ptr().cast::<S>()));
    let [out, c] = [Some(out), c].map(|v| v.map(|v| Ptr::new(v.ptr().cast::<f32>())));
    let (alpha, beta) = (call.alpha.to_f64() as f32, call.beta.to_f64() as f32);
    let parts = pool::chunk_count(all.saturating_mul(outputs * k.max(1)), GRAIN);
    // Rows of the matrix are outputs, its columns terms.
    let operands = |index: usize| {
        let (a, b) = (p.matrix(1, a, index), p.matrix(2, b, index));
        match p.n {
            1 => (a, b.ptr, b.row),
            _ => (b.t(), a.ptr, a.col),
        }
    };
    let line = |m: Matrix<f32>| (m.ptr, if p.n == 1 { m.row } else { m.col });
    let at = |(ptr, step): (*mut f32, isize), i: usize| ptr.wrapping_offset(i as isize * step);
    let (matrix, x, x_step) = operands(0);
    if all == 1 && parts > 1 && matrix.row == 1 && outputs > 1 {
        // Threads read whole columns, one after the other in memory: each has a part of the terms.
        let sums = Scratch::<f32>::new(parts * outputs)?;
        let vector = Scratch::<f32>::new(k)?;
        let (partial, to) = (Ptr::new(sums.ptr()), Ptr::new(vector.ptr()));
        let (matrix, x) = (Ptr::new(matrix.ptr), (Ptr::new(x), matrix.col));
        pool::parallel_parts(parts, parts, &|_, range| {
            for part in range {
                let [first, end] = [part, part + 1].map(|i| cut(k, parts, i, 4));
                let columns = Matrix::new(matrix.get(), 1, x.1).at(0, first);
                let sums = partial.at((part * outputs) as isize);
                // SAFETY: this task alone writes these terms and sums; every index is below its size.
                unsafe {
                    let to = to.at(first as isize);
                    for i in first..end {
                        *to.add(i - first) = (*x.0.at(i as isize * x_step)).widened();
                    }
                    vector::times(outputs, end - first, sums, 1, columns, to, 1, 1.0, false);
                }
            }
        });
        let Some(y) = out.map(|out| line(p.matrix(0, out, 0))) else {
            return Ok(());
        };
        let start = c.map(|c| line(p.matrix(3, c, 0)));
        for i in 0..outputs {
            // SAFETY: as above; the threads are through.
            unsafe {
                let sum: f32 = (0..parts)
                    .map(|part| *partial.at((part * outputs + i) as isize))
                    .sum();
                let before = start.map_or(0.0, |start| beta * *at(start, i));
                *at(y, i) = cmath::fmaf(alpha, sum, before);
            }
        }
        return Ok(());
    }
    let pieces = parts.div_ceil(all).min(outputs);
    let scratch = Scratch::<f32>::new(parts * k)?;
    let vectors = Ptr::new(scratch.ptr());
    pool::parallel_parts(all * pieces, parts, &|part, range| {
        for task in range {
            let (index, piece) = (task / pieces, task % pieces);
            let [first, end] = [piece, piece + 1].map(|i| cut(outputs, pieces, i, ALIGN));
            let (matrix, x, x_step) = operands(index);
            let Some(y) = out.map(|out| line(p.matrix(0, out, index))) else {
                continue;
            };
            let start = c.map(|c| line(p.matrix(3, c, index)));
            let to = vectors.at((part * k) as isize);
            // SAFETY: the matrices are the operands', this task alone writes these outputs, and this part alone uses
            // its piece of the scratch memory; every index is below its size.
            unsafe {
                for i in 0..k {
                    *to.add(i) = (*x.wrapping_offset(i as isize * x_step)).widened();
                }
                if let Some(start) = start {
                    for i in first..end {
                        *at(y, i) = beta * *at(start, i);
                    }
                }
                let (y, rows) = ((at(y, first), y.1), matrix.at(first, 0));
                let add = start.is_some();
                vector::times(end - first, k, y.0, y.1, rows, to, 1, alpha, add);
            }
        }
    });
    Ok(())
}
