//! Layers that move elements: windows to columns, channels to pixels.

use torsh_functional::{self as F, Sizes, UnfoldOptions};
use torsh_tensor::{IntoShape, Result, Tensor, TorshError};

use crate::Module;
use crate::layers::builder::{builder, compact, not_negative, positive, stateless, tuple};
use crate::layers::examples::{shows, tests};
use crate::module::{Hooks, Training};

stateless! {
    /// The windows of images as columns (`torch.nn.Unfold`).
    ///
    /// Takes `[N, C, H, W]` or `[C, H, W]` and gives `[N, C * kh * kw, windows]`.
    ///
    /// ```
    /// use torsh_nn::{Module, Unfold};
    /// use torsh_tensor::tensor;
    /// let y = Unfold::new((1, 2))?.forward(&tensor![[[1.0, 2.0, 3.0]]])?;
    /// assert_eq!(y, tensor![[1.0, 2.0], [2.0, 3.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Unfold UnfoldBuilder |self, x| F::unfold_with(x, self.options.kernel_size, self.options.arguments()),
    {
        let o = &self.options;
        format!("kernel_size={}, {}", compact(o.kernel_size), o.print())
    }
}

impl Unfold {
    /// All windows of this size. An error where it is 0.
    ///
    /// ```
    /// # use torsh_nn::{ModuleExt, Unfold};
    /// assert_eq!(Unfold::new(2)?.repr(), "Unfold(kernel_size=2, dilation=1, padding=0, stride=1)");
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new(kernel_size: impl Into<Sizes<2>>) -> Result<Unfold> {
        Unfold::builder(kernel_size).build()
    }

    /// Windows with PyTorch's other arguments.
    ///
    /// ```
    /// # use torsh_nn::{Module, Unfold};
    /// # use torsh_tensor::tensor;
    /// let y = Unfold::builder((1, 2)).stride(2).build()?.forward(&tensor![[[1.0, 2.0, 3.0, 4.0]]])?;
    /// assert_eq!(y, tensor![[1.0, 3.0], [2.0, 4.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn builder(kernel_size: impl Into<Sizes<2>>) -> UnfoldBuilder {
        UnfoldBuilder::with(kernel_size.into())
    }
}

builder! {
    UnfoldBuilder of Unfold { kernel_size: Sizes<2> }
        calls "(2)" shows ["kernel_size=2, dilation=1, padding=0, stride=1"] {
        /// Distance between the elements of the window. The default is 1.
        @ ".dilation(3)" ["kernel_size=2, dilation=3, padding=0, stride=1"]
        dilation: Sizes<2> = Sizes([1, 1]), impl Into<Sizes<2>> => |s| s.into();
        /// How many zeros are added around. The default is 0.
        @ ".padding(1)" ["kernel_size=2, dilation=1, padding=1, stride=1"]
        padding: Sizes<2> = Sizes([0, 0]), impl Into<Sizes<2>> => |s| s.into();
        /// Steps of the window. The default is 1.
        @ ".stride(2)" ["kernel_size=2, dilation=1, padding=0, stride=2"]
        stride: Sizes<2> = Sizes([1, 1]), impl Into<Sizes<2>> => |s| s.into();
    }
}

stateless! {
    /// The sums of columns in the places of their windows of images (`torch.nn.Fold`): the
    /// transpose of [`Unfold`].
    ///
    /// Takes `[N, C * kh * kw, windows]` or `[C * kh * kw, windows]` and gives `[N, C, H, W]`.
    ///
    /// ```
    /// use torsh_nn::{Fold, Module};
    /// use torsh_tensor::tensor;
    /// let y = Fold::new((1, 3), (1, 2))?.forward(&tensor![[1.0, 2.0], [2.0, 3.0]])?;
    /// assert_eq!(y, tensor![[[1.0, 4.0, 3.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Fold FoldBuilder |self, x| {
        let o = &self.options;
        F::fold_with(x, o.output_size, o.kernel_size, o.arguments())
    },
    {
        let o = &self.options;
        let (size, kernel) = (compact(o.output_size), compact(o.kernel_size));
        format!("output_size={size}, kernel_size={kernel}, {}", o.print())
    }
}

