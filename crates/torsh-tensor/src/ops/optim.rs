//! Optimizer steps as one pass over parameter, gradient and state.
//!
//! Nothing is recorded, in any mode of the thread, but the versions of the written tensors are
//! counted. Complex parameters are updated as pairs of real numbers, as in PyTorch.

use smallvec::SmallVec;
use torsh_core::attrs::{self, StepNames, StepPart, Steps};
use torsh_core::{DType, Kernel, Result, TorshError};

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
    /// Which of its steps it is.
    pub count: Count<'a>,
}

/// Which step of a parameter it is, from 1 on.
#[derive(Clone, Copy, Debug)]
pub enum Count<'a> {
    /// As the host knows it.
    Known(u64),
    /// As a 0-d `float32` tensor of the parameter's device, which the host need not read.
    OnDevice(&'a Tensor),
}

impl<'a> Target<'a> {
    /// The first step, without decay, down the gradient.
    ///
    /// ```
    /// use torsh_tensor::ops::optim::Target;
    /// # use torsh_tensor::tensor;
    /// let (param, grad) = (tensor![1.0], tensor![0.5]);
    /// let target = Target::new(&param, &grad);
    /// assert_eq!((target.weight_decay, target.shrink, target.maximize), (0.0, 1.0, false));
    /// ```
    pub fn new(param: &'a Tensor, grad: &'a Tensor) -> Target<'a> {
        Target {
            param,
            grad,
            maximize: false,
            weight_decay: 0.0,
            shrink: 1.0,
            count: Count::Known(1),
        }
    }
}

/// A step of an optimizer on one parameter: a row of [`torsh_core::steps`] with its operands and
/// numbers. Parameter, gradient and state have one shape, dtype (floating point or complex) and
/// device; the gradient of [`step_rows`] has fewer rows.
pub trait Step {
    /// The op.
    #[doc(hidden)]
    fn record() -> &'static OpRecord;
    /// The names of its numbers and flags.
    #[doc(hidden)]
    const NAMES: &'static StepNames;
    /// The operands and numbers.
    #[doc(hidden)]
    fn part(&self) -> Part<'_>;
}

/// One parameter's part of a call.
#[doc(hidden)]
#[derive(Debug)]
pub struct Part<'a> {
    target: Target<'a>,
    /// The state that is there.
    state: SmallVec<[&'a Tensor; 3]>,
    attrs: StepPart,
}

/// A row's numbers or flags in the room that there is for those of any row.
fn padded<T: Copy + Default, const N: usize, const ROOM: usize>(values: [T; N]) -> [T; ROOM] {
    const { assert!(N <= ROOM, "a row has more than there is room for") };
    let mut all = [T::default(); ROOM];
    all[..N].copy_from_slice(&values);
    all
}

macro_rules! state {
    ($lt:lifetime) => { &$lt Tensor };
    ($lt:lifetime $has:ident) => { Option<&$lt Tensor> };
}

