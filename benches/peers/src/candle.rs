//! candle on the workloads that it has, in the lines of `torsh-bench`.
//!
//! ```text
//! cargo run --release --bin candle-bench -- [--list] [NAME_PART ...]
//! ```
//!
//! `RAYON_NUM_THREADS` sets the threads.

#[path = "../../../crates/torsh-bench/src/harness.rs"]
#[allow(dead_code)]
mod harness;
#[path = "candle/images.rs"]
mod images;
mod program;

use candle_core::{D, DType, Device, Result, Tensor, Var};
use candle_nn::{
    AdamW, Conv2d, Conv2dConfig, Embedding, LSTM, LSTMConfig, LayerNorm, Linear, Module, ModuleT,
    Optimizer, ParamsAdamW, RNN, VarBuilder, VarMap, batch_norm, conv2d, embedding, layer_norm,
    linear, lstm, ops,
};
use harness::Suite;
use images::{EfficientNet, ResNet, Vit};

const CPU: Device = Device::Cpu;
const M: usize = 1024 * 1024;

fn randn(shape: &[usize]) -> Result<Tensor> {
    Tensor::randn(0f32, 1.0, shape, &CPU)
}

fn randint(high: usize, shape: &[usize]) -> Result<Tensor> {
    Tensor::rand(0f32, high as f32, shape, &CPU)?.to_dtype(DType::U32)
}

