//! MobileNetV3.

use torsh_nn::{
    AdaptiveAvgPool2d, Dropout, Hardswish, Hooks, Linear, Module, Sequential, Training,
};
use torsh_tensor::{Result, Tensor, TorshError};

use super::blocks::{
    ActivationLayer, Conv2dNormActivation, InvertedParts, NormLayer, SqueezeExcitation,
    inverted_residual, make_divisible,
};
use super::builder::model_builder;
use super::common::{VisionModel, init_layers, normal_linear};
use super::constructors;

/// A block of a [`MobileNetV3`].
///
/// ```
/// use torsh_tensor::Device;
/// use torsh_vision::models::{InvertedResidualConfig, MobileNetV3};
/// let block = InvertedResidualConfig {
///     input_channels: 16,
///     kernel: 3,
///     expanded_channels: 64,
///     out_channels: 24,
///     use_se: false,
///     use_hs: true,
///     stride: 2,
///     dilation: 1,
/// };
/// let builder = MobileNetV3::builder().inverted_residual_setting(Some(vec![block]));
/// let model = builder.device(Device::Meta).build()?;
/// // The last convolution makes six times as many channels as the last block.
/// assert_eq!(model.feature_channels(), [16, 24, 6 * 24]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct InvertedResidualConfig {
    /// Channels of the input.
    pub input_channels: usize,
    /// The window of the convolution in the middle.
    pub kernel: i64,
    /// Channels in the middle.
    pub expanded_channels: usize,
    /// Channels of the result.
    pub out_channels: usize,
    /// Whether there is a squeeze and excitation.
    pub use_se: bool,
    /// Whether the activation is a hard swish, and not a ReLU.
    pub use_hs: bool,
    /// The stride of the convolution in the middle.
    pub stride: i64,
    /// Its dilation; above 1, the stride is 1.
    pub dilation: i64,
}

impl InvertedResidualConfig {
    fn scaled(self, width: f64) -> Self {
        let scale = |channels: usize| make_divisible(channels as f64 * width, 8, None);
        InvertedResidualConfig {
            input_channels: scale(self.input_channels),
            expanded_channels: scale(self.expanded_channels),
            out_channels: scale(self.out_channels),
            ..self
        }
    }
}

inverted_residual!(InvertedResidual { block });

fn block(c: &InvertedResidualConfig, norm: &NormLayer) -> Result<InvertedResidual> {
    if !(1..=2).contains(&c.stride) {
        let why = format!("the stride of a block is 1 or 2, got {}", c.stride);
        return Err(TorshError::invalid("MobileNetV3", why));
    }
    let squeezed = make_divisible((c.expanded_channels / 4) as f64, 8, None);
    let squeeze = SqueezeExcitation::builder(c.expanded_channels, squeezed)
        .scale_activation(ActivationLayer::hardsigmoid());
    let parts = InvertedParts {
        channels: [c.input_channels, c.expanded_channels, c.out_channels],
        kernel: c.kernel,
        stride: c.stride,
        dilation: c.dilation,
        fused: false,
        squeeze: c.use_se.then_some(squeeze),
        norm,
        activation: match c.use_hs {
            true => ActivationLayer::hardswish(),
            false => ActivationLayer::relu(),
        },
        flat: false,
    };
    Ok(InvertedResidual::new(parts.layers()?))
}

/// A network of inverted residual blocks that were searched for (Howard et al., "Searching for MobileNetV3",
/// <https://arxiv.org/abs/1905.02244>).
///
/// Takes `[N, 3, H, W]` of any size and returns `[N, num_classes]`.
///
/// ```
/// use torsh_nn::{Module, ModuleExt};
/// use torsh_tensor::rand;
/// use torsh_vision::models::MobileNetV3;
/// let model = MobileNetV3::builder().small().num_classes(10).build()?;
/// model.eval();
/// assert_eq!(model.forward(&rand(&[1, 3, 32, 32]))?.dims(), [1, 10]);
/// assert_eq!(model.stage_indices(), [0, 1, 2, 4, 9, 12]);
/// assert_eq!(model.num_parameters(), 1_528_106);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct MobileNetV3 {
    /// The convolutions.
    pub features: Sequential,
    avgpool: AdaptiveAvgPool2d,
    /// The head.
    pub classifier: Sequential,
    #[module(skip)]
    stage_indices: Vec<usize>,
    #[module(skip)]
    channels: Vec<usize>,
    training: Training,
    hooks: Hooks,
}

