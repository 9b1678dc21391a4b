//! GPT-NeoX (Black et al., "GPT-NeoX-20B: An Open-Source Autoregressive Language Model", 2022), also that of Pythia.

use serde_json::Value;
use torsh_nn::{Dropout, Embedding, Hooks, LayerNorm, Linear, Module};
use torsh_tensor::{Result, Tensor, TorshError};

use super::causal::{causal_lm, decoder, head, heads_divide};
use super::encoder_layers::attend_dropping;
use super::pretrained;
use crate::blocks::{
    Activation, AttentionMask, KvCache, LayerRun, Layers, RopeParameters, RotaryEmbedding, class,
    init, join_heads, part, split_heads, tokens,
};
use crate::config::{TokenIds, config};
use crate::generation::DecoderStep;

config! {
    /// The configuration of GPT-NeoX, by the names in `config.json`.
    /// The default is GPT-NeoX-20B.
    ///
    /// ```
    /// use torsh_nn::{ModuleExt, construct::Construction};
    /// use torsh_tensor::Device;
    /// use torsh_text::models::{GPTNeoXConfig, GPTNeoXForCausalLM};
    /// let model = Construction::new().device(Device::Meta).run(|| GPTNeoXForCausalLM::new(GPTNeoXConfig::default()))?;
    /// assert_eq!(model.num_parameters(), 20_554_567_680);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    GPTNeoXConfig: "gpt_neox" {
        vocab_size = 50432; hidden_size = 6144; num_hidden_layers = 44; num_attention_heads = 64;
        intermediate_size = 24576; hidden_act = Activation::Gelu; attention_dropout = 0.0;
        /// Dropout of the embeddings, and behind attention and feed-forward layers.
        hidden_dropout: f64 = 0.0;
        /// Positions that the model was trained on.
        max_position_embeddings = 2048;
        initializer_range = 0.02; layer_norm_eps = 1e-5; bos_token_id = Some(0); eos_token_id = TokenIds::from(2);
        pad_token_id = None; tie_word_embeddings = false;
        /// Whether attention and feed-forward layer of a layer read the same input.
        use_parallel_residual: bool = true;
        /// The rotary embedding; `rotary_pct` and `rotary_emb_base` of older files are fields of it.
        rope_parameters = RopeParameters {
            partial_rotary_factor: Some(0.25),
            ..RopeParameters::default()
        };
        attention_bias = true;
    }
    ignores ["classifier_dropout", "is_decoder"]
    requires {}
    normalize = one_rope
}

/// Older files have fields of the rotary embedding beside the others.
fn one_rope(mut config: Value) -> Result<Value> {
    if let Value::Object(fields) = &mut config {
        let given = [
            fields.remove("rope_scaling"),
            fields.remove("rope_parameters"),
        ];
        let given = given.into_iter().flatten().find(|rope| !rope.is_null());
        let mut rope = given.unwrap_or_else(|| serde_json::json!({}));
        let old = [
            ("rope_theta", ["rotary_emb_base", "rope_theta"], 10_000.0),
            (
                "partial_rotary_factor",
                ["rotary_pct", "partial_rotary_factor"],
                0.25,
            ),
        ];
        for (name, names, default) in old {
            let beside = names.map(|n| fields.remove(n)).into_iter().flatten().next();
            if let Value::Object(rope) = &mut rope {
                rope.entry(name)
                    .or_insert_with(|| beside.unwrap_or_else(|| default.into()));
            }
        }
        fields.insert("rope_parameters".into(), rope);
    }
    Ok(config)
}

/// The cosines and sines of a step's positions.
type Tables = (Tensor, Tensor);

#[derive(Module)]
struct GPTNeoXAttention {
    query_key_value: Linear,
    dense: Linear,
    dropout: Dropout,
    #[module(skip)]
    heads: usize,
    #[module(skip)]
    layer: usize,
}

