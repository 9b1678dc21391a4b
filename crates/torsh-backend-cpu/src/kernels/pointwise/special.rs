//! Loops that are faster on whole arrays than one element at a time can be.

use super::loops::{Entry, LoopFn};
use crate::memory::element::Packed;
use crate::simd::{self, Arch, Level};
use crate::vmath::VMath;
use torsh_core::{DType, Kernel};

/// Replaces loops made of rows.
pub(crate) fn fill(all: &mut [Entry], level: Level) {
    let f32_ = DType::F32 as usize;
    all[Kernel::Sin as usize].loops[f32_] = Some(sin::at(level));
    all[Kernel::Cos as usize].loops[f32_] = Some(cos::at(level));
}

/// A float32 loop at each level.
macro_rules! float_loop {
    ($name:ident, $one:ident, $many:ident) => {
        mod $name {
            use super::*;

            #[inline(always)]
            unsafe fn body<A: Arch>(out: *mut u8, ins: *const *const u8, n: usize) {
                // SAFETY: the caller's promise: `n` elements each, the same ones or disjoint.
                unsafe {
                    let src = *ins;
                    if n == 1 || !(src as usize | out as usize).is_multiple_of(align_of::<f32>()) {
                        for i in 0..n {
                            let x = (*(src as *const Packed<f32>).add(i)).0;
                            *(out as *mut Packed<f32>).add(i) = Packed(VMath::$one::<A>(x));
                        }
                    } else {
                        <f32 as VMath>::$many::<A>(src.cast(), out.cast(), n);
                    }
                }
            }

            unsafe fn base(out: *mut u8, ins: *const *const u8, n: usize, _: *const u8) {
                // SAFETY: the caller's promise.
                unsafe { body::<simd::Base>(out, ins, n) }
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2")]
            unsafe fn avx2(out: *mut u8, ins: *const *const u8, n: usize, _: *const u8) {
                // SAFETY: the caller's promise.
                unsafe { body::<simd::Avx2>(out, ins, n) }
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(
                enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512cd,avx2,fma,f16c,bmi1,bmi2"
            )]
            unsafe fn avx512(out: *mut u8, ins: *const *const u8, n: usize, _: *const u8) {
                // SAFETY: the caller's promise.
                unsafe { body::<simd::Avx512>(out, ins, n) }
            }

            pub(super) fn at(level: Level) -> LoopFn {
                match level {
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx512 => avx512,
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx2 => avx2,
                    _ => base,
                }
            }
        }
    };
}

float_loop!(sin, sin, sin_into);
float_loop!(cos, cos, cos_into);
