//! What a `tokenizer.json` must be before the library reads it. The library trusts some of its fields: it would panic,
//! or take memory without bound, where they do not fit together.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::precompiled;

/// The largest id of a token: vocabularies are written as lists of all ids.
const LARGEST_ID: u64 = 1 << 24;
/// The longest token of a Unigram vocabulary in bytes. It is kept in a tree with a node for each byte, which is dropped
/// by recursion.
const LONGEST_PIECE: usize = 4096;
/// The most bytes of all tokens of a Unigram vocabulary.
const MOST_PIECE_BYTES: usize = 16 << 20;
/// How much longer a text may become by all normalizers together.
const MOST_GROWTH: u64 = 1 << 16;
/// The most tokens that a post-processor adds.
const MOST_ADDED: usize = 1 << 16;

type Checked<T = ()> = Result<T, String>;

/// Checks the fields of a `tokenizer.json`.
pub(super) fn tokenizer(fields: &Map<String, Value>) -> Checked {
    match fields.get("version") {
        None => {}
        Some(Value::String(version)) if version == "1.0" => {}
        Some(version) => {
            return Err(format!(
                "field version is {version}, and only \"1.0\" is known"
            ));
        }
    }
    if let Some(model) = fields.get("model").and_then(Value::as_object) {
        self::model(model)?;
    }
    let mut growth = 1;
    for name in ["normalizer", "pre_tokenizer", "decoder"] {
        let part = fields.get(name).unwrap_or(&Value::Null);
        steps(part, name, &mut growth)?;
    }
    let processor = fields.get("post_processor").unwrap_or(&Value::Null);
    post_processor(processor, "post_processor")?;
    match fields.get("added_tokens") {
        Some(Value::Array(tokens)) => added_tokens(tokens),
        _ => Ok(()),
    }
}

fn added_tokens(tokens: &[Value]) -> Checked {
    for (i, token) in tokens.iter().enumerate() {
        let wrong = |why: &str| format!("field added_tokens[{i}]: {why}");
        let id = token.get("id").and_then(Value::as_u64);
        if id.is_none_or(|id| id > LARGEST_ID) {
            return Err(wrong("it has no id below 2^24"));
        }
    }
    Ok(())
}

fn model(model: &Map<String, Value>) -> Checked {
    match model.get("vocab") {
        Some(Value::Object(vocab)) => vocabulary(vocab, model),
        Some(Value::Array(pieces)) => self::pieces(pieces, model),
        Some(_) => Err("field model.vocab is neither an object nor a list".into()),
        None => Err("field model.vocab is missing".into()),
    }
}

fn vocabulary(vocab: &Map<String, Value>, model: &Map<String, Value>) -> Checked {
    for (token, id) in vocab {
        if id.as_u64().is_none_or(|id| id > LARGEST_ID) {
            return Err(format!(
                "field model.vocab: the id of {token:?} is {id}, not a number below 2^24"
            ));
        }
    }
    let Some(merges) = model.get("merges") else {
        return Ok(());
    };
    let merges = merges
        .as_array()
        .ok_or("field model.merges is not a list")?;
    let prefix = model
        .get("continuing_subword_prefix")
        .and_then(Value::as_str)
        .unwrap_or("");
    for (i, merge) in merges.iter().enumerate() {
        self::merge(merge, vocab, prefix)
            .map_err(|why| format!("field model.merges[{i}]: {why}"))?;
    }
    Ok(())
}

fn merge(merge: &Value, vocab: &Map<String, Value>, prefix: &str) -> Checked {
    let (left, right) = match merge {
        Value::String(text) => {
            // The first line of a merges.txt.
            if text.starts_with("#version") {
                return Ok(());
            }
            let mut parts = text.split(' ');
            match (parts.next(), parts.next(), parts.next()) {
                (Some(left), Some(right), None) => (left, right),
                _ => return Err(format!("{text:?} is not two tokens with a space between")),
            }
        }
        Value::Array(pair) => match &pair[..] {
            [Value::String(left), Value::String(right)] => (&**left, &**right),
            _ => return Err("it is not a pair of tokens".into()),
        },
        _ => return Err("it is neither a text nor a pair".into()),
    };
    for token in [left, right] {
        if !vocab.contains_key(token) {
            return Err(format!("{token:?} is not in model.vocab"));
        }
    }
    // The library cuts off as many bytes as the prefix has, whatever they are.
    let rest = right
        .get(prefix.len()..)
        .ok_or_else(|| format!("{right:?} does not begin with {prefix:?}"))?;
    let merged = format!("{left}{rest}");
    match vocab.contains_key(&merged) {
        true => Ok(()),
        false => Err(format!("{merged:?} is not in model.vocab")),
    }
}

