//! Maximum pooling in two dimensions.

use smallvec::SmallVec;
use torsh_core::{Attr, DType, Kernel, Result, Shape, TorshError};

use super::conv::pair;
use crate::call::{Arg, call, call1};
use crate::record::{Backward, OpRecord, Plan, PlanCx, Sample, Spec};
use crate::{Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[&MAX_POOL2D, &MAX_POOL2D_BACKWARD];

/// The optional arguments of [`Tensor::max_pool2d_with`], by PyTorch's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxPool2dOptions {
    /// Steps of the window down and right; the window's own size where not given.
    pub stride: Option<[i64; 2]>,
    /// Rows and columns around the image that never win; at most half the window.
    pub padding: [i64; 2],
    /// Steps between the window's elements.
    pub dilation: [i64; 2],
    /// Whether a window that reaches past the end counts.
    pub ceil_mode: bool,
}

impl Default for MaxPool2dOptions {
    fn default() -> MaxPool2dOptions {
        MaxPool2dOptions {
            stride: None,
            padding: [0, 0],
            dilation: [1, 1],
            ceil_mode: false,
        }
    }
}

impl MaxPool2dOptions {
    /// The defaults.
    pub fn new() -> MaxPool2dOptions {
        MaxPool2dOptions::default()
    }
    /// The same stride down and right.
    #[must_use]
    pub fn stride(mut self, stride: i64) -> MaxPool2dOptions {
        self.stride = Some([stride, stride]);
        self
    }
    /// The same padding on all sides.
    #[must_use]
    pub fn padding(mut self, padding: i64) -> MaxPool2dOptions {
        self.padding = [padding, padding];
        self
    }
    /// The same dilation down and right.
    #[must_use]
    pub fn dilation(mut self, dilation: i64) -> MaxPool2dOptions {
        self.dilation = [dilation, dilation];
        self
    }
    /// Whether a window that reaches past the end counts.
    #[must_use]
    pub fn ceil_mode(mut self, ceil_mode: bool) -> MaxPool2dOptions {
        self.ceil_mode = ceil_mode;
        self
    }
}

/// How many windows fit.
fn windows(input: i64, kernel: i64, stride: i64, padding: i64, dilation: i64, ceil: bool) -> i64 {
    let room =
        input + 2 * padding - dilation * (kernel - 1) - 1 + if ceil { stride - 1 } else { 0 };
    let n = room.div_euclid(stride) + 1;
    // The last window must start inside the image or the padding before it.
    if ceil && (n - 1) * stride >= input + padding {
        n - 1
    } else {
        n
    }
}

/// Attributes: kernel, stride, padding, dilation, ceil_mode, whether the indices are wanted.
fn plan(c: &PlanCx<'_>) -> Result<Plan> {
    let x = c.tensor(0)?;
    let d = x.dims();
    let at = |i: usize, axis: usize| c.attr(i).ints()[axis];
    let size = |axis: usize| {
        windows(
            d[2 + axis] as i64,
            at(0, axis),
            at(1, axis),
            at(2, axis),
            at(3, axis),
            c.attr(4).bool(),
        )
    };
    let (h, w) = (size(0), size(1));
    if h < 1 || w < 1 {
        return Err(TorshError::shape(
            "",
            format!(
                "Given input size: ({}x{}x{}). Calculated output size: ({}x{h}x{w}). Output size is too small",
                d[1], d[2], d[3], d[1]
            ),
        ));
    }
    let shape = Shape::new(&[d[0], d[1], h as usize, w as usize]);
    let mut outputs = vec![Spec::new(shape.clone(), x.dtype())];
    if c.attr(5).bool() {
        outputs.push(Spec::new(shape, DType::I64));
    }
    Ok(Plan::many(x.dtype(), outputs))
}

/// Maxima of windows and where they are.
pub static MAX_POOL2D: OpRecord = OpRecord::new(
    "nn.functional.max_pool2d",
    "Maxima over windows of images [n, c, h, w] (or one of [c, h, w]); with return_indices also where in its plane each is.",
    "(Tensor input, int[2] kernel_size, int[2]? stride=None, int[2] padding=0, int[2] dilation=1, bool ceil_mode=False, bool return_indices=False)",
)
.kernel(Kernel::MaxPool2d, plan)
.backward(Backward::Full {
    inputs: 0,
    outputs: 2,
    constant: 2,
    formula: |c| {
        let shape: SmallVec<[i64; 6]> = c.input_shape(0).iter().map(|&v| v as i64).collect();
        let g = call1(&MAX_POOL2D_BACKWARD, &[Arg::T(c.g()), Arg::T(&c.output(1)?)], &[Attr::Ints(&shape)])?;
        Ok(SmallVec::from_iter([Some(g)]))
    },
})
.by_name(|b| {
    let kernel = pair("kernel_size", &b.ints(1))?;
    let stride = match b.opt_ints(2) {
        Some(v) if !v.is_empty() => Some(pair("stride", &v)?),
        _ => None,
    };
    let options = MaxPool2dOptions {
        stride,
        padding: pair("padding", &b.ints(3))?,
        dilation: pair("dilation", &b.ints(4))?,
        ceil_mode: b.bool(5),
    };
    if b.bool(6) {
        return b.tensor(0)?.max_pool2d_indices(kernel, options).map(Value::from);
    }
    b.tensor(0)?.max_pool2d_with(kernel, options).map(Value::Tensor)
})
.samples(|s| {
    Ok(vec![
        Sample::new([s.distinct(&[2, 2, 4, 4])?.into(), Value::Int(2)]),
        Sample::new([s.distinct(&[1, 5, 6])?.into(), Value::Int(3)])
            .kw("stride", vec![2i64, 1])
            .kw("padding", vec![1i64, 1])
            .kw("dilation", vec![1i64, 2]),
        Sample::new([s.distinct(&[1, 1, 5, 5])?.into(), Value::Int(2)]).kw("ceil_mode", true),
    ])
});

