//! Transposed convolutions.

use torsh_functional::{self as F, ConvTransposeOptions, Sizes};
use torsh_tensor::{IntoShape, Result, Tensor, TorshError};

use crate::Module;
use crate::layers::builder::{builder, not_negative, positive};
use crate::layers::conv::{check_groups, constructors, parameters};
use crate::layers::examples::{each, tests};
use crate::layers::factory_setters;
use crate::module::{Hooks, Parameter, Training};

/// The padding of the output that makes it `size`, spatial or with batch and channels.
fn output_padding<const N: usize>(
    layer: &'static str,
    x: &Tensor,
    size: &[i64],
    [kernel, stride, padding, dilation]: [[i64; N]; 4],
) -> Result<[i64; N]> {
    let refuse = |why: String| Err(TorshError::invalid(layer, why));
    let Some(lead) = x.ndim().checked_sub(N).filter(|n| matches!(n, 1 | 2)) else {
        return Err(TorshError::shape(
            layer,
            format!(
                "expected {}D or {}D input, got {}",
                N + 1,
                N + 2,
                x.describe()
            ),
        ));
    };
    let tail = if size.len() == N + lead {
        &size[lead..]
    } else {
        size
    };
    let Ok(wanted) = <[i64; N]>::try_from(tail) else {
        return refuse(format!(
            "for {}D input, output_size must have {N} or {} elements (got {})",
            x.ndim(),
            N + lead,
            size.len()
        ));
    };
    let least: [i64; N] = std::array::from_fn(|d| {
        (x.dims()[lead + d] as i64 - 1)
            .saturating_mul(stride[d])
            .saturating_add(dilation[d].saturating_mul(kernel[d] - 1) + 1 - 2 * padding[d])
    });
    let most: [i64; N] = std::array::from_fn(|d| least[d].saturating_add(stride[d] - 1));
    if (0..N).any(|d| wanted[d] < least[d] || wanted[d] > most[d]) {
        return refuse(format!(
            "requested an output size of {wanted:?}, but valid sizes range from {least:?} to {most:?} (for an input of {})",
            x.shape()
        ));
    }
    Ok(std::array::from_fn(|d| wanted[d] - least[d]))
}

