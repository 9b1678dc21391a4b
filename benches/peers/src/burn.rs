//! burn with its backend for CPUs, flex, on the workloads that it has, in the lines of
//! `torsh-bench`.
//!
//! ```text
//! cargo run --release --bin burn-bench -- [--list] [NAME_PART ...]
//! ```
//!
//! `RAYON_NUM_THREADS` sets the threads.

#[path = "../../../crates/torsh-bench/src/harness.rs"]
#[allow(dead_code)]
mod harness;
#[path = "burn/images.rs"]
mod images;
mod program;

use std::convert::Infallible;

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::{CrossEntropyLoss, CrossEntropyLossConfig};
use burn::nn::pool::{MaxPool2d, MaxPool2dConfig};
use burn::nn::transformer::{
    TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput,
};
use burn::nn::{
    BatchNormConfig, Embedding, EmbeddingConfig, LayerNorm, LayerNormConfig, Linear, LinearConfig,
    Lstm, LstmConfig, PaddingConfig2d,
};
use burn::optim::momentum::MomentumConfig;
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer, SgdConfig};
use burn::tensor::activation::{gelu, relu, sigmoid, softmax, tanh};
use burn::tensor::module::{attention, conv1d, conv2d};
use burn::tensor::ops::{AttentionModuleOptions, ConvOptions};
use burn::tensor::{DType, Device, Distribution, Int, Tensor};
use harness::Suite;
use images::{EfficientNet, ResNet, Vit, stem_pool};

const M: usize = 1024 * 1024;

fn cpu() -> Device {
    Device::flex()
}

fn randn<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), &cpu())
}

fn randint<const D: usize>(high: usize, shape: [usize; D], device: &Device) -> Tensor<D, Int> {
    Tensor::<D>::random(shape, Distribution::Uniform(0.0, high as f64), device).int()
}

fn bench<R>(
    s: &mut Suite<'_>,
    name: &str,
    flops: usize,
    bytes: usize,
    make: impl FnOnce() -> Box<dyn FnMut() -> R>,
) {
    let call = || {
        let mut f = make();
        Ok::<_, Infallible>(move || Ok::<_, Infallible>(f()))
    };
    s.bench(name, call, flops, bytes);
}

fn on<const D: usize, R>(
    s: &mut Suite<'_>,
    name: &str,
    shape: [usize; D],
    bytes: usize,
    f: impl Fn(Tensor<D>) -> R + 'static,
) {
    bench(s, name, 0, bytes, || {
        let x = randn(shape);
        Box::new(move || f(x.clone()))
    });
}

fn main() -> std::process::ExitCode {
    program::run(|s| {
        products(s);
        tensors(s);
        layers(s);
        training(s);
        inference(s);
    })
}

fn product<const D: usize>(
    s: &mut Suite<'_>,
    name: &str,
    a: [usize; D],
    b: [usize; D],
    dtype: DType,
) {
    let flops = 2 * a.iter().product::<usize>() * b[D - 1];
    bench(s, name, flops, 0, || {
        let (x, y) = (randn(a).cast(dtype), randn(b).cast(dtype));
        Box::new(move || x.clone().matmul(y.clone()))
    });
}

fn products(s: &mut Suite<'_>) {
    for n in [64, 256, 512, 1024, 2048] {
        product(s, &format!("matmul_{n}"), [n, n], [n, n], DType::F32);
    }
    product(s, "matmul_32x784x128", [32, 784], [784, 128], DType::F32);
    product(s, "matvec_4096", [1, 4096], [4096, 4096], DType::F32);
    product(
        s,
        "bmm_96x128x64x128",
        [96, 128, 64],
        [96, 64, 128],
        DType::F32,
    );
    product(s, "matmul_f64_512", [512, 512], [512, 512], DType::F64);
    product(
        s,
        "matmul_bf16_1024",
        [1024, 1024],
        [1024, 1024],
        DType::BF16,
    );
    bench(
        s,
        "linear_bias_gelu_256x768x3072",
        2 * 256 * 768 * 3072,
        0,
        || {
            let (x, l) = (randn([256, 768]), LinearConfig::new(768, 3072).init(&cpu()));
            Box::new(move || gelu(l.forward(x.clone())))
        },
    );
}

