//! Adam's step with AVX-512, whose loop would spend two thirds of its time in the processor's only
//! divider: the root comes from an estimate, and so does the quotient by a number that is the same
//! for all elements. Both are correctly rounded, so the results are those of the row.
//!
//! Intrinsics: Estimates of reciprocal roots differ between instruction sets.

use std::arch::x86_64::*;

use torsh_core::steps::numbers::AdamStep;

use super::{StepNumbers, StepOperands};

/// The roots that are computed here: of 0 and of numbers between these, for which nothing on the
/// way is too large or too small.
const LEAST: f32 = f32::from_bits((127 - 96) << 23);
const MOST: f32 = f32::from_bits((127 + 96) << 23);

/// The square root of [`LEAST`] to [`MOST`] or 0, where `there` has no bit, correctly rounded.
#[inline]
#[target_feature(enable = "avx512f")]
fn root(x: __m512, there: __mmask16) -> __m512 {
    let half = _mm512_set1_ps(0.5);
    let estimate = _mm512_maskz_rsqrt14_ps(there, x);
    // A step of Newton's method for the root and for half of its reciprocal, then the root's error.
    let (s, h) = (_mm512_mul_ps(x, estimate), _mm512_mul_ps(half, estimate));
    let error = _mm512_fnmadd_ps(s, h, half);
    let (s, h) = (_mm512_fmadd_ps(s, error, s), _mm512_fmadd_ps(h, error, h));
    let rest = _mm512_fnmadd_ps(s, s, x);
    _mm512_fmadd_ps(rest, h, s)
}

/// `x / y`, correctly rounded, where `reciprocal` is that of `y` (P. Markstein, "Computation of
/// elementary functions on the IBM RISC System/6000 processor", 1990).
#[inline]
#[target_feature(enable = "avx512f")]
fn quotient(x: __m512, y: __m512, reciprocal: __m512) -> __m512 {
    let q = _mm512_mul_ps(x, reciprocal);
    let rest = _mm512_fnmadd_ps(y, q, x);
    _mm512_fmadd_ps(rest, reciprocal, q)
}

/// Elements of a vector.
const SIDE: usize = 16;

/// Whether the loop is made for these numbers.
pub(super) fn takes(n: &StepNumbers<'_>) -> bool {
    let AdamStep {
        rest1, correction, ..
    } = AdamStep::of(n.part, &n.derived);
    let (rest1, correction) = (rest1 as f32, correction as f32);
    !n.part.maximize
        && n.part.weight_decay == 0.0
        && rest1.abs() < 0.5
        && (1e-6..=1.0).contains(&correction)
}

/// The step of whole vectors of float32, without the largest moment; how many elements those are.
///
/// # Safety
/// The operands must be valid for `len` elements, the loop must be made for the numbers ([`takes`]), and
/// the processor have the instructions.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn whole(o: &StepOperands, len: usize, n: &StepNumbers<'_>) -> usize {
    let AdamStep {
        rest1,
        beta2,
        rest2,
        eps,
        step_size,
        correction,
        ..
    } = AdamStep::of(n.part, &n.derived);
    let [rest1, beta2, rest2, eps] = [rest1, beta2, rest2, eps].map(|v| v as f32);
    let [step_size, correction] = [step_size, correction].map(|v| v as f32);
    let n = n.part;
    let len = len / SIDE * SIDE;
    let all = |x: f32| _mm512_set1_ps(x);
    let (rest1, beta2, rest2, eps) = (all(rest1), all(beta2), all(rest2), all(eps));
    let (step_size, shrink) = (all(step_size), all(n.shrink as f32));
    let (reciprocal, correction) = (all(1.0 / correction), all(correction));
    let least = _mm512_set1_epi32(LEAST.to_bits() as i32);
    let range = _mm512_set1_epi32((MOST.to_bits() - LEAST.to_bits()) as i32);
    let (param, grad) = (o.param.cast::<f32>(), o.grad.cast::<f32>());
    let [mean, square, _] = o.state.map(|s| s.cast::<f32>());
    for i in (0..len).step_by(SIDE) {
        // SAFETY: the caller's promise.
        let (p, g, m, v) = unsafe {
            (
                _mm512_loadu_ps(param.add(i)),
                _mm512_loadu_ps(grad.add(i)),
                _mm512_loadu_ps(mean.add(i)),
                _mm512_loadu_ps(square.add(i)),
            )
        };
        let m = _mm512_fmadd_ps(rest1, _mm512_sub_ps(g, m), m);
        let v = _mm512_fmadd_ps(_mm512_mul_ps(rest2, g), g, _mm512_mul_ps(v, beta2));
        let bits = _mm512_castps_si512(v);
        let there = _mm512_test_epi32_mask(bits, bits);
        let outside = _mm512_cmpgt_epu32_mask(_mm512_sub_epi32(bits, least), range);
        let moment = if outside & there == 0 {
            quotient(root(v, there), correction, reciprocal)
        } else {
            _mm512_div_ps(_mm512_sqrt_ps(v), correction)
        };
        let step = _mm512_mul_ps(step_size, m);
        let step = _mm512_div_ps(step, _mm512_add_ps(moment, eps));
        let p = _mm512_sub_ps(_mm512_mul_ps(p, shrink), step);
        // SAFETY: the caller's promise.
        unsafe {
            _mm512_storeu_ps(param.add(i), p);
            _mm512_storeu_ps(mean.add(i), m);
            _mm512_storeu_ps(square.add(i), v);
        }
    }
    len
}

#[cfg(feature = "unit-tests")]
mod tests;
