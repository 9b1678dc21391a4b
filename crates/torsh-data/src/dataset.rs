//! Datasets, and parts of them.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use torsh_core::random::{Generator, default_generator, randperm};
use torsh_tensor::{Result, TorshError};

use crate::Collate;

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

/// Puts an item's number into its error.
pub(crate) fn in_item(e: TorshError, context: &str) -> TorshError {
    match e {
        TorshError::Io(e) => {
            TorshError::from(std::io::Error::new(e.kind(), format!("{context}: {e}")))
        }
        TorshError::Other(s) => TorshError::Other(format!("{context}: {s}")),
        TorshError::DeviceNotAvailable(s) => {
            TorshError::DeviceNotAvailable(format!("{context}: {s}"))
        }
        TorshError::OutOfMemory => e,
        e => e.renamed(context),
    }
}

/// The text of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(s), _) => (*s).to_string(),
        (_, Some(s)) => s.clone(),
        _ => "a panic without a text".to_string(),
    }
}

/// The items at `indices`; an error or panic of one is an error that names it.
pub(crate) fn get_items<D: Dataset + ?Sized>(
    dataset: &D,
    indices: &[usize],
) -> Result<Vec<D::Item>> {
    indices
        .iter()
        .map(
            |&i| match catch_unwind(AssertUnwindSafe(|| dataset.get(i))) {
                Ok(item) => item.map_err(|e| in_item(e, &format!("item {i} of the dataset"))),
                Err(p) => Err(TorshError::Other(format!(
                    "item {i} of the dataset: panicked: {}",
                    panic_text(&*p)
                ))),
            },
        )
        .collect()
}

macro_rules! forward {
    ($($t:ty),*) => {$(
        impl<D: Dataset + ?Sized> Dataset for $t {
            type Item = D::Item;
            fn len(&self) -> usize {
                (**self).len()
            }
            fn get(&self, index: usize) -> Result<D::Item> {
                (**self).get(index)
            }
            fn get_batch(&self, indices: &[usize]) -> Result<<D::Item as Collate>::Batch>
            where
                D::Item: Collate,
            {
                (**self).get_batch(indices)
            }
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
    fn get(&self, index: usize) -> Result<D::Item> {
        self.dataset.get(self.index(index)?)
    }
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
pub fn random_split<D: Dataset>(
    dataset: D,
    lengths: &(impl Lengths + ?Sized),
) -> Result<Vec<Subset<D>>> {
    random_split_with(dataset, lengths, default_generator())
}

/// [`random_split`] with a generator of its own: the same seed gives PyTorch's split.
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
