//! Inception v3.

use torsh_functional::{self as F, AvgPool2dOptions, MaxPool2dOptions, Sizes};
use torsh_nn::{
    AdaptiveAvgPool2d, Conv2d, Dropout, Hooks, Linear, MaxPool2d, Module, Sequential, Training,
    init,
};
use torsh_tensor::{Result, Tensor, cat};

use super::blocks::sequence;
use super::builder::model_builder;
use super::common::{VisionModel, each_module};
use super::constructors;
use super::googlenet::{BasicConv2d, has_aux, transform_input};

/// What a branch reads.
#[derive(Clone, Copy)]
enum Reads {
    /// The block's input.
    Input,
    /// The input's means over 3 x 3.
    Means,
    /// The input's maxima over 3 x 3, at a stride of 2.
    Maxima,
}

/// Convolutions by their number one after the other, and then some beside each other.
type Branch = (Reads, &'static [usize], &'static [usize]);

/// Branches of convolutions side by side.
struct Mixed {
    layers: Sequential,
    branches: &'static [Branch],
}

sequence!(Mixed);

/// The name of a convolution, the channels of its result, its window, stride and padding; the channels it reads are those
/// of the convolution with the number given, or the block's.
type Row = (
    &'static str,
    usize,
    (i64, i64),
    i64,
    (i64, i64),
    Option<usize>,
);

const SAME: (i64, i64) = (0, 0);

impl Mixed {
    fn new(inputs: usize, rows: &[Row], branches: &'static [Branch]) -> Result<Mixed> {
        let mut layers = Sequential::new();
        for &(name, outputs, kernel, stride, padding, reads) in rows {
            let inputs = reads.map_or(inputs, |i| rows[i].1);
            let (kernel, padding) = (Sizes::from(kernel), Sizes::from(padding));
            layers.push_named(
                name,
                BasicConv2d::new(inputs, outputs, kernel, stride, padding)?,
            )?;
        }
        Ok(Mixed { layers, branches })
    }

    /// 256 to 288 channels at an eighth of the image's size.
    fn a(inputs: usize, pool: usize) -> Result<Mixed> {
        let rows: [Row; 7] = [
            ("branch1x1", 64, (1, 1), 1, SAME, None),
            ("branch5x5_1", 48, (1, 1), 1, SAME, None),
            ("branch5x5_2", 64, (5, 5), 1, (2, 2), Some(1)),
            ("branch3x3dbl_1", 64, (1, 1), 1, SAME, None),
            ("branch3x3dbl_2", 96, (3, 3), 1, (1, 1), Some(3)),
            ("branch3x3dbl_3", 96, (3, 3), 1, (1, 1), Some(4)),
            ("branch_pool", pool, (1, 1), 1, SAME, None),
        ];
        const BRANCHES: &[Branch] = &[
            (Reads::Input, &[0], &[]),
            (Reads::Input, &[1, 2], &[]),
            (Reads::Input, &[3, 4, 5], &[]),
            (Reads::Means, &[6], &[]),
        ];
        Mixed::new(inputs, &rows, BRANCHES)
    }

    /// Halves the size.
    fn b(inputs: usize) -> Result<Mixed> {
        let rows: [Row; 4] = [
            ("branch3x3", 384, (3, 3), 2, SAME, None),
            ("branch3x3dbl_1", 64, (1, 1), 1, SAME, None),
            ("branch3x3dbl_2", 96, (3, 3), 1, (1, 1), Some(1)),
            ("branch3x3dbl_3", 96, (3, 3), 2, SAME, Some(2)),
        ];
        const BRANCHES: &[Branch] = &[
            (Reads::Input, &[0], &[]),
            (Reads::Input, &[1, 2, 3], &[]),
            (Reads::Maxima, &[], &[]),
        ];
        Mixed::new(inputs, &rows, BRANCHES)
    }

