//! The pointwise driver on every path: dtypes, layouts, sizes, threads.

use crate::common::{Array, Lcg, call, call_in_place, indices};
use torsh_core::attrs::NONE;
use torsh_core::pointwise::numbers::AddAlpha;
use torsh_core::{DType, Kernel, Scalar};

/// Integers that stay exact in every dtype but wrap in none.
fn small(i: usize) -> Scalar {
    Scalar::Int((i * 7 % 5) as i64)
}

#[test]
fn every_size_around_the_lanes() {
    for dtype in [
        DType::F32,
        DType::F64,
        DType::U8,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::F16,
        DType::BF16,
    ] {
        for n in [
            0, 1, 2, 4, 5, 31, 32, 33, 63, 64, 100, 1023, 1024, 1025, 5000,
        ] {
            let (x, y) = (
                Array::new(dtype, &[n], small),
                Array::new(dtype, &[n], |i| small(i + 3)),
            );
            let mut out = Array::empty(dtype, &[n]);
            call(Kernel::Add, dtype, &mut out, &[&x, &y], NONE).expect("add");
            let expected: Vec<f64> = x
                .to_f64()
                .iter()
                .zip(y.to_f64())
                .map(|(a, b)| a + b)
                .collect();
            assert_eq!(out.to_f64(), expected, "{dtype} {n}");
            let mut out = Array::empty(DType::Bool, &[n]);
            call(Kernel::Eq, dtype, &mut out, &[&x, &y], NONE).expect("eq");
            let expected: Vec<i64> = x
                .to_f64()
                .iter()
                .zip(y.to_f64())
                .map(|(a, b)| (*a == b) as i64)
                .collect();
            assert_eq!(out.to_i64(), expected, "{dtype} {n}");
        }
    }
}

#[test]
fn complex_and_bool() {
    let x = Array::new(DType::C64, &[40], |i| Scalar::Complex(i as f64, 1.0));
    let y = Array::new(DType::C64, &[40], |i| Scalar::Complex(2.0, -(i as f64)));
    let mut out = Array::empty(DType::C64, &[40]);
    call(Kernel::Mul, DType::C64, &mut out, &[&x, &y], NONE).expect("mul");
    for (i, s) in out.scalars().iter().enumerate() {
        let i = i as f64;
        assert_eq!(*s, Scalar::Complex(2.0 * i + i, 2.0 - i * i));
    }
    let x = Array::new(DType::Bool, &[70], |i| Scalar::Bool(i % 2 == 0));
    let y = Array::new(DType::Bool, &[70], |i| Scalar::Bool(i % 3 == 0));
    let mut out = Array::empty(DType::Bool, &[70]);
    call(Kernel::Mul, DType::Bool, &mut out, &[&x, &y], NONE).expect("mul");
    assert_eq!(
        out.to_i64(),
        (0..70).map(|i| (i % 6 == 0) as i64).collect::<Vec<_>>()
    );
}

#[test]
fn mixed_dtypes_compute_in_the_promoted_one() {
    let x = Array::ints(DType::I64, &[1, 2, 300]);
    let y = Array::floats(DType::F32, &[0.5, 0.25, 0.125]);
    let mut out = Array::empty(DType::F32, &[3]);
    call(Kernel::Mul, DType::F32, &mut out, &[&x, &y], NONE).expect("mul");
    assert_eq!(out.to_f64(), [0.5, 0.5, 37.5]);
    // An in-place form: computed in float32, stored as float64.
    let mut x = Array::floats(DType::F64, &[0.1; 3]);
    call_in_place(
        Kernel::Add,
        DType::F64,
        &mut x,
        &[&Array::ints(DType::U8, &[1, 2, 255])],
    )
    .expect("add");
    assert_eq!(x.to_f64(), [1.1, 2.1, 255.1]);
    let x = Array::new(DType::Bool, &[200], |i| Scalar::Bool(i % 2 == 1));
    let mut out = Array::empty(DType::C128, &[200]);
    let y = Array::new(DType::C128, &[200], |i| Scalar::Complex(i as f64, 2.0));
    call(Kernel::Add, DType::C128, &mut out, &[&x, &y], NONE).expect("add");
    assert_eq!(out.get(&[101]), Scalar::Complex(102.0, 2.0));
    assert_eq!(out.get(&[150]), Scalar::Complex(150.0, 2.0));
}

