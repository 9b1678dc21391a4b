//! Optimizer steps: one pass over each parameter, its gradient and its state.
//!
//! A call has any number of parameters: the inputs are their gradients, the outputs each
//! parameter followed by its state, the attributes one block for each. The elements of all
//! together are split over the threads. The operands of a parameter have one dense memory order, so that they are read as flat arrays. `float16` and
//! `bfloat16` compute in `float32` and round once when written.

use half::{bf16, f16};
use torsh_core::{Attr, DType, Kernel, KernelArgs, KernelFn, Result, TorshError, pool};

use crate::arch::Arch;
use crate::multiversion;

/// The kernels of this family.
pub(crate) fn kernel(k: Kernel) -> Option<KernelFn> {
    Some(match k {
        Kernel::SgdStep => sgd,
        Kernel::AdamStep => adam,
        _ => return None,
    })
}

/// The least number of elements worth a thread of their own.
const GRAIN: usize = 16 * 1024;

/// The type that a step computes in.
trait Math: Copy + PartialOrd {
    fn of(v: f64) -> Self;
    fn plus(self, o: Self) -> Self;
    fn minus(self, o: Self) -> Self;
    fn times(self, o: Self) -> Self;
    fn over(self, o: Self) -> Self;
    fn root(self) -> Self;
    /// The larger; NaN wins.
    fn larger(self, o: Self) -> Self;
}

macro_rules! math {
    ($($t:ident),*) => {$(
        impl Math for $t {
            #[inline(always)]
            fn of(v: f64) -> Self { v as $t }
            #[inline(always)]
            fn plus(self, o: Self) -> Self { self + o }
            #[inline(always)]
            fn minus(self, o: Self) -> Self { self - o }
            #[inline(always)]
            fn times(self, o: Self) -> Self { self * o }
            #[inline(always)]
            fn over(self, o: Self) -> Self { self / o }
            #[inline(always)]
            fn root(self) -> Self { self.sqrt() }
            #[inline(always)]
            fn larger(self, o: Self) -> Self { if o > self || o.is_nan() { o } else { self } }
        }
    )*};
}
math!(f32, f64);

/// An element in memory.
trait Stored: Copy {
    type M: Math;
    fn load(self) -> Self::M;
    fn store(m: Self::M) -> Self;
}

macro_rules! stored {
    ($($t:ident)*) => {$(
        impl Stored for $t {
            type M = $t;
            #[inline(always)]
            fn load(self) -> $t { self }
            #[inline(always)]
            fn store(m: $t) -> $t { m }
        }
    )*};
}
stored!(f32 f64);

macro_rules! stored_half {
    ($($t:ident)*) => {$(
        impl Stored for $t {
            type M = f32;
            #[inline(always)]
            fn load(self) -> f32 { self.to_f32() }
            #[inline(always)]
            fn store(m: f32) -> $t { <$t>::from_f32(m) }
        }
    )*};
}
stored_half!(f16 bf16);

/// `torch.optim.SGD`'s numbers.
#[derive(Clone, Copy)]
struct Sgd {
    lr: f64,
    weight_decay: f64,
    momentum: f64,
    dampening: f64,
    nesterov: bool,
    maximize: bool,
    /// Whether the buffer holds nothing yet.
    first: bool,
}

/// `torch.optim.Adam`'s numbers.
#[derive(Clone, Copy)]
struct Adam {
    /// What the parameter is multiplied by first (decoupled weight decay).
    shrink: f64,
    weight_decay: f64,
    beta1: f64,
    beta2: f64,
    eps: f64,
    step_size: f64,
    /// The square root of the second bias correction.
    correction: f64,
    maximize: bool,
}

/// Where a step's operands start; null for state that the step does not have.
#[derive(Clone, Copy)]
struct Operands {
    param: *mut u8,
    grad: *const u8,
    state: [*mut u8; 3],
}

// SAFETY: threads get disjoint ranges of the elements, which the caller has locked.
unsafe impl Send for Operands {}
// SAFETY: as above.
unsafe impl Sync for Operands {}

