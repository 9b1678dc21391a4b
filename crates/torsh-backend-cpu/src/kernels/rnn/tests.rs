//! Sequences together against each by itself, which takes the way of products step by step.

use torsh_core::attrs::{self, RnnMode};
use torsh_core::{Attributes, DType, Kernel, View, pool};

use crate::testing;

/// Numbers in [-1, 1) that look random.
fn numbers(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..n)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        })
        .collect()
}

/// A layer over some sequences. Rows are laid out as the steps are.
struct Layer {
    mode: RnnMode,
    h: usize,
    reverse: bool,
    lengths: Vec<usize>,
}

/// What a layer reads: weight and bias, and of each sequence its input and the gradient of its output
/// step by step, first state and cells and the gradients of the last ones.
struct LayerOperands {
    w: Vec<f32>,
    bias: Vec<f32>,
    gx: Vec<Vec<f32>>,
    dy: Vec<Vec<f32>>,
    states: Vec<[Vec<f32>; 4]>,
}

/// The results for each sequence: output, last state and cells, and the gradients of its input and of
/// first state and cells.
type LayerResults = Vec<[Vec<f32>; 6]>;

struct OwnedMatrix {
    data: Vec<f32>,
    shape: Vec<usize>,
    strides: Vec<isize>,
}

impl OwnedMatrix {
    fn new(data: Vec<f32>, rows: usize, columns: usize) -> OwnedMatrix {
        assert_eq!(data.len(), rows * columns);
        OwnedMatrix {
            data,
            shape: vec![rows, columns],
            strides: vec![columns as isize, 1],
        }
    }
    fn view(&mut self) -> View<'_> {
        // SAFETY: the buffers of the test outlive the call.
        unsafe {
            View::new(
                self.data.as_mut_ptr().cast(),
                DType::F32,
                &self.shape,
                &self.strides,
            )
        }
    }
}

impl Layer {
    fn operands(&self) -> LayerOperands {
        let width = self.mode.gates() * self.h;
        let rows = |seed: usize, columns: usize| -> Vec<Vec<f32>> {
            let of = |(i, n): (usize, &usize)| numbers(n * columns, (seed + 10 * i) as u64);
            self.lengths.iter().enumerate().map(of).collect()
        };
        let states =
            |i: usize| [1, 2, 3, 4].map(|seed| numbers(self.h, 1000 + 10 * i as u64 + seed));
        LayerOperands {
            w: numbers(width * self.h, 5),
            bias: numbers(width, 6),
            gx: rows(7, width),
            dy: rows(8, self.h),
            states: (0..self.lengths.len()).map(states).collect(),
        }
    }

    /// Forward and backward for some of the sequences.
    fn run(&self, o: &LayerOperands, which: &[usize]) -> LayerResults {
        let (mode, h) = (self.mode, self.h);
        let (width, kept) = (mode.gates() * h, mode.saved() * h);
        let (lstm, gru, batch) = (mode == RnnMode::Lstm, mode == RnnMode::Gru, which.len());
        let longest = which.iter().map(|&i| self.lengths[i]).max().unwrap();
        // The sequence and its step of each row.
        let order: Vec<(usize, usize)> = (0..longest)
            .flat_map(|t| (0..batch).map(move |b| (b, t)))
            .filter(|&(b, t)| t < self.lengths[which[b]])
            .collect();
        let sizes: Vec<i64> = (0..longest)
            .map(|t| order.iter().filter(|r| r.1 == t).count() as i64)
            .collect();
        let n = order.len();
        let together = |of: &[Vec<f32>], columns: usize| {
            let row = |&(b, t): &(usize, usize)| of[which[b]][t * columns..][..columns].to_vec();
            OwnedMatrix::new(order.iter().flat_map(row).collect(), n, columns)
        };
        let state = |k: usize| {
            let all = which.iter().flat_map(|&i| o.states[i][k].clone());
            OwnedMatrix::new(all.collect(), batch, h)
        };
        let room = |rows: usize, columns: usize| {
            OwnedMatrix::new(vec![f32::NAN; rows * columns], rows, columns)
        };
        let cells = if lstm { batch } else { 0 };
        let (mut gx, mut dy) = (together(&o.gx, width), together(&o.dy, h));
        let [mut h0, mut c0, mut dhn, mut dcn] = [0, 1, 2, 3].map(state);
        let mut w = OwnedMatrix::new(o.w.clone(), width, h);
        let mut bias = OwnedMatrix::new(o.bias.clone(), 1, width);
        (bias.shape, bias.strides) = (vec![width], vec![1]);
        let (mut y, mut hn, mut cn) = (room(n, h), room(batch, h), room(cells, h));
        let mut saved = room(n, kept);
        let call =
            |key: Kernel, outputs: &[View<'_>], inputs: &[View<'_>], attrs: &dyn Attributes| {
                testing::run(key, DType::F32, outputs, inputs, attrs).unwrap();
            };
        let some = |wanted: bool, m: View<'static>| if wanted { m } else { View::ABSENT };
        // The matrices outlive every view of them.
        let view = |m: &mut OwnedMatrix| -> View<'static> {
            // SAFETY: only the lifetime changes, of what lives to the end of this function.
            unsafe { std::mem::transmute::<View<'_>, View<'static>>(m.view()) }
        };
        let (h0v, c0v, wv) = (view(&mut h0), some(lstm, view(&mut c0)), view(&mut w));
        let (yv, savedv) = (view(&mut y), view(&mut saved));
        call(
            Kernel::Rnn,
            &[yv, view(&mut hn), view(&mut cn), savedv],
            &[
                view(&mut gx),
                h0v,
                c0v,
                wv,
                some(gru, view(&mut bias)),
                View::ABSENT,
            ],
            &attrs::Rnn {
                mode,
                reverse: self.reverse,
                batch_sizes: sizes[..].into(),
            },
        );
        let (mut dgx, mut dh0, mut dc0) = (room(n, width), room(batch, h), room(cells, h));
        let (mut ahead, mut projected) = (room(0, h), room(0, h));
        let mut dhidden = room(if gru { n } else { 0 }, width);
        call(
            Kernel::RnnBackward,
            &[
                view(&mut dgx),
                view(&mut dh0),
                view(&mut dc0),
                view(&mut ahead),
                view(&mut dhidden),
                view(&mut projected),
            ],
            &[
                view(&mut dy),
                view(&mut dhn),
                some(lstm, view(&mut dcn)),
                h0v,
                c0v,
                wv,
                View::ABSENT,
                yv,
                savedv,
            ],
            &attrs::RnnBackward {
                mode,
                reverse: self.reverse,
                batch_sizes: sizes.into(),
                weight_grad: false,
            },
        );
        (0..batch)
            .map(|b| {
                let rows = |m: &OwnedMatrix| -> Vec<f32> {
                    let columns = m.shape[1];
                    let mine = order.iter().enumerate().filter(|(_, r)| r.0 == b);
                    mine.flat_map(|(i, _)| m.data[i * columns..][..columns].to_vec())
                        .collect()
                };
                let of = |m: &OwnedMatrix| match m.data.is_empty() {
                    true => vec![],
                    false => m.data[b * h..][..h].to_vec(),
                };
                [rows(&y), of(&hn), of(&cn), rows(&dgx), of(&dh0), of(&dc0)]
            })
            .collect()
    }
}

