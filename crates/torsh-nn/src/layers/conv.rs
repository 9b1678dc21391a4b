//! Convolutions.

use torsh_functional::{self as F, ConvOptions, PadOptions, Padding, Sizes};
use torsh_tensor::named::Named;
use torsh_tensor::{NormActivation, Result, Tensor, TorshError};

use crate::Module;
use crate::layers::builder::{builder, not_negative, positive};
use crate::layers::examples::{each, tests};
use crate::layers::{Factory, factory_setters};
use crate::module::{Hooks, Parameter, Training};

/// What stands beyond the edge of an image.
///
/// ```
/// # use torsh_nn::{Conv1d, Module, PaddingMode, init};
/// # use torsh_tensor::tensor;
/// let conv = Conv1d::builder(1, 1, 2).padding(1).padding_mode(PaddingMode::Replicate).bias(false).build()?;
/// init::ones_(&conv.weight)?;
/// assert_eq!(conv.forward(&tensor![[1.0, 2.0]])?, tensor![[2.0, 3.0, 4.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PaddingMode {
    /// Zeros.
    #[default]
    Zeros,
    /// The image mirrored at its edge, without the edge itself.
    Reflect,
    /// The edge repeated.
    Replicate,
    /// The image's other side.
    Circular,
    /// A string that is none of the words; the function that gets it refuses it.
    #[doc(hidden)]
    Unknown(torsh_tensor::named::Unknown),
}

torsh_tensor::named! {
    PaddingMode, "padding_mode",
    "zeros" => PaddingMode::Zeros,
    "reflect" => PaddingMode::Reflect,
    "replicate" => PaddingMode::Replicate,
    "circular" => PaddingMode::Circular,
}

/// The groups, where the channels divide into them.
#[track_caller]
pub(super) fn check_groups(
    layer: &'static str,
    in_channels: usize,
    out_channels: usize,
    groups: i64,
) -> Result<usize> {
    let refuse = |why: String| Err(TorshError::invalid(layer, why));
    let Some(n) = usize::try_from(groups).ok().filter(|&g| g > 0) else {
        return refuse("groups must be a positive integer".into());
    };
    for (name, channels) in [("in_channels", in_channels), ("out_channels", out_channels)] {
        if !channels.is_multiple_of(n) {
            return refuse(format!(
                "{name} must be divisible by groups, and {channels} is not by {n}"
            ));
        }
    }
    Ok(n)
}

/// A weight of these channels and this window, and a bias; not yet drawn.
#[track_caller]
pub(super) fn parameters(
    factory: Factory,
    channels: [usize; 2],
    window: &[i64],
    bias: Option<usize>,
) -> Result<(Parameter, Option<Parameter>)> {
    let mut shape = channels.to_vec();
    shape.extend(window.iter().map(|&n| n as usize));
    let weight = factory.empty(&shape)?;
    let bias = match bias {
        Some(n) => Some(Parameter::with_requires_grad(factory.empty(&[n])?, true)?),
        None => None,
    };
    Ok((Parameter::with_requires_grad(weight, true)?, bias))
}

/// How many elements are added before and behind each dimension, from the last on.
fn edges<const N: usize>(padding: Padding<N>, kernel: [i64; N], dilation: [i64; N]) -> Vec<i64> {
    let sides = |d: usize| match padding {
        Padding::Valid | Padding::Unknown(_) => [0, 0],
        Padding::Sizes(p) => [p[d], p[d]],
        Padding::Sides(sides) => sides[d],
        Padding::Same => {
            let total = dilation[d] * (kernel[d] - 1);
            [total / 2, total - total / 2]
        }
    };
    (0..N).rev().flat_map(sides).collect()
}

