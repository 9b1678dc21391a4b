//! Specifications of workloads as data. The suite, the sweep, the limits and the tests run the same
//! computation at different sizes.

use torsh_tensor::DType;

use crate::models::Model;
use crate::science::Row;
pub use crate::workload::{Out, Workload};

/// A function of every element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// The sum of two tensors.
    Add,
    /// `exp`.
    Exp,
    /// `gelu`.
    Gelu,
    /// `tanh`.
    Tanh,
}

/// Which optimizer steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Adam with a learning rate of 0.001.
    Adam,
    /// SGD with a learning rate of 0.01 and a momentum of 0.9.
    Sgd,
}

/// The sizes of a convolution of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv {
    /// `[n, c, h, w]`.
    pub input: [usize; 4],
    /// Channels out.
    pub out: usize,
    /// Sides of the window.
    pub kernel: usize,
    /// Steps of the window.
    pub stride: usize,
    /// Zeros on every side.
    pub padding: usize,
    /// Groups of channels.
    pub groups: usize,
}

impl Conv {
    /// A convolution of an input with: channels out, kernel, stride, padding, groups.
    pub fn new(input: [usize; 4], sizes: [usize; 5]) -> Conv {
        let [out, kernel, stride, padding, groups] = sizes;
        Conv {
            input,
            out,
            kernel,
            stride,
            padding,
            groups,
        }
    }

    /// `[n, out, h, w]` of the result.
    pub fn output(&self) -> [usize; 4] {
        let [n, _, h, w] = self.input;
        let size = |x| (x + 2 * self.padding - self.kernel) / self.stride + 1;
        [n, self.out, size(h), size(w)]
    }

    /// `[out, c / groups, kernel, kernel]`.
    pub fn weight(&self) -> [usize; 4] {
        let each = self.input[1] / self.groups;
        [self.out, each, self.kernel, self.kernel]
    }

    fn flops(&self) -> usize {
        let [n, _, h, w] = self.output();
        2 * n * h * w * product(&self.weight())
    }
}

/// The sizes of an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attention {
    /// `[batch, heads, length, width]` of query, key and value.
    pub shape: [usize; 4],
    /// Whether a query sees only keys up to its own position.
    pub causal: bool,
}

impl Attention {
    fn flops(&self) -> usize {
        let [b, h, l, w] = self.shape;
        let full = 4 * b * h * l * l * w;
        if self.causal { full / 2 } else { full }
    }
}

/// The sizes of an attention over stored blocks: a window of 5 / 128 of the length to either side, and 1 / 128 of the tokens
/// that see and are seen by all. Of 8192 queries and keys, a tenth of the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockAttention {
    /// `[batch, heads, length, width]` of query, key and value.
    pub shape: [usize; 4],
}

impl BlockAttention {
    /// Keys to either side that a query sees.
    pub fn reach(&self) -> usize {
        self.shape[2] * 5 / 128
    }

    /// Tokens that see all keys and that all queries see.
    pub fn tokens(&self) -> usize {
        (self.shape[2] / 128).max(1)
    }

    fn flops(&self) -> usize {
        let [b, h, l, w] = self.shape;
        let (reach, tokens) = (self.reach(), self.tokens());
        let seen = |i: usize| {
            let near = (i + reach + 1)
                .min(l)
                .saturating_sub(i.saturating_sub(reach).max(tokens));
            if i < tokens { l } else { tokens + near }
        };
        4 * b * h * w * (0..l).map(seen).sum::<usize>()
    }
}

