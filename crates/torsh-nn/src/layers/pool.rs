//! Pooling over sliding windows.

use torsh_functional::{self as F, AvgPoolOptions, LpPoolOptions, MaxPoolOptions, Sizes};
use torsh_tensor::{Result, Tensor};

use crate::layers::builder::{builder, compact, not_negative, number, positive, stateless};
use crate::layers::examples::{last, shows, tests, unsqueezed};
use crate::layers::python;

/// A padding of this size in the last dimension.
macro_rules! side {
    (1 $size:literal) => {
        $size
    };
    (2 $size:literal) => {
        concat!("(0, ", $size, ")")
    };
    (3 $size:literal) => {
        concat!("(0, 0, ", $size, ")")
    };
}

/// A size as average pooling prints it: as a tuple in one dimension, as PyTorch does.
macro_rules! printed {
    (1 $name:literal, $size:literal) => {
        concat!($name, "(", $size, ",)")
    };
    ($n:tt $name:literal, $size:literal) => {
        concat!($name, $size)
    };
}

/// Makes a layer of windows from its builder, whose first arguments are those of an example.
macro_rules! pool_build {
    ($name:ident $builder:ident ($($first:literal)?) [$($positive:ident)?] [$($not_negative:ident)?]) => {
        impl $builder {
            /// Makes the layer. An error where a size is 0.
            #[doc = $crate::layers::examples::tests!(
                "assert_eq!(", stringify!($name), "::builder(", $($first, ", ",)? "2).build()?.num_parameters(), 0);\n",
                "assert!(", stringify!($name), "::builder(", $($first, ", ",)? "0).build().is_err());"
            )]
            #[torsh_tensor::names_caller]
            pub fn build(self) -> Result<$name> {
                positive(stringify!($name), &[
                    ("kernel_size", self.kernel_size),
                    ("stride", self.stride.unwrap_or(self.kernel_size)),
                    $((stringify!($positive), self.$positive),)?
                ])?;
                $(not_negative(stringify!($name), stringify!($not_negative), self.$not_negative)?;)?
                Ok($name::of(self))
            }
        }
    };
}
pub(super) use pool_build;

macro_rules! max_pools {
    ($($(#[$doc:meta])* $name:ident $builder:ident $n:tt $function:ident $indices:ident;)*) => {$(
        stateless! {
            $(#[$doc])*
            $name $builder |self, x| F::$function(x, self.options.kernel_size, self.arguments()),
            {
                let o = &self.options;
                format!(
                    "kernel_size={}, stride={}, padding={}, dilation={}, ceil_mode={}",
                    compact(o.kernel_size),
                    compact(o.stride.unwrap_or(o.kernel_size)),
                    compact(o.padding),
                    compact(o.dilation),
                    python(o.ceil_mode)
                )
            }
        }

        impl $name {
            /// Windows of this size, beside each other. An error where it is 0.
            #[doc = shows!(stringify!($name), "::new(2)?"; stringify!($name), "(", "kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False", ")")]
            #[torsh_tensor::names_caller(Self)]
            pub fn new(kernel_size: impl Into<Sizes<$n>>) -> Result<$name> {
                $name::builder(kernel_size).build()
            }

            /// Pooling with PyTorch's other arguments.
            #[doc = shows!(stringify!($name), "::builder(2).stride(1).build()?"; stringify!($name), "(", "kernel_size=2, stride=1, padding=0, dilation=1, ceil_mode=False", ")")]
            pub fn builder(kernel_size: impl Into<Sizes<$n>>) -> $builder {
                $builder::with(kernel_size.into())
            }

            fn arguments(&self) -> MaxPoolOptions<$n> {
                let o = &self.options;
                MaxPoolOptions {
                    stride: o.stride.map(|s| s.0),
                    padding: o.padding.0,
                    dilation: o.dilation.0,
                    ceil_mode: o.ceil_mode,
                }
            }

            /// The greatest elements, and where each was found among the elements of its channel
            /// (`return_indices=True`).
            #[doc = tests!(
                "let x = tensor![[1.0, 5.0, 3.0, 2.0]]", unsqueezed!($n), ";\n",
                "let (y, indices) = ", stringify!($name), "::new(", last!($n 2), ")?.forward_with_indices(&x)?;\n",
                "assert_eq!(y.flatten(0)?, tensor![5.0, 3.0]);\n",
                "assert_eq!(indices.flatten(0)?, tensor![1, 2]);"
            )]
            #[track_caller]
            pub fn forward_with_indices(&self, x: &Tensor) -> Result<(Tensor, Tensor)> {
                F::$indices(x, self.options.kernel_size, self.arguments())
            }
        }

        builder! {
            $builder of $name { kernel_size: Sizes<$n> }
                calls "(2)" shows ["kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False"] {
                /// Steps of the window. The default is its size.
                @ ".stride(1)" ["kernel_size=2, stride=1, padding=0, dilation=1, ceil_mode=False"]
                stride: Option<Sizes<$n>> = None, impl Into<Sizes<$n>> => |s| Some(s.into());
                /// How much is added around. The default is 0.
                @ ".padding(1)" ["kernel_size=2, stride=2, padding=1, dilation=1, ceil_mode=False"]
                padding: Sizes<$n> = Sizes([0; $n]), impl Into<Sizes<$n>> => |s| s.into();
                /// Distance between the elements of the window. The default is 1.
                @ ".dilation(3)" ["kernel_size=2, stride=2, padding=0, dilation=3, ceil_mode=False"]
                dilation: Sizes<$n> = Sizes([1; $n]), impl Into<Sizes<$n>> => |s| s.into();
                /// Whether windows that reach over the edge count. The default is `false`.
                @ ".ceil_mode(true)" ["kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=True"]
                ceil_mode: bool = false;
            }
        }

        pool_build!($name $builder () [dilation] [padding]);
    )*};
}

