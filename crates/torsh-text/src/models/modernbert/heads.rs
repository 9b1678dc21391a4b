//! Heads of ModernBERT.

use torsh_nn::{Dropout, Hooks, LayerNorm, Linear, Module};
use torsh_tensor::{Result, Tensor};

use super::{ClassifierPooling, ModernBertConfig, ModernBertModel, checked};
use crate::blocks::encoder::{EncoderOutput, TokenInputs, decoder, task_models};
use crate::blocks::{Activation, part};

part! {
    /// The part of the heads ahead of their last layer: a linear layer, an activation and a norm.
    pub ModernBertPredictionHead(c: &ModernBertConfig) {
        dense: Linear = c.linear(c.hidden_size, c.hidden_size, c.classifier_bias, c.out_std())?;
        norm: LayerNorm = c.norm()?;
        #[module(skip)]
        activation: Activation = c.classifier_activation;
        hooks: Hooks = Hooks::new();
    }
    hooked |m, x| m.norm.forward(&m.activation.apply(&m.dense.forward(x)?)?)
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

task_models! {
    model: ModernBertModel(ModernBertConfig), spec checked, ignores [];
    /// ModernBERT as masked language model: logits `[batch, length, vocabulary]` of each position's token.
    ModernBertForMaskedLM: own(
        |c| {
            /// Ahead of the last layer.
            head: ModernBertPredictionHead = ModernBertPredictionHead::new(c)?;
            /// The layer that gives the logits.
            decoder: Linear = match c.tie_word_embeddings {
                false => c.linear(c.hidden_size, c.vocab_size, c.decoder_bias, c.out_std())?,
                true => {
                    let mut layer = decoder(&model.embeddings.tok_embeddings, None, true, 0.0)?;
                    if !c.decoder_bias {
                        layer.bias = None;
                    }
                    layer
                }
            };
        }
        logits |m, output, _inputs| m.decoder.forward(&m.head.forward(&output.last_hidden_state)?)
    );
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
    ModernBertForSequenceClassification: own(
        |c| {
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
    );
    /// ModernBERT with a classifier of tokens: logits `[batch, length, num_labels]`.
    ModernBertForTokenClassification: own(
        |c| {
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
    );
    /// ModernBERT that finds answers in texts: logits of the first and the last token of the answer.
    ModernBertForQuestionAnswering: own(
        |c| {
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
    );
}
