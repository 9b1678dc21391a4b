//! The page that says which block of the book covers which snippet of the guides.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::fences::{self, Mark, Page};

/// A snippet of the guides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snippet {
    /// `S12`.
    pub id: String,
    /// The guide.
    pub guide: String,
    /// The section in it.
    pub section: String,
    /// The functions and types in it.
    pub items: String,
}

/// Reads the list of snippets: id, guide, section and items between tabs.
///
/// # Errors
/// A line without three columns, or an id that comes twice.
pub fn list(text: &str) -> Result<Vec<Snippet>, String> {
    let mut out: Vec<Snippet> = Vec::new();
    for (i, line) in text.lines().enumerate() {
        if line.starts_with('#') || line.trim().is_empty() {
            continue;
        }
        let mut columns = line.split('\t').map(|c| c.trim().to_string());
        let (Some(id), Some(guide), Some(section)) =
            (columns.next(), columns.next(), columns.next())
        else {
            return Err(format!(
                "snippets.tsv:{}: needs id, guide and section",
                i + 1
            ));
        };
        if out.iter().any(|s| s.id == id) {
            return Err(format!("snippets.tsv:{}: {id} comes twice", i + 1));
        }
        out.push(Snippet {
            id,
            guide,
            section,
            items: columns.next().unwrap_or_default(),
        });
    }
    Ok(out)
}

/// The folder of pages: what is in it, what lists it, what compiles it.
pub struct Book<'a> {
    /// The text of each page by its path in the folder.
    pub pages: &'a BTreeMap<String, String>,
    /// `SUMMARY.md`.
    pub summary: &'a str,
    /// The source that makes the pages doc tests.
    pub doc_tests: &'a str,
    /// Pages that are written by this program and have no blocks.
    pub generated: &'a [&'a str],
}

