//! Generation with a model whose logits are a fixed function of the tokens before.

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
    let static_cache = options().cache_implementation(CacheImplementation::Static);
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

/// All texts of up to `new` tokens with the logarithms of their probabilities, where they end or are long enough.
fn all_texts(prompt: &[i64], new: usize) -> Vec<(Vec<i64>, f64)> {
    let mut out = Vec::new();
    let mut open = vec![(prompt.to_vec(), 0.0)];
    while let Some((row, sum)) = open.pop() {
        let ended = row.len() > prompt.len() && row.last() == Some(&EOS);
        if ended || row.len() == prompt.len() + new {
            out.push((row, sum));
            continue;
        }
        let logits: Vec<f64> = logits_of(&row, 0, 0).into_iter().map(f64::from).collect();
        let total: f64 = logits.iter().map(|l| l.exp()).sum();
        for (id, l) in logits.iter().enumerate() {
            let mut longer = row.clone();
            longer.push(id as i64);
            open.push((longer, sum + l - total.ln()));
        }
    }
    out
}

#[test]
fn wide_beams_find_the_best_texts() -> Result<()> {
    let prompt = [3, 1];
    for power in [0.0, 1.0, 2.0] {
        let mut all = all_texts(&prompt, 3);
        for (row, sum) in &mut all {
            *sum /= ((row.len() - prompt.len()) as f64).powf(power);
        }
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        let beams = VOCAB * VOCAB * VOCAB;
        let options = GenerationOptions::new()
            .max_new_tokens(3)
            .num_beams(beams)
            .num_return_sequences(4)
            .length_penalty(power)
            .early_stopping(EarlyStopping::Never);
        let out = Table::new().generate_with(GenerateInputs::ids(&tensor![[3, 1]]), &options)?;
        let rows = out.sequences.to_vec2::<i64>()?;
        let scores = out
            .sequences_scores
            .map(|s| s.to_vec::<f32>())
            .transpose()?
            .unwrap_or_default();
        for (i, (row, score)) in all.iter().take(4).enumerate() {
            // As transformers: a pad token 0 counts as none, and the end fills up.
            let mut row = row.clone();
            row.resize(rows[i].len(), EOS);
            assert_eq!(rows[i], row, "{power}");
            assert!((f64::from(scores[i]) - score).abs() < 1e-5);
        }
    }
    Ok(())
}

#[test]
fn beams_continue_their_own_texts() -> Result<()> {
    // Draws of other tests are of other generators.
    LocalGenerator::new(0).scope(|| {
        // Without a cache nothing can be mixed up.
        let ids = tensor![[1, 2, 3], [4, 5, 6], [6, 6, 1]];
        for o in [
            options().num_beams(4).num_return_sequences(3),
            options()
                .num_beams(2)
                .early_stopping(true)
                .length_penalty(-0.5),
            options()
                .num_beams(5)
                .do_sample(true)
                .temperature(1.5)
                .top_k(4),
            options()
                .num_beams(4)
                .num_beam_groups(2)
                .diversity_penalty(0.7)
                .num_return_sequences(4),
            options().do_sample(true).num_return_sequences(3),
            options().penalty_alpha(0.5).top_k(4),
        ] {
            let run = |cache: bool| -> Result<GenerateOutput> {
                manual_seed(5);
                let o = o.clone().use_cache(cache).output_scores(true);
                Table::new().generate_with(GenerateInputs::ids(&ids), &o)
            };
            let (with, without) = (run(true)?, run(false)?);
            assert_eq!(with.sequences, without.sequences);
            assert_eq!(with.sequences_scores, without.sequences_scores);
            assert_eq!(with.scores.len(), without.scores.len());
            assert!(!with.scores.is_empty());
        }
        Ok(())
    })
}

#[test]
fn the_scores_of_beams_are_of_their_texts() -> Result<()> {
    let prompt = [1, 2];
    let o = options()
        .num_beams(4)
        .num_return_sequences(4)
        .length_penalty(0.7);
    let diverse = o.clone().num_beam_groups(2).diversity_penalty(1e-9);
    for o in [o, diverse] {
        let out = Table::new().generate_with(GenerateInputs::ids(&tensor![[1, 2]]), &o)?;
        let scores = out
            .sequences_scores
            .map(|s| s.to_vec::<f32>())
            .transpose()?
            .unwrap_or_default();
        for (row, score) in out.sequences.to_vec2::<i64>()?.iter().zip(scores) {
            let mut sum = 0.0;
            let mut length = 0;
            for at in prompt.len()..row.len() {
                let logits = logits_of(&row[..at], 0, 0);
                let total: f32 = logits.iter().map(|l| l.exp()).sum();
                sum += logits[row[at] as usize] - total.ln();
                length += 1;
                if row[at] == EOS {
                    break;
                }
            }
            let wanted = sum / (length as f32).powf(0.7);
            assert!((score - wanted).abs() < 1e-4, "{row:?}: {score} {wanted}");
        }
    }
    Ok(())
}

