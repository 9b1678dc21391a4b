//! Common Objects in Context.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer};
use torsh_data::Dataset;
use torsh_tensor::{DType, Device, Result, Tensor, TorshError};

use super::coco_fields::{Number, flag, integer, many, numbers, optional_box, real, size, text};
use super::common::{
    Changes, at, broken, check_git_lfs, dataset_builder, inside, io_error, read_rgb,
};
use crate::models::detection::Target;

/// The pixels of an object.
#[derive(Clone, Debug, PartialEq)]
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

/// What files have in the place of a segmentation.
#[derive(Deserialize)]
#[serde(untagged)]
enum Pixels {
    Polygons(Vec<Vec<f64>>),
    /// One outline, as pycocotools reads it too.
    Polygon(Vec<f64>),
    Rle {
        counts: Vec<Number>,
        size: [Number; 2],
    },
    Compressed {
        counts: String,
        size: [Number; 2],
    },
    Empty(BTreeMap<String, serde::de::IgnoredAny>),
}

fn segmentation<'de, D: Deserializer<'de>>(
    from: D,
) -> std::result::Result<Option<CocoSegmentation>, D::Error> {
    use serde::de::Error;
    let whole = |n: Number, what: &str| {
        let value = n.whole().and_then(|n| usize::try_from(n).ok());
        value.ok_or_else(|| D::Error::custom(format!("a {what} of the segmentation is no size")))
    };
    let sides = |size: [Number; 2]| {
        let [height, width] = size;
        Ok::<_, D::Error>([whole(height, "side")?, whole(width, "side")?])
    };
    let read = Option::<Pixels>::deserialize(from).map_err(|_| {
        D::Error::custom("the segmentation is neither a list of outlines nor counts and a size")
    })?;
    Ok(match read {
        None => None,
        Some(Pixels::Empty(fields)) if fields.is_empty() => None,
        Some(Pixels::Empty(_)) => {
            return Err(D::Error::custom(
                "the segmentation lacks its counts or its size",
            ));
        }
        Some(Pixels::Polygons(all)) => Some(CocoSegmentation::Polygons(all)),
        Some(Pixels::Polygon(one)) => Some(CocoSegmentation::Polygons(vec![one])),
        Some(Pixels::Compressed { counts, size }) => Some(CocoSegmentation::Compressed {
            counts,
            size: sides(size)?,
        }),
        Some(Pixels::Rle { counts, size }) => {
            let counts = counts.into_iter().map(|n| Ok(whole(n, "count")? as u64));
            Some(CocoSegmentation::Rle {
                counts: counts.collect::<std::result::Result<_, D::Error>>()?,
                size: sides(size)?,
            })
        }
    })
}

/// An object of an image, or a sentence about it, as the file of annotations has it. What the file does not have, or has as
/// null, is empty: a box without a size, an area of 0.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct CocoAnnotation {
    /// The number of the annotation.
    #[serde(deserialize_with = "integer")]
    pub id: i64,
    /// The number of the image.
    #[serde(deserialize_with = "integer")]
    pub image_id: i64,
    /// The number of the class.
    #[serde(deserialize_with = "integer")]
    pub category_id: i64,
    /// The box: x and y of its left upper corner, width, height.
    #[serde(deserialize_with = "optional_box")]
    pub bbox: [f64; 4],
    /// The area of the object in pixels.
    #[serde(deserialize_with = "real")]
    pub area: f64,
    /// Whether it is a crowd: 0 or 1. Files have `true` and `false` too.
    #[serde(deserialize_with = "flag")]
    pub iscrowd: u8,
    /// The pixels of the object.
    #[serde(deserialize_with = "segmentation")]
    pub segmentation: Option<CocoSegmentation>,
    /// x, y and visibility (0 to 2) of each key point.
    #[serde(deserialize_with = "numbers")]
    pub keypoints: Vec<f64>,
    /// How many of the key points are given.
    #[serde(deserialize_with = "size")]
    pub num_keypoints: usize,
    /// The sentence.
    #[serde(deserialize_with = "text")]
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
    #[torsh_tensor::names_caller(Self)]
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
    #[serde(deserialize_with = "integer")]
    pub id: i64,
    /// Its name, as `dog`.
    #[serde(deserialize_with = "text")]
    pub name: String,
    /// What it belongs to, as `animal`.
    #[serde(deserialize_with = "text")]
    pub supercategory: String,
}

#[derive(Deserialize)]
struct ImageEntry {
    #[serde(deserialize_with = "integer")]
    id: i64,
    file_name: String,
}

