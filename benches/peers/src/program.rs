//! What both programs do with their arguments, and the tables of their networks.

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

/// The names, depths and blocks of the residual networks.
pub const RESNETS: [(&str, [usize; 4], bool); 2] = [
    ("resnet18", [2, 2, 2, 2], false),
    ("resnet50", [3, 4, 6, 3], true),
];

/// The stages of EfficientNet-Lite0: factor, channels out, depth, kernel, stride.
pub const LITE0: [[usize; 5]; 7] = [
    [1, 16, 1, 3, 1],
    [6, 24, 2, 3, 2],
    [6, 40, 2, 5, 2],
    [6, 80, 3, 3, 2],
    [6, 112, 3, 5, 1],
    [6, 192, 4, 5, 2],
    [6, 320, 1, 3, 1],
];
