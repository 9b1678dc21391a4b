//! The models that data parallel and sharded training are checked with, and their losses.

use torsh_core::Generator;
use torsh_distributed::{DeviceMesh, FullyShard, FullyShardOptions, fully_shard};
use torsh_functional as F;
use torsh_nn::{
    BatchNorm2d, Conv2d, Embedding, Hooks, LayerNorm, Linear, Module, ModuleExt, Parameter,
};
use torsh_tensor::{
    DType, Device, Result, ScaledDotProductAttentionOptions, Tensor, TorshError, checkpoint,
};

/// Random numbers of `[0, 1)` for a step of a rank.
pub fn batch(step: usize, rank: usize, shape: &[usize]) -> Result<Tensor> {
    let generator = Generator::new((1000 * step + rank) as u64);
    Tensor::zeros(shape, DType::F32, Device::Cpu)?.uniform_with_(0.0, 1.0, &generator)
}

/// Random classes for a step of a rank.
pub(crate) fn classes(step: usize, rank: usize, shape: &[usize], n: usize) -> Result<Tensor> {
    batch(step, rank, shape)?
        .mul(n as f64)?
        .to_dtype(DType::I64)
}

/// The loss of a model for a step of a rank.
pub(crate) type Loss<'a> = &'a dyn Fn(&dyn Module, usize, usize) -> Result<Tensor>;

/// Two layers of sizes that no number of ranks divides.
#[derive(Module)]
pub(crate) struct Mlp {
    pub(crate) fc1: Linear,
    pub(crate) fc2: Linear,
    scale: Parameter,
    hooks: Hooks,
}

impl Module for Mlp {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            self.fc2
                .forward(&self.fc1.forward(x)?.tanh()?)?
                .mul(&self.scale)
        })
    }
}

/// A model of 6 inputs and 3 classes.
pub(crate) fn mlp() -> Result<Mlp> {
    Ok(Mlp {
        fc1: Linear::new(6, 13),
        fc2: Linear::new(13, 3),
        scale: Parameter::new(Tensor::scalar(1.5f32, DType::F32, Device::Cpu)?),
        hooks: Hooks::new(),
    })
}

/// The loss of a model of 6 inputs and 3 classes on a rank's batch of a step.
pub fn mlp_loss(m: &dyn Module, step: usize, rank: usize) -> Result<Tensor> {
    let y = m.forward(&batch(step, rank, &[5, 6])?)?;
    F::cross_entropy(&y, &classes(step, rank + 50, &[5], 3)?)
}

/// A convolution with batch normalisation and a head, whose input the head's unit gets through a pooling.
#[derive(Module)]
pub(crate) struct Cnn {
    conv: Conv2d,
    norm: BatchNorm2d,
    head: Linear,
    hooks: Hooks,
}

impl Module for Cnn {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let h = self.norm.forward(&self.conv.forward(x)?)?.relu()?;
            self.head.forward(&h.mean_dim([2, 3], false)?)
        })
    }
}

pub(crate) fn cnn() -> Result<Cnn> {
    Ok(Cnn {
        conv: Conv2d::builder(2, 5, 3).build()?,
        norm: BatchNorm2d::new(5)?,
        head: Linear::new(5, 3),
        hooks: Hooks::new(),
    })
}

/// [`cnn`] in evaluation mode: the running statistics are constants, so a rank's batch has no part in another's result.
pub(crate) fn fixed_cnn() -> Result<Cnn> {
    let model = cnn()?;
    model.eval();
    Ok(model)
}

pub(crate) fn cnn_loss(m: &dyn Module, step: usize, rank: usize) -> Result<Tensor> {
    let y = m.forward(&batch(step, rank, &[4, 2, 6, 6])?)?;
    F::cross_entropy(&y, &classes(step, rank + 50, &[4], 3)?)
}

/// A block of attention and two layers.
#[derive(Module)]
pub(crate) struct Block {
    norm: LayerNorm,
    pub(crate) qkv: Linear,
    pub(crate) out: Linear,
    up: Linear,
    down: Linear,
    hooks: Hooks,
}

pub(crate) const HEADS: usize = 2;
pub(crate) const WIDTH: usize = 8;

impl Module for Block {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let (b, t, c) = (x.size(0)?, x.size(1)?, x.size(2)?);
            let qkv = self.qkv.forward(&self.norm.forward(x)?)?;
            let head = |i: usize| -> Result<Tensor> {
                let part = qkv.narrow(2, i * c, c)?.reshape([b, t, HEADS, c / HEADS])?;
                part.transpose(1, 2)
            };
            let causal = ScaledDotProductAttentionOptions::new().is_causal(true);
            let y = F::scaled_dot_product_attention_with(&head(0)?, &head(1)?, &head(2)?, causal)?;
            let x = x.add(&self.out.forward(&y.transpose(1, 2)?.reshape([b, t, c])?)?)?;
            x.add(&self.down.forward(&self.up.forward(&x)?.gelu()?)?)
        })
    }
}

/// A model of blocks, with its embedding as its head.
#[derive(Module)]
pub(crate) struct Gpt {
    embedding: Embedding,
    pub(crate) blocks: Vec<std::sync::Arc<Block>>,
    norm: LayerNorm,
    hooks: Hooks,
    #[module(skip)]
    checkpointed: bool,
}

impl Module for Gpt {
    fn forward(&self, tokens: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, tokens, |tokens| {
            let mut x = self.embedding.forward(tokens)?;
            for block in &self.blocks {
                x = match self.checkpointed {
                    true => {
                        let (block, x) = (block.clone(), x);
                        checkpoint(move || block.forward(&x))?
                    }
                    false => block.forward(&x)?,
                };
            }
            self.norm.forward(&x)?.matmul(&self.embedding.weight.t()?)
        })
    }
}

pub(crate) fn gpt(checkpointed: bool) -> Result<Gpt> {
    let block = || -> Result<std::sync::Arc<Block>> {
        Ok(std::sync::Arc::new(Block {
            norm: LayerNorm::new(WIDTH)?,
            qkv: Linear::new(WIDTH, 3 * WIDTH),
            out: Linear::new(WIDTH, WIDTH),
            up: Linear::new(WIDTH, 2 * WIDTH),
            down: Linear::new(2 * WIDTH, WIDTH),
            hooks: Hooks::new(),
        }))
    };
    Ok(Gpt {
        embedding: Embedding::new(11, WIDTH)?,
        blocks: vec![block()?, block()?, block()?],
        norm: LayerNorm::new(WIDTH)?,
        hooks: Hooks::new(),
        checkpointed,
    })
}

pub(crate) fn gpt_loss(m: &dyn Module, step: usize, rank: usize) -> Result<Tensor> {
    let tokens = classes(step, rank, &[3, 6], 11)?;
    let y = m.forward(&tokens.narrow(1, 0, 5)?)?.reshape([-1, 11])?;
    F::cross_entropy(&y, &tokens.narrow(1, 1, 5)?.reshape([-1])?)
}

pub(crate) fn shared() -> TorshError {
    TorshError::invalid("models", "a block has other owners")
}

/// A unit for each block, and one for the rest.
pub(crate) fn shard_gpt(
    m: &mut Gpt,
    mesh: &DeviceMesh,
    options: &FullyShardOptions,
) -> Result<FullyShard> {
    for block in &mut m.blocks {
        let block = std::sync::Arc::get_mut(block).ok_or_else(shared)?;
        fully_shard(block, mesh, options.clone())?;
    }
    fully_shard(m, mesh, options.clone())
}
