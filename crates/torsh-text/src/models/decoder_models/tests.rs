use serde_json::{Value, json};
use torsh_core::random::manual_seed;
use torsh_nn::{Module, ModuleExt};
use torsh_tensor::{Result, Tensor, randint, tensor};

use crate::blocks::{CacheKind, Padding};
use crate::generation::{DecoderStep, GenerationModel, Logits};
use crate::models::{ModelInputs, TextModel, from_config};

/// A small model of a family, with weights that are far from zero.
fn model(architecture: &str, more: Value) -> Result<Box<dyn TextModel>> {
    let mut config = json!({
        "vocab_size": 23, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 2, "pad_token_id": 0,
        "initializer_range": 0.3, "max_position_embeddings": 32
    });
    if let (Value::Object(config), Value::Object(more)) = (&mut config, more) {
        config.extend(more);
    }
    manual_seed(7);
    let model = from_config(architecture, config)?;
    model.eval();
    Ok(model)
}

fn families() -> Vec<(&'static str, Value)> {
    let longrope = json!({
        "rope_type": "longrope", "short_factor": [1.0], "long_factor": [2.0]
    });
    vec![
        ("LlamaForCausalLM", json!({ "attention_bias": true })),
        ("MistralForCausalLM", json!({ "sliding_window": 3 })),
        (
            "MixtralForCausalLM",
            json!({ "num_local_experts": 3, "sliding_window": 4 }),
        ),
        (
            "Qwen2ForCausalLM",
            json!({ "use_sliding_window": true, "sliding_window": 3, "max_window_layers": 1 }),
        ),
        ("Qwen3ForCausalLM", json!({ "head_dim": 8 })),
        ("GemmaForCausalLM", json!({ "head_dim": 8 })),
        (
            "Gemma2ForCausalLM",
            json!({ "head_dim": 8, "sliding_window": 3, "attn_logit_softcapping": 0.5 }),
        ),
        (
            "Gemma3ForCausalLM",
            json!({ "head_dim": 8, "sliding_window": 3, "sliding_window_pattern": 2 }),
        ),
        (
            "Phi3ForCausalLM",
            json!({ "partial_rotary_factor": 0.5, "rope_scaling": longrope, "sliding_window": 5 }),
        ),
    ]
}

fn generation(model: &dyn TextModel) -> &dyn GenerationModel {
    model.as_generation().expect("a model with a head")
}

/// The logits of all tokens, computed in steps of these sizes.
fn in_steps(
    model: &dyn GenerationModel,
    ids: &Tensor,
    kind: CacheKind,
    steps: &[usize],
    padding: Option<&Padding>,
) -> Result<Tensor> {
    let (mut cache, mut at, mut all) = (model.new_cache(kind), 0, Vec::new());
    for &tokens in steps {
        let ids = ids.narrow(1, at, tokens)?;
        let step = DecoderStep {
            cache: Some(&mut cache),
            padding,
            logits: Logits::All,
            ..DecoderStep::new(&ids)
        };
        all.push(model.decode(step)?.logits);
        at += tokens;
    }
    torsh_tensor::cat(&all, 1)
}

fn near(a: &Tensor, b: &Tensor) -> Result<bool> {
    Ok(a.sub(b)?.abs()?.max()?.item::<f64>()? < 1e-4)
}

#[test]
fn steps_give_what_the_whole_text_gives() -> Result<()> {
    for (architecture, config) in families() {
        let model = model(architecture, config)?;
        let ids = randint(1, 23, &[2, 10]);
        let whole = &model.forward_named(&ModelInputs::ids(ids.clone()))?[0].1;
        for kind in [CacheKind::Growing, CacheKind::Static { capacity: 10 }] {
            for steps in [&[10][..], &[1; 10], &[6, 1, 1, 2], &[2, 5, 3]] {
                let found = in_steps(generation(&*model), &ids, kind, steps, None)?;
                assert!(near(&found, whole)?, "{architecture} {kind:?} {steps:?}");
            }
        }
    }
    Ok(())
}

#[test]
fn texts_that_outgrow_their_frequencies_are_computed_anew() -> Result<()> {
    let longrope = json!({
        "type": "longrope", "short_factor": [1.0, 1.0], "long_factor": [3.0, 5.0]
    });
    let more = json!({ "original_max_position_embeddings": 6, "rope_scaling": longrope });
    let model = model("Phi3ForCausalLM", more)?;
    let model = generation(&*model);
    let ids = randint(1, 23, &[2, 10]);
    for kind in [CacheKind::Growing, CacheKind::Static { capacity: 10 }] {
        let whole = in_steps(model, &ids, kind, &[10], None)?.narrow(1, 6, 4)?;
        for steps in [&[1; 10][..], &[6, 4], &[5, 1, 2, 2], &[3, 3, 1, 3]] {
            let found = in_steps(model, &ids, kind, steps, None)?.narrow(1, 6, 4)?;
            assert!(near(&found, &whole)?, "{kind:?} {steps:?}");
        }
    }
    Ok(())
}

