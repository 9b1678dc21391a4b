//! Max unpooling, and pooling over windows at random positions.

use torsh_functional::{self as F, FractionalMaxPoolOptions, MaxUnpoolOptions, Sizes};
use torsh_tensor::{IntoShape, Result, Tensor, TorshError};

use crate::Module;
use crate::layers::builder::{builder, not_negative, positive, stateless};
use crate::layers::examples::{each, last, shows, size, tests, unsqueezed};
use crate::layers::needs_more;
use crate::layers::pool::pool_build;
use crate::module::{Hooks, Training};

macro_rules! unpools {
    ($($(#[$doc:meta])* $name:ident $builder:ident $n:tt $function:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Module)]
        pub struct $name {
            #[module(skip)]
            options: $builder,
            training: Training,
            hooks: Hooks,
        }

        impl $name {
            fn of(options: $builder) -> $name {
                $name {
                    options,
                    training: Training::default(),
                    hooks: Hooks::new(),
                }
            }

            /// Undoes pooling with windows of this size beside each other. An error where it is 0.
            #[doc = shows!(stringify!($name), "::new(2)?"; stringify!($name), "(", "kernel_size=", each!($n 2), ", stride=", each!($n 2), ", padding=", each!($n 0), ")")]
            #[torsh_tensor::names_caller(Self)]
            pub fn new(kernel_size: impl Into<Sizes<$n>>) -> Result<$name> {
                $name::builder(kernel_size).build()
            }

            /// Undoes pooling with PyTorch's other arguments.
            #[doc = shows!(stringify!($name), "::builder(2).stride(1).build()?"; stringify!($name), "(", "kernel_size=", each!($n 2), ", stride=", each!($n 1), ", padding=", each!($n 0), ")")]
            pub fn builder(kernel_size: impl Into<Sizes<$n>>) -> $builder {
                $builder::with(kernel_size.into())
            }

            /// Puts the elements of `x` where `indices`, from the pooling layer's
            /// `forward_with_indices`, say. An error for indices outside of the result.
            #[doc = tests!(
                "let (y, indices) = (tensor![[5.0, 3.0]]", unsqueezed!($n), ", tensor![[1, 2]]", unsqueezed!($n), ");\n",
                "let back = ", stringify!($name), "::new(", last!($n 2), ")?.forward_with(&y, &indices)?;\n",
                "assert_eq!(back.flatten(0)?, tensor![0.0, 5.0, 3.0, 0.0]);"
            )]
            #[torsh_tensor::names_caller]
            pub fn forward_with(&self, x: &Tensor, indices: &Tensor) -> Result<Tensor> {
                self.hooks.run_many(self, [x, indices], |[x, indices]| {
                    F::$function(x, indices, self.options.kernel_size, self.arguments())
                })
            }

            /// As [`forward_with`](Self::forward_with).
            #[torsh_tensor::names_caller]
            pub fn forward(&self, x: &Tensor, indices: &Tensor) -> Result<Tensor> {
                self.forward_with(x, indices)
            }

            /// [`forward_with`](Self::forward_with) to a given size, as what was pooled may have
            /// been larger than its windows: the spatial sizes, or all.
            #[doc = tests!(
                "let (y, indices) = (tensor![[5.0, 3.0]]", unsqueezed!($n), ", tensor![[1, 2]]", unsqueezed!($n), ");\n",
                "let layer = ", stringify!($name), "::new(", last!($n 2), ")?;\n",
                "let back = layer.forward_to_size(&y, &indices, ", size!($n 5), ")?;\n",
                "assert_eq!(back.flatten(0)?, tensor![0.0, 5.0, 3.0, 0.0, 0.0]);"
            )]
            #[torsh_tensor::names_caller]
            pub fn forward_to_size(
                &self,
                x: &Tensor,
                indices: &Tensor,
                output_size: impl IntoShape,
            ) -> Result<Tensor> {
                let options = self.arguments().output_size(output_size);
                self.hooks.run_many(self, [x, indices], |[x, indices]| {
                    F::$function(x, indices, self.options.kernel_size, options)
                })
            }

            fn arguments(&self) -> MaxUnpoolOptions<$n> {
                let options = MaxUnpoolOptions::new().padding(self.options.padding);
                match self.options.stride {
                    Some(stride) => options.stride(stride),
                    None => options,
                }
            }
        }

        impl Module for $name {
            /// An error: it takes indices too, by [`forward_with`](Self::forward_with).
            #[torsh_tensor::names_caller]
            fn forward(&self, _x: &Tensor) -> Result<Tensor> {
                Err(needs_more(stringify!($name), "forward_with(x, indices)"))
            }

            fn extra_repr(&self) -> String {
                let o = &self.options;
                let stride = o.stride.unwrap_or(o.kernel_size);
                format!("kernel_size={}, stride={stride}, padding={}", o.kernel_size, o.padding)
            }
        }

        builder! {
            $builder of $name { kernel_size: Sizes<$n> }
                calls "(2)" shows ["kernel_size=", each!($n 2), ", stride=", each!($n 2), ", padding=", each!($n 0)] {
                /// The pooling's steps. The default is the window's size.
                @ ".stride(1)" ["kernel_size=", each!($n 2), ", stride=", each!($n 1), ", padding=", each!($n 0)]
                stride: Option<Sizes<$n>> = None, impl Into<Sizes<$n>> => |s| Some(s.into());
                /// The pooling's padding. The default is 0.
                @ ".padding(1)" ["kernel_size=", each!($n 2), ", stride=", each!($n 2), ", padding=", each!($n 1)]
                padding: Sizes<$n> = Sizes([0; $n]), impl Into<Sizes<$n>> => |s| s.into();
            }
        }

        pool_build!($name $builder () [] [padding]);
    )*};
}

