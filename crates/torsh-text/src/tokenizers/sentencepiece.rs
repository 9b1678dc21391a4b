//! SentencePiece models: the pieces of a file as the tokenizer that gives the same tokens.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};
use torsh_tensor::{Result, TorshError};

use super::files;
use super::precompiled;
use super::protobuf::{Fields, Wire};
use super::tokenizer::Tokenizer;

/// What stands for a space in pieces.
const SPACE: &str = "\u{2581}";
/// The longest piece that is cut into the pieces it is merged of.
const LONGEST_MERGED: usize = 256;
/// The most bytes of all merges.
const MOST_MERGE_BYTES: usize = 128 << 20;

const NORMAL: i64 = 1;
const UNKNOWN: i64 = 2;
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;

const UNIGRAM: i64 = 1;
const BPE: i64 = 2;

/// One piece of the vocabulary.
#[derive(Clone, Debug, PartialEq)]
struct Piece<'a> {
    text: &'a str,
    score: f32,
    kind: i64,
}

/// The parts of a model file that tokenizing depends on, with the defaults of the format.
#[derive(Clone, Debug, PartialEq)]
struct Model<'a> {
    pieces: Vec<Piece<'a>>,
    model_type: i64,
    byte_fallback: bool,
    space_as_suffix: bool,
    unk_id: i64,
    bos_id: i64,
    eos_id: i64,
    pad_id: i64,
    charsmap: &'a [u8],
    add_dummy_prefix: bool,
    remove_extra_whitespaces: bool,
    escape_whitespaces: bool,
}

/// The tokenizers of Hugging Face's library that change more than they read from the file.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Family {
    Plain,
    T5,
    XlmRoberta,
    Albert,
    Llama,
    Gemma,
}

/// Classes whose vocabulary or special tokens are arranged in ways of their own, which a file does not tell.
const OTHER_CLASSES: [&str; 21] = [
    "Barthez",
    "BigBird",
    "Camembert",
    "DebertaV2",
    "ErnieM",
    "FNet",
    "LayoutXLM",
    "M2M100",
    "MBart",
    "MBart50",
    "Marian",
    "Nllb",
    "PLBart",
    "Pegasus",
    "RemBert",
    "SeamlessM4T",
    "Speech2Text",
    "Udop",
    "XGLM",
    "XLNet",
    "MLuke",
];

/// The tokenizer of a model file; `class` and `config` are those of `tokenizer_config.json`.
#[track_caller]
pub(super) fn load(
    bytes: &[u8],
    file: &str,
    class: Option<&str>,
    config: &Map<String, Value>,
) -> Result<Tokenizer> {
    let wrong =
        |why: String| TorshError::format("Tokenizer", format!("{file}: {}", files::short(&why)));
    if bytes.len() as u64 > files::LARGEST {
        return Err(wrong(format!(
            "it has {} bytes, more than any tokenizer",
            bytes.len()
        )));
    }
    let family = family(class).map_err(wrong)?;
    let model = read(bytes).map_err(wrong)?;
    let fields = model.tokenizer(family, config).map_err(wrong)?;
    let mut tokenizer = files::from_fields(fields, file)?;
    if family == Family::Plain {
        let special = &mut tokenizer.settings.special;
        for (id, field) in [
            (model.bos_id, &mut special.bos),
            (model.eos_id, &mut special.eos),
            (model.unk_id, &mut special.unk),
            (model.pad_id, &mut special.pad),
        ] {
            let piece = usize::try_from(id).ok().and_then(|id| model.pieces.get(id));
            if let Some(piece) = piece {
                *field = Some(piece.text.to_string());
            }
        }
    }
    Ok(tokenizer)
}

