//! Files of MATLAB, version 5 to 7.2 (`.mat`), as far as they hold arrays of numbers.
//!
//! A file has a header of 128 bytes and elements; an element may be compressed with zlib. Arrays are stored column by column.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use flate2::bufread::ZlibDecoder;
use torsh_tensor::{DType, Result, Tensor, TorshError};

use super::common::{broken, io_error, read_bounded};

const OP: &str = "read_mat";

const HEADER: usize = 128;

/// zlib makes at most 1,032 bytes of one.
const MAX_RATIO: u64 = 1040;

/// The types of elements that are no numbers.
const MATRIX: u32 = 14;
const COMPRESSED: u32 = 15;

/// The arrays of numbers of a file by name (`scipy.io.loadmat`), in the order of the file; cells, structures and texts are
/// passed over.
///
/// A tensor has the shape that the array has in MATLAB, and its dtype, or the next wider where there is none.
///
/// # Errors
/// A file that cannot be read, is of another version, is damaged, or claims arrays that it cannot hold. The error names
/// the file, the array and the place.
#[torsh_tensor::names_caller]
pub fn read_mat(path: impl AsRef<Path>) -> Result<Vec<(String, Tensor)>> {
    let path = path.as_ref();
    let mut file = File::open(path).map_err(|e| io_error(path, e))?;
    torsh_core::check_git_lfs_file("read_mat", path.display(), &mut file)?;
    let length = file.metadata().map_err(|e| io_error(path, e))?.len();
    let mut file = BufReader::with_capacity(1 << 17, file);
    let mut header = [0u8; HEADER];
    let place = Place { path, at: 0 };
    file.read_exact(&mut header).map_err(|e| place.failed(e))?;
    let big = match (&header[126..128], &header[124..126]) {
        (b"IM", [0, 1]) => false,
        (b"MI", [1, 0]) => true,
        (b"IM" | b"MI", _) => {
            return Err(broken(
                OP,
                path,
                "this is a file of another version of MATLAB than 5",
            )
            .with_hint("save it with the option -v7"));
        }
        _ if header.starts_with(b"\x89HDF") || header.starts_with(b"MATLAB 7.3") => {
            return Err(
                broken(OP, path, "this is a file of MATLAB 7.3, which is HDF5")
                    .with_hint("save it with the option -v7"),
            );
        }
        _ => return Err(broken(OP, path, "this is no file of MATLAB")),
    };
    let mut arrays = Vec::new();
    let mut at = HEADER as u64;
    while at < length {
        let place = Place { path, at };
        let mut tag = [0u8; 8];
        file.read_exact(&mut tag).map_err(|e| place.failed(e))?;
        let (kind, size) = (word(&tag, 0, big), u64::from(word(&tag, 4, big)));
        if size > length - at - 8 {
            return Err(place.broken(format!(
                "an element claims {size} bytes, and the file has {} more",
                length - at - 8
            )));
        }
        at += 8 + size;
        let mut element = (&mut file).take(size);
        let array = match kind {
            COMPRESSED => {
                let mut inner = ZlibDecoder::new(&mut element);
                let mut tag = [0u8; 8];
                inner.read_exact(&mut tag).map_err(|e| place.failed(e))?;
                let (kind, inner_size) = (word(&tag, 0, big), u64::from(word(&tag, 4, big)));
                if inner_size > size.saturating_mul(MAX_RATIO) {
                    return Err(place.broken(format!(
                        "a compressed element of {size} bytes claims {inner_size}"
                    )));
                }
                let array = match kind {
                    MATRIX => matrix(&mut inner, inner_size, big, &place)?,
                    _ => None,
                };
                if array.is_some() {
                    // Reading on compares the checksum.
                    let rest = io::copy(&mut (&mut inner).take(1), &mut io::sink());
                    rest.map_err(|e| place.failed(e))?;
                }
                array
            }
            MATRIX => matrix(&mut element, size, big, &place)?,
            _ => None,
        };
        arrays.extend(array);
        // What an element has that was not needed.
        io::copy(&mut element, &mut io::sink()).map_err(|e| place.failed(e))?;
    }
    Ok(arrays)
}

/// The array of a name.
#[track_caller]
pub(super) fn array(op: &'static str, path: &Path, name: &str) -> Result<Tensor> {
    let all = read_mat(path).map_err(|e| e.renamed(op))?;
    let names: Vec<String> = all.iter().map(|(name, _)| name.clone()).collect();
    let found = all.into_iter().find(|(n, _)| n == name);
    found.map(|(_, tensor)| tensor).ok_or_else(|| {
        let why = format!("there is no array {name:?}; there are {names:?}");
        broken(op, path, why)
    })
}

/// Where in a file an element is.
struct Place<'a> {
    path: &'a Path,
    at: u64,
}

impl Place<'_> {
    #[track_caller]
    fn broken(&self, why: impl std::fmt::Display) -> TorshError {
        broken(OP, self.path, format!("byte {}: {why}", self.at))
    }

    #[track_caller]
    fn failed(&self, e: io::Error) -> TorshError {
        match e.kind() {
            io::ErrorKind::UnexpectedEof => self.broken("the file is cut short"),
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
                self.broken(format!("the compressed data is damaged: {e}"))
            }
            _ => io_error(self.path, e),
        }
    }
}

/// A number of 32 bits.
fn word(bytes: &[u8], at: usize, big: bool) -> u32 {
    let four = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
    match big {
        true => u32::from_be_bytes(four),
        false => u32::from_le_bytes(four),
    }
}

