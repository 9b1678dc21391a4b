//! Convolution in two dimensions. Each of the three kernels is linear in both operands, and their
//! derivatives are the other two.

use smallvec::SmallVec;
use torsh_core::{Attr, Kernel, Result, Shape, TorshError};

use crate::call::{Arg, call1};
use crate::node::Grads;
use crate::record::{OpRecord, Plan, PlanCx, Sample};
use crate::{Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[&CONV2D, &CONV2D_INPUT, &CONV2D_WEIGHT];

/// How much an image is padded with zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// By these rows above and below, and columns left and right.
    Sizes([i64; 2]),
    /// So that the output has the input's size; only for strides of 1.
    Same,
    /// Not at all.
    Valid,
}

impl From<i64> for Padding {
    fn from(v: i64) -> Padding {
        Padding::Sizes([v, v])
    }
}
impl From<i32> for Padding {
    fn from(v: i32) -> Padding {
        Padding::from(i64::from(v))
    }
}
impl From<usize> for Padding {
    fn from(v: usize) -> Padding {
        Padding::from(v as i64)
    }
}
impl From<[i64; 2]> for Padding {
    fn from(v: [i64; 2]) -> Padding {
        Padding::Sizes(v)
    }
}
impl From<(i64, i64)> for Padding {
    fn from(v: (i64, i64)) -> Padding {
        Padding::Sizes([v.0, v.1])
    }
}

/// The optional arguments of [`Tensor::conv2d_with`], by PyTorch's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv2dOptions {
    /// Steps of the window down and right.
    pub stride: [i64; 2],
    /// Zeros around the image.
    pub padding: Padding,
    /// Steps between the window's taps.
    pub dilation: [i64; 2],
    /// Groups of channels that are convolved apart.
    pub groups: i64,
}

impl Default for Conv2dOptions {
    fn default() -> Conv2dOptions {
        Conv2dOptions {
            stride: [1, 1],
            padding: Padding::Sizes([0, 0]),
            dilation: [1, 1],
            groups: 1,
        }
    }
}

impl Conv2dOptions {
    /// The defaults.
    pub fn new() -> Conv2dOptions {
        Conv2dOptions::default()
    }
    /// The same stride down and right.
    #[must_use]
    pub fn stride(mut self, stride: i64) -> Conv2dOptions {
        self.stride = [stride, stride];
        self
    }
    /// The padding: a number, a pair, or one of the words.
    #[must_use]
    pub fn padding(mut self, padding: impl Into<Padding>) -> Conv2dOptions {
        self.padding = padding.into();
        self
    }
    /// The same dilation down and right.
    #[must_use]
    pub fn dilation(mut self, dilation: i64) -> Conv2dOptions {
        self.dilation = [dilation, dilation];
        self
    }
    /// The number of groups.
    #[must_use]
    pub fn groups(mut self, groups: i64) -> Conv2dOptions {
        self.groups = groups;
        self
    }
}

/// Checks a convolution's operands (with a batch dimension) and gives the output's shape.
/// Attributes: stride, padding (above and left), dilation, groups, what more is below and right.
fn plan(c: &PlanCx<'_>) -> Result<Plan> {
    let (x, w) = (c.tensor(0)?, c.tensor(1)?);
    let groups = c.attr(3).int();
    let (xs, ws) = (x.dims(), w.dims());
    for (t, what) in [(Some(w), "weight"), (c.opt_tensor(2), "bias")] {
        if let Some(t) = t
            && t.dtype() != x.dtype()
        {
            return Err(TorshError::dtype(
                "",
                format!(
                    "Input type ({}) and {what} type ({}) should be the same",
                    x.dtype(),
                    t.dtype()
                ),
            ));
        }
    }
    if ws[0] < groups as usize {
        return Err(TorshError::shape(
            "",
            format!(
                "Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got weight of size {} instead",
                w.shape()
            ),
        ));
    }
    if !ws[0].is_multiple_of(groups as usize) {
        return Err(TorshError::shape(
            "",
            format!(
                "Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of size {} instead",
                w.shape()
            ),
        ));
    }
    if ws[1].checked_mul(groups as usize) != Some(xs[1]) {
        return Err(TorshError::shape(
            "",
            format!(
                "Given groups={groups}, weight of size {}, expected input{} to have {} channels, but got {} channels instead",
                w.shape(),
                x.shape(),
                ws[1].saturating_mul(groups as usize),
                xs[1]
            ),
        ));
    }
    if let Some(b) = c.opt_tensor(2)
        && b.dims() != [ws[0]]
    {
        return Err(TorshError::shape(
            "",
            format!(
                "Given weight of size {}, expected bias to be 1-dimensional with {} elements, but got bias of size {} instead",
                w.shape(),
                ws[0],
                b.shape()
            ),
        ));
    }
    let mut size = [0usize; 2];
    let at = |i: usize, d: usize| c.attr(i).ints().get(d).copied().unwrap_or(0);
    for (d, size) in size.iter_mut().enumerate() {
        let padded = xs[2 + d] as i128 + 2 * at(1, d) as i128 + at(4, d) as i128;
        let kernel = (ws[2 + d] as i128 - 1) * at(2, d) as i128 + 1;
        if ws[2 + d] == 0 || kernel > padded {
            return Err(TorshError::shape(
                "",
                format!(
                    "Calculated padded input size per channel: {padded}. Kernel size: {kernel}. Kernel size can't be {}",
                    if ws[2 + d] == 0 {
                        "zero"
                    } else {
                        "greater than actual input size"
                    }
                ),
            ));
        }
        *size = ((padded - kernel) / at(0, d) as i128 + 1) as usize;
    }
    Ok(Plan::one(
        x.dtype(),
        Shape::new(&[xs[0], ws[0], size[0], size[1]]),
        x.dtype(),
    ))
}

