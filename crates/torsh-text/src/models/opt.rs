//! OPT (Zhang et al., "OPT: Open Pre-trained Transformer Language Models", 2022).

use torsh_nn::{Dropout, Embedding, Hooks, LayerNorm, Linear, Module, Training};
use torsh_tensor::{Result, Tensor};

use super::causal::{causal_lm, check_positions, decoder, head, heads_divide};
use super::encoder_layers::Attention;
use super::pretrained;
use crate::blocks::{
    Activation, AttentionMask, KvCache, LayerRun, Layers, class, init, part, tokens,
};
use crate::config::{TokenIds, config};
use crate::generation::DecoderStep;

config! {
    /// The configuration of OPT, by the names in `config.json`.
    /// The default is the smallest OPT (`facebook/opt-125m`).
    ///
    /// ```
    /// use torsh_nn::{ModuleExt, construct::Construction};
    /// use torsh_tensor::Device;
    /// use torsh_text::models::{OPTConfig, OPTForCausalLM};
    /// let model = Construction::new().device(Device::Meta).run(|| OPTForCausalLM::new(OPTConfig::default()))?;
    /// assert_eq!(model.num_parameters(), 125_239_296);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    OPTConfig: "opt" {
        vocab_size = 50272; hidden_size = 768; num_hidden_layers = 12;
        /// The width inside feed-forward layers.
        ffn_dim: usize = 3072;
        max_position_embeddings = 2048;
        /// Whether norms are ahead of attention and feed-forward layers instead of behind them.
        do_layer_norm_before: bool = true;
        /// Whether the norm behind the last layer is left out, as in files of before version 4.20.
        _remove_final_layer_norm: bool = false;
        /// The width of the embeddings; the model's unless given.
        word_embed_proj_dim: Option<usize> = None;
        /// Dropout behind attention and feed-forward layers.
        dropout = 0.1;
        attention_dropout = 0.0; num_attention_heads = 12; activation_function = Activation::Relu; layerdrop = 0.0;
        init_std = 0.02; pad_token_id = Some(1); bos_token_id = Some(2); eos_token_id = TokenIds::from(2);
        /// Whether linear layers have biases.
        enable_bias: bool = true;
        /// Whether norms have weights.
        layer_norm_elementwise_affine: bool = true;
        tie_word_embeddings = true;
    }
    ignores ["activation_dropout"]
    requires {}
}

impl OPTConfig {
    fn norm(&self) -> Result<LayerNorm> {
        LayerNorm::builder(self.hidden_size)
            .elementwise_affine(self.layer_norm_elementwise_affine)
            .build()
    }
}

/// Positions begin in the third row of their embedding.
const FIRST_POSITION: i64 = 2;

part! {
    OPTDecoderLayer(c: &OPTConfig) first {
        let (width, inner, bias) = (c.hidden_size, c.ffn_dim, c.enable_bias);
    } {
        self_attn: Attention = Attention::new(
            width,
            c.num_attention_heads,
            bias,
            [c.init_std; 2],
            c.attention_dropout,
        )?;
        self_attn_layer_norm: LayerNorm = c.norm()?;
        fc1: Linear = init::linear(width, inner, bias, c.init_std)?;
        fc2: Linear = init::linear(inner, width, bias, c.init_std)?;
        final_layer_norm: LayerNorm = c.norm()?;
        dropout: Dropout = Dropout::new(c.dropout)?;
        #[module(skip)] activation: Activation = c.activation_function;
        #[module(skip)] norm_before: bool = c.do_layer_norm_before;
        hooks: Hooks = Hooks::new();
    }
    forward |m, x| m.run(x, &AttentionMask::causal(0), None)
}

impl OPTDecoderLayer {
    fn run(
        &self,
        x: &Tensor,
        mask: &AttentionMask,
        cache: Option<(&mut KvCache, usize)>,
    ) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let norm = |norm: &LayerNorm, x: &Tensor, here: bool| match here {
                true => norm.forward(x),
                false => Ok(x.clone()),
            };
            let (first, second) = (&self.self_attn_layer_norm, &self.final_layer_norm);
            let y = norm(first, x, self.norm_before)?;
            let y = self
                .dropout
                .forward(&self.self_attn.run(&y, mask, cache)?)?;
            let x = norm(first, &y.add(x)?, !self.norm_before)?;
            let y = norm(second, &x, self.norm_before)?;
            let y = self.activation.apply(&self.fc1.forward(&y)?)?;
            let y = self.dropout.forward(&self.fc2.forward(&y)?)?;
            norm(second, &y.add(&x)?, !self.norm_before)
        })
    }
}

part! {
    OPTDecoder(c: &OPTConfig) first {
        let (width, std) = (c.hidden_size, c.init_std);
        let embedded = c.word_embed_proj_dim.unwrap_or(width);
        let rows = c.max_position_embeddings + FIRST_POSITION as usize;
        let project = |from: usize, to: usize| match embedded == width {
            true => Ok(None),
            false => init::linear(from, to, false, std).map(Some),
        };
        let last = c.do_layer_norm_before && !c._remove_final_layer_norm;
    } {
        embed_tokens: Embedding = init::embedding(c.vocab_size, embedded, c.pad_token_id, std)?;
        embed_positions: Embedding = init::embedding(rows, width, None, std)?;
        project_out: Option<Linear> = project(width, embedded)?;
        project_in: Option<Linear> = project(embedded, width)?;
        final_layer_norm: Option<LayerNorm> = if last { Some(c.norm()?) } else { None };
        layers: Layers<OPTDecoderLayer> = (0..c.num_hidden_layers)
            .map(|_| OPTDecoderLayer::new(c))
            .collect::<Result<_>>()?;
        #[module(skip)] layerdrop: f64 = c.layerdrop;
        training: Training = Training::default();
    }
    forward |m, input_ids| m.run(DecoderStep::new(input_ids))
}

