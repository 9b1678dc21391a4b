//! Muon.

use torsh_tensor::ops::optim::{MuonMomentum, Target, step, zeros_for};
use torsh_tensor::{AddmmOptions, DType, Result, Tensor, TorshError};

use crate::fused::{descent, update_one};
use crate::memory::missing;
use crate::optim::Step;
use crate::options::{check_common, check_positive, options, require};
use crate::state::load_tensor;
use crate::{Algorithm, Optim, ParamState};

/// Momentum made orthogonal, for the matrices of hidden layers (`torch.optim.Muon`; Jordan, 2024).
///
/// Settings and defaults: `lr = 1e-3`, `weight_decay = 0.1` (decoupled), `momentum = 0.95`,
/// `nesterov = true`, `ns_coefficients = (3.4445, -4.775, 2.0315)`, `eps = 1e-7`, `ns_steps = 5`,
/// `adjust_lr_fn = None` (`"original"`, `"match_rms_adamw"` or `"spectral_unclamped"`).
/// Parameters must be real and have two dimensions; give the others to another optimizer. The
/// iteration computes in bfloat16, as PyTorch's.
///
/// ```
/// use torsh_optim::{Muon, Optimizer};
/// use torsh_tensor::Tensor;
///
/// let w = Tensor::from_data(&[1.0f32, 0.0, 0.0, 1.0], [2, 2])?.requires_grad_(true);
/// let optimizer = Muon::builder([&w]).lr(0.1).weight_decay(0.0).build()?;
/// w.mul(&w)?.sum()?.backward()?;
/// optimizer.step()?; // the step is 0.1 times a nearly orthogonal matrix
/// let step = 1.0 - w.to_vec::<f32>()?[0];
/// assert!((0.06..0.13).contains(&step), "{step}");
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub type Muon = Optim<MuonAlgorithm>;

/// The update of [`Muon`].
#[derive(Debug)]
pub struct MuonAlgorithm;

options! {
    /// The settings of [`Muon`].
    ///
    /// ```
    /// use torsh_optim::MuonOptions;
    /// let o = MuonOptions::default();
    /// assert_eq!((o.lr, o.momentum, o.nesterov), (1e-3, 0.95, true));
    /// ```
    MuonOptions of MuonAlgorithm ("Muon") {
        /// The learning rate.
        lr: f64 = 1e-3;
        /// What is taken off each parameter, times the learning rate.
        weight_decay: f64 = 0.1;
        /// How much of the momentum buffer is kept.
        momentum: f64 = 0.95;
        /// Whether to look ahead along the momentum.
        nesterov: bool = true;
        /// The coefficients of the Newton-Schulz iteration's polynomial.
        ns_coefficients: triple = (3.4445, -4.7750, 2.0315);
        /// The least norm that is divided by.
        eps: f64 = 1e-7;
        /// The number of iterations.
        ns_steps: count = 5;
        /// How the learning rate follows the shape of the parameter.
        adjust_lr_fn: word = None;
    }
    validate |o| {
        check_common("Muon", o.lr, o.weight_decay)?;
        check_positive("Muon", "momentum", o.momentum)?;
        require("Muon", o.ns_steps < 100, || {
            format!("Number of steps must be less than 100, got {}", o.ns_steps)
        })?;
        let name = o.adjust_lr_fn.as_deref();
        let known = [None, Some("original"), Some("match_rms_adamw"), Some("spectral_unclamped")];
        require("Muon", known.contains(&name), || {
            format!(
                "Adjust learning rate function {} is not supported (must be original, match_rms_adamw or \
                 spectral_unclamped)",
                name.unwrap_or_default()
            )
        })
    }
}

/// What Muon remembers of a parameter.
#[derive(Debug)]
pub struct MuonState {
    /// The running mean of the gradient.
    pub momentum_buffer: Tensor,
}

/// A nearly orthogonal matrix with the singular vectors of `grad`, by Newton-Schulz iterations.
fn orthogonal(grad: &Tensor, o: &MuonOptions) -> Result<Tensor> {
    let (a, b, c) = o.ns_coefficients;
    let tall = grad.dims()[0] > grad.dims()[1];
    let mut x = grad.to_dtype(DType::BF16)?;
    if tall {
        x = x.t()?;
    }
    x = x.div(x.norm()?.clamp_min(o.eps)?)?;
    for _ in 0..o.ns_steps {
        let gram = x.matmul(&x.t()?)?;
        let update = gram.addmm_with(&gram, &gram, AddmmOptions::new().beta(b).alpha(c))?;
        x = x.addmm_with(&update, &x, AddmmOptions::new().beta(a))?;
    }
    if tall { x.t() } else { Ok(x) }
}

/// The learning rate for a matrix of this shape.
fn adjusted(o: &MuonOptions, dims: &[usize]) -> f64 {
    let (rows, cols) = (dims[0] as f64, dims[1] as f64);
    o.lr * match o.adjust_lr_fn.as_deref() {
        Some("match_rms_adamw") => 0.2 * rows.max(cols).sqrt(),
        Some("spectral_unclamped") => (rows / cols).sqrt(),
        _ => (rows / cols).max(1.0).sqrt(),
    }
}

impl Algorithm for MuonAlgorithm {
    const NAME: &'static str = "Muon";
    type Options = MuonOptions;
    type State = MuonState;

    fn check(param: &Tensor, _group: usize) -> Result<()> {
        if param.ndim() != 2 || param.dtype().is_complex() {
            return Err(TorshError::invalid(
                "Muon",
                format!(
                    "only supports real 2D parameters, found {}",
                    param.describe()
                ),
            )
            .with_hint("optimize the others by AdamW"));
        }
        Ok(())
    }

    update_one!();

    /// What is done with each element is one call for all before the iterations and one after.
    fn update_all(steps: &mut [Step<'_, Self>]) -> Result<()> {
        let mut updates = Vec::with_capacity(steps.len());
        for s in &mut *steps {
            if s.state.is_none() {
                let momentum_buffer = zeros_for(s.param)?;
                *s.state = Some(MuonState { momentum_buffer });
            }
            updates.push(s.param.detach().empty_like()?);
        }
        let moments = steps.iter().zip(&updates).filter_map(|(s, update)| {
            Some(MuonMomentum {
                target: Target::new(update, &s.grad),
                momentum_buffer: &s.state.as_ref()?.momentum_buffer,
                momentum: s.options.momentum,
                rest: 1.0 - s.options.momentum,
                nesterov: s.options.nesterov,
            })
        });
        step(&moments.collect::<Vec<_>>())?;
        for (s, update) in steps.iter().zip(&mut updates) {
            *update = orthogonal(update, s.options)?.to_dtype(s.param.dtype())?;
        }
        let last = steps.iter().zip(&updates).map(|(s, update)| {
            let o = s.options;
            let shrink = 1.0 - o.lr * o.weight_decay;
            descent(s.param, update, adjusted(o, s.param.dims()), shrink)
        });
        step(&last.collect::<Vec<_>>())
    }

    fn save(state: &MuonState) -> ParamState {
        ParamState::from([("momentum_buffer".into(), (&state.momentum_buffer).into())])
    }

    fn load(saved: &ParamState, param: &Tensor) -> Result<Option<MuonState>> {
        let momentum_buffer = load_tensor(saved, "momentum_buffer", param)?
            .ok_or_else(|| missing("momentum_buffer"))?;
        Ok(Some(MuonState { momentum_buffer }))
    }
}
