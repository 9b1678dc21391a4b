//! Optimizer steps: one pass over each parameter, its gradient and its state.
//!
//! A call has any number of parameters: the inputs are their gradients, the outputs each
//! parameter followed by the state that is there, [`Steps`] has a part for each. Where [`Steps`] says
//! so, inputs of one number follow: the count of each parameter's step, and whether to step at all. The elements of all
//! together are split over the threads. The operands of a parameter have one dense memory
//! order, so that they are read as flat arrays. `float16` and `bfloat16` compute in `float32` and
//! round once when written. The formulas are the rows of [`torsh_core::steps`].
//!
//! The gradient of a call's only parameter may be one of some of its rows ([`Steps::rows`]).

#[cfg(target_arch = "x86_64")]
mod adam;
pub(crate) mod choose;
mod rows;
#[cfg(feature = "unit-tests")]
mod tests;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use torsh_core::attrs::{
    self, STEP_DERIVED as DERIVED, STEP_FLAGS as FLAGS, STEP_NUMBERS as NUMBERS, StepPart, Steps,
};
use torsh_core::{DType, Kernel, KernelArgs, Result, TorshError, View, pool};

use crate::machine::choice::pick;
use crate::machine::tuning::optim::{BLOCK, GRAIN};
use crate::memory::convert::convert;
use crate::memory::element::Packed;
use crate::memory::operands::operands;
use crate::multiversion;
use crate::scalar::Real;
use crate::simd::{self, Arch, Level};
use choose::{StepAlgorithm, StepProblem};
use rows::SteppedRows;

/// Whether a key is that of a row of [`torsh_core::steps`].
pub(crate) fn is_step(k: Kernel) -> bool {
    entry(k).is_some()
}

/// Elements of a cache line, or of some: where threads part.
const LINE: usize = 64;
/// The most tensors of state that a row has.
const STATE: usize = 3;

/// A row of [`torsh_core::steps`], with the bits of `HAS` for the state that may be absent.
trait StepRow<const HAS: u8> {
    /// Which state is there.
    const PRESENT: [bool; STATE];
    /// The numbers that follow from the others and from the count of steps.
    fn derive(numbers: [f64; NUMBERS], step: f64) -> [f64; DERIVED];
    /// Parameter and state after the step.
    fn apply<A: Arch, T: Real>(
        p: T,
        g: T,
        state: [T; STATE],
        numbers: [T; NUMBERS],
        derived: [T; DERIVED],
        flags: [bool; FLAGS],
    ) -> (T, [T; STATE]);
}

/// [`StepRow::derive`].
type DeriveFn = fn([f64; NUMBERS], f64) -> [f64; DERIVED];

/// What a step of one parameter computes with.
struct StepNumbers<'a> {
    part: &'a StepPart,
    derived: [f64; DERIVED],
}

/// Where a step's operands start; null for state that is not there.
#[derive(Clone, Copy)]
struct StepOperands {
    param: *mut u8,
    grad: *const u8,
    state: [*mut u8; STATE],
}

// SAFETY: threads get disjoint ranges of the elements, which the caller has locked.
unsafe impl Send for StepOperands {}
// SAFETY: as above.
unsafe impl Sync for StepOperands {}

impl StepOperands {
    /// Operands without state.
    fn new(param: *mut u8, grad: *const u8) -> StepOperands {
        StepOperands {
            param,
            grad,
            state: [std::ptr::null_mut(); STATE],
        }
    }

    /// The operands from element `i` on, of `size` bytes each.
    fn at(&self, i: usize, size: usize) -> StepOperands {
        self.apart(i, i, size)
    }

    /// The parameter and its state from element `i` on, the gradient from another one.
    fn apart(&self, i: usize, grad: usize, size: usize) -> StepOperands {
        let from = |p: *mut u8| {
            if p.is_null() {
                p
            } else {
                p.wrapping_add(i * size)
            }
        };
        StepOperands {
            param: from(self.param),
            grad: self.grad.wrapping_add(grad * size),
            state: self.state.map(from),
        }
    }
}

