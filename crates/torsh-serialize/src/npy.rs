//! NumPy's `.npy` files.

mod header;

use std::io::Write;
use std::path::Path;

use torsh_tensor::{DType, Result, Tensor, TorshError};

use crate::atomic::write_buffered;
use crate::foreign::{Foreign, OTHERS};
use crate::layout::{little_endian, on_host, strided};
use crate::safetensors::row_major;
use crate::source::Source;
use crate::stored::Stored;
use crate::{LoadOptions, Value, in_file, message};
use header::{Descr, Header};

pub(crate) const MAGIC: &[u8] = b"\x93NUMPY";

/// More than any array's header has.
const MAX_HEADER: u64 = 1 << 20;

/// Reads a `.npy` file (`numpy.load`, `torch.from_numpy`). An array in Fortran order keeps it, as
/// strides; a big-endian one is converted.
///
/// ```
/// use torsh_serialize::npy;
/// use torsh_tensor::tensor;
///
/// let path = std::env::temp_dir().join(format!("torsh-{}.npy", std::process::id()));
/// npy::save(&tensor![[1, 2], [3, 4]], &path)?;
/// assert_eq!(npy::load(&path)?, tensor![[1, 2], [3, 4]]);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Besides broken files: dtypes that tensors do not have (texts, dates), uint64 numbers that int64 does not hold,
/// and structured and object arrays; the latter would execute code of the file. uint16 becomes int32, uint32 and
/// uint64 become int64.
#[track_caller]
pub fn load(path: impl AsRef<Path>) -> Result<Tensor> {
    load_with(path, LoadOptions::default())
}

/// [`load`] with options.
#[torsh_tensor::names_caller]
pub fn load_with(path: impl AsRef<Path>, options: LoadOptions) -> Result<Tensor> {
    load_from(&mut Source::open(
        path.as_ref(),
        &options.keep_foreign(false),
    )?)
}

/// [`load`] of a file's bytes in memory.
#[torsh_tensor::names_caller]
pub fn load_bytes(bytes: &[u8]) -> Result<Tensor> {
    load_from(&mut Source::bytes(bytes))
}

#[track_caller]
fn load_from(source: &mut Source) -> Result<Tensor> {
    let start = source.start()?;
    source.check_git_lfs(&start)?;
    read(source)?.as_tensor().cloned()
}

#[track_caller]
pub(crate) fn read(source: &mut Source) -> Result<Value> {
    let all = 0..source.len;
    read_at(source, all, "the array")
}

/// Reads an array that lies in a range of a file. One of a dtype that tensors lack is an error, or kept as such where the
/// source says so.
#[track_caller]
pub(crate) fn read_at(
    source: &mut Source,
    range: std::ops::Range<u64>,
    what: &str,
) -> Result<Value> {
    let file = source.name.clone();
    let broken =
        |why: &dyn std::fmt::Display| TorshError::format("load", format!("{file}: {what}: {why}"));
    let cut = || broken(&"the file is cut off");
    let within = |at: u64, n: u64| {
        let start = range.start.checked_add(at)?;
        let end = start.checked_add(n)?;
        (end <= range.end).then_some(start..end)
    };
    let start = source.range(within(0, 8).ok_or_else(cut)?)?;
    if !start.starts_with(MAGIC) {
        return Err(broken(&"this is no array in NumPy's format"));
    }
    let size = match start[6] {
        1 => 2,
        2 | 3 => 4,
        other => {
            return Err(broken(&format!(
                "the format's version is {other}, not 1 to 3"
            )));
        }
    };
    let mut length = [0; 8];
    length[..size].copy_from_slice(&source.range(within(8, size as u64).ok_or_else(cut)?)?);
    let length = u64::from_le_bytes(length);
    if length > MAX_HEADER {
        return Err(broken(&format!("a header of {length} bytes is too long")));
    }
    let at = 8 + size as u64;
    let text = source.range(within(at, length).ok_or_else(cut)?)?;
    let header = Header::parse(&text).map_err(|e| broken(&e))?;
    let stored = match header.descr {
        Descr::Numbers(stored) => stored,
        descr @ (Descr::Text { .. } | Descr::Foreign(_)) => {
            let what = match descr {
                Descr::Foreign(what) => what,
                _ => "texts".into(),
            };
            let why = format!("the array holds {what}; tensors do not");
            if source.keep_foreign {
                let what = format!("an array of {what} {:?}", header.shape);
                return Ok(Value::Foreign(Foreign::new(what, why)));
            }
            return Err(broken(&why).with_hint(OTHERS));
        }
    };
    let bytes = header
        .shape
        .iter()
        .try_fold(stored.size(), |n, &d| n.checked_mul(d))
        .ok_or_else(|| broken(&format!("the shape {:?} is too large", header.shape)))?;
    let place = within(at + length, bytes as u64).ok_or_else(cut)?;
    let storage = source
        .storages(&[place])?
        .pop()
        .ok_or_else(|| TorshError::out_of_memory(torsh_core::Device::Cpu, 0))?;
    let stride = if header.fortran_order {
        let reversed: Vec<usize> = header.shape.iter().rev().copied().collect();
        row_major(&reversed)?.into_iter().rev().collect()
    } else {
        row_major(&header.shape)?
    };
    let read = stored
        .read(storage, header.big_endian)
        .and_then(|(storage, dtype)| {
            if let Stored::Widened(_) = stored {
                source.widened.insert(storage.ptr() as usize, stored.name());
            }
            Tensor::from_storage(storage, dtype, &header.shape, &stride, 0)
        })
        .and_then(|tensor| tensor.to_device(source.device));
    match read {
        Ok(tensor) => Ok(Value::Tensor(tensor)),
        Err(e @ TorshError::DTypeMismatch(_)) if source.keep_foreign => {
            let what = format!("{} {:?}", stored.name(), header.shape);
            Ok(Value::Foreign(Foreign::new(what, message(&e))))
        }
        Err(e) => Err(in_file(&file, what, e)),
    }
}

