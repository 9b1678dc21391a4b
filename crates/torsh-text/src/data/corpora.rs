//! Well-known data sets as they lie on disk: AG News, IMDB, SST-2, WikiText.

use std::path::{Path, PathBuf};

use torsh_data::Dataset;
use torsh_tensor::{Result, TorshError};

use super::files::{self, dataset, listed, text, wrong};
use super::lines::{CsvOptions, CsvRows};

/// A part of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// To learn from.
    Train,
    /// To choose by while learning.
    Valid,
    /// To measure with at the end.
    Test,
}

/// A text and its class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabeledText {
    /// The text.
    pub text: String,
    /// The number of the class; -1 where the file does not tell it, as in the test set of SST-2.
    pub label: i64,
}

/// An article of AG News.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewsItem {
    /// The number of the class, from 0: [`AgNews::CLASSES`].
    pub label: i64,
    /// The heading.
    pub title: String,
    /// The first sentences.
    pub description: String,
}

impl NewsItem {
    /// Heading and sentences, as torchtext gives them.
    pub fn text(&self) -> String {
        format!("{} {}", self.title, self.description)
    }
}

listed!(LabeledText, NewsItem);

/// AG News: `train.csv` and `test.csv` with class (1 to 4), title and description.
///
/// ```
/// use torsh_data::Dataset;
/// use torsh_text::data::{AgNews, Split};
/// # let root = std::env::temp_dir().join(format!("torsh-text-ag-{}", std::process::id()));
/// # std::fs::create_dir_all(&root)?;
/// std::fs::write(root.join("test.csv"), "\"3\",\"Fears\",\"Unions say \"\"no\"\".\"\n")?;
/// let news = AgNews::open(&root, Split::Test)?;
/// let item = news.get(0)?;
/// assert_eq!(AgNews::CLASSES[item.label as usize], "Business");
/// assert_eq!(item.text(), "Fears Unions say \"no\".");
/// # std::fs::remove_dir_all(&root)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgNews {
    items: Vec<NewsItem>,
}

dataset!(AgNews: NewsItem);

impl AgNews {
    /// The names of the classes.
    pub const CLASSES: [&'static str; 4] = ["World", "Sports", "Business", "Sci/Tech"];

    /// A part of the data set in a folder; there is no part for validation.
    ///
    /// # Errors
    /// A file that cannot be read, and a line without a class of 1 to 4.
    #[torsh_tensor::names_caller(Self)]
    pub fn open(root: impl AsRef<Path>, split: Split) -> Result<Self> {
        const OP: &str = "AgNews";
        let name = match split {
            Split::Train => "train.csv",
            Split::Test => "test.csv",
            Split::Valid => return Err(no_split(OP, "validation")),
        };
        let path = root.as_ref().join(name);
        let options = CsvOptions::new().has_header(false);
        let rows = CsvRows::<(i64, String, String)>::open_with(&path, &options)?;
        let mut items = Vec::with_capacity(rows.items().len());
        for (i, (class, title, description)) in rows.items().iter().cloned().enumerate() {
            if !(1..=4).contains(&class) {
                let why = format!(
                    "{}: row {}: the class is {class}, not 1 to 4",
                    path.display(),
                    i + 1
                );
                return Err(TorshError::format(OP, why));
            }
            items.push(NewsItem {
                label: class - 1,
                title,
                description,
            });
        }
        Ok(AgNews { items })
    }
}

fn no_split(op: &'static str, which: &str) -> TorshError {
    TorshError::invalid(op, format!("the data set has no part for {which}"))
        .with_hint("torsh_data::random_split cuts one off the training part")
}

/// IMDB reviews: folders `train` and `test` with `neg` (0) and `pos` (1), a file for each review. A review is read when
/// it is asked for.
///
/// ```
/// use torsh_data::Dataset;
/// use torsh_text::data::{Imdb, LabeledText, Split};
/// # let root = std::env::temp_dir().join(format!("torsh-text-imdb-{}", std::process::id()));
/// # for class in ["neg", "pos"] { std::fs::create_dir_all(root.join("train").join(class))?; }
/// std::fs::write(root.join("train/neg/0_2.txt"), "Dull.")?;
/// std::fs::write(root.join("train/pos/0_9.txt"), "Splendid!")?;
/// let reviews = Imdb::open(&root, Split::Train)?;
/// assert_eq!(reviews.get(1)?, LabeledText { text: "Splendid!".into(), label: 1 });
/// # std::fs::remove_dir_all(&root)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imdb {
    files: Vec<(PathBuf, i64)>,
}