/// A step on so many elements.
///
/// # Safety
/// The operands that the row has must be valid for them.
type StepFn = unsafe fn(&StepOperands, usize, &StepNumbers<'_>);

multiversion! {
    /// A step of a row.
    ///
    /// # Safety
    /// As [`StepFn`].
    unsafe fn row<A, T: Real, R: StepRow<HAS>; const HAS: u8>(o: &StepOperands, len: usize, n: &StepNumbers<'_>) {
        let (derived, n) = (n.derived.map(T::c), n.part);
        let numbers = n.numbers.map(T::c);
        let (decay, shrink) = (T::c(n.weight_decay), T::c(n.shrink));
        let (maximize, decays, flags) = (n.maximize, n.weight_decay != 0.0, n.flags);
        let (param, grad) = (o.param as *mut Packed<T>, o.grad as *const Packed<T>);
        let [a, b, c] = o.state.map(|s| s as *mut Packed<T>);
        let [has_a, has_b, has_c] = R::PRESENT;
        for i in 0..len {
            // SAFETY: the caller's promise; what the row does not have is left alone.
            unsafe {
                let p = (*param.add(i)).0;
                let g = (*grad.add(i)).0;
                let g = if maximize { -g } else { g };
                let g = if decays { p.fma::<A>(decay, g) } else { g };
                let state = [
                    if has_a { (*a.add(i)).0 } else { T::ZERO },
                    if has_b { (*b.add(i)).0 } else { T::ZERO },
                    if has_c { (*c.add(i)).0 } else { T::ZERO },
                ];
                let (p, state) = R::apply::<A, T>(p * shrink, g, state, numbers, derived, flags);
                *param.add(i) = Packed(p);
                if has_a {
                    *a.add(i) = Packed(state[0]);
                }
                if has_b {
                    *b.add(i) = Packed(state[1]);
                }
                if has_c {
                    *c.add(i) = Packed(state[2]);
                }
            }
        }
    }
}

/// A step for `float32` and for `float64`.
#[derive(Clone, Copy)]
struct StepLoops {
    single: StepFn,
    double: StepFn,
}

fn loops<R: StepRow<HAS>, const HAS: u8>(level: Level) -> StepLoops {
    StepLoops {
        single: row::at::<f32, R, HAS>(level),
        double: row::at::<f64, R, HAS>(level),
    }
}

/// What the driver knows of a row.
struct StepEntry {
    kernel: Kernel,
    /// A loop for each combination of the state that may be absent.
    loops: Vec<StepLoops>,
    derive: DeriveFn,
    /// For each tensor of state whether it may be absent.
    optional: Vec<bool>,
}

/// The loops of a row: those of all combinations of what may be absent.
macro_rules! variants {
    ($row:ident $level:ident []) => {
        vec![loops::<$row, 0>($level)]
    };
    ($row:ident $level:ident [$a:ident]) => {
        vec![loops::<$row, 0>($level), loops::<$row, 1>($level)]
    };
    ($row:ident $level:ident [$a:ident $b:ident]) => {
        vec![
            loops::<$row, 0>($level),
            loops::<$row, 1>($level),
            loops::<$row, 2>($level),
            loops::<$row, 3>($level),
        ]
    };
}

macro_rules! optional {
    () => {
        false
    };
    ($has:ident) => {
        true
    };
}

macro_rules! rows {
    ($(
        $(#[doc = $doc:literal])+
        $method:ident $name:literal $kernel:ident ( $($state:ident $(if $has:ident)?),* )
        [$($number:ident)*] [$($flag:ident)*]
        $(at $step:ident [$($derived:ident)*] $derive:block)?
        |$p:ident, $g:ident| $body:block
    )*) => {
        fn entries() -> Vec<StepEntry> {
            let level = simd::level();
            let mut all = Vec::new();
            $({
                struct ThisStep;
                #[allow(unused_mut, unused_variables, unused_assignments)]
                impl<const HAS: u8> StepRow<HAS> for ThisStep {
                    const PRESENT: [bool; STATE] = {
                        let (mut present, mut i, mut bit) = ([false; STATE], 0, 0);
                        $(
                            present[i] = true;
                            $(
                                let _ = stringify!($has);
                                present[i] = HAS >> bit & 1 == 1;
                                bit += 1;
                            )?
                            i += 1;
                            let _ = stringify!($state);
                        )*
                        present
                    };
                    fn derive(
                        [$($number,)* ..]: [f64; NUMBERS],
                        step: f64,
                    ) -> [f64; DERIVED] {
                        let mut all = [0.0; DERIVED];
                        $(
                            let $step = step;
                            let derived = $derive;
                            all[..derived.len()].copy_from_slice(&derived);
                        )?
                        all
                    }
                    #[inline(always)]
                    fn apply<A: Arch, T: Real>(
                        mut $p: T,
                        mut $g: T,
                        [$(mut $state,)* ..]: [T; STATE],
                        [$($number,)* ..]: [T; NUMBERS],
                        [$($($derived,)*)? ..]: [T; DERIVED],
                        [$($flag,)* ..]: [bool; FLAGS],
                    ) -> (T, [T; STATE]) {
                        let mut bit = 0;
                        $($(
                            let $has = HAS >> bit & 1 == 1;
                            bit += 1;
                        )?)*
                        $body
                        let mut state = [T::ZERO; STATE];
                        let mut i = 0;
                        $(
                            state[i] = $state;
                            i += 1;
                        )*
                        ($p, state)
                    }
                }
                all.push(StepEntry {
                    kernel: Kernel::$kernel,
                    loops: variants!(ThisStep level [$($($has)?)*]),
                    derive: <ThisStep as StepRow<0>>::derive,
                    optional: vec![$(optional!($($has)?)),*],
                });
            })*
            all
        }
    };
}
torsh_core::for_each_step! { rows }

fn entry(kernel: Kernel) -> Option<&'static StepEntry> {
    static ENTRIES: OnceLock<Vec<StepEntry>> = OnceLock::new();
    let all = ENTRIES.get_or_init(entries);
    all.iter().find(|e| e.kernel == kernel)
}

/// Makes the first part of a step on so many elements, and says how many it made.
///
/// # Safety
/// As [`StepFn`].
type FirstFn = unsafe fn(&StepOperands, usize, &StepNumbers<'_>) -> usize;

/// The loop that an algorithm has beside the row's.
fn first_part(algorithm: StepAlgorithm) -> Option<FirstFn> {
    match algorithm {
        #[cfg(target_arch = "x86_64")]
        StepAlgorithm::AdamEstimates => Some(adam::whole),
        _ => None,
    }
}

/// Whether a step is Adam's, with all state there that must be, and of numbers that its own loop takes.
fn is_plain_adam(row: Kernel, variant: usize, numbers: &StepNumbers<'_>) -> bool {
    #[cfg(target_arch = "x86_64")]
    return row == Kernel::AdamStep && variant == 0 && adam::takes(numbers);
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (row, variant, numbers);
        false
    }
}

/// One parameter's step.
struct ParameterStep<'a> {
    step: StepFn,
    /// What is to be done before, of `float32`.
    first: Option<FirstFn>,
    dtype: DType,
    operands: StepOperands,
    numbers: StepNumbers<'a>,
    len: usize,
}

