//! Runs the unit tests that are compiled within the library. `TORSH_SHUFFLE=SEED` runs them in another order.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use torsh_backend_cpu::testing::{UnitTest, unit_tests};

fn main() -> ExitCode {
    let mut tests: Vec<&UnitTest> = unit_tests().collect();
    let seed = std::env::var("TORSH_SHUFFLE").ok();
    tests.sort_by_cached_key(|t| {
        let mut hasher = DefaultHasher::new();
        if let Some(seed) = &seed {
            (seed, t.name()).hash(&mut hasher);
        }
        (hasher.finish(), t.name())
    });
    let trial = |t: &'static UnitTest| {
        Trial::test(t.name(), move || {
            t.run();
            Ok(())
        })
    };
    let mut trials: Vec<Trial> = tests.into_iter().map(trial).collect();
    let found = trials.len();
    trials.push(Trial::test("every_unit_test_is_linked", move || {
        let written = written(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")));
        // Some are for other processors.
        match found <= written && found * 10 >= written * 7 {
            true => Ok(()),
            false => Err(format!("{found} of {written} unit tests are in the program").into()),
        }
    }));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// How many unit tests the sources have.
fn written(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.path() {
            path if path.is_dir() => written(&path),
            path => {
                let text = fs::read_to_string(path).unwrap_or_default();
                text.matches("#[torsh_macros::unit_test]").count()
            }
        })
        .sum()
}
