//! The steps of optimizers as one pass over parameter, gradient and state.
//!
//! Nothing is recorded, whatever the thread's mode; the versions of what is written are counted.
//! Complex parameters are updated as pairs of real numbers, as PyTorch does.

use smallvec::SmallVec;
use torsh_core::{Attr, DType, Kernel, Result, TorshError};

use crate::Tensor;
use crate::call::{Arg, update};
use crate::mode::no_grad_guard;
use crate::record::{OpRecord, Plan};

/// A parameter, its gradient and what every step does before its formula.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The parameter, which is written.
    pub param: &'a Tensor,
    /// Its gradient.
    pub grad: &'a Tensor,
    /// Whether to go up the gradient.
    pub maximize: bool,
    /// The L2 penalty.
    pub weight_decay: f64,
    /// What the parameter is multiplied by (decoupled weight decay); 1 where it is not.
    pub shrink: f64,
}

impl<'a> Target<'a> {
    /// No decay, down the gradient.
    pub fn new(param: &'a Tensor, grad: &'a Tensor) -> Target<'a> {
        Target {
            param,
            grad,
            maximize: false,
            weight_decay: 0.0,
            shrink: 1.0,
        }
    }
}

/// A step of an optimizer on one parameter: a row of [`torsh_core::steps`] with its operands and
/// numbers. Parameter, gradient and state have one shape, dtype (floating point or complex) and
/// device.
pub trait Step {
    /// The op.
    #[doc(hidden)]
    fn record() -> &'static OpRecord;
    /// The operands and numbers.
    #[doc(hidden)]
    fn part(&self) -> Part<'_>;
}

