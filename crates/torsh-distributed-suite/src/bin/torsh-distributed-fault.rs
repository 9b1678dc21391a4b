//! A program that fails on purpose: `tests/faults.rs` starts it on several ranks.
//!
//! `torsh-distributed-fault MODE [FOLDER]`; `TORSH_FAULT_TIMEOUT` is the deadline of operations in seconds. Lines on
//! standard output tell the test which process is which rank, and when the moment has come: `ready RANK PID`,
//! `moment RANK`.
//!
//! `torsh-distributed-fault --kills 100 [--seed N] [--ranks N] [--mpiexec FILE]` starts itself on several ranks as often,
//! which train and save, kills one of them at a random moment (`kill -9`), and loads the last whole checkpoint each time.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use torsh_distributed::checkpoint::{self, Piece, State};
use torsh_distributed::launch::find_mpiexec;
use torsh_distributed::{
    DistributedDataParallel, InitOptions, ProcessGroup, ReduceOp, destroy, init_with, world,
};
use torsh_distributed_suite::job;
use torsh_nn::{Hooks, Linear, Module, ModuleExt};
use torsh_optim::{Optimizer, SGD};
use torsh_tensor::{Result, Tensor, TorshError, no_grad};

/// Longer than any test waits.
const FOR_EVER: Duration = Duration::from_secs(600);
/// The rank that fails.
const VICTIM: usize = 1;
/// In which step it does.
const STEP: usize = 3;

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // Who does not listen misses it.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn moment(group: &ProcessGroup) {
    say(&format!("moment {}", group.rank()));
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.first().is_some_and(|w| w.starts_with("--")) {
        true => kills(&words),
        false => run(&words),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> TorshError {
    let modes = "torsh-distributed-fault MODE [FOLDER]";
    let kills = "torsh-distributed-fault --kills N [--seed N] [--ranks N] [--mpiexec FILE]";
    TorshError::Other(format!("usage: {modes}\n       {kills}"))
}

/// Kills ranks of this program at random moments.
fn kills(words: &[String]) -> Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let mut seed = u64::from(now.unwrap_or_default().subsec_nanos());
    let (mut count, mut ranks, mut mpiexec) = (0, 2, None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(usage)?;
        let number = || value.parse::<u64>().map_err(|_| usage());
        match word.as_str() {
            "--kills" => count = number()? as usize,
            "--seed" => seed = number()?,
            "--ranks" => ranks = (number()? as usize).max(2),
            "--mpiexec" => mpiexec = Some(PathBuf::from(value)),
            _ => return Err(usage()),
        }
    }
    if count == 0 {
        return Err(usage());
    }
    let program = std::env::current_exe()?.display().to_string();
    let launcher = find_mpiexec(mpiexec.as_deref(), &program)?;
    say(&format!(
        "seed {seed}, {ranks} ranks by {}",
        launcher.path.display()
    ));
    job::kills(&launcher, &program, ranks, count, seed, |line| say(&line))?;
    say(&format!(
        "kills: {count}, and the last whole checkpoint loaded after each (seed {seed})"
    ));
    Ok(())
}

fn run(words: &[String]) -> Result<()> {
    let mode = words.first().ok_or_else(usage)?;
    let seconds = std::env::var("TORSH_FAULT_TIMEOUT").ok();
    let seconds = seconds.and_then(|s| s.parse().ok()).unwrap_or(5.0);
    let options = InitOptions {
        timeout: Some(Duration::from_secs_f64(seconds)),
        ..InitOptions::default()
    };
    init_with(options)?;
    let group = world()?;
    say(&format!("ready {} {}", group.rank(), std::process::id()));
    match mode.as_str() {
        "train" => train(&group, Fault::None)?,
        "forward" => train(&group, Fault::Sleep)?,
        "panic" => train(&group, Fault::Panic)?,
        "error" => train(&group, Fault::Error)?,
        "collective" => collectives(&group, Fault::Sleep)?,
        "leave" => collectives(&group, Fault::Leave)?,
        "skip" => collectives(&group, Fault::Skip)?,
        "loop" => collectives(&group, Fault::None)?,
        "run" => save(&group, Path::new(words.get(1).ok_or_else(usage)?), None)?,
        "full" => save(&group, Path::new(words.get(1).ok_or_else(usage)?), Some(2))?,
        other => return Err(TorshError::Other(format!("there is no mode `{other}`"))),
    }
    destroy()
}

/// What the victim does at its moment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    Sleep,
    Panic,
    Error,
    Leave,
    Skip,
}

/// A model whose forward can fail.
#[derive(Module)]
struct Net {
    fc: Linear,
    hooks: Hooks,
    #[module(skip)]
    failing: std::sync::Mutex<Fault>,
}

