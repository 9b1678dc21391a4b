//! Downloads, caches, repositories and models, with a server of the tests' own.

mod caches;
mod checkpoints;
mod downloads;
mod mirrors;
mod models;
mod repositories;
mod server;

use std::path::PathBuf;
use std::time::Duration;

use torsh_hub::{Environment, Hub, HubBuilder};
use torsh_tensor::TorshError;

/// A folder of a test's own, removed at its end.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Scratch {
        let dir = std::env::temp_dir().join(format!("torsh-hub-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        Scratch(dir)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The names of all files, with their folders and `/` between.
    pub(crate) fn files(&self) -> Vec<String> {
        let mut out = Vec::new();
        let mut left = vec![self.0.clone()];
        while let Some(dir) = left.pop() {
            for entry in std::fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.symlink_metadata().unwrap().is_dir() {
                    left.push(path);
                } else {
                    let name = path.strip_prefix(&self.0).unwrap().display().to_string();
                    out.push(name.replace(std::path::MAIN_SEPARATOR, "/"));
                }
            }
        }
        out.sort();
        out
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A hub that knows no folder but these and does not wait long.
pub(crate) fn builder(scratch: &Scratch) -> HubBuilder {
    Hub::builder()
        .environment(Environment::default())
        .torch_home(scratch.path("torch"))
        .cache_dir(scratch.path("hf"))
        .progress(false)
        .timeout(Duration::from_secs(20))
        .retries(3, Duration::from_millis(5))
}

pub(crate) fn hub(scratch: &Scratch) -> Hub {
    builder(scratch).build().unwrap()
}

/// Bytes that differ from place to place.
pub(crate) fn content(n: usize) -> Vec<u8> {
    let mut x = 1u32;
    let mut next = || {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (x >> 24) as u8
    };
    (0..n).map(|_| next()).collect()
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!(
        "torsh-hub-sum-{}-{}",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    );
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, bytes).unwrap();
    let sum = torsh_hub::sha256_file(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    sum
}

/// The kind of an error of input or output.
pub(crate) fn kind(e: &TorshError) -> Option<std::io::ErrorKind> {
    match e {
        TorshError::Io(e) => Some(e.kind()),
        _ => None,
    }
}
