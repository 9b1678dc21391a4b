//! Pascal VOC.

use std::path::{Path, PathBuf};

use roxmltree::{Document, Node};
use serde_json::{Map, Value};
use torsh_tensor::{DType, Device, Result, Tensor, TorshError};

use super::archive::Source;
use super::common::{
    Changes, at, broken, dataset, dataset_builder, inside, missing, parts, read_indices, read_rgb,
    read_text,
};
use crate::models::detection::Target;
use crate::models::voc_classes;

parts! {
    /// The images of Pascal VOC.
    VOCImageSet {
        /// For training.
        Train "train",
        /// For training and validation.
        Trainval "trainval",
        /// For validation.
        Val "val",
        /// For testing; of the year 2007 alone.
        Test "test",
    }
}

parts! {
    /// The years of Pascal VOC.
    VOCYear {
        /// 2012
        Y2012 "2012",
        /// 2011
        Y2011 "2011",
        /// 2010
        Y2010 "2010",
        /// 2009
        Y2009 "2009",
        /// 2008
        Y2008 "2008",
        /// 2007
        Y2007 "2007",
    }
}

/// Archive, MD5, and the folder in it.
fn archive(year: VOCYear, test: bool) -> (&'static str, &'static str, &'static str) {
    match (year, test) {
        (VOCYear::Y2012, _) => (
            "voc2012/VOCtrainval_11-May-2012.tar",
            "6cd6e144f989b92b3379bac3b3de84fd",
            "VOCdevkit/VOC2012",
        ),
        (VOCYear::Y2011, _) => (
            "voc2011/VOCtrainval_25-May-2011.tar",
            "6c3384ef61512963050cb5d687e5bf1e",
            "TrainVal/VOCdevkit/VOC2011",
        ),
        (VOCYear::Y2010, _) => (
            "voc2010/VOCtrainval_03-May-2010.tar",
            "da459979d0c395079b5c75ee67908abb",
            "VOCdevkit/VOC2010",
        ),
        (VOCYear::Y2009, _) => (
            "voc2009/VOCtrainval_11-May-2009.tar",
            "a3e00b113cfcfebf17e343f59da3caa1",
            "VOCdevkit/VOC2009",
        ),
        (VOCYear::Y2008, _) => (
            "voc2008/VOCtrainval_14-Jul-2008.tar",
            "2629fa636546599198acfcfbfcf1904a",
            "VOCdevkit/VOC2008",
        ),
        (VOCYear::Y2007, false) => (
            "voc2007/VOCtrainval_06-Nov-2007.tar",
            "c52e279531787c972589f7e41ab4ae64",
            "VOCdevkit/VOC2007",
        ),
        (VOCYear::Y2007, true) => (
            "voc2007/VOCtest_06-Nov-2007.tar",
            "b6e924de25625d8de591ea690078ad9f",
            "VOCdevkit/VOC2007",
        ),
    }
}

/// The images of a set with what belongs to them.
#[track_caller]
fn list(
    op: &'static str,
    root: &Path,
    (year, set, download): (VOCYear, VOCImageSet, bool),
    [splits, targets, ending]: [&str; 3],
) -> Result<Vec<(PathBuf, PathBuf)>> {
    let test = set == VOCImageSet::Test;
    if test && year != VOCYear::Y2007 {
        let why = format!("there are no test images of {year}");
        return Err(TorshError::invalid(op, why).with_hint("only 2007 has them"));
    }
    let (file, md5, base) = archive(year, test);
    let folder = root.join(base);
    let path = folder
        .join("ImageSets")
        .join(splits)
        .join(format!("{set}.txt"));
    if download && !path.is_file() {
        let source = Source::new(
            format!("https://thor.robots.ox.ac.uk/pascal/VOC/{file}"),
            md5,
        );
        let source = match year {
            // torchvision stores it under this name.
            VOCYear::Y2008 => source.named("VOCtrainval_11-May-2012.tar"),
            _ => source,
        };
        source.unpack(root)?;
    }
    if !path.is_file() {
        return Err(missing(op, &path, "download(true) gets it"));
    }
    let text = read_text(op, &path)?;
    let names = text.lines().map(str::trim).filter(|name| !name.is_empty());
    names
        .map(|name| {
            let image = inside(op, &folder.join("JPEGImages"), &format!("{name}.jpg"))?;
            let target = inside(op, &folder.join(targets), &format!("{name}.{ending}"))?;
            Ok((image, target))
        })
        .collect()
}

