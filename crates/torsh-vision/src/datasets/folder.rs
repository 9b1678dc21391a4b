//! Files in one folder per class.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use torsh_data::{Dataset, IMG_EXTENSIONS, find_classes, make_dataset};
use torsh_tensor::{Result, Tensor, TorshError};

use super::common::{at, read_rgb};
use crate::transforms::Transform;

type Loader<T> = Arc<dyn Fn(&Path) -> Result<T> + Send + Sync>;
type Valid = Arc<dyn Fn(&Path) -> bool + Send + Sync>;
type Target = Arc<dyn Fn(i64) -> Result<i64> + Send + Sync>;

/// Files of any kind in a folder for each class (`torchvision.datasets.DatasetFolder`): `root/cat/1.npy` is of class `cat`.
/// The classes are numbered in the order of their names.
///
/// Items are what the loader makes of a file, and its class.
///
/// ```
/// use torsh_data::Dataset;
/// use torsh_vision::datasets::DatasetFolder;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let root = std::env::temp_dir().join(format!("torsh-folder-{}", std::process::id()));
/// for class in ["cat", "dog"] {
///     std::fs::create_dir_all(root.join(class))?;
///     std::fs::write(root.join(class).join("1.txt"), class)?;
/// }
/// let words = DatasetFolder::builder(&root, |path| Ok(std::fs::read_to_string(path)?))
///     .extensions(["txt"])
///     .build()?;
/// assert_eq!(words.classes(), ["cat", "dog"]);
/// assert_eq!(words.get(1)?, ("dog".to_string(), 1));
/// # std::fs::remove_dir_all(&root)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct DatasetFolder<T = Tensor> {
    classes: Vec<String>,
    samples: Vec<(PathBuf, usize)>,
    loader: Loader<T>,
    transform: Option<Arc<dyn Transform<T>>>,
    target_transform: Option<Target>,
}

/// Builds a [`DatasetFolder`].
#[must_use = "a builder does nothing until build()"]
#[derive(Clone)]
pub struct DatasetFolderBuilder<T> {
    root: PathBuf,
    loader: Loader<T>,
    extensions: Option<Vec<String>>,
    is_valid_file: Option<Valid>,
    allow_empty: bool,
    transform: Option<Arc<dyn Transform<T>>>,
    target_transform: Option<Target>,
}

impl DatasetFolder<Tensor> {
    /// A builder for images, in colour, as uint8 `[3, height, width]` (`torchvision.datasets.ImageFolder`).
    /// [`ImageFolder`](torsh_data::ImageFolder) is the same without changes of the items.
    ///
    /// ```
    /// use torsh_data::{Dataset, write_png};
    /// use torsh_tensor::{DType, tensor};
    /// use torsh_vision::datasets::DatasetFolder;
    /// use torsh_vision::transforms::ToDtype;
    ///
    /// # let root = std::env::temp_dir().join(format!("torsh-images-{}", std::process::id()));
    /// # std::fs::create_dir_all(root.join("cat"))?;
    /// write_png(&tensor![[[255]], [[0]], [[255]]].to_dtype(DType::U8)?, root.join("cat/1.png"))?;
    /// let scaled = ToDtype::new(DType::F32).scale(true);
    /// let cats = DatasetFolder::images(&root).transform(scaled).target_transform(|class| Ok(class + 10)).build()?;
    /// let (image, class) = cats.get(0)?;
    /// assert!(image.allclose(&tensor![[[1.0]], [[0.0]], [[1.0]]])?);
    /// assert_eq!(class, 10);
    /// # std::fs::remove_dir_all(&root)?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn images(root: impl AsRef<Path>) -> DatasetFolderBuilder<Tensor> {
        DatasetFolder::builder(root, read_rgb).extensions(IMG_EXTENSIONS)
    }
}

impl<T> DatasetFolder<T> {
    /// A builder for files that a function reads. It takes [`extensions`](DatasetFolderBuilder::extensions) or
    /// [`is_valid_file`](DatasetFolderBuilder::is_valid_file).
    pub fn builder(
        root: impl AsRef<Path>,
        loader: impl Fn(&Path) -> Result<T> + Send + Sync + 'static,
    ) -> DatasetFolderBuilder<T> {
        DatasetFolderBuilder {
            root: root.as_ref().to_path_buf(),
            loader: Arc::new(loader),
            extensions: None,
            is_valid_file: None,
            allow_empty: false,
            transform: None,
            target_transform: None,
        }
    }