max_pools! {
    /// The greatest element of each window of a signal (`torch.nn.MaxPool1d`).
    ///
    /// Takes `[N, C, L]` or `[C, L]`.
    ///
    /// ```
    /// use torsh_nn::{MaxPool1d, Module};
    /// use torsh_tensor::tensor;
    /// let y = MaxPool1d::new(2)?.forward(&tensor![[1.0, 5.0, 3.0, 2.0]])?;
    /// assert_eq!(y, tensor![[5.0, 3.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    MaxPool1d MaxPool1dBuilder 1 max_pool1d_with max_pool1d_with_indices;
    /// The greatest element of each window of an image (`torch.nn.MaxPool2d`).
    ///
    /// Takes `[N, C, H, W]` or `[C, H, W]`.
    ///
    /// ```
    /// use torsh_nn::{MaxPool2d, Module};
    /// use torsh_tensor::tensor;
    /// let y = MaxPool2d::new(2)?.forward(&tensor![[[1.0, 5.0], [3.0, 2.0]]])?;
    /// assert_eq!(y, tensor![[[5.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    MaxPool2d MaxPool2dBuilder 2 max_pool2d_with max_pool2d_with_indices;
    /// The greatest element of each window of a volume (`torch.nn.MaxPool3d`).
    ///
    /// Takes `[N, C, D, H, W]` or `[C, D, H, W]`.
    ///
    /// ```
    /// use torsh_nn::{MaxPool3d, Module};
    /// use torsh_tensor::tensor;
    /// let y = MaxPool3d::new((1, 1, 2))?.forward(&tensor![[[[1.0, 5.0]], [[3.0, 2.0]]]])?;
    /// assert_eq!(y, tensor![[[[5.0]], [[3.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    MaxPool3d MaxPool3dBuilder 3 max_pool3d_with max_pool3d_with_indices;
}