#[test]
fn groups_of_beams_differ() -> Result<()> {
    let o = options()
        .num_beams(4)
        .num_beam_groups(4)
        .diversity_penalty(100.0)
        .num_return_sequences(4)
        .eos_token_id(TokenIds(vec![]));
    let out = Table::new()
        .generate(&tensor![[1, 2]], &o)?
        .to_vec2::<i64>()?;
    let mut first: Vec<i64> = out.iter().map(|row| row[2]).collect();
    first.sort_unstable();
    first.dedup();
    assert_eq!(first.len(), 4);
    Ok(())
}

#[test]
fn penalties_and_bans_are_kept() -> Result<()> {
    let generate = |o: GenerationOptions| -> Result<Vec<i64>> {
        let no_end = o.eos_token_id(TokenIds(vec![]));
        Ok(Table::new()
            .generate(&tensor![[1, 2]], &no_end)?
            .to_vec::<i64>()?[2..]
            .to_vec())
    };
    let banned = generate(options().suppress_tokens([0, 1, 2, 3, 4]))?;
    assert!(banned.iter().all(|&id| id > 4));
    let begin = generate(options().begin_suppress_tokens((0..7).collect::<Vec<_>>()))?;
    assert_eq!(begin[0], 7);
    let bias = generate(options().sequence_bias([(vec![5], 100.0)]))?;
    assert_eq!(bias, [5; 12]);
    let bad = generate(
        options()
            .sequence_bias([(vec![5], 50.0), (vec![6], 40.0)])
            .bad_words_ids([vec![5, 5]]),
    )?;
    assert_eq!(bad, [5, 6, 5, 6, 5, 6, 5, 6, 5, 6, 5, 6]);
    let pairs = generate(options().max_new_tokens(30).no_repeat_ngram_size(2))?;
    let mut all: Vec<&[i64]> = pairs.windows(2).collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 29);
    let once = generate(options().max_new_tokens(8).presence_penalty(100.0))?;
    let mut sorted = once.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..8).collect::<Vec<i64>>());
    let even = generate(options().max_new_tokens(16).frequency_penalty(100.0))?;
    assert!((0..8).all(|id| even.iter().filter(|&&t| t == id).count() == 2));
    Ok(())
}