    /// The names of the classes, by number.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// The files and their classes.
    pub fn samples(&self) -> &[(PathBuf, usize)] {
        &self.samples
    }
}

impl<T> DatasetFolderBuilder<T> {
    /// The endings of the files that are read, in any case.
    pub fn extensions(mut self, all: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let lower = |ending: String| ending.trim_start_matches('.').to_lowercase();
        self.extensions = Some(all.into_iter().map(|e| lower(e.into())).collect());
        self
    }

    /// Which files are read, instead of the extensions.
    pub fn is_valid_file(mut self, f: impl Fn(&Path) -> bool + Send + Sync + 'static) -> Self {
        self.is_valid_file = Some(Arc::new(f));
        self
    }

    /// Whether a class may be without files. The default is `false`.
    pub fn allow_empty(mut self, allow: bool) -> Self {
        self.allow_empty = allow;
        self
    }

    /// Changes every sample.
    pub fn transform(mut self, transform: impl Transform<T> + 'static) -> Self {
        self.transform = Some(Arc::new(transform));
        self
    }

    /// Changes every class.
    pub fn target_transform(
        mut self,
        f: impl Fn(i64) -> Result<i64> + Send + Sync + 'static,
    ) -> Self {
        self.target_transform = Some(Arc::new(f));
        self
    }

    /// Finds the files.
    ///
    /// ```
    /// use torsh_vision::datasets::DatasetFolder;
    ///
    /// # let root = std::env::temp_dir().join(format!("torsh-no-endings-{}", std::process::id()));
    /// std::fs::create_dir_all(root.join("cat"))?;
    /// let words = DatasetFolder::builder(&root, |path| Ok(std::fs::read_to_string(path)?));
    /// let error = words.clone().build().unwrap_err().to_string();
    /// assert!(error.contains("which files are read is not told"));
    /// assert!(words.extensions(["txt"]).allow_empty(true).build()?.samples().is_empty());
    /// # std::fs::remove_dir_all(&root)?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Neither extensions nor `is_valid_file`; a folder that cannot be read or has no folders; a class without files,
    /// unless it may be empty.
    #[torsh_tensor::names_caller]
    pub fn build(self) -> Result<DatasetFolder<T>> {
        const OP: &str = "DatasetFolder";
        let classes = find_classes(&self.root).map_err(|e| e.renamed(OP))?;
        let extensions = self.extensions;
        let valid: Valid = match (self.is_valid_file, extensions) {
            (Some(valid), _) => valid,
            (None, Some(extensions)) => Arc::new(move |path: &Path| {
                let ending = path.extension().map(|e| e.to_string_lossy().to_lowercase());
                ending.is_some_and(|ending| extensions.contains(&ending))
            }),
            (None, None) => {
                return Err(TorshError::invalid(OP, "which files are read is not told")
                    .with_hint("set extensions(..) or is_valid_file(..)"));
            }
        };
        let samples = make_dataset(&self.root, &classes, &*valid, self.allow_empty)
            .map_err(|e| e.renamed(OP))?;
        Ok(DatasetFolder {
            classes,
            samples,
            loader: self.loader,
            transform: self.transform,
            target_transform: self.target_transform,
        })
    }
}

impl<T> fmt::Debug for DatasetFolder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatasetFolder")
            .field("classes", &self.classes)
            .field("samples", &self.samples.len())
            .finish_non_exhaustive()
    }
}

impl<T> Dataset for DatasetFolder<T> {
    type Item = (T, i64);

    fn len(&self) -> usize {
        self.samples.len()
    }

    #[torsh_tensor::names_caller]
    fn get(&self, index: usize) -> Result<(T, i64)> {
        let (path, class) = at("DatasetFolder", &self.samples, index)?;
        let sample = (self.loader)(path)?;
        let sample = match &self.transform {
            Some(transform) => transform.apply(&sample)?,
            None => sample,
        };
        let class = *class as i64;
        match &self.target_transform {
            Some(f) => Ok((sample, f(class)?)),
            None => Ok((sample, class)),
        }
    }
}
