//! The layers of encoder-decoders: attention within a sequence and to an encoder's result, and a feed-forward part.

use torsh_functional as F;
use torsh_nn::{Embedding, Hooks, LayerNorm, Linear, Module, ModuleFields, Training};
use torsh_tensor::{Result, Tensor, TorshError};

use super::init;
use super::{
    Activation, AttentionMask, AttentionSteps, KvCache, LayerRun, Layers, attend_with, join_heads,
    part, split_heads,
};
use crate::generation::EncoderState;

/// The sizes and probabilities of an encoder-decoder's layers.
#[derive(Clone, Debug)]
pub(crate) struct LayerOptions {
    /// The family, for errors.
    pub(crate) family: &'static str,
    /// Channels of a token.
    pub(crate) width: usize,
    /// Heads of each attention.
    pub(crate) heads: usize,
    /// Channels inside the feed-forward part.
    pub(crate) ffn: usize,
    /// Whether the projection to keys has a bias.
    pub(crate) key_bias: bool,
    /// Whether the norms lie ahead of what they belong to (Whisper), or behind the shortcut (BART).
    pub(crate) pre_norm: bool,
    /// Whether the layer attends to an encoder's result.
    pub(crate) cross: bool,
    /// The activation inside the feed-forward part.
    pub(crate) activation: Activation,
    /// Dropout of what a part adds.
    pub(crate) dropout: f64,
    /// Dropout of the attention's weights.
    pub(crate) attention_dropout: f64,
    /// Dropout behind the activation.
    pub(crate) activation_dropout: f64,
    /// The deviation of new weights.
    pub(crate) std: f64,
}

part! {
    /// Attention with the projections `k_proj`, `v_proj`, `q_proj` and `out_proj`: of a sequence to itself, or to an
    /// encoder's result.
    pub SeqToSeqAttention(o: &LayerOptions) first {
        if o.heads == 0 || !o.width.is_multiple_of(o.heads) {
            return Err(TorshError::invalid(
                o.family,
                format!(
                    "d_model = {} is not divisible by {} attention heads",
                    o.width, o.heads
                ),
            ));
        }
        let linear = |bias| init::linear(o.width, o.width, bias, o.std);
    } {
        /// Of what is attended to, to keys.
        pub k_proj: Linear = linear(o.key_bias)?;
        /// Of what is attended to, to values.
        pub v_proj: Linear = linear(true)?;
        /// To queries.
        pub q_proj: Linear = linear(true)?;
        /// Of the joined heads.
        pub out_proj: Linear = linear(true)?;
        #[module(skip)] heads: usize = o.heads;
        #[module(skip)] dropout: f64 = o.attention_dropout;
        training: Training = Training::default();
        hooks: Hooks = Hooks::new();
    }
    hooked |m, x| m.forward_self(x, &AttentionMask::full(), None)
}

impl SeqToSeqAttention {
    fn keys_and_values(&self, x: &Tensor) -> Result<(Tensor, Tensor)> {
        Ok((
            split_heads(&self.k_proj.forward(x)?, self.heads)?,
            split_heads(&self.v_proj.forward(x)?, self.heads)?,
        ))
    }

    fn attended(
        &self,
        x: &Tensor,
        (key, value): (Tensor, Tensor),
        mask: &AttentionMask,
    ) -> Result<Tensor> {
        let query = split_heads(&self.q_proj.forward(x)?, self.heads)?;
        let training = self.training.get();
        let steps = AttentionSteps {
            dropout: if training { self.dropout } else { 0.0 },
            ..AttentionSteps::default()
        };
        let out = attend_with([&query, &key, &value], mask, steps)?;
        self.out_proj.forward(&join_heads(&out)?)
    }

