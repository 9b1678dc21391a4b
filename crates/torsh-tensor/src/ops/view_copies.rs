//! Copies of views, and copies of tensors with something in place of a view.

use torsh_core::{Result, TorshError};

use crate::record::{OpRecord, Sample};
use crate::schema::Bound;
use crate::{DiagonalOptions, IntoDim, IntoDims, IntoShape, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[
    &ALIAS_COPY,
    &AS_STRIDED_COPY,
    &DETACH_COPY,
    &DIAGONAL_COPY,
    &EXPAND_COPY,
    &NARROW_COPY,
    &PERMUTE_COPY,
    &SELECT_COPY,
    &SLICE_COPY,
    &SQUEEZE_COPY,
    &T_COPY,
    &TRANSPOSE_COPY,
    &UNFOLD_COPY,
    &UNSQUEEZE_COPY,
    &VIEW_COPY,
    &VIEW_AS_COMPLEX_COPY,
    &VIEW_AS_REAL_COPY,
    &SPLIT_COPY,
    &SPLIT_WITH_SIZES_COPY,
    &UNBIND_COPY,
    &UNSAFE_CHUNK,
    &UNSAFE_SPLIT,
    &UNSAFE_SPLIT_WITH_SIZES,
    &SELECT_SCATTER,
    &SLICE_SCATTER,
    &DIAGONAL_SCATTER,
    &AS_STRIDED_SCATTER,
];

/// A view as a row-major tensor of its own.
#[track_caller]
fn fresh(view: Result<Tensor>) -> Result<Tensor> {
    let view = view?;
    match view.is_contiguous()? {
        true => view.copy(),
        false => view.contiguous(),
    }
}

/// A copy of `x` in which a view holds `src`.
#[track_caller]
fn scattered(
    op: &'static str,
    x: &Tensor,
    src: &Tensor,
    view: impl FnOnce(&Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    // Row-major, so that windows of memory are those of the elements in order.
    let y = fresh(Ok(x.clone()))?;
    let part = view(&y).map_err(|e| e.renamed(op))?;
    if part.dims() != src.dims() {
        let text = format!(
            "expected src to have a size equal to the slice of self. src size = {:?}, slice size = {:?}",
            src.dims(),
            part.dims()
        );
        return x.named(op, Err(TorshError::shape("", text)));
    }
    part.copy_(src).map_err(|e| e.renamed(op))?;
    Ok(y)
}

/// The range that a call by name has from parameter `i` on: dimension, start, end and step.
fn stepped(x: &Tensor, b: &Bound, i: usize) -> Result<Tensor> {
    x.slice_step(b.int(i), b.opt_int(i + 1), b.opt_int(i + 2), b.int(i + 3))
}

fn diagonal(b: &Bound, i: usize) -> DiagonalOptions {
    DiagonalOptions::new()
        .offset(b.int(i))
        .dim1(b.int(i + 1))
        .dim2(b.int(i + 2))
}

impl Tensor {
    /// A copy of what [`Tensor::clone`] is a view of, row-major. It shares no memory with this tensor; an error
    /// where the view is one.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1, 2].alias_copy()?, tensor![1, 2]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn alias_copy(&self) -> Result<Tensor> {
        fresh(Ok(self.clone()))
    }

    /// A copy of what [`Tensor::as_strided`] is a view of, row-major. It shares no memory with this tensor; an
    /// error where the view is one.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1, 2, 3, 4].as_strided_copy([2, 2], [1, 1])?, tensor![[1, 2], [2, 3]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn as_strided_copy(&self, size: impl IntoShape, stride: impl IntoShape) -> Result<Tensor> {
        fresh(self.as_strided(size, stride))
    }

    /// A copy of what [`Tensor::detach`] is a view of, row-major. It shares no memory with this tensor; an
    /// error where the view is one.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1.0, 2.0].requires_grad_(true);
    /// assert!(!x.detach_copy()?.requires_grad());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn detach_copy(&self) -> Result<Tensor> {
        fresh(Ok(self.detach()))
    }

    /// A copy of what [`Tensor::diagonal_with`] is a view of, row-major. It shares no memory with this tensor;
    /// an error where the view is one.
    ///
    /// ```
    /// # use torsh_tensor::{DiagonalOptions, tensor};
    /// let x = tensor![[1, 2], [3, 4]];
    /// assert_eq!(x.diagonal_copy(DiagonalOptions::new())?, tensor![1, 4]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn diagonal_copy(&self, options: DiagonalOptions) -> Result<Tensor> {
        fresh(self.diagonal_with(options))
    }

    /// A copy of what [`Tensor::expand`] is a view of, row-major. It shares no memory with this tensor; an
    /// error where the view is one.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1], [2]].expand_copy([2, 2])?, tensor![[1, 1], [2, 2]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn expand_copy(&self, shape: impl IntoShape) -> Result<Tensor> {
        fresh(self.expand(shape))
    }

    /// A copy of what [`Tensor::narrow`] is a view of, row-major. It shares no memory with this tensor; an
    /// error where the view is one.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1, 2, 3].narrow_copy(0, 1, 2)?, tensor![2, 3]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn narrow_copy(
        &self,
        dim: impl IntoDim,
        start: impl IntoDim,
        length: impl IntoDim,
    ) -> Result<Tensor> {
        fresh(self.narrow(dim, start, length))
    }

    /// A copy of what [`Tensor::permute`] is a view of, row-major. It shares no memory with this tensor; an
    /// error where the view is one.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1, 2], [3, 4]].permute_copy([1, 0])?, tensor![[1, 3], [2, 4]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn permute_copy(&self, dims: impl IntoDims) -> Result<Tensor> {
        fresh(self.permute(dims))
    }

    /// A copy of what [`Tensor::select`] is a view of, row-major. It shares no memory with this tensor; an
    /// error where the view is one.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1, 2], [3, 4]].select_copy(0, 1)?, tensor![3, 4]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn select_copy(&self, dim: impl IntoDim, index: impl IntoDim) -> Result<Tensor> {
        fresh(self.select(dim, index))
    }

    /// A copy of what [`Tensor::slice`] is a view of, row-major. It shares no memory with this tensor; an error
    /// where the view is one.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1, 2, 3].slice_copy(0, 1, 3)?, tensor![2, 3]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn slice_copy(
        &self,
        dim: impl IntoDim,
        start: impl IntoDim,
        end: impl IntoDim,
    ) -> Result<Tensor> {
        fresh(self.slice(dim, start, end))
    }

    /// A copy of what [`Tensor::squeeze`] is a view of, row-major. It shares no memory with this tensor; an
    /// error where the view is one.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1, 2]].squeeze_copy(0)?, tensor![1, 2]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn squeeze_copy(&self, dim: impl IntoDims) -> Result<Tensor> {
        fresh(self.squeeze(dim))
    }

    /// A copy of what [`Tensor::t`] is a view of, row-major. It shares no memory with this tensor; an error
    /// where the view is one.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1, 2], [3, 4]].t_copy()?, tensor![[1, 3], [2, 4]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn t_copy(&self) -> Result<Tensor> {
        fresh(self.t())
    }

    /// A copy of what [`Tensor::transpose`] is a view of, row-major. It shares no memory with this tensor; an
    /// error where the view is one.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1, 2], [3, 4]].transpose_copy(0, 1)?, tensor![[1, 3], [2, 4]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn transpose_copy(&self, dim0: impl IntoDim, dim1: impl IntoDim) -> Result<Tensor> {
        fresh(self.transpose(dim0, dim1))
    }

    /// A copy of what [`Tensor::unfold`] is a view of, row-major. It shares no memory with this tensor; an
    /// error where the view is one.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1, 2, 3].unfold_copy(0, 2, 1)?, tensor![[1, 2], [2, 3]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn unfold_copy(
        &self,
        dimension: impl IntoDim,
        size: impl IntoDim,
        step: impl IntoDim,
    ) -> Result<Tensor> {
        fresh(self.unfold(dimension, size, step))
    }

    /// A copy of what [`Tensor::unsqueeze`] is a view of, row-major. It shares no memory with this tensor; an
    /// error where the view is one.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1, 2].unsqueeze_copy(0)?, tensor![[1, 2]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn unsqueeze_copy(&self, dim: impl IntoDim) -> Result<Tensor> {
        fresh(self.unsqueeze(dim))
    }

    /// A copy of what [`Tensor::view`] is a view of, row-major. It shares no memory with this tensor; an error
    /// where the view is one.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1, 2, 3, 4].view_copy([2, 2])?, tensor![[1, 2], [3, 4]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn view_copy(&self, shape: impl IntoShape) -> Result<Tensor> {
        fresh(self.view(shape))
    }

    /// A copy of what [`Tensor::view_as_complex`] is a view of, row-major. It shares no memory with this
    /// tensor; an error where the view is one.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[3.0, 4.0]].view_as_complex_copy()?.abs()?, tensor![5.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn view_as_complex_copy(&self) -> Result<Tensor> {
        fresh(self.view_as_complex())
    }

    /// A copy of what [`Tensor::view_as_real`] is a view of, row-major. It shares no memory with this tensor;
    /// an error where the view is one.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let z = tensor![[3.0, 4.0]].view_as_complex()?;
    /// assert_eq!(z.view_as_real_copy()?, tensor![[3.0, 4.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn view_as_real_copy(&self) -> Result<Tensor> {
        fresh(self.view_as_real())
    }

    /// A copy of what [`Tensor::split`] is a view of, row-major. It shares no memory with this tensor; an error
    /// where the view is one.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1, 2, 3].split_copy(2, 0)?, [tensor![1, 2], tensor![3]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn split_copy(&self, split_size: impl IntoDim, dim: impl IntoDim) -> Result<Vec<Tensor>> {
        self.split(split_size, dim)?
            .into_iter()
            .map(|t| fresh(Ok(t)))
            .collect()
    }

    /// A copy of what [`Tensor::split_with_sizes`] is a view of, row-major. It shares no memory with this
    /// tensor; an error where the view is one.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1, 2, 3].split_with_sizes_copy([1, 2], 0)?, [tensor![1], tensor![2, 3]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn split_with_sizes_copy(
        &self,
        sizes: impl IntoShape,
        dim: impl IntoDim,
    ) -> Result<Vec<Tensor>> {
        self.split_with_sizes(sizes, dim)?
            .into_iter()
            .map(|t| fresh(Ok(t)))
            .collect()
    }

    /// A copy of what [`Tensor::unbind`] is a view of, row-major. It shares no memory with this tensor; an
    /// error where the view is one.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1, 2], [3, 4]].unbind_copy(0)?, [tensor![1, 2], tensor![3, 4]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn unbind_copy(&self, dim: impl IntoDim) -> Result<Vec<Tensor>> {
        self.unbind(dim)?
            .into_iter()
            .map(|t| fresh(Ok(t)))
            .collect()
    }

    /// The same as [`Tensor::chunk`]. PyTorch's own may be written to in place where parts of one tensor may
    /// not; here they follow the rules of views.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1, 2, 3].unsafe_chunk(2, 0)?, [tensor![1, 2], tensor![3]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn unsafe_chunk(&self, chunks: impl IntoDim, dim: impl IntoDim) -> Result<Vec<Tensor>> {
        self.chunk(chunks, dim)
            .map_err(|e| e.renamed("unsafe_chunk"))
    }

    /// The same as [`Tensor::split`]. PyTorch's own may be written to in place where parts of one tensor may
    /// not; here they follow the rules of views.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1, 2, 3].unsafe_split(2, 0)?, [tensor![1, 2], tensor![3]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn unsafe_split(&self, split_size: impl IntoDim, dim: impl IntoDim) -> Result<Vec<Tensor>> {
        self.split(split_size, dim)
            .map_err(|e| e.renamed("unsafe_split"))
    }

    /// The same as [`Tensor::split_with_sizes`]. PyTorch's own may be written to in place where parts of one
    /// tensor may not; here they follow the rules of views.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1, 2, 3].unsafe_split_with_sizes([1, 2], 0)?, [tensor![1], tensor![2, 3]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn unsafe_split_with_sizes(
        &self,
        sizes: impl IntoShape,
        dim: impl IntoDim,
    ) -> Result<Vec<Tensor>> {
        self.split_with_sizes(sizes, dim)
            .map_err(|e| e.renamed("unsafe_split_with_sizes"))
    }

    /// A copy of this tensor with `src` in place of one index of a dimension. `src` has the shape without that
    /// dimension. Every dtype; an error for another shape, and for an index out of range.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[0, 0], [0, 0]];
    /// assert_eq!(x.select_scatter(&tensor![1, 2], 0, 1)?, tensor![[0, 0], [1, 2]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn select_scatter(
        &self,
        src: &Tensor,
        dim: impl IntoDim,
        index: impl IntoDim,
    ) -> Result<Tensor> {
        scattered("select_scatter", self, src, |x| x.select(dim, index))
    }

    /// A copy of this tensor with `src` in place of a range of a dimension. `src` has the shape of the slice.
    /// Every dtype; an error for another shape.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![0, 0, 0];
    /// assert_eq!(x.slice_scatter(&tensor![1, 2], 0, 1, 3)?, tensor![0, 1, 2]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn slice_scatter(
        &self,
        src: &Tensor,
        dim: impl IntoDim,
        start: impl IntoDim,
        end: impl IntoDim,
    ) -> Result<Tensor> {
        scattered("slice_scatter", self, src, |x| x.slice(dim, start, end))
    }

    /// A copy of this tensor with `src` in place of a diagonal. `src` has the shape of the diagonal. Every
    /// dtype; an error for another shape.
    ///
    /// ```
    /// # use torsh_tensor::{DiagonalOptions, tensor};
    /// let x = tensor![[0, 0], [0, 0]];
    /// let y = x.diagonal_scatter(&tensor![1, 2], DiagonalOptions::new())?;
    /// assert_eq!(y, tensor![[1, 0], [0, 2]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn diagonal_scatter(&self, src: &Tensor, options: DiagonalOptions) -> Result<Tensor> {
        scattered("diagonal_scatter", self, src, |x| x.diagonal_with(options))
    }

    /// A copy of this tensor with `src` in place of a window of its memory. `src` has the shape of the window.
    /// Every dtype; an error for another shape, and for a window beyond the memory.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![0, 0, 0, 0];
    /// assert_eq!(x.as_strided_scatter(&tensor![1, 2], &[2], &[2], 1)?, tensor![0, 1, 0, 2]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn as_strided_scatter(
        &self,
        src: &Tensor,
        size: &[i64],
        stride: &[i64],
        storage_offset: i64,
    ) -> Result<Tensor> {
        scattered("as_strided_scatter", self, src, |x| {
            x.as_strided_at(size, stride, storage_offset)
        })
    }
}

