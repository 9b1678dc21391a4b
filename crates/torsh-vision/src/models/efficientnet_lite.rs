//! EfficientNet-Lite.

use torsh_nn::{
    AdaptiveAvgPool2d, BatchNorm2d, Conv2d, Dropout, FieldMut, FieldRef, Hooks, Identity, Linear,
    Module, ModuleField, ModuleFields, Padding, ReLU6, Sequential, Training, conv_norm_activation,
    conv_norm_add_activation, init,
};
use torsh_tensor::{Result, Tensor};

use super::blocks::make_divisible;
use super::builder::model_builder;
use super::common::{VisionModel, each_module, uniform_linear};
use super::constructors;

/// A convolution whose result has the input's size divided by the stride, rounded up, as TensorFlow's "same" padding: what
/// does not divide evenly is padded on the right and below.
struct Conv2dSame {
    conv: Conv2d,
    kernel: i64,
    stride: i64,
    groups: usize,
}

impl ModuleField for Conv2dSame {
    fn visit_field<'a>(&'a self, name: &str, visitor: &mut dyn FnMut(&str, FieldRef<'a>)) {
        visitor(name, FieldRef::Module(self));
    }

    fn visit_field_mut(&mut self, name: &str, visitor: &mut dyn FnMut(&str, FieldMut<'_>)) {
        visitor(name, FieldMut::Module(self));
    }
}

impl ModuleFields for Conv2dSame {
    fn visit_fields<'a>(&'a self, visitor: &mut dyn FnMut(&str, FieldRef<'a>)) {
        self.conv.visit_fields(visitor);
    }

    fn visit_fields_mut(&mut self, visitor: &mut dyn FnMut(&str, FieldMut<'_>)) {
        self.conv.visit_fields_mut(visitor);
    }

    fn type_name(&self) -> &'static str {
        "Conv2dSame"
    }
}

impl Conv2dSame {
    fn new(
        inputs: usize,
        outputs: usize,
        kernel: i64,
        stride: i64,
        groups: usize,
    ) -> Result<Conv2dSame> {
        let conv = Conv2d::builder(inputs, outputs, kernel)
            .stride(stride)
            .padding(kernel / 2)
            .groups(groups as i64)
            .bias(false)
            .build()?;
        Ok(Conv2dSame {
            conv,
            kernel,
            stride,
            groups,
        })
    }
}

impl Conv2dSame {
    /// What `f` makes of the convolution with the padding of image `x`.
    fn padded(&self, x: &Tensor, f: impl FnOnce(&Conv2d) -> Result<Tensor>) -> Result<Tensor> {
        // Half of the window on each side, for all but a few sizes at a stride.
        let [.., height, width] = *x.dims() else {
            return f(&self.conv);
        };
        let total = |size: usize| {
            let size = size as i64;
            let out = (size + self.stride - 1) / self.stride;
            ((out - 1) * self.stride + self.kernel - size).max(0)
        };
        let (high, wide) = (total(height), total(width));
        if high == self.kernel - 1 && wide == self.kernel - 1 {
            return f(&self.conv);
        }
        let sides = [high, wide].map(|total| [total / 2, total - total / 2]);
        f(&self.conv.with_padding(Padding::Sides(sides)))
    }

    /// `relu6(norm(self(x)))`.
    fn active(&self, norm: &BatchNorm2d, x: &Tensor) -> Result<Tensor> {
        self.padded(x, |conv| active(conv, norm, x))
    }
}

impl Module for Conv2dSame {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.padded(x, |conv| conv.forward(x))
    }

    fn extra_repr(&self) -> String {
        self.conv.extra_repr()
    }
}

fn norm(channels: usize) -> Result<BatchNorm2d> {
    BatchNorm2d::builder(channels).eps(1e-3).build()
}

/// A convolution of each channel for itself and one of 1 x 1.
#[derive(Module)]
struct DepthwiseSeparable {
    conv_dw: Conv2dSame,
    bn1: BatchNorm2d,
    conv_pw: Conv2d,
    bn2: BatchNorm2d,
    #[module(skip)]
    shortcut: bool,
    training: Training,
    hooks: Hooks,
}

