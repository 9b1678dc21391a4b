//! Folders and repositories with a tokenizer.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokenizers as tk;
use torsh_hub::Hub;
use torsh_serialize::files::is_path;
use torsh_tensor::named::Named;
use torsh_tensor::{Result, TorshError};

use super::encoding::Side;
use super::legacy::{self, class_name};
use super::special::added_token;
use super::tokenizer::Tokenizer;
use super::{ChatTemplates, files, sentencepiece};

const OP: &str = "Tokenizer::from_pretrained";
const TOKENIZER: &str = "tokenizer.json";
const CONFIG: &str = "tokenizer_config.json";
const SPECIAL: &str = "special_tokens_map.json";
const ADDED: &str = "added_tokens.json";
const TEMPLATE: &str = "chat_template.jinja";
const TEMPLATES: &str = "additional_chat_templates";
const MODELS: [&str; 5] = [
    "spiece.model",
    "tokenizer.model",
    "sentencepiece.bpe.model",
    "sentencepiece.model",
    "spm.model",
];
/// The files of a repository that a tokenizer is made of.
const PATTERNS: [&str; 15] = [
    TOKENIZER,
    CONFIG,
    SPECIAL,
    ADDED,
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    MODELS[0],
    MODELS[1],
    MODELS[2],
    MODELS[3],
    MODELS[4],
    TEMPLATE,
    "chat_template.json",
    "additional_chat_templates/*.jinja",
];
/// `model_max_length` of tokenizers that know none is larger.
const LARGEST_LENGTH: f64 = 1e9;

#[track_caller]
pub(super) fn load(source: &str) -> Result<Tokenizer> {
    let path = Path::new(source);
    if path.is_dir() {
        return load_folder(path);
    }
    if path.is_file() {
        return load_file(path);
    }
    if is_path(source) {
        let why = format!("there is no file or folder `{}`", files::short(source));
        return Err(
            std::io::Error::new(std::io::ErrorKind::NotFound, format!("{OP}: {why}")).into(),
        );
    }
    load_folder(&Hub::shared()?.snapshot(source, &PATTERNS)?)
}

#[track_caller]
fn load_file(path: &Path) -> Result<Tokenizer> {
    match path.extension().and_then(|e| e.to_str()) {
        Some("model") => {
            let bytes = files::read(OP, path)?;
            sentencepiece::load(&bytes, &path.display().to_string(), None, &Map::new())
        }
        _ => Tokenizer::from_file(path),
    }
}

/// A file of a folder, where it is there.
fn optional(folder: &Path, name: &str) -> Result<Option<(Vec<u8>, String)>> {
    let path = folder.join(name);
    match path.exists() {
        true => Ok(Some((files::read(OP, &path)?, path.display().to_string()))),
        false => Ok(None),
    }
}

/// The fields of a JSON file, none where it is not there.
fn fields(folder: &Path, name: &str) -> Result<Map<String, Value>> {
    match optional(folder, name)? {
        Some((bytes, file)) => files::object(&bytes, &file),
        None => Ok(Map::new()),
    }
}

#[track_caller]
fn load_folder(folder: &Path) -> Result<Tokenizer> {
    let config = fields(folder, CONFIG)?;
    let class = config.get("tokenizer_class").and_then(Value::as_str);
    let mut tokenizer = pipeline(folder, class, &config)?;
    let wrong = |name: &str| {
        let file = folder.join(name).display().to_string();
        move |why: String| TorshError::format(OP, format!("{file}: {}", files::short(&why)))
    };

    let added = added_tokens(&config).map_err(wrong(CONFIG))?;
    tokenizer.add_all(added)?;
    let more = numbered_tokens(&fields(folder, ADDED)?).map_err(wrong(ADDED))?;
    let more = more
        .into_iter()
        .filter(|t| tokenizer.token_to_id(t).is_none());
    let more = more.map(|t| tk::AddedToken::from(t, false)).collect();
    tokenizer.add_all(more)?;

    let mut special = std::mem::take(&mut tokenizer.settings.special);
    let mut named = special
        .read(&fields(folder, SPECIAL)?)
        .map_err(wrong(SPECIAL))?;
    named.extend(special.read(&config).map_err(wrong(CONFIG))?);
    // What the vocabulary lacks is added to it, and what it has is made special.
    named.retain(|token| !tokenizer.is_special_token(&token.content));
    tokenizer.add_all(named.into_iter().map(|t| t.special(true)).collect())?;
    tokenizer.settings.special = special;

    settings(&mut tokenizer, class, &config).map_err(wrong(CONFIG))?;
    tokenizer.settings.templates = templates(folder, &config)?;
    begin_and_end(&mut tokenizer, class, &config)?;
    Ok(tokenizer)
}