/// `torch.alias_copy`.
pub static ALIAS_COPY: OpRecord = OpRecord::new(
    "alias_copy",
    "A copy of what the op without copy is a view of",
    "(Tensor input)",
)
.by_name(|b| b.tensor(0)?.alias_copy().map(Value::Tensor))
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([x.into()])])
});

/// `torch.as_strided_copy`.
pub static AS_STRIDED_COPY: OpRecord = OpRecord::new(
    "as_strided_copy",
    "A copy of what the op without copy is a view of",
    "(Tensor input, int[] size, int[] stride, int? storage_offset=None)",
)
.by_name(|b| {
    let x = b.tensor(0)?;
    let at = b.opt_int(3).unwrap_or(x.storage_offset() as i64);
    fresh(x.as_strided_at(&b.ints(1), &b.ints(2), at)).map(Value::Tensor)
})
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([
        x.into(),
        vec![2i64, 2i64].into(),
        vec![1i64, 1i64].into(),
    ])])
});

/// `torch.detach_copy`.
pub static DETACH_COPY: OpRecord = OpRecord::new(
    "detach_copy",
    "A copy of what the op without copy is a view of",
    "(Tensor input)",
)
.constant()
.by_name(|b| b.tensor(0)?.detach_copy().map(Value::Tensor));

