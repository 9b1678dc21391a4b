//! Commands of cargo, and the examples.

use std::collections::BTreeSet;

use crate::tree::{crates, documents, exists, files, manifest, text};

/// The commands of cargo in a page, in blocks and in back quotes; those that a line breaks are joined.
fn commands(page: &str) -> Vec<String> {
    let joined = page.replace("\\\n", " ");
    let mut out = Vec::new();
    for (start, _) in joined.match_indices("cargo ") {
        let rest = &joined[start..];
        let before = joined[..start].chars().last();
        let end = match before {
            Some('`') => rest.find('`'),
            _ => rest.find(['\n', '`']),
        };
        let command = rest[..end.unwrap_or(rest.len())].replace('\n', " ");
        let own = [
            "run", "test", "build", "check", "nextest", "install", "doc", "clippy",
        ];
        if command.split(' ').nth(1).is_some_and(|c| own.contains(&c)) {
            out.push(command);
        }
    }
    out
}

/// What follows a flag of a command, ahead of what the program gets.
fn argument<'a>(command: &'a str, flag: &str) -> Option<&'a str> {
    let own = command.split(" -- ").next()?;
    let mut words = own.split_whitespace();
    words.find(|w| *w == flag)?;
    words.next()
}

/// The test programs of a crate, or of all.
fn is_test(krate: Option<&str>, name: &str) -> bool {
    let of = |krate: &str| {
        let file = format!("crates/{krate}/tests/{name}.rs");
        let folder = format!("crates/{krate}/tests/{name}/main.rs");
        files().contains(&file) || files().contains(&folder) || {
            let manifest = manifest(krate);
            let tests = manifest.get("test").and_then(toml::Value::as_array);
            let mut tests = tests.into_iter().flatten();
            tests.any(|t| t.get("name").and_then(toml::Value::as_str) == Some(name))
        }
    };
    match krate {
        Some(krate) => of(krate),
        None => crates().iter().any(|c| of(c)),
    }
}

fn is_example(krate: &str, name: &str) -> bool {
    let start = format!("crates/{krate}/examples/{name}");
    files().contains(&format!("{start}.rs")) || files().contains(&format!("{start}/main.rs"))
}

#[test]
fn commands_name_what_exists() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for (file, page) in documents() {
        for command in commands(page) {
            seen += 1;
            let krate = argument(&command, "-p").filter(|c| *c != "CRATE");
            let mut check = |right: bool, what: &str| {
                if !right {
                    wrong.push(format!("{file}: {what}: {command}"));
                }
            };
            if let Some(krate) = krate {
                check(crates().iter().any(|c| c == krate), "no such crate");
            }
            if let Some(name) = argument(&command, "--example") {
                check(
                    name == "NAME" || is_example(krate.unwrap_or("torsh"), name),
                    "no such example",
                );
            }
            if let Some(name) = argument(&command, "--test") {
                check(is_test(krate, name), "no such test");
            }
            if let Some(name) = argument(&command, "--bin") {
                let own = krate.is_none_or(|c| exists(&format!("crates/{c}/src/bin/{name}.rs")));
                let other = exists(&format!(
                    "benches/peers/src/{}.rs",
                    name.trim_end_matches("-bench")
                ));
                check(own || other, "no such program");
            }
            if let Some(path) = argument(&command, "--path") {
                check(exists(path), "no such path");
            }
            let files = command
                .split_whitespace()
                .filter(|w| w.starts_with("crates/") || w.starts_with("data/"));
            for path in files {
                check(exists(path), "no such file");
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 40, "only {seen} commands were found");
}

#[test]
fn commands_are_found() {
    let page = "a `cargo test -p x\n--test y` b\n```sh\nRUSTFLAGS=1 cargo run -p z -- --test w\n```\n`cargo tree`";
    let all = commands(page);
    assert_eq!(
        all,
        ["cargo test -p x --test y", "cargo run -p z -- --test w"]
    );
    assert_eq!(argument(&all[0], "--test"), Some("y"));
    assert_eq!(argument(&all[1], "--test"), None);
}

#[test]
fn the_readme_lists_every_example_with_its_features() {
    let manifest = manifest("torsh");
    let default = manifest["features"]["default"].as_array().expect("a list");
    let readme = text("README.md");
    let mut listed = BTreeSet::from(["fashion_mnist".to_string()]);
    for example in manifest["example"].as_array().expect("examples") {
        let name = example["name"].as_str().expect("a name");
        assert!(
            is_example("torsh", name),
            "the manifest has the example {name}"
        );
        let row = readme
            .lines()
            .find(|l| l.starts_with('|') && l.contains(&format!("`{name}`")));
        if row.is_none() {
            assert_eq!(
                name, "fashion_mnist",
                "README.md has no row for the example"
            );
            assert!(readme.contains("--example fashion_mnist"));
        }
        listed.insert(name.to_string());
        let needed = example["required-features"].as_array().expect("a list");
        for feature in needed.iter().filter(|f| !default.contains(f)) {
            let flag = format!("`--features {}`", feature.as_str().expect("a name"));
            assert!(
                row.is_some_and(|r| r.contains(&flag)),
                "README.md: {name} needs {flag}"
            );
        }
    }
    let built: BTreeSet<String> = files()
        .iter()
        .filter_map(|f| f.strip_prefix("crates/torsh/examples/"))
        .filter_map(|f| f.strip_suffix("/main.rs").or(f.strip_suffix(".rs")))
        .filter(|f| !f.contains('/'))
        .map(str::to_string)
        .collect();
    assert_eq!(
        listed, built,
        "the manifest lists other examples than there are"
    );
}
