//! Datasets.

use std::sync::Arc;

use torsh_tensor::{Result, TorshError};

use crate::Collate;
use crate::guard::guarded;

/// Items with numbers (`torch.utils.data.Dataset`).
///
/// ```
/// use torsh_data::{DataLoader, Dataset};
/// use torsh_tensor::{Result, Tensor};
///
/// struct Squares;
/// impl Dataset for Squares {
///     type Item = (Tensor, i64);
///     fn len(&self) -> usize {
///         4
///     }
///     fn get(&self, i: usize) -> Result<(Tensor, i64)> {
///         Ok((Tensor::from_data(&[i as f32], &[1])?, (i * i) as i64))
///     }
/// }
///
/// let loader = DataLoader::builder(Squares).batch_size(4).num_workers(2).build()?;
/// for (x, y) in &loader {
///     assert_eq!(x.dims(), [4, 1]);
///     assert_eq!(y.to_vec::<i64>()?, [0, 1, 4, 9]);
/// }
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub trait Dataset: Send + Sync {
    /// What one item is; one that implements [`Collate`] needs no `collate_fn` to be loaded.
    type Item;

    /// The number of items.
    fn len(&self) -> usize;

    /// The item at `index`, which is less than the length.
    fn get(&self, index: usize) -> Result<Self::Item>;

    /// Whether there are no items.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Several items as one batch; a dataset that can do better than item by item overrides this.
    fn get_batch(&self, indices: &[usize]) -> Result<<Self::Item as Collate>::Batch>
    where
        Self::Item: Collate,
    {
        Collate::collate(get_items(self, indices)?)
    }

    /// An error where the dataset is of no use, asked before it is loaded from.
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// The item at `index`; an error or panic names it.
pub(crate) fn get_item<D: Dataset + ?Sized>(dataset: &D, index: usize) -> Result<D::Item> {
    guarded(
        || format!("item {index} of the dataset"),
        || dataset.get(index),
    )
}

/// The items at `indices`; an error or panic of one is an error that names it.
pub(crate) fn get_items<D: Dataset + ?Sized>(
    dataset: &D,
    indices: &[usize],
) -> Result<Vec<D::Item>> {
    indices.iter().map(|&i| get_item(dataset, i)).collect()
}

macro_rules! forward {
    ($($t:ty),*) => {$(
        impl<D: Dataset + ?Sized> Dataset for $t {
            type Item = D::Item;
            fn len(&self) -> usize {
                (**self).len()
            }
            #[torsh_tensor::names_caller]
            fn get(&self, index: usize) -> Result<D::Item> {
                (**self).get(index)
            }
            #[torsh_tensor::names_caller]
            fn get_batch(&self, indices: &[usize]) -> Result<<D::Item as Collate>::Batch>
            where
                D::Item: Collate,
            {
                (**self).get_batch(indices)
            }
            #[torsh_tensor::names_caller]
            fn check(&self) -> Result<()> {
                (**self).check()
            }
        }
    )*};
}
forward!(&D, Box<D>, Arc<D>);

impl<T: Clone + Send + Sync> Dataset for Vec<T> {
    type Item = T;
    fn len(&self) -> usize {
        Vec::len(self)
    }
    #[torsh_tensor::names_caller]
    fn get(&self, index: usize) -> Result<T> {
        <[T]>::get(self, index)
            .cloned()
            .ok_or_else(|| out_of_range(index, Vec::len(self)))
    }
}

pub(crate) fn out_of_range(index: usize, len: usize) -> TorshError {
    TorshError::index(
        "Dataset",
        format!("index {index} is out of range for a dataset of {len} items"),
    )
}
