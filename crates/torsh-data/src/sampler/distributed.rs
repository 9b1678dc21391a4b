//! The part of a dataset for one process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use torsh_core::random::{Generator, randperm};
use torsh_tensor::{Result, TorshError};

use super::Sampler;

/// The items that one of several processes reads (`torch.utils.data.DistributedSampler`): every
/// `num_replicas`-th of an order that all processes make alike. A clone shares the epoch.
///
/// ```
/// use torsh_data::{DistributedSampler, Sampler};
///
/// let part = |rank| DistributedSampler::new(10, 3, rank).map(|s| s.shuffle(false));
/// assert_eq!(part(0)?.indices()?, [0, 3, 6, 9]);
/// assert_eq!(part(1)?.indices()?, [1, 4, 7, 0]);
/// assert_eq!(part(2)?.drop_last(true).indices()?, [2, 5, 8]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct DistributedSampler {
    len: usize,
    num_replicas: usize,
    rank: usize,
    shuffle: bool,
    seed: u64,
    drop_last: bool,
    epoch: Arc<AtomicU64>,
}

impl DistributedSampler {
    /// The part of process `rank` of `num_replicas` in a dataset of `len` items, shuffled.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(len: usize, num_replicas: usize, rank: usize) -> Result<Self> {
        if rank >= num_replicas {
            return Err(TorshError::invalid(
                "DistributedSampler",
                format!("Invalid rank {rank}, rank must be less than num_replicas, {num_replicas}"),
            ));
        }
        Ok(DistributedSampler {
            len,
            num_replicas,
            rank,
            shuffle: true,
            seed: 0,
            drop_last: false,
            epoch: Arc::new(AtomicU64::new(0)),
        })
    }

    setters! {
        /// Whether the order is random (true).
        shuffle: bool;
        /// The seed of the order (0); the same in all processes.
        seed: u64;
        /// Whether items that cannot be dealt out evenly are left out, instead of some coming twice
        /// (false).
        drop_last: bool;
    }

    /// Says which epoch comes next; without it all have one order.
    ///
    /// ```
    /// use torsh_data::{DistributedSampler, Sampler};
    ///
    /// let sampler = DistributedSampler::new(10, 3, 0)?.seed(5);
    /// sampler.set_epoch(2);
    /// assert_eq!(sampler.indices()?, [5, 4, 9, 2]); // PyTorch's
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn set_epoch(&self, epoch: u64) {
        self.epoch.store(epoch, Ordering::Relaxed);
    }
}

impl Sampler for DistributedSampler {
    fn len(&self) -> usize {
        if self.drop_last {
            self.len / self.num_replicas
        } else {
            self.len.div_ceil(self.num_replicas)
        }
    }

    #[torsh_tensor::names_caller]
    fn indices(&self) -> Result<Vec<usize>> {
        let order: Vec<usize> = if self.shuffle {
            let seed = self.seed.wrapping_add(self.epoch.load(Ordering::Relaxed));
            let order = randperm(&Generator::new(seed), self.len as i64);
            order.into_iter().map(|i| i as usize).collect()
        } else {
            (0..self.len).collect()
        };
        // Where the processes need more than there is, the order begins anew.
        let mine = self.rank..Sampler::len(self) * self.num_replicas;
        Ok(mine
            .step_by(self.num_replicas)
            .map(|i| order[i % self.len])
            .collect())
    }

    fn state(&self) -> Vec<u8> {
        self.epoch.load(Ordering::Relaxed).to_le_bytes().to_vec()
    }

    #[torsh_tensor::names_caller]
    fn set_state(&self, state: &[u8]) -> Result<()> {
        let bytes = state.try_into().map_err(|_| {
            TorshError::invalid(
                "DistributedSampler",
                format!("the state is 8 bytes, got {}", state.len()),
            )
        })?;
        self.set_epoch(u64::from_le_bytes(bytes));
        Ok(())
    }

    fn set_epoch(&self, epoch: u64) {
        DistributedSampler::set_epoch(self, epoch);
    }

    fn replica(&self) -> Option<(usize, usize)> {
        Some((self.rank, self.num_replicas))
    }
}
