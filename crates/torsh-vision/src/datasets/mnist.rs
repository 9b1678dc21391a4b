//! MNIST and the data sets in its format.

use std::path::{Path, PathBuf};

use torsh_data::vision::Mnist;
use torsh_data::{Dataset, idx};
use torsh_tensor::{Result, Tensor};

use super::archive::{Source, extract_archive};
use super::common::{
    Changes, dataset, dataset_builder, io_error, missing, out_of_range, parts, within,
};

/// Images of a file in the format of MNIST, with what is done to them.
#[derive(Clone, Debug)]
struct Images {
    data: Mnist,
    changes: Changes<i64>,
}

impl Images {
    /// Reads two files, each plain or compressed.
    #[track_caller]
    fn read(
        op: &'static str,
        folder: &Path,
        names: [&str; 2],
        changes: Changes<i64>,
    ) -> Result<Images> {
        let one = |name: &str| {
            let plain = folder.join(name);
            let packed = folder.join(format!("{name}.gz"));
            match (plain.is_file(), packed.is_file()) {
                (true, _) => idx::read(plain),
                (false, true) => idx::read(packed),
                (false, false) => Err(missing(op, &plain, "download(true) gets it")),
            }
        };
        let data = Mnist::from_tensors(one(names[0])?, one(names[1])?);
        Ok(Images {
            data: data.map_err(|e| within(op, &folder.join(names[0]), e))?,
            changes,
        })
    }

    #[torsh_tensor::names_caller]
    fn get(&self, op: &'static str, index: usize) -> Result<(Tensor, i64)> {
        if index >= self.data.len() {
            return Err(out_of_range(op, index, self.data.len()));
        }
        let image = self.data.images().select(0, index)?.unsqueeze(0)?;
        let label = self.data.labels().select(0, index)?.item::<i64>()?;
        self.changes.apply(image, label)
    }
}

/// The folder of the raw files: torchvision's `root/NAME/raw`, or the root itself where that is not there.
fn raw(root: &Path, name: &str) -> PathBuf {
    let folder = root.join(name).join("raw");
    match folder.is_dir() || !root.is_dir() {
        true => folder,
        false => root.to_path_buf(),
    }
}

/// The methods that all of them have.
macro_rules! images {
    ($dataset:ident) => {
        impl $dataset {
            /// The images, uint8 `[n, 28, 28]`.
            pub fn data(&self) -> &Tensor {
                self.images.data.images()
            }

            /// The classes of the images, uint8 `[n]`.
            pub fn targets(&self) -> &Tensor {
                self.images.data.labels()
            }
        }

        dataset!($dataset, i64, self, index, self.images.data.len(), {
            self.images.get(stringify!($dataset), index)
        });
    };
}

