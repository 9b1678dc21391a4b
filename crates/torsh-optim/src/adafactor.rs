//! Adafactor.

use torsh_core::cmath;
use torsh_tensor::ops::optim::{AdafactorUpdate, Target, step, zeros_for};
use torsh_tensor::{DType, Result, Tensor, TorshError};

use crate::fused::{descent, update_one};
use crate::memory::missing;
use crate::optim::Step;
use crate::options::{check_common, check_positive, options, require};
use crate::state::{load_step, load_tensor};
use crate::{Algorithm, Optim, ParamState, StateValue};

/// Adam's steps with the second moment of a matrix kept as a row and a column
/// (`torch.optim.Adafactor`; Shazeer and Stern, 2018).
///
/// Settings and defaults: `lr = 1e-2` (the most that a relative step may be),
/// `beta2_decay = -0.8`, `eps = (None, 1e-3)` (`None` is the dtype's), `d = 1`,
/// `weight_decay = 0`, `maximize = false`. Complex parameters are an error.
///
/// ```
/// use torsh_optim::{Adafactor, Optimizer};
/// use torsh_tensor::Tensor;
///
/// let w = Tensor::from_data(&[1.0f64, 1.0], [2])?.requires_grad_(true);
/// let optimizer = Adafactor::builder([&w]).lr(0.5).build()?;
/// w.mul(&w)?.sum()?.backward()?;
/// optimizer.step()?;
/// assert!((w.to_vec::<f64>()?[0] - 0.5).abs() < 1e-9);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub type Adafactor = Optim<AdafactorAlgorithm>;

/// The update of [`Adafactor`].
#[derive(Debug)]
pub struct AdafactorAlgorithm;

options! {
    /// The settings of [`Adafactor`].
    ///
    /// ```
    /// use torsh_optim::AdafactorOptions;
    /// let o = AdafactorOptions::default();
    /// assert_eq!((o.lr, o.beta2_decay), (1e-2, -0.8));
    /// ```
    AdafactorOptions of AdafactorAlgorithm ("Adafactor") {
        /// The most that a step relative to the parameter may be.
        lr: f64 = 1e-2;
        /// The power of the step count that the second moment's decay follows.
        beta2_decay: f64 = -0.8;
        /// The least root of the second moment (`None` for the dtype's epsilon), and the least
        /// size that the parameter counts as.
        eps: epsilons = (None, 1e-3);
        /// The size of an update from which on it is scaled down.
        d: f64 = 1.0;
        /// What is taken off each parameter, times the learning rate.
        weight_decay: f64 = 0.0;
        /// Whether to go up the gradient.
        maximize: bool = false;
    }
    validate |o| {
        check_common("Adafactor", o.lr, o.weight_decay)?;
        require("Adafactor", o.beta2_decay <= 0.0, || {
            format!("beta2_decay should be <= 0 but is: {}", o.beta2_decay)
        })?;
        check_positive("Adafactor", "epsilon1", o.eps.0.unwrap_or(0.0))?;
        check_positive("Adafactor", "epsilon2", o.eps.1)?;
        require("Adafactor", o.d >= 1.0, || {
            format!("Clipping threshold d should be >= 1 but is: {}", o.d)
        })
    }
}

/// The second moment of a gradient.
#[derive(Debug)]
pub enum Variance {
    /// Of a vector or number: whole.
    Whole(Tensor),
    /// Of anything with rows and columns: their means.
    Factors {
        /// The means of the rows, of size 1 in the last dimension.
        row: Tensor,
        /// The means of the columns, of size 1 in the last dimension but one.
        col: Tensor,
    },
}

/// What Adafactor remembers of a parameter.
#[derive(Debug)]
pub struct AdafactorState {
    /// How many steps were done.
    pub step: u64,
    /// The second moment.
    pub variance: Variance,
}

/// The shapes of the two factors.
fn factors(param: &Tensor) -> (Vec<usize>, Vec<usize>) {
    let (mut row, mut col) = (param.dims().to_vec(), param.dims().to_vec());
    let n = row.len();
    row[n - 1] = 1;
    col[n - 2] = 1;
    (row, col)
}

/// The least root of the second moment.
fn floor(o: &AdafactorOptions, param: &Tensor) -> f64 {
    o.eps.0.unwrap_or(match param.dtype() {
        DType::F64 => f64::EPSILON,
        DType::F16 => 2f64.powi(-10),
        DType::BF16 => 2f64.powi(-7),
        _ => f64::from(f32::EPSILON),
    })
}

