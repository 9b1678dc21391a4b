//! The workloads of the suite. Other programs time the same ones under the same names.

use torsh_tensor::DType;

use crate::models::Model;
use crate::spec::{Attention, BlockAttention, Conv, Op, Rule, Spec};
use crate::{science, sparse};

/// Every workload, in the order in which they run.
pub fn workloads() -> Vec<(String, Spec)> {
    let mut all = Vec::new();
    products(&mut all);
    tensor_ops(&mut all);
    let mut rows = Vec::new();
    science::rows(&mut rows);
    sparse::rows(&mut rows);
    crate::vision::rows(&mut rows);
    for row in rows {
        all.push((row.name().to_string(), Spec::Science(row)));
    }
    layers(&mut all);
    overhead(&mut all);
    training(&mut all);
    tables(&mut all);
    inference(&mut all);
    all
}

type List = Vec<(String, Spec)>;

fn add(all: &mut List, name: impl Into<String>, spec: Spec) {
    all.push((name.into(), spec));
}

fn products(all: &mut List) {
    use DType::{BF16, F32, F64};
    let mut product = |name: &str, a: &[usize], b: &[usize], dtype| {
        let (a, b) = (a.to_vec(), b.to_vec());
        add(all, name, Spec::MatMul { a, b, dtype });
    };
    for n in [64, 256, 512, 1024, 2048] {
        product(&format!("matmul_{n}"), &[n, n], &[n, n], F32);
    }
    product("matmul_32x784x128", &[32, 784], &[784, 128], F32);
    product("matvec_4096", &[1, 4096], &[4096, 4096], F32);
    product("bmm_96x128x64x128", &[96, 128, 64], &[96, 64, 128], F32);
    product("matmul_f64_512", &[512, 512], &[512, 512], F64);
    product("matmul_bf16_1024", &[1024, 1024], &[1024, 1024], BF16);
    let (rows, inputs, outputs) = (256, 768, 3072);
    let spec = Spec::LinearGelu {
        rows,
        inputs,
        outputs,
    };
    add(all, "linear_bias_gelu_256x768x3072", spec);
}

fn tensor_ops(all: &mut List) {
    for n in [100, 10_000, 1_000_000, 16_000_000] {
        for (name, op) in [
            ("add", Op::Add),
            ("exp", Op::Exp),
            ("gelu", Op::Gelu),
            ("tanh", Op::Tanh),
        ] {
            add(all, format!("{name}_{n}"), Spec::Pointwise { op, n });
        }
        add(all, format!("sum_{n}"), Spec::Sum { n });
    }
    let n = 1_000_000;
    let (rows, cols) = (1024, 1024);
    add(
        all,
        "add_bcast_1024x1024",
        Spec::AddBroadcast { rows, cols },
    );
    add(all, "add_inplace_1000000", Spec::AddInplace { n });
    add(all, "chain_sigmoid_mul_add_1000000", Spec::Chain { n });
    add(all, "transpose_contig_1024", Spec::Transpose { rows, cols });
    let shape = [32, 64, 56, 56];
    add(all, "permute_contig_32x64x56x56", Spec::Permute { shape });
    add(
        all,
        "cat_16x65536",
        Spec::Cat {
            parts: 16,
            n: 65536,
        },
    );
    for dim in [0, 1] {
        add(
            all,
            format!("sum_dim{dim}_1024"),
            Spec::SumDim { rows, cols, dim },
        );
    }
    let (rows, cols) = (4096, 1024);
    add(all, "argmax_dim1_4096x1024", Spec::Argmax { rows, cols });
    add(all, "var_dim1_4096x1024", Spec::Var { rows, cols });
    add(all, "softmax_4096x1024", Spec::Softmax { rows, cols });
    add(all, "layernorm_4096x1024", Spec::LayerNorm { rows, cols });
    add(
        all,
        "cross_entropy_4096x1024",
        Spec::CrossEntropy { rows, cols },
    );
    let spec = Spec::Embedding {
        count: 8192,
        rows: 50_000,
        width: 256,
    };
    add(all, "embedding_8192x256", spec);
    let spec = Spec::IndexSelect {
        count: 100_000,
        rows: 100_000,
        width: 64,
    };
    add(all, "index_select_100000x64", spec);
    add(
        all,
        "scatter_add_1000000",
        Spec::ScatterAdd { n, bins: 1000 },
    );
    add(all, "masked_select_1000000", Spec::MaskedSelect { n });
    add(all, "sort_1000000", Spec::Sort { n });
    add(all, "topk_1000000_k100", Spec::Topk { n, k: 100 });
    add(all, "cumsum_1000000", Spec::Cumsum { n });
    add(all, "randn_1000000", Spec::Randn { n });
    add(all, "rand_1000000", Spec::Rand { n });
}

