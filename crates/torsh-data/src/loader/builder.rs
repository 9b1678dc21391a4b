//! Builds data loaders.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use torsh_core::random::Generator;
use torsh_tensor::{Device, Result, TorshError};

use super::{DataLoader, Order};
use crate::Dataset;
use crate::collate::{CollateFn, DefaultCollate, OnDevice, Unbatched};
use crate::sampler::{RandomSampler, Sampler, SequentialSampler};
use crate::workers::InitFn;

/// What a loader does, but for its dataset and order.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) num_workers: usize,
    pub(super) prefetch_factor: usize,
    pub(super) persistent_workers: bool,
    pub(super) timeout: Option<Duration>,
    pub(super) worker_init_fn: Option<InitFn>,
    pub(super) generator: Option<Generator>,
}

/// Builds a [`DataLoader`]; the names and defaults are PyTorch's.
///
/// ```
/// use torsh_data::DataLoader;
///
/// let loader = DataLoader::builder((0..10i64).collect::<Vec<_>>())
///     .batch_size(4)
///     .shuffle(true)
///     .seed(0)
///     .drop_last(true)
///     .build()?;
/// let batches: Vec<Vec<i64>> = loader.iter().map(|b| b.to_vec()).collect::<Result<_, _>>()?;
/// assert_eq!(batches, [[3, 7, 5, 2], [0, 8, 1, 6]]); // PyTorch's, with a generator of seed 0
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[must_use = "a builder does nothing until build()"]
pub struct DataLoaderBuilder<D, C = DefaultCollate> {
    dataset: Arc<D>,
    collate: C,
    batch_size: Option<usize>,
    shuffle: bool,
    drop_last: bool,
    sampler: Option<Arc<dyn Sampler>>,
    batch_sampler: Option<Arc<dyn Sampler<Vec<usize>>>>,
    settings: Settings,
}

impl<D: Dataset> DataLoaderBuilder<D> {
    pub(super) fn new(dataset: D) -> Self {
        DataLoaderBuilder {
            dataset: Arc::new(dataset),
            collate: DefaultCollate,
            batch_size: None,
            shuffle: false,
            drop_last: false,
            sampler: None,
            batch_sampler: None,
            settings: Settings {
                num_workers: 0,
                prefetch_factor: 2,
                persistent_workers: false,
                timeout: None,
                worker_init_fn: None,
                generator: None,
            },
        }
    }
}

impl<D: Dataset, C> DataLoaderBuilder<D, C> {
    setters! {
        /// How many items a batch has (1).
        batch_size: Option<usize>, usize => Some;
        /// Whether each epoch has a random order (false).
        shuffle: bool;
        /// Whether a last batch with fewer items is left out (false).
        drop_last: bool;
    }

    /// How many threads make batches ahead of time (0: the reader's own thread makes them).
    pub fn num_workers(mut self, num_workers: usize) -> Self {
        self.settings.num_workers = num_workers;
        self
    }

    /// How many batches each worker may be ahead (2).
    pub fn prefetch_factor(mut self, prefetch_factor: usize) -> Self {
        self.settings.prefetch_factor = prefetch_factor;
        self
    }

    /// Whether the workers are kept from one epoch to the next (false). As in PyTorch the loader
    /// then draws a seed for its workers once and not in every epoch, which gives the epochs after
    /// the first other orders.
    pub fn persistent_workers(mut self, persistent_workers: bool) -> Self {
        self.settings.persistent_workers = persistent_workers;
        self
    }