#[test]
fn padding_on_the_left_changes_nothing() -> Result<()> {
    for (architecture, config) in families() {
        let model = model(architecture, config)?;
        let model = generation(&*model);
        let ids = tensor![[0, 0, 0, 5, 6, 7, 8, 9, 10], [1, 2, 3, 4, 5, 6, 7, 8, 9]];
        let padding = Padding::new([3..9, 0..9]);
        let alone = ids.narrow(0, 0, 1)?.narrow(1, 3, 6)?;
        let wanted = in_steps(model, &alone, CacheKind::Growing, &[6], None)?;
        for steps in [&[9][..], &[5, 1, 1, 1, 1], &[4, 5]] {
            let found = in_steps(model, &ids, CacheKind::Growing, steps, Some(&padding))?;
            let found = found.narrow(0, 0, 1)?.narrow(1, 3, 6)?;
            assert!(near(&found, &wanted)?, "{architecture} {steps:?}");
            assert!(!torsh_tensor::has_nan(&found));
        }
    }
    Ok(())
}

#[test]
fn classifiers_read_the_last_token() -> Result<()> {
    let model = model("LlamaForSequenceClassification", json!({ "num_labels": 3 }))?;
    let padded = model.forward(&tensor![[4, 5, 0, 0], [1, 2, 3, 4]])?;
    assert_eq!(padded.dims(), [2, 3]);
    let alone = model.forward(&tensor![[4, 5]])?;
    assert!(near(&padded.narrow(0, 0, 1)?, &alone)?);
    Ok(())
}

#[test]
fn tokens_of_a_bidirectional_model_see_those_after_them() -> Result<()> {
    let of = |bidirectional| {
        let more = json!({
            "head_dim": 8, "sliding_window": 4, "use_bidirectional_attention": bidirectional
        });
        let model = model("Gemma3TextModel", more)?;
        let first = |last: i64| {
            let ids = Tensor::from_vec(vec![1, 2, last], [1, 3])?;
            model.forward(&ids)?.select(1, 0)
        };
        near(&first(3)?, &first(4)?)
    };
    assert_eq!((of(false)?, of(true)?), (true, false));
    Ok(())
}

#[test]
fn sizes_that_do_not_fit_are_named() {
    for (architecture, more, names) in [
        (
            "LlamaModel",
            json!({ "num_attention_heads": 3 }),
            "num_attention_heads = 3",
        ),
        (
            "LlamaModel",
            json!({ "num_key_value_heads": 3 }),
            "num_key_value_heads = 3",
        ),
        (
            "LlamaModel",
            json!({ "partial_rotary_factor": 0.5 }),
            "partial_rotary_factor",
        ),
        (
            "LlamaModel",
            json!({ "rope_scaling": { "type": "linear" } }),
            "factor",
        ),
        (
            "LlamaModel",
            json!({ "rope_scaling": { "typo": 1 } }),
            "typo",
        ),
        (
            "MixtralModel",
            json!({ "num_experts_per_tok": 9 }),
            "num_experts_per_tok",
        ),
        (
            "Qwen2Model",
            json!({ "layer_types": ["full_attention"] }),
            "layer_types",
        ),
        (
            "Phi3Model",
            json!({ "rope_scaling": { "type": "linear" } }),
            "longrope",
        ),
        (
            "GemmaModel",
            json!({ "use_bidirectional_attention": true }),
            "bidirectional",
        ),
    ] {
        let error = model(architecture, more).err().map(|e| e.to_string());
        let named = error.as_ref().is_some_and(|e| e.contains(names));
        assert!(named, "{architecture} {names} {error:?}");
    }
}

#[test]
fn all_parts_train() -> Result<()> {
    for (architecture, config) in families() {
        let model = model(architecture, config)?;
        model.train();
        let ids = tensor![[1, 2, 3, 4, 5, 6, 7, 8], [9, 10, 11, 12, 13, 14, 15, 16]];
        model.forward(&ids)?.square()?.mean()?.backward()?;
        let without = model
            .named_parameters()
            .into_iter()
            .filter(|(_, p)| !p.has_grad());
        let without: Vec<_> = without.map(|(name, _)| name).collect();
        assert!(without.is_empty(), "{architecture} {without:?}");
    }
    Ok(())
}
