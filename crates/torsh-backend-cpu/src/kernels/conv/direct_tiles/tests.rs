use super::*;

/// Images, groups, channels of a group in and out; then input, kernel, stride, padding and dilation.
type Case = ([usize; 4], [[usize; 3]; 5]);

fn geometry(&([images, groups, in_channels, out_channels], sizes): &Case) -> Geometry {
    let [input, kernel, stride, padding, dilation] = sizes;
    Geometry {
        images,
        groups,
        in_channels,
        out_channels,
        input,
        output: std::array::from_fn(|d| {
            (input[d] + 2 * padding[d] - (kernel[d] - 1) * dilation[d] - 1) / stride[d] + 1
        }),
        kernel,
        stride,
        padding,
        dilation,
    }
}

fn numbers<T: From<i8>>(n: usize, from: usize) -> Vec<T> {
    let number = |i: usize| ((i * 7 + i / 11 + from) % 11) as i8 - 5;
    (0..n).map(|i| T::from(number(i))).collect()
}

/// Calls `f(out, in, weight)` with the indices of every product.
fn each(g: &Geometry, mut f: impl FnMut(usize, usize, usize)) {
    let positions = |of: [usize; 3]| {
        (0..of.iter().product()).map(move |i| [i / of[2] / of[1], i / of[2] % of[1], i % of[2]])
    };
    let flat = |at: [usize; 3], of: [usize; 3]| (at[0] * of[1] + at[1]) * of[2] + at[2];
    let planes = g.images * g.groups;
    for (plane, o) in (0..planes).flat_map(|p| (0..g.out_channels).map(move |o| (p, o))) {
        for (at, c) in positions(g.output).flat_map(|p| (0..g.in_channels).map(move |c| (p, c))) {
            for tap in positions(g.kernel) {
                let place = |d: usize| {
                    (at[d] * g.stride[d] + tap[d] * g.dilation[d]).checked_sub(g.padding[d])
                };
                let [Some(z), Some(y), Some(x)] = [place(0), place(1), place(2)] else {
                    continue;
                };
                if z < g.input[0] && y < g.input[1] && x < g.input[2] {
                    let row = plane % g.groups * g.out_channels + o;
                    f(
                        (plane * g.out_channels + o) * g.out_pixels() + flat(at, g.output),
                        (plane * g.in_channels + c) * g.in_pixels() + flat([z, y, x], g.input),
                        (row * g.in_channels + c) * g.taps() + flat(tap, g.kernel),
                    );
                }
            }
        }
    }
}

const ONE: [usize; 3] = [1; 3];
const NONE: [usize; 3] = [0; 3];

const CASES: &[Case] = &[
    // Signals: bands of columns, whole row_tiles, tiles of 8, 4, 2 and 1 channels.
    (
        [2, 1, 16, 15],
        [[1, 1, 100], [1, 1, 5], ONE, [0, 0, 2], ONE],
    ),
    (
        [1, 1, 64, 9],
        [[1, 1, 2500], [1, 1, 3], ONE, [0, 0, 2], [1, 1, 2]],
    ),
    (
        [1, 2, 32, 16],
        [[1, 1, 203], [1, 1, 4], [1, 1, 2], [0, 0, 1], ONE],
    ),
    // Rows with places between them; more terms than a stretch.
    ([3, 1, 24, 8], [[1, 14, 30], [1, 3, 3], ONE, [0, 1, 1], ONE]),
    (
        [1, 1, 16, 70],
        [[1, 31, 29], [1, 3, 3], [1, 2, 2], [0, 1, 1], ONE],
    ),
    (
        [1, 2, 9, 12],
        [[1, 21, 40], [1, 5, 3], [1, 1, 3], [0, 2, 1], ONE],
    ),
    // Few channels.
    ([2, 1, 7, 7], [[1, 28, 28], [1, 3, 3], ONE, [0, 1, 1], ONE]),
    (
        [1, 1, 40, 3],
        [[1, 30, 45], [1, 5, 5], [1, 2, 2], [0, 2, 2], ONE],
    ),
    ([1, 2, 30, 1], [[1, 16, 20], [1, 3, 3], ONE, [0, 1, 1], ONE]),
    ([1, 1, 5, 6], [[1, 33, 33], [1, 3, 3], ONE, [0, 1, 1], ONE]),
    // Rows side by side.
    ([2, 1, 70, 10], [[1, 28, 28], ONE, [1, 2, 2], NONE, ONE]),
    ([1, 1, 64, 64], [[1, 32, 32], [1, 2, 1], ONE, NONE, ONE]),
    // Volumes.
    (
        [1, 1, 8, 8],
        [[5, 12, 24], [3, 3, 3], [2, 1, 2], [1, 1, 1], ONE],
    ),
    (
        [1, 1, 12, 9],
        [[4, 9, 33], [2, 2, 3], ONE, [1, 0, 1], [2, 1, 1]],
    ),
];