    /// Attention of a sequence `[batch, length, width]` to itself, and to the tokens of the cache's layer ahead of it.
    ///
    /// # Errors
    /// A sequence of another width, and a cache of another model.
    #[torsh_tensor::names_caller]
    pub fn forward_self(
        &self,
        x: &Tensor,
        mask: &AttentionMask,
        cache: Option<(&mut KvCache, usize)>,
    ) -> Result<Tensor> {
        let (mut key, mut value) = self.keys_and_values(x)?;
        if let Some((cache, layer)) = cache {
            (key, value) = cache.update(layer, &key, &value)?;
        }
        self.attended(x, (key, value), mask)
    }

    /// Attention of a sequence `[batch, length, width]` to an encoder's result, whose keys and values are computed once
    /// and kept in the cache's layer.
    ///
    /// # Errors
    /// As [`SeqToSeqAttention::forward_self`], and a result of another batch.
    #[torsh_tensor::names_caller]
    pub fn forward_cross(
        &self,
        x: &Tensor,
        encoder: &EncoderState,
        cache: Option<(&mut KvCache, usize)>,
    ) -> Result<Tensor> {
        let new = || self.keys_and_values(&encoder.last_hidden_state);
        let kv = cross_keys_and_values(self.type_name(), x, cache, new)?;
        let mask = AttentionMask::full().padding(encoder.padding.clone());
        self.attended(x, kv, &mask)
    }
}

part! {
    /// A layer of BART or Whisper: attention to the own sequence, in a decoder to the encoder's result too, and a
    /// feed-forward part.
    pub SeqToSeqLayer(o: &LayerOptions) first {
        for (name, p) in [
            ("dropout", o.dropout),
            ("attention_dropout", o.attention_dropout),
            ("activation_dropout", o.activation_dropout),
        ] {
            if !(0.0..=1.0).contains(&p) {
                let why = format!("{name} = {p} is no probability from 0 to 1");
                return Err(TorshError::invalid(o.family, why));
            }
        }
        let norm = || init::layer_norm(o.width, 1e-5);
        let cross = |wanted: bool| wanted.then(|| SeqToSeqAttention::new(o)).transpose();
    } {
        /// Attention to the own sequence.
        pub self_attn: SeqToSeqAttention = SeqToSeqAttention::new(o)?;
        /// Its norm.
        pub self_attn_layer_norm: LayerNorm = norm()?;
        /// Attention to the encoder's result, in a decoder.
        pub encoder_attn: Option<SeqToSeqAttention> = cross(o.cross)?;
        /// Its norm.
        pub encoder_attn_layer_norm: Option<LayerNorm> = o.cross.then(norm).transpose()?;
        /// The feed-forward part's first projection.
        pub fc1: Linear = init::linear(o.width, o.ffn, true, o.std)?;
        /// Its second one.
        pub fc2: Linear = init::linear(o.ffn, o.width, true, o.std)?;
        /// The feed-forward part's norm.
        pub final_layer_norm: LayerNorm = norm()?;
        #[module(skip)] options: LayerOptions = o.clone();
        training: Training = Training::default();
        hooks: Hooks = Hooks::new();
    }
    hooked |m, x| m.forward_with(x, &AttentionMask::full(), None, None)
}

impl SeqToSeqLayer {
    /// The layers of an encoder or a decoder.
    pub(crate) fn stack(o: &LayerOptions, count: usize) -> Result<Layers<SeqToSeqLayer>> {
        (0..count).map(|_| SeqToSeqLayer::new(o)).collect()
    }

    /// Runs the layers of an encoder or a decoder.
    #[track_caller]
    pub(crate) fn run_stack(
        layers: &Layers<SeqToSeqLayer>,
        x: Tensor,
        mask: AttentionMask,
        encoder: Option<&EncoderState>,
        run: LayerRun<'_>,
    ) -> Result<Tensor> {
        let encoder = encoder.cloned();
        layers.run_with(x, run, move |layer, at, x, cache| {
            layer.forward_with(x, &mask, encoder.as_ref(), cache.map(|c| (c, at)))
        })
    }

