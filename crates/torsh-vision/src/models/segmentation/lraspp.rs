//! LRASPP.

use torsh_nn::{
    AdaptiveAvgPool2d, BatchNorm2d, Conv2d, Hooks, Module, ReLU, Sequential, Sigmoid, Training,
};
use torsh_tensor::{Result, Tensor, TorshError};

use super::{SegmentationOutput, features, missing, mobilenet, resized_as};
use crate::models::blocks::IntermediateLayerGetter;
use crate::models::builder::model_builder;
use crate::models::checks::check_rank;
use crate::models::common::VisionModel;
use crate::models::{Weights, constructors};

/// A lite reduced atrous spatial pyramid: features of stride 16, weighted by their mean, and of stride 8 of a
/// MobileNetV3 are classified, and the scores resized to the image (Howard et al., "Searching for MobileNetV3",
/// <https://arxiv.org/abs/1905.02244>).
///
/// Takes images `[N, 3, H, W]`; 21 classes unless the builder says otherwise.
///
/// | constructor | parameters |
/// |---|---|
/// | [`lraspp_mobilenet_v3_large`] | 3,221,538 |
///
/// ```
/// use torsh_nn::{Module, ModuleExt};
/// use torsh_tensor::rand;
/// use torsh_vision::models::segmentation::LRASPP;
/// let model = LRASPP::builder().num_classes(3).build()?;
/// model.eval();
/// assert_eq!(model.forward(&rand(&[1, 3, 33, 40]))?.dims(), [1, 3, 33, 40]);
/// assert_eq!(model.num_parameters(), 3_218_478);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct LRASPP {
    backbone: IntermediateLayerGetter,
    classifier: LRASPPHead,
    training: Training,
    hooks: Hooks,
}

model_builder! {
    /// Builds an [`LRASPP`]. The default is the paper's.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_tensor::Device;
    /// use torsh_vision::models::segmentation::LRASPP;
    /// let model = LRASPP::builder().inter_channels(64).device(Device::Meta).build()?;
    /// // Half of two convolutions of 960 channels, of a norm and of the scores of the 21 classes.
    /// assert_eq!(model.num_parameters(), 3_221_538 - 64 * (2 * 960 + 2 + 21));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    LRASPPBuilder of LRASPP, Segmentation 3_221_538 parameters, head ["classifier.low_classifier.", "classifier.high_classifier."];
    options {
        /// Channels between the features and the scores. The default is 128.
        inter_channels: usize = 128;
    }
    parts {
        /// Where the backbone's weights come from, those of a whole classifier, unless `weights` has them. The default
        /// is drawn.
        weights_backbone: Weights = Weights::None, impl Into<Weights> => Into::into;
    }
}

constructors! {
    Segmentation, LRASPP;
    /// LRASPP on a large MobileNetV3: 3.2 million parameters, images of any size; the published weights are for 520 x
    /// 520 (<https://arxiv.org/abs/1905.02244>).
    lraspp_mobilenet_v3_large, 3_221_538 parameters => LRASPPBuilder { name: "lraspp_mobilenet_v3_large", ..Default::default() };
}

/// Two levels of features together.
#[derive(Module)]
struct LRASPPHead {
    cbr: Sequential,
    scale: Sequential,
    low_classifier: Conv2d,
    high_classifier: Conv2d,
    hooks: Hooks,
}

impl LRASPPHead {
    fn new(low: usize, high: usize, num_classes: usize, inner: usize) -> Result<LRASPPHead> {
        let pointwise = || Conv2d::builder(high, inner, 1).bias(false).build();
        Ok(LRASPPHead {
            cbr: Sequential::new()
                .add(pointwise()?)
                .add(BatchNorm2d::new(inner)?)
                .add(ReLU::new()),
            scale: Sequential::new()
                .add(AdaptiveAvgPool2d::new(1)?)
                .add(pointwise()?)
                .add(Sigmoid::new()),
            low_classifier: Conv2d::new(low, num_classes, 1, 1, 0)?,
            high_classifier: Conv2d::new(inner, num_classes, 1, 1, 0)?,
            hooks: Hooks::new(),
        })
    }

    #[track_caller]
    fn forward_with(&self, low: &Tensor, high: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, high, |high| {
            let x = self.cbr.forward(high)?.mul(&self.scale.forward(high)?)?;
            let x = resized_as(&x, low)?;
            let low = self.low_classifier.forward(low)?;
            low.add(&self.high_classifier.forward(&x)?)
        })
    }
}

impl Module for LRASPPHead {
    #[torsh_tensor::names_caller]
    fn forward(&self, _x: &Tensor) -> Result<Tensor> {
        Err(TorshError::invalid(
            "LRASPPHead",
            "forward takes one tensor, and this layer needs two",
        )
        .with_hint("run the whole LRASPP"))
    }
}

impl LRASPP {
    fn construct(o: &LRASPPBuilder) -> Result<LRASPP> {
        let weights = match o.common.weights.is_none() {
            true => &o.weights_backbone,
            false => &Weights::None,
        };
        let backbone = mobilenet(weights, ("high", Some("low")))?;
        let classes = o.common.num_classes.unwrap_or(21);
        let (low, high) = (backbone.aux_channels, backbone.out_channels);
        Ok(LRASPP {
            backbone: backbone.layers,
            classifier: LRASPPHead::new(low, high, classes, o.inter_channels)?,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }

    /// Gives the scores of images `[N, 3, H, W]`; there is no auxiliary head.
    ///
    /// ```
    /// use torsh_tensor::{Device, zeros};
    /// use torsh_vision::models::segmentation::LRASPP;
    /// let model = LRASPP::builder().device(Device::Meta).build()?;
    /// // One image is no batch.
    /// let error = model.forward_with(&zeros(&[3, 33, 40])).err().map(|e| e.to_string());
    /// assert!(error.is_some_and(|e| e.contains("unsqueeze(0) makes one image a batch")));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn forward_with(&self, x: &Tensor) -> Result<SegmentationOutput> {
        check_rank("LRASPP", x)?;
        let [low, high] = features(&self.backbone, x, ["low", "high"])?;
        let low = low.ok_or_else(|| missing("LRASPP", "low"))?;
        let high = high.ok_or_else(|| missing("LRASPP", "high"))?;
        let out = resized_as(&self.classifier.forward_with(&low, &high)?, x)?;
        Ok(SegmentationOutput { out, aux: None })
    }
}

impl Module for LRASPP {
    /// Scores `[N, num_classes, H, W]` of images `[N, 3, H, W]`.
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| Ok(self.forward_with(x)?.out))
    }
}

impl VisionModel for LRASPP {}
