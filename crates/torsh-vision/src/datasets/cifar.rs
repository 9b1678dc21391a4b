//! CIFAR-10 and CIFAR-100.

use std::path::Path;

use torsh_serialize::{Value, pt};
use torsh_tensor::{DType, Result, Tensor, cat};

use super::archive::Source;
use super::common::{
    Changes, at, broken, dataset, dataset_builder, missing, read_records, read_text, within,
};

/// The bytes of an image.
const IMAGE: [usize; 3] = [3, 32, 32];

/// What distinguishes the two.
struct Family {
    op: &'static str,
    /// The folder of torchvision's files, which Python's `pickle` wrote, and that of the binary ones.
    folders: [&'static str; 2],
    /// The files of the training set and of the test set, in both folders.
    files: [[&'static [&'static str]; 2]; 2],
    /// The file with the names of the classes in both folders, and the key in the first.
    names: [&'static str; 2],
    names_key: &'static str,
    /// The key of the labels, and at which byte of a binary record they are of how many.
    labels_key: &'static str,
    label: usize,
    labels: usize,
    classes: usize,
    url: &'static str,
    md5: &'static str,
}

static CIFAR_10: Family = Family {
    op: "CIFAR10",
    folders: ["cifar-10-batches-py", "cifar-10-batches-bin"],
    files: [
        [
            &[
                "data_batch_1",
                "data_batch_2",
                "data_batch_3",
                "data_batch_4",
                "data_batch_5",
            ],
            &["test_batch"],
        ],
        [
            &[
                "data_batch_1.bin",
                "data_batch_2.bin",
                "data_batch_3.bin",
                "data_batch_4.bin",
                "data_batch_5.bin",
            ],
            &["test_batch.bin"],
        ],
    ],
    names: ["batches.meta", "batches.meta.txt"],
    names_key: "label_names",
    labels_key: "labels",
    label: 0,
    labels: 1,
    classes: 10,
    url: "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
    md5: "c58f30108f718f92721af3b95e74349a",
};

static CIFAR_100: Family = Family {
    op: "CIFAR100",
    folders: ["cifar-100-python", "cifar-100-binary"],
    files: [[&["train"], &["test"]], [&["train.bin"], &["test.bin"]]],
    names: ["meta", "fine_label_names.txt"],
    names_key: "fine_label_names",
    labels_key: "fine_labels",
    label: 1,
    labels: 2,
    classes: 100,
    url: "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
    md5: "eb9058c3a382ffc7106e4002c42a8d85",
};

/// Images with labels.
#[derive(Clone, Debug)]
struct Images {
    data: Tensor,
    labels: Vec<i64>,
    classes: Vec<String>,
    changes: Changes<i64>,
}

impl Images {
    #[track_caller]
    fn read(
        of: &'static Family,
        root: &Path,
        train: bool,
        download: bool,
        changes: Changes<i64>,
    ) -> Result<Images> {
        let op = of.op;
        let folder = |i: usize| root.join(of.folders[i]);
        if download && !folder(0).is_dir() && !folder(1).is_dir() {
            Source::new(of.url, of.md5).unpack(root)?;
        }
        let version = match (folder(0).is_dir(), folder(1).is_dir()) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => {
                let what = format!("nor is {}; download(true) gets it", of.folders[1]);
                return Err(missing(op, &folder(0), &what));
            }
        };
        let folder = folder(version);
        let (mut data, mut labels) = (Vec::new(), Vec::new());
        for name in of.files[version][usize::from(!train)] {
            let path = folder.join(name);
            data.push(match version {
                0 => of.pickled(&path, &mut labels)?,
                _ => of.binary(&path, &mut labels)?,
            });
        }
        let path = folder.join(of.names[version]);
        let classes = match version {
            0 => {
                let file = pt::load_pickle(&path).map_err(|e| e.renamed(op))?;
                let names = file.get(of.names_key).and_then(texts);
                names.map_err(|e| within(op, &path, e))?
            }
            _ => {
                let text = read_text(op, &path)?;
                let names = text.lines().map(str::trim).filter(|line| !line.is_empty());
                names.map(str::to_string).collect()
            }
        };
        if classes.len() != of.classes {
            let why = format!(
                "there are {} names of {} classes",
                classes.len(),
                of.classes
            );
            return Err(broken(op, &path, why));
        }
        Ok(Images {
            data: match data.len() {
                1 => data.remove(0),
                _ => cat(&data, 0)?,
            },
            labels,
            classes,
            changes,
        })
    }

    #[torsh_tensor::names_caller]
    fn get(&self, op: &'static str, index: usize) -> Result<(Tensor, i64)> {
        let label = *at(op, &self.labels, index)?;
        self.changes.apply(self.data.select(0, index)?, label)
    }
}

/// The texts of a list.
#[track_caller]
fn texts(list: &Value) -> Result<Vec<String>> {
    let texts = list.as_list()?.iter();
    texts.map(|text| Ok(text.as_str()?.to_string())).collect()
}

impl Family {
    /// Adds the labels of a file that Python wrote, and returns its images.
    #[track_caller]
    fn pickled(&self, path: &Path, labels: &mut Vec<i64>) -> Result<Tensor> {
        let file = pt::load_pickle(path).map_err(|e| e.renamed(self.op))?;
        let inner = || -> Result<(Tensor, Vec<i64>)> {
            let data = file.get("data")?.as_tensor()?;
            let n = data.dims().first().copied().unwrap_or(0);
            let data = data.reshape([n, IMAGE[0], IMAGE[1], IMAGE[2]])?;
            let own = file.get(self.labels_key)?.as_list()?.iter();
            Ok((data, own.map(Value::as_int).collect::<Result<_>>()?))
        };
        let (data, own) = inner().map_err(|e| broken(self.op, path, e))?;
        if data.dtype() != DType::U8 {
            return Err(broken(
                self.op,
                path,
                format!("the images are of {}", data.dtype()),
            ));
        }
        self.check(path, &own, data.dims()[0])?;
        labels.extend(own);
        Ok(data)
    }

