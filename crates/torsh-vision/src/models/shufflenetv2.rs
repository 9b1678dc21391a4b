//! ShuffleNetV2.

use torsh_functional as F;
use torsh_nn::{BatchNorm2d, Conv2d, Hooks, Linear, MaxPool2d, Module, ReLU, Sequential, Training};
use torsh_tensor::{Result, TorshError, cat};

use super::builder::model_builder;
use super::common::VisionModel;
use super::constructors;

/// Half of the channels pass by, or both branches read all of them where the size halves; then the channels are shuffled.
#[derive(Module)]
struct InvertedResidual {
    branch1: Sequential,
    branch2: Sequential,
    #[module(skip)]
    stride: i64,
    training: Training,
    hooks: Hooks,
}

fn point(inputs: usize, outputs: usize) -> Result<Conv2d> {
    Conv2d::builder(inputs, outputs, 1).bias(false).build()
}

fn depthwise(channels: usize, stride: i64) -> Result<Conv2d> {
    Conv2d::builder(channels, channels, 3)
        .stride(stride)
        .padding(1)
        .groups(channels as i64)
        .bias(false)
        .build()
}

impl InvertedResidual {
    fn new(inputs: usize, outputs: usize, stride: i64) -> Result<InvertedResidual> {
        let half = outputs / 2;
        if stride == 1 && inputs != half * 2 {
            return Err(TorshError::invalid(
                "ShuffleNetV2",
                format!(
                    "a block that keeps the size has as many channels before, {inputs}, as after, {outputs}"
                ),
            ));
        }
        let mut branch1 = Sequential::new();
        if stride > 1 {
            branch1 = branch1
                .add(depthwise(inputs, stride)?)
                .add(BatchNorm2d::new(inputs)?)
                .add(point(inputs, half)?)
                .add(BatchNorm2d::new(half)?)
                .add(ReLU::new());
        }
        let branch2 = Sequential::new()
            .add(point(if stride > 1 { inputs } else { half }, half)?)
            .add(BatchNorm2d::new(half)?)
            .add(ReLU::new())
            .add(depthwise(half, stride)?)
            .add(BatchNorm2d::new(half)?)
            .add(point(half, half)?)
            .add(BatchNorm2d::new(half)?)
            .add(ReLU::new());
        Ok(InvertedResidual {
            branch1,
            branch2,
            stride,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }
}

forward!(InvertedResidual, self, x, {
    let parts = match self.stride {
        1 => {
            let mut halves = x.chunk(2, 1)?;
            let second = halves.pop().unwrap_or_else(|| x.clone());
            halves.push(self.branch2.forward(&second)?);
            halves
        }
        _ => vec![self.branch1.forward(x)?, self.branch2.forward(x)?],
    };
    F::channel_shuffle(&cat(&parts, 1)?, 2)
});

/// A network whose blocks shuffle the channels of two branches (Ma et al., "ShuffleNet V2: Practical Guidelines for
/// Efficient CNN Architecture Design", <https://arxiv.org/abs/1807.11164>).
///
/// Takes `[N, 3, H, W]` of any size and returns `[N, num_classes]`.
///
/// ```
/// use torsh_nn::{Module, ModuleExt};
/// use torsh_tensor::rand;
/// use torsh_vision::models::ShuffleNetV2;
/// let model = ShuffleNetV2::builder().num_classes(10).build()?;
/// model.eval();
/// assert_eq!(model.forward(&rand(&[1, 3, 32, 32]))?.dims(), [1, 10]);
/// assert_eq!(model.num_parameters(), 352_042);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct ShuffleNetV2 {
    /// The first convolution.
    pub conv1: Sequential,
    maxpool: MaxPool2d,
    /// The blocks at an eighth of the image's size.
    pub stage2: Sequential,
    /// The blocks at a sixteenth of the image's size.
    pub stage3: Sequential,
    /// The blocks at a thirty-second of the image's size.
    pub stage4: Sequential,
    /// The last convolution.
    pub conv5: Sequential,
    /// The head.
    pub fc: Linear,
    training: Training,
    hooks: Hooks,
}

model_builder! {
    /// Builds a [`ShuffleNetV2`]. The default is that of half the width.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_tensor::Device;
    /// use torsh_vision::models::ShuffleNetV2;
    /// // The model of full width, `shufflenet_v2_x1_0`.
    /// let builder = ShuffleNetV2::builder().stages_out_channels([24, 116, 232, 464, 1024]);
    /// assert_eq!(builder.device(Device::Meta).build()?.num_parameters(), 2_278_604);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ShuffleNetV2Builder of ShuffleNetV2, Classification 1_366_792 parameters, head ["fc."];
    options {
        /// How many blocks each of the three stages has. The default is 4, 8 and 4.
        stages_repeats: [usize; 3] = [4, 8, 4];
        /// The channels of the first convolution, the stages and the last convolution.
        stages_out_channels: [usize; 5] = [24, 48, 96, 192, 1024];
    }
}

impl ShuffleNetV2Builder {
    fn preset(mut self, name: &'static str, channels: [usize; 5]) -> Self {
        self.name = name;
        self.stages_out_channels(channels)
    }
}

impl ShuffleNetV2 {
    fn construct(config: &ShuffleNetV2Builder) -> Result<ShuffleNetV2> {
        let [first, channels @ .., last] = config.stages_out_channels;
        let mut inputs = first;
        let conv1 = Sequential::new()
            .add(
                Conv2d::builder(3, first, 3)
                    .stride(2)
                    .padding(1)
                    .bias(false)
                    .build()?,
            )
            .add(BatchNorm2d::new(first)?)
            .add(ReLU::new());
        let mut stage = |i: usize| -> Result<Sequential> {
            let outputs = channels[i];
            let mut blocks = Sequential::new().add(InvertedResidual::new(inputs, outputs, 2)?);
            for _ in 1..config.stages_repeats[i] {
                blocks.push(InvertedResidual::new(outputs, outputs, 1)?);
            }
            inputs = outputs;
            Ok(blocks)
        };
        Ok(ShuffleNetV2 {
            conv1,
            maxpool: MaxPool2d::builder(3).stride(2).padding(1).build()?,
            stage2: stage(0)?,
            stage3: stage(1)?,
            stage4: stage(2)?,
            conv5: Sequential::new()
                .add(point(channels[2], last)?)
                .add(BatchNorm2d::new(last)?)
                .add(ReLU::new()),
            fc: Linear::builder(last, config.common.classes()).build()?,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }
}

forward!(ShuffleNetV2, self, x, {
    let x = self.maxpool.forward(&self.conv1.forward(x)?)?;
    let x = self.stage3.forward(&self.stage2.forward(&x)?)?;
    let x = self.conv5.forward(&self.stage4.forward(&x)?)?;
    self.fc.forward(&x.mean_dim([2, 3], false)?)
});

impl VisionModel for ShuffleNetV2 {}

constructors! {
    Classification, ShuffleNetV2;
    /// ShuffleNetV2 of half the width: 1.4 million parameters, images of 224 x 224 (<https://arxiv.org/abs/1807.11164>).
    shufflenet_v2_x0_5, 1_366_792 parameters => ShuffleNetV2::builder().preset("shufflenet_v2_x0_5", [24, 48, 96, 192, 1024]);
    /// ShuffleNetV2: 2.3 million parameters, images of 224 x 224 (<https://arxiv.org/abs/1807.11164>).
    shufflenet_v2_x1_0, 2_278_604 parameters => ShuffleNetV2::builder().preset("shufflenet_v2_x1_0", [24, 116, 232, 464, 1024]);
    /// ShuffleNetV2, one and a half times as wide: 3.5 million parameters, images of 224 x 224
    /// (<https://arxiv.org/abs/1807.11164>).
    shufflenet_v2_x1_5, 3_503_624 parameters => ShuffleNetV2::builder().preset("shufflenet_v2_x1_5", [24, 176, 352, 704, 1024]);
    /// ShuffleNetV2, twice as wide: 7.4 million parameters, images of 224 x 224 (<https://arxiv.org/abs/1807.11164>).
    shufflenet_v2_x2_0, 7_393_996 parameters => ShuffleNetV2::builder().preset("shufflenet_v2_x2_0", [24, 244, 488, 976, 2048]);
}
