//! Batches of matrices: which part of each result belongs to one, and threads that share them.

use std::ops::Range;
use std::sync::Mutex;

use faer::Par;
use torsh_core::{Result, TorshError, pool};

/// The results of a batch: `each` elements for every matrix.
pub(crate) struct Parts<'a, T> {
    data: &'a mut [T],
    each: usize,
}

impl<'a, T> Parts<'a, T> {
    /// Results of `each` elements for every matrix.
    pub fn new(data: &'a mut [T], each: usize) -> Parts<'a, T> {
        Parts { data, each }
    }
}

impl Parts<'static, ()> {
    /// A result that the call does not have.
    pub fn none() -> Parts<'static, ()> {
        Parts {
            data: &mut [],
            each: 0,
        }
    }
}

impl<'a, T> Parts<'a, T> {
    fn split(&mut self, matrices: usize) -> Parts<'a, T> {
        let data = std::mem::take(&mut self.data);
        let (head, tail) = data.split_at_mut(matrices * self.each);
        self.data = tail;
        Parts {
            data: head,
            each: self.each,
        }
    }

    #[inline]
    fn of(&mut self, matrices: Range<usize>) -> &mut [T] {
        &mut self.data[matrices.start * self.each..matrices.end * self.each]
    }
}

/// A thread starts for this much work, in nanoseconds.
const THREAD_NS: usize = 8_000;

/// Calls `f` for each matrix with its part of every result, on several threads where the work is worth it. `ns` is what a
/// matrix takes, roughly. `workspace` makes what a thread reuses from matrix to matrix.
///
/// The error is that of the first matrix that has one, and says which it is.
pub(crate) fn each<W, A: Send, B: Send, C: Send, D: Send>(
    count: usize,
    ns: usize,
    outs: (Parts<'_, A>, Parts<'_, B>, Parts<'_, C>, Parts<'_, D>),
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
    (mut a, mut b, mut c, mut d): (Parts<'_, A>, Parts<'_, B>, Parts<'_, C>, Parts<'_, D>),
    workspace: impl Fn() -> W + Sync,
    f: impl Fn(Range<usize>, &mut W, (&mut [A], &mut [B], &mut [C], &mut [D])) -> Result<()> + Sync,
) -> Result<()> {
    let all = count.div_ceil(width);
    let ns = ns.saturating_mul(width).clamp(1, THREAD_NS);
    let parts = pool::chunk_count(all, THREAD_NS / ns);
    let (length, longer) = (all / parts.max(1), all % parts.max(1));
    let mut left = count;
    let shares: Vec<_> = (0..parts)
        .map(|i| {
            let n = ((length + usize::from(i < longer)) * width).min(left);
            left -= n;
            Mutex::new(Some((a.split(n), b.split(n), c.split(n), d.split(n))))
        })
        .collect();
    let failed: Mutex<Option<(usize, TorshError)>> = Mutex::new(None);
    pool::parallel_parts(all, parts, &|part, range| {
        let share = shares[part].lock().ok().and_then(|mut s| s.take());
        let Some((mut a, mut b, mut c, mut d)) = share else {
            return;
        };
        let mut w = workspace();
        let first = range.start * width;
        for block in range {
            let of = block * width..((block + 1) * width).min(count);
            let own = of.start - first..of.end - first;
            let outs = (
                a.of(own.clone()),
                b.of(own.clone()),
                c.of(own.clone()),
                d.of(own),
            );
            if let Err(e) = f(of.clone(), &mut w, outs) {
                if let Ok(mut failed) = failed.lock()
                    && failed.as_ref().is_none_or(|(at, _)| of.start < *at)
                {
                    *failed = Some((of.start, e));
                }
                return;
            }
        }
    });
    match failed.into_inner() {
        Ok(None) => Ok(()),
        Ok(Some((_, e))) => Err(e),
        Err(_) => Err(TorshError::failed("", "a thread of the batch panicked")),
    }
}

/// The products of numbers that are worth a thread of their own in one large matrix. faer's panels are short of work for two
/// threads before: on two cores of a Zen 4, QR and eigenvalues of 256 rows take up to five times as long with both, those
/// of 1,024 rows a fifth to a third less.
const THREAD_PRODUCTS: usize = 128 << 20;

/// The threads that share the decomposition of one matrix of about so many products of numbers: as many as the pool has,
/// one where the batch is shared among them.
pub(crate) fn par(products: usize) -> Par {
    match pool::chunk_count(products, THREAD_PRODUCTS) {
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
