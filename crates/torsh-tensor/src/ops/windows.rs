//! Views of diagonals and of sliding windows.

use torsh_core::{Dims, Layout, Result, TorshError};

use crate::attrs;
use crate::call::{Arg, call1};
use crate::record::{InputGrad, OpRecord, sample};
use crate::{DiagonalOptions, IntoDim, Tensor};

pub(crate) const RECORDS: &[&OpRecord] = &[&DIAGONAL, &UNFOLD];

fn diagonal_of(l: &Layout, of: &attrs::Diagonal) -> Layout {
    let (offset, d1, d2) = (of.offset, of.dim1, of.dim2);
    let (rows, cols) = (l.shape[d1] as i64, l.shape[d2] as i64);
    let len = if offset >= 0 {
        rows.min(cols.saturating_sub(offset))
    } else {
        cols.min(rows.saturating_add(offset))
    }
    .max(0);
    let mut out = l.clone();
    if len > 0 {
        let shift = if offset >= 0 {
            offset as isize * l.strides[d2]
        } else {
            -offset as isize * l.strides[d1]
        };
        out.offset = (out.offset as isize + shift) as usize;
    }
    let mut dims = Dims::from_slice(&l.shape);
    let step = l.strides[d1] + l.strides[d2];
    for d in [d1.max(d2), d1.min(d2)] {
        dims.remove(d);
        out.strides.remove(d);
    }
    dims.push(len as usize);
    out.strides.push(step);
    out.shape = dims.into();
    out
}

#[torsh_tensor::by_name(Tensor::diagonal_with(.., DiagonalOptions))]
pub static DIAGONAL: OpRecord = OpRecord::new(
    "diagonal",
    "A view of the diagonal of two dimensions, `offset` above the main one, as a last dimension.",
    "(Tensor input, int offset=0, int dim1=0, int dim2=1)",
)
.view(|c, l| {
    *l = diagonal_of(c.layout, c.attrs()?);
    Ok(())
})
.grad(&[InputGrad {
    inputs: 0,
    outputs: 0,
    formula: |c| {
        let shape = c.input_shape(0);
        let window = diagonal_of(&Layout::contiguous(shape.clone()), c.attrs()?);
        super::strided::unwindow(c.g(), shape, &window)
    },
}])
.samples(|s| {
    let x = s.real(&[3, 4, 2])?;
    Ok(vec![sample![x.clone()], sample![x, -1, 2, 0]])
});

fn unfolded(l: &Layout, windows: &attrs::Unfold) -> Layout {
    let &attrs::Unfold {
        dimension: dim,
        size,
        step,
    } = windows;
    let mut out = l.clone();
    let mut dims = Dims::from_slice(&l.shape);
    if dims.is_empty() {
        dims.push(size);
        out.strides.push(1);
    } else {
        let stride = l.strides[dim];
        dims[dim] = (l.shape[dim] - size) / step + 1;
        out.strides[dim] = super::shape::stepped(stride, step as isize);
        dims.push(size);
        out.strides.push(stride);
    }
    out.shape = dims.into();
    out
}

#[torsh_tensor::by_name(Tensor::unfold)]
pub static UNFOLD: OpRecord = OpRecord::new(
    "unfold",
    "A view of all windows of `size` indices of a dimension, `step` apart, as a last dimension.",
    "(Tensor input, int dimension, int size, int step)",
)
.view(|c, l| {
    *l = unfolded(c.layout, c.attrs()?);
    Ok(())
})
.grad(&[InputGrad {
    inputs: 0,
    outputs: 0,
    formula: |c| {
        let shape = c.input_shape(0);
        let window = unfolded(&Layout::contiguous(shape.clone()), c.attrs()?);
        super::strided::unwindow(c.g(), shape, &window)
    },
}])
.samples(|s| {
    Ok(vec![
        sample![s.real(&[7])?, 0, 3, 2],
        sample![s.real(&[2, 5])?, -1, 3, 1],
    ])
});

#[torsh_tensor::functions]
impl Tensor {
    /// A view of the main diagonal of the first two dimensions, as a last dimension
    /// (`torch.diagonal`).
    ///
    /// An error for fewer than two dimensions.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1, 2], [3, 4]].diagonal()?, tensor![1, 4]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn diagonal(&self) -> Result<Tensor> {
        self.diagonal_with(DiagonalOptions::default())
    }

    /// A view of the diagonal of dimensions `dim1` and `dim2`, `offset` above the main one (below it
    /// where negative), as a last dimension. Writing into it writes the tensor's diagonal.
    ///
    /// An error where the two dimensions are one, or out of range.
    ///
    /// ```
    /// use torsh_tensor::{DiagonalOptions, tensor};
    /// let x = tensor![[1, 2], [3, 4]];
    /// x.diagonal_with(DiagonalOptions::new().offset(1))?.fill_(0)?;
    /// assert_eq!(x, tensor![[1, 0], [3, 4]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn diagonal_with(&self, options: DiagonalOptions) -> Result<Tensor> {
        let DiagonalOptions { offset, dim1, dim2 } = options;
        let (a, b) = (self.dim("diagonal", dim1)?, self.dim("diagonal", dim2)?);
        if a == b {
            let e = TorshError::invalid(
                "",
                format!("diagonal dimensions cannot be identical {}, {}", dim1, dim2),
            );
            return self.named("diagonal", Err(e));
        }
        let attrs = attrs::Diagonal {
            offset,
            dim1: a,
            dim2: b,
        };
        call1(&DIAGONAL, &[Arg::T(self)], &attrs)
    }

    /// A view of all windows of `size` indices of a dimension, `step` apart, as a last dimension.
    ///
    /// ```
    /// use torsh_tensor::Tensor;
    /// let x = Tensor::from_data(&[1, 2, 3, 4, 5], &[5])?;
    /// assert_eq!(x.unfold(0, 3, 2)?.to_vec::<i32>()?, [1, 2, 3, 3, 4, 5]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn unfold(
        &self,
        dimension: impl IntoDim,
        size: impl IntoDim,
        step: impl IntoDim,
    ) -> Result<Tensor> {
        let d = self.dim("unfold", dimension.value())?;
        let (size, step) = (size.value(), step.value());
        let n = self.dims().get(d).map_or(1, |&n| n as i64);
        let why = if size < 0 {
            format!("size is {size} but must be >= 0")
        } else if size > n {
            format!("maximum size for tensor at dimension {d} is {n} but size is {size}")
        } else if step <= 0 {
            format!("step is {step} but must be > 0")
        } else {
            let attrs = attrs::Unfold {
                dimension: d,
                size: size as usize,
                step: step as usize,
            };
            return call1(&UNFOLD, &[Arg::T(self)], &attrs);
        };
        self.named("unfold", Err(TorshError::invalid("", why)))
    }
}
