//! PyTorch's `.pt` and `.pth` files, in the zip container and in the one before PyTorch 1.6.
//!
//! The objects in them are pickles, which are programs for a small stack machine. The machine here
//! (`unpickle`) builds tensors, numbers, strings and containers. It refuses any other name in a file,
//! so no code of the file is executed.

mod build;
mod globals;
mod legacy;
mod pickle;
mod reduce;
mod unpickle;

use std::path::Path;

use torsh_tensor::{Result, TorshError};

use crate::archive::{Archive, Entry, Writer};
use crate::atomic::write_buffered;
use crate::layout::write_storage;
use crate::source::Source;
use crate::{Dict, LoadOptions, Value};

/// How deep containers may lie in each other.
pub(crate) const MAX_DEPTH: usize = 128;

/// Reads a file that `torch.save` wrote, to the CPU (`torch.load` with `map_location="cpu"` and
/// `weights_only=True`).
///
/// Tensors that shared a storage share it again, with their strides and offsets. In the zip
/// container they lie in the mapped file. So do indices and values of sparse tensors, whose indices are read and checked:
/// bounds, order, counts.
///
/// ```
/// use torsh_serialize::{Value, pt};
/// use torsh_tensor::tensor;
///
/// let path = std::env::temp_dir().join(format!("torsh-pt-{}.pt", std::process::id()));
/// let weight = tensor![[1.0, 2.0], [3.0, 4.0]];
/// let tied = Value::from([("a", Value::from(&weight)), ("b", Value::from(weight.t()?))]);
/// pt::save(&tied, &path)?;
/// let back = pt::load(&path)?;
/// let (a, b) = (back.get("a")?.as_tensor()?, back.get("b")?.as_tensor()?);
/// a.add_(10.0)?;
/// assert_eq!(b.to_vec::<f32>()?, [11.0, 13.0, 12.0, 14.0]);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// What the file holds besides tensors, numbers, texts and containers is refused by its name, as
/// whole modules and quantized, nested or float8 tensors; [`load_readable`](crate::load_readable) gives the tensors
/// beside it. uint16 becomes int32, uint32 and uint64 become int64, where int64 holds the numbers.
///
/// # TorchScript
/// Of an archive that `torch.jit.save` wrote, the tensors are read by their names in the module, as a state dict; buffers
/// that a state dict leaves out are among them. The program in it is not run, and its other values are left out.
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

/// [`load_bytes`] with options, of which [`LoadOptions::mmap`] says nothing here.
#[torsh_tensor::names_caller]
pub fn load_bytes_with(bytes: &[u8], options: LoadOptions) -> Result<Value> {
    read(&mut Source::bytes_with(bytes, &options))
}

/// Reads a file that Python's `pickle` wrote by itself, as data sets such as CIFAR are: containers, numbers, texts and arrays
/// of NumPy, which become tensors. Nothing of the file is executed.
///
/// ```
/// use torsh_serialize::pt;
///
/// let path = std::env::temp_dir().join(format!("torsh-pickle-{}", std::process::id()));
/// // pickle.dumps({"labels": [6, 9]}, protocol=2)
/// std::fs::write(&path, b"\x80\x02}U\x06labels](K\x06K\x09es.")?;
/// assert_eq!(pt::load_pickle(&path)?.at(&["labels", "1"])?.as_int()?, 9);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A file that cannot be read, is cut off, or holds anything else, which is refused by its name.
#[torsh_tensor::names_caller]
pub fn load_pickle(path: impl AsRef<Path>) -> Result<Value> {
    let mut source = Source::open(path.as_ref(), &LoadOptions::default())?;
    let start = source.start()?;
    source.check_git_lfs(&start)?;
    let bytes = source.range(0..source.len)?;
    let object = unpickle::unpickle(&mut unpickle::Input::new(&bytes), false)
        .map_err(|why| refused(&source, why))?;
    if !object.storages.is_empty() {
        return Err(source.broken("holds tensors of PyTorch, which a pickle by itself has not"));
    }
    build::build(&mut source, object, Vec::new(), false)
}

