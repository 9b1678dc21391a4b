//! What tests do not test on this machine. `tests/algorithms.rs` has this file, too.

use std::io::Write;

/// Reports that the calling test, or a part of it, cannot run on this machine: it prints why, and writes the same line
/// to the end of the file that `TORSH_SKIPPED` names, since what a passing test prints is not shown.
pub fn skipped(why: &str) {
    println!("skipped: {why}");
    let Some(file) = std::env::var_os("TORSH_SKIPPED") else {
        return;
    };
    let thread = std::thread::current();
    let line = format!("{}: skipped: {why}\n", thread.name().unwrap_or("a test"));
    // One write, so that lines of several tests do not mix.
    let file = std::fs::File::options()
        .append(true)
        .create(true)
        .open(file);
    if let Err(e) = file.and_then(|mut file| file.write_all(line.as_bytes())) {
        println!("TORSH_SKIPPED: {e}");
    }
}
