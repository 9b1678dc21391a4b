//! The overview of the architecture and its pages: what is in it, and how long it may be.

use std::collections::BTreeSet;

use super::tree::{crates, files, prose, quoted, text};

const OVERVIEW: &str = "ARCHITECTURE.md";

/// The most bytes of the overview. What does not fit belongs to a page.
const MOST: usize = 12_000;

#[test]
fn the_overview_is_short() {
    let bytes = text(OVERVIEW).len();
    assert!(bytes <= MOST, "{OVERVIEW} has {bytes} bytes, of {MOST}");
}

/// The sections of the third level: title and text, which is one line.
fn sections(page: &str) -> Vec<(String, String)> {
    let mut out = Vec::new();
    for part in page.split("\n### ").skip(1) {
        let part = part.split("\n## ").next().unwrap_or(part);
        let (title, body) = part.split_once('\n').unwrap_or((part, ""));
        out.push((title.to_string(), body.replace('\n', " ")));
    }
    out
}

#[test]
fn every_crate_has_a_section_with_its_first_file_and_a_page() {
    let all = sections(&text(OVERVIEW));
    let mut titles: Vec<&String> = all.iter().map(|(title, _)| title).collect();
    titles.sort();
    let crates = crates();
    let names: Vec<&String> = crates.iter().collect();
    assert_eq!(titles, names, "the sections of {OVERVIEW}");
    for (name, section) in &all {
        let Some((_, rest)) = section.split_once("Read `") else {
            panic!("{OVERVIEW}: {name} has no file to read first");
        };
        let first = rest.split('`').next().unwrap_or(rest);
        let path = format!("crates/{name}/{first}");
        assert!(files().contains(&path), "{OVERVIEW}: there is no {path}");
        let has_page = section.contains("](docs/architecture/");
        assert!(has_page, "{OVERVIEW}: {name} has no page");
    }
}

#[test]
fn the_overview_links_every_page() {
    let overview = text(OVERVIEW);
    let is_page = |f: &&String| f.starts_with("docs/architecture/");
    let mut seen = 0;
    for page in files().iter().filter(is_page) {
        seen += 1;
        let link = format!("({page})");
        assert!(overview.contains(&link), "{OVERVIEW} has no link to {page}");
    }
    assert!(seen > 10, "only {seen} pages were found");
}

/// The names of private functions in the sources, tests among them.
fn functions() -> BTreeSet<String> {
    let is_source = |f: &&String| f.starts_with("crates/") && f.ends_with(".rs");
    let mut all = BTreeSet::new();
    for file in files().iter().filter(is_source) {
        for line in text(file).lines() {
            if let Some(rest) = line.trim_start().strip_prefix("fn ") {
                let name = rest.split(['(', '<']).next().unwrap_or(rest);
                all.insert(name.to_string());
            }
        }
    }
    all
}

/// Whether it has the form of a test's name: at least three words of lower case.
fn is_test_name(code: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    code.matches('_').count() >= 2 && code.chars().all(fits)
}

#[test]
fn the_tests_of_invariants_exist() {
    let page = text(OVERVIEW);
    let part = page.split("## Invariants").nth(1).expect("the invariants");
    let part = part.split("\n## ").next().unwrap_or(part);
    let known = functions();
    let lints = text("Cargo.toml");
    let mut seen = 0;
    for item in part.split("\n* ").skip(1) {
        // `**A sentence.** What enforces it.`
        let parts: Vec<&str> = item.split("**").collect();
        let [before, _, by] = parts[..] else {
            panic!("{OVERVIEW}: an invariant is not one sentence in bold: {item}");
        };
        assert!(before.is_empty(), "{OVERVIEW}: {item}");
        let words = by.to_lowercase();
        let known_kinds = ["test", "lint", "type", "unsafe"];
        let enforced = known_kinds.iter().any(|kind| words.contains(kind));
        assert!(enforced, "{OVERVIEW}: nothing enforces: {item}");
        for name in quoted(by).filter(|code| is_test_name(code)) {
            seen += 1;
            let there = known.contains(name) || lints.contains(name);
            assert!(there, "{OVERVIEW}: there is no test or lint {name}");
        }
    }
    assert!(seen > 10, "only {seen} tests were found");
}

#[test]
fn the_pages_say_how_to_add_things() {
    for (page, what) in [
        ("ops", "an op"),
        ("ops", "a pointwise op"),
        ("ops", "any other op"),
        ("ops", "a crate of ops"),
        ("devices", "a device"),
        ("devices", "a kernel"),
        ("cpu", "an algorithm"),
        ("layers", "a layer"),
        ("vision", "a vision transform"),
        ("vision", "a vision model"),
        ("text", "a text model"),
        ("training", "a metric"),
    ] {
        let path = format!("docs/architecture/{page}.md");
        let heading = format!("# How to add {what}");
        let page = text(&path);
        let there = prose(&page).any(|(_, line)| line.ends_with(&heading));
        assert!(there, "{path} has no section {heading}");
    }
}

#[test]
fn sections_and_names_of_tests_are_found() {
    let page = "# A\n\n### b\n\nc\nd\n\n### e\nf\n\n## g\nh\n";
    let found = sections(page);
    assert_eq!(found[0], ("b".to_string(), " c d ".to_string()));
    assert_eq!(found[1], ("e".to_string(), "f ".to_string()));
    assert_eq!(found.len(), 2);
    assert!(is_test_name("every_path_exists") && !is_test_name("raw.rs"));
    assert!(!is_test_name("compile_fail") && !is_test_name("KernelArgs::new"));
}
