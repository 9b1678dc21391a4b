//! Residual networks.

use serde_json::Value;
use torsh_nn::init;
use torsh_nn::{
    AdaptiveAvgPool2d, BatchNorm2d, Conv2d, GroupNorm, Hooks, Linear, MaxPool2d, Module, ModuleExt,
    ReLU, Sequential, Training, norm_activation, norm_add_activation,
};
use torsh_tensor::{Device, Result, Tensor, TorshError};
use torsh_train::config::ModelConfig;

use super::blocks::NormLayer;
use super::common::{ModelFamily, VisionModel, each_module, kaiming_conv, read};
use super::weights::{Loading, build};
use super::{Common, Weights, common_setters, constructors};

/// The block that a [`ResNet`] consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResNetBlock {
    /// Two convolutions of 3 x 3.
    Basic,
    /// Convolutions of 1 x 1, 3 x 3 and 1 x 1, of which the last has four times the channels.
    Bottleneck,
}

impl ResNetBlock {
    /// How many times as many channels the block's result has as its width.
    pub fn expansion(self) -> usize {
        match self {
            ResNetBlock::Basic => 1,
            ResNetBlock::Bottleneck => 4,
        }
    }
}

fn conv3x3(
    in_planes: usize,
    out_planes: usize,
    stride: i64,
    groups: usize,
    dilation: i64,
) -> Result<Conv2d> {
    Conv2d::builder(in_planes, out_planes, 3)
        .stride(stride)
        .padding(dilation)
        .groups(groups as i64)
        .dilation(dilation)
        .bias(false)
        .build()
}

fn conv1x1(in_planes: usize, out_planes: usize, stride: i64) -> Result<Conv2d> {
    Conv2d::builder(in_planes, out_planes, 1)
        .stride(stride)
        .bias(false)
        .build()
}

/// What a block's input adds to its result.
fn shortcut(downsample: Option<&Sequential>, x: &Tensor) -> Result<Tensor> {
    downsample.map_or_else(|| Ok(x.clone()), |downsample| downsample.forward(x))
}

/// Two convolutions beside a shortcut.
#[derive(Module)]
struct BasicBlock {
    conv1: Conv2d,
    bn1: Box<dyn Module>,
    relu: ReLU,
    conv2: Conv2d,
    bn2: Box<dyn Module>,
    downsample: Option<Sequential>,
    training: Training,
    hooks: Hooks,
}

impl Module for BasicBlock {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let out = norm_activation(&*self.bn1, &self.relu, &self.conv1.forward(x)?)?;
            let out = self.conv2.forward(&out)?;
            norm_add_activation(&*self.bn2, &self.relu, &out, || {
                shortcut(self.downsample.as_ref(), x)
            })
        })
    }
}

/// Three convolutions beside a shortcut. The second has the stride, as in torchvision (ResNet v1.5).
#[derive(Module)]
struct Bottleneck {
    conv1: Conv2d,
    bn1: Box<dyn Module>,
    conv2: Conv2d,
    bn2: Box<dyn Module>,
    conv3: Conv2d,
    bn3: Box<dyn Module>,
    relu: ReLU,
    downsample: Option<Sequential>,
    training: Training,
    hooks: Hooks,
}

impl Module for Bottleneck {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let out = norm_activation(&*self.bn1, &self.relu, &self.conv1.forward(x)?)?;
            let out = norm_activation(&*self.bn2, &self.relu, &self.conv2.forward(&out)?)?;
            let out = self.conv3.forward(&out)?;
            norm_add_activation(&*self.bn3, &self.relu, &out, || {
                shortcut(self.downsample.as_ref(), x)
            })
        })
    }
}

