//! Functions of float32 vectors with the instructions that AVX-512 has for taking numbers apart,
//! putting them together and dividing about: half to three quarters of the loops that LLVM makes of
//! the functions for an element, within as many ulp.

use std::arch::x86_64::*;
use std::f32::consts::LOG2_E;

use super::MAGIC32;
use super::exp::{EXP32, LN2_HI32, LN2_LO32};

/// e^x, nan passing.
///
/// # Safety
/// The processor has AVX-512, and the caller is compiled for it.
#[inline(always)]
pub(crate) unsafe fn exp_512(x: __m512) -> __m512 {
    // SAFETY: the caller's promise.
    unsafe {
        let c = |v: f32| _mm512_set1_ps(v);
        // Beyond these the result is inf or 0 anyway; of a number and nan these give the second.
        let x = _mm512_max_ps(c(-104.0), _mm512_min_ps(c(89.0), x));
        let n = _mm512_fmadd_ps(x, c(LOG2_E), c(MAGIC32));
        let n = _mm512_sub_ps(n, c(MAGIC32));
        let r = _mm512_fnmadd_ps(n, c(LN2_HI32), x);
        let r = _mm512_fnmadd_ps(n, c(LN2_LO32), r);
        let mut p = c(EXP32[4]);
        for term in [EXP32[3], EXP32[2], EXP32[1], EXP32[0], 1.0, 1.0] {
            p = _mm512_fmadd_ps(p, r, c(term));
        }
        _mm512_scalef_ps(p, n)
    }
}

/// The hyperbolic tangent as h / (h + 1), h being half of e^2|x| - 1.
///
/// # Safety
/// As [`exp_512`].
#[inline(always)]
pub(crate) unsafe fn tanh_512(x: __m512) -> __m512 {
    // SAFETY: the caller's promise.
    unsafe {
        let c = |v: f32| _mm512_set1_ps(v);
        let sign = _mm512_castsi512_ps(_mm512_set1_epi32(i32::MIN));
        // tanh(10) is 1 in float32.
        let a = _mm512_min_ps(c(10.0), _mm512_abs_ps(x));
        let magic = MAGIC32 + 127.0;
        let t = _mm512_fmadd_ps(a, c(2.0 * LOG2_E), c(magic));
        let n = _mm512_sub_ps(t, c(magic));
        // Half of what is left of 2a.
        let r = _mm512_fnmadd_ps(n, c(0.5 * LN2_HI32), a);
        let r = _mm512_fnmadd_ps(n, c(0.5 * LN2_LO32), r);
        let mut q = c(32.0 * EXP32[4]);
        for term in [
            16.0 * EXP32[3],
            8.0 * EXP32[2],
            4.0 * EXP32[1],
            2.0 * EXP32[0],
        ] {
            q = _mm512_fmadd_ps(q, r, c(term));
        }
        let em1 = _mm512_fmadd_ps(_mm512_mul_ps(r, r), q, r);
        let scale = _mm512_castsi512_ps(_mm512_slli_epi32::<23>(_mm512_castps_si512(t)));
        let h = _mm512_fmadd_ps(scale, em1, _mm512_fmadd_ps(scale, c(0.5), c(-0.5)));
        // The divisor, and what its rounding left out.
        let d = _mm512_add_ps(h, c(1.0));
        let left = _mm512_sub_ps(h, _mm512_sub_ps(d, c(1.0)));
        // A quotient of 14 bits, and the rest that it leaves, divided as well.
        let about = _mm512_rcp14_ps(d);
        let q = _mm512_mul_ps(h, about);
        let rest = _mm512_fnmadd_ps(q, left, _mm512_fnmadd_ps(q, d, h));
        let q = _mm512_fmadd_ps(rest, about, q);
        _mm512_or_ps(q, _mm512_and_ps(x, sign))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Level;

    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn all(x: &[f32; 16], tanh: bool) -> [f32; 16] {
        // SAFETY: 16 numbers each way; compiled for AVX-512.
        unsafe {
            let mut to = [0.0; 16];
            let x = _mm512_loadu_ps(x.as_ptr());
            let y = if tanh { tanh_512(x) } else { exp_512(x) };
            _mm512_storeu_ps(to.as_mut_ptr(), y);
            to
        }
    }

    /// How many units in the last place of `want` it is off.
    fn ulp(got: f32, want: f64) -> f64 {
        let near = want as f32;
        if got == near || (got.is_nan() && want.is_nan()) {
            return 0.0;
        }
        let exponent = ((near.to_bits() >> 23 & 255) as i32).max(1) - 150;
        (f64::from(got) - want).abs() / 2f64.powi(exponent)
    }

    #[test]
    fn close_to_float64_and_like_c_at_the_ends() {
        if !Level::Avx512.is_available() {
            return;
        }
        let functions: [(bool, fn(f64) -> f64); 2] = [(false, f64::exp), (true, f64::tanh)];
        for (tanh, exact) in functions {
            let mut worst = (0.0, 0.0);
            let mut try_all = |x: [f32; 16]| {
                // SAFETY: the processor has AVX-512.
                let got = unsafe { all(&x, tanh) };
                for (&x, got) in x.iter().zip(got) {
                    let off = ulp(got, exact(f64::from(x)));
                    if off > worst.0 || off.is_nan() {
                        worst = (off, x);
                    }
                }
            };
            // Every 251st number there is: both signs, subnormal ones, infinities and nan.
            for bits in (0..u32::MAX - 16 * 251).step_by(16 * 251) {
                try_all(std::array::from_fn(|l| {
                    f32::from_bits(bits + 251 * l as u32)
                }));
            }
            // Densely where results are neither 0 nor inf.
            for i in -105_000..90_000 {
                try_all(std::array::from_fn(|l| {
                    (i as f32 + l as f32 / 16.0) / 1000.0
                }));
            }
            try_all([
                0.0,
                -0.0,
                f32::INFINITY,
                f32::NEG_INFINITY,
                f32::NAN,
                -f32::NAN,
                88.72283,
                88.72284,
                -87.3,
                -103.97,
                -103.98,
                f32::MAX,
                f32::MIN,
                1e-40,
                -1e-40,
                10.0,
            ]);
            println!("{tanh} {worst:?}");
            assert!(worst.0 < 2.0, "tanh {tanh}: {worst:?} ulp");
            // SAFETY: as above.
            let zeros = unsafe { all(&[-0.0; 16], tanh) };
            assert!(!tanh || zeros[0].is_sign_negative());
        }
    }
}
