//! Datasets that combine other datasets.

use std::collections::BTreeMap;

use torsh_tensor::{Result, TorshError};

use crate::dataset::out_of_range;
use crate::{Dataset, IterableDataset};

/// Datasets one after another (`torch.utils.data.ConcatDataset`); of several types as
/// `Box<dyn Dataset<Item = T>>`.
///
/// ```
/// use torsh_data::{ConcatDataset, Dataset};
///
/// let both = ConcatDataset::new([vec![1i64, 2], vec![3]])?;
/// assert_eq!((both.len(), both.get(2)?), (3, 3));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ConcatDataset<D> {
    datasets: Vec<D>,
    /// Where each ends.
    ends: Vec<usize>,
}

impl<D: Dataset> ConcatDataset<D> {
    /// The items of all datasets, of which there is at least one.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(datasets: impl Into<Vec<D>>) -> Result<Self> {
        let datasets = datasets.into();
        if datasets.is_empty() {
            return Err(TorshError::invalid(
                "ConcatDataset",
                "datasets should not be an empty list",
            ));
        }
        let mut end = 0;
        let ends = datasets.iter().map(|d| {
            end += d.len();
            end
        });
        Ok(ConcatDataset {
            ends: ends.collect(),
            datasets,
        })
    }

    /// The datasets.
    pub fn datasets(&self) -> &[D] {
        &self.datasets
    }
}

impl<D: Dataset> Dataset for ConcatDataset<D> {
    type Item = D::Item;
    fn len(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }
    #[torsh_tensor::names_caller]
    fn get(&self, index: usize) -> Result<D::Item> {
        let of = self.ends.partition_point(|&end| end <= index);
        let dataset = self
            .datasets
            .as_slice()
            .get(of)
            .ok_or_else(|| out_of_range(index, self.len()))?;
        dataset.get(index - of.checked_sub(1).map_or(0, |i| self.ends[i]))
    }
    #[torsh_tensor::names_caller]
    fn check(&self) -> Result<()> {
        self.datasets.iter().try_for_each(Dataset::check)
    }
}

/// Streams one after another (`torch.utils.data.ChainDataset`).
///
/// ```
/// use torsh_data::{ChainDataset, IterableDataset};
/// use torsh_tensor::Result;
///
/// struct Numbers(std::ops::Range<i64>);
/// impl IterableDataset for Numbers {
///     type Item = i64;
///     fn iter(&self) -> Box<dyn Iterator<Item = Result<i64>> + Send + '_> {
///         Box::new(self.0.clone().map(Ok))
///     }
/// }
/// let chain = ChainDataset::new([Numbers(0..2), Numbers(7..9)]);
/// assert_eq!(chain.iter().collect::<Result<Vec<_>>>()?, [0, 1, 7, 8]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ChainDataset<D> {
    datasets: Vec<D>,
}

impl<D: IterableDataset> ChainDataset<D> {
    /// The items of all streams.
    pub fn new(datasets: impl Into<Vec<D>>) -> Self {
        ChainDataset {
            datasets: datasets.into(),
        }
    }
}

impl<D: IterableDataset> IterableDataset for ChainDataset<D> {
    type Item = D::Item;
    fn iter(&self) -> Box<dyn Iterator<Item = Result<D::Item>> + Send + '_> {
        Box::new(self.datasets.iter().flat_map(IterableDataset::iter))
    }
}

/// What a [`StackDataset`] puts side by side: a tuple, a list, or a map of datasets.
///
/// ```
/// use std::collections::BTreeMap;
/// use torsh_data::{Dataset, StackDataset};
///
/// let data = StackDataset::new(BTreeMap::from([("x", vec![1i64, 2]), ("y", vec![3, 4])]))?;
/// assert_eq!(data.get(1)?, BTreeMap::from([("x", 2), ("y", 4)]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub trait Datasets: Send + Sync {
    /// The items of all at one index.
    type Item;
    /// The length of each.
    fn lens(&self) -> Vec<usize>;
    /// The items at an index.
    fn get(&self, index: usize) -> Result<Self::Item>;
    /// What each refuses.
    fn check(&self) -> Result<()>;
}

macro_rules! tuples {
    ($($($name:ident $index:tt)+;)*) => {$(
        impl<$($name: Dataset),+> Datasets for ($($name,)+) {
            type Item = ($($name::Item,)+);
            fn lens(&self) -> Vec<usize> {
                vec![$(self.$index.len()),+]
            }
            #[torsh_tensor::names_caller]
            fn get(&self, index: usize) -> Result<Self::Item> {
                Ok(($(self.$index.get(index)?,)+))
            }
            #[torsh_tensor::names_caller]
            fn check(&self) -> Result<()> {
                $(self.$index.check()?;)+
                Ok(())
            }
        }
    )*};
}
tuples! {
    A 0;
    A 0 B 1;
    A 0 B 1 C 2;
    A 0 B 1 C 2 D 3;
}

