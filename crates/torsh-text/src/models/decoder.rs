//! The decoder that Llama, Mistral, Mixtral, Qwen, Gemma and Phi-3 are, each with other parts.

use torsh_nn::{Embedding, Module};
use torsh_tensor::{Result, Tensor};

use super::decoder_layer::{DecoderLayer, LayerStep};
use super::decoder_spec::Spec;
use crate::blocks::{
    CacheKind, KvCache, LayerRun, Layers, RmsNorm, RopeType, RotaryEmbedding, init, tokens,
};
use crate::generation::DecoderStep;

/// The parts of a decoder: the tokens' vectors, the layers, and the norm behind them.
type Parts<'a> = (&'a Embedding, &'a Layers<DecoderLayer>, &'a RmsNorm);

/// What a decoder's parts do together.
pub(crate) struct Decoder {
    spec: Spec,
    /// Of layers that see all tokens, and of those with a window where it is another.
    rotary: Vec<RotaryEmbedding>,
}

impl Decoder {
    pub(crate) fn new(spec: Spec) -> Result<Decoder> {
        spec.check()?;
        let rope = std::iter::once(&spec.rope).chain(&spec.sliding_rope);
        let rotary =
            rope.map(|r| RotaryEmbedding::new(r.rotary_dim(spec.head_dim), spec.positions, r));
        Ok(Decoder {
            rotary: rotary.collect::<Result<_>>()?,
            spec,
        })
    }

    pub(crate) fn embedding(&self) -> Result<Embedding> {
        let s = &self.spec;
        // Negative numbers count from the end of the vocabulary.
        let pad = s
            .pad
            .map(|p| if p < 0 { p + s.vocabulary as i64 } else { p });
        init::embedding(s.vocabulary, s.width, pad, s.std)
    }

    pub(crate) fn layers(&self) -> Result<Layers<DecoderLayer>> {
        let layer = |_| DecoderLayer::new(&self.spec);
        self.spec.windows.iter().map(layer).collect()
    }

    pub(crate) fn norm(&self) -> Result<RmsNorm> {
        self.spec.norm(self.spec.width)
    }

    /// The positions up to which the frequencies of LongRoPE are those of short texts.
    fn short_positions(&self) -> Option<usize> {
        let rope = &self.spec.rope;
        let short = rope
            .original_max_position_embeddings
            .unwrap_or(self.spec.positions);
        (rope.rope_type == RopeType::LongRope).then_some(short)
    }

    /// The last layer's result, normalised.
    ///
    /// When a text outgrows the frequencies of short ones, the keys in the cache no longer fit. The text is then
    /// computed anew: one more layer of the cache keeps its ids.
    pub(crate) fn run(&self, parts: Parts<'_>, mut step: DecoderStep<'_>) -> Result<Tensor> {
        let (past, ids) = (step.past(), step.input_ids);
        let (Some(short), Some(cache)) = (self.short_positions(), step.cache.as_deref_mut()) else {
            return self.run_layers(parts, step);
        };
        let &[batch, tokens] = ids.dims() else {
            return self.run_layers(parts, step);
        };
        let last = self.spec.windows.len();
        let keep = |cache: &mut KvCache, ids: &Tensor| {
            let ids = ids.unsqueeze(1)?.unsqueeze(3)?;
            cache.update(last, &ids, &ids)
        };
        if past == 0 || past > short || past + tokens <= short {
            let step = DecoderStep {
                cache: Some(&mut *cache),
                ..step
            };
            let hidden = self.run_layers(parts, step)?;
            keep(cache, ids)?;
            return Ok(hidden);
        }
        let (all, _) = keep(cache, ids)?;
        let all = all.reshape([batch, past + tokens])?.copy()?;
        cache.crop(0)?;
        let step = DecoderStep {
            input_ids: &all,
            cache: Some(&mut *cache),
            ..step
        };
        let hidden = self.run_layers(parts, step)?;
        keep(cache, &all)?;
        hidden.narrow(1, past as i64, tokens as i64)
    }

    fn run_layers(
        &self,
        (embedding, layers, norm): Parts<'_>,
        step: DecoderStep<'_>,
    ) -> Result<Tensor> {
        let s = &self.spec;
        let positions = step.positions()?;
        let mut x = tokens::vectors(embedding, step.input_ids)?;
        if s.scaled_embedding {
            // A number of the model's dtype, which comes from float32.
            let root = f64::from((s.width as f64).sqrt() as f32);
            x = x.mul(&Tensor::full((), root, x.dtype(), x.device())?)?;
        }
        let tables = self.rotary.iter().map(|r| r.tables(&positions, x.dtype()));
        let tables = tables.collect::<Result<Vec<_>>>()?;
        let (windows, padding) = (s.windows.clone(), step.padding.cloned());
        let run = LayerRun::behind(step.cache);
        let x = layers.run_with(x, run, move |layer, at, x, cache| {
            let window = windows[at];
            let rope = usize::from(window.is_some()).min(tables.len() - 1);
            let step = LayerStep {
                layer: at,
                window,
                padding: padding.as_ref(),
                tables: &tables[rope],
                cache,
            };
            layer.run(x, step)
        })?;
        norm.forward(&x)
    }

    /// Logits with their cap, where there is one.
    pub(crate) fn capped(&self, logits: Tensor) -> Result<Tensor> {
        match self.spec.logit_softcap {
            Some(cap) => logits.div(cap)?.tanh()?.mul(cap),
            None => Ok(logits),
        }
    }

    /// The most tokens of a text. Dynamic frequencies are made for longer ones.
    pub(crate) fn max_positions(&self) -> Option<usize> {
        (self.spec.rope.rope_type != RopeType::Dynamic).then_some(self.spec.positions)
    }

    pub(crate) fn new_cache(&self, kind: CacheKind) -> KvCache {
        let ids = self.short_positions().map(|_| kind);
        let slides = ids.is_none() && !self.spec.bidirectional;
        let layers = self.spec.windows.iter().map(|window| match (kind, window) {
            (CacheKind::Growing, &Some(window)) if slides => CacheKind::Sliding { window },
            _ => kind,
        });
        KvCache::new(layers.chain(ids))
    }
}
