//! The preparation of images of any pretrained weights, and how preparations print.

use std::fmt;

use torsh_tensor::{InterpolateMode, Result, Tensor};

use super::arguments::Size;
use super::{
    ImageClassification, ObjectDetection, OpticalFlow, SemanticSegmentation, Transform,
    VideoClassification,
};

/// The preparation that belongs to pretrained weights, as
/// [`WeightsInfo::transforms`](crate::models::WeightsInfo::transforms) returns it.
///
/// It prints as in torchvision:
///
/// ```
/// use torsh_vision::models::ResNet50Weights;
/// let printed = ResNet50Weights::DEFAULT.transforms().to_string();
/// assert!(printed.starts_with("ImageClassification(\n    crop_size=[224]\n    resize_size=[232]\n"));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Preset {
    /// Of classifiers of images.
    ImageClassification(ImageClassification),
    /// Of detectors.
    ObjectDetection(ObjectDetection),
    /// Of models of segmentation.
    SemanticSegmentation(SemanticSegmentation),
    /// Of classifiers of videos.
    VideoClassification(VideoClassification),
    /// Of models of optical flow; applied to each of both images.
    OpticalFlow(OpticalFlow),
}

macro_rules! presets {
    ($($name:ident),*) => {
        $(
            impl From<$name> for Preset {
                fn from(preset: $name) -> Preset {
                    Preset::$name(preset)
                }
            }
        )*

        impl Transform for Preset {
            #[torsh_tensor::names_caller]
            fn apply(&self, x: &Tensor) -> Result<Tensor> {
                match self {
                    $(Preset::$name(preset) => preset.apply(x),)*
                }
            }
        }

        impl fmt::Display for Preset {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Preset::$name(preset) => fmt::Display::fmt(preset, f),)*
                }
            }
        }
    };
}

presets!(
    ImageClassification,
    ObjectDetection,
    SemanticSegmentation,
    VideoClassification,
    OpticalFlow
);

/// A size as torchvision prints it.
pub(super) fn shown(size: Size) -> String {
    match size {
        Size::One(n) => format!("[{n}]"),
        Size::Both(h, w) => format!("[{h}, {w}]"),
    }
}

/// An interpolation as torchvision prints it.
pub(super) fn mode(mode: InterpolateMode) -> String {
    let name = match mode {
        InterpolateMode::NearestExact => "NEAREST_EXACT".to_string(),
        other => format!("{other:?}").to_uppercase(),
    };
    format!("InterpolationMode.{name}")
}

/// `NAME(` and a line for each argument.
pub(super) fn print(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    lines: &[(&str, String)],
) -> fmt::Result {
    if lines.is_empty() {
        return write!(f, "{name}()");
    }
    write!(f, "{name}(")?;
    for (argument, value) in lines {
        write!(f, "\n    {argument}={value}")?;
    }
    write!(f, "\n)")
}