fn pieces(pieces: &[Value], model: &Map<String, Value>) -> Checked {
    let mut bytes = 0;
    for (i, piece) in pieces.iter().enumerate() {
        let wrong = |why: &str| format!("field model.vocab[{i}]: {why}");
        let (token, score) = match piece.as_array().map(|p| &p[..]) {
            Some([Value::String(token), Value::Number(score)]) => (token, score),
            _ => return Err(wrong("it is not a token with its score")),
        };
        if !score.as_f64().is_some_and(f64::is_finite) {
            return Err(wrong("the score is not finite"));
        }
        if token.len() > LONGEST_PIECE {
            return Err(wrong("the token has more than 4096 bytes"));
        }
        bytes += token.len();
    }
    if bytes > MOST_PIECE_BYTES {
        return Err("field model.vocab: the tokens have more than 16 MiB together".into());
    }
    match model.get("unk_id") {
        None | Some(Value::Null) => Ok(()),
        Some(id) => match id.as_u64() {
            Some(id) if id < pieces.len() as u64 => Ok(()),
            _ => Err(format!(
                "field model.unk_id is {id}, and there are {} tokens",
                pieces.len()
            )),
        },
    }
}

/// The steps of a normalizer, a pre-tokenizer or a decoder.
fn steps(part: &Value, field: &str, growth: &mut u64) -> Checked {
    let Some(kind) = part.get("type").and_then(Value::as_str) else {
        return Ok(());
    };
    let wrong = |why: String| format!("field {field}: {why}");
    let factor = match kind {
        "Sequence" => {
            for name in ["normalizers", "pretokenizers", "decoders"] {
                let all = part.get(name).and_then(Value::as_array);
                for (i, step) in all.into_iter().flatten().enumerate() {
                    steps(step, &format!("{field}.{name}[{i}]"), growth)?;
                }
            }
            1
        }
        "Replace" => replaced(part).map_err(wrong)?,
        // Bytes that are no printable ASCII become letters of two bytes.
        "ByteLevel" => 2,
        "FixedLength" => match part.get("length").map(Value::as_u64) {
            Some(Some(0)) => return Err(wrong("length is 0".into())),
            _ => 1,
        },
        "Precompiled" => {
            let map = part.get("precompiled_charsmap").and_then(Value::as_str);
            let map = map.ok_or_else(|| wrong("precompiled_charsmap is missing".into()))?;
            precompiled::check_base64(map)
                .map_err(|why| wrong(format!("precompiled_charsmap: {why}")))?;
            1
        }
        _ => 1,
    };
    // The bytes of a decoder become characters again, they do not grow.
    if field.starts_with("decoder") && kind == "ByteLevel" {
        return Ok(());
    }
    *growth = growth.saturating_mul(factor);
    match *growth > MOST_GROWTH {
        true => Err(wrong(format!(
            "with the steps before it a text may become more than {MOST_GROWTH} times as long"
        ))),
        false => Ok(()),
    }
}

/// How many times as many characters a replacement may make of a text.
fn replaced(part: &Value) -> Checked<u64> {
    let content = part.get("content").and_then(Value::as_str).unwrap_or("");
    let content = content.chars().count() as u64;
    let pattern = part.get("pattern").unwrap_or(&Value::Null);
    if let Some(text) = pattern.get("String").and_then(Value::as_str) {
        return Ok(match text.chars().count() as u64 {
            0 => content + 1,
            length => content.div_ceil(length).max(1),
        });
    }
    let Some(pattern) = pattern.get("Regex").and_then(Value::as_str) else {
        return Ok(1);
    };
    let regex = fancy_regex::Regex::new(pattern)
        .map_err(|e| format!("the pattern {pattern:?} is no regular expression: {e}"))?;
    // An expression that matches nothing may match between any two characters.
    match regex.is_match("") {
        Ok(false) => Ok(content.max(1)),
        _ => Ok(content + 1),
    }
}

fn post_processor(part: &Value, field: &str) -> Checked {
    match part.get("type").and_then(Value::as_str) {
        Some("Sequence") => {
            let all = part.get("processors").and_then(Value::as_array);
            for (i, processor) in all.into_iter().flatten().enumerate() {
                post_processor(processor, &format!("{field}.processors[{i}]"))?;
            }
            Ok(())
        }
        Some("TemplateProcessing") => {
            template(part).map_err(|(name, why)| format!("field {field}.{name}: {why}"))
        }
        _ => Ok(()),
    }
}

