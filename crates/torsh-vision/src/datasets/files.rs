//! Data sets that are lists of image files.

use std::path::{Path, PathBuf};

use torsh_data::{find_classes, make_dataset};
use torsh_tensor::{DType, Result, Tensor};

use super::archive::Source;
use super::common::{
    Changes, at, broken, dataset, dataset_builder, inside, missing, parts, read, read_rgb,
    read_text,
};
use super::mat;

/// Files with their classes, and what is done to them.
#[derive(Clone, Debug)]
pub(super) struct Files {
    pub(super) items: Vec<(PathBuf, i64)>,
    pub(super) changes: Changes<i64>,
}

impl Files {
    pub(super) fn get(&self, op: &'static str, index: usize) -> Result<(Tensor, i64)> {
        let (path, class) = at(op, &self.items, index)?;
        self.changes.apply(read_rgb(path)?, *class)
    }
}

/// The methods that all of them have.
macro_rules! files {
    ($dataset:ident) => {
        impl $dataset {
            /// The files of the images with their classes.
            pub fn samples(&self) -> &[(std::path::PathBuf, i64)] {
                &self.files.items
            }
        }

        dataset!($dataset, i64, self, index, self.files.items.len(), {
            self.files.get(stringify!($dataset), index)
        });
    };
}

parts! {
    /// The parts of [`Flowers102`].
    Flowers102Split {
        /// 1,020 images for training.
        Train "train",
        /// 1,020 images for validation.
        Val "val",
        /// 6,149 images for testing.
        Test "test",
    }
}

/// Flowers of 102 kinds (`torchvision.datasets.Flowers102`), in `root/flowers-102`: the folder `jpg`, `imagelabels.mat`
/// and `setid.mat`.
///
/// Items are the image, uint8 `[3, height, width]`, and its class.
#[derive(Clone, Debug)]
pub struct Flowers102 {
    files: Files,
}

dataset_builder! {
    Flowers102Builder of Flowers102(root), i64;
    /// The part. The default is the training set.
    split: Flowers102Split = Flowers102Split::Train;
}

files!(Flowers102);

impl Flowers102 {
    /// The names of the 102 classes.
    ///
    /// ```
    /// use torsh_vision::datasets::Flowers102;
    /// let classes = Flowers102::classes();
    /// assert_eq!((classes.len(), classes[0]), (102, "pink primrose"));
    /// ```
    pub fn classes() -> Vec<&'static str> {
        include_str!("flowers102.txt").lines().collect()
    }

    #[track_caller]
    fn open(of: Flowers102Builder) -> Result<Flowers102> {
        const OP: &str = "Flowers102";
        let folder = of.root.join("flowers-102");
        let images = folder.join("jpg");
        let (labels, sets) = (folder.join("imagelabels.mat"), folder.join("setid.mat"));
        if of.download {
            let from = "https://www.robots.ox.ac.uk/~vgg/data/flowers/102/";
            let source = |name: &str, md5| Source::new(format!("{from}{name}"), md5);
            if !images.is_dir() {
                source("102flowers.tgz", "52808999861908f626f3c1f4e79d11fa").unpack(&folder)?;
            }
            source("imagelabels.mat", "e0620be6f572b9609742df49c70aed4d").download(&folder)?;
            source("setid.mat", "a5357ecc9cb78c4bef273ce3793fc85c").download(&folder)?;
        }
        for path in [&images, &labels, &sets] {
            if !path.exists() {
                return Err(missing(OP, path, "download(true) gets it"));
            }
        }
        let integers = |path: &Path, name: &str| -> Result<Vec<i64>> {
            let array = mat::array(OP, path, name)?;
            array.reshape([-1])?.to_dtype(DType::I64)?.to_vec::<i64>()
        };
        let classes = integers(&labels, "labels")?;
        if let Some(i) = classes.iter().position(|class| !(1..=102).contains(class)) {
            let why = format!("image {}: there is no class {}", i + 1, classes[i]);
            return Err(broken(OP, &labels, why));
        }
        let name = match of.split {
            Flowers102Split::Train => "trnid",
            Flowers102Split::Val => "valid",
            Flowers102Split::Test => "tstid",
        };
        let numbers = integers(&sets, name)?.into_iter();
        let items = numbers.map(|number| {
            let class = usize::try_from(number - 1)
                .ok()
                .and_then(|i| classes.as_slice().get(i));
            match class {
                Some(class) => Ok((images.join(format!("image_{number:05}.jpg")), class - 1)),
                None => {
                    let why = format!("{name}: {number} is none of {} images", classes.len());
                    Err(broken(OP, &sets, why))
                }
            }
        });
        Ok(Flowers102 {
            files: Files {
                items: items.collect::<Result<_>>()?,
                changes: of.changes,
            },
        })
    }
}