fn tensors(s: &mut Suite<'_>) {
    for n in [100, 10_000, 1_000_000, 16_000_000] {
        bench(s, &format!("add_{n}"), 0, 12 * n, || {
            let (x, y) = (randn([n]), randn([n]));
            Box::new(move || x.clone() + y.clone())
        });
        on(s, &format!("exp_{n}"), [n], 8 * n, |x| x.exp());
        on(s, &format!("gelu_{n}"), [n], 8 * n, gelu);
        on(s, &format!("tanh_{n}"), [n], 8 * n, tanh);
        on(s, &format!("sum_{n}"), [n], 4 * n, |x| x.sum());
    }
    bench(s, "add_bcast_1024x1024", 0, 8 * M, || {
        let (x, y) = (randn([1024, 1024]), randn([1, 1024]));
        Box::new(move || x.clone() + y.clone())
    });
    let n = 1_000_000;
    on(s, "chain_sigmoid_mul_add_1000000", [n], 8 * n, |x| {
        sigmoid(x.clone()) * x + 1.0
    });
    on(s, "sum_dim0_1024", [1024, 1024], 4 * M, |x| x.sum_dim(0));
    on(s, "sum_dim1_1024", [1024, 1024], 4 * M, |x| x.sum_dim(1));
    bench(s, "cat_16x65536", 0, 8 * M, || {
        let parts: Vec<Tensor<1>> = (0..16).map(|_| randn([65536])).collect();
        Box::new(move || Tensor::cat(parts.clone(), 0))
    });
    let shape = [4096, 1024];
    on(s, "argmax_dim1_4096x1024", shape, 16 * M, |x| x.argmax(1));
    on(s, "var_dim1_4096x1024", shape, 16 * M, |x| x.var(1));
    on(s, "softmax_4096x1024", shape, 32 * M, |x| softmax(x, 1));
    bench(s, "layernorm_4096x1024", 0, 32 * M, || {
        let (x, l) = (randn(shape), LayerNormConfig::new(1024).init(&cpu()));
        Box::new(move || l.forward(x.clone()))
    });
    bench(s, "cross_entropy_4096x1024", 0, 16 * M, || {
        let (x, t) = (randn(shape), randint(1024, [4096], &cpu()));
        let loss = CrossEntropyLossConfig::new().init(&cpu());
        Box::new(move || loss.forward(x.clone(), t.clone()))
    });
    for (name, count, rows, width) in [
        ("embedding_8192x256", 8192, 50_000, 256),
        ("index_select_100000x64", 100_000, 100_000, 64),
    ] {
        bench(s, name, 0, 8 * count * width, || {
            let (index, x) = (randint(rows, [count], &cpu()), randn([rows, width]));
            Box::new(move || x.clone().select(0, index.clone()))
        });
    }
    on(s, "sort_1000000", [n], 0, |x| x.sort_with_indices(0));
    on(s, "topk_1000000_k100", [n], 0, |x| {
        x.topk_with_indices(100, 0)
    });
    on(s, "cumsum_1000000", [n], 8 * n, |x| x.cumsum(0));
    bench(s, "randn_1000000", 0, 4 * n, || {
        Box::new(|| randn([1_000_000]))
    });
    bench(s, "rand_1000000", 0, 4 * n, || {
        Box::new(|| Tensor::<1>::random([1_000_000], Distribution::Uniform(0.0, 1.0), &cpu()))
    });
    on(s, "op_overhead_add1", [1], 0, |x| x.clone() + x);
    on(s, "op_overhead_view", [4, 4], 0, |x| x.transpose());
    bench(s, "autograd_chain100", 0, 0, || {
        let a = Tensor::<1>::ones([1], &cpu().autodiff()).require_grad();
        Box::new(move || {
            let mut y = a.clone();
            for _ in 0..100 {
                y = y * 1.01;
            }
            y.backward()
        })
    });
}

