//! The algorithms of an operation against each other, on the machine at hand.

use std::collections::HashSet;
use std::io::{self, Write};

use torsh_backend_cpu::operations::{Chosen, Force, operations, record};

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
/// at once. A name in `only` that no workload has may be an operation's, which selects its problems in
/// all workloads.
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
    let all: Vec<_> = workloads.chain(sizes).collect();
    let names: Vec<&str> = all.iter().map(|(name, ..)| name.as_str()).collect();
    let ops = by_operation(only, &names);
    for (name, layout, spec) in &all {
        let named = selects(only, name);
        if named || !ops.is_empty() {
            let wanted = |chosen: &Chosen| named || ops.contains(&chosen.op);
            let of = (name.as_str(), spec, *layout);
            problem(of, wanted, budget, &mut seen, &mut found, out)?;
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

/// The operations that `only` names and no workload.
fn by_operation(only: &[String], workloads: &[&str]) -> Vec<&'static str> {
    operations()
        .into_iter()
        .map(|(op, _)| op)
        .filter(|op| only.iter().any(|o| o == op) && !workloads.iter().any(|w| w.contains(op)))
        .collect()
}

/// The wanted choices of one workload.
fn problem(
    (name, spec, layout): (&str, &Spec, Layout),
    wanted: impl Fn(&Chosen) -> bool,
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
        if !wanted(chosen)
            || !alone
            || chosen.accepted.len() < 2
            || !seen.insert(chosen.to_string())
        {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_named_where_no_workload_is() {
        let only = ["scan", "matmul", "nothing"].map(String::from);
        assert_eq!(by_operation(&only, &["matmul_64", "cumsum_100"]), ["scan"]);
        assert!(by_operation(&only[1..], &["matmul_64"]).is_empty());
    }

    /// Problems of scans, scatters and copies are found in the suite, and measured.
    #[test]
    fn problems_of_moves_are_measured() {
        for name in [
            "cumsum_1000000",
            "scatter_add_1000000",
            "transpose_contig_1024",
        ] {
            let mut out = Vec::new();
            let found = run(&[name.to_string()], 1e-9, &mut out).unwrap();
            assert!(
                found.problems > 0,
                "{name}: {}",
                String::from_utf8_lossy(&out)
            );
        }
    }
}
