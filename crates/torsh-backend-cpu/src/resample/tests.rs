use super::*;
use crate::matmul::tests::Host;

fn axis(mode: Mode, input: usize, output: usize) -> Axis {
    Axis {
        mode,
        input,
        output,
        align_corners: false,
        antialias: false,
        scale: None,
        image: true,
        weights: DType::F64,
    }
}

#[test]
fn tables_hold_the_weights_of_their_neighbours() {
    let t = axis(Mode::Linear, 2, 4).table::<f64>();
    assert_eq!(t.uniform(), Some(2));
    assert_eq!(t.of(0), [(0, 1.0), (1, 0.0)]);
    assert_eq!(t.of(1), [(0, 0.75), (1, 0.25)]);
    assert_eq!(t.of(3), [(1, 0.75), (1, 0.25)]);
    let corners = Axis {
        align_corners: true,
        ..axis(Mode::Linear, 3, 5)
    };
    assert_eq!(corners.table::<f64>().of(1), [(0, 0.5), (1, 0.5)]);
    let nearest = axis(Mode::Nearest, 5, 3).table::<f32>();
    assert_eq!(nearest.items, [(0, 1.0), (1, 1.0), (3, 1.0)]);
    let exact = axis(Mode::NearestExact, 5, 3).table::<f32>();
    assert_eq!(exact.items, [(0, 1.0), (2, 1.0), (4, 1.0)]);
    let smooth = Axis {
        antialias: true,
        ..axis(Mode::Linear, 4, 2)
    };
    let t = smooth.table::<f64>();
    let sums: Vec<f64> = (0..2)
        .map(|o| t.of(o).iter().map(|(_, w)| w).sum())
        .collect();
    assert_eq!(sums, [1.0, 1.0]);
    assert_eq!(t.of(0).len(), 3);
}

#[test]
fn the_transpose_has_every_item_once() {
    let t = axis(Mode::Cubic, 3, 5).table::<f64>();
    let back = t.transposed(3);
    assert_eq!(back.items.len(), t.items.len());
    let sum = |t: &Table<f64>, o: usize, i: usize| -> f64 {
        t.of(o)
            .iter()
            .filter(|(j, _)| *j == i)
            .map(|(_, w)| w)
            .sum()
    };
    for o in 0..5 {
        for i in 0..3 {
            assert_eq!(sum(&t, o, i), sum(&back, i, o));
        }
    }
}

#[test]
fn images_are_blended_down_and_right() {
    let x = Host::<f32>::new(&[1, 1, 2, 2], |i| i as f32);
    let out = Host::<f32>::new(&[1, 1, 2, 3], |_| 9.0);
    let mut attrs = [Attr::None; 6];
    attrs[0] = Attr::Str("linear");
    attrs[1] = Attr::Bool(true);
    let args = KernelArgs {
        kernel: Kernel::Resample,
        compute: DType::F32,
        outputs: &[out.view()],
        inputs: &[x.view()],
        attrs: &attrs,
    };
    resample(&args).expect("an interpolation");
    assert_eq!(out.data, [0.0, 0.5, 1.0, 2.0, 2.5, 3.0]);
    let back = Host::<f32>::new(&[1, 1, 2, 2], |_| 9.0);
    let args = KernelArgs {
        kernel: Kernel::ResampleBackward,
        outputs: &[back.view()],
        inputs: &[out.view()],
        ..args
    };
    resample(&args).expect("a gradient");
    assert_eq!(back.data, [0.25, 1.25, 3.25, 4.25]);
}
