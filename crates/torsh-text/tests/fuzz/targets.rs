//! What reads bytes of somebody else.

use std::path::PathBuf;

use serde_json::{Value, json};
use torsh_core::random::LocalGenerator;
use torsh_fuzz::{JSON, Target};
use torsh_nn::construct::Construction;
use torsh_nn::{Linear, Module, ModuleExt, Sequential};
use torsh_tensor::{Result, TorshError, no_grad, ones, tensor};
use torsh_text::adapters::{LoraConfig, LoraModel};
use torsh_text::blocks::{CacheKind, KvCache};
use torsh_text::generation::{
    Constraint, GenerateInputs, GenerationExt, GenerationOptions, Vocabulary,
};
use torsh_text::models::{
    GPT2Config, GPT2LMHeadModel, WhisperForConditionalGeneration, from_config,
};
use torsh_text::speech::{CTranslate2, Sound};
use torsh_text::tokenizers::{
    ChatMessage, ChatOptions, EncodeOptions, Tokenizer, TokenizerModel, TrainOptions,
};

use crate::common::families;
use crate::containers;

/// A text with what tokenizers are told apart by.
const TEXT: &str = "Hello, world! hello  there\t\u{301}é 你好 👩‍👧 <s>[MASK] ``x'' 123 \u{fe}\u{0}";

fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|e| TorshError::Other(e.to_string()))
}

fn parsed(bytes: &[u8]) -> Result<Value> {
    serde_json::from_slice(bytes).map_err(|e| TorshError::Other(e.to_string()))
}

/// Everything that a tokenizer does.
fn use_tokenizer(tokenizer: &Tokenizer) -> Result<()> {
    let encoding = tokenizer.encode(TEXT)?;
    tokenizer.encode_pair("hello", TEXT)?;
    let options = EncodeOptions::new()
        .truncation(true)
        .max_length(6)
        .padding(true)
        .pad_token_id(0);
    tokenizer
        .encode_batch(&["hello", TEXT], &options)?
        .to_tensors()?;
    tokenizer.decode(&encoding.ids, false)?;
    tokenizer.decode(&[0, 1, 2, 3, 4, 5], true)?;
    let mut stream = tokenizer.decode_stream(true);
    for id in encoding.ids {
        stream.step(id)?;
    }
    stream.finish()?;
    tokenizer.to_json()?;
    Ok(())
}

fn trained(model: TokenizerModel) -> Tokenizer {
    let texts = [
        "hello there world",
        "the world is round, hello",
        "low lower lowest é",
    ];
    let options = TrainOptions::new(model).vocab_size(300);
    Tokenizer::train(texts, &options).expect("a tokenizer")
}

/// A tokenizer with many parts.
fn parts() -> Value {
    json!({
        "version": "1.0",
        "truncation": { "direction": "Right", "max_length": 9, "strategy": "LongestFirst", "stride": 1 },
        "padding": { "strategy": "BatchLongest", "direction": "Left", "pad_to_multiple_of": 4, "pad_id": 0, "pad_type_id": 0,
                     "pad_token": "<p>" },
        "added_tokens": [
            { "id": 0, "content": "<p>", "special": true, "single_word": false, "lstrip": true, "rstrip": false,
              "normalized": false },
            { "id": 7, "content": "<s>", "special": true, "single_word": true, "lstrip": false, "rstrip": true,
              "normalized": true }
        ],
        "normalizer": { "type": "Sequence", "normalizers": [
            { "type": "NFKC" }, { "type": "StripAccents" }, { "type": "Replace", "pattern": { "Regex": "\\s+" }, "content": " " },
            { "type": "Prepend", "prepend": "_" }, { "type": "Lowercase" }
        ] },
        "pre_tokenizer": { "type": "Sequence", "pretokenizers": [
            { "type": "Split", "pattern": { "Regex": "(?i:'s|'t)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|\\s+(?!\\S)|\\s+" },
              "behavior": "Isolated", "invert": false },
            { "type": "Digits", "individual_digits": true }, { "type": "Punctuation", "behavior": "Isolated" }
        ] },
        "post_processor": { "type": "TemplateProcessing",
            "single": [{ "SpecialToken": { "id": "<s>", "type_id": 0 } }, { "Sequence": { "id": "A", "type_id": 0 } }],
            "pair": [{ "Sequence": { "id": "A", "type_id": 0 } }, { "Sequence": { "id": "B", "type_id": 1 } }],
            "special_tokens": { "<s>": { "id": "<s>", "ids": [7], "tokens": ["<s>"] } } },
        "decoder": { "type": "Sequence", "decoders": [
            { "type": "ByteFallback" }, { "type": "Fuse" }, { "type": "Strip", "content": " ", "start": 1, "stop": 0 }
        ] },
        "model": { "type": "BPE", "dropout": null, "unk_token": "<u>", "continuing_subword_prefix": null,
                   "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true, "ignore_merges": false,
                   "vocab": { "<p>": 0, "<u>": 1, "h": 2, "e": 3, "l": 4, "he": 5, "ll": 6, "<s>": 7, "o": 8 },
                   "merges": [["h", "e"], ["l", "l"]] }
    })
}

