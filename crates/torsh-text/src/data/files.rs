//! What the readers of files share.

use std::path::Path;

use torsh_tensor::{Result, TorshError};

/// An error of the system at a path.
pub(super) fn at(op: &str, path: &Path, e: std::io::Error) -> TorshError {
    std::io::Error::new(e.kind(), format!("{op}: {}: {e}", path.display())).into()
}

/// The text of a file, without the mark that Windows puts ahead of one.
pub(super) fn text(op: &'static str, path: &Path) -> Result<String> {
    let bytes = std::fs::read(path).map_err(|e| at(op, path, e))?;
    torsh_core::check_git_lfs(op, path.display(), &bytes)?;
    let mut text = String::from_utf8(bytes).map_err(|e| {
        let why = format!(
            "{}: byte {} is not UTF-8",
            path.display(),
            e.utf8_error().valid_up_to()
        );
        TorshError::format(op, why)
    })?;
    let mark = text.len() - torsh_core::without_bom(text.as_bytes()).len();
    text.drain(..mark);
    Ok(text)
}

/// The lines of a text without their ends (`\n` or `\r\n`), and without an empty one at the end.
pub(super) fn lines(text: &str) -> impl Iterator<Item = &str> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let lines = (!text.is_empty()).then(|| text.split('\n'));
    lines
        .into_iter()
        .flatten()
        .map(|line| line.strip_suffix('\r').unwrap_or(line))
}

/// An error at a line of a file.
pub(super) fn wrong(op: &'static str, path: &Path, line: usize, why: &str) -> TorshError {
    TorshError::format(op, format!("{}: line {line}: {why}", path.display()))
}

/// The item of a dataset that holds all of them.
pub(super) fn item<T: Clone>(op: &'static str, items: &[T], index: usize) -> Result<T> {
    items.get(index).cloned().ok_or_else(|| {
        TorshError::index(
            op,
            format!(
                "index {index} is out of range for a dataset of {} items",
                items.len()
            ),
        )
    })
}

/// A dataset that holds its items.
macro_rules! dataset {
    ($(<$t:ident: $bound:path>)? $name:ty: $item:ty) => {
        impl$(<$t: $bound>)? torsh_data::Dataset for $name {
            type Item = $item;

            fn len(&self) -> usize {
                self.items.len()
            }

            #[torsh_tensor::names_caller]
            fn get(&self, index: usize) -> torsh_tensor::Result<$item> {
                $crate::data::files::item("Dataset", &self.items, index)
            }
        }

        impl$(<$t: $bound>)? $name {
            /// All items, in the order of the file.
            pub fn items(&self) -> &[$item] {
                &self.items
            }
        }
    };
}
pub(super) use dataset;

/// Items whose batch is the list of them.
macro_rules! listed {
    ($($item:ty),*) => {$(
        impl torsh_data::Collate for $item {
            type Batch = Vec<$item>;

            fn collate(items: Vec<Self>) -> torsh_tensor::Result<Vec<Self>> {
                Ok(items)
            }
        }
    )*};
}
pub(super) use listed;

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A folder of a test, removed at its end.
    pub(in crate::data) struct Folder(pub std::path::PathBuf);

    impl Folder {
        pub(in crate::data) fn new(name: &str, files: &[(&str, &str)]) -> Result<Folder> {
            let name = format!("torsh-text-data-{}-{name}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            for (file, content) in files {
                let path = folder.join(file);
                if let Some(parent) = path.parent() {
                    std::fs::create_dir_all(parent)?;
                }
                std::fs::write(path, content)?;
            }
            Ok(Folder(folder))
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_mark_of_windows_is_no_part_of_a_text() -> Result<()> {
        let files = [("a.txt", "\u{feff}a\r\nb\r\n"), ("b.txt", "\u{feff}")];
        let folder = Folder::new("mark", &files)?;
        let a = text("test", &folder.0.join("a.txt"))?;
        assert_eq!(lines(&a).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(text("test", &folder.0.join("b.txt"))?, "");
        Ok(())
    }

    #[test]
    fn lines_end_in_either_way() {
        let all = |text| lines(text).collect::<Vec<_>>();
        assert_eq!(all("a\r\nb\n\nc"), ["a", "b", "", "c"]);
        assert_eq!(all("a\n"), ["a"]);
        assert!(all("").is_empty());
        assert!(all("\n").is_empty());
    }
}