    /// `x` and what `part` makes of it, with the norm ahead of the part or behind the sum.
    fn part(
        &self,
        x: &Tensor,
        norm: &LayerNorm,
        part: impl FnOnce(&Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let y = match self.options.pre_norm {
            true => part(&norm.forward(x)?)?,
            false => part(x)?,
        };
        let y = F::dropout(&y, self.options.dropout, self.training.get())?;
        let y = x.add(y)?;
        match self.options.pre_norm {
            true => Ok(y),
            false => norm.forward(&y),
        }
    }

    /// The layer of a sequence `[batch, length, width]`. `mask` is that of the own sequence.
    ///
    /// # Errors
    /// As [`SeqToSeqAttention::forward_cross`].
    #[torsh_tensor::names_caller]
    pub fn forward_with(
        &self,
        x: &Tensor,
        mask: &AttentionMask,
        encoder: Option<&EncoderState>,
        mut cache: Option<(&mut KvCache, usize)>,
    ) -> Result<Tensor> {
        let own = cache.as_mut().map(|(cache, layer)| (&mut **cache, *layer));
        let mut x = self.part(x, &self.self_attn_layer_norm, |x| {
            self.self_attn.forward_self(x, mask, own)
        })?;
        if let (Some(attention), Some(norm)) = (&self.encoder_attn, &self.encoder_attn_layer_norm) {
            let Some(encoder) = encoder else {
                return Err(no_encoder(self.options.family));
            };
            x = self.part(&x, norm, |x| attention.forward_cross(x, encoder, cache))?;
        }
        self.part(&x, &self.final_layer_norm, |x| {
            let y = self.options.activation.apply(&self.fc1.forward(x)?)?;
            let y = F::dropout(&y, self.options.activation_dropout, self.training.get())?;
            self.fc2.forward(&y)
        })
    }
}

/// The keys and values of an encoder's result for queries of `x`: those that the cache's layer keeps, or `new` ones,
/// which it keeps from now on.
///
/// # Errors
/// A result of another batch.
pub(crate) fn cross_keys_and_values(
    layer_name: &'static str,
    x: &Tensor,
    cache: Option<(&mut KvCache, usize)>,
    new: impl FnOnce() -> Result<(Tensor, Tensor)>,
) -> Result<(Tensor, Tensor)> {
    let kept = match &cache {
        Some((cache, layer)) => cache.cross(*layer),
        None => None,
    };
    let (key, value) = match (kept, cache) {
        (Some(kept), _) => kept,
        (None, None) => new()?,
        (None, Some((cache, layer))) => {
            let (key, value) = new()?;
            // The tokens of a head lie together, as each later step reads them.
            let (key, value) = (key.contiguous()?, value.contiguous()?);
            cache.set_cross(layer, key.clone(), value.clone())?;
            (key, value)
        }
    };
    let (sequences, encoded) = (x.dims()[0], key.dims()[0]);
    if sequences != encoded {
        let why =
            format!("{sequences} sequences attend to an encoder's result of {encoded} sequences");
        return Err(TorshError::shape(layer_name, why));
    }
    Ok((key, value))
}

/// What a decoder says that is given nothing to attend to.
pub(crate) fn no_encoder(family: &'static str) -> TorshError {
    TorshError::invalid(family, "the decoder needs the encoder's result")
        .with_hint("give DecoderStep::encoder what encode() returned")
}

/// The two sizes of ids `[batch, length]`.
pub(crate) fn ids_shape(name: &'static str, ids: &Tensor) -> Result<(usize, usize)> {
    match ids.dims() {
        &[batch, length] if length > 0 => Ok((batch, length)),
        _ => Err(TorshError::shape(
            name,
            format!(
                "expected [batch, length] with a length above 0, got {}",
                ids.shape()
            ),
        )),
    }
}

/// An embedding that shares the weights of another.
pub(crate) fn tied_embedding(of: &Embedding, padding: Option<i64>) -> Result<Embedding> {
    let &[count, size] = of.weight.dims() else {
        return Err(TorshError::shape("Embedding", "expected [count, size]"));
    };
    let builder = Embedding::builder(count, size).weight(of.weight.tensor());
    let mut layer = builder.padding_idx(padding).build()?;
    layer.weight = of.weight.clone();
    Ok(layer)
}
