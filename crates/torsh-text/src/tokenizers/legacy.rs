//! The files that came before `tokenizer.json`: `vocab.txt` of WordPiece, `vocab.json` and `merges.txt` of byte-level BPE.
//! Each becomes the fields of a `tokenizer.json`.

use serde_json::{Map, Value, json};
use torsh_core::without_bom;
use torsh_tensor::{Result, TorshError};

use super::files;
use super::sentencepiece::template;
use super::special::added_token;

/// How GPT-2's descendants cut texts into words.
const QWEN2_WORDS: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const CLIP_WORDS: &str =
    r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+";

/// The class of a tokenizer without `Tokenizer` and `TokenizerFast`.
pub(super) fn class_name(class: Option<&str>) -> &str {
    let name = class.unwrap_or_default();
    let name = name.strip_suffix("Fast").unwrap_or(name);
    name.strip_suffix("Tokenizer").unwrap_or(name)
}

fn wrong(file: &str, why: &str) -> TorshError {
    TorshError::format("Tokenizer", format!("{file}: {}", files::short(why)))
}

fn text<'a>(bytes: &'a [u8], file: &str) -> Result<&'a str> {
    std::str::from_utf8(without_bom(bytes))
        .map_err(|e| wrong(file, &format!("it is not UTF-8: {e}")))
}

/// The lines of a text, without the last one where it is empty.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let lines = (!text.is_empty()).then(|| text.split('\n'));
    lines
        .into_iter()
        .flatten()
        .map(|line| line.strip_suffix('\r').unwrap_or(line))
}

/// A special token of the configuration, or the usual one.
fn special(config: &Map<String, Value>, name: &str, usual: &str) -> String {
    match config.get(name).map(|value| added_token(value, true)) {
        Some(Ok(token)) => token.content,
        _ => usual.to_string(),
    }
}

/// The added tokens of special ones that are in the vocabulary.
fn added(vocab: &Map<String, Value>, tokens: &[String]) -> Vec<Value> {
    let mut tokens: Vec<_> = tokens
        .iter()
        .filter_map(|token| Some((vocab.get(token)?.as_u64()?, token)))
        .collect();
    tokens.sort();
    tokens.dedup();
    let tokens = tokens.into_iter().map(|(id, content)| {
        json!({
            "id": id, "content": content, "special": true, "normalized": false,
            "single_word": false, "rstrip": false, "lstrip": content == "<mask>",
        })
    });
    tokens.collect()
}

fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// The tokenizer of BERT and its kin: a token on each line of `vocab.txt`.
#[track_caller]
pub(super) fn word_piece(
    vocab: &[u8],
    file: &str,
    class: Option<&str>,
    config: &Map<String, Value>,
) -> Result<Map<String, Value>> {
    let mpnet = class_name(class) == "MPNet";
    let usual = |bert, other| if mpnet { other } else { bert };
    let token = |name, usual| special(config, name, usual);
    let (cls, sep) = (
        token("cls_token", usual("[CLS]", "<s>")),
        token("sep_token", usual("[SEP]", "</s>")),
    );
    let unk = token("unk_token", "[UNK]");
    let others = [
        token("pad_token", usual("[PAD]", "<pad>")),
        token("mask_token", usual("[MASK]", "<mask>")),
    ];
    let mut map = Map::new();
    for (id, token) in lines(text(vocab, file)?).enumerate() {
        map.insert(token.to_string(), id.into());
    }
    if !map.contains_key(&unk) {
        return Err(wrong(
            file,
            &format!("the token for unknown words, {unk:?}, is not there"),
        ));
    }
    let id = |token: &str| Some(map.get(token)?.as_u64()? as usize);
    let (a, b) = (&*cls, &*sep);
    let processor = match mpnet {
        true => template(&[a, "$A", b], &[a, "$A", b, b, "$B", b], id),
        false => {
            let last = format!("{sep}:1");
            template(&[a, "$A", b], &[a, "$A", b, "$B:1", &last], id)
        }
    };
    let processor = processor.map_err(|why| wrong(file, &why))?;
    let flag = |name: &str, default| config.get(name).and_then(Value::as_bool).unwrap_or(default);
    let special: Vec<_> = others.into_iter().chain([unk.clone(), cls, sep]).collect();
    Ok(fields(json!({
        "added_tokens": added(&map, &special),
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": true,
            "handle_chinese_chars": flag("tokenize_chinese_chars", true),
            "strip_accents": config.get("strip_accents").and_then(Value::as_bool),
            "lowercase": flag("do_lower_case", true),
        },
        "pre_tokenizer": { "type": "BertPreTokenizer" },
        "post_processor": processor,
        "decoder": { "type": "WordPiece", "prefix": "##", "cleanup": true },
        "model": {
            "type": "WordPiece", "unk_token": unk, "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": map,
        },
    })))
}

