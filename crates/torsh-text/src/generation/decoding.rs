//! A model at work: its cache, its padding, its encoder's result.

use torsh_core::{DType, Device};
use torsh_nn::ModuleExt;
use torsh_tensor::{Result, Tensor, TorshError};

use super::inputs::GenerateInputs;
use super::model::{
    DecoderOutput, DecoderStep, EncoderInput, EncoderState, GenerationModel, Logits,
};
use super::options::{CacheImplementation, GenerationOptions, Settings, SpecialTokens};
use crate::blocks::{CacheKind, KvCache, Padding};

/// What generation calls of a model, for references to models of any kind.
pub(super) trait Decoder {
    fn vocab_size(&self) -> usize;
    fn max_positions(&self) -> Option<usize>;
    fn special_tokens(&self) -> SpecialTokens;
    fn defaults(&self) -> Result<GenerationOptions>;
    fn adjusted(&self, options: GenerationOptions) -> GenerationOptions;
    fn new_cache(&self, kind: CacheKind) -> KvCache;
    fn is_encoder_decoder(&self) -> bool;
    fn encode(&self, input: EncoderInput<'_>, padding: Option<&Padding>) -> Result<EncoderState>;
    fn decode(&self, step: DecoderStep<'_>) -> Result<DecoderOutput>;
    fn device(&self) -> Option<Device>;
}

impl<M: GenerationModel + ?Sized> Decoder for &M {
    fn vocab_size(&self) -> usize {
        (**self).vocab_size()
    }

    fn max_positions(&self) -> Option<usize> {
        (**self).max_positions()
    }

    fn special_tokens(&self) -> SpecialTokens {
        (**self).special_tokens()
    }

    fn defaults(&self) -> Result<GenerationOptions> {
        GenerationOptions::from_json((**self).generation_defaults().into())
    }

    fn adjusted(&self, options: GenerationOptions) -> GenerationOptions {
        (**self).adjust_options(options)
    }

    fn new_cache(&self, kind: CacheKind) -> KvCache {
        (**self).new_cache(kind)
    }

    fn is_encoder_decoder(&self) -> bool {
        (**self).is_encoder_decoder()
    }

    fn encode(&self, input: EncoderInput<'_>, padding: Option<&Padding>) -> Result<EncoderState> {
        (**self).encode(input, padding)
    }

    fn decode(&self, step: DecoderStep<'_>) -> Result<DecoderOutput> {
        step.run(*self)
    }

    fn device(&self) -> Option<Device> {
        self.parameters().first().map(|p| p.device())
    }
}

fn invalid(why: String) -> TorshError {
    TorshError::invalid("generate", why)
}

/// Rows of ids as a tensor `[rows, tokens]`.
pub(super) fn ids_tensor(rows: &[Vec<i64>], from: usize, device: Device) -> Result<Tensor> {
    let tokens = rows
        .first()
        .map_or(0, |row| row.len() - from.min(row.len()));
    let ids: Vec<i64> = rows
        .iter()
        .flat_map(|row| &row[row.len() - tokens..])
        .copied()
        .collect();
    Tensor::from_vec(ids, [rows.len(), tokens])?.to_device(device)
}

fn rows_of(name: &str, ids: &Tensor) -> Result<Vec<Vec<i64>>> {
    match ids.dims() {
        [_, _] if ids.dtype() != DType::Bool && !ids.dtype().is_floating_point() => ids.to_vec2(),
        _ => Err(TorshError::shape(
            "generate",
            format!(
                "expected {name} [batch, tokens] of whole numbers, got {} {}",
                ids.dtype(),
                ids.shape()
            ),
        )),
    }
}

/// Whether all ids are in the vocabulary.
fn check_ids(name: &str, rows: &[Vec<i64>], vocab: usize) -> Result<()> {
    for (row, ids) in rows.iter().enumerate() {
        let bad = ids.iter().position(|&id| id < 0 || id >= vocab as i64);
        if let Some(at) = bad {
            return Err(TorshError::index(
                "generate",
                format!(
                    "{name}[{row}, {at}] is the token {}, and the vocabulary has {vocab}",
                    ids[at]
                ),
            )
            .with_hint("use the tokenizer that belongs to the model"));
        }
    }
    Ok(())
}

/// A prompt that is ready: the rows that will grow, the settings, and the model at work.
pub(super) struct Prompt<'a> {
    pub(super) rows: Vec<Vec<i64>>,
    pub(super) settings: Settings,
    pub(super) decoding: Decoding<'a>,
    /// The encoder's tokens, or the prompt's.
    pub(super) encoder_ids: Option<Vec<Vec<i64>>>,
}

impl<'a> Prompt<'a> {
    pub(super) fn new(
        model: Box<dyn Decoder + 'a>,
        inputs: &mut GenerateInputs<'_>,
        options: &GenerationOptions,
    ) -> Result<Prompt<'a>> {
        let options = model.adjusted(options.clone().or(&model.defaults()?));
        let special = model.special_tokens();
        let bos = options.bos_token_id.or(special.bos);
        let vocab = model.vocab_size();
        let ids = match &inputs.input_ids {
            Some(ids) => Some(rows_of("input_ids", ids)?),
            None => None,
        };
        let given = [
            &inputs.input_ids,
            &inputs.input_features,
            &inputs.decoder_input_ids,
        ];
        let device = model
            .device()
            .or(given.iter().find_map(|t| t.as_ref().map(Tensor::device)));
        let device = device.unwrap_or(Device::Cpu);
        let mut encoder = None;
        let (mut rows, padding, encoder_ids) = if model.is_encoder_decoder() {
            let (state, from_text) = encoder_state(&*model, inputs, ids.as_deref(), device)?;
            let batch = state.last_hidden_state.dims().first().copied().unwrap_or(0);
            encoder = Some(state);
            let start = options
                .decoder_start_token_id
                .or(special.decoder_start)
                .or(bos);
            let rows = decoder_prompt(inputs, start, batch, from_text)?;
            (rows, None, ids)
        } else {
            if inputs.input_features.is_some() || inputs.decoder_input_ids.is_some() {
                return Err(invalid(
                    "input_features and decoder_input_ids are for encoder-decoders".into(),
                ));
            }
            let rows = match (ids, bos) {
                (Some(rows), _) => rows,
                (None, Some(bos)) => vec![vec![bos]],
                (None, None) => {
                    return Err(invalid(
                        "there is no prompt, and the model has no bos_token_id".into(),
                    ));
                }
            };
            let pad = options.pad_token_id.or(special.pad);
            let eos = &options.eos_token_id.as_ref().unwrap_or(&special.eos).0;
            let padding = prompt_padding(inputs.attention_mask.as_ref(), &rows, pad, eos)?;
            let prompt = rows.clone();
            (rows, padding, Some(prompt))
        };
        if rows.is_empty() || rows[0].is_empty() {
            return Err(invalid(format!(
                "a prompt of {} texts of {} tokens",
                rows.len(),
                rows.first().map_or(0, Vec::len)
            )));
        }
        check_ids("input_ids", &rows, vocab)?;
        if let Some(ids) = &encoder_ids {
            check_ids("input_ids", ids, vocab)?;
        }
        let settings = Settings::new(options, &special, model.max_positions(), rows[0].len())?;
        let cache = prompt_cache(&*model, inputs.cache.take(), &settings, &mut rows)?;
        let decoding = Decoding {
            model,
            cache,
            padding,
            prompt_len: settings.prompt_len,
            encoder,
            device,
        };
        Ok(Prompt {
            rows,
            settings,
            decoding,
            encoder_ids,
        })
    }
}