impl<T: Dataset> Datasets for Vec<T> {
    type Item = Vec<T::Item>;
    fn lens(&self) -> Vec<usize> {
        self.iter().map(Dataset::len).collect()
    }
    #[torsh_tensor::names_caller]
    fn get(&self, index: usize) -> Result<Self::Item> {
        self.iter().map(|d| d.get(index)).collect()
    }
    #[torsh_tensor::names_caller]
    fn check(&self) -> Result<()> {
        self.iter().try_for_each(Dataset::check)
    }
}

impl<K: Ord + Clone + Send + Sync, T: Dataset> Datasets for BTreeMap<K, T> {
    type Item = BTreeMap<K, T::Item>;
    fn lens(&self) -> Vec<usize> {
        self.values().map(Dataset::len).collect()
    }
    #[torsh_tensor::names_caller]
    fn get(&self, index: usize) -> Result<Self::Item> {
        self.iter()
            .map(|(k, d)| Ok((k.clone(), d.get(index)?)))
            .collect()
    }
    #[torsh_tensor::names_caller]
    fn check(&self) -> Result<()> {
        self.values().try_for_each(Dataset::check)
    }
}

/// Datasets side by side (`torch.utils.data.StackDataset`): item `i` is the tuple, list or map of
/// their items `i`.
///
/// ```
/// use torsh_data::{Dataset, StackDataset};
///
/// let pairs = StackDataset::new((vec![1i64, 2], vec!["one", "two"]))?;
/// assert_eq!(pairs.get(1)?, (2, "two"));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct StackDataset<T> {
    datasets: T,
    len: usize,
}

impl<T: Datasets> StackDataset<T> {
    /// The datasets side by side; an error where there are none, or they differ in length.
    ///
    /// ```
    /// use torsh_data::StackDataset;
    /// let error = StackDataset::new((vec![1i64, 2], vec!["one"])).unwrap_err().to_string();
    /// assert!(error.contains("size mismatch between datasets: they have [2, 1] items"));
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new(datasets: T) -> Result<Self> {
        let lens = datasets.lens();
        match lens.first() {
            Some(&len) if lens.iter().all(|&l| l == len) => Ok(StackDataset { datasets, len }),
            Some(_) => Err(TorshError::invalid(
                "StackDataset",
                format!("size mismatch between datasets: they have {lens:?} items"),
            )),
            None => Err(TorshError::invalid(
                "StackDataset",
                "at least one dataset should be passed",
            )),
        }
    }

    /// The datasets.
    pub fn datasets(&self) -> &T {
        &self.datasets
    }
}

impl<T: Datasets> Dataset for StackDataset<T> {
    type Item = T::Item;
    fn len(&self) -> usize {
        self.len
    }
    #[torsh_tensor::names_caller]
    fn get(&self, index: usize) -> Result<T::Item> {
        self.datasets.get(index)
    }
    #[torsh_tensor::names_caller]
    fn check(&self) -> Result<()> {
        self.datasets.check()
    }
}

/// A dataset whose items are changed by a function as they are read.
///
/// ```
/// use torsh_data::{Dataset, MapDataset};
///
/// let halves = MapDataset::new(vec![2i64, 4], |v| Ok(v as f64 / 2.0));
/// assert_eq!(halves.get(1)?, 2.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct MapDataset<D, F> {
    dataset: D,
    f: F,
}

impl<D: Dataset, T, F: Fn(D::Item) -> Result<T> + Send + Sync> MapDataset<D, F> {
    /// The items of `dataset` as `f` makes them.
    pub fn new(dataset: D, f: F) -> Self {
        MapDataset { dataset, f }
    }
}

impl<D: Dataset, T, F: Fn(D::Item) -> Result<T> + Send + Sync> Dataset for MapDataset<D, F> {
    type Item = T;
    fn len(&self) -> usize {
        self.dataset.len()
    }
    #[torsh_tensor::names_caller]
    fn get(&self, index: usize) -> Result<T> {
        (self.f)(self.dataset.get(index)?)
    }
    #[torsh_tensor::names_caller]
    fn check(&self) -> Result<()> {
        self.dataset.check()
    }
}
