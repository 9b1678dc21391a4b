//! The rounds over all targets.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fmt, fs};

use crate::change::hash;
use crate::watch::{Watch, peak};
use crate::{Random, Target, change};

/// After so many failures it stops.
const FAILURES: usize = 20;

/// How long targets are run, and within which bounds.
#[derive(Clone, Debug)]
pub struct Fuzz {
    package: &'static str,
    rounds: u64,
    memory: usize,
    message: usize,
    hang: Duration,
}

impl Fuzz {
    /// The defaults, for the tests of a package: `env!("CARGO_PKG_NAME")`.
    pub fn new(package: &'static str) -> Fuzz {
        Fuzz {
            package,
            rounds: 100,
            memory: 512 << 20,
            message: 8192,
            hang: Duration::from_secs(60),
        }
    }

    /// How often each file of each target is changed. The default is 100.
    #[must_use]
    pub fn rounds(mut self, rounds: u64) -> Fuzz {
        self.rounds = rounds;
        self
    }

    /// The most bytes of memory that the whole process may take. The default is 512 MiB. Not checked where the system
    /// does not tell them.
    #[must_use]
    pub fn memory(mut self, bytes: usize) -> Fuzz {
        self.memory = bytes;
        self
    }

    /// The longest message of an error in bytes. The default is 8192.
    #[must_use]
    pub fn message(mut self, bytes: usize) -> Fuzz {
        self.message = bytes;
        self
    }

    /// The longest time that one file may take. The default is a minute.
    #[must_use]
    pub fn hang(mut self, limit: Duration) -> Fuzz {
        self.hang = limit;
        self
    }

    /// Runs the targets on their good files, then round by round on changed ones, and prints how many were read and refused.
    ///
    /// # Panics
    /// A good file that is refused; a changed file at which a target panics or takes too long, too much memory, or too long
    /// a message; a target that refuses no changed file; variables of the environment that make no sense. The message says
    /// where the file is, and how to run the target on it again. A target that does not end ends the process.
    #[track_caller]
    pub fn run(&self, targets: Vec<Target>) {
        let variable = |name: &str| env::var(name).ok();
        let done = Asked::new(&variable).and_then(|asked| self.check(&targets, &asked));
        match done {
            Ok(report) => println!("{report}"),
            Err(why) => panic!("{why}"),
        }
    }

    /// Does what is asked for, and reports it.
    fn check(&self, targets: &[Target], asked: &Asked) -> Result<String, String> {
        let named = |name: &str| {
            let found = targets.iter().find(|t| t.name == name);
            found.ok_or_else(|| {
                let names: Vec<&str> = targets.iter().map(|t| t.name).collect();
                let names = names.join(", ");
                format!("there is no target {name:?}; there are {names}")
            })
        };
        for target in targets {
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
            let once = targets.iter().filter(|t| t.name == target.name).count() == 1;
            if !target.name.chars().all(plain) || !once || target.good == 0 {
                return Err(format!(
                    "{:?}: a target needs a plain name of its own and a good file",
                    target.name
                ));
            }
        }
        let mut runner = Runner::new(self);
        if !asked.files.is_empty() {
            let mut report = Vec::new();
            for (name, path) in &asked.files {
                let bytes = fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
                report.push(match runner.run(named(name)?, &bytes, path) {
                    Some(Outcome::Read) => format!("{}: read", path.display()),
                    Some(Outcome::Refused(why)) => format!("{}: refused: {why}", path.display()),
                    None => continue,
                });
            }
            report.push(format!("{} files", asked.files.len()));
            return runner.finish(report.join("\n"));
        }
        let chosen: Vec<&Target> = match asked.targets.is_empty() {
            true => targets.iter().collect(),
            false => {
                let named = asked.targets.iter().map(|name| named(name));
                named.collect::<Result<_, _>>()?
            }
        };
        let folder = &runner.folder;
        fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let mut counts = vec![Counts::default(); chosen.len()];
        for (target, counts) in chosen.iter().zip(&mut counts) {
            for (at, bytes) in target.files[..target.good].iter().enumerate() {
                match runner.changed(target, bytes, &format!("good-{at}")) {
                    Some(Outcome::Refused(why)) => {
                        runner.fail(target, None, &format!("good file {at} is refused: {why}"));
                    }
                    outcome => counts.add(outcome),
                }
            }
        }
        let (start, longer) = (Instant::now(), Duration::from_secs(asked.seconds));
        let mut round = 0;
        while (round < self.rounds || start.elapsed() < longer) && runner.goes_on() {
            for (target, counts) in chosen.iter().zip(&mut counts) {
                for at in 0..target.files.len() {
                    let seed = [asked.seed, round, hash(target.name.as_bytes()), at as u64];
                    let bytes = changed(target, at, targets, &mut Random::new(&seed));
                    let name = format!("{}-{round}-{at}", asked.seed);
                    counts.add(runner.changed(target, &bytes, &name));
                }
            }
            round += 1;
        }
        let mut report = String::new();
        let whole = runner.failures.is_empty();
        for (target, counts) in chosen.iter().zip(&counts) {
            report += &format!("{}: {counts}\n", target.name);
            if whole && (counts.read == 0 || counts.refused == 0) {
                runner.fail(target, None, &counts.to_string());
            }
        }
        runner.finish(format!("{report}{round} rounds"))
    }
}

