//! MNASNet.

use torsh_nn::init::{self, FanMode, KaimingOptions, Nonlinearity};
use torsh_nn::{BatchNorm2d, Conv2d, Dropout, Hooks, Linear, Module, ReLU, Sequential, Training};
use torsh_tensor::{Result, Tensor, TorshError};

use super::blocks::{inverted_residual, make_divisible};
use super::builder::model_builder;
use super::common::{VisionModel, init_layers};
use super::constructors;

/// TensorFlow's momentum of 0.9997 as PyTorch counts it.
const MOMENTUM: f64 = 1.0 - 0.9997;

fn conv(inputs: usize, outputs: usize, kernel: i64, stride: i64, groups: usize) -> Result<Conv2d> {
    Conv2d::builder(inputs, outputs, kernel)
        .stride(stride)
        .padding(kernel / 2)
        .groups(groups as i64)
        .bias(false)
        .build()
}

fn norm(channels: usize) -> Result<BatchNorm2d> {
    BatchNorm2d::builder(channels).momentum(MOMENTUM).build()
}

inverted_residual!(InvertedResidual { layers });

/// Widens, convolves each channel for itself, narrows.
fn block(
    inputs: usize,
    outputs: usize,
    kernel: i64,
    stride: i64,
    expand: usize,
) -> Result<InvertedResidual> {
    let middle = inputs * expand;
    let layers = Sequential::new()
        .add(conv(inputs, middle, 1, 1, 1)?)
        .add(norm(middle)?)
        .add(ReLU::new())
        .add(conv(middle, middle, kernel, stride, middle)?)
        .add(norm(middle)?)
        .add(ReLU::new())
        .add(conv(middle, outputs, 1, 1, 1)?)
        .add(norm(outputs)?);
    let shortcut = inputs == outputs && stride == 1;
    Ok(InvertedResidual::new((layers, shortcut)))
}

/// A network that was searched for with its time on a phone in mind, in the form B1 (Tan et al., "MnasNet: Platform-Aware
/// Neural Architecture Search for Mobile", <https://arxiv.org/abs/1807.11626>).
///
/// Takes `[N, 3, H, W]` of any size and returns `[N, num_classes]`. Checkpoints of the first version of torchvision's model, whose
/// first convolutions have 32 and 16 channels at any width, load into a model with such convolutions.
///
/// ```
/// use torsh_nn::{Module, ModuleExt};
/// use torsh_tensor::rand;
/// use torsh_vision::models::MNASNet;
/// let model = MNASNet::builder().alpha(0.25).num_classes(10).build()?;
/// model.eval();
/// assert_eq!(model.forward(&rand(&[1, 3, 32, 32]))?.dims(), [1, 10]);
/// assert_eq!(model.num_parameters(), 337_834);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct MNASNet {
    /// The convolutions.
    pub layers: Sequential,
    /// The head.
    pub classifier: Sequential,
    training: Training,
    hooks: Hooks,
}

model_builder! {
    /// Builds an [`MNASNet`]. The default is that of width 1.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_tensor::Device;
    /// use torsh_vision::models::MNASNet;
    /// let model = MNASNet::builder().alpha(0.5).device(Device::Meta).build()?;
    /// assert_eq!(model.num_parameters(), 2_218_512);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    MNASNetBuilder of MNASNet, Classification 4_383_312 parameters, head ["classifier.1."], loading |loading, this| {
        this.version = this.version_of_weights()?;
        loading
    };
    options {
        /// A factor of all numbers of channels. The default is 1.
        alpha: f64 = 1.0;
        /// The probability of dropout. The default is 0.2.
        dropout: f64 = 0.2;
    }
    fixed {
        version: u8 = 2;
    }
}

/// Channels of the first convolutions in version 1 of torchvision's model, whatever `alpha` is.
const V1_STEM: [usize; 2] = [32, 16];

impl MNASNetBuilder {
    /// Channels of the stem and of the stacks.
    fn depths(&self) -> [usize; 8] {
        let mut depths = [32, 16, 24, 40, 80, 96, 192, 320]
            .map(|depth| make_divisible(f64::from(depth) * self.alpha, 8, None));
        if self.version == 1 {
            depths[..2].copy_from_slice(&V1_STEM);
        }
        depths
    }