    /// 768 channels at a sixteenth of the image's size.
    fn c(inputs: usize, width: usize) -> Result<Mixed> {
        let rows: [Row; 10] = [
            ("branch1x1", 192, (1, 1), 1, SAME, None),
            ("branch7x7_1", width, (1, 1), 1, SAME, None),
            ("branch7x7_2", width, (1, 7), 1, (0, 3), Some(1)),
            ("branch7x7_3", 192, (7, 1), 1, (3, 0), Some(2)),
            ("branch7x7dbl_1", width, (1, 1), 1, SAME, None),
            ("branch7x7dbl_2", width, (7, 1), 1, (3, 0), Some(4)),
            ("branch7x7dbl_3", width, (1, 7), 1, (0, 3), Some(5)),
            ("branch7x7dbl_4", width, (7, 1), 1, (3, 0), Some(6)),
            ("branch7x7dbl_5", 192, (1, 7), 1, (0, 3), Some(7)),
            ("branch_pool", 192, (1, 1), 1, SAME, None),
        ];
        const BRANCHES: &[Branch] = &[
            (Reads::Input, &[0], &[]),
            (Reads::Input, &[1, 2, 3], &[]),
            (Reads::Input, &[4, 5, 6, 7, 8], &[]),
            (Reads::Means, &[9], &[]),
        ];
        Mixed::new(inputs, &rows, BRANCHES)
    }

    /// Halves the size again.
    fn d(inputs: usize) -> Result<Mixed> {
        let rows: [Row; 6] = [
            ("branch3x3_1", 192, (1, 1), 1, SAME, None),
            ("branch3x3_2", 320, (3, 3), 2, SAME, Some(0)),
            ("branch7x7x3_1", 192, (1, 1), 1, SAME, None),
            ("branch7x7x3_2", 192, (1, 7), 1, (0, 3), Some(2)),
            ("branch7x7x3_3", 192, (7, 1), 1, (3, 0), Some(3)),
            ("branch7x7x3_4", 192, (3, 3), 2, SAME, Some(4)),
        ];
        const BRANCHES: &[Branch] = &[
            (Reads::Input, &[0, 1], &[]),
            (Reads::Input, &[2, 3, 4, 5], &[]),
            (Reads::Maxima, &[], &[]),
        ];
        Mixed::new(inputs, &rows, BRANCHES)
    }

    /// 2,048 channels at a thirty-second of the image's size.
    fn e(inputs: usize) -> Result<Mixed> {
        let rows: [Row; 9] = [
            ("branch1x1", 320, (1, 1), 1, SAME, None),
            ("branch3x3_1", 384, (1, 1), 1, SAME, None),
            ("branch3x3_2a", 384, (1, 3), 1, (0, 1), Some(1)),
            ("branch3x3_2b", 384, (3, 1), 1, (1, 0), Some(1)),
            ("branch3x3dbl_1", 448, (1, 1), 1, SAME, None),
            ("branch3x3dbl_2", 384, (3, 3), 1, (1, 1), Some(4)),
            ("branch3x3dbl_3a", 384, (1, 3), 1, (0, 1), Some(5)),
            ("branch3x3dbl_3b", 384, (3, 1), 1, (1, 0), Some(5)),
            ("branch_pool", 192, (1, 1), 1, SAME, None),
        ];
        const BRANCHES: &[Branch] = &[
            (Reads::Input, &[0], &[]),
            (Reads::Input, &[1], &[2, 3]),
            (Reads::Input, &[4, 5], &[6, 7]),
            (Reads::Means, &[8], &[]),
        ];
        Mixed::new(inputs, &rows, BRANCHES)
    }
}

impl Module for Mixed {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let mut parts = Vec::with_capacity(6);
        for &(reads, chain, fork) in self.branches {
            let mut y = match reads {
                Reads::Input => x.clone(),
                Reads::Means => {
                    let options = AvgPool2dOptions::default().stride(1).padding(1);
                    F::avg_pool2d_with(x, 3, options)?
                }
                Reads::Maxima => F::max_pool2d_with(x, 3, MaxPool2dOptions::default().stride(2))?,
            };
            for &layer in chain {
                y = self.layers[layer].forward(&y)?;
            }
            match fork {
                [] => parts.push(y),
                _ => {
                    for &layer in fork {
                        parts.push(self.layers[layer].forward(&y)?);
                    }
                }
            }
        }
        cat(&parts, 1)
    }
}

/// The head in the middle.
#[derive(Module)]
struct InceptionAux {
    conv0: BasicConv2d,
    conv1: BasicConv2d,
    fc: Linear,
    training: Training,
    hooks: Hooks,
}

