//! The instructions of AVX512-BF16.

use std::arch::x86_64::*;

/// Whether the processor has the instructions.
#[cfg(feature = "unit-tests")]
pub(crate) fn is_present() -> bool {
    use std::arch::is_x86_feature_detected as has;
    has!("avx512f") && has!("avx512bf16")
}

/// Adds to each sum the products of two neighbouring numbers (VDPBF16PS).
///
/// # Safety
/// The processor must have the instructions.
#[inline(always)]
pub(crate) unsafe fn dot(sums: __m512, a: __m512i, b: __m512i) -> __m512 {
    #[cfg(feature = "unit-tests")]
    if super::by_model() {
        // SAFETY: all are 64 bytes, and any bits are valid.
        unsafe {
            let mut lanes: [f32; 16] = std::mem::transmute(sums);
            let pairs = |x: __m512i| std::mem::transmute::<__m512i, [[u16; 2]; 16]>(x);
            super::model::dots(&mut lanes, &pairs(a), &pairs(b));
            return std::mem::transmute::<[f32; 16], __m512>(lanes);
        }
    }
    // SAFETY: the caller's promise; vectors of 64 bytes.
    unsafe {
        let pairs = |x: __m512i| std::mem::transmute::<__m512i, __m512bh>(x);
        _mm512_dpbf16_ps(sums, pairs(a), pairs(b))
    }
}

/// Rounds 16 numbers (VCVTNEPS2BF16).
///
/// # Safety
/// The processor must have the instructions.
#[inline(always)]
pub(crate) unsafe fn rounded(x: __m512) -> __m256i {
    #[cfg(feature = "unit-tests")]
    if super::by_model() {
        // SAFETY: of one size, and any bits are valid.
        unsafe {
            let all = super::model::all_to_bf16(&std::mem::transmute::<__m512, [f32; 16]>(x));
            return std::mem::transmute::<[u16; 16], __m256i>(all);
        }
    }
    // SAFETY: the caller's promise; both are 32 bytes.
    unsafe { std::mem::transmute::<__m256bh, __m256i>(_mm512_cvtneps_pbh(x)) }
}

/// Rounds 32 numbers, those of `x` and then those of `y` (VCVTNE2PS2BF16).
///
/// # Safety
/// The processor must have the instructions.
#[inline(always)]
pub(crate) unsafe fn rounded_two(x: __m512, y: __m512) -> __m512i {
    #[cfg(feature = "unit-tests")]
    if super::by_model() {
        // SAFETY: of one size, and any bits are valid.
        unsafe {
            let all = [x, y]
                .map(|x| super::model::all_to_bf16(&std::mem::transmute::<__m512, [f32; 16]>(x)));
            return std::mem::transmute::<[[u16; 16]; 2], __m512i>(all);
        }
    }
    // SAFETY: the caller's promise; both are 64 bytes.
    unsafe { std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(y, x)) }
}
