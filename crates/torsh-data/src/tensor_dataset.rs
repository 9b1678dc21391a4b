//! Tensors as a dataset.

use torsh_tensor::{DType, Result, Tensor, TorshError};

use crate::dataset::out_of_range;
use crate::{Collate, Dataset};

/// The tensors of one item or batch: one, a tuple or a list of them.
pub trait Tensors: Collate<Batch = Self> + Clone + Send + Sync + 'static {
    /// Shows each tensor.
    fn for_each(&self, f: &mut dyn FnMut(&Tensor));
    /// The same with each tensor changed.
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Result<Tensor>) -> Result<Self>;
}

impl Tensors for Tensor {
    fn for_each(&self, f: &mut dyn FnMut(&Tensor)) {
        f(self);
    }
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Result<Tensor>) -> Result<Self> {
        f(self)
    }
}

impl Tensors for Vec<Tensor> {
    fn for_each(&self, f: &mut dyn FnMut(&Tensor)) {
        self.iter().for_each(f);
    }
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Result<Tensor>) -> Result<Self> {
        self.iter().map(f).collect()
    }
}

macro_rules! tuples {
    ($($($t:ident $index:tt)+;)*) => {$(
        impl Tensors for ($($t,)+) {
            fn for_each(&self, f: &mut dyn FnMut(&Tensor)) {
                $(f(&self.$index);)+
            }
            fn map(&self, f: &mut dyn FnMut(&Tensor) -> Result<Tensor>) -> Result<Self> {
                Ok(($(f(&self.$index)?,)+))
            }
        }
    )*};
}
tuples! {
    Tensor 0;
    Tensor 0 Tensor 1;
    Tensor 0 Tensor 1 Tensor 2;
    Tensor 0 Tensor 1 Tensor 2 Tensor 3;
}

/// A dataset whose item `i` is the `i`-th part along dimension 0 of each tensor
/// (`torch.utils.data.TensorDataset`). A batch is taken in one step, not item by item.
///
/// ```
/// use torsh_data::{Dataset, TensorDataset};
/// use torsh_tensor::tensor;
///
/// let data = TensorDataset::new(tensor![[1.0, 2.0], [3.0, 4.0]], tensor![0, 1]);
/// let (x, y) = data.get(1)?;
/// assert_eq!((x, y.item::<i64>()?), (tensor![3.0, 4.0], 1));
/// assert_eq!(data.get_batch(&[1, 1])?.1, tensor![1, 1]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct TensorDataset<T = (Tensor, Tensor)> {
    tensors: T,
    len: Option<usize>,
}

impl TensorDataset<(Tensor, Tensor)> {
    /// Inputs and targets. Where they have not the same size in dimension 0, building a loader and
    /// reading an item are errors that say so.
    ///
    /// ```
    /// use torsh_data::{Dataset, TensorDataset};
    /// use torsh_tensor::tensor;
    ///
    /// let uneven = TensorDataset::new(tensor![1.0, 2.0], tensor![0, 1, 2]);
    /// let error = uneven.get(0).unwrap_err().to_string();
    /// assert!(error.contains("size mismatch between tensors"));
    /// ```
    pub fn new(inputs: Tensor, targets: Tensor) -> Self {
        TensorDataset::of((inputs, targets))
    }

    /// Another name of [`TensorDataset::new`].
    pub fn from_tensors(inputs: Tensor, targets: Tensor) -> Self {
        TensorDataset::new(inputs, targets)
    }
}

impl<T: Tensors> TensorDataset<T> {
    /// Any number of tensors: one, a tuple or a list; items and batches have the same form.
    ///
    /// ```
    /// use torsh_data::{Dataset, TensorDataset};
    /// use torsh_tensor::tensor;
    ///
    /// let data = TensorDataset::of((tensor![1, 2], tensor![3, 4], tensor![5, 6]));
    /// let (a, b, c) = data.get_batch(&[1])?;
    /// assert_eq!((a, b, c), (tensor![2], tensor![4], tensor![6]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn of(tensors: T) -> Self {
        let mut sizes = Vec::new();
        tensors.for_each(&mut |t| sizes.push(t.dims().first().copied()));
        let len = match sizes.first() {
            Some(&first) if sizes.iter().all(|s| *s == first) => first,
            _ => None,
        };
        TensorDataset { tensors, len }
    }

    /// The tensors.
    pub fn tensors(&self) -> &T {
        &self.tensors
    }
}

impl<T: Tensors> Dataset for TensorDataset<T> {
    type Item = T;

    fn len(&self) -> usize {
        self.len.unwrap_or(0)
    }

    #[torsh_tensor::names_caller]
    fn check(&self) -> Result<()> {
        if self.len.is_some() {
            return Ok(());
        }
        let mut texts = Vec::new();
        self.tensors.for_each(&mut |t| texts.push(t.describe()));
        Err(TorshError::shape(
            "TensorDataset",
            format!(
                "size mismatch between tensors: dimension 0 of all must be equal, got {}",
                texts.join(", ")
            ),
        ))
    }

    #[torsh_tensor::names_caller]
    fn get(&self, index: usize) -> Result<T> {
        self.check()?;
        if index >= self.len() {
            return Err(out_of_range(index, self.len()));
        }
        self.tensors.map(&mut |t| t.select(0, index))
    }

    #[torsh_tensor::names_caller]
    fn get_batch(&self, indices: &[usize]) -> Result<T> {
        self.check()?;
        if let Some(&i) = indices.iter().find(|&&i| i >= self.len()) {
            return Err(out_of_range(i, self.len()));
        }
        let list: Vec<i64> = indices.iter().map(|&i| i as i64).collect();
        // Each device's, made when the first tensor of it comes.
        let mut lists: Vec<Tensor> = Vec::new();
        self.tensors.map(&mut |t| {
            let there = lists.iter().find(|l| l.device() == t.device());
            if let Some(list) = there {
                return t.index_select(0, list);
            }
            let own = Tensor::from_slice(&list, [list.len()], DType::I64, t.device())?;
            let selected = t.index_select(0, &own)?;
            lists.push(own);
            Ok(selected)
        })
    }
}
