//! Transforms of values.

use torsh_tensor::{DType, Result, Tensor, TorshError, option_setter};

use super::apply::{ItemTransform, fixed};
use super::arguments::{Pair, Size, Span};
use super::color::recolored;
use super::draws::{between, uniform};
use super::functional as f;
use super::sample::Item;
use super::{Transform, transforms};

transforms!(
    Normalize,
    GaussianBlur,
    GaussianNoise,
    ToDtype,
    ConvertImageDtype,
    LinearTransformation,
    JPEG,
    UniformTemporalSubsample
);

/// An image uint8 `[height, width, channels]`, as arrays of pixels are, as float32 `[channels, height, width]` from 0
/// to 1 (`torchvision.transforms.ToTensor`); other dtypes keep their values. For images that are `[channels, height,
/// width]` already there is [`ToDtype`].
///
/// ```
/// use torsh_tensor::{DType, tensor};
/// use torsh_vision::transforms::{ToTensor, Transform};
/// let pixels = tensor![[[0], [255]]].to_dtype(DType::U8)?;
/// assert_eq!(ToTensor.apply(&pixels)?, tensor![[[0.0, 1.0]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ToTensor;

impl Transform for ToTensor {
    #[torsh_tensor::names_caller]
    fn apply(&self, x: &Tensor) -> Result<Tensor> {
        let x = match x.dims() {
            [_, _] => x.unsqueeze(0)?,
            [_, _, 1..=4] => x.permute([2, 0, 1])?.contiguous()?,
            _ => {
                return Err(TorshError::shape(
                    "ToTensor",
                    format!(
                        "expected an image [height, width] or [height, width, channels] of 1 to 4 channels, got {}",
                        x.describe()
                    ),
                )
                .with_hint("for [channels, height, width] use ToDtype::new(DType::F32).scale(true)"));
            }
        };
        if x.dtype() == DType::U8 {
            x.to_dtype(DType::F32)?.div(255.0)
        } else {
            Ok(x)
        }
    }
}

/// Images and videos in another dtype (`torchvision.transforms.v2.ToDtype`); other items on request.
///
/// ```
/// use torsh_tensor::{DType, tensor};
/// use torsh_vision::transforms::{ToDtype, Transform};
/// let image = tensor![[[0, 255]]].to_dtype(DType::U8)?;
/// let float = ToDtype::new(DType::F32).scale(true).apply(&image)?;
/// assert!(float.allclose(&tensor![[[0.0, 1.0]]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ToDtype {
    dtype: DType,
    scale: bool,
    masks: Option<DType>,
    bounding_boxes: Option<DType>,
    keypoints: Option<DType>,
}

impl ToDtype {
    /// To this dtype.
    pub fn new(dtype: DType) -> Self {
        ToDtype {
            dtype,
            scale: false,
            masks: None,
            bounding_boxes: None,
            keypoints: None,
        }
    }

    setters! {
        /// Whether the largest value stays the largest: uint8 from 0 to 255 is float32 from 0 to 1 (false).
        scale: bool;
        /// The dtype of masks (as they are).
        masks: Option<DType>, impl Into<Option<DType>> => Into::into;
        /// The dtype of bounding boxes (as they are).
        bounding_boxes: Option<DType>, impl Into<Option<DType>> => Into::into;
        /// The dtype of key points (as they are).
        keypoints: Option<DType>, impl Into<Option<DType>> => Into::into;
    }
}

fixed!(ToDtype, self, item, {
    let dtype = match item {
        Item::Mask(_) => self.masks,
        Item::BoundingBoxes(_) => self.bounding_boxes,
        Item::KeyPoints(_) => self.keypoints,
        _ => return item.map(|x| f::to_dtype(x, self.dtype, self.scale)),
    };
    item.map(|x| dtype.map_or_else(|| Ok(x.clone()), |d| x.to_dtype(d)))
});