fn layers(all: &mut List) {
    let convolutions = [
        ("7x7_stem_224_n8", [8, 3, 224, 224], [64, 7, 2, 3, 1]),
        ("3x3_64_56_n8", [8, 64, 56, 56], [64, 3, 1, 1, 1]),
        ("3x3_128_28_n8", [8, 128, 28, 28], [128, 3, 1, 1, 1]),
        ("3x3_512_7_n8", [8, 512, 7, 7], [512, 3, 1, 1, 1]),
        ("1x1_256_28_n8", [8, 256, 28, 28], [512, 1, 1, 0, 1]),
        ("dw3x3_128_56_n8", [8, 128, 56, 56], [128, 3, 1, 1, 128]),
        ("3x3_1_28_n64", [64, 1, 28, 28], [16, 3, 1, 1, 1]),
        ("3x3_64_56_n1", [1, 64, 56, 56], [64, 3, 1, 1, 1]),
    ];
    for (name, input, sizes) in convolutions {
        add(
            all,
            format!("conv2d_{name}"),
            Spec::Conv2d(Conv::new(input, sizes)),
        );
    }
    let spec = Spec::Conv2dBackward(Conv::new([8, 64, 56, 56], [64, 3, 1, 1, 1]));
    add(all, "conv2d_fwd_bwd_3x3_64_56_n8", spec);
    let (input, out, kernel) = ([16, 64, 1000], 64, 5);
    add(
        all,
        "conv1d_64_1000_k5_n16",
        Spec::Conv1d { input, out, kernel },
    );
    let (input, kernel, stride, padding) = ([8, 64, 112, 112], 3, 2, 1);
    let spec = Spec::MaxPool {
        input,
        kernel,
        stride,
        padding,
    };
    add(all, "maxpool2d_8x64x112", spec);
    let input = [8, 64, 56, 56];
    add(all, "avgpool2d_8x64x56", Spec::AvgPool { input, kernel: 2 });
    let spec = Spec::Bilinear {
        input: [8, 3, 112, 112],
        factor: 2,
    };
    add(all, "interpolate_bilinear_8x3x224", spec);
    add(all, "batchnorm2d_train_8x64x56", Spec::BatchNorm { input });
    for (name, causal) in [("sdpa", false), ("sdpa_causal", true)] {
        let shape = [4, 8, 512, 64];
        let spec = Spec::Attention(Attention { shape, causal });
        add(all, format!("{name}_4x8x512x64"), spec);
    }
    // Long sequences: all keys, and a tenth of the blocks.
    let shape = [1, 8, 8192, 64];
    let (whole, blocks) = (
        Attention {
            shape,
            causal: false,
        },
        BlockAttention { shape },
    );
    for (name, spec) in [
        ("sdpa", Spec::Attention(whole)),
        ("attention_blocks", Spec::BlockAttention(blocks)),
        ("sdpa_fwd_bwd", Spec::AttentionBackward(whole)),
        (
            "attention_blocks_fwd_bwd",
            Spec::BlockAttentionBackward(blocks),
        ),
    ] {
        add(all, format!("{name}_1x8x8192x64"), spec);
    }
}

fn overhead(all: &mut List) {
    add(all, "op_overhead_add1", Spec::AddSelf { n: 1 });
    add(all, "op_overhead_view", Spec::View { rows: 4, cols: 4 });
    add(all, "autograd_chain100", Spec::AutogradChain { ops: 100 });
}

/// ResNet-18 for images of ImageNet.
pub(crate) fn resnet18() -> Model {
    let (width, image, classes) = (64, 224, 1000);
    Model::ResNet18 {
        width,
        image,
        classes,
    }
}

fn training(all: &mut List) {
    let mut train = |name, model, batch| {
        let rule = Rule::Adam;
        add(all, name, Spec::Train { model, batch, rule });
    };
    let mlp = |sizes: &[usize], tanh| Model::Mlp {
        sizes: sizes.to_vec(),
        tanh,
    };
    train(
        "train_mlp_16_32_32_2_b16_adam",
        mlp(&[16, 32, 32, 2], true),
        16,
    );
    train(
        "train_mlp_784_128_10_b32_adam",
        mlp(&[784, 128, 10], false),
        32,
    );
    let large = mlp(&[784, 1024, 1024, 10], false);
    train("train_mlp_784_1024_1024_10_b128_adam", large, 128);
    let (channels, image, classes) = ([16, 32], 28, 10);
    let cnn = Model::Cnn {
        channels,
        image,
        classes,
    };
    train("train_cnn_mnist_b64_adam", cnn, 64);
    let (symbols, width, layers, heads, length) = (65, 128, 4, 4, 64);
    let gpt = Model::Gpt {
        symbols,
        width,
        layers,
        heads,
        length,
    };
    train("train_gpt_d128_l4_b16_t64_adam", gpt, 16);
    let (inputs, hidden, length, classes) = (64, 128, 32, 10);
    let lstm = Model::Lstm {
        inputs,
        hidden,
        length,
        classes,
    };
    train("train_lstm_64_128_t32_b16_adam", lstm, 16);
    let (model, batch, rule) = (resnet18(), 4, Rule::Sgd);
    add(
        all,
        "train_resnet18_b4_sgd",
        Spec::Train { model, batch, rule },
    );
    let (model, batch, rule) = (vision("resnet50"), 2, Rule::Sgd);
    add(
        all,
        "train_resnet50_b2_sgd",
        Spec::Train { model, batch, rule },
    );
}

