//! What makes the feature maps of detectors.

use torsh_nn::{Module, ModuleExt};
use torsh_tensor::{Result, Tensor, TorshError};

use super::heads::forward_is_with;
use crate::models::blocks::{
    ExtraFPNBlock, FeatureMaps, FeaturePyramidNetwork, IntermediateLayerGetter, LastLevelMaxPool,
    LastLevelP6P7, NormLayer,
};
use crate::models::{MobileNetV3, ResNet, Weights};

/// A network that makes feature maps of images.
///
/// ```
/// use torsh_nn::{Conv2d, Module};
/// use torsh_tensor::{Result, Tensor};
/// use torsh_vision::models::blocks::FeatureMaps;
/// use torsh_vision::models::detection::Backbone;
///
/// #[derive(Module)]
/// struct Tiny {
///     conv: Conv2d,
/// }
///
/// impl Module for Tiny {
///     fn forward(&self, x: &Tensor) -> Result<Tensor> {
///         self.conv.forward(x)?.relu()
///     }
/// }
///
/// impl Backbone for Tiny {
///     fn features(&self, x: &Tensor) -> Result<FeatureMaps> {
///         Ok(vec![("0".into(), self.forward(x)?)])
///     }
///
///     fn out_channels(&self) -> Vec<usize> {
///         vec![8]
///     }
/// }
///
/// let tiny = Tiny { conv: Conv2d::new(3, 8, 3, 4, 1)? };
/// assert_eq!(tiny.features(&torsh_tensor::zeros(&[1, 3, 16, 8]))?[0].1.dims(), [1, 8, 4, 2]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub trait Backbone: Module {
    /// The feature maps of images `[n, 3, h, w]` by name, the largest first.
    ///
    /// # Errors
    /// Of the layers.
    fn features(&self, x: &Tensor) -> Result<FeatureMaps>;

    /// How many channels each of them has.
    fn out_channels(&self) -> Vec<usize>;
}

/// Some results of a network's children, with a feature pyramid on top.
///
/// ```
/// use torsh_nn::{Conv2d, sequential};
/// use torsh_tensor::zeros;
/// use torsh_vision::models::blocks::{IntermediateLayerGetter, LastLevelMaxPool};
/// use torsh_vision::models::detection::{Backbone, BackboneWithFPN};
///
/// let net = sequential![Conv2d::new(3, 8, 3, 4, 1)?, Conv2d::new(8, 16, 3, 2, 1)?];
/// let body = IntermediateLayerGetter::new(net.into_items(), [("0", "low"), ("1", "high")])?;
/// let backbone = BackboneWithFPN::new(body, &[8, 16], 32, (Box::new(LastLevelMaxPool::new()), 1), None)?;
/// let maps = backbone.features(&zeros(&[1, 3, 64, 64]))?;
/// let sides: Vec<(&str, usize)> = maps.iter().map(|(name, map)| (name.as_str(), map.dims()[3])).collect();
/// assert_eq!(sides, [("low", 16), ("high", 8), ("pool", 4)]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct BackboneWithFPN {
    /// The network without its head.
    pub body: IntermediateLayerGetter,
    /// The pyramid.
    pub fpn: FeaturePyramidNetwork,
    #[module(skip)]
    out_channels: Vec<usize>,
}

forward_is_with!(BackboneWithFPN, "features(&x)");

impl Backbone for BackboneWithFPN {
    #[torsh_tensor::names_caller]
    fn features(&self, x: &Tensor) -> Result<FeatureMaps> {
        self.fpn.forward_with(&self.body.forward_with(x)?)
    }

    fn out_channels(&self) -> Vec<usize> {
        self.out_channels.clone()
    }
}

