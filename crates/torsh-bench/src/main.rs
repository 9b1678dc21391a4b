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
//!
//! # Other questions
//!
//! `--limits` measures what the machine can do at most (multiply-adds in registers, copies beyond
//! its caches), with one thread and with all, and how near to it the workloads come. `--sweep`
//! looks for sizes that take over twice the time of the next larger one. `--memory` prints the
//! bytes that training needs and holds. `--tune` measures the algorithms of an operation against each
//! other. `--ranks N` times collectives, training steps and checkpoints of several processes. `docs/performance.md` tells more.
//!
//! `torsh-bench decode` also sets the decoding of language models against the read bandwidth, and prompts against the
//! speed of products (the module `decode`); these rows hold gigabytes, so a run of everything leaves them out.

#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use torsh_bench::harness::{Mode, Suite, selects};
use torsh_bench::spec::Spec;
use torsh_bench::{decode, distributed, limits, memory, register, suite, sweep, tune};
use torsh_core::pool;

/// Times the workloads of ToRSh and prints a JSON line for each.
#[derive(Debug, Parser)]
#[command(name = "torsh-bench", version)]
struct Args {
    /// Only the workloads whose names contain one of these
    #[arg(value_name = "NAME_PART")]
    only: Vec<String>,
    /// Print the names and time nothing
    #[arg(long, group = "mode")]
    list: bool,
    /// Set workloads against the machine's limits
    #[arg(long, group = "mode")]
    limits: bool,
    /// Look for sizes that take over twice the time of the next larger
    #[arg(long, group = "mode")]
    sweep: bool,
    /// Measure the algorithms of an operation against each other; a tenth of the budget each
    #[arg(long, group = "mode")]
    tune: bool,
    /// With --tune: write the choices that are better than the default, for TORSH_TUNING
    #[arg(long, value_name = "FILE", requires = "tune")]
    write: Option<PathBuf>,
    /// The memory of training, of each workload in a process of its own
    #[arg(long, group = "mode")]
    memory: bool,
    /// The memory of one workload in this process
    #[arg(long, group = "mode", value_name = "NAME", hide = true)]
    memory_of: Option<String>,
    /// Collectives and training steps on this many ranks, under mpiexec or started by it
    #[arg(long, value_name = "N", conflicts_with_all = ["limits", "sweep", "tune", "memory", "memory_of"])]
    ranks: Option<std::num::NonZeroUsize>,
    /// With --ranks: print the best time as `us`, for busy machines
    #[arg(long, requires = "ranks")]
    best: bool,
    /// Threads of one op; all cores by default, with --limits both one and all, with --ranks one
    #[arg(long, value_name = "N")]
    threads: Option<std::num::NonZeroUsize>,
    /// Seconds that the timed rounds of one workload take together; a hundredth with --sweep
    #[arg(long, value_name = "SECONDS", default_value_t = 0.35, value_parser = seconds)]
    budget: f64,
    /// With --limits: lines of another program, for targets that are multiples of its speed
    #[arg(long, value_name = "FILE")]
    peer: Option<PathBuf>,
    /// With --sweep: print every time
    #[arg(long)]
    all: bool,
    /// With --memory: steps after which the bytes held are read a second time
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(10..))]
    steps: u32,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(s) if s.is_finite() && s > 0.0 => Ok(s),
        Ok(_) => Err("must be more than 0".into()),
        Err(e) => Err(e.to_string()),
    }
}

/// The microseconds of each name in a file of lines as this program prints them.
fn read_lines(path: &Path) -> io::Result<HashMap<String, f64>> {
    let text = std::fs::read_to_string(path)?;
    let parse = |line: &str| {
        let v: serde_json::Value = serde_json::from_str(line).ok()?;
        Some((v["name"].as_str()?.to_string(), v["us"].as_f64()?))
    };
    Ok(text.lines().filter_map(parse).collect())
}

fn main() -> ExitCode {
    let args = Args::parse();
    let all = pool::num_threads();
    let threads = args
        .threads
        .or(args.ranks.and(std::num::NonZeroUsize::new(1)));
    if let Some(n) = threads
        && let Err(e) = pool::set_num_threads(n.get())
    {
        eprintln!("torsh-bench: --threads: {e}");
        return ExitCode::from(2);
    }
    torsh_core::random::manual_seed(0);
    if let Some(n) = args.ranks {
        return ranks(args, n.get());
    }
    match run(args, all, &mut io::stdout().lock()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // The reader of a pipe has seen enough.
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(e) => {
            let _ = writeln!(io::stderr(), "torsh-bench: {e}");
            ExitCode::FAILURE
        }
    }
}

