use super::*;
use crate::kernels::matmul::tests::Host;
use crate::testing;
use torsh_core::{Attributes, Element};

/// A maximum pooling: window, stride, padding, dilation.
fn maxima<const N: usize>(sizes: [[i64; N]; 4], shape: &[usize], indices: bool) -> attrs::MaxPool {
    let [kernel_size, stride, padding, dilation] = sizes.map(|v| v[..].into());
    attrs::MaxPool {
        kernel_size,
        stride,
        padding,
        dilation,
        return_indices: indices,
        output_shape: shape.into(),
    }
}

/// An average pooling: window, stride, padding.
fn averages<const N: usize>(sizes: [[i64; N]; 3], shape: &[usize]) -> attrs::AvgPool {
    let [kernel_size, stride, padding] = sizes.map(|v| v[..].into());
    attrs::AvgPool {
        kernel_size,
        stride,
        padding,
        count_include_pad: true,
        divisor_override: None,
        output_shape: shape.into(),
    }
}

fn call<T: Element>(input: &Host<T>, out: [usize; 2], sizes: [[i64; 2]; 4]) -> (Vec<T>, Vec<i64>) {
    let shape = [input.shape[0], input.shape[1], out[0], out[1]];
    let values = Host::<T>::new(&shape, |_| T::default());
    let indices = Host::<i64>::new(&shape, |_| -1);
    let (outputs, inputs) = ([values.view(), indices.view()], [input.view()]);
    let attrs = maxima(sizes, &shape, true);
    testing::run(Kernel::MaxPool, T::DTYPE, &outputs, &inputs, &attrs).expect("a pooling");
    (values.data, indices.data)
}

#[torsh_macros::unit_test]
fn windows_follow_stride_padding_and_dilation() {
    let input = Host::<i32>::new(&[1, 1, 4, 5], |i| (i as i32 * 7) % 20);
    // 0 7 14 1 8 / 15 2 9 16 3 / 10 17 4 11 18 / 5 12 19 6 13
    let (v, i) = call(&input, [2, 2], [[2, 2], [2, 2], [0, 0], [1, 1]]);
    assert_eq!((v, i), (vec![15, 16, 17, 19], vec![5, 8, 11, 17]));
    let (v, i) = call(&input, [2, 3], [[3, 2], [2, 2], [1, 1], [1, 2]]);
    // Columns of the windows: {-1, 1}, {1, 3}, {3, 5}.
    assert_eq!(
        (v, i),
        (vec![7, 16, 16, 17, 17, 16], vec![1, 8, 8, 11, 11, 8])
    );
}

#[torsh_macros::unit_test]
fn the_last_nan_wins_and_infinities_keep_the_first_place() {
    let (nan, inf) = (f32::NAN, f32::NEG_INFINITY);
    let data = [nan, 1.0, inf, inf, 2.0, nan, inf, inf];
    let input = Host::<f32>::new(&[1, 1, 2, 4], |i| data[i]);
    for stride in [[2, 2], [1, 2]] {
        let (v, i) = call(&input, [1, 2], [[2, 2], stride, [0, 0], [1, 1]]);
        assert!(v[0].is_nan() && v[1] == inf);
        assert_eq!(i, [5, 2]);
    }
}

#[torsh_macros::unit_test]
fn the_gradient_goes_to_the_maxima() {
    let grad = Host::<f64>::new(&[2, 1, 1, 3], |i| i as f64 + 1.0);
    let indices = Host::<i64>::new(&[2, 1, 1, 3], |i| [3, 0, 3, 1, 1, 1][i]);
    let out = Host::<f64>::new(&[2, 1, 2, 2], |_| 9.0);
    let run = |indices: &Host<i64>| {
        let (outputs, inputs) = ([out.view()], [grad.view(), indices.view()]);
        let attrs = attrs::MaxPoolBackward {
            spatial: 2,
            output_shape: out.shape[..].into(),
        };
        let kernel = Kernel::MaxPoolBackward;
        testing::run(kernel, DType::F64, &outputs, &inputs, &attrs)
    };
    run(&indices).expect("a gradient");
    assert_eq!(out.data, [2.0, 0.0, 0.0, 4.0, 0.0, 15.0, 0.0, 0.0]);
    let far = Host::<i64>::new(&[2, 1, 1, 3], |_| 4);
    assert!(run(&far).is_err());
}

/// Calls one of the kernels with float64 operands.
fn floats(
    kernel: Kernel,
    input: &Host<f64>,
    shape: &[usize],
    attrs: &dyn Attributes,
) -> (Vec<f64>, Vec<i64>) {
    let out = Host::<f64>::new(shape, |_| 99.0);
    let indices = Host::<i64>::new(shape, |_| -1);
    let both = [out.view(), indices.view()];
    let indexed = matches!(kernel, Kernel::MaxPool | Kernel::AdaptiveMaxPool);
    let outputs = &both[..1 + usize::from(indexed)];
    testing::run(kernel, DType::F64, outputs, &[input.view()], attrs).expect("a pooling");
    (out.data, indices.data)
}

