use super::*;
use crate::kernels::matmul::tests::Host;
use crate::testing::run;
use torsh_core::Kernel;

fn value(i: usize) -> f64 {
    ((i * 37 + 11) % 23) as f64 / 7.0 - 1.3
}

/// Cross-entropy by its definition: losses of the positions, weights that count.
fn naive(x: &Host<f64>, t: &[i64], w: &[f64], [n, c, s]: [usize; 3], e: f64) -> (Vec<f64>, f64) {
    let mut whole = 0.0;
    let mut losses = Vec::new();
    for i in 0..n * s {
        let score = |j: usize| x.data[(i / s * c + j) * s + i % s];
        let lse = (0..c).map(|j| score(j).exp()).sum::<f64>().ln();
        let Ok(t) = usize::try_from(t[i]) else {
            losses.push(0.0);
            continue;
        };
        whole += w[t];
        let all: f64 = (0..c).map(|j| w[j] * (lse - score(j))).sum();
        losses.push((1.0 - e) * w[t] * (lse - score(t)) + e / c as f64 * all);
    }
    (losses, whole)
}

fn close(got: f64, want: f64) {
    assert!(
        (got - want).abs() <= 1e-9 * (1.0 + want.abs()),
        "{got} instead of {want}"
    );
}

#[torsh_macros::unit_test]
fn cross_entropy_and_its_gradient() {
    for shape in [[5, 7, 1], [3, 40, 1], [2, 3, 5], [2, 4, 130]] {
        let [n, c, s] = shape;
        let mut x = Host::<f64>::new(&shape, value);
        let target = Host::<i64>::new(&[n, s], |i| {
            if i % 4 == 3 {
                -100
            } else {
                ((i * 5) % c) as i64
            }
        });
        let weight = Host::<f64>::new(&[c], |i| 0.5 + i as f64 / 3.0);
        for smoothing in [0.0, 0.3] {
            for reduction in [Reduction::None, Reduction::Sum, Reduction::Mean] {
                let attrs = attrs::CrossEntropy {
                    reduction,
                    ignore_index: -100,
                    label_smoothing: smoothing,
                };
                let of = if reduction == Reduction::None {
                    vec![n, s]
                } else {
                    vec![]
                };
                let loss = Host::<f64>::new(&of, |_| 9.0);
                let lse = Host::<f64>::new(&[n, s], |_| 9.0);
                let whole = Host::<f64>::new(&[], |_| 9.0);
                let outputs = [loss.view(), lse.view(), whole.view()];
                run(
                    Kernel::CrossEntropy,
                    DType::F64,
                    &outputs,
                    &[x.view(), target.view(), weight.view()],
                    &attrs,
                )
                .expect("a loss");
                let reduce = |(losses, whole): (Vec<f64>, f64), g: &[f64]| match reduction {
                    Reduction::None => losses.iter().zip(g).map(|(l, g)| l * g).sum::<f64>(),
                    Reduction::Sum => g[0] * losses.iter().sum::<f64>(),
                    Reduction::Mean => g[0] * losses.iter().sum::<f64>() / whole,
                };
                let ones = vec![1.0; n * s];
                let want = reduce(
                    naive(&x, &target.data, &weight.data, shape, smoothing),
                    &ones,
                );
                close(loss.data.iter().sum(), want);
                let g = Host::<f64>::new(&of, |i| 1.0 + i as f64 / 9.0);
                let grad = Host::<f64>::new(&shape, |_| 9.0);
                let inputs = [
                    g.view(),
                    x.view(),
                    target.view(),
                    weight.view(),
                    lse.view(),
                    whole.view(),
                ];
                run(
                    Kernel::CrossEntropyBackward,
                    DType::F64,
                    &[grad.view()],
                    &inputs,
                    &attrs,
                )
                .expect("a gradient");
                for i in [0, 1, n * c * s / 2, n * c * s - 1] {
                    let mut at = |d: f64| {
                        let old = x.data[i];
                        x.data[i] = old + d;
                        let v = reduce(
                            naive(&x, &target.data, &weight.data, shape, smoothing),
                            &g.data,
                        );
                        x.data[i] = old;
                        v
                    };
                    let slope = (at(1e-5) - at(-1e-5)) / 2e-5;
                    assert!(
                        (grad.data[i] - slope).abs() < 1e-7,
                        "{shape:?} {reduction:?} {i}: {} {slope}",
                        grad.data[i]
                    );
                }
            }
        }
    }
}

