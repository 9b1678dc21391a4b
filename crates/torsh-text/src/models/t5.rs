//! T5: an encoder-decoder with relative positions (Raffel et al., 2020).

use torsh_nn::{Embedding, Linear, Module};
use torsh_tensor::{Result, Tensor};

use super::causal::{head, padding_of, whole_step};
use super::pretrained;
use super::seq2seq::{needs_both, seq2seq_lm};
use super::t5_config::T5Config;
use super::t5_layers::T5Stack;
use super::text_model::{ModelInputs, ModelOutputs, TextModel};
use crate::blocks::{Padding, class};
use crate::generation::{DecoderStep, EncoderInput, EncoderState};

class! {
    /// The encoder of T5 alone.
    T5EncoderModel(T5Config), errors "A configuration whose numbers do not fit together."
    |c| {
        /// The tokens' vectors.
        pub shared: Embedding = c.embedding()?;
        /// The encoder.
        pub encoder: T5Stack = T5Stack::new(c, &shared, false)?;
    }
    forward |m, ids| m.encoder.forward(ids);
    named |m, inputs| {
        let padding = padding_of(inputs)?;
        let state = m.encoder.encode(inputs.input_ids()?, padding.as_ref())?;
        Ok(vec![("last_hidden_state", state.last_hidden_state)])
    }
}

/// T5 without head.
#[derive(Module)]
pub struct T5Model {
    /// The tokens' vectors.
    pub shared: Embedding,
    /// The encoder.
    pub encoder: T5Stack,
    /// The decoder.
    pub decoder: T5Stack,
    #[module(skip)]
    config: T5Config,
}

impl T5Model {
    /// A model with drawn weights.
    ///
    /// # Errors
    /// A configuration whose numbers do not fit together.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(config: T5Config) -> Result<T5Model> {
        let shared = config.embedding()?;
        Ok(T5Model {
            encoder: T5Stack::new(&config, &shared, false)?,
            decoder: T5Stack::new(&config, &shared, true)?,
            shared,
            config,
        })
    }

    /// The decoder's result `[batch, length, d_model]` and the encoder's.
    ///
    /// # Errors
    /// Ids outside of the vocabulary, and batches of different sizes.
    #[torsh_tensor::names_caller]
    pub fn forward_with(
        &self,
        input_ids: &Tensor,
        padding: Option<&Padding>,
        decoder_input_ids: &Tensor,
    ) -> Result<(Tensor, EncoderState)> {
        let state = self.encoder.encode(input_ids, padding)?;
        let step = DecoderStep {
            encoder: Some(&state),
            ..whole_step(decoder_input_ids, None)
        };
        Ok((self.decoder.decode(step)?, state))
    }
}

impl Module for T5Model {
    #[torsh_tensor::names_caller]
    fn forward(&self, _: &Tensor) -> Result<Tensor> {
        Err(needs_both("T5Model", "input_ids"))
    }
}

impl TextModel for T5Model {
    #[torsh_tensor::names_caller]
    fn forward_named(&self, inputs: &ModelInputs) -> Result<ModelOutputs> {
        let padding = padding_of(inputs)?;
        let (ids, decoder_ids) = (inputs.input_ids()?, inputs.decoder_input_ids()?);
        let (hidden, state) = self.forward_with(ids, padding.as_ref(), decoder_ids)?;
        Ok(vec![
            ("last_hidden_state", hidden),
            ("encoder_last_hidden_state", state.last_hidden_state),
        ])
    }
}

class! {
    /// T5 with a head that predicts the decoder's next token: translation, summaries, answers.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_tensor::tensor;
    /// use torsh_text::models::{T5Config, T5ForConditionalGeneration};
    /// let sizes = T5Config { d_model: 8, d_kv: 4, d_ff: 16, num_layers: 1, num_heads: 2, ..Default::default() };
    /// let config = T5Config { vocab_size: 11, decoder_start_token_id: Some(0), ..sizes };
    /// let model = T5ForConditionalGeneration::new(config)?;
    /// model.eval();
    /// let (logits, encoded) = model.forward_with(&tensor![[5, 6, 1]], None, &tensor![[0, 7]])?;
    /// assert_eq!((logits.dims(), encoded.last_hidden_state.dims()), (&[1, 2, 11][..], &[1, 3, 8][..]));
    /// assert_eq!(model.decoder_input_ids(&tensor![[7, 8, 1]])?, tensor![[0, 7, 8]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    T5ForConditionalGeneration(T5Config), errors "A configuration whose numbers do not fit together."
    |c| {
        /// The tokens' vectors.
        pub shared: Embedding = c.embedding()?;
        /// The encoder.
        pub encoder: T5Stack = T5Stack::new(c, &shared, false)?;
        /// The decoder.
        pub decoder: T5Stack = T5Stack::new(c, &shared, true)?;
        /// The head, which has the weight of the embedding unless a file has another.
        pub lm_head: Linear = head(&shared, true, c.initializer_factor)?;
    }
}

impl T5ForConditionalGeneration {
    /// Gives the head weights of its own: a copy of the embedding's. Nothing happens where it has its own, as behind
    /// `from_pretrained` of a file of T5 1.1.
    ///
    /// # Errors
    /// Too little memory.
    #[torsh_tensor::names_caller]
    pub fn untie_head(&mut self) -> Result<()> {
        match self.lm_head.weight.is_same(&self.shared.weight) {
            true => torsh_nn::module::untie(self, &["lm_head.weight"]),
            false => Ok(()),
        }
    }

    fn head(&self, hidden: &Tensor) -> Result<Tensor> {
        if !self.config.scales_outputs() {
            return self.lm_head.forward(hidden);
        }
        let scale = (self.config.d_model as f64).powf(-0.5);
        self.lm_head.forward(&hidden.mul(scale)?)
    }

    fn run_encoder(
        &self,
        input: EncoderInput<'_>,
        padding: Option<&Padding>,
    ) -> Result<EncoderState> {
        self.encoder.encode(input.ids("T5")?, padding)
    }

    fn run_decoder(&self, step: DecoderStep<'_>) -> Result<Tensor> {
        self.decoder.decode(step)
    }

    fn default_decoder_ids(&self, inputs: &ModelInputs) -> Result<Tensor> {
        inputs.decoder_input_ids().cloned()
    }
}

seq2seq_lm! {
    T5ForConditionalGeneration, reads ids input_ids, positions |_| None,
    layers |c: &T5Config| c.decoder_layers(), defaults |_| Default::default()
}

pretrained! {
    base "transformer", ignores ["EncDecAttention.relative_attention_bias.weight", "lm_head.weight"];
    T5Model(T5Config), T5ForConditionalGeneration(T5Config)
}

/// The encoder alone, for which files hold the decoder's weights as well.
pub(crate) mod encoder {
    use super::{T5Config, T5EncoderModel};

    crate::models::pretrained! {
        base "transformer", ignores [".weight"];
        T5EncoderModel(T5Config)
    }
}

#[cfg(test)]
mod tests;