/// [`load_pickle`] of a file that also holds objects of the classes of some modules. Such an object is read as data: as its
/// state where it has one (a dict of its attributes, mostly), else as a tuple of what it was made of. Its class is not
/// looked up, and nothing of it is executed. A dict with such objects as keys becomes a list of pairs.
///
/// ```
/// use torsh_serialize::pt;
///
/// let path = std::env::temp_dir().join(format!("torsh-records-{}", std::process::id()));
/// // pickle.dumps(pathlib.PurePosixPath("a", "b"), protocol=2)
/// std::fs::write(&path, b"\x80\x02cpathlib\nPurePosixPath\nU\x01aU\x01b\x86R.")?;
/// assert!(pt::load_pickle(&path).is_err());
/// assert_eq!(pt::load_records(&path, &["pathlib"])?.at(&["1"])?.as_str()?, "b");
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`load_pickle`]; classes of other modules are refused by their names.
#[torsh_tensor::names_caller]
pub fn load_records(path: impl AsRef<Path>, modules: &[&str]) -> Result<Value> {
    load_records_with(path, modules, LoadOptions::default())
}

/// [`load_records`] with options: [`LoadOptions::keep_foreign`] keeps objects of other classes as such.
///
/// # Errors
/// As there.
#[torsh_tensor::names_caller]
pub fn load_records_with(
    path: impl AsRef<Path>,
    modules: &[&str],
    options: LoadOptions,
) -> Result<Value> {
    let mut source = Source::open(path.as_ref(), &options)?;
    let start = source.start()?;
    source.check_git_lfs(&start)?;
    let bytes = source.range(0..source.len)?;
    let object = unpickle::unpickle_records(
        &mut unpickle::Input::new(&bytes),
        modules,
        source.keep_foreign,
    )
    .map_err(|why| refused(&source, why))?;
    if !object.storages.is_empty() {
        return Err(source.broken("holds tensors of PyTorch, which a pickle by itself has not"));
    }
    build::build(&mut source, object, Vec::new(), false)
}

#[track_caller]
fn read(source: &mut Source) -> Result<Value> {
    let start = source.start()?;
    source.check_git_lfs(&start)?;
    if is_legacy(&start) {
        return read_legacy(source);
    }
    if start.starts_with(b"PK") {
        let archive = Archive::open(source)?;
        return read_zip(source, archive);
    }
    Err(other_format(source, &start))
}

/// Whether a file starts as the container before PyTorch 1.6: a pickle of its magic number.
pub(crate) fn is_legacy(start: &[u8]) -> bool {
    // PROTO n, then (FRAME of protocol 4 and later, and) LONG1 of ten bytes.
    let magic = &legacy::MAGIC[..];
    start.first() == Some(&0x80)
        && (start.get(2..2 + magic.len()) == Some(magic)
            || start.get(11..11 + magic.len()) == Some(magic))
}

pub(crate) use legacy::read as read_legacy;

/// Says what a file is that has none of the formats.
#[track_caller]
pub(crate) fn other_format(source: &Source, start: &[u8]) -> TorshError {
    let (what, hint) = if start.get(257..262) == Some(b"ustar") {
        (
            "this is a tar archive, the container of PyTorch before 0.1.10 where it is one",
            "load it with PyTorch and save it again with torch.save",
        )
    } else if start.first() == Some(&0x80) {
        (
            "this is a pickle, but none that torch.save wrote",
            "save tensors with torch.save, or as safetensors",
        )
    } else if start.is_empty() {
        ("the file is empty", "write it again")
    } else {
        (
            "this is no file of PyTorch, safetensors or NumPy",
            "it may be cut off or damaged at its start",
        )
    };
    source.broken(what).with_hint(hint)
}

fn pickle_of(archive: &Archive) -> Option<&Entry> {
    archive
        .entries
        .iter()
        .find(|e| e.name.split_once('/').is_some_and(|(_, n)| n == "data.pkl"))
}

/// Whether an archive is a checkpoint, else it may be a `.npz`.
pub(crate) fn is_checkpoint(archive: &Archive) -> bool {
    pickle_of(archive).is_some()
}

