//! Variance and mean: exact moments per block, merged as Chan, Golub and LeVeque do (1979).

use std::marker::PhantomData;
use std::mem::{MaybeUninit, size_of};
use std::ops::{Add, Mul, Sub};

use num_complex::Complex;

use super::drive::{Params, RUN, ReduceOp, WIDTH};
use super::fold::{LaneFold, SumF32, SumF64};
use super::load::Out;
use crate::memory::stream;
use crate::scalar::Real;
use crate::simd::Arch;
use crate::simd::lanes;

/// Count, mean and sum of squared deviations.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Moments<N = f64> {
    n: f64,
    mean: N,
    m2: f64,
}

/// What a mean can be: real or complex.
pub(crate) trait MeanNumber:
    Copy + Add<Output = Self> + Sub<Output = Self> + Mul<f64, Output = Self>
{
    const ZERO: Self;
    const NAN: Self;
    /// The squared magnitude.
    fn square(self) -> f64;
    /// # Safety
    /// As for [`ReduceOp::finish`].
    unsafe fn write(out: &Out, n: usize, f: impl Fn(usize) -> Self);
}
impl MeanNumber for f64 {
    const ZERO: f64 = 0.0;
    const NAN: f64 = f64::NAN;
    #[inline(always)]
    fn square(self) -> f64 {
        self * self
    }
    unsafe fn write(out: &Out, n: usize, f: impl Fn(usize) -> f64) {
        // SAFETY: the caller's promise.
        unsafe { out.real(n, f) }
    }
}
impl MeanNumber for Complex<f64> {
    const ZERO: Self = Complex::new(0.0, 0.0);
    const NAN: Self = Complex::new(f64::NAN, f64::NAN);
    #[inline(always)]
    fn square(self) -> f64 {
        self.norm_sqr()
    }
    unsafe fn write(out: &Out, n: usize, f: impl Fn(usize) -> Self) {
        // SAFETY: the caller's promise.
        unsafe { out.complex(n, f) }
    }
}

impl<N: MeanNumber> Moments<N> {
    const NONE: Moments<N> = Moments {
        n: 0.0,
        mean: N::ZERO,
        m2: 0.0,
    };

    #[inline(always)]
    fn join(self, other: Moments<N>) -> Moments<N> {
        let (a, b) = (self, other);
        if a.n == 0.0 {
            return b;
        }
        if b.n == 0.0 {
            return a;
        }
        let n = a.n + b.n;
        let d = b.mean - a.mean;
        Moments {
            n,
            mean: a.mean + d * (b.n / n),
            m2: a.m2 + b.m2 + d.square() * (a.n * b.n / n),
        }
    }

    /// Writes the spread, and the mean where there is a second output.
    ///
    /// # Safety
    /// As for [`ReduceOp::finish`].
    unsafe fn finish(p: &Params, s: &[Moments<N>], outs: &[Out]) {
        // SAFETY: the caller's promise.
        unsafe {
            outs[0].real(s.len(), |i| spread(p, s[i].m2, s[i].n));
            if let Some(mean) = outs.get(1) {
                N::write(mean, s.len(), |i| {
                    if s[i].n == 0.0 { N::NAN } else { s[i].mean }
                });
            }
        }
    }
}

fn spread(p: &Params, m2: f64, n: f64) -> f64 {
    let v = m2 / (n - p.p).max(0.0);
    if p.root { v.sqrt() } else { v }
}

/// A real type whose blocks have moments.
pub(crate) trait Summed: Real {
    type Sum: LaneFold<T = Self, L = Self>;
}
impl Summed for f32 {
    type Sum = SumF32;
}
impl Summed for f64 {
    type Sum = SumF64;
}

/// Variance of real numbers; a second output takes the mean.
pub(crate) struct Var<T>(PhantomData<T>);

/// The moments of `n` numbers from the sums of `x - m` and its square: the first corrects for `m`
/// being a rounded mean.
#[inline(always)]
fn moments(n: f64, m: f64, s1: f64, s2: f64) -> Moments {
    let d = s1 / n;
    let m2 = s2 - s1 * d;
    Moments {
        n,
        mean: m + d,
        m2: if m2 < 0.0 { 0.0 } else { m2 },
    }
}

/// Whether `n` float32 squares that add up to `s2` may have overflowed, or lost digits as denormal numbers.
#[inline(always)]
fn is_extreme<T>(n: f64, s2: f64) -> bool {
    size_of::<T>() == 4 && !(n * 1e-37..=f64::from(f32::MAX)).contains(&s2)
}

/// Joins the moments of `n` numbers, which are computed in double precision.
#[cold]
#[inline(never)]
fn join_precise(s: &mut Moments, n: usize, x: impl Fn(usize) -> f64) {
    let count = n as f64;
    let m = (0..n).map(&x).sum::<f64>() / count;
    let deviations = (0..n).map(|i| x(i) - m);
    let (s1, s2) = deviations.fold((0.0, 0.0), |(a, b), d| (a + d, b + d * d));
    *s = s.join(moments(count, m, s1, s2));
}

impl<T: Summed> ReduceOp for Var<T> {
    type T = T;
    type S = Moments;

    const MANY: bool = size_of::<T>() == 8;
    const SHORT: usize = 96;

    fn start() -> Moments {
        Moments::NONE
    }

