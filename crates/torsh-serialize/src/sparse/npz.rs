//! Sparse matrices as SciPy's `save_npz` has them: the parts as arrays of a `.npz` file.

use std::path::Path;

use torsh_tensor::sparse::{Pattern, from_values, values};
use torsh_tensor::{DType, Device, Result, Tensor, TensorLayout, TorshError};

use super::check;
use crate::archive::{Archive, Writer};
use crate::atomic::write_buffered;
use crate::layout::on_host;
use crate::source::Source;
use crate::{LoadOptions, in_file, npy};

torsh_tensor::options! {
    /// How [`save_npz_with`] writes.
    NpzOptions {
        /// Whether the arrays are compressed, as SciPy does by default. Those that are not can be mapped when they are read.
        compressed: bool = true;
    }
}

/// Reads a sparse matrix that SciPy's `scipy.sparse.save_npz` wrote: `csr`, `csc`, `bsr`, or `coo` of any number of
/// dimensions, compressed or not.
///
/// Compressed formats keep the dtype of their indices, int32 or int64. SciPy's need not be sorted, and may have an element
/// twice: they are sorted then, and duplicates are added up. `coo` keeps the order of the file.
///
/// ```
/// use torsh_serialize::sparse::{load_npz, save_npz};
/// use torsh_tensor::sparse::{Pattern, from_values, values};
/// use torsh_tensor::{TensorLayout, tensor};
///
/// let path = std::env::temp_dir().join(format!("torsh-sparse-{}.npz", std::process::id()));
/// let (crow, col) = (tensor![0, 1, 3], tensor![2, 0, 1]);
/// let pattern = Pattern::compressed(TensorLayout::SparseCsr, &[2, 3], &crow, &col, None, 0)?;
/// save_npz(&from_values(&pattern, &tensor![1.0, 2.0, 3.0])?, &path)?;
/// let back = load_npz(&path)?;
/// assert_eq!((back.layout(), back.dims()), (TensorLayout::SparseCsr, &[2, 3][..]));
/// assert_eq!(values(&back)?, tensor![1.0, 2.0, 3.0]);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A file that cannot be read, has no such matrix (SciPy's `dia` is none), or contradicts itself: the error names the array.
#[torsh_tensor::names_caller]
pub fn load_npz(path: impl AsRef<Path>) -> Result<Tensor> {
    load(&mut Source::open(path.as_ref(), &LoadOptions::default())?)
}

/// [`load_npz`] of a file's bytes in memory.
///
/// ```
/// # use torsh_serialize::sparse::load_npz_bytes;
/// let error = load_npz_bytes(b"no archive").unwrap_err().to_string();
/// assert!(error.contains("zip archive"));
/// ```
#[torsh_tensor::names_caller]
pub fn load_npz_bytes(bytes: &[u8]) -> Result<Tensor> {
    load(&mut Source::bytes(bytes))
}

/// An archive and its arrays.
struct Arrays<'a, 'b> {
    source: &'a mut Source<'b>,
    archive: Archive,
}

impl Arrays<'_, '_> {
    /// The array of a name.
    #[track_caller]
    fn get(&mut self, name: &str) -> Result<Tensor> {
        let Some(entry) = self.archive.find(&format!("{name}.npy")) else {
            return Err(self.broken(&format!("the array {name} is missing")));
        };
        let value = crate::npz::read_entry(self.source, &self.archive, entry)?;
        value.as_tensor().cloned()
    }

    /// An array of indices: int32 or int64, all others of integers as int64.
    #[track_caller]
    fn indices(&mut self, name: &str, ndim: usize) -> Result<Tensor> {
        let array = self.get(name)?;
        let whole = !array.dtype().is_floating_point() && !array.dtype().is_complex();
        if array.ndim() != ndim || !whole || array.dtype() == DType::Bool {
            let what = array.describe();
            return Err(self.broken(&format!(
                "{name} is {what}, where integers of {ndim} dimensions should be"
            )));
        }
        match array.dtype() {
            DType::I32 | DType::I64 => Ok(array),
            _ => array.to_dtype(DType::I64),
        }
    }

    #[track_caller]
    fn broken(&self, why: &str) -> TorshError {
        self.source.broken(why)
    }
}