impl OPTDecoder {
    /// The rows of the positions' embedding; padding has the one ahead of the first position's.
    fn rows(step: &DecoderStep<'_>) -> Result<Tensor> {
        let positions = step.positions()?;
        let Some(padding) = step.padding else {
            return positions.add(FIRST_POSITION);
        };
        let (past, tokens) = (step.past(), positions.size(1)?);
        let mut rows = Vec::with_capacity(positions.numel());
        for range in padding.ranges() {
            rows.extend((past..past + tokens).map(|p| match range.contains(&p) {
                true => (p - range.start) as i64 + FIRST_POSITION,
                false => FIRST_POSITION - 1,
            }));
        }
        Tensor::from_vec(rows, [padding.ranges().len(), tokens])?.to_device(positions.device())
    }

    fn run(&self, step: DecoderStep<'_>) -> Result<Tensor> {
        let mask = AttentionMask::causal(step.past()).padding(step.padding.cloned());
        let positions = self.embed_positions.forward(&Self::rows(&step)?)?;
        let mut x = tokens::vectors(&self.embed_tokens, step.input_ids)?;
        if let Some(project) = &self.project_in {
            x = project.forward(&x)?;
        }
        let run = LayerRun::behind(step.cache).dropping(&self.training, self.layerdrop);
        x = self
            .layers
            .run_with(x.add(&positions)?, run, move |layer, at, x, cache| {
                layer.run(x, &mask, cache.map(|c| (c, at)))
            })?;
        if let Some(norm) = &self.final_layer_norm {
            x = norm.forward(&x)?;
        }
        match &self.project_out {
            Some(project) => project.forward(&x),
            None => Ok(x),
        }
    }
}

class! {
    /// The layers of OPT, without a head.
    ///
    /// ```
    /// use torsh_nn::Module;
    /// use torsh_tensor::tensor;
    /// use torsh_text::models::{OPTConfig, OPTModel};
    /// let config = OPTConfig {
    ///     hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 2, ffn_dim: 16, vocab_size: 11, ..Default::default()
    /// };
    /// let model = OPTModel::new(config)?;
    /// assert_eq!(model.forward(&tensor![[2, 5, 3]])?.dims(), [1, 3, 8]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    OPTModel(OPTConfig), errors "A width that the heads do not divide, and a padding token outside of the vocabulary."
    |c| first {
        heads_divide!("OPTConfig", c, hidden_size, num_attention_heads)?;
    } {
        decoder: OPTDecoder = OPTDecoder::new(c)?;
    }
}

impl OPTModel {
    /// The last layer's result `[batch, tokens, width]` for a step's tokens.
    ///
    /// # Errors
    /// Ids outside of the vocabulary, and more tokens than positions.
    #[torsh_tensor::names_caller]
    pub fn forward_with(&self, step: DecoderStep<'_>) -> Result<Tensor> {
        check_positions("OPTModel", &step, self.config.max_position_embeddings)?;
        self.decoder.run(step)
    }
}

decoder!(OPTModel);

class! {
    /// OPT with the head that tells the next token.
    ///
    /// ```
    /// use torsh_nn::{Module, ModuleExt};
    /// use torsh_tensor::tensor;
    /// use torsh_text::models::{OPTConfig, OPTForCausalLM};
    /// let config = OPTConfig {
    ///     hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 2, ffn_dim: 16, vocab_size: 11,
    ///     word_embed_proj_dim: Some(4), ..Default::default()
    /// };
    /// let model = OPTForCausalLM::new(config)?;
    /// model.eval();
    /// let logits = model.forward(&tensor![[1, 2, 3]])?;
    /// assert_eq!(logits.dims(), [1, 3, 11]);
    /// // A token sees none behind it.
    /// let longer = model.forward(&tensor![[1, 2, 3, 4]])?.narrow(1, 0, 3)?;
    /// assert!(longer.sub(&logits)?.abs()?.max()?.item::<f32>()? < 1e-5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    OPTForCausalLM(OPTConfig), errors "As [`OPTModel::new`]."
    |c| {
        model: OPTModel = OPTModel::new(c.clone())?;
        lm_head: Linear = head(&model.decoder.embed_tokens, c.tie_word_embeddings, c.init_std)?;
    }
}

/// [`OPTForCausalLM`], by its short name.
pub type OPT = OPTForCausalLM;

causal_lm!(
    OPTForCausalLM of model,
    layers num_hidden_layers,
    positions |m| Some(m.config.max_position_embeddings)
);

pretrained! {
    base "model", ignores ["embed_positions.position_ids"];
    OPTModel(OPTConfig), OPTForCausalLM(OPTConfig),
}
