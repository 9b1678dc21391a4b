//! Every algorithm of an operation, forced on every shape that it accepts, against a float64 reference.
//!
//! One test of a binary of its own: forcing holds for the whole process.

mod common;
#[path = "algorithms/layers.rs"]
mod layers;
#[path = "algorithms/moves.rs"]
mod moves;
#[path = "../src/testing/skipped.rs"]
mod skipped;
#[path = "algorithms/sparse.rs"]
mod sparse;
#[path = "algorithms/transforms.rs"]
mod transforms;

use std::collections::BTreeMap;

use common::{Array, call, indices, row_major};
use skipped::skipped;
use torsh_backend_cpu::kernel;
use torsh_backend_cpu::operations::{Force, operations};
use torsh_core::machine::machine;
use torsh_core::{Attributes, DType, Kernel, KernelArgs, Scalar, View, attrs, pool};

/// Small integers: their products and sums are exact in every dtype, so that every order of a sum gives
/// the same, but for Winograd's transforms, which divide.
fn value(i: usize) -> f64 {
    ((i * 7 + i / 5 + 3) % 5) as f64 - 2.0
}

fn array(dtype: DType, shape: &[usize], from: usize) -> Array {
    Array::new(dtype, shape, |i| match dtype.is_complex() {
        true => Scalar::Complex(value(i + from), value(i / 3 + from)),
        false if dtype.is_floating_point() => Scalar::Float(value(i + from)),
        false => Scalar::Int(value(i + from) as i64),
    })
}

/// The same elements, with the last two dimensions swapped in memory.
fn transposed(a: &Array) -> Array {
    let nd = a.shape.len();
    let mut shape = a.shape.clone();
    shape.swap(nd - 2, nd - 1);
    let mut strides = row_major(&shape);
    strides.swap(nd - 2, nd - 1);
    let mut to = Array::with_layout(a.dtype, &a.shape, &strides, 0);
    for index in indices(&a.shape) {
        to.set(&index, a.get(&index));
    }
    to
}

fn run(k: Kernel, out: &mut Array, inputs: &[&Array], attrs: &dyn Attributes) {
    let dtype = out.dtype;
    call(k, dtype, out, inputs, attrs).expect("a result");
}

/// Calls a kernel of several results, or whose operands may be absent.
fn run_all(k: Kernel, outs: &mut [&mut Array], inputs: &[Option<&Array>], attrs: &dyn Attributes) {
    let dtype = outs[0].dtype;
    let f = kernel(k).expect("the kernel");
    // SAFETY: what is absent is never read.
    let absent = || unsafe { View::new(std::ptr::null_mut(), dtype, &[], &[]) };
    let inputs: Vec<_> = inputs
        .iter()
        .map(|a| a.map_or_else(absent, Array::view))
        .collect();
    let outputs: Vec<_> = outs.iter_mut().map(|a| a.view_mut()).collect();
    // SAFETY: the views are of arrays that outlive the call, with the kernel's shapes.
    f(&unsafe { KernelArgs::new(k, dtype, &outputs, &inputs, attrs) }).expect("a result");
}

/// Sorts along a dimension, into values and positions.
fn sort(values: &mut Array, positions: &mut Array, x: &Array, attrs: &dyn Attributes) {
    run_all(Kernel::Sort, &mut [values, positions], &[Some(x)], attrs);
}

/// The element as real and imaginary part.
fn parts(s: Scalar) -> (f64, f64) {
    s.to_complex()
}

/// Calls `f` with each algorithm of some operations forced, on one thread and on two.
fn with_each(ops: &str, taken: &mut Taken, mut f: impl FnMut(&str)) {
    for (op, algorithms) in operations() {
        // An operation's own, and those of its parts.
        let part = op
            .strip_prefix(ops)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        for algorithm in algorithms.into_iter().filter(|_| part) {
            let force = Force::new(op, algorithm).unwrap();
            for threads in [1, 2] {
                pool::set_num_threads(threads).unwrap();
                f(&format!("{op} {algorithm}, {threads} threads"));
            }
            *taken.entry((op, algorithm)).or_insert(0) += force.taken();
        }
    }
}

/// How often each algorithm was taken.
type Taken = BTreeMap<(&'static str, &'static str), usize>;

