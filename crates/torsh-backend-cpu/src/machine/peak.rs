//! The processor's limits, to set a kernel's speed against: loops of nothing but multiply-adds in
//! registers, at the instruction set in use.
//!
//! Each function makes `rounds` rounds on the calling thread and says how many floating-point
//! operations these were, two for a multiply-add. The chains of multiply-adds are as many as hide
//! the latency of one.
//!
//! Intrinsics: The products of pairs of bfloat16 exist in AVX512-BF16 only.

use std::hint::black_box;

use crate::multiversion;
use crate::scalar::Real;
use crate::simd::{Arch, Level, Vector, Vectors};

/// Chains of multiply-adds, each as long as the rounds.
#[inline(always)]
unsafe fn chains<V: Vector<T: Real>, const CHAINS: usize>(rounds: usize) -> usize {
    // SAFETY: the caller is compiled for the vectors.
    unsafe {
        let (x, y) = (V::splat(V::T::c(0.999)), V::splat(V::T::c(0.001)));
        let (x, y) = black_box((x, y));
        let mut sums = black_box([V::splat(V::T::ONE); CHAINS]);
        for _ in 0..rounds {
            for s in &mut sums {
                *s = y.add_product(*s, x);
            }
        }
        black_box(&sums);
    }
    2 * CHAINS * V::N * rounds
}

/// [`chains`] in as many registers as an instruction set has.
#[inline(always)]
unsafe fn of<A: Arch, T: Vectors>(rounds: usize) -> usize {
    // SAFETY: as there.
    unsafe {
        match A::LEVEL {
            Level::Avx512 | Level::Neon => chains::<T::V<A>, 24>(rounds),
            Level::Avx2 | Level::Base => chains::<T::V<A>, 12>(rounds),
        }
    }
}

multiversion! {
    /// Multiply-adds of float32.
    pub fn f32<A>(rounds: usize) -> usize {
        // SAFETY: compiled for the level.
        unsafe { of::<A, core::primitive::f32>(rounds) }
    }
    /// Multiply-adds of float64.
    pub fn f64<A>(rounds: usize) -> usize {
        // SAFETY: as above.
        unsafe { of::<A, core::primitive::f64>(rounds) }
    }
}

/// Products of bfloat16 added up in float32, by AMX or AVX512-BF16; `None`, with nothing done,
/// where the processor has neither or `TORSH_SIMD` leaves them out.
#[cfg(target_arch = "x86_64")]
pub fn bf16(rounds: usize) -> Option<usize> {
    use crate::simd::isa;
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx512f,avx512bf16")]
    fn dots(rounds: usize) -> usize {
        let (x, y) = black_box((_mm512_set1_ps(0.999), _mm512_set1_ps(0.001)));
        // SAFETY: the processor has the instructions.
        let (a, b) = unsafe { (isa::bf16::rounded_two(y, x), isa::bf16::rounded_two(x, y)) };
        let mut sums = black_box([x; 24]);
        for _ in 0..rounds {
            for s in &mut sums {
                // SAFETY: as above.
                *s = unsafe { isa::bf16::dot(*s, a, b) };
            }
        }
        black_box(&sums);
        2 * 24 * 32 * rounds
    }

    if crate::kernels::matmul::amx_is_available() {
        // SAFETY: AMX is there.
        return Some(unsafe { crate::kernels::matmul::amx_peak(rounds) });
    }
    let there = torsh_core::machine::machine().bf16_dot;
    // SAFETY: the instructions are there.
    there.then(|| unsafe { dots(rounds) })
}

/// As on x86-64; always `None`.
#[cfg(not(target_arch = "x86_64"))]
pub fn bf16(_: usize) -> Option<usize> {
    None
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::simd::level;

    #[torsh_macros::unit_test]
    fn operations_are_counted_for_the_level() {
        let lanes = match level() {
            Level::Avx512 => 16 * 24,
            Level::Avx2 => 8 * 12,
            Level::Neon => 4 * 24,
            Level::Base => 4 * 12,
        };
        assert_eq!(f32(5), 2 * 5 * lanes);
        assert_eq!(f64(5), 5 * lanes);
        assert_eq!(bf16(0).unwrap_or(0), 0);
    }
}
