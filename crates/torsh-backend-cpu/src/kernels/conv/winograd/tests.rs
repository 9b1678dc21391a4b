use super::*;

/// Numbers between -1 and 1, and all of one sign where `mean` is 1 or more.
fn numbers(n: usize, seed: u32, mean: f32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12345);
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0 + mean
        })
        .collect()
}

fn geometry(
    images: usize,
    [ic, oc]: [usize; 2],
    [h, w]: [usize; 2],
    [top, left]: [usize; 2],
) -> Geometry {
    Geometry {
        images,
        groups: 1,
        in_channels: ic,
        out_channels: oc,
        input: [1, h, w],
        output: [1, h + 2 * top - 2, w + 2 * left - 2],
        kernel: [1, 3, 3],
        stride: [1; 3],
        padding: [0, top, left],
        dilation: [1; 3],
    }
}

/// The exact sums, and the sums of the products' magnitudes.
fn exact(
    g: &Geometry,
    x: &[f32],
    w: &[f32],
    bias: Option<&[f32]>,
    transposed: bool,
) -> Vec<(f64, f64)> {
    let ([_, h, wide], [_, oh, ow], [_, top, left]) = (g.input, g.output, g.padding);
    let mut all = Vec::new();
    for (n, o) in (0..g.images).flat_map(|n| (0..g.out_channels).map(move |o| (n, o))) {
        for (y, x0) in (0..oh).flat_map(|y| (0..ow).map(move |x| (y, x))) {
            let start = bias.map_or(0.0, |b| f64::from(b[o]));
            let (mut sum, mut size) = (start, start.abs());
            for (c, tap) in (0..g.in_channels).flat_map(|c| (0..9).map(move |t| (c, t))) {
                let (iy, ix) = (y + tap / 3, x0 + tap % 3);
                if iy < top || ix < left || iy - top >= h || ix - left >= wide {
                    continue;
                }
                let input = x[((n * g.in_channels + c) * h + iy - top) * wide + ix - left];
                let weight = match transposed {
                    true => w[(c * g.out_channels + o) * 9 + 8 - tap],
                    false => w[(o * g.in_channels + c) * 9 + tap],
                };
                let product = f64::from(input) * f64::from(weight);
                sum += product;
                size += product.abs();
            }
            all.push((sum, size));
        }
    }
    all
}

fn compute(
    level: Level,
    g: &Geometry,
    x: &[f32],
    w: &[f32],
    bias: Option<&[f32]>,
    transposed: bool,
) -> (Vec<f32>, bool) {
    let mut out = vec![f32::NAN; g.images * g.out_channels * g.out_pixels()];
    let ptr = |v: &[f32]| Ptr::new(v.as_ptr().cast_mut());
    let operands = [ptr(x), ptr(w), Ptr::new(out.as_mut_ptr())];
    let finite = at(
        level,
        g,
        operands,
        Epilogue::bias(bias.map(ptr)),
        transposed,
    )
    .expect("memory");
    (out, finite)
}

fn check(g: &Geometry, mean: f32, transposed: bool) {
    let x = numbers(g.images * g.in_channels * g.in_pixels(), 1, mean);
    let w = numbers(g.out_channels * g.window(), 2, 0.0);
    let bias = numbers(g.out_channels, 3, 0.0);
    let bias = (!transposed).then_some(&bias[..]);
    let want = exact(g, &x, &w, bias, transposed);
    // A tile's errors are of the size of its largest output.
    let size = want.iter().fold(0.0, |max, w| w.1.max(max));
    for level in Level::ALL.into_iter().filter(|l| l.is_available()) {
        let (got, finite) = compute(level, g, &x, &w, bias, transposed);
        assert!(finite);
        for (i, (&got, &(sum, _))) in got.iter().zip(&want).enumerate() {
            let error = (f64::from(got) - sum).abs();
            assert!(
                error <= 1e-6 * size,
                "{g:?} {level:?} at {i}: {got} {sum} ({size})"
            );
        }
    }
}

