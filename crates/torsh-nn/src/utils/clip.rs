//! Gradient clipping (`torch.nn.utils`).

use torsh_core::attrs::NONE;
use torsh_tensor::call::Arg;
use torsh_tensor::{DType, Device, NormOptions, Result, Tensor, TorshError, no_grad_guard, sparse};

/// The settings of [`clip_grad_norm_with`].
///
/// ```
/// # use torsh_nn::utils;
/// let options = utils::ClipGradNormOptions::default();
/// assert_eq!((options.norm_type, options.error_if_nonfinite), (2.0, false));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClipGradNormOptions {
    /// Which norm: 2, any other positive number, or infinity for the largest element.
    pub norm_type: f64,
    /// Whether a norm that is NaN or infinite is an error; else the gradients become NaN or 0.
    pub error_if_nonfinite: bool,
}

impl Default for ClipGradNormOptions {
    fn default() -> Self {
        ClipGradNormOptions {
            norm_type: 2.0,
            error_if_nonfinite: false,
        }
    }
}

impl ClipGradNormOptions {
    /// PyTorch's defaults.
    ///
    /// ```
    /// assert_eq!(torsh_nn::utils::ClipGradNormOptions::new().norm_type, 2.0);
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Which norm.
    ///
    /// ```
    /// # use torsh_nn::{Parameter, utils};
    /// # use torsh_tensor::tensor;
    /// let w = Parameter::new(tensor![3.0, 4.0]);
    /// w.mul(&tensor![3.0, 4.0])?.sum()?.backward()?;
    /// let options = utils::ClipGradNormOptions::default().norm_type(1.0);
    /// assert_eq!(utils::clip_grad_norm_with([&w], 100.0, options)?.item::<f32>()?, 7.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[must_use]
    pub fn norm_type(mut self, norm_type: f64) -> Self {
        self.norm_type = norm_type;
        self
    }

    /// Whether a norm that is NaN or infinite is an error.
    ///
    /// ```
    /// # use torsh_nn::{Parameter, utils};
    /// # use torsh_tensor::tensor;
    /// let w = Parameter::new(tensor![1.0]);
    /// w.div(0.0)?.sum()?.backward()?;
    /// let options = utils::ClipGradNormOptions::default().error_if_nonfinite(true);
    /// assert!(utils::clip_grad_norm_with([&w], 1.0, options).is_err());
    /// assert_eq!(utils::clip_grad_norm_([&w], 1.0)?.item::<f32>()?, f32::INFINITY);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[must_use]
    pub fn error_if_nonfinite(mut self, error: bool) -> Self {
        self.error_if_nonfinite = error;
        self
    }
}

fn grads<P: AsRef<Tensor>>(params: impl IntoIterator<Item = P>) -> Vec<Tensor> {
    params
        .into_iter()
        .filter_map(|p| p.as_ref().grad())
        .collect()
}

/// A sparse tensor in which no index comes twice: what duplicates say of an element is added up.
fn coalesced(t: &Tensor) -> Result<Tensor> {
    match t.pattern() {
        Some(pattern) if !pattern.is_coalesced() => {
            sparse::call1("coalesce", &[Arg::T(&t.detach())], NONE)
        }
        _ => Ok(t.detach()),
    }
}

/// The elements of a tensor that may not be 0, as a strided one.
fn elements(t: &Tensor) -> Result<Tensor> {
    match t.layout().is_strided() {
        true => Ok(t.clone()),
        false => sparse::values(&coalesced(t)?),
    }
}

/// The norm of all elements of all tensors, as of one vector, 0-d
/// (`torch.nn.utils.get_total_norm`). Of no tensors it is 0. Duplicate indices of a COO tensor are added up.
///
/// ```
/// use torsh_nn::utils::get_total_norm;
/// use torsh_tensor::tensor;
/// let norm = get_total_norm([tensor![3.0, 0.0], tensor![4.0]], 2.0, false)?;
/// assert_eq!(norm.item::<f32>()?, 5.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn get_total_norm<P: AsRef<Tensor>>(
    tensors: impl IntoIterator<Item = P>,
    norm_type: f64,
    error_if_nonfinite: bool,
) -> Result<Tensor> {
    let tensors: Vec<Tensor> = tensors.into_iter().map(|t| t.as_ref().clone()).collect();
    total_norm("get_total_norm", &tensors, norm_type, error_if_nonfinite)
}

#[track_caller]
fn total_norm(
    op: &'static str,
    tensors: &[Tensor],
    p: f64,
    error_if_nonfinite: bool,
) -> Result<Tensor> {
    if p.is_nan() || p <= 0.0 {
        return Err(TorshError::invalid(
            op,
            format!("norm_type must be more than 0, got {p}"),
        ));
    }
    let Some(first) = tensors.first() else {
        return Tensor::scalar(0.0f32, DType::F32, Device::Cpu);
    };
    let norm = |x: &Tensor| match x.numel() {
        // The largest of no elements is not there.
        0 => x.abs()?.sum(),
        _ => x.norm_with(NormOptions::default().p(p)),
    };
    let device = first.device();
    let norms: Vec<Tensor> = tensors
        .iter()
        .map(|g| norm(&elements(g)?)?.to_device(device))
        .collect::<Result<_>>()?;
    let total = norm(&Tensor::stack(&norms, 0)?)?;
    if error_if_nonfinite && !total.item::<f64>()?.is_finite() {
        return Err(TorshError::invalid(
            op,
            format!(
                "the total norm of order {p} for gradients is non-finite, so it cannot be clipped"
            ),
        )
        .with_hint("set error_if_nonfinite to false to scale them all the same"));
    }
    Ok(total)
}

