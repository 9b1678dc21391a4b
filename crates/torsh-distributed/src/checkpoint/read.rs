//! Reading any box of a tensor from the pieces that were written.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use torsh_core::Storage;
use torsh_serialize::{LoadOptions, crc32, pt};
use torsh_tensor::{DType, Device, Result, Shared, Tensor, TorshError};

use super::index::{Index, PieceIndex, TensorIndex, broken, io_error};
use super::piece::within;

/// The files of a checkpoint, opened when they are needed.
pub(super) struct Reader {
    pub(super) dir: PathBuf,
    pub(super) index: Index,
    files: RefCell<HashMap<String, File>>,
}

/// The strides of a row-major tensor.
fn row_major(shape: &[usize]) -> Vec<usize> {
    let mut stride = vec![1; shape.len()];
    for d in (1..shape.len()).rev() {
        stride[d - 1] = stride[d] * shape[d].max(1);
    }
    stride
}

/// Where two boxes overlap: offset and shape.
fn overlap(a: (&[usize], &[usize]), b: (&[usize], &[usize])) -> Option<(Vec<usize>, Vec<usize>)> {
    let mut offset = Vec::with_capacity(a.0.len());
    let mut shape = Vec::with_capacity(a.0.len());
    for d in 0..a.0.len() {
        let from = a.0[d].max(b.0[d]);
        let to = (a.0[d] + a.1[d]).min(b.0[d] + b.1[d]);
        if from >= to {
            return None;
        }
        offset.push(from);
        shape.push(to - from);
    }
    Some((offset, shape))
}

/// The elements of a row: of all dimensions but the first.
fn row(shape: &[usize]) -> usize {
    shape.iter().skip(1).product()
}

/// Puts little-endian bytes in this machine's order, or back.
pub(super) fn swap_to_little(bytes: &mut [u8], dtype: DType) {
    let part = dtype.to_real().size();
    if cfg!(target_endian = "big") && part > 1 {
        bytes.chunks_exact_mut(part).for_each(<[u8]>::reverse);
    }
}

impl Reader {
    pub(super) fn new(dir: &Path, index: Index) -> Reader {
        Reader {
            dir: dir.to_path_buf(),
            index,
            files: RefCell::default(),
        }
    }

    pub(super) fn entry(&self, name: &str) -> Result<&TensorIndex> {
        self.index.tensors.get(name).ok_or_else(|| {
            broken(&self.dir, format!("the checkpoint has no tensor {name}"))
                .with_hint("the model or optimizer differs from the one that was saved")
        })
    }

    /// A tensor, or the box of it that `part` (offset, shape) names.
    #[track_caller]
    pub(super) fn tensor(&self, name: &str, part: Option<(&[usize], &[usize])>) -> Result<Tensor> {
        let entry = self.entry(name)?;
        let zeros = vec![0; entry.shape.len()];
        let (offset, shape) = part.unwrap_or((&zeros, &entry.shape));
        if !within(&entry.shape, offset, shape) {
            return Err(TorshError::shape(
                "checkpoint::load",
                format!(
                    "{name} is {:?} in the checkpoint, which has no part {shape:?} from {offset:?} on",
                    entry.shape
                ),
            ));
        }
        let dtype = entry.dtype()?;
        let n: usize = shape.iter().product();
        if n == 0 {
            return Tensor::empty(shape, dtype, Device::Cpu);
        }
        let mut parts = Vec::new();
        let mut found = 0;
        for piece in &entry.pieces {
            if let Some((from, size)) = overlap((offset, shape), (&piece.offset, &piece.shape)) {
                found += size.iter().product::<usize>();
                parts.push((piece, from, size));
            }
        }
        if found != n {
            return Err(broken(
                &self.dir,
                format!("tensor {name}: the index is damaged, its pieces overlap or leave gaps"),
            ));
        }
        // Rows lie one behind the other.
        let rows = |shape: &[usize]| shape.iter().skip(1).eq(entry.shape.iter().skip(1));
        let whole_rows = rows(shape)
            && parts
                .iter()
                .all(|(piece, ..)| !piece.archive && rows(&piece.shape));
        if whole_rows {
            let width = row(&entry.shape) * dtype.size();
            let first = |offset: &[usize]| offset.first().copied().unwrap_or(0);
            let start = first(offset);
            return made(shape, dtype, |to| {
                for (piece, from, size) in &parts {
                    let n = size.first().copied().unwrap_or(1) * width;
                    let in_piece = (first(from) - first(&piece.offset)) * width;
                    let in_out = (first(from) - start) * width;
                    let range = in_piece..in_piece + n;
                    self.fill(name, piece, range, &mut to[in_out..in_out + n])?;
                }
                Ok(())
            });
        }
        let out = Tensor::empty(shape, dtype, Device::Cpu)?;
        for (piece, from, size) in &parts {
            let held = self.rows(name, entry, piece, from, size)?;
            let mut to = out.clone();
            for d in 0..shape.len() {
                to = to.narrow(d as i64, from[d] - offset[d], size[d])?;
            }
            to.copy_(&held)?;
        }
        Ok(out)
    }

