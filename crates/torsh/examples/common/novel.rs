//! Pride and Prejudice, which comes with ToRSh, as paragraphs and sentences.
#![allow(dead_code)]

use std::io::Read;

use torsh::Result;

/// The text of the novel.
pub fn text() -> Result<String> {
    let packed = include_bytes!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../data/text/pride_and_prejudice.txt.gz"
    ));
    let mut text = String::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut text)?;
    Ok(text)
}

/// The paragraphs of a text, each in one line, without headings.
pub fn paragraphs(text: &str) -> Vec<String> {
    let all = text.replace("\r\n", "\n");
    let joined = all
        .split("\n\n")
        .map(|p| p.split_whitespace().collect::<Vec<_>>().join(" "));
    joined.filter(|p| p.ends_with(END)).collect()
}

/// What a paragraph ends with.
const END: [char; 7] = ['.', '!', '?', '"', ':', '-', ';'];

/// Who says a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voice {
    /// All of it is between quotation marks.
    Dialogue,
    /// None of it is.
    Narration,
    /// Some of it is.
    Both,
}

/// A sentence, without its quotation marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentence {
    pub text: String,
    pub voice: Voice,
}

/// The sentences of paragraphs, in order.
pub fn sentences(paragraphs: &[String]) -> Vec<Sentence> {
    paragraphs.iter().flat_map(|p| of_paragraph(p)).collect()
}

/// Words whose full stop ends no sentence.
const TITLES: [&str; 6] = ["Mr", "Mrs", "Dr", "St", "Messrs", "Esq"];

fn of_paragraph(paragraph: &str) -> Vec<Sentence> {
    let chars: Vec<char> = paragraph.chars().collect();
    let mut all = Vec::new();
    let mut text = String::new();
    // Letters outside of quotation marks, and between them.
    let mut letters = [0, 0];
    let mut quoted = false;
    for (i, &c) in chars.iter().enumerate() {
        match c {
            '"' => quoted = !quoted,
            _ => text.push(c),
        }
        letters[usize::from(quoted)] += usize::from(c.is_alphabetic());
        let begins = |c: &char| c.is_uppercase() || matches!(c, '"' | '_' | '(');
        let space = chars.get(i + 1) == Some(&' ') && chars.get(i + 2).is_some_and(begins);
        let closes = c == '"' && i > 0 && chars[i - 1] != ' ';
        let stop = match c {
            '.' => !is_title(&text),
            '!' | '?' => true,
            '"' => closes && matches!(chars[i - 1], '.' | '!' | '?'),
            _ => false,
        };
        let last = i + 1 == chars.len();
        if (stop && space) || last {
            let voice = match letters {
                [0, _] => Voice::Dialogue,
                [_, 0] => Voice::Narration,
                _ => Voice::Both,
            };
            let sentence = text.trim().to_string();
            if letters != [0, 0] {
                all.push(Sentence {
                    text: sentence,
                    voice,
                });
            }
            text.clear();
            letters = [0, 0];
        }
    }
    all
}

/// Whether a text ends in an abbreviation.
fn is_title(text: &str) -> bool {
    let word = text.trim_end_matches('.');
    let word = word.rsplit(|c: char| !c.is_alphabetic()).next();
    word.is_some_and(|w| TITLES.contains(&w) || w.chars().count() == 1 && w != "I")
}