fn at_all_levels<T>()
where
    T: Windowed
        + From<i8>
        + PartialEq
        + std::fmt::Debug
        + std::ops::AddAssign
        + std::ops::Mul<Output = T>,
{
    let ptr = |v: &mut Vec<T>| Ptr::new(v.as_mut_ptr());
    let mut transposed = 0;
    for case in CASES {
        let g = geometry(case);
        let planes = g.images * g.groups;
        let mut x = numbers::<T>(planes * g.in_channels * g.in_pixels(), 1);
        let mut w = numbers::<T>(g.groups * g.out_channels * g.window(), 2);
        let mut dy = numbers::<T>(planes * g.out_channels * g.out_pixels(), 3);
        let mut bias = numbers::<T>(g.groups * g.in_channels.max(g.out_channels), 4);
        let start = |channels: usize, pixels: usize, n: usize| {
            (0..n)
                .map(|i| bias[i / pixels % (g.groups * channels)])
                .collect::<Vec<T>>()
        };
        let mut y = start(g.out_channels, g.out_pixels(), dy.len());
        let mut dx = start(g.in_channels, g.in_pixels(), x.len());
        each(&g, |o, i, k| {
            y[o] += x[i] * w[k];
            dx[i] += dy[o] * w[k];
        });
        for level in Level::ALL.into_iter().filter(|l| l.is_available()) {
            let mut run = |kind: ConvKind, from: Ptr<T>, want: &Vec<T>| {
                let mut out = vec![T::from(99); want.len()];
                let operands = [from, ptr(&mut w), ptr(&mut out)];
                at(
                    level,
                    kind,
                    &g,
                    operands,
                    Epilogue::bias(Some(ptr(&mut bias))),
                )
                .expect("memory");
                assert!(out == *want, "{case:?} at {level:?}");
            };
            run(ConvKind::Forward, ptr(&mut x), &y);
            if DirectTilesBands::new(&g, ConvKind::Transposed, 1, size_of::<T>(), 1).is_some() {
                run(ConvKind::Transposed, ptr(&mut dy), &dx);
                transposed += 1;
            }
        }
    }
    assert!(
        transposed >= CASES.len() / 2,
        "only {transposed} transposed"
    );
}

#[torsh_macros::unit_test]
fn float32_is_right_at_every_level() {
    at_all_levels::<f32>();
}

#[torsh_macros::unit_test]
fn float64_is_right_at_every_level() {
    at_all_levels::<f64>();
}

#[torsh_macros::unit_test]
fn windows_that_no_band_holds_are_left_to_others() {
    let far = 4 << 20;
    let sizes = [
        [1, 2, 2],
        [1, 2, 2],
        ONE,
        [0, far / 2, far / 2],
        [1, far, far],
    ];
    let g = geometry(&([1, 1, 1 << 40, 8], sizes));
    assert_eq!(g.output, [1, 2, 2]);
    for kind in [ConvKind::Forward, ConvKind::Transposed] {
        assert!(DirectTilesBands::new(&g, kind, 16, 4, 1).is_none());
    }
}
