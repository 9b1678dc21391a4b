//! Beams.

use super::*;

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
            .early_stopping("never");
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
