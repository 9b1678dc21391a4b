//! Checks of a model's parameters.

use torsh_nn::{Module, ModuleExt};
use torsh_tensor::{Result, Tensor, TorshError, options};

use crate::Warning;
use crate::gradients::norm;

options! {
    /// From which norms on parameters are called large or small.
    ModelStateLimits {
        /// Larger norms are large.
        large: f64 = 100.0;
        /// Smaller norms are small.
        small: f64 = 1e-6;
    }
}

/// Refuses elements that are nan or infinite.
#[track_caller]
pub(crate) fn finite(op: &'static str, what: &str, t: &Tensor) -> Result<()> {
    let bad = |kind: &str, mask: Tensor| -> Result<()> {
        match mask.sum()?.item::<i64>()? {
            0 => Ok(()),
            n => Err(TorshError::invalid(
                op,
                format!("{what} has {n} {kind} values of {}", t.numel()),
            )),
        }
    };
    let t = t.detach();
    bad("nan", t.isnan()?)?;
    bad("infinite", t.isinf()?)
}

/// Refuses a model with a parameter that has nan or infinite elements, and warns of norms above
/// 100 (exploding) and below 1e-6 (vanishing).
///
/// ```
/// use torsh_debug::validate_model_state;
/// use torsh_nn::Linear;
/// use torsh_tensor::no_grad;
/// let layer = Linear::new(3, 4);
/// assert!(validate_model_state(&layer)?.is_empty());
/// no_grad(|| layer.weight.fill_(50.0))?;
/// let warnings = validate_model_state(&layer)?;
/// assert_eq!((warnings[0].field.as_str(), warnings.len()), ("weight", 1));
/// assert!((warnings[0].value - 50.0 * 12f64.sqrt()).abs() < 1e-3);
/// no_grad(|| layer.weight.fill_(f32::NAN))?;
/// let e = validate_model_state(&layer).unwrap_err().to_string();
/// assert!(e.contains("`weight` has 12 nan values of 12"), "{e}");
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn validate_model_state(model: &(impl Module + ?Sized)) -> Result<Vec<Warning>> {
    validate_model_state_with(model, ModelStateLimits::default())
}

/// [`validate_model_state`] with other limits.
#[torsh_tensor::names_caller]
pub fn validate_model_state_with(
    model: &(impl Module + ?Sized),
    limits: ModelStateLimits,
) -> Result<Vec<Warning>> {
    let mut warnings = Vec::new();
    for (name, p) in model.named_parameters() {
        finite("validate_model_state", &format!("parameter `{name}`"), &p)?;
        let norm = norm(&p)?;
        if norm > limits.large {
            warnings.push(Warning::new(name, norm, "the parameter's norm is large"));
        } else if norm < limits.small && p.numel() > 0 {
            warnings.push(Warning::new(
                name,
                norm,
                "the parameter's norm is very small",
            ));
        }
    }
    Ok(warnings)
}

/// The largest model and norm that [`validate_model_structure`] lets pass.
const MOST_PARAMETERS: usize = 1_000_000_000;
const LARGEST_NORM: f64 = 1000.0;

/// Refuses what a model of a sane size and training never has: more than a billion elements in all,
/// an element that is nan or infinite, a norm above 1000.
#[track_caller]
pub(crate) fn structure<'a>(
    op: &'static str,
    tensors: impl Iterator<Item = (String, &'a Tensor)> + Clone,
) -> Result<()> {
    count(op, tensors.clone(), MOST_PARAMETERS)?;
    for (name, t) in tensors.filter(|(_, t)| t.dtype().is_differentiable()) {
        finite(op, &format!("parameter `{name}`"), t)?;
        let norm = norm(t)?;
        if norm > LARGEST_NORM {
            return Err(TorshError::invalid(
                op,
                format!("the norm of parameter `{name}` is {norm:.4e}, above {LARGEST_NORM}"),
            ));
        }
    }
    Ok(())
}

#[track_caller]
pub(crate) fn count<'a>(
    op: &'static str,
    tensors: impl Iterator<Item = (String, &'a Tensor)>,
    most: usize,
) -> Result<()> {
    let all = tensors.fold(0usize, |sum, (_, t)| sum.saturating_add(t.numel()));
    if all > most {
        return Err(TorshError::invalid(
            op,
            format!("max_parameters: there are {all} elements, and {most} are allowed"),
        ));
    }
    Ok(())
}

/// Refuses a model of more than a billion parameters, or with a parameter that is not finite or
/// has a norm above 1000.
///
/// ```
/// use torsh_debug::validate_model_structure;
/// use torsh_nn::Linear;
/// let layer = Linear::new(2, 2);
/// validate_model_structure(&layer)?;
/// torsh_tensor::no_grad(|| layer.weight.fill_(600.0))?;
/// let e = validate_model_structure(&layer).unwrap_err().to_string();
/// assert!(e.contains("`weight` is 1.2000e3, above 1000"), "{e}");
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn validate_model_structure(model: &(impl Module + ?Sized)) -> Result<()> {
    let parameters = model.named_parameters();
    structure(
        "validate_model_structure",
        parameters
            .iter()
            .map(|(name, p)| (name.clone(), p.tensor())),
    )
}