fn on<R>(
    s: &mut Suite<'_>,
    name: &str,
    shape: &[usize],
    bytes: usize,
    f: impl Fn(&Tensor) -> Result<R>,
) {
    let make = || {
        let x = randn(shape)?;
        Ok(move || f(&x))
    };
    s.bench(name, make, 0, bytes);
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

fn products(s: &mut Suite<'_>) {
    let mut product = |name: &str, a: &[usize], b: &[usize], dtype| {
        let flops = 2 * a.iter().product::<usize>() * b[b.len() - 1];
        let make = || {
            let (x, y) = (randn(a)?.to_dtype(dtype)?, randn(b)?.to_dtype(dtype)?);
            Ok(move || x.matmul(&y))
        };
        s.bench(name, make, flops, 0);
    };
    for n in [64, 256, 512, 1024, 2048] {
        product(&format!("matmul_{n}"), &[n, n], &[n, n], DType::F32);
    }
    product("matmul_32x784x128", &[32, 784], &[784, 128], DType::F32);
    product("matvec_4096", &[1, 4096], &[4096, 4096], DType::F32);
    product(
        "bmm_96x128x64x128",
        &[96, 128, 64],
        &[96, 64, 128],
        DType::F32,
    );
    product("matmul_f64_512", &[512, 512], &[512, 512], DType::F64);
    product(
        "matmul_bf16_1024",
        &[1024, 1024],
        &[1024, 1024],
        DType::BF16,
    );
    let make = || {
        let (x, l) = (
            randn(&[256, 768])?,
            Linear::new(randn(&[3072, 768])?, Some(randn(&[3072])?)),
        );
        Ok(move || l.forward(&x)?.gelu_erf())
    };
    s.bench(
        "linear_bias_gelu_256x768x3072",
        make,
        2 * 256 * 768 * 3072,
        0,
    );
}

fn tensors(s: &mut Suite<'_>) {
    for n in [100, 10_000, 1_000_000, 16_000_000] {
        let make = || {
            let (x, y) = (randn(&[n])?, randn(&[n])?);
            Ok(move || x.add(&y))
        };
        s.bench(&format!("add_{n}"), make, 0, 12 * n);
        on(s, &format!("exp_{n}"), &[n], 8 * n, |x| x.exp());
        on(s, &format!("gelu_{n}"), &[n], 8 * n, |x| x.gelu_erf());
        on(s, &format!("tanh_{n}"), &[n], 8 * n, |x| x.tanh());
        on(s, &format!("sum_{n}"), &[n], 4 * n, |x| x.sum_all());
    }
    let make = || {
        let (x, y) = (randn(&[1024, 1024])?, randn(&[1024])?);
        Ok(move || x.broadcast_add(&y))
    };
    s.bench("add_bcast_1024x1024", make, 0, 8 * M);
    let n = 1_000_000;
    on(s, "chain_sigmoid_mul_add_1000000", &[n], 8 * n, |x| {
        (ops::sigmoid(x)? * x)? + 1.0
    });
    on(s, "transpose_contig_1024", &[1024, 1024], 8 * M, |x| {
        x.t()?.contiguous()
    });
    let images = [32, 64, 56, 56];
    on(
        s,
        "permute_contig_32x64x56x56",
        &images,
        8 * images.iter().product::<usize>(),
        |x| x.permute((0, 2, 3, 1))?.contiguous(),
    );
    let make = || {
        let parts = (0..16)
            .map(|_| randn(&[65536]))
            .collect::<Result<Vec<_>>>()?;
        Ok(move || Tensor::cat(&parts, 0))
    };
    s.bench("cat_16x65536", make, 0, 8 * M);
    on(s, "sum_dim0_1024", &[1024, 1024], 4 * M, |x| x.sum(0));
    on(s, "sum_dim1_1024", &[1024, 1024], 4 * M, |x| x.sum(1));
    let shape = [4096, 1024];
    on(s, "argmax_dim1_4096x1024", &shape, 16 * M, |x| x.argmax(1));
    on(s, "var_dim1_4096x1024", &shape, 16 * M, |x| x.var(1));
    on(
        s,
        "softmax_4096x1024",
        &shape,
        32 * M,
        ops::softmax_last_dim,
    );
    let make = || {
        let (x, w, b) = (
            randn(&shape)?,
            Tensor::ones(1024, DType::F32, &CPU)?,
            randn(&[1024])?,
        );
        Ok(move || ops::layer_norm(&x, &w, &b, 1e-5))
    };
    s.bench("layernorm_4096x1024", make, 0, 32 * M);
    let make = || {
        let (x, t) = (randn(&shape)?, randint(1024, &[4096])?);
        Ok(move || candle_nn::loss::cross_entropy(&x, &t))
    };
    s.bench("cross_entropy_4096x1024", make, 0, 16 * M);
    let make = || {
        let (index, w) = (randint(50_000, &[8192])?, randn(&[50_000, 256])?);
        Ok(move || w.embedding(&index))
    };
    s.bench("embedding_8192x256", make, 0, 16 * M);
    let make = || {
        let (index, x) = (randint(100_000, &[100_000])?, randn(&[100_000, 64])?);
        Ok(move || x.index_select(&index, 0))
    };
    s.bench("index_select_100000x64", make, 0, 51_200_000);
    let make = || {
        let (index, src) = (randint(1000, &[n])?, randn(&[n])?);
        let out = Tensor::zeros(1000, DType::F32, &CPU)?;
        Ok(move || out.scatter_add(&index, &src, 0))
    };
    s.bench("scatter_add_1000000", make, 0, 0);
    on(s, "sort_1000000", &[n], 0, |x| x.sort_last_dim(true));
    // No `cumsum_1000000`: candle multiplies by a triangular matrix, here of 4 TB.
    s.bench("randn_1000000", || Ok(|| randn(&[1_000_000])), 0, 4 * n);
    let rand = || Tensor::rand(0f32, 1.0, 1_000_000, &CPU);
    s.bench("rand_1000000", || Ok(rand), 0, 4 * n);
    on(s, "op_overhead_add1", &[1], 0, |x| x.add(x));
    on(s, "op_overhead_view", &[4, 4], 0, |x| x.t());
    let make = || {
        let a = Var::ones(1, DType::F32, &CPU)?;
        Ok(move || {
            let mut y = a.as_tensor().clone();
            for _ in 0..100 {
                y = (y * 1.01)?;
            }
            y.backward()
        })
    };
    s.bench("autograd_chain100", make, 0, 0);
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
        let make = || {
            let (x, w) = (randn(&input)?, randn(&[o, c / groups, k, k])?);
            Ok(move || x.conv2d(&w, padding, stride, 1, groups))
        };
        s.bench(&format!("conv2d_{name}"), make, flops, 0);
    }
    let make = || {
        let shape = [8, 64, 56, 56];
        let (x, w) = (
            Var::from_tensor(&randn(&shape)?)?,
            Var::from_tensor(&randn(&[64, 64, 3, 3])?)?,
        );
        let g = randn(&shape)?;
        // backward starts from ones, so the product's gradient is the given one.
        Ok(move || (x.conv2d(&w, 1, 1, 1, 1)? * &g)?.sum_all()?.backward())
    };
    s.bench(
        "conv2d_fwd_bwd_3x3_64_56_n8",
        make,
        3 * 2 * 8 * 64 * 56 * 56 * 64 * 9,
        0,
    );
    let make = || {
        let (x, w) = (randn(&[16, 64, 1000])?, randn(&[64, 64, 5])?);
        Ok(move || x.conv1d(&w, 2, 1, 1, 1))
    };
    s.bench(
        "conv1d_64_1000_k5_n16",
        make,
        2 * 16 * 64 * 1000 * 64 * 5,
        0,
    );
    on(s, "avgpool2d_8x64x56", &[8, 64, 56, 56], 0, |x| {
        x.avg_pool2d(2)
    });
    let make = || {
        let b = batch_norm(64, 1e-5, builder(&VarMap::new()))?;
        let x = randn(&[8, 64, 56, 56])?;
        Ok(move || b.forward_t(&x, true))
    };
    s.bench("batchnorm2d_train_8x64x56", make, 0, 0);
    for (name, causal) in [("sdpa", false), ("sdpa_causal", true)] {
        let make = || {
            let qkv = [(); 3].map(|()| randn(&[4, 8, 512, 64]));
            let [q, k, v] = qkv;
            let (q, k, v, mask) = (q?, k?, v?, mask(512)?);
            Ok(move || attention(&q, &k, &v, causal.then_some(&mask)))
        };
        let flops = 4 * 4 * 8 * 512 * 512 * 64 / if causal { 2 } else { 1 };
        s.bench(&format!("{name}_4x8x512x64"), make, flops, 0);
    }
}