/// Images of Pascal VOC with the class of each pixel (`torchvision.datasets.VOCSegmentation`), in `root/VOCdevkit/VOC2012`
/// or of another year.
///
/// Items are the image, uint8 `[3, height, width]`, and its classes, uint8 `[1, height, width]`: 0 is the background, 1 to 20
/// are objects, and 255 is not told.
///
/// ```
/// use torsh_vision::datasets::{VOCImageSet, VOCSegmentation, VOCYear};
///
/// # let root = std::env::temp_dir().join(format!("torsh-voc-masks-{}", std::process::id()));
/// let folder = root.join("VOCdevkit/VOC2010");
/// # std::fs::create_dir_all(folder.join("ImageSets/Segmentation"))?;
/// std::fs::write(folder.join("ImageSets/Segmentation/val.txt"), "2008_000002\n")?;
/// let builder = VOCSegmentation::builder(&root).year(VOCYear::Y2010);
/// let val = builder.clone().image_set(VOCImageSet::Val).build()?;
/// let image = folder.join("JPEGImages/2008_000002.jpg");
/// assert_eq!(val.samples(), [(image, folder.join("SegmentationClass/2008_000002.png"))]);
/// let error = builder.image_set(VOCImageSet::Test).build().unwrap_err().to_string();
/// assert!(error.contains("there are no test images of 2010"));
/// # std::fs::remove_dir_all(&root)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct VOCSegmentation {
    items: Vec<(PathBuf, PathBuf)>,
    changes: Changes<Tensor>,
}

dataset_builder! {
    VOCSegmentationBuilder of VOCSegmentation(root), torsh_tensor::Tensor;
    /// The year. The default is 2012.
    year: VOCYear = VOCYear::Y2012;
    /// The images. The default is those for training.
    image_set: VOCImageSet = VOCImageSet::Train;
}

impl VOCSegmentation {
    /// The files of images and masks.
    pub fn samples(&self) -> &[(PathBuf, PathBuf)] {
        &self.items
    }

    #[track_caller]
    fn open(of: VOCSegmentationBuilder) -> Result<VOCSegmentation> {
        let which = (of.year, of.image_set, of.download);
        let places = ["Segmentation", "SegmentationClass", "png"];
        Ok(VOCSegmentation {
            items: list("VOCSegmentation", &of.root, which, places)?,
            changes: of.changes,
        })
    }
}

dataset!(VOCSegmentation, Tensor, self, index, self.items.len(), {
    const OP: &str = "VOCSegmentation";
    let (image, mask) = at(OP, &self.items, index)?;
    let mask = read_indices(OP, mask)?;
    self.changes.apply(read_rgb(image)?, mask)
});

/// An object in an image of Pascal VOC.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct VOCObject {
    /// Its class, as `person`.
    pub name: String,
    /// From where it is seen, as `Left`.
    pub pose: String,
    /// Whether the box has but a part of it.
    pub truncated: bool,
    /// Whether something is in front of it.
    pub occluded: bool,
    /// Whether it is hard to recognise.
    pub difficult: bool,
    /// The box: x and y of its corners in pixels, the first counted from 1.
    pub bndbox: [f64; 4],
    /// The names and boxes of its parts, as `head`.
    pub parts: Vec<(String, [f64; 4])>,
}

/// What is in an image of Pascal VOC.
///
/// ```
/// use torsh_vision::datasets::VOCAnnotation;
/// let read = VOCAnnotation::from_xml(
///     "<annotation><folder>VOC2012</folder>
///      <size><width>500</width><height>375</height><depth>3</depth></size></annotation>",
/// )?;
/// assert_eq!((read.folder.as_str(), read.size), ("VOC2012", [500, 375, 3]));
/// assert!(read.objects.is_empty() && !read.segmented);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct VOCAnnotation {
    /// The folder of the data set, as `VOC2012`.
    pub folder: String,
    /// The file of the image.
    pub filename: String,
    /// Width, height and number of channels of the image.
    pub size: [usize; 3],
    /// Whether there is a mask of it.
    pub segmented: bool,
    /// The objects.
    pub objects: Vec<VOCObject>,
}

