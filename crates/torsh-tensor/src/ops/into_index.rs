//! The types of an index: integers, ranges, slices, lists, tensors, and tuples of them.

use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use torsh_core::{DType, Result, TorshError};

use crate::{IntoDim, Tensor, Value};

/// All of the dimensions that the other items of an index leave (`...`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ellipsis;

/// A new dimension of size 1 (`None` in Python).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewAxis;

/// A slice with a step, made by [`s`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    start: Option<i64>,
    stop: Option<i64>,
    step: i64,
}

/// `start:stop:step` of an index. Negative bounds count from the end, bounds past the ends are
/// clamped, `None` leaves a side open; the step must be positive.
///
/// ```
/// use torsh_tensor::{Tensor, s};
/// let x = Tensor::from_data(&[0i64, 1, 2, 3, 4], &[5])?;
/// assert_eq!(x.i(s(None, -1, 2))?.to_vec::<i64>()?, [0, 2]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub fn s(start: impl IntoBound, stop: impl IntoBound, step: impl IntoDim) -> Slice {
    Slice {
        start: start.bound(),
        stop: stop.bound(),
        step: step.value(),
    }
}

/// A bound of a slice: an integer, or `None`.
pub trait IntoBound {
    /// The bound; `None` where the side is open.
    fn bound(self) -> Option<i64>;
}
impl IntoBound for i32 {
    fn bound(self) -> Option<i64> {
        Some(self as i64)
    }
}
impl IntoBound for i64 {
    fn bound(self) -> Option<i64> {
        Some(self)
    }
}
impl IntoBound for usize {
    fn bound(self) -> Option<i64> {
        Some(self as i64)
    }
}
impl IntoBound for Option<i64> {
    fn bound(self) -> Option<i64> {
        self
    }
}

/// One item of an index.
#[derive(Clone, Debug)]
pub enum IndexItem {
    /// One position; the dimension goes.
    Int(i64),
    /// Start, stop and step.
    Slice(Option<i64>, Option<i64>, i64),
    /// All of the dimensions between.
    Ellipsis,
    /// A new dimension.
    NewAxis,
    /// A 0-d mask.
    Bool(bool),
    /// Positions, or a mask.
    Tensor(Tensor),
}

impl IndexItem {
    /// How many dimensions of the indexed tensor the item takes.
    pub(super) fn dims(&self) -> usize {
        match self {
            IndexItem::Int(_) | IndexItem::Slice(..) => 1,
            IndexItem::Ellipsis | IndexItem::NewAxis | IndexItem::Bool(_) => 0,
            IndexItem::Tensor(t) if is_mask(t) => t.ndim(),
            IndexItem::Tensor(_) => 1,
        }
    }
}

/// What can be one item of an index.
pub trait IntoIndexItem {
    /// The item.
    ///
    /// # Errors
    /// A list of which no tensor can be made.
    fn item(self) -> Result<IndexItem>;
}

macro_rules! integers {
    ($($t:ty),*) => {$(
        impl IntoIndexItem for $t {
            fn item(self) -> Result<IndexItem> { Ok(IndexItem::Int(self as i64)) }
        }
        impl IntoIndexItem for Range<$t> {
            fn item(self) -> Result<IndexItem> {
                Ok(IndexItem::Slice(Some(self.start as i64), Some(self.end as i64), 1))
            }
        }
        impl IntoIndexItem for RangeFrom<$t> {
            fn item(self) -> Result<IndexItem> { Ok(IndexItem::Slice(Some(self.start as i64), None, 1)) }
        }
        impl IntoIndexItem for RangeTo<$t> {
            fn item(self) -> Result<IndexItem> { Ok(IndexItem::Slice(None, Some(self.end as i64), 1)) }
        }
        impl IntoIndexItem for RangeInclusive<$t> {
            fn item(self) -> Result<IndexItem> {
                Ok(IndexItem::Slice(Some(*self.start() as i64), past(*self.end() as i64), 1))
            }
        }
        impl IntoIndexItem for RangeToInclusive<$t> {
            fn item(self) -> Result<IndexItem> { Ok(IndexItem::Slice(None, past(self.end as i64), 1)) }
        }
        impl IntoIndexItem for &[$t] {
            fn item(self) -> Result<IndexItem> {
                let positions: Vec<i64> = self.iter().map(|&v| v as i64).collect();
                Ok(IndexItem::Tensor(Tensor::on_host(&positions, [positions.len()])?))
            }
        }
        impl<const N: usize> IntoIndexItem for [$t; N] {
            fn item(self) -> Result<IndexItem> { self[..].item() }
        }
        impl<const N: usize> IntoIndexItem for &[$t; N] {
            fn item(self) -> Result<IndexItem> { self[..].item() }
        }
        impl IntoIndexItem for Vec<$t> {
            fn item(self) -> Result<IndexItem> { self[..].item() }
        }
        impl IntoIndexItem for &Vec<$t> {
            fn item(self) -> Result<IndexItem> { self[..].item() }
        }
    )*};
}
integers!(i32, i64, usize);

/// The stop of a slice that includes `end`: after -1, the last, comes the open end.
fn past(end: i64) -> Option<i64> {
    if end == -1 {
        None
    } else {
        Some(end.saturating_add(1))
    }
}

