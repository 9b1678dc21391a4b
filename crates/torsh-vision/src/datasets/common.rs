//! What the data sets have in common: changes of items, builders, errors.

use std::fmt;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use torsh_data::codec::png_indices;
use torsh_serialize::files::is_windows_name;
use torsh_tensor::{DType, Device, Result, Tensor, TorshError};

use crate::io::{ImageReadMode, ReadOptions, read_image_with};
use crate::transforms::Transform;

type Both<T> = dyn Fn(Tensor, T) -> Result<(Tensor, T)> + Send + Sync;
type Target<T> = dyn Fn(T) -> Result<T> + Send + Sync;

/// What is done to the items of a data set.
pub(super) struct Changes<T> {
    transform: Option<Arc<dyn Transform>>,
    target_transform: Option<Arc<Target<T>>>,
    transforms: Option<Arc<Both<T>>>,
}

impl<T> Changes<T> {
    pub(super) fn set_transform(&mut self, transform: impl Transform + 'static) {
        self.transform = Some(Arc::new(transform));
    }

    pub(super) fn set_target_transform(
        &mut self,
        f: impl Fn(T) -> Result<T> + Send + Sync + 'static,
    ) {
        self.target_transform = Some(Arc::new(f));
    }

    pub(super) fn set_transforms(
        &mut self,
        f: impl Fn(Tensor, T) -> Result<(Tensor, T)> + Send + Sync + 'static,
    ) {
        self.transforms = Some(Arc::new(f));
    }

    /// The changed item.
    #[track_caller]
    pub(super) fn apply(&self, image: Tensor, target: T) -> Result<(Tensor, T)> {
        let image = match &self.transform {
            Some(transform) => transform.apply(&image)?,
            None => image,
        };
        let target = match &self.target_transform {
            Some(f) => f(target)?,
            None => target,
        };
        match &self.transforms {
            Some(f) => f(image, target),
            None => Ok((image, target)),
        }
    }
}

impl<T> Clone for Changes<T> {
    fn clone(&self) -> Self {
        Changes {
            transform: self.transform.clone(),
            target_transform: self.target_transform.clone(),
            transforms: self.transforms.clone(),
        }
    }
}

impl<T> Default for Changes<T> {
    fn default() -> Self {
        Changes {
            transform: None,
            target_transform: None,
            transforms: None,
        }
    }
}

impl<T> fmt::Debug for Changes<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes")
            .field("transform", &self.transform.is_some())
            .field("target_transform", &self.target_transform.is_some())
            .field("transforms", &self.transforms.is_some())
            .finish()
    }
}

