//! Parts of datasets.

use std::sync::Arc;

use torsh_core::random::{Generator, default_generator, randperm};
use torsh_tensor::{Result, TorshError};

use crate::dataset::out_of_range;
use crate::{Collate, Dataset};

/// The items of a dataset at some of its indices (`torch.utils.data.Subset`).
///
/// ```
/// use torsh_data::{Dataset, Subset};
///
/// let part = Subset::new(vec!["a", "b", "c"], [2, 0]);
/// assert_eq!((part.len(), part.get(0)?, part.get(1)?), (2, "c", "a"));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Subset<D> {
    dataset: Arc<D>,
    indices: Vec<usize>,
}

impl<D: Dataset> Subset<D> {
    /// The items at `indices`, in this order. Indices out of range are an error when they are
    /// read. An `Arc` of a dataset is one too.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use torsh_data::{Dataset, Subset};
    ///
    /// let whole = Arc::new(vec!["a", "b", "c"]);
    /// let (train, test) = (Subset::new(whole.clone(), [0, 1]), Subset::new(whole, [2, 3]));
    /// assert_eq!((train.get(1)?, test.get(0)?), ("b", "c"));
    /// let error = test.get(1).unwrap_err().to_string();
    /// assert!(error.contains("index 3 is out of range for a dataset of 3 items"));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn new(dataset: D, indices: impl Into<Vec<usize>>) -> Subset<D> {
        Subset {
            dataset: Arc::new(dataset),
            indices: indices.into(),
        }
    }

    /// The indices.
    pub fn indices(&self) -> &[usize] {
        &self.indices
    }

    /// The whole dataset.
    pub fn dataset(&self) -> &Arc<D> {
        &self.dataset
    }

    fn index(&self, i: usize) -> Result<usize> {
        let index = *self
            .indices
            .as_slice()
            .get(i)
            .ok_or_else(|| out_of_range(i, self.indices.len()))?;
        if index < self.dataset.len() {
            Ok(index)
        } else {
            Err(out_of_range(index, self.dataset.len()))
        }
    }
}

impl<D: Dataset> Dataset for Subset<D> {
    type Item = D::Item;
    fn len(&self) -> usize {
        self.indices.len()
    }
    #[torsh_tensor::names_caller]
    fn get(&self, index: usize) -> Result<D::Item> {
        self.dataset.get(self.index(index)?)
    }
    #[torsh_tensor::names_caller]
    fn get_batch(&self, indices: &[usize]) -> Result<<D::Item as Collate>::Batch>
    where
        D::Item: Collate,
    {
        let mapped: Vec<usize> = indices
            .iter()
            .map(|&i| self.index(i))
            .collect::<Result<_>>()?;
        self.dataset.get_batch(&mapped)
    }
    #[torsh_tensor::names_caller]
    fn check(&self) -> Result<()> {
        self.dataset.check()
    }
}

/// The sizes of the parts of a split: numbers of items, or fractions that add up to 1. What the rounding of fractions leaves
/// over goes to the first parts, one item each.
///
/// ```
/// use torsh_data::Lengths;
/// assert_eq!([6usize, 4].lengths(10)?, [6, 4]);
/// assert_eq!([0.5f64, 0.25, 0.25].lengths(7)?, [4, 2, 1]);
/// let error = [6usize, 5].lengths(10).unwrap_err().to_string();
/// assert!(error.contains("the lengths [6, 5] do not add up to the 10 items of the dataset"));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub trait Lengths {
    /// The numbers of items, of a dataset of `len`.
    fn lengths(&self, len: usize) -> Result<Vec<usize>>;
}

impl Lengths for [usize] {
    fn lengths(&self, len: usize) -> Result<Vec<usize>> {
        if self.iter().try_fold(0usize, |a, &b| a.checked_add(b)) != Some(len) {
            return Err(TorshError::invalid(
                "random_split",
                format!("the lengths {self:?} do not add up to the {len} items of the dataset"),
            ));
        }
        Ok(self.to_vec())
    }
}

impl Lengths for [f64] {
    fn lengths(&self, len: usize) -> Result<Vec<usize>> {
        let sum: f64 = self.iter().sum();
        if self.iter().any(|f| !(0.0..=1.0).contains(f)) || (sum - 1.0).abs() > 1e-9 {
            return Err(TorshError::invalid(
                "random_split",
                format!("the fractions {self:?} must be from 0 to 1 and add up to 1"),
            ));
        }
        let mut out: Vec<usize> = self
            .iter()
            .map(|f| (len as f64 * f).floor() as usize)
            .collect();
        // What the rounding left over goes to the first parts, one each.
        let (rest, parts) = (len.saturating_sub(out.iter().sum()), out.len());
        for i in 0..rest {
            out[i % parts] += 1;
        }
        Ok(out)
    }
}

impl<T, const N: usize> Lengths for [T; N]
where
    [T]: Lengths,
{
    fn lengths(&self, len: usize) -> Result<Vec<usize>> {
        self.as_slice().lengths(len)
    }
}

impl<T> Lengths for Vec<T>
where
    [T]: Lengths,
{
    fn lengths(&self, len: usize) -> Result<Vec<usize>> {
        self.as_slice().lengths(len)
    }
}

/// Splits a dataset at random into parts of these numbers of items, or fractions
/// (`torch.utils.data.random_split`); draws from the default generator.
///
/// ```
/// use torsh_data::{Dataset, random_split};
///
/// let parts = random_split((0..10i64).collect::<Vec<_>>(), &[0.8, 0.2])?;
/// assert_eq!((parts[0].len(), parts[1].len()), (8, 2));
/// let mut all = [parts[0].indices(), parts[1].indices()].concat();
/// all.sort();
/// assert_eq!(all, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn random_split<D: Dataset>(
    dataset: D,
    lengths: &(impl Lengths + ?Sized),
) -> Result<Vec<Subset<D>>> {
    random_split_with(dataset, lengths, default_generator())
}

/// [`random_split`] with a generator of its own: the same seed gives PyTorch's split.
///
/// ```
/// use torsh_core::Generator;
/// use torsh_data::random_split_with;
///
/// let parts = random_split_with((0..10i64).collect::<Vec<_>>(), &[6, 4], &Generator::new(1))?;
/// assert_eq!(parts[0].indices(), [5, 6, 1, 2, 0, 8]);
/// assert_eq!(parts[1].indices(), [9, 3, 7, 4]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn random_split_with<D: Dataset>(
    dataset: D,
    lengths: &(impl Lengths + ?Sized),
    generator: &Generator,
) -> Result<Vec<Subset<D>>> {
    let dataset = Arc::new(dataset);
    let lengths = lengths.lengths(dataset.len())?;
    let order: Vec<usize> = randperm(generator, dataset.len() as i64)
        .into_iter()
        .map(|i| i as usize)
        .collect();
    let mut rest = order.as_slice();
    let mut parts = Vec::with_capacity(lengths.len());
    for n in lengths {
        let (part, after) = rest.split_at(n);
        rest = after;
        parts.push(Subset {
            dataset: dataset.clone(),
            indices: part.to_vec(),
        });
    }
    Ok(parts)
}
