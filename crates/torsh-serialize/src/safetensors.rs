//! The safetensors format, which PyTorch and Hugging Face read.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;

use safetensors::tensor::{Dtype, SafeTensorError, View};
use serde::Deserialize;
use torsh_tensor::{DType, Result, Tensor, TorshError};

use crate::atomic::write_whole;
use crate::foreign::{Foreign, LeftOut, OTHERS};
use crate::layout::{little_endian, on_host, strided};
use crate::source::{Source, io_error};
use crate::stored::{Stored, no_dtype};
use crate::{LoadOptions, Value, in_file, message};

/// The format's own limit to a header's size.
const MAX_HEADER: u64 = 100_000_000;

/// The dtypes that are written.
const DTYPES: [(DType, Dtype); 11] = [
    (DType::F32, Dtype::F32),
    (DType::F64, Dtype::F64),
    (DType::F16, Dtype::F16),
    (DType::BF16, Dtype::BF16),
    (DType::I8, Dtype::I8),
    (DType::U8, Dtype::U8),
    (DType::I16, Dtype::I16),
    (DType::I32, Dtype::I32),
    (DType::I64, Dtype::I64),
    (DType::Bool, Dtype::BOOL),
    (DType::C64, Dtype::C64),
];

/// The dtype of a name of the format; `None` for those that no version of it has.
fn stored(name: &str) -> Option<Stored> {
    Stored::of_torch(match name {
        "F64" => "float64",
        "F32" => "float32",
        "F16" => "float16",
        "BF16" => "bfloat16",
        "I64" => "int64",
        "I32" => "int32",
        "I16" => "int16",
        "I8" => "int8",
        "U64" => "uint64",
        "U32" => "uint32",
        "U16" => "uint16",
        "U8" => "uint8",
        "BOOL" => "bool",
        "C64" => "complex64",
        "F8_E4M3" => "float8_e4m3fn",
        "F8_E5M2" => "float8_e5m2",
        "F8_E4M3FNUZ" => "float8_e4m3fnuz",
        "F8_E5M2FNUZ" => "float8_e5m2fnuz",
        "F8_E8M0" => "float8_e8m0fnu",
        _ => return None,
    })
}

/// The bits of an element of a name of the format that is no dtype of PyTorch.
fn bits(name: &str) -> Option<usize> {
    match name {
        "F4" => Some(4),
        "F6_E2M3" | "F6_E3M2" => Some(6),
        _ => None,
    }
}

/// The JSON at the start of a file.
#[derive(Deserialize)]
struct Header {
    #[serde(rename = "__metadata__")]
    metadata: Option<HashMap<String, String>>,
    #[serde(flatten)]
    tensors: HashMap<String, Info>,
}

/// What it says of a tensor. The dtype is a text, so that one that is not known here refuses no file.
#[derive(Deserialize)]
struct Info {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (u64, u64),
}

impl Info {
    /// An error where the range of the data is not what dtype and shape need.
    fn check(&self) -> Result<(), &'static str> {
        let (from, to) = self.data_offsets;
        let bits = match stored(&self.dtype) {
            Some(stored) => 8 * stored.size(),
            None => match bits(&self.dtype) {
                Some(bits) => bits,
                None => return Ok(()),
            },
        };
        let all = self.shape.iter().try_fold(bits, |n, &d| n.checked_mul(d));
        match all {
            None => Err("its shape is too large"),
            Some(all) if all % 8 != 0 || (all / 8) as u64 != to - from => {
                Err("its bytes are not as many as its shape and dtype need")
            }
            Some(_) => Ok(()),
        }
    }

    /// Its dtype and shape in words.
    fn what(&self) -> String {
        let name = match stored(&self.dtype) {
            Some(stored) => stored.name(),
            None => self.dtype.as_str(),
        };
        format!("{name} {:?}", self.shape)
    }
}

/// What a safetensors file holds.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// The tensors by name, in the order of their data, which is the writer's for tensors of one
    /// dtype.
    pub tensors: Vec<(String, Tensor)>,
    /// Texts about them.
    pub metadata: HashMap<String, String>,
    /// The tensors that were left out, where [`LoadOptions::keep_foreign`] asks for the others.
    pub left_out: Vec<LeftOut>,
}

/// Whether a file may be of this format: a header's length, and the header's first byte.
pub(crate) fn looks_like(start: &[u8]) -> bool {
    start.get(8) == Some(&b'{')
}

