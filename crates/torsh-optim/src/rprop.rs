//! Rprop.

use torsh_tensor::ops::optim::{RpropStep, Target};
use torsh_tensor::{Result, Tensor};

use crate::fused::{Fused, counted, fill, fused};
use crate::memory::{StepCount, memory, remembered};
use crate::options::{check_common, options, require};
use crate::{Algorithm, Optim};

/// Steps by the gradient's sign alone, which grow while it stays and shrink where it changes
/// (`torch.optim.Rprop`; Riedmiller and Braun, 1993).
///
/// Settings and defaults: `lr = 1e-2`, `etas = (0.5, 1.2)`, `step_sizes = (1e-6, 50)`,
/// `maximize = false`.
///
/// ```
/// use torsh_optim::{Optimizer, Rprop};
/// use torsh_tensor::Tensor;
///
/// let w = Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
/// let optimizer = Rprop::builder([&w]).lr(0.25).build()?;
/// for _ in 0..2 {
///     optimizer.zero_grad();
///     w.mul(&w)?.sum()?.backward()?;
///     optimizer.step()?;
/// }
/// assert!((w.item::<f32>()? - (1.0 - 0.25 - 0.3)).abs() < 1e-6);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub type Rprop = Optim<RpropAlgorithm>;

/// The update of [`Rprop`].
///
/// ```
/// use torsh_optim::{Algorithm, RpropAlgorithm, RpropOptions};
/// # use torsh_tensor::tensor;
/// let (w, gradient, mut state) = (tensor![1.0], tensor![2.0], None);
/// RpropAlgorithm::update(&RpropOptions::default(), &w, &gradient, &mut state)?;
/// assert!(w.allclose(&tensor![0.99])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Debug)]
pub struct RpropAlgorithm;

options! {
    /// The settings of [`Rprop`].
    ///
    /// ```
    /// use torsh_optim::RpropOptions;
    /// let o = RpropOptions::default();
    /// assert_eq!((o.lr, o.etas, o.step_sizes), (1e-2, (0.5, 1.2), (1e-6, 50.0)));
    /// ```
    RpropOptions of RpropAlgorithm ("Rprop") {
        /// The first step's size.
        lr: f64 = 1e-2;
        /// What a step's size is multiplied by where the gradient's sign changed, and where it
        /// stayed.
        etas: pair = (0.5, 1.2);
        /// The smallest and the largest step.
        step_sizes: pair = (1e-6, 50.0);
        /// Whether to go up the gradient.
        maximize: bool = false;
    }
    validate |o| {
        check_common("Rprop", o.lr, 0.0)?;
        require("Rprop", 0.0 < o.etas.0 && o.etas.0 < 1.0 && 1.0 < o.etas.1, || {
            format!("Invalid eta values: {}, {} (must be below and above 1)", o.etas.0, o.etas.1)
        })
    }
}

memory! {
    /// What Rprop remembers of a parameter.
    ///
    /// ```
    /// use torsh_optim::{Algorithm, RpropAlgorithm, RpropOptions};
    /// # use torsh_tensor::tensor;
    /// let (w, gradient, mut state) = (tensor![1.0], tensor![2.0], None);
    /// RpropAlgorithm::update(&RpropOptions::default(), &w, &gradient, &mut state)?;
    /// let state = state.expect("a step was made");
    /// assert!(state.prev.allclose(&tensor![2.0])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    RpropState(StepCount) {
        /// The last gradient, 0 where its sign had changed.
        prev: tensor;
        /// The size of each element's step.
        step_size: tensor;
    }
}

impl Algorithm for RpropAlgorithm {
    const NAME: &'static str = "Rprop";
    type Options = RpropOptions;
    type State = RpropState;

    fused!();
    remembered!();
}

impl Fused for RpropAlgorithm {
    type Row<'a> = RpropStep<'a>;

    fn fresh(o: &RpropOptions, param: &Tensor) -> Result<RpropState> {
        let state = RpropState::zeros(param)?;
        fill(&state.step_size, o.lr)?;
        Ok(state)
    }

    fn row<'a>(o: &RpropOptions, mut target: Target<'a>, s: &'a RpropState) -> RpropStep<'a> {
        target.maximize = o.maximize;
        RpropStep {
            target,
            prev: &s.prev,
            step_size: &s.step_size,
            shorter: o.etas.0,
            longer: o.etas.1,
            smallest: o.step_sizes.0,
            largest: o.step_sizes.1,
        }
    }

    counted!();
}
