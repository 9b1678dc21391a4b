//! Average pooling in one to three dimensions, over sliding windows and over ones that share the
//! input; and pooling by p-norms.

use smallvec::SmallVec;
use torsh_core::{Kernel, Result, TorshError, attrs};

use super::conv::{given, sizes};
use super::pool::{adaptive_shape, output_size, pooled_shape, stride};
use crate::autocast::{Autocast, body};
use crate::call::{Arg, call1};
use crate::options::options;
use crate::record::{OpRecord, Plan, PlanCx, sample};
use crate::schema::Bound;
use crate::{BackwardCx, Grads, OutputSize, Sizes, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[
    &AVG_POOL,
    &AVG_POOL_BACKWARD,
    &ADAPTIVE_AVG_POOL,
    &ADAPTIVE_AVG_POOL_BACKWARD,
    &AVG_POOL1D,
    &AVG_POOL2D,
    &AVG_POOL3D,
    &ADAPTIVE_AVG_POOL1D,
    &ADAPTIVE_AVG_POOL2D,
    &ADAPTIVE_AVG_POOL3D,
    &LP_POOL1D,
    &LP_POOL2D,
    &LP_POOL3D,
];

options! {
    /// The optional arguments of an average pooling in `N` dimensions, by PyTorch's names.
    #[derive(Copy, PartialEq, Eq)]
    AvgPoolOptions<const N: usize> {
        /// Steps of the window; the window's own size where not given.
        stride: Option<[i64; N]> = None, impl Into<Sizes<N>> => |s| Some(s.into().0);
        /// Zeros around the image; at most half the window.
        padding: [i64; N] = [0; N], impl Into<Sizes<N>> => |s| s.into().0;
        /// Whether a window that reaches past the end counts.
        ceil_mode: bool = false;
        /// Whether the zeros around the image count in the average.
        count_include_pad: bool = true;
        /// What the sums are divided by, instead of by the number of elements.
        divisor_override: Option<i64> = None, i64 => Some;
    }
}

/// The optional arguments of [`Tensor::avg_pool1d_with`].
pub type AvgPool1dOptions = AvgPoolOptions<1>;
/// The optional arguments of [`Tensor::avg_pool2d_with`].
pub type AvgPool2dOptions = AvgPoolOptions<2>;
/// The optional arguments of [`Tensor::avg_pool3d_with`].
pub type AvgPool3dOptions = AvgPoolOptions<3>;

options! {
    /// The optional arguments of pooling by p-norms in `N` dimensions, by PyTorch's names.
    ///
    /// ```
    /// use torsh_tensor::LpPoolOptions;
    /// let options = LpPoolOptions::<2>::new().stride(3);
    /// assert_eq!((options.stride, options.ceil_mode), (Some([3, 3]), false));
    /// ```
    #[derive(Copy, PartialEq, Eq)]
    LpPoolOptions<const N: usize> {
        /// Steps of the window; the window's own size where not given.
        stride: Option<[i64; N]> = None, impl Into<Sizes<N>> => |s| Some(s.into().0);
        /// Whether a window that reaches past the end counts.
        ceil_mode: bool = false;
    }
}

/// The plan of the kernels of sliding windows.
fn sliding(c: &PlanCx<'_>) -> Result<Plan> {
    given(c, &c.attrs::<attrs::AvgPool>()?.output_shape)
}

/// The plan of the kernels of windows that share the input.
fn adaptive(c: &PlanCx<'_>) -> Result<Plan> {
    given(c, &c.attrs::<attrs::AdaptiveAvgPool>()?.output_shape)
}

/// One of the kernels of sliding windows with the attributes of the node `c` but for the result's
/// shape; each is the derivative of the other.
fn sliding_grad(c: &BackwardCx<'_>, record: &'static OpRecord) -> Result<Grads> {
    let attrs = attrs::AvgPool {
        output_shape: c.input_shape(0).dims().into(),
        ..c.attrs::<attrs::AvgPool>()?.clone()
    };
    let g = call1(record, &[Arg::T(c.g())], &attrs)?;
    Ok(SmallVec::from_iter([Some(g)]))
}

/// As [`sliding_grad`], of windows that share the input.
fn adaptive_grad(c: &BackwardCx<'_>, record: &'static OpRecord) -> Result<Grads> {
    let attrs = attrs::AdaptiveAvgPool {
        spatial: c.attrs::<attrs::AdaptiveAvgPool>()?.spatial,
        output_shape: c.input_shape(0).dims().into(),
    };
    let g = call1(record, &[Arg::T(c.g())], &attrs)?;
    Ok(SmallVec::from_iter([Some(g)]))
}

pub static AVG_POOL: OpRecord = OpRecord::new(
    "avg_pool",
    "Averages over windows.",
    "(Tensor input, *, int[] kernel_size, int[] stride, int[] padding, bool count_include_pad, int? divisor_override, int[] output_shape)",
)
.internal()
    .kernel(Kernel::AvgPool, sliding)
    .grads(0, 0, |c| sliding_grad(c, &AVG_POOL_BACKWARD));

/// The transpose of [`AVG_POOL`].
pub static AVG_POOL_BACKWARD: OpRecord = OpRecord::new(
    "avg_pool_backward",
    "The gradient of the input of an average pooling.",
    "(Tensor grad_output, *, int[] kernel_size, int[] stride, int[] padding, bool count_include_pad, int? divisor_override, int[] output_shape)",
)
.internal()
.kernel(Kernel::AvgPoolBackward, sliding)
.grads(0, 0, |c| sliding_grad(c, &AVG_POOL));

pub static ADAPTIVE_AVG_POOL: OpRecord = OpRecord::new(
    "adaptive_avg_pool",
    "Averages over windows that share the input.",
    "(Tensor input, *, int spatial, int[] output_shape)",
)
.internal()
.kernel(Kernel::AdaptiveAvgPool, adaptive)
.grads(0, 0, |c| adaptive_grad(c, &ADAPTIVE_AVG_POOL_BACKWARD));

/// The transpose of [`ADAPTIVE_AVG_POOL`].
pub static ADAPTIVE_AVG_POOL_BACKWARD: OpRecord = OpRecord::new(
    "adaptive_avg_pool_backward",
    "The gradient of the input of an adaptive average pooling.",
    "(Tensor grad_output, *, int spatial, int[] output_shape)",
)
.internal()
.kernel(Kernel::AdaptiveAvgPoolBackward, adaptive)
.grads(0, 0, |c| adaptive_grad(c, &ADAPTIVE_AVG_POOL));

fn avg_by_name<const N: usize>(record: &'static OpRecord, b: &Bound) -> Result<Value> {
    let options = AvgPoolOptions::<N> {
        stride: stride(b, 2)?,
        padding: sizes("padding", &b.ints(3))?,
        ceil_mode: b.bool(4),
        count_include_pad: b.bool(5),
        divisor_override: b.opt_int(6),
    };
    let kernel = sizes("kernel_size", &b.ints(1))?;
    b.tensor(0)?
        .avg_pool(record, kernel, options)
        .map(Value::Tensor)
}

fn adaptive_by_name<const N: usize>(record: &'static OpRecord, b: &Bound) -> Result<Value> {
    let size = output_size::<N>(b.value(1))?;
    b.tensor(0)?.adaptive_avg(record, size).map(Value::Tensor)
}

fn lp_by_name<const N: usize>(
    record: &'static OpRecord,
    average: &'static OpRecord,
    b: &Bound,
) -> Result<Value> {
    let kernel = sizes::<N>("kernel_size", &b.ints(2))?;
    let options = LpPoolOptions {
        stride: stride(b, 3)?,
        ceil_mode: b.bool(4),
    };
    b.tensor(0)?
        .lp_pool(record, average, b.float(1), kernel, options)
        .map(Value::Tensor)
}

pub static AVG_POOL1D: OpRecord = OpRecord::new(
    "nn.functional.avg_pool1d",
    "Averages over windows of signals [n, c, l] (or one of [c, l]).",
    "(Tensor input, int[1] kernel_size, int[1]? stride=None, int[1] padding=0, bool ceil_mode=False, bool count_include_pad=True)",
)
.by_name(|b| avg_by_name::<1>(&AVG_POOL1D, b))
.samples(|s| {
    Ok(vec![
        sample![s.real(&[2, 2, 6])?, 2],
        sample![s.real(&[2, 7])?, 4, stride = 3, padding = 2, ceil_mode = true, count_include_pad = false],
    ])
});

pub static AVG_POOL2D: OpRecord = OpRecord::new(
    "nn.functional.avg_pool2d",
    "Averages over windows of images [n, c, h, w] (or one of [c, h, w]).",
    "(Tensor input, int[2] kernel_size, int[2]? stride=None, int[2] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None)",
)
.by_name(|b| avg_by_name::<2>(&AVG_POOL2D, b))
.samples(|s| {
    Ok(vec![
        sample![s.real(&[2, 2, 4, 4])?, 2],
        sample![s.real(&[1, 5, 6])?, 3, stride = [2, 1], padding = [1, 1], ceil_mode = true],
        sample![s.real(&[1, 1, 5, 5])?, 2, divisor_override = 3],
    ])
});

pub static AVG_POOL3D: OpRecord = OpRecord::new(
    "nn.functional.avg_pool3d",
    "Averages over windows of volumes [n, c, d, h, w] (or one of [c, d, h, w]).",
    "(Tensor input, int[3] kernel_size, int[3]? stride=None, int[3] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None)",
)
.autocast(Autocast::Fp32)
.by_name(|b| avg_by_name::<3>(&AVG_POOL3D, b))
.samples(|s| {
    Ok(vec![
        sample![s.real(&[1, 2, 2, 4, 3])?, 2],
        sample![s.real(&[1, 3, 4, 4])?, 2, stride = [1, 2, 1], padding = [1, 0, 1], count_include_pad = false],
    ])
});

pub static ADAPTIVE_AVG_POOL1D: OpRecord = OpRecord::new(
    "nn.functional.adaptive_avg_pool1d",
    "Averages of output_size parts of signals [n, c, l] (or one of [c, l]).",
    "(Tensor input, Any output_size)",
)
.by_name(|b| adaptive_by_name::<1>(&ADAPTIVE_AVG_POOL1D, b))
.samples(|s| Ok(vec![sample![s.real(&[2, 2, 7])?, 3]]));

pub static ADAPTIVE_AVG_POOL2D: OpRecord = OpRecord::new(
    "nn.functional.adaptive_avg_pool2d",
    "Averages of output_size parts of images [n, c, h, w] (or one of [c, h, w]), None keeping a size.",
    "(Tensor input, Any output_size)",
)
.by_name(|b| adaptive_by_name::<2>(&ADAPTIVE_AVG_POOL2D, b))
.samples(|s| {
    Ok(vec![
        sample![s.real(&[1, 2, 5, 4])?, [3, 7]],
        sample![s.real(&[2, 3, 3])?, 1],
    ])
});

pub static ADAPTIVE_AVG_POOL3D: OpRecord = OpRecord::new(
    "nn.functional.adaptive_avg_pool3d",
    "Averages of output_size parts of volumes [n, c, d, h, w] (or one of [c, d, h, w]), None keeping a size.",
    "(Tensor input, Any output_size)",
)
.autocast(Autocast::Fp32)
.by_name(|b| adaptive_by_name::<3>(&ADAPTIVE_AVG_POOL3D, b))
.samples(|s| Ok(vec![sample![s.real(&[1, 1, 3, 4, 3])?, [2, 3, 1]]]));

pub static LP_POOL1D: OpRecord = OpRecord::new(
    "nn.functional.lp_pool1d",
    "p-norms over windows of signals [n, c, l] (or one of [c, l]).",
    "(Tensor input, Scalar norm_type, int[1] kernel_size, int[1]? stride=None, bool ceil_mode=False)",
)
.by_name(|b| lp_by_name::<1>(&LP_POOL1D, &AVG_POOL1D, b))
.samples(|s| Ok(vec![sample![s.uniform(&[2, 2, 6], 0.2, 2.0)?, 2, 3, stride = 2]]));

pub static LP_POOL2D: OpRecord = OpRecord::new(
    "nn.functional.lp_pool2d",
    "p-norms over windows of images [n, c, h, w] (or one of [c, h, w]).",
    "(Tensor input, Scalar norm_type, int[2] kernel_size, int[2]? stride=None, bool ceil_mode=False)",
)
.by_name(|b| lp_by_name::<2>(&LP_POOL2D, &AVG_POOL2D, b))
.samples(|s| Ok(vec![sample![s.uniform(&[1, 2, 4, 5], 0.2, 2.0)?, 3.0, 2]]));

pub static LP_POOL3D: OpRecord = OpRecord::new(
    "nn.functional.lp_pool3d",
    "p-norms over windows of volumes [n, c, d, h, w] (or one of [c, d, h, w]).",
    "(Tensor input, Scalar norm_type, int[3] kernel_size, int[3]? stride=None, bool ceil_mode=False)",
)
.by_name(|b| lp_by_name::<3>(&LP_POOL3D, &AVG_POOL3D, b))
.samples(|s| Ok(vec![sample![s.uniform(&[1, 2, 3, 4], 0.2, 2.0)?, 2, 2]]));

impl Tensor {
    #[track_caller]
    fn avg_pool<const N: usize>(
        &self,
        op: &'static OpRecord,
        kernel: [i64; N],
        options: AvgPoolOptions<N>,
    ) -> Result<Tensor> {
        let run = |[x]: [&Tensor; 1]| {
            if options.divisor_override == Some(0) {
                return Err(TorshError::invalid("", "divisor must be not zero"));
            }
            let (stride, padding) = (options.stride.unwrap_or(kernel), options.padding);
            let window = [kernel, stride, padding, [1; N]];
            let attrs = attrs::AvgPool {
                kernel_size: kernel.into(),
                stride: stride.into(),
                padding: padding.into(),
                count_include_pad: options.count_include_pad,
                divisor_override: options.divisor_override,
                output_shape: pooled_shape(x, window, options.ceil_mode)?,
            };
            call1(&AVG_POOL, &[Arg::T(x)], &attrs)
        };
        self.named(op.name, body(op.autocast, [self], run))
    }

    #[track_caller]
    fn adaptive_avg<const N: usize>(
        &self,
        op: &'static OpRecord,
        size: OutputSize<N>,
    ) -> Result<Tensor> {
        let run = |[x]: [&Tensor; 1]| {
            let attrs = attrs::AdaptiveAvgPool {
                spatial: N,
                output_shape: adaptive_shape(x, size)?,
            };
            call1(&ADAPTIVE_AVG_POOL, &[Arg::T(x)], &attrs)
        };
        self.named(op.name, body(op.autocast, [self], run))
    }

    /// From the average of the powers, so that its gradient is PyTorch's where a window is all 0.
    #[track_caller]
    fn lp_pool<const N: usize>(
        &self,
        op: &'static OpRecord,
        average: &'static OpRecord,
        norm_type: f64,
        kernel: [i64; N],
        options: LpPoolOptions<N>,
    ) -> Result<Tensor> {
        let run = || {
            let options = AvgPoolOptions {
                stride: options.stride,
                ceil_mode: options.ceil_mode,
                ..AvgPoolOptions::default()
            };
            let mean = self.pow(norm_type)?.avg_pool(average, kernel, options)?;
            // A window may be far larger than what it sees.
            let n = kernel.iter().fold(1i64, |n, &k| n.saturating_mul(k));
            mean.sign()?
                .mul(&mean.abs()?.relu()?)?
                .mul(n)?
                .pow(1.0 / norm_type)
        };
        run().map_err(|e| e.renamed(op.name))
    }
}

macro_rules! methods {
    ($($n:literal $what:literal $avg:ident $avg_test:literal $avg_with:ident $avg_with_test:literal $avg_record:ident $adaptive:ident $adaptive_test:literal $adaptive_record:ident
       $lp:ident $lp_test:literal $lp_with:ident $lp_with_test:literal $lp_record:ident;)*) => {
        #[torsh_tensor::functions]
        impl Tensor {$(
            #[doc = concat!("Averages over windows of `kernel_size`, which do not overlap, of ", $what, " (`torch.nn.functional.", stringify!($avg), "`). Keeps the dtype. An error for other dimensions, and where no window fits.")]
            #[doc = crate::options::example!($avg_test)]
            #[function]
            #[torsh_tensor::names_caller]
            pub fn $avg(&self, kernel_size: impl Into<Sizes<$n>>) -> Result<Tensor> {
                self.avg_pool(&$avg_record, kernel_size.into().0, AvgPoolOptions::default())
            }

            #[doc = concat!("[`Tensor::", stringify!($avg), "`] with `stride`, `padding`, `ceil_mode`, `count_include_pad` and `divisor_override`. An error for a padding of more than half a window, and for strides below 1.")]
            #[doc = crate::options::example!($avg_with_test)]
            #[function]
            #[torsh_tensor::names_caller]
            pub fn $avg_with(&self, kernel_size: impl Into<Sizes<$n>>, options: AvgPoolOptions<$n>) -> Result<Tensor> {
                self.avg_pool(&$avg_record, kernel_size.into().0, options)
            }

            #[doc = concat!("Averages of `output_size` parts of about equal size, which may overlap, of ", $what, " (`torch.nn.functional.", stringify!($adaptive), "`); `None` keeps a size. Keeps the dtype. An error for other dimensions, and for a negative size.")]
            #[doc = crate::options::example!($adaptive_test)]
            #[function]
            #[torsh_tensor::names_caller]
            pub fn $adaptive(&self, output_size: impl Into<OutputSize<$n>>) -> Result<Tensor> {
                self.adaptive_avg(&$adaptive_record, output_size.into())
            }

            #[doc = concat!("The p-norm, for p = `norm_type`, of windows of `kernel_size`, which do not overlap, of ", $what, " (`torch.nn.functional.", stringify!($lp), "`). Keeps the dtype. An error for other dimensions, and where no window fits.")]
            #[doc = crate::options::example!($lp_test)]
            #[function]
            #[torsh_tensor::names_caller]
            pub fn $lp(&self, norm_type: f64, kernel_size: impl Into<Sizes<$n>>) -> Result<Tensor> {
                self.lp_pool(&$lp_record, &$avg_record, norm_type, kernel_size.into().0, LpPoolOptions::new())
            }

            #[doc = concat!("[`Tensor::", stringify!($lp), "`] with `stride` and `ceil_mode`.")]
            #[doc = crate::options::example!($lp_with_test)]
            #[function]
            #[torsh_tensor::names_caller]
            pub fn $lp_with(
                &self,
                norm_type: f64,
                kernel_size: impl Into<Sizes<$n>>,
                options: LpPoolOptions<$n>,
            ) -> Result<Tensor> {
                self.lp_pool(&$lp_record, &$avg_record, norm_type, kernel_size.into().0, options)
            }
        )*}
    };
}
methods! {
    1 "signals `[n, c, l]` or `[c, l]`"
        avg_pool1d "# use torsh_tensor::tensor;\n\
            let x = tensor![[1.0, 3.0, 2.0, 6.0]];\n\
            assert_eq!(x.avg_pool1d(2)?, tensor![[2.0, 4.0]]);"
        avg_pool1d_with "use torsh_tensor::{AvgPool1dOptions, tensor};\n\
            let x = tensor![[1.0, 3.0, 2.0, 6.0]];\n\
            let y = x.avg_pool1d_with(2, AvgPool1dOptions::new().stride(1))?;\n\
            assert_eq!(y, tensor![[2.0, 2.5, 4.0]]);" AVG_POOL1D
        adaptive_avg_pool1d "# use torsh_tensor::tensor;\n\
            let x = tensor![[1.0, 3.0, 2.0, 6.0]];\n\
            assert_eq!(x.adaptive_avg_pool1d(2)?, tensor![[2.0, 4.0]]);" ADAPTIVE_AVG_POOL1D lp_pool1d "# use torsh_tensor::tensor;\n\
            let x = tensor![[3.0, 4.0, 6.0, 8.0]];\n\
            assert!(x.lp_pool1d(2.0, 2)?.allclose(&tensor![[5.0, 10.0]])?);"
        lp_pool1d_with "use torsh_tensor::{LpPoolOptions, tensor};\n\
            let x = tensor![[3.0, 4.0, 6.0, 8.0]];\n\
            let y = x.lp_pool1d_with(2.0, 2, LpPoolOptions::new().stride(1))?;\n\
            assert!(y.allclose(&tensor![[5.0, 7.211103, 10.0]])?);" LP_POOL1D;
    2 "images `[n, c, h, w]` or `[c, h, w]`"
        avg_pool2d "# use torsh_tensor::tensor;\n\
            let x = tensor![[[1.0, 3.0], [2.0, 6.0]]];\n\
            assert_eq!(x.avg_pool2d(2)?, tensor![[[3.0]]]);"
        avg_pool2d_with "use torsh_tensor::{AvgPool2dOptions, tensor};\n\
            let x = tensor![[[1.0, 3.0], [2.0, 6.0]]];\n\
            let y = x.avg_pool2d_with(2, AvgPool2dOptions::new().divisor_override(2))?;\n\
            assert_eq!(y, tensor![[[6.0]]]);" AVG_POOL2D
        adaptive_avg_pool2d "# use torsh_tensor::tensor;\n\
            let x = tensor![[[1.0, 3.0], [2.0, 6.0]]];\n\
            assert_eq!(x.adaptive_avg_pool2d((1, 2))?, tensor![[[1.5, 4.5]]]);" ADAPTIVE_AVG_POOL2D lp_pool2d "# use torsh_tensor::tensor;\n\
            let x = tensor![[[3.0, 4.0], [6.0, 8.0]]];\n\
            assert!(x.lp_pool2d(2.0, (1, 2))?.allclose(&tensor![[[5.0], [10.0]]])?);"
        lp_pool2d_with "use torsh_tensor::{LpPoolOptions, tensor};\n\
            let x = tensor![[[3.0, 4.0], [6.0, 8.0]]];\n\
            let y = x.lp_pool2d_with(1.0, (1, 2), LpPoolOptions::new().ceil_mode(true))?;\n\
            assert!(y.allclose(&tensor![[[7.0], [14.0]]])?);" LP_POOL2D;
    3 "volumes `[n, c, d, h, w]` or `[c, d, h, w]`"
        avg_pool3d "# use torsh_tensor::tensor;\n\
            let x = tensor![[[[1.0, 3.0], [2.0, 6.0]]]];\n\
            assert_eq!(x.avg_pool3d((1, 2, 2))?, tensor![[[[3.0]]]]);"
        avg_pool3d_with "use torsh_tensor::{AvgPool3dOptions, tensor};\n\
            let x = tensor![[[[1.0, 3.0], [2.0, 6.0]]]];\n\
            let y = x.avg_pool3d_with((1, 1, 2), AvgPool3dOptions::new().divisor_override(1))?;\n\
            assert_eq!(y, tensor![[[[4.0], [8.0]]]]);" AVG_POOL3D
        adaptive_avg_pool3d "# use torsh_tensor::tensor;\n\
            let x = tensor![[[[1.0, 3.0], [2.0, 6.0]]]];\n\
            assert_eq!(x.adaptive_avg_pool3d((1, 1, 2))?, tensor![[[[1.5, 4.5]]]]);" ADAPTIVE_AVG_POOL3D lp_pool3d "# use torsh_tensor::tensor;\n\
            let x = tensor![[[[3.0, 4.0], [6.0, 8.0]]]];\n\
            assert!(x.lp_pool3d(2.0, (1, 1, 2))?.allclose(&tensor![[[[5.0], [10.0]]]])?);"
        lp_pool3d_with "use torsh_tensor::{LpPoolOptions, tensor};\n\
            let x = tensor![[[[3.0, 4.0], [6.0, 8.0]]]];\n\
            let y = x.lp_pool3d_with(1.0, (1, 1, 2), LpPoolOptions::new().ceil_mode(true))?;\n\
            assert!(y.allclose(&tensor![[[[7.0], [14.0]]]])?);" LP_POOL3D;
}