/// Reads a safetensors file. Tensors lie in the mapped file where their place is aligned.
///
/// ```
/// use torsh_serialize::safetensors;
/// use torsh_tensor::tensor;
///
/// let path = std::env::temp_dir().join(format!("torsh-{}.safetensors", std::process::id()));
/// safetensors::save([("x", &tensor![1, 2, 3])], &path)?;
/// let file = safetensors::load(&path)?;
/// assert_eq!(file.tensors[0].0, "x");
/// assert_eq!(file.tensors[0].1, tensor![1, 2, 3]);
/// assert_eq!(file.metadata["format"], "pt");
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn load(path: impl AsRef<Path>) -> Result<Contents> {
    load_with(path, LoadOptions::default())
}

/// [`load`] with options.
#[torsh_tensor::names_caller]
pub fn load_with(path: impl AsRef<Path>, options: LoadOptions) -> Result<Contents> {
    read(&mut Source::open(path.as_ref(), &options)?)
}

/// [`load`] of a file's bytes in memory.
#[torsh_tensor::names_caller]
pub fn load_bytes(bytes: &[u8]) -> Result<Contents> {
    read(&mut Source::bytes(bytes))
}

#[track_caller]
fn read(source: &mut Source) -> Result<Contents> {
    let mut out = Contents::default();
    for (name, value) in read_values(source)? {
        match value {
            Value::Foreign(foreign) => out.left_out.push(LeftOut::new(name, &foreign)),
            value => out.tensors.push((name, value.as_tensor()?.clone())),
        }
    }
    out.metadata = std::mem::take(&mut source.metadata);
    Ok(out)
}

/// The tensors by name; what cannot be read is an error, or kept as such where the source says so.
#[track_caller]
pub(crate) fn read_values(source: &mut Source) -> Result<Vec<(String, Value)>> {
    let start = source.start()?;
    source.check_git_lfs(&start)?;
    let name = source.name.clone();
    let broken = |why: &dyn std::fmt::Display| {
        TorshError::format(
            "load",
            format!("{name} is no whole safetensors file: {why}"),
        )
        .with_hint("it may be cut off, or of another format; write it again")
    };
    let length = source
        .range(0..8)
        .map_err(|_| broken(&"it has no header"))?;
    let length = u64::from_le_bytes(length.try_into().unwrap_or_default());
    if length > MAX_HEADER || length > source.len - 8 {
        return Err(broken(&"its header is longer than it can be"));
    }
    let data = 8 + length;
    let header = source.range(8..data)?;
    let header: Header = serde_json::from_slice(&header).map_err(|e| broken(&e))?;
    source.metadata = header.metadata.unwrap_or_default();

    // In the order of their data, without a byte between them that belongs to none.
    let mut entries: Vec<(String, Info)> = header.tensors.into_iter().collect();
    entries.sort_by(|(a, x), (b, y)| x.data_offsets.cmp(&y.data_offsets).then(a.cmp(b)));
    let mut end = 0;
    for (name, info) in &entries {
        let (from, to) = info.data_offsets;
        if from != end || to < from {
            return Err(broken(&format!(
                "the data of {name} is at {from} to {to}, and should begin at {end}"
            )));
        }
        info.check()
            .map_err(|why| broken(&format!("{name}: {why}")))?;
        end = to;
    }
    let end = end.checked_add(data);
    let end = end.ok_or_else(|| broken(&"an offset is too large"))?;
    if end != source.len {
        return Err(broken(&format!(
            "it has {} bytes where its header speaks of {end}",
            source.len
        )));
    }
    if !source.keep_foreign
        && let Some((name, info, why)) = entries
            .iter()
            .find_map(|(name, info)| Some((name, info, foreign(info)?)))
    {
        let why = format!("{}: {name} ({}): {why}", source.name, info.what());
        return Err(TorshError::dtype("load", why).with_hint(OTHERS));
    }
    let ranges: Vec<_> = entries
        .iter()
        .map(|(_, info)| data + info.data_offsets.0..data + info.data_offsets.1)
        .collect();
    let storages = source.storages(&ranges)?;
    let mut out = Vec::with_capacity(entries.len());
    for ((name, info), storage) in entries.into_iter().zip(storages) {
        let what = info.what();
        let Some(stored) = stored(&info.dtype) else {
            let why = foreign(&info).unwrap_or_default();
            out.push((name, Value::Foreign(Foreign::new(what, why))));
            continue;
        };
        let tensor = stored.read(storage, false).and_then(|(storage, dtype)| {
            if let Stored::Widened(_) = stored {
                source.widened.insert(storage.ptr() as usize, stored.name());
            }
            let stride = row_major(&info.shape)?;
            Tensor::from_storage(storage, dtype, &info.shape, &stride, 0)?.to_device(source.device)
        });
        match tensor {
            Ok(tensor) => out.push((name, Value::Tensor(tensor))),
            Err(e @ TorshError::DTypeMismatch(_)) if source.keep_foreign => {
                out.push((name, Value::Foreign(Foreign::new(what, message(&e)))));
            }
            Err(e) => return Err(in_file(&source.name, &name, e)),
        }
    }
    Ok(out)
}

