//! The algorithms of an operation against each other, on the machine at hand.

use std::collections::HashSet;
use std::io::{self, Write};

use torsh_backend_cpu::operations::{Chosen, Force, record};

use crate::harness::{measure, selects};
use crate::inputs::Layout;
use crate::spec::Spec;
use crate::suite;
use crate::sweep::series;

/// How much faster than the default an algorithm must be, in every round, to be told.
const OFF: f64 = 0.05;
/// Rounds, the default and the other algorithm in turn.
const ROUNDS: usize = 3;

/// What tuning found.
#[derive(Debug, Default)]
pub struct Found {
    /// Problems whose algorithms were measured against each other.
    pub problems: usize,
    /// Choices that are better than the default.
    pub better: Vec<String>,
}

/// Measures all algorithms that accept a problem of the selected workloads and sweeps, prints their
/// times over the default's, and says which are more than 5 % faster. `budget` is the seconds of one
/// measurement.
///
/// A workload with several problems of one operation is left out: an algorithm is forced on all of them
/// at once.
///
/// # Errors
/// Of writing, or a workload's.
pub fn run(only: &[String], budget: f64, out: &mut dyn Write) -> io::Result<Found> {
    let mut found = Found::default();
    let mut seen = HashSet::new();
    let workloads = suite::workloads()
        .into_iter()
        .map(|(name, spec)| (name, Layout::Contiguous, spec));
    let sizes = series().into_iter().flat_map(|s| {
        let (name, layout) = (s.name, s.layout);
        s.points
            .into_iter()
            .map(move |(size, spec)| (format!("{name}, n = {size}"), layout, spec))
    });
    for (name, layout, spec) in workloads.chain(sizes) {
        if selects(only, &name) {
            problem(&name, &spec, layout, budget, &mut seen, &mut found, out)?;
        }
    }
    writeln!(
        out,
        "# {} problems, {} of whose defaults are more than {:.0} % off",
        found.problems,
        found.better.len(),
        OFF * 100.0
    )?;
    Ok(found)
}

/// The choices of one workload.
fn problem(
    name: &str,
    spec: &Spec,
    layout: Layout,
    budget: f64,
    seen: &mut HashSet<String>,
    found: &mut Found,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut call = spec.make(layout).map_err(io::Error::other)?.call;
    let (done, all) = record(&mut call);
    done.map_err(io::Error::other)?;
    for chosen in &all {
        let alone = all.iter().filter(|c| c.op == chosen.op).count() == 1;
        if !alone || chosen.accepted.len() < 2 || !seen.insert(chosen.to_string()) {
            continue;
        }
        found.problems += 1;
        let mut best: Option<(f64, &str)> = None;
        write!(
            out,
            "{} {}: {}",
            chosen.op, chosen.problem, chosen.algorithm
        )?;
        let mut first = true;
        for &other in chosen.accepted.iter().filter(|&&a| a != chosen.algorithm) {
            let mut ratios = [0.0; ROUNDS];
            let mut us = f64::INFINITY;
            for ratio in &mut ratios {
                let own = median(&mut call, budget)?;
                let force = Force::new(chosen.op, other).map_err(io::Error::other)?;
                let theirs = median(&mut call, budget)?;
                drop(force);
                us = us.min(own);
                *ratio = own / theirs;
            }
            ratios.sort_by(f64::total_cmp);
            if std::mem::take(&mut first) {
                write!(out, " {us:.2} us")?;
            }
            write!(out, ", {other} {:.2}", ratios[ROUNDS / 2])?;
            // Faster in every round.
            if ratios[0] > 1.0 + OFF && best.is_none_or(|(r, _)| ratios[0] > r) {
                best = Some((ratios[0], other));
            }
        }
        match best {
            Some((ratio, algorithm)) => {
                writeln!(
                    out,
                    "  <- {algorithm} is {:.0} % faster",
                    (ratio - 1.0) * 100.0
                )?;
                let better = Chosen {
                    algorithm: chosen
                        .accepted
                        .iter()
                        .find(|&&a| a == algorithm)
                        .copied()
                        .unwrap_or(chosen.algorithm),
                    ..chosen.clone()
                };
                found
                    .better
                    .push(format!("{better} # {name}: {ratio:.2} times as fast"));
            }
            None => writeln!(out)?,
        }
        out.flush()?;
    }
    Ok(())
}

/// The median of a call in microseconds.
fn median<R>(call: &mut impl FnMut() -> torsh_tensor::Result<R>, budget: f64) -> io::Result<f64> {
    let us = measure(call, budget).map_err(io::Error::other)?;
    Ok(us[us.len() / 2])
}