fn family(class: Option<&str>) -> Result<Family, String> {
    let name = class.unwrap_or_default();
    let name = name.strip_suffix("Fast").unwrap_or(name);
    let name = name.strip_suffix("Tokenizer").unwrap_or(name);
    Ok(match name {
        "T5" | "MT5" => Family::T5,
        "XLMRoberta" => Family::XlmRoberta,
        "Albert" => Family::Albert,
        "Llama" | "CodeLlama" => Family::Llama,
        "Gemma" => Family::Gemma,
        name if OTHER_CLASSES.contains(&name) => {
            return Err(format!(
                "a SentencePiece model of the class {name}Tokenizer is not supported without its tokenizer.json, which AutoTokenizer.from_pretrained(..).save_pretrained(..) of Python's library writes"
            ));
        }
        _ => Family::Plain,
    })
}

/// A field of a message; an error names it.
fn named<T>(name: &str, read: Result<T, String>) -> Result<T, String> {
    read.map_err(|why| format!("field {name}: {why}"))
}

fn read(bytes: &[u8]) -> Result<Model<'_>, String> {
    let mut model = Model {
        pieces: Vec::new(),
        model_type: UNIGRAM,
        byte_fallback: false,
        space_as_suffix: false,
        unk_id: 0,
        bos_id: 1,
        eos_id: 2,
        pad_id: -1,
        charsmap: &[],
        add_dummy_prefix: true,
        remove_extra_whitespaces: true,
        escape_whitespaces: true,
    };
    for field in Fields::new(bytes) {
        let (number, wire) = field?;
        match number {
            1 => {
                let name = format!("pieces[{}]", model.pieces.len());
                let piece = named(&name, wire.bytes().and_then(piece))?;
                model.pieces.push(piece);
            }
            2 => named(
                "trainer_spec",
                wire.bytes().and_then(|b| model.trainer_spec(b)),
            )?,
            3 => named(
                "normalizer_spec",
                wire.bytes().and_then(|b| model.normalizer_spec(b)),
            )?,
            _ => {}
        }
    }
    model.check()?;
    Ok(model)
}

fn piece(bytes: &[u8]) -> Result<Piece<'_>, String> {
    let mut piece = Piece {
        text: "",
        score: 0.0,
        kind: NORMAL,
    };
    for field in Fields::new(bytes) {
        let (number, wire) = field?;
        match number {
            1 => piece.text = named("piece", wire.text())?,
            2 => piece.score = named("score", wire.float())?,
            3 => piece.kind = named("type", wire.int())?,
            _ => {}
        }
    }
    match piece.score.is_finite() {
        true => Ok(piece),
        false => Err("the score is not finite".into()),
    }
}

impl<'a> Model<'a> {
    fn trainer_spec(&mut self, bytes: &'a [u8]) -> Result<(), String> {
        for field in Fields::new(bytes) {
            let (number, wire) = field?;
            let int = |name| named(name, wire.int());
            match number {
                3 => self.model_type = int("model_type")?,
                24 => self.space_as_suffix = named("treat_whitespace_as_suffix", wire.bool())?,
                35 => self.byte_fallback = named("byte_fallback", wire.bool())?,
                40 => self.unk_id = int("unk_id")?,
                41 => self.bos_id = int("bos_id")?,
                42 => self.eos_id = int("eos_id")?,
                43 => self.pad_id = int("pad_id")?,
                _ => {}
            }
        }
        Ok(())
    }

