//! Hidden tokens for masked language models.

use torsh_core::Generator;
use torsh_core::random::{default_generator, fill_bernoulli_probs_f32, fill_random_range_i64};
use torsh_tensor::{DType, Device, Result, Tensor, TorshError, options};

use super::batches::{IGNORED, MaskedTokens, tensors};
use crate::tokenizers::{Encoding, TokenTensors, Tokenizer};

options! {
    /// The keyword arguments of Hugging Face's `DataCollatorForLanguageModeling`.
    MaskingOptions {
        /// The part of the tokens that is to be predicted (0.15).
        mlm_probability: f64 = 0.15;
        /// The part of those that becomes the mask token (0.8).
        mask_replace_prob: f64 = 0.8;
        /// The part of those that becomes any token (0.1); the rest stays.
        random_replace_prob: f64 = 0.1;
        /// Whether words are hidden as a whole (false).
        whole_word: bool = false;
        /// Draws from this generator (PyTorch's default one).
        generator: Option<Generator> = None, Generator => Some;
    }
}

/// Hides tokens of a padded batch, with the draws of Hugging Face's `DataCollatorForLanguageModeling`: the same seed
/// hides the same tokens.
///
/// A token is chosen with `mlm_probability`, or with `whole_word` a word by its first token. Special tokens and padding
/// are never chosen.
///
/// # Errors
/// Probabilities that are none, a tokenizer without a mask token, encodings of different lengths.
///
/// ```
/// use torsh_core::Generator;
/// use torsh_text::data::{IGNORED, MaskingOptions, mask_tokens};
/// use torsh_text::tokenizers::{EncodeOptions, Tokenizer, TokenizerModel, TrainOptions};
///
/// let text = "a b c d e f g h";
/// let tokenizer = Tokenizer::train([text], &TrainOptions::new(TokenizerModel::WordPiece).vocab_size(40))?;
/// let batch = tokenizer.encode_batch(&[text, "a b"], &EncodeOptions::new().padding(true))?;
/// let options = MaskingOptions::new().mlm_probability(0.5).generator(Generator::new(0));
/// let masked = mask_tokens(&batch, &tokenizer, &options)?;
///
/// let (ids, labels) = (masked.input_ids.to_vec::<i64>()?, masked.labels.to_vec::<i64>()?);
/// let before = batch.to_tensors()?.input_ids.to_vec::<i64>()?;
/// for ((id, label), was) in ids.iter().zip(&labels).zip(&before) {
///     assert!(*label == *was || (*label == IGNORED && id == was));
/// }
/// // [CLS], [SEP] and the padding are never hidden.
/// assert_eq!((labels[0], labels[9], labels[15]), (IGNORED, IGNORED, IGNORED));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn mask_tokens(
    encodings: &[Encoding],
    tokenizer: &Tokenizer,
    options: &MaskingOptions,
) -> Result<MaskedTokens> {
    const OP: &str = "mask_tokens";
    for (name, p) in [
        ("mlm_probability", options.mlm_probability),
        ("mask_replace_prob", options.mask_replace_prob),
        ("random_replace_prob", options.random_replace_prob),
        (
            "mask_replace_prob + random_replace_prob",
            // The sum of 0.8 and 0.2 may be a little more than 1.
            (options.mask_replace_prob + options.random_replace_prob - 1e-9).max(0.0),
        ),
    ] {
        if !(0.0..=1.0).contains(&p) {
            return Err(TorshError::invalid(
                OP,
                format!("{name} is {p}, not between 0 and 1"),
            ));
        }
    }
    let mask = tokenizer.mask_token_id().ok_or_else(|| {
        TorshError::invalid(OP, "the tokenizer has no mask token")
            .with_hint("add_special_tokens(&[\"[MASK]\"]) and the field mask of its special tokens")
    })?;
    let length = encodings.first().map_or(0, Encoding::len);
    if let Some((i, e)) = encodings
        .iter()
        .enumerate()
        .find(|(_, e)| e.len() != length)
    {
        let why = format!(
            "encoding 0 has {length} tokens and encoding {i} has {}",
            e.len()
        );
        return Err(TorshError::shape(OP, why).with_hint("encode the batch with padding"));
    }
    let mut ids: Vec<i64> = Vec::with_capacity(encodings.len() * length);
    let mut words = Vec::with_capacity(ids.capacity());
    for encoding in encodings {
        ids.extend(encoding.ids.iter().map(|id| i64::from(*id)));
        match options.whole_word {
            true => words.extend(word_begins(encoding)),
            false => words.extend(encoding.special_tokens_mask.iter().map(
                |special| match special {
                    0 => Part::Begins,
                    _ => Part::Special,
                },
            )),
        }
    }

    let generator = match &options.generator {
        Some(generator) => generator,
        None => default_generator(),
    };
    let draw = |probabilities: &[f32]| {
        let mut out = vec![0u8; probabilities.len()];
        fill_bernoulli_probs_f32(generator, &mut out, probabilities);
        out
    };
    let same = |p: f64| vec![p as f32; ids.len()];
    let chosen: Vec<f32> = words
        .iter()
        .map(|part| match part {
            Part::Begins => options.mlm_probability as f32,
            _ => 0.0,
        })
        .collect();
    let mut chosen = draw(&chosen);
    for i in 1..chosen.len() {
        if words[i] == Part::Goes {
            chosen[i] = chosen[i - 1];
        }
    }
    let labels: Vec<i64> = ids
        .iter()
        .zip(&chosen)
        .map(|(id, chosen)| if *chosen == 1 { *id } else { IGNORED })
        .collect();
    let replaced = draw(&same(options.mask_replace_prob));
    let random = if options.mask_replace_prob == 1.0 || options.random_replace_prob == 0.0 {
        None
    } else {
        let rest = options.random_replace_prob / (1.0 - options.mask_replace_prob);
        let random = draw(&same(rest.min(1.0)));
        let mut tokens = vec![0i64; ids.len()];
        fill_random_range_i64(generator, &mut tokens, 0, tokenizer.len() as i64);
        Some((random, tokens))
    };
    for i in 0..ids.len() {
        if chosen[i] == 0 {
            continue;
        }
        if replaced[i] == 1 {
            ids[i] = i64::from(mask);
        } else if let Some((random, tokens)) = &random
            && random[i] == 1
        {
            ids[i] = tokens[i];
        }
    }

    let shape = [encodings.len(), length];
    let tensor = |all: &[i64]| Tensor::from_slice(all, shape, DType::I64, Device::Cpu);
    let TokenTensors {
        attention_mask,
        token_type_ids,
        ..
    } = tensors(encodings)?;
    Ok(MaskedTokens {
        input_ids: tensor(&ids)?,
        attention_mask,
        token_type_ids,
        labels: tensor(&labels)?,
    })
}

