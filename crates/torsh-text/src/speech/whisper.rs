//! From sound to text.

use std::path::Path;

use serde_json::Value;
use torsh_hub::{FromPretrained, Hub};
use torsh_nn::ModuleExt;
use torsh_nn::construct::Construction;
use torsh_tensor::{Result, Tensor, TorshError, no_grad};

use super::compression::compression_ratio;
use super::options::{Task, TranscribeOptions};
use super::timestamps::pieces;
use super::{CTranslate2, MelSpectrogram, WhisperTimestamps, WhisperTokens, io_error, read_wav};
use crate::blocks::{CacheKind, KvCache};
use crate::generation::{
    DecoderStep, EncoderInput, EncoderState, GenerateInputs, GenerationExt, GenerationModel,
    GenerationOptions,
};
use crate::models::WhisperForConditionalGeneration;
use crate::tokenizers::Tokenizer;

/// What was said, and when.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// Where it begins, in seconds.
    pub start: f64,
    /// Where it ends, in seconds.
    pub end: f64,
    /// The text.
    pub text: String,
    /// Its tokens, with the times among them.
    pub tokens: Vec<i64>,
    /// The temperature with which the tokens were drawn; 0 where the likeliest were taken.
    pub temperature: f64,
    /// The mean of the logarithms of the tokens' probabilities.
    pub avg_logprob: f64,
    /// How many times shorter the text gets when it is compressed: texts that repeat themselves get much shorter.
    pub compression_ratio: f64,
    /// The probability that nobody speaks.
    pub no_speech_prob: f64,
}

/// The text of a sound.
#[derive(Clone, Debug, PartialEq)]
pub struct Transcript {
    /// All of it.
    pub text: String,
    /// Its language's code.
    pub language: String,
    /// Its parts.
    pub segments: Vec<Segment>,
}

/// Whisper with all that it takes to turn a sound into text: spectrogram, network, tokens (Radford et al., 2023).
///
/// A sound is read in windows of 30 seconds, each of which begins where the last whole sentence of the one before ends.
/// A window whose text is too improbable or repeats itself is read again at higher temperatures.
///
/// ```no_run
/// use torsh_text::speech::{TranscribeOptions, Whisper};
/// let whisper = Whisper::from_pretrained("openai/whisper-tiny")?;
/// let options = TranscribeOptions::new().language("de").beam_size(5);
/// let transcript = whisper.transcribe("speech.wav", &options)?;
/// println!("{}", transcript.text);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub struct Whisper {
    model: WhisperForConditionalGeneration,
    tokenizer: Tokenizer,
    tokens: WhisperTokens,
    mel: MelSpectrogram,
    suppress: Vec<i64>,
    begin_suppress: Vec<i64>,
}

/// The tokens of a window, and how sure the model is.
struct Decoded {
    tokens: Vec<i64>,
    temperature: f64,
    avg_logprob: f64,
    compression_ratio: f64,
    no_speech_prob: f64,
}

impl Whisper {
    /// A folder or a repository `org/name` of Hugging Face's library, or a folder with CTranslate2's `model.bin`; either
    /// with a `tokenizer.json`.
    ///
    /// # Errors
    /// No such folder, a file that is missing or broken, a model that is no Whisper.
    #[torsh_tensor::names_caller(Self)]
    pub fn from_pretrained(source: impl AsRef<str>) -> Result<Whisper> {
        let source = source.as_ref();
        let folder = Path::new(source);
        let container = folder.join("model.bin");
        if container.is_file() {
            return Whisper::from_container(folder, &container);
        }
        let model = WhisperForConditionalGeneration::from_pretrained(source)?;
        let tokenizer = Tokenizer::from_pretrained(source)?;
        let config = Hub::shared()?.config(source)?;
        let options = GenerationOptions::from_model_config(&config)?;
        // Older folders have these settings in config.json alone.
        let options = match GenerationOptions::from_pretrained(source) {
            Ok(own) => own.or(&options),
            Err(_) => options,
        };
        let mut whisper = Whisper::new(model, tokenizer)?;
        whisper.suppress = options.suppress_tokens.unwrap_or_default();
        whisper.begin_suppress = options.begin_suppress_tokens.unwrap_or_default();
        Ok(whisper)
    }

