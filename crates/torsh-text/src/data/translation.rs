//! Texts in two languages.

use std::path::Path;

use torsh_tensor::{Result, TorshError};

use super::files::{self, dataset, listed, text, wrong};

/// A text and its translation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranslationPair {
    /// The text.
    pub source: String,
    /// The translation.
    pub target: String,
}

/// Sentences with their translations: two files with a sentence on each line, or one with a tab between both.
///
/// ```
/// use torsh_data::Dataset;
/// use torsh_text::data::TranslationPairs;
/// # let path = std::env::temp_dir().join(format!("torsh-text-pairs-{}", std::process::id()));
/// std::fs::write(&path, "Go.\tGeh.\nHi.\tHallo!\n")?;
/// let pairs = TranslationPairs::from_tsv(&path)?;
/// assert_eq!(pairs.get(1)?.target, "Hallo!");
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TranslationPairs {
    items: Vec<TranslationPair>,
}

dataset!(TranslationPairs: TranslationPair);
listed!(TranslationPair);

impl TranslationPairs {
    /// The lines of two files, such as `train.de` and `train.en`.
    ///
    /// # Errors
    /// Files that cannot be read or have different numbers of lines.
    #[torsh_tensor::names_caller(Self)]
    pub fn open(source: impl AsRef<Path>, target: impl AsRef<Path>) -> Result<Self> {
        const OP: &str = "TranslationPairs";
        let (source, target) = (source.as_ref(), target.as_ref());
        let texts = (text(OP, source)?, text(OP, target)?);
        let (one, two) = (
            files::lines(&texts.0).count(),
            files::lines(&texts.1).count(),
        );
        if one != two {
            return Err(TorshError::format(
                OP,
                format!(
                    "{} has {one} lines, and {} has {two}",
                    source.display(),
                    target.display()
                ),
            ));
        }
        let pairs = files::lines(&texts.0).zip(files::lines(&texts.1));
        Ok(TranslationPairs {
            items: pairs.map(pair).collect(),
        })
    }

    /// The lines of a file with a tab between text and translation. More columns, as those of Tatoeba, are left out.
    ///
    /// # Errors
    /// A file that cannot be read, and a line without a tab; the error names the line.
    #[torsh_tensor::names_caller(Self)]
    pub fn from_tsv(path: impl AsRef<Path>) -> Result<Self> {
        const OP: &str = "TranslationPairs";
        let path = path.as_ref();
        let text = text(OP, path)?;
        let mut items = Vec::new();
        for (i, line) in files::lines(&text).enumerate() {
            let mut columns = line.split('\t');
            match (columns.next(), columns.next()) {
                (Some(source), Some(target)) => items.push(pair((source, target))),
                _ => return Err(wrong(OP, path, i + 1, "there is no tab between two texts")),
            }
        }
        Ok(TranslationPairs { items })
    }
}

fn pair((source, target): (&str, &str)) -> TranslationPair {
    TranslationPair {
        source: source.to_string(),
        target: target.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::files::tests::Folder;

    #[test]
    fn lines_belong_together() -> Result<()> {
        let folder = Folder::new(
            "pairs",
            &[("a", "1\n2\n"), ("b", "eins\nzwei\n"), ("c", "x\n")],
        )?;
        let (a, b, c) = (folder.0.join("a"), folder.0.join("b"), folder.0.join("c"));
        let pairs = TranslationPairs::open(&a, b)?;
        assert_eq!(pairs.items()[1], pair(("2", "zwei")));
        let error = TranslationPairs::open(a, &c).err().map(|e| e.to_string());
        assert!(error.is_some_and(|e| e.contains("2 lines") && e.contains("has 1")));
        let error = TranslationPairs::from_tsv(c).err().map(|e| e.to_string());
        assert!(error.is_some_and(|e| e.contains("line 1")));
        Ok(())
    }
}