/// All products of one dtype: every size, in eight layouts.
fn products(dtype: DType, taken: &mut Taken) {
    let sizes = [
        [1, 1, 1, 1],
        [2, 1, 33, 40],
        [2, 33, 1, 40],
        [1, 8, 16, 24],
        [3, 15, 17, 16],
        [1, 5, 9, 300],
        [1, 40, 70, 64],
        [1, 3, 4, 3000],
        [5, 20, 20, 33],
    ];
    for [batch, m, n, k] in sizes {
        let a = array(dtype, &[batch, m, k], 1);
        let b = array(dtype, &[batch, k, n], 2);
        let (of_a, of_b): (Vec<_>, Vec<_>) = (
            a.scalars().into_iter().map(parts).collect(),
            b.scalars().into_iter().map(parts).collect(),
        );
        let mut want = vec![(0.0, 0.0); batch * m * n];
        for (at, want) in want.iter_mut().enumerate() {
            let (i, row, column) = (at / (m * n), at / n % m, at % n);
            for p in 0..k {
                let (x, y) = (of_a[(i * m + row) * k + p], of_b[(i * k + p) * n + column]);
                want.0 += x.0 * y.0 - x.1 * y.1;
                want.1 += x.0 * y.1 + x.1 * y.0;
            }
            // Half types round the exact sum; narrow integers wrap around.
            want.0 = match dtype {
                DType::F16 => half::f16::from_f64(want.0).to_f64(),
                DType::BF16 => half::bf16::from_f64(want.0).to_f64(),
                DType::I8 => f64::from(want.0 as i64 as i8),
                DType::U8 => f64::from(want.0 as i64 as u8),
                _ => want.0,
            };
        }
        for layout in 0..8 {
            let turned = |bit: usize, x: &Array| match layout >> bit & 1 {
                1 => transposed(x),
                _ => x.clone(),
            };
            let (a, b) = (turned(0, &a), turned(1, &b));
            let empty = turned(2, &Array::empty(dtype, &[batch, m, n]));
            with_each("matmul", taken, |what| {
                let mut out = empty.clone();
                run(Kernel::MatMul, &mut out, &[&a, &b], &attrs::MatMul::PLAIN);
                let got: Vec<_> = out.scalars().into_iter().map(parts).collect();
                let at = got.iter().zip(&want).position(|(got, want)| got != want);
                let sizes = [batch, m, n, k];
                assert_eq!(at, None, "{what}: {dtype} {sizes:?} layout {layout}");
            });
        }
    }
}

/// A convolution of the tests.
struct Conv {
    images: usize,
    groups: usize,
    channels: [usize; 2],
    size: [usize; 2],
    kernel: usize,
    stride: usize,
    padding: usize,
    dilation: usize,
}

impl Conv {
    fn new(
        images: usize,
        groups: usize,
        channels: [usize; 2],
        size: [usize; 2],
        [kernel, stride, padding, dilation]: [usize; 4],
    ) -> Conv {
        Conv {
            images,
            groups,
            channels,
            size,
            kernel,
            stride,
            padding,
            dilation,
        }
    }

    fn output(&self) -> [usize; 2] {
        let reach = (self.kernel - 1) * self.dilation + 1;
        self.size
            .map(|n| (n + 2 * self.padding - reach) / self.stride + 1)
    }

    /// Calls `f` with the flat places of output, input and weight of every product.
    fn each(&self, mut f: impl FnMut(usize, usize, usize)) {
        let ([h, w], [oh, ow], [c, o]) = (self.size, self.output(), self.channels);
        let k = self.kernel;
        for plane in 0..self.images * self.groups {
            let group = plane % self.groups;
            for (out, channel) in (0..o).flat_map(|out| (0..c).map(move |c| (out, c))) {
                for tap in 0..k * k {
                    let weight = ((group * o + out) * c + channel) * k * k + tap;
                    for (y, x) in (0..oh).flat_map(|y| (0..ow).map(move |x| (y, x))) {
                        let iy =
                            (y * self.stride + tap / k * self.dilation).wrapping_sub(self.padding);
                        let ix =
                            (x * self.stride + tap % k * self.dilation).wrapping_sub(self.padding);
                        if iy < h && ix < w {
                            let to = ((plane * o + out) * oh + y) * ow + x;
                            f(to, ((plane * c + channel) * h + iy) * w + ix, weight);
                        }
                    }
                }
            }
        }
    }
}

