//! Datasets that are read from front to back.

use std::sync::Arc;
use std::time::Duration;

use torsh_core::Generator;
use torsh_core::random::{LocalGenerator, default_generator};
use torsh_tensor::{Result, TorshError};

use crate::Collate;
use crate::streams::Streams;
use crate::worker_info::spread;
use crate::workers::{InitFn, guarded};

/// Items without numbers, as of a stream (`torch.utils.data.IterableDataset`).
pub trait IterableDataset: Send + Sync {
    /// What one item is.
    type Item;
    /// Starts from the front. Each worker of a loader asks for its own: those of a dataset that
    /// does not ask [`get_worker_info`](crate::get_worker_info) for its part give all items each,
    /// as in PyTorch.
    fn iter(&self) -> Box<dyn Iterator<Item = Result<Self::Item>> + Send + '_>;
}

macro_rules! forward {
    ($($t:ty),*) => {$(
        impl<D: IterableDataset + ?Sized> IterableDataset for $t {
            type Item = D::Item;
            fn iter(&self) -> Box<dyn Iterator<Item = Result<D::Item>> + Send + '_> {
                (**self).iter()
            }
        }
    )*};
}
forward!(&D, Box<D>, Arc<D>);

type CollateItems<T, B> = Arc<dyn Fn(Vec<T>) -> Result<B> + Send + Sync>;

/// Reads an [`IterableDataset`] in batches.
///
/// With workers each reads its own stream, and their batches come in turn. What the dataset draws
/// from the default generator depends on the loader's seed and the worker alone.
///
/// ```
/// use torsh_data::{IterableDataset, IterableLoader, get_worker_info};
/// use torsh_tensor::Result;
///
/// struct Odd;
/// impl IterableDataset for Odd {
///     type Item = i64;
///     fn iter(&self) -> Box<dyn Iterator<Item = Result<i64>> + Send + '_> {
///         let (id, n) = get_worker_info().map_or((0, 1), |w| (w.id, w.num_workers));
///         Box::new((0..5).skip(id).step_by(n).map(|i| Ok(2 * i + 1)))
///     }
/// }
///
/// let loader = IterableLoader::new(Odd, 2)?;
/// let batches = loader.try_iter().map(|b| b?.to_vec::<i64>()).collect::<Result<Vec<_>>>()?;
/// assert_eq!(batches, [vec![1, 3], vec![5, 7], vec![9]]);
///
/// let loader = IterableLoader::new(Odd, 2)?.num_workers(2);
/// let batches = loader.try_iter().map(|b| b?.to_vec::<i64>()).collect::<Result<Vec<_>>>()?;
/// assert_eq!(batches, [vec![1, 5], vec![3, 7], vec![9]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub struct IterableLoader<D: IterableDataset, B = <<D as IterableDataset>::Item as Collate>::Batch>
{
    dataset: Arc<D>,
    collate: CollateItems<D::Item, B>,
    batch_size: usize,
    drop_last: bool,
    num_workers: usize,
    prefetch_factor: usize,
    timeout: Option<Duration>,
    worker_init_fn: Option<InitFn>,
    generator: Option<Generator>,
}

impl<D: IterableDataset> IterableLoader<D>
where
    D::Item: Collate + 'static,
{
    /// A loader of batches of `batch_size` items, which is at least 1.
    #[track_caller]
    pub fn new(dataset: D, batch_size: usize) -> Result<IterableLoader<D>> {
        IterableLoader::with_collate_fn(dataset, batch_size, D::Item::collate)
    }
}

impl<D: IterableDataset, B> IterableLoader<D, B> {
    /// A loader of batches that a function makes of the items.
    #[track_caller]
    pub fn with_collate_fn(
        dataset: D,
        batch_size: usize,
        collate_fn: impl Fn(Vec<D::Item>) -> Result<B> + Send + Sync + 'static,
    ) -> Result<IterableLoader<D, B>> {
        if batch_size == 0 {
            return Err(TorshError::invalid(
                "IterableLoader",
                "batch_size must be at least 1, got 0",
            ));
        }
        Ok(IterableLoader {
            dataset: Arc::new(dataset),
            collate: Arc::new(collate_fn),
            batch_size,
            drop_last: false,
            num_workers: 0,
            prefetch_factor: 2,
            timeout: None,
            worker_init_fn: None,
            generator: None,
        })
    }

    /// Whether a last batch with fewer items is left out (false).
    #[must_use]
    pub fn drop_last(mut self, drop_last: bool) -> Self {
        self.drop_last = drop_last;
        self
    }

