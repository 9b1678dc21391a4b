//! Stochastic gradient descent.

use torsh_tensor::ops::optim::{SgdStep, Target, step, step_rows};
use torsh_tensor::{Result, Tensor, TensorLayout, TorshError};

use crate::fused::{Fused, fused, present};
use crate::options::{check_common, options, require};
use crate::sparse::{Rows, copied, joined, with_values, without_decay};
use crate::state::load_tensor;
use crate::{Algorithm, Optim, ParamState, StateValue};

/// Stochastic gradient descent, with momentum if wanted (`torch.optim.SGD`).
///
/// Settings and defaults: `lr = 1e-3`, `momentum = 0`, `dampening = 0`, `weight_decay = 0`,
/// `nesterov = false`, `maximize = false`.
///
/// A COO gradient changes the rows that it names alone. With momentum, as in PyTorch, the buffer is a COO tensor of the
/// rows that had a gradient so far, and each step changes these. It takes no weight decay.
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
    /// The momentum buffer, where there is momentum: strided, or a COO tensor where the gradients so far were.
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
        let momentum_buffer = match saved.get("momentum_buffer") {
            Some(StateValue::Tensor(t)) if is_coo(t) && t.shape() == param.shape() => {
                Some(copied(t, param)?)
            }
            _ => load_tensor(saved, "momentum_buffer", param)?,
        };
        Ok(Some(SgdState {
            filled: momentum_buffer.is_some(),
            momentum_buffer,
        }))
    }

    fn check_coo(o: &SgdOptions) -> Result<()> {
        without_decay(Self::NAME, o.weight_decay)
    }

    fn update_coo(
        o: &SgdOptions,
        param: &Tensor,
        grad: &Tensor,
        state: &mut Option<SgdState>,
    ) -> Result<()> {
        let state = match state {
            Some(state) => state,
            None => state.insert(Self::fresh(o, param)?),
        };
        if !param.device().has_data() {
            return Ok(());
        }
        if o.momentum == 0.0 {
            return on_rows(o, param, &Rows::of(grad)?, state, None);
        }
        let buffer = state.momentum_buffer.clone().filter(|_| state.filled);
        let (buffer, grad) = match buffer {
            None => {
                let grad = crate::sparse::coalesced(grad)?;
                (copied(&grad, &grad)?, grad)
            }
            Some(buffer) if same_rows(&buffer, grad) => joined(&buffer, grad)?,
            Some(buffer) => {
                // Every row has momentum, so every row moves.
                let grad = Rows::of(grad)?.strided(param)?;
                let buffer = strided(buffer, param)?;
                let row = target(o, Target::new(param, &grad), Some(&buffer), false);
                let stepped = step(&[row]);
                state.momentum_buffer = Some(buffer);
                return stepped;
            }
        };
        let values = torsh_tensor::sparse::values(&buffer)?;
        on_rows(o, param, &Rows::of(&grad)?, state, Some(&values))?;
        state.momentum_buffer = Some(with_values(&buffer, &values)?);
        state.filled = true;
        Ok(())
    }
}

fn is_coo(t: &Tensor) -> bool {
    t.layout() == TensorLayout::SparseCoo
}

/// Whether both are COO tensors of as many sparse dimensions.
fn same_rows(a: &Tensor, b: &Tensor) -> bool {
    match (a.pattern(), b.pattern()) {
        (Some(a), Some(b)) => a.sparse_dim() == b.sparse_dim(),
        _ => false,
    }
}

/// The buffer with all rows.
fn strided(buffer: Tensor, param: &Tensor) -> Result<Tensor> {
    match is_coo(&buffer) {
        true => Rows::of(&buffer)?.strided(param),
        false => Ok(buffer),
    }
}

/// The step on some rows: the same arithmetic as on all.
fn on_rows(
    o: &SgdOptions,
    param: &Tensor,
    rows: &Rows,
    state: &SgdState,
    buffer: Option<&Tensor>,
) -> Result<()> {
    if rows.len() == 0 {
        return Ok(());
    }
    let first = !state.filled;
    let in_place = target(o, Target::new(param, &rows.grad), None, first);
    let named = |e: TorshError| e.renamed(SgdAlgorithm::NAME);
    if buffer.is_none() && step_rows(&in_place, &rows.index).map_err(named)? {
        return Ok(());
    }
    let taken = rows.take(param)?;
    let buffer = buffer.map(crate::memory::real).transpose()?;
    let own = Target::new(&taken, &rows.grad);
    step(&[target(o, own, buffer.as_ref(), first)])?;
    rows.put(param, &taken)
}

/// The step of a target with a buffer.
fn target<'a>(
    o: &SgdOptions,
    mut target: Target<'a>,
    momentum_buffer: Option<&'a Tensor>,
    first: bool,
) -> SgdStep<'a> {
    target.maximize = o.maximize;
    target.weight_decay = o.weight_decay;
    SgdStep {
        target,
        momentum_buffer,
        lr: o.lr,
        momentum: o.momentum,
        rest: 1.0 - o.dampening,
        nesterov: o.nesterov,
        first,
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
            if let Some(buffer) = state.momentum_buffer.take_if(|b| is_coo(b)) {
                state.momentum_buffer = Some(strided(buffer, param)?);
            }
            present(&mut state.momentum_buffer, param)?;
        }
        Ok(())
    }

    fn row<'a>(o: &SgdOptions, own: Target<'a>, s: &'a SgdState) -> SgdStep<'a> {
        let buffer = s.momentum_buffer.as_ref().filter(|_| o.momentum != 0.0);
        target(o, own, buffer, !s.filled)
    }

    fn conditional(o: &SgdOptions) -> bool {
        // Without dampening the first step does to a buffer of zeros what the others do.
        o.momentum == 0.0 || o.dampening == 0.0
    }

    fn stepped(o: &SgdOptions, state: &mut SgdState) {
        state.filled |= o.momentum != 0.0;
    }
}