impl Imdb {
    /// A part of the data set in a folder, the negative reviews first, each class by the names of the files; there is no
    /// part for validation.
    ///
    /// # Errors
    /// Folders that are not there.
    #[torsh_tensor::names_caller(Self)]
    pub fn open(root: impl AsRef<Path>, split: Split) -> Result<Self> {
        const OP: &str = "Imdb";
        let part = match split {
            Split::Train => "train",
            Split::Test => "test",
            Split::Valid => return Err(no_split(OP, "validation")),
        };
        let mut all = Vec::new();
        for (class, label) in [("neg", 0), ("pos", 1)] {
            let folder = root.as_ref().join(part).join(class);
            let mut found = Vec::new();
            for entry in std::fs::read_dir(&folder).map_err(|e| files::at(OP, &folder, e))? {
                let path = entry.map_err(|e| files::at(OP, &folder, e))?.path();
                if path.extension().is_some_and(|e| e == "txt") {
                    found.push(path);
                }
            }
            found.sort();
            all.extend(found.into_iter().map(|path| (path, label)));
        }
        Ok(Imdb { files: all })
    }

    /// The rating of a review, 1 to 10, which is in the name of its file.
    pub fn rating(&self, index: usize) -> Option<u32> {
        let (path, _) = self.files[..].get(index)?;
        let (_, rating) = path.file_stem()?.to_str()?.rsplit_once('_')?;
        rating.parse().ok()
    }
}

impl Dataset for Imdb {
    type Item = LabeledText;

    fn len(&self) -> usize {
        self.files.len()
    }

    #[torsh_tensor::names_caller]
    fn get(&self, index: usize) -> Result<LabeledText> {
        let (path, label) = files::item("Imdb", &self.files, index)?;
        Ok(LabeledText {
            text: text("Imdb", &path)?,
            label,
        })
    }
}

/// SST-2 of GLUE: `train.tsv` and `dev.tsv` with sentence and label (0 negative, 1 positive), `test.tsv` with number and
/// sentence.
///
/// ```
/// use torsh_data::Dataset;
/// use torsh_text::data::{Split, Sst2};
/// # let root = std::env::temp_dir().join(format!("torsh-text-sst-{}", std::process::id()));
/// # std::fs::create_dir_all(&root)?;
/// std::fs::write(root.join("dev.tsv"), "sentence\tlabel\na \"fine\" film \t1\n")?;
/// let data = Sst2::open(&root, Split::Valid)?;
/// assert_eq!((data.get(0)?.text.as_str(), data.get(0)?.label), ("a \"fine\" film ", 1));
/// # std::fs::remove_dir_all(&root)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sst2 {
    items: Vec<LabeledText>,
}

dataset!(Sst2: LabeledText);

impl Sst2 {
    /// A part of the data set in a folder.
    ///
    /// # Errors
    /// A file that cannot be read, and a line that is no sentence with its label; the error names the line.
    #[torsh_tensor::names_caller(Self)]
    pub fn open(root: impl AsRef<Path>, split: Split) -> Result<Self> {
        const OP: &str = "Sst2";
        let name = match split {
            Split::Train => "train.tsv",
            Split::Valid => "dev.tsv",
            Split::Test => "test.tsv",
        };
        let path = root.as_ref().join(name);
        let text = text(OP, &path)?;
        let mut lines = files::lines(&text).enumerate();
        let header: Vec<&str> = lines.next().map_or("", |(_, l)| l).split('\t').collect();
        let column = |name: &str| header.iter().position(|column| *column == name);
        let sentence = column("sentence")
            .ok_or_else(|| wrong(OP, &path, 1, "there is no column `sentence`"))?;
        let label = column("label");
        let mut items = Vec::new();
        for (i, line) in lines {
            let row: Vec<&str> = line.split('\t').collect();
            if row.len() != header.len() {
                let why = format!(
                    "{} columns, and there should be {}",
                    row.len(),
                    header.len()
                );
                return Err(wrong(OP, &path, i + 1, &why));
            }
            let label = match label.map(|at| row[at]) {
                None => -1,
                Some("0") => 0,
                Some("1") => 1,
                Some(other) => {
                    return Err(wrong(
                        OP,
                        &path,
                        i + 1,
                        &format!("the label is {other:?}, not 0 or 1"),
                    ));
                }
            };
            items.push(LabeledText {
                text: row[sentence].to_string(),
                label,
            });
        }
        Ok(Sst2 { items })
    }
}

/// An article of WikiText.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Article {
    /// The title.
    pub title: String,
    /// The lines below it, with their headings.
    pub text: String,
}

