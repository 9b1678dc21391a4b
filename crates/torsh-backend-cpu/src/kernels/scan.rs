//! Cumulative operations along one dimension.
//!
//! | key | outputs | dtypes: input to output |
//! |---|---|---|
//! | `CumSum`, `CumProd` | result | integers and bool to int64 or real; real to real; complex to complex |
//! | `LogCumSumExp` | result | real to real; complex to complex |
//! | `CumMax`, `CumMin` | values (NaN stays), positions (int64, the last of equals) | real, integers and bool |
//!
//! Attribute 0 is the dimension; outputs have the input's shape. Sums and products are carried in
//! float64 (int64 for integers), as PyTorch does for float32.

pub(crate) mod choose;
mod sums;

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

use num_complex::Complex;
use torsh_core::{DType, Kernel, KernelArgs, Result, TorshError, attrs, cmath, pool};

use crate::kernels::reduce::load::{As, Load, Out, loader};
use crate::kernels::reduce::plan::{Dim, DimList, ReduceWalk, merge, order};
use crate::machine::choice::pick;
use crate::machine::tuning::scan::{BLOCK, LINE_GRAIN};
use choose::{ScanAlgorithm, ScanProblem};

/// A scan: `STATE` values of `T`, each carried along its line.
trait Scan: 'static {
    type T: Copy;
    type S: Copy;
    fn start() -> Self::S;
    /// Takes in the element at a position and leaves the result in its place.
    fn step(s: &mut Self::S, x: &mut Self::T, at: i64);
    /// Takes in neighbours of one line; for those that can do better than one by one.
    #[inline(always)]
    fn line(s: &mut Self::S, x: &mut [Self::T], base: i64) {
        for (x, at) in x.iter_mut().zip(base..) {
            Self::step(s, x, at);
        }
    }
    /// The position of the result, where there is one.
    fn position(_: &Self::S) -> i64 {
        0
    }
    /// # Safety
    /// `out` must have room for the results.
    unsafe fn write(x: &[Self::T], out: Out);
}

macro_rules! write_as {
    ($put:ident) => {
        #[inline(always)]
        unsafe fn write(x: &[Self::T], out: Out) {
            // SAFETY: the caller's promise.
            unsafe { out.$put(x.len(), |i| x[i]) }
        }
    };
}

macro_rules! carried {
    ($name:ident, $t:ty, $start:expr, $put:ident, |$a:ident, $x:ident| $op:expr) => {
        struct $name;
        impl Scan for $name {
            type T = $t;
            type S = $t;
            fn start() -> $t {
                $start
            }
            #[inline(always)]
            fn step(s: &mut $t, x: &mut $t, _: i64) {
                let ($a, $x) = (*s, *x);
                *s = $op;
                *x = *s;
            }
            #[inline(always)]
            fn line(s: &mut $t, x: &mut [$t], _: i64) {
                let op = |$a: $t, $x: $t| $op;
                let mut fours = x.chunks_exact_mut(4);
                // Four at a time: one operation, not four, between one carry and the next.
                for f in &mut fours {
                    let two = op(f[0], f[1]);
                    let three = op(two, f[2]);
                    let four = op(two, op(f[2], f[3]));
                    let c = *s;
                    *s = op(c, four);
                    (f[0], f[1], f[2], f[3]) = (op(c, f[0]), op(c, two), op(c, three), *s);
                }
                for x in fours.into_remainder() {
                    *s = op(*s, *x);
                    *x = *s;
                }
            }
            write_as!($put);
        }
    };
}

type C = Complex<f64>;
carried!(CumSumF64, f64, 0.0, real, |a, x| a + x);
carried!(CumSumI64, i64, 0, int, |a, x| a.wrapping_add(x));
carried!(CumSumC128, C, C::new(0.0, 0.0), complex, |a, x| a + x);
carried!(CumProdF64, f64, 1.0, real, |a, x| a * x);
carried!(CumProdI64, i64, 1, int, |a, x| a.wrapping_mul(x));
carried!(CumProdC128, C, C::new(1.0, 0.0), complex, |a, x| a * x);

struct LogSumExpF64;
impl Scan for LogSumExpF64 {
    type T = f64;
    type S = f64;
    fn start() -> f64 {
        f64::NEG_INFINITY
    }
    fn step(s: &mut f64, x: &mut f64, _: i64) {
        let (low, high) = if *s < *x { (*s, *x) } else { (*x, *s) };
        *s = if s.is_nan() || x.is_nan() {
            f64::NAN
        } else if low == high && !low.is_finite() {
            // Equal infinities, whose difference would be NaN.
            low
        } else {
            high + cmath::ln_1p(cmath::exp(low - high))
        };
        *x = *s;
    }
    write_as!(real);
}

