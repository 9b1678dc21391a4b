//! Batches of items.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;

use torsh_tensor::{DType, Device, Element, Result, Tensor, TorshError};

use crate::Dataset;

/// An item that has a batch, as PyTorch's `default_collate` makes it: tensors are stacked, numbers
/// become a tensor of their own dtype, tuples and maps are batched part by part, strings are
/// listed. Sparse tensors of one shape are stacked to a COO tensor.
///
/// ```
/// use torsh_data::Collate;
/// use torsh_tensor::tensor;
///
/// let (numbers, names) = Collate::collate(vec![(1i64, "a"), (2, "b")])?;
/// assert_eq!(numbers, tensor![1, 2]);
/// assert_eq!(names, ["a", "b"]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub trait Collate: Sized {
    /// What a batch is.
    type Batch: Send;
    /// Makes one batch of items; an error where they do not fit together.
    fn collate(items: Vec<Self>) -> Result<Self::Batch>;
}

impl Collate for Tensor {
    type Batch = Tensor;
    fn collate(items: Vec<Self>) -> Result<Tensor> {
        Tensor::stack(&items, 0).map_err(|e| {
            e.renamed("collate")
                .with_hint("the items of a batch must have one shape; or pass a collate_fn")
        })
    }
}

fn numbers<T: Element>(items: Vec<T>, dtype: DType) -> Result<Tensor> {
    let n = items.len();
    Tensor::from_slice(&items, [n], dtype, Device::Cpu)
}

macro_rules! collate_numbers {
    ($($t:ty => $dtype:ident),*) => {$(
        impl Collate for $t {
            type Batch = Tensor;
            fn collate(items: Vec<Self>) -> Result<Tensor> {
                numbers(items, DType::$dtype)
            }
        }
    )*};
}
collate_numbers!(f32 => F32, f64 => F64, i8 => I8, u8 => U8, i16 => I16, i32 => I32, i64 => I64, bool => Bool);

impl Collate for usize {
    type Batch = Tensor;
    fn collate(items: Vec<Self>) -> Result<Tensor> {
        numbers(items.into_iter().map(|v| v as i64).collect(), DType::I64)
    }
}

impl Collate for String {
    type Batch = Vec<String>;
    fn collate(items: Vec<Self>) -> Result<Vec<String>> {
        Ok(items)
    }
}

/// Calls a macro with the names and positions of tuples of up to eight items.
macro_rules! for_each_tuple {
    ($macro:ident) => {
        $macro! {
            A 0;
            A 0 B 1;
            A 0 B 1 C 2;
            A 0 B 1 C 2 D 3;
            A 0 B 1 C 2 D 3 E 4;
            A 0 B 1 C 2 D 3 E 4 F 5;
            A 0 B 1 C 2 D 3 E 4 F 5 G 6;
            A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7;
        }
    };
}

macro_rules! collate_tuples {
    ($($($name:ident $index:tt)+;)*) => {$(
        impl<$($name: Collate),+> Collate for ($($name,)+) {
            type Batch = ($($name::Batch,)+);
            fn collate(items: Vec<Self>) -> Result<Self::Batch> {
                let mut parts = ($(Vec::<$name>::with_capacity(items.len()),)+);
                for item in items {
                    $(parts.$index.push(item.$index);)+
                }
                Ok(($($name::collate(parts.$index)?,)+))
            }
        }
    )*};
}
for_each_tuple!(collate_tuples);

impl Collate for &'static str {
    type Batch = Vec<&'static str>;
    fn collate(items: Vec<Self>) -> Result<Vec<&'static str>> {
        Ok(items)
    }
}

/// The values; an item without one is an error, as in PyTorch.
impl<T: Collate> Collate for Option<T> {
    type Batch = T::Batch;
    fn collate(items: Vec<Self>) -> Result<T::Batch> {
        let values = items.into_iter().enumerate().map(|(i, v)| {
            v.ok_or_else(|| {
                TorshError::invalid("collate", format!("item {i} of the batch is None"))
                    .with_hint("leave such items out, or pass a collate_fn")
            })
        });
        T::collate(values.collect::<Result<_>>()?)
    }
}