impl ParameterStep<'_> {
    /// # Safety
    /// As [`StepFn`].
    unsafe fn loops(&self, o: &StepOperands, len: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let done = self.first.map_or(0, |f| f(o, len, &self.numbers));
            let rest = o.at(done, size_of::<f32>());
            (self.step)(&rest, len - done, &self.numbers);
        }
    }

    /// Makes the step of elements `from..to`.
    ///
    /// # Safety
    /// The operands must be valid for these elements.
    unsafe fn run(&self, from: usize, to: usize) {
        let size = self.dtype.size();
        if matches!(self.dtype, DType::F32 | DType::F64) {
            // SAFETY: the caller's promise.
            return unsafe { self.loops(&self.operands.at(from, size), to - from) };
        }
        let half = self.dtype;
        let mut blocks = [[0f32; BLOCK]; STATE + 2];
        let [param, grad, state @ ..] = &mut blocks;
        for i in (from..to).step_by(BLOCK) {
            let n = (to - i).min(BLOCK);
            let there = self.operands.at(i, size);
            let mut own =
                StepOperands::new(param.as_mut_ptr() as *mut u8, grad.as_mut_ptr() as *mut u8);
            // SAFETY: the caller's promise; a block has room for `n` floats.
            unsafe {
                convert(half, there.param, DType::F32, own.param, n);
                convert(half, there.grad, DType::F32, own.grad as *mut u8, n);
                for (k, block) in state.iter_mut().enumerate() {
                    if !there.state[k].is_null() {
                        own.state[k] = block.as_mut_ptr() as *mut u8;
                        convert(half, there.state[k], DType::F32, own.state[k], n);
                    }
                }
                self.loops(&own, n);
                convert(DType::F32, own.param, half, there.param, n);
                for (from, to) in own.state.into_iter().zip(there.state) {
                    if !to.is_null() {
                        convert(DType::F32, from, half, to, n);
                    }
                }
            }
        }
    }
}