#[test]
fn half_types_round_once_and_keep_the_digits_of_numbers() {
    // As PyTorch: tensor([1.], bfloat16) * 1.001 multiplies by the float32 number.
    for n in [1, 3, 100] {
        let x = Array::new(DType::BF16, &[n], |_| Scalar::Float(256.0));
        let number = Array::new(DType::F64, &[], |_| Scalar::Float(1.0079));
        let mut out = Array::empty(DType::BF16, &[n]);
        call(Kernel::Mul, DType::BF16, &mut out, &[&x, &number], NONE).expect("mul");
        // 256 * 1.0079 = 258.02, which rounds to 258; bfloat16(1.0079) is 1.0078125, exactly 258 too.
        assert_eq!(out.to_f64(), vec![258.0; n]);
        let number = Array::new(DType::F64, &[], |_| Scalar::Float(1.003));
        call(Kernel::Mul, DType::BF16, &mut out, &[&x, &number], NONE).expect("mul");
        // 256.77 is nearer to 256 than to 258.
        assert_eq!(out.to_f64(), vec![256.0; n]);
        // Comparisons see the number as a half.
        let x = Array::new(DType::F16, &[n], |_| Scalar::Float(0.1));
        let number = Array::new(DType::F64, &[], |_| Scalar::Float(0.1));
        let mut out = Array::empty(DType::Bool, &[n]);
        call(Kernel::Eq, DType::F16, &mut out, &[&x, &number], NONE).expect("eq");
        assert_eq!(out.to_i64(), vec![1; n]);
    }
    // Ties go to even, overflow to infinity.
    let x = Array::floats(DType::F16, &[2048.0, 2050.0, 65504.0, f64::NAN]);
    let y = Array::floats(DType::F16, &[1.0, 1.0, 65504.0, 1.0]);
    let mut out = Array::empty(DType::F16, &[4]);
    call(Kernel::Add, DType::F16, &mut out, &[&x, &y], NONE).expect("add");
    assert_eq!(out.to_f64()[..3], [2048.0, 2052.0, f64::INFINITY]);
    assert!(out.to_f64()[3].is_nan());
    // A whole tensor of another dtype becomes float16 first.
    let x = Array::ints(DType::I64, &[2049, 70000]);
    let mut out = Array::empty(DType::F16, &[2]);
    call(
        Kernel::Add,
        DType::F16,
        &mut out,
        &[&x, &Array::floats(DType::F16, &[1.0, -60000.0])],
        NONE,
    )
    .expect("add");
    assert_eq!(out.to_f64(), [2048.0, f64::INFINITY]);
}

#[test]
fn numbers_of_the_row() {
    let (x, y) = (
        Array::ints(DType::I32, &[1, 2, 3]),
        Array::ints(DType::I32, &[10, 20, 30]),
    );
    let mut out = Array::empty(DType::I32, &[3]);
    call(
        Kernel::AddAlpha,
        DType::I32,
        &mut out,
        &[&x, &y],
        &AddAlpha {
            alpha: Scalar::Int(3),
        },
    )
    .expect("add");
    assert_eq!(out.to_i64(), [31, 62, 93]);
    let (x, y) = (
        Array::floats(DType::BF16, &[1.0, 2.0]),
        Array::floats(DType::BF16, &[8.0, 16.0]),
    );
    let mut out = Array::empty(DType::BF16, &[2]);
    call(
        Kernel::AddAlpha,
        DType::BF16,
        &mut out,
        &[&x, &y],
        &AddAlpha {
            alpha: Scalar::Float(0.25),
        },
    )
    .expect("add");
    assert_eq!(out.to_f64(), [3.0, 6.0]);
}

#[test]
fn in_place_and_an_operand_twice() {
    for n in [1, 5, 32, 1000, 50_000] {
        let mut x = Array::new(DType::F32, &[n], small);
        let before = x.to_f64();
        call_in_place(
            Kernel::Add,
            DType::F32,
            &mut x,
            &[&Array::new(DType::F32, &[n], |_| Scalar::Int(1))],
        )
        .expect("add");
        assert_eq!(
            x.to_f64(),
            before.iter().map(|v| v + 1.0).collect::<Vec<_>>()
        );
        let mut out = Array::empty(DType::F32, &[n]);
        call(Kernel::Mul, DType::F32, &mut out, &[&x, &x], NONE).expect("mul");
        assert_eq!(
            out.to_f64(),
            x.to_f64().iter().map(|v| v * v).collect::<Vec<_>>()
        );
    }
}

