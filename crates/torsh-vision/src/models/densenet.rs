//! Densely connected networks.

use std::any::Any;
use std::sync::Arc;

use torsh_functional as F;
use torsh_nn::{
    AvgPool2d, BatchNorm2d, Conv2d, Hooks, Linear, MaxPool2d, Module, ReLU, Sequential, Training,
    init, norm_activation,
};
use torsh_tensor::{Result, Tensor, cat, checkpoint};

use super::blocks::sequence;
use super::builder::model_builder;
use super::common::{VisionModel, each_module};
use super::constructors;

/// A convolution of 1 x 1 and one of 3 x 3, each behind a norm and a ReLU, of all features before it.
#[derive(Module)]
struct DenseLayer {
    // A graph that runs the first half again holds it too.
    norm1: Arc<BatchNorm2d>,
    relu1: Arc<ReLU>,
    conv1: Arc<Conv2d>,
    norm2: BatchNorm2d,
    relu2: ReLU,
    conv2: Conv2d,
    #[module(skip)]
    drop_rate: f64,
    #[module(skip)]
    memory_efficient: bool,
    training: Training,
    hooks: Hooks,
}

fn conv(inputs: usize, outputs: usize, kernel: i64) -> Result<Conv2d> {
    Conv2d::builder(inputs, outputs, kernel)
        .padding(kernel / 2)
        .bias(false)
        .build()
}

impl DenseLayer {
    fn new(features: usize, config: &DenseNetBuilder) -> Result<DenseLayer> {
        let (growth, width) = (config.growth_rate, config.bn_size * config.growth_rate);
        Ok(DenseLayer {
            norm1: Arc::new(BatchNorm2d::new(features)?),
            relu1: Arc::new(ReLU::new()),
            conv1: Arc::new(conv(features, width, 1)?),
            norm2: BatchNorm2d::new(width)?,
            relu2: ReLU::new(),
            conv2: conv(width, growth, 3)?,
            drop_rate: config.drop_rate,
            memory_efficient: config.memory_efficient,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }
}

/// The first half of a [`DenseLayer`]: the features of all layers before it, brought to the width of its bottleneck.
fn bottleneck(norm: &BatchNorm2d, relu: &ReLU, conv: &Conv2d, all: &[Tensor]) -> Result<Tensor> {
    let x = match all {
        [x] => x.clone(),
        all => cat(all, 1)?,
    };
    conv.forward(&norm_activation(norm, relu, &x)?)
}

impl DenseLayer {
    /// The new features, of all before them.
    fn of(&self, all: &[Tensor]) -> Result<Tensor> {
        match all {
            [x] => self.forward(x),
            // Hooks see one tensor.
            all if self.memory_efficient && self.hooks.is_empty() => self.run(all),
            all => self.forward(&cat(all, 1)?),
        }
    }

    fn run(&self, all: &[Tensor]) -> Result<Tensor> {
        let x = if self.memory_efficient && all.iter().any(Tensor::requires_grad) {
            let (norm, relu, conv) = (self.norm1.clone(), self.relu1.clone(), self.conv1.clone());
            let all = all.to_vec();
            checkpoint(move || bottleneck(&norm, &relu, &conv, &all))?
        } else {
            bottleneck(&self.norm1, &self.relu1, &self.conv1, all)?
        };
        let x = self
            .conv2
            .forward(&norm_activation(&self.norm2, &self.relu2, &x)?)?;
        match self.drop_rate > 0.0 {
            true => F::dropout(&x, self.drop_rate, self.training.get()),
            false => Ok(x),
        }
    }
}

forward!(DenseLayer, self, x, self.run(std::slice::from_ref(x)));

/// Layers, each of which reads the results of all before it.
struct DenseBlock {
    layers: Sequential,
}

sequence!(DenseBlock);

impl DenseBlock {
    fn new(count: usize, features: usize, config: &DenseNetBuilder) -> Result<DenseBlock> {
        let mut layers = Sequential::new();
        for i in 0..count {
            let layer = DenseLayer::new(features + i * config.growth_rate, config)?;
            layers.push_named(format!("denselayer{}", i + 1), layer)?;
        }
        Ok(DenseBlock { layers })
    }
}

impl Module for DenseBlock {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let mut features = vec![x.clone()];
        for layer in self.layers.iter() {
            // Another kind of layer may have been put in its place.
            let new = match (layer as &dyn Any).downcast_ref::<DenseLayer>() {
                Some(layer) => layer.of(&features)?,
                None => layer.forward(&cat(&features, 1)?)?,
            };
            features.push(new);
        }
        cat(&features, 1)
    }
}

/// Halves the channels and the size.
struct Transition {
    layers: Sequential,
}

sequence!(Transition forwards);

impl Transition {
    fn new(inputs: usize, outputs: usize) -> Result<Transition> {
        let mut layers = Sequential::new();
        layers.push_named("norm", BatchNorm2d::new(inputs)?)?;
        layers.push_named("relu", ReLU::new())?;
        layers.push_named("conv", conv(inputs, outputs, 1)?)?;
        layers.push_named("pool", AvgPool2d::builder(2).stride(2).build()?)?;
        Ok(Transition { layers })
    }
}

/// A network whose layers each read the results of all before them in their block (Huang et al., "Densely Connected
/// Convolutional Networks", <https://arxiv.org/abs/1608.06993>).
///
/// Takes `[N, 3, H, W]` of at least 29 x 29 and returns `[N, num_classes]`. The memory of training grows with the square of
/// the number of layers of a block, and linearly with the builder's
/// [`memory_efficient(true)`](DenseNetBuilder::memory_efficient).
///
/// ```
/// use torsh_nn::ModuleExt;
/// use torsh_vision::models::DenseNet;
/// let model = DenseNet::builder().growth_rate(4).block_config([1, 1, 1, 1]).num_classes(10).build()?;
/// assert_eq!(model.classifier.in_features(), 15);
/// assert_eq!(model.num_parameters(), 18_007);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct DenseNet {
    /// The convolutions.
    pub features: Sequential,
    /// The head.
    pub classifier: Linear,
    training: Training,
    hooks: Hooks,
}

