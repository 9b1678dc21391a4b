//! Models that train in a bfloat16 autocast region, against PyTorch's losses of the same seeds
//! (`data/autocast.json`, written by `data/make_autocast.py`).

use serde_json::Value;
use torsh_nn::{
    BatchNorm2d, Conv2d, GRU, LSTM, LayerNorm, Linear, Module, ModuleExt, MultiheadAttention,
    MultiheadAttentionOptions,
};
use torsh_optim::{Adam, Optimizer};
use torsh_tensor::{AutocastOptions, DType, Device, Result, Tensor, autocast_with, randint, randn};

#[derive(Module)]
struct Mlp {
    fc1: Linear,
    norm: LayerNorm,
    fc2: Linear,
}

impl Module for Mlp {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = self.fc1.forward(x)?;
        self.fc2.forward(&self.norm.forward(&x)?.relu()?)
    }
}

#[derive(Module)]
struct Cnn {
    conv1: Conv2d,
    norm: BatchNorm2d,
    conv2: Conv2d,
    fc: Linear,
}

impl Module for Cnn {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = self
            .norm
            .forward(&self.conv1.forward(x)?)?
            .relu()?
            .max_pool2d(2)?;
        let x = self.conv2.forward(&x)?.gelu()?.adaptive_avg_pool2d(1)?;
        self.fc.forward(&x.flatten(1)?)
    }
}

#[derive(Module)]
struct Attention {
    embed: Linear,
    attention: MultiheadAttention,
    norm: LayerNorm,
    head: Linear,
}

impl Module for Attention {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = self.embed.forward(x)?;
        let options = MultiheadAttentionOptions::new().need_weights(false);
        let (y, _) = self.attention.forward_with(&x, &x, &x, options)?;
        let x = self.norm.forward(&x.add(&y)?)?;
        self.head.forward(&x.mean_dim(1, false)?)
    }
}

#[derive(Module)]
struct Lstm {
    rnn: LSTM,
    head: Linear,
}

impl Module for Lstm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.head.forward(&self.rnn.forward(x)?.select(0, -1)?)
    }
}

#[derive(Module)]
struct Gru {
    rnn: GRU,
    head: Linear,
}

impl Module for Gru {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.head.forward(&self.rnn.forward(x)?.select(0, -1)?)
    }
}

fn losses(
    model: &dyn Module,
    x: &Tensor,
    y: &Tensor,
    region: bool,
    steps: usize,
) -> Result<Vec<f64>> {
    let optimizer = Adam::new(model.parameters(), 1e-2)?;
    let mut out = Vec::new();
    for _ in 0..steps {
        optimizer.zero_grad();
        let options = AutocastOptions::new().enabled(region);
        let loss = autocast_with(Device::Cpu, options, || model.forward(x)?.cross_entropy(y))?;
        assert_eq!(loss.dtype(), DType::F32);
        loss.backward()?;
        for p in model.parameters() {
            assert_eq!(p.grad().map(|g| g.dtype()), Some(DType::F32));
        }
        optimizer.step()?;
        out.push(loss.item::<f64>()?);
    }
    Ok(out)
}

/// Trains in a region and outside. In float32 only roundings of sums differ from PyTorch's; in
/// bfloat16, whose numbers lie 0.4 % apart, a few of them fall to the other side.
fn follows(name: &str, make: impl Fn() -> Result<(Box<dyn Module>, Tensor, Tensor)>) -> Result<()> {
    let all: Value = serde_json::from_str(include_str!("data/autocast.json")).unwrap();
    for (dtype, region, tolerance) in [("float32", false, 2e-5), ("bfloat16", true, 4e-3)] {
        let expected: Vec<f64> = serde_json::from_value(all[name][dtype].clone()).unwrap();
        let _own = torsh_core::random::LocalGenerator::new(7).enter();
        let (model, x, y) = make()?;
        let got = losses(&*model, &x, &y, region, expected.len())?;
        for (i, (got, want)) in got.iter().zip(&expected).enumerate() {
            assert!(
                (got - want).abs() <= tolerance * want,
                "{name} in {dtype}, step {i}: {got} for {want}"
            );
        }
    }
    Ok(())
}

#[test]
fn models_train_as_pytorchs() -> Result<()> {
    follows("mlp", || {
        let model = Mlp {
            fc1: Linear::new(16, 32),
            norm: LayerNorm::new([32])?,
            fc2: Linear::new(32, 4),
        };
        Ok((Box::new(model), randn(&[24, 16]), randint(0, 4, &[24])))
    })?;
    follows("cnn", || {
        let model = Cnn {
            conv1: Conv2d::new(3, 8, 3, 1, 1)?,
            norm: BatchNorm2d::new(8)?,
            conv2: Conv2d::new(8, 8, 3, 2, 1)?,
            fc: Linear::new(8, 4),
        };
        Ok((Box::new(model), randn(&[12, 3, 8, 8]), randint(0, 4, &[12])))
    })?;
    follows("attention", || {
        let model = Attention {
            embed: Linear::new(6, 16),
            attention: MultiheadAttention::builder(16, 4)
                .batch_first(true)
                .build()?,
            norm: LayerNorm::new([16])?,
            head: Linear::new(16, 4),
        };
        Ok((Box::new(model), randn(&[10, 7, 6]), randint(0, 4, &[10])))
    })?;
    follows("lstm", || {
        let model = Lstm {
            rnn: LSTM::new(5, 12)?,
            head: Linear::new(12, 4),
        };
        Ok((Box::new(model), randn(&[6, 10, 5]), randint(0, 4, &[10])))
    })?;
    follows("gru", || {
        let model = Gru {
            rnn: GRU::new(5, 12)?,
            head: Linear::new(12, 4),
        };
        Ok((Box::new(model), randn(&[6, 10, 5]), randint(0, 4, &[10])))
    })
}