/// The output of a gradient's kernel: attribute 5 is its shape.
fn given(c: &PlanCx<'_>) -> Result<Plan> {
    let dtype = c.tensor(0)?.dtype();
    let dims: Vec<usize> = c.attr(5).ints().iter().map(|&v| v as usize).collect();
    Ok(Plan::one(dtype, Shape::new(&dims), dtype))
}

fn ints(shape: &[usize]) -> SmallVec<[i64; 6]> {
    shape.iter().map(|&v| v as i64).collect()
}

/// One of the gradients' kernels with the attributes of the node `c`.
fn gradient(
    c: &crate::BackwardCx<'_>,
    record: &'static OpRecord,
    a: &Tensor,
    b: &Tensor,
    shape: &[usize],
) -> Result<Tensor> {
    let shape = ints(shape);
    let attrs = [
        c.attr(0),
        c.attr(1),
        c.attr(2),
        c.attr(3),
        c.attr(4),
        Attr::Ints(&shape),
    ];
    call1(record, &[Arg::T(a), Arg::T(b)], &attrs)
}

fn again(c: &crate::BackwardCx<'_>, x: &Tensor, w: &Tensor) -> Result<Tensor> {
    let attrs = [c.attr(0), c.attr(1), c.attr(2), c.attr(3), c.attr(4)];
    call1(&CONV2D, &[Arg::T(x), Arg::T(w)], &attrs)
}

/// Convolution in two dimensions.
pub static CONV2D: OpRecord = OpRecord::new(
    "nn.functional.conv2d",
    "Convolution of images [n, c, h, w] (or one of [c, h, w]) with a weight of [o, c / groups, kh, kw] and a bias of [o].",
    "(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, Any padding=0, int[2] dilation=1, int groups=1)",
)
.kernel(Kernel::Conv2d, plan)
.grads(3, 0, |c| {
    let mut grads: Grads = SmallVec::from_iter([None, None, None]);
    let g = c.g();
    if c.needs(0) {
        grads[0] = Some(gradient(c, &CONV2D_INPUT, g, &c.input(1)?.conj()?, c.input_shape(0).dims())?);
    }
    if c.needs(1) {
        grads[1] = Some(gradient(c, &CONV2D_WEIGHT, g, &c.input(0)?.conj()?, c.input_shape(1).dims())?);
    }
    if c.needs(2) {
        grads[2] = Some(g.sum_dim([0, 2, 3], false)?);
    }
    Ok(grads)
})
.by_name(|b| {
    let padding = match b.value(4) {
        Value::Str(s) if s == "same" => Padding::Same,
        Value::Str(s) if s == "valid" => Padding::Valid,
        Value::Str(s) => {
            return Err(TorshError::invalid("", format!("Invalid padding string '{s}': it is 'valid' or 'same'")));
        }
        Value::Int(v) => Padding::from(*v),
        v => {
            let list: Option<Vec<i64>> = v.items().map(|l| l.iter().filter_map(|i| i.number()).map(|s| s.to_i64()).collect());
            Padding::Sizes(pair("padding", &list.unwrap_or_default())?)
        }
    };
    let options = Conv2dOptions {
        stride: pair("stride", &b.ints(3))?,
        padding,
        dilation: pair("dilation", &b.ints(5))?,
        groups: b.int(6),
    };
    b.tensor(0)?.conv2d_with(b.tensor(1)?, b.opt_tensor(2), options).map(Value::Tensor)
})
.samples(|s| {
    Ok(vec![
        Sample::new([s.real(&[2, 2, 4, 4])?.into(), s.real(&[3, 2, 3, 2])?.into(), s.real(&[3])?.into()]),
        Sample::new([s.real(&[1, 2, 5, 5])?.into(), s.real(&[4, 1, 3, 3])?.into()])
            .kw("stride", vec![2i64, 1])
            .kw("padding", vec![1i64, 2])
            .kw("dilation", vec![1i64, 2])
            .kw("groups", 2i64),
        Sample::new([s.real(&[2, 4, 4])?.into(), s.real(&[3, 2, 2, 3])?.into()]).kw("padding", "same"),
    ])
});

