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

/// The images in a folder: its own, then those of its folders in their order, as `os.walk` goes.
fn walk(dir: &Path, class: usize, into: &mut Vec<(PathBuf, usize)>) -> Result<()> {
    let (dirs, files): (Vec<_>, Vec<_>) = entries(dir)?.into_iter().partition(|p| p.is_dir());
    into.extend(
        files
            .into_iter()
            .filter(|p| is_image(p))
            .map(|p| (p, class)),
    );
    // A link to a folder could lead back up.
    for dir in dirs.iter().filter(|d| !d.is_symlink()) {
        walk(dir, class, into)?;
    }
    Ok(())
}

impl ImageFolder {
    /// Finds the images. Errors: the folder cannot be read, has no folders, or one of them has no
    /// image.
    #[track_caller]
    pub fn new(root: impl AsRef<Path>) -> Result<ImageFolder> {
        let root = root.as_ref();
        let refuse = |what: String| {
            Err(TorshError::invalid(
                "ImageFolder",
                format!("{}: {what}", root.display()),
            ))
        };
        let mut dirs: Vec<(String, PathBuf)> = entries(root)?
            .into_iter()
            .filter(|p| p.is_dir())
            .filter_map(|p| Some((p.file_name()?.to_string_lossy().into_owned(), p)))
            .collect();
        dirs.sort();
        if dirs.is_empty() {
            return refuse("Couldn't find any class folder".to_string());
        }
        let mut samples = Vec::new();
        let mut classes = Vec::new();
        let mut empty = Vec::new();
        for (class, (name, dir)) in dirs.into_iter().enumerate() {
            let before = samples.len();
            walk(&dir, class, &mut samples)?;
            if samples.len() == before {
                empty.push(name.clone());
            }
            classes.push(name);
        }
        if !empty.is_empty() {
            return refuse(format!(
                "Found no valid file for the classes {empty:?}. Supported extensions are: {IMG_EXTENSIONS:?}"
            ));
        }
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
    fn get(&self, index: usize) -> Result<(Tensor, i64)> {
        let (path, class) = self
            .samples
            .as_slice()
            .get(index)
            .ok_or_else(|| out_of_range(index, self.samples.len()))?;
        Ok((read_image(path)?, *class as i64))
    }
}
