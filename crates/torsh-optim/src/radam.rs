//! RAdam.

use torsh_tensor::ops::optim::{RAdamStep, Target};
use torsh_tensor::{Result, Tensor};

use crate::fused::{Fused, counted, decay, fused};
use crate::memory::{StepCount, memory, remembered};
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
///
/// ```
/// use torsh_optim::{Algorithm, RAdamAlgorithm, RAdamOptions};
/// # use torsh_tensor::tensor;
/// let (w, gradient, mut state) = (tensor![1.0], tensor![2.0], None);
/// RAdamAlgorithm::update(&RAdamOptions::default(), &w, &gradient, &mut state)?;
/// assert!(w.allclose(&tensor![0.998])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Debug)]
pub struct RAdamAlgorithm;

options! {
    /// The settings of [`RAdam`].
    ///
    /// ```
    /// use torsh_optim::RAdamOptions;
    /// let o = RAdamOptions::default();
    /// assert_eq!((o.lr, o.betas), (1e-3, (0.9, 0.999)));
    /// ```
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
    ///
    /// ```
    /// use torsh_optim::{Algorithm, RAdamAlgorithm, RAdamOptions};
    /// # use torsh_tensor::tensor;
    /// let (w, gradient, mut state) = (tensor![1.0], tensor![2.0], None);
    /// RAdamAlgorithm::update(&RAdamOptions::default(), &w, &gradient, &mut state)?;
    /// let state = state.expect("a step was made");
    /// assert!(state.exp_avg.allclose(&tensor![0.2])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    RAdamState(StepCount) {
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

    fused!();
    remembered!();
}

impl Fused for RAdamAlgorithm {
    type Row<'a> = RAdamStep<'a>;

    fn fresh(_: &RAdamOptions, param: &Tensor) -> Result<RAdamState> {
        RAdamState::zeros(param)
    }

    fn row<'a>(o: &RAdamOptions, mut target: Target<'a>, s: &'a RAdamState) -> RAdamStep<'a> {
        decay(&mut target, o.lr, o.weight_decay, o.decoupled_weight_decay);
        target.maximize = o.maximize;
        let (beta1, beta2) = o.betas;
        RAdamStep {
            target,
            exp_avg: &s.exp_avg,
            exp_avg_sq: &s.exp_avg_sq,
            lr: o.lr,
            beta1,
            beta2,
            eps: o.eps,
        }
    }

    counted!();
}
