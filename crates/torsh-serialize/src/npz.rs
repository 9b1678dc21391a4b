//! NumPy's `.npz` files: zip archives of arrays.

use std::path::Path;

use torsh_tensor::{Result, Tensor};

use crate::archive::{Archive, Entry, Writer};
use crate::atomic::write_buffered;
use crate::foreign::Foreign;
use crate::layout::{on_host, strided};
use crate::npy;
use crate::source::Source;
use crate::{LoadOptions, Value};

/// Reads the arrays of a `.npz` file by name, in the file's order (`numpy.load`). Compressed ones
/// are read too.
///
/// ```
/// use torsh_serialize::npz;
/// use torsh_tensor::tensor;
///
/// let path = std::env::temp_dir().join(format!("torsh-{}.npz", std::process::id()));
/// npz::save([("x", &tensor![1.0, 2.0]), ("y", &tensor![true])], &path)?;
/// let arrays = npz::load(&path)?;
/// assert_eq!((arrays[1].0.as_str(), &arrays[1].1), ("y", &tensor![true]));
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`npy::load`], and where the archive holds something else than arrays.
/// [`load_readable`](crate::load_readable) gives the arrays beside those that cannot be read.
#[track_caller]
pub fn load(path: impl AsRef<Path>) -> Result<Vec<(String, Tensor)>> {
    load_with(path, LoadOptions::default())
}

/// [`load`] with options.
#[torsh_tensor::names_caller]
pub fn load_with(path: impl AsRef<Path>, options: LoadOptions) -> Result<Vec<(String, Tensor)>> {
    load_from(&mut Source::open(
        path.as_ref(),
        &options.keep_foreign(false),
    )?)
}

/// [`load`] of a file's bytes in memory.
#[torsh_tensor::names_caller]
pub fn load_bytes(bytes: &[u8]) -> Result<Vec<(String, Tensor)>> {
    load_from(&mut Source::bytes(bytes))
}

#[track_caller]
fn load_from(source: &mut Source) -> Result<Vec<(String, Tensor)>> {
    let start = source.start()?;
    source.check_git_lfs(&start)?;
    let archive = Archive::open(source)?;
    let values = read(source, archive)?.into_iter();
    values
        .map(|(name, value)| Ok((name, value.as_tensor()?.clone())))
        .collect()
}

/// The arrays; what cannot be read is an error, or kept as such where the source says so.
#[track_caller]
pub(crate) fn read(source: &mut Source, archive: Archive) -> Result<Vec<(String, Value)>> {
    let mut out = Vec::with_capacity(archive.entries.len());
    for entry in &archive.entries {
        let Some(name) = entry.name.strip_suffix(".npy") else {
            if source.keep_foreign {
                let foreign = Foreign::new("a file of the archive", "it is no array of NumPy");
                out.push((entry.name.clone(), Value::Foreign(foreign)));
                continue;
            }
            return Err(source.broken(format!(
                "{} is no array; this zip archive is neither a .npz nor a checkpoint of PyTorch",
                entry.name
            )));
        };
        out.push((name.to_string(), read_entry(source, &archive, entry)?));
    }
    Ok(out)
}

/// One array of an archive.
#[track_caller]
pub(crate) fn read_entry(source: &mut Source, archive: &Archive, entry: &Entry) -> Result<Value> {
    Ok(match (archive.range(entry), entry.foreign()) {
        (Some(range), _) => npy::read_at(source, range, &entry.name)?,
        (None, Some(why)) if source.keep_foreign => {
            Value::Foreign(Foreign::new("an array of NumPy", why))
        }
        (None, _) => {
            let bytes = archive.read(source, entry)?;
            let mut inner = Source::bytes(&bytes);
            inner.name = source.name.clone();
            (inner.device, inner.keep_foreign) = (source.device, source.keep_foreign);
            let value = npy::read_at(&mut inner, 0..bytes.len() as u64, &entry.name)?;
            source.widened.extend(inner.widened);
            value
        }
    })
}

/// Writes tensors as a `.npz` file (`numpy.savez`), whole or not at all.
///
/// An error for bfloat16, which NumPy lacks, for a sparse tensor, which [`sparse::save_npz`](crate::sparse::save_npz)
/// writes as SciPy does, and for a name that comes twice.
#[torsh_tensor::names_caller]
pub fn save<'a>(
    tensors: impl IntoIterator<Item = (impl AsRef<str>, &'a Tensor)>,
    path: impl AsRef<Path>,
) -> Result<()> {
    let mut all = Vec::new();
    for (name, tensor) in tensors {
        strided("npz", name.as_ref(), tensor)?;
        let tensor = on_host(tensor)?;
        let header = npy::header_of(&tensor)
            .map_err(|e| e.with_hint(format!("{} is of this dtype", name.as_ref())))?;
        all.push((name.as_ref().to_string(), header, tensor));
    }
    write_buffered(path.as_ref(), |to| {
        let mut zip = Writer::new(to);
        for (name, header, tensor) in &all {
            let size = header.len() + tensor.numel() * tensor.dtype().size();
            zip.add(&format!("{name}.npy"), size as u64, |to| {
                npy::write(tensor, header, to)
            })?;
        }
        zip.finish().map(drop)
    })
}
