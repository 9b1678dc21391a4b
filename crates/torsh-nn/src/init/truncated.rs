//! Truncated normal draws.

use torsh_core::Generator;
use torsh_tensor::{Device, Result, Tensor, TorshError, no_grad};

use super::{normal, uniform};

/// The probability that a standard normal draw is below `x`.
fn below(x: f64) -> Result<f64> {
    let x = Tensor::scalar(
        x / std::f64::consts::SQRT_2,
        torsh_tensor::DType::F64,
        Device::Cpu,
    )?;
    Ok((1.0 + x.erf()?.item::<f64>()?) / 2.0)
}

/// Normal draws, drawn again until they are within `[a, b]`. PyTorch's defaults are a mean of 0, a
/// spread of 1 and limits of -2 and 2.
///
/// ```
/// use torsh_nn::init;
/// use torsh_tensor::empty;
/// let w = init::trunc_normal_(&empty(&[100]), 0.0, 1.0, -0.5, 0.5)?;
/// assert!(w.abs()?.max()?.item::<f32>()? <= 0.5);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn trunc_normal_(tensor: &Tensor, mean: f64, std: f64, a: f64, b: f64) -> Result<Tensor> {
    truncated(tensor, [mean, std, a, b], None)
}

/// [`trunc_normal_`] from a generator.
#[torsh_tensor::names_caller]
pub fn trunc_normal_with(
    tensor: &Tensor,
    mean: f64,
    std: f64,
    a: f64,
    b: f64,
    generator: &Generator,
) -> Result<Tensor> {
    truncated(tensor, [mean, std, a, b], Some(generator))
}

#[track_caller]
fn truncated(tensor: &Tensor, numbers: [f64; 4], generator: Option<&Generator>) -> Result<Tensor> {
    let [mean, std, a, b] = numbers;
    if numbers.iter().any(|n| n.is_nan()) || std <= 0.0 || a >= b {
        return Err(TorshError::invalid(
            "trunc_normal_",
            format!("expects std > 0 and a < b, got mean={mean}, std={std}, a={a}, b={b}"),
        ));
    }
    if tensor.device() == Device::Meta || crate::construct::draws_nothing() {
        return Ok(tensor.clone());
    }
    let likely = below((b - mean) / std)? - below((a - mean) / std)?;
    no_grad(|| match likely > 0.3 {
        true => redrawn(tensor, numbers, generator),
        false => rejected(tensor, numbers, generator),
    })
}

fn any(mask: &Tensor) -> Result<bool> {
    mask.any()?.item::<bool>()
}

/// Normal draws of which those outside are drawn again.
fn redrawn(
    tensor: &Tensor,
    [mean, std, a, b]: [f64; 4],
    generator: Option<&Generator>,
) -> Result<Tensor> {
    // The limits as the tensor holds them, or a draw could stand beyond them for ever.
    let limit = |v: f64| Tensor::scalar(v, tensor.dtype(), Device::Cpu)?.item::<f64>();
    let (low, high) = (limit(a)?, limit(b)?);
    let mut result = normal(tensor, mean, std, generator)?.detach().copy()?;
    loop {
        let outside = result.lt(low)?.logical_or(result.gt(high)?)?;
        if !any(&outside)? {
            return tensor.copy_(&result);
        }
        let again = normal(&result.empty_like()?, mean, std, generator)?;
        result = Tensor::where_(&outside, &again, &result)?;
    }
}

/// Uniform draws, kept as often as the normal density is high.
fn rejected(
    tensor: &Tensor,
    [mean, std, a, b]: [f64; 4],
    generator: Option<&Generator>,
) -> Result<Tensor> {
    if !(a.is_finite() && b.is_finite()) {
        return Err(TorshError::invalid(
            "trunc_normal_",
            format!("limits as far from the mean as [{a}, {b}] must be finite"),
        ));
    }
    let mode = a.max(mean.min(b));
    let peak = -0.5 * ((mode - mean) / std).powi(2);
    let refused = |candidates: &Tensor| -> Result<Tensor> {
        let density = candidates.sub(mean)?.div(std)?.square()?;
        let density = density.mul(-0.5)?.sub(peak)?;
        let level = uniform(&candidates.empty_like()?, 0.0, 1.0, generator)?;
        level.log()?.gt(&density)
    };
    let mut result = uniform(tensor, a, b, generator)?.detach().copy()?;
    let mut pending = refused(&result)?;
    while any(&pending)? {
        let candidates = uniform(&result.empty_like()?, a, b, generator)?;
        result = Tensor::where_(&pending, &candidates, &result)?;
        pending = pending.logical_and(refused(&candidates)?)?;
    }
    tensor.copy_(&result)
}
