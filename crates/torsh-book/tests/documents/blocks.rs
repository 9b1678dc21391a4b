//! The blocks of code of the book: each block of Rust is run, and asserts something.

use super::tree::documents;

/// A fenced block.
struct Block {
    /// The line of its opening fence, from 1.
    line: usize,
    /// What stands behind the opening fence: `rust`, `rust,compile_fail`, `text`.
    info: String,
    /// Its lines.
    text: String,
}

impl Block {
    /// Whether rustdoc compiles it.
    fn is_rust(&self) -> bool {
        let mut words = self.words();
        let Some(first) = words.next() else {
            return true;
        };
        let attribute = |w: &str| {
            matches!(
                w,
                "rust" | "should_panic" | "no_run" | "ignore" | "compile_fail"
            ) || w.starts_with("edition")
        };
        attribute(first)
    }

    /// Whether rustdoc leaves it out, or only compiles it.
    fn is_left_out(&self) -> bool {
        self.words().any(|w| w == "ignore" || w == "no_run")
    }

    /// Whether a wrong result fails it.
    fn asserts(&self) -> bool {
        let fails = |w: &str| matches!(w, "compile_fail" | "should_panic");
        self.words().any(fails)
            || ["assert", "unwrap_err", "expect_err"]
                .iter()
                .any(|a| self.text.contains(a))
    }

    fn words(&self) -> impl Iterator<Item = &str> {
        self.info
            .split([',', ' '])
            .map(str::trim)
            .filter(|w| !w.is_empty())
    }
}

/// The fenced blocks of a page.
fn blocks(page: &str) -> Vec<Block> {
    let mut all = Vec::new();
    // The block being read, with the characters that close it.
    let mut open: Option<(Block, String)> = None;
    for (i, line) in page.lines().enumerate() {
        let bare = line.trim_start();
        if let Some((mut block, fence)) = open.take() {
            if bare.trim_end() == fence {
                all.push(block);
            } else {
                block.text.push_str(line);
                block.text.push('\n');
                open = Some((block, fence));
            }
            continue;
        }
        let ticks = bare.bytes().take_while(|&b| b == b'`').count();
        if ticks >= 3 {
            let block = Block {
                line: i + 1,
                info: bare[ticks..].trim().to_string(),
                text: String::new(),
            };
            open = Some((block, "`".repeat(ticks)));
        }
    }
    if let Some((block, _)) = open {
        panic!("the block of line {} is not closed", block.line);
    }
    all
}

#[test]
fn every_block_of_the_book_runs_and_asserts() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    let pages = documents().iter().filter(|(f, _)| f.starts_with("docs/"));
    for (file, page) in pages {
        for block in blocks(page).iter().filter(|b| b.is_rust()) {
            seen += 1;
            let at = format!("{file}:{}", block.line);
            if block.is_left_out() {
                wrong.push(format!("{at}: nothing runs the block `{}`", block.info));
            } else if !block.asserts() {
                wrong.push(format!("{at}: the block asserts nothing"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 150, "only {seen} blocks were found");
}

#[test]
fn blocks_say_what_rustdoc_does_with_them() {
    let page = "```rust\nlet x = 1;\n```\n```text\nx\n```\n```rust,compile_fail\nx\n```\n\
        ```\ny\n```\n```rust,ignore\n```\n";
    let said: Vec<_> = blocks(page)
        .iter()
        .map(|b| (b.line, b.is_rust(), b.asserts(), b.is_left_out()))
        .collect();
    assert_eq!(
        said,
        [
            (1, true, false, false),
            (4, false, false, false),
            (7, true, true, false),
            (10, true, false, false),
            (13, true, false, true),
        ]
    );
}
