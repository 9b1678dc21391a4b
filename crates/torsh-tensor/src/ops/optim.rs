//! The steps of optimizers as one pass over parameter, gradient and state.
//!
//! Nothing is recorded, whatever the thread's mode; the versions of what is written are counted.
//! Complex parameters are updated as pairs of real numbers, as PyTorch does.

use smallvec::SmallVec;
use torsh_core::{Attr, Kernel, Result, TorshError};

use crate::Tensor;
use crate::call::{Arg, update};
use crate::mode::no_grad_guard;
use crate::record::{OpRecord, Plan};

static SGD_STEP: OpRecord = OpRecord::new("_sgd_step", "One step of SGD, in place.", "")
    .kernel(Kernel::SgdStep, |c| {
        c.tensor(0)
            .map(|x| Plan::one(x.dtype(), x.shape().clone(), x.dtype()))
    })
    .constant();

static ADAM_STEP: OpRecord =
    OpRecord::new("_adam_step", "One step of Adam or AdamW, in place.", "")
        .kernel(Kernel::AdamStep, |c| {
            c.tensor(0)
                .map(|x| Plan::one(x.dtype(), x.shape().clone(), x.dtype()))
        })
        .constant();

/// The numbers of [`sgd_step`], with PyTorch's names.
#[derive(Clone, Copy, Debug)]
pub struct SgdStep {
    /// The learning rate.
    pub lr: f64,
    /// The L2 penalty.
    pub weight_decay: f64,
    /// How much of the buffer is kept.
    pub momentum: f64,
    /// How much of the gradient is left out of the buffer.
    pub dampening: f64,
    /// Whether Nesterov's momentum is used.
    pub nesterov: bool,
    /// Whether to go up the gradient.
    pub maximize: bool,
    /// Whether the buffer holds nothing yet and becomes the gradient.
    pub first: bool,
}

/// The numbers of [`adam_step`], with PyTorch's names.
#[derive(Clone, Copy, Debug)]
pub struct AdamStep {
    /// The learning rate.
    pub lr: f64,
    /// The decay of the running mean of the gradient.
    pub beta1: f64,
    /// The decay of the running mean of its square.
    pub beta2: f64,
    /// What is added to the denominator.
    pub eps: f64,
    /// The L2 penalty, or the decay where `decoupled`.
    pub weight_decay: f64,
    /// Whether the decay is taken off the parameter directly (AdamW).
    pub decoupled: bool,
    /// Whether to go up the gradient.
    pub maximize: bool,
    /// How many steps were done, this one included.
    pub step: u64,
}

/// The tensor as the kernels see it: complex numbers as pairs.
fn real(t: &Tensor) -> Result<Tensor> {
    if t.dtype().is_complex() {
        t.detach().view_as_real()
    } else {
        Ok(t.detach())
    }
}

/// Runs a step on operands of one dense memory order, through copies where they have another.
fn run(
    record: &'static OpRecord,
    param: &Tensor,
    grad: &Tensor,
    state: &[&Tensor],
    attrs: &[Attr<'_>],
) -> Result<()> {
    let _no_grad = no_grad_guard();
    for t in state.iter().copied().chain([grad]) {
        if t.shape() != param.shape() || t.dtype() != param.dtype() || t.device() != param.device()
        {
            return Err(TorshError::invalid(
                record.name,
                format!(
                    "the parameter is {}, its gradient or state {}",
                    param.describe(),
                    t.describe()
                ),
            ));
        }
    }
    if !param.dtype().is_differentiable() {
        return Err(TorshError::dtype(
            record.name,
            format!("a parameter cannot be {}", param.describe()),
        ));
    }
    if param.device() == crate::Device::Meta {
        return Ok(());
    }
    let param = real(param)?;
    let grad = real(grad)?;
    let dense = param.layout().is_dense();
    let work = if dense {
        param.clone()
    } else {
        param.contiguous()?
    };
    let fits = |t: &Tensor| t.stride() == work.stride();
    let grad = if fits(&grad) {
        grad
    } else {
        grad.copy_like(&work)?
    };
    let mut targets: SmallVec<[Tensor; 4]> = SmallVec::from_iter([work.clone()]);
    let mut written_back: SmallVec<[(Tensor, Tensor); 3]> = SmallVec::new();
    for s in state {
        let s = real(s)?;
        if fits(&s) {
            targets.push(s);
        } else {
            let copy = s.copy_like(&work)?;
            written_back.push((s, copy.clone()));
            targets.push(copy);
        }
    }
    update(record, &targets, &[Arg::T(&grad)], attrs)?;
    for (s, copy) in &written_back {
        s.copy_(copy)?;
    }
    if !dense {
        param.copy_(&work)?;
    }
    Ok(())
}

/// One step of `torch.optim.SGD` on one parameter, in place.
///
/// `buffer` is the momentum buffer, which must be there where `momentum` is not 0. All have the
/// parameter's shape, dtype (floating point or complex) and device.
#[track_caller]
pub fn sgd_step(param: &Tensor, grad: &Tensor, buffer: Option<&Tensor>, s: &SgdStep) -> Result<()> {
    if s.momentum != 0.0 && buffer.is_none() {
        return Err(TorshError::invalid("_sgd_step", "momentum needs a buffer"));
    }
    let attrs = [
        Attr::Float(s.lr),
        Attr::Float(s.weight_decay),
        Attr::Float(s.momentum),
        Attr::Float(s.dampening),
        Attr::Bool(s.nesterov),
        Attr::Bool(s.maximize),
        Attr::Bool(s.first),
    ];
    let state: SmallVec<[&Tensor; 1]> = buffer.into_iter().collect();
    run(&SGD_STEP, param, grad, &state, &attrs)
}

/// One step of `torch.optim.Adam` or `AdamW` on one parameter, in place.
///
/// `max_exp_avg_sq` is there for AMSGrad. All have the parameter's shape, dtype (floating point or
/// complex) and device.
#[track_caller]
pub fn adam_step(
    param: &Tensor,
    grad: &Tensor,
    exp_avg: &Tensor,
    exp_avg_sq: &Tensor,
    max_exp_avg_sq: Option<&Tensor>,
    s: &AdamStep,
) -> Result<()> {
    let steps = s.step as f64;
    let correction1 = 1.0 - s.beta1.powf(steps);
    let correction2 = 1.0 - s.beta2.powf(steps);
    let (shrink, penalty) = if s.decoupled {
        (1.0 - s.lr * s.weight_decay, 0.0)
    } else {
        (1.0, s.weight_decay)
    };
    let attrs = [
        Attr::Float(shrink),
        Attr::Float(penalty),
        Attr::Float(s.beta1),
        Attr::Float(s.beta2),
        Attr::Float(s.eps),
        Attr::Float(s.lr / correction1),
        Attr::Float(correction2.sqrt()),
        Attr::Bool(s.maximize),
    ];
    let mut state: SmallVec<[&Tensor; 3]> = SmallVec::from_slice(&[exp_avg, exp_avg_sq]);
    state.extend(max_exp_avg_sq);
    run(&ADAM_STEP, param, grad, &state, &attrs)
}

/// A state tensor for a parameter: zeros in its dtype and memory order.
pub fn zeros_for(param: &Tensor) -> Result<Tensor> {
    let _no_grad = no_grad_guard();
    if param.device() == crate::Device::Meta || !param.layout().is_dense() {
        return Tensor::zeros(param.shape(), param.dtype(), param.device());
    }
    param.detach().copy()?.zero_()
}