/// `torch.diagonal_copy`.
pub static DIAGONAL_COPY: OpRecord = OpRecord::new(
    "diagonal_copy",
    "A copy of what the op without copy is a view of",
    "(Tensor input, int offset=0, int dim1=0, int dim2=1)",
)
.by_name(|b| {
    b.tensor(0)?
        .diagonal_copy(diagonal(b, 1))
        .map(Value::Tensor)
})
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([x.into()])])
});

/// `torch.expand_copy`.
pub static EXPAND_COPY: OpRecord = OpRecord::new(
    "expand_copy",
    "A copy of what the op without copy is a view of",
    "(Tensor input, int[] size, *, bool implicit=False)",
)
.by_name(|b| b.tensor(0)?.expand_copy(b.ints(1)).map(Value::Tensor))
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([x.into(), vec![2i64, 3i64, 4i64].into()])])
});

/// `torch.narrow_copy`.
pub static NARROW_COPY: OpRecord = OpRecord::new(
    "narrow_copy",
    "A copy of what the op without copy is a view of",
    "(Tensor input, int dim, int start, int length)",
)
.by_name(|b| {
    b.tensor(0)?
        .narrow_copy(b.int(1), b.int(2), b.int(3))
        .map(Value::Tensor)
})
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([
        x.into(),
        Value::Int(1),
        Value::Int(1),
        Value::Int(2),
    ])])
});

