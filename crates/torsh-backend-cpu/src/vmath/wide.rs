//! Functions of float32 vectors with the instructions that AVX-512 has for taking numbers apart,
//! putting them together and looking them up: half to three quarters of the loops that LLVM makes of
//! the functions for an element, within as many ulp.
//!
//! Intrinsics: `Vector` has neither table lookups by permutation nor scaling by powers of 2.

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

/// For each of the pieces of [2^-4, 2^4) that an exponent and two bits of the fraction tell apart, in the
/// order of the last five of these bits: a point near the middle, where tanh is nearly a float32, tanh
/// there, and the coefficients of what the distance from it adds, relative error 2^-26 (2^-25 from 8 on).
/// Below 1/8 the point is 0; from 10 on tanh is 1.
#[rustfmt::skip]
static TANH: [PieceCoefficients; 7] = [
    PieceCoefficients([
        2.249_577_3, 2.749_523, 3.249_377_3, 3.750_706_4,
        4.500_294, 5.498_580_5, 6.498_972, 7.501_430_5,
        8.997_139, 10.0, 10.0, 10.0,
        0.0, 0.0, 0.0, 0.0,
        0.140_598_4, 0.171_887_64, 0.203_169_14, 0.234_419_29,
        0.281_213_07, 0.343_751_55, 0.406_187_68, 0.468_835_8,
        0.562_405_65, 0.687_473_2, 0.812_374_4, 0.937_449_3,
        1.125_325_9, 1.374_742_4, 1.625_279, 1.874_656_7,
    ]),
    PieceCoefficients([
        0.978_007_73, 0.991_852, 0.996_993_9, 0.998_896,
        0.999_753_36, 0.999_966_5, 0.999_995_47, 0.999_999_4,
        0.999_999_94, 1.0, 1.0, 1.0,
        0.0, 0.0, 0.0, 0.0,
        0.139_679_22, 0.170_214_58, 0.200_419_08, 0.230_217_65,
        0.274_027_44, 0.330_822_5, 0.385_230_9, 0.437_258_18,
        0.509_760_14, 0.596_356_3, 0.670_898, 0.734_048_1,
        0.809_413_5, 0.879_768_5, 0.925_386_3, 0.954_014_4,
    ]),
    PieceCoefficients([
        0.043_500_87, 0.016_229_643, 0.006_003_166_5, 0.002_206_776_8,
        4.932_418e-4, 6.699_622_5e-5, 9.060_129e-6, 1.220_112_7e-6,
        6.126_944e-8, 0.0, 0.0, 0.0,
        1.0, 1.0, 1.0, 1.0,
        0.980_489_73, 0.971_027, 0.959_832_2, 0.946_999_85,
        0.924_908_94, 0.890_556_45, 0.851_597_13, 0.808_805_3,
        0.740_144_6, 0.644_359_2, 0.549_895_8, 0.461_173_36,
        0.344_849_8, 0.226_007_4, 0.143_660_17, 0.089_856_48,
    ]),
    PieceCoefficients([
        -0.042_542_98, -0.016_096_48, -0.005_984_709_6, -0.002_204_179,
        -4.925_037e-4, -6.691_003e-5, -9.048_715e-6, -1.661_825_3e-6,
        1.694_883_2e-7, 0.0, 0.0, 0.0,
        3.118_969_7e-7, 3.118_969_7e-7, 3.118_969_7e-7, 3.118_969_7e-7,
        -0.136_954, -0.165_282_86, -0.192_368_66, -0.218_016_06,
        -0.253_450_5, -0.294_616_13, -0.328_061_58, -0.353_656_74,
        -0.377_296_12, -0.384_267_66, -0.368_924_08, -0.338_523_45,
        -0.279_128, -0.198_835_33, -0.132_941_57, -0.085_724_436,
    ]),
    PieceCoefficients([
        0.027_108_662, 0.010_555_959, 0.003_965_853_2, 0.001_466_182_6,
        3.281_411e-4, 4.460_626_6e-5, 6.032_529e-6, 8.077_954e-7,
        3.913_069_7e-8, 0.0, 0.0, 0.0,
        -0.333_355_64, -0.333_355_64, -0.333_355_64, -0.333_355_64,
        -0.307_957_6, -0.295_847_42, -0.281_395_02, -0.265_706_93,
        -0.238_742_96, -0.199_306_41, -0.157_390_43, -0.114_987_835,
        -0.054_393_288, 0.014_396_873, 0.064_235_46, 0.094_76,
        0.110_980_3, 0.099_593_244, 0.075_136_65, 0.051_830_71,
    ]),
    PieceCoefficients([
        -0.012_393_8, -0.005_152_045, -0.001_980_255_1, -7.381_953e-4,
        -1.718_494_5e-4, -2.338_235_2e-5, -3.162_824e-6, 1.342_526_5e-6,
        -2.536_114e-7, 0.0, 0.0, 0.0,
        4.728_005_4e-4, 4.728_005_4e-4, 4.728_005_4e-4, 4.728_005_4e-4,
        0.088_138_305, 0.104_680_27, 0.120_362_01, 0.133_551_8,
        0.150_038_82, 0.164_167_05, 0.170_062_38, 0.168_126_3,
        0.153_330_97, 0.119_490_16, 0.079_933_204, 0.043_337_494,
        0.003_614_416_6, -0.021_102_615, -0.025_127_623, -0.020_859_016,
    ]),
    PieceCoefficients([
        0.003_977_392, 0.001_916_586_1, 7.713_141e-4, 2.929_170_7e-4,
        6.859_165e-5, 9.318_986e-6, 1.261_862_6e-6, 2.093_470_2e-7,
        1.200_452_1e-8, 0.0, 0.0, 0.0,
        0.129_986_02, 0.129_986_02, 0.129_986_02, 0.129_986_02,
        0.927_241_2, 1.065_33, 0.105_942_56, 0.817_685_37,
        -0.024_608_416, -0.030_992_469, -0.069_877_09, 0.003_125_553_7,
        -0.042_028_703, -0.065_943_28, -0.067_525_87, -0.051_683_1,
        -0.032_090_23, -0.009_533_668, 0.001_362_558_1, 0.004_587_144,
    ]),
];

