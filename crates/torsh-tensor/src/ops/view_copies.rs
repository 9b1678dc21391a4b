//! Copies of views, and copies of tensors with something in place of a view.

mod records;

use torsh_core::{Result, TorshError};

use crate::record::{OpRecord, sample};
use crate::schema::Bound;
use crate::{DiagonalOptions, IntoDim, IntoDims, IntoShape, Tensor, Value};

pub(crate) use records::RECORDS;

/// A view as a row-major tensor of its own.
#[track_caller]
fn fresh(view: Result<Tensor>) -> Result<Tensor> {
    let view = view?;
    match view.contiguous_flag() || !view.is_strided() {
        true => view.copy(),
        false => view.contiguous(),
    }
}

#[track_caller]
fn fresh_list(views: Result<Vec<Tensor>>) -> Result<Vec<Tensor>> {
    views?.into_iter().map(|t| fresh(Ok(t))).collect()
}

/// Views of another op.
fn renamed(op: &'static str, views: Result<Vec<Tensor>>) -> Result<Vec<Tensor>> {
    views.map_err(|e| e.renamed(op))
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

/// What an op of this name makes of a view.
macro_rules! of_view {
    (renamed $op:expr, $view:expr) => {
        renamed($op, $view)
    };
    ($fresh:ident $op:expr, $view:expr) => {
        $fresh($view)
    };
}

/// The records and methods of ops that do a view's work and give something else than the view. A row has the op's names,
/// the method whose view it is, the schema, a call by name, the shape and arguments of a sample, and an example.
macro_rules! of_views {
    ($module:ident $out:ty, $result:ident, $summary:literal, $begin:literal $behind:literal $end:literal;
     $($name:ident $record:ident $base:ident($($arg:ident: $ty:ty),*) $schema:literal $torch:literal
        |$x:ident, $b:ident| $bound:expr, $sample:ident $shape:tt [$($value:expr),*], $example:literal;)*) => {
        $(
            pub static $record: OpRecord =
                OpRecord::new(stringify!($name), concat!($summary, $torch, "."), $schema)
                .by_name(|$b| {
                    let $x = $b.tensor(0)?;
                    of_view!($result stringify!($name), $bound).map(Value::from)
                })
                .samples(|s| Ok(vec![sample![s.$sample(&$shape)?, $($value),*]]));
        )*

        #[torsh_tensor::functions($module)]
        impl Tensor {$(
            #[doc = concat!($begin, "[`Tensor::", stringify!($base), "`]", $behind, " (`torch.", stringify!($name), "`).", $end)]
            #[doc = crate::options::example!($example)]
            #[function]
            #[torsh_tensor::names_caller]
            pub fn $name(&self, $($arg: $ty),*) -> Result<$out> {
                of_view!($result stringify!($name), self.$base($($arg),*))
            }
        )*}
    };
}

of_views! {
    copies Tensor, fresh, "A row-major copy of the view of ",
    "A copy of what " " is a view of, row-major" " It shares no memory with this tensor; an error where the view is one.";
    as_strided_copy AS_STRIDED_COPY as_strided(size: impl IntoShape, stride: impl IntoShape) "(Tensor input, int[] size, int[] stride, int? storage_offset=None)" "as_strided"
        |x, b| x.as_strided_at(&b.ints(1), &b.ints(2), b.opt_int(3).unwrap_or(x.storage_offset() as i64)), real [3, 4] [vec![2i64, 2], vec![1i64, 1]],
        "# use torsh_tensor::tensor;\n\
            assert_eq!(tensor![1, 2, 3, 4].as_strided_copy([2, 2], [1, 1])?, tensor![[1, 2], [2, 3]]);";
    diagonal_copy DIAGONAL_COPY diagonal_with(options: DiagonalOptions) "(Tensor input, int offset=0, int dim1=0, int dim2=1)" "diagonal"
        |x, b| x.diagonal_with(diagonal(b, 1)), real [3, 4] [],
        "# use torsh_tensor::{DiagonalOptions, tensor};\n\
            let x = tensor![[1, 2], [3, 4]];\n\
            assert_eq!(x.diagonal_copy(DiagonalOptions::new())?, tensor![1, 4]);";
    expand_copy EXPAND_COPY expand(shape: impl IntoShape) "(Tensor input, int[] size, *, bool implicit=False)" "expand"
        |x, b| x.expand(b.ints(1)), real [3, 4] [vec![2i64, 3, 4]],
        "# use torsh_tensor::tensor;\n\
            assert_eq!(tensor![[1], [2]].expand_copy([2, 2])?, tensor![[1, 1], [2, 2]]);";
    narrow_copy NARROW_COPY narrow(dim: impl IntoDim, start: impl IntoDim, length: impl IntoDim) "(Tensor input, int dim, int start, int length)" "narrow"
        |x, b| x.narrow(b.int(1), b.int(2), b.int(3)), real [3, 4] [1i64, 1i64, 2i64],
        "# use torsh_tensor::tensor;\n\
            assert_eq!(tensor![1, 2, 3].narrow_copy(0, 1, 2)?, tensor![2, 3]);";
    permute_copy PERMUTE_COPY permute(dims: impl IntoDims) "(Tensor input, int[] dims)" "permute"
        |x, b| x.permute(b.ints(1)), real [3, 4] [vec![1i64, 0]],
        "# use torsh_tensor::tensor;\n\
            assert_eq!(tensor![[1, 2], [3, 4]].permute_copy([1, 0])?, tensor![[1, 3], [2, 4]]);";
    select_copy SELECT_COPY select(dim: impl IntoDim, index: impl IntoDim) "(Tensor input, int dim, int index)" "select"
        |x, b| x.select(b.int(1), b.int(2)), real [3, 4] [1i64, 2i64],
        "# use torsh_tensor::tensor;\n\
            assert_eq!(tensor![[1, 2], [3, 4]].select_copy(0, 1)?, tensor![3, 4]);";
    slice_copy SLICE_COPY slice(dim: impl IntoDim, start: impl IntoDim, end: impl IntoDim) "(Tensor input, int dim=0, int? start=None, int? end=None, int step=1)" "slice"
        |x, b| stepped(x, b, 1), real [3, 4] [1i64, 0i64, 4i64, 2i64],
        "# use torsh_tensor::tensor;\n\
            assert_eq!(tensor![1, 2, 3].slice_copy(0, 1, 3)?, tensor![2, 3]);";
    squeeze_copy SQUEEZE_COPY squeeze(dim: impl IntoDims) "(Tensor input, int[1]? dim=None)" "squeeze"
        |x, b| match b.opt_ints(1) { Some(d) => x.squeeze(d), None => x.squeeze(()) }, real [1, 4] [0i64],
        "# use torsh_tensor::tensor;\n\
            assert_eq!(tensor![[1, 2]].squeeze_copy(0)?, tensor![1, 2]);";
    t_copy T_COPY t() "(Tensor input)" "t"
        |x, b| x.t(), real [3, 4] [],
        "# use torsh_tensor::tensor;\n\
            assert_eq!(tensor![[1, 2], [3, 4]].t_copy()?, tensor![[1, 3], [2, 4]]);";
    transpose_copy TRANSPOSE_COPY transpose(dim0: impl IntoDim, dim1: impl IntoDim) "(Tensor input, int dim0, int dim1)" "transpose"
        |x, b| x.transpose(b.int(1), b.int(2)), real [3, 4] [0i64, 1i64],
        "# use torsh_tensor::tensor;\n\
            assert_eq!(tensor![[1, 2], [3, 4]].transpose_copy(0, 1)?, tensor![[1, 3], [2, 4]]);";
    unfold_copy UNFOLD_COPY unfold(dimension: impl IntoDim, size: impl IntoDim, step: impl IntoDim) "(Tensor input, int dimension, int size, int step)" "unfold"
        |x, b| x.unfold(b.int(1), b.int(2), b.int(3)), real [3, 4] [1i64, 2i64, 1i64],
        "# use torsh_tensor::tensor;\n\
            assert_eq!(tensor![1, 2, 3].unfold_copy(0, 2, 1)?, tensor![[1, 2], [2, 3]]);";
    unsqueeze_copy UNSQUEEZE_COPY unsqueeze(dim: impl IntoDim) "(Tensor input, int dim)" "unsqueeze"
        |x, b| x.unsqueeze(b.int(1)), real [3, 4] [1i64],
        "# use torsh_tensor::tensor;\n\
            assert_eq!(tensor![1, 2].unsqueeze_copy(0)?, tensor![[1, 2]]);";
    view_copy VIEW_COPY view(shape: impl IntoShape) "(Tensor input, int[] size)" "view"
        |x, b| x.view(b.ints(1)), real [3, 4] [vec![4i64, 3]],
        "# use torsh_tensor::tensor;\n\
            assert_eq!(tensor![1, 2, 3, 4].view_copy([2, 2])?, tensor![[1, 2], [3, 4]]);";
    view_as_complex_copy VIEW_AS_COMPLEX_COPY view_as_complex() "(Tensor input)" "view_as_complex"
        |x, b| x.view_as_complex(), real [3, 2] [],
        "# use torsh_tensor::tensor;\n\
            assert_eq!(tensor![[3.0, 4.0]].view_as_complex_copy()?.abs()?, tensor![5.0]);";
    view_as_real_copy VIEW_AS_REAL_COPY view_as_real() "(Tensor input)" "view_as_real"
        |x, b| x.view_as_real(), complex [3] [],
        "# use torsh_tensor::tensor;\n\
            let z = tensor![[3.0, 4.0]].view_as_complex()?;\n\
            assert_eq!(z.view_as_real_copy()?, tensor![[3.0, 4.0]]);";
}

of_views! {
    lists Vec<Tensor>, fresh_list, "Row-major copies of the views of ",
    "Copies of what " " gives views of, row-major" " They share no memory with this tensor; an error where the views are one.";
    split_copy SPLIT_COPY split(split_size: impl IntoDim, dim: impl IntoDim) "(Tensor input, int split_size, int dim=0)" "split"
        |x, b| x.split(b.int(1), b.int(2)), real [3, 4] [2i64],
        "# use torsh_tensor::tensor;\n\
            assert_eq!(tensor![1, 2, 3].split_copy(2, 0)?, [tensor![1, 2], tensor![3]]);";
    split_with_sizes_copy SPLIT_WITH_SIZES_COPY split_with_sizes(sizes: impl IntoShape, dim: impl IntoDim) "(Tensor input, int[] split_sizes, int dim=0)" "split_with_sizes"
        |x, b| x.split_with_sizes(b.ints(1), b.int(2)), real [3, 4] [vec![1i64, 2]],
        "# use torsh_tensor::tensor;\n\
            assert_eq!(tensor![1, 2, 3].split_with_sizes_copy([1, 2], 0)?, [tensor![1], tensor![2, 3]]);";
    unbind_copy UNBIND_COPY unbind(dim: impl IntoDim) "(Tensor input, int dim=0)" "unbind"
        |x, b| x.unbind(b.int(1)), real [3, 4] [],
        "# use torsh_tensor::tensor;\n\
            assert_eq!(tensor![[1, 2], [3, 4]].unbind_copy(0)?, [tensor![1, 2], tensor![3, 4]]);";
}

of_views! {
    parts Vec<Tensor>, renamed, "The same as ",
    "The same as " "" " PyTorch's own may be written to in place where parts of one tensor may not; here they follow the rules of views.";
    unsafe_chunk UNSAFE_CHUNK chunk(chunks: impl IntoDim, dim: impl IntoDim) "(Tensor input, int chunks, int dim=0)" "chunk"
        |x, b| x.chunk(b.int(1), b.int(2)), real [3, 4] [2i64],
        "# use torsh_tensor::tensor;\n\
            assert_eq!(tensor![1, 2, 3].unsafe_chunk(2, 0)?, [tensor![1, 2], tensor![3]]);";
    unsafe_split UNSAFE_SPLIT split(split_size: impl IntoDim, dim: impl IntoDim) "(Tensor input, int split_size, int dim=0)" "split"
        |x, b| x.split(b.int(1), b.int(2)), real [3, 4] [2i64],
        "# use torsh_tensor::tensor;\n\
            assert_eq!(tensor![1, 2, 3].unsafe_split(2, 0)?, [tensor![1, 2], tensor![3]]);";
    unsafe_split_with_sizes UNSAFE_SPLIT_WITH_SIZES split_with_sizes(sizes: impl IntoShape, dim: impl IntoDim) "(Tensor input, int[] split_sizes, int dim=0)" "split_with_sizes"
        |x, b| x.split_with_sizes(b.ints(1), b.int(2)), real [3, 4] [vec![1i64, 2]],
        "# use torsh_tensor::tensor;\n\
            assert_eq!(tensor![1, 2, 3].unsafe_split_with_sizes([1, 2], 0)?, [tensor![1], tensor![2, 3]]);";
}

#[torsh_tensor::functions]
impl Tensor {
    /// A copy of what [`Tensor::clone`] is a view of, row-major (`torch.alias_copy`). It shares no
    /// memory with this tensor; an error where the view is one.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1, 2].alias_copy()?, tensor![1, 2]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn alias_copy(&self) -> Result<Tensor> {
        fresh(Ok(self.clone()))
    }

    /// A copy of what [`Tensor::detach`] is a view of, row-major (`torch.detach_copy`). It shares no
    /// memory with this tensor; an error where the view is one.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1.0, 2.0].requires_grad_(true);
    /// assert!(!x.detach_copy()?.requires_grad());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn detach_copy(&self) -> Result<Tensor> {
        fresh(Ok(self.detach()))
    }

    /// A copy of this tensor with `src` in place of one index of a dimension
    /// (`torch.select_scatter`). `src` has the shape without that dimension. Every dtype; an error
    /// for another shape, and for an index out of range.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[0, 0], [0, 0]];
    /// assert_eq!(x.select_scatter(&tensor![1, 2], 0, 1)?, tensor![[0, 0], [1, 2]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn select_scatter(
        &self,
        src: &Tensor,
        dim: impl IntoDim,
        index: impl IntoDim,
    ) -> Result<Tensor> {
        scattered("select_scatter", self, src, |x| x.select(dim, index))
    }

    /// A copy of this tensor with `src` in place of a range of a dimension (`torch.slice_scatter`).
    /// `src` has the shape of the slice. Every dtype; an error for another shape.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![0, 0, 0];
    /// assert_eq!(x.slice_scatter(&tensor![1, 2], 0, 1, 3)?, tensor![0, 1, 2]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
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

    /// A copy of this tensor with `src` in place of a diagonal (`torch.diagonal_scatter`). `src` has
    /// the shape of the diagonal. Every dtype; an error for another shape.
    ///
    /// ```
    /// # use torsh_tensor::{DiagonalOptions, tensor};
    /// let x = tensor![[0, 0], [0, 0]];
    /// let y = x.diagonal_scatter(&tensor![1, 2], DiagonalOptions::new())?;
    /// assert_eq!(y, tensor![[1, 0], [0, 2]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn diagonal_scatter(&self, src: &Tensor, options: DiagonalOptions) -> Result<Tensor> {
        scattered("diagonal_scatter", self, src, |x| x.diagonal_with(options))
    }

    /// A copy of this tensor with `src` in place of a window of its memory
    /// (`torch.as_strided_scatter`). `src` has the shape of the window. Every dtype; an error for
    /// another shape, and for a window beyond the memory.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![0, 0, 0, 0];
    /// assert_eq!(x.as_strided_scatter(&tensor![1, 2], &[2], &[2], 1)?, tensor![0, 1, 0, 2]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
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
