//! Questions with answers in a text: SQuAD.

use std::path::Path;

use serde::Deserialize;
use torsh_tensor::{Result, TorshError};

use super::files::{dataset, listed, text};

/// An answer: a part of the context.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct SquadAnswer {
    /// The words of the answer.
    pub text: String,
    /// Where it begins in the context, in characters.
    #[serde(rename = "answer_start")]
    pub start: usize,
}

/// A question, the text that answers it, and the answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SquadExample {
    /// The name of the question.
    pub id: String,
    /// The title of the article.
    pub title: String,
    /// The text.
    pub context: String,
    /// The question.
    pub question: String,
    /// What people have answered; nothing where the text does not answer the question.
    pub answers: Vec<SquadAnswer>,
    /// Whether the text does not answer the question (SQuAD 2.0).
    pub is_impossible: bool,
}

/// A file of SQuAD 1.1 or 2.0.
///
/// ```
/// use torsh_data::Dataset;
/// use torsh_text::data::Squad;
/// # let path = std::env::temp_dir().join(format!("torsh-text-squad-{}", std::process::id()));
/// std::fs::write(&path, r#"{ "version": "v2.0", "data": [{ "title": "Rust", "paragraphs": [{
///     "context": "Rust appeared in 2012.",
///     "qas": [{ "id": "1", "question": "When?", "is_impossible": false,
///               "answers": [{ "text": "2012", "answer_start": 17 }] }] }] }] }"#)?;
/// let data = Squad::open(&path)?;
/// let example = data.get(0)?;
/// let answer = &example.answers[0];
/// assert_eq!(example.context.chars().skip(answer.start).take(4).collect::<String>(), answer.text);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Squad {
    version: String,
    items: Vec<SquadExample>,
}

dataset!(Squad: SquadExample);
listed!(SquadExample);

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    version: String,
    data: Vec<Article>,
}

#[derive(Deserialize)]
struct Article {
    #[serde(default)]
    title: String,
    paragraphs: Vec<Paragraph>,
}

#[derive(Deserialize)]
struct Paragraph {
    context: String,
    qas: Vec<Question>,
}

#[derive(Deserialize)]
struct Question {
    id: String,
    question: String,
    #[serde(default)]
    answers: Vec<SquadAnswer>,
    #[serde(default)]
    is_impossible: bool,
}

impl Squad {
    /// The questions of a file.
    ///
    /// # Errors
    /// A file that cannot be read or has other fields; the error names the field.
    #[torsh_tensor::names_caller(Self)]
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        const OP: &str = "Squad";
        let path = path.as_ref();
        let text = text(OP, path)?;
        let mut from = serde_json::Deserializer::from_str(&text);
        let file: File = serde_path_to_error::deserialize(&mut from).map_err(|e| {
            let why = format!("{}: field {}: {}", path.display(), e.path(), e.inner());
            TorshError::format(OP, why)
        })?;
        let mut items = Vec::new();
        for article in file.data {
            for paragraph in article.paragraphs {
                for question in paragraph.qas {
                    items.push(SquadExample {
                        id: question.id,
                        title: article.title.clone(),
                        context: paragraph.context.clone(),
                        question: question.question,
                        answers: question.answers,
                        is_impossible: question.is_impossible,
                    });
                }
            }
        }
        Ok(Squad {
            version: file.version,
            items,
        })
    }

    /// What the file says about its version: `1.1`, `v2.0`.
    pub fn version(&self) -> &str {
        &self.version
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::files::tests::Folder;

    #[test]
    fn both_versions_are_read_and_fields_named() -> Result<()> {
        let one = r#"{"data":[{"title":"t","paragraphs":[{"context":"c","qas":[{"id":"q","question":"?","answers":[{"text":"c","answer_start":0}]}]}]}],"version":"1.1"}"#;
        let two = r#"{"version":"v2.0","data":[{"title":"t","paragraphs":[{"context":"c","qas":[{"id":"q","question":"?","answers":[],"plausible_answers":[],"is_impossible":true}]}]}]}"#;
        let wrong = one.replace("\"answer_start\":0", "\"answer_start\":-1");
        let folder = Folder::new("squad", &[("1", one), ("2", two), ("3", &wrong)])?;
        let data = Squad::open(folder.0.join("1"))?;
        assert_eq!(
            (data.version(), data.items()[0].is_impossible),
            ("1.1", false)
        );
        let data = Squad::open(folder.0.join("2"))?;
        assert!(data.items()[0].is_impossible && data.items()[0].answers.is_empty());
        let error = Squad::open(folder.0.join("3")).err().map(|e| e.to_string());
        assert!(error.is_some_and(|e| {
            e.contains("data[0].paragraphs[0].qas[0].answers[0].answer_start")
        }));
        Ok(())
    }
}