/// Splits the elements of `items` over the threads, at cache lines of each. Large items are split one
/// by one, as the products that made their gradients were, so that these are in the thread's own
/// cache. The others are what the caller alone computed with: if they are few it takes them all.
fn split<I: Sync>(items: &[I], len: fn(&I) -> usize, f: impl Fn(&I, usize, usize) + Sync) {
    let is_large = |len: usize| len >= 2 * GRAIN;
    let (mut total, mut small) = (0, 0);
    for len in items.iter().map(len) {
        total += len;
        small += if is_large(len) { 0 } else { len };
    }
    let parts = pool::chunk_count(total, GRAIN);
    let few = 16 * parts * small <= total;
    pool::parallel_parts(parts, parts, &|part, _| {
        let mut before = 0;
        for item in items {
            let len = len(item);
            // Where a part begins.
            let begin = |part: usize| {
                let at = match is_large(len) {
                    true => len * part / parts,
                    false if few => small * part.min(1),
                    false => (small * part / parts).saturating_sub(before),
                };
                if at >= len { len } else { at / LINE * LINE }
            };
            let (from, to) = (begin(part), begin(part + 1));
            if from < to {
                f(item, from, to);
            }
            before += if is_large(len) { 0 } else { len };
        }
    });
}

/// The number of an operand that is one `float32`.
fn one_float(v: &View<'_>) -> Result<f32> {
    if v.dtype() != DType::F32 || v.numel() != 1 {
        return Err(TorshError::invalid(
            "",
            "a count or condition must be one float32",
        ));
    }
    // SAFETY: the view has one element of this dtype.
    Ok(unsafe { (*(v.ptr() as *const Packed<f32>)).0 })
}

