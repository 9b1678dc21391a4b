//! Decoding of language models against the machine's limits: `torsh-bench decode`.
//!
//! Each token reads all weights once, so the read bandwidth bounds decoding; prompts are products of matrices, so their
//! speed bounds them. Both limits are measured in the same run. One line for each model and dtype:
//!
//! ```json
//! {"name": "decode_gpt2_small_float32", "us": 9000, "tokens_per_s": 111.1, "weight_bytes": 494000000,
//!  "of_read_bandwidth": 0.85, "prompt_512_ms": 160, "of_product": 0.75, "first_token_ms": 160,
//!  "cache_bytes": 40000000, "held_bytes": 40100000}
//! ```
//!
//! `us` is the time of a token, `held_bytes` what generating leaves beside the weights while its cache lives.

use std::io::{self, Write};
use std::time::Instant;

use torsh_core::{alloc, pool};
use torsh_nn::ModuleExt;
use torsh_tensor::{DType, Result, Tensor};
use torsh_text::config::TokenIds;
use torsh_text::generation::{GenerateInputs, GenerationExt, GenerationModel, GenerationOptions};
use torsh_text::models::{GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM};

use crate::inputs::{randint, randn};
use crate::limits::Machine;

/// Tokens of the prompt before new ones are timed, and of the prompt that is timed.
const PROMPT: usize = 32;
const LONG_PROMPT: usize = 512;
/// Measurements whose best is taken.
const ROUNDS: usize = 3;

/// What the limits need to know of a model.
struct Shape {
    layers: usize,
    hidden: usize,
    intermediate: usize,
    vocabulary: i64,
    /// New tokens whose time is measured.
    new: usize,
    /// Parts of the names of parameters of which a token reads a row only.
    looked_up: &'static [&'static str],
}

/// Whether name parts ask for these rows: they hold gigabytes, so a run of everything leaves them out.
pub fn asked(only: &[String]) -> bool {
    only.iter().any(|o| o.starts_with("decode"))
}

/// The names of the rows.
fn names() -> impl Iterator<Item = (&'static str, DType, String)> {
    ["gpt2_small", "llama_1b"].into_iter().flat_map(|model| {
        [DType::F32, DType::BF16]
            .map(|dtype| (model, dtype, format!("decode_{model}_{}", dtype.name())))
    })
}

/// Measures the rows that `only` selects and prints their lines; or prints their names alone.
///
/// # Errors
/// Of writing, and of a model that fails.
pub fn run(only: &[String], list: bool, out: &mut dyn Write) -> io::Result<usize> {
    let mut count = 0;
    for (model, dtype, name) in names() {
        if !only.iter().any(|o| name.contains(o.as_str())) {
            continue;
        }
        count += 1;
        if list {
            writeln!(out, "{name}")?;
            continue;
        }
        let line = match model {
            "gpt2_small" => row(&name, dtype, gpt2, &GPT2_SMALL),
            _ => row(&name, dtype, llama, &LLAMA_1B),
        };
        writeln!(out, "{}", line.map_err(io::Error::other)?)?;
        out.flush()?;
        alloc::empty_cache();
    }
    Ok(count)
}

const GPT2_SMALL: Shape = Shape {
    layers: 12,
    hidden: 768,
    intermediate: 3072,
    vocabulary: 50_257,
    new: 64,
    looked_up: &["wpe"],
};

/// The sizes of TinyLlama.
const LLAMA_1B: Shape = Shape {
    layers: 22,
    hidden: 2048,
    intermediate: 5632,
    vocabulary: 32_000,
    new: 16,
    looked_up: &["embed_tokens"],
};

fn gpt2() -> Result<GPT2LMHeadModel> {
    GPT2LMHeadModel::new(GPT2Config {
        eos_token_id: TokenIds::default(),
        ..GPT2Config::default()
    })
}

fn llama() -> Result<LlamaForCausalLM> {
    LlamaForCausalLM::new(LlamaConfig {
        hidden_size: LLAMA_1B.hidden,
        intermediate_size: LLAMA_1B.intermediate,
        num_hidden_layers: LLAMA_1B.layers,
        num_key_value_heads: Some(4),
        eos_token_id: TokenIds::default(),
        ..LlamaConfig::default()
    })
}

/// The best time in seconds.
fn best(mut f: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        f()?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(best)
}