/// `torch.permute_copy`.
pub static PERMUTE_COPY: OpRecord = OpRecord::new(
    "permute_copy",
    "A copy of what the op without copy is a view of",
    "(Tensor input, int[] dims)",
)
.by_name(|b| b.tensor(0)?.permute_copy(b.ints(1)).map(Value::Tensor))
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([x.into(), vec![1i64, 0i64].into()])])
});

/// `torch.select_copy`.
pub static SELECT_COPY: OpRecord = OpRecord::new(
    "select_copy",
    "A copy of what the op without copy is a view of",
    "(Tensor input, int dim, int index)",
)
.by_name(|b| {
    b.tensor(0)?
        .select_copy(b.int(1), b.int(2))
        .map(Value::Tensor)
})
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([x.into(), Value::Int(1), Value::Int(2)])])
});

/// `torch.slice_copy`.
pub static SLICE_COPY: OpRecord = OpRecord::new(
    "slice_copy",
    "A copy of what the op without copy is a view of",
    "(Tensor input, int dim=0, int? start=None, int? end=None, int step=1)",
)
.by_name(|b| fresh(stepped(b.tensor(0)?, b, 1)).map(Value::Tensor))
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([
        x.into(),
        Value::Int(1),
        Value::Int(0),
        Value::Int(4),
        Value::Int(2),
    ])])
});