/// The steps of all parameters, whose memory does not overlap, in one parallel region.
pub(crate) fn step(args: &KernelArgs<'_>) -> Result<()> {
    let entry = entry(args.kernel()).ok_or_else(|| args.unsupported())?;
    let &Steps {
        ref parts,
        counted,
        rows,
        conditional,
        ..
    } = args.attrs::<Steps>()?;
    let of_each = parts.len() * (1 + usize::from(counted));
    let of_all = of_each + usize::from(rows);
    if of_all + usize::from(conditional) != args.inputs().len() {
        return Err(TorshError::invalid(
            "",
            "the step needs a part for each gradient",
        ));
    }
    if conditional && one_float(&args.inputs()[of_all])? != 0.0 {
        return Ok(());
    }
    let mut outputs = args.outputs().iter();
    let mut items = Vec::with_capacity(parts.len());
    for (i, (grad, part)) in args.inputs().iter().zip(parts).enumerate() {
        let step = match counted {
            true => f64::from(one_float(&args.inputs()[parts.len() + i])?),
            false => part.step,
        };
        let missing = || TorshError::invalid("", "the step needs a state that is not there");
        let param = outputs.next().ok_or_else(missing)?;
        let mut operands = StepOperands::new(param.ptr(), grad.ptr());
        let (mut variant, mut bit) = (0, 0);
        let fits = |v: &View<'_>| {
            let same = v.dtype() == param.dtype() && v.shape() == param.shape();
            match same && v.strides() == param.strides() {
                true => Ok(()),
                false => Err(TorshError::invalid(
                    "",
                    "parameter, gradient and state must have one dtype and layout",
                )),
            }
        };
        if !rows {
            fits(grad)?;
        }
        for (i, &optional) in entry.optional.iter().enumerate() {
            let there = part.present >> i & 1 == 1;
            if optional {
                variant |= usize::from(there) << bit;
                bit += 1;
            } else if !there {
                return Err(missing());
            }
            if there {
                let view = outputs.next().ok_or_else(missing)?;
                operands.state[i] = view.ptr();
                fits(view)?;
            }
        }
        let loops = entry.loops[variant];
        let len = param.numel();
        let numbers = StepNumbers {
            part,
            derived: (entry.derive)(part.numbers, step),
        };
        let problem = StepProblem {
            row: args.kernel(),
            dtype: param.dtype(),
            plain_adam: is_plain_adam(args.kernel(), variant, &numbers),
        };
        let algorithm = pick::<StepAlgorithm>(&problem, pool::num_threads());
        items.push(ParameterStep {
            step: match param.dtype() {
                DType::F32 | DType::F16 | DType::BF16 => loops.single,
                DType::F64 => loops.double,
                _ => return Err(args.unsupported()),
            },
            first: first_part(algorithm),
            dtype: param.dtype(),
            operands,
            numbers,
            len,
        });
    }
    if rows {
        return match (&*items, args.outputs(), args.inputs()) {
            ([item], [param, ..], [grad, ..]) => {
                SteppedRows::new(param, grad, &args.inputs()[of_each])?.step(item);
                Ok(())
            }
            _ => Err(TorshError::invalid(
                "",
                "a step of some rows is that of one parameter",
            )),
        };
    }
    split(
        &items,
        |i| i.len,
        |item, from, to| {
            // SAFETY: the operands have `len` elements of the step's dtype in one dense order, are
            // locked by the caller, and each range is given to one thread.
            unsafe { item.run(from, to) }
        },
    );
    Ok(())
}

multiversion! {
    /// Multiplies elements in place; whether any of them was not finite before.
    ///
    /// # Safety
    /// `n` elements must be there.
    unsafe fn unscale_all<A, T: Real>(values: *mut u8, n: usize, factor: f64) -> bool {
        let (values, factor) = (values as *mut Packed<T>, T::c(factor));
        let mut bad = false;
        for i in 0..n {
            // SAFETY: the caller's promise.
            unsafe {
                let v = (*values.add(i)).0;
                bad |= !v.is_finite();
                *values.add(i) = Packed(v * factor);
            }
        }
        bad
    }
}

/// One gradient, for [`unscale`].
struct ScaledGradient {
    dtype: DType,
    values: StepOperands,
    len: usize,
}

