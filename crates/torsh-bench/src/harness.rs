//! Selecting workloads, timing them and printing their lines.

use std::fmt::Display;
use std::hint::black_box;
use std::io::{self, Write};
use std::time::Instant;

/// Rounds whose median is the result.
pub const ROUNDS: usize = 7;

/// What to do with the selected workloads.
#[derive(Clone, Copy, Debug)]
pub enum Mode {
    /// Print their names.
    List,
    /// Time them.
    Time {
        /// Seconds that all rounds of one workload take together.
        budget: f64,
    },
}

/// What a run of the suite did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    /// Workloads that the name parts selected.
    pub selected: usize,
    /// Workloads that ended with an error.
    pub failed: usize,
}

/// Whether `only` selects the name: by one of its parts, or all where it is empty.
pub fn selects(only: &[String], name: &str) -> bool {
    only.is_empty() || only.iter().any(|o| name.contains(o.as_str()))
}

/// Runs workloads as they are registered.
pub struct Suite<'a> {
    mode: Mode,
    only: Vec<String>,
    out: &'a mut dyn Write,
    summary: Summary,
    broken: Option<io::Error>,
}

impl<'a> Suite<'a> {
    /// A suite that runs the workloads whose names contain one of `only`, or all if it is empty.
    pub fn new(mode: Mode, only: Vec<String>, out: &'a mut dyn Write) -> Self {
        Suite {
            mode,
            only,
            out,
            summary: Summary::default(),
            broken: None,
        }
    }

    /// Registers a workload. `make` builds the inputs and returns the call to time, so that
    /// nothing is built for a workload left out; `flops` and `bytes` are what one call must
    /// compute and move at least, 0 where that says nothing.
    pub fn bench<R, E: Display, F: FnMut() -> Result<R, E>>(
        &mut self,
        name: &str,
        make: impl FnOnce() -> Result<F, E>,
        flops: usize,
        bytes: usize,
    ) {
        if !selects(&self.only, name) || self.broken.is_some() {
            return;
        }
        self.summary.selected += 1;
        let line = match self.mode {
            Mode::List => name.to_string(),
            Mode::Time { budget } => match make().and_then(|mut f| measure(&mut f, budget)) {
                Ok(us) => line(name, us, flops, bytes),
                Err(e) => {
                    self.summary.failed += 1;
                    eprintln!("{name}: {e}");
                    return;
                }
            },
        };
        let written = writeln!(self.out, "{line}").and_then(|()| self.out.flush());
        self.broken = written.err();
    }

    /// What was done, or why its lines could not be written.
    pub fn finish(self) -> io::Result<Summary> {
        match self.broken {
            Some(e) => Err(e),
            None => Ok(self.summary),
        }
    }
}

/// Seconds of `n` calls, the dropping of their results included.
fn time<R, E>(f: &mut impl FnMut() -> Result<R, E>, n: u64) -> Result<f64, E> {
    let start = Instant::now();
    for _ in 0..n {
        let result = f();
        let _ = black_box(&result);
        #[allow(
            clippy::question_mark,
            reason = "`?` moves the result, which waits for its own stores"
        )]
        if let Err(e) = result {
            return Err(e);
        }
    }
    Ok(start.elapsed().as_secs_f64())
}

/// The microseconds per call of each round, sorted; all rounds together take about `budget`
/// seconds, or seven calls where these take longer.
pub fn measure<R, E>(
    f: &mut impl FnMut() -> Result<R, E>,
    budget: f64,
) -> Result<[f64; ROUNDS], E> {
    time(f, 2)?;
    let round = budget / ROUNDS as f64;
    let mut n = 1u64;
    loop {
        let t = time(f, n)?;
        if t > round {
            break;
        }
        let factor = (round / t.max(1e-9) * 1.2).min(10.0);
        n = (n + 1).max((n as f64 * factor) as u64);
    }
    let mut us = [0.0; ROUNDS];
    for u in &mut us {
        *u = time(f, n)? / n as f64 * 1e6;
    }
    us.sort_by(f64::total_cmp);
    Ok(us)
}

fn line(name: &str, us: [f64; ROUNDS], flops: usize, bytes: usize) -> String {
    let round = |x: f64| (x * 1000.0).round() / 1000.0;
    let (median, min) = (round(us[ROUNDS / 2]), round(us[0]));
    format!(
        "{{\"name\": \"{name}\", \"us\": {median}, \"min_us\": {min}, \"flops\": {flops}, \"bytes\": {bytes}}}"
    )
}

#[cfg(test)]
#[path = "harness_tests.rs"]
mod tests;
