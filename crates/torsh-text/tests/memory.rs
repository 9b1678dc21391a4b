//! The memory of generation: a mapped file's weights are in memory once, and a cache holds what its formula says. Alone
//! in its process, whose memory is counted.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use torsh_core::alloc;
use torsh_core::random::LocalGenerator;
use torsh_hub::FromPretrained;
use torsh_nn::construct::Construction;
use torsh_nn::{Module, ModuleExt};
use torsh_tensor::{DType, Result, Tensor, TorshError, tensor};
use torsh_text::config::TokenIds;
use torsh_text::generation::{
    CacheImplementation, GenerateInputs, GenerationExt, GenerationModel, GenerationOptions,
};
use torsh_text::models::{
    AutoModel, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, TextModel,
};

/// The counts are of the whole process, so its tests run one after the other.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes in use, with an empty cache of free blocks: new blocks are as large as what they hold.
fn in_use() -> usize {
    alloc::empty_cache();
    alloc::stats().allocated_bytes
}

/// Bytes of all parameters.
fn weight_bytes<M: Module + ?Sized>(model: &M) -> usize {
    let bytes = |p: &torsh_nn::Parameter| p.numel() * p.dtype().size();
    model.parameters().iter().map(bytes).sum()
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        Folder(
            std::env::temp_dir().join(format!("torsh-text-memory-{name}-{}", std::process::id())),
        )
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Bytes of this process's memory that are no file's, where the system tells.
fn anonymous() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("RssAnon:"))?;
    let kib = line.split_whitespace().nth(1)?.parse::<usize>().ok()?;
    Some(kib << 10)
}

/// Loads a model and writes one token. From loading on, the allocator gives out less than an eighth of the weights' bytes
/// (processors without bfloat16 convert blocks of them), and the process has less than an eighth of them in memory besides the mapped file.
fn first_token<M: Module + ?Sized>(
    load: impl FnOnce() -> Result<Box<M>>,
    as_generation: impl Fn(&M) -> Option<&dyn GenerationModel>,
) -> Result<Tensor> {
    let (before, memory) = (in_use(), anonymous());
    let model = load()?;
    alloc::reset_peak_stats();
    let generation = as_generation(&model).ok_or_else(|| TorshError::Other("no head".into()))?;
    let text = generation.generate(&prompt(), &GenerationOptions::new().max_new_tokens(1))?;
    let peak = alloc::stats().peak_allocated_bytes - before;
    let weights = weight_bytes(&*model);
    println!("{weights} bytes of weights, {peak} bytes besides them at most");
    assert!(weights > 16 << 20, "{weights}");
    assert!(8 * peak < weights, "{peak} of {weights} bytes");
    if let (Some(before), Some(after)) = (memory, anonymous()) {
        let more = after.saturating_sub(before);
        println!("{more} bytes more of memory");
        assert!(8 * more < weights, "{more} of {weights} bytes");
    }
    assert_eq!(text.dims(), [1, 9]);
    Ok(text)
}

fn prompt() -> Tensor {
    tensor![[1, 2, 3, 4, 5, 6, 7, 8]]
}

#[test]
fn a_mapped_files_weights_are_in_memory_once() -> Result<()> {
    let _turn = alone();
    let (whole, half) = (Folder::new("whole"), Folder::new("half"));
    let config = LlamaConfig {
        vocab_size: 512,
        hidden_size: 256,
        intermediate_size: 1024,
        num_hidden_layers: 8,
        num_attention_heads: 4,
        ..LlamaConfig::default()
    };
    let options = GenerationOptions::new().max_new_tokens(1);
    let wanted = LocalGenerator::new(3).scope(|| -> Result<_> {
        let mut model = LlamaForCausalLM::new(config)?;
        model.eval();
        model.save_model(&whole.0)?;
        let in_float = model.generate(&prompt(), &options)?;
        model.to_dtype(DType::BF16)?;
        model.save_model(&half.0)?;
        Ok([in_float, model.generate(&prompt(), &options)?])
    })?;
    for ((folder, dtype), wanted) in [(&whole, DType::F32), (&half, DType::BF16)]
        .iter()
        .zip(wanted)
    {
        let source = folder.0.display().to_string();
        let construction = Construction::new().dtype(*dtype);
        let by_type = || {
            construction.run(|| {
                let model = LlamaForCausalLM::from_pretrained(&source)?;
                model.eval();
                assert_eq!(model.lm_head.weight.dtype(), *dtype);
                Ok(Box::new(model))
            })
        };
        let text = first_token(by_type, |m: &LlamaForCausalLM| Some(m))?;
        assert_eq!(text, wanted);

        let by_name = || construction.run(|| AutoModel::from_pretrained(&source));
        let text = first_token(by_name, |m: &dyn TextModel| m.as_generation())?;
        assert_eq!(text, wanted);
    }
    Ok(())
}

