//! Generation with a model whose logits are a fixed function of the tokens before.

mod beams;
mod rules;
mod search;

use torsh_core::DType;
use torsh_core::random::{LocalGenerator, manual_seed};
use torsh_nn::Module;
use torsh_tensor::{Result, Tensor, TorshError, tensor};

use super::*;
use crate::blocks::{CacheKind, KvCache, Padding};
use crate::config::TokenIds;

const VOCAB: usize = 8;
/// Ends texts.
const EOS: i64 = 7;
/// Fills them up.
const PAD: i64 = 0;

/// A model that has seen nothing but these tokens gives these logits. The numbers look like drawn ones.
fn logits_of(tokens: &[i64], encoder: i64, salt: u64) -> Vec<f32> {
    let start = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(salt + 1);
    let mut x = tokens.iter().chain([&encoder]).fold(start, |x, &id| {
        (x ^ (id as u64 + 1))
            .wrapping_mul(0x0100_0000_01b3)
            .rotate_left(23)
    });
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 40) as f32 / (1u64 << 24) as f32 * 4.0 - 2.0
    };
    (0..VOCAB).map(|_| next()).collect()
}

/// The model: a layer of the cache keeps the tokens.
#[derive(Module)]
struct Table {
    #[module(skip)]
    kind: Option<CacheKind>,
    #[module(skip)]
    encoder: bool,
    #[module(skip)]
    salt: u64,
    #[module(skip)]
    positions: Option<usize>,
    #[module(skip)]
    defaults: serde_json::Map<String, serde_json::Value>,
}

impl Table {
    fn new() -> Table {
        Table {
            kind: None,
            encoder: false,
            salt: 0,
            positions: None,
            defaults: serde_json::Map::new(),
        }
    }
}

impl Module for Table {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let logits = Logits::All;
        Ok(self
            .decode(DecoderStep {
                logits,
                ..DecoderStep::new(x)
            })?
            .logits)
    }
}

impl GenerationModel for Table {
    fn vocab_size(&self) -> usize {
        VOCAB
    }

    fn max_positions(&self) -> Option<usize> {
        self.positions
    }

    fn special_tokens(&self) -> SpecialTokens {
        SpecialTokens {
            bos: Some(1),
            eos: TokenIds::from(EOS),
            pad: Some(PAD),
            decoder_start: Some(2),
        }
    }

    fn generation_defaults(&self) -> serde_json::Map<String, serde_json::Value> {
        self.defaults.clone()
    }

    fn new_cache(&self, kind: CacheKind) -> KvCache {
        KvCache::new([self.kind.unwrap_or(kind)])
    }

    fn is_encoder_decoder(&self) -> bool {
        self.encoder
    }

    fn encode(&self, input: EncoderInput<'_>, padding: Option<&Padding>) -> Result<EncoderState> {
        let EncoderInput::Ids(ids) = input else {
            return Err(TorshError::invalid("Table", "no text"));
        };
        let sums = ids.to_dtype(DType::F32)?.sum_dim(1, true)?.unsqueeze(2)?;
        Ok(EncoderState {
            last_hidden_state: sums,
            padding: padding.cloned(),
        })
    }

    fn decode(&self, step: DecoderStep<'_>) -> Result<DecoderOutput> {
        let &[batch, tokens] = step.input_ids.dims() else {
            return Err(TorshError::invalid("Table", "no [batch, tokens]"));
        };
        let positions = step
            .positions()?
            .expand([batch, tokens])?
            .to_vec2::<i64>()?;
        let keys = step
            .input_ids
            .to_dtype(DType::F32)?
            .reshape([batch, 1, tokens, 1])?;
        let (seen, dropped) = match step.cache {
            Some(cache) => {
                let (past, dropped) = (cache.past(0), cache.dropped(0));
                let (keys, _) = cache.update(0, &keys, &keys)?;
                assert_eq!(keys.dims(), [batch, 1, past + tokens, 1]);
                (keys, dropped)
            }
            None => (keys, 0),
        };
        let seen = seen.to_dtype(DType::I64)?.flatten(1)?.to_vec2::<i64>()?;
        let (mut logits, mut hidden) = (Vec::new(), Vec::new());
        let first = match step.logits {
            Logits::Last => tokens - 1,
            Logits::All => 0,
        };
        for (b, row) in seen.iter().enumerate() {
            let start = step.padding.map_or(0, |p| p.ranges()[b].start);
            let from = start.saturating_sub(dropped);
            let encoder = match step.encoder {
                Some(e) => e.last_hidden_state.select(0, b as i64)?.item::<f32>()? as i64,
                None => 0,
            };
            for i in 0..tokens {
                let end = row.len() - tokens + i + 1;
                let window = match self.kind {
                    Some(CacheKind::Sliding { window }) => window,
                    _ => end,
                };
                let own = &row[from.max(end.saturating_sub(window)).min(end)..end];
                assert_eq!(
                    positions[b][i].max(0) as usize,
                    (dropped + end - 1).saturating_sub(start)
                );
                let of = logits_of(own, encoder, self.salt);
                hidden.extend_from_slice(&of[..3]);
                if i >= first {
                    logits.extend(of);
                }
            }
        }
        Ok(DecoderOutput {
            logits: Tensor::from_vec(logits, [batch, tokens - first, VOCAB])?,
            hidden: Tensor::from_vec(hidden, [batch, tokens, 3])?,
        })
    }
}

