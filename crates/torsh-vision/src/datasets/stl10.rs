//! STL-10.

use std::path::Path;

use torsh_tensor::{DType, Device, Result, Tensor, TorshError, cat};

use super::archive::Source;
use super::common::{
    Changes, at, broken, dataset, dataset_builder, missing, parts, read, read_records, read_text,
};

const OP: &str = "STL10";

parts! {
    /// The parts of [`STL10`].
    STL10Split {
        /// 5,000 images with classes, for training.
        Train "train",
        /// 8,000 images with classes, for testing.
        Test "test",
        /// 100,000 images without classes.
        Unlabeled "unlabeled",
        /// Those for training and those without classes.
        TrainUnlabeled "train+unlabeled",
    }
}

/// Pictures of ten classes, and many without a class (`torchvision.datasets.STL10`), in `root/stl10_binary`.
///
/// Items are the image, uint8 `[3, 96, 96]`, and its class, which is -1 where there is none.
///
/// ```
/// use torsh_data::Dataset;
/// use torsh_vision::datasets::{STL10, STL10Split};
///
/// # let root = std::env::temp_dir().join(format!("torsh-stl10-{}", std::process::id()));
/// let folder = root.join("stl10_binary");
/// # std::fs::create_dir_all(&folder)?;
/// std::fs::write(folder.join("test_X.bin"), [200u8; 3 * 96 * 96])?;
/// std::fs::write(folder.join("test_y.bin"), [3u8])?; // the files count from 1
/// std::fs::write(folder.join("class_names.txt"), "airplane\nbird\ncar\n")?;
/// let test = STL10::builder(&root).split(STL10Split::Test).build()?;
/// let (image, class) = test.get(0)?;
/// assert_eq!((image.dims(), class), (&[3, 96, 96][..], 2));
/// assert_eq!(test.classes()[2], "car");
/// # std::fs::remove_dir_all(&root)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct STL10 {
    data: Tensor,
    labels: Vec<i64>,
    classes: Vec<String>,
    changes: Changes<i64>,
}

dataset_builder! {
    STL10Builder of STL10(root), i64;
    /// The part. The default is the training set.
    split: STL10Split = STL10Split::Train;
    @hidden folds: Option<usize> = None;
}

impl STL10Builder {
    /// Which of ten parts of the training set, from 0 to 9. The default is all of it.
    pub fn folds(mut self, fold: usize) -> Self {
        self.folds = Some(fold);
        self
    }
}

/// Images, and their classes where there are any.
#[track_caller]
fn load(folder: &Path, images: &str, labels: Option<&str>) -> Result<(Tensor, Vec<i64>)> {
    // The file has the images' columns one after another.
    let data = read_records(OP, &folder.join(images), &[3, 96, 96])?.transpose(2, 3)?;
    let Some(name) = labels else {
        let n = data.dims()[0];
        return Ok((data, vec![-1; n]));
    };
    let path = folder.join(name);
    let labels = read(&path)?;
    if labels.len() != data.dims()[0] {
        let why = format!(
            "there are {} labels and {} images",
            labels.len(),
            data.dims()[0]
        );
        return Err(broken(OP, &path, why));
    }
    if let Some(i) = labels.iter().position(|label| !(1..=10).contains(label)) {
        let why = format!("image {i}: there is no class {}", labels[i]);
        return Err(broken(OP, &path, why));
    }
    Ok((
        data,
        labels.iter().map(|label| i64::from(*label) - 1).collect(),
    ))
}

/// The numbers of a fold's images, of `n`.
#[track_caller]
fn fold(folder: &Path, fold: usize, n: usize) -> Result<Vec<i64>> {
    let path = folder.join("fold_indices.txt");
    let text = read_text(OP, &path)?;
    let at = |why: String| broken(OP, &path, format!("line {}: {why}", fold + 1));
    let line = text.lines().nth(fold);
    let line = line.ok_or_else(|| at("it is not there".to_string()))?;
    line.split_whitespace()
        .map(|word| match word.parse::<i64>() {
            Ok(i) if i >= 0 && (i as usize) < n => Ok(i),
            _ => Err(at(format!("{word:?} is no number of one of {n} images"))),
        })
        .collect()
}

impl STL10 {
    /// The images, uint8 `[n, 3, 96, 96]`.
    pub fn data(&self) -> &Tensor {
        &self.data
    }

    /// The classes of the images, -1 where there is none.
    pub fn labels(&self) -> &[i64] {
        &self.labels
    }

    /// The names of the classes; none where their file is not there.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    #[track_caller]
    fn open(of: STL10Builder) -> Result<STL10> {
        if let Some(fold) = of.folds.filter(|fold| *fold > 9) {
            let why = format!("folds is from 0 to 9, got {fold}");
            return Err(TorshError::invalid(OP, why));
        }
        let folder = of.root.join("stl10_binary");
        if of.download && !folder.is_dir() {
            let source = Source::new(
                "http://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz",
                "91f7769df0f17e558f3565bffb0c7dfb",
            );
            source.unpack(&of.root)?;
        }
        if !folder.is_dir() {
            return Err(missing(OP, &folder, "download(true) gets it"));
        }
        let train = || -> Result<(Tensor, Vec<i64>)> {
            let (data, labels) = load(&folder, "train_X.bin", Some("train_y.bin"))?;
            let Some(number) = of.folds else {
                return Ok((data, labels));
            };
            let own = fold(&folder, number, labels.len())?;
            let index = Tensor::from_slice(&own, [own.len()], DType::I64, Device::Cpu)?;
            let labels = own.iter().map(|i| labels[*i as usize]).collect();
            Ok((data.index_select(0, &index)?, labels))
        };
        let (data, labels) = match of.split {
            STL10Split::Train => train()?,
            STL10Split::Test => load(&folder, "test_X.bin", Some("test_y.bin"))?,
            STL10Split::Unlabeled => load(&folder, "unlabeled_X.bin", None)?,
            STL10Split::TrainUnlabeled => {
                let (data, mut labels) = train()?;
                let (more, none) = load(&folder, "unlabeled_X.bin", None)?;
                labels.extend(none);
                (cat(&[data, more], 0)?, labels)
            }
        };
        let names = folder.join("class_names.txt");
        let classes = match names.is_file() {
            true => read_text(OP, &names)?.lines().map(str::to_string).collect(),
            false => Vec::new(),
        };
        Ok(STL10 {
            data,
            labels,
            classes,
            changes: of.changes,
        })
    }
}

dataset!(STL10, i64, self, index, self.labels.len(), {
    let label = *at(OP, &self.labels, index)?;
    let image = self.data.select(0, index)?.contiguous()?;
    self.changes.apply(image, label)
});