/// Why a tensor of a dtype that tensors here lack is not read.
fn foreign(info: &Info) -> Option<String> {
    match stored(&info.dtype) {
        Some(Stored::As(_) | Stored::Widened(_)) => None,
        Some(Stored::Foreign(name, _)) => Some(no_dtype(name)),
        None => Some(format!(
            "it is of {}, for which there is no dtype",
            info.dtype.chars().take(40).collect::<String>()
        )),
    }
}

/// The strides of a row-major tensor.
pub(crate) fn row_major(shape: &[usize]) -> Result<Vec<usize>> {
    let mut stride = vec![1usize; shape.len()];
    for d in (1..shape.len()).rev() {
        stride[d - 1] = stride[d].checked_mul(shape[d].max(1)).ok_or_else(|| {
            TorshError::shape("load", format!("the shape {shape:?} is too large"))
        })?;
    }
    Ok(stride)
}

struct Entry<'a> {
    tensor: Tensor,
    dtype: Dtype,
    /// The first error of reading a tensor's data, for which the trait has no place.
    failed: &'a RefCell<Option<TorshError>>,
}

impl View for &Entry<'_> {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        self.tensor.dims()
    }

    fn data(&self) -> Cow<'_, [u8]> {
        match little_endian(&self.tensor) {
            Ok(bytes) => bytes.into(),
            Err(e) => {
                self.failed.borrow_mut().get_or_insert(e);
                Cow::Borrowed(&[])
            }
        }
    }

    fn data_len(&self) -> usize {
        self.tensor.numel() * self.tensor.dtype().size()
    }
}

/// Writes tensors as a safetensors file, whole or not at all. Views are written as their elements,
/// row-major; tensors that share memory are written each on its own.
///
/// An error for complex128 and for sparse tensors, which the format lacks.
#[torsh_tensor::names_caller]
pub fn save<'a>(
    tensors: impl IntoIterator<Item = (impl AsRef<str>, &'a Tensor)>,
    path: impl AsRef<Path>,
) -> Result<()> {
    let format = HashMap::from([("format".to_string(), "pt".to_string())]);
    save_with(tensors, &format, path)
}

/// [`save`] with texts of one's own in the header (`format` is `pt` by PyTorch's convention).
#[torsh_tensor::names_caller]
pub fn save_with<'a>(
    tensors: impl IntoIterator<Item = (impl AsRef<str>, &'a Tensor)>,
    metadata: &HashMap<String, String>,
    path: impl AsRef<Path>,
) -> Result<()> {
    let path = path.as_ref();
    let failed = RefCell::new(None);
    let mut entries = Vec::new();
    for (name, tensor) in tensors {
        let name = name.as_ref();
        strided("safetensors", name, tensor)?;
        let dtype = tensor.dtype();
        let Some((_, file_dtype)) = DTYPES.iter().find(|(d, _)| *d == dtype) else {
            return Err(TorshError::dtype(
                "save",
                format!("safetensors has no {dtype}, the dtype of {name}"),
            )
            .with_hint("convert it with to_dtype(DType::C64) first, or save a .pt file"));
        };
        let entry = Entry {
            tensor: on_host(tensor)?,
            dtype: *file_dtype,
            failed: &failed,
        };
        entries.push((name.to_string(), entry));
    }
    let about = (!metadata.is_empty()).then(|| metadata.clone());
    let views = entries.iter().map(|(name, entry)| (name, entry));
    write_whole(path, |beside| {
        // The crate asks for the data of one tensor at a time.
        let written = safetensors::serialize_to_file(views, about, beside);
        match (failed.take(), written) {
            (Some(e), _) => Err(e),
            (None, Ok(())) => Ok(()),
            (None, Err(SafeTensorError::IoError(e))) => Err(io_error(path, e)),
            (None, Err(e)) => Err(TorshError::format(
                "save",
                format!("{}: {e}", path.display()),
            )),
        }
    })
}