/// Widens, convolves each channel for itself, narrows.
#[derive(Module)]
struct InvertedResidual {
    conv_pw: Conv2d,
    bn1: BatchNorm2d,
    conv_dw: Conv2dSame,
    bn2: BatchNorm2d,
    conv_pwl: Conv2d,
    bn3: BatchNorm2d,
    #[module(skip)]
    shortcut: bool,
    training: Training,
    hooks: Hooks,
}

fn point(inputs: usize, outputs: usize) -> Result<Conv2d> {
    Conv2d::builder(inputs, outputs, 1).bias(false).build()
}

impl DepthwiseSeparable {
    fn new(inputs: usize, outputs: usize, kernel: i64, stride: i64) -> Result<Self> {
        Ok(DepthwiseSeparable {
            conv_dw: Conv2dSame::new(inputs, inputs, kernel, stride, inputs)?,
            bn1: norm(inputs)?,
            conv_pw: point(inputs, outputs)?,
            bn2: norm(outputs)?,
            shortcut: stride == 1 && inputs == outputs,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }
}

impl InvertedResidual {
    fn new(inputs: usize, outputs: usize, kernel: i64, stride: i64, expand: usize) -> Result<Self> {
        let wide = make_divisible((inputs * expand) as f64, 8, None);
        Ok(InvertedResidual {
            conv_pw: point(inputs, wide)?,
            bn1: norm(wide)?,
            conv_dw: Conv2dSame::new(wide, wide, kernel, stride, wide)?,
            bn2: norm(wide)?,
            conv_pwl: point(wide, outputs)?,
            bn3: norm(outputs)?,
            shortcut: stride == 1 && inputs == outputs,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }
}

/// `relu6(norm(conv(x)))`.
fn active(conv: &Conv2d, norm: &BatchNorm2d, x: &Tensor) -> Result<Tensor> {
    conv_norm_activation(conv, norm, &ReLU6::new(), x)
}

/// The convolution and norm at a block's end, with the block's input added where there is a shortcut.
fn end(conv: &Conv2d, norm: &BatchNorm2d, y: &Tensor, shortcut: Option<&Tensor>) -> Result<Tensor> {
    let none = Identity::new();
    match shortcut {
        Some(x) => conv_norm_add_activation(conv, norm, &none, y, || Ok(x.clone())),
        None => conv_norm_activation(conv, norm, &none, y),
    }
}

forward!(DepthwiseSeparable, self, x, {
    let y = self.conv_dw.active(&self.bn1, x)?;
    end(&self.conv_pw, &self.bn2, &y, self.shortcut.then_some(x))
});

forward!(InvertedResidual, self, x, {
    let y = active(&self.conv_pw, &self.bn1, x)?;
    let y = self.conv_dw.active(&self.bn2, &y)?;
    end(&self.conv_pwl, &self.bn3, &y, self.shortcut.then_some(x))
});

/// EfficientNet without squeeze and excitation, with ReLU6 and TensorFlow's padding, for small devices (Tan and Le,
/// <https://arxiv.org/abs/1905.11946>; the form of <https://github.com/tensorflow/tpu>).
///
/// Takes `[N, 3, H, W]` of any size and returns `[N, num_classes]`. Parameters have the names of timm's
/// `tf_efficientnet_lite0`; checkpoints with the names of `efficientnet_pytorch` (`_blocks.0._depthwise_conv.weight`) load
/// too.
///
/// ```
/// use torsh_nn::{Module, ModuleExt};
/// use torsh_tensor::rand;
/// use torsh_vision::models::EfficientNetLite;
/// let model = EfficientNetLite::builder().num_classes(10).build()?;
/// model.eval();
/// assert_eq!(model.forward(&rand(&[1, 3, 33, 32]))?.dims(), [1, 10]);
/// assert_eq!(model.num_parameters(), 3_383_818);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct EfficientNetLite {
    conv_stem: Conv2dSame,
    bn1: BatchNorm2d,
    /// The stages.
    pub blocks: Sequential,
    /// The last convolution.
    pub conv_head: Conv2d,
    bn2: BatchNorm2d,
    act: ReLU6,
    global_pool: AdaptiveAvgPool2d,
    dropout: Dropout,
    /// The head.
    pub classifier: Linear,
    training: Training,
    hooks: Hooks,
}

/// Window, stride, expansion, channels and number of blocks of each stage.
const STAGES: [(i64, i64, usize, usize, usize); 7] = [
    (3, 1, 1, 16, 1),
    (3, 2, 6, 24, 2),
    (5, 2, 6, 40, 2),
    (3, 2, 6, 80, 3),
    (5, 1, 6, 112, 3),
    (5, 2, 6, 192, 4),
    (3, 1, 6, 320, 1),
];

model_builder! {
    /// Builds an [`EfficientNetLite`]. The default is that of Lite0.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_tensor::Device;
    /// use torsh_vision::models::EfficientNetLite;
    /// let model = EfficientNetLite::builder().depth_mult(2.0).device(Device::Meta).build()?;
    /// // Twice two blocks in the second stage; the first and the last stage keep one.
    /// let blocks: Vec<usize> = model.blocks.iter().map(|stage| stage.children().len()).collect();
    /// assert_eq!(blocks, [1, 4, 4, 6, 6, 8, 1]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    EfficientNetLiteBuilder of EfficientNetLite, Classification 4_652_008 parameters, head ["classifier."], loading |loading, this| {
        let counts = this.counts();
        this.common.rename(|name| renamed(name, &counts))?;
        loading
    };
    options {
        /// A factor of the stages' channels. The default is 1.
        width_mult: f64 = 1.0;
        /// A factor of the numbers of blocks of the stages between the first and the last. The default is 1.
        depth_mult: f64 = 1.0;
        /// The probability of dropout ahead of the head. The default is 0.
        dropout: f64 = 0.0;
    }
}

impl EfficientNetLiteBuilder {
    fn preset(mut self, name: &'static str, width: f64, depth: f64) -> Self {
        self.name = name;
        self.width_mult(width).depth_mult(depth)
    }

    /// The number of blocks of each stage.
    fn counts(&self) -> Vec<usize> {
        let last = STAGES.len() - 1;
        let count = |(i, &(.., n)): (usize, &(i64, i64, usize, usize, usize))| match i {
            0 => n,
            _ if i == last => n,
            _ => (n as f64 * self.depth_mult).ceil() as usize,
        };
        STAGES.iter().enumerate().map(count).collect()
    }
}

/// The name of a tensor that `efficientnet_pytorch` gives another.
fn renamed(name: &str, counts: &[usize]) -> Option<String> {
    let outside = [
        ("_conv_stem.", "conv_stem."),
        ("_bn0.", "bn1."),
        ("_conv_head.", "conv_head."),
        ("_bn1.", "bn2."),
        ("_fc.", "classifier."),
    ];
    if let Some((old, new)) = outside.iter().find(|(old, _)| name.starts_with(old)) {
        return Some(format!("{new}{}", &name[old.len()..]));
    }
    let mut parts = name.strip_prefix("_blocks.")?.splitn(3, '.');
    let (number, layer, field) = (parts.next()?, parts.next()?, parts.next()?);
    let mut number: usize = number.parse().ok()?;
    let mut stage = 0;
    while number >= *counts.get(stage)? {
        number -= counts[stage];
        stage += 1;
    }
    let layer = match (stage, layer) {
        (0, "_depthwise_conv") => "conv_dw",
        (0, "_bn1") => "bn1",
        (0, "_project_conv") => "conv_pw",
        (0, "_bn2") => "bn2",
        (_, "_expand_conv") => "conv_pw",
        (_, "_bn0") => "bn1",
        (_, "_depthwise_conv") => "conv_dw",
        (_, "_bn1") => "bn2",
        (_, "_project_conv") => "conv_pwl",
        (_, "_bn2") => "bn3",
        _ => return None,
    };
    Some(format!("blocks.{stage}.{number}.{layer}.{field}"))
}

/// `normal_` by the fan out of a group.
fn init_conv(conv: &Conv2d, groups: usize) -> Result<()> {
    if let [outputs, _, height, width] = *conv.weight.dims() {
        let fan_out = height * width * outputs / groups;
        init::normal_(&conv.weight, 0.0, (2.0 / fan_out as f64).sqrt())?;
    }
    Ok(())
}

impl EfficientNetLite {
    fn construct(config: &EfficientNetLiteBuilder) -> Result<EfficientNetLite> {
        let conv_stem = Conv2dSame::new(3, 32, 3, 2, 1)?;
        let bn1 = norm(32)?;
        let mut blocks = Sequential::new();
        let mut inputs = 32;
        for (&(kernel, stride, expand, outputs, _), count) in STAGES.iter().zip(config.counts()) {
            let outputs = make_divisible(outputs as f64 * config.width_mult, 8, None);
            let mut stage = Sequential::new();
            for i in 0..count {
                let stride = if i == 0 { stride } else { 1 };
                match expand {
                    1 => stage.push(DepthwiseSeparable::new(inputs, outputs, kernel, stride)?),
                    _ => stage.push(InvertedResidual::new(
                        inputs, outputs, kernel, stride, expand,
                    )?),
                }
                inputs = outputs;
            }
            blocks.push(stage);
        }
        let model = EfficientNetLite {
            conv_stem,
            bn1,
            blocks,
            conv_head: point(inputs, 1280)?,
            bn2: norm(1280)?,
            act: ReLU6::new(),
            global_pool: AdaptiveAvgPool2d::new(1)?,
            dropout: Dropout::new(config.dropout)?,
            classifier: Linear::builder(1280, config.common.classes()).build()?,
            training: Training::default(),
            hooks: Hooks::new(),
        };
        each_module(&model, |module| {
            if let Some(conv) = module.downcast_ref::<Conv2d>() {
                init_conv(conv, 1)?;
            } else if let Some(same) = module.downcast_ref::<Conv2dSame>() {
                init_conv(&same.conv, same.groups)?;
            } else if let Some(linear) = module.downcast_ref::<Linear>() {
                uniform_linear(linear)?;
            }
            Ok(())
        })?;
        Ok(model)
    }
}

forward!(EfficientNetLite, self, x, {
    let x = self.conv_stem.padded(x, |conv| {
        conv_norm_activation(conv, &self.bn1, &self.act, x)
    })?;
    let x = self.blocks.forward(&x)?;
    let x = conv_norm_activation(&self.conv_head, &self.bn2, &self.act, &x)?;
    let x = self.global_pool.forward(&x)?;
    self.classifier
        .forward(&self.dropout.forward(&x.flatten(1)?)?)
});

impl VisionModel for EfficientNetLite {}

constructors! {
    Classification, EfficientNetLite;
    /// EfficientNet-Lite0: 4.7 million parameters, images of 224 x 224 (<https://arxiv.org/abs/1905.11946>).
    efficientnet_lite0, 4_652_008 parameters => EfficientNetLite::builder().preset("efficientnet_lite0", 1.0, 1.0);
    /// EfficientNet-Lite1: 5.4 million parameters, images of 240 x 240 (<https://arxiv.org/abs/1905.11946>).
    efficientnet_lite1, 5_416_680 parameters => EfficientNetLite::builder().preset("efficientnet_lite1", 1.0, 1.1);
    /// EfficientNet-Lite2: 6.1 million parameters, images of 260 x 260 (<https://arxiv.org/abs/1905.11946>).
    efficientnet_lite2, 6_092_072 parameters => EfficientNetLite::builder().preset("efficientnet_lite2", 1.1, 1.2);
    /// EfficientNet-Lite3: 8.2 million parameters, images of 280 x 280 (<https://arxiv.org/abs/1905.11946>).
    efficientnet_lite3, 8_197_096 parameters => EfficientNetLite::builder().preset("efficientnet_lite3", 1.2, 1.4);
    /// EfficientNet-Lite4: 13.0 million parameters, images of 300 x 300 (<https://arxiv.org/abs/1905.11946>).
    efficientnet_lite4, 13_006_568 parameters => EfficientNetLite::builder().preset("efficientnet_lite4", 1.4, 1.8);
}
