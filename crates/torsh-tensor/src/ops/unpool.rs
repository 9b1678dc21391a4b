//! Max unpooling, and max pooling over windows at random positions.

use torsh_core::{DType, Result, TorshError};

use super::conv::{check_shape, sizes};
use super::pool::{check_input, output_size, stride};
use crate::autocast::{Autocast, body};
use crate::options::options;
use crate::record::{OpRecord, sample};
use crate::schema::Bound;
use crate::{IntoShape, OutputSize, Sizes, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[
    &MAX_UNPOOL1D,
    &MAX_UNPOOL2D,
    &MAX_UNPOOL3D,
    &FRACTIONAL_MAX_POOL2D,
    &FRACTIONAL_MAX_POOL3D,
];

options! {
    /// The optional arguments of an unpooling in `N` dimensions, by PyTorch's names.
    #[derive(PartialEq, Eq)]
    MaxUnpoolOptions<const N: usize> {
        /// Steps of the pooling's window; the window's own size where not given.
        stride: Option<[i64; N]> = None, impl Into<Sizes<N>> => |s| Some(s.into().0);
        /// The pooling's padding.
        padding: [i64; N] = [0; N], impl Into<Sizes<N>> => |s| s.into().0;
        /// The sizes of what was pooled, where the window alone leaves them open: the spatial
        /// ones, or all with batch and channels.
        output_size: Option<Vec<i64>> = None, impl IntoShape => |s| Some(s.sizes().to_vec());
    }
}

options! {
    /// The optional arguments of a fractional pooling in `N` dimensions, by PyTorch's names; one
    /// of `output_size` and `output_ratio` must be given.
    FractionalMaxPoolOptions<const N: usize> {
        /// The spatial sizes of the result.
        output_size: Option<[i64; N]> = None, impl Into<Sizes<N>> => |s| Some(s.into().0);
        /// The spatial sizes of the result over the input's, between 0 and 1.
        output_ratio: Option<[f64; N]> = None, [f64; N] => Some;
        /// Where the windows fall: `[n, c, N]` numbers from 0 to 1, drawn where not given.
        random_samples: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
    }
}

fn unpool_by_name<const N: usize>(record: &'static OpRecord, b: &Bound) -> Result<Value> {
    let options = MaxUnpoolOptions::<N> {
        stride: stride(b, 3)?,
        padding: sizes("padding", &b.ints(4))?,
        output_size: b.opt_ints(5),
    };
    let kernel = sizes("kernel_size", &b.ints(2))?;
    b.tensor(0)?
        .max_unpool(record, b.tensor(1)?, kernel, &options)
        .map(Value::Tensor)
}

fn fractional_by_name<const N: usize>(record: &'static OpRecord, b: &Bound) -> Result<Value> {
    let given = |size: OutputSize<N>| {
        let sizes: Option<Vec<i64>> = size.0.into_iter().collect();
        sizes.and_then(|s| s.try_into().ok())
    };
    let output_size = match b.is_none(2) {
        true => None,
        false => given(output_size::<N>(b.value(2))?),
    };
    let ratio = b
        .opt_floats(3)
        .or_else(|| b.opt_float(3).map(|r| vec![r; N]));
    let output_ratio = match ratio.map(<[f64; N]>::try_from) {
        None => None,
        Some(Ok(r)) => Some(r),
        Some(Err(r)) => {
            let m = format!("output_ratio must be a number or {N} numbers, got {r:?}");
            return Err(TorshError::invalid("", m));
        }
    };
    let options = FractionalMaxPoolOptions::<N> {
        output_size,
        output_ratio,
        random_samples: b.opt_tensor(5).cloned(),
    };
    let kernel = sizes("kernel_size", &b.ints(1))?;
    let (values, indices) = b.tensor(0)?.fractional_max_pool(record, kernel, &options)?;
    Ok(match b.bool(4) {
        true => Value::from((values, indices)),
        false => Value::Tensor(values),
    })
}

pub static MAX_UNPOOL1D: OpRecord = OpRecord::new(
    "nn.functional.max_unpool1d",
    "Signals [n, c, l] (or one of [c, l]) that are 0 but where max_pool1d found its maxima.",
    "(Tensor input, Tensor indices, int[1] kernel_size, int[1]? stride=None, int[1] padding=0, int[]? output_size=None)",
)
.autocast(Autocast::Fp32)
.by_name(|b| unpool_by_name::<1>(&MAX_UNPOOL1D, b))
.samples(|s| {
    let indices = Tensor::from_data(&[1i64, 2, 0, 3], [1, 2, 2])?;
    Ok(vec![sample![s.real(&[1, 2, 2])?, indices, 2]])
});

pub static MAX_UNPOOL2D: OpRecord = OpRecord::new(
    "nn.functional.max_unpool2d",
    "Images [n, c, h, w] (or one of [c, h, w]) that are 0 but where max_pool2d found its maxima.",
    "(Tensor input, Tensor indices, int[2] kernel_size, int[2]? stride=None, int[2] padding=0, int[]? output_size=None)",
)
.autocast(Autocast::Fp32)
.by_name(|b| unpool_by_name::<2>(&MAX_UNPOOL2D, b))
.samples(|s| {
    let indices = Tensor::from_data(&[6i64, 4, 12, 19], [1, 2, 2])?;
    let call = sample![s.real(&[1, 2, 2])?, indices, 2];
    Ok(vec![call.kw("output_size", vec![4i64, 5])])
});

pub static MAX_UNPOOL3D: OpRecord = OpRecord::new(
    "nn.functional.max_unpool3d",
    "Volumes [n, c, d, h, w] (or one of [c, d, h, w]) that are 0 but where max_pool3d found its maxima.",
    "(Tensor input, Tensor indices, int[3] kernel_size, int[3]? stride=None, int[3] padding=0, int[]? output_size=None)",
)
.autocast(Autocast::Fp32)
.by_name(|b| unpool_by_name::<3>(&MAX_UNPOOL3D, b))
.samples(|s| {
    let indices = Tensor::from_data(&[3i64, 13], [1, 1, 1, 2])?;
    Ok(vec![sample![s.real(&[1, 1, 1, 2])?, indices, 2]])
});

pub static FRACTIONAL_MAX_POOL2D: OpRecord = OpRecord::new(
    "nn.functional.fractional_max_pool2d",
    "Maxima over windows at random places of images [n, c, h, w] (or one of [c, h, w]), as many as output_size or output_ratio says; with return_indices also where in its plane each is.",
    "(Tensor input, int[2] kernel_size, Any output_size=None, Any output_ratio=None, bool return_indices=False, Tensor? _random_samples=None)",
)
.autocast(Autocast::Fp32)
.by_name(|b| fractional_by_name::<2>(&FRACTIONAL_MAX_POOL2D, b))
.samples(|s| {
    // As many windows as there are places, or one: nothing is left to chance.
    Ok(vec![
        sample![s.distinct(&[1, 2, 4, 5])?, 2, output_size = [3, 4]],
        sample![s.distinct(&[2, 5, 4])?, [3, 2], output_size = 1],
    ])
});

pub static FRACTIONAL_MAX_POOL3D: OpRecord = OpRecord::new(
    "nn.functional.fractional_max_pool3d",
    "Maxima over windows at random places of volumes [n, c, d, h, w] (or one of [c, d, h, w]), as many as output_size or output_ratio says; with return_indices also where in its volume each is.",
    "(Tensor input, int[3] kernel_size, Any output_size=None, Any output_ratio=None, bool return_indices=False, Tensor? _random_samples=None)",
)
.autocast(Autocast::Fp32)
.by_name(|b| fractional_by_name::<3>(&FRACTIONAL_MAX_POOL3D, b))
.samples(|s| {
    Ok(vec![sample![s.distinct(&[1, 1, 3, 3, 4])?, 2, output_size = [2, 2, 3]]])
});

/// The sizes of what was pooled.
fn unpooled_size<const N: usize>(
    x: &Tensor,
    kernel: [i64; N],
    options: &MaxUnpoolOptions<N>,
) -> Result<[i64; N]> {
    let invalid = |m: String| Err(TorshError::invalid("", m));
    let (stride, padding) = (options.stride.unwrap_or(kernel), options.padding);
    for (what, v) in [("kernel_size", kernel), ("stride", stride)] {
        if v.iter().any(|&v| v <= 0 || v > i64::from(i32::MAX)) {
            return invalid(format!("{what} should be greater than zero, but got {v:?}"));
        }
    }
    if padding
        .iter()
        .any(|&v| !(0..=i64::from(i32::MAX)).contains(&v))
    {
        return invalid(format!("padding must be non-negative, but got {padding:?}"));
    }
    let spatial = &x.dims()[x.ndim() - N..];
    let natural: [i64; N] = std::array::from_fn(|d| {
        (spatial[d] as i64 - 1)
            .saturating_mul(stride[d])
            .saturating_add(kernel[d] - 2 * padding[d])
    });
    let Some(wanted) = &options.output_size else {
        return match natural.iter().all(|&n| n >= 0) {
            true => Ok(natural),
            false => invalid(format!(
                "output_size must contain non-negative spatial dimensions, but got {natural:?}"
            )),
        };
    };
    let tail = if wanted.len() == N + 2 {
        &wanted[2..]
    } else {
        wanted
    };
    let Ok(size) = <[i64; N]>::try_from(tail) else {
        return invalid(format!(
            "output_size should be a sequence containing {N} or {} elements, but it has a length of {}",
            N + 2,
            wanted.len()
        ));
    };
    for d in 0..N {
        let (min, max) = (natural[d] - stride[d], natural[d].saturating_add(stride[d]));
        if size[d] <= min || size[d] >= max || size[d] < 0 {
            return invalid(format!(
                "invalid output_size {size:?} (dim {d} must be between {min} and {max})"
            ));
        }
    }
    Ok(size)
}

/// Where `count` windows of `kernel` elements begin in `n` elements, from one random number.
fn intervals(sample: f64, n: i64, count: i64, kernel: i64, double: bool) -> Vec<i64> {
    let mut starts: Vec<i64> = match double {
        true => {
            let alpha = (n - kernel) as f64 / (count - 1) as f64;
            let at = |i: i64| ((i as f64 + sample) * alpha) as i64;
            (0..count - 1).map(|i| at(i) - at(0)).collect()
        }
        // PyTorch rounds each step to the tensor's dtype.
        false => {
            let (sample, alpha) = (sample as f32, (n - kernel) as f32 / (count - 1) as f32);
            let at = |i: i64| ((i as f32 + sample) * alpha) as i64;
            (0..count - 1).map(|i| at(i) - at(0)).collect()
        }
    };
    starts.push(n - kernel);
    starts
}

/// The sizes of a fractional pooling's result.
fn fractional_size<const N: usize>(
    x: &Tensor,
    kernel: [i64; N],
    options: &FractionalMaxPoolOptions<N>,
) -> Result<[i64; N]> {
    let invalid = |m: String| Err(TorshError::invalid("", m));
    check_input(x, N)?;
    let spatial: [i64; N] = std::array::from_fn(|d| x.dims()[x.ndim() - N + d] as i64);
    let size = match (options.output_size, options.output_ratio) {
        (Some(_), Some(_)) => {
            return invalid("only one of output_size and output_ratio may be specified".into());
        }
        (None, None) => {
            return invalid("requires specifying either an output_size or an output_ratio".into());
        }
        (Some(size), None) => size,
        (None, Some(ratio)) => {
            if ratio.iter().any(|&r| !(r > 0.0 && r < 1.0)) {
                return invalid(format!(
                    "output_ratio must be between 0 and 1 (got {ratio:?})"
                ));
            }
            std::array::from_fn(|d| (spatial[d] as f64 * ratio[d]) as i64)
        }
    };
    for d in 0..N {
        if kernel[d] <= 0 || size[d] <= 0 {
            return invalid(format!(
                "kernel_size and output_size should be greater than zero, but got {kernel:?} and {size:?}"
            ));
        }
        if size[d].saturating_add(kernel[d]) - 1 > spatial[d] {
            return Err(TorshError::shape(
                "",
                format!(
                    "{} windows of size {} are too many for dimension {d} of size {}",
                    size[d], kernel[d], spatial[d]
                ),
            ));
        }
    }
    Ok(size)
}

/// Every combination of one index below each size, the last running fastest.
fn each_index<const N: usize>(sizes: [i64; N]) -> impl Iterator<Item = [i64; N]> {
    (0..sizes.iter().product()).map(move |mut i: i64| {
        let mut index = [0; N];
        for d in (0..N).rev() {
            (index[d], i) = (i % sizes[d], i / sizes[d]);
        }
        index
    })
}

impl Tensor {
    #[track_caller]
    fn max_unpool<const N: usize>(
        &self,
        op: &'static OpRecord,
        indices: &Tensor,
        kernel: [i64; N],
        options: &MaxUnpoolOptions<N>,
    ) -> Result<Tensor> {
        let run = |[x]: [&Tensor; 1]| {
            if indices.dtype() != DType::I64 {
                return Err(TorshError::dtype(
                    "",
                    format!(
                        "elements in indices should be type int64 but got: {}",
                        indices.dtype()
                    ),
                ));
            }
            check_input(x, N)?;
            if indices.shape() != x.shape() {
                return Err(TorshError::shape(
                    "",
                    format!(
                        "Expected shape of indices to be same as that of the input tensor ({}) but got indices tensor with shape: {}",
                        x.shape(),
                        indices.shape()
                    ),
                ));
            }
            let size = unpooled_size(x, kernel, options)?;
            let mut shape: Vec<i64> = x.dims().iter().map(|&n| n as i64).collect();
            let lead = shape.len() - N;
            shape[lead..].copy_from_slice(&size);
            check_shape(&shape, x.dtype())?;
            let mut flat = shape[..lead].to_vec();
            flat.push(size.iter().product());
            let from = -(N as i64);
            Tensor::zeros(&flat[..], x.dtype(), x.device())?
                .scatter(
                    -1,
                    &indices.flatten_dims(from, -1)?,
                    &x.flatten_dims(from, -1)?,
                )?
                .reshape(&shape[..])
        };
        self.named(op.name, body(op.autocast, [self], run))
            .map_err(|e| e.renamed(op.name))
    }

    #[track_caller]
    fn fractional_max_pool<const N: usize>(
        &self,
        op: &'static OpRecord,
        kernel: [i64; N],
        options: &FractionalMaxPoolOptions<N>,
    ) -> Result<(Tensor, Tensor)> {
        let run = |[x]: [&Tensor; 1]| {
            let size = fractional_size(x, kernel, options)?;
            let d = x.dims();
            let lead = d.len() - N;
            let (n, c) = if lead == 2 { (d[0], d[1]) } else { (1, d[0]) };
            let samples = match &options.random_samples {
                Some(s) if s.dims() == [n, c, N] => s.clone(),
                Some(s) => {
                    let m = format!(
                        "expected random samples of shape [{n}, {c}, {N}], got {}",
                        s.describe()
                    );
                    return Err(TorshError::shape("", m));
                }
                None => Tensor::rand([n, c, N], self.dtype(), x.device())?,
            };
            let double = x.dtype() == DType::F64;
            let spatial: [i64; N] = std::array::from_fn(|i| d[lead + i] as i64);
            let mut places = Vec::new();
            for sample in samples.detach().to_vec::<f64>()?.chunks(N) {
                // PyTorch's images take the first number for their width.
                let of = |i: usize| sample[if N == 2 { 1 - i } else { i }];
                let starts: [Vec<i64>; N] = std::array::from_fn(|i| {
                    intervals(of(i), spatial[i], size[i], kernel[i], double)
                });
                for window in each_index(size) {
                    places.extend(each_index(kernel).map(|tap| {
                        (0..N).fold(0, |at, i| {
                            at * spatial[i] + starts[i][window[i] as usize] + tap[i]
                        })
                    }));
                }
            }
            let (windows, taps) = (size.iter().product::<i64>(), kernel.iter().product::<i64>());
            let planes = (n * c) as i64;
            let by_window = [planes, windows, taps];
            let places = Tensor::from_data_on(&places, [planes, windows * taps], x.device())?;
            let plane = [planes, spatial.iter().product()];
            let (values, tap) = x
                .reshape(plane)?
                .gather(1, &places)?
                .reshape(by_window)?
                .max_dim(-1, false)?;
            let indices = places.reshape(by_window)?.gather(-1, &tap.unsqueeze(-1)?)?;
            let mut shape: Vec<i64> = d[..lead].iter().map(|&n| n as i64).collect();
            shape.extend(size);
            Ok((values.reshape(&shape[..])?, indices.reshape(&shape[..])?))
        };
        self.named(op.name, body(op.autocast, [self], run))
            .map_err(|e| e.renamed(op.name))
    }
}

macro_rules! unpoolings {
    ($($(#[$example:meta])* $n:literal $what:literal $unpool:ident $with:ident $with_test:literal $record:ident;)*) => {
        #[torsh_tensor::functions]
        impl Tensor {$(
            #[doc = concat!("Puts the maxima of ", $what, " back where pooling with `kernel_size` found them, among zeros (`torch.nn.functional.", stringify!($unpool), "`).")]
            ///
            $(#[$example])*
            ///
            /// # Errors
            /// Indices that are not int64, of another shape, or outside of the result.
            #[function]
            #[torsh_tensor::names_caller]
            pub fn $unpool(&self, indices: &Tensor, kernel_size: impl Into<Sizes<$n>>) -> Result<Tensor> {
                self.max_unpool(&$record, indices, kernel_size.into().0, &MaxUnpoolOptions::default())
            }

            #[doc = concat!("[`Tensor::", stringify!($unpool), "`] with `stride`, `padding` and `output_size`.")]
            #[doc = crate::options::example!($with_test)]
            #[function]
            #[torsh_tensor::names_caller]
            pub fn $with(&self, indices: &Tensor, kernel_size: impl Into<Sizes<$n>>, options: MaxUnpoolOptions<$n>) -> Result<Tensor> {
                self.max_unpool(&$record, indices, kernel_size.into().0, &options)
            }
        )*}
    };
}
unpoolings! {
    /// ```
    /// use torsh_tensor::{MaxPool1dOptions, tensor};
    /// let x = tensor![[1.0, 5.0, 3.0, 2.0]];
    /// let (y, indices) = x.max_pool1d_indices(2, MaxPool1dOptions::default())?;
    /// assert_eq!(y.max_unpool1d(&indices, 2)?, tensor![[0.0, 5.0, 3.0, 0.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    1 "signals `[n, c, l]` or `[c, l]`" max_unpool1d max_unpool1d_with "use torsh_tensor::{MaxPool1dOptions, MaxUnpoolOptions, tensor};\n\
            let (y, indices) = tensor![[1.0, 5.0, 3.0, 2.0]].max_pool1d_indices(2, MaxPool1dOptions::new())?;\n\
            let options = MaxUnpoolOptions::new().output_size([5]);\n\
            assert_eq!(y.max_unpool1d_with(&indices, 2, options)?, tensor![[0.0, 5.0, 3.0, 0.0, 0.0]]);" MAX_UNPOOL1D;
    /// ```
    /// use torsh_tensor::{MaxPool2dOptions, tensor};
    /// let x = tensor![[[1.0, 5.0], [3.0, 2.0]]];
    /// let (y, indices) = x.max_pool2d_indices(2, MaxPool2dOptions::default())?;
    /// assert_eq!(y.max_unpool2d(&indices, 2)?, tensor![[[0.0, 5.0], [0.0, 0.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    2 "images `[n, c, h, w]` or `[c, h, w]`" max_unpool2d max_unpool2d_with "use torsh_tensor::{MaxPool2dOptions, MaxUnpoolOptions, tensor};\n\
            let (y, indices) = tensor![[[1.0, 5.0], [3.0, 2.0]]].max_pool2d_indices(2, MaxPool2dOptions::new())?;\n\
            let options = MaxUnpoolOptions::new().output_size([2, 3]);\n\
            assert_eq!(y.max_unpool2d_with(&indices, 2, options)?, tensor![[[0.0, 5.0, 0.0], [0.0, 0.0, 0.0]]]);" MAX_UNPOOL2D;
    /// ```
    /// use torsh_tensor::{MaxPool3dOptions, tensor};
    /// let x = tensor![[[[1.0, 5.0], [3.0, 2.0]]]];
    /// let (y, indices) = x.max_pool3d_indices((1, 2, 2), MaxPool3dOptions::default())?;
    /// assert_eq!(y.max_unpool3d(&indices, (1, 2, 2))?, tensor![[[[0.0, 5.0], [0.0, 0.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    3 "volumes `[n, c, d, h, w]` or `[c, d, h, w]`" max_unpool3d max_unpool3d_with "use torsh_tensor::{MaxPool3dOptions, MaxUnpoolOptions, tensor};\n\
            let (y, indices) = tensor![[[[1.0, 5.0], [3.0, 2.0]]]].max_pool3d_indices((1, 2, 2), MaxPool3dOptions::new())?;\n\
            let options = MaxUnpoolOptions::new().output_size([1, 2, 3]);\n\
            let unpooled = y.max_unpool3d_with(&indices, (1, 2, 2), options)?;\n\
            assert_eq!(unpooled, tensor![[[[0.0, 5.0, 0.0], [0.0, 0.0, 0.0]]]]);" MAX_UNPOOL3D;
}

macro_rules! fractional {
    ($($(#[$example:meta])* $n:literal $what:literal $pool:ident $function:ident $record:ident;)*) => {
        #[torsh_tensor::functions(fractional)]
        impl Tensor {$(
            #[doc = concat!("Maxima over windows of `kernel_size` at random places of ", $what, ", and the int64 index of each among the elements of its channel (`torch.nn.functional.", stringify!($pool), "`; Graham, Fractional MaxPooling).")]
            ///
            $(#[$example])*
            ///
            /// # Errors
            /// Not one of `output_size` and `output_ratio`, more windows than fit.
            #[function(name = $function)]
            #[torsh_tensor::names_caller]
            pub fn $pool(&self, kernel_size: impl Into<Sizes<$n>>, options: FractionalMaxPoolOptions<$n>) -> Result<(Tensor, Tensor)> {
                self.fractional_max_pool(&$record, kernel_size.into().0, &options)
            }
        )*}
    };
}
fractional! {
    /// ```
    /// use torsh_tensor::{FractionalMaxPoolOptions, tensor};
    /// let x = tensor![[[1.0, 5.0, 3.0], [4.0, 2.0, 9.0]]];
    /// // Two windows have only two places.
    /// let options = FractionalMaxPoolOptions::new().output_size((1, 2));
    /// let (values, indices) = x.fractional_max_pool2d_indices(2, options)?;
    /// assert_eq!(values, tensor![[[5.0, 9.0]]]);
    /// assert_eq!(indices, tensor![[[1, 5]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    2 "images `[n, c, h, w]` or `[c, h, w]`" fractional_max_pool2d_indices fractional_max_pool2d_with_indices FRACTIONAL_MAX_POOL2D;
    /// ```
    /// use torsh_tensor::{FractionalMaxPoolOptions, tensor};
    /// let x = tensor![[[[1.0, 5.0, 3.0], [4.0, 2.0, 9.0]]]];
    /// let options = FractionalMaxPoolOptions::new().output_size((1, 1, 2));
    /// let (values, indices) = x.fractional_max_pool3d_indices((1, 2, 2), options)?;
    /// assert_eq!(values, tensor![[[[5.0, 9.0]]]]);
    /// assert_eq!(indices, tensor![[[[1, 5]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    3 "volumes `[n, c, d, h, w]` or `[c, d, h, w]`" fractional_max_pool3d_indices fractional_max_pool3d_with_indices FRACTIONAL_MAX_POOL3D;
}
