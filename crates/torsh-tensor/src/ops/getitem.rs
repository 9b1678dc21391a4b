//! Indexing: `x.i(..)`, and advanced indexing behind it.

use smallvec::SmallVec;
use torsh_core::attrs::{self, Attributes, Ints};
use torsh_core::{DType, Dims, Kernel, Result, Shape, TorshError};

use super::index::{check_number, in_place};
use super::into_index::{IndexItem, IntoIndex, is_mask};
use crate::call::{Arg, call1};
use crate::record::{OpRecord, Plan, Sample, sample};
use crate::{Operand, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[&INDEX, &INDEX_PUT, &GETITEM];

/// Advanced indexing: operand 0 read at index tensors of one shape.
pub static INDEX: OpRecord = OpRecord::new(
    "index",
    "The elements that index tensors name, broadcast together.",
    "(Tensor input, Tensor?[] indices)",
)
.kernel(Kernel::IndexGet, |c| {
    let (x, a) = (c.tensor(0)?, c.attrs::<attrs::IndexGet>()?);
    let shape = selected_shape(x, c.tensor(1)?, &a.dims, a.position);
    Ok(Plan::one(x.dtype(), shape, x.dtype()))
})
.grads(!1, 0, |c| {
    let zeros = c.zeros(0)?;
    let indices = (1..)
        .map_while(|i| c.has_input(i).then(|| c.input(i)))
        .collect::<Result<Vec<_>>>()?;
    let mut rest: SmallVec<[Arg<'_>; 4]> = SmallVec::from_iter([Arg::T(c.g())]);
    rest.extend(indices.iter().map(Arg::T));
    let attrs::IndexGet { dims, position } = c.attrs::<attrs::IndexGet>()?.clone();
    let add = attrs::IndexPut {
        dims,
        position,
        accumulate: true,
    };
    let sum = in_place(&INDEX_PUT, &zeros, &rest, &add)?;
    Ok(SmallVec::from_iter([Some(sum)]))
})
.by_name(|b| {
    let indices: Vec<Option<Tensor>> = b
        .value(1)
        .items()
        .unwrap_or(&[])
        .iter()
        .map(as_tensor)
        .collect();
    b.tensor(0)?.index(&indices).map(Value::Tensor)
})
.samples(|s| {
    let (rows, columns) = (s.ints(&[2, 1], -3, 3)?, s.ints(&[2], 0, 2)?);
    let mask = s.bools(&[3])?;
    let list = |items: Vec<Value>| Value::List(items);
    Ok(vec![
        sample![
            s.real(&[3, 2])?,
            list(vec![rows.into(), columns.clone().into()])
        ],
        sample![s.real(&[3, 2])?, list(vec![Value::None, columns.into()])],
        sample![s.real(&[3, 2])?, list(vec![mask.into()])],
    ])
});

/// Advanced assignment: operand 1 written at index tensors of one shape (operands 2 on).
pub static INDEX_PUT: OpRecord =
    OpRecord::new("index_put", "The tensor with values at the elements that index tensors name.", "(Tensor input, Tensor?[] indices, Tensor values, bool accumulate=False)")
        .kernel(Kernel::IndexPut, |c| {
            let (x, values) = (c.tensor(0)?, c.tensor(1)?);
            if x.dtype() != values.dtype() {
                return Err(TorshError::dtype(
                    "",
                    format!(
                        "Index put requires the source and destination dtypes match, got {} for the destination and {} for the source.",
                        x.dtype(),
                        values.dtype()
                    ),
                ));
            }
            let a = c.attrs::<attrs::IndexPut>()?;
            let shape = selected_shape(x, c.tensor(2)?, &a.dims, a.position);
            if !values.shape().can_broadcast_to(&shape) {
                return Err(TorshError::shape(
                    "",
                    format!("shape mismatch: value tensor of shape {} cannot be broadcast to indexing result of shape {shape}", values.shape()),
                ));
            }
            Ok(Plan::one(x.dtype(), x.shape().clone(), x.dtype()))
        })
        .grads(!3, 0, |c| {
            let indices = (2..).map_while(|i| c.has_input(i).then(|| c.input(i))).collect::<Result<Vec<_>>>()?;
            let a = c.attrs::<attrs::IndexPut>()?;
            let with = |first: &[&Tensor], record: &'static OpRecord, attrs: &dyn Attributes| {
                let args: SmallVec<[Arg<'_>; 4]> =
                    first.iter().copied().chain(indices.iter()).map(Arg::T).collect();
                call1(record, &args, attrs)
            };
            let first = match (c.needs(0), a.accumulate) {
                (false, _) => None,
                (true, true) => Some(c.g().clone()),
                (true, false) => {
                    let zero = Tensor::scalar(0, c.g().dtype(), c.g().device())?;
                    Some(with(&[c.g(), &zero], &INDEX_PUT, a)?)
                }
            };
            let values = if c.needs(1) {
                let get = attrs::IndexGet { dims: a.dims.clone(), position: a.position };
                Some(with(&[c.g()], &INDEX, &get)?)
            } else {
                None
            };
            Ok(SmallVec::from_iter([first, values]))
        })
.by_name(|b| {
    let indices: Vec<Option<Tensor>> = b.value(1).items().unwrap_or(&[]).iter().map(as_tensor).collect();
    b.tensor(0)?.index_put(&indices, b.tensor(2)?, b.bool(3)).map(Value::Tensor)
})
.samples(|s| {
    let index = s.ints(&[2], 0, 3)?;
    let distinct = Tensor::from_data(&[2i64, -3], [2])?;
    let list = |t: Tensor| Value::List(vec![t.into()]);
    let call = |s: &mut crate::sample::Sampler, t| -> Result<[Value; 3]> {
        Ok([s.real(&[3, 2])?.into(), list(t), s.real(&[2, 2])?.into()])
    };
    let mut added = call(s, index)?.to_vec();
    added.push(Value::Bool(true));
    Ok(vec![Sample::new(call(s, distinct)?), Sample::new(added)])
});

pub static GETITEM: OpRecord = OpRecord::new(
    "__getitem__",
    "Indexing as in Python: views for integers and slices, copies for index tensors and masks.",
    "(Tensor input, Any index)",
)
.by_name(|b| {
    let items = super::into_index::items_of(b.value(1)).map_err(|e| e.renamed("__getitem__"))?;
    b.tensor(0)?.get(items).map(Value::Tensor)
})
.samples(|s| {
    let index = s.ints(&[2, 2], -3, 3)?;
    let all = Value::Slice(None, None, None);
    Ok(vec![
        sample![s.real(&[3, 2])?, -1],
        sample![
            s.real(&[3, 2])?,
            Value::Tuple(vec![Value::Slice(None, None, Some(2)), Value::None])
        ],
        sample![s.real(&[3, 2])?, index.clone()],
        sample![
            s.real(&[3, 2, 3])?,
            Value::Tuple(vec![index.clone().into(), all, index.into()])
        ],
    ])
});

fn as_tensor(v: &Value) -> Option<Tensor> {
    match v {
        Value::Tensor(t) => Some(t.clone()),
        _ => None,
    }
}

/// What index tensors, of which `index` is one, select of a tensor along `dims`: its other
/// dimensions around the shape of the index tensors, `position` of them before it.
fn selected_shape(x: &Tensor, index: &Tensor, dims: &[i64], position: usize) -> Shape {
    let free = (0..x.ndim())
        .filter(|d| !dims.contains(&(*d as i64)))
        .map(|d| x.dims()[d]);
    let mut shape: Dims = free.collect();
    shape.insert_many(position, index.dims().iter().copied());
    shape.into()
}

/// Index tensors ready for the kernel.
struct Ready {
    /// Of one shape, int64 or int32.
    tensors: Vec<Tensor>,
    /// The dimensions they index.
    dims: Ints,
    /// How many free dimensions come before theirs.
    position: usize,
}

/// An index tensor on the device of the tensor that it indexes: those of the CPU are moved there.
fn beside(x: &Tensor, index: &Tensor) -> Result<Tensor> {
    if index.device() == x.device() {
        return Ok(index.clone());
    }
    if !index.device().is_host() {
        return Err(TorshError::device(
            "",
            format!(
                "indices should be either on cpu or on the same device as the indexed tensor ({}), not on {}",
                x.device(),
                index.device()
            ),
        )
        .with_hint("move them with to_device(..) first"));
    }
    index.to_device(x.device())
}

/// Expands masks, broadcasts, moves to the device, and finds where the index dimensions go: where they are if they are
/// neighbours, else first.
fn ready(x: &Tensor, indices: &[Option<Tensor>]) -> Result<Ready> {
    let (mut tensors, mut dims) = (Vec::new(), SmallVec::<[i64; 6]>::new());
    let mut d = 0;
    for index in indices {
        let Some(t) = index else {
            d += 1;
            continue;
        };
        let takes = if is_mask(t) { t.ndim() } else { 1 };
        if takes == 0 {
            return Err(TorshError::index("", "a mask needs at least one dimension")
                .with_hint("i() and i_put() take 0-dim masks and bools"));
        }
        if d + takes > x.ndim() {
            return Err(TorshError::index(
                "",
                format!(
                    "too many indices for tensor of dimension {} (got {})",
                    x.ndim(),
                    d + takes
                ),
            ));
        }
        if !is_mask(t) {
            if !matches!(t.dtype(), DType::I64 | DType::I32) {
                return Err(TorshError::index(
                    "",
                    format!(
                        "tensors used as indices must be long, int, byte or bool tensors, got {}",
                        t.dtype()
                    ),
                ));
            }
            tensors.push(beside(x, t)?);
            dims.push(d as i64);
        } else {
            if t.dims() != &x.dims()[d..d + takes] {
                return Err(TorshError::index(
                    "",
                    format!(
                        "The shape of the mask {} at index {d} does not match the shape of the indexed tensor {} at index {d}",
                        t.shape(),
                        x.shape()
                    ),
                ));
            }
            for (k, column) in t.nonzero_as_tuple()?.into_iter().enumerate() {
                dims.push((d + k) as i64);
                tensors.push(beside(x, &column)?);
            }
        }
        d += takes;
    }
    if d > x.ndim() {
        return Err(TorshError::index(
            "",
            format!("too many indices for tensor of dimension {}", x.ndim()),
        ));
    }
    let mut shape = Shape::default();
    for t in &tensors {
        shape = shape.broadcast(t.shape()).map_err(|_| {
            let shapes: Vec<String> = tensors.iter().map(|t| t.shape().to_string()).collect();
            TorshError::index(
                "",
                format!("shape mismatch: indexing tensors could not be broadcast together with shapes {}", shapes.join(", ")),
            )
        })?;
    }
    for t in &mut tensors {
        if *t.shape() != shape {
            *t = t.expand(&shape)?;
        }
    }
    let neighbours = dims.windows(2).all(|w| w[1] == w[0] + 1);
    let position = if neighbours {
        dims.first().copied().unwrap_or(0) as usize
    } else {
        0
    };
    Ok(Ready {
        tensors,
        dims: dims[..].into(),
        position,
    })
}

/// An error with the tensor's own dimension, where a view that lost some would name another.
#[track_caller]
fn in_range(i: i64, axis: usize, n: usize) -> Result<()> {
    if i < -(n as i64) || i >= n as i64 {
        return Err(TorshError::index(
            "",
            format!("index {i} is out of bounds for dimension {axis} with size {n}"),
        ));
    }
    Ok(())
}

/// What an index makes of a tensor before index tensors are read: the view, and the index tensors
/// by its dimensions.
struct Applied {
    view: Tensor,
    indices: Vec<Option<Tensor>>,
}

#[torsh_tensor::functions]
impl Tensor {
    /// Indexing, as Python's `x[..]`.
    ///
    /// Index tensors and masks of the CPU index a tensor of any device.
    ///
    /// Integers, ranges, [`s`](crate::s) slices, `..` (all of one dimension),
    /// [`Ellipsis`](crate::Ellipsis) (all of the dimensions between) and
    /// [`NewAxis`](crate::NewAxis) give views. Index tensors (int64, int32), lists of integers and
    /// masks (bool, of the sizes they cover) give copies, PyTorch's way: index tensors broadcast
    /// together, and their dimensions stand where they were if they are neighbours, else first.
    ///
    /// ```
    /// use torsh_tensor::{Ellipsis, NewAxis, Tensor, s};
    /// let x = Tensor::from_data(&[0i64, 1, 2, 3, 4, 5], &[2, 3])?;
    /// assert_eq!(x.i((1, -1))?.item::<i64>()?, 5);
    /// assert_eq!(x.i((.., 1..))?.to_vec::<i64>()?, [1, 2, 4, 5]);
    /// assert_eq!(x.i((Ellipsis, s(0, 3, 2)))?.to_vec::<i64>()?, [0, 2, 3, 5]);
    /// assert_eq!(x.i((NewAxis, 0))?.shape().dims(), [1, 3]);
    /// assert_eq!(x.i(&x.gt(2)?)?.to_vec::<i64>()?, [3, 4, 5]);
    /// assert_eq!(x.i((.., [2, 0]))?.to_vec::<i64>()?, [2, 0, 5, 3]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Too many indices, one out of range, masks and index tensors of the wrong dtype or shape.
    #[torsh_tensor::names_caller]
    pub fn i(&self, index: impl IntoIndex) -> Result<Tensor> {
        let items = index.items().map_err(|e| e.renamed("__getitem__"))?;
        self.get(items)
    }

    #[track_caller]
    fn get(&self, items: Vec<IndexItem>) -> Result<Tensor> {
        let at = std::panic::Location::caller();
        let named = |e: TorshError| {
            e.in_op("__getitem__", || vec![self.describe()], at)
                .renamed("__getitem__")
        };
        let a = self.apply(items).map_err(named)?;
        if a.indices.iter().all(Option::is_none) {
            return Ok(a.view);
        }
        a.view.index(&a.indices).map_err(named)
    }

    /// The elements that index tensors and masks name, one for each dimension from the first on,
    /// `None` for all of a dimension (`x[indices]` with a list of tensors).
    ///
    /// The index tensors broadcast against each other. An error for too many of them, for indices out
    /// of range, and for masks of other shapes.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[1, 2], [3, 4], [5, 6]];
    /// assert_eq!(x.index(&[Some(tensor![2, 0])])?, tensor![[5, 6], [1, 2]]);
    /// assert_eq!(x.index(&[Some(tensor![0, 1]), Some(tensor![1, 0])])?, tensor![2, 3]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn index(&self, indices: &[Option<Tensor>]) -> Result<Tensor> {
        let at = std::panic::Location::caller();
        let r = ready(self, indices).map_err(|e| e.in_op("index", || vec![self.describe()], at))?;
        if r.tensors.is_empty() {
            return Ok(self.clone());
        }
        let mut args: SmallVec<[Arg<'_>; 4]> = SmallVec::from_iter([Arg::T(self)]);
        args.extend(r.tensors.iter().map(Arg::T));
        call1(
            &INDEX,
            &args,
            &attrs::IndexGet {
                dims: r.dims,
                position: r.position,
            },
        )
    }

    #[track_caller]
    fn apply(&self, items: Vec<IndexItem>) -> Result<Applied> {
        let takes: usize = items.iter().map(IndexItem::dims).sum();
        if takes > self.ndim() {
            if self.ndim() == 0 && items.iter().any(|i| matches!(i, IndexItem::Int(_))) {
                return Err(TorshError::index("", "invalid index of a 0-dim tensor")
                    .with_hint("item() gives the number of a 0-dim tensor"));
            }
            return Err(TorshError::index(
                "",
                format!(
                    "too many indices for tensor of dimension {} (got {takes})",
                    self.ndim()
                ),
            ));
        }
        let rest = self.ndim() - takes;
        let mut view = self.clone();
        let mut indices: Vec<Option<Tensor>> = Vec::new();
        // Where the next item is in the view, and in this tensor.
        let (mut d, mut axis) = (0, 0);
        for item in items {
            let takes = match &item {
                IndexItem::Ellipsis => rest,
                other => other.dims(),
            };
            match item {
                IndexItem::Int(i) => {
                    in_range(i, axis, self.dims()[axis])?;
                    view = view.select(d, i)?;
                }
                IndexItem::Slice(None, None, 1) => d += 1,
                IndexItem::Slice(start, stop, step) => {
                    if step <= 0 {
                        return Err(TorshError::invalid(
                            "",
                            format!("step must be greater than zero, got {step}"),
                        ));
                    }
                    view = view.slice_step(d as i64, start, stop, step)?;
                    d += 1;
                }
                IndexItem::Ellipsis => d += rest,
                IndexItem::NewAxis => {
                    view = view.unsqueeze(d)?;
                    d += 1;
                }
                IndexItem::Bool(b) => {
                    view = view.unsqueeze(d)?;
                    let positions = vec![0i64; usize::from(b)];
                    place(
                        &mut indices,
                        d,
                        Tensor::on_host(&positions, [positions.len()])?,
                    );
                    d += 1;
                }
                IndexItem::Tensor(t) if t.ndim() == 0 && !is_mask(&t) && t.dtype().is_integer() => {
                    let i = t.item::<i64>()?;
                    in_range(i, axis, self.dims()[axis])?;
                    view = view.select(d, i)?;
                }
                IndexItem::Tensor(t) if t.ndim() == 0 && is_mask(&t) => {
                    view = view.unsqueeze(d)?;
                    let positions =
                        vec![0i64; usize::from(t.to_dtype(DType::Bool)?.item::<bool>()?)];
                    place(
                        &mut indices,
                        d,
                        Tensor::on_host(&positions, [positions.len()])?,
                    );
                    d += 1;
                }
                IndexItem::Tensor(t) => {
                    let n = if is_mask(&t) { t.ndim() } else { 1 };
                    place(&mut indices, d, t);
                    d += n;
                }
            }
            axis += takes;
        }
        // Even an index that changes nothing gives a view, not the tensor itself.
        if view.is_same(self) && self.is_strided() {
            view = self.view(self.shape())?;
        }
        Ok(Applied { view, indices })
    }

    /// This tensor with `values` at the elements that index tensors and masks name, written over (of
    /// repeated ones the last stays) or, with `accumulate`, added (`torch.index_put`).
    ///
    /// The values have this dtype and broadcast to what [`Tensor::index`] gives; an error for others
    /// and for indices out of range.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![0, 0, 0];
    /// let index = [Some(tensor![1, 1])];
    /// assert_eq!(x.index_put(&index, &tensor![5, 6], true)?, tensor![0, 11, 0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn index_put(
        &self,
        indices: &[Option<Tensor>],
        values: &Tensor,
        accumulate: bool,
    ) -> Result<Tensor> {
        let at = std::panic::Location::caller();
        let r = put_ready(self, indices)
            .map_err(|e| e.in_op("index_put", || vec![self.describe()], at))?;
        let mut args: SmallVec<[Arg<'_>; 4]> = SmallVec::from_iter([Arg::T(self), Arg::T(values)]);
        args.extend(r.tensors.iter().map(Arg::T));
        call1(
            &INDEX_PUT,
            &args,
            &attrs::IndexPut {
                dims: r.dims,
                position: r.position,
                accumulate,
            },
        )
    }

    /// [`Tensor::index_put`] in place; returns this tensor.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![0, 0, 0];
    /// x.index_put_(&[Some(tensor![true, false, true])], &tensor![7], false)?;
    /// assert_eq!(x, tensor![7, 0, 7]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn index_put_(
        &self,
        indices: &[Option<Tensor>],
        values: &Tensor,
        accumulate: bool,
    ) -> Result<Tensor> {
        let at = std::panic::Location::caller();
        // One number where a mask is true needs no positions.
        if let [Some(mask)] = indices
            && mask.dtype() == DType::Bool
            && values.numel() == 1
            && (values.ndim() == 0 || values.device() == self.device())
            && !accumulate
            && mask.ndim() <= self.ndim()
            && mask.dims() == &self.dims()[..mask.ndim()]
            && mask.ndim() > 0
        {
            let mut dims = Dims::from_slice(mask.dims());
            dims.resize(self.ndim(), 1);
            let value = values.reshape(())?;
            return beside(self, mask)
                .and_then(|m| self.masked_fill_(&m.reshape(Shape::from(dims))?, &value))
                .map_err(|e| e.renamed("index_put_"));
        }
        let r = put_ready(self, indices)
            .map_err(|e| e.in_op("index_put_", || vec![self.describe()], at))?;
        let mut rest: SmallVec<[Arg<'_>; 4]> = SmallVec::from_iter([Arg::T(values)]);
        rest.extend(r.tensors.iter().map(Arg::T));
        let attrs = attrs::IndexPut {
            dims: r.dims,
            position: r.position,
            accumulate,
        };
        in_place(&INDEX_PUT, self, &rest, &attrs)
    }

    /// Assigns to a part of this tensor, as Python's `x[index] = value`; returns this tensor.
    ///
    /// ```
    /// use torsh_tensor::Tensor;
    /// let x = Tensor::from_data(&[0i64, 1, 2, 3, 4, 5], &[2, 3])?;
    /// x.i_put((.., 0), 9)?;
    /// x.i_put(&x.gt(4)?, -1)?;
    /// assert_eq!(x.to_vec::<i64>()?, [-1, 1, 2, -1, 4, -1]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn i_put<'a>(
        &self,
        index: impl IntoIndex,
        value: impl Into<Operand<'a>>,
    ) -> Result<Tensor> {
        let named = |e: TorshError| e.renamed("__setitem__");
        let a = self.apply(index.items().map_err(named)?).map_err(named)?;
        let value = value.into();
        if let Operand::Number(n) = value {
            check_number(n, self.dtype()).map_err(named)?;
        }
        if a.indices.iter().all(Option::is_none) {
            a.view.copy_(value).map_err(named)?;
            return Ok(self.clone());
        }
        let mut values = match value {
            Operand::Number(n) => Tensor::scalar(n, self.dtype(), self.device())?,
            o => o.to_tensor()?,
        };
        // Leading sizes of 1 may be more than the target has.
        while values.ndim() > 0 && values.dims()[0] == 1 {
            values = values.squeeze(0)?;
        }
        a.view
            .index_put_(&a.indices, &values, false)
            .map_err(named)?;
        Ok(self.clone())
    }
}

/// Puts an index tensor into the list at dimension `first`; a mask takes several dimensions and one
/// place.
fn place(indices: &mut Vec<Option<Tensor>>, first: usize, t: Tensor) {
    while indices.iter().map(taken).sum::<usize>() < first {
        indices.push(None);
    }
    indices.push(Some(t));
}

fn taken(index: &Option<Tensor>) -> usize {
    match index {
        Some(t) if is_mask(t) => t.ndim(),
        _ => 1,
    }
}

fn put_ready(x: &Tensor, indices: &[Option<Tensor>]) -> Result<Ready> {
    let r = ready(x, indices)?;
    if r.tensors.is_empty() {
        return Err(TorshError::index("", "at least one index tensor is needed"));
    }
    Ok(r)
}
