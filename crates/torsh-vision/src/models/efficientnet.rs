//! EfficientNet and EfficientNetV2.

use torsh_nn::{AdaptiveAvgPool2d, Dropout, Hooks, Linear, Module, Sequential, Training};
use torsh_tensor::{Result, Tensor, TorshError};

use super::blocks::{
    ActivationLayer, Conv2dNormActivation, InvertedParts, NormLayer, SqueezeExcitation,
    StochasticDepth, StochasticDepthMode, inverted_residual, make_divisible,
};
use super::builder::model_builder;
use super::common::{VisionModel, init_layers, uniform_linear};
use super::constructors;

/// A stage of an [`EfficientNet`]: blocks of one shape, of which the first has the stride.
///
/// ```
/// use torsh_nn::ModuleExt;
/// use torsh_vision::models::{EfficientNet, MBConvConfig};
/// let stage = MBConvConfig {
///     fused: true,
///     expand_ratio: 1.0,
///     kernel: 3,
///     stride: 2,
///     input_channels: 8,
///     out_channels: 16,
///     num_layers: 1,
/// };
/// let model = EfficientNet::builder().inverted_residual_setting(vec![stage]).num_classes(10).build()?;
/// // The first convolution, the stage, the last convolution (norms have two numbers for each channel) and the head.
/// let expected = (3 * 8 * 9 + 2 * 8) + (8 * 16 * 9 + 2 * 16) + (16 * 64 + 2 * 64) + (64 * 10 + 10);
/// assert_eq!(model.num_parameters(), expected);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MBConvConfig {
    /// Whether the block widens and convolves at once, and has no squeeze and excitation.
    pub fused: bool,
    /// How many times as many channels it has in the middle.
    pub expand_ratio: f64,
    /// The window.
    pub kernel: i64,
    /// The stride of the first block.
    pub stride: i64,
    /// Channels of the first block's input.
    pub input_channels: usize,
    /// Channels of the result.
    pub out_channels: usize,
    /// The number of blocks.
    pub num_layers: usize,
}

const fn mb(
    expand: f64,
    kernel: i64,
    stride: i64,
    input_channels: usize,
    out_channels: usize,
    num_layers: usize,
) -> MBConvConfig {
    MBConvConfig {
        fused: false,
        expand_ratio: expand,
        kernel,
        stride,
        input_channels,
        out_channels,
        num_layers,
    }
}

const fn fused(
    expand: f64,
    kernel: i64,
    stride: i64,
    input_channels: usize,
    out_channels: usize,
    num_layers: usize,
) -> MBConvConfig {
    MBConvConfig {
        fused: true,
        ..mb(
            expand,
            kernel,
            stride,
            input_channels,
            out_channels,
            num_layers,
        )
    }
}

const V1: &[MBConvConfig] = &[
    mb(1.0, 3, 1, 32, 16, 1),
    mb(6.0, 3, 2, 16, 24, 2),
    mb(6.0, 5, 2, 24, 40, 2),
    mb(6.0, 3, 2, 40, 80, 3),
    mb(6.0, 5, 1, 80, 112, 3),
    mb(6.0, 5, 2, 112, 192, 4),
    mb(6.0, 3, 1, 192, 320, 1),
];

const V2_S: &[MBConvConfig] = &[
    fused(1.0, 3, 1, 24, 24, 2),
    fused(4.0, 3, 2, 24, 48, 4),
    fused(4.0, 3, 2, 48, 64, 4),
    mb(4.0, 3, 2, 64, 128, 6),
    mb(6.0, 3, 1, 128, 160, 9),
    mb(6.0, 3, 2, 160, 256, 15),
];

const V2_M: &[MBConvConfig] = &[
    fused(1.0, 3, 1, 24, 24, 3),
    fused(4.0, 3, 2, 24, 48, 5),
    fused(4.0, 3, 2, 48, 80, 5),
    mb(4.0, 3, 2, 80, 160, 7),
    mb(6.0, 3, 1, 160, 176, 14),
    mb(6.0, 3, 2, 176, 304, 18),
    mb(6.0, 3, 1, 304, 512, 5),
];

const V2_L: &[MBConvConfig] = &[
    fused(1.0, 3, 1, 32, 32, 4),
    fused(4.0, 3, 2, 32, 64, 7),
    fused(4.0, 3, 2, 64, 96, 7),
    mb(4.0, 3, 2, 96, 192, 10),
    mb(6.0, 3, 1, 192, 224, 19),
    mb(6.0, 3, 2, 224, 384, 25),
    mb(6.0, 3, 1, 384, 640, 7),
];

fn adjust(channels: usize, by: f64) -> usize {
    make_divisible(channels as f64 * by, 8, None)
}

inverted_residual!(MBConv { block });

