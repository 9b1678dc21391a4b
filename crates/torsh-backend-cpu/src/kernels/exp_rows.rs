//! Greatest elements and sums of exponentials of rows: what softmax and cross-entropy wait for.
//!
//! The loops in lanes are for every instruction set. With AVX-512 those of float32 are in its
//! instructions, which scale by powers of 2 and leave out what lies beyond a row's end.
//!
//! Intrinsics: The exponential of a term, and of a stored element, are AVX-512's own (`vmath/exp.rs`).

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use crate::memory::stream;
use crate::scalar::Real;
use crate::simd::Arch;
#[cfg(target_arch = "x86_64")]
use crate::simd::Level;
use crate::simd::lanes::tree;
use crate::vmath::VMath;
#[cfg(target_arch = "x86_64")]
use crate::vmath::{exp_low_512, exp_term_512};

const LANES: usize = 32;

/// The greater one, `a` where `b` is nan.
#[inline(always)]
pub(crate) fn greater<T: Real>(a: T, b: T) -> T {
    if b > a { b } else { a }
}

/// A type with these loops.
pub(crate) trait ExpRows: Real {
    /// The greatest of `n` numbers, nan left out; -inf of none.
    ///
    /// # Safety
    /// `x` must be valid for `n` reads.
    #[inline(always)]
    unsafe fn top<A: Arch>(x: *const Self, n: usize) -> Self {
        // SAFETY: the caller's promise.
        unsafe { top_lanes(x, n) }
    }
    /// The sum of `exp(x - shift)` over `n` numbers, none of which is above `shift`; asks for what
    /// lies `ahead` elements further on.
    ///
    /// # Safety
    /// As [`ExpRows::top`].
    #[inline(always)]
    unsafe fn exp_sum<A: Arch>(x: *const Self, n: usize, shift: Self, ahead: usize) -> Self {
        // SAFETY: the caller's promise.
        unsafe { exp_sum_lanes::<A, Self>(x, n, shift, ahead) }
    }
}

impl ExpRows for f64 {}

impl ExpRows for f32 {
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn top<A: Arch>(x: *const f32, n: usize) -> f32 {
        // SAFETY: the caller's promise; code of this level runs where the processor has it.
        unsafe {
            match A::LEVEL {
                Level::Avx512 => top_512(x, n),
                _ => top_lanes(x, n),
            }
        }
    }
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn exp_sum<A: Arch>(x: *const f32, n: usize, shift: f32, ahead: usize) -> f32 {
        // SAFETY: as above.
        unsafe {
            match A::LEVEL {
                Level::Avx512 => {
                    exp_sum_512::<false>(x, std::ptr::null_mut(), n, shift, Some(ahead))
                }
                _ => exp_sum_lanes::<A, f32>(x, n, shift, ahead),
            }
        }
    }
}

#[inline(always)]
unsafe fn top_lanes<T: Real>(x: *const T, n: usize) -> T {
    let mut lanes = [-T::INFINITY; LANES];
    let whole = n / LANES * LANES;
    // SAFETY: the caller's promise.
    unsafe {
        let mut i = 0;
        while i < whole {
            for l in 0..LANES {
                lanes[l] = greater(lanes[l], *x.add(i + l));
            }
            i += LANES;
        }
        let tail = (whole..n).fold(lanes[0], |m, i| greater(m, *x.add(i)));
        greater(tail, tree(lanes, greater))
    }
}

#[inline(always)]
unsafe fn exp_sum_lanes<A: Arch, T: Real>(x: *const T, n: usize, shift: T, ahead: usize) -> T {
    let mut lanes = [T::ZERO; LANES];
    let whole = n / LANES * LANES;
    // SAFETY: the caller's promise.
    unsafe {
        let mut i = 0;
        while i < whole {
            stream::prefetch_all::<T, LANES>(x.wrapping_add(ahead + i));
            for l in 0..LANES {
                lanes[l] = lanes[l] + VMath::exp_raised::<A>(*x.add(i + l) - shift);
            }
            i += LANES;
        }
        if whole < n {
            // The rest as one more vector: -inf adds nothing.
            let mut rest = [-T::INFINITY; LANES];
            for (l, v) in rest[..n - whole].iter_mut().enumerate() {
                *v = *x.add(whole + l) - shift;
            }
            for l in 0..LANES {
                lanes[l] = lanes[l] + VMath::exp_raised::<A>(rest[l]);
            }
        }
    }
    tree(lanes, |a, b| a + b) * (T::ONE / T::RAISED)
}

/// Elements of a vector.
#[cfg(target_arch = "x86_64")]
const WIDE: usize = 16;
/// Vectors worked on side by side.
#[cfg(target_arch = "x86_64")]
const WAYS: usize = 4;

/// The mask of the first `n` elements of a vector.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn rest(n: usize) -> u16 {
    u16::MAX >> (WIDE - n.min(WIDE))
}

/// Up to [`WIDE`] elements, -inf in the places of the others.
///
/// # Safety
/// `x` must be valid for `n` reads; the processor has AVX-512 and the caller is compiled for it.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn load_rest(x: *const f32, n: usize) -> __m512 {
    // SAFETY: the caller's promise; what is masked out is not read.
    unsafe { _mm512_mask_loadu_ps(_mm512_set1_ps(f32::NEG_INFINITY), rest(n), x) }
}

