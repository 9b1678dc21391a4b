//! The data loader.

mod batches;
mod builder;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use torsh_core::random::{Generator, default_generator};
use torsh_tensor::{Result, Tensor, TorshError};

pub use batches::{Batches, TryBatches};
pub use builder::DataLoaderBuilder;

use crate::collate::{DefaultCollate, Fetch};
use crate::position::{
    Position, Saved, Sources, checksum, default_state, refused, restore_own, with_default,
};
use crate::sampler::{Sampler, Share};
use crate::worker_info::spread;
use crate::workers::{Plan, Workers};
use crate::{Dataset, TensorDataset};
use batches::Idle;
use builder::Settings;

/// Reads a dataset in batches (`torch.utils.data.DataLoader`).
///
/// `for batch in &loader` panics with the dataset's error where one occurs;
/// [`DataLoader::try_iter`] gives `Result`s. The batches are the same for any number of workers,
/// and with a seed they are PyTorch's for a generator of the same seed. Each epoch has an order of
/// its own.
///
/// While an item is read, the thread's default generator is one that depends on the epoch's seed
/// and the batch alone: what a dataset draws (see [`transforms`](crate::transforms)) is the same
/// for any number of workers too, and after a [`DataLoader::load_state_dict`].
///
/// ```
/// use torsh_data::DataLoader;
///
/// let loader = DataLoader::builder(vec![10i64, 20, 30]).batch_size(2).num_workers(2).build()?;
/// let mut batches = Vec::new();
/// for batch in &loader {
///     batches.push(batch.to_vec::<i64>()?);
/// }
/// assert_eq!(batches, [vec![10, 20], vec![30]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub struct DataLoader<D = TensorDataset, C = DefaultCollate> {
    dataset: Arc<D>,
    collate: Arc<C>,
    order: Order,
    settings: Settings,
    progress: Arc<Mutex<Progress>>,
    idle: Idle,
    /// The process's part, where several read the data.
    share: Mutex<Option<Share>>,
}

/// Where the batches come from.
enum Order {
    Items {
        sampler: Arc<dyn Sampler>,
        batch_size: usize,
        drop_last: bool,
    },
    Batches(Arc<dyn Sampler<Vec<usize>>>),
}

/// How far the reading is.
#[derive(Default)]
struct Progress {
    /// Counts epochs from 1.
    epoch: u64,
    /// In the epoch begun last, where it is not over.
    position: Option<Position>,
    /// The next epoch begins there.
    resume: Option<Position>,
    /// The seed of persistent workers, and how many epochs they have read.
    persistent: Option<(u64, u64)>,
}

impl Order {
    fn len(&self, share: Option<Share>) -> usize {
        let part = |len, drop| share.map_or(len, |s| s.len_of(len, drop));
        match self {
            Order::Items { batch_size: 0, .. } => 0,
            Order::Items {
                sampler,
                batch_size,
                drop_last: true,
            } => part(sampler.len(), true) / batch_size,
            Order::Items {
                sampler,
                batch_size,
                ..
            } => part(sampler.len(), false).div_ceil(*batch_size),
            Order::Batches(s) => part(s.len(), false),
        }
    }

    /// The plan of an epoch, or a part of it, and the checksum of the whole one.
    fn shared_plan(&self, seed: u64, share: Option<Share>) -> Result<(Plan, u64)> {
        let whole = self.plan(seed)?;
        let sum = checksum(&whole);
        let Some(share) = share else {
            return Ok((whole, sum));
        };
        let mut plan = Plan {
            seed: whole.seed,
            ..Plan::default()
        };
        match self {
            Order::Items {
                batch_size,
                drop_last,
                ..
            } => {
                plan.order = share.of(&whole.order, *drop_last);
                plan.cut(*batch_size, *drop_last);
            }
            Order::Batches(_) => {
                let starts = std::iter::once(&0).chain(&whole.ends);
                let batches: Vec<_> = starts.zip(&whole.ends).map(|(&a, &b)| a..b).collect();
                for batch in share.of(&batches, false) {
                    plan.order.extend_from_slice(&whole.order[batch]);
                    plan.ends.push(plan.order.len());
                }
            }
        }
        Ok((plan, sum))
    }