unpools! {
    /// Puts the maxima of signals back where [`MaxPool1d`](crate::MaxPool1d) found them, among
    /// zeros (`torch.nn.MaxUnpool1d`).
    ///
    /// ```
    /// use torsh_nn::{MaxPool1d, MaxUnpool1d};
    /// use torsh_tensor::tensor;
    /// let x = tensor![[1.0, 5.0, 3.0, 2.0]];
    /// let (y, indices) = MaxPool1d::new(2)?.forward_with_indices(&x)?;
    /// let back = MaxUnpool1d::new(2)?.forward_with(&y, &indices)?;
    /// assert_eq!(back, tensor![[0.0, 5.0, 3.0, 0.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    MaxUnpool1d MaxUnpool1dBuilder 1 max_unpool1d_with;
    /// Puts the maxima of images back where [`MaxPool2d`](crate::MaxPool2d) found them, among
    /// zeros (`torch.nn.MaxUnpool2d`).
    ///
    /// ```
    /// use torsh_nn::{MaxPool2d, MaxUnpool2d};
    /// use torsh_tensor::tensor;
    /// let x = tensor![[[1.0, 5.0, 9.0], [3.0, 2.0, 9.0]]];
    /// let (y, indices) = MaxPool2d::new(2)?.forward_with_indices(&x)?;
    /// let back = MaxUnpool2d::new(2)?.forward_to_size(&y, &indices, (2, 3))?;
    /// assert_eq!(back, tensor![[[0.0, 5.0, 0.0], [0.0, 0.0, 0.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    MaxUnpool2d MaxUnpool2dBuilder 2 max_unpool2d_with;
    /// Puts the maxima of volumes back where [`MaxPool3d`](crate::MaxPool3d) found them, among
    /// zeros (`torch.nn.MaxUnpool3d`).
    ///
    /// ```
    /// use torsh_nn::{MaxPool3d, MaxUnpool3d};
    /// use torsh_tensor::tensor;
    /// let x = tensor![[[[1.0, 5.0]], [[3.0, 2.0]]]];
    /// let (y, indices) = MaxPool3d::new((2, 1, 2))?.forward_with_indices(&x)?;
    /// let back = MaxUnpool3d::new((2, 1, 2))?.forward_with(&y, &indices)?;
    /// assert_eq!(back, tensor![[[[0.0, 5.0]], [[0.0, 0.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    MaxUnpool3d MaxUnpool3dBuilder 3 max_unpool3d_with;
}

