//! The tensors of a TorchScript archive, whose code is not run.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use torsh_tensor::Tensor;
use zip::ZipArchive;

/// Reads float32 tensors from the storages `data/FIRST`, `data/FIRST + 1`, ... of an archive: a name and a shape each.
pub(super) fn tensors<'n>(
    path: &Path,
    first: usize,
    names: &[(&'n str, &[usize])],
) -> Result<Vec<(&'n str, Tensor)>, String> {
    let fail = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let file = File::open(path).map_err(|e| fail(&e))?;
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(|e| fail(&e))?;
    let prefix = archive
        .file_names()
        .find_map(|name| name.strip_suffix("data.pkl"))
        .ok_or_else(|| fail(&"the archive has no data.pkl"))?
        .to_string();
    let mut out = Vec::with_capacity(names.len());
    for (i, (name, shape)) in names.iter().enumerate() {
        let entry = format!("{prefix}data/{}", first + i);
        let mut entry_file = archive.by_name(&entry).map_err(|e| fail(&e))?;
        let wanted = 4 * shape.iter().product::<usize>();
        if entry_file.size() != wanted as u64 {
            return Err(fail(&format!(
                "{entry} has {} bytes, {name} of shape {shape:?} needs {wanted}",
                entry_file.size()
            )));
        }
        let mut bytes = Vec::with_capacity(wanted);
        entry_file.read_to_end(&mut bytes).map_err(|e| fail(&e))?;
        let values: Vec<f32> = bytes
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect();
        let tensor = Tensor::from_data(&values, *shape).map_err(|e| fail(&e))?;
        out.push((*name, tensor));
    }
    Ok(out)
}