parts! {
    /// The parts of [`Food101`].
    Food101Split {
        /// 75,750 images for training.
        Train "train",
        /// 25,250 images for testing.
        Test "test",
    }
}

/// Dishes of 101 kinds (`torchvision.datasets.Food101`), in `root/food-101`.
///
/// Items are the image, uint8 `[3, height, width]`, and its class.
///
/// ```
/// use torsh_vision::datasets::{Food101, Food101Split};
///
/// # let root = std::env::temp_dir().join(format!("torsh-food-{}", std::process::id()));
/// let meta = root.join("food-101/meta");
/// # std::fs::create_dir_all(&meta)?;
/// std::fs::write(meta.join("test.json"), r#"{"pizza": ["pizza/7"], "apple_pie": ["apple_pie/8"]}"#)?;
/// let test = Food101::builder(&root).split(Food101Split::Test).build()?;
/// assert_eq!(test.classes(), ["apple_pie", "pizza"]);
/// assert_eq!(test.samples()[0], (root.join("food-101/images/pizza/7.jpg"), 1));
/// # std::fs::remove_dir_all(&root)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Food101 {
    files: Files,
    classes: Vec<String>,
}

dataset_builder! {
    Food101Builder of Food101(root), i64;
    /// The part. The default is the training set.
    split: Food101Split = Food101Split::Train;
}

files!(Food101);

impl Food101 {
    /// The names of the classes, sorted.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    #[track_caller]
    fn open(of: Food101Builder) -> Result<Food101> {
        const OP: &str = "Food101";
        let folder = of.root.join("food-101");
        let (meta, images) = (folder.join("meta"), folder.join("images"));
        if of.download && !(meta.is_dir() && images.is_dir()) {
            let source = Source::new(
                "http://data.vision.ee.ethz.ch/cvl/food-101.tar.gz",
                "85eeb15f3717b99a5da872d97d918f87",
            );
            source.unpack(&of.root)?;
        }
        let path = meta.join(format!("{}.json", of.split));
        if !path.is_file() {
            return Err(missing(OP, &path, "download(true) gets it"));
        }
        let listed: Listed = serde_json::from_slice(torsh_core::without_bom(&read(&path)?))
            .map_err(|e| broken(OP, &path, e))?;
        let mut classes: Vec<String> = listed.0.iter().map(|(class, _)| class.clone()).collect();
        classes.sort();
        let mut items = Vec::new();
        for (class, names) in listed.0 {
            let number = classes.binary_search(&class).unwrap_or(0) as i64;
            for name in names {
                items.push((inside(OP, &images, &format!("{name}.jpg"))?, number));
            }
        }
        Ok(Food101 {
            files: Files {
                items,
                changes: of.changes,
            },
            classes,
        })
    }
}

/// Lists by class, in the order of the file.
struct Listed(Vec<(String, Vec<String>)>);

impl<'de> serde::Deserialize<'de> for Listed {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Listed, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Listed;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a list of images for each class")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Listed, A::Error> {
                let mut all = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    all.push(entry);
                }
                Ok(Listed(all))
            }
        }
        from.deserialize_map(Visitor)
    }
}

