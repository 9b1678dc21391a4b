//! Pooling, row norms and steps of optimizers.

use super::*;
use torsh_core::View;
use torsh_core::attrs::{STEP_FLAGS, STEP_NUMBERS, StepPart, Steps};
use torsh_core::steps::numbers::AdamStep;

/// Calls a kernel with several outputs.
fn run_all(k: Kernel, outputs: &mut [&mut Array], inputs: &[&Array], attrs: &dyn Attributes) {
    let f = kernel(k).expect("the kernel");
    let dtype = outputs[0].dtype;
    let outputs: Vec<_> = outputs.iter_mut().map(|a| a.view_mut()).collect();
    let inputs: Vec<_> = inputs.iter().map(|a| a.view()).collect();
    // SAFETY: the views are of arrays that outlive the call, with the kernel's shapes.
    f(&unsafe { KernelArgs::new(k, dtype, &outputs, &inputs, attrs) }).expect("a result");
}

/// Maxima, their positions and means of windows of images.
pub fn pooling(taken: &mut Taken) {
    for dtype in [DType::F32, DType::F64, DType::F16, DType::I32] {
        for (size, window) in [
            ([1, 1], [1, 1, 0]),
            ([9, 37], [2, 2, 0]),
            ([20, 40], [3, 2, 1]),
            ([12, 70], [3, 1, 1]),
            ([30, 50], [5, 2, 2]),
            ([30, 50], [7, 5, 3]),
            ([50, 70], [18, 1, 0]),
        ] {
            let image = array(dtype, &[2, 3, size[0], size[1]], 6);
            pool(&image, size, window, taken);
        }
    }
}

/// A pooling of six planes; windows are a kernel's size, stride and padding.
fn pool(x: &Array, [h, w]: [usize; 2], window: [usize; 3], taken: &mut Taken) {
    let [kernel, stride, padding] = window;
    let [oh, ow] = [h, w].map(|n| (n + 2 * padding - kernel) / stride + 1);
    let shape = [2, 3, oh, ow];
    let values = x.to_f64();
    let (mut maxima, mut places, mut means) = (Vec::new(), Vec::new(), Vec::new());
    for i in indices(&[6, oh, ow]) {
        let (mut best, mut place, mut sum) = (f64::NEG_INFINITY, 0, 0.0);
        for y in (i[1] * stride).max(padding)..(i[1] * stride + kernel).min(h + padding) {
            for x in (i[2] * stride).max(padding)..(i[2] * stride + kernel).min(w + padding) {
                let at = (y - padding) * w + x - padding;
                let v = values[i[0] * h * w + at];
                sum += v;
                if v > best {
                    (best, place) = (v, at);
                }
            }
        }
        maxima.push(best);
        places.push(place as i64);
        means.push(sum / (kernel * kernel) as f64);
    }
    let list = |n: usize| [n as i64; 2].into();
    let of = |what: &str| format!("{what}: {} {h}x{w} {window:?}", x.dtype);
    with_each("pool", taken, |what| {
        let mut attrs = attrs::MaxPool {
            kernel_size: list(kernel),
            stride: list(stride),
            padding: list(padding),
            dilation: list(1),
            return_indices: false,
            output_shape: shape[..].into(),
        };
        let mut out = Array::empty(x.dtype, &shape);
        run(Kernel::MaxPool, &mut out, &[x], &attrs);
        assert_eq!(out.to_f64(), maxima, "{}", of(what));
        attrs.return_indices = true;
        let mut out = Array::empty(x.dtype, &shape);
        let mut found = Array::empty(DType::I64, &shape);
        run_all(Kernel::MaxPool, &mut [&mut out, &mut found], &[x], &attrs);
        assert_eq!(out.to_f64(), maxima, "{}", of(what));
        assert_eq!(found.to_i64(), places, "{}", of(what));
        if matches!(x.dtype, DType::F32 | DType::F64) {
            let attrs = attrs::AvgPool {
                kernel_size: list(kernel),
                stride: list(stride),
                padding: list(padding),
                count_include_pad: true,
                divisor_override: Some((kernel * kernel) as i64),
                output_shape: shape[..].into(),
            };
            let mut out = Array::empty(x.dtype, &shape);
            run(Kernel::AvgPool, &mut out, &[x], &attrs);
            close(&out, &means, &of(what));
        }
    });
}

