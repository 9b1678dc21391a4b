//! Checkpoints as a folder.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value as Json, json};
use torsh_serialize::{LoadOptions, Value, files, pt, safetensors};
use torsh_tensor::{DType, Result, TorshError};

use super::file::{beside, clean, io_error};
use super::{Checkpoint, VERSION, tensors};

const MODEL: &str = "model.safetensors";
const STATE: &str = "state.pt";
/// Written last, so that a folder with it has all files.
const CONTENTS: &str = "checkpoint.json";
const FORMAT: &str = "torsh-checkpoint";

/// Size and checksum of a file.
fn sum(path: &Path) -> Result<(u64, u32)> {
    let io = |e| io_error(path, e);
    let mut file = File::open(path).map_err(io)?;
    let (mut block, mut bytes) = (vec![0; 1 << 20], 0);
    let mut crc = crc32fast::Hasher::new();
    loop {
        match file.read(&mut block).map_err(io)? {
            0 => return Ok((bytes, crc.finalize())),
            n => {
                bytes += n as u64;
                crc.update(&block[..n]);
            }
        }
    }
}

/// Puts the names in a folder on the disk.
fn sync_folder(folder: &Path) -> Result<()> {
    files::sync_folder(folder).map_err(|e| io_error(folder, e))
}

#[track_caller]
pub(super) fn save(checkpoint: &Checkpoint, path: &Path) -> Result<()> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    clean(path)?;
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let new = beside(path, &format!("{}.{number}.tmp", std::process::id()))?;
    let written = write(checkpoint, &new).and_then(|()| exchange(&new, path));
    if written.is_err() {
        // The first error is the one to report.
        let _ = fs::remove_dir_all(&new);
    }
    written
}

fn write(checkpoint: &Checkpoint, folder: &Path) -> Result<()> {
    fs::create_dir(folder).map_err(|e| io_error(folder, e))?;
    let mut files = serde_json::Map::new();
    let mut without = Vec::new();
    // safetensors has no complex128.
    let model = checkpoint.part("model").and_then(tensors);
    if let Some(model) = model.filter(|m| m.iter().all(|(_, t)| t.dtype() != DType::C128)) {
        safetensors::save(model, folder.join(MODEL))?;
        files.insert(MODEL.into(), Json::Null);
        without.push("model");
    }
    pt::save(&checkpoint.to_value(&without), folder.join(STATE))?;
    files.insert(STATE.into(), Json::Null);
    for (name, about) in &mut files {
        let (bytes, crc) = sum(&folder.join(name))?;
        *about = json!({ "bytes": bytes, "crc32": crc });
    }
    let contents = json!({
        "format": FORMAT,
        "version": VERSION,
        "epoch": checkpoint.epoch,
        "step": checkpoint.step,
        "files": files,
    });
    let path = folder.join(CONTENTS);
    let io = |e| io_error(&path, e);
    let mut file = File::create_new(&path).map_err(io)?;
    writeln!(file, "{contents:#}").map_err(io)?;
    file.sync_all().map_err(io)?;
    sync_folder(folder)
}

/// Gives a new folder its name. A folder cannot take the place of another at once, so the older one
/// has a second name in between, under which [`find`] finds it.
fn exchange(new: &Path, path: &Path) -> Result<()> {
    let previous = beside(path, "previous")?;
    let io = |e| io_error(path, e);
    if path.exists() {
        if !is_checkpoint(path) {
            return Err(TorshError::invalid(
                "Checkpoint::save_folder",
                format!("{} is there and is no checkpoint", path.display()),
            )
            .with_hint("choose a path at which nothing is yet"));
        }
        if previous.exists() {
            fs::remove_dir_all(&previous).map_err(io)?;
        }
        files::rename_folder(path, &previous).map_err(io)?;
    }
    files::rename_folder(new, path).map_err(io)?;
    sync_folder(files::parent(path))?;
    if previous.exists() {
        let removed = fs::remove_dir_all(&previous);
        // On Windows a file of it may be open; the next save removes it.
        if !cfg!(windows) {
            removed.map_err(io)?;
        }
    }
    Ok(())
}

fn is_checkpoint(path: &Path) -> bool {
    path.join(CONTENTS).is_file()
}

/// The folder that holds the checkpoint of a path, if one does.
pub(super) fn find(path: &Path) -> Option<PathBuf> {
    if path.is_dir() {
        return Some(path.to_path_buf());
    }
    let previous = beside(path, "previous").ok()?;
    (!path.exists() && is_checkpoint(&previous)).then_some(previous)
}

#[track_caller]
pub(super) fn load(folder: &Path) -> Result<Checkpoint> {
    let contents = folder.join(CONTENTS);
    let refused = |why: String| {
        TorshError::format("Checkpoint::load", format!("{}: {why}", folder.display()))
    };
    if !is_checkpoint(folder) {
        return Err(refused(format!(
            "this is no checkpoint: there is no {CONTENTS}"
        )));
    }
    let text = fs::read_to_string(&contents).map_err(|e| io_error(&contents, e))?;
    let about: Json =
        serde_json::from_str(&text).map_err(|e| refused(format!("{CONTENTS} is damaged: {e}")))?;
    if about["format"] != FORMAT || about["version"].as_i64() != Some(VERSION) {
        return Err(refused(format!(
            "{CONTENTS} speaks of {} {}, this program reads {FORMAT} {VERSION}",
            about["format"], about["version"]
        )));
    }
    let files = about["files"].as_object();
    let files = files.ok_or_else(|| refused(format!("{CONTENTS} is damaged: no files")))?;
    if !files.contains_key(STATE) {
        return Err(refused(format!("{CONTENTS} is damaged: no {STATE}")));
    }
    for (name, about) in files {
        if ![MODEL, STATE].contains(&name.as_str()) {
            return Err(refused(format!(
                "{CONTENTS} is damaged: {name:?} is no file of it"
            )));
        }
        let (bytes, crc) = sum(&folder.join(name))?;
        let (wanted, sum) = (about["bytes"].as_u64(), about["crc32"].as_u64());
        if Some(bytes) != wanted {
            return Err(refused(format!(
                "{name} has {bytes} bytes, {} were written: it is cut off or another file",
                about["bytes"]
            )));
        }
        if Some(u64::from(crc)) != sum {
            return Err(refused(format!(
                "{name} is damaged: its bytes do not have the checksum written with them"
            )));
        }
    }
    // The sums above cover the tensors.
    let state = folder.join(STATE);
    let value = pt::load_with(&state, LoadOptions::new())?;
    let mut checkpoint = Checkpoint::from_value(&state, value)?;
    if files.contains_key(MODEL) {
        let model = safetensors::load(folder.join(MODEL))?;
        let model = Value::from(model.tensors);
        checkpoint.parts.insert("model".to_string(), model);
    }
    Ok(checkpoint)
}
