//! Loops that are faster on whole arrays than one element at a time can be.

use super::loops::Entry;
use crate::memory::element::Packed;
use crate::multiversion;
use crate::simd::Level;
use crate::vmath::VMath;
use torsh_core::{DType, Kernel};

/// Replaces loops made of rows.
pub(crate) fn fill(all: &mut [Entry], level: Level) {
    let f32_ = DType::F32 as usize;
    all[Kernel::Sin as usize].loops[f32_] = Some(sin::at(level));
    all[Kernel::Cos as usize].loops[f32_] = Some(cos::at(level));
}

macro_rules! float_loop {
    ($($name:ident $many:ident;)*) => {
        multiversion! {$(
            unsafe fn $name<A>(out: *mut u8, ins: *const *const u8, n: usize, _p: *const u8) {
                // SAFETY: the caller's promise: `n` elements each, the same ones or disjoint.
                unsafe {
                    let src = *ins;
                    if n == 1 || !(src as usize | out as usize).is_multiple_of(align_of::<f32>()) {
                        for i in 0..n {
                            let x = (*(src as *const Packed<f32>).add(i)).0;
                            *(out as *mut Packed<f32>).add(i) = Packed(VMath::$name::<A>(x));
                        }
                    } else {
                        <f32 as VMath>::$many::<A>(src.cast(), out.cast(), n);
                    }
                }
            }
        )*}
    };
}
float_loop! {
    sin sin_into;
    cos cos_into;
}
