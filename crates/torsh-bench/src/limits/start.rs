//! What it costs to start a program that makes a tensor and prints it: `torsh-hello`, of the profile `small`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Starts whose fastest counts.
const STARTS: usize = 30;
/// Milliseconds and megabytes that are the target.
const TARGET: (f64, f64) = (2.0, 8.0);

/// What a program's start costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Start {
    /// Milliseconds from the request to the end of the program, of the fastest of all starts.
    pub fastest_ms: f64,
    /// Of the middle one.
    pub median_ms: f64,
    /// Bytes of the file without symbols; `None` where there is no `strip`.
    pub stripped: Option<u64>,
}

/// Starts a program again and again.
///
/// # Errors
/// Where it cannot be started or fails.
pub fn start(program: &Path) -> io::Result<Start> {
    let mut ms = Vec::with_capacity(STARTS);
    for _ in 0..STARTS {
        let begin = Instant::now();
        let status = Command::new(program)
            .stdout(Stdio::null())
            .stdin(Stdio::null())
            .status()?;
        ms.push(begin.elapsed().as_secs_f64() * 1e3);
        if !status.success() {
            return Err(io::Error::other(format!(
                "{} ended with {status}",
                program.display()
            )));
        }
    }
    ms.sort_by(f64::total_cmp);
    Ok(Start {
        fastest_ms: ms[0],
        median_ms: ms[STARTS / 2],
        stripped: stripped(program),
    })
}

/// The size of a program after `strip`.
fn stripped(program: &Path) -> Option<u64> {
    let to = std::env::temp_dir().join(format!("torsh-stripped-{}", std::process::id()));
    let done = Command::new("strip")
        .arg("-o")
        .args([&to, &program.to_path_buf()])
        .stderr(Stdio::null())
        .status();
    let size = match done {
        Ok(status) if status.success() => std::fs::metadata(&to).ok().map(|m| m.len()),
        _ => None,
    };
    let _ = std::fs::remove_file(&to);
    size
}

/// The program, of the profile `small`: beside this program's folder in the target directory.
fn hello() -> Option<PathBuf> {
    let name = format!("torsh-hello{}", std::env::consts::EXE_SUFFIX);
    let target = std::env::current_exe()
        .ok()?
        .parent()?
        .parent()?
        .to_path_buf();
    let path = target.join("small").join(name);
    path.exists().then_some(path)
}

/// Prints what the start costs, and gives the number of targets missed.
pub(super) fn print(out: &mut dyn Write) -> io::Result<usize> {
    writeln!(out, "start")?;
    let Some(program) = hello() else {
        writeln!(
            out,
            "  no torsh-hello: cargo build --profile small -p torsh-bench --bin torsh-hello"
        )?;
        return Ok(0);
    };
    let s = start(&program)?;
    let slow = s.fastest_ms > TARGET.0;
    writeln!(
        out,
        "  torsh-hello {:.2} ms (median {:.2}), target {} ms{}",
        s.fastest_ms,
        s.median_ms,
        TARGET.0,
        if slow { "  MISSED" } else { "" }
    )?;
    let Some(bytes) = s.stripped else {
        writeln!(
            out,
            "  no strip on this machine to tell its size without symbols"
        )?;
        return Ok(usize::from(slow));
    };
    let mb = bytes as f64 / 1e6;
    let large = mb > TARGET.1;
    writeln!(
        out,
        "  torsh-hello {mb:.2} MB stripped, target {} MB{}",
        TARGET.1,
        if large { "  MISSED" } else { "" }
    )?;
    Ok(usize::from(slow) + usize::from(large))
}
