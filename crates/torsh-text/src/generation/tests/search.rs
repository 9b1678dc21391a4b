//! Draws, streams, assisted decoding, contrastive search, caches and perplexity.

use super::*;

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
