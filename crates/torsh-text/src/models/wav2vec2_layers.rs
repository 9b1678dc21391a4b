//! The layers of wav2vec 2.0.

use torsh_functional as F;
use torsh_nn::construct;
use torsh_nn::{Dropout, LayerNorm, Linear, Module, Parameter, Training, init as draw};
use torsh_tensor::{Result, Tensor};

use super::encoder_layers::Attention;
use super::wav2vec2_config::Wav2Vec2Config;
use crate::blocks::{Activation, AttentionMask, LayerRun, Layers, Padding, init, part};

/// A weight by its length and its direction: the first is `[1, 1, kernel]`, a length for each tap.
#[derive(Module)]
struct ByLength {
    original0: Parameter,
    original1: Parameter,
}

impl Module for ByLength {
    /// The weight that a convolution of `x` has.
    #[torsh_tensor::names_caller]
    fn forward(&self, _: &Tensor) -> Result<Tensor> {
        let lengths = self.original1.norm_dim([0, 1], true)?;
        self.original1.mul(self.original0.div(&lengths)?)
    }
}

#[derive(Module)]
struct Parametrizations {
    weight: ByLength,
}

impl Module for Parametrizations {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.weight.forward(x)
    }
}

/// A convolution whose weight is normalised (Salimans and Kingma, "Weight Normalization", 2016).
#[derive(Module)]
struct NormedConvolution {
    bias: Parameter,
    parametrizations: Parametrizations,
    #[module(skip)]
    groups: usize,
    #[module(skip)]
    kernel: usize,
}

impl Module for NormedConvolution {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let options = F::ConvOptions {
            groups: self.groups as i64,
            ..F::ConvOptions::new().padding(self.kernel as i64 / 2)
        };
        let weight = self.parametrizations.forward(x)?;
        let y = F::conv1d_with(x, &weight, self.bias.tensor(), options)?;
        // An even kernel gives one frame more.
        y.narrow(2, 0, x.size(2)?)
    }
}

part! {
    /// Positions, by a convolution with a wide kernel.
    PositionalConvEmbedding(c: &Wav2Vec2Config) first {
        let (width, kernel) = (c.hidden_size, c.num_conv_pos_embeddings);
        let groups = c.num_conv_pos_embedding_groups;
        let (dtype, device) = (construct::dtype(), construct::device());
        let weight = Tensor::empty([width, width / groups, kernel], dtype, device)?;
        draw::normal_(&weight, 0.0, 2.0 / ((kernel * width) as f64).sqrt())?;
        let lengths = weight.norm_dim([0, 1], true)?;
        let bias = Tensor::zeros([width], dtype, device)?;
    } {
        conv: NormedConvolution = NormedConvolution {
            bias: Parameter::with_requires_grad(bias, true)?,
            parametrizations: Parametrizations {
                weight: ByLength {
                    original0: Parameter::with_requires_grad(lengths, true)?,
                    original1: Parameter::with_requires_grad(weight, true)?,
                },
            },
            groups,
            kernel,
        };
        #[module(skip)] activation: Activation = c.feat_extract_activation;
    }
    forward |m, x| {
        let y = m.conv.forward(&x.transpose(1, 2)?)?;
        m.activation.apply(&y)?.transpose(1, 2)
    }
}

#[derive(Module)]
struct FeedForward {
    intermediate_dense: Linear,
    intermediate_dropout: Dropout,
    output_dense: Linear,
    output_dropout: Dropout,
    #[module(skip)]
    activation: Activation,
}

impl Module for FeedForward {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = self
            .activation
            .apply(&self.intermediate_dense.forward(x)?)?;
        let x = self.intermediate_dropout.forward(&x)?;
        self.output_dropout.forward(&self.output_dense.forward(&x)?)
    }
}

/// A small layer that adapts a model to a language.
#[derive(Module)]
struct AttentionAdapter {
    norm: LayerNorm,
    linear_1: Linear,
    linear_2: Linear,
}

impl Module for AttentionAdapter {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = self.linear_1.forward(&self.norm.forward(x)?)?;
        self.linear_2.forward(&F::relu(&x)?)
    }
}

