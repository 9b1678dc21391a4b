//! Scaling of losses.

use torsh_optim::Optimizer;
use torsh_tensor::{Result, Tensor};

use crate::Stateful;

/// Keeps small gradients of half-precision dtypes from becoming 0: the loss is scaled up before
/// backward, the gradients down again before the step.
pub trait LossScaler: Stateful + Send + Sync {
    /// The scaled loss.
    fn scale(&self, loss: &Tensor) -> Result<Tensor>;

    /// Scales the gradients of the optimizer's parameters down, ahead of clipping.
    fn unscale(&self, optimizer: &dyn Optimizer) -> Result<()>;

    /// A step of the optimizer, unless a gradient is infinite or NaN; whether it was made.
    fn step(&self, optimizer: &dyn Optimizer) -> Result<bool>;

    /// Chooses the scale of the next loss.
    fn update(&self) -> Result<()>;
}
