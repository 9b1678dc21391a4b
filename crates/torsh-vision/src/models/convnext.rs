//! ConvNeXt.

use torsh_nn::construct;
use torsh_nn::{
    AdaptiveAvgPool2d, Conv2d, Flatten, GELU, Hooks, LayerNorm, Linear, Module, Parameter,
    Sequential, Training, init,
};
use torsh_tensor::{Result, Tensor, TorshError};

use super::blocks::{
    Conv2dNormActivation, NormLayer, Permute, StochasticDepth, StochasticDepthMode,
};
use super::builder::model_builder;
use super::common::{VisionModel, each_module};
use super::constructors;

/// A convolution of 7 x 7 of each channel and a perceptron of each pixel, scaled, beside a shortcut.
#[derive(Module)]
struct CNBlock {
    block: Sequential,
    layer_scale: Parameter,
    stochastic_depth: StochasticDepth,
    training: Training,
    hooks: Hooks,
}

impl CNBlock {
    fn new(width: usize, scale: f64, drop: f64) -> Result<CNBlock> {
        let block = Sequential::new()
            .add(
                Conv2d::builder(width, width, 7)
                    .padding(3)
                    .groups(width as i64)
                    .build()?,
            )
            .add(Permute::new([0, 2, 3, 1]))
            .add(LayerNorm::builder([width]).eps(1e-6).build()?)
            .add(Linear::builder(width, 4 * width).build()?)
            .add(GELU::new())
            .add(Linear::builder(4 * width, width).build()?)
            .add(Permute::new([0, 3, 1, 2]));
        let ones = Tensor::ones([width, 1, 1], construct::dtype(), construct::device())?;
        Ok(CNBlock {
            block,
            layer_scale: Parameter::with_requires_grad(ones.mul(scale)?, true)?,
            stochastic_depth: StochasticDepth::new(drop, StochasticDepthMode::Row)?,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }
}

forward!(CNBlock, self, x, {
    let y = self.layer_scale.mul(self.block.forward(x)?)?;
    self.stochastic_depth.forward(&y)?.add(x)
});

/// A convolutional network with the proportions of a vision transformer (Liu et al., "A ConvNet for the 2020s",
/// <https://arxiv.org/abs/2201.03545>).
///
/// Takes `[N, 3, H, W]` of at least 32 x 32 and returns `[N, num_classes]`.
///
/// ```
/// use torsh_nn::{Module, ModuleExt};
/// use torsh_tensor::rand;
/// use torsh_vision::models::ConvNeXt;
/// let model = ConvNeXt::builder().block_setting(vec![[8, 1], [16, 2]]).num_classes(10).build()?;
/// model.eval();
/// assert_eq!(model.forward(&rand(&[1, 3, 32, 32]))?.dims(), [1, 10]);
/// assert_eq!(model.num_parameters(), 8_082);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct ConvNeXt {
    /// The convolutions.
    pub features: Sequential,
    avgpool: AdaptiveAvgPool2d,
    /// The head.
    pub classifier: Sequential,
    training: Training,
    hooks: Hooks,
}

model_builder! {
    /// Builds a [`ConvNeXt`]. The default is that of the tiny model.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_vision::models::ConvNeXt;
    /// let model = ConvNeXt::builder().block_setting(vec![[8, 1]]).layer_scale(0.5).num_classes(10).build()?;
    /// assert_eq!(model.get_parameter("features.1.0.layer_scale")?.to_vec::<f32>()?, [0.5; 8]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ConvNeXtBuilder of ConvNeXt, Classification 28_589_128 parameters, head ["classifier.2."];
    options {
        /// Channels and number of blocks of each stage.
        block_setting: Vec<[usize; 2]> = vec![[96, 3], [192, 3], [384, 9], [768, 3]];
        /// The probability of stochastic depth in the last block, from which it falls to 0 in the first. The default is 0.
        stochastic_depth_prob: f64 = 0.0;
        /// The initial scale of the blocks. The default is 1e-6.
        layer_scale: f64 = 1e-6;
    }
    parts {
        /// The norm between the stages. The default is a layer norm of the channels.
        norm_layer: NormLayer = NormLayer::layer_norm_2d(1e-6);
    }
}

impl ConvNeXtBuilder {
    fn preset(mut self, name: &'static str, setting: [[usize; 2]; 4], drop: f64) -> Self {
        self.name = name;
        self.block_setting(setting.to_vec())
            .stochastic_depth_prob(drop)
    }
}

impl ConvNeXt {
    fn construct(config: &ConvNeXtBuilder) -> Result<ConvNeXt> {
        let setting = &config.block_setting;
        let [[first, _], ..] = setting[..] else {
            let why = "block_setting has no stage";
            return Err(TorshError::invalid(config.name, why));
        };
        let norm = &config.norm_layer;
        let mut features = Sequential::new().add(
            Conv2dNormActivation::builder(3, first)
                .kernel_size(4)
                .stride(4)
                .padding(0)
                .norm_layer(norm.clone())
                .activation_layer(None)
                .bias(true)
                .build()?,
        );
        let total: usize = setting.iter().map(|[_, count]| count).sum();
        let (mut block, mut width) = (0, first);
        for (i, &[channels, count]) in setting.iter().enumerate() {
            let mut stage = Sequential::new();
            for _ in 0..count {
                let drop = config.stochastic_depth_prob * block as f64;
                let drop = drop / (total as f64 - 1.0).max(1.0);
                stage.push(CNBlock::new(channels, config.layer_scale, drop)?);
                block += 1;
            }
            features.push(stage);
            width = channels;
            if let Some([next, _]) = setting.get(i + 1) {
                features.push(
                    Sequential::new()
                        .add(norm.make(channels)?)
                        .add(Conv2d::new(channels, *next, 2, 2, 0)?),
                );
            }
        }
        let model = ConvNeXt {
            features,
            avgpool: AdaptiveAvgPool2d::new(1)?,
            classifier: Sequential::new()
                .add(norm.make(width)?)
                .add(Flatten::new())
                .add(Linear::builder(width, config.common.classes()).build()?),
            training: Training::default(),
            hooks: Hooks::new(),
        };
        each_module(&model, |module| {
            let (weight, bias) = if let Some(conv) = module.downcast_ref::<Conv2d>() {
                (&conv.weight, &conv.bias)
            } else if let Some(linear) = module.downcast_ref::<Linear>() {
                (&linear.weight, &linear.bias)
            } else {
                return Ok(());
            };
            init::trunc_normal_(weight, 0.0, 0.02, -2.0, 2.0)?;
            if let Some(bias) = bias {
                init::zeros_(bias)?;
            }
            Ok(())
        })?;
        Ok(model)
    }
}

forward!(ConvNeXt, self, x, {
    let x = self.avgpool.forward(&self.features.forward(x)?)?;
    self.classifier.forward(&x)
});

impl VisionModel for ConvNeXt {}

constructors! {
    Classification, ConvNeXt;
    /// ConvNeXt tiny: 28.6 million parameters, images of 224 x 224 (<https://arxiv.org/abs/2201.03545>).
    convnext_tiny, 28_589_128 parameters => ConvNeXt::builder().preset("convnext_tiny", [[96, 3], [192, 3], [384, 9], [768, 3]], 0.1);
    /// ConvNeXt small: 50.2 million parameters, images of 224 x 224 (<https://arxiv.org/abs/2201.03545>).
    convnext_small, 50_223_688 parameters => ConvNeXt::builder().preset("convnext_small", [[96, 3], [192, 3], [384, 27], [768, 3]], 0.4);
    /// ConvNeXt base: 88.6 million parameters, images of 224 x 224 (<https://arxiv.org/abs/2201.03545>).
    convnext_base, 88_591_464 parameters => ConvNeXt::builder().preset("convnext_base", [[128, 3], [256, 3], [512, 27], [1024, 3]], 0.5);
    /// ConvNeXt large: 197.8 million parameters, images of 224 x 224 (<https://arxiv.org/abs/2201.03545>).
    convnext_large, 197_767_336 parameters => ConvNeXt::builder().preset("convnext_large", [[192, 3], [384, 3], [768, 27], [1536, 3]], 0.5);
}