/// Input channels, window, channels in the middle, channels of the result, squeeze and excitation, hard swish, stride,
/// whether the reduced tail halves the input, the middle and the result, whether a dilated model dilates.
type Row = (usize, i64, usize, usize, bool, bool, i64, [bool; 3], bool);

const PLAIN: [bool; 3] = [false; 3];
const ALL: [bool; 3] = [true; 3];
const RESULT: [bool; 3] = [false, false, true];

const LARGE: &[Row] = &[
    (16, 3, 16, 16, false, false, 1, PLAIN, false),
    (16, 3, 64, 24, false, false, 2, PLAIN, false),
    (24, 3, 72, 24, false, false, 1, PLAIN, false),
    (24, 5, 72, 40, true, false, 2, PLAIN, false),
    (40, 5, 120, 40, true, false, 1, PLAIN, false),
    (40, 5, 120, 40, true, false, 1, PLAIN, false),
    (40, 3, 240, 80, false, true, 2, PLAIN, false),
    (80, 3, 200, 80, false, true, 1, PLAIN, false),
    (80, 3, 184, 80, false, true, 1, PLAIN, false),
    (80, 3, 184, 80, false, true, 1, PLAIN, false),
    (80, 3, 480, 112, true, true, 1, PLAIN, false),
    (112, 3, 672, 112, true, true, 1, PLAIN, false),
    (112, 5, 672, 160, true, true, 2, RESULT, true),
    (160, 5, 960, 160, true, true, 1, ALL, true),
    (160, 5, 960, 160, true, true, 1, ALL, true),
];

const SMALL: &[Row] = &[
    (16, 3, 16, 16, true, false, 2, PLAIN, false),
    (16, 3, 72, 24, false, false, 2, PLAIN, false),
    (24, 3, 88, 24, false, false, 1, PLAIN, false),
    (24, 5, 96, 40, true, true, 2, PLAIN, false),
    (40, 5, 240, 40, true, true, 1, PLAIN, false),
    (40, 5, 240, 40, true, true, 1, PLAIN, false),
    (40, 5, 120, 48, true, true, 1, PLAIN, false),
    (48, 5, 144, 48, true, true, 1, PLAIN, false),
    (48, 5, 288, 96, true, true, 2, RESULT, true),
    (96, 5, 576, 96, true, true, 1, ALL, true),
    (96, 5, 576, 96, true, true, 1, ALL, true),
];

model_builder! {
    /// Builds a [`MobileNetV3`]. The default is the large one.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_tensor::Device;
    /// use torsh_vision::models::MobileNetV3;
    /// let model = MobileNetV3::builder().small().device(Device::Meta).build()?;
    /// assert_eq!(model.num_parameters(), 2_542_856);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    MobileNetV3Builder of MobileNetV3, Classification 5_483_032 parameters, head ["classifier.3."];
    options {
        /// A factor of all numbers of channels. The default is 1.
        width_mult: f64 = 1.0;
        /// Whether the last blocks have half the channels, as for detection. The default is `false`.
        reduced_tail: bool = false;
        /// Whether the last blocks keep the size and dilate instead, as for segmentation. The default is `false`.
        dilated: bool = false;
        /// The probability of dropout. The default is 0.2.
        dropout: f64 = 0.2;
    }
    parts {
        /// The norm; a batch norm that adds 0.001 to variances, with a momentum of 0.01, unless set.
        norm_layer: NormLayer = NormLayer::batch_norm_2d_with(0.001, 0.01);
        /// The blocks, in place of those of the large or small model.
        inverted_residual_setting: Option<Vec<InvertedResidualConfig>> = None;
    }
    fixed {
        is_small: bool = false;
    }
}

impl MobileNetV3Builder {
    /// The small model.
    pub fn small(mut self) -> Self {
        self.is_small = true;
        self
    }

    fn named(mut self, name: &'static str) -> Self {
        self.name = name;
        self
    }

