//! The rules of CONTRIBUTING that count something.

use std::collections::BTreeSet;

use super::tree::{crates, files, library_sources, manifest, text};

#[test]
fn files_are_below_800_lines() {
    let rule = text("CONTRIBUTING.md");
    assert!(rule.contains("Files stay below 800 lines."));
    let sources = files().iter().filter(|f| f.ends_with(".rs"));
    let long: Vec<String> = sources
        .map(|f| (f, text(f).lines().count()))
        .filter(|(_, lines)| *lines >= 800)
        .map(|(f, lines)| format!("{f}: {lines} lines"))
        .collect();
    assert!(long.is_empty(), "{}", long.join("\n"));
}

/// The lines of code of a source: without comments.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|l| !l.trim_start().starts_with("//"))
}

/// Where functions that users call may panic, as the rule lists them.
const MAY_PANIC: [&str; 13] = [
    // Operators and indices: `+`, `==`, `[..]`.
    "crates/torsh-tensor/src/operators.rs",
    "crates/torsh-tensor/src/ops/block_mask.rs",
    "crates/torsh-nn/src/module/state.rs",
    "crates/torsh-distributed/src/mesh.rs",
    // Macros.
    "crates/torsh-tensor/src/literal.rs",
    // Free functions.
    "crates/torsh-tensor/src/free.rs",
    // `Linear::new`, `requires_grad_`, iterating over a loader.
    "crates/torsh-nn/src/layers/linear.rs",
    "crates/torsh-tensor/src/tensor.rs",
    "crates/torsh-data/src/iterable.rs",
    "crates/torsh-data/src/loader/batches.rs",
    // `TORSH_PANIC_ON_ERR`.
    "crates/torsh-core/src/error.rs",
    // The software model of a processor, in tests.
    "crates/torsh-backend-cpu/src/simd/isa/model/program.rs",
    "crates/torsh-backend-cpu/src/simd/isa/model/unit.rs",
];

#[test]
fn what_may_panic_is_what_the_rule_names() {
    let rule = text("CONTRIBUTING.md");
    for name in [
        "`+`",
        "`==`",
        "`[..]`",
        "`Linear::new`",
        "`requires_grad_`",
        "a loader",
    ] {
        let rule = rule
            .split("* An error names")
            .nth(1)
            .and_then(|r| r.split("\n* ").next());
        assert!(
            rule.expect("the rule").contains(name),
            "the rule lacks {name}"
        );
    }
    let sources = library_sources();
    let panics = |text: &str| {
        const WORDS: [&str; 3] = ["panic!(", "todo!(", "unimplemented!("];
        code(text).any(|l| WORDS.iter().any(|w| l.contains(w)))
    };
    let found: BTreeSet<&str> = sources
        .iter()
        .filter(|(_, text)| panics(text))
        .map(|(file, _)| file.as_str())
        .collect();
    let listed = BTreeSet::from(MAY_PANIC);
    let more: Vec<_> = found.difference(&listed).collect();
    assert!(
        more.is_empty(),
        "functions of these files panic, and the rule does not name them: {more:?}"
    );
    let gone: Vec<_> = listed.difference(&found).collect();
    assert!(gone.is_empty(), "nothing of these files panics: {gone:?}");
}

/// Where the rule allows `unsafe`.
fn may_be_unsafe(file: &str) -> bool {
    const PLACES: [&str; 10] = [
        "crates/torsh-core/",
        "crates/torsh-backend/",
        "crates/torsh-backend-cpu/",
        "crates/torsh-backend-mock/",
        "crates/torsh-tensor/src/raw.rs",
        "crates/torsh-distributed/src/engine",
        "crates/torsh-distributed/src/comm",
        "crates/torsh-distributed-suite/src/engine",
        "crates/torsh-distributed-suite/tests/engine.rs",
        // The worked example of an op outside of the crate, which makes a promise of the rule's own.
        "crates/torsh-tensor/tests/add_an_op.rs",
    ];
    PLACES.iter().any(|p| file.starts_with(p))
}