#[torsh_macros::unit_test]
fn sums_of_long_rows_and_of_what_is_not_finite() {
    let inf = f64::INFINITY;
    for c in [1, 31, 1000, 1024, 1025, 5000] {
        // The maximum grows from stretch to stretch, the first rows begin with -inf.
        let rows = 6;
        let score = |i: usize| match (i / c, i % c) {
            (0, j) if j < c / 2 => -inf,
            (1, _) => -inf,
            (2, j) if j == c / 2 => inf,
            (3, j) if j == c - 1 => f64::NAN,
            (4, j) => 1e30 * (j % 2) as f64,
            (_, j) => value(j) + j as f64 / 100.0,
        };
        let x = Host::<f32>::new(&[rows, c], |i| score(i) as f32);
        let target = Host::<i64>::new(&[rows], |_| (c - 1) as i64);
        let loss = Host::<f32>::new(&[rows], |_| 9.0);
        let lse = Host::<f32>::new(&[rows], |_| 9.0);
        let whole = Host::<f32>::new(&[], |_| 9.0);
        let attrs = attrs::CrossEntropy {
            reduction: Reduction::None,
            ignore_index: -100,
            label_smoothing: 0.0,
        };
        run(
            Kernel::CrossEntropy,
            DType::F64,
            &[loss.view(), lse.view(), whole.view()],
            &[x.view(), target.view()],
            &attrs,
        )
        .expect("a loss");
        for (r, &got) in lse.data.iter().enumerate() {
            let row = x.data[r * c..][..c].iter().map(|&v| f64::from(v));
            let top = row.clone().fold(-inf, f64::max);
            let want = top + row.map(|v| (v - top).exp()).sum::<f64>().ln();
            let close = (f64::from(got) - want).abs() <= 3e-7 * (1.0 + want.abs());
            assert!(
                close || want.is_nan() && got.is_nan(),
                "{c} {r}: {got} for {want}"
            );
        }
    }
}

#[torsh_macros::unit_test]
fn nll_loss_picks_and_scatters() {
    let x = Host::<f32>::new(&[3, 2], |i| i as f32);
    let target = Host::<i64>::new(&[3], |i| [1, 7, 0][i]);
    let weight = Host::<f32>::new(&[2], |i| [2.0, 3.0][i]);
    let (loss, whole) = (
        Host::<f32>::new(&[], |_| 9.0),
        Host::<f32>::new(&[], |_| 9.0),
    );
    let (reduction, ignore_index) = (Reduction::Mean, 7);
    let attrs = attrs::NllLoss {
        reduction,
        ignore_index,
    };
    let inputs = [x.view(), target.view(), weight.view()];
    run(
        Kernel::NllLoss,
        DType::F64,
        &[loss.view(), whole.view()],
        &inputs,
        &attrs,
    )
    .expect("a loss");
    assert_eq!(
        (loss.data[0], whole.data[0]),
        (-(3.0 * 1.0 + 2.0 * 4.0) / 5.0, 5.0)
    );
    let g = Host::<f32>::new(&[], |_| 10.0);
    let grad = Host::<f32>::new(&[3, 2], |_| 9.0);
    let inputs = [g.view(), target.view(), weight.view(), whole.view()];
    let attrs = attrs::NllLossBackward {
        reduction,
        ignore_index,
        output_shape: grad.shape[..].into(),
    };
    let outputs = [grad.view()];
    run(
        Kernel::NllLossBackward,
        DType::F64,
        &outputs,
        &inputs,
        &attrs,
    )
    .expect("a gradient");
    assert_eq!(grad.data, [0.0, -6.0, 0.0, 0.0, -4.0, 0.0]);
}

#[torsh_macros::unit_test]
fn a_class_that_is_not_there_is_an_error() {
    let x = Host::<f32>::new(&[1, 2], |i| i as f32);
    let (loss, whole) = (
        Host::<f32>::new(&[], |_| 9.0),
        Host::<f32>::new(&[], |_| 9.0),
    );
    for bad in [2, -1] {
        let target = Host::<i64>::new(&[1], |_| bad);
        let attrs = attrs::NllLoss {
            reduction: Reduction::Mean,
            ignore_index: -100,
        };
        let outputs = [loss.view(), whole.view()];
        let e = run(
            Kernel::NllLoss,
            DType::F64,
            &outputs,
            &[x.view(), target.view()],
            &attrs,
        );
        assert!(
            e.expect_err("refused")
                .to_string()
                .contains("out of bounds")
        );
    }
}
