//! The part of CLIP that reads texts.

use serde_json::Value;
use torsh_nn::{Embedding, LayerNorm, Linear, Module};
use torsh_tensor::{Result, Tensor};

use super::causal::{check_positions, heads_divide, padding_of, rows_at};
use super::clip_encoder::{CLIPEncoder, Sizes, projection};
use super::pretrained;
use crate::blocks::{Activation, AttentionMask, Padding, class, init, tokens};
use crate::config::{TokenIds, config};
use crate::generation::DecoderStep;

config! {
    /// The configuration of the part of CLIP that reads texts.
    /// The default is that of CLIP base.
    ///
    /// ```
    /// use torsh_nn::{ModuleExt, construct::Construction};
    /// use torsh_tensor::Device;
    /// use torsh_text::models::{CLIPTextConfig, CLIPTextModel};
    /// let model = Construction::new().device(Device::Meta).run(|| CLIPTextModel::new(CLIPTextConfig::default()))?;
    /// assert_eq!(model.num_parameters(), 63_165_952);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    CLIPTextConfig: "clip_text_model" {
        vocab_size = 49408; hidden_size = 512; intermediate_size = 2048; projection_dim = 512; num_hidden_layers = 12;
        num_attention_heads = 8; max_position_embeddings = 77; hidden_act = Activation::QuickGelu;
        layer_norm_eps = 1e-5; attention_dropout = 0.0; initializer_factor = 1.0;
        /// Ends a text: a text's vector is that of this token. With 2, as in older files whose tokenizer ends texts
        /// otherwise, it is that of the token with the highest number.
        eos_token_id = TokenIds::from(49407);
    }
    ignores [
        "add_cross_attention", "bos_token_id", "cross_attention_hidden_size", "decoder_start_token_id", "dropout",
        "initializer_range", "is_decoder", "pad_token_id", "pruned_heads", "tie_word_embeddings",
    ]
    requires {}
    normalize = text_part
}

/// The configuration of CLIP holds that of the part.
fn text_part(mut config: Value) -> Result<Value> {
    match config.get("model_type") {
        Some(kind) if kind == "clip" => Ok(config["text_config"].take()),
        _ => Ok(config),
    }
}

#[derive(Module)]
struct CLIPTextEmbeddings {
    token_embedding: Embedding,
    position_embedding: Embedding,
}

impl Module for CLIPTextEmbeddings {
    #[torsh_tensor::names_caller]
    fn forward(&self, input_ids: &Tensor) -> Result<Tensor> {
        let step = DecoderStep::new(input_ids);
        check_positions(
            "CLIPTextModel",
            &step,
            self.position_embedding.weight.dims()[0],
        )?;
        let positions = self.position_embedding.forward(&step.positions()?)?;
        tokens::vectors(&self.token_embedding, input_ids)?.add(&positions)
    }
}

/// What [`CLIPTextModel`] computes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CLIPTextOutput {
    /// `[batch, length, width]`
    pub last_hidden_state: Tensor,
    /// The last hidden state of the token that ends each text, `[batch, width]`.
    pub pooler_output: Tensor,
}

class! {
    /// The part of CLIP that reads texts, without projection.
    ///
    /// ```
    /// use torsh_nn::Module;
    /// use torsh_tensor::tensor;
    /// use torsh_text::config::TokenIds;
    /// use torsh_text::models::{CLIPTextConfig, CLIPTextModel};
    /// let model = CLIPTextModel::new(CLIPTextConfig {
    ///     hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 16, vocab_size: 11,
    ///     eos_token_id: TokenIds::from(10), ..Default::default()
    /// })?;
    /// let output = model.forward_with(&tensor![[1, 10, 0]], None)?;
    /// assert_eq!(output.pooler_output, output.last_hidden_state.select(1, 1)?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    CLIPTextModel(CLIPTextConfig), errors "A width that the heads do not divide."
    |c| first {
        let (width, std) = (c.hidden_size, 0.02 * c.initializer_factor);
        heads_divide!("CLIPTextConfig", c, hidden_size, num_attention_heads)?;
        let sizes = Sizes {
            width,
            inner: c.intermediate_size,
            layers: c.num_hidden_layers,
            heads: c.num_attention_heads,
            activation: c.hidden_act,
            eps: c.layer_norm_eps,
            dropout: c.attention_dropout,
            factor: c.initializer_factor,
        };
    } {
        embeddings: CLIPTextEmbeddings = CLIPTextEmbeddings {
            token_embedding: init::embedding(c.vocab_size, width, None, std)?,
            position_embedding: init::embedding(c.max_position_embeddings, width, None, std)?,
        };
        encoder: CLIPEncoder = CLIPEncoder::new(sizes)?;
        final_layer_norm: LayerNorm = init::layer_norm(width, c.layer_norm_eps)?;
    }
    /// The last hidden state `[batch, length, width]` of texts `[batch, length]`.
    forward |m, ids| Ok(m.forward_with(ids, None)?.last_hidden_state);
    named |m, inputs| {
        let padding = padding_of(inputs)?;
        let output = m.forward_with(inputs.input_ids()?, padding.as_ref())?;
        Ok(vec![
            ("last_hidden_state", output.last_hidden_state),
            ("pooler_output", output.pooler_output),
        ])
    }
}