/// An image in another dtype, scaled so that the largest value stays the largest
/// (`torchvision.transforms.v2.ConvertImageDtype`): uint8 from 0 to 255 is float32 from 0 to 1.
///
/// ```
/// use torsh_tensor::{DType, tensor};
/// use torsh_vision::transforms::{ConvertImageDtype, Transform};
/// let image = tensor![[[0, 51, 255]]].to_dtype(DType::U8)?;
/// let float = ConvertImageDtype::new(DType::F32).apply(&image)?;
/// assert!(float.allclose(&tensor![[[0.0, 0.2, 1.0]]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ConvertImageDtype {
    dtype: DType,
}

impl ConvertImageDtype {
    /// To this dtype.
    pub fn new(dtype: DType) -> Self {
        ConvertImageDtype { dtype }
    }
}

impl Default for ConvertImageDtype {
    fn default() -> Self {
        ConvertImageDtype::new(DType::F32)
    }
}

fixed!(ConvertImageDtype, self, item, {
    recolored(item, |x| f::convert_image_dtype(x, self.dtype))
});

/// `(x - mean) / std` of each channel (`torchvision.transforms.v2.Normalize`).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::{Normalize, Transform};
/// assert_eq!(Normalize::new([1.0], [0.5])?.apply(&tensor![[[2.0, 0.0]]])?, tensor![[[2.0, -2.0]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Normalize {
    mean: Vec<f64>,
    std: Vec<f64>,
}

impl Normalize {
    /// The mean and deviation of each channel.
    ///
    /// ```
    /// use torsh_vision::transforms::Normalize;
    /// let error = Normalize::new([0.5], [0.5, 0.5]).unwrap_err().to_string();
    /// assert!(error.contains("a mean and a std for each channel, got 1 and 2"));
    /// ```
    ///
    /// # Errors
    /// Not as many of one as of the other, a deviation of 0.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(mean: impl Into<Vec<f64>>, std: impl Into<Vec<f64>>) -> Result<Self> {
        let (mean, std) = (mean.into(), std.into());
        let refuse = |m: String| Err(TorshError::invalid("Normalize", m));
        if mean.len() != std.len() || mean.is_empty() {
            return refuse(format!(
                "a mean and a std for each channel, got {} and {}",
                mean.len(),
                std.len()
            ));
        }
        if std.contains(&0.0) {
            return refuse("std has a zero, which leads to division by zero".to_string());
        }
        Ok(Normalize { mean, std })
    }
}

fixed!(Normalize, self, item, {
    recolored(item, |x| f::normalize(x, &self.mean, &self.std))
});

/// The image blurred by a random width (`torchvision.transforms.v2.GaussianBlur`).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::{GaussianBlur, Transform};
/// let point = tensor![[[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]];
/// let blurred = GaussianBlur::new(3)?.sigma(100.0)?.apply(&point)?;
/// assert!((blurred.i((0, 1, 1))?.item::<f64>()? - 1.0 / 9.0).abs() < 1e-4);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct GaussianBlur {
    kernel_size: Size,
    sigma: (f64, f64),
}

impl GaussianBlur {
    /// With a kernel of this size, odd, of x and y; the width is from 0.1 to 2.
    ///
    /// ```
    /// use torsh_vision::transforms::GaussianBlur;
    /// let error = GaussianBlur::new(4).unwrap_err().to_string();
    /// assert!(error.contains("kernel_size must be odd and positive, got One(4)"));
    /// ```
    ///
    /// # Errors
    /// An even size.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(kernel_size: impl Into<Size>) -> Result<Self> {
        let kernel_size = kernel_size.into();
        let (x, y) = kernel_size.both();
        if x % 2 == 0 || y % 2 == 0 {
            return Err(TorshError::invalid(
                Self::NAME,
                format!("kernel_size must be odd and positive, got {kernel_size:?}"),
            ));
        }
        Ok(GaussianBlur {
            kernel_size,
            sigma: (0.1, 2.0),
        })
    }

    /// From which to which width; one number is the width (0.1 to 2).
    ///
    /// ```
    /// use torsh_vision::transforms::GaussianBlur;
    /// let error = GaussianBlur::new(3)?.sigma((2.0, 0.1)).unwrap_err().to_string();
    /// assert!(error.contains("sigma must be positive and rising, got 2 to 0.1"));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Not positive, or falling.
    #[torsh_tensor::names_caller]
    pub fn sigma(mut self, sigma: impl Into<Span>) -> Result<Self> {
        let (from, to) = match sigma.into() {
            Span::Around(v) => (v, v),
            Span::Between(a, b) => (a, b),
        };
        if !(0.0 < from && from <= to) {
            return Err(TorshError::invalid(
                Self::NAME,
                format!("sigma must be positive and rising, got {from} to {to}"),
            ));
        }
        self.sigma = (from, to);
        Ok(self)
    }
}

