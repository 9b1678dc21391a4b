//! Adamax.

use torsh_tensor::ops::optim::{AdamaxStep, Target};
use torsh_tensor::{Result, Tensor};

use crate::fused::{Fused, counted, fused};
use crate::memory::{StepCount, memory, remembered};
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
///
/// ```
/// use torsh_optim::{AdamaxAlgorithm, AdamaxOptions, Algorithm};
/// # use torsh_tensor::tensor;
/// let (w, gradient, mut state) = (tensor![1.0], tensor![2.0], None);
/// AdamaxAlgorithm::update(&AdamaxOptions::default(), &w, &gradient, &mut state)?;
/// assert!(w.allclose(&tensor![0.998])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Debug)]
pub struct AdamaxAlgorithm;

options! {
    /// The settings of [`Adamax`].
    ///
    /// ```
    /// use torsh_optim::AdamaxOptions;
    /// let o = AdamaxOptions::default();
    /// assert_eq!((o.lr, o.betas, o.eps), (2e-3, (0.9, 0.999), 1e-8));
    /// ```
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
    ///
    /// ```
    /// use torsh_optim::{AdamaxAlgorithm, AdamaxOptions, Algorithm};
    /// # use torsh_tensor::tensor;
    /// let (w, gradient, mut state) = (tensor![1.0], tensor![2.0], None);
    /// AdamaxAlgorithm::update(&AdamaxOptions::default(), &w, &gradient, &mut state)?;
    /// let state = state.expect("a step was made");
    /// assert!(state.exp_avg.allclose(&tensor![0.2])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    AdamaxState(StepCount) {
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

    fused!();
    remembered!();
}

impl Fused for AdamaxAlgorithm {
    type Row<'a> = AdamaxStep<'a>;

    fn fresh(_: &AdamaxOptions, param: &Tensor) -> Result<AdamaxState> {
        AdamaxState::zeros(param)
    }

    fn row<'a>(o: &AdamaxOptions, mut target: Target<'a>, s: &'a AdamaxState) -> AdamaxStep<'a> {
        target.maximize = o.maximize;
        target.weight_decay = o.weight_decay;
        let (beta1, beta2) = o.betas;
        AdamaxStep {
            target,
            exp_avg: &s.exp_avg,
            exp_inf: &s.exp_inf,
            lr: o.lr,
            beta1,
            beta2,
            eps: o.eps,
        }
    }

    counted!();
}
