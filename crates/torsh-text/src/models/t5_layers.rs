//! The layers of T5.

use torsh_core::DType;
use torsh_functional as F;
use torsh_nn::construct;
use torsh_nn::{Dropout, Embedding, Hooks, Linear, Module, Parameter};
use torsh_tensor::{Result, Tensor};

use super::t5_config::T5Config;
use crate::blocks::cross::{ids_shape, no_encoder, tied_embedding};
use crate::blocks::relative::RelativeAttention;
use crate::blocks::{Activation, AttentionMask, KvCache, LayerRun, Layers, Padding, init, tokens};
use crate::generation::{DecoderStep, EncoderState};

/// The feed-forward layer: `wo(act(wi(x)))`, or `wo(act(wi_0(x)) * wi_1(x))`.
#[derive(Module)]
struct T5Dense {
    wi: Option<Linear>,
    wi_0: Option<Linear>,
    wi_1: Option<Linear>,
    wo: Linear,
    dropout: Dropout,
    #[module(skip)]
    activation: Activation,
}

impl T5Dense {
    fn new(c: &T5Config) -> Result<T5Dense> {
        let (activation, gated) = c.activation()?;
        let to = |wanted: bool| {
            let layer = || init::linear(c.d_model, c.d_ff, false, c.std(c.d_model));
            wanted.then(layer).transpose()
        };
        Ok(T5Dense {
            wi: to(!gated)?,
            wi_0: to(gated)?,
            wi_1: to(gated)?,
            wo: init::linear(c.d_ff, c.d_model, false, c.std(c.d_ff))?,
            dropout: Dropout::new(c.dropout_rate)?,
            activation,
        })
    }
}

impl Module for T5Dense {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let mut y = x.clone();
        if let Some(wi) = self.wi.as_ref().or(self.wi_0.as_ref()) {
            y = self.activation.apply(&wi.forward(x)?)?;
        }
        if let Some(gate) = &self.wi_1 {
            y = y.mul(gate.forward(x)?)?;
        }
        self.wo.forward(&self.dropout.forward(&y)?)
    }
}

/// Divides vectors by their root mean square and multiplies them by a weight. The mean square is float32 even of float64,
/// as in the library that the models come from.
#[derive(Module)]
pub struct T5LayerNorm {
    /// `[size]`
    pub weight: Parameter,
    #[module(skip)]
    eps: f64,
    hooks: Hooks,
}

impl T5LayerNorm {
    fn new(c: &T5Config) -> Result<T5LayerNorm> {
        let factor = c.initializer_factor;
        let weight = Tensor::full([c.d_model], factor, construct::dtype(), construct::device())?;
        Ok(T5LayerNorm {
            weight: Parameter::new(weight),
            eps: c.layer_norm_epsilon,
            hooks: Hooks::new(),
        })
    }
}

impl Module for T5LayerNorm {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let size = [self.weight.numel()];
            let options = F::RmsNormOptions::new().eps(self.eps);
            match x.dtype() {
                DType::F32 => F::rms_norm_with(x, size, options.weight(&self.weight)),
                DType::F64 => {
                    let square = x.to_dtype(DType::F32)?.square()?.mean_dim(-1, true)?;
                    let unit = x.mul(square.add(self.eps)?.rsqrt()?)?;
                    unit.mul(&self.weight)
                }
                _ => F::rms_norm_with(x, size, options)?.mul(&self.weight),
            }
        })
    }
}

/// A part of a block, with its norm ahead of it and a shortcut.
#[derive(Module)]
enum T5Part {
    Own {
        #[module(rename = "SelfAttention")]
        attention: RelativeAttention,
        layer_norm: T5LayerNorm,
        dropout: Dropout,
    },
    Cross {
        #[module(rename = "EncDecAttention")]
        attention: RelativeAttention,
        layer_norm: T5LayerNorm,
        dropout: Dropout,
    },
    Dense {
        #[module(rename = "DenseReluDense")]
        dense: T5Dense,
        layer_norm: T5LayerNorm,
        dropout: Dropout,
    },
}

impl T5Part {
    fn forward_with(
        &self,
        x: &Tensor,
        mask: &AttentionMask,
        encoder: Option<&EncoderState>,
        cache: Option<(&mut KvCache, usize)>,
    ) -> Result<Tensor> {
        let (T5Part::Own {
            layer_norm,
            dropout,
            ..
        }
        | T5Part::Cross {
            layer_norm,
            dropout,
            ..
        }
        | T5Part::Dense {
            layer_norm,
            dropout,
            ..
        }) = self;
        let y = layer_norm.forward(x)?;
        let y = match self {
            T5Part::Dense { dense, .. } => dense.forward(&y)?,
            T5Part::Own { attention, .. } => attention.forward_self(&y, mask, cache)?,
            T5Part::Cross { attention, .. } => {
                let encoder = encoder.ok_or_else(|| no_encoder("T5"))?;
                attention.forward_cross(&y, encoder, cache)?
            }
        };
        x.add(dropout.forward(&y)?)
    }
}

