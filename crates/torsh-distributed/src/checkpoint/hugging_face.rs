//! Folders of Hugging Face: `model.safetensors`, or several files and `model.safetensors.index.json`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::{Map, Value as Json, json};
use torsh_nn::{Module, ModuleExt, StateDict};
use torsh_serialize::{LoadOptions, safetensors, write_bytes};
use torsh_tensor::{DType, Device, Result, Tensor, TorshError};

use super::index::{broken, io_error, is_plain};
use super::loading::agree;
use super::piece::{Piece, Pieces};
use crate::group::ProcessGroup;

const SINGLE: &str = "model.safetensors";
const LIST: &str = "model.safetensors.index.json";

fn bytes_of(dtype: DType, shape: &[usize]) -> u64 {
    (shape.iter().product::<usize>() * dtype.size()) as u64
}

/// Which file each tensor is in: they are filled in order, up to a size.
fn assign(sizes: &[u64], most: u64) -> Vec<usize> {
    let (mut file, mut held) = (0, 0u64);
    let mut out = Vec::with_capacity(sizes.len());
    for &bytes in sizes {
        if held > 0 && held.saturating_add(bytes) > most {
            file += 1;
            held = 0;
        }
        held = held.saturating_add(bytes);
        out.push(file);
    }
    out
}

fn file_name(file: usize, files: usize) -> String {
    match files {
        1 => SINGLE.to_string(),
        _ => format!("model-{:05}-of-{files:05}.safetensors", file + 1),
    }
}

/// Whether a file of a folder is one that an earlier save may have left.
fn is_shard(name: &str) -> bool {
    let number = name
        .strip_prefix("model-")
        .and_then(|rest| rest.strip_suffix(".safetensors"));
    let parts = number.and_then(|n| n.split_once("-of-"));
    parts.is_some_and(|(a, b)| [a, b].iter().all(|n| n.bytes().all(|c| c.is_ascii_digit())))
}

/// Writes the list of the files, and removes what an earlier save with other files left.
fn finish(dir: &Path, names: &[String], files: &[usize], total: u64) -> Result<()> {
    let n = files.last().map_or(1, |f| f + 1);
    let mut keep: BTreeSet<String> = (0..n).map(|f| file_name(f, n)).collect();
    if n > 1 {
        let map: Map<String, Json> = names
            .iter()
            .zip(files)
            .map(|(name, &file)| (name.clone(), json!(file_name(file, n))))
            .collect();
        let list = json!({ "metadata": { "total_size": total }, "weight_map": map });
        write_bytes(dir.join(LIST), format!("{list:#}\n").as_bytes())?;
        keep.insert(LIST.into());
    }
    let entries = fs::read_dir(dir).map_err(|e| io_error(dir, e))?;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let ours = name == SINGLE || name == LIST || is_shard(name);
        if ours && !keep.contains(name) {
            let path = entry.path();
            torsh_serialize::files::remove(&path).map_err(|e| io_error(&path, e))?;
        }
    }
    Ok(())
}

pub(super) fn save(dir: &Path, state: &StateDict, most: u64) -> Result<()> {
    fs::create_dir_all(dir).map_err(|e| io_error(dir, e))?;
    let names: Vec<String> = state.keys().map(str::to_string).collect();
    let tensors: Vec<&Tensor> = state.values().collect();
    let sizes: Vec<u64> = tensors
        .iter()
        .map(|t| bytes_of(t.dtype(), t.dims()))
        .collect();
    let files = assign(&sizes, most);
    let n = files.last().map_or(1, |f| f + 1);
    for file in 0..n {
        let own = (0..names.len()).filter(|&i| files[i] == file);
        let own = own.map(|i| (names[i].as_str(), tensors[i]));
        safetensors::save(own, dir.join(file_name(file, n)))?;
    }
    finish(dir, &names, &files, sizes.iter().sum())
}

/// One tensor of a model: its shape, and the piece of it that this rank has.
struct Held {
    name: String,
    tensor: Tensor,
    piece: Option<Piece>,
}

fn held<M: Module + ?Sized>(model: &M, pieces: &dyn Pieces) -> Result<Vec<Held>> {
    let layout = pieces.pieces()?;
    let state = model.state_dict();
    let place = |t: &Tensor| (t.storage_offset(), t.dims().to_vec());
    Ok(state
        .iter()
        .map(|(name, tensor)| {
            let same = layout.iter().filter(|p| {
                p.tensor().shares_storage(tensor) && place(p.tensor()) == place(tensor)
            });
            let mut same: Vec<&Piece> = same.collect();
            same.sort_by_key(|p| p.name() != name);
            Held {
                name: name.to_string(),
                tensor: tensor.clone(),
                piece: same.first().map(|p| (*p).clone()),
            }
        })
        .collect())
}

/// Puts the parts of all ranks together.
fn whole(group: &ProcessGroup, piece: &Piece, keep: bool) -> Result<Option<Tensor>> {
    let offsets: Vec<Vec<usize>> = group.all_gather_object(&piece.offset().to_vec())?;
    let parts = group.all_gather(&piece.tensor().detach())?;
    if !keep {
        return Ok(None);
    }
    let out = Tensor::zeros(piece.global_shape(), piece.dtype(), Device::Cpu)?;
    for (offset, part) in offsets.iter().zip(parts) {
        if part.numel() == 0 {
            continue;
        }
        let mut to = out.clone();
        for (d, (&from, &n)) in offset.iter().zip(part.dims()).enumerate() {
            to = to.narrow(d, from, n)?;
        }
        to.copy_(&part)?;
    }
    Ok(Some(out))
}