/// Objects of 101 kinds (`torchvision.datasets.Caltech101`), in `root/caltech101`.
///
/// Items are the image and its class. An image is uint8 `[channels, height, width]` with the channels that its file has:
/// some are grey. [`annotation`](Caltech101::annotation) reads the outline of an object.
///
/// ```
/// use torsh_vision::datasets::Caltech101;
///
/// # let root = std::env::temp_dir().join(format!("torsh-caltech-{}", std::process::id()));
/// let images = root.join("caltech101/101_ObjectCategories");
/// for class in ["crab", "ant"] {
///     std::fs::create_dir_all(images.join(class))?;
///     std::fs::write(images.join(class).join("image_0001.jpg"), "")?;
/// }
/// let all = Caltech101::builder(&root).build()?;
/// assert_eq!(all.categories(), ["ant", "crab"]);
/// assert_eq!(all.samples()[1], (images.join("crab/image_0001.jpg"), 1));
/// # std::fs::remove_dir_all(&root)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Caltech101 {
    files: Files,
    categories: Vec<String>,
    annotations: Vec<PathBuf>,
}

dataset_builder! {
    Caltech101Builder of Caltech101(root), i64;
}

impl Caltech101 {
    /// The names of the classes, sorted.
    pub fn categories(&self) -> &[String] {
        &self.categories
    }

    /// The files of the images with their classes.
    pub fn samples(&self) -> &[(PathBuf, i64)] {
        &self.files.items
    }

    /// The outline of the object in an image, float64 `[2, n]`: x and y (`target_type="annotation"`).
    ///
    /// # Errors
    /// An index out of range, and a file that is missing or damaged.
    #[torsh_tensor::names_caller]
    pub fn annotation(&self, index: usize) -> Result<Tensor> {
        const OP: &str = "Caltech101";
        let path = at(OP, &self.annotations, index)?;
        mat::array(OP, path, "obj_contour")
    }

    #[track_caller]
    fn open(of: Caltech101Builder) -> Result<Caltech101> {
        const OP: &str = "Caltech101";
        let folder = of.root.join("caltech101");
        let images = folder.join("101_ObjectCategories");
        if of.download && !images.is_dir() {
            let source = Source::new(
                "https://data.caltech.edu/records/mzrjq-6wc02/files/caltech-101.zip",
                "3138e1922a9193bfa496528edbbc45d0",
            );
            source.unpack(&folder)?;
            let inner = folder.join("caltech-101");
            for name in ["Annotations.tar", "101_ObjectCategories.tar.gz"] {
                super::extract_archive(inner.join(name), &folder)?;
            }
        }
        if !images.is_dir() {
            return Err(missing(OP, &images, "download(true) gets it"));
        }
        let mut categories = find_classes(&images).map_err(|e| e.renamed(OP))?;
        // Pictures of anything, which are no class.
        categories.retain(|name| name != "BACKGROUND_Google");
        let (mut items, mut annotations) = (Vec::new(), Vec::new());
        for (class, name) in categories.iter().enumerate() {
            // Some folders of annotations have other names.
            let other = match name.as_str() {
                "Faces" => "Faces_2",
                "Faces_easy" => "Faces_3",
                "Motorbikes" => "Motorbikes_16",
                "airplanes" => "Airplanes_Side_2",
                same => same,
            };
            let own = images.join(name);
            let listed = std::fs::read_dir(&own).map_err(|e| super::common::io_error(&own, e))?;
            for i in 1..=listed.count() {
                items.push((own.join(format!("image_{i:04}.jpg")), class as i64));
                let annotation = format!("annotation_{i:04}.mat");
                annotations.push(folder.join("Annotations").join(other).join(annotation));
            }
        }
        Ok(Caltech101 {
            files: Files {
                items,
                changes: of.changes,
            },
            categories,
            annotations,
        })
    }
}

dataset!(Caltech101, i64, self, index, self.files.items.len(), {
    let (path, class) = at("Caltech101", &self.files.items, index)?;
    let image = crate::io::read_image_with(path, crate::io::ReadOptions::new().eight_bits(true))?;
    self.files.changes.apply(image, *class)
});

