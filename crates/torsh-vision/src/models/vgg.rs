//! VGG.

use torsh_nn::{
    AdaptiveAvgPool2d, BatchNorm2d, Conv2d, Dropout, Hooks, Linear, MaxPool2d, Module, ReLU,
    Sequential, Training,
};
use torsh_tensor::Result;

use super::builder::model_builder;
use super::common::{VisionModel, init_layers, normal_linear};
use super::constructors;

/// Convolutions of 3 x 3 in sequence (Simonyan and Zisserman, "Very Deep Convolutional Networks for Large-Scale Image
/// Recognition", <https://arxiv.org/abs/1409.1556>).
///
/// Takes `[N, 3, H, W]` of at least 32 x 32 and returns `[N, num_classes]`.
///
/// ```
/// use torsh_nn::ModuleExt;
/// use torsh_tensor::Device;
/// use torsh_vision::models::VGG;
/// let model = VGG::builder().features(vec![8, 0, 16, 0]).device(Device::Meta).build()?;
/// assert_eq!(model.features.len(), 6);
/// assert_eq!(model.num_parameters(), 24_095_064);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct VGG {
    /// The convolutions.
    pub features: Sequential,
    avgpool: AdaptiveAvgPool2d,
    /// The linear layers.
    pub classifier: Sequential,
    training: Training,
    hooks: Hooks,
}

const A: &[usize] = &[64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0];
const B: &[usize] = &[
    64, 64, 0, 128, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0,
];
const D: &[usize] = &[
    64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0,
];
const E: &[usize] = &[
    64, 64, 0, 128, 128, 0, 256, 256, 256, 256, 0, 512, 512, 512, 512, 0, 512, 512, 512, 512, 0,
];

model_builder! {
    /// Builds a [`VGG`]. The default is that of VGG-16 without norms.
    ///
    /// ```
    /// use torsh_tensor::Device;
    /// use torsh_vision::models::VGG;
    /// let model = VGG::builder().features(vec![8, 0, 16, 0]).batch_norm(true).device(Device::Meta).build()?;
    /// // Two convolutions, each with a norm and a ReLU, and two poolings.
    /// assert_eq!(model.features.len(), 8);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    VGGBuilder of VGG, Classification 138_357_544 parameters, head ["classifier.6."];
    options {
        /// The probability of dropout. The default is 0.5.
        dropout: f64 = 0.5;
        /// Whether weights are drawn as the paper says. The default is `true`.
        init_weights: bool = true;
    }
    parts {
        /// The channels of the convolutions, and 0 for a pooling that halves the size. The default is VGG-16's.
        features: Vec<usize> = D.to_vec();
        /// Whether each convolution has a batch norm. The default is `false`.
        batch_norm: bool = false;
    }
}

impl VGGBuilder {
    fn preset(mut self, name: &'static str, features: &[usize], batch_norm: bool) -> Self {
        self.name = name;
        self.features(features.to_vec()).batch_norm(batch_norm)
    }
}

impl VGG {
    fn construct(config: &VGGBuilder) -> Result<VGG> {
        let mut features = Sequential::new();
        let mut channels = 3;
        for &width in &config.features {
            if width == 0 {
                features.push(MaxPool2d::builder(2).stride(2).build()?);
                continue;
            }
            features.push(Conv2d::new(channels, width, 3, 1, 1)?);
            if config.batch_norm {
                features.push(BatchNorm2d::new(width)?);
            }
            features.push(ReLU::new());
            channels = width;
        }
        let classifier = Sequential::new()
            .add(Linear::builder(channels * 7 * 7, 4096).build()?)
            .add(ReLU::new())
            .add(Dropout::new(config.dropout)?)
            .add(Linear::builder(4096, 4096).build()?)
            .add(ReLU::new())
            .add(Dropout::new(config.dropout)?)
            .add(Linear::builder(4096, config.common.classes()).build()?);
        let model = VGG {
            features,
            avgpool: AdaptiveAvgPool2d::new(7)?,
            classifier,
            training: Training::default(),
            hooks: Hooks::new(),
        };
        if config.init_weights {
            init_layers(&model, |linear| normal_linear(linear, 0.01))?;
        }
        Ok(model)
    }
}

forward!(VGG, self, x, {
    let x = self.avgpool.forward(&self.features.forward(x)?)?;
    self.classifier.forward(&x.flatten(1)?)
});

impl VisionModel for VGG {}

constructors! {
    Classification, VGG;
    /// VGG-11: 132.9 million parameters, images of 224 x 224 (<https://arxiv.org/abs/1409.1556>).
    vgg11, 132_863_336 parameters => VGG::builder().preset("vgg11", A, false);
    /// VGG-11 with batch norms: 132.9 million parameters, images of 224 x 224 (<https://arxiv.org/abs/1409.1556>).
    vgg11_bn, 132_868_840 parameters => VGG::builder().preset("vgg11_bn", A, true);
    /// VGG-13: 133.0 million parameters, images of 224 x 224 (<https://arxiv.org/abs/1409.1556>).
    vgg13, 133_047_848 parameters => VGG::builder().preset("vgg13", B, false);
    /// VGG-13 with batch norms: 133.1 million parameters, images of 224 x 224 (<https://arxiv.org/abs/1409.1556>).
    vgg13_bn, 133_053_736 parameters => VGG::builder().preset("vgg13_bn", B, true);
    /// VGG-16: 138.4 million parameters, images of 224 x 224 (<https://arxiv.org/abs/1409.1556>).
    vgg16, 138_357_544 parameters => VGG::builder().preset("vgg16", D, false);
    /// VGG-16 with batch norms: 138.4 million parameters, images of 224 x 224 (<https://arxiv.org/abs/1409.1556>).
    vgg16_bn, 138_365_992 parameters => VGG::builder().preset("vgg16_bn", D, true);
    /// VGG-19: 143.7 million parameters, images of 224 x 224 (<https://arxiv.org/abs/1409.1556>).
    vgg19, 143_667_240 parameters => VGG::builder().preset("vgg19", E, false);
    /// VGG-19 with batch norms: 143.7 million parameters, images of 224 x 224 (<https://arxiv.org/abs/1409.1556>).
    vgg19_bn, 143_678_248 parameters => VGG::builder().preset("vgg19_bn", E, true);
}