pub(super) fn save_sharded<M: Module + ?Sized>(
    group: &ProcessGroup,
    dir: &Path,
    model: &M,
    pieces: &dyn Pieces,
    most: u64,
) -> Result<()> {
    let op = "save_hugging_face_sharded";
    let made = fs::create_dir_all(dir).map_err(|e| io_error(dir, e));
    let tensors = agree(group.into(), op, made.and_then(|()| held(model, pieces)))?;
    let names: Vec<String> = tensors.iter().map(|t| t.name.clone()).collect();
    let shape = |t: &Held| match &t.piece {
        Some(p) => p.global_shape().to_vec(),
        None => t.tensor.dims().to_vec(),
    };
    let about: Vec<(String, Vec<usize>)> =
        tensors.iter().map(|t| (t.name.clone(), shape(t))).collect();
    let all = group.all_gather_object(&about)?;
    if let Some((rank, other)) = all.iter().enumerate().find(|(_, o)| **o != all[0]) {
        let differs = other.iter().zip(&all[0]).find(|(a, b)| a != b);
        return Err(TorshError::shape(
            op,
            format!("rank 0 and rank {rank} hold different models: {differs:?}"),
        ));
    }
    let sizes: Vec<u64> = tensors
        .iter()
        .map(|t| bytes_of(t.tensor.dtype(), &shape(t)))
        .collect();
    let files = assign(&sizes, most);
    let n = files.last().map_or(1, |f| f + 1);
    let mut written = Ok(());
    for file in 0..n {
        // A rank holds one file at a time.
        let own = file % group.size() == group.rank();
        let mut content: BTreeMap<usize, Tensor> = BTreeMap::new();
        for (i, t) in tensors
            .iter()
            .enumerate()
            .filter(|(i, _)| files[*i] == file)
        {
            let tensor = match &t.piece {
                Some(piece) => whole(group, piece, own)?,
                None => own.then(|| t.tensor.clone()),
            };
            content.extend(tensor.map(|t| (i, t)));
        }
        if own && written.is_ok() {
            let content = content.iter().map(|(&i, t)| (names[i].as_str(), t));
            written = safetensors::save(content, dir.join(file_name(file, n)));
        }
    }
    agree(group.into(), op, written)?;
    let finished = match group.rank() {
        0 => finish(dir, &names, &files, sizes.iter().sum()),
        _ => Ok(()),
    };
    agree(group.into(), op, finished)
}

/// The tensors of a file that can be read; a line on the standard error names the others.
fn readable(path: &Path) -> Result<safetensors::Contents> {
    let content = safetensors::load_with(path, LoadOptions::new().keep_foreign(true))?;
    for entry in &content.left_out {
        eprintln!("torsh: {}: left out {entry}", path.display());
    }
    Ok(content)
}

pub(super) fn load(dir: &Path) -> Result<StateDict> {
    let path = dir.join(LIST);
    if !path.is_file() {
        let single = readable(&dir.join(SINGLE))?;
        return Ok(single.tensors.into_iter().collect());
    }
    let text = fs::read(&path).map_err(|e| io_error(&path, e))?;
    let list: Json = serde_json::from_slice(torsh_core::without_bom(&text))
        .map_err(|e| broken(&path, format!("the list of files is damaged: {e}")))?;
    let Some(map) = list["weight_map"].as_object() else {
        return Err(broken(&path, "it has no `weight_map`"));
    };
    let mut files: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, file) in map {
        match file.as_str() {
            Some(file) if is_plain(file) => files.entry(file).or_default().push(name),
            _ => {
                return Err(broken(
                    &path,
                    format!("{name} is in {file}, which is no file of the folder"),
                ));
            }
        }
    }
    let mut out = StateDict::new();
    for (file, names) in files {
        let at = dir.join(file);
        let content = readable(&at).map_err(|e| {
            // A missing file is named with what it should hold.
            let first = names.first().copied().unwrap_or_default();
            broken(&at, format!("{e} (for tensor {first})"))
        })?;
        let left_out = content.left_out;
        let mut tensors: BTreeMap<String, Tensor> = content.tensors.into_iter().collect();
        for name in names {
            if left_out.iter().any(|l| l.name == *name) {
                continue;
            }
            let tensor = tensors.remove(name).ok_or_else(|| {
                broken(
                    &at,
                    format!("it has no tensor {name}, which {LIST} places there"),
                )
            })?;
            out.insert(name, tensor);
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_filled_in_order() {
        assert_eq!(assign(&[4, 4, 4, 9, 1], 8), [0, 0, 1, 2, 3]);
        assert_eq!(assign(&[], 8), [0usize; 0]);
        assert!(is_shard("model-00001-of-00002.safetensors"));
        assert!(!is_shard("model-best-of-all.safetensors"));
    }
}