/// A file of a target with changes.
fn changed(target: &Target, at: usize, all: &[Target], random: &mut Random) -> Vec<u8> {
    let mut bytes = target.files[at].clone();
    // Now and then with parts of a file of another format.
    let of = match random.below(8) {
        0 => random.one(all),
        _ => target,
    };
    let other = random.one(&of.files);
    change(&mut bytes, other, target.words, target.header, random);
    bytes
}

/// What the environment asks for.
#[derive(Clone, Debug, PartialEq)]
struct Asked {
    seconds: u64,
    seed: u64,
    targets: Vec<String>,
    files: Vec<(String, PathBuf)>,
}

impl Asked {
    /// Of the variables, by name.
    fn new(variable: &dyn Fn(&str) -> Option<String>) -> Result<Asked, String> {
        let number = |name: &str, default: u64| match variable(name) {
            Some(text) => text
                .parse()
                .map_err(|_| format!("{name}={text} is no number")),
            None => Ok(default),
        };
        let list = |name: &str| -> Vec<String> {
            let text = variable(name).unwrap_or_default();
            let parts = text.split(',').filter(|part| !part.is_empty());
            parts.map(str::to_string).collect()
        };
        let file = |text: String| match text.split_once(':') {
            Some((name, path)) => Ok((name.to_string(), PathBuf::from(path))),
            None => Err(format!("TORSH_FUZZ_FILES has {text}, not TARGET:PATH")),
        };
        Ok(Asked {
            seconds: number("TORSH_FUZZ_SECONDS", 0)?,
            seed: number("TORSH_FUZZ_SEED", 0x5eed)?,
            targets: list("TORSH_FUZZ_TARGETS"),
            files: list("TORSH_FUZZ_FILES")
                .into_iter()
                .map(file)
                .collect::<Result<_, _>>()?,
        })
    }
}

/// What a target made of a file.
enum Outcome {
    Read,
    /// With the message of the error.
    Refused(String),
}

/// How many files of a target were read and refused.
#[derive(Clone, Copy, Default)]
struct Counts {
    read: u64,
    refused: u64,
}

impl Counts {
    fn add(&mut self, outcome: Option<Outcome>) {
        match outcome {
            Some(Outcome::Read) => self.read += 1,
            Some(Outcome::Refused(_)) => self.refused += 1,
            None => {}
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} read, {} refused", self.read, self.refused)
    }
}

/// Runs targets and notes what is wrong.
struct Runner<'a> {
    fuzz: &'a Fuzz,
    longest: usize,
    /// Where files are while a target runs on them, and stay if something is wrong.
    folder: PathBuf,
    watch: Watch,
    /// Whether the process once had more memory than it may.
    full: bool,
    failures: Vec<String>,
}