impl ScaledGradient {
    /// # Safety
    /// Elements `from..to` must be there.
    unsafe fn run(&self, from: usize, to: usize, factor: f64) -> bool {
        let size = self.dtype.size();
        let values = self.values.at(from, size).param;
        // SAFETY: the caller's promise; a block has room for `n` floats.
        unsafe {
            match self.dtype {
                DType::F32 => unscale_all::<f32>(values, to - from, factor),
                DType::F64 => unscale_all::<f64>(values, to - from, factor),
                half => {
                    let mut block = [0f32; BLOCK];
                    let block = block.as_mut_ptr() as *mut u8;
                    let mut bad = false;
                    for i in (0..to - from).step_by(BLOCK) {
                        let n = (to - from - i).min(BLOCK);
                        let there = values.add(i * size);
                        convert(half, there, DType::F32, block, n);
                        bad |= unscale_all::<f32>(block, n, factor);
                        convert(DType::F32, block, half, there, n);
                    }
                    bad
                }
            }
        }
    }
}

/// `UnscaleGradients`: the input is a `float32` number that the gradients are multiplied by, the
/// outputs are the gradients, whose memory does not overlap, and a `float32` number, which becomes 1
/// where any of their elements was not finite and is left as it is elsewhere.
pub(crate) fn unscale(args: &KernelArgs<'_>) -> Result<()> {
    let Some((found, grads)) = args.outputs().split_last() else {
        return Err(TorshError::invalid(
            "",
            "there is nowhere to put the result",
        ));
    };
    let mut items = Vec::with_capacity(grads.len());
    for g in grads {
        if !matches!(
            g.dtype(),
            DType::F32 | DType::F64 | DType::F16 | DType::BF16
        ) {
            return Err(args.unsupported());
        }
        let len = g.numel();
        items.push(ScaledGradient {
            dtype: g.dtype(),
            values: StepOperands::new(g.ptr(), g.ptr()),
            len,
        });
    }
    let factor = match args.inputs() {
        [factor] => f64::from(one_float(factor)?),
        _ => return Err(TorshError::invalid("", "there is no factor")),
    };
    let bad = AtomicBool::new(false);
    split(
        &items,
        |i| i.len,
        |item, from, to| {
            // SAFETY: the gradient has `len` dense elements, which the caller has locked, and each
            // range is given to one thread.
            if unsafe { item.run(from, to, factor) } {
                bad.store(true, Ordering::Relaxed);
            }
        },
    );
    one_float(found)?;
    if bad.into_inner() {
        // SAFETY: it is one `float32` (checked), which the caller has locked for writing.
        unsafe { *(found.ptr() as *mut Packed<f32>) = Packed(1.0) };
    }
    Ok(())
}

/// `AmpUpdateScale`: the outputs are the scale, a `float32`, and how many iterations passed since it
/// last changed, an `int32`; the input is a `float32` that is not 0 where a gradient was not finite.
pub(crate) fn update_scale(args: &KernelArgs<'_>) -> Result<()> {
    let ([scale, tracker], [found]) = operands(args)?;
    let &attrs::AmpUpdateScale {
        growth_factor,
        backoff_factor,
        growth_interval,
    } = args.attrs()?;
    let (before, found) = (one_float(scale)?, one_float(found)? != 0.0);
    if tracker.dtype() != DType::I32 || tracker.numel() != 1 {
        return Err(TorshError::invalid("", "the count must be one int32"));
    }
    let times = |factor: f64| (f64::from(before) * factor) as f32;
    // SAFETY: both are one element of these dtypes (checked), which the caller has locked for writing.
    unsafe {
        let scale = scale.ptr() as *mut Packed<f32>;
        let tracker = tracker.ptr() as *mut Packed<i32>;
        let count = (*tracker).0 + 1;
        *tracker = Packed(0);
        if found {
            *scale = Packed(times(backoff_factor));
        } else if i64::from(count) == growth_interval {
            let grown = times(growth_factor);
            *scale = Packed(if grown.is_finite() { grown } else { before });
        } else {
            *tracker = Packed(count);
        }
    }
    Ok(())
}
