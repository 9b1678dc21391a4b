//! Common Objects in Context.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use torsh_data::Dataset;
use torsh_tensor::{DType, Device, Result, Tensor, TorshError};

use super::common::{Changes, at, broken, builder, inside, io_error, read_rgb};
use crate::models::detection::Target;

/// The pixels of an object.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum CocoSegmentation {
    /// Outlines: x and y of their corners in turn.
    Polygons(Vec<Vec<f64>>),
    /// Lengths of runs of pixels without and with the object in turn, column by column.
    Rle {
        /// The lengths.
        counts: Vec<u64>,
        /// Height and width.
        size: [usize; 2],
    },
    /// The same, compressed to a text.
    Compressed {
        /// The text.
        counts: String,
        /// Height and width.
        size: [usize; 2],
    },
}

/// An object of an image, or a sentence about it, as the file of annotations has it. What the file does not have is empty.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct CocoAnnotation {
    /// The number of the annotation.
    pub id: i64,
    /// The number of the image.
    pub image_id: i64,
    /// The number of the class.
    pub category_id: i64,
    /// The box: x and y of its left upper corner, width, height.
    pub bbox: [f64; 4],
    /// The area of the object in pixels.
    pub area: f64,
    /// Whether it is a crowd: 0 or 1.
    pub iscrowd: u8,
    /// The pixels of the object.
    pub segmentation: Option<CocoSegmentation>,
    /// x, y and visibility (0 to 2) of each key point.
    pub keypoints: Vec<f64>,
    /// How many of the key points are given.
    pub num_keypoints: usize,
    /// The sentence.
    pub caption: String,
}

impl CocoAnnotation {
    /// Boxes and classes of an image's objects, for training a detector: boxes of corners, without crowds and boxes without
    /// an area, as torchvision's training does it.
    ///
    /// ```
    /// use torsh_vision::datasets::CocoAnnotation;
    /// let mut dog = CocoAnnotation::default();
    /// (dog.category_id, dog.bbox) = (18, [10.0, 20.0, 5.0, 6.0]);
    /// let target = CocoAnnotation::target(&[dog])?;
    /// assert_eq!(target.boxes.to_vec::<f32>()?, [10.0, 20.0, 15.0, 26.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn target(annotations: &[CocoAnnotation]) -> Result<Target> {
        let used: Vec<&CocoAnnotation> = annotations
            .iter()
            .filter(|a| a.iscrowd == 0 && a.bbox[2] > 0.0 && a.bbox[3] > 0.0)
            .collect();
        let corners = |a: &&CocoAnnotation| {
            let [x, y, w, h] = a.bbox;
            [x, y, x + w, y + h].map(|v| v as f32)
        };
        let boxes: Vec<f32> = used.iter().flat_map(corners).collect();
        let labels: Vec<i64> = used.iter().map(|a| a.category_id).collect();
        let n = used.len();
        Ok(Target::new(
            Tensor::from_slice(&boxes, [n, 4], DType::F32, Device::Cpu)?,
            Tensor::from_slice(&labels, [n], DType::I64, Device::Cpu)?,
        ))
    }
}

/// A class of the file of annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct CocoCategory {
    /// Its number.
    pub id: i64,
    /// Its name, as `dog`.
    pub name: String,
    /// What it belongs to, as `animal`.
    pub supercategory: String,
}

#[derive(Deserialize)]
struct ImageEntry {
    id: i64,
    file_name: String,
}

/// The file of annotations, as far as it is used.
#[derive(Deserialize)]
struct Annotations {
    images: Vec<ImageEntry>,
    #[serde(default)]
    annotations: Vec<CocoAnnotation>,
    #[serde(default)]
    categories: Vec<CocoCategory>,
}

/// The images in the order of their numbers, with their annotations.
#[derive(Clone, Debug)]
struct Images {
    items: Vec<(PathBuf, Vec<CocoAnnotation>)>,
    ids: Vec<i64>,
    categories: Vec<CocoCategory>,
}

