//! The files of the repository, and the text of its documents.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The folders of the repository that have something in them.
const FOLDERS: [&str; 6] = [".ci", ".github", "benches", "crates", "data", "docs"];

/// The folder of the repository.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("crates/torsh-book").into()
}

/// Every file, by its path from the root.
pub fn files() -> &'static [String] {
    static FILES: OnceLock<Vec<String>> = OnceLock::new();
    FILES.get_or_init(|| {
        let mut found = Vec::new();
        for entry in fs::read_dir(root()).expect("the root is a folder") {
            let path = entry.expect("an entry").path();
            if path.is_file() {
                found.extend(
                    path.file_name()
                        .and_then(|n| n.to_str())
                        .map(str::to_string),
                );
            }
        }
        for folder in FOLDERS {
            walk(folder, &mut found);
        }
        found.sort();
        found
    })
}

fn walk(folder: &str, found: &mut Vec<String>) {
    let entries = fs::read_dir(root().join(folder)).unwrap_or_else(|e| panic!("{folder}: {e}"));
    for entry in entries {
        let entry = entry.expect("an entry");
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{folder}/{name}");
        match entry.path().is_dir() {
            true if name == "target" => {}
            true => walk(&path, found),
            false => found.push(path),
        }
    }
}

/// The text of a file.
pub fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Whether a path ends with these components, or is a folder above one that does; the last of them may have a `*`.
pub fn exists(path: &str) -> bool {
    let wanted: Vec<&str> = path.trim_end_matches('/').split('/').collect();
    let fits = |have: &str, want: &str| match want.split_once('*') {
        Some((start, end)) => {
            have.len() >= start.len() + end.len() && have.starts_with(start) && have.ends_with(end)
        }
        None => have == want,
    };
    files().iter().any(|file| {
        let have: Vec<&str> = file.split('/').collect();
        let same = |part: &[&str]| part.iter().zip(&wanted).all(|(h, w)| fits(h, w));
        have.windows(wanted.len()).any(same)
    })
}

/// The documents that people write, with their text.
pub fn documents() -> &'static [(String, String)] {
    static DOCUMENTS: OnceLock<Vec<(String, String)>> = OnceLock::new();
    DOCUMENTS.get_or_init(|| {
        let written = |f: &&String| {
            f.ends_with(".md")
                && (!f.contains('/') && *f != "CHANGELOG.md" || f.starts_with("docs/"))
        };
        let all = files().iter().filter(written);
        all.map(|f| (f.clone(), text(f))).collect()
    })
}

/// The lines of a page outside of blocks of code, with their numbers.
pub fn prose(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut inside = false;
    page.lines().enumerate().filter_map(move |(i, line)| {
        if line.trim_start().starts_with("```") {
            inside = !inside;
            return None;
        }
        (!inside).then_some((i + 1, line))
    })
}

/// What stands in back quotes in a line.
pub fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The names of the crates, which are the folders of `crates`, in order.
pub fn crates() -> Vec<String> {
    let inside = files().iter().filter_map(|f| f.strip_prefix("crates/"));
    let manifests = inside.filter_map(|f| f.strip_suffix("/Cargo.toml"));
    let mut names: Vec<String> = manifests
        .filter(|name| !name.contains('/'))
        .map(str::to_string)
        .collect();
    names.sort();
    names
}

/// The manifest of a crate.
pub fn manifest(name: &str) -> toml::Table {
    let path = format!("crates/{name}/Cargo.toml");
    text(&path)
        .parse()
        .unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// The keys of a table of a manifest.
pub fn keys(manifest: &toml::Table, table: &str) -> Vec<String> {
    let table = manifest.get(table).and_then(toml::Value::as_table);
    table
        .map(|t| t.keys().cloned().collect())
        .unwrap_or_default()
}

/// The sources of the crates that programs use, without their tests: path and text.
pub fn library_sources() -> Vec<(String, String)> {
    const TOOLS: [&str; 6] = [
        "torsh-bench",
        "torsh-book",
        "torsh-conformance",
        "torsh-distributed-suite",
        "torsh-fuzz",
        "torsh-cli",
    ];
    let is_source = |f: &&String| {
        let parts: Vec<&str> = f.split('/').collect();
        let library = parts.len() > 3
            && parts[0] == "crates"
            && parts[2] == "src"
            && !TOOLS.contains(&parts[1]);
        let test = parts
            .iter()
            .any(|p| ["tests", "tests.rs", "testing", "testing.rs", "bin"].contains(p));
        library && f.ends_with(".rs") && !test && !f.ends_with("_tests.rs")
    };
    let sources = files().iter().filter(is_source);
    sources
        .map(|f| {
            let text = text(f);
            // A module of tests ends its file.
            let tests = [
                "#[cfg(test)]\nmod ",
                "#[cfg(feature = \"unit-tests\")]\nmod tests {",
            ];
            let ends = tests.iter().filter_map(|t| text.find(t));
            let end = ends.min().unwrap_or(text.len());
            (f.clone(), text[..end].to_string())
        })
        .collect()
}

/// The text without any white space.
pub fn squeezed(text: &str) -> String {
    text.split_whitespace().collect()
}

#[test]
fn paths_are_found_by_their_ends() {
    assert!(exists("README.md") && exists("docs") && exists("torsh-book/tests/documents/"));
    assert!(exists("documents/tree.rs") && exists("tests/documents/*.rs"));
    assert!(!exists("documents/tree") && !exists("nowhere.rs") && !exists("documents/*.py"));
}

#[test]
fn blocks_of_code_are_no_prose() {
    let page = "a `b` c `d`\n```rust\n`e`\n```\nf";
    let lines: Vec<_> = prose(page).collect();
    assert_eq!(lines, [(1, "a `b` c `d`"), (5, "f")]);
    assert_eq!(quoted(lines[0].1).collect::<Vec<_>>(), ["b", "d"]);
}