    fn from_container(folder: &Path, container: &Path) -> Result<Whisper> {
        let (config, weights) = CTranslate2::open(container)?.whisper()?;
        let make = || WhisperForConditionalGeneration::new(config);
        let mut model = Construction::new().draw_nothing().run(make)?;
        model.assign_state_dict(&weights).map_err(|e| {
            e.with_hint("the file is not one of a Whisper that CTranslate2 converted")
        })?;
        let tokenizer = Tokenizer::from_file(folder.join("tokenizer.json"))?;
        let mut whisper = Whisper::new(model, tokenizer)?;
        let path = folder.join("config.json");
        if path.is_file() {
            let bytes = std::fs::read(&path).map_err(|e| io_error("Whisper", &path, &e))?;
            let broken =
                |why: &str| TorshError::format("Whisper", format!("{}: {why}", path.display()));
            let config: Value = serde_json::from_slice(torsh_core::without_bom(&bytes))
                .map_err(|e| broken(&e.to_string()))?;
            let ids = |name: &str| match &config[name] {
                Value::Null => Ok(Vec::new()),
                ids => {
                    serde_json::from_value(ids.clone()).map_err(|e| broken(&format!("{name}: {e}")))
                }
            };
            whisper.suppress = ids("suppress_ids")?;
            whisper.begin_suppress = ids("suppress_ids_begin")?;
        }
        Ok(whisper)
    }

