//! The share of the machine's limits that workloads reach; both are measured in one run.

mod machine;
mod rows;
mod start;

use std::collections::HashMap;
use std::io::{self, Write};

use torsh_core::pool;
use torsh_tensor::{DType, Result};

use crate::harness::{measure, selects};
use crate::inputs::Layout;
use crate::spec::Spec;

pub use machine::Machine;
pub use rows::{Limit, Row, rows};
pub use start::{Start, start};

/// How limits are measured.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Parts of the names of the rows to measure; all where empty.
    pub only: Vec<String>,
    /// Seconds for the timed rounds of one row.
    pub budget: f64,
    /// The numbers of threads to measure with.
    pub threads: Vec<usize>,
    /// Microseconds of the same workloads on another side.
    pub peer: HashMap<String, f64>,
}

/// What a row came to.
#[derive(Clone, Debug, PartialEq)]
struct Score {
    /// What is compared with the target.
    value: f64,
    target: f64,
    /// Whether less is better.
    below: bool,
    text: String,
}

impl Score {
    fn holds(&self) -> bool {
        match self.below {
            true => self.value <= self.target,
            false => self.value >= self.target,
        }
    }

    fn verdict(&self) -> &'static str {
        if self.holds() { "" } else { "  MISSED" }
    }
}

/// The score of a row that took `us`, `None` where the machine or the other side has no limit for
/// it.
fn score(
    row: &Row,
    us: f64,
    m: &Machine,
    times: &HashMap<String, f64>,
    o: &Options,
) -> Option<Score> {
    let seconds = us * 1e-6;
    Some(match &row.limit {
        Limit::Peak { one, all } => {
            let peak = m.peak(dtype(&row.spec))?;
            let rate = row.spec.flops() as f64 / seconds;
            let value = 100.0 * rate / peak;
            let target = if m.threads == 1 { *one } else { *all };
            let text = format!("{:8.1} GFLOP/s {value:6.1} % of peak", rate / 1e9);
            Score {
                value,
                target,
                below: false,
                text,
            }
        }
        Limit::Bandwidth(target) => {
            let rate = row.spec.traffic() as f64 / seconds;
            let value = 100.0 * rate / m.copy;
            let text = format!("{:8.1} GB/s    {value:6.1} % of copy", rate / 1e9);
            Score {
                value,
                target: *target,
                below: false,
                text,
            }
        }
        Limit::Faster {
            than,
            times: target,
            bf16,
        } => {
            if *bf16 {
                m.bf16?;
            }
            let value = times.get(than)? / us;
            let text = format!("{value:8.2} times the speed of {than}");
            Score {
                value,
                target: *target,
                below: false,
                text,
            }
        }
        Limit::Time(target) => {
            let text = format!("{:8.0} ns", us * 1e3);
            Score {
                value: us,
                target: *target,
                below: true,
                text,
            }
        }
        Limit::Peer(target) => {
            let value = o.peer.get(&row.name)? / us;
            let text = format!("{value:8.2} times the peer's speed");
            Score {
                value,
                target: *target,
                below: false,
                text,
            }
        }
    })
}

fn target(limit: &Limit, s: &Score) -> String {
    match limit {
        Limit::Peak { .. } | Limit::Bandwidth(_) => format!("{} %", s.target),
        Limit::Faster { .. } | Limit::Peer(_) => format!("{}", s.target),
        Limit::Time(us) => format!("{:.0} ns", us * 1e3),
    }
}

fn dtype(spec: &Spec) -> DType {
    match spec {
        Spec::MatMul { dtype, .. } => *dtype,
        _ => DType::F32,
    }
}

/// The fastest round in microseconds.
fn fastest(spec: &Spec, budget: f64) -> Result<f64> {
    let mut call = spec.make(Layout::Contiguous)?.call;
    Ok(measure(&mut call, budget)?[0])
}

/// Measures and prints. Gives the number of targets missed.
///
/// # Errors
/// Of writing; a workload that fails is printed as such.
pub fn run(o: &Options, out: &mut dyn Write) -> io::Result<usize> {
    let before = pool::num_threads();
    let missed = measure_all(o, out);
    let _ = pool::set_num_threads(before);
    missed
}

fn measure_all(o: &Options, out: &mut dyn Write) -> io::Result<usize> {
    let all: Vec<Row> = rows()
        .into_iter()
        .filter(|r| selects(&o.only, &r.name))
        .collect();
    let mut missed = 0;
    for &threads in &o.threads {
        let _ = pool::set_num_threads(threads);
        let mut machine = Machine::measure(threads);
        writeln!(out, "{machine}")?;
        let mut times = HashMap::new();
        let mut group = "";
        for row in &all {
            // What others disturb at one moment they may not at another: the limit is the best
            // that was ever seen.
            if row.group != group {
                group = row.group;
                machine = machine.best(Machine::measure(threads));
                writeln!(out, "{group}")?;
            }
            let us = match fastest(&row.spec, o.budget) {
                Ok(us) => us,
                Err(e) => {
                    writeln!(out, "  {:40} failed: {e}", row.name)?;
                    missed += 1;
                    continue;
                }
            };
            times.insert(row.name.clone(), us);
            write!(out, "  {:40} {us:12.2} us", row.name)?;
            match score(row, us, &machine, &times, o) {
                None => writeln!(out, "  {}", row.limit.without())?,
                Some(s) => {
                    missed += usize::from(!s.holds());
                    writeln!(
                        out,
                        "  {}, target {}{}",
                        s.text,
                        target(&row.limit, &s),
                        s.verdict()
                    )?;
                }
            }
            out.flush()?;
        }
        writeln!(out, "at the end: {machine}\n")?;
    }
    if selects(&o.only, "start") {
        missed += start::print(out)?;
    }
    writeln!(out, "{missed} targets missed")?;
    Ok(missed)
}

#[cfg(test)]
mod tests;