/// A residual network (He et al., "Deep Residual Learning for Image Recognition", <https://arxiv.org/abs/1512.03385>).
///
/// Takes `[N, 3, H, W]` and returns `[N, num_classes]`. Trained on 224 x 224 pixels; any size of at least 32 works.
///
/// ```
/// use torsh_nn::ModuleExt;
/// use torsh_vision::models::{ResNet, ResNetBlock};
/// let model = ResNet::builder().block(ResNetBlock::Bottleneck).layers([1, 1, 1, 1]).num_classes(10).build()?;
/// assert_eq!(model.fc.in_features(), 2048);
/// assert_eq!(ResNet::builder().build()?.num_parameters(), 11_689_512);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct ResNet {
    /// The first convolution.
    pub conv1: Conv2d,
    /// Its norm.
    pub bn1: Box<dyn Module>,
    relu: ReLU,
    maxpool: MaxPool2d,
    /// The blocks at a quarter of the image's size.
    pub layer1: Sequential,
    /// The blocks at an eighth of the image's size.
    pub layer2: Sequential,
    /// The blocks at a sixteenth of the image's size.
    pub layer3: Sequential,
    /// The blocks at a thirty-second of the image's size.
    pub layer4: Sequential,
    avgpool: AdaptiveAvgPool2d,
    /// The head.
    pub fc: Linear,
    #[module(skip)]
    config: ResNetConfig,
    training: Training,
    hooks: Hooks,
}

/// What a [`ResNet`] is built from, and its builder.
///
/// A number of classes, a pair of that and a device, weights, and a configuration of `torsh_train` become one, so that
/// [`ResNet::resnet18`] takes each of them:
///
/// ```
/// use torsh_tensor::Device;
/// use torsh_vision::models::{ResNet, ResNetConfig};
/// let model = ResNet::resnet18((10, Device::Cpu))?;
/// assert_eq!(model.fc.out_features(), 10);
/// assert_eq!(ResNet::resnet18(ResNetConfig::default().num_classes(5))?.fc.out_features(), 5);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until build()"]
pub struct ResNetConfig {
    name: &'static str,
    block: Option<ResNetBlock>,
    layers: Vec<usize>,
    zero_init_residual: bool,
    groups: usize,
    width_per_group: usize,
    replace_stride_with_dilation: [bool; 3],
    norm_layer: NormLayer,
    base_channels: usize,
    common: Common,
}

impl Default for ResNetConfig {
    /// That of ResNet-18.
    fn default() -> Self {
        ResNetConfig {
            name: "ResNet",
            block: None,
            layers: vec![2, 2, 2, 2],
            zero_init_residual: false,
            groups: 1,
            width_per_group: 64,
            replace_stride_with_dilation: [false; 3],
            norm_layer: NormLayer::batch_norm_2d(),
            base_channels: 64,
            common: Common::default(),
        }
    }
}

impl From<usize> for ResNetConfig {
    fn from(num_classes: usize) -> Self {
        ResNetConfig::default().num_classes(num_classes)
    }
}

impl From<(usize, Device)> for ResNetConfig {
    fn from((num_classes, device): (usize, Device)) -> Self {
        ResNetConfig::from(num_classes).device(device)
    }
}

impl From<Weights> for ResNetConfig {
    fn from(weights: Weights) -> Self {
        ResNetConfig::default().weights(weights)
    }
}

/// The number of classes, and the file of weights.
impl From<&ModelConfig> for ResNetConfig {
    fn from(config: &ModelConfig) -> Self {
        ResNetConfig::from(config.num_classes).weights(config.pretrained.clone())
    }
}

impl ResNetConfig {
    /// The block; unless set, the one that the weights have, or [`ResNetBlock::Basic`].
    pub fn block(mut self, block: ResNetBlock) -> Self {
        self.block = Some(block);
        self
    }

    /// How many blocks each of the four layers has; 2 each unless set.
    pub fn layers(mut self, layers: impl Into<Vec<usize>>) -> Self {
        self.layers = layers.into();
        self
    }

    /// Whether the last norm of each block starts at 0, so that blocks begin as the identity; false unless set.
    pub fn zero_init_residual(mut self, zero: bool) -> Self {
        self.zero_init_residual = zero;
        self
    }

    /// Groups of the convolutions of 3 x 3, as ResNeXt has them; 1 unless set.
    pub fn groups(mut self, groups: usize) -> Self {
        self.groups = groups;
        self
    }

    /// Channels of a group at a width of 64; 64 unless set.
    pub fn width_per_group(mut self, width: usize) -> Self {
        self.width_per_group = width;
        self
    }

