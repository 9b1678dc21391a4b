//! Gradient checkpointing by a switch.

use std::sync::atomic::{AtomicBool, Ordering};

use torsh_tensor::{Result, Tensor, checkpoint, is_grad_enabled};

/// The switch of a model's gradient checkpointing: its layers keep only their inputs, and compute the rest anew for
/// the gradients (Chen et al., "Training deep nets with sublinear memory cost", 2016).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_text::blocks::GradientCheckpointing;
/// let switch = GradientCheckpointing::default();
/// switch.set(true);
/// let x = tensor![3.0].requires_grad_(true);
/// let inner = x.clone();
/// let y = switch.run(move || inner.square()?.mul(&inner))?;
/// y.sum()?.backward()?;
/// assert_eq!(x.grad(), Some(tensor![27.0]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Debug, Default)]
pub struct GradientCheckpointing(AtomicBool);

impl GradientCheckpointing {
    /// Turns it on or off.
    pub fn set(&self, on: bool) {
        self.0.store(on, Ordering::Relaxed);
    }

    /// Whether it is on.
    pub fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Runs a layer; where the switch is on and gradients are recorded, what it computes on the way is not kept.
    ///
    /// # Errors
    /// Those of the layer.
    #[track_caller]
    pub fn run(
        &self,
        layer: impl Fn() -> Result<Tensor> + Send + Sync + 'static,
    ) -> Result<Tensor> {
        match self.is_on() && is_grad_enabled() {
            true => checkpoint(layer),
            false => layer(),
        }
    }
}