macro_rules! fractional {
    ($($(#[$doc:meta])* $name:ident $builder:ident $n:tt $function:ident $indices:ident;)*) => {$(
        stateless! {
            $(#[$doc])*
            $name $builder |self, x| F::$function(x, self.options.kernel_size, self.arguments()),
            String::new()
        }

        impl $name {
            /// As many windows of this size as `output_size` says. An error where a size is 0.
            #[doc = tests!(
                "// One window of the input's size has one place.\n",
                "let y = ", stringify!($name), "::new(", last!($n 2), ", 1)?.forward(&tensor![[5.0, 3.0]]", unsqueezed!($n), ")?;\n",
                "assert_eq!(y.flatten(0)?, tensor![5.0]);"
            )]
            #[torsh_tensor::names_caller(Self)]
            pub fn new(
                kernel_size: impl Into<Sizes<$n>>,
                output_size: impl Into<Sizes<$n>>,
            ) -> Result<$name> {
                $name::builder(kernel_size).output_size(output_size).build()
            }

            /// Pooling with PyTorch's other arguments; the builder needs one of `output_size` and
            /// `output_ratio`.
            #[doc = tests!(
                "let layer = ", stringify!($name), "::builder(", last!($n 2), ").output_size(1).build()?;\n",
                "let y = layer.forward(&tensor![[5.0, 3.0]]", unsqueezed!($n), ")?;\n",
                "assert_eq!(y.flatten(0)?, tensor![5.0]);"
            )]
            pub fn builder(kernel_size: impl Into<Sizes<$n>>) -> $builder {
                $builder::with(kernel_size.into())
            }

            fn arguments(&self) -> FractionalMaxPoolOptions<$n> {
                FractionalMaxPoolOptions {
                    output_size: self.options.output_size.map(|s| s.0),
                    output_ratio: self.options.output_ratio,
                    random_samples: self.options.random_samples.clone(),
                }
            }

            /// The greatest elements, and where each was found among the elements of its channel
            /// (`return_indices=True`).
            #[doc = tests!(
                "let layer = ", stringify!($name), "::new(", last!($n 2), ", 1)?;\n",
                "let (y, indices) = layer.forward_with_indices(&tensor![[3.0, 5.0]]", unsqueezed!($n), ")?;\n",
                "assert_eq!(y.flatten(0)?, tensor![5.0]);\nassert_eq!(indices.flatten(0)?, tensor![1]);"
            )]
            #[track_caller]
            pub fn forward_with_indices(&self, x: &Tensor) -> Result<(Tensor, Tensor)> {
                F::$indices(x, self.options.kernel_size, self.arguments())
            }
        }

        builder! {
            $builder of $name { kernel_size: Sizes<$n> }
                calls "(2).output_size(1)" shows [""] {
                /// The spatial sizes of the result.
                output_size: Option<Sizes<$n>> = None, impl Into<Sizes<$n>> => |s| Some(s.into());
                /// The spatial sizes of the result over the input's, between 0 and 1.
                output_ratio: Option<[f64; $n]> = None, [f64; $n] => Some;
                /// Where the windows fall: `[N, C, n]` numbers from 0 to 1, drawn unless set.
                random_samples: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
            }
        }

        impl $builder {
            /// Makes the layer. An error where a size is 0, a ratio is not between 0 and 1, or not
            /// one of both is given.
            #[doc = tests!(
                "assert_eq!(", stringify!($name), "::builder(2).output_size(1).build()?.num_parameters(), 0);\n",
                "assert!(", stringify!($name), "::builder(2).build().is_err());"
            )]
            #[torsh_tensor::names_caller]
            pub fn build(self) -> Result<$name> {
                const NAME: &str = stringify!($name);
                let refuse = |why: String| Err(TorshError::invalid(NAME, why));
                positive(NAME, &[("kernel_size", self.kernel_size)])?;
                match (self.output_size, self.output_ratio) {
                    (Some(size), None) => positive(NAME, &[("output_size", size)])?,
                    (None, Some(r)) if r.iter().all(|&r| r > 0.0 && r < 1.0) => {}
                    (None, Some(r)) => {
                        return refuse(format!("output_ratio must be between 0 and 1 (got {r:?})"));
                    }
                    (None, None) => {
                        return refuse("an output_size or an output_ratio must be given".into());
                    }
                    (Some(_), Some(_)) => {
                        return refuse("only one of output_size and output_ratio may be given".into());
                    }
                }
                Ok($name::of(self))
            }
        }
    )*};
}

fractional! {
    /// The greatest element of each of the windows that lie at random places of an image
    /// (`torch.nn.FractionalMaxPool2d`; Graham, Fractional MaxPooling).
    ///
    /// Takes `[N, C, H, W]` or `[C, H, W]`.
    ///
    /// ```
    /// use torsh_nn::{FractionalMaxPool2d, Module};
    /// use torsh_tensor::tensor;
    /// let x = tensor![[[1.0, 5.0, 3.0], [4.0, 2.0, 9.0]]];
    /// // Two windows have only two places.
    /// let y = FractionalMaxPool2d::new(2, (1, 2))?.forward(&x)?;
    /// assert_eq!(y, tensor![[[5.0, 9.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    FractionalMaxPool2d FractionalMaxPool2dBuilder 2 fractional_max_pool2d_with
        fractional_max_pool2d_with_indices;
    /// The greatest element of each of the windows that lie at random places of a volume
    /// (`torch.nn.FractionalMaxPool3d`).
    ///
    /// Takes `[N, C, D, H, W]` or `[C, D, H, W]`.
    ///
    /// ```
    /// use torsh_nn::{FractionalMaxPool3d, Module};
    /// use torsh_tensor::tensor;
    /// let x = tensor![[[[1.0, 5.0, 3.0], [4.0, 2.0, 9.0]]]];
    /// let y = FractionalMaxPool3d::new((1, 2, 2), (1, 1, 2))?.forward(&x)?;
    /// assert_eq!(y, tensor![[[[5.0, 9.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    FractionalMaxPool3d FractionalMaxPool3dBuilder 3 fractional_max_pool3d_with
        fractional_max_pool3d_with_indices;
}
