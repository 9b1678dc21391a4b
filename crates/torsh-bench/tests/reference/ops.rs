//! Ops in plain loops, in float64.

use torsh_bench::spec::{BlockAttention, Op, Spec};

use crate::layers::{self as l, T};
use crate::random;
use crate::tape::{V, dot, gradients};

/// The results of a workload that neither trains nor infers. `seed` is that of the default
/// generator before the call.
pub fn results(spec: &Spec, inputs: &[T], state: &[T], seed: u32) -> Vec<Vec<f64>> {
    let x = inputs.first();
    let number = |i: usize| inputs[i].get();
    let each = |f: &dyn Fn(f64) -> f64| vec![number(0).into_iter().map(f).collect()];
    let rows = |f: &dyn Fn(&[f64]) -> f64| {
        let width = inputs[0].width();
        vec![number(0).chunks(width).map(f).collect()]
    };
    match spec {
        Spec::MatMul { a, b, .. } => vec![matmul(&number(0), &number(1), a, b)],
        Spec::LinearGelu { .. } => {
            let y = l::linear(&inputs[0], &state[0], &state[1]);
            vec![y.map(V::gelu).get()]
        }
        Spec::Pointwise { op, .. } => match op {
            Op::Add => vec![
                number(0)
                    .iter()
                    .zip(number(1))
                    .map(|(a, b)| a + b)
                    .collect(),
            ],
            Op::Exp => each(&f64::exp),
            Op::Gelu => each(&|x| 0.5 * x * (1.0 + libm::erf(x / 2f64.sqrt()))),
            Op::Tanh => each(&f64::tanh),
        },
        Spec::Sum { .. } => vec![vec![number(0).iter().sum()]],
        Spec::AddBroadcast { cols, .. } => {
            let row = number(1);
            let all = number(0).into_iter().enumerate();
            vec![all.map(|(i, v)| v + row[i % cols]).collect()]
        }
        Spec::AddInplace { .. } => each(&|x| x + 1.0),
        Spec::Chain { .. } => each(&|x| x / (1.0 + (-x).exp()) + 1.0),
        Spec::Copy { .. } => each(&|x| x),
        Spec::AddSelf { .. } => each(&|x| 2.0 * x),
        Spec::Transpose { rows, cols } | Spec::View { rows, cols } => {
            let x = number(0);
            let at = (0..rows * cols).map(|i| x[i % rows * cols + i / rows]);
            vec![at.collect()]
        }
        Spec::Permute {
            shape: [n, c, h, w],
        } => {
            let x = number(0);
            let at = l::quads(*n, *h, *w, *c).map(|(n, y, z, i)| x[((n * c + i) * h + y) * w + z]);
            vec![at.collect()]
        }
        Spec::Cat { .. } => vec![inputs.iter().flat_map(T::get).collect()],
        Spec::SumDim { rows: r, cols, dim } => {
            let x = number(0);
            let along = |i: usize| match dim {
                0 => (0..*r).map(|j| x[j * cols + i]).sum(),
                _ => (0..*cols).map(|j| x[i * cols + j]).sum(),
            };
            vec![(0..if *dim == 0 { *cols } else { *r }).map(along).collect()]
        }
        Spec::Argmax { .. } => rows(&|row| {
            let best = (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b]));
            best.unwrap() as f64
        }),
        Spec::Var { .. } => rows(&|row| {
            let n = row.len() as f64;
            let mean = row.iter().sum::<f64>() / n;
            row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0)
        }),
        Spec::Softmax { .. } => vec![inputs[0].by_row(l::softmax).get()],
        Spec::LayerNorm { .. } => vec![l::layer_norm(&inputs[0], &inputs[1], &inputs[2]).get()],
        Spec::CrossEntropy { .. } => {
            vec![vec![l::cross_entropy(&inputs[0], &number(1)).get()]]
        }
        Spec::Embedding { width, .. } | Spec::IndexSelect { width, .. } => {
            let table = number(1);
            let row = |i: f64| table[i as usize * width..][..*width].to_vec();
            vec![number(0).into_iter().flat_map(row).collect()]
        }
        Spec::ScatterAdd { bins, .. } => {
            let mut out = vec![0.0; *bins];
            for (bin, v) in number(0).into_iter().zip(number(1)) {
                out[bin as usize] += v;
            }
            vec![out]
        }
        Spec::MaskedSelect { .. } => {
            vec![number(0).into_iter().filter(|&v| v > 0.0).collect()]
        }
        Spec::Sort { n } => order(&number(0), *n, 1.0),
        Spec::Topk { k, .. } => order(&number(0), *k, -1.0),
        Spec::Unique { .. } => {
            let mut sorted = number(0);
            sorted.sort_by(f64::total_cmp);
            sorted.dedup();
            vec![sorted]
        }
        Spec::Cumsum { .. } => {
            let mut total = 0.0;
            let up_to = |v| {
                total += v;
                total
            };
            vec![number(0).into_iter().map(up_to).collect()]
        }
        Spec::Randn { n } => vec![random::randn(seed, *n)],
        Spec::Rand { n } => vec![random::rand(seed, *n)],
        Spec::Conv2d(c) => {
            let (stride, padding) = (c.stride, [c.padding; 2]);
            vec![l::conv2d(&inputs[0], &inputs[1], stride, padding, c.groups).get()]
        }
        Spec::Conv2dBackward(c) => {
            let (stride, padding) = (c.stride, [c.padding; 2]);
            let y = l::conv2d(&inputs[0], &inputs[1], stride, padding, c.groups);
            backward(&y, inputs)
        }
        Spec::Conv1d {
            input: [n, c, len],
            out,
            kernel,
        } => {
            let x = T::new(&[*n, *c, 1, *len], inputs[0].v.clone());
            let w = T::new(&[*out, *c, 1, *kernel], inputs[1].v.clone());
            vec![l::conv2d(&x, &w, 1, [0, kernel / 2], 1).get()]
        }
        Spec::MaxPool {
            kernel,
            stride,
            padding,
            ..
        } => {
            vec![l::max_pool(&inputs[0], *kernel, *stride, *padding).get()]
        }
        Spec::AvgPool { kernel, .. } => vec![l::avg_pool(&inputs[0], *kernel).get()],
        Spec::Bilinear { input, factor } => vec![bilinear(&number(0), *input, *factor)],
        Spec::BatchNorm { .. } => {
            vec![
                l::batch_norm(&inputs[0], &state[0], &state[1], None)
                    .0
                    .get(),
            ]
        }
        Spec::Attention(a) => {
            vec![l::attention(&inputs[0], &inputs[1], &inputs[2], a.causal).get()]
        }
        Spec::AttentionBackward(a) => {
            let y = l::attention(&inputs[0], &inputs[1], &inputs[2], a.causal);
            backward(&y, inputs)
        }
        Spec::BlockAttention(a) => vec![blocks(a, inputs).get()],
        Spec::BlockAttentionBackward(a) => backward(&blocks(a, inputs), inputs),
        Spec::AutogradChain { .. }
        | Spec::Step { .. }
        | Spec::StepRows { .. }
        | Spec::Train { .. }
        | Spec::Science(_)
        | Spec::Infer { .. } => {
            panic!("no result of inputs alone: {spec:?}, {x:?}")
        }
    }
}

