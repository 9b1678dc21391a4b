//! PyTorch's cache: files by name in `$TORCH_HOME/hub/checkpoints`, with the start of their SHA-256 in the name.

use std::path::Path;

use torsh_tensor::Result;

use super::{CachedFile, State, Store, entries};
use crate::checksum::Checksum;
use crate::errors;

/// What is in the folder. Python's unfinished downloads end with `.partial`, or have a random name.
pub(crate) fn list(checkpoints: &Path) -> Result<Vec<CachedFile>> {
    let mut out = Vec::new();
    for (name, path) in entries(checkpoints)? {
        let about = path.metadata().map_err(|e| errors::at("hub", &path, e))?;
        let notes = name.starts_with('.') && name.ends_with(".part.json");
        let aside = cfg!(windows) && torsh_serialize::files::is_aside(&name);
        if !about.is_file() || notes || aside {
            continue;
        }
        let (state, plain) = if let Some(plain) = name.strip_suffix(".bad") {
            (State::Bad, plain.to_string())
        } else if let Some(plain) = name.strip_prefix('.').and_then(|n| n.strip_suffix(".part")) {
            (State::Part, plain.to_string())
        } else if name.ends_with(".partial") {
            (State::Part, name.clone())
        } else {
            (State::Whole, name.clone())
        };
        out.push(CachedFile {
            store: Store::Torch,
            repo: None,
            revision: None,
            refs: Vec::new(),
            size: about.len(),
            checksum: Checksum::in_file_name(&plain).filter(|_| state == State::Whole),
            name: plain,
            path,
            state,
        });
    }
    Ok(out)
}
