//! Copy, Fill and Where in every layout and dtype.

use crate::common::{Array, Lcg, call, indices};
use torsh_core::attrs::{self, NONE};
use torsh_core::{DType, Kernel, Scalar};

fn copied(from: &Array, to: DType) -> Array {
    let mut out = Array::empty(to, &from.shape);
    call(Kernel::Copy, to, &mut out, &[from], NONE).expect("copy");
    out
}

#[test]
fn casts_are_pytorchs() {
    // Values of PyTorch 2.15 on x86-64.
    let x = [
        300.7,
        -1.5,
        -300.2,
        70000.0,
        3e9,
        -3e9,
        5e9,
        1.8446744e19,
        f64::NAN,
        f64::INFINITY,
        2147483648.0,
        255.9,
        -0.0,
    ];
    for dtype in [DType::F32, DType::F64] {
        for repeat in [1, 9] {
            let values: Vec<f64> = (0..repeat).flat_map(|_| x).collect();
            let from = Array::floats(dtype, &values);
            let check = |to: DType, expected: [i64; 13]| {
                let expected: Vec<i64> = (0..repeat).flat_map(|_| expected).collect();
                assert_eq!(copied(&from, to).to_i64(), expected, "{dtype} to {to}");
            };
            let (w, l) = (i32::MIN as i64, i64::MIN);
            check(DType::U8, [44, 255, 212, 112, 0, 0, 0, 0, 0, 0, 0, 255, 0]);
            check(DType::I8, [44, -1, -44, 112, 0, 0, 0, 0, 0, 0, 0, -1, 0]);
            check(
                DType::I16,
                [300, -1, -300, 4464, 0, 0, 0, 0, 0, 0, 0, 255, 0],
            );
            check(
                DType::I32,
                [300, -1, -300, 70000, w, w, w, w, w, w, w, 255, 0],
            );
            check(
                DType::I64,
                [
                    300,
                    -1,
                    -300,
                    70000,
                    3_000_000_000,
                    -3_000_000_000,
                    5_000_000_000,
                    l,
                    l,
                    l,
                    2_147_483_648,
                    255,
                    0,
                ],
            );
            check(DType::Bool, [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0]);
        }
    }
    let x = Array::floats(
        DType::F64,
        &[3_000_000_001.0, 4_294_967_299.0, -3_000_000_001.0],
    );
    assert_eq!(copied(&x, DType::U8).to_i64(), [1, 3, 255]);
    let x = Array::new(DType::C64, &[3], |i| {
        [
            Scalar::Complex(1.0, 2.0),
            Scalar::Complex(0.0, 1.0),
            Scalar::Complex(0.0, 0.0),
        ][i]
    });
    assert_eq!(copied(&x, DType::Bool).to_i64(), [1, 1, 0]);
    assert_eq!(copied(&x, DType::I32).to_i64(), [1, 0, 0]);
    assert_eq!(copied(&x, DType::C128).scalars(), x.scalars());
    let x = Array::floats(DType::F16, &[6e4, f64::NAN, 300.0]);
    assert_eq!(copied(&x, DType::U8).to_i64(), [96, 0, 44]);
}