    /// How many threads make batches ahead of time, each from its own stream (0).
    #[must_use]
    pub fn num_workers(mut self, num_workers: usize) -> Self {
        self.num_workers = num_workers;
        self
    }

    /// How many batches each worker may be ahead, at least 1 (2).
    #[must_use]
    pub fn prefetch_factor(mut self, prefetch_factor: usize) -> Self {
        self.prefetch_factor = prefetch_factor;
        self
    }

    /// How long a batch of a worker may take (as long as it will): then reading ends with an error
    /// that names the worker.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout).filter(|t| !t.is_zero());
        self
    }

    /// Is called with its number on each worker before it reads anything.
    #[must_use]
    pub fn worker_init_fn(
        mut self,
        f: impl Fn(usize) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.worker_init_fn = Some(Arc::new(f));
        self
    }

    /// Draws the workers' seeds from a generator of this seed instead of the default one.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        self.generator(Generator::new(seed))
    }

    /// Draws the workers' seeds from this generator.
    #[must_use]
    pub fn generator(mut self, generator: Generator) -> Self {
        self.generator = Some(generator);
        self
    }

    fn draw_seed(&self) -> u64 {
        let generator = self.generator.as_ref();
        generator.unwrap_or(default_generator()).random64() & i64::MAX as u64
    }
}

/// The next batch of a stream.
pub(crate) fn next_batch<T, B>(
    items: &mut (dyn Iterator<Item = Result<T>> + Send + '_),
    (batch_size, drop_last): (usize, bool),
    collate: &(dyn Fn(Vec<T>) -> Result<B> + Send + Sync),
) -> Option<Result<B>> {
    match items.take(batch_size).collect::<Result<Vec<_>>>() {
        Ok(b) if b.is_empty() || (drop_last && b.len() < batch_size) => None,
        Ok(b) => Some(collate(b)),
        Err(e) => Some(Err(e)),
    }
}

impl<D: IterableDataset + 'static, B: Send + 'static> IterableLoader<D, B>
where
    D::Item: 'static,
{
    /// The batches from the front. An item's error ends its batch; a panic ends its stream.
    pub fn try_iter(&self) -> Box<dyn Iterator<Item = Result<B>> + '_> {
        let seed = self.draw_seed();
        if self.num_workers == 0 {
            return self.on_this_thread(seed);
        }
        if self.prefetch_factor == 0 {
            let e = "prefetch_factor must be at least 1, got 0";
            return Box::new(std::iter::once(Err(TorshError::invalid(
                "IterableLoader",
                e,
            ))));
        }
        let mut streams = Streams::new(self.timeout);
        for worker in 0..self.num_workers {
            let (dataset, collate) = (self.dataset.clone(), self.collate.clone());
            let batch = (self.batch_size, self.drop_last);
            let started = streams.start(
                worker,
                self.num_workers,
                seed,
                self.prefetch_factor,
                self.worker_init_fn.clone(),
                move |send: &mut dyn FnMut(Result<B>) -> bool| {
                    let mut items = dataset.iter();
                    while let Some(b) = next_batch(&mut *items, batch, &*collate) {
                        if !send(b) {
                            return;
                        }
                    }
                },
            );
            if let Err(e) = started {
                return Box::new(std::iter::once(Err(e)));
            }
        }
        Box::new(streams)
    }

    fn on_this_thread(&self, seed: u64) -> Box<dyn Iterator<Item = Result<B>> + '_> {
        let own = LocalGenerator::new(spread(seed));
        let mut items = None;
        let mut over = false;
        Box::new(std::iter::from_fn(move || {
            if over {
                return None;
            }
            let made = guarded(
                || "IterableLoader".to_string(),
                || {
                    own.scope(|| {
                        let items = items.get_or_insert_with(|| self.dataset.iter());
                        let batch = (self.batch_size, self.drop_last);
                        Ok(next_batch(&mut **items, batch, &*self.collate))
                    })
                },
            );
            match made {
                Ok(b) => {
                    over = b.is_none();
                    b
                }
                Err(e) => {
                    over = true;
                    Some(Err(e))
                }
            }
        }))
    }

    /// The batches from the front. Panics with the dataset's error.
    pub fn iter(&self) -> impl Iterator<Item = B> + '_ {
        self.try_iter().map(|b| match b {
            Ok(b) => b,
            Err(e) => panic!("{e}"),
        })
    }
}
