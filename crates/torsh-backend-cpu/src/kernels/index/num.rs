//! The arithmetic of scatter reductions.

use half::{bf16, f16};
use num_complex::Complex;
use torsh_core::{Element, Scalar};

use crate::scalar::byte::Byte;

/// An element type with the reductions that scattering knows.
pub(crate) trait Num:
    Copy + Default + PartialEq + Send + Sync + std::fmt::Debug + 'static
{
    const ZERO: Self;
    const ONE: Self;
    /// What changes nothing it is added to: 0 would make +0 of -0.
    const NOTHING: Self = Self::ZERO;
    /// Where a maximum starts.
    const LOWEST: Self;
    /// Where a minimum starts.
    const HIGHEST: Self;
    /// The number, converted as a cast does.
    fn cast(s: Scalar) -> Self;
    fn add(self, o: Self) -> Self;
    fn mul(self, o: Self) -> Self;
    /// `self + o * a`, rounded to the half types once.
    #[inline(always)]
    fn add_scaled(self, o: Self, a: Self) -> Self {
        self.add(o.mul(a))
    }
    /// The larger; NaN wins. Complex numbers have no order, and no kernel asks.
    fn larger(self, o: Self) -> Self;
    /// The smaller; NaN wins.
    fn smaller(self, o: Self) -> Self;
    /// The quotient by a count, rounded down for integers.
    fn per(self, n: i64) -> Self;
}

fn bytes<T: Element>(s: Scalar) -> T {
    let raw = s.to_bytes(T::DTYPE);
    // SAFETY: `to_bytes` gives a valid element of `T`'s dtype in its first bytes.
    unsafe { raw.as_ptr().cast::<T>().read_unaligned() }
}

macro_rules! int {
    ($($t:ty),*) => {$(
        impl Num for $t {
            const ZERO: Self = 0;
            const ONE: Self = 1;
            const LOWEST: Self = <$t>::MIN;
            const HIGHEST: Self = <$t>::MAX;
            fn cast(s: Scalar) -> Self { bytes(s) }
            #[inline(always)]
            fn add(self, o: Self) -> Self { self.wrapping_add(o) }
            #[inline(always)]
            fn mul(self, o: Self) -> Self { self.wrapping_mul(o) }
            #[inline(always)]
            fn larger(self, o: Self) -> Self { self.max(o) }
            #[inline(always)]
            fn smaller(self, o: Self) -> Self { self.min(o) }
            #[inline(always)]
            fn per(self, n: i64) -> Self { (self as i64).div_euclid(n) as $t }
        }
    )*};
}
int!(u8, i8, i16, i32, i64);

macro_rules! float {
    ($($t:ty),*) => {$(
        impl Num for $t {
            const ZERO: Self = 0.0;
            const NOTHING: Self = -0.0;
            const ONE: Self = 1.0;
            const LOWEST: Self = <$t>::NEG_INFINITY;
            const HIGHEST: Self = <$t>::INFINITY;
            fn cast(s: Scalar) -> Self { bytes(s) }
            #[inline(always)]
            fn add(self, o: Self) -> Self { self + o }
            #[inline(always)]
            fn mul(self, o: Self) -> Self { self * o }
            #[inline(always)]
            fn larger(self, o: Self) -> Self { if o > self || o.is_nan() { o } else { self } }
            #[inline(always)]
            fn smaller(self, o: Self) -> Self { if o < self || o.is_nan() { o } else { self } }
            #[inline(always)]
            fn per(self, n: i64) -> Self { self / n as $t }
        }
    )*};
}
float!(f32, f64);

macro_rules! half {
    ($($t:ty),*) => {$(
        impl Num for $t {
            const ZERO: Self = <$t>::ZERO;
            const ONE: Self = <$t>::ONE;
            const LOWEST: Self = <$t>::NEG_INFINITY;
            const HIGHEST: Self = <$t>::INFINITY;
            fn cast(s: Scalar) -> Self { bytes(s) }
            #[inline(always)]
            fn add(self, o: Self) -> Self { <$t>::from_f32(self.to_f32() + o.to_f32()) }
            #[inline(always)]
            fn mul(self, o: Self) -> Self { <$t>::from_f32(self.to_f32() * o.to_f32()) }
            #[inline(always)]
            fn add_scaled(self, o: Self, a: Self) -> Self {
                <$t>::from_f32(self.to_f32() + o.to_f32() * a.to_f32())
            }
            #[inline(always)]
            fn larger(self, o: Self) -> Self { if o > self || o.is_nan() { o } else { self } }
            #[inline(always)]
            fn smaller(self, o: Self) -> Self { if o < self || o.is_nan() { o } else { self } }
            #[inline(always)]
            fn per(self, n: i64) -> Self { <$t>::from_f32(self.to_f32() / n as f32) }
        }
    )*};
}
half!(f16, bf16);

macro_rules! complex {
    ($($t:ty),*) => {$(
        impl Num for Complex<$t> {
            const ZERO: Self = Complex::new(0.0, 0.0);
            const NOTHING: Self = Complex::new(-0.0, -0.0);
            const ONE: Self = Complex::new(1.0, 0.0);
            const LOWEST: Self = Complex::new(<$t>::NEG_INFINITY, 0.0);
            const HIGHEST: Self = Complex::new(<$t>::INFINITY, 0.0);
            fn cast(s: Scalar) -> Self { bytes(s) }
            #[inline(always)]
            fn add(self, o: Self) -> Self { self + o }
            #[inline(always)]
            fn mul(self, o: Self) -> Self { self * o }
            #[inline(always)]
            fn larger(self, _: Self) -> Self { self }
            #[inline(always)]
            fn smaller(self, _: Self) -> Self { self }
            #[inline(always)]
            fn per(self, n: i64) -> Self { self / n as $t }
        }
    )*};
}
complex!(f32, f64);

impl Num for Byte {
    const ZERO: Self = Byte::new(false);
    const ONE: Self = Byte::new(true);
    const LOWEST: Self = Byte::new(false);
    const HIGHEST: Self = Byte::new(true);
    fn cast(s: Scalar) -> Self {
        Byte::new(s.to_bool())
    }
    #[inline(always)]
    fn add(self, o: Self) -> Self {
        Byte::new(self.get() | o.get())
    }
    #[inline(always)]
    fn mul(self, o: Self) -> Self {
        Byte::new(self.get() & o.get())
    }
    #[inline(always)]
    fn larger(self, o: Self) -> Self {
        Byte::new(self.get() | o.get())
    }
    #[inline(always)]
    fn smaller(self, o: Self) -> Self {
        Byte::new(self.get() & o.get())
    }
    #[inline(always)]
    fn per(self, _: i64) -> Self {
        self
    }
}
