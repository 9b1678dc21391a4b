//! The elements and indices that the loops are compiled for.

use std::ops::{Add, Div, Mul, Sub};

use half::{bf16, f16};
use num_complex::Complex;
use torsh_core::Element;

use crate::simd::Arch;

mod sealed {
    pub trait Sealed {}
    impl Sealed for i32 {}
    impl Sealed for i64 {}
}

/// An index: `i32` or `i64`. Loops rely on it that a place is the same each time, so that no other crate has indices.
pub trait Index:
    sealed::Sealed + Copy + Send + Sync + PartialEq + std::fmt::Display + 'static
{
    /// The place, which is beyond every bound where the index is negative.
    fn place(self) -> usize;
    /// The index of a place, if the type has it.
    fn of(place: usize) -> Option<Self>;
}

impl Index for i32 {
    #[inline(always)]
    fn place(self) -> usize {
        self as isize as usize
    }
    #[inline(always)]
    fn of(place: usize) -> Option<i32> {
        i32::try_from(place).ok()
    }
}

impl Index for i64 {
    #[inline(always)]
    fn place(self) -> usize {
        match usize::BITS {
            // As an unsigned number a negative one is beyond every bound, too: no slice is so long.
            64 => self as usize,
            _ => usize::try_from(self).unwrap_or(usize::MAX),
        }
    }
    #[inline(always)]
    fn of(place: usize) -> Option<i64> {
        i64::try_from(place).ok()
    }
}

/// An element, and what sums of products are computed in.
pub trait Number: Element {
    /// What sums are kept in: float32 for the half types, else the type itself.
    type Sum: Copy + Send + Sync + PartialEq + 'static;
    /// 0
    const ZERO: Self::Sum;
    /// Exactly.
    fn wide(self) -> Self::Sum;
    /// Rounded.
    fn rounded(sum: Self::Sum) -> Self;
    /// `sum + a * b`, fused where the type and the instruction set fuse; integers wrap.
    fn add_product<A: Arch>(sum: Self::Sum, a: Self::Sum, b: Self::Sum) -> Self::Sum;
    /// `a + b`; integers wrap.
    fn add(a: Self::Sum, b: Self::Sum) -> Self::Sum;
    /// `a - b`; integers wrap.
    fn sub(a: Self::Sum, b: Self::Sum) -> Self::Sum;
    /// `a / b`; of integers the quotient towards zero, and 0 where `b` is 0.
    fn div(a: Self::Sum, b: Self::Sum) -> Self::Sum;
}

macro_rules! integers {
    ($($t:ty),*) => { $(
        impl Number for $t {
            type Sum = $t;
            const ZERO: $t = 0;
            #[inline(always)]
            fn wide(self) -> $t { self }
            #[inline(always)]
            fn rounded(sum: $t) -> $t { sum }
            #[inline(always)]
            fn add_product<A: Arch>(sum: $t, a: $t, b: $t) -> $t { sum.wrapping_add(a.wrapping_mul(b)) }
            #[inline(always)]
            fn add(a: $t, b: $t) -> $t { a.wrapping_add(b) }
            #[inline(always)]
            fn sub(a: $t, b: $t) -> $t { a.wrapping_sub(b) }
            #[inline(always)]
            fn div(a: $t, b: $t) -> $t { if b == 0 { 0 } else { a.wrapping_div(b) } }
        }
    )* };
}
integers!(u8, i8, i16, i32, i64);

macro_rules! halves {
    ($($t:ty),*) => { $(
        impl Number for $t {
            type Sum = f32;
            const ZERO: f32 = 0.0;
            #[inline(always)]
            fn wide(self) -> f32 { self.to_f32() }
            #[inline(always)]
            fn rounded(sum: f32) -> $t { <$t>::from_f32(sum) }
            #[inline(always)]
            fn add_product<A: Arch>(sum: f32, a: f32, b: f32) -> f32 { crate::simd::fma32::<A>(a, b, sum) }
            #[inline(always)]
            fn add(a: f32, b: f32) -> f32 { a + b }
            #[inline(always)]
            fn sub(a: f32, b: f32) -> f32 { a - b }
            #[inline(always)]
            fn div(a: f32, b: f32) -> f32 { a / b }
        }
    )* };
}
halves!(bf16, f16);

