//! Files of tensors: PyTorch's `.pt`/`.pth`, safetensors, `.npy` and `.npz`; sparse matrices of SciPy and Matrix Market.
//!
//! [`load`] recognises any of them by content; [`save`] writes the format that the path's extension
//! names. Each format has its own module with the functions specific to it.
//!
//! Tensors use the mapped file as their memory if their position in it is aligned. So loading reads
//! only headers. The mapping is private: writing in place changes memory of this process alone. On Windows
//! files are read, unless [`LoadOptions::mmap`] asks for a mapping.
//!
//! No file is trusted. Contents that do not fit the format are an error. The reader takes no more memory
//! than the file's size justifies, and never executes code from a checkpoint.
#![forbid(unsafe_code)]

mod archive;
mod atomic;
pub mod files;
mod foreign;
mod layout;
pub mod npy;
pub mod npz;
pub mod pt;
mod readable;
pub mod safetensors;
mod source;
pub mod sparse;
mod stored;
pub mod torch_cache;
mod value;

use std::io::Write;
use std::path::Path;

pub use foreign::{Foreign, LeftOut};
pub use readable::{Readable, load_readable, load_readable_bytes, load_readable_with, load_tensor};
use source::Source;
use torsh_tensor::{Device, Result, TorshError};
pub use value::{BigInt, Dict, Value};

/// What [`load_with`] may be told.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LoadOptions {
    /// Whether tensors may lie in the mapped file; else they are read into memory of their own. See
    /// [`LoadOptions::mmap`] for the default.
    pub mmap: bool,
    /// Whether the checksums that zip archives (`.pt`, `.npz`) have of their tensors are computed.
    pub verify: bool,
    /// Where the tensors shall be (`map_location` of `torch.load`).
    pub device: Device,
    /// Whether an entry for which there is no value becomes a [`Value::Foreign`]; else it is an error.
    pub keep_foreign: bool,
}

impl Default for LoadOptions {
    fn default() -> Self {
        LoadOptions {
            mmap: !cfg!(windows),
            verify: false,
            device: Device::Cpu,
            keep_foreign: false,
        }
    }
}

impl LoadOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether tensors may lie in the mapped file (`true`, on Windows `false`). Such a file may be
    /// replaced, but must not be overwritten or cut while they live; [`save`] only ever replaces. Windows
    /// lets nobody remove a mapped file, and takes as much memory for the mapping as for a copy.
    #[must_use]
    pub fn mmap(mut self, mmap: bool) -> Self {
        self.mmap = mmap;
        self
    }

    /// Whether the checksums that zip archives (`.pt`, `.npz`) have of their tensors are computed,
    /// for which all of the file is read; damage is an error then.
    #[must_use]
    pub fn verify(mut self, verify: bool) -> Self {
        self.verify = verify;
        self
    }

    /// Where the tensors shall be, whatever device they were saved from (`map_location` of
    /// `torch.load`; the CPU). Tensors of a `.pt` that share a storage share one of the device.
    ///
    /// ```
    /// use torsh_serialize::{LoadOptions, load_with, save};
    /// use torsh_tensor::{Device, tensor};
    ///
    /// let path = std::env::temp_dir().join(format!("torsh-device-{}.npy", std::process::id()));
    /// save(&tensor![1.0, 2.0].into(), &path)?;
    /// let there = load_with(&path, LoadOptions::new().device(Device::Meta))?;
    /// assert_eq!(there.as_tensor()?.device(), Device::Meta);
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[must_use]
    pub fn device(mut self, device: impl Into<Device>) -> Self {
        self.device = device.into();
        self
    }

    /// Whether an entry for which there is no value becomes a [`Value::Foreign`], so that the rest of the file can be had
    /// (`false`: an error). [`load_readable`] gives its tensors by name.
    ///
    /// ```
    /// use torsh_serialize::{LoadOptions, Value, load_with, pt, save};
    ///
    /// // pickle.dumps of {"w": 1.5, "kind": pathlib.PurePosixPath}, in PyTorch's archive.
    /// # let path = std::env::temp_dir().join(format!("torsh-foreign-{}.pt", std::process::id()));
    /// # let file = std::fs::File::create(&path)?;
    /// # let mut zip = zip::ZipWriter::new(file);
    /// # let stored = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    /// # zip.start_file("a/data.pkl", stored).map_err(std::io::Error::other)?;
    /// # use std::io::Write;
    /// # zip.write_all(b"}(X\x01\0\0\0wG?\xf8\0\0\0\0\0\0X\x04\0\0\0kindcpathlib\nPurePosixPath\nu.")?;
    /// # zip.finish().map_err(std::io::Error::other)?;
    /// assert!(torsh_serialize::load(&path).is_err());
    /// let value = load_with(&path, LoadOptions::new().keep_foreign(true))?;
    /// assert_eq!(value.get("w")?.as_float()?, 1.5);
    /// assert!(matches!(value.get("kind")?, Value::Foreign(f) if f.what().contains("pathlib.PurePosixPath")));
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[must_use]
    pub fn keep_foreign(mut self, keep_foreign: bool) -> Self {
        self.keep_foreign = keep_foreign;
        self
    }
}

