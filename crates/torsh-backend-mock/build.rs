//! Makes modules of other crates' tests, for `tests/on_mock`, which runs them on the mock device.
//!
//! The files are the crates' own; what is changed in the copies is what a test is called by (the
//! harness of `tests/on_mock` calls it), where files lie, and the device that tests name: `Device::Cpu`
//! becomes the default device, which the harness sets.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Test files by crate. Left out are those that are about the CPU itself (hostile arguments in child
/// processes, statistics of the CPU's generator, threads), those without tensors (macros, the fields of
/// modules), and gradcheck of every record, which is in float64: `tests/seam/gradients.rs` has it in float32.
const FILES: &[(&str, &[&str])] = &[
    (
        "torsh-tensor",
        &[
            "add_an_op",
            "autocast",
            "basics",
            "half_types",
            "indexing",
            "limits_of_types",
            "observe",
            "operators",
            "printing",
            "random",
            "shapes",
            "spaced",
            "unique",
        ],
    ),
    (
        "torsh-autograd",
        &[
            "anomaly",
            "checkpoint",
            "ctc_loss",
            "function",
            "functional",
            "graph",
            "hooks",
            "inplace",
            "modes",
            "random_graphs",
            "sequential",
            "threads",
            "views",
        ],
    ),
    (
        "torsh-nn",
        &[
            "checkpointed",
            "embedding",
            "feed_forward",
            "init",
            "layers",
            "lazy",
            "modules",
            "recurrent",
            "summary",
            "transformer",
            "utils",
        ],
    ),
    (
        "torsh-optim",
        &[
            "algorithms",
            "autocast",
            "averages",
            "files",
            "optimizers",
            "scaler",
            "schedulers",
        ],
    ),
];

/// Modules that the test files of a crate share.
const SHARED: [&str; 2] = ["common", "pytorch"];

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let own = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let crates = own.parent().expect("crates/");
    println!("cargo::rerun-if-changed=build.rs");
    let mut modules = String::new();
    for (name, files) in FILES {
        let root = crates.join(name);
        let family = name.trim_start_matches("torsh-");
        for shared in SHARED {
            let path = root.join("tests").join(shared).join("mod.rs");
            let Ok(text) = fs::read_to_string(&path) else {
                continue;
            };
            println!("cargo::rerun-if-changed={}", path.display());
            let module = format!("{family}_{shared}");
            let copy = out.join(format!("{module}.rs"));
            fs::write(&copy, plain(&text, &root, family).0).expect("the build's folder");
            writeln!(modules, "#[path = {copy:?}]\nmod {module};").expect("memory");
        }
        for file in *files {
            let path = root.join("tests").join(format!("{file}.rs"));
            println!("cargo::rerun-if-changed={}", path.display());
            // Outside of this repository the crate has no neighbours, and nothing to test.
            let Ok(text) = fs::read_to_string(&path) else {
                continue;
            };
            let module = format!("{family}_{file}");
            let copy = out.join(format!("{module}.rs"));
            fs::write(&copy, transformed(&text, &root, family)).expect("the build's folder");
            writeln!(modules, "#[path = {copy:?}]\npub mod {module};").expect("memory");
        }
    }
    let names: Vec<String> = modules
        .lines()
        .filter_map(|l| l.strip_prefix("pub mod ")?.strip_suffix(';'))
        .map(String::from)
        .collect();
    modules.push_str("pub const TESTS: &[(&str, &[crate::Test])] = &[\n");
    for n in names {
        writeln!(modules, "    ({n:?}, {n}::TESTS),").expect("memory");
    }
    modules.push_str("];\n");
    fs::write(out.join("modules.rs"), modules).expect("the build's folder");
}

/// A test file as a module with a list of its tests.
fn transformed(text: &str, root: &Path, family: &str) -> String {
    let (mut body, tests) = plain(text, root, family);
    body.push_str("\npub const TESTS: &[crate::Test] = &[\n");
    for (name, panics) in tests {
        writeln!(
            body,
            "    crate::Test {{ name: {name:?}, panics: {panics}, run: || crate::outcome({name}()) }},"
        )
        .expect("memory");
    }
    body.push_str("];\n");
    body
}

/// The text without what makes it a test file, and its tests: names, and whether they are to panic.
fn plain(text: &str, root: &Path, family: &str) -> (String, Vec<(String, bool)>) {
    let mut body = String::from("#![allow(warnings, clippy::all)]\n");
    let (mut tests, mut test, mut panics) = (Vec::new(), false, false);
    let data = format!("{}/tests/", root.display());
    for line in text.lines() {
        let code = line.trim_start();
        if code.starts_with("//!") || code.starts_with("#![") {
            continue;
        }
        // A program of its own names the shared modules, which stand beside this one here.
        if SHARED.iter().any(|shared| code == format!("mod {shared};")) {
            continue;
        }
        if code == "#[test]" {
            test = true;
            continue;
        }
        if code.starts_with("#[should_panic") {
            panics = true;
            continue;
        }
        if test && let Some(rest) = code.strip_prefix("fn ") {
            let name = rest.split(['(', '<']).next().unwrap_or_default();
            tests.push((name.to_string(), panics));
            (test, panics) = (false, false);
        }
        let line = line
            .replace(
                "env!(\"CARGO_MANIFEST_DIR\")",
                &format!("{:?}", root.display().to_string()),
            )
            .replace("include_bytes!(\"", &format!("include_bytes!(\"{data}"))
            .replace("include_str!(\"", &format!("include_str!(\"{data}"));
        let line = SHARED.iter().fold(line, |line, shared| {
            line.replace(
                &format!("crate::{shared}::"),
                &format!("crate::modules::{family}_{shared}::"),
            )
        });
        body.push_str(&on_default(&line));
        body.push('\n');
    }
    (body, tests)
}

/// A line that names the mock device in place of the CPU, which errors and printing show as well.
fn on_default(line: &str) -> String {
    const CPU: &str = "Device::Cpu";
    const MOCK: &str = "torsh_tensor::Device::Custom(0)";
    let line = line
        .replace("] cpu", "] mock:0")
        .replace(".to_device(Device::Cpu)", ".cpu()")
        .replace(
            "Generator::new(",
            "Generator::on(torsh_tensor::Device::Custom(0), ",
        )
        .replace(
            "LocalGenerator::on(torsh_tensor::Device::Custom(0), ",
            "LocalGenerator::new(",
        );
    let mut rest = line.as_str();
    let mut done = String::new();
    while let Some(at) = rest.find(CPU) {
        let (before, after) = (&rest[..at], &rest[at + CPU.len()..]);
        let pattern = after.trim_start().starts_with("=>") || after.trim_start().starts_with('|');
        // A longer path, as `torsh_core::Device::Cpu`.
        let path = before.trim_end_matches(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
        let path = match before.ends_with("::") {
            true => path,
            false => before,
        };
        done.push_str(if pattern { before } else { path });
        done.push_str(if pattern { CPU } else { MOCK });
        rest = after;
    }
    done.push_str(rest);
    done
}