macro_rules! avg_pools {
    ($($(#[$doc:meta])* $name:ident $builder:ident $n:tt $function:ident $print:expr;)*) => {$(
        stateless! {
            $(#[$doc])*
            $name $builder |self, x| {
                let o = &self.options;
                let options = AvgPoolOptions {
                    stride: o.stride.map(|s| s.0),
                    padding: o.padding.0,
                    ceil_mode: o.ceil_mode,
                count_include_pad: o.count_include_pad,
                divisor_override: o.divisor_override,
                };
                F::$function(x, o.kernel_size, options)
            },
            {
                let (o, print) = (&self.options, $print);
                format!(
                    "kernel_size={}, stride={}, padding={}",
                    print(o.kernel_size),
                    print(o.stride.unwrap_or(o.kernel_size)),
                    print(o.padding)
                )
            }
        }

        impl $name {
            /// Windows of this size, beside each other. An error where it is 0.
            #[doc = shows!(stringify!($name), "::new(2)?"; stringify!($name), "(", printed!($n "kernel_size=", 2), printed!($n ", stride=", 2), printed!($n ", padding=", 0), ")")]
            #[torsh_tensor::names_caller(Self)]
            pub fn new(kernel_size: impl Into<Sizes<$n>>) -> Result<$name> {
                $name::builder(kernel_size).build()
            }

            /// Pooling with PyTorch's other arguments.
            #[doc = shows!(stringify!($name), "::builder(2).stride(1).build()?"; stringify!($name), "(", printed!($n "kernel_size=", 2), printed!($n ", stride=", 1), printed!($n ", padding=", 0), ")")]
            pub fn builder(kernel_size: impl Into<Sizes<$n>>) -> $builder {
                $builder::with(kernel_size.into())
            }
        }

        builder! {
            $builder of $name { kernel_size: Sizes<$n> }
                calls "(2)" shows [printed!($n "kernel_size=", 2), printed!($n ", stride=", 2), printed!($n ", padding=", 0)] {
                /// Steps of the window. The default is its size.
                @ ".stride(1)" [printed!($n "kernel_size=", 2), printed!($n ", stride=", 1), printed!($n ", padding=", 0)]
                stride: Option<Sizes<$n>> = None, impl Into<Sizes<$n>> => |s| Some(s.into());
                /// How many zeros are added around. The default is 0.
                @ ".padding(1)" [printed!($n "kernel_size=", 2), printed!($n ", stride=", 2), printed!($n ", padding=", 1)]
                padding: Sizes<$n> = Sizes([0; $n]), impl Into<Sizes<$n>> => |s| s.into();
                /// Whether windows that reach over the edge count. The default is `false`.
                #[doc = tests!(
                    "let layer = ", stringify!($name), "::builder(", last!($n 2), ").ceil_mode(true).build()?;\n",
                    "let x = tensor![[1.0, 3.0, 5.0]]", unsqueezed!($n), ";\n",
                    "assert_eq!(layer.forward(&x)?.flatten(0)?, tensor![2.0, 5.0]);"
                )]
                ceil_mode: bool = false;
                /// Whether the zeros around count in the average. The default is `true`.
                #[doc = tests!(
                    "let layer = ", stringify!($name), "::builder(", last!($n 2), ").padding(", side!($n 1), ").count_include_pad(false).build()?;\n",
                    "let x = tensor![[1.0, 3.0]]", unsqueezed!($n), ";\n",
                    "assert_eq!(layer.forward(&x)?.flatten(0)?, tensor![1.0, 3.0]);"
                )]
                count_include_pad: bool = true;
                /// What the sums are divided by, instead of by the number of elements.
                #[doc = tests!(
                    "let layer = ", stringify!($name), "::builder(", last!($n 2), ").divisor_override(1).build()?;\n",
                    "let x = tensor![[1.0, 3.0, 5.0]]", unsqueezed!($n), ";\n",
                    "assert_eq!(layer.forward(&x)?.flatten(0)?, tensor![4.0]);"
                )]
                divisor_override: Option<i64> = None, impl Into<Option<i64>> => |d| d.into();
            }
        }

        pool_build!($name $builder () [] [padding]);
    )*};
}

avg_pools! {
    /// The average of each window of a signal (`torch.nn.AvgPool1d`).
    ///
    /// Takes `[N, C, L]` or `[C, L]`.
    ///
    /// ```
    /// use torsh_nn::{AvgPool1d, Module};
    /// use torsh_tensor::tensor;
    /// let y = AvgPool1d::new(2)?.forward(&tensor![[1.0, 5.0, 3.0, 2.0]])?;
    /// assert_eq!(y, tensor![[3.0, 2.5]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    AvgPool1d AvgPool1dBuilder 1 avg_pool1d_with |s: Sizes<1>| s.to_string();
    /// The average of each window of an image (`torch.nn.AvgPool2d`).
    ///
    /// Takes `[N, C, H, W]` or `[C, H, W]`.
    ///
    /// ```
    /// use torsh_nn::{AvgPool2d, Module};
    /// use torsh_tensor::tensor;
    /// let y = AvgPool2d::new(2)?.forward(&tensor![[[1.0, 5.0], [4.0, 2.0]]])?;
    /// assert_eq!(y, tensor![[[3.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    AvgPool2d AvgPool2dBuilder 2 avg_pool2d_with compact;
    /// The average of each window of a volume (`torch.nn.AvgPool3d`).
    ///
    /// Takes `[N, C, D, H, W]` or `[C, D, H, W]`.
    ///
    /// ```
    /// use torsh_nn::{AvgPool3d, Module};
    /// use torsh_tensor::tensor;
    /// let y = AvgPool3d::new((2, 1, 1))?.forward(&tensor![[[[1.0, 5.0]], [[3.0, 2.0]]]])?;
    /// assert_eq!(y, tensor![[[[2.0, 3.5]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    AvgPool3d AvgPool3dBuilder 3 avg_pool3d_with compact;
}