    /// Whether the second, third and fourth layer keep the size and dilate instead; false unless set.
    pub fn replace_stride_with_dilation(mut self, replace: [bool; 3]) -> Self {
        self.replace_stride_with_dilation = replace;
        self
    }

    /// The norm; a batch norm unless set.
    pub fn norm_layer(mut self, norm: NormLayer) -> Self {
        self.norm_layer = norm;
        self
    }

    /// The width of the first layer, which doubles from layer to layer; 64 unless set.
    pub fn base_channels(mut self, channels: usize) -> Self {
        self.base_channels = channels;
        self
    }

    common_setters!();

    fn preset(
        mut self,
        name: &'static str,
        block: ResNetBlock,
        layers: [usize; 4],
        groups: usize,
        width: usize,
    ) -> Self {
        self.name = name;
        self.block(block)
            .layers(layers)
            .groups(groups)
            .width_per_group(width)
    }

    /// Makes the model. An error where there are not four layers, a [`ResNetBlock::Basic`] is to have groups or
    /// dilation, or weights do not fit.
    #[track_caller]
    pub fn build(mut self) -> Result<ResNet> {
        if self.layers.len() != 4 || self.layers.contains(&0) {
            return Err(TorshError::invalid(
                self.name,
                format!("layers are four numbers of blocks, got {:?}", self.layers),
            ));
        }
        if self.block.is_none()
            && let Some(state) = self.common.read()?
        {
            self.block = Some(match state.contains_key("layer1.0.conv3.weight") {
                true => ResNetBlock::Bottleneck,
                false => ResNetBlock::Basic,
            });
        }
        let loading = Loading::new(self.name, &["fc."]);
        let mut model = build(&self.common, loading, || self.make())?;
        model.config.common.forget();
        Ok(model)
    }

    fn make(&self) -> Result<ResNet> {
        let block = self.block.unwrap_or(ResNetBlock::Basic);
        let base = self.base_channels;
        let mut at = Layers {
            config: self,
            block,
            inplanes: base,
            dilation: 1,
        };
        let dilate = self.replace_stride_with_dilation;
        let model = ResNet {
            conv1: Conv2d::builder(3, base, 7)
                .stride(2)
                .padding(3)
                .bias(false)
                .build()?,
            bn1: self.norm_layer.make(base)?,
            relu: ReLU::new(),
            maxpool: MaxPool2d::builder(3).stride(2).padding(1).build()?,
            layer1: at.layer(base, self.layers[0], 1, false)?,
            layer2: at.layer(base * 2, self.layers[1], 2, dilate[0])?,
            layer3: at.layer(base * 4, self.layers[2], 2, dilate[1])?,
            layer4: at.layer(base * 8, self.layers[3], 2, dilate[2])?,
            avgpool: AdaptiveAvgPool2d::new(1)?,
            fc: Linear::builder(base * 8 * block.expansion(), self.common.classes()).build()?,
            config: self.clone(),
            training: Training::default(),
            hooks: Hooks::new(),
        };
        init_weights(&model)?;
        if self.zero_init_residual {
            each_module(&model, |module| {
                let last = match module.downcast_ref::<Bottleneck>() {
                    Some(block) => Some(&block.bn3),
                    None => module.downcast_ref::<BasicBlock>().map(|block| &block.bn2),
                };
                match last.and_then(|norm| norm.get_parameter("weight").ok()) {
                    Some(weight) => init::zeros_(&weight).map(|_| ()),
                    None => Ok(()),
                }
            })?;
        }
        Ok(model)
    }
}

fn init_weights(model: &ResNet) -> Result<()> {
    each_module(model, |module| {
        if let Some(conv) = module.downcast_ref::<Conv2d>() {
            kaiming_conv(conv)?;
        } else if let Some(norm) = module.downcast_ref::<BatchNorm2d>() {
            norm.reset_parameters()?;
        } else if let Some(norm) = module.downcast_ref::<GroupNorm>() {
            norm.reset_parameters()?;
        }
        Ok(())
    })
}

/// Where the construction of the layers is.
struct Layers<'a> {
    config: &'a ResNetConfig,
    block: ResNetBlock,
    inplanes: usize,
    dilation: i64,
}

