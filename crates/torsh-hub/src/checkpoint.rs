//! Reading checkpoints: one file, a list of shards, or a folder with either.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use torsh_nn::StateDict;
use torsh_serialize::{Dict, LeftOut, LoadOptions, Readable, Value};
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
    /// Whether tensors may lie in the mapped file (`true`, on Windows `false`).
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
            mmap: LoadOptions::default().mmap,
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

    /// Whether tensors may lie in the mapped file: see [`LoadOptions::mmap`].
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
            .keep_foreign(true)
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
/// * A tensor of a dtype that tensors here lack, or an object of a class of Python among the tensors;
///   [`load_readable_state_dict`] leaves them out.
#[track_caller]
pub fn load_state_dict(path: impl AsRef<Path>) -> Result<StateDict> {
    load_state_dict_with(path, LoadStateDict::default())
}

/// [`load_state_dict`] with options, which say where in the file the tensors are and where they go.
///
/// ```
/// use torsh_hub::{LoadStateDict, load_state_dict_with};
/// use torsh_serialize::{Value, save};
/// use torsh_tensor::tensor;
///
/// # let path = std::env::temp_dir().join(format!("torsh-hub-options-{}.pth", std::process::id()));
/// let weights = |v: f64| Value::from([("module.bias", Value::from(tensor![v]))]);
/// save(&Value::from([("model", weights(1.0)), ("ema", weights(2.0))]), &path)?;
/// let options = LoadStateDict::new().key("ema").strip_prefix("module.");
/// assert_eq!(load_state_dict_with(&path, options)?["bias"], tensor![2.0]);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As there, and where there is nothing under the key.
#[torsh_tensor::names_caller]
pub fn load_state_dict_with(path: impl AsRef<Path>, options: LoadStateDict) -> Result<StateDict> {
    read(path.as_ref(), &options, false).map(|(state, _)| state)
}

/// [`load_state_dict_with`] of the tensors that can be read, with a list of what was left out and why.
///
/// A tensor of float8, or an object of a class of Python beside the tensors, is left out, where [`load_state_dict`] refuses
/// the file. Where the file has no dict of nothing but tensors, all its tensors are taken, under keys joined by dots.
///
/// ```
/// use torsh_hub::{LoadStateDict, load_readable_state_dict};
/// use torsh_serialize::{Value, save};
/// use torsh_tensor::tensor;
///
/// # let path = std::env::temp_dir().join(format!("torsh-hub-readable-{}.pth", std::process::id()));
/// save(&Value::from([("bias", Value::from(tensor![1.0])), ("epoch", Value::from(90))]), &path)?;
/// let (state, left_out) = load_readable_state_dict(&path, LoadStateDict::new())?;
/// assert_eq!(state["bias"], tensor![1.0]);
/// assert!(left_out.is_empty());
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`load_state_dict`], but for entries that cannot be read.
#[torsh_tensor::names_caller]
pub fn load_readable_state_dict(
    path: impl AsRef<Path>,
    options: LoadStateDict,
) -> Result<(StateDict, Vec<LeftOut>)> {
    read(path.as_ref(), &options, true)
}

type Tensors = (StateDict, Vec<LeftOut>);

#[track_caller]
fn read(path: &Path, options: &LoadStateDict, readable: bool) -> Result<Tensors> {
    let (state, left_out) = match path.is_dir() {
        true => plain(&in_folder(path)?, options, readable)?,
        false => plain(path, options, readable)?,
    };
    let Some(prefix) = options.strip_prefix.as_deref().filter(|p| !p.is_empty()) else {
        return Ok((state, left_out));
    };
    let stripped = |name: String| {
        name.strip_prefix(prefix)
            .map(str::to_string)
            .unwrap_or(name)
    };
    let state = state
        .into_iter()
        .map(|(name, t)| (stripped(name), t))
        .collect();
    Ok((state, left_out))
}

#[track_caller]
fn plain(path: &Path, options: &LoadStateDict, readable: bool) -> Result<Tensors> {
    if path.extension().is_some_and(|e| e == "json") {
        return shards(path, options, readable);
    }
    let value = torsh_serialize::load_with(path, options.file())?;
    let key = options.key.as_deref();
    let read = match readable {
        true => readable_tensors(&value, key),
        false => tensors(&value, key).map(|state| (state, Vec::new())),
    };
    read.map_err(|e| named(path, e))
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

/// What is under a key.
#[track_caller]
fn under<'a>(value: &'a Value, key: &str) -> Result<&'a Value> {
    match value.get(key) {
        Ok(inner) => Ok(inner),
        Err(_) => value.at(&key.split('.').collect::<Vec<_>>()),
    }
}