    /// A model and its tokenizer. No tokens are suppressed unless the options say so.
    ///
    /// # Errors
    /// A tokenizer that is not the model's.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(model: WhisperForConditionalGeneration, tokenizer: Tokenizer) -> Result<Whisper> {
        let config = model.config();
        model.eval();
        Ok(Whisper {
            tokens: WhisperTokens::new(&tokenizer, config.vocab_size)?,
            mel: MelSpectrogram::new(config.num_mel_bins)?,
            model,
            tokenizer,
            suppress: Vec::new(),
            begin_suppress: Vec::new(),
        })
    }

    /// The network.
    pub fn model(&self) -> &WhisperForConditionalGeneration {
        &self.model
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The special tokens.
    pub fn tokens(&self) -> &WhisperTokens {
        &self.tokens
    }

    /// The spectrogram that the network reads.
    pub fn mel(&self) -> &MelSpectrogram {
        &self.mel
    }

    /// The text of a WAV file, at any rate.
    ///
    /// # Errors
    /// As [`read_wav`] and [`Whisper::transcribe_samples`].
    #[torsh_tensor::names_caller]
    pub fn transcribe(
        &self,
        path: impl AsRef<Path>,
        options: &TranscribeOptions,
    ) -> Result<Transcript> {
        let sound = read_wav(path)?.at_rate(MelSpectrogram::SAMPLE_RATE)?;
        self.transcribe_samples(&sound.samples, options)
    }

    /// The text of a sound at 16 kHz, from -1 to 1.
    ///
    /// # Errors
    /// Options that the model cannot follow, as a language that it does not know; each names what is wrong.
    #[torsh_tensor::names_caller]
    pub fn transcribe_samples(
        &self,
        samples: &[f32],
        options: &TranscribeOptions,
    ) -> Result<Transcript> {
        options.check()?;
        no_grad(|| self.run(samples, options))
    }

    fn run(&self, samples: &[f32], o: &TranscribeOptions) -> Result<Transcript> {
        const FRAMES: usize = MelSpectrogram::N_FRAMES;
        let content = samples.len() / MelSpectrogram::HOP_LENGTH;
        let mel = match samples.len() <= MelSpectrogram::N_SAMPLES {
            true => self.mel.padded(samples)?,
            false => {
                // The sound's end is followed by silence, not by its mirror image.
                let mut long = samples.to_vec();
                long.resize(samples.len() + MelSpectrogram::N_FFT, 0.0);
                self.mel.forward(&long)?
            }
        };
        let silence = (mel.max()?.item::<f64>()? - 2.0).max(-1.5);
        let (mut language, mut begin) = (None, None);
        let mut said: Vec<i64> = match &o.initial_prompt {
            Some(text) => self.encode(text)?,
            None => Vec::new(),
        };
        let mut seen_from = 0;
        let mut segments: Vec<Segment> = Vec::new();
        let mut seek = 0;
        while seek < content {
            let frames = FRAMES.min(content - seek);
            let window = window(&mel, seek, silence)?;
            let state = self.encode_window(&window)?;
            let start = match &begin {
                Some(start) => start,
                None => {
                    let (code, id) = self.language(&state, o)?;
                    language = Some(code);
                    begin.insert(self.start_tokens(id, o)?)
                }
            };
            let prompt = self.prompt(&said[seen_from..], start);
            let decoded = self.with_fallback(&state, &prompt, start.len(), o)?;
            let unsure = o.logprob_threshold.is_none_or(|t| decoded.avg_logprob <= t);
            let silent = o
                .no_speech_threshold
                .is_some_and(|t| decoded.no_speech_prob > t);
            if silent && unsure {
                seek += frames;
                continue;
            }
            let offset = seek as f64 * 0.01;
            let (parts, done) = pieces(&decoded.tokens, &self.tokens, frames);
            for part in parts {
                let text = self.decode(&part.tokens)?;
                if text.trim().is_empty() || part.start == part.end {
                    continue;
                }
                said.extend_from_slice(&part.tokens);
                segments.push(Segment {
                    start: offset + part.start,
                    end: offset + part.end,
                    text,
                    tokens: part.tokens,
                    temperature: decoded.temperature,
                    avg_logprob: decoded.avg_logprob,
                    compression_ratio: decoded.compression_ratio,
                    no_speech_prob: decoded.no_speech_prob,
                });
            }
            // What was drawn at a high temperature may be wrong, and errors go on.
            if !o.condition_on_previous_text || decoded.temperature > 0.5 {
                seen_from = said.len();
            }
            seek += done;
        }
        Ok(Transcript {
            text: segments.iter().map(|s| &*s.text).collect(),
            language: language.unwrap_or_else(|| o.language.clone().unwrap_or_else(|| "en".into())),
            segments,
        })
    }

    fn encode_window(&self, mel: &Tensor) -> Result<EncoderState> {
        let weight = &self.model.model.encoder.conv1.weight;
        let mel = mel.to_dtype(weight.dtype())?.to_device(weight.device())?;
        self.model.encode(EncoderInput::Features(&mel), None)
    }

    /// The ids of a text without special tokens.
    fn encode(&self, text: &str) -> Result<Vec<i64>> {
        let options = crate::tokenizers::EncodeOptions::new().add_special_tokens(false);
        let ids = self.tokenizer.encode_with(text.trim(), &options)?.ids;
        Ok(ids.into_iter().map(i64::from).collect())
    }

    /// The text of tokens, without times and other special ones.
    fn decode(&self, tokens: &[i64]) -> Result<String> {
        let text = tokens.iter().filter(|&&id| self.tokens.is_text(id));
        let ids: Vec<u32> = text.filter_map(|&id| u32::try_from(id).ok()).collect();
        self.tokenizer.decode(&ids, true)
    }

    /// The language that is spoken, by the probabilities of the languages' tokens: its code and token.
    ///
    /// # Errors
    /// A model that knows English alone.
    #[torsh_tensor::names_caller]
    pub fn detect_language(&self, mel: &Tensor) -> Result<(String, i64)> {
        no_grad(|| self.likeliest_language(&self.encode_window(&mel.unsqueeze(0)?)?))
    }

    fn likeliest_language(&self, state: &EncoderState) -> Result<(String, i64)> {
        let ids = Tensor::from_vec(vec![self.tokens.start_of_transcript], [1, 1])?;
        let ids = ids.to_device(state.last_hidden_state.device())?;
        let step = DecoderStep {
            encoder: Some(state),
            ..DecoderStep::new(&ids)
        };
        let logits = step.run(&self.model)?.logits.to_vec::<f32>()?;
        let of = |id: i64| {
            usize::try_from(id)
                .ok()
                .and_then(|id| logits.get(id))
                .copied()
        };
        let known = self
            .tokens
            .languages
            .iter()
            .filter(|_| self.tokens.multilingual);
        let known = known.filter_map(|(code, id)| Some((of(*id)?, code, *id)));
        let best = known.max_by(|a, b| a.0.total_cmp(&b.0));
        best.map(|(_, code, id)| (code.clone(), id)).ok_or_else(|| {
            TorshError::invalid(
                "Whisper",
                "the model knows English alone, and tells no languages apart",
            )
        })
    }

    /// The language's code, and its token where the model has them.
    fn language(
        &self,
        state: &EncoderState,
        o: &TranscribeOptions,
    ) -> Result<(String, Option<i64>)> {
        if !self.tokens.multilingual {
            return match o.language.as_deref() {
                None | Some("en" | "english" | "English") => Ok(("en".into(), None)),
                Some(other) => Err(TorshError::invalid(
                    "Whisper",
                    format!("language = {other:?}, and the model knows English alone"),
                )),
            };
        }
        let Some(name) = &o.language else {
            let (code, id) = self.likeliest_language(state)?;
            return Ok((code, Some(id)));
        };
        let id = self.tokens.language(name)?;
        let code = self.tokens.languages.iter().find(|(_, other)| *other == id);
        Ok((
            code.map_or_else(|| name.clone(), |(code, _)| code.clone()),
            Some(id),
        ))
    }

    /// The tokens that begin a window's text: what language it has, what to do, whether times are wanted.
    fn start_tokens(&self, language: Option<i64>, o: &TranscribeOptions) -> Result<Vec<i64>> {
        let t = &self.tokens;
        let mut start = vec![t.start_of_transcript];
        if let Some(language) = language {
            let (name, task) = match o.task {
                Task::Transcribe | Task::Unknown(_) => ("transcribe", t.transcribe),
                Task::Translate => ("translate", t.translate),
            };
            let missing = || TorshError::format("Whisper", format!("there is no token <|{name}|>"));
            start.extend([language, task.ok_or_else(missing)?]);
        } else if o.task == Task::Translate {
            let why = "the model knows English alone: there is nothing to translate";
            return Err(TorshError::invalid("Whisper", why));
        }
        if !o.timestamps {
            start.push(t.no_timestamps);
        }
        Ok(start)
    }

    /// The last half of the positions may hold what was said before.
    fn prompt(&self, said: &[i64], start: &[i64]) -> Vec<i64> {
        let most = (self.model.config().max_target_positions / 2).saturating_sub(1);
        let mut prompt = Vec::new();
        if let (Some(previous), false) = (self.tokens.start_of_previous, said.is_empty()) {
            prompt.push(previous);
            prompt.extend_from_slice(&said[said.len().saturating_sub(most)..]);
        }
        prompt.extend_from_slice(start);
        prompt
    }

    /// The text of a window, at the first temperature at which it is likely and does not repeat itself.
    fn with_fallback(
        &self,
        state: &EncoderState,
        prompt: &[i64],
        start: usize,
        o: &TranscribeOptions,
    ) -> Result<Decoded> {
        let (cache, no_speech_prob) = self.prefix(state, prompt, start)?;
        let mut last = None;
        for &temperature in &o.temperatures {
            let decoded = self.generate(state, prompt, &cache, temperature, o)?;
            let decoded = Decoded {
                no_speech_prob,
                ..decoded
            };
            let repeats = o
                .compression_ratio_threshold
                .is_some_and(|t| decoded.compression_ratio > t);
            let unlikely = o.logprob_threshold.is_some_and(|t| decoded.avg_logprob < t);
            let silent = o.no_speech_threshold.is_some_and(|t| no_speech_prob > t);
            let good = !repeats && !unlikely || unlikely && silent;
            last = Some(decoded);
            if good {
                break;
            }
        }
        last.ok_or_else(|| TorshError::invalid("Whisper", "there is no temperature"))
    }

    /// A cache with the encoder's keys and values and the tokens ahead of the last one, and the probability that nobody
    /// speaks, which the model says behind the token that begins the transcript.
    fn prefix(&self, state: &EncoderState, prompt: &[i64], start: usize) -> Result<(KvCache, f64)> {
        let mut cache = self.model.new_cache(CacheKind::Growing);
        let tokens = prompt.len() - start + 1;
        let ids = Tensor::from_data(&prompt[..tokens], [1, tokens])?;
        let ids = ids.to_device(state.last_hidden_state.device())?;
        let step = DecoderStep {
            encoder: Some(state),
            cache: Some(&mut cache),
            ..DecoderStep::new(&ids)
        };
        let logits = step.run(&self.model)?.logits;
        // One token at least is left to compute.
        cache.crop(tokens.min(prompt.len() - 1))?;
        let Some(token) = self.tokens.no_speech else {
            return Ok((cache, 0.0));
        };
        let probability = logits.flatten(0)?.softmax(-1)?.select(0, token)?;
        Ok((cache, probability.item::<f64>()?))
    }

    fn generate(
        &self,
        state: &EncoderState,
        prompt: &[i64],
        cache: &KvCache,
        temperature: f64,
        o: &TranscribeOptions,
    ) -> Result<Decoded> {
        let t = &self.tokens;
        let positions = self.model.config().max_target_positions;
        let most = o
            .max_new_tokens
            .unwrap_or(positions / 2)
            .min(positions - prompt.len());
        let suppress = o.suppress_tokens.as_ref().unwrap_or(&self.suppress);
        let begin = match o.suppress_tokens.as_deref() {
            Some([]) => Vec::new(),
            _ => self.begin_suppress.clone(),
        };
        let mut options = GenerationOptions::new()
            .max_new_tokens(most)
            .eos_token_id(t.end_of_text)
            .pad_token_id(t.end_of_text)
            .suppress_tokens(suppress.clone())
            .begin_suppress_tokens(begin)
            .output_scores(true);
        match (temperature > 0.0, o.beam_size) {
            (true, _) => options = options.do_sample(true).temperature(temperature).top_k(0),
            (false, Some(beams)) => options = options.num_beams(beams).do_sample(false),
            (false, None) => options = options.do_sample(false),
        }
        let ids = Tensor::from_data(prompt, [1, prompt.len()])?;
        let mut inputs = GenerateInputs::default()
            .encoder(state.clone())
            .decoder_input_ids(ids)
            .cache(cache.clone());
        if o.timestamps {
            let times = WhisperTimestamps::new(t, prompt.len(), Some(o.max_initial_timestamp));
            inputs = inputs.logits_processor(times);
        }
        let out = self.model.generate_with(inputs, &options)?;
        let row = out.sequences.select(0, 0)?.to_vec::<i64>()?;
        let mut tokens = row[prompt.len()..].to_vec();
        // The text, and the token that ends it where it does.
        if let Some(end) = tokens.iter().position(|&id| id == t.end_of_text) {
            tokens.truncate(end + 1);
        }
        let avg_logprob = match &out.sequences_scores {
            Some(scores) => scores.select(0, 0)?.item::<f64>()?,
            None => mean_logprob(&out.scores, &tokens, temperature)?,
        };
        if tokens.last() == Some(&t.end_of_text) {
            tokens.pop();
        }
        let text = self.decode(&tokens)?.trim().to_string();
        Ok(Decoded {
            compression_ratio: compression_ratio(&text)?,
            tokens,
            temperature,
            avg_logprob,
            no_speech_prob: 0.0,
        })
    }
}

