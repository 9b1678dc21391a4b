use half::bf16;

use super::*;
use crate::kernels::matmul::tests::Host;
use crate::testing;

fn value(i: usize) -> f64 {
    ((i * 7 + 3) % 5) as f64 - 2.0
}

/// One case: images, groups, channels of a group, sizes, and the attributes.
type Case = (
    usize,
    usize,
    usize,
    usize,
    [usize; 2],
    [usize; 2],
    [i64; 2],
    [i64; 2],
    [i64; 2],
);

const CASES: &[Case] = &[
    (2, 1, 3, 4, [7, 9], [3, 3], [1, 1], [0, 0], [1, 1]),
    (1, 1, 2, 3, [8, 8], [3, 2], [2, 1], [1, 2], [1, 2]),
    (3, 2, 2, 3, [6, 5], [2, 3], [1, 2], [2, 1], [2, 1]),
    (2, 4, 1, 1, [9, 9], [3, 3], [1, 1], [1, 1], [1, 1]),
    (2, 3, 1, 2, [9, 8], [3, 3], [2, 3], [1, 1], [1, 1]),
    (2, 1, 5, 6, [10, 11], [1, 1], [1, 1], [0, 0], [1, 1]),
    (5, 1, 16, 32, [14, 14], [3, 3], [1, 1], [1, 1], [1, 1]),
    (1, 1, 1, 16, [40, 70], [5, 5], [1, 1], [2, 2], [1, 1]),
    (1, 1, 1, 1, [2, 2], [3, 3], [1, 1], [3, 3], [1, 1]),
    (1, 8, 4, 4, [12, 12], [3, 3], [1, 1], [1, 1], [1, 1]),
    // Few channels: tails, phases of the gradient, more padding than window, more step than window.
    (2, 3, 1, 1, [5, 61], [3, 3], [1, 1], [1, 1], [1, 1]),
    (2, 2, 1, 2, [13, 37], [5, 5], [2, 2], [2, 2], [1, 1]),
    (1, 2, 1, 1, [11, 29], [3, 3], [2, 2], [2, 2], [2, 3]),
    (1, 2, 1, 3, [9, 30], [2, 2], [4, 3], [0, 0], [1, 1]),
    (1, 3, 1, 1, [4, 6], [1, 1], [1, 1], [2, 1], [1, 1]),
    (1, 1, 20, 3, [9, 33], [3, 3], [1, 1], [1, 1], [1, 1]),
    (1, 1, 3, 20, [17, 33], [3, 3], [2, 2], [1, 1], [1, 1]),
    (1, 2, 9, 7, [6, 10], [3, 3], [1, 1], [1, 1], [1, 1]),
    // Whole images by one product, which threads share where there are few.
    (1, 1, 96, 160, [20, 23], [1, 1], [1, 1], [0, 0], [1, 1]),
    (3, 1, 64, 96, [14, 14], [1, 1], [1, 1], [0, 0], [1, 1]),
];

fn out_size(input: usize, kernel: usize, stride: i64, padding: i64, dilation: i64) -> usize {
    ((input as i64 + 2 * padding - dilation * (kernel as i64 - 1) - 1) / stride + 1) as usize
}

