//! DeepLabV3.

use torsh_nn::{
    AdaptiveAvgPool2d, BatchNorm2d, Conv2d, Dropout, Hooks, Module, ModuleList, ReLU, Sequential,
    Training,
};
use torsh_tensor::{Result, Tensor, cat};

use super::fcn::{FCNHead, fcn_head};
use super::{mobilenet, resized_as, resnet, segmentation_builder};
use crate::models::blocks::{IntermediateLayerGetter, sequence};
use crate::models::{ResNet, constructors};

/// A head of convolutions with gaps of several sizes on the features of a network of stride 8 or 16, whose scores are
/// resized to the image (Chen et al., "Rethinking Atrous Convolution for Semantic Image Segmentation",
/// <https://arxiv.org/abs/1706.05587>).
///
/// Takes images `[N, 3, H, W]`; 21 classes unless the builder says otherwise. `forward` gives the scores,
/// [`forward_with`](DeepLabV3::forward_with) those of the auxiliary head too.
///
/// | constructor | parameters |
/// |---|---|
/// | [`deeplabv3_resnet50`] | 39,638,869; 42,004,074 with the auxiliary head |
/// | [`deeplabv3_resnet101`] | 58,630,997; 60,996,202 with the auxiliary head |
/// | [`deeplabv3_mobilenet_v3_large`] | 11,025,477; 11,029,328 with the auxiliary head |
///
/// ```
/// use torsh_nn::{Module, ModuleExt};
/// use torsh_tensor::rand;
/// use torsh_vision::models::segmentation::{DeepLabV3, DeepLabV3Backbone};
/// let model = DeepLabV3::builder()
///     .backbone(DeepLabV3Backbone::MobileNetV3Large)
///     .num_classes(3)
///     .build()?;
/// model.eval();
/// assert_eq!(model.forward(&rand(&[1, 3, 33, 40]))?.dims(), [1, 3, 33, 40]);
/// assert_eq!(model.num_parameters(), 11_020_851);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct DeepLabV3 {
    backbone: IntermediateLayerGetter,
    classifier: DeepLabHead,
    aux_classifier: Option<FCNHead>,
    training: Training,
    hooks: Hooks,
}

/// The backbone of a [`DeepLabV3`].
///
/// ```
/// use torsh_nn::ModuleExt;
/// use torsh_tensor::Device;
/// use torsh_vision::models::segmentation::{DeepLabV3, DeepLabV3Backbone};
/// let builder = DeepLabV3::builder().backbone(DeepLabV3Backbone::MobileNetV3Large);
/// assert_eq!(builder.device(Device::Meta).build()?.num_parameters(), 11_025_477);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeepLabV3Backbone {
    /// [`resnet50`](fn@crate::models::resnet50)
    ResNet50,
    /// [`resnet101`](fn@crate::models::resnet101)
    ResNet101,
    /// [`mobilenet_v3_large`](fn@crate::models::mobilenet_v3_large)
    MobileNetV3Large,
}

segmentation_builder!(
    DeepLabV3Builder of DeepLabV3, 39_638_869 parameters, 42_004_074 with aux_loss, DeepLabV3Backbone ResNet50,
    head ["classifier.4.", "aux_classifier.4."]
);

constructors! {
    Segmentation, DeepLabV3;
    /// DeepLabV3 on a ResNet-50: 39.6 million parameters, 42.0 million with the auxiliary head, images of any size; the
    /// published weights are for 520 x 520 (<https://arxiv.org/abs/1706.05587>).
    deeplabv3_resnet50, 39_638_869 parameters => DeepLabV3Builder { name: "deeplabv3_resnet50", ..Default::default() };
    /// DeepLabV3 on a ResNet-101: 58.6 million parameters, 61.0 million with the auxiliary head, images of any size;
    /// the published weights are for 520 x 520 (<https://arxiv.org/abs/1706.05587>).
    deeplabv3_resnet101, 58_630_997 parameters => DeepLabV3Builder {
        name: "deeplabv3_resnet101",
        backbone: DeepLabV3Backbone::ResNet101,
        ..Default::default()
    };
    /// DeepLabV3 on a large MobileNetV3: 11.0 million parameters, images of any size; the published weights are for 520
    /// x 520 (<https://arxiv.org/abs/1706.05587>).
    deeplabv3_mobilenet_v3_large, 11_025_477 parameters => DeepLabV3Builder {
        name: "deeplabv3_mobilenet_v3_large",
        backbone: DeepLabV3Backbone::MobileNetV3Large,
        ..Default::default()
    };
}