struct LogSumExpC128;
impl Scan for LogSumExpC128 {
    type T = C;
    type S = C;
    fn start() -> C {
        C::new(f64::NEG_INFINITY, 0.0)
    }
    fn step(s: &mut C, x: &mut C, _: i64) {
        let (low, high) = if s.re < x.re { (*s, *x) } else { (*x, *s) };
        *s = if s.re.is_nan() || s.im.is_nan() || x.re.is_nan() || x.im.is_nan() {
            C::new(f64::NAN, f64::NAN)
        } else if low.re == f64::NEG_INFINITY {
            high
        } else {
            // The imaginary part is not brought back to (-pi, pi], as in PyTorch.
            (C::new(1.0, 0.0) + (low - high).exp()).ln() + high
        };
        *x = *s;
    }
    write_as!(complex);
}

macro_rules! extreme {
    ($name:ident, $t:ty, $cmp:tt, $put:ident) => {
        struct $name;
        impl Scan for $name {
            type T = $t;
            type S = ($t, i64);
            fn start() -> ($t, i64) {
                (Default::default(), -1)
            }
            #[inline(always)]
            #[allow(clippy::eq_op)]
            fn step(s: &mut ($t, i64), x: &mut $t, at: i64) {
                let (value, index) = *s;
                // A NaN takes the place of a number, and of an earlier NaN's.
                if index < 0 || *x != *x || (value == value && *x $cmp value) {
                    *s = (*x, at);
                }
                *x = s.0;
            }
            fn position(s: &($t, i64)) -> i64 {
                s.1
            }
            write_as!($put);
        }
    };
}
extreme!(CumMaxF64, f64, >=, real);
extreme!(CumMinF64, f64, <=, real);
extreme!(CumMaxI64, i64, >=, int);
extreme!(CumMinI64, i64, <=, int);

pub(crate) fn scan(args: &KernelArgs<'_>) -> Result<()> {
    let (from, to) = (args.inputs()[0].dtype(), args.outputs()[0].dtype());
    if from.is_complex() != to.is_complex() {
        return Err(args.unsupported());
    }
    // All real types pass through float64, complex ones through complex128.
    let through = match to {
        DType::C64 | DType::C128 => As::C128,
        _ if to.is_floating_point() => As::F64,
        _ if from.is_floating_point() => return Err(args.unsupported()),
        _ => As::I64,
    };
    match (args.kernel(), through) {
        (Kernel::CumSum, As::F64) => run::<CumSumF64>(args, through),
        (Kernel::CumSum, As::I64) => run::<CumSumI64>(args, through),
        (Kernel::CumSum, _) => run::<CumSumC128>(args, through),
        (Kernel::CumProd, As::F64) => run::<CumProdF64>(args, through),
        (Kernel::CumProd, As::I64) => run::<CumProdI64>(args, through),
        (Kernel::CumProd, _) => run::<CumProdC128>(args, through),
        (Kernel::LogCumSumExp, As::F64) => run::<LogSumExpF64>(args, through),
        (Kernel::LogCumSumExp, As::C128) => run::<LogSumExpC128>(args, through),
        (Kernel::CumMax, As::F64) => run::<CumMaxF64>(args, through),
        (Kernel::CumMax, As::I64) => run::<CumMaxI64>(args, through),
        (Kernel::CumMin, As::F64) => run::<CumMinF64>(args, through),
        (Kernel::CumMin, As::I64) => run::<CumMinI64>(args, through),
        _ => Err(args.unsupported()),
    }
}

