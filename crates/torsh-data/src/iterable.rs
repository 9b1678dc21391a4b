//! Datasets that are read from front to back.

use std::sync::Arc;

use torsh_tensor::{Result, TorshError};

use crate::Collate;

/// Items without numbers, as of a stream (`torch.utils.data.IterableDataset`).
pub trait IterableDataset: Send + Sync {
    /// What one item is.
    type Item;
    /// Starts from the front.
    fn iter(&self) -> Box<dyn Iterator<Item = Result<Self::Item>> + Send + '_>;
}

/// Reads an [`IterableDataset`] in batches.
///
/// ```
/// use torsh_data::{IterableDataset, IterableLoader};
/// use torsh_tensor::Result;
///
/// struct Odd;
/// impl IterableDataset for Odd {
///     type Item = i64;
///     fn iter(&self) -> Box<dyn Iterator<Item = Result<i64>> + Send + '_> {
///         Box::new((0..5).map(|i| Ok(2 * i + 1)))
///     }
/// }
///
/// let loader = IterableLoader::new(Odd, 2)?;
/// let batches = loader.try_iter().map(|b| b?.to_vec::<i64>()).collect::<Result<Vec<_>>>()?;
/// assert_eq!(batches, [vec![1, 3], vec![5, 7], vec![9]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct IterableLoader<D> {
    dataset: Arc<D>,
    batch_size: usize,
    drop_last: bool,
}

impl<D: IterableDataset> IterableLoader<D>
where
    D::Item: Collate,
{
    /// A loader of batches of `batch_size` items, which is at least 1.
    #[track_caller]
    pub fn new(dataset: D, batch_size: usize) -> Result<IterableLoader<D>> {
        if batch_size == 0 {
            return Err(TorshError::invalid(
                "IterableLoader",
                "batch_size must be at least 1, got 0",
            ));
        }
        Ok(IterableLoader {
            dataset: Arc::new(dataset),
            batch_size,
            drop_last: false,
        })
    }

    /// Whether a last batch with fewer items is left out (false).
    #[must_use]
    pub fn drop_last(mut self, drop_last: bool) -> Self {
        self.drop_last = drop_last;
        self
    }

    /// The batches from the front. An item's error ends its batch.
    pub fn try_iter(&self) -> impl Iterator<Item = Result<<D::Item as Collate>::Batch>> + '_ {
        let mut items = self.dataset.iter();
        std::iter::from_fn(move || {
            let batch = items
                .by_ref()
                .take(self.batch_size)
                .collect::<Result<Vec<_>>>();
            match batch {
                Ok(b) if b.is_empty() || (self.drop_last && b.len() < self.batch_size) => None,
                Ok(b) => Some(D::Item::collate(b)),
                Err(e) => Some(Err(e)),
            }
        })
    }

    /// The batches from the front. Panics with the dataset's error.
    pub fn iter(&self) -> impl Iterator<Item = <D::Item as Collate>::Batch> + '_ {
        self.try_iter().map(|b| match b {
            Ok(b) => b,
            Err(e) => panic!("{e}"),
        })
    }
}