/// The text of an element within another, trimmed.
fn text<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    let child = node.children().find(|child| child.has_tag_name(name))?;
    Some(child.text().unwrap_or("").trim())
}

/// A box within an element.
fn bndbox(node: Node<'_, '_>) -> std::result::Result<[f64; 4], String> {
    let child = node.children().find(|child| child.has_tag_name("bndbox"));
    let child = child.ok_or("there is no bndbox")?;
    let mut sides = [0.0; 4];
    for (side, name) in sides.iter_mut().zip(["xmin", "ymin", "xmax", "ymax"]) {
        let value = text(child, name).ok_or(format!("the bndbox has no {name}"))?;
        let number: f64 = value.parse().map_err(|_| format!("{name} is {value:?}"))?;
        if !number.is_finite() {
            return Err(format!("{name} is {value:?}"));
        }
        *side = number;
    }
    Ok(sides)
}

impl VOCAnnotation {
    /// Of the text of a file.
    ///
    /// ```
    /// use torsh_vision::datasets::VOCAnnotation;
    /// let read = VOCAnnotation::from_xml(
    ///     "<annotation><filename>7.jpg</filename><object><name>cat</name><difficult>1</difficult>
    ///      <bndbox><xmin>3</xmin><ymin>4</ymin><xmax>30</xmax><ymax>40</ymax></bndbox></object></annotation>",
    /// )?;
    /// assert_eq!((read.filename.as_str(), read.objects.len()), ("7.jpg", 1));
    /// assert_eq!(read.objects[0].bndbox, [3.0, 4.0, 30.0, 40.0]);
    /// assert_eq!(read.target()?.labels.to_vec::<i64>()?, [8]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Text that is no XML, or no annotation. The error names the line, or the object.
    #[torsh_tensor::names_caller(Self)]
    pub fn from_xml(xml: &str) -> Result<VOCAnnotation> {
        VOCAnnotation::parse(xml).map_err(|why| TorshError::format("VOCAnnotation", why))
    }

    fn parse(xml: &str) -> std::result::Result<VOCAnnotation, String> {
        let document = parse(xml)?;
        let root = document.root_element();
        if !root.has_tag_name("annotation") {
            let name = root.tag_name().name();
            return Err(format!("the root is <{name}>, not <annotation>"));
        }
        let owned = |node, name| text(node, name).unwrap_or("").to_string();
        let flag = |node, name| !matches!(text(node, name), None | Some("0" | ""));
        let mut found = VOCAnnotation {
            folder: owned(root, "folder"),
            filename: owned(root, "filename"),
            size: [0; 3],
            segmented: flag(root, "segmented"),
            objects: Vec::new(),
        };
        if let Some(size) = root.children().find(|child| child.has_tag_name("size")) {
            for (n, name) in found.size.iter_mut().zip(["width", "height", "depth"]) {
                let value = text(size, name).unwrap_or("0");
                *n = value
                    .parse()
                    .map_err(|_| format!("the {name} is {value:?}"))?;
            }
        }
        let objects = root.children().filter(|child| child.has_tag_name("object"));
        for (i, node) in objects.enumerate() {
            let place = |why: String| format!("object {i}: {why}");
            let mut object = VOCObject {
                name: owned(node, "name"),
                pose: owned(node, "pose"),
                truncated: flag(node, "truncated"),
                occluded: flag(node, "occluded"),
                difficult: flag(node, "difficult"),
                bndbox: bndbox(node).map_err(place)?,
                parts: Vec::new(),
            };
            for part in node.children().filter(|child| child.has_tag_name("part")) {
                let sides = bndbox(part).map_err(place)?;
                object.parts.push((owned(part, "name"), sides));
            }
            found.objects.push(object);
        }
        Ok(found)
    }

