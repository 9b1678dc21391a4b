//! Datasets that are read sequentially.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use torsh_core::Generator;
use torsh_core::random::{LocalGenerator, default_generator};
use torsh_tensor::{DType, Device, Result, Tensor, TorshError};

use crate::Collate;
use crate::guard::guarded;
use crate::position::{Reader, bytes, number, refused, restore_own};
use crate::sampler::Share;
use crate::streams::{At, Given, Items, OVER, Streams};
use crate::worker_info::{WorkerInfo, as_worker, forget_asked, get_worker_info, has_asked, spread};
use crate::workers::InitFn;

/// Items without numbers, as of a stream (`torch.utils.data.IterableDataset`).
///
/// ```
/// use torsh_data::{IterableDataset, IterableLoader};
/// use torsh_tensor::Result;
///
/// struct Lines(&'static str);
/// impl IterableDataset for Lines {
///     type Item = String;
///     fn iter(&self) -> Box<dyn Iterator<Item = Result<String>> + Send + '_> {
///         Box::new(self.0.lines().map(|line| Ok(line.to_string())))
///     }
/// }
///
/// let loader = IterableLoader::new(Lines("a\nb\nc"), 2)?;
/// assert_eq!(loader.iter().collect::<Vec<_>>(), [vec!["a", "b"], vec!["c"]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub trait IterableDataset: Send + Sync {
    /// What one item is.
    type Item;
    /// Starts from the front. Each worker of a loader asks for its own: those of a dataset that
    /// does not ask [`get_worker_info`](crate::get_worker_info) for its part give all items each,
    /// as in PyTorch.
    fn iter(&self) -> Box<dyn Iterator<Item = Result<Self::Item>> + Send + '_>;

    /// [`iter`](IterableDataset::iter) without its first `n` items, for a loader that goes back to
    /// a saved position: a file, say, is opened at a later place. `None`, the default: the loader
    /// reads them anew.
    ///
    /// A dataset that draws from the default generator draws here what reading them would have
    /// drawn. A `collate_fn` that draws needs `None`: its batches are made anew with the items.
    fn iter_from(
        &self,
        n: usize,
    ) -> Option<Box<dyn Iterator<Item = Result<Self::Item>> + Send + '_>> {
        let _ = n;
        None
    }
}

macro_rules! forward {
    ($($t:ty),*) => {$(
        impl<D: IterableDataset + ?Sized> IterableDataset for $t {
            type Item = D::Item;
            fn iter(&self) -> Box<dyn Iterator<Item = Result<D::Item>> + Send + '_> {
                (**self).iter()
            }
            fn iter_from(
                &self,
                n: usize,
            ) -> Option<Box<dyn Iterator<Item = Result<D::Item>> + Send + '_>> {
                (**self).iter_from(n)
            }
        }
    )*};
}
forward!(&D, Box<D>, Arc<D>);

/// The items of a dataset that are one worker's, or one process's, for a dataset that does not ask
/// [`get_worker_info`] itself: every so-manieth. All of them are read and those of others thrown away.
///
/// ```
/// use torsh_data::{IterableDataset, IterableLoader, Share, ShardedIterable};
/// use torsh_tensor::Result;
///
/// struct Count;
/// impl IterableDataset for Count {
///     type Item = i64;
///     fn iter(&self) -> Box<dyn Iterator<Item = Result<i64>> + Send + '_> {
///         Box::new((0..6).map(Ok))
///     }
/// }
///
/// let loader = IterableLoader::new(ShardedIterable::new(Count), 2)?;
/// loader.set_share(Share::new(1, 2)?)?;
/// let mine = loader.try_iter().map(|b| b?.to_vec::<i64>()).collect::<Result<Vec<_>>>()?;
/// assert_eq!(mine, [vec![1, 3], vec![5]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ShardedIterable<D>(D);

impl<D: IterableDataset> ShardedIterable<D> {
    /// Deals out the items of a dataset.
    pub fn new(dataset: D) -> Self {
        ShardedIterable(dataset)
    }

    /// The dataset.
    pub fn dataset(&self) -> &D {
        &self.0
    }
}

impl<D: IterableDataset> IterableDataset for ShardedIterable<D> {
    type Item = D::Item;

