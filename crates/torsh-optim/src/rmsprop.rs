//! RMSprop.

use torsh_tensor::ops::optim::{RMSpropStep, Target};
use torsh_tensor::{Result, Tensor};

use crate::fused::{Fused, counted, fused, present};
use crate::memory::{StepCount, memory, remembered};
use crate::options::{check_common, check_eps, check_positive, options};
use crate::{Algorithm, Optim};

/// The gradient over the root of its running mean square (`torch.optim.RMSprop`; Hinton, 2012),
/// centered if wanted (Graves, 2013).
///
/// Settings and defaults: `lr = 1e-2`, `momentum = 0`, `alpha = 0.99`, `eps = 1e-8`,
/// `centered = false`, `weight_decay = 0`, `maximize = false`.
///
/// ```
/// use torsh_optim::{Optimizer, RMSprop};
/// use torsh_tensor::Tensor;
///
/// let w = Tensor::from_data(&[1.0f64], [1])?.requires_grad_(true);
/// let optimizer = RMSprop::builder([&w]).lr(0.01).build()?;
/// w.mul(&w)?.sum()?.backward()?;
/// optimizer.step()?;
/// assert!((w.item::<f64>()? - 0.9).abs() < 1e-7);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub type RMSprop = Optim<RMSpropAlgorithm>;

/// The update of [`RMSprop`].
///
/// ```
/// use torsh_optim::{Algorithm, RMSpropAlgorithm, RMSpropOptions};
/// # use torsh_tensor::tensor;
/// let (w, gradient, mut state) = (tensor![1.0], tensor![2.0], None);
/// RMSpropAlgorithm::update(&RMSpropOptions::default(), &w, &gradient, &mut state)?;
/// assert!(w.allclose(&tensor![0.9])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Debug)]
pub struct RMSpropAlgorithm;

options! {
    /// The settings of [`RMSprop`].
    ///
    /// ```
    /// use torsh_optim::RMSpropOptions;
    /// let o = RMSpropOptions::default();
    /// assert_eq!((o.lr, o.alpha, o.momentum), (1e-2, 0.99, 0.0));
    /// ```
    RMSpropOptions of RMSpropAlgorithm ("RMSprop") {
        /// The learning rate.
        lr: f64 = 1e-2;
        /// How much of the last step is kept.
        momentum: f64 = 0.0;
        /// The decay of the running means.
        alpha: f64 = 0.99;
        /// What is added to the denominator.
        eps: f64 = 1e-8;
        /// Whether the mean gradient is taken off, so that the variance is divided by.
        centered: bool = false;
        /// The L2 penalty.
        weight_decay: f64 = 0.0;
        /// Whether to go up the gradient.
        maximize: bool = false;
    }
    validate |o| {
        check_common("RMSprop", o.lr, o.weight_decay)?;
        check_eps("RMSprop", o.eps)?;
        check_positive("RMSprop", "momentum", o.momentum)?;
        check_positive("RMSprop", "alpha", o.alpha)
    }
}

memory! {
    /// What RMSprop remembers of a parameter.
    ///
    /// ```
    /// use torsh_optim::{Algorithm, RMSpropAlgorithm, RMSpropOptions};
    /// # use torsh_tensor::tensor;
    /// let (w, gradient, mut state) = (tensor![1.0], tensor![2.0], None);
    /// RMSpropAlgorithm::update(&RMSpropOptions::default(), &w, &gradient, &mut state)?;
    /// let state = state.expect("a step was made");
    /// assert!(state.square_avg.allclose(&tensor![0.04])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    RMSpropState(StepCount) {
        /// The running mean of the squared gradient.
        square_avg: tensor;
        /// The momentum buffer, with `momentum`.
        momentum_buffer: optional;
        /// The running mean of the gradient, with `centered`.
        grad_avg: optional;
    }
}

impl Algorithm for RMSpropAlgorithm {
    const NAME: &'static str = "RMSprop";
    type Options = RMSpropOptions;
    type State = RMSpropState;

    fused!();
    remembered!();
}

impl Fused for RMSpropAlgorithm {
    type Row<'a> = RMSpropStep<'a>;

    fn fresh(_: &RMSpropOptions, param: &Tensor) -> Result<RMSpropState> {
        RMSpropState::zeros(param)
    }

    fn complete(o: &RMSpropOptions, param: &Tensor, state: &mut RMSpropState) -> Result<()> {
        if o.centered {
            present(&mut state.grad_avg, param)?;
        }
        if o.momentum > 0.0 {
            present(&mut state.momentum_buffer, param)?;
        }
        Ok(())
    }

    fn row<'a>(o: &RMSpropOptions, mut target: Target<'a>, s: &'a RMSpropState) -> RMSpropStep<'a> {
        target.maximize = o.maximize;
        target.weight_decay = o.weight_decay;
        RMSpropStep {
            target,
            square_avg: &s.square_avg,
            grad_avg: s.grad_avg.as_ref().filter(|_| o.centered),
            momentum_buffer: s.momentum_buffer.as_ref().filter(|_| o.momentum > 0.0),
            lr: o.lr,
            alpha: o.alpha,
            rest: 1.0 - o.alpha,
            eps: o.eps,
            momentum: o.momentum,
        }
    }

    counted!();
}