fn layers(s: &mut Suite<'_>) {
    let all = [
        ("7x7_stem_224_n8", [8, 3, 224, 224], [64, 7, 2, 3, 1]),
        ("3x3_64_56_n8", [8, 64, 56, 56], [64, 3, 1, 1, 1]),
        ("3x3_128_28_n8", [8, 128, 28, 28], [128, 3, 1, 1, 1]),
        ("3x3_512_7_n8", [8, 512, 7, 7], [512, 3, 1, 1, 1]),
        ("1x1_256_28_n8", [8, 256, 28, 28], [512, 1, 1, 0, 1]),
        ("dw3x3_128_56_n8", [8, 128, 56, 56], [128, 3, 1, 1, 128]),
        ("3x3_1_28_n64", [64, 1, 28, 28], [16, 3, 1, 1, 1]),
        ("3x3_64_56_n1", [1, 64, 56, 56], [64, 3, 1, 1, 1]),
    ];
    for (name, input, [o, k, stride, padding, groups]) in all {
        let [n, c, h, w] = input;
        let size = |x: usize| (x + 2 * padding - k) / stride + 1;
        let flops = 2 * n * o * size(h) * size(w) * (c / groups) * k * k;
        bench(s, &format!("conv2d_{name}"), flops, 0, || {
            let (x, w) = (randn(input), randn([o, c / groups, k, k]));
            let options = ConvOptions::new([stride; 2], [padding; 2], [1; 2], groups);
            Box::new(move || conv2d(x.clone(), w.clone(), None, options.clone()))
        });
    }
    bench(
        s,
        "conv2d_fwd_bwd_3x3_64_56_n8",
        3 * 2 * 8 * 64 * 56 * 56 * 64 * 9,
        0,
        || {
            let shape = [8, 64, 56, 56];
            let (x, w) = (
                randn(shape).autodiff().require_grad(),
                randn([64, 64, 3, 3]).autodiff().require_grad(),
            );
            let g = randn(shape).autodiff();
            let options = ConvOptions::new([1; 2], [1; 2], [1; 2], 1);
            // backward starts from ones, so the product's gradient is the given one.
            Box::new(move || {
                (conv2d(x.clone(), w.clone(), None, options.clone()) * g.clone())
                    .sum()
                    .backward()
            })
        },
    );
    bench(
        s,
        "conv1d_64_1000_k5_n16",
        2 * 16 * 64 * 1000 * 64 * 5,
        0,
        || {
            let (x, w) = (randn([16, 64, 1000]), randn([64, 64, 5]));
            let options = ConvOptions::new([1], [2], [1], 1);
            Box::new(move || conv1d(x.clone(), w.clone(), None, options.clone()))
        },
    );
    bench(s, "maxpool2d_8x64x112", 0, 0, || {
        let (x, pool) = (randn([8, 64, 112, 112]), stem_pool());
        Box::new(move || pool.forward(x.clone()))
    });
    bench(s, "batchnorm2d_train_8x64x56", 0, 0, || {
        // Normalised by the batch where gradients are recorded.
        let device = cpu().autodiff();
        let x = Tensor::<4>::random([8, 64, 56, 56], Distribution::Normal(0.0, 1.0), &device);
        let b = BatchNormConfig::new(64).init(&device);
        Box::new(move || b.forward(x.clone()))
    });
    for (name, is_causal) in [("sdpa", false), ("sdpa_causal", true)] {
        let flops = 4 * 4 * 8 * 512 * 512 * 64 / if is_causal { 2 } else { 1 };
        bench(s, &format!("{name}_4x8x512x64"), flops, 0, || {
            let [q, k, v] = [(); 3].map(|()| randn([4, 8, 512, 64]));
            let options = AttentionModuleOptions {
                is_causal,
                ..Default::default()
            };
            Box::new(move || attention(q.clone(), k.clone(), v.clone(), None, None, options))
        });
    }
}

/// A step of Adam on a batch.
fn train<N: Module + 'static, const D: usize, K: burn::tensor::kind::Basic + 'static>(
    s: &mut Suite<'_>,
    name: &str,
    x: impl FnOnce(&Device) -> Tensor<D, K>,
    sizes: [usize; 2],
    net: impl FnOnce(&Device) -> N,
    forward: impl Fn(&N, Tensor<D, K>) -> Tensor<2> + 'static,
) {
    let adam = AdamConfig::new().with_epsilon(1e-8).init();
    train_with(s, name, x, sizes, net, forward, (adam, 1e-3));
}