/// The tensors of what a file holds.
#[track_caller]
pub(crate) fn tensors(value: &Value, key: Option<&str>) -> Result<StateDict> {
    if let Some(key) = key {
        return StateDict::try_from(under(value, key)?);
    }
    if let Some(found) = search(value, 2) {
        // An error where one of them cannot be read.
        return StateDict::try_from(found);
    }
    let why = match value {
        Value::Dict(dict) if dict.is_empty() => "it holds no tensors".to_string(),
        Value::Dict(dict) => format!("it holds no tensors by name; its keys are {}", keys(dict)),
        Value::Tensor(_) => "it holds one tensor without a name".to_string(),
        Value::Foreign(foreign) => format!("it holds {}: {}", foreign.what(), foreign.why()),
        _ => "it holds no dict of tensors".to_string(),
    };
    let foreign = match value {
        Value::Dict(dict) => dict.iter().find_map(|(key, value)| match value {
            Value::Foreign(foreign) => Some(format!("; {} is {}", shown(key), foreign.what())),
            _ => None,
        }),
        _ => None,
    };
    Err(TorshError::format(OP, why + &foreign.unwrap_or_default()).with_hint(
        "LoadStateDict::new().key(..) says where the tensors are, as `model.state_dict`; `torsh inspect FILE` shows what there is, and load_readable_state_dict gives all tensors that there are",
    ))
}

/// The tensors of what a file holds that can be read, and what else stands among them.
#[track_caller]
fn readable_tensors(value: &Value, key: Option<&str>) -> Result<Tensors> {
    let chosen = match key {
        Some(key) => under(value, key)?,
        None => search(value, 2).unwrap_or(value),
    };
    let all = Readable::of(chosen)?;
    if all.tensors.is_empty() && all.left_out.is_empty() {
        // Says what there is.
        return tensors(value, key).map(|state| (state, Vec::new()));
    }
    Ok((all.tensors.into_iter().collect(), all.left_out))
}

fn shown(key: &Value) -> String {
    match key {
        Value::Str(key) => short(key),
        key => short(&format!("{key:?}")),
    }
}

/// The first keys, for an error.
fn keys(dict: &Dict) -> String {
    const FEW: usize = 8;
    let mut keys: Vec<String> = dict.keys().take(FEW).map(shown).collect();
    if dict.len() > FEW {
        keys.push(format!("and {} more", dict.len() - FEW));
    }
    keys.join(", ")
}

/// The first dict of nothing but tensors by name: the value itself, or below one of the usual keys. Tensors that cannot be
/// read are among them.
fn search(value: &Value, depth: usize) -> Option<&Value> {
    if let Value::Dict(dict) = value {
        let is_tensor = |v: &Value| matches!(v, Value::Tensor(_) | Value::Parameter(_));
        let named = |(key, value): (&Value, &Value)| {
            matches!(key, Value::Str(_)) && (is_tensor(value) || matches!(value, Value::Foreign(_)))
        };
        if dict.iter().all(named) && dict.values().any(is_tensor) {
            return Some(value);
        }
    }
    WRAPPERS.iter().find_map(|key| {
        let inner = value.get(*key).ok()?;
        (depth > 0).then(|| search(inner, depth - 1))?
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
        let mut file = File::open(path).map_err(failed)?;
        torsh_core::check_git_lfs_file(OP, path.display(), &mut file)?;
        let mut text = Vec::new();
        file.take(LARGEST_INDEX + 1)
            .read_to_end(&mut text)
            .map_err(failed)?;
        if text.len() as u64 > LARGEST_INDEX {
            return Err(broken(&"it is larger than any list"));
        }
        let index: Index =
            serde_json::from_slice(torsh_core::without_bom(&text)).map_err(|e| broken(&e))?;
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
        !part.is_empty()
            && part != "."
            && part != ".."
            && !part.contains(['\\', '\0', ':'])
            && (cfg!(not(windows)) || torsh_serialize::files::is_windows_name(part))
    };
    path.len() <= 1024 && path.split('/').all(plain) && !path.chars().any(char::is_control)
}

#[track_caller]
fn shards(path: &Path, options: &LoadStateDict, readable: bool) -> Result<Tensors> {
    let index = Index::read(path)?;
    let mut state = StateDict::new();
    let mut left_out: Vec<LeftOut> = Vec::new();
    for file in index.files() {
        let shard = path.with_file_name("").join(file);
        // A list within a list would not end.
        if file.ends_with(".json") {
            return Err(TorshError::format(
                OP,
                format!("{}: the shard {file} is a list itself", path.display()),
            ));
        }
        let (loaded, left) = plain(&shard, options, readable).map_err(|e| match e {
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
        left_out.extend(left);
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
        .find(|(name, _)| !state.contains_key(name) && !left_out.iter().any(|l| l.name == **name))
    {
        None => Ok((state, left_out)),
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