    fn normalizer_spec(&mut self, bytes: &'a [u8]) -> Result<(), String> {
        for field in Fields::new(bytes) {
            let (number, wire) = field?;
            let bool = |name, wire: Wire<'a>| named(name, wire.bool());
            match number {
                2 => self.charsmap = named("precompiled_charsmap", wire.bytes())?,
                3 => self.add_dummy_prefix = bool("add_dummy_prefix", wire)?,
                4 => self.remove_extra_whitespaces = bool("remove_extra_whitespaces", wire)?,
                5 => self.escape_whitespaces = bool("escape_whitespaces", wire)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        if self.pieces.is_empty() {
            return Err("it has no pieces: is it a SentencePiece model?".into());
        }
        if ![UNIGRAM, BPE].contains(&self.model_type) {
            return Err(format!(
                "field trainer_spec.model_type is {}, and only unigram (1) and BPE (2) are supported",
                self.model_type
            ));
        }
        if self.space_as_suffix {
            return Err(
                "field trainer_spec.treat_whitespace_as_suffix is set, which is not supported"
                    .into(),
            );
        }
        if !usize::try_from(self.unk_id).is_ok_and(|id| id < self.pieces.len()) {
            return Err(format!(
                "field trainer_spec.unk_id is {}, and there are {} pieces",
                self.unk_id,
                self.pieces.len()
            ));
        }
        let mut seen = HashSet::with_capacity(self.pieces.len());
        for (i, piece) in self.pieces.iter().enumerate() {
            if piece.text.is_empty() {
                return Err(format!("field pieces[{i}].piece is empty"));
            }
            if !seen.insert(piece.text) {
                return Err(format!(
                    "field pieces[{i}]: {:?} is there twice",
                    piece.text
                ));
            }
        }
        if !self.charsmap.is_empty() {
            named(
                "normalizer_spec.precompiled_charsmap",
                precompiled::check(self.charsmap),
            )?;
        }
        Ok(())
    }

    /// The fields of a `tokenizer.json` with these pieces.
    fn tokenizer(
        &self,
        family: Family,
        config: &Map<String, Value>,
    ) -> Result<Map<String, Value>, String> {
        let pieces = self.arranged(family, config)?;
        let ids: HashMap<&str, usize> = pieces
            .iter()
            .enumerate()
            .map(|(id, (text, _))| (&**text, id))
            .collect();
        let user_defined: Vec<&str> = self
            .pieces
            .iter()
            .filter(|p| p.kind == USER_DEFINED && ids.contains_key(p.text))
            .map(|p| p.text)
            .collect();
        let unk_id = match family {
            Family::XlmRoberta => 3,
            _ => self.unk_id,
        };
        let model = match self.model_type {
            UNIGRAM => json!({
                "type": "Unigram",
                "unk_id": unk_id,
                "byte_fallback": self.byte_fallback,
                "vocab": pieces.iter().map(|(text, score)| json!([text, score])).collect::<Vec<_>>(),
            }),
            _ => {
                let vocab: Map<String, Value> = ids
                    .iter()
                    .map(|(text, id)| (text.to_string(), Value::from(*id)))
                    .collect();
                json!({
                    "type": "BPE",
                    "unk_token": pieces.get(unk_id as usize).map(|(text, _)| text),
                    "fuse_unk": true,
                    "byte_fallback": self.byte_fallback,
                    "ignore_merges": family == Family::Plain && !user_defined.is_empty(),
                    "merges": self.merges()?,
                    "vocab": vocab,
                })
            }
        };
        let added = self.added(family, &ids, &pieces);
        let id = |token: &str| ids.get(token).copied();
        let (normalizer, pre_tokenizer, decoder) = match family {
            Family::Plain => self.plain(&user_defined),
            Family::T5 | Family::XlmRoberta | Family::Albert => self.words(family, config),
            Family::Llama => self.llama(config),
            Family::Gemma => gemma(),
        };
        let processor = match family {
            Family::T5 => template(&["$A", "</s>"], &["$A", "</s>", "$B", "</s>"], id),
            Family::XlmRoberta => template(
                &["<s>", "$A", "</s>"],
                &["<s>", "$A", "</s>", "</s>", "$B", "</s>"],
                id,
            ),
            Family::Albert => template(
                &["[CLS]", "$A", "[SEP]"],
                &["[CLS]", "$A", "[SEP]", "$B:1", "[SEP]:1"],
                id,
            ),
            Family::Llama => template(&["<s>", "$A"], &["<s>", "$A", "<s>:1", "$B:1"], id),
            Family::Gemma => template(&["<bos>", "$A"], &["<bos>", "$A", "<bos>:1", "$B:1"], id),
            Family::Plain => Ok(Value::Null),
        }?;
        let all = json!({
            "added_tokens": added,
            "normalizer": normalizer,
            "pre_tokenizer": pre_tokenizer,
            "post_processor": processor,
            "decoder": decoder,
            "model": model,
        });
        match all {
            Value::Object(fields) => Ok(fields),
            _ => Err("it is no tokenizer".into()),
        }
    }

    /// The vocabulary in the order of ids.
    fn arranged(
        &self,
        family: Family,
        config: &Map<String, Value>,
    ) -> Result<Vec<(String, f64)>, String> {
        let own = |pieces: &[Piece<'_>]| {
            let pieces = pieces.iter();
            let pieces = pieces.map(|p| (p.text.to_string(), f64::from(p.score)));
            pieces.collect::<Vec<_>>()
        };
        match family {
            Family::T5 => {
                let extra = match config.get("extra_ids") {
                    None | Some(Value::Null) => 100,
                    Some(value) => value.as_u64().filter(|n| *n <= 100_000).ok_or_else(|| {
                        format!("extra_ids of tokenizer_config.json is {value}, not a small number")
                    })?,
                };
                let mut all = own(&self.pieces);
                let known: HashSet<&str> = self.pieces.iter().map(|p| p.text).collect();
                let extra = (0..extra).rev().map(|i| format!("<extra_id_{i}>"));
                all.extend(extra.filter(|t| !known.contains(&**t)).map(|t| (t, 0.0)));
                Ok(all)
            }
            Family::XlmRoberta => {
                let rest = self.pieces.get(3..).unwrap_or_default();
                let mut all: Vec<_> = ["<s>", "<pad>", "</s>", "<unk>"]
                    .map(|token| (token.to_string(), 0.0))
                    .into();
                all.extend(own(rest));
                all.push(("<mask>".into(), 0.0));
                Ok(all)
            }
            _ => Ok(own(&self.pieces)),
        }
    }

    /// The tokens at which texts are cut first.
    fn added(
        &self,
        family: Family,
        ids: &HashMap<&str, usize>,
        pieces: &[(String, f64)],
    ) -> Vec<Value> {
        let mut added: Vec<(usize, &str, bool)> = Vec::new();
        for piece in &self.pieces {
            let special = match piece.kind {
                CONTROL | UNKNOWN => true,
                // Plain models keep them within the text: see `plain`.
                USER_DEFINED if family != Family::Plain => false,
                _ => continue,
            };
            if let Some(id) = ids.get(piece.text) {
                added.push((*id, piece.text, special));
            }
        }
        for (id, (text, _)) in pieces.iter().enumerate() {
            let more = match family {
                Family::T5 => text.starts_with("<extra_id_"),
                Family::XlmRoberta => {
                    ["<s>", "<pad>", "</s>", "<unk>", "<mask>"].contains(&&**text)
                }
                Family::Albert => ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"].contains(&&**text),
                _ => false,
            };
            if more {
                added.retain(|(other, ..)| *other != id);
                added.push((id, text, true));
            }
        }
        added.sort_by_key(|(id, ..)| *id);
        let added = added.into_iter().map(|(id, content, special)| {
            json!({
                "id": id, "content": content, "special": special, "normalized": false,
                "single_word": false, "rstrip": false,
                "lstrip": matches!(content, "<mask>" | "[MASK]"),
            })
        });
        added.collect()
    }

    /// The pairs that BPE merges, the best first: those that make the piece with the highest score.
    fn merges(&self) -> Result<Vec<Value>, String> {
        let normal: HashMap<&str, usize> = self
            .pieces
            .iter()
            .enumerate()
            .filter(|(_, p)| p.kind == NORMAL)
            .map(|(id, p)| (p.text, id))
            .collect();
        let mut merges: Vec<(f32, usize, &str, &str)> = Vec::new();
        let mut bytes = 0;
        for (id, piece) in self.pieces.iter().enumerate() {
            if piece.kind != NORMAL {
                continue;
            }
            if piece.text.len() > LONGEST_MERGED {
                return Err(format!(
                    "field pieces[{id}].piece has {} bytes, more than {LONGEST_MERGED}",
                    piece.text.len()
                ));
            }
            for (at, _) in piece.text.char_indices().skip(1) {
                let (left, right) = piece.text.split_at(at);
                if normal.contains_key(left) && normal.contains_key(right) {
                    merges.push((piece.score, id, left, right));
                    bytes += piece.text.len() + 64;
                }
            }
            if bytes > MOST_MERGE_BYTES {
                return Err("the pieces can be merged in too many ways".into());
            }
        }
        merges.sort_by(|a, b| {
            b.0.total_cmp(&a.0)
                .then_with(|| (a.1, a.2, a.3).cmp(&(b.1, b.2, b.3)))
        });
        let merges = merges.into_iter();
        Ok(merges
            .map(|(_, _, left, right)| json!([left, right]))
            .collect())
    }

    fn charsmap(&self) -> Option<Value> {
        let map = (!self.charsmap.is_empty()).then(|| precompiled::encode_base64(self.charsmap))?;
        Some(json!({ "type": "Precompiled", "precompiled_charsmap": map }))
    }

    /// Normalizer, pre-tokenizer and decoder that do what the SentencePiece library does.
    fn plain(&self, user_defined: &[&str]) -> (Value, Value, Value) {
        let mut normalizers: Vec<Value> = self.charsmap().into_iter().collect();
        if self.remove_extra_whitespaces {
            normalizers.push(replace_regex(r"\A +| +\z", ""));
            normalizers.push(replace_regex(" {2,}", " "));
        }
        if self.escape_whitespaces {
            normalizers.push(replace(" ", SPACE));
        }
        let mut pre_tokenizers = Vec::new();
        if self.add_dummy_prefix {
            // A text that begins with a space has two of them then.
            let (one, two) = (format!(r"\A{SPACE}"), format!("{SPACE}{SPACE}"));
            normalizers.push(replace_regex(&one, &two));
            pre_tokenizers.push(metaspace("always", false));
        }
        if !user_defined.is_empty() {
            // The library takes such a piece as a whole wherever it stands, the longest first.
            let mut longest = user_defined.to_vec();
            longest.sort_by_key(|piece| std::cmp::Reverse(piece.chars().count()));
            let pieces: Vec<_> = longest.iter().map(|p| fancy_regex::escape(p)).collect();
            pre_tokenizers.push(json!({
                "type": "Split", "pattern": { "Regex": pieces.join("|") },
                "behavior": "Isolated", "invert": false,
            }));
        }
        let mut decoders = vec![replace(SPACE, " ")];
        if self.byte_fallback {
            decoders.push(json!({ "type": "ByteFallback" }));
        }
        if self.add_dummy_prefix {
            decoders.push(json!({ "type": "Fuse" }));
            decoders.push(json!({ "type": "Strip", "content": " ", "start": 1, "stop": 0 }));
        } else if self.byte_fallback {
            decoders.push(json!({ "type": "Fuse" }));
        }
        let pre_tokenizer = match pre_tokenizers.is_empty() {
            true => Value::Null,
            false => json!({ "type": "Sequence", "pretokenizers": pre_tokenizers }),
        };
        (
            json!({ "type": "Sequence", "normalizers": normalizers }),
            pre_tokenizer,
            json!({ "type": "Sequence", "decoders": decoders }),
        )
    }

    /// Those of T5, XLM-RoBERTa and ALBERT, which cut texts into words.
    fn words(&self, family: Family, config: &Map<String, Value>) -> (Value, Value, Value) {
        let flag =
            |name: &str, default| config.get(name).and_then(Value::as_bool).unwrap_or(default);
        let mut normalizers = Vec::new();
        if family == Family::Albert {
            normalizers.push(replace("``", "\""));
            normalizers.push(replace("''", "\""));
            if !flag("keep_accents", false) {
                normalizers.push(json!({ "type": "NFKD" }));
                normalizers.push(json!({ "type": "StripAccents" }));
            }
            if flag("do_lower_case", true) {
                normalizers.push(json!({ "type": "Lowercase" }));
            }
        }
        normalizers.extend(self.charsmap());
        let scheme = match flag("add_prefix_space", true) || family == Family::T5 {
            true => "always",
            false => "never",
        };
        let metaspace = metaspace(scheme, true);
        (
            json!({ "type": "Sequence", "normalizers": normalizers }),
            json!({
                "type": "Sequence", "pretokenizers": [{ "type": "WhitespaceSplit" }, metaspace.clone()],
            }),
            metaspace,
        )
    }

    fn llama(&self, config: &Map<String, Value>) -> (Value, Value, Value) {
        let flag =
            |name: &str, default| config.get(name).and_then(Value::as_bool).unwrap_or(default);
        let prefix = flag("add_prefix_space", true);
        let scheme = match (prefix, flag("legacy", false)) {
            (false, _) => "never",
            (true, true) => "always",
            (true, false) => "first",
        };
        let mut decoders = vec![
            replace(SPACE, " "),
            json!({ "type": "ByteFallback" }),
            json!({ "type": "Fuse" }),
        ];
        if prefix {
            decoders.push(json!({ "type": "Strip", "content": " ", "start": 1, "stop": 0 }));
        }
        (
            Value::Null,
            metaspace(scheme, false),
            json!({ "type": "Sequence", "decoders": decoders }),
        )
    }
}

fn gemma() -> (Value, Value, Value) {
    (
        replace(" ", SPACE),
        json!({
            "type": "Split", "pattern": { "String": " " },
            "behavior": "MergedWithPrevious", "invert": false,
        }),
        json!({ "type": "Sequence", "decoders": [
            replace(SPACE, " "), { "type": "ByteFallback" }, { "type": "Fuse" },
        ] }),
    )
}

fn replace(from: &str, to: &str) -> Value {
    json!({ "type": "Replace", "pattern": { "String": from }, "content": to })
}

fn replace_regex(from: &str, to: &str) -> Value {
    json!({ "type": "Replace", "pattern": { "Regex": from }, "content": to })
}

fn metaspace(scheme: &str, split: bool) -> Value {
    json!({ "type": "Metaspace", "replacement": SPACE, "prepend_scheme": scheme, "split": split })
}

/// A post-processor from pieces such as `$A`, `$B:1`, `[SEP]:1`, where the tokens are in the vocabulary.
pub(super) fn template(
    single: &[&str],
    pair: &[&str],
    id: impl Fn(&str) -> Option<usize>,
) -> Result<Value, String> {
    let mut special = Map::new();
    let mut part = |pieces: &[&str]| {
        let pieces = pieces.iter().map(|piece| {
            let (name, type_id) = match piece.strip_suffix(":1") {
                Some(name) => (name, 1),
                None => (*piece, 0),
            };
            if let Some(sequence) = name.strip_prefix('$') {
                return Ok(json!({ "Sequence": { "id": sequence, "type_id": type_id } }));
            }
            let id = id(name).ok_or_else(|| format!("{name:?} is not in the vocabulary"))?;
            let token = json!({ "id": name, "ids": [id], "tokens": [name] });
            special.insert(name.to_string(), token);
            Ok(json!({ "SpecialToken": { "id": name, "type_id": type_id } }))
        });
        pieces.collect::<Result<Vec<_>, String>>()
    };
    let (single, pair) = (part(single)?, part(pair)?);
    Ok(json!({
        "type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": special,
    }))
}

#[cfg(test)]
#[path = "sentencepiece_tests.rs"]
mod tests;