/// The type and the bytes of the next part of an array. `left` counts what the array still has.
fn part(
    from: &mut impl Read,
    left: &mut u64,
    big: bool,
    place: &Place<'_>,
) -> Result<(u32, Vec<u8>)> {
    let mut tag = [0u8; 8];
    if *left < 8 {
        return Err(place.broken("an array is cut short"));
    }
    from.read_exact(&mut tag).map_err(|e| place.failed(e))?;
    *left -= 8;
    let kind = word(&tag, 0, big);
    // Up to four bytes lie in the tag itself.
    let small = kind >> 16;
    if small != 0 {
        let data = tag[4..].get(..small as usize);
        let data = data.ok_or_else(|| place.broken(format!("a small element of {small} bytes")))?;
        return Ok((kind & 0xffff, data.to_vec()));
    }
    let size = u64::from(word(&tag, 4, big));
    if size > *left {
        return Err(place.broken(format!(
            "a part of an array claims {size} bytes, and the array has {left} more"
        )));
    }
    let data = read_bounded(&mut (&mut *from).take(size), size).map_err(|e| place.failed(e))?;
    if data.len() as u64 != size {
        return Err(place.broken("the file is cut short"));
    }
    // Parts end at a multiple of eight bytes; the last one may not.
    let padding = (size.wrapping_neg() % 8).min(*left - size);
    let skipped = io::copy(&mut (&mut *from).take(padding), &mut io::sink());
    skipped.map_err(|e| place.failed(e))?;
    *left -= size + padding;
    Ok((kind, data))
}

/// An array of numbers with its name, or nothing where it is of another kind.
fn matrix(
    from: &mut impl Read,
    size: u64,
    big: bool,
    place: &Place<'_>,
) -> Result<Option<(String, Tensor)>> {
    let mut left = size;
    let (_, flags) = part(from, &mut left, big, place)?;
    if flags.len() < 8 {
        return Err(place.broken("an array has no flags"));
    }
    let flags = word(&flags, 0, big);
    let dtype = match flags & 0xff {
        6 => DType::F64,
        7 => DType::F32,
        8 => DType::I8,
        9 => DType::U8,
        10 => DType::I16,
        11 | 12 => DType::I32,
        13..=15 => DType::I64,
        _ => return Ok(None),
    };
    let (_, dims) = part(from, &mut left, big, place)?;
    let dims: Vec<usize> = (0..dims.len() / 4)
        .map(|i| word(&dims, 4 * i, big) as usize)
        .collect();
    let (_, name) = part(from, &mut left, big, place)?;
    let name = String::from_utf8_lossy(&name).into_owned();
    let within = |why: String| place.broken(format!("the array {name:?}: {why}"));
    if flags & 0x800 != 0 {
        return Err(within("complex numbers are not read".to_string()));
    }
    let count = dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
    let Some(count) = count.filter(|n| *n as u64 <= left) else {
        return Err(within(format!(
            "it claims {dims:?} numbers, and has {left} bytes"
        )));
    };
    let (kind, data) = part(from, &mut left, big, place)?;
    let flat = numbers(kind, &data, big, dtype).ok_or_else(|| {
        within(format!(
            "its numbers are of the type {kind}, which {dtype} does not hold"
        ))
    })??;
    if flat.numel() != count {
        return Err(within(format!(
            "it claims {dims:?}, and has {} numbers",
            flat.numel()
        )));
    }
    // Column by column is row by row of the dimensions in reverse.
    let reversed: Vec<usize> = dims.iter().rev().copied().collect();
    let order: Vec<i64> = (0..dims.len() as i64).rev().collect();
    let tensor = flat.reshape(reversed).and_then(|t| t.permute(order));
    let tensor = tensor.map_err(|e| match e.info() {
        Some(info) => within(info.message.clone()),
        None => e,
    })?;
    Ok(Some((name, tensor)))
}

/// The numbers of a part as a flat tensor; `None` where the type is unknown or a number does not fit.
fn numbers(kind: u32, data: &[u8], big: bool, dtype: DType) -> Option<Result<Tensor>> {
    let stored = match kind {
        1 => DType::I8,
        2 => DType::U8,
        3 => DType::I16,
        5 => DType::I32,
        7 => DType::F32,
        9 => DType::F64,
        12 => DType::I64,
        4 | 6 | 13 => return unsigned(kind, data, big, dtype),
        _ => return None,
    };
    let size = stored.size();
    let n = data.len() / size;
    let mut bytes = data[..n * size].to_vec();
    if big != cfg!(target_endian = "big") {
        bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
    let tensor = Tensor::from_bytes(&bytes, stored, [n]);
    Some(tensor.and_then(|tensor| tensor.to_dtype(dtype)))
}

/// The same of unsigned numbers of 16, 32 and 64 bits.
fn unsigned(kind: u32, data: &[u8], big: bool, dtype: DType) -> Option<Result<Tensor>> {
    let size = match kind {
        4 => 2,
        6 => 4,
        _ => 8,
    };
    let number = |bytes: &[u8]| -> Option<i64> {
        let push = |n: u64, b: &u8| (n << 8) | u64::from(*b);
        let n = match big {
            true => bytes.iter().fold(0, push),
            false => bytes.iter().rev().fold(0, push),
        };
        i64::try_from(n).ok()
    };
    let numbers: Option<Vec<i64>> = data.chunks_exact(size).map(number).collect();
    let numbers = numbers?;
    let n = numbers.len();
    Some(Tensor::from_vec(numbers, [n]).and_then(|tensor| tensor.to_dtype(dtype)))
}
