//! GPT-2 (Radford et al., "Language Models are Unsupervised Multitask Learners", 2019).

use serde_json::Value;
use torsh_nn::{Dropout, Embedding, Hooks, LayerNorm, Linear, Module};
use torsh_tensor::{Result, Tensor, TorshError};

use super::causal::{
    causal_lm, check_positions, decoder, head, heads_divide, last_tokens, padding_of, rows_at,
    whole_step,
};
use super::encoder_layers::attend_dropping;
use super::pretrained;
use crate::blocks::{
    Activation, AttentionMask, Conv1D, KvCache, LayerRun, Layers, Padding, class, init, join_heads,
    part, split_heads, tokens,
};
use crate::config::{TokenIds, config};
use crate::generation::DecoderStep;

config! {
    /// The configuration of GPT-2, by the names in `config.json`.
    /// The default is the smallest GPT-2 (`gpt2`).
    ///
    /// ```
    /// use torsh_nn::{ModuleExt, construct::Construction};
    /// use torsh_tensor::Device;
    /// use torsh_text::models::{GPT2Config, GPT2LMHeadModel};
    /// let model = Construction::new().device(Device::Meta).run(|| GPT2LMHeadModel::new(GPT2Config::default()))?;
    /// assert_eq!(model.num_parameters(), 124_439_808);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    GPT2Config: "gpt2" {
        vocab_size = 50257;
        /// The most tokens of a text.
        n_positions: usize = 1024;
        /// The width of the model.
        n_embd: usize = 768;
        /// Layers.
        n_layer: usize = 12;
        /// Heads of attention, which divide the width.
        n_head: usize = 12;
        /// The width inside feed-forward layers; four times the model's unless given.
        n_inner: Option<usize> = None;
        activation_function = Activation::GeluTanh;
        /// Dropout behind attention and feed-forward layers.
        resid_pdrop: f64 = 0.1;
        /// Dropout of the embeddings.
        embd_pdrop: f64 = 0.1;
        /// Dropout of the attention's weights.
        attn_pdrop: f64 = 0.1;
        /// Added to variances.
        layer_norm_epsilon: f64 = 1e-5;
        initializer_range = 0.02;
        /// Whether products of queries and keys are divided by the root of a head's size.
        scale_attn_weights: bool = true;
        /// Whether they are divided by the layer's number as well.
        scale_attn_by_inverse_layer_idx: bool = false;
        bos_token_id = Some(50256); eos_token_id = TokenIds::from(50256); pad_token_id = None;
        tie_word_embeddings = true; num_labels = 2;
    }
    ignores [
        "n_ctx", "reorder_and_upcast_attn", "summary_activation", "summary_first_dropout",
        "summary_proj_to_labels", "summary_type", "summary_use_proj",
    ]
    requires { "add_cross_attention": false }
    normalize = by_own_names
}

/// GPT-2's configuration has names of its own for what others name alike.
fn by_own_names(mut config: Value) -> Result<Value> {
    if let Value::Object(fields) = &mut config {
        for (general, own) in [
            ("hidden_size", "n_embd"),
            ("max_position_embeddings", "n_positions"),
            ("num_attention_heads", "n_head"),
            ("num_hidden_layers", "n_layer"),
        ] {
            if let Some(value) = fields.remove(general) {
                fields.entry(own).or_insert(value);
            }
        }
    }
    Ok(config)
}

part! {
    GPT2Attention(c: &GPT2Config, layer: usize) first {
        let mut scale = 1.0;
        if c.scale_attn_weights {
            scale /= ((c.n_embd / c.n_head) as f64).sqrt();
        }
        if c.scale_attn_by_inverse_layer_idx {
            scale /= (layer + 1) as f64;
        }
    } {
        c_attn: Conv1D = Conv1D::new(c.n_embd, 3 * c.n_embd, c.initializer_range)?;
        c_proj: Conv1D = Conv1D::new(c.n_embd, c.n_embd, residual_std(c))?;
        attn_dropout: Dropout = Dropout::new(c.attn_pdrop)?;
        resid_dropout: Dropout = Dropout::new(c.resid_pdrop)?;
        #[module(skip)] heads: usize = c.n_head;
        #[module(skip)] scale: f64 = scale;
        #[module(skip)] layer: usize = layer;
    }
    forward |m, x| m.run(x, &AttentionMask::causal(0), None)
}

