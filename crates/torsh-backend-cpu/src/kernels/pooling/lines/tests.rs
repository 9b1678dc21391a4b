use super::*;

/// Windows of `span` places, `step` apart, `padding` before the first place of the image.
fn axis(input: usize, [span, step, padding]: [usize; 3]) -> PoolAxis {
    let output = (input + 2 * padding - span) / step + 1;
    let window = |i: usize| {
        let inside = |at: usize| at.saturating_sub(padding).min(input);
        Window {
            start: inside(i * step),
            end: inside(i * step + span),
            padded: span,
        }
    };
    PoolAxis {
        input,
        windows: (0..output).map(window).collect(),
        dilation: 1,
    }
}

/// The maxima or means of `g`, window by window.
fn plain<T: Float>(g: &PoolGeometry, divisor: Option<Divisor>, x: &[T]) -> Vec<T> {
    let [dz, dy, dx] = &g.axes;
    let mut all = Vec::new();
    for plane in x.chunks(g.in_pixels()) {
        for wz in &dz.windows {
            for wy in &dy.windows {
                for wx in &dx.windows {
                    let (mut most, mut sum) = (T::neg_infinity(), T::zero());
                    for z in wz.start..wz.end {
                        for y in wy.start..wy.end {
                            for v in &plane[(z * dy.input + y) * dx.input..][wx.start..wx.end] {
                                most = if *v > most || v.is_nan() { *v } else { most };
                                sum = sum + *v;
                            }
                        }
                    }
                    let n = divisor.map(|d| d.of([*wz, *wy, *wx]));
                    all.push(n.map_or(most, |n| sum / T::from(n).expect("a number")));
                }
            }
        }
    }
    all
}

fn check<T: Small + std::fmt::Debug>(value: impl Fn(usize, bool) -> T) {
    let shapes = [
        [2, 2, 0],
        [3, 2, 1],
        [3, 1, 1],
        [2, 1, 1],
        [2, 2, 1],
        [3, 2, 0],
    ];
    let divisors = [Divisor::Inside, Divisor::Padded, Divisor::Given(-3.0)];
    for level in Level::ALL.into_iter().filter(|l| l.is_available()) {
        for width in [3, 4, 9, 16, 31, 32, 33, 40, 70] {
            for shape in shapes {
                for divisor in divisors.map(Some).into_iter().chain([None]) {
                    let g = PoolGeometry {
                        planes: 3,
                        axes: [axis(3, [2, 1, 0]), axis(7, shape), axis(width, shape)],
                    };
                    let n = g.planes * g.in_pixels();
                    let mut x: Vec<T> = (0..n).map(|i| value(i, divisor.is_none())).collect();
                    let want = plain(&g, divisor, &x);
                    for streamed in [false, true] {
                        let mut got = vec![T::zero(); want.len() + 1];
                        let columns = LineWindows::of(&g.axes[2]).expect("small windows");
                        let (src, dst) = (Ptr::new(x.as_mut_ptr()), Ptr::new(got.as_mut_ptr()));
                        let how = (level, streamed);
                        run(how, &g, columns, divisor, src, dst).expect("results");
                        for (i, (got, want)) in got.iter().zip(&want).enumerate() {
                            let same = got == want || got.is_nan() && want.is_nan();
                            assert!(same, "{how:?} {width} {shape:?} {divisor:?} {i}");
                        }
                        assert_eq!(got[want.len()], T::zero(), "{how:?} {width} {shape:?}");
                    }
                }
            }
        }
    }
}

/// Small whole numbers, whose sums are exact; what is not finite among them where wanted.
fn value(i: usize, special: bool) -> f64 {
    match i * 37 % 101 {
        3 if special => f64::NAN,
        5 | 7 if special => f64::NEG_INFINITY,
        n => n as f64 - 50.0,
    }
}

#[torsh_macros::unit_test]
fn lines_are_as_single_windows() {
    check::<f32>(|i, special| value(i, special) as f32);
}

#[torsh_macros::unit_test]
fn only_small_windows_at_even_distances_are_lines() {
    let of = |windows: &[(usize, usize)], input| {
        let window = |&(start, end)| Window {
            start,
            end,
            padded: end - start,
        };
        LineWindows::of(&PoolAxis {
            input,
            windows: windows.iter().map(window).collect(),
            dilation: 1,
        })
    };
    let columns = |start, span, step| Some(LineWindows { start, span, step });
    assert_eq!(of(&[(0, 2), (2, 4)], 4), columns(0, 2, 2));
    assert_eq!(of(&[(0, 2), (1, 4), (3, 5)], 5), columns(-1, 3, 2));
    assert_eq!(of(&[(0, 2), (1, 3)], 3), columns(0, 2, 1));
    assert_eq!(of(&[(0, 2), (2, 4), (3, 5)], 5), None);
    assert_eq!(of(&[(0, 4), (2, 6)], 6), None);
    assert_eq!(of(&[(0, 2)], 2), columns(0, 2, 1));
    assert_eq!(of(&[(0, 2), (1, 4)], 4), columns(-1, 3, 2));
    assert_eq!(of(&[], 2), None);
    // Dilated.
    let mut dilated = axis(8, [3, 2, 1]);
    dilated.dilation = 2;
    assert_eq!(LineWindows::of(&dilated), None);
}