#[track_caller]
fn pipeline(folder: &Path, class: Option<&str>, config: &Map<String, Value>) -> Result<Tokenizer> {
    if let Some((bytes, file)) = optional(folder, TOKENIZER)? {
        return files::parse_tokenizer(&bytes, &file);
    }
    if let Some((bytes, file)) = optional(folder, "vocab.txt")? {
        return files::from_fields(legacy::word_piece(&bytes, &file, class, config)?, &file);
    }
    if let Some(vocab) = optional(folder, "vocab.json")?
        && let Some(merges) = optional(folder, "merges.txt")?
    {
        let fields =
            legacy::byte_pairs((&vocab.0, &vocab.1), (&merges.0, &merges.1), class, config)?;
        return files::from_fields(fields, &merges.1);
    }
    for name in MODELS {
        if let Some((bytes, file)) = optional(folder, name)? {
            return sentencepiece::load(&bytes, &file, class, config);
        }
    }
    Err(TorshError::invalid(
        OP,
        format!(
            "{} has no tokenizer: neither {TOKENIZER}, vocab.txt, vocab.json with merges.txt, nor {}",
            folder.display(),
            MODELS.join(", ")
        ),
    ))
}

/// `added_tokens_decoder`: tokens by their ids.
fn added_tokens(config: &Map<String, Value>) -> Result<Vec<tk::AddedToken>, String> {
    let name = "added_tokens_decoder";
    let tokens = match config.get(name) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Object(tokens)) => tokens,
        Some(_) => return Err(format!("field {name}: it is no object")),
    };
    let mut all = Vec::with_capacity(tokens.len());
    for (id, token) in tokens {
        let number: u32 = id
            .parse()
            .map_err(|_| format!("field {name}.{id}: it is no id"))?;
        let token = added_token(token, false);
        all.push((
            number,
            token.map_err(|why| format!("field {name}.{id}: {why}"))?,
        ));
    }
    all.sort_by_key(|(id, _)| *id);
    Ok(all.into_iter().map(|(_, token)| token).collect())
}

/// The tokens of an object of ids, by id.
fn numbered_tokens(tokens: &Map<String, Value>) -> Result<Vec<String>, String> {
    let mut all = Vec::with_capacity(tokens.len());
    for (token, id) in tokens {
        let id = id
            .as_u64()
            .ok_or_else(|| format!("field {token}: {id} is no id"))?;
        all.push((id, token.clone()));
    }
    all.sort();
    Ok(all.into_iter().map(|(_, token)| token).collect())
}

fn settings(
    tokenizer: &mut Tokenizer,
    class: Option<&str>,
    config: &Map<String, Value>,
) -> Result<(), String> {
    let settings = &mut tokenizer.settings;
    settings.class = class.map(str::to_string);
    if let Some(length) = config.get("model_max_length").and_then(Value::as_f64) {
        let known = (1.0..LARGEST_LENGTH).contains(&length);
        settings.model_max_length = known.then_some(length as usize);
    }
    if matches!(class_name(class), "Llama" | "CodeLlama" | "Gemma") {
        settings.padding_side = Side::Left;
    }
    for (name, side) in [
        ("padding_side", &mut settings.padding_side),
        ("truncation_side", &mut settings.truncation_side),
    ] {
        *side = match config.get(name) {
            None | Some(Value::Null) => continue,
            Some(Value::String(value)) if value == "left" => Side::Left,
            Some(Value::String(value)) if value == "right" => Side::Right,
            Some(value) => return Err(format!("field {name} is {value}, not left or right")),
        };
    }
    let clean_up = config.get("clean_up_tokenization_spaces");
    settings.clean_up = clean_up.and_then(Value::as_bool).unwrap_or(false);
    Ok(())
}

