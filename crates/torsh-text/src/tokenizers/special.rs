//! Special tokens by their use.

use serde_json::{Map, Value};
use tokenizers as tk;

/// The special tokens of a tokenizer by their use, as `special_tokens_map.json` has them.
///
/// ```
/// use torsh_text::tokenizers::{Tokenizer, TokenizerModel, TrainOptions};
/// let options = TrainOptions::new(TokenizerModel::WordPiece).vocab_size(40);
/// let tokenizer = Tokenizer::train(["a b"], &options)?;
/// assert_eq!(tokenizer.special_tokens().mask.as_deref(), Some("[MASK]"));
/// assert_eq!(tokenizer.mask_token_id(), Some(4));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpecialTokens {
    /// At the beginning of a text.
    pub bos: Option<String>,
    /// At the end of a text.
    pub eos: Option<String>,
    /// For what is not in the vocabulary.
    pub unk: Option<String>,
    /// Between two texts.
    pub sep: Option<String>,
    /// Fills short texts of a batch.
    pub pad: Option<String>,
    /// Stands for the whole text.
    pub cls: Option<String>,
    /// Hides another token.
    pub mask: Option<String>,
    /// Others that decoding leaves out.
    pub additional: Vec<String>,
}

/// The names of the fields, and what such tokens are usually called.
const USES: [(&str, &[&str]); 7] = [
    (
        "bos_token",
        &["<s>", "<bos>", "<|begin_of_text|>", "<|startoftext|>"],
    ),
    (
        "eos_token",
        &["</s>", "<eos>", "<|end_of_text|>", "<|endoftext|>"],
    ),
    ("unk_token", &["[UNK]", "<unk>"]),
    ("sep_token", &["[SEP]"]),
    ("pad_token", &["[PAD]", "<pad>", "<|pad|>"]),
    ("cls_token", &["[CLS]"]),
    ("mask_token", &["[MASK]", "<mask>"]),
];

impl SpecialTokens {
    /// Gives the tokens by the names of `special_tokens_map.json`: `bos_token`, `eos_token`, `unk_token`, `sep_token`,
    /// `pad_token`, `cls_token`, `mask_token`; those that there are.
    ///
    /// ```
    /// use torsh_text::tokenizers::{Tokenizer, TokenizerModel, TrainOptions};
    /// let options = TrainOptions::new(TokenizerModel::WordLevel);
    /// let tokenizer = Tokenizer::train(["a b"], &options)?;
    /// let named: Vec<_> = tokenizer.special_tokens().named().collect();
    /// assert_eq!(named, [("unk_token", "[UNK]"), ("pad_token", "[PAD]")]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn named(&self) -> impl Iterator<Item = (&'static str, &str)> {
        USES.iter()
            .filter_map(|(name, _)| Some((*name, self.get(name)?)))
    }

    /// Gives the token of a use, by the name of its field in `special_tokens_map.json`.
    ///
    /// ```
    /// use torsh_text::tokenizers::{Tokenizer, TrainOptions};
    /// let tokenizer = Tokenizer::train(["a b"], &TrainOptions::default())?;
    /// let special = tokenizer.special_tokens();
    /// assert_eq!((special.get("sep_token"), special.get("bos_token")), (Some("[SEP]"), None));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn get(&self, name: &str) -> Option<&str> {
        match name {
            "bos_token" => self.bos.as_deref(),
            "eos_token" => self.eos.as_deref(),
            "unk_token" => self.unk.as_deref(),
            "sep_token" => self.sep.as_deref(),
            "pad_token" => self.pad.as_deref(),
            "cls_token" => self.cls.as_deref(),
            "mask_token" => self.mask.as_deref(),
            _ => None,
        }
    }

    pub(super) fn field(&mut self, name: &str) -> Option<&mut Option<String>> {
        Some(match name {
            "bos_token" => &mut self.bos,
            "eos_token" => &mut self.eos,
            "unk_token" => &mut self.unk,
            "sep_token" => &mut self.sep,
            "pad_token" => &mut self.pad,
            "cls_token" => &mut self.cls,
            "mask_token" => &mut self.mask,
            _ => return None,
        })
    }

    /// Those among the special tokens of a tokenizer that have one of the usual names.
    pub(super) fn guess(inner: &tk::Tokenizer) -> SpecialTokens {
        let added = inner.get_added_vocabulary();
        let mut found = SpecialTokens::default();
        for (name, usual) in USES {
            let known = usual.iter().find(|token| added.is_special_token(token));
            if let Some(field) = found.field(name) {
                *field = known.map(|token| token.to_string());
            }
        }
        found
    }

    /// The tokens that a file with such fields names, in the order of the fields, with how texts are cut at them.
    pub(super) fn read(
        &mut self,
        fields: &Map<String, Value>,
    ) -> Result<Vec<tk::AddedToken>, String> {
        let mut tokens = Vec::new();
        for (name, _) in USES {
            let Some(value) = fields.get(name) else {
                continue;
            };
            let token = match value {
                Value::Null => None,
                value => {
                    Some(added_token(value, true).map_err(|why| format!("field {name}: {why}"))?)
                }
            };
            if let Some(field) = self.field(name) {
                *field = token.as_ref().map(|t| t.content.clone());
            }
            tokens.extend(token);
        }
        for name in ["additional_special_tokens", "extra_special_tokens"] {
            let all: Vec<&Value> = match fields.get(name) {
                None | Some(Value::Null) => continue,
                Some(Value::Array(all)) => all.iter().collect(),
                Some(Value::Object(all)) => all.values().collect(),
                Some(_) => return Err(format!("field {name}: it is no list of tokens")),
            };
            for (i, value) in all.into_iter().enumerate() {
                let token = added_token(value, true);
                let token = token.map_err(|why| format!("field {name}[{i}]: {why}"))?;
                if !self.additional.contains(&token.content) {
                    self.additional.push(token.content.clone());
                }
                tokens.push(token);
            }
        }
        Ok(tokens)
    }

    /// What `special_tokens_map.json` holds.
    pub(super) fn to_json(&self) -> Map<String, Value> {
        let mut fields = Map::new();
        for (name, token) in self.named() {
            fields.insert(name.into(), token.into());
        }
        if !self.additional.is_empty() {
            let all = self.additional.iter().map(|t| Value::from(&**t)).collect();
            fields.insert("additional_special_tokens".into(), Value::Array(all));
        }
        fields
    }
}

