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

/// The numbers of [`sgd_steps`], with PyTorch's names.
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

/// The numbers of [`adam_steps`], with PyTorch's names.
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

/// One parameter's part of a call: its operands and numbers.
struct Part<'a> {
    param: &'a Tensor,
    grad: &'a Tensor,
    state: SmallVec<[&'a Tensor; 3]>,
    attrs: SmallVec<[Attr<'static>; 8]>,
}

/// An error where operands of a step do not go together.
fn check(record: &'static OpRecord, part: &Part<'_>) -> Result<()> {
    let param = part.param;
    for t in part.state.iter().copied().chain([part.grad]) {
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
    Ok(())
}

/// Whether something that one part writes is memory of another, so that the parts must run one
/// after the other.
fn overlaps(parts: &[&Part<'_>]) -> bool {
    let address = |t: &Tensor| t.storage().ptr() as usize;
    let written = |p: &Part<'_>| {
        let mut own: SmallVec<[usize; 4]> = SmallVec::from_iter([address(p.param)]);
        own.extend(p.state.iter().map(|t| address(t)));
        own.sort_unstable();
        own.dedup();
        own
    };
    let mut all: Vec<usize> = parts.iter().flat_map(|p| written(p)).collect();
    all.sort_unstable();
    all.windows(2).any(|w| w[0] == w[1])
        || parts.iter().any(|p| {
            let a = address(p.grad);
            all.binary_search(&a).is_ok() && !written(p).contains(&a)
        })
}

/// Runs the steps of all parameters: those with equally much state in one call, through copies
/// where the operands have no common dense memory order. Nothing is written where one is refused.
fn run(record: &'static OpRecord, parts: &[Part<'_>]) -> Result<()> {
    let _no_grad = no_grad_guard();
    parts.iter().try_for_each(|p| check(record, p))?;
    let mut rest: Vec<&Part<'_>> = parts
        .iter()
        .filter(|p| p.param.device() != crate::Device::Meta)
        .collect();
    while let Some(first) = rest.first() {
        let key = |p: &Part<'_>| (p.state.len(), p.param.device());
        let wanted = key(first);
        let (now, later): (Vec<_>, Vec<_>) = rest.into_iter().partition(|p| key(p) == wanted);
        if now.len() > 1 && overlaps(&now) {
            now.iter().try_for_each(|p| run_at_once(record, &[p]))?;
        } else {
            run_at_once(record, &now)?;
        }
        rest = later;
    }
    Ok(())
}

fn run_at_once(record: &'static OpRecord, parts: &[&Part<'_>]) -> Result<()> {
    let mut targets = Vec::with_capacity(4 * parts.len());
    let mut grads = Vec::with_capacity(parts.len());
    let mut attrs = Vec::with_capacity(8 * parts.len());
    let mut written_back: Vec<(Tensor, Tensor)> = Vec::new();
    for p in parts {
        let param = real(p.param)?;
        let work = if param.layout().is_dense() {
            param
        } else {
            let work = param.contiguous()?;
            written_back.push((param, work.clone()));
            work
        };
        let fits = |t: &Tensor| t.stride() == work.stride();
        let grad = real(p.grad)?;
        grads.push(if fits(&grad) {
            grad
        } else {
            grad.copy_like(&work)?
        });
        targets.push(work.clone());
        for s in &p.state {
            let s = real(s)?;
            if fits(&s) {
                targets.push(s);
            } else {
                let copy = s.copy_like(&work)?;
                written_back.push((s, copy.clone()));
                targets.push(copy);
            }
        }
        attrs.extend_from_slice(&p.attrs);
    }
    let args: Vec<Arg<'_>> = grads.iter().map(Arg::T).collect();
    update(record, &targets, &args, &attrs)?;
    for (t, copy) in &written_back {
        t.copy_(copy)?;
    }
    Ok(())
}