/// A layer's sequences together, on so many threads, against each by itself.
fn check(layer: &Layer, threads: &[usize]) {
    let (mode, h, batch) = (layer.mode, layer.h, layer.lengths.len());
    let mut o = layer.operands();
    // A ReLU's states must not grow without bound.
    let scale = 1.0 / (h as f32).sqrt();
    o.w.iter_mut().for_each(|w| *w *= scale);
    let apart: LayerResults = (0..batch).flat_map(|i| layer.run(&o, &[i])).collect();
    let all: Vec<usize> = (0..batch).collect();
    let mut first: Option<LayerResults> = None;
    for &threads in threads {
        pool::set_num_threads(threads).unwrap();
        let got = layer.run(&o, &all);
        for (i, (got, want)) in got.iter().zip(&apart).enumerate() {
            for (k, (got, want)) in got.iter().zip(want).enumerate() {
                assert_eq!(got.len(), want.len());
                for (a, b) in got.iter().zip(want) {
                    assert!(
                        (a - b).abs() <= 2e-5 * (1.0 + b.abs()),
                        "mode {mode:?} h {h} batch {batch} sequence {i} result {k}: {a}, alone {b}"
                    );
                }
            }
        }
        assert!(
            first.get_or_insert_with(|| got.clone()) == &got,
            "{threads} threads"
        );
    }
}

#[torsh_macros::unit_test]
fn sequences_together_and_apart() {
    let before = pool::num_threads();
    for mode in [RnnMode::Tanh, RnnMode::Relu, RnnMode::Lstm, RnnMode::Gru] {
        for (h, longest) in [(32, 6), (64, 7), (7, 5), (20, 9)] {
            for (batch, reverse) in [(2, false), (9, false), (13, true)] {
                let length = |i: usize| longest - i * (longest - 1) / (2 * batch);
                let layer = Layer {
                    mode,
                    h,
                    reverse,
                    lengths: (0..batch).map(length).collect(),
                };
                check(&layer, &[1, 2, 3]);
            }
        }
    }
    pool::set_num_threads(before).unwrap();
}

/// So wide that steps are products of matrices, which the matrix unit takes.
#[cfg(target_arch = "x86_64")]
#[torsh_macros::unit_test]
fn wide_layers_on_the_matrix_unit() {
    let Some(unit) = crate::simd::isa::stand_in() else {
        return;
    };
    let before = pool::num_threads();
    for mode in [RnnMode::Lstm, RnnMode::Gru] {
        let layer = Layer {
            mode,
            h: 400,
            reverse: mode == RnnMode::Gru,
            lengths: (0..80).map(|i| if i < 72 { 2 } else { 1 }).collect(),
        };
        check(&layer, &[1, 2]);
    }
    unit.assert_used();
    pool::set_num_threads(before).unwrap();
}
