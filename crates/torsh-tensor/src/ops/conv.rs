//! Convolution in one to three dimensions and its transpose. Each of the three kernels is linear in
//! both operands, and their derivatives are the other two.

mod batch_norm;
pub(crate) mod methods;

use torsh_core::{DType, Dims, Ints, Kernel, Result, Shape, TorshError, attrs};

use crate::autocast::{Autocast, body_opt};
use crate::call::{Arg, call1};
use crate::node::Grads;
use crate::options::options;
use crate::record::{OpRecord, Plan, PlanCx, sample};
use crate::schema::Bound;
use crate::{BackwardCx, IntoDim, Sizes, Tensor, Value};

pub use batch_norm::{CONVOLUTION_BATCH_NORM, NormActivation};

pub(crate) const RECORDS: &[&OpRecord] = &[
    &CONVOLUTION,
    &CONVOLUTION_BATCH_NORM,
    &CONVOLUTION_TRANSPOSE,
    &CONVOLUTION_WEIGHT,
    &CONV1D,
    &CONV2D,
    &CONV3D,
    &CONV_TRANSPOSE1D,
    &CONV_TRANSPOSE2D,
    &CONV_TRANSPOSE3D,
];

/// How much an image with `N` spatial dimensions is padded with zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding<const N: usize = 2> {
    /// By this much on both sides of each dimension.
    Sizes([i64; N]),
    /// So that the output has the input's size; only for strides of 1.
    Same,
    /// Not at all.
    Valid,
    /// By this much before and behind each dimension, as TensorFlow's "same" padding at a stride needs it.
    Sides([[i64; 2]; N]),
    /// A string that is neither "same" nor "valid"; the function that gets it refuses it.
    #[doc(hidden)]
    Unknown(crate::named::Unknown),
}

impl<const N: usize> Padding<N> {
    /// Itself.
    ///
    /// # Errors
    /// If it was made of a string that is neither "same" nor "valid".
    #[doc(hidden)]
    #[torsh_tensor::names_caller]
    pub fn known(self) -> Result<Padding<N>> {
        match self {
            Padding::Unknown(word) => {
                let words = ["same", "valid"];
                Err(crate::named::refused(word.as_str(), "padding", words))
            }
            known => Ok(known),
        }
    }
}

/// The words "same" and "valid". The function that gets another refuses it.
impl<const N: usize> From<&str> for Padding<N> {
    fn from(word: &str) -> Self {
        match word {
            "same" => Padding::Same,
            "valid" => Padding::Valid,
            other => Padding::Unknown(crate::named::Unknown::new(other)),
        }
    }
}

impl<A: IntoDim, const N: usize> From<A> for Padding<N> {
    fn from(v: A) -> Self {
        Padding::Sizes([v.value(); N])
    }
}
impl<A: IntoDim, const N: usize> From<[A; N]> for Padding<N> {
    fn from(v: [A; N]) -> Self {
        Padding::Sizes(v.map(A::value))
    }
}
impl<const N: usize> From<Sizes<N>> for Padding<N> {
    fn from(v: Sizes<N>) -> Self {
        Padding::Sizes(v.0)
    }
}
impl<A: IntoDim, B: IntoDim> From<(A, B)> for Padding<2> {
    fn from(v: (A, B)) -> Self {
        Padding::Sizes(Sizes::from(v).0)
    }
}
impl<A: IntoDim, B: IntoDim, C: IntoDim> From<(A, B, C)> for Padding<3> {
    fn from(v: (A, B, C)) -> Self {
        Padding::Sizes(Sizes::from(v).0)
    }
}

options! {
    /// The optional arguments of a convolution in `N` dimensions, by PyTorch's names.
    #[derive(Copy, PartialEq, Eq)]
    ConvOptions<const N: usize> {
        /// Steps of the window.
        stride: [i64; N] = [1; N], impl Into<Sizes<N>> => |s| s.into().0;
        /// Zeros around the image: a number, one for each dimension, or one of the words.
        padding: Padding<N> = Padding::Sizes([0; N]), impl Into<Padding<N>> => |p| p.into();
        /// Steps between the window's taps.
        dilation: [i64; N] = [1; N], impl Into<Sizes<N>> => |s| s.into().0;
        /// Groups of channels that are convolved apart.
        groups: i64 = 1;
    }
}

