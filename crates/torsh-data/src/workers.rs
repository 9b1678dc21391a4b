//! Threads that make batches ahead of time, in order.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};
use torsh_tensor::{Result, TorshError};

use crate::Dataset;
use crate::collate::Fetch;
use crate::dataset::{in_item, panic_text};

/// What an epoch reads: the items of each batch.
pub(crate) struct Plan {
    pub(crate) order: Vec<usize>,
    pub(crate) batch_size: usize,
    pub(crate) batches: usize,
}

impl Plan {
    fn indices(&self, batch: usize) -> &[usize] {
        let start = batch * self.batch_size;
        &self.order[start..(start + self.batch_size).min(self.order.len())]
    }
}

/// One batch; a panic of the dataset is an error.
pub(crate) fn fetch<D: Dataset, C: Fetch<D>>(
    dataset: &D,
    collate: &C,
    plan: &Plan,
    batch: usize,
    worker: Option<usize>,
) -> Result<C::Batch> {
    let place = || match worker {
        Some(w) => format!("DataLoader worker {w}, batch {batch}"),
        None => format!("DataLoader, batch {batch}"),
    };
    match catch_unwind(AssertUnwindSafe(|| {
        collate.fetch(dataset, plan.indices(batch))
    })) {
        Ok(r) => r.map_err(|e| in_item(e, &place())),
        Err(p) => Err(TorshError::Other(format!(
            "{}: panicked: {}",
            place(),
            panic_text(&*p)
        ))),
    }
}

struct State<B> {
    /// The next batch that no worker has begun.
    next: usize,
    /// How many batches were handed out.
    taken: usize,
    ready: BTreeMap<usize, Result<B>>,
    closed: bool,
}

struct Queue<B> {
    state: Mutex<State<B>>,
    /// There is room for another batch, or the queue was closed.
    room: Condvar,
    /// Another batch is ready.
    done: Condvar,
}

/// The workers of one epoch. Dropping it lets each finish the batch it is at.
pub(crate) struct Workers<B> {
    queue: Arc<Queue<B>>,
    threads: Vec<JoinHandle<()>>,
}

impl<B: Send + 'static> Workers<B> {
    /// Starts up to `count` workers, which stay at most `ahead` batches before the reader; `None`
    /// where the system gives no thread at all.
    pub(crate) fn start<D, C>(
        count: usize,
        ahead: usize,
        dataset: &Arc<D>,
        collate: &Arc<C>,
        plan: &Arc<Plan>,
    ) -> Option<Workers<B>>
    where
        D: Dataset + 'static,
        C: Fetch<D, Batch = B>,
    {
        let queue = Arc::new(Queue {
            state: Mutex::new(State {
                next: 0,
                taken: 0,
                ready: BTreeMap::new(),
                closed: false,
            }),
            room: Condvar::new(),
            done: Condvar::new(),
        });
        let mut threads = Vec::new();
        for worker in 0..count.min(plan.batches) {
            let (queue, dataset, collate, plan) = (
                queue.clone(),
                dataset.clone(),
                collate.clone(),
                plan.clone(),
            );
            let run = move || {
                while let Some(batch) = claim(&queue, ahead, plan.batches) {
                    let made = fetch(&*dataset, &*collate, &plan, batch, Some(worker));
                    queue.state.lock().ready.insert(batch, made);
                    queue.done.notify_all();
                }
            };
            match std::thread::Builder::new()
                .name(format!("torsh-data-{worker}"))
                .spawn(run)
            {
                Ok(t) => threads.push(t),
                Err(_) => break,
            }
        }
        if threads.is_empty() {
            None
        } else {
            Some(Workers { queue, threads })
        }
    }

    /// The next batch in order, when it is ready.
    pub(crate) fn next(&self) -> Result<B> {
        let mut s = self.queue.state.lock();
        let batch = s.taken;
        loop {
            if let Some(made) = s.ready.remove(&batch) {
                s.taken += 1;
                drop(s);
                self.queue.room.notify_all();
                return made;
            }
            self.queue.done.wait(&mut s);
        }
    }
}

/// The next batch for a worker to make, when there is room for it; `None` at the end.
fn claim<B>(queue: &Queue<B>, ahead: usize, batches: usize) -> Option<usize> {
    let mut s = queue.state.lock();
    loop {
        if s.closed || s.next >= batches {
            return None;
        }
        if s.next < s.taken + ahead {
            s.next += 1;
            return Some(s.next - 1);
        }
        queue.room.wait(&mut s);
    }
}

impl<B> Drop for Workers<B> {
    fn drop(&mut self) {
        self.queue.state.lock().closed = true;
        self.queue.room.notify_all();
        for t in self.threads.drain(..) {
            // A worker catches the panics of the dataset and has none of its own.
            let _ = t.join();
        }
    }
}
