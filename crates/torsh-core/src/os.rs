//! What the standard library does not tell of a system: its memory, the time of the process, whether two names are one
//! file. What only one system has is in the module of that system.

use std::fs::File;
use std::io;
use std::path::Path;

#[cfg(target_os = "macos")]
pub(crate) mod macos;
#[cfg(windows)]
pub(crate) mod windows;

#[cfg(windows)]
pub use windows::Job;

/// The bytes of memory that the machine has, where the system tells: Linux, Windows and macOS do.
///
/// ```
/// use torsh_core::os::physical_memory;
/// if cfg!(any(target_os = "linux", target_os = "macos", windows)) {
///     assert!(physical_memory().is_some_and(|bytes| bytes >= 16 << 20));
/// }
/// ```
pub fn physical_memory() -> Option<u64> {
    #[cfg(target_os = "linux")]
    {
        total_of_meminfo(&std::fs::read_to_string("/proc/meminfo").ok()?)
    }
    #[cfg(target_os = "macos")]
    {
        macos::number(c"hw.memsize")
    }
    #[cfg(windows)]
    {
        windows::physical_memory()
    }
    #[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
    None
}

/// The bytes of memory in the text of `/proc/meminfo`.
#[cfg(any(target_os = "linux", test))]
fn total_of_meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The seconds that all threads of this process have spent on processors so far, where the system tells: Linux (in
/// hundredths of a second), Windows and macOS do.
///
/// ```
/// use torsh_core::os::processor_seconds;
/// let before = processor_seconds();
/// let after = processor_seconds();
/// assert!(before.is_none() || before <= after);
/// ```
pub fn processor_seconds() -> Option<f64> {
    #[cfg(target_os = "linux")]
    {
        seconds_of_stat(&std::fs::read_to_string("/proc/self/stat").ok()?)
    }
    #[cfg(target_os = "macos")]
    {
        macos::processor_seconds()
    }
    #[cfg(windows)]
    {
        windows::processor_seconds()
    }
    #[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
    None
}

/// The seconds on processors in the text of `/proc/self/stat`.
#[cfg(any(target_os = "linux", test))]
fn seconds_of_stat(text: &str) -> Option<f64> {
    /// Linux counts for programs in hundredths of a second, on every architecture.
    const TICK: f64 = 0.01;
    // The program's name comes second, in parentheses, and may hold anything.
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some((ticks()? + ticks()?) * TICK)
}

/// Whether an open file is the one that has this path now. A file that was renamed or removed since it was opened is not.
///
/// ```
/// use torsh_core::os::is_at;
///
/// let path = std::env::temp_dir().join(format!("torsh-is-at-{}", std::process::id()));
/// std::fs::write(&path, "a")?;
/// let file = std::fs::File::open(&path)?;
/// assert!(is_at(&file, &path)?);
/// let moved = path.with_extension("moved");
/// std::fs::rename(&path, &moved)?;
/// std::fs::write(&path, "b")?;
/// assert!(!is_at(&file, &path)?);
/// # drop(file);
/// # std::fs::remove_file(&path)?;
/// # std::fs::remove_file(&moved)?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// What the system says of a path that is not there, or of a file that it does not know.
pub fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let (a, b) = (file.metadata()?, path.metadata()?);
        Ok((a.dev(), a.ino()) == (b.dev(), b.ino()))
    }
    #[cfg(windows)]
    {
        Ok(windows::identity(file)? == windows::identity(&File::open(path)?)?)
    }
    #[cfg(not(any(unix, windows)))]
    {
        let _ = file;
        path.metadata().map(|_| true)
    }
}

/// How many threads compute at the same time without disturbing each other: the processors that this process may use. Of
/// Apple's processors these are the fast cores alone, as in PyTorch, because a call ends with its slowest part.
///
/// ```
/// assert!(torsh_core::os::cores() >= 1);
/// ```
pub fn cores() -> usize {
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    #[cfg(all(target_os = "macos", target_arch = "aarch64"))]
    if let Some(fast) = macos::number(c"hw.perflevel0.physicalcpu") {
        return all.min(fast as usize).max(1);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_linux_says() {
        let text = "MemTotal:       16309188 kB\nMemFree:         1 kB\n";
        assert_eq!(total_of_meminfo(text), Some(16_309_188 * 1024));
        assert_eq!(total_of_meminfo("MemFree: 1 kB\n"), None);
        let stat = "7 (a) b) S 1 7 7 0 -1 4 1 0 0 0 150 25 0 0 20 0 1 0";
        assert_eq!(seconds_of_stat(stat), Some(1.75));
        assert_eq!(seconds_of_stat("7 (a) S 1"), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri isolates the program from files")]
    fn this_system_says_them() {
        if cfg!(any(target_os = "linux", target_os = "macos", windows)) {
            let bytes = physical_memory().expect("the memory");
            assert!((16 << 20..1 << 50).contains(&bytes), "{bytes}");
            let seconds = processor_seconds().expect("the time");
            assert!((0.0..1e7).contains(&seconds), "{seconds}");
        }
        assert!(cores() >= 1);
    }
}
