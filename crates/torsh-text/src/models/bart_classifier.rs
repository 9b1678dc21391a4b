//! BART with a head that classifies texts.

use torsh_nn::{Dropout, Hooks, Linear, Module};
use torsh_tensor::{Result, Tensor, TorshError};

use super::bart::{BartConfig, BartModel};
use super::causal::{padding_of, rows_at};
use super::pretrained;
use super::text_model::{ModelInputs, ModelOutputs, TextModel};
use crate::blocks::{Padding, init};
use crate::generation::EncoderState;

#[derive(Module)]
struct BartClassificationHead {
    dense: Linear,
    dropout: Dropout,
    out_proj: Linear,
}

impl Module for BartClassificationHead {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let y = self.dense.forward(&self.dropout.forward(x)?)?.tanh()?;
        self.out_proj.forward(&self.dropout.forward(&y)?)
    }
}

/// BART that classifies texts, by the decoder's result at the last token that ends a text.
#[derive(Module)]
pub struct BartForSequenceClassification {
    /// The model without head.
    pub model: BartModel,
    classification_head: BartClassificationHead,
    #[module(skip)]
    pub(super) config: BartConfig,
    hooks: Hooks,
}

impl BartForSequenceClassification {
    /// A model with drawn weights.
    ///
    /// # Errors
    /// A configuration whose numbers do not fit together.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(config: BartConfig) -> Result<BartForSequenceClassification> {
        Ok(BartForSequenceClassification {
            model: BartModel::new(config.clone())?,
            classification_head: BartClassificationHead {
                dense: init::linear(config.d_model, config.d_model, true, config.init_std)?,
                dropout: Dropout::new(config.classifier_dropout)?,
                out_proj: init::linear(config.d_model, config.num_labels, true, config.init_std)?,
            },
            config,
            hooks: Hooks::new(),
        })
    }

    /// The logits `[batch, classes]` and the encoder's result.
    ///
    /// # Errors
    /// Texts that do not end, or not as often as one another, and as [`BartModel::forward_with`].
    #[torsh_tensor::names_caller]
    pub fn forward_with(
        &self,
        input_ids: &Tensor,
        padding: Option<&Padding>,
        decoder_input_ids: &Tensor,
    ) -> Result<(Tensor, EncoderState)> {
        let Some(eos) = self.config.eos_token_id.first() else {
            return Err(TorshError::invalid(
                "BartForSequenceClassification",
                "the configuration has no eos_token_id, at which texts are classified",
            ));
        };
        let rows = input_ids.to_vec2::<i64>()?;
        let ends = |row: &Vec<i64>| row.iter().filter(|&&id| id == eos).count();
        let first = rows.first().map_or(0, ends);
        if first == 0 || rows.iter().any(|row| ends(row) != first) {
            let why = format!("each text needs the token {eos} that ends it, all equally often");
            return Err(TorshError::invalid("BartForSequenceClassification", why));
        }
        let last = |row: &Vec<i64>| row.iter().rposition(|&id| id == eos).unwrap_or(0);
        let (hidden, state) = self
            .model
            .forward_with(input_ids, padding, decoder_input_ids)?;
        let at = rows_at(&hidden, &rows.iter().map(last).collect::<Vec<_>>())?;
        Ok((self.classification_head.forward(&at)?, state))
    }
}

impl Module for BartForSequenceClassification {
    /// The logits `[batch, classes]`.
    #[torsh_tensor::names_caller]
    fn forward(&self, input_ids: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, input_ids, |ids| {
            let decoder_ids = self.model.decoder_ids(&ModelInputs::ids(ids.clone()))?;
            Ok(self.forward_with(ids, None, &decoder_ids)?.0)
        })
    }
}

impl TextModel for BartForSequenceClassification {
    #[torsh_tensor::names_caller]
    fn forward_named(&self, inputs: &ModelInputs) -> Result<ModelOutputs> {
        let (padding, decoder_ids) = (padding_of(inputs)?, self.model.decoder_ids(inputs)?);
        let (logits, state) =
            self.forward_with(inputs.input_ids()?, padding.as_ref(), &decoder_ids)?;
        Ok(vec![
            ("logits", logits),
            ("encoder_last_hidden_state", state.last_hidden_state),
        ])
    }
}

pretrained! {
    base "model", ignores ["encoder.version", "decoder.version", "final_logits_bias", "lm_head.weight"],
    defaults ["final_logits_bias"];
    BartForSequenceClassification(BartConfig)
}
