//! The code blocks of a page, and the marks that stand before them.

/// A fenced block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The line of its opening fence, from 1.
    pub line: usize,
    /// What stands behind the opening fence: `rust`, `rust,compile_fail`, `text`.
    pub info: String,
    /// Its lines.
    pub text: String,
    /// The title of the last heading above it.
    pub heading: String,
}

impl Block {
    /// Whether rustdoc compiles it.
    pub fn is_rust(&self) -> bool {
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
    pub fn is_left_out(&self) -> bool {
        self.words().any(|w| w == "ignore" || w == "no_run")
    }

    /// Whether a wrong result fails it.
    pub fn asserts(&self) -> bool {
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

/// What a page says of a snippet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A block is its counterpart.
    Covered(Block),
    /// What it shows is not there yet, and what it waits for.
    Later(String),
}

/// A page, read.
#[derive(Debug, Default)]
pub struct Page {
    /// Every fenced block.
    pub blocks: Vec<Block>,
    /// Every marked snippet, with the line of the mark.
    pub marks: Vec<(String, usize, Mark)>,
    /// What is wrong with the marks and blocks.
    pub mistakes: Vec<String>,
}

/// The snippets that a list begins with (`S1, S2`), and what follows.
fn ids(list: &str) -> (Vec<String>, &str) {
    let (mut found, mut rest) = (Vec::new(), list.trim());
    loop {
        let end = rest
            .find(|c: char| !c.is_ascii_alphanumeric())
            .unwrap_or(rest.len());
        let id = &rest[..end];
        let number = id.strip_prefix('S').unwrap_or("");
        if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
            return (found, rest);
        }
        found.push(id.to_string());
        rest = rest[end..].trim_start_matches([',', ' ']);
    }
}

/// Reads a page.
pub fn read(text: &str) -> Page {
    let mut page = Page::default();
    let mut heading = String::new();
    // The block being read, with the characters that close it.
    let mut open: Option<(Block, String)> = None;
    let mut waiting: Vec<(String, usize)> = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let n = i + 1;
        let bare = line.trim_start();
        if let Some((mut block, fence)) = open.take() {
            if bare.trim_end() == fence {
                for (id, at) in waiting.drain(..) {
                    page.marks.push((id, at, Mark::Covered(block.clone())));
                }
                page.blocks.push(block);
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
                line: n,
                info: bare[ticks..].trim().to_string(),
                text: String::new(),
                heading: heading.clone(),
            };
            open = Some((block, "`".repeat(ticks)));
            continue;
        }
        let mark = |word: &str| {
            let inside = bare.strip_prefix("<!--")?.trim_end().strip_suffix("-->")?;
            Some(inside.trim().strip_prefix(word)?.trim().to_string())
        };
        if let Some(list) = mark("snippet:") {
            let (found, rest) = ids(&list);
            if found.is_empty() || !rest.is_empty() {
                page.mistakes
                    .push(format!("line {n}: cannot read the mark `{}`", bare.trim()));
            }
            waiting.extend(found.into_iter().map(|id| (id, n)));
        } else if let Some(list) = mark("later:") {
            let (found, reason) = ids(&list);
            if found.is_empty() || reason.is_empty() {
                page.mistakes.push(format!(
                    "line {n}: `{}` needs a snippet and what it waits for",
                    bare.trim()
                ));
            }
            for id in found {
                page.marks.push((id, n, Mark::Later(reason.to_string())));
            }
        } else if !bare.is_empty() {
            for (id, at) in waiting.drain(..) {
                page.mistakes
                    .push(format!("line {at}: no block follows the mark of {id}"));
            }
            if bare.starts_with('#') {
                heading = bare.trim_start_matches('#').trim().to_string();
            }
        }
    }
    for (id, at) in waiting {
        page.mistakes
            .push(format!("line {at}: no block follows the mark of {id}"));
    }
    if let Some((block, _)) = open {
        page.mistakes
            .push(format!("line {}: the block is not closed", block.line));
    }
    page
}

/// The anchor that GitHub and mdBook give a heading.
pub fn anchor(heading: &str) -> String {
    heading
        .chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c.to_ascii_lowercase()),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Title\n\n## A part: `x`\n\n<!-- snippet: S1, S2 -->\n\n```rust\nassert!(true);\n```\n\n\
        <!-- later: S3 S4 torsh-gpu, streams -->\n\n```text\n# no heading\n```\n";

    #[test]
    fn marks_belong_to_the_block_that_follows() {
        let page = read(PAGE);
        assert!(page.mistakes.is_empty(), "{:?}", page.mistakes);
        let block = &page.blocks[0];
        assert_eq!((block.line, block.heading.as_str()), (7, "A part: `x`"));
        assert_eq!(block.text, "assert!(true);\n");
        let marks: Vec<_> = page
            .marks
            .iter()
            .map(|(id, n, m)| (id.as_str(), *n, m.clone()))
            .collect();
        assert_eq!(
            marks,
            [
                ("S1", 5, Mark::Covered(block.clone())),
                ("S2", 5, Mark::Covered(block.clone())),
                ("S3", 11, Mark::Later("torsh-gpu, streams".into())),
                ("S4", 11, Mark::Later("torsh-gpu, streams".into())),
            ]
        );
        assert_eq!(anchor(&block.heading), "a-part-x");
    }

    #[test]
    fn blocks_say_what_rustdoc_does_with_them() {
        let page = read(
            "```rust\nlet x = 1;\n```\n```text\nx\n```\n```rust,compile_fail\nx\n```\n```\ny\n```\n```rust,ignore\n```\n",
        );
        let said: Vec<_> = page
            .blocks
            .iter()
            .map(|b| (b.is_rust(), b.asserts(), b.is_left_out()))
            .collect();
        assert_eq!(
            said,
            [
                (true, false, false),
                (false, false, false),
                (true, true, false),
                (true, false, false),
                (true, false, true),
            ]
        );
    }

    #[test]
    fn bad_marks_are_named_with_their_line() {
        for (text, part) in [
            (
                "<!-- snippet: S1 -->\ntext\n",
                "line 1: no block follows the mark of S1",
            ),
            ("<!-- snippet: S1 -->\n", "no block follows the mark of S1"),
            (
                "<!-- snippet: 12 -->\n```rust\n```\n",
                "cannot read the mark",
            ),
            (
                "<!-- snippet: S1 maybe -->\n```rust\n```\n",
                "cannot read the mark",
            ),
            (
                "\n<!-- later: S1 -->\n",
                "line 2: `<!-- later: S1 -->` needs",
            ),
            ("```rust\nlet x = 1;\n", "line 1: the block is not closed"),
        ] {
            let page = read(text);
            assert!(
                page.mistakes.len() == 1 && page.mistakes[0].contains(part),
                "{text}: {:?}",
                page.mistakes
            );
        }
    }
}
