//! Heads of ModernBERT.

use torsh_nn::{Dropout, Hooks, LayerNorm, Linear, Module};
use torsh_tensor::{Result, Tensor};

use super::{ClassifierPooling, ModernBertConfig, ModernBertModel};
use crate::blocks::Activation;
use crate::blocks::encoder::{EncoderOutput, TokenInputs, decoder, task_model};
use crate::models::pretrained;

/// The part of the heads ahead of their last layer: a linear layer, an activation and a norm.
#[derive(Module)]
pub struct ModernBertPredictionHead {
    dense: Linear,
    norm: LayerNorm,
    #[module(skip)]
    activation: Activation,
    hooks: Hooks,
}

impl ModernBertPredictionHead {
    fn new(c: &ModernBertConfig) -> Result<ModernBertPredictionHead> {
        let width = c.hidden_size;
        Ok(ModernBertPredictionHead {
            dense: c.linear(width, width, c.classifier_bias, c.out_std())?,
            norm: c.norm()?,
            activation: c.classifier_activation,
            hooks: Hooks::new(),
        })
    }
}

impl Module for ModernBertPredictionHead {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let x = self.activation.apply(&self.dense.forward(x)?)?;
            self.norm.forward(&x)
        })
    }
}

/// What a classifier of texts sees of the tokens.
fn pooled(
    pooling: ClassifierPooling,
    output: &EncoderOutput,
    inputs: &TokenInputs<'_>,
) -> Result<Tensor> {
    let all = &output.last_hidden_state;
    match (pooling, inputs.attention_mask) {
        (ClassifierPooling::Cls, _) => output.first(),
        (ClassifierPooling::Mean, None) => all.mean_dim(1, false),
        (ClassifierPooling::Mean, Some(mask)) => {
            let mask = mask.to_dtype(all.dtype())?;
            let sum = all.mul(&mask.unsqueeze(-1)?)?.sum_dim(1, false)?;
            sum.div(&mask.sum_dim(1, true)?)
        }
    }
}

task_model! {
    /// ModernBERT as masked language model: logits `[batch, length, vocabulary]` of each position's token.
    ModernBertForMaskedLM(model: ModernBertModel, ModernBertConfig) = |c| ModernBertModel::new(c.clone())?;
    |base| {
        /// Ahead of the last layer.
        head: ModernBertPredictionHead = ModernBertPredictionHead::new(c)?;
        /// The layer that gives the logits.
        decoder: Linear = match c.tie_word_embeddings {
            false => c.linear(c.hidden_size, c.vocab_size, c.decoder_bias, c.out_std())?,
            true => {
                let mut layer = decoder(&base.embeddings.tok_embeddings, None, true, 0.0)?;
                if !c.decoder_bias {
                    layer.bias = None;
                }
                layer
            }
        };
    }
    logits |m, output, _inputs| m.decoder.forward(&m.head.forward(&output.last_hidden_state)?)
}

task_model! {
    /// ModernBERT with a classifier of texts, on what `classifier_pooling` says: logits `[batch, num_labels]`.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_text::models::{ClassifierPooling, ModernBertConfig, ModernBertForSequenceClassification, TokenInputs};
    /// let config = ModernBertConfig {
    ///     hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 12, vocab_size: 20,
    ///     pad_token_id: Some(0), classifier_pooling: ClassifierPooling::Mean, num_labels: 3,
    ///     ..Default::default()
    /// };
    /// let model = ModernBertForSequenceClassification::new(config)?;
    /// let (ids, mask) = (tensor![[2, 5, 3], [2, 3, 0]], tensor![[1, 1, 1], [1, 1, 0]]);
    /// assert_eq!(model.forward_with(TokenInputs::new(&ids).attention_mask(&mask))?.dims(), [2, 3]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ModernBertForSequenceClassification(model: ModernBertModel, ModernBertConfig) =
        |c| ModernBertModel::new(c.clone())?;
    |_base| {
        /// Ahead of the classifier.
        head: ModernBertPredictionHead = ModernBertPredictionHead::new(c)?;
        /// Behind it.
        drop: Dropout = Dropout::new(c.classifier_dropout)?;
        /// The classifier.
        classifier: Linear = c.classifier()?;
    }
    logits |m, output, inputs| {
        let x = pooled(m.config.classifier_pooling, output, &inputs)?;
        m.classifier.forward(&m.drop.forward(&m.head.forward(&x)?)?)
    }
}

task_model! {
    /// ModernBERT with a classifier of tokens: logits `[batch, length, num_labels]`.
    ModernBertForTokenClassification(model: ModernBertModel, ModernBertConfig) =
        |c| ModernBertModel::new(c.clone())?;
    |_base| {
        /// Ahead of the classifier.
        head: ModernBertPredictionHead = ModernBertPredictionHead::new(c)?;
        /// Behind it.
        drop: Dropout = Dropout::new(c.classifier_dropout)?;
        /// The classifier.
        classifier: Linear = c.classifier()?;
    }
    logits |m, output, _inputs| {
        let x = m.head.forward(&output.last_hidden_state)?;
        m.classifier.forward(&m.drop.forward(&x)?)
    }
}

task_model! {
    /// ModernBERT that finds answers in texts: logits of the first and the last token of the answer.
    ModernBertForQuestionAnswering(model: ModernBertModel, ModernBertConfig) =
        |c| ModernBertModel::new(c.clone())?;
    |_base| {
        /// Ahead of the last layer.
        head: ModernBertPredictionHead = ModernBertPredictionHead::new(c)?;
        /// Behind it.
        drop: Dropout = Dropout::new(c.classifier_dropout)?;
        /// Two numbers for each token.
        classifier: Linear = c.classifier()?;
    }
    spans |m, output, _inputs| {
        let x = m.head.forward(&output.last_hidden_state)?;
        m.classifier.forward(&m.drop.forward(&x)?)
    }
}

pretrained! {
    base "model", ignores [];
    ModernBertModel(ModernBertConfig), ModernBertForMaskedLM(ModernBertConfig),
    ModernBertForSequenceClassification(ModernBertConfig), ModernBertForTokenClassification(ModernBertConfig),
    ModernBertForQuestionAnswering(ModernBertConfig)
}
