//! Run-time choice of the instruction set.
//!
//! A kernel is one loop, written once with [`multiversion!`](crate::multiversion)
//! and compiled for every [`Level`]; the widest one the machine has is picked at
//! run time. The loop itself is plain Rust that LLVM vectorises.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::matmul::lane::Lane;

/// Instruction set a loop is compiled for, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// What the target guarantees: SSE2 on x86-64, NEON on aarch64.
    Base = 1,
    /// AVX2 with FMA and F16C: 256-bit registers.
    Avx2 = 2,
    /// AVX-512 F/DQ/VL/BW/CD: 512-bit registers.
    Avx512 = 3,
}

impl Level {
    /// Every level, ascending.
    pub const ALL: [Level; 3] = [Level::Base, Level::Avx2, Level::Avx512];

    /// Whether this machine (and `TORSH_SIMD`) allows the level.
    pub fn is_available(self) -> bool {
        self <= level()
    }
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

/// Bytes of a core's second-level cache; 0 where the processor does not say. Asked once.
pub(crate) fn second_level_cache() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES.get_or_init(|| {
        #[cfg(target_arch = "x86_64")]
        for leaf in [4, 0x8000_001d] {
            use std::arch::x86_64::{__cpuid, __cpuid_count};
            if __cpuid(leaf & 0x8000_0000).eax < leaf {
                continue;
            }
            for nth in 0..8 {
                let cache = __cpuid_count(leaf, nth);
                let (kind, level) = (cache.eax & 31, cache.eax >> 5 & 7);
                if kind == 0 {
                    break;
                }
                // Not one of instructions.
                if kind != 2 && level == 2 {
                    let field = |shift: u32, bits: u32| {
                        (cache.ebx >> shift & ((1 << bits) - 1)) as usize + 1
                    };
                    return field(0, 12) * field(12, 10) * field(22, 10) * (cache.ecx as usize + 1);
                }
            }
        }
        0
    })
}

/// The processor's maker, as it says so itself; zeros on other architectures.
fn vendor() -> [u8; 12] {
    #[cfg(target_arch = "x86_64")]
    {
        let v = std::arch::x86_64::__cpuid(0);
        let all = [v.ebx, v.edx, v.ecx].map(u32::to_le_bytes);
        all.as_flattened().try_into().unwrap_or_default()
    }
    #[cfg(not(target_arch = "x86_64"))]
    [0; 12]
}

/// Whether this is one of Intel's processors.
pub(crate) fn intel() -> bool {
    static INTEL: OnceLock<bool> = OnceLock::new();
    *INTEL.get_or_init(|| vendor() == *b"GenuineIntel")
}

/// Whether the processor takes a vector of AVX-512 in two halves, as AMD's Zen 4 does: a load or a
/// store of one is two, and loops that compute little are as fast with AVX2, or faster, since what
/// fetches ahead sees twice as many accesses.
pub(crate) fn halves() -> bool {
    static HALVES: OnceLock<bool> = OnceLock::new();
    *HALVES.get_or_init(|| {
        #[cfg(target_arch = "x86_64")]
        {
            let signature = std::arch::x86_64::__cpuid(1).eax;
            let family = (signature >> 8 & 15) + (signature >> 20 & 255);
            // Zen 3 and Zen 4; the former has no such vectors.
            vendor() == *b"AuthenticAMD" && family == 0x19 && hardware() == Level::Avx512
        }
        #[cfg(not(target_arch = "x86_64"))]
        false
    })
}

/// The level for loops that do little with what they read: [`level`], or AVX2 where wider vectors are
/// two halves.
pub(crate) fn light_level() -> Level {
    match level() {
        Level::Avx512 if halves() => Level::Avx2,
        level => level,
    }
}

static LEVEL: AtomicU8 = AtomicU8::new(0);

/// The level in use: the widest one of this machine, or less where the
/// environment says `TORSH_SIMD=avx2` or `TORSH_SIMD=scalar`. Detected once.
#[inline]
pub fn level() -> Level {
    match LEVEL.load(Ordering::Relaxed) {
        1 => Level::Base,
        2 => Level::Avx2,
        3 => Level::Avx512,
        _ => detect(),
    }
}

#[cold]
fn detect() -> Level {
    let asked = match std::env::var("TORSH_SIMD").as_deref() {
        Ok("scalar") => Level::Base,
        Ok("avx2") => Level::Avx2,
        _ => Level::Avx512,
    };
    let found = hardware().min(asked);
    LEVEL.store(found as u8, Ordering::Relaxed);
    found
}

