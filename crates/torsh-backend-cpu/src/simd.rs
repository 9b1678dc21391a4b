//! Run-time choice of the instruction set.
//!
//! A kernel is one loop, written once with [`multiversion!`](crate::multiversion)
//! and compiled for every [`Level`]; the widest one the machine has is picked at
//! run time. The loop itself is plain Rust that LLVM vectorises.

pub mod array;
mod available;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub mod bytes;
#[cfg(target_arch = "x86_64")]
pub(crate) mod isa;
pub(crate) mod lanes;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(feature = "unit-tests")]
mod tests;

pub use available::{MOST_LANES, Simd, VectorWork, lanes_of, vectorized};
pub use torsh_core::machine::{Avx2, Avx512, Base, InstructionSet, Level, Neon, level};

#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::{float32x4_t, float64x2_t};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__m256, __m256d, __m512, __m512d};

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use crate::memory::stream;
use crate::scalar::Real;
use crate::vmath::VMath;

/// Compile-time side of a [`Level`]: what the generic loop bodies are written over.
pub trait Arch: InstructionSet {
    /// Whether `mul_add` is one instruction; where it is not it would be a call.
    const FMA: bool;
    /// Its widest vectors.
    type F32: HalfLoads;
    /// As above.
    type F64: FloatVector<T = f64>;
    /// Its vectors of at most 32 bytes, for short rows.
    type Short32: FloatVector<T = f32>;
    /// As above.
    type Short64: FloatVector<T = f64>;
}

macro_rules! arch {
    ($name:ident $cfg:meta, fma $fma:expr, $f32:ty, $f64:ty, $short32:ty, $short64:ty) => {
        #[cfg($cfg)]
        impl Arch for $name {
            const FMA: bool = $fma;
            type F32 = $f32;
            type F64 = $f64;
            type Short32 = $short32;
            type Short64 = $short64;
        }
    };
}
arch!(Avx512 target_arch = "x86_64", fma true, __m512, __m512d, __m256, __m256d);
arch!(Avx2 target_arch = "x86_64", fma true, __m256, __m256d, __m256, __m256d);
arch!(Neon target_arch = "aarch64", fma true, float32x4_t, float64x2_t, float32x4_t, float64x2_t);
arch!(Base all(), fma cfg!(any(target_arch = "aarch64", target_feature = "fma")), [f32; 4], [f64; 2], [f32; 4], [f64; 2]);

/// `a * b + c`: fused where the hardware fuses, two roundings elsewhere.
#[inline(always)]
pub fn fma32<A: Arch>(a: f32, b: f32, c: f32) -> f32 {
    if A::FMA { a.mul_add(b, c) } else { a * b + c }
}

/// `a * b + c`: fused where the hardware fuses, two roundings elsewhere.
#[inline(always)]
pub fn fma64<A: Arch>(a: f64, b: f64, c: f64) -> f64 {
    if A::FMA { a.mul_add(b, c) } else { a * b + c }
}

/// Read at `8 - n`: ones in the first `n` lanes of 32 bits. Read `n` places before the end of a vector that ends at
/// `16 + n`: in the last.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
static MASKS: [f32; 24] = {
    const ONES: f32 = f32::from_bits(u32::MAX);
    let mut all = [ONES; 24];
    let mut i = 8;
    while i < 16 {
        all[i] = 0.0;
        i += 1;
    }
    all
};

/// A register, or an array in place of one, of `N` elements of one type: the vocabulary of loops that LLVM does not
/// vectorise well by itself.
///
/// Every method must be inlined into a function that is compiled for the vector's instruction set, and every call
/// promises that the processor has it. [`mod@array`] implements the trait for plain arrays, which any processor has;
/// `avx2.rs`, `avx512.rs` and `neon.rs` implement it for registers.
#[allow(clippy::missing_safety_doc)] // Each says what it needs beyond the instruction set, if anything.
pub trait Vector: Copy {
    /// The elements.
    type T: Copy;
    /// How many.
    const N: usize;

