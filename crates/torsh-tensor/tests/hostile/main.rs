//! Every op by name with hostile arguments: whatever comes, a call gives `Ok` or `Err`, in bounded
//! time and memory. One of four calls is of an op of sparse tensors, with operands of all layouts.
//!
//! The calls run in a process of their own, so that a crash names its call too. A call is made from
//! the seed and its number alone: `TORSH_FUZZ_SEED` and `TORSH_FUZZ_CALL` repeat one,
//! `TORSH_FUZZ_SECONDS` runs for a time instead of a number of calls.

mod guard;
mod make;
mod methods;
mod run;
mod sparse;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Calls of a run of which nothing else was asked.
const CALLS: u64 = 40_000;
/// After so many crashes a run ends.
const CRASHES: usize = 40;

pub(crate) fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn child(journal: &Path, first: u64, describe: bool) -> Output {
    let mut c = Command::new(std::env::current_exe().expect("the test's own path"));
    c.args(["--exact", "calls", "--ignored", "--nocapture"])
        .args(["--test-threads", "1"])
        .env("TORSH_FUZZ_JOURNAL", journal)
        .env("TORSH_FUZZ_FIRST", first.to_string());
    if describe {
        c.env("TORSH_FUZZ_DESCRIBE", "1");
    }
    c.output().expect("the test starts again")
}

fn text(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&both)
        .lines()
        .filter_map(|l| match l.find("hostile: ") {
            // The harness begins the line that the first one ends.
            Some(at) => Some(&l[at..]),
            None => (l.starts_with("    ") && !l.starts_with("     ")).then_some(l),
        })
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn hostile_arguments_give_ok_or_err() {
    let journal: PathBuf =
        std::env::temp_dir().join(format!("torsh-hostile-{}", std::process::id()));
    let started = std::time::Instant::now();
    let (mut first, mut failures) = (0, Vec::new());
    loop {
        let output = child(&journal, first, false);
        if !text(&output).is_empty() {
            println!("{}", text(&output));
        }
        if output.status.success() {
            break;
        }
        if !text(&output).is_empty() {
            failures.push(text(&output));
        }
        // Panics are counted and the run goes on; else the process died in the call it noted last.
        if output.status.code() == Some(101) {
            break;
        }
        let at: u64 = std::fs::read_to_string(&journal)
            .ok()
            .and_then(|s| s.trim().parse().ok())
            .unwrap_or(first);
        let tail = String::from_utf8_lossy(&output.stderr);
        let what = format!(
            "{}\nhostile: call {at} ended the process ({}): {}",
            text(&child(&journal, at, true)),
            output.status,
            tail.lines().last().unwrap_or("")
        );
        println!("{what}");
        failures.push(what);
        let over = variable("TORSH_FUZZ_SECONDS").is_some_and(|s| started.elapsed().as_secs() >= s);
        if failures.len() >= CRASHES || over || variable("TORSH_FUZZ_CALL").is_some() {
            break;
        }
        first = at + 1;
    }
    let _ = std::fs::remove_file(&journal);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// What [`hostile_arguments_give_ok_or_err`] starts.
#[test]
#[ignore = "started by hostile_arguments_give_ok_or_err"]
fn calls() {
    if let Some(journal) = std::env::var_os("TORSH_FUZZ_JOURNAL") {
        run::calls(Path::new(&journal), CALLS);
    }
}
