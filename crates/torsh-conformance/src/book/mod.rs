//! Generates the page of the book in `docs/` that lists PyTorch's names.

mod api;
mod forms;
mod missing;
mod names;
mod operators;
mod pytorch;

use std::path::{Path, PathBuf};

const PYTORCH: &str = "pytorch-to-torsh.md";

/// What writing or checking the book came to.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The file of the page.
    pub file: PathBuf,
    /// The page, as Markdown.
    pub page: String,
    /// What is wrong with the names.
    pub wrong: Vec<String>,
}

fn text(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// Makes the page of a folder such as `docs`, from the pages of rustdoc in a folder such as
/// `target/doc`.
///
/// # Errors
/// Files that cannot be read.
pub fn make(docs: &Path, rustdoc: &Path) -> Result<Outcome, String> {
    let prelude = text(&docs.join("../crates/torsh/src/prelude.rs"))?;
    let (page, wrong) = pytorch::page(&api::Api::read(rustdoc)?, &prelude);
    Ok(Outcome {
        file: docs.join(PYTORCH),
        page,
        wrong,
    })
}