impl<T: Collate, const N: usize> Collate for [T; N] {
    type Batch = Vec<T::Batch>;
    fn collate(items: Vec<Self>) -> Result<Self::Batch> {
        Collate::collate(items.into_iter().map(Vec::from).collect::<Vec<Vec<T>>>())
    }
}

fn unequal() -> TorshError {
    TorshError::invalid(
        "collate",
        "each element in a list of a batch should be of equal size",
    )
}

impl<T: Collate> Collate for Vec<T> {
    type Batch = Vec<T::Batch>;
    fn collate(items: Vec<Self>) -> Result<Self::Batch> {
        let length = items.first().map_or(0, Vec::len);
        let mut parts: Vec<Vec<T>> = (0..length)
            .map(|_| Vec::with_capacity(items.len()))
            .collect();
        for item in items {
            if item.len() != length {
                return Err(unequal());
            }
            for (part, value) in parts.iter_mut().zip(item) {
                part.push(value);
            }
        }
        parts.into_iter().map(T::collate).collect()
    }
}

fn by_key<K: Ord, T: Collate>(items: Vec<Vec<(K, T)>>) -> Result<Vec<(K, T::Batch)>> {
    let count = items.len();
    let mut parts: BTreeMap<K, Vec<T>> = BTreeMap::new();
    for item in items {
        for (k, v) in item {
            parts.entry(k).or_default().push(v);
        }
    }
    parts
        .into_iter()
        .map(|(k, v)| {
            if v.len() == count {
                Ok((k, T::collate(v)?))
            } else {
                Err(TorshError::invalid(
                    "collate",
                    "the maps of a batch have different keys",
                ))
            }
        })
        .collect()
}

impl<K: Ord + Send, T: Collate> Collate for BTreeMap<K, T> {
    type Batch = BTreeMap<K, T::Batch>;
    fn collate(items: Vec<Self>) -> Result<Self::Batch> {
        Ok(
            by_key(items.into_iter().map(|m| m.into_iter().collect()).collect())?
                .into_iter()
                .collect(),
        )
    }
}

impl<K: Ord + Hash + Send, T: Collate, S: BuildHasher + Default + Send> Collate
    for HashMap<K, T, S>
{
    type Batch = HashMap<K, T::Batch, S>;
    fn collate(items: Vec<Self>) -> Result<Self::Batch> {
        Ok(
            by_key(items.into_iter().map(|m| m.into_iter().collect()).collect())?
                .into_iter()
                .collect(),
        )
    }
}

/// How a loader makes a batch of a dataset's items.
pub trait Fetch<D: Dataset>: Send + Sync + 'static {
    /// What a batch is.
    type Batch: Send + 'static;
    /// Makes the batch of the items at `indices`.
    fn fetch(&self, dataset: &D, indices: &[usize]) -> Result<Self::Batch>;
}

/// The batches of [`Collate`].
#[derive(Clone, Copy, Debug, Default)]
pub struct DefaultCollate;

impl<D: Dataset> Fetch<D> for DefaultCollate
where
    D::Item: Collate,
    <D::Item as Collate>::Batch: 'static,
{
    type Batch = <D::Item as Collate>::Batch;
    fn fetch(&self, dataset: &D, indices: &[usize]) -> Result<Self::Batch> {
        dataset.get_batch(indices)
    }
}

/// Batches made by a function of the user.
pub struct CollateFn<F, B>(F, PhantomData<fn() -> B>);

impl<F, B> CollateFn<F, B> {
    pub(crate) fn new(f: F) -> Self {
        CollateFn(f, PhantomData)
    }
}

impl<D: Dataset, B: Send + 'static, F: Fn(Vec<D::Item>) -> Result<B> + Send + Sync + 'static>
    Fetch<D> for CollateFn<F, B>
{
    type Batch = B;
    fn fetch(&self, dataset: &D, indices: &[usize]) -> Result<B> {
        (self.0)(crate::dataset::get_items(dataset, indices)?)
    }
}

