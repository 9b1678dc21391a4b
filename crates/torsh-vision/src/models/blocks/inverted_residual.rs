//! The blocks of MobileNet, MNASNet and EfficientNet.

use torsh_nn::Sequential;
use torsh_tensor::Result;

use super::{ActivationLayer, Conv2dNormActivation, NormLayer, SqueezeExcitationBuilder};

/// What a block is made of that widens, convolves each channel for itself, scales the channels and narrows.
pub(crate) struct InvertedParts<'a> {
    /// Channels of the input, in the middle and of the result. A block that does not widen has no first convolution.
    pub(crate) channels: [usize; 3],
    /// The window in the middle.
    pub(crate) kernel: i64,
    pub(crate) stride: i64,
    /// The window's dilation; above 1, its stride is 1.
    pub(crate) dilation: i64,
    /// Whether one convolution widens and convolves, and channels are not scaled.
    pub(crate) fused: bool,
    pub(crate) squeeze: Option<SqueezeExcitationBuilder>,
    pub(crate) norm: &'a NormLayer,
    pub(crate) activation: ActivationLayer,
    /// Whether the last convolution and its norm are layers of the block each.
    pub(crate) flat: bool,
}

impl InvertedParts<'_> {
    /// The layers in order, and whether the shape stays.
    pub(crate) fn layers(self) -> Result<(Sequential, bool)> {
        let [inputs, middle, outputs] = self.channels;
        let conv = |from, to, groups| {
            Conv2dNormActivation::builder(from, to)
                .groups(groups)
                .norm_layer(self.norm.clone())
                .activation_layer(self.activation.clone())
        };
        let window = |from, to, groups| {
            conv(from, to, groups)
                .kernel_size(self.kernel)
                .stride(if self.dilation > 1 { 1 } else { self.stride })
                .dilation(self.dilation)
        };
        let (mut layers, widens) = (Sequential::new(), middle != inputs);
        if self.fused {
            layers.push(window(inputs, if widens { middle } else { outputs }, 1).build()?);
        } else {
            if widens {
                layers.push(conv(inputs, middle, 1).kernel_size(1).build()?);
            }
            layers.push(window(middle, middle, middle).build()?);
            if let Some(squeeze) = self.squeeze {
                layers.push(squeeze.build()?);
            }
        }
        let last = conv(middle, outputs, 1)
            .kernel_size(1)
            .activation_layer(None);
        if self.flat {
            let items = last.build()?.into_layers().into_items();
            items.into_iter().for_each(|(_, layer)| layers.push(layer));
        } else if widens || !self.fused {
            layers.push(last.build()?);
        }
        Ok((layers, self.stride == 1 && inputs == outputs))
    }
}

/// `TYPE { FIELD }`: a block of layers with a shortcut where the shape stays. The names are torchvision's.
macro_rules! inverted_residual {
    ($name:ident { $layers:ident }) => {
        #[derive(torsh_nn::Module)]
        pub(crate) struct $name {
            pub(crate) $layers: torsh_nn::Sequential,
            stochastic_depth: Option<$crate::models::blocks::StochasticDepth>,
            #[module(skip)]
            shortcut: bool,
            training: torsh_nn::Training,
            hooks: torsh_nn::Hooks,
        }

        impl $name {
            fn new(($layers, shortcut): (torsh_nn::Sequential, bool)) -> $name {
                $name {
                    $layers,
                    stochastic_depth: None,
                    shortcut,
                    training: Default::default(),
                    hooks: Default::default(),
                }
            }
        }

        impl torsh_nn::Module for $name {
            #[torsh_tensor::names_caller]
            fn forward(&self, x: &Tensor) -> torsh_tensor::Result<Tensor> {
                self.hooks.run(self, x, |x| {
                    let y = self.$layers.forward(x)?;
                    match (self.shortcut, &self.stochastic_depth) {
                        (true, Some(depth)) => depth.forward(&y)?.add(x),
                        (true, None) => y.add(x),
                        (false, _) => Ok(y),
                    }
                })
            }
        }
    };
}
pub(crate) use inverted_residual;
