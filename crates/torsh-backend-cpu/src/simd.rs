//! Run-time choice of the instruction set.
//!
//! A kernel is one loop, written once with [`multiversion!`](crate::multiversion)
//! and compiled for every [`Level`]; the widest one the machine has is picked at
//! run time. The loop itself is plain Rust that LLVM vectorises.

#[cfg(target_arch = "x86_64")]
pub(crate) mod isa;
pub(crate) mod lane;
pub(crate) mod lanes;
pub(crate) mod shuffle;

pub use torsh_core::machine::Level;
use torsh_core::machine::machine;

use crate::simd::lane::Lane;

/// The level in use: [`machine`]'s.
#[inline]
pub fn level() -> Level {
    machine().level
}

/// Compile-time side of a [`Level`]: what the generic loop bodies are written over.
pub trait Arch: Copy + Send + Sync + 'static {
    /// Whether `mul_add` is one instruction; where it is not it would be a call.
    const FMA: bool;
    /// The level this type stands for.
    const LEVEL: Level;
    /// Its widest vectors.
    type F32: Lane<T = f32>;
    /// As above.
    type F64: Lane<T = f64>;
}

/// AVX-512: see [`Level::Avx512`].
#[derive(Clone, Copy, Debug)]
pub struct Avx512;
/// AVX2 and FMA: see [`Level::Avx2`].
#[derive(Clone, Copy, Debug)]
pub struct Avx2;
/// The target's baseline: see [`Level::Base`].
#[derive(Clone, Copy, Debug)]
pub struct Base;

impl Arch for Avx512 {
    const FMA: bool = true;
    const LEVEL: Level = Level::Avx512;
    #[cfg(target_arch = "x86_64")]
    type F32 = std::arch::x86_64::__m512;
    #[cfg(target_arch = "x86_64")]
    type F64 = std::arch::x86_64::__m512d;
    #[cfg(not(target_arch = "x86_64"))]
    type F32 = [f32; 4];
    #[cfg(not(target_arch = "x86_64"))]
    type F64 = [f64; 2];
}
impl Arch for Avx2 {
    const FMA: bool = true;
    const LEVEL: Level = Level::Avx2;
    #[cfg(target_arch = "x86_64")]
    type F32 = std::arch::x86_64::__m256;
    #[cfg(target_arch = "x86_64")]
    type F64 = std::arch::x86_64::__m256d;
    #[cfg(not(target_arch = "x86_64"))]
    type F32 = [f32; 4];
    #[cfg(not(target_arch = "x86_64"))]
    type F64 = [f64; 2];
}
impl Arch for Base {
    const FMA: bool = cfg!(any(target_arch = "aarch64", target_feature = "fma"));
    const LEVEL: Level = Level::Base;
    type F32 = [f32; 4];
    type F64 = [f64; 2];
}

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

