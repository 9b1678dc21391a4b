//! Adam and AdamW.

use torsh_tensor::ops::optim::{AdamStep, Target};
use torsh_tensor::{Result, Tensor};

use crate::fused::{Fused, counted, decay, fused, present};
use crate::memory::{StepCount, memory, remembered};
use crate::options::{check_adam, options};
use crate::{Algorithm, Optim};

/// Adam (`torch.optim.Adam`; Kingma and Ba, 2014).
///
/// Settings and defaults: `lr = 1e-3`, `betas = (0.9, 0.999)`, `eps = 1e-8`, `weight_decay = 0`
/// (an L2 penalty), `amsgrad = false`, `maximize = false`, `decoupled_weight_decay = false`.
///
/// ```
/// use torsh_optim::{Adam, Optimizer};
/// # use torsh_tensor::tensor;
/// let w = tensor![1.0, -3.0].requires_grad_(true);
/// let optimizer = Adam::builder([&w]).lr(0.1).betas(0.9, 0.99).build()?;
/// w.square()?.sum()?.backward()?;
/// optimizer.step()?;
/// // The first step is of the learning rate, whatever the gradient.
/// assert!(w.allclose(&tensor![0.9, -2.9])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub type Adam = Optim<AdamAlgorithm>;

/// Adam with decoupled weight decay (`torch.optim.AdamW`; Loshchilov and Hutter, 2017).
///
/// Settings and defaults: `lr = 1e-3`, `betas = (0.9, 0.999)`, `eps = 1e-8`,
/// `weight_decay = 0.01`, `amsgrad = false`, `maximize = false`.
///
/// ```
/// use torsh_optim::{AdamW, Optimizer};
/// # use torsh_tensor::tensor;
/// let w = tensor![1.0].requires_grad_(true);
/// let optimizer = AdamW::builder([&w]).lr(0.1).weight_decay(0.5).build()?;
/// w.square()?.sum()?.backward()?;
/// optimizer.step()?;
/// // 1 - 0.1 * 0.5, and a step of 0.1.
/// assert!(w.allclose(&tensor![0.85])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub type AdamW = Optim<AdamWAlgorithm>;

/// The update of [`Adam`].
///
/// ```
/// use torsh_optim::{AdamAlgorithm, AdamOptions, Algorithm};
/// # use torsh_tensor::tensor;
/// let (w, gradient, mut state) = (tensor![1.0], tensor![2.0], None);
/// AdamAlgorithm::update(&AdamOptions::default(), &w, &gradient, &mut state)?;
/// assert!(w.allclose(&tensor![0.999])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Debug)]
pub struct AdamAlgorithm;

/// The update of [`AdamW`].
///
/// ```
/// use torsh_optim::{AdamWAlgorithm, AdamWOptions, Algorithm};
/// # use torsh_tensor::tensor;
/// let (w, gradient, mut state) = (tensor![1.0], tensor![2.0], None);
/// AdamWAlgorithm::update(&AdamWOptions::default(), &w, &gradient, &mut state)?;
/// assert!(w.allclose(&tensor![0.99899])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Debug)]
pub struct AdamWAlgorithm;

options! {
    /// The settings of [`Adam`].
    ///
    /// ```
    /// use torsh_optim::AdamOptions;
    /// let o = AdamOptions::default();
    /// assert_eq!((o.lr, o.betas, o.eps), (1e-3, (0.9, 0.999), 1e-8));
    /// ```
    AdamOptions of AdamAlgorithm ("Adam") {
        /// The learning rate.
        lr: f64 = 1e-3;
        /// The decays of the running means of the gradient and of its square.
        betas: pair = (0.9, 0.999);
        /// What is added to the denominator.
        eps: f64 = 1e-8;
        /// The L2 penalty.
        weight_decay: f64 = 0.0;
        /// Whether to divide by the largest second moment so far.
        amsgrad: bool = false;
        /// Whether to go up the gradient.
        maximize: bool = false;
        /// Whether the decay is taken off the parameter directly, as AdamW does.
        decoupled_weight_decay: bool = false;
    }
    validate |o| check_adam("Adam", o.lr, o.betas, o.eps, o.weight_decay)
}

options! {
    /// The settings of [`AdamW`].
    ///
    /// ```
    /// use torsh_optim::AdamWOptions;
    /// let o = AdamWOptions::default();
    /// assert_eq!((o.lr, o.weight_decay), (1e-3, 1e-2));
    /// ```
    AdamWOptions of AdamWAlgorithm ("AdamW") {
        /// The learning rate.
        lr: f64 = 1e-3;
        /// The decays of the running means of the gradient and of its square.
        betas: pair = (0.9, 0.999);
        /// What is added to the denominator.
        eps: f64 = 1e-8;
        /// What is taken off each parameter, times the learning rate.
        weight_decay: f64 = 1e-2;
        /// Whether to divide by the largest second moment so far.
        amsgrad: bool = false;
        /// Whether to go up the gradient.
        maximize: bool = false;
    }
    validate |o| check_adam("AdamW", o.lr, o.betas, o.eps, o.weight_decay)
}

memory! {
    /// What Adam remembers of a parameter.
    ///
    /// ```
    /// use torsh_optim::{AdamAlgorithm, AdamOptions, Algorithm};
    /// # use torsh_tensor::tensor;
    /// let (w, gradient, mut state) = (tensor![1.0], tensor![2.0], None);
    /// AdamAlgorithm::update(&AdamOptions::default(), &w, &gradient, &mut state)?;
    /// let state = state.expect("a step was made");
    /// assert!(state.exp_avg.allclose(&tensor![0.2])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    AdamState(StepCount) {
        /// The running mean of the gradient.
        exp_avg: tensor;
        /// The running mean of its square.
        exp_avg_sq: tensor;
        /// The largest of these so far, with `amsgrad`.
        max_exp_avg_sq: optional;
    }
}

macro_rules! algorithm {
    ($algorithm:ident $options:ident $name:literal |$o:ident| $decoupled:expr) => {
        impl Algorithm for $algorithm {
            const NAME: &'static str = $name;
            type Options = $options;
            type State = AdamState;

            fused!();
            remembered!();
        }

        impl Fused for $algorithm {
            type Row<'a> = AdamStep<'a>;

            fn fresh(_: &$options, param: &Tensor) -> Result<AdamState> {
                AdamState::zeros(param)
            }

            fn complete(o: &$options, param: &Tensor, state: &mut AdamState) -> Result<()> {
                if o.amsgrad {
                    present(&mut state.max_exp_avg_sq, param)?;
                }
                Ok(())
            }

            fn row<'a>($o: &$options, mut target: Target<'a>, s: &'a AdamState) -> AdamStep<'a> {
                decay(&mut target, $o.lr, $o.weight_decay, $decoupled);
                target.maximize = $o.maximize;
                let (beta1, beta2) = $o.betas;
                AdamStep {
                    target,
                    exp_avg: &s.exp_avg,
                    exp_avg_sq: &s.exp_avg_sq,
                    max_exp_avg_sq: s.max_exp_avg_sq.as_ref().filter(|_| $o.amsgrad),
                    lr: $o.lr,
                    beta1,
                    beta2,
                    eps: $o.eps,
                }
            }

            counted!();
        }
    };
}
algorithm!(AdamAlgorithm AdamOptions "Adam" |o| o.decoupled_weight_decay);
algorithm!(AdamWAlgorithm AdamWOptions "AdamW" |o| true);
