//! The report of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::compare::{EXCEPTIONS, Of};
use crate::layouts::Layout;
use crate::tiers::Tier;
use crate::training::runs;

/// What an operator's cases are counted under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// A tier of the operators.
    Tier(Tier),
    /// Result dtypes of mixed arguments.
    Promotion,
    /// The text of tensors.
    Printing,
    /// Operators whose results are free up to signs, phases or bases.
    Decompositions,
    /// Layers.
    Modules,
    /// Draws from a seed.
    Random,
    /// Steps of optimizers.
    Optimizers,
    /// Learning rates of schedulers.
    Schedulers,
    /// Whole training runs.
    Training,
}

impl Group {
    fn name(self) -> String {
        match self {
            Group::Tier(tier) => tier.to_string(),
            Group::Promotion => "promotion".to_string(),
            Group::Printing => "printing".to_string(),
            Group::Decompositions => "decompositions".to_string(),
            Group::Modules => "modules".to_string(),
            Group::Random => "random".to_string(),
            Group::Optimizers => "optimizers".to_string(),
            Group::Schedulers => "schedulers".to_string(),
            Group::Training => "training".to_string(),
        }
    }
}

/// One file's cases.
#[derive(Clone, Debug)]
pub struct OpReport {
    /// The file: `NAME` or `NAME.VARIANT`.
    pub name: String,
    /// The operator.
    pub op: String,
    /// What it counts under.
    pub group: Group,
    /// There is no such operator: nothing was run.
    pub absent: bool,
    /// Cases passed, in every layout.
    pub passed: usize,
    /// Cases with gradients.
    pub gradient_cases: usize,
    /// Calls that must be refused.
    pub error_cases: usize,
    /// Calls made, per layout of [`Layout::ALL`].
    pub layouts: [usize; 4],
    /// Calls of views that refused a layout, as they may.
    pub refused: usize,
    /// Cases that were not run, by reason.
    pub left_out: BTreeMap<String, usize>,
    /// One message per failed case.
    pub failures: Vec<String>,
    /// One message per case that passed only because its results are as near to the exact ones as
    /// PyTorch's.
    pub nearer: Vec<String>,
    /// One message per case that passed only by a wider tolerance of [`EXCEPTIONS`].
    pub listed: Vec<String>,
}

impl OpReport {
    /// An empty report.
    pub fn new(name: &str, op: &str, group: Group) -> OpReport {
        OpReport {
            name: name.to_string(),
            op: op.to_string(),
            group,
            absent: false,
            passed: 0,
            gradient_cases: 0,
            error_cases: 0,
            layouts: [0; 4],
            refused: 0,
            left_out: BTreeMap::new(),
            failures: Vec::new(),
            nearer: Vec::new(),
            listed: Vec::new(),
        }
    }

    /// Counts one case as failed.
    pub fn fail(&mut self, message: String) {
        self.failures.push(message);
    }

    /// Counts one case that is not run.
    pub fn leave_out(&mut self, reason: String) {
        *self.left_out.entry(reason).or_default() += 1;
    }

    /// Cases run.
    pub fn cases(&self) -> usize {
        self.passed + self.failures.len()
    }
}

/// A whole run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// One per file, in the order they are told.
    pub ops: Vec<OpReport>,
    /// What was not run: reason to names.
    pub skipped: BTreeMap<String, Vec<String>>,
    /// What the executor tells of its calls.
    pub notes: Vec<String>,
}

impl Report {
    /// Notes something that was not run.
    pub fn skip(&mut self, name: String, reason: &str) {
        self.skipped
            .entry(reason.to_string())
            .or_default()
            .push(name);
    }

    /// Cases passed.
    pub fn passed(&self) -> usize {
        self.ops.iter().map(|o| o.passed).sum()
    }

    /// Cases that were not run, by reason.
    pub fn left_out(&self) -> BTreeMap<&str, usize> {
        let mut all: BTreeMap<&str, usize> = BTreeMap::new();
        for (reason, n) in self.ops.iter().flat_map(|o| &o.left_out) {
            *all.entry(reason).or_default() += n;
        }
        all
    }

    /// Cases failed.
    pub fn failed(&self) -> usize {
        self.ops.iter().map(|o| o.failures.len()).sum()
    }

    /// Names of operators that are not there.
    pub fn absent(&self) -> BTreeSet<&str> {
        self.ops
            .iter()
            .filter(|o| o.absent)
            .map(|o| o.op.as_str())
            .collect()
    }

    /// Cases that passed only because their results are as near to the exact ones as PyTorch's.
    pub fn nearer(&self) -> usize {
        self.ops.iter().map(|o| o.nearer.len()).sum()
    }

    /// Cases that passed only by a wider tolerance of [`EXCEPTIONS`].
    pub fn listed(&self) -> usize {
        self.ops.iter().map(|o| o.listed.len()).sum()
    }

