use super::*;
use serde_json::json;

#[test]
fn fields_are_read_ignored_or_refused() -> Result<()> {
    let read = GenerationOptions::from_json(json!({
        "_from_model_config": true, "eos_token_id": [1, 2], "stop_strings": "x", "early_stopping": "never",
        "exponential_decay_length_penalty": [5, 1.5], "sequence_bias": [[[1, 2], -2.0]], "top_p": null,
        "cache_implementation": "hybrid", "guidance_scale": 1.0, "temperature": 1, "token_healing": false
    }))?;
    let wanted = GenerationOptions::new()
        .eos_token_id(TokenIds(vec![1, 2]))
        .stop_strings(["x"])
        .early_stopping(EarlyStopping::Never)
        .exponential_decay_length_penalty((5, 1.5))
        .sequence_bias([(vec![1, 2], -2.0)])
        .cache_implementation(CacheImplementation::Dynamic)
        .temperature(1.0);
    assert_eq!(read, wanted);
    assert_eq!(GenerationOptions::from_json(read.to_json()?)?, read);
    for (wrong, names) in [
        (json!({ "guidance_scale": 2 }), "guidance_scale"),
        (json!({ "temperatur": 2 }), "temperatur"),
        (json!({ "top_k": "many" }), "top_k"),
        (json!({ "early_stopping": "soon" }), "early_stopping"),
        (
            json!({ "cache_implementation": "quantized" }),
            "cache_implementation",
        ),
        (json!({ "force_words_ids": [[1]] }), "force_words_ids"),
        (json!(3), "object"),
    ] {
        let error = GenerationOptions::from_json(wrong)
            .err()
            .map(|e| e.to_string());
        assert!(
            error.as_ref().is_some_and(|e| e.contains(names)),
            "{error:?}"
        );
    }
    let of_model = json!({ "hidden_size": 3, "forced_eos_token_id": 2, "dola_layers": "high" });
    assert!(GenerationOptions::from_model_config(&of_model).is_err());
    let of_model = json!({ "hidden_size": 3, "forced_eos_token_id": 2 });
    let read = GenerationOptions::from_model_config(&of_model)?;
    assert_eq!(read, GenerationOptions::new().forced_eos_token_id(2));
    Ok(())
}

#[test]
fn lengths_are_of_the_whole_text() -> Result<()> {
    let of = |o: GenerationOptions, positions, prompt| {
        Settings::new(o, &SpecialTokens::default(), positions, prompt).map(|s| s.max_length)
    };
    let new = GenerationOptions::new;
    assert_eq!(of(new(), None, 5)?, 25);
    assert_eq!(of(new(), Some(10), 5)?, 10);
    assert_eq!(of(new().max_length(7), Some(10), 5)?, 7);
    assert_eq!(of(new().max_length(7).max_new_tokens(3), None, 5)?, 8);
    for (options, positions, prompt, texts) in [
        (new().max_length(5), None, 5, ["5 tokens", "5"]),
        (new().max_new_tokens(1), Some(10), 11, ["11", "10"]),
        (new().max_new_tokens(0), None, 1, ["max_new_tokens", "0"]),
        (
            new().num_beams(3).num_return_sequences(4),
            None,
            1,
            ["4", "3"],
        ),
        (
            new().num_return_sequences(2),
            None,
            1,
            ["num_return_sequences", "2"],
        ),
        (new().num_beams(3).num_beam_groups(2), None, 1, ["3", "2"]),
        (
            new().num_beams(4).num_beam_groups(2),
            None,
            1,
            ["diversity_penalty", "0"],
        ),
        (new().temperature(0.0), None, 1, ["temperature", "0"]),
    ] {
        let error = of(options, positions, prompt).err().map(|e| e.to_string());
        let names = |e: &String| texts.iter().all(|t| e.contains(t));
        assert!(error.as_ref().is_some_and(names), "{error:?}");
    }
    Ok(())
}

#[test]
fn the_callers_settings_go_first() {
    let model = GenerationOptions::new().num_beams(4).top_k(3);
    let all = GenerationOptions::new().num_beams(2).or(&model);
    assert_eq!(
        (all.num_beams, all.top_k, all.top_p),
        (Some(2), Some(3), None)
    );
}
