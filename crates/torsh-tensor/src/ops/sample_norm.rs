//! Normalisation within samples: of their last dimensions, of groups of channels, of each channel,
//! and across neighbouring channels.

use torsh_core::{DType, Result, TorshError, attrs};

use super::batch_norm::{BatchNormOptions, wide};
use super::row_norm::row_norm;
use crate::options::options;
use crate::record::{OpRecord, sample};
use crate::{IntoDim, IntoShape, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[
    &LAYER_NORM,
    &RMS_NORM,
    &GROUP_NORM,
    &INSTANCE_NORM,
    &LOCAL_RESPONSE_NORM,
];

#[torsh_tensor::by_name(Tensor::layer_norm_with(.., LayerNormOptions))]
pub static LAYER_NORM: OpRecord = OpRecord::new(
    "nn.functional.layer_norm",
    "Each sample's last dimensions, of normalized_shape, less their mean over their standard deviation, times weight plus bias.",
    "(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05)",
)
.samples(|s| {
    let shape = || Value::from(vec![2i64, 3]);
    Ok(vec![
        sample![s.real(&[4, 3])?, [3]],
        sample![s.real(&[2, 2, 3])?, shape(), weight = s.real(&[2, 3])?, bias = s.real(&[2, 3])?, eps = 0.1],
    ])
});

#[torsh_tensor::by_name(Tensor::rms_norm_with(.., RmsNormOptions))]
pub static RMS_NORM: OpRecord = OpRecord::new(
    "nn.functional.rms_norm",
    "Each sample's last dimensions, of normalized_shape, over their root mean square, times weight; eps is by default that of the dtype it computes in.",
    "(Tensor input, int[] normalized_shape, Tensor? weight=None, float? eps=None)",
)
.samples(|s| {
    Ok(vec![
        sample![s.real(&[4, 3])?, [3]],
        sample![s.real(&[2, 2, 3])?, [2, 3], weight = s.real(&[2, 3])?, eps = 0.1],
        sample![s.complex(&[2, 3])?, [3]],
    ])
});

#[torsh_tensor::by_name(Tensor::group_norm_with(.., GroupNormOptions))]
pub static GROUP_NORM: OpRecord = OpRecord::new(
    "nn.functional.group_norm",
    "Each sample's groups of channels (dimension 1) less their mean over their standard deviation, times weight plus bias of each channel.",
    "(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05)",
)
.samples(|s| {
    Ok(vec![
        sample![s.real(&[2, 4])?, 2, weight = s.real(&[4])?, bias = s.real(&[4])?],
        sample![s.real(&[2, 4, 3])?, 2, weight = s.real(&[4])?, bias = s.real(&[4])?, eps = 0.1],
        sample![s.real(&[1, 2, 3])?, 1],
    ])
});

#[torsh_tensor::by_name(Tensor::instance_norm_with(.., InstanceNormOptions))]
pub static INSTANCE_NORM: OpRecord = OpRecord::new(
    "nn.functional.instance_norm",
    "Each sample's channels (dimension 1) less their mean over their standard deviation, or by the running ones without use_input_stats, times weight plus bias of each channel. The running statistics move towards the samples'.",
    "(Tensor input, Tensor? running_mean=None, Tensor? running_var=None, Tensor? weight=None, Tensor? bias=None, bool use_input_stats=True, float momentum=0.1, float eps=1e-05)",
)
.samples(|s| {
    Ok(vec![
        sample![s.real(&[2, 2, 3])?, weight = s.real(&[2])?, bias = s.real(&[2])?],
        sample![s.real(&[2, 2, 3])?, eps = 0.1],
    ])
});

#[torsh_tensor::by_name(Tensor::local_response_norm_with(.., LocalResponseNormOptions))]
pub static LOCAL_RESPONSE_NORM: OpRecord = OpRecord::new(
    "nn.functional.local_response_norm",
    "Each element over (k + alpha * mean)^beta, the mean of squares over size neighbouring channels (dimension 1), zeros beyond the ends.",
    "(Tensor input, int size, float alpha=0.0001, float beta=0.75, float k=1.0)",
)
.samples(|s| {
    Ok(vec![
        sample![s.real(&[2, 3, 2])?, 2, alpha = 0.5],
        sample![s.real(&[1, 4, 1, 2])?, 3, alpha = 0.5, k = 2.0],
    ])
});

options! {
    /// PyTorch's keyword arguments of `F.layer_norm`.
    ///
    /// ```
    /// use torsh_tensor::LayerNormOptions;
    /// let options = LayerNormOptions::new();
    /// assert_eq!(options.eps, 1e-5);
    /// assert_eq!(options.eps(0.25).eps, 0.25);
    /// ```
    LayerNormOptions {
        /// A factor for each element of a sample.
        weight: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// Added to each element of a sample.
        bias: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// Added to the variance.
        eps: f64 = 1e-5;
    }
}

options! {
    /// PyTorch's keyword arguments of `F.rms_norm`.
    ///
    /// ```
    /// use torsh_tensor::RmsNormOptions;
    /// let options = RmsNormOptions::new();
    /// assert_eq!(options.eps, None);
    /// assert_eq!(options.eps(0.25).eps, Some(0.25));
    /// ```
    RmsNormOptions {
        /// A factor for each element of a sample.
        weight: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// Added to the mean square; by default the machine epsilon of float64 or float32.
        eps: Option<f64> = None, f64 => Some;
    }
}

options! {
    /// PyTorch's keyword arguments of `F.group_norm`.
    ///
    /// ```
    /// use torsh_tensor::GroupNormOptions;
    /// let options = GroupNormOptions::new();
    /// assert_eq!(options.eps, 1e-5);
    /// assert_eq!(options.eps(0.25).eps, 0.25);
    /// ```
    GroupNormOptions {
        /// A factor for each channel.
        weight: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// Added to each channel.
        bias: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// Added to the variance.
        eps: f64 = 1e-5;
    }
}

options! {
    /// PyTorch's keyword arguments of `F.instance_norm`.
    ///
    /// ```
    /// use torsh_tensor::InstanceNormOptions;
    /// let options = InstanceNormOptions::new();
    /// assert!(options.use_input_stats);
    /// assert_eq!(options.momentum, 0.1);
    /// assert_eq!(options.eps, 1e-5);
    /// assert!(!options.use_input_stats(false).use_input_stats);
    /// ```
    InstanceNormOptions {
        /// Moved towards the samples' means, or used instead of them.
        running_mean: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// Moved towards the samples' variances, or used instead of them.
        running_var: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// A factor for each channel.
        weight: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// Added to each channel.
        bias: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// Whether the samples' own statistics are used.
        use_input_stats: bool = true;
        /// How far the running statistics move.
        momentum: f64 = 0.1;
        /// Added to the variance.
        eps: f64 = 1e-5;
    }
}

options! {
    /// PyTorch's keyword arguments of `F.local_response_norm`.
    ///
    /// ```
    /// use torsh_tensor::LocalResponseNormOptions;
    /// let options = LocalResponseNormOptions::new();
    /// assert_eq!(options.alpha, 1e-4);
    /// assert_eq!(options.beta, 0.75);
    /// assert_eq!(options.k, 1.0);
    /// assert_eq!(options.alpha(0.25).alpha, 0.25);
    /// ```
    LocalResponseNormOptions {
        /// A factor of the mean of squares.
        alpha: f64 = 1e-4;
        /// The power.
        beta: f64 = 0.75;
        /// What is added before the power.
        k: f64 = 1.0;
    }
}

/// The number of samples, where the last dimensions and the parameters have `normalized_shape`.
fn samples(x: &Tensor, shape: &[i64], parameters: [Option<&Tensor>; 2]) -> Result<usize> {
    let refuse = |why: String| Err(TorshError::shape("", why));
    if shape.is_empty() {
        return refuse(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got normalized_shape = []".into(),
        );
    }
    let is_shape = |dims: &[usize]| dims.iter().map(|&d| d as i64).eq(shape.iter().copied());
    for (t, name) in parameters.iter().zip(["weight", "bias"]) {
        if let Some(t) = t.filter(|t| !is_shape(t.dims())) {
            return refuse(format!(
                "Expected {name} to be of same shape as normalized_shape, but got {name} of shape {} and normalized_shape = {shape:?}",
                t.shape()
            ));
        }
    }
    let lead = x.ndim().checked_sub(shape.len());
    match lead.filter(|&lead| is_shape(&x.dims()[lead..])) {
        Some(lead) => Ok(size(&x.dims()[..lead])),
        None => {
            let wanted: String = shape.iter().map(|n| format!(", {n}")).collect();
            refuse(format!(
                "Given normalized_shape={shape:?}, expected input with shape [*{wanted}], but got input of size{}",
                x.shape()
            ))
        }
    }
}

/// The product of sizes. That of an empty tensor's other dimensions may be beyond all numbers.
fn size(dims: &[usize]) -> usize {
    dims.iter().fold(1, |n, &d| n.saturating_mul(d))
}

/// Elements of a sample of a shape that was checked.
fn elements(shape: &[i64]) -> usize {
    size(&shape.iter().map(|&n| n as usize).collect::<Vec<_>>())
}

fn layer_norm(x: &Tensor, shape: &[i64], options: &LayerNormOptions) -> Result<Tensor> {
    let (weight, bias) = (options.weight.as_ref(), options.bias.as_ref());
    let attrs = attrs::RowNorm {
        rows: samples(x, shape, [weight, bias])?,
        n: elements(shape),
        groups: 1,
        spread: 1,
        eps: options.eps,
        centred: true,
    };
    row_norm(x, weight, bias, &attrs)
}

fn rms_norm(x: &Tensor, shape: &[i64], options: &RmsNormOptions) -> Result<Tensor> {
    let weight = options.weight.as_ref();
    let rows = samples(x, shape, [weight, None])?;
    let eps = options.eps.unwrap_or(match x.dtype() {
        DType::F64 | DType::C128 => f64::EPSILON,
        _ => f32::EPSILON.into(),
    });
    if x.is_complex() {
        // PyTorch's square of a complex number, not its magnitude's.
        let dims: Vec<i64> = (1..=shape.len() as i64).map(|d| -d).collect();
        let square = x.square()?.mean_dim(&dims[..], true)?.add(eps)?;
        let unit = x.mul(&square.rsqrt()?)?;
        return match weight {
            Some(w) => unit.mul(w)?.to_dtype(x.dtype()),
            None => Ok(unit),
        };
    }
    // PyTorch takes a weight of any dtype here.
    let weight = match weight {
        Some(w) if w.dtype() != wide(x.dtype()) => Some(w.to_dtype(x.dtype())?),
        w => w.cloned(),
    };
    let attrs = attrs::RowNorm {
        rows,
        n: elements(shape),
        groups: 1,
        spread: 1,
        eps,
        centred: false,
    };
    row_norm(x, weight.as_ref(), None, &attrs)
}

/// Checks that a channel's parameter has an element for each.
fn check_channels(x: &Tensor, channels: usize, parameters: [Option<&Tensor>; 2]) -> Result<()> {
    for (t, name) in parameters.iter().zip(["weight", "bias"]) {
        if let Some(t) = t.filter(|t| t.dims() != [channels]) {
            return Err(TorshError::shape(
                "",
                format!(
                    "Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of shape {} and input of shape {}",
                    t.shape(),
                    x.shape()
                ),
            ));
        }
    }
    Ok(())
}

fn group_norm(x: &Tensor, num_groups: i64, options: &GroupNormOptions) -> Result<Tensor> {
    let refuse = |why: String| Err(TorshError::shape("", why));
    let [n, c, rest @ ..] = x.dims() else {
        return refuse(format!(
            "Expected at least 2 dimensions for input tensor but received {}",
            x.ndim()
        ));
    };
    let Some(groups) = usize::try_from(num_groups).ok().filter(|&g| g > 0) else {
        return refuse(format!(
            "Expected num groups to be greater than 0, got {num_groups}"
        ));
    };
    if *c == 0 {
        return refuse("Expected number of channels to be greater than 0, got 0".into());
    }
    if !c.is_multiple_of(groups) {
        return refuse(format!(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape {} and num_groups={groups}",
            x.shape()
        ));
    }
    let (weight, bias) = (options.weight.as_ref(), options.bias.as_ref());
    check_channels(x, *c, [weight, bias])?;
    let spatial = size(rest);
    if size(&[*n, *c, spatial]) / groups == 1 {
        return refuse(format!(
            "Expected more than 1 value per channel when training, got input size {}",
            x.shape()
        ));
    }
    if spatial == 0 {
        return refuse("Expected HxW to be greater than 0, got 0".into());
    }
    let attrs = attrs::RowNorm {
        rows: n.saturating_mul(groups),
        n: size(&[c / groups, spatial]),
        groups,
        spread: spatial,
        eps: options.eps,
        centred: true,
    };
    row_norm(x, weight, bias, &attrs)
}

fn instance_norm(x: &Tensor, options: &InstanceNormOptions) -> Result<Tensor> {
    let (weight, bias) = (options.weight.as_ref(), options.bias.as_ref());
    let (mean, var) = (options.running_mean.as_ref(), options.running_var.as_ref());
    let own = options.use_input_stats;
    let [n, c, rest @ ..] = x.dims() else {
        return Err(TorshError::shape(
            "",
            format!(
                "Expected at least 2 dimensions for input tensor but received {}",
                x.ndim()
            ),
        ));
    };
    let spatial = size(rest);
    if own && spatial == 1 {
        return Err(TorshError::shape(
            "",
            format!(
                "Expected more than 1 spatial element when training, got input size {}",
                x.shape()
            ),
        ));
    }
    if !own && (mean.is_none() || var.is_none()) {
        return Err(TorshError::invalid(
            "",
            "Expected running_mean and running_var to be defined when use_input_stats is false",
        ));
    }
    check_channels(x, *c, [weight, bias])?;
    // PyTorch rounds the statistics of the half types, which goes by batch_norm. So do equal elements without an eps:
    // they are 0.
    let half = matches!(x.dtype(), DType::F16 | DType::BF16);
    if own && mean.is_none() && var.is_none() && !half && options.eps != 0.0 {
        let attrs = attrs::RowNorm {
            rows: size(&[*n, *c]),
            n: spatial,
            groups: (*c).max(1),
            spread: spatial.max(1),
            eps: options.eps,
            centred: true,
        };
        return row_norm(x, weight, bias, &attrs);
    }
    // As one sample with the channels of all, whose statistics are each sample's.
    let joined: Vec<usize> = [1, size(&[*n, *c])]
        .into_iter()
        .chain(rest.iter().copied())
        .collect();
    let each = |t: Option<&Tensor>| t.map(|t| t.repeat([*n])).transpose();
    let (weight, bias) = (each(weight)?, each(bias)?);
    let (means, vars) = crate::no_grad(|| Ok((each(mean)?, each(var)?)))?;
    let normalised = x.reshape(&joined[..])?.batch_norm_with(
        means.as_ref(),
        vars.as_ref(),
        BatchNormOptions {
            weight,
            bias,
            training: own,
            momentum: options.momentum,
            eps: options.eps,
        },
    )?;
    if own {
        crate::no_grad(|| {
            for (running, moved) in [(mean, &means), (var, &vars)] {
                if let (Some(running), Some(moved)) = (running, moved) {
                    running.copy_(&moved.reshape([*n, *c])?.mean_dim(0, false)?)?;
                }
            }
            Ok(())
        })?;
    }
    normalised.reshape(x.shape())
}

fn local_response_norm(
    x: &Tensor,
    size: i64,
    options: &LocalResponseNormOptions,
) -> Result<Tensor> {
    if x.ndim() < 3 {
        return Err(TorshError::shape(
            "",
            format!(
                "Expected 3D or higher dimensionality input (got {} dimensions)",
                x.ndim()
            ),
        ));
    }
    if size <= 0 {
        return Err(TorshError::invalid(
            "",
            format!("the number of neighbouring channels should be greater than zero, got {size}"),
        ));
    }
    if !x.dtype().is_floating_point() && x.dtype() != DType::I64 {
        return Err(TorshError::dtype(
            "",
            format!("not implemented for {}", x.dtype()),
        ));
    }
    if x.numel() == 0 {
        return Ok(x.clone());
    }
    let mut pad = vec![0i64; 2 * (x.ndim() - 1)];
    let last = pad.len() - 2;
    (pad[last], pad[last + 1]) = (size / 2, (size - 1) / 2);
    let sums = x
        .mul(x)?
        .constant_pad_nd(&pad[..], 0)?
        .unfold(1, size, 1)?
        .sum_dim(-1, false)?;
    let mean = match x.dtype().is_differentiable() {
        true => sums.div(size as f64)?,
        false => sums.floor_divide(size)?,
    };
    x.div(&mean.mul(options.alpha)?.add(options.k)?.pow(options.beta)?)
}

#[torsh_tensor::functions]
impl Tensor {
    /// The last dimensions, of `normalized_shape`, less their mean over their standard deviation
    /// (`torch.nn.functional.layer_norm`).
    ///
    /// Shape and dtype stay. An error where the last dimensions are others, and for integers.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let y = tensor![[1.0, 3.0]].layer_norm([2])?;
    /// assert!(y.allclose(&tensor![[-0.999995, 0.999995]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn layer_norm(&self, normalized_shape: impl IntoShape) -> Result<Tensor> {
        self.layer_norm_with(normalized_shape, LayerNormOptions::default())
    }

    /// [`Tensor::layer_norm`] with a weight and bias of `normalized_shape`. A half-precision input
    /// may have parameters in float32.
    ///
    /// ```
    /// use torsh_tensor::{LayerNormOptions, tensor};
    /// let x = tensor![[1.0, 3.0]];
    /// let options = LayerNormOptions::new().weight(&tensor![1.0, 2.0]).bias(&tensor![5.0, 5.0]);
    /// let y = x.layer_norm_with([2], options)?;
    /// assert!(y.sub(&tensor![[4.0, 7.0]])?.abs()?.max()?.item::<f32>()? < 1e-4);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn layer_norm_with(
        &self,
        normalized_shape: impl IntoShape,
        options: LayerNormOptions,
    ) -> Result<Tensor> {
        layer_norm(self, &normalized_shape.sizes(), &options).map_err(|e| e.renamed("layer_norm"))
    }

    /// The last dimensions, of `normalized_shape`, over their root mean square
    /// (`torch.nn.functional.rms_norm`).
    ///
    /// Shape and dtype stay. An error where the last dimensions are others, and for integers.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let y = tensor![[3.0, 4.0]].rms_norm([2])?;
    /// assert!(y.allclose(&tensor![[0.848528, 1.131371]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn rms_norm(&self, normalized_shape: impl IntoShape) -> Result<Tensor> {
        self.rms_norm_with(normalized_shape, RmsNormOptions::default())
    }

    /// [`Tensor::rms_norm`] with a `weight` of `normalized_shape`, or another `eps`.
    ///
    /// ```
    /// use torsh_tensor::{RmsNormOptions, tensor};
    /// let options = RmsNormOptions::new().weight(&tensor![10.0, 0.0]);
    /// let y = tensor![[3.0, 4.0]].rms_norm_with([2], options)?;
    /// assert!(y.allclose(&tensor![[8.485281, 0.0]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn rms_norm_with(
        &self,
        normalized_shape: impl IntoShape,
        options: RmsNormOptions,
    ) -> Result<Tensor> {
        rms_norm(self, &normalized_shape.sizes(), &options).map_err(|e| e.renamed("rms_norm"))
    }

    /// Each sample's channels (dimension 1) in groups, less the group's mean over its standard
    /// deviation (`torch.nn.functional.group_norm`).
    ///
    /// Shape and dtype stay. An error where the channels are no multiple of `num_groups`, and for
    /// integers.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[[1.0], [3.0], [10.0], [30.0]]];
    /// let y = x.group_norm(2)?;
    /// let expected = tensor![[[-1.0], [1.0], [-1.0], [1.0]]];
    /// assert!(y.sub(&expected)?.abs()?.max()?.item::<f32>()? < 1e-4);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn group_norm(&self, num_groups: impl IntoDim) -> Result<Tensor> {
        self.group_norm_with(num_groups, GroupNormOptions::default())
    }

    /// [`Tensor::group_norm`] with a `weight` and `bias` for each channel, or another `eps`.
    ///
    /// ```
    /// use torsh_tensor::{GroupNormOptions, tensor};
    /// let x = tensor![[[1.0], [3.0]]];
    /// let options = GroupNormOptions::new().weight(&tensor![2.0, 2.0]).bias(&tensor![0.0, 1.0]);
    /// let y = x.group_norm_with(1, options)?;
    /// assert!(y.sub(&tensor![[[-2.0], [3.0]]])?.abs()?.max()?.item::<f32>()? < 1e-4);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn group_norm_with(
        &self,
        num_groups: impl IntoDim,
        options: GroupNormOptions,
    ) -> Result<Tensor> {
        group_norm(self, num_groups.value(), &options).map_err(|e| e.renamed("group_norm"))
    }

    /// Each sample's channels (dimension 1) less their mean over their standard deviation
    /// (`torch.nn.functional.instance_norm`).
    ///
    /// `[N, C, ..]`; shape and dtype stay. An error for fewer than three dimensions, for a single
    /// element for each channel, and for integers.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[[1.0, 3.0], [10.0, 30.0]]];
    /// let y = x.instance_norm()?;
    /// let expected = tensor![[[-1.0, 1.0], [-1.0, 1.0]]];
    /// assert!(y.sub(&expected)?.abs()?.max()?.item::<f32>()? < 1e-4);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn instance_norm(&self) -> Result<Tensor> {
        self.instance_norm_with(InstanceNormOptions::default())
    }

    /// [`Tensor::instance_norm`] with running statistics, and a `weight` and `bias` for each channel.
    ///
    /// Without `use_input_stats` the running statistics count, and must be there.
    ///
    /// ```
    /// use torsh_tensor::{InstanceNormOptions, tensor};
    /// let x = tensor![[[1.0, 3.0]]];
    /// let y = x.instance_norm_with(InstanceNormOptions::new().weight(&tensor![4.0]))?;
    /// assert!(y.sub(&tensor![[[-4.0, 4.0]]])?.abs()?.max()?.item::<f32>()? < 1e-4);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn instance_norm_with(&self, options: InstanceNormOptions) -> Result<Tensor> {
        instance_norm(self, &options).map_err(|e| e.renamed("instance_norm"))
    }

    /// Each element over `(1 + 0.0001 mean)^0.75`, where the mean is that of squares over `size`
    /// neighbouring channels (`torch.nn.functional.local_response_norm`): `[n, c, d, ..]`,
    /// floating-point dtypes and int64.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[[100.0], [0.0]]];
    /// // 100 / (1 + 0.0001 * 100^2 / 2)^0.75
    /// let y = x.local_response_norm(2)?;
    /// assert!(y.allclose(&tensor![[[73.778795], [0.0]]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn local_response_norm(&self, size: impl IntoDim) -> Result<Tensor> {
        self.local_response_norm_with(size, LocalResponseNormOptions::default())
    }

    /// [`Tensor::local_response_norm`] with options: `x / (k + alpha * mean)^beta`.
    ///
    /// ```
    /// use torsh_tensor::{LocalResponseNormOptions, tensor};
    /// let x = tensor![[[3.0], [0.0]]];
    /// let options = LocalResponseNormOptions::new().alpha(1.0).beta(0.5).k(0.0);
    /// let y = x.local_response_norm_with(1, options)?;
    /// assert!(y.nan_to_num()?.allclose(&tensor![[[1.0], [0.0]]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn local_response_norm_with(
        &self,
        size: impl IntoDim,
        options: LocalResponseNormOptions,
    ) -> Result<Tensor> {
        local_response_norm(self, size.value(), &options)
            .map_err(|e| e.renamed("local_response_norm"))
    }
}