impl Fold {
    /// Images of `output_size` from all windows of `kernel_size`. An error where a size is 0.
    ///
    /// ```
    /// # use torsh_nn::{Fold, ModuleExt};
    /// assert_eq!(Fold::new((4, 5), 2)?.repr(), "Fold(output_size=(4, 5), kernel_size=2, dilation=1, padding=0, stride=1)");
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new(output_size: impl Into<Sizes<2>>, kernel_size: impl Into<Sizes<2>>) -> Result<Fold> {
        Fold::builder(output_size, kernel_size).build()
    }

    /// Images with PyTorch's other arguments.
    ///
    /// ```
    /// # use torsh_nn::{Fold, Module};
    /// # use torsh_tensor::tensor;
    /// let y = Fold::builder((1, 4), (1, 2)).stride(2).build()?.forward(&tensor![[1.0, 3.0], [2.0, 4.0]])?;
    /// assert_eq!(y, tensor![[[1.0, 2.0, 3.0, 4.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn builder(
        output_size: impl Into<Sizes<2>>,
        kernel_size: impl Into<Sizes<2>>,
    ) -> FoldBuilder {
        FoldBuilder::with(output_size.into(), kernel_size.into())
    }
}

builder! {
    FoldBuilder of Fold { output_size: Sizes<2>, kernel_size: Sizes<2> }
        calls "((4, 5), 2)" shows ["output_size=(4, 5), kernel_size=2, dilation=1, padding=0, stride=1"] {
        /// Distance between the elements of the window. The default is 1.
        @ ".dilation(3)" ["output_size=(4, 5), kernel_size=2, dilation=3, padding=0, stride=1"]
        dilation: Sizes<2> = Sizes([1, 1]), impl Into<Sizes<2>> => |s| s.into();
        /// How many zeros were added around. The default is 0.
        @ ".padding(1)" ["output_size=(4, 5), kernel_size=2, dilation=1, padding=1, stride=1"]
        padding: Sizes<2> = Sizes([0, 0]), impl Into<Sizes<2>> => |s| s.into();
        /// Steps of the window. The default is 1.
        @ ".stride(2)" ["output_size=(4, 5), kernel_size=2, dilation=1, padding=0, stride=2"]
        stride: Sizes<2> = Sizes([1, 1]), impl Into<Sizes<2>> => |s| s.into();
    }
}

macro_rules! windows {
    ($($layer:ident $builder:ident $call:literal $bad:literal $($size:ident)?;)*) => {$(
        impl $builder {
            fn arguments(&self) -> UnfoldOptions {
                UnfoldOptions {
                    dilation: self.dilation.0,
                    padding: self.padding.0,
                    stride: self.stride.0,
                }
            }

            fn print(&self) -> String {
                let [dilation, padding, stride] =
                    [self.dilation, self.padding, self.stride].map(compact);
                format!("dilation={dilation}, padding={padding}, stride={stride}")
            }

            /// Makes the layer. An error where a size is 0.
            #[doc = tests!(
                "assert_eq!(", stringify!($layer), "::builder", $call, ".build()?.num_parameters(), 0);\n",
                "assert!(", stringify!($layer), "::builder", $bad, ".build().is_err());"
            )]
            #[torsh_tensor::names_caller]
            pub fn build(self) -> Result<$layer> {
                positive(stringify!($layer), &[
                    $((stringify!($size), self.$size),)?
                    ("kernel_size", self.kernel_size),
                    ("dilation", self.dilation),
                    ("stride", self.stride),
                ])?;
                not_negative(stringify!($layer), "padding", self.padding)?;
                Ok($layer::of(self))
            }
        }
    )*};
}
windows! {
    Unfold UnfoldBuilder "(2)" "(0)";
    Fold FoldBuilder "((4, 5), 2)" "((4, 5), 0)" output_size;
}

macro_rules! by_factor {
    ($($(#[$doc:meta])* $name:ident $factor:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Module)]
        pub struct $name {
            #[module(skip)]
            $factor: i64,
            training: Training,
            hooks: Hooks,
        }

        impl $name {
            #[doc = concat!("The layer with this `", stringify!($factor), "`. An error where it is not positive.")]
            #[doc = shows!(stringify!($name), "::new(2)?"; stringify!($name), "(", stringify!($factor), "=2)")]
            #[torsh_tensor::names_caller(Self)]
            pub fn new($factor: i64) -> Result<$name> {
                if $factor <= 0 {
                    return Err(TorshError::invalid(
                        stringify!($name),
                        format!(concat!(stringify!($factor), " must be positive, got {}"), $factor),
                    ));
                }
                Ok($name { $factor, training: Training::default(), hooks: Hooks::new() })
            }
        }

        impl Module for $name {
            #[torsh_tensor::names_caller]
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                self.hooks.run(self, x, |x| self.run(x))
            }

            fn extra_repr(&self) -> String {
                format!(concat!(stringify!($factor), "={}"), self.$factor)
            }
        }
    )*};
}

