//! A persistent fork-join thread pool for kernels.
//!
//! Work is split into contiguous chunks that are fixed in advance, one per thread. There is no work
//! stealing, so a waiting thread never runs another caller's work while it holds locks. Workers start
//! when they are first needed. An idle worker spins for 10 us, then yields between polls for 40 us,
//! then parks. Calls from inside a chunk run serially, and so do calls while another thread uses the
//! pool.

mod slot;
mod sync;

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use slot::{Poster, Taker};

/// The thread count in force; 0 until it is first asked for.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// The workers, owned for the length of one fork by the thread that holds the lock.
static WORKERS: Mutex<Vec<Poster<Job>>> = Mutex::new(Vec::new());

thread_local! {
    static IN_PARALLEL: Cell<bool> = const { Cell::new(false) };
}

/// The error of [`set_num_threads`] when asked for no threads at all.
///
/// ```
/// use torsh_core::pool::{ThreadCountError, set_num_threads};
/// assert_eq!(set_num_threads(0), Err(ThreadCountError));
/// assert_eq!(ThreadCountError.to_string(), "the number of threads must be at least 1, got 0");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadCountError;

impl fmt::Display for ThreadCountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the number of threads must be at least 1, got 0")
    }
}

impl std::error::Error for ThreadCountError {}

/// Returns the number of threads, the caller included, that one parallel call uses at most.
///
/// It starts as the environment variable `TORSH_NUM_THREADS` where that is a positive integer,
/// else as [`std::thread::available_parallelism`], of Apple's processors without the slow cores
/// ([`os::cores`](crate::os::cores)).
///
/// ```
/// use torsh_core::pool::{num_threads, set_num_threads};
/// set_num_threads(3)?;
/// assert_eq!(num_threads(), 3);
/// # Ok::<(), torsh_core::pool::ThreadCountError>(())
/// ```
#[inline]
pub fn num_threads() -> usize {
    match THREADS.load(Ordering::Relaxed) {
        0 => first_num_threads(),
        n => n,
    }
}

#[cold]
fn first_num_threads() -> usize {
    let asked = std::env::var("TORSH_NUM_THREADS")
        .ok()
        .and_then(|value| value.trim().parse().ok())
        .filter(|&n: &usize| n > 0);
    let n = asked.unwrap_or_else(crate::os::cores);
    // A `set_num_threads` that came in between wins.
    match THREADS.compare_exchange(0, n, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => n,
        Err(set) => set,
    }
}

/// Sets the number of threads of parallel calls that start from now on, in the whole process.
///
/// ```
/// use torsh_core::pool::{chunk_count, set_num_threads};
/// set_num_threads(4)?;
/// assert_eq!(chunk_count(1000, 10), 4);
/// # Ok::<(), torsh_core::pool::ThreadCountError>(())
/// ```
///
/// # Errors
/// [`ThreadCountError`] if `n` is 0.
pub fn set_num_threads(n: usize) -> Result<(), ThreadCountError> {
    if n == 0 {
        return Err(ThreadCountError);
    }
    THREADS.store(n, Ordering::Relaxed);
    Ok(())
}

/// Whether the calling thread is running a chunk of a parallel call; such a thread's own parallel
/// calls run serially.
///
/// ```
/// use torsh_core::pool::{in_parallel, parallel_for, set_num_threads};
/// set_num_threads(2)?;
/// parallel_for(100, 1, &|_| assert!(in_parallel()));
/// assert!(!in_parallel());
/// # Ok::<(), torsh_core::pool::ThreadCountError>(())
/// ```
#[inline]
pub fn in_parallel() -> bool {
    IN_PARALLEL.get()
}