/// A folder whose file of a name is what is changed.
fn folder_target(
    name: &'static str,
    file: &'static str,
    others: &[(&str, &str)],
    good: Vec<Vec<u8>>,
) -> Target {
    let path = temporary(name);
    std::fs::create_dir_all(&path).expect("a folder");
    for (other, text) in others {
        std::fs::write(path.join(other), text).expect("a file");
    }
    Target::new(name, good, move |bytes, _| {
        std::fs::write(path.join(file), bytes)?;
        use_tokenizer(&Tokenizer::from_pretrained(path.display().to_string())?)
    })
    .words(JSON)
}

fn tokenizers() -> Vec<Target> {
    let bytes = |v: Value| v.to_string().into_bytes();
    let json = [
        TokenizerModel::WordPiece,
        TokenizerModel::ByteLevelBpe,
        TokenizerModel::Unigram,
    ];
    let mut corpus: Vec<Vec<u8>> = json
        .map(|model| trained(model).to_json().expect("JSON").into_bytes())
        .into();
    corpus.push(bytes(parts()));
    let vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\nworld\n##s\nthe\n,\n!\n";
    let pairs = r#"{"h":0,"e":1,"l":2,"o":3,"he":4,"ll":5,"<|endoftext|>":6,"Ġ":7}"#;
    let settings = json!({
        "tokenizer_class": "BertTokenizer", "do_lower_case": true, "unk_token": "[UNK]", "pad_token": { "content": "[PAD]" },
        "model_max_length": 512, "padding_side": "left", "clean_up_tokenization_spaces": true,
        "added_tokens_decoder": { "4": { "content": "[MASK]", "special": true, "lstrip": true } },
        "chat_template": [{ "name": "default", "template": "{{ messages }}" }], "add_bos_token": false
    });
    vec![
        Target::new("tokenizer.json", corpus, |bytes, _| {
            use_tokenizer(&Tokenizer::from_bytes(bytes)?)
        })
        .words(JSON),
        Target::new(
            "sentencepiece",
            vec![containers::sentence_piece(1), containers::sentence_piece(2)],
            |bytes, _| use_tokenizer(&Tokenizer::from_sentencepiece(bytes)?),
        ),
        folder_target("vocab.txt", "vocab.txt", &[], vec![vocabulary.into()]),
        folder_target(
            "vocab.json",
            "vocab.json",
            &[("merges.txt", "#version: 0.2\nh e\nl l\n")],
            vec![pairs.into()],
        ),
        folder_target(
            "merges.txt",
            "merges.txt",
            &[("vocab.json", pairs)],
            vec!["#version: 0.2\nh e\nl l\n".into()],
        ),
        folder_target(
            "tokenizer_config.json",
            "tokenizer_config.json",
            &[("vocab.txt", vocabulary)],
            vec![bytes(settings)],
        ),
        folder_target(
            "special_tokens_map.json",
            "special_tokens_map.json",
            &[("vocab.txt", vocabulary)],
            vec![bytes(json!({
                "cls_token": "[CLS]", "mask_token": { "content": "[MASK]", "lstrip": true, "normalized": false },
                "additional_special_tokens": ["<x>", "<y>"]
            }))],
        ),
        folder_target(
            "added_tokens.json",
            "added_tokens.json",
            &[("vocab.txt", vocabulary)],
            vec![bytes(json!({ "<new>": 11, "<other>": 12 }))],
        ),
    ]
}