/// The gradient of a convolution's input, from the output's gradient and the weight.
pub static CONV2D_INPUT: OpRecord =
    OpRecord::new("_conv2d_input", "The gradient of the input of conv2d.", "")
        .kernel(Kernel::Conv2dInputGrad, given)
        .grads(3, 0, |c| {
            let v = c.g();
            let g = if c.needs(0) {
                Some(again(c, v, &c.input(1)?.conj()?)?)
            } else {
                None
            };
            let w = match c.needs(1) {
                true => Some(gradient(
                    c,
                    &CONV2D_WEIGHT,
                    &c.input(0)?.conj()?,
                    v,
                    c.input_shape(1).dims(),
                )?),
                false => None,
            };
            Ok(SmallVec::from_iter([g, w]))
        });

/// The gradient of a convolution's weight, from the output's gradient and the input.
pub static CONV2D_WEIGHT: OpRecord = OpRecord::new(
    "_conv2d_weight",
    "The gradient of the weight of conv2d.",
    "",
)
.kernel(Kernel::Conv2dWeightGrad, given)
.grads(3, 0, |c| {
    let v = c.g();
    let g = if c.needs(0) {
        Some(again(c, &c.input(1)?.conj()?, v)?)
    } else {
        None
    };
    let x = match c.needs(1) {
        true => Some(gradient(
            c,
            &CONV2D_INPUT,
            &c.input(0)?.conj()?,
            v,
            c.input_shape(1).dims(),
        )?),
        false => None,
    };
    Ok(SmallVec::from_iter([g, x]))
});

/// A pair of numbers, from one or two.
pub(crate) fn pair(name: &str, v: &[i64]) -> Result<[i64; 2]> {
    match *v {
        [a] => Ok([a, a]),
        [a, b] => Ok([a, b]),
        _ => Err(TorshError::invalid(
            "",
            format!(
                "expected {name} to be a single integer value or a list of 2 values, but got {v:?}"
            ),
        )),
    }
}

impl Tensor {
    /// Convolution of images `[n, c, h, w]` (or one of `[c, h, w]`) with a weight of
    /// `[o, c, kh, kw]` and a bias of `[o]`, with a stride of 1 and no padding
    /// (`torch.nn.functional.conv2d`).
    #[track_caller]
    pub fn conv2d(&self, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        self.conv2d_with(weight, bias, Conv2dOptions::default())
    }

    /// [`Tensor::conv2d`] with stride, padding, dilation and groups.
    #[track_caller]
    pub fn conv2d_with(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        options: Conv2dOptions,
    ) -> Result<Tensor> {
        let op = CONV2D.base_name();
        let at = std::panic::Location::caller();
        let named = |e: TorshError| e.in_op(op, || vec![self.describe(), weight.describe()], at);
        let invalid = |message: String| Err(named(TorshError::invalid("", message)));
        let Conv2dOptions {
            stride,
            dilation,
            groups,
            ..
        } = options;
        if !matches!(self.ndim(), 3 | 4) {
            let m = format!(
                "Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: {}",
                self.shape()
            );
            return Err(named(TorshError::shape("", m)));
        }
        if weight.ndim() != 4 {
            let m = format!(
                "expected a 4-dimensional weight for a 2-dimensional convolution, but got weight of size {}",
                weight.shape()
            );
            return Err(named(TorshError::shape("", m)));
        }
        if groups <= 0 {
            return invalid(format!(
                "non-positive groups is not supported, got {groups}"
            ));
        }
        if stride.iter().any(|&s| s <= 0) {
            return invalid(format!(
                "non-positive stride is not supported, got {stride:?}"
            ));
        }
        if dilation.iter().any(|&d| d <= 0) {
            return invalid(format!(
                "dilation should be greater than zero, got {dilation:?}"
            ));
        }
        let (padding, more) = match options.padding {
            Padding::Sizes(p) => (p, [0, 0]),
            Padding::Valid => ([0, 0], [0, 0]),
            Padding::Same => {
                if stride != [1, 1] {
                    return invalid(
                        "padding='same' is not supported for strided convolutions".to_string(),
                    );
                }
                // What cannot be split evenly goes below and right.
                let total = |d: usize| {
                    (weight.dims()[2 + d] as i64 - 1)
                        .max(0)
                        .saturating_mul(dilation[d])
                };
                ([total(0) / 2, total(1) / 2], [total(0) % 2, total(1) % 2])
            }
        };
        if padding.iter().any(|&p| p < 0) {
            return invalid(format!(
                "negative padding is not supported, got {padding:?}"
            ));
        }
        let limit = 1 << 40;
        if [stride, padding, dilation]
            .iter()
            .flatten()
            .any(|&v| v > limit)
            || groups > limit
        {
            return invalid("the sizes of the window are larger than any image".to_string());
        }
        let batched = self.ndim() == 4;
        let x = if batched {
            self.clone()
        } else {
            self.unsqueeze(0)?
        };
        let attrs = [
            Attr::Ints(&stride),
            Attr::Ints(&padding),
            Attr::Ints(&dilation),
            Attr::Int(groups),
            Attr::Ints(&more),
        ];
        let y = match bias {
            Some(b) => call1(&CONV2D, &[Arg::T(&x), Arg::T(weight), Arg::T(b)], &attrs)?,
            None => call1(&CONV2D, &[Arg::T(&x), Arg::T(weight)], &attrs)?,
        };
        if batched { Ok(y) } else { y.squeeze(0) }
    }
}