// The lists here and in `multiversion!` must name the same features.
#[cfg(target_arch = "x86_64")]
fn hardware() -> Level {
    use std::arch::is_x86_feature_detected as has;
    let avx2 = has!("avx2") && has!("fma") && has!("f16c") && has!("bmi1") && has!("bmi2");
    let avx512 = has!("avx512f")
        && has!("avx512dq")
        && has!("avx512vl")
        && has!("avx512bw")
        && has!("avx512cd");
    match (avx2, avx512) {
        (true, true) => Level::Avx512,
        (true, false) => Level::Avx2,
        _ => Level::Base,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn hardware() -> Level {
    Level::Base
}

/// Declares functions that are compiled once per [`Level`](crate::arch::Level)
/// and dispatched at run time.
///
/// ```
/// use torsh_backend_cpu::{arch::Level, multiversion, vmath::VMath};
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
/// [`level()`](crate::arch::level), and a module `name` with `select()`, the raw
/// pointer to that version, and `at(level)`, the version of the given level (of
/// the machine's level where that is lower). Pointers to a safe function are
/// safe, at the price of one more jump.
///
/// Rules: at module level (or the top of a file) only, since the generated
/// module reaches its surroundings with `use super::*`; parameters are plain
/// `name: type` with no generics; in the body `A` is the
/// [`Arch`](crate::arch::Arch). Everything the body calls must be
/// `#[inline(always)]`, closures included by being trivial: what is not inlined
/// is compiled for the baseline. Integer arithmetic on elements should be
/// `wrapping_*`: an overflow check, which debug builds have, is a branch and keeps
/// the loop scalar.
#[macro_export]
macro_rules! multiversion {
    () => {};
    (
        $(#[$meta:meta])*
        $vis:vis fn $name:ident<$arch:ident>($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block
        $($rest:tt)*
    ) => {
        $(#[$meta])*
        #[inline]
        $vis fn $name($($arg: $ty),*) $(-> $ret)? {
            $name::select()($($arg),*)
        }

        /// The versions of the function of the same name.
        #[allow(unused_imports, dead_code, clippy::too_many_arguments, clippy::missing_safety_doc)]
        $vis mod $name {
            use super::*;

            #[inline(always)]
            fn body<$arch: $crate::arch::Arch>($($arg: $ty),*) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            fn avx512($($arg: $ty),*) $(-> $ret)? {
                #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512cd,avx2,fma,f16c,bmi1,bmi2")]
                fn inner($($arg: $ty),*) $(-> $ret)? {
                    body::<$crate::arch::Avx512>($($arg),*)
                }
                // SAFETY: `at` hands this function out only where the features were detected.
                unsafe { inner($($arg),*) }
            }

            #[cfg(target_arch = "x86_64")]
            fn avx2($($arg: $ty),*) $(-> $ret)? {
                #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2")]
                fn inner($($arg: $ty),*) $(-> $ret)? {
                    body::<$crate::arch::Avx2>($($arg),*)
                }
                // SAFETY: `at` hands this function out only where the features were detected.
                unsafe { inner($($arg),*) }
            }

            fn base($($arg: $ty),*) $(-> $ret)? {
                body::<$crate::arch::Base>($($arg),*)
            }

            /// The version for `level`, or for the machine's where that is lower.
            pub fn at(level: $crate::arch::Level) -> fn($($ty),*) $(-> $ret)? {
                match level.min($crate::arch::level()) {
                    #[cfg(target_arch = "x86_64")]
                    $crate::arch::Level::Avx512 => avx512,
                    #[cfg(target_arch = "x86_64")]
                    $crate::arch::Level::Avx2 => avx2,
                    _ => base,
                }
            }

            /// The version for this machine.
            #[inline]
            pub fn select() -> fn($($ty),*) $(-> $ret)? {
                at($crate::arch::level())
            }
        }

        $crate::multiversion! { $($rest)* }
    };
    (
        $(#[$meta:meta])*
        $vis:vis unsafe fn $name:ident<$arch:ident>($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block
        $($rest:tt)*
    ) => {
        $(#[$meta])*
        #[inline]
        #[allow(clippy::too_many_arguments)]
        $vis unsafe fn $name($($arg: $ty),*) $(-> $ret)? {
            // SAFETY: the caller's promise is the one the selected version asks for.
            unsafe { $name::select()($($arg),*) }
        }

        /// The versions of the function of the same name.
        #[allow(unused_imports, dead_code, clippy::too_many_arguments, clippy::missing_safety_doc)]
        $vis mod $name {
            use super::*;

            #[inline(always)]
            #[allow(clippy::extra_unused_type_parameters)]
            unsafe fn body<$arch: $crate::arch::Arch>($($arg: $ty),*) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512cd,avx2,fma,f16c,bmi1,bmi2")]
            unsafe fn avx512($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: the caller's promise.
                unsafe { body::<$crate::arch::Avx512>($($arg),*) }
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2")]
            unsafe fn avx2($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: the caller's promise.
                unsafe { body::<$crate::arch::Avx2>($($arg),*) }
            }

            unsafe fn base($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: the caller's promise.
                unsafe { body::<$crate::arch::Base>($($arg),*) }
            }

            /// The version for `level`, or for the machine's where that is lower.
            pub fn at(level: $crate::arch::Level) -> unsafe fn($($ty),*) $(-> $ret)? {
                match level.min($crate::arch::level()) {
                    #[cfg(target_arch = "x86_64")]
                    $crate::arch::Level::Avx512 => avx512,
                    #[cfg(target_arch = "x86_64")]
                    $crate::arch::Level::Avx2 => avx2,
                    _ => base,
                }
            }

            /// The version for this machine.
            #[inline]
            pub fn select() -> unsafe fn($($ty),*) $(-> $ret)? {
                at($crate::arch::level())
            }
        }

        $crate::multiversion! { $($rest)* }
    };
}

#[cfg(test)]
mod tests {
    /// Where the system says it too.
    #[test]
    fn the_second_level_cache_is_the_systems() {
        let of = |what: &str| {
            let all = "/sys/devices/system/cpu/cpu0/cache/index2/";
            std::fs::read_to_string(format!("{all}{what}")).unwrap_or_default()
        };
        let size = of("size");
        let kibibytes = size.trim().strip_suffix('K').and_then(|n| n.parse().ok());
        if let (Some(n), "2") = (kibibytes, of("level").trim()) {
            let n: usize = n;
            let found = super::second_level_cache();
            assert!(
                found == n * 1024 || found == 0,
                "{found} bytes, not {n} KiB"
            );
        }
    }
}
