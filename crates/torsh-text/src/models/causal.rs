//! What the decoders of this crate share around their layers.

use torsh_nn::construct::Construction;
use torsh_nn::{Embedding, Linear};
use torsh_tensor::{Result, Tensor, TorshError};

use super::text_model::ModelInputs;
use crate::blocks::{Padding, init};
use crate::generation::{DecoderStep, Logits};

/// An error where the heads do not divide the width.
pub(super) fn check_heads(
    config: &'static str,
    (width_name, width): (&str, usize),
    (heads_name, heads): (&str, usize),
) -> Result<()> {
    if heads > 0 && width > 0 && width.is_multiple_of(heads) {
        return Ok(());
    }
    let why = format!("{width_name} = {width} is not divisible by {heads_name} = {heads}");
    Err(TorshError::invalid(config, why))
}

/// [`check_heads`] of two fields of a configuration.
macro_rules! heads_divide {
    ($config:literal, $c:ident, $width:ident, $heads:ident) => {
        $crate::models::causal::check_heads(
            $config,
            (stringify!($width), $c.$width),
            (stringify!($heads), $c.$heads),
        )
    };
}
pub(super) use heads_divide;

/// An error where a step has more tokens than the model has positions.
pub(super) fn check_positions(
    model: &'static str,
    step: &DecoderStep<'_>,
    positions: usize,
) -> Result<()> {
    let tokens = step.past() + step.input_ids.dims().get(1).copied().unwrap_or(0);
    if tokens <= positions {
        return Ok(());
    }
    let why = format!("{tokens} tokens for a model of {positions} positions");
    Err(TorshError::invalid(model, why).with_hint("give it a shorter text, or the end of this one"))
}

/// The padding that a mask describes, where there is one.
pub(super) fn padding_of(inputs: &ModelInputs) -> Result<Option<Padding>> {
    match &inputs.attention_mask {
        Some(mask) => Padding::from_attention_mask(mask),
        None => Ok(None),
    }
}

/// All tokens of a text, as one step.
pub(super) fn whole_step<'a>(
    input_ids: &'a Tensor,
    padding: Option<&'a Padding>,
) -> DecoderStep<'a> {
    DecoderStep {
        padding,
        logits: Logits::All,
        ..DecoderStep::new(input_ids)
    }
}

/// The positions of which logits are wanted.
pub(super) fn of_logits(hidden: &Tensor, logits: Logits) -> Result<Tensor> {
    match (logits, hidden.dims()) {
        (Logits::Last, &[_, tokens, _]) if tokens > 1 => hidden.narrow(1, tokens - 1, 1),
        _ => Ok(hidden.clone()),
    }
}

/// A head without bias, with the weight of an embedding where the two are tied.
pub(super) fn head(embedding: &Embedding, tied: bool, std: f64) -> Result<Linear> {
    let &[vocabulary, width] = embedding.weight.dims() else {
        return Err(TorshError::invalid("head", "the embedding is no matrix"));
    };
    if !tied {
        return init::linear(width, vocabulary, false, std);
    }
    let make = || Linear::builder(1, 1).bias(false).build();
    let mut head = Construction::new().draw_nothing().run(make)?;
    head.weight = embedding.weight.clone();
    Ok(head)
}

/// The rows `[batch, width]` of `hidden` `[batch, tokens, width]` at a token of each sequence.
pub(super) fn rows_at(hidden: &Tensor, tokens: &[usize]) -> Result<Tensor> {
    let &[batch, length, width] = hidden.dims() else {
        return Err(TorshError::shape(
            "pooling",
            format!("expected [batch, tokens, width], got {}", hidden.shape()),
        ));
    };
    let rows = tokens.iter().enumerate();
    let rows: Vec<i64> = rows.map(|(b, &t)| (b * length + t) as i64).collect();
    let rows = Tensor::from_vec(rows, [batch])?.to_device(hidden.device())?;
    hidden
        .reshape([batch * length, width])?
        .index_select(0, &rows)
}

/// The last token of each sequence that is not `pad`.
pub(super) fn last_tokens(
    model: &'static str,
    input_ids: &Tensor,
    pad: Option<i64>,
) -> Result<Vec<usize>> {
    let &[batch, length] = input_ids.dims() else {
        return Err(TorshError::shape(
            model,
            format!(
                "expected input_ids [batch, tokens], got {}",
                input_ids.shape()
            ),
        ));
    };
    let Some(pad) = pad else {
        if batch == 1 {
            return Ok(vec![length.saturating_sub(1)]);
        }
        let why = format!("a batch of {batch} texts, and the configuration has no pad_token_id");
        return Err(TorshError::invalid(model, why)
            .with_hint("set pad_token_id, so that the last token of each text can be told"));
    };
    let rows = input_ids.to_vec2::<i64>()?;
    let last = |row: &Vec<i64>| row.iter().rposition(|&id| id != pad).unwrap_or(0);
    Ok(rows.iter().map(last).collect())
}