/// The ways to make a convolution, transposed or not, and its lazy form.
macro_rules! constructors {
    ($name:ident $builder:ident $lazy:ident $n:tt $padding:ident $what:literal) => {
        impl $name {
            #[doc = concat!("A ", $what, " with bias. An error where a size is 0.")]
            #[doc = $crate::layers::examples::shows!(
                stringify!($name), "::new(1, 8, 3, 2, 0)?";
                stringify!($name), "(1, 8, kernel_size=", $crate::layers::examples::each!($n 3), ", stride=",
                $crate::layers::examples::each!($n 2), ")"
            )]
            #[torsh_tensor::names_caller(Self)]
            pub fn new(
                in_channels: usize,
                out_channels: usize,
                kernel_size: impl Into<Sizes<$n>>,
                stride: impl Into<Sizes<$n>>,
                padding: impl Into<$padding<$n>>,
            ) -> Result<$name> {
                $name::builder(in_channels, out_channels, kernel_size)
                    .stride(stride)
                    .padding(padding)
                    .build()
            }

            #[doc = concat!("A ", $what, " with PyTorch's other arguments.")]
            #[doc = $crate::layers::examples::shows!(
                stringify!($name), "::builder(1, 8, 3).bias(false).build()?";
                stringify!($name), "(1, 8, kernel_size=", $crate::layers::examples::each!($n 3), ", stride=",
                $crate::layers::examples::each!($n 1), ", bias=False)"
            )]
            pub fn builder(
                in_channels: usize,
                out_channels: usize,
                kernel_size: impl Into<Sizes<$n>>,
            ) -> $builder {
                $builder::with(in_channels, out_channels, kernel_size.into())
            }

            /// Draws the weights anew, and the bias, both uniformly over `1 / sqrt(fan_in)` to either side.
            #[doc = $crate::layers::examples::tests!(
                "let layer = ", stringify!($name), "::new(1, 8, 3, 2, 0)?;\n",
                "init::zeros_(&layer.weight)?;\nlayer.reset_parameters()?;\n",
                "// In each window are at least three elements.\n",
                "assert!(layer.weight.abs()?.max()?.item::<f64>()? < 1.0 / 3f64.sqrt());\n",
                "assert!(layer.weight.abs()?.max()?.item::<f64>()? > 0.0);"
            )]
            #[torsh_tensor::names_caller]
            pub fn reset_parameters(&self) -> Result<()> {
                $crate::layers::linear::reset(&self.weight, self.bias.as_deref())
            }
        }

        impl $crate::layers::Lazy<$name> {
            #[doc = concat!("A ", $what, " with bias, of the channels of its first input. An error where a size is 0.")]
            #[doc = $crate::layers::examples::shows!(
                "Lazy", stringify!($name), "::new(8, 3, 2, 0)?";
                "Lazy", stringify!($name), "(0, 8, kernel_size=", $crate::layers::examples::each!($n 3), ", stride=",
                $crate::layers::examples::each!($n 2), ")"
            )]
            #[torsh_tensor::names_caller(Self)]
            pub fn new(
                out_channels: usize,
                kernel_size: impl Into<Sizes<$n>>,
                stride: impl Into<Sizes<$n>>,
                padding: impl Into<$padding<$n>>,
            ) -> Result<Self> {
                Self::builder(out_channels, kernel_size)
                    .stride(stride)
                    .padding(padding)
                    .build()
            }

            #[doc = concat!("A ", $what, " of the channels of its first input, with PyTorch's other arguments.")]
            #[doc = $crate::layers::examples::shows!(
                "Lazy", stringify!($name), "::builder(8, 3).bias(false).build()?";
                "Lazy", stringify!($name), "(0, 8, kernel_size=", $crate::layers::examples::each!($n 3), ", stride=",
                $crate::layers::examples::each!($n 1), ", bias=False)"
            )]
            pub fn builder(out_channels: usize, kernel_size: impl Into<Sizes<$n>>) -> $lazy {
                $lazy($builder::with(0, out_channels, kernel_size.into()))
            }
        }
    };
}
pub(super) use constructors;

