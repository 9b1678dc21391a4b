//! Adam and AdamW.

use torsh_tensor::ops::optim::{AdamItem, AdamStep, adam_steps, zeros_for};
use torsh_tensor::{Result, Tensor, TorshError};

use crate::optim::{Step, load_step, load_tensor};
use crate::options::{check_adam, options};
use crate::{Algorithm, Optim, ParamState, StateValue};

/// Adam (`torch.optim.Adam`; Kingma and Ba, 2014).
///
/// Settings and defaults: `lr = 1e-3`, `betas = (0.9, 0.999)`, `eps = 1e-8`, `weight_decay = 0`
/// (an L2 penalty), `amsgrad = false`, `maximize = false`, `decoupled_weight_decay = false`.
pub type Adam = Optim<AdamAlgorithm>;

/// Adam with decoupled weight decay (`torch.optim.AdamW`; Loshchilov and Hutter, 2017).
///
/// Settings and defaults: `lr = 1e-3`, `betas = (0.9, 0.999)`, `eps = 1e-8`,
/// `weight_decay = 0.01`, `amsgrad = false`, `maximize = false`.
pub type AdamW = Optim<AdamWAlgorithm>;

/// The update of [`Adam`].
#[derive(Debug)]
pub struct AdamAlgorithm;

/// The update of [`AdamW`].
#[derive(Debug)]
pub struct AdamWAlgorithm;

options! {
    /// The settings of [`Adam`].
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

/// What Adam remembers of a parameter.
#[derive(Debug)]
pub struct AdamState {
    /// How many steps were done.
    pub step: u64,
    /// The running mean of the gradient.
    pub exp_avg: Tensor,
    /// The running mean of its square.
    pub exp_avg_sq: Tensor,
    /// The largest of these so far, with `amsgrad`.
    pub max_exp_avg_sq: Option<Tensor>,
}

/// The steps of all parameters in one call; `numbers` are those of a group's settings.
fn update_all<A: Algorithm<State = AdamState>>(
    steps: &mut [Step<'_, A>],
    numbers: impl Fn(&A::Options) -> (AdamStep, bool),
) -> Result<()> {
    for s in &mut *steps {
        let state = match &mut *s.state {
            Some(state) => state,
            None => s.state.insert(AdamState {
                step: 0,
                exp_avg: zeros_for(s.param)?,
                exp_avg_sq: zeros_for(s.param)?,
                max_exp_avg_sq: None,
            }),
        };
        if numbers(s.options).1 && state.max_exp_avg_sq.is_none() {
            state.max_exp_avg_sq = Some(zeros_for(s.param)?);
        }
    }
    let items: Vec<AdamItem<'_>> = steps
        .iter()
        .filter_map(|s| {
            let state = s.state.as_ref()?;
            let (step, amsgrad) = numbers(s.options);
            Some(AdamItem {
                param: s.param,
                grad: &s.grad,
                exp_avg: &state.exp_avg,
                exp_avg_sq: &state.exp_avg_sq,
                max_exp_avg_sq: state.max_exp_avg_sq.as_ref().filter(|_| amsgrad),
                step: AdamStep {
                    step: state.step + 1,
                    ..step
                },
            })
        })
        .collect();
    adam_steps(&items)?;
    for state in steps.iter_mut().filter_map(|s| s.state.as_mut()) {
        state.step += 1;
    }
    Ok(())
}

fn save(s: &AdamState) -> ParamState {
    let mut out = ParamState::from([
        ("step".to_string(), StateValue::Int(s.step as i64)),
        ("exp_avg".to_string(), StateValue::from(&s.exp_avg)),
        ("exp_avg_sq".to_string(), StateValue::from(&s.exp_avg_sq)),
    ]);
    if let Some(t) = &s.max_exp_avg_sq {
        out.insert("max_exp_avg_sq".to_string(), StateValue::from(t));
    }
    out
}

fn load(saved: &ParamState, param: &Tensor) -> Result<Option<AdamState>> {
    let need = |name: &str| {
        load_tensor(saved, name, param)?
            .ok_or_else(|| TorshError::invalid("", format!("the state has no {name}")))
    };
    let Some(step) = load_step(saved)? else {
        return Ok(None);
    };
    Ok(Some(AdamState {
        step,
        exp_avg: need("exp_avg")?,
        exp_avg_sq: need("exp_avg_sq")?,
        max_exp_avg_sq: load_tensor(saved, "max_exp_avg_sq", param)?,
    }))
}

macro_rules! algorithm {
    ($algorithm:ident $options:ident $name:literal |$o:ident| $decoupled:expr) => {
        impl Algorithm for $algorithm {
            const NAME: &'static str = $name;
            type Options = $options;
            type State = AdamState;

            fn update(
                options: &$options,
                param: &Tensor,
                grad: &Tensor,
                state: &mut Option<AdamState>,
            ) -> Result<()> {
                let grad = grad.clone();
                Self::update_all(&mut [Step {
                    options,
                    param,
                    grad,
                    state,
                }])
            }

            fn update_all(steps: &mut [Step<'_, Self>]) -> Result<()> {
                update_all(steps, |$o| {
                    let step = AdamStep {
                        lr: $o.lr,
                        beta1: $o.betas.0,
                        beta2: $o.betas.1,
                        eps: $o.eps,
                        weight_decay: $o.weight_decay,
                        decoupled: $decoupled,
                        maximize: $o.maximize,
                        step: 0,
                    };
                    (step, $o.amsgrad)
                })
            }

            fn save(state: &AdamState) -> ParamState {
                save(state)
            }

            fn load(saved: &ParamState, param: &Tensor) -> Result<Option<AdamState>> {
                load(saved, param)
            }
        }
    };
}
algorithm!(AdamAlgorithm AdamOptions "Adam" |o| o.decoupled_weight_decay);
algorithm!(AdamWAlgorithm AdamWOptions "AdamW" |o| true);
