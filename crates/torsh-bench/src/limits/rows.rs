//! The table of workloads and their limits.

use torsh_tensor::DType;

use crate::spec::{Attention, Conv, Op, Rule, Spec};

/// What bounds a workload, and how near to it the target is.
#[derive(Clone, Debug, PartialEq)]
pub enum Limit {
    /// Per cent of the multiply-adds that the machine can do, with one thread and with several.
    Peak {
        /// With one.
        one: f64,
        /// With several.
        all: f64,
    },
    /// Per cent of the bandwidth of copies, for the least traffic.
    Bandwidth(f64),
    /// So many times the speed of another row.
    Faster {
        /// Its name.
        than: String,
        /// How many times.
        times: f64,
        /// Whether only where the processor multiplies bfloat16.
        bf16: bool,
    },
    /// At most so many microseconds.
    Time(f64),
    /// So many times the speed of the other side.
    Peer(f64),
}

impl Limit {
    /// What to say where the limit is not known.
    pub fn without(&self) -> &'static str {
        match self {
            Limit::Peer(_) => "no time of the other side (--peer FILE)",
            Limit::Peak { .. } | Limit::Faster { bf16: true, .. } => {
                "the processor does not multiply this dtype"
            }
            Limit::Faster { .. } => "measured beside another row, which was left out",
            Limit::Bandwidth(_) | Limit::Time(_) => "",
        }
    }
}

/// A workload and its limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What it belongs to.
    pub group: &'static str,
    /// Its name.
    pub name: String,
    /// What it computes.
    pub spec: Spec,
    /// What bounds it.
    pub limit: Limit,
}

/// Every row, grouped. Inputs of what is bound by memory are larger than caches.
pub fn rows() -> Vec<Row> {
    let mut all = Vec::new();
    products(&mut all);
    convolutions(&mut all);
    memory(&mut all);
    attention(&mut all);
    overhead(&mut all);
    ordering(&mut all);
    all
}

fn row(all: &mut Vec<Row>, group: &'static str, name: impl Into<String>, spec: Spec, limit: Limit) {
    let name = name.into();
    all.push(Row {
        group,
        name,
        spec,
        limit,
    });
}

fn products(all: &mut Vec<Row>) {
    let group = "matrix products";
    let square = |n, dtype| Spec::MatMul {
        a: vec![n, n],
        b: vec![n, n],
        dtype,
    };
    let limit = Limit::Peak {
        one: 90.0,
        all: 85.0,
    };
    for n in [256, 512, 1024, 2048] {
        row(
            all,
            group,
            format!("matmul_{n}"),
            square(n, DType::F32),
            limit.clone(),
        );
    }
    for n in [256, 512, 1024] {
        row(
            all,
            group,
            format!("matmul_f64_{n}"),
            square(n, DType::F64),
            limit.clone(),
        );
    }
    let (rows, inputs, outputs) = (256, 768, 3072);
    let linear = Spec::LinearGelu {
        rows,
        inputs,
        outputs,
    };
    row(all, group, "linear_bias_gelu_256x768x3072", linear, limit);
    let limit = Limit::Faster {
        than: "matmul_1024".into(),
        times: 1.5,
        bf16: true,
    };
    row(
        all,
        group,
        "matmul_bf16_1024",
        square(1024, DType::BF16),
        limit,
    );
}

fn convolutions(all: &mut Vec<Row>) {
    let group = "convolutions";
    let convolutions = [
        ("7x7_stem_224_n8", [8, 3, 224, 224], [64, 7, 2, 3, 1]),
        ("3x3_64_56_n8", [8, 64, 56, 56], [64, 3, 1, 1, 1]),
        ("3x3_128_28_n8", [8, 128, 28, 28], [128, 3, 1, 1, 1]),
        ("3x3_256_14_n8", [8, 256, 14, 14], [256, 3, 1, 1, 1]),
        ("3x3_512_7_n8", [8, 512, 7, 7], [512, 3, 1, 1, 1]),
        ("3x3_128_s2_56_n8", [8, 64, 56, 56], [128, 3, 2, 1, 1]),
        ("1x1_128_s2_56_n8", [8, 64, 56, 56], [128, 1, 2, 0, 1]),
        ("1x1_256_28_n8", [8, 256, 28, 28], [512, 1, 1, 0, 1]),
    ];
    for (name, input, sizes) in convolutions {
        let spec = Spec::Conv2d(Conv::new(input, sizes));
        let limit = Limit::Peak {
            one: 80.0,
            all: 80.0,
        };
        row(all, group, format!("conv2d_{name}"), spec, limit);
    }
    for (name, input, sizes) in [convolutions[1], convolutions[2], convolutions[4]] {
        let spec = Spec::Conv2dBackward(Conv::new(input, sizes));
        let limit = Limit::Peak {
            one: 70.0,
            all: 70.0,
        };
        row(all, group, format!("conv2d_fwd_bwd_{name}"), spec, limit);
    }
}

