//! Layers against PyTorch: names, starting weights, printing, and what they compute.

use std::path::PathBuf;

use torsh_core::random::LocalGenerator;
use torsh_nn::{
    BatchNorm1d, BatchNorm2d, Conv2d, Embedding, Flatten, GELU, Linear, MSELoss, MaxPool2d, Module,
    ModuleExt, PaddingMode, ReLU, Reduction, Sequential, Softmax, StateDict, init,
    init::{FanMode, KaimingOptions, Nonlinearity},
    sequential,
};
use torsh_tensor::{DType, Device, Result, Tensor};

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

#[derive(Module)]
struct Block {
    conv: Conv2d,
    norm: BatchNorm2d,
}

impl Module for Block {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.norm.forward(&self.conv.forward(x)?)
    }
}

fn block() -> Result<Block> {
    Ok(Block {
        conv: Conv2d::builder(4, 6, (3, 2)).groups(2).build()?,
        norm: BatchNorm2d::new(6)?,
    })
}

/// The network of data/make_init.py.
#[derive(Module)]
struct Net {
    fc: Linear,
    blocks: Vec<Block>,
    table: Embedding,
    head: Sequential,
    wide: Linear,
    norm1: BatchNorm1d,
}

impl Module for Net {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.fc.forward(x)
    }
}

fn net() -> Result<Net> {
    Ok(Net {
        fc: Linear::new(5, 3),
        blocks: vec![block()?, block()?],
        table: Embedding::builder(7, 4).padding_idx(2).build()?,
        head: sequential![
            Linear::builder(20, 30).bias(false).build()?,
            ReLU::new(),
            Linear::new(2, 4)
        ],
        wide: Linear::builder(3, 2).dtype(DType::F64).build()?,
        norm1: BatchNorm1d::builder(2).affine(false).build()?,
    })
}

/// Equal but for the last bits of what passes through logarithms and sines, and of sums that cancel.
fn assert_close(name: &str, ours: &Tensor, theirs: &Tensor) {
    assert_eq!(ours.shape(), theirs.shape(), "{name}");
    assert_eq!(ours.dtype(), theirs.dtype(), "{name}");
    let (a, b) = (
        ours.to_vec::<f64>().unwrap(),
        theirs.to_vec::<f64>().unwrap(),
    );
    for (i, (x, y)) in a.iter().zip(&b).enumerate() {
        assert!(
            (x - y).abs() <= 1e-6 * y.abs().max(0.25),
            "{name}[{i}]: {x} is not {y}"
        );
    }
}

#[test]
fn starting_weights_and_names_are_pytorchs() {
    LocalGenerator::new(0).scope(|| {
        let theirs = StateDict::load(data("init.safetensors")).unwrap();
        torsh_core::random::manual_seed(7);
        let net = net().unwrap();
        let ours = net.state_dict();
        let names = std::fs::read_to_string(data("init.names")).unwrap();
        assert_eq!(
            ours.keys().collect::<Vec<_>>(),
            names.lines().collect::<Vec<_>>()
        );
        for (name, tensor) in ours.iter() {
            assert_close(name, tensor, &theirs[name]);
        }
        assert_eq!(
            ours["table.weight"].to_vec::<f32>().unwrap()[8..12],
            [0.0; 4]
        );

        let t = Tensor::zeros([3, 4], DType::F32, Device::Cpu).unwrap();
        init::xavier_uniform_(&t, 1.5).unwrap();
        assert_close("xavier_uniform_", &t, &theirs["init.xavier_uniform_"]);
        init::xavier_normal_(&t, 1.0).unwrap();
        assert_close("xavier_normal_", &t, &theirs["init.xavier_normal_"]);
        init::kaiming_uniform_(&t).unwrap();
        assert_close("kaiming_uniform_", &t, &theirs["init.kaiming_uniform_"]);
        let options = KaimingOptions::default()
            .mode(FanMode::FanOut)
            .nonlinearity(Nonlinearity::ReLU);
        init::kaiming_normal_with(&t, options).unwrap();
        assert_close("kaiming_normal_", &t, &theirs["init.kaiming_normal_"]);
        init::uniform_(&t, -2.0, 3.0).unwrap();
        assert_close("uniform_", &t, &theirs["init.uniform_"]);
        init::normal_(&t, 1.0, 0.5).unwrap();
        assert_close("normal_", &t, &theirs["init.normal_"]);
    })
}

