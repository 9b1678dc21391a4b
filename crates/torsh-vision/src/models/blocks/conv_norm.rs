//! A convolution, a norm and an activation.

use torsh_nn::functional::Sizes;
use torsh_nn::{Conv2d, Conv3d, Padding, Sequential};
use torsh_tensor::Result;

use super::{ActivationLayer, NormLayer, sequence};

macro_rules! conv_norm_activation {
    ($($(#[$doc:meta])* $name:ident $builder:ident $conv:ident $norm:ident $n:literal;)*) => {$(
        $(#[$doc])*
        pub struct $name {
            layers: Sequential,
            out_channels: usize,
        }

        sequence!($name forwards);

        impl $name {
            /// Gives a builder of a block from `in_channels` to `out_channels` with a window of 3, a batch norm and a
            /// ReLU, and a setter for each of torchvision's other arguments.
            #[doc = concat!(
                "\n```\n\
                 use torsh_nn::ModuleExt;\n\
                 use torsh_vision::models::blocks::", stringify!($name), ";\n\
                 let block = ", stringify!($name), "::builder(4, 8).build()?;\n\
                 assert_eq!(block.num_parameters(), 4 * 8 * 3usize.pow(", stringify!($n), ") + 2 * 8);\n\
                 # Ok::<(), torsh_tensor::TorshError>(())\n```"
            )]
            pub fn builder(in_channels: usize, out_channels: usize) -> $builder {
                $builder {
                    in_channels,
                    out_channels,
                    kernel_size: Sizes([3; $n]),
                    stride: Sizes([1; $n]),
                    padding: None,
                    groups: 1,
                    norm_layer: Some(NormLayer::$norm()),
                    activation_layer: Some(ActivationLayer::relu()),
                    dilation: Sizes([1; $n]),
                    bias: None,
                }
            }

            /// The number of channels of the result.
            #[doc = concat!(
                "\n```\n\
                 use torsh_vision::models::blocks::", stringify!($name), ";\n\
                 assert_eq!(", stringify!($name), "::builder(4, 8).build()?.out_channels(), 8);\n\
                 # Ok::<(), torsh_tensor::TorshError>(())\n```"
            )]
            pub fn out_channels(&self) -> usize {
                self.out_channels
            }

            /// The layers in order: the convolution, and the norm and the activation where it has them.
            #[doc = concat!(
                "\n```\n\
                 use torsh_vision::models::blocks::", stringify!($name), ";\n\
                 let block = ", stringify!($name), "::builder(4, 8).norm_layer(None).build()?;\n\
                 let names: Vec<&str> = block.layers().iter().map(|layer| layer.type_name()).collect();\n\
                 assert_eq!(names, [\"", stringify!($conv), "\", \"ReLU\"]);\n\
                 # Ok::<(), torsh_tensor::TorshError>(())\n```"
            )]
            pub fn layers(&self) -> &Sequential {
                &self.layers
            }

            /// Gives the layers away, for a model that takes them apart.
            #[doc = concat!(
                "\n```\n\
                 use torsh_vision::models::blocks::", stringify!($name), ";\n\
                 let items = ", stringify!($name), "::builder(4, 8).build()?.into_layers().into_items();\n\
                 let names: Vec<&str> = items.iter().map(|(name, _)| name.as_str()).collect();\n\
                 assert_eq!(names, [\"0\", \"1\", \"2\"]);\n\
                 # Ok::<(), torsh_tensor::TorshError>(())\n```"
            )]
            pub fn into_layers(self) -> Sequential {
                self.layers
            }
        }

        #[doc = concat!(
            "Builds a [`", stringify!($name), "`].\n\n```\n\
             use torsh_nn::ModuleExt;\n\
             use torsh_vision::models::blocks::", stringify!($name), ";\n\
             // Of a window of 1, in four groups of channels, with the two numbers of the norm.\n\
             let block = ", stringify!($name), "::builder(4, 8).kernel_size(1).groups(4).activation_layer(None).build()?;\n\
             assert_eq!((block.layers().len(), block.num_parameters()), (2, 4 * 8 / 4 + 2 * 8));\n\
             # Ok::<(), torsh_tensor::TorshError>(())\n```"
        )]
        #[derive(Clone, Debug)]
        #[must_use = "a builder does nothing until build()"]
        pub struct $builder {
            in_channels: usize,
            out_channels: usize,
            kernel_size: Sizes<$n>,
            stride: Sizes<$n>,
            padding: Option<Padding<$n>>,
            groups: usize,
            norm_layer: Option<NormLayer>,
            activation_layer: Option<ActivationLayer>,
            dilation: Sizes<$n>,
            bias: Option<bool>,
        }

        impl $builder {
            setters! {
                /// The window. The default is 3.
                kernel_size: Sizes<$n>, impl Into<Sizes<$n>> => Into::into;
                /// Steps of the window. The default is 1.
                stride: Sizes<$n>, impl Into<Sizes<$n>> => Into::into;
                /// What is added around; `(kernel_size - 1) / 2 * dilation` unless set, which keeps the size at a step of 1.
                padding: Option<Padding<$n>>, impl Into<Padding<$n>> => |v| Some(v.into());
                /// Groups of channels that do not see each other. The default is 1.
                groups: usize;
                /// The norm after the convolution, or `None`. The default is a batch norm.
                norm_layer: Option<NormLayer>, impl Into<Option<NormLayer>> => Into::into;
                /// The activation at the end, or `None`. The default is a ReLU.
                activation_layer: Option<ActivationLayer>, impl Into<Option<ActivationLayer>> => Into::into;
                /// Distance between the elements of the window. The default is 1.
                dilation: Sizes<$n>, impl Into<Sizes<$n>> => Into::into;
                /// Whether the convolution adds a bias; unless set, it does where there is no norm.
                bias: Option<bool>, bool => Some;
            }

            /// Makes the block.
            #[doc = concat!(
                "\n```\n\
                 use torsh_vision::models::blocks::", stringify!($name), ";\n\
                 let error = ", stringify!($name), "::builder(4, 8).groups(3).build().err().map(|e| e.to_string());\n\
                 assert!(error.is_some_and(|e| e.contains(\"in_channels must be divisible by groups, and 4 is not by 3\")));\n\
                 ```"
            )]
            ///
            /// # Errors
            /// Those of the convolution.
            #[torsh_tensor::names_caller]
            pub fn build(self) -> Result<$name> {
                let padding = self.padding.unwrap_or_else(|| {
                    Padding::Sizes(std::array::from_fn(|d| {
                        (self.kernel_size.0[d] - 1).div_euclid(2) * self.dilation.0[d]
                    }))
                });
                let mut layers = Sequential::new();
                layers.push(
                    $conv::builder(self.in_channels, self.out_channels, self.kernel_size)
                        .stride(self.stride)
                        .padding(padding)
                        .dilation(self.dilation)
                        .groups(self.groups as i64)
                        .bias(self.bias.unwrap_or(self.norm_layer.is_none()))
                        .build()?,
                );
                if let Some(norm) = &self.norm_layer {
                    layers.push(norm.make(self.out_channels)?);
                }
                if let Some(activation) = &self.activation_layer {
                    layers.push(activation.make()?);
                }
                Ok($name {
                    layers,
                    out_channels: self.out_channels,
                })
            }
        }
    )*};
}

conv_norm_activation! {
    /// A convolution of images, a norm and an activation (`torchvision.ops.Conv2dNormActivation`). The children are `0`,
    /// `1` and `2`, as those of a `Sequential`.
    ///
    /// Takes `[N, in_channels, H, W]`.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_vision::models::blocks::Conv2dNormActivation;
    /// let block = Conv2dNormActivation::builder(3, 8).norm_layer(None).activation_layer(None).build()?;
    /// assert_eq!(block.num_parameters(), 8 * 3 * 9 + 8);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Conv2dNormActivation Conv2dNormActivationBuilder Conv2d batch_norm_2d 2;
    /// A convolution of videos, a norm and an activation (`torchvision.ops.Conv3dNormActivation`). The children are `0`,
    /// `1` and `2`, as those of a `Sequential`.
    ///
    /// Takes `[N, in_channels, T, H, W]`.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_vision::models::blocks::Conv3dNormActivation;
    /// let block = Conv3dNormActivation::builder(3, 8).kernel_size((1, 3, 3)).build()?;
    /// assert_eq!(block.num_parameters(), 8 * 3 * 9 + 8 + 8);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Conv3dNormActivation Conv3dNormActivationBuilder Conv3d batch_norm_3d 3;
}
