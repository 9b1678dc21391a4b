//! Stochastic gradient descent.

use torsh_tensor::ops::optim::{SgdItem, SgdStep, sgd_steps, zeros_for};
use torsh_tensor::{Result, Tensor};

use crate::optim::{Step, load_tensor};
use crate::options::{check_common, options, require};
use crate::{Algorithm, Optim, ParamState};

/// Stochastic gradient descent, with momentum if wanted (`torch.optim.SGD`).
///
/// Settings and defaults: `lr = 1e-3`, `momentum = 0`, `dampening = 0`, `weight_decay = 0`,
/// `nesterov = false`, `maximize = false`.
pub type SGD = Optim<SgdAlgorithm>;

/// The update of [`SGD`].
#[derive(Debug)]
pub struct SgdAlgorithm;

options! {
    /// The settings of [`SGD`].
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
}

impl Algorithm for SgdAlgorithm {
    const NAME: &'static str = "SGD";
    type Options = SgdOptions;
    type State = SgdState;

    fn update(
        o: &SgdOptions,
        param: &Tensor,
        grad: &Tensor,
        state: &mut Option<SgdState>,
    ) -> Result<()> {
        let grad = grad.clone();
        Self::update_all(&mut [Step {
            options: o,
            param,
            grad,
            state,
        }])
    }

    fn update_all(steps: &mut [Step<'_, Self>]) -> Result<()> {
        let mut items = Vec::with_capacity(steps.len());
        for s in steps {
            let (o, mut first) = (s.options, false);
            let state = s.state.get_or_insert(SgdState {
                momentum_buffer: None,
            });
            if o.momentum != 0.0 && state.momentum_buffer.is_none() {
                state.momentum_buffer = Some(zeros_for(s.param)?);
                first = true;
            }
            let buffer = state.momentum_buffer.as_ref().filter(|_| o.momentum != 0.0);
            items.push(SgdItem {
                param: s.param,
                grad: &s.grad,
                buffer,
                step: SgdStep {
                    lr: o.lr,
                    weight_decay: o.weight_decay,
                    momentum: o.momentum,
                    dampening: o.dampening,
                    nesterov: o.nesterov,
                    maximize: o.maximize,
                    first,
                },
            });
        }
        sgd_steps(&items)
    }

    fn save(state: &SgdState) -> ParamState {
        let value = state
            .momentum_buffer
            .as_ref()
            .map_or(crate::StateValue::None, crate::StateValue::from);
        ParamState::from([("momentum_buffer".to_string(), value)])
    }

    fn load(saved: &ParamState, param: &Tensor) -> Result<Option<SgdState>> {
        Ok(Some(SgdState {
            momentum_buffer: load_tensor(saved, "momentum_buffer", param)?,
        }))
    }
}