/// The pieces of a template are texts that are there and special tokens that are listed.
fn template(part: &Value) -> Result<(), (String, String)> {
    let empty = Map::new();
    let special = part
        .get("special_tokens")
        .and_then(Value::as_object)
        .unwrap_or(&empty);
    let mut lengths = HashMap::new();
    for (name, token) in special {
        let count = |key: &str| token.get(key).and_then(Value::as_array).map(Vec::len);
        let (ids, tokens) = (count("ids"), count("tokens"));
        if ids.is_none() || ids != tokens {
            let why = "ids and tokens are not two lists of one length";
            return Err((format!("special_tokens.{name}"), why.into()));
        }
        lengths.insert(&**name, ids.unwrap_or(0));
    }
    for (name, texts) in [("single", 1), ("pair", 2)] {
        let pieces = part.get(name).and_then(Value::as_array);
        let mut added = 0;
        for (i, piece) in pieces.into_iter().flatten().enumerate() {
            let id = |kind: &str| piece.get(kind)?.get("id")?.as_str();
            if let Some(token) = id("SpecialToken") {
                let length = lengths.get(token).ok_or_else(|| {
                    let why = format!("{token:?} is not among special_tokens");
                    (format!("{name}[{i}]"), why)
                })?;
                added += length;
            } else if id("Sequence") == Some("B") && texts == 1 {
                let why = "there is only one text".to_string();
                return Err((format!("{name}[{i}]"), why));
            }
            if added > MOST_ADDED {
                let why = format!("it adds more than {MOST_ADDED} tokens");
                return Err((name.into(), why));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(name: &str, part: Value) -> String {
        let mut fields = Map::new();
        fields.insert(name.into(), part);
        tokenizer(&fields).err().unwrap_or_default()
    }

    #[test]
    fn merges_are_of_tokens_that_are_there() {
        let vocab = json!({ "a": 0, "##b": 1, "ab": 2, "é": 3 });
        let merges = |merges: Value, prefix: &str| {
            let model = json!({
                "type": "BPE", "vocab": vocab, "merges": merges, "continuing_subword_prefix": prefix
            });
            check("model", model)
        };
        assert_eq!(merges(json!(["a ##b"]), "##"), "");
        assert_eq!(merges(json!([["a", "##b"]]), "##"), "");
        for (wrong, prefix) in [
            (json!(["a ##b"]), ""),
            (json!(["a b"]), ""),
            (json!(["a a"]), "##"),
            (json!(["a é"]), "#"),
            (json!(["a"]), ""),
            (json!([["a"]]), ""),
            (json!([1]), ""),
            (json!("x"), ""),
        ] {
            let e = merges(wrong, prefix);
            assert!(e.starts_with("field model.merges"), "{e}");
        }
    }

    #[test]
    fn unigram_vocabularies_are_bounded() {
        let model = |vocab: Value, unk: Value| {
            check(
                "model",
                json!({ "type": "Unigram", "vocab": vocab, "unk_id": unk }),
            )
        };
        assert_eq!(model(json!([["a", -1.5]]), json!(0)), "");
        assert_eq!(model(json!([["a", 0]]), json!(null)), "");
        assert!(model(json!([["a", -1.5]]), json!(1)).contains("model.unk_id"));
        assert!(model(json!([["a"]]), json!(0)).contains("model.vocab[0]"));
        let long = "x".repeat(5000);
        assert!(model(json!([[long, 0.0]]), json!(0)).contains("model.vocab[0]"));
    }

    #[test]
    fn steps_do_not_grow_texts_without_bound() {
        let double = json!({ "type": "Replace", "pattern": { "String": "a" }, "content": "aa" });
        let one = json!({ "type": "Replace", "pattern": { "String": " " }, "content": "▁" });
        let many =
            |step: &Value, n| json!({ "type": "Sequence", "normalizers": vec![step.clone(); n] });
        assert_eq!(check("normalizer", many(&one, 100)), "");
        assert_eq!(check("normalizer", many(&double, 10)), "");
        assert!(check("normalizer", many(&double, 40)).contains("normalizers[16]"));
        let regex = json!({ "type": "Replace", "pattern": { "Regex": "x*" }, "content": "ab" });
        assert!(check("normalizer", many(&regex, 40)).contains("normalizers[10]"));
        let wrong = json!({ "type": "Replace", "pattern": { "Regex": "(" }, "content": "" });
        assert!(check("normalizer", wrong).contains("no regular expression"));
        let zero = json!({ "type": "FixedLength", "length": 0 });
        assert!(check("pre_tokenizer", zero).contains("length is 0"));
    }

    #[test]
    fn templates_name_tokens_that_are_listed() {
        let template = |single: Value, special: Value| {
            let part = json!({
                "type": "TemplateProcessing", "single": single, "pair": [], "special_tokens": special
            });
            check(
                "post_processor",
                json!({ "type": "Sequence", "processors": [part] }),
            )
        };
        let cls = json!({ "SpecialToken": { "id": "[CLS]", "type_id": 0 } });
        let listed = json!({ "[CLS]": { "id": "[CLS]", "ids": [1], "tokens": ["[CLS]"] } });
        assert_eq!(template(json!([cls]), listed), "");
        assert!(template(json!([cls]), json!({})).contains("processors[0].single[0]"));
        let b = json!({ "Sequence": { "id": "B", "type_id": 0 } });
        assert!(template(json!([b]), json!({})).contains("only one text"));
        let uneven = json!({ "[CLS]": { "id": "[CLS]", "ids": [1, 2], "tokens": ["[CLS]"] } });
        assert!(template(json!([]), uneven).contains("special_tokens.[CLS]"));
    }
}
