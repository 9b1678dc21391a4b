//! Images of random numbers.

use std::fmt;

use torsh_core::random::LocalGenerator;
use torsh_data::Dataset;
use torsh_tensor::{DType, Device, Result, Tensor, TorshError};

use super::common::{Changes, out_of_range};
use crate::transforms::Transform;

const OP: &str = "FakeData";

/// Images of random numbers with random classes (`torchvision.datasets.FakeData`), which are torchvision's.
///
/// Items are the image, uint8 of the size that is asked for, and its class. An item depends on its index alone.
///
/// ```
/// use torsh_data::Dataset;
/// use torsh_vision::datasets::FakeData;
///
/// let data = FakeData::new(100).image_size([3, 8, 8]).num_classes(5);
/// let (image, class) = data.get(7)?;
/// assert_eq!((data.len(), image.dims()), (100, &[3, 8, 8][..]));
/// assert_eq!((image, class), data.get(7)?);
/// assert!((0..5).contains(&class));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone)]
pub struct FakeData {
    size: usize,
    image_size: [usize; 3],
    num_classes: usize,
    random_offset: u64,
    changes: Changes<i64>,
}

impl Default for FakeData {
    /// Of 1,000 items.
    fn default() -> Self {
        FakeData::new(1000)
    }
}

impl FakeData {
    /// Of so many images of 3 x 224 x 224 and 10 classes.
    ///
    /// ```
    /// use torsh_data::Dataset;
    /// use torsh_vision::datasets::FakeData;
    /// let data = FakeData::new(10);
    /// assert_eq!(data.get(0)?.0.dims(), [3, 224, 224]);
    /// let error = data.get(10).unwrap_err().to_string();
    /// assert!(error.contains("index 10 is out of range for a dataset of 10 items"));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn new(size: usize) -> FakeData {
        FakeData {
            size,
            image_size: [3, 224, 224],
            num_classes: 10,
            random_offset: 0,
            changes: Changes::default(),
        }
    }

    setters! {
        /// Channels, height and width. The default is 3 x 224 x 224.
        image_size: [usize; 3];
        /// The number of classes, at least 1. The default is 10.
        num_classes: usize;
        /// What is added to the index for the seed of an item. The default is 0.
        random_offset: u64;
    }

    /// Changes every image.
    #[must_use]
    pub fn transform(mut self, transform: impl Transform + 'static) -> Self {
        self.changes.set_transform(transform);
        self
    }

    /// Changes every class.
    #[must_use]
    pub fn target_transform(
        mut self,
        f: impl Fn(i64) -> Result<i64> + Send + Sync + 'static,
    ) -> Self {
        self.changes.set_target_transform(f);
        self
    }
}

impl fmt::Debug for FakeData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(OP)
            .field("size", &self.size)
            .field("image_size", &self.image_size)
            .field("num_classes", &self.num_classes)
            .field("random_offset", &self.random_offset)
            .finish_non_exhaustive()
    }
}

impl Dataset for FakeData {
    type Item = (Tensor, i64);

    fn len(&self) -> usize {
        self.size
    }

    #[torsh_tensor::names_caller]
    fn get(&self, index: usize) -> Result<(Tensor, i64)> {
        if index >= self.size {
            return Err(out_of_range(OP, index, self.size));
        }
        let seed = (index as u64).wrapping_add(self.random_offset);
        let (numbers, class) = LocalGenerator::new(seed).scope(|| -> Result<_> {
            let numbers = Tensor::randn(self.image_size, DType::F32, Device::Cpu)?;
            let classes = self.num_classes as i64;
            let class = Tensor::randint(0, classes, [1], DType::I64, Device::Cpu)?;
            Ok((numbers.to_vec::<f32>()?, class.item::<i64>()?))
        })?;
        // As NumPy converts numbers that are no bytes: the lowest eight bits of the whole number.
        let bytes: Vec<u8> = numbers.iter().map(|v| (v * 255.0) as i32 as u8).collect();
        let image = Tensor::from_slice(&bytes, self.image_size, DType::U8, Device::Cpu)?;
        self.changes.apply(image, class)
    }

    #[torsh_tensor::names_caller]
    fn check(&self) -> Result<()> {
        match self.num_classes {
            0 => Err(TorshError::invalid(OP, "there is at least one class")),
            _ => Ok(()),
        }
    }
}
