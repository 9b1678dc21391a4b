//! The container that `torch.save` wrote before PyTorch 1.6, and still writes when asked
//! (`_use_new_zipfile_serialization=False`): five pickles, then the storages.

use std::collections::HashMap;

use torsh_tensor::{Result, TorshError};

use super::unpickle::{CUT, Input, Node, unpickle};
use super::{build, refused};
use crate::Value;
use crate::source::Source;

/// The pickle of the magic number, behind its protocol.
pub(super) const MAGIC: [u8; 13] = *b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";

/// More than any pickle of tensors' names and shapes takes.
const MAX_PICKLES: u64 = 1 << 30;

#[track_caller]
pub(crate) fn read(source: &mut Source) -> Result<Value> {
    // Where the pickles end is known when they were run: a part is tried, then all that may be.
    let mut part = 1 << 20;
    loop {
        let bytes = source.range(0..source.len.min(part))?;
        let all = bytes.len() as u64 == source.len.min(MAX_PICKLES);
        match pickles(source, &bytes) {
            Ok((object, keys, end)) => return storages(source, object, &keys, end),
            Err(e) if all || !e.to_string().contains(CUT) => return Err(e),
            Err(_) => part = (part * 16).min(MAX_PICKLES),
        }
    }
}

type Pickles = (super::unpickle::Object, Vec<String>, u64);

#[track_caller]
fn pickles(source: &Source, bytes: &[u8]) -> Result<Pickles> {
    let mut input = Input::new(bytes);
    let mut next = || unpickle(&mut input, source.keep_foreign).map_err(|why| refused(source, why));
    let magic = next()?;
    if !matches!(&magic.nodes[magic.root], Node::Big(_)) {
        return Err(source.broken("this is no file of torch.save: its magic number is another"));
    }
    let version = next()?;
    match &version.nodes[version.root] {
        Node::Int(1001) => {}
        other => {
            return Err(source.broken(format!(
                "version 1001 of PyTorch's old container can be read, this one is {other:?}"
            )));
        }
    }
    // How the writing machine laid out its integers; the storages are little-endian always.
    next()?;
    let object = next()?;
    let keys = next()?;
    let Node::List(items) = &keys.nodes[keys.root] else {
        return Err(source.broken("the list of storages is missing"));
    };
    let keys = items
        .iter()
        .map(|&id| match &keys.nodes[id] {
            Node::Str(key) => Ok(key.clone()),
            Node::Int(key) => Ok(key.to_string()),
            _ => Err(source.broken("a key of a storage is no text")),
        })
        .collect::<Result<Vec<_>>>()?;
    Ok((object, keys, input.at as u64))
}

/// Each storage is its number of elements and then these.
#[track_caller]
fn storages(
    source: &mut Source,
    object: super::unpickle::Object,
    keys: &[String],
    mut at: u64,
) -> Result<Value> {
    let named: HashMap<&str, usize> = object
        .storages
        .iter()
        .enumerate()
        .map(|(i, s)| (s.key.as_str(), i))
        .collect();
    let mut ranges = vec![None; object.storages.len()];
    for key in keys {
        let Some(&i) = named.get(key.as_str()) else {
            return Err(source.broken(format!("the storage {key} belongs to no tensor")));
        };
        let storage = &object.storages[i];
        let length = source.range(at..at + 8)?;
        let length = u64::from_le_bytes(length.try_into().unwrap_or_default());
        let bytes = length.checked_mul(storage.stored.size() as u64);
        let end = bytes.and_then(|bytes| (at + 8).checked_add(bytes));
        let Some(end) = end.filter(|&end| end <= source.len) else {
            return Err(source.broken(format!("the storage {key} is cut off")));
        };
        if ranges[i].replace(at + 8..end).is_some() {
            return Err(source.broken(format!("the storage {key} is there twice")));
        }
        at = end;
    }
    let ranges = ranges
        .into_iter()
        .zip(&object.storages)
        .map(|(range, s)| {
            range.ok_or_else(|| {
                TorshError::format(
                    "load",
                    format!("{}: the storage {} is missing", source.name, s.key),
                )
            })
        })
        .collect::<Result<Vec<_>>>()?;
    let storages = source.storages(&ranges)?;
    build::build(source, object, storages, false)
}