macro_rules! floats {
    ($($t:ty, $fma:path;)*) => { $(
        impl Number for $t {
            type Sum = $t;
            const ZERO: $t = 0.0;
            #[inline(always)]
            fn wide(self) -> $t { self }
            #[inline(always)]
            fn rounded(sum: $t) -> $t { sum }
            #[inline(always)]
            fn add_product<A: Arch>(sum: $t, a: $t, b: $t) -> $t { $fma(a, b, sum) }
            #[inline(always)]
            fn add(a: $t, b: $t) -> $t { a + b }
            #[inline(always)]
            fn sub(a: $t, b: $t) -> $t { a - b }
            #[inline(always)]
            fn div(a: $t, b: $t) -> $t { a / b }
        }
    )* };
}
floats! {
    f32, crate::simd::fma32::<A>;
    f64, crate::simd::fma64::<A>;
}

macro_rules! complex {
    ($($t:ty),*) => { $(
        impl Number for Complex<$t> {
            type Sum = Complex<$t>;
            const ZERO: Complex<$t> = Complex::new(0.0, 0.0);
            #[inline(always)]
            fn wide(self) -> Self { self }
            #[inline(always)]
            fn rounded(sum: Self) -> Self { sum }
            #[inline(always)]
            fn add_product<A: Arch>(sum: Self, a: Self, b: Self) -> Self {
                let re = <$t as Number>::add_product::<A>(sum.re, a.re, b.re);
                let im = <$t as Number>::add_product::<A>(sum.im, a.re, b.im);
                Complex::new(
                    <$t as Number>::add_product::<A>(re, -a.im, b.im),
                    <$t as Number>::add_product::<A>(im, a.im, b.re),
                )
            }
            #[inline(always)]
            fn add(a: Self, b: Self) -> Self { Add::add(a, b) }
            #[inline(always)]
            fn sub(a: Self, b: Self) -> Self { Sub::sub(a, b) }
            #[inline(always)]
            fn div(a: Self, b: Self) -> Self { Div::div(a, b) }
        }
    )* };
}
complex!(f32, f64);

/// Elements that have a largest and a smallest: all but complex numbers.
pub trait Ordered: Number {
    /// The product, rounded as the type rounds.
    fn product(self, b: Self) -> Self;
    /// Whether `self` takes the place of `best` as the largest: it is larger, or the first NaN.
    fn above(self, best: Self) -> bool;
    /// Whether `self` takes the place of `best` as the smallest: it is smaller, or the first NaN.
    fn below(self, best: Self) -> bool;
}

macro_rules! ordered {
    ($($t:ty),*; $product:expr, $nan:expr) => { $(
        impl Ordered for $t {
            #[inline(always)]
            fn product(self, b: $t) -> $t { let f: fn($t, $t) -> $t = $product; f(self, b) }
            #[inline(always)]
            fn above(self, best: $t) -> bool {
                let nan: fn($t) -> bool = $nan;
                self > best || nan(self) && !nan(best)
            }
            #[inline(always)]
            fn below(self, best: $t) -> bool {
                let nan: fn($t) -> bool = $nan;
                self < best || nan(self) && !nan(best)
            }
        }
    )* };
}
ordered!(f32, f64; |a, b| Mul::mul(a, b), |a| a.is_nan());
ordered!(bf16, f16; |a, b| Number::rounded(a.wide() * b.wide()), |a| a.is_nan());
ordered!(u8, i8, i16, i32, i64; |a, b| a.wrapping_mul(b), |_| false);
