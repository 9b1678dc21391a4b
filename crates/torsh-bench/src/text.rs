//! Workloads of language models and speech, with drawn weights of the real models' sizes.

use torsh_nn::ModuleExt;
use torsh_nn::functional as F;
use torsh_tensor::{DType, Result, Tensor, TorshError, arange, inference_mode, linspace};
use torsh_text::config::TokenIds;
use torsh_text::generation::{GenerateInputs, GenerationExt, GenerationOptions};
use torsh_text::models::{
    BertConfig, BertModel, GPT2Config, GPT2LMHeadModel, TokenInputs, WhisperConfig,
    WhisperForConditionalGeneration,
};
use torsh_text::speech::MelSpectrogram;

use crate::harness::Suite;
use crate::inputs::{randint, randn};

/// MiniLM's sentence vectors: 32 sentences of 8 to 64 tokens, padded.
fn minilm() -> Result<impl FnMut() -> Result<Tensor>> {
    let model = BertModel::new(BertConfig {
        hidden_size: 384,
        num_hidden_layers: 6,
        intermediate_size: 1536,
        ..BertConfig::default()
    })?;
    model.eval();
    let ids = randint(30_522, &[32, 64])?;
    let lengths = linspace(8.0, 64.0, 32).unsqueeze(1)?;
    let places = arange(0.0, 64.0, 1.0).unsqueeze(0)?;
    let mask = places.lt(&lengths)?.to_dtype(DType::I64)?;
    Ok(move || {
        inference_mode(|| {
            let hidden = model
                .forward_with(
                    TokenInputs::new(&ids)
                        .attention_mask(&mask)
                        .skip_padding(true),
                )?
                .last_hidden_state;
            let mask = mask.unsqueeze(-1)?.to_dtype(DType::F32)?;
            let mean = hidden
                .mul(&mask)?
                .sum_dim(1, false)?
                .div(&mask.sum_dim(1, false)?)?;
            F::normalize(&mean)
        })
    })
}

/// GPT-2 small continues a prompt greedily.
fn gpt2(prompt: usize, new: usize) -> Result<impl FnMut() -> Result<Tensor>> {
    let model = GPT2LMHeadModel::new(GPT2Config {
        eos_token_id: TokenIds::default(),
        ..GPT2Config::default()
    })?;
    model.eval();
    let ids = randint(50_257, &[1, prompt])?;
    let options = GenerationOptions::new().max_new_tokens(new);
    Ok(move || model.generate(&ids, &options))
}

/// Whisper tiny.en: the spectrogram of 30 seconds, the encoder, and 32 tokens.
fn whisper() -> Result<impl FnMut() -> Result<Tensor>> {
    let model = WhisperForConditionalGeneration::new(WhisperConfig {
        vocab_size: 51_864,
        eos_token_id: TokenIds::default(),
        begin_suppress_tokens: None,
        ..WhisperConfig::default()
    })?;
    model.eval();
    let mel = MelSpectrogram::new(80)?;
    let samples = randn(&[480_000])?.to_vec::<f32>()?;
    let prompt = Tensor::from_vec(vec![50_257i64, 50_362], &[1, 2])?;
    let options = GenerationOptions::new().max_new_tokens(32);
    Ok(move || {
        let features = mel.forward(&samples)?.unsqueeze(0)?;
        let inputs = GenerateInputs::features(&features).decoder_input_ids(prompt.clone());
        Ok(model.generate_with(inputs, &options)?.sequences)
    })
}

/// Registers the workloads.
pub(crate) fn register(s: &mut Suite<'_>) {
    s.bench::<_, TorshError, _>("infer_minilm_b32_t64", minilm, 0, 0);
    s.bench::<_, TorshError, _>("prefill_gpt2_small_512", || gpt2(512, 1), 0, 0);
    s.bench::<_, TorshError, _>("decode_gpt2_small_prompt32_new32", || gpt2(32, 32), 0, 0);
    s.bench::<_, TorshError, _>("transcribe_whisper_tiny_30s_new32", whisper, 0, 0);
}
