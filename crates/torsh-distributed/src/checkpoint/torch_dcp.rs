//! Checkpoints of `torch.distributed.checkpoint`: `.metadata` and `__0_0.distcp` files.
//!
//! The first is a pickle of objects, which are read as plain data by their classes' names; the others hold one archive of
//! `torch.save` after another.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value as Json, json};
use torsh_serialize::{Dict, LoadOptions, Readable, Value, pt};
use torsh_tensor::{Result, TorshError};

use super::index::{
    BLOCK, FORMAT, Index, Kind, PartIndex, PieceIndex, TensorIndex, VERSION, broken, is_plain,
};
use super::piece::within;
use super::read::Reader;
use super::tree::{self, TENSOR};

const METADATA: &str = ".metadata";

/// The modules whose objects `.metadata` holds.
const MODULES: [&str; 5] = [
    "torch.distributed.checkpoint.metadata",
    "torch.distributed.checkpoint.filesystem",
    "torch.distributed._shard.sharded_tensor.metadata",
    "pathlib",
    "pathlib._local",
];

pub(super) fn is_checkpoint(dir: &Path) -> bool {
    dir.join(METADATA).is_file()
}

/// Where an object of the checkpoint lies: by its name, and by its offset where it is a piece.
type Places = BTreeMap<(String, Option<Vec<usize>>), (String, u64, u64)>;

fn sizes(value: &Value) -> Option<Vec<usize>> {
    match value {
        Value::Size(dims) => Some(dims.clone()),
        Value::Tuple(items) | Value::List(items) => items
            .iter()
            .map(|v| usize::try_from(v.as_int().ok()?).ok())
            .collect(),
        _ => None,
    }
}

fn places(path: &Path, data: &Value) -> Result<Places> {
    let wrong = || {
        broken(
            path,
            "its storage data is of another form than PyTorch writes",
        )
    };
    let mut out = Places::new();
    // Objects as keys: a list of pairs.
    for pair in data.as_list()? {
        let (key, place) = (pair.get(0)?, pair.get(1)?);
        let name = key.get("fqn")?.as_str()?.to_string();
        let offset = match key.get("offset") {
            Ok(Value::None) | Err(_) => None,
            Ok(offset) => Some(sizes(offset).ok_or_else(wrong)?),
        };
        if let Ok(transforms) = place.get("transform_descriptors")
            && !transforms.is_none()
        {
            return Err(broken(
                path,
                format!("{name} is written with {transforms:?}, which is not read"),
            )
            .with_hint("save it without extensions of the storage writer"));
        }
        let number = |key: &str| -> Result<u64> {
            u64::try_from(place.get(key)?.as_int()?).map_err(|_| wrong())
        };
        let file = place.get("relative_path")?.as_str()?.to_string();
        if !is_plain(&file) {
            return Err(broken(
                path,
                format!("{name} is in {file:?}, which is no file of the folder"),
            ));
        }
        let place = (file, number("offset")?, number("length")?);
        out.insert((name, offset), place);
    }
    Ok(out)
}

/// What a name of `.metadata` is: a tensor or another object.
fn tensor(path: &Path, name: &str, about: &Value, places: &Places) -> Result<Option<TensorIndex>> {
    let wrong = || {
        broken(
            path,
            format!("{name} is of another form than PyTorch writes"),
        )
    };
    let Value::Dict(fields) = about else {
        return Ok(None);
    };
    let field = |key: &str| fields.get(key).ok_or_else(wrong);
    let shape = sizes(field("size")?).ok_or_else(wrong)?;
    // The properties are a tuple with the dtype first.
    let dtype = match field("properties")? {
        Value::Tuple(items) => match items.first() {
            Some(Value::DType(dtype)) => *dtype,
            _ => return Err(wrong()),
        },
        Value::Dict(d) => match d.get("dtype") {
            Some(Value::DType(dtype)) => *dtype,
            _ => return Err(wrong()),
        },
        _ => return Err(wrong()),
    };
    let mut pieces = Vec::new();
    for chunk in field("chunks")?.as_list()? {
        let offset = sizes(chunk.get("offsets")?).ok_or_else(wrong)?;
        let size = sizes(chunk.get("sizes")?).ok_or_else(wrong)?;
        if !within(&shape, &offset, &size) {
            return Err(wrong());
        }
        if size.contains(&0) {
            continue;
        }
        let place = places.get(&(name.to_string(), Some(offset.clone())));
        let place = place.or_else(|| places.get(&(name.to_string(), None)));
        let (file, start, bytes) = place.cloned().ok_or_else(|| {
            broken(
                path,
                format!("the part of {name} from {offset:?} on is in no file"),
            )
        })?;
        pieces.push(PieceIndex {
            file,
            offset,
            shape: size,
            start,
            bytes,
            crc32: Vec::new(),
            archive: true,
        });
    }
    Ok(Some(TensorIndex {
        dtype: dtype.name().to_string(),
        shape,
        pieces,
    }))
}

/// Says that an entry cannot be read.
fn left_out(path: &Path, name: &str, what: &str) {
    eprintln!(
        "torsh: {}: left out {name}, which is {what}",
        path.display()
    );
}