    /// The boxes of the objects, float32 `[n, 4]`: x1, y1, x2, y2.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::datasets::VOCAnnotation;
    /// let read = VOCAnnotation::from_xml(
    ///     "<annotation><object><name>dog</name>
    ///      <bndbox><xmin>3</xmin><ymin>4</ymin><xmax>30</xmax><ymax>40</ymax></bndbox></object></annotation>",
    /// )?;
    /// assert_eq!(read.boxes()?, tensor![[3.0, 4.0, 30.0, 40.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn boxes(&self) -> Result<Tensor> {
        let sides: Vec<f32> = self
            .objects
            .iter()
            .flat_map(|object| object.bndbox.map(|v| v as f32))
            .collect();
        Tensor::from_slice(&sides, [self.objects.len(), 4], DType::F32, Device::Cpu)
    }

    /// Boxes and classes, for training a detector: the 20 classes have the numbers from 1 on in the order of their names.
    ///
    /// ```
    /// use torsh_vision::datasets::VOCAnnotation;
    /// let read = VOCAnnotation::from_xml(
    ///     "<annotation><object><name>yeti</name>
    ///      <bndbox><xmin>3</xmin><ymin>4</ymin><xmax>30</xmax><ymax>40</ymax></bndbox></object></annotation>",
    /// )?;
    /// let error = read.target().err().map(|e| e.to_string()).unwrap_or_default();
    /// assert!(error.contains("\"yeti\" is none of the 20 classes"));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// An object of another class.
    #[torsh_tensor::names_caller]
    pub fn target(&self) -> Result<Target> {
        let number = |object: &VOCObject| {
            let classes = voc_classes().iter().skip(1);
            let found = classes.zip(1i64..).find(|(name, _)| **name == object.name);
            found.map(|(_, number)| number).ok_or_else(|| {
                let why = format!("{:?} is none of the 20 classes", object.name);
                TorshError::invalid("VOCAnnotation", why)
            })
        };
        let labels: Vec<i64> = self.objects.iter().map(number).collect::<Result<_>>()?;
        let n = labels.len();
        let labels = Tensor::from_slice(&labels, [n], DType::I64, Device::Cpu)?;
        Ok(Target::new(self.boxes()?, labels))
    }
}

/// A document: without declarations of types, whose entities could name each other, and not too deep.
fn parse(xml: &str) -> std::result::Result<Document<'_>, String> {
    let document = Document::parse(xml).map_err(|e| e.to_string())?;
    let mut deep = document.root_element().descendants();
    match deep.any(|node| node.ancestors().take(MAX_DEPTH + 1).count() > MAX_DEPTH) {
        true => Err(format!(
            "elements lie in each other more than {MAX_DEPTH} deep"
        )),
        false => Ok(document),
    }
}

const MAX_DEPTH: usize = 64;

/// The text of a file of annotations as torchvision's nested dictionary (`VOCDetection.parse_voc_xml`): of an element with
/// others in it a dictionary, where one name more than once makes a list; `object` is always a list.
///
/// ```
/// use torsh_vision::datasets::parse_voc_xml;
/// let tree = parse_voc_xml("<annotation><size><width>5</width></size><object><name>cat</name></object></annotation>")?;
/// assert_eq!(tree["annotation"]["size"]["width"], "5");
/// assert_eq!(tree["annotation"]["object"][0]["name"], "cat");
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Text that is no XML. The error names the line.
#[torsh_tensor::names_caller]
pub fn parse_voc_xml(xml: &str) -> Result<Value> {
    let document = parse(xml).map_err(|why| TorshError::format("parse_voc_xml", why))?;
    Ok(Value::Object(tree(document.root_element())))
}

