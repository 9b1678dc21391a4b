//! Logarithm of a sum of exponentials, shifted by a running maximum.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use num_complex::Complex;

use super::drive::{Params, Tile, WIDTH};
use super::fold::{self, Lanes, fold_block};
use super::load::Out;
use crate::arch::Arch;
use crate::vmath::VMath;

/// `sum * exp(shift)`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Scaled {
    shift: f64,
    sum: f64,
}

#[inline(always)]
fn join(a: Scaled, b: Scaled) -> Scaled {
    // A sum of 0 or inf has no use for its shift, and would make NaN of another's.
    if b.sum == 0.0 || a.sum == f64::INFINITY && !b.sum.is_nan() {
        return a;
    }
    if a.sum == 0.0 || b.sum == f64::INFINITY && !a.sum.is_nan() {
        return b;
    }
    let shift = a.shift.max(b.shift);
    Scaled {
        shift,
        sum: a.sum * (a.shift - shift).exp() + b.sum * (b.shift - shift).exp(),
    }
}

/// A real type with a vectorised exponential.
pub(crate) trait Real: Copy + 'static + Into<f64> + PartialOrd {
    type Max: Lanes<T = Self, L = Self>;
    const ZERO: Self;
    const LOW: Self;
    fn finite(self) -> bool;
    fn add(self, o: Self) -> Self;
    fn sub(self, o: Self) -> Self;
    fn exp<A: Arch>(self) -> Self;
}
macro_rules! real {
    ($t:ident, $max:ident, $exp:path) => {
        impl Real for $t {
            type Max = fold::$max;
            const ZERO: $t = 0.0;
            const LOW: $t = $t::NEG_INFINITY;
            #[inline(always)]
            fn finite(self) -> bool {
                self.abs() < $t::INFINITY
            }
            #[inline(always)]
            fn add(self, o: $t) -> $t {
                self + o
            }
            #[inline(always)]
            fn sub(self, o: $t) -> $t {
                self - o
            }
            #[inline(always)]
            fn exp<A: Arch>(self) -> $t {
                $exp(self)
            }
        }
    };
}
real!(f32, MaxF32, VMath::exp::<A>);
real!(f64, MaxF64, crate::softmax::exp64::<A>);

/// Sums `exp(x - m)`.
struct ExpSum<T>(PhantomData<T>);

/// log-sum-exp of real numbers.
pub(crate) struct Lse<T>(PhantomData<T>);

impl<T: Real> Tile for Lse<T> {
    type T = T;
    type S = Scaled;

    fn start() -> Scaled {
        Scaled {
            shift: 0.0,
            sum: 0.0,
        }
    }