/// The optional arguments of [`Tensor::conv1d_with`].
pub type Conv1dOptions = ConvOptions<1>;
/// The optional arguments of [`Tensor::conv2d_with`].
pub type Conv2dOptions = ConvOptions<2>;
/// The optional arguments of [`Tensor::conv3d_with`].
pub type Conv3dOptions = ConvOptions<3>;

options! {
    /// The optional arguments of a transposed convolution in `N` dimensions, by PyTorch's names.
    #[derive(Copy, PartialEq, Eq)]
    ConvTransposeOptions<const N: usize> {
        /// Steps of the window in the output.
        stride: [i64; N] = [1; N], impl Into<Sizes<N>> => |s| s.into().0;
        /// What the output loses on both sides.
        padding: [i64; N] = [0; N], impl Into<Sizes<N>> => |s| s.into().0;
        /// What it gains at the end; less than the stride or the dilation.
        output_padding: [i64; N] = [0; N], impl Into<Sizes<N>> => |s| s.into().0;
        /// Groups of channels that are convolved apart.
        groups: i64 = 1;
        /// Steps between the window's taps.
        dilation: [i64; N] = [1; N], impl Into<Sizes<N>> => |s| s.into().0;
    }
}

/// The optional arguments of [`Tensor::conv_transpose1d_with`].
pub type ConvTranspose1dOptions = ConvTransposeOptions<1>;
/// The optional arguments of [`Tensor::conv_transpose2d_with`].
pub type ConvTranspose2dOptions = ConvTransposeOptions<2>;
/// The optional arguments of [`Tensor::conv_transpose3d_with`].
pub type ConvTranspose3dOptions = ConvTransposeOptions<3>;

/// The shape that a call's attributes give its result.
pub(super) fn shape_of(sizes: &[i64]) -> Shape {
    sizes.iter().map(|&v| v as usize).collect::<Dims>().into()
}

/// The plan of a kernel whose attributes give the result's shape: of operand 0's dtype.
pub(super) fn given(c: &PlanCx<'_>, output_shape: &[i64]) -> Result<Plan> {
    let dtype = c.tensor(0)?.dtype();
    Ok(Plan::one(dtype, shape_of(output_shape), dtype))
}

/// The plan of the three kernels.
fn plan(c: &PlanCx<'_>) -> Result<Plan> {
    given(c, &c.attrs::<attrs::Conv>()?.output_shape)
}

/// One of the kernels with the attributes of the node `c` but for the result's shape.
fn linear(
    c: &BackwardCx<'_>,
    record: &'static OpRecord,
    a: &Tensor,
    b: &Tensor,
    shape: &Shape,
) -> Result<Tensor> {
    let attrs = attrs::Conv {
        output_shape: shape.dims().into(),
        ..c.attrs::<attrs::Conv>()?.clone()
    };
    call1(record, &[Arg::T(a), Arg::T(b)], &attrs)
}

/// The gradient of a bias: sums over all but the channels.
fn bias_grad(c: &BackwardCx<'_>) -> Result<Tensor> {
    let g = c.g();
    let channel = g.ndim() - c.attrs::<attrs::Conv>()?.stride.len() - 1;
    let others: Vec<i64> = (0..g.ndim())
        .filter(|&d| d != channel)
        .map(|d| d as i64)
        .collect();
    g.sum_dim(others, false)
}

/// `Some` of a gradient that is asked for.
fn wanted(needs: bool, grad: impl FnOnce() -> Result<Tensor>) -> Result<Option<Tensor>> {
    if needs { grad().map(Some) } else { Ok(None) }
}

