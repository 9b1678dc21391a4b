//! Images in one folder per class.

use std::fs::read_dir;
use std::path::{Path, PathBuf};

use torsh_tensor::{Result, Tensor, TorshError};

use crate::Dataset;
use crate::dataset::out_of_range;
use crate::image::read_image;

/// The endings of files that are images, as of torchvision but for the formats that are not read.
pub const IMG_EXTENSIONS: [&str; 3] = ["jpg", "jpeg", "png"];

/// Images in a folder for each class (`torchvision.datasets.ImageFolder`): `root/cat/1.png` is of
/// class `cat`. The classes are numbered in the order of their names.
///
/// An item is the image as [`read_image`] gives it, uint8 `[3, height, width]`, and its class;
/// [`MapDataset`](crate::MapDataset) puts [`transforms`](crate::transforms) behind it.
///
/// ```
/// use torsh_data::{Dataset, ImageFolder, write_png};
/// use torsh_tensor::{DType, tensor};
///
/// # let root = std::env::temp_dir().join(format!("torsh-data-images-{}", std::process::id()));
/// # std::fs::create_dir_all(root.join("cat"))?;
/// # std::fs::create_dir_all(root.join("dog"))?;
/// let pixel = tensor![[[10]], [[20]], [[30]]].to_dtype(DType::U8)?;
/// write_png(&pixel, root.join("cat/1.png"))?;
/// write_png(&pixel, root.join("dog/1.png"))?;
/// let images = ImageFolder::new(&root)?;
/// assert_eq!(images.classes(), ["cat", "dog"]);
/// assert_eq!(images.get(1)?, (pixel, 1));
/// # std::fs::remove_dir_all(&root)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ImageFolder {
    classes: Vec<String>,
    samples: Vec<(PathBuf, usize)>,
}

fn entries(dir: &Path) -> Result<Vec<PathBuf>> {
    let io = |e: std::io::Error| {
        TorshError::from(std::io::Error::new(
            e.kind(),
            format!("{}: {e}", dir.display()),
        ))
    };
    let mut paths = read_dir(dir)
        .map_err(io)?
        .map(|e| e.map(|e| e.path()))
        .collect::<std::io::Result<Vec<_>>>()
        .map_err(io)?;
    paths.sort();
    Ok(paths)
}

fn is_image(path: &Path) -> bool {
    let ending = path.extension().and_then(|e| e.to_str()).unwrap_or("");
    IMG_EXTENSIONS
        .iter()
        .any(|e| e.eq_ignore_ascii_case(ending))
}

/// The valid files in a folder: its own, then those of its folders in their order, as `os.walk` goes.
fn walk(
    dir: &Path,
    class: usize,
    valid: &dyn Fn(&Path) -> bool,
    into: &mut Vec<(PathBuf, usize)>,
) -> Result<()> {
    let (dirs, files): (Vec<_>, Vec<_>) = entries(dir)?.into_iter().partition(|p| p.is_dir());
    into.extend(files.into_iter().filter(|p| valid(p)).map(|p| (p, class)));
    // A link to a folder could lead back up.
    for dir in dirs.iter().filter(|d| !d.is_symlink()) {
        walk(dir, class, valid, into)?;
    }
    Ok(())
}