    fn plan(&self, seed: u64) -> Result<Plan> {
        let mut plan = Plan {
            seed,
            ..Plan::default()
        };
        match self {
            Order::Items {
                sampler,
                batch_size,
                drop_last,
            } => {
                plan.order = sampler.indices()?;
                plan.cut(*batch_size, *drop_last);
            }
            Order::Batches(s) => {
                for batch in s.indices()? {
                    plan.order.extend(batch);
                    plan.ends.push(plan.order.len());
                }
            }
        }
        Ok(plan)
    }

    fn set_epoch(&self, epoch: u64) {
        match self {
            Order::Items { sampler, .. } => sampler.set_epoch(epoch),
            Order::Batches(s) => s.set_epoch(epoch),
        }
    }

    fn replica(&self) -> Option<(usize, usize)> {
        match self {
            Order::Items { sampler, .. } => sampler.replica(),
            Order::Batches(s) => s.replica(),
        }
    }

    fn state(&self) -> Vec<u8> {
        match self {
            Order::Items { sampler, .. } => sampler.state(),
            Order::Batches(s) => s.state(),
        }
    }

    fn set_state(&self, state: &[u8]) -> Result<()> {
        match self {
            Order::Items { sampler, .. } => sampler.set_state(state),
            Order::Batches(s) => s.set_state(state),
        }
    }
}

impl<D: Dataset> DataLoader<D> {
    /// Starts building a loader. An `Arc` of a dataset is one too.
    pub fn builder(dataset: D) -> DataLoaderBuilder<D> {
        DataLoaderBuilder::new(dataset)
    }