    /// How long a batch may take (as long as it will): then the epoch ends with an error that
    /// names the worker and the batch.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = Some(timeout).filter(|t| !t.is_zero());
        self
    }

    /// Is called with its number on each worker before it reads anything.
    pub fn worker_init_fn(
        mut self,
        f: impl Fn(usize) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.settings.worker_init_fn = Some(Arc::new(f));
        self
    }

    /// Draws from a generator of this seed instead of the default one.
    pub fn seed(self, seed: u64) -> Self {
        self.generator(Generator::new(seed))
    }

    /// Draws from this generator.
    pub fn generator(mut self, generator: Generator) -> Self {
        self.settings.generator = Some(generator);
        self
    }

    /// Reads in this order; not together with `shuffle`.
    pub fn sampler(mut self, sampler: impl Sampler + 'static) -> Self {
        self.sampler = Some(Arc::new(sampler));
        self
    }

    /// Reads these batches; not together with `batch_size`, `shuffle`, `sampler` or `drop_last`.
    pub fn batch_sampler(mut self, batch_sampler: impl Sampler<Vec<usize>> + 'static) -> Self {
        self.batch_sampler = Some(Arc::new(batch_sampler));
        self
    }

    /// Makes batches with a function of the items, which need not implement
    /// [`Collate`](crate::Collate) then.
    ///
    /// ```
    /// use torsh_data::DataLoader;
    ///
    /// let loader = DataLoader::builder(vec![1i64, 2, 5])
    ///     .batch_size(2)
    ///     .collate_fn(|items| Ok(items.iter().sum::<i64>()))
    ///     .build()?;
    /// assert_eq!(loader.iter().collect::<Vec<_>>(), [3, 5]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn collate_fn<B, F>(self, f: F) -> DataLoaderBuilder<D, CollateFn<F, B>>
    where
        F: Fn(Vec<D::Item>) -> Result<B> + Send + Sync + 'static,
    {
        self.collated(|_| CollateFn::new(f))
    }

    /// Gives the items as they are, one by one (PyTorch's `batch_size=None`).
    ///
    /// ```
    /// use torsh_data::DataLoader;
    ///
    /// let loader = DataLoader::builder(vec![1i64, 2, 3]).unbatched().build()?;
    /// assert_eq!(loader.iter().collect::<Vec<_>>(), [1, 2, 3]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn unbatched(self) -> DataLoaderBuilder<D, Unbatched> {
        self.collated(|_| Unbatched)
    }

    /// Gives batches whose tensors are on a device (PyTorch's `pin_memory` and a `to(device)` of each
    /// batch). Where there
    /// are workers, they start the copies. Call it after [`collate_fn`](Self::collate_fn) or
    /// [`unbatched`](Self::unbatched), whose batches have to be [`ToDevice`](crate::ToDevice).
    ///
    /// ```
    /// use torsh_data::{DataLoader, TensorDataset};
    /// use torsh_tensor::{Device, tensor};
    ///
    /// let data = TensorDataset::new(tensor![[1.0], [2.0]], tensor![0, 1]);
    /// let loader = DataLoader::builder(data).batch_size(2).device(Device::Meta).build()?;
    /// for (x, y) in &loader {
    ///     assert_eq!((x.device(), y.device()), (Device::Meta, Device::Meta));
    /// }
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn device(self, device: impl Into<Device>) -> DataLoaderBuilder<D, OnDevice<C>> {
        let device = device.into();
        self.collated(|collate| OnDevice::new(collate, device))
    }

    fn collated<C2>(self, change: impl FnOnce(C) -> C2) -> DataLoaderBuilder<D, C2> {
        DataLoaderBuilder {
            dataset: self.dataset,
            collate: change(self.collate),
            batch_size: self.batch_size,
            shuffle: self.shuffle,
            drop_last: self.drop_last,
            sampler: self.sampler,
            batch_sampler: self.batch_sampler,
            settings: self.settings,
        }
    }

    /// The loader.
    ///
    /// ```
    /// use torsh_data::{DataLoader, SequentialSampler};
    ///
    /// let builder = DataLoader::builder(vec![1i64, 2]).shuffle(true).sampler(SequentialSampler::new(2));
    /// let error = builder.build().unwrap_err().to_string();
    /// assert!(error.contains("sampler option is mutually exclusive with shuffle"));
    /// ```
    ///
    /// # Errors
    /// A batch size or prefetch factor of 0, options that exclude each other, `persistent_workers` or a timeout without
    /// workers, a dataset that [`Dataset::check`] refuses.
    #[torsh_tensor::names_caller]
    pub fn build(self) -> Result<DataLoader<D, C>> {
        let refuse = |why: &str| Err(TorshError::invalid("DataLoader", why));
        if self.shuffle && self.sampler.is_some() {
            return refuse("sampler option is mutually exclusive with shuffle");
        }
        let others =
            self.batch_size.is_some() || self.shuffle || self.sampler.is_some() || self.drop_last;
        if self.batch_sampler.is_some() && others {
            return refuse(
                "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last",
            );
        }
        let loader = self.finish();
        loader.check()?;
        Ok(loader)
    }

    pub(super) fn finish(self) -> DataLoader<D, C> {
        let len = self.dataset.len();
        let order = match self.batch_sampler {
            Some(s) => Order::Batches(s),
            None => Order::Items {
                sampler: match (self.sampler, &self.settings.generator) {
                    (Some(s), _) => s,
                    (None, _) if !self.shuffle => Arc::new(SequentialSampler::new(len)),
                    (None, Some(g)) => Arc::new(RandomSampler::new(len).generator(g.clone())),
                    (None, None) => Arc::new(RandomSampler::new(len)),
                },
                batch_size: self.batch_size.unwrap_or(1),
                drop_last: self.drop_last,
            },
        };
        DataLoader {
            dataset: self.dataset,
            collate: Arc::new(self.collate),
            order,
            settings: self.settings,
            progress: Arc::new(Mutex::default()),
            idle: Arc::new(Mutex::new(None)),
            share: Mutex::new(None),
        }
    }
}