impl Runner<'_> {
    fn new(fuzz: &Fuzz) -> Runner<'_> {
        let name = format!("{}-fuzz-{}", fuzz.package, std::process::id());
        Runner {
            fuzz,
            longest: fuzz.message,
            folder: env::temp_dir().join(name),
            watch: Watch::new(fuzz.hang),
            full: false,
            failures: Vec::new(),
        }
    }

    /// Whether to go on: what follows a file that took too much memory cannot be told.
    fn goes_on(&self) -> bool {
        self.failures.len() < FAILURES && !self.full
    }

    /// Runs a target on bytes, and keeps them as a file of this name if something is wrong.
    fn changed(&mut self, target: &Target, bytes: &[u8], name: &str) -> Option<Outcome> {
        if !self.goes_on() {
            return None;
        }
        let path = self.folder.join(format!("{}-{name}", target.name));
        fs::write(&path, bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let outcome = self.run(target, bytes, &path);
        if outcome.is_some() {
            // What is left of it would not matter.
            let _ = fs::remove_file(&path);
        }
        outcome
    }

    /// Runs a target on the bytes of a file; nothing if something is wrong.
    fn run(&mut self, target: &Target, bytes: &[u8], path: &Path) -> Option<Outcome> {
        let start = Instant::now();
        self.watch.begin(self.again(target, path));
        let random = &mut Random::of(bytes);
        let result = catch_unwind(AssertUnwindSafe(|| (target.run)(bytes, random)));
        self.watch.end();
        let outcome = match result {
            Ok(Ok(())) => Outcome::Read,
            Ok(Err(message)) => Outcome::Refused(message),
            Err(panic) => {
                self.fail(target, Some(path), &format!("panic: {}", text(&*panic)));
                return None;
            }
        };
        let took = start.elapsed();
        let wrong = match &outcome {
            Outcome::Refused(message) if message.len() > self.longest => {
                let begin: String = message.chars().take(400).collect();
                format!("a message of {} bytes: {begin}", message.len())
            }
            _ if took > self.fuzz.hang => format!("{} s", took.as_secs()),
            _ => match peak() {
                Some(peak) if peak > self.fuzz.memory => {
                    self.full = true;
                    let (peak, limit) = (peak >> 20, self.fuzz.memory >> 20);
                    format!("{peak} MiB of memory, more than {limit}")
                }
                _ => return Some(outcome),
            },
        };
        self.fail(target, Some(path), &wrong);
        None
    }

    /// How to run a target on a file again.
    fn again(&self, target: &Target, path: &Path) -> String {
        format!(
            "TORSH_FUZZ_FILES={}:{} cargo test -p {} --test fuzz",
            target.name,
            path.display(),
            self.fuzz.package
        )
    }

    fn fail(&mut self, target: &Target, path: Option<&Path>, why: &str) {
        let again = path.map(|path| format!("\n    again: {}", self.again(target, path)));
        let again = again.unwrap_or_default();
        self.failures.push(format!("{}: {why}{again}", target.name));
    }

    /// The report, or what was wrong ahead of it.
    fn finish(self, report: String) -> Result<String, String> {
        let peak = peak().map(|peak| format!(", {} MiB of memory at most", peak >> 20));
        let report = report + &peak.unwrap_or_default();
        if self.failures.is_empty() {
            let _ = fs::remove_dir_all(&self.folder);
            return Ok(report);
        }
        Err(format!("{}\n{report}", self.failures.join("\n")))
    }
}