/// Gradients put where the maxima were.
pub static MAX_POOL2D_BACKWARD: OpRecord = OpRecord::new(
    "_max_pool2d_backward",
    "The gradient of the input of max_pool2d.",
    "",
)
.kernel(Kernel::MaxPool2dBackward, |c| {
    let dims: Vec<usize> = c.attr(0).ints().iter().map(|&v| v as usize).collect();
    let dtype = c.tensor(0)?.dtype();
    Ok(Plan::one(dtype, Shape::new(&dims), dtype))
})
.grads(2, 0, |c| {
    let indices = c.input(1)?;
    let v = c
        .g()
        .flatten_dims(-2, -1)?
        .gather(-1, &indices.flatten_dims(-2, -1)?)?;
    Ok(SmallVec::from_iter([
        Some(v.reshape(indices.shape())?),
        None,
    ]))
});

impl Tensor {
    /// Maxima over windows of `kernel_size`, which do not overlap
    /// (`torch.nn.functional.max_pool2d`); images are `[n, c, h, w]` or one of `[c, h, w]`.
    #[track_caller]
    pub fn max_pool2d(&self, kernel_size: [i64; 2]) -> Result<Tensor> {
        self.max_pool2d_with(kernel_size, MaxPool2dOptions::default())
    }

    /// [`Tensor::max_pool2d`] with stride, padding, dilation and ceil_mode.
    #[track_caller]
    pub fn max_pool2d_with(
        &self,
        kernel_size: [i64; 2],
        options: MaxPool2dOptions,
    ) -> Result<Tensor> {
        let wanted = self.requires_grad() && crate::is_grad_enabled();
        Ok(self.pooled(kernel_size, options, wanted)?.0)
    }

    /// [`Tensor::max_pool2d_with`], and the int64 index of each maximum in its plane.
    #[track_caller]
    pub fn max_pool2d_indices(
        &self,
        kernel_size: [i64; 2],
        options: MaxPool2dOptions,
    ) -> Result<(Tensor, Tensor)> {
        match self.pooled(kernel_size, options, true)? {
            (values, Some(indices)) => Ok((values, indices)),
            (values, None) => Err(TorshError::invalid(
                MAX_POOL2D.name,
                format!("no indices for {}", values.describe()),
            )),
        }
    }

    #[track_caller]
    fn pooled(
        &self,
        kernel: [i64; 2],
        options: MaxPool2dOptions,
        indices: bool,
    ) -> Result<(Tensor, Option<Tensor>)> {
        let at = std::panic::Location::caller();
        let invalid = |message: String| {
            Err(TorshError::invalid("", message).in_op(
                MAX_POOL2D.base_name(),
                || vec![self.describe()],
                at,
            ))
        };
        let (stride, padding) = (options.stride.unwrap_or(kernel), options.padding);
        let dilation = options.dilation;
        let limit = 1i64 << 30;
        if [kernel, stride, padding, dilation]
            .iter()
            .flatten()
            .any(|&v| v > limit)
        {
            return invalid("the sizes of the window are larger than any image".to_string());
        }
        if kernel.iter().any(|&v| v <= 0) {
            return invalid(format!(
                "kernel size should be greater than zero, but got {kernel:?}"
            ));
        }
        if stride.iter().any(|&v| v <= 0) {
            return invalid(format!(
                "stride should be greater than zero, but got {stride:?}"
            ));
        }
        if dilation.iter().any(|&v| v <= 0) {
            return invalid(format!(
                "dilation should be greater than zero, but got {dilation:?}"
            ));
        }
        if padding.iter().any(|&v| v < 0) {
            return invalid(format!(
                "pad must be non-negative, but got pad: {padding:?}"
            ));
        }
        for axis in 0..2 {
            if padding[axis] > ((kernel[axis] - 1) * dilation[axis] + 1) / 2 {
                return invalid(format!(
                    "pad should be at most half of effective kernel size, but got pad={}, kernel_size={} and dilation={}",
                    padding[axis], kernel[axis], dilation[axis]
                ));
            }
        }
        let d = self.dims();
        let batched = d.len() == 4;
        // Only the batch may be empty.
        if !(matches!(d.len(), 3 | 4) && d[usize::from(batched)..].iter().all(|&n| n > 0)) {
            return invalid(format!(
                "Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got: {}",
                self.shape()
            ));
        }
        let x = if batched {
            self.clone()
        } else {
            self.unsqueeze(0)?
        };
        let attrs = [
            Attr::Ints(&kernel),
            Attr::Ints(&stride),
            Attr::Ints(&padding),
            Attr::Ints(&dilation),
            Attr::Bool(options.ceil_mode),
            Attr::Bool(indices),
        ];
        let mut outputs = call(&MAX_POOL2D, &[Arg::T(&x)], &attrs)?.into_iter();
        let (Some(values), indices) = (outputs.next(), outputs.next()) else {
            return invalid("the pooling gave no result".to_string());
        };
        if batched {
            return Ok((values, indices));
        }
        Ok((
            values.squeeze(0)?,
            indices.map(|i| i.squeeze(0)).transpose()?,
        ))
    }
}
