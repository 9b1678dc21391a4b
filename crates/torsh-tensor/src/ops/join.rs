//! Putting tensors together: joining, stacking, repeating, padding.

use std::borrow::Borrow;

use smallvec::SmallVec;
use torsh_core::{Dims, Kernel, Promotion, Result, Shape, TorshError, attrs};

use crate::autocast::Autocast;
use crate::call::{Arg, call1};
use crate::record::{OpRecord, Plan, Sample, sample};
use crate::{Grads, IntoDim, IntoShape, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[
    &CAT,
    &STACK,
    &HSTACK,
    &VSTACK,
    &DSTACK,
    &COLUMN_STACK,
    &BROADCAST_TENSORS,
    &MESHGRID,
    &CARTESIAN_PROD,
    &REPEAT,
    &TILE,
];

fn list(v: Vec<Tensor>) -> Value {
    Value::Tuple(v.into_iter().map(Value::Tensor).collect())
}

/// An empty vector, which goes with tensors of any rank.
fn skipped(shape: &Shape) -> bool {
    shape.dims() == [0]
}

#[torsh_tensor::by_name(Tensor::cat)]
pub static CAT: OpRecord = OpRecord::new(
    "cat",
    "The tensors one after the other along a dimension; their other sizes are equal.",
    "(Tensor[] tensors, int dim=0)",
)
.autocast(Autocast::Promote)
.kernel(Kernel::Cat, |c| {
    let dim = c.attrs::<attrs::Cat>()?.dim;
    let mut dtype = Promotion::default();
    let mut whole: Option<Dims> = None;
    for i in 0..c.len() {
        let t = c.tensor(i)?;
        dtype.tensor(t.dtype(), t.ndim());
        if skipped(t.shape()) {
            continue;
        }
        let Some(sum) = &mut whole else {
            whole = Some(Dims::from_slice(t.dims()));
            continue;
        };
        if sum.len() != t.ndim() {
            return Err(TorshError::shape(
                "",
                format!("Tensors must have same number of dimensions: got {} and {}", sum.len(), t.ndim()),
            ));
        }
        for (d, &n) in t.dims().iter().enumerate() {
            if d == dim {
                sum[d] = sum[d].checked_add(n).ok_or_else(|| TorshError::invalid("", "the sizes overflow"))?;
            } else if sum[d] != n {
                return Err(TorshError::shape(
                    "",
                    format!(
                        "Sizes of tensors must match except in dimension {dim}. Expected size {} but got size {n} in dimension {d} for tensor number {i} in the list.",
                        sum[d]
                    ),
                ));
            }
        }
    }
    let dtype = dtype.result()?.unwrap_or(torsh_core::DType::F32);
    let shape = whole.map_or_else(|| Shape::new(&[0]), Shape::from);
    Ok(Plan::one(dtype, shape, dtype))
})
.grads(0, 0, |c| {
    let dim = c.attrs::<attrs::Cat>()?.dim;
    let mut at = 0;
    let mut out = Grads::new();
    for i in 0..c.node.inputs.len() {
        let shape = c.input_shape(i);
        if skipped(shape) && c.g().ndim() != 1 {
            out.push(if c.needs(i) { Some(c.zeros(i)?) } else { None });
            continue;
        }
        let n = shape.dims().get(dim).copied().unwrap_or(0);
        out.push(if c.needs(i) { Some(c.g().narrow(dim, at, n)?) } else { None });
        at += n;
    }
    Ok(out)
})
.samples(|s| {
    let (x, y) = (s.real(&[2, 3])?, s.real(&[2, 1])?);
    Ok(vec![sample![vec![x, y], -1]])
});

#[torsh_tensor::by_name(Tensor::stack)]
pub static STACK: OpRecord = OpRecord::new(
    "stack",
    "The tensors, all of one shape, side by side along a new dimension.",
    "(Tensor[] tensors, int dim=0)",
)
.autocast(Autocast::Promote)
.samples(|s| {
    let (x, y) = (s.real(&[2, 3])?, s.real(&[2, 3])?);
    Ok(vec![sample![vec![x, y], 1]])
});

fn two(s: &mut crate::sample::Sampler) -> Result<Vec<Sample>> {
    let (x, y) = (s.real(&[3])?, s.real(&[3])?);
    Ok(vec![sample![vec![x, y]]])
}

#[torsh_tensor::by_name(Tensor::hstack)]
pub static HSTACK: OpRecord = OpRecord::new(
    "hstack",
    "The tensors side by side: along the second dimension, vectors along the first.",
    "(Tensor[] tensors)",
)
.samples(two);

#[torsh_tensor::by_name(Tensor::vstack)]
pub static VSTACK: OpRecord = OpRecord::new(
    "vstack",
    "The tensors one above the other: along the first dimension, vectors as rows.",
    "(Tensor[] tensors)",
)
.samples(two);

#[torsh_tensor::by_name(Tensor::dstack)]
pub static DSTACK: OpRecord = OpRecord::new(
    "dstack",
    "The tensors one behind the other: along the third dimension.",
    "(Tensor[] tensors)",
)
.samples(two);

#[torsh_tensor::by_name(Tensor::column_stack)]
pub static COLUMN_STACK: OpRecord = OpRecord::new(
    "column_stack",
    "The tensors side by side, vectors as columns.",
    "(Tensor[] tensors)",
)
.samples(two);

#[torsh_tensor::by_name(Tensor::broadcast_tensors)]
pub static BROADCAST_TENSORS: OpRecord = OpRecord::new(
    "broadcast_tensors",
    "Views of the tensors in the shape they broadcast to.",
    "(Tensor[1] tensors)",
)
.samples(|s| Ok(vec![sample![vec![s.real(&[3, 1])?, s.real(&[2])?]]]));

pub static MESHGRID: OpRecord = OpRecord::new(
    "meshgrid",
    "Views of vectors as the coordinates of a grid, indexed by rows first (ij) or columns first (xy).",
    "(Tensor[1] tensors, *, str? indexing=None)",
)
.by_name(|b| Tensor::meshgrid(&b.tensors(0), if b.is_none(1) { "ij" } else { b.str(1) }).map(list))
.samples(|s| Ok(vec![sample![vec![s.real(&[3])?, s.real(&[2])?], indexing = "xy"]]));

#[torsh_tensor::by_name(Tensor::cartesian_prod)]
pub static CARTESIAN_PROD: OpRecord = OpRecord::new(
    "cartesian_prod",
    "Every combination of one element of each vector, as rows.",
    "(Tensor[1] tensors)",
)
.samples(|s| Ok(vec![sample![vec![s.real(&[3])?, s.real(&[2])?]]]));

#[torsh_tensor::by_name(Tensor::repeat)]
pub static REPEAT: OpRecord = OpRecord::new(
    "repeat",
    "The tensor repeated along each dimension; further leading dimensions are added.",
    "(Tensor input, int[] repeats)",
)
.samples(|s| Ok(vec![sample![s.real(&[2, 1])?, [2, 1, 3]]]));

#[torsh_tensor::by_name(Tensor::tile)]
pub static TILE: OpRecord = OpRecord::new(
    "tile",
    "The tensor repeated along its last dimensions, or more.",
    "(Tensor input, int[] dims)",
)
.samples(|s| Ok(vec![sample![s.real(&[2, 2])?, [2]]]));

fn refs<T: Borrow<Tensor>>(tensors: &[T]) -> SmallVec<[&Tensor; 8]> {
    tensors.iter().map(Borrow::borrow).collect()
}

fn not_empty<T>(op: &'static str, tensors: &[T]) -> Result<()> {
    if tensors.is_empty() {
        return Err(TorshError::invalid(
            op,
            format!("{op} expects a non-empty TensorList"),
        ));
    }
    Ok(())
}

#[torsh_tensor::functions]
impl Tensor {
    /// The tensors one after the other along a dimension (`torch.cat`); their other sizes must be
    /// equal, their dtypes promote. Empty vectors are left out.
    ///
    /// An error for no tensors, for other sizes that differ, and for a dimension out of range.
    ///
    /// ```
    /// use torsh_tensor::Tensor;
    /// let (a, b) = (Tensor::from_data(&[1, 2], &[2])?, Tensor::from_data(&[3], &[1])?);
    /// assert_eq!(Tensor::cat(&[&a, &b], 0)?.to_vec::<i32>()?, [1, 2, 3]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller(Self)]
    pub fn cat<T: Borrow<Tensor>>(tensors: &[T], dim: impl IntoDim) -> Result<Tensor> {
        let tensors = refs(tensors);
        if tensors.is_empty() {
            return Err(TorshError::invalid(
                "cat",
                "expected a non-empty list of Tensors",
            ));
        }
        if let Some(i) = tensors.iter().position(|t| t.ndim() == 0) {
            return Err(TorshError::shape(
                "cat",
                format!("zero-dimensional tensor (at position {i}) cannot be concatenated"),
            )
            .with_hint("stack() puts 0-d tensors together"));
        }
        let first = tensors
            .iter()
            .find(|t| !skipped(t.shape()))
            .unwrap_or(&tensors[0]);
        let d = first.dim("cat", dim.value())?;
        let args: SmallVec<[Arg<'_>; 8]> = tensors.iter().map(|t| Arg::T(t)).collect();
        call1(&CAT, &args, &attrs::Cat { dim: d })
    }

    /// The tensors, all of one shape, side by side along a new dimension (`torch.stack`).
    ///
    /// The dtypes promote. An error for no tensors, for shapes that differ, and for a dimension out
    /// of range.
    ///
    /// ```
    /// # use torsh_tensor::{Tensor, tensor};
    /// let (a, b) = (tensor![1, 2], tensor![3, 4]);
    /// assert_eq!(Tensor::stack(&[&a, &b], 0)?, tensor![[1, 2], [3, 4]]);
    /// assert_eq!(Tensor::stack(&[&a, &b], 1)?, tensor![[1, 3], [2, 4]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller(Self)]
    pub fn stack<T: Borrow<Tensor>>(tensors: &[T], dim: impl IntoDim) -> Result<Tensor> {
        let tensors = refs(tensors);
        not_empty("stack", &tensors)?;
        let first = tensors[0].shape();
        let at = std::panic::Location::caller();
        let d = torsh_core::shape::wrap_dim(dim.value(), first.ndim() + 1).map_err(|e| {
            e.in_op(
                "stack",
                || tensors.iter().map(|t| t.describe()).collect(),
                at,
            )
        })?;
        let mut rows: SmallVec<[Tensor; 8]> = SmallVec::new();
        for (i, t) in tensors.iter().enumerate() {
            if t.shape() != first {
                return Err(TorshError::shape(
                    "stack",
                    format!(
                        "stack expects each tensor to be equal size, but got {first} at entry 0 and {} at entry {i}",
                        t.shape()
                    ),
                ));
            }
            rows.push(t.unsqueeze(d)?);
        }
        Tensor::cat(&rows, d)
    }

    /// The tensors side by side: along the second dimension, vectors along the first
    /// (`torch.hstack`).
    ///
    /// The dtypes promote. An error where other sizes differ, and for no tensors.
    ///
    /// ```
    /// # use torsh_tensor::{Tensor, tensor};
    /// let (a, b) = (tensor![[1], [2]], tensor![[3], [4]]);
    /// assert_eq!(Tensor::hstack(&[a, b])?, tensor![[1, 3], [2, 4]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller(Self)]
    pub fn hstack<T: Borrow<Tensor>>(tensors: &[T]) -> Result<Tensor> {
        not_empty("hstack", tensors)?;
        let rows = refs(tensors)
            .iter()
            .map(|t| t.atleast_1d())
            .collect::<Result<Vec<_>>>()?;
        Tensor::cat(&rows, usize::from(rows[0].ndim() > 1)).map_err(|e| e.renamed("hstack"))
    }

    /// The tensors one above the other: along the first dimension, vectors as rows (`torch.vstack`).
    ///
    /// The dtypes promote. An error where other sizes differ, and for no tensors.
    ///
    /// ```
    /// # use torsh_tensor::{Tensor, tensor};
    /// assert_eq!(Tensor::vstack(&[tensor![1, 2], tensor![3, 4]])?, tensor![[1, 2], [3, 4]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller(Self)]
    pub fn vstack<T: Borrow<Tensor>>(tensors: &[T]) -> Result<Tensor> {
        not_empty("vstack", tensors)?;
        let rows = refs(tensors)
            .iter()
            .map(|t| t.atleast_2d())
            .collect::<Result<Vec<_>>>()?;
        Tensor::cat(&rows, 0).map_err(|e| e.renamed("vstack"))
    }

    /// The tensors one behind the other: along the third dimension (`torch.dstack`).
    ///
    /// Each gets three dimensions as by [`Tensor::atleast_3d`]; the dtypes promote. An error where
    /// other sizes differ, and for no tensors.
    ///
    /// ```
    /// # use torsh_tensor::{Tensor, tensor};
    /// assert_eq!(Tensor::dstack(&[tensor![1, 2], tensor![3, 4]])?, tensor![[[1, 3], [2, 4]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller(Self)]
    pub fn dstack<T: Borrow<Tensor>>(tensors: &[T]) -> Result<Tensor> {
        not_empty("dstack", tensors)?;
        let rows = refs(tensors)
            .iter()
            .map(|t| t.atleast_3d())
            .collect::<Result<Vec<_>>>()?;
        Tensor::cat(&rows, 2).map_err(|e| e.renamed("dstack"))
    }

    /// The tensors side by side, vectors as columns (`torch.column_stack`).
    ///
    /// The first sizes must be equal; the dtypes promote. An error where they are not, and for no
    /// tensors.
    ///
    /// ```
    /// # use torsh_tensor::{Tensor, tensor};
    /// assert_eq!(Tensor::column_stack(&[tensor![1, 2], tensor![3, 4]])?, tensor![[1, 3], [2, 4]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller(Self)]
    pub fn column_stack<T: Borrow<Tensor>>(tensors: &[T]) -> Result<Tensor> {
        not_empty("column_stack", tensors)?;
        let column = |t: &&Tensor| {
            if t.ndim() <= 1 {
                t.reshape((t.numel(), 1))
            } else {
                Ok((*t).clone())
            }
        };
        let rows = refs(tensors)
            .iter()
            .map(column)
            .collect::<Result<Vec<_>>>()?;
        Tensor::cat(&rows, 1).map_err(|e| e.renamed("column_stack"))
    }

    /// Views of the tensors in the shape they broadcast to (`torch.broadcast_tensors`).
    ///
    /// Each keeps its dtype. An error where the shapes do not broadcast.
    ///
    /// ```
    /// # use torsh_tensor::{Tensor, tensor};
    /// let both = Tensor::broadcast_tensors(&[tensor![[1], [2]], tensor![3, 4]])?;
    /// assert_eq!(both, [tensor![[1, 1], [2, 2]], tensor![[3, 4], [3, 4]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller(Self)]
    pub fn broadcast_tensors<T: Borrow<Tensor>>(tensors: &[T]) -> Result<Vec<Tensor>> {
        let tensors = refs(tensors);
        let mut shape = Shape::default();
        let at = std::panic::Location::caller();
        for t in &tensors {
            shape = shape.broadcast(t.shape()).map_err(|e| {
                e.in_op(
                    "broadcast_tensors",
                    || tensors.iter().map(|t| t.describe()).collect(),
                    at,
                )
            })?;
        }
        tensors.iter().map(|t| t.expand(&shape)).collect()
    }

    /// Views of vectors (or 0-d tensors) as the coordinates of a grid: `indexing` is `"ij"` (rows
    /// first) or `"xy"` (columns first; `torch.meshgrid`).
    ///
    /// An error for tensors of different dtypes or more dimensions, for none, and for another word.
    ///
    /// ```
    /// # use torsh_tensor::{Tensor, tensor};
    /// let grid = Tensor::meshgrid(&[tensor![1, 2], tensor![3, 4, 5]], "ij")?;
    /// assert_eq!(grid, [tensor![[1, 1, 1], [2, 2, 2]], tensor![[3, 4, 5], [3, 4, 5]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller(Self)]
    pub fn meshgrid<T: Borrow<Tensor>>(tensors: &[T], indexing: &str) -> Result<Vec<Tensor>> {
        not_empty("meshgrid", tensors)?;
        let tensors = refs(tensors);
        let swap = match indexing {
            "ij" => false,
            "xy" => tensors.len() > 1,
            other => {
                return Err(TorshError::invalid(
                    "meshgrid",
                    format!("indexing must be one of \"xy\" or \"ij\", but received: {other}"),
                ));
            }
        };
        for t in &tensors {
            if t.ndim() > 1 {
                return Err(TorshError::shape(
                    "meshgrid",
                    format!(
                        "Expected 0D or 1D tensor in the tensor list but got: {}",
                        t.describe()
                    ),
                ));
            }
            if t.dtype() != tensors[0].dtype() {
                return Err(TorshError::dtype(
                    "meshgrid",
                    format!(
                        "expects all tensors to have the same dtype, got {} and {}",
                        tensors[0].dtype(),
                        t.dtype()
                    ),
                ));
            }
        }
        // With xy the second vector runs along the first dimension.
        let place = |i: usize| if swap && i < 2 { 1 - i } else { i };
        let mut dims = Dims::from_elem(1, tensors.len());
        for (i, t) in tensors.iter().enumerate() {
            dims[place(i)] = t.numel();
        }
        let shape = Shape::from(dims);
        tensors
            .iter()
            .enumerate()
            .map(|(i, t)| {
                let mut own = Dims::from_elem(1, tensors.len());
                own[place(i)] = t.numel();
                t.view(Shape::from(own))?.expand(&shape)
            })
            .collect()
    }

    /// Every combination of one element of each vector, as rows; a single vector comes back as it is
    /// (`torch.cartesian_prod`).
    ///
    /// An error for a tensor that is no vector, for none, and for vectors of different dtypes.
    ///
    /// ```
    /// # use torsh_tensor::{Tensor, tensor};
    /// let pairs = Tensor::cartesian_prod(&[tensor![1, 2], tensor![3, 4]])?;
    /// assert_eq!(pairs, tensor![[1, 3], [1, 4], [2, 3], [2, 4]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller(Self)]
    pub fn cartesian_prod<T: Borrow<Tensor>>(tensors: &[T]) -> Result<Tensor> {
        not_empty("cartesian_prod", tensors)?;
        let tensors = refs(tensors);
        if let Some(t) = tensors.iter().find(|t| t.ndim() != 1) {
            return Err(TorshError::shape(
                "cartesian_prod",
                format!("Expect a 1D vector, but got {}", t.describe()),
            ));
        }
        if tensors.len() == 1 {
            return Ok(tensors[0].clone());
        }
        let columns = Tensor::meshgrid(&tensors, "ij")?
            .iter()
            .map(Tensor::ravel)
            .collect::<Result<Vec<_>>>()?;
        Tensor::stack(&columns, 1)
    }

    /// The tensor repeated along each dimension (`Tensor.repeat`); counts beyond its rank add leading
    /// dimensions.
    ///
    /// Keeps the dtype. An error for fewer counts than dimensions, or a negative one.
    ///
    /// ```
    /// use torsh_tensor::Tensor;
    /// let x = Tensor::from_data(&[1, 2], &[2])?;
    /// assert_eq!(x.repeat((2, 2))?.to_vec::<i32>()?, [1, 2, 1, 2, 1, 2, 1, 2]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn repeat(&self, repeats: impl IntoShape) -> Result<Tensor> {
        let repeats = self.named("repeat", repeats.shape())?;
        if repeats.ndim() < self.ndim() {
            let e = TorshError::invalid(
                "",
                format!(
                    "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor: {} and {}",
                    repeats.ndim(),
                    self.ndim()
                ),
            );
            return self.named("repeat", Err(e));
        }
        let lead = repeats.ndim() - self.ndim();
        // Each repeated dimension becomes two: the count, expanded, and the size.
        let (mut apart, mut wide, mut whole) = (Dims::new(), Dims::new(), Dims::new());
        for (d, &r) in repeats.iter().enumerate() {
            let n = if d < lead { 1 } else { self.dims()[d - lead] };
            if r != 1 {
                apart.push(1);
                wide.push(r);
            }
            apart.push(n);
            wide.push(n);
            whole.push(
                n.checked_mul(r)
                    .ok_or_else(|| TorshError::invalid("repeat", "the sizes overflow"))?,
            );
        }
        self.reshape(Shape::from(apart))?
            .expand(Shape::from(wide))?
            .copy()?
            .reshape(Shape::from(whole))
    }

    /// [`Tensor::repeat`], where counts may be fewer than dimensions: they are those of the last ones
    /// (`torch.tile`).
    ///
    /// Keeps the dtype. An error for a negative count.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1, 2]].tile([2])?, tensor![[1, 2, 1, 2]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn tile(&self, dims: impl IntoShape) -> Result<Tensor> {
        let mut repeats = dims.sizes();
        while repeats.len() < self.ndim() {
            repeats.insert(0, 1);
        }
        self.repeat(&repeats[..]).map_err(|e| e.renamed("tile"))
    }
}