    fn iter(&self) -> Box<dyn Iterator<Item = Result<D::Item>> + Send + '_> {
        match get_worker_info() {
            Some(w) => Box::new(self.0.iter().skip(w.id).step_by(w.num_workers.max(1))),
            None => self.0.iter(),
        }
    }
}

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
    progress: Mutex<Progress>,
    /// The process's part, where several read the data.
    share: Mutex<Option<Share>>,
}

/// A position in a pass.
#[derive(Clone)]
struct Position {
    seed: u64,
    at: At,
    /// How many batches were given.
    given: u64,
    batch_size: usize,
    /// The process's rank, and how many shared the data.
    share: (usize, usize),
}

/// How far the reading is.
#[derive(Default)]
struct Progress {
    /// Counts passes from 1.
    pass: u64,
    /// In the pass begun last, where it is not over.
    position: Option<Position>,
    /// The next pass begins there.
    resume: Option<Position>,
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
    ///
    /// ```
    /// # use torsh_data::{IterableDataset, IterableLoader};
    /// # use torsh_tensor::Result;
    /// # struct Count;
    /// # impl IterableDataset for Count {
    /// #     type Item = i64;
    /// #     fn iter(&self) -> Box<dyn Iterator<Item = Result<i64>> + Send + '_> {
    /// #         Box::new((0..5).map(Ok))
    /// #     }
    /// # }
    /// // `Count` is the stream of the numbers 0 to 4.
    /// let sums = IterableLoader::with_collate_fn(Count, 2, |items| Ok(items.iter().sum::<i64>()))?;
    /// assert_eq!(sums.iter().collect::<Vec<_>>(), [1, 5, 4]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
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
            progress: Mutex::default(),
            share: Mutex::new(None),
        })
    }

    /// Reads one process's part of the data from the next pass on, or all of it (`None`). Streams are then
    /// divided as among workers: [`get_worker_info`] counts the workers of all processes, and answers on the
    /// reader's own thread too. A dataset that does not ask it is an error when it is read: [`ShardedIterable`]
    /// deals its items out.
    #[torsh_tensor::names_caller]
    pub fn set_share(&self, share: impl Into<Option<Share>>) -> Result<()> {
        *self.share.lock() = share.into();
        Ok(())
    }

    /// The rank, and how many processes share the data.
    fn ranks(&self) -> (usize, usize) {
        (*self.share.lock()).map_or((0, 1), |s| (s.rank(), s.ranks()))
    }

    setters! {
        /// Whether a last batch with fewer items is left out (false).
        drop_last: bool;
        /// How many threads make batches ahead of time, each from its own stream (0).
        num_workers: usize;
        /// How many batches each worker may be ahead, at least 1 (2).
        prefetch_factor: usize;
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

    /// The next pass: where it begins, and its number.
    fn begin(&self) -> Result<(Position, u64)> {
        if self.num_workers > 0 && self.prefetch_factor == 0 {
            return Err(TorshError::invalid(
                "IterableLoader",
                "prefetch_factor must be at least 1, got 0",
            ));
        }
        let streams = self.num_workers.max(1);
        let share = self.ranks();
        let mut progress = self.progress.lock();
        let position = match &progress.resume {
            None => Position {
                seed: self.draw_seed(),
                at: At {
                    items: vec![0; streams],
                    turn: 0,
                },
                given: 0,
                batch_size: self.batch_size,
                share,
            },
            Some(p) if p.share != share => {
                return Err(of_streams(refused(format!(
                    "the saved loader read the part of rank {} of {}, this one reads that of rank {} of {}",
                    p.share.0, p.share.1, share.0, share.1
                ))));
            }
            Some(p) if p.at.items.len() == streams && p.batch_size == self.batch_size => p.clone(),
            Some(p) => {
                return Err(of_streams(refused(format!(
                    "the saved loader had batches of {} items from {} streams, this one has batches of {} from {streams}",
                    p.batch_size,
                    p.at.items.len(),
                    self.batch_size
                ))));
            }
        };
        progress.resume = None;
        progress.pass += 1;
        progress.position = Some(position.clone());
        Ok((position, progress.pass))
    }

    /// Where the loader is, for [`IterableLoader::load_state_dict`]: how many items of each
    /// worker's stream were given, and the pass's seed; between two passes, only what the seeds to
    /// come are drawn from. A pass that was left before its end is the loader's until another
    /// begins. The default generator, if the loader draws from it, is to be saved beside it
    /// (`Generator::get_state`).
    ///
    /// ```
    /// use torsh_data::{IterableDataset, IterableLoader};
    /// use torsh_tensor::Result;
    ///
    /// struct Count;
    /// impl IterableDataset for Count {
    ///     type Item = i64;
    ///     fn iter(&self) -> Box<dyn Iterator<Item = Result<i64>> + Send + '_> {
    ///         Box::new((0..10).map(Ok))
    ///     }
    /// }
    ///
    /// let first = IterableLoader::new(Count, 4)?;
    /// first.iter().take(1).for_each(drop);
    /// let second = IterableLoader::new(Count, 4)?;
    /// second.load_state_dict(&first.state_dict()?)?;
    /// let rest = second.iter().map(|b| b.to_vec::<i64>()).collect::<Result<Vec<_>>>()?;
    /// assert_eq!(rest, [vec![4, 5, 6, 7], vec![8, 9]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn state_dict(&self) -> Result<BTreeMap<String, Tensor>> {
        let progress = self.progress.lock();
        let mut out = BTreeMap::new();
        if let Some(g) = &self.generator {
            out.insert("generator".to_string(), bytes(&g.get_state())?);
        }
        if let Some(p) = progress.resume.as_ref().or(progress.position.as_ref()) {
            let n = p.at.items.len();
            let items = Tensor::from_slice(&p.at.items, [n], DType::I64, Device::Cpu)?;
            out.insert("epoch.items".to_string(), items);
            for (name, v) in [
                ("epoch.seed", p.seed),
                ("epoch.turn", p.at.turn as u64),
                ("epoch.batches", p.given),
                ("epoch.batch_size", p.batch_size as u64),
            ] {
                out.insert(name.to_string(), number(v)?);
            }
            if p.share.1 > 1 {
                out.insert("epoch.rank".to_string(), number(p.share.0 as u64)?);
                out.insert("epoch.ranks".to_string(), number(p.share.1 as u64)?);
            }
        }
        Ok(out)
    }

    /// Goes to a saved position: the next pass gives the batches that were not given, with the
    /// numbers they would have drawn, and those after it are the saved loader's too. What was given
    /// is read anew and thrown away, unless the dataset has
    /// [`iter_from`](IterableDataset::iter_from). Errors: not a loader's state; when it is read,
    /// another size of batches or number of workers.
    #[torsh_tensor::names_caller]
    pub fn load_state_dict(&self, state: &BTreeMap<String, Tensor>) -> Result<()> {
        let resume = self.saved(state).map_err(of_streams)?;
        let mut progress = self.progress.lock();
        progress.pass += 1;
        progress.position = None;
        progress.resume = resume;
        Ok(())
    }

    fn saved(&self, state: &BTreeMap<String, Tensor>) -> Result<Option<Position>> {
        let r = Reader(state);
        let epoch = [
            "seed",
            "items",
            "turn",
            "batches",
            "batch_size",
            "rank",
            "ranks",
        ];
        r.only(|name| match name.strip_prefix("epoch.") {
            Some(name) => epoch.contains(&name),
            None => name == "generator",
        })?;
        let position = match state.get("epoch.items") {
            None => None,
            Some(t) if t.dtype() == DType::I64 && t.ndim() == 1 => {
                let items: Vec<Items> = t.to_vec()?;
                let turn = r.need("epoch.turn")? as usize;
                if turn >= items.len() || items.iter().any(|&n| n < OVER) {
                    return Err(refused("`epoch.items` and `epoch.turn` do not fit".into()));
                }
                Some(Position {
                    seed: r.need("epoch.seed")?,
                    at: At { items, turn },
                    given: r.need("epoch.batches")?,
                    batch_size: r.need("epoch.batch_size")? as usize,
                    share: match r.number("epoch.ranks")? {
                        Some(ranks) => (r.need("epoch.rank")? as usize, ranks as usize),
                        None => (0, 1),
                    },
                })
            }
            Some(t) => {
                return Err(refused(format!(
                    "`epoch.items` must be a list of int64, got {}",
                    t.describe()
                )));
            }
        };
        restore_own(self.generator.as_ref(), r.bytes("generator")?.as_deref())?;
        Ok(position)
    }

    /// How many batches of the pass were given; 0 between two.
    ///
    /// ```
    /// # use torsh_data::{IterableDataset, IterableLoader};
    /// # use torsh_tensor::Result;
    /// # struct Count;
    /// # impl IterableDataset for Count {
    /// #     type Item = i64;
    /// #     fn iter(&self) -> Box<dyn Iterator<Item = Result<i64>> + Send + '_> {
    /// #         Box::new((0..5).map(Ok))
    /// #     }
    /// # }
    /// // `Count` is the stream of the numbers 0 to 4.
    /// let loader = IterableLoader::new(Count, 2)?;
    /// let mut batches = loader.iter();
    /// assert_eq!(batches.next().map(|b| b.dims().to_vec()), Some(vec![2]));
    /// assert_eq!(loader.batches_given(), 1);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn batches_given(&self) -> usize {
        let progress = self.progress.lock();
        let position = progress.resume.as_ref().or(progress.position.as_ref());
        position.map_or(0, |p| p.given as usize)
    }
}