/// Declares functions that are compiled once per [`Level`](crate::simd::Level)
/// and dispatched at run time.
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
///
/// For `name` it generates the function `name(..)`, which calls the version of
/// [`level()`](crate::simd::level), and a module `name` with `select()`, the raw
/// pointer to that version, `at(level)`, the version of the given level (of
/// the machine's level where that is lower), and `light(level)`, which gives
/// the AVX2 version in place of the one for AVX-512. Pointers are unsafe, since the
/// processor must have the level's instructions.
///
/// Rules: at module level (or the top of a file) only, since the generated
/// module reaches its surroundings with `use super::*`; parameters are plain
/// `name: type`. Type parameters, each with one bound, follow the level's, and a
/// constant one comes last: `fn name<A, T: Real, R: Row<N>; const N: u8>(..)`. In the
/// body `A` is the [`Arch`](crate::simd::Arch). Everything the body calls must be
/// `#[inline(always)]`, closures included by being trivial: what is not inlined
/// is compiled for the baseline. Integer arithmetic on elements should be
/// `wrapping_*`: an overflow check, which debug builds have, is a branch and keeps
/// the loop scalar.
#[macro_export]
macro_rules! multiversion {
    () => {};
    (
        $(#[$meta:meta])*
        $vis:vis fn $name:ident<$arch:ident $(, $g:ident: $bound:path)* $(; const $c:ident: $ct:ty)?>($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block
        $($rest:tt)*
    ) => {
        $crate::multiversion! {
            @versions [$(#[$meta])*] [$vis] [] $name $arch [$($g: $bound,)* $(const $c: $ct)?] [$($g,)* $($c)?] ($($arg: $ty),*) [$(-> $ret)?] $body
        }
        $crate::multiversion! { $($rest)* }
    };
    (
        $(#[$meta:meta])*
        $vis:vis unsafe fn $name:ident<$arch:ident $(, $g:ident: $bound:path)* $(; const $c:ident: $ct:ty)?>($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block
        $($rest:tt)*
    ) => {
        $crate::multiversion! {
            @versions [$(#[$meta])*] [$vis] [unsafe] $name $arch [$($g: $bound,)* $(const $c: $ct)?] [$($g,)* $($c)?] ($($arg: $ty),*) [$(-> $ret)?] $body
        }
        $crate::multiversion! { $($rest)* }
    };
    (
        @versions [$($meta:tt)*] [$vis:vis] [$($unsafe:tt)?] $name:ident $arch:ident [$($generic:tt)*] [$($g:tt)*] ($($arg:ident: $ty:ty),*) [$($ret:tt)*] $body:block
    ) => {
        $($meta)*
        #[inline]
        #[allow(dead_code, reason = "some are only asked for their versions")]
        #[allow(clippy::too_many_arguments)]
        $vis $($unsafe)? fn $name<$($generic)*>($($arg: $ty),*) $($ret)* {
            // SAFETY: the machine has the version's instructions; the rest is the caller's promise.
            unsafe { $name::select::<$($g)*>()($($arg),*) }
        }

        /// The versions of the function of the same name.
        #[allow(
            unused_imports, unused_unsafe, dead_code,
            clippy::extra_unused_type_parameters, clippy::missing_safety_doc, clippy::too_many_arguments, clippy::type_complexity
        )]
        $vis mod $name {
            use super::*;

            #[inline(always)]
            $($unsafe)? fn body<$arch: $crate::simd::Arch, $($generic)*>($($arg: $ty),*) $($ret)* $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512cd,avx2,fma,f16c,bmi1,bmi2")]
            unsafe fn avx512<$($generic)*>($($arg: $ty),*) $($ret)* {
                // SAFETY: the caller's promise.
                unsafe { body::<$crate::simd::Avx512, $($g)*>($($arg),*) }
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2")]
            unsafe fn avx2<$($generic)*>($($arg: $ty),*) $($ret)* {
                // SAFETY: the caller's promise.
                unsafe { body::<$crate::simd::Avx2, $($g)*>($($arg),*) }
            }

            unsafe fn base<$($generic)*>($($arg: $ty),*) $($ret)* {
                // SAFETY: the caller's promise.
                unsafe { body::<$crate::simd::Base, $($g)*>($($arg),*) }
            }

            /// The version for `level`, or for the machine's where that is lower.
            pub fn at<$($generic)*>(level: $crate::simd::Level) -> unsafe fn($($ty),*) $($ret)* {
                match level.min($crate::simd::level()) {
                    #[cfg(target_arch = "x86_64")]
                    $crate::simd::Level::Avx512 => avx512::<$($g)*>,
                    #[cfg(target_arch = "x86_64")]
                    $crate::simd::Level::Avx2 => avx2::<$($g)*>,
                    _ => base::<$($g)*>,
                }
            }

            /// The version for `level`, or for AVX2 where that is lower: for loops that AVX-512 brings
            /// too little for the size of their code.
            pub fn light<$($generic)*>(level: $crate::simd::Level) -> unsafe fn($($ty),*) $($ret)* {
                match level.min($crate::simd::level()) {
                    #[cfg(target_arch = "x86_64")]
                    $crate::simd::Level::Avx2 | $crate::simd::Level::Avx512 => avx2::<$($g)*>,
                    _ => base::<$($g)*>,
                }
            }

            /// The version for this machine.
            #[inline]
            pub fn select<$($generic)*>() -> unsafe fn($($ty),*) $($ret)* {
                at::<$($g)*>($crate::simd::level())
            }
        }
    };
}
