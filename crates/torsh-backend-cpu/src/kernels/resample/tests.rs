use super::*;
use crate::kernels::matmul::tests::Host;
use crate::testing;

fn axis(mode: Mode, input: usize, output: usize) -> ResampleAxis {
    ResampleAxis {
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

#[torsh_macros::unit_test]
fn tables_hold_the_weights_of_their_neighbours() {
    let t = axis(Mode::Linear, 2, 4).table::<f64>();
    assert_eq!(t.uniform(), Some(2));
    assert_eq!(t.of(0), [(0, 1.0), (1, 0.0)]);
    assert_eq!(t.of(1), [(0, 0.75), (1, 0.25)]);
    assert_eq!(t.of(3), [(1, 0.75), (1, 0.25)]);
    let corners = ResampleAxis {
        align_corners: true,
        ..axis(Mode::Linear, 3, 5)
    };
    assert_eq!(corners.table::<f64>().of(1), [(0, 0.5), (1, 0.5)]);
    let nearest = axis(Mode::Nearest, 5, 3).table::<f32>();
    assert_eq!(nearest.items, [(0, 1.0), (1, 1.0), (3, 1.0)]);
    let exact = axis(Mode::NearestExact, 5, 3).table::<f32>();
    assert_eq!(exact.items, [(0, 1.0), (2, 1.0), (4, 1.0)]);
    let smooth = ResampleAxis {
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

#[torsh_macros::unit_test]
fn the_transpose_has_every_item_once() {
    let t = axis(Mode::Cubic, 3, 5).table::<f64>();
    let back = t.transposed(3);
    assert_eq!(back.items.len(), t.items.len());
    let sum = |t: &ResampleTable<f64>, o: usize, i: usize| -> f64 {
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

#[torsh_macros::unit_test]
fn images_are_blended_down_and_right() {
    let x = Host::<f32>::new(&[1, 1, 2, 2], |i| i as f32);
    let out = Host::<f32>::new(&[1, 1, 2, 3], |_| 9.0);
    let attrs = |output_shape: &[usize]| attrs::Resample {
        mode: Mode::Linear,
        align_corners: true,
        scales_d: None,
        scales_h: None,
        scales_w: None,
        antialias: false,
        output_shape: output_shape.into(),
    };
    let call = |kernel: Kernel, from: &Host<f32>, to: &Host<f32>| {
        let (outputs, inputs) = ([to.view()], [from.view()]);
        testing::run(kernel, DType::F32, &outputs, &inputs, &attrs(&to.shape))
    };
    call(Kernel::Resample, &x, &out).expect("an interpolation");
    assert_eq!(out.data, [0.0, 0.5, 1.0, 2.0, 2.5, 3.0]);
    let back = Host::<f32>::new(&[1, 1, 2, 2], |_| 9.0);
    call(Kernel::ResampleBackward, &out, &back).expect("a gradient");
    assert_eq!(back.data, [0.25, 1.25, 3.25, 4.25]);
}

#[torsh_macros::unit_test]
fn results_chosen_from_registers_are_those_of_the_table() {
    for (input, output) in [
        (112, 224),
        (33, 47),
        (5, 70),
        (40, 21),
        (100, 100),
        (1, 9),
        (64, 17),
    ] {
        let table = axis(Mode::Linear, input, output).table::<f32>();
        let Some(pairs) = pass::pairs(&table.items) else {
            assert!(input > 2 * output, "{input} to {output}");
            continue;
        };
        let from: Vec<f32> = (0..input).map(|i| ((i * 7) % 11) as f32 - 5.0).collect();
        let sum = |o: usize| table.of(o).iter().fold(0.0, |s, &(i, w)| s + from[i] * w);
        let want: Vec<f32> = (0..output).map(sum).collect();
        let mut to = vec![99.0; output];
        if f32::blend_pairs(&pairs, &from, &mut to) {
            assert_eq!(to, want, "{input} to {output}");
        }
    }
}

#[torsh_macros::unit_test]
fn rows_past_the_caches_are_those_of_the_usual_way() {
    // Rows of more than a piece, and of no whole cache lines.
    for (rows, width) in [(3, 2500), (7, 41)] {
        let from: Vec<f64> = (0..rows * width).map(|i| ((i * 5) % 13) as f64).collect();
        let table = axis(Mode::Linear, rows, 2 * rows).table::<f64>();
        let step = Step {
            uniform: table.uniform(),
            pairs: None,
            table,
            input: rows,
            outer: 1,
            inner: width,
        };
        let results = |streamed: bool| {
            let (mut from, mut to) = (from.clone(), vec![99.0; 2 * rows * width]);
            // SAFETY: both hold what the step says.
            unsafe { pass(&step, from.as_mut_ptr(), to.as_mut_ptr(), streamed) };
            to
        };
        assert_eq!(results(true), results(false));
    }
}

/// Two steps at once and one after the other; sizes are of the input and the result.
fn together<T: Blend + std::fmt::Debug>(planes: usize, rows: [usize; 2], columns: [usize; 2]) {
    let table = |[from, to]: [usize; 2]| axis(Mode::Linear, from, to).table::<T>();
    let (along, down) = (table(columns), table(rows));
    let along = Step {
        uniform: along.uniform(),
        pairs: pass::pairs(&along.items),
        table: along,
        input: columns[0],
        outer: planes * rows[0],
        inner: 1,
    };
    let down = Step {
        uniform: down.uniform(),
        pairs: None,
        table: down,
        input: rows[0],
        outer: planes,
        inner: columns[1],
    };
    assert!(adjacent(&along, &down));
    let number = |i: usize| T::from((i * 7) % 11).expect("a number") - T::one();
    let mut from: Vec<T> = (0..planes * rows[0] * columns[0]).map(number).collect();
    let mut between = vec![T::zero(); along.results()];
    let mut want = vec![T::zero(); down.results()];
    // SAFETY: all hold what the steps say.
    unsafe {
        pass(&along, from.as_mut_ptr(), between.as_mut_ptr(), false);
        pass(&down, between.as_mut_ptr(), want.as_mut_ptr(), false);
    }
    for (parts, streamed) in [(1, false), (1, true), (3, false), (3, true)] {
        let mut got = vec![T::zero(); want.len()];
        let mut memory = vec![T::zero(); parts * memory_of_both(&down)];
        let memory = (memory.as_mut_ptr(), parts);
        let (steps, to) = ([&along, &down], got.as_mut_ptr());
        // SAFETY: as above.
        unsafe { both(steps, from.as_mut_ptr(), to, memory, streamed) };
        assert_eq!(got, want, "{rows:?} {columns:?} {parts} {streamed}");
    }
}

#[torsh_macros::unit_test]
fn two_dimensions_together_are_one_after_the_other() {
    for (planes, rows, columns) in [
        (1, [5, 10], [16, 32]),
        (2, [7, 14], [33, 66]),
        (3, [9, 5], [40, 21]),
        (2, [1, 4], [3, 7]),
        (1, [4, 3], [100, 1200]),
    ] {
        together::<f32>(planes, rows, columns);
        together::<f64>(planes, rows, columns);
    }
}