/// The workloads of several ranks, which print their lines themselves.
fn ranks(args: Args, ranks: usize) -> ExitCode {
    let options = distributed::Options {
        ranks,
        only: args.only,
        budget: args.budget,
        best: args.best,
        list: args.list,
    };
    match distributed::run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("torsh-bench: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Does what was asked; whether all of it could be done. `all` is the number of threads where
/// none is asked for.
fn run(args: Args, all: usize, out: &mut dyn Write) -> io::Result<bool> {
    if args.limits {
        let mut threads = match args.threads {
            Some(n) => vec![n.get()],
            None => vec![1, all],
        };
        threads.dedup();
        let peer = args.peer.as_deref().map(read_lines).transpose()?;
        let options = limits::Options {
            only: args.only,
            budget: args.budget,
            threads,
            peer: peer.unwrap_or_default(),
        };
        limits::run(&options, out)?;
        return Ok(true);
    }
    if args.sweep {
        sweep::run(&args.only, args.budget / 100.0, args.all, out)?;
        return Ok(true);
    }
    if args.tune {
        let found = tune::run(&args.only, args.budget / 10.0, out)?;
        if let Some(path) = &args.write {
            std::fs::write(path, found.better.join("\n") + "\n")?;
        }
        return Ok(true);
    }
    if args.memory {
        return memory(&args, out);
    }
    if let Some(name) = &args.memory_of {
        return memory_of(name, args.steps as usize, out);
    }
    let mode = match args.list {
        true => Mode::List,
        false => Mode::Time {
            budget: args.budget,
        },
    };
    let mut selected = 0;
    if decode::asked(&args.only) {
        selected += decode::run(&args.only, args.list, out)?;
    }
    let mut suite = Suite::new(mode, args.only, out);
    register(&mut suite);
    let summary = suite.finish()?;
    selected += summary.selected;
    if selected == 0 {
        eprintln!("torsh-bench: no workload has such a name; --list prints the names");
    }
    if summary.failed > 0 {
        eprintln!("torsh-bench: {} workloads failed", summary.failed);
    }
    Ok(summary.failed == 0)
}

/// The memory of every selected workload that trains, each in a process of its own.
fn memory(args: &Args, out: &mut dyn Write) -> io::Result<bool> {
    let trains = |spec: &Spec| matches!(spec, Spec::Train { .. });
    for (name, spec) in suite::workloads() {
        if trains(&spec) && selects(&args.only, &name) {
            let line = memory::in_a_process(&name, args.steps as usize, pool::num_threads())?;
            writeln!(out, "{line}")?;
            out.flush()?;
        }
    }
    Ok(true)
}

fn memory_of(name: &str, steps: usize, out: &mut dyn Write) -> io::Result<bool> {
    let Some((_, spec)) = suite::workloads().into_iter().find(|(n, _)| n == name) else {
        return Err(io::Error::other(format!(
            "no workload is called {name}; --list prints the names"
        )));
    };
    let m = memory::measure(&spec, &[10, steps]).map_err(io::Error::other)?;
    writeln!(out, "{}", m.line(name))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(args: &[&str]) -> io::Result<String> {
        let args = Args::try_parse_from([&["torsh-bench"], args].concat()).unwrap();
        let mut out = Vec::new();
        assert!(run(args, 2, &mut out)?);
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn arguments() {
        let a = Args::try_parse_from(["torsh-bench", "--threads", "2", "add", "exp"]).unwrap();
        assert_eq!(
            (a.only.len(), a.threads.unwrap().get(), a.budget),
            (2, 2, 0.35)
        );
        for bad in [
            vec!["x", "--threads=0"],
            vec!["x", "--budget=0"],
            vec!["x", "--budget=nan"],
            vec!["x", "--steps=9"],
            vec!["x", "--list", "--limits"],
            vec!["x", "--ranks=0"],
            vec!["x", "--ranks=2", "--sweep"],
            vec!["x", "--best"],
        ] {
            assert!(Args::try_parse_from(bad).is_err());
        }
    }

    #[test]
    fn names_are_listed() {
        let text = output(&["--list", "infer_encoder"]).unwrap();
        let expected = "infer_encoder_l6_d384_h12_b1_t128\ninfer_encoder_l6_d384_h12_b16_t128\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn memory_of_one_workload() {
        let name = "train_mlp_16_32_32_2_b16_adam";
        let text = output(&["--memory-of", name, "--steps", "11"]).unwrap();
        let v: serde_json::Value = serde_json::from_str(&text).unwrap();
        let held = v["held_bytes"]["11"].as_u64().unwrap();
        let parameters = 4 * (16 * 32 + 32 + 32 * 32 + 32 + 32 * 2 + 2);
        assert!(
            held >= 4 * parameters && v["peak_bytes"].as_u64().unwrap() >= held,
            "{text}"
        );
        assert!(output(&["--memory-of", "no_such"]).is_err());
    }

    #[test]
    fn lines_of_the_other_side() {
        let path = std::env::temp_dir().join(format!("torsh-bench-lines-{}", std::process::id()));
        let text = "# said before\n{\"name\": \"sort_1\", \"us\": 12.5, \"min_us\": 1.0}\n";
        std::fs::write(&path, text).unwrap();
        let read = read_lines(&path);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read.unwrap(), HashMap::from([("sort_1".to_string(), 12.5)]));
    }
}