fn close(got: &Array, want: &[f64], what: &str) {
    let scale = want.iter().fold(1.0, |m: f64, w| m.max(w.abs()));
    let tolerance = if got.dtype == DType::F64 { 1e-13 } else { 2e-6 } * scale;
    for (index, (got, want)) in got.scalars().into_iter().zip(want).enumerate() {
        let got = parts(got).0;
        assert!(
            (got - want).abs() <= tolerance,
            "{what} at {index:?}: {got}, not {want}"
        );
    }
}

/// All three kernels of all convolutions in one dtype.
fn convolutions(dtype: DType, taken: &mut Taken) {
    let conv = Conv::new;
    let all = [
        conv(2, 4, [1, 1], [9, 37], [3, 1, 1, 1]),
        conv(2, 1, [3, 5], [12, 19], [3, 2, 1, 1]),
        conv(1, 1, [33, 40], [10, 9], [3, 1, 1, 1]),
        conv(1, 1, [6, 33], [7, 8], [1, 1, 0, 1]),
        conv(2, 2, [8, 9], [11, 20], [5, 2, 2, 1]),
        conv(1, 1, [7, 4], [20, 6], [2, 1, 0, 3]),
        conv(3, 1, [4, 34], [5, 5], [3, 1, 0, 1]),
        conv(1, 1, [20, 34], [13, 40], [3, 1, 1, 1]),
    ];
    for c in &all {
        let ([h, w], [oh, ow], [i, o], g) = (c.size, c.output(), c.channels, c.groups);
        let (n, k) = (c.images, c.kernel);
        let x = array(dtype, &[n, g * i, h, w], 1);
        let weight = array(dtype, &[g * o, i, k, k], 2);
        let dy = array(dtype, &[n, g * o, oh, ow], 3);
        let all = |a: &Array| -> Vec<f64> { a.scalars().into_iter().map(|s| parts(s).0).collect() };
        let (xs, ws, ds) = (all(&x), all(&weight), all(&dy));
        let (mut y, mut dx, mut dw) = (
            vec![0.0; ds.len()],
            vec![0.0; xs.len()],
            vec![0.0; ws.len()],
        );
        c.each(|to, from, tap| {
            y[to] += xs[from] * ws[tap];
            dx[from] += ds[to] * ws[tap];
            dw[tap] += ds[to] * xs[from];
        });
        let attrs = |shape: &[usize]| attrs::Conv {
            stride: [c.stride as i64; 2].into(),
            padding: [c.padding as i64; 2].into(),
            dilation: [c.dilation as i64; 2].into(),
            groups: g,
            output_shape: shape.into(),
        };
        for (kernel, inputs, shape, want) in [
            (Kernel::Conv, [&x, &weight], &dy.shape, &y),
            (Kernel::ConvTranspose, [&dy, &weight], &x.shape, &dx),
            (Kernel::ConvWeight, [&dy, &x], &weight.shape, &dw),
        ] {
            with_each("conv", taken, |what| {
                let mut out = Array::empty(dtype, shape);
                run(kernel, &mut out, &inputs, &attrs(shape));
                let of = format!("{what}: {kernel:?} {dtype} {i} to {o} of {:?}", c.size);
                close(&out, want, &of);
            });
        }
    }
}