macro_rules! lp_pools {
    ($($(#[$doc:meta])* $name:ident $builder:ident $n:tt $function:ident;)*) => {$(
        stateless! {
            $(#[$doc])*
            $name $builder |self, x| {
                let o = &self.options;
                let options = LpPoolOptions { stride: o.stride.map(|s| s.0), ceil_mode: o.ceil_mode };
                F::$function(x, o.norm_type, o.kernel_size, options)
            },
            {
                let o = &self.options;
                let norm = match o.norm_type {
                    // A whole number is most likely written as one.
                    p if p.fract() == 0.0 && p.abs() < 1e15 => (p as i64).into(),
                    p => p.into(),
                };
                format!(
                    "norm_type={}, kernel_size={}, stride={}, ceil_mode={}",
                    number(norm),
                    compact(o.kernel_size),
                    o.stride.map_or("None".into(), compact),
                    python(o.ceil_mode)
                )
            }
        }

        impl $name {
            /// Norms with p = `norm_type` of windows of this size, beside each other. An error
            /// where it is 0.
            #[doc = shows!(stringify!($name), "::new(2.0, 2)?"; stringify!($name), "(", "norm_type=2, kernel_size=2, stride=None, ceil_mode=False", ")")]
            #[torsh_tensor::names_caller(Self)]
            pub fn new(norm_type: f64, kernel_size: impl Into<Sizes<$n>>) -> Result<$name> {
                $name::builder(norm_type, kernel_size).build()
            }

            /// Pooling with PyTorch's other arguments.
            #[doc = shows!(stringify!($name), "::builder(2.0, 2).stride(1).build()?"; stringify!($name), "(", "norm_type=2, kernel_size=2, stride=1, ceil_mode=False", ")")]
            pub fn builder(norm_type: f64, kernel_size: impl Into<Sizes<$n>>) -> $builder {
                $builder::with(norm_type, kernel_size.into())
            }
        }

        builder! {
            $builder of $name { norm_type: f64, kernel_size: Sizes<$n> }
                calls "(2.0, 2)" shows ["norm_type=2, kernel_size=2, stride=None, ceil_mode=False"] {
                /// Steps of the window. The default is its size.
                @ ".stride(1)" ["norm_type=2, kernel_size=2, stride=1, ceil_mode=False"]
                stride: Option<Sizes<$n>> = None, impl Into<Sizes<$n>> => |s| Some(s.into());
                /// Whether windows that reach over the edge count. The default is `false`.
                @ ".ceil_mode(true)" ["norm_type=2, kernel_size=2, stride=None, ceil_mode=True"]
                ceil_mode: bool = false;
            }
        }

        pool_build!($name $builder ("2.0") [] []);
    )*};
}

lp_pools! {
    /// The p-norm of each window of a signal (`torch.nn.LPPool1d`).
    ///
    /// Takes `[N, C, L]` or `[C, L]`.
    ///
    /// ```
    /// use torsh_nn::{LPPool1d, Module};
    /// use torsh_tensor::tensor;
    /// let y = LPPool1d::new(1.0, 2)?.forward(&tensor![[3.0, 4.0, 1.0, 2.0]])?;
    /// assert_eq!(y, tensor![[7.0, 3.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    LPPool1d LPPool1dBuilder 1 lp_pool1d_with;
    /// The p-norm of each window of an image (`torch.nn.LPPool2d`).
    ///
    /// Takes `[N, C, H, W]` or `[C, H, W]`.
    ///
    /// ```
    /// use torsh_nn::{LPPool2d, Module};
    /// use torsh_tensor::tensor;
    /// let y = LPPool2d::new(1.0, 2)?.forward(&tensor![[[3.0, 4.0], [1.0, 2.0]]])?;
    /// assert_eq!(y, tensor![[[10.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    LPPool2d LPPool2dBuilder 2 lp_pool2d_with;
    /// The p-norm of each window of a volume (`torch.nn.LPPool3d`).
    ///
    /// Takes `[N, C, D, H, W]` or `[C, D, H, W]`.
    ///
    /// ```
    /// use torsh_nn::{LPPool3d, Module};
    /// use torsh_tensor::tensor;
    /// let y = LPPool3d::new(1.0, (1, 1, 2))?.forward(&tensor![[[[3.0, 4.0]], [[1.0, 2.0]]]])?;
    /// assert_eq!(y, tensor![[[[7.0]], [[3.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    LPPool3d LPPool3dBuilder 3 lp_pool3d_with;
}
