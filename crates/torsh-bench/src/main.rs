//! The benchmark suite of ToRSh.
//!
//! ```text
//! cargo run --release -p torsh-bench -- [--list] [--threads N] [--budget SECONDS] [NAME_PART ...]
//! ```
//!
//! Every workload whose name contains one of the name parts (all of them without any) is timed
//! and prints one line:
//!
//! ```json
//! {"name": "add_10000", "us": 1.23, "min_us": 1.2, "flops": 0, "bytes": 120000}
//! ```
//!
//! `us` is the median time of one call in microseconds over seven rounds, `min_us` that of the
//! fastest round; `flops` and `bytes` are what the call must compute and move at least, 0 where
//! that says nothing. So `flops / us / 1e3` are GFLOP/s and `bytes / us / 1e3` are GB/s.
//!
//! # Comparing
//!
//! With another version of ToRSh, or with a PyTorch script that times the same names in the same
//! way and prints the same lines: run the two programs in turn, several times (A B A B ...), and
//! compare the medians of each name. Ratios of one such session say something; absolute times on
//! a machine that others use do not. Give both sides the same number of threads:
//!
//! ```text
//! target/release/torsh-bench --threads 2 matmul > torsh.jsonl
//! python pytorch_bench.py    --threads 2 matmul > pytorch.jsonl
//! ```
//!
//! For the PyTorch side to do the same work, a workload `NAME` builds its inputs once (standard
//! normal numbers of the shapes in its name, float32 unless it says otherwise), calls the op twice
//! to warm up, raises the number of calls per round until one round takes a seventh of the budget
//! (0.35 s), and then times seven rounds. The result of a call is dropped before the next, as
//! Python does.

mod harness;
mod inputs;
mod nn;
mod overhead;
mod products;
mod tensor_ops;
mod train;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use harness::{Mode, Suite};

/// Times the workloads of ToRSh and prints a JSON line for each.
#[derive(Debug, Parser)]
#[command(name = "torsh-bench", version)]
struct Args {
    /// Only the workloads whose names contain one of these
    #[arg(value_name = "NAME_PART")]
    only: Vec<String>,
    /// Print the names and time nothing
    #[arg(long)]
    list: bool,
    /// Threads of one op; all cores by default
    #[arg(long, value_name = "N")]
    threads: Option<std::num::NonZeroUsize>,
    /// Seconds that the timed rounds of one workload take together
    #[arg(long, value_name = "SECONDS", default_value_t = 0.35, value_parser = seconds)]
    budget: f64,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(s) if s.is_finite() && s > 0.0 => Ok(s),
        Ok(_) => Err("must be more than 0".into()),
        Err(e) => Err(e.to_string()),
    }
}

/// Registers every workload, in the order in which they run.
fn register(s: &mut Suite<'_>) {
    products::register(s);
    tensor_ops::register(s);
    nn::register(s);
    overhead::register(s);
    train::register(s);
}

fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(n) = args.threads
        && let Err(e) = torsh_core::pool::set_num_threads(n.get())
    {
        eprintln!("torsh-bench: --threads: {e}");
        return ExitCode::from(2);
    }
    torsh_core::random::manual_seed(0);
    let mode = if args.list {
        Mode::List
    } else {
        Mode::Time {
            budget: args.budget,
        }
    };
    let mut out = io::stdout().lock();
    let mut suite = Suite::new(mode, args.only, &mut out);
    register(&mut suite);
    match suite.finish() {
        Ok(summary) if summary.selected == 0 => {
            eprintln!("torsh-bench: no workload has such a name; --list prints the names");
            ExitCode::SUCCESS
        }
        Ok(summary) if summary.failed > 0 => {
            eprintln!("torsh-bench: {} workloads failed", summary.failed);
            ExitCode::FAILURE
        }
        Ok(_) => ExitCode::SUCCESS,
        // The reader of a pipe has seen enough.
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(e) => {
            let _ = writeln!(io::stderr(), "torsh-bench: cannot write: {e}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(mode: Mode, only: &[&str]) -> Vec<String> {
        let mut out = Vec::new();
        let only = only.iter().map(|s| s.to_string()).collect();
        let mut suite = Suite::new(mode, only, &mut out);
        register(&mut suite);
        let summary = suite.finish().unwrap();
        assert_eq!(summary.failed, 0);
        let text = String::from_utf8(out).unwrap();
        text.lines().map(str::to_string).collect()
    }

    #[test]
    fn names_are_unique() {
        let mut names = lines(Mode::List, &[]);
        let n = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), n);
        assert!(names.iter().any(|n| n == "op_overhead_add1"));
    }

    #[test]
    fn name_parts_select() {
        assert_eq!(
            lines(Mode::List, &["exp_1", "chain100"]),
            [
                "exp_100",
                "exp_10000",
                "exp_1000000",
                "exp_16000000",
                "autograd_chain100"
            ]
        );
    }

    /// Every workload runs without an error and prints its line.
    #[test]
    fn every_workload_runs() {
        let names = lines(Mode::List, &[]);
        let timed = lines(Mode::Time { budget: 1e-9 }, &[]);
        assert_eq!(timed.len(), names.len());
        for (line, name) in timed.iter().zip(&names) {
            let v: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(v["name"], name.as_str());
            assert!(v["us"].as_f64().unwrap() >= v["min_us"].as_f64().unwrap());
            assert!(v["flops"].is_u64() && v["bytes"].is_u64());
        }
    }

    #[test]
    fn arguments() {
        let a = Args::try_parse_from(["torsh-bench", "--threads", "2", "add", "exp"]).unwrap();
        assert_eq!(
            (a.only.len(), a.threads.unwrap().get(), a.budget),
            (2, 2, 0.35)
        );
        for bad in [
            ["x", "--threads=0"],
            ["x", "--budget=0"],
            ["x", "--budget=nan"],
        ] {
            assert!(Args::try_parse_from(bad).is_err());
        }
    }
}
