//! Street View House Numbers.

use torsh_tensor::{DType, Result, Tensor};

use super::archive::Source;
use super::common::{Changes, at, broken, dataset, dataset_builder, missing, parts};
use super::mat::read_mat;

const OP: &str = "SVHN";

parts! {
    /// The parts of [`SVHN`].
    SVHNSplit {
        /// 73,257 digits for training.
        Train "train",
        /// 26,032 digits for testing.
        Test "test",
        /// 531,131 easier digits for training.
        Extra "extra",
    }
}

/// Digits of house numbers (`torchvision.datasets.SVHN`), in `root/train_32x32.mat`, `test_32x32.mat` and
/// `extra_32x32.mat`.
///
/// Items are the image, uint8 `[3, 32, 32]`, and its digit: the file's class 10 is the digit 0.
#[derive(Clone, Debug)]
pub struct SVHN {
    data: Tensor,
    labels: Vec<i64>,
    changes: Changes<i64>,
}

dataset_builder! {
    SVHNBuilder of SVHN(root), i64;
    /// The part. The default is the training set.
    split: SVHNSplit = SVHNSplit::Train;
}

impl SVHN {
    /// The images, uint8 `[n, 3, 32, 32]`.
    pub fn data(&self) -> &Tensor {
        &self.data
    }

    /// The digits of the images.
    pub fn labels(&self) -> &[i64] {
        &self.labels
    }

    #[track_caller]
    fn open(of: SVHNBuilder) -> Result<SVHN> {
        let name = format!("{}_32x32.mat", of.split);
        let path = of.root.join(&name);
        if of.download && !path.is_file() {
            let md5 = match of.split {
                SVHNSplit::Train => "e26dedcc434d2e4c54c9b2d4a06d8373",
                SVHNSplit::Test => "eb5a983be6a315427106f1b164d9cef3",
                SVHNSplit::Extra => "a93ce644f1a588dc4d68dda5feec44a7",
            };
            let url = format!("http://ufldl.stanford.edu/housenumbers/{name}");
            Source::new(url, md5).download(&of.root)?;
        }
        if !path.is_file() {
            return Err(missing(OP, &path, "download(true) gets it"));
        }
        let arrays = read_mat(&path).map_err(|e| e.renamed(OP))?;
        let array = |name: &str| {
            let found = arrays
                .iter()
                .find(|(n, _)| n == name)
                .map(|(_, array)| array);
            found.ok_or_else(|| broken(OP, &path, format!("there is no array {name:?}")))
        };
        let (images, labels) = (array("X")?, array("y")?);
        let fits = images.dtype() == DType::U8
            && images.ndim() == 4
            && images.dims()[..3] == [32, 32, 3]
            && images.dims()[3] == labels.numel();
        if !fits {
            let why = format!(
                "expected images uint8[32, 32, 3, n] and n labels, got {} and {}",
                images.describe(),
                labels.describe()
            );
            return Err(broken(OP, &path, why));
        }
        let labels = labels
            .reshape([-1])?
            .to_dtype(DType::I64)?
            .to_vec::<i64>()?;
        if let Some(i) = labels.iter().position(|label| !(0..=10).contains(label)) {
            let why = format!("image {i}: there is no digit {}", labels[i]);
            return Err(broken(OP, &path, why));
        }
        Ok(SVHN {
            data: images.permute([3, 2, 0, 1])?,
            labels: labels.into_iter().map(|label| label % 10).collect(),
            changes: of.changes,
        })
    }
}

dataset!(SVHN, i64, self, index, self.labels.len(), {
    let label = *at(OP, &self.labels, index)?;
    let image = self.data.select(0, index)?.contiguous()?;
    self.changes.apply(image, label)
});