#[torsh_macros::unit_test]
fn averages_count_what_they_are_told_to() {
    let x = Host::<f64>::new(&[1, 5], |i| i as f64 + 1.0);
    let attrs = |padded, divisor, shape: &[usize]| attrs::AvgPool {
        count_include_pad: padded,
        divisor_override: divisor,
        ..averages([[3], [2], [1]], shape)
    };
    let run = |padded, divisor| {
        let attrs = attrs(padded, divisor, &[1, 3]);
        floats(Kernel::AvgPool, &x, &[1, 3], &attrs).0
    };
    assert_eq!(run(true, None), [1.0, 3.0, 3.0]);
    assert_eq!(run(false, None), [1.5, 3.0, 4.5]);
    assert_eq!(run(true, Some(-2)), [-1.5, -4.5, -4.5]);
    // The transpose gives back each window's share.
    let g = Host::<f64>::new(&[1, 3], |i| [2.0, 3.0, 4.0][i]);
    let to = attrs(false, None, &[1, 5]);
    let (back, _) = floats(Kernel::AvgPoolBackward, &g, &[1, 5], &to);
    assert_eq!(back, [1.0, 2.0, 1.0, 3.0, 2.0]);
}

#[torsh_macros::unit_test]
fn adaptive_windows_share_the_input_and_overlap() {
    let x = Host::<f64>::new(&[2, 2, 5], |i| (i * 7 % 20) as f64);
    let attrs = |shape: &[usize]| attrs::AdaptiveAvgPool {
        spatial: 2,
        output_shape: shape.into(),
    };
    let shape = [2, 1, 3];
    let of_maxima = attrs::AdaptiveMaxPool {
        spatial: 2,
        return_indices: true,
        output_shape: shape[..].into(),
    };
    // Rows 0 7 14 1 8 / 15 2 9 16 3 and 10 17 4 11 18 / 5 12 19 6 13; columns 0-2, 1-4, 3-5.
    let (v, i) = floats(Kernel::AdaptiveMaxPool, &x, &shape, &of_maxima);
    assert_eq!(v, [15.0, 16.0, 16.0, 17.0, 19.0, 18.0]);
    assert_eq!(i, [5, 8, 8, 1, 7, 4]);
    let (v, _) = floats(Kernel::AdaptiveAvgPool, &x, &shape, &attrs(&shape));
    assert_eq!(v[0], 24.0 / 4.0);
    assert_eq!(v[4], (17 + 4 + 11 + 12 + 19 + 6) as f64 / 6.0);
    let g = Host::<f64>::new(&shape, |_| 12.0);
    let to = attrs(&x.shape);
    let (back, _) = floats(Kernel::AdaptiveAvgPoolBackward, &g, &x.shape, &to);
    assert_eq!(
        back[..10],
        [3.0, 5.0, 2.0, 5.0, 3.0, 3.0, 5.0, 2.0, 5.0, 3.0]
    );
}

#[torsh_macros::unit_test]
fn volumes_are_pooled_over_all_three() {
    let x = Host::<f64>::new(&[1, 2, 2, 4], |i| (i * 5 % 16) as f64);
    let (two, zero, one) = ([2i64; 3], [0i64; 3], [1i64; 3]);
    let shape = [1, 1, 1, 2];
    // 0 5 10 15 / 4 9 14 3 and 8 13 2 7 / 12 1 6 11.
    let (v, i) = floats(
        Kernel::MaxPool,
        &x,
        &shape,
        &maxima([two, two, zero, one], &shape, true),
    );
    assert_eq!((v, i), (vec![13.0, 15.0], vec![9, 3]));
    let means = averages([two, two, zero], &shape);
    let (v, _) = floats(Kernel::AvgPool, &x, &shape, &means);
    assert_eq!(v, [52.0 / 8.0, 68.0 / 8.0]);
}