/// Returns the number of chunks into which [`parallel_for`] cuts `n` items now: at most [`num_threads`],
/// each of `grain` items or more (unless there is only one); 0 if `n` is 0.
///
/// ```
/// use torsh_core::pool::{chunk_count, set_num_threads};
/// set_num_threads(4)?;
/// assert_eq!((chunk_count(0, 8), chunk_count(8, 8), chunk_count(24, 8), chunk_count(99, 8)), (0, 1, 3, 4));
/// # Ok::<(), torsh_core::pool::ThreadCountError>(())
/// ```
#[inline]
pub fn chunk_count(n: usize, grain: usize) -> usize {
    let grain = grain.max(1);
    if n <= grain || in_parallel() {
        return usize::from(n > 0);
    }
    num_threads().min(n / grain)
}

/// The `index`-th of `parts` contiguous ranges that together are `0..n` and differ by at most 1 in
/// length, the longer ones first.
#[inline]
fn chunk(n: usize, parts: usize, index: usize) -> Range<usize> {
    let (length, longer) = (n / parts, n % parts);
    let start = index * length + index.min(longer);
    start..start + length + usize::from(index < longer)
}

/// Calls `f` on disjoint ranges that together are `0..n`, on up to [`num_threads`] threads, and
/// returns when all calls have ended.
///
/// `grain` is the least number of items worth a thread of their own. With `n <= grain`, with one
/// thread, inside another parallel call, or while another thread has the pool, this is just
/// `f(0..n)` on the calling thread; with `n == 0` nothing is called.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use torsh_core::pool::parallel_for;
///
/// let sum = AtomicU64::new(0);
/// parallel_for(1000, 100, &|range| {
///     let part: u64 = range.map(|i| i as u64).sum();
///     sum.fetch_add(part, Ordering::Relaxed);
/// });
/// assert_eq!(sum.into_inner(), 499_500);
/// ```
///
/// # Panics
/// If `f` panics in some chunk, the panic goes on in the caller once all chunks have ended.
#[inline]
pub fn parallel_for(n: usize, grain: usize, f: &(dyn Fn(Range<usize>) + Sync)) {
    match chunk_count(n, grain) {
        0 => {}
        1 => f(0..n),
        parts => match WORKERS.try_lock() {
            Some(mut workers) => fork_join(&mut workers, n, parts, &|_, range| f(range)),
            None => f(0..n),
        },
    }
}

/// Calls `f` once for each index below `parts`, with the index-th of `parts` ranges that together
/// are `0..n`; the ranges beyond the `n`-th are empty. `parts` is usually a [`chunk_count`].
///
/// The ranges are the same whether they run in parallel or, because another thread has the pool, one
/// after the other; so a reduction with one partial result per part gives the same bits.
///
/// ```
/// use std::sync::Mutex;
/// use torsh_core::pool::parallel_parts;
///
/// let ends = Mutex::new([0; 3]);
/// parallel_parts(7, 3, &|index, range| ends.lock().expect("no panic")[index] = range.end);
/// assert_eq!(ends.into_inner().expect("no panic"), [3, 5, 7]);
/// ```
///
/// # Panics
/// As [`parallel_for`].
#[inline]
pub fn parallel_parts(n: usize, parts: usize, f: &(dyn Fn(usize, Range<usize>) + Sync)) {
    match parts {
        0 => debug_assert_eq!(n, 0, "items without parts"),
        1 => f(0, 0..n),
        _ => {
            let workers = if in_parallel() || num_threads() == 1 {
                None
            } else {
                WORKERS.try_lock()
            };
            match workers {
                Some(mut workers) => fork_join(&mut workers, n, parts, f),
                None => (0..parts).for_each(|index| f(index, chunk(n, parts, index))),
            }
        }
    }
}

type Chunk<'a> = dyn Fn(usize, Range<usize>) + Sync + 'a;

/// The first panic of a worker's chunk.
type Panicked = Mutex<Option<Box<dyn Any + Send>>>;

/// One worker's chunk. Both pointers are to what the caller of [`fork_join`] has or borrows.
#[derive(Clone, Copy)]
struct Job {
    f: *const Chunk<'static>,
    panicked: *const Panicked,
    index: usize,
    start: usize,
    end: usize,
}