/// Convolution in any number of dimensions; what `conv1d`, `conv2d` and `conv3d` call.
pub static CONVOLUTION: OpRecord = OpRecord::new(
    "convolution",
    "Convolution.",
    "(Tensor input, Tensor weight, Tensor? bias, *, int[] stride, int[] padding, int[] dilation, int groups, int[] output_shape)",
)
.internal()
    .kernel(Kernel::Conv, plan)
    .grads(3, 0, |c| {
        let (g, x, w) = (c.g(), c.input_shape(0), c.input_shape(1));
        Ok(Grads::from_iter([
            wanted(c.needs(0), || {
                linear(c, &CONVOLUTION_TRANSPOSE, g, &c.input(1)?.conj()?, x)
            })?,
            wanted(c.needs(1), || {
                linear(c, &CONVOLUTION_WEIGHT, g, &c.input(0)?.conj()?, w)
            })?,
            wanted(c.needs(2), || bias_grad(c))?,
        ]))
    });

/// The transpose of a convolution, which is also the gradient of its input.
pub static CONVOLUTION_TRANSPOSE: OpRecord = OpRecord::new(
    "convolution_transpose",
    "The transpose of a convolution.",
    "(Tensor input, Tensor weight, Tensor? bias, *, int[] stride, int[] padding, int[] dilation, int groups, int[] output_shape)",
)
.internal()
.kernel(Kernel::ConvTranspose, plan)
.grads(3, 0, |c| {
    let (g, x, w) = (c.g(), c.input_shape(0), c.input_shape(1));
    Ok(Grads::from_iter([
        wanted(c.needs(0), || {
            linear(c, &CONVOLUTION, g, &c.input(1)?.conj()?, x)
        })?,
        wanted(c.needs(1), || {
            linear(c, &CONVOLUTION_WEIGHT, &c.input(0)?.conj()?, g, w)
        })?,
        wanted(c.needs(2), || bias_grad(c))?,
    ]))
});

pub static CONVOLUTION_WEIGHT: OpRecord = OpRecord::new(
    "convolution_weight",
    "The gradient of the weight of a convolution.",
    "(Tensor grad_output, Tensor input, *, int[] stride, int[] padding, int[] dilation, int groups, int[] output_shape)",
)
.internal()
.kernel(Kernel::ConvWeight, plan)
.grads(3, 0, |c| {
    let (v, g, x) = (c.g(), c.input_shape(0), c.input_shape(1));
    Ok(Grads::from_iter([
        wanted(c.needs(0), || {
            linear(c, &CONVOLUTION, &c.input(1)?.conj()?, v, g)
        })?,
        wanted(c.needs(1), || {
            linear(c, &CONVOLUTION_TRANSPOSE, &c.input(0)?.conj()?, v, x)
        })?,
    ]))
});

/// `N` sizes, from one or `N`.
pub(crate) fn sizes<const N: usize>(name: &str, v: &[i64]) -> Result<[i64; N]> {
    match *v {
        [a] => Ok([a; N]),
        _ => v.try_into().map_err(|_| {
            TorshError::invalid(
                "",
                format!("expected {name} to be a single integer value or a list of {N} values, but got {v:?}"),
            )
        }),
    }
}

fn padding<const N: usize>(v: &Value) -> Result<Padding<N>> {
    Ok(match v {
        Value::Str(s) => Padding::from(s.as_str()).known()?,
        Value::Int(v) => Padding::from(*v),
        v => {
            let list = v.items().map(|l| {
                l.iter()
                    .filter_map(|i| i.number())
                    .map(|s| s.to_i64())
                    .collect()
            });
            Padding::Sizes(sizes("padding", &list.unwrap_or_else(Vec::new))?)
        }
    })
}

fn conv_by_name<const N: usize>(record: &'static OpRecord, b: &Bound) -> Result<Value> {
    let options = ConvOptions::<N> {
        stride: sizes("stride", &b.ints(3))?,
        padding: padding(b.value(4))?,
        dilation: sizes("dilation", &b.ints(5))?,
        groups: b.int(6),
    };
    b.tensor(0)?
        .convolution(record, b.tensor(1)?, b.opt_tensor(2), options)
        .map(Value::Tensor)
}