/// The encoder's result, and whether it is of a text.
pub(super) fn encoder_state(
    model: &dyn Decoder,
    inputs: &mut GenerateInputs<'_>,
    ids: Option<&[Vec<i64>]>,
    device: Device,
) -> Result<(EncoderState, bool)> {
    if let Some(state) = inputs.encoder.take() {
        return Ok((state, ids.is_some()));
    }
    let padding = match &inputs.attention_mask {
        Some(mask) => Padding::from_attention_mask(mask)?,
        None => None,
    };
    if let Some(features) = &inputs.input_features {
        let features = features.to_device(device)?;
        let state = model.encode(EncoderInput::Features(&features), padding.as_ref())?;
        return Ok((state, false));
    }
    let Some(ids) = ids else {
        return Err(invalid("the encoder has no input".into())
            .with_hint("give it input_ids or input_features"));
    };
    check_ids("input_ids", ids, model.vocab_size())?;
    let ids = ids_tensor(ids, 0, device)?;
    let state = model.encode(EncoderInput::Ids(&ids), padding.as_ref())?;
    Ok((state, true))
}

/// The first tokens of a decoder: its start token, and what the caller gives.
fn decoder_prompt(
    inputs: &GenerateInputs<'_>,
    start: Option<i64>,
    batch: usize,
    from_text: bool,
) -> Result<Vec<Vec<i64>>> {
    let Some(given) = &inputs.decoder_input_ids else {
        let Some(start) = start else {
            return Err(invalid(
                "the model has neither decoder_start_token_id nor bos_token_id".into(),
            )
            .with_hint("set decoder_start_token_id in the options"));
        };
        return Ok(vec![vec![start]; batch]);
    };
    let mut rows = rows_of("decoder_input_ids", given)?;
    if rows.len() != batch {
        return Err(TorshError::shape(
            "generate",
            format!(
                "{} rows of decoder_input_ids for {batch} inputs",
                rows.len()
            ),
        ));
    }
    if let Some(start) = start.filter(|_| from_text)
        && rows.iter().all(|row| row.first() != Some(&start))
    {
        rows.iter_mut().for_each(|row| row.insert(0, start));
    }
    Ok(rows)
}

