//! ELECTRA (Clark et al., "ELECTRA: Pre-training Text Encoders as Discriminators Rather Than Generators", 2020).

use serde_json::{Map, Value};
use torsh_nn::{Dropout, Hooks, LayerNorm, Linear, Module, Training};
use torsh_tensor::{Result, Tensor};

use super::pretrained;
use crate::blocks::encoder::{
    BertEmbeddings, BertEncoder, ClassificationHead, EncoderOutput, Layout, TokenInputs,
    check_heads, decoder, encoder_model, sizes, task_model,
};
use crate::blocks::{Activation, init};
use crate::config::config;

config! {
    /// The configuration of ELECTRA, by the names in `config.json`.
    ElectraConfig: "electra" {
        vocab_size = 30522; embedding_size = 128; hidden_size = 256; num_hidden_layers = 12; num_attention_heads = 4;
        intermediate_size = 1024;
        /// The activation of feed-forward layers and of the discriminator's head.
        hidden_act = Activation::Gelu;
        hidden_dropout_prob = 0.1; attention_probs_dropout_prob = 0.1; max_position_embeddings = 512;
        type_vocab_size = 2; initializer_range = 0.02; layer_norm_eps = 1e-12;
        /// Fills up a batch; its embedding is not trained.
        pad_token_id = Some(0);
        classifier_dropout = None; tie_word_embeddings = true; num_labels = 2;
    }
    ignores [
        "bos_token_id", "eos_token_id", "summary_activation", "summary_first_dropout", "summary_last_dropout",
        "summary_type", "summary_use_proj",
    ]
    requires {
        "add_cross_attention": false, "is_decoder": false, "position_embedding_type": "absolute",
        "pruned_heads": Map::<String, Value>::new(),
    }
}

impl ElectraConfig {
    fn head_dropout(&self) -> f64 {
        self.classifier_dropout.unwrap_or(self.hidden_dropout_prob)
    }
}

/// ELECTRA without head: BERT without pooler, whose embeddings may be narrower than its layers.
///
/// ```
/// use torsh_nn::{Module, ModuleExt};
/// use torsh_tensor::tensor;
/// use torsh_text::models::{ElectraConfig, ElectraModel};
/// let config = ElectraConfig {
///     embedding_size: 4,
///     hidden_size: 8,
///     num_hidden_layers: 1,
///     num_attention_heads: 2,
///     intermediate_size: 16,
///     vocab_size: 20,
///     ..Default::default()
/// };
/// let model = ElectraModel::new(config)?;
/// model.eval();
/// let both = model.forward(&tensor![[2, 5, 6, 3], [2, 7, 8, 3]])?;
/// assert_eq!(both.dims(), [2, 4, 8]);
/// assert!(model.forward(&tensor![[2, 7, 8, 3]])?.allclose(&both.narrow(0, 1, 1)?)?);
/// // From the width of the embeddings to that of the layers.
/// assert_eq!(model.state_dict()["embeddings_project.weight"].dims(), [8, 4]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct ElectraModel {
    /// The embeddings.
    pub embeddings: BertEmbeddings,
    /// From the width of the embeddings to the model's, where they differ.
    pub embeddings_project: Option<Linear>,
    /// The layers.
    pub encoder: BertEncoder,
    #[module(skip)]
    config: ElectraConfig,
    training: Training,
    hooks: Hooks,
}

impl ElectraModel {
    /// A model with drawn weights.
    ///
    /// # Errors
    /// Heads that do not divide the width, and a padding token outside of the vocabulary.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(config: ElectraConfig) -> Result<ElectraModel> {
        let c = &config;
        let (from, to) = (c.embedding_size, c.hidden_size);
        check_heads("ElectraModel", to, c.num_attention_heads)?;
        let embeddings_project = match from == to {
            true => None,
            false => Some(init::linear(from, to, true, c.initializer_range)?),
        };
        Ok(ElectraModel {
            embeddings: BertEmbeddings::new(&sizes!(embedding c, from))?,
            embeddings_project,
            encoder: BertEncoder::new(c.num_hidden_layers, &sizes!(layer c))?,
            config,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }

    /// The vectors of tokens.
    ///
    /// # Errors
    /// Ids outside of the vocabulary, more tokens than positions, shapes that differ.
    #[torsh_tensor::names_caller]
    pub fn forward_with(&self, inputs: TokenInputs<'_>) -> Result<EncoderOutput> {
        let most = self.config.max_position_embeddings;
        let layout = Layout::new("ElectraModel", &inputs, Some(most))?;
        let mut x = self.embeddings.run(&inputs, &layout)?;
        if let Some(project) = &self.embeddings_project {
            x = project.forward(&x)?;
        }
        Ok(EncoderOutput::of(
            layout.unpack(self.encoder.run(&x, &layout)?)?,
        ))
    }
}

encoder_model!(ElectraModel);

/// The head of [`ElectraForPreTraining`]: one number for each token.
#[derive(Module)]
pub struct ElectraDiscriminatorPredictions {
    dense: Linear,
    dense_prediction: Linear,
    #[module(skip)]
    activation: Activation,
    hooks: Hooks,
}

impl ElectraDiscriminatorPredictions {
    fn new(c: &ElectraConfig) -> Result<ElectraDiscriminatorPredictions> {
        let (width, std) = (c.hidden_size, c.initializer_range);
        Ok(ElectraDiscriminatorPredictions {
            dense: init::linear(width, width, true, std)?,
            dense_prediction: init::linear(width, 1, true, std)?,
            activation: c.hidden_act,
            hooks: Hooks::new(),
        })
    }
}

impl Module for ElectraDiscriminatorPredictions {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let x = self.activation.apply(&self.dense.forward(x)?)?;
            self.dense_prediction.forward(&x)?.squeeze(-1)
        })
    }
}

