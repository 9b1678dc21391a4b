//! The models of the workloads, of any size.

use torsh_nn::{
    AdaptiveAvgPool2d, BatchNorm2d, Conv2d, Flatten, Hooks, LSTM, Linear, MaxPool2d, Module, ReLU,
    Sequential, Tanh, TransformerActivation, TransformerEncoder, TransformerEncoderLayer,
    functional as F, sequential,
};
use torsh_tensor::{Result, Tensor};
use torsh_vision::models::{Weights, get_model};

use crate::gpt::Gpt;
use crate::inputs::{randint, randn};

/// A model and its sizes.
// The sizes' names say what they are.
#[allow(missing_docs)]
#[derive(Clone, Debug, PartialEq)]
pub enum Model {
    /// Linear layers of these sizes with `tanh` or `relu` between them.
    Mlp { sizes: Vec<usize>, tanh: bool },
    /// Two convolutions, each with `relu` and a pooling by two, and a linear layer.
    Cnn {
        channels: [usize; 2],
        image: usize,
        classes: usize,
    },
    /// A decoder of Transformer blocks over symbols; scores of every position, one row each.
    Gpt {
        symbols: usize,
        width: usize,
        layers: usize,
        heads: usize,
        length: usize,
    },
    /// A recurrent layer and a linear one at its last step.
    Lstm {
        inputs: usize,
        hidden: usize,
        length: usize,
        classes: usize,
    },
    /// ResNet-18 with `width` channels behind its first convolution (K. He et al., "Deep residual
    /// learning for image recognition", 2016).
    ResNet18 {
        width: usize,
        image: usize,
        classes: usize,
    },
    /// A model of `torsh-vision` by its name, for images of ImageNet.
    Vision { name: &'static str, image: usize },
    /// A Transformer's encoder as BERT's, normalising behind its parts.
    Encoder {
        layers: usize,
        width: usize,
        heads: usize,
        inner: usize,
        length: usize,
    },
}

impl Model {
    /// The model with new weights, drawn from the default generator.
    pub fn build(&self) -> Result<Box<dyn Module>> {
        Ok(match *self {
            Model::Mlp { ref sizes, tanh } => Box::new(mlp(sizes, tanh)),
            Model::Cnn {
                channels,
                image,
                classes,
            } => Box::new(cnn(channels, image, classes)?),
            Model::Gpt {
                symbols,
                width,
                layers,
                heads,
                length,
            } => Box::new(Gpt::new(symbols, width, layers, heads, length, true)?),
            Model::Lstm {
                inputs,
                hidden,
                classes,
                ..
            } => Box::new(Lstm {
                rnn: LSTM::builder(inputs, hidden).batch_first(true).build()?,
                head: Linear::new(hidden, classes),
            }),
            Model::ResNet18 { width, classes, .. } => Box::new(resnet18(width, classes)?),
            Model::Vision { name, .. } => get_model(name, Weights::None)?,
            Model::Encoder {
                layers,
                width,
                heads,
                inner,
                ..
            } => {
                let layer = TransformerEncoderLayer::builder(width, heads)
                    .dim_feedforward(inner)
                    .activation(TransformerActivation::GELU)
                    .batch_first(true)
                    .build()?;
                let encoder = TransformerEncoder::builder(layer, layers);
                Box::new(encoder.enable_nested_tensor(false).build()?)
            }
        })
    }

    /// A batch of inputs.
    pub fn inputs(&self, batch: usize) -> Result<Tensor> {
        match *self {
            Model::Mlp { ref sizes, .. } => randn(&[batch, sizes[0]]),
            Model::Cnn { image, .. } => randn(&[batch, 1, image, image]),
            Model::Gpt {
                symbols, length, ..
            } => randint(symbols as i64, &[batch, length]),
            Model::Lstm { inputs, length, .. } => randn(&[batch, length, inputs]),
            Model::ResNet18 { image, .. } | Model::Vision { image, .. } => {
                randn(&[batch, 3, image, image])
            }
            Model::Encoder { width, length, .. } => randn(&[batch, length, width]),
        }
    }

