//! Datasets of images.

use std::path::Path;

use torsh_tensor::{DType, Device, Result, Tensor, TorshError};

use crate::dataset::out_of_range;
use crate::{Dataset, idx};

/// The classes of Fashion-MNIST, by label.
pub const FASHION_MNIST_CLASSES: [&str; 10] = [
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
];

/// Which part of a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// For training.
    Train,
    /// For testing.
    Test,
}

/// Grey images with labels in the files of MNIST: MNIST itself, Fashion-MNIST, KMNIST.
///
/// An item is the image as float32 `[1, height, width]` from 0 to 1, and its label; a batch
/// float32 `[n, 1, height, width]` and int64 `[n]`.
///
/// ```
/// use torsh_data::Dataset;
/// use torsh_data::vision::Mnist;
/// use torsh_tensor::{DType, tensor};
///
/// let images = tensor![[[0, 255]], [[255, 0]]].to_dtype(DType::U8)?;
/// let data = Mnist::from_tensors(images, tensor![7, 1].to_dtype(DType::U8)?)?;
/// assert_eq!(data.get(0)?, (tensor![[[0.0, 1.0]]], 7));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Mnist {
    images: Tensor,
    labels: Tensor,
}

impl Mnist {
    /// Reads `train-images-idx3-ubyte` and `train-labels-idx1-ubyte`, or the `t10k-` ones, each
    /// with or without `.gz`, from a directory. Errors name the file that is missing or damaged.
    ///
    /// ```
    /// use torsh_data::Dataset;
    /// use torsh_data::vision::{Mnist, Split};
    ///
    /// # let dir = std::env::temp_dir().join(format!("torsh-data-mnist-{}", std::process::id()));
    /// # std::fs::create_dir_all(&dir)?;
    /// // One image of one pixel, of class 7.
    /// std::fs::write(dir.join("t10k-images-idx3-ubyte"), [0u8, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 255])?;
    /// std::fs::write(dir.join("t10k-labels-idx1-ubyte"), [0u8, 0, 8, 1, 0, 0, 0, 1, 7])?;
    /// assert_eq!(Mnist::open(&dir, Split::Test)?.get(0)?.1, 7);
    /// let error = Mnist::open(&dir, Split::Train).unwrap_err().to_string();
    /// assert!(error.contains("has neither train-images-idx3-ubyte nor train-images-idx3-ubyte.gz"));
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn open(dir: impl AsRef<Path>, split: Split) -> Result<Mnist> {
        let dir = dir.as_ref();
        let prefix = match split {
            Split::Train => "train",
            Split::Test => "t10k",
        };
        let read = |name: String| {
            let plain = dir.join(&name);
            let packed = dir.join(format!("{name}.gz"));
            if !plain.exists() && !packed.exists() {
                return Err(TorshError::from(std::io::Error::new(
                    std::io::ErrorKind::NotFound,
                    format!("{} has neither {name} nor {name}.gz", dir.display()),
                )));
            }
            idx::read(if plain.exists() { plain } else { packed })
        };
        Mnist::from_tensors(
            read(format!("{prefix}-images-idx3-ubyte"))?,
            read(format!("{prefix}-labels-idx1-ubyte"))?,
        )
    }

    /// Images uint8 `[n, height, width]` and labels uint8 `[n]`, as the files hold them.
    #[torsh_tensor::names_caller(Self)]
    pub fn from_tensors(images: Tensor, labels: Tensor) -> Result<Mnist> {
        let fits = images.ndim() == 3 && labels.ndim() == 1 && images.dims()[0] == labels.dims()[0];
        if !fits || images.dtype() != DType::U8 || labels.dtype() != DType::U8 {
            return Err(TorshError::shape(
                "Mnist",
                format!(
                    "expected images uint8[n, height, width] and labels uint8[n], got {} and {}",
                    images.describe(),
                    labels.describe()
                ),
            ));
        }
        Ok(Mnist { images, labels })
    }

    /// The images, uint8 `[n, height, width]`.
    pub fn images(&self) -> &Tensor {
        &self.images
    }

    /// The labels, uint8 `[n]`.
    pub fn labels(&self) -> &Tensor {
        &self.labels
    }

    /// All items as one batch.
    ///
    /// ```
    /// use torsh_data::vision::Mnist;
    /// use torsh_tensor::{DType, tensor};
    ///
    /// let images = tensor![[[0, 255]], [[255, 0]]].to_dtype(DType::U8)?;
    /// let (x, y) = Mnist::from_tensors(images, tensor![7, 1].to_dtype(DType::U8)?)?.to_tensors()?;
    /// assert_eq!(x, tensor![[[[0.0, 1.0]]], [[[1.0, 0.0]]]]);
    /// assert_eq!(y, tensor![7, 1]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn to_tensors(&self) -> Result<(Tensor, Tensor)> {
        Ok((pixels(&self.images)?, self.labels.to_dtype(DType::I64)?))
    }
}

/// Images `[n, height, width]` as numbers from 0 to 1, `[n, 1, height, width]`.
fn pixels(images: &Tensor) -> Result<Tensor> {
    images.to_dtype(DType::F32)?.div(255.0)?.unsqueeze(1)
}

impl Dataset for Mnist {
    type Item = (Tensor, i64);

    fn len(&self) -> usize {
        self.labels.numel()
    }

    #[torsh_tensor::names_caller]
    fn get(&self, index: usize) -> Result<(Tensor, i64)> {
        if index >= self.len() {
            return Err(out_of_range(index, self.len()));
        }
        let image = self
            .images
            .select(0, index)?
            .to_dtype(DType::F32)?
            .div(255.0)?
            .unsqueeze(0)?;
        Ok((image, self.labels.select(0, index)?.item::<i64>()?))
    }

    #[torsh_tensor::names_caller]
    fn get_batch(&self, indices: &[usize]) -> Result<(Tensor, Tensor)> {
        if let Some(&i) = indices.iter().find(|&&i| i >= self.len()) {
            return Err(out_of_range(i, self.len()));
        }
        let list: Vec<i64> = indices.iter().map(|&i| i as i64).collect();
        let list = Tensor::from_slice(&list, [list.len()], DType::I64, Device::Cpu)?;
        let images = pixels(&self.images.index_select(0, &list)?)?;
        Ok((
            images,
            self.labels.index_select(0, &list)?.to_dtype(DType::I64)?,
        ))
    }
}