model_builder! {
    /// Builds a [`DenseNet`]. The default is that of DenseNet-121.
    ///
    /// ```
    /// use torsh_vision::models::DenseNet;
    /// // Each block adds 4 channels to those it reads, and each of the three transitions halves them: 8, 6, 5, 4.
    /// let builder = DenseNet::builder().num_init_features(8).growth_rate(4).block_config([1, 1, 1, 1]);
    /// assert_eq!(builder.num_classes(10).build()?.classifier.in_features(), 8);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    DenseNetBuilder of DenseNet, Classification 7_978_856 parameters, head ["classifier."], loading |loading, _this| loading.rename(renamed);
    options {
        /// How many channels a layer adds. The default is 32.
        growth_rate: usize = 32;
        /// How many layers each of the four blocks has. The default is 6, 12, 24 and 16.
        block_config: [usize; 4] = [6, 12, 24, 16];
        /// The channels of the first convolution. The default is 64.
        num_init_features: usize = 64;
        /// How many times as many channels as it adds a layer computes with. The default is 4.
        bn_size: usize = 4;
        /// The probability of dropout after each layer. The default is 0.
        drop_rate: f64 = 0.0;
        /// Whether the backward pass computes the concatenated features, the first norm and the first convolution of
        /// each layer again instead of keeping them (Pleiss et al., "Memory-Efficient Implementation of DenseNets",
        /// <https://arxiv.org/abs/1707.06990>). The default is `false`. Results and gradients are the same. As in
        /// torchvision, the norms that run again move their running statistics again.
        memory_efficient: bool = false;
    }
}

