//! Maximum pooling in one to three dimensions, over sliding windows and over ones that share the
//! input.

use smallvec::SmallVec;
use torsh_core::{Attributes, DType, Ints, Kernel, Result, TorshError, attrs};

use super::conv::{given, shape_of, sizes};
use crate::autocast::{Autocast, body};
use crate::call::{Arg, call, call1};
use crate::options::options;
use crate::record::{Backward, OpRecord, Plan, PlanCx, Spec, sample};
use crate::schema::Bound;
use crate::{BackwardCx, Grads, OutputSize, Sizes, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[
    &MAX_POOL,
    &ADAPTIVE_MAX_POOL,
    &MAX_POOL_BACKWARD,
    &MAX_POOL1D,
    &MAX_POOL2D,
    &MAX_POOL2D_BACKWARD,
    &MAX_POOL2D_BACKWARD_OF_ONES,
    &MAX_POOL3D,
    &ADAPTIVE_MAX_POOL1D,
    &ADAPTIVE_MAX_POOL2D,
    &ADAPTIVE_MAX_POOL3D,
];

options! {
    /// The optional arguments of a maximum pooling in `N` dimensions, by PyTorch's names.
    #[derive(Copy, PartialEq, Eq)]
    MaxPoolOptions<const N: usize> {
        /// Steps of the window; the window's own size where not given.
        stride: Option<[i64; N]> = None, impl Into<Sizes<N>> => |s| Some(s.into().0);
        /// Elements around the image that never win; at most half the window.
        padding: [i64; N] = [0; N], impl Into<Sizes<N>> => |s| s.into().0;
        /// Steps between the window's elements.
        dilation: [i64; N] = [1; N], impl Into<Sizes<N>> => |s| s.into().0;
        /// Whether a window that reaches past the end counts.
        ceil_mode: bool = false;
    }
}

/// The optional arguments of [`Tensor::max_pool1d_with`].
pub type MaxPool1dOptions = MaxPoolOptions<1>;
/// The optional arguments of [`Tensor::max_pool2d_with`].
pub type MaxPool2dOptions = MaxPoolOptions<2>;
/// The optional arguments of [`Tensor::max_pool3d_with`].
pub type MaxPool3dOptions = MaxPoolOptions<3>;

/// The plan of a maximum pooling: the maxima and, where they are wanted, their indices.
fn plan(c: &PlanCx<'_>, output_shape: &[i64], indices: bool) -> Result<Plan> {
    let (dtype, shape) = (c.tensor(0)?.dtype(), shape_of(output_shape));
    let mut outputs = vec![Spec::new(shape.clone(), dtype)];
    if indices {
        outputs.push(Spec::new(shape, DType::I64));
    }
    Ok(Plan::many(dtype, outputs))
}

fn max_backward(c: &BackwardCx<'_>, spatial: usize) -> Result<Grads> {
    let attrs = attrs::MaxPoolBackward {
        spatial,
        output_shape: c.input_shape(0).dims().into(),
    };
    let g = call1(
        &MAX_POOL_BACKWARD,
        &[Arg::T(c.g()), Arg::T(&c.output(1)?)],
        &attrs,
    )?;
    Ok(SmallVec::from_iter([Some(g)]))
}

/// The derivative of a maximum pooling.
const fn max_grad(formula: fn(&BackwardCx<'_>) -> Result<Grads>) -> Backward {
    Backward::Full {
        inputs: 0,
        outputs: 2,
        constant: 2,
        formula,
    }
}

pub static MAX_POOL: OpRecord = OpRecord::new(
    "max_pool_with_indices",
    "Maxima over windows.",
    "(Tensor input, *, int[] kernel_size, int[] stride, int[] padding, int[] dilation, bool return_indices, int[] output_shape)",
)
.internal()
    .kernel(Kernel::MaxPool, |c| {
        let a = c.attrs::<attrs::MaxPool>()?;
        plan(c, &a.output_shape, a.return_indices)
    })
    .backward(max_grad(|c| {
        max_backward(c, c.attrs::<attrs::MaxPool>()?.kernel_size.len())
    }));

pub static ADAPTIVE_MAX_POOL: OpRecord = OpRecord::new(
    "adaptive_max_pool",
    "Maxima over windows that share the input.",
    "(Tensor input, *, int spatial, bool return_indices, int[] output_shape)",
)
.internal()
.kernel(Kernel::AdaptiveMaxPool, |c| {
    let a = c.attrs::<attrs::AdaptiveMaxPool>()?;
    plan(c, &a.output_shape, a.return_indices)
})
.backward(max_grad(|c| {
    max_backward(c, c.attrs::<attrs::AdaptiveMaxPool>()?.spatial)
}));

pub static MAX_POOL_BACKWARD: OpRecord = OpRecord::new(
    "max_pool_backward",
    "The gradient of the input of a maximum pooling.",
    "(Tensor grad_output, Tensor indices, *, int spatial, int[] output_shape)",
)
.internal()
.kernel(Kernel::MaxPoolBackward, |c| {
    given(c, &c.attrs::<attrs::MaxPoolBackward>()?.output_shape)
})
.grads(2, 0, |c| {
    let (indices, a) = (c.input(1)?, c.attrs::<attrs::MaxPoolBackward>()?);
    let n = a.spatial as i64;
    let g = c.g().flatten_dims(-n, -1)?;
    let v = g.gather(-1, &indices.flatten_dims(-n, -1)?)?;
    Ok(SmallVec::from_iter([
        Some(v.reshape(indices.shape())?),
        None,
    ]))
});

/// How many windows fit.
fn windows(input: i64, kernel: i64, stride: i64, padding: i64, dilation: i64, ceil: bool) -> i128 {
    let [input, kernel, stride, padding, dilation] =
        [input, kernel, stride, padding, dilation].map(i128::from);
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

/// Checks that the input has `n` spatial dimensions and that only its batch is empty.
pub(super) fn check_input(x: &Tensor, n: usize) -> Result<()> {
    let d = x.dims();
    if (d.len() == n + 1 || d.len() == n + 2) && d[d.len() - n - 1..].iter().all(|&n| n > 0) {
        return Ok(());
    }
    let m = format!(
        "Expected {}D or {}D (batch mode) tensor with optional 0 dim batch size for input, but got: {}",
        n + 1,
        n + 2,
        x.shape()
    );
    Err(TorshError::shape("", m))
}

/// Checks a pooling's arguments, and gives the shape of its result.
pub(super) fn pooled_shape<const N: usize>(
    x: &Tensor,
    [kernel, stride, padding, dilation]: [[i64; N]; 4],
    ceil: bool,
) -> Result<Ints> {
    let invalid = |m: String| Err(TorshError::invalid("", m));
    check_input(x, N)?;
    if [kernel, stride, padding, dilation]
        .as_flattened()
        .iter()
        .any(|&v| v > i64::from(i32::MAX))
    {
        return invalid("the sizes of the window are larger than any image".to_string());
    }
    for (what, v) in [
        ("kernel size", kernel),
        ("stride", stride),
        ("dilation", dilation),
    ] {
        if v.iter().any(|&v| v <= 0) {
            return invalid(format!("{what} should be greater than zero, but got {v:?}"));
        }
    }
    if padding.iter().any(|&v| v < 0) {
        return invalid(format!(
            "pad must be non-negative, but got pad: {padding:?}"
        ));
    }
    let (batch, image) = x.dims().split_at(x.ndim() - N);
    let mut size = [0; N];
    for d in 0..N {
        if padding[d] > ((kernel[d] - 1) * dilation[d] + 1) / 2 {
            return invalid(format!(
                "pad should be at most half of effective kernel size, but got pad={}, kernel_size={} and dilation={}",
                padding[d], kernel[d], dilation[d]
            ));
        }
        let n = windows(
            image[d] as i64,
            kernel[d],
            stride[d],
            padding[d],
            dilation[d],
            ceil,
        );
        if n < 1 || n > i128::from(i64::MAX) {
            let m = format!(
                "Given input size: {}. Calculated output size of dimension {d}: {n}. Output size is too small",
                x.shape()
            );
            return Err(TorshError::shape("", m));
        }
        size[d] = n as i64;
    }
    Ok(batch.iter().map(|&n| n as i64).chain(size).collect())
}

/// Checks the input of an adaptive pooling, and gives the shape of its result.
pub(super) fn adaptive_shape<const N: usize>(x: &Tensor, size: OutputSize<N>) -> Result<Ints> {
    let d = x.dims();
    if d.len() < N + 1 {
        let m = format!(
            "Input dimension should be at least {}, but got an input of size {}",
            N + 1,
            x.shape()
        );
        return Err(TorshError::shape("", m));
    }
    if d.len() > N + 2 || d[1..].contains(&0) {
        let m = format!(
            "Expected {}D or {}D tensor with non-zero sizes for non-batch dimensions, but got: {}",
            N + 1,
            N + 2,
            x.shape()
        );
        return Err(TorshError::shape("", m));
    }
    let (batch, image) = d.split_at(d.len() - N);
    let size: [i64; N] = std::array::from_fn(|i| size.0[i].unwrap_or(image[i] as i64));
    if let Some(n) = size.iter().find(|&&n| n < 0) {
        let m =
            format!("elements of output_size must be greater than or equal to 0 but received {n}");
        return Err(TorshError::invalid("", m));
    }
    Ok(batch.iter().map(|&n| n as i64).chain(size).collect())
}

/// The size of an adaptive pooling's output by name: a number, or numbers and `None`s.
pub(super) fn output_size<const N: usize>(v: &Value) -> Result<OutputSize<N>> {
    let one = |v: &Value| match v {
        Value::None => Some(None),
        Value::Int(v) => Some(Some(*v)),
        _ => None,
    };
    let sizes: Option<Vec<_>> = match v.items() {
        Some(items) => items.iter().map(one).collect(),
        None => one(v).flatten().map(|n| vec![Some(n); N]),
    };
    let sizes = match sizes {
        Some(s) if s.len() == 1 => vec![s[0]; N],
        Some(s) => s,
        None => Vec::new(),
    };
    sizes.try_into().map(OutputSize).map_err(|_| {
        let m = match N {
            1 => "'output_size' should contain one int".to_string(),
            _ => format!("output_size must be an integer or {N} integers"),
        };
        TorshError::invalid("", m)
    })
}

/// The optional stride of a pooling by name.
pub(super) fn stride<const N: usize>(b: &Bound, i: usize) -> Result<Option<[i64; N]>> {
    match b.opt_ints(i) {
        Some(v) if !v.is_empty() => sizes("stride", &v).map(Some),
        _ => Ok(None),
    }
}

/// The size and the options of a pooling's call.
fn max_options<const N: usize>(b: &Bound) -> Result<([i64; N], MaxPoolOptions<N>)> {
    let options = MaxPoolOptions::<N> {
        stride: stride(b, 2)?,
        padding: sizes("padding", &b.ints(3))?,
        dilation: sizes("dilation", &b.ints(4))?,
        ceil_mode: b.bool(5),
    };
    Ok((sizes("kernel_size", &b.ints(1))?, options))
}

fn max_by_name<const N: usize>(record: &'static OpRecord, b: &Bound) -> Result<Value> {
    let (x, (kernel, options)) = (b.tensor(0)?, max_options::<N>(b)?);
    match b.bool(6) {
        true => x.max_pool_indices(record, kernel, options).map(Value::from),
        false => x.max_pool(record, kernel, options).map(Value::Tensor),
    }
}

fn adaptive_by_name<const N: usize>(record: &'static OpRecord, b: &Bound) -> Result<Value> {
    let (x, size) = (b.tensor(0)?, output_size::<N>(b.value(1))?);
    match b.bool(2) {
        true => x.adaptive_max_indices(record, size).map(Value::from),
        false => x.adaptive_max(record, size).map(Value::Tensor),
    }
}

pub static MAX_POOL1D: OpRecord = OpRecord::new(
    "nn.functional.max_pool1d",
    "Maxima over windows of signals [n, c, l] (or one of [c, l]); with return_indices also where in its signal each is.",
    "(Tensor input, int[1] kernel_size, int[1]? stride=None, int[1] padding=0, int[1] dilation=1, bool ceil_mode=False, bool return_indices=False)",
)
.by_name(|b| max_by_name::<1>(&MAX_POOL1D, b))
.samples(|s| {
    Ok(vec![
        sample![s.distinct(&[2, 2, 6])?, 2],
        sample![s.distinct(&[2, 7])?, 3, stride = 2, padding = 1, dilation = 2, ceil_mode = true],
    ])
});

pub static MAX_POOL2D: OpRecord = OpRecord::new(
    "nn.functional.max_pool2d",
    "Maxima over windows of images [n, c, h, w] (or one of [c, h, w]); with return_indices also where in its plane each is.",
    "(Tensor input, int[2] kernel_size, int[2]? stride=None, int[2] padding=0, int[2] dilation=1, bool ceil_mode=False, bool return_indices=False)",
)
.by_name(|b| max_by_name::<2>(&MAX_POOL2D, b))
.samples(|s| {
    Ok(vec![
        sample![s.distinct(&[2, 2, 4, 4])?, 2],
        sample![s.distinct(&[1, 5, 6])?, 3, stride = [2, 1], padding = [1, 1], dilation = [1, 2]],
        sample![s.distinct(&[1, 1, 5, 5])?, 2, ceil_mode = true],
    ])
});

/// The gradient of the images of [`MAX_POOL2D`], from that of its result and its indices.
#[torsh_tensor::by_name(put_back(grad_output, input, indices))]
pub static MAX_POOL2D_BACKWARD: OpRecord = OpRecord::new(
    "max_pool2d_with_indices_backward",
    "The gradient of the input of max_pool2d, put where the maxima were.",
    "(Tensor grad_output, Tensor input, int[2] kernel_size, int[2] stride, int[2] padding, int[2] dilation, bool ceil_mode, Tensor indices)",
);

/// The same of a gradient of ones, with the arguments of the pooling. Indices are always made, whatever `return_indices`
/// says.
pub static MAX_POOL2D_BACKWARD_OF_ONES: OpRecord = OpRecord::new(
    "max_pool2d_with_indices_backward.ones",
    "The gradient of the input of max_pool2d, for a gradient of ones.",
    "(Tensor input, int[2] kernel_size, int[2]? stride=None, int[2] padding=0, int[2] dilation=1, bool ceil_mode=False, bool return_indices=True)",
)
.overload()
.by_name(|b| {
    let (x, (kernel, options)) = (b.tensor(0)?, max_options::<2>(b)?);
    let (y, indices) = x.max_pool_indices(&MAX_POOL2D, kernel, options)?;
    put_back(&y.detach().ones_like()?, x, &indices).map(Value::Tensor)
});

/// Gradients where the maxima were. They do not depend on the images' values, whose own gradient is 0.
#[track_caller]
fn put_back(g: &Tensor, x: &Tensor, indices: &Tensor) -> Result<Tensor> {
    let op = "max_pool2d_with_indices_backward";
    let spatial = 2;
    if !matches!(x.ndim(), 3 | 4)
        || g.shape() != indices.shape()
        || g.ndim() != x.ndim()
        || g.dims()[..x.ndim() - 2] != x.dims()[..x.ndim() - 2]
    {
        let text = "expects images, and a gradient and indices of the pooling's shape";
        return x.named(op, Err(TorshError::shape("", text)));
    }
    if indices.dtype() != DType::I64 || g.dtype() != x.dtype() {
        let text = "expects a gradient of the images' dtype, and int64 indices";
        return x.named(op, Err(TorshError::dtype("", text)));
    }
    let plane = (x.dims()[x.ndim() - 2] * x.dims()[x.ndim() - 1]) as i64;
    let inside = indices.ge(0)?.logical_and(&indices.lt(plane)?)?;
    crate::check::check(&inside, torsh_core::CallSite::here(op), || {
        torsh_core::attrs::Assert::value("an index is outside of its image")
    })?;
    let attrs = attrs::MaxPoolBackward {
        spatial,
        output_shape: x.dims().into(),
    };
    let y = call1(&MAX_POOL_BACKWARD, &[Arg::T(g), Arg::T(indices)], &attrs)?;
    match x.requires_grad() {
        true => y.add(&x.where_zero(&Tensor::ones(x.shape(), DType::Bool, x.device())?, true)?),
        false => Ok(y),
    }
}

pub static MAX_POOL3D: OpRecord = OpRecord::new(
    "nn.functional.max_pool3d",
    "Maxima over windows of volumes [n, c, d, h, w] (or one of [c, d, h, w]); with return_indices also where in its volume each is.",
    "(Tensor input, int[3] kernel_size, int[3]? stride=None, int[3] padding=0, int[3] dilation=1, bool ceil_mode=False, bool return_indices=False)",
)
.autocast(Autocast::Fp32)
.by_name(|b| max_by_name::<3>(&MAX_POOL3D, b))
.samples(|s| {
    Ok(vec![
        sample![s.distinct(&[1, 2, 2, 4, 3])?, 2],
        sample![s.distinct(&[1, 3, 4, 4])?, 2, stride = [1, 2, 2], padding = [1, 0, 1]],
    ])
});

pub static ADAPTIVE_MAX_POOL1D: OpRecord = OpRecord::new(
    "nn.functional.adaptive_max_pool1d",
    "Maxima of output_size parts of signals [n, c, l] (or one of [c, l]); with return_indices also where each is.",
    "(Tensor input, Any output_size, bool return_indices=False)",
)
.by_name(|b| adaptive_by_name::<1>(&ADAPTIVE_MAX_POOL1D, b))
.samples(|s| Ok(vec![sample![s.distinct(&[2, 2, 7])?, 3]]));

pub static ADAPTIVE_MAX_POOL2D: OpRecord = OpRecord::new(
    "nn.functional.adaptive_max_pool2d",
    "Maxima of output_size parts of images [n, c, h, w] (or one of [c, h, w]), None keeping a size; with return_indices also where each is.",
    "(Tensor input, Any output_size, bool return_indices=False)",
)
.by_name(|b| adaptive_by_name::<2>(&ADAPTIVE_MAX_POOL2D, b))
.samples(|s| {
    Ok(vec![
        sample![s.distinct(&[1, 2, 5, 4])?, [3, 2]],
        sample![s.distinct(&[2, 3, 3])?, 2],
    ])
});

pub static ADAPTIVE_MAX_POOL3D: OpRecord = OpRecord::new(
    "nn.functional.adaptive_max_pool3d",
    "Maxima of output_size parts of volumes [n, c, d, h, w] (or one of [c, d, h, w]), None keeping a size; with return_indices also where each is.",
    "(Tensor input, Any output_size, bool return_indices=False)",
)
.autocast(Autocast::Fp32)
.by_name(|b| adaptive_by_name::<3>(&ADAPTIVE_MAX_POOL3D, b))
.samples(|s| Ok(vec![sample![s.distinct(&[1, 1, 3, 4, 3])?, [2, 3, 1]]]));

impl Tensor {
    /// The maxima, and their indices where they are wanted or a gradient will need them, which
    /// `attrs` is told.
    #[track_caller]
    fn maxima<A: Attributes>(
        &self,
        op: &'static OpRecord,
        record: &'static OpRecord,
        indices: bool,
        attrs: impl FnOnce(bool) -> Result<A>,
    ) -> Result<(Tensor, Option<Tensor>)> {
        let run = |[x]: [&Tensor; 1]| {
            let attrs = attrs(indices || x.requires_grad() && crate::is_grad_enabled())?;
            let mut outputs = call(record, &[Arg::T(x)], &attrs)?.into_iter();
            let (Some(values), indices) = (outputs.next(), outputs.next()) else {
                return Err(TorshError::invalid("", "the pooling gave no result"));
            };
            Ok((values, indices))
        };
        // PyTorch's max_pool3d is only cast where its indices are not asked for.
        let class = match indices && std::ptr::eq(op, &MAX_POOL3D) {
            true => Autocast::Keep,
            false => op.autocast,
        };
        self.named(op.name, body(class, [self], run))
    }

    #[track_caller]
    fn max_pool<const N: usize>(
        &self,
        op: &'static OpRecord,
        kernel: [i64; N],
        options: MaxPoolOptions<N>,
    ) -> Result<Tensor> {
        Ok(self.max_pooled(op, kernel, options, false)?.0)
    }

    #[track_caller]
    fn max_pooled<const N: usize>(
        &self,
        op: &'static OpRecord,
        kernel: [i64; N],
        options: MaxPoolOptions<N>,
        indices: bool,
    ) -> Result<(Tensor, Option<Tensor>)> {
        let MaxPoolOptions {
            stride,
            padding,
            dilation,
            ceil_mode,
        } = options;
        let stride = stride.unwrap_or(kernel);
        self.maxima(op, &MAX_POOL, indices, |return_indices| {
            let window = [kernel, stride, padding, dilation];
            Ok(attrs::MaxPool {
                kernel_size: kernel.into(),
                stride: stride.into(),
                padding: padding.into(),
                dilation: dilation.into(),
                return_indices,
                output_shape: pooled_shape(self, window, ceil_mode)?,
            })
        })
    }

    #[track_caller]
    fn max_pool_indices<const N: usize>(
        &self,
        op: &'static OpRecord,
        kernel: [i64; N],
        options: MaxPoolOptions<N>,
    ) -> Result<(Tensor, Tensor)> {
        self.both(op, self.max_pooled(op, kernel, options, true)?)
    }

    #[track_caller]
    fn adaptive_maxed<const N: usize>(
        &self,
        op: &'static OpRecord,
        size: OutputSize<N>,
        indices: bool,
    ) -> Result<(Tensor, Option<Tensor>)> {
        self.maxima(op, &ADAPTIVE_MAX_POOL, indices, |return_indices| {
            Ok(attrs::AdaptiveMaxPool {
                spatial: N,
                return_indices,
                output_shape: adaptive_shape(self, size)?,
            })
        })
    }

    #[track_caller]
    fn adaptive_max<const N: usize>(
        &self,
        op: &'static OpRecord,
        size: OutputSize<N>,
    ) -> Result<Tensor> {
        Ok(self.adaptive_maxed(op, size, false)?.0)
    }

    #[track_caller]
    fn adaptive_max_indices<const N: usize>(
        &self,
        op: &'static OpRecord,
        size: OutputSize<N>,
    ) -> Result<(Tensor, Tensor)> {
        self.both(op, self.adaptive_maxed(op, size, true)?)
    }

    fn both(
        &self,
        op: &'static OpRecord,
        pooled: (Tensor, Option<Tensor>),
    ) -> Result<(Tensor, Tensor)> {
        match pooled {
            (values, Some(indices)) => Ok((values, indices)),
            (values, None) => Err(TorshError::invalid(
                op.name,
                format!("no indices for {}", values.describe()),
            )),
        }
    }
}

macro_rules! methods {
    ($($n:literal $what:literal $max:ident $max_test:literal $max_with:ident $max_with_test:literal $max_indices:ident $max_function:ident $max_indices_test:literal $max_record:ident
       $adaptive:ident $adaptive_test:literal $adaptive_indices:ident $adaptive_function:ident $adaptive_indices_test:literal $adaptive_record:ident;)*) => {
        #[torsh_tensor::functions]
        impl Tensor {$(
            #[doc = concat!("Maxima over windows of `kernel_size`, which do not overlap, of ", $what, " (`torch.nn.functional.", stringify!($max), "`). Keeps the dtype. An error for other dimensions, and where no window fits.")]
            #[doc = crate::options::example!($max_test)]
            #[function]
            #[torsh_tensor::names_caller]
            pub fn $max(&self, kernel_size: impl Into<Sizes<$n>>) -> Result<Tensor> {
                self.max_pool(&$max_record, kernel_size.into().0, MaxPoolOptions::default())
            }

            #[doc = concat!("[`Tensor::", stringify!($max), "`] with `stride`, `padding`, `dilation` and `ceil_mode`. An error for a padding of more than half a window, and for strides or dilations below 1.")]
            #[doc = crate::options::example!($max_with_test)]
            #[function]
            #[torsh_tensor::names_caller]
            pub fn $max_with(&self, kernel_size: impl Into<Sizes<$n>>, options: MaxPoolOptions<$n>) -> Result<Tensor> {
                self.max_pool(&$max_record, kernel_size.into().0, options)
            }

            #[doc = concat!("[`Tensor::", stringify!($max_with), "`], and the int64 index of each maximum among the elements of its channel.")]
            #[doc = crate::options::example!($max_indices_test)]
            #[function(name = $max_function)]
            #[torsh_tensor::names_caller]
            pub fn $max_indices(&self, kernel_size: impl Into<Sizes<$n>>, options: MaxPoolOptions<$n>) -> Result<(Tensor, Tensor)> {
                self.max_pool_indices(&$max_record, kernel_size.into().0, options)
            }

            #[doc = concat!("Maxima of `output_size` parts of about equal size, which may overlap, of ", $what, " (`torch.nn.functional.", stringify!($adaptive), "`); `None` keeps a size. Keeps the dtype. An error for other dimensions, and for a negative size.")]
            #[doc = crate::options::example!($adaptive_test)]
            #[function]
            #[torsh_tensor::names_caller]
            pub fn $adaptive(&self, output_size: impl Into<OutputSize<$n>>) -> Result<Tensor> {
                self.adaptive_max(&$adaptive_record, output_size.into())
            }

            #[doc = concat!("[`Tensor::", stringify!($adaptive), "`], and the int64 index of each maximum among the elements of its channel.")]
            #[doc = crate::options::example!($adaptive_indices_test)]
            #[function(name = $adaptive_function)]
            #[torsh_tensor::names_caller]
            pub fn $adaptive_indices(&self, output_size: impl Into<OutputSize<$n>>) -> Result<(Tensor, Tensor)> {
                self.adaptive_max_indices(&$adaptive_record, output_size.into())
            }
        )*}
    };
}
methods! {
    1 "signals `[n, c, l]` or `[c, l]`"
        max_pool1d "# use torsh_tensor::tensor;\n\
            let x = tensor![[1.0, 3.0, 2.0, 6.0]];\n\
            assert_eq!(x.max_pool1d(2)?, tensor![[3.0, 6.0]]);"
        max_pool1d_with "use torsh_tensor::{MaxPool1dOptions, tensor};\n\
            let x = tensor![[1.0, 3.0, 2.0, 6.0]];\n\
            let y = x.max_pool1d_with(2, MaxPool1dOptions::new().stride(1))?;\n\
            assert_eq!(y, tensor![[3.0, 3.0, 6.0]]);"
        max_pool1d_indices max_pool1d_with_indices "use torsh_tensor::{MaxPool1dOptions, tensor};\n\
            let x = tensor![[1.0, 3.0, 2.0, 6.0]];\n\
            let pooled = x.max_pool1d_indices(2, MaxPool1dOptions::new())?;\n\
            assert_eq!(pooled, (tensor![[3.0, 6.0]], tensor![[1, 3]]));" MAX_POOL1D
        adaptive_max_pool1d "# use torsh_tensor::tensor;\n\
            let x = tensor![[1.0, 3.0, 2.0, 6.0]];\n\
            assert_eq!(x.adaptive_max_pool1d(1)?, tensor![[6.0]]);"
        adaptive_max_pool1d_indices adaptive_max_pool1d_with_indices "# use torsh_tensor::tensor;\n\
            let x = tensor![[1.0, 3.0, 2.0, 6.0]];\n\
            assert_eq!(x.adaptive_max_pool1d_indices(1)?, (tensor![[6.0]], tensor![[3]]));" ADAPTIVE_MAX_POOL1D;
    2 "images `[n, c, h, w]` or `[c, h, w]`"
        max_pool2d "# use torsh_tensor::tensor;\n\
            let x = tensor![[[1.0, 3.0], [2.0, 6.0]]];\n\
            assert_eq!(x.max_pool2d(2)?, tensor![[[6.0]]]);"
        max_pool2d_with "use torsh_tensor::{MaxPool2dOptions, tensor};\n\
            let x = tensor![[[1.0, 3.0], [2.0, 6.0]]];\n\
            let y = x.max_pool2d_with((1, 2), MaxPool2dOptions::new().stride(1))?;\n\
            assert_eq!(y, tensor![[[3.0], [6.0]]]);"
        max_pool2d_indices max_pool2d_with_indices "use torsh_tensor::{MaxPool2dOptions, tensor};\n\
            let x = tensor![[[1.0, 3.0], [2.0, 6.0]]];\n\
            let pooled = x.max_pool2d_indices(2, MaxPool2dOptions::new())?;\n\
            assert_eq!(pooled, (tensor![[[6.0]]], tensor![[[3]]]));" MAX_POOL2D
        adaptive_max_pool2d "# use torsh_tensor::tensor;\n\
            let x = tensor![[[1.0, 3.0], [2.0, 6.0]]];\n\
            assert_eq!(x.adaptive_max_pool2d((1, 2))?, tensor![[[2.0, 6.0]]]);"
        adaptive_max_pool2d_indices adaptive_max_pool2d_with_indices "# use torsh_tensor::tensor;\n\
            let x = tensor![[[1.0, 3.0], [2.0, 6.0]]];\n\
            let pooled = x.adaptive_max_pool2d_indices((1, 2))?;\n\
            assert_eq!(pooled, (tensor![[[2.0, 6.0]]], tensor![[[2, 3]]]));" ADAPTIVE_MAX_POOL2D;
    3 "volumes `[n, c, d, h, w]` or `[c, d, h, w]`"
        max_pool3d "# use torsh_tensor::tensor;\n\
            let x = tensor![[[[1.0, 3.0], [2.0, 6.0]]]];\n\
            assert_eq!(x.max_pool3d((1, 2, 2))?, tensor![[[[6.0]]]]);"
        max_pool3d_with "use torsh_tensor::{MaxPool3dOptions, tensor};\n\
            let x = tensor![[[[1.0, 3.0], [2.0, 6.0]]]];\n\
            let y = x.max_pool3d_with((1, 1, 2), MaxPool3dOptions::new().stride(1))?;\n\
            assert_eq!(y, tensor![[[[3.0], [6.0]]]]);"
        max_pool3d_indices max_pool3d_with_indices "use torsh_tensor::{MaxPool3dOptions, tensor};\n\
            let x = tensor![[[[1.0, 3.0], [2.0, 6.0]]]];\n\
            let pooled = x.max_pool3d_indices((1, 2, 2), MaxPool3dOptions::new())?;\n\
            assert_eq!(pooled, (tensor![[[[6.0]]]], tensor![[[[3]]]]));" MAX_POOL3D
        adaptive_max_pool3d "# use torsh_tensor::tensor;\n\
            let x = tensor![[[[1.0, 3.0], [2.0, 6.0]]]];\n\
            assert_eq!(x.adaptive_max_pool3d((1, 1, 2))?, tensor![[[[2.0, 6.0]]]]);"
        adaptive_max_pool3d_indices adaptive_max_pool3d_with_indices "# use torsh_tensor::tensor;\n\
            let x = tensor![[[[1.0, 3.0], [2.0, 6.0]]]];\n\
            let pooled = x.adaptive_max_pool3d_indices((1, 1, 2))?;\n\
            assert_eq!(pooled, (tensor![[[[2.0, 6.0]]]], tensor![[[[2, 3]]]]));" ADAPTIVE_MAX_POOL3D;
}
