//! RoBERTa (Liu et al., "RoBERTa: A Robustly Optimized BERT Pretraining Approach", 2019), and XLM-RoBERTa (Conneau et
//! al., "Unsupervised Cross-lingual Representation Learning at Scale", 2019), which differs in its vocabulary alone.

use serde_json::{Map, Value};
use torsh_nn::{Dropout, Embedding, Hooks, LayerNorm, Linear, Module, Parameter, Training};
use torsh_tensor::{DType, Result, Tensor, TorshError};

use super::{Class, pretrained};
use crate::blocks::encoder::{
    BertEncoder, BertPooler, ClassificationHead, EmbeddingSizes, EncoderOutput, Layout,
    TokenInputs, bias, check_heads, decoder, embed, encoder_model, sizes, task_model,
};
use crate::blocks::{Activation, init};
use crate::config::{PretrainedConfig, config};

config! {
    /// The configuration of RoBERTa, by the names in `config.json`; `model_type` is `roberta` or `xlm-roberta`.
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

impl RobertaConfig {
    fn head_dropout(&self) -> f64 {
        self.classifier_dropout.unwrap_or(self.hidden_dropout_prob)
    }
}

/// The embeddings of [`RobertaModel`]: of tokens, parts of a pair, and positions.
#[derive(Module)]
pub struct RobertaEmbeddings {
    /// Of tokens.
    pub word_embeddings: Embedding,
    /// Of parts of a pair.
    pub token_type_embeddings: Embedding,
    /// The norm of their sum.
    #[module(rename = "LayerNorm")]
    pub layer_norm: LayerNorm,
    dropout: Dropout,
    /// Of positions; that of the padding token is zero.
    pub position_embeddings: Embedding,
    #[module(skip)]
    padding: i64,
    hooks: Hooks,
}

impl RobertaEmbeddings {
    fn new(s: &EmbeddingSizes, padding: i64) -> Result<RobertaEmbeddings> {
        let table = |rows, padding| init::embedding(rows, s.width, padding, s.std);
        Ok(RobertaEmbeddings {
            word_embeddings: table(s.vocab, Some(padding))?,
            token_type_embeddings: table(s.types, None)?,
            layer_norm: init::layer_norm(s.width, s.eps)?,
            dropout: Dropout::new(s.dropout)?,
            position_embeddings: table(s.positions, Some(padding))?,
            padding,
            hooks: Hooks::new(),
        })
    }

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
#[derive(Module)]
pub struct RobertaModel {
    /// The embeddings.
    pub embeddings: RobertaEmbeddings,
    /// The layers.
    pub encoder: BertEncoder,
    /// What makes a vector of a text.
    pub pooler: Option<BertPooler>,
    #[module(skip)]
    config: RobertaConfig,
    training: Training,
    hooks: Hooks,
}

impl RobertaModel {
    /// A model with drawn weights.
    ///
    /// # Errors
    /// Heads that do not divide the width, and a padding token outside of vocabulary or positions.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(config: RobertaConfig) -> Result<RobertaModel> {
        let mut model = RobertaModel::without_pooler(config)?;
        let c = &model.config;
        model.pooler = Some(BertPooler::new(c.hidden_size, c.initializer_range)?);
        Ok(model)
    }

    /// A model with drawn weights that gives no `pooler_output`, as it is under heads.
    ///
    /// # Errors
    /// As [`RobertaModel::new`].
    #[torsh_tensor::names_caller(Self)]
    pub fn without_pooler(config: RobertaConfig) -> Result<RobertaModel> {
        let c = &config;
        check_heads("RobertaModel", c.hidden_size, c.num_attention_heads)?;
        if c.pad_token_id < 0 {
            let why = format!(
                "pad_token_id = {}, from which positions count",
                c.pad_token_id
            );
            return Err(TorshError::invalid("RobertaModel", why));
        }
        let sizes = EmbeddingSizes {
            vocab: c.vocab_size,
            width: c.hidden_size,
            positions: c.max_position_embeddings,
            types: c.type_vocab_size,
            padding: Some(c.pad_token_id),
            dropout: c.hidden_dropout_prob,
            eps: c.layer_norm_eps,
            std: c.initializer_range,
        };
        Ok(RobertaModel {
            embeddings: RobertaEmbeddings::new(&sizes, c.pad_token_id)?,
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
        let layout = Layout::new("RobertaModel", &inputs, Some(self.embeddings.most()))?;
        let x = self.embeddings.run(&inputs, &layout)?;
        let mut output = EncoderOutput::of(layout.unpack(self.encoder.run(&x, &layout)?)?);
        if let Some(pooler) = &self.pooler {
            output.pooler_output = Some(pooler.forward(&output.last_hidden_state)?);
        }
        Ok(output)
    }
}

encoder_model!(RobertaModel);

/// The head of the masked language model: logits of each token of the vocabulary.
#[derive(Module)]
pub struct RobertaLMHead {
    bias: Parameter,
    dense: Linear,
    layer_norm: LayerNorm,
    decoder: Linear,
    hooks: Hooks,
}

impl RobertaLMHead {
    fn new(words: &Embedding, c: &RobertaConfig) -> Result<RobertaLMHead> {
        let (width, std) = (c.hidden_size, c.initializer_range);
        let bias = bias(c.vocab_size)?;
        Ok(RobertaLMHead {
            dense: init::linear(width, width, true, std)?,
            layer_norm: init::layer_norm(width, c.layer_norm_eps)?,
            decoder: decoder(words, Some(&bias), c.tie_word_embeddings, std)?,
            bias,
            hooks: Hooks::new(),
        })
    }
}

impl Module for RobertaLMHead {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let x = Activation::Gelu.apply(&self.dense.forward(x)?)?;
            self.decoder.forward(&self.layer_norm.forward(&x)?)
        })
    }
}

