//! Worker threads that prepare batches in advance, in order.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use torsh_tensor::{Result, TorshError};

use crate::Dataset;
use crate::collate::Fetch;
use crate::guard::guarded;
use crate::worker_info::{WorkerInfo, seeded, set_worker_info};

/// What an epoch reads: the items of each batch.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) order: Vec<usize>,
    /// Where in the order each batch ends.
    pub(crate) ends: Vec<usize>,
    /// The seed of what the dataset draws.
    pub(crate) seed: u64,
}

impl Plan {
    pub(crate) fn batches(&self) -> usize {
        self.ends.len()
    }

    /// Cuts the order into batches.
    pub(crate) fn cut(&mut self, batch_size: usize, drop_last: bool) {
        let n = self.order.len();
        let whole = n - n % batch_size;
        self.ends = (1..=whole / batch_size).map(|b| b * batch_size).collect();
        if whole < n && !drop_last {
            self.ends.push(n);
        }
    }

    fn indices(&self, batch: usize) -> &[usize] {
        let start = batch.checked_sub(1).map_or(0, |b| self.ends[b]);
        &self.order[start..self.ends[batch]]
    }
}

/// What is done once on each worker before it reads anything.
pub(crate) type InitFn = Arc<dyn Fn(usize) -> Result<()> + Send + Sync>;

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
    guarded(place, || {
        seeded(plan.seed, batch, || {
            collate.fetch(dataset, plan.indices(batch))
        })
    })
}

struct State<B> {
    /// What is being read; `None` between epochs.
    plan: Option<Arc<Plan>>,
    /// Tells a batch that was begun for an epoch since left from one of this epoch.
    epoch: u64,
    /// The next batch that no worker has begun.
    next: usize,
    /// The next batch to hand out.
    taken: usize,
    ready: BTreeMap<usize, Result<B>>,
    /// The worker at each batch that is begun.
    begun: BTreeMap<usize, usize>,
    closed: bool,
}

struct Queue<B> {
    state: Mutex<State<B>>,
    /// There is something to do: room for another batch, an epoch, or the end.
    work: Condvar,
    /// Another batch is ready.
    done: Condvar,
}

/// The workers of a loader. Dropping them lets each finish the batch it is at.
pub(crate) struct Workers<B> {
    queue: Arc<Queue<B>>,
    threads: Vec<JoinHandle<()>>,
    /// A worker has not answered in time: it may never end, and is not waited for.
    stuck: bool,
}

impl<B: Send + 'static> Workers<B> {
    /// Starts up to `count` workers, which stay at most `ahead` batches before the reader; `None`
    /// where the system gives no thread at all.
    pub(crate) fn start<D, C>(
        count: usize,
        ahead: usize,
        dataset: &Arc<D>,
        collate: &Arc<C>,
        init: &Option<InitFn>,
    ) -> Option<Workers<B>>
    where
        D: Dataset + 'static,
        C: Fetch<D, Batch = B>,
    {
        let queue = Arc::new(Queue {
            state: Mutex::new(State {
                plan: None,
                epoch: 0,
                next: 0,
                taken: 0,
                ready: BTreeMap::new(),
                begun: BTreeMap::new(),
                closed: false,
            }),
            work: Condvar::new(),
            done: Condvar::new(),
        });
        let mut threads = Vec::new();
        for worker in 0..count {
            let (queue, dataset, collate, init) = (
                queue.clone(),
                dataset.clone(),
                collate.clone(),
                init.clone(),
            );
            let run = move || {
                let mut init = init;
                while let Some((epoch, plan, batch)) = claim(&queue, ahead, worker) {
                    set_worker_info(WorkerInfo {
                        id: worker,
                        num_workers: count,
                        seed: plan.seed.wrapping_add(worker as u64),
                    });
                    let made = initialised(&mut init, worker)
                        .and_then(|()| fetch(&*dataset, &*collate, &plan, batch, Some(worker)));
                    put(&queue, epoch, batch, made);
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
            Some(Workers {
                queue,
                threads,
                stuck: false,
            })
        }
    }

    /// Begins an epoch at its batch `first`.
    pub(crate) fn begin(&self, plan: &Arc<Plan>, first: usize) {
        let mut s = self.queue.state.lock();
        s.plan = Some(plan.clone());
        (s.next, s.taken) = (first, first);
        drop(s);
        self.queue.work.notify_all();
    }

    /// Leaves the epoch; what workers are still at is thrown away.
    pub(crate) fn leave(&self) {
        let mut s = self.queue.state.lock();
        s.plan = None;
        s.epoch += 1;
        s.begun.clear();
        let unread = std::mem::take(&mut s.ready);
        drop(s);
        drop(unread);
    }

    /// Whether a worker has not answered in time.
    pub(crate) fn is_stuck(&self) -> bool {
        self.stuck
    }

    /// The next batch in order, when it is ready; an error where that takes longer than `timeout`.
    pub(crate) fn next(&mut self, timeout: Option<Duration>) -> Result<B> {
        // A time too far off to be told is none.
        let until = timeout.and_then(|t| Instant::now().checked_add(t));
        let mut s = self.queue.state.lock();
        let batch = s.taken;
        loop {
            if let Some(made) = s.ready.remove(&batch) {
                s.taken += 1;
                drop(s);
                self.queue.work.notify_all();
                return made;
            }
            match until {
                None => self.queue.done.wait(&mut s),
                Some(until) => {
                    let late = self.queue.done.wait_until(&mut s, until).timed_out();
                    if late && !s.ready.contains_key(&batch) {
                        self.stuck = true;
                        let who = match s.begun.get(&batch) {
                            Some(w) => format!("worker {w} is still at batch {batch}"),
                            None => format!("no worker has come to batch {batch}"),
                        };
                        return Err(TorshError::Other(format!(
                            "DataLoader timed out after {} seconds: {who}",
                            timeout.unwrap_or_default().as_secs_f64()
                        )));
                    }
                }
            }
        }
    }
}

/// Does what is to be done once on a worker.
pub(crate) fn initialised(init: &mut Option<InitFn>, worker: usize) -> Result<()> {
    let Some(f) = init else {
        return Ok(());
    };
    guarded(
        || format!("DataLoader worker {worker}, worker_init_fn"),
        || f(worker),
    )?;
    *init = None;
    Ok(())
}

/// The next batch for a worker to make, when there is room for it; `None` at the end.
fn claim<B>(queue: &Queue<B>, ahead: usize, worker: usize) -> Option<(u64, Arc<Plan>, usize)> {
    let mut s = queue.state.lock();
    loop {
        if s.closed {
            return None;
        }
        if let Some(plan) = &s.plan
            && s.next < plan.batches()
            && s.next < s.taken.saturating_add(ahead)
        {
            let (batch, plan) = (s.next, plan.clone());
            s.next += 1;
            s.begun.insert(batch, worker);
            return Some((s.epoch, plan, batch));
        }
        queue.work.wait(&mut s);
    }
}

/// Puts a batch where the reader takes it, if the reader still wants it.
fn put<B>(queue: &Queue<B>, epoch: u64, batch: usize, made: Result<B>) {
    let mut s = queue.state.lock();
    if s.epoch == epoch {
        s.begun.remove(&batch);
        s.ready.insert(batch, made);
        drop(s);
        queue.done.notify_all();
    }
}

impl<B> Drop for Workers<B> {
    fn drop(&mut self) {
        self.queue.state.lock().closed = true;
        self.queue.work.notify_all();
        for t in self.threads.drain(..) {
            if !self.stuck {
                // A worker catches the panics of the dataset and has none of its own.
                let _ = t.join();
            }
        }
    }
}