/// The padding of prompts: from the mask, or from the tokens where they can tell.
fn prompt_padding(
    mask: Option<&Tensor>,
    rows: &[Vec<i64>],
    pad: Option<i64>,
    eos: &[i64],
) -> Result<Option<Padding>> {
    let length = rows.first().map_or(0, Vec::len);
    let padding = match (mask, pad) {
        (Some(mask), _) => {
            if mask.dims() != [rows.len(), length] {
                return Err(TorshError::shape(
                    "generate",
                    format!(
                        "attention_mask {} for input_ids [{}, {length}]",
                        mask.shape(),
                        rows.len()
                    ),
                ));
            }
            Padding::from_attention_mask(mask)?
        }
        (None, Some(pad)) if !eos.contains(&pad) && rows.iter().any(|row| row.contains(&pad)) => {
            let tokens: Vec<bool> = rows.iter().flatten().map(|&id| id != pad).collect();
            let mask = Tensor::from_vec(tokens, [rows.len(), length])?;
            Padding::from_attention_mask(&mask).map_err(|e| {
                e.with_hint(format!(
                    "the token {pad} was taken for padding: give the attention_mask"
                ))
            })?
        }
        _ => None,
    };
    match &padding {
        Some(p) if !p.is_left(length) => {
            let row = p
                .ranges()
                .iter()
                .position(|r| r.end != length && !r.is_empty());
            Err(invalid(format!(
                "sequence {} is padded on the right, where its continuation belongs",
                row.unwrap_or(0)
            ))
            .with_hint("pad on the left"))
        }
        _ => Ok(padding),
    }
}

/// The cache that the settings ask for, or the caller's with a prompt's beginning.
fn prompt_cache(
    model: &dyn Decoder,
    given: Option<KvCache>,
    settings: &Settings,
    rows: &mut [Vec<i64>],
) -> Result<Option<KvCache>> {
    let o = &settings.o;
    // The last token is never computed.
    let most = settings.max_length - 1;
    if let Some(mut cache) = given {
        cache.expect_tokens(most);
        if cache.len() >= settings.prompt_len {
            return Err(invalid(format!(
                "the cache holds {} tokens, and the prompt has {}",
                cache.len(),
                settings.prompt_len
            ))
            .with_hint(
                "the prompt begins with the tokens of the cache and has one more at least",
            ));
        }
        if cache.batch() == 1 && rows.len() > 1 {
            cache.repeat(rows.len())?;
        }
        if cache.batch() != rows.len() && !cache.is_empty() {
            return Err(invalid(format!(
                "a cache of {} sequences for a prompt of {}",
                cache.batch(),
                rows.len()
            ))
            .with_hint(
                "take the cache of one sequence, which is repeated, or cache.select(..) as many as there are prompts",
            ));
        }
        return Ok(Some(cache));
    }
    if o.use_cache == Some(false) {
        return Ok(None);
    }
    let kind = match o.cache_implementation.unwrap_or_default() {
        CacheImplementation::Static => CacheKind::Static {
            capacity: o.max_cache_len.unwrap_or(0).max(most),
        },
        CacheImplementation::Dynamic | CacheImplementation::Unknown(_) => CacheKind::Growing,
    };
    let mut cache = model.new_cache(kind);
    cache.expect_tokens(most);
    Ok(Some(cache))
}