task_model! {
    /// RoBERTa as masked language model: logits `[batch, length, vocabulary]` of each position's token.
    RobertaForMaskedLM(roberta: RobertaModel, RobertaConfig) = |c| RobertaModel::without_pooler(c.clone())?;
    |base| {
        /// The head.
        lm_head: RobertaLMHead = RobertaLMHead::new(&base.embeddings.word_embeddings, c)?;
    }
    logits |m, output, _inputs| m.lm_head.forward(&output.last_hidden_state)
}

task_model! {
    /// RoBERTa with a classifier of texts on the first token: logits `[batch, num_labels]`.
    RobertaForSequenceClassification(roberta: RobertaModel, RobertaConfig) =
        |c| RobertaModel::without_pooler(c.clone())?;
    |_base| {
        /// The classifier.
        classifier: ClassificationHead = {
            let (dropout, tanh) = (c.head_dropout(), Activation::Tanh);
            ClassificationHead::new(c.hidden_size, c.num_labels, dropout, tanh, c.initializer_range)?
        };
    }
    logits |m, output, _inputs| m.classifier.forward(&output.last_hidden_state)
}

task_model! {
    /// RoBERTa with a classifier of tokens: logits `[batch, length, num_labels]`.
    RobertaForTokenClassification(roberta: RobertaModel, RobertaConfig) =
        |c| RobertaModel::without_pooler(c.clone())?;
    |_base| {
        /// Ahead of the classifier.
        dropout: Dropout = Dropout::new(c.head_dropout())?;
        /// The classifier.
        classifier: Linear = init::linear(c.hidden_size, c.num_labels, true, c.initializer_range)?;
    }
    logits |m, output, _inputs| m.classifier.forward(&m.dropout.forward(&output.last_hidden_state)?)
}

task_model! {
    /// RoBERTa that finds answers in texts: logits of the first and the last token of the answer.
    RobertaForQuestionAnswering(roberta: RobertaModel, RobertaConfig) =
        |c| RobertaModel::without_pooler(c.clone())?;
    |_base| {
        /// Two numbers for each token.
        qa_outputs: Linear = init::linear(c.hidden_size, c.num_labels, true, c.initializer_range)?;
    }
    spans |m, output, _inputs| m.qa_outputs.forward(&output.last_hidden_state)
}

pretrained! {
    base "roberta", ignores ["embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias"];
    RobertaModel(RobertaConfig), RobertaForMaskedLM(RobertaConfig), RobertaForSequenceClassification(RobertaConfig),
    RobertaForTokenClassification(RobertaConfig), RobertaForQuestionAnswering(RobertaConfig)
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
