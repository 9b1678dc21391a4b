//! Stochastic gradient descent.

use torsh_tensor::ops::optim::{SgdStep, Target};
use torsh_tensor::{Result, Tensor};

use crate::fused::{Fused, fused, present};
use crate::optim::load_tensor;
use crate::options::{check_common, options, require};
use crate::{Algorithm, Optim, ParamState};

/// Stochastic gradient descent, with momentum if wanted (`torch.optim.SGD`).
///
/// Settings and defaults: `lr = 1e-3`, `momentum = 0`, `dampening = 0`, `weight_decay = 0`,
/// `nesterov = false`, `maximize = false`.
///
/// ```
/// use torsh_optim::{Optimizer, SGD};
/// # use torsh_tensor::tensor;
/// let w = tensor![1.0].requires_grad_(true);
/// let optimizer = SGD::builder([&w]).lr(0.1).momentum(0.9).build()?;
/// for expected in [0.8, 0.46] {
///     optimizer.zero_grad();
///     w.square()?.sum()?.backward()?;
///     optimizer.step()?;
///     assert!((w.item::<f32>()? - expected).abs() < 1e-6);
/// }
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub type SGD = Optim<SgdAlgorithm>;

/// The update of [`SGD`].
///
/// ```
/// use torsh_optim::{Algorithm, SgdAlgorithm, SgdOptions};
/// # use torsh_tensor::tensor;
/// let (w, gradient, mut state) = (tensor![1.0], tensor![2.0], None);
/// SgdAlgorithm::update(&SgdOptions::default(), &w, &gradient, &mut state)?;
/// assert!(w.allclose(&tensor![0.998])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Debug)]
pub struct SgdAlgorithm;

options! {
    /// The settings of [`SGD`].
    ///
    /// ```
    /// use torsh_optim::SgdOptions;
    /// let o = SgdOptions::default();
    /// assert_eq!((o.lr, o.momentum, o.nesterov), (1e-3, 0.0, false));
    /// ```
    SgdOptions of SgdAlgorithm ("SGD") {
        /// The learning rate.
        lr: f64 = 1e-3;
        /// How much of the last step is kept.
        momentum: f64 = 0.0;
        /// How much of the gradient does not enter the momentum buffer.
        dampening: f64 = 0.0;
        /// The L2 penalty.
        weight_decay: f64 = 0.0;
        /// Whether to look ahead along the momentum.
        nesterov: bool = false;
        /// Whether to go up the gradient.
        maximize: bool = false;
    }
    validate |o| {
        check_common("SGD", o.lr, o.weight_decay)?;
        require("SGD", o.momentum >= 0.0, || format!("Invalid momentum value: {} (must be 0 or more)", o.momentum))?;
        require("SGD", !o.nesterov || (o.momentum > 0.0 && o.dampening == 0.0), || {
            "Nesterov momentum requires a momentum and zero dampening".into()
        })
    }
}

/// What SGD remembers of a parameter.
#[derive(Debug)]
pub struct SgdState {
    /// The momentum buffer, where there is momentum.
    pub momentum_buffer: Option<Tensor>,
    /// Whether a step was written to it.
    filled: bool,
}

impl Algorithm for SgdAlgorithm {
    const NAME: &'static str = "SGD";
    type Options = SgdOptions;
    type State = SgdState;

    fused!();

    fn save(state: &SgdState) -> ParamState {
        let buffer = state.momentum_buffer.as_ref().filter(|_| state.filled);
        let value = buffer.map_or(crate::StateValue::None, crate::StateValue::from);
        ParamState::from([("momentum_buffer".to_string(), value)])
    }

    fn load(saved: &ParamState, param: &Tensor) -> Result<Option<SgdState>> {
        let momentum_buffer = load_tensor(saved, "momentum_buffer", param)?;
        Ok(Some(SgdState {
            filled: momentum_buffer.is_some(),
            momentum_buffer,
        }))
    }
}

impl Fused for SgdAlgorithm {
    type Row<'a> = SgdStep<'a>;

    fn fresh(_: &SgdOptions, _: &Tensor) -> Result<SgdState> {
        Ok(SgdState {
            momentum_buffer: None,
            filled: false,
        })
    }

    fn complete(o: &SgdOptions, param: &Tensor, state: &mut SgdState) -> Result<()> {
        if o.momentum != 0.0 {
            present(&mut state.momentum_buffer, param)?;
        }
        Ok(())
    }

    fn row<'a>(o: &SgdOptions, mut target: Target<'a>, s: &'a SgdState) -> SgdStep<'a> {
        target.maximize = o.maximize;
        target.weight_decay = o.weight_decay;
        SgdStep {
            target,
            momentum_buffer: s.momentum_buffer.as_ref().filter(|_| o.momentum != 0.0),
            lr: o.lr,
            momentum: o.momentum,
            rest: 1.0 - o.dampening,
            nesterov: o.nesterov,
            first: !s.filled,
        }
    }

    fn conditional(o: &SgdOptions) -> bool {
        // Without dampening the first step does to a buffer of zeros what the others do.
        o.momentum == 0.0 || o.dampening == 0.0
    }

    fn stepped(o: &SgdOptions, state: &mut SgdState) {
        state.filled |= o.momentum != 0.0;
    }
}