/// A computation and its sizes. Inputs are standard normal float32 numbers unless something else
/// is said.
// The sizes' names say what they are.
#[allow(missing_docs)]
#[derive(Clone, Debug, PartialEq)]
pub enum Spec {
    /// The product of `a` and `b`.
    MatMul {
        a: Vec<usize>,
        b: Vec<usize>,
        dtype: DType,
    },
    /// `gelu` of a linear layer with bias.
    LinearGelu {
        rows: usize,
        inputs: usize,
        outputs: usize,
    },
    /// A function of every element.
    Pointwise { op: Op, n: usize },
    /// The sum of all elements.
    Sum { n: usize },
    /// A matrix plus a row.
    AddBroadcast { rows: usize, cols: usize },
    /// `x += 1`.
    AddInplace { n: usize },
    /// `sigmoid(x) * x + 1`, three ops.
    Chain { n: usize },
    /// A copy of what is given.
    Copy { n: usize },
    /// The transpose of a matrix, written.
    Transpose { rows: usize, cols: usize },
    /// Images with their channels put last, written.
    Permute { shape: [usize; 4] },
    /// Vectors one after the other.
    Cat { parts: usize, n: usize },
    /// The sums along a dimension of a matrix.
    SumDim {
        rows: usize,
        cols: usize,
        dim: usize,
    },
    /// The place of each row's greatest element.
    Argmax { rows: usize, cols: usize },
    /// The variance of each row.
    Var { rows: usize, cols: usize },
    /// The softmax of each row.
    Softmax { rows: usize, cols: usize },
    /// Each row normalised, with weights and biases.
    LayerNorm { rows: usize, cols: usize },
    /// The mean cross-entropy of rows of scores and a class for each.
    CrossEntropy { rows: usize, cols: usize },
    /// Rows of a table by their numbers, as an embedding.
    Embedding {
        count: usize,
        rows: usize,
        width: usize,
    },
    /// Rows of a table by their numbers.
    IndexSelect {
        count: usize,
        rows: usize,
        width: usize,
    },
    /// Numbers added up in bins.
    ScatterAdd { n: usize, bins: usize },
    /// The positive elements.
    MaskedSelect { n: usize },
    /// The elements in order, and where they were.
    Sort { n: usize },
    /// The `k` greatest elements, and where they were.
    Topk { n: usize, k: usize },
    /// The distinct elements.
    Unique { n: usize },
    /// The sums of the elements up to each.
    Cumsum { n: usize },
    /// New normal numbers.
    Randn { n: usize },
    /// New numbers from 0 to 1.
    Rand { n: usize },
    /// A convolution of images, without bias.
    Conv2d(Conv),
    /// The same and the gradients of input and weight.
    Conv2dBackward(Conv),
    /// A convolution of signals `[n, c, l]`, with an odd window, as long as before.
    Conv1d {
        input: [usize; 3],
        out: usize,
        kernel: usize,
    },
    /// The greatest elements of windows.
    MaxPool {
        input: [usize; 4],
        kernel: usize,
        stride: usize,
        padding: usize,
    },
    /// The averages of windows side by side.
    AvgPool { input: [usize; 4], kernel: usize },
    /// Images a whole factor larger, by lines.
    Bilinear { input: [usize; 4], factor: usize },
    /// Batch normalisation in training.
    BatchNorm { input: [usize; 4] },
    /// Scaled dot product attention.
    Attention(Attention),
    /// The same and the gradients of query, key and value.
    AttentionBackward(Attention),
    /// The same over stored blocks.
    BlockAttention(BlockAttention),
    /// The same and the gradients of query, key and value.
    BlockAttentionBackward(BlockAttention),
    /// A tensor plus itself.
    AddSelf { n: usize },
    /// A transposed view.
    View { rows: usize, cols: usize },
    /// A product with 1.01, again and again, and its gradient.
    AutogradChain { ops: usize },
    /// A step of an optimizer for one parameter, whose gradient is there.
    Step { rule: Rule, n: usize },
    /// A new COO gradient of `touched` rows of a table, drawn with repetition as an embedding's, and a step of SparseAdam.
    StepRows {
        rows: usize,
        width: usize,
        touched: usize,
    },
    /// A whole step of training on one batch: zero_grad, forward, cross-entropy, backward, step.
    Train {
        model: Model,
        batch: usize,
        rule: Rule,
    },
    /// A transform, a computation with matrices, a special function, or a computation with sparse tensors.
    Science(Row),
    /// The output of a model in inference mode.
    Infer { model: Model, batch: usize },
}

