//! RoBERTa (Liu et al., "RoBERTa: A Robustly Optimized BERT Pretraining Approach", 2019), and XLM-RoBERTa (Conneau et
//! al., "Unsupervised Cross-lingual Representation Learning at Scale", 2019), which differs in its vocabulary alone.

use serde_json::{Map, Value};
use torsh_nn::{Dropout, Embedding, Hooks, LayerNorm, Linear, Module, Parameter};
use torsh_tensor::{DType, Result, Tensor, TorshError};

use super::Class;
use crate::blocks::encoder::{
    BertEncoder, BertPooler, Layout, Spec, TokenInputs, bias, embed, encoder_model, spec,
    task_models,
};
use crate::blocks::{Activation, part};
use crate::config::{PretrainedConfig, config};

config! {
    /// The configuration of RoBERTa, by the names in `config.json`; `model_type` is `roberta` or `xlm-roberta`.
    /// RoBERTa base differs from the default in two sizes.
    ///
    /// ```
    /// use torsh_nn::{ModuleExt, construct::Construction};
    /// use torsh_tensor::Device;
    /// use torsh_text::models::{RobertaConfig, RobertaModel};
    /// let config = RobertaConfig {
    ///     max_position_embeddings: 514, type_vocab_size: 1,
    ///     ..Default::default()
    /// };
    /// let model = Construction::new().device(Device::Meta).run(|| RobertaModel::new(config))?;
    /// assert_eq!(model.num_parameters(), 124_645_632);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    RobertaConfig: "roberta" {
        vocab_size = 50265; hidden_size = 768; num_hidden_layers = 12; num_attention_heads = 12;
        intermediate_size = 3072; hidden_act = Activation::Gelu; hidden_dropout_prob = 0.1;
        attention_probs_dropout_prob = 0.1;
        /// Rows of the embedding of positions: a text's first token has the position `pad_token_id + 1`.
        max_position_embeddings = 512;
        type_vocab_size = 2; initializer_range = 0.02; layer_norm_eps = 1e-12;
        /// Fills up a batch; its embedding is not trained.
        pad_token_id: i64 = 1;
        classifier_dropout = None; tie_word_embeddings = true; num_labels = 2;
    }
    ignores ["bos_token_id", "eos_token_id"]
    requires {
        "add_cross_attention": false, "is_decoder": false, "position_embedding_type": "absolute",
        "pruned_heads": Map::<String, Value>::new(),
    }
    normalize = of_either_type
}

/// XLM-RoBERTa's configuration is RoBERTa's; only its default vocabulary is another.
fn of_either_type(mut config: Value) -> Result<Value> {
    if let Value::Object(fields) = &mut config
        && fields.get("model_type").is_some_and(|t| t == "xlm-roberta")
    {
        fields.remove("model_type");
        fields.entry("vocab_size").or_insert(30522.into());
    }
    Ok(config)
}

fn spec(c: &RobertaConfig) -> Result<Spec> {
    let head_dropout = c.classifier_dropout.unwrap_or(c.hidden_dropout_prob);
    let spec = spec!(
        "RobertaModel",
        c {
            head_dropout: head_dropout
        }
    )?;
    if c.pad_token_id < 0 {
        let pad = c.pad_token_id;
        let why = format!("pad_token_id = {pad}, from which positions count");
        return Err(TorshError::invalid("RobertaModel", why));
    }
    Ok(spec)
}

part! {
    /// The embeddings of [`RobertaModel`]: of tokens, parts of a pair, and positions.
    pub RobertaEmbeddings(s: &Spec, pad: i64) {
        /// Of tokens.
        pub word_embeddings: Embedding = s.table(s.vocabulary, Some(pad))?;
        /// Of parts of a pair.
        pub token_type_embeddings: Embedding = s.table(s.types, None)?;
        /// The norm of their sum.
        #[module(rename = "LayerNorm")]
        pub layer_norm: LayerNorm = s.norm(s.embedding)?;
        dropout: Dropout = Dropout::new(s.dropout)?;
        /// Of positions; that of the padding token is zero.
        pub position_embeddings: Embedding = s.table(s.positions, Some(pad))?;
        #[module(skip)]
        padding: i64 = pad;
        hooks: Hooks = Hooks::new();
    }
}

impl RobertaEmbeddings {
    /// How many tokens a text may have.
    fn most(&self) -> usize {
        let rows = self.position_embeddings.weight.dims()[0];
        rows.saturating_sub(self.padding as usize + 1)
    }

    /// Tokens are counted from `padding + 1`, padding tokens have the position `padding`.
    fn positions(&self, ids: &Tensor) -> Result<Tensor> {
        let tokens = ids.ne(self.padding)?.to_dtype(DType::I64)?;
        tokens.cumsum(1)?.mul(&tokens)?.add(self.padding)
    }

