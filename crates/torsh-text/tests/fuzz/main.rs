//! Changes files and texts of somebody else at random: what comes of it is read or is an error, within bounded memory
//! and time. Panics and hangs fail, and the changed bytes are kept.
//!
//! The same changes each time; `TORSH_FUZZ_SECONDS` goes on for longer with others, `TORSH_FUZZ_SEED` begins elsewhere.

#[path = "../common/mod.rs"]
mod common;
mod containers;
mod random;
mod targets;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use random::{Random, change};
use targets::{Target, targets};
use torsh_core::alloc;

/// Rounds over all targets.
const ROUNDS: u64 = 12;
/// More than tensors of small files may take.
const TENSORS: usize = 256 << 20;
/// More than the whole process may take.
const MEMORY: usize = 1 << 30;
/// Nothing that is made of a small file takes so long: it would go on for ever.
const HANG: Duration = Duration::from_secs(60);
/// The longest message.
const MESSAGE: usize = 8192;

/// The most memory this process ever had, where the system tells.
fn peak() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"))?;
    line.split_whitespace()
        .nth(1)?
        .parse::<usize>()
        .ok()
        .map(|kib| kib << 10)
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} = {text:?} is no number")),
    )
}

/// How often a target's files were read and refused.
#[derive(Default)]
struct Counts {
    read: u64,
    refused: u64,
}

/// Runs a target with these bytes, and says what is wrong with what it does.
fn run(target: &Target, bytes: &[u8], counts: &mut Counts) -> Result<(), String> {
    let start = Instant::now();
    let result = catch_unwind(AssertUnwindSafe(|| (target.run)(bytes)));
    match result {
        Ok(Ok(())) => counts.read += 1,
        Ok(Err(e)) => {
            counts.refused += 1;
            let message = e.to_string();
            if message.len() > MESSAGE {
                return Err(format!("a message of {} bytes", message.len()));
            }
        }
        Err(_) => return Err("a panic".into()),
    }
    if start.elapsed() > HANG {
        return Err(format!("it took {} s", start.elapsed().as_secs()));
    }
    match peak() {
        Some(peak) if peak > MEMORY => Err(format!("{} MiB of memory", peak >> 20)),
        _ => Ok(()),
    }
}

#[test]
fn changed_files_are_read_or_refused() {
    alloc::set_limit(Some(TENSORS));
    let seconds = number("TORSH_FUZZ_SECONDS").unwrap_or(0);
    let seed = number("TORSH_FUZZ_SEED").unwrap_or(0x5eed);
    let targets = targets();
    let mut counts: Vec<Counts> = targets.iter().map(|_| Counts::default()).collect();
    let mut refused = Vec::new();
    for (target, counts) in targets.iter().zip(&mut counts) {
        for (at, bytes) in target.corpus.iter().enumerate() {
            match (target.run)(bytes) {
                Ok(()) => counts.read += 1,
                Err(e) => refused.push(format!("{} {at}: {e}", target.name)),
            }
        }
    }
    assert!(refused.is_empty(), "good files: {refused:#?}");
    let (start, longer) = (Instant::now(), Duration::from_secs(seconds));
    let (mut round, mut wrong) = (0, Vec::new());
    while round < ROUNDS || start.elapsed() < longer {
        for (n, target) in targets.iter().enumerate() {
            for (at, whole) in target.corpus.iter().enumerate() {
                let mut random = Random::new([seed, round, n as u64, at as u64]);
                let mut bytes = whole.clone();
                let other = &target.corpus[random.below(target.corpus.len())];
                change(&mut bytes, other, target.words, &mut random);
                let Err(why) = run(target, &bytes, &mut counts[n]) else {
                    continue;
                };
                let path = std::env::temp_dir().join(format!(
                    "torsh-text-fuzz-{}-{seed}-{round}-{at}",
                    target.name
                ));
                let kept = std::fs::write(&path, &bytes);
                let (name, path) = (target.name, path.display());
                wrong.push(format!("{name}:{path} ({kept:?}): {why}"));
                assert!(wrong.len() < 20, "{wrong:#?}");
            }
        }
        round += 1;
    }
    for (target, counts) in targets.iter().zip(&counts) {
        let Counts { read, refused } = counts;
        println!("{}: {read} read, {refused} refused", target.name);
        assert!(*read > 0 && *refused > 0, "{}", target.name);
    }
    println!("{round} rounds, {:?} MiB", peak().map(|p| p >> 20));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Files that a run kept: `TORSH_FUZZ_FILES=target:path,..`.
#[test]
fn kept_files_are_read_or_refused() {
    let Ok(files) = std::env::var("TORSH_FUZZ_FILES") else {
        return;
    };
    let targets = targets();
    for file in files.split(',') {
        let (name, path) = file
            .split_once(':')
            .unwrap_or_else(|| panic!("target:path, not {file}"));
        let target = targets.iter().find(|t| t.name == name);
        let target = target.unwrap_or_else(|| panic!("there is no target {name}"));
        let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{path}: {e}"));
        let result = run(target, &bytes, &mut Counts::default());
        assert_eq!(result, Ok(()), "{file}");
    }
}