    /// `value` in every lane.
    unsafe fn splat(value: Self::T) -> Self;
    /// Reads `N` elements.
    unsafe fn load(from: *const Self::T) -> Self;
    /// Writes `N` elements.
    unsafe fn store(self, to: *mut Self::T);
    /// The elements of `from` in the lanes `first..end`, those of `fill` in the others. Memory outside of the lanes
    /// is not read.
    #[inline(always)]
    unsafe fn load_part(from: *const Self::T, first: usize, end: usize, fill: Self) -> Self {
        let mut all = fill;
        // SAFETY: a vector is its elements; the caller promises that these can be read.
        unsafe {
            let to = (&raw mut all).cast::<Self::T>();
            for i in first..end {
                *to.add(i) = *from.wrapping_add(i);
            }
        }
        all
    }
    /// Writes the first `n` elements; `n` is at most `N`.
    #[inline(always)]
    unsafe fn store_first(self, n: usize, to: *mut Self::T) {
        // SAFETY: a vector is its elements; the caller promises that so many can be written.
        unsafe { std::ptr::copy_nonoverlapping((&raw const self).cast(), to, n) }
    }
    /// Writes `N` elements past the caches, to an address that is a multiple of the vector's size.
    #[inline(always)]
    unsafe fn stream(self, to: *mut Self::T) {
        // SAFETY: the caller's promise.
        unsafe { self.store(to) }
    }

    /// `self + a * b`, fused where the instruction set fuses.
    unsafe fn add_product(self, a: Self, b: Self) -> Self;
    /// `self` and the product of a term of `a` and `b`, or of all terms that one element holds.
    #[inline(always)]
    unsafe fn add_terms(self, a: Self, b: Self) -> Self {
        // SAFETY: the caller's promise.
        unsafe { self.add_product(a, b) }
    }
    /// `self * b`
    unsafe fn mul(self, b: Self) -> Self;
    /// `self + b`
    unsafe fn add(self, b: Self) -> Self;

    /// The first `n` elements, and zeros after them; `n` is at most `N`.
    unsafe fn keep_first(self, n: usize) -> Self;
    /// The last `n` elements, and zeros before them; `n` is at most `N`.
    unsafe fn keep_last(self, n: usize) -> Self;
    /// The elements in even lanes of `self` followed by `next`, and those in odd ones.
    #[inline(always)]
    unsafe fn deinterleave(self, next: Self) -> [Self; 2] {
        let mut parts = [self, next];
        // SAFETY: two vectors are twice as many elements.
        unsafe {
            let (from, to) = ([self, next], (&raw mut parts).cast::<Self::T>());
            let from = (&raw const from).cast::<Self::T>();
            for i in 0..Self::N {
                *to.add(i) = *from.add(2 * i);
                *to.add(Self::N + i) = *from.add(2 * i + 1);
            }
        }
        parts
    }
    /// The lanes of `self` and `next` in turn: what [`deinterleave`](Self::deinterleave) takes apart.
    #[inline(always)]
    unsafe fn interleave(self, next: Self) -> [Self; 2] {
        let mut all = [self, next];
        // SAFETY: two vectors are twice as many elements.
        unsafe {
            let (from, to) = ([self, next], (&raw mut all).cast::<Self::T>());
            let from = (&raw const from).cast::<Self::T>();
            for i in 0..Self::N {
                *to.add(2 * i) = *from.add(i);
                *to.add(2 * i + 1) = *from.add(Self::N + i);
            }
        }
        all
    }
    /// The lanes in the other direction.
    #[inline(always)]
    unsafe fn reversed(self) -> Self {
        let mut all = self;
        // SAFETY: a vector is its elements.
        unsafe {
            let (from, to) = (
                (&raw const self).cast::<Self::T>(),
                (&raw mut all).cast::<Self::T>(),
            );
            for i in 0..Self::N {
                *to.add(i) = *from.add(Self::N - 1 - i);
            }
        }
        all
    }
    /// The elements in even lanes of `self`, then those in odd lanes of `odd`.
    #[inline(always)]
    unsafe fn even_then_odd(self, odd: Self) -> Self {
        let mut all = self;
        // SAFETY: a vector is its elements.
        unsafe {
            let (even, odd) = (
                (&raw const self).cast::<Self::T>(),
                (&raw const odd).cast::<Self::T>(),
            );
            let to = (&raw mut all).cast::<Self::T>();
            for i in 0..Self::N {
                *to.add(i) = match 2 * i < Self::N {
                    true => *even.add(2 * i),
                    false => *odd.add(2 * i - Self::N + 1),
                };
            }
        }
        all
    }
    /// The elements of `self` followed by `next` from lane `K` on, which is 1 or 2.
    #[inline(always)]
    unsafe fn shifted<const K: i32>(self, next: Self) -> Self {
        let both = [self, next];
        // SAFETY: two vectors are twice as many elements.
        unsafe { Self::load((&raw const both).cast::<Self::T>().add(K as usize)) }
    }
    /// The last element of `before`, then all of `self` but the last.
    #[inline(always)]
    unsafe fn shifted_in(self, before: Self) -> Self {
        let both = [before, self];
        // SAFETY: two vectors are twice as many elements.
        unsafe { Self::load((&raw const both).cast::<Self::T>().add(Self::N - 1)) }
    }
    /// The transpose of the square whose rows these are; `K` is `N`.
    #[inline(always)]
    unsafe fn transpose<const K: usize>(mut rows: [Self; K]) -> [Self; K] {
        debug_assert!(Self::N == K && K.is_power_of_two());
        // Each step takes the elements in even places of the whole square first, then those in odd ones: as many
        // steps as a row's index has bits exchange it with the column's.
        for _ in 0..K.trailing_zeros() {
            let before = rows;
            for i in 0..K / 2 {
                // SAFETY: the caller's promise.
                [rows[i], rows[K / 2 + i]] =
                    unsafe { before[2 * i].deinterleave(before[2 * i + 1]) };
            }
        }
        rows
    }