fn models() -> Vec<Target> {
    // Which architecture a configuration is of stands ahead of it.
    let corpus = families().into_iter();
    let corpus = corpus.map(|(_, name, config, _)| format!("{name} {config}").into_bytes());
    let inputs: Vec<_> = families()
        .into_iter()
        .map(|(_, name, _, reads)| (name, LocalGenerator::new(3).scope(|| reads.inputs())))
        .collect();
    let configurations = Target::new(
        "config.json",
        corpus.collect(),
        move |bytes, _| -> Result<()> {
            let (name, config) = text(bytes)?.split_once(' ').unwrap_or_default();
            let config = parsed(config.as_bytes())?;
            // As a model of a folder is made: its weights come from a file.
            let make = || from_config(name, config);
            let model = Construction::new().draw_nothing().run(make)?;
            let small = model.num_parameters() < 1 << 20;
            if let Some((_, inputs)) = inputs.iter().find(|(n, _)| *n == name && small) {
                model.eval();
                for p in model.parameters() {
                    no_grad(|| p.fill_(0.01))?;
                }
                no_grad(|| model.forward_named(inputs))?;
            }
            Ok(())
        },
    )
    .words(JSON);
    let gpt2 = LocalGenerator::new(1).scope(|| {
        GPT2LMHeadModel::new(GPT2Config {
            vocab_size: 20,
            n_embd: 8,
            n_layer: 1,
            n_head: 2,
            n_positions: 64,
            pad_token_id: Some(0),
            ..GPT2Config::default()
        })
    });
    let gpt2 = gpt2.expect("a model");
    gpt2.eval();
    let generation = Target::new(
        "generation_config.json",
        vec![
            json!({
                "do_sample": true, "temperature": 0.7, "top_k": 5, "top_p": 0.9, "min_p": 0.01, "typical_p": 0.9,
                "epsilon_cutoff": 0.001, "eta_cutoff": 0.001, "repetition_penalty": 1.2, "no_repeat_ngram_size": 3,
                "max_new_tokens": 6, "eos_token_id": [7, 8], "pad_token_id": 0, "bad_words_ids": [[1], [2, 3]],
                "suppress_tokens": [4], "begin_suppress_tokens": [5], "sequence_bias": [[[6], -2.0]]
            })
            .to_string()
            .into_bytes(),
            json!({
                "num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5, "length_penalty": 0.8,
                "early_stopping": true, "num_return_sequences": 2, "min_length": 5, "max_length": 9, "min_new_tokens": 2,
                "forced_bos_token_id": 3, "forced_eos_token_id": 7, "exponential_decay_length_penalty": [3, 1.1],
                "cache_implementation": "static", "max_cache_len": 32, "prefill_chunk_size": 2
            })
            .to_string()
            .into_bytes(),
            json!({
                "penalty_alpha": 0.6, "top_k": 4, "max_new_tokens": 5, "renormalize_logits": true,
                "remove_invalid_values": true, "use_cache": true
            })
            .to_string()
            .into_bytes(),
            json!({ "prompt_lookup_num_tokens": 3, "max_matching_ngram_size": 2, "max_new_tokens": 5, "use_cache": true })
                .to_string()
                .into_bytes(),
        ],
        move |bytes, _| {
            let mut options = GenerationOptions::from_json(parsed(bytes)?)?;
            // What is asked for may be much; a caller bounds it.
            let few = |n: Option<usize>| n.map(|n| n.min(8));
            options.num_beams = few(options.num_beams);
            options.num_return_sequences = few(options.num_return_sequences);
            options.max_new_tokens = few(options.max_new_tokens.or(Some(4)));
            LocalGenerator::new(5).scope(|| {
                let inputs = GenerateInputs::ids(&tensor![[1, 2, 3]]);
                gpt2.generate_with(inputs, &options).map(|_| ())
            })
        },
    )
    .words(JSON);
    let adapters = Target::new(
        "adapter_config.json",
        vec![
            LoraConfig::new()
                .r(2)
                .target_modules(["0", "1"])
                .to_json()
                .to_string()
                .into_bytes(),
            json!({
                "peft_type": "LORA", "r": 2, "lora_alpha": 4, "lora_dropout": 0.1, "target_modules": ".*[01]", "bias": "lora_only",
                "rank_pattern": { "0": 3 }, "alpha_pattern": { "1": 8 }, "use_rslora": true, "modules_to_save": null
            })
            .to_string()
            .into_bytes(),
        ],
        |bytes, _| -> Result<()> {
            let config = LoraConfig::from_json(parsed(bytes)?)?;
            let base = Sequential::new().add(Linear::new(3, 3)).add(Linear::new(3, 3));
            LoraModel::new(base, config)?.forward(&ones([1, 3]))?;
            Ok(())
        },
    )
    .words(JSON);
    vec![configurations, generation, adapters, caches()]
}

