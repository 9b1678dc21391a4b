//! float16 and bfloat16 where it matters which step of an op is rounded: values of PyTorch 2.15.

use torsh_tensor::{
    BatchNormOptions, BceOptions, DType, Device, DivOptions, KlDivOptions, PoissonNllLossOptions,
    Reduction, Result, Tensor,
};

fn half(dtype: DType, v: &[f64]) -> Tensor {
    let n = v.len();
    Tensor::from_slice(v, &[n], dtype, Device::Cpu).unwrap()
}

fn check(dtype: DType, got: Result<Tensor>, want: &[f64]) {
    let got = got.unwrap();
    assert_eq!(got.dtype(), dtype);
    let got = got.to_vec::<f64>().unwrap();
    let same = |(g, w): (&f64, &f64)| g.to_bits() == w.to_bits() || g.is_nan() && w.is_nan();
    assert!(
        got.len() == want.len() && got.iter().zip(want).all(same),
        "{dtype}: {got:?} instead of {want:?}"
    );
}

fn trunc(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    x.div_with(y, DivOptions::new().rounding_mode("trunc"))
}

const DIVIDENDS: [f64; 9] = [
    3.0, -3.0, 18.390625, -174.0, 65504.0, 100.0, 257.0, -51.0, 7.0,
];
const DIVISORS: [f64; 9] = [0.3, 0.3, 0.0136337, 0.0584, 127.0, 3.0, 0.3, -0.029587, 0.1];

#[test]
fn quotients_are_rounded_to_the_type_and_then_to_integers() {
    let dtype = DType::F16;
    let (x, y) = (half(dtype, &DIVIDENDS), half(dtype, &DIVISORS));
    let want = [
        10.0, -10.0, 1349.0, -2978.0, 516.0, 33.0, 856.0, 1724.0, 70.0,
    ];
    check(dtype, trunc(&x, &y), &want);
    let floors = [
        9.0, -10.0, 1348.0, -2980.0, 515.0, 33.0, 855.0, 1723.0, 70.0,
    ];
    check(dtype, x.floor_divide(&y), &floors);
    let floor = DivOptions::new().rounding_mode("floor");
    check(dtype, x.div_with(&y, floor), &floors);

    let dtype = DType::BF16;
    let (x, y) = (half(dtype, &DIVIDENDS), half(dtype, &DIVISORS));
    let want = [
        10.0, -10.0, 1352.0, -2976.0, 516.0, 33.0, 852.0, 1728.0, 70.0,
    ];
    check(dtype, trunc(&x, &y), &want);
    let floors = [
        9.0, -10.0, 1352.0, -2976.0, 516.0, 33.0, 852.0, 1728.0, 69.0,
    ];
    check(dtype, x.floor_divide(&y), &floors);

    // A longer tensor, whose elements are computed in groups, and one element, which is a number.
    let (x, y) = (half(DType::F16, &[3.0; 70]), half(DType::F16, &[0.3; 70]));
    check(DType::F16, trunc(&x, &y), &[10.0; 70]);
    let (x, y) = (half(DType::F16, &[139.5]), half(DType::F16, &[0.3]));
    check(DType::F16, trunc(&x, &y), &[464.0]);
}

#[test]
fn remainders_are_exact() {
    let dtype = DType::F16;
    let (x, y) = (half(dtype, &DIVIDENDS), half(dtype, &DIVISORS));
    let want = [
        0.299560546875,
        0.00048828125,
        0.012359619140625,
        0.00531005859375,
        99.0,
        1.0,
        0.158203125,
        -0.0219573974609375,
        0.001708984375,
    ];
    check(dtype, x.remainder(&y), &want);
    let want = [
        0.299560546875,
        -0.299560546875,
        0.012359619140625,
        -0.0531005859375,
        99.0,
        1.0,
        0.158203125,
        -0.0219573974609375,
        0.001708984375,
    ];
    check(dtype, x.fmod(&y), &want);
}

