//! The place of an error: a line of the program that uses the library, never a line of the library.

use std::panic::Location;

use super::Result;

/// The crates whose public functions name their callers.
const LIBRARY: [&str; 22] = [
    "torsh",
    "torsh-autograd",
    "torsh-backend",
    "torsh-backend-cpu",
    "torsh-backend-mock",
    "torsh-core",
    "torsh-data",
    "torsh-debug",
    "torsh-distributed",
    "torsh-functional",
    "torsh-hub",
    "torsh-linalg",
    "torsh-nn",
    "torsh-optim",
    "torsh-profiler",
    "torsh-serialize",
    "torsh-sparse",
    "torsh-special",
    "torsh-tensor",
    "torsh-text",
    "torsh-train",
    "torsh-vision",
];

/// Runs the body of a public function; an error that comes out of it names the function's caller as its place.
///
/// The attribute `names_caller` of `torsh-tensor` makes a call of this of a function's body.
///
/// ```
/// use std::panic::Location;
/// use torsh_core::{Result, TorshError, at_caller};
///
/// #[track_caller]
/// fn checked(n: i64) -> Result<i64> {
///     at_caller(|| if n < 0 { Err(TorshError::invalid("checked", "n < 0")) } else { Ok(n) })
/// }
/// assert_eq!(checked(2)?, 2);
/// # Ok::<(), TorshError>(())
/// ```
///
/// # Errors
/// Those of `f`.
#[inline]
#[track_caller]
pub fn at_caller<T>(f: impl FnOnce() -> Result<T>) -> Result<T> {
    let caller = Location::caller();
    match f() {
        Ok(value) => Ok(value),
        Err(e) => Err(e.at(caller)),
    }
}

/// Whether a place lies in the sources of the library or of the standard library. The path of a source is as the compiler
/// was told, such as `crates/torsh-nn/src/lib.rs` in the workspace and `../torsh-nn-0.1.0/src/lib.rs` in a registry.
pub(super) fn in_library(place: &Location<'_>) -> bool {
    let file = place.file();
    file.starts_with("/rustc/") || file.contains("rustlib") || is_library(file)
}

fn is_library(file: &str) -> bool {
    let mut before = "";
    for part in file.split(['/', '\\']) {
        if part == "src" {
            let mut dashes = before.match_indices('-').map(|(at, _)| at);
            let is_digit = |at: &usize| {
                before
                    .as_bytes()
                    .get(at + 1)
                    .is_some_and(u8::is_ascii_digit)
            };
            let name = dashes.find(is_digit).map_or(before, |at| &before[..at]);
            if LIBRARY.contains(&name) {
                return true;
            }
        }
        before = part;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TorshError;

    #[test]
    fn sources_of_the_library_are_known() {
        for file in [
            "crates/torsh-nn/src/layers/norm.rs",
            "/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/torsh-linalg-0.1.0/src/lu.rs",
            "C:\\vendor\\torsh-tensor-1.0.0-rc.1\\src\\lib.rs",
            "vendor/torsh/src/lib.rs",
        ] {
            assert!(is_library(file), "{file}");
        }
        for file in [
            "src/main.rs",
            "crates/torsh-nn/tests/places.rs",
            "crates/torsh-cli/src/main.rs",
            "/home/me/my-torsh-model/src/main.rs",
            "torsh-examples/src/main.rs",
        ] {
            assert!(!is_library(file), "{file}");
        }
    }

    #[test]
    fn a_place_in_the_library_becomes_the_callers() {
        let here = Location::caller();
        // This file is one of the library, the standard library's are too.
        let made = TorshError::shape("add", "no");
        assert_eq!(made.at(here).location(), Some(here));
        let io = TorshError::from(std::io::Error::other("no"));
        assert_eq!(io.at(here).location(), Some(here));
        let refused = TorshError::out_of_memory(crate::Device::Cpu, 8);
        assert_eq!(refused.location(), None);
        let refused = refused.at(here);
        assert_eq!(refused.location(), Some(here));
        assert!(refused.to_string().ends_with(&format!("\n  at {here}")));
    }
}