    /// Version 1 where the weights have its stem and a model of this width has another, with a line on the standard error.
    fn version_of_weights(&mut self) -> Result<u8> {
        let [first, second, ..] = self.depths();
        let Some(state) = self.common.read().map_err(|e| e.renamed(self.name))? else {
            return Ok(self.version);
        };
        let channels = |name: &str| state.get(name).and_then(|t| t.dims().first().copied());
        let stem = [channels("layers.0.weight"), channels("layers.6.weight")];
        if stem != V1_STEM.map(Some) || [first, second] == V1_STEM {
            return Ok(self.version);
        }
        eprintln!(
            "{}: the weights are of version 1, whose first convolutions have {} and {} channels at any width: so has the model",
            self.name, V1_STEM[0], V1_STEM[1]
        );
        Ok(1)
    }

    fn preset(mut self, name: &'static str, alpha: f64) -> Self {
        self.name = name;
        self.alpha(alpha)
    }
}

impl MNASNet {
    fn construct(config: &MNASNetBuilder) -> Result<MNASNet> {
        if config.alpha.is_nan() || config.alpha <= 0.0 {
            let why = format!("alpha must be positive, got {}", config.alpha);
            return Err(TorshError::invalid(config.name, why));
        }
        let d = config.depths();
        let mut layers = Sequential::new()
            .add(conv(3, d[0], 3, 2, 1)?)
            .add(norm(d[0])?)
            .add(ReLU::new())
            .add(conv(d[0], d[0], 3, 1, d[0])?)
            .add(norm(d[0])?)
            .add(ReLU::new())
            .add(conv(d[0], d[1], 1, 1, 1)?)
            .add(norm(d[1])?);
        let stacks: [(i64, i64, usize, usize); 6] = [
            (3, 2, 3, 3),
            (5, 2, 3, 3),
            (5, 2, 6, 3),
            (3, 1, 6, 2),
            (5, 2, 6, 4),
            (3, 1, 6, 1),
        ];
        for (i, (kernel, stride, expand, count)) in stacks.into_iter().enumerate() {
            let (inputs, outputs) = (d[i + 1], d[i + 2]);
            let mut stack = Sequential::new().add(block(inputs, outputs, kernel, stride, expand)?);
            for _ in 1..count {
                stack.push(block(outputs, outputs, kernel, 1, expand)?);
            }
            layers.push(stack);
        }
        layers.push(conv(d[7], 1280, 1, 1, 1)?);
        layers.push(norm(1280)?);
        layers.push(ReLU::new());
        let model = MNASNet {
            layers,
            classifier: Sequential::new()
                .add(Dropout::new(config.dropout)?)
                .add(Linear::builder(1280, config.common.classes()).build()?),
            training: Training::default(),
            hooks: Hooks::new(),
        };
        init_layers(&model, |linear| {
            let options = KaimingOptions::default()
                .mode(FanMode::FanOut)
                .nonlinearity(Nonlinearity::Sigmoid);
            init::kaiming_uniform_with(&linear.weight, options)?;
            match &linear.bias {
                Some(bias) => init::zeros_(bias).map(drop),
                None => Ok(()),
            }
        })?;
        Ok(model)
    }
}

forward!(MNASNet, self, x, {
    let x = self.layers.forward(x)?.mean_dim([2, 3], false)?;
    self.classifier.forward(&x)
});

impl VisionModel for MNASNet {}

constructors! {
    Classification, MNASNet;
    /// MNASNet of half the width: 2.2 million parameters, images of 224 x 224 (<https://arxiv.org/abs/1807.11626>).
    mnasnet0_5, 2_218_512 parameters => MNASNet::builder().preset("mnasnet0_5", 0.5);
    /// MNASNet of three quarters of the width: 3.2 million parameters, images of 224 x 224
    /// (<https://arxiv.org/abs/1807.11626>).
    mnasnet0_75, 3_170_208 parameters => MNASNet::builder().preset("mnasnet0_75", 0.75);
    /// MNASNet: 4.4 million parameters, images of 224 x 224 (<https://arxiv.org/abs/1807.11626>).
    mnasnet1_0, 4_383_312 parameters => MNASNet::builder().preset("mnasnet1_0", 1.0);
    /// MNASNet, 1.3 times as wide: 6.3 million parameters, images of 224 x 224 (<https://arxiv.org/abs/1807.11626>).
    mnasnet1_3, 6_282_256 parameters => MNASNet::builder().preset("mnasnet1_3", 1.3);
}
