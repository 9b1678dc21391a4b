//! Adadelta.

use torsh_tensor::ops::optim::{AdadeltaStep, Target};
use torsh_tensor::{Result, Tensor};

use crate::fused::{Fused, counted, fused};
use crate::memory::{StepCount, memory, remembered};
use crate::options::{check_common, check_eps, options, require};
use crate::{Algorithm, Optim};

/// Steps as long as the last ones were, over the size of the gradient (`torch.optim.Adadelta`;
/// Zeiler, 2012).
///
/// Settings and defaults: `lr = 1`, `rho = 0.9`, `eps = 1e-6`, `weight_decay = 0`,
/// `maximize = false`.
///
/// ```
/// use torsh_optim::{Adadelta, Optimizer};
/// use torsh_tensor::Tensor;
///
/// let w = Tensor::from_data(&[1.0f64], [1])?.requires_grad_(true);
/// let optimizer = Adadelta::builder([&w]).build()?;
/// w.mul(&w)?.sum()?.backward()?;
/// optimizer.step()?;
/// let step = (1e-6f64).sqrt() / (0.1f64 * 4.0 + 1e-6).sqrt() * 2.0;
/// assert!((w.item::<f64>()? - (1.0 - step)).abs() < 1e-12);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub type Adadelta = Optim<AdadeltaAlgorithm>;

/// The update of [`Adadelta`].
///
/// ```
/// use torsh_optim::{AdadeltaAlgorithm, AdadeltaOptions, Algorithm};
/// # use torsh_tensor::tensor;
/// let (w, gradient, mut state) = (tensor![1.0], tensor![2.0], None);
/// AdadeltaAlgorithm::update(&AdadeltaOptions::default(), &w, &gradient, &mut state)?;
/// assert!(w.allclose(&tensor![0.996838])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Debug)]
pub struct AdadeltaAlgorithm;

options! {
    /// The settings of [`Adadelta`].
    ///
    /// ```
    /// use torsh_optim::AdadeltaOptions;
    /// let o = AdadeltaOptions::default();
    /// assert_eq!((o.lr, o.rho, o.eps), (1.0, 0.9, 1e-6));
    /// ```
    AdadeltaOptions of AdadeltaAlgorithm ("Adadelta") {
        /// The factor of each step.
        lr: f64 = 1.0;
        /// The decay of both running means.
        rho: f64 = 0.9;
        /// What is added under both roots.
        eps: f64 = 1e-6;
        /// The L2 penalty.
        weight_decay: f64 = 0.0;
        /// Whether to go up the gradient.
        maximize: bool = false;
    }
    validate |o| {
        check_common("Adadelta", o.lr, o.weight_decay)?;
        require("Adadelta", (0.0..=1.0).contains(&o.rho), || {
            format!("Invalid rho value: {} (must be between 0 and 1)", o.rho)
        })?;
        check_eps("Adadelta", o.eps)
    }
}

memory! {
    /// What Adadelta remembers of a parameter.
    ///
    /// ```
    /// use torsh_optim::{AdadeltaAlgorithm, AdadeltaOptions, Algorithm};
    /// # use torsh_tensor::tensor;
    /// let (w, gradient, mut state) = (tensor![1.0], tensor![2.0], None);
    /// AdadeltaAlgorithm::update(&AdadeltaOptions::default(), &w, &gradient, &mut state)?;
    /// let state = state.expect("a step was made");
    /// assert!(state.square_avg.allclose(&tensor![0.4])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    AdadeltaState(StepCount) {
        /// The running mean of the squared gradient.
        square_avg: tensor;
        /// The running mean of the squared steps.
        acc_delta: tensor;
    }
}

impl Algorithm for AdadeltaAlgorithm {
    const NAME: &'static str = "Adadelta";
    type Options = AdadeltaOptions;
    type State = AdadeltaState;

    fused!();
    remembered!();
}

impl Fused for AdadeltaAlgorithm {
    type Row<'a> = AdadeltaStep<'a>;

    fn fresh(_: &AdadeltaOptions, param: &Tensor) -> Result<AdadeltaState> {
        AdadeltaState::zeros(param)
    }

    fn row<'a>(
        o: &AdadeltaOptions,
        mut target: Target<'a>,
        s: &'a AdadeltaState,
    ) -> AdadeltaStep<'a> {
        target.maximize = o.maximize;
        target.weight_decay = o.weight_decay;
        AdadeltaStep {
            target,
            square_avg: &s.square_avg,
            acc_delta: &s.acc_delta,
            lr: o.lr,
            rho: o.rho,
            rest: 1.0 - o.rho,
            eps: o.eps,
        }
    }

    counted!();
}