    fn run(&self, inputs: &TokenInputs<'_>, layout: &Layout) -> Result<Tensor> {
        self.hooks.run(self, inputs.input_ids, |ids| {
            let inputs = TokenInputs {
                input_ids: ids,
                ..*inputs
            };
            let tables = [&self.word_embeddings, &self.position_embeddings];
            let types = Some(&self.token_type_embeddings);
            let x = embed(tables, types, layout, &inputs, &self.positions(ids)?)?;
            self.dropout.forward(&self.layer_norm.forward(&x)?)
        })
    }
}

impl Module for RobertaEmbeddings {
    #[torsh_tensor::names_caller]
    fn forward(&self, input_ids: &Tensor) -> Result<Tensor> {
        let inputs = TokenInputs::new(input_ids);
        self.run(
            &inputs,
            &Layout::new("RobertaEmbeddings", &inputs, Some(self.most()))?,
        )
    }
}

encoder_model! {
    /// RoBERTa without head: BERT whose positions count from the padding token's id.
    ///
    /// ```
    /// use torsh_nn::Module;
    /// use torsh_tensor::tensor;
    /// use torsh_text::models::{RobertaConfig, RobertaModel};
    /// let config = RobertaConfig {
    ///     hidden_size: 8,
    ///     num_hidden_layers: 1,
    ///     num_attention_heads: 2,
    ///     intermediate_size: 16,
    ///     vocab_size: 20,
    ///     max_position_embeddings: 8,
    ///     ..Default::default()
    /// };
    /// let model = RobertaModel::new(config)?;
    /// assert_eq!(model.forward(&tensor![[0, 5, 6, 2]])?.dims(), [1, 4, 8]);
    /// // 8 positions less those up to the padding token, 1.
    /// let error = model.forward(&tensor![[0, 5, 6, 7, 8, 9, 2]]).err().map(|e| e.to_string());
    /// assert!(error.is_some_and(|e| e.contains("7 tokens for a model of 6 positions")));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    RobertaModel(RobertaConfig), spec spec,
    errors "Heads that do not divide the width, and a padding token outside of vocabulary or positions."
    |s of c, pooled| {
        /// The embeddings.
        pub embeddings: RobertaEmbeddings = RobertaEmbeddings::new(s, c.pad_token_id)?;
        /// The layers.
        pub encoder: BertEncoder = BertEncoder::new(s)?;
        /// What makes a vector of a text.
        pub pooler: Option<BertPooler> = pooled.then(|| BertPooler::new(s)).transpose()?;
    }
    positions |m| Some(m.embeddings.most());
    /// The vectors of tokens, and of texts where there is a pooler.
    run |m, inputs, layout| m.encoder.run(&m.embeddings.run(inputs, layout)?, layout),
    pooler |m, output| m.pooler.as_ref().map(|p| p.forward(&output.last_hidden_state))
}

part! {
    /// The head of the masked language model: logits of each token of the vocabulary.
    pub RobertaLMHead(words: &Embedding, s: &Spec) {
        bias: Parameter = bias(s.vocabulary)?;
        dense: Linear = s.linear(s.width, s.width)?;
        layer_norm: LayerNorm = s.norm(s.width)?;
        decoder: Linear = s.decoder(words, Some(&bias))?;
        hooks: Hooks = Hooks::new();
    }
    hooked |m, x| {
        let x = Activation::Gelu.apply(&m.dense.forward(x)?)?;
        m.decoder.forward(&m.layer_norm.forward(&x)?)
    }
}

task_models! {
    roberta: RobertaModel(RobertaConfig), spec spec,
    ignores ["embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias"];
    /// RoBERTa as masked language model: logits `[batch, length, vocabulary]` of each position's token.
    RobertaForMaskedLM: masked(lm_head: RobertaLMHead);
    /// RoBERTa with a classifier of texts on the first token: logits `[batch, num_labels]`.
    RobertaForSequenceClassification: first(Activation::Tanh);
    /// RoBERTa with a classifier of tokens: logits `[batch, length, num_labels]`.
    RobertaForTokenClassification: tokens();
    /// RoBERTa that finds answers in texts: logits of the first and the last token of the answer.
    RobertaForQuestionAnswering: answers();
}

/// XLM-RoBERTa's names for the same architectures.
macro_rules! of_xlm {
    ($($name:literal: $model:ident),* $(,)?) => {
        /// The architectures of XLM-RoBERTa.
        pub(crate) const XLM_CLASSES: &[Class] = &[$(Class {
            name: $name,
            model_type: "xlm-roberta",
            build: |mut config| {
                if let Value::Object(fields) = &mut config {
                    fields.entry("model_type").or_insert("xlm-roberta".into());
                }
                Ok(Box::new($model::new(RobertaConfig::from_json(config)?)?))
            },
            base_prefix: "roberta",
            ignored: &["embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias"],
            defaults: &[],
        }),*];
    };
}

of_xlm! {
    "XLMRobertaModel": RobertaModel, "XLMRobertaForMaskedLM": RobertaForMaskedLM,
    "XLMRobertaForSequenceClassification": RobertaForSequenceClassification,
    "XLMRobertaForTokenClassification": RobertaForTokenClassification,
    "XLMRobertaForQuestionAnswering": RobertaForQuestionAnswering,
}