/// The classes of a folder with a folder for each: their names, sorted
/// (`torchvision.datasets.folder.find_classes`).
///
/// ```
/// use torsh_data::find_classes;
///
/// # let root = std::env::temp_dir().join(format!("torsh-data-classes-{}", std::process::id()));
/// # std::fs::create_dir_all(root.join("cat"))?;
/// # std::fs::create_dir_all(root.join("dog"))?;
/// // `root` has the folders dog and cat, and cat has none.
/// assert_eq!(find_classes(&root)?, ["cat", "dog"]);
/// let error = find_classes(root.join("cat")).unwrap_err().to_string();
/// assert!(error.contains("Couldn't find any class folder"));
/// # std::fs::remove_dir_all(&root)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// The folder cannot be read, or has no folders.
#[torsh_tensor::names_caller]
pub fn find_classes(root: impl AsRef<Path>) -> Result<Vec<String>> {
    let root = root.as_ref();
    let mut classes: Vec<String> = entries(root)?
        .into_iter()
        .filter(|p| p.is_dir())
        .filter_map(|p| Some(p.file_name()?.to_string_lossy().into_owned()))
        .collect();
    classes.sort();
    if classes.is_empty() {
        return Err(TorshError::invalid(
            "find_classes",
            format!("{}: Couldn't find any class folder", root.display()),
        ));
    }
    Ok(classes)
}

/// The files of each class with its number (`torchvision.datasets.folder.make_dataset`): those for which `valid` says
/// so, in the folder of the class and in its folders.
///
/// ```
/// use torsh_data::{find_classes, make_dataset};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let root = std::env::temp_dir().join(format!("torsh-make-{}", std::process::id()));
/// std::fs::create_dir_all(root.join("cat"))?;
/// std::fs::write(root.join("cat/1.txt"), "")?;
/// let classes = find_classes(&root)?;
/// let files = make_dataset(&root, &classes, &|path| path.extension().is_some_and(|e| e == "txt"), false)?;
/// assert_eq!(files, [(root.join("cat/1.txt"), 0)]);
/// # std::fs::remove_dir_all(&root)?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// A folder that cannot be read, and a class without files, unless `allow_empty`.
#[torsh_tensor::names_caller]
pub fn make_dataset(
    root: impl AsRef<Path>,
    classes: &[String],
    valid: &dyn Fn(&Path) -> bool,
    allow_empty: bool,
) -> Result<Vec<(PathBuf, usize)>> {
    let root = root.as_ref();
    let (mut samples, mut empty) = (Vec::new(), Vec::new());
    for (class, name) in classes.iter().enumerate() {
        let before = samples.len();
        walk(&root.join(name), class, valid, &mut samples)?;
        if samples.len() == before {
            empty.push(name);
        }
    }
    if !empty.is_empty() && !allow_empty {
        return Err(TorshError::invalid(
            "make_dataset",
            format!(
                "{}: Found no valid file for the classes {empty:?}",
                root.display()
            ),
        ));
    }
    Ok(samples)
}

impl ImageFolder {
    /// Finds the images below `root`, and reads none of them.
    ///
    /// ```
    /// use torsh_data::ImageFolder;
    ///
    /// # let root = std::env::temp_dir().join(format!("torsh-data-no-images-{}", std::process::id()));
    /// std::fs::create_dir_all(root.join("cat"))?;
    /// let error = ImageFolder::new(&root).unwrap_err().to_string();
    /// assert!(error.contains("Found no valid file for the classes [\"cat\"]"));
    /// # std::fs::remove_dir_all(&root)?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// The folder cannot be read, has no folders, or one of them has no image.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(root: impl AsRef<Path>) -> Result<ImageFolder> {
        const OP: &str = "ImageFolder";
        let root = root.as_ref();
        let classes = find_classes(root).map_err(|e| e.renamed(OP))?;
        let samples = make_dataset(root, &classes, &is_image, false).map_err(|e| {
            e.renamed(OP)
                .with_hint(format!("Supported extensions are: {IMG_EXTENSIONS:?}"))
        })?;
        Ok(ImageFolder { classes, samples })
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

impl Dataset for ImageFolder {
    type Item = (Tensor, i64);
    fn len(&self) -> usize {
        self.samples.len()
    }
    #[torsh_tensor::names_caller]
    fn get(&self, index: usize) -> Result<(Tensor, i64)> {
        let (path, class) = self
            .samples
            .as_slice()
            .get(index)
            .ok_or_else(|| out_of_range(index, self.samples.len()))?;
        Ok((read_image(path)?, *class as i64))
    }
}