#[test]
fn ends_are_forced_and_delayed() -> Result<()> {
    let model = Table::new();
    let ids = tensor![[1, 2]];
    let forced = model.generate(
        &ids,
        &options()
            .forced_eos_token_id(5)
            .eos_token_id(TokenIds(vec![])),
    )?;
    assert_eq!(forced.to_vec::<i64>()?[13], 5);
    for o in [options().min_new_tokens(9), options().min_length(11)] {
        let long = model.generate(&tensor![[5, 6]], &o)?.to_vec::<i64>()?;
        assert!(!long[2..11].contains(&EOS));
    }
    let early = options().exponential_decay_length_penalty((3, 100.0));
    let early = model.generate(&tensor![[1, 1]], &early)?.to_vec::<i64>()?;
    assert!(early.len() <= 7, "{early:?}");
    let first = options().forced_bos_token_id(4);
    let model = Table {
        encoder: true,
        ..Table::new()
    };
    assert_eq!(model.generate(&ids, &first)?.to_vec::<i64>()?[..2], [2, 4]);
    Ok(())
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
fn stop_strings_and_criteria_end_texts() -> Result<()> {
    let no_end = options().max_new_tokens(40).eos_token_id(TokenIds(vec![]));
    let whole = Table::new()
        .generate(&tensor![[1, 2]], &no_end)?
        .to_vec::<i64>()?;
    let at = 9;
    let (a, b) = (whole[at] as u32, whole[at + 1] as u32);
    let string = Digits.decode(&[a, b])?;
    assert!(!string.is_empty());
    let inputs = GenerateInputs::ids(&tensor![[1, 2]]).tokenizer(&Digits);
    let out = Table::new().generate_with(inputs, &no_end.clone().stop_strings([string.clone()]))?;
    let rows = out.sequences.to_vec::<i64>()?;
    assert!(rows.len() <= at + 2);
    let text: Vec<u32> = rows.iter().map(|&id| id as u32).collect();
    assert!(Digits.decode(&text)?.ends_with(&string));

    struct At(usize);
    impl StoppingCriteria for At {
        fn stop(&mut self, input_ids: &[Vec<i64>]) -> Result<Vec<bool>> {
            Ok(input_ids.iter().map(|row| row.len() == self.0).collect())
        }
    }
    struct Only(i64);
    impl LogitsProcessor for Only {
        fn process(&mut self, _: &[Vec<i64>], scores: Tensor) -> Result<Tensor> {
            let one = torsh_tensor::zeros_like(&scores);
            one.select(1, self.0)?.fill_(1.0)?;
            Ok(one)
        }
    }
    let inputs = GenerateInputs::ids(&tensor![[1, 2]])
        .stopping_criterion(At(5))
        .logits_processor(Only(3));
    let out = Table::new().generate_with(inputs, &no_end)?;
    assert_eq!(out.sequences, tensor![[1, 2, 3, 3, 3]]);
    let timed = Table::new().generate(&tensor![[1, 2]], &no_end.max_time(0.0))?;
    assert_eq!(timed.dims(), [1, 3]);
    Ok(())
}

#[test]
fn draws_are_of_the_seed() -> Result<()> {
    // Draws of other tests are of other generators.
    LocalGenerator::new(0).scope(|| {
        let o = options()
            .do_sample(true)
            .top_k(0)
            .eos_token_id(TokenIds(vec![]));
        let draw = |seed| -> Result<Vec<Vec<i64>>> {
            manual_seed(seed);
            Table::new()
                .generate(&tensor![[1, 2], [3, 4]], &o)?
                .to_vec2()
        };
        assert_eq!(draw(1)?, draw(1)?);
        assert_ne!(draw(1)?, draw(2)?);
        // As the softmax of the logits draws.
        manual_seed(3);
        let first = Tensor::from_vec(logits_of(&[1, 2], 0, 0), [1, VOCAB])?
            .softmax(-1)?
            .multinomial(1)?;
        manual_seed(3);
        let one = Table::new().generate(&tensor![[1, 2]], &o.clone().max_new_tokens(1))?;
        assert_eq!(one.to_vec::<i64>()?[2], first.item::<i64>()?);
        // Several texts of one prompt.
        manual_seed(4);
        let three = Table::new().generate(&tensor![[1, 2], [3, 4]], &o.num_return_sequences(3))?;
        let rows = three.to_vec2::<i64>()?;
        assert!(
            rows[..3].iter().all(|r| r[..2] == [1, 2])
                && rows[3..].iter().all(|r| r[..2] == [3, 4])
        );
        assert_ne!(rows[0], rows[1]);
        Ok(())
    })
}

#[test]
fn streams_give_what_generate_gives() -> Result<()> {
    // Draws of other tests are of other generators.
    LocalGenerator::new(0).scope(|| {
        let ids = tensor![[1, 2]];
        let model = Table::new();
        for o in [options(), options().do_sample(true).top_p(0.9)] {
            manual_seed(7);
            let all = model.generate(&ids, &o)?.to_vec::<i64>()?;
            manual_seed(7);
            let stream = model.stream(GenerateInputs::ids(&ids), &o)?;
            assert_eq!(stream.collect::<Result<Vec<i64>>>()?, all[2..]);
            manual_seed(7);
            let mut text = model.stream(GenerateInputs::ids(&ids), &o)?.text(&Digits);
            let pieces = text.by_ref().collect::<Result<Vec<String>>>()?;
            let ids: Vec<u32> = all[2..].iter().map(|&id| id as u32).collect();
            assert_eq!(pieces.concat(), Digits.decode(&ids)?);
            assert_eq!(text.ids(), all);
        }
        Ok(())
    })
}

#[test]
fn assistants_change_nothing() -> Result<()> {
    let model = Table::new();
    let o = options().max_new_tokens(40).min_new_tokens(30);
    for prompt in [vec![1, 2, 3], vec![4]] {
        let ids = Tensor::from_vec(prompt.clone(), [1, prompt.len()])?;
        let alone = model.generate(&ids, &o)?;
        for (salt, tokens) in [(0, 5), (0, 1), (1, 4)] {
            // One that is right always, and one that never is but by chance.
            let assistant = Table {
                salt,
                ..Table::new()
            };
            let with = GenerateInputs::ids(&ids).assistant(&assistant);
            let o = o
                .clone()
                .num_assistant_tokens(tokens)
                .assistant_confidence_threshold(0.0);
            let out = model.generate_with(with, &o)?;
            assert_eq!(out.sequences, alone);
            assert_eq!(out.cache.map(|c| c.len()), Some(alone.dims()[1] - 1));
            let heuristic = o.num_assistant_tokens_schedule(AssistantSchedule::Heuristic);
            let with = GenerateInputs::ids(&ids).assistant(&assistant);
            assert_eq!(model.generate_with(with, &heuristic)?.sequences, alone);
        }
        let lookup = o.clone().prompt_lookup_num_tokens(4);
        assert_eq!(model.generate(&ids, &lookup)?, alone);
    }
    // A draft that slides, whose tokens can be taken back all the same.
    let window = |salt| Table {
        kind: Some(CacheKind::Sliding { window: 4 }),
        salt,
        ..Table::new()
    };
    let (model, assistant) = (window(0), window(2));
    let ids = tensor![[1, 2, 3, 4, 5, 6]];
    let alone = model.generate(&ids, &o)?;
    let with = GenerateInputs::ids(&ids).assistant(&assistant);
    let o = o
        .assistant_confidence_threshold(0.0)
        .num_assistant_tokens(7);
    assert_eq!(model.generate_with(with, &o)?.sequences, alone);
    // Mistakes.
    let two = GenerateInputs::ids(&tensor![[1], [2]]).assistant(&assistant);
    assert!(error_of(model.generate_with(two, &o)).contains("2 texts"));
    let beams = GenerateInputs::ids(&ids).assistant(&assistant);
    assert!(
        error_of(model.generate_with(beams, &o.clone().num_beams(2))).contains("num_beams = 2")
    );
    let none = GenerateInputs::ids(&ids).assistant(&assistant);
    assert!(error_of(model.generate_with(none, &o.use_cache(false))).contains("cache"));
    Ok(())
}

#[test]
fn assisted_draws_are_distributed_as_the_models() -> Result<()> {
    // Draws of other tests are of other generators.
    LocalGenerator::new(0).scope(|| {
        let (model, assistant) = (
            Table::new(),
            Table {
                salt: 3,
                ..Table::new()
            },
        );
        let o = options()
            .do_sample(true)
            .max_new_tokens(2)
            .top_k(0)
            .assistant_confidence_threshold(0.0)
            .eos_token_id(TokenIds(vec![]));
        let logits = logits_of(&[1, 2], 0, 0);
        let total: f32 = logits.iter().map(|l| l.exp()).sum();
        let mut counts = [0.0f32; VOCAB];
        manual_seed(11);
        let draws = 1500;
        for _ in 0..draws {
            let inputs = GenerateInputs::ids(&tensor![[1, 2]]).assistant(&assistant);
            let row = model.generate_with(inputs, &o)?.sequences.to_vec::<i64>()?;
            counts[row[2] as usize] += 1.0 / draws as f32;
        }
        for (count, l) in counts.iter().zip(&logits) {
            assert!((count - l.exp() / total).abs() < 0.05, "{counts:?}");
        }
        Ok(())
    })
}

#[test]
fn contrastive_search_avoids_what_is_alike() -> Result<()> {
    // The definition, step by step.
    let (alpha, k) = (0.6f32, 4usize);
    let unit = |v: &[f32]| {
        let n = v.iter().map(|x| x * x).sum::<f32>().sqrt();
        v.iter().map(|x| x / n).collect::<Vec<f32>>()
    };
    let hidden = |row: &[i64]| unit(&logits_of(row, 0, 0)[..3]);
    let mut row = vec![1, 2];
    for _ in 0..6 {
        let logits = logits_of(&row, 0, 0);
        let total: f32 = logits.iter().map(|l| l.exp()).sum();
        let mut order: Vec<usize> = (0..VOCAB).collect();
        order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
        let value = |id: usize| {
            let mut longer = row.clone();
            longer.push(id as i64);
            let own = hidden(&longer);
            let alike = (1..=row.len())
                .map(|n| {
                    hidden(&row[..n])
                        .iter()
                        .zip(&own)
                        .map(|(a, b)| a * b)
                        .sum::<f32>()
                })
                .fold(f32::MIN, f32::max);
            (1.0 - alpha) * logits[id].exp() / total - alpha * alike
        };
        let best = order[..k]
            .iter()
            .copied()
            .max_by(|&a, &b| value(a).total_cmp(&value(b)));
        row.push(best.unwrap_or(0) as i64);
    }
    let o = options()
        .max_new_tokens(6)
        .penalty_alpha(0.6)
        .top_k(4)
        .eos_token_id(TokenIds(vec![]));
    assert_eq!(
        Table::new()
            .generate(&tensor![[1, 2]], &o)?
            .to_vec::<i64>()?,
        row
    );
    Ok(())
}

#[test]
fn constrained_texts_match() -> Result<()> {
    // Draws of other tests are of other generators.
    LocalGenerator::new(0).scope(|| {
        let vocabulary =
            || Vocabulary::new((0..8).map(|id| (1..7).contains(&id).then(|| id.to_string())));
        let constraint = Constraint::regex("(12|3)+4{2}5?", vocabulary())?;
        let check = |row: &[i64]| {
            let text: String = row[2..]
                .iter()
                .filter(|&&id| id != EOS && id != PAD)
                .map(i64::to_string)
                .collect();
            let ids: Vec<i64> = text.bytes().map(|b| i64::from(b - b'0')).collect();
            constraint.allowed(&ids).is_ok_and(|(_, ends)| ends)
        };
        let o = options().max_new_tokens(60);
        for o in [
            o.clone(),
            o.clone().do_sample(true),
            o.clone().num_beams(3),
            o.clone().do_sample(true).num_beams(2),
        ] {
            manual_seed(2);
            let inputs = GenerateInputs::ids(&tensor![[6, 6], [1, 5]]).constraint(&constraint);
            for row in Table::new()
                .generate_with(inputs, &o)?
                .sequences
                .to_vec2::<i64>()?
            {
                assert!(check(&row), "{row:?}");
                assert_eq!(row.iter().rev().find(|&&id| id != PAD), Some(&EOS));
            }
        }
        // No token continues the text.
        let few = Vocabulary::new([None, Some("1"), None, None]);
        let constraint = Constraint::regex("12", few)?;
        let inputs = GenerateInputs::ids(&tensor![[6, 6]]).constraint(&constraint);
        let error = error_of(Table::new().generate_with(inputs, &o));
        assert!(
            error.contains("\"1\"") && error.contains("\"12\""),
            "{error}"
        );
        let inputs = GenerateInputs::ids(&tensor![[6, 6]]).constraint(&constraint);
        let endless = o.eos_token_id(TokenIds(vec![]));
        assert!(error_of(Table::new().generate_with(inputs, &endless)).contains("eos_token_id"));
        Ok(())
    })
}

#[test]
fn a_cached_beginning_is_not_computed_again() -> Result<()> {
    let model = Table::new();
    let o = options().eos_token_id(TokenIds(vec![]));
    let begin = model.generate_with(
        GenerateInputs::ids(&tensor![[1, 2, 3]]),
        &o.clone().max_new_tokens(1),
    )?;
    let Some(cache) = begin.cache else {
        return Err(TorshError::invalid("test", "no cache"));
    };
    assert_eq!(cache.len(), 3);
    let ids = tensor![[1, 2, 3, 4], [1, 2, 3, 5]];
    let wanted = model.generate(&ids, &o)?;
    for o in [o.clone(), o.clone().prefill_chunk_size(1)] {
        let inputs = GenerateInputs::ids(&ids).cache(cache.clone());
        assert_eq!(model.generate_with(inputs, &o)?.sequences, wanted);
    }
    assert_eq!(cache.len(), 3);
    let short = GenerateInputs::ids(&tensor![[1, 2, 3]]).cache(cache);
    assert!(error_of(model.generate_with(short, &o)).contains("3 tokens"));
    Ok(())
}

#[test]
fn perplexity_is_of_each_token_once() -> Result<()> {
    let text: Vec<i64> = vec![1, 2, 3, 4, 5, 6, 1, 3, 5, 2, 4, 6, 1];
    let ids = Tensor::from_vec(text.clone(), [1, text.len()])?;
    for (window, stride) in [(20, 5), (4, 2), (4, 4), (5, 1), (3, 2)] {
        let mut sum = 0.0;
        for at in 1..text.len() {
            // The first window that has the token, and something before it.
            let begin = (0..)
                .map(|i| i * stride)
                .find(|b| b + window > at)
                .unwrap_or(0);
            if begin == at {
                continue;
            }
            let logits = logits_of(&text[begin..at], 0, 0);
            let total: f32 = logits.iter().map(|l| l.exp()).sum();
            sum -= f64::from(logits[text[at] as usize] - total.ln());
        }
        let wanted = (sum / (text.len() - 1) as f64).exp();
        let value = perplexity(&Table::new(), &ids, window, stride)?;
        if window > stride {
            assert!(
                (value - wanted).abs() < 1e-4 * wanted,
                "{window} {stride}: {value} {wanted}"
            );
        }
    }
    assert!(perplexity(&Table::new(), &ids, 4, 5).is_err());
    assert!(perplexity(&Table::new(), &tensor![[1]], 4, 2).is_err());
    Ok(())
}