impl GPTNeoXAttention {
    fn run(
        &self,
        x: &Tensor,
        (cos, sin): &Tables,
        mask: &AttentionMask,
        cache: Option<&mut KvCache>,
    ) -> Result<Tensor> {
        // Queries, keys and values of a head lie side by side.
        let all = split_heads(&self.query_key_value.forward(x)?, self.heads)?;
        let size = all.size(-1)? / 3;
        let q = RotaryEmbedding::apply(&all.narrow(-1, 0, size)?, cos, sin)?;
        let mut k = RotaryEmbedding::apply(&all.narrow(-1, size, size)?, cos, sin)?;
        let mut v = all.narrow(-1, 2 * size, size)?;
        if let Some(cache) = cache {
            (k, v) = cache.update(self.layer, &k, &v)?;
        }
        let y = attend_dropping(&q, &k, &v, mask, None, &self.dropout)?;
        self.dense.forward(&join_heads(&y)?)
    }
}

impl Module for GPTNeoXAttention {
    #[torsh_tensor::names_caller]
    fn forward(&self, _: &Tensor) -> Result<Tensor> {
        Err(TorshError::invalid(
            "GPTNeoXAttention",
            "attention needs positions; call the model",
        ))
    }
}

#[derive(Module)]
struct GPTNeoXMLP {
    dense_h_to_4h: Linear,
    dense_4h_to_h: Linear,
    #[module(skip)]
    activation: Activation,
}

impl Module for GPTNeoXMLP {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = self.activation.apply(&self.dense_h_to_4h.forward(x)?)?;
        self.dense_4h_to_h.forward(&x)
    }
}

part! {
    GPTNeoXLayer(c: &GPTNeoXConfig, layer: usize) first {
        let (width, inner, std) = (c.hidden_size, c.intermediate_size, c.initializer_range);
    } {
        input_layernorm: LayerNorm = init::layer_norm(width, c.layer_norm_eps)?;
        post_attention_layernorm: LayerNorm = init::layer_norm(width, c.layer_norm_eps)?;
        post_attention_dropout: Dropout = Dropout::new(c.hidden_dropout)?;
        post_mlp_dropout: Dropout = Dropout::new(c.hidden_dropout)?;
        attention: GPTNeoXAttention = GPTNeoXAttention {
            query_key_value: init::linear(width, 3 * width, c.attention_bias, std)?,
            dense: init::linear(width, width, c.attention_bias, std)?,
            dropout: Dropout::new(c.attention_dropout)?,
            heads: c.num_attention_heads,
            layer,
        };
        mlp: GPTNeoXMLP = GPTNeoXMLP {
            dense_h_to_4h: init::linear(width, inner, true, std)?,
            dense_4h_to_h: init::linear(inner, width, true, std)?,
            activation: c.hidden_act,
        };
        #[module(skip)] parallel: bool = c.use_parallel_residual;
        hooks: Hooks = Hooks::new();
    }
    forward |_m, _x| {
        Err(TorshError::invalid(
            "GPTNeoXLayer",
            "a layer needs positions; call the model",
        ))
    }
}

impl GPTNeoXLayer {
    fn run(
        &self,
        x: &Tensor,
        tables: &Tables,
        mask: &AttentionMask,
        cache: Option<&mut KvCache>,
    ) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let normed = self.input_layernorm.forward(x)?;
            let y = self.attention.run(&normed, tables, mask, cache)?;
            let y = self.post_attention_dropout.forward(&y)?;
            let mlp = |x: &Tensor| {
                let z = self
                    .mlp
                    .forward(&self.post_attention_layernorm.forward(x)?)?;
                self.post_mlp_dropout.forward(&z)
            };
            if self.parallel {
                return mlp(x)?.add(&y)?.add(x);
            }
            let y = y.add(x)?;
            mlp(&y)?.add(&y)
        })
    }
}

class! {
    /// The layers of GPT-NeoX, without a head.
    ///
    /// ```
    /// use torsh_nn::Module;
    /// use torsh_tensor::tensor;
    /// use torsh_text::models::{GPTNeoXConfig, GPTNeoXModel};
    /// let config = GPTNeoXConfig {
    ///     hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 32, vocab_size: 11,
    ///     ..Default::default()
    /// };
    /// let model = GPTNeoXModel::new(config)?;
    /// assert_eq!(model.forward(&tensor![[1, 2, 3]])?.dims(), [1, 3, 16]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    GPTNeoXModel(GPTNeoXConfig),
    errors "A width that the heads do not divide, and a scaling of the rotary embedding that lacks a field."
    |c| first {
        let (width, heads) = (c.hidden_size, c.num_attention_heads);
        heads_divide!("GPTNeoXConfig", c, hidden_size, num_attention_heads)?;
        let share = c.rope_parameters.partial_rotary_factor.unwrap_or(1.0);
        let turned = ((width / heads) as f64 * share) as usize;
        let layer = |layer| GPTNeoXLayer::new(c, layer);
    } {
        embed_in: Embedding = init::embedding(c.vocab_size, width, None, c.initializer_range)?;
        emb_dropout: Dropout = Dropout::new(c.hidden_dropout)?;
        layers: Layers<GPTNeoXLayer> = (0..c.num_hidden_layers).map(layer).collect::<Result<_>>()?;
        final_layer_norm: LayerNorm = init::layer_norm(width, c.layer_norm_eps)?;
        #[module(skip)] rotary: RotaryEmbedding =
            RotaryEmbedding::new(turned, c.max_position_embeddings, &c.rope_parameters)?;
    }
}

