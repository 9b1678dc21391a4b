//! Reading checkpoints: one file, a list of shards, or a folder with either.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use torsh_nn::StateDict;
use torsh_serialize::{Dict, LoadOptions, Value};
use torsh_tensor::{Device, Result, TorshError};

use crate::errors::{self, short};

const OP: &str = "load_state_dict";

/// The files that repositories and folders have their weights in, the best first.
pub(crate) const WEIGHTS: [&str; 4] = [
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
];

/// Where checkpoints have their tensors besides at the top.
const WRAPPERS: [&str; 6] = [
    "state_dict",
    "model_state_dict",
    "model",
    "module",
    "net",
    "params",
];

/// More than a list of shards has: a hundred bytes for each of half a million tensors.
const LARGEST_INDEX: u64 = 64 << 20;

/// How [`load_state_dict_with`] reads a checkpoint.
///
/// ```
/// use torsh_hub::LoadStateDict;
/// let options = LoadStateDict::new().key("ema.state_dict").strip_prefix("module.");
/// assert_eq!(options.key.as_deref(), Some("ema.state_dict"));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LoadStateDict {
    /// Where the tensors are in the file, keys separated by dots; else they are searched for.
    pub key: Option<String>,
    /// What names begin with that is left out, as the `module.` of `DataParallel`. Names without it stay as they are.
    pub strip_prefix: Option<String>,
    /// Where the tensors shall be (the CPU).
    pub map_location: Device,
    /// Whether tensors may lie in the mapped file (`true`).
    pub mmap: bool,
    /// Whether the checksums that `.pth` and `.npz` files have of their tensors are computed (`false`).
    pub verify: bool,
}

impl Default for LoadStateDict {
    fn default() -> Self {
        LoadStateDict {
            key: None,
            strip_prefix: None,
            map_location: Device::Cpu,
            mmap: true,
            verify: false,
        }
    }
}

impl LoadStateDict {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Where the tensors are in the file.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// What names begin with that is left out.
    #[must_use]
    pub fn strip_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.strip_prefix = Some(prefix.into());
        self
    }

    /// Where the tensors shall be.
    #[must_use]
    pub fn map_location(mut self, device: impl Into<Device>) -> Self {
        self.map_location = device.into();
        self
    }

    /// Whether tensors may lie in the mapped file.
    #[must_use]
    pub fn mmap(mut self, mmap: bool) -> Self {
        self.mmap = mmap;
        self
    }

    /// Whether checksums within files are computed.
    #[must_use]
    pub fn verify(mut self, verify: bool) -> Self {
        self.verify = verify;
        self
    }

    fn file(&self) -> LoadOptions {
        LoadOptions::new()
            .mmap(self.mmap)
            .verify(self.verify)
            .device(self.map_location)
    }
}

/// The tensors of a checkpoint by name.
///
/// * safetensors, PyTorch's `.pth` in both containers, `.npz`, and the tensors of TorchScript archives
/// * a list of shards, `*.index.json`, with the files that it names beside it
/// * a folder with `model.safetensors`, `pytorch_model.bin`, or a list of their shards
///
/// The tensors may be at the top, or under `state_dict`, `model_state_dict`, `model`, `module`, `net` or `params`, as
/// deep as two of these. Nothing else of the file is kept, and no code of it is run.
///
/// ```
/// use torsh_hub::load_state_dict;
/// use torsh_serialize::{Value, save};
/// use torsh_tensor::tensor;
///
/// # let path = std::env::temp_dir().join(format!("torsh-hub-checkpoint-{}.pth", std::process::id()));
/// let weights = Value::from([("fc.bias", Value::from(tensor![1.0, 2.0]))]);
/// save(&Value::from([("state_dict", weights), ("epoch", Value::from(90))]), &path)?;
/// assert_eq!(load_state_dict(&path)?["fc.bias"], tensor![1.0, 2.0]);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// * A file that cannot be read, is of none of these formats, is cut off or contradicts itself. The error names the
///   file, the place and the reason.
/// * A file without tensors by name; the error lists its keys.
/// * Shards that are missing, outside of the folder, or lack tensors that the list names.
#[track_caller]
pub fn load_state_dict(path: impl AsRef<Path>) -> Result<StateDict> {
    load_state_dict_with(path, LoadStateDict::default())
}

