//! Copies of views, and copies of tensors with something in place of a view.

mod records;

use torsh_core::{Result, TorshError};

use crate::schema::Bound;
use crate::{DiagonalOptions, IntoDim, IntoDims, IntoShape, Tensor};

pub(crate) use records::RECORDS;

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
    #[torsh_tensor::names_caller]
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
    #[torsh_tensor::names_caller]
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
    #[torsh_tensor::names_caller]
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
    #[torsh_tensor::names_caller]
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
    #[torsh_tensor::names_caller]
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
    #[torsh_tensor::names_caller]
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
    #[torsh_tensor::names_caller]
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
    #[torsh_tensor::names_caller]
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
    #[torsh_tensor::names_caller]
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
    #[torsh_tensor::names_caller]
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
    #[torsh_tensor::names_caller]
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
    #[torsh_tensor::names_caller]
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
    #[torsh_tensor::names_caller]
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
    #[torsh_tensor::names_caller]
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
    #[torsh_tensor::names_caller]
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
    #[torsh_tensor::names_caller]
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
    #[torsh_tensor::names_caller]
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
    #[torsh_tensor::names_caller]
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
    #[torsh_tensor::names_caller]
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
    #[torsh_tensor::names_caller]
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
    #[torsh_tensor::names_caller]
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
    #[torsh_tensor::names_caller]
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
    #[torsh_tensor::names_caller]
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
    #[torsh_tensor::names_caller]
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
    #[torsh_tensor::names_caller]
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
    #[torsh_tensor::names_caller]
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
    #[torsh_tensor::names_caller]
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