/// The message of a panic.
fn text(panic: &(dyn Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("without a text")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads numbers, of which 77 is a panic.
    fn number(bytes: &[u8], _: &mut Random) -> Result<(), String> {
        let text = std::str::from_utf8(bytes).map_err(|e| e.to_string())?;
        let number: i64 = text.parse().map_err(|e| format!("{text:?}: {e}"))?;
        assert_ne!(number, 77, "a number that does not exist");
        Ok(())
    }

    fn fuzz(package: &'static str) -> Fuzz {
        // The tests run in one process.
        Fuzz::new(package).rounds(300).memory(4 << 30)
    }

    fn asked(variables: &[(&str, &str)]) -> Asked {
        let variable = |name: &str| {
            let found = variables.iter().find(|(n, _)| *n == name);
            found.map(|(_, value)| value.to_string())
        };
        Asked::new(&variable).expect("variables that make sense")
    }

    fn folder(package: &str) -> PathBuf {
        env::temp_dir().join(format!("{package}-fuzz-{}", std::process::id()))
    }

    #[test]
    fn a_report() {
        let texts = Target::new("text", vec![b"1".to_vec()], |bytes, _| {
            std::str::from_utf8(bytes).map(|_| ())
        });
        let targets = [
            Target::new("number", vec![b"12".to_vec(), b"-7".to_vec()], number)
                .others(vec![b"x".to_vec()]),
            texts,
        ];
        let report = fuzz("report").check(&targets, &asked(&[])).unwrap();
        let lines: Vec<&str> = report.lines().collect();
        assert!(
            lines[0].starts_with("number: ") && lines[1].starts_with("text: "),
            "{report}"
        );
        assert!(lines[2].starts_with("300 rounds"), "{report}");
        // All files are counted: 300 rounds of three, and two good ones.
        let words = lines[0]
            .split(' ')
            .filter_map(|word| word.parse::<u64>().ok());
        assert_eq!(words.sum::<u64>(), 902);
        assert!(!folder("report").exists());
        let again = fuzz("report").check(&targets, &asked(&[])).unwrap();
        assert_eq!(again.lines().next(), lines.first().copied());
        // The changes of a target do not depend on which others run.
        let alone = asked(&[("TORSH_FUZZ_TARGETS", "number")]);
        let alone = fuzz("report").check(&targets, &alone).unwrap();
        assert_eq!(alone.lines().next(), lines.first().copied());
        assert!(!alone.contains("text"), "{alone}");
        let other = fuzz("report").check(&targets, &asked(&[("TORSH_FUZZ_SEED", "8")]));
        assert_ne!(other.unwrap().lines().next(), lines.first().copied());
    }

    #[test]
    fn a_failure_is_kept() {
        let digits = Target::new("digits", vec![b"17".to_vec(), b"71".to_vec()], number);
        let targets = [digits];
        let why = fuzz("kept")
            .rounds(2000)
            .check(&targets, &asked(&[]))
            .unwrap_err();
        let first = why.lines().next().unwrap();
        assert!(
            first.starts_with("digits: panic:") && first.contains("does not exist"),
            "{why}"
        );
        let again = why
            .lines()
            .find_map(|line| line.split_once("TORSH_FUZZ_FILES="));
        let (files, command) = again.unwrap().1.split_once(' ').unwrap();
        assert_eq!(command, "cargo test -p kept --test fuzz");
        let path = files.strip_prefix("digits:").unwrap();
        // Such as 077.
        let kept: i64 = fs::read_to_string(path).unwrap().parse().unwrap();
        assert_eq!(kept, 77);
        let same = fuzz("kept").check(&targets, &asked(&[("TORSH_FUZZ_FILES", files)]));
        assert!(same.unwrap_err().contains("does not exist"));
        // Mended, it is read.
        fs::write(path, "78").unwrap();
        let mended = fuzz("kept").check(&targets, &asked(&[("TORSH_FUZZ_FILES", files)]));
        assert!(mended.unwrap().starts_with(&format!("{path}: read")));
        assert!(!folder("kept").exists());
    }

    #[test]
    fn what_else_fails() {
        let failing = |fuzz: Fuzz, target: Target| fuzz.check(&[target], &asked(&[])).unwrap_err();
        let good = || vec![b"12".to_vec()];
        let refused = Target::new("a", vec![b"12".to_vec(), b"no".to_vec()], number);
        let why = failing(fuzz("wrong-1"), refused);
        assert!(
            why.contains("a: good file 1 is refused: \"no\": invalid digit"),
            "{why}"
        );
        let any = Target::new("a", good(), |_, _| Ok::<(), String>(()));
        let why = failing(fuzz("wrong-2"), any);
        assert!(why.contains("a: 301 read, 0 refused"), "{why}");
        let why = failing(
            fuzz("wrong-3").message(10),
            Target::new("a", good(), number),
        );
        assert!(
            why.contains("a message of ") && why.contains("again: "),
            "{why}"
        );
        if peak().is_some() {
            let why = failing(
                fuzz("wrong-4").memory(1 << 10),
                Target::new("a", good(), number),
            );
            assert!(why.contains("MiB of memory, more than 0"), "{why}");
        }
        let why = failing(fuzz("wrong-5"), Target::new("a", Vec::new(), number));
        assert!(why.contains("needs"), "{why}");
        let unknown = asked(&[("TORSH_FUZZ_TARGETS", "a,b")]);
        let why = fuzz("wrong-6").check(&[Target::new("a", good(), number)], &unknown);
        assert_eq!(why.unwrap_err(), "there is no target \"b\"; there are a");
        let seed = |name: &str| (name == "TORSH_FUZZ_SEED").then(|| "x".to_string());
        assert_eq!(
            Asked::new(&seed).unwrap_err(),
            "TORSH_FUZZ_SEED=x is no number"
        );
        for n in 1..=6 {
            let _ = fs::remove_dir_all(folder(&format!("wrong-{n}")));
        }
    }

    /// Run by the next test.
    #[test]
    #[ignore = "takes ten minutes"]
    fn endless() {
        let target = Target::new("endless", vec![b"12".to_vec()], |bytes, random| {
            if bytes != b"12" {
                std::thread::sleep(Duration::from_secs(600));
            }
            number(bytes, random)
        });
        let fuzz = fuzz("endless").hang(Duration::from_millis(400));
        println!("{:?}", fuzz.check(&[target], &asked(&[])));
    }

    #[test]
    fn a_hang_ends_the_process() {
        let mut test = std::process::Command::new(env::current_exe().unwrap());
        let done = test
            .args(["--exact", "run::tests::endless", "--ignored"])
            .output();
        let done = done.unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(101), "{said}");
        let (_, files) = said.split_once("TORSH_FUZZ_FILES=endless:").unwrap();
        let (path, rest) = files.split_once(' ').unwrap();
        assert!(rest.contains("no end after"), "{said}");
        assert_ne!(fs::read(path).unwrap(), b"12");
        fs::remove_dir_all(Path::new(path).parent().unwrap()).unwrap();
    }
}