parts! {
    /// The parts of [`Imagenette`].
    ImagenetteSplit {
        /// 9,469 images for training.
        Train "train",
        /// 3,925 images for validation.
        Val "val",
    }
}

parts! {
    /// The sizes of [`Imagenette`]'s images.
    ImagenetteSize {
        /// As in ImageNet.
        Full "full",
        /// The shorter side has 320 pixels.
        Px320 "320px",
        /// The shorter side has 160 pixels.
        Px160 "160px",
    }
}

/// Ten classes of ImageNet (`torchvision.datasets.Imagenette`), in `root/imagenette2`, `root/imagenette2-320` or
/// `root/imagenette2-160`.
///
/// Items are the image, uint8 `[3, height, width]`, and its class.
///
/// ```
/// use torsh_vision::datasets::{Imagenette, ImagenetteSize};
///
/// # let root = std::env::temp_dir().join(format!("torsh-imagenette-{}", std::process::id()));
/// let train = root.join("imagenette2-160/train");
/// # std::fs::create_dir_all(train.join("n01440764"))?;
/// # std::fs::create_dir_all(train.join("n02102040"))?;
/// std::fs::write(train.join("n01440764/1.JPEG"), "")?;
/// std::fs::write(train.join("n02102040/2.JPEG"), "")?;
/// let data = Imagenette::builder(&root).size(ImagenetteSize::Px160).build()?;
/// assert_eq!(data.samples()[1], (train.join("n02102040/2.JPEG"), 1));
/// assert_eq!(data.classes()[0], ["tench", "Tinca tinca"]);
/// # std::fs::remove_dir_all(&root)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Imagenette {
    files: Files,
    wnids: Vec<String>,
}

dataset_builder! {
    ImagenetteBuilder of Imagenette(root), i64;
    /// The part. The default is the training set.
    split: ImagenetteSplit = ImagenetteSplit::Train;
    /// The size of the images; as in ImageNet unless set.
    size: ImagenetteSize = ImagenetteSize::Full;
}

files!(Imagenette);

/// The classes by the numbers of WordNet.
const WNIDS: [(&str, &[&str]); 10] = [
    ("n01440764", &["tench", "Tinca tinca"]),
    (
        "n02102040",
        &["English springer", "English springer spaniel"],
    ),
    ("n02979186", &["cassette player"]),
    ("n03000684", &["chain saw", "chainsaw"]),
    ("n03028079", &["church", "church building"]),
    ("n03394916", &["French horn", "horn"]),
    ("n03417042", &["garbage truck", "dustcart"]),
    (
        "n03425413",
        &[
            "gas pump",
            "gasoline pump",
            "petrol pump",
            "island dispenser",
        ],
    ),
    ("n03445777", &["golf ball"]),
    ("n03888257", &["parachute", "chute"]),
];

impl Imagenette {
    /// The identifiers of the classes in WordNet.
    pub fn wnids(&self) -> &[String] {
        &self.wnids
    }

    /// The names of the classes; some have several.
    pub fn classes(&self) -> Vec<&'static [&'static str]> {
        let known = |id: &String| WNIDS.iter().find(|(wnid, _)| wnid == id);
        self.wnids
            .iter()
            .filter_map(known)
            .map(|(_, names)| *names)
            .collect()
    }

    #[track_caller]
    fn open(of: ImagenetteBuilder) -> Result<Imagenette> {
        const OP: &str = "Imagenette";
        let (name, md5) = match of.size {
            ImagenetteSize::Full => ("imagenette2", "fe2fc210e6bb7c5664d602c3cd71e612"),
            ImagenetteSize::Px320 => ("imagenette2-320", "3df6f0d01a2c9592104656642f5e78a3"),
            ImagenetteSize::Px160 => ("imagenette2-160", "e793b78cc4c9e9a4ccc0c1155377a412"),
        };
        let folder = of.root.join(name);
        if of.download && !folder.is_dir() {
            let from = "https://s3.amazonaws.com/fast-ai-imageclas/";
            Source::new(format!("{from}{name}.tgz"), md5).unpack(&of.root)?;
        }
        let images = folder.join(of.split.name());
        if !images.is_dir() {
            return Err(missing(OP, &images, "download(true) gets it"));
        }
        let wnids = find_classes(&images).map_err(|e| e.renamed(OP))?;
        if let Some(id) = wnids
            .iter()
            .find(|id| WNIDS.iter().all(|(wnid, _)| wnid != id))
        {
            return Err(broken(OP, &images, format!("{id} is none of its classes")));
        }
        let valid = |path: &Path| {
            let name = path.file_name().map(|n| n.to_string_lossy().to_lowercase());
            name.is_some_and(|name| name.ends_with(".jpeg"))
        };
        let found = make_dataset(&images, &wnids, &valid, false).map_err(|e| e.renamed(OP))?;
        let items = found.into_iter().map(|(path, class)| (path, class as i64));
        Ok(Imagenette {
            files: Files {
                items: items.collect(),
                changes: of.changes,
            },
            wnids,
        })
    }
}