    /// The whole text; `verbose` tells every failed case, not only the first of each operator, and
    /// every case that passed outside the default tolerance. The last line is `N passed, N failed`.
    pub fn text(&self, verbose: bool) -> String {
        let mut text = String::new();
        self.write(&mut text, verbose)
            .expect("writing to a String cannot fail");
        text
    }

    fn write(&self, out: &mut String, verbose: bool) -> std::fmt::Result {
        for op in &self.ops {
            let Some(first) = op.failures.first() else {
                continue;
            };
            let (failed, cases) = (op.failures.len(), op.cases());
            writeln!(
                out,
                "FAIL {}: {failed} of {cases} cases; first: {}",
                op.name,
                line(first)
            )?;
            if verbose {
                for failure in &op.failures {
                    writeln!(out, "     {}", line(failure))?;
                }
            }
        }
        if verbose {
            self.write_told(out, "EXACT", &|o| &o.nearer)?;
            self.write_told(out, "LISTED", &|o| &o.listed)?;
        }
        self.write_counts(out)?;
        self.write_told_counts(out, "passed by the exact result", &|o| &o.nearer)?;
        self.write_told_counts(out, "passed by a listed tolerance", &|o| &o.listed)?;
        let mut groups: BTreeMap<Group, BTreeSet<&str>> = BTreeMap::new();
        for op in self.ops.iter().filter(|o| o.absent) {
            groups.entry(op.group).or_default().insert(&op.op);
        }
        for (group, names) in &groups {
            let title = format!("absent, {} ({})", group.name(), names.len());
            wrapped(out, &title, names.iter().copied())?;
        }
        for (reason, names) in &self.skipped {
            let title = format!("skipped, {reason} ({})", names.len());
            wrapped(out, &title, names.iter().map(String::as_str))?;
        }
        for (reason, n) in self.left_out() {
            writeln!(out, "left out, {reason}: {n} cases")?;
        }
        let refused: Vec<_> = self.ops.iter().filter(|o| o.refused > 0).collect();
        if !refused.is_empty() {
            let each: Vec<_> = refused
                .iter()
                .map(|o| format!("{} {}", o.name, o.refused))
                .collect();
            wrapped(
                out,
                "layouts refused by views, as they may",
                each.iter().map(String::as_str),
            )?;
        }
        for e in EXCEPTIONS
            .iter()
            .filter(|e| self.ops.iter().any(|o| o.op == e.op && !o.absent))
        {
            let of = match e.of {
                Some(Of::Output) => "results of ",
                Some(Of::Gradient) => "gradients of ",
                None => "",
            };
            writeln!(
                out,
                "tolerance of {of}{} in {}: rtol {:e}, atol {:e}: {}",
                e.op, e.dtype, e.rtol, e.atol, e.reason
            )?;
        }
        let trained = |key: &str| {
            let model = key.split('.').next().unwrap_or(key);
            let name = format!("training.{model}");
            self.ops.iter().any(|o| o.name == name && !o.absent)
        };
        for e in runs::EXCEPTIONS.iter().filter(|e| trained(e.key)) {
            writeln!(
                out,
                "tolerance of {} in training.{}: atol {:e}: {}",
                e.parameter, e.key, e.atol, e.reason
            )?;
        }
        for note in &self.notes {
            writeln!(out, "{note}")?;
        }
        writeln!(out, "{} passed, {} failed", self.passed(), self.failed())
    }

    /// Every message of one kind.
    fn write_told(
        &self,
        out: &mut String,
        kind: &str,
        told: &dyn Fn(&OpReport) -> &Vec<String>,
    ) -> std::fmt::Result {
        for op in self.ops.iter().filter(|o| !told(o).is_empty()) {
            let (name, n, cases) = (&op.name, told(op).len(), op.cases());
            writeln!(out, "{kind} {name}: {n} of {cases} cases")?;
            for message in told(op) {
                writeln!(out, "     {}", line(message))?;
            }
        }
        Ok(())
    }

    /// How many messages of one kind there are, of all cases and for each file.
    fn write_told_counts(
        &self,
        out: &mut String,
        title: &str,
        told: &dyn Fn(&OpReport) -> &Vec<String>,
    ) -> std::fmt::Result {
        let each = self.ops.iter().filter(|o| !told(o).is_empty());
        let each: Vec<_> = each
            .map(|o| format!("{} {}", o.name, told(o).len()))
            .collect();
        let n: usize = self.ops.iter().map(|o| told(o).len()).sum();
        let cases: usize = self.ops.iter().map(OpReport::cases).sum();
        let part = 100.0 * n as f64 / cases.max(1) as f64;
        if n == 0 {
            return Ok(());
        }
        let title = format!("{title} ({n} cases, {part:.3} %)");
        wrapped(out, &title, each.iter().map(String::as_str))
    }

