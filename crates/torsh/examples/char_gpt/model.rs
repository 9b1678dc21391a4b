//! The network: a decoder of Transformer blocks over characters (A. Radford et al., "Language
//! models are unsupervised multitask learners", 2019), small.

use torsh::prelude::*;

/// The sizes of a network.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Different characters.
    pub symbols: usize,
    /// Characters that a prediction sees.
    pub context: usize,
    /// Numbers per character.
    pub width: usize,
    /// Attention heads.
    pub heads: usize,
    /// Blocks.
    pub layers: usize,
}

/// Attention of each character to those before it.
#[derive(Module)]
struct Attention {
    qkv: Linear,
    out: Linear,
    #[module(skip)]
    heads: usize,
}

impl Module for Attention {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (n, length, width) = (x.size(0)?, x.size(1)?, x.size(2)?);
        // [n, length, 3, heads, each] to three of [n, heads, length, each].
        let qkv = self.qkv.forward(x)?;
        let qkv = qkv.reshape([n, length, 3, self.heads, width / self.heads])?;
        let part = |i: usize| qkv.select(2, i)?.transpose(1, 2);
        let causal = F::ScaledDotProductAttentionOptions::default().is_causal(true);
        let y = F::scaled_dot_product_attention_with(&part(0)?, &part(1)?, &part(2)?, causal)?;
        self.out
            .forward(&y.transpose(1, 2)?.reshape([n, length, width])?)
    }
}

/// Attention and a network of two layers, each added to what comes in.
#[derive(Module)]
struct Block {
    norm1: LayerNorm,
    attention: Attention,
    norm2: LayerNorm,
    up: Linear,
    down: Linear,
}

impl Block {
    fn new(size: Size) -> Result<Block> {
        let w = size.width;
        Ok(Block {
            norm1: LayerNorm::new(w)?,
            attention: Attention {
                qkv: Linear::new(w, 3 * w),
                out: Linear::new(w, w),
                heads: size.heads,
            },
            norm2: LayerNorm::new(w)?,
            up: Linear::new(w, 4 * w),
            down: Linear::new(4 * w, w),
        })
    }
}

impl Module for Block {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = x.add(self.attention.forward(&self.norm1.forward(x)?)?)?;
        let inner = F::gelu(self.up.forward(&self.norm2.forward(&x)?)?)?;
        x.add(self.down.forward(&inner)?)
    }
}

/// Scores for the next character after each one.
#[derive(Module)]
pub struct Gpt {
    symbols: Embedding,
    places: Embedding,
    blocks: Vec<Block>,
    norm: LayerNorm,
    head: Linear,
    #[module(skip)]
    pub size: Size,
}

impl Gpt {
    /// A network with new weights, drawn from the default generator.
    pub fn new(size: Size) -> Result<Gpt> {
        Ok(Gpt {
            symbols: Embedding::new(size.symbols, size.width)?,
            places: Embedding::new(size.context, size.width)?,
            blocks: (0..size.layers)
                .map(|_| Block::new(size))
                .collect::<Result<_>>()?,
            norm: LayerNorm::new(size.width)?,
            head: Linear::new(size.width, size.symbols),
            size,
        })
    }

    /// The loss of predicting each character of `[n, length + 1]` from those before it.
    pub fn loss(&self, text: &Tensor) -> Result<Tensor> {
        let length = text.size(1)? - 1;
        let scores = self.forward(&text.narrow(1, 0, length)?)?;
        let next = text.narrow(1, 1, length)?.reshape([-1])?;
        F::cross_entropy(&scores.flatten_dims(0, 1)?, &next)
    }

    /// Goes on with a text, `count` characters long; a `temperature` below 1 makes likely ones
    /// likelier.
    pub fn write(&self, start: &[i64], count: usize, temperature: f64) -> Result<Vec<i64>> {
        self.eval();
        let mut text = start.to_vec();
        no_grad(|| {
            for _ in 0..count {
                let seen = &text[text.len().saturating_sub(self.size.context)..];
                let scores = self.forward(&Tensor::from_data(seen, [1, seen.len()])?)?;
                let last = scores.i((0, -1))?.div(temperature)?;
                let next = F::softmax(&last, -1)?.multinomial(1)?;
                text.push(next.item::<i64>()?);
            }
            Ok(text.split_off(start.len()))
        })
    }
}

impl Module for Gpt {
    /// Characters `[n, length]` in, scores of the one after each `[n, length, symbols]` out.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let places = Tensor::arange(0, x.size(1)? as i64, 1, DType::I64, Device::Cpu)?;
        let mut x = self
            .symbols
            .forward(x)?
            .add(self.places.forward(&places)?)?;
        for block in &self.blocks {
            x = block.forward(&x)?;
        }
        self.head.forward(&self.norm.forward(&x)?)
    }
}