by_factor! {
    /// Channels become the pixels of squares (`torch.nn.PixelShuffle`; Shi et al., 2016):
    /// `[.., C r r, H, W]` gives `[.., C, H r, W r]`.
    ///
    /// ```
    /// use torsh_nn::{Module, PixelShuffle};
    /// use torsh_tensor::tensor;
    /// let y = PixelShuffle::new(2)?.forward(&tensor![[[1]], [[2]], [[3]], [[4]]])?;
    /// assert_eq!(y, tensor![[[1, 2], [3, 4]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    PixelShuffle upscale_factor;
    /// The pixels of squares become channels (`torch.nn.PixelUnshuffle`): `[.., C, H r, W r]`
    /// gives `[.., C r r, H, W]`.
    ///
    /// ```
    /// use torsh_nn::{Module, PixelUnshuffle};
    /// use torsh_tensor::tensor;
    /// let y = PixelUnshuffle::new(2)?.forward(&tensor![[[1, 2], [3, 4]]])?;
    /// assert_eq!(y, tensor![[[1]], [[2]], [[3]], [[4]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    PixelUnshuffle downscale_factor;
    /// The channels of several groups, taken from each in turn (`torch.nn.ChannelShuffle`; Zhang
    /// et al., 2017): `[N, C, ..]` of at least 3 dimensions.
    ///
    /// ```
    /// use torsh_nn::{ChannelShuffle, Module};
    /// use torsh_tensor::tensor;
    /// let y = ChannelShuffle::new(2)?.forward(&tensor![[[1], [2], [3], [4]]])?;
    /// assert_eq!(y, tensor![[[1], [3], [2], [4]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ChannelShuffle groups;
}

impl PixelShuffle {
    #[track_caller]
    fn run(&self, x: &Tensor) -> Result<Tensor> {
        F::pixel_shuffle(x, self.upscale_factor)
    }
}

impl PixelUnshuffle {
    #[track_caller]
    fn run(&self, x: &Tensor) -> Result<Tensor> {
        F::pixel_unshuffle(x, self.downscale_factor)
    }
}

impl ChannelShuffle {
    #[track_caller]
    fn run(&self, x: &Tensor) -> Result<Tensor> {
        F::channel_shuffle(x, self.groups)
    }
}

/// Makes several dimensions of one (`torch.nn.Unflatten`), the inverse of
/// [`Flatten`](crate::Flatten).
///
/// ```
/// use torsh_nn::{Module, Unflatten};
/// use torsh_tensor::tensor;
/// let y = Unflatten::new(1, (2, -1)).forward(&tensor![[1, 2, 3, 4]])?;
/// assert_eq!(y, tensor![[[1, 2], [3, 4]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct Unflatten {
    #[module(skip)]
    dim: i64,
    #[module(skip)]
    unflattened_size: Vec<i64>,
    training: Training,
    hooks: Hooks,
}

impl Unflatten {
    /// Dimension `dim` (negative from the end) as dimensions of these sizes, one of which may be
    /// -1.
    ///
    /// ```
    /// # use torsh_nn::{ModuleExt, Unflatten};
    /// assert_eq!(Unflatten::new(1, (2, -1)).repr(), "Unflatten(dim=1, unflattened_size=(2, -1))");
    /// ```
    pub fn new(dim: i64, unflattened_size: impl IntoShape) -> Unflatten {
        Unflatten {
            dim,
            unflattened_size: unflattened_size.sizes().to_vec(),
            training: Training::default(),
            hooks: Hooks::new(),
        }
    }
}

impl Module for Unflatten {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            F::unflatten(x, self.dim, &self.unflattened_size)
        })
    }

    fn extra_repr(&self) -> String {
        let sizes = tuple(&self.unflattened_size);
        format!("dim={}, unflattened_size={sizes}", self.dim)
    }
}