macro_rules! convolutions {
    ($($(#[$doc:meta])* $name:ident $builder:ident $lazy:ident $n:tt $function:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Module)]
        pub struct $name {
            /// `[out_channels, in_channels / groups, ..]`, with the window's sizes.
            pub weight: Parameter,
            /// `[out_channels]`
            pub bias: Option<Parameter>,
            #[module(skip)]
            options: $builder,
            training: Training,
            hooks: Hooks,
        }

        constructors!($name $builder $lazy $n Padding "convolution");

        impl Module for $name {
            #[torsh_tensor::names_caller]
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                self.hooks.run(self, x, |x| {
                    let (o, mut options) = (&self.options, self.call());
                    let bias = self.bias.as_deref();
                    if o.padding_mode == PaddingMode::Zeros {
                        return F::$function(x, &self.weight, bias, options);
                    }
                    let edges = edges(o.padding, o.kernel_size.0, o.dilation.0);
                    let x = F::pad_with(x, edges, PadOptions::new().mode(o.padding_mode.word()))?;
                    options.padding = Padding::Valid;
                    F::$function(&x, &self.weight, bias, options)
                })
            }

            fn extra_repr(&self) -> String {
                let o = &self.options;
                let mut text = format!(
                    "{}, {}, kernel_size={}, stride={}",
                    self.in_channels(), o.out_channels, o.kernel_size, o.stride
                );
                match o.padding {
                    Padding::Sizes(p) if p == [0; $n] => {}
                    Padding::Sizes(p) => text += &format!(", padding={}", Sizes(p)),
                    Padding::Same => text += ", padding=same",
                    Padding::Valid => text += ", padding=valid",
                    Padding::Sides(sides) => text += &format!(", padding={sides:?}"),
                    Padding::Unknown(word) => text += &format!(", padding={}", word.as_str()),
                }
                if o.dilation != Sizes([1; $n]) {
                    text += &format!(", dilation={}", o.dilation);
                }
                if o.groups != 1 {
                    text += &format!(", groups={}", o.groups);
                }
                if self.bias.is_none() {
                    text += ", bias=False";
                }
                if o.padding_mode != PaddingMode::Zeros {
                    text += &format!(", padding_mode={}", o.padding_mode.word());
                }
                text
            }
        }

        builder! {
            $builder of $name infers in_channels: $lazy lazily "(8, 3)" { in_channels: usize, out_channels: usize, kernel_size: Sizes<$n> }
                calls "(8, 8, 3)" before "" 8
                shows [", 8, kernel_size=", each!($n 3), ", stride=", each!($n 1)] {
                /// Steps of the window. The default is 1.
                @ ".stride(2)" [", 8, kernel_size=", each!($n 3), ", stride=", each!($n 2)]
                stride: Sizes<$n> = Sizes([1; $n]), impl Into<Sizes<$n>> => |s| s.into();
                /// What is added around: sizes, [`Padding::Same`] or [`Padding::Valid`]. The default
                /// is 0.
                @ ".padding(1)" [", 8, kernel_size=", each!($n 3), ", stride=", each!($n 1), ", padding=", each!($n 1)]
                padding: Padding<$n> = Padding::Sizes([0; $n]), impl Into<Padding<$n>> => |p| p.into();
                /// Distance between the elements of the window. The default is 1.
                @ ".dilation(2)" [", 8, kernel_size=", each!($n 3), ", stride=", each!($n 1), ", dilation=", each!($n 2)]
                dilation: Sizes<$n> = Sizes([1; $n]), impl Into<Sizes<$n>> => |s| s.into();
                /// Groups of channels that do not see each other. The default is 1.
                @ ".groups(2)" [", 8, kernel_size=", each!($n 3), ", stride=", each!($n 1), ", groups=2"]
                groups: i64 = 1;
                /// Whether a bias is added. The default is `true`.
                @ ".bias(false)" [", 8, kernel_size=", each!($n 3), ", stride=", each!($n 1), ", bias=False"]
                bias: bool = true;
                /// What stands beyond the edge. The default is zeros.
                @ ".padding(1).padding_mode(PaddingMode::Reflect)" [
                    ", 8, kernel_size=", each!($n 3), ", stride=", each!($n 1), ", padding=", each!($n 1), ", padding_mode=reflect"
                ]
                padding_mode: PaddingMode = PaddingMode::Zeros, impl Into<PaddingMode> => Into::into;
            }
        }

        impl $name {
            /// A layer with the parameters of this one, which it shares, and other padding. It has no hooks.
            #[doc = tests!(
                "let layer = ", stringify!($name), "::new(1, 1, 3, 1, 0)?;\n",
                "let wider = layer.with_padding(1);\n",
                "assert!(wider.extra_repr().contains(\"padding=\"));\n",
                "init::zeros_(&layer.weight)?;\n",
                "assert!(!wider.weight.any()?.item::<bool>()?);"
            )]
            pub fn with_padding(&self, padding: impl Into<Padding<$n>>) -> $name {
                let mut options = self.options.clone();
                options.padding = padding.into();
                $name {
                    weight: self.weight.clone(),
                    bias: self.bias.clone(),
                    options,
                    training: self.training.clone(),
                    hooks: Hooks::new(),
                }
            }

            /// A lazy layer's options say 0.
            fn in_channels(&self) -> usize {
                self.weight.dims()[1] * self.options.groups as usize
            }

            /// The arguments of the function.
            fn call(&self) -> ConvOptions<$n> {
                let o = &self.options;
                ConvOptions {
                    stride: o.stride.0,
                    padding: o.padding,
                    dilation: o.dilation.0,
                    groups: o.groups,
                }
            }

            /// Whether it is the function alone: without hooks, and with zeros around the image.
            pub(super) fn is_plain(&self) -> bool {
                self.hooks.is_empty() && self.options.padding_mode == PaddingMode::Zeros
            }

            /// The layer, which is [plain](Self::is_plain), and what follows it.
            #[track_caller]
            pub(super) fn forward_then(&self, x: &Tensor, then: NormActivation<'_>) -> Result<Tensor> {
                let bias = self.bias.as_deref();
                x.conv_batch_norm_activation(&self.weight, bias, self.call(), then)
            }
        }

        impl $builder {
            factory_setters!($name "(8, 8, 3)");

            /// Makes the layer and draws its weights. An error where sizes are 0, or the channels
            /// do not divide into the groups.
            #[doc = tests!(
                "let layer = ", stringify!($name), "::builder(8, 4, 1).groups(2).build()?;\n",
                "assert_eq!(layer.num_parameters(), 4 * (8 / 2) + 4);\n",
                "assert!(", stringify!($name), "::builder(8, 4, 1).groups(3).build().is_err());"
            )]
            #[torsh_tensor::names_caller]
            pub fn build(self) -> Result<$name> {
                const NAME: &str = stringify!($name);
                let groups = check_groups(NAME, self.in_channels, self.out_channels, self.groups)?;
                positive(NAME, &[
                    ("kernel_size", self.kernel_size),
                    ("stride", self.stride),
                    ("dilation", self.dilation),
                ])?;
                self.padding_mode.known().map_err(|e| e.renamed(NAME))?;
                self.padding.known().map_err(|e| e.renamed(NAME))?;
                if let Padding::Sizes(p) = self.padding {
                    not_negative(NAME, "padding", Sizes(p))?;
                }
                if self.padding == Padding::Same && self.stride != Sizes([1; $n]) {
                    let why = "padding='same' is not supported for strided convolutions";
                    return Err(TorshError::invalid(NAME, why));
                }
                let channels = [self.out_channels, self.in_channels / groups];
                let bias = self.bias.then_some(self.out_channels);
                let (weight, bias) = parameters(self.factory, channels, &self.kernel_size.0, bias)?;
                let layer = $name {
                    weight,
                    bias,
                    options: self,
                    training: Training::default(),
                    hooks: Hooks::new(),
                };
                layer.reset_parameters()?;
                Ok(layer)
            }
        }
    )*};
}