/// The exact gradients of the weight, and the sums of the products' magnitudes.
fn exact_weight(g: &Geometry, grad: &[f32], x: &[f32]) -> Vec<(f64, f64)> {
    let ([_, h, wide], [_, oh, ow], [_, top, left]) = (g.input, g.output, g.padding);
    let pairs = (0..g.out_channels).flat_map(|o| (0..g.in_channels).map(move |c| (o, c)));
    let mut all = Vec::new();
    for ((o, c), tap) in pairs.flat_map(|pair| (0..9).map(move |t| (pair, t))) {
        let (mut sum, mut size) = (0.0, 0.0);
        for (n, y) in (0..g.images).flat_map(|n| (0..oh).map(move |y| (n, y))) {
            for x0 in 0..ow {
                let (iy, ix) = (y + tap / 3, x0 + tap % 3);
                if iy < top || ix < left || iy - top >= h || ix - left >= wide {
                    continue;
                }
                let input = x[((n * g.in_channels + c) * h + iy - top) * wide + ix - left];
                let product = f64::from(input)
                    * f64::from(grad[((n * g.out_channels + o) * oh + y) * ow + x0]);
                sum += product;
                size += product.abs();
            }
        }
        all.push((sum, size));
    }
    all
}

fn check_weight(g: &Geometry, mean: f32) {
    let x = numbers(g.images * g.in_channels * g.in_pixels(), 1, mean);
    let grad = numbers(g.images * g.out_channels * g.out_pixels(), 2, mean);
    let want = exact_weight(g, &grad, &x);
    let size = want.iter().fold(0.0, |max, w| w.1.max(max));
    for level in Level::ALL.into_iter().filter(|l| l.is_available()) {
        let mut got = vec![f32::NAN; g.out_channels * g.window()];
        let ptr = |v: &[f32]| Ptr::new(v.as_ptr().cast_mut());
        let operands = [ptr(&grad), ptr(&x), Ptr::new(got.as_mut_ptr())];
        assert!(weight::at(level, g, operands).expect("memory"));
        for (i, (&got, &(sum, _))) in got.iter().zip(&want).enumerate() {
            let error = (f64::from(got) - sum).abs();
            assert!(
                error <= 1e-6 * size,
                "{g:?} {level:?} at {i}: {got} {sum} ({size})"
            );
        }
    }
}

#[torsh_macros::unit_test]
fn gradients_of_the_weight_are_right() {
    for (size, padding) in [
        ([1, 3], [1, 0]),
        ([7, 7], [1, 1]),
        ([9, 14], [2, 0]),
        ([6, 71], [0, 1]),
    ] {
        check_weight(&geometry(2, [5, 9], size, padding), 0.0);
    }
    check_weight(&geometry(3, [33, 35], [7, 7], [1, 1]), 0.0);
    check_weight(&geometry(1, [70, 130], [14, 14], [1, 1]), 1.0);
}

/// Several blocks of panels, whose sums are kept.
#[torsh_macros::unit_test]
fn many_tiles_gradients_of_the_weight_are_right() {
    check_weight(&geometry(3, [17, 15], [60, 67], [1, 1]), 0.0);
    check_weight(&geometry(9, [410, 7], [8, 8], [1, 1]), 0.0);
}

#[torsh_macros::unit_test]
fn every_edge_is_right() {
    for (size, padding) in [
        [1, 1],
        [2, 3],
        [3, 5],
        [4, 4],
        [5, 9],
        [7, 7],
        [9, 6],
        [12, 17],
        [6, 71],
    ]
    .into_iter()
    .flat_map(|s| [[0, 0], [1, 1], [2, 2], [1, 0], [0, 3]].map(|p| (s, p)))
    {
        if size[0] + 2 * padding[0] < 3 || size[1] + 2 * padding[1] < 3 {
            continue;
        }
        check(&geometry(2, [5, 9], size, padding), 0.0, false);
        check(&geometry(3, [4, 7], size, padding), 0.0, true);
    }
}

#[torsh_macros::unit_test]
fn many_channels_and_images_are_right() {
    check(&geometry(5, [33, 35], [7, 7], [1, 1]), 0.0, false);
    check(&geometry(1, [70, 33], [14, 14], [1, 1]), 3.0, false);
    check(&geometry(2, [32, 130], [9, 10], [1, 1]), 0.0, true);
    check(&geometry(2, [140, 64], [20, 24], [1, 1]), 1.0, false);
    check(&geometry(1, [300, 200], [6, 5], [1, 1]), 0.0, true);
}

