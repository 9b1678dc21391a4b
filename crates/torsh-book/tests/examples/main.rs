//! Counts the public items of the crates that users call, and those whose documentation runs an example.
//!
//! An item is a function, a method, a type, a trait or a macro that the crate's documentation shows. The sources are
//! read with `syn`, and macros are expanded (`expand.rs`), so that a method made of a row counts like one written out.
//! A method that takes `self` and returns `Self` sets a field, and counts with its type; so does whatever `options!`
//! makes beside a struct. An example is a block of code that `cargo test --doc` runs.

mod expand;
mod read;

use read::Crate;

/// The crates, and the least percentage of items with an example.
const LEAST: [(&str, f64); 4] = [
    ("torsh-tensor", 60.0),
    ("torsh-functional", 60.0),
    ("torsh-nn", 60.0),
    ("torsh-optim", 60.0),
];

#[test]
fn most_public_items_have_an_example() {
    let mut known = vec![Crate::macros("torsh-core")];
    let mut failed = Vec::new();
    println!(
        "{:18} {:>6} {:>8} {:>7}",
        "crate", "items", "examples", "share"
    );
    for (name, least) in LEAST {
        let read = Crate::read(name, &known);
        let items = read.public_items();
        let with = items.iter().filter(|i| i.example).count();
        let share = 100.0 * with as f64 / items.len() as f64;
        println!("{name:18} {:>6} {with:>8} {share:>5.1} %", items.len());
        if share < least || std::env::var("TORSH_LIST").is_ok_and(|n| n == name) {
            for i in items.iter().filter(|i| !i.example) {
                println!("    {} ({})", i.path, i.file);
            }
        }
        if share < least {
            failed.push(format!(
                "{name}: {share:.1} %, where {least} % are asked for"
            ));
        }
        known.push(read);
    }
    assert!(
        failed.is_empty(),
        "too few public items have an example: {failed:?}"
    );
}