impl Module for Net {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let fault = *self.failing.lock().unwrap_or_else(|e| e.into_inner());
        match fault {
            Fault::Sleep => std::thread::sleep(FOR_EVER),
            Fault::Panic => panic!("the victim panics in forward"),
            Fault::Error => return Err(TorshError::Other("the victim's data is broken".into())),
            _ => {}
        }
        self.fc.forward(x)
    }
}

/// Data parallel training.
struct Training {
    model: DistributedDataParallel<Net>,
    sgd: SGD,
    x: Tensor,
}

impl Training {
    fn new(group: &ProcessGroup) -> Result<Training> {
        let net = Net {
            fc: Linear::new(8, 1),
            hooks: Hooks::new(),
            failing: std::sync::Mutex::new(Fault::None),
        };
        let model = DistributedDataParallel::new(net, ())?;
        Ok(Training {
            sgd: SGD::new(model.parameters(), 1e-4)?,
            x: Tensor::from_fn([4, 8], |i| (i[0] + i[1] + group.rank()) as f32)?,
            model,
        })
    }

    fn step(&self) -> Result<()> {
        self.sgd.zero_grad();
        self.model.forward(&self.x)?.square()?.mean()?.backward()?;
        self.sgd.step()
    }
}

/// Steps of training, in one of which the victim's forward pass fails.
fn train(group: &ProcessGroup, fault: Fault) -> Result<()> {
    let training = Training::new(group)?;
    for step in 0..2 * STEP {
        if step == STEP && group.rank() == VICTIM {
            let failing = &training.model.module().failing;
            *failing.lock().unwrap_or_else(|e| e.into_inner()) = fault;
            moment(group);
        }
        training.step()?;
    }
    Ok(())
}

/// Collectives, in one of which the victim does not take part, or is while others are not.
fn collectives(group: &ProcessGroup, fault: Fault) -> Result<()> {
    let t = Tensor::from_data(&[1.0f32], [1])?;
    let steps = if fault == Fault::None { 2000 } else { 2 * STEP };
    for step in 0..steps {
        let victim = group.rank() == VICTIM;
        match fault {
            _ if step != STEP => {}
            // The victim waits for the others when it is killed.
            Fault::Sleep if victim => moment(group),
            Fault::Sleep => std::thread::sleep(Duration::from_secs(1)),
            Fault::Leave if victim => {
                moment(group);
                // As a program that returns from main too early.
                std::process::exit(0);
            }
            Fault::Skip if victim => {
                moment(group);
                continue;
            }
            Fault::None => moment(group),
            _ => {}
        }
        group.all_reduce_(&t, ReduceOp::Avg)?;
        if fault == Fault::None {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    Ok(())
}

/// Trains, and saves a checkpoint after each step; each rank holds its part of each tensor, all of whose values are the
/// step's number. With `full`, the victim's disk takes no more after so many.
fn save(group: &ProcessGroup, dir: &Path, full: Option<usize>) -> Result<()> {
    const ROWS: usize = 64;
    let (rank, ranks) = (group.rank(), group.size());
    let mut pieces = Vec::new();
    for i in 0..4 {
        let tensor = Tensor::zeros(
            [ROWS, 1024],
            torsh_tensor::DType::F32,
            torsh_tensor::Device::Cpu,
        )?;
        pieces.push(Piece::new(
            format!("t{i}"),
            [ROWS * ranks, 1024],
            [ROWS * rank, 0],
            &tensor,
        )?);
    }
    let mut first = 1;
    if checkpoint::exists(dir) {
        let loaded = checkpoint::load_in(group, dir, &State::new().tensors("parts", &pieces))?;
        let step = loaded.value("step").and_then(|v| v.as_u64()).unwrap_or(0) as usize;
        for piece in &pieces {
            let values = piece.tensor().to_vec::<f32>()?;
            if values.iter().any(|&v| v != step as f32) {
                return Err(TorshError::Other(format!(
                    "the checkpoint of step {step} has values of another in {}",
                    piece.name()
                )));
            }
        }
        first = step + 1;
        say(&format!("loaded {step}"));
    }
    let saves = full.map_or(2000, |n| n + 1);
    let training = Training::new(group)?;
    for step in first..first + saves {
        training.step()?;
        no_grad(|| {
            pieces
                .iter()
                .try_for_each(|p| p.tensor().fill_(step as f64).map(drop))
        })?;
        if full.is_some_and(|n| step == first + n) && rank == VICTIM {
            limit_files()?;
        }
        moment(group);
        let state = State::new().tensors("parts", &pieces).value("step", step);
        checkpoint::save_in(group, dir, &state)?;
        say(&format!("saved {step}"));
    }
    Ok(())
}

/// From now on this process cannot write more than a few bytes to a file, as where a disk is full.
fn limit_files() -> Result<()> {
    let limited = Command::new("prlimit")
        .arg(format!("--pid={}", std::process::id()))
        .arg("--fsize=4096")
        .status()?;
    match limited.success() {
        true => Ok(()),
        false => Err(TorshError::Other(
            "prlimit cannot limit the size of files".into(),
        )),
    }
}
