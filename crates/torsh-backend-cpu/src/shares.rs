//! Results that threads share: each thread writes the part of every result that belongs to its items.

use std::ops::Range;
use std::sync::Mutex;

use torsh_core::pool;

use crate::machine::tuning;

/// A result of `each` elements for every item.
#[derive(Debug)]
pub struct Parts<'a, T> {
    data: &'a mut [T],
    each: usize,
}

impl<'a, T> Parts<'a, T> {
    /// A result of `each` elements for every item; the last item may have fewer.
    pub fn new(data: &'a mut [T], each: usize) -> Parts<'a, T> {
        Parts { data, each }
    }

    /// The same result, for items that are `n` of these.
    pub fn times(self, n: usize) -> Parts<'a, T> {
        Parts::new(self.data, self.each * n)
    }

    /// The elements.
    pub fn into_slice(self) -> &'a mut [T] {
        self.data
    }
}

impl Parts<'static, ()> {
    /// A result that a call does not have.
    pub fn none() -> Parts<'static, ()> {
        Parts::new(&mut [], 0)
    }
}

/// One result or several of the same items.
pub trait Shared: Send {
    /// Takes the elements of the first items away.
    fn split_off(&mut self, items: usize) -> Self;
}

impl<T: Send> Shared for Parts<'_, T> {
    fn split_off(&mut self, items: usize) -> Self {
        let data = std::mem::take(&mut self.data);
        let (first, rest) = data.split_at_mut((items * self.each).min(data.len()));
        self.data = rest;
        Parts::new(first, self.each)
    }
}

impl<A: Shared, B: Shared, C: Shared, D: Shared> Shared for (A, B, C, D) {
    fn split_off(&mut self, items: usize) -> Self {
        let (a, b, c, d) = self;
        let (a, b) = (a.split_off(items), b.split_off(items));
        (a, b, c.split_off(items), d.split_off(items))
    }
}

/// Calls `f` for ranges of `count` items with their part of the results, on several threads where an item takes
/// `nanoseconds` and all of them are worth it.
///
/// # Errors
/// The error of the first range that has one.
///
/// ```
/// use torsh_backend_cpu::shares::{Parts, share};
///
/// let mut squares = vec![0; 10];
/// share(10, 5000, Parts::new(&mut squares, 1), |items, part| {
///     for (to, i) in part.into_slice().iter_mut().zip(items) {
///         *to = i * i;
///     }
///     Ok::<(), String>(())
/// })
/// .unwrap();
/// assert_eq!(squares[9], 81);
/// ```
pub fn share<S: Shared, E: Send>(
    count: usize,
    nanoseconds: usize,
    mut results: S,
    f: impl Fn(Range<usize>, S) -> Result<(), E> + Sync,
) -> Result<(), E> {
    if count == 0 {
        return Ok(());
    }
    let parts = pool::chunk_count(count, tuning::items(nanoseconds));
    if parts <= 1 {
        return f(0..count, results);
    }
    let (length, longer) = (count / parts, count % parts);
    let split: Vec<_> = (0..parts)
        .map(|i| Mutex::new(Some(results.split_off(length + usize::from(i < longer)))))
        .collect();
    let failed: Mutex<Option<(usize, E)>> = Mutex::new(None);
    pool::parallel_parts(count, parts, &|part, range| {
        let own = split[part].lock().ok().and_then(|mut s| s.take());
        let Some(own) = own else { return };
        let start = range.start;
        if let Err(e) = f(range, own)
            && let Ok(mut failed) = failed.lock()
            && failed.as_ref().is_none_or(|(at, _)| start < *at)
        {
            *failed = Some((start, e));
        }
    });
    match failed.into_inner() {
        Ok(Some((_, e))) => Err(e),
        // A panic of `f` went through `parallel_parts` already.
        _ => Ok(()),
    }
}

/// Calls `f` with parts of `each` elements and their number, on several threads as [`share`] does. The last part may be
/// shorter.
pub fn share_chunks<T: Send>(
    data: &mut [T],
    each: usize,
    nanoseconds: usize,
    f: impl Fn(usize, &mut [T]) + Sync,
) {
    let each = each.max(1);
    let count = data.len().div_ceil(each);
    let done = share(count, nanoseconds, Parts::new(data, each), |range, part| {
        for (i, part) in range.zip(part.into_slice().chunks_mut(each)) {
            f(i, part);
        }
        Ok::<(), std::convert::Infallible>(())
    });
    match done {
        Ok(()) => {}
        Err(never) => match never {},
    }
}
