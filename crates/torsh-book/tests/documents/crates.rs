//! Crates, their layers and their features.

use std::collections::{HashMap, HashSet};

use super::tree::{crates, documents, files, keys, manifest, prose, quoted, text};

/// The crates of this workspace that a crate needs to be built, with any of its features.
fn needs(name: &str) -> Vec<String> {
    let own = crates();
    let mut all = keys(&manifest(name), "dependencies");
    all.extend(keys(&manifest(name), "build-dependencies"));
    all.retain(|d| own.contains(d));
    all
}

/// The cells of a row of a table.
fn cells(row: &str) -> Vec<&str> {
    let inner = row.trim().trim_start_matches('|').trim_end_matches('|');
    inner.split('|').map(str::trim).collect()
}

/// The layer of each crate in the table of ARCHITECTURE.
fn layers() -> Vec<(String, usize)> {
    let page = text("ARCHITECTURE.md");
    let table = page
        .split("| layer | crates |")
        .nth(1)
        .expect("the table of layers");
    let rows = table.lines().skip(2).take_while(|l| l.starts_with('|'));
    rows.flat_map(|row| {
        let cells = cells(row);
        let layer = cells[0]
            .parse()
            .unwrap_or_else(|_| panic!("no layer: {row}"));
        let crates = quoted(cells[1]).map(move |name| (name.to_string(), layer));
        crates.collect::<Vec<_>>()
    })
    .collect()
}

#[test]
fn a_crate_depends_on_lower_layers() {
    let table = layers();
    let mut named: Vec<&String> = table.iter().map(|(name, _)| name).collect();
    named.sort();
    assert_eq!(
        named,
        crates().iter().collect::<Vec<_>>(),
        "the table of layers has other crates"
    );
    let layer: HashMap<&str, usize> = table.iter().map(|(n, l)| (n.as_str(), *l)).collect();
    for name in crates() {
        for needed in needs(&name) {
            assert!(
                layer[needed.as_str()] < layer[name.as_str()],
                "{name} is not above {needed} in the table of ARCHITECTURE"
            );
        }
    }
}

#[test]
fn the_picture_of_the_layers_is_right() {
    let picture = text("docs/layers.svg");
    // Each crate is a text at a height; the lowest layer has the largest.
    let height = |line: &str| {
        line.split(" y=\"")
            .nth(1)?
            .split('"')
            .next()?
            .parse::<f64>()
            .ok()
    };
    let of_line = |line: &str| {
        let name = line.split('>').nth(1)?.split('<').next()?;
        Some((name.to_string(), height(line)?))
    };
    let texts = picture.lines().filter(|l| l.starts_with("<text"));
    let at: HashMap<String, f64> = texts.filter_map(of_line).collect();
    let facade = needs("torsh");
    assert!(
        facade.iter().all(|c| at.contains_key(c)),
        "the picture lacks one of {facade:?}"
    );
    for (name, y) in at.iter().filter(|(n, _)| crates().contains(n)) {
        for needed in needs(name) {
            let below = at
                .get(&needed)
                .unwrap_or_else(|| panic!("the picture lacks {needed}"));
            assert!(below > y, "{name} is not above {needed} in the picture");
        }
    }
}

/// The names that a package of this workspace goes by: crates and programs.
fn programs() -> HashSet<String> {
    let mut all: HashSet<String> = crates().into_iter().collect();
    for file in files() {
        if let Some((_, bin)) = file.split_once("/src/bin/") {
            let name = bin.split('/').next().unwrap_or(bin);
            all.insert(name.trim_end_matches(".rs").to_string());
        }
    }
    for name in crates() {
        for bin in manifest(&name)
            .get("bin")
            .and_then(toml::Value::as_array)
            .into_iter()
            .flatten()
        {
            all.extend(
                bin.get("name")
                    .and_then(toml::Value::as_str)
                    .map(str::to_string),
            );
        }
    }
    all
}

