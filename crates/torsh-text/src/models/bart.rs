//! BART: an encoder-decoder that learns to mend texts (Lewis et al., 2020).

use torsh_functional as F;
use torsh_nn::{Buffer, Embedding, Hooks, LayerNorm, Linear, Module, Training};
use torsh_tensor::{Result, Tensor};

use super::causal::{check_positions, head, padding_of, whole_step};
use super::pretrained;
use super::seq2seq::{seq2seq_lm, shift_right};
use super::text_model::ModelInputs;
use crate::blocks::cross::{LayerOptions, SeqToSeqLayer, ids_shape, no_encoder, tied_embedding};
use crate::blocks::{
    Activation, AttentionMask, LayerRun, Layers, Padding, class, init, part, tokens,
};
use crate::config::{TokenIds, config};
use crate::generation::{DecoderStep, EncoderInput, EncoderState};

config! {
    /// The configuration of BART.
    /// The default is BART large.
    ///
    /// ```
    /// use torsh_nn::{ModuleExt, construct::Construction};
    /// use torsh_tensor::Device;
    /// use torsh_text::models::{BartConfig, BartForConditionalGeneration};
    /// let meta = Construction::new().device(Device::Meta);
    /// let model = meta.run(|| BartForConditionalGeneration::new(BartConfig::default()))?;
    /// assert_eq!(model.num_parameters(), 406_291_456);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    BartConfig: "bart" {
        vocab_size = 50265; max_position_embeddings = 1024; encoder_layers = 12; encoder_ffn_dim = 4096;
        encoder_attention_heads = 16; decoder_layers = 12; decoder_ffn_dim = 4096; decoder_attention_heads = 16;
        encoder_layerdrop = 0.0; decoder_layerdrop = 0.0; activation_function = Activation::Gelu;
        /// Channels of a token.
        d_model: usize = 1024;
        dropout = 0.1; attention_dropout = 0.0; activation_dropout = 0.0; init_std = 0.02;
        /// Dropout of a classification head.
        classifier_dropout: f64 = 0.0;
        /// Whether embeddings are multiplied with the root of `d_model`.
        scale_embedding: bool = false;
        pad_token_id = Some(1); bos_token_id = Some(0); eos_token_id = TokenIds::from(2);
        decoder_start_token_id = Some(2);
        /// The first token that is generated.
        forced_bos_token_id: TokenIds = TokenIds(Vec::new());
        /// The last token that is generated, at the greatest length.
        forced_eos_token_id: TokenIds = TokenIds::from(2);
        /// Whether the embeddings of encoder and decoder and the head are one table.
        tie_word_embeddings = true;
        num_labels = 3;
    }
    ignores [
        "classif_dropout", "extra_pos_embeddings", "force_bos_token_to_be_generated", "num_hidden_layers",
    ]
    requires {
        "add_bias_logits": false, "add_final_layer_norm": false, "is_decoder": false, "normalize_before": false,
        "normalize_embedding": true, "static_position_embeddings": false,
    }
}

impl BartConfig {
    fn layers(&self, decoder: bool) -> LayerOptions {
        LayerOptions {
            family: "BART",
            width: self.d_model,
            heads: if decoder {
                self.decoder_attention_heads
            } else {
                self.encoder_attention_heads
            },
            ffn: if decoder {
                self.decoder_ffn_dim
            } else {
                self.encoder_ffn_dim
            },
            key_bias: true,
            pre_norm: false,
            cross: decoder,
            activation: self.activation_function,
            dropout: self.dropout,
            attention_dropout: self.attention_dropout,
            activation_dropout: self.activation_dropout,
            std: self.init_std,
        }
    }

    fn embedding(&self) -> Result<Embedding> {
        init::embedding(
            self.vocab_size,
            self.d_model,
            self.pad_token_id,
            self.init_std,
        )
    }
}

/// How many rows of the table of positions lie ahead of the first position's.
const OFFSET: usize = 2;