fn tree(node: Node<'_, '_>) -> Map<String, Value> {
    let name = node.tag_name().name().to_string();
    let mut map = Map::new();
    let children: Vec<Node<'_, '_>> = node.children().filter(Node::is_element).collect();
    if children.is_empty() {
        if let Some(text) = node.text() {
            map.insert(name, Value::from(text.trim()));
        }
        return map;
    }
    let mut lists: Map<String, Value> = Map::new();
    for child in children {
        for (key, value) in tree(child) {
            let list = lists.entry(key).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(list) = list {
                list.push(value);
            }
        }
    }
    let always = name == "annotation";
    let inner = lists.into_iter().map(|(key, value)| match value {
        Value::Array(mut list) if list.len() == 1 && !(always && key == "object") => {
            (key, list.remove(0))
        }
        other => (key, other),
    });
    let mut inner: Map<String, Value> = inner.collect();
    if always {
        inner
            .entry("object")
            .or_insert_with(|| Value::Array(Vec::new()));
    }
    map.insert(name, Value::Object(inner));
    map
}

/// Images of Pascal VOC with their objects (`torchvision.datasets.VOCDetection`), in `root/VOCdevkit/VOC2012` or of another
/// year.
///
/// Items are the image, uint8 `[3, height, width]`, and its [`VOCAnnotation`]; [`parse_voc_xml`] gives torchvision's nested
/// dictionary. A loader takes a function that makes batches of them:
///
/// ```no_run
/// use torsh_data::DataLoader;
/// use torsh_tensor::Result;
/// use torsh_vision::datasets::{VOCDetection, VOCImageSet};
///
/// let train = VOCDetection::builder("data").image_set(VOCImageSet::Trainval).build()?;
/// let loader = DataLoader::builder(train)
///     .batch_size(2)
///     .collate_fn(|items| {
///         let images: Vec<_> = items.iter().map(|(image, _)| image.clone()).collect();
///         let targets = items.iter().map(|(_, found)| found.target()).collect::<Result<Vec<_>>>()?;
///         Ok((images, targets))
///     })
///     .build()?;
/// # let _ = loader;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct VOCDetection {
    items: Vec<(PathBuf, PathBuf)>,
    changes: Changes<VOCAnnotation>,
}

dataset_builder! {
    VOCDetectionBuilder of VOCDetection(root), crate::datasets::VOCAnnotation;
    /// The year. The default is 2012.
    year: VOCYear = VOCYear::Y2012;
    /// The images. The default is those for training.
    image_set: VOCImageSet = VOCImageSet::Train;
}

impl VOCDetection {
    /// The files of images and annotations.
    ///
    /// ```
    /// use torsh_vision::datasets::{VOCDetection, VOCImageSet, VOCYear};
    ///
    /// # let root = std::env::temp_dir().join(format!("torsh-voc-boxes-{}", std::process::id()));
    /// let folder = root.join("VOCdevkit/VOC2010");
    /// # std::fs::create_dir_all(folder.join("ImageSets/Main"))?;
    /// std::fs::write(folder.join("ImageSets/Main/val.txt"), "2008_000002\n")?;
    /// let builder = VOCDetection::builder(&root).year(VOCYear::Y2010);
    /// let val = builder.clone().image_set(VOCImageSet::Val).build()?;
    /// let image = folder.join("JPEGImages/2008_000002.jpg");
    /// assert_eq!(val.samples(), [(image, folder.join("Annotations/2008_000002.xml"))]);
    /// let error = builder.image_set(VOCImageSet::Test).build().unwrap_err().to_string();
    /// assert!(error.contains("there are no test images of 2010"));
    /// # std::fs::remove_dir_all(&root)?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn samples(&self) -> &[(PathBuf, PathBuf)] {
        &self.items
    }

    #[track_caller]
    fn open(of: VOCDetectionBuilder) -> Result<VOCDetection> {
        let which = (of.year, of.image_set, of.download);
        Ok(VOCDetection {
            items: list(
                "VOCDetection",
                &of.root,
                which,
                ["Main", "Annotations", "xml"],
            )?,
            changes: of.changes,
        })
    }
}

dataset!(
    VOCDetection,
    VOCAnnotation,
    self,
    index,
    self.items.len(),
    {
        const OP: &str = "VOCDetection";
        let (image, path) = at(OP, &self.items, index)?;
        let annotation = VOCAnnotation::parse(&read_text(OP, path)?);
        let annotation = annotation.map_err(|why| broken(OP, path, why))?;
        self.changes.apply(read_rgb(image)?, annotation)
    }
);