impl CLIPTextModel {
    /// The hidden states of texts `[batch, length]` (int64).
    ///
    /// # Errors
    /// Ids outside of the vocabulary, and more tokens than positions.
    #[torsh_tensor::names_caller]
    pub fn forward_with(
        &self,
        input_ids: &Tensor,
        padding: Option<&Padding>,
    ) -> Result<CLIPTextOutput> {
        let mask = AttentionMask::causal(0).padding(padding.cloned());
        let x = self.embeddings.forward(input_ids)?;
        let x = self.encoder.run(&x, &mask)?;
        let last_hidden_state = self.final_layer_norm.forward(&x)?;
        let ends = self.ends(input_ids)?;
        Ok(CLIPTextOutput {
            pooler_output: rows_at(&last_hidden_state, &ends)?,
            last_hidden_state,
        })
    }

    /// The token of each text whose hidden state is the text's.
    fn ends(&self, input_ids: &Tensor) -> Result<Vec<usize>> {
        let eos = self.config.eos_token_id.first();
        let rows = input_ids.to_vec2::<i64>()?;
        let ends = rows.iter().map(|row| match eos {
            // The first of the highest tokens.
            Some(2) => {
                let highest = row.iter().max();
                row.iter().position(|id| Some(id) == highest).unwrap_or(0)
            }
            _ => row.iter().position(|&id| Some(id) == eos).unwrap_or(0),
        });
        Ok(ends.collect())
    }
}

class! {
    /// [`CLIPTextModel`] with the projection into the space of texts and images.
    ///
    /// ```
    /// use torsh_nn::Module;
    /// use torsh_tensor::tensor;
    /// use torsh_text::models::{CLIPTextConfig, CLIPTextModelWithProjection};
    /// let model = CLIPTextModelWithProjection::new(CLIPTextConfig {
    ///     hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 16, vocab_size: 11,
    ///     projection_dim: 6, ..Default::default()
    /// })?;
    /// assert_eq!(model.forward(&tensor![[1, 10, 0]])?.dims(), [1, 6]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    CLIPTextModelWithProjection(CLIPTextConfig), errors "As [`CLIPTextModel::new`]."
    |c| first {
        let (width, to) = (c.hidden_size, c.projection_dim);
    } {
        text_model: CLIPTextModel = CLIPTextModel::new(c.clone())?;
        text_projection: Linear = projection(width, to, c.initializer_factor)?;
    }
    /// The vectors `[batch, projection_dim]` of texts `[batch, length]`.
    forward |m, ids| Ok(m.forward_with(ids, None)?.0);
    named |m, inputs| {
        let padding = padding_of(inputs)?;
        let (embeds, last) = m.forward_with(inputs.input_ids()?, padding.as_ref())?;
        Ok(vec![("text_embeds", embeds), ("last_hidden_state", last)])
    }
}

impl CLIPTextModelWithProjection {
    /// The vectors `[batch, projection_dim]` and last hidden states of texts `[batch, length]` (int64).
    ///
    /// # Errors
    /// As [`CLIPTextModel::forward_with`].
    #[torsh_tensor::names_caller]
    pub fn forward_with(
        &self,
        input_ids: &Tensor,
        padding: Option<&Padding>,
    ) -> Result<(Tensor, Tensor)> {
        let output = self.text_model.forward_with(input_ids, padding)?;
        let embeds = self.text_projection.forward(&output.pooler_output)?;
        Ok((embeds, output.last_hidden_state))
    }
}

// Files of the whole of CLIP have the other part's weights too.
pretrained! {
    base "text_model",
    ignores [".weight", ".bias", ".class_embedding", "logit_scale", "position_ids"];
    CLIPTextModel(CLIPTextConfig), CLIPTextModelWithProjection(CLIPTextConfig),
}

#[cfg(test)]
mod tests {
    use torsh_tensor::tensor;

    use super::*;

    #[test]
    fn texts_end_where_the_files_say() -> Result<()> {
        let ids = tensor![[1, 9, 2, 9], [5, 2, 2, 0]];
        for (eos, wanted) in [(2i64, [1, 0]), (9, [1, 0]), (0, [0, 3])] {
            let model = CLIPTextModel::new(CLIPTextConfig {
                hidden_size: 4,
                num_hidden_layers: 0,
                num_attention_heads: 1,
                vocab_size: 11,
                eos_token_id: eos.into(),
                ..Default::default()
            })?;
            assert_eq!(model.ends(&ids)?, wanted);
        }
        Ok(())
    }
}