/// Reads `.metadata`, and the objects that are no tensors. What there is no value for, as tensors of float8 and objects of
/// classes of Python, is left out, and a line on the standard error names it.
#[track_caller]
pub(super) fn open(dir: &Path) -> Result<Reader> {
    let path = dir.join(METADATA);
    let options = LoadOptions::new().keep_foreign(true);
    let metadata = pt::load_records_with(&path, &MODULES, options)?;
    let places = places(&path, metadata.get("storage_data")?)?;
    let mut files = BTreeMap::new();
    for (file, ..) in places.values() {
        if !files.contains_key(file) {
            let at = dir.join(file);
            let about = std::fs::metadata(&at).map_err(|e| super::index::io_error(&at, e))?;
            files.insert(file.clone(), about.len());
        }
    }
    let mut index = Index {
        format: FORMAT.into(),
        version: VERSION,
        // How many ranks saved is not written down; each has files of its own.
        world_size: files
            .keys()
            .filter_map(|f| f.strip_prefix("__")?.split_once('_'))
            .map(|(rank, _)| rank.to_string())
            .collect::<std::collections::BTreeSet<_>>()
            .len()
            .max(1),
        folder: "data".into(),
        block: BLOCK,
        files,
        parts: Vec::new(),
        tensors: BTreeMap::new(),
    };
    let mut objects = Vec::new();
    for (name, about) in metadata.get("state_dict_metadata")?.as_dict()?.iter() {
        let name = name.as_str()?;
        // Of a dtype that tensors here lack: the others can be had.
        if let Some(foreign) = Readable::of(about)?.left_out.first() {
            left_out(&path, name, &foreign.what);
            continue;
        }
        match tensor(&path, name, about, &places)? {
            Some(tensor) => {
                index.tensors.insert(name.to_string(), tensor);
            }
            None => objects.push(name.to_string()),
        }
    }
    index.check().map_err(|why| broken(&path, why))?;
    // The files are in the folder itself.
    index.folder = ".".into();
    let mut reader = Reader::new(dir, index);
    let planner = metadata.get("planner_data").ok();
    let keys = |name: &str| -> Vec<Value> {
        let keys = planner.and_then(|p| p.as_dict().ok()?.get(name));
        match keys {
            Some(Value::Tuple(keys) | Value::List(keys)) if !keys.is_empty() => keys.clone(),
            _ => vec![Value::from(name)],
        }
    };
    let mut tree = Node::Dict(Vec::new());
    for name in reader.index.tensors.keys() {
        tree.insert(&keys(name), json!({ TENSOR: name }));
    }
    for name in objects {
        let place = places.get(&(name.clone(), None));
        let (file, start, bytes) = place
            .cloned()
            .ok_or_else(|| broken(&path, format!("{name} is in no file")))?;
        let piece = PieceIndex {
            file,
            offset: Vec::new(),
            shape: Vec::new(),
            start,
            bytes,
            crc32: Vec::new(),
            archive: true,
        };
        let value = reader.archive(&name, &piece)?;
        if let Some(foreign) = Readable::of(&value)?.left_out.first() {
            left_out(&path, &name, &foreign.what);
            continue;
        }
        let json = tree::encode(&value, &name, &mut |name, _| {
            Err(broken(
                &path,
                format!("{name} is a tensor within another object, which is not read"),
            ))
        })?;
        tree.insert(&keys(&name), json);
    }
    if let Node::Dict(entries) = tree {
        for (key, node) in entries {
            let state = node.json();
            let name = key
                .as_str()
                .map_or_else(|_| format!("{key:?}"), str::to_string);
            let plain = tree::decode(&state, &mut |_, name| {
                Err(TorshError::invalid("checkpoint::load", name.to_string()))
            });
            let is_plain = plain.is_ok_and(|v| tree::to_plain(&v).is_some());
            reader.index.parts.push(PartIndex {
                name,
                kind: if is_plain { Kind::Value } else { Kind::Shared },
                states: BTreeMap::from([(0, state)]),
            });
        }
    }
    Ok(reader)
}

/// The nested containers of a checkpoint, whose items `.metadata` has by their keys in each.
enum Node {
    Leaf(Json),
    Dict(Vec<(Value, Node)>),
}

impl Node {
    fn insert(&mut self, keys: &[Value], leaf: Json) {
        let ([key, rest @ ..], Node::Dict(entries)) = (keys, &mut *self) else {
            *self = Node::Leaf(leaf);
            return;
        };
        let at = entries.iter().position(|(k, _)| k == key);
        let at = at.unwrap_or_else(|| {
            entries.push((key.clone(), Node::Dict(Vec::new())));
            entries.len() - 1
        });
        entries[at].1.insert(rest, leaf);
    }

    fn json(self) -> Json {
        let entries = match self {
            Node::Leaf(json) => return json,
            Node::Dict(entries) => entries,
        };
        // A list is written by its numbers.
        let numbers: Option<Vec<usize>> = entries
            .iter()
            .map(|(key, _)| match key {
                Value::Int(i) => usize::try_from(*i).ok(),
                _ => None,
            })
            .collect();
        if let Some(numbers) = numbers
            && !numbers.is_empty()
        {
            let mut items: Vec<(usize, Json)> = numbers
                .into_iter()
                .zip(entries.into_iter().map(|(_, node)| node.json()))
                .collect();
            items.sort_by_key(|(i, _)| *i);
            return items.into_iter().map(|(_, json)| json).collect();
        }
        let entries = entries.into_iter().map(|(key, node)| {
            let key = match key {
                Value::Int(i) => json!(i),
                Value::Str(s) => json!(s),
                other => json!(format!("{other:?}")),
            };
            json!([key, node.json()])
        });
        json!({ "dict": entries.collect::<Vec<_>>() })
    }
}

/// Reads a checkpoint of `torch.distributed.checkpoint`: the nested dicts and lists that were saved, with whole tensors.
#[track_caller]
pub(super) fn read(dir: &Path) -> Result<Value> {
    let reader = open(dir)?;
    let mut out = Dict::new();
    for part in &reader.index.parts {
        if let Some(state) = part.states.values().next() {
            let value = tree::decode(state, &mut |_, name| reader.tensor(name, None))?;
            out.insert(part.name.as_str(), value)?;
        }
    }
    Ok(Value::Dict(out))
}
