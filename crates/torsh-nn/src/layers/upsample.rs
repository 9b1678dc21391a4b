//! Resizing signals, images and volumes.

use torsh_functional::{self as F, InterpolateMode, InterpolateOptions, IntoFactors};
use torsh_tensor::{IntoShape, Result, Tensor, TorshError};

use crate::Module;
use crate::layers::builder::tuple;
use crate::layers::examples::{shows, tests};
use crate::layers::python_float;
use crate::module::{Hooks, Training};

/// One number, or a tuple of several that are not alike.
fn print<T: PartialEq>(items: &[T], each: impl Fn(&T) -> String) -> String {
    match items {
        [one] => each(one),
        _ => tuple(&items.iter().map(each).collect::<Vec<_>>()),
    }
}

macro_rules! upsamplings {
    ($($(#[$doc:meta])* $name:ident $builder:ident ($mode:literal) = $options:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Module)]
        pub struct $name {
            #[module(skip)]
            options: InterpolateOptions,
            training: Training,
            hooks: Hooks,
        }

        impl $name {
            /// Results of this spatial size; one stands for all dimensions.
            #[doc = shows!(stringify!($name), "::new((2, 4))?"; stringify!($name), "(size=(2, 4), mode='", $mode, "')")]
            #[torsh_tensor::names_caller(Self)]
            pub fn new(size: impl IntoShape) -> Result<$name> {
                $name::builder().size(size).build()
            }

            /// A layer with PyTorch's other arguments: one of `size` and `scale_factor` must be
            /// given.
            #[doc = shows!(stringify!($name), "::builder().size(4).build()?"; stringify!($name), "(size=4, mode='", $mode, "')")]
            pub fn builder() -> $builder {
                $builder($options)
            }
        }

        impl Module for $name {
            #[torsh_tensor::names_caller]
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                self.hooks.run(self, x, |x| F::interpolate_with(x, self.options.clone()))
            }

            fn extra_repr(&self) -> String {
                let o = &self.options;
                let size = match (&o.scale_factor, &o.size) {
                    (Some(factors), _) => {
                        format!("scale_factor={}", print(factors, |f| python_float(*f)))
                    }
                    (None, size) => {
                        let size = size.as_deref().unwrap_or_default();
                        format!("size={}", print(size, i64::to_string))
                    }
                };
                format!("{size}, mode='{}'", o.mode.name())
            }
        }

        #[doc = concat!("Builds an [`", stringify!($name), "`].")]
        #[doc = shows!(stringify!($name), "::builder().size(4).build()?"; stringify!($name), "(size=4, mode='", $mode, "')")]
        #[derive(Clone, Debug)]
        pub struct $builder(InterpolateOptions);

        impl $builder {
            /// The spatial sizes of the result; one stands for all.
            #[doc = shows!(stringify!($name), "::builder().size([2, 4]).build()?"; stringify!($name), "(size=(2, 4), mode='", $mode, "')")]
            #[must_use]
            pub fn size(self, size: impl IntoShape) -> Self {
                $builder(self.0.size(size))
            }

            /// By what the spatial sizes are multiplied; one stands for all.
            #[doc = shows!(stringify!($name), "::builder().scale_factor(1.5).build()?"; stringify!($name), "(scale_factor=1.5, mode='", $mode, "')")]
            #[must_use]
            pub fn scale_factor(self, scale_factor: impl IntoFactors) -> Self {
                $builder(self.0.scale_factor(scale_factor))
            }

            /// Makes the layer. An error without one of `size` and `scale_factor`.
            #[doc = tests!(
                "let (builder, size) = (", stringify!($name), "::builder(), [2, 4]);\n",
                "assert_eq!(builder.clone().size(size).build()?.num_parameters(), 0);\n",
                "assert!(builder.build().is_err());"
            )]
            #[torsh_tensor::names_caller]
            pub fn build(self) -> Result<$name> {
                if self.0.size.is_some() == self.0.scale_factor.is_some() {
                    return Err(TorshError::invalid(
                        stringify!($name),
                        "one of size and scale_factor must be given, and only one",
                    ));
                }
                Ok($name {
                    options: self.0,
                    training: Training::default(),
                    hooks: Hooks::new(),
                })
            }
        }
    )*};
}

upsamplings! {
    /// Signals, images or volumes in another spatial size (`torch.nn.Upsample`).
    ///
    /// Takes `[N, C, L]`, `[N, C, H, W]` or `[N, C, D, H, W]`.
    ///
    /// ```
    /// use torsh_nn::{InterpolateMode, Module, Upsample};
    /// use torsh_tensor::tensor;
    /// let x = tensor![[[1.0, 3.0]]];
    /// let nearest = Upsample::builder().scale_factor(2.0).build()?;
    /// assert_eq!(nearest.forward(&x)?, tensor![[[1.0, 1.0, 3.0, 3.0]]]);
    /// let linear = Upsample::builder().size(4).mode(InterpolateMode::Linear).build()?;
    /// assert_eq!(linear.forward(&x)?, tensor![[[1.0, 1.5, 2.5, 3.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Upsample UpsampleBuilder ("nearest") = InterpolateOptions::new();
    /// [`Upsample`] of images to the nearest elements (`torch.nn.UpsamplingNearest2d`).
    ///
    /// ```
    /// use torsh_nn::{Module, UpsamplingNearest2d};
    /// use torsh_tensor::tensor;
    /// let y = UpsamplingNearest2d::new((1, 4))?.forward(&tensor![[[[1.0, 3.0]]]])?;
    /// assert_eq!(y, tensor![[[[1.0, 1.0, 3.0, 3.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    UpsamplingNearest2d UpsamplingNearest2dBuilder ("nearest") = InterpolateOptions::new();
    /// [`Upsample`] of images by lines in both directions, from corner to corner
    /// (`torch.nn.UpsamplingBilinear2d`).
    ///
    /// ```
    /// use torsh_nn::{Module, UpsamplingBilinear2d};
    /// use torsh_tensor::tensor;
    /// let y = UpsamplingBilinear2d::new((1, 3))?.forward(&tensor![[[[1.0, 3.0]]]])?;
    /// assert_eq!(y, tensor![[[[1.0, 2.0, 3.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    UpsamplingBilinear2d UpsamplingBilinear2dBuilder ("bilinear") =
        InterpolateOptions::new().mode(InterpolateMode::Bilinear).align_corners(true);
}

impl UpsampleBuilder {
    /// How elements in between are found. The default is the nearest.
    #[must_use]
    pub fn mode(self, mode: impl Into<InterpolateMode>) -> Self {
        UpsampleBuilder(self.0.mode(mode))
    }

    /// Whether the middles of the first and last elements stay in place.
    #[must_use]
    pub fn align_corners(self, align_corners: bool) -> Self {
        UpsampleBuilder(self.0.align_corners(align_corners))
    }

    /// Whether the factor is taken anew from the sizes, which are whole.
    #[must_use]
    pub fn recompute_scale_factor(self, recompute: bool) -> Self {
        UpsampleBuilder(self.0.recompute_scale_factor(recompute))
    }
}
