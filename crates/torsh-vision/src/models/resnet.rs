//! Residual networks.

use torsh_nn::init;
use torsh_nn::{
    AdaptiveAvgPool2d, Conv2d, Hooks, Linear, MaxPool2d, Module, ModuleExt, ReLU, Sequential,
    Training, conv_norm_activation, conv_norm_add_activation,
};
use torsh_tensor::{Result, Tensor, TorshError};

use super::blocks::NormLayer;
use super::builder::{model_builder, settings};
use super::common::{VisionModel, each_module, init_layers};
use super::constructors;

/// The block that a [`ResNet`] consists of.
///
/// ```
/// use torsh_nn::ModuleExt;
/// use torsh_tensor::Device;
/// use torsh_vision::models::{ResNet, ResNetBlock};
/// let resnet34 = ResNet::builder().block(ResNetBlock::Basic).layers([3, 4, 6, 3]).device(Device::Meta);
/// assert_eq!(resnet34.clone().build()?.num_parameters(), 21_797_672);
/// let resnet50 = resnet34.block(ResNetBlock::Bottleneck);
/// assert_eq!(resnet50.build()?.num_parameters(), 25_557_032);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResNetBlock {
    /// Two convolutions of 3 x 3.
    Basic,
    /// Convolutions of 1 x 1, 3 x 3 and 1 x 1, of which the last has four times the channels.
    Bottleneck,
}

