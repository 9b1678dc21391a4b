//! The report of a run.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::exact::Accepted;
use crate::report::{line, wrapped};

use super::arrange::Arrangement;

/// What came of one file.
#[derive(Clone, Debug, Default)]
pub struct FileReport {
    /// Cases, refused calls and prints that passed, in every arrangement.
    pub passed: usize,
    /// One message for each that failed.
    pub failures: Vec<String>,
    /// One message for each that passed only because its results are as near to the exact ones as PyTorch's.
    pub nearer: Vec<String>,
    /// One message for each that passed only by a wider tolerance.
    pub listed: Vec<String>,
}

impl FileReport {
    pub(super) fn pass(&mut self, name: &str, accepted: &[Accepted]) {
        self.passed += 1;
        let listed = |a: &&Accepted| matches!(a, Accepted::Listed(_));
        match accepted.iter().find(listed).or(accepted.first()) {
            Some(Accepted::Nearer(told)) => self.nearer.push(format!("{name}: {told}")),
            Some(Accepted::Listed(told)) => self.listed.push(format!("{name}: {told}")),
            None => {}
        }
    }

    pub(super) fn fail(&mut self, message: String) {
        self.failures.push(message);
    }
}

/// What came of all cases.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// By file.
    pub files: BTreeMap<String, FileReport>,
    /// Cases that give results.
    pub cases: usize,
    /// Those with gradients.
    pub gradients: usize,
    /// Calls that must be refused.
    pub refused: usize,
    /// Tensors that are printed.
    pub prints: usize,
    /// Calls and prints made, by the arrangements of [`Arrangement::ALL`].
    pub arrangements: [usize; 6],
    /// How many cases of an operator were not run with split duplicates, because its result shows them.
    pub shown: BTreeMap<String, usize>,
    /// Cases in which PyTorch is wrong, and why.
    pub skipped: Vec<(String, String)>,
    /// Cases that could not be run on the device, by reason.
    pub left_out: BTreeMap<String, usize>,
    /// What the executor tells of its calls.
    pub notes: Vec<String>,
}

impl Report {
    pub(super) fn file(&mut self, name: &str) -> &mut FileReport {
        self.files.entry(name.to_string()).or_default()
    }

    /// How many passed.
    pub fn passed(&self) -> usize {
        self.files.values().map(|f| f.passed).sum()
    }

    /// How many failed.
    pub fn failed(&self) -> usize {
        self.files.values().map(|f| f.failures.len()).sum()
    }

    /// The whole text; `verbose` tells every failed case, not only the first of each name, and every case that passed
    /// outside the default tolerance. The last line is `N passed, N failed`.
    pub fn text(&self, verbose: bool) -> String {
        let mut text = String::new();
        self.write(&mut text, verbose)
            .expect("writing to a String cannot fail");
        text
    }

    fn write(&self, out: &mut String, verbose: bool) -> std::fmt::Result {
        for (name, file) in &self.files {
            let Some(first) = file.failures.first() else {
                continue;
            };
            let failed = file.failures.len();
            let cases = file.passed + failed;
            writeln!(
                out,
                "FAIL {name}: {failed} of {cases} cases; first: {}",
                line(first)
            )?;
            let more = file.failures.iter().filter(|_| verbose);
            for failure in more {
                writeln!(out, "     {}", line(failure))?;
            }
        }
        let told: [(&str, &str, Told); 2] = [
            ("EXACT", "passed by the exact result", |f| &f.nearer),
            ("LISTED", "passed by a listed tolerance", |f| &f.listed),
        ];
        for (kind, _, told) in told {
            let files = self
                .files
                .iter()
                .filter(|(_, f)| verbose && !told(f).is_empty());
            for (name, file) in files {
                writeln!(out, "{kind} {name}: {} cases", told(file).len())?;
                for message in told(file) {
                    writeln!(out, "     {}", line(message))?;
                }
            }
        }
        writeln!(
            out,
            "{} names, {} cases, {} of them with gradients, {} refused calls, {} prints",
            self.files.keys().filter(|n| *n != "printing").count(),
            self.cases,
            self.gradients,
            self.refused,
            self.prints
        )?;
        let arrangements = Arrangement::ALL.iter().zip(self.arrangements);
        let each: Vec<_> = arrangements.map(|(a, n)| format!("{a} {n}")).collect();
        wrapped(out, "calls by arrangement", each.iter().map(String::as_str))?;
        if !self.shown.is_empty() {
            let told: Vec<_> = self
                .shown
                .iter()
                .map(|(op, n)| format!("{op} {n}"))
                .collect();
            let title = "not with split duplicates, which the result shows";
            wrapped(out, title, told.iter().map(String::as_str))?;
        }
        for (_, title, told) in told {
            let files = self.files.iter().filter(|(_, f)| !told(f).is_empty());
            let each: Vec<_> = files
                .map(|(n, f)| format!("{n} {}", told(f).len()))
                .collect();
            if !each.is_empty() {
                wrapped(out, title, each.iter().map(String::as_str))?;
            }
        }
        for (name, reason) in &self.skipped {
            writeln!(out, "skipped, {reason}: {name}")?;
        }
        for (reason, n) in &self.left_out {
            writeln!(out, "left out, {reason}: {n} cases")?;
        }
        for note in &self.notes {
            writeln!(out, "{note}")?;
        }
        let (passed, failed) = (self.passed(), self.failed());
        writeln!(out, "{} skipped", self.skipped.len())?;
        writeln!(out, "{passed} passed, {failed} failed")
    }
}

/// One kind of messages of a file.
type Told = fn(&FileReport) -> &Vec<String>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_tells_everything_and_ends_with_the_counts() {
        let mut report = Report {
            cases: 3,
            gradients: 2,
            refused: 1,
            prints: 1,
            arrangements: [5, 4, 3, 2, 1, 0],
            ..Report::default()
        };
        let told = Accepted::Nearer("exactly 1".to_string());
        report.file("add").pass("case 0", &[told]);
        report
            .file("add")
            .fail("case 1: expected 1,\n got 2".to_string());
        report.file("add").fail("case 2: other".to_string());
        report.file("printing").pass("printing", &[]);
        report.shown.insert("indices".to_string(), 3);
        report
            .skipped
            .push(("mm: case 3".to_string(), "PyTorch forgets".to_string()));
        let text = report.text(false);
        assert!(text.starts_with("FAIL add: 2 of 3 cases; first: case 1: expected 1, got 2\n"));
        assert!(
            !text.contains("other") && !text.contains("exactly"),
            "{text}"
        );
        assert!(
            text.contains(
                "1 names, 3 cases, 2 of them with gradients, 1 refused calls, 1 prints\n"
            )
        );
        assert!(
            text.contains("int32 indices 1,\n    split duplicates 0\n"),
            "{text}"
        );
        assert!(
            text.contains("which the result shows: indices 3\n"),
            "{text}"
        );
        assert!(
            text.contains("skipped, PyTorch forgets: mm: case 3\n"),
            "{text}"
        );
        assert!(
            text.contains("passed by the exact result: add 1\n"),
            "{text}"
        );
        assert!(text.ends_with("1 skipped\n2 passed, 2 failed\n"), "{text}");
        let all = report.text(true);
        assert!(
            all.contains("     case 2: other\n") && all.contains("exactly 1\n"),
            "{all}"
        );
    }
}
