//! Vectors that are plain arrays, for processors and elements without registers of their own. LLVM makes vector
//! code of them where it can.

use num_complex::Complex;

use super::lanes::apart;
use super::{Base, FloatVector, HalfLoads, Vector, fma32, fma64};
use crate::scalar::Real;

/// An element of an array that is used as a vector.
pub trait Element: Copy + Default {
    /// `self + b`
    fn sum(self, b: Self) -> Self;
    /// `self * b`
    fn product(self, b: Self) -> Self;
    /// `self + a * b`
    fn sum_with_product(self, a: Self, b: Self) -> Self;
}

macro_rules! element {
    ($($t:ty, |$a:ident, $b:ident, $sum:ident| $fma:expr, $mul:expr, $add:expr;)*) => {$(
        impl Element for $t {
            #[inline(always)]
            fn sum(self, $b: Self) -> Self {
                let $a = self;
                $add
            }
            #[inline(always)]
            fn product(self, $b: Self) -> Self {
                let $a = self;
                $mul
            }
            #[inline(always)]
            fn sum_with_product(self, $a: Self, $b: Self) -> Self {
                let $sum = self;
                $fma
            }
        }
    )*};
}
element! {
    f32, |a, b, sum| fma32::<Base>(a, b, sum), a * b, a + b;
    f64, |a, b, sum| fma64::<Base>(a, b, sum), a * b, a + b;
    Complex<f32>, |a, b, sum| sum + a * b, a * b, a + b;
    Complex<f64>, |a, b, sum| sum + a * b, a * b, a + b;
    u64, |a, b, sum| sum.wrapping_add(a.wrapping_mul(b)), a.wrapping_mul(b), a.wrapping_add(b);
}

impl<T: Element, const N: usize> Vector for [T; N] {
    type T = T;
    const N: usize = N;

    #[inline(always)]
    unsafe fn splat(value: T) -> Self {
        [value; N]
    }
    #[inline(always)]
    unsafe fn load(from: *const T) -> Self {
        // SAFETY: the caller's promise.
        unsafe { from.cast::<Self>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut T) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<Self>().write_unaligned(self) }
    }
    #[inline(always)]
    unsafe fn add_product(mut self, a: Self, b: Self) -> Self {
        for i in 0..N {
            self[i] = self[i].sum_with_product(a[i], b[i]);
        }
        self
    }
    #[inline(always)]
    unsafe fn mul(mut self, b: Self) -> Self {
        for i in 0..N {
            self[i] = self[i].product(b[i]);
        }
        self
    }
    #[inline(always)]
    unsafe fn add(mut self, b: Self) -> Self {
        for i in 0..N {
            self[i] = self[i].sum(b[i]);
        }
        self
    }
    #[inline(always)]
    unsafe fn keep_first(mut self, n: usize) -> Self {
        for i in 0..N {
            self[i] = if i < n { self[i] } else { T::default() };
        }
        self
    }
    #[inline(always)]
    unsafe fn keep_last(mut self, n: usize) -> Self {
        for i in 0..N {
            self[i] = if i + n >= N { self[i] } else { T::default() };
        }
        self
    }
}

/// One lane: `f` of the upper half and the lower one until one is left.
#[inline(always)]
pub(super) fn halve<T: Copy, const N: usize>(mut lanes: [T; N], f: impl Fn(T, T) -> T) -> T {
    if N > 8 {
        lanes = apart(lanes);
    }
    let mut half = N / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] = f(lanes[i + half], lanes[i]);
        }
        half /= 2;
    }
    lanes[0]
}

macro_rules! each {
    ($self:ident, $other:ident, |$a:ident, $b:ident| $e:expr) => {{
        let mut all = $self;
        for i in 0..N {
            let ($a, $b) = ($self[i], $other[i]);
            all[i] = $e;
        }
        all
    }};
}

#[allow(clippy::eq_op)] // A number that differs from itself is NaN.
impl<T: Element + Real, const N: usize> FloatVector for [T; N] {
    type Mask = [bool; N];

    #[inline(always)]
    unsafe fn sub(self, b: Self) -> Self {
        each!(self, b, |x, y| x - y)
    }
    #[inline(always)]
    unsafe fn div(self, b: Self) -> Self {
        each!(self, b, |x, y| x / y)
    }
    #[inline(always)]
    unsafe fn sub_product(mut self, a: Self, b: Self) -> Self {
        for i in 0..N {
            self[i] = self[i].sum_with_product(-a[i], b[i]);
        }
        self
    }
    #[inline(always)]
    unsafe fn sqrt(self) -> Self {
        self.map(Real::sqrt)
    }
    #[inline(always)]
    unsafe fn abs(self) -> Self {
        self.map(Real::abs)
    }
    #[inline(always)]
    unsafe fn power_below(self) -> Self {
        let exponent = f64::INFINITY.to_bits();
        self.map(|x| T::c(f64::from_bits(x.to_f64().to_bits() & exponent)))
    }
    #[inline(always)]
    unsafe fn lt(self, b: Self) -> [bool; N] {
        std::array::from_fn(|i| self[i] < b[i])
    }
    #[inline(always)]
    unsafe fn eq(self, b: Self) -> [bool; N] {
        std::array::from_fn(|i| self[i] == b[i])
    }
    #[inline(always)]
    unsafe fn select(mask: [bool; N], a: Self, b: Self) -> Self {
        std::array::from_fn(|i| if mask[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    unsafe fn any(mask: [bool; N]) -> bool {
        mask.contains(&true)
    }
    #[inline(always)]
    unsafe fn add_complex_product(mut self, a: Self, b: Self) -> Self {
        for i in (0..N).step_by(2) {
            let (re, im) = (a[i], a[i + 1]);
            let first = self[i].sum_with_product(-im, b[i + 1]);
            let second = self[i + 1].sum_with_product(im, b[i]);
            self[i] = first.sum_with_product(re, b[i]);
            self[i + 1] = second.sum_with_product(re, b[i + 1]);
        }
        self
    }
    #[inline(always)]
    unsafe fn add_conjugate_product(self, mut a: Self, b: Self) -> Self {
        for i in (1..N).step_by(2) {
            a[i] = -a[i];
        }
        // SAFETY: plain numbers.
        unsafe { self.add_complex_product(a, b) }
    }
    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        each!(self, other, |x, y| if x > y { x } else { y })
    }
    #[inline(always)]
    unsafe fn min(self, other: Self) -> Self {
        each!(self, other, |x, y| if x < y { x } else { y })
    }
    #[inline(always)]
    unsafe fn max_or_nan(self, other: Self) -> Self {
        each!(self, other, |x, y| if (y > x) | (y != y) { y } else { x })
    }
    #[inline(always)]
    unsafe fn or_nan(self, v: Self) -> Self {
        each!(self, v, |x, y| if y != y { y } else { x })
    }
    #[inline(always)]
    unsafe fn any_nan(all: [Self; 4]) -> bool {
        let mut found = false;
        for v in all {
            for x in v {
                found |= x != x;
            }
        }
        found
    }
    #[inline(always)]
    unsafe fn reduce_sum(self) -> T {
        halve(self, |a, b| a + b)
    }
    #[inline(always)]
    unsafe fn reduce_max(self) -> T {
        halve(self, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    unsafe fn reduce_min(self) -> T {
        halve(self, |a, b| if a < b { a } else { b })
    }
}

impl HalfLoads for [f32; 4] {}
