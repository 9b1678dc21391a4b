//! `linspace` and `logspace` in every dtype: values of PyTorch 2.15.

use torsh_tensor::{DType, Device, Result, Tensor};

fn check(got: Result<Tensor>, want: &[f64]) {
    let got = got.unwrap();
    assert_eq!(got.to_vec::<f64>().unwrap(), want);
}

#[test]
fn spaced_numbers_come_from_float32_steps_and_their_powers_from_float64_ones() {
    let spaced = |dtype| Tensor::linspace(-2.0, 4.0, 50, dtype, Device::Cpu);
    let part = |dtype| spaced(dtype)?.narrow(0, 12, 8);
    let want = [
        -0.53076171875,
        -0.408203125,
        -0.28564453125,
        -0.1632080078125,
        -0.040802001953125,
        0.08160400390625,
        0.2041015625,
        0.326416015625,
    ];
    check(part(DType::F16), &want);
    let want = [
        -0.53125,
        -0.408203125,
        -0.28515625,
        -0.1630859375,
        -0.040771484375,
        0.08154296875,
        0.2041015625,
        0.326171875,
    ];
    check(part(DType::BF16), &want);
    let spaced = |dtype| Tensor::linspace(0.1, 7.3, 7, dtype, Device::Cpu);
    let want = [
        0.0999755859375,
        1.2998046875,
        2.5,
        3.701171875,
        4.90234375,
        6.1015625,
        7.30078125,
    ];
    check(spaced(DType::F16), &want);
    let want = [
        0.10009765625,
        1.3046875,
        2.5,
        3.703125,
        4.90625,
        6.125,
        7.3125,
    ];
    check(spaced(DType::BF16), &want);

    let powers = |dtype| Tensor::logspace(-2.0, 4.0, 9, 10.0, dtype, Device::Cpu);
    let want = [
        0.01000213623046875,
        0.056243896484375,
        0.316162109375,
        1.7783203125,
        10.0,
        56.21875,
        316.25,
        1778.0,
        10000.0,
    ];
    check(powers(DType::F16), &want);
    let want = [
        0.010009765625,
        0.05615234375,
        0.31640625,
        1.78125,
        10.0,
        56.25,
        316.0,
        1776.0,
        9984.0,
    ];
    check(powers(DType::BF16), &want);
}

#[test]
fn spaced_numbers_of_other_types_are_rounded_once() {
    let x = Tensor::linspace(-9.524089, 11.954477, 8, DType::F32, Device::Cpu);
    let want = [
        -9.524088859558105,
        -6.455722332000732,
        -3.3873558044433594,
        -0.31898927688598633,
        2.749377727508545,
        5.817744255065918,
        8.886110305786133,
        11.954477310180664,
    ];
    check(x, &want);
    // -18 to 10 in 42 steps: 10 - 21 * 28 / 42 is -4, and PyTorch's is just above.
    let (from, to) = (-18.644252422964286, 10.253547125595247);
    let x = Tensor::linspace(from, to, 43, DType::I8, Device::Cpu).unwrap();
    assert_eq!(x.to_vec::<i8>().unwrap()[20..26], [-4, -3, -3, -2, -1, -1]);
    // -5 is 251 in uint8.
    let x = Tensor::linspace(5, -5, 7, DType::U8, Device::Cpu).unwrap();
    assert_eq!(x.to_vec::<u8>().unwrap(), [5, 46, 87, 128, 169, 210, 251]);
    let x = Tensor::logspace(1.7596, 2.49, 6, 10.0, DType::F32, Device::Cpu);
    let want = [
        57.491024017333984,
        80.47853088378906,
        112.65747833251953,
        157.70301818847656,
        220.7598114013672,
        309.029541015625,
    ];
    check(x, &want);
    let x = Tensor::logspace(2.5, 7, 1, 10.0, DType::I64, Device::Cpu).unwrap();
    assert_eq!(x.to_vec::<i64>().unwrap(), [316]);
}
