//! Tokens of difficult texts.

use serde_json::Value as Json;
use torsh_text::tokenizers::{EncodeOptions, Encoding, PaddingStrategy, Tokenizer};

use super::{Options, Report, tell};
use crate::panics::catch;
use crate::section::{Problems, field, text};
use crate::source::Source;

/// The id that pads where a tokenizer has no token for it.
const PAD: u32 = 0;

/// Runs the cases.
///
/// # Errors
/// If the files cannot be read.
pub fn run(source: &Source, options: &Options) -> Result<Report, String> {
    let bytes = super::read(source, "tokenizers.json")?;
    let all: Json = serde_json::from_slice(&bytes).map_err(|e| format!("tokenizers.json: {e}"))?;
    let mut report = Report::default();
    let all = all.as_object().ok_or("tokenizers.json is no object")?;
    for (i, (kind, json)) in all.iter().enumerate() {
        if !options.takes(i, kind) {
            continue;
        }
        let file = field(json, "file")?.as_str().ok_or("file is no text")?;
        let bytes = super::read(source, file)?;
        let tokenizer = match catch(|| Tokenizer::from_bytes(&bytes).map_err(text)).flatten() {
            Ok(tokenizer) => tokenizer,
            Err(e) => {
                tell(&mut report, options, format!("{kind} {file}"), Err(e));
                continue;
            }
        };
        let cases = field(json, "cases")?;
        let cases = cases.as_array().ok_or("cases are no list")?;
        let mut run = |name: String, check: &dyn Fn() -> Result<(), String>| {
            let name = format!("{kind} {name}");
            tell(&mut report, options, name, catch(check).flatten());
        };
        for (i, case) in cases.iter().enumerate() {
            run(format!("text {i}"), &|| one(&tokenizer, case));
        }
        let pair_case = field(json, "pair")?;
        run("pair".into(), &|| pair(&tokenizer, pair_case));
        let padded_case = field(json, "padded_truncated")?;
        run("padded and truncated".into(), &|| {
            padded(&tokenizer, padded_case)
        });
    }
    Ok(report)
}

fn string<'a>(json: &'a Json, name: &str) -> Result<&'a str, String> {
    let value = field(json, name)?.as_str();
    value.ok_or_else(|| format!("{name} is no text"))
}

/// What was computed must be equal to a field.
fn equal<T: serde::Serialize>(
    name: &str,
    ours: T,
    expected: &Json,
    problems: &mut Problems,
) -> Result<(), String> {
    let ours = serde_json::to_value(ours).map_err(|e| e.to_string())?;
    if ours != *expected {
        problems.add(format!("{name} {ours}, not {expected}"));
    }
    Ok(())
}

/// A text alone, and its tokens as a text again.
fn one(tokenizer: &Tokenizer, case: &Json) -> Result<(), String> {
    let input = string(case, "text")?;
    let encoding = tokenizer.encode(input).map_err(text)?;
    let mut problems = Problems::default();
    equal("ids", &encoding.ids, field(case, "ids")?, &mut problems)?;
    equal(
        "tokens",
        &encoding.tokens,
        field(case, "tokens")?,
        &mut problems,
    )?;
    equal(
        "offsets",
        &encoding.offsets,
        field(case, "offsets")?,
        &mut problems,
    )?;
    let decoded = tokenizer.decode(&encoding.ids, true).map_err(text)?;
    equal("decoded", decoded, field(case, "decoded")?, &mut problems)?;
    problems.result().map_err(|e| format!("{input:?}: {e}"))
}

fn pair(tokenizer: &Tokenizer, case: &Json) -> Result<(), String> {
    let (a, b) = (string(case, "a")?, string(case, "b")?);
    let encoding = tokenizer.encode_pair(a, b).map_err(text)?;
    let mut problems = Problems::default();
    equal("ids", &encoding.ids, field(case, "ids")?, &mut problems)?;
    equal(
        "type_ids",
        &encoding.type_ids,
        field(case, "type_ids")?,
        &mut problems,
    )?;
    problems.result()
}

/// A batch that is cut, with the parts that were cut off, and then padded.
fn padded(tokenizer: &Tokenizer, case: &Json) -> Result<(), String> {
    let texts = field(case, "texts")?.as_array();
    let texts = texts.ok_or("texts are no list")?.iter();
    let texts: Option<Vec<&str>> = texts.map(Json::as_str).collect();
    let texts = texts.ok_or("texts are no list of texts")?;
    let size = |json: &Json, name: &str| -> Result<usize, String> {
        let value = field(json, name)?.as_u64();
        Ok(value.ok_or_else(|| format!("{name} is no size"))? as usize)
    };
    let truncation = field(case, "truncation")?;
    let length = size(field(case, "padding")?, "length")?;
    let options = EncodeOptions::new()
        .truncation(true)
        .max_length(size(truncation, "max_length")?)
        .stride(size(truncation, "stride")?)
        .return_overflowing_tokens(true)
        .padding(PaddingStrategy::Length(length))
        .pad_token_id(PAD);
    let batch = tokenizer.encode_batch(&texts, &options).map_err(text)?;
    let ids: Vec<&Vec<u32>> = batch.iter().map(|e| &e.ids).collect();
    let masks: Vec<&Vec<u32>> = batch.iter().map(|e| &e.attention_mask).collect();
    let rest = |e: &Encoding| -> Vec<Vec<u32>> {
        e.overflowing.iter().map(|part| part.ids.clone()).collect()
    };
    let rest: Vec<Vec<Vec<u32>>> = batch.iter().map(rest).collect();
    let mut problems = Problems::default();
    equal("ids", ids, field(case, "ids")?, &mut problems)?;
    equal(
        "attention_mask",
        masks,
        field(case, "attention_mask")?,
        &mut problems,
    )?;
    equal(
        "overflowing",
        rest,
        field(case, "overflowing")?,
        &mut problems,
    )?;
    problems.result()
}