impl GPTNeoXModel {
    /// The last layer's result `[batch, tokens, width]` for a step's tokens.
    ///
    /// # Errors
    /// Ids outside of the vocabulary.
    #[torsh_tensor::names_caller]
    pub fn forward_with(&self, step: DecoderStep<'_>) -> Result<Tensor> {
        let mask = AttentionMask::causal(step.past()).padding(step.padding.cloned());
        let x = tokens::vectors(&self.embed_in, step.input_ids)?;
        let x = self.emb_dropout.forward(&x)?;
        let tables = self.rotary.tables(&step.positions()?, x.dtype())?;
        let run = LayerRun::behind(step.cache);
        let x = self.layers.run_with(x, run, move |layer, _, x, cache| {
            layer.run(x, &tables, &mask, cache)
        })?;
        self.final_layer_norm.forward(&x)
    }
}

decoder!(GPTNeoXModel);

class! {
    /// GPT-NeoX with the head that tells the next token.
    ///
    /// ```
    /// use torsh_nn::Module;
    /// use torsh_tensor::tensor;
    /// use torsh_text::models::{GPTNeoXConfig, GPTNeoXForCausalLM};
    /// let config = GPTNeoXConfig {
    ///     hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 32, vocab_size: 11,
    ///     ..Default::default()
    /// };
    /// let model = GPTNeoXForCausalLM::new(config)?;
    /// let logits = model.forward(&tensor![[1, 2, 3]])?;
    /// assert_eq!(logits.dims(), [1, 3, 11]);
    /// // A token sees none behind it.
    /// let longer = model.forward(&tensor![[1, 2, 3, 4]])?.narrow(1, 0, 3)?;
    /// assert!(longer.sub(&logits)?.abs()?.max()?.item::<f32>()? < 1e-5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    GPTNeoXForCausalLM(GPTNeoXConfig), errors "As [`GPTNeoXModel::new`]."
    |c| {
        gpt_neox: GPTNeoXModel = GPTNeoXModel::new(c.clone())?;
        lm_head: Linear = head(&gpt_neox.embed_in, c.tie_word_embeddings, c.initializer_range)?;
    }
}

/// [`GPTNeoXForCausalLM`], by its short name.
pub type GPTNeoX = GPTNeoXForCausalLM;

causal_lm!(
    GPTNeoXForCausalLM of gpt_neox,
    layers num_hidden_layers,
    positions |m| Some(m.config.max_position_embeddings)
);

pretrained! {
    base "gpt_neox",
    ignores ["attention.bias", "attention.masked_bias", "attention.rotary_emb.inv_freq"];
    GPTNeoXModel(GPTNeoXConfig), GPTNeoXForCausalLM(GPTNeoXConfig),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::PretrainedConfig;

    #[test]
    fn fields_of_older_files_are_those_of_the_rotary_embedding() -> Result<()> {
        let config = GPTNeoXConfig::from_json(serde_json::json!({
            "rotary_pct": 0.5, "rotary_emb_base": 500, "rope_scaling": { "type": "linear", "factor": 2.0 }
        }))?;
        let rope = config.rope_parameters;
        assert_eq!(
            (rope.partial_rotary_factor, rope.rope_theta, rope.factor),
            (Some(0.5), 500.0, Some(2.0))
        );
        let none = GPTNeoXConfig::from_json(serde_json::json!({}))?;
        assert_eq!(none, GPTNeoXConfig::default());
        Ok(())
    }
}
