//! What several tests use.
#![allow(dead_code)]

use std::path::PathBuf;

use torsh_core::random::{EnteredGenerator, LocalGenerator};
use torsh_tensor::{DType, Result, Tensor};

/// A default generator of the test's own: other tests draw from the process's at the same time.
pub fn own_draws() -> EnteredGenerator {
    LocalGenerator::new(0).enter()
}

/// A folder of its own for each test, removed at the end.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("torsh-train-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn names(&self) -> Vec<String> {
        names(&self.0)
    }
}

pub fn names(folder: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Points around three centres, and which.
pub fn blobs(n: usize) -> Result<(Tensor, Tensor)> {
    let y: Vec<i64> = (0..n as i64).map(|i| i % 3).collect();
    let y = Tensor::from_vec(y, [n])?;
    let x = Tensor::from_fn([n, 6], |i| {
        let wave = ((i[0] * 7 + i[1] * 13) % 11) as f32 / 11.0 - 0.5;
        wave + if i[1] % 3 == i[0] % 3 { 1.0 } else { 0.0 }
    })?;
    Ok((x, y.to_dtype(DType::I64)?))
}