parts! {
    /// The parts of [`OxfordIIITPet`].
    OxfordIIITPetSplit {
        /// 3,680 images for training and validation.
        Trainval "trainval",
        /// 3,669 images for testing.
        Test "test",
    }
}

parts! {
    /// What an image of [`OxfordIIITPet`] is labelled with.
    OxfordIIITPetTarget {
        /// The breed, of 37.
        Category "category",
        /// Whether it is a cat (0) or a dog (1).
        BinaryCategory "binary-category",
    }
}

/// Cats and dogs of 37 breeds (`torchvision.datasets.OxfordIIITPet`), in `root/oxford-iiit-pet`.
///
/// Items are the image, uint8 `[3, height, width]`, and its breed or species. [`segmentation`](OxfordIIITPet::segmentation) is
/// the data set of the same images with the outlines of the animals.
///
/// ```
/// use torsh_vision::datasets::{OxfordIIITPet, OxfordIIITPetTarget};
///
/// # let root = std::env::temp_dir().join(format!("torsh-pets-{}", std::process::id()));
/// let lists = root.join("oxford-iiit-pet/annotations");
/// # std::fs::create_dir_all(&lists)?;
/// // Name, breed, species, and the number within the species.
/// std::fs::write(lists.join("trainval.txt"), "Abyssinian_100 1 1 1\nsaint_bernard_7 30 2 21\n")?;
/// let breeds = OxfordIIITPet::builder(&root);
/// let species = breeds.clone().target_types(OxfordIIITPetTarget::BinaryCategory).build()?;
/// let breeds = breeds.build()?;
/// assert_eq!(breeds.classes(), ["Abyssinian", "Saint Bernard"]);
/// assert_eq!((breeds.samples()[1].1, species.samples()[1].1), (29, 1));
/// assert_eq!(OxfordIIITPet::BIN_CLASSES[1], "Dog");
/// # std::fs::remove_dir_all(&root)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct OxfordIIITPet {
    files: Files,
    trimaps: Vec<PathBuf>,
    classes: Vec<String>,
}

dataset_builder! {
    OxfordIIITPetBuilder of OxfordIIITPet(root), i64;
    /// The part. The default is the images for training and validation.
    split: OxfordIIITPetSplit = OxfordIIITPetSplit::Trainval;
    /// What the images are labelled with. The default is the breed.
    target_types: OxfordIIITPetTarget = OxfordIIITPetTarget::Category;
}

files!(OxfordIIITPet);

/// A text in the case of titles: each word begins with a capital letter.
fn title(text: &str) -> String {
    let word = |word: &str| {
        let mut chars = word.chars();
        let first: String = chars
            .next()
            .into_iter()
            .flat_map(char::to_uppercase)
            .collect();
        first + &chars.as_str().to_lowercase()
    };
    text.split('_').map(word).collect::<Vec<_>>().join(" ")
}

