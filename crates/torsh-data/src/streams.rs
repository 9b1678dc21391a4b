//! Threads that each read a stream; the loader takes their batches in turn.

use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use torsh_core::random::LocalGenerator;
use torsh_tensor::{Result, TorshError};

use crate::guard::{guarded, in_item};
use crate::worker_info::{WorkerInfo, set_worker_info, spread};
use crate::workers::{InitFn, initialised};

/// How many items of its stream a worker has read; `OVER` at the end of the stream.
pub(crate) type Items = i64;
pub(crate) const OVER: Items = -1;

/// A batch, and where all streams are behind it; `None` for an error that is no batch's.
pub(crate) struct Given<B> {
    pub(crate) batch: Result<B>,
    pub(crate) at: Option<At>,
}

/// Where the streams are: the items that their batches so far were made of, and whose turn it is.
#[derive(Clone, Debug)]
pub(crate) struct At {
    pub(crate) items: Vec<Items>,
    pub(crate) turn: usize,
}

/// A worker and what it has ready.
struct Stream<B> {
    worker: usize,
    batches: Receiver<(Items, Result<B>)>,
    thread: JoinHandle<()>,
}

/// The workers of one pass. Dropping them lets each finish the batch it is at.
pub(crate) struct Streams<B> {
    /// Those that are not at their end.
    streams: Vec<Stream<B>>,
    /// Whose turn it is among those.
    turn: usize,
    /// How far each worker's batches were given.
    items: Vec<Items>,
    timeout: Option<Duration>,
    ended: Vec<JoinHandle<()>>,
}

impl<B: Send + 'static> Streams<B> {
    /// Streams to be started, one for each that is not over.
    pub(crate) fn new(timeout: Option<Duration>, at: &At) -> Self {
        let before = at.items.iter().take(at.turn);
        Streams {
            streams: Vec::new(),
            turn: before.filter(|&&n| n != OVER).count(),
            items: at.items.clone(),
            timeout,
            ended: Vec::new(),
        }
    }

    /// Starts a worker, which gives its batches, and the items it has read, to a function that says
    /// whether more are wanted. `place` is its number among the workers of all processes.
    pub(crate) fn start(
        &mut self,
        worker: usize,
        (place, num_workers): (usize, usize),
        seed: u64,
        ahead: usize,
        mut init: Option<InitFn>,
        read: impl FnOnce(&mut dyn FnMut(Items, Result<B>) -> bool) + Send + 'static,
    ) -> Result<()> {
        let (sender, batches) = sync_channel(ahead);
        let seed = seed.wrapping_add(place as u64);
        let run = move || {
            set_worker_info(WorkerInfo {
                id: place,
                num_workers,
                seed,
            });
            let place = || format!("IterableLoader worker {worker}");
            let end = initialised(&mut init, worker).and_then(|()| {
                guarded(place, || {
                    LocalGenerator::new(spread(seed)).scope(|| {
                        read(&mut |n, b| {
                            let b = b.map_err(|e| in_item(e, &place()));
                            sender.send((n, b)).is_ok()
                        });
                    });
                    Ok(())
                })
            });
            if let Err(e) = end {
                // A reader that has gone wants no error.
                let _ = sender.send((OVER, Err(e)));
            }
        };
        let thread = std::thread::Builder::new()
            .name(format!("torsh-data-{worker}"))
            .spawn(run)?;
        self.streams.push(Stream {
            worker,
            batches,
            thread,
        });
        Ok(())
    }
}

impl<B> Streams<B> {
    fn at(&self) -> At {
        let next = self.streams.get(self.turn).or(self.streams.first());
        At {
            items: self.items.clone(),
            turn: next.map_or(0, |s| s.worker),
        }
    }
}

impl<B> Iterator for Streams<B> {
    type Item = Given<B>;

    fn next(&mut self) -> Option<Given<B>> {
        while !self.streams.is_empty() {
            self.turn %= self.streams.len();
            let stream = &self.streams[self.turn];
            let worker = stream.worker;
            let got = match self.timeout {
                Some(t) => stream.batches.recv_timeout(t),
                None => stream
                    .batches
                    .recv()
                    .map_err(|_| RecvTimeoutError::Disconnected),
            };
            match got {
                Ok((items, batch)) => {
                    self.turn += 1;
                    self.items[worker] = items;
                    let at = Some(self.at());
                    return Some(Given { batch, at });
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let over = self.streams.remove(self.turn);
                    self.ended.push(over.thread);
                    self.items[worker] = OVER;
                }
                Err(RecvTimeoutError::Timeout) => {
                    // It may never end: none is waited for.
                    self.streams.clear();
                    self.ended.clear();
                    let batch = Err(TorshError::Other(format!(
                        "IterableLoader timed out after {} seconds: worker {worker} has no batch",
                        self.timeout.unwrap_or_default().as_secs_f64()
                    )));
                    return Some(Given { batch, at: None });
                }
            }
        }
        None
    }
}

impl<B> Drop for Streams<B> {
    fn drop(&mut self) {
        let threads = self.streams.drain(..).map(|s| {
            // Without its receiver a worker that waits for room ends.
            drop(s.batches);
            s.thread
        });
        let threads: Vec<_> = threads.chain(self.ended.drain(..)).collect();
        for t in threads {
            // A worker catches the panics of the dataset and has none of its own.
            let _ = t.join();
        }
    }
}
