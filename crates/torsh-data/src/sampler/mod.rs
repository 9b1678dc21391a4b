//! The order in which items are read.

mod distributed;
mod random;
mod share;

use std::sync::Arc;

use torsh_tensor::{Result, TorshError};

pub use distributed::DistributedSampler;
pub use random::{RandomSampler, SubsetRandomSampler, WeightedRandomSampler};
pub use share::Share;

/// An order of a dataset's items, made anew for each epoch (`torch.utils.data.Sampler`); with
/// `T = Vec<usize>` of whole batches, for [`DataLoaderBuilder::batch_sampler`].
///
/// [`DataLoaderBuilder::batch_sampler`]: crate::DataLoaderBuilder::batch_sampler
///
/// ```
/// use torsh_data::{DataLoader, Sampler};
/// use torsh_tensor::Result;
///
/// /// The items from the last to the first.
/// struct Reversed(usize);
/// impl Sampler for Reversed {
///     fn len(&self) -> usize {
///         self.0
///     }
///     fn indices(&self) -> Result<Vec<usize>> {
///         Ok((0..self.0).rev().collect())
///     }
/// }
///
/// let loader = DataLoader::builder(vec!["a", "b", "c"]).batch_size(2).sampler(Reversed(3)).build()?;
/// assert_eq!(loader.iter().collect::<Vec<_>>(), [vec!["c", "b"], vec!["a"]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub trait Sampler<T = usize>: Send + Sync {
    /// How many items or batches an epoch has.
    fn len(&self) -> usize;

    /// Whether an epoch has none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The items or batches of the next epoch.
    fn indices(&self) -> Result<Vec<T>>;

    /// What the orders to come depend on beside the default generator, such as a generator of the
    /// sampler's own. A loader's position holds it; a sampler without has nothing to say.
    fn state(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Takes what [`Sampler::state`] gave.
    fn set_state(&self, state: &[u8]) -> Result<()> {
        no_state("Sampler", state)
    }

    /// Says which epoch comes next, to a sampler whose order depends on its number.
    fn set_epoch(&self, epoch: u64) {
        let _ = epoch;
    }

    /// The rank, and of how many, whose part of the data this order is: `None` where it is all of it.
    fn replica(&self) -> Option<(usize, usize)> {
        None
    }
}

/// The state of a sampler that has none.
fn no_state(name: &str, state: &[u8]) -> Result<()> {
    if state.is_empty() {
        return Ok(());
    }
    Err(TorshError::invalid(
        name.to_string(),
        "the saved position has a state for the sampler, which has none",
    ))
}

macro_rules! forward {
    ($($t:ty),*) => {$(
        impl<T, S: Sampler<T> + ?Sized> Sampler<T> for $t {
            fn len(&self) -> usize {
                (**self).len()
            }
            #[torsh_tensor::names_caller]
            fn indices(&self) -> Result<Vec<T>> {
                (**self).indices()
            }
            fn state(&self) -> Vec<u8> {
                (**self).state()
            }
            #[torsh_tensor::names_caller]
            fn set_state(&self, state: &[u8]) -> Result<()> {
                (**self).set_state(state)
            }
            fn set_epoch(&self, epoch: u64) {
                (**self).set_epoch(epoch);
            }
            fn replica(&self) -> Option<(usize, usize)> {
                (**self).replica()
            }
        }
    )*};
}
forward!(&S, Box<S>, Arc<S>);

/// All items in their order (`torch.utils.data.SequentialSampler`).
///
/// ```
/// use torsh_data::{Sampler, SequentialSampler};
/// assert_eq!(SequentialSampler::new(3).indices()?, [0, 1, 2]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SequentialSampler {
    len: usize,
}

impl SequentialSampler {
    /// The order of a dataset of `len` items.
    pub fn new(len: usize) -> Self {
        SequentialSampler { len }
    }
}

impl Sampler for SequentialSampler {
    fn len(&self) -> usize {
        self.len
    }
    #[track_caller]
    fn indices(&self) -> Result<Vec<usize>> {
        Ok((0..self.len).collect())
    }
}

/// The items of another sampler in batches (`torch.utils.data.BatchSampler`).
///
/// ```
/// use torsh_data::{BatchSampler, Sampler, SequentialSampler};
///
/// let batches = BatchSampler::new(SequentialSampler::new(5), 2, false)?;
/// assert_eq!(batches.indices()?, [vec![0, 1], vec![2, 3], vec![4]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct BatchSampler<S> {
    sampler: S,
    batch_size: usize,
    drop_last: bool,
}

impl<S: Sampler> BatchSampler<S> {
    /// Batches of `batch_size` items, at least 1; `drop_last` leaves out a last one with fewer.
    ///
    /// ```
    /// use torsh_data::{BatchSampler, Sampler, SequentialSampler};
    /// let batches = BatchSampler::new(SequentialSampler::new(5), 2, true)?;
    /// assert_eq!(batches.indices()?, [[0, 1], [2, 3]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new(sampler: S, batch_size: usize, drop_last: bool) -> Result<Self> {
        if batch_size == 0 {
            return Err(TorshError::invalid(
                "BatchSampler",
                "batch_size must be at least 1, got 0",
            ));
        }
        Ok(BatchSampler {
            sampler,
            batch_size,
            drop_last,
        })
    }
}

impl<S: Sampler> Sampler<Vec<usize>> for BatchSampler<S> {
    fn len(&self) -> usize {
        if self.drop_last {
            self.sampler.len() / self.batch_size
        } else {
            self.sampler.len().div_ceil(self.batch_size)
        }
    }
    #[torsh_tensor::names_caller]
    fn indices(&self) -> Result<Vec<Vec<usize>>> {
        let order = self.sampler.indices()?;
        let batches = order.chunks(self.batch_size);
        Ok(batches
            .filter(|b| !self.drop_last || b.len() == self.batch_size)
            .map(<[usize]>::to_vec)
            .collect())
    }
    fn state(&self) -> Vec<u8> {
        self.sampler.state()
    }
    #[torsh_tensor::names_caller]
    fn set_state(&self, state: &[u8]) -> Result<()> {
        self.sampler.set_state(state)
    }
    fn set_epoch(&self, epoch: u64) {
        self.sampler.set_epoch(epoch);
    }
    fn replica(&self) -> Option<(usize, usize)> {
        self.sampler.replica()
    }
}