/// A state dict that PyTorch's safetensors wrote, into weights of other values.
#[test]
fn a_file_of_pytorchs_loads() {
    let mut state = StateDict::load(data("init.safetensors")).unwrap();
    let net = net().unwrap();
    let error = net.load_state_dict(&state).unwrap_err().to_string();
    assert!(
        error.contains("unexpected: ") && error.contains("init.xavier_normal_"),
        "{error}"
    );
    let extra: Vec<String> = state
        .keys()
        .filter(|k| k.starts_with("init."))
        .map(String::from)
        .collect();
    for name in extra {
        state.remove(&name);
    }
    net.load_state_dict(&state).unwrap();
    for (name, tensor) in net.state_dict().iter() {
        assert_eq!(
            tensor.to_vec::<f64>().unwrap(),
            state[name].to_vec::<f64>().unwrap(),
            "{name}"
        );
    }
}

/// `Vec<Block>` is flat where PyTorch has a `ModuleList`; everything else prints the same.
#[test]
fn printed_as_by_pytorch() {
    let theirs = std::fs::read_to_string(data("init.repr")).unwrap();
    let ours = net().unwrap().repr();
    // PyTorch prints equal neighbours in a list once.
    let lines = |text: &str| -> Vec<String> {
        let mut out: Vec<String> = Vec::new();
        for line in text.lines().map(str::trim) {
            let leaf = line.starts_with('(') && line.ends_with(')') && !line.ends_with("()");
            if leaf && !out.iter().any(|l| l == line) {
                out.push(line.to_string());
            }
        }
        out
    };
    assert_eq!(lines(&ours), lines(&theirs));
    assert!(
        ours.starts_with("Net(\n  (fc): Linear(in_features=5, out_features=3, bias=True)\n"),
        "{ours}"
    );
    assert_eq!(ReLU::new().repr(), "ReLU()");
    assert_eq!(
        Conv2d::builder(8, 64, (3, 5))
            .stride(2)
            .padding(torsh_nn::Padding::Same)
            .build()
            .err()
            .map(|e| e.to_string().contains("strided")),
        Some(true)
    );
    assert_eq!(
        Conv2d::builder(8, 64, (3, 5))
            .stride(2)
            .padding(1)
            .bias(false)
            .build()
            .unwrap()
            .repr(),
        "Conv2d(8, 64, kernel_size=(3, 5), stride=(2, 2), padding=(1, 1), bias=False)"
    );
}

#[test]
fn refused_arguments() {
    let text = |e: Option<torsh_tensor::TorshError>| e.map(|e| e.to_string()).unwrap_or_default();
    assert!(
        text(Conv2d::builder(3, 4, 3).groups(2).build().err())
            .contains("in_channels must be divisible by groups")
    );
    assert!(text(Conv2d::new(3, 4, 0, 1, 0).err()).contains("kernel_size must be positive"));
    assert!(text(torsh_nn::Dropout::new(1.5).err()).contains("between 0 and 1"));
    assert!(text(Embedding::builder(3, 2).padding_idx(3).build().err()).contains("padding_idx 3"));
    assert!(text(Linear::builder(3, 2).dtype(DType::I64).build().err()).contains("floating"));
    assert!(
        text(init::kaiming_uniform_(&Tensor::zeros([3], DType::F32, Device::Cpu).unwrap()).err())
            .contains("fewer than 2 dimensions")
    );
}

#[test]
fn activations_compute() {
    let x = Tensor::from_data(&[-2.0f64, -0.5, 0.0, 1.5], [4]).unwrap();
    let check = |m: &dyn Module, expected: [f64; 4]| {
        let y = m.forward(&x).unwrap().to_vec::<f64>().unwrap();
        for (a, b) in y.iter().zip(expected) {
            assert!(
                (a - b).abs() < 1e-12,
                "{}: {y:?} is not {expected:?}",
                m.type_name()
            );
        }
    };
    check(&ReLU::new(), [0.0, 0.0, 0.0, 1.5]);
    check(&torsh_nn::LeakyReLU::new(), [-0.02, -0.005, 0.0, 1.5]);
    check(
        &torsh_nn::LeakyReLU::negative_slope(0.5),
        [-1.0, -0.25, 0.0, 1.5],
    );
    check(
        &torsh_nn::ELU::new(),
        [(-2f64).exp_m1(), (-0.5f64).exp_m1(), 0.0, 1.5],
    );
    check(&torsh_nn::Hardtanh::new(), [-1.0, -0.5, 0.0, 1.0]);
    check(
        &torsh_nn::Tanh::new(),
        [-2.0, -0.5, 0.0, 1.5].map(f64::tanh),
    );
    check(
        &torsh_nn::Sigmoid::new(),
        [-2.0, -0.5, 0.0, 1.5].map(|v: f64| 1.0 / (1.0 + (-v).exp())),
    );
    check(
        &torsh_nn::SiLU::new(),
        [-2.0, -0.5, 0.0, 1.5].map(|v: f64| v / (1.0 + (-v).exp())),
    );
    check(
        &torsh_nn::Softplus::new(),
        [-2.0, -0.5, 0.0, 1.5].map(|v: f64| v.exp().ln_1p()),
    );
    check(&torsh_nn::Identity::new(), [-2.0, -0.5, 0.0, 1.5]);
    check(&torsh_nn::Softshrink::new(), [-1.5, 0.0, 0.0, 1.0]);
}