    /// A class for each row of the output of a batch.
    pub fn targets(&self, batch: usize) -> Result<Tensor> {
        let (classes, rows) = match *self {
            Model::Mlp { ref sizes, .. } => (sizes[sizes.len() - 1], batch),
            Model::Gpt {
                symbols, length, ..
            } => (symbols, batch * length),
            Model::Cnn { classes, .. }
            | Model::Lstm { classes, .. }
            | Model::ResNet18 { classes, .. } => (classes, batch),
            Model::Vision { .. } => (1000, batch),
            Model::Encoder { width, .. } => (width, batch),
        };
        randint(classes as i64, &[rows])
    }
}

/// Linear layers of these sizes with `tanh` or `relu` between them.
pub(crate) fn mlp(sizes: &[usize], tanh: bool) -> Sequential {
    let mut net = Sequential::new();
    for (i, pair) in sizes.windows(2).enumerate() {
        if i > 0 && tanh {
            net.push(Tanh::new());
        } else if i > 0 {
            net.push(ReLU::new());
        }
        net.push(Linear::new(pair[0], pair[1]));
    }
    net
}

fn cnn([first, second]: [usize; 2], image: usize, classes: usize) -> Result<Sequential> {
    let side = image / 2 / 2;
    Ok(sequential![
        Conv2d::new(1, first, 3, 1, 1)?,
        ReLU::new(),
        MaxPool2d::new(2)?,
        Conv2d::new(first, second, 3, 1, 1)?,
        ReLU::new(),
        MaxPool2d::new(2)?,
        Flatten::new(),
        Linear::new(second * side * side, classes),
    ])
}

#[derive(Module)]
struct Lstm {
    rnn: LSTM,
    head: Linear,
}

impl Module for Lstm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (steps, _) = self.rnn.forward_with(x, None)?;
        self.head.forward(&steps.select(1, -1)?)
    }
}

/// Two convolutions, added to what comes in.
#[derive(Module)]
struct Basic {
    conv1: Conv2d,
    norm1: BatchNorm2d,
    conv2: Conv2d,
    norm2: BatchNorm2d,
    shortcut: Option<Sequential>,
    hooks: Hooks,
}

fn conv(inputs: usize, outputs: usize, kernel: usize, stride: usize) -> Result<Conv2d> {
    Conv2d::builder(inputs, outputs, kernel)
        .stride(stride)
        .padding(kernel / 2)
        .bias(false)
        .build()
}

impl Basic {
    fn new(inputs: usize, outputs: usize, stride: usize) -> Result<Basic> {
        let shortcut = match stride != 1 || inputs != outputs {
            true => Some(sequential![
                conv(inputs, outputs, 1, stride)?,
                BatchNorm2d::new(outputs)?
            ]),
            false => None,
        };
        Ok(Basic {
            conv1: conv(inputs, outputs, 3, stride)?,
            norm1: BatchNorm2d::new(outputs)?,
            conv2: conv(outputs, outputs, 3, 1)?,
            norm2: BatchNorm2d::new(outputs)?,
            shortcut,
            hooks: Hooks::new(),
        })
    }
}

impl Module for Basic {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let y = F::relu(self.norm1.forward(&self.conv1.forward(x)?)?)?;
            let y = self.norm2.forward(&self.conv2.forward(&y)?)?;
            F::relu(match &self.shortcut {
                Some(s) => y.add(s.forward(x)?)?,
                None => y.add(x)?,
            })
        })
    }
}

/// ResNet-18, whose blocks are of the type `Basic`.
pub(crate) fn resnet18(width: usize, classes: usize) -> Result<Sequential> {
    let mut net = sequential![
        conv(3, width, 7, 2)?,
        BatchNorm2d::new(width)?,
        ReLU::new(),
        MaxPool2d::builder(3).stride(2).padding(1).build()?,
    ];
    let mut inputs = width;
    for (factor, stride) in [
        (1, 1),
        (1, 1),
        (2, 2),
        (2, 1),
        (4, 2),
        (4, 1),
        (8, 2),
        (8, 1),
    ] {
        net.push(Basic::new(inputs, factor * width, stride)?);
        inputs = factor * width;
    }
    Ok(net
        .add(AdaptiveAvgPool2d::new(1)?)
        .add(Flatten::new())
        .add(Linear::new(inputs, classes)))
}
