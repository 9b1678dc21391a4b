//! Feed-forward layers with a gate.

use torsh_nn::{Hooks, Linear, Module, Training};
use torsh_tensor::{Result, Tensor, TorshError};

use super::{Activation, init};

/// `down(activation(gate(x)) * up(x))`: SwiGLU with SiLU, GeGLU with GELU (Shazeer, "GLU Variants Improve
/// Transformer", 2020).
///
/// ```
/// use torsh_nn::{Module, init};
/// use torsh_tensor::tensor;
/// use torsh_text::blocks::{Activation, GatedMlp};
/// let mlp = GatedMlp::new(2, 3, Activation::Relu)?;
/// for layer in [&mlp.gate_proj, &mlp.up_proj, &mlp.down_proj] {
///     init::ones_(&layer.weight)?;
/// }
/// // Each of three places has relu(1 + 2) * (1 + 2).
/// assert_eq!(mlp.forward(&tensor![[1.0, 2.0]])?, tensor![[27.0, 27.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct GatedMlp {
    /// To the numbers that the activation gets.
    pub gate_proj: Linear,
    /// To those that these multiply.
    pub up_proj: Linear,
    /// Back to the width.
    pub down_proj: Linear,
    #[module(skip)]
    activation: Activation,
    training: Training,
    hooks: Hooks,
}

impl GatedMlp {
    /// Makes a layer without bias for vectors of `width` numbers, with `inner` numbers inside.
    ///
    /// # Errors
    /// No memory for the weights.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_text::blocks::{Activation, GatedMlp};
    /// // Three matrices of 2 x 3 numbers.
    /// assert_eq!(GatedMlp::new(2, 3, Activation::Silu)?.num_parameters(), 3 * 2 * 3);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new(width: usize, inner: usize, activation: Activation) -> Result<GatedMlp> {
        GatedMlp::with(width, inner, activation, false, 0.02)
    }

    /// A layer with weights of deviation `std`.
    #[track_caller]
    pub(crate) fn with(
        width: usize,
        inner: usize,
        activation: Activation,
        bias: bool,
        std: f64,
    ) -> Result<GatedMlp> {
        Ok(GatedMlp {
            gate_proj: init::linear(width, inner, bias, std)?,
            up_proj: init::linear(width, inner, bias, std)?,
            down_proj: init::linear(inner, width, bias, std)?,
            activation,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }
}

impl Module for GatedMlp {
    /// `[.., width]` of `[.., width]`.
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let gate = self.activation.apply(&self.gate_proj.forward(x)?)?;
            self.down_proj.forward(&gate.mul(self.up_proj.forward(x)?)?)
        })
    }
}

/// [`GatedMlp`] with one matrix for the gate and what it multiplies, as Phi-3's.
#[derive(Module)]
pub struct FusedGatedMlp {
    /// To the numbers that the activation gets, and behind them those that these multiply.
    pub gate_up_proj: Linear,
    /// Back to the width.
    pub down_proj: Linear,
    #[module(skip)]
    activation: Activation,
    training: Training,
    hooks: Hooks,
}

impl FusedGatedMlp {
    #[track_caller]
    pub(crate) fn with(
        width: usize,
        inner: usize,
        activation: Activation,
        std: f64,
    ) -> Result<FusedGatedMlp> {
        Ok(FusedGatedMlp {
            gate_up_proj: init::linear(width, 2 * inner, false, std)?,
            down_proj: init::linear(inner, width, false, std)?,
            activation,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }
}

impl Module for FusedGatedMlp {
    /// `[.., width]` of `[.., width]`.
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let (gate, up) = halves(&self.gate_up_proj.forward(x)?)?;
            self.down_proj
                .forward(&up.mul(self.activation.apply(&gate)?)?)
        })
    }
}

/// The two halves of the last dimension, as views.
pub(crate) fn halves(x: &Tensor) -> Result<(Tensor, Tensor)> {
    let size = x.size(-1)?;
    if !size.is_multiple_of(2) {
        return Err(TorshError::shape(
            "feed_forward",
            format!("the last dimension of {} has no halves", x.shape()),
        ));
    }
    let half = (size / 2) as i64;
    Ok((x.narrow(-1, 0, half)?, x.narrow(-1, half, half)?))
}
