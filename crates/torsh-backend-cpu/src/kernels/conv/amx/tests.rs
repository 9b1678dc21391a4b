use super::super::epilogue::adding;
use super::*;
use crate::simd::isa;

/// Images, groups, channels of a group in and out; then input, kernel, stride, padding and dilation.
type Case = ([usize; 4], [[usize; 2]; 5]);

const CASES: &[Case] = &[
    // Pairs of columns and a column of pairs of channels.
    ([1, 1, 3, 64], [[40, 50], [7, 7], [2, 2], [3, 3], [1, 1]]),
    ([2, 1, 3, 80], [[30, 41], [5, 5], [1, 1], [2, 1], [1, 1]]),
    ([1, 2, 7, 60], [[45, 60], [3, 4], [3, 2], [1, 4], [2, 3]]),
    ([1, 1, 67, 84], [[40, 50], [1, 1], [2, 2], [0, 0], [1, 1]]),
    // Pairs of channels; several stretches, images of a band, bands of an image, threads.
    ([3, 1, 64, 128], [[28, 28], [3, 3], [2, 2], [1, 1], [1, 1]]),
    ([9, 1, 64, 90], [[14, 14], [3, 3], [2, 2], [1, 1], [1, 1]]),
    ([1, 1, 32, 64], [[70, 90], [5, 5], [1, 1], [2, 2], [1, 1]]),
    ([4, 1, 64, 128], [[40, 40], [1, 1], [2, 2], [0, 0], [1, 1]]),
    ([2, 1, 66, 64], [[1, 500], [1, 5], [1, 1], [0, 2], [1, 1]]),
    ([1, 2, 40, 96], [[27, 60], [2, 3], [4, 1], [3, 7], [1, 2]]),
    ([40, 1, 48, 160], [[4, 4], [3, 3], [1, 1], [0, 0], [1, 1]]),
];

fn geometry(&([images, groups, in_channels, out_channels], sizes): &Case) -> Geometry {
    let three = |d: [usize; 2], one: usize| [one, d[0], d[1]];
    let [input, kernel, stride, padding, dilation] = sizes;
    let output =
        |d: usize| (input[d] + 2 * padding[d] - (kernel[d] - 1) * dilation[d] - 1) / stride[d] + 1;
    Geometry {
        images,
        groups,
        in_channels,
        out_channels,
        input: three(input, 1),
        output: [1, output(0), output(1)],
        kernel: three(kernel, 1),
        stride: three(stride, 1),
        padding: three(padding, 0),
        dilation: three(dilation, 1),
    }
}

/// The definition: sums, and sums of magnitudes.
fn plain(g: &Geometry, x: &[f32], w: &[f32]) -> Vec<(f64, f64)> {
    let ([_, height, width], [_, rows, columns]) = (g.input, g.output);
    let mut out = Vec::new();
    for plane in 0..g.images * g.groups {
        for o in 0..g.out_channels {
            let kernel = plane % g.groups * g.out_channels + o;
            for (oy, ox) in (0..rows).flat_map(|y| (0..columns).map(move |x| (y, x))) {
                let (mut sum, mut size) = (0.0, 0.0);
                for c in 0..g.in_channels {
                    for (ky, kx) in
                        (0..g.kernel[1]).flat_map(|y| (0..g.kernel[2]).map(move |x| (y, x)))
                    {
                        let y = oy * g.stride[1] + ky * g.dilation[1];
                        let x_ = ox * g.stride[2] + kx * g.dilation[2];
                        let (Some(y), Some(x_)) =
                            (y.checked_sub(g.padding[1]), x_.checked_sub(g.padding[2]))
                        else {
                            continue;
                        };
                        if y < height && x_ < width {
                            let at = ((plane * g.in_channels + c) * height + y) * width + x_;
                            let tap = (kernel * g.in_channels + c) * g.taps() + ky * g.kernel[2];
                            let product = f64::from(x[at]) * f64::from(w[tap + kx]);
                            sum += product;
                            size += product.abs();
                        }
                    }
                }
                out.push((sum, size));
            }
        }
    }
    out
}

fn numbers(n: usize, from: usize) -> Vec<f32> {
    let number = |i: usize| {
        let bits = (i + from)
            .wrapping_mul(0x9e37_79b9)
            .wrapping_mul(i ^ 0x85eb)
            >> 7;
        (bits % 20011) as f32 / 10005.0 - 1.0
    };
    (0..n).map(number).collect()
}

fn ptr(v: &mut [f32]) -> Ptr<f32> {
    Ptr::new(v.as_mut_ptr())
}

#[torsh_macros::unit_test]
fn results_are_those_of_the_definition() {
    let Some(_unit) = isa::stand_in() else { return };
    let before = pool::num_threads();
    for case in CASES {
        let g = geometry(case);
        let planes = g.images * g.groups;
        let mut x = numbers(planes * g.in_channels * g.in_pixels(), 1);
        let mut w = numbers(g.groups * g.out_channels * g.window(), 2);
        let mut bias = numbers(g.groups * g.out_channels, 3);
        let want = plain(&g, &x, &w);
        let mut bits = Vec::new();
        for threads in [1, 3] {
            pool::set_num_threads(threads).unwrap();
            for with_bias in [true, false] {
                let mut out = vec![9f32; planes * g.out_channels * g.out_pixels()];
                let of = Epilogue::bias(with_bias.then(|| ptr(&mut bias)));
                let operands = [ptr(&mut x), ptr(&mut w), ptr(&mut out)];
                assert!(run(&g, operands, of).expect("memory"));
                for (i, (&got, &(want, size))) in out.iter().zip(&want).enumerate() {
                    let kernel = i / g.out_pixels() % bias.len();
                    let start = if with_bias {
                        f64::from(bias[kernel])
                    } else {
                        0.0
                    };
                    let error = (f64::from(got) - want - start).abs() / (size + start.abs());
                    assert!(
                        error <= 4e-7 || got == 0.0,
                        "{case:?} at {i}: {got} for {want}"
                    );
                }
                let mut finished = vec![9f32; out.len()];
                let mut places = out.clone();
                let affine = adding(&mut places, g.out_pixels());
                let epilogue = Epilogue {
                    affine: Some(&affine),
                    ..of
                };
                let operands = [ptr(&mut x), ptr(&mut w), ptr(&mut finished)];
                assert!(run(&g, operands, epilogue).expect("memory"));
                for (i, (got, plain)) in finished.iter().zip(&out).enumerate() {
                    assert_eq!(*got, plain + i as f32, "{case:?} at {i}");
                }
                bits.push(out.into_iter().map(f32::to_bits).collect::<Vec<_>>());
            }
        }
        assert!(bits[0] == bits[2] && bits[1] == bits[3], "{case:?}");
    }
    pool::set_num_threads(before).unwrap();
}

#[torsh_macros::unit_test]
fn what_is_not_finite_is_left_to_others() {
    let Some(_unit) = isa::stand_in() else { return };
    let g = geometry(&CASES[0]);
    for (number, left) in [(f32::NAN, true), (f32::INFINITY, true), (3e38, false)] {
        let mut x = numbers(g.images * g.in_channels * g.in_pixels(), 1);
        let mut w = numbers(g.out_channels * g.window(), 2);
        let mut out = vec![9f32; g.images * g.out_channels * g.out_pixels()];
        x[1234] = number;
        w.iter_mut().for_each(|w| *w *= 0.5);
        let done = run(
            &g,
            [ptr(&mut x), ptr(&mut w), ptr(&mut out)],
            Epilogue::bias(None),
        );
        assert_eq!(done.unwrap(), !left, "{number}");
    }
}