macro_rules! transposed {
    ($($(#[$doc:meta])* $name:ident $builder:ident $lazy:ident $n:tt $function:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Module)]
        pub struct $name {
            /// `[in_channels, out_channels / groups, ..]`, with the window's sizes.
            pub weight: Parameter,
            /// `[out_channels]`
            pub bias: Option<Parameter>,
            #[module(skip)]
            options: $builder,
            training: Training,
            hooks: Hooks,
        }

        constructors!($name $builder $lazy $n Sizes "transposed convolution");

        impl $name {
            /// [`forward`](Module::forward) to a given size, where the stride leaves several: the
            /// spatial sizes, or all. An error for a size that is not one of them.
            #[torsh_tensor::names_caller]
            pub fn forward_with(&self, x: &Tensor, output_size: impl IntoShape) -> Result<Tensor> {
                let (o, size) = (&self.options, output_size.sizes());
                self.hooks.run(self, x, |x| {
                    let window = [o.kernel_size.0, o.stride.0, o.padding.0, o.dilation.0];
                    self.run(x, output_padding(stringify!($name), x, &size, window)?)
                })
            }

            #[track_caller]
            fn run(&self, x: &Tensor, output_padding: [i64; $n]) -> Result<Tensor> {
                let o = &self.options;
                let options = ConvTransposeOptions {
                    stride: o.stride.0,
                    padding: o.padding.0,
                    output_padding,
                    groups: o.groups,
                    dilation: o.dilation.0,
                };
                F::$function(x, &self.weight, self.bias.as_deref(), options)
            }
        }

        impl Module for $name {
            #[torsh_tensor::names_caller]
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                self.hooks.run(self, x, |x| self.run(x, self.options.output_padding.0))
            }

            fn extra_repr(&self) -> String {
                let o = &self.options;
                let mut text = format!(
                    "{}, {}, kernel_size={}, stride={}",
                    self.weight.dims()[0], o.out_channels, o.kernel_size, o.stride
                );
                let sizes = [
                    ("padding", o.padding, 0),
                    ("dilation", o.dilation, 1),
                    ("output_padding", o.output_padding, 0),
                ];
                for (name, size, default) in sizes {
                    if size != Sizes([default; $n]) {
                        text += &format!(", {name}={size}");
                    }
                }
                if o.groups != 1 {
                    text += &format!(", groups={}", o.groups);
                }
                if self.bias.is_none() {
                    text += ", bias=False";
                }
                text
            }
        }

        builder! {
            $builder of $name infers in_channels: $lazy lazily "(8, 3)" { in_channels: usize, out_channels: usize, kernel_size: Sizes<$n> }
                calls "(8, 8, 3)" before "" 8
                shows [", 8, kernel_size=", each!($n 3), ", stride=", each!($n 1)] {
                /// Steps of the window in the output. The default is 1.
                @ ".stride(2)" [", 8, kernel_size=", each!($n 3), ", stride=", each!($n 2)]
                stride: Sizes<$n> = Sizes([1; $n]), impl Into<Sizes<$n>> => |s| s.into();
                /// What the output loses on both sides. The default is 0.
                @ ".padding(1)" [", 8, kernel_size=", each!($n 3), ", stride=", each!($n 1), ", padding=", each!($n 1)]
                padding: Sizes<$n> = Sizes([0; $n]), impl Into<Sizes<$n>> => |s| s.into();
                /// What it gains at the end. The default is 0.
                @ ".stride(2).output_padding(1)" [
                    ", 8, kernel_size=", each!($n 3), ", stride=", each!($n 2), ", output_padding=", each!($n 1)
                ]
                output_padding: Sizes<$n> = Sizes([0; $n]), impl Into<Sizes<$n>> => |s| s.into();
                /// Groups of channels that do not see each other. The default is 1.
                @ ".groups(2)" [", 8, kernel_size=", each!($n 3), ", stride=", each!($n 1), ", groups=2"]
                groups: i64 = 1;
                /// Whether a bias is added. The default is `true`.
                @ ".bias(false)" [", 8, kernel_size=", each!($n 3), ", stride=", each!($n 1), ", bias=False"]
                bias: bool = true;
                /// Distance between the elements of the window. The default is 1.
                @ ".dilation(2)" [", 8, kernel_size=", each!($n 3), ", stride=", each!($n 1), ", dilation=", each!($n 2)]
                dilation: Sizes<$n> = Sizes([1; $n]), impl Into<Sizes<$n>> => |s| s.into();
            }
        }

        impl $builder {
            factory_setters!($name "(8, 8, 3)");

            /// Makes the layer and draws its weights. An error where sizes are 0, or the channels
            /// do not divide into the groups.
            #[doc = tests!(
                "let layer = ", stringify!($name), "::builder(8, 4, 1).groups(2).build()?;\n",
                "assert_eq!(layer.num_parameters(), 8 * (4 / 2) + 4);\n",
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
                not_negative(NAME, "padding", self.padding)?;
                not_negative(NAME, "output_padding", self.output_padding)?;
                let channels = [self.in_channels, self.out_channels / groups];
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

transposed! {
    /// A transposed convolution of signals (`torch.nn.ConvTranspose1d`).
    ///
    /// Takes `[N, in_channels, L]` or `[in_channels, L]`. `weight` is
    /// `[in_channels, out_channels / groups, kernel]`.
    ///
    /// ```
    /// use torsh_nn::{ConvTranspose1d, Module, init};
    /// use torsh_tensor::tensor;
    /// let conv = ConvTranspose1d::builder(1, 1, 2).stride(2).bias(false).build()?;
    /// init::ones_(&conv.weight)?;
    /// let x = tensor![[[1.0, 2.0]]];
    /// assert_eq!(conv.forward(&x)?, tensor![[[1.0, 1.0, 2.0, 2.0]]]);
    /// assert_eq!(conv.forward_with(&x, [5])?, tensor![[[1.0, 1.0, 2.0, 2.0, 0.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ConvTranspose1d ConvTranspose1dBuilder LazyConvTranspose1dBuilder 1 conv_transpose1d_with;
    /// A transposed convolution of images (`torch.nn.ConvTranspose2d`).
    ///
    /// Takes `[N, in_channels, H, W]` or `[in_channels, H, W]`. `weight` is
    /// `[in_channels, out_channels / groups, kernel_h, kernel_w]`.
    ///
    /// ```
    /// use torsh_nn::{ConvTranspose2d, Module, init};
    /// use torsh_tensor::tensor;
    /// let conv = ConvTranspose2d::builder(1, 1, (1, 2)).bias(false).build()?;
    /// init::ones_(&conv.weight)?;
    /// assert_eq!(conv.forward(&tensor![[[1.0, 2.0]]])?, tensor![[[1.0, 3.0, 2.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ConvTranspose2d ConvTranspose2dBuilder LazyConvTranspose2dBuilder 2 conv_transpose2d_with;
    /// A transposed convolution of volumes (`torch.nn.ConvTranspose3d`).
    ///
    /// Takes `[N, in_channels, D, H, W]` or `[in_channels, D, H, W]`. `weight` is
    /// `[in_channels, out_channels / groups, kernel_d, kernel_h, kernel_w]`.
    ///
    /// ```
    /// use torsh_nn::{ConvTranspose3d, Module, init};
    /// use torsh_tensor::tensor;
    /// let conv = ConvTranspose3d::builder(1, 1, (1, 1, 2)).bias(false).build()?;
    /// init::ones_(&conv.weight)?;
    /// assert_eq!(conv.forward(&tensor![[[[1.0, 2.0]]]])?, tensor![[[[1.0, 3.0, 2.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ConvTranspose3d ConvTranspose3dBuilder LazyConvTranspose3dBuilder 3 conv_transpose3d_with;
}
