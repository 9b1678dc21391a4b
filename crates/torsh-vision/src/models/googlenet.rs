//! GoogLeNet.

use torsh_functional::{self as F, Padding, Sizes};
use torsh_nn::{
    AdaptiveAvgPool2d, BatchNorm2d, Conv2d, Dropout, Hooks, Linear, MaxPool2d, Module, ReLU,
    Sequential, Training, conv_norm_activation, init,
};
use torsh_tensor::{Result, Tensor, cat};

use super::builder::model_builder;
use super::common::{VisionModel, each_module};
use super::{Common, constructors};

/// A convolution without bias, a batch norm that adds 0.001 to variances, and a ReLU.
#[derive(Module)]
pub(super) struct BasicConv2d {
    conv: Conv2d,
    bn: BatchNorm2d,
    training: Training,
    hooks: Hooks,
}

impl BasicConv2d {
    #[track_caller]
    pub(super) fn new(
        inputs: usize,
        outputs: usize,
        kernel: impl Into<Sizes<2>>,
        stride: i64,
        padding: impl Into<Padding<2>>,
    ) -> Result<BasicConv2d> {
        Ok(BasicConv2d {
            conv: Conv2d::builder(inputs, outputs, kernel)
                .stride(stride)
                .padding(padding)
                .bias(false)
                .build()?,
            bn: BatchNorm2d::builder(outputs).eps(0.001).build()?,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }
}

forward!(BasicConv2d, self, x, {
    conv_norm_activation(&self.conv, &self.bn, &ReLU::new(), x)
});

/// From ImageNet's normalisation to values around 0 within one.
pub(super) fn transform_input(x: &Tensor) -> Result<Tensor> {
    let channel =
        |i: i64, std: f64, mean: f64| x.narrow(1, i, 1)?.mul(std / 0.5)?.add((mean - 0.5) / 0.5);
    let channels = [
        channel(0, 0.229, 0.485)?,
        channel(1, 0.224, 0.456)?,
        channel(2, 0.225, 0.406)?,
    ];
    cat(&channels, 1)
}

/// Whether a model has auxiliary heads: as asked for, or as the weights have them.
pub(super) fn has_aux(
    asked: Option<bool>,
    common: &mut Common,
    prefix: &str,
) -> Result<Option<bool>> {
    Ok(match (asked, common.read()?) {
        (None, Some(state)) => Some(state.keys().any(|key| key.starts_with(prefix))),
        (asked, _) => asked,
    })
}

/// Four branches of convolutions side by side.
#[derive(Module)]
struct Inception {
    branch1: BasicConv2d,
    branch2: Sequential,
    branch3: Sequential,
    branch4: Sequential,
    training: Training,
    hooks: Hooks,
}

impl Inception {
    fn new(inputs: usize, widths: [usize; 6]) -> Result<Inception> {
        let [one, narrow3, three, narrow5, five, pool] = widths;
        let conv =
            |inputs, outputs, kernel: i64| BasicConv2d::new(inputs, outputs, kernel, 1, kernel / 2);
        Ok(Inception {
            branch1: conv(inputs, one, 1)?,
            branch2: Sequential::new()
                .add(conv(inputs, narrow3, 1)?)
                .add(conv(narrow3, three, 3)?),
            // The paper's window is 5; torchvision's weights are of 3.
            branch3: Sequential::new()
                .add(conv(inputs, narrow5, 1)?)
                .add(conv(narrow5, five, 3)?),
            branch4: Sequential::new()
                .add(
                    MaxPool2d::builder(3)
                        .stride(1)
                        .padding(1)
                        .ceil_mode(true)
                        .build()?,
                )
                .add(conv(inputs, pool, 1)?),
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }
}

forward!(Inception, self, x, {
    let parts = [
        self.branch1.forward(x)?,
        self.branch2.forward(x)?,
        self.branch3.forward(x)?,
        self.branch4.forward(x)?,
    ];
    cat(&parts, 1)
});

/// A head on features of a layer in the middle.
#[derive(Module)]
struct InceptionAux {
    conv: BasicConv2d,
    fc1: Linear,
    fc2: Linear,
    dropout: Dropout,
    training: Training,
    hooks: Hooks,
}

impl InceptionAux {
    fn new(inputs: usize, classes: usize, dropout: f64) -> Result<InceptionAux> {
        Ok(InceptionAux {
            conv: BasicConv2d::new(inputs, 128, 1, 1, 0)?,
            fc1: Linear::builder(2048, 1024).build()?,
            fc2: Linear::builder(1024, classes).build()?,
            dropout: Dropout::new(dropout)?,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }
}

forward!(InceptionAux, self, x, {
    let x = self.conv.forward(&F::adaptive_avg_pool2d(x, 4)?)?;
    let x = F::relu(self.fc1.forward(&x.flatten(1)?)?)?;
    self.fc2.forward(&self.dropout.forward(&x)?)
});

/// What [`GoogLeNet::forward_with`] returns.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::models::GoogLeNetOutputs;
/// let (one, two) = (tensor![1.0], tensor![3.0]);
/// let out = GoogLeNetOutputs { logits: tensor![2.0], aux_logits2: Some(two), aux_logits1: Some(one) };
/// // The paper adds three tenths of the auxiliary heads' losses.
/// let mut sum = out.logits;
/// for aux in [out.aux_logits2, out.aux_logits1].into_iter().flatten() {
///     sum = sum.add(&aux.mul(0.3)?)?;
/// }
/// assert!(sum.allclose(&tensor![2.0 + 0.3 * (1.0 + 3.0)])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct GoogLeNetOutputs {
    /// The scores, `[N, num_classes]`.
    pub logits: Tensor,
    /// Those of the second auxiliary head, in training mode.
    pub aux_logits2: Option<Tensor>,
    /// Those of the first auxiliary head, in training mode.
    pub aux_logits1: Option<Tensor>,
}

/// A network of branches side by side, with heads in the middle that help training (Szegedy et al., "Going Deeper with
/// Convolutions", <https://arxiv.org/abs/1409.4842>).
///
/// Takes `[N, 3, H, W]` of at least 15 x 15 and returns `[N, num_classes]`. [`forward_with`](GoogLeNet::forward_with) gives
/// the auxiliary heads' scores too.
///
/// ```
/// use torsh_nn::{Module, ModuleExt};
/// use torsh_tensor::rand;
/// use torsh_vision::models::GoogLeNet;
/// let model = GoogLeNet::builder().num_classes(10).init_weights(false).build()?;
/// let out = model.forward_with(&rand(&[2, 3, 64, 64]))?;
/// assert_eq!(out.aux_logits1.as_ref().map(|t| t.dims().to_vec()), Some(vec![2, 10]));
/// model.eval();
/// assert!(model.forward_with(&rand(&[1, 3, 64, 64]))?.aux_logits2.is_none());
/// assert_eq!(model.num_parameters(), 9_960_638);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct GoogLeNet {
    conv1: BasicConv2d,
    maxpool1: MaxPool2d,
    conv2: BasicConv2d,
    conv3: BasicConv2d,
    maxpool2: MaxPool2d,
    inception3a: Inception,
    inception3b: Inception,
    maxpool3: MaxPool2d,
    inception4a: Inception,
    inception4b: Inception,
    inception4c: Inception,
    inception4d: Inception,
    inception4e: Inception,
    maxpool4: MaxPool2d,
    inception5a: Inception,
    inception5b: Inception,
    aux1: Option<InceptionAux>,
    aux2: Option<InceptionAux>,
    avgpool: AdaptiveAvgPool2d,
    dropout: Dropout,
    /// The head.
    pub fc: Linear,
    #[module(skip)]
    transform_input: bool,
    training: Training,
    hooks: Hooks,
}

model_builder! {
    /// Builds a [`GoogLeNet`].
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_tensor::Device;
    /// use torsh_vision::models::GoogLeNet;
    /// let model = GoogLeNet::builder().aux_logits(Some(false)).device(Device::Meta).build()?;
    /// assert_eq!(model.num_parameters(), 6_624_904);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    GoogLeNetBuilder of GoogLeNet, Classification 13_004_888 parameters, head ["fc.", "aux1.fc2.", "aux2.fc2."], loading |loading, this| {
        if this.common.weights.is_pretrained() {
            // As torchvision does for its weights.
            this.transform_input = true;
            this.aux_logits.get_or_insert(false);
        }
        this.aux_logits = has_aux(this.aux_logits, &mut this.common, "aux1.")?;
        loading.optional(&["aux1.", "aux2."])
    };
    options {
        /// Whether there are auxiliary heads; unless set, there are, or as the weights have them, and none with the weights of
        /// [`GoogLeNetWeights`](crate::models::GoogLeNetWeights).
        aux_logits: Option<bool> = None;
        /// Whether images that are normalised for ImageNet are brought into the range the original weights were trained
        /// with; false unless set, and true with the weights of [`GoogLeNetWeights`](crate::models::GoogLeNetWeights).
        transform_input: bool = false;
        /// Whether weights are drawn from a truncated normal distribution, and not as layers draw them. The default is
        /// `true`.
        init_weights: bool = true;
        /// The probability of dropout. The default is 0.2.
        dropout: f64 = 0.2;
        /// The probability of dropout in auxiliary heads. The default is 0.7.
        dropout_aux: f64 = 0.7;
    }
}

impl GoogLeNetBuilder {
    fn named(mut self) -> Self {
        self.name = "googlenet";
        self
    }
}

impl GoogLeNet {
    fn construct(config: &GoogLeNetBuilder) -> Result<GoogLeNet> {
        let pool = |kernel: i64| MaxPool2d::builder(kernel).stride(2).ceil_mode(true).build();
        let classes = config.common.classes();
        let conv1 = BasicConv2d::new(3, 64, 7, 2, 3)?;
        let conv2 = BasicConv2d::new(64, 64, 1, 1, 0)?;
        let conv3 = BasicConv2d::new(64, 192, 3, 1, 1)?;
        let inception3a = Inception::new(192, [64, 96, 128, 16, 32, 32])?;
        let inception3b = Inception::new(256, [128, 128, 192, 32, 96, 64])?;
        let inception4a = Inception::new(480, [192, 96, 208, 16, 48, 64])?;
        let inception4b = Inception::new(512, [160, 112, 224, 24, 64, 64])?;
        let inception4c = Inception::new(512, [128, 128, 256, 24, 64, 64])?;
        let inception4d = Inception::new(512, [112, 144, 288, 32, 64, 64])?;
        let inception4e = Inception::new(528, [256, 160, 320, 32, 128, 128])?;
        let inception5a = Inception::new(832, [256, 160, 320, 32, 128, 128])?;
        let inception5b = Inception::new(832, [384, 192, 384, 48, 128, 128])?;
        let (aux1, aux2) = match config.aux_logits.unwrap_or(true) {
            true => (
                Some(InceptionAux::new(512, classes, config.dropout_aux)?),
                Some(InceptionAux::new(528, classes, config.dropout_aux)?),
            ),
            false => (None, None),
        };
        let model = GoogLeNet {
            conv1,
            maxpool1: pool(3)?,
            conv2,
            conv3,
            maxpool2: pool(3)?,
            inception3a,
            inception3b,
            maxpool3: pool(3)?,
            inception4a,
            inception4b,
            inception4c,
            inception4d,
            inception4e,
            maxpool4: pool(2)?,
            inception5a,
            inception5b,
            aux1,
            aux2,
            avgpool: AdaptiveAvgPool2d::new(1)?,
            dropout: Dropout::new(config.dropout)?,
            fc: Linear::builder(1024, classes).build()?,
            transform_input: config.transform_input,
            training: Training::default(),
            hooks: Hooks::new(),
        };
        if config.init_weights {
            each_module(&model, |module| {
                let weight = if let Some(conv) = module.downcast_ref::<Conv2d>() {
                    &conv.weight
                } else if let Some(linear) = module.downcast_ref::<Linear>() {
                    &linear.weight
                } else {
                    return Ok(());
                };
                init::trunc_normal_(weight, 0.0, 0.01, -2.0, 2.0).map(|_| ())
            })?;
        }
        Ok(model)
    }

    /// The scores, and those of the auxiliary heads in training mode.
    #[torsh_tensor::names_caller]
    pub fn forward_with(&self, x: &Tensor) -> Result<GoogLeNetOutputs> {
        let aux = |head: &Option<InceptionAux>, x: &Tensor| match (head, self.training.get()) {
            (Some(head), true) => head.forward(x).map(Some),
            _ => Ok(None),
        };
        let x = match self.transform_input {
            true => transform_input(x)?,
            false => x.clone(),
        };
        let x = self.maxpool1.forward(&self.conv1.forward(&x)?)?;
        let x = self.conv3.forward(&self.conv2.forward(&x)?)?;
        let x = self.inception3a.forward(&self.maxpool2.forward(&x)?)?;
        let x = self.maxpool3.forward(&self.inception3b.forward(&x)?)?;
        let x = self.inception4a.forward(&x)?;
        let aux_logits1 = aux(&self.aux1, &x)?;
        let x = self.inception4c.forward(&self.inception4b.forward(&x)?)?;
        let x = self.inception4d.forward(&x)?;
        let aux_logits2 = aux(&self.aux2, &x)?;
        let x = self.maxpool4.forward(&self.inception4e.forward(&x)?)?;
        let x = self.inception5b.forward(&self.inception5a.forward(&x)?)?;
        let x = self.avgpool.forward(&x)?.flatten(1)?;
        Ok(GoogLeNetOutputs {
            logits: self.fc.forward(&self.dropout.forward(&x)?)?,
            aux_logits2,
            aux_logits1,
        })
    }
}

impl Module for GoogLeNet {
    /// The scores alone.
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks
            .run(self, x, |x| Ok(self.forward_with(x)?.logits))
    }
}

impl VisionModel for GoogLeNet {
    #[torsh_tensor::names_caller]
    fn outputs(&self, x: &Tensor) -> Result<Vec<(&'static str, Tensor)>> {
        let out = self.forward_with(x)?;
        Ok(match (out.aux_logits2, out.aux_logits1) {
            (Some(two), Some(one)) => vec![
                ("logits", out.logits),
                ("aux_logits2", two),
                ("aux_logits1", one),
            ],
            _ => vec![("out", out.logits)],
        })
    }
}

constructors! {
    Classification, GoogLeNet;
    /// GoogLeNet: 6.6 million parameters, 13.0 million with the auxiliary heads, images of 224 x 224
    /// (<https://arxiv.org/abs/1409.4842>).
    googlenet, 13_004_888 parameters => GoogLeNet::builder().named();
}