#[track_caller]
fn load(source: &mut Source) -> Result<Tensor> {
    let start = source.start()?;
    source.check_git_lfs(&start)?;
    let archive = Archive::open(source)?;
    let no_matrix = |source: &Source| {
        let why = "there is no sparse matrix of SciPy: its array format is missing or no text";
        source
            .broken(why)
            .with_hint("torsh_serialize::npz::load(path) reads the arrays of any .npz file")
    };
    let Some(entry) = archive.find("format.npy") else {
        return Err(no_matrix(source));
    };
    let format = npy::text(&archive.read(source, entry)?);
    let format = format.ok_or_else(|| no_matrix(source))?;
    let name = source.name.clone();
    let mut arrays = Arrays { source, archive };
    let shape = arrays.indices("shape", 1)?.to_vec::<i64>()?;
    let sizes: Option<Vec<usize>> = shape.iter().map(|&n| usize::try_from(n).ok()).collect();
    let Some(sizes) = sizes.filter(|s| s.len() <= 64) else {
        return Err(arrays.broken(&format!("the shape is {shape:?}")));
    };
    let data = arrays.get("data")?;
    let layout = match format.as_str() {
        "coo" => return coo(&mut arrays, &sizes, &data),
        "csr" => TensorLayout::SparseCsr,
        "csc" => TensorLayout::SparseCsc,
        "bsr" => TensorLayout::SparseBsr,
        other => {
            let other: String = other.chars().take(16).collect();
            return Err(arrays
                .broken(&format!("the format {other:?} is not csr, csc, bsr or coo"))
                .with_hint("convert the matrix in SciPy: matrix.tocsr()"));
        }
    };
    let (compressed, plain) = (arrays.indices("indptr", 1)?, arrays.indices("indices", 1)?);
    let about = format!("a {format} matrix of {sizes:?}");
    let made = compressed_matrix(layout, &sizes, compressed, plain, &data);
    made.map_err(|e| in_file(&name, &about, e))
}

#[track_caller]
fn coo(arrays: &mut Arrays<'_, '_>, sizes: &[usize], data: &Tensor) -> Result<Tensor> {
    let indices = match arrays.archive.find("coords.npy").is_some() {
        true => arrays.indices("coords", 2)?.to_dtype(DType::I64)?,
        false => {
            let (row, col) = (arrays.indices("row", 1)?, arrays.indices("col", 1)?);
            if row.numel() != col.numel() {
                return Err(arrays.broken(&format!(
                    "row has {} elements and col {}",
                    row.numel(),
                    col.numel()
                )));
            }
            let (row, col) = (row.to_dtype(DType::I64)?, col.to_dtype(DType::I64)?);
            Tensor::stack(&[row, col], 0)?
        }
    };
    let about = format!("a coo matrix of {sizes:?}");
    let list = indices.to_vec::<i64>()?;
    let nnz = indices.dims().last().copied().unwrap_or(0);
    let named = |e| in_file(&arrays.source.name, &about, e);
    let pattern = Pattern::coo(sizes, &indices, check::rises(&list, nnz)).map_err(named)?;
    if let Err(why) = check::indices(&pattern, &[list]) {
        return Err(arrays.broken(&format!("{about}: {why}")));
    }
    if pattern.dense_dim() > 0 {
        return Err(arrays.broken(&format!("{about} has indices of fewer dimensions")));
    }
    from_values(&pattern, data).map_err(named)
}

fn wrong(why: String) -> TorshError {
    TorshError::format("load", why)
}