/// # Safety
/// As [`load_rest`].
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn top_512(x: *const f32, n: usize) -> f32 {
    // SAFETY: the caller's promise.
    unsafe {
        let mut ways = [_mm512_set1_ps(f32::NEG_INFINITY); WAYS];
        let mut i = 0;
        while i + WAYS * WIDE <= n {
            for w in 0..WAYS {
                // The second one where the first is nan.
                ways[w] = _mm512_max_ps(_mm512_loadu_ps(x.add(i + w * WIDE)), ways[w]);
            }
            i += WAYS * WIDE;
        }
        while i < n {
            ways[0] = _mm512_max_ps(load_rest(x.add(i), n - i), ways[0]);
            i += WIDE;
        }
        _mm512_reduce_max_ps(_mm512_max_ps(
            _mm512_max_ps(ways[0], ways[1]),
            _mm512_max_ps(ways[2], ways[3]),
        ))
    }
}

/// The exponential to be stored, or only to be summed.
///
/// # Safety
/// The processor has AVX-512 and the caller is compiled for it.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn exp_512<const STORE: bool>(x: __m512) -> __m512 {
    // SAFETY: the caller's promise.
    unsafe {
        match STORE {
            true => exp_low_512(x),
            false => exp_term_512(x),
        }
    }
}

/// The sum of `exp(x - shift)`, which are written to `dst` if `STORE`, exact to 2 ulp each; what is
/// only summed need not be. Asks for what lies `ahead` elements further on.
///
/// # Safety
/// As [`load_rest`]; `dst`, if `STORE`, must be valid for `n` writes, and may be `x`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) unsafe fn exp_sum_512<const STORE: bool>(
    x: *const f32,
    dst: *mut f32,
    n: usize,
    shift: f32,
    ahead: Option<usize>,
) -> f32 {
    const STEP: usize = WAYS * WIDE;
    // SAFETY: the caller's promise.
    unsafe {
        let shift = _mm512_set1_ps(shift);
        let mut ways = [_mm512_setzero_ps(); WAYS];
        let mut i = 0;
        while i + STEP <= n {
            if let Some(ahead) = ahead {
                stream::prefetch_all::<f32, STEP>(x.wrapping_add(ahead + i));
            }
            for w in 0..WAYS {
                let at = i + w * WIDE;
                let e = exp_512::<STORE>(_mm512_sub_ps(_mm512_loadu_ps(x.add(at)), shift));
                ways[w] = _mm512_add_ps(ways[w], e);
                if STORE {
                    _mm512_storeu_ps(dst.add(at), e);
                }
            }
            i += STEP;
        }
        while i < n {
            let e = exp_512::<STORE>(_mm512_sub_ps(load_rest(x.add(i), n - i), shift));
            // What is beyond the end is 0, or nan where the shift is -inf, as is all else.
            ways[0] = _mm512_add_ps(ways[0], e);
            if STORE {
                _mm512_mask_storeu_ps(dst.add(i), rest(n - i), e);
            }
            i += WIDE;
        }
        _mm512_reduce_add_ps(_mm512_add_ps(
            _mm512_add_ps(ways[0], ways[1]),
            _mm512_add_ps(ways[2], ways[3]),
        ))
    }
}

/// The softmax of a row of whole cache lines, past the caches by way of `block`; asks for the next row
/// meanwhile.
///
/// # Safety
/// `x` must be valid for `n` reads, `block` and `dst`, which starts a cache line, for `n` writes; the
/// processor has AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512cd,avx2,fma,f16c,bmi1,bmi2")]
pub(crate) unsafe fn softmax_past_512(x: *const f32, block: *mut f32, dst: *mut f32, n: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let sum = exp_sum_512::<true>(x, block, n, top_512(x, n), Some(n));
        let factor = _mm512_set1_ps(1.0 / sum);
        for i in (0..n).step_by(WIDE) {
            let e = _mm512_loadu_ps(block.add(i));
            _mm512_stream_ps(dst.add(i), _mm512_mul_ps(e, factor));
        }
    }
}

/// `dst *= factor`; asks for what lies `ahead` elements further on, to be written.
///
/// # Safety
/// As [`load_rest`]; `dst` must be valid for `n` writes too.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) unsafe fn scale_512(dst: *mut f32, n: usize, factor: f32, ahead: Option<usize>) {
    // SAFETY: the caller's promise.
    unsafe {
        let factor = _mm512_set1_ps(factor);
        let mut i = 0;
        while i + WIDE <= n {
            if let Some(ahead) = ahead {
                stream::prefetch_write(dst.wrapping_add(ahead + i).cast());
            }
            let scaled = _mm512_mul_ps(_mm512_loadu_ps(dst.add(i)), factor);
            _mm512_storeu_ps(dst.add(i), scaled);
            i += WIDE;
        }
        if i < n {
            let scaled = _mm512_mul_ps(load_rest(dst.add(i), n - i), factor);
            _mm512_mask_storeu_ps(dst.add(i), rest(n - i), scaled);
        }
    }
}

#[cfg(feature = "unit-tests")]
mod tests;
