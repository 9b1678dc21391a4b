//! Reports of the gradients of a model's parameters.

use std::fmt;

use torsh_nn::{Module, ModuleExt};
use torsh_tensor::{Result, Tensor, options};

options! {
    /// From which norms on gradients are called large or small.
    GradientLimits {
        /// Larger norms are large.
        large: f64 = 10.0;
        /// Smaller norms are small.
        small: f64 = 1e-8;
    }
}

/// What is to be said of a gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GradientState {
    /// There is none: the parameter is frozen, or did not take part.
    Missing,
    /// Nothing.
    Normal,
    /// Its norm is below the limit.
    Small,
    /// Its norm is above the limit.
    Large,
    /// Elements are nan or infinite.
    NotFinite,
}

/// One parameter's gradient.
#[derive(Clone, Debug, PartialEq)]
pub struct GradientEntry {
    /// The parameter's name.
    pub name: String,
    /// The 2-norm, computed in float32 at least; `None` where there is no gradient.
    pub norm: Option<f64>,
    /// What is to be said of it.
    pub state: GradientState,
}

/// What [`debug_gradients`] prints: a line per parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct GradientReport {
    /// In the order of the parameters; tied ones once.
    pub entries: Vec<GradientEntry>,
}

impl GradientReport {
    /// The parameters whose gradients are in a state.
    pub fn names(&self, state: GradientState) -> Vec<&str> {
        let of = self.entries.iter().filter(|e| e.state == state);
        of.map(|e| e.name.as_str()).collect()
    }
}

impl fmt::Display for GradientReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, e) in self.entries.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            match e.norm {
                Some(norm) => write!(f, "{}: gradient norm {norm:.6e}", e.name)?,
                None => write!(f, "{}: no gradient", e.name)?,
            }
            f.write_str(match e.state {
                GradientState::Missing | GradientState::Normal => "",
                GradientState::Small => "  warning: very small",
                GradientState::Large => "  warning: large",
                GradientState::NotFinite => "  warning: not finite",
            })?;
        }
        Ok(())
    }
}

/// The 2-norm of a tensor as a number; half precision would overflow early.
pub(crate) fn norm(t: &Tensor) -> Result<f64> {
    let t = t.detach();
    let wide = t.dtype().promote(torsh_tensor::DType::F32);
    t.to_dtype(wide)?.norm()?.item::<f64>()
}

/// Prints the norm of each parameter's gradient, and which are large, small, not finite or not
/// there. Returns it too.
///
/// ```
/// use torsh_debug::{GradientState, debug_gradients};
/// use torsh_nn::{Linear, Module, ModuleExt};
/// use torsh_tensor::tensor;
/// let layer = Linear::new(2, 1);
/// layer.bias.as_ref().map(|b| b.tensor().clone().requires_grad_(false));
/// layer.forward(&tensor![[30.0, 40.0]])?.sum()?.backward()?;
/// let report = debug_gradients(&layer)?;
/// assert_eq!(report.entries[0].norm, Some(50.0));
/// assert_eq!(report.names(GradientState::Large), ["weight"]);
/// assert_eq!(report.names(GradientState::Missing), ["bias"]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Gradients that cannot be read.
#[track_caller]
pub fn debug_gradients(model: &(impl Module + ?Sized)) -> Result<GradientReport> {
    debug_gradients_with(model, GradientLimits::default())
}

/// [`debug_gradients`] with other limits.
#[torsh_tensor::names_caller]
pub fn debug_gradients_with(
    model: &(impl Module + ?Sized),
    limits: GradientLimits,
) -> Result<GradientReport> {
    let mut entries = Vec::new();
    for (name, p) in model.named_parameters() {
        let norm = p.grad().map(|g| norm(&g)).transpose()?;
        let state = match norm {
            None => GradientState::Missing,
            Some(n) if !n.is_finite() => GradientState::NotFinite,
            Some(n) if n > limits.large => GradientState::Large,
            Some(n) if n < limits.small => GradientState::Small,
            Some(_) => GradientState::Normal,
        };
        entries.push(GradientEntry { name, norm, state });
    }
    let report = GradientReport { entries };
    println!("{report}");
    Ok(report)
}
