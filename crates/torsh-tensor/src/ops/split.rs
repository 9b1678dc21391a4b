//! Cutting a tensor into several views.

use torsh_core::{Layout, Result, Shape, TorshError};

use crate::attrs;
use crate::call::call_views;
use crate::record::{OpRecord, sample};
use crate::{Grads, IntoDim, IntoShape, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[
    &SPLIT,
    &SPLIT_SIZES,
    &SPLIT_WITH_SIZES,
    &CHUNK,
    &TENSOR_SPLIT,
    &TENSOR_SPLIT_AT,
    &TENSOR_SPLIT_TENSOR,
    &UNBIND,
    &HSPLIT,
    &HSPLIT_AT,
    &VSPLIT,
    &VSPLIT_AT,
    &DSPLIT,
    &DSPLIT_AT,
];

fn list(v: Vec<Tensor>) -> Value {
    Value::Tuple(v.into_iter().map(Value::Tensor).collect())
}

/// The gradients of all results of a node, zeros where one got none.
fn all_grads(c: &crate::BackwardCx<'_>) -> Result<Vec<Tensor>> {
    c.node
        .outputs
        .iter()
        .enumerate()
        .map(|(i, o)| match c.grad(i) {
            Some(g) => Ok(g.clone()),
            None => Tensor::zeros(&o.shape, o.dtype, o.device),
        })
        .collect()
}

#[torsh_tensor::by_name(Tensor::split)]
pub static SPLIT: OpRecord = OpRecord::new(
    "split",
    "Views of `split_size_or_sections` indices of a dimension each; the last may have fewer.",
    "(Tensor input, int split_size_or_sections, int dim=0)",
)
.grads(0, 0, |c| {
    let g = Tensor::cat(&all_grads(c)?, c.attrs::<attrs::Split>()?.dim)?;
    Ok(Grads::from_iter([Some(g)]))
})
.samples(|s| Ok(vec![sample![s.real(&[5, 2])?, 2]]));

#[torsh_tensor::by_name(Tensor::split_with_sizes)]
pub static SPLIT_SIZES: OpRecord = OpRecord::new(
    "split.sizes",
    "Views of as many indices of a dimension as each size says.",
    "(Tensor input, int[] split_size_or_sections, int dim=0)",
)
.overload()
.samples(|s| Ok(vec![sample![s.real(&[2, 5])?, [1, 4], 1]]));

#[torsh_tensor::by_name(Tensor::split_with_sizes)]
pub static SPLIT_WITH_SIZES: OpRecord = OpRecord::new(
    "split_with_sizes",
    "Views of as many indices of a dimension as each size says.",
    "(Tensor input, int[] split_sizes, int dim=0)",
)
.samples(|s| Ok(vec![sample![s.real(&[2, 5])?, [1, 0, 4], -1]]));

#[torsh_tensor::by_name(Tensor::chunk)]
pub static CHUNK: OpRecord = OpRecord::new(
    "chunk",
    "Views of equal parts of a dimension, at most `chunks` of them; the last may be smaller.",
    "(Tensor input, int chunks, int dim=0)",
)
.samples(|s| Ok(vec![sample![s.real(&[5, 2])?, 3]]));

const TENSOR_SPLIT_DOC: &str =
    "Views of so many parts of a dimension, as equal as can be, or of what lies between indices.";

#[torsh_tensor::by_name(Tensor::tensor_split)]
pub static TENSOR_SPLIT: OpRecord = OpRecord::new(
    "tensor_split.sections",
    TENSOR_SPLIT_DOC,
    "(Tensor input, int sections, int dim=0)",
)
.overload()
.samples(|s| Ok(vec![sample![s.real(&[5, 2])?, 3]]));

#[torsh_tensor::by_name(Tensor::tensor_split_at)]
pub static TENSOR_SPLIT_AT: OpRecord = OpRecord::new(
    "tensor_split.indices",
    TENSOR_SPLIT_DOC,
    "(Tensor input, int[] indices, int dim=0)",
)
.overload()
.samples(|s| Ok(vec![sample![s.real(&[2, 5])?, [1, -1], 1]]));

pub static TENSOR_SPLIT_TENSOR: OpRecord = OpRecord::new(
    "tensor_split.tensor_indices_or_sections",
    TENSOR_SPLIT_DOC,
    "(Tensor input, Tensor tensor_indices_or_sections, int dim=0)",
)
.overload()
.by_name(|b| {
    let (x, at) = (b.tensor(0)?, b.tensor(1)?);
    if at.dtype() != torsh_core::DType::I64 || at.ndim() > 1 {
        return Err(TorshError::invalid(
            "tensor_split",
            format!("expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional int64 tensor, got {}", at.describe()),
        ));
    }
    let r = if at.ndim() == 0 { x.tensor_split(at.item::<i64>()?, b.int(2)) } else { x.tensor_split_at(at.to_vec::<i64>()?, b.int(2)) };
    r.map(list)
});

#[torsh_tensor::by_name(Tensor::unbind)]
pub static UNBIND: OpRecord = OpRecord::new(
    "unbind",
    "A view of each index of a dimension, which is removed.",
    "(Tensor input, int dim=0)",
)
.grads(0, 0, |c| {
    let g = Tensor::stack(&all_grads(c)?, c.attrs::<attrs::Unbind>()?.dim)?;
    Ok(Grads::from_iter([Some(g)]))
})
.samples(|s| Ok(vec![sample![s.real(&[2, 3])?, -1]]));

macro_rules! nsplit {
    ($($sections:ident $indices:ident $method:ident $method_test:literal $at:ident $at_test:literal $name:literal $which:literal),*) => {
        $(
            #[doc = concat!("Parts of the ", $which, " dimension.")]
            #[torsh_tensor::by_name(Tensor::$method)]
            pub static $sections: OpRecord = OpRecord::new(
                concat!($name, ".int"),
                concat!("Views of so many equal parts of the ", $which, " dimension."),
                "(Tensor input, int sections)",
            )
            .overload()
            .samples(|s| Ok(vec![sample![s.real(&[2, 2, 2])?, 2]]));
            #[doc = concat!("What lies between indices of the ", $which, " dimension.")]
            #[torsh_tensor::by_name(Tensor::$at)]
            pub static $indices: OpRecord = OpRecord::new(
                concat!($name, ".array"),
                concat!("Views of what lies between indices of the ", $which, " dimension."),
                "(Tensor input, int[] indices)",
            )
            .overload()
            .samples(|s| Ok(vec![sample![s.real(&[2, 2, 2])?, [1]]]));
        )*

        #[torsh_tensor::functions(nsplit)]
        impl Tensor {
            $(
                #[doc = concat!("Views of `sections` equal parts of the ", $which, " dimension (`torch.", $name, "`). An error where the size is not divisible by `sections`, and for fewer dimensions.")]
                #[doc = crate::options::example!($method_test)]
                #[function]
                #[torsh_tensor::names_caller]
                pub fn $method(&self, sections: impl IntoDim) -> Result<Vec<Tensor>> {
                    let (d, n) = (self.nsplit_dim($name)?, sections.value());
                    let size = self.dims()[d];
                    if n <= 0 || size as i64 % n != 0 {
                        let why = format!("torch.{} attempted to split along dimension {d}, but the size of the dimension {size} is not divisible by the split_size {n}!", $name);
                        return self.named($name, Err(TorshError::invalid("", why)));
                    }
                    self.tensor_split(n, d)
                }

                #[doc = concat!("Views of what lies between `indices` of the ", $which, " dimension (`torch.", $name, "`).")]
                #[doc = crate::options::example!($at_test)]
                #[torsh_tensor::names_caller]
                pub fn $at(&self, indices: impl IntoShape) -> Result<Vec<Tensor>> {
                    let d = self.nsplit_dim($name)?;
                    self.tensor_split_at(indices, d)
                }
            )*
        }
    };
}
nsplit!(
    HSPLIT HSPLIT_AT
        hsplit "# use torsh_tensor::tensor;\n\
            assert_eq!(tensor![1, 2, 3, 4].hsplit(2)?, [tensor![1, 2], tensor![3, 4]]);"
        hsplit_at "# use torsh_tensor::tensor;\n\
            assert_eq!(tensor![1, 2, 3, 4].hsplit_at([1])?, [tensor![1], tensor![2, 3, 4]]);"
        "hsplit" "second (of a vector, the only)",
    VSPLIT VSPLIT_AT
        vsplit "# use torsh_tensor::tensor;\n\
            assert_eq!(tensor![[1, 2], [3, 4]].vsplit(2)?, [tensor![[1, 2]], tensor![[3, 4]]]);"
        vsplit_at "# use torsh_tensor::tensor;\n\
            assert_eq!(tensor![[1], [2], [3]].vsplit_at([1])?, [tensor![[1]], tensor![[2], [3]]]);"
        "vsplit" "first",
    DSPLIT DSPLIT_AT
        dsplit "# use torsh_tensor::tensor;\n\
            assert_eq!(tensor![[[1, 2]]].dsplit(2)?, [tensor![[[1]]], tensor![[[2]]]]);"
        dsplit_at "# use torsh_tensor::tensor;\n\
            assert_eq!(tensor![[[1, 2, 3]]].dsplit_at([1])?, [tensor![[[1]]], tensor![[[2, 3]]]]);"
        "dsplit" "third"
);

#[torsh_tensor::functions]
impl Tensor {
    #[track_caller]
    fn nsplit_dim(&self, op: &'static str) -> Result<usize> {
        let (least, dim) = match op {
            "hsplit" => (1, 1.min(self.ndim().saturating_sub(1))),
            "vsplit" => (2, 0),
            _ => (3, 2),
        };
        if self.ndim() < least {
            let e = TorshError::shape(
                "",
                format!(
                    "torch.{op} requires a tensor with at least {least} dimension, but got a tensor with {} dimensions!",
                    self.ndim()
                ),
            );
            return self.named(op, Err(e));
        }
        Ok(dim)
    }

    /// Reads a dimension that must be there to be cut.
    #[track_caller]
    fn cut_dim(&self, op: &'static str, dim: i64) -> Result<usize> {
        if self.ndim() == 0 {
            let e = TorshError::index(
                "",
                format!("Dimension specified as {dim} but tensor has no dimensions"),
            );
            return self.named(op, Err(e));
        }
        self.dim(op, dim)
    }

    /// The parts of a dimension between `ends[i - 1]` and `ends[i]`.
    #[track_caller]
    fn parts(&self, d: usize, bounds: impl Iterator<Item = (usize, usize)>) -> Result<Vec<Tensor>> {
        if !self.is_strided() {
            return bounds
                .map(|(start, len)| self.narrow(d, start, len))
                .collect();
        }
        let l = self.memory_layout();
        let layouts = bounds.map(|(start, len)| {
            let mut out = l.clone();
            let mut dims = torsh_core::Dims::from_slice(&l.shape);
            if len > 0 {
                out.offset = (out.offset as isize + start as isize * l.strides[d]) as usize;
            }
            dims[d] = len;
            out.shape = dims.into();
            out
        });
        call_views(&SPLIT, self, layouts, &attrs::Split { dim: d }).map(|o| o.into_vec())
    }

    /// Views of `split_size` indices of a dimension each; the last may have fewer (`torch.split`).
    ///
    /// An error for a negative size, for size 0 of a dimension that is not empty, and for a dimension
    /// out of range.
    ///
    /// ```
    /// use torsh_tensor::Tensor;
    /// let x = Tensor::from_data(&[1, 2, 3, 4, 5], &[5])?;
    /// let parts = x.split(2, 0)?;
    /// assert_eq!(parts.len(), 3);
    /// assert_eq!(parts[2].to_vec::<i32>()?, [5]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn split(&self, split_size: impl IntoDim, dim: impl IntoDim) -> Result<Vec<Tensor>> {
        let d = self.cut_dim("split", dim.value())?;
        let (n, size) = (self.dims()[d], split_size.value());
        if size < 0 || size == 0 && n != 0 {
            let e = TorshError::invalid(
                "",
                format!("split expects split_size be positive, but got split_size={size}"),
            );
            return self.named("split", Err(e));
        }
        let size = size as usize;
        let count = if n == 0 { 1 } else { n.div_ceil(size) };
        self.parts(d, (0..count).map(|i| (i * size, size.min(n - i * size))))
    }

    /// Views of as many indices of a dimension as each size says (`torch.split_with_sizes`).
    ///
    /// An error where the sizes do not add up to the dimension's, or one is negative.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let parts = tensor![1, 2, 3].split_with_sizes([1, 2], 0)?;
    /// assert_eq!(parts, [tensor![1], tensor![2, 3]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn split_with_sizes(
        &self,
        sizes: impl IntoShape,
        dim: impl IntoDim,
    ) -> Result<Vec<Tensor>> {
        let d = self.cut_dim("split_with_sizes", dim.value())?;
        let (sizes, n) = (sizes.sizes(), self.dims()[d] as i64);
        let sum = sizes.iter().try_fold(0i64, |a, &b| a.checked_add(b));
        if sizes.iter().any(|&s| s < 0) || sum != Some(n) {
            let e = TorshError::invalid(
                "",
                format!(
                    "split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's size at dimension {d}) and to hold no negative numbers, but got split_sizes={sizes:?}"
                ),
            );
            return self.named("split_with_sizes", Err(e));
        }
        let mut at = 0;
        let bounds = sizes.iter().map(|&s| {
            at += s as usize;
            (at - s as usize, s as usize)
        });
        self.parts(d, bounds)
    }

    /// Views of equal parts of a dimension, at most `chunks` of them; the last may be smaller
    /// (`torch.chunk`).
    ///
    /// An error for fewer than one chunk, and for a dimension out of range.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1, 2, 3].chunk(2, 0)?, [tensor![1, 2], tensor![3]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn chunk(&self, chunks: impl IntoDim, dim: impl IntoDim) -> Result<Vec<Tensor>> {
        let d = self.cut_dim("chunk", dim.value())?;
        let (n, chunks) = (self.dims()[d], chunks.value());
        if chunks <= 0 {
            let e = TorshError::invalid(
                "",
                format!("chunk expects `chunks` to be greater than 0, got: {chunks}"),
            );
            return self.named("chunk", Err(e));
        }
        if n == 0 {
            return self.parts(d, (0..chunks).map(|_| (0, 0)));
        }
        self.split(n.div_ceil(chunks as usize), d)
    }

    /// Views of exactly `sections` parts of a dimension; the first ones are larger by one where they
    /// cannot be equal (`torch.tensor_split`).
    ///
    /// An error for fewer than one section, and for a dimension out of range.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1, 2, 3].tensor_split(2, 0)?, [tensor![1, 2], tensor![3]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn tensor_split(&self, sections: impl IntoDim, dim: impl IntoDim) -> Result<Vec<Tensor>> {
        let d = self.split_dim(dim.value())?;
        let (n, sections) = (self.dims()[d], sections.value());
        if sections <= 0 {
            let e = TorshError::invalid(
                "",
                format!("number of sections must be larger than 0, got {sections}"),
            );
            return self.named("tensor_split", Err(e));
        }
        let sections = sections as usize;
        let (each, more) = (n / sections, n % sections);
        self.parts(
            d,
            (0..sections).map(|i| (i * each + i.min(more), each + usize::from(i < more))),
        )
    }

    #[track_caller]
    fn split_dim(&self, dim: i64) -> Result<usize> {
        if self.ndim() == 0 {
            let e = TorshError::shape(
                "",
                "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims",
            );
            return self.named("tensor_split", Err(e));
        }
        self.dim("tensor_split", dim)
    }

    /// Views of what lies before, between and behind `indices` of a dimension, which clamp as
    /// Python's slices do.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let parts = tensor![1, 2, 3, 4].tensor_split_at([1, 3], 0)?;
    /// assert_eq!(parts, [tensor![1], tensor![2, 3], tensor![4]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn tensor_split_at(
        &self,
        indices: impl IntoShape,
        dim: impl IntoDim,
    ) -> Result<Vec<Tensor>> {
        let d = self.split_dim(dim.value())?;
        let n = self.dims()[d] as i64;
        let clamp = |v: i64| if v < 0 { v.saturating_add(n).max(0) } else { v.min(n) } as usize;
        let indices = indices.sizes();
        let mut from = 0;
        let ends = indices.iter().map(|&i| clamp(i)).chain([n as usize]);
        let bounds = ends.map(|end| {
            let part = (from, end.saturating_sub(from));
            from = end;
            part
        });
        self.parts(d, bounds)
    }

    /// A view of each index of a dimension, which is removed (`torch.unbind`).
    ///
    /// An error for a 0-d tensor, and for a dimension out of range.
    ///
    /// ```
    /// use torsh_tensor::Tensor;
    /// let x = Tensor::from_data(&[1, 2, 3, 4], &[2, 2])?;
    /// assert_eq!(x.unbind(1)?[0].to_vec::<i32>()?, [1, 3]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn unbind(&self, dim: impl IntoDim) -> Result<Vec<Tensor>> {
        let d = self.cut_dim("unbind", dim.value())?;
        if !self.is_strided() {
            return (0..self.dims()[d]).map(|i| self.select(d, i)).collect();
        }
        let l = self.memory_layout();
        let mut dims = torsh_core::Dims::from_slice(&l.shape);
        let mut strides = l.strides.clone();
        dims.remove(d);
        strides.remove(d);
        let shape = Shape::from(dims);
        let layouts = (0..l.shape[d]).map(|i| {
            let offset = if shape.numel() > 0 {
                l.offset as isize + i as isize * l.strides[d]
            } else {
                l.offset as isize
            };
            Layout::new(shape.clone(), strides.clone(), offset as usize)
        });
        call_views(&UNBIND, self, layouts, &attrs::Unbind { dim: d }).map(|o| o.into_vec())
    }

    /// Iterates over the first dimension: each item is a view of one index (`for row in
    /// x.iter()?`). A 0-d tensor has none, which is an error.
    ///
    /// ```
    /// use torsh_tensor::Tensor;
    /// let x = Tensor::from_data(&[1, 2, 3, 4], &[2, 2])?;
    /// let sums = x.iter()?.map(|row| row.to_vec::<i32>().map(|v| v.iter().sum::<i32>()));
    /// assert_eq!(sums.collect::<Result<Vec<_>, _>>()?, [3, 7]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn iter(&self) -> Result<std::vec::IntoIter<Tensor>> {
        if self.ndim() == 0 {
            return self.named(
                "iter",
                Err(TorshError::index("", "iteration over a 0-d tensor")),
            );
        }
        Ok(self.unbind(0)?.into_iter())
    }
}
