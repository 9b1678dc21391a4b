//! The batches of one epoch.

use std::any::Any;
use std::iter::FusedIterator;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use torsh_tensor::{Result, TorshError, at_caller};

use super::Progress;
use crate::Dataset;
use crate::collate::Fetch;
use crate::workers::{Plan, Workers, fetch};

/// Workers between two epochs. What batches are is known to the iterators that use it.
pub(super) type Idle = Arc<Mutex<Option<Box<dyn Any + Send>>>>;

/// The batches of an epoch as `Result`s; see [`DataLoader::try_iter`](super::DataLoader::try_iter).
pub struct TryBatches<D: Dataset, C: Fetch<D>> {
    pub(super) dataset: Arc<D>,
    pub(super) collate: Arc<C>,
    pub(super) plan: Arc<Plan>,
    pub(super) next: usize,
    /// Why there is no epoch.
    pub(super) error: Option<TorshError>,
    pub(super) workers: Option<Workers<C::Batch>>,
    pub(super) timeout: Option<Duration>,
    /// Where the workers go after the epoch, if they stay.
    pub(super) idle: Option<Idle>,
    pub(super) progress: Arc<Mutex<Progress>>,
    /// This epoch's number in the loader's progress.
    pub(super) epoch: u64,
}

impl<D: Dataset, C: Fetch<D>> TryBatches<D, C> {
    /// Notes how far this epoch is, unless the loader has begun another.
    fn note(&self) {
        let mut progress = self.progress.lock();
        if progress.epoch == self.epoch
            && let Some(p) = &mut progress.position
        {
            p.given = self.next;
        }
    }

    fn finish(&self) {
        let mut progress = self.progress.lock();
        if progress.epoch == self.epoch {
            progress.position = None;
        }
    }
}

impl<D: Dataset, C: Fetch<D>> Iterator for TryBatches<D, C> {
    type Item = Result<C::Batch>;

    #[track_caller]
    fn next(&mut self) -> Option<Self::Item> {
        at_caller(|| self.advance().transpose()).transpose()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let n = self.plan.batches() - self.next + usize::from(self.error.is_some());
        (n, Some(n))
    }
}

impl<D: Dataset, C: Fetch<D>> TryBatches<D, C> {
    fn advance(&mut self) -> Option<Result<C::Batch>> {
        if let Some(e) = self.error.take() {
            return Some(Err(e));
        }
        if self.next >= self.plan.batches() {
            self.finish();
            return None;
        }
        let batch = self.next;
        let made = match &mut self.workers {
            Some(w) => {
                let made = w.next(self.timeout);
                if w.is_stuck() {
                    // The epoch ends here, for good; its position stays before the late batch.
                    self.workers = None;
                    self.plan = Arc::default();
                    self.epoch = 0;
                    self.next = 0;
                    return Some(made);
                }
                made
            }
            None => fetch(&*self.dataset, &*self.collate, &self.plan, batch, None),
        };
        self.next += 1;
        self.note();
        Some(made)
    }
}

impl<D: Dataset, C: Fetch<D>> ExactSizeIterator for TryBatches<D, C> {}
impl<D: Dataset, C: Fetch<D>> FusedIterator for TryBatches<D, C> {}

impl<D: Dataset, C: Fetch<D>> Drop for TryBatches<D, C> {
    fn drop(&mut self) {
        if let (Some(workers), Some(idle)) = (self.workers.take(), &self.idle) {
            workers.leave();
            // Where two epochs were read at once, one set of workers stays.
            let other = idle.lock().replace(Box::new(workers));
            drop(other);
        }
    }
}

/// The batches of an epoch; panics with the dataset's error.
pub struct Batches<D: Dataset, C: Fetch<D>>(pub(super) TryBatches<D, C>);

impl<D: Dataset, C: Fetch<D>> Iterator for Batches<D, C> {
    type Item = C::Batch;

    #[track_caller]
    fn next(&mut self) -> Option<C::Batch> {
        match self.0.next()? {
            Ok(batch) => Some(batch),
            Err(e) => panic!("{e}"),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<D: Dataset, C: Fetch<D>> ExactSizeIterator for Batches<D, C> {}
impl<D: Dataset, C: Fetch<D>> FusedIterator for Batches<D, C> {}