fn transpose_by_name<const N: usize>(record: &'static OpRecord, b: &Bound) -> Result<Value> {
    let options = ConvTransposeOptions::<N> {
        stride: sizes("stride", &b.ints(3))?,
        padding: sizes("padding", &b.ints(4))?,
        output_padding: sizes("output_padding", &b.ints(5))?,
        groups: b.int(6),
        dilation: sizes("dilation", &b.ints(7))?,
    };
    b.tensor(0)?
        .convolution_transpose(record, b.tensor(1)?, b.opt_tensor(2), options)
        .map(Value::Tensor)
}

pub static CONV1D: OpRecord = OpRecord::new(
    "nn.functional.conv1d",
    "Convolution of signals [n, c, l] (or one of [c, l]) with a weight of [o, c / groups, k] and a bias of [o].",
    "(Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, Any padding=0, int[1] dilation=1, int groups=1)",
)
.autocast(Autocast::Lower)
.by_name(|b| conv_by_name::<1>(&CONV1D, b))
.samples(|s| {
    Ok(vec![
        sample![s.real(&[2, 2, 6])?, s.real(&[3, 2, 3])?, s.real(&[3])?, padding = 1],
        sample![s.real(&[4, 7])?, s.real(&[4, 2, 2])?, s.real(&[4])?, stride = 2, dilation = 2, groups = 2],
        sample![s.real(&[1, 1, 5])?, s.real(&[2, 1, 4])?, padding = "same"],
        sample![s.complex(&[1, 2, 5])?, s.complex(&[2, 2, 3])?, s.complex(&[2])?],
    ])
});

pub static CONV2D: OpRecord = OpRecord::new(
    "nn.functional.conv2d",
    "Convolution of images [n, c, h, w] (or one of [c, h, w]) with a weight of [o, c / groups, kh, kw] and a bias of [o].",
    "(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, Any padding=0, int[2] dilation=1, int groups=1)",
)
.autocast(Autocast::Lower)
.by_name(|b| conv_by_name::<2>(&CONV2D, b))
.samples(|s| {
    Ok(vec![
        sample![s.real(&[2, 2, 4, 4])?, s.real(&[3, 2, 3, 2])?, s.real(&[3])?],
        sample![s.real(&[1, 2, 5, 5])?, s.real(&[4, 1, 3, 3])?, stride = [2, 1], padding = [1, 2], dilation = [1, 2], groups = 2],
        sample![s.real(&[2, 4, 4])?, s.real(&[3, 2, 2, 3])?, padding = "same"],
    ])
});

pub static CONV3D: OpRecord = OpRecord::new(
    "nn.functional.conv3d",
    "Convolution of volumes [n, c, d, h, w] (or one of [c, d, h, w]) with a weight of [o, c / groups, kd, kh, kw] and a bias of [o].",
    "(Tensor input, Tensor weight, Tensor? bias=None, int[3] stride=1, Any padding=0, int[3] dilation=1, int groups=1)",
)
.autocast(Autocast::Lower)
.by_name(|b| conv_by_name::<3>(&CONV3D, b))
.samples(|s| {
    Ok(vec![
        sample![s.real(&[2, 1, 3, 3, 4])?, s.real(&[2, 1, 2, 3, 2])?, s.real(&[2])?],
        sample![s.real(&[2, 3, 4, 3])?, s.real(&[2, 1, 2, 2, 2])?, stride = [1, 2, 1], padding = [1, 0, 1], dilation = [2, 1, 1], groups = 2],
    ])
});

pub static CONV_TRANSPOSE1D: OpRecord = OpRecord::new(
    "nn.functional.conv_transpose1d",
    "Transposed convolution of signals [n, c, l] (or one of [c, l]) with a weight of [c, o / groups, k] and a bias of [o].",
    "(Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, int[1] padding=0, int[1] output_padding=0, int groups=1, int[1] dilation=1)",
)
.autocast(Autocast::Lower)
.by_name(|b| transpose_by_name::<1>(&CONV_TRANSPOSE1D, b))
.samples(|s| {
    Ok(vec![
        sample![s.real(&[2, 2, 4])?, s.real(&[2, 3, 3])?, s.real(&[3])?],
        sample![s.real(&[2, 4])?, s.real(&[2, 2, 3])?, s.real(&[4])?, stride = 2, padding = 1, output_padding = 2, groups = 2, dilation = 3],
        sample![s.complex(&[1, 2, 3])?, s.complex(&[2, 1, 2])?],
    ])
});