/// The tokenizer of GPT-2 and its descendants.
#[track_caller]
pub(super) fn byte_pairs(
    vocab: (&[u8], &str),
    merges: (&[u8], &str),
    class: Option<&str>,
    config: &Map<String, Value>,
) -> Result<Map<String, Value>> {
    let map = files::object(vocab.0, vocab.1)?;
    let lines = lines(text(merges.0, merges.1)?);
    let merges: Vec<Value> = lines
        .filter(|line| !line.starts_with("#version") && !line.is_empty())
        .map(Value::from)
        .collect();
    let prefix = config.get("add_prefix_space").and_then(Value::as_bool);
    let prefix = prefix.unwrap_or(false);
    let bytes = |use_regex: bool| {
        json!({
            "type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": true, "use_regex": use_regex,
        })
    };
    let token = |name, usual| special(config, name, usual);
    let id = |token: &str| map.get(token).and_then(Value::as_u64);
    let pair = |token: &str| {
        let id = id(token).ok_or_else(|| wrong(vocab.1, &format!("{token:?} is not there")))?;
        Ok::<_, TorshError>(json!([token, id]))
    };
    let end = "<|endoftext|>";
    let mut normalizer = Value::Null;
    let mut words = bytes(true);
    let mut processor = json!({
        "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true,
    });
    let mut suffix = "";
    let mut unk = Value::Null;
    let special: Vec<String> = match class_name(class) {
        "Roberta" | "Bart" | "Longformer" | "LED" | "Mvp" => {
            let (cls, sep) = (token("cls_token", "<s>"), token("sep_token", "</s>"));
            processor = json!({
                "type": "RobertaProcessing", "sep": pair(&sep)?, "cls": pair(&cls)?,
                "trim_offsets": true, "add_prefix_space": prefix,
            });
            let others = [
                token("unk_token", "<unk>"),
                token("pad_token", "<pad>"),
                token("mask_token", "<mask>"),
            ];
            others.into_iter().chain([cls, sep]).collect()
        }
        "CLIP" => {
            let (bos, eos) = (
                token("bos_token", "<|startoftext|>"),
                token("eos_token", end),
            );
            unk = Value::from(token("unk_token", end));
            suffix = "</w>";
            normalizer = json!({ "type": "Sequence", "normalizers": [
                { "type": "NFC" },
                { "type": "Replace", "pattern": { "Regex": r"\s+" }, "content": " " },
                { "type": "Lowercase" },
            ] });
            words = json!({ "type": "Sequence", "pretokenizers": [
                { "type": "Split", "pattern": { "Regex": CLIP_WORDS }, "behavior": "Removed", "invert": true },
                { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true },
            ] });
            processor = json!({
                "type": "RobertaProcessing", "sep": pair(&eos)?, "cls": pair(&bos)?,
                "trim_offsets": false, "add_prefix_space": false,
            });
            vec![bos, eos]
        }
        "Qwen2" => {
            normalizer = json!({ "type": "NFC" });
            words = json!({ "type": "Sequence", "pretokenizers": [
                { "type": "Split", "pattern": { "Regex": QWEN2_WORDS }, "behavior": "Isolated", "invert": false },
                bytes(false),
            ] });
            processor = Value::Null;
            vec![token("eos_token", end)]
        }
        _ => vec![
            token("bos_token", end),
            token("eos_token", end),
            token("unk_token", end),
        ],
    };
    Ok(fields(json!({
        "added_tokens": added(&map, &special),
        "normalizer": normalizer,
        "pre_tokenizer": words,
        "post_processor": processor,
        "decoder": { "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true },
        "model": {
            "type": "BPE", "dropout": null, "unk_token": unk, "continuing_subword_prefix": "",
            "end_of_word_suffix": suffix, "fuse_unk": false, "byte_fallback": false,
            "vocab": map, "merges": merges,
        },
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(value: Value) -> Map<String, Value> {
        fields(value)
    }

    #[test]
    fn bert_reads_a_token_a_line() -> Result<()> {
        let vocab = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\n##s\n\u{e9}\ne\r\n";
        let read = |c: Value| {
            let f = word_piece(
                vocab.as_bytes(),
                "vocab.txt",
                Some("BertTokenizer"),
                &config(c),
            )?;
            files::from_fields(f, "vocab.txt")
        };
        let t = read(json!({}))?;
        assert_eq!(t.encode("Hellos \u{c9}")?.ids, [2, 5, 6, 8, 3]);
        assert_eq!(t.encode_pair("e", "e")?.type_ids, [0, 0, 0, 1, 1]);
        assert_eq!(t.pad_token_id(), Some(0));
        let t = read(json!({ "do_lower_case": false }))?;
        assert_eq!(t.encode("Hellos \u{e9}")?.ids, [2, 1, 7, 3]);
        let windows = format!("\u{feff}{}", vocab.replace('\r', "").replace('\n', "\r\n"));
        let f = word_piece(windows.as_bytes(), "vocab.txt", None, &config(json!({})))?;
        let t = files::from_fields(f, "vocab.txt")?;
        assert_eq!(t.encode("Hellos \u{c9}")?.ids, [2, 5, 6, 8, 3]);
        assert_eq!(t.pad_token_id(), Some(0));
        let broken = word_piece(b"a\nb\n", "vocab.txt", None, &Map::new());
        assert!(broken.is_err_and(|e| e.to_string().contains("[UNK]")));
        let broken = word_piece(b"[UNK]\n\xff\n", "vocab.txt", None, &Map::new());
        assert!(broken.is_err_and(|e| e.to_string().contains("UTF-8")));
        Ok(())
    }

    #[test]
    fn byte_pairs_of_gpt2_and_roberta() -> Result<()> {
        let vocab =
            r#"{"<s>":0,"</s>":1,"h":2,"i":3,"hi":4,"\u0120":5,"\u0120hi":6,"<|endoftext|>":7}"#;
        let merges = "#version: 0.2\nh i\n\u{120} hi\n";
        let read = |class: &str| {
            let vocab = (vocab.as_bytes(), "vocab.json");
            let f = byte_pairs(
                vocab,
                (merges.as_bytes(), "merges.txt"),
                Some(class),
                &Map::new(),
            )?;
            files::from_fields(f, "merges.txt")
        };
        assert_eq!(read("GPT2Tokenizer")?.encode("hi hi")?.ids, [4, 6]);
        let t = read("RobertaTokenizerFast")?;
        assert_eq!(t.encode_pair("hi", "hi")?.ids, [0, 4, 1, 1, 4, 1]);
        assert_eq!(t.encode("hi hi")?.offsets[2], (3, 5));
        assert_eq!(t.decode(&[4, 6], false)?, "hi hi");
        assert_eq!(read("Qwen2Tokenizer")?.encode("hi hi")?.ids, [4, 6]);
        let windows = |text: &str| format!("\u{feff}{}", text.replace('\n', "\r\n"));
        let f = byte_pairs(
            (windows(vocab).as_bytes(), "vocab.json"),
            (windows(merges).as_bytes(), "merges.txt"),
            Some("GPT2Tokenizer"),
            &Map::new(),
        )?;
        let t = files::from_fields(f, "merges.txt")?;
        assert_eq!(t.encode("hi hi")?.ids, [4, 6]);
        let broken = byte_pairs(
            (b"{\"a\": 0}", "vocab.json"),
            (b"a a\n", "merges.txt"),
            None,
            &Map::new(),
        );
        let broken = files::from_fields(broken?, "merges.txt");
        assert!(broken.is_err_and(|e| e.to_string().contains("merges[0]")));
        Ok(())
    }
}