/// # Safety
/// The operands that the step has must be valid for elements `start..end` of `T`.
#[inline(always)]
unsafe fn sgd_body<A: Arch, T: Stored>(o: Operands, s: Sgd, start: usize, end: usize) {
    let (param, grad) = (o.param.cast::<T>(), o.grad.cast::<T>());
    let buffer = o.state[0].cast::<T>();
    let (lr, wd) = (T::M::of(-s.lr), T::M::of(s.weight_decay));
    let (momentum, keep) = (T::M::of(s.momentum), T::M::of(1.0 - s.dampening));
    let (decays, has_momentum) = (s.weight_decay != 0.0, s.momentum != 0.0);
    for i in start..end {
        // SAFETY: the caller's promise.
        unsafe {
            let p = (*param.add(i)).load();
            let mut g = (*grad.add(i)).load();
            if s.maximize {
                g = T::M::of(0.0).minus(g);
            }
            if decays {
                g = g.plus(p.times(wd));
            }
            if has_momentum {
                let mut b = g;
                if !s.first {
                    b = (*buffer.add(i)).load().times(momentum).plus(g.times(keep));
                }
                *buffer.add(i) = T::store(b);
                g = if s.nesterov {
                    g.plus(b.times(momentum))
                } else {
                    b
                };
            }
            *param.add(i) = T::store(p.plus(g.times(lr)));
        }
    }
}

/// # Safety
/// The operands that the step has must be valid for elements `start..end` of `T`.
#[inline(always)]
unsafe fn adam_body<A: Arch, T: Stored>(o: Operands, s: Adam, start: usize, end: usize) {
    let (param, grad) = (o.param.cast::<T>(), o.grad.cast::<T>());
    let (mean, square, largest) = (
        o.state[0].cast::<T>(),
        o.state[1].cast::<T>(),
        o.state[2].cast::<T>(),
    );
    let amsgrad = !largest.is_null();
    let of = T::M::of;
    let (shrink, wd) = (of(s.shrink), of(s.weight_decay));
    let (rest1, beta1) = (of(1.0 - s.beta1), of(s.beta1));
    let (rest2, beta2) = (of(1.0 - s.beta2), of(s.beta2));
    let (eps, step, correction) = (of(s.eps), of(-s.step_size), of(s.correction));
    let decays = s.weight_decay != 0.0;
    // lerp is written from its nearer end, as PyTorch's.
    let near = 1.0 - s.beta1 < 0.5;
    for i in start..end {
        // SAFETY: the caller's promise.
        unsafe {
            let mut p = (*param.add(i)).load().times(shrink);
            let mut g = (*grad.add(i)).load();
            if s.maximize {
                g = of(0.0).minus(g);
            }
            if decays {
                g = g.plus(p.times(wd));
            }
            let m = (*mean.add(i)).load();
            let m = if near {
                m.plus(rest1.times(g.minus(m)))
            } else {
                g.minus(g.minus(m).times(beta1))
            };
            *mean.add(i) = T::store(m);
            let v = (*square.add(i))
                .load()
                .times(beta2)
                .plus(g.times(g).times(rest2));
            *square.add(i) = T::store(v);
            let mut top = v;
            if amsgrad {
                top = (*largest.add(i)).load().larger(v);
                *largest.add(i) = T::store(top);
            }
            p = p.plus(step.times(m.over(top.root().over(correction).plus(eps))));
            *param.add(i) = T::store(p);
        }
    }
}

macro_rules! versions {
    ($($t:ident $sgd:ident $adam:ident;)*) => {
        multiversion! {$(
            /// The SGD step of elements `start..end`.
            ///
            /// # Safety
            /// The operands that the step has must be valid for these elements.
            unsafe fn $sgd<A>(o: Operands, s: Sgd, start: usize, end: usize) {
                // SAFETY: the caller's promise.
                unsafe { sgd_body::<A, $t>(o, s, start, end) }
            }
            /// The Adam step of elements `start..end`.
            ///
            /// # Safety
            /// The operands that the step has must be valid for these elements.
            unsafe fn $adam<A>(o: Operands, s: Adam, start: usize, end: usize) {
                // SAFETY: the caller's promise.
                unsafe { adam_body::<A, $t>(o, s, start, end) }
            }
        )*}
    };
}
versions! {
    f32 sgd_f32 adam_f32;
    f64 sgd_f64 adam_f64;
    f16 sgd_f16 adam_f16;
    bf16 sgd_bf16 adam_bf16;
}

/// One parameter's step.
struct Item<S> {
    step: unsafe fn(Operands, S, usize, usize),
    operands: Operands,
    numbers: S,
    /// How many elements are before it and in it.
    start: usize,
    len: usize,
}