    fn setting(&self) -> Vec<InvertedResidualConfig> {
        if let Some(setting) = &self.inverted_residual_setting {
            return setting.clone();
        }
        let rows = if self.is_small { SMALL } else { LARGE };
        let config =
            |&(inputs, kernel, middle, out, use_se, use_hs, stride, reduces, dilates): &Row| {
                let part = |n: usize, i: usize| {
                    n / if self.reduced_tail && reduces[i] {
                        2
                    } else {
                        1
                    }
                };
                InvertedResidualConfig {
                    input_channels: part(inputs, 0),
                    kernel,
                    expanded_channels: part(middle, 1),
                    out_channels: part(out, 2),
                    use_se,
                    use_hs,
                    stride,
                    dilation: if self.dilated && dilates { 2 } else { 1 },
                }
                .scaled(self.width_mult)
            };
        rows.iter().map(config).collect()
    }
}

impl MobileNetV3 {
    fn construct(config: &MobileNetV3Builder) -> Result<MobileNetV3> {
        let setting = config.setting();
        let (Some(first), Some(last)) = (setting.first(), setting.last()) else {
            let why = "inverted_residual_setting has no block";
            return Err(TorshError::invalid(config.name, why));
        };
        let norm = &config.norm_layer;
        let hidden = if config.is_small { 1024 } else { 1280 };
        let hidden = hidden / if config.reduced_tail { 2 } else { 1 };
        let hidden = make_divisible(hidden as f64 * config.width_mult, 8, None);
        let mut features = Sequential::new().add(
            Conv2dNormActivation::builder(3, first.input_channels)
                .stride(2)
                .norm_layer(norm.clone())
                .activation_layer(ActivationLayer::hardswish())
                .build()?,
        );
        let (mut stage_indices, mut channels) = (vec![0], vec![first.input_channels]);
        for config in &setting {
            if config.stride > 1 {
                stage_indices.push(features.len());
            }
            features.push(block(config, norm)?);
            channels.push(config.out_channels);
        }
        stage_indices.push(features.len());
        let wide = 6 * last.out_channels;
        channels.push(wide);
        features.push(
            Conv2dNormActivation::builder(last.out_channels, wide)
                .kernel_size(1)
                .norm_layer(norm.clone())
                .activation_layer(ActivationLayer::hardswish())
                .build()?,
        );
        let model = MobileNetV3 {
            features,
            avgpool: AdaptiveAvgPool2d::new(1)?,
            classifier: Sequential::new()
                .add(Linear::builder(wide, hidden).build()?)
                .add(Hardswish::new())
                .add(Dropout::new(config.dropout)?)
                .add(Linear::builder(hidden, config.common.classes()).build()?),
            stage_indices,
            channels,
            training: Training::default(),
            hooks: Hooks::new(),
        };
        init_layers(&model, |linear| normal_linear(linear, 0.01))?;
        Ok(model)
    }

    /// The positions of the first feature, of those that halve the size, and of the last, as detection and segmentation
    /// models take them.
    ///
    /// ```
    /// use torsh_tensor::Device;
    /// use torsh_vision::models::MobileNetV3;
    /// let model = MobileNetV3::builder().device(Device::Meta).build()?;
    /// assert_eq!(model.stage_indices(), [0, 2, 4, 7, 13, 16]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn stage_indices(&self) -> &[usize] {
        &self.stage_indices
    }

    /// The number of channels of each feature's result.
    ///
    /// ```
    /// use torsh_tensor::Device;
    /// use torsh_vision::models::MobileNetV3;
    /// let model = MobileNetV3::builder().small().device(Device::Meta).build()?;
    /// assert_eq!(model.feature_channels(), [16, 16, 24, 24, 40, 40, 40, 48, 48, 96, 96, 96, 576]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn feature_channels(&self) -> &[usize] {
        &self.channels
    }
}

forward!(MobileNetV3, self, x, {
    let x = self.avgpool.forward(&self.features.forward(x)?)?;
    self.classifier.forward(&x.flatten(1)?)
});

impl VisionModel for MobileNetV3 {}

constructors! {
    Classification, MobileNetV3;
    /// MobileNetV3 large: 5.5 million parameters, images of 224 x 224 (<https://arxiv.org/abs/1905.02244>).
    mobilenet_v3_large, 5_483_032 parameters => MobileNetV3::builder().named("mobilenet_v3_large");
    /// MobileNetV3 small: 2.5 million parameters, images of 224 x 224 (<https://arxiv.org/abs/1905.02244>).
    mobilenet_v3_small, 2_542_856 parameters => MobileNetV3::builder().small().named("mobilenet_v3_small");
}