impl BackboneWithFPN {
    /// Puts a pyramid on results of a network, which have these numbers of channels; `extra_maps` is how many feature
    /// maps the extra block adds.
    ///
    /// ```
    /// use torsh_nn::{Conv2d, sequential};
    /// use torsh_vision::models::blocks::{IntermediateLayerGetter, LastLevelP6P7};
    /// use torsh_vision::models::detection::{Backbone, BackboneWithFPN};
    ///
    /// let net = sequential![Conv2d::new(3, 8, 3, 4, 1)?];
    /// let body = IntermediateLayerGetter::new(net.into_items(), [("0", "0")])?;
    /// let extra = LastLevelP6P7::new(32, 32)?;
    /// let backbone = BackboneWithFPN::new(body, &[8], 32, (Box::new(extra), 2), None)?;
    /// assert_eq!(backbone.out_channels(), [32; 1 + 2]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Sizes of 0.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(
        body: IntermediateLayerGetter,
        in_channels_list: &[usize],
        out_channels: usize,
        (extra_blocks, extra_maps): (Box<dyn ExtraFPNBlock>, usize),
        norm_layer: Option<NormLayer>,
    ) -> Result<BackboneWithFPN> {
        let fpn = FeaturePyramidNetwork::new_with(
            in_channels_list,
            out_channels,
            Some(extra_blocks),
            norm_layer,
        )?;
        Ok(BackboneWithFPN {
            body,
            fpn,
            out_channels: vec![out_channels; in_channels_list.len() + extra_maps],
        })
    }
}

/// The map that [`BackboneWithFPN`] has more, where no other is wanted.
fn pool() -> (Box<dyn ExtraFPNBlock>, usize) {
    (Box::new(LastLevelMaxPool::new()), 1)
}

/// A ResNet with a pyramid on the results of some of its four layers, of which the last `trainable_layers` are trained
/// (5 are all, with the first convolution and its norm).
///
/// ```
/// use torsh_tensor::zeros;
/// use torsh_vision::models::{ResNet, detection::{Backbone, resnet_fpn_backbone}};
///
/// let backbone = resnet_fpn_backbone(ResNet::builder().layers([1, 1, 1, 1]).build()?, 5)?;
/// let maps = backbone.features(&zeros(&[1, 3, 64, 64]))?;
/// let names: Vec<&str> = maps.iter().map(|(name, _)| name.as_str()).collect();
/// assert_eq!(names, ["0", "1", "2", "3", "pool"]);
/// assert_eq!(maps[0].1.dims(), [1, 256, 16, 16]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// More than 5 trainable layers.
#[torsh_tensor::names_caller]
pub fn resnet_fpn_backbone(resnet: ResNet, trainable_layers: usize) -> Result<BackboneWithFPN> {
    resnet_fpn(resnet, trainable_layers, &[1, 2, 3, 4], None, None)
}

/// [`resnet_fpn_backbone`] on other layers, with another extra block (and how many maps it adds), or with norms.
///
/// ```
/// use torsh_nn::construct::Construction;
/// use torsh_tensor::Device;
/// use torsh_vision::models::{ResNet, blocks::LastLevelP6P7};
/// use torsh_vision::models::detection::{Backbone, resnet_fpn_backbone_with};
///
/// // As RetinaNet has it: maps of the last three layers, and two smaller ones.
/// let backbone = Construction::new().device(Device::Meta).run(|| {
///     let extra = Box::new(LastLevelP6P7::new(256, 256)?);
///     resnet_fpn_backbone_with(ResNet::builder().build()?, 5, &[2, 3, 4], Some((extra, 2)), None)
/// })?;
/// assert_eq!(backbone.body.names().collect::<Vec<_>>(), ["0", "1", "2"]);
/// assert_eq!(backbone.out_channels(), [256; 3 + 2]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// More than 5 trainable layers; layers that are not between 1 and 4.
#[torsh_tensor::names_caller]
pub fn resnet_fpn_backbone_with(
    resnet: ResNet,
    trainable_layers: usize,
    returned_layers: &[usize],
    extra_blocks: Option<(Box<dyn ExtraFPNBlock>, usize)>,
    norm_layer: Option<NormLayer>,
) -> Result<BackboneWithFPN> {
    resnet_fpn(
        resnet,
        trainable_layers,
        returned_layers,
        extra_blocks,
        norm_layer,
    )
}