fn product(shape: &[usize]) -> usize {
    shape.iter().product()
}

impl Spec {
    /// Operations that a call must make, a multiply-add counting two; 0 where that says nothing.
    pub fn flops(&self) -> usize {
        match self {
            Spec::MatMul { a, b, .. } => 2 * product(a) * b.last().copied().unwrap_or(1),
            Spec::LinearGelu {
                rows,
                inputs,
                outputs,
            } => 2 * rows * inputs * outputs,
            Spec::Conv2d(c) => c.flops(),
            Spec::Conv2dBackward(c) => 3 * c.flops(),
            Spec::Conv1d { input, out, kernel } => 2 * product(input) * out * kernel,
            Spec::Attention(a) => a.flops(),
            Spec::AttentionBackward(a) => 3 * a.flops(),
            Spec::BlockAttention(a) => a.flops(),
            Spec::BlockAttentionBackward(a) => 3 * a.flops(),
            Spec::Science(row) => row.flops(),
            _ => 0,
        }
    }

    /// The least number of bytes that a call reads and writes in tensors; 0 where that says
    /// nothing.
    pub fn traffic(&self) -> usize {
        match self {
            Spec::Pointwise { op: Op::Add, n } => 12 * n,
            Spec::Pointwise { n, .. }
            | Spec::AddInplace { n }
            | Spec::Chain { n }
            | Spec::Copy { n }
            | Spec::Unique { n }
            | Spec::Cumsum { n } => 8 * n,
            Spec::Sum { n } | Spec::Randn { n } | Spec::Rand { n } => 4 * n,
            Spec::Cat { parts, n } => 8 * parts * n,
            Spec::AddBroadcast { rows, cols }
            | Spec::Transpose { rows, cols }
            | Spec::Softmax { rows, cols }
            | Spec::LayerNorm { rows, cols } => 8 * rows * cols,
            Spec::SumDim { rows, cols, .. }
            | Spec::Argmax { rows, cols }
            | Spec::Var { rows, cols }
            | Spec::CrossEntropy { rows, cols } => 4 * rows * cols,
            Spec::Embedding { count, width, .. } | Spec::IndexSelect { count, width, .. } => {
                8 * count * width
            }
            Spec::Permute { shape } => 8 * product(shape),
            Spec::Conv2d(c) => {
                4 * (product(&c.input) + product(&c.weight()) + product(&c.output()))
            }
            Spec::MaxPool {
                input,
                kernel,
                stride,
                padding,
            } => {
                let conv = Conv::new(*input, [input[1], *kernel, *stride, *padding, 1]);
                4 * (product(input) + product(&conv.output()))
            }
            Spec::AvgPool { input, kernel } => {
                let conv = Conv::new(*input, [input[1], *kernel, *kernel, 0, 1]);
                4 * (product(input) + product(&conv.output()))
            }
            Spec::Bilinear { input, factor } => 4 * product(input) * (1 + factor * factor),
            // Mean and variance must be known before the first result.
            Spec::BatchNorm { input } => 12 * product(input),
            // Parameter, gradient and averages in, parameter and averages out.
            Spec::Step {
                rule: Rule::Adam,
                n,
            } => 28 * n,
            Spec::Step { rule: Rule::Sgd, n } => 20 * n,
            Spec::StepRows { width, touched, .. } => 28 * touched * width,
            Spec::Science(row) => row.bytes(),
            _ => 0,
        }
    }

    /// What the lines of the suite say of the bytes: the traffic, 0 for what is bound by something
    /// else or has no line of traffic on PyTorch's side.
    pub fn bytes(&self) -> usize {
        match self {
            Spec::Conv2d(_)
            | Spec::MaxPool { .. }
            | Spec::AvgPool { .. }
            | Spec::Bilinear { .. }
            | Spec::BatchNorm { .. } => 0,
            _ => self.traffic(),
        }
    }
}
