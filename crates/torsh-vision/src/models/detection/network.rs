//! What all detectors do around what they make of feature maps.

use torsh_nn::{Module, Training};
use torsh_tensor::{Result, Tensor, TorshError, no_grad};

use super::Detector;
use super::backbones::Backbone;
use super::targets::{Detection, Losses, Needs, Target, check_targets};
use super::transform::{GeneralizedRCNNTransform, ImageList};
use crate::models::blocks::FeatureMaps;

/// The transform, the backbone and the mode of a detector.
pub(super) type Parts<'a> = (&'a GeneralizedRCNNTransform, &'a dyn Backbone, &'a Training);

/// Detections of each image, or losses.
pub(super) type Found = (Vec<Detection>, Losses);

/// A detector: what it makes of the feature maps of images. The rest is the same for all of them.
pub(super) trait Network: Module {
    fn parts(&self) -> Parts<'_>;

    /// What it asks of targets.
    fn needs(&self) -> Needs;

    /// Losses where there are targets, otherwise detections in the resized images.
    fn of_maps(
        &self,
        maps: FeatureMaps,
        images: &ImageList,
        targets: Option<&[Target]>,
    ) -> Result<Found>;
}

fn run(model: &impl Network, images: &[Tensor], targets: Option<&[Target]>) -> Result<Found> {
    if let Some(targets) = targets {
        check_targets(model.type_name(), images, targets, model.needs())?;
    }
    let (transform, backbone, _) = model.parts();
    let (list, targets) = transform.apply(images, targets, targets.is_some())?;
    let maps = backbone.features(&list.tensors)?;
    let (found, losses) = model.of_maps(maps, &list, targets.as_deref())?;
    let original: Vec<_> = images.iter().map(|x| (x.dims()[1], x.dims()[2])).collect();
    let found = transform.postprocess(found, &list.image_sizes, &original)?;
    Ok((found, losses))
}

impl<M: Network> Detector for M {
    #[torsh_tensor::names_caller]
    fn detect(&self, images: &[Tensor]) -> Result<Vec<Detection>> {
        if self.is_in_training() {
            return Err(TorshError::invalid(
                self.type_name(),
                "the model is in training mode, in which its norms read the batch",
            )
            .with_hint("call eval() before detect(), or losses() with targets"));
        }
        no_grad(|| Ok(run(self, images, None)?.0))
    }

    #[torsh_tensor::names_caller]
    fn losses(&self, images: &[Tensor], targets: &[Target]) -> Result<Losses> {
        Ok(run(self, images, Some(targets))?.1)
    }

    fn is_in_training(&self) -> bool {
        self.parts().2.get()
    }
}

/// The methods of a detector, by its [`Network`].
macro_rules! detector {
    ($name:ident) => {
        $crate::models::detection::heads::forward_is_with!(
            $name,
            "detect(&images), losses(&images, &targets) or forward_with(&images, targets)"
        );

        impl $crate::models::VisionModel for $name {
            fn as_detector(&self) -> Option<&dyn $crate::models::detection::Detector> {
                Some(self)
            }
        }

        impl $name {
            /// Finds what is in each image `[3, h, w]`, best first; in evaluation mode. No gradients are recorded.
            #[doc = $crate::models::common::example!(
                "use torsh_nn::ModuleExt;\n\
                 use torsh_tensor::{Device, Tensor, zeros};\n\
                 use torsh_vision::models::detection::", stringify!($name), ";\n\
                 let model = ", stringify!($name), "::builder().device(Device::Meta).build()?;\n\
                 // A new model is in training mode, and images are [3, h, w].\n\
                 let why = |images: &[Tensor]| model.detect(images).err().map(|e| e.to_string());\n\
                 assert!(why(&[zeros(&[3, 32, 32])]).is_some_and(|e| e.contains(\"call eval() before detect()\")));\n\
                 model.eval();\n\
                 assert!(why(&[zeros(&[1, 32, 32])]).is_some_and(|e| e.contains(\"images are [3, h, w]\")));"
            )]
            ///
            /// # Errors
            /// In training mode; images of another rank, dtype or number of channels.
            #[torsh_tensor::names_caller]
            pub fn detect(
                &self,
                images: &[torsh_tensor::Tensor],
            ) -> torsh_tensor::Result<Vec<$crate::models::detection::Detection>> {
                $crate::models::detection::Detector::detect(self, images)
            }

            /// Computes the losses of images with what is to be found in them.
            #[doc = $crate::models::common::example!(
                "use torsh_tensor::{Device, tensor, zeros};\n\
                 use torsh_vision::models::detection::{", stringify!($name), ", Target};\n\
                 let model = ", stringify!($name), "::builder().num_classes(3).device(Device::Meta).build()?;\n\
                 // There is no class 3 among three.\n\
                 let target = Target::new(tensor![[8.0, 8.0, 20.0, 20.0]], tensor![3]);\n\
                 let error = model.losses(&[zeros(&[3, 32, 32])], &[target]).err().map(|e| e.to_string());\n\
                 assert!(error.is_some_and(|e| e.contains(\"labels of target 0 are 0 to 2, got 3\")));"
            )]
            ///
            /// # Errors
            /// As many targets as images is what it takes, boxes with an area, a label for each of them, and what else the
            /// model needs.
            #[torsh_tensor::names_caller]
            pub fn losses(
                &self,
                images: &[torsh_tensor::Tensor],
                targets: &[$crate::models::detection::Target],
            ) -> torsh_tensor::Result<$crate::models::detection::Losses> {
                $crate::models::detection::Detector::losses(self, images, targets)
            }

            /// Computes the losses in training mode, otherwise finds what is in each image.
            #[doc = $crate::models::common::example!(
                "use torsh_tensor::{Device, zeros};\n\
                 use torsh_vision::models::detection::", stringify!($name), ";\n\
                 let model = ", stringify!($name), "::builder().device(Device::Meta).build()?;\n\
                 let error = model.forward_with(&[zeros(&[3, 32, 32])], None).err().map(|e| e.to_string());\n\
                 assert!(error.is_some_and(|e| e.contains(\"a detector in training mode needs targets\")));"
            )]
            ///
            /// # Errors
            /// In training mode without targets, and those of `detect` and `losses`.
            #[torsh_tensor::names_caller]
            pub fn forward_with(
                &self,
                images: &[torsh_tensor::Tensor],
                targets: Option<&[$crate::models::detection::Target]>,
            ) -> torsh_tensor::Result<$crate::models::detection::DetectorOutput> {
                $crate::models::detection::Detector::forward_with(self, images, targets)
            }
        }
    };
}
pub(super) use detector;