/// One parameter's part of a call.
#[doc(hidden)]
#[derive(Debug)]
pub struct Part<'a> {
    target: Target<'a>,
    /// The state that is there, and its bits among that of the row.
    state: SmallVec<[&'a Tensor; 3]>,
    bits: i64,
    /// The row's numbers and flags.
    attrs: SmallVec<[Attr<'static>; 12]>,
}

macro_rules! state {
    ($lt:lifetime) => { &$lt Tensor };
    ($lt:lifetime $has:ident) => { Option<&$lt Tensor> };
}

macro_rules! steps {
    ($(
        $(#[doc = $doc:literal])+
        $method:ident $name:literal $kernel:ident ( $($state:ident $(if $has:ident)?),* )
        [$($number:ident)*] [$($flag:ident)*] |$p:ident, $g:ident| $body:block
    )*) => {$(
        $(#[doc = $doc])+
        ///
        /// The formula, from the parameter `p` and the gradient `g`:
        ///
        #[doc = concat!("```text\n", stringify!($body), "\n```")]
        #[derive(Clone, Copy, Debug)]
        pub struct $kernel<'a> {
            /// Parameter and gradient.
            pub target: Target<'a>,
            $(
                #[doc = concat!("`", stringify!($state), "`, which is written.")]
                pub $state: state!('a $($has)?),
            )*
            $(#[doc = concat!("`", stringify!($number), "` of the formula.")] pub $number: f64,)*
            $(#[doc = concat!("`", stringify!($flag), "` of the formula.")] pub $flag: bool,)*
        }

        impl Step for $kernel<'_> {
            fn record() -> &'static OpRecord {
                static RECORD: OpRecord = OpRecord::new($name, concat!($($doc),+), "")
                    .kernel(Kernel::$kernel, |c| {
                        c.tensor(0)
                            .map(|x| Plan::one(x.dtype(), x.shape().clone(), x.dtype()))
                    })
                    .constant();
                &RECORD
            }

            fn part(&self) -> Part<'_> {
                let all: [Option<&Tensor>; _] = [$(self.$state.into()),*];
                let bits = all.iter().enumerate().map(|(i, t)| i64::from(t.is_some()) << i).sum();
                Part {
                    target: self.target,
                    state: all.into_iter().flatten().collect(),
                    bits,
                    attrs: SmallVec::from_iter([
                        $(Attr::Float(self.$number),)*
                        $(Attr::Bool(self.$flag),)*
                    ]),
                }
            }
        }
    )*};
}
torsh_core::for_each_step! { steps }

/// The tensor as the kernels see it: complex numbers as pairs.
fn real(t: &Tensor) -> Result<Tensor> {
    if t.dtype().is_complex() {
        t.detach().view_as_real()
    } else {
        Ok(t.clone())
    }
}

/// An error where operands of a step do not go together.
fn check(record: &'static OpRecord, part: &Part<'_>) -> Result<()> {
    let param = part.target.param;
    for t in part.state.iter().copied().chain([part.target.grad]) {
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

fn address(t: &Tensor) -> usize {
    t.storage().ptr() as usize
}

/// Whether something that one part writes is memory of another, so that the parts must run one
/// after the other.
fn overlaps(parts: &[Part<'_>]) -> bool {
    let written = |p: &Part<'_>| {
        let mut own: SmallVec<[usize; 4]> = SmallVec::from_iter([address(p.target.param)]);
        own.extend(p.state.iter().map(|t| address(t)));
        own.sort_unstable();
        own.dedup();
        own
    };
    let mut all: Vec<usize> = parts.iter().flat_map(written).collect();
    all.sort_unstable();
    all.windows(2).any(|w| w[0] == w[1])
        || parts.iter().any(|p| {
            let a = address(p.target.grad);
            all.binary_search(&a).is_ok() && !written(p).contains(&a)
        })
}

/// Makes the steps of all parameters, in place.
///
/// Each element of memory is read and written once, and all elements of all parameters are split
/// over the threads together: one call for all, but for operands without a common dense memory
/// order, which are copied, and for parameters that share memory, whose steps follow one another.
/// Nothing is written where an operand is refused.
#[track_caller]
pub fn step<S: Step>(items: &[S]) -> Result<()> {
    let _no_grad = no_grad_guard();
    let record = S::record();
    let parts: Vec<Part<'_>> = items.iter().map(S::part).collect();
    parts.iter().try_for_each(|p| check(record, p))?;
    let device = |p: &Part<'_>| p.target.param.device();
    // Nearly always.
    if parts.iter().all(|p| device(p) == crate::Device::Cpu) {
        return together(record, &parts);
    }
    let mut rest: Vec<Part<'_>> = parts
        .into_iter()
        .filter(|p| device(p) != crate::Device::Meta)
        .collect();
    while let Some(first) = rest.first().map(device) {
        let (now, later): (Vec<_>, Vec<_>) = rest.into_iter().partition(|p| device(p) == first);
        together(record, &now)?;
        rest = later;
    }
    Ok(())
}

/// The steps of parameters of one device.
fn together(record: &'static OpRecord, parts: &[Part<'_>]) -> Result<()> {
    match parts.len() {
        0 => Ok(()),
        1 => run(record, parts),
        _ if overlaps(parts) => parts.chunks(1).try_for_each(|p| run(record, p)),
        _ => run(record, parts),
    }
}

/// Runs the steps of parameters of one device in one call, through copies where the operands have
/// no common dense memory order.
fn run(record: &'static OpRecord, parts: &[Part<'_>]) -> Result<()> {
    let mut targets = Vec::with_capacity(4 * parts.len());
    let mut grads = Vec::with_capacity(parts.len());
    let mut attrs = Vec::with_capacity(16 * parts.len());
    let mut written_back: Vec<(Tensor, Tensor)> = Vec::new();
    for p in parts {
        let t = &p.target;
        let param = real(t.param)?;
        let work = if param.layout().is_dense() {
            param
        } else {
            let work = param.contiguous()?;
            written_back.push((param, work.clone()));
            work
        };
        let fits = |t: &Tensor| t.stride() == work.stride();
        let grad = real(t.grad)?;
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
        attrs.extend([
            Attr::Int(p.bits),
            Attr::Bool(t.maximize),
            Attr::Float(t.weight_decay),
            Attr::Float(t.shrink),
        ]);
        attrs.extend_from_slice(&p.attrs);
    }
    let args: Vec<Arg<'_>> = grads.iter().map(Arg::T).collect();
    update(record, &targets, &args, &attrs)?;
    for (t, copy) in &written_back {
        t.copy_(copy)?;
    }
    Ok(())
}

static UNSCALE: OpRecord = OpRecord::new(
    "_amp_foreach_non_finite_check_and_unscale_",
    "Multiplies gradients in place and looks for what is not finite.",
    "",
)
.kernel(Kernel::UnscaleGradients, |c| {
    c.tensor(0)
        .map(|x| Plan::one(x.dtype(), x.shape().clone(), x.dtype()))
})
.constant();

/// Multiplies gradients (floating point or complex) in place by a number; whether any of their
/// elements was infinite or nan before. Each is read and written once
/// (`torch._amp_foreach_non_finite_check_and_unscale_`).
#[track_caller]
pub fn unscale(grads: &[Tensor], factor: f64) -> Result<bool> {
    let _no_grad = no_grad_guard();
    for g in grads {
        if !g.dtype().is_differentiable() {
            return Err(TorshError::dtype(
                UNSCALE.name,
                format!("a gradient cannot be {}", g.describe()),
            ));
        }
    }
    let mut rest: Vec<&Tensor> = grads
        .iter()
        .filter(|g| g.device() != crate::Device::Meta)
        .collect();
    let mut bad = false;
    while let Some(first) = rest.first() {
        let device = first.device();
        let (now, later): (Vec<_>, Vec<_>) = rest.into_iter().partition(|g| g.device() == device);
        let mut seen: Vec<usize> = now.iter().map(|g| address(g)).collect();
        seen.sort_unstable();
        let shared = seen.windows(2).any(|w| w[0] == w[1]);
        for part in now.chunks(if shared { 1 } else { now.len() }) {
            bad |= unscale_at_once(part, factor)?;
        }
        rest = later;
    }
    Ok(bad)
}

fn unscale_at_once(grads: &[&Tensor], factor: f64) -> Result<bool> {
    let mut written_back: Vec<(Tensor, Tensor)> = Vec::new();
    let mut targets = Vec::with_capacity(grads.len() + 1);
    for g in grads {
        let g = real(g)?;
        if g.layout().is_dense() {
            targets.push(g);
        } else {
            let copy = g.contiguous()?;
            targets.push(copy.clone());
            written_back.push((g, copy));
        }
    }
    let device = targets[0].device();
    let found = Tensor::zeros((), DType::F32, device)?;
    targets.push(found.clone());
    update(&UNSCALE, &targets, &[], &[Attr::Float(factor)])?;
    for (g, copy) in &written_back {
        g.copy_(copy)?;
    }
    Ok(found.item::<f32>()? != 0.0)
}

/// A state tensor for a parameter: zeros in its dtype and memory order.
pub fn zeros_for(param: &Tensor) -> Result<Tensor> {
    let _no_grad = no_grad_guard();
    if param.device() == crate::Device::Meta || !param.layout().is_dense() {
        return Tensor::zeros(param.shape(), param.dtype(), param.device());
    }
    param.detach().copy()?.zero_()
}
