//! The data loader.

use std::fmt;
use std::iter::FusedIterator;
use std::sync::Arc;

use torsh_core::random::{Generator, default_generator};
use torsh_tensor::{Result, TorshError};

use crate::collate::{CollateFn, DefaultCollate, Fetch};
use crate::sampler::{RandomSampler, Sampler, SequentialSampler};
use crate::workers::{Plan, Workers, fetch};
use crate::{Dataset, TensorDataset};

/// Reads a dataset in batches (`torch.utils.data.DataLoader`).
///
/// `for batch in &loader` panics with the dataset's error where one occurs;
/// [`DataLoader::try_iter`] gives `Result`s. The batches are the same for any number of workers,
/// and with a seed they are PyTorch's for a generator of the same seed. Each epoch has an order of
/// its own.
pub struct DataLoader<D = TensorDataset, C = DefaultCollate> {
    dataset: Arc<D>,
    collate: Arc<C>,
    batch_size: usize,
    drop_last: bool,
    num_workers: usize,
    prefetch_factor: usize,
    sampler: Arc<dyn Sampler>,
    generator: Option<Generator>,
}

/// Builds a [`DataLoader`]; the names and defaults are PyTorch's.
#[must_use = "a builder does nothing until build()"]
pub struct DataLoaderBuilder<D, C = DefaultCollate> {
    dataset: Arc<D>,
    collate: C,
    batch_size: usize,
    shuffle: bool,
    drop_last: bool,
    num_workers: usize,
    prefetch_factor: usize,
    sampler: Option<Arc<dyn Sampler>>,
    generator: Option<Generator>,
}

impl<D: Dataset, C> DataLoaderBuilder<D, C> {
    /// How many items a batch has (1).
    pub fn batch_size(mut self, batch_size: usize) -> Self {
        self.batch_size = batch_size;
        self
    }

    /// Whether each epoch has a random order (false).
    pub fn shuffle(mut self, shuffle: bool) -> Self {
        self.shuffle = shuffle;
        self
    }

    /// Whether a last batch with fewer items is left out (false).
    pub fn drop_last(mut self, drop_last: bool) -> Self {
        self.drop_last = drop_last;
        self
    }

    /// How many threads make batches ahead of time (0: the reader's own thread makes them).
    pub fn num_workers(mut self, num_workers: usize) -> Self {
        self.num_workers = num_workers;
        self
    }

    /// How many batches each worker may be ahead (2).
    pub fn prefetch_factor(mut self, prefetch_factor: usize) -> Self {
        self.prefetch_factor = prefetch_factor;
        self
    }

    /// Shuffles with a generator of this seed instead of the default one.
    pub fn seed(self, seed: u64) -> Self {
        self.generator(Generator::new(seed))
    }

    /// Shuffles with this generator.
    pub fn generator(mut self, generator: Generator) -> Self {
        self.generator = Some(generator);
        self
    }

    /// Reads in this order; not together with `shuffle`.
    pub fn sampler(mut self, sampler: impl Sampler + 'static) -> Self {
        self.sampler = Some(Arc::new(sampler));
        self
    }

    /// Makes batches with a function of the items, which need not implement
    /// [`Collate`](crate::Collate) then.
    pub fn collate_fn<B, F>(self, f: F) -> DataLoaderBuilder<D, CollateFn<F, B>>
    where
        F: Fn(Vec<D::Item>) -> Result<B> + Send + Sync + 'static,
    {
        DataLoaderBuilder {
            dataset: self.dataset,
            collate: CollateFn::new(f),
            batch_size: self.batch_size,
            shuffle: self.shuffle,
            drop_last: self.drop_last,
            num_workers: self.num_workers,
            prefetch_factor: self.prefetch_factor,
            sampler: self.sampler,
            generator: self.generator,
        }
    }

    /// The loader. Errors: a batch size or prefetch factor of 0, `shuffle` with a sampler, a
    /// dataset that [`Dataset::check`] refuses.
    #[track_caller]
    pub fn build(self) -> Result<DataLoader<D, C>> {
        if self.shuffle && self.sampler.is_some() {
            return Err(TorshError::invalid(
                "DataLoader",
                "sampler option is mutually exclusive with shuffle",
            ));
        }
        let loader = self.finish();
        loader.check()?;
        Ok(loader)
    }

    fn finish(self) -> DataLoader<D, C> {
        let len = self.dataset.len();
        let sampler: Arc<dyn Sampler> = match (self.sampler, &self.generator) {
            (Some(s), _) => s,
            (None, _) if !self.shuffle => Arc::new(SequentialSampler::new(len)),
            (None, Some(g)) => Arc::new(RandomSampler::new(len).generator(g.clone())),
            (None, None) => Arc::new(RandomSampler::new(len)),
        };
        DataLoader {
            dataset: self.dataset,
            collate: Arc::new(self.collate),
            batch_size: self.batch_size,
            drop_last: self.drop_last,
            num_workers: self.num_workers,
            prefetch_factor: self.prefetch_factor,
            sampler,
            generator: self.generator,
        }
    }
}

impl<D: Dataset> DataLoader<D> {
    /// Starts building a loader. An `Arc` of a dataset is one too.
    pub fn builder(dataset: D) -> DataLoaderBuilder<D> {
        DataLoaderBuilder {
            dataset: Arc::new(dataset),
            collate: DefaultCollate,
            batch_size: 1,
            shuffle: false,
            drop_last: false,
            num_workers: 0,
            prefetch_factor: 2,
            sampler: None,
            generator: None,
        }
    }