#[test]
fn factors_and_divisors_keep_their_digits_and_other_numbers_do_not() {
    let v = [9752.0, -34.0, 6.59375, 86.0, -66.0, 99.0];
    let dtype = DType::F16;
    let x = half(dtype, &v);
    let quotients = [2956.0, -10.3046875, 1.998046875, 26.0625, -20.0, 30.0];
    check(dtype, x.div(3.3), &quotients);
    let number = Tensor::scalar(3.3f32, DType::F32, Device::Cpu).unwrap();
    check(dtype, x.div(&number), &quotients);
    let want = [32176.0, -112.1875, 21.765625, 283.75, -217.75, 326.75];
    check(dtype, x.mul(3.3), &want);
    let trunc = DivOptions::new().rounding_mode("trunc");
    let want = [2956.0, -10.0, 1.0, 26.0, -20.0, 30.0];
    check(dtype, x.div_with(3.3, trunc), &want);
    check(
        dtype,
        x.floor_divide(3.3),
        &[2956.0, -11.0, 1.0, 26.0, -21.0, 30.0],
    );
    let want = [
        0.0814208984375,
        -0.00830078125,
        0.0953369140625,
        0.02099609375,
        -0.01611328125,
        0.024169921875,
    ];
    check(dtype, x.fmod(0.1), &want);
    let seven = half(dtype, &[7.0]);
    check(dtype, seven.fmod(0.1), &[0.001708984375]);
    check(dtype, seven.remainder(0.1), &[0.001708984375]);
    check(dtype, seven.mul(0.1), &[0.7001953125]);

    let dtype = DType::BF16;
    let x = half(dtype, &v);
    check(
        dtype,
        x.div(3.3),
        &[2944.0, -10.3125, 2.0, 26.0, -20.0, 30.0],
    );
    check(
        dtype,
        x.mul(3.3),
        &[32128.0, -112.0, 21.75, 284.0, -218.0, 326.0],
    );
    check(
        dtype,
        x.add(3.3),
        &[9728.0, -30.75, 9.875, 89.5, -62.75, 102.5],
    );
    check(dtype, half(dtype, &[7.0]).pow(0.1), &[1.21875]);
}

#[test]
fn the_next_number_is_one_of_the_type() {
    let (from, to) = (
        [3.0, -3.0, 0.0, 0.0, 1.0, -1.0, f64::INFINITY, 2.0],
        [0.3, 0.3, 1.0, -1.0, 1.0, f64::NEG_INFINITY, 0.0, f64::NAN],
    );
    let dtype = DType::F16;
    let want = [
        2.998046875,
        -2.998046875,
        5.960464477539063e-8,
        -5.960464477539063e-8,
        1.0,
        -1.0009765625,
        65504.0,
        f64::NAN,
    ];
    check(dtype, half(dtype, &from).nextafter(half(dtype, &to)), &want);
    let dtype = DType::BF16;
    let want = [
        2.984375,
        -2.984375,
        9.183549615799121e-41,
        -9.183549615799121e-41,
        1.0,
        -1.0078125,
        3.3895313892515355e38,
        f64::NAN,
    ];
    check(dtype, half(dtype, &from).nextafter(half(dtype, &to)), &want);
}

#[test]
fn a_loss_rounds_the_logarithm_before_its_product() {
    let x = [3.0, 3.0, 0.0, -14.515625, 0.0, 2.0, 1.0];
    let y = [3.0, 7.0, 0.0, 5.2890625, f64::NAN, 0.0, -1.0];
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let dtype = DType::F16;
    let want = [3.296875, 5.83984375, 0.0, -24.1875, nan, -inf, nan];
    check(dtype, half(dtype, &x).xlogy(half(dtype, &y)), &want);
    let dtype = DType::BF16;
    let want = [3.3125, 5.84375, 0.0, -24.125, nan, -inf, nan];
    check(dtype, half(dtype, &x).xlogy(half(dtype, &y)), &want);

    let none = KlDivOptions::new().reduction(Reduction::None);
    let (x, y) = ([-0.7, -1.9], [0.46, 0.31]);
    let losses = |dtype| half(dtype, &x).kl_div_with(&half(dtype, &y), none.clone());
    check(
        DType::F16,
        losses(DType::F16),
        &[-0.035400390625, 0.226318359375],
    );
    check(DType::BF16, losses(DType::BF16), &[-0.03515625, 0.2265625]);

    let (x, y) = ([0.1, 0.77, 0.9, 0.333], [0.2, 0.6, 1.0, 0.05]);
    let none = BceOptions::new().reduction(Reduction::None);
    let losses = |dtype| half(dtype, &x).binary_cross_entropy_with(&half(dtype, &y), none.clone());
    check(
        DType::F16,
        losses(DType::F16),
        &[0.544921875, 0.74462890625, 0.10546875, 0.439697265625],
    );
    check(
        DType::BF16,
        losses(DType::BF16),
        &[0.54296875, 0.7421875, 0.10693359375, 0.4375],
    );

    let (x, y) = ([0.7, 2.9, 4.1], [1.6, 3.3, 2.7]);
    let full = PoissonNllLossOptions::new()
        .log_input(false)
        .full(true)
        .reduction(Reduction::None);
    let losses = |dtype| half(dtype, &x).poisson_nll_loss_with(&half(dtype, &y), full.clone());
    check(
        DType::F16,
        losses(DType::F16),
        &[1.576171875, 1.54296875, 1.6904296875],
    );
    check(
        DType::BF16,
        losses(DType::BF16),
        &[1.578125, 1.53125, 1.6953125],
    );
}