/// Implements [`Module`](torsh_nn::Module) and [`TextModel`](super::TextModel) for a decoder without head, which has
/// an inherent `forward_with(DecoderStep) -> Result<Tensor>`.
macro_rules! decoder {
    ($model:ident) => {
        impl torsh_nn::Module for $model {
            /// The last layer's result `[batch, tokens, width]` of token ids `[batch, tokens]`.
            #[torsh_tensor::names_caller]
            fn forward(
                &self,
                input_ids: &torsh_tensor::Tensor,
            ) -> torsh_tensor::Result<torsh_tensor::Tensor> {
                self.hooks.run(self, input_ids, |ids| {
                    self.forward_with($crate::generation::DecoderStep::new(ids))
                })
            }
        }

        impl $crate::models::TextModel for $model {
            #[torsh_tensor::names_caller]
            fn forward_named(
                &self,
                inputs: &$crate::models::ModelInputs,
            ) -> torsh_tensor::Result<$crate::models::ModelOutputs> {
                let padding = $crate::models::causal::padding_of(inputs)?;
                let ids = inputs.input_ids()?;
                let step = $crate::models::causal::whole_step(ids, padding.as_ref());
                Ok(vec![("last_hidden_state", self.forward_with(step)?)])
            }
        }
    };
}
pub(super) use decoder;

/// Implements [`Module`](torsh_nn::Module), [`TextModel`](super::TextModel) and
/// [`GenerationModel`](crate::generation::GenerationModel) for a model of the fields `$base`, `lm_head`, `config` and
/// `hooks`, by the most tokens of a text, the cache of a kind, and the logits of the hidden states that are wanted.
macro_rules! causal_lm {
    ($model:ident of $base:ident, layers $layers:ident, positions $positions:expr $(, logits $dtype:expr)?) => {
        $crate::models::causal::causal_lm! {
            $model of $base,
            positions $positions,
            cache |m, kind| $crate::blocks::KvCache::new(std::iter::repeat_n(kind, m.config.$layers)),
            logits |m, last| {
                let last = last.to_dtype(m.lm_head.weight.dtype())?;
                let logits = torsh_nn::Module::forward(&m.lm_head, &last)?;
                $(let logits = logits.to_dtype($dtype)?;)?
                Ok(logits)
            }
        }
    };
    (
        $model:ident of $base:ident,
        positions $positions:expr,
        cache |$cached:ident, $kind:ident| $cache:expr,
        logits |$m:ident, $last:ident| $logits:expr
    ) => {
        impl torsh_nn::Module for $model {
            /// The logits `[batch, tokens, vocabulary]` of token ids `[batch, tokens]`.
            #[torsh_tensor::names_caller]
            fn forward(
                &self,
                input_ids: &torsh_tensor::Tensor,
            ) -> torsh_tensor::Result<torsh_tensor::Tensor> {
                use $crate::generation::GenerationModel as _;
                self.hooks.run(self, input_ids, |ids| {
                    let step = $crate::models::causal::whole_step(ids, None);
                    Ok(self.decode(step)?.logits)
                })
            }
        }

        impl $crate::models::TextModel for $model {
            #[torsh_tensor::names_caller]
            fn forward_named(
                &self,
                inputs: &$crate::models::ModelInputs,
            ) -> torsh_tensor::Result<$crate::models::ModelOutputs> {
                use $crate::generation::GenerationModel as _;
                let padding = $crate::models::causal::padding_of(inputs)?;
                let ids = inputs.input_ids()?;
                let step = $crate::models::causal::whole_step(ids, padding.as_ref());
                Ok(vec![("logits", self.decode(step)?.logits)])
            }

            fn as_generation(&self) -> Option<&dyn $crate::generation::GenerationModel> {
                Some(self)
            }
        }

        impl $crate::generation::GenerationModel for $model {
            fn vocab_size(&self) -> usize {
                // An adapter may have brought more tokens than the configuration has; a sharded weight has a part of the rows.
                let rows = self.lm_head.weight.dims().first();
                rows.map_or(0, |n| *n).max(self.config.vocab_size)
            }

            fn max_positions(&self) -> Option<usize> {
                let positions: fn(&Self) -> Option<usize> = $positions;
                positions(self)
            }

            fn special_tokens(&self) -> $crate::generation::SpecialTokens {
                $crate::generation::SpecialTokens {
                    bos: self.config.bos_token_id,
                    eos: self.config.eos_token_id.clone(),
                    pad: self.config.pad_token_id,
                    ..Default::default()
                }
            }

            fn new_cache(&self, kind: $crate::blocks::CacheKind) -> $crate::blocks::KvCache {
                let ($cached, $kind) = (self, kind);
                $cache
            }

            #[torsh_tensor::names_caller]
            fn decode(
                &self,
                step: $crate::generation::DecoderStep<'_>,
            ) -> torsh_tensor::Result<$crate::generation::DecoderOutput> {
                let wanted = step.logits;
                let hidden = self.$base.forward_with(step)?;
                let ($m, $last) = (self, &$crate::models::causal::of_logits(&hidden, wanted)?);
                let logits: torsh_tensor::Result<torsh_tensor::Tensor> = $logits;
                Ok($crate::generation::DecoderOutput {
                    logits: logits?,
                    hidden,
                })
            }
        }
    };
}
pub(super) use causal_lm;