/// `torch.squeeze_copy`.
pub static SQUEEZE_COPY: OpRecord = OpRecord::new(
    "squeeze_copy",
    "A copy of what the op without copy is a view of",
    "(Tensor input, int[1]? dim=None)",
)
.by_name(|b| {
    {
        let x = b.tensor(0)?;
        match b.opt_ints(1) {
            Some(d) => x.squeeze_copy(d),
            None => x.squeeze_copy(()),
        }
    }
    .map(Value::Tensor)
})
.samples(|s| {
    let x = s.real(&[1, 4])?;
    Ok(vec![Sample::new([x.into(), Value::Int(0)])])
});

/// `torch.t_copy`.
pub static T_COPY: OpRecord = OpRecord::new(
    "t_copy",
    "A copy of what the op without copy is a view of",
    "(Tensor input)",
)
.by_name(|b| b.tensor(0)?.t_copy().map(Value::Tensor))
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([x.into()])])
});

/// `torch.transpose_copy`.
pub static TRANSPOSE_COPY: OpRecord = OpRecord::new(
    "transpose_copy",
    "A copy of what the op without copy is a view of",
    "(Tensor input, int dim0, int dim1)",
)
.by_name(|b| {
    b.tensor(0)?
        .transpose_copy(b.int(1), b.int(2))
        .map(Value::Tensor)
})
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([x.into(), Value::Int(0), Value::Int(1)])])
});

