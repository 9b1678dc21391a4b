//! The index of a checkpoint: what its tensors are, and where their pieces lie.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use torsh_serialize::files::is_windows_name;
use torsh_tensor::{DType, Result, TorshError};

use super::piece::within;
use super::tree;

/// The index's file. A folder with it holds a whole checkpoint.
pub(super) const INDEX: &str = "checkpoint.json";
pub(super) const FORMAT: &str = "torsh-distributed-checkpoint";
pub(super) const VERSION: u64 = 1;

/// How many bytes one checksum is of: whoever reads a part of a piece reads few more bytes.
pub(super) const BLOCK: usize = 1 << 20;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Index {
    pub(super) format: String,
    pub(super) version: u64,
    pub(super) world_size: usize,
    /// Where the files are, within the checkpoint's folder.
    pub(super) folder: String,
    /// How many bytes of a piece each of its checksums is of.
    pub(super) block: usize,
    /// The size of each file.
    pub(super) files: BTreeMap<String, u64>,
    pub(super) parts: Vec<PartIndex>,
    pub(super) tensors: BTreeMap<String, TensorIndex>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct PartIndex {
    pub(super) name: String,
    pub(super) kind: Kind,
    /// One state, or one for each rank that had the part.
    pub(super) states: BTreeMap<usize, Json>,
}

/// What kind of a thing a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    /// Named tensors of a model.
    Model,
    /// An optimizer, whose states are by the parameters' names.
    Optimizer,
    /// The same on all ranks.
    Shared,
    /// Each rank's own.
    PerRank,
    /// Tensors in pieces, by name.
    Pieces,
    /// Plain JSON.
    Value,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct TensorIndex {
    pub(super) dtype: String,
    pub(super) shape: Vec<usize>,
    pub(super) pieces: Vec<PieceIndex>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct PieceIndex {
    pub(super) file: String,
    /// Where the piece begins in the tensor.
    pub(super) offset: Vec<usize>,
    pub(super) shape: Vec<usize>,
    /// Its bytes in the file.
    pub(super) start: u64,
    pub(super) bytes: u64,
    /// The checksum of each block.
    #[serde(default)]
    pub(super) crc32: Vec<u32>,
    /// Whether the bytes are an archive of PyTorch with the piece in it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) archive: bool,
}

impl PieceIndex {
    pub(super) fn numel(&self) -> usize {
        self.shape.iter().product()
    }
}

impl TensorIndex {
    pub(super) fn dtype(&self) -> Result<DType> {
        tree::dtype(&self.dtype).ok_or_else(|| {
            let why = format!(
                "the index names the dtype {:?}, which is not known",
                self.dtype
            );
            TorshError::dtype("checkpoint::load", why)
        })
    }
}

/// An input/output error that names the file.
pub(super) fn io_error(path: &Path, e: io::Error) -> TorshError {
    io::Error::new(e.kind(), format!("{}: {e}", path.display())).into()
}

/// An error of what a checkpoint holds.
#[track_caller]
pub(super) fn broken(path: &Path, why: impl std::fmt::Display) -> TorshError {
    TorshError::format("checkpoint::load", format!("{}: {why}", path.display()))
}

/// Whether a name is of a file right in a folder.
pub(super) fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name != "."
        && name != ".."
        && !name.contains(['/', '\\', '\0'])
        && (cfg!(not(windows)) || is_windows_name(name))
}

impl Index {
    /// Reads and checks the index of a folder.
    #[track_caller]
    pub(super) fn open(dir: &Path) -> Result<Index> {
        let path = dir.join(INDEX);
        let text = fs::read_to_string(&path).map_err(|e| {
            let missing = e.kind() == io::ErrorKind::NotFound;
            match missing {
                true => broken(dir, format!("there is no {INDEX}, so no whole checkpoint"))
                    .with_hint("a save that was interrupted before the first whole one leaves none; see the path"),
                false => io_error(&path, e),
            }
        })?;
        Index::parse(&path, &text)
    }

    #[track_caller]
    pub(super) fn parse(path: &Path, text: &str) -> Result<Index> {
        let index: Index = serde_json::from_str(text)
            .map_err(|e| broken(path, format!("the index is damaged: {e}")))?;
        if index.format != FORMAT || index.version != VERSION {
            return Err(broken(
                path,
                format!(
                    "it is {} {}, this program reads {FORMAT} {VERSION}",
                    index.format, index.version
                ),
            ));
        }
        index.check().map_err(|why| broken(path, why))?;
        Ok(index)
    }

    /// Checks that files, places and shapes go together, so that a reader can rely on them.
    pub(super) fn check(&self) -> std::result::Result<(), String> {
        if self.block == 0 || !is_plain(&self.folder) {
            return Err("the index is damaged: its folder or block is none".into());
        }
        if let Some(name) = self.files.keys().find(|n| !is_plain(n)) {
            return Err(format!("the index is damaged: {name:?} is no file of it"));
        }
        for (name, tensor) in &self.tensors {
            let size = tensor.dtype().map_err(|e| e.to_string())?.size();
            let numel = |shape: &[usize]| {
                let n = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
                n.filter(|n| n.checked_mul(size).is_some())
            };
            let wrong = |why: &str| Err(format!("the index is damaged: tensor {name} {why}"));
            let Some(all) = numel(&tensor.shape) else {
                return wrong("is too large");
            };
            let mut held = 0usize;
            for piece in &tensor.pieces {
                if !within(&tensor.shape, &piece.offset, &piece.shape) {
                    return wrong("has a piece outside of it");
                }
                let n = piece.numel();
                held = held.saturating_add(n);
                let end = piece.start.checked_add(piece.bytes);
                let file = self.files.get(&piece.file);
                if file.is_none() || end.is_none_or(|end| Some(&end) > file) {
                    return wrong("has a piece outside of its file");
                }
                if piece.archive {
                    continue;
                }
                let bytes = (n * size) as u64;
                if piece.bytes != bytes
                    || piece.crc32.len() as u64 != bytes.div_ceil(self.block as u64)
                {
                    return wrong("has a piece of another size than its shape says");
                }
            }
            if held != all {
                return Err(format!(
                    "tensor {name} has {all} elements, and its pieces {held}"
                ));
            }
        }
        Ok(())
    }

    /// Where a file is.
    pub(super) fn path(&self, dir: &Path, file: &str) -> PathBuf {
        dir.join(&self.folder).join(file)
    }

    pub(super) fn part(&self, dir: &Path, name: &str) -> Result<&PartIndex> {
        self.parts.iter().find(|p| p.name == name).ok_or_else(|| {
            let there: Vec<&str> = self.parts.iter().map(|p| p.name.as_str()).collect();
            broken(dir, format!("the checkpoint has no part `{name}`"))
                .with_hint(format!("it has {}", there.join(", ")))
        })
    }
}