impl Book<'_> {
    /// The name of the module whose doc tests are the blocks of a page.
    fn module(&self, page: &str) -> Option<&str> {
        let path = format!("\"{page}\"");
        let line = self.doc_tests.lines().find(|l| l.contains(&path))?;
        line.split_whitespace().next()
    }

    fn read(&self) -> BTreeMap<&str, Page> {
        self.pages
            .iter()
            .map(|(path, text)| (path.as_str(), fences::read(text)))
            .collect()
    }

    /// Everything that is wrong with the pages.
    pub fn mistakes(&self, snippets: &[Snippet]) -> Vec<String> {
        let mut wrong = Vec::new();
        let pages = self.read();
        for (path, page) in &pages {
            wrong.extend(page.mistakes.iter().map(|m| format!("{path}, {m}")));
            if !self.summary.contains(&format!("({path})")) {
                wrong.push(format!("{path}: not in SUMMARY.md"));
            }
            if !self.generated.contains(path) && self.module(path).is_none() {
                wrong.push(format!(
                    "{path}: no doc test; name it in crates/torsh-book/src/book.rs"
                ));
            }
            for block in page.blocks.iter().filter(|b| b.is_rust()) {
                let at = format!("{path}, line {}", block.line);
                if block.is_left_out() {
                    wrong.push(format!(
                        "{at}: the block is `{}`, so nothing runs it",
                        block.info
                    ));
                } else if !block.asserts() {
                    wrong.push(format!("{at}: the block asserts nothing"));
                }
            }
            for (id, line, mark) in &page.marks {
                if !snippets.iter().any(|s| s.id == *id) {
                    wrong.push(format!("{path}, line {line}: there is no snippet {id}"));
                }
                if let Mark::Covered(block) = mark
                    && !block.is_rust()
                {
                    wrong.push(format!(
                        "{path}, line {}: the block of {id} is `{}`, not Rust",
                        block.line, block.info
                    ));
                }
            }
        }
        for s in snippets {
            let marked = |p: &Page| p.marks.iter().any(|(id, ..)| *id == s.id);
            if !pages.values().any(marked) {
                wrong.push(format!(
                    "{} ({}, {}): no block is its counterpart, and no page says why",
                    s.id, s.guide, s.section
                ));
            }
        }
        wrong
    }

    /// The page, as Markdown.
    pub fn page(&self, snippets: &[Snippet]) -> String {
        let pages = self.read();
        let mut rows = String::new();
        let (mut covered, mut later) = (0, 0);
        for s in snippets {
            let mut blocks = Vec::new();
            let mut reasons = Vec::new();
            for (path, page) in &pages {
                for (id, _, mark) in &page.marks {
                    match mark {
                        _ if *id != s.id => {}
                        Mark::Covered(b) => blocks.push(self.link(path, b)),
                        Mark::Later(why) => reasons.push(format!("later: needs {}", cell(why))),
                    }
                }
            }
            covered += usize::from(!blocks.is_empty());
            later += usize::from(blocks.is_empty() && !reasons.is_empty());
            blocks.append(&mut reasons);
            if blocks.is_empty() {
                blocks.push("nothing yet".into());
            }
            let section = match s.items.is_empty() {
                true => cell(&s.section),
                false => format!("{}: {}", cell(&s.section), names(&s.items)),
            };
            let _ = writeln!(
                rows,
                "| {} | {} | {section} | {} |",
                s.id,
                s.guide,
                blocks.join("; ")
            );
        }
        let mut out = String::from(
            "# What is tested where\n\nMade by `cargo run -p torsh-conformance -- book`; do not edit. Five \
             guides existed before the library. For each piece of code in them, this table names the block of \
             this book that does the same with the actual library. The tests compile and run every block, and \
             each block asserts its results. To run one block, pass its name: \
             `cargo test --doc -p torsh-book 'book::handbook (line 12)'`. To run all blocks of a page: \
             `cargo test --doc -p torsh-book book::handbook`.\n\n",
        );
        let _ = writeln!(
            out,
            "{} snippets: {covered} with a block, {later} waiting for features that the library does not have yet.\n",
            snippets.len()
        );
        out.push_str("| snippet | guide | section | covered by |\n|---|---|---|---|\n");
        out + &rows
    }

    fn link(&self, path: &str, block: &fences::Block) -> String {
        let title = path.trim_end_matches(".md").rsplit('/').next();
        format!(
            "[{}, {}]({path}#{}), `book::{} (line {})`",
            title.unwrap_or(path),
            cell(&block.heading),
            fences::anchor(&block.heading),
            self.module(path).unwrap_or("?"),
            block.line
        )
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn names(items: &str) -> String {
    let quoted: Vec<_> = items
        .split(',')
        .map(|i| format!("`{}`", i.trim()))
        .collect();
    quoted.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str =
        "# id\tguide\tsection\tin it\nS1\tbest\tViews\tsplit, join\nS2\tbest\tStreams\t\n";

    fn checked(page: &str, summary: &str, doc_tests: &str) -> (Vec<String>, String) {
        let pages = BTreeMap::from([("guides/a.md".to_string(), page.to_string())]);
        let book = Book {
            pages: &pages,
            summary,
            doc_tests,
            generated: &[],
        };
        let snippets = list(LIST).unwrap();
        (book.mistakes(&snippets), book.page(&snippets))
    }

    const GOOD: &str = "# A\n\n## Views\n<!-- snippet: S1 -->\n```rust\nassert_eq!(1, 1);\n```\n\
        <!-- later: S2 torsh-gpu -->\n";
    const SUMMARY: &str = "- [A](guides/a.md)";
    const TESTS: &str = "pages! {\n    a_page \"guides/a.md\",\n}";

    #[test]
    fn a_book_without_mistakes_makes_the_table() {
        let (wrong, page) = checked(GOOD, SUMMARY, TESTS);
        assert!(wrong.is_empty(), "{wrong:?}");
        assert!(
            page.contains("2 snippets: 1 with a block, 1 waiting"),
            "{page}"
        );
        let rows: Vec<_> = page.lines().filter(|l| l.starts_with("| S")).collect();
        assert_eq!(
            rows,
            [
                "| S1 | best | Views: `split`, `join` | [a, Views](guides/a.md#views), `book::a_page (line 5)` |",
                "| S2 | best | Streams | later: needs torsh-gpu |",
            ]
        );
    }

    #[test]
    fn every_mistake_is_found() {
        let mistakes = [
            (
                GOOD.replace("assert_eq!", "println!"),
                "guides/a.md, line 5: the block asserts nothing",
            ),
            (GOOD.replace("```rust", "```rust,no_run"), "nothing runs it"),
            (
                GOOD.replace("```rust", "```sh"),
                "the block of S1 is `sh`, not Rust",
            ),
            (
                GOOD.replace("later: S2", "later: S9"),
                "line 8: there is no snippet S9",
            ),
            (
                GOOD.replace("later: S2", "later: S1"),
                "S2 (best, Streams): no block is its counterpart",
            ),
            (
                GOOD.replace("S2 torsh-gpu", "S2"),
                "needs a snippet and what it waits for",
            ),
        ];
        for (page, part) in mistakes {
            let (wrong, _) = checked(&page, SUMMARY, TESTS);
            assert!(wrong.iter().any(|w| w.contains(part)), "{part}: {wrong:?}");
        }
        let (wrong, _) = checked(GOOD, "", TESTS);
        assert_eq!(wrong, ["guides/a.md: not in SUMMARY.md"]);
        let (wrong, _) = checked(GOOD, SUMMARY, "pages! {}");
        assert_eq!(
            wrong,
            ["guides/a.md: no doc test; name it in crates/torsh-book/src/book.rs"]
        );
    }

    #[test]
    fn a_bad_list_is_refused() {
        assert!(list("S1\tbest\n").unwrap_err().contains("snippets.tsv:1"));
        assert!(
            list("S1\ta\tb\nS1\ta\tb\n")
                .unwrap_err()
                .contains("comes twice")
        );
    }
}