/// `torch.unfold_copy`.
pub static UNFOLD_COPY: OpRecord = OpRecord::new(
    "unfold_copy",
    "A copy of what the op without copy is a view of",
    "(Tensor input, int dimension, int size, int step)",
)
.by_name(|b| {
    b.tensor(0)?
        .unfold_copy(b.int(1), b.int(2), b.int(3))
        .map(Value::Tensor)
})
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([
        x.into(),
        Value::Int(1),
        Value::Int(2),
        Value::Int(1),
    ])])
});

/// `torch.unsqueeze_copy`.
pub static UNSQUEEZE_COPY: OpRecord = OpRecord::new(
    "unsqueeze_copy",
    "A copy of what the op without copy is a view of",
    "(Tensor input, int dim)",
)
.by_name(|b| b.tensor(0)?.unsqueeze_copy(b.int(1)).map(Value::Tensor))
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([x.into(), Value::Int(1)])])
});

/// `torch.view_copy`.
pub static VIEW_COPY: OpRecord = OpRecord::new(
    "view_copy",
    "A copy of what the op without copy is a view of",
    "(Tensor input, int[] size)",
)
.by_name(|b| b.tensor(0)?.view_copy(b.ints(1)).map(Value::Tensor))
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([x.into(), vec![4i64, 3i64].into()])])
});

/// `torch.view_as_complex_copy`.
pub static VIEW_AS_COMPLEX_COPY: OpRecord = OpRecord::new(
    "view_as_complex_copy",
    "A copy of what the op without copy is a view of",
    "(Tensor input)",
)
.by_name(|b| b.tensor(0)?.view_as_complex_copy().map(Value::Tensor))
.samples(|s| {
    let x = s.real(&[3, 2])?;
    Ok(vec![Sample::new([x.into()])])
});

/// `torch.view_as_real_copy`.
pub static VIEW_AS_REAL_COPY: OpRecord = OpRecord::new(
    "view_as_real_copy",
    "A copy of what the op without copy is a view of",
    "(Tensor input)",
)
.by_name(|b| b.tensor(0)?.view_as_real_copy().map(Value::Tensor))
.samples(|s| Ok(vec![Sample::new([s.complex(&[3])?.into()])]));

/// `torch.split_copy`.
pub static SPLIT_COPY: OpRecord = OpRecord::new(
    "split_copy",
    "A copy of what the op without copy is a view of",
    "(Tensor input, int split_size, int dim=0)",
)
.by_name(|b| b.tensor(0)?.split_copy(b.int(1), b.int(2)).map(Value::from))
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([x.into(), Value::Int(2)])])
});

/// `torch.split_with_sizes_copy`.
pub static SPLIT_WITH_SIZES_COPY: OpRecord = OpRecord::new(
    "split_with_sizes_copy",
    "A copy of what the op without copy is a view of",
    "(Tensor input, int[] split_sizes, int dim=0)",
)
.by_name(|b| {
    b.tensor(0)?
        .split_with_sizes_copy(b.ints(1), b.int(2))
        .map(Value::from)
})
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([x.into(), vec![1i64, 2i64].into()])])
});

/// `torch.unbind_copy`.
pub static UNBIND_COPY: OpRecord = OpRecord::new(
    "unbind_copy",
    "A copy of what the op without copy is a view of",
    "(Tensor input, int dim=0)",
)
.by_name(|b| b.tensor(0)?.unbind_copy(b.int(1)).map(Value::from))
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([x.into()])])
});