/// One parameter of [`sgd_steps`]. All tensors have the parameter's shape, dtype (floating point
/// or complex) and device.
#[derive(Clone, Copy, Debug)]
pub struct SgdItem<'a> {
    /// The parameter, which is written.
    pub param: &'a Tensor,
    /// Its gradient.
    pub grad: &'a Tensor,
    /// The momentum buffer, which is written and must be there where `momentum` is not 0.
    pub buffer: Option<&'a Tensor>,
    /// The numbers.
    pub step: SgdStep,
}

/// One step of `torch.optim.SGD` on many parameters, in place.
///
/// Each element of memory is read and written once, and all elements of all parameters are split
/// over the threads together.
#[track_caller]
pub fn sgd_steps(items: &[SgdItem<'_>]) -> Result<()> {
    let parts = items
        .iter()
        .map(|i| {
            let s = &i.step;
            if s.momentum != 0.0 && i.buffer.is_none() {
                return Err(TorshError::invalid("_sgd_step", "momentum needs a buffer"));
            }
            Ok(Part {
                param: i.param,
                grad: i.grad,
                state: i.buffer.into_iter().collect(),
                attrs: SmallVec::from_slice(&[
                    Attr::Float(s.lr),
                    Attr::Float(s.weight_decay),
                    Attr::Float(s.momentum),
                    Attr::Float(s.dampening),
                    Attr::Bool(s.nesterov),
                    Attr::Bool(s.maximize),
                    Attr::Bool(s.first),
                ]),
            })
        })
        .collect::<Result<Vec<_>>>()?;
    run(&SGD_STEP, &parts)
}

/// One parameter of [`adam_steps`]. All tensors have the parameter's shape, dtype (floating point
/// or complex) and device.
#[derive(Clone, Copy, Debug)]
pub struct AdamItem<'a> {
    /// The parameter, which is written.
    pub param: &'a Tensor,
    /// Its gradient.
    pub grad: &'a Tensor,
    /// The running mean of the gradient, which is written.
    pub exp_avg: &'a Tensor,
    /// The running mean of its square, which is written.
    pub exp_avg_sq: &'a Tensor,
    /// The largest of these so far, which is written, for AMSGrad.
    pub max_exp_avg_sq: Option<&'a Tensor>,
    /// The numbers.
    pub step: AdamStep,
}

/// One step of `torch.optim.Adam` or `AdamW` on many parameters, in place, as [`sgd_steps`].
#[track_caller]
pub fn adam_steps(items: &[AdamItem<'_>]) -> Result<()> {
    let parts: Vec<Part<'_>> = items
        .iter()
        .map(|i| {
            let s = &i.step;
            let steps = s.step as f64;
            let correction1 = 1.0 - s.beta1.powf(steps);
            let correction2 = 1.0 - s.beta2.powf(steps);
            let (shrink, penalty) = if s.decoupled {
                (1.0 - s.lr * s.weight_decay, 0.0)
            } else {
                (1.0, s.weight_decay)
            };
            let mut state = SmallVec::from_slice(&[i.exp_avg, i.exp_avg_sq]);
            state.extend(i.max_exp_avg_sq);
            Part {
                param: i.param,
                grad: i.grad,
                state,
                attrs: SmallVec::from_slice(&[
                    Attr::Float(shrink),
                    Attr::Float(penalty),
                    Attr::Float(s.beta1),
                    Attr::Float(s.beta2),
                    Attr::Float(s.eps),
                    Attr::Float(s.lr / correction1),
                    Attr::Float(correction2.sqrt()),
                    Attr::Bool(s.maximize),
                ]),
            }
        })
        .collect();
    run(&ADAM_STEP, &parts)
}

/// A state tensor for a parameter: zeros in its dtype and memory order.
pub fn zeros_for(param: &Tensor) -> Result<Tensor> {
    let _no_grad = no_grad_guard();
    if param.device() == crate::Device::Meta || !param.layout().is_dense() {
        return Tensor::zeros(param.shape(), param.dtype(), param.device());
    }
    param.detach().copy()?.zero_()
}