/// `BUILDER of DATASET(PATHS), TARGET; /// docs  NAME: TYPE = DEFAULT;` makes the builder of a data set, whose arguments are
/// torchvision's; one behind `@hidden` has no setter. The data set has `fn open(BUILDER) -> Result<DATASET>`.
macro_rules! dataset_builder {
    (
        $builder:ident of $dataset:ident($($path:ident),+), $target:ty;
        $($(#[$doc:meta])* $option:ident: $ty:ty = $default:expr;)*
        $(@hidden $hidden:ident: $hidden_ty:ty = $hidden_default:expr;)*
    ) => {
        #[doc = concat!("Builds a [`", stringify!($dataset), "`].")]
        #[must_use = "a builder does nothing until build()"]
        #[derive(Clone, Debug)]
        pub struct $builder {
            $($path: std::path::PathBuf,)+
            $($option: $ty,)*
            $($hidden: $hidden_ty,)*
            download: bool,
            changes: $crate::datasets::common::Changes<$target>,
        }

        impl $builder {
            $(
                $(#[$doc])*
                pub fn $option(mut self, $option: impl Into<$ty>) -> Self {
                    self.$option = $option.into();
                    self
                }
            )*

            /// Changes every image, a tensor of uint8 `[channels, height, width]`.
            pub fn transform(
                mut self,
                transform: impl $crate::transforms::Transform + 'static,
            ) -> Self {
                self.changes.set_transform(transform);
                self
            }

            /// Changes every target.
            pub fn target_transform(
                mut self,
                f: impl Fn($target) -> torsh_tensor::Result<$target> + Send + Sync + 'static,
            ) -> Self {
                self.changes.set_target_transform(f);
                self
            }

            /// Changes image and target together, after the others.
            pub fn transforms(
                mut self,
                f: impl Fn(torsh_tensor::Tensor, $target) -> torsh_tensor::Result<(torsh_tensor::Tensor, $target)>
                    + Send
                    + Sync
                    + 'static,
            ) -> Self {
                self.changes.set_transforms(f);
                self
            }

            /// Whether files that are not there are downloaded, and archives that are there unpacked. The default is `false`.
            pub fn download(mut self, download: bool) -> Self {
                self.download = download;
                self
            }

            /// Opens the data set.
            #[doc = concat!(
                "\n```\n",
                "use torsh_vision::datasets::", stringify!($dataset), ";\n",
                "let builder = ", stringify!($dataset), "::builder(", $("\"no-such-", stringify!($path), "\", ",)+ ");\n",
                "let error = builder.build().unwrap_err().to_string();\n",
                "assert!(error.contains(\"no-such-\"));\n",
                "```",
            )]
            ///
            /// # Errors
            /// Files that are missing or damaged. The error names the file, and where in it.
            #[torsh_tensor::names_caller]
            pub fn build(self) -> torsh_tensor::Result<$dataset> {
                $dataset::open(self)
            }
        }

        impl $dataset {
            /// A builder with the defaults.
            pub fn builder($($path: impl AsRef<std::path::Path>),+) -> $builder {
                $builder {
                    $($path: $path.as_ref().to_path_buf(),)+
                    $($option: $default,)*
                    $($hidden: $hidden_default,)*
                    download: false,
                    changes: Default::default(),
                }
            }
        }
    };
}

/// `/// docs  NAME { /// docs  VALUE "text", .. }`: the parts of a data set, of which the first is the default.
macro_rules! parts {
    ($(#[$meta:meta])* $name:ident {
        $(#[$first_doc:meta])* $first:ident $first_text:literal,
        $($(#[$doc:meta])* $variant:ident $text:literal,)*
    }) => {
        $(#[$meta])*
        #[doc = concat!(
            "\n```\n",
            "use torsh_vision::datasets::", stringify!($name), ";\n",
            "assert_eq!(", stringify!($name), "::default(), ", stringify!($name), "::", stringify!($first), ");\n",
            "assert_eq!(\"", $first_text, "\".parse::<", stringify!($name), ">()?, ", stringify!($name), "::", stringify!($first), ");\n",
            "let error = \"all\".parse::<", stringify!($name), ">().unwrap_err().to_string();\n",
            "assert!(error.contains(\"\\\"all\\\" is none of ", $first_text, "\"));\n",
            "# Ok::<(), torsh_tensor::TorshError>(())\n",
            "```",
        )]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum $name {
            $(#[$first_doc])*
            #[default]
            $first,
            $($(#[$doc])* $variant,)*
        }

        impl $name {
            /// torchvision's name, which `to_string` gives as well.
            #[doc = concat!(
                "\n```\n",
                "use torsh_vision::datasets::", stringify!($name), ";\n",
                "assert_eq!(", stringify!($name), "::", stringify!($first), ".name(), \"", $first_text, "\");\n",
                $("assert_eq!(", stringify!($name), "::", stringify!($variant), ".name(), \"", $text, "\");\n",)*
                "```",
            )]
            pub fn name(self) -> &'static str {
                match self {
                    $name::$first => $first_text,
                    $($name::$variant => $text,)*
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl std::str::FromStr for $name {
            type Err = torsh_tensor::TorshError;

            /// Of torchvision's name.
            fn from_str(text: &str) -> torsh_tensor::Result<$name> {
                match text {
                    $first_text => Ok($name::$first),
                    $($text => Ok($name::$variant),)*
                    other => Err(torsh_tensor::TorshError::invalid(
                        stringify!($name),
                        format!(
                            "{other:?} is none of {}",
                            [$first_text, $($text),*].join(", ")
                        ),
                    )),
                }
            }
        }
    };
}

/// `dataset!(TYPE, TARGET, self, index, len, item)`: a data set of images, by its length and the item at an index.
macro_rules! dataset {
    ($dataset:ident, $target:ty, $self:ident, $index:ident, $len:expr, $item:expr) => {
        impl torsh_data::Dataset for $dataset {
            type Item = (torsh_tensor::Tensor, $target);

            fn len(&$self) -> usize {
                $len
            }

            #[torsh_tensor::names_caller]
            fn get(&$self, $index: usize) -> torsh_tensor::Result<(torsh_tensor::Tensor, $target)> {
                $item
            }
        }
    };
}

pub(super) use {dataset, dataset_builder, parts};

/// An error that names a file.
#[track_caller]
pub(super) fn broken(op: &'static str, path: &Path, why: impl fmt::Display) -> TorshError {
    TorshError::format(op, format!("{}: {why}", path.display()))
}

/// An error about what a file holds, which names the file.
#[track_caller]
pub(super) fn within(op: &'static str, path: &Path, e: TorshError) -> TorshError {
    match e.info() {
        Some(info) => broken(op, path, &info.message),
        None => e,
    }
}

/// An error of the system that names a file.
pub(super) fn io_error(path: &Path, e: io::Error) -> TorshError {
    io::Error::new(e.kind(), format!("{}: {e}", path.display())).into()
}

/// An error of a data set that is not there.
pub(super) fn missing(op: &str, path: &Path, what: &str) -> TorshError {
    let why = format!("{op}: {} is not there: {what}", path.display());
    io::Error::new(io::ErrorKind::NotFound, why).into()
}

/// The error of an index.
#[track_caller]
pub(super) fn out_of_range(op: &'static str, index: usize, len: usize) -> TorshError {
    TorshError::index(
        op,
        format!("index {index} is out of range for a dataset of {len} items"),
    )
}

/// The item at an index.
#[track_caller]
pub(super) fn at<'a, T>(op: &'static str, items: &'a [T], index: usize) -> Result<&'a T> {
    items
        .get(index)
        .ok_or_else(|| out_of_range(op, index, items.len()))
}

/// A file's bytes.
#[track_caller]
pub(super) fn read(path: &Path) -> Result<Vec<u8>> {
    let bytes = std::fs::read(path).map_err(|e| io_error(path, e))?;
    torsh_core::check_git_lfs("read", path.display(), &bytes)?;
    Ok(bytes)
}

/// An error where an open file is a pointer of git-lfs.
#[track_caller]
pub(super) fn check_git_lfs(
    op: &'static str,
    path: &Path,
    file: &mut (impl io::Read + io::Seek),
) -> Result<()> {
    torsh_core::check_git_lfs_file(op, path.display(), file)
}

/// A file of text.
#[track_caller]
pub(super) fn read_text(op: &'static str, path: &Path) -> Result<String> {
    let mut bytes = read(path)?;
    let mark = bytes.len() - torsh_core::without_bom(&bytes).len();
    bytes.drain(..mark);
    String::from_utf8(bytes).map_err(|e| {
        let line = line_of(&e.as_bytes()[..e.utf8_error().valid_up_to()]);
        broken(op, path, format!("line {line}: this is not UTF-8"))
    })
}

/// The line that text ends in.
fn line_of(text: &[u8]) -> usize {
    1 + text.iter().filter(|b| **b == b'\n').count()
}

/// A file of a tensor of uint8 whose first dimension is as long as the file makes it.
#[track_caller]
pub(super) fn read_records(op: &'static str, path: &Path, record: &[usize]) -> Result<Tensor> {
    let bytes = read(path)?;
    let size: usize = record.iter().product();
    if bytes.is_empty() || !bytes.len().is_multiple_of(size) {
        return Err(broken(
            op,
            path,
            format!("{} bytes are not whole records of {size}", bytes.len()),
        ));
    }
    let mut dims = vec![bytes.len() / size];
    dims.extend_from_slice(record);
    Tensor::from_bytes(&bytes, DType::U8, dims)
}

/// An image file in colour.
#[track_caller]
pub(super) fn read_rgb(path: &Path) -> Result<Tensor> {
    let options = ReadOptions::new().mode(ImageReadMode::Rgb).eight_bits(true);
    read_image_with(path, options)
}

/// A path within a folder that a file names: neither absolute nor with `..`.
#[track_caller]
pub(super) fn inside(op: &'static str, folder: &Path, name: &str) -> Result<PathBuf> {
    let plain = |c: Component<'_>| match c {
        Component::Normal(part) => cfg!(not(windows)) || part.to_str().is_some_and(is_windows_name),
        c => c == Component::CurDir,
    };
    let path = Path::new(name);
    if name.is_empty() || name.contains('\0') || !path.components().all(plain) {
        let why = format!("{name:?} is no name of a file in {}", folder.display());
        return Err(TorshError::format(op, why));
    }
    Ok(folder.join(path))
}

/// An image of class numbers, `[1, height, width]`: a PNG file in grey, or the numbers into its palette.
#[track_caller]
pub(super) fn read_indices(op: &'static str, path: &Path) -> Result<Tensor> {
    let bytes = std::fs::read(path).map_err(|e| io_error(path, e))?;
    torsh_core::check_git_lfs(op, path.display(), &bytes)?;
    let (pixels, width, height) = png_indices(&bytes).map_err(|e| broken(op, path, e))?;
    Tensor::from_slice(&pixels, [1, height, width], DType::U8, Device::Cpu)
}

/// Reads at most so many bytes; an error of the kind [`io::ErrorKind::InvalidData`] where there are more.
pub(super) fn read_bounded(from: &mut impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    from.take(most.saturating_add(1)).read_to_end(&mut out)?;
    match out.len() as u64 > most {
        true => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("there are more than {most} bytes"),
        )),
        false => Ok(out),
    }
}
