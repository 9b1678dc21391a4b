//! BERT (Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding", 2018).

use serde_json::{Map, Value};
use torsh_nn::{Embedding, Hooks, LayerNorm, Linear, Module, Parameter};
use torsh_tensor::Result;

use crate::blocks::encoder::{
    BertEmbeddings, BertEncoder, BertPooler, Spec, bias, encoder_model, spec, task_models,
};
use crate::blocks::{Activation, part};
use crate::config::config;

config! {
    /// The configuration of BERT, by the names in `config.json`.
    /// The default is BERT base (`bert-base-uncased`).
    ///
    /// ```
    /// use torsh_nn::{ModuleExt, construct::Construction};
    /// use torsh_tensor::Device;
    /// use torsh_text::models::{BertConfig, BertModel};
    /// let model = Construction::new().device(Device::Meta).run(|| BertModel::new(BertConfig::default()))?;
    /// assert_eq!(model.num_parameters(), 109_482_240);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    BertConfig: "bert" {
        vocab_size = 30522; hidden_size = 768; num_hidden_layers = 12; num_attention_heads = 12;
        intermediate_size = 3072;
        /// The activation of feed-forward layers and of the masked language model's head.
        hidden_act = Activation::Gelu;
        hidden_dropout_prob = 0.1; attention_probs_dropout_prob = 0.1; max_position_embeddings = 512;
        type_vocab_size = 2; initializer_range = 0.02; layer_norm_eps = 1e-12;
        /// Fills up a batch; its embedding is not trained.
        pad_token_id = Some(0);
        classifier_dropout = None; tie_word_embeddings = true; num_labels = 2;
    }
    ignores [
        "bos_token_id", "directionality", "eos_token_id", "pooler_fc_size", "pooler_num_attention_heads",
        "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type",
    ]
    requires {
        "add_cross_attention": false, "is_decoder": false, "position_embedding_type": "absolute",
        "pruned_heads": Map::<String, Value>::new(),
    }
}

fn spec(c: &BertConfig) -> Result<Spec> {
    let head_dropout = c.classifier_dropout.unwrap_or(c.hidden_dropout_prob);
    spec!(
        "BertModel",
        c {
            head_dropout: head_dropout
        }
    )
}

encoder_model! {
    /// BERT without head: an encoder whose tokens see all others, and a pooler on the first token.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_tensor::tensor;
    /// use torsh_text::models::{BertConfig, BertModel, TokenInputs};
    /// let config = BertConfig {
    ///     hidden_size: 8,
    ///     num_hidden_layers: 1,
    ///     num_attention_heads: 2,
    ///     intermediate_size: 16,
    ///     vocab_size: 20,
    ///     ..Default::default()
    /// };
    /// let model = BertModel::new(config)?;
    /// model.eval();
    /// let (ids, mask) = (tensor![[2, 5, 6, 3], [2, 7, 3, 0]], tensor![[1, 1, 1, 1], [1, 1, 1, 0]]);
    /// let inputs = TokenInputs::new(&ids).attention_mask(&mask);
    /// let output = model.forward_with(inputs)?;
    /// assert_eq!(output.last_hidden_state.dims(), [2, 4, 8]);
    /// // Without the padding in the batch, the second text has the same vectors.
    /// let alone = model.forward_with(TokenInputs::new(&tensor![[2, 7, 3]]))?.last_hidden_state;
    /// let padded = output.last_hidden_state.narrow(0, 1, 1)?.narrow(1, 0, 3)?;
    /// assert!(alone.sub(&padded)?.abs()?.max()?.item::<f32>()? < 1e-5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    BertModel(BertConfig), spec spec,
    errors "Heads that do not divide the width, and a padding token outside of the vocabulary."
    |s, pooled| {
        /// The embeddings.
        pub embeddings: BertEmbeddings = BertEmbeddings::new(s)?;
        /// The layers.
        pub encoder: BertEncoder = BertEncoder::new(s)?;
        /// What makes a vector of a text.
        pub pooler: Option<BertPooler> = pooled.then(|| BertPooler::new(s)).transpose()?;
    }
    positions |m| Some(m.config.max_position_embeddings);
    /// The vectors of tokens, and of texts where there is a pooler.
    run |m, inputs, layout| m.encoder.run(&m.embeddings.run(inputs, layout)?, layout),
    pooler |m, output| m.pooler.as_ref().map(|p| p.forward(&output.last_hidden_state))
}

/// [`BertModel`] by its name in papers.
pub type BERT = BertModel;

part! {
    BertTransform(s: &Spec) {
        dense: Linear = s.linear(s.width, s.width)?;
        #[module(rename = "LayerNorm")]
        layer_norm: LayerNorm = s.norm(s.width)?;
        #[module(skip)]
        activation: Activation = s.activation;
    }
    forward |m, x| m.layer_norm.forward(&m.activation.apply(&m.dense.forward(x)?)?)
}

part! {
    BertPredictions(words: &Embedding, s: &Spec) {
        bias: Parameter = bias(s.vocabulary)?;
        transform: BertTransform = BertTransform::new(s)?;
        decoder: Linear = s.decoder(words, Some(&bias))?;
    }
    forward |m, x| m.decoder.forward(&m.transform.forward(x)?)
}

part! {
    /// The head of the masked language model: logits of each token of the vocabulary.
    pub BertMlmHead(words: &Embedding, s: &Spec) {
        predictions: BertPredictions = BertPredictions::new(words, s)?;
        hooks: Hooks = Hooks::new();
    }
    hooked |m, x| m.predictions.forward(x)
}

task_models! {
    bert: BertModel(BertConfig), spec spec, ignores [
        "embeddings.position_ids", "cls.seq_relationship.weight", "cls.seq_relationship.bias",
        "pooler.dense.weight", "pooler.dense.bias",
    ];
    /// BERT as masked language model: logits `[batch, length, vocabulary]` of each position's token.
    ///
    /// ```
    /// use torsh_nn::{Module, ModuleExt};
    /// use torsh_text::models::{BertConfig, BertForMaskedLM};
    /// let config = BertConfig {
    ///     hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 16, vocab_size: 20,
    ///     ..Default::default()
    /// };
    /// let model = BertForMaskedLM::new(config)?;
    /// assert_eq!(model.forward(&torsh_tensor::tensor![[2, 4, 3]])?.dims(), [1, 3, 20]);
    /// // The head's weight is the embedding.
    /// let state = model.state_dict();
    /// let [a, b] = ["bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"].map(|n| state.get(n));
    /// assert!(a.zip(b).is_some_and(|(a, b)| a.shares_storage(b)));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    BertForMaskedLM: masked(cls: BertMlmHead);
    /// BERT with a classifier of texts on its pooler: logits `[batch, num_labels]`.
    BertForSequenceClassification: pooled();
    /// BERT with a classifier of tokens: logits `[batch, length, num_labels]`.
    BertForTokenClassification: tokens();
    /// BERT that finds answers in texts: logits of the first and the last token of the answer.
    BertForQuestionAnswering: answers();
}

#[cfg(test)]
mod tests;