/// A token as JSON: its text, or an object with what is special about it.
pub(super) fn added_token(value: &Value, special: bool) -> Result<tk::AddedToken, String> {
    match value {
        Value::String(content) => Ok(tk::AddedToken::from(content.clone(), special)),
        Value::Object(fields) => {
            let content = fields.get("content").and_then(Value::as_str);
            let content = content.ok_or("the content is missing")?;
            let flag = |name: &str, default: bool| match fields.get(name) {
                None | Some(Value::Null) => Ok(default),
                Some(Value::Bool(value)) => Ok(*value),
                Some(value) => Err(format!("{name} is {value}, not true or false")),
            };
            let special = flag("special", special)?;
            Ok(tk::AddedToken::from(content, special)
                .single_word(flag("single_word", false)?)
                .lstrip(flag("lstrip", false)?)
                .rstrip(flag("rstrip", false)?)
                .normalized(flag("normalized", !special)?))
        }
        _ => Err(format!("it is {value}, not a token")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tokens_are_texts_or_objects() -> Result<(), String> {
        let fields = json!({
            "bos_token": "<s>",
            "mask_token": { "content": "<mask>", "lstrip": true, "normalized": false },
            "pad_token": null,
            "additional_special_tokens": ["<a>", "<b>", "<a>"]
        });
        let fields = fields.as_object().cloned().unwrap_or_default();
        let mut special = SpecialTokens::default();
        let tokens = special.read(&fields)?;
        let names: Vec<_> = tokens.iter().map(|t| &*t.content).collect();
        assert_eq!(names, ["<s>", "<mask>", "<a>", "<b>", "<a>"]);
        assert!(tokens[1].lstrip && tokens[1].special && !tokens[1].normalized);
        let named: Vec<_> = special.named().collect();
        assert_eq!(named, [("bos_token", "<s>"), ("mask_token", "<mask>")]);
        assert_eq!(special.additional, ["<a>", "<b>"]);
        let mut again = SpecialTokens::default();
        again.read(&special.to_json())?;
        assert_eq!(again, special);
        let wrong = json!({ "eos_token": 7 })
            .as_object()
            .cloned()
            .unwrap_or_default();
        assert!(special.read(&wrong).is_err_and(|e| e.contains("eos_token")));
        Ok(())
    }
}