/// Against numbers that PyTorch gives for the same weights.
#[test]
fn layers_compute_and_train() {
    let state = StateDict::load(data("init.safetensors")).unwrap();
    let want = StateDict::load(data("forward.safetensors")).unwrap();
    let input = |name: &str| {
        want[name]
            .to_device(torsh_tensor::default_device())
            .unwrap()
    };
    let fc = Linear::new(5, 3);
    let part = |prefix: &str| -> StateDict {
        state
            .iter()
            .filter_map(|(k, t)| Some((k.strip_prefix(prefix)?.to_string(), t.clone())))
            .collect()
    };
    fc.load_state_dict(&part("fc.")).unwrap();
    let y = fc.forward(&input("x")).unwrap();
    assert_close("fc", &y, &want["fc"]);
    y.sum().unwrap().backward().unwrap();
    assert_close(
        "fc.weight.grad",
        &fc.weight.grad().unwrap(),
        &want["fc.weight.grad"],
    );

    let conv = Conv2d::builder(4, 6, (3, 2))
        .groups(2)
        .stride((2, 1))
        .padding((1, 2))
        .build()
        .unwrap();
    conv.load_state_dict(&part("blocks.0.conv.")).unwrap();
    assert_close(
        "conv",
        &conv.forward(&input("image")).unwrap(),
        &want["conv"],
    );
    for mode in [
        PaddingMode::Reflect,
        PaddingMode::Replicate,
        PaddingMode::Circular,
    ] {
        let conv = Conv2d::builder(4, 6, (3, 2))
            .groups(2)
            .padding(1)
            .padding_mode(mode)
            .build()
            .unwrap();
        conv.load_state_dict(&part("blocks.0.conv.")).unwrap();
        let name = format!("conv.{mode:?}").to_lowercase();
        assert_close(
            &name,
            &conv.forward(&input("image")).unwrap(),
            &want[name.as_str()],
        );
    }
    let pool = MaxPool2d::builder(3)
        .stride(2)
        .padding(1)
        .ceil_mode(true)
        .build()
        .unwrap();
    assert_close(
        "pool",
        &pool.forward(&input("image")).unwrap(),
        &want["pool"],
    );
    let (values, indices) = pool.forward_with_indices(&want["image"]).unwrap();
    assert_close("pool", &values, &want["pool"]);
    assert_close("indices", &indices, &want["indices"]);

    let table = Embedding::builder(7, 4).padding_idx(2).build().unwrap();
    table.load_state_dict(&part("table.")).unwrap();
    let rows = table
        .forward(&Tensor::from_data(&[2i64, 6, 6], [3]).unwrap())
        .unwrap();
    assert_close("rows", &rows, &want["rows"]);
    rows.sum().unwrap().backward().unwrap();
    assert_close(
        "rows.grad",
        &table.weight.grad().unwrap(),
        &want["rows.grad"],
    );

    let loss = MSELoss::new()
        .forward_with(&want["fc"], &want["target"])
        .unwrap();
    assert_close("mse", &loss, &want["mse"]);
    let loss = MSELoss::with(torsh_nn::functional::LossOptions::new().reduction(Reduction::Sum))
        .forward_with(&want["fc"], &want["target"])
        .unwrap();
    assert_close("mse.sum", &loss, &want["mse.sum"]);
    assert_close(
        "softmax",
        &Softmax::new(-1).forward(&input("fc")).unwrap(),
        &want["softmax"],
    );
    assert_close(
        "gelu",
        &GELU::new().forward(&input("fc")).unwrap(),
        &want["gelu"],
    );
    assert_close(
        "flatten",
        &Flatten::new().forward(&input("image")).unwrap(),
        &want["flatten"],
    );
}
