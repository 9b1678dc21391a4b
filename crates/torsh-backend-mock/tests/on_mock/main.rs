//! Runs the tests of the tensor, autograd, nn and optim crates on the mock device: `build.rs` makes
//! modules of their files.
//!
//! A test that itself uses what the device has not (float64, complex numbers) is passed over: it is
//! listed in [`WIDE`], and its error says so. Any other test with such an error fails: an op it calls
//! uses float64 on its own. What else is left out is listed with its reason in [`LEFT_OUT`].

mod left_out;
mod wide;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use left_out::LEFT_OUT;
use torsh_tensor::DType;
use torsh_tensor::devices::set_sync_checks;
use wide::WIDE;

/// A test of another crate.
pub struct Test {
    /// As in its file.
    pub name: &'static str,
    /// Whether it is to panic.
    pub panics: bool,
    /// Runs it.
    pub run: fn() -> Result<(), String>,
}

/// What a test returns.
pub trait Outcome {
    /// Its error's text, where it failed.
    fn outcome(self) -> Result<(), String>;
}

impl Outcome for () {
    fn outcome(self) -> Result<(), String> {
        Ok(())
    }
}

impl<E: std::fmt::Debug> Outcome for Result<(), E> {
    fn outcome(self) -> Result<(), String> {
        self.map_err(|e| format!("{e:?}"))
    }
}

/// What a test returned.
pub fn outcome(o: impl Outcome) -> Result<(), String> {
    o.outcome()
}

mod modules {
    include!(concat!(env!("OUT_DIR"), "/modules.rs"));
}

/// Errors of tests that need more than the device has.
const LACKS: [&str; 3] = [
    "mock:0 has no float64",
    "mock:0 has no complex64",
    "mock:0 has no complex128",
];

enum End {
    Passed,
    /// Only where every call waits for its own errors.
    PassedInStep,
    /// It needs what the device has not.
    PassedOver(String),
    Failed(String),
}

fn text(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()))
        .unwrap_or_default()
}

/// Runs a test; once more with every call waiting for its errors if it fails, because some tests ask
/// whether the very call that is wrong is refused.
fn run(test: &'static Test) -> End {
    match once(test) {
        End::Failed(_) => {}
        end => return end,
    }
    set_sync_checks(true);
    let end = once(test);
    set_sync_checks(false);
    match end {
        End::Passed => End::PassedInStep,
        end => end,
    }
}

/// Runs a test on a thread of its own, so that what it leaves in its thread's state is gone.
fn once(test: &'static Test) -> End {
    let ran = std::thread::Builder::new()
        .stack_size(16 << 20)
        .spawn(|| {
            // The tests are written for the CPU's dtype in autocast regions.
            let _ = torsh_tensor::set_autocast_dtype(torsh_tensor::default_device(), DType::BF16);
            catch_unwind(AssertUnwindSafe(test.run))
        })
        .map_err(|e| e.to_string())
        .and_then(|t| t.join().map_err(|p| text(&*p)));
    // What failed later, on the device, belongs to this test.
    let late = torsh_tensor::devices::synchronize(torsh_tensor::default_device());
    let result = match ran {
        Err(e) => Err(e),
        Ok(Err(panic)) if test.panics => {
            drop(panic);
            Ok(())
        }
        Ok(Err(panic)) => Err(text(&*panic)),
        Ok(Ok(_)) if test.panics => Err("it did not panic".to_string()),
        Ok(Ok(r)) => r.and(late.map_err(|e| e.to_string())),
    };
    match result {
        Ok(()) => End::Passed,
        Err(e) if LACKS.iter().any(|l| e.contains(l)) => End::PassedOver(e),
        Err(e) => End::Failed(e),
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| args.iter().any(|a| a == flag);
    let names = args
        .iter()
        .filter(|a| !a.starts_with("--") && *a != "terse");
    let names: Vec<&String> = names.collect();
    let chosen = |full: &str| {
        names.is_empty()
            || names.iter().any(|n| match has("--exact") {
                true => full == **n,
                false => full.contains(n.as_str()),
            })
    };
    let all = modules::TESTS
        .iter()
        .flat_map(|(module, tests)| {
            tests
                .iter()
                .map(move |t| (format!("{module}::{}", t.name), t))
        })
        .filter(|(full, _)| chosen(full));
    if has("--list") {
        if !has("--ignored") {
            all.for_each(|(full, _)| println!("{full}: test"));
        }
        return ExitCode::SUCCESS;
    }
    if let Err(e) = torsh_backend_mock::register().and_then(torsh_tensor::set_default_device) {
        eprintln!("{e}");
        return ExitCode::FAILURE;
    }
    // The panics of tests are told below.
    std::panic::set_hook(Box::new(|_| {}));
    let (mut passed, mut in_step, mut over, mut left) = (0, 0, 0, 0);
    let mut failed = Vec::new();
    for (full, test) in all {
        if LEFT_OUT.iter().any(|(name, _)| full == *name) {
            left += 1;
            continue;
        }
        match run(test) {
            End::Passed | End::PassedInStep if WIDE.contains(&full.as_str()) => {
                println!("test {full} ... FAILED\nit is listed as one that needs float64\n");
                failed.push(full);
            }
            End::Passed => passed += 1,
            End::PassedInStep => {
                passed += 1;
                in_step += 1;
            }
            End::PassedOver(_) if WIDE.contains(&full.as_str()) => over += 1,
            End::PassedOver(why) => {
                println!("test {full} ... FAILED\nan op uses what the device has not: {why}\n");
                failed.push(full);
            }
            End::Failed(why) => {
                println!("test {full} ... FAILED\n{why}\n");
                failed.push(full);
            }
        }
    }
    println!("{in_step} tests pass where every call waits for its errors, not else");
    println!("{over} tests need float64 or complex numbers, {left} are about the CPU");
    let used = torsh_tensor::devices::definitions_used();
    let calls: u64 = used.iter().map(|(_, n)| n).sum();
    println!("{} definitions were used in {calls} calls", used.len());
    let result = if failed.is_empty() { "ok" } else { "FAILED" };
    println!(
        "test result: {result}. {passed} passed; {} failed; {} ignored; 0 measured; 0 filtered out",
        failed.len(),
        over + left
    );
    match failed.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
