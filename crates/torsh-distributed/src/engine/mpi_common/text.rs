//! What MPI and its launcher say: versions, errors, numbers of ranks.

use std::ffi::{c_char, c_int};

use torsh_core::TorshError;

use super::calls::Mpi;

/// Larger than every limit of the standard and of the MPIs that we know (8192).
const MOST_TEXT: usize = 16 << 10;

/// A text that MPI writes.
fn written(write: impl FnOnce(*mut c_char, *mut c_int) -> c_int) -> Option<String> {
    let mut text = vec![0u8; MOST_TEXT];
    let mut length = 0;
    if write(text.as_mut_ptr().cast(), &mut length) != 0 {
        return None;
    }
    let end = text.iter().position(|b| *b == 0).unwrap_or(text.len());
    Some(String::from_utf8_lossy(&text[..end]).trim().to_string())
}

/// The error of a code.
#[cold]
pub(super) fn error<M: Mpi>(mpi: &M, op: &'static str, code: c_int) -> TorshError {
    // SAFETY: the call writes a text and its length; the memory is larger than the standard's limit.
    let said = written(|text, length| unsafe { mpi.error_string(code, text, length) });
    let said = said.unwrap_or_else(|| "no text".to_string());
    TorshError::failed(op, format!("MPI's error {code}: {said}"))
}

/// Name and version of the library, such as `MPICH 5.0.2`.
pub(in crate::engine) fn version<M: Mpi>(mpi: &M) -> String {
    // SAFETY: as in `error`; the call is allowed at any time.
    let said = written(|text, length| unsafe { mpi.get_library_version(text, length) });
    short_version(&said.unwrap_or_default())
}

/// The first words of what a library says of itself.
fn short_version(said: &str) -> String {
    let line = said.lines().next().unwrap_or_default();
    if let Some(number) = line.strip_prefix("MPICH Version:") {
        return format!("MPICH {}", number.trim());
    }
    match line.split(',').next().map(str::trim) {
        Some(name) if !name.is_empty() => name.to_string(),
        _ => "an MPI that does not say its name".to_string(),
    }
}

/// How many ranks a launcher says that it started, by its variable.
pub(super) fn ranks_of(variable: &str) -> Option<usize> {
    std::env::var(variable).ok()?.parse().ok()
}

/// The error of a program under another MPI's launcher.
#[cold]
pub(super) fn other_launcher(variable: &str, n: usize, version: &str) -> TorshError {
    TorshError::failed(
        "start of MPI",
        format!(
            "another MPI's launcher started {n} ranks ({variable}={n}), of which {version} does not know"
        ),
    )
    .with_hint(
        "Start the program with the mpiexec of the MPI that it uses. For Open MPI 4 and others without the standard binary interface build with the feature `mpi`; a program with that feature uses the linked MPI, or the other with TORSH_DISTRIBUTED_ENGINE=mpi-abi.",
    )
}

#[cfg(test)]
mod tests {
    use super::short_version;

    #[test]
    fn versions_are_short() {
        assert_eq!(
            short_version("MPICH Version:      5.0.2\nMPICH Release date: x"),
            "MPICH 5.0.2"
        );
        assert_eq!(
            short_version("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4"),
            "Open MPI v4.1.4"
        );
        assert_eq!(short_version(""), "an MPI that does not say its name");
    }
}