/// WikiText-2 and WikiText-103: `wiki.train.tokens`, `wiki.valid.tokens`, `wiki.test.tokens`, or `.raw` in the place of
/// `.tokens`, a paragraph or heading on each line.
///
/// ```
/// use torsh_data::Dataset;
/// use torsh_text::data::{Split, WikiText};
/// # let root = std::env::temp_dir().join(format!("torsh-text-wiki-{}", std::process::id()));
/// # std::fs::create_dir_all(&root)?;
/// std::fs::write(root.join("wiki.test.raw"), " \n = Rust = \n \n A language . \n \n = = History = = \n")?;
/// let data = WikiText::open(&root, Split::Test)?;
/// assert_eq!((data.len(), data.get(3)?), (6, " A language . ".to_string()));
/// let articles = data.articles();
/// assert_eq!(articles[0].title, "Rust");
/// assert!(articles[0].text.ends_with("History = = \n"));
/// # std::fs::remove_dir_all(&root)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WikiText {
    items: Vec<String>,
}

dataset!(WikiText: String);

impl WikiText {
    /// A part of the data set in a folder.
    ///
    /// # Errors
    /// A file that is not there or cannot be read.
    #[torsh_tensor::names_caller(Self)]
    pub fn open(root: impl AsRef<Path>, split: Split) -> Result<Self> {
        let root = root.as_ref();
        let part = match split {
            Split::Train => "train",
            Split::Valid => "valid",
            Split::Test => "test",
        };
        let tokens = root.join(format!("wiki.{part}.tokens"));
        let raw = root.join(format!("wiki.{part}.raw"));
        let path = if !tokens.exists() && raw.exists() {
            raw
        } else {
            tokens
        };
        let text = text("WikiText", &path)?;
        Ok(WikiText {
            items: files::lines(&text).map(str::to_string).collect(),
        })
    }

    /// The articles: each from its title, ` = Title = `, to the next one.
    pub fn articles(&self) -> Vec<Article> {
        let mut articles: Vec<Article> = Vec::new();
        for (i, line) in self.items.iter().enumerate() {
            // A line of this form within a paragraph is a formula: titles stand between empty lines.
            let empty = |at: Option<usize>| {
                at.and_then(|at| self.items[..].get(at))
                    .is_none_or(|l| l.trim().is_empty())
            };
            let alone = empty(i.checked_sub(1)) && empty(Some(i + 1));
            if let Some(title) = title(line).filter(|_| alone) {
                articles.push(Article {
                    title: title.to_string(),
                    text: String::new(),
                });
            } else if let Some(article) = articles.last_mut() {
                article.text.push_str(line);
                article.text.push('\n');
            }
        }
        articles
    }
}

/// The title in a line ` = Title = `; headings within articles have more signs.
fn title(line: &str) -> Option<&str> {
    let title = line.trim().strip_prefix("= ")?.strip_suffix(" =")?;
    (!title.starts_with('=') && !title.ends_with('=')).then_some(title)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::files::tests::Folder;

    #[test]
    fn errors_name_the_line() -> Result<()> {
        let folder = Folder::new(
            "corpora",
            &[
                ("train.csv", "5,a,b\n"),
                ("train.tsv", "sentence\tlabel\na\t1\nb\n"),
                ("dev.tsv", "text\tlabel\n"),
                ("test.tsv", "index\tsentence\n0\tx y\n"),
            ],
        )?;
        let error = |e: Option<TorshError>| e.map(|e| e.to_string()).unwrap_or_default();
        assert!(error(AgNews::open(&folder.0, Split::Train).err()).contains("row 1"));
        assert!(error(AgNews::open(&folder.0, Split::Valid).err()).contains("validation"));
        assert!(error(Sst2::open(&folder.0, Split::Train).err()).contains("line 3: 1 columns"));
        assert!(error(Sst2::open(&folder.0, Split::Valid).err()).contains("`sentence`"));
        let test = Sst2::open(&folder.0, Split::Test)?;
        assert_eq!((&*test.items()[0].text, test.items()[0].label), ("x y", -1));
        assert!(error(Imdb::open(&folder.0, Split::Test).err()).contains("neg"));
        assert!(error(WikiText::open(&folder.0, Split::Train).err()).contains("wiki.train.tokens"));
        Ok(())
    }

    #[test]
    fn titles_have_one_sign() {
        assert_eq!(title(" = A B = "), Some("A B"));
        assert_eq!(title(" = = A = = "), None);
        assert_eq!(title("text"), None);
    }
}
