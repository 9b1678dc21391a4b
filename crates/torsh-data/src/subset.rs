//! Parts of datasets.

use std::sync::Arc;

use torsh_core::random::{Generator, default_generator, randperm};
use torsh_tensor::{Result, TorshError};

use crate::dataset::out_of_range;
use crate::{Collate, Dataset};

/// The items of a dataset at some of its indices (`torch.utils.data.Subset`).
#[derive(Clone, Debug)]
pub struct Subset<D> {
    dataset: Arc<D>,
    indices: Vec<usize>,
}

impl<D: Dataset> Subset<D> {
    /// The items at `indices`, in this order. Indices out of range are an error when they are
    /// read. An `Arc` of a dataset is one too.
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

/// The sizes of the parts of a split: numbers of items, or fractions that add up to 1.
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
#[track_caller]
pub fn random_split<D: Dataset>(
    dataset: D,
    lengths: &(impl Lengths + ?Sized),
) -> Result<Vec<Subset<D>>> {
    random_split_with(dataset, lengths, default_generator())
}

/// [`random_split`] with a generator of its own: the same seed gives PyTorch's split.
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