/// `add_bos_token` and `add_eos_token`, which take the place of the post-processor where a file has them.
fn begin_and_end(
    tokenizer: &mut Tokenizer,
    class: Option<&str>,
    config: &Map<String, Value>,
) -> Result<()> {
    let flag = |name: &str| config.get(name).and_then(Value::as_bool);
    let (bos, eos) = (flag("add_bos_token"), flag("add_eos_token"));
    // These classes set a post-processor of their own whatever the file says.
    const OWN: [&str; 12] = [
        "Albert",
        "Bart",
        "Bert",
        "CLIP",
        "DistilBert",
        "Electra",
        "Longformer",
        "MPNet",
        "Roberta",
        "T5",
        "Whisper",
        "XLMRoberta",
    ];
    if (bos.is_none() && eos.is_none()) || OWN.contains(&class_name(class)) {
        return Ok(());
    }
    let special = &tokenizer.settings.special;
    let wanted = |flag: Option<bool>, token: &Option<String>| {
        token.clone().filter(|_| flag.unwrap_or(false))
    };
    let bos = wanted(bos, &special.bos);
    let eos = wanted(eos, &special.eos);
    let part = |sequence: &'static str, suffix: &str| -> Vec<String> {
        let token = |t: &Option<String>| t.as_ref().map(|t| format!("{t}{suffix}"));
        [
            token(&bos),
            Some(format!("{sequence}{suffix}")),
            token(&eos),
        ]
        .into_iter()
        .flatten()
        .collect()
    };
    let single = part("$A", "");
    let pair: Vec<String> = single.iter().cloned().chain(part("$B", ":1")).collect();
    let single: Vec<&str> = single.iter().map(|p| &**p).collect();
    let pair: Vec<&str> = pair.iter().map(|p| &**p).collect();
    let id = |token: &str| tokenizer.token_to_id(token).map(|id| id as usize);
    let template = sentencepiece::template(&single, &pair, id)
        .map_err(|why| TorshError::format(OP, format!("{CONFIG}: {why}")))?;
    let template: tk::PostProcessorWrapper = serde_json::from_value(template)
        .map_err(|e| TorshError::format(OP, format!("{CONFIG}: {e}")))?;
    let mut inner = (*tokenizer.inner).clone();
    inner.with_post_processor(Some(template));
    tokenizer.inner = Arc::new(inner);
    Ok(())
}

/// The templates of a folder: files before fields of the configuration.
fn templates(folder: &Path, config: &Map<String, Value>) -> Result<ChatTemplates> {
    let wrong = |file: &str, why: &str| TorshError::format(OP, format!("{file}: {why}"));
    let text = |(bytes, file): (Vec<u8>, String)| -> Result<String> {
        let text = std::str::from_utf8(torsh_core::without_bom(&bytes));
        let text = text.map_err(|_| wrong(&file, "it is not UTF-8"))?;
        // As Python reads texts: a template from Windows writes the same prompt.
        Ok(text.replace("\r\n", "\n"))
    };
    let mut found = ChatTemplates::default();
    for (file, fields) in [
        ("chat_template.json", &fields(folder, "chat_template.json")?),
        (CONFIG, config),
    ] {
        let broken = |why: &str| wrong(file, &format!("field chat_template: {why}"));
        match fields.get("chat_template") {
            None | Some(Value::Null) => {}
            Some(Value::String(template)) => found.default = Some(template.clone()),
            Some(Value::Array(all)) => {
                for one in all {
                    let field = |name: &str| one.get(name).and_then(Value::as_str);
                    let (Some(name), Some(template)) = (field("name"), field("template")) else {
                        return Err(broken("a template has no name or no text"));
                    };
                    found.insert(name, template);
                }
            }
            Some(Value::Object(all)) => {
                for (name, template) in all {
                    let template = template.as_str().ok_or_else(|| broken("it is no text"))?;
                    found.insert(name, template);
                }
            }
            Some(_) => return Err(broken("it is no text")),
        }
    }
    let directory = folder.join(TEMPLATES);
    if directory.is_dir() {
        let mut names: Vec<PathBuf> = Vec::new();
        for entry in std::fs::read_dir(&directory).map_err(|e| files::at(OP, &directory, e))? {
            names.push(entry.map_err(|e| files::at(OP, &directory, e))?.path());
        }
        names.sort();
        for path in names {
            let stem = path.file_stem().and_then(|s| s.to_str());
            if let (Some("jinja"), Some(stem)) = (path.extension().and_then(|e| e.to_str()), stem) {
                let file = (files::read(OP, &path)?, path.display().to_string());
                found.insert(stem, text(file)?);
            }
        }
    }
    if let Some(file) = optional(folder, TEMPLATE)? {
        found.default = Some(text(file)?);
    }
    Ok(found)
}

