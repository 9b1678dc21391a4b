//! Batches of matrices: which part of each result belongs to one, and threads that share them.

use std::sync::Mutex;

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
    fn of(&mut self, i: usize) -> &mut [T] {
        &mut self.data[i * self.each..][..self.each]
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
    (mut a, mut b, mut c, mut d): (Parts<'_, A>, Parts<'_, B>, Parts<'_, C>, Parts<'_, D>),
    workspace: impl Fn() -> W + Sync,
    f: impl Fn(usize, &mut W, (&mut [A], &mut [B], &mut [C], &mut [D])) -> Result<()> + Sync,
) -> Result<()> {
    let parts = pool::chunk_count(count, THREAD_NS / ns.clamp(1, THREAD_NS));
    let (length, longer) = (count / parts.max(1), count % parts.max(1));
    let shares: Vec<_> = (0..parts)
        .map(|i| {
            let n = length + usize::from(i < longer);
            Mutex::new(Some((a.split(n), b.split(n), c.split(n), d.split(n))))
        })
        .collect();
    let failed: Mutex<Option<(usize, TorshError)>> = Mutex::new(None);
    pool::parallel_parts(count, parts, &|part, range| {
        let share = shares[part].lock().ok().and_then(|mut s| s.take());
        let Some((mut a, mut b, mut c, mut d)) = share else {
            return;
        };
        let mut w = workspace();
        for (k, i) in range.enumerate() {
            if let Err(e) = f(i, &mut w, (a.of(k), b.of(k), c.of(k), d.of(k))) {
                if let Ok(mut failed) = failed.lock()
                    && failed.as_ref().is_none_or(|(at, _)| i < *at)
                {
                    *failed = Some((i, e));
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

/// How an error names a matrix: of a batch by its number.
pub(crate) fn matrix(i: usize, batch: usize) -> String {
    match batch {
        1 => "the matrix".to_string(),
        _ => format!("matrix {i} of the batch"),
    }
}