#[cold]
fn of_streams(e: TorshError) -> TorshError {
    e.renamed("IterableLoader.load_state_dict")
}

type BoxedIter<'a, T> = Box<dyn Iterator<Item = Result<T>> + Send + 'a>;

/// A stream that counts.
struct Stream<'a, T> {
    items: BoxedIter<'a, T>,
    read: Items,
    /// Whether the dataset must ask for its part, and its first item was not read yet.
    must_ask: bool,
}

impl<'a, T: 'a> Iterator for Stream<'a, T> {
    type Item = Result<T>;
    fn next(&mut self) -> Option<Result<T>> {
        let item = self.items.next();
        if std::mem::take(&mut self.must_ask) && item.is_some() && !has_asked() {
            self.items = Box::new(std::iter::empty());
            self.read += 1;
            return Some(Err(TorshError::invalid(
                "IterableLoader",
                "the dataset gives all its items to each of the processes that share it: it does not ask \
                 get_worker_info for its part",
            )
            .with_hint("deal them out with ShardedIterable::new(dataset)")));
        }
        self.read += Items::from(item.is_some());
        item
    }
}

impl<'a, T: 'a> Stream<'a, T> {
    /// The stream of a dataset behind its first `n` items.
    fn open<D: IterableDataset<Item = T>, B>(
        dataset: &'a D,
        n: Items,
        batch: (usize, bool),
        collate: &(dyn Fn(Vec<T>) -> Result<B> + Send + Sync),
        must_ask: bool,
    ) -> Stream<'a, T> {
        forget_asked();
        if n > 0
            && let Some(items) = dataset.iter_from(n as usize)
        {
            return Stream {
                items,
                read: n,
                must_ask,
            };
        }
        let mut all = Stream {
            items: dataset.iter(),
            read: 0,
            must_ask,
        };
        while all.read < n && all.next_batch(batch, collate).is_some() {}
        all
    }

    /// The next batch.
    fn next_batch<B>(
        &mut self,
        (batch_size, drop_last): (usize, bool),
        collate: &(dyn Fn(Vec<T>) -> Result<B> + Send + Sync),
    ) -> Option<Result<B>> {
        match self.take(batch_size).collect::<Result<Vec<_>>>() {
            Ok(b) if b.is_empty() || (drop_last && b.len() < batch_size) => None,
            Ok(b) => Some(collate(b)),
            Err(e) => Some(Err(e)),
        }
    }
}