macro_rules! mnist {
    ($(
        $(#[$doc:meta])*
        $dataset:ident, $builder:ident, $classes:expr;
        [$($url:literal),+] [$($md5:literal),+];
    )*) => {$(
        $(#[$doc])*
        ///
        /// The files are in `root/NAME/raw`, with the name of this type, as torchvision puts them, or in the root itself.
        /// They may be compressed with gzip. Items are the image, uint8 `[1, 28, 28]`, and its class.
        #[derive(Clone, Debug)]
        pub struct $dataset {
            images: Images,
        }

        dataset_builder! {
            $builder of $dataset(root), i64;
            /// Whether this is the training set, or else the test set. The default is `true`.
            train: bool = true;
        }

        images!($dataset);

        impl $dataset {
            /// The names of the classes.
            pub const CLASSES: [&'static str; 10] = $classes;

            #[track_caller]
            fn open(of: $builder) -> Result<$dataset> {
                let folder = raw(&of.root, stringify!($dataset));
                if of.download {
                    download(&folder, &[$($url),+], [$($md5),+])?;
                }
                let part = if of.train { "train" } else { "t10k" };
                let names = [format!("{part}-images-idx3-ubyte"), format!("{part}-labels-idx1-ubyte")];
                let names = [names[0].as_str(), names[1].as_str()];
                let images = Images::read(stringify!($dataset), &folder, names, of.changes)?;
                Ok($dataset { images })
            }
        }
    )*};
}

/// Gets the four files that are not there yet.
#[track_caller]
fn download(folder: &Path, mirrors: &[&str], md5s: [&'static str; 4]) -> Result<()> {
    let names = [
        "train-images-idx3-ubyte",
        "train-labels-idx1-ubyte",
        "t10k-images-idx3-ubyte",
        "t10k-labels-idx1-ubyte",
    ];
    for (name, md5) in names.into_iter().zip(md5s) {
        if folder.join(name).is_file() {
            continue;
        }
        let urls = mirrors.iter().map(|mirror| format!("{mirror}{name}.gz"));
        let source = urls.fold(None, |source: Option<Source>, url| {
            Some(match source {
                None => Source::new(url, md5),
                Some(source) => source.mirror(url),
            })
        });
        if let Some(source) = source {
            source.unpack(folder)?;
        }
    }
    Ok(())
}

const DIGITS: [&str; 10] = [
    "0 - zero",
    "1 - one",
    "2 - two",
    "3 - three",
    "4 - four",
    "5 - five",
    "6 - six",
    "7 - seven",
    "8 - eight",
    "9 - nine",
];

mnist! {
    /// Digits written by hand (`torchvision.datasets.MNIST`).
    ///
    /// ```
    /// use torsh_data::Dataset;
    /// use torsh_vision::datasets::MNIST;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let root = std::env::temp_dir().join(format!("torsh-mnist-{}", std::process::id()));
    /// # let raw = root.join("MNIST/raw");
    /// # std::fs::create_dir_all(&raw)?;
    /// # let header = |sizes: &[u8]| -> Vec<u8> {
    /// #     let mut all = vec![0, 0, 8, sizes.len() as u8];
    /// #     sizes.iter().for_each(|n| all.extend([0, 0, 0, *n]));
    /// #     all
    /// # };
    /// # let mut images = header(&[2, 28, 28]);
    /// # images.extend([7; 2 * 28 * 28]);
    /// # std::fs::write(raw.join("t10k-images-idx3-ubyte"), images)?;
    /// # let mut labels = header(&[2]);
    /// # labels.extend([3, 4]);
    /// # std::fs::write(raw.join("t10k-labels-idx1-ubyte"), labels)?;
    /// let test = MNIST::builder(&root).train(false).build()?;
    /// let (image, label) = test.get(1)?;
    /// assert_eq!((test.len(), image.dims(), label), (2, &[1, 28, 28][..], 4));
    /// assert_eq!(MNIST::CLASSES[4], "4 - four");
    /// # std::fs::remove_dir_all(&root)?;
    /// # Ok(())
    /// # }
    /// ```
    MNIST, MNISTBuilder, DIGITS;
    ["https://ossci-datasets.s3.amazonaws.com/mnist/", "http://yann.lecun.com/exdb/mnist/"]
    ["f68b3c2dcbeaaa9fbdd348bbdeb94873", "d53e105ee54ea40749a09fcbcd1e9432",
     "9fb629c4189551a2d022fa330f9573f3", "ec29112dd5afa0611ce80d1b7f02629c"];

    /// Clothes (`torchvision.datasets.FashionMNIST`).
    ///
    /// ```
    /// use torsh_vision::datasets::FashionMNIST;
    /// assert_eq!(FashionMNIST::CLASSES[9], "Ankle boot");
    /// ```
    FashionMNIST, FashionMNISTBuilder, torsh_data::vision::FASHION_MNIST_CLASSES;
    ["http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"]
    ["8d4fb7e6c68d591d4c3dfef9ec88bf0d", "25c81989df183df01b3e8a0aad5dffbe",
     "bef4ecab320f06d8554ea6380940ec79", "bb300cfdad3c16e7a12a480ee83cd310"];

    /// Japanese letters in cursive (`torchvision.datasets.KMNIST`).
    ///
    /// ```
    /// use torsh_vision::datasets::KMNIST;
    /// assert_eq!(KMNIST::CLASSES[..3], ["o", "ki", "su"]);
    /// ```
    KMNIST, KMNISTBuilder, ["o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"];
    ["http://codh.rois.ac.jp/kmnist/dataset/kmnist/"]
    ["bdb82020997e1d708af4cf47b453dcf7", "e144d726b3acfaa3e44228e80efcd344",
     "5c965bf0a639b31b8f53240b1b52f4d7", "7320c461ea6c1c855c0b718fb2a4b134"];
}

parts! {
    /// The parts of [`EMNIST`].
    EMNISTSplit {
        /// All 62 digits and letters.
        ByClass "byclass",
        /// 47 classes: letters whose forms are alike are one.
        ByMerge "bymerge",
        /// 47 classes with as many images each.
        Balanced "balanced",
        /// Letters without their case; class 0 is empty.
        Letters "letters",
        /// Digits.
        Digits "digits",
        /// Digits, in the numbers of MNIST.
        Mnist "mnist",
    }
}

impl EMNISTSplit {
    /// The names of the classes.
    ///
    /// ```
    /// use torsh_vision::datasets::EMNISTSplit;
    /// assert_eq!(EMNISTSplit::ByClass.classes().len(), 62);
    /// assert_eq!(EMNISTSplit::Balanced.classes()[36..], ["a", "b", "d", "e", "f", "g", "h", "n", "q", "r", "t"]);
    /// assert_eq!(EMNISTSplit::Letters.classes()[..3], ["N/A", "a", "b"]);
    /// ```
    pub fn classes(self) -> Vec<String> {
        let merged = "cijklmopsuvwxyz";
        let all = ('0'..='9').chain('A'..='Z').chain('a'..='z');
        let text = |c: char| c.to_string();
        match self {
            EMNISTSplit::ByClass => all.map(text).collect(),
            EMNISTSplit::ByMerge | EMNISTSplit::Balanced => {
                all.filter(|c| !merged.contains(*c)).map(text).collect()
            }
            EMNISTSplit::Letters => std::iter::once("N/A".to_string())
                .chain(('a'..='z').map(text))
                .collect(),
            EMNISTSplit::Digits | EMNISTSplit::Mnist => ('0'..='9').map(text).collect(),
        }
    }
}

/// Digits and letters written by hand (`torchvision.datasets.EMNIST`).
///
/// The files are in `root/EMNIST/raw`, as torchvision puts them, or in the root itself, and may be compressed with gzip.
/// Items are the image, uint8 `[1, 28, 28]`, and its class. The files hold the images with rows and columns exchanged;
/// unless `upright` is set, so are the items, as torchvision's.
///
/// ```
/// use torsh_data::Dataset;
/// use torsh_vision::datasets::{EMNIST, EMNISTSplit};
///
/// # let root = std::env::temp_dir().join(format!("torsh-emnist-{}", std::process::id()));
/// # std::fs::create_dir_all(&root)?;
/// // One image of 1 x 2 pixels, of class 9.
/// let images = [0u8, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 50, 60];
/// std::fs::write(root.join("emnist-digits-test-images-idx3-ubyte"), images)?;
/// std::fs::write(root.join("emnist-digits-test-labels-idx1-ubyte"), [0u8, 0, 8, 1, 0, 0, 0, 1, 9])?;
/// let digits = EMNIST::builder(&root).split(EMNISTSplit::Digits).train(false);
/// let (image, class) = digits.clone().build()?.get(0)?;
/// assert_eq!((image.to_vec3::<u8>()?, class), (vec![vec![vec![50, 60]]], 9));
/// let (upright, _) = digits.upright(true).build()?.get(0)?;
/// assert_eq!(upright.to_vec3::<u8>()?, [[[50], [60]]]);
/// # std::fs::remove_dir_all(&root)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct EMNIST {
    images: Images,
    split: EMNISTSplit,
}

dataset_builder! {
    EMNISTBuilder of EMNIST(root), i64;
    /// The part. The default is all classes.
    split: EMNISTSplit = EMNISTSplit::ByClass;
    /// Whether this is the training set, or else the test set. The default is `true`.
    train: bool = true;
    /// Whether rows and columns are exchanged, so that the images are upright. The default is `false`.
    upright: bool = false;
}

images!(EMNIST);

impl EMNIST {
    /// The names of the classes.
    pub fn classes(&self) -> Vec<String> {
        self.split.classes()
    }

    #[track_caller]
    fn open(of: EMNISTBuilder) -> Result<EMNIST> {
        const OP: &str = "EMNIST";
        let folder = raw(&of.root, OP);
        let part = if of.train { "train" } else { "test" };
        let name = |kind: &str| format!("emnist-{}-{part}-{kind}-ubyte", of.split);
        let names = [name("images-idx3"), name("labels-idx1")];
        if of.download && names.iter().any(|name| !folder.join(name).is_file()) {
            let source = Source::new(
                "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",
                "58c8d27c78d21e728a6bc7b3cc06412e",
            );
            source.unpack(&folder)?;
            let inner = folder.join("gzip");
            for name in &names {
                extract_archive(inner.join(format!("{name}.gz")), &folder)?;
            }
            std::fs::remove_dir_all(&inner).map_err(|e| io_error(&inner, e))?;
        }
        let mut images = Images::read(OP, &folder, [&names[0], &names[1]], of.changes)?;
        if of.upright {
            let turned = images.data.images().transpose(1, 2)?.contiguous()?;
            let labels = images.data.labels().clone();
            images.data = Mnist::from_tensors(turned, labels).map_err(|e| e.renamed(OP))?;
        }
        Ok(EMNIST {
            images,
            split: of.split,
        })
    }
}