#[test]
fn random_layouts_against_the_definition() {
    let dtypes = [
        DType::F32,
        DType::F64,
        DType::I32,
        DType::U8,
        DType::F16,
        DType::BF16,
        DType::I64,
    ];
    let mut r = Lcg(1);
    for round in 0..600 {
        let rank = r.below(if round % 50 == 0 { 9 } else { 5 });
        let longest = if rank > 4 {
            3
        } else {
            [1, 4, 9, 150][r.below(4)]
        };
        let shape: Vec<usize> = (0..rank)
            .map(|_| {
                if r.below(40) == 0 {
                    0
                } else {
                    1 + r.below(longest)
                }
            })
            .collect();
        if shape.iter().product::<usize>() > 30_000 {
            continue;
        }
        let compute = dtypes[r.below(dtypes.len())];
        let (s, strides, offset) = r.layout(&shape, false);
        let mut out = Array::with_layout(
            if r.below(5) == 0 { DType::F64 } else { compute },
            &s,
            &strides,
            offset,
        );
        let mut ins = Vec::new();
        for k in 0..2 {
            let (s, strides, offset) = r.layout(&shape, true);
            let dtype = if r.below(4) == 0 { DType::U8 } else { compute };
            ins.push(Array::with_layout(dtype, &s, &strides, offset).filled(|i| small(i + k)));
        }
        call(Kernel::Add, compute, &mut out, &[&ins[0], &ins[1]], NONE).expect("add");
        for index in indices(&shape) {
            let sum = ins[0].get_broadcast(&index).to_f64() + ins[1].get_broadcast(&index).to_f64();
            assert_eq!(
                out.get(&index).to_f64(),
                sum,
                "round {round}: {shape:?} {compute} at {index:?}"
            );
        }
    }
}

#[test]
fn gaps_of_the_output_stay() {
    let mut out = Array::with_layout(DType::I32, &[3, 4], &[16, 2], 1);
    let before = out.bytes().to_vec();
    let x = Array::new(DType::I32, &[3, 4], |i| Scalar::Int(i as i64));
    call(Kernel::Neg, DType::I32, &mut out, &[&x], NONE).expect("neg");
    assert_eq!(out.to_i64(), (0..12).map(|i| -i).collect::<Vec<_>>());
    let written: Vec<usize> = indices(&[3, 4])
        .iter()
        .map(|i| 1 + 16 * i[0] + 2 * i[1])
        .collect();
    for (i, (a, b)) in out.bytes().iter().zip(&before).enumerate() {
        assert!(a == b || written.contains(&(i / 4)), "byte {i} was touched");
    }
}

/// Results of 16 MiB or more, with an odd end, where a result may be written past the caches.
#[test]
fn larger_than_the_caches() {
    let n = (16 << 20) / 4 + 1003;
    let x = Array::new(DType::F32, &[n], |i| Scalar::Int(i as i64 % 4099));
    let y = Array::new(DType::F32, &[n], |i| Scalar::Int(i as i64 % 5));
    let right = |out: &Array| {
        let mut values = out.to_f64().into_iter().enumerate();
        values.all(|(i, v)| v == (i % 4099 + i % 5) as f64)
    };
    let mut out = Array::empty(DType::F32, &[n]);
    call(Kernel::Add, DType::F32, &mut out, &[&x, &y], NONE).expect("add");
    assert!(right(&out));
    // One tensor alone, with a number, and results narrower than what they are made of.
    let number = Array::floats(DType::F32, &[0.5]);
    for inputs in [[&x, &number], [&number, &x]] {
        call(Kernel::Mul, DType::F32, &mut out, &inputs, NONE).expect("mul");
        let mut values = out.to_f64().into_iter().enumerate();
        assert!(values.all(|(i, v)| v == (i % 4099) as f64 * 0.5));
    }
    call(Kernel::Neg, DType::F32, &mut out, &[&x], NONE).expect("neg");
    let mut values = out.to_f64().into_iter().enumerate();
    assert!(values.all(|(i, v)| v == -((i % 4099) as f64)));
    let z = Array::new(DType::C64, &[n], |i| {
        Scalar::Complex(0.0, -((i % 4099) as f64))
    });
    call(Kernel::Abs, DType::C64, &mut out, &[&z], NONE).expect("abs");
    let mut values = out.to_f64().into_iter().enumerate();
    assert!(values.all(|(i, v)| v == (i % 4099) as f64));
    for kernel in [Kernel::Exp, Kernel::Tanh] {
        let of = |y: &Array, n: usize| {
            let mut out = Array::empty(DType::F32, &[n]);
            call(kernel, DType::F32, &mut out, &[y], NONE).expect("a function");
            out.to_f64()
        };
        let few = Array::new(DType::F32, &[5], |i| Scalar::Int(i as i64));
        let (want, got) = (of(&few, 5), of(&y, n));
        assert!(got.iter().enumerate().all(|(i, &v)| v == want[i % 5]));
    }
    let mut out = x;
    call_in_place(Kernel::Add, DType::F32, &mut out, &[&y]).expect("add_");
    assert!(right(&out));
}

