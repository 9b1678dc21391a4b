//! Runs the checks of `torsh-distributed` on an engine: under `mpiexec` on MPI, alone on threads.
//!
//! ```sh
//! mpiexec -n 2 torsh-distributed-check                        # all sections but `engine`, on the launcher's MPI
//! mpiexec -n 4 torsh-distributed-check --engine mpi-abi engine # the engine alone: MPI starts once in a process
//! torsh-distributed-check --engine threads --ranks 3 collectives ddp
//! ```

use std::process::ExitCode;
use std::time::{Duration, Instant};

use torsh_distributed::{EngineKind, InitOptions, ProcessGroup};
use torsh_distributed_suite as suite;
use torsh_tensor::{Result, TorshError};

/// The deadline of operations: checks fail rather than wait.
const TIMEOUT: Duration = Duration::from_secs(60);

type Section = fn(&ProcessGroup) -> Result<()>;

const SECTIONS: [(&str, Section); 6] = [
    ("collectives", suite::collectives::run),
    ("ddp", suite::ddp::run),
    ("fsdp", suite::fsdp::run),
    ("tensor_parallel", suite::tensor_parallel::run),
    ("pipeline", suite::pipeline::run),
    ("checkpoint", suite::checkpoint::run),
];

const USAGE: &str = "usage: torsh-distributed-check [--engine mpi-abi|mpi|threads|fake] [--ranks N] [SECTION..]
  --engine  what carries bytes; without it the launcher's MPI, by its standard binary interface where it has that
  --ranks   how many ranks threads and fake have (2)
  SECTION   engine (alone), collectives, ddp, fsdp, tensor_parallel, pipeline, checkpoint; without one all but engine";

/// What the command line says.
struct Options {
    engine: Option<String>,
    ranks: usize,
    sections: Vec<(&'static str, Section)>,
    engine_alone: bool,
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(Some(options)) => options,
        Ok(None) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(text) => {
            eprintln!("{text}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("torsh-distributed-check: {e}");
            ExitCode::FAILURE
        }
    }
}

/// None where the usage is asked for.
fn options() -> Result<Option<Options>, String> {
    let mut found = Options {
        engine: None,
        ranks: 2,
        sections: Vec::new(),
        engine_alone: false,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--engine" => found.engine = Some(value()?),
            "--ranks" => {
                found.ranks = match value()?.parse() {
                    Ok(n) if n > 0 => n,
                    _ => return Err("--ranks needs a number of at least 1".into()),
                }
            }
            "--help" | "-h" => return Ok(None),
            "engine" => found.engine_alone = true,
            name => match SECTIONS.iter().find(|s| s.0 == name) {
                Some(section) => found.sections.push(*section),
                None => return Err(format!("there is no section or option {name}")),
            },
        }
    }
    let engine = found.engine.as_deref();
    if !matches!(engine, None | Some("mpi-abi" | "mpi" | "threads" | "fake")) {
        return Err(format!("there is no engine {}", engine.unwrap_or_default()));
    }
    if found.engine_alone && !found.sections.is_empty() && engine != Some("threads") {
        return Err("the section engine runs alone: MPI starts once in a process".into());
    }
    if engine == Some("fake") && !found.engine_alone {
        return Err("fake moves no bytes: it has the section engine only".into());
    }
    if !found.engine_alone && found.sections.is_empty() {
        found.sections = SECTIONS.to_vec();
    }
    Ok(Some(found))
}

fn run(options: &Options) -> Result<()> {
    let engine = options.engine.as_deref();
    if options.engine_alone {
        let started = Instant::now();
        let checked = suite::engine::run(engine.unwrap_or("mpi-abi"), options.ranks)?;
        // Of threads the last rank answers, of the others each.
        if checked.rank == 0 || matches!(engine, Some("threads" | "fake")) {
            say("engine", checked.ranks, &checked.engine, started);
        }
    }
    if options.sections.is_empty() {
        return Ok(());
    }
    if engine == Some("threads") {
        let sections = &options.sections;
        return torsh_distributed::spawn(options.ranks, |group| of_group(&group, sections))
            .map(|_| ());
    }
    torsh_distributed::init_with(InitOptions {
        engine: match engine {
            Some("mpi-abi") => EngineKind::MpiAbi,
            Some("mpi") => EngineKind::Mpi,
            _ => EngineKind::Auto,
        },
        timeout: Some(TIMEOUT),
        ..InitOptions::default()
    })?;
    let checked = torsh_distributed::world().and_then(|group| of_group(&group, &options.sections));
    match checked {
        Ok(()) => torsh_distributed::destroy(),
        // The others may wait for this rank.
        Err(e) => torsh_distributed::fail(e),
    }
}

/// Runs sections on a group, and says on its first rank how each went.
fn of_group(group: &ProcessGroup, sections: &[(&str, Section)]) -> Result<()> {
    for (name, section) in sections {
        let started = Instant::now();
        section(group).map_err(|e| {
            TorshError::failed(
                "torsh-distributed-check",
                format!("{name}, rank {} of {}: {e}", group.rank(), group.size()),
            )
        })?;
        group.barrier()?;
        if group.rank() == 0 {
            say(name, group.size(), group.engine(), started);
        }
    }
    Ok(())
}

fn say(section: &str, ranks: usize, engine: &str, started: Instant) {
    let seconds = started.elapsed().as_secs_f64();
    let s = if ranks == 1 { "" } else { "s" };
    println!("{section}: ok, {ranks} rank{s} on {engine}, {seconds:.1} s");
}