pub static CONV_TRANSPOSE2D: OpRecord = OpRecord::new(
    "nn.functional.conv_transpose2d",
    "Transposed convolution of images [n, c, h, w] (or one of [c, h, w]) with a weight of [c, o / groups, kh, kw] and a bias of [o].",
    "(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, int[2] padding=0, int[2] output_padding=0, int groups=1, int[2] dilation=1)",
)
.autocast(Autocast::Lower)
.by_name(|b| transpose_by_name::<2>(&CONV_TRANSPOSE2D, b))
.samples(|s| {
    Ok(vec![
        sample![s.real(&[1, 2, 3, 3])?, s.real(&[2, 2, 2, 3])?, s.real(&[2])?],
        sample![s.real(&[2, 3, 2])?, s.real(&[2, 1, 3, 2])?, stride = [2, 1], padding = [1, 0], output_padding = [1, 0], groups = 2],
    ])
});

pub static CONV_TRANSPOSE3D: OpRecord = OpRecord::new(
    "nn.functional.conv_transpose3d",
    "Transposed convolution of volumes [n, c, d, h, w] (or one of [c, d, h, w]) with a weight of [c, o / groups, kd, kh, kw] and a bias of [o].",
    "(Tensor input, Tensor weight, Tensor? bias=None, int[3] stride=1, int[3] padding=0, int[3] output_padding=0, int groups=1, int[3] dilation=1)",
)
.autocast(Autocast::Lower)
.by_name(|b| transpose_by_name::<3>(&CONV_TRANSPOSE3D, b))
.samples(|s| {
    Ok(vec![sample![s.real(&[2, 2, 3, 2])?, s.real(&[2, 1, 2, 2, 2])?, s.real(&[1])?, stride = [2, 1, 2], padding = [1, 0, 0], output_padding = [1, 0, 1]]])
});

/// Windows that no image holds would overflow the arithmetic of sizes.
const LIMIT: i64 = 1 << 40;

