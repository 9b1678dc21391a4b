use super::super::epilogue::adding;
use super::*;
use crate::kernels::conv::direct_loops::Direct;
use crate::simd::Level;

/// A geometry of images with one number for both dimensions of the window.
fn geometry(
    [images, groups, in_channels, out_channels]: [usize; 4],
    [height, width]: [usize; 2],
    [kernel, stride, padding, dilation]: [usize; 4],
) -> Geometry {
    let of = |n: usize| (n + 2 * padding - (kernel - 1) * dilation - 1) / stride + 1;
    Geometry {
        images,
        groups,
        in_channels,
        out_channels,
        input: [1, height, width],
        output: [1, of(height), of(width)],
        kernel: [1, kernel, kernel],
        stride: [1, stride, stride],
        padding: [0, padding, padding],
        dilation: [1, dilation, dilation],
    }
}

fn numbers(n: usize, from: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7 + from) % 11) as f32 - 5.0).collect()
}

fn ptr<T>(v: &mut [T]) -> Ptr<T> {
    Ptr::new(v.as_mut_ptr())
}

/// The three results with the loops of one level, the first written past the caches or not.
fn results(g: &Geometry, level: Level, streamed: bool, finished: bool) -> [Vec<f32>; 3] {
    let loops = <f32 as Direct>::loops(level);
    let planes = g.images * g.groups;
    let mut x = numbers(planes * g.in_channels * g.in_pixels(), 1);
    let mut w = numbers(g.groups * g.out_channels * g.window(), 2);
    let mut dy = numbers(planes * g.out_channels * g.out_pixels(), 3);
    let mut bias = numbers(g.groups * g.out_channels, 4);
    let (mut y, mut dw) = (vec![99.0; dy.len()], vec![99.0; w.len()]);
    let plan = |kind| BandPlan::new(g, Bands::new(g, kind, loops.lanes, 4).expect("bands"));
    let (plan, back) = (plan(ConvKind::Forward), plan(ConvKind::Transposed));
    let mut places = y.clone();
    let affine = adding(&mut places, g.out_pixels());
    let call = |operands, bias| DirectCall {
        plan: &plan,
        loops,
        operands,
        epilogue: Epilogue {
            bias,
            affine: finished.then_some(&affine),
        },
        streamed,
    };
    let forward = call(
        [ptr(&mut x), ptr(&mut w), ptr(&mut y)],
        Some(ptr(&mut bias)),
    );
    sums(&forward, g.work()).expect("results");
    let products = call([ptr(&mut x), ptr(&mut dy), ptr(&mut dw)], None);
    weights(&products, g.work()).expect("a gradient");
    // One weight for all taps needs no order.
    let mut ones = vec![1.0; w.len()];
    let mut dx = vec![99.0; x.len()];
    let back = DirectCall {
        plan: &back,
        loops,
        operands: [ptr(&mut dy), ptr(&mut ones), ptr(&mut dx)],
        epilogue: Epilogue::bias(None),
        streamed: false,
    };
    sums(&back, g.work()).expect("a gradient");
    [y, dw, dx]
}

#[torsh_macros::unit_test]
fn all_instruction_sets_agree() {
    let cases = [
        geometry([2, 3, 1, 1], [9, 61], [3, 1, 1, 1]),
        geometry([2, 3, 1, 2], [11, 30], [3, 2, 1, 1]),
        geometry([1, 2, 1, 3], [13, 17], [5, 3, 2, 1]),
        geometry([1, 1, 3, 7], [12, 100], [3, 1, 1, 2]),
        geometry([1, 2, 8, 6], [7, 7], [3, 1, 1, 1]),
        geometry([1, 1, 1, 16], [28, 28], [3, 1, 1, 1]),
        geometry([3, 5, 1, 1], [2, 1], [3, 1, 1, 1]),
        geometry([1, 2, 1, 1], [3, 9000], [3, 1, 1, 1]),
        geometry([1, 2, 1, 1], [3, 9001], [3, 2, 1, 1]),
    ];
    for g in &cases {
        let want = results(g, Level::Base, false, false);
        let mut finished = want.clone();
        let places = finished[0].iter_mut().enumerate();
        places.for_each(|(i, w)| *w += i as f32);
        for level in Level::ALL.into_iter().filter(|l| l.is_available()) {
            for streamed in [false, true] {
                assert_eq!(results(g, level, streamed, false), want, "{level:?} {g:?}");
                assert_eq!(
                    results(g, level, streamed, true),
                    finished,
                    "{level:?} {g:?}"
                );
            }
        }
    }
}

#[torsh_macros::unit_test]
fn what_a_tap_does_not_see_does_not_spoil_its_weight() {
    for (width, outs) in [5usize, 9, 14, 33]
        .into_iter()
        .flat_map(|w| [(w, 1), (w, 5)])
    {
        let g = geometry([1, 2, 1, outs], [6, width], [3, 1, 1, 1]);
        let mut x = numbers(2 * 6 * width, 1);
        x.iter_mut()
            .skip(width - 1)
            .step_by(width)
            .for_each(|v| *v = f32::INFINITY);
        let mut dy = vec![1.0; 2 * outs * 6 * width];
        let mut dw = vec![0.0; 18 * outs];
        let problem = ConvProblem {
            kind: ConvKind::Weight,
            dtype: torsh_core::DType::F32,
            g,
        };
        let operands = [ptr(&mut dy), ptr(&mut x), ptr(&mut dw)];
        run(&problem, operands, Epilogue::bias(None)).expect("a gradient");
        for (i, v) in dw.iter().enumerate() {
            // The last column is beyond the first tap of every row.
            assert_eq!(v.is_finite(), i % 3 == 0, "{width}: weight {i} is {v}");
            assert!(!v.is_nan());
        }
    }
}

#[torsh_macros::unit_test]
fn windows_that_no_band_holds_are_left_to_others() {
    let mut g = geometry([1, 2, 1, 1], [4, 4], [1, 1, 0, 1]);
    assert!(Bands::new(&g, ConvKind::Forward, 8, 4).is_some());
    g.stride[2] = 9;
    assert!(Bands::new(&g, ConvKind::Forward, 8, 4).is_none());
    g.stride[2] = 1;
    g.dilation[1] = usize::MAX;
    g.kernel[1] = 2;
    assert!(Bands::new(&g, ConvKind::Transposed, 8, 4).is_none());
}
