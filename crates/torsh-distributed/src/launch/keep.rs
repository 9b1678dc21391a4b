//! One rank of a launch: `torshrun` beside the program, which labels its lines and tells how it ended.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::thread;

use torsh_tensor::Result;
use torsh_train::CaughtSignals;

use super::run::{ENDED, code_of};

/// The variables in which launchers say a process's rank.
pub(super) const RANKS: [&str; 2] = ["PMI_RANK", "OMPI_COMM_WORLD_RANK"];

/// Copies whole lines behind a label.
fn copy(label: String, from: impl Read, mut to: impl Write) {
    let mut from = BufReader::new(from);
    let mut line = label.clone().into_bytes();
    while from.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
        if !line.ends_with(b"\n") {
            line.push(b'\n');
        }
        // In one piece, so that lines of several ranks do not mix. Who reads no more does not stop the rank.
        let _ = to.write_all(&line).and_then(|()| to.flush());
        line.truncate(label.len());
    }
}

/// Runs a program as one rank of a launch, and gives its exit code: 128 and its signal where one ended it.
///
/// Signals are left to the program, which launchers (or a console of Windows) send them too.
///
/// ```
/// use torsh_distributed::launch::keep_rank;
///
/// let (shell, option) = if cfg!(windows) { ("cmd", "/C") } else { ("sh", "-c") };
/// assert_eq!(keep_rank(false, shell.into(), [option.into(), "exit 3".into()].to_vec())?, 3);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Signals cannot be caught.
pub fn keep_rank(label: bool, program: OsString, arguments: Vec<OsString>) -> Result<i32> {
    let signals = CaughtSignals::start()?;
    let rank = RANKS.iter().find_map(|name| std::env::var(name).ok());
    let rank = rank.unwrap_or("?".to_string());
    let mut command = Command::new(&program);
    command.args(arguments);
    if label {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
    }
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(e) => {
            eprintln!("[{rank}] {} cannot be started: {e}", program.display());
            eprintln!("{ENDED}{rank} ended with code 127");
            return Ok(127);
        }
    };
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let status = thread::scope(|scope| {
        let label = format!("[{rank}] ");
        if let Some(out) = out {
            let label = label.clone();
            scope.spawn(move || copy(label, out, std::io::stdout()));
        }
        if let Some(err) = err {
            scope.spawn(move || copy(label, err, std::io::stderr()));
        }
        child.wait()
    })?;
    drop(signals);
    let code = code_of(status);
    if code != 0 {
        eprintln!("{ENDED}{rank} ended with code {code}");
    }
    Ok(code)
}
