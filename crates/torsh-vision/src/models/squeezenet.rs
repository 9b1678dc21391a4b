//! SqueezeNet.

use torsh_nn::{
    AdaptiveAvgPool2d, Conv2d, Dropout, Hooks, MaxPool2d, Module, ModuleExt, ReLU, Sequential,
    Training, init,
};
use torsh_tensor::{Result, cat};

use super::builder::model_builder;
use super::common::VisionModel;
use super::constructors;

/// A narrow convolution of 1 x 1, and wide ones of 1 x 1 and 3 x 3 of its result side by side.
#[derive(Module)]
struct Fire {
    squeeze: Conv2d,
    squeeze_activation: ReLU,
    expand1x1: Conv2d,
    expand1x1_activation: ReLU,
    expand3x3: Conv2d,
    expand3x3_activation: ReLU,
    training: Training,
    hooks: Hooks,
}

impl Fire {
    fn new(inputs: usize, narrow: usize, wide: usize) -> Result<Fire> {
        Ok(Fire {
            squeeze: Conv2d::new(inputs, narrow, 1, 1, 0)?,
            squeeze_activation: ReLU::new(),
            expand1x1: Conv2d::new(narrow, wide, 1, 1, 0)?,
            expand1x1_activation: ReLU::new(),
            expand3x3: Conv2d::new(narrow, wide, 3, 1, 1)?,
            expand3x3_activation: ReLU::new(),
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }
}

forward!(Fire, self, x, {
    let x = self.squeeze_activation.forward(&self.squeeze.forward(x)?)?;
    let one = self
        .expand1x1_activation
        .forward(&self.expand1x1.forward(&x)?)?;
    let three = self
        .expand3x3_activation
        .forward(&self.expand3x3.forward(&x)?)?;
    cat(&[one, three], 1)
});

/// A network of few parameters (Iandola et al., "SqueezeNet: AlexNet-level accuracy with 50x fewer parameters and <0.5MB
/// model size", <https://arxiv.org/abs/1602.07360>).
///
/// Takes `[N, 3, H, W]` of at least 21 x 21 and returns `[N, num_classes]`.
///
/// ```
/// use torsh_nn::{Module, ModuleExt};
/// use torsh_tensor::rand;
/// use torsh_vision::models::SqueezeNet;
/// let model = SqueezeNet::builder().num_classes(10).build()?;
/// assert_eq!(model.forward(&rand(&[1, 3, 32, 32]))?.dims(), [1, 10]);
/// assert_eq!(model.num_parameters(), 727_626);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct SqueezeNet {
    /// The convolutions.
    pub features: Sequential,
    /// The head: dropout, a convolution of 1 x 1, a ReLU, a mean over the image.
    pub classifier: Sequential,
    training: Training,
    hooks: Hooks,
}

/// A layer of [`SqueezeNet::features`] after the first convolution.
#[derive(Clone, Copy, Debug)]
enum Part {
    Pool,
    Fire(usize, usize, usize),
}

use Part::{Fire as fire, Pool};

const V1_0: &[Part] = &[
    Pool,
    fire(96, 16, 64),
    fire(128, 16, 64),
    fire(128, 32, 128),
    Pool,
    fire(256, 32, 128),
    fire(256, 48, 192),
    fire(384, 48, 192),
    fire(384, 64, 256),
    Pool,
    fire(512, 64, 256),
];
const V1_1: &[Part] = &[
    Pool,
    fire(64, 16, 64),
    fire(128, 16, 64),
    Pool,
    fire(128, 32, 128),
    fire(256, 32, 128),
    Pool,
    fire(256, 48, 192),
    fire(384, 48, 192),
    fire(384, 64, 256),
    fire(512, 64, 256),
];

model_builder! {
    /// Builds a [`SqueezeNet`]. The default is that of version 1.1.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_tensor::Device;
    /// use torsh_vision::models::SqueezeNet;
    /// let model = SqueezeNet::builder().dropout(0.1).device(Device::Meta).build()?;
    /// let first = model.classifier.get(0).map(|layer| layer.repr());
    /// assert_eq!(first.as_deref(), Some("Dropout(p=0.1, inplace=False)"));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    SqueezeNetBuilder of SqueezeNet, Classification 1_235_496 parameters, head ["classifier.1."];
    options {
        /// The probability of dropout. The default is 0.5.
        dropout: f64 = 0.5;
    }
    fixed {
        first: (usize, i64) = (64, 3);
        layers: &'static [Part] = V1_1;
    }
}

impl SqueezeNetBuilder {
    fn preset(mut self, name: &'static str, first: (usize, i64), layers: &'static [Part]) -> Self {
        (self.name, self.first, self.layers) = (name, first, layers);
        self
    }
}

impl SqueezeNet {
    fn construct(config: &SqueezeNetBuilder) -> Result<SqueezeNet> {
        let (channels, kernel) = config.first;
        let mut features = Sequential::new()
            .add(Conv2d::new(3, channels, kernel, 2, 0)?)
            .add(ReLU::new());
        for part in config.layers {
            match *part {
                Pool => features.push(MaxPool2d::builder(3).stride(2).ceil_mode(true).build()?),
                fire(inputs, narrow, wide) => features.push(Fire::new(inputs, narrow, wide)?),
            }
        }
        let last = Conv2d::new(512, config.common.classes(), 1, 1, 0)?;
        let model = SqueezeNet {
            features,
            classifier: Sequential::new()
                .add(Dropout::new(config.dropout)?)
                .add(last)
                .add(ReLU::new())
                .add(AdaptiveAvgPool2d::new(1)?),
            training: Training::default(),
            hooks: Hooks::new(),
        };
        for (name, parameter) in model.named_parameters() {
            match name.as_str() {
                _ if name.ends_with("bias") => init::zeros_(&parameter)?,
                "classifier.1.weight" => init::normal_(&parameter, 0.0, 0.01)?,
                _ => init::kaiming_uniform_(&parameter)?,
            };
        }
        Ok(model)
    }
}

forward!(SqueezeNet, self, x, {
    let x = self.features.forward(x)?;
    self.classifier.forward(&x)?.flatten(1)
});

impl VisionModel for SqueezeNet {}

constructors! {
    Classification, SqueezeNet;
    /// SqueezeNet 1.0: 1.2 million parameters, images of 224 x 224 (<https://arxiv.org/abs/1602.07360>).
    squeezenet1_0, 1_248_424 parameters => SqueezeNet::builder().preset("squeezenet1_0", (96, 7), V1_0);
    /// SqueezeNet 1.1, which computes 2.4 times less than 1.0: 1.2 million parameters, images of 224 x 224
    /// (<https://arxiv.org/abs/1602.07360>).
    squeezenet1_1, 1_235_496 parameters => SqueezeNet::builder().preset("squeezenet1_1", (64, 3), V1_1);
}