/// Maxima and means of images of every width, window, stride, padding and dilation against windows
/// looked through one by one; with nan, infinities and equal numbers among them.
#[torsh_macros::unit_test]
fn runs_of_windows_are_as_single_ones() {
    let value = |i: usize| match i * 37 % 101 {
        3 => f64::NAN,
        5 | 7 => f64::NEG_INFINITY,
        n => (n % 17) as f64,
    };
    let mean_value = |i: usize| (i * 37 % 101) as f64;
    for width in [4usize, 9, 17, 40, 150] {
        for (k, stride, padding, dilation) in [
            (2, 2, 0, 1),
            (3, 2, 1, 1),
            (3, 1, 1, 1),
            (2, 1, 0, 2),
            (3, 2, 1, 2),
            (5, 3, 2, 1),
        ] {
            let span = (k - 1) * dilation + 1;
            let (height, depth) = (7usize, 2usize);
            let of = |n: usize| (n + 2 * padding).checked_sub(span).map(|n| n / stride + 1);
            let (Some(rows), Some(columns)) = (of(height), of(width)) else {
                continue;
            };
            let x = Host::<f64>::new(&[depth, height, width], value);
            let n = |v: usize| [v as i64; 2];
            let (k2, s2, p2, d2) = (n(k), n(stride), n(padding), n(dilation));
            let shape = [depth, rows, columns];
            let indexed = maxima([k2, s2, p2, d2], &shape, true);
            let (got, at) = floats(Kernel::MaxPool, &x, &shape, &indexed);
            let attrs = maxima([k2, s2, p2, d2], &shape, false);
            assert_maxima::<f64>(&x.data, [depth, height, width], &got, shape, &attrs);
            let single: Vec<f32> = x.data.iter().map(|&v| v as f32).collect();
            let want: Vec<f32> = got.iter().map(|&v| v as f32).collect();
            assert_maxima(&single, [depth, height, width], &want, shape, &attrs);
            let means = Host::<f64>::new(&[depth, height, width], mean_value);
            let plain = averages([k2, s2, p2], &shape);
            let averaged =
                (dilation == 1).then(|| floats(Kernel::AvgPool, &means, &shape, &plain).0);
            for i in 0..depth * rows * columns {
                let (plane, y, x0) = (i / (rows * columns), i / columns % rows, i % columns);
                let (mut best, mut index, mut sum) = (f64::NEG_INFINITY, None, 0.0);
                for a in 0..k {
                    for b in 0..k {
                        let row = (y * stride + a * dilation).wrapping_sub(padding);
                        let column = (x0 * stride + b * dilation).wrapping_sub(padding);
                        if row < height && column < width {
                            let place = row * width + column;
                            let v = value(plane * height * width + place);
                            sum += mean_value(plane * height * width + place);
                            if index.is_none() || v > best || v.is_nan() {
                                (best, index) = (v, Some(place as i64));
                            }
                        }
                    }
                }
                let same = got[i] == best || got[i].is_nan() && best.is_nan();
                assert!(
                    same && Some(at[i]) == index,
                    "{width} {k} {stride} {padding} {i}"
                );
                if let Some(averaged) = &averaged {
                    let count =
                        |i: usize, n: usize| (i * stride + k).min(n + 2 * padding) - i * stride;
                    let mean = sum / (count(y, height) * count(x0, width)) as f64;
                    assert!(
                        (averaged[i] - mean).abs() < 1e-12,
                        "{width} {k} {stride} {i}"
                    );
                }
            }
        }
    }
}

/// Checks maxima that are computed without their places.
fn assert_maxima<T: Element + PartialEq + std::fmt::Debug>(
    x: &[T],
    input: [usize; 3],
    want: &[T],
    output: [usize; 3],
    attrs: &attrs::MaxPool,
) {
    let x = Host::<T>::new(&input, |i| x[i]);
    let out = Host::<T>::new(&output, |_| T::default());
    let (outputs, inputs) = ([out.view()], [x.view()]);
    testing::run(Kernel::MaxPool, T::DTYPE, &outputs, &inputs, attrs).expect("a pooling");
    for (i, (got, want)) in out.data.iter().zip(want).enumerate() {
        let nan = |v: &T| !v.eq(v);
        assert!(got == want || nan(got) && nan(want), "{attrs:?} {i}");
    }
}

/// The gradient against each window's share given to its elements one by one.
#[torsh_macros::unit_test]
fn shares_of_averages_go_to_what_the_windows_hold() {
    for width in [4usize, 9, 40, 70] {
        for (k, stride, padding, counted) in [
            (2, 2, 0, true),
            (3, 2, 1, true),
            (3, 2, 1, false),
            (3, 1, 1, true),
            (5, 3, 2, false),
            (7, 7, 0, true),
        ] {
            let height = 9usize;
            let of = |n: usize| (n + 2 * padding).checked_sub(k).map(|n| n / stride + 1);
            let (Some(rows), Some(columns)) = (of(height), of(width)) else {
                continue;
            };
            let grad = Host::<f64>::new(&[2, rows, columns], |i| (i * 37 % 101) as f64);
            let (k2, s2, p2) = ([k as i64; 2], [stride as i64; 2], [padding as i64; 2]);
            let shape = [2, height, width];
            let attrs = attrs::AvgPool {
                count_include_pad: counted,
                ..averages([k2, s2, p2], &shape)
            };
            let (got, _) = floats(Kernel::AvgPoolBackward, &grad, &shape, &attrs);
            let mut want = vec![0.0; 2 * height * width];
            for (i, &v) in grad.data.iter().enumerate() {
                let (plane, y, x) = (i / rows / columns, i / columns % rows, i % columns);
                let held = |at: usize, n: usize| {
                    let all = at * stride..(at * stride + k).min(n + 2 * padding);
                    let inside =
                        (all.start.max(padding) - padding)..(all.end.max(padding) - padding).min(n);
                    (if counted { all.len() } else { inside.len() }, inside)
                };
                let ((ny, ys), (nx, xs)) = (held(y, height), held(x, width));
                for (y, x) in ys.flat_map(|y| xs.clone().map(move |x| (y, x))) {
                    want[(plane * height + y) * width + x] += v / (ny * nx) as f64;
                }
            }
            for (i, (got, want)) in got.iter().zip(&want).enumerate() {
                assert!((got - want).abs() < 1e-9, "{width} {k} {stride} {i}");
            }
        }
    }
}