const PROMPT: usize = 4;
const NEW: usize = 1000;
/// Ids, logits and other small tensors of a step.
const SLACK: usize = 64 << 10;

/// Writes 1,000 tokens, and gives the bytes that are held after 100, 500 and all of them.
fn held(model: &dyn GenerationModel, options: &GenerationOptions) -> Result<Vec<usize>> {
    let options = options
        .clone()
        .max_new_tokens(NEW)
        .eos_token_id(TokenIds(Vec::new()));
    let prompt = tensor![[1, 2, 3, 4]];
    // What threads keep for their kernels is taken now.
    model.generate(&prompt, &options.clone().max_new_tokens(3))?;
    let before = in_use();
    let mut stream = model.stream(GenerateInputs::ids(&prompt), &options)?;
    let mut out = Vec::new();
    for n in 1..=NEW {
        let id = stream
            .next()
            .ok_or_else(|| TorshError::Other(format!("{n} tokens")))??;
        assert!((0..23).contains(&id));
        if [100, 500, NEW].contains(&n) {
            out.push(alloc::stats().allocated_bytes - before);
        }
    }
    Ok(out)
}

#[test]
fn a_thousand_tokens_hold_what_the_cache_says() -> Result<()> {
    let _turn = alone();
    let (layers, heads, size) = (2, 2, 16);
    // Keys and values of float32 for so many tokens.
    let bytes = |tokens: usize| 2 * layers * heads * size * 4 * tokens;
    let (llama, mistral) = LocalGenerator::new(3).scope(|| -> Result<_> {
        let llama = LlamaForCausalLM::new(LlamaConfig {
            vocab_size: 23,
            hidden_size: 64,
            intermediate_size: 64,
            num_hidden_layers: layers,
            num_attention_heads: 4,
            num_key_value_heads: Some(heads),
            ..LlamaConfig::default()
        })?;
        let mistral = MistralForCausalLM::new(MistralConfig {
            vocab_size: 23,
            hidden_size: 64,
            intermediate_size: 64,
            num_hidden_layers: layers,
            num_attention_heads: 4,
            num_key_value_heads: Some(heads),
            sliding_window: Some(32),
            ..MistralConfig::default()
        })?;
        llama.eval();
        mistral.eval();
        Ok((llama, mistral))
    })?;
    let options = GenerationOptions::new();
    let fixed = options
        .clone()
        .cache_implementation(CacheImplementation::Static)
        .max_cache_len(1200);
    // The last token is never computed. A layer that slides has memory for two windows.
    let cases: [(&str, &dyn GenerationModel, &GenerationOptions, usize); 3] = [
        ("growing", &llama, &options, bytes(PROMPT + NEW - 1)),
        ("static", &llama, &fixed, bytes(1200)),
        ("sliding", &mistral, &options, bytes(2 * 32)),
    ];
    for (name, model, options, formula) in cases {
        let held = held(model, options)?;
        println!("{name}: {held:?} bytes held, {formula} by the formula");
        let last = held[held.len() - 1];
        assert!(last <= formula + SLACK, "{name}: {last} of {formula}");
        // All of the memory is there by the hundredth token.
        assert!(
            held.iter().all(|h| h.abs_diff(last) < SLACK),
            "{name}: {held:?}"
        );
        // The cache says so itself.
        let inputs = GenerateInputs::ids(&tensor![[1, 2, 3, 4]]);
        let all = options
            .clone()
            .max_new_tokens(NEW)
            .eos_token_id(TokenIds(Vec::new()));
        let output = model.generate_with(inputs, &all)?;
        assert_eq!(output.sequences.dims(), [1, PROMPT + NEW]);
        assert_eq!(output.cache.map(|c| c.bytes()), Some(formula), "{name}");
    }
    Ok(())
}