#[track_caller]
pub(super) fn save(tokenizer: &Tokenizer, folder: &Path) -> Result<()> {
    const OP: &str = "Tokenizer::save_pretrained";
    std::fs::create_dir_all(folder).map_err(|e| files::at(OP, folder, e))?;
    tokenizer.save(folder.join(TOKENIZER))?;
    let settings = &tokenizer.settings;
    let special = settings.special.to_json();
    let mut config = special.clone();
    let class = settings
        .class
        .as_deref()
        .unwrap_or("PreTrainedTokenizerFast");
    config.insert("tokenizer_class".into(), class.into());
    if let Some(length) = settings.model_max_length {
        config.insert("model_max_length".into(), length.into());
    }
    for (name, side) in [
        ("padding_side", settings.padding_side),
        ("truncation_side", settings.truncation_side),
    ] {
        config.insert(name.into(), side.word().into());
    }
    config.insert(
        "clean_up_tokenization_spaces".into(),
        settings.clean_up.into(),
    );
    let added = tokenizer.inner.get_added_tokens_decoder();
    let added: Map<String, Value> = added
        .iter()
        .map(|(id, t)| {
            let token = json!({
                "content": t.content, "lstrip": t.lstrip, "normalized": t.normalized,
                "rstrip": t.rstrip, "single_word": t.single_word, "special": t.special,
            });
            (id.to_string(), token)
        })
        .collect();
    config.insert("added_tokens_decoder".into(), added.into());
    write(folder, CONFIG, config)?;
    write(folder, SPECIAL, special)?;
    settings.templates.save(folder)
}

fn write(folder: &Path, name: &str, fields: Map<String, Value>) -> Result<()> {
    let text = serde_json::to_string_pretty(&Value::Object(fields))
        .map_err(|e| TorshError::format("Tokenizer::save_pretrained", e.to_string()))?;
    torsh_serialize::write_bytes(&folder.join(name), format!("{text}\n").as_bytes())
}

impl ChatTemplates {
    /// Writes the templates where Python's library looks for them.
    fn save(&self, folder: &Path) -> Result<()> {
        if let Some(template) = &self.default {
            torsh_serialize::write_bytes(&folder.join(TEMPLATE), template.as_bytes())?;
        }
        if self.named.is_empty() {
            return Ok(());
        }
        let directory = folder.join(TEMPLATES);
        std::fs::create_dir_all(&directory).map_err(|e| files::at(OP, &directory, e))?;
        for (name, template) in &self.named {
            // The name becomes one of a file.
            if !name
                .chars()
                .all(|c| c.is_alphanumeric() || "_-.".contains(c))
            {
                return Err(TorshError::invalid(
                    "Tokenizer::save_pretrained",
                    format!("the name of the chat template {name:?} cannot be that of a file"),
                ));
            }
            let path = directory.join(format!("{name}.jinja"));
            torsh_serialize::write_bytes(&path, template.as_bytes())?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "folder_tests.rs"]
mod tests;
