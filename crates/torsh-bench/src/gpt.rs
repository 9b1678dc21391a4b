//! The GPT of the training workloads.

use torsh_nn::functional as F;
use torsh_nn::{Embedding, Hooks, LayerNorm, Linear, Module};
use torsh_tensor::{DType, Device, Result, Tensor};

/// Attention and a network of two layers, each added to what comes in.
#[derive(Module)]
pub struct Block {
    norm1: LayerNorm,
    norm2: LayerNorm,
    qkv: Linear,
    out: Linear,
    up: Linear,
    down: Linear,
    #[module(skip)]
    heads: usize,
    hooks: Hooks,
}

impl Module for Block {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let (n, length, width) = (x.size(0)?, x.size(1)?, x.size(2)?);
            let qkv = self.qkv.forward(&self.norm1.forward(x)?)?;
            let qkv = qkv
                .view([n, length, 3, self.heads, width / self.heads])?
                .permute([2, 0, 3, 1, 4])?;
            let part = |i: usize| qkv.select(0, i);
            let causal = F::ScaledDotProductAttentionOptions::new().is_causal(true);
            let y = F::scaled_dot_product_attention_with(&part(0)?, &part(1)?, &part(2)?, causal)?;
            let y = y.transpose(1, 2)?.reshape([n, length, width])?;
            let x = x.add(self.out.forward(&y)?)?;
            let inner = F::gelu(self.up.forward(&self.norm2.forward(&x)?)?)?;
            x.add(self.down.forward(&inner)?)
        })
    }
}

/// A small GPT.
#[derive(Module)]
pub struct Gpt {
    symbols: Embedding,
    places: Embedding,
    /// The blocks, which a program may shard one by one.
    pub blocks: Vec<Block>,
    norm: LayerNorm,
    head: Linear,
    hooks: Hooks,
}

impl Gpt {
    /// A model with drawn weights; `bias` of the head.
    pub fn new(
        symbols: usize,
        width: usize,
        layers: usize,
        heads: usize,
        length: usize,
        bias: bool,
    ) -> Result<Gpt> {
        let block = |_| {
            Ok(Block {
                norm1: LayerNorm::new(width)?,
                norm2: LayerNorm::new(width)?,
                qkv: Linear::new(width, 3 * width),
                out: Linear::new(width, width),
                up: Linear::new(width, 4 * width),
                down: Linear::new(4 * width, width),
                heads,
                hooks: Hooks::new(),
            })
        };
        Ok(Gpt {
            symbols: Embedding::new(symbols, width)?,
            places: Embedding::new(length, width)?,
            blocks: (0..layers).map(block).collect::<Result<_>>()?,
            norm: LayerNorm::new(width)?,
            head: Linear::builder(width, symbols).bias(bias).build()?,
            hooks: Hooks::new(),
        })
    }
}

impl Module for Gpt {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let places = Tensor::arange(0, x.size(1)? as i64, 1, DType::I64, Device::Cpu)?;
            let places = self.places.forward(&places)?;
            let mut x = self.symbols.forward(x)?.add(places)?;
            for block in &self.blocks {
                x = block.forward(&x)?;
            }
            let scores = self.head.forward(&self.norm.forward(&x)?)?;
            scores.flatten_dims(0, 1)
        })
    }
}
