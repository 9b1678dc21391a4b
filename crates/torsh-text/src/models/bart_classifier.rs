//! BART with a head that classifies texts.

use torsh_nn::{Dropout, Linear, Module};
use torsh_tensor::{Result, Tensor, TorshError};

use super::bart::{BartConfig, BartModel};
use super::causal::{padding_of, rows_at};
use super::pretrained;
use super::text_model::ModelInputs;
use crate::blocks::{Padding, class, init};
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

class! {
    /// BART that classifies texts, by the decoder's result at the last token that ends a text.
    BartForSequenceClassification(BartConfig), errors "A configuration whose numbers do not fit together."
    |c| {
        /// The model without head.
        pub model: BartModel = BartModel::new(c.clone())?;
        classification_head: BartClassificationHead = BartClassificationHead {
            dense: init::linear(c.d_model, c.d_model, true, c.init_std)?,
            dropout: Dropout::new(c.classifier_dropout)?,
            out_proj: init::linear(c.d_model, c.num_labels, true, c.init_std)?,
        };
    }
    /// The logits `[batch, classes]`.
    forward |m, ids| {
        let decoder_ids = m.model.decoder_ids(&ModelInputs::ids(ids.clone()))?;
        Ok(m.forward_with(ids, None, &decoder_ids)?.0)
    };
    named |m, inputs| {
        let (padding, decoder_ids) = (padding_of(inputs)?, m.model.decoder_ids(inputs)?);
        let (logits, state) =
            m.forward_with(inputs.input_ids()?, padding.as_ref(), &decoder_ids)?;
        Ok(vec![
            ("logits", logits),
            ("encoder_last_hidden_state", state.last_hidden_state),
        ])
    }
}

impl BartForSequenceClassification {
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

pretrained! {
    base "model", ignores ["encoder.version", "decoder.version", "final_logits_bias", "lm_head.weight"],
    defaults ["final_logits_bias"];
    BartForSequenceClassification(BartConfig)
}
