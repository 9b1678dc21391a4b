//! NAdam.

use torsh_tensor::ops::optim::zeros_for;
use torsh_tensor::{AddcmulOptions, Result, Tensor};

use crate::memory::{decayed_gradient, kept, memory, real, remembered};
use crate::options::{check_adam, check_positive, options};
use crate::{Algorithm, Optim};

/// Adam with Nesterov's momentum (`torch.optim.NAdam`; Dozat, 2016).
///
/// Settings and defaults: `lr = 2e-3`, `betas = (0.9, 0.999)`, `eps = 1e-8`, `weight_decay = 0`,
/// `momentum_decay = 4e-3`, `decoupled_weight_decay = false`, `maximize = false`.
///
/// ```
/// use torsh_optim::{NAdam, Optimizer};
/// use torsh_tensor::Tensor;
///
/// let w = Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
/// let optimizer = NAdam::builder([&w]).lr(0.5).build()?;
/// w.mul(&w)?.sum()?.backward()?;
/// optimizer.step()?;
/// assert!((w.item::<f32>()? - 0.4718).abs() < 1e-3);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub type NAdam = Optim<NAdamAlgorithm>;

/// The update of [`NAdam`].
#[derive(Debug)]
pub struct NAdamAlgorithm;

options! {
    /// The settings of [`NAdam`].
    NAdamOptions of NAdamAlgorithm ("NAdam") {
        /// The learning rate.
        lr: f64 = 2e-3;
        /// The decays of the running means of the gradient and of its square.
        betas: pair = (0.9, 0.999);
        /// What is added to the denominator.
        eps: f64 = 1e-8;
        /// The L2 penalty, or the decay where `decoupled_weight_decay`.
        weight_decay: f64 = 0.0;
        /// How fast the momentum comes up to its full value.
        momentum_decay: f64 = 4e-3;
        /// Whether the decay is taken off the parameter directly, as AdamW does.
        decoupled_weight_decay: bool = false;
        /// Whether to go up the gradient.
        maximize: bool = false;
    }
    validate |o| {
        check_adam("NAdam", o.lr, o.betas, o.eps, o.weight_decay)?;
        check_positive("NAdam", "momentum_decay", o.momentum_decay)
    }
}

memory! {
    /// What NAdam remembers of a parameter.
    NAdamState {
        /// The product of the momenta so far.
        mu_product: number;
        /// The running mean of the gradient.
        exp_avg: tensor;
        /// The running mean of its square.
        exp_avg_sq: tensor;
    }
}

impl Algorithm for NAdamAlgorithm {
    const NAME: &'static str = "NAdam";
    type Options = NAdamOptions;
    type State = NAdamState;

    fn update(
        o: &NAdamOptions,
        param: &Tensor,
        grad: &Tensor,
        state: &mut Option<NAdamState>,
    ) -> Result<()> {
        let s = match state {
            Some(s) => s,
            None => state.insert(NAdamState {
                step: 0,
                mu_product: 1.0,
                exp_avg: zeros_for(param)?,
                exp_avg_sq: zeros_for(param)?,
            }),
        };
        s.step += 1;
        let (step, (beta1, beta2)) = (s.step as f64, o.betas);
        let param = real(param)?;
        let decoupled = o.decoupled_weight_decay;
        let grad = decayed_gradient(grad, &param, o.maximize, o.lr, o.weight_decay, decoupled)?;
        let mu_at = |step: f64| beta1 * (1.0 - 0.5 * 0.96f64.powf(step * o.momentum_decay));
        let (mu, mu_next) = (mu_at(step), mu_at(step + 1.0));
        s.mu_product = kept(s.mu_product * kept(mu));
        let (mean, square) = (real(&s.exp_avg)?, real(&s.exp_avg_sq)?);
        mean.lerp_(&grad, 1.0 - beta1)?;
        square.mul_(beta2)?.addcmul_with_(
            &grad,
            &grad,
            AddcmulOptions::new().value(1.0 - beta2),
        )?;
        let denom = square.div(1.0 - beta2.powf(step))?.sqrt()?.add_(o.eps)?;
        param.addcdiv_with_(
            &grad,
            &denom,
            AddcmulOptions::new().value(-o.lr * (1.0 - mu) / (1.0 - s.mu_product)),
        )?;
        param.addcdiv_with_(
            &mean,
            &denom,
            AddcmulOptions::new().value((-o.lr * mu_next) / (1.0 - s.mu_product * mu_next)),
        )?;
        Ok(())
    }

    remembered!();
}