fn memory(all: &mut Vec<Row>) {
    let group = "bound by memory";
    let n = 16_000_000;
    let (rows, cols) = (16384, 1024);
    let (side, image) = (4096, [64, 64, 56, 56]);
    let (kernel, stride, padding) = (3, 2, 1);
    let depthwise = Conv::new([32, 128, 56, 56], [128, 3, 1, 1, 128]);
    let (embedded, width) = (262_144, 64);
    let specs = [
        ("copy_16000000", Spec::Copy { n }),
        ("add_16000000", Spec::Pointwise { op: Op::Add, n }),
        ("exp_16000000", Spec::Pointwise { op: Op::Exp, n }),
        ("gelu_16000000", Spec::Pointwise { op: Op::Gelu, n }),
        ("tanh_16000000", Spec::Pointwise { op: Op::Tanh, n }),
        ("sum_16000000", Spec::Sum { n }),
        ("add_inplace_16000000", Spec::AddInplace { n }),
        (
            "add_bcast_4096x4096",
            Spec::AddBroadcast {
                rows: side,
                cols: side,
            },
        ),
        (
            "transpose_contig_4096",
            Spec::Transpose {
                rows: side,
                cols: side,
            },
        ),
        ("permute_contig_64x64x56x56", Spec::Permute { shape: image }),
        (
            "cat_16x1000000",
            Spec::Cat {
                parts: 16,
                n: 1_000_000,
            },
        ),
        (
            "sum_dim0_4096",
            Spec::SumDim {
                rows: side,
                cols: side,
                dim: 0,
            },
        ),
        (
            "sum_dim1_4096",
            Spec::SumDim {
                rows: side,
                cols: side,
                dim: 1,
            },
        ),
        ("argmax_dim1_16384x1024", Spec::Argmax { rows, cols }),
        ("var_dim1_16384x1024", Spec::Var { rows, cols }),
        ("softmax_16384x1024", Spec::Softmax { rows, cols }),
        ("layernorm_16384x1024", Spec::LayerNorm { rows, cols }),
        (
            "cross_entropy_16384x1024",
            Spec::CrossEntropy { rows, cols },
        ),
        (
            "batchnorm2d_train_64x64x56",
            Spec::BatchNorm { input: image },
        ),
        ("conv2d_dw3x3_128_56_n32", Spec::Conv2d(depthwise)),
        (
            "maxpool2d_32x64x112",
            Spec::MaxPool {
                input: [32, 64, 112, 112],
                kernel,
                stride,
                padding,
            },
        ),
        (
            "avgpool2d_64x64x56",
            Spec::AvgPool {
                input: image,
                kernel: 2,
            },
        ),
        (
            "interpolate_bilinear_128x3x224",
            Spec::Bilinear {
                input: [128, 3, 112, 112],
                factor: 2,
            },
        ),
        (
            "index_select_262144x64",
            Spec::IndexSelect {
                count: embedded,
                rows: embedded,
                width,
            },
        ),
        (
            "adam_step_8000000",
            Spec::Step {
                rule: Rule::Adam,
                n: n / 2,
            },
        ),
        (
            "sgd_step_8000000",
            Spec::Step {
                rule: Rule::Sgd,
                n: n / 2,
            },
        ),
    ];
    for (name, spec) in specs {
        row(all, group, name, spec, Limit::Bandwidth(80.0));
    }
}

fn attention(all: &mut Vec<Row>) {
    let group = "attention";
    let shape = [4, 8, 512, 64];
    let limit = Limit::Peak {
        one: 60.0,
        all: 60.0,
    };
    let full = Attention {
        shape,
        causal: false,
    };
    let causal = Attention {
        shape,
        causal: true,
    };
    let named = |name: &str| format!("{name}_4x8x512x64");
    row(
        all,
        group,
        named("sdpa"),
        Spec::Attention(full),
        limit.clone(),
    );
    row(
        all,
        group,
        named("sdpa_causal"),
        Spec::Attention(causal),
        limit.clone(),
    );
    let faster = Limit::Faster {
        than: named("sdpa"),
        times: 1.7,
        bf16: false,
    };
    row(
        all,
        group,
        named("sdpa_causal_again"),
        Spec::Attention(causal),
        faster,
    );
    row(
        all,
        group,
        named("sdpa_fwd_bwd"),
        Spec::AttentionBackward(full),
        limit.clone(),
    );
    row(
        all,
        group,
        named("sdpa_causal_fwd_bwd"),
        Spec::AttentionBackward(causal),
        limit,
    );
}

fn overhead(all: &mut Vec<Row>) {
    let group = "overhead";
    let limit = Limit::Time;
    row(
        all,
        group,
        "op_overhead_add1",
        Spec::AddSelf { n: 1 },
        limit(0.11),
    );
    row(
        all,
        group,
        "op_overhead_view",
        Spec::View { rows: 4, cols: 4 },
        limit(0.05),
    );
    row(
        all,
        group,
        "autograd_chain100",
        Spec::AutogradChain { ops: 100 },
        limit(35.0),
    );
}

fn ordering(all: &mut Vec<Row>) {
    let group = "ordering";
    let n = 1_000_000;
    let peer = Limit::Peer(4.0);
    row(all, group, "sort_1000000", Spec::Sort { n }, peer.clone());
    row(
        all,
        group,
        "topk_1000000_k100",
        Spec::Topk { n, k: 100 },
        peer.clone(),
    );
    row(
        all,
        group,
        "cumsum_1000000",
        Spec::Cumsum { n },
        peer.clone(),
    );
    row(all, group, "unique_1000000", Spec::Unique { n }, peer);
}