/// The mean of the squares along a dimension.
fn mean_square(grad: &Tensor, dim: i64) -> Result<Tensor> {
    grad.norm_dim(dim, true)?
        .square()?
        .div_(grad.size(dim)? as f64)
}

fn root_mean_square(t: &Tensor) -> Result<f64> {
    Ok(t.norm()?.item::<f64>()? / (t.numel() as f64).sqrt())
}

/// Takes a gradient into the second moment, which it returns for each element.
fn estimate(s: &mut Step<'_, AdafactorAlgorithm>) -> Result<Tensor> {
    let (param, o) = (s.param, s.options);
    if param.dtype().is_complex() {
        return Err(TorshError::dtype(
            "",
            format!("does not support complex parameters ({})", param.describe()),
        ));
    }
    let state = match &mut *s.state {
        Some(state) => state,
        None => {
            let variance = if param.ndim() > 1 {
                let (row, col) = factors(param);
                let zeros = |shape| Tensor::zeros(shape, param.dtype(), param.device());
                Variance::Factors {
                    row: zeros(row)?,
                    col: zeros(col)?,
                }
            } else {
                Variance::Whole(zeros_for(param)?)
            };
            s.state.insert(AdafactorState { step: 0, variance })
        }
    };
    let grad = s.grad.detach();
    let rest = cmath::pow(state.step as f64 + 1.0, o.beta2_decay);
    let estimate = match &state.variance {
        Variance::Factors { row, col } => {
            row.lerp_(&mean_square(&grad, -1)?, rest)?;
            col.lerp_(&mean_square(&grad, -2)?, rest)?;
            let eps = floor(o, param);
            row.mul(col)?
                .div_(row.mean_dim(-2, true)?.clamp_min(eps)?)?
        }
        Variance::Whole(v) => {
            v.lerp_(&grad.mul(&grad)?, rest)?;
            v.copy()?
        }
    };
    state.step += 1;
    Ok(estimate)
}

impl Algorithm for AdafactorAlgorithm {
    const NAME: &'static str = "Adafactor";
    type Options = AdafactorOptions;
    type State = AdafactorState;

    update_one!();

    /// What is done with each element of estimates and parameters is one call each for all.
    fn update_all(steps: &mut [Step<'_, Self>]) -> Result<()> {
        let mut updates = Vec::with_capacity(steps.len());
        for s in &mut *steps {
            updates.push(estimate(s)?);
        }
        let scaled = steps.iter().zip(&updates).map(|(s, estimate)| {
            let mut target = Target::new(estimate, &s.grad);
            target.maximize = s.options.maximize;
            let eps = floor(s.options, s.param);
            AdafactorUpdate {
                target,
                floor: eps * eps,
            }
        });
        step(&scaled.collect::<Vec<_>>())?;
        let mut last = Vec::with_capacity(steps.len());
        for (s, update) in steps.iter().zip(&updates) {
            let (o, param) = (s.options, &s.param.detach());
            let count = s.state.as_ref().map_or(1, |s| s.step) as f64;
            let relative = o.lr.min(1.0 / count.sqrt());
            let alpha = root_mean_square(param)?.max(o.eps.1) * relative;
            let size = (root_mean_square(update)? / o.d).max(1.0);
            let shrink = 1.0 - o.lr * o.weight_decay;
            last.push(descent(s.param, update, alpha / size, shrink));
        }
        step(&last)
    }

    fn save(state: &AdafactorState) -> ParamState {
        let mut out = ParamState::from([("step".into(), StateValue::Int(state.step as i64))]);
        match &state.variance {
            Variance::Whole(v) => {
                out.insert("variance".into(), v.into());
            }
            Variance::Factors { row, col } => {
                out.insert("row_var".into(), row.into());
                out.insert("col_var".into(), col.into());
            }
        }
        out
    }

    fn load(saved: &ParamState, param: &Tensor) -> Result<Option<AdafactorState>> {
        let Some(step) = load_step(saved)? else {
            return Ok(None);
        };
        let need = |name: &'static str, like: &Tensor| {
            load_tensor(saved, name, like)?.ok_or_else(|| missing(name))
        };
        let variance = if param.ndim() > 1 {
            let (row, col) = factors(param);
            let like = |shape| Tensor::zeros(shape, param.dtype(), param.device());
            Variance::Factors {
                row: need("row_var", &like(row)?)?,
                col: need("col_var", &like(col)?)?,
            }
        } else {
            Variance::Whole(need("variance", param)?)
        };
        Ok(Some(AdafactorState { step, variance }))
    }
}