/// The longest text that [`text`] reads.
const MAX_TEXT: usize = 64;

/// The text of an array that is a single short one, as NumPy keeps `b"csr"` and `"csr"`.
pub(crate) fn text(bytes: &[u8]) -> Option<String> {
    let size = match (bytes.starts_with(MAGIC), bytes.get(6)?) {
        (true, 1) => 2,
        (true, 2 | 3) => 4,
        _ => return None,
    };
    let mut length = [0; 8];
    length[..size].copy_from_slice(bytes.get(8..8 + size)?);
    let end = usize::try_from(u64::from_le_bytes(length)).ok()?;
    let end = end.checked_add(8 + size)?;
    let header = Header::parse(bytes.get(8 + size..end)?).ok()?;
    let Descr::Text { wide, length } = header.descr else {
        return None;
    };
    if !header.shape.is_empty() || length > MAX_TEXT {
        return None;
    }
    let text: String = match wide {
        false => bytes
            .get(end..end + length)?
            .iter()
            .map(|&b| char::from(b))
            .collect(),
        true => {
            let parts = bytes.get(end..end + 4 * length)?.chunks_exact(4);
            let code = |b: &[u8]| match header.big_endian {
                true => u32::from_be_bytes([b[0], b[1], b[2], b[3]]),
                false => u32::from_le_bytes([b[0], b[1], b[2], b[3]]),
            };
            parts
                .map(|b| char::from_u32(code(b)))
                .collect::<Option<_>>()?
        }
    };
    Some(text.trim_end_matches('\0').to_string())
}

/// An array that is this text, as [`text`] reads it.
pub(crate) fn of_text(text: &str) -> Vec<u8> {
    let header = Header {
        descr: Descr::Text {
            wide: false,
            length: text.len(),
        },
        big_endian: false,
        fortran_order: false,
        shape: Vec::new(),
    };
    let mut out = header.to_bytes();
    out.extend(text.bytes());
    out
}

/// Writes a tensor as a `.npy` file (`numpy.save`), row-major, whole or not at all.
///
/// An error for bfloat16, which NumPy lacks, and for a sparse tensor, which a `.pt` file or
/// [`sparse::save_npz`](crate::sparse::save_npz) keeps.
#[torsh_tensor::names_caller]
pub fn save(tensor: &Tensor, path: impl AsRef<Path>) -> Result<()> {
    strided("npy", "", tensor)?;
    let tensor = on_host(tensor)?;
    let header = header_of(&tensor)?;
    write_buffered(path.as_ref(), |to| write(&tensor, &header, to))
}

/// The bytes ahead of the elements, a multiple of 64.
pub(crate) fn header_of(tensor: &Tensor) -> Result<Vec<u8>> {
    if tensor.dtype() == DType::BF16 {
        return Err(TorshError::dtype("save", "NumPy has no bfloat16")
            .with_hint("convert it with to_dtype(DType::F32) first, or save a .pt file"));
    }
    Ok(Header {
        descr: Descr::Numbers(Stored::As(tensor.dtype())),
        big_endian: false,
        fortran_order: false,
        shape: tensor.dims().to_vec(),
    }
    .to_bytes())
}

pub(crate) fn write(tensor: &Tensor, header: &[u8], to: &mut (impl Write + ?Sized)) -> Result<()> {
    to.write_all(header)?;
    to.write_all(&little_endian(tensor)?)?;
    Ok(())
}
