//! The names that the book calls missing: none of them is in the crates.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Names that ToRSh has for something else.
const ANOTHER_THING: [&str; 2] = ["layout", "nn.LinearCrossEntropyOptions"];

/// How items, methods of types and methods of traits are declared.
const ITEMS: &[&str] = &[
    "pub fn ",
    "pub struct ",
    "pub enum ",
    "pub trait ",
    "pub type ",
];
const METHODS: &[&str] = &["pub fn "];
const OF_TRAITS: &[&str] = &["fn "];

/// Namespaces of PyTorch, where their names would be (folders and files in `crates`), and what they would be.
const PLACES: &[(&str, &[&str], &[&str])] = &[
    ("fft.", &["torsh-tensor/src/ops/fft"], ITEMS),
    ("linalg.", &["torsh-linalg/src"], ITEMS),
    ("special.", &["torsh-special/src"], ITEMS),
    ("nn.Module.", &["torsh-nn/src/module"], OF_TRAITS),
    (
        "nn.functional.",
        &["torsh-functional/src", "torsh-tensor/src/ops"],
        ITEMS,
    ),
    ("nn.", &["torsh-nn/src"], ITEMS),
    (
        "optim.Optimizer.",
        &["torsh-optim/src/optimizer.rs", "torsh-optim/src/optim.rs"],
        OF_TRAITS,
    ),
    (
        "optim.lr_scheduler.LRScheduler.",
        &["torsh-optim/src/lr_scheduler"],
        OF_TRAITS,
    ),
    ("optim.", &["torsh-optim/src"], ITEMS),
    ("amp.GradScaler.", &["torsh-optim/src"], METHODS),
    (
        "amp.",
        &["torsh-optim/src", "torsh-tensor/src/autocast.rs"],
        ITEMS,
    ),
    ("autograd.", &["torsh-autograd/src"], ITEMS),
    ("utils.data.", &["torsh-data/src"], ITEMS),
    (
        "utils.checkpoint.",
        &["torsh-tensor/src/checkpoint.rs"],
        ITEMS,
    ),
    ("Generator.", &["torsh-core/src/random"], METHODS),
    ("Tensor.", &["torsh-tensor/src/tensor.rs"], METHODS),
    ("", &["torsh-tensor/src/free.rs"], ITEMS),
];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The names in the section of the book.
fn missing() -> Vec<String> {
    let page = fs::read_to_string(crates().join("../docs/pytorch-to-torsh.md")).expect("the page");
    let section = page
        .split("\n## What is not there\n")
        .nth(1)
        .expect("the section");
    let families = section.lines().filter(|l| l.starts_with("**"));
    let mut all = Vec::new();
    for family in families {
        // The reason ends ahead of the names, and may name what is there.
        let names = family.rsplit(". ").next().expect("a part");
        all.extend(names.split('`').skip(1).step_by(2).map(str::to_string));
    }
    all
}

/// The sources of a folder, or a file, as one text.
fn sources(path: &Path) -> String {
    if path.is_file() {
        return fs::read_to_string(path).expect("a text");
    }
    let entries = fs::read_dir(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let paths = entries.map(|e| e.expect("an entry").path());
    let own = paths.filter(|p| p.is_dir() || p.extension().is_some_and(|e| e == "rs"));
    own.map(|p| sources(&p)).collect()
}

/// Whether a text declares something of this name.
fn declares(text: &str, name: &str, kinds: &[&str]) -> bool {
    kinds.iter().any(|kind| {
        let start = format!("{kind}{name}");
        text.match_indices(&start).any(|(i, _)| {
            let after = text[i + start.len()..].chars().next();
            !after.is_some_and(|c| c.is_alphanumeric() || c == '_')
        })
    })
}

#[test]
fn the_names_that_the_book_calls_missing_are_not_there() {
    let items: HashSet<&str> = super::public_items()
        .iter()
        .flat_map(|(_, items)| items.iter().map(|i| i.path.as_str()))
        .collect();
    assert!(items.contains("fft") && items.contains("Tensor::add") && items.contains("Conv2d"));
    let missing = missing();
    assert!(missing.len() > 20, "only {missing:?}");
    let mut there = Vec::new();
    for name in missing
        .iter()
        .filter(|n| !ANOTHER_THING.contains(&n.as_str()))
    {
        let place = PLACES.iter().find(|(prefix, ..)| name.starts_with(prefix));
        let (prefix, folders, kinds) = place.expect("the last has all names");
        let last = name.rsplit('.').next().expect("a part");
        // What macros make: functions and types of the name, and methods of a tensor.
        let made = match *prefix {
            "Tensor." => items.contains(format!("Tensor::{last}").as_str()),
            "" => items.contains(last) || items.contains(format!("Tensor::{last}").as_str()),
            _ => *kinds == ITEMS && items.contains(last),
        };
        let declared = || {
            let mut texts = folders.iter().map(|f| sources(&crates().join(f)));
            texts.any(|text| declares(&text, last, kinds))
        };
        if made || declared() {
            there.push(name.clone());
        }
    }
    assert!(
        there.is_empty(),
        "the book calls these missing, but they are there: {there:?}"
    );
}

#[test]
fn declarations_are_found() {
    let text = "pub fn fft<'a>(x: X) {}\n    fn hook(&self) {}\npub type Lazy2 = Lazy;";
    assert!(declares(text, "fft", ITEMS) && declares(text, "Lazy2", ITEMS));
    assert!(declares(text, "hook", OF_TRAITS) && !declares(text, "hook", METHODS));
    assert!(!declares(text, "ff", ITEMS) && !declares(text, "Lazy", ITEMS));
}