    /// Adds the labels of a binary file, and returns its images.
    #[track_caller]
    fn binary(&self, path: &Path, labels: &mut Vec<i64>) -> Result<Tensor> {
        let size: usize = IMAGE.iter().product();
        let records = read_records(self.op, path, &[self.labels + size])?;
        let n = records.dims()[0];
        let own = records.select(1, self.label)?.to_dtype(DType::I64)?;
        let own = own.to_vec::<i64>()?;
        self.check(path, &own, n)?;
        labels.extend(own);
        let images = records.narrow(1, self.labels as i64, size)?;
        images.reshape([n, IMAGE[0], IMAGE[1], IMAGE[2]])
    }

    #[track_caller]
    fn check(&self, path: &Path, labels: &[i64], images: usize) -> Result<()> {
        if labels.len() != images {
            let why = format!("there are {images} images and {} labels", labels.len());
            return Err(broken(self.op, path, why));
        }
        let classes = 0..self.classes as i64;
        match labels.iter().position(|label| !classes.contains(label)) {
            None => Ok(()),
            Some(i) => Err(broken(
                self.op,
                path,
                format!("record {i}: there is no class {}", labels[i]),
            )),
        }
    }
}

macro_rules! cifar {
    ($($(#[$doc:meta])* $dataset:ident, $builder:ident, $family:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// The files are those of the Python version, which torchvision reads (`pickle`, of which nothing but lists,
        /// numbers, texts and arrays is made), or of the binary version. Items are the image, uint8 `[3, 32, 32]`, and
        /// its class.
        #[derive(Clone, Debug)]
        pub struct $dataset {
            images: Images,
        }

        dataset_builder! {
            $builder of $dataset(root), i64;
            /// Whether this is the training set, or else the test set. The default is `true`.
            train: bool = true;
        }

        impl $dataset {
            /// The images, uint8 `[n, 3, 32, 32]`.
            pub fn data(&self) -> &Tensor {
                &self.images.data
            }

            /// The classes of the images.
            pub fn targets(&self) -> &[i64] {
                &self.images.labels
            }

            /// The names of the classes.
            pub fn classes(&self) -> &[String] {
                &self.images.classes
            }

            #[track_caller]
            fn open(of: $builder) -> Result<$dataset> {
                let images = Images::read(&$family, &of.root, of.train, of.download, of.changes)?;
                Ok($dataset { images })
            }
        }

        dataset!($dataset, i64, self, index, self.images.labels.len(), {
            self.images.get(stringify!($dataset), index)
        });
    )*};
}

cifar! {
    /// Small pictures of ten classes (`torchvision.datasets.CIFAR10`), in `root/cifar-10-batches-py` or
    /// `root/cifar-10-batches-bin`.
    ///
    /// ```
    /// use torsh_data::Dataset;
    /// use torsh_vision::datasets::CIFAR10;
    ///
    /// # let root = std::env::temp_dir().join(format!("torsh-cifar10-{}", std::process::id()));
    /// let folder = root.join("cifar-10-batches-bin");
    /// # std::fs::create_dir_all(&folder)?;
    /// // One image: its class, and the bytes of three planes of 32 x 32 pixels.
    /// std::fs::write(folder.join("test_batch.bin"), [&[3u8][..], &[200u8; 3072][..]].concat())?;
    /// let names = "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n";
    /// std::fs::write(folder.join("batches.meta.txt"), names)?;
    /// let test = CIFAR10::builder(&root).train(false).build()?;
    /// assert_eq!((test.data().dims(), test.targets()), (&[1, 3, 32, 32][..], &[3][..]));
    /// let (image, class) = test.get(0)?;
    /// assert_eq!((image.i((2, 5, 7))?.item::<u8>()?, &*test.classes()[class as usize]), (200, "cat"));
    /// # std::fs::remove_dir_all(&root)?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    CIFAR10, CIFAR10Builder, CIFAR_10;
    /// Small pictures of a hundred classes (`torchvision.datasets.CIFAR100`), in `root/cifar-100-python` or
    /// `root/cifar-100-binary`.
    ///
    /// ```
    /// use torsh_data::Dataset;
    /// use torsh_vision::datasets::CIFAR100;
    ///
    /// # let root = std::env::temp_dir().join(format!("torsh-cifar100-{}", std::process::id()));
    /// let folder = root.join("cifar-100-binary");
    /// # std::fs::create_dir_all(&folder)?;
    /// // One image: the group of its class, its class, and the bytes of three planes.
    /// std::fs::write(folder.join("test.bin"), [&[4u8, 51][..], &[200u8; 3072][..]].concat())?;
    /// let names: String = (0..100).map(|i| format!("class {i}\n")).collect();
    /// std::fs::write(folder.join("fine_label_names.txt"), names)?;
    /// let test = CIFAR100::builder(&root).train(false).build()?;
    /// assert_eq!((test.len(), test.targets()), (1, &[51][..]));
    /// assert_eq!(test.classes()[51], "class 51");
    /// # std::fs::remove_dir_all(&root)?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    CIFAR100, CIFAR100Builder, CIFAR_100;
}