/// What a token is of its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Special,
    Begins,
    Goes,
}

/// A token begins a word unless it stands where the one before it ends.
fn word_begins(encoding: &Encoding) -> Vec<Part> {
    let special = &encoding.special_tokens_mask;
    let parts = (0..encoding.len()).map(|i| {
        if special[i] == 1 {
            return Part::Special;
        }
        let goes =
            i > 0 && special[i - 1] == 0 && encoding.offsets[i - 1].1 == encoding.offsets[i].0;
        if goes { Part::Goes } else { Part::Begins }
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizers::{EncodeOptions, TokenizerModel, TrainOptions};

    fn tokenizer() -> Result<Tokenizer> {
        let options = TrainOptions::new(TokenizerModel::WordPiece).vocab_size(20);
        Tokenizer::train(["abc abc de fg", "abc de fg hi"], &options)
    }

    #[test]
    fn words_are_hidden_as_a_whole() -> Result<()> {
        let t = tokenizer()?;
        let batch = t.encode_batch(&["hi abc ih de cba fg"; 20], &EncodeOptions::new())?;
        let options = MaskingOptions::new()
            .mlm_probability(0.4)
            .whole_word(true)
            .generator(Generator::new(3));
        let masked = mask_tokens(&batch, &t, &options)?;
        let labels = masked.labels.to_vec2::<i64>()?;
        let mut hidden = 0;
        for (row, encoding) in labels.iter().zip(&batch) {
            let parts = word_begins(encoding);
            for i in 1..row.len() {
                if parts[i] == Part::Goes {
                    assert_eq!(row[i] == IGNORED, row[i - 1] == IGNORED);
                }
                hidden += usize::from(row[i] != IGNORED);
            }
        }
        assert!(hidden > 0);
        Ok(())
    }

    #[test]
    fn parts_are_those_asked_for() -> Result<()> {
        let t = tokenizer()?;
        let batch = t.encode_batch(&["abc de fg hi"; 500], &EncodeOptions::new())?;
        let run = |options: MaskingOptions| {
            let masked = mask_tokens(&batch, &t, &options.generator(Generator::new(1)))?;
            Ok::<_, TorshError>((
                masked.input_ids.to_vec::<i64>()?,
                masked.labels.to_vec::<i64>()?,
            ))
        };
        let (ids, labels) = run(MaskingOptions::new())?;
        let mask = t.mask_token_id().map_or(-1, i64::from);
        let chosen: Vec<_> = ids
            .iter()
            .zip(&labels)
            .filter(|(_, l)| **l != IGNORED)
            .collect();
        let total: usize = batch.iter().map(|e| e.len() - 2).sum();
        let part = chosen.len() as f64 / total as f64;
        assert!((part - 0.15).abs() < 0.03, "{part}");
        let masks = chosen.iter().filter(|(id, _)| **id == mask).count() as f64;
        let part = masks / chosen.len() as f64;
        assert!((part - 0.8).abs() < 0.1, "{part}");
        let (ids, labels) = run(MaskingOptions::new()
            .mlm_probability(1.0)
            .mask_replace_prob(1.0)
            .random_replace_prob(0.0))?;
        assert!(
            ids.iter()
                .zip(&labels)
                .all(|(id, l)| (*l == IGNORED) != (*id == mask))
        );
        assert_eq!(run(MaskingOptions::new())?, run(MaskingOptions::new())?);
        assert!(run(MaskingOptions::new().mlm_probability(1.5)).is_err());
        assert!(run(MaskingOptions::new().random_replace_prob(0.9)).is_err());
        Ok(())
    }

    /// Ids with special tokens 0, 2 and 3, in words of two tokens.
    const ROWS: [[u32; 10]; 4] = [
        [2, 5, 6, 7, 8, 9, 10, 11, 12, 3],
        [2, 13, 14, 15, 16, 17, 18, 19, 3, 0],
        [2, 5, 5, 6, 6, 7, 7, 8, 8, 3],
        [2, 9, 10, 3, 0, 0, 0, 0, 0, 0],
    ];

    fn rows() -> Vec<Encoding> {
        let rows = ROWS.iter().map(|ids| {
            let special: Vec<u32> = ids
                .iter()
                .map(|id| u32::from([0, 2, 3].contains(id)))
                .collect();
            let offsets = (0..10).map(|i| match special[i] {
                1 => (0, 0),
                _ => {
                    let begin = (i - 1) / 2 * 5 + (i - 1) % 2 * 2;
                    (begin, begin + 2)
                }
            });
            Encoding {
                ids: ids.to_vec(),
                offsets: offsets.collect(),
                attention_mask: ids.iter().map(|id| u32::from(*id != 0)).collect(),
                type_ids: vec![0; 10],
                special_tokens_mask: special.clone(),
                ..Encoding::default()
            }
        });
        rows.collect()
    }

    /// A tokenizer of 20 tokens whose mask token has the number 4.
    fn twenty() -> Result<Tokenizer> {
        let words: Vec<String> = (0..20)
            .map(|i| match i {
                4 => "\"[MASK]\": 4".to_string(),
                i => format!("\"t{i}\": {i}"),
            })
            .collect();
        let json = format!(
            r#"{{ "added_tokens": [{{ "id": 4, "content": "[MASK]", "special": true, "normalized": false,
                 "single_word": false, "lstrip": false, "rstrip": false }}],
                 "model": {{ "type": "WordLevel", "unk_token": "t1", "vocab": {{ {} }} }} }}"#,
            words.join(", ")
        );
        Tokenizer::from_bytes(json)
    }

    #[test]
    fn the_draws_are_those_of_pythons_library() -> Result<()> {
        let t = twenty()?;
        let run = |options: MaskingOptions, seed| {
            let generator = Generator::new(seed);
            let options = options.mlm_probability(0.5).generator(generator.clone());
            let masked = mask_tokens(&rows(), &t, &options)?;
            let mut next = [0f32];
            torsh_core::random::fill_uniform(&generator, &mut next, 0.0, 1.0);
            let ids = masked.input_ids.to_vec2::<i64>()?;
            Ok::<_, TorshError>((ids, masked.labels.to_vec2::<i64>()?, next[0]))
        };
        let i = IGNORED;
        let options = || {
            MaskingOptions::new()
                .mask_replace_prob(0.5)
                .random_replace_prob(0.3)
        };
        let (ids, labels, next) = run(options(), 0)?;
        assert_eq!(ids[0], [2, 5, 6, 4, 4, 9, 9, 11, 4, 3]);
        assert_eq!(ids[1], [2, 13, 14, 15, 4, 17, 18, 19, 3, 0]);
        assert_eq!(ids[2], [2, 5, 4, 6, 1, 7, 7, 9, 5, 3]);
        assert_eq!(ids[3], [2, 9, 2, 3, 0, 0, 0, 0, 0, 0]);
        assert_eq!(labels[0], [i, i, 6, 7, 8, i, 10, i, 12, i]);
        assert_eq!(labels[1], [i, 13, 14, 15, 16, i, i, i, i, i]);
        assert_eq!(labels[2], [i, i, 5, i, 6, i, i, 8, 8, i]);
        assert_eq!(labels[3], [i, i, 10, i, i, i, i, i, i, i]);
        assert_eq!(next, 0.403_692_36);

        let (ids, labels, next) = run(options().whole_word(true), 1)?;
        assert_eq!(ids[0], [2, 4, 19, 7, 8, 9, 10, 11, 12, 3]);
        assert_eq!(ids[1], [2, 13, 14, 4, 18, 18, 4, 4, 3, 0]);
        assert_eq!(ids[2], [2, 17, 5, 6, 4, 7, 7, 8, 8, 3]);
        assert_eq!(labels[1], [i, i, i, 15, 16, 17, 18, 19, i, i]);
        assert_eq!(labels[3], [i; 10]);
        assert_eq!(next, 0.126_359_4);

        let (ids, labels, next) = run(MaskingOptions::new().random_replace_prob(0.0), 2)?;
        assert_eq!(ids[0], [2, 4, 6, 4, 8, 9, 4, 4, 12, 3]);
        assert_eq!(labels[2], [i, 5, 5, i, 6, i, 7, 8, 8, i]);
        assert_eq!(next, 0.925_077_1);
        Ok(())
    }
}
