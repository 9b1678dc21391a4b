//! The errors of models, tokenizers, generation and speech: each names the values, and says what to do.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use torsh_core::random::LocalGenerator;
use torsh_hub::FromPretrained;
use torsh_nn::Module;
use torsh_tensor::{DType, Device, Result, Tensor, tensor};
use torsh_text::blocks::{CacheKind, KvCache, Padding};
use torsh_text::generation::{
    Constraint, DecoderStep, GenerateInputs, GenerationExt, GenerationModel, GenerationOptions,
    Vocabulary,
};
use torsh_text::models::{
    AutoModel, BertConfig, BertModel, GPT2Config, GPT2ForSequenceClassification, GPT2LMHeadModel,
    ModelInputs, T5Config, T5ForConditionalGeneration, TextModel, from_config,
};
use torsh_text::speech::{CTranslate2, Whisper, read_wav};
use torsh_text::tokenizers::{
    ChatMessage, ChatOptions, EncodeOptions, Tokenizer, TokenizerModel, TrainOptions, Vocab,
};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> std::io::Result<Folder> {
        let name = format!("torsh-text-errors-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path)?;
        Ok(Folder(path))
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> std::io::Result<PathBuf> {
        let path = self.0.join(name);
        std::fs::write(&path, bytes)?;
        Ok(path)
    }

    fn source(&self) -> String {
        self.0.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Checks that a call fails with a message that has all of these texts.
#[track_caller]
fn says<T>(result: Result<T>, texts: &[&str]) {
    let message = match result {
        Ok(_) => panic!("no error, wanted {texts:?}"),
        Err(e) => e.to_string(),
    };
    for text in texts {
        assert!(message.contains(text), "{text:?} is not in\n{message}");
    }
    assert!(message.len() < 6000, "{} bytes", message.len());
}

fn gpt2(vocab_size: usize) -> Result<GPT2LMHeadModel> {
    LocalGenerator::new(1).scope(|| {
        GPT2LMHeadModel::new(GPT2Config {
            vocab_size,
            n_embd: 8,
            n_layer: 1,
            n_head: 2,
            n_positions: 6,
            ..GPT2Config::default()
        })
    })
}

fn bert() -> Result<BertModel> {
    LocalGenerator::new(1).scope(|| {
        BertModel::new(BertConfig {
            vocab_size: 20,
            hidden_size: 8,
            num_hidden_layers: 1,
            num_attention_heads: 2,
            intermediate_size: 16,
            max_position_embeddings: 6,
            ..BertConfig::default()
        })
    })
}

fn word_piece() -> Result<Tokenizer> {
    let texts = ["hello there", "the world is round"];
    Tokenizer::train(
        texts,
        &TrainOptions::new(TokenizerModel::WordPiece).vocab_size(100),
    )
}

#[test]
fn tokenizer_files_are_named_with_their_fields() -> Result<()> {
    let folder = Folder::new("tokenizer")?;
    let json = word_piece()?.to_json()?;
    let path = folder.write("tokenizer.json", &json[..json.len() / 2])?;
    let file = path.display().to_string();
    says(
        Tokenizer::from_pretrained(folder.source()),
        &[&file, "is not JSON", "line"],
    );
    let hostile = json.replace(
        "\"max_input_chars_per_word\": 100",
        "\"max_input_chars_per_word\": -1",
    );
    assert_ne!(hostile, json);
    folder.write("tokenizer.json", hostile)?;
    says(
        Tokenizer::from_pretrained(folder.source()),
        &[&file, "field model", "-1"],
    );
    std::fs::remove_file(&path)?;
    says(
        Tokenizer::from_pretrained(folder.source()),
        &[&folder.source(), "tokenizer.json", "vocab.txt"],
    );

    // A length that goes beyond the file.
    let path = folder.write("spiece.model", [0x0a, 0x7f, 0x0a, 0x01])?;
    says(
        Tokenizer::from_pretrained(folder.source()),
        &[
            &path.display().to_string(),
            "127 bytes by its length",
            "2 are left",
        ],
    );
    Ok(())
}

#[test]
fn broken_sounds_and_containers_are_named() -> Result<()> {
    let folder = Folder::new("sound")?;
    let spec = hound::WavSpec {
        channels: 1,
        sample_rate: 16000,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let path = folder.0.join("speech.wav");
    let write = || -> std::result::Result<(), hound::Error> {
        let mut file = hound::WavWriter::create(&path, spec)?;
        for sample in 0..1000i16 {
            file.write_sample(sample)?;
        }
        file.finalize()
    };
    write().map_err(|e| torsh_tensor::TorshError::Other(e.to_string()))?;
    let bytes = std::fs::read(&path)?;
    let name = path.display().to_string();
    folder.write("speech.wav", &bytes[..bytes.len() / 2])?;
    says(read_wav(&path), &[&name, "broken off"]);
    folder.write("speech.wav", b"RIFX and more bytes than a header")?;
    says(read_wav(&path), &[&name, "no WAV file"]);
    let mut other = bytes.clone();
    other[34] = 12;
    folder.write("speech.wav", other)?;
    says(read_wav(&path), &[&name]);
    says(read_wav(folder.0.join("none.wav")), &["none.wav"]);

    let model = folder.write("model.bin", [6, 0, 0, 0, 200, 0, b'W'])?;
    says(
        CTranslate2::open(&model),
        &[
            "model.bin",
            "the name of the architecture has 200 bytes",
            "1 are left",
        ],
    );
    folder.write("model.bin", [3, 0, 0, 0])?;
    says(
        CTranslate2::open(&model),
        &["version 3", "4 to 6", "hint: convert the model again"],
    );
    says(
        Whisper::from_pretrained(folder.source()).map(|_| ()),
        &[&folder.source()],
    );
    Ok(())
}

#[test]
fn configurations_are_named_with_their_fields() -> Result<()> {
    let folder = Folder::new("config")?;
    let good = json!({ "model_type": "bert", "architectures": ["BertModel"], "hidden_size": 8 })
        .to_string();
    let path = folder.write("config.json", &good[..good.len() - 9])?;
    let file = path.display().to_string();
    says(
        AutoModel::from_pretrained(&folder.source()).map(|_| ()),
        &[&file, "EOF"],
    );
    says(
        BertModel::from_pretrained(&folder.source()).map(|_| ()),
        &[&file, "EOF"],
    );
    let with = |more: Value, texts: &[&str]| -> Result<()> {
        let mut config = json!({ "model_type": "bert", "architectures": ["BertModel"] });
        if let (Value::Object(config), Value::Object(more)) = (&mut config, more) {
            config.extend(more);
        }
        folder.write("config.json", config.to_string())?;
        says(
            AutoModel::from_pretrained(&folder.source()).map(|_| ()),
            texts,
        );
        Ok(())
    };
    with(
        json!({ "hidden_size": "wide" }),
        &["config.json", "field hidden_size", "wide"],
    )?;
    with(
        json!({ "hidden_sise": 8 }),
        &["unknown field hidden_sise = 8", "\"bert\"", "remove it"],
    )?;
    with(
        json!({ "is_decoder": true }),
        &["is_decoder = true", "only false"],
    )?;
    with(
        json!({ "num_hidden_layers": 1_000_000_000 }),
        &["num_hidden_layers = 1000000000 is too large", "4096"],
    )?;
    with(
        json!({ "hidden_size": 1_000_000, "num_hidden_layers": 4000 }),
        &["4000 layers of 1000000 channels"],
    )?;
    with(
        json!({ "num_attention_heads": 5 }),
        &["5 attention heads do not divide a hidden size of 768"],
    )?;
    with(
        json!({ "model_type": "gpt2" }),
        &["model_type is \"gpt2\"", "\"bert\""],
    )?;
    with(
        json!({ "architectures": ["BertForThings"] }),
        &[
            "no architecture is named \"BertForThings\"",
            "BertForMaskedLM",
            "hint: ",
        ],
    )?;
    with(
        json!({ "architectures": [] }),
        &["names no architecture", "hint: load it by its type"],
    )?;
    Ok(())
}

#[test]
fn tokens_out_of_the_vocabulary_are_named() -> Result<()> {
    let vocabulary =
        "hint: the model's vocabulary has 20 tokens: use the tokenizer that belongs to it";
    let ids = tensor![[1, 20, 3]];
    let sizes = json!({
        "vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16,
        "pad_token_id": 0
    });
    let opt = json!({ "vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "ffn_dim": 16 });
    let gpt2 = json!({ "vocab_size": 20, "n_embd": 8, "n_layer": 1, "n_head": 2 });
    let bart = json!({
        "vocab_size": 20, "d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
        "decoder_attention_heads": 2, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8
    });
    let t5 = json!({ "vocab_size": 20, "d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2 });
    let clip = json!({
        "vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16
    });
    let mamba = json!({ "vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 1 });
    let neox = json!({
        "vocab_size": 20, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16
    });
    for (architecture, config) in [
        ("BertModel", sizes.clone()),
        ("RobertaModel", sizes.clone()),
        ("ModernBertModel", sizes.clone()),
        ("LlamaModel", sizes),
        ("GPT2Model", gpt2),
        ("GPTNeoXModel", neox),
        ("OPTModel", opt),
        ("MambaModel", mamba),
        ("BartModel", bart),
        ("T5EncoderModel", t5),
        ("CLIPTextModel", clip),
    ] {
        let model = from_config(architecture, config)?;
        says(model.forward(&ids), &["index 20", "size 20", vocabulary]);
    }
    let model = self::gpt2(20)?;
    says(
        model.generate(&ids, &GenerationOptions::new()),
        &[
            "input_ids[0, 1] is the token 20",
            "the vocabulary has 20",
            "hint: use the tokenizer",
        ],
    );
    says(
        model.generate(&tensor![[-1]], &GenerationOptions::new()),
        &["input_ids[0, 0] is the token -1"],
    );
    let tokenizer = word_piece()?;
    says(
        tokenizer.decode(&[1, 7000], false),
        &[
            "token 7000 at position 1",
            &tokenizer.len().to_string(),
            "hint: ",
        ],
    );
    says(
        Vocab::new(["a", "b"])?.index("c"),
        &["\"c\" is not among the 2 tokens", "hint: set_default_index"],
    );
    Ok(())
}

#[test]
fn texts_longer_than_the_positions_are_named() -> Result<()> {
    let ids = tensor![[1, 2, 3, 4, 5, 6, 7]];
    says(
        bert()?.forward(&ids),
        &[
            "7 tokens for a model of 6 positions",
            "hint: truncate the text",
        ],
    );
    let model = gpt2(20)?;
    says(
        model.forward(&ids),
        &[
            "7 tokens for a model of 6 positions",
            "hint: give it a shorter text",
        ],
    );
    // Those in the cache count too.
    let mut cache = model.new_cache(CacheKind::Growing);
    let mut step = |ids: &Tensor| {
        model.decode(DecoderStep {
            cache: Some(&mut cache),
            ..DecoderStep::new(ids)
        })
    };
    step(&tensor![[1, 2, 3, 4, 5]])?;
    says(
        step(&tensor![[6, 7]]),
        &["7 tokens for a model of 6 positions"],
    );
    says(
        model.generate(&ids, &GenerationOptions::new()),
        &[
            "a prompt of 7 tokens for a model of 6 positions",
            "hint: cut the prompt",
        ],
    );
    says(
        model.generate(&tensor![[1, 2, 3]], &GenerationOptions::new().max_length(3)),
        &[
            "the prompt has 3 tokens, and max_length is 3",
            "hint: set max_new_tokens",
        ],
    );
    Ok(())
}

#[test]
fn batches_without_a_padding_token_are_named() -> Result<()> {
    says(
        GenerateInputs::prompts(&[vec![1, 2, 3], vec![4]], None).map(|_| ()),
        &[
            "prompts of 1 to 3 tokens",
            "no pad token",
            "hint: give a pad_token_id",
        ],
    );
    let json =
        br#"{ "model": { "type": "WordLevel", "unk_token": "u", "vocab": { "u": 0, "a": 1 } },
        "pre_tokenizer": { "type": "WhitespaceSplit" } }"#;
    let tokenizer = Tokenizer::from_bytes(json)?;
    says(
        tokenizer.encode_batch(&["a a a", "a"], &EncodeOptions::new().padding(true)),
        &[
            "a text of 1 tokens must be filled up to 3",
            "no padding token",
            "hint: set_pad_token",
        ],
    );
    says(
        tokenizer
            .encode_batch(&["a a a", "a"], &EncodeOptions::new())?
            .to_tensors(),
        &[
            "encoding 0 has 3 tokens and encoding 1 has 1",
            "hint: encode the batch with EncodeOptions::new().padding(true)",
        ],
    );
    let classifier = LocalGenerator::new(1).scope(|| {
        GPT2ForSequenceClassification::new(GPT2Config {
            vocab_size: 20,
            n_embd: 8,
            n_layer: 1,
            n_head: 2,
            ..GPT2Config::default()
        })
    })?;
    says(
        classifier.forward(&tensor![[1, 2], [3, 4]]),
        &[
            "a batch of 2 texts",
            "no pad_token_id",
            "hint: set pad_token_id",
        ],
    );
    let t5 = LocalGenerator::new(1).scope(|| {
        T5ForConditionalGeneration::new(T5Config {
            vocab_size: 20,
            d_model: 8,
            d_kv: 4,
            d_ff: 8,
            num_layers: 1,
            num_heads: 2,
            decoder_start_token_id: Some(0),
            pad_token_id: None,
            ..T5Config::default()
        })
    })?;
    says(
        t5.decoder_input_ids(&tensor![[1, 2]]),
        &["pad_token_id of the configuration is null", "hint: set it"],
    );
    says(
        Padding::from_attention_mask(&tensor![[1, 0, 1]]),
        &[
            "sequence 0 has padding between its tokens",
            "hint: pad on the left or on the right",
        ],
    );
    Ok(())
}

#[test]
fn caches_that_do_not_fit_are_named() -> Result<()> {
    let model = gpt2(20)?;
    let ids = tensor![[1, 2, 3]];
    let output = model.generate_with(
        GenerateInputs::ids(&ids),
        &GenerationOptions::new().max_new_tokens(1),
    )?;
    let cache = output
        .cache
        .ok_or_else(|| torsh_tensor::TorshError::Other("no cache".into()))?;
    // That of another model.
    let other = LocalGenerator::new(1).scope(|| {
        GPT2LMHeadModel::new(GPT2Config {
            vocab_size: 20,
            n_embd: 12,
            n_layer: 2,
            n_head: 2,
            ..GPT2Config::default()
        })
    })?;
    let inputs = |cache: &KvCache| GenerateInputs::ids(&tensor![[1, 2, 3, 4]]).cache(cache.clone());
    says(
        other
            .generate_with(inputs(&cache), &GenerationOptions::new())
            .map(|_| ()),
        &[
            "the cache of layer 0 holds float32 [1, 2, ",
            ", 4] cpu, and float32 [1, 2, 1, 6] cpu came",
            "hint: a cache belongs to one batch of one model",
        ],
    );
    // Of fewer layers.
    let deeper = LocalGenerator::new(1).scope(|| {
        GPT2LMHeadModel::new(GPT2Config {
            vocab_size: 20,
            n_embd: 8,
            n_layer: 2,
            n_head: 2,
            ..GPT2Config::default()
        })
    })?;
    says(
        deeper
            .generate_with(inputs(&cache), &GenerationOptions::new())
            .map(|_| ()),
        &[
            "layer 1 of a cache of 1 layers",
            "hint: make the cache with the model's new_cache()",
        ],
    );
    // Of another batch.
    let two = cache.select(&[0, 0])?;
    says(
        model
            .generate_with(inputs(&two), &GenerationOptions::new())
            .map(|_| ()),
        &["a cache of 2 sequences for a prompt of 1", "hint: "],
    );
    // Of another device and of another dtype.
    for (name, dtype, device) in [
        ("float32 [1, 2, 1, 4] meta came", DType::F32, Device::Meta),
        ("float64 [1, 2, 1, 4] cpu came", DType::F64, Device::Cpu),
    ] {
        let k = Tensor::zeros([1, 2, 1, 4], dtype, device)?;
        says(
            cache.clone().update(0, &k, &k),
            &[
                "holds float32 [1, 2, ",
                ", 4] cpu",
                name,
                "hint: a cache belongs",
            ],
        );
    }
    let mut fixed = KvCache::new([CacheKind::Static { capacity: 2 }]);
    let k = torsh_tensor::ones([1, 1, 3, 1]);
    says(
        fixed.update(0, &k, &k),
        &[
            "3 tokens for a static cache of 2",
            "hint: make a larger one",
        ],
    );
    says(
        KvCache::load(Path::new("no-such-cache.safetensors")).map(|_| ()),
        &["no-such-cache.safetensors"],
    );
    Ok(())
}

#[test]
fn patterns_without_a_match_are_named() -> Result<()> {
    let bytes = || Vocabulary::new((0..=255u8).map(|b| Some([b])));
    says(
        Constraint::regex("[a-c&&x]", bytes()).map(|_| ()),
        &[
            "\"[a-c&&x]\"",
            "matches no text",
            "hint: remove what contradicts itself",
        ],
    );
    says(
        Constraint::regex("a(", bytes()).map(|_| ()),
        &["\"a(\"", "unclosed group"],
    );
    let digits = Constraint::regex("[0-9]+", bytes())?;
    says(
        digits.allowed(&[49, 120]),
        &["\"1x\" does not begin a match of \"[0-9]+\""],
    );
    says(
        Constraint::json_schema(r#"{ "type": "string", "format": "date" }"#, bytes()).map(|_| ()),
        &["$", "the keyword format = \"date\" cannot be computed"],
    );
    // A text that the vocabulary cannot write.
    let model = gpt2(4)?;
    let few = Constraint::regex("12", Vocabulary::new([None, Some("1"), None, None]))?;
    let inputs = GenerateInputs::ids(&tensor![[1]]).constraint(&few);
    let options = GenerationOptions::new().eos_token_id(3);
    says(
        model.generate_with(inputs, &options).map(|_| ()),
        &[
            "no token of the vocabulary continues \"1\" to a match of \"12\"",
            "hint: ",
        ],
    );
    Ok(())
}

#[test]
fn templates_that_fail_are_named() -> Result<()> {
    let mut tokenizer = word_piece()?;
    let chat = [ChatMessage::user("hello")];
    says(
        tokenizer.apply_chat_template(&chat, &ChatOptions::new()),
        &["no chat template", "hint: pass one"],
    );
    let mut with = |template: &str, texts: &[&str]| {
        tokenizer.set_chat_template(template);
        says(
            tokenizer.apply_chat_template(&chat, &ChatOptions::new()),
            texts,
        );
    };
    with(
        "a\n{% if %}",
        &["the chat template: ", "chat_template:2", "hint: "],
    );
    with(
        "{{ raise_exception('roles must alternate') }}",
        &["roles must alternate", "hint: change the conversation"],
    );
    with(
        "{{ messages[0].nothing.more }}",
        &["undefined", "chat_template:1"],
    );
    // A template that never ends, and one whose text doubles.
    with(
        "{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}",
        &["runs for more than 4194304 instructions"],
    );
    with(
        "{% set n = namespace(x='aaaaaaaa') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
        &["makes more than 256 MiB of text"],
    );
    with(
        "{% set n = namespace(x=['']) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x }}",
        &["longer than 64 MiB"],
    );
    with(
        "{% set n = 'ab' * 1000000 %}{{ n.replace('a', n) }}",
        &["longer than 64 MiB"],
    );
    Ok(())
}

#[test]
fn inputs_that_are_missing_are_named() -> Result<()> {
    let model: Box<dyn TextModel> = Box::new(bert()?);
    says(
        model.forward_named(&ModelInputs::default()).map(|_| ()),
        &["the model needs input_ids"],
    );
    says(
        model.forward(&tensor![1, 2]),
        &["expected input_ids [batch, length], got [2]"],
    );
    Ok(())
}