fn resnet_fpn(
    resnet: ResNet,
    trainable_layers: usize,
    returned_layers: &[usize],
    extra_blocks: Option<(Box<dyn ExtraFPNBlock>, usize)>,
    norm_layer: Option<NormLayer>,
) -> Result<BackboneWithFPN> {
    const OP: &str = "resnet_fpn_backbone";
    let parts = ["layer4.", "layer3.", "layer2.", "layer1.", "conv1."];
    if trainable_layers > parts.len() {
        return Err(TorshError::invalid(
            OP,
            format!("trainable_layers is at most 5, got {trainable_layers}"),
        ));
    }
    if returned_layers.is_empty() || returned_layers.iter().any(|l| !(1..=4).contains(l)) {
        return Err(TorshError::invalid(
            OP,
            format!("the layers of a ResNet are 1 to 4, got {returned_layers:?}"),
        ));
    }
    for (name, parameter) in resnet.named_parameters() {
        let trained = parts[..trainable_layers]
            .iter()
            .any(|p| name.starts_with(p))
            || (trainable_layers == 5 && name.starts_with("bn1."));
        if !trained {
            parameter.set_requires_grad(false)?;
        }
    }
    // The last layer is eight times as wide as the first.
    let width = resnet.fc.in_features() / 8;
    let channels: Vec<usize> = returned_layers.iter().map(|l| width << (l - 1)).collect();
    let returned = returned_layers.iter().enumerate();
    let returned = returned.map(|(i, l)| (format!("layer{l}"), i.to_string()));
    let body = IntermediateLayerGetter::new(resnet.into_children(), returned)?;
    BackboneWithFPN::new(
        body,
        &channels,
        256,
        extra_blocks.unwrap_or_else(pool),
        norm_layer,
    )
}

/// ResNet-50 with the pyramid of RetinaNet and FCOS: on its last three layers, and two smaller maps made of a map of
/// `channels`.
pub(super) fn resnet50_p6p7(
    norm: NormLayer,
    weights: &Weights,
    trainable_layers: usize,
    channels: usize,
) -> Result<Box<dyn Backbone>> {
    let resnet = ResNet::builder().norm_layer(norm).weights(weights.clone());
    let resnet = ResNet::resnet50(resnet)?;
    let extra = Box::new(LastLevelP6P7::new(channels, 256)?);
    let backbone = resnet_fpn(resnet, trainable_layers, &[2, 3, 4], Some((extra, 2)), None)?;
    Ok(Box::new(backbone))
}

/// The features of a MobileNetV3 from the first to the last, and where the maps are.
pub(super) struct MobileFeatures {
    /// By name, in order.
    pub items: Vec<(String, Box<dyn Module>)>,
    /// Those that halve the size, the first and the last.
    pub stages: Vec<usize>,
    /// Channels of each.
    pub channels: Vec<usize>,
}

/// Takes the features over, of which the last `trainable_layers` parts are trained.
pub(super) fn mobile_features(
    op: &'static str,
    model: MobileNetV3,
    trainable_layers: usize,
) -> Result<MobileFeatures> {
    let (stages, channels) = (
        model.stage_indices().to_vec(),
        model.feature_channels().to_vec(),
    );
    let items = model.features.into_items();
    let frozen = match stages.len().checked_sub(trainable_layers) {
        None => {
            return Err(TorshError::invalid(
                op,
                format!(
                    "trainable_layers is at most {}, got {trainable_layers}",
                    stages.len()
                ),
            ));
        }
        Some(stage) => stages.get(stage).copied().unwrap_or(items.len()),
    };
    for (_, feature) in &items[..frozen] {
        feature.requires_grad_(false);
    }
    Ok(MobileFeatures {
        items,
        stages,
        channels,
    })
}

/// A MobileNetV3 with a pyramid on its last two maps, of which the last `trainable_layers` parts are trained (6 are all).
///
/// ```
/// use torsh_tensor::zeros;
/// use torsh_vision::models::{MobileNetV3, detection::{Backbone, mobilenet_fpn_backbone}};
///
/// let backbone = mobilenet_fpn_backbone(MobileNetV3::builder().build()?, 6)?;
/// let maps = backbone.features(&zeros(&[1, 3, 64, 64]))?;
/// assert_eq!(maps.iter().map(|(_, map)| map.dims()[3]).collect::<Vec<_>>(), [2, 2, 1]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// More trainable parts than there are.
#[torsh_tensor::names_caller]
pub fn mobilenet_fpn_backbone(
    mobilenet: MobileNetV3,
    trainable_layers: usize,
) -> Result<BackboneWithFPN> {
    let f = mobile_features("mobilenet_fpn_backbone", mobilenet, trainable_layers)?;
    let [.., low, high] = f.stages[..] else {
        return Err(TorshError::invalid(
            "mobilenet_fpn_backbone",
            "the network has no two maps",
        ));
    };
    let returned = [(low.to_string(), "0"), (high.to_string(), "1")];
    let channels = [f.channels[low], f.channels[high]];
    let body = IntermediateLayerGetter::new(f.items, returned)?;
    BackboneWithFPN::new(body, &channels, 256, pool(), None)
}
