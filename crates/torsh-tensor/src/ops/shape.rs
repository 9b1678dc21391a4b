//! Views that change the shape: no data moves.

pub(crate) mod methods;

use std::ops::Range;

use torsh_core::{Attributes, DType, Device, Dims, Layout, Result, Shape, Strides, TorshError};

use crate::attrs;
use crate::call::{Arg, call1};
use crate::mode;
use crate::node::{Kind, Node};
use crate::record::{InputGrad, OpRecord, Rule, ViewCx, sample};
use crate::{IntoDim, IntoDims, IntoShape, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[
    &EXPAND, &VIEW, &RESHAPE, &PERMUTE, &TRANSPOSE, &SQUEEZE, &UNSQUEEZE, &SELECT, &SLICE,
];

#[torsh_tensor::by_name(Tensor::expand)]
pub static EXPAND: OpRecord = OpRecord::new(
    "expand",
    "A view in which dimensions of size 1 are repeated to the given size; -1 keeps a size.",
    "(Tensor input, int[] size)",
)
.view(|c, l| {
    *l = c.layout.expand(&c.attrs::<attrs::Expand>()?.size)?;
    Ok(())
})
// The engine sums what was broadcast.
.grad(&[InputGrad {
    inputs: 0,
    outputs: 0,
    formula: |c| Ok(c.g().clone()),
}])
.samples(|s| {
    Ok(vec![
        sample![s.real(&[3, 1])?, [3, 4]],
        sample![s.real(&[])?, [2, 2]],
        sample![s.real(&[1, 2])?, [4, -1, 2]],
    ])
});

fn reshape_back(c: &crate::node::BackwardCx<'_>) -> Result<Tensor> {
    c.g().reshape(c.input_shape(0))
}

#[torsh_tensor::by_name(Tensor::view)]
pub static VIEW: OpRecord = OpRecord::new(
    "view",
    "A view of another shape with the same elements in the same order; one size may be -1.",
    "(Tensor input, int[] size)",
)
.view(|c, l| {
    let to = &c.attrs::<attrs::View>()?.size;
    *l = c.layout.reshape(to).ok_or_else(|| {
        TorshError::shape(
            "",
            format!("view size {to} is not compatible with the tensor's size {} and stride {:?}", c.layout.shape, c.layout.strides),
        )
        .with_hint("at least one dimension spans across two contiguous subspaces: use reshape(), which copies where it must")
    })?;
    Ok(())
})
.grad(&[InputGrad { inputs: 0, outputs: 0, formula: reshape_back }])
.samples(|s| Ok(vec![sample![s.real(&[2, 6])?, [3, -1]]]));

#[torsh_tensor::by_name(Tensor::reshape)]
pub static RESHAPE: OpRecord = OpRecord::new(
    "reshape",
    "The elements in another shape: a view where the layout allows it, else a copy. One size may be -1.",
    "(Tensor input, int[] shape)",
)
.samples(|s| Ok(vec![sample![s.real(&[2, 6])?, [3, -1]]]));

#[torsh_tensor::by_name(Tensor::permute)]
pub static PERMUTE: OpRecord = OpRecord::new(
    "permute",
    "A view with the dimensions in the given order.",
    "(Tensor input, int[] dims)",
)
.view(|c, l| {
    for (to, &d) in c.attrs::<attrs::Permute>()?.dims.iter().enumerate() {
        l.shape.set(to, c.layout.shape[d]);
        l.strides[to] = c.layout.strides[d];
    }
    Ok(())
})
.grad(&[InputGrad {
    inputs: 0,
    outputs: 0,
    formula: |c| {
        let order = &c.attrs::<attrs::Permute>()?.dims;
        let mut back = Dims::from_elem(0, order.len());
        for (i, &d) in order.iter().enumerate() {
            back[d] = i;
        }
        c.g().permuted(back)
    },
}])
.samples(|s| Ok(vec![sample![s.real(&[2, 3, 4])?, [2, 0, 1]]]));

#[torsh_tensor::by_name(Tensor::transpose)]
pub static TRANSPOSE: OpRecord = OpRecord::new(
    "transpose",
    "A view with two dimensions swapped.",
    "(Tensor input, int dim0, int dim1)",
)
.view(|c, l| {
    if l.shape.ndim() > 0 {
        let &attrs::Transpose { dim0, dim1 } = c.attrs()?;
        l.shape.swap(dim0, dim1);
        l.strides.swap(dim0, dim1);
    }
    Ok(())
})
.grad(&[InputGrad {
    inputs: 0,
    outputs: 0,
    formula: |c| call1(&TRANSPOSE, &[Arg::T(c.g())], c.attributes()),
}])
.samples(|s| Ok(vec![sample![s.real(&[2, 3, 4])?, 0, -1]]));

pub static SQUEEZE: OpRecord = OpRecord::new(
    "squeeze",
    "A view without dimensions of size 1: all of them, or those named.",
    "(Tensor input, int[1]? dim=None)",
)
.view(|c, l| {
    let drop = &c.attrs::<attrs::Squeeze>()?.dim;
    let mut dims = Dims::new();
    let mut strides = Strides::new();
    for d in 0..c.layout.shape.ndim() {
        if c.layout.shape[d] != 1 || !drop.contains(&d) {
            dims.push(c.layout.shape[d]);
            strides.push(c.layout.strides[d]);
        }
    }
    (l.shape, l.strides) = (dims.into(), strides);
    Ok(())
})
.grad(&[InputGrad {
    inputs: 0,
    outputs: 0,
    formula: reshape_back,
}])
.by_name(|b| {
    let x = b.tensor(0)?;
    let y = match b.opt_ints(1) {
        Some(dims) => x.squeeze(dims),
        None => x.squeeze(None),
    };
    y.map(Value::Tensor)
})
.samples(|s| {
    let x = s.real(&[1, 3, 1])?;
    Ok(vec![
        sample![x.clone()],
        sample![x.clone(), -1],
        sample![x, 1],
    ])
});

#[torsh_tensor::by_name(Tensor::unsqueeze)]
pub static UNSQUEEZE: OpRecord = OpRecord::new(
    "unsqueeze",
    "A view with a dimension of size 1 put in before `dim`.",
    "(Tensor input, int dim)",
)
.view(|c, l| {
    let d = c.attrs::<attrs::Unsqueeze>()?.dim;
    let stride = if d < l.shape.ndim() {
        l.strides[d] * l.shape[d] as isize
    } else {
        1
    };
    l.shape.insert(d, 1);
    l.strides.insert(d, stride);
    Ok(())
})
.grad(&[InputGrad {
    inputs: 0,
    outputs: 0,
    formula: reshape_back,
}])
.samples(|s| Ok(vec![sample![s.real(&[2, 3])?, -1]]));

#[torsh_tensor::by_name(Tensor::select)]
pub static SELECT: OpRecord = OpRecord::new(
    "select",
    "A view of one index of a dimension, which is removed.",
    "(Tensor input, int dim, int index)",
)
.view(|c, l| {
    let &attrs::Select { dim, index } = c.attrs()?;
    l.offset = (l.offset as isize + index as isize * l.strides[dim]) as usize;
    l.shape.remove(dim);
    l.strides.remove(dim);
    Ok(())
})
.grad(&[InputGrad {
    inputs: 0,
    outputs: 0,
    formula: |c| {
        let &attrs::Select { dim, index } = c.attrs()?;
        let zeros = c.zeros(0)?;
        zeros.scatter_window(&c.g().unsqueeze(dim)?, dim, index, 1)
    },
}])
.samples(|s| Ok(vec![sample![s.real(&[2, 3])?, 1, -1]]));

#[torsh_tensor::by_name(Tensor::slice_step)]
pub static SLICE: OpRecord = OpRecord::new(
    "slice",
    "A view of the indices start, start + step, ... below end of a dimension.",
    "(Tensor input, int dim=0, int? start=None, int? end=None, int step=1)",
)
.view(|c, l| {
    let &attrs::Slice {
        dim: d,
        start,
        length,
        step,
    } = c.attrs()?;
    if length > 0 {
        l.offset = (l.offset as isize + start as isize * l.strides[d]) as usize;
    }
    l.shape.set(d, length);
    l.strides[d] = stepped(l.strides[d], step as isize);
    Ok(())
})
.grad(&[InputGrad {
    inputs: 0,
    outputs: 0,
    formula: |c| {
        let a = c.attrs::<attrs::Slice>()?;
        c.zeros(0)?.scatter_window(c.g(), a.dim, a.start, a.step)
    },
}])
.samples(|s| {
    Ok(vec![
        sample![s.real(&[5, 2])?, 0, 1, 5, 2],
        sample![s.real(&[3, 4])?, -1, -3, Value::None],
    ])
});

/// The stride of every `step`-th index. It overflows only where there is no second one.
pub(super) fn stepped(stride: isize, step: isize) -> isize {
    stride.checked_mul(step).unwrap_or(1)
}

/// Reads sizes of which one may be -1.
fn infer(sizes: &[i64], numel: usize) -> Result<Shape> {
    let mut known: usize = 1;
    let mut unknown = None;
    for (i, &s) in sizes.iter().enumerate() {
        if s == -1 {
            if unknown.replace(i).is_some() {
                return Err(TorshError::invalid(
                    "",
                    "only one dimension can be inferred",
                ));
            }
        } else if s < 0 {
            return Err(TorshError::invalid(
                "",
                format!("invalid shape dimension {s}"),
            ));
        } else {
            known = known
                .checked_mul(s as usize)
                .ok_or_else(|| TorshError::invalid("", "the sizes overflow"))?;
        }
    }
    let mismatch = || {
        TorshError::shape(
            "",
            format!("shape {sizes:?} is invalid for input of size {numel}"),
        )
    };
    let mut out: Dims = sizes.iter().map(|&s| s as usize).collect();
    match unknown {
        Some(_) if known == 0 && numel == 0 => {
            return Err(TorshError::invalid(
                "",
                format!(
                    "cannot reshape tensor of 0 elements into shape {sizes:?} because the unspecified dimension size -1 can be any value and is ambiguous"
                ),
            ));
        }
        Some(_) if known == 0 || !numel.is_multiple_of(known) => return Err(mismatch()),
        Some(i) => out[i] = numel / known,
        None if known != numel => return Err(mismatch()),
        None => {}
    }
    Ok(out.into())
}

/// Whether a result is a part of the operand, so that [`Part`] does what the derivative would.
pub(crate) fn is_part(record: &OpRecord) -> bool {
    std::ptr::eq(record, &SELECT) || std::ptr::eq(record, &SLICE)
}

/// The gradient of a part of a tensor: of every `step`-th index of a dimension.
pub(crate) struct Part {
    pub(crate) g: Tensor,
    pub(crate) dim: usize,
    pub(crate) start: usize,
    pub(crate) step: usize,
}

impl Part {
    /// What a node whose record [is one](is_part) sends, of its call's attributes.
    pub(crate) fn new(attrs: &dyn Attributes, g: &Tensor) -> Result<Part> {
        if let Some(&attrs::Select { dim, index }) = attrs.downcast() {
            return Ok(Part {
                g: g.unsqueeze(dim)?,
                dim,
                start: index,
                step: 1,
            });
        }
        let a = attrs.expect::<attrs::Slice>()?;
        Ok(Part {
            g: g.clone(),
            dim: a.dim,
            start: a.start,
            step: a.step,
        })
    }

    /// How many indices there are.
    pub(crate) fn len(&self) -> usize {
        self.g.dims()[self.dim]
    }

    /// Where the part lies in `whole`, if shapes and dtypes are such that it does.
    pub(crate) fn of(&self, whole: &Tensor) -> Result<Option<Tensor>> {
        let part = whole.window(self.dim, [self.start, self.len(), self.step]);
        if part.shape != *self.g.shape() || whole.dtype() != self.g.dtype() {
            return Ok(None);
        }
        whole.as_strided_raw(&part).map(Some)
    }
}

impl Tensor {
    /// Sets the indices of a range of a dimension to 0.
    pub(crate) fn clear_range(&self, dim: usize, range: Range<usize>) -> Result<()> {
        let part = self.window(dim, [range.start, range.len(), 1]);
        self.as_strided_raw(&part)?.zero_()?;
        Ok(())
    }
}

/// A tensor for the gradient that a node receives, not written yet. It lies as the operand of a
/// node that only orders dimensions anew, whose own derivative then is row-major.
pub(crate) fn uninit_for(
    node: &Node,
    shape: &Shape,
    dtype: DType,
    device: Device,
) -> Result<Tensor> {
    if let Kind::Op { record, attrs } = &node.kind
        && (std::ptr::eq(*record, &PERMUTE) || std::ptr::eq(*record, &TRANSPOSE))
        && let Rule::View(rule) = record.rule
    {
        let from = Layout::contiguous(node.input_spec(0).0.clone());
        let mut to = from.clone();
        let cx = ViewCx {
            layout: &from,
            dtype,
            attrs: attrs.get(),
        };
        rule(&cx, &mut to)?;
        if to.shape == *shape {
            return Tensor::uninit_as(to, dtype, device);
        }
    }
    Tensor::uninit_of(shape, dtype, device)
}