#[test]
fn large_ones_over_threads() {
    torsh_core::pool::set_num_threads(4).expect("positive");
    let (rows, columns) = (301, 1000);
    let x = Array::new(DType::F32, &[rows, columns], |i| {
        Scalar::Int(i as i64 % 1000)
    });
    let bias = Array::new(DType::F32, &[columns], |i| Scalar::Int(i as i64));
    let column = Array::new(DType::I16, &[rows, 1], |i| Scalar::Int(i as i64));
    let mut out = Array::empty(DType::F32, &[rows, columns]);
    call(Kernel::Add, DType::F32, &mut out, &[&x, &bias], NONE).expect("add");
    assert!(
        out.to_f64()
            .iter()
            .enumerate()
            .all(|(i, &v)| v == 2.0 * (i % columns) as f64)
    );
    call(Kernel::Add, DType::F32, &mut out, &[&x, &column], NONE).expect("add");
    assert!(
        out.to_f64()
            .iter()
            .enumerate()
            .all(|(i, &v)| v == (i % columns + i / columns) as f64)
    );
    call(Kernel::Add, DType::F32, &mut out, &[&x, &x], NONE).expect("add");
    assert!(
        out.to_f64()
            .iter()
            .enumerate()
            .all(|(i, &v)| v == 2.0 * (i % columns) as f64)
    );
    // Narrow rows: several go through one block.
    let x = Array::new(DType::BF16, &[40_000, 3], |i| Scalar::Int(i as i64 % 100));
    let bias = Array::floats(DType::F32, &[1.0, 2.0, 4.0]);
    let mut out = Array::with_layout(DType::BF16, &[40_000, 3], &[1, 40_000], 0);
    call(Kernel::Add, DType::BF16, &mut out, &[&x, &bias], NONE).expect("add");
    assert!(
        out.to_f64()
            .iter()
            .enumerate()
            .all(|(i, &v)| v == (i % 100 + (1 << (i % 3))) as f64)
    );
}

#[test]
fn transcendental_values() {
    for dtype in [DType::F32, DType::F64] {
        let x = Array::new(dtype, &[77], |i| Scalar::Float(i as f64 / 10.0 - 4.0));
        let mut out = Array::empty(dtype, &[77]);
        call(Kernel::Sin, dtype, &mut out, &[&x], NONE).expect("sin");
        let tolerance = if dtype == DType::F32 { 2e-7 } else { 1e-15 };
        for (a, b) in out.to_f64().iter().zip(x.to_f64()) {
            assert!((a - b.sin()).abs() < tolerance, "sin({b}) = {a}");
        }
    }
}

#[test]
fn what_a_row_does_not_have_is_refused() {
    let x = Array::new(DType::Bool, &[3], small);
    let mut out = Array::empty(DType::Bool, &[3]);
    let e =
        call(Kernel::Neg, DType::Bool, &mut out, &[&x], NONE).expect_err("bool has no negation");
    assert!(e.to_string().contains("not implemented for bool"), "{e}");
}

