//! What models expect of their input, as the `transforms()` of torchvision's weights.

use std::fmt;

use torsh_tensor::{DType, InterpolateMode, Result, Tensor, TorshError};

use super::Transform;
use super::arguments::Size;
use super::functional::{self as f, ResizeOptions};
use super::preset::{mode, print, shown};

/// The means of ImageNet's channels.
pub const IMAGENET_MEAN: [f64; 3] = [0.485, 0.456, 0.406];
/// The deviations of ImageNet's channels.
pub const IMAGENET_STD: [f64; 3] = [0.229, 0.224, 0.225];

/// Resized, cropped in the middle, as float32 from 0 to 1, normalised
/// (`torchvision.transforms._presets.ImageClassification`).
///
/// ```
/// use torsh_tensor::{DType, zeros};
/// use torsh_vision::transforms::{ImageClassification, Transform};
/// let image = zeros([3, 300, 400]).to_dtype(DType::U8)?;
/// let x = ImageClassification::new(224).resize_size(232).apply(&image)?;
/// assert_eq!((x.dims(), x.dtype()), (&[3, 224, 224][..], DType::F32));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ImageClassification {
    crop_size: Size,
    resize_size: Size,
    mean: Vec<f64>,
    std: Vec<f64>,
    interpolation: InterpolateMode,
    antialias: bool,
}

impl ImageClassification {
    /// To this size, from a shorter side of 256, with ImageNet's means and deviations.
    ///
    /// ```
    /// use torsh_tensor::{DType, tensor};
    /// use torsh_vision::transforms::{ImageClassification, Transform};
    /// let white = tensor![[[255]], [[255]], [[255]]].to_dtype(DType::U8)?;
    /// let x = ImageClassification::new(1).resize_size(1).apply(&white)?;
    /// // 1 less the mean, by the deviation.
    /// assert!(x.allclose(&tensor![[[0.515 / 0.229]], [[0.544 / 0.224]], [[0.594 / 0.225]]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn new(crop_size: impl Into<Size>) -> Self {
        ImageClassification {
            crop_size: crop_size.into(),
            resize_size: Size::One(256),
            mean: IMAGENET_MEAN.to_vec(),
            std: IMAGENET_STD.to_vec(),
            interpolation: InterpolateMode::Bilinear,
            antialias: true,
        }
    }

    setters! {
        /// The size before the crop: of the shorter side, or both (256).
        resize_size: Size, impl Into<Size> => Into::into;
        /// The means of the channels (ImageNet's).
        mean: Vec<f64>, impl Into<Vec<f64>> => Into::into;
        /// The deviations of the channels (ImageNet's).
        std: Vec<f64>, impl Into<Vec<f64>> => Into::into;
        /// How the image is resized (Bilinear).
        interpolation: InterpolateMode, impl Into<InterpolateMode> => Into::into;
        /// Whether an image that becomes smaller is smoothed (true).
        antialias: bool;
    }

    /// The part that videos have as well.
    fn prepared(&self, x: &Tensor) -> Result<Tensor> {
        let options = ResizeOptions::new()
            .interpolation(self.interpolation)
            .antialias(self.antialias);
        let x = f::resize_with(x, self.resize_size, options)?;
        let x = f::center_crop(&x, self.crop_size)?;
        let x = f::convert_image_dtype(&x, DType::F32)?;
        f::normalize(&x, &self.mean, &self.std)
    }
}

impl Transform for ImageClassification {
    #[torsh_tensor::names_caller]
    fn apply(&self, x: &Tensor) -> Result<Tensor> {
        self.prepared(x)
            .map_err(|e| e.renamed("ImageClassification"))
    }
}

/// As float32 from 0 to 1 (`torchvision.transforms._presets.ObjectDetection`).
///
/// ```
/// use torsh_tensor::{DType, tensor};
/// use torsh_vision::transforms::{ObjectDetection, Transform};
/// let image = tensor![[[0, 51, 255]]].to_dtype(DType::U8)?;
/// assert!(ObjectDetection.apply(&image)?.allclose(&tensor![[[0.0, 0.2, 1.0]]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ObjectDetection;

impl Transform for ObjectDetection {
    #[torsh_tensor::names_caller]
    fn apply(&self, x: &Tensor) -> Result<Tensor> {
        f::convert_image_dtype(x, DType::F32).map_err(|e| e.renamed("ObjectDetection"))
    }
}

/// As float32 from -1 to 1 (`torchvision.transforms._presets.OpticalFlow`).
///
/// ```
/// use torsh_tensor::{DType, tensor};
/// use torsh_vision::transforms::{OpticalFlow, Transform};
/// let image = tensor![[[0, 255]]].to_dtype(DType::U8)?;
/// assert!(OpticalFlow.apply(&image)?.allclose(&tensor![[[-1.0, 1.0]]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct OpticalFlow;

impl Transform for OpticalFlow {
    #[torsh_tensor::names_caller]
    fn apply(&self, x: &Tensor) -> Result<Tensor> {
        let inner = || f::normalize(&f::convert_image_dtype(x, DType::F32)?, &[0.5], &[0.5]);
        inner().map_err(|e: TorshError| e.renamed("OpticalFlow"))
    }
}

/// Resized, as float32 from 0 to 1, normalised (`torchvision.transforms._presets.SemanticSegmentation`).
///
/// ```
/// use torsh_tensor::{DType, tensor};
/// use torsh_vision::transforms::{SemanticSegmentation, Transform};
/// let white = tensor![[[255]], [[255]], [[255]]].to_dtype(DType::U8)?;
/// let x = SemanticSegmentation::new(520).without_resize().apply(&white)?;
/// assert!(x.allclose(&tensor![[[0.515 / 0.229]], [[0.544 / 0.224]], [[0.594 / 0.225]]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct SemanticSegmentation {
    resize_size: Option<Size>,
    mean: Vec<f64>,
    std: Vec<f64>,
}