/// Layer norm of rows of several lengths.
pub fn row_norms(taken: &mut Taken) {
    for dtype in [DType::F32, DType::F64] {
        for (rows, n) in [(1, 1), (7, 33), (40, 128), (3, 1025), (2, 5000)] {
            let x = array(dtype, &[rows, n], 7);
            let (weight, bias) = (array(dtype, &[n], 1), array(dtype, &[n], 2));
            let (xs, ws, bs) = (x.to_f64(), weight.to_f64(), bias.to_f64());
            let mut want = Vec::new();
            for row in xs.chunks(n) {
                let mean = row.iter().sum::<f64>() / n as f64;
                let var = row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n as f64;
                let rstd = 1.0 / (var + 1e-5).sqrt();
                want.extend((0..n).map(|i| (row[i] - mean) * rstd * ws[i] + bs[i]));
            }
            let attrs = attrs::RowNorm {
                rows,
                n,
                groups: 1,
                spread: 1,
                eps: 1e-5,
                centred: true,
            };
            with_each("row_norm", taken, |what| {
                let mut out = Array::empty(dtype, &[rows, n]);
                let mut means = Array::empty(dtype, &[rows]);
                let mut rstds = means.clone();
                let mut outputs = [&mut out, &mut means, &mut rstds];
                run_all(Kernel::RowNorm, &mut outputs, &[&x, &weight, &bias], &attrs);
                close(&out, &want, &format!("{what}: {dtype} {rows} rows of {n}"));
            });
        }
    }
}

/// Adam's step.
pub fn steps(taken: &mut Taken) {
    const N: usize = 1000;
    let [lr, beta1, beta2, eps] = [1e-3, 0.9, 0.999, 1e-8];
    for dtype in [DType::F32, DType::F64] {
        let step = 3.0;
        let operand = |from: usize, scale: f64| {
            Array::new(dtype, &[N], |i| {
                Scalar::Float(((i * 37 + from) % 101) as f64 * scale + scale)
            })
        };
        let (grad, all) = (
            operand(1, 0.02),
            [operand(2, 0.1), operand(3, 0.01), operand(4, 1e-3)],
        );
        let ([p, m, v], grads) = (all.each_ref().map(Array::to_f64), grad.to_f64());
        let want: Vec<f64> = (0..N)
            .map(|i| {
                let g = grads[i];
                let m = m[i] + (1.0 - beta1) * (g - m[i]);
                let v = beta2 * v[i] + (1.0 - beta2) * g * g;
                let correction = (1.0 - f64::powf(beta2, step)).sqrt();
                let size = lr / (1.0 - f64::powf(beta1, step));
                p[i] - size * m / (v.sqrt() / correction + eps)
            })
            .collect();
        let mut numbers = [0.0; STEP_NUMBERS];
        numbers[..4].copy_from_slice(&[lr, beta1, beta2, eps]);
        let attrs = Steps {
            names: AdamStep::NAMES,
            parts: vec![StepPart {
                present: 0b11,
                maximize: false,
                weight_decay: 0.0,
                shrink: 1.0,
                step,
                numbers,
                flags: [false; STEP_FLAGS],
            }],
            counted: false,
            rows: false,
            conditional: false,
        };
        with_each("step", taken, |what| {
            let [mut p, mut m, mut v] = all.clone();
            let mut outputs = [&mut p, &mut m, &mut v];
            run_all(Kernel::AdamStep, &mut outputs, &[&grad], &attrs);
            close(&p, &want, &format!("{what}: {dtype}"));
        });
    }
}

/// A recurrent layer of tanh over sequences of one length.
pub fn recurrent(taken: &mut Taken) {
    for dtype in [DType::F32, DType::F64] {
        for (batch, length, h) in [(1, 3, 5), (4, 6, 8), (7, 3, 33)] {
            let small = |shape: &[usize], from: usize| {
                Array::new(dtype, shape, |i| Scalar::Float(value(i + from) * 0.125))
            };
            let gx = small(&[length * batch, h], 1);
            let (h0, w) = (small(&[batch, h], 2), small(&[h, h], 3));
            let (x, weight) = (gx.to_f64(), w.to_f64());
            let mut state = h0.to_f64();
            let mut want = Vec::new();
            for step in 0..length {
                let before = state.clone();
                for (at, s) in state.iter_mut().enumerate() {
                    let (i, j) = (at / h, at % h);
                    let sum: f64 = (0..h).map(|k| before[i * h + k] * weight[j * h + k]).sum();
                    *s = (x[step * batch * h + at] + sum).tanh();
                }
                want.extend_from_slice(&state);
            }
            let attrs = attrs::Rnn {
                mode: attrs::RnnMode::Tanh,
                reverse: false,
                batch_sizes: vec![batch as i64; length].into(),
            };
            with_each("rnn", taken, |what| {
                let mut y = Array::empty(dtype, &[length * batch, h]);
                let mut last = Array::empty(dtype, &[batch, h]);
                let mut none = [
                    Array::empty(dtype, &[0, h]),
                    Array::empty(dtype, &[length * batch, 0]),
                ];
                let [cells, saved] = &mut none;
                let outputs = [
                    y.view_mut(),
                    last.view_mut(),
                    cells.view_mut(),
                    saved.view_mut(),
                ];
                let absent = View::ABSENT;
                let inputs = [gx.view(), h0.view(), absent, w.view(), absent, absent];
                let f = kernel(Kernel::Rnn).expect("the kernel");
                // SAFETY: the views are of arrays that outlive the call, with the kernel's shapes.
                f(&unsafe { KernelArgs::new(Kernel::Rnn, dtype, &outputs, &inputs, &attrs) })
                    .expect("a layer");
                close(
                    &y,
                    &want,
                    &format!("{what}: {dtype} {batch} x {length} x {h}"),
                );
            });
        }
    }
}