/// A step of an optimizer with a learning rate on a batch.
fn train_with<N: Module + 'static, const D: usize, K: burn::tensor::kind::Basic + 'static>(
    s: &mut Suite<'_>,
    name: &str,
    x: impl FnOnce(&Device) -> Tensor<D, K>,
    [classes, rows]: [usize; 2],
    net: impl FnOnce(&Device) -> N,
    forward: impl Fn(&N, Tensor<D, K>) -> Tensor<2> + 'static,
    (mut optimizer, rate): (ModuleOptimizer, f64),
) {
    bench(s, name, 0, 0, || {
        let device = cpu().autodiff();
        let (x, t) = (x(&device), randint(classes, [rows], &device));
        let loss: CrossEntropyLoss = CrossEntropyLossConfig::new().init(&device);
        let mut net = Some(net(&device));
        Box::new(move || {
            let Some(n) = net.take() else { return };
            let loss = loss.forward(forward(&n, x.clone()), t.clone());
            let grads = GradientsParams::from_grads(loss.backward(), &n);
            net = Some(optimizer.step(rate, n, grads));
        })
    });
}

fn normal<const D: usize>(shape: [usize; D]) -> impl FnOnce(&Device) -> Tensor<D> {
    move |device| Tensor::random(shape, Distribution::Normal(0.0, 1.0), device)
}

fn linears(sizes: &'static [usize]) -> impl FnOnce(&Device) -> Vec<Linear> {
    move |device| {
        sizes
            .windows(2)
            .map(|p| LinearConfig::new(p[0], p[1]).init(device))
            .collect()
    }
}

fn mlp(net: &[Linear], x: Tensor<2>, f: impl Fn(Tensor<2>) -> Tensor<2>) -> Tensor<2> {
    let first = net[0].forward(x);
    net[1..].iter().fold(first, |x, l| l.forward(f(x)))
}

#[derive(Module, Debug)]
struct Cnn {
    a: Conv2d,
    b: Conv2d,
    head: Linear,
    pool: MaxPool2d,
}

impl Cnn {
    fn new(device: &Device) -> Cnn {
        let conv = |i, o| {
            let padding = PaddingConfig2d::Explicit(1, 1, 1, 1);
            Conv2dConfig::new([i, o], [3, 3])
                .with_padding(padding)
                .init(device)
        };
        Cnn {
            a: conv(1, 16),
            b: conv(16, 32),
            head: LinearConfig::new(32 * 49, 10).init(device),
            pool: MaxPool2dConfig::new([2, 2]).with_strides([2, 2]).init(),
        }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<2> {
        let x = self.pool.forward(relu(self.a.forward(x)));
        let x = self.pool.forward(relu(self.b.forward(x)));
        self.head.forward(x.flatten(1, 3))
    }
}

/// Attention and a network of two layers, each added to what comes in.
#[derive(Module, Debug)]
struct Block {
    norm1: LayerNorm,
    norm2: LayerNorm,
    qkv: Linear,
    out: Linear,
    up: Linear,
    down: Linear,
}

impl Block {
    fn new(width: usize, device: &Device) -> Block {
        let linear = |i, o| LinearConfig::new(i, o).init(device);
        Block {
            norm1: LayerNormConfig::new(width).init(device),
            norm2: LayerNormConfig::new(width).init(device),
            qkv: linear(width, 3 * width),
            out: linear(width, width),
            up: linear(width, 4 * width),
            down: linear(4 * width, width),
        }
    }

    fn forward(&self, x: Tensor<3>, heads: usize, is_causal: bool) -> Tensor<3> {
        let [n, length, width] = x.dims();
        let qkv = self.qkv.forward(self.norm1.forward(x.clone()));
        let mut parts = qkv.chunk(3, 2).into_iter().map(|p| {
            let p: Tensor<4> = p.reshape([n, length, heads, width / heads]);
            p.swap_dims(1, 2)
        });
        let (Some(q), Some(k), Some(v)) = (parts.next(), parts.next(), parts.next()) else {
            return x;
        };
        let options = AttentionModuleOptions {
            is_causal,
            ..Default::default()
        };
        let y = attention(q, k, v, None, None, options).swap_dims(1, 2);
        let x = x + self.out.forward(y.reshape([n, length, width]));
        let y = gelu(self.up.forward(self.norm2.forward(x.clone())));
        x + self.down.forward(y)
    }
}

#[derive(Module, Debug)]
struct Gpt {
    symbols: Embedding,
    places: Embedding,
    blocks: Vec<Block>,
    norm: LayerNorm,
    head: Linear,
}

impl Gpt {
    fn new(device: &Device) -> Gpt {
        Gpt {
            symbols: EmbeddingConfig::new(65, 128).init(device),
            places: EmbeddingConfig::new(64, 128).init(device),
            blocks: (0..4).map(|_| Block::new(128, device)).collect(),
            norm: LayerNormConfig::new(128).init(device),
            head: LinearConfig::new(128, 65).init(device),
        }
    }