#[test]
fn halves_round_to_nearest_even() {
    for n in [1, 100] {
        let values = [
            1.0 + 1.0 / 256.0,
            1.0 + 3.0 / 256.0,
            1.004,
            -3.4e38,
            1e-40,
            f64::INFINITY,
        ];
        let x = Array::new(DType::F32, &[6 * n], |i| Scalar::Float(values[i % 6]));
        let expected = [
            1.0,
            1.015625,
            1.0078125,
            f64::NEG_INFINITY,
            1.0101904577379033e-40,
            f64::INFINITY,
        ];
        let got = copied(&x, DType::BF16).to_f64();
        let bits = |v: f64| half::bf16::from_f64(v).to_bits();
        for (i, g) in got.iter().enumerate() {
            if i % 6 == 4 {
                assert!((g - 1e-40).abs() < 5e-41);
            } else if i % 6 == 3 {
                assert_eq!(bits(*g), bits(-3.4e38));
            } else {
                assert_eq!(*g, expected[i % 6], "{i}");
            }
        }
        let x = Array::new(DType::F32, &[3 * n], |i| {
            Scalar::Float([2049.0, 2051.0, 65520.0][i % 3])
        });
        let got = copied(&x, DType::F16).to_f64();
        assert!(
            got.chunks(3).all(|c| c == [2048.0, 2052.0, f64::INFINITY]),
            "{got:?}"
        );
        let nan = copied(
            &Array::new(DType::F32, &[n], |_| Scalar::Float(-f64::NAN)),
            DType::BF16,
        );
        assert_eq!(nan.bytes()[..2], 0x7fc0u16.to_ne_bytes());
    }
    // int64 and float64 go through float32, as in PyTorch.
    assert_eq!(
        copied(&Array::ints(DType::I64, &[70000, 2049]), DType::F16).to_f64(),
        [f64::INFINITY, 2048.0]
    );
    assert_eq!(
        copied(&Array::floats(DType::F16, &[0.1]), DType::BF16).to_f64(),
        [0.10009765625]
    );
}

#[test]
fn every_pair_of_dtypes() {
    for from in DType::ALL {
        for to in DType::ALL {
            for n in [1, 3, 700] {
                let x = Array::new(from, &[n], |i| Scalar::Int((i % 3) as i64));
                let expected: Vec<Scalar> = x
                    .scalars()
                    .iter()
                    .map(|s| Scalar::from_bytes(&s.to_bytes(to), to))
                    .collect();
                assert_eq!(copied(&x, to).scalars(), expected, "{from} to {to}, {n}");
            }
        }
    }
}

#[test]
fn random_layouts() {
    let mut r = Lcg(7);
    for round in 0..1500 {
        let rank = r.below(if round % 40 == 0 { 9 } else { 5 });
        let longest = if rank > 4 {
            3
        } else {
            [2, 9, 40, 70][r.below(4)]
        };
        let shape: Vec<usize> = (0..rank)
            .map(|_| {
                if r.below(60) == 0 {
                    0
                } else {
                    1 + r.below(longest)
                }
            })
            .collect();
        if shape.iter().product::<usize>() > 60_000 {
            continue;
        }
        let dtype = DType::ALL[r.below(12)];
        let to = if r.below(4) == 0 {
            DType::ALL[r.below(12)]
        } else {
            dtype
        };
        let (s, strides, offset) = r.layout(&shape, false);
        let mut out = if r.below(2) == 0 {
            Array::empty(to, &s)
        } else {
            Array::with_layout(to, &s, &strides, offset)
        };
        let (s, strides, offset) = r.layout(&shape, true);
        let x =
            Array::with_layout(dtype, &s, &strides, offset).filled(|i| Scalar::Int(i as i64 % 113));
        call(Kernel::Copy, to, &mut out, &[&x], NONE).expect("copy");
        for index in indices(&shape) {
            let expected = x.get_broadcast(&index);
            let expected = Scalar::from_bytes(&expected.to_bytes(to), to);
            assert_eq!(
                out.get(&index),
                expected,
                "round {round}: {shape:?} {dtype} to {to} at {index:?}"
            );
        }
    }
}

#[test]
fn transposes_of_every_size() {
    torsh_core::pool::set_num_threads(3).expect("positive");
    for dtype in [DType::U8, DType::I16, DType::F32, DType::F64, DType::C128] {
        for (rows, columns) in [(4, 4), (5, 33), (31, 64), (100, 7), (257, 300)] {
            let x = Array::with_layout(dtype, &[rows, columns], &[1, rows as isize + 3], 0)
                .filled(|i| Scalar::Int(i as i64 % 127));
            let out = copied(&x, dtype);
            assert_eq!(out.scalars(), x.scalars(), "{dtype} {rows} {columns}");
            // With a dimension outside and one between.
            let x = Array::with_layout(
                dtype,
                &[2, rows, 3, columns],
                &[
                    1,
                    2 * columns as isize,
                    2 * columns as isize * rows as isize,
                    2,
                ],
                0,
            )
            .filled(|i| Scalar::Int(i as i64 % 127));
            assert_eq!(copied(&x, dtype).scalars(), x.scalars());
            let x = Array::with_layout(
                dtype,
                &[3, rows, columns],
                &[(rows * columns) as isize, 1, rows as isize],
                0,
            )
            .filled(|i| Scalar::Int(i as i64 % 127));
            assert_eq!(copied(&x, dtype).scalars(), x.scalars());
        }
    }
}

