//! Steps of some rows.

use torsh_core::attrs::{STEP_FLAGS, STEP_NUMBERS, StepNames, StepPart, Steps};
use torsh_core::cmath::pow;
use torsh_core::steps::numbers::{SgdStep, SparseAdamStep};
use torsh_core::{DType, Element, Kernel, View, pool};

use crate::testing::run;

fn view<'a, T: Element>(data: &'a mut [T], shape: &'a [usize], strides: &'a [isize]) -> View<'a> {
    // SAFETY: the shapes of the tests have as many elements as their slices, which outlive the calls.
    unsafe { View::new(data.as_mut_ptr().cast(), T::DTYPE, shape, strides) }
}

/// A step with a list of rows.
fn of_rows(names: &'static StepNames, present: u8, step: f64, given: &[f64]) -> Steps {
    let mut numbers = [0.0; STEP_NUMBERS];
    numbers[..given.len()].copy_from_slice(given);
    let part = StepPart {
        present,
        maximize: false,
        weight_decay: 0.0,
        shrink: 1.0,
        step,
        numbers,
        flags: [false; STEP_FLAGS],
    };
    Steps {
        names,
        parts: vec![part],
        counted: false,
        rows: true,
        conditional: false,
    }
}

#[torsh_macros::unit_test]
fn rows_have_the_step_and_the_others_stay() {
    const ROWS: usize = 5000;
    const WIDTH: usize = 3;
    let [lr, beta1, beta2, eps, step] = [0.1, 0.9, 0.99, 1e-3, 4.0];
    let mut index: Vec<i64> = (0..ROWS as i64).filter(|i| i % 3 != 1).collect();
    let n = index.len();
    let number = |i: usize, from: usize| ((i * 7919 + from) % 1009) as f64 / 97.0;
    let mut grad: Vec<f64> = (0..n * WIDTH).map(|i| number(i, 1) - 4.0).collect();
    let start: [Vec<f64>; 3] =
        [2, 3, 4].map(|from| (0..ROWS * WIDTH).map(|i| number(i, from)).collect());
    let mut want = start.clone();
    let [p, m, v] = &mut want;
    let size = lr * (1.0 - pow(beta2, step)).sqrt() / (1.0 - pow(beta1, step));
    for (i, &row) in index.iter().enumerate() {
        for j in 0..WIDTH {
            let (at, g) = (row as usize * WIDTH + j, grad[i * WIDTH + j]);
            m[at] += (g - m[at]) * (1.0 - beta1);
            v[at] += (g * g - v[at]) * (1.0 - beta2);
            p[at] += m[at] / (v[at].sqrt() + eps) * -size;
        }
    }
    let attrs = of_rows(SparseAdamStep::NAMES, 0b11, step, &[lr, beta1, beta2, eps]);
    let strides = [WIDTH as isize, 1];
    let before = pool::num_threads();
    for threads in [1, 3] {
        pool::set_num_threads(threads).expect("a count");
        let mut got = start.clone();
        let outputs = got
            .each_mut()
            .map(|data| view(data, &[ROWS, WIDTH], &strides));
        let rows = [n, WIDTH];
        let inputs = [
            view(&mut grad, &rows, &strides),
            view(&mut index, &rows[..1], &strides[1..]),
        ];
        run(
            Kernel::SparseAdamStep,
            DType::F64,
            &outputs,
            &inputs,
            &attrs,
        )
        .expect("a step");
        assert!(got == want, "with {threads} threads");
    }
    pool::set_num_threads(before).expect("a count");
}

/// The error of SGD's step of a parameter of 5 rows of 2 elements, which stays as it was.
fn refused<T: Element>(index: &mut [T], rows: usize, strides: [isize; 2]) -> String {
    let mut param = [7f32; 10];
    let mut grad = vec![1f32; rows * 2];
    let attrs = of_rows(SgdStep::NAMES, 0, 1.0, &[0.5, 0.0, 1.0]);
    let list = [index.len()];
    let e = run(
        Kernel::SgdStep,
        DType::F32,
        &[view(&mut param, &[5, 2], &strides)],
        &[
            view(&mut grad, &[rows, 2], &[2, 1]),
            view(index, &list, &[1]),
        ],
        &attrs,
    );
    assert_eq!(param, [7.0; 10]);
    e.expect_err("wrong rows").to_string()
}

#[torsh_macros::unit_test]
fn wrong_rows_are_refused_before_anything_is_written() {
    for (mut index, bad) in [
        ([0, 5], 5),
        ([-1, 2], -1),
        ([0, i64::MAX], i64::MAX),
        ([i64::MIN, 0], i64::MIN),
    ] {
        let e = refused(&mut index, 2, [2, 1]);
        let text = format!("index {bad} is out of bounds for the 5 rows");
        assert!(e.contains(&text), "{e}");
    }
    for (mut index, text) in [
        ([3, 3], "row 3 of a gradient follows its row 3"),
        ([4, 1], "row 1 of a gradient follows its row 4"),
    ] {
        let e = refused::<i64>(&mut index, 2, [2, 1]);
        assert!(e.contains(text) && e.contains("coalesced"), "{e}");
    }
    for e in [
        refused(&mut [0i32, 1], 2, [2, 1]),
        refused(&mut [0i64, 1, 2], 2, [2, 1]),
        refused(&mut [0i64], 3, [2, 1]),
        refused(&mut [0i64, 1], 2, [1, 5]),
    ] {
        assert!(e.contains("cannot be the rows of float32[5, 2]"), "{e}");
    }
}

#[torsh_macros::unit_test]
fn steps_of_some_rows_are_of_one_parameter_in_single_or_double_precision() {
    let mut attrs = of_rows(SgdStep::NAMES, 0, 1.0, &[0.5, 0.0, 1.0]);
    let (mut param, mut grad) = ([half::f16::ONE; 4], [half::f16::ONE; 2]);
    let mut index = [1i64];
    let e = run(
        Kernel::SgdStep,
        DType::F16,
        &[view(&mut param, &[2, 2], &[2, 1])],
        &[
            view(&mut grad, &[1, 2], &[2, 1]),
            view(&mut index, &[1], &[1]),
        ],
        &attrs,
    );
    let e = e.expect_err("a half type").to_string();
    assert!(e.contains("float32 or float64, not float16"), "{e}");
    let (mut params, mut grads) = ([[1f32; 4]; 2], [[1f32; 2]; 2]);
    attrs.parts.push(attrs.parts[0]);
    let outputs = params.each_mut().map(|data| view(data, &[2, 2], &[2, 1]));
    let [a, b] = &mut grads;
    let inputs = [
        view(a, &[1, 2], &[2, 1]),
        view(b, &[1, 2], &[2, 1]),
        view(&mut index, &[1], &[1]),
    ];
    let e = run(Kernel::SgdStep, DType::F32, &outputs, &inputs, &attrs);
    let e = e.expect_err("two parameters").to_string();
    assert!(e.contains("of one parameter"), "{e}");
    assert_eq!(params, [[1.0; 4]; 2]);
}