    /// A loader in one call. What [`DataLoaderBuilder::build`] refuses is an error when the loader
    /// is read.
    ///
    /// ```
    /// use torsh_data::DataLoader;
    ///
    /// // Two items in a batch, in order, no workers, without the last batch of one item.
    /// let loader = DataLoader::new_with_options(vec![1i64, 2, 3], 2, false, 0, true);
    /// let batches: Vec<Vec<i64>> = loader.iter().map(|b| b.to_vec()).collect::<Result<_, _>>()?;
    /// assert_eq!(batches, [[1, 2]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
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
        let refuse = |why: &str| Err(TorshError::invalid("DataLoader", why));
        let s = &self.settings;
        if matches!(self.order, Order::Items { batch_size: 0, .. }) {
            return refuse("batch_size must be at least 1, got 0");
        }
        if s.num_workers > 0 && s.prefetch_factor == 0 {
            return refuse("prefetch_factor must be at least 1, got 0");
        }
        if s.num_workers == 0 && s.persistent_workers {
            return refuse("persistent_workers option needs num_workers > 0");
        }
        if s.num_workers == 0 && s.timeout.is_some() {
            return refuse("timeout option needs num_workers > 0");
        }
        self.dataset.check()
    }

    /// The number of batches of an epoch; where several processes share the data, of this one's part.
    ///
    /// ```
    /// use torsh_data::DataLoader;
    ///
    /// let loader = |drop_last| DataLoader::builder(vec![0i64; 5]).batch_size(2).drop_last(drop_last).build();
    /// assert_eq!((loader(false)?.len(), loader(true)?.len()), (3, 2));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn len(&self) -> usize {
        self.order.len(*self.share.lock())
    }

    /// Reads one process's part of the data from the next epoch on, or all of it (`None`): every
    /// so-manieth item of the order, or batch where a batch sampler says. The processes have to draw the
    /// same order, so their seeds are the same, or a [`seed`](DataLoaderBuilder::seed) is given to the
    /// loader. A sampler that gives one process's part already
    /// ([`DistributedSampler`](crate::DistributedSampler)) is left as it is.
    ///
    /// ```
    /// use torsh_data::{DataLoader, Share};
    ///
    /// let loader = DataLoader::builder((0..6i64).collect::<Vec<_>>()).batch_size(2).build()?;
    /// loader.set_share(Share::new(0, 2)?)?;
    /// assert_eq!(loader.len(), 2);
    /// let mine: Vec<Vec<i64>> = loader.iter().map(|b| b.to_vec()).collect::<Result<_, _>>()?;
    /// assert_eq!(mine, [vec![0, 2], vec![4]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// A sampler that gives the part of another process.
    #[torsh_tensor::names_caller]
    pub fn set_share(&self, share: impl Into<Option<Share>>) -> Result<()> {
        let share = share.into();
        let of_sampler = self.order.replica();
        let (Some(wanted), Some((rank, ranks))) = (share, of_sampler) else {
            *self.share.lock() = share;
            return Ok(());
        };
        if (rank, ranks) != (wanted.rank, wanted.ranks) {
            return Err(TorshError::invalid(
                "DataLoader.set_share",
                format!(
                    "the sampler gives the part of rank {rank} of {ranks}, and this is rank {} of {}",
                    wanted.rank, wanted.ranks
                ),
            )
            .with_hint("make the DistributedSampler with this process's rank, or leave it out"));
        }
        *self.share.lock() = None;
        Ok(())
    }

    /// Says which epoch comes next, to a sampler whose order depends on its number, as
    /// [`DistributedSampler`](crate::DistributedSampler)'s does.
    ///
    /// ```
    /// use torsh_data::{DataLoader, DistributedSampler};
    ///
    /// let sampler = DistributedSampler::new(10, 3, 0)?.seed(5);
    /// let loader = DataLoader::builder((0..10i64).collect::<Vec<_>>()).batch_size(4).sampler(sampler).build()?;
    /// loader.set_epoch(2);
    /// let batches: Vec<Vec<i64>> = loader.iter().map(|b| b.to_vec()).collect::<Result<_, _>>()?;
    /// assert_eq!(batches, [[5, 4, 9, 2]]); // PyTorch's
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn set_epoch(&self, epoch: u64) {
        self.order.set_epoch(epoch);
    }

    /// Whether an epoch has no batch.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The dataset.
    pub fn dataset(&self) -> &Arc<D> {
        &self.dataset
    }

    /// How many items a batch has; `None` where a batch sampler says.
    ///
    /// ```
    /// use torsh_data::{BatchSampler, DataLoader, SequentialSampler};
    ///
    /// let loader = DataLoader::builder(vec![1i64, 2, 3]).batch_size(2).build()?;
    /// assert_eq!(loader.batch_size(), Some(2));
    /// let batches = BatchSampler::new(SequentialSampler::new(3), 2, false)?;
    /// let loader = DataLoader::builder(vec![1i64, 2, 3]).batch_sampler(batches).build()?;
    /// assert_eq!((loader.batch_size(), loader.len()), (None, 2));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn batch_size(&self) -> Option<usize> {
        match self.order {
            Order::Items { batch_size, .. } => Some(batch_size),
            Order::Batches(_) => None,
        }
    }

    /// What the orders to come are drawn from.
    fn sources(&self) -> Sources {
        Sources {
            generator: self.settings.generator.as_ref().map(Generator::get_state),
            sampler: self.order.state(),
        }
    }

    fn set_sources(&self, sources: &Sources) -> Result<()> {
        let own = self.settings.generator.as_ref();
        restore_own(own, sources.generator.as_deref())?;
        self.order.set_state(&sources.sampler)
    }

    /// The epoch's seed, drawn where PyTorch's loader draws one for its workers.
    fn draw_seed(&self, persistent: &mut Option<(u64, u64)>) -> u64 {
        if let (true, Some((seed, epochs))) = (self.settings.persistent_workers, &mut *persistent) {
            *epochs += 1;
            return spread(seed.wrapping_add(*epochs));
        }
        let generator = self.settings.generator.as_ref();
        let seed = generator.unwrap_or(default_generator()).random64() & i64::MAX as u64;
        if self.settings.persistent_workers {
            *persistent = Some((seed, 0));
        }
        seed
    }

    /// The next epoch: its plan, its first batch and its number.
    fn begin(&self) -> Result<(Plan, usize, u64)> {
        self.check()?;
        let share = *self.share.lock();
        let ranks = share.map_or(1, |s| s.ranks);
        let mut progress = self.progress.lock();
        let (plan, position) = match progress.resume.clone() {
            Some(p) => self.resume(p, share)?,
            None => {
                let seed = self.draw_seed(&mut progress.persistent);
                let (from, default) = (self.sources(), default_state());
                let (plan, checksum) = self.order.shared_plan(seed, share)?;
                let position = Position {
                    from,
                    default,
                    seed,
                    checksum,
                    given: 0,
                    ranks,
                };
                (plan, position)
            }
        };
        progress.resume = None;
        progress.epoch += 1;
        let first = position.given;
        progress.position = Some(position);
        Ok((plan, first, progress.epoch))
    }

    /// Draws the plan of a saved epoch anew; the generators are left as they were.
    fn resume(&self, mut p: Position, share: Option<Share>) -> Result<(Plan, Position)> {
        let now = self.sources();
        self.set_sources(&p.from)?;
        let plan = with_default(&p.default, || self.order.shared_plan(p.seed, share));
        self.set_sources(&now)?;
        let (plan, checksum) = plan?;
        let ranks = share.map_or(1, |s| s.ranks);
        if ranks != p.ranks {
            // What all processes were given together; the rest of a batch of all of them comes again.
            p.given = p.given.saturating_mul(p.ranks) / ranks;
            p.ranks = ranks;
        }
        if checksum != p.checksum || p.given > plan.batches() {
            return Err(refused(
                "the dataset, the sampler or the batches are not those of the saved loader"
                    .to_string(),
            ));
        }
        Ok((plan, p))
    }

    /// Where the loader is, for [`DataLoader::load_state_dict`]: what the order of the epoch was
    /// drawn from and how many of its batches were given; between epochs, only what the next ones
    /// are drawn from. An epoch that was left before its end is the loader's until another begins.
    /// The default generator, if the loader draws from it, is to be saved beside it
    /// (`Generator::get_state`).
    ///
    /// Where processes [share](DataLoader::set_share) the data, the states of all are the same but for a
    /// `DistributedSampler`'s. One can be loaded where there are more or fewer processes: then as many items
    /// count as given as all processes together had, but for the rest of one batch of all, which come again.
    ///
    /// ```
    /// use torsh_data::DataLoader;
    ///
    /// let loader = || DataLoader::builder((0..10i64).collect::<Vec<_>>()).batch_size(2).shuffle(true).seed(3).build();
    /// let first = loader()?;
    /// let all: Vec<Vec<i64>> = first.iter().map(|b| b.to_vec()).collect::<Result<_, _>>()?;
    ///
    /// let second = loader()?;
    /// second.iter().take(2).for_each(drop);
    /// let state = second.state_dict()?;
    ///
    /// let third = loader()?;
    /// third.load_state_dict(&state)?;
    /// let rest: Vec<Vec<i64>> = third.iter().map(|b| b.to_vec()).collect::<Result<_, _>>()?;
    /// assert_eq!(rest, all[2..]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn state_dict(&self) -> Result<BTreeMap<String, Tensor>> {
        let progress = self.progress.lock();
        Saved {
            now: self.sources(),
            persistent: progress.persistent,
            position: progress
                .resume
                .clone()
                .or_else(|| progress.position.clone()),
        }
        .to_tensors()
    }

    /// Goes to a saved position: the next epoch gives the batches that were not given, and those
    /// after it are the saved loader's too. Errors: not a loader's state; when it is read, a
    /// dataset or sampler that is not the saved loader's.
    #[torsh_tensor::names_caller]
    pub fn load_state_dict(&self, state: &BTreeMap<String, Tensor>) -> Result<()> {
        let saved = Saved::from_tensors(state)?;
        self.set_sources(&saved.now)?;
        let mut progress = self.progress.lock();
        progress.epoch += 1;
        progress.persistent = saved.persistent;
        progress.position = None;
        progress.resume = saved.position;
        Ok(())
    }

    /// How many batches of the epoch were given; 0 between epochs.
    ///
    /// ```
    /// use torsh_data::DataLoader;
    ///
    /// let loader = DataLoader::builder(vec![1i64, 2, 3]).build()?;
    /// let mut batches = loader.iter();
    /// batches.next();
    /// assert_eq!((loader.batches_given(), batches.len()), (1, 2));
    /// assert_eq!((batches.count(), loader.batches_given()), (2, 0));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn batches_given(&self) -> usize {
        let progress = self.progress.lock();
        let position = progress.resume.as_ref().or(progress.position.as_ref());
        position.map_or(0, |p| p.given)
    }
}

