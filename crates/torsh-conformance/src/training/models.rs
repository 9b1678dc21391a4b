//! The models of the training runs, layer for layer as their `forward` source has them.

use torsh_functional as F;
use torsh_nn::{
    AvgPool2d, BatchNorm2d, Conv2d, Embedding, Flatten, GRU, LSTM, LayerNorm, Linear, MaxPool2d,
    Module, ReLU, Sequential, Tanh,
};
use torsh_tensor::{DType, Device, Result, Tensor};

/// The model of that name with its own draws; `None` where a layer of it does not exist.
pub(super) fn build(name: &str) -> Result<Option<Box<dyn Module>>> {
    Ok(Some(match name {
        "mlp" => Box::new(
            Sequential::new()
                .add(Linear::new(10, 32))
                .add(Tanh::new())
                .add(Linear::new(32, 32))
                .add(ReLU::new())
                .add(Linear::new(32, 4)),
        ),
        "cnn" => Box::new(
            Sequential::new()
                .add(Conv2d::new(1, 4, 3, 1, 1)?)
                .add(ReLU::new())
                .add(MaxPool2d::new(2)?)
                .add(Conv2d::new(4, 8, 3, 1, 1)?)
                .add(ReLU::new())
                .add(AvgPool2d::new(2)?)
                .add(Flatten::new())
                .add(Linear::new(8 * 9, 5)),
        ),
        "resnet" => Box::new(Res::new()?),
        "lstm" => Box::new(Rnn {
            rnn: LSTM::builder(6, 12)
                .num_layers(2)
                .batch_first(true)
                .bidirectional(true)
                .build()?,
            fc: Linear::new(24, 4),
        }),
        "gru" => Box::new(Rnn {
            rnn: GRU::builder(6, 12)
                .num_layers(2)
                .batch_first(true)
                .bidirectional(true)
                .build()?,
            fc: Linear::new(24, 4),
        }),
        "gpt" => Box::new(Gpt::new()?),
        _ => return Ok(None),
    }))
}

#[derive(Module)]
struct Res {
    conv1: Conv2d,
    bn1: BatchNorm2d,
    conv2: Conv2d,
    bn2: BatchNorm2d,
    down: Conv2d,
    fc: Linear,
}

impl Res {
    fn new() -> Result<Res> {
        let conv = |i, o, size: i64, stride: i64, padding: i64| {
            let conv = Conv2d::builder(i, o, size).stride(stride).padding(padding);
            conv.bias(false).build()
        };
        Ok(Res {
            conv1: conv(3, 8, 3, 1, 1)?,
            bn1: BatchNorm2d::new(8)?,
            conv2: conv(8, 16, 3, 2, 1)?,
            bn2: BatchNorm2d::new(16)?,
            down: conv(8, 16, 1, 2, 0)?,
            fc: Linear::new(16, 5),
        })
    }
}

impl Module for Res {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = self.bn1.forward(&self.conv1.forward(x)?)?.relu()?;
        let y = self.bn2.forward(&self.conv2.forward(&x)?)?;
        let y = y.add(&self.down.forward(&x)?)?.relu()?;
        self.fc.forward(&F::adaptive_avg_pool2d(&y, 1)?.flatten(1)?)
    }
}

/// The last output of a recurrent layer, classified.
#[derive(Module)]
struct Rnn<R: Module> {
    rnn: R,
    fc: Linear,
}

impl<R: Module> Module for Rnn<R> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.fc.forward(&self.rnn.forward(x)?.select(1, -1)?)
    }
}

#[derive(Module)]
struct Block {
    ln1: LayerNorm,
    ln2: LayerNorm,
    qkv: Linear,
    proj: Linear,
    fc1: Linear,
    fc2: Linear,
    #[module(skip)]
    heads: i64,
}

impl Block {
    fn new(size: usize, heads: i64) -> Result<Block> {
        Ok(Block {
            ln1: LayerNorm::new([size])?,
            ln2: LayerNorm::new([size])?,
            qkv: Linear::new(size, 3 * size),
            proj: Linear::new(size, size),
            fc1: Linear::new(size, 4 * size),
            fc2: Linear::new(4 * size, size),
            heads,
        })
    }
}

impl Module for Block {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let [batch, time, size] = [0, 1, 2].map(|i| x.dims()[i] as i64);
        let qkv = self.qkv.forward(&self.ln1.forward(x)?)?;
        let qkv = qkv
            .view([batch, time, 3, self.heads, size / self.heads])?
            .permute([2, 0, 3, 1, 4])?;
        let attended = F::scaled_dot_product_attention_with(
            &qkv.select(0, 0)?,
            &qkv.select(0, 1)?,
            &qkv.select(0, 2)?,
            torsh_tensor::ScaledDotProductAttentionOptions::new().is_causal(true),
        )?;
        let attended = attended.transpose(1, 2)?.reshape([batch, time, size])?;
        let x = x.add(&self.proj.forward(&attended)?)?;
        let hidden = self.fc1.forward(&self.ln2.forward(&x)?)?.gelu()?;
        x.add(&self.fc2.forward(&hidden)?)
    }
}

#[derive(Module)]
struct Gpt {
    tok: Embedding,
    pos: Embedding,
    blocks: Vec<Block>,
    ln: LayerNorm,
    head: Linear,
}

impl Gpt {
    fn new() -> Result<Gpt> {
        let (words, size, time) = (29, 32, 16);
        Ok(Gpt {
            tok: Embedding::new(words, size)?,
            pos: Embedding::new(time, size)?,
            blocks: vec![Block::new(size, 4)?, Block::new(size, 4)?],
            ln: LayerNorm::new([size])?,
            head: Linear::new(size, words),
        })
    }
}

impl Module for Gpt {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let time = x.dims()[1] as i64;
        let places = Tensor::arange(0, time, 1, DType::I64, Device::Cpu)?;
        let mut x = self.tok.forward(x)?.add(&self.pos.forward(&places)?)?;
        for block in &self.blocks {
            x = block.forward(&x)?;
        }
        F::flatten_with(
            &self.head.forward(&self.ln.forward(&x)?)?,
            F::FlattenOptions::new().end_dim(1),
        )
    }
}