impl Images {
    #[track_caller]
    fn read(op: &'static str, root: &Path, path: &Path) -> Result<Images> {
        let file = File::open(path).map_err(|e| io_error(path, e))?;
        let read = serde_json::from_reader(BufReader::with_capacity(1 << 17, file));
        let read: Annotations = read.map_err(|e| broken(op, path, e))?;
        let mut images: BTreeMap<i64, (PathBuf, Vec<CocoAnnotation>)> = BTreeMap::new();
        for image in read.images {
            let file = inside(op, root, &image.file_name).map_err(|e| {
                let why = e
                    .info()
                    .map_or_else(|| e.to_string(), |info| info.message.clone());
                broken(op, path, format!("image {}: {why}", image.id))
            })?;
            images.insert(image.id, (file, Vec::new()));
        }
        for annotation in read.annotations {
            match images.get_mut(&annotation.image_id) {
                Some((_, own)) => own.push(annotation),
                None => {
                    let (id, image) = (annotation.id, annotation.image_id);
                    let why = format!("annotation {id}: there is no image {image}");
                    return Err(broken(op, path, why));
                }
            }
        }
        let (ids, items) = images.into_iter().unzip();
        Ok(Images {
            items,
            ids,
            categories: read.categories,
        })
    }
}

macro_rules! coco {
    ($(
        $(#[$doc:meta])*
        $dataset:ident, $builder:ident, $target:ty, $make:expr;
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $dataset {
            images: Images,
            changes: Changes<$target>,
        }

        builder! {
            $builder of $dataset(root, ann_file), $target;
        }

        impl $dataset {
            /// The numbers of the images.
            pub fn ids(&self) -> &[i64] {
                &self.images.ids
            }

            /// The classes, in the order of the file.
            pub fn categories(&self) -> &[CocoCategory] {
                &self.images.categories
            }

            /// The annotations of an image.
            ///
            /// # Errors
            /// An index out of range.
            #[track_caller]
            pub fn annotations(&self, index: usize) -> Result<&[CocoAnnotation]> {
                let (_, annotations) = at(stringify!($dataset), &self.images.items, index)?;
                Ok(annotations)
            }

            #[track_caller]
            fn open(of: $builder) -> Result<$dataset> {
                const OP: &str = stringify!($dataset);
                if of.download {
                    return Err(TorshError::invalid(OP, "COCO is not downloaded by this reader")
                        .with_hint("https://cocodataset.org/#download has images and annotations"));
                }
                Ok($dataset {
                    images: Images::read(OP, &of.root, &of.ann_file)?,
                    changes: of.changes,
                })
            }
        }

        impl Dataset for $dataset {
            type Item = (Tensor, $target);

            fn len(&self) -> usize {
                self.images.ids.len()
            }

            fn get(&self, index: usize) -> Result<(Tensor, $target)> {
                let (path, annotations) = at(stringify!($dataset), &self.images.items, index)?;
                let make: fn(&[CocoAnnotation]) -> $target = $make;
                self.changes.apply(read_rgb(path)?, make(annotations))
            }
        }
    )*};
}

coco! {
    /// Images of COCO with their objects (`torchvision.datasets.CocoDetection`), of a folder and a file of annotations.
    ///
    /// Items are the image, uint8 `[3, height, width]`, and its objects; [`CocoAnnotation::target`] makes of them what a
    /// detector trains with. Images are in the order of their numbers.
    CocoDetection, CocoDetectionBuilder, Vec<CocoAnnotation>, <[CocoAnnotation]>::to_vec;
    /// Images of COCO with sentences about them (`torchvision.datasets.CocoCaptions`), of a folder and a file of annotations.
    ///
    /// Items are the image, uint8 `[3, height, width]`, and the sentences. Images are in the order of their numbers.
    CocoCaptions, CocoCaptionsBuilder, Vec<String>, |all| all.iter().map(|one| one.caption.clone()).collect();
}
