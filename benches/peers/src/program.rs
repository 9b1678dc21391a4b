//! What both programs do with their arguments.

use std::io;
use std::process::ExitCode;

use crate::harness::{Mode, Suite};

/// Reads `[--list] [NAME_PART ...]`, registers the workloads and runs those selected.
pub fn run(register: impl FnOnce(&mut Suite<'_>)) -> ExitCode {
    let (flags, only): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|a| a.starts_with("--"));
    if let Some(unknown) = flags.iter().find(|f| *f != "--list") {
        eprintln!("unknown argument {unknown}; usage: [--list] [NAME_PART ...]");
        return ExitCode::from(2);
    }
    let mode = match flags.is_empty() {
        true => Mode::Time { budget: 0.35 },
        false => Mode::List,
    };
    let mut out = io::stdout().lock();
    let mut suite = Suite::new(mode, only, &mut out);
    register(&mut suite);
    match suite.finish() {
        Ok(s) if s.failed == 0 => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("cannot write: {e}");
            ExitCode::FAILURE
        }
    }
}