fn options() -> GenerationOptions {
    GenerationOptions::new().max_new_tokens(12)
}

/// The likeliest token, one after another.
fn greedy(prompt: &[i64], encoder: i64, new: usize) -> Vec<i64> {
    let mut row = prompt.to_vec();
    for _ in 0..new {
        let logits = logits_of(&row, encoder, 0);
        let best = (0..VOCAB).fold(0, |b, i| if logits[i] > logits[b] { i } else { b }) as i64;
        row.push(best);
        if best == EOS {
            break;
        }
    }
    row
}

fn padded(mut row: Vec<i64>, length: usize) -> Vec<i64> {
    row.resize(length.max(row.len()), PAD);
    row
}

fn close(a: &[f32], b: &[f32]) {
    let near = a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5);
    assert!(a.len() == b.len() && near, "{a:?} {b:?}");
}

fn error_of<T>(result: Result<T>) -> String {
    result.err().map(|e| e.to_string()).unwrap_or_default()
}

/// Digits; 0 and 7 have no text.
struct Digits;

impl TokenText for Digits {
    fn decode(&self, ids: &[u32]) -> Result<String> {
        let own = ids
            .iter()
            .filter(|&&id| id != PAD as u32 && id != EOS as u32);
        Ok(own.filter_map(|&id| char::from_digit(id, 10)).collect())
    }
}

#[test]
fn rows_that_have_ended_are_filled_up() -> Result<()> {
    let prompts = [vec![1, 2], vec![3, 4], vec![5, 6], vec![6, 3], vec![2, 2]];
    let wanted: Vec<Vec<i64>> = prompts.iter().map(|p| greedy(p, 0, 12)).collect();
    let longest = wanted.iter().map(Vec::len).max().unwrap_or(0);
    assert!(
        wanted.iter().any(|row| row.len() < longest),
        "the rows end at different lengths"
    );
    let wanted: Vec<Vec<i64>> = wanted.into_iter().map(|row| padded(row, longest)).collect();
    let ids = Tensor::from_vec(prompts.concat(), [5, 2])?;
    let static_cache = options().cache_implementation("static");
    let refused = |options: GenerationOptions| {
        Table::new()
            .generate(&ids, &options)
            .unwrap_err()
            .to_string()
    };
    let e = refused(options().cache_implementation("quantized"));
    assert!(
        e.contains("quantized is not a valid value for cache_implementation")
            && e.contains("\"static\""),
        "{e}"
    );
    let e = refused(options().num_beams(2).early_stopping("soon"));
    assert!(e.contains("early_stopping is \"never\""), "{e}");
    let e = refused(options().num_assistant_tokens_schedule("more"));
    assert!(e.contains("\"constant\", \"heuristic\""), "{e}");
    for options in [
        options(),
        options().use_cache(false),
        static_cache,
        options().prefill_chunk_size(1),
    ] {
        assert_eq!(
            Table::new().generate(&ids, &options)?.to_vec2::<i64>()?,
            wanted
        );
    }
    // A model that is known by its trait alone.
    let model: Box<dyn GenerationModel> = Box::new(Table::new());
    assert_eq!(model.generate(&ids, &options())?.to_vec2::<i64>()?, wanted);
    Ok(())
}

#[test]
fn padding_on_the_left_changes_nothing() -> Result<()> {
    let (short, long) = (vec![5, 6], vec![3, 4, 1, 2, 6]);
    let no_end = options().eos_token_id(TokenIds(vec![]));
    let model = Table::new();
    let alone = |p: &Vec<i64>| -> Result<Vec<i64>> {
        let ids = Tensor::from_vec(p.clone(), [1, p.len()])?;
        Ok(model.generate(&ids, &no_end)?.to_vec::<i64>()?[p.len()..].to_vec())
    };
    let inputs = || GenerateInputs::prompts(&[short.clone(), long.clone()], Some(PAD));
    let together = model
        .generate_with(inputs()?, &no_end)?
        .sequences
        .to_vec2::<i64>()?;
    assert_eq!(together[0][..5], [0, 0, 0, 5, 6]);
    assert_eq!(together[0][5..], alone(&short)?);
    assert_eq!(together[1][5..], alone(&long)?);
    // The mask is found where it is not given.
    let ids = tensor![[0, 0, 0, 5, 6], [3, 4, 1, 2, 6]];
    assert_eq!(model.generate(&ids, &no_end)?.to_vec2::<i64>()?, together);
    // With beams, several texts, and penalties too.
    let beams = no_end
        .clone()
        .num_beams(3)
        .repetition_penalty(1.5)
        .no_repeat_ngram_size(2);
    let together = model.generate_with(inputs()?, &beams)?;
    let scores = together
        .sequences_scores
        .map(|s| s.to_vec::<f32>())
        .transpose()?;
    for (b, prompt) in [&short, &long].into_iter().enumerate() {
        let ids = Tensor::from_vec(prompt.clone(), [1, prompt.len()])?;
        let one = model.generate_with(GenerateInputs::ids(&ids), &beams)?;
        let own = one
            .sequences_scores
            .map(|s| s.to_vec::<f32>())
            .transpose()?;
        assert_eq!(
            one.sequences.to_vec::<i64>()?[prompt.len()..],
            together.sequences.to_vec2::<i64>()?[b][5..]
        );
        close(
            &own.unwrap_or_default(),
            &scores.as_ref().map_or(vec![], |s| vec![s[b]]),
        );
    }
    Ok(())
}