impl InceptionAux {
    fn new(inputs: usize, classes: usize) -> Result<InceptionAux> {
        Ok(InceptionAux {
            conv0: BasicConv2d::new(inputs, 128, 1, 1, 0)?,
            conv1: BasicConv2d::new(128, 768, 5, 1, 0)?,
            fc: Linear::builder(768, classes).build()?,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }
}

forward!(InceptionAux, self, x, {
    let x = F::avg_pool2d_with(x, 5, AvgPool2dOptions::default().stride(3))?;
    let x = self.conv1.forward(&self.conv0.forward(&x)?)?;
    self.fc.forward(&F::adaptive_avg_pool2d(&x, 1)?.flatten(1)?)
});

/// What [`Inception3::forward_with`] returns.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::models::InceptionOutputs;
/// let out = InceptionOutputs { logits: tensor![2.0], aux_logits: Some(tensor![1.0]) };
/// // Training adds a part of the auxiliary head's loss, as four tenths.
/// let sum = match &out.aux_logits {
///     Some(aux) => out.logits.add(&aux.mul(0.4)?)?,
///     None => out.logits.clone(),
/// };
/// assert!(sum.allclose(&tensor![2.4])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct InceptionOutputs {
    /// The scores, `[N, num_classes]`.
    pub logits: Tensor,
    /// Those of the auxiliary head, in training mode.
    pub aux_logits: Option<Tensor>,
}

/// Inception v3 (Szegedy et al., "Rethinking the Inception Architecture for Computer Vision",
/// <https://arxiv.org/abs/1512.00567>).
///
/// Takes `[N, 3, H, W]` of at least 75 x 75 and returns `[N, num_classes]`. [`forward_with`](Inception3::forward_with) gives
/// the auxiliary head's scores too.
///
/// ```
/// use torsh_nn::ModuleExt;
/// use torsh_tensor::Device;
/// use torsh_vision::models::Inception3;
/// let model = Inception3::builder().device(Device::Meta).build()?;
/// assert_eq!(model.num_parameters(), 27_161_264);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[allow(non_snake_case)]
#[derive(Module)]
pub struct Inception3 {
    Conv2d_1a_3x3: BasicConv2d,
    Conv2d_2a_3x3: BasicConv2d,
    Conv2d_2b_3x3: BasicConv2d,
    maxpool1: MaxPool2d,
    Conv2d_3b_1x1: BasicConv2d,
    Conv2d_4a_3x3: BasicConv2d,
    maxpool2: MaxPool2d,
    Mixed_5b: Mixed,
    Mixed_5c: Mixed,
    Mixed_5d: Mixed,
    Mixed_6a: Mixed,
    Mixed_6b: Mixed,
    Mixed_6c: Mixed,
    Mixed_6d: Mixed,
    Mixed_6e: Mixed,
    AuxLogits: Option<InceptionAux>,
    Mixed_7a: Mixed,
    Mixed_7b: Mixed,
    Mixed_7c: Mixed,
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
    /// Builds an [`Inception3`].
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_tensor::Device;
    /// use torsh_vision::models::Inception3;
    /// let model = Inception3::builder().aux_logits(Some(false)).device(Device::Meta).build()?;
    /// assert_eq!(model.num_parameters(), 23_834_568);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Inception3Builder of Inception3, Classification 27_161_264 parameters, head ["fc.", "AuxLogits.fc."], loading |loading, this| {
        // As torchvision does for its weights.
        this.transform_input |= this.common.weights.is_pretrained();
        this.aux_logits = has_aux(this.aux_logits, &mut this.common, "AuxLogits.")?;
        loading.optional(&["AuxLogits."])
    };
    options {
        /// Whether there is an auxiliary head; unless set, there is, or as the weights have it.
        aux_logits: Option<bool> = None;
        /// Whether images that are normalised for ImageNet are brought into the range the original weights were trained
        /// with; false unless set, and true with the weights of [`InceptionV3Weights`](crate::models::InceptionV3Weights).
        transform_input: bool = false;
        /// Whether weights are drawn from a truncated normal distribution, and not as layers draw them. The default is
        /// `true`.
        init_weights: bool = true;
        /// The probability of dropout. The default is 0.5.
        dropout: f64 = 0.5;
    }
}

impl Inception3Builder {
    fn named(mut self) -> Self {
        self.name = "inception_v3";
        self
    }
}