/// The batches of one pass.
struct Pass<'a, B> {
    batches: Box<dyn Iterator<Item = Given<B>> + 'a>,
    progress: &'a Mutex<Progress>,
    /// Its number in the loader's progress; 0 once it says nothing about it any more.
    number: u64,
}

impl<B> Iterator for Pass<'_, B> {
    type Item = Result<B>;

    fn next(&mut self) -> Option<Result<B>> {
        let given = self.batches.next();
        let mut progress = self.progress.lock();
        if progress.pass == self.number {
            match &given {
                Some(Given { at: Some(at), .. }) => {
                    if let Some(p) = &mut progress.position {
                        p.at = at.clone();
                        p.given += 1;
                    }
                }
                // Its position stays before the batch that there was not.
                Some(Given { at: None, .. }) => self.number = 0,
                None => progress.position = None,
            }
        }
        given.map(|g| g.batch)
    }
}

impl<D: IterableDataset + 'static, B: Send + 'static> IterableLoader<D, B>
where
    D::Item: 'static,
{
    /// The batches from the front. An item's error ends its batch; a panic ends its stream.
    ///
    /// ```
    /// # use torsh_data::{IterableDataset, IterableLoader};
    /// # use torsh_tensor::Result;
    /// # struct Count;
    /// # impl IterableDataset for Count {
    /// #     type Item = i64;
    /// #     fn iter(&self) -> Box<dyn Iterator<Item = Result<i64>> + Send + '_> {
    /// #         Box::new((0..5).map(Ok))
    /// #     }
    /// # }
    /// // `Count` is the stream of the numbers 0 to 4.
    /// let loader = IterableLoader::new(Count, 2)?.drop_last(true);
    /// let batches = loader.try_iter().map(|b| b?.to_vec::<i64>()).collect::<Result<Vec<_>>>()?;
    /// assert_eq!(batches, [[0, 1], [2, 3]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn try_iter(&self) -> Box<dyn Iterator<Item = Result<B>> + '_> {
        let (position, number) = match self.begin() {
            Ok(begun) => begun,
            Err(e) => return Box::new(std::iter::once(Err(e))),
        };
        let batches = if self.num_workers == 0 {
            self.on_this_thread(position)
        } else {
            self.on_workers(position)
        };
        Box::new(Pass {
            batches,
            progress: &self.progress,
            number,
        })
    }

    fn on_workers(&self, position: Position) -> Box<dyn Iterator<Item = Given<B>> + '_> {
        let mut streams = Streams::new(self.timeout, &position.at);
        for (worker, &n) in position.at.items.iter().enumerate() {
            if n == OVER {
                continue;
            }
            let (dataset, collate) = (self.dataset.clone(), self.collate.clone());
            let batch = (self.batch_size, self.drop_last);
            let shared = position.share.1 > 1;
            let started = streams.start(
                worker,
                (
                    position.share.0 * self.num_workers + worker,
                    position.share.1 * self.num_workers,
                ),
                position.seed,
                self.prefetch_factor,
                self.worker_init_fn.clone(),
                move |send: &mut dyn FnMut(Items, Result<B>) -> bool| {
                    let mut stream = Stream::open(&*dataset, n, batch, &*collate, shared);
                    while let Some(b) = stream.next_batch(batch, &*collate) {
                        if !send(stream.read, b) {
                            return;
                        }
                    }
                },
            );
            if let Err(e) = started {
                let batch = Err(e);
                return Box::new(std::iter::once(Given { batch, at: None }));
            }
        }
        Box::new(streams)
    }

    fn on_this_thread(&self, position: Position) -> Box<dyn Iterator<Item = Given<B>> + '_> {
        let (rank, ranks) = position.share;
        let seed = position.seed.wrapping_add(rank as u64);
        let own = LocalGenerator::new(spread(seed));
        let info = (ranks > 1).then_some(WorkerInfo {
            id: rank,
            num_workers: ranks,
            seed,
        });
        let first = position.at.items[0];
        let mut stream = None;
        let mut over = first == OVER;
        let at = |items| {
            Some(At {
                items: vec![items],
                turn: 0,
            })
        };
        Box::new(std::iter::from_fn(move || {
            if over {
                return None;
            }
            let made = guarded(
                || "IterableLoader".to_string(),
                || {
                    as_worker(info, || {
                        own.scope(|| {
                            let (batch, collate) =
                                ((self.batch_size, self.drop_last), &*self.collate);
                            let stream = stream.get_or_insert_with(|| {
                                Stream::open(&*self.dataset, first, batch, collate, ranks > 1)
                            });
                            Ok((stream.next_batch(batch, collate), stream.read))
                        })
                    })
                },
            );
            match made {
                Ok((batch, read)) => {
                    over = batch.is_none();
                    batch.map(|batch| Given {
                        batch,
                        at: at(read),
                    })
                }
                Err(e) => {
                    over = true;
                    Some(Given {
                        batch: Err(e),
                        at: at(OVER),
                    })
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
