//! What a recipe gets.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use torsh_serialize::Value;
use torsh_tensor::{Tensor, TorshError};
use torsh_vision::io::{ImageReadMode, ReadOptions, read_image_with};

use super::near::Near;

/// The parts of a model's reference by name, and how much of the tolerance each took or why it failed.
pub(super) type Results = Vec<(String, Result<f64, String>)>;

pub(super) fn text(e: TorshError) -> String {
    e.to_string()
}

/// One model's reference, and where its files are.
pub(super) struct Case<'a> {
    /// Has the pictures and the recording.
    pub directory: &'a Path,
    pub weights: &'a Path,
    /// What `reference.json` says of the model.
    pub want: &'a Json,
}

impl Case<'_> {
    /// A comparison with the model's tolerance.
    pub(super) fn near(&self) -> Result<Near, String> {
        number(self.want, "tolerance").map(Near::new)
    }

    /// The path of a file of weights.
    pub(super) fn path(&self, file: &str) -> PathBuf {
        self.weights.join(file)
    }

    /// What a file of weights holds.
    pub(super) fn load(&self, file: &str) -> Result<Value, String> {
        torsh_serialize::load(self.path(file)).map_err(text)
    }

    /// A picture beside the reference, uint8 `[channels, height, width]`.
    pub(super) fn picture(&self, name: &str, mode: ImageReadMode) -> Result<Tensor, String> {
        let options = ReadOptions::new().mode(mode);
        read_image_with(self.directory.join(name), options).map_err(text)
    }
}

/// A field that must be there.
pub(super) fn field<'a>(json: &'a Json, name: &str) -> Result<&'a Json, String> {
    json.get(name)
        .ok_or_else(|| format!("the reference has no {name}"))
}

pub(super) fn number(json: &Json, name: &str) -> Result<f64, String> {
    let value = field(json, name)?.as_f64();
    value.ok_or_else(|| format!("{name} of the reference is no number"))
}

pub(super) fn string<'a>(json: &'a Json, name: &str) -> Result<&'a str, String> {
    let value = field(json, name)?.as_str();
    value.ok_or_else(|| format!("{name} of the reference is no text"))
}

pub(super) fn list<'a>(json: &'a Json, name: &str) -> Result<&'a Vec<Json>, String> {
    let value = field(json, name)?.as_array();
    value.ok_or_else(|| format!("{name} of the reference is no list"))
}

pub(super) fn object<'a>(
    json: &'a Json,
    name: &str,
) -> Result<&'a serde_json::Map<String, Json>, String> {
    let value = field(json, name)?.as_object();
    value.ok_or_else(|| format!("{name} of the reference is no object"))
}

/// A list of numbers.
pub(super) fn numbers(json: &Json, name: &str) -> Result<Vec<f64>, String> {
    let values: Option<Vec<f64>> = list(json, name)?.iter().map(Json::as_f64).collect();
    values.ok_or_else(|| format!("{name} of the reference has something that is no number"))
}

/// A list of whole numbers of at least 0.
pub(super) fn counts(json: &Json, name: &str) -> Result<Vec<usize>, String> {
    let whole = |v: &Json| v.as_u64().map(|v| v as usize);
    let values: Option<Vec<usize>> = list(json, name)?.iter().map(whole).collect();
    values.ok_or_else(|| format!("{name} of the reference has something that is no whole number"))
}

/// A list of texts.
pub(super) fn strings<'a>(json: &'a Json, name: &str) -> Result<Vec<&'a str>, String> {
    let values: Option<Vec<&str>> = list(json, name)?.iter().map(Json::as_str).collect();
    values.ok_or_else(|| format!("{name} of the reference has something that is no text"))
}

/// An error unless two things are equal.
pub(super) fn equal<T: PartialEq<U> + std::fmt::Debug, U: std::fmt::Debug>(
    what: &str,
    got: T,
    want: U,
) -> Result<(), String> {
    match got == want {
        true => Ok(()),
        false => Err(format!("{what} is {got:?}, expected {want:?}")),
    }
}