impl SemanticSegmentation {
    /// To a shorter side of this size, or both sides; with ImageNet's means and deviations.
    ///
    /// ```
    /// use torsh_tensor::{DType, zeros};
    /// use torsh_vision::transforms::{SemanticSegmentation, Transform};
    /// let image = zeros([3, 20, 30]).to_dtype(DType::U8)?;
    /// assert_eq!(SemanticSegmentation::new(10).apply(&image)?.dims(), [3, 10, 15]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn new(resize_size: impl Into<Size>) -> Self {
        SemanticSegmentation {
            resize_size: Some(resize_size.into()),
            mean: IMAGENET_MEAN.to_vec(),
            std: IMAGENET_STD.to_vec(),
        }
    }

    /// Of the size that the image has.
    #[must_use]
    pub fn without_resize(mut self) -> Self {
        self.resize_size = None;
        self
    }
}

impl Transform for SemanticSegmentation {
    #[torsh_tensor::names_caller]
    fn apply(&self, x: &Tensor) -> Result<Tensor> {
        let inner = || {
            let x = match self.resize_size {
                Some(size) => f::resize(x, size)?,
                None => x.clone(),
            };
            let x = f::convert_image_dtype(&x, DType::F32)?;
            f::normalize(&x, &self.mean, &self.std)
        };
        inner().map_err(|e: TorshError| e.renamed("SemanticSegmentation"))
    }
}

/// A video `[.., time, channels, height, width]` resized, cropped in the middle, as float32 from 0 to 1, normalised, as
/// `[.., channels, time, height, width]` (`torchvision.transforms._presets.VideoClassification`).
///
/// ```
/// use torsh_tensor::{DType, zeros};
/// use torsh_vision::transforms::{Transform, VideoClassification};
/// let video = zeros([4, 3, 30, 40]).to_dtype(DType::U8)?;
/// assert_eq!(VideoClassification::new([16, 16], [20, 26]).apply(&video)?.dims(), [3, 4, 16, 16]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct VideoClassification(ImageClassification);

impl VideoClassification {
    /// To the first size, from the second, with the means and deviations of Kinetics-400.
    pub fn new(crop_size: impl Into<Size>, resize_size: impl Into<Size>) -> Self {
        VideoClassification(
            ImageClassification::new(crop_size)
                .resize_size(resize_size)
                .mean([0.43216, 0.394666, 0.37645])
                .std([0.22803, 0.22145, 0.216989])
                .antialias(false),
        )
    }

    /// The means and deviations of the channels.
    #[must_use]
    pub fn statistics(mut self, mean: [f64; 3], std: [f64; 3]) -> Self {
        self.0 = self.0.mean(mean).std(std);
        self
    }
}

impl Transform for VideoClassification {
    #[torsh_tensor::names_caller]
    fn apply(&self, x: &Tensor) -> Result<Tensor> {
        const OP: &str = "VideoClassification";
        if x.ndim() < 4 {
            return Err(TorshError::shape(
                OP,
                format!(
                    "expected a video [.., time, channels, height, width], got {}",
                    x.describe()
                ),
            ));
        }
        let inner = || self.0.prepared(x)?.transpose(-4, -3)?.contiguous();
        inner().map_err(|e: TorshError| e.renamed(OP))
    }
}

/// An image as the models of torchvision want it: [`ImageClassification`] to 224 x 224 pixels, as a batch of one,
/// `[1, 3, 224, 224]`. A grey image gets three channels.
///
/// # Errors
/// Not an image.
///
/// ```
/// use torsh_tensor::{DType, zeros};
/// use torsh_vision::transforms::preprocess_image;
/// let image = zeros([3, 300, 400]).to_dtype(DType::U8)?;
/// assert_eq!(preprocess_image(&image)?.dims(), [1, 3, 224, 224]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn preprocess_image(image: impl AsRef<Tensor>) -> Result<Tensor> {
    let inner = || {
        let rgb = f::grayscale_to_rgb(image.as_ref())?;
        ImageClassification::new(224).apply(&rgb)?.unsqueeze(0)
    };
    inner().map_err(|e: TorshError| e.renamed("preprocess_image"))
}

impl ImageClassification {
    fn print(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = [
            ("crop_size", shown(self.crop_size)),
            ("resize_size", shown(self.resize_size)),
            ("mean", format!("{:?}", self.mean)),
            ("std", format!("{:?}", self.std)),
            ("interpolation", mode(self.interpolation)),
        ];
        print(f, name, &lines)
    }
}

/// As torchvision prints it.
impl fmt::Display for ImageClassification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.print("ImageClassification", f)
    }
}

/// As torchvision prints it.
impl fmt::Display for VideoClassification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.print("VideoClassification", f)
    }
}

/// As torchvision prints it.
impl fmt::Display for SemanticSegmentation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.resize_size.map_or("None".to_string(), shown);
        let lines = [
            ("resize_size", size),
            ("mean", format!("{:?}", self.mean)),
            ("std", format!("{:?}", self.std)),
            ("interpolation", mode(InterpolateMode::Bilinear)),
        ];
        print(f, "SemanticSegmentation", &lines)
    }
}

/// As torchvision prints it.
impl fmt::Display for ObjectDetection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(f, "ObjectDetection", &[])
    }
}

/// As torchvision prints it.
impl fmt::Display for OpticalFlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(f, "OpticalFlow", &[])
    }
}
