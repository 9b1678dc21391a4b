//! The processor's limits, to set a kernel's speed against: loops of nothing but multiply-adds in
//! registers, at the instruction set in use ([`level`]).
//!
//! Each function makes `rounds` rounds on the calling thread and says how many floating-point
//! operations these were, two for a multiply-add. The chains of multiply-adds are as many as hide
//! the latency of one. Intrinsics, since what LLVM makes of plain arrays differs from width to
//! width, and a limit must be the limit.

use std::hint::black_box;

#[cfg(target_arch = "x86_64")]
use crate::simd::{Level, level};

/// One loop over `$chains` vectors of `$lanes`.
#[cfg(target_arch = "x86_64")]
macro_rules! vectors {
    ($name:ident $features:literal $chains:literal $lanes:literal $set:ident $fma:ident) => {
        #[target_feature(enable = $features)]
        fn $name(rounds: usize) -> usize {
            use std::arch::x86_64::*;
            let (x, y) = black_box(($set(0.999), $set(0.001)));
            let mut sums = black_box([$set(1.0); $chains]);
            for _ in 0..rounds {
                for s in &mut sums {
                    *s = $fma(*s, x, y);
                }
            }
            black_box(&sums);
            2 * $chains * $lanes * rounds
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::*;
    use crate::simd::isa;

    vectors!(avx2_f32 "avx2,fma" 12 8 _mm256_set1_ps _mm256_fmadd_ps);
    vectors!(avx2_f64 "avx2,fma" 12 4 _mm256_set1_pd _mm256_fmadd_pd);
    vectors!(avx512_f32 "avx512f" 24 16 _mm512_set1_ps _mm512_fmadd_ps);
    vectors!(avx512_f64 "avx512f" 24 8 _mm512_set1_pd _mm512_fmadd_pd);

    #[target_feature(enable = "avx512f,avx512bf16")]
    fn avx512_bf16(rounds: usize) -> usize {
        use std::arch::x86_64::*;
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

    pub fn f32(rounds: usize) -> Option<usize> {
        match level() {
            // SAFETY: the level is there.
            Level::Avx512 => Some(unsafe { avx512_f32(rounds) }),
            // SAFETY: the level is there.
            Level::Avx2 => Some(unsafe { avx2_f32(rounds) }),
            Level::Base => None,
        }
    }

    pub fn f64(rounds: usize) -> Option<usize> {
        match level() {
            // SAFETY: the level is there.
            Level::Avx512 => Some(unsafe { avx512_f64(rounds) }),
            // SAFETY: the level is there.
            Level::Avx2 => Some(unsafe { avx2_f64(rounds) }),
            Level::Base => None,
        }
    }

    pub fn bf16(rounds: usize) -> Option<usize> {
        if crate::kernels::matmul::amx_is_available() {
            // SAFETY: the unit is there.
            return Some(unsafe { crate::kernels::matmul::amx_peak(rounds) });
        }
        let there = torsh_core::machine::machine().bf16_dot;
        // SAFETY: the instructions are there.
        there.then(|| unsafe { avx512_bf16(rounds) })
    }
}

/// The same in plain Rust, for 128-bit registers.
macro_rules! plain {
    ($name:ident $t:ty, $lanes:literal) => {
        fn $name(rounds: usize) -> usize {
            const CHAINS: usize = if cfg!(target_arch = "aarch64") {
                24
            } else {
                12
            };
            let (x, y) = black_box(([0.999 as $t; $lanes], [0.001 as $t; $lanes]));
            let mut sums = black_box([[1.0 as $t; $lanes]; CHAINS]);
            for _ in 0..rounds {
                for s in &mut sums {
                    for i in 0..$lanes {
                        s[i] = match cfg!(target_arch = "aarch64") {
                            true => s[i].mul_add(x[i], y[i]),
                            false => s[i] * x[i] + y[i],
                        };
                    }
                }
            }
            black_box(&sums);
            2 * CHAINS * $lanes * rounds
        }
    };
}
plain!(plain_f32 f32, 4);
plain!(plain_f64 f64, 2);

/// Multiply-adds of float32.
pub fn f32(rounds: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    if let Some(n) = x86::f32(rounds) {
        return n;
    }
    plain_f32(rounds)
}

/// Multiply-adds of float64.
pub fn f64(rounds: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    if let Some(n) = x86::f64(rounds) {
        return n;
    }
    plain_f64(rounds)
}

/// Products of bfloat16 added up in float32, by AMX or AVX512-BF16; `None`, with nothing done,
/// where the processor has neither or `TORSH_SIMD` leaves them out.
pub fn bf16(rounds: usize) -> Option<usize> {
    #[cfg(target_arch = "x86_64")]
    return x86::bf16(rounds);
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = rounds;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Level, level};

    #[test]
    fn operations_are_counted_for_the_level() {
        let lanes = match level() {
            Level::Avx512 => 16 * 24,
            Level::Avx2 => 8 * 12,
            Level::Base if cfg!(target_arch = "aarch64") => 4 * 24,
            Level::Base => 4 * 12,
        };
        assert_eq!(f32(5), 2 * 5 * lanes);
        assert_eq!(f64(5), 5 * lanes);
        assert_eq!(bf16(0).unwrap_or(0), 0);
        assert_eq!((plain_f32(0), plain_f64(0)), (0, 0));
    }
}