    #[inline(always)]
    unsafe fn rows<A: Arch>(p: &Params, x: *const T, n: usize, _: i64, s: &mut Moments) {
        const N: usize = 32;
        // SAFETY: the caller's promise.
        let sum = unsafe { T::Sum::block::<A>(p, x, n, false) };
        let m = T::c(sum.to_f64() / n as f64);
        let (mut s1, mut s2) = ([T::ZERO; N], [T::ZERO; N]);
        let whole = n / N * N;
        let mut i = 0;
        let fetch = n < RUN;
        while i < whole {
            if fetch {
                stream::prefetch_all::<T, N>(x.wrapping_add(stream::AHEAD / size_of::<T>() + i));
            }
            for j in 0..N {
                // SAFETY: i + j < n.
                let d = unsafe { *x.add(i + j) } - m;
                s1[j] = s1[j] + d;
                s2[j] = d.fma::<A>(d, s2[j]);
            }
            i += N;
        }
        if i < n && i > 0 {
            // The last `N` elements, but for those that are in their lanes already.
            let done = N - (n - i);
            for j in 0..N {
                // SAFETY: n - N + j < n, and N is at most n.
                let d = unsafe { *x.add(n - N + j) } - m;
                let d = if j < done { T::ZERO } else { d };
                s1[j] = s1[j] + d;
                s2[j] = d.fma::<A>(d, s2[j]);
            }
            i = n;
        }
        let (mut a, mut b) = (
            lanes::total_of(lanes::apart(s1), T::to_f64),
            lanes::total_of(lanes::apart(s2), T::to_f64),
        );
        while i < n {
            // SAFETY: i < n.
            let d = (unsafe { *x.add(i) } - m).to_f64();
            a += d;
            b += d * d;
            i += 1;
        }
        if is_extreme::<T>(n as f64, b) {
            // SAFETY: i < n.
            return join_precise(s, n, |i| unsafe { *x.add(i) }.to_f64());
        }
        *s = s.join(moments(n as f64, m.to_f64(), a, b));
    }

    #[inline(always)]
    unsafe fn cols<A: Arch>(
        _: &Params,
        x: *const T,
        stride: isize,
        rows: usize,
        w: usize,
        _: i64,
        s: *mut Moments,
    ) {
        let mut buffers = [const { MaybeUninit::<[T; WIDTH]>::uninit() }; 3];
        let [m, s1, s2] = buffers.each_mut().map(|b| b.as_mut_ptr().cast::<T>());
        let n = rows as f64;
        // SAFETY: w is at most WIDTH, and the caller promises the elements and states.
        unsafe {
            for j in 0..w {
                *s1.add(j) = T::ZERO;
            }
            for r in 0..rows {
                let y = x.offset(r as isize * stride);
                for j in 0..w {
                    *s1.add(j) = *s1.add(j) + *y.add(j);
                }
            }
            for j in 0..w {
                *m.add(j) = T::c((*s1.add(j)).to_f64() / n);
                *s1.add(j) = T::ZERO;
                *s2.add(j) = T::ZERO;
            }
            for r in 0..rows {
                let y = x.offset(r as isize * stride);
                for j in 0..w {
                    let d = *y.add(j) - *m.add(j);
                    *s1.add(j) = *s1.add(j) + d;
                    *s2.add(j) = d.fma::<A>(d, *s2.add(j));
                }
            }
            let mut extreme = false;
            for j in 0..w {
                extreme |= is_extreme::<T>(n, (*s2.add(j)).to_f64());
            }
            for j in 0..w {
                let (m, s1, s2) = (*m.add(j), *s1.add(j), *s2.add(j));
                if extreme && is_extreme::<T>(n, s2.to_f64()) {
                    join_precise(&mut *s.add(j), rows, |r| {
                        (*x.offset(r as isize * stride + j as isize)).to_f64()
                    });
                    continue;
                }
                *s.add(j) = (*s.add(j)).join(moments(n, m.to_f64(), s1.to_f64(), s2.to_f64()));
            }
        }
    }

    fn merge(a: Self::S, b: Self::S) -> Self::S {
        a.join(b)
    }

    unsafe fn finish(p: &Params, s: &[Self::S], outs: &[Out]) {
        // SAFETY: the caller's promise.
        unsafe { Moments::finish(p, s, outs) }
    }
}

/// Variance of complex numbers (a real number), one element at a time.
pub(crate) struct ComplexVar<T>(PhantomData<T>);

impl<T: Copy + Into<f64> + 'static> ReduceOp for ComplexVar<T> {
    type T = Complex<T>;
    type S = Moments<Complex<f64>>;

    const MANY: bool = true;

    fn start() -> Self::S {
        Moments::NONE
    }

    #[inline(always)]
    unsafe fn rows<A: Arch>(_: &Params, x: *const Complex<T>, n: usize, _: i64, s: &mut Self::S) {
        for i in 0..n {
            // SAFETY: the caller's promise.
            let z = unsafe { *x.add(i) };
            let z = Complex::new(z.re.into(), z.im.into());
            s.n += 1.0;
            let d = z - s.mean;
            s.mean += d / s.n;
            let e = z - s.mean;
            s.m2 += d.re * e.re + d.im * e.im;
        }
    }

    fn merge(a: Self::S, b: Self::S) -> Self::S {
        a.join(b)
    }

    unsafe fn finish(p: &Params, s: &[Self::S], outs: &[Out]) {
        // SAFETY: the caller's promise.
        unsafe { Moments::finish(p, s, outs) }
    }
}