impl Layers<'_> {
    fn layer(
        &mut self,
        planes: usize,
        blocks: usize,
        stride: i64,
        dilate: bool,
    ) -> Result<Sequential> {
        let before = self.dilation;
        let stride = match dilate {
            true => {
                self.dilation *= stride;
                1
            }
            false => stride,
        };
        let width = planes * self.block.expansion();
        let downsample = match stride != 1 || self.inplanes != width {
            false => None,
            true => Some(
                Sequential::new()
                    .add(conv1x1(self.inplanes, width, stride)?)
                    .add(self.config.norm_layer.make(width)?),
            ),
        };
        let mut layers = Sequential::new();
        self.push(&mut layers, planes, stride, before, downsample)?;
        self.inplanes = width;
        for _ in 1..blocks {
            self.push(&mut layers, planes, 1, self.dilation, None)?;
        }
        Ok(layers)
    }

    fn push(
        &self,
        layers: &mut Sequential,
        planes: usize,
        stride: i64,
        dilation: i64,
        downsample: Option<Sequential>,
    ) -> Result<()> {
        let (config, inplanes) = (self.config, self.inplanes);
        let norm = |channels| config.norm_layer.make(channels);
        match self.block {
            ResNetBlock::Basic => {
                if config.groups != 1 || config.width_per_group != 64 || dilation > 1 {
                    return Err(TorshError::invalid(
                        config.name,
                        "a basic block has groups=1, width_per_group=64 and no dilation",
                    )
                    .with_hint("block(ResNetBlock::Bottleneck) has them"));
                }
                layers.push(BasicBlock {
                    conv1: conv3x3(inplanes, planes, stride, 1, 1)?,
                    bn1: norm(planes)?,
                    relu: ReLU::new(),
                    conv2: conv3x3(planes, planes, 1, 1, 1)?,
                    bn2: norm(planes)?,
                    downsample,
                    training: Training::default(),
                    hooks: Hooks::new(),
                });
            }
            ResNetBlock::Bottleneck => {
                let width = (planes as f64 * (config.width_per_group as f64 / 64.0)) as usize;
                let width = width * config.groups;
                let out = planes * self.block.expansion();
                layers.push(Bottleneck {
                    conv1: conv1x1(inplanes, width, 1)?,
                    bn1: norm(width)?,
                    conv2: conv3x3(width, width, stride, config.groups, dilation)?,
                    bn2: norm(width)?,
                    conv3: conv1x1(width, out, 1)?,
                    bn3: norm(out)?,
                    relu: ReLU::new(),
                    downsample,
                    training: Training::default(),
                    hooks: Hooks::new(),
                });
            }
        }
        Ok(())
    }
}

impl Module for ResNet {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let x = norm_activation(&*self.bn1, &self.relu, &self.conv1.forward(x)?)?;
            let x = self.layer1.forward(&self.maxpool.forward(&x)?)?;
            let x = self.layer3.forward(&self.layer2.forward(&x)?)?;
            let x = self.avgpool.forward(&self.layer4.forward(&x)?)?;
            self.fc.forward(&x.flatten(1)?)
        })
    }
}

impl VisionModel for ResNet {}

impl ModelFamily for ResNetConfig {
    type Model = ResNet;

    fn common(&mut self) -> &mut Common {
        &mut self.common
    }