impl OxfordIIITPet {
    /// The names of the breeds.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// The names of the species.
    pub const BIN_CLASSES: [&'static str; 2] = ["Cat", "Dog"];

    /// The images with their trimaps (`target_types="segmentation"`), without the changes of this data set.
    pub fn segmentation(&self) -> OxfordIIITPetSegmentation {
        let images = self.files.items.iter().map(|(path, _)| path.clone());
        OxfordIIITPetSegmentation {
            items: images.zip(self.trimaps.iter().cloned()).collect(),
            changes: Changes::default(),
        }
    }

    #[track_caller]
    fn open(of: OxfordIIITPetBuilder) -> Result<OxfordIIITPet> {
        const OP: &str = "OxfordIIITPet";
        let folder = of.root.join("oxford-iiit-pet");
        let (images, annotations) = (folder.join("images"), folder.join("annotations"));
        if of.download {
            let from = "https://www.robots.ox.ac.uk/~vgg/data/pets/data/";
            for (there, name, md5) in [
                (&images, "images.tar.gz", "5c4f3ee8e5d25df40f4fd59a7f44e54c"),
                (
                    &annotations,
                    "annotations.tar.gz",
                    "95a8c909bbe2e81eed6a22bccdf3f68f",
                ),
            ] {
                if !there.is_dir() {
                    Source::new(format!("{from}{name}"), md5).unpack(&folder)?;
                }
            }
        }
        let list = annotations.join(format!("{}.txt", of.split));
        if !list.is_file() {
            return Err(missing(OP, &list, "download(true) gets it"));
        }
        let (mut items, mut trimaps, mut breeds) = (Vec::new(), Vec::new(), Vec::new());
        for (i, line) in read_text(OP, &list)?.lines().enumerate() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let numbers: Vec<i64> = words
                .iter()
                .skip(1)
                .filter_map(|n| n.parse().ok())
                .collect();
            let (&[name, ..], &[breed, species, _]) = (&words[..], &numbers[..]) else {
                let why = format!("line {}: expected a name and three numbers", i + 1);
                return Err(broken(OP, &list, why));
            };
            if !(1..=37).contains(&breed) || !(1..=2).contains(&species) {
                let why = format!("line {}: there is no class {breed}, {species}", i + 1);
                return Err(broken(OP, &list, why));
            }
            let class = match of.target_types {
                OxfordIIITPetTarget::Category => breed - 1,
                OxfordIIITPetTarget::BinaryCategory => species - 1,
            };
            items.push((inside(OP, &images, &format!("{name}.jpg"))?, class));
            trimaps.push(inside(
                OP,
                &annotations.join("trimaps"),
                &format!("{name}.png"),
            )?);
            let breed_name = name.rsplit_once('_').map_or(name, |(start, _)| start);
            breeds.push((breed, title(breed_name)));
        }
        breeds.sort();
        breeds.dedup();
        Ok(OxfordIIITPet {
            files: Files {
                items,
                changes: of.changes,
            },
            trimaps,
            classes: breeds.into_iter().map(|(_, name)| name).collect(),
        })
    }
}

/// Images of cats and dogs with their trimaps, as [`OxfordIIITPet::segmentation`] makes it.
///
/// Items are the image, uint8 `[3, height, width]`, and uint8 `[1, height, width]`: 1 where the animal is, 2 around it, 3 at
/// its edge.
#[derive(Clone, Debug)]
pub struct OxfordIIITPetSegmentation {
    items: Vec<(PathBuf, PathBuf)>,
    changes: Changes<Tensor>,
}

impl OxfordIIITPetSegmentation {
    /// Changes image and trimap together.
    #[must_use]
    pub fn transforms(
        mut self,
        f: impl Fn(Tensor, Tensor) -> Result<(Tensor, Tensor)> + Send + Sync + 'static,
    ) -> Self {
        self.changes.set_transforms(f);
        self
    }
}

dataset!(
    OxfordIIITPetSegmentation,
    Tensor,
    self,
    index,
    self.items.len(),
    {
        const OP: &str = "OxfordIIITPetSegmentation";
        let (image, trimap) = at(OP, &self.items, index)?;
        let trimap = super::common::read_indices(OP, trimap)?;
        self.changes.apply(read_rgb(image)?, trimap)
    }
);