#[test]
fn unsafe_code_is_where_the_rule_allows_it() {
    let own = "crates/torsh-book/tests/documents/rules.rs";
    let is_unsafe = |line: &str| {
        let words = [
            "unsafe {",
            "unsafe fn",
            "unsafe impl",
            "unsafe trait",
            "unsafe extern",
        ];
        words.iter().any(|w| line.contains(w))
    };
    let mut wrong = Vec::new();
    let sources = files()
        .iter()
        .filter(|f| f.starts_with("crates/") && f.ends_with(".rs"));
    for file in sources.filter(|f| !may_be_unsafe(f) && *f != own) {
        wrong.extend(
            code(&text(file))
                .find(|l| is_unsafe(l))
                .map(|l| format!("{file}: {l}")),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn scripts_are_described() {
    let rules = text("CONTRIBUTING.md");
    for script in files().iter().filter(|f| f.starts_with(".ci/")) {
        assert!(
            rules.contains(&format!("`{script}`")),
            "CONTRIBUTING.md does not say what {script} does"
        );
    }
}

#[test]
fn every_page_is_in_the_book() {
    let (summary, blocks) = (
        text("docs/SUMMARY.md"),
        text("crates/torsh-book/src/book.rs"),
    );
    let pages = files().iter().filter_map(|f| f.strip_prefix("docs/"));
    for page in pages.filter(|p| p.ends_with(".md") && *p != "SUMMARY.md") {
        assert!(
            summary.contains(&format!("({page})")),
            "SUMMARY.md lacks {page}"
        );
        let tested = blocks.contains(&format!("\"{page}\""));
        assert!(tested, "the blocks of {page} are no tests");
    }
}

/// The modules that a program's root names, with those of `#[path]`.
fn modules(root: &str) -> BTreeSet<&str> {
    let names = root.lines().filter_map(|l| l.strip_prefix("mod "));
    names.filter_map(|l| l.strip_suffix(';')).collect()
}

#[test]
fn every_file_of_tests_is_in_a_program() {
    let mut forgotten = Vec::new();
    for name in crates() {
        let manifest = manifest(&name);
        let package = manifest["package"].as_table().expect("a table");
        if package.get("autotests").and_then(toml::Value::as_bool) != Some(false) {
            continue;
        }
        let folder = format!("crates/{name}/tests/");
        let programs: Vec<&str> = manifest["test"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|t| t.get("path")?.as_str()?.strip_prefix("tests/"))
            .collect();
        let roots: Vec<String> = programs
            .iter()
            .map(|p| text(&format!("{folder}{p}")))
            .collect();
        let modules: BTreeSet<&str> = roots.iter().flat_map(|root| modules(root)).collect();
        for file in files().iter().filter_map(|f| f.strip_prefix(&folder)) {
            let module = match file.split_once('/') {
                None => file.strip_suffix(".rs"),
                Some((module, "mod.rs" | "main.rs")) => Some(module),
                Some(_) => None,
            };
            let Some(module) = module else { continue };
            if !modules.contains(module) && !programs.contains(&file) {
                forgotten.push(format!("{folder}{file}"));
            }
        }
    }
    assert!(
        forgotten.is_empty(),
        "in no test program: {}",
        forgotten.join(", ")
    );
}

#[test]
fn libraries_that_are_not_tested_have_no_unit_tests() {
    for name in crates() {
        let manifest = manifest(&name);
        let lib = manifest.get("lib").and_then(toml::Value::as_table);
        let tested = lib
            .and_then(|l| l.get("test"))
            .and_then(toml::Value::as_bool);
        if tested != Some(false) {
            continue;
        }
        let start = format!("crates/{name}/src/");
        for file in files().iter().filter(|f| f.starts_with(&start)) {
            // Files that the program of integration tests has as its own modules.
            let shared = format!("\"../src/{}\"", &file[start.len()..]);
            let all = format!("crates/{name}/tests/all.rs");
            if files().contains(&all) && text(&all).contains(&shared) {
                continue;
            }
            assert!(
                !text(file).contains("#[test]"),
                "{file} has tests that never run"
            );
        }
    }
}