part! {
    /// The encoder or the decoder of BART.
    pub BartStack(c: &BartConfig, shared: &Embedding, decoder: bool) first {
        let layers = if decoder {
            c.decoder_layers
        } else {
            c.encoder_layers
        };
        let positions = c.max_position_embeddings + OFFSET;
    } {
        /// The tokens' vectors.
        pub embed_tokens: Embedding = match c.tie_word_embeddings {
            true => tied_embedding(shared, c.pad_token_id)?,
            false => c.embedding()?,
        };
        /// The positions' vectors; that of position 0 is in row 2.
        pub embed_positions: Embedding = init::embedding(positions, c.d_model, None, c.init_std)?;
        /// The layers.
        pub layers: Layers<SeqToSeqLayer> = SeqToSeqLayer::stack(&c.layers(decoder), layers)?;
        /// The norm of the embeddings.
        pub layernorm_embedding: LayerNorm = init::layer_norm(c.d_model, 1e-5)?;
        #[module(skip)] config: BartConfig = c.clone();
        #[module(skip)] decoder: bool = decoder;
        training: Training = Training::default();
        hooks: Hooks = Hooks::new();
    }
    hooked |m, ids| m.run(whole_step(ids, None), None)
}

impl BartStack {
    fn run(&self, step: DecoderStep<'_>, encoder: Option<&EncoderState>) -> Result<Tensor> {
        let c = &self.config;
        check_positions("BART", &step, c.max_position_embeddings)?;
        let (_, count) = ids_shape("BART", step.input_ids)?;
        let past = step.past();
        let mut x = tokens::vectors(&self.embed_tokens, step.input_ids)?;
        if c.scale_embedding {
            x = x.mul((c.d_model as f64).sqrt())?;
        }
        // Padding counts as a position, as it did in training.
        let positions = self
            .embed_positions
            .weight
            .narrow(0, past + OFFSET, count)?;
        let x = self.layernorm_embedding.forward(&x.add(positions)?)?;
        let training = self.training.get();
        let x = F::dropout(&x, c.dropout, training)?;
        let keys = step.cache.as_ref().map_or(0, |cache| cache.past(0));
        let (mask, drop) = match self.decoder {
            true => (AttentionMask::causal(keys), c.decoder_layerdrop),
            false => (AttentionMask::full(), c.encoder_layerdrop),
        };
        let run = LayerRun::behind(step.cache).dropping(&self.training, drop);
        let mask = mask.padding(step.padding.cloned());
        SeqToSeqLayer::run_stack(&self.layers, x, mask, encoder, run)
    }
}

class! {
    /// BART without head.
    BartModel(BartConfig), errors "A configuration whose numbers do not fit together."
    |c| {
        /// The tokens' vectors.
        pub shared: Embedding = c.embedding()?;
        /// The encoder.
        pub encoder: BartStack = BartStack::new(c, &shared, false)?;
        /// The decoder.
        pub decoder: BartStack = BartStack::new(c, &shared, true)?;
    }
    /// The decoder's result where it reads the same tokens as the encoder, each one further.
    forward |m, ids| {
        let decoder_ids = m.decoder_ids(&ModelInputs::ids(ids.clone()))?;
        Ok(m.forward_with(ids, None, &decoder_ids)?.0)
    };
    named |m, inputs| {
        let (padding, decoder_ids) = (padding_of(inputs)?, m.decoder_ids(inputs)?);
        let (hidden, state) =
            m.forward_with(inputs.input_ids()?, padding.as_ref(), &decoder_ids)?;
        Ok(vec![
            ("last_hidden_state", hidden),
            ("encoder_last_hidden_state", state.last_hidden_state),
        ])
    }
}

impl BartModel {
    fn encode(&self, ids: &Tensor, padding: Option<&Padding>) -> Result<EncoderState> {
        Ok(EncoderState {
            last_hidden_state: self.encoder.run(whole_step(ids, padding), None)?,
            padding: padding.cloned(),
        })
    }

    fn decode(&self, step: DecoderStep<'_>) -> Result<Tensor> {
        let encoder = step.encoder.ok_or_else(|| no_encoder("BART"))?;
        self.decoder.run(step, Some(encoder))
    }

    /// The decoder's ids where none are given: the encoder's, each one further.
    pub(super) fn decoder_ids(&self, inputs: &ModelInputs) -> Result<Tensor> {
        let c = &self.config;
        match &inputs.decoder_input_ids {
            Some(ids) => Ok(ids.clone()),
            None => shift_right(
                "BART",
                inputs.input_ids()?,
                c.decoder_start_token_id,
                c.pad_token_id,
            ),
        }
    }