/// Convolutions whose results are normalised, added to and clamped as they go have the bits of those that are so
/// afterwards.
fn finished_convolutions(taken: &mut Taken) {
    let conv = Conv::new;
    let all = [
        conv(2, 4, [1, 1], [9, 37], [3, 1, 1, 1]),
        conv(2, 3, [1, 2], [12, 33], [5, 2, 2, 1]),
        conv(2, 1, [3, 5], [12, 19], [3, 2, 1, 1]),
        conv(1, 1, [33, 40], [10, 9], [3, 1, 1, 1]),
        conv(3, 1, [36, 70], [13, 40], [3, 1, 1, 1]),
        conv(1, 1, [6, 33], [7, 8], [1, 1, 0, 1]),
        // Several blocks of terms, rows and columns.
        conv(1, 1, [1500, 70], [9, 11], [1, 1, 0, 1]),
        conv(2, 1, [40, 300], [31, 40], [1, 1, 0, 1]),
        conv(2, 2, [8, 9], [11, 20], [5, 2, 2, 1]),
        // Small images, several at once.
        conv(5, 1, [64, 34], [7, 7], [1, 1, 0, 1]),
        conv(3, 1, [4, 34], [5, 5], [3, 1, 0, 1]),
    ];
    let dtype = DType::F32;
    for c in &all {
        let ([h, w], [oh, ow], [i, o], g) = (c.size, c.output(), c.channels, c.groups);
        let (n, k, of) = (c.images, c.kernel, g * o);
        // Not integers, so that another order of the operations would show.
        let array = |shape: &[usize], from: usize| {
            Array::new(dtype, shape, |i| {
                Scalar::Float(value(i + from) / 7.0 + value(i / 11 + from) / 90.0)
            })
        };
        let x = array(&[n, g * i, h, w], 1);
        let (weight, bias) = (array(&[of, i, k, k], 2), array(&[of], 3));
        let (scale, shift, mean) = (array(&[of], 4), array(&[of], 5), array(&[of], 6));
        let var = Array::new(dtype, &[of], |i| Scalar::Float(0.5 + (i % 9) as f64));
        let residual = array(&[n, of, oh, ow], 7);
        let a = attrs::ConvBatchNorm {
            stride: [c.stride as i64; 2].into(),
            padding: [c.padding as i64; 2].into(),
            dilation: [c.dilation as i64; 2].into(),
            groups: g,
            output_shape: (&residual.shape[..]).into(),
            eps: 1e-3,
            min: Some(0.0),
            max: Some(2.5),
        };
        let norm = attrs::BatchNorm {
            training: false,
            eps: a.eps,
            variance: false,
            min: a.min,
            max: a.max,
        };
        for parts in [[&bias, &scale, &shift, &residual].map(Some), [None; 4]] {
            let [bias, scale, shift, residual] = parts;
            with_each("conv", taken, |what| {
                let mut y = Array::empty(dtype, &[n, of, oh, ow]);
                let (mut want, mut got) = (y.clone(), y.clone());
                let [mut m, mut s] = [0, 1].map(|_| Array::empty(dtype, &[of]));
                let (x, w, mean, var) = (Some(&x), Some(&weight), Some(&mean), Some(&var));
                run_all(Kernel::Conv, &mut [&mut y], &[x, w, bias], &a.convolution());
                let inputs = [Some(&y), scale, shift, mean, var, residual];
                run_all(
                    Kernel::BatchNorm,
                    &mut [&mut want, &mut m, &mut s],
                    &inputs,
                    &norm,
                );
                let inputs = [x, w, bias, scale, shift, mean, var, residual];
                run_all(Kernel::ConvBatchNorm, &mut [&mut got], &inputs, &a);
                let (want, got) = (want.scalars(), got.scalars());
                let at = want.iter().zip(&got).position(|(w, g)| w != g);
                assert_eq!(at, None, "{what}: {i} to {o} of {:?}", c.size);
            });
        }
    }
}

