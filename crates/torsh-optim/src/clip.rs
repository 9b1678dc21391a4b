//! Limits on gradients, as `torch.nn.utils`.

use torsh_tensor::{Result, Tensor, TorshError, Value, no_grad_guard, ops};

use crate::Param;

/// The settings of [`clip_grad_norm_with`].
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
    /// Which norm.
    #[must_use]
    pub fn norm_type(mut self, norm_type: f64) -> Self {
        self.norm_type = norm_type;
        self
    }

    /// Whether a norm that is NaN or infinite is an error.
    #[must_use]
    pub fn error_if_nonfinite(mut self, error: bool) -> Self {
        self.error_if_nonfinite = error;
        self
    }
}

fn grads<P: Into<Param>>(params: impl IntoIterator<Item = P>) -> Vec<Tensor> {
    params
        .into_iter()
        .filter_map(|p| p.into().tensor().grad())
        .collect()
}

/// The `p`-norm of all elements, 0-d.
fn norm(x: &Tensor, p: f64) -> Result<Tensor> {
    let size = x.abs()?;
    if x.numel() == 0 {
        return size.sum();
    }
    if p.is_infinite() {
        let largest = ops::call("max", &[Value::from(&size)], &[])?;
        return largest
            .tensors()
            .into_iter()
            .next()
            .ok_or_else(|| TorshError::Other("max gave no tensor".into()));
    }
    match p {
        1.0 => size.sum(),
        2.0 => size.mul(&size)?.sum()?.sqrt(),
        _ => size.pow(p)?.sum()?.pow(1.0 / p),
    }
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
/// let norm = torsh_optim::clip_grad_norm_([&w], 1.0)?;
/// assert_eq!(norm.item::<f32>()?, 10.0);
/// let g = w.grad().expect("a gradient").to_vec::<f32>()?;
/// assert!((g[0] - 0.6).abs() < 1e-6 && (g[1] - 0.8).abs() < 1e-6);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn clip_grad_norm_<P: Into<Param>>(
    params: impl IntoIterator<Item = P>,
    max_norm: f64,
) -> Result<Tensor> {
    clip_grad_norm_with(params, max_norm, ClipGradNormOptions::default())
}

/// [`clip_grad_norm_`] with its other settings.
#[track_caller]
pub fn clip_grad_norm_with<P: Into<Param>>(
    params: impl IntoIterator<Item = P>,
    max_norm: f64,
    options: ClipGradNormOptions,
) -> Result<Tensor> {
    let _no_grad = no_grad_guard();
    let p = options.norm_type;
    if p.is_nan() || p <= 0.0 {
        return Err(TorshError::invalid(
            "clip_grad_norm_",
            format!("norm_type must be more than 0, got {p}"),
        ));
    }
    let grads = grads(params);
    let Some(first) = grads.first() else {
        return Tensor::scalar(0.0f32, torsh_tensor::DType::F32, torsh_tensor::Device::Cpu);
    };
    let device = first.device();
    let norms: Vec<Tensor> = grads
        .iter()
        .map(|g| norm(g, p)?.to_device(device))
        .collect::<Result<_>>()?;
    let total = norm(&Tensor::stack(&norms, 0)?, p)?;
    if options.error_if_nonfinite && !total.item::<f64>()?.is_finite() {
        return Err(TorshError::invalid(
            "clip_grad_norm_",
            format!(
                "the total norm of order {p} for gradients is non-finite, so it cannot be clipped"
            ),
        )
        .with_hint("set error_if_nonfinite to false to scale them all the same"));
    }
    let scale = total.add(1e-6)?.reciprocal()?.mul(max_norm)?.minimum(1.0)?;
    for g in &grads {
        g.mul_(&scale.to_device(g.device())?)?;
    }
    Ok(total)
}

/// Limits each element of the gradients in place to `-clip_value..=clip_value`
/// (`torch.nn.utils.clip_grad_value_`).
#[track_caller]
pub fn clip_grad_value_<P: Into<Param>>(
    params: impl IntoIterator<Item = P>,
    clip_value: f64,
) -> Result<()> {
    let _no_grad = no_grad_guard();
    for g in grads(params) {
        g.copy_(&g.minimum(clip_value)?.maximum(-clip_value)?)?;
    }
    Ok(())
}
