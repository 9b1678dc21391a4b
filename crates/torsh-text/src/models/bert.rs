//! BERT (Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding", 2018).

use serde_json::{Map, Value};
use torsh_nn::{Dropout, Embedding, Hooks, LayerNorm, Linear, Module, Parameter, Training};
use torsh_tensor::{Result, Tensor};

use super::pretrained;
use crate::blocks::encoder::{
    BertEmbeddings, BertEncoder, BertPooler, EncoderOutput, Layout, TokenInputs, bias, check_heads,
    decoder, encoder_model, sizes, task_model,
};
use crate::blocks::{Activation, init};
use crate::config::config;

config! {
    /// The configuration of BERT, by the names in `config.json`.
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

impl BertConfig {
    fn head_dropout(&self) -> f64 {
        self.classifier_dropout.unwrap_or(self.hidden_dropout_prob)
    }
}

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
#[derive(Module)]
pub struct BertModel {
    /// The embeddings.
    pub embeddings: BertEmbeddings,
    /// The layers.
    pub encoder: BertEncoder,
    /// What makes a vector of a text.
    pub pooler: Option<BertPooler>,
    #[module(skip)]
    config: BertConfig,
    training: Training,
    hooks: Hooks,
}

/// [`BertModel`] by its name in papers.
pub type BERT = BertModel;

impl BertModel {
    /// A model with drawn weights.
    ///
    /// # Errors
    /// Heads that do not divide the width, and a padding token outside of the vocabulary.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(config: BertConfig) -> Result<BertModel> {
        let mut model = BertModel::without_pooler(config)?;
        let c = &model.config;
        model.pooler = Some(BertPooler::new(c.hidden_size, c.initializer_range)?);
        Ok(model)
    }

    /// A model with drawn weights that gives no `pooler_output`, as it is under most heads.
    ///
    /// # Errors
    /// As [`BertModel::new`].
    #[torsh_tensor::names_caller(Self)]
    pub fn without_pooler(config: BertConfig) -> Result<BertModel> {
        let c = &config;
        check_heads("BertModel", c.hidden_size, c.num_attention_heads)?;
        Ok(BertModel {
            embeddings: BertEmbeddings::new(&sizes!(embedding c, c.hidden_size))?,
            encoder: BertEncoder::new(c.num_hidden_layers, &sizes!(layer c))?,
            pooler: None,
            config,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }

    /// The vectors of tokens, and of texts where there is a pooler.
    ///
    /// # Errors
    /// Ids outside of the vocabulary, more tokens than positions, shapes that differ.
    #[torsh_tensor::names_caller]
    pub fn forward_with(&self, inputs: TokenInputs<'_>) -> Result<EncoderOutput> {
        let most = self.config.max_position_embeddings;
        let layout = Layout::new("BertModel", &inputs, Some(most))?;
        let x = self.embeddings.run(&inputs, &layout)?;
        let mut output = EncoderOutput::of(layout.unpack(self.encoder.run(&x, &layout)?)?);
        if let Some(pooler) = &self.pooler {
            output.pooler_output = Some(pooler.forward(&output.last_hidden_state)?);
        }
        Ok(output)
    }
}

encoder_model!(BertModel);

#[derive(Module)]
struct BertTransform {
    dense: Linear,
    #[module(rename = "LayerNorm")]
    layer_norm: LayerNorm,
    #[module(skip)]
    activation: Activation,
}

impl Module for BertTransform {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = self.activation.apply(&self.dense.forward(x)?)?;
        self.layer_norm.forward(&x)
    }
}

#[derive(Module)]
struct BertPredictions {
    bias: Parameter,
    transform: BertTransform,
    decoder: Linear,
}

impl Module for BertPredictions {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.decoder.forward(&self.transform.forward(x)?)
    }
}

/// The head of the masked language model: logits of each token of the vocabulary.
#[derive(Module)]
pub struct BertMlmHead {
    predictions: BertPredictions,
    hooks: Hooks,
}

impl BertMlmHead {
    fn new(words: &Embedding, c: &BertConfig) -> Result<BertMlmHead> {
        let (width, std) = (c.hidden_size, c.initializer_range);
        let bias = bias(c.vocab_size)?;
        Ok(BertMlmHead {
            predictions: BertPredictions {
                transform: BertTransform {
                    dense: init::linear(width, width, true, std)?,
                    layer_norm: init::layer_norm(width, c.layer_norm_eps)?,
                    activation: c.hidden_act,
                },
                decoder: decoder(words, Some(&bias), c.tie_word_embeddings, std)?,
                bias,
            },
            hooks: Hooks::new(),
        })
    }
}

impl Module for BertMlmHead {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| self.predictions.forward(x))
    }
}

task_model! {
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
    BertForMaskedLM(bert: BertModel, BertConfig) = |c| BertModel::without_pooler(c.clone())?;
    |bert| {
        /// The head.
        cls: BertMlmHead = BertMlmHead::new(&bert.embeddings.word_embeddings, c)?;
    }
    logits |m, output, _inputs| m.cls.forward(&output.last_hidden_state)
}

task_model! {
    /// BERT with a classifier of texts on its pooler: logits `[batch, num_labels]`.
    BertForSequenceClassification(bert: BertModel, BertConfig) = |c| BertModel::new(c.clone())?;
    |_bert| {
        /// Ahead of the classifier.
        dropout: Dropout = Dropout::new(c.head_dropout())?;
        /// The classifier.
        classifier: Linear = init::linear(c.hidden_size, c.num_labels, true, c.initializer_range)?;
    }
    logits |m, output, _inputs| m.classifier.forward(&m.dropout.forward(output.pooled()?)?)
}

task_model! {
    /// BERT with a classifier of tokens: logits `[batch, length, num_labels]`.
    BertForTokenClassification(bert: BertModel, BertConfig) = |c| BertModel::without_pooler(c.clone())?;
    |_bert| {
        /// Ahead of the classifier.
        dropout: Dropout = Dropout::new(c.head_dropout())?;
        /// The classifier.
        classifier: Linear = init::linear(c.hidden_size, c.num_labels, true, c.initializer_range)?;
    }
    logits |m, output, _inputs| m.classifier.forward(&m.dropout.forward(&output.last_hidden_state)?)
}

task_model! {
    /// BERT that finds answers in texts: logits of the first and the last token of the answer.
    BertForQuestionAnswering(bert: BertModel, BertConfig) = |c| BertModel::without_pooler(c.clone())?;
    |_bert| {
        /// Two numbers for each token.
        qa_outputs: Linear = init::linear(c.hidden_size, c.num_labels, true, c.initializer_range)?;
    }
    spans |m, output, _inputs| m.qa_outputs.forward(&output.last_hidden_state)
}

pretrained! {
    base "bert", ignores [
        "embeddings.position_ids", "cls.seq_relationship.weight", "cls.seq_relationship.bias",
        "pooler.dense.weight", "pooler.dense.bias",
    ];
    BertModel(BertConfig), BertForMaskedLM(BertConfig), BertForSequenceClassification(BertConfig),
    BertForTokenClassification(BertConfig), BertForQuestionAnswering(BertConfig)
}

#[cfg(test)]
mod tests;
