//! Adamax.

use torsh_tensor::ops::optim::zeros_for;
use torsh_tensor::{AddcmulOptions, Result, Tensor};

use crate::memory::{gradient, memory, real, remembered};
use crate::options::{check_adam, options};
use crate::{Algorithm, Optim};

/// Adam with the largest gradient in the place of the second moment (`torch.optim.Adamax`;
/// Kingma and Ba, 2014).
///
/// Settings and defaults: `lr = 2e-3`, `betas = (0.9, 0.999)`, `eps = 1e-8`, `weight_decay = 0`,
/// `maximize = false`.
///
/// ```
/// use torsh_optim::{Adamax, Optimizer};
/// use torsh_tensor::Tensor;
///
/// let w = Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
/// let optimizer = Adamax::builder([&w]).lr(0.25).build()?;
/// w.mul(&w)?.sum()?.backward()?;
/// optimizer.step()?;
/// assert!((w.item::<f32>()? - 0.75).abs() < 1e-6);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub type Adamax = Optim<AdamaxAlgorithm>;

/// The update of [`Adamax`].
#[derive(Debug)]
pub struct AdamaxAlgorithm;

options! {
    /// The settings of [`Adamax`].
    AdamaxOptions of AdamaxAlgorithm ("Adamax") {
        /// The learning rate.
        lr: f64 = 2e-3;
        /// The decays of the running mean of the gradient and of its largest size.
        betas: pair = (0.9, 0.999);
        /// What is added to the gradient's size.
        eps: f64 = 1e-8;
        /// The L2 penalty.
        weight_decay: f64 = 0.0;
        /// Whether to go up the gradient.
        maximize: bool = false;
    }
    validate |o| check_adam("Adamax", o.lr, o.betas, o.eps, o.weight_decay)
}

memory! {
    /// What Adamax remembers of a parameter.
    AdamaxState {
        /// The running mean of the gradient.
        exp_avg: tensor;
        /// The largest size of the gradient, decaying.
        exp_inf: tensor;
    }
}

impl Algorithm for AdamaxAlgorithm {
    const NAME: &'static str = "Adamax";
    type Options = AdamaxOptions;
    type State = AdamaxState;

    fn update(
        o: &AdamaxOptions,
        param: &Tensor,
        grad: &Tensor,
        state: &mut Option<AdamaxState>,
    ) -> Result<()> {
        let s = match state {
            Some(s) => s,
            None => state.insert(AdamaxState {
                step: 0,
                exp_avg: zeros_for(param)?,
                exp_inf: zeros_for(param)?,
            }),
        };
        s.step += 1;
        let (beta1, beta2) = o.betas;
        let param = real(param)?;
        let grad = gradient(grad, &param, o.maximize, o.weight_decay)?;
        let (mean, largest) = (real(&s.exp_avg)?, real(&s.exp_inf)?);
        mean.lerp_(&grad, 1.0 - beta1)?;
        largest.mul_(beta2)?;
        largest.copy_(&largest.maximum(grad.abs()?.add_(o.eps)?)?)?;
        let correction = 1.0 - beta1.powf(s.step as f64);
        param.addcdiv_with_(
            &mean,
            &largest,
            AddcmulOptions::new().value(-(o.lr / correction)),
        )?;
        Ok(())
    }

    remembered!();
}
