//! More views: other spellings of `reshape` and `permute`.

use smallvec::SmallVec;
use torsh_core::{Dims, Result, Shape, TorshError};

use crate::attrs;
use crate::call::{Arg, call1};
use crate::record::{OpRecord, sample};
use crate::{IntoDim, IntoDims, IntoShape, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[
    &EXPAND_AS,
    &VIEW_AS,
    &VIEW_DTYPE,
    &RESHAPE_AS,
    &FLATTEN,
    &UNFLATTEN,
    &RAVEL,
    &T,
    &MOVEDIM,
    &ADJOINT,
    &NARROW,
    &NARROW_TENSOR,
    &ATLEAST_1D,
    &ATLEAST_2D,
    &ATLEAST_3D,
    &ATLEAST_1D_LIST,
    &ATLEAST_2D_LIST,
    &ATLEAST_3D_LIST,
];

#[torsh_tensor::by_name(Tensor::expand_as)]
pub static EXPAND_AS: OpRecord = OpRecord::new(
    "expand_as",
    "A view expanded to another tensor's shape.",
    "(Tensor input, Tensor other)",
)
.samples(|s| Ok(vec![sample![s.real(&[3, 1])?, s.bools(&[3, 2])?]]));

#[torsh_tensor::by_name(Tensor::view_as)]
pub static VIEW_AS: OpRecord = OpRecord::new(
    "view_as",
    "A view of another tensor's shape.",
    "(Tensor input, Tensor other)",
)
.samples(|s| Ok(vec![sample![s.real(&[3, 2])?, s.bools(&[2, 3])?]]));

pub static VIEW_DTYPE: OpRecord = OpRecord::new(
    "view.dtype",
    "The same memory read as elements of another dtype.",
    "(Tensor input, ScalarType dtype)",
)
.overload()
.view_as(|c| {
    let to = c.attrs::<attrs::ViewDtype>()?.dtype;
    let (from, size) = (c.dtype.size(), to.size());
    let mut l = c.layout.clone();
    if from == size {
        return Ok((l, to));
    }
    let Some(last) = l.shape.ndim().checked_sub(1) else {
        return Err(TorshError::shape("", format!("self.dim() cannot be 0 to view {} as {to} (different element sizes)", c.dtype)));
    };
    if l.strides[last] != 1 {
        return Err(TorshError::shape("", format!("self.stride(-1) must be 1 to view {} as {to} (different element sizes)", c.dtype))
            .with_hint("call contiguous() first"));
    }
    let mut dims = Dims::from_slice(&l.shape);
    if from > size {
        let r = from / size;
        dims[last] *= r;
        l.offset *= r;
        for s in &mut l.strides[..last] {
            *s *= r as isize;
        }
    } else {
        let r = size / from;
        if !dims[last].is_multiple_of(r) || !l.offset.is_multiple_of(r) || l.strides[..last].iter().any(|s| s % r as isize != 0) {
            return Err(TorshError::shape(
                "",
                format!("size, offset and strides must be divisible by {r} to view {} as {to} (different element sizes)", c.dtype),
            ));
        }
        dims[last] /= r;
        l.offset /= r;
        for s in &mut l.strides[..last] {
            *s /= r as isize;
        }
    }
    l.shape = dims.into();
    Ok((l, to))
})
.constant()
.by_name(|b| b.tensor(0)?.view_dtype(b.dtype(1).unwrap_or(torsh_core::DType::F32)).map(Value::Tensor));

#[torsh_tensor::by_name(Tensor::reshape_as)]
pub static RESHAPE_AS: OpRecord = OpRecord::new(
    "reshape_as",
    "The elements in another tensor's shape.",
    "(Tensor input, Tensor other)",
)
.samples(|s| Ok(vec![sample![s.real(&[3, 2])?, s.bools(&[2, 3])?]]));

#[torsh_tensor::by_name(Tensor::flatten_dims)]
pub static FLATTEN: OpRecord = OpRecord::new(
    "flatten",
    "The dimensions from start_dim to end_dim (included) made one.",
    "(Tensor input, int start_dim=0, int end_dim=-1)",
)
.samples(|s| {
    let x = s.real(&[2, 3, 2])?;
    Ok(vec![sample![x.clone()], sample![x, 1]])
});

#[torsh_tensor::by_name(Tensor::unflatten)]
pub static UNFLATTEN: OpRecord = OpRecord::new(
    "unflatten",
    "One dimension made several of the given sizes; one may be -1.",
    "(Tensor input, int dim, int[] sizes)",
)
.samples(|s| Ok(vec![sample![s.real(&[2, 6])?, 1, [2, -1]]]));

#[torsh_tensor::by_name(Tensor::ravel)]
pub static RAVEL: OpRecord = OpRecord::new(
    "ravel",
    "The elements in one dimension; a view where the layout allows it.",
    "(Tensor input)",
)
.samples(|s| Ok(vec![sample![s.real(&[2, 3])?]]));

#[torsh_tensor::by_name(Tensor::t)]
pub static T: OpRecord = OpRecord::new(
    "t",
    "The transpose of a matrix; a vector or 0-d tensor as it is.",
    "(Tensor input)",
)
.samples(|s| Ok(vec![sample![s.real(&[2, 3])?]]));

#[torsh_tensor::by_name(Tensor::movedim)]
pub static MOVEDIM: OpRecord = OpRecord::new(
    "movedim",
    "A view with some dimensions moved to other places; the others keep their order.",
    "(Tensor input, int[1] source, int[1] destination)",
)
.samples(|s| Ok(vec![sample![s.real(&[2, 3, 4])?, 0, -1]]));

#[torsh_tensor::by_name(Tensor::adjoint)]
pub static ADJOINT: OpRecord = OpRecord::new(
    "adjoint",
    "The conjugate of the tensor with its last two dimensions swapped.",
    "(Tensor input)",
)
.samples(|s| Ok(vec![sample![s.complex(&[2, 3])?]]));

#[torsh_tensor::by_name(Tensor::narrow)]
pub static NARROW: OpRecord = OpRecord::new(
    "narrow",
    "A view of `length` indices of a dimension from `start` on.",
    "(Tensor input, int dim, int start, int length)",
)
.samples(|s| Ok(vec![sample![s.real(&[2, 5])?, 1, -3, 2]]));

pub static NARROW_TENSOR: OpRecord = OpRecord::new(
    "narrow.Tensor",
    "A view of `length` indices of a dimension; a 0-d integer tensor holds the first.",
    "(Tensor input, int dim, Tensor start, int length)",
)
.overload()
.by_name(|b| {
    let start = b.tensor(2)?;
    if start.ndim() != 0 || !start.dtype().is_integer() {
        return Err(TorshError::invalid(
            "narrow",
            format!(
                "start must be an 0-dim integral Tensor, got {}",
                start.describe()
            ),
        ));
    }
    b.tensor(0)?
        .narrow(b.int(1), start.item::<i64>()?, b.int(3))
        .map(Value::Tensor)
});

macro_rules! atleast {
    ($($one:ident $list:ident $name:literal $n:literal),*) => {$(
        #[doc = concat!("At least ", $n, " dimension(s).")]
        #[torsh_tensor::by_name(Tensor::atleast(input, $n))]
        pub static $one: OpRecord =
            OpRecord::new($name, concat!("A view with at least ", $n, " dimension(s)."), "(Tensor input)")
                .samples(|s| Ok(vec![sample![s.real(&[])?], sample![s.real(&[2])?]]));
        #[doc = concat!("Each tensor with at least ", $n, " dimension(s).")]
        pub static $list: OpRecord = OpRecord::new(
            concat!($name, ".Sequence"),
            concat!("Views with at least ", $n, " dimension(s) of each tensor."),
            "(Tensor[1] tensors)",
        )
        .overload()
        .by_name(|b| {
            b.tensors(0).iter().map(|t| t.atleast($n).map(Value::Tensor)).collect::<Result<Vec<_>>>().map(Value::Tuple)
        });
    )*};
}
atleast!(ATLEAST_1D ATLEAST_1D_LIST "atleast_1d" 1, ATLEAST_2D ATLEAST_2D_LIST "atleast_2d" 2, ATLEAST_3D ATLEAST_3D_LIST "atleast_3d" 3);

#[torsh_tensor::functions]
impl Tensor {
    /// A view expanded to another tensor's shape (`Tensor.expand_as`).
    ///
    /// The dtype stays that of this tensor. An error where the shape does not broadcast to that of
    /// `other`.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1].expand_as(&tensor![0, 0])?, tensor![1, 1]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn expand_as(&self, other: &Tensor) -> Result<Tensor> {
        self.expand(other.shape())
    }

    /// A view of another tensor's shape; an error where that needs a copy, or where the number of
    /// elements differs (`Tensor.view_as`).
    ///
    /// The dtype stays that of this tensor.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1, 2].view_as(&tensor![[0], [0]])?, tensor![[1], [2]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn view_as(&self, other: &Tensor) -> Result<Tensor> {
        self.view(other.shape())
    }

    /// The same memory read as elements of another dtype (`Tensor.view(dtype)`); where the sizes
    /// differ, the last dimension grows or shrinks. As a bool, any byte but 0 is true.
    ///
    /// ```
    /// # use torsh_tensor::{DType, tensor};
    /// // The bits of 1.0.
    /// assert_eq!(tensor![1.0].view_dtype(DType::I32)?.item::<i32>()?, 0x3f80_0000);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Where the sizes differ: for 0-d tensors, a stride of the last dimension other than 1, and
    /// sizes, strides or an offset that the new size does not divide. For memory that does not begin
    /// where elements of the dtype may, as part of a mapped file.
    #[torsh_tensor::names_caller]
    pub fn view_dtype(&self, dtype: torsh_core::DType) -> Result<Tensor> {
        if dtype == self.dtype() {
            return Ok(self.clone());
        }
        call1(&VIEW_DTYPE, &[Arg::T(self)], &attrs::ViewDtype { dtype })
    }

    /// The elements in another tensor's shape (`Tensor.reshape_as`).
    ///
    /// A view where the layout allows it; the dtype stays that of this tensor. An error where the
    /// number of elements differs.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1, 2], [3, 4]].t()?.reshape_as(&tensor![0, 0, 0, 0])?, tensor![1, 3, 2, 4]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn reshape_as(&self, other: &Tensor) -> Result<Tensor> {
        self.reshape(other.shape())
    }

    /// Dimensions `start_dim` and after as one (`torch.flatten`).
    ///
    /// A view where the layout allows it; a 0-d tensor becomes a vector. An error for a dimension out
    /// of range.
    ///
    /// ```
    /// use torsh_tensor::Tensor;
    /// let x = Tensor::from_data(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2, 1])?;
    /// assert_eq!(x.flatten(0)?.dims(), [4]);
    /// assert_eq!(x.flatten(1)?.dims(), [2, 2]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn flatten(&self, start_dim: impl IntoDim) -> Result<Tensor> {
        self.flatten_dims(start_dim, -1)
    }

    /// The dimensions from `start_dim` to `end_dim`, both included, made one. A dimension out of
    /// range, or `end_dim` before `start_dim`, is an error.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[[1, 2], [3, 4]]];
    /// assert_eq!(x.flatten_dims(0, 1)?, tensor![[1, 2], [3, 4]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn flatten_dims(&self, start_dim: impl IntoDim, end_dim: impl IntoDim) -> Result<Tensor> {
        let (a, b) = (
            self.dim("flatten", start_dim.value())?,
            self.dim("flatten", end_dim.value())?,
        );
        if a > b {
            let e = TorshError::invalid(
                "",
                format!("flatten() has invalid args: start_dim {a} cannot come after end_dim {b}"),
            );
            return self.named("flatten", Err(e));
        }
        if self.ndim() == 0 {
            return self.reshape(1);
        }
        if a == b {
            return Ok(self.clone());
        }
        let d = self.dims();
        let mut to = Dims::from_slice(&d[..a]);
        // Of a sparse tensor more than a size can count, which `reshape` refuses.
        to.push(Shape::new(&d[a..=b]).numel());
        to.extend_from_slice(&d[b + 1..]);
        self.reshape(Shape::from(to))
    }

    /// Dimension `dim` made several of these sizes, one of which may be `-1` (`torch.unflatten`).
    ///
    /// A view where the layout allows it. An error where the sizes do not multiply to that of the
    /// dimension.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1, 2, 3, 4].unflatten(0, [2, -1])?, tensor![[1, 2], [3, 4]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn unflatten(&self, dim: impl IntoDim, sizes: impl IntoShape) -> Result<Tensor> {
        let sizes = sizes.sizes();
        if self.ndim() == 0 {
            return self.named(
                "unflatten",
                Err(TorshError::index(
                    "",
                    "a 0-d tensor has no dimension to unflatten",
                )),
            );
        }
        let d = self.dim("unflatten", dim.value())?;
        if sizes.is_empty() {
            return self.named(
                "unflatten",
                Err(TorshError::invalid("", "sizes must be non-empty")),
            );
        }
        let n = self.dims()[d] as i64;
        let known = sizes
            .iter()
            .filter(|&&s| s != -1)
            .try_fold(1i64, |a, &b| a.checked_mul(b));
        let unknown = sizes.iter().filter(|&&s| s == -1).count();
        let fits = match (known, unknown) {
            (Some(k), 0) => k == n,
            (Some(k), 1) => k > 0 && n % k == 0,
            _ => false,
        };
        if !fits || sizes.iter().any(|&s| s < -1) {
            let e = TorshError::shape(
                "",
                format!(
                    "Provided sizes {sizes:?} don't multiply up to the size of dim {d} ({n}) in the input tensor"
                ),
            );
            return self.named("unflatten", Err(e));
        }
        let own = |range: &[usize]| {
            range
                .iter()
                .map(|&v| v as i64)
                .collect::<SmallVec<[i64; 6]>>()
        };
        let mut to = own(&self.dims()[..d]);
        to.extend(
            sizes
                .iter()
                .map(|&s| if s == -1 { n / known.unwrap_or(1) } else { s }),
        );
        to.extend(own(&self.dims()[d + 1..]));
        self.view(&to[..])
    }

    /// The elements in one dimension; a view where the layout allows it (`torch.ravel`).
    ///
    /// Any shape and dtype.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1, 2], [3, 4]].ravel()?, tensor![1, 2, 3, 4]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn ravel(&self) -> Result<Tensor> {
        self.reshape(-1)
    }

    /// The transpose of a matrix; a vector or 0-d tensor as it is (`torch.t`).
    ///
    /// A view. An error for more than two dimensions.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1, 2, 3]].t()?, tensor![[1], [2], [3]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn t(&self) -> Result<Tensor> {
        match self.ndim() {
            0 | 1 => Ok(self.clone()),
            2 => call1(
                &super::shape::TRANSPOSE,
                &[Arg::T(self)],
                &attrs::Transpose { dim0: 0, dim1: 1 },
            ),
            n => self.named(
                "t",
                Err(TorshError::shape(
                    "",
                    format!("t() expects a tensor with <= 2 dimensions, but self is {n}D"),
                )
                .with_hint("transpose(-2, -1) swaps the last two dimensions")),
            ),
        }
    }

    /// The last two dimensions swapped, and complex numbers conjugated (`torch.adjoint`).
    ///
    /// `[.., m, n]` gives `[.., n, m]` of the same dtype, for a real tensor as a view. An error for a
    /// vector.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1, 2], [3, 4]].adjoint()?, tensor![[1, 3], [2, 4]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn adjoint(&self) -> Result<Tensor> {
        if self.ndim() < 2 {
            let e = TorshError::shape(
                "",
                format!(
                    "tensor.adjoint() is only supported on matrices or batches of matrices. Got {}-D tensor.",
                    self.ndim()
                ),
            );
            return self.named("adjoint", Err(e));
        }
        self.transpose(-2, -1)?.conj()
    }

    /// A view with the dimensions `source` moved to `destination`; the others keep their order
    /// (`torch.movedim`).
    ///
    /// An error where the two lists differ in length, repeat a dimension, or name one out of range.
    ///
    /// ```
    /// use torsh_tensor::{DType, Device, Tensor};
    /// let x = Tensor::zeros(&[2, 3, 4], DType::F32, Device::Cpu)?;
    /// assert_eq!(x.movedim(0, -1)?.dims(), [3, 4, 2]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn movedim(&self, source: impl IntoDims, destination: impl IntoDims) -> Result<Tensor> {
        let (from, to) = (
            source.dims().unwrap_or_default(),
            destination.dims().unwrap_or_default(),
        );
        let order = self.named("movedim", self.moved(&from, &to))?;
        self.permute(&order[..])
    }

    fn moved(&self, from: &[i64], to: &[i64]) -> Result<SmallVec<[i64; 6]>> {
        if from.len() != to.len() {
            return Err(TorshError::invalid(
                "",
                format!(
                    "Invalid source or destination dims: source ({from:?} dims) should contain the same number of dims as destination ({to:?} dims)"
                ),
            ));
        }
        let n = self.ndim();
        let mut order: SmallVec<[i64; 6]> = SmallVec::from_elem(-1, n);
        let mut taken: SmallVec<[bool; 6]> = SmallVec::from_elem(false, n);
        let wrap = |list: &[i64]| {
            list.iter()
                .map(|&d| self.shape().dim(d))
                .collect::<Result<SmallVec<[usize; 6]>>>()
        };
        let (source, destination) = (wrap(from)?, wrap(to)?);
        if n == 0 {
            return Ok(order);
        }
        for (&s, &d) in source.iter().zip(&destination) {
            if taken[s] {
                return Err(TorshError::invalid(
                    "",
                    format!("repeated dim in `source` ({from:?})"),
                ));
            }
            if order[d] != -1 {
                return Err(TorshError::invalid(
                    "",
                    format!("repeated dim in `destination` ({to:?})"),
                ));
            }
            taken[s] = true;
            order[d] = s as i64;
        }
        let mut rest = (0..n).filter(|&d| !taken[d]);
        for slot in order.iter_mut().filter(|s| **s == -1) {
            *slot = rest.next().map_or(0, |d| d as i64);
        }
        Ok(order)
    }

    fn atleast(&self, n: usize) -> Result<Tensor> {
        if self.ndim() >= n {
            return Ok(self.clone());
        }
        match (n, self.ndim()) {
            (3, 1) => self.unsqueeze(0)?.unsqueeze(-1),
            (3, 2) => self.unsqueeze(-1),
            (2, 1) => self.unsqueeze(0),
            _ => self.reshape(vec![1usize; n]),
        }
    }

    /// A 0-d tensor with one dimension, others as they are (`torch.atleast_1d`).
    ///
    /// A view; any dtype.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1, 2].sum()?.atleast_1d()?, tensor![3]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn atleast_1d(&self) -> Result<Tensor> {
        self.atleast(1)
    }

    /// The tensor with at least two dimensions; a vector becomes a row (`torch.atleast_2d`).
    ///
    /// A view; any dtype.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1, 2].atleast_2d()?, tensor![[1, 2]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn atleast_2d(&self) -> Result<Tensor> {
        self.atleast(2)
    }

    /// The tensor with at least three dimensions; a vector becomes `[1, n, 1]`, a matrix `[n, m, 1]`
    /// (`torch.atleast_3d`).
    ///
    /// A view; any dtype.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1, 2].atleast_3d()?, tensor![[[1], [2]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn atleast_3d(&self) -> Result<Tensor> {
        self.atleast(3)
    }
}