/// Blocks of panels that do not fit at a time.
#[torsh_macros::unit_test]
fn more_inputs_than_are_held_at_a_time() {
    check(&geometry(9, [410, 200], [8, 8], [1, 1]), 0.0, false);
}

#[torsh_macros::unit_test]
fn what_is_not_finite_is_found() {
    let g = geometry(2, [32, 32], [9, 9], [1, 1]);
    let w = numbers(g.out_channels * g.window(), 2, 0.0);
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 3e38] {
        for at in [0, 40, 80, 81 * 32 * 2 - 1] {
            let mut x = numbers(g.images * g.in_channels * g.in_pixels(), 1, 0.0);
            x[at] = value;
            for level in Level::ALL.into_iter().filter(|l| l.is_available()) {
                assert!(
                    !compute(level, &g, &x, &w, None, false).1,
                    "{value} {level:?} at {at}"
                );
            }
        }
    }
}

#[torsh_macros::unit_test]
fn bits_do_not_depend_on_the_number_of_threads() {
    let before = pool::num_threads();
    for (n, channels, size) in [
        (3, [40, 50], [14, 15]),
        (9, [33, 64], [30, 30]),
        (1, [128, 70], [9, 9]),
    ] {
        let g = geometry(n, channels, size, [1, 1]);
        let x = numbers(g.images * g.in_channels * g.in_pixels(), 1, 0.0);
        let w = numbers(g.out_channels * g.window(), 2, 0.0);
        let ptr = |v: &[f32]| Ptr::new(v.as_ptr().cast_mut());
        let both = |threads| {
            pool::set_num_threads(threads).unwrap();
            let (y, _) = compute(level(), &g, &x, &w, None, false);
            let mut back = vec![0.0f32; w.len()];
            weight::at(level(), &g, [ptr(&y), ptr(&x), Ptr::new(back.as_mut_ptr())]).unwrap();
            let bits = |v: Vec<f32>| v.into_iter().map(f32::to_bits).collect::<Vec<_>>();
            (bits(y), bits(back))
        };
        assert_eq!(both(1), both(3));
    }
    pool::set_num_threads(before).unwrap();
}

/// A nan is in the results whose windows have it, as if there were no tiles.
#[torsh_macros::unit_test]
fn a_nan_stays_in_its_windows() {
    let g = geometry(2, [32, 32], [16, 16], [1, 1]);
    for kind in [ConvKind::Forward, ConvKind::Transposed, ConvKind::Weight] {
        assert!(pays(kind, &g, torsh_core::machine::machine()));
        let mut x = numbers(g.images * g.in_channels * g.in_pixels(), 1, 0.0);
        x[5 * 256 + 7 * 16 + 8] = f32::NAN;
        let n = if kind == ConvKind::Weight {
            x.len()
        } else {
            g.out_channels * g.window()
        };
        let y = numbers(n, 2, 0.0);
        let mut out = vec![
            0.0f32;
            if kind == ConvKind::Weight {
                g.out_channels * g.window()
            } else {
                x.len()
            }
        ];
        let ptr = |v: &[f32]| Ptr::new(v.as_ptr().cast_mut());
        let out_ptr = Ptr::new(out.as_mut_ptr());
        let operands = if kind == ConvKind::Weight {
            [ptr(&y), ptr(&x), out_ptr]
        } else {
            [ptr(&x), ptr(&y), out_ptr]
        };
        crate::kernels::conv::compute(kind, &g, operands, Epilogue::bias(None)).expect("memory");
        for (i, v) in out.iter().enumerate() {
            let touched = match kind {
                ConvKind::Weight => i / 9 % 32 == 5,
                _ => {
                    i < 32 * 256 && (6..=8).contains(&(i / 16 % 16)) && (7..=9).contains(&(i % 16))
                }
            };
            assert_eq!(v.is_nan(), touched, "at {i}");
        }
    }
}