convolutions! {
    /// A convolution of signals (`torch.nn.Conv1d`).
    ///
    /// Takes `[N, in_channels, L]` or `[in_channels, L]`. `weight` is
    /// `[out_channels, in_channels / groups, kernel]`.
    ///
    /// ```
    /// use torsh_nn::{Conv1d, Module, init};
    /// use torsh_tensor::tensor;
    /// let conv = Conv1d::builder(1, 1, 2).bias(false).build()?;
    /// init::ones_(&conv.weight)?;
    /// assert_eq!(conv.forward(&tensor![[[1.0, 2.0, 4.0]]])?, tensor![[[3.0, 6.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Conv1d Conv1dBuilder LazyConv1dBuilder 1 conv1d_with;
    /// A convolution of images (`torch.nn.Conv2d`).
    ///
    /// Takes `[N, in_channels, H, W]` or `[in_channels, H, W]`. `weight` is
    /// `[out_channels, in_channels / groups, kernel_h, kernel_w]`.
    ///
    /// ```
    /// use torsh_nn::Conv2d;
    /// let conv = Conv2d::new(3, 64, 3, 1, 1)?;
    /// assert_eq!(conv.weight.dims(), [64, 3, 3, 3]);
    /// let grouped = Conv2d::builder(8, 64, (3, 5)).stride(2).groups(4).bias(false).build()?;
    /// assert_eq!(grouped.weight.dims(), [64, 2, 3, 5]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Conv2d Conv2dBuilder LazyConv2dBuilder 2 conv2d_with;
    /// A convolution of volumes (`torch.nn.Conv3d`).
    ///
    /// Takes `[N, in_channels, D, H, W]` or `[in_channels, D, H, W]`. `weight` is
    /// `[out_channels, in_channels / groups, kernel_d, kernel_h, kernel_w]`.
    ///
    /// ```
    /// use torsh_nn::{Conv3d, Module, init};
    /// use torsh_tensor::ones;
    /// let conv = Conv3d::builder(1, 1, 2).bias(false).build()?;
    /// init::ones_(&conv.weight)?;
    /// assert_eq!(conv.forward(&ones(&[1, 2, 2, 2]))?.item::<f32>()?, 8.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Conv3d Conv3dBuilder LazyConv3dBuilder 3 conv3d_with;
}