/// Prompts' beginnings.
fn caches() -> Target {
    let path = temporary("cache.safetensors");
    let file = || -> Result<Vec<u8>> {
        let kinds = [
            CacheKind::Growing,
            CacheKind::Static { capacity: 8 },
            CacheKind::Sliding { window: 3 },
            CacheKind::Growing,
        ];
        let mut cache = KvCache::new(kinds);
        let k = ones([2, 1, 5, 2]);
        for layer in 0..3 {
            cache.update(layer, &k, &k)?;
        }
        cache.set_cross(1, k.clone(), k.clone())?;
        cache.set_state(3, vec![k], 5)?;
        cache.save(&path)?;
        Ok(std::fs::read(&path)?)
    };
    let good = file().expect("a file");
    Target::new("cache", vec![good], move |bytes, _| {
        std::fs::write(&path, bytes)?;
        let mut cache = KvCache::load(&path)?;
        let k = ones([2, 1, 1, 2]);
        for layer in 0..cache.num_layers() {
            cache.update(layer, &k, &k)?;
        }
        cache.reorder(&[1, 0])?;
        cache.repeat(2)?;
        // A layer's state has no past.
        let back = cache.len().saturating_sub(1);
        let _ = cache.crop(back);
        cache.crop(0)
    })
    .words(&[
        "growing",
        "static:",
        "sliding:",
        "9",
        "0",
        "99999999999999999999",
        ",",
    ])
}

/// The folder of the files that targets read.
pub fn folder() -> PathBuf {
    std::env::temp_dir().join(format!("torsh-text-files-{}", std::process::id()))
}

fn temporary(name: &str) -> PathBuf {
    std::fs::create_dir_all(folder()).expect("a folder");
    folder().join(name)
}

fn speech() -> Vec<Target> {
    vec![
        Target::new(
            "wav",
            vec![
                containers::wav(1, 16, false),
                containers::wav(2, 8, false),
                containers::wav(1, 24, false),
                containers::wav(1, 32, true),
            ],
            |bytes, _| Sound::from_wav(bytes, "a.wav")?.at_rate(16_000).map(|_| ()),
        ),
        Target::new("ctranslate2", vec![containers::whisper()], |bytes, _| {
            let file = CTranslate2::read(bytes, bytes.len() as u64, "model.bin")?;
            let (config, weights) = file.whisper()?;
            let make = || WhisperForConditionalGeneration::new(config);
            let model = Construction::new().draw_nothing().run(make)?;
            model.load_state_dict(&weights)
        }),
    ]
}