/// Steps of optimizers for a table of embeddings: of all rows, and of those that a batch has used.
fn tables(all: &mut List) {
    let (rows, width, touched) = (1_000_000, 64, 1000);
    let n = rows * width;
    let rule = Rule::Adam;
    add(all, "adam_dense_1000000x64", Spec::Step { rule, n });
    let spec = Spec::StepRows {
        rows,
        width,
        touched,
    };
    add(all, "adam_rows_1000_of_1000000x64", spec);
}

/// A model of `torsh-vision` for images of 224 x 224 pixels.
fn vision(name: &'static str) -> Model {
    Model::Vision { name, image: 224 }
}

fn inference(all: &mut List) {
    for batch in [1, 8] {
        let spec = Spec::Infer {
            model: resnet18(),
            batch,
        };
        add(all, format!("infer_resnet18_b{batch}"), spec);
    }
    for (name, model, batch) in [
        ("resnet50", "resnet50", 1),
        ("resnet50", "resnet50", 8),
        ("efficientnet_lite0", "efficientnet_lite0", 1),
        ("efficientnet_lite0", "efficientnet_lite0", 8),
        ("vit_b_16", "vit_b_16", 1),
    ] {
        let model = vision(model);
        let name = format!("infer_{name}_b{batch}");
        add(all, name, Spec::Infer { model, batch });
    }
    let (layers, width, heads, inner, length) = (6, 384, 12, 1536, 128);
    for batch in [1, 16] {
        let model = Model::Encoder {
            layers,
            width,
            heads,
            inner,
            length,
        };
        let name = format!("infer_encoder_l6_d384_h12_b{batch}_t128");
        add(all, name, Spec::Infer { model, batch });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<String> = workloads().into_iter().map(|(n, _)| n).collect();
        let n = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), n);
    }

    /// What a call must compute and move, counted by hand.
    #[test]
    fn counts() {
        let all = workloads();
        let of = |name: &str| {
            let (_, spec) = all.iter().find(|(n, _)| n == name).unwrap();
            (spec.flops(), spec.bytes())
        };
        assert_eq!(of("matmul_1024"), (2 << 30, 0));
        assert_eq!(of("bmm_96x128x64x128").0, 2 * 96 * 128 * 64 * 128);
        assert_eq!(of("add_10000"), (0, 120_000));
        assert_eq!(of("softmax_4096x1024").1, 32 << 20);
        assert_eq!(of("argmax_dim1_4096x1024").1, 16 << 20);
        assert_eq!(of("embedding_8192x256").1, 16 << 20);
        let stem = 2 * 8 * 64 * 112 * 112 * 3 * 49;
        assert_eq!(of("conv2d_7x7_stem_224_n8"), (stem, 0));
        assert_eq!(of("conv2d_dw3x3_128_56_n8").0, 2 * 8 * 128 * 56 * 56 * 9);
        assert_eq!(of("conv1d_64_1000_k5_n16").0, 2 * 16 * 64 * 1000 * 64 * 5);
        let (all, tenth) = (
            of("sdpa_1x8x8192x64").0,
            of("attention_blocks_1x8x8192x64").0,
        );
        assert!(
            tenth > all * 8 / 100 && tenth < all * 10 / 100,
            "{tenth} of {all}"
        );
        assert_eq!(of("sdpa_4x8x512x64").0, 2 * of("sdpa_causal_4x8x512x64").0);
        assert_eq!(of("train_resnet18_b4_sgd"), (0, 0));
        assert_eq!(of("spmm_csr_10000_1e6_x64"), (2 * 64 * 1_000_000, 0));
        assert_eq!(of("spmm_csr_fwd_bwd_10000_1e6_x64"), (0, 0));
        assert_eq!(of("spmv_csr_100000_1e6").0, 2 * 1_000_000);
        assert_eq!(of("sampled_addmm_csr_4096_1e5_k64").0, 2 * 64 * 100_000);
        assert_eq!(of("dense_to_csr_2048_1pct"), (0, 16 << 20));
        let linear = of("linear_dense_256x4096x4096").0;
        assert_eq!(linear, 2 * 256 * 4096 * 4096);
        assert_eq!(of("linear_bsr_90pct_256x4096x4096").0, linear / 10);
        let (table, used) = (of("adam_dense_1000000x64").1, 28 * 64 * 1000);
        assert_eq!(table, 28 * 64 * 1_000_000);
        assert_eq!(of("adam_rows_1000_of_1000000x64"), (0, used));
    }
}
