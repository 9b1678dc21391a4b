//! `torsh-conformance DIR`: runs golden cases against ToRSh and reports failures.

use std::process::ExitCode;

use torsh_conformance::{cli, torsh::Torsh};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    ExitCode::from(cli::main(&args, &Torsh))
}