    /// Prefetches the cache line of any address into L1.
    #[inline(always)]
    unsafe fn prefetch_l1(at: *const Self::T) {
        stream::prefetch(at.cast());
    }
    /// Prefetches the cache line of any address into L2.
    #[inline(always)]
    unsafe fn prefetch_l2(at: *const Self::T) {
        stream::prefetch_second(at.cast());
    }
}

/// A [`Vector`] of floating-point numbers.
#[allow(clippy::missing_safety_doc)] // As above.
pub trait FloatVector: Vector<T: Real> {
    /// A choice for each lane: the result of a comparison.
    type Mask: Copy;

    /// `self - b`
    unsafe fn sub(self, b: Self) -> Self;
    /// `self / b`
    unsafe fn div(self, b: Self) -> Self;
    /// `self - a * b`, fused where the instruction set fuses.
    unsafe fn sub_product(self, a: Self, b: Self) -> Self;
    /// The square root.
    unsafe fn sqrt(self) -> Self;
    /// The magnitude.
    unsafe fn abs(self) -> Self;
    /// The largest power of two that is at most a positive normal number.
    unsafe fn power_below(self) -> Self;
    /// `self < b`, which is false where one is NaN.
    unsafe fn lt(self, b: Self) -> Self::Mask;
    /// `self == b`, which is false where one is NaN.
    unsafe fn eq(self, b: Self) -> Self::Mask;
    /// `a` where `mask` is true, else `b`.
    unsafe fn select(mask: Self::Mask, a: Self, b: Self) -> Self;
    /// Whether `mask` is true for a lane.
    unsafe fn any(mask: Self::Mask) -> bool;
    /// `self + a * b` of complex numbers, whose real parts are in even lanes and imaginary parts behind them.
    unsafe fn add_complex_product(self, a: Self, b: Self) -> Self;
    /// `self + conj(a) * b` of complex numbers.
    unsafe fn add_conjugate_product(self, a: Self, b: Self) -> Self;
    /// The larger of each two; `other`'s where they are equal or one is NaN.
    unsafe fn max(self, other: Self) -> Self;
    /// The smaller of each two; `other`'s where they are equal or one is NaN.
    unsafe fn min(self, other: Self) -> Self;
    /// The larger of each two, NaN where one is; `self`'s where they are equal.
    unsafe fn max_or_nan(self, other: Self) -> Self;
    /// NaN where `v` is NaN, else `self`'s.
    unsafe fn or_nan(self, v: Self) -> Self;
    /// Whether a lane of any of the four is NaN.
    unsafe fn any_nan(all: [Self; 4]) -> bool;
    /// e to the power of numbers that are not above 0 by more than rounding, or NaN.
    #[inline(always)]
    unsafe fn exp_nonpositive<A: Arch>(self) -> Self {
        let mut all = self;
        // SAFETY: a vector is its elements.
        unsafe {
            let at = (&raw mut all).cast::<Self::T>();
            for i in 0..Self::N {
                *at.add(i) = VMath::exp_low::<A>(*at.add(i));
            }
        }
        all
    }
    /// The sum of the lanes: the upper half is added to the lower one until one is left.
    unsafe fn reduce_sum(self) -> Self::T;
    /// The sums of four vectors, each as [`reduce_sum`](Self::reduce_sum) gives it.
    #[inline(always)]
    unsafe fn reduce_sums([a, b, c, d]: [Self; 4]) -> [Self::T; 4] {
        // SAFETY: the caller's promise.
        unsafe {
            [
                a.reduce_sum(),
                b.reduce_sum(),
                c.reduce_sum(),
                d.reduce_sum(),
            ]
        }
    }
    /// The largest of the lanes, in the order of [`reduce_sum`](Self::reduce_sum), by [`max`](Self::max) of the upper
    /// half and the lower one.
    unsafe fn reduce_max(self) -> Self::T;
    /// [`reduce_max`](Self::reduce_max) of the smallest.
    unsafe fn reduce_min(self) -> Self::T;
}

