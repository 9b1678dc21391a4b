use super::super::epilogue::adding;
use super::*;
use crate::kernels::conv::direct;
use crate::testing::skipped;

fn geometry(images: usize, groups: usize, height: usize, width: usize) -> Geometry {
    Geometry {
        images,
        groups,
        in_channels: 1,
        out_channels: 1,
        input: [1, height, width],
        output: [1, height, width],
        kernel: [1, 3, 3],
        stride: [1; 3],
        padding: [0, 1, 1],
        dilation: [1; 3],
    }
}

fn numbers(n: usize, from: usize) -> Vec<f32> {
    (0..n)
        .map(|i| ((i * 7 + from) % 113) as f32 / 11.0 - 5.0)
        .collect()
}

fn problem(g: Geometry) -> ConvProblem {
    ConvProblem {
        kind: crate::kernels::conv::element::ConvKind::Forward,
        dtype: DType::F32,
        g,
    }
}

/// Bit by bit what the loops over padded bands give, which add in the same order.
#[torsh_macros::unit_test]
fn results_are_those_of_padded_bands() {
    let Some(f) = float32(level()) else {
        return skipped("has loops of their own from AVX2 on");
    };
    for width in [
        1, 2, 7, 15, 16, 17, 31, 32, 33, 48, 56, 63, 64, 65, 112, 700,
    ] {
        for height in [1, 2, 3, 4, 5, 9, 14] {
            for (images, groups) in [(1, 2), (2, 3)] {
                let g = geometry(images, groups, height, width);
                let n = images * groups * height * width;
                let (mut x, mut w, mut b) =
                    (numbers(n, 1), numbers(groups * 9, 2), numbers(groups, 3));
                // Padding is zeros, and their product with it not a number.
                w[3] = f32::INFINITY;
                let (x, w) = (Ptr::new(x.as_mut_ptr()), Ptr::new(w.as_mut_ptr()));
                for bias in [None, Some(Ptr::new(b.as_mut_ptr()))] {
                    let epilogue = Epilogue::bias(bias);
                    let mut want = vec![99.0; n];
                    let out = Ptr::new(want.as_mut_ptr());
                    let problem = problem(g);
                    direct::run(&problem, [x, w, out], epilogue).expect("results");
                    let mut places = want.clone();
                    let affine = adding(&mut places, height * width);
                    for (streamed, finished) in
                        [(false, false), (true, false), (false, true), (true, true)]
                    {
                        let mut want = want.clone();
                        let mut epilogue = epilogue;
                        if finished {
                            epilogue.affine = Some(&affine);
                            want.iter_mut()
                                .enumerate()
                                .for_each(|(i, w)| *w += i as f32);
                        }
                        let mut got = vec![99.0; n + 1];
                        let out = Ptr::new(got.as_mut_ptr());
                        run(&g, (f, streamed), [x, w, out], epilogue).expect("results");
                        assert_eq!(got.pop(), Some(99.0), "{width} {height}");
                        let same = |(a, b): (&f32, &f32)| {
                            a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
                        };
                        let all = got.iter().zip(&want).all(same);
                        assert!(all, "{width} {height} {images} {streamed}");
                    }
                }
            }
        }
    }
}

#[torsh_macros::unit_test]
fn only_images_that_keep_their_size_are_taken() {
    let g = geometry(1, 2, 5, 5);
    let strided = Geometry {
        stride: [1, 2, 2],
        output: [1, 3, 3],
        ..g
    };
    let wider = Geometry {
        padding: [0, 2, 2],
        output: [1, 7, 7],
        ..g
    };
    let dense = Geometry { groups: 1, ..g };
    let doubled = Geometry {
        out_channels: 2,
        ..g
    };
    let machine = torsh_core::machine::machine();
    assert_eq!(
        accepts(&problem(g), machine),
        f32::depthwise(machine.level).is_some()
    );
    for g in [strided, wider, dense, doubled] {
        assert!(!accepts(&problem(g), machine));
    }
}