/// [`load_state_dict`] with options.
///
/// # Errors
/// As there, and where there is nothing under the key.
#[track_caller]
pub fn load_state_dict_with(path: impl AsRef<Path>, options: LoadStateDict) -> Result<StateDict> {
    let path = path.as_ref();
    let state = if path.is_dir() {
        load_state_dict_plain(&in_folder(path)?, &options)?
    } else {
        load_state_dict_plain(path, &options)?
    };
    Ok(match options.strip_prefix.as_deref() {
        None | Some("") => state,
        Some(prefix) => {
            let plain = |name: String| {
                name.strip_prefix(prefix)
                    .map(str::to_string)
                    .unwrap_or(name)
            };
            state
                .into_iter()
                .map(|(name, t)| (plain(name), t))
                .collect()
        }
    })
}

#[track_caller]
fn load_state_dict_plain(path: &Path, options: &LoadStateDict) -> Result<StateDict> {
    if path.extension().is_some_and(|e| e == "json") {
        return shards(path, options);
    }
    let value = torsh_serialize::load_with(path, options.file())?;
    tensors(&value, options.key.as_deref()).map_err(|e| named(path, e))
}

#[track_caller]
fn named(path: &Path, e: TorshError) -> TorshError {
    let hint = e.info().and_then(|i| i.hint.clone());
    let why = e
        .info()
        .map_or_else(|| e.to_string(), |i| i.message.clone());
    let error = TorshError::format(OP, format!("{}: {why}", path.display()));
    match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}

/// The file of a folder that has the weights.
#[track_caller]
pub(crate) fn in_folder(folder: &Path) -> Result<PathBuf> {
    let found = WEIGHTS
        .iter()
        .map(|name| folder.join(name))
        .find(|path| path.is_file());
    found.ok_or_else(|| {
        let why = format!("{} has none of {}", folder.display(), WEIGHTS.join(", "));
        errors::io(
            std::io::ErrorKind::NotFound,
            OP,
            why,
            "name the file itself",
        )
    })
}

/// The tensors of what a file holds.
#[track_caller]
pub(crate) fn tensors(value: &Value, key: Option<&str>) -> Result<StateDict> {
    if let Some(key) = key {
        let direct = value.get(key);
        let inner = match direct {
            Ok(inner) => inner,
            Err(_) => value.at(&key.split('.').collect::<Vec<_>>())?,
        };
        return StateDict::try_from(inner);
    }
    if let Ok(state) = StateDict::try_from(value)
        && !state.is_empty()
    {
        return Ok(state);
    }
    if let Some(state) = search(value, 2) {
        return Ok(state);
    }
    let why = match value {
        Value::Dict(dict) if dict.is_empty() => "it holds no tensors".to_string(),
        Value::Dict(dict) => format!("it holds no tensors by name; its keys are {}", keys(dict)),
        Value::Tensor(_) => "it holds one tensor without a name".to_string(),
        _ => "it holds no dict of tensors".to_string(),
    };
    Err(TorshError::format(OP, why).with_hint(
        "LoadStateDict::new().key(..) says where the tensors are, as `model.state_dict`; `torsh inspect FILE` shows what there is",
    ))
}

/// The first keys, for an error.
fn keys(dict: &Dict) -> String {
    const FEW: usize = 8;
    let shown = |key: &Value| match key {
        Value::Str(key) => short(key),
        key => short(&format!("{key:?}")),
    };
    let mut keys: Vec<String> = dict.keys().take(FEW).map(shown).collect();
    if dict.len() > FEW {
        keys.push(format!("and {} more", dict.len() - FEW));
    }
    keys.join(", ")
}