/// The matrix of SciPy's `indptr`, `indices` and `data`.
fn compressed_matrix(
    layout: TensorLayout,
    sizes: &[usize],
    compressed: Tensor,
    plain: Tensor,
    data: &Tensor,
) -> Result<Tensor> {
    let (mut compressed, mut plain, mut data) = (compressed, plain, data.clone());
    if compressed.dtype() != plain.dtype() {
        (compressed, plain) = (
            compressed.to_dtype(DType::I64)?,
            plain.to_dtype(DType::I64)?,
        );
    }
    let lines = compressed.to_dtype(DType::I64)?.to_vec::<i64>()?;
    let end = lines.last().copied().unwrap_or(0);
    let stored = plain.numel().min(data.dims().first().copied().unwrap_or(0));
    match usize::try_from(end) {
        Ok(end) if end <= stored => {
            // SciPy allows arrays that are longer than what is used of them.
            plain = plain.narrow(0, 0, end)?;
            data = data.narrow(0, 0, end)?;
        }
        _ => {
            return Err(wrong(format!(
                "indptr ends with {end}, and there are {} indices and data of {:?}",
                plain.numel(),
                data.dims()
            )));
        }
    }
    let pattern = check::compressed_pattern(layout, sizes, &compressed, &plain, &data)?;
    let mut lists = [lines, plain.to_dtype(DType::I64)?.to_vec::<i64>()?];
    if let Err(why) = check::indices(&pattern, &lists) {
        let sorted = Sorted::of(&lists[0], &lists[1]).ok_or_else(|| wrong(why))?;
        data = sorted.apply(&data)?;
        let index = |v: &[i64]| Tensor::from_data(v, [v.len()])?.to_dtype(plain.dtype());
        lists = [sorted.lines, sorted.plain];
        let pattern = check::compressed_pattern(
            layout,
            sizes,
            &index(&lists[0])?,
            &index(&lists[1])?,
            &data,
        )?;
        check::indices(&pattern, &lists).map_err(wrong)?;
        return from_values(&pattern, &data);
    }
    from_values(&pattern, &data)
}

/// Compressed indices that are sorted, each once.
struct Sorted {
    lines: Vec<i64>,
    plain: Vec<i64>,
    /// Where each of the elements was before, in the order of the indices.
    order: Vec<i64>,
    /// Which of the sorted elements each of them belongs to.
    place: Vec<i64>,
}

impl Sorted {
    /// `None` where the lines do not rise within the indices.
    fn of(lines: &[i64], plain: &[i64]) -> Option<Sorted> {
        let mut out = Sorted {
            lines: vec![0],
            plain: Vec::with_capacity(plain.len()),
            order: Vec::with_capacity(plain.len()),
            place: Vec::with_capacity(plain.len()),
        };
        if lines.first() != Some(&0) {
            return None;
        }
        for pair in lines.windows(2) {
            let (from, to) = (
                usize::try_from(pair[0]).ok()?,
                usize::try_from(pair[1]).ok()?,
            );
            let own = plain.get(from..to)?;
            let mut order: Vec<usize> = (0..own.len()).collect();
            order.sort_by_key(|&i| own[i]);
            let start = out.plain.len();
            for i in order {
                if out.plain.len() == start || out.plain.last() != Some(&own[i]) {
                    out.plain.push(own[i]);
                }
                out.order.push((from + i) as i64);
                out.place.push(out.plain.len() as i64 - 1);
            }
            out.lines.push(out.plain.len() as i64);
        }
        Some(out)
    }

    /// The values in the same order, those of duplicates added up.
    fn apply(&self, data: &Tensor) -> Result<Tensor> {
        let index = |v: &[i64]| Tensor::from_data(v, [v.len()]);
        let sorted = data.index_select(0, &index(&self.order)?)?;
        if self.plain.len() == self.order.len() {
            return Ok(sorted);
        }
        let mut shape = data.dims().to_vec();
        shape[0] = self.plain.len();
        Tensor::zeros(shape, data.dtype(), Device::Cpu)?.index_add(0, &index(&self.place)?, &sorted)
    }
}

/// Writes a sparse matrix as SciPy's `scipy.sparse.save_npz` does, compressed, whole or not at all. SciPy's `load_npz` reads
/// it.
///
/// ```
/// use torsh_serialize::sparse::{load_npz, save_npz};
/// use torsh_tensor::sparse::{Pattern, from_values, values};
/// use torsh_tensor::tensor;
///
/// let path = std::env::temp_dir().join(format!("torsh-save-{}.npz", std::process::id()));
/// let pattern = Pattern::coo(&[3, 4], &tensor![[0, 2], [3, 1]], true)?;
/// save_npz(&from_values(&pattern, &tensor![5, 6])?, &path)?;
/// assert_eq!(values(&load_npz(&path)?)?, tensor![5, 6]);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A strided tensor, one of BSC, and one with batch or dense dimensions, for which SciPy has no format; bfloat16, which
/// NumPy lacks; a file that cannot be written.
#[torsh_tensor::names_caller]
pub fn save_npz(matrix: &Tensor, path: impl AsRef<Path>) -> Result<()> {
    save(matrix, path.as_ref(), &NpzOptions::default())
}

