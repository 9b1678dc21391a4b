//! State dicts as safetensors files, which PyTorch and Hugging Face read.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use safetensors::tensor::{Dtype, SafeTensors, View};
use torsh_tensor::{DType, Result, Tensor, TorshError};

use crate::module::StateDict;

fn to_file_dtype(dtype: DType) -> Option<Dtype> {
    Some(match dtype {
        DType::F32 => Dtype::F32,
        DType::F64 => Dtype::F64,
        DType::F16 => Dtype::F16,
        DType::BF16 => Dtype::BF16,
        DType::I8 => Dtype::I8,
        DType::U8 => Dtype::U8,
        DType::I16 => Dtype::I16,
        DType::I32 => Dtype::I32,
        DType::I64 => Dtype::I64,
        DType::Bool => Dtype::BOOL,
        DType::C64 => Dtype::C64,
        _ => return None,
    })
}

fn from_file_dtype(dtype: Dtype) -> Option<DType> {
    Some(match dtype {
        Dtype::F32 => DType::F32,
        Dtype::F64 => DType::F64,
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::BF16,
        Dtype::I8 => DType::I8,
        Dtype::U8 => DType::U8,
        Dtype::I16 => DType::I16,
        Dtype::I32 => DType::I32,
        Dtype::I64 => DType::I64,
        Dtype::BOOL => DType::Bool,
        Dtype::C64 => DType::C64,
        _ => return None,
    })
}

/// Files are little-endian.
fn little_endian(mut bytes: Vec<u8>, dtype: DType) -> Vec<u8> {
    if cfg!(target_endian = "big") {
        let part = if dtype.is_complex() {
            dtype.size() / 2
        } else {
            dtype.size()
        };
        bytes.chunks_exact_mut(part).for_each(<[u8]>::reverse);
    }
    bytes
}

struct Entry<'a> {
    tensor: &'a Tensor,
    dtype: Dtype,
    bytes: Vec<u8>,
}

impl View for &Entry<'_> {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        self.tensor.dims()
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
    }

    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

#[track_caller]
fn broken(path: &Path, why: impl std::fmt::Display) -> TorshError {
    TorshError::format(
        "load",
        format!("{} is no whole safetensors file: {why}", path.display()),
    )
    .with_hint("it may be cut off, or of another format; write it again with save(path)")
}

fn io(path: &Path, e: std::io::Error) -> TorshError {
    std::io::Error::new(e.kind(), format!("{}: {e}", path.display())).into()
}

impl StateDict {
    /// Writes the tensors as a safetensors file, which PyTorch's `safetensors.torch.load_file`
    /// reads.
    ///
    /// The file appears under its name when it is whole; an older one is there until then. An
    /// error for complex128, which the format lacks.
    #[track_caller]
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let mut entries = Vec::with_capacity(self.len());
        for (name, tensor) in self.iter() {
            let Some(dtype) = to_file_dtype(tensor.dtype()) else {
                return Err(TorshError::dtype(
                    "save",
                    format!("safetensors has no {}, the dtype of {name}", tensor.dtype()),
                )
                .with_hint("convert it with to_dtype(DType::C64) first"));
            };
            let bytes = little_endian(tensor.to_bytes()?, tensor.dtype());
            entries.push((
                name,
                Entry {
                    tensor,
                    dtype,
                    bytes,
                },
            ));
        }
        let about = HashMap::from([("format".to_string(), "pt".to_string())]);
        let views = entries.iter().map(|(name, entry)| (*name, entry));
        let data = safetensors::serialize(views, Some(about))
            .map_err(|e| TorshError::format("save", format!("{}: {e}", path.display())))?;
        write_whole(path, &data).map_err(|e| io(path, e))
    }

    /// Reads a safetensors file.
    #[track_caller]
    pub fn load(path: impl AsRef<Path>) -> Result<StateDict> {
        let path = path.as_ref();
        let data = std::fs::read(path).map_err(|e| io(path, e))?;
        let (_, header) = SafeTensors::read_metadata(&data).map_err(|e| broken(path, e))?;
        let file = SafeTensors::deserialize(&data).map_err(|e| broken(path, e))?;
        let mut out = StateDict::new();
        // In the order of the data, which is the writer's for tensors of one dtype.
        for name in header.offset_keys() {
            let view = file.tensor(&name).map_err(|e| broken(path, e))?;
            let Some(dtype) = from_file_dtype(view.dtype()) else {
                return Err(TorshError::dtype(
                    "load",
                    format!(
                        "{}: {name} is {:?}, for which there is no dtype",
                        path.display(),
                        view.dtype()
                    ),
                ));
            };
            let tensor = if cfg!(target_endian = "big") {
                Tensor::from_bytes(
                    &little_endian(view.data().to_vec(), dtype),
                    dtype,
                    view.shape(),
                )
            } else {
                Tensor::from_bytes(view.data(), dtype, view.shape())
            };
            out.insert(
                name.as_str(),
                tensor.map_err(|e| broken(path, format!("{name}: {e}")))?,
            );
        }
        Ok(out)
    }
}

/// Writes a file beside `path` and gives it that name when it is on the disk.
fn write_whole(path: &Path, data: &[u8]) -> std::io::Result<()> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = path.file_name().ok_or_else(|| {
        std::io::Error::new(std::io::ErrorKind::InvalidInput, "the path names no file")
    })?;
    let mut beside = std::ffi::OsString::from(".");
    beside.push(name);
    beside.push(format!(
        ".{}.{}.tmp",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    ));
    let beside = path.with_file_name(beside);
    let written = (|| {
        let mut file = File::create(&beside)?;
        file.write_all(data)?;
        file.sync_all()?;
        std::fs::rename(&beside, path)
    })();
    if written.is_err() {
        // The first error is the one to report.
        let _ = std::fs::remove_file(&beside);
    }
    written
}
