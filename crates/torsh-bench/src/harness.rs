//! Selecting workloads, timing them and printing their lines.

use std::hint::black_box;
use std::io::{self, Write};
use std::time::Instant;

use torsh_tensor::Result;

/// Rounds whose median is the result.
const ROUNDS: usize = 7;

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
    pub fn bench<R, F: FnMut() -> Result<R>>(
        &mut self,
        name: &str,
        make: impl FnOnce() -> Result<F>,
        flops: usize,
        bytes: usize,
    ) {
        let selected = self.only.is_empty() || self.only.iter().any(|o| name.contains(o.as_str()));
        if !selected || self.broken.is_some() {
            return;
        }
        self.summary.selected += 1;
        let line = match self.mode {
            Mode::List => name.to_string(),
            Mode::Time { budget } => match make().and_then(|mut f| measure(&mut f, budget)) {
                Ok(us) => line(name, us, flops, bytes),
                Err(e) => {
                    self.summary.failed += 1;
                    eprintln!("torsh-bench: {name}: {e}");
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
fn time<R>(f: &mut impl FnMut() -> Result<R>, n: u64) -> Result<f64> {
    let start = Instant::now();
    for _ in 0..n {
        drop(black_box(f()?));
    }
    Ok(start.elapsed().as_secs_f64())
}

/// The microseconds per call of each round, sorted.
fn measure<R>(f: &mut impl FnMut() -> Result<R>, budget: f64) -> Result<[f64; ROUNDS]> {
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
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_line_has_the_median_and_the_minimum() {
        let us = [1.0, 2.0, 3.0, 4.00049, 5.0, 6.0, 100.0];
        let text = line("add_1", us, 7, 8);
        assert_eq!(
            text,
            r#"{"name": "add_1", "us": 4, "min_us": 1, "flops": 7, "bytes": 8}"#
        );
        assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
    }

    #[test]
    fn times_are_those_of_one_call() {
        let us = measure(
            &mut || {
                std::thread::sleep(Duration::from_micros(500));
                Ok(())
            },
            0.02,
        )
        .unwrap();
        assert!(us.is_sorted());
        assert!(us[0] >= 500.0 && us[0] < 20_000.0, "{us:?}");
    }

    #[test]
    fn nothing_is_built_for_a_workload_left_out() {
        let mut out = Vec::new();
        let mut s = Suite::new(Mode::Time { budget: 1e-9 }, vec!["mul".into()], &mut out);
        let mut built = Vec::new();
        for name in ["add_1", "mul_1"] {
            s.bench(
                name,
                || {
                    built.push(name);
                    Ok(|| Ok(()))
                },
                0,
                0,
            );
        }
        assert_eq!(s.finish().unwrap().selected, 1);
        assert_eq!(built, ["mul_1"]);
        assert!(out.starts_with(b"{\"name\": \"mul_1\", "));
    }

    #[test]
    fn a_failing_workload_is_counted_and_prints_no_line() {
        let mut out = Vec::new();
        let mut s = Suite::new(Mode::Time { budget: 1e-9 }, vec![], &mut out);
        let fail = || Err::<(), _>(torsh_tensor::TorshError::invalid("op", "no"));
        s.bench("a", || Ok(fail), 0, 0);
        s.bench("b", || Ok(|| Ok(())), 0, 0);
        let summary = s.finish().unwrap();
        assert_eq!((summary.selected, summary.failed), (2, 1));
        assert_eq!(out.iter().filter(|&&c| c == b'\n').count(), 1);
    }

    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_closed_output_ends_the_run() {
        let mut out = Closed;
        let mut s = Suite::new(Mode::List, vec![], &mut out);
        s.bench("a", || Ok(|| Ok(())), 0, 0);
        s.bench("b", || Ok(|| Ok(())), 0, 0);
        assert_eq!(s.summary.selected, 1);
        assert_eq!(s.finish().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