// SAFETY: both pointers are to Sync values: a Sync closure and a mutex of a Send value.
unsafe impl Send for Job {}

impl Job {
    fn run(self) {
        // SAFETY: `fork_join` keeps the closure, and all that it borrows, and the mutex alive
        // until every posted job is finished (`Join`).
        let (f, panicked) = unsafe { (&*self.f, &*self.panicked) };
        let chunk = AssertUnwindSafe(|| f(self.index, self.start..self.end));
        if let Err(payload) = catch_unwind(chunk) {
            let mut first = panicked.lock();
            if first.is_none() {
                *first = Some(payload);
            } else {
                // Only one panic can go on in the caller; dropping a payload might panic again.
                std::mem::forget(payload);
            }
        }
    }
}

/// Waits, however the scope is left, for every job posted to these workers.
struct Join<'a>(&'a mut [Poster<Job>]);

impl Drop for Join<'_> {
    fn drop(&mut self) {
        for worker in self.0.iter_mut() {
            worker.wait();
        }
    }
}

/// Marks the calling thread as inside a parallel call.
struct Inside;

impl Inside {
    fn enter() -> Self {
        IN_PARALLEL.set(true);
        Self
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        IN_PARALLEL.set(false);
    }
}

#[inline(never)]
fn fork_join(workers: &mut Vec<Poster<Job>>, n: usize, parts: usize, f: &Chunk<'_>) {
    let wanted = (parts.min(num_threads())).saturating_sub(1);
    if workers.len() < wanted {
        start_workers(workers, wanted);
    }
    let helpers = wanted.min(workers.len());
    // Declared before `join`, so dropped after it has waited.
    let panicked = Panicked::new(None);
    // SAFETY: only the lifetime changes. `Job::run` alone dereferences the pointer, and `Join`
    // has this function wait for that.
    let erased = unsafe { std::mem::transmute::<*const Chunk<'_>, *const Chunk<'static>>(f) };
    {
        let join = Join(&mut workers[..helpers]);
        for (worker, index) in join.0.iter_mut().zip(1..) {
            let Range { start, end } = chunk(n, parts, index);
            worker.post(Job {
                f: erased,
                panicked: &raw const panicked,
                index,
                start,
                end,
            });
        }
        let _inside = Inside::enter();
        f(0, chunk(n, parts, 0));
        // What found no worker (the system gave no more threads) is the caller's too.
        (helpers + 1..parts).for_each(|index| f(index, chunk(n, parts, index)));
    }
    if let Some(payload) = panicked.into_inner() {
        resume_unwind(payload);
    }
}

#[cold]
fn start_workers(workers: &mut Vec<Poster<Job>>, wanted: usize) {
    while workers.len() < wanted {
        let name = format!("torsh-worker-{}", workers.len() + 1);
        let started = Poster::start(|taker| {
            std::thread::Builder::new()
                .name(name)
                .spawn(move || work(taker))
                .map(|handle| handle.thread().clone())
        });
        match started {
            Ok(worker) => workers.push(worker),
            // The caller runs what the missing workers would have.
            Err(_) => return,
        }
    }
}

/// A worker's life. It has no end: workers that a lower thread count leaves unused stay parked.
fn work(mut taker: Taker<Job>) {
    IN_PARALLEL.set(true);
    loop {
        taker.run_next(Job::run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_contiguous_and_even() {
        for n in [1, 2, 7, 64, 65, 1000] {
            for parts in 1..=9 {
                let mut next = 0;
                let mut lengths = Vec::new();
                for index in 0..parts {
                    let range = chunk(n, parts, index);
                    assert_eq!(range.start, next);
                    next = range.end;
                    lengths.push(range.len());
                }
                assert_eq!(next, n);
                assert!(lengths[0] - lengths[parts - 1] <= 1);
            }
        }
    }
}
