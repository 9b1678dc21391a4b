//! What transformers 5 generates with small models whose weights are drawn in a fixed way.

use serde_json::{Value, json};
use torsh_core::random::{LocalGenerator, manual_seed};
use torsh_nn::ModuleExt;
use torsh_tensor::{Result, Tensor, TorshError, no_grad, rand};

use super::*;
use crate::models::{TextModel, from_config};

/// A model whose parameters are drawn in the order of their names.
fn drawn(architecture: &str, config: Value, seed: u64) -> Result<Box<dyn TextModel>> {
    let model = from_config(architecture, config)?;
    model.eval();
    let mut all = model.named_parameters();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    manual_seed(seed);
    for (name, p) in all {
        let r = rand(p.dims()).mul(2.0)?.sub(1.0)?;
        let norm = ["norm", "ln_", ".ln"]
            .iter()
            .any(|part| name.to_lowercase().contains(part));
        let drawn = match p.ndim() {
            1 if name.ends_with("bias") => r.mul(0.1)?,
            1 if name.ends_with("weight") && norm => r.mul(0.1)?.add(1.0)?,
            0 | 1 => r.mul(0.1)?,
            _ => r.mul(0.5)?,
        };
        no_grad(|| p.copy_(&drawn))?;
    }
    Ok(model)
}

/// Options, texts, and the scores of beams.
type Case = (Value, Value, Value);

fn check(model: &dyn TextModel, inputs: &Value, mask: &Value, cases: Vec<Case>) -> Result<()> {
    let model = model
        .as_generation()
        .ok_or_else(|| TorshError::invalid("test", "the model generates nothing"))?;
    let tensor = |rows: &Value| -> Result<Tensor> {
        let rows: Vec<Vec<i64>> = serde_json::from_value(rows.clone()).unwrap_or_default();
        Tensor::from_vec(rows.concat(), [rows.len(), rows[0].len()])
    };
    for (options, sequences, scores) in cases {
        let own = GenerationOptions::from_json(options.clone())?.pad_token_id(0);
        let own = match own.max_length {
            None => own.max_new_tokens(14),
            Some(_) => own,
        };
        let inputs = GenerateInputs::ids(&tensor(inputs)?).attention_mask(tensor(mask)?);
        manual_seed(10);
        let out = model.generate_with(inputs, &own)?;
        assert_eq!(
            json!(out.sequences.to_vec2::<i64>()?),
            sequences,
            "{options}"
        );
        let found = out
            .sequences_scores
            .map(|s| s.to_vec::<f64>())
            .transpose()?;
        let wanted: Option<Vec<f64>> = serde_json::from_value(scores).unwrap_or_default();
        assert_eq!(found.is_some(), wanted.is_some());
        for (a, b) in found.iter().flatten().zip(wanted.iter().flatten()) {
            assert!(
                (a - b).abs() < 1e-5 * b.abs().max(1.0),
                "{options}: {found:?} {wanted:?}"
            );
        }
    }
    Ok(())
}