/// The checks that a convolution and its transpose share, and whether there is a batch.
/// `weight_dim` is the dimension of the weight with the result's channels.
fn check<const N: usize>(
    name: &str,
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    [stride, padding, dilation, more]: [[i64; N]; 4],
    groups: i64,
    transposed: bool,
) -> Result<()> {
    let invalid = |m: String| Err(TorshError::invalid("", m));
    let shape = |m: String| Err(TorshError::shape("", m));
    if x.ndim() != N + 1 && x.ndim() != N + 2 {
        return shape(format!(
            "Expected {}D (unbatched) or {}D (batched) input to {name}, but got input of size: {}",
            N + 1,
            N + 2,
            x.shape()
        ));
    }
    if weight.ndim() != N + 2 {
        return shape(format!(
            "expected a {}-dimensional weight for a {N}-dimensional convolution, but got weight of size {}",
            N + 2,
            weight.shape()
        ));
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
    if padding.iter().any(|&p| p < 0) {
        return invalid(format!(
            "negative padding is not supported, got {padding:?}"
        ));
    }
    if more.iter().any(|&p| p < 0) {
        return invalid(format!(
            "negative output_padding is not supported, got {more:?}"
        ));
    }
    if [stride, padding, dilation, more]
        .as_flattened()
        .iter()
        .any(|&v| v > LIMIT)
        || groups > LIMIT
    {
        return invalid("the sizes of the window are larger than any image".to_string());
    }
    for (t, what) in [(Some(weight), "weight"), (bias, "bias")] {
        if let Some(t) = t
            && t.dtype() != x.dtype()
        {
            let m = format!(
                "Input type ({}) and {what} type ({}) should be the same",
                x.dtype(),
                t.dtype()
            );
            return Err(TorshError::dtype("", m).with_hint("convert the input with to_dtype(..)"));
        }
    }
    let (ws, groups) = (weight.dims(), groups as usize);
    if ws[0] < groups {
        return shape(format!(
            "Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got weight of size {} instead",
            weight.shape()
        ));
    }
    if !ws[0].is_multiple_of(groups) {
        return shape(format!(
            "Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of size {} instead",
            weight.shape()
        ));
    }
    let channels = x.dims()[x.ndim() - N - 1];
    let over = ws[1].saturating_mul(groups);
    let (expected, out) = if transposed {
        (ws[0], over)
    } else {
        (over, ws[0])
    };
    if channels != expected {
        return shape(format!(
            "Given {}, weight of size {}, expected input{} to have {expected} channels, but got {channels} channels instead",
            if transposed {
                "transposed=true".to_string()
            } else {
                format!("groups={groups}")
            },
            weight.shape(),
            x.shape(),
        ));
    }
    if let Some(b) = bias
        && b.dims() != [out]
    {
        return shape(format!(
            "Given weight of size {}, expected bias to be 1-dimensional with {out} elements, but got bias of size {} instead",
            weight.shape(),
            b.shape()
        ));
    }
    if ws[2..].contains(&0) {
        return shape("Kernel size can't be zero".to_string());
    }
    Ok(())
}

/// The output's spatial sizes, and the padding before the image.
fn conv_sizes<const N: usize>(
    x: &Tensor,
    weight: &Tensor,
    options: &ConvOptions<N>,
) -> Result<([i64; N], [i64; N])> {
    let (ws, mut size) = (&weight.dims()[2..], [0; N]);
    let (before, behind) = match options.padding.known()? {
        Padding::Sizes(p) => (p, p),
        Padding::Valid | Padding::Unknown(_) => ([0; N], [0; N]),
        Padding::Sides(sides) => (sides.map(|s| s[0]), sides.map(|s| s[1])),
        Padding::Same => {
            if options.stride != [1; N] {
                let m = "padding='same' is not supported for strided convolutions";
                return Err(TorshError::invalid("", m));
            }
            // What cannot be split evenly goes behind.
            let total: [i64; N] =
                std::array::from_fn(|d| (ws[d] as i64 - 1).saturating_mul(options.dilation[d]));
            (total.map(|t| t / 2), total.map(|t| t - t / 2))
        }
    };
    let xs = &x.dims()[x.ndim() - N..];
    for d in 0..N {
        let padded = xs[d] as i128 + before[d] as i128 + behind[d] as i128;
        let kernel = (ws[d] as i128 - 1) * options.dilation[d] as i128 + 1;
        if kernel > padded {
            let m = format!(
                "Calculated padded input size per channel: {padded}. Kernel size: {kernel}. Kernel size can't be greater than actual input size"
            );
            return Err(TorshError::shape("", m));
        }
        size[d] = ((padded - kernel) / options.stride[d] as i128 + 1) as i64;
    }
    Ok((size, before))
}

/// The spatial sizes of a transposed convolution's output.
fn transpose_sizes<const N: usize>(
    x: &Tensor,
    weight: &Tensor,
    options: &ConvTransposeOptions<N>,
) -> Result<[i64; N]> {
    let ConvTransposeOptions {
        stride,
        padding,
        output_padding,
        dilation,
        ..
    } = options;
    let (ws, xs, mut size) = (&weight.dims()[2..], &x.dims()[x.ndim() - N..], [0; N]);
    for d in 0..N {
        if output_padding[d] >= stride[d].max(dilation[d]) {
            let m = format!(
                "output padding must be smaller than either stride or dilation, but got output_padding: {output_padding:?}, stride: {stride:?}, dilation: {dilation:?}"
            );
            return Err(TorshError::invalid("", m));
        }
        let n = (xs[d] as i128 - 1) * stride[d] as i128 - 2 * padding[d] as i128
            + (ws[d] as i128 - 1) * dilation[d] as i128
            + output_padding[d] as i128
            + 1;
        if n < 0 || n > isize::MAX as i128 {
            let m = format!(
                "Given input size per channel: {xs:?}. Calculated output size of dimension {d}: {n}. Output size is too small"
            );
            return Err(TorshError::shape("", m));
        }
        size[d] = n as i64;
    }
    Ok(size)
}

/// The result's shape: the input's batch where it has one, the channels, the spatial sizes.
fn shape(x: &Tensor, channels: usize, size: &[i64]) -> Ints {
    let batch = (x.ndim() == size.len() + 2).then(|| x.dims()[0] as i64);
    let rest = size.iter().copied();
    batch
        .into_iter()
        .chain([channels as i64])
        .chain(rest)
        .collect()
}

/// The attributes of a convolution, whose operands it checks.
fn attributes<const N: usize>(
    op: &'static OpRecord,
    [x, weight]: [&Tensor; 2],
    bias: Option<&Tensor>,
    options: &ConvOptions<N>,
) -> Result<attrs::Conv> {
    let &ConvOptions {
        stride,
        padding,
        dilation,
        groups,
    } = options;
    let sides = match padding {
        Padding::Sizes(p) => p,
        _ => [0; N],
    };
    let sizes = [stride, sides, dilation, [0; N]];
    check(op.name, x, weight, bias, sizes, groups, false)?;
    let (size, before) = conv_sizes(x, weight, options)?;
    Ok(attrs::Conv {
        stride: stride.into(),
        padding: before.into(),
        dilation: dilation.into(),
        groups: groups as usize,
        output_shape: shape(x, weight.dims()[0], &size),
    })
}

/// Checks that memory can hold a result.
pub(super) fn check_shape(shape: &[i64], dtype: DType) -> Result<()> {
    shape_of(shape).checked_numel(dtype.size()).map(|_| ())
}

impl Tensor {
    #[track_caller]
    fn convolution<const N: usize>(
        &self,
        op: &'static OpRecord,
        weight: &Tensor,
        bias: Option<&Tensor>,
        options: ConvOptions<N>,
    ) -> Result<Tensor> {
        let at = std::panic::Location::caller();
        let run = |[x, weight]: [&Tensor; 2], bias: Option<&Tensor>| {
            let attrs = attributes(op, [x, weight], bias, &options)?;
            x.convolve(&CONVOLUTION, weight, bias, attrs)
        };
        body_opt(op.autocast, [self, weight], bias, run).map_err(|e: TorshError| {
            e.in_op(op.name, || vec![self.describe(), weight.describe()], at)
        })
    }

    #[track_caller]
    fn convolution_transpose<const N: usize>(
        &self,
        op: &'static OpRecord,
        weight: &Tensor,
        bias: Option<&Tensor>,
        options: ConvTransposeOptions<N>,
    ) -> Result<Tensor> {
        let at = std::panic::Location::caller();
        let ConvTransposeOptions {
            stride,
            padding,
            output_padding,
            groups,
            dilation,
        } = options;
        let run = |[x, weight]: [&Tensor; 2], bias: Option<&Tensor>| {
            check(
                op.name,
                x,
                weight,
                bias,
                [stride, padding, dilation, output_padding],
                groups,
                true,
            )?;
            let size = transpose_sizes(x, weight, &options)?;
            let shape = shape(x, weight.dims()[1].saturating_mul(groups as usize), &size);
            x.convolve(
                &CONVOLUTION_TRANSPOSE,
                weight,
                bias,
                attrs::Conv {
                    stride: stride.into(),
                    padding: padding.into(),
                    dilation: dilation.into(),
                    groups: groups as usize,
                    output_shape: shape,
                },
            )
        };
        body_opt(op.autocast, [self, weight], bias, run).map_err(|e: TorshError| {
            e.in_op(op.name, || vec![self.describe(), weight.describe()], at)
        })
    }

    fn convolve(
        &self,
        record: &'static OpRecord,
        weight: &Tensor,
        bias: Option<&Tensor>,
        attrs: attrs::Conv,
    ) -> Result<Tensor> {
        check_shape(&attrs.output_shape, self.dtype())?;
        match bias {
            Some(b) => call1(record, &[Arg::T(self), Arg::T(weight), Arg::T(b)], &attrs),
            None => call1(record, &[Arg::T(self), Arg::T(weight)], &attrs),
        }
    }
}
