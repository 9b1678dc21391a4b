//! Starts a program on several ranks, and again after a failure.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use torsh_distributed::launch::{Host, KEEP, LaunchOptions, keep_rank, launch};
use torsh_tensor::Result;

/// Start a program on several ranks with mpiexec, and again from its last checkpoint after a failure.
///
/// The program finds out from TORSH_RESTART_COUNT that it was started again, and loads its last whole checkpoint itself.
#[derive(Parser, Debug)]
#[command(name = "torshrun", version)]
struct Args {
    /// How many ranks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    nproc: u32,
    /// How often the program is started again after a failure
    #[arg(long, value_name = "N", default_value_t = 0)]
    max_restarts: u32,
    /// The fewest ranks to go on with where hosts are gone [default: nproc]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    min_nproc: Option<u32>,
    /// The machines, each with its ranks, as node1:4,node2:4
    #[arg(long, value_name = "HOST,..", conflicts_with = "hostfile")]
    hosts: Option<String>,
    /// A file with the machines, one a line: node1, node1:4 or node1 slots=4
    #[arg(long, value_name = "FILE")]
    hostfile: Option<PathBuf>,
    /// The launcher [default: TORSH_MPIEXEC, else mpiexec on PATH, in VIRTUAL_ENV, in ~/.local/bin]
    #[arg(long, value_name = "FILE")]
    mpiexec: Option<PathBuf>,
    /// Begin each line of output with its rank (the default)
    #[arg(long, overrides_with = "no_label")]
    label: bool,
    /// Leave lines of output as they are
    #[arg(long, overrides_with = "label")]
    no_label: bool,
    /// Do not bind ranks to cores of their own
    #[arg(long)]
    no_pin: bool,
    /// The deadline of each operation, in seconds [default: the program's, 600]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<f64>,
    /// The program, and what it is given
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<OsString>,
}

fn seconds(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(s) if s > 0.0 && s < 1e9 => Ok(s),
        _ => Err("must be a number of seconds above 0".into()),
    }
}

fn run(args: Args) -> Result<i32> {
    let mut words = args.program.into_iter();
    let program = words.next().unwrap_or_default();
    let mut options = LaunchOptions::new(args.nproc as usize, program).arguments(words);
    options.max_restarts = args.max_restarts as usize;
    options.min_nproc = args.min_nproc.map(|n| n as usize);
    options.hosts = match (args.hosts, args.hostfile) {
        (Some(list), _) => Host::list(&list)?,
        (None, Some(file)) => Host::file(file)?,
        (None, None) => Vec::new(),
    };
    options.mpiexec = args.mpiexec;
    options.label = !args.no_label || args.label;
    options.pin = !args.no_pin;
    options.timeout = args.timeout.map(Duration::from_secs_f64);
    options.torshrun = std::env::current_exe().ok();
    Ok(launch(&options)?.code)
}

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let ran = match words.next() {
        Some(first) if first == KEEP => {
            let label = words.next().is_some_and(|how| how == "label");
            keep_rank(label, words.next().unwrap_or_default(), words.collect())
        }
        _ => run(Args::parse()),
    };
    match ran {
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        Err(e) => {
            eprintln!("torshrun: {e}");
            ExitCode::from(2)
        }
    }
}