/// 30 seconds `[1, bins, 3000]` of a spectrogram, filled up with silence.
fn window(mel: &Tensor, from: usize, silence: f64) -> Result<Tensor> {
    let (bins, frames) = (mel.dims()[0], mel.dims()[1]);
    let there = MelSpectrogram::N_FRAMES.min(frames - from);
    let mut part = mel.narrow(1, from, there)?;
    if there < MelSpectrogram::N_FRAMES {
        let rest = [bins, MelSpectrogram::N_FRAMES - there];
        part = Tensor::cat(
            &[
                part,
                Tensor::full(rest, silence, mel.dtype(), mel.device())?,
            ],
            1,
        )?;
    }
    part.unsqueeze(0)
}

/// The mean of the logarithms of the tokens' probabilities at temperature 1.
fn mean_logprob(scores: &[Tensor], tokens: &[i64], temperature: f64) -> Result<f64> {
    let factor = if temperature > 0.0 { temperature } else { 1.0 };
    let mut sum = 0.0;
    for (scores, &token) in scores.iter().zip(tokens) {
        let scores = scores.select(0, 0)?.mul(factor)?;
        let own = scores.select(0, token)?;
        sum += own.sub(&scores.logsumexp(0, false)?)?.item::<f64>()?;
    }
    Ok(sum / tokens.len().max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A vocabulary that begins with the end of the text, as a trained one does.
    #[test]
    fn text_is_what_is_not_special() -> Result<()> {
        use crate::models::WhisperConfig;
        use crate::tokenizers::{TokenizerModel, TrainOptions};
        let options = TrainOptions::new(TokenizerModel::ByteLevelBpe).vocab_size(260);
        let mut tokenizer = Tokenizer::train(["ab ba"], &options)?;
        let names = [
            "<|startoftranscript|>",
            "<|en|>",
            "<|transcribe|>",
            "<|notimestamps|>",
        ];
        tokenizer.add_special_tokens(&names)?;
        assert_eq!(tokenizer.token_to_id("<|endoftext|>"), Some(0));
        let vocab_size = tokenizer.len() + 20;
        let model = WhisperForConditionalGeneration::new(WhisperConfig {
            d_model: 8,
            encoder_layers: 1,
            decoder_layers: 1,
            encoder_attention_heads: 2,
            decoder_attention_heads: 2,
            encoder_ffn_dim: 8,
            decoder_ffn_dim: 8,
            vocab_size,
            num_mel_bins: 80,
            pad_token_id: Some(0),
            ..Default::default()
        })?;
        let mut whisper = Whisper::new(model, tokenizer)?;
        let ids = whisper.encode("ab")?;
        assert_eq!(whisper.decode(&[&ids[..], &[0]].concat())?, "ab");
        // What is left is text alone, so the transcript is not empty.
        whisper.suppress = (0..vocab_size as i64)
            .filter(|id| !ids.contains(id))
            .collect();
        let options = TranscribeOptions::new()
            .language("en")
            .temperature(0.0)
            .timestamps(false)
            .no_speech_threshold(None)
            .max_new_tokens(4);
        let said = whisper.transcribe_samples(&[0.1; 16_000], &options)?;
        let letters = said.text.chars().filter(|c| "ab".contains(*c)).count();
        assert!(letters > 0 && letters == said.text.trim().len(), "{said:?}");
        Ok(())
    }

    #[test]
    fn the_mean_is_at_temperature_1() -> Result<()> {
        let step = |v: [f32; 2]| Tensor::from_data(&v, [1, 2]);
        let probability = 0.8f32;
        let logits = [probability.ln(), (1.0 - probability).ln()];
        let warm = logits.map(|v| v / 0.5);
        let got = mean_logprob(&[step(warm)?, step(warm)?], &[0, 1], 0.5)?;
        let wanted = f64::from(logits[0] + logits[1]) / 2.0;
        assert!((got - wanted).abs() < 1e-6, "{got} {wanted}");
        Ok(())
    }
}