/// A part of the head of [`ElectraForMaskedLM`]: from the model's width to that of the embeddings.
#[derive(Module)]
pub struct ElectraGeneratorPredictions {
    #[module(rename = "LayerNorm")]
    layer_norm: LayerNorm,
    dense: Linear,
    hooks: Hooks,
}

impl ElectraGeneratorPredictions {
    fn new(c: &ElectraConfig) -> Result<ElectraGeneratorPredictions> {
        Ok(ElectraGeneratorPredictions {
            layer_norm: init::layer_norm(c.embedding_size, c.layer_norm_eps)?,
            dense: init::linear(c.hidden_size, c.embedding_size, true, c.initializer_range)?,
            hooks: Hooks::new(),
        })
    }
}

impl Module for ElectraGeneratorPredictions {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let x = Activation::Gelu.apply(&self.dense.forward(x)?)?;
            self.layer_norm.forward(&x)
        })
    }
}

task_model! {
    /// ELECTRA as discriminator: logits `[batch, length]`, larger where a token was replaced.
    ///
    /// ```
    /// use torsh_nn::Module;
    /// use torsh_text::models::{ElectraConfig, ElectraForPreTraining};
    /// let config = ElectraConfig {
    ///     hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 16, vocab_size: 20,
    ///     ..Default::default()
    /// };
    /// let model = ElectraForPreTraining::new(config)?;
    /// assert_eq!(model.forward(&torsh_tensor::tensor![[2, 4, 3]])?.dims(), [1, 3]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ElectraForPreTraining(electra: ElectraModel, ElectraConfig) = |c| ElectraModel::new(c.clone())?;
    |_base| {
        /// The head.
        discriminator_predictions: ElectraDiscriminatorPredictions = ElectraDiscriminatorPredictions::new(c)?;
    }
    logits |m, output, _inputs| m.discriminator_predictions.forward(&output.last_hidden_state)
}

task_model! {
    /// ELECTRA as masked language model, its generator: logits `[batch, length, vocabulary]` of each position's token.
    ElectraForMaskedLM(electra: ElectraModel, ElectraConfig) = |c| ElectraModel::new(c.clone())?;
    |base| {
        /// From the model's width to that of the embeddings.
        generator_predictions: ElectraGeneratorPredictions = ElectraGeneratorPredictions::new(c)?;
        /// The layer that gives the logits.
        generator_lm_head: Linear = {
            let words = &base.embeddings.word_embeddings;
            decoder(words, None, c.tie_word_embeddings, c.initializer_range)?
        };
    }
    logits |m, output, _inputs| {
        let x = m.generator_predictions.forward(&output.last_hidden_state)?;
        m.generator_lm_head.forward(&x)
    }
}

task_model! {
    /// ELECTRA with a classifier of texts on the first token: logits `[batch, num_labels]`.
    ElectraForSequenceClassification(electra: ElectraModel, ElectraConfig) = |c| ElectraModel::new(c.clone())?;
    |_base| {
        /// The classifier.
        classifier: ClassificationHead = {
            let (dropout, gelu) = (c.head_dropout(), Activation::Gelu);
            ClassificationHead::new(c.hidden_size, c.num_labels, dropout, gelu, c.initializer_range)?
        };
    }
    logits |m, output, _inputs| m.classifier.forward(&output.last_hidden_state)
}

task_model! {
    /// ELECTRA with a classifier of tokens: logits `[batch, length, num_labels]`.
    ElectraForTokenClassification(electra: ElectraModel, ElectraConfig) = |c| ElectraModel::new(c.clone())?;
    |_base| {
        /// Ahead of the classifier.
        dropout: Dropout = Dropout::new(c.head_dropout())?;
        /// The classifier.
        classifier: Linear = init::linear(c.hidden_size, c.num_labels, true, c.initializer_range)?;
    }
    logits |m, output, _inputs| m.classifier.forward(&m.dropout.forward(&output.last_hidden_state)?)
}

task_model! {
    /// ELECTRA that finds answers in texts: logits of the first and the last token of the answer.
    ElectraForQuestionAnswering(electra: ElectraModel, ElectraConfig) = |c| ElectraModel::new(c.clone())?;
    |_base| {
        /// Two numbers for each token.
        qa_outputs: Linear = init::linear(c.hidden_size, c.num_labels, true, c.initializer_range)?;
    }
    spans |m, output, _inputs| m.qa_outputs.forward(&output.last_hidden_state)
}

pretrained! {
    base "electra", ignores ["embeddings.position_ids"];
    ElectraModel(ElectraConfig), ElectraForPreTraining(ElectraConfig), ElectraForMaskedLM(ElectraConfig),
    ElectraForSequenceClassification(ElectraConfig), ElectraForTokenClassification(ElectraConfig),
    ElectraForQuestionAnswering(ElectraConfig)
}