/// `torch.unsafe_chunk`.
pub static UNSAFE_CHUNK: OpRecord = OpRecord::new(
    "unsafe_chunk",
    "The same as chunk",
    "(Tensor input, int chunks, int dim=0)",
)
.by_name(|b| {
    b.tensor(0)?
        .unsafe_chunk(b.int(1), b.int(2))
        .map(Value::from)
})
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([x.into(), Value::Int(2)])])
});

/// `torch.unsafe_split`.
pub static UNSAFE_SPLIT: OpRecord = OpRecord::new(
    "unsafe_split",
    "The same as split",
    "(Tensor input, int split_size, int dim=0)",
)
.by_name(|b| {
    b.tensor(0)?
        .unsafe_split(b.int(1), b.int(2))
        .map(Value::from)
})
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([x.into(), Value::Int(2)])])
});

/// `torch.unsafe_split_with_sizes`.
pub static UNSAFE_SPLIT_WITH_SIZES: OpRecord = OpRecord::new(
    "unsafe_split_with_sizes",
    "The same as split_with_sizes",
    "(Tensor input, int[] split_sizes, int dim=0)",
)
.by_name(|b| {
    b.tensor(0)?
        .unsafe_split_with_sizes(b.ints(1), b.int(2))
        .map(Value::from)
})
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([x.into(), vec![1i64, 2i64].into()])])
});

/// `torch.select_scatter`.
pub static SELECT_SCATTER: OpRecord = OpRecord::new(
    "select_scatter",
    "A copy with src in place of one index of a dimension",
    "(Tensor input, Tensor src, int dim, int index)",
)
.by_name(|b| {
    b.tensor(0)?
        .select_scatter(b.tensor(1)?, b.int(2), b.int(3))
        .map(Value::Tensor)
})
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([
        x.into(),
        s.real(&[3])?.into(),
        Value::Int(1),
        Value::Int(2),
    ])])
});

/// `torch.slice_scatter`.
pub static SLICE_SCATTER: OpRecord = OpRecord::new(
    "slice_scatter",
    "A copy with src in place of a range of a dimension",
    "(Tensor input, Tensor src, int dim=0, int? start=None, int? end=None, int step=1)",
)
.by_name(|b| {
    scattered("slice_scatter", b.tensor(0)?, b.tensor(1)?, |x| {
        stepped(x, b, 2)
    })
    .map(Value::Tensor)
})
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([
        x.into(),
        s.real(&[3, 2])?.into(),
        Value::Int(1),
        Value::Int(0),
        Value::Int(4),
        Value::Int(2),
    ])])
});

/// `torch.diagonal_scatter`.
pub static DIAGONAL_SCATTER: OpRecord = OpRecord::new(
    "diagonal_scatter",
    "A copy with src in place of a diagonal",
    "(Tensor input, Tensor src, int offset=0, int dim1=0, int dim2=1)",
)
.by_name(|b| {
    b.tensor(0)?
        .diagonal_scatter(b.tensor(1)?, diagonal(b, 2))
        .map(Value::Tensor)
})
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([
        x.into(),
        s.real(&[3])?.into(),
        Value::Int(1),
    ])])
});

/// `torch.as_strided_scatter`.
pub static AS_STRIDED_SCATTER: OpRecord = OpRecord::new(
    "as_strided_scatter",
    "A copy with src in place of a window of the memory",
    "(Tensor input, Tensor src, int[] size, int[] stride, int? storage_offset=None)",
)
.by_name(|b| {
    b.tensor(0)?
        .as_strided_scatter(
            b.tensor(1)?,
            &b.ints(2),
            &b.ints(3),
            b.opt_int(4).unwrap_or(0),
        )
        .map(Value::Tensor)
})
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([
        x.into(),
        s.real(&[2, 2])?.into(),
        vec![2i64, 2i64].into(),
        vec![1i64, 2i64].into(),
    ])])
});
