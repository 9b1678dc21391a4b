//! The workloads at sizes that plain loops can compute.

use torsh_bench::models::Model;
use torsh_bench::spec::{Attention, BlockAttention, Conv, Spec};

/// The same computation at a small size.
pub fn small(spec: &Spec) -> Spec {
    let mut s = spec.clone();
    let (n0, r, c) = (37, 5, 7);
    match &mut s {
        Spec::MatMul { a, b, .. } => {
            // A row stays a row, a batch a batch.
            let m = a[a.len() - 2].min(6);
            let (batch, k, n) = (&[2][..a.len() - 2], 9, 4);
            (*a, *b) = ([batch, &[m, k]].concat(), [batch, &[k, n]].concat());
        }
        Spec::LinearGelu {
            rows,
            inputs,
            outputs,
        } => (*rows, *inputs, *outputs) = (3, 8, 5),
        Spec::Pointwise { n, .. }
        | Spec::Sum { n }
        | Spec::AddInplace { n }
        | Spec::Chain { n }
        | Spec::Copy { n }
        | Spec::MaskedSelect { n }
        | Spec::Sort { n }
        | Spec::Unique { n }
        | Spec::Cumsum { n }
        | Spec::Randn { n }
        | Spec::Rand { n }
        | Spec::Step { n, .. } => *n = n0,
        Spec::Topk { n, k } => (*n, *k) = (n0, 6),
        Spec::Cat { parts, n } => (*parts, *n) = (3, 5),
        Spec::AddBroadcast { rows, cols }
        | Spec::Transpose { rows, cols }
        | Spec::SumDim { rows, cols, .. }
        | Spec::Argmax { rows, cols }
        | Spec::Var { rows, cols }
        | Spec::Softmax { rows, cols }
        | Spec::LayerNorm { rows, cols }
        | Spec::CrossEntropy { rows, cols }
        | Spec::View { rows, cols } => (*rows, *cols) = (r, c),
        Spec::Permute { shape } => *shape = [2, 3, 4, 5],
        Spec::Embedding { count, rows, width } | Spec::IndexSelect { count, rows, width } => {
            (*count, *rows, *width) = (6, 9, 4);
        }
        Spec::ScatterAdd { n, bins } => (*n, *bins) = (n0, 6),
        Spec::Conv2d(conv) | Spec::Conv2dBackward(conv) => {
            // Stride, padding, kernel and whether it is depthwise stay.
            let depthwise = conv.groups > 1;
            let channels = if conv.input[1] == 1 { 1 } else { 3 };
            *conv = Conv {
                input: [2, channels, 8, 9],
                out: if depthwise { channels } else { 4 },
                groups: if depthwise { channels } else { 1 },
                ..*conv
            };
        }
        Spec::Conv1d { input, out, .. } => (*input, *out) = ([2, 3, 11], 4),
        Spec::MaxPool { input, .. } | Spec::AvgPool { input, .. } => *input = [2, 3, 8, 7],
        Spec::Bilinear { input, .. } => *input = [2, 2, 3, 4],
        Spec::BatchNorm { input } => *input = [3, 4, 5, 6],
        Spec::Attention(Attention { shape, .. })
        | Spec::AttentionBackward(Attention { shape, .. }) => *shape = [2, 3, 5, 4],
        // Several blocks, whole ones and parts.
        Spec::BlockAttention(BlockAttention { shape })
        | Spec::BlockAttentionBackward(BlockAttention { shape }) => *shape = [1, 2, 150, 4],
        Spec::AddSelf { n } => *n = 1,
        Spec::AutogradChain { ops } => *ops = 5,
        // Some rows come twice, some not at all.
        Spec::StepRows {
            rows,
            width,
            touched,
        } => (*rows, *width, *touched) = (9, 4, 6),
        Spec::Science(row) => *row = row.small(),
        Spec::Train { model, batch, .. } | Spec::Infer { model, batch } => {
            (*model, *batch) = (small_model(model), 3);
        }
    }
    s
}

fn small_model(model: &Model) -> Model {
    match model {
        Model::Mlp { sizes, tanh } => {
            let few = [6, 5, 4, 3];
            let sizes = few[4 - sizes.len()..].to_vec();
            Model::Mlp { sizes, tanh: *tanh }
        }
        Model::Cnn { .. } => {
            let (channels, image, classes) = ([2, 3], 8, 4);
            Model::Cnn {
                channels,
                image,
                classes,
            }
        }
        Model::Gpt { .. } => {
            let (symbols, width, layers, heads, length) = (5, 8, 2, 2, 4);
            Model::Gpt {
                symbols,
                width,
                layers,
                heads,
                length,
            }
        }
        Model::Lstm { .. } => {
            let (inputs, hidden, length, classes) = (3, 4, 5, 3);
            Model::Lstm {
                inputs,
                hidden,
                length,
                classes,
            }
        }
        Model::ResNet18 { .. } => {
            let (width, image, classes) = (2, 40, 4);
            Model::ResNet18 {
                width,
                image,
                classes,
            }
        }
        Model::Vision { .. } => model.clone(),
        Model::Encoder { .. } => {
            let (layers, width, heads, inner, length) = (2, 6, 2, 7, 4);
            Model::Encoder {
                layers,
                width,
                heads,
                inner,
                length,
            }
        }
    }
}
