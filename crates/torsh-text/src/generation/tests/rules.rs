//! Penalties, bans, ends and constraints.

use super::*;

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