#[repr(align(64))]
struct PieceCoefficients([f32; 32]);

/// The hyperbolic tangent as a polynomial of the piece that the argument is in.
///
/// # Safety
/// As [`exp_512`].
#[inline(always)]
pub(crate) unsafe fn tanh_512(x: __m512) -> __m512 {
    // SAFETY: the caller's promise; a row of the table is two vectors.
    unsafe {
        let c = |v: f32| _mm512_set1_ps(v);
        let sign = _mm512_castsi512_ps(_mm512_set1_epi32(i32::MIN));
        // Of a number and nan this gives the second.
        let a = _mm512_min_ps(c(10.0), _mm512_abs_ps(x));
        let piece = _mm512_castps_si512(_mm512_max_ps(c(0.0625), a));
        let piece = _mm512_srli_epi32::<21>(piece);
        let of = |row: &PieceCoefficients| {
            let row = row.0.as_ptr();
            _mm512_permutex2var_ps(_mm512_load_ps(row), piece, _mm512_load_ps(row.add(16)))
        };
        let r = _mm512_sub_ps(a, of(&TANH[0]));
        let mut p = of(&TANH[6]);
        for row in [5, 4, 3, 2, 1] {
            p = _mm512_fmadd_ps(p, r, of(&TANH[row]));
        }
        _mm512_or_ps(p, _mm512_and_ps(x, sign))
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;

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

    #[torsh_macros::unit_test]
    fn close_to_float64_and_like_c_at_the_ends() {
        if !crate::testing::has_avx512() {
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
            let most = if tanh { 1.1 } else { 2.0 };
            assert!(worst.0 < most, "tanh {tanh}: {worst:?} ulp");
            // SAFETY: as above.
            let zeros = unsafe { all(&[-0.0; 16], tanh) };
            assert!(!tanh || zeros[0].is_sign_negative());
        }
    }
}