fn texts() -> Vec<Target> {
    const TEMPLATES: [&str; 3] = [
        "{% for m in messages %}\n    {%- if m.role == 'system' %}\n<<{{ m.content | trim }}>>\n    {% elif loop.last %}\n[{{ m['role'] }}] {{ m.content.split(' ')[-1] }}{{ eos_token }}\n    {% else %}{{ m | tojson(indent=2) }}{% endif %}\n{% endfor %}{% if add_generation_prompt %}<a>{% endif %}",
        "{%- macro f(x, y=2) %}{{ x }}{{ y }}{% endmacro %}{% set n = namespace(x=0, t='') %}{% for m in messages[::-1] %}{% set n.x = n.x + loop.index0 %}{% set n.t = n.t ~ m.content.replace('l', 'LL').strip() %}{% endfor %}{{ f(n.x, y=n.t) }}{% generation %}{{ 7 % 3 }}{% endgeneration %}",
        "{{ messages | map(attribute='role') | join(', ') }}{{ {'a': [1.5, none, true]} }}{{ strftime_now('%d %b %Y') }}{{ 'x'.center(9, '*') * 3 }}{{ range(4) | list }}{{ '{} {x}'.format(1, x='y') }}{{ messages[0].content.splitlines() | length }}{{ 'a,b'.partition(',') }}",
    ];
    const JINJA: &[&str] = &[
        "{{",
        "}}",
        "{%",
        "%}",
        "for i in range(99999)",
        "endfor",
        "if",
        "endif",
        "set x = x ~ x",
        "| tojson",
        "* 99999999",
        "** 99",
        "[::-1]",
        "[:-1]",
        "loop",
        "loop.",
        "messages",
        "raise_exception(",
        "namespace(",
        "macro f()",
        "f()",
        "endmacro",
        ".replace(",
        ".split()",
        ".format(",
        "| list",
        "| sort",
        "| join",
        "| batch(1)",
        "'' ",
        "none",
        "-1",
        "9223372036854775807",
        "0.0",
        "%",
        "// 0",
        "~",
    ];
    const PATTERNS: [&str; 5] = [
        "[0-9]{4}-[0-9]{2}-[0-9]{2}",
        r"(?:\w+ ){1,4}[^\n]*|é+",
        r"(a|ab)(c|bcd)(d*)\s?\p{L}",
        "(?i)yes|no|maybe{3,}",
        r"[a-z&&[^aeiou]]+(\.[0-9]+)?",
    ];
    const REGEX: &[&str] = &[
        "{1000}",
        "{9999999}",
        "*",
        "+?",
        "(?",
        "(?P<n>",
        "[^",
        "]",
        "&&",
        "\\p{Greek}",
        "\\w",
        ".{0,200}",
        "|",
        "\\b",
        "$",
        "(?s)",
        "\\x{10FFFF}",
        "[\\x00-\\x{10FFFF}]",
    ];
    const SCHEMAS: [&str; 3] = [
        r#"{"title":"T","type":"object","properties":{"z":{"type":"integer"},"a":{"type":"null"},"m":{"type":"array","items":{"type":"object","properties":{"k":{"type":"boolean"}},"required":["k"]},"maxItems":3}},"required":["a"],"additionalProperties":false}"#,
        r#"{"type":"array","items":{"type":["number","string"],"minLength":1,"maxLength":4},"minItems":1,"maxItems":5}"#,
        r#"{"enum":["a.b",1,null,[1,{"x":true}]],"type":"string"}"#,
    ];
    const CHAT: &str = r#"[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"text","text":"yes"}],"x":1.5}]"#;
    let vocabulary = || Vocabulary::new((0..=255u8).map(|b| Some([b])));
    let walk = |constraint: &Constraint| -> Result<()> {
        // The first token that may come, for a while.
        let mut ids = Vec::new();
        for _ in 0..8 {
            let (allowed, _) = constraint.allowed(&ids)?;
            match allowed.first() {
                Some(&id) => ids.push(id as i64),
                None => break,
            }
        }
        Ok(())
    };
    let tokenizer = trained(TokenizerModel::WordPiece);
    let owned = |texts: &[&str]| texts.iter().map(|t| t.as_bytes().to_vec()).collect();
    vec![
        Target::new("chat_template", owned(&TEMPLATES), move |bytes, _| {
            let mut tokenizer = tokenizer.clone();
            tokenizer.set_chat_template(text(bytes)?);
            let chat = [
                ChatMessage::system(" Be brief. "),
                ChatMessage::user("hello world\nhow are you?"),
                ChatMessage::assistant("well").with("reasoning_content", "hm"),
            ];
            let options = ChatOptions::new().add_generation_prompt(true);
            tokenizer.apply_chat_template(&chat, &options).map(|_| ())
        })
        .words(JINJA),
        Target::new("chat", owned(&[CHAT]), |bytes, _| {
            ChatMessage::parse(text(bytes)?).map(|_| ())
        })
        .words(JSON),
        Target::new("regex", owned(&PATTERNS), move |bytes, _| {
            walk(&Constraint::regex(text(bytes)?, vocabulary())?)
        })
        .words(REGEX),
        Target::new("json_schema", owned(&SCHEMAS), move |bytes, _| {
            walk(&Constraint::json_schema(text(bytes)?, vocabulary())?)
        })
        .words(JSON),
    ]
}

/// All that is tested.
pub fn targets() -> Vec<Target> {
    let mut all = tokenizers();
    all.extend(models());
    all.extend(speech());
    all.extend(texts());
    all
}
