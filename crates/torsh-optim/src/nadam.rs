//! NAdam.

use torsh_core::cmath;
use torsh_tensor::ops::optim::{NAdamStep, Target};
use torsh_tensor::{Result, Tensor};

use crate::fused::{Fused, decay, fused};
use crate::memory::{kept, memory, remembered};
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
///
/// ```
/// use torsh_optim::{Algorithm, NAdamAlgorithm, NAdamOptions};
/// # use torsh_tensor::tensor;
/// let (w, gradient, mut state) = (tensor![1.0], tensor![2.0], None);
/// NAdamAlgorithm::update(&NAdamOptions::default(), &w, &gradient, &mut state)?;
/// assert!(w.allclose(&tensor![0.997887])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Debug)]
pub struct NAdamAlgorithm;

options! {
    /// The settings of [`NAdam`].
    ///
    /// ```
    /// use torsh_optim::NAdamOptions;
    /// let o = NAdamOptions::default();
    /// assert_eq!((o.lr, o.momentum_decay), (2e-3, 4e-3));
    /// ```
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
    ///
    /// ```
    /// use torsh_optim::{Algorithm, NAdamAlgorithm, NAdamOptions};
    /// # use torsh_tensor::tensor;
    /// let (w, gradient, mut state) = (tensor![1.0], tensor![2.0], None);
    /// NAdamAlgorithm::update(&NAdamOptions::default(), &w, &gradient, &mut state)?;
    /// let state = state.expect("a step was made");
    /// assert!(state.exp_avg.allclose(&tensor![0.2])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    NAdamState(u64) {
        /// The product of the momenta so far.
        mu_product: number;
        /// The running mean of the gradient.
        exp_avg: tensor;
        /// The running mean of its square.
        exp_avg_sq: tensor;
    }
}

/// The momentum of a step.
fn mu(o: &NAdamOptions, step: f64) -> f64 {
    o.betas.0 * (1.0 - 0.5 * cmath::pow(0.96, step * o.momentum_decay))
}

impl Algorithm for NAdamAlgorithm {
    const NAME: &'static str = "NAdam";
    type Options = NAdamOptions;
    type State = NAdamState;

    fused!();
    remembered!();
}

impl Fused for NAdamAlgorithm {
    type Row<'a> = NAdamStep<'a>;

    fn fresh(_: &NAdamOptions, param: &Tensor) -> Result<NAdamState> {
        Ok(NAdamState {
            mu_product: 1.0,
            ..NAdamState::zeros(param)?
        })
    }

    fn row<'a>(o: &NAdamOptions, mut target: Target<'a>, s: &'a NAdamState) -> NAdamStep<'a> {
        decay(&mut target, o.lr, o.weight_decay, o.decoupled_weight_decay);
        target.maximize = o.maximize;
        let (beta1, beta2) = o.betas;
        let step = s.step as f64 + 1.0;
        let (mu, mu_next) = (mu(o, step), mu(o, step + 1.0));
        let product = kept(s.mu_product * kept(mu));
        NAdamStep {
            target,
            exp_avg: &s.exp_avg,
            exp_avg_sq: &s.exp_avg_sq,
            rest1: 1.0 - beta1,
            beta2,
            rest2: 1.0 - beta2,
            correction2: 1.0 - cmath::pow(beta2, step),
            eps: o.eps,
            step_grad: o.lr * (1.0 - mu) / (1.0 - product),
            step_mean: o.lr * mu_next / (1.0 - product * mu_next),
        }
    }

    fn conditional(_: &NAdamOptions) -> bool {
        // The numbers of the next step follow from those that were made.
        false
    }

    fn stepped(o: &NAdamOptions, state: &mut NAdamState) {
        state.step += 1;
        state.mu_product = kept(state.mu_product * kept(mu(o, state.step as f64)));
    }
}