impl IntoIndexItem for RangeFull {
    fn item(self) -> Result<IndexItem> {
        Ok(IndexItem::Slice(None, None, 1))
    }
}
impl IntoIndexItem for Slice {
    fn item(self) -> Result<IndexItem> {
        Ok(IndexItem::Slice(self.start, self.stop, self.step))
    }
}
impl IntoIndexItem for Ellipsis {
    fn item(self) -> Result<IndexItem> {
        Ok(IndexItem::Ellipsis)
    }
}
impl IntoIndexItem for NewAxis {
    fn item(self) -> Result<IndexItem> {
        Ok(IndexItem::NewAxis)
    }
}
impl IntoIndexItem for bool {
    fn item(self) -> Result<IndexItem> {
        Ok(IndexItem::Bool(self))
    }
}
impl IntoIndexItem for Tensor {
    fn item(self) -> Result<IndexItem> {
        Ok(IndexItem::Tensor(self))
    }
}
impl IntoIndexItem for &Tensor {
    fn item(self) -> Result<IndexItem> {
        Ok(IndexItem::Tensor(self.clone()))
    }
}
impl IntoIndexItem for IndexItem {
    fn item(self) -> Result<IndexItem> {
        Ok(self)
    }
}

/// What `x.i(..)` takes: one item, or a tuple of up to eight.
pub trait IntoIndex {
    /// The items in order.
    ///
    /// # Errors
    /// A list of which no tensor can be made.
    fn items(self) -> Result<Vec<IndexItem>>;
}
impl<T: IntoIndexItem> IntoIndex for T {
    fn items(self) -> Result<Vec<IndexItem>> {
        Ok(vec![self.item()?])
    }
}
impl IntoIndex for () {
    fn items(self) -> Result<Vec<IndexItem>> {
        Ok(Vec::new())
    }
}
impl IntoIndex for Vec<IndexItem> {
    fn items(self) -> Result<Vec<IndexItem>> {
        Ok(self)
    }
}

macro_rules! tuples {
    ($($name:ident)+) => {
        impl<$($name: IntoIndexItem),+> IntoIndex for ($($name,)+) {
            fn items(self) -> Result<Vec<IndexItem>> {
                #[allow(non_snake_case)]
                let ($($name,)+) = self;
                Ok(vec![$($name.item()?),+])
            }
        }
    };
}
tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);
tuples!(A B C D E F G);
tuples!(A B C D E F G H);

/// Reads the index of a call by name, as Python would: a tuple holds items, a list is a tensor
/// (or, if it holds sequences, slices or tensors, a tuple).
pub(super) fn items_of(v: &Value) -> Result<Vec<IndexItem>> {
    let nested = |v: &Value| {
        matches!(
            v,
            Value::Tensor(_)
                | Value::List(_)
                | Value::Tuple(_)
                | Value::Slice(..)
                | Value::Ellipsis
                | Value::None
        )
    };
    match v {
        Value::Tuple(items) => items.iter().map(item_of).collect(),
        Value::List(items) if items.len() < 32 && items.iter().any(nested) => {
            items.iter().map(item_of).collect()
        }
        v => Ok(vec![item_of(v)?]),
    }
}

fn item_of(v: &Value) -> Result<IndexItem> {
    Ok(match v {
        Value::Int(i) => IndexItem::Int(*i),
        Value::Bool(b) => IndexItem::Bool(*b),
        Value::None => IndexItem::NewAxis,
        Value::Slice(start, stop, step) => IndexItem::Slice(*start, *stop, step.unwrap_or(1)),
        Value::Ellipsis => IndexItem::Ellipsis,
        Value::Tensor(t) => IndexItem::Tensor(t.clone()),
        Value::List(_) | Value::Tuple(_) => {
            let (mut shape, mut ints, mut bools) = (Vec::new(), Vec::new(), Vec::new());
            flatten(v, 0, &mut shape, &mut ints, &mut bools)?;
            IndexItem::Tensor(match (ints.is_empty(), bools.is_empty()) {
                (true, false) => Tensor::on_host(&bools, &shape[..])?,
                (_, true) => Tensor::on_host(&ints, &shape[..])?,
                _ => {
                    return Err(TorshError::index(
                        "",
                        "a list of an index cannot hold integers and bools",
                    ));
                }
            })
        }
        other => {
            return Err(TorshError::index(
                "",
                format!(
                    "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got {})",
                    other.kind()
                ),
            ));
        }
    })
}

/// Reads nested lists of equal lengths.
fn flatten(
    v: &Value,
    depth: usize,
    shape: &mut Vec<usize>,
    ints: &mut Vec<i64>,
    bools: &mut Vec<bool>,
) -> Result<()> {
    let ragged = || {
        TorshError::index(
            "",
            "the lists of an index must be of integers or bools, and of equal lengths",
        )
    };
    match v {
        Value::Int(i) if depth == shape.len() => ints.push(*i),
        Value::Bool(b) if depth == shape.len() => bools.push(*b),
        Value::List(items) | Value::Tuple(items) => {
            match shape.get(depth) {
                Some(&n) if n == items.len() => {}
                None if ints.is_empty() && bools.is_empty() => shape.push(items.len()),
                _ => return Err(ragged()),
            }
            for item in items {
                flatten(item, depth + 1, shape, ints, bools)?;
            }
        }
        _ => return Err(ragged()),
    }
    Ok(())
}

/// Whether an index tensor is a mask.
pub(super) fn is_mask(t: &Tensor) -> bool {
    matches!(t.dtype(), DType::Bool | DType::U8)
}
