//! Variance and mean: exact moments per block, merged as Chan, Golub and LeVeque do (1979).

use std::marker::PhantomData;
use std::mem::{MaybeUninit, size_of};

use num_complex::Complex;

use super::drive::{Params, RUN, Tile, WIDTH};
use super::fold::{Lanes, SumF32, SumF64};
use super::load::Out;
use crate::memory::stream;
use crate::simd::Arch;
use crate::simd::lanes;

/// Count, mean and sum of squared deviations.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Moments {
    n: f64,
    mean: f64,
    m2: f64,
}

#[inline(always)]
fn join(a: Moments, b: Moments) -> Moments {
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
        m2: a.m2 + b.m2 + d * d * (a.n * b.n / n),
    }
}

fn spread(p: &Params, m2: f64, n: f64) -> f64 {
    let v = m2 / (n - p.p).max(0.0);
    if p.root { v.sqrt() } else { v }
}

/// A real type whose blocks have moments.
pub(crate) trait Real: Copy + 'static + Into<f64> {
    type Sum: Lanes<T = Self, L = Self>;
    const ZERO: Self;
    fn of(x: f64) -> Self;
    fn add(self, o: Self) -> Self;
    fn sub(self, o: Self) -> Self;
    fn square_add<A: Arch>(self, o: Self) -> Self;
}
macro_rules! real {
    ($t:ident, $sum:ident) => {
        impl Real for $t {
            type Sum = $sum;
            const ZERO: $t = 0.0;
            #[inline(always)]
            fn of(x: f64) -> $t {
                x as $t
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
            fn square_add<A: Arch>(self, o: $t) -> $t {
                if A::FMA {
                    self.mul_add(self, o)
                } else {
                    self * self + o
                }
            }
        }
    };
}
real!(f32, SumF32);
real!(f64, SumF64);

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

impl<T: Real> Tile for Var<T> {
    type T = T;
    type S = Moments;

    const MANY: bool = size_of::<T>() == 8;
    const SHORT: usize = 96;

    fn start() -> Moments {
        Moments {
            n: 0.0,
            mean: 0.0,
            m2: 0.0,
        }
    }

    #[inline(always)]
    unsafe fn rows<A: Arch>(p: &Params, x: *const T, n: usize, _: i64, s: &mut Moments) {
        const N: usize = 32;
        // SAFETY: the caller's promise.
        let sum = unsafe { T::Sum::block::<A>(p, x, n, false) };
        let m = T::of(sum.into() / n as f64);
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
                let d = unsafe { *x.add(i + j) }.sub(m);
                s1[j] = s1[j].add(d);
                s2[j] = d.square_add::<A>(s2[j]);
            }
            i += N;
        }
        if i < n && i > 0 {
            // The last `N` elements, but for those that are in their lanes already.
            let done = N - (n - i);
            for j in 0..N {
                // SAFETY: n - N + j < n, and N is at most n.
                let d = unsafe { *x.add(n - N + j) }.sub(m);
                let d = if j < done { T::ZERO } else { d };
                s1[j] = s1[j].add(d);
                s2[j] = d.square_add::<A>(s2[j]);
            }
            i = n;
        }
        let (mut a, mut b) = (
            lanes::total_of(lanes::apart(s1), T::into),
            lanes::total_of(lanes::apart(s2), T::into),
        );
        while i < n {
            // SAFETY: i < n.
            let d: f64 = unsafe { *x.add(i) }.sub(m).into();
            a += d;
            b += d * d;
            i += 1;
        }
        *s = join(*s, moments(n as f64, m.into(), a, b));
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
                    *s1.add(j) = (*s1.add(j)).add(*y.add(j));
                }
            }
            for j in 0..w {
                *m.add(j) = T::of((*s1.add(j)).into() / n);
                *s1.add(j) = T::ZERO;
                *s2.add(j) = T::ZERO;
            }
            for r in 0..rows {
                let y = x.offset(r as isize * stride);
                for j in 0..w {
                    let d = (*y.add(j)).sub(*m.add(j));
                    *s1.add(j) = (*s1.add(j)).add(d);
                    *s2.add(j) = d.square_add::<A>(*s2.add(j));
                }
            }
            for j in 0..w {
                let new = moments(
                    n,
                    (*m.add(j)).into(),
                    (*s1.add(j)).into(),
                    (*s2.add(j)).into(),
                );
                *s.add(j) = join(*s.add(j), new);
            }
        }
    }

    fn merge(a: Moments, b: Moments) -> Moments {
        join(a, b)
    }

    unsafe fn finish(p: &Params, s: &[Moments], outs: &[Out]) {
        // SAFETY: the caller's promise.
        unsafe {
            outs[0].real(s.len(), |i| spread(p, s[i].m2, s[i].n));
            if let Some(mean) = outs.get(1) {
                mean.real(
                    s.len(),
                    |i| if s[i].n == 0.0 { f64::NAN } else { s[i].mean },
                );
            }
        }
    }
}

/// Count, mean and sum of squared absolute deviations.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct ComplexMoments {
    n: f64,
    mean: Complex<f64>,
    m2: f64,
}

/// Variance of complex numbers (a real number), one element at a time.
pub(crate) struct ComplexVar<T>(PhantomData<T>);

impl<T: Copy + Into<f64> + 'static> Tile for ComplexVar<T> {
    type T = Complex<T>;
    type S = ComplexMoments;

    const MANY: bool = true;

    fn start() -> ComplexMoments {
        ComplexMoments {
            n: 0.0,
            mean: Complex::new(0.0, 0.0),
            m2: 0.0,
        }
    }

    #[inline(always)]
    unsafe fn rows<A: Arch>(
        _: &Params,
        x: *const Complex<T>,
        n: usize,
        _: i64,
        s: &mut ComplexMoments,
    ) {
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

    #[inline(always)]
    unsafe fn cols<A: Arch>(
        p: &Params,
        x: *const Complex<T>,
        stride: isize,
        rows: usize,
        w: usize,
        _: i64,
        s: *mut ComplexMoments,
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

    fn merge(a: ComplexMoments, b: ComplexMoments) -> ComplexMoments {
        if a.n == 0.0 {
            return b;
        }
        if b.n == 0.0 {
            return a;
        }
        let n = a.n + b.n;
        let d = b.mean - a.mean;
        ComplexMoments {
            n,
            mean: a.mean + d * (b.n / n),
            m2: a.m2 + b.m2 + d.norm_sqr() * (a.n * b.n / n),
        }
    }

    unsafe fn finish(p: &Params, s: &[ComplexMoments], outs: &[Out]) {
        // SAFETY: the caller's promise.
        unsafe {
            outs[0].real(s.len(), |i| spread(p, s[i].m2, s[i].n));
            if let Some(mean) = outs.get(1) {
                let nan = Complex::new(f64::NAN, f64::NAN);
                mean.complex(s.len(), |i| if s[i].n == 0.0 { nan } else { s[i].mean });
            }
        }
    }
}
