//! The layers of T5.

use torsh_core::DType;
use torsh_functional as F;
use torsh_nn::construct;
use torsh_nn::{Dropout, Embedding, Hooks, Linear, Module, Parameter};
use torsh_tensor::{Result, Tensor};

use super::t5_config::T5Config;
use crate::blocks::cross::{ids_shape, no_encoder, tied_embedding};
use crate::blocks::relative::RelativeAttention;
use crate::blocks::{
    Activation, AttentionMask, KvCache, LayerRun, Layers, Padding, init, part, tokens,
};
use crate::generation::{DecoderStep, EncoderState};

part! {
    /// The feed-forward layer: `wo(act(wi(x)))`, or `wo(act(wi_0(x)) * wi_1(x))`.
    T5Dense(c: &T5Config) first {
        let (activation, gated) = c.activation()?;
        let to = |wanted: bool| {
            let layer = || init::linear(c.d_model, c.d_ff, false, c.std(c.d_model));
            wanted.then(layer).transpose()
        };
    } {
        wi: Option<Linear> = to(!gated)?;
        wi_0: Option<Linear> = to(gated)?;
        wi_1: Option<Linear> = to(gated)?;
        wo: Linear = init::linear(c.d_ff, c.d_model, false, c.std(c.d_ff))?;
        dropout: Dropout = Dropout::new(c.dropout_rate)?;
        #[module(skip)] activation: Activation = activation;
    }
    forward |m, x| {
        let mut y = x.clone();
        if let Some(wi) = m.wi.as_ref().or(m.wi_0.as_ref()) {
            y = m.activation.apply(&wi.forward(x)?)?;
        }
        if let Some(gate) = &m.wi_1 {
            y = y.mul(gate.forward(x)?)?;
        }
        m.wo.forward(&m.dropout.forward(&y)?)
    }
}

part! {
    /// Divides vectors by their root mean square and multiplies them by a weight. The mean square is float32 even of float64,
    /// as in the library that the models come from.
    pub T5LayerNorm(c: &T5Config) first {
        let factor = c.initializer_factor;
        let weight = Tensor::full([c.d_model], factor, construct::dtype(), construct::device())?;
    } {
        /// `[size]`
        pub weight: Parameter = Parameter::new(weight);
        #[module(skip)] eps: f64 = c.layer_norm_epsilon;
        hooks: Hooks = Hooks::new();
    }
    hooked |m, x| {
        let size = [m.weight.numel()];
        let options = F::RmsNormOptions::new().eps(m.eps);
        match x.dtype() {
            DType::F32 => F::rms_norm_with(x, size, options.weight(&m.weight)),
            DType::F64 => {
                let square = x.to_dtype(DType::F32)?.square()?.mean_dim(-1, true)?;
                let unit = x.mul(square.add(m.eps)?.rsqrt()?)?;
                unit.mul(&m.weight)
            }
            _ => F::rms_norm_with(x, size, options)?.mul(&m.weight),
        }
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

part! {
    /// A layer of a stack: `layer.0` attends to the own sequence, in a decoder `layer.1` to the encoder's result; the last
    /// one is the feed-forward layer.
    T5Block(c: &T5Config, first: bool, decoder: bool) first {
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
    } {
        layer: Vec<T5Part> = layer;
        hooks: Hooks = Hooks::new();
    }
    forward |m, x| m.run(x, &AttentionMask::full(), None, None)
}

impl T5Block {
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

part! {
    /// The encoder or the decoder of T5.
    pub T5Stack(c: &T5Config, shared: &Embedding, decoder: bool) first {
        let layers = if decoder {
            c.decoder_layers()
        } else {
            c.num_layers
        };
        let block = (0..layers).map(|i| T5Block::new(c, i == 0, decoder));
    } {
        /// The tokens' vectors, those of `shared`.
        pub embed_tokens: Embedding = tied_embedding(shared, None)?;
        block: Layers<T5Block> = block.collect::<Result<_>>()?;
        /// The norm behind the last block.
        pub final_layer_norm: T5LayerNorm = T5LayerNorm::new(c)?;
        dropout: Dropout = Dropout::new(c.dropout_rate)?;
        #[module(skip)] decoder: bool = decoder;
        hooks: Hooks = Hooks::new();
    }
    hooked |m, ids| m.run(ids, None, None, None)
}

impl T5Stack {
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