    #[inline(always)]
    unsafe fn rows<A: Arch>(p: &Params, x: *const T, n: usize, _: i64, s: &mut Scaled) {
        // SAFETY: the caller's promise.
        unsafe {
            let top = fold_block::<A, T::Max>(p, x, n);
            let m = if top.finite() { top } else { T::ZERO };
            let sum = ExpSum::<T>::of::<A>(x, n, m);
            *s = join(
                *s,
                Scaled {
                    shift: m.into(),
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
        s: *mut Scaled,
    ) {
        let mut buffers = [const { MaybeUninit::<[T; WIDTH]>::uninit() }; 2];
        let [m, sum] = buffers.each_mut().map(|b| b.as_mut_ptr().cast::<T>());
        // SAFETY: w is at most WIDTH, and the caller promises the elements and states.
        unsafe {
            for j in 0..w {
                *m.add(j) = T::LOW;
                *sum.add(j) = T::ZERO;
            }
            for r in 0..rows {
                let y = x.offset(r as isize * stride);
                for j in 0..w {
                    *m.add(j) = fold::max(*m.add(j), *y.add(j));
                }
            }
            for j in 0..w {
                let top = *m.add(j);
                *m.add(j) = if top.finite() { top } else { T::ZERO };
            }
            for r in 0..rows {
                let y = x.offset(r as isize * stride);
                for j in 0..w {
                    *sum.add(j) = (*sum.add(j)).add((*y.add(j)).sub(*m.add(j)).exp::<A>());
                }
            }
            for j in 0..w {
                *s.add(j) = join(
                    *s.add(j),
                    Scaled {
                        shift: (*m.add(j)).into(),
                        sum: (*sum.add(j)).into(),
                    },
                );
            }
        }
    }

    fn merge(a: Scaled, b: Scaled) -> Scaled {
        join(a, b)
    }

    unsafe fn finish(_: &Params, s: &[Scaled], outs: &[Out]) {
        // SAFETY: the caller's promise.
        unsafe { outs[0].real(s.len(), |i| s[i].sum.ln() + s[i].shift) }
    }
}

impl<T: Real> ExpSum<T> {
    /// # Safety
    /// `x` must be valid for `n` reads.
    #[inline(always)]
    unsafe fn of<A: Arch>(x: *const T, n: usize, m: T) -> f64 {
        const N: usize = 32;
        let mut acc = [T::ZERO; N];
        let whole = n / N * N;
        let mut i = 0;
        while i < whole {
            for (j, a) in acc.iter_mut().enumerate() {
                // SAFETY: i + j < n.
                *a = a.add(unsafe { *x.add(i + j) }.sub(m).exp::<A>());
            }
            i += N;
        }
        let mut tail = [T::ZERO; N];
        for (j, t) in tail.iter_mut().enumerate().take(n - whole) {
            // SAFETY: whole + j < n.
            *t = unsafe { *x.add(whole + j) }.sub(m).exp::<A>();
        }
        let mut sum = 0.0;
        for (a, t) in acc.iter().zip(tail) {
            let both: f64 = a.add(t).into();
            sum += both;
        }
        sum
    }
}

/// `sum * exp(shift)` with a complex sum.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct ComplexScaled {
    shift: f64,
    sum: Complex<f64>,
}

/// log-sum-exp of complex numbers, shifted by the real parts' maximum; one element at a time.
pub(crate) struct ComplexLse<T>(PhantomData<T>);

#[inline(always)]
fn join_complex(a: ComplexScaled, b: ComplexScaled) -> ComplexScaled {
    let zero = Complex::new(0.0, 0.0);
    if b.sum == zero {
        return a;
    }
    if a.sum == zero {
        return b;
    }
    let shift = a.shift.max(b.shift);
    ComplexScaled {
        shift,
        sum: a.sum * (a.shift - shift).exp() + b.sum * (b.shift - shift).exp(),
    }
}

impl<T: Copy + Into<f64> + 'static> Tile for ComplexLse<T> {
    type T = Complex<T>;
    type S = ComplexScaled;

    fn start() -> ComplexScaled {
        ComplexScaled {
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
        s: &mut ComplexScaled,
    ) {
        for i in 0..n {
            // SAFETY: the caller's promise.
            let z = unsafe { *x.add(i) };
            let (re, im): (f64, f64) = (z.re.into(), z.im.into());
            let shift = if re.is_finite() { re } else { 0.0 };
            *s = join_complex(
                *s,
                ComplexScaled {
                    shift,
                    sum: Complex::new(re - shift, im).exp(),
                },
            );
        }
    }

    #[inline(always)]
    unsafe fn cols<A: Arch>(
        p: &Params,
        x: *const Complex<T>,
        stride: isize,
        rows: usize,
        w: usize,
        _: i64,
        s: *mut ComplexScaled,
    ) {
        for r in 0..rows {
            for j in 0..w {
                // SAFETY: the caller's promise.
                unsafe {
                    Self::rows::<A>(
                        p,
                        x.offset(r as isize * stride).add(j),
                        1,
                        0,
                        &mut *s.add(j),
                    )
                };
            }
        }
    }

    fn merge(a: ComplexScaled, b: ComplexScaled) -> ComplexScaled {
        join_complex(a, b)
    }

    unsafe fn finish(_: &Params, s: &[ComplexScaled], outs: &[Out]) {
        // SAFETY: the caller's promise.
        unsafe { outs[0].complex(s.len(), |i| s[i].sum.ln() + s[i].shift) }
    }
}