#[test]
fn fills() {
    for dtype in DType::ALL {
        for n in [0, 1, 33, 40_000] {
            for value in [Scalar::Int(0), Scalar::Int(1)] {
                let mut out = Array::empty(dtype, &[n]);
                call(Kernel::Fill, dtype, &mut out, &[], &attrs::Fill { value }).expect("fill");
                assert!(
                    out.scalars().iter().all(|s| s.to_f64() == value.to_f64()),
                    "{dtype} {n}"
                );
            }
        }
        let mut out = Array::with_layout(dtype, &[3, 5], &[1, 6], 2);
        let before = out.bytes().to_vec();
        call(
            Kernel::Fill,
            dtype,
            &mut out,
            &[],
            &attrs::Fill {
                value: Scalar::Float(1.0),
            },
        )
        .expect("fill");
        assert_eq!(out.to_f64(), vec![1.0; 15]);
        let size = dtype.size();
        assert_eq!(out.bytes()[..2 * size], before[..2 * size]);
        assert_eq!(out.bytes()[5 * size..8 * size], before[5 * size..8 * size]);
    }
    let mut out = Array::empty(DType::C64, &[2]);
    call(
        Kernel::Fill,
        DType::C64,
        &mut out,
        &[],
        &attrs::Fill {
            value: Scalar::Complex(1.5, -2.0),
        },
    )
    .expect("fill");
    assert_eq!(out.scalars(), [Scalar::Complex(1.5, -2.0); 2]);
}

#[test]
fn selection() {
    let mut r = Lcg(3);
    for dtype in DType::ALL {
        for n in [0, 1, 31, 32, 100, 40_000] {
            let cond = Array::new(DType::Bool, &[n], |i| Scalar::Bool(i % 3 == 0));
            let a = Array::new(dtype, &[n], |i| Scalar::Int(i as i64 % 100));
            let b = Array::new(dtype, &[n], |i| Scalar::Int((i as i64 + 1) % 2));
            let mut out = Array::empty(dtype, &[n]);
            call(Kernel::Where, dtype, &mut out, &[&cond, &a, &b], NONE).expect("where");
            for i in 0..n {
                assert_eq!(
                    out.get(&[i]),
                    if i % 3 == 0 { a.get(&[i]) } else { b.get(&[i]) },
                    "{dtype} {n} {i}"
                );
            }
        }
        for _ in 0..40 {
            let shape: Vec<usize> = (0..r.below(5)).map(|_| 1 + r.below(9)).collect();
            let mut array = |dtype, broadcast| {
                let (s, strides, offset) = r.layout(&shape, broadcast);
                Array::with_layout(dtype, &s, &strides, offset)
            };
            let cond = array(DType::Bool, true).filled(|i| Scalar::Bool(i % 3 == 0));
            let a = array(dtype, true).filled(|i| Scalar::Int(i as i64 % 100));
            let b = array(DType::U8, true).filled(|i| Scalar::Int(i as i64 % 2));
            let mut out = array(dtype, false);
            call(Kernel::Where, dtype, &mut out, &[&cond, &a, &b], NONE).expect("where");
            for index in indices(&shape) {
                let from = if cond.get_broadcast(&index).to_bool() {
                    &a
                } else {
                    &b
                };
                assert_eq!(
                    out.get(&index).to_f64(),
                    from.get_broadcast(&index).to_f64()
                );
            }
        }
    }
}