part! {
    EncoderLayer(c: &Wav2Vec2Config) first {
        let (width, std) = (c.hidden_size, c.initializer_range);
        let adapts = c.adapter_attn_dim.filter(|_| c.do_stable_layer_norm);
        let adapter = adapts.map(|inner| -> Result<_> {
            Ok(AttentionAdapter {
                norm: LayerNorm::new(width)?,
                linear_1: init::linear(width, inner, true, std)?,
                linear_2: init::linear(inner, width, true, std)?,
            })
        });
        let heads = c.num_attention_heads;
    } {
        attention: Attention = Attention::new(width, heads, true, [std; 2], c.attention_dropout)?;
        dropout: Dropout = Dropout::new(c.hidden_dropout)?;
        layer_norm: LayerNorm = init::layer_norm(width, c.layer_norm_eps)?;
        feed_forward: FeedForward = FeedForward {
            intermediate_dense: init::linear(width, c.intermediate_size, true, std)?,
            intermediate_dropout: Dropout::new(c.activation_dropout)?,
            output_dense: init::linear(c.intermediate_size, width, true, std)?,
            output_dropout: Dropout::new(c.hidden_dropout)?,
            activation: c.hidden_act,
        };
        final_layer_norm: LayerNorm = init::layer_norm(width, c.layer_norm_eps)?;
        adapter_layer: Option<AttentionAdapter> = adapter.transpose()?;
        #[module(skip)] stable: bool = c.do_stable_layer_norm;
    }
    forward |m, x| m.run(x, &AttentionMask::full())
}

impl EncoderLayer {
    fn run(&self, x: &Tensor, mask: &AttentionMask) -> Result<Tensor> {
        let attention = |x: &Tensor| self.dropout.forward(&self.attention.run(x, mask, None)?);
        if !self.stable {
            let x = attention(x)?.add(x)?;
            let x = self.layer_norm.forward(&x)?;
            let x = self.feed_forward.forward(&x)?.add(&x)?;
            return self.final_layer_norm.forward(&x);
        }
        let x = attention(&self.layer_norm.forward(x)?)?.add(x)?;
        let y = self
            .feed_forward
            .forward(&self.final_layer_norm.forward(&x)?)?;
        let x = y.add(&x)?;
        match &self.adapter_layer {
            Some(adapter) => adapter.forward(&x)?.add(&x),
            None => Ok(x),
        }
    }
}

part! {
    /// The transformer over the frames.
    pub(super) Encoder(c: &Wav2Vec2Config) first {
        let layers = (0..c.num_hidden_layers).map(|_| EncoderLayer::new(c));
    } {
        pos_conv_embed: PositionalConvEmbedding = PositionalConvEmbedding::new(c)?;
        layer_norm: LayerNorm = init::layer_norm(c.hidden_size, c.layer_norm_eps)?;
        dropout: Dropout = Dropout::new(c.hidden_dropout)?;
        layers: Layers<EncoderLayer> = layers.collect::<Result<_>>()?;
        #[module(skip)] stable: bool = c.do_stable_layer_norm;
        #[module(skip)] layerdrop: f64 = c.layerdrop;
        training: Training = Training::default();
    }
    forward |m, x| m.run(x, None)
}

impl Encoder {
    /// Of frames `[batch, frames, width]`; those of padding become 0.
    pub(super) fn run(&self, x: &Tensor, padding: Option<&Padding>) -> Result<Tensor> {
        let mut x = x.clone();
        if let Some(padding) = padding {
            let frames = x.size(1)?;
            let rows = padding.ranges().iter();
            let rows: Vec<bool> = rows
                .flat_map(|r| (0..frames).map(|t| !r.contains(&t)))
                .collect();
            let hidden = Tensor::from_vec(rows, [x.size(0)?, frames, 1])?;
            x = x.masked_fill(&hidden.to_device(x.device())?, 0.0)?;
        }
        let mask = AttentionMask::full().padding(padding.cloned());
        x = self.pos_conv_embed.forward(&x)?.add(&x)?;
        if !self.stable {
            x = self.layer_norm.forward(&x)?;
        }
        x = self.dropout.forward(&x)?;
        let run = LayerRun::default().dropping(&self.training, self.layerdrop);
        x = self
            .layers
            .run_with(x, run, move |layer, _, x, _| layer.run(x, &mask))?;
        match self.stable {
            true => self.layer_norm.forward(&x),
            false => Ok(x),
        }
    }
}