impl ItemTransform for GaussianBlur {
    type Params = f64;
    const NAME: &'static str = "GaussianBlur";
    fn params(&self, _: &[&Item]) -> Result<f64> {
        Ok(uniform(self.sigma.0, self.sigma.1))
    }
    fn item(&self, item: &Item, sigma: &f64) -> Result<Item> {
        recolored(item, |x| {
            f::gaussian_blur(x, self.kernel_size, Pair(*sigma, *sigma))
        })
    }
}

/// The image with normally distributed numbers added (`torchvision.transforms.v2.GaussianNoise`).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::{GaussianNoise, Transform};
/// // Without a deviation the mean is added.
/// let brighter = GaussianNoise::new(0.5, 0.0)?;
/// let image = tensor![[[0.0, 0.75]]];
/// assert_eq!(brighter.apply(&image)?, tensor![[[0.5, 1.0]]]);
/// assert_eq!(brighter.clip(false).apply(&image)?, tensor![[[0.5, 1.25]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct GaussianNoise {
    mean: f64,
    sigma: f64,
    clip: bool,
}

impl Default for GaussianNoise {
    fn default() -> Self {
        GaussianNoise {
            mean: 0.0,
            sigma: 0.1,
            clip: true,
        }
    }
}

impl GaussianNoise {
    /// Of this mean and deviation, in parts of the largest value.
    ///
    /// # Errors
    /// A negative deviation.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(mean: f64, sigma: f64) -> Result<Self> {
        if !(sigma >= 0.0) {
            return Err(TorshError::invalid(
                Self::NAME,
                format!("sigma must not be negative, got {sigma}"),
            ));
        }
        Ok(GaussianNoise {
            mean,
            sigma,
            clip: true,
        })
    }

    option_setter! {
        /// Whether the result is kept from 0 to the largest value (true).
        clip: bool
    }
}

fixed!(GaussianNoise, self, item, {
    recolored(item, |x| {
        f::gaussian_noise(x, self.mean, self.sigma, self.clip)
    })
});

/// The image as one vector, less a mean, times a matrix, as whitening needs it
/// (`torchvision.transforms.v2.LinearTransformation`).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::{LinearTransformation, Transform};
/// let swap = LinearTransformation::new(tensor![[0.0, 1.0], [1.0, 0.0]], tensor![1.0, 1.0])?;
/// assert_eq!(swap.apply(&tensor![[[3.0, 5.0]]])?, tensor![[[4.0, 2.0]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct LinearTransformation {
    transformation_matrix: Tensor,
    mean_vector: Tensor,
}