fn matmul(x: &[f64], y: &[f64], a: &[usize], b: &[usize]) -> Vec<f64> {
    let (m, k, n) = (a[a.len() - 2], a[a.len() - 1], b[b.len() - 1]);
    let batch = x.len() / (m * k);
    let mut out = Vec::new();
    for i in 0..batch * m * n {
        let (t, r, c) = (i / (m * n), i / n % m, i % n);
        let term = |j| x[(t * m + r) * k + j] * y[(t * k + j) * n + c];
        out.push((0..k).map(term).sum());
    }
    out
}

/// The first `k` in ascending order of `sign` times the values, and where they were.
fn order(x: &[f64], k: usize, sign: f64) -> Vec<Vec<f64>> {
    let mut at: Vec<usize> = (0..x.len()).collect();
    at.sort_by(|&a, &b| (sign * x[a]).total_cmp(&(sign * x[b])));
    at.truncate(k);
    vec![
        at.iter().map(|&i| x[i]).collect(),
        at.iter().map(|&i| i as f64).collect(),
    ]
}

fn blocks(a: &BlockAttention, inputs: &[T]) -> T {
    let (reach, tokens) = (a.reach(), a.tokens());
    let sees = |i: usize, j: usize| i.abs_diff(j) <= reach || i < tokens || j < tokens;
    l::attention_where(&inputs[0], &inputs[1], &inputs[2], sees)
}

/// The gradients of all inputs but the last, which is that of the result.
fn backward(y: &T, inputs: &[T]) -> Vec<Vec<f64>> {
    let (g, of) = inputs.split_last().unwrap();
    let total = dot(y.v.iter().copied().zip(g.v.iter().copied()));
    let all = gradients(total);
    of.iter()
        .map(|t| t.v.iter().map(|v| v.of(&all)).collect())
        .collect()
}

/// Each result between the four elements around the middle of where it lies.
fn bilinear(x: &[f64], [n, c, h, w]: [usize; 4], factor: usize) -> Vec<f64> {
    let place = |i: usize, n: usize| {
        let at = ((i as f64 + 0.5) / factor as f64 - 0.5).max(0.0);
        let low = (at.floor() as usize).min(n - 1);
        (low, (low + 1).min(n - 1), at - low as f64)
    };
    let value = |(b, i, y, z)| {
        let ((t, u, f), (l, r, g)) = (place(y, h), place(z, w));
        let at = |y, z| x[((b * c + i) * h + y) * w + z];
        let line = |y| (1.0 - g) * at(y, l) + g * at(y, r);
        (1.0 - f) * line(t) + f * line(u)
    };
    l::quads(n, c, h * factor, w * factor).map(value).collect()
}