fn search(value: &Value, depth: usize) -> Option<StateDict> {
    WRAPPERS.iter().find_map(|key| {
        let inner = value.get(*key).ok()?;
        let state = StateDict::try_from(inner)
            .ok()
            .filter(|state| !state.is_empty());
        state.or_else(|| (depth > 1).then(|| search(inner, depth - 1))?)
    })
}

/// A list of shards: which file has which tensor.
#[derive(Deserialize)]
pub(crate) struct Index {
    pub(crate) weight_map: BTreeMap<String, String>,
}

impl Index {
    #[track_caller]
    pub(crate) fn read(path: &Path) -> Result<Index> {
        let failed = |e| errors::at(OP, path, e);
        let broken = |why: &dyn std::fmt::Display| {
            TorshError::format(
                OP,
                format!(
                    "{} is no list of shards: {}",
                    path.display(),
                    short(&why.to_string())
                ),
            )
            .with_hint(
                "a list is JSON with a `weight_map` from names of tensors to files beside it",
            )
        };
        let file = File::open(path).map_err(failed)?;
        let mut text = Vec::new();
        file.take(LARGEST_INDEX + 1)
            .read_to_end(&mut text)
            .map_err(failed)?;
        if text.len() as u64 > LARGEST_INDEX {
            return Err(broken(&"it is larger than any list"));
        }
        let index: Index = serde_json::from_slice(&text).map_err(|e| broken(&e))?;
        if index.weight_map.is_empty() {
            return Err(broken(&"its weight_map is empty"));
        }
        if let Some(file) = index.files().iter().find(|file| !is_inner(file)) {
            return Err(broken(&format!(
                "`{}` is no file of its folder",
                short(file)
            )));
        }
        Ok(index)
    }

    /// The files, each once.
    pub(crate) fn files(&self) -> Vec<&str> {
        let mut files: Vec<&str> = self.weight_map.values().map(String::as_str).collect();
        files.sort_unstable();
        files.dedup();
        files
    }
}

/// Whether a path stays in the folder that it is below.
pub(crate) fn is_inner(path: &str) -> bool {
    let plain = |part: &str| {
        !part.is_empty() && part != "." && part != ".." && !part.contains(['\\', '\0', ':'])
    };
    path.len() <= 1024 && path.split('/').all(plain) && !path.chars().any(char::is_control)
}

#[track_caller]
fn shards(path: &Path, options: &LoadStateDict) -> Result<StateDict> {
    let index = Index::read(path)?;
    let mut state = StateDict::new();
    for file in index.files() {
        let shard = path.with_file_name("").join(file);
        // A list within a list would not end.
        if file.ends_with(".json") {
            return Err(TorshError::format(
                OP,
                format!("{}: the shard {file} is a list itself", path.display()),
            ));
        }
        let loaded = load_state_dict_plain(&shard, options).map_err(|e| match e {
            TorshError::Io(e) if e.kind() == std::io::ErrorKind::NotFound => {
                let why = format!(
                    "{} names the shard {file}, which is not there",
                    path.display()
                );
                errors::io(
                    e.kind(),
                    OP,
                    why,
                    "copy all files that the list names into its folder",
                )
            }
            e => e,
        })?;
        for (name, tensor) in loaded {
            if index.weight_map.get(&name).is_some_and(|of| of != file) || state.contains_key(&name)
            {
                let why = format!(
                    "{}: the tensor {} is in two shards",
                    path.display(),
                    short(&name)
                );
                return Err(TorshError::format(OP, why));
            }
            state.insert(name, tensor);
        }
    }
    match index
        .weight_map
        .iter()
        .find(|(name, _)| !state.contains_key(name))
    {
        None => Ok(state),
        Some((name, file)) => {
            let why = format!(
                "{} says that {} is in {file}, which lacks it",
                path.display(),
                short(name)
            );
            Err(TorshError::format(OP, why)
                .with_hint("list and shards are of different checkpoints"))
        }
    }
}