fn row<M: GenerationModel + torsh_nn::Module>(
    name: &str,
    dtype: DType,
    make: fn() -> Result<M>,
    shape: &Shape,
) -> Result<String> {
    let mut model = make()?;
    model.to_dtype(dtype)?;
    model.eval();
    let bytes = |names: &[&str]| -> usize {
        let of = |(name, p): (String, torsh_nn::Parameter)| {
            let rows_only = names.iter().any(|n| name.contains(n));
            (!rows_only as usize) * p.numel() * dtype.size()
        };
        model.named_parameters().into_iter().map(of).sum()
    };
    let weight_bytes = bytes(shape.looked_up);
    let read = Machine::measure(pool::num_threads()).read;
    let generate = |prompt: &Tensor, new: usize| {
        model.generate(prompt, &GenerationOptions::new().max_new_tokens(new))
    };
    let prompt = randint(shape.vocabulary, &[1, PROMPT])?;
    generate(&prompt, 2)?;
    let once = best(|| generate(&prompt, 1).map(drop))?;
    let many = best(|| generate(&prompt, 1 + shape.new).map(drop))?;
    let token = (many - once) / shape.new as f64;

    let long = randint(shape.vocabulary, &[1, LONG_PROMPT])?;
    let first = best(|| generate(&long, 1).map(drop))?;
    // Layers multiply each token, the head the last one; attention sees half of the keys on average.
    let looked_up = |name: &str| {
        ["wpe", "wte", "embed", "lm_head"]
            .iter()
            .any(|n| name.contains(n))
    };
    let in_layers: usize = model
        .named_parameters()
        .into_iter()
        .filter(|(name, p)| p.ndim() == 2 && !looked_up(name))
        .map(|(_, p)| p.numel())
        .sum();
    let attention = shape.layers * 2 * LONG_PROMPT * LONG_PROMPT * shape.hidden;
    let head = 2 * shape.vocabulary as usize * shape.hidden;
    let flops = 2 * in_layers * LONG_PROMPT + attention + head;
    let product = product(dtype, shape)?;

    let before = alloc::stats().allocated_bytes;
    let inputs = GenerateInputs::ids(&prompt);
    let options = GenerationOptions::new().max_new_tokens(shape.new);
    let output = model.generate_with(inputs, &options)?;
    let held = alloc::stats().allocated_bytes.saturating_sub(before);
    let cache = output.cache.as_ref().map_or(0, |c| c.bytes());
    let value = serde_json::json!({
        "name": name,
        "threads": pool::num_threads(),
        "us": (token * 1e6).round(),
        "tokens_per_s": rounded(1.0 / token),
        "weight_bytes": weight_bytes,
        "read_gb_per_s": rounded(read / 1e9),
        "of_read_bandwidth": rounded(weight_bytes as f64 / token / read),
        "prompt_512_ms": rounded(first * 1e3),
        "product_gflops": rounded(product / 1e9),
        "of_product": rounded(flops as f64 / first / product),
        "first_token_ms": rounded(once * 1e3),
        "cache_bytes": cache,
        "held_bytes": held,
    });
    Ok(value.to_string())
}

fn rounded(x: f64) -> f64 {
    (x * 1000.0).round() / 1000.0
}

/// Operations per second of the product of the long prompt with the largest matrix of a layer.
fn product(dtype: DType, shape: &Shape) -> Result<f64> {
    let x = randn(&[LONG_PROMPT, shape.hidden])?.to_dtype(dtype)?;
    let w = randn(&[shape.intermediate, shape.hidden])?.to_dtype(dtype)?;
    let (x, w) = (x, w.t()?);
    let calls = 8;
    let seconds = best(|| (0..calls).try_for_each(|_| x.matmul(&w).map(drop)))?;
    let flops = 2 * LONG_PROMPT * shape.hidden * shape.intermediate * calls;
    Ok(flops as f64 / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_everything_leaves_them_out() {
        let only = |names: &[&str]| names.iter().map(|n| n.to_string()).collect::<Vec<_>>();
        assert!(!asked(&[]) && !asked(&only(&["gpt2", "matmul"])));
        assert!(asked(&only(&["decode"])) && asked(&only(&["decode_llama_1b_bfloat16"])));
        let mut out = Vec::new();
        assert_eq!(run(&only(&["decode_llama"]), true, &mut out).unwrap(), 2);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "decode_llama_1b_float32\ndecode_llama_1b_bfloat16\n");
    }
}
