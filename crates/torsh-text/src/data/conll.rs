//! Sentences with tags: CoNLL-2000 and CoNLL-2003.

use std::collections::BTreeSet;
use std::path::Path;

use torsh_tensor::{Result, TorshError};

use super::files::{self, dataset, listed, text, wrong};

/// A sentence of CoNLL: lists of one length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaggedSentence {
    /// The words.
    pub words: Vec<String>,
    /// Their parts of speech.
    pub pos: Vec<String>,
    /// The phrases they are in, as `B-NP`.
    pub chunks: Vec<String>,
    /// The names they are in, as `B-PER`; none in CoNLL-2000.
    pub entities: Vec<String>,
}

/// A file of CoNLL-2000 (word, part of speech, phrase) or CoNLL-2003 (and name), a word on each line and an empty line
/// after each sentence.
///
/// ```
/// use torsh_data::Dataset;
/// use torsh_text::data::Conll;
/// # let path = std::env::temp_dir().join(format!("torsh-text-conll-{}", std::process::id()));
/// std::fs::write(&path, "-DOCSTART- -X- -X- O\n\nEU NNP B-NP B-ORG\nrejects VBZ B-VP O\n\nPeter NNP B-NP B-PER\n")?;
/// let data = Conll::open_2003(&path)?;
/// assert_eq!(data.len(), 2);
/// assert_eq!(data.get(0)?.words, ["EU", "rejects"]);
/// assert_eq!(data.entity_labels(), ["B-ORG", "B-PER", "O"]);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conll {
    items: Vec<TaggedSentence>,
}

dataset!(Conll: TaggedSentence);
listed!(TaggedSentence);

impl Conll {
    /// A file of CoNLL-2000, with three columns.
    ///
    /// # Errors
    /// A file that cannot be read, and a line with another number of columns; the error names the line.
    #[torsh_tensor::names_caller(Self)]
    pub fn open_2000(path: impl AsRef<Path>) -> Result<Self> {
        Self::open(path.as_ref(), 3)
    }

    /// A file of CoNLL-2003, with four columns. Lines that begin a document (`-DOCSTART-`) are left out.
    ///
    /// # Errors
    /// As [`Conll::open_2000`].
    #[torsh_tensor::names_caller(Self)]
    pub fn open_2003(path: impl AsRef<Path>) -> Result<Self> {
        Self::open(path.as_ref(), 4)
    }

    fn open(path: &Path, columns: usize) -> Result<Self> {
        const OP: &str = "Conll";
        let text = text(OP, path)?;
        let mut items = Vec::new();
        let mut sentence = TaggedSentence::default();
        for (i, line) in files::lines(&text).enumerate() {
            let row: Vec<&str> = line.split_whitespace().collect();
            if row.is_empty() || row[0] == "-DOCSTART-" {
                if !sentence.words.is_empty() {
                    items.push(std::mem::take(&mut sentence));
                }
                continue;
            }
            if row.len() != columns {
                let why = format!("{} columns, and there should be {columns}", row.len());
                return Err(wrong(OP, path, i + 1, &why));
            }
            let lists = [
                &mut sentence.words,
                &mut sentence.pos,
                &mut sentence.chunks,
                &mut sentence.entities,
            ];
            for (list, value) in lists.into_iter().zip(row) {
                list.push(value.to_string());
            }
        }
        if !sentence.words.is_empty() {
            items.push(sentence);
        }
        match items.is_empty() {
            true => Err(TorshError::format(
                OP,
                format!("{}: there is no sentence", path.display()),
            )),
            false => Ok(Conll { items }),
        }
    }

    /// The names' tags that occur, in alphabetic order.
    pub fn entity_labels(&self) -> Vec<&str> {
        self.labels(|s| &s.entities)
    }

    /// The phrases' tags that occur, in alphabetic order.
    pub fn chunk_labels(&self) -> Vec<&str> {
        self.labels(|s| &s.chunks)
    }

    /// The parts of speech that occur, in alphabetic order.
    pub fn pos_labels(&self) -> Vec<&str> {
        self.labels(|s| &s.pos)
    }

    fn labels(&self, tags: fn(&TaggedSentence) -> &Vec<String>) -> Vec<&str> {
        let all = self.items.iter().flat_map(tags);
        let all: BTreeSet<&str> = all.map(|tag| &**tag).collect();
        all.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::files::tests::Folder;

    #[test]
    fn columns_are_those_of_the_year() -> Result<()> {
        let folder = Folder::new(
            "conll",
            &[
                ("a", "He PRP B-NP\nruns VBZ B-VP\n\n\nYes UH O\n"),
                ("b", "\n"),
            ],
        )?;
        let data = Conll::open_2000(folder.0.join("a"))?;
        assert_eq!(data.items().len(), 2);
        assert_eq!(data.items()[0].chunks, ["B-NP", "B-VP"]);
        assert!(data.items()[0].entities.is_empty());
        assert_eq!(data.pos_labels(), ["PRP", "UH", "VBZ"]);
        let error = Conll::open_2003(folder.0.join("a"))
            .err()
            .map(|e| e.to_string());
        assert!(error.is_some_and(|e| e.contains("line 1: 3 columns")));
        assert!(Conll::open_2000(folder.0.join("b")).is_err());
        Ok(())
    }
}
