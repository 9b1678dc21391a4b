//! Batches of matrices: which part of each result belongs to one, and threads that share them.

use std::ops::Range;

use crate::kernels::tuning::GENERAL_THREAD;
use faer::Par;
use torsh_backend_cpu::shares::{Shared, share};
use torsh_core::{Result, pool};

pub(crate) use torsh_backend_cpu::shares::Parts;

/// Four results of the same matrices.
pub(crate) type Outs<'a, A, B, C, D> = (Parts<'a, A>, Parts<'a, B>, Parts<'a, C>, Parts<'a, D>);

/// Calls `f` for each matrix with its part of every result, on several threads where the work is worth it. `ns` is what a
/// matrix takes, roughly. `workspace` makes what a thread reuses from matrix to matrix.
///
/// The error is that of the first matrix that has one, and says which it is.
pub(crate) fn each<W, A: Send, B: Send, C: Send, D: Send>(
    count: usize,
    ns: usize,
    outs: Outs<'_, A, B, C, D>,
    workspace: impl Fn() -> W + Sync,
    f: impl Fn(usize, &mut W, (&mut [A], &mut [B], &mut [C], &mut [D])) -> Result<()> + Sync,
) -> Result<()> {
    blocks((count, 1), ns, outs, workspace, |i, w, outs| {
        f(i.start, w, outs)
    })
}

/// As [`each`], for blocks of `width` matrices, of which the last one may be smaller.
pub(crate) fn blocks<W, A: Send, B: Send, C: Send, D: Send>(
    (count, width): (usize, usize),
    ns: usize,
    (a, b, c, d): Outs<'_, A, B, C, D>,
    workspace: impl Fn() -> W + Sync,
    f: impl Fn(Range<usize>, &mut W, (&mut [A], &mut [B], &mut [C], &mut [D])) -> Result<()> + Sync,
) -> Result<()> {
    let outs = (
        a.times(width),
        b.times(width),
        c.times(width),
        d.times(width),
    );
    let ns = ns.saturating_mul(width);
    share(count.div_ceil(width), ns, outs, |range, mut outs| {
        let mut w = workspace();
        for block in range {
            let of = block * width..((block + 1) * width).min(count);
            let (a, b, c, d) = outs.split_off(1);
            let outs = (
                a.into_slice(),
                b.into_slice(),
                c.into_slice(),
                d.into_slice(),
            );
            f(of, &mut w, outs)?;
        }
        Ok(())
    })
}

/// The threads that share the decomposition of one matrix of about so many products of numbers: as many as the pool has,
/// one where the batch is shared among them.
pub(crate) fn par(products: usize) -> Par {
    match pool::chunk_count(products, GENERAL_THREAD) {
        0 | 1 => Par::Seq,
        n => Par::rayon(n),
    }
}

/// How an error names a matrix: of a batch by its number.
pub(crate) fn matrix(i: usize, batch: usize) -> String {
    match batch {
        1 => "the matrix".to_string(),
        _ => format!("matrix {i} of the batch"),
    }
}