#[test]
fn gpt2_continues_texts() -> Result<()> {
    let config = json!({"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 97, "n_positions": 64, "bos_token_id": 1, "eos_token_id": 2});
    let inputs = json!([[72, 66, 92, 66, 57, 20], [6, 9, 77, 20, 83, 12]]);
    let mask = json!([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]]);
    let cases = vec![
        (
            json!({"do_sample": true, "num_beams": 3, "top_k": 20, "temperature": 0.9}),
            json!([
                [
                    72, 66, 92, 66, 57, 20, 83, 83, 83, 83, 9, 68, 80, 52, 83, 22, 37, 29, 87, 52
                ],
                [
                    6, 9, 77, 20, 83, 12, 37, 22, 22, 37, 82, 80, 60, 83, 90, 80, 57, 26, 78, 20
                ]
            ]),
            json!([-2.073197, -2.441119]),
        ),
        (
            json!({"do_sample": true, "num_beams": 3, "top_k": 20, "temperature": 0.9, "num_return_sequences": 2, "top_p": 0.8}),
            json!([
                [
                    72, 66, 92, 66, 57, 20, 83, 83, 22, 83, 9, 39, 83, 83, 93, 80, 83, 83, 37, 60
                ],
                [
                    72, 66, 92, 66, 57, 20, 83, 83, 83, 83, 9, 32, 2, 2, 2, 2, 2, 2, 2, 2
                ],
                [
                    6, 9, 77, 20, 83, 12, 37, 22, 22, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2
                ],
                [
                    6, 9, 77, 20, 83, 12, 37, 22, 22, 37, 37, 22, 37, 82, 29, 22, 22, 26, 22, 0
                ]
            ]),
            json!([-2.114853, -2.118956, -2.052129, -2.101801]),
        ),
        (
            json!({"num_beams": 3, "early_stopping": "never", "length_penalty": 1.5, "num_return_sequences": 3}),
            json!([
                [
                    72, 66, 92, 66, 57, 20, 45, 83, 82, 37, 37, 60, 80, 83, 80, 83, 83, 60, 60, 60
                ],
                [
                    72, 66, 92, 66, 57, 20, 45, 83, 82, 37, 37, 60, 80, 83, 80, 83, 83, 82, 33, 52
                ],
                [
                    72, 66, 92, 66, 57, 20, 45, 83, 82, 37, 37, 60, 80, 83, 80, 83, 83, 82, 52, 60
                ],
                [
                    6, 9, 77, 20, 83, 12, 37, 22, 22, 22, 22, 22, 22, 81, 81, 22, 22, 57, 57, 80
                ],
                [
                    6, 9, 77, 20, 83, 12, 37, 22, 22, 22, 22, 22, 22, 81, 81, 22, 22, 57, 39, 82
                ],
                [
                    6, 9, 77, 20, 83, 12, 37, 22, 22, 22, 22, 22, 22, 81, 81, 22, 22, 57, 57, 37
                ]
            ]),
            json!([
                -0.456143, -0.46691, -0.473391, -0.478933, -0.483477, -0.484058
            ]),
        ),
        (
            json!({"num_beams": 3, "early_stopping": "never", "length_penalty": -0.5}),
            json!([
                [72, 66, 92, 66, 57, 20, 45, 83, 2],
                [6, 9, 77, 20, 83, 12, 37, 22, 2]
            ]),
            json!([-10.764893, -10.180106]),
        ),
        (
            json!({"num_beams": 4, "eos_token_id": [2, 22, 83]}),
            json!([
                [
                    72, 66, 92, 66, 57, 20, 45, 45, 80, 52, 52, 60, 52, 52, 46, 80, 52, 52, 52, 60
                ],
                [
                    6, 9, 77, 20, 83, 12, 37, 22, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2
                ]
            ]),
            json!([-1.56498, -1.68373]),
        ),
        (
            json!({"num_beams": 2, "no_repeat_ngram_size": 2, "repetition_penalty": 1.2, "min_new_tokens": 6}),
            json!([
                [
                    72, 66, 92, 66, 57, 20, 45, 83, 22, 82, 52, 60, 80, 52, 52, 17, 82, 2, 2, 2
                ],
                [
                    6, 9, 77, 20, 83, 12, 37, 22, 22, 70, 37, 82, 60, 57, 80, 85, 29, 57, 82, 26
                ]
            ]),
            json!([-1.969829, -2.118924]),
        ),
        (
            json!({"do_sample": true, "top_k": 0, "eta_cutoff": 0.02}),
            json!([
                [
                    72, 66, 92, 66, 57, 20, 83, 76, 92, 9, 66, 86, 2, 0, 0, 0, 0, 0, 0, 0
                ],
                [
                    6, 9, 77, 20, 83, 12, 81, 68, 57, 60, 70, 45, 33, 35, 93, 59, 60, 19, 52, 2
                ]
            ]),
            json!(null),
        ),
        (
            json!({"do_sample": true, "top_k": 0, "epsilon_cutoff": 0.03}),
            json!([
                [
                    72, 66, 92, 66, 57, 20, 83, 76, 80, 9, 33, 83, 2, 0, 0, 0, 0, 0, 0, 0
                ],
                [
                    6, 9, 77, 20, 83, 12, 81, 93, 37, 82, 57, 80, 57, 52, 79, 59, 60, 60, 37, 26
                ]
            ]),
            json!(null),
        ),
        (
            json!({"do_sample": true, "top_k": 0, "top_h": 0.4}),
            json!([
                [
                    72, 66, 92, 66, 57, 20, 83, 76, 80, 9, 33, 82, 26, 83, 33, 82, 33, 46, 52, 15
                ],
                [
                    6, 9, 77, 20, 83, 12, 81, 93, 37, 82, 57, 80, 57, 52, 79, 19, 60, 60, 37, 26
                ]
            ]),
            json!(null),
        ),
        (
            json!({"do_sample": true, "top_k": 30, "top_p": 0.9, "min_p": 0.05, "typical_p": 0.8, "temperature": 1.3, "num_return_sequences": 2}),
            json!([
                [
                    72, 66, 92, 66, 57, 20, 30, 87, 88, 87, 33, 34, 16, 36, 34, 80, 52, 37, 60, 93
                ],
                [
                    72, 66, 92, 66, 57, 20, 45, 57, 57, 33, 52, 60, 45, 2, 0, 0, 0, 0, 0, 0
                ],
                [
                    6, 9, 77, 20, 83, 12, 39, 22, 82, 34, 33, 46, 2, 0, 0, 0, 0, 0, 0, 0
                ],
                [
                    6, 9, 77, 20, 83, 12, 68, 60, 82, 83, 36, 34, 39, 82, 78, 82, 83, 82, 84, 78
                ]
            ]),
            json!(null),
        ),
        (
            json!({"encoder_repetition_penalty": 1.6}),
            json!([
                [
                    72, 66, 92, 66, 57, 20, 83, 83, 83, 83, 9, 32, 76, 9, 93, 2, 0, 0, 0, 0
                ],
                [
                    6, 9, 77, 20, 83, 12, 60, 22, 22, 22, 22, 22, 22, 81, 83, 37, 26, 83, 9, 51
                ]
            ]),
            json!(null),
        ),
        (
            json!({"encoder_no_repeat_ngram_size": 1}),
            json!([
                [
                    72, 66, 92, 66, 57, 20, 83, 83, 83, 83, 9, 32, 76, 9, 93, 2, 0, 0, 0, 0
                ],
                [
                    6, 9, 77, 20, 83, 12, 60, 22, 22, 22, 22, 22, 22, 81, 39, 80, 60, 39, 39, 80
                ]
            ]),
            json!(null),
        ),
        (
            json!({"bad_words_ids": [[22], [60, 22], [9, 32]]}),
            json!([
                [
                    72, 66, 92, 66, 57, 20, 83, 83, 83, 83, 9, 68, 80, 52, 83, 9, 34, 80, 52, 52
                ],
                [
                    6, 9, 77, 20, 83, 12, 60, 70, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
                ]
            ]),
            json!(null),
        ),
        (
            json!({"sequence_bias": [[[22, 22], -3.0], [[60], 2.0]]}),
            json!([
                [
                    72, 66, 92, 66, 57, 20, 83, 83, 83, 83, 9, 60, 60, 83, 33, 9, 80, 60, 60, 60
                ],
                [
                    6, 9, 77, 20, 83, 12, 60, 60, 60, 60, 60, 60, 60, 60, 60, 60, 60, 60, 60, 60
                ]
            ]),
            json!(null),
        ),
        (
            json!({"forced_eos_token_id": 5, "min_length": 12}),
            json!([
                [
                    72, 66, 92, 66, 57, 20, 83, 83, 83, 83, 9, 32, 76, 9, 93, 2, 0, 0, 0, 0
                ],
                [
                    6, 9, 77, 20, 83, 12, 60, 22, 22, 22, 22, 22, 22, 81, 39, 80, 60, 39, 83, 5
                ]
            ]),
            json!(null),
        ),
        (
            json!({"exponential_decay_length_penalty": [3, 1.4]}),
            json!([
                [72, 66, 92, 66, 57, 20, 83, 83, 83, 83, 9, 32, 2],
                [6, 9, 77, 20, 83, 12, 60, 22, 22, 22, 22, 2, 0]
            ]),
            json!(null),
        ),
        (
            json!({"suppress_tokens": [22, 83], "begin_suppress_tokens": [60, 9]}),
            json!([
                [
                    72, 66, 92, 66, 57, 20, 45, 45, 80, 52, 52, 60, 52, 52, 37, 82, 52, 2
                ],
                [6, 9, 77, 20, 83, 12, 37, 82, 80, 2, 0, 0, 0, 0, 0, 0, 0, 0]
            ]),
            json!(null),
        ),
        (
            json!({"do_sample": true, "renormalize_logits": true, "num_beams": 2, "top_k": 10}),
            json!([
                [72, 66, 92, 66, 57, 20, 45, 83, 2, 2, 2],
                [6, 9, 77, 20, 83, 12, 60, 22, 22, 22, 2]
            ]),
            json!([-1.509624, -1.611406]),
        ),
        (
            json!({"max_length": 10}),
            json!([
                [72, 66, 92, 66, 57, 20, 83, 83, 83, 83],
                [6, 9, 77, 20, 83, 12, 60, 22, 22, 22]
            ]),
            json!(null),
        ),
        (
            json!({"eos_token_id": [83, 81]}),
            json!([
                [72, 66, 92, 66, 57, 20, 83, 0, 0, 0, 0, 0, 0, 0],
                [6, 9, 77, 20, 83, 12, 60, 22, 22, 22, 22, 22, 22, 81]
            ]),
            json!(null),
        ),
    ];
    LocalGenerator::new(0).scope(|| {
        check(
            &*drawn("GPT2LMHeadModel", config, 9)?,
            &inputs,
            &mask,
            cases,
        )
    })
}

#[test]
fn t5_answers_texts() -> Result<()> {
    let config = json!({"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "vocab_size": 97, "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 2});
    let inputs = json!([
        [72, 66, 92, 66, 57, 20, 31, 28, 8, 45, 83],
        [6, 9, 77, 20, 83, 12, 27, 91, 82, 8, 34]
    ]);
    let mask = json!([
        [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
        [1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0]
    ]);
    let cases = vec![
        (
            json!({"do_sample": true, "num_beams": 3, "top_k": 20, "temperature": 0.9}),
            json!([[0, 28, 4, 2], [0, 2, 2, 2]]),
            json!([-4.424337, -4.446964]),
        ),
        (
            json!({"do_sample": true, "num_beams": 3, "top_k": 20, "temperature": 0.9, "num_return_sequences": 2, "top_p": 0.8}),
            json!([
                [0, 26, 75, 24, 47, 38, 20, 30, 75, 24, 30, 24, 4, 4, 4],
                [0, 26, 75, 24, 47, 38, 20, 30, 75, 24, 30, 24, 4, 4, 20],
                [0, 29, 29, 4, 29, 29, 4, 4, 29, 4, 43, 47, 4, 46, 22],
                [0, 29, 29, 4, 29, 29, 4, 4, 29, 4, 43, 47, 4, 46, 54]
            ]),
            json!([-4.449693, -4.465592, -4.293982, -4.310942]),
        ),
        (
            json!({"num_beams": 3, "early_stopping": "never", "length_penalty": 1.5, "num_return_sequences": 3}),
            json!([
                [0, 4, 20, 4, 20, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4],
                [0, 4, 20, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4],
                [0, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4],
                [0, 4, 85, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4],
                [0, 4, 4, 85, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4],
                [0, 4, 85, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 47]
            ]),
            json!([
                -1.034894, -1.035769, -1.035975, -0.98215, -0.98844, -0.989629
            ]),
        ),
        (
            json!({"num_beams": 2, "no_repeat_ngram_size": 2, "repetition_penalty": 1.2, "min_new_tokens": 6}),
            json!([
                [0, 4, 20, 30, 66, 68, 95, 26, 2],
                [0, 4, 85, 30, 22, 36, 40, 2, 2]
            ]),
            json!([-3.947523, -3.934781]),
        ),
        (
            json!({"do_sample": true, "top_k": 30, "top_p": 0.9, "min_p": 0.05, "typical_p": 0.8, "temperature": 1.3, "num_return_sequences": 2}),
            json!([
                [0, 28, 73, 66, 36, 24, 67, 24, 14, 20, 28, 94, 95, 95, 66],
                [0, 85, 14, 59, 78, 93, 81, 52, 2, 0, 0, 0, 0, 0, 0],
                [0, 40, 78, 43, 73, 82, 46, 68, 90, 68, 55, 2, 0, 0, 0],
                [0, 43, 40, 76, 51, 59, 38, 41, 91, 48, 92, 73, 24, 90, 15]
            ]),
            json!(null),
        ),
        (
            json!({"encoder_repetition_penalty": 1.6}),
            json!([
                [0, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20],
                [0, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20]
            ]),
            json!(null),
        ),
        (
            json!({"forced_eos_token_id": 5, "min_length": 12}),
            json!([
                [0, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 5],
                [0, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 5]
            ]),
            json!(null),
        ),
        (
            json!({"exponential_decay_length_penalty": [3, 1.4]}),
            json!([[0, 4, 4, 4, 4, 2, 0], [0, 4, 4, 4, 4, 4, 2]]),
            json!(null),
        ),
        (
            json!({"do_sample": true, "renormalize_logits": true, "num_beams": 2, "top_k": 10}),
            json!([
                [0, 20, 0, 20, 26, 62, 68, 24, 47, 47, 36, 68, 31, 20, 30],
                [0, 43, 75, 47, 73, 73, 4, 30, 30, 46, 47, 73, 55, 4, 47]
            ]),
            json!([-2.257273, -2.195771]),
        ),
    ];
    LocalGenerator::new(0).scope(|| {
        check(
            &*drawn("T5ForConditionalGeneration", config, 19)?,
            &inputs,
            &mask,
            cases,
        )
    })
}