    fn write_counts(&self, out: &mut String) -> std::fmt::Result {
        write!(out, "\n{:<11}", "kind")?;
        for column in ["names", "absent", "cases", "failed", "gradient", "refused"] {
            write!(out, "{column:>11}")?;
        }
        for layout in Layout::ALL {
            write!(out, "{:>12}", layout.name())?;
        }
        writeln!(out)?;
        let groups: BTreeSet<Group> = self.ops.iter().map(|o| o.group).collect();
        for group in groups {
            let ops: Vec<_> = self.ops.iter().filter(|o| o.group == group).collect();
            let names = |absent: bool| {
                let of = ops.iter().filter(|o| o.absent == absent).map(|o| &o.op);
                of.collect::<BTreeSet<_>>().len()
            };
            let sum = |f: &dyn Fn(&OpReport) -> usize| ops.iter().map(|o| f(o)).sum::<usize>();
            write!(out, "{:<11}", group.name())?;
            for n in [
                names(false),
                names(true),
                sum(&OpReport::cases),
                sum(&|o| o.failures.len()),
                sum(&|o| o.gradient_cases),
                sum(&|o| o.error_cases),
            ] {
                write!(out, "{n:>11}")?;
            }
            for i in 0..Layout::ALL.len() {
                write!(out, "{:>12}", sum(&|o| o.layouts[i]))?;
            }
            writeln!(out)?;
        }
        writeln!(out)
    }
}

/// A message on one line.
pub(crate) fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(crate) fn wrapped<'a>(
    out: &mut String,
    title: &str,
    names: impl Iterator<Item = &'a str>,
) -> std::fmt::Result {
    write!(out, "{title}:")?;
    let mut column = title.len() + 1;
    for (i, name) in names.enumerate() {
        let comma = if i == 0 { "" } else { "," };
        if column + name.len() + 2 > 100 {
            write!(out, "{comma}\n    {name}")?;
            column = 4 + name.len();
        } else {
            write!(out, "{comma} {name}")?;
            column += name.len() + 1 + comma.len();
        }
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_tells_everything_and_ends_with_the_counts() {
        let mut add = OpReport::new("add.extra", "add", Group::Tier(Tier::Core));
        add.passed = 7;
        add.gradient_cases = 3;
        add.error_cases = 2;
        add.layouts = [9, 8, 5, 8];
        add.fail("case 3: expected 1,\n got 2".to_string());
        add.fail("case 4: other".to_string());
        add.nearer.push("case 5: exactly 1".to_string());
        add.listed.push("case 6: exactly 2".to_string());
        let mut svd = OpReport::new("svd", "svd", Group::Tier(Tier::Full));
        svd.absent = true;
        let mut report = Report {
            ops: vec![add, svd],
            ..Report::default()
        };
        report.skip("case 3 of add".to_string(), "no reason");
        report.ops[0].leave_out("no float64".to_string());
        report.notes.push("3 definitions".to_string());
        let text = report.text(false);
        assert!(
            text.starts_with("FAIL add.extra: 2 of 9 cases; first: case 3: expected 1, got 2\n")
        );
        assert!(!text.contains("other"));
        let all = report.text(true);
        assert!(all.contains("     case 4: other\n"));
        assert!(all.contains("EXACT add.extra: 1 of 9 cases\n     case 5: exactly 1\n"));
        assert!(all.contains("LISTED add.extra: 1 of 9 cases\n     case 6: exactly 2\n"));
        assert!(!text.contains("exactly"));
        assert!(text.contains("passed by the exact result (1 cases, 11.111 %): add.extra 1\n"));
        assert!(text.contains("passed by a listed tolerance (1 cases, 11.111 %): add.extra 1\n"));
        let core = text.lines().find(|l| l.starts_with("core")).unwrap();
        let cells: Vec<_> = core.split_whitespace().skip(1).collect();
        assert_eq!(cells, ["1", "0", "9", "2", "3", "2", "9", "8", "5", "8"]);
        assert!(text.contains("absent, full (1): svd\n"));
        assert!(text.contains("skipped, no reason (1): case 3 of add\n"));
        assert!(text.contains("left out, no float64: 1 cases\n"));
        assert!(text.ends_with("\n3 definitions\n7 passed, 2 failed\n"));
    }

    #[test]
    fn long_lists_are_wrapped() {
        let names: Vec<_> = (0..60).map(|i| format!("operator{i}")).collect();
        let mut out = String::new();
        wrapped(&mut out, "absent", names.iter().map(String::as_str)).unwrap();
        assert!(out.lines().all(|l| l.len() <= 101), "{out}");
        assert_eq!(out.matches("operator").count(), 60);
    }
}