macro_rules! steps {
    ($(
        $(#[doc = $doc:literal])+
        $method:ident $name:literal $kernel:ident ( $($state:ident $(if $has:ident)?),* )
        [$($number:ident)*] [$($flag:ident)*]
        $(at $step:ident [$($derived:ident)*] $derive:block)?
        |$p:ident, $g:ident| $body:block
    )*) => {$(
        $(#[doc = $doc])+
        ///
        $(
            #[doc = concat!("At step `", stringify!($step), "`, `", stringify!($($derived),*), "` are:")]
            ///
            #[doc = concat!("```text\n", stringify!($derive), "\n```")]
            ///
        )?
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
                static RECORD: OpRecord = OpRecord::new(
                    $name,
                    concat!($($doc),+),
                    "(Tensor[] tensors, *, Any steps)",
                )
                .internal()
                    .kernel(Kernel::$kernel, |c| {
                        c.tensor(0)
                            .map(|x| Plan::one(x.dtype(), x.shape().clone(), x.dtype()))
                    })
                    .constant();
                &RECORD
            }

            const NAMES: &'static StepNames = torsh_core::steps::numbers::$kernel::NAMES;

            fn part(&self) -> Part<'_> {
                let all: [Option<&Tensor>; _] = [$(self.$state.into()),*];
                let there = all.iter().enumerate().map(|(i, t)| u8::from(t.is_some()) << i);
                Part {
                    target: self.target,
                    attrs: StepPart {
                        present: there.sum(),
                        maximize: self.target.maximize,
                        weight_decay: self.target.weight_decay,
                        shrink: self.target.shrink,
                        step: match self.target.count {
                            Count::Known(n) => n as f64,
                            Count::OnDevice(_) => 0.0,
                        },
                        numbers: padded([$(self.$number),*]),
                        flags: padded([$(self.$flag),*]),
                    },
                    state: all.into_iter().flatten().collect(),
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
    if let Count::OnDevice(t) = part.target.count
        && (t.dtype() != DType::F32 || t.numel() != 1 || t.device() != param.device())
    {
        return Err(TorshError::invalid(
            record.name,
            format!(
                "the count of steps is {}, where it must be one float32 of {}",
                t.describe(),
                param.device()
            ),
        ));
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
///
/// ```
/// use torsh_tensor::ops::optim::{SgdStep, Target, step};
/// # use torsh_tensor::tensor;
/// let (param, grad) = (tensor![1.0, 2.0], tensor![1.0, 4.0]);
/// let sgd = SgdStep {
///     target: Target::new(&param, &grad),
///     momentum_buffer: None,
///     lr: 0.5,
///     momentum: 0.0,
///     rest: 1.0,
///     nesterov: false,
///     first: true,
/// };
/// step(&[sgd])?;
/// assert_eq!(param, tensor![0.5, 0.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn step<S: Step>(items: &[S]) -> Result<()> {
    step_unless(items, None)
}

/// [`step`], of which nothing is written where `found_inf`, a 0-d `float32` tensor of the parameters'
/// device, is not 0: the host does not wait for it.
///
/// ```
/// use torsh_tensor::ops::optim::{SgdStep, Target, step_unless};
/// # use torsh_tensor::{DType, Device, Tensor, tensor};
/// let (param, grad) = (tensor![1.0], tensor![10.0]);
/// let sgd = SgdStep {
///     target: Target::new(&param, &grad),
///     momentum_buffer: None,
///     lr: 0.1,
///     momentum: 0.0,
///     rest: 1.0,
///     nesterov: false,
///     first: true,
/// };
/// let found_inf = Tensor::scalar(1.0, DType::F32, Device::Cpu)?;
/// step_unless(&[sgd], Some(&found_inf))?;
/// // Left out.
/// assert_eq!(param, tensor![1.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn step_unless<S: Step>(items: &[S], found_inf: Option<&Tensor>) -> Result<()> {
    let _no_grad = no_grad_guard();
    let row = (S::record(), S::NAMES);
    let parts: Vec<Part<'_>> = items.iter().map(S::part).collect();
    parts.iter().try_for_each(|p| check(row.0, p))?;
    let device = |p: &Part<'_>| p.target.param.device();
    // Nearly always.
    let first = parts.first().map(device);
    if first.is_some_and(|d| d.has_data() && parts.iter().all(|p| device(p) == d)) {
        return together(row, &parts, found_inf);
    }
    let mut rest: Vec<Part<'_>> = parts
        .into_iter()
        .filter(|p| device(p) != crate::Device::Meta)
        .collect();
    while let Some(first) = rest.first().map(device) {
        let (now, later): (Vec<_>, Vec<_>) = rest.into_iter().partition(|p| device(p) == first);
        together(row, &now, found_inf)?;
        rest = later;
    }
    Ok(())
}

/// The record of a step, and its names.
type Row = (&'static OpRecord, &'static StepNames);

/// The steps of parameters of one device.
fn together(row: Row, parts: &[Part<'_>], found_inf: Option<&Tensor>) -> Result<()> {
    match parts.len() {
        0 => Ok(()),
        1 => run(row, parts, found_inf),
        _ if overlaps(parts) => parts.chunks(1).try_for_each(|p| run(row, p, found_inf)),
        _ => run(row, parts, found_inf),
    }
}

/// Runs the steps of parameters of one device in one call, through copies where the operands have
/// no common dense memory order.
fn run(row: Row, parts: &[Part<'_>], found_inf: Option<&Tensor>) -> Result<()> {
    let mut targets = Vec::with_capacity(4 * parts.len());
    let mut grads = Vec::with_capacity(parts.len());
    let mut written_back: Vec<(Tensor, Tensor)> = Vec::new();
    for p in parts {
        let param = real(p.target.param)?;
        let work = if param.memory_layout().is_dense() {
            param
        } else {
            let work = param.contiguous()?;
            written_back.push((param, work.clone()));
            work
        };
        let fits = |t: &Tensor| t.stride() == work.stride();
        let grad = real(p.target.grad)?;
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
    }
    call(row, parts, &targets, &grads, None, found_inf)?;
    for (t, copy) in &written_back {
        t.copy_(copy)?;
    }
    Ok(())
}

/// The call of the kernel, on what the parts are made of as it sees it; `rows` is the list of those that the gradient
/// has.
fn call(
    (record, names): Row,
    parts: &[Part<'_>],
    targets: &[Tensor],
    grads: &[Tensor],
    rows: Option<&Tensor>,
    found_inf: Option<&Tensor>,
) -> Result<()> {
    let mut args: Vec<Arg<'_>> = grads.iter().map(Arg::T).collect();
    let counts = parts.iter().filter_map(|p| match p.target.count {
        Count::OnDevice(t) => Some(Arg::T(t)),
        Count::Known(_) => None,
    });
    if !names.derived.is_empty() {
        args.extend(counts);
    }
    let counted = args.len() > grads.len();
    args.extend(rows.map(Arg::T));
    args.extend(found_inf.map(Arg::T));
    let steps = Steps {
        names,
        parts: parts.iter().map(|p| p.attrs).collect(),
        counted,
        rows: rows.is_some(),
        conditional: found_inf.is_some(),
    };
    update(record, targets, &args, &steps)
}

/// Makes a step of some rows of a parameter and of its state, in place, in one pass: row `i` of the gradient is that of
/// row `index[i]`. The other rows are neither read nor written. Gives whether the step was made: it is not, and nothing
/// is written, where there is no kernel for the operands.
///
/// The gradient has the shape `[n, *row]`, where the sizes of a row are the last ones of the parameter's shape, and
/// `index` is an int64 tensor of the shape `[n]`. It counts rows in row-major order over all dimensions before. The
/// kernel is the CPU's, for float32, float64 and complex parameters. Parameter and state must be contiguous, and no two
/// operands may share memory. PyTorch has no such function.
///
/// ```
/// use torsh_tensor::ops::optim::{SgdStep, Target, step_rows};
/// # use torsh_tensor::tensor;
/// let (param, grad) = (tensor![[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], tensor![[2.0, 4.0]]);
/// let sgd = SgdStep {
///     target: Target::new(&param, &grad),
///     momentum_buffer: None,
///     lr: 0.5,
///     momentum: 0.0,
///     rest: 1.0,
///     nesterov: false,
///     first: true,
/// };
/// assert!(step_rows(&sgd, &tensor![1])?);
/// assert_eq!(param, tensor![[1.0, 2.0], [2.0, 2.0], [5.0, 6.0]]);
/// // A transposed matrix is not contiguous.
/// let (turned, grad) = (param.transpose(0, 1)?, tensor![[1.0, 1.0, 1.0]]);
/// assert!(!step_rows(&SgdStep { target: Target::new(&turned, &grad), ..sgd }, &tensor![0])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Operands whose shapes, dtypes or devices do not go together; an index that is out of range, or not larger than the
/// one before it. Nothing is written then.
#[torsh_tensor::names_caller]
pub fn step_rows<S: Step>(item: &S, index: &Tensor) -> Result<bool> {
    let _no_grad = no_grad_guard();
    let row = (S::record(), S::NAMES);
    let mut part = item.part();
    // The gradient has a shape of its own.
    let Target { param, grad, .. } = part.target;
    part.target.grad = param;
    check(row.0, &part)?;
    let written = [param]
        .into_iter()
        .chain(part.state.iter().copied())
        .map(real)
        .collect::<Result<SmallVec<[Tensor; 4]>>>()?;
    let (param, grad) = (&written[0], real(grad)?);
    let fits = match grad.dims() {
        [n, row @ ..] => index.dims() == [*n] && param.dims().ends_with(row),
        [] => false,
    };
    let same = grad.dtype() == param.dtype() && index.dtype() == DType::I64;
    let device = param.device();
    if !fits || !same || grad.device() != device || index.device() != device {
        return Err(TorshError::invalid(
            row.0.name,
            format!(
                "the parameter is {}, the gradient of some of its rows {}, the list of these {}",
                param.describe(),
                grad.describe(),
                index.describe()
            ),
        ));
    }
    if !device.is_host()
        || !matches!(param.dtype(), DType::F32 | DType::F64)
        || !written.iter().all(Tensor::contiguous_flag)
    {
        return Ok(false);
    }
    let (grads, index) = ([grad.contiguous()?], index.contiguous()?);
    let operands = written.iter().chain(&grads).chain([&index]);
    let mut memory: SmallVec<[usize; 6]> = operands.map(address).collect();
    memory.sort_unstable();
    if memory.windows(2).any(|w| w[0] == w[1]) {
        return Ok(false);
    }
    call(row, &[part], &written, &grads, Some(&index), None)?;
    Ok(true)
}

static UNSCALE: OpRecord = OpRecord::new(
    "_amp_foreach_non_finite_check_and_unscale_",
    "Multiplies gradients in place and looks for what is not finite.",
    "(Tensor[] gradients, Tensor found_inf, Tensor inv_scale)",
)
.internal()
.kernel(Kernel::UnscaleGradients, |c| {
    c.tensor(0)
        .map(|x| Plan::one(x.dtype(), x.shape().clone(), x.dtype()))
})
.constant();

/// Multiplies gradients (floating point or complex) in place by a number, a 0-d `float32` tensor, and
/// looks for elements that were infinite or nan before: for each device of the gradients a 0-d
/// `float32` tensor of it, which is 1 where there was one, else 0. Each gradient is read and written
/// once, and nothing is waited for (`torch._amp_foreach_non_finite_check_and_unscale_`).
///
/// ```
/// use torsh_tensor::ops::optim::unscale;
/// # use torsh_tensor::{DType, Device, Tensor, tensor};
/// let grads = [tensor![8.0, 16.0]];
/// let found = unscale(&grads, &Tensor::scalar(0.125, DType::F32, Device::Cpu)?)?;
/// assert_eq!(grads[0], tensor![1.0, 2.0]);
/// assert_eq!(found[0].item::<f32>()?, 0.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn unscale(grads: &[Tensor], inv_scale: &Tensor) -> Result<Vec<Tensor>> {
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
    let mut all_found = Vec::new();
    while let Some(first) = rest.first() {
        let device = first.device();
        let (now, later): (Vec<_>, Vec<_>) = rest.into_iter().partition(|g| g.device() == device);
        let mut seen: Vec<usize> = now.iter().map(|g| address(g)).collect();
        seen.sort_unstable();
        let shared = seen.windows(2).any(|w| w[0] == w[1]);
        let found = Tensor::zeros((), DType::F32, device)?;
        let inv_scale = inv_scale.to_device(device)?;
        for part in now.chunks(if shared { 1 } else { now.len() }) {
            unscale_at_once(part, &inv_scale, &found)?;
        }
        all_found.push(found);
        rest = later;
    }
    Ok(all_found)
}

fn unscale_at_once(grads: &[&Tensor], inv_scale: &Tensor, found: &Tensor) -> Result<()> {
    let mut written_back: Vec<(Tensor, Tensor)> = Vec::new();
    let mut targets = Vec::with_capacity(grads.len() + 1);
    for g in grads {
        let g = real(g)?;
        if g.memory_layout().is_dense() {
            targets.push(g);
        } else {
            let copy = g.contiguous()?;
            targets.push(copy.clone());
            written_back.push((g, copy));
        }
    }
    targets.push(found.clone());
    update(&UNSCALE, &targets, &[Arg::T(inv_scale)], attrs::NONE)?;
    for (g, copy) in &written_back {
        g.copy_(copy)?;
    }
    Ok(())
}

static UPDATE_SCALE: OpRecord = OpRecord::new(
    "_amp_update_scale_",
    "Makes the scale of the next iteration's loss.",
    "(Tensor scale, Tensor growth_tracker, Tensor found_inf, *, float growth_factor, float backoff_factor, int growth_interval)",
)
.internal()
.kernel(Kernel::AmpUpdateScale, |c| {
    c.tensor(0)
        .map(|x| Plan::one(x.dtype(), x.shape().clone(), x.dtype()))
})
.constant();

/// Makes a scale (a 0-d `float32` tensor) that of the next iteration, in place: less where `found_inf`
/// (a 0-d `float32` tensor) is not 0, more after `growth_interval` iterations in a row where it was,
/// which `growth_tracker` (a 0-d `int32` tensor) counts. All are of one device, and nothing is waited
/// for (`torch._amp_update_scale_`).
///
/// ```
/// use torsh_core::attrs::AmpUpdateScale;
/// use torsh_tensor::ops::optim::update_scale;
/// # use torsh_tensor::{DType, Device, Tensor};
/// let one = |value, dtype| Tensor::scalar(value, dtype, Device::Cpu);
/// let (scale, tracker) = (one(8.0, DType::F32)?, one(0.0, DType::I32)?);
/// let how = AmpUpdateScale { growth_factor: 2.0, backoff_factor: 0.5, growth_interval: 1 };
/// // An infinite gradient was found: the scale is halved.
/// update_scale(&scale, &tracker, &one(1.0, DType::F32)?, &how)?;
/// assert_eq!(scale.item::<f32>()?, 4.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn update_scale(
    scale: &Tensor,
    growth_tracker: &Tensor,
    found_inf: &Tensor,
    how: &attrs::AmpUpdateScale,
) -> Result<()> {
    let _no_grad = no_grad_guard();
    for (t, dtype) in [
        (scale, DType::F32),
        (growth_tracker, DType::I32),
        (found_inf, DType::F32),
    ] {
        if t.dtype() != dtype || t.numel() != 1 || t.device() != scale.device() {
            return Err(TorshError::invalid(
                UPDATE_SCALE.name,
                format!(
                    "expected one {dtype} of {}, got {}",
                    scale.device(),
                    t.describe()
                ),
            ));
        }
    }
    let targets = [scale.clone(), growth_tracker.clone()];
    update(&UPDATE_SCALE, &targets, &[Arg::T(found_inf)], how)
}

/// A state tensor for a parameter: zeros in its dtype and memory order, in memory of just the size
/// that it needs ([`alloc::long_lived`](torsh_core::alloc::long_lived)).
///
/// ```
/// use torsh_tensor::ops::optim::zeros_for;
/// # use torsh_tensor::tensor;
/// assert_eq!(zeros_for(&tensor![1.0, 2.0])?, tensor![0.0, 0.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn zeros_for(param: &Tensor) -> Result<Tensor> {
    let _no_grad = no_grad_guard();
    torsh_core::alloc::long_lived(|| {
        if param.device() == crate::Device::Meta || !param.memory_layout().is_dense() {
            return Tensor::zeros(param.shape(), param.dtype(), param.device());
        }
        param.detach().copy()?.zero_()
    })
}
