//! Functions that are compiled for several instruction sets.

use super::{Level, machine};

/// Returns the level of the functions that [`multiversion!`](crate::multiversion) declares: [`machine`]'s.
///
/// ```
/// use torsh_core::machine::{level, machine};
/// assert_eq!(level(), machine().level);
/// ```
#[inline]
pub fn level() -> Level {
    #[cfg(test)]
    if let Some(level) = forced::LEVEL.get() {
        return level;
    }
    machine().level
}

/// Another level for the calling thread.
#[cfg(test)]
pub(crate) mod forced {
    use std::cell::Cell;

    thread_local! {
        pub(crate) static LEVEL: Cell<Option<super::Level>> = const { Cell::new(None) };
    }
}

/// A [`Level`] as a type parameter: what the bodies of [`multiversion!`](crate::multiversion) are written over.
///
/// ```
/// use torsh_core::machine::{Avx2, InstructionSet};
/// fn lanes<A: InstructionSet>() -> usize {
///     A::LEVEL.vector_bytes() / size_of::<f32>()
/// }
/// assert_eq!(lanes::<Avx2>(), 8);
/// ```
pub trait InstructionSet: Copy + Send + Sync + 'static {
    /// The level that the type stands for.
    const LEVEL: Level;
}

macro_rules! instruction_sets {
    ($($name:ident)*) => { $(
        #[doc = concat!(
            "[`Level::", stringify!($name), "`] as a type.\n\n```\n",
            "use torsh_core::machine::{self, InstructionSet, Level};\n",
            "assert_eq!(machine::", stringify!($name), "::LEVEL, Level::", stringify!($name), ");\n```"
        )]
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl InstructionSet for $name {
            const LEVEL: Level = Level::$name;
        }
    )* };
}
instruction_sets! { Avx512 Avx2 Neon Base }