fn builder(vars: &VarMap) -> VarBuilder<'static> {
    VarBuilder::from_varmap(vars, DType::F32, &CPU)
}

/// What is added to products so that nothing after a query's position counts.
fn mask(length: usize) -> Result<Tensor> {
    let at = |i: usize| {
        if i % length > i / length {
            f32::NEG_INFINITY
        } else {
            0.0
        }
    };
    let all: Vec<f32> = (0..length * length).map(at).collect();
    Tensor::from_vec(all, (length, length), &CPU)
}

fn attention(q: &Tensor, k: &Tensor, v: &Tensor, mask: Option<&Tensor>) -> Result<Tensor> {
    let scale = 1.0 / (q.dim(D::Minus1)? as f64).sqrt();
    let scores = (q.matmul(&k.t()?)? * scale)?;
    let scores = match mask {
        Some(mask) => scores.broadcast_add(mask)?,
        None => scores,
    };
    ops::softmax(&scores, D::Minus1)?.matmul(v)
}

/// A step of Adam; candle has it as AdamW without decay.
fn adam(vars: Vec<Var>) -> Result<impl FnMut(&Tensor) -> Result<()>> {
    let (lr, weight_decay) = (1e-3, 0.0);
    let params = ParamsAdamW {
        lr,
        weight_decay,
        ..Default::default()
    };
    let mut optimizer = AdamW::new(vars, params)?;
    Ok(move |loss: &Tensor| optimizer.backward_step(loss))
}

/// A step of SGD with momentum, which candle's own does not have.
fn sgd(vars: Vec<Var>) -> Result<impl FnMut(&Tensor) -> Result<()>> {
    let pair = |v: Var| Ok((v.zeros_like()?, v));
    let mut vars = vars.into_iter().map(pair).collect::<Result<Vec<_>>>()?;
    Ok(move |loss: &Tensor| {
        let grads = loss.backward()?;
        for (velocity, var) in &mut vars {
            if let Some(grad) = grads.get(var) {
                // Gradients hold on to what they were computed from.
                *velocity = ((&*velocity * 0.9)? + grad)?.detach();
                var.set(&var.sub(&(&*velocity * 0.01)?)?)?;
            }
        }
        Ok(())
    })
}