fn run<S: Scan>(args: &KernelArgs<'_>, through: As) -> Result<()> {
    let (x, out) = (&args.inputs()[0], &args.outputs()[0]);
    let Some(load) = loader(x.dtype(), through) else {
        return Err(args.unsupported());
    };
    if out.numel() == 0 {
        return Ok(());
    }
    let dim = match args.kernel() {
        Kernel::CumSum | Kernel::CumProd => args.attrs::<attrs::CumSum>()?.dim,
        _ => args.attrs::<attrs::Scan>()?.dim,
    };
    let second = args.outputs().get(1);
    let at = |d: usize| Dim {
        n: x.shape()[d],
        i: x.strides()[d],
        o: [out.strides()[d], second.map_or(0, |v| v.strides()[d])],
    };
    let mut outer: DimList = (0..x.shape().len())
        .filter(|&d| d != dim && x.shape()[d] != 1)
        .map(at)
        .collect();
    order(&mut outer);
    merge(&mut outer);
    let inner = outer.pop().unwrap_or(Dim::ONE);
    let along = if dim < x.shape().len() {
        at(dim)
    } else {
        Dim::ONE
    };
    let outside = outer.iter().map(|d| d.n).product::<usize>();
    let problem = ScanProblem {
        sums: sums::dtype(args),
        n: along.n,
        lines: outside * inner.n,
        across: inner.n,
        across_is_closer: inner.i.unsigned_abs() < along.i.unsigned_abs(),
        adjacent_along: along.i == 1 && along.o[0] == 1,
    };
    let algorithm = pick::<ScanAlgorithm>(&problem, pool::num_threads());
    let columns = algorithm == ScanAlgorithm::Columns;
    let width = if columns { inner.n.min(BLOCK) } else { 1 };
    let blocks = inner.n.div_ceil(width);
    let units = outside * blocks;
    let task = Task {
        load,
        along,
        inner,
        size: x.dtype().size() as isize,
    };
    let addresses = [
        x.ptr() as usize,
        out.ptr() as usize,
        second.map_or(0, |v| v.ptr() as usize),
    ];
    let dtype = out.dtype();
    let sums = sums::line(algorithm, dtype);
    let failed = AtomicBool::new(false);
    pool::parallel_for(units, (LINE_GRAIN / (along.n * width)).max(1), &|range| {
        for unit in range {
            let walk = ReduceWalk::new(&outer, unit / blocks);
            let first = (unit % blocks) * width;
            let w = width.min(inner.n - first);
            let f = first as isize;
            // SAFETY: the offsets are those of elements of the operands.
            unsafe {
                let x = (addresses[0] as *const u8).offset((walk.i + f * inner.i) * task.size);
                let o = (addresses[1] as *mut u8)
                    .offset((walk.o[0] + f * inner.o[0]) * dtype.size() as isize);
                let o = Out {
                    ptr: o,
                    stride: 0,
                    dtype,
                };
                let p = match addresses[2] {
                    0 => std::ptr::null_mut(),
                    p => (p as *mut i64).offset(walk.o[1] + f * inner.o[1]),
                };
                if let Some(sums) = sums {
                    if sums(x, o.ptr, along.n).is_err() {
                        failed.store(true, Ordering::Relaxed);
                    }
                } else if columns {
                    task.columns::<S>(x, o, p, w);
                } else {
                    task.line::<S>(x, o, p);
                }
            }
        }
    });
    if failed.into_inner() {
        return Err(TorshError::out_of_memory(torsh_core::Device::Cpu, 0));
    }
    Ok(())
}

struct Task {
    load: Load,
    along: Dim,
    inner: Dim,
    size: isize,
}

impl Task {
    /// # Safety
    /// A line of the operands must start at the pointers; `p` may be null.
    unsafe fn line<S: Scan>(&self, x: *const u8, out: Out, p: *mut i64) {
        let a = self.along;
        let mut block = [const { MaybeUninit::<S::T>::uninit() }; BLOCK];
        let mut s = S::start();
        let mut done = 0;
        while done < a.n {
            let n = BLOCK.min(a.n - done);
            let at = done as isize;
            // SAFETY: n elements from `done` on are there and fit the block.
            unsafe {
                let values = block.as_mut_ptr().cast::<S::T>();
                (self.load)(x.offset(at * a.i * self.size), a.i, n, values.cast());
                let values = std::slice::from_raw_parts_mut(values, n);
                if p.is_null() {
                    S::line(&mut s, values, done as i64);
                } else {
                    for (x, i) in values.iter_mut().zip(done..) {
                        S::step(&mut s, x, i as i64);
                        *p.offset(i as isize * a.o[1]) = S::position(&s);
                    }
                }
                let ptr = out.ptr.offset(at * a.o[0] * out.dtype.size() as isize);
                S::write(
                    values,
                    Out {
                        ptr,
                        stride: a.o[0],
                        ..out
                    },
                );
            }
            done += n;
        }
    }

    /// # Safety
    /// `w` neighbouring lines must start at the pointers, at most [`BLOCK`]; `p` may be null.
    unsafe fn columns<S: Scan>(&self, x: *const u8, out: Out, p: *mut i64, w: usize) {
        let (a, k) = (self.along, self.inner);
        let mut block = [const { MaybeUninit::<S::T>::uninit() }; BLOCK];
        let mut states = [S::start(); BLOCK];
        let states = &mut states[..w];
        for r in 0..a.n {
            let at = r as isize;
            // SAFETY: a row of w elements is there and fits the block.
            unsafe {
                let values = block.as_mut_ptr().cast::<S::T>();
                (self.load)(x.offset(at * a.i * self.size), k.i, w, values.cast());
                let values = std::slice::from_raw_parts_mut(values, w);
                for (s, x) in states.iter_mut().zip(values.iter_mut()) {
                    S::step(s, x, r as i64);
                }
                if !p.is_null() {
                    for (j, s) in states.iter().enumerate() {
                        *p.offset(at * a.o[1] + j as isize * k.o[1]) = S::position(s);
                    }
                }
                let ptr = out.ptr.offset(at * a.o[0] * out.dtype.size() as isize);
                S::write(
                    values,
                    Out {
                        ptr,
                        stride: k.o[0],
                        ..out
                    },
                );
            }
        }
    }
}

#[cfg(feature = "unit-tests")]
mod tests;