impl GPT2Attention {
    fn run(&self, x: &Tensor, mask: &AttentionMask, cache: Option<&mut KvCache>) -> Result<Tensor> {
        let all = self.c_attn.forward(x)?.chunk(3, -1)?;
        let [q, k, v] = &all[..] else {
            return Err(TorshError::invalid("GPT2Attention", "no queries"));
        };
        let q = split_heads(q, self.heads)?;
        let (mut k, mut v) = (split_heads(k, self.heads)?, split_heads(v, self.heads)?);
        if let Some(cache) = cache {
            (k, v) = cache.update(self.layer, &k, &v)?;
        }
        let y = attend_dropping(&q, &k, &v, mask, Some(self.scale), &self.attn_dropout)?;
        self.resid_dropout
            .forward(&self.c_proj.forward(&join_heads(&y)?)?)
    }
}

/// The deviation of weights that write to the residual stream: smaller, the more layers there are.
fn residual_std(c: &GPT2Config) -> f64 {
    c.initializer_range / ((2 * c.n_layer) as f64).sqrt()
}

#[derive(Module)]
struct GPT2MLP {
    c_fc: Conv1D,
    c_proj: Conv1D,
    dropout: Dropout,
    #[module(skip)]
    activation: Activation,
}

impl Module for GPT2MLP {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = self.activation.apply(&self.c_fc.forward(x)?)?;
        self.dropout.forward(&self.c_proj.forward(&x)?)
    }
}

part! {
    GPT2Block(c: &GPT2Config, layer: usize) first {
        let inner = c.n_inner.unwrap_or(4 * c.n_embd);
    } {
        ln_1: LayerNorm = init::layer_norm(c.n_embd, c.layer_norm_epsilon)?;
        attn: GPT2Attention = GPT2Attention::new(c, layer)?;
        ln_2: LayerNorm = init::layer_norm(c.n_embd, c.layer_norm_epsilon)?;
        mlp: GPT2MLP = GPT2MLP {
            c_fc: Conv1D::new(c.n_embd, inner, c.initializer_range)?,
            c_proj: Conv1D::new(inner, c.n_embd, residual_std(c))?,
            dropout: Dropout::new(c.resid_pdrop)?,
            activation: c.activation_function,
        };
        hooks: Hooks = Hooks::new();
    }
    forward |m, x| m.run(x, &AttentionMask::causal(0), None)
}

impl GPT2Block {
    fn run(&self, x: &Tensor, mask: &AttentionMask, cache: Option<&mut KvCache>) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let y = self.attn.run(&self.ln_1.forward(x)?, mask, cache)?;
            let x = y.add(x)?;
            self.mlp.forward(&self.ln_2.forward(&x)?)?.add(&x)
        })
    }
}

class! {
    /// The layers of GPT-2, without a head.
    ///
    /// ```
    /// use torsh_nn::Module;
    /// use torsh_tensor::tensor;
    /// use torsh_text::models::{GPT2Config, GPT2Model};
    /// let config = GPT2Config { n_embd: 8, n_layer: 1, n_head: 2, vocab_size: 11, ..Default::default() };
    /// let model = GPT2Model::new(config)?;
    /// assert_eq!(model.forward(&tensor![[1, 2, 3]])?.dims(), [1, 3, 8]);
    /// assert!(model.forward(&tensor![[11]]).is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    GPT2Model(GPT2Config), errors "A width that the heads do not divide."
    |c| first {
        heads_divide!("GPT2Config", c, n_embd, n_head)?;
        let block = |layer| GPT2Block::new(c, layer);
    } {
        wte: Embedding = init::embedding(c.vocab_size, c.n_embd, None, c.initializer_range)?;
        wpe: Embedding = init::embedding(c.n_positions, c.n_embd, None, c.initializer_range)?;
        drop: Dropout = Dropout::new(c.embd_pdrop)?;
        h: Layers<GPT2Block> = (0..c.n_layer).map(block).collect::<Result<_>>()?;
        ln_f: LayerNorm = init::layer_norm(c.n_embd, c.layer_norm_epsilon)?;
    }
}