/// A step of Adam on a batch.
fn train<N>(
    s: &mut Suite<'_>,
    name: &str,
    x: impl FnOnce() -> Result<Tensor>,
    classes: usize,
    rows: usize,
    net: impl FnOnce(VarBuilder<'static>) -> Result<N>,
    forward: impl Fn(&N, &Tensor) -> Result<Tensor>,
) {
    train_with(s, name, x, [classes, rows], net, forward, adam);
}

/// A step of an optimizer on a batch.
fn train_with<N, S: FnMut(&Tensor) -> Result<()>>(
    s: &mut Suite<'_>,
    name: &str,
    x: impl FnOnce() -> Result<Tensor>,
    [classes, rows]: [usize; 2],
    net: impl FnOnce(VarBuilder<'static>) -> Result<N>,
    forward: impl Fn(&N, &Tensor) -> Result<Tensor>,
    optimizer: impl FnOnce(Vec<Var>) -> Result<S>,
) {
    let make = || {
        let vars = VarMap::new();
        let net = net(builder(&vars))?;
        let mut step = optimizer(vars.all_vars())?;
        let (x, t) = (x()?, randint(classes, &[rows])?);
        Ok(move || step(&candle_nn::loss::cross_entropy(&forward(&net, &x)?, &t)?))
    };
    s.bench(name, make, 0, 0);
}

fn linears(sizes: &[usize], vb: &VarBuilder<'static>) -> Result<Vec<Linear>> {
    let pairs = sizes.windows(2).enumerate();
    pairs.map(|(i, p)| linear(p[0], p[1], vb.pp(i))).collect()
}

fn mlp(net: &[Linear], x: &Tensor, f: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let mut x = net[0].forward(x)?;
    for l in &net[1..] {
        x = l.forward(&f(&x)?)?;
    }
    Ok(x)
}

fn training(s: &mut Suite<'_>) {
    let sizes = [16, 32, 32, 2];
    let net = |vb| linears(&sizes, &vb);
    let name = "train_mlp_16_32_32_2_b16_adam";
    train(
        s,
        name,
        || randn(&[16, 16]),
        2,
        16,
        net,
        |net, x| mlp(net, x, |x| x.tanh()),
    );
    let net = |vb| linears(&[784, 128, 10], &vb);
    let name = "train_mlp_784_128_10_b32_adam";
    train(
        s,
        name,
        || randn(&[32, 784]),
        10,
        32,
        net,
        |net, x| mlp(net, x, |x| x.relu()),
    );
    let net = |vb| linears(&[784, 1024, 1024, 10], &vb);
    let name = "train_mlp_784_1024_1024_10_b128_adam";
    train(
        s,
        name,
        || randn(&[128, 784]),
        10,
        128,
        net,
        |net, x| mlp(net, x, |x| x.relu()),
    );
    let net = |vb: VarBuilder<'static>| {
        let padding = Conv2dConfig {
            padding: 1,
            ..Default::default()
        };
        let (a, b) = (
            conv2d(1, 16, 3, padding, vb.pp("a"))?,
            conv2d(16, 32, 3, padding, vb.pp("b"))?,
        );
        Ok((a, b, linear(32 * 49, 10, vb.pp("c"))?))
    };
    let forward = |(a, b, c): &(Conv2d, Conv2d, Linear), x: &Tensor| {
        let x = a.forward(x)?.relu()?.max_pool2d(2)?;
        c.forward(&b.forward(&x)?.relu()?.max_pool2d(2)?.flatten_from(1)?)
    };
    train(
        s,
        "train_cnn_mnist_b64_adam",
        || randn(&[64, 1, 28, 28]),
        10,
        64,
        net,
        forward,
    );
    let x = || randint(65, &[16, 64]);
    train(
        s,
        "train_gpt_d128_l4_b16_t64_adam",
        x,
        65,
        16 * 64,
        Gpt::new,
        Gpt::forward,
    );
    let net = |vb: VarBuilder<'static>| {
        let rnn = lstm(64, 128, LSTMConfig::default(), vb.pp("r"))?;
        Ok((rnn, linear(128, 10, vb.pp("h"))?))
    };
    let forward = |(rnn, head): &(LSTM, Linear), x: &Tensor| {
        let states = rnn.seq(x)?;
        head.forward(states[states.len() - 1].h())
    };
    let name = "train_lstm_64_128_t32_b16_adam";
    train(s, name, || randn(&[16, 32, 64]), 10, 16, net, forward);
    train_with(
        s,
        "train_resnet50_b2_sgd",
        || randn(&[2, 3, 224, 224]),
        [1000, 2],
        |vb| ResNet::new([3, 4, 6, 3], true, vb),
        |net, x| net.forward(x, true),
        sgd,
    );
}

/// Attention and a network of two layers, each added to what comes in.
struct Block {
    norms: [LayerNorm; 2],
    qkv: Linear,
    out: Linear,
    up: Linear,
    down: Linear,
    heads: usize,
    /// Whether the parts are normalised before, instead of behind them.
    first: bool,
}