    fn option(&mut self, name: &str, value: &Value) -> Result<bool> {
        match name {
            "zero_init_residual" => self.zero_init_residual = read(name, value)?,
            "groups" => self.groups = read(name, value)?,
            "width_per_group" => self.width_per_group = read(name, value)?,
            "replace_stride_with_dilation" => {
                self.replace_stride_with_dilation = read(name, value)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn build_model(self) -> Result<ResNet> {
        self.build()
    }
}

impl ResNet {
    /// A model of any depth and width.
    pub fn builder() -> ResNetConfig {
        ResNetConfig::default()
    }

    /// The model of a configuration.
    #[track_caller]
    pub fn new(config: impl Into<ResNetConfig>) -> Result<ResNet> {
        config.into().build()
    }

    /// What it was built from.
    pub fn config(&self) -> &ResNetConfig {
        &self.config
    }

    /// The children by name, in the order in which they run, for
    /// [`IntermediateLayerGetter`](super::blocks::IntermediateLayerGetter).
    pub fn into_children(self) -> Vec<(String, Box<dyn Module>)> {
        let children: [(&str, Box<dyn Module>); 10] = [
            ("conv1", Box::new(self.conv1)),
            ("bn1", self.bn1),
            ("relu", Box::new(self.relu)),
            ("maxpool", Box::new(self.maxpool)),
            ("layer1", Box::new(self.layer1)),
            ("layer2", Box::new(self.layer2)),
            ("layer3", Box::new(self.layer3)),
            ("layer4", Box::new(self.layer4)),
            ("avgpool", Box::new(self.avgpool)),
            ("fc", Box::new(self.fc)),
        ];
        children
            .map(|(name, child)| (name.to_string(), child))
            .into()
    }
}

macro_rules! resnets {
    ($($(#[$doc:meta])* $name:ident $block:ident $layers:expr, $groups:literal $width:literal;)*) => {
        impl ResNet {
            $(
                #[doc = concat!("[`", stringify!($name), "`](fn@", stringify!($name), ") with the classes, device, norm and weights of a configuration.")]
                #[track_caller]
                pub fn $name(config: impl Into<ResNetConfig>) -> Result<ResNet> {
                    config
                        .into()
                        .preset(stringify!($name), ResNetBlock::$block, $layers, $groups, $width)
                        .build()
                }
            )*
        }

        constructors! {
            Classification, ResNet;
            $(
                $(#[$doc])*
                $name => ResNetConfig::default().preset(
                    stringify!($name),
                    ResNetBlock::$block,
                    $layers,
                    $groups,
                    $width
                );
            )*
        }
    };
}

resnets! {
    /// ResNet-18: 11.7 million parameters, images of 224 x 224 (<https://arxiv.org/abs/1512.03385>).
    resnet18 Basic [2, 2, 2, 2], 1 64;
    /// ResNet-34: 21.8 million parameters, images of 224 x 224 (<https://arxiv.org/abs/1512.03385>).
    resnet34 Basic [3, 4, 6, 3], 1 64;
    /// ResNet-50: 25.6 million parameters, images of 224 x 224 (<https://arxiv.org/abs/1512.03385>).
    resnet50 Bottleneck [3, 4, 6, 3], 1 64;
    /// ResNet-101: 44.5 million parameters, images of 224 x 224 (<https://arxiv.org/abs/1512.03385>).
    resnet101 Bottleneck [3, 4, 23, 3], 1 64;
    /// ResNet-152: 60.2 million parameters, images of 224 x 224 (<https://arxiv.org/abs/1512.03385>).
    resnet152 Bottleneck [3, 8, 36, 3], 1 64;
    /// ResNeXt-50 32x4d: 25.0 million parameters, images of 224 x 224 (<https://arxiv.org/abs/1611.05431>).
    resnext50_32x4d Bottleneck [3, 4, 6, 3], 32 4;
    /// ResNeXt-101 32x8d: 88.8 million parameters, images of 224 x 224 (<https://arxiv.org/abs/1611.05431>).
    resnext101_32x8d Bottleneck [3, 4, 23, 3], 32 8;
    /// ResNeXt-101 64x4d: 83.5 million parameters, images of 224 x 224 (<https://arxiv.org/abs/1611.05431>).
    resnext101_64x4d Bottleneck [3, 4, 23, 3], 64 4;
    /// Wide ResNet-50-2, whose bottlenecks are twice as wide: 68.9 million parameters, images of 224 x 224
    /// (<https://arxiv.org/abs/1605.07146>).
    wide_resnet50_2 Bottleneck [3, 4, 6, 3], 1 128;
    /// Wide ResNet-101-2, whose bottlenecks are twice as wide: 126.9 million parameters, images of 224 x 224
    /// (<https://arxiv.org/abs/1605.07146>).
    wide_resnet101_2 Bottleneck [3, 4, 23, 3], 1 128;
}