impl Inception3 {
    fn construct(config: &Inception3Builder) -> Result<Inception3> {
        let pool = || MaxPool2d::builder(3).stride(2).build();
        let classes = config.common.classes();
        let model = Inception3 {
            Conv2d_1a_3x3: BasicConv2d::new(3, 32, 3, 2, 0)?,
            Conv2d_2a_3x3: BasicConv2d::new(32, 32, 3, 1, 0)?,
            Conv2d_2b_3x3: BasicConv2d::new(32, 64, 3, 1, 1)?,
            maxpool1: pool()?,
            Conv2d_3b_1x1: BasicConv2d::new(64, 80, 1, 1, 0)?,
            Conv2d_4a_3x3: BasicConv2d::new(80, 192, 3, 1, 0)?,
            maxpool2: pool()?,
            Mixed_5b: Mixed::a(192, 32)?,
            Mixed_5c: Mixed::a(256, 64)?,
            Mixed_5d: Mixed::a(288, 64)?,
            Mixed_6a: Mixed::b(288)?,
            Mixed_6b: Mixed::c(768, 128)?,
            Mixed_6c: Mixed::c(768, 160)?,
            Mixed_6d: Mixed::c(768, 160)?,
            Mixed_6e: Mixed::c(768, 192)?,
            AuxLogits: match config.aux_logits.unwrap_or(true) {
                true => Some(InceptionAux::new(768, classes)?),
                false => None,
            },
            Mixed_7a: Mixed::d(768)?,
            Mixed_7b: Mixed::e(1280)?,
            Mixed_7c: Mixed::e(2048)?,
            avgpool: AdaptiveAvgPool2d::new(1)?,
            dropout: Dropout::new(config.dropout)?,
            fc: Linear::builder(2048, classes).build()?,
            transform_input: config.transform_input,
            training: Training::default(),
            hooks: Hooks::new(),
        };
        if config.init_weights {
            // The head in the middle has spreads of its own: 0.001 for its linear layer. What torchvision marks on the
            // convolution block before it does not reach the convolution.
            let aux = model.AuxLogits.as_ref().map(|aux| aux.fc.weight.id());
            each_module(&model, |module| {
                let (weight, std) = if let Some(conv) = module.downcast_ref::<Conv2d>() {
                    (&conv.weight, 0.1)
                } else if let Some(linear) = module.downcast_ref::<Linear>() {
                    let own = aux == Some(linear.weight.id());
                    (&linear.weight, if own { 0.001 } else { 0.1 })
                } else {
                    return Ok(());
                };
                init::trunc_normal_(weight, 0.0, std, -2.0, 2.0).map(|_| ())
            })?;
        }
        Ok(model)
    }

    /// The scores, and those of the auxiliary head in training mode.
    #[torsh_tensor::names_caller]
    pub fn forward_with(&self, x: &Tensor) -> Result<InceptionOutputs> {
        let x = match self.transform_input {
            true => transform_input(x)?,
            false => x.clone(),
        };
        let x = self
            .Conv2d_2a_3x3
            .forward(&self.Conv2d_1a_3x3.forward(&x)?)?;
        let x = self.maxpool1.forward(&self.Conv2d_2b_3x3.forward(&x)?)?;
        let x = self
            .Conv2d_4a_3x3
            .forward(&self.Conv2d_3b_1x1.forward(&x)?)?;
        let mut x = self.maxpool2.forward(&x)?;
        for block in [
            &self.Mixed_5b,
            &self.Mixed_5c,
            &self.Mixed_5d,
            &self.Mixed_6a,
            &self.Mixed_6b,
            &self.Mixed_6c,
            &self.Mixed_6d,
            &self.Mixed_6e,
        ] {
            x = block.forward(&x)?;
        }
        let aux_logits = match (&self.AuxLogits, self.training.get()) {
            (Some(head), true) => Some(head.forward(&x)?),
            _ => None,
        };
        for block in [&self.Mixed_7a, &self.Mixed_7b, &self.Mixed_7c] {
            x = block.forward(&x)?;
        }
        let x = self.dropout.forward(&self.avgpool.forward(&x)?)?;
        Ok(InceptionOutputs {
            logits: self.fc.forward(&x.flatten(1)?)?,
            aux_logits,
        })
    }
}

impl Module for Inception3 {
    /// The scores alone.
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks
            .run(self, x, |x| Ok(self.forward_with(x)?.logits))
    }
}

impl VisionModel for Inception3 {
    #[torsh_tensor::names_caller]
    fn outputs(&self, x: &Tensor) -> Result<Vec<(&'static str, Tensor)>> {
        let out = self.forward_with(x)?;
        Ok(match out.aux_logits {
            Some(aux) => vec![("logits", out.logits), ("aux_logits", aux)],
            None => vec![("out", out.logits)],
        })
    }
}

constructors! {
    Classification, Inception3;
    /// Inception v3: 23.8 million parameters, 27.2 million with the auxiliary head, images of 299 x 299
    /// (<https://arxiv.org/abs/1512.00567>).
    inception_v3, 27_161_264 parameters => Inception3::builder().named();
}