#[test]
fn every_crate_that_is_named_exists() {
    let known = programs();
    let mut wrong = Vec::new();
    for (file, page) in documents() {
        for (line, prose) in prose(page) {
            for code in quoted(prose).filter(|c| c.starts_with("torsh-")) {
                let end = code.find(|c: char| !c.is_ascii_alphanumeric() && c != '-');
                let name = &code[..end.unwrap_or(code.len())];
                if !known.contains(name) {
                    wrong.push(format!("{file}:{line}: there is no `{name}`"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The sentences of a page, outside of code and tables.
fn sentences(page: &str) -> Vec<String> {
    let mut out = vec![String::new()];
    for (_, line) in prose(page) {
        let apart = line.trim().is_empty() || line.starts_with(['|', '#', '*', '-']);
        if apart {
            out.push(String::new());
        }
        let last = out.last_mut().expect("it begins with one");
        last.push_str(line);
        last.push(' ');
    }
    let parts = out.iter().flat_map(|p| p.split_inclusive(". "));
    parts
        .map(|s| s.trim().to_string())
        .filter(|s| !s.is_empty())
        .collect()
}

#[test]
fn nothing_that_exists_is_called_missing() {
    const MISSING: [&str; 5] = [
        "not available",
        "not there yet",
        "does not exist",
        "do not exist",
        "not yet available",
    ];
    let mut known = crates();
    known.extend(keys(&manifest("torsh"), "features"));
    let mut wrong = Vec::new();
    for (file, page) in documents() {
        for sentence in sentences(page) {
            if !MISSING.iter().any(|m| sentence.to_lowercase().contains(m)) {
                continue;
            }
            for code in quoted(&sentence).filter(|c| known.iter().any(|k| k == c)) {
                wrong.push(format!("{file}: `{code}` exists: {sentence}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn sentences_end_at_points() {
    let page = "A b. C\nd.\n\n| e. f |\n* g\n";
    assert_eq!(sentences(page), ["A b.", "C d.", "| e.", "f |", "* g"]);
}

#[test]
fn the_guide_lists_every_crate() {
    // What a program gets through the facade.
    let mut facade = needs("torsh");
    facade.push("torsh".into());
    let page = text("docs/guides/overview.md");
    let rows = page.lines().filter(|l| l.starts_with('|'));
    let listed: HashSet<&str> = rows.flat_map(|r| quoted(cells(r)[0])).collect();
    for name in &facade {
        assert!(
            listed.contains(name.as_str()),
            "the table of crates in overview.md lacks {name}"
        );
    }
    // The README's table says where each part is.
    let readme = text("README.md");
    for name in facade.iter().filter(|n| *n != "torsh") {
        assert!(
            readme.contains(&format!("`{name}`")),
            "README.md lacks {name}"
        );
    }
}

/// The features of the facade: those of the default, and the others.
fn features() -> (Vec<String>, Vec<String>) {
    let manifest = manifest("torsh");
    let list = |name: &str| -> Vec<String> {
        let list = manifest["features"][name].as_array().expect("a list");
        list.iter()
            .filter_map(|f| f.as_str())
            .map(str::to_string)
            .collect()
    };
    let default = list("default");
    let mut others = keys(&manifest, "features");
    others.retain(|f| !default.contains(f) && f != "default");
    for feature in others.iter().filter(|f| *f != "full") {
        assert!(
            list("full").contains(feature),
            "the feature full lacks {feature}"
        );
    }
    (default, others)
}

#[test]
fn the_guide_lists_every_feature() {
    let (mut default, mut others) = features();
    default.sort();
    others.sort();
    let listed = |text: &str| {
        let mut all: Vec<String> = quoted(text).map(str::to_string).collect();
        all.sort();
        all.dedup();
        all
    };
    let page = text("docs/guides/overview.md");
    let of_tables = page
        .split("These are on by default")
        .nth(1)
        .expect("the table of features");
    let (on, off) = of_tables.split_once("These are not").expect("two tables");
    let first_cells = |part: &str| {
        let rows = part.lines().filter(|l| l.starts_with("| `"));
        rows.map(|r| format!("{} ", cells(r)[0]))
            .collect::<String>()
    };
    assert_eq!(
        listed(&first_cells(on)),
        default,
        "overview.md, on by default"
    );
    let off = off
        .split("A smaller build")
        .next()
        .expect("the end of the tables");
    assert_eq!(listed(off), others, "overview.md, not on by default");

    let page = text("crates/torsh/src/lib.rs").replace("\n//! ", " ");
    let said = page
        .split("All but ")
        .nth(1)
        .and_then(|t| t.split(" are on by default").next());
    others.retain(|f| f != "full");
    assert_eq!(
        listed(said.expect("a sentence")),
        others,
        "torsh/src/lib.rs, not on by default"
    );
}

#[test]
fn every_feature_that_is_named_exists() {
    let mut known: HashSet<String> = crates()
        .iter()
        .flat_map(|c| keys(&manifest(c), "features"))
        .collect();
    let peers: toml::Table = text("benches/peers/Cargo.toml")
        .parse()
        .expect("a manifest");
    known.extend(keys(&peers, "features"));
    let mut wrong = Vec::new();
    for (file, page) in documents() {
        for (i, line) in page.lines().enumerate() {
            // Of a dependency on another crate.
            let foreign = line.contains("features = [") && !line.contains("torsh");
            let lists = line
                .split("features = [")
                .skip(1)
                .filter_map(|l| l.split(']').next());
            let mut named: Vec<&str> = lists
                .flat_map(|l| l.split('"').skip(1).step_by(2))
                .collect();
            let flags = line.split("--features ").skip(1);
            let flags = flags.filter_map(|f| f.split([' ', '`']).next());
            named.extend(flags.flat_map(|f| f.split(',')));
            // "the feature `hub`", "with its feature `plots`".
            let words = line
                .split("feature `")
                .skip(1)
                .filter_map(|f| f.split('`').next());
            named.extend(words);
            for name in named
                .into_iter()
                .filter(|n| !foreign && !known.contains(*n))
            {
                wrong.push(format!("{file}:{}: there is no feature {name}", i + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