    /// A loader in one call. What [`DataLoaderBuilder::build`] refuses is an error when the loader
    /// is read.
    pub fn new_with_options(
        dataset: D,
        batch_size: usize,
        shuffle: bool,
        num_workers: usize,
        drop_last: bool,
    ) -> DataLoader<D> {
        DataLoader::builder(dataset)
            .batch_size(batch_size)
            .shuffle(shuffle)
            .num_workers(num_workers)
            .drop_last(drop_last)
            .finish()
    }
}

impl<D: Dataset, C> DataLoader<D, C> {
    fn check(&self) -> Result<()> {
        if self.batch_size == 0 {
            return Err(TorshError::invalid(
                "DataLoader",
                "batch_size must be at least 1, got 0",
            ));
        }
        if self.num_workers > 0 && self.prefetch_factor == 0 {
            return Err(TorshError::invalid(
                "DataLoader",
                "prefetch_factor must be at least 1, got 0",
            ));
        }
        self.dataset.check()
    }

    /// The number of batches of an epoch.
    pub fn len(&self) -> usize {
        match (self.batch_size, self.drop_last) {
            (0, _) => 0,
            (b, true) => self.sampler.len() / b,
            (b, false) => self.sampler.len().div_ceil(b),
        }
    }

    /// Whether an epoch has no batch.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The dataset.
    pub fn dataset(&self) -> &Arc<D> {
        &self.dataset
    }

    /// How many items a batch has.
    pub fn batch_size(&self) -> usize {
        self.batch_size
    }

    fn plan(&self) -> Result<Plan> {
        self.check()?;
        // PyTorch's loader draws a seed for its workers at this point.
        self.generator
            .as_ref()
            .unwrap_or(default_generator())
            .random64();
        let order = self.sampler.indices()?;
        let batches = if self.drop_last {
            order.len() / self.batch_size
        } else {
            order.len().div_ceil(self.batch_size)
        };
        Ok(Plan {
            order,
            batch_size: self.batch_size,
            batches,
        })
    }
}

impl<D: Dataset + 'static, C: Fetch<D>> DataLoader<D, C> {
    /// The batches of the next epoch, or what went wrong with each. The first is begun when it is
    /// asked for, or at once where there are workers.
    pub fn try_iter(&self) -> TryBatches<D, C> {
        let (plan, error) = match self.plan() {
            Ok(plan) => (plan, None),
            Err(e) => (
                Plan {
                    order: Vec::new(),
                    batch_size: 1,
                    batches: 0,
                },
                Some(e),
            ),
        };
        let plan = Arc::new(plan);
        let workers = if self.num_workers > 0 {
            let ahead = self.num_workers.saturating_mul(self.prefetch_factor);
            Workers::start(self.num_workers, ahead, &self.dataset, &self.collate, &plan)
        } else {
            None
        };
        TryBatches {
            dataset: self.dataset.clone(),
            collate: self.collate.clone(),
            plan,
            next: 0,
            error,
            workers,
        }
    }

    /// The batches of the next epoch. Panics with the dataset's error.
    pub fn iter(&self) -> Batches<D, C> {
        Batches(self.try_iter())
    }

    /// The batches of the next epoch with their numbers. Panics with the dataset's error.
    pub fn enumerate(&self) -> std::iter::Enumerate<Batches<D, C>> {
        self.iter().enumerate()
    }
}

impl<D: Dataset, C> fmt::Debug for DataLoader<D, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataLoader")
            .field("items", &self.dataset.len())
            .field("batch_size", &self.batch_size)
            .field("drop_last", &self.drop_last)
            .field("num_workers", &self.num_workers)
            .finish_non_exhaustive()
    }
}

/// The batches of an epoch as `Result`s; see [`DataLoader::try_iter`].
pub struct TryBatches<D: Dataset, C: Fetch<D>> {
    dataset: Arc<D>,
    collate: Arc<C>,
    plan: Arc<Plan>,
    next: usize,
    /// Why there is no epoch.
    error: Option<TorshError>,
    workers: Option<Workers<C::Batch>>,
}

impl<D: Dataset, C: Fetch<D>> Iterator for TryBatches<D, C> {
    type Item = Result<C::Batch>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(e) = self.error.take() {
            return Some(Err(e));
        }
        if self.next >= self.plan.batches {
            return None;
        }
        let batch = self.next;
        self.next += 1;
        Some(match &self.workers {
            Some(w) => w.next(),
            None => fetch(&*self.dataset, &*self.collate, &self.plan, batch, None),
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let n = self.plan.batches - self.next + usize::from(self.error.is_some());
        (n, Some(n))
    }
}

impl<D: Dataset, C: Fetch<D>> ExactSizeIterator for TryBatches<D, C> {}
impl<D: Dataset, C: Fetch<D>> FusedIterator for TryBatches<D, C> {}

/// The batches of an epoch; panics with the dataset's error.
pub struct Batches<D: Dataset, C: Fetch<D>>(TryBatches<D, C>);

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

impl<D: Dataset + 'static, C: Fetch<D>> IntoIterator for &DataLoader<D, C> {
    type Item = C::Batch;
    type IntoIter = Batches<D, C>;
    fn into_iter(self) -> Batches<D, C> {
        self.iter()
    }
}

impl<D: Dataset + 'static, C: Fetch<D>> IntoIterator for DataLoader<D, C> {
    type Item = C::Batch;
    type IntoIter = Batches<D, C>;
    fn into_iter(self) -> Batches<D, C> {
        self.iter()
    }
}