/// A model at work on a batch.
pub(super) struct Decoding<'a> {
    pub(super) model: Box<dyn Decoder + 'a>,
    pub(super) cache: Option<KvCache>,
    /// The padding of the prompt.
    pub(super) padding: Option<Padding>,
    pub(super) prompt_len: usize,
    pub(super) encoder: Option<EncoderState>,
    pub(super) device: Device,
}

impl Decoding<'_> {
    /// Computes the tokens that the cache does not hold yet.
    pub(super) fn step(&mut self, rows: &[Vec<i64>], logits: Logits) -> Result<DecoderOutput> {
        let length = rows.first().map_or(0, Vec::len);
        let past = self.cache.as_ref().map_or(0, KvCache::len);
        let ids = ids_tensor(rows, past, self.device)?;
        // Tokens of a prompt that is computed in pieces have padding of their own length.
        let padding = self
            .padding
            .as_ref()
            .map(|p| match length.checked_sub(self.prompt_len) {
                Some(more) => p.extended(more),
                None => Padding::new(p.ranges().iter().map(|r| r.start.min(length)..length)),
            });
        self.model.decode(DecoderStep {
            input_ids: &ids,
            cache: self.cache.as_mut(),
            padding: padding.as_ref(),
            encoder: self.encoder.as_ref(),
            logits,
        })
    }

    /// The logits `[rows, vocabulary]` of the next tokens, in float32.
    pub(super) fn next_logits(&mut self, rows: &[Vec<i64>]) -> Result<Tensor> {
        let logits = self.step(rows, Logits::Last)?.logits;
        last_logits(&logits)
    }

    /// As [`Decoding::next_logits`], for a prompt, in pieces where the settings say so.
    pub(super) fn prefill(&mut self, rows: &[Vec<i64>], settings: &Settings) -> Result<Tensor> {
        let Some(chunk) = settings.o.prefill_chunk_size.filter(|&n| n > 0) else {
            return self.next_logits(rows);
        };
        if self.cache.is_none() {
            return Err(invalid("prefill_chunk_size needs a cache".into())
                .with_hint("leave out use_cache = false"));
        }
        let length = settings.prompt_len;
        let mut done = self.cache.as_ref().map_or(0, KvCache::len);
        while length - done > chunk {
            done += chunk;
            let part: Vec<Vec<i64>> = rows.iter().map(|row| row[..done].to_vec()).collect();
            self.step(&part, Logits::Last)?;
        }
        self.next_logits(rows)
    }

    /// Has each row `n` times, neighbouring.
    pub(super) fn repeat(&mut self, n: usize, rows: usize) -> Result<()> {
        if n == 1 {
            return Ok(());
        }
        if let Some(cache) = &mut self.cache {
            cache.repeat(n)?;
        }
        let each: Vec<usize> = (0..rows * n).map(|b| b / n).collect();
        self.padding = self.padding.take().map(|p| p.select(&each));
        if let Some(e) = &mut self.encoder {
            e.last_hidden_state = e.last_hidden_state.repeat_interleave(n as i64, 0)?;
            e.padding = e.padding.take().map(|p| p.select(&each));
        }
        Ok(())
    }

    /// Takes rows in another order, within their groups of one prompt.
    pub(super) fn reorder(&mut self, rows: &[usize]) -> Result<()> {
        match &mut self.cache {
            Some(cache) => cache.reorder(rows),
            None => Ok(()),
        }
    }
}

/// `[rows, tokens, vocabulary]` to the last token's, in float32.
pub(super) fn last_logits(logits: &Tensor) -> Result<Tensor> {
    let tokens = logits.dims().get(1).copied().unwrap_or(1) as i64;
    logits.select(1, tokens - 1)?.to_dtype(DType::F32)
}
