//! Paths in back quotes, links and their anchors.

use std::collections::{HashMap, HashSet};
use std::path::{Component, Path};

use super::tree::{documents, exists, files, prose, quoted, squeezed, text};

/// What has the form of a path of this repository and stands for something else.
const OTHERS: &[&str] = &[
    // Where cargo builds.
    "target/",
    // Repositories of models, and the folders of caches and mirrors.
    "org/name",
    "datasets/org/name",
    "snapshots/COMMIT",
    "MIRROR/HOST/PATH",
    "MIRROR/NAME",
    "VIRTUAL_ENV/bin",
];

/// Endings of names that are this repository's wherever they stand without a folder.
const SOURCES: [&str; 5] = [".rs", ".py", ".md", ".svg", ".tsv"];

fn is_path(code: &str) -> bool {
    let named = |part: &str| {
        !part.is_empty()
            && part
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "_-.*".contains(c))
            && part.chars().any(|c| c.is_ascii_alphabetic())
    };
    let trimmed = code.trim_end_matches('/');
    let parts: Vec<&str> = trimmed.split('/').collect();
    let own = match parts[..] {
        [one] => code.ends_with('/') || SOURCES.iter().any(|s| one.ends_with(s)),
        _ => true,
    };
    own && parts.iter().all(|p| named(p))
}

#[test]
fn every_path_exists() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for (file, page) in documents() {
        for (line, prose) in prose(page) {
            for code in quoted(prose).filter(|c| is_path(c) && !OTHERS.contains(c)) {
                seen += 1;
                if !exists(code) {
                    wrong.push(format!("{file}:{line}: there is no `{code}`"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 150, "only {seen} paths were found");
}

#[test]
fn paths_have_a_form() {
    for path in [
        "a/b.rs",
        "call.rs",
        "kernels/conv/",
        "ops/*.rs",
        ".ci/run",
        "docs/layers.svg",
    ] {
        assert!(is_path(path), "{path}");
    }
    for other in [
        "config.json",
        "x / y",
        "1/2",
        "a::b",
        "https://a.b/c",
        "/bin/sh",
        "&a",
        "f(a/b)",
    ] {
        assert!(!is_path(other), "{other}");
    }
}

/// The anchor of a heading, as GitHub and mdBook make it.
fn anchor(heading: &str) -> String {
    let kept = |c: char| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c.to_ascii_lowercase()),
        _ => None,
    };
    heading.trim().chars().filter_map(kept).collect()
}

/// The targets of links in a line: `[text](target)`.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let ends = line.match_indices("](").map(|(i, _)| i + 2);
    ends.filter_map(|start| line[start..].split(')').next())
}

#[test]
fn every_link_leads_somewhere() {
    let anchors: HashMap<&str, HashSet<String>> = documents()
        .iter()
        .map(|(file, page)| {
            let headings = prose(page).filter(|(_, l)| l.starts_with('#'));
            let all = headings.map(|(_, l)| anchor(l.trim_start_matches('#')));
            (file.as_str(), all.collect())
        })
        .collect();
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for (file, page) in documents() {
        // A link may be broken over two lines, in its text.
        for (line, prose) in prose(page) {
            for link in links(prose).filter(|l| !l.contains("://")) {
                seen += 1;
                let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
                let target = match path {
                    "" => Some(file.clone()),
                    path => joined(file, path),
                };
                let is_there = target.as_ref().is_some_and(|t| {
                    let page = anchors.get(t.as_str());
                    let known = page.is_some() || files().contains(t);
                    known && (anchor.is_empty() || page.is_some_and(|a| a.contains(anchor)))
                });
                if !is_there {
                    wrong.push(format!("{file}:{line}: {link} leads nowhere"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 100, "only {seen} links were found");
}

/// A path relative to the folder of a file, from the root on.
fn joined(file: &str, path: &str) -> Option<String> {
    let mut parts: Vec<String> = Vec::new();
    for part in Path::new(file).parent()?.join(path).components() {
        match part {
            Component::Normal(name) => parts.push(name.to_str()?.to_string()),
            Component::ParentDir => drop(parts.pop()?),
            _ => {}
        }
    }
    Some(parts.join("/"))
}

#[test]
fn headings_have_anchors() {
    assert_eq!(anchor(" How to add an op"), "how-to-add-an-op");
    assert_eq!(anchor("`torch.fft` and S&P, v2"), "torchfft-and-sp-v2");
    assert_eq!(
        links("a [b](c.md#d) [e](f)").collect::<Vec<_>>(),
        ["c.md#d", "f"]
    );
    assert_eq!(joined("docs/guides/a.md", "../b.md").unwrap(), "docs/b.md");
}

/// The blocks of a page that begin with a comment of documentation: rows of operators.
fn rows(page: &str) -> Vec<String> {
    let blocks = page.split("```text\n").skip(1);
    let blocks = blocks.filter_map(|b| b.split("```").next());
    blocks
        .filter(|b| b.trim_start().starts_with("///"))
        .map(str::to_string)
        .collect()
}

#[test]
fn the_example_rows_are_those_of_the_source() {
    let sources: Vec<String> = files()
        .iter()
        .filter(|f| f.starts_with("crates/torsh-core/src/pointwise/"))
        .map(|f| squeezed(&text(f)))
        .collect();
    let known = |row: &str| sources.iter().any(|s| s.contains(&squeezed(row)));
    let shown = rows(&text("docs/architecture/ops.md"));
    assert_eq!(shown.len(), 1);
    assert!(known(&shown[0]), "no row of the source: {}", shown[0]);

    // The documentation of the rows explains each line of one, to the right of it.
    let module = text("crates/torsh-core/src/pointwise.rs");
    let lines = module.lines().filter_map(|l| l.strip_prefix("//!"));
    let page: String = lines
        .map(|l| format!("{}\n", l.strip_prefix(' ').unwrap_or(l)))
        .collect();
    let shown = rows(&page);
    assert_eq!(shown.len(), 1);
    let code = |line: &str| {
        let start = line.len() - line.trim_start().len();
        let end = line[start..].find("    ").map_or(line.len(), |i| start + i);
        line[..end].to_string()
    };
    let row: String = shown[0].lines().map(code).collect();
    assert!(known(&row), "no row of the source: {row}");
}
