//! `as_strided` and its transpose, which differentiate views and in-place ops on views.

use smallvec::SmallVec;
use torsh_core::attrs::{self, Ints};
use torsh_core::{Kernel, Layout, Result, Shape, Strides, TorshError};

use crate::call::{Arg, call1};
use crate::record::{OpRecord, Plan, sample};
use crate::{IntoShape, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[&AS_STRIDED, &STRIDED_ACCUMULATE, &STRIDED_SCATTER];

torsh_core::attributes! {
    /// `as_strided`: a window of a tensor's storage. The derivative reads the tensor's own layout.
    AsStrided {
        /// The window's sizes.
        size: Ints,
        /// The window's strides, in elements.
        stride: Ints,
        /// The window's first element, counted from the start of the storage.
        storage_offset: i64,
        /// The tensor's own sizes.
        base_size: Ints,
        /// The tensor's own strides.
        base_stride: Ints,
        /// The tensor's own first element.
        base_offset: i64,
    }
}

impl AsStrided {
    /// The window `to` of a tensor with the layout `from`.
    pub(crate) fn new(from: &Layout, to: &Layout) -> AsStrided {
        AsStrided {
            size: to.shape.dims().into(),
            stride: ints(&to.strides),
            storage_offset: to.offset as i64,
            base_size: from.shape.dims().into(),
            base_stride: ints(&from.strides),
            base_offset: from.offset as i64,
        }
    }
}

fn ints(v: &[isize]) -> Ints {
    v.iter().map(|&x| x as i64).collect()
}

/// A window of a shape with strides and an offset that came of a layout.
fn window(shape: &Shape, stride: &[i64], offset: i64) -> Layout {
    let strides: Strides = stride.iter().map(|&s| s as isize).collect();
    Layout::new(shape.clone(), strides, offset as usize)
}

fn layout_of(size: &[i64], stride: &[i64], offset: i64) -> Result<Layout> {
    if size.len() != stride.len() {
        return Err(TorshError::invalid(
            "",
            format!(
                "mismatch in length of strides and shape: {} sizes and {} strides",
                size.len(),
                stride.len()
            ),
        ));
    }
    if size.iter().chain(stride).any(|&v| v < 0) || offset < 0 {
        return Err(TorshError::invalid(
            "",
            format!(
                "sizes, strides and offset must not be negative, got {size:?}, {stride:?}, {offset}"
            ),
        ));
    }
    let dims: Vec<usize> = size.iter().map(|&v| v as usize).collect();
    let shape = Shape::new(&dims);
    shape.checked_numel(16)?;
    let mut end = offset as usize;
    for (&n, &s) in dims.iter().zip(stride) {
        end = (s as usize)
            .checked_mul(n.saturating_sub(1))
            .and_then(|d| end.checked_add(d))
            .filter(|&e| e < isize::MAX as usize / 16)
            .ok_or_else(|| TorshError::invalid("", "the strides reach further than memory does"))?;
    }
    Ok(Layout::new(
        shape,
        stride.iter().map(|&s| s as isize).collect::<Strides>(),
        offset as usize,
    ))
}

pub static AS_STRIDED: OpRecord = OpRecord::new(
    "as_strided",
    "A view of the tensor's storage with this size, stride and offset (in elements).",
    "(Tensor input, int[] size, int[] stride, int? storage_offset=None)",
)
.view(|c, l| {
    let a = c.attrs::<AsStrided>()?;
    *l = layout_of(&a.size, &a.stride, a.storage_offset)?;
    Ok(())
})
.grads(0, 0, |c| {
    let a = c.attrs::<AsStrided>()?;
    let base = layout_of(&a.base_size, &a.base_stride, a.base_offset)?;
    let view = layout_of(&a.size, &a.stride, a.storage_offset)?;
    let (region, origin) = region_of(&base, &view);
    let sum = accumulate(c.g(), region, &shifted(&view, origin))?;
    Ok(SmallVec::from_iter([Some(
        sum.as_strided_raw(&shifted(&base, origin))?,
    )]))
})
.by_name(|b| {
    let x = b.tensor(0)?;
    let offset = b.opt_int(3).unwrap_or(x.storage_offset() as i64);
    x.as_strided_at(&b.ints(1), &b.ints(2), offset)
        .map(Value::Tensor)
})
.samples(|s| {
    Ok(vec![
        sample![s.real(&[3, 3])?, [2, 2], [1, 2], 1],
        sample![s.real(&[6])?, [4, 3], [1, 1], 0],
    ])
});

/// Zeros in one dimension, to which the operand is added through a window.
pub static STRIDED_ACCUMULATE: OpRecord = OpRecord::new(
    "_strided_accumulate",
    "The transpose of as_strided: adds the operand into zeros through a window, repeats added up.",
    "(Tensor input, *, int[] stride, int storage_offset, int numel)",
)
.internal()
.kernel(Kernel::StridedAccumulate, |c| {
    let x = c.tensor(0)?;
    Ok(Plan::one(
        x.dtype(),
        Shape::new(&[c.attrs::<attrs::StridedAccumulate>()?.numel]),
        x.dtype(),
    ))
})
.grads(0, 0, |c| {
    let a = c.attrs::<attrs::StridedAccumulate>()?;
    let view = window(c.input_shape(0), &a.stride, a.storage_offset);
    Ok(SmallVec::from_iter([Some(
        c.g().contiguous()?.as_strided_raw(&view)?,
    )]))
});

/// A copy of operand 0 (one dimension) in which a window holds operand 1.
pub static STRIDED_SCATTER: OpRecord = OpRecord::new(
    "_strided_scatter",
    "A copy of the first operand in which a window holds the second.",
    "(Tensor input, Tensor source, *, int[] stride, int storage_offset)",
)
.internal()
.kernel(Kernel::StridedScatter, |c| {
    let x = c.tensor(0)?;
    Ok(Plan::one(x.dtype(), x.shape().clone(), x.dtype()))
})
.grads(0, 0, |c| {
    let a = c.attrs::<attrs::StridedScatter>()?;
    let view = window(c.input_shape(1), &a.stride, a.storage_offset);
    let g = c.g().contiguous()?;
    let hole = if c.needs(0) {
        let zeros = Tensor::zeros(&view.shape, g.dtype(), g.device())?;
        Some(scatter(&g, &zeros, &view)?)
    } else {
        None
    };
    let src = if c.needs(1) {
        Some(g.as_strided_raw(&view)?)
    } else {
        None
    };
    Ok(SmallVec::from_iter([hole, src]))
});

/// How many elements the two layouts reach together, and from which on.
fn region_of(a: &Layout, b: &Layout) -> (usize, usize) {
    match (a.extent(), b.extent()) {
        (Some(x), Some(y)) => (x.1.max(y.1) - x.0.min(y.0), x.0.min(y.0)),
        (Some(x), None) | (None, Some(x)) => (x.1 - x.0, x.0),
        (None, None) => (0, 0),
    }
}

fn shifted(l: &Layout, origin: usize) -> Layout {
    Layout::new(
        l.shape.clone(),
        l.strides.clone(),
        l.offset.saturating_sub(origin),
    )
}

fn accumulate(g: &Tensor, numel: usize, window: &Layout) -> Result<Tensor> {
    call1(
        &STRIDED_ACCUMULATE,
        &[Arg::T(g)],
        &attrs::StridedAccumulate {
            stride: ints(&window.strides),
            storage_offset: window.offset as i64,
            numel,
        },
    )
}

fn scatter(region: &Tensor, src: &Tensor, window: &Layout) -> Result<Tensor> {
    call1(
        &STRIDED_SCATTER,
        &[Arg::T(region), Arg::T(src)],
        &attrs::StridedScatter {
            stride: ints(&window.strides),
            storage_offset: window.offset as i64,
        },
    )
}

/// The gradient of a row-major tensor of `shape` from that of a window of it; what the window
/// repeats adds up.
pub(crate) fn unwindow(g: &Tensor, shape: &Shape, window: &Layout) -> Result<Tensor> {
    accumulate(g, shape.numel(), window)?.reshape(shape)
}

/// A layout of complex numbers in units of the real ones they consist of.
pub(crate) fn in_reals(l: &Layout) -> Layout {
    let mut dims: SmallVec<[usize; 6]> = SmallVec::from_slice(l.shape.dims());
    dims.push(2);
    let mut strides: Strides = l.strides.iter().map(|s| s * 2).collect();
    strides.push(1);
    Layout::new(Shape::new(&dims), strides, l.offset * 2)
}

/// Both layouts in the same units, where one is of complex numbers and the other of real ones.
fn same_units(base: &Layout, view: &Layout, complex: (bool, bool)) -> (Layout, Layout) {
    match complex {
        (true, false) => (in_reals(base), view.clone()),
        (false, true) => (base.clone(), in_reals(view)),
        _ => (base.clone(), view.clone()),
    }
}

/// The part of a base's gradient that belongs to a view of it, and the gradient laid out as the
/// base's memory. `complex` says of base and view whether they hold complex numbers.
pub(crate) fn cut(
    g: &Tensor,
    base: &Layout,
    view: &Layout,
    complex: (bool, bool),
) -> Result<(Tensor, Tensor)> {
    let (base, view) = same_units(base, view, complex);
    let (length, origin) = region_of(&base, &view);
    let region = match complex {
        (true, false) => accumulate(&g.view_as_real()?, length, &shifted(&base, origin))?,
        _ => accumulate(g, length, &shifted(&base, origin))?,
    };
    let mut window = region
        .as_strided_raw(&shifted(&view, origin))?
        .contiguous()?;
    if complex == (false, true) {
        window = super::complex::in_pairs(&window)?;
    }
    Ok((window, region))
}

/// The base's gradient with `hole` (zeros where there is none) in place of the view's part.
pub(crate) fn put(
    region: &Tensor,
    hole: Option<Tensor>,
    base: &Layout,
    view: &Layout,
    complex: (bool, bool),
) -> Result<Tensor> {
    let (base, view) = same_units(base, view, complex);
    let (_, origin) = region_of(&base, &view);
    let window = shifted(&view, origin);
    let hole = match hole {
        Some(h) if complex == (false, true) => h.view_as_real()?,
        Some(h) => h,
        None => Tensor::zeros(&window.shape, region.dtype(), region.device())?,
    };
    let all = scatter(region, &hole, &window)?.as_strided_raw(&shifted(&base, origin))?;
    if complex == (true, false) {
        return super::complex::in_pairs(&all);
    }
    Ok(all)
}

#[torsh_tensor::functions]
impl Tensor {
    /// A view of this tensor's storage with the size and stride given, from this tensor's offset
    /// (`torch.as_strided`).
    ///
    /// The result has the shape `size` and the dtype of this tensor. An error where the two lists
    /// differ in length, or where the view would reach outside the storage.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1, 2, 3, 4];
    /// // Overlapping windows of two.
    /// assert_eq!(x.as_strided([3, 2], [1, 1])?, tensor![[1, 2], [2, 3], [3, 4]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn as_strided(&self, size: impl IntoShape, stride: impl IntoShape) -> Result<Tensor> {
        self.as_strided_at(&size.sizes(), &stride.sizes(), self.storage_offset() as i64)
    }

    /// [`Tensor::as_strided`] from element `offset` of the storage on.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1, 2, 3, 4];
    /// assert_eq!(x.as_strided_at(&[2], &[2], 1)?, tensor![2, 4]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn as_strided_at(&self, size: &[i64], stride: &[i64], offset: i64) -> Result<Tensor> {
        call1(
            &AS_STRIDED,
            &[Arg::T(self)],
            &AsStrided {
                size: size.into(),
                stride: stride.into(),
                storage_offset: offset,
                base_size: self.dims().into(),
                base_stride: ints(self.stride()),
                base_offset: self.storage_offset() as i64,
            },
        )
    }

    #[track_caller]
    pub(super) fn as_strided_raw(&self, l: &Layout) -> Result<Tensor> {
        call1(
            &AS_STRIDED,
            &[Arg::T(self)],
            &AsStrided::new(self.memory_layout(), l),
        )
    }
}