/// A vector of float32 that reads half types.
#[allow(clippy::missing_safety_doc)] // As above.
pub trait HalfLoads: FloatVector<T = f32> {
    /// Reads `N` numbers of bfloat16.
    #[inline(always)]
    unsafe fn load_bf16(from: *const bf16) -> Self {
        let mut all = [0.0; 16];
        // SAFETY: the caller's promise; no vector is longer.
        unsafe {
            for i in 0..Self::N {
                all[i] = f32::from_bits(u32::from((*from.add(i)).to_bits()) << 16);
            }
            Self::load(all.as_ptr())
        }
    }
    /// Reads `N` numbers of float16.
    #[inline(always)]
    unsafe fn load_f16(from: *const f16) -> Self {
        let mut all = [0.0; 16];
        // SAFETY: as above.
        unsafe {
            std::slice::from_raw_parts(from, Self::N).convert_to_f32_slice(&mut all[..Self::N]);
            Self::load(all.as_ptr())
        }
    }
}

/// Numbers of which every instruction set has vectors.
pub trait Vectors: Real {
    /// The widest of an instruction set.
    type V<A: Arch>: FloatVector<T = Self>;
    /// Those of at most 32 bytes.
    type Short<A: Arch>: FloatVector<T = Self>;
}
impl Vectors for f32 {
    type V<A: Arch> = A::F32;
    type Short<A: Arch> = A::Short32;
}
impl Vectors for f64 {
    type V<A: Arch> = A::F64;
    type Short<A: Arch> = A::Short64;
}

/// Declares functions that are compiled once per [`Level`] and dispatched at run time: torsh-core's
/// [`multiversion!`](torsh_core::multiversion), which has the rules, with [`Arch`](crate::simd::Arch) as the trait of
/// the level's parameter.
///
/// ```
/// use torsh_backend_cpu::{simd::Level, multiversion, vmath::VMath};
///
/// multiversion! {
///     /// `dst[i] = exp(src[i])` over the shorter of the two.
///     pub fn exp_f32<A>(src: &[f32], dst: &mut [f32]) {
///         for (d, &s) in dst.iter_mut().zip(src) {
///             *d = VMath::exp::<A>(s);
///         }
///     }
///
///     /// Sum of `n` values.
///     ///
///     /// # Safety
///     /// `src` must be valid for `n` reads.
///     pub unsafe fn sum_f32<A>(src: *const f32, n: usize) -> f32 {
///         let mut lanes = [0.0f32; 16];
///         for i in 0..n {
///             // SAFETY: the caller's promise.
///             lanes[i % 16] += unsafe { *src.add(i) };
///         }
///         lanes.iter().sum()
///     }
/// }
///
/// # fn main() {
/// let mut y = [0.0; 2];
/// exp_f32(&[0.0, 1.0], &mut y);                       // picks the level
/// assert_eq!(y, [1.0, 1.0f32.exp()]);
/// let f: unsafe fn(*const f32, usize) -> f32 = sum_f32::select(); // chosen once
/// // SAFETY: two values are there.
/// assert_eq!(unsafe { f(y.as_ptr(), 2) }, y[0] + y[1]);
/// sum_f32::at(Level::Base);                           // for tests
/// # }
/// ```
#[macro_export]
macro_rules! multiversion {
    ($($functions:tt)*) => {
        ::torsh_core::multiversion! { [$crate::simd::Arch] $($functions)* }
    };
}