#[test]
fn integer_division_by_zero_is_an_error() {
    for k in [Kernel::FloorDivide, Kernel::Remainder] {
        for n in [1, 3, 200, 70_000] {
            let x = Array::new(DType::I32, &[n], |_| Scalar::Int(7));
            let mut y = Array::new(DType::I16, &[n], |_| Scalar::Int(-2));
            let mut out = Array::empty(DType::I32, &[n]);
            call(k, DType::I32, &mut out, &[&x, &y], NONE).expect("no zero");
            assert_eq!(
                out.to_i64(),
                vec![if k == Kernel::Remainder { -1 } else { -4 }; n]
            );
            y.set(&[n - 1], Scalar::Int(0));
            let before = out.to_i64();
            let e = call(k, DType::I32, &mut out, &[&x, &y], NONE).expect_err("a zero");
            assert!(
                e.to_string()
                    .contains("ZeroDivisionError: integer division or modulo by zero"),
                "{e}"
            );
            assert_eq!(out.to_i64(), before, "nothing is written");
        }
        // 256 is 0 in uint8; floats divide by zero.
        let x = Array::ints(DType::U8, &[5, 6]);
        let number = Array::new(DType::I64, &[], |_| Scalar::Int(256));
        assert!(
            call(
                k,
                DType::U8,
                &mut Array::empty(DType::U8, &[2]),
                &[&x, &number],
                NONE
            )
            .is_err()
        );
        let (x, y) = (
            Array::floats(DType::F32, &[1.0]),
            Array::floats(DType::F32, &[0.0]),
        );
        call(
            k,
            DType::F32,
            &mut Array::empty(DType::F32, &[1]),
            &[&x, &y],
            NONE,
        )
        .expect("float");
        // Without elements there is nothing to divide.
        let none = Array::empty(DType::I64, &[0]);
        call(k, DType::I64, &mut none.clone(), &[&none, &none], NONE).expect("empty");
    }
}

#[test]
fn real_results_of_complex_operands() {
    let x = Array::new(DType::C64, &[50], |i| {
        Scalar::Complex(3.0 * i as f64, -4.0 * i as f64)
    });
    let mut out = Array::empty(DType::F32, &[50]);
    call(Kernel::Abs, DType::C64, &mut out, &[&x], NONE).expect("abs");
    assert_eq!(
        out.to_f64(),
        (0..50).map(|i| 5.0 * i as f64).collect::<Vec<_>>()
    );
    let x = Array::floats(DType::BF16, &[-1.5, 2.0, f64::NEG_INFINITY]);
    let mut out = Array::empty(DType::BF16, &[3]);
    call(Kernel::Abs, DType::BF16, &mut out, &[&x], NONE).expect("abs");
    assert_eq!(out.to_f64(), [1.5, 2.0, f64::INFINITY]);
}

#[test]
fn numbers_with_contiguous_tensors() {
    for n in [2, 9, 31, 32, 255, 256, 257, 1000, 70_000] {
        let x = Array::new(DType::F32, &[n], |i| Scalar::Int(i as i64 % 50));
        for number in [
            Array::new(DType::F64, &[], |_| Scalar::Float(0.5)),
            Array::floats(DType::F32, &[0.5]),
        ] {
            let mut out = Array::empty(DType::F32, &[n]);
            let expected: Vec<f64> = x.to_f64().iter().map(|v| v * 0.5).collect();
            call(Kernel::Mul, DType::F32, &mut out, &[&x, &number], NONE).expect("mul");
            assert_eq!(out.to_f64(), expected, "{n}");
            call(Kernel::Mul, DType::F32, &mut out, &[&number, &x], NONE).expect("mul");
            assert_eq!(out.to_f64(), expected, "{n}");
            call(Kernel::Add, DType::F32, &mut out, &[&number, &number], NONE).expect("add");
            assert_eq!(out.to_f64(), vec![1.0; n]);
            let mut y = x.clone();
            call_in_place(Kernel::Mul, DType::F32, &mut y, &[&number]).expect("mul");
            assert_eq!(y.to_f64(), expected);
        }
    }
}

#[test]
fn transposed_operands() {
    let shape = [3, 70, 90];
    for dtype in [DType::F32, DType::U8, DType::C128] {
        let x = Array::new(dtype, &shape, |i| Scalar::Int(i as i64 % 50));
        let y = Array::with_layout(dtype, &shape, &[6300, 1, 70], 0)
            .filled(|i| Scalar::Int(i as i64 % 31));
        let z = Array::with_layout(DType::U8, &shape, &[1, 3, 210], 0)
            .filled(|i| Scalar::Int(i as i64 % 29));
        for (a, b) in [(&x, &y), (&y, &x), (&x, &z), (&z, &y)] {
            let mut out = Array::empty(dtype, &shape);
            call(Kernel::Add, dtype, &mut out, &[a, b], NONE).expect("add");
            let expected: Vec<f64> = a
                .to_f64()
                .iter()
                .zip(b.to_f64())
                .map(|(a, b)| a + b)
                .collect();
            assert_eq!(out.to_f64(), expected);
        }
        let mut y = y.clone();
        let expected: Vec<f64> = x
            .to_f64()
            .iter()
            .zip(y.to_f64())
            .map(|(a, b)| a + b)
            .collect();
        call_in_place(Kernel::Add, dtype, &mut y, &[&x]).expect("add");
        assert_eq!(y.to_f64(), expected);
    }
}
