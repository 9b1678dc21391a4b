//! Generic loops compiled once per instruction set: [`multiversion!`](crate::multiversion) for
//! functions with a type parameter.

/// Declares `unsafe fn name<A: Arch, G: Bound>(..)`, compiled for every level, as a module with
/// `table::<G>()`, the versions in the order of [`Level`](crate::simd::Level).
macro_rules! by_level {
    (
        $(#[$meta:meta])*
        fn $name:ident<$arch:ident, $g:ident: $bound:ident>($($arg:ident: $ty:ty),* $(,)?) $body:block
    ) => {
        $(#[$meta])*
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            #[inline(always)]
            unsafe fn body<$arch: crate::simd::Arch, $g: $bound>($($arg: $ty),*) $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512cd,avx2,fma,f16c,bmi1,bmi2")]
            unsafe fn avx512<$g: $bound>($($arg: $ty),*) {
                // SAFETY: the caller's promise.
                unsafe { body::<crate::simd::Avx512, $g>($($arg),*) }
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2")]
            unsafe fn avx2<$g: $bound>($($arg: $ty),*) {
                // SAFETY: the caller's promise.
                unsafe { body::<crate::simd::Avx2, $g>($($arg),*) }
            }

            #[cfg(target_arch = "aarch64")]
            unsafe fn neon<$g: $bound>($($arg: $ty),*) {
                // SAFETY: the caller's promise.
                unsafe { body::<crate::simd::Neon, $g>($($arg),*) }
            }

            unsafe fn base<$g: $bound>($($arg: $ty),*) {
                // SAFETY: the caller's promise.
                unsafe { body::<crate::simd::Base, $g>($($arg),*) }
            }

            /// The versions, ascending.
            #[allow(clippy::type_complexity)]
            pub(super) const fn table<$g: $bound>() -> [unsafe fn($($ty),*); 4] {
                #[cfg(target_arch = "x86_64")]
                return [base::<$g>, base::<$g>, avx2::<$g>, avx512::<$g>];
                #[cfg(target_arch = "aarch64")]
                return [base::<$g>, neon::<$g>, neon::<$g>, neon::<$g>];
                #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
                return [base::<$g>; 4];
            }
        }
    };
}
pub(crate) use by_level;

/// The index into a `table` for this machine; only then are the versions safe to call.
#[inline]
pub(crate) fn index() -> usize {
    crate::simd::level() as usize - 1
}

/// [`index`] for loops that do little with what they read.
#[inline]
pub(crate) fn light_index() -> usize {
    torsh_core::machine::machine().light_level() as usize - 1
}