/// [`save_npz`] with options.
///
/// ```
/// use torsh_serialize::sparse::{NpzOptions, load_npz, save_npz_with};
/// use torsh_tensor::sparse::{Pattern, from_values};
/// use torsh_tensor::tensor;
///
/// let path = std::env::temp_dir().join(format!("torsh-with-{}.npz", std::process::id()));
/// let pattern = Pattern::coo(&[3, 4], &tensor![[0, 2], [3, 1]], true)?;
/// let matrix = from_values(&pattern, &tensor![5, 6])?;
/// save_npz_with(&matrix, &path, NpzOptions::new().compressed(false))?;
/// assert_eq!(load_npz(&path)?.dims(), [3, 4]);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn save_npz_with(matrix: &Tensor, path: impl AsRef<Path>, options: NpzOptions) -> Result<()> {
    save(matrix, path.as_ref(), &options)
}

fn save(matrix: &Tensor, path: &Path, options: &NpzOptions) -> Result<()> {
    let matrix = matrix.detach();
    let refused = |why: &str, hint: &str| {
        let what = matrix.describe();
        let why = format!(
            "{why}, and the tensor is {what} of the layout {}",
            matrix.layout()
        );
        Err(TorshError::invalid("save_npz", why).with_hint(hint))
    };
    let Some(pattern) = matrix.pattern() else {
        return refused(
            "SciPy's files are of sparse matrices",
            "npz::save writes strided tensors; to_sparse_csr() makes a sparse one",
        );
    };
    if pattern.dense_dim() > 0 || pattern.batch_dim() > 0 {
        let hint = "save a .pt file, which has batch and dense dimensions";
        return refused("SciPy's matrices have no batch or dense dimensions", hint);
    }
    let format = match pattern.layout() {
        TensorLayout::SparseCoo => "coo",
        TensorLayout::SparseCsr => "csr",
        TensorLayout::SparseCsc => "csc",
        TensorLayout::SparseBsr => "bsr",
        _ => {
            let hint = "convert it: to_sparse_bsr(..) or to_sparse_csc()";
            return refused("SciPy has no format of the layout", hint);
        }
    };
    let indices = pattern.indices();
    let mut arrays: Vec<(&str, Tensor)> = Vec::with_capacity(4);
    match pattern.compressed_indices() {
        Some(compressed) => {
            arrays.push(("indices", indices.clone()));
            arrays.push(("indptr", compressed.clone()));
        }
        None if pattern.sparse_dim() == 2 => {
            arrays.push(("row", indices.select(0, 0)?));
            arrays.push(("col", indices.select(0, 1)?));
        }
        None => arrays.push(("coords", indices.clone())),
    }
    let shape: Vec<i64> = pattern.shape().iter().map(|&n| n as i64).collect();
    arrays.push(("shape", Tensor::from_data(&shape, [shape.len()])?));
    arrays.push(("data", values(&matrix)?));
    let mut files = Vec::with_capacity(arrays.len());
    for (name, array) in arrays {
        let array = on_host(&array)?;
        files.push((name, npy::header_of(&array)?, array));
    }
    write_buffered(path, |to| {
        let mut zip = Writer::new(to);
        let mut add =
            |name: &str, size: usize, write: &dyn Fn(&mut dyn std::io::Write) -> Result<()>| {
                let name = format!("{name}.npy");
                match options.compressed {
                    true => zip.add_deflated(&name, size as u64, write),
                    false => zip.add(&name, size as u64, write),
                }
            };
        let text = npy::of_text(format);
        add("format", text.len(), &|to| Ok(to.write_all(&text)?))?;
        for (name, header, array) in &files {
            let size = header.len() + array.numel() * array.dtype().size();
            add(name, size, &|to| npy::write(array, header, to))?;
        }
        zip.finish().map(drop)
    })
}
