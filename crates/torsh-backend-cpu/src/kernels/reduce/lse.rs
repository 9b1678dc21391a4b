//! Logarithm of a sum of exponentials, shifted by a running maximum.

use std::marker::PhantomData;
use std::mem::{MaybeUninit, size_of};
use std::ops::{Add, Mul};

use num_complex::Complex;
use torsh_core::cmath;

use super::drive::{Params, ReduceOp, WIDTH};
use super::fold::{self, LaneFold};
use super::load::Out;
use crate::kernels::exp_rows::ExpRows;
use crate::memory::stream;
use crate::simd::Arch;
use crate::vmath::VMath;

/// `sum * exp(shift)`, with a real or a complex sum.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct ScaledSum<N = f64> {
    shift: f64,
    sum: N,
}

#[inline(always)]
fn join(a: ScaledSum, b: ScaledSum) -> ScaledSum {
    // A sum of 0 or inf has no use for its shift, and would make NaN of another's.
    if b.sum == 0.0 || a.sum == f64::INFINITY && !b.sum.is_nan() {
        return a;
    }
    if a.sum == 0.0 || b.sum == f64::INFINITY && !a.sum.is_nan() {
        return b;
    }
    add(a, b)
}

/// The sum of both, neither of which is 0.
#[inline(always)]
fn add<N: Mul<f64, Output = N> + Add<Output = N>>(
    a: ScaledSum<N>,
    b: ScaledSum<N>,
) -> ScaledSum<N> {
    let shift = a.shift.max(b.shift);
    ScaledSum {
        shift,
        sum: a.sum * cmath::exp(a.shift - shift) + b.sum * cmath::exp(b.shift - shift),
    }
}

/// A real type with sums of exponentials.
pub(crate) trait LogSumExpReal: ExpRows + Into<f64> {
    type Max: LaneFold<T = Self, L = Self>;
}
impl LogSumExpReal for f32 {
    type Max = fold::MaxF32;
}
impl LogSumExpReal for f64 {
    type Max = fold::MaxF64;
}

/// The maximum where it is finite, else 0.
#[inline(always)]
fn shift<T: LogSumExpReal>(top: T) -> T {
    if top.abs() < T::INFINITY {
        top
    } else {
        T::ZERO
    }
}

/// log-sum-exp of real numbers.
pub(crate) struct Lse<T>(PhantomData<T>);

impl<T: LogSumExpReal> ReduceOp for Lse<T> {
    type T = T;
    type S = ScaledSum;

    const MANY: bool = true;

    fn start() -> ScaledSum {
        ScaledSum {
            shift: 0.0,
            sum: 0.0,
        }
    }

    #[inline(always)]
    unsafe fn rows<A: Arch>(p: &Params, x: *const T, n: usize, _: i64, s: &mut ScaledSum) {
        // SAFETY: the caller's promise.
        unsafe {
            let top = T::Max::block::<A>(p, x, n, false);
            let shift = shift(top);
            let sum = if top == shift {
                let ahead = stream::AHEAD / size_of::<T>();
                T::exp_sum::<A>(x, n, shift, ahead).into()
            } else {
                // All are -inf, or one is inf or nan.
                cmath::exp(top.into())
            };
            *s = join(
                *s,
                ScaledSum {
                    shift: shift.into(),
                    sum,
                },
            );
        }
    }

    #[inline(always)]
    unsafe fn cols<A: Arch>(
        _: &Params,
        x: *const T,
        stride: isize,
        rows: usize,
        w: usize,
        _: i64,
        s: *mut ScaledSum,
    ) {
        let mut buffers = [const { MaybeUninit::<[T; WIDTH]>::uninit() }; 2];
        let [m, sum] = buffers.each_mut().map(|b| b.as_mut_ptr().cast::<T>());
        // SAFETY: w is at most WIDTH, and the caller promises the elements and states.
        unsafe {
            for j in 0..w {
                *m.add(j) = -T::INFINITY;
                *sum.add(j) = T::ZERO;
            }
            for r in 0..rows {
                let y = x.offset(r as isize * stride);
                for j in 0..w {
                    *m.add(j) = fold::max(*m.add(j), *y.add(j));
                }
            }
            for j in 0..w {
                *m.add(j) = shift(*m.add(j));
            }
            for r in 0..rows {
                let y = x.offset(r as isize * stride);
                for j in 0..w {
                    *sum.add(j) = *sum.add(j) + VMath::exp::<A>(*y.add(j) - *m.add(j));
                }
            }
            for j in 0..w {
                *s.add(j) = join(
                    *s.add(j),
                    ScaledSum {
                        shift: (*m.add(j)).into(),
                        sum: (*sum.add(j)).into(),
                    },
                );
            }
        }
    }

    fn merge(a: ScaledSum, b: ScaledSum) -> ScaledSum {
        join(a, b)
    }

    unsafe fn finish(_: &Params, s: &[ScaledSum], outs: &[Out]) {
        // SAFETY: the caller's promise.
        unsafe { outs[0].real(s.len(), |i| (s[i].sum).ln() + s[i].shift) }
    }
}

/// log-sum-exp of complex numbers, shifted by the real parts' maximum; one element at a time.
pub(crate) struct ComplexLse<T>(PhantomData<T>);

#[inline(always)]
fn join_complex(a: ScaledSum<Complex<f64>>, b: ScaledSum<Complex<f64>>) -> ScaledSum<Complex<f64>> {
    let zero = Complex::new(0.0, 0.0);
    if b.sum == zero {
        return a;
    }
    if a.sum == zero {
        return b;
    }
    add(a, b)
}

impl<T: Copy + Into<f64> + 'static> ReduceOp for ComplexLse<T> {
    type T = Complex<T>;
    type S = ScaledSum<Complex<f64>>;

    const MANY: bool = true;

    fn start() -> ScaledSum<Complex<f64>> {
        ScaledSum {
            shift: 0.0,
            sum: Complex::new(0.0, 0.0),
        }
    }

    #[inline(always)]
    unsafe fn rows<A: Arch>(
        _: &Params,
        x: *const Complex<T>,
        n: usize,
        _: i64,
        s: &mut ScaledSum<Complex<f64>>,
    ) {
        for i in 0..n {
            // SAFETY: the caller's promise.
            let z = unsafe { *x.add(i) };
            let (re, im): (f64, f64) = (z.re.into(), z.im.into());
            let shift = if re.is_finite() { re } else { 0.0 };
            *s = join_complex(
                *s,
                ScaledSum {
                    shift,
                    sum: Complex::new(re - shift, im).exp(),
                },
            );
        }
    }

    fn merge(a: ScaledSum<Complex<f64>>, b: ScaledSum<Complex<f64>>) -> ScaledSum<Complex<f64>> {
        join_complex(a, b)
    }

    unsafe fn finish(_: &Params, s: &[ScaledSum<Complex<f64>>], outs: &[Out]) {
        // SAFETY: the caller's promise.
        unsafe { outs[0].complex(s.len(), |i| s[i].sum.ln() + s[i].shift) }
    }
}