impl Block {
    fn new(
        width: usize,
        inner: usize,
        heads: usize,
        first: bool,
        vb: VarBuilder<'static>,
    ) -> Result<Block> {
        Ok(Block {
            norms: [
                layer_norm(width, 1e-5, vb.pp("n"))?,
                layer_norm(width, 1e-5, vb.pp("m"))?,
            ],
            qkv: linear(width, 3 * width, vb.pp("q"))?,
            out: linear(width, width, vb.pp("o"))?,
            up: linear(width, inner, vb.pp("u"))?,
            down: linear(inner, width, vb.pp("d"))?,
            heads,
            first,
        })
    }

    fn attend(&self, x: &Tensor, mask: Option<&Tensor>) -> Result<Tensor> {
        let (n, length, width) = x.dims3()?;
        let shape = (n, length, 3, self.heads, width / self.heads);
        let qkv = self
            .qkv
            .forward(x)?
            .reshape(shape)?
            .permute((2, 0, 3, 1, 4))?;
        let part = |i: usize| qkv.get(i)?.contiguous();
        let y = attention(&part(0)?, &part(1)?, &part(2)?, mask)?;
        self.out
            .forward(&y.transpose(1, 2)?.reshape((n, length, width))?)
    }

    fn forward(&self, x: &Tensor, mask: Option<&Tensor>) -> Result<Tensor> {
        let [n, m] = &self.norms;
        let inner = |x: &Tensor| self.down.forward(&self.up.forward(x)?.gelu_erf()?);
        if self.first {
            let x = (x + self.attend(&n.forward(x)?, mask)?)?;
            return &x + inner(&m.forward(&x)?)?;
        }
        let x = n.forward(&(x + self.attend(x, mask)?)?)?;
        m.forward(&(&x + inner(&x)?)?)
    }
}

struct Gpt {
    symbols: Embedding,
    places: Embedding,
    blocks: Vec<Block>,
    norm: LayerNorm,
    head: Linear,
    mask: Tensor,
}

impl Gpt {
    fn new(vb: VarBuilder<'static>) -> Result<Gpt> {
        Ok(Gpt {
            symbols: embedding(65, 128, vb.pp("e"))?,
            places: embedding(64, 128, vb.pp("p"))?,
            blocks: (0..4)
                .map(|i| Block::new(128, 512, 4, true, vb.pp(i)))
                .collect::<Result<_>>()?,
            norm: layer_norm(128, 1e-5, vb.pp("n"))?,
            head: linear(128, 65, vb.pp("h"))?,
            mask: mask(64)?,
        })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let places = Tensor::arange(0u32, 64, &CPU)?;
        let mut x = self
            .symbols
            .forward(x)?
            .broadcast_add(&self.places.forward(&places)?)?;
        for block in &self.blocks {
            x = block.forward(&x, Some(&self.mask))?;
        }
        self.head.forward(&self.norm.forward(&x)?)?.flatten(0, 1)
    }
}

/// The output of a network for a batch of images.
fn infer<N>(
    s: &mut Suite<'_>,
    name: &str,
    n: usize,
    net: impl FnOnce(VarBuilder<'static>) -> Result<N>,
    forward: impl Fn(&N, &Tensor) -> Result<Tensor>,
) {
    let make = || {
        // Variables record; candle has no mode in which they do not.
        let net = net(builder(&VarMap::new()))?;
        let x = randn(&[n, 3, 224, 224])?;
        Ok(move || forward(&net, &x))
    };
    s.bench(&format!("infer_{name}_b{n}"), make, 0, 0);
}

fn inference(s: &mut Suite<'_>) {
    for (name, depths, bottleneck) in program::RESNETS {
        for n in [1, 8] {
            let net = |vb| ResNet::new(depths, bottleneck, vb);
            infer(s, name, n, net, |net, x| net.forward(x, false));
        }
    }
    let (net, forward) = (EfficientNet::new, EfficientNet::forward);
    infer(s, "efficientnet_lite0", 1, net, forward);
    infer(s, "efficientnet_lite0", 8, net, forward);
    infer(s, "vit_b_16", 1, Vit::new, Vit::forward);
    for n in [1, 16] {
        let make = || {
            let vb = builder(&VarMap::new());
            let block = |i| Block::new(384, 1536, 12, false, vb.pp(i));
            let blocks = (0..6).map(block).collect::<Result<Vec<_>>>()?;
            let x = randn(&[n, 128, 384])?;
            Ok(move || {
                blocks
                    .iter()
                    .try_fold(x.clone(), |x, b| b.forward(&x, None))
            })
        };
        s.bench(&format!("infer_encoder_l6_d384_h12_b{n}_t128"), make, 0, 0);
    }
}