impl ResNetBlock {
    /// How many times as many channels the block's result has as its width.
    ///
    /// ```
    /// use torsh_vision::models::ResNetBlock;
    /// assert_eq!((ResNetBlock::Basic.expansion(), ResNetBlock::Bottleneck.expansion()), (1, 4));
    /// ```
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

forward!(BasicBlock, self, x, {
    let out = conv_norm_activation(&self.conv1, &*self.bn1, &self.relu, x)?;
    conv_norm_add_activation(&self.conv2, &*self.bn2, &self.relu, &out, || {
        shortcut(self.downsample.as_ref(), x)
    })
});

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

forward!(Bottleneck, self, x, {
    let out = conv_norm_activation(&self.conv1, &*self.bn1, &self.relu, x)?;
    let out = conv_norm_activation(&self.conv2, &*self.bn2, &self.relu, &out)?;
    conv_norm_add_activation(&self.conv3, &*self.bn3, &self.relu, &out, || {
        shortcut(self.downsample.as_ref(), x)
    })
});

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

model_builder! {
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
    ResNetConfig of ResNet, Classification 11_689_512 parameters, head ["fc."], loading |loading, this| {
        if this.layers.len() != 4 || this.layers.contains(&0) {
            return Err(TorshError::invalid(
                this.name,
                format!("layers are four numbers of blocks, got {:?}", this.layers),
            ));
        }
        if this.block.is_none()
            && let Some(state) = this.common.read()?
        {
            this.block = Some(match state.contains_key("layer1.0.conv3.weight") {
                true => ResNetBlock::Bottleneck,
                false => ResNetBlock::Basic,
            });
        }
        loading
    };
    options {
        /// Whether the last norm of each block starts at 0, so that blocks begin as the identity. The default is `false`.
        zero_init_residual: bool = false;
        /// Groups of the convolutions of 3 x 3, as ResNeXt has them. The default is 1.
        groups: usize = 1;
        /// Channels of a group at a width of 64. The default is 64.
        width_per_group: usize = 64;
        /// Whether the second, third and fourth layer keep the size and dilate instead. The default is `false`.
        replace_stride_with_dilation: [bool; 3] = [false; 3];
    }
    parts {
        /// The block; unless set, the one that the weights have, or [`ResNetBlock::Basic`].
        block: Option<ResNetBlock> = None, ResNetBlock => Some;
        /// How many blocks each of the four layers has. The default is 2 each.
        layers: Vec<usize> = vec![2, 2, 2, 2], impl Into<Vec<usize>> => Into::into;
        /// The norm. The default is a batch norm.
        norm_layer: NormLayer = NormLayer::batch_norm_2d();
        /// The width of the first layer, which doubles from layer to layer. The default is 64.
        base_channels: usize = 64;
    }
}

settings!(ResNetConfig);

impl ResNetConfig {
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
}

impl ResNet {
    fn construct(builder: &ResNetConfig) -> Result<ResNet> {
        let mut config = builder.clone();
        config.common.forget();
        let block = builder.block.unwrap_or(ResNetBlock::Basic);
        let base = builder.base_channels;
        let mut at = Layers {
            config: builder,
            block,
            inplanes: base,
            dilation: 1,
        };
        let dilate = builder.replace_stride_with_dilation;
        let model = ResNet {
            conv1: Conv2d::builder(3, base, 7)
                .stride(2)
                .padding(3)
                .bias(false)
                .build()?,
            bn1: builder.norm_layer.make(base)?,
            relu: ReLU::new(),
            maxpool: MaxPool2d::builder(3).stride(2).padding(1).build()?,
            layer1: at.layer(base, builder.layers[0], 1, false)?,
            layer2: at.layer(base * 2, builder.layers[1], 2, dilate[0])?,
            layer3: at.layer(base * 4, builder.layers[2], 2, dilate[1])?,
            layer4: at.layer(base * 8, builder.layers[3], 2, dilate[2])?,
            avgpool: AdaptiveAvgPool2d::new(1)?,
            fc: Linear::builder(base * 8 * block.expansion(), builder.common.classes()).build()?,
            config,
            training: Training::default(),
            hooks: Hooks::new(),
        };
        init_layers(&model, |_| Ok(()))?;
        if builder.zero_init_residual {
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

forward!(ResNet, self, x, {
    let x = conv_norm_activation(&self.conv1, &*self.bn1, &self.relu, x)?;
    let x = self.layer1.forward(&self.maxpool.forward(&x)?)?;
    let x = self.layer3.forward(&self.layer2.forward(&x)?)?;
    let x = self.avgpool.forward(&self.layer4.forward(&x)?)?;
    self.fc.forward(&x.flatten(1)?)
});

impl VisionModel for ResNet {}

impl ResNet {
    /// Makes the model of a configuration.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_tensor::Device;
    /// use torsh_vision::models::ResNet;
    /// // The model with ten classes; the builder's default is a ResNet-18.
    /// let model = ResNet::new((10, Device::Meta))?;
    /// assert_eq!(model.num_parameters(), 11_689_512 - 990 * (512 + 1));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new(config: impl Into<ResNetConfig>) -> Result<ResNet> {
        config.into().build()
    }

    /// What it was built from, without the weights: another model of this configuration has drawn ones.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_tensor::Device;
    /// use torsh_vision::models::ResNet;
    /// let model = ResNet::builder().layers([1, 1, 1, 1]).num_classes(10).device(Device::Meta).build()?;
    /// let again = ResNet::new(model.config().clone())?;
    /// assert_eq!(again.num_parameters(), 4_910_922);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn config(&self) -> &ResNetConfig {
        &self.config
    }

    /// The children by name, in the order in which they run, for
    /// [`IntermediateLayerGetter`](super::blocks::IntermediateLayerGetter).
    ///
    /// ```
    /// use torsh_tensor::Device;
    /// use torsh_vision::models::ResNet;
    /// let children = ResNet::builder().device(Device::Meta).build()?.into_children();
    /// let names: Vec<&str> = children.iter().map(|(name, _)| name.as_str()).collect();
    /// assert_eq!(names[..4], ["conv1", "bn1", "relu", "maxpool"]);
    /// assert_eq!(names[4..], ["layer1", "layer2", "layer3", "layer4", "avgpool", "fc"]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
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
    ($($(#[$doc:meta])* $name:ident $block:ident $layers:expr, $groups:literal $width:literal, $count:literal parameters;)*) => {
        impl ResNet {
            $(
                #[doc = concat!("Makes [`", stringify!($name), "`](fn@", stringify!($name), ") with the classes, device, norm and weights of a configuration.")]
                #[doc = $crate::models::common::example!(
                    "use torsh_nn::ModuleExt;\n\
                     use torsh_tensor::Device;\n\
                     use torsh_vision::models::ResNet;\n\
                     let model = ResNet::", stringify!($name), "((1000, Device::Meta))?;\n\
                     assert_eq!(model.num_parameters(), ", stringify!($count), ");"
                )]
                #[torsh_tensor::names_caller(Self)]
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
                $name, $count parameters => ResNetConfig::default().preset(
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
    resnet18 Basic [2, 2, 2, 2], 1 64, 11_689_512 parameters;
    /// ResNet-34: 21.8 million parameters, images of 224 x 224 (<https://arxiv.org/abs/1512.03385>).
    resnet34 Basic [3, 4, 6, 3], 1 64, 21_797_672 parameters;
    /// ResNet-50: 25.6 million parameters, images of 224 x 224 (<https://arxiv.org/abs/1512.03385>).
    resnet50 Bottleneck [3, 4, 6, 3], 1 64, 25_557_032 parameters;
    /// ResNet-101: 44.5 million parameters, images of 224 x 224 (<https://arxiv.org/abs/1512.03385>).
    resnet101 Bottleneck [3, 4, 23, 3], 1 64, 44_549_160 parameters;
    /// ResNet-152: 60.2 million parameters, images of 224 x 224 (<https://arxiv.org/abs/1512.03385>).
    resnet152 Bottleneck [3, 8, 36, 3], 1 64, 60_192_808 parameters;
    /// ResNeXt-50 32x4d: 25.0 million parameters, images of 224 x 224 (<https://arxiv.org/abs/1611.05431>).
    resnext50_32x4d Bottleneck [3, 4, 6, 3], 32 4, 25_028_904 parameters;
    /// ResNeXt-101 32x8d: 88.8 million parameters, images of 224 x 224 (<https://arxiv.org/abs/1611.05431>).
    resnext101_32x8d Bottleneck [3, 4, 23, 3], 32 8, 88_791_336 parameters;
    /// ResNeXt-101 64x4d: 83.5 million parameters, images of 224 x 224 (<https://arxiv.org/abs/1611.05431>).
    resnext101_64x4d Bottleneck [3, 4, 23, 3], 64 4, 83_455_272 parameters;
    /// Wide ResNet-50-2, whose bottlenecks are twice as wide: 68.9 million parameters, images of 224 x 224
    /// (<https://arxiv.org/abs/1605.07146>).
    wide_resnet50_2 Bottleneck [3, 4, 6, 3], 1 128, 68_883_240 parameters;
    /// Wide ResNet-101-2, whose bottlenecks are twice as wide: 126.9 million parameters, images of 224 x 224
    /// (<https://arxiv.org/abs/1605.07146>).
    wide_resnet101_2 Bottleneck [3, 4, 23, 3], 1 128, 126_886_696 parameters;
}
