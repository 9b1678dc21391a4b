//! Generates two pages of the book in `docs/`, and checks the others. The pages are the table of
//! PyTorch's names, and the list of the blocks that cover the snippets of the guides.

mod api;
mod fences;
mod forms;
mod missing;
mod names;
mod operators;
mod pytorch;
mod snippets;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const PYTORCH: &str = "pytorch-to-torsh.md";
const SNIPPETS: &str = "snippets.md";

/// What writing or checking the book came to.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The pages and their text.
    pub pages: Vec<(PathBuf, String)>,
    /// What is wrong with the book.
    pub wrong: Vec<String>,
}

fn text(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// Every page of a folder by its path in it, but for `SUMMARY.md`.
fn pages(folder: &Path) -> Result<BTreeMap<String, String>, String> {
    let mut out = BTreeMap::new();
    let mut waiting = vec![folder.to_path_buf()];
    while let Some(at) = waiting.pop() {
        let entries = std::fs::read_dir(&at).map_err(|e| format!("{}: {e}", at.display()))?;
        for entry in entries {
            let path = entry.map_err(|e| e.to_string())?.path();
            if path.is_dir() {
                waiting.push(path);
            } else if path.extension().is_some_and(|e| e == "md") {
                let name = path.strip_prefix(folder).unwrap_or(&path);
                let name = name.to_string_lossy().replace('\\', "/");
                if name != "SUMMARY.md" {
                    out.insert(name, text(&path)?);
                }
            }
        }
    }
    Ok(out)
}

/// Makes the pages of a folder such as `docs`, from the pages of rustdoc in a folder such as
/// `target/doc`, and checks the others.
///
/// # Errors
/// Files that cannot be read.
pub fn make(docs: &Path, rustdoc: &Path) -> Result<Outcome, String> {
    let root = docs.join("..");
    let prelude = text(&root.join("crates/torsh/src/prelude.rs"))?;
    let (pytorch, mut wrong) = pytorch::page(&api::Api::read(rustdoc)?, &prelude);

    let mut pages = pages(docs)?;
    pages.insert(PYTORCH.to_string(), pytorch.clone());
    let book = snippets::Book {
        pages: &pages,
        summary: &text(&docs.join("SUMMARY.md"))?,
        doc_tests: &text(&root.join("crates/torsh-book/src/book.rs"))?,
        generated: &[SNIPPETS],
    };
    let list = snippets::list(&text(&docs.join("snippets.tsv"))?)?;
    wrong.extend(book.mistakes(&list));
    let table = book.page(&list);
    Ok(Outcome {
        pages: vec![(docs.join(PYTORCH), pytorch), (docs.join(SNIPPETS), table)],
        wrong,
    })
}