/// Pyramid pooling and two convolutions.
struct DeepLabHead {
    layers: Sequential,
}

sequence!(DeepLabHead forwards);

/// A convolution with gaps, a norm and a ReLU.
fn atrous(from: usize, to: usize, rate: i64) -> Result<Sequential> {
    Ok(Sequential::new()
        .add(
            Conv2d::builder(from, to, 3)
                .padding(rate)
                .dilation(rate)
                .bias(false)
                .build()?,
        )
        .add(BatchNorm2d::new(to)?)
        .add(ReLU::new()))
}

/// The mean over the image, in every pixel.
struct ASPPPooling {
    layers: Sequential,
}

sequence!(ASPPPooling);

impl Module for ASPPPooling {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        resized_as(&self.layers.forward(x)?, x)
    }
}

/// Atrous spatial pyramid pooling: convolutions of several reaches side by side.
#[derive(Module)]
#[allow(clippy::upper_case_acronyms)]
struct ASPP {
    convs: ModuleList,
    project: Sequential,
    hooks: Hooks,
}

impl ASPP {
    fn new(from: usize, rates: &[usize], to: usize) -> Result<ASPP> {
        let pointwise = |from: usize| Conv2d::builder(from, to, 1).bias(false).build();
        let mut convs = ModuleList::new().add(
            Sequential::new()
                .add(pointwise(from)?)
                .add(BatchNorm2d::new(to)?)
                .add(ReLU::new()),
        );
        for &rate in rates {
            convs.push(atrous(from, to, rate as i64)?);
        }
        convs.push(ASPPPooling {
            layers: Sequential::new()
                .add(AdaptiveAvgPool2d::new(1)?)
                .add(pointwise(from)?)
                .add(BatchNorm2d::new(to)?)
                .add(ReLU::new()),
        });
        let project = Sequential::new()
            .add(pointwise(convs.len() * to)?)
            .add(BatchNorm2d::new(to)?)
            .add(ReLU::new())
            .add(Dropout::new(0.5)?);
        Ok(ASPP {
            convs,
            project,
            hooks: Hooks::new(),
        })
    }
}

forward!(ASPP, self, x, {
    let mut all = Vec::with_capacity(self.convs.len());
    for conv in self.convs.iter() {
        all.push(conv.forward(x)?);
    }
    self.project.forward(&cat(&all, 1)?)
});

/// The head of [`DeepLabV3`].
fn deeplab_head(from: usize, num_classes: usize) -> Result<DeepLabHead> {
    Ok(DeepLabHead {
        layers: Sequential::new()
            .add(ASPP::new(from, &[12, 24, 36], 256)?)
            .add(
                Conv2d::builder(256, 256, 3)
                    .padding(1)
                    .bias(false)
                    .build()?,
            )
            .add(BatchNorm2d::new(256)?)
            .add(ReLU::new())
            .add(Conv2d::new(256, num_classes, 1, 1, 0)?),
    })
}

impl DeepLabV3 {
    fn construct(o: &DeepLabV3Builder) -> Result<DeepLabV3> {
        let (classes, aux) = (
            o.common.num_classes.unwrap_or(21),
            o.aux_loss.unwrap_or(false),
        );
        let weights = &o.weights_backbone;
        let backbone = match o.backbone {
            DeepLabV3Backbone::ResNet50 => resnet(ResNet::resnet50, weights, aux)?,
            DeepLabV3Backbone::ResNet101 => resnet(ResNet::resnet101, weights, aux)?,
            DeepLabV3Backbone::MobileNetV3Large => {
                let names = if aux {
                    ("out", Some("aux"))
                } else {
                    ("out", None)
                };
                mobilenet(weights, names)?
            }
        };
        let aux_classifier = match aux {
            true => Some(fcn_head(backbone.aux_channels, classes)?),
            false => None,
        };
        Ok(DeepLabV3 {
            classifier: deeplab_head(backbone.out_channels, classes)?,
            aux_classifier,
            backbone: backbone.layers,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }
}