/// Declares functions that are compiled once per [`Level`] and dispatched at run time.
///
/// ```
/// use torsh_core::machine::{InstructionSet, Level};
///
/// torsh_core::multiversion! {
///     [InstructionSet]
///     /// The sum of the squares.
///     fn squares<A>(x: &[f32]) -> f32 {
///         x.iter().map(|x| x * x).sum()
///     }
/// }
///
/// # fn main() {
/// assert_eq!(squares(&[1.0, 2.0]), 5.0);                    // picks the level
/// let f: unsafe fn(&[f32]) -> f32 = squares::select();      // chosen once
/// // SAFETY: the processor has the level that `select` gave.
/// assert_eq!(unsafe { f(&[3.0]) }, 9.0);
/// squares::at(Level::Base);                                 // for tests
/// # }
/// ```
///
/// The path in brackets is the trait that the level's parameter has: [`InstructionSet`], or one that
/// the types [`Avx512`], [`Avx2`], [`Neon`] and [`Base`] implement too.
///
/// For `name` it generates the function `name(..)`, which calls the version of
/// [`level()`], and a module `name` with `select()`, the raw
/// pointer to that version, `at(level)`, the version of the given level (of
/// the machine's level where that is lower), and `light(level)`, which gives
/// the AVX2 version in place of the one for AVX-512. Pointers are unsafe, since the
/// processor must have the level's instructions.
///
/// Rules: at module level (or the top of a file) only, since the generated
/// module reaches its surroundings with `use super::*`; parameters are plain
/// `name: type`. Type parameters, each with one bound, follow the level's, and a
/// constant one comes last: `fn name<A, T: Real, R: Row<N>; const N: u8>(..)`. In the
/// body `A` is the level. Everything the body calls must be
/// `#[inline(always)]`, closures included by being trivial: what is not inlined
/// is compiled for the baseline. Integer arithmetic on elements should be
/// `wrapping_*`: an overflow check, which debug builds have, is a branch and keeps
/// the loop scalar.
#[macro_export]
macro_rules! multiversion {
    ([$bound:path]) => {};
    (
        [$bound:path]
        $(#[$meta:meta])*
        $vis:vis fn $name:ident<$arch:ident $(, $g:ident: $of:path)* $(; const $c:ident: $ct:ty)?>($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block
        $($rest:tt)*
    ) => {
        $crate::multiversion! {
            @versions [$bound] [$(#[$meta])*] [$vis] [] $name $arch [$($g: $of,)* $(const $c: $ct)?] [$($g,)* $($c)?] ($($arg: $ty),*) [$(-> $ret)?] $body
        }
        $crate::multiversion! { [$bound] $($rest)* }
    };
    (
        [$bound:path]
        $(#[$meta:meta])*
        $vis:vis unsafe fn $name:ident<$arch:ident $(, $g:ident: $of:path)* $(; const $c:ident: $ct:ty)?>($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block
        $($rest:tt)*
    ) => {
        $crate::multiversion! {
            @versions [$bound] [$(#[$meta])*] [$vis] [unsafe] $name $arch [$($g: $of,)* $(const $c: $ct)?] [$($g,)* $($c)?] ($($arg: $ty),*) [$(-> $ret)?] $body
        }
        $crate::multiversion! { [$bound] $($rest)* }
    };
    (
        @versions [$bound:path] [$($meta:tt)*] [$vis:vis] [$($unsafe:tt)?] $name:ident $arch:ident [$($generic:tt)*] [$($g:tt)*] ($($arg:ident: $ty:ty),*) [$($ret:tt)*] $body:block
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
            $($unsafe)? fn body<$arch: $bound, $($generic)*>($($arg: $ty),*) $($ret)* $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512cd,avx2,fma,f16c,bmi1,bmi2")]
            unsafe fn avx512<$($generic)*>($($arg: $ty),*) $($ret)* {
                // SAFETY: the caller's promise.
                unsafe { body::<$crate::machine::Avx512, $($g)*>($($arg),*) }
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2")]
            unsafe fn avx2<$($generic)*>($($arg: $ty),*) $($ret)* {
                // SAFETY: the caller's promise.
                unsafe { body::<$crate::machine::Avx2, $($g)*>($($arg),*) }
            }

            #[cfg(target_arch = "aarch64")]
            unsafe fn neon<$($generic)*>($($arg: $ty),*) $($ret)* {
                // SAFETY: the caller's promise.
                unsafe { body::<$crate::machine::Neon, $($g)*>($($arg),*) }
            }

            unsafe fn base<$($generic)*>($($arg: $ty),*) $($ret)* {
                // SAFETY: the caller's promise.
                unsafe { body::<$crate::machine::Base, $($g)*>($($arg),*) }
            }

            /// The version for `level`, or for the machine's where that is lower.
            pub fn at<$($generic)*>(level: $crate::machine::Level) -> unsafe fn($($ty),*) $($ret)* {
                match level.min($crate::machine::level()) {
                    #[cfg(target_arch = "x86_64")]
                    $crate::machine::Level::Avx512 => avx512::<$($g)*>,
                    #[cfg(target_arch = "x86_64")]
                    $crate::machine::Level::Avx2 => avx2::<$($g)*>,
                    #[cfg(target_arch = "aarch64")]
                    $crate::machine::Level::Neon => neon::<$($g)*>,
                    _ => base::<$($g)*>,
                }
            }

            /// The version for `level`, or for AVX2 where that is lower: for loops that AVX-512 brings
            /// too little for the size of their code.
            pub fn light<$($generic)*>(level: $crate::machine::Level) -> unsafe fn($($ty),*) $($ret)* {
                match level.min($crate::machine::level()) {
                    #[cfg(target_arch = "x86_64")]
                    $crate::machine::Level::Avx2 | $crate::machine::Level::Avx512 => avx2::<$($g)*>,
                    #[cfg(target_arch = "aarch64")]
                    $crate::machine::Level::Neon => neon::<$($g)*>,
                    _ => base::<$($g)*>,
                }
            }

            /// The version for this machine.
            #[inline]
            pub fn select<$($generic)*>() -> unsafe fn($($ty),*) $($ret)* {
                at::<$($g)*>($crate::machine::level())
            }
        }
    };
}