impl<D: Dataset + 'static, C: Fetch<D>> DataLoader<D, C> {
    /// Workers for an epoch: those of the last one where they stay, or new ones.
    fn workers(&self, batches: usize) -> Option<Workers<C::Batch>> {
        let s = &self.settings;
        let kept = self.idle.lock().take();
        if let Some(kept) = kept
            && let Ok(workers) = kept.downcast::<Workers<C::Batch>>()
        {
            return Some(*workers);
        }
        let count = if s.persistent_workers {
            s.num_workers
        } else {
            s.num_workers.min(batches)
        };
        let ahead = s.num_workers.saturating_mul(s.prefetch_factor);
        Workers::start(
            count,
            ahead,
            &self.dataset,
            &self.collate,
            &s.worker_init_fn,
        )
    }

    /// The batches of the next epoch, or what went wrong with each. The first is begun when it is
    /// asked for, or at once where there are workers.
    ///
    /// ```
    /// use torsh_data::{DataLoader, MapDataset};
    /// use torsh_tensor::TorshError;
    ///
    /// let roots = MapDataset::new(vec![4.0, -1.0], |x: f64| match x < 0.0 {
    ///     true => Err(TorshError::invalid("sqrt", "a negative number")),
    ///     false => Ok(x.sqrt()),
    /// });
    /// let loader = DataLoader::builder(roots).build()?;
    /// let batches: Vec<_> = loader.try_iter().collect();
    /// assert_eq!(batches[0].as_ref().unwrap().item::<f64>()?, 2.0);
    /// let error = batches[1].as_ref().unwrap_err().to_string();
    /// assert!(error.contains("item 1 of the dataset") && error.contains("a negative number"));
    /// # Ok::<(), TorshError>(())
    /// ```
    pub fn try_iter(&self) -> TryBatches<D, C> {
        let (plan, next, epoch, error) = match self.begin() {
            Ok((plan, next, epoch)) => (plan, next, epoch, None),
            Err(e) => (Plan::default(), 0, 0, Some(e)),
        };
        let plan = Arc::new(plan);
        let workers = if self.settings.num_workers > 0 && next < plan.batches() {
            let workers = self.workers(plan.batches() - next);
            workers.inspect(|w| w.begin(&plan, next))
        } else {
            None
        };
        TryBatches {
            dataset: self.dataset.clone(),
            collate: self.collate.clone(),
            plan,
            next,
            error,
            workers,
            timeout: self.settings.timeout,
            idle: self.settings.persistent_workers.then(|| self.idle.clone()),
            progress: self.progress.clone(),
            epoch,
        }
    }

    /// The batches of the next epoch. Panics with the dataset's error.
    pub fn iter(&self) -> Batches<D, C> {
        Batches(self.try_iter())
    }

    /// The batches of the next epoch with their numbers. Panics with the dataset's error.
    ///
    /// ```
    /// use torsh_data::DataLoader;
    ///
    /// let loader = DataLoader::builder(vec![10i64, 20]).build()?;
    /// for (i, batch) in loader.enumerate() {
    ///     assert_eq!(batch.item::<i64>()?, 10 * (i as i64 + 1));
    /// }
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn enumerate(&self) -> std::iter::Enumerate<Batches<D, C>> {
        self.iter().enumerate()
    }
}

impl<D: Dataset, C> fmt::Debug for DataLoader<D, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataLoader")
            .field("items", &self.dataset.len())
            .field("batch_size", &self.batch_size())
            .field("batches", &self.len())
            .field("num_workers", &self.settings.num_workers)
            .finish_non_exhaustive()
    }
}

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