/// The step of parameter `i`, with its attributes, as `read` and `select` make it.
fn item<S>(
    args: &KernelArgs<'_>,
    i: usize,
    start: usize,
    read: fn(&[Attr<'_>]) -> S,
    select: fn(DType) -> Option<unsafe fn(Operands, S, usize, usize)>,
) -> Result<Item<S>> {
    let count = args.inputs.len();
    let (own, block) = (args.outputs.len() / count, args.attrs.len() / count);
    let (views, grad) = (&args.outputs[i * own..][..own], &args.inputs[i]);
    let param = &views[0];
    let mut operands = Operands {
        param: param.ptr,
        grad: grad.ptr,
        state: [std::ptr::null_mut(); 3],
    };
    for (slot, v) in operands.state.iter_mut().zip(&views[1..]) {
        *slot = v.ptr;
    }
    for v in views[1..].iter().chain([grad]) {
        if v.dtype != param.dtype || v.shape != param.shape || v.strides != param.strides {
            return Err(TorshError::invalid(
                "",
                "parameter, gradient and state must have one dtype and layout",
            ));
        }
    }
    Ok(Item {
        step: select(param.dtype).ok_or_else(|| args.unsupported())?,
        operands,
        numbers: read(&args.attrs[i * block..][..block]),
        start,
        len: param.numel(),
    })
}

/// Runs the steps of all parameters, whose memory does not overlap, in one parallel region.
fn run<S: Copy + Sync>(
    args: &KernelArgs<'_>,
    read: fn(&[Attr<'_>]) -> S,
    select: fn(DType) -> Option<unsafe fn(Operands, S, usize, usize)>,
    complete: fn(&Item<S>) -> bool,
) -> Result<()> {
    let mut items = Vec::with_capacity(args.inputs.len());
    let mut total = 0;
    for i in 0..args.inputs.len() {
        let item = item(args, i, total, read, select)?;
        if !complete(&item) {
            return Err(TorshError::invalid(
                "",
                "the step needs a state that is not there",
            ));
        }
        total += item.len;
        items.push(item);
    }
    pool::parallel_for(total, GRAIN, &|r| {
        let first = items.partition_point(|i| i.start + i.len <= r.start);
        for item in items[first..].iter().take_while(|i| i.start < r.end) {
            let from = r.start.max(item.start) - item.start;
            let to = (r.end - item.start).min(item.len);
            // SAFETY: the operands have `len` elements of the step's dtype in one dense order,
            // are locked by the caller, and each range is given to one thread.
            unsafe { (item.step)(item.operands, item.numbers, from, to) }
        }
    });
    Ok(())
}

macro_rules! select {
    ($f32:ident $f64:ident $f16:ident $bf16:ident) => {
        |dtype| {
            Some(match dtype {
                DType::F32 => $f32,
                DType::F64 => $f64,
                DType::F16 => $f16,
                DType::BF16 => $bf16,
                _ => return None,
            })
        }
    };
}

/// `SgdStep`: outputs parameter and, with momentum, its buffer; input gradient; attributes
/// lr, weight_decay, momentum, dampening, nesterov, maximize, first.
fn sgd(args: &KernelArgs<'_>) -> Result<()> {
    let read = |a: &[Attr<'_>]| Sgd {
        lr: a[0].float(),
        weight_decay: a[1].float(),
        momentum: a[2].float(),
        dampening: a[3].float(),
        nesterov: a[4].bool(),
        maximize: a[5].bool(),
        first: a[6].bool(),
    };
    run(args, read, select!(sgd_f32 sgd_f64 sgd_f16 sgd_bf16), |i| {
        i.numbers.momentum == 0.0 || !i.operands.state[0].is_null() || i.len == 0
    })
}

/// `AdamStep`: outputs parameter, exp_avg, exp_avg_sq and, for amsgrad, max_exp_avg_sq; input
/// gradient; attributes shrink, weight_decay, beta1, beta2, eps, step_size, square root of the
/// second bias correction, maximize.
fn adam(args: &KernelArgs<'_>) -> Result<()> {
    let read = |a: &[Attr<'_>]| Adam {
        shrink: a[0].float(),
        weight_decay: a[1].float(),
        beta1: a[2].float(),
        beta2: a[3].float(),
        eps: a[4].float(),
        step_size: a[5].float(),
        correction: a[6].float(),
        maximize: a[7].bool(),
    };
    run(
        args,
        read,
        select!(adam_f32 adam_f64 adam_f16 adam_bf16),
        |i| !(i.operands.state[0].is_null() || i.operands.state[1].is_null()) || i.len == 0,
    )
}