/// Reads a file of any format of this crate, as its content says (`torch.load`, with
/// `map_location="cpu"` and `weights_only=True`); [`load_with`] to another device.
///
/// A `.pt` gives what was saved; safetensors, `.npz` and TorchScript archives a dict of tensors; `.npy` a tensor.
///
/// ```
/// use torsh_serialize::{Value, load, save};
/// use torsh_tensor::tensor;
///
/// let path = std::env::temp_dir().join(format!("torsh-load-{}.pt", std::process::id()));
/// let weights = Value::from([("weight", Value::from(tensor![1.0, 2.0]))]);
/// save(&Value::from([("state_dict", weights), ("epoch", Value::from(3))]), &path)?;
/// let checkpoint = load(&path)?;
/// assert_eq!(checkpoint.get("epoch")?.as_int()?, 3);
/// let weight = checkpoint.at(&["state_dict", "weight"])?.as_tensor()?;
/// assert_eq!(weight.to_vec::<f32>()?, [1.0, 2.0]);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A file that cannot be read, is of no known format, is cut off or contradicts itself, or holds
/// something that is no tensor, number, text or container; the error names it, and [`load_readable`]
/// gives the rest. A pointer of git-lfs in the place of the file is named as one.
///
/// # Unsigned integers
/// uint16 becomes int32, uint32 and uint64 become int64. A number that int64 does not hold is an error.
#[track_caller]
pub fn load(path: impl AsRef<Path>) -> Result<Value> {
    load_with(path, LoadOptions::default())
}

/// [`load`] with options.
#[torsh_tensor::names_caller]
pub fn load_with(path: impl AsRef<Path>, options: LoadOptions) -> Result<Value> {
    read(&mut Source::open(path.as_ref(), &options)?)
}

/// [`load`] of a file's bytes in memory.
#[torsh_tensor::names_caller]
pub fn load_bytes(bytes: &[u8]) -> Result<Value> {
    read(&mut Source::bytes(bytes))
}

#[track_caller]
fn read(source: &mut Source) -> Result<Value> {
    let start = source.start()?;
    source.check_git_lfs(&start)?;
    if start.starts_with(npy::MAGIC) {
        return npy::read(source);
    }
    if start.starts_with(b"PK\x03\x04") {
        let archive = archive::Archive::open(source)?;
        return if pt::is_checkpoint(&archive) {
            pt::read_zip(source, archive)
        } else {
            npz::read(source, archive).map(Value::from_iter)
        };
    }
    if pt::is_legacy(&start) {
        return pt::read_legacy(source);
    }
    if safetensors::looks_like(&start) {
        return safetensors::read_values(source).map(Value::from_iter);
    }
    Err(pt::other_format(source, &start))
}

/// Writes a file, whole or not at all: safetensors, npy or npz where the path's extension is
/// `safetensors`, `npy` or `npz`, else PyTorch's zip container (`torch.save`).
///
/// # Errors
/// A file that cannot be written, or a value that the format has no place for.
#[torsh_tensor::names_caller]
pub fn save(value: &Value, path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("");
    match extension {
        "safetensors" => safetensors::save(value.named_tensors()?, path),
        "npz" => npz::save(value.named_tensors()?, path),
        "npy" => npy::save(value.as_tensor()?, path),
        _ => pt::save(value, path),
    }
}

/// Writes bytes of any kind to a file, whole or not at all: they go to a file beside it, which is
/// synced and then takes its name.
///
/// ```
/// let path = std::env::temp_dir().join(format!("torsh-bytes-{}.txt", std::process::id()));
/// torsh_serialize::write_bytes(&path, b"loss,accuracy\n")?;
/// assert_eq!(std::fs::read(&path)?, b"loss,accuracy\n");
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A file that cannot be written, as where its folder is not there; the error names it.
#[torsh_tensor::names_caller]
pub fn write_bytes(path: impl AsRef<Path>, bytes: &[u8]) -> Result<()> {
    let path = path.as_ref();
    atomic::write_buffered(path, |to| {
        let written = to.write_all(bytes);
        written.map_err(|e| source::io_error(path, e))
    })
}

/// The checksum CRC-32 of bytes, as zip archives and Python's `zlib.crc32` have it.
///
/// ```
/// assert_eq!(torsh_serialize::crc32(b"123456789"), 0xcbf4_3926);
/// ```
pub fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// What an error says, without its operation and place.
fn message(e: &TorshError) -> String {
    e.info()
        .map_or_else(|| e.to_string(), |info| info.message.clone())
}

/// Puts the name of the file into errors that a function about tensors made.
fn in_file(name: &str, what: &str, e: TorshError) -> TorshError {
    let why = message(&e);
    match e {
        TorshError::OutOfMemory | TorshError::Io(_) => e,
        _ => TorshError::format("load", format!("{name}: {what}: {why}")),
    }
}
