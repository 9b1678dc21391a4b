//! Reading `tokenizer.json`.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tk::tokenizer::PostProcessor as _;
use tokenizers as tk;
use torsh_tensor::{Result, TorshError};

use super::check;
use super::encoding::{EncodeOptions, PaddingStrategy, Side, TruncationStrategy};
use super::special::SpecialTokens;
use super::tokenizer::{Settings, Tokenizer, guarded};

/// The largest file of a tokenizer. The largest that is published has 40 MB.
pub(super) const LARGEST: u64 = 128 << 20;

const OP: &str = "Tokenizer";

/// A text of somebody else in a message: short, and on one line.
pub(super) fn short(text: &str) -> String {
    let mut clean = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut out: String = clean.by_ref().take(200).collect();
    if clean.next().is_some() {
        out.push_str("..");
    }
    out
}

/// An error of the system at a path.
pub(super) fn at(op: &str, path: &Path, e: std::io::Error) -> TorshError {
    std::io::Error::new(e.kind(), format!("{op}: {}: {e}", path.display())).into()
}

/// All bytes of a file that is not larger than any file of a tokenizer.
pub(super) fn read(op: &'static str, path: &Path) -> Result<Vec<u8>> {
    let file = File::open(path).map_err(|e| at(op, path, e))?;
    let about = file.metadata().map_err(|e| at(op, path, e))?;
    if !about.is_file() {
        return Err(TorshError::format(
            op,
            format!("{}: it is not a file", path.display()),
        ));
    }
    let too_large = || {
        TorshError::format(
            op,
            format!(
                "{}: it is larger than {} MiB, which no tokenizer is",
                path.display(),
                LARGEST >> 20
            ),
        )
    };
    if about.len() > LARGEST {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    // A file may grow while it is read.
    let read = file.take(LARGEST + 1).read_to_end(&mut bytes);
    read.map_err(|e| at(op, path, e))?;
    torsh_core::check_git_lfs(op, path.display(), &bytes)?;
    match bytes.len() as u64 > LARGEST {
        true => Err(too_large()),
        false => Ok(bytes),
    }
}

/// The JSON of a file.
pub(super) fn json(bytes: &[u8], file: &str) -> Result<Value> {
    serde_json::from_slice(torsh_core::without_bom(bytes)).map_err(|e| {
        TorshError::format(OP, format!("{file} is not JSON: {}", short(&e.to_string())))
    })
}

/// The JSON object of a file.
pub(super) fn object(bytes: &[u8], file: &str) -> Result<Map<String, Value>> {
    match json(bytes, file)? {
        Value::Object(fields) => Ok(fields),
        _ => Err(TorshError::format(
            OP,
            format!("{file} holds no JSON object"),
        )),
    }
}

/// The tokenizer of a `tokenizer.json`.
#[track_caller]
pub(super) fn parse_tokenizer(bytes: &[u8], file: &str) -> Result<Tokenizer> {
    if bytes.len() as u64 > LARGEST {
        return Err(TorshError::format(
            OP,
            format!("{file} has {} bytes, more than any tokenizer", bytes.len()),
        ));
    }
    from_fields(object(bytes, file)?, file)
}

/// The tokenizer that the fields of a `tokenizer.json` describe.
#[track_caller]
pub(super) fn from_fields(mut fields: Map<String, Value>, file: &str) -> Result<Tokenizer> {
    let wrong = |why: String| TorshError::format(OP, format!("{file}: {}", short(&why)));
    check::tokenizer(&fields).map_err(wrong)?;
    let model: tk::ModelWrapper = part(&mut fields, "model", file)?
        .ok_or_else(|| wrong("the field model is missing".into()))?;
    let normalizer: Option<tk::NormalizerWrapper> = part(&mut fields, "normalizer", file)?;
    let pre_tokenizer: Option<tk::PreTokenizerWrapper> = part(&mut fields, "pre_tokenizer", file)?;
    let post_processor: Option<tk::PostProcessorWrapper> =
        part(&mut fields, "post_processor", file)?;
    let decoder: Option<tk::DecoderWrapper> = part(&mut fields, "decoder", file)?;
    let truncation: Option<tk::TruncationParams> = part(&mut fields, "truncation", file)?;
    let padding: Option<tk::PaddingParams> = part(&mut fields, "padding", file)?;
    let added: Vec<tk::AddedToken> = part(&mut fields, "added_tokens", file)?.unwrap_or_default();

    let added_by_pairs = post_processor.as_ref().map_or(0, |p| p.added_tokens(false));
    if let Some(t) = &truncation
        && t.max_length < added_by_pairs.saturating_add(t.stride)
    {
        return Err(wrong(format!(
            "field truncation: max_length is {}, less than the stride {} and the {added_by_pairs} special tokens",
            t.max_length, t.stride
        )));
    }
    let inner = guarded(OP, || {
        let mut inner = tk::Tokenizer::new(model);
        inner.with_normalizer(normalizer)?;
        inner.with_pre_tokenizer(pre_tokenizer);
        inner.with_post_processor(post_processor);
        inner.with_decoder(decoder);
        inner.with_truncation(truncation)?;
        inner.with_padding(padding);
        inner.add_tokens(added)?;
        Ok(inner)
    })
    .map_err(|e| wrong(e.to_string()))?;
    let special = SpecialTokens::guess(&inner);
    let padding_side = inner
        .get_padding()
        .map_or(Side::Right, |p| side(p.direction.as_ref()));
    let truncation_side = inner
        .get_truncation()
        .map_or(Side::Right, |t| side(t.direction.as_ref()));
    Ok(Tokenizer {
        inner: Arc::new(inner),
        settings: Settings {
            special,
            padding_side,
            truncation_side,
            ..Settings::default()
        },
    })
}

fn side(name: &str) -> Side {
    match name {
        "left" => Side::Left,
        _ => Side::Right,
    }
}

/// A part of the pipeline; an error names the field.
fn part<T: DeserializeOwned>(
    fields: &mut Map<String, Value>,
    name: &str,
    file: &str,
) -> Result<Option<T>> {
    let value = fields.remove(name).unwrap_or(Value::Null);
    // Some parts of the library panic at fields that they do not know.
    let read = guarded(OP, || {
        serde_json::from_value::<Option<T>>(value).map_err(|e| e.to_string().into())
    });
    read.map_err(|e| {
        let why = match &e {
            TorshError::InvalidArgument(info) | TorshError::Format(info) => info.message.clone(),
            e => e.to_string(),
        };
        TorshError::format(OP, format!("{file}: field {name}: {}", short(&why)))
    })
}

/// The truncation and padding of a file.
pub(super) fn options(inner: &tk::Tokenizer) -> EncodeOptions {
    let mut options = EncodeOptions::new();
    if let Some(t) = inner.get_truncation() {
        options.truncation = match t.strategy {
            tk::TruncationStrategy::LongestFirst => TruncationStrategy::LongestFirst,
            tk::TruncationStrategy::OnlyFirst => TruncationStrategy::OnlyFirst,
            tk::TruncationStrategy::OnlySecond => TruncationStrategy::OnlySecond,
        };
        options.max_length = Some(t.max_length);
        options.stride = t.stride;
        options.truncation_side = Some(side(t.direction.as_ref()));
    }
    if let Some(p) = inner.get_padding() {
        options.padding = match p.strategy {
            tk::PaddingStrategy::BatchLongest => PaddingStrategy::Longest,
            tk::PaddingStrategy::Fixed(length) => PaddingStrategy::Length(length),
        };
        options.padding_side = Some(side(p.direction.as_ref()));
        options.pad_to_multiple_of = p.pad_to_multiple_of;
        options.pad_token_id = Some(p.pad_id);
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r###"{
        "version": "1.0",
        "truncation": { "direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0 },
        "padding": { "strategy": { "Fixed": 6 }, "direction": "Left", "pad_to_multiple_of": null,
                     "pad_id": 3, "pad_type_id": 0, "pad_token": "<p>" },
        "added_tokens": [],
        "normalizer": { "type": "Lowercase" },
        "pre_tokenizer": { "type": "WhitespaceSplit" },
        "post_processor": null,
        "decoder": { "type": "WordPiece", "prefix": "##", "cleanup": false },
        "model": { "type": "WordPiece", "unk_token": "?", "continuing_subword_prefix": "##",
                   "max_input_chars_per_word": 10, "vocab": { "?": 0, "a": 1, "##b": 2, "<p>": 3 } }
    }"###;

    fn error(json: &str) -> String {
        match parse_tokenizer(json.as_bytes(), "t.json") {
            Ok(_) => "no error".into(),
            Err(e) => e.to_string(),
        }
    }

    #[test]
    fn the_settings_of_the_file_are_there_and_used_when_passed() -> Result<()> {
        let t = parse_tokenizer(GOOD.as_bytes(), "t.json")?;
        assert_eq!(t.encode("A AB x")?.ids, [1, 1, 2, 0]);
        assert_eq!(t.encode("a a a a a")?.len(), 5);
        let options = t.file_options();
        let e = t.encode_with("a a ab ab", &options)?;
        assert_eq!(e.ids, [3, 3, 1, 1, 1, 2]);
        assert_eq!(t.decode(&[1, 2, 1], false)?, "ab a");
        Ok(())
    }

    #[test]
    fn line_ends_and_the_mark_of_windows_change_nothing() -> Result<()> {
        let plain = parse_tokenizer(GOOD.as_bytes(), "t.json")?;
        let windows = format!("\u{feff}{}", GOOD.replace('\n', "\r\n"));
        let t = parse_tokenizer(windows.as_bytes(), "t.json")?;
        assert_eq!(t.to_json()?, plain.to_json()?);
        assert_eq!(t.encode("A AB x")?.ids, [1, 1, 2, 0]);
        Ok(())
    }

    #[test]
    fn what_is_written_reads_the_same() -> Result<()> {
        let t = parse_tokenizer(GOOD.as_bytes(), "t.json")?;
        let again = parse_tokenizer(t.to_json()?.as_bytes(), "t.json")?;
        assert_eq!(again.to_json()?, t.to_json()?);
        assert_eq!(again.file_options().max_length, Some(4));
        Ok(())
    }

    #[test]
    fn every_cut_of_a_file_is_an_error() {
        for end in 0..GOOD.len() - 1 {
            assert!(
                parse_tokenizer(&GOOD.as_bytes()[..end], "t.json").is_err(),
                "{end}"
            );
        }
    }

    #[test]
    fn errors_name_the_file_and_the_field() {
        for (from, to, names) in [
            ("\"Lowercase\"", "\"Lower\"", "field normalizer"),
            ("\"WhitespaceSplit\"", "\"Wh\"", "field pre_tokenizer"),
            ("\"cleanup\": false", "\"cleanup\": 7", "field decoder"),
            ("\"##b\": 2", "\"##b\": -2", "model.vocab"),
            ("\"##b\": 2", "\"##b\": 4000000000", "model.vocab"),
            (
                "\"max_length\": 4",
                "\"max_length\": -4",
                "field truncation",
            ),
            ("\"pad_id\": 3", "\"pad_id\": {}", "field padding"),
            ("[]", "[{}]", "field added_tokens"),
            ("\"1.0\"", "\"2.0\"", "version"),
            ("\"model\":", "\"modle\":", "field model"),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let e = error(&GOOD.replacen(from, to, 1));
            assert!(e.contains("t.json") && e.contains(names), "{from}: {e}");
        }
        assert!(error("[1]").contains("object"));
        assert!(error(&"[".repeat(100_000)).contains("JSON"));
    }

    #[test]
    fn any_byte_may_be_another() {
        let mut bytes = GOOD.as_bytes().to_vec();
        for at in 0..bytes.len() {
            let byte = bytes[at];
            for other in [b'0', b'"', b'{', 0xff] {
                bytes[at] = other;
                if let Ok(t) = parse_tokenizer(&bytes, "t.json") {
                    let _ = t.encode("a ab b \u{301} x");
                    let _ = t.decode(&[0, 1, 2, 3], false);
                    let _ = t.to_json();
                }
            }
            bytes[at] = byte;
        }
    }
}
