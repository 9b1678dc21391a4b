//! The IDX format of MNIST and similar data sets.
//!
//! A file has two zero bytes, a code of the element type, the number of dimensions, each dimension as
//! a 32-bit integer, and then the elements in row-major order. All numbers are big-endian. Files may
//! be compressed with gzip.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use torsh_tensor::{DType, Result, Tensor, TorshError};

/// gzip cannot make data more than about 1032 times smaller.
const MAX_RATIO: u64 = 1040;

/// More dimensions than any file has.
const MAX_DIMS: usize = 32;

/// What is read at a time, so that memory grows with the data and not with what a header claims.
const STEP: usize = 1 << 20;

/// Reads a file, plain or compressed with gzip (told apart by its content), as a tensor of dtype
/// uint8, int8, int16, int32, float32 or float64.
///
/// Errors name the file: it is missing, no IDX file, cut short, longer than it says, or claims
/// sizes that it cannot have.
#[torsh_tensor::names_caller]
pub fn read(path: impl AsRef<Path>) -> Result<Tensor> {
    let path = path.as_ref();
    let name = path.display().to_string();
    let file = File::open(path)
        .map_err(|e| TorshError::from(std::io::Error::new(e.kind(), format!("{name}: {e}"))))?;
    let bytes = file.metadata().map(|m| m.len()).unwrap_or(u64::MAX);
    read_from(BufReader::new(file), bytes, &name)
}

/// [`read`] of a file in memory.
///
/// ```
/// use torsh_data::idx;
/// use torsh_tensor::{DType, tensor};
///
/// // uint8, two dimensions, of 1 and 3.
/// let bytes = [0, 0, 0x08, 2, 0, 0, 0, 1, 0, 0, 0, 3, 7, 8, 9];
/// assert_eq!(idx::read_bytes(&bytes)?, tensor![[7, 8, 9]].to_dtype(DType::U8)?);
/// let error = idx::read_bytes(&bytes[..14]).unwrap_err().to_string();
/// assert!(error.contains("the file is cut short"));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn read_bytes(bytes: &[u8]) -> Result<Tensor> {
    read_from(bytes, bytes.len() as u64, "IDX data")
}

fn damaged(name: &str, what: impl std::fmt::Display) -> TorshError {
    TorshError::format("idx::read", format!("{name}: {what}"))
}

/// Reads an error of a reader: the end of the data, damaged compression, or the system's.
fn failed(name: &str, e: std::io::Error) -> TorshError {
    use std::io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    match e.kind() {
        UnexpectedEof => damaged(name, "the file is cut short"),
        InvalidData | InvalidInput => damaged(name, format!("the compressed data is damaged: {e}")),
        kind => TorshError::from(std::io::Error::new(kind, format!("{name}: {e}"))),
    }
}

#[track_caller]
fn read_from(mut source: impl std::io::BufRead, bytes: u64, name: &str) -> Result<Tensor> {
    let start = source.fill_buf().map_err(|e| failed(name, e))?;
    torsh_core::check_git_lfs("idx::read", name, start)?;
    if start.starts_with(&[0x1f, 0x8b]) {
        read_plain(
            MultiGzDecoder::new(source),
            bytes.saturating_mul(MAX_RATIO),
            name,
        )
    } else {
        read_plain(source, bytes, name)
    }
}

#[track_caller]
fn read_plain(mut source: impl Read, at_most: u64, name: &str) -> Result<Tensor> {
    let mut magic = [0u8; 4];
    source.read_exact(&mut magic).map_err(|e| failed(name, e))?;
    let dtype = match magic {
        [0, 0, 0x08, _] => DType::U8,
        [0, 0, 0x09, _] => DType::I8,
        [0, 0, 0x0B, _] => DType::I16,
        [0, 0, 0x0C, _] => DType::I32,
        [0, 0, 0x0D, _] => DType::F32,
        [0, 0, 0x0E, _] => DType::F64,
        _ => {
            return Err(damaged(
                name,
                format!("not an IDX file: it starts with {magic:02x?}"),
            ));
        }
    };
    let ndim = usize::from(magic[3]);
    if ndim > MAX_DIMS {
        return Err(damaged(
            name,
            format!("it claims {ndim} dimensions, more than {MAX_DIMS}"),
        ));
    }
    let mut dims = Vec::with_capacity(ndim);
    for _ in 0..ndim {
        let mut size = [0u8; 4];
        source.read_exact(&mut size).map_err(|e| failed(name, e))?;
        dims.push(u32::from_be_bytes(size) as usize);
    }
    // A dimension of 0 does not make the others any smaller.
    let total = dims
        .iter()
        .try_fold(dtype.size(), |a, &d| a.checked_mul(d.max(1)))
        .filter(|&t| t <= isize::MAX as usize)
        .map(|t| if dims.contains(&0) { 0 } else { t });
    let total = match total {
        Some(t) if t as u64 <= at_most => t,
        _ => {
            return Err(damaged(
                name,
                format!("it claims {dtype}{dims:?}, more than the file can hold"),
            ));
        }
    };
    let mut data = Vec::new();
    while data.len() < total {
        let have = data.len();
        data.resize(total.min(have + STEP), 0);
        source
            .read_exact(&mut data[have..])
            .map_err(|e| failed(name, e))?;
    }
    if source.read(&mut [0u8; 1]).map_err(|e| failed(name, e))? != 0 {
        return Err(damaged(
            name,
            format!("there is more data than its {dtype}{dims:?}"),
        ));
    }
    if cfg!(target_endian = "little") {
        for element in data.chunks_exact_mut(dtype.size()) {
            element.reverse();
        }
    }
    Tensor::from_bytes(&data, dtype, dims)
}