/// The file of annotations, as far as it is used.
#[derive(Deserialize)]
struct Annotations {
    #[serde(default, deserialize_with = "many")]
    images: Vec<ImageEntry>,
    #[serde(default, deserialize_with = "many")]
    annotations: Vec<CocoAnnotation>,
    #[serde(default, deserialize_with = "many")]
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
        let open = || {
            let file = File::open(path).map_err(|e| io_error(path, e))?;
            Ok::<_, TorshError>(BufReader::with_capacity(1 << 17, file))
        };
        // What Windows puts ahead of a text in UTF-8 is none of JSON's.
        let marked = |mut file: BufReader<File>| {
            let start = file.fill_buf().map_err(|e| io_error(path, e))?;
            let mark = start.len() - torsh_core::without_bom(start).len();
            file.consume(mark);
            Ok::<_, TorshError>(file)
        };
        let mut file = open()?;
        check_git_lfs(op, path, &mut file)?;
        let read: Annotations = match serde_json::from_reader(marked(file)?) {
            Ok(read) => read,
            Err(e) => {
                // Read once more for the place: following it costs time that a good file need not take.
                let mut from = serde_json::Deserializer::from_reader(marked(open()?)?);
                let placed = serde_path_to_error::deserialize::<_, Annotations>(&mut from);
                return Err(match placed {
                    Err(e) if e.path().iter().next().is_some() => {
                        broken(op, path, format!("{}: {}", e.path(), e.inner()))
                    }
                    _ => broken(op, path, e),
                });
            }
        };
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
            // Of an image that the file does not list nothing is ever asked for.
            if let Some((_, own)) = images.get_mut(&annotation.image_id) {
                own.push(annotation);
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

        dataset_builder! {
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
            #[torsh_tensor::names_caller]
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

            #[torsh_tensor::names_caller]
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
    ///
    /// ```
    /// use torsh_vision::datasets::CocoDetection;
    ///
    /// # let root = std::env::temp_dir().join(format!("torsh-coco-{}", std::process::id()));
    /// # std::fs::create_dir_all(&root)?;
    /// let file = root.join("instances.json");
    /// let text = r#"{"images": [{"id": 7, "file_name": "7.jpg"}],
    ///     "annotations": [{"id": 1, "image_id": 7, "category_id": 18, "bbox": [1, 2, 30, 40]}],
    ///     "categories": [{"id": 18, "name": "dog", "supercategory": "animal"}]}"#;
    /// std::fs::write(&file, text)?;
    /// let data = CocoDetection::builder(&root, &file).build()?;
    /// assert_eq!(data.ids(), [7]);
    /// assert_eq!(data.annotations(0)?[0].bbox, [1.0, 2.0, 30.0, 40.0]);
    /// assert_eq!((data.categories()[0].id, &*data.categories()[0].name), (18, "dog"));
    /// # std::fs::remove_dir_all(&root)?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    CocoDetection, CocoDetectionBuilder, Vec<CocoAnnotation>, <[CocoAnnotation]>::to_vec;
    /// Images of COCO with sentences about them (`torchvision.datasets.CocoCaptions`), of a folder and a file of annotations.
    ///
    /// Items are the image, uint8 `[3, height, width]`, and the sentences. Images are in the order of their numbers.
    ///
    /// ```
    /// use torsh_data::Dataset;
    /// # use torsh_tensor::{DType, zeros};
    /// use torsh_vision::datasets::CocoCaptions;
    ///
    /// # let root = std::env::temp_dir().join(format!("torsh-captions-{}", std::process::id()));
    /// # std::fs::create_dir_all(&root)?;
    /// # torsh_data::write_png(&zeros([3, 2, 2]).to_dtype(DType::U8)?, root.join("7.png"))?;
    /// let file = root.join("captions.json");
    /// let text = r#"{"images": [{"id": 7, "file_name": "7.png"}],
    ///     "annotations": [{"id": 1, "image_id": 7, "caption": "A night without stars."}]}"#;
    /// std::fs::write(&file, text)?;
    /// let (image, sentences) = CocoCaptions::builder(&root, &file).build()?.get(0)?;
    /// assert_eq!((image.dims(), sentences), (&[3, 2, 2][..], vec!["A night without stars.".to_string()]));
    /// # std::fs::remove_dir_all(&root)?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    CocoCaptions, CocoCaptionsBuilder, Vec<String>, |all| all.iter().map(|one| one.caption.clone()).collect();
}