    /// The box of a tensor that lies within one piece.
    fn rows(
        &self,
        name: &str,
        entry: &TensorIndex,
        piece: &PieceIndex,
        from: &[usize],
        size: &[usize],
    ) -> Result<Tensor> {
        let dtype = entry.dtype()?;
        let (mut held, first) = if piece.archive {
            (self.archived(name, piece, dtype)?, 0)
        } else {
            // As many rows as are needed, with all their elements.
            let (first, n) = match (from.first(), size.first()) {
                (Some(from), Some(n)) => (from - piece.offset[0], *n),
                _ => (0, 1),
            };
            let width = row(&piece.shape) * dtype.size();
            let mut shape = piece.shape.clone();
            if let Some(rows) = shape.first_mut() {
                *rows = n;
            }
            let read = made(&shape, dtype, |to| {
                self.fill(name, piece, first * width..(first + n) * width, to)
            })?;
            (read, first)
        };
        for d in 0..size.len() {
            let skipped = if d == 0 { first } else { 0 };
            held = held.narrow(d as i64, from[d] - piece.offset[d] - skipped, size[d])?;
        }
        Ok(held)
    }

    /// Reads bytes of a piece, and checks the blocks that they are in.
    fn fill(
        &self,
        name: &str,
        piece: &PieceIndex,
        range: Range<usize>,
        to: &mut [u8],
    ) -> Result<()> {
        let path = self.index.path(&self.dir, &piece.file);
        let size = self.index.block;
        let mut block = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let number = at / size;
            let start = number * size;
            let end = (start + size).min(piece.bytes as usize);
            let stop = end.min(range.end);
            let out = &mut to[at - range.start..stop - range.start];
            let sum = if start == at && stop == end {
                self.read_at(name, piece, start, out)?;
                crc32(out)
            } else {
                block.resize(end - start, 0);
                self.read_at(name, piece, start, &mut block)?;
                out.copy_from_slice(&block[at - start..stop - start]);
                crc32(&block)
            };
            if piece.crc32.get(number) != Some(&sum) {
                return Err(broken(
                    &path,
                    format!(
                        "tensor {name}: the file is damaged, the bytes from {} on do not have the checksum written with them",
                        piece.start + start as u64
                    ),
                ));
            }
            at = stop;
        }
        if let Some(dtype) = self.index.tensors.get(name).map(TensorIndex::dtype) {
            swap_to_little(to, dtype?);
        }
        Ok(())
    }

    /// Reads bytes of a piece.
    fn read_at(&self, name: &str, piece: &PieceIndex, from: usize, to: &mut [u8]) -> Result<()> {
        let path = self.index.path(&self.dir, &piece.file);
        let mut files = self.files.borrow_mut();
        let file = match files.entry(piece.file.clone()) {
            std::collections::hash_map::Entry::Occupied(e) => e.into_mut(),
            std::collections::hash_map::Entry::Vacant(e) => {
                let file = File::open(&path).map_err(|e| {
                    let why = io::Error::new(e.kind(), format!("{e} (for tensor {name})"));
                    io_error(&path, why)
                })?;
                let bytes = file.metadata().map_err(|e| io_error(&path, e))?.len();
                let wanted = self.index.files.get(&piece.file).copied().unwrap_or(0);
                if bytes != wanted {
                    return Err(broken(
                        &path,
                        format!(
                            "the file has {bytes} bytes and {wanted} were written: it is cut off or another file (for tensor {name})"
                        ),
                    ));
                }
                e.insert(file)
            }
        };
        let read = file
            .seek(SeekFrom::Start(piece.start + from as u64))
            .and_then(|_| file.read_exact(to));
        read.map_err(|e| {
            io_error(
                &path,
                io::Error::new(e.kind(), format!("{e} (for tensor {name})")),
            )
        })
    }

    /// The tensor of a piece that PyTorch wrote.
    fn archived(&self, name: &str, piece: &PieceIndex, dtype: DType) -> Result<Tensor> {
        let value = self.archive(name, piece)?;
        let tensor = value.as_tensor()?;
        if tensor.dims() != piece.shape || tensor.dtype() != dtype {
            let path = self.index.path(&self.dir, &piece.file);
            return Err(broken(
                &path,
                format!(
                    "tensor {name}: the file has {} where .metadata speaks of {dtype} {:?}",
                    tensor.describe(),
                    piece.shape
                ),
            ));
        }
        Ok(tensor.detach())
    }

    /// What PyTorch wrote at a place of a file.
    pub(super) fn archive(&self, name: &str, piece: &PieceIndex) -> Result<torsh_serialize::Value> {
        let path = self.index.path(&self.dir, &piece.file);
        let bytes = usize::try_from(piece.bytes)
            .map_err(|_| broken(&path, format!("tensor {name} is too large")))?;
        let mut archive = vec![0; bytes];
        self.read_at(name, piece, 0, &mut archive)?;
        let options = LoadOptions::new().keep_foreign(true);
        pt::load_bytes_with(&archive, options).map_err(|e| {
            let why = e
                .info()
                .map_or_else(|| e.to_string(), |i| i.message.clone());
            broken(&path, format!("{name}: {why}"))
        })
    }
}

/// A tensor whose bytes `fill` writes.
fn made(
    shape: &[usize],
    dtype: DType,
    fill: impl FnOnce(&mut [u8]) -> Result<()>,
) -> Result<Tensor> {
    let bytes = shape.iter().product::<usize>() * dtype.size();
    let mut failed = None;
    let storage = Storage::filled(bytes, |to| {
        fill(to).map_err(|e| {
            failed = Some(e);
            io::Error::other("see the error beside")
        })
    });
    let storage = match (failed, storage) {
        (Some(e), _) => return Err(e),
        (None, storage) => storage?,
    };
    Tensor::from_storage(Shared::new(storage), dtype, shape, &row_major(shape), 0)
}