fn block(c: &MBConvConfig, drop: f64, norm: &NormLayer) -> Result<MBConv> {
    if !(1..=2).contains(&c.stride) {
        let why = format!("the stride of a stage is 1 or 2, got {}", c.stride);
        return Err(TorshError::invalid("EfficientNet", why));
    }
    let wide = adjust(c.input_channels, c.expand_ratio);
    let squeeze = SqueezeExcitation::builder(wide, (c.input_channels / 4).max(1))
        .activation(ActivationLayer::silu());
    let parts = InvertedParts {
        channels: [c.input_channels, wide, c.out_channels],
        kernel: c.kernel,
        stride: c.stride,
        dilation: 1,
        fused: c.fused,
        squeeze: Some(squeeze),
        norm,
        activation: ActivationLayer::silu(),
        flat: false,
    };
    let mut block = MBConv::new(parts.layers()?);
    block.stochastic_depth = Some(StochasticDepth::new(drop, StochasticDepthMode::Row)?);
    Ok(block)
}

/// A network whose depth, width and image size grow together (Tan and Le, "EfficientNet: Rethinking Model Scaling for
/// Convolutional Neural Networks", <https://arxiv.org/abs/1905.11946>), and its second version ("EfficientNetV2: Smaller
/// Models and Faster Training", <https://arxiv.org/abs/2104.00298>).
///
/// Takes `[N, 3, H, W]` of any size (of at least 33 x 33 for the second version) and returns `[N, num_classes]`.
///
/// ```
/// use torsh_nn::{Module, ModuleExt};
/// use torsh_tensor::rand;
/// use torsh_vision::models::EfficientNet;
/// let model = EfficientNet::builder().scaled(0.5, 0.5).num_classes(10).build()?;
/// model.eval();
/// assert_eq!(model.forward(&rand(&[1, 3, 32, 32]))?.dims(), [1, 10]);
/// assert_eq!(model.num_parameters(), 663_530);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct EfficientNet {
    /// The convolutions.
    pub features: Sequential,
    avgpool: AdaptiveAvgPool2d,
    /// The head.
    pub classifier: Sequential,
    training: Training,
    hooks: Hooks,
}

model_builder! {
    /// Builds an [`EfficientNet`]. The default is that of B0.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_vision::models::EfficientNet;
    /// let model = EfficientNet::builder().scaled(0.25, 0.25).last_channel(Some(64)).num_classes(10).build()?;
    /// let head = model.classifier.get(1).map(|layer| layer.repr());
    /// assert_eq!(head.as_deref(), Some("Linear(in_features=64, out_features=10, bias=True)"));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    EfficientNetBuilder of EfficientNet, Classification 5_288_548 parameters, head ["classifier.1."];
    options {
        /// The probability of dropout. The default is 0.2.
        dropout: f64 = 0.2;
        /// The probability of stochastic depth behind the last block, from which it falls to 0 in the first. The
        /// default is 0.2.
        stochastic_depth_prob: f64 = 0.2;
        /// The number of features that the head reads. The default is four times the last stage's.
        last_channel: Option<usize> = None;
    }
    parts {
        /// The stages.
        inverted_residual_setting: Vec<MBConvConfig> = V1.to_vec();
        /// The norm. The default is a batch norm.
        norm_layer: NormLayer = NormLayer::batch_norm_2d();
    }
}

impl EfficientNetBuilder {
    /// The stages of B0 with their channels and numbers of blocks multiplied.
    pub fn scaled(self, width_mult: f64, depth_mult: f64) -> Self {
        let scale = |c: &MBConvConfig| MBConvConfig {
            input_channels: adjust(c.input_channels, width_mult),
            out_channels: adjust(c.out_channels, width_mult),
            num_layers: (c.num_layers as f64 * depth_mult).ceil() as usize,
            ..*c
        };
        self.inverted_residual_setting(V1.iter().map(scale).collect())
    }

    fn v1(mut self, name: &'static str, width: f64, depth: f64, dropout: f64) -> Self {
        self.name = name;
        let this = self.scaled(width, depth).dropout(dropout);
        match name {
            "efficientnet_b5" | "efficientnet_b6" | "efficientnet_b7" => {
                this.norm_layer(NormLayer::batch_norm_2d_with(0.001, 0.01))
            }
            _ => this,
        }
    }

    fn v2(mut self, name: &'static str, setting: &[MBConvConfig], dropout: f64) -> Self {
        self.name = name;
        self.inverted_residual_setting(setting.to_vec())
            .dropout(dropout)
            .last_channel(Some(1280))
            .norm_layer(NormLayer::batch_norm_2d_with(1e-3, 0.1))
    }
}

