//! The safetensors format, which PyTorch and Hugging Face read.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;

use safetensors::tensor::{Dtype, Metadata, SafeTensorError, View};
use torsh_tensor::{DType, Result, Tensor, TorshError};

use crate::atomic::write_whole;
use crate::layout::{little_endian, on_host, usable};
use crate::source::{Source, io_error};
use crate::{LoadOptions, in_file};

/// The format's own limit to a header's size.
const MAX_HEADER: u64 = 100_000_000;

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

/// What a safetensors file holds.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// The tensors by name, in the order of their data, which is the writer's for tensors of one
    /// dtype.
    pub tensors: Vec<(String, Tensor)>,
    /// Texts about them.
    pub metadata: HashMap<String, String>,
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
#[track_caller]
pub fn load_with(path: impl AsRef<Path>, options: LoadOptions) -> Result<Contents> {
    read(&mut Source::open(path.as_ref(), &options)?)
}

/// [`load`] of a file's bytes in memory.
#[track_caller]
pub fn load_bytes(bytes: &[u8]) -> Result<Contents> {
    read(&mut Source::bytes(bytes))
}

#[track_caller]
pub(crate) fn read(source: &mut Source) -> Result<Contents> {
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
    let header: Metadata = serde_json::from_slice(&header).map_err(|e| broken(&e))?;

    let infos = header.tensors();
    let mut entries = Vec::with_capacity(infos.len());
    let mut end = data;
    for name in header.offset_keys() {
        let info = infos
            .get(&name)
            .ok_or_else(|| broken(&"a name is missing"))?;
        let Some((dtype, _)) = DTYPES.iter().find(|(_, d)| *d == info.dtype) else {
            return Err(TorshError::dtype(
                "load",
                format!(
                    "{}: {name} is {:?}, for which there is no dtype",
                    source.name, info.dtype
                ),
            ));
        };
        let (from, to) = info.data_offsets;
        let place = |at: usize| {
            u64::try_from(at)
                .ok()
                .and_then(|at| at.checked_add(data))
                .ok_or_else(|| broken(&"an offset is too large"))
        };
        let range = place(from)?..place(to)?;
        end = end.max(range.end);
        entries.push((name, *dtype, info.shape.clone(), range));
    }
    if end != source.len {
        return Err(broken(&format!(
            "it has {} bytes where its header speaks of {end}",
            source.len
        )));
    }
    let ranges: Vec<_> = entries.iter().map(|e| e.3.clone()).collect();
    let storages = source.storages(&ranges)?;
    let mut tensors = Vec::with_capacity(entries.len());
    for ((name, dtype, shape, _), storage) in entries.into_iter().zip(storages) {
        let tensor = usable(storage, dtype, false).and_then(|storage| {
            let stride = row_major(&shape)?;
            Tensor::from_storage(storage, dtype, &shape, &stride, 0)?.to_device(source.device)
        });
        let tensor = tensor.map_err(|e| in_file(&source.name, &name, e))?;
        tensors.push((name, tensor));
    }
    Ok(Contents {
        tensors,
        metadata: header.metadata().clone().unwrap_or_default(),
    })
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
/// An error for complex128, which the format lacks.
#[track_caller]
pub fn save<'a>(
    tensors: impl IntoIterator<Item = (impl AsRef<str>, &'a Tensor)>,
    path: impl AsRef<Path>,
) -> Result<()> {
    let format = HashMap::from([("format".to_string(), "pt".to_string())]);
    save_with(tensors, &format, path)
}

/// [`save`] with texts of one's own in the header (`format` is `pt` by PyTorch's convention).
#[track_caller]
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