/// The names `denselayer1.norm.1.weight` of old checkpoints are `denselayer1.norm1.weight`.
fn renamed(name: &str) -> Option<String> {
    let (before, after) = name.split_once(".denselayer")?;
    let parts: Vec<&str> = after.split('.').collect();
    let [
        layer,
        kind @ ("norm" | "relu" | "conv"),
        number @ ("1" | "2"),
        field,
    ] = parts[..]
    else {
        return None;
    };
    Some(format!("{before}.denselayer{layer}.{kind}{number}.{field}"))
}

impl DenseNetBuilder {
    fn preset(
        mut self,
        name: &'static str,
        growth: usize,
        blocks: [usize; 4],
        first: usize,
    ) -> Self {
        self.name = name;
        self.growth_rate(growth)
            .block_config(blocks)
            .num_init_features(first)
    }
}

impl DenseNet {
    fn construct(config: &DenseNetBuilder) -> Result<DenseNet> {
        let mut channels = config.num_init_features;
        let mut features = Sequential::new();
        features.push_named(
            "conv0",
            Conv2d::builder(3, channels, 7)
                .stride(2)
                .padding(3)
                .bias(false)
                .build()?,
        )?;
        features.push_named("norm0", BatchNorm2d::new(channels)?)?;
        features.push_named("relu0", ReLU::new())?;
        features.push_named("pool0", MaxPool2d::builder(3).stride(2).padding(1).build()?)?;
        for (i, &layers) in config.block_config.iter().enumerate() {
            let block = DenseBlock::new(layers, channels, config)?;
            features.push_named(format!("denseblock{}", i + 1), block)?;
            channels += layers * config.growth_rate;
            if i + 1 < config.block_config.len() {
                let transition = Transition::new(channels, channels / 2)?;
                features.push_named(format!("transition{}", i + 1), transition)?;
                channels /= 2;
            }
        }
        features.push_named("norm5", BatchNorm2d::new(channels)?)?;
        let model = DenseNet {
            features,
            classifier: Linear::builder(channels, config.common.classes()).build()?,
            training: Training::default(),
            hooks: Hooks::new(),
        };
        each_module(&model, |module| {
            if let Some(conv) = module.downcast_ref::<Conv2d>() {
                init::kaiming_normal_(&conv.weight)?;
            } else if let Some(Linear {
                bias: Some(bias), ..
            }) = module.downcast_ref::<Linear>()
            {
                init::zeros_(bias)?;
            }
            Ok(())
        })?;
        Ok(model)
    }
}

forward!(DenseNet, self, x, {
    let x = F::relu(self.features.forward(x)?)?;
    let x = F::adaptive_avg_pool2d(&x, 1)?;
    self.classifier.forward(&x.flatten(1)?)
});

impl VisionModel for DenseNet {}

constructors! {
    Classification, DenseNet;
    /// DenseNet-121: 8.0 million parameters, images of 224 x 224 (<https://arxiv.org/abs/1608.06993>).
    densenet121, 7_978_856 parameters => DenseNet::builder().preset("densenet121", 32, [6, 12, 24, 16], 64);
    /// DenseNet-161: 28.7 million parameters, images of 224 x 224 (<https://arxiv.org/abs/1608.06993>).
    densenet161, 28_681_000 parameters => DenseNet::builder().preset("densenet161", 48, [6, 12, 36, 24], 96);
    /// DenseNet-169: 14.1 million parameters, images of 224 x 224 (<https://arxiv.org/abs/1608.06993>).
    densenet169, 14_149_480 parameters => DenseNet::builder().preset("densenet169", 32, [6, 12, 32, 32], 64);
    /// DenseNet-201: 20.0 million parameters, images of 224 x 224 (<https://arxiv.org/abs/1608.06993>).
    densenet201, 20_013_928 parameters => DenseNet::builder().preset("densenet201", 32, [6, 12, 48, 32], 64);
}
