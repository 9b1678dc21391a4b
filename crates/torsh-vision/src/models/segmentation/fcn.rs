//! FCN.

use torsh_nn::{BatchNorm2d, Conv2d, Dropout, Hooks, Module, ReLU, Sequential, Training};
use torsh_tensor::Result;

use super::{resnet, segmentation_builder};
use crate::models::blocks::{IntermediateLayerGetter, sequence};
use crate::models::{ResNet, constructors};

/// A fully convolutional network: two convolutions classify the features of a residual network of stride 8, and the
/// scores are resized to the image (Long et al., "Fully Convolutional Networks for Semantic Segmentation",
/// <https://arxiv.org/abs/1411.4038>).
///
/// Takes images `[N, 3, H, W]`; 21 classes unless the builder says otherwise. `forward` gives the scores,
/// [`forward_with`](FCN::forward_with) those of the auxiliary head too.
///
/// | constructor | parameters |
/// |---|---|
/// | [`fcn_resnet50`] | 32,957,013; 35,322,218 with the auxiliary head |
/// | [`fcn_resnet101`] | 51,949,141; 54,314,346 with the auxiliary head |
///
/// ```
/// use torsh_nn::ModuleExt;
/// use torsh_tensor::rand;
/// use torsh_vision::models::segmentation::FCN;
/// let model = FCN::builder().num_classes(3).aux_loss(true).build()?;
/// model.eval();
/// let output = model.forward_with(&rand(&[1, 3, 33, 40]))?;
/// assert_eq!(output.out.dims(), [1, 3, 33, 40]);
/// assert_eq!(output.aux.map(|aux| aux.dims().to_vec()), Some(vec![1, 3, 33, 40]));
/// assert_eq!(model.num_parameters(), 35_308_358);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct FCN {
    backbone: IntermediateLayerGetter,
    classifier: FCNHead,
    aux_classifier: Option<FCNHead>,
    training: Training,
    hooks: Hooks,
}

/// The backbone of an [`FCN`].
///
/// ```
/// use torsh_nn::ModuleExt;
/// use torsh_tensor::Device;
/// use torsh_vision::models::segmentation::{FCN, FCNBackbone};
/// let model = FCN::builder().backbone(FCNBackbone::ResNet101).device(Device::Meta).build()?;
/// assert_eq!(model.num_parameters(), 51_949_141);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FCNBackbone {
    /// [`resnet50`](fn@crate::models::resnet50)
    ResNet50,
    /// [`resnet101`](fn@crate::models::resnet101)
    ResNet101,
}

segmentation_builder!(
    FCNBuilder of FCN, 32_957_013 parameters, 35_322_218 with aux_loss, FCNBackbone ResNet50,
    head ["classifier.4.", "aux_classifier.4."]
);

constructors! {
    Segmentation, FCN;
    /// FCN on a ResNet-50: 33.0 million parameters, 35.3 million with the auxiliary head, images of any size; the
    /// published weights are for 520 x 520 (<https://arxiv.org/abs/1411.4038>).
    fcn_resnet50, 32_957_013 parameters => FCNBuilder { name: "fcn_resnet50", ..Default::default() };
    /// FCN on a ResNet-101: 51.9 million parameters, 54.3 million with the auxiliary head, images of any size; the
    /// published weights are for 520 x 520 (<https://arxiv.org/abs/1411.4038>).
    fcn_resnet101, 51_949_141 parameters => FCNBuilder {
        name: "fcn_resnet101",
        backbone: FCNBackbone::ResNet101,
        ..Default::default()
    };
}

/// Two convolutions.
pub(super) struct FCNHead {
    layers: Sequential,
}

sequence!(FCNHead forwards);

/// The head of [`FCN`], also the auxiliary head of [`DeepLabV3`](super::DeepLabV3).
pub(super) fn fcn_head(channels: usize, num_classes: usize) -> Result<FCNHead> {
    let inner = channels / 4;
    Ok(FCNHead {
        layers: Sequential::new()
            .add(
                Conv2d::builder(channels, inner, 3)
                    .padding(1)
                    .bias(false)
                    .build()?,
            )
            .add(BatchNorm2d::new(inner)?)
            .add(ReLU::new())
            .add(Dropout::new(0.1)?)
            .add(Conv2d::new(inner, num_classes, 1, 1, 0)?),
    })
}

impl FCN {
    fn construct(o: &FCNBuilder) -> Result<FCN> {
        let make = match o.backbone {
            FCNBackbone::ResNet50 => ResNet::resnet50,
            FCNBackbone::ResNet101 => ResNet::resnet101,
        };
        let (classes, aux) = (
            o.common.num_classes.unwrap_or(21),
            o.aux_loss.unwrap_or(false),
        );
        let backbone = resnet(make, &o.weights_backbone, aux)?;
        let aux_classifier = match aux {
            true => Some(fcn_head(backbone.aux_channels, classes)?),
            false => None,
        };
        Ok(FCN {
            classifier: fcn_head(backbone.out_channels, classes)?,
            aux_classifier,
            backbone: backbone.layers,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }
}
