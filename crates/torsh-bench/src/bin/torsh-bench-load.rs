//! Measures how long a ResNet-50 takes from its file to its first result, and the memory that the process had at most.
//!
//! ```text
//! cargo run --release -p torsh-bench --bin torsh-bench-load -- [--threads N] [--dir DIR]
//! ```
//!
//! The files, safetensors and `.pth`, are written to the folder where they are not there. Each is loaded in processes of
//! its own; the line is that of the fastest. `seconds` begins when `main` does, `rss_bytes` is the most memory that the
//! process had, with the pages of a mapped file that it read, and `ratio` that over the bytes of the weights.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use clap::Parser;
use torsh_bench::memory::peak_rss;
use torsh_core::pool;
use torsh_nn::{Module, ModuleExt};
use torsh_tensor::{Result, TorshError, no_grad, zeros};
use torsh_vision::models::{Weights, resnet50};

/// How often a file is loaded.
const ROUNDS: usize = 5;

/// Times loading and prints a JSON line for each kind of file.
#[derive(Debug, Parser)]
#[command(name = "torsh-bench-load", version)]
struct Args {
    /// Threads of one call; all cores by default
    #[arg(long, value_name = "N")]
    threads: Option<std::num::NonZeroUsize>,
    /// Where the files are
    #[arg(long, value_name = "DIR", default_value = "target/torsh-bench-load")]
    dir: PathBuf,
    /// Load this file, in this process
    #[arg(long, value_name = "FILE", hide = true)]
    of: Option<PathBuf>,
}

/// Seconds to the first result, the most memory, and the bytes of the weights.
fn load(file: &Path) -> Result<(f64, usize, usize)> {
    let start = Instant::now();
    let model = resnet50(file)?;
    model.eval();
    let y = no_grad(|| model.forward(&zeros(&[1, 3, 224, 224])))?;
    let seconds = start.elapsed().as_secs_f64();
    if !y.isfinite()?.all()?.item::<bool>()? {
        return Err(TorshError::failed(
            "torsh-bench-load",
            "the result is not finite",
        ));
    }
    let state = model.state_dict();
    let bytes = state
        .iter()
        .map(|(_, t)| t.numel() * t.dtype().size())
        .sum();
    Ok((seconds, peak_rss().unwrap_or(0), bytes))
}

fn run(args: &Args) -> Result<()> {
    if let Some(file) = &args.of {
        let (seconds, rss, bytes) = load(file)?;
        println!("{seconds} {rss} {bytes}");
        return Ok(());
    }
    std::fs::create_dir_all(&args.dir)?;
    for name in ["resnet50.safetensors", "resnet50.pth"] {
        let file = args.dir.join(name);
        if !file.exists() {
            resnet50(Weights::None)?.save(&file)?;
        }
        let mut best: Option<[f64; 3]> = None;
        for _ in 0..ROUNDS {
            let mut child = Command::new(std::env::current_exe()?);
            child.arg("--of").arg(&file);
            if let Some(n) = args.threads {
                child.arg("--threads").arg(n.to_string());
            }
            let output = child.output()?;
            let text = String::from_utf8_lossy(&output.stdout);
            let numbers: Vec<f64> = text
                .split_whitespace()
                .filter_map(|v| v.parse().ok())
                .collect();
            let Ok(numbers) = <[f64; 3]>::try_from(numbers) else {
                let text = String::from_utf8_lossy(&output.stderr).into_owned();
                return Err(TorshError::failed("torsh-bench-load", text));
            };
            if best.is_none_or(|best| numbers[0] < best[0]) {
                best = Some(numbers);
            }
        }
        if let Some([seconds, rss, bytes]) = best {
            println!(
                "{{\"name\": \"load_{name}\", \"seconds\": {seconds:.3}, \"rss_bytes\": {rss}, \"ratio\": {:.2}}}",
                rss / bytes
            );
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let args = Args::parse();
    let threads = args.threads.map_or(Ok(()), |n| {
        pool::set_num_threads(n.get()).map_err(|e| e.to_string())
    });
    match threads.and_then(|()| run(&args).map_err(|e| e.to_string())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("torsh-bench-load: {e}");
            ExitCode::FAILURE
        }
    }
}
