//! RAdam.

use torsh_tensor::ops::optim::zeros_for;
use torsh_tensor::{AddcmulOptions, Result, Tensor};

use crate::memory::{decayed_gradient, memory, real, remembered};
use crate::options::{check_adam, options};
use crate::{Algorithm, Optim};

/// Adam whose first steps wait until the second moment can be trusted (`torch.optim.RAdam`;
/// Liu and others, 2019).
///
/// Settings and defaults: `lr = 1e-3`, `betas = (0.9, 0.999)`, `eps = 1e-8`, `weight_decay = 0`,
/// `decoupled_weight_decay = false`, `maximize = false`.
///
/// ```
/// use torsh_optim::{Optimizer, RAdam};
/// use torsh_tensor::Tensor;
///
/// let w = Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
/// let optimizer = RAdam::builder([&w]).lr(0.1).build()?;
/// w.mul(&w)?.sum()?.backward()?;
/// optimizer.step()?; // the first steps are those of plain momentum
/// assert!((w.item::<f32>()? - 0.8).abs() < 1e-6);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub type RAdam = Optim<RAdamAlgorithm>;

/// The update of [`RAdam`].
#[derive(Debug)]
pub struct RAdamAlgorithm;

options! {
    /// The settings of [`RAdam`].
    RAdamOptions of RAdamAlgorithm ("RAdam") {
        /// The learning rate.
        lr: f64 = 1e-3;
        /// The decays of the running means of the gradient and of its square.
        betas: pair = (0.9, 0.999);
        /// What is added to the denominator.
        eps: f64 = 1e-8;
        /// The L2 penalty, or the decay where `decoupled_weight_decay`.
        weight_decay: f64 = 0.0;
        /// Whether the decay is taken off the parameter directly, as AdamW does.
        decoupled_weight_decay: bool = false;
        /// Whether to go up the gradient.
        maximize: bool = false;
    }
    validate |o| check_adam("RAdam", o.lr, o.betas, o.eps, o.weight_decay)
}

memory! {
    /// What RAdam remembers of a parameter.
    RAdamState {
        /// The running mean of the gradient.
        exp_avg: tensor;
        /// The running mean of its square.
        exp_avg_sq: tensor;
    }
}

impl Algorithm for RAdamAlgorithm {
    const NAME: &'static str = "RAdam";
    type Options = RAdamOptions;
    type State = RAdamState;

    fn update(
        o: &RAdamOptions,
        param: &Tensor,
        grad: &Tensor,
        state: &mut Option<RAdamState>,
    ) -> Result<()> {
        let s = match state {
            Some(s) => s,
            None => state.insert(RAdamState {
                step: 0,
                exp_avg: zeros_for(param)?,
                exp_avg_sq: zeros_for(param)?,
            }),
        };
        s.step += 1;
        let (step, (beta1, beta2)) = (s.step as f64, o.betas);
        let param = real(param)?;
        let decoupled = o.decoupled_weight_decay;
        let grad = decayed_gradient(grad, &param, o.maximize, o.lr, o.weight_decay, decoupled)?;
        let (mean, square) = (real(&s.exp_avg)?, real(&s.exp_avg_sq)?);
        mean.lerp_(&grad, 1.0 - beta1)?;
        square.mul_(beta2)?.addcmul_with_(
            &grad,
            &grad,
            AddcmulOptions::new().value(1.0 - beta2),
        )?;
        let correction2 = 1.0 - beta2.powf(step);
        let update = mean.div(1.0 - beta1.powf(step))?.mul_(o.lr)?;
        // The length of the simple moving average that the exponential one is like.
        let longest = 2.0 / (1.0 - beta2) - 1.0;
        let length = longest - 2.0 * step * beta2.powf(step) / correction2;
        if length > 5.0 {
            let rectified = (length - 4.0) * (length - 2.0) * longest
                / ((longest - 4.0) * (longest - 2.0) * length);
            let adaptive = square
                .sqrt()?
                .add_(o.eps)?
                .reciprocal()?
                .mul_(correction2.sqrt())?;
            update.mul_(&adaptive)?.mul_(rectified.sqrt())?;
        }
        param.sub_(&update)?;
        Ok(())
    }

    remembered!();
}