#[track_caller]
pub(crate) fn read_zip(source: &mut Source, archive: Archive) -> Result<Value> {
    let Some(pickle) = pickle_of(&archive) else {
        return Err(source.broken("this zip archive is no checkpoint: it has no data.pkl"));
    };
    let prefix = pickle.name.trim_end_matches("data.pkl");
    let named = |name: &str| archive.find(&format!("{prefix}{name}"));
    let script = named("constants.pkl").is_some();
    let big_endian = match named("byteorder") {
        None => false,
        Some(entry) => match archive.read(source, entry)?.trim_ascii() {
            b"little" => false,
            b"big" => true,
            other => {
                let other = String::from_utf8_lossy(other).into_owned();
                return Err(source.broken(format!(
                    "the byte order {other:?} is neither little nor big"
                )));
            }
        },
    };
    let bytes = archive.read(source, pickle)?;
    let mut input = unpickle::Input::new(&bytes);
    let object = match script {
        true => unpickle::unpickle_script(&mut input, source.keep_foreign),
        false => unpickle::unpickle(&mut input, source.keep_foreign),
    };
    let object = object.map_err(|why| refused(source, why))?;
    let entries = object
        .storages
        .iter()
        .map(|s| {
            named(&format!("data/{}", s.key))
                .ok_or_else(|| source.broken(format!("the storage {} is missing", s.key)))
        })
        .collect::<Result<Vec<_>>>()?;
    let storages = archive.storages(source, &entries)?;
    let value = build::build(source, object, storages, big_endian)?;
    if !script {
        return Ok(value);
    }
    let mut tensors = Dict::new();
    // A long name that many tensors are below would be repeated for each.
    let mut budget = bytes.len().saturating_mul(64).saturating_add(1 << 20);
    match flatten(&value, "", &mut budget, &mut tensors) {
        Ok(()) => Ok(Value::Dict(tensors)),
        Err(e) => Err(crate::in_file(&source.name, "the names of its tensors", e)),
    }
}

/// The tensors of a TorchScript module by name: attributes, and the modules below it, joined by dots.
fn flatten(value: &Value, name: &str, budget: &mut usize, out: &mut Dict) -> Result<()> {
    let mut below = |part: &str, value: &Value, out: &mut Dict| {
        let left = budget.checked_sub(name.len() + part.len());
        *budget =
            left.ok_or_else(|| TorshError::format("load", "they are far longer than the file"))?;
        let inner = match name {
            "" => part.to_string(),
            _ => format!("{name}.{part}"),
        };
        flatten(value, &inner, budget, out)
    };
    match value {
        Value::Tensor(_) | Value::Parameter(_) | Value::Foreign(_) => {
            let name = if name.is_empty() { "tensor" } else { name };
            out.insert(name, value.clone()).map(drop)
        }
        Value::Dict(dict) => dict.iter().try_for_each(|(key, value)| match key {
            Value::Str(key) => below(key, value, out),
            Value::Int(key) => below(&key.to_string(), value, out),
            _ => Ok(()),
        }),
        Value::List(items) | Value::Tuple(items) => {
            let mut numbered = items.iter().enumerate();
            numbered.try_for_each(|(i, value)| below(&i.to_string(), value, out))
        }
        _ => Ok(()),
    }
}

/// An error of the unpickler, under the file's name.
#[track_caller]
fn refused(source: &Source, why: unpickle::Why) -> TorshError {
    let error = source.broken(&why.what);
    match why.hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}

/// Writes a value as PyTorch's zip container, which `torch.load(path, weights_only=True)` reads;
/// whole or not at all.
///
/// A tensor is written with all of its storage, once for all tensors that share it; a sparse one as its indices and
/// values. Tensors of every
/// device are written as the CPU's, so that the file loads where that device is not;
/// [`LoadOptions::device`](crate::LoadOptions::device) brings them back.
///
/// # Errors
/// A file that cannot be written, tensors of different dtypes on one storage, meta tensors, and
/// containers in each other more than 128 deep.
#[torsh_tensor::names_caller]
pub fn save(value: &Value, path: impl AsRef<Path>) -> Result<()> {
    let (pickle, tensors) = pickle::pickle(value)?;
    write_buffered(path.as_ref(), |to| {
        let mut zip = Writer::new(to);
        let mut text = |name: &str, bytes: &[u8]| {
            zip.add(&format!("archive/{name}"), bytes.len() as u64, |to| {
                Ok(to.write_all(bytes)?)
            })
        };
        text("data.pkl", &pickle)?;
        text(".format_version", b"1")?;
        text(".storage_alignment", b"64")?;
        text("byteorder", b"little")?;
        for (key, tensor) in tensors.iter().enumerate() {
            let size = tensor.untyped_storage()?.bytes() as u64;
            zip.add(&format!("archive/data/{key}"), size, |to| {
                write_storage(tensor, to)
            })?;
        }
        zip.add("archive/version", 2, |to| Ok(to.write_all(b"3\n")?))?;
        zip.finish().map(drop)
    })
}