/// Softmax, sums and sorts of float32 along each dimension of tensors in two layouts.
fn rows(taken: &mut Taken) {
    for shape in [
        [3, 5, 16],
        [2, 40, 70],
        [1, 3, 1200],
        [4, 1, 9],
        [3, 700, 33],
    ] {
        let x = array(DType::F32, &shape, 4);
        for x in [x.clone(), transposed(&x)] {
            for dim in 0..3 {
                let (n, inner) = (shape[dim], shape[dim + 1..].iter().product::<usize>());
                let values = x.to_f64();
                let lines = values.len() / n;
                let line = |at: usize| -> Vec<usize> {
                    let first = at / inner * n * inner + at % inner;
                    (0..n).map(|i| first + i * inner).collect()
                };
                let mut soft = vec![0.0; values.len()];
                let mut sums = vec![0.0; lines];
                let mut sorted = vec![0.0; values.len()];
                for at in 0..lines {
                    let places = line(at);
                    let exps: Vec<f64> = places.iter().map(|&i| values[i].exp()).collect();
                    let all: f64 = exps.iter().sum();
                    let mut ordered: Vec<f64> = places.iter().map(|&i| values[i]).collect();
                    ordered.sort_by(f64::total_cmp);
                    sums[at] = ordered.iter().sum();
                    for ((&i, e), v) in places.iter().zip(exps).zip(ordered) {
                        soft[i] = e / all;
                        sorted[i] = v;
                    }
                }
                let of = |what: &str| format!("{what}: {shape:?} along {dim}");
                with_each("softmax", taken, |what| {
                    let mut out = Array::empty(DType::F32, &shape);
                    run(Kernel::Softmax, &mut out, &[&x], &attrs::Softmax { dim });
                    close(&out, &soft, &of(what));
                });
                with_each("reduce", taken, |what| {
                    let mut kept = shape.to_vec();
                    kept[dim] = 1;
                    let mut out = Array::empty(DType::F32, &kept);
                    run(Kernel::Sum, &mut out, &[&x], attrs::NONE);
                    close(&out, &sums, &of(what));
                });
                with_each("sort", taken, |what| {
                    let mut out = Array::empty(DType::F32, &shape);
                    let mut positions = Array::empty(DType::I64, &shape);
                    let attrs = attrs::Sort {
                        dim,
                        descending: false,
                    };
                    sort(&mut out, &mut positions, &x, &attrs);
                    assert_eq!(out.to_f64(), sorted, "{}", of(what));
                });
            }
        }
    }
}

/// The algorithms that this machine cannot run.
fn missing() -> Vec<(&'static str, &'static str)> {
    let mut all = Vec::new();
    if !machine().bf16_tiles {
        all.extend([
            ("matmul", "amx"),
            ("matmul", "amx-split"),
            ("conv", "amx"),
            ("attention", "amx"),
        ]);
    }
    if !machine().bf16_dot {
        all.push(("matmul", "bf16-dot"));
    }
    if machine().level < torsh_core::machine::Level::Avx512 {
        all.extend([
            ("matmul", "dot-tiles"),
            ("softmax", "rows-streamed"),
            ("scan", "chunks-in-fours"),
            ("masked_select", "compress"),
            ("step", "adam-estimates"),
        ]);
    }
    if !machine().streaming_stores {
        all.extend([
            ("copy", "flat-streamed"),
            ("transpose", "tiles-streamed"),
            ("gather", "rows-streamed"),
            ("pool", "lines-streamed"),
            ("resample", "passes-streamed"),
            ("resample", "together-streamed"),
            ("row_norm", "streamed"),
            ("row_norm", "prefetched-streamed"),
        ]);
    }
    if machine().level < torsh_core::machine::Level::Avx2 {
        all.push(("conv", "depthwise"));
    }
    all
}

#[test]
fn every_algorithm_computes_what_it_accepts() {
    let mut taken = Taken::new();
    for dtype in DType::ALL {
        if dtype != DType::Bool {
            products(dtype, &mut taken);
        }
    }
    for dtype in [DType::F32, DType::F64] {
        convolutions(dtype, &mut taken);
    }
    finished_convolutions(&mut taken);
    rows(&mut taken);
    moves::copies(&mut taken);
    moves::scans(&mut taken);
    moves::indexing(&mut taken);
    transforms::complex_lines(&mut taken);
    layers::pooling(&mut taken);
    layers::row_norms(&mut taken);
    layers::steps(&mut taken);
    layers::recurrent(&mut taken);
    layers::resampling(&mut taken);
    layers::attention(&mut taken);
    sparse::all(&mut taken);
    for (op, algorithms) in operations() {
        for algorithm in algorithms {
            assert!(taken.contains_key(&(op, algorithm)), "{op} has no test");
        }
    }
    let mut never = Vec::new();
    for ((op, algorithm), taken) in taken {
        match missing().contains(&(op, algorithm)) {
            true => skipped(&format!("{op} {algorithm}: the processor lacks it")),
            false if taken == 0 => never.push(format!("{op} {algorithm}")),
            false => {}
        }
    }
    assert!(never.is_empty(), "never taken: {}", never.join(", "));
}