impl GPT2Model {
    /// The last layer's result `[batch, tokens, width]` for a step's tokens.
    ///
    /// # Errors
    /// Ids outside of the vocabulary, and more tokens than positions.
    #[torsh_tensor::names_caller]
    pub fn forward_with(&self, step: DecoderStep<'_>) -> Result<Tensor> {
        check_positions("GPT2Model", &step, self.config.n_positions)?;
        let positions = self.wpe.forward(&step.positions()?)?;
        let mask = AttentionMask::causal(step.past()).padding(step.padding.cloned());
        let x = tokens::vectors(&self.wte, step.input_ids)?.add(&positions)?;
        let x = self.drop.forward(&x)?;
        let run = LayerRun::behind(step.cache);
        let x = self
            .h
            .run_with(x, run, move |block, _, x, cache| block.run(x, &mask, cache))?;
        self.ln_f.forward(&x)
    }
}

decoder!(GPT2Model);

class! {
    /// GPT-2 with the head that tells the next token.
    ///
    /// ```
    /// use torsh_nn::{Module, ModuleExt};
    /// use torsh_tensor::tensor;
    /// use torsh_text::models::{GPT2Config, GPT2LMHeadModel};
    /// let config = GPT2Config { n_embd: 8, n_layer: 1, n_head: 2, vocab_size: 11, ..Default::default() };
    /// let model = GPT2LMHeadModel::new(config)?;
    /// assert_eq!(model.forward(&tensor![[1, 2, 3]])?.dims(), [1, 3, 11]);
    /// // The head's weight is that of the embedding.
    /// let state = model.state_dict();
    /// assert!(state["lm_head.weight"].shares_storage(&state["transformer.wte.weight"]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    GPT2LMHeadModel(GPT2Config), errors "As [`GPT2Model::new`]."
    |c| {
        transformer: GPT2Model = GPT2Model::new(c.clone())?;
        lm_head: Linear = head(&transformer.wte, c.tie_word_embeddings, c.initializer_range)?;
    }
}

/// [`GPT2LMHeadModel`], by its short name.
pub type GPT2 = GPT2LMHeadModel;

causal_lm!(GPT2LMHeadModel of transformer, layers n_layer, positions |m| Some(m.config.n_positions));

class! {
    /// GPT-2 as a classifier of texts, by the last token of each.
    ///
    /// ```
    /// use torsh_nn::Module;
    /// use torsh_tensor::tensor;
    /// use torsh_text::models::{GPT2Config, GPT2ForSequenceClassification};
    /// let config = GPT2Config {
    ///     n_embd: 8, n_layer: 1, n_head: 2, vocab_size: 11, num_labels: 3, pad_token_id: Some(0), ..Default::default()
    /// };
    /// let model = GPT2ForSequenceClassification::new(config)?;
    /// assert_eq!(model.forward(&tensor![[1, 2, 3], [4, 5, 0]])?.dims(), [2, 3]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    GPT2ForSequenceClassification(GPT2Config), errors "As [`GPT2Model::new`]."
    |c| first {
        let std = c.initializer_range;
    } {
        transformer: GPT2Model = GPT2Model::new(c.clone())?;
        score: Linear = init::linear(c.n_embd, c.num_labels, false, std)?;
    }
    /// The logits `[batch, num_labels]` of token ids `[batch, tokens]`.
    forward |m, ids| m.forward_with(ids, None);
    named |m, inputs| {
        let padding = padding_of(inputs)?;
        let logits = m.forward_with(inputs.input_ids()?, padding.as_ref())?;
        Ok(vec![("logits", logits)])
    }
}

impl GPT2ForSequenceClassification {
    /// The logits `[batch, num_labels]` of token ids `[batch, tokens]`.
    ///
    /// # Errors
    /// As [`GPT2Model::forward_with`], and several texts where the configuration has no `pad_token_id`.
    #[torsh_tensor::names_caller]
    pub fn forward_with(&self, input_ids: &Tensor, padding: Option<&Padding>) -> Result<Tensor> {
        let pad = self.config.pad_token_id;
        let last = last_tokens("GPT2ForSequenceClassification", input_ids, pad)?;
        let hidden = self
            .transformer
            .forward_with(whole_step(input_ids, padding))?;
        self.score.forward(&rows_at(&hidden, &last)?)
    }
}

pretrained! {
    base "transformer", ignores ["attn.bias", "attn.masked_bias"];
    GPT2Model(GPT2Config),
    GPT2LMHeadModel(GPT2Config),
    GPT2ForSequenceClassification(GPT2Config),
}
