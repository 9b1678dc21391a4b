//! ASGD.

use torsh_core::cmath;
use torsh_tensor::ops::optim::{AsgdStep, Target};
use torsh_tensor::{Result, Tensor};

use crate::fused::{Fused, fused};
use crate::memory::{kept, memory, remembered};
use crate::options::{check_common, check_positive, options};
use crate::{Algorithm, Optim};

/// Stochastic gradient descent that also keeps the mean of the parameters (`torch.optim.ASGD`;
/// Polyak and Juditsky, 1992).
///
/// Settings and defaults: `lr = 1e-2`, `lambd = 1e-4`, `alpha = 0.75`, `t0 = 1e6`,
/// `weight_decay = 0`, `maximize = false`. The mean is `ax` of the state dict.
///
/// ```
/// use torsh_optim::{ASGD, Optimizer};
/// use torsh_tensor::Tensor;
///
/// let w = Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
/// let optimizer = ASGD::builder([&w]).lr(0.25).lambd(0.0).build()?;
/// w.mul(&w)?.sum()?.backward()?;
/// optimizer.step()?;
/// assert_eq!(w.item::<f32>()?, 0.5);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub type ASGD = Optim<AsgdAlgorithm>;

/// The update of [`ASGD`].
///
/// ```
/// use torsh_optim::{Algorithm, AsgdAlgorithm, AsgdOptions};
/// # use torsh_tensor::tensor;
/// let (w, gradient, mut state) = (tensor![1.0], tensor![2.0], None);
/// AsgdAlgorithm::update(&AsgdOptions::default(), &w, &gradient, &mut state)?;
/// assert!(w.allclose(&tensor![0.979999])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Debug)]
pub struct AsgdAlgorithm;

options! {
    /// The settings of [`ASGD`].
    ///
    /// ```
    /// use torsh_optim::AsgdOptions;
    /// let o = AsgdOptions::default();
    /// assert_eq!((o.lr, o.lambd, o.alpha), (1e-2, 1e-4, 0.75));
    /// ```
    AsgdOptions of AsgdAlgorithm ("ASGD") {
        /// The learning rate.
        lr: f64 = 1e-2;
        /// The decay of the parameter, and of the learning rate.
        lambd: f64 = 1e-4;
        /// The power of the learning rate's decay.
        alpha: f64 = 0.75;
        /// The step from which on the mean is taken.
        t0: f64 = 1e6;
        /// The L2 penalty.
        weight_decay: f64 = 0.0;
        /// Whether to go up the gradient.
        maximize: bool = false;
    }
    validate |o| {
        check_common("ASGD", o.lr, o.weight_decay)?;
        check_positive("ASGD", "lambd", o.lambd)?;
        check_positive("ASGD", "alpha", o.alpha)
    }
}

memory! {
    /// What ASGD remembers of a parameter.
    AsgdState(u64) {
        /// The learning rate of the next step.
        eta: number;
        /// How much of the next parameter enters the mean.
        mu: number;
        /// The mean of the parameter.
        ax: tensor;
    }
}

impl Algorithm for AsgdAlgorithm {
    const NAME: &'static str = "ASGD";
    type Options = AsgdOptions;
    type State = AsgdState;

    fused!();
    remembered!();
}

impl Fused for AsgdAlgorithm {
    type Row<'a> = AsgdStep<'a>;

    fn fresh(o: &AsgdOptions, param: &Tensor) -> Result<AsgdState> {
        Ok(AsgdState {
            eta: kept(o.lr),
            mu: 1.0,
            ..AsgdState::zeros(param)?
        })
    }

    fn row<'a>(o: &AsgdOptions, mut target: Target<'a>, s: &'a AsgdState) -> AsgdStep<'a> {
        target.maximize = o.maximize;
        target.weight_decay = o.weight_decay;
        target.shrink = 1.0 - o.lambd * s.eta;
        AsgdStep {
            target,
            ax: &s.ax,
            eta: s.eta,
            mu: s.mu,
            first: s.mu == 1.0,
        }
    }

    fn conditional(_: &AsgdOptions) -> bool {
        // The numbers of the next step follow from those that were made.
        false
    }

    fn stepped(o: &AsgdOptions, state: &mut AsgdState) {
        state.step += 1;
        let step = state.step as f64;
        state.eta = kept(o.lr / cmath::pow(1.0 + o.lambd * o.lr * step, o.alpha));
        state.mu = kept(1.0 / (step - o.t0).max(1.0));
    }
}