    /// The decoder's result `[batch, length, d_model]` and the encoder's.
    ///
    /// # Errors
    /// Ids outside of the vocabulary, more tokens than there are positions, and batches of different sizes.
    #[torsh_tensor::names_caller]
    pub fn forward_with(
        &self,
        input_ids: &Tensor,
        padding: Option<&Padding>,
        decoder_input_ids: &Tensor,
    ) -> Result<(Tensor, EncoderState)> {
        let state = self.encode(input_ids, padding)?;
        let step = DecoderStep {
            encoder: Some(&state),
            ..whole_step(decoder_input_ids, None)
        };
        Ok((self.decode(step)?, state))
    }
}

/// BART with a head that predicts the decoder's next token: summaries, translation.
///
/// ```
/// use torsh_nn::ModuleExt;
/// use torsh_tensor::tensor;
/// use torsh_text::models::{BartConfig, BartForConditionalGeneration};
/// let config = BartConfig {
///     d_model: 8, encoder_layers: 1, decoder_layers: 1, encoder_attention_heads: 2, decoder_attention_heads: 2,
///     encoder_ffn_dim: 16, decoder_ffn_dim: 16, vocab_size: 11, max_position_embeddings: 16, ..Default::default()
/// };
/// let model = BartForConditionalGeneration::new(config)?;
/// model.eval();
/// let (logits, encoded) = model.forward_with(&tensor![[0, 5, 6, 2]], None, &tensor![[2, 0, 5]])?;
/// assert_eq!((logits.dims(), encoded.last_hidden_state.dims()), (&[1, 3, 11][..], &[1, 4, 8][..]));
/// // Each token of the decoder is that of the label ahead.
/// assert_eq!(model.decoder_input_ids(&tensor![[0, 5, 2, -100]])?, tensor![[2, 0, 5, 2]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct BartForConditionalGeneration {
    /// The model without head.
    pub model: BartModel,
    final_logits_bias: Buffer,
    /// The head.
    pub lm_head: Linear,
    #[module(skip)]
    config: BartConfig,
}

impl BartForConditionalGeneration {
    /// A model with drawn weights.
    ///
    /// # Errors
    /// A configuration whose numbers do not fit together.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(config: BartConfig) -> Result<BartForConditionalGeneration> {
        let model = BartModel::new(config.clone())?;
        let like = &model.shared.weight;
        let bias = Tensor::zeros([1, config.vocab_size], like.dtype(), like.device())?;
        Ok(BartForConditionalGeneration {
            lm_head: head(&model.shared, config.tie_word_embeddings, config.init_std)?,
            final_logits_bias: Buffer::new(bias),
            model,
            config,
        })
    }

    fn head(&self, hidden: &Tensor) -> Result<Tensor> {
        self.lm_head.forward(hidden)?.add(&self.final_logits_bias)
    }

    fn run_encoder(
        &self,
        input: EncoderInput<'_>,
        padding: Option<&Padding>,
    ) -> Result<EncoderState> {
        self.model.encode(input.ids("BART")?, padding)
    }

    fn run_decoder(&self, step: DecoderStep<'_>) -> Result<Tensor> {
        self.model.decode(step)
    }

    fn default_decoder_ids(&self, inputs: &ModelInputs) -> Result<Tensor> {
        self.model.decoder_ids(inputs)
    }
}

seq2seq_lm! {
    BartForConditionalGeneration, reads ids input_ids,
    positions |c: &BartConfig| Some(c.max_position_embeddings),
    layers |c: &BartConfig| c.decoder_layers,
    defaults |c: &BartConfig| [
        ("forced_bos_token_id", &c.forced_bos_token_id),
        ("forced_eos_token_id", &c.forced_eos_token_id),
    ].into_iter().map(|(name, ids)| (name.to_string(), serde_json::json!(ids))).collect()
}

pretrained! {
    base "model", ignores ["encoder.version", "decoder.version", "final_logits_bias", "lm_head.weight"],
    defaults ["final_logits_bias"];
    BartModel(BartConfig), BartForConditionalGeneration(BartConfig)
}
