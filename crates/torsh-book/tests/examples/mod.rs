//! Counts the public items of the crates that users call, and those whose documentation runs an example.
//!
//! An item is a function, a method, a type, a trait or a macro that the crate's documentation shows. The sources are
//! read with `syn`, and macros are expanded (`expand.rs`), so that a method made of a row counts like one written out.
//! A method that takes `self` and returns `Self` sets a field, and counts with its type; so does whatever `options!`
//! makes beside a struct. An example is a block of code that `cargo test --doc` runs.
//!
//! The same reading tells whether a name that the book calls missing is there (`missing.rs`).

mod expand;
mod missing;
mod read;

use std::sync::OnceLock;

use read::{Crate, Public};

/// The crates, and the least percentage of items with an example.
const LEAST: [(&str, f64); 12] = [
    ("torsh-tensor", 60.0),
    ("torsh-functional", 60.0),
    ("torsh-nn", 60.0),
    ("torsh-optim", 60.0),
    ("torsh-core", 40.0),
    ("torsh-data", 40.0),
    ("torsh-linalg", 40.0),
    ("torsh-vision", 40.0),
    ("torsh-text", 40.0),
    ("torsh-train", 40.0),
    ("torsh-hub", 40.0),
    ("torsh-distributed", 40.0),
];

/// The public items of the crates, which are read once.
fn public_items() -> &'static [(&'static str, Vec<Public>)] {
    static ITEMS: OnceLock<Vec<(&str, Vec<Public>)>> = OnceLock::new();
    ITEMS.get_or_init(|| {
        let mut known = vec![Crate::macros("torsh-core")];
        let read = |(name, _): &(&'static str, f64)| {
            let read = Crate::read(name, &known);
            let items = read.public_items();
            known.push(read);
            (*name, items)
        };
        LEAST.iter().map(read).collect()
    })
}

#[test]
fn most_public_items_have_an_example() {
    let mut failed = Vec::new();
    println!(
        "{:18} {:>6} {:>8} {:>7}",
        "crate", "items", "examples", "share"
    );
    for ((name, items), (_, least)) in public_items().iter().zip(LEAST) {
        let with = items.iter().filter(|i| i.example).count();
        let share = 100.0 * with as f64 / items.len() as f64;
        println!("{name:18} {:>6} {with:>8} {share:>5.1} %", items.len());
        if share < least || std::env::var("TORSH_LIST").is_ok_and(|n| n == *name) {
            for i in items.iter().filter(|i| !i.example) {
                println!("    {} ({})", i.path, i.file);
            }
        }
        if share < least {
            failed.push(format!(
                "{name}: {share:.1} %, where {least} % are asked for"
            ));
        }
    }
    assert!(
        failed.is_empty(),
        "too few public items have an example: {failed:?}"
    );
}