fn run(
    kernel: Kernel,
    (_, groups, _, _, _, _, stride, padding, dilation): &Case,
    out: View<'_>,
    inputs: &[View<'_>],
) {
    let attrs = attrs::Conv {
        stride: (*stride).into(),
        padding: (*padding).into(),
        dilation: (*dilation).into(),
        groups: *groups,
        output_shape: out.shape().into(),
    };
    testing::run(kernel, out.dtype(), &[out], inputs, &attrs).expect("a convolution");
}

/// Calls `f(out, in, weight)` with the indices of every product.
fn each(case: &Case, mut f: impl FnMut([usize; 4], [usize; 4], [usize; 4])) {
    let &(n, groups, ci, co, [h, w], [kh, kw], [sh, sw], [ph, pw], [dh, dw]) = case;
    let (oh, ow) = (out_size(h, kh, sh, ph, dh), out_size(w, kw, sw, pw, dw));
    for image in 0..n {
        for o in 0..groups * co {
            for (y, x) in (0..oh).flat_map(|y| (0..ow).map(move |x| (y, x))) {
                for c in 0..ci {
                    for (ky, kx) in (0..kh).flat_map(|y| (0..kw).map(move |x| (y, x))) {
                        let iy = y as i64 * sh + ky as i64 * dh - ph;
                        let ix = x as i64 * sw + kx as i64 * dw - pw;
                        if (0..h as i64).contains(&iy) && (0..w as i64).contains(&ix) {
                            let channel = o / co * ci + c;
                            f(
                                [image, o, y, x],
                                [image, channel, iy as usize, ix as usize],
                                [o, c, ky, kx],
                            );
                        }
                    }
                }
            }
        }
    }
}

macro_rules! against_naive {
    ($cases:expr, $t:ty, $of:expr, $to:expr, $gradients:expr) => {
        for case in $cases {
            let of: fn(f64) -> $t = $of;
            let to: fn($t) -> f64 = $to;
            let &(n, groups, ci, co, [h, w], [kh, kw], [sh, sw], [ph, pw], [dh, dw]) = case;
            let (oh, ow) = (out_size(h, kh, sh, ph, dh), out_size(w, kw, sw, pw, dw));
            let input = Host::<$t>::new(&[n, groups * ci, h, w], |i| of(value(i)));
            let weight = Host::<$t>::new(&[groups * co, ci, kh, kw], |i| of(value(i + 1)));
            let bias = Host::<$t>::new(&[groups * co], |i| of(value(i + 2)));
            let grad = Host::<$t>::new(&[n, groups * co, oh, ow], |i| of(value(i + 3)));
            let same = |got: &Host<$t>, want: &Host<f64>| {
                for (i, (&g, &w)) in got.data.iter().zip(&want.data).enumerate() {
                    assert_eq!(to(g), to(of(w)), "{case:?} at {i}");
                }
            };

            let mut want =
                Host::<f64>::new(&grad.shape, |i| value(i / (oh * ow) % bias.data.len() + 2));
            each(case, |o, i, k| {
                *want.get_mut(&o) += to(input.get(&i)) * to(weight.get(&k))
            });
            let out = Host::<$t>::new(&grad.shape, |_| of(99.0));
            run(
                Kernel::Conv,
                case,
                out.view(),
                &[input.view(), weight.view(), bias.view()],
            );
            same(&out, &want);
            if !$gradients {
                continue;
            }
            let mut want = Host::<f64>::new(&input.shape, |_| 0.0);
            each(case, |o, i, k| {
                *want.get_mut(&i) += to(grad.get(&o)) * to(weight.get(&k))
            });
            let out = Host::<$t>::new(&input.shape, |_| of(99.0));
            run(
                Kernel::ConvTranspose,
                case,
                out.view(),
                &[grad.view(), weight.view()],
            );
            same(&out, &want);

            let mut want = Host::<f64>::new(&weight.shape, |_| 0.0);
            each(case, |o, i, k| {
                *want.get_mut(&k) += to(grad.get(&o)) * to(input.get(&i))
            });
            let out = Host::<$t>::new(&weight.shape, |_| of(99.0));
            run(
                Kernel::ConvWeight,
                case,
                out.view(),
                &[grad.view(), input.view()],
            );
            same(&out, &want);
        }
    };
}

#[torsh_macros::unit_test]
fn f32_is_exact_on_small_integers() {
    against_naive!(CASES, f32, |v| v as f32, |v| v as f64, true);
}

#[torsh_macros::unit_test]
fn f64_is_exact_on_small_integers() {
    against_naive!(CASES, f64, |v| v, |v| v, true);
}

#[torsh_macros::unit_test]
fn bf16_rounds_once() {
    against_naive!(CASES, bf16, bf16::from_f64, |v| v.to_f64(), true);
}

/// On the matrix unit, also where another algorithm is faster.
#[cfg(target_arch = "x86_64")]
#[torsh_macros::unit_test]
fn the_matrix_unit_is_exact_on_small_integers() {
    let more: &[Case] = &[
        (1, 1, 3, 64, [40, 50], [7, 7], [2, 2], [3, 3], [1, 1]),
        (2, 1, 32, 64, [24, 26], [5, 5], [2, 2], [2, 2], [1, 1]),
        (1, 2, 40, 96, [27, 60], [2, 3], [4, 1], [3, 7], [1, 2]),
        (1, 1, 70, 128, [14, 15], [1, 1], [1, 1], [0, 0], [1, 1]),
    ];
    let Some(unit) = crate::simd::isa::stand_in() else {
        return;
    };
    // By products, and what is chosen for each.
    against_naive!(more, f32, |v| v as f32, |v| v as f64, true);
    unit.assert_used();
    let force = crate::operations::Force::new("conv", "amx").unwrap();
    let all = CASES.iter().chain(more);
    against_naive!(all, f32, |v| v as f32, |v| v as f64, false);
    assert!(force.taken() > 0);
}

#[torsh_macros::unit_test]
fn int64_and_complex_are_exact() {
    against_naive!(CASES, i64, |v| v as i64, |v| v as f64, false);
    against_naive!(
        CASES,
        Complex<f64>,
        |v| Complex::new(v, 0.0),
        |v| v.re,
        true
    );
}

/// Geometry of volumes: images, groups, channels of a group, sizes, stride, padding, dilation.
type Volume = (
    [usize; 4],
    [usize; 3],
    [usize; 3],
    [usize; 3],
    [usize; 3],
    [usize; 3],
);

/// Calls `f(out, in, weight)` with the flat indices of every product.
fn each_volume(case: &Volume, out: [usize; 3], mut f: impl FnMut(usize, usize, usize)) {
    let &([n, groups, ci, co], input, kernel, stride, padding, dilation) = case;
    let flat = |at: [usize; 3], of: [usize; 3]| (at[0] * of[1] + at[1]) * of[2] + at[2];
    let positions = |of: [usize; 3]| {
        (0..of.iter().product()).map(move |i| [i / of[2] / of[1], i / of[2] % of[1], i % of[2]])
    };
    let count = |of: [usize; 3]| of.iter().product::<usize>();
    for (image, o) in (0..n).flat_map(|n| (0..groups * co).map(move |o| (n, o))) {
        for (at, c) in positions(out).flat_map(|p| (0..ci).map(move |c| (p, c))) {
            for tap in positions(kernel) {
                let place: [usize; 3] =
                    std::array::from_fn(|d| at[d] * stride[d] + tap[d] * dilation[d]);
                if (0..3).any(|d| place[d] < padding[d] || place[d] - padding[d] >= input[d]) {
                    continue;
                }
                let place: [usize; 3] = std::array::from_fn(|d| place[d] - padding[d]);
                let channel = image * groups * ci + o / co * ci + c;
                f(
                    (image * groups * co + o) * count(out) + flat(at, out),
                    channel * count(input) + flat(place, input),
                    (o * ci + c) * count(kernel) + flat(tap, kernel),
                );
            }
        }
    }
}

#[torsh_macros::unit_test]
fn volumes_and_signals_are_convolved_both_ways() {
    let cases: &[Volume] = &[
        (
            [2, 1, 2, 3],
            [4, 5, 6],
            [2, 3, 3],
            [1, 2, 1],
            [1, 0, 2],
            [2, 1, 1],
        ),
        (
            [1, 3, 1, 2],
            [5, 4, 4],
            [3, 2, 2],
            [2, 1, 3],
            [1, 1, 0],
            [1, 1, 2],
        ),
        (
            [1, 2, 2, 2],
            [3, 3, 3],
            [1, 1, 1],
            [1, 1, 1],
            [0, 0, 0],
            [1, 1, 1],
        ),
        // One dimension, as its own rank below.
        (
            [3, 1, 2, 4],
            [1, 1, 30],
            [1, 1, 5],
            [1, 1, 2],
            [0, 0, 3],
            [1, 1, 2],
        ),
        // More columns than the cache holds.
        (
            [1, 1, 3, 2],
            [9, 40, 50],
            [3, 3, 3],
            [1, 1, 1],
            [1, 1, 1],
            [1, 1, 1],
        ),
    ];
    for case in cases {
        let &([n, groups, ci, co], input, kernel, stride, padding, dilation) = case;
        let out: [usize; 3] = std::array::from_fn(|d| {
            let (k, p) = (kernel[d], padding[d] as i64);
            out_size(input[d], k, stride[d] as i64, p, dilation[d] as i64)
        });
        let spatial = if input[..2] == [1, 1] { 2 } else { 0 };
        let shape = |a: usize, b: usize, s: [usize; 3]| [&[a, b], &s[spatial..]].concat();
        let x = Host::<f64>::new(&shape(n, groups * ci, input), value);
        let w = Host::<f64>::new(&shape(groups * co, ci, kernel), |i| value(i + 1));
        let g = Host::<f64>::new(&shape(n, groups * co, out), |i| value(i + 3));
        let bias = Host::<f64>::new(&[groups * co], |i| value(i + 2));
        let back = Host::<f64>::new(&[groups * ci], |i| value(i + 4));
        let call = |kernel: Kernel, shape: &[usize], inputs: &[View<'_>]| {
            let out = Host::<f64>::new(shape, |_| 99.0);
            let attrs = attrs::Conv {
                stride: stride[spatial..].into(),
                padding: padding[spatial..].into(),
                dilation: dilation[spatial..].into(),
                groups,
                output_shape: shape.into(),
            };
            testing::run(kernel, DType::F64, &[out.view()], inputs, &attrs).expect("a convolution");
            out.data
        };
        let pixels = |s: [usize; 3]| s.iter().product::<usize>();
        let mut want: Vec<f64> = (0..g.data.len())
            .map(|i| bias.data[i / pixels(out) % bias.data.len()])
            .collect();
        each_volume(case, out, |o, i, k| want[o] += x.data[i] * w.data[k]);
        let inputs = [x.view(), w.view(), bias.view()];
        assert_eq!(call(Kernel::Conv, &g.shape, &inputs), want, "{case:?}");

        let mut want: Vec<f64> = (0..x.data.len())
            .map(|i| back.data[i / pixels(input) % back.data.len()])
            .collect();
        each_volume(case, out, |o, i, k| want[i] += g.data[o] * w.data[k]);
        let inputs = [g.view(), w.view(), back.view()];
        assert_eq!(
            call(Kernel::ConvTranspose, &x.shape, &inputs),
            want,
            "{case:?}"
        );

        let mut want = vec![0.0; w.data.len()];
        each_volume(case, out, |o, i, k| want[k] += g.data[o] * x.data[i]);
        let inputs = [g.view(), x.view()];
        assert_eq!(
            call(Kernel::ConvWeight, &w.shape, &inputs),
            want,
            "{case:?}"
        );
    }
}

#[torsh_macros::unit_test]
fn columns_of_windows_and_back() {
    let x = Host::<i16>::new(&[1, 2, 3], |i| i as i16 + 1);
    let columns = Host::<i16>::new(&[4, 4], |_| 9);
    let attrs = |output_shape: &[usize]| attrs::Im2Col {
        kernel_size: [2, 2].into(),
        dilation: [1, 1].into(),
        padding: [0, 1].into(),
        stride: [1, 1].into(),
        output_shape: output_shape.into(),
    };
    // As a 16-bit float type, since integers are refused.
    fn half(h: &Host<i16>) -> View<'_> {
        // SAFETY: the buffers of the test outlive the call.
        unsafe {
            View::new(
                h.view().ptr(),
                DType::BF16,
                h.view().shape(),
                h.view().strides(),
            )
        }
    }
    let (outputs, inputs) = ([half(&columns)], [half(&x)]);
    let to = attrs(&columns.shape);
    testing::run(Kernel::Im2Col, DType::BF16, &outputs, &inputs, &to).expect("columns");
    let want = [0, 1, 2, 3, 1, 2, 3, 0, 0, 4, 5, 6, 4, 5, 6, 0];
    assert_eq!(columns.data, want);
    let sums = Host::<f64>::new(&[1, 2, 3], |_| 9.0);
    let ones = Host::<f64>::new(&[4, 4], |_| 1.0);
    let (outputs, inputs) = ([sums.view()], [ones.view()]);
    let to = attrs(&sums.shape);
    testing::run(Kernel::Col2Im, DType::F64, &outputs, &inputs, &to).expect("sums");
    assert_eq!(sums.data, [2.0; 6]);
}
