//! Environment variables: what the documents name is read, and what is read is named.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::{documents, files, text};

/// What a test, or a program that starts others, sets for its own children.
const OWN: [&str; 13] = [
    "TORSH_FAULT_JOB",
    "TORSH_FAULT_TIMEOUT",
    "TORSH_FUZZ_DESCRIBE",
    "TORSH_FUZZ_FIRST",
    "TORSH_FUZZ_JOURNAL",
    "TORSH_HUB_TEST_TO",
    "TORSH_HUB_TEST_URL",
    "TORSH_JOB",
    "TORSH_SAVE_FOLDER",
    "TORSH_SAVE_UNTIL_KILLED",
    "TORSH_TEST_NOTHING_LEFT",
    "TORSH_TRAIN_UNTIL_INTERRUPTED",
    "TORSH_TRAIN_UNTIL_SIGNAL",
];

/// The variables of ToRSh in a text.
fn variables(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let at = text
        .match_indices("TORSH_")
        .filter(|(i, _)| !text[..*i].ends_with(is_part));
    at.map(|(i, _)| {
        let rest = &text[i..];
        rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())].to_string()
    })
    .filter(|name| name.len() > "TORSH_".len() && !name.ends_with('_'))
    .collect()
}

/// The variables that sources and scripts read, each with one place.
fn read() -> BTreeMap<String, &'static str> {
    let mut all = BTreeMap::new();
    for file in files() {
        let script = file.starts_with(".ci/") && file != ".ci/structure";
        let source = file.starts_with("crates/") && file.ends_with(".rs");
        if !script && !source || file.starts_with("crates/torsh-book/tests/documents/") {
            continue;
        }
        let text = text(file);
        let is_read = |name: &String| match script {
            // `${TORSH_X:-1}`; what a script sets for what it starts is read by a source.
            true => text.contains(&format!("${{{name}")) || text.contains(&format!("${name}")),
            false => text.contains(&format!("\"{name}\"")),
        };
        for name in variables(&text).into_iter().filter(is_read) {
            all.entry(name).or_insert(file.as_str());
        }
    }
    all
}

#[test]
fn what_the_documents_name_is_read() {
    let read = read();
    for (file, page) in documents() {
        for name in variables(page) {
            assert!(read.contains_key(&name), "{file}: nothing reads {name}");
        }
    }
}

#[test]
fn what_is_read_is_in_the_documents() {
    let named: BTreeSet<String> = documents().iter().flat_map(|(_, t)| variables(t)).collect();
    let read = read();
    for (name, file) in &read {
        let own = OWN.contains(&name.as_str());
        assert!(
            own || named.contains(name),
            "{file} reads {name}, which no document names"
        );
    }
    for name in OWN {
        assert!(read.contains_key(name), "nothing reads {name}");
    }
}

#[test]
fn the_instruction_sets_are_all_named() {
    // The names that `TORSH_SIMD` takes are those of the message for any other.
    let source = text("crates/torsh-core/src/machine.rs");
    let message = source
        .split("TORSH_SIMD={simd}: none of ")
        .nth(1)
        .expect("the message");
    let names = message
        .split('"')
        .next()
        .expect("a string")
        .replace(" and ", ", ");
    let names: Vec<&str> = names.split(", ").collect();
    assert!(names.len() > 3, "{names:?}");
    let module: String = source
        .lines()
        .filter(|l| l.starts_with("//!"))
        .map(|l| format!("{l}\n"))
        .collect();
    let mut places = vec![("machine.rs".to_string(), module)];
    places.extend(documents().iter().cloned());
    let mut seen = 0;
    for (file, page) in &places {
        for (start, _) in page.match_indices("`TORSH_SIMD=avx512") {
            seen += 1;
            let end = page[start..]
                .char_indices()
                .nth(160)
                .map_or(page.len(), |(i, _)| start + i);
            let said = &page[start..end];
            for name in &names {
                assert!(
                    said.contains(name),
                    "{file}: TORSH_SIMD takes {name} too: {said}"
                );
            }
        }
    }
    assert!(seen >= 6, "only {seen} places were found");
}

#[test]
fn variables_are_whole_words() {
    let found = variables("TORSH_SIMD=1 `TORSH_FUZZ_SEED` CARGO_TORSH_X TORSH_ TORSH_FUZZ_* ");
    assert_eq!(
        found.into_iter().collect::<Vec<_>>(),
        ["TORSH_FUZZ_SEED", "TORSH_SIMD"]
    );
}
