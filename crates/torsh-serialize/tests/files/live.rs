//! Files that Python writes now, where `TORSH_PYTHON` names one with PyTorch, NumPy and safetensors.

use std::path::Path;
use std::process::Command;

use super::{data, numpy, pytorch, safe, scratch};

/// Runs a script of `data` on a folder, where there is a Python; what it printed.
pub(super) fn python(script: &str, dir: &Path) -> Option<String> {
    let python = std::env::var_os("TORSH_PYTHON")?;
    let mut command = Command::new(python);
    let out = command.arg(data(script)).arg(dir).output().unwrap();
    let text = String::from_utf8_lossy;
    assert!(out.status.success(), "{script}: {}", text(&out.stderr));
    Some(text(&out.stdout).into_owned())
}

#[test]
fn what_python_writes_is_read() {
    let dir = scratch("live");
    if let Some(said) = python("make.py", &dir) {
        pytorch::containers(&dir);
        numpy::archives(&dir);
        numpy::arrays(&dir);
        if !said.contains("safetensors is not there") {
            safe::every_dtype(&dir);
        }
    }
    std::fs::remove_dir_all(&dir).unwrap();
}