#[test]
fn batch_norm_rounds_the_variance_in_bfloat16_alone() {
    let x = [
        3.1, -7.3, 2.2, 0.4, 8.8, -1.7, 5.5, -0.3, 1.9, -6.1, 2.6, 4.4,
    ];
    let of = |dtype| {
        let (mean, var) = (half(dtype, &[0.0; 2]), half(dtype, &[1.0; 2]));
        let options = BatchNormOptions::new()
            .weight(&half(dtype, &[1.7, -2.3]))
            .bias(&half(dtype, &[0.6, -1.1]))
            .training(true)
            .momentum(0.5)
            .eps(0.6);
        let x = half(dtype, &x).reshape([2, 2, 3]).unwrap();
        let y = x.batch_norm_with(&mean, &var, options).unwrap();
        (y.flatten(0), Ok(mean), Ok(var))
    };
    let (y, mean, var) = of(DType::F16);
    let want = [
        1.5322265625,
        -2.77734375,
        1.1591796875,
        -0.6162109375,
        -4.6796875,
        0.39990234375,
        2.52734375,
        0.12359619140625,
        1.03515625,
        2.529296875,
        -1.6806640625,
        -2.55078125,
    ];
    check(DType::F16, y, &want);
    check(DType::F16, mean, &[0.4248046875, 0.69921875]);
    check(DType::F16, var, &[10.234375, 13.703125]);
    let (y, mean, var) = of(DType::BF16);
    let want = [
        1.53125,
        -2.78125,
        1.1640625,
        -0.6171875,
        -4.6875,
        0.3984375,
        2.53125,
        0.1259765625,
        1.0390625,
        2.515625,
        -1.671875,
        -2.546875,
    ];
    check(DType::BF16, y, &want);
    check(DType::BF16, mean, &[0.423828125, 0.703125]);
    check(DType::BF16, var, &[10.25, 13.6875]);
}

/// Attention of few queries converts keys and values head by head: the result is that of operands which were converted
/// before; also where keys are a part of a longer cache, or their columns are not adjacent.
#[test]
fn attention_of_few_queries() -> Result<()> {
    let draw = |shape: &[usize]| torsh_tensor::randn(shape);
    for dtype in [DType::F16, DType::BF16] {
        for heads in [2, 4] {
            let q = draw(&[2, 4, 1, 16]).to_dtype(dtype)?;
            let cache = draw(&[2, heads, 40, 16]).to_dtype(dtype)?;
            let (k, v) = (
                cache.narrow(2, 3, 29)?,
                draw(&[2, heads, 29, 24]).to_dtype(dtype)?,
            );
            let across = draw(&[2, heads, 16, 29]).to_dtype(dtype)?.transpose(2, 3)?;
            for k in [&k, &across] {
                let options =
                    || torsh_tensor::ScaledDotProductAttentionOptions::new().enable_gqa(heads != 4);
                let wide = |t: &Tensor| t.to_dtype(DType::F32);
                let want = wide(&q)?
                    .scaled_dot_product_attention_with(&wide(k)?, &wide(&v)?, options())?
                    .to_dtype(dtype)?;
                let got = q.scaled_dot_product_attention_with(k, &v, options())?;
                // Sums in another order may round to the neighbour.
                let last_place = if dtype == DType::F16 { 1e-3 } else { 8e-3 };
                for (g, w) in got.to_vec::<f64>()?.iter().zip(want.to_vec::<f64>()?) {
                    assert!(
                        (g - w).abs() <= last_place * w.abs() + 1e-5,
                        "{g} instead of {w}"
                    );
                }
            }
        }
    }
    Ok(())
}