/// Images made larger and smaller by lines between two elements.
pub fn resampling(taken: &mut Taken) {
    for dtype in [DType::F32, DType::F64] {
        for (from, to) in [
            ([1, 1], [2, 3]),
            ([5, 7], [10, 14]),
            ([8, 40], [8, 80]),
            ([9, 20], [6, 31]),
        ] {
            let x = array(dtype, &[2, 3, from[0], from[1]], 4);
            let values = x.to_f64();
            // The elements and the weight of the second one.
            let between = |d: usize, i: usize| {
                let scale = from[d] as f64 / to[d] as f64;
                let at = ((i as f64 + 0.5) * scale - 0.5).max(0.0);
                let first = at as usize;
                (first, (first + 1).min(from[d] - 1), at - first as f64)
            };
            let want: Vec<f64> = indices(&[6, to[0], to[1]])
                .iter()
                .map(|i| {
                    let (y, y2, b) = between(0, i[1]);
                    let (x, x2, a) = between(1, i[2]);
                    let row = |y: usize| {
                        let at = (i[0] * from[0] + y) * from[1];
                        values[at + x] * (1.0 - a) + values[at + x2] * a
                    };
                    row(y) * (1.0 - b) + row(y2) * b
                })
                .collect();
            let shape = [2, 3, to[0], to[1]];
            let attrs = attrs::Resample {
                mode: attrs::ResampleMode::Linear,
                align_corners: false,
                scales_d: None,
                scales_h: None,
                scales_w: None,
                antialias: false,
                output_shape: shape[..].into(),
            };
            with_each("resample", taken, |what| {
                let mut out = Array::empty(dtype, &shape);
                run(Kernel::Resample, &mut out, &[&x], &attrs);
                close(&out, &want, &format!("{what}: {dtype} {from:?} to {to:?}"));
            });
        }
    }
}

/// Attention of few and of many queries, to all keys and to those of a window.
pub fn attention(taken: &mut Taken) {
    let windows = [
        (0, None, None),
        (0, None, Some(0)),
        (3, None, Some(0)),
        (1, Some(2), Some(4)),
    ];
    for (dtype, (past, left, right)) in [DType::F32, DType::F64]
        .into_iter()
        .flat_map(|dtype| windows.map(|window| (dtype, window)))
    {
        let sees = |i: usize, j: usize| {
            left.is_none_or(|n: usize| j + n >= past + i)
                && right.is_none_or(|n: usize| j <= past + i + n)
        };
        for [l, s, e, d] in [[1, 5, 8, 8], [7, 33, 16, 20], [140, 130, 32, 40]] {
            let [q, k, v] = [[l, e], [s, e], [s, d]].map(|[n, m]| array(dtype, &[2, n, m], n));
            let (qs, ks, vs) = (q.to_f64(), k.to_f64(), v.to_f64());
            let scale = 1.0 / (e as f64).sqrt();
            let mut want = Vec::new();
            for (head, i) in (0..2).flat_map(|head| (0..l).map(move |i| (head, i))) {
                let score = |j: usize| -> f64 {
                    let of = |c: usize| qs[(head * l + i) * e + c] * ks[(head * s + j) * e + c];
                    (0..e).map(of).sum::<f64>() * scale
                };
                let weight = |j: usize| if sees(i, j) { score(j).exp() } else { 0.0 };
                let exps: Vec<f64> = (0..s).map(weight).collect();
                // A query that sees no key gives 0.
                let all = exps.iter().sum::<f64>().max(f64::MIN_POSITIVE);
                want.extend((0..d).map(|c| {
                    let of = |j: usize| exps[j] * vs[(head * s + j) * d + c];
                    (0..s).map(of).sum::<f64>() / all
                }));
            }
            let attrs = attrs::Attention {
                past,
                left,
                right,
                scale,
                enable_gqa: false,
            };
            with_each("attention", taken, |what| {
                let mut out = Array::empty(dtype, &[2, l, d]);
                let mut sums = Array::empty(dtype, &[2, l]);
                let outputs = [out.view_mut(), sums.view_mut()];
                let inputs = [q.view(), k.view(), v.view(), View::ABSENT];
                let f = kernel(Kernel::Attention).expect("the kernel");
                // SAFETY: the views are of arrays that outlive the call, with the kernel's shapes.
                f(
                    &unsafe {
                        KernelArgs::new(Kernel::Attention, dtype, &outputs, &inputs, &attrs)
                    },
                )
                .expect("attention");
                close(&out, &want, &format!("{what}: {dtype} {l} {s} {e} {d}"));
            });
        }
    }
}
