//! MobileNetV2.

use torsh_functional as F;
use torsh_nn::{Dropout, Hooks, Linear, Module, Sequential, Training};
use torsh_tensor::{Result, Tensor, TorshError};

use super::blocks::{
    ActivationLayer, Conv2dNormActivation, InvertedParts, NormLayer, inverted_residual,
    make_divisible,
};
use super::builder::model_builder;
use super::common::{VisionModel, init_layers, normal_linear};
use super::constructors;

inverted_residual!(InvertedResidual { conv });

/// A network of inverted residual blocks with linear bottlenecks (Sandler et al., "MobileNetV2: Inverted Residuals and
/// Linear Bottlenecks", <https://arxiv.org/abs/1801.04381>).
///
/// Takes `[N, 3, H, W]` of any size and returns `[N, num_classes]`.
///
/// ```
/// use torsh_nn::{Module, ModuleExt};
/// use torsh_tensor::rand;
/// use torsh_vision::models::MobileNetV2;
/// let model = MobileNetV2::builder().width_mult(0.25).num_classes(10).build()?;
/// model.eval();
/// assert_eq!(model.forward(&rand(&[1, 3, 32, 32]))?.dims(), [1, 10]);
/// assert_eq!(model.num_parameters(), 250_922);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct MobileNetV2 {
    /// The convolutions.
    pub features: Sequential,
    /// The head.
    pub classifier: Sequential,
    #[module(skip)]
    last_channel: usize,
    #[module(skip)]
    stage_indices: Vec<usize>,
    training: Training,
    hooks: Hooks,
}

/// Expansion, channels, number and first stride of blocks.
const SETTING: [[usize; 4]; 7] = [
    [1, 16, 1, 1],
    [6, 24, 2, 2],
    [6, 32, 3, 2],
    [6, 64, 4, 2],
    [6, 96, 3, 1],
    [6, 160, 3, 2],
    [6, 320, 1, 1],
];

model_builder! {
    /// Builds a [`MobileNetV2`]. The default is that of width 1.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_tensor::Device;
    /// use torsh_vision::models::MobileNetV2;
    /// let model = MobileNetV2::builder().width_mult(0.5).device(Device::Meta).build()?;
    /// assert_eq!(model.num_parameters(), 1_968_680);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    MobileNetV2Builder of MobileNetV2, Classification 3_504_872 parameters, head ["classifier.1."];
    options {
        /// A factor of all numbers of channels. The default is 1.
        width_mult: f64 = 1.0;
        /// The rows of blocks: expansion, channels, number, first stride. The default is the paper's.
        inverted_residual_setting: Vec<[usize; 4]> = SETTING.to_vec();
        /// What numbers of channels are multiples of. The default is 8.
        round_nearest: usize = 8;
        /// The probability of dropout. The default is 0.2.
        dropout: f64 = 0.2;
    }
    parts {
        /// The norm. The default is a batch norm.
        norm_layer: NormLayer = NormLayer::batch_norm_2d();
    }
}

impl MobileNetV2 {
    fn construct(config: &MobileNetV2Builder) -> Result<MobileNetV2> {
        if config.inverted_residual_setting.is_empty() || config.round_nearest == 0 {
            return Err(TorshError::invalid(
                config.name,
                "inverted_residual_setting has a row, and round_nearest is at least 1",
            ));
        }
        let norm = &config.norm_layer;
        let wide = |channels: usize, by: f64| {
            make_divisible(channels as f64 * by, config.round_nearest, None)
        };
        let mut channels = wide(32, config.width_mult);
        let last_channel = wide(1280, config.width_mult.max(1.0));
        let mut features = Sequential::new().add(
            Conv2dNormActivation::builder(3, channels)
                .stride(2)
                .norm_layer(norm.clone())
                .activation_layer(ActivationLayer::relu6())
                .build()?,
        );
        let mut stage_indices = vec![0];
        for &[expand, outputs, count, stride] in &config.inverted_residual_setting {
            let outputs = wide(outputs, config.width_mult);
            for i in 0..count {
                let stride = if i == 0 { stride as i64 } else { 1 };
                if stride > 1 {
                    stage_indices.push(features.len());
                }
                let parts = InvertedParts {
                    channels: [channels, channels * expand, outputs],
                    kernel: 3,
                    stride,
                    dilation: 1,
                    fused: false,
                    squeeze: None,
                    norm,
                    activation: ActivationLayer::relu6(),
                    flat: true,
                };
                features.push(InvertedResidual::new(parts.layers()?));
                channels = outputs;
            }
        }
        features.push(
            Conv2dNormActivation::builder(channels, last_channel)
                .kernel_size(1)
                .norm_layer(norm.clone())
                .activation_layer(ActivationLayer::relu6())
                .build()?,
        );
        stage_indices.push(features.len() - 1);
        let model = MobileNetV2 {
            features,
            classifier: Sequential::new()
                .add(Dropout::new(config.dropout)?)
                .add(Linear::builder(last_channel, config.common.classes()).build()?),
            last_channel,
            stage_indices,
            training: Training::default(),
            hooks: Hooks::new(),
        };
        init_layers(&model, |linear| normal_linear(linear, 0.01))?;
        Ok(model)
    }

    /// The number of features that the head reads: 1,280, times `width_mult` where it is above 1.
    ///
    /// ```
    /// use torsh_tensor::Device;
    /// use torsh_vision::models::MobileNetV2;
    /// let model = MobileNetV2::builder().width_mult(2.0).device(Device::Meta).build()?;
    /// assert_eq!(model.last_channel(), 2 * 1280);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn last_channel(&self) -> usize {
        self.last_channel
    }

    /// The positions of the first feature, of those that halve the size, and of the last, as detection and segmentation
    /// models take them.
    ///
    /// ```
    /// use torsh_tensor::Device;
    /// use torsh_vision::models::MobileNetV2;
    /// let model = MobileNetV2::builder().device(Device::Meta).build()?;
    /// assert_eq!(model.stage_indices(), [0, 2, 4, 7, 14, 18]);
    /// assert_eq!(model.features.len(), 19);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn stage_indices(&self) -> &[usize] {
        &self.stage_indices
    }
}

forward!(MobileNetV2, self, x, {
    let x = F::adaptive_avg_pool2d(&self.features.forward(x)?, 1)?;
    self.classifier.forward(&x.flatten(1)?)
});

impl VisionModel for MobileNetV2 {}

constructors! {
    Classification, MobileNetV2;
    /// MobileNetV2: 3.5 million parameters, images of 224 x 224 (<https://arxiv.org/abs/1801.04381>).
    mobilenet_v2, 3_504_872 parameters => MobileNetV2::builder();
}
