//! Commands of cargo, and the examples.

use std::collections::BTreeSet;

use super::tree::{crates, documents, exists, files, manifest, text};

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
    assert!(seen > 30, "only {seen} commands were found");
}

/// The programs of the workspace that documents call, and where their flags are declared.
const PROGRAMS: [(&str, &str); 8] = [
    ("torsh-bench", "crates/torsh-bench/src/"),
    ("torsh-conformance", "crates/torsh-conformance/src/"),
    ("torshrun", "crates/torsh-distributed/src/"),
    ("torsh-plan", "crates/torsh-distributed/src/"),
    (
        "torsh-distributed-check",
        "crates/torsh-distributed-suite/src/",
    ),
    (
        "torsh-distributed-fault",
        "crates/torsh-distributed-suite/src/",
    ),
    ("torsh", "crates/torsh-cli/src/"),
    // Examples, which are no words of a command.
    ("an example", "crates/torsh/examples/"),
];

/// The flags that a line gives to a program of the workspace, with the program.
fn flags(line: &str) -> Vec<(&'static str, String)> {
    let mut out = Vec::new();
    // `cargo run -p PROGRAM -- --flag`, or `target/release/PROGRAM --flag # comment`.
    let (called, own) = match line.split_once(" -- ") {
        Some((cargo, own)) if cargo.contains("cargo ") => (cargo, own),
        _ if line.contains("cargo ") => return out,
        _ => (line, line),
    };
    let own = own.split(" -- ").next().unwrap_or(own);
    let own = own.split(" #").next().unwrap_or(own);
    let is_program = |word: &str| {
        let name = word.rsplit('/').next().unwrap_or(word);
        PROGRAMS.iter().find(|(p, _)| *p == name).map(|(p, _)| *p)
    };
    let named = match called.contains("--example ") {
        true => Some("an example"),
        false => called.split_whitespace().find_map(is_program),
    };
    let Some(program) = named else {
        return out;
    };
    for word in own.split_whitespace() {
        let word = word.trim_start_matches('[').trim_end_matches([']', ',']);
        if let Some(flag) = word.strip_prefix("--").filter(|f| !f.is_empty()) {
            let name = flag.split('=').next().unwrap_or(flag);
            out.push((program, name.to_string()));
        }
    }
    out
}

#[test]
fn flags_are_those_of_the_programs() {
    let sources = |folder: &str| -> String {
        let own = files().iter().filter(|f| f.starts_with(folder));
        own.map(|f| text(f)).collect()
    };
    let sources: Vec<(&str, String)> = PROGRAMS.map(|(p, folder)| (p, sources(folder))).to_vec();
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for (file, page) in documents() {
        for line in page.replace("\\\n", " ").lines() {
            // What stands in back quotes in prose, or a line of a block.
            let mut parts: Vec<&str> = line.split('`').skip(1).step_by(2).collect();
            if parts.is_empty() {
                parts.push(line);
            }
            for (program, flag) in parts.into_iter().flat_map(flags) {
                seen += 1;
                let (_, source) = sources.iter().find(|(p, _)| *p == program).expect("known");
                // A field that clap makes a flag of, or the flag itself.
                let field = format!(" {}: ", flag.replace('-', "_"));
                let is_known = flag == "help"
                    || source.contains(&field)
                    || source.contains(&format!("--{flag}"));
                if !is_known {
                    wrong.push(format!("{file}: {program} has no --{flag}: {line}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 15, "only {seen} flags were found");
}

#[test]
fn flags_are_found() {
    let names = |line: &str| flags(line).into_iter().map(|(_, f)| f).collect::<Vec<_>>();
    assert_eq!(
        names("cargo run --release -p torsh-bench -- --limits add"),
        ["limits"]
    );
    assert_eq!(
        names("target/release/torsh-bench --memory x # --no"),
        ["memory"]
    );
    assert_eq!(
        names("torshrun --nproc 4 [--no-pin] -- program --own"),
        ["nproc", "no-pin"]
    );
    assert!(
        names("cargo test -p torsh-bench --lib").is_empty() && names("other --flag").is_empty()
    );
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