impl EfficientNet {
    fn construct(config: &EfficientNetBuilder) -> Result<EfficientNet> {
        let setting = &config.inverted_residual_setting;
        let (Some(first), Some(last)) = (setting.first(), setting.last()) else {
            let why = "inverted_residual_setting has no stage";
            return Err(TorshError::invalid(config.name, why));
        };
        let norm = &config.norm_layer;
        let edge = |inputs, outputs, kernel: i64, stride: i64| {
            Conv2dNormActivation::builder(inputs, outputs)
                .kernel_size(kernel)
                .stride(stride)
                .norm_layer(norm.clone())
                .activation_layer(ActivationLayer::silu())
                .build()
        };
        let mut features = Sequential::new().add(edge(3, first.input_channels, 3, 2)?);
        let total: usize = setting.iter().map(|c| c.num_layers).sum();
        let mut blocks = 0;
        for config_of_stage in setting {
            let mut stage = Sequential::new();
            let mut c = *config_of_stage;
            for _ in 0..c.num_layers {
                let drop = config.stochastic_depth_prob * blocks as f64 / total as f64;
                stage.push(block(&c, drop, norm)?);
                (c.input_channels, c.stride) = (c.out_channels, 1);
                blocks += 1;
            }
            features.push(stage);
        }
        let wide = config.last_channel.unwrap_or(4 * last.out_channels);
        features.push(edge(last.out_channels, wide, 1, 1)?);
        let model = EfficientNet {
            features,
            avgpool: AdaptiveAvgPool2d::new(1)?,
            classifier: Sequential::new()
                .add(Dropout::new(config.dropout)?)
                .add(Linear::builder(wide, config.common.classes()).build()?),
            training: Training::default(),
            hooks: Hooks::new(),
        };
        init_layers(&model, uniform_linear)?;
        Ok(model)
    }
}

forward!(EfficientNet, self, x, {
    let x = self.avgpool.forward(&self.features.forward(x)?)?;
    self.classifier.forward(&x.flatten(1)?)
});

impl VisionModel for EfficientNet {}

constructors! {
    Classification, EfficientNet;
    /// EfficientNet-B0: 5.3 million parameters, images of 224 x 224 (<https://arxiv.org/abs/1905.11946>).
    efficientnet_b0, 5_288_548 parameters => EfficientNet::builder().v1("efficientnet_b0", 1.0, 1.0, 0.2);
    /// EfficientNet-B1: 7.8 million parameters, images of 240 x 240 (<https://arxiv.org/abs/1905.11946>).
    efficientnet_b1, 7_794_184 parameters => EfficientNet::builder().v1("efficientnet_b1", 1.0, 1.1, 0.2);
    /// EfficientNet-B2: 9.1 million parameters, images of 288 x 288 (<https://arxiv.org/abs/1905.11946>).
    efficientnet_b2, 9_109_994 parameters => EfficientNet::builder().v1("efficientnet_b2", 1.1, 1.2, 0.3);
    /// EfficientNet-B3: 12.2 million parameters, images of 300 x 300 (<https://arxiv.org/abs/1905.11946>).
    efficientnet_b3, 12_233_232 parameters => EfficientNet::builder().v1("efficientnet_b3", 1.2, 1.4, 0.3);
    /// EfficientNet-B4: 19.3 million parameters, images of 380 x 380 (<https://arxiv.org/abs/1905.11946>).
    efficientnet_b4, 19_341_616 parameters => EfficientNet::builder().v1("efficientnet_b4", 1.4, 1.8, 0.4);
    /// EfficientNet-B5: 30.4 million parameters, images of 456 x 456 (<https://arxiv.org/abs/1905.11946>).
    efficientnet_b5, 30_389_784 parameters => EfficientNet::builder().v1("efficientnet_b5", 1.6, 2.2, 0.4);
    /// EfficientNet-B6: 43.0 million parameters, images of 528 x 528 (<https://arxiv.org/abs/1905.11946>).
    efficientnet_b6, 43_040_704 parameters => EfficientNet::builder().v1("efficientnet_b6", 1.8, 2.6, 0.5);
    /// EfficientNet-B7: 66.3 million parameters, images of 600 x 600 (<https://arxiv.org/abs/1905.11946>).
    efficientnet_b7, 66_347_960 parameters => EfficientNet::builder().v1("efficientnet_b7", 2.0, 3.1, 0.5);
    /// EfficientNetV2-S: 21.5 million parameters, images of 384 x 384 (<https://arxiv.org/abs/2104.00298>).
    efficientnet_v2_s, 21_458_488 parameters => EfficientNet::builder().v2("efficientnet_v2_s", V2_S, 0.2);
    /// EfficientNetV2-M: 54.1 million parameters, images of 480 x 480 (<https://arxiv.org/abs/2104.00298>).
    efficientnet_v2_m, 54_139_356 parameters => EfficientNet::builder().v2("efficientnet_v2_m", V2_M, 0.3);
    /// EfficientNetV2-L: 118.5 million parameters, images of 480 x 480 (<https://arxiv.org/abs/2104.00298>).
    efficientnet_v2_l, 118_515_272 parameters => EfficientNet::builder().v2("efficientnet_v2_l", V2_L, 0.4);
}