impl LinearTransformation {
    /// With a matrix `[n, n]` and a mean `[n]`, where an image has `n = channels * height * width` numbers.
    ///
    /// ```
    /// use torsh_tensor::zeros;
    /// use torsh_vision::transforms::LinearTransformation;
    /// let error = LinearTransformation::new(zeros([2, 2]), zeros([3])).unwrap_err().to_string();
    /// assert!(error.contains("expected a square matrix and a vector as long"));
    /// ```
    ///
    /// # Errors
    /// Other shapes, or not one dtype and device.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(transformation_matrix: Tensor, mean_vector: Tensor) -> Result<Self> {
        let (m, v) = (&transformation_matrix, &mean_vector);
        let fits = matches!((m.dims(), v.dims()), ([a, b], [c]) if a == b && b == c);
        if !fits || m.dtype() != v.dtype() || m.device() != v.device() {
            return Err(TorshError::shape(
                Self::NAME,
                format!(
                    "expected a square matrix and a vector as long, of one dtype and device, got {} and {}",
                    m.describe(),
                    v.describe()
                ),
            ));
        }
        Ok(LinearTransformation {
            transformation_matrix,
            mean_vector,
        })
    }
}

fixed!(LinearTransformation, self, item, {
    recolored(item, |x| {
        let (c, h, w) = super::apply::dimensions(Self::NAME, x)?;
        let n = self.mean_vector.numel();
        if c * h * w != n {
            return Err(TorshError::shape(
                Self::NAME,
                format!("the matrix is for {n} numbers, got {}", x.describe()),
            ));
        }
        let flat = x.reshape([-1, n as i64])?.sub(&self.mean_vector)?;
        let matrix = self.transformation_matrix.to_dtype(flat.dtype())?;
        flat.mm(&matrix)?.reshape(x.dims())
    })
});

/// The image as it comes back from a JPEG file of random quality (`torchvision.transforms.v2.JPEG`).
///
/// ```
/// use torsh_tensor::{DType, full};
/// use torsh_vision::transforms::{JPEG, Transform};
/// // Plain grey is what any quality keeps.
/// let grey = full([1, 8, 8], 128).to_dtype(DType::U8)?;
/// assert_eq!(JPEG::new(10, 90)?.apply(&grey)?, grey);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct JPEG {
    quality: (u8, u8),
}

impl JPEG {
    /// Of a quality from which to which, of 1 to 100.
    ///
    /// ```
    /// use torsh_vision::transforms::JPEG;
    /// let error = JPEG::new(0, 90).unwrap_err().to_string();
    /// assert!(error.contains("the quality must rise and be from 1 to 100, got 0 to 90"));
    /// ```
    ///
    /// # Errors
    /// Other numbers, or falling.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(from: u8, to: u8) -> Result<Self> {
        if !(1 <= from && from <= to && to <= 100) {
            return Err(TorshError::invalid(
                Self::NAME,
                format!("the quality must rise and be from 1 to 100, got {from} to {to}"),
            ));
        }
        Ok(JPEG {
            quality: (from, to),
        })
    }
}

impl ItemTransform for JPEG {
    type Params = u8;
    const NAME: &'static str = "JPEG";
    fn params(&self, _: &[&Item]) -> Result<u8> {
        let (from, to) = self.quality;
        Ok(between(i64::from(from), i64::from(to) + 1) as u8)
    }
    fn item(&self, item: &Item, quality: &u8) -> Result<Item> {
        recolored(item, |x| f::jpeg(x, *quality))
    }
}

/// Some images of a video, evenly spaced (`torchvision.transforms.v2.UniformTemporalSubsample`).
///
/// ```
/// use torsh_tensor::Tensor;
/// use torsh_vision::transforms::{Transform, UniformTemporalSubsample};
/// let video = Tensor::from_data(&[0i64, 1, 2, 3, 4], [5, 1, 1, 1])?;
/// let three = UniformTemporalSubsample::new(3).apply(&video)?;
/// assert_eq!(three.to_vec::<i64>()?, [0, 2, 4]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct UniformTemporalSubsample {
    num_samples: usize,
}

impl UniformTemporalSubsample {
    /// So many.
    pub fn new(num_samples: usize) -> Self {
        UniformTemporalSubsample { num_samples }
    }
}

fixed!(UniformTemporalSubsample, self, item, {
    match item {
        Item::Video(_) | Item::Tensor(_) => {
            item.map(|x| f::uniform_temporal_subsample(x, self.num_samples))
        }
        other => Ok(other.clone()),
    }
});