    fn forward(&self, x: Tensor<2, Int>) -> Tensor<2> {
        let places = Tensor::<1, Int>::arange(0..64, &x.device()).unsqueeze::<2>();
        let mut x = self.symbols.forward(x) + self.places.forward(places);
        for block in &self.blocks {
            x = block.forward(x, 4, true);
        }
        self.head.forward(self.norm.forward(x)).flatten(0, 1)
    }
}

#[derive(Module, Debug)]
struct Recurrent {
    rnn: Lstm,
    head: Linear,
}

fn training(s: &mut Suite<'_>) {
    let name = "train_mlp_16_32_32_2_b16_adam";
    train(
        s,
        name,
        normal([16, 16]),
        [2, 16],
        linears(&[16, 32, 32, 2]),
        |n, x| mlp(n, x, tanh),
    );
    let name = "train_mlp_784_128_10_b32_adam";
    train(
        s,
        name,
        normal([32, 784]),
        [10, 32],
        linears(&[784, 128, 10]),
        |n, x| mlp(n, x, relu),
    );
    let name = "train_mlp_784_1024_1024_10_b128_adam";
    let sizes = &[784, 1024, 1024, 10];
    train(
        s,
        name,
        normal([128, 784]),
        [10, 128],
        linears(sizes),
        |n, x| mlp(n, x, relu),
    );
    let name = "train_cnn_mnist_b64_adam";
    train(
        s,
        name,
        normal([64, 1, 28, 28]),
        [10, 64],
        Cnn::new,
        Cnn::forward,
    );
    let x = |device: &Device| randint(65, [16, 64], device);
    train(
        s,
        "train_gpt_d128_l4_b16_t64_adam",
        x,
        [65, 16 * 64],
        Gpt::new,
        Gpt::forward,
    );
    let net = |device: &Device| Recurrent {
        rnn: LstmConfig::new(64, 128, true).init(device),
        head: LinearConfig::new(128, 10).init(device),
    };
    let forward = |net: &Recurrent, x: Tensor<3>| {
        let (_, last) = net.rnn.forward(x, None);
        net.head.forward(last.hidden)
    };
    train(
        s,
        "train_lstm_64_128_t32_b16_adam",
        normal([16, 32, 64]),
        [10, 16],
        net,
        forward,
    );
    let momentum = MomentumConfig::new().with_dampening(0.0);
    let sgd = SgdConfig::new().with_momentum(Some(momentum)).init();
    train_with(
        s,
        "train_resnet50_b2_sgd",
        normal([2, 3, 224, 224]),
        [1000, 2],
        |device| ResNet::new([3, 4, 6, 3], true, device),
        ResNet::forward,
        (sgd, 0.01),
    );
}

/// The output of a network for a batch of images.
fn infer<N: 'static>(
    s: &mut Suite<'_>,
    name: &str,
    n: usize,
    net: impl FnOnce(&Device) -> N,
    forward: impl Fn(&N, Tensor<4>) -> Tensor<2> + 'static,
) {
    bench(s, &format!("infer_{name}_b{n}"), 0, 0, || {
        let (net, x) = (net(&cpu()), randn([n, 3, 224, 224]));
        Box::new(move || forward(&net, x.clone()))
    });
}

fn inference(s: &mut Suite<'_>) {
    for (name, depths, bottleneck) in program::RESNETS {
        for n in [1, 8] {
            let net = |device: &Device| ResNet::new(depths, bottleneck, device);
            infer(s, name, n, net, ResNet::forward);
        }
    }
    let (net, forward) = (EfficientNet::new, EfficientNet::forward);
    infer(s, "efficientnet_lite0", 1, net, forward);
    infer(s, "efficientnet_lite0", 8, net, forward);
    infer(s, "vit_b_16", 1, Vit::new, Vit::forward);
    for n in [1, 16] {
        bench(
            s,
            &format!("infer_encoder_l6_d384_h12_b{n}_t128"),
            0,
            0,
            || {
                let net: TransformerEncoder =
                    TransformerEncoderConfig::new(384, 1536, 12, 6).init(&cpu());
                let x = randn([n, 128, 384]);
                Box::new(move || net.forward(TransformerEncoderInput::new(x.clone())))
            },
        );
    }
}