/// The items as they are, one by one.
#[derive(Clone, Copy, Debug)]
pub struct Unbatched;

impl<D: Dataset> Fetch<D> for Unbatched
where
    D::Item: Send + 'static,
{
    type Batch = D::Item;
    fn fetch(&self, dataset: &D, indices: &[usize]) -> Result<D::Item> {
        let [index] = indices else {
            return Err(TorshError::invalid(
                "DataLoader",
                format!("unbatched gives one item at a time, got the indices {indices:?}"),
            ));
        };
        crate::dataset::get_item(dataset, *index)
    }
}

/// A batch whose tensors a loader can move to a device
/// ([`DataLoaderBuilder::device`](crate::DataLoaderBuilder::device)): a tensor, and tuples, lists, maps
/// and options of what can be moved. Texts and numbers stay as they are.
///
/// ```
/// use torsh_data::ToDevice;
/// use torsh_tensor::{Device, tensor};
///
/// let (x, name) = (tensor![1.0], "a").to_device(Device::Meta)?;
/// assert_eq!((x.device(), name), (Device::Meta, "a"));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub trait ToDevice: Sized {
    /// The batch with its tensors on the device.
    fn to_device(self, device: Device) -> Result<Self>;
}

impl ToDevice for Tensor {
    fn to_device(self, device: Device) -> Result<Self> {
        Tensor::to_device(&self, device)
    }
}

macro_rules! stay {
    ($($t:ty),*) => {$(
        impl ToDevice for $t {
            fn to_device(self, _device: Device) -> Result<Self> {
                Ok(self)
            }
        }
    )*};
}
stay!(
    String,
    &'static str,
    (),
    bool,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
    usize
);

macro_rules! move_tuples {
    ($($($name:ident $index:tt)+;)*) => {$(
        impl<$($name: ToDevice),+> ToDevice for ($($name,)+) {
            fn to_device(self, device: Device) -> Result<Self> {
                Ok(($(self.$index.to_device(device)?,)+))
            }
        }
    )*};
}
for_each_tuple!(move_tuples);

impl<T: ToDevice> ToDevice for Vec<T> {
    fn to_device(self, device: Device) -> Result<Self> {
        self.into_iter().map(|v| v.to_device(device)).collect()
    }
}

impl<T: ToDevice> ToDevice for Option<T> {
    fn to_device(self, device: Device) -> Result<Self> {
        self.map(|v| v.to_device(device)).transpose()
    }
}

impl<K: Ord, T: ToDevice> ToDevice for BTreeMap<K, T> {
    fn to_device(self, device: Device) -> Result<Self> {
        let moved = self.into_iter().map(|(k, v)| Ok((k, v.to_device(device)?)));
        moved.collect()
    }
}

impl<K: Eq + Hash, T: ToDevice, S: BuildHasher + Default> ToDevice for HashMap<K, T, S> {
    fn to_device(self, device: Device) -> Result<Self> {
        let moved = self.into_iter().map(|(k, v)| Ok((k, v.to_device(device)?)));
        moved.collect()
    }
}

/// Batches that are moved to a device where they are made: by the workers, where there are some, so that
/// the copies go on while the device computes.
#[derive(Clone, Copy, Debug)]
pub struct OnDevice<C> {
    collate: C,
    device: Device,
}

impl<C> OnDevice<C> {
    pub(crate) fn new(collate: C, device: Device) -> Self {
        OnDevice { collate, device }
    }
}

impl<D: Dataset, C: Fetch<D>> Fetch<D> for OnDevice<C>
where
    C::Batch: ToDevice,
{
    type Batch = C::Batch;
    fn fetch(&self, dataset: &D, indices: &[usize]) -> Result<C::Batch> {
        self.collate.fetch(dataset, indices)?.to_device(self.device)
    }
}
