//! Threads that each read a stream; their batches are taken in turn.

use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use torsh_core::random::LocalGenerator;
use torsh_tensor::{Result, TorshError};

use crate::worker_info::{WorkerInfo, set_worker_info, spread};
use crate::workers::{InitFn, guarded, initialised};

/// A worker and what it has ready.
struct Stream<B> {
    worker: usize,
    batches: Receiver<Result<B>>,
    thread: JoinHandle<()>,
}

/// The workers of one pass. Dropping them lets each finish the batch it is at.
pub(crate) struct Streams<B> {
    /// Those that are not at their end.
    streams: Vec<Stream<B>>,
    /// Whose turn it is.
    turn: usize,
    timeout: Option<Duration>,
    ended: Vec<JoinHandle<()>>,
}

impl<B: Send + 'static> Streams<B> {
    pub(crate) fn new(timeout: Option<Duration>) -> Self {
        Streams {
            streams: Vec::new(),
            turn: 0,
            timeout,
            ended: Vec::new(),
        }
    }

    /// Starts a worker, which gives its batches to a function that says whether more are wanted.
    pub(crate) fn start(
        &mut self,
        worker: usize,
        num_workers: usize,
        seed: u64,
        ahead: usize,
        mut init: Option<InitFn>,
        read: impl FnOnce(&mut dyn FnMut(Result<B>) -> bool) + Send + 'static,
    ) -> Result<()> {
        let (sender, batches) = sync_channel(ahead);
        let seed = seed.wrapping_add(worker as u64);
        let run = move || {
            set_worker_info(WorkerInfo {
                id: worker,
                num_workers,
                seed,
            });
            let place = || format!("IterableLoader worker {worker}");
            let end = initialised(&mut init, worker).and_then(|()| {
                guarded(place, || {
                    LocalGenerator::new(spread(seed)).scope(|| {
                        read(&mut |b| {
                            let b = b.map_err(|e| crate::dataset::in_item(e, &place()));
                            sender.send(b).is_ok()
                        });
                    });
                    Ok(())
                })
            });
            if let Err(e) = end {
                // A reader that has gone wants no error.
                let _ = sender.send(Err(e));
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

impl<B> Iterator for Streams<B> {
    type Item = Result<B>;

    fn next(&mut self) -> Option<Result<B>> {
        while !self.streams.is_empty() {
            self.turn %= self.streams.len();
            let stream = &self.streams[self.turn];
            let got = match self.timeout {
                Some(t) => stream.batches.recv_timeout(t),
                None => stream
                    .batches
                    .recv()
                    .map_err(|_| RecvTimeoutError::Disconnected),
            };
            match got {
                Ok(b) => {
                    self.turn += 1;
                    return Some(b);
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let over = self.streams.remove(self.turn);
                    self.ended.push(over.thread);
                }
                Err(RecvTimeoutError::Timeout) => {
                    let late = stream.worker;
                    // It may never end: none is waited for.
                    self.streams.clear();
                    self.ended.clear();
                    return Some(Err(TorshError::Other(format!(
                        "IterableLoader timed out after {} seconds: worker {late} has no batch",
                        self.timeout.unwrap_or_default().as_secs_f64()
                    ))));
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