impl Module for T5Part {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.forward_with(x, &AttentionMask::full(), None, None)
    }
}

/// A layer of a stack: `layer.0` attends to the own sequence, in a decoder `layer.1` to the encoder's result; the last
/// one is the feed-forward layer.
#[derive(Module)]
struct T5Block {
    layer: Vec<T5Part>,
    hooks: Hooks,
}

impl T5Block {
    fn new(c: &T5Config, first: bool, decoder: bool) -> Result<T5Block> {
        let norm = || T5LayerNorm::new(c);
        let dropout = || Dropout::new(c.dropout_rate);
        let mut layer = vec![T5Part::Own {
            attention: c.attention(first, decoder)?,
            layer_norm: norm()?,
            dropout: dropout()?,
        }];
        if decoder {
            layer.push(T5Part::Cross {
                attention: c.attention(false, false)?,
                layer_norm: norm()?,
                dropout: dropout()?,
            });
        }
        layer.push(T5Part::Dense {
            dense: T5Dense::new(c)?,
            layer_norm: norm()?,
            dropout: dropout()?,
        });
        Ok(T5Block {
            layer,
            hooks: Hooks::new(),
        })
    }

    fn run(
        &self,
        x: &Tensor,
        mask: &AttentionMask,
        encoder: Option<&EncoderState>,
        mut cache: Option<(&mut KvCache, usize)>,
    ) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            self.layer.iter().try_fold(x.clone(), |x, part| {
                let cache = cache.as_mut().map(|(cache, at)| (&mut **cache, *at));
                part.forward_with(&x, mask, encoder, cache)
            })
        })
    }
}

impl Module for T5Block {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.run(x, &AttentionMask::full(), None, None)
    }
}

/// The encoder or the decoder of T5.
#[derive(Module)]
pub struct T5Stack {
    /// The tokens' vectors, those of `shared`.
    pub embed_tokens: Embedding,
    block: Layers<T5Block>,
    /// The norm behind the last block.
    pub final_layer_norm: T5LayerNorm,
    dropout: Dropout,
    #[module(skip)]
    decoder: bool,
    hooks: Hooks,
}

impl T5Stack {
    pub(super) fn new(c: &T5Config, shared: &Embedding, decoder: bool) -> Result<T5Stack> {
        let layers = if decoder {
            c.decoder_layers()
        } else {
            c.num_layers
        };
        let block = (0..layers).map(|i| T5Block::new(c, i == 0, decoder));
        Ok(T5Stack {
            embed_tokens: tied_embedding(shared, None)?,
            block: block.collect::<Result<_>>()?,
            final_layer_norm: T5LayerNorm::new(c)?,
            dropout: Dropout::new(c.dropout_rate)?,
            decoder,
            hooks: Hooks::new(),
        })
    }

    fn run(
        &self,
        ids: &Tensor,
        padding: Option<&Padding>,
        encoder: Option<&EncoderState>,
        cache: Option<&mut KvCache>,
    ) -> Result<Tensor> {
        let (_, count) = ids_shape("T5", ids)?;
        let past = cache.as_ref().map_or(0, |c| c.past(0));
        let bias = match self.block.first().map(|b| &b.layer[..]) {
            Some([T5Part::Own { attention, .. }, ..]) => attention.bias(past, count)?,
            _ => None,
        };
        let mask = match self.decoder {
            true => AttentionMask::causal(past),
            false => AttentionMask::full(),
        };
        let mask = mask.padding(padding.cloned()).bias(bias);
        let x = self
            .dropout
            .forward(&tokens::vectors(&self.embed_tokens, ids)?)?;
        let run = LayerRun::behind(cache);
        let encoder = encoder.cloned();
        let x = self.block.run_with(x, run, move |block, at, x, cache| {
            block.run(x, &mask, encoder.as_ref(), cache.map(|c| (c, at)))
        })?;
        self.dropout.forward(&self.final_layer_norm.forward(&x)?)
    }

    pub(super) fn encode(&self, ids: &Tensor, padding: Option<&Padding>) -> Result<EncoderState> {
        Ok(EncoderState {
            last_hidden_state: self.run(ids, padding, None, None)?,
            padding: padding.cloned(),
        })
    }

    pub(super) fn decode(&self, step: DecoderStep<'_>) -> Result<Tensor> {
        let encoder = step.encoder.ok_or_else(|| no_encoder("T5"))?;
        self.run(step.input_ids, step.padding, Some(encoder), step.cache)
    }
}

impl Module for T5Stack {
    #[torsh_tensor::names_caller]
    fn forward(&self, input_ids: &Tensor) -> Result<Tensor> {
        self.hooks
            .run(self, input_ids, |ids| self.run(ids, None, None, None))
    }
}
