//! Writing one rank's pieces: a safetensors file, with a checksum of each block.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, json};
use torsh_serialize::{crc32, files};
use torsh_tensor::{DType, Device, Result, Tensor, TorshError};

use super::index::{BLOCK, PieceIndex, io_error};
use super::read::swap_to_little;

/// A piece to be written.
pub(super) struct ToWrite {
    /// The tensor's name in the index.
    pub(super) name: String,
    pub(super) offset: Vec<usize>,
    pub(super) whole: bool,
    pub(super) tensor: Tensor,
}

/// What a rank wrote.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Written {
    pub(super) file: String,
    pub(super) bytes: u64,
    /// The pieces, with the names of their tensors.
    pub(super) pieces: Vec<(String, PieceIndex)>,
}

/// The format's name of a dtype, and how many of its elements one of ours is.
pub(super) fn format_name(dtype: DType) -> Option<(&'static str, usize)> {
    Some(match dtype {
        DType::F32 => ("F32", 1),
        DType::F64 => ("F64", 1),
        DType::F16 => ("F16", 1),
        DType::BF16 => ("BF16", 1),
        DType::I8 => ("I8", 1),
        DType::U8 => ("U8", 1),
        DType::I16 => ("I16", 1),
        DType::I32 => ("I32", 1),
        DType::I64 => ("I64", 1),
        DType::Bool => ("BOOL", 1),
        DType::C64 => ("C64", 1),
        // The format lacks it: real and imaginary parts as a last dimension of 2.
        DType::C128 => ("F64", 2),
        #[allow(unreachable_patterns)]
        _ => return None,
    })
}

pub(super) fn file_name(rank: usize, world_size: usize) -> String {
    format!("rank-{rank:05}-of-{world_size:05}.safetensors")
}

/// Writes the file and waits until it is on the disk.
pub(super) fn write(folder: &Path, file: &str, mut pieces: Vec<ToWrite>) -> Result<Written> {
    fs::create_dir_all(folder).map_err(|e| io_error(folder, e))?;
    // The format wants no gaps; the widest dtypes first keep all elements aligned.
    pieces.sort_by_key(|p| std::cmp::Reverse(p.tensor.dtype().to_real().size()));
    let mut header = Map::new();
    header.insert("__metadata__".into(), json!({ "format": "pt" }));
    let mut at = 0u64;
    let mut places = Vec::with_capacity(pieces.len());
    for piece in &pieces {
        let dtype = piece.tensor.dtype();
        let (name, parts) = format_name(dtype).ok_or_else(|| {
            TorshError::dtype(
                "checkpoint::save",
                format!("safetensors has no {dtype}, the dtype of {}", piece.name),
            )
        })?;
        let mut shape = piece.tensor.dims().to_vec();
        if parts > 1 {
            shape.push(parts);
        }
        let bytes = (piece.tensor.numel() * dtype.size()) as u64;
        let key = match piece.whole {
            true => piece.name.clone(),
            false => {
                let from: Vec<String> = piece.offset.iter().map(usize::to_string).collect();
                format!("{}@{}", piece.name, from.join(","))
            }
        };
        header.insert(
            key,
            json!({ "dtype": name, "shape": shape, "data_offsets": [at, at + bytes] }),
        );
        places.push((at, bytes));
        at += bytes;
    }
    let mut text = serde_json::Value::Object(header).to_string().into_bytes();
    // Spaces make the data begin where it is aligned for every dtype.
    text.resize((text.len() + 8).next_multiple_of(64) - 8, b' ');
    let data = 8 + text.len() as u64;

    let path = folder.join(file);
    let io = |e| io_error(&path, e);
    let mut to = File::create(&path).map_err(io)?;
    to.write_all(&(text.len() as u64).to_le_bytes())
        .map_err(io)?;
    to.write_all(&text).map_err(io)?;
    let mut block = Vec::new();
    let mut written = Vec::with_capacity(pieces.len());
    for (piece, (start, bytes)) in pieces.into_iter().zip(places) {
        let sums = write_tensor(&piece.tensor, &mut block, &mut |b| {
            to.write_all(b).map_err(io)
        })?;
        let about = PieceIndex {
            file: file.to_string(),
            offset: piece.offset,
            shape: piece.tensor.dims().to_vec(),
            start: data + start,
            bytes,
            crc32: sums,
            archive: false,
        };
        written.push((piece.name, about));
    }
    to.sync_all().map_err(io)?;
    sync_folder(folder)?;
    Ok(Written {
        file: file.to_string(),
        bytes: data + at,
        pieces: written,
    })
}

/// Gives a tensor's elements, row-major and little-endian, block by block. Returns the blocks' checksums.
fn write_tensor(
    tensor: &Tensor,
    block: &mut Vec<u8>,
    write: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<Vec<u32>> {
    let dtype = tensor.dtype();
    let tensor = match tensor.device() {
        Device::Cpu => tensor.detach(),
        Device::Meta => {
            return Err(TorshError::device(
                "checkpoint::save",
                "a meta tensor has no data",
            ));
        }
        _ => tensor.detach().to_device(Device::Cpu)?,
    }
    .contiguous()?;
    let all = tensor.numel() * dtype.size();
    let first = tensor.storage_offset() * dtype.size();
    let storage = tensor.untyped_storage()?;
    let mut sums = Vec::with_capacity(all.div_ceil(BLOCK));
    for start in (0..all).step_by(BLOCK) {
        block.resize(BLOCK.min(all - start), 0);
        storage.read(first + start, block)?;
        swap_to_little(block, dtype);
        sums.push(crc32(block));
        write(block)?;
    }
    Ok(sums)
}

/// Puts the names in a folder on the disk.
pub(super) fn sync_folder(folder: &Path) -> Result<()> {
    files::sync_folder(folder).map_err(|e| io_error(folder, e))
}

/// The sizes of files, and the pieces of each tensor, of all ranks.
pub(super) type Gathered = (BTreeMap<String, u64>, BTreeMap<String, Vec<PieceIndex>>);

pub(super) fn gather(written: Vec<Written>) -> Gathered {
    let mut files = BTreeMap::new();
    let mut pieces: BTreeMap<String, Vec<PieceIndex>> = BTreeMap::new();
    for rank in written {
        files.insert(rank.file, rank.bytes);
        for (name, piece) in rank.pieces {
            pieces.entry(name).or_default().push(piece);
        }
    }
    for list in pieces.values_mut() {
        list.sort_by(|a, b| a.offset.cmp(&b.offset));
    }
    (files, pieces)
}
