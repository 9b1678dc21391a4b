//! What generation needs of a model.

use torsh_nn::{Module, ModuleExt};
use torsh_tensor::{Result, Tensor, TorshError};

use super::options::{GenerationOptions, SpecialTokens};
use crate::blocks::{CacheKind, KvCache, Padding};

/// Of which positions a step computes logits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Logits {
    /// Of the last position alone, as sampling needs.
    #[default]
    Last,
    /// Of all positions of the step.
    All,
}

/// What an encoder reads.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum EncoderInput<'a> {
    /// Token ids `[batch, length]` (int64).
    Ids(&'a Tensor),
    /// Features, as Whisper's spectrogram `[batch, mel bins, frames]`.
    Features(&'a Tensor),
}

/// What an encoder made of its input, which the decoder attends to.
#[derive(Clone, Debug)]
pub struct EncoderState {
    /// `[batch, length, width]`
    pub last_hidden_state: Tensor,
    /// The input's padding.
    pub padding: Option<Padding>,
}

/// One step of a decoder.
pub struct DecoderStep<'a> {
    /// The new tokens `[batch, tokens]` (int64).
    pub input_ids: &'a Tensor,
    /// The tokens before them; they are the first where it is `None`. The step's tokens are added to it.
    pub cache: Option<&'a mut KvCache>,
    /// The padding of all tokens, those in the cache and those of the step. Positions count from a sequence's first
    /// token.
    pub padding: Option<&'a Padding>,
    /// The encoder's result, in an encoder-decoder.
    pub encoder: Option<&'a EncoderState>,
    /// Of which positions logits are wanted.
    pub logits: Logits,
}

impl<'a> DecoderStep<'a> {
    /// A step without cache, padding and encoder.
    pub fn new(input_ids: &'a Tensor) -> DecoderStep<'a> {
        DecoderStep {
            input_ids,
            cache: None,
            padding: None,
            encoder: None,
            logits: Logits::Last,
        }
    }

    /// Runs the step between the model's forward hooks, as PyTorch's generation does, which calls the module: hooks see
    /// the token ids and the logits, and a sharded model gathers its weights.
    ///
    /// # Errors
    /// Those of [`GenerationModel::decode`] and of the hooks.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_tensor::tensor;
    /// use torsh_text::generation::DecoderStep;
    /// use torsh_text::models::{GPT2Config, GPT2LMHeadModel};
    /// let config = GPT2Config { n_embd: 8, n_layer: 1, n_head: 2, vocab_size: 11, ..Default::default() };
    /// let model = GPT2LMHeadModel::new(config)?;
    /// let _handle = model.register_forward_hook(|_, _, logits| logits.mul(0.0).map(Some))?;
    /// let ids = tensor![[1, 2]];
    /// assert_eq!(DecoderStep::new(&ids).run(&model)?.logits, torsh_tensor::zeros([1, 1, 11]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn run<M: GenerationModel + ?Sized>(self, model: &M) -> Result<DecoderOutput> {
        let mut hidden = None;
        let logits = model.run_with_hooks(self.input_ids, |input_ids| {
            let out = model.decode(DecoderStep { input_ids, ..self })?;
            hidden = Some(out.hidden);
            Ok(out.logits)
        })?;
        match hidden {
            Some(hidden) => Ok(DecoderOutput { logits, hidden }),
            None => unreachable!("the forward between hooks runs once"),
        }
    }

    /// How many tokens lie ahead of the step's.
    pub fn past(&self) -> usize {
        self.cache.as_ref().map_or(0, |c| c.len())
    }

    /// The positions of the step's tokens `[batch, tokens]`, or `[1, tokens]` where they are the same in all sequences:
    /// a sequence's first token, after its padding, is at 0; padding ahead of it too.
    ///
    /// # Errors
    /// Ids that are not `[batch, tokens]`.
    #[torsh_tensor::names_caller]
    pub fn positions(&self) -> Result<Tensor> {
        let &[batch, tokens] = self.input_ids.dims() else {
            return Err(TorshError::shape(
                "input_ids",
                format!("expected [batch, tokens], got {}", self.input_ids.shape()),
            ));
        };
        let past = self.past();
        let Some(padding) = self.padding else {
            let row: Vec<i64> = (past..past + tokens).map(|p| p as i64).collect();
            return Tensor::from_vec(row, &[1, tokens])?.to_device(self.input_ids.device());
        };
        let mut all = Vec::with_capacity(batch * tokens);
        for range in padding.ranges() {
            all.extend((past..past + tokens).map(|p| p.saturating_sub(range.start) as i64));
        }
        Tensor::from_vec(all, &[batch, tokens])?.to_device(self.input_ids.device())
    }
}

/// What a step gives.
pub struct DecoderOutput {
    /// `[batch, tokens, vocabulary]`, or `[batch, 1, vocabulary]` with [`Logits::Last`].
    pub logits: Tensor,
    /// The last layer's result `[batch, tokens, width]`.
    pub hidden: Tensor,
}

/// A model that continues texts: [`generate`](super::GenerationExt) works with every one.
///
/// The models of this crate implement it; so can others.
pub trait GenerationModel: Module {
    /// The size of the vocabulary.
    fn vocab_size(&self) -> usize;

    /// The most tokens of a text, where the model has positions for so many.
    fn max_positions(&self) -> Option<usize>;

    /// The tokens that begin, end and fill up texts.
    fn special_tokens(&self) -> SpecialTokens;

    /// Settings of generation in the model's configuration, as JSON: those that `generation_config.json` overrides.
    fn generation_defaults(&self) -> serde_json::Map<String, serde_json::Value> {
        serde_json::Map::new()
    }

    /// The settings of a call, for a model that reads them in a way of its own.
    fn adjust_options(&self, options: GenerationOptions) -> GenerationOptions {
        options
    }

    /// An empty cache whose layers with full attention are of `kind`.
    fn new_cache(&self, kind: CacheKind) -> KvCache;

    /// Whether there is an encoder.
    fn is_encoder_decoder(&self) -> bool {
        false
    }

    /// Runs the encoder.
    ///
    /// # Errors
    /// A model without one, and input that it does not take.
    fn encode(&self, input: EncoderInput<'_>, padding: Option<&Padding>) -> Result<EncoderState> {
        let _ = (input, padding);
        Err(TorshError::invalid(
            self.type_name(),
            "the model has no encoder",
        ))
    }

    /// Computes the logits of the next tokens.
    ///
    /// # Errors
    /// Ids outside of the vocabulary, more tokens than the model has positions, a cache of another model.
    fn decode(&self, step: DecoderStep<'_>) -> Result<DecoderOutput>;
}