/// Scales the gradients of all parameters in place by `max_norm / total_norm` where that is below 1
/// (`torch.nn.utils.clip_grads_with_norm_`). Parameters without a gradient are left out.
///
/// ```
/// # use torsh_nn::{Parameter, utils};
/// # use torsh_tensor::tensor;
/// let w = Parameter::new(tensor![3.0, 4.0]);
/// w.mul(&w)?.sum()?.backward()?;
/// utils::clip_grads_with_norm_([&w], 5.0, &tensor![10.0].squeeze(0)?)?;
/// assert!(w.grad().unwrap().allclose(&tensor![3.0, 4.0])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn clip_grads_with_norm_<P: AsRef<Tensor>>(
    params: impl IntoIterator<Item = P>,
    max_norm: f64,
    total_norm: &Tensor,
) -> Result<()> {
    let _no_grad = no_grad_guard();
    scale(&grads(params), max_norm, total_norm)
}

#[track_caller]
fn scale(grads: &[Tensor], max_norm: f64, total: &Tensor) -> Result<()> {
    let scale = total.add(1e-6)?.reciprocal()?.mul(max_norm)?.minimum(1.0)?;
    for g in grads {
        let scale = scale.to_device(g.device())?;
        match g.layout().is_strided() {
            true => g.mul_(&scale)?,
            // Duplicates are scaled each.
            false => sparse::values(&g.detach())?.mul_(&scale)?,
        };
    }
    Ok(())
}

/// Scales the gradients of all parameters in place so that their norm, as of one vector, is at
/// most `max_norm`; returns the norm before, 0-d (`torch.nn.utils.clip_grad_norm_`).
///
/// Parameters without a gradient are left out; with none at all the norm is 0.
///
/// ```
/// use torsh_tensor::Tensor;
/// let w = Tensor::from_data(&[3.0f32, 4.0], &[2])?.requires_grad_(true);
/// w.mul(&w)?.sum()?.backward()?; // the gradient is [6, 8]
/// let norm = torsh_nn::utils::clip_grad_norm_([&w], 1.0)?;
/// assert_eq!(norm.item::<f32>()?, 10.0);
/// let g = w.grad().expect("a gradient").to_vec::<f32>()?;
/// assert!((g[0] - 0.6).abs() < 1e-6 && (g[1] - 0.8).abs() < 1e-6);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn clip_grad_norm_<P: AsRef<Tensor>>(
    params: impl IntoIterator<Item = P>,
    max_norm: f64,
) -> Result<Tensor> {
    clip_grad_norm_with(params, max_norm, ClipGradNormOptions::default())
}

/// [`clip_grad_norm_`] with its other settings. An error for a `norm_type` that is not above 0.
///
/// ```
/// # use torsh_nn::{Parameter, utils};
/// # use torsh_tensor::tensor;
/// let w = Parameter::new(tensor![3.0, -4.0]);
/// w.mul(&w)?.sum()?.backward()?;
/// let options = utils::ClipGradNormOptions::default().norm_type(f64::INFINITY);
/// // The gradient is [6, -8].
/// assert_eq!(utils::clip_grad_norm_with([&w], 1.0, options)?.item::<f32>()?, 8.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn clip_grad_norm_with<P: AsRef<Tensor>>(
    params: impl IntoIterator<Item = P>,
    max_norm: f64,
    options: ClipGradNormOptions,
) -> Result<Tensor> {
    let _no_grad = no_grad_guard();
    let grads = grads(params);
    let (p, strict) = (options.norm_type, options.error_if_nonfinite);
    let total = total_norm("clip_grad_norm_", &grads, p, strict)?;
    scale(&grads, max_norm, &total)?;
    Ok(total)
}

/// Limits each element of the gradients in place to `-clip_value..=clip_value`
/// (`torch.nn.utils.clip_grad_value_`). Parameters without a gradient are left out.
///
/// ```
/// # use torsh_nn::{Parameter, utils};
/// # use torsh_tensor::tensor;
/// let w = Parameter::new(tensor![1.0, -4.0]);
/// w.mul(&w)?.sum()?.backward()?;
/// utils::clip_grad_value_([&w], 3.0)?;
/// assert_eq!(w.grad(), Some(tensor![2.0, -3.0]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn clip_grad_value_<P: AsRef<Tensor>>(
    params: impl IntoIterator<Item = P>,
    clip_value: f64,
) -> Result<()> {
    let _no_grad = no_grad_guard();
    let limited = |g: &Tensor| g.copy_(&g.minimum(clip_value)?.maximum(-clip_value)?);
    for p in params {
        let p = p.as_ref();
        let Some(g) = p.grad() else {
            continue;
        };
        if g.layout().is_strided() {
            limited(&g)?;
            continue;
        }
        // The sum of duplicates is limited, so a gradient that has some is replaced.
        let once = coalesced(&g)?;
        limited(&sparse::values(&once)?)?;
        if g.pattern().is_some_and(|pattern| !pattern.is_coalesced()) {
            p.set_grad(Some(once))?;
        }
    }
    Ok(())
}