#[test]
fn wrong_inputs_are_named() -> Result<()> {
    let model = Table {
        positions: Some(4),
        ..Table::new()
    };
    let generate = |ids: Tensor, o: GenerationOptions| error_of(model.generate(&ids, &o));
    let long = generate(tensor![[1, 2, 3, 4, 5]], options());
    assert!(long.contains('5') && long.contains("4 positions"), "{long}");
    let outside = generate(tensor![[1, 8]], options());
    assert!(
        outside.contains("[0, 1]") && outside.contains('8'),
        "{outside}"
    );
    let floats = generate(tensor![[1.0]], options());
    assert!(floats.contains("float32"), "{floats}");
    let strings = generate(tensor![[1]], options().stop_strings(["x"]));
    assert!(strings.contains("tokenizer"), "{strings}");
    let right =
        GenerateInputs::ids(&tensor![[1, 2], [1, 0]]).attention_mask(tensor![[1, 1], [1, 0]]);
    let right = error_of(model.generate_with(right, &options()));
    assert!(
        right.contains("sequence 1") && right.contains("left"),
        "{right}"
    );
    let mask = GenerateInputs::ids(&tensor![[1, 2]]).attention_mask(tensor![[1]]);
    assert!(error_of(model.generate_with(mask, &options())).contains("attention_mask"));
    let features = GenerateInputs::features(&tensor![[1.0]]);
    assert!(error_of(model.generate_with(features, &options())).contains("input_features"));
    let many = model.stream(GenerateInputs::ids(&tensor![[1], [2]]), &options());
    assert!(error_of(many).contains("2 texts"));
    let broken = Table {
        defaults: serde_json::Map::from_iter([("guidance_scale".into(), 2.into())]),
        ..Table::new()
    };
    assert!(error_of(broken.generate(&tensor![[1]], &options())).contains("guidance_scale"));
    Ok(())
}

#[test]
fn the_models_own_settings_count() -> Result<()> {
    let model = Table {
        defaults: serde_json::Map::from_iter([("max_length".into(), 5.into())]),
        ..Table::new()
    };
    let no_end = GenerationOptions::new().eos_token_id(TokenIds(vec![]));
    assert_eq!(model.generate(&tensor![[1, 2]], &no_end)?.dims(), [1, 5]);
    assert_eq!(
        model
            .generate(&tensor![[1, 2]], &no_end.max_length(4))?
            .dims(),
        [1, 4]
    );
    // Without a prompt a text begins with the token that begins texts.
    let out = model.generate_with(GenerateInputs::default(), &GenerationOptions::new())?;
    assert_eq!(out.sequences.to_vec::<i64>()?[0], 1);
    Ok(())
}

#[test]
fn a_decoder_begins_with_its_start_token() -> Result<()> {
    let model = Table {
        encoder: true,
        ..Table::new()
    };
    let ids = tensor![[1, 2, 3], [4, 5, 6]];
    let wanted = [greedy(&[2], 6, 12), greedy(&[2], 15, 12)];
    let longest = wanted[0].len().max(wanted[1].len());
    let wanted = wanted.map(|row| padded(row, longest));
    assert_eq!(model.generate(&ids, &options())?.to_vec2::<i64>()?, wanted);
    // The caller's beginning gets the start token ahead.
    let inputs = GenerateInputs::ids(&ids).decoder_input_ids(tensor![[5], [5]]);
    let rows = model
        .generate_with(inputs, &options())?
        .sequences
        .to_vec2::<i64>()?;
    assert_eq!(rows[0][..2], [2, 5]);
    // Beams of different prompts see their own encoder's result.
    let beams = options().num_beams(3).num_return_sequences(2);
    let both = model.generate_with(GenerateInputs::ids(&ids), &beams)?;
    let scores = both
        .sequences_scores
        .map(|s| s.to_vec::<f32>())
        .transpose()?
        .unwrap_or_default();
    for b in 0..2 {
        let one = GenerateInputs::ids(&ids.narrow(0, b, 1)?);
        let one = model.generate_with(one, &beams)?;
        let own = one
            .sequences_scores
            .map(|s| s.to_vec::<f32>())
            .transpose()?
            .unwrap_or_default();
        close(&own, &scores[2 * b as usize..2 * b as usize + 2]);
    }
    assert!(
        error_of(model.generate_with(GenerateInputs::default(), &options())).contains("encoder")
    );
    Ok(())
}
