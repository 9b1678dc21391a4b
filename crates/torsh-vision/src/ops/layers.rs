//! The operators as modules.

use torsh_nn::init::{self, KaimingOptions};
use torsh_nn::{Hooks, Module, Parameter, Training};
use torsh_tensor::{DType, Device, Result, Sizes, Tensor, TorshError};

use super::{
    DeformConv2dOptions, DropBlockOptions, PsRoiAlignOptions, RoiAlignOptions, RoiBoxes,
    RoiPoolOptions, deform_conv2d_with, drop_block2d_with, drop_block3d_with, ps_roi_align_with,
    ps_roi_pool_with, roi_align_with, roi_pool_with,
};

/// The error of `forward` where a module takes more than one tensor.
fn needs_more(layer: &'static str, call: &str) -> TorshError {
    TorshError::invalid(layer, "takes more than one tensor").with_hint(format!("call {call}"))
}

fn python(b: bool) -> &'static str {
    if b { "True" } else { "False" }
}

/// What a module prints that has no other arguments.
fn none<T>(_: &T) -> &'static str {
    ""
}

/// A number as Python prints it.
fn float(v: f64) -> String {
    match v.fract() == 0.0 && v.abs() < 1e16 {
        true => format!("{v:.1}"),
        false => format!("{v}"),
    }
}

/// Rows have, for the examples of their methods, the text of a module, of images, of boxes and of what becomes of them.
macro_rules! pools {
    ($($(#[$doc:meta])* $name:ident($($field:ident: $ty:ty),*) [$new:literal, $x:literal, $boxes:literal, $y:literal]
        $function:ident |$l:ident| $options:expr, $repr:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Module)]
        pub struct $name {
            #[module(skip)]
            output_size: Sizes<2>,
            #[module(skip)]
            spatial_scale: f64,
            $(#[module(skip)] $field: $ty,)*
            training: Training,
            hooks: Hooks,
        }

        impl $name {
            /// Pools the regions of feature maps `[n, c, h, w]`.
            #[doc = concat!(
                "\n```\n\
                 use torsh_tensor::tensor;\n\
                 use torsh_vision::ops::", stringify!($name), ";\n\
                 let x = ", $x, ";\n\
                 let boxes = ", $boxes, ";\n\
                 assert_eq!(", $new, ".forward_with(&x, &boxes)?, ", $y, ");\n\
                 # Ok::<(), torsh_tensor::TorshError>(())\n```"
            )]
            ///
            /// # Errors
            /// As the function's.
            #[torsh_tensor::names_caller]
            pub fn forward_with<'a>(&self, input: &Tensor, boxes: impl Into<RoiBoxes<'a>>) -> Result<Tensor> {
                let boxes = boxes.into();
                let $l = self;
                self.hooks.run(self, input, |input| {
                    $function(input, boxes, self.output_size, $options)
                })
            }

            /// As [`forward_with`](Self::forward_with).
            #[doc = concat!(
                "\n```\n\
                 use torsh_tensor::tensor;\n\
                 use torsh_vision::ops::", stringify!($name), ";\n\
                 let x = ", $x, ";\n\
                 // The boxes of the one image there is, without its number.\n\
                 let boxes = [", $boxes, ".narrow(1, 1, 4)?];\n\
                 assert_eq!(", $new, ".forward(&x, &boxes)?, ", $y, ");\n\
                 # Ok::<(), torsh_tensor::TorshError>(())\n```"
            )]
            #[torsh_tensor::names_caller]
            pub fn forward<'a>(&self, input: &Tensor, boxes: impl Into<RoiBoxes<'a>>) -> Result<Tensor> {
                self.forward_with(input, boxes)
            }
        }

        impl Module for $name {
            /// An error: the module takes boxes too.
            #[torsh_tensor::names_caller]
            fn forward(&self, _x: &Tensor) -> Result<Tensor> {
                Err(needs_more(stringify!($name), "forward_with(&input, &boxes)"))
            }

            fn extra_repr(&self) -> String {
                let $l = self;
                format!("output_size={}, spatial_scale={}{}", self.output_size, float(self.spatial_scale), $repr)
            }
        }
    )*};
}

pools! {
    /// [`roi_align`](super::roi_align) of a fixed size (`torchvision.ops.RoIAlign`).
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::ops::RoIAlign;
    /// let pool = RoIAlign::new(1, 1.0, -1);
    /// let y = pool.forward_with(&tensor![[[[0.0, 1.0], [2.0, 3.0]]]], &[tensor![[0.0, 0.0, 2.0, 2.0]]])?;
    /// assert_eq!(y, tensor![[[[2.25]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    RoIAlign(sampling_ratio: i64, aligned: bool)
        ["RoIAlign::new(1, 1.0, -1)", "tensor![[[[0.0, 1.0], [2.0, 3.0]]]]", "tensor![[0.0, 0.0, 0.0, 2.0, 2.0]]", "tensor![[[[2.25]]]]"]
        roi_align_with
        |l| RoiAlignOptions { spatial_scale: l.spatial_scale, sampling_ratio: l.sampling_ratio, aligned: l.aligned },
        format!(", sampling_ratio={}, aligned={}", l.sampling_ratio, python(l.aligned));
    /// [`roi_pool`](super::roi_pool) of a fixed size (`torchvision.ops.RoIPool`).
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::ops::RoIPool;
    /// let y = RoIPool::new(1, 1.0).forward_with(&tensor![[[[0.0, 1.0]]]], &[tensor![[0.0, 0.0, 1.0, 0.0]]])?;
    /// assert_eq!(y, tensor![[[[1.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    RoIPool()
        ["RoIPool::new((1, 2), 1.0)", "tensor![[[[0.0, 1.0], [2.0, 3.0]]]]", "tensor![[0.0, 0.0, 0.0, 1.0, 0.0]]", "tensor![[[[0.0, 1.0]]]]"]
        roi_pool_with
        |l| RoiPoolOptions { spatial_scale: l.spatial_scale }, none(l);
    /// [`ps_roi_align`](super::ps_roi_align) of a fixed size (`torchvision.ops.PSRoIAlign`).
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::ops::PSRoIAlign;
    /// let pool = PSRoIAlign::new((1, 2), 1.0, -1);
    /// let y = pool.forward_with(&tensor![[[[1.0, 1.0]], [[5.0, 5.0]]]], &[tensor![[0.0, 0.0, 2.0, 1.0]]])?;
    /// assert_eq!(y, tensor![[[[1.0, 5.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    PSRoIAlign(sampling_ratio: i64)
        ["PSRoIAlign::new((1, 2), 1.0, -1)", "tensor![[[[1.0, 1.0]], [[5.0, 5.0]]]]", "tensor![[0.0, 0.0, 0.0, 2.0, 1.0]]", "tensor![[[[1.0, 5.0]]]]"]
        ps_roi_align_with
        |l| PsRoiAlignOptions { spatial_scale: l.spatial_scale, sampling_ratio: l.sampling_ratio },
        format!(", sampling_ratio={}", l.sampling_ratio);
    /// [`ps_roi_pool`](super::ps_roi_pool) of a fixed size (`torchvision.ops.PSRoIPool`).
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::ops::PSRoIPool;
    /// let x = tensor![[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]];
    /// let y = PSRoIPool::new(1, 1.0).forward_with(&x, &[tensor![[0.0, 0.0, 2.0, 1.0]]])?;
    /// assert_eq!(y, tensor![[[[1.5]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    PSRoIPool()
        ["PSRoIPool::new(1, 1.0)", "tensor![[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]]", "tensor![[0.0, 0.0, 0.0, 2.0, 1.0]]", "tensor![[[[1.5]]]]"]
        ps_roi_pool_with
        |l| RoiPoolOptions { spatial_scale: l.spatial_scale }, none(l);
}

impl RoIAlign {
    /// Makes regions of the size (height, width), whose boxes are multiplied by `spatial_scale`, of so many samples
    /// along each side of a bin.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_vision::ops::RoIAlign;
    /// let text = "RoIAlign(output_size=(7, 7), spatial_scale=0.25, sampling_ratio=2, aligned=False)";
    /// assert_eq!(RoIAlign::new(7, 0.25, 2).repr(), text);
    /// ```
    pub fn new(
        output_size: impl Into<Sizes<2>>,
        spatial_scale: f64,
        sampling_ratio: i64,
    ) -> RoIAlign {
        RoIAlign {
            output_size: output_size.into(),
            spatial_scale,
            sampling_ratio,
            aligned: false,
            training: Training::default(),
            hooks: Hooks::new(),
        }
    }

    /// Whether boxes are moved by half a pixel. The default is `false`.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::ops::RoIAlign;
    /// let (x, boxes) = (tensor![[[[0.0, 1.0], [2.0, 3.0]]]], [tensor![[0.0, 0.0, 2.0, 2.0]]]);
    /// assert_eq!(RoIAlign::new(1, 1.0, -1).aligned(true).forward(&x, &boxes)?, tensor![[[[1.5]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[must_use]
    pub fn aligned(mut self, aligned: bool) -> RoIAlign {
        self.aligned = aligned;
        self
    }
}

impl PSRoIAlign {
    /// Makes regions of the size (height, width), whose boxes are multiplied by `spatial_scale`, of so many samples
    /// along each side of a bin.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_vision::ops::PSRoIAlign;
    /// let text = "PSRoIAlign(output_size=(7, 7), spatial_scale=0.25, sampling_ratio=2)";
    /// assert_eq!(PSRoIAlign::new(7, 0.25, 2).repr(), text);
    /// ```
    pub fn new(
        output_size: impl Into<Sizes<2>>,
        spatial_scale: f64,
        sampling_ratio: i64,
    ) -> PSRoIAlign {
        PSRoIAlign {
            output_size: output_size.into(),
            spatial_scale,
            sampling_ratio,
            training: Training::default(),
            hooks: Hooks::new(),
        }
    }
}

macro_rules! scaled {
    ($($name:ident)*) => {$(
        impl $name {
            /// Makes regions of the size (height, width), whose boxes are multiplied by `spatial_scale`.
            #[doc = concat!(
                "\n```\n\
                 use torsh_nn::ModuleExt;\n\
                 use torsh_vision::ops::", stringify!($name), ";\n\
                 let text = \"", stringify!($name), "(output_size=(7, 7), spatial_scale=0.25)\";\n\
                 assert_eq!(", stringify!($name), "::new(7, 0.25).repr(), text);\n```"
            )]
            pub fn new(output_size: impl Into<Sizes<2>>, spatial_scale: f64) -> $name {
                $name {
                    output_size: output_size.into(),
                    spatial_scale,
                    training: Training::default(),
                    hooks: Hooks::new(),
                }
            }
        }
    )*};
}
scaled!(RoIPool PSRoIPool);

/// A convolution with offsets (`torchvision.ops.DeformConv2d`); see [`deform_conv2d`](super::deform_conv2d).
///
/// ```
/// use torsh_tensor::{rand, zeros};
/// use torsh_vision::ops::DeformConv2d;
/// let conv = DeformConv2d::new(4, 8, 3, 1, 1)?;
/// let y = conv.forward_with(&rand(&[1, 4, 5, 5]), &zeros(&[1, 18, 5, 5]), None)?;
/// assert_eq!(y.dims(), [1, 8, 5, 5]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct DeformConv2d {
    /// `[out_channels, in_channels / groups, kernel_h, kernel_w]`
    pub weight: Parameter,
    /// `[out_channels]`
    pub bias: Option<Parameter>,
    #[module(skip)]
    options: DeformConv2dBuilder,
    training: Training,
    hooks: Hooks,
}

/// Builds a [`DeformConv2d`].
///
/// ```
/// use torsh_vision::ops::DeformConv2d;
/// let conv = DeformConv2d::builder(4, 8, (3, 1)).groups(2).bias(false).build()?;
/// assert_eq!(conv.weight.dims(), [8, 2, 3, 1]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct DeformConv2dBuilder {
    in_channels: usize,
    out_channels: usize,
    kernel_size: Sizes<2>,
    stride: Sizes<2>,
    padding: Sizes<2>,
    dilation: Sizes<2>,
    groups: usize,
    bias: bool,
    device: Option<Device>,
    dtype: Option<DType>,
}

impl DeformConv2dBuilder {
    setters! {
        /// Steps of the window. The default is 1.
        stride: Sizes<2>, impl Into<Sizes<2>> => |s| s.into();
        /// Zeros on both sides of the image. The default is 0.
        padding: Sizes<2>, impl Into<Sizes<2>> => |s| s.into();
        /// Distance between the elements of the window. The default is 1.
        dilation: Sizes<2>, impl Into<Sizes<2>> => |s| s.into();
        /// Groups of channels that do not see each other. The default is 1.
        groups: usize;
        /// Whether a bias is added. The default is `true`.
        bias: bool;
        /// Where the parameters are made. The default is the default device.
        device: Option<Device>, impl Into<Device> => |d| Some(d.into());
        /// The dtype of the parameters. The default is the default dtype.
        dtype: Option<DType>, DType => Some;
    }

    /// Makes the layer and draws its weights. An error where sizes are 0, or the channels do not divide into the groups.
    ///
    /// ```
    /// use torsh_vision::ops::DeformConv2d;
    /// let error = DeformConv2d::builder(4, 8, 3).groups(3).build().err().map(|e| e.to_string());
    /// assert!(error.is_some_and(|e| e.contains("in_channels must be divisible by groups, and 4 is not by 3")));
    /// ```
    #[torsh_tensor::names_caller]
    pub fn build(self) -> Result<DeformConv2d> {
        let refuse = |text: String| Err(TorshError::invalid("DeformConv2d", text));
        if self.groups == 0 {
            return refuse("groups must be a positive integer".into());
        }
        for (name, n) in [
            ("in_channels", self.in_channels),
            ("out_channels", self.out_channels),
        ] {
            if !n.is_multiple_of(self.groups) {
                return refuse(format!(
                    "{name} must be divisible by groups, and {n} is not by {}",
                    self.groups
                ));
            }
        }
        for (name, s) in [
            ("kernel_size", self.kernel_size),
            ("stride", self.stride),
            ("dilation", self.dilation),
        ] {
            if s.0.iter().any(|&n| n <= 0) {
                return refuse(format!("{name} must be positive, got {s}"));
            }
        }
        let dtype = self.dtype.unwrap_or_else(torsh_core::default_dtype);
        let device = self.device.unwrap_or_else(torsh_tensor::default_device);
        let [kh, kw] = self.kernel_size.0;
        let shape = [
            self.out_channels as i64,
            (self.in_channels / self.groups) as i64,
            kh,
            kw,
        ];
        let parameter = |t: Tensor| Parameter::with_requires_grad(t, true);
        let bias = match self.bias {
            true => Some(parameter(Tensor::empty(
                [self.out_channels],
                dtype,
                device,
            )?)?),
            false => None,
        };
        let layer = DeformConv2d {
            weight: parameter(Tensor::empty(shape, dtype, device)?)?,
            bias,
            options: self,
            training: Training::default(),
            hooks: Hooks::new(),
        };
        layer.reset_parameters()?;
        Ok(layer)
    }
}

impl DeformConv2d {
    /// Makes a convolution with bias. An error where a size is 0.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_vision::ops::DeformConv2d;
    /// let conv = DeformConv2d::new(4, 8, 3, 2, 1)?;
    /// assert_eq!(conv.num_parameters(), 8 * 4 * 3 * 3 + 8);
    /// assert_eq!(conv.repr(), "DeformConv2d(4, 8, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1))");
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new(
        in_channels: usize,
        out_channels: usize,
        kernel_size: impl Into<Sizes<2>>,
        stride: impl Into<Sizes<2>>,
        padding: impl Into<Sizes<2>>,
    ) -> Result<DeformConv2d> {
        DeformConv2d::builder(in_channels, out_channels, kernel_size)
            .stride(stride)
            .padding(padding)
            .build()
    }

    /// Gives a builder of a convolution, with a setter for each of torchvision's other arguments.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_vision::ops::DeformConv2d;
    /// let conv = DeformConv2d::builder(4, 8, 3).dilation(2).bias(false).build()?;
    /// assert_eq!(conv.repr(), "DeformConv2d(4, 8, kernel_size=(3, 3), stride=(1, 1), dilation=(2, 2), bias=False)");
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn builder(
        in_channels: usize,
        out_channels: usize,
        kernel_size: impl Into<Sizes<2>>,
    ) -> DeformConv2dBuilder {
        DeformConv2dBuilder {
            in_channels,
            out_channels,
            kernel_size: kernel_size.into(),
            stride: Sizes([1; 2]),
            padding: Sizes([0; 2]),
            dilation: Sizes([1; 2]),
            groups: 1,
            bias: true,
            device: None,
            dtype: None,
        }
    }

    /// Draws the weights anew, and the bias, both uniformly over `1 / sqrt(fan_in)` to either side.
    ///
    /// ```
    /// use torsh_nn::init;
    /// use torsh_vision::ops::DeformConv2d;
    /// let conv = DeformConv2d::new(4, 8, 3, 1, 1)?;
    /// init::constant_(&conv.weight, 5.0)?;
    /// conv.reset_parameters()?;
    /// // At most 1 / sqrt(4 * 3 * 3), as each output reads so many numbers.
    /// assert!(conv.weight.abs()?.max()?.item::<f32>()? < 0.1667);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn reset_parameters(&self) -> Result<()> {
        init::kaiming_uniform_with(&self.weight, KaimingOptions::default().a(5f64.sqrt()))?;
        if let Some(bias) = &self.bias {
            let (fan_in, _) = init::calculate_fan_in_and_fan_out(&self.weight)?;
            let bound = if fan_in > 0 {
                1.0 / (fan_in as f64).sqrt()
            } else {
                0.0
            };
            init::uniform_(bias, -bound, bound)?;
        }
        Ok(())
    }

    /// As [`forward_with`](DeformConv2d::forward_with), without a mask.
    ///
    /// ```
    /// use torsh_nn::init;
    /// use torsh_tensor::{tensor, zeros};
    /// use torsh_vision::ops::DeformConv2d;
    /// let conv = DeformConv2d::builder(1, 1, 1).bias(false).build()?;
    /// init::ones_(&conv.weight)?;
    /// // Without offsets it is a convolution.
    /// let x = tensor![[[[1.0, 3.0]]]];
    /// assert_eq!(conv.forward(&x, &zeros(&[1, 2, 1, 2]))?, x);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn forward(&self, input: &Tensor, offset: &Tensor) -> Result<Tensor> {
        self.forward_with(input, offset, None)
    }

    /// Convolves images, with offsets and, in its second form, a mask. An error as the function's.
    ///
    /// ```
    /// use torsh_nn::init;
    /// use torsh_tensor::{tensor, zeros};
    /// use torsh_vision::ops::DeformConv2d;
    /// let conv = DeformConv2d::builder(1, 1, 1).bias(false).build()?;
    /// init::ones_(&conv.weight)?;
    /// let (x, mask) = (tensor![[[[1.0, 3.0]]]], tensor![[[[1.0, 0.5]]]]);
    /// assert_eq!(conv.forward_with(&x, &zeros(&[1, 2, 1, 2]), Some(&mask))?, tensor![[[[1.0, 1.5]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn forward_with(
        &self,
        input: &Tensor,
        offset: &Tensor,
        mask: Option<&Tensor>,
    ) -> Result<Tensor> {
        self.hooks.run(self, input, |input| {
            let o = &self.options;
            let options = DeformConv2dOptions {
                bias: self.bias.as_deref().cloned(),
                stride: o.stride,
                padding: o.padding,
                dilation: o.dilation,
                mask: mask.cloned(),
            };
            deform_conv2d_with(input, offset, &self.weight, options)
        })
    }
}

impl Module for DeformConv2d {
    /// An error: the module takes offsets too.
    #[torsh_tensor::names_caller]
    fn forward(&self, _x: &Tensor) -> Result<Tensor> {
        Err(needs_more(
            "DeformConv2d",
            "forward_with(&input, &offset, None)",
        ))
    }

    fn extra_repr(&self) -> String {
        let o = &self.options;
        let mut text = format!(
            "{}, {}, kernel_size={}, stride={}",
            o.in_channels, o.out_channels, o.kernel_size, o.stride
        );
        if o.padding != Sizes([0; 2]) {
            text += &format!(", padding={}", o.padding);
        }
        if o.dilation != Sizes([1; 2]) {
            text += &format!(", dilation={}", o.dilation);
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

macro_rules! drops {
    ($($(#[$doc:meta])* $name:ident $function:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Module)]
        pub struct $name {
            #[module(skip)]
            p: f64,
            #[module(skip)]
            block_size: usize,
            #[module(skip)]
            inplace: bool,
            #[module(skip)]
            eps: f64,
            training: Training,
            hooks: Hooks,
        }

        impl $name {
            /// Drops an element with probability `p`, roughly, in blocks of an odd size.
            #[doc = concat!(
                "\n```\n\
                 use torsh_nn::ModuleExt;\n\
                 use torsh_vision::ops::", stringify!($name), ";\n\
                 let text = \"", stringify!($name), "(p=0.5, block_size=3, inplace=True)\";\n\
                 assert_eq!(", stringify!($name), "::new(0.5, 3).inplace(true).repr(), text);\n```"
            )]
            pub fn new(p: f64, block_size: usize) -> $name {
                $name {
                    p,
                    block_size,
                    inplace: false,
                    eps: 1e-6,
                    training: Training::default(),
                    hooks: Hooks::new(),
                }
            }

            setters! {
                /// Whether the layer writes into its input. The default is `false`.
                inplace: bool;
                /// What is added to the number of elements that stay. The default is 1e-6.
                eps: f64;
            }
        }

        impl Module for $name {
            #[torsh_tensor::names_caller]
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                self.hooks.run(self, x, |x| {
                    let options = DropBlockOptions {
                        inplace: self.inplace,
                        eps: self.eps,
                        training: self.training.get(),
                    };
                    $function(x, self.p, self.block_size, options)
                })
            }

            fn extra_repr(&self) -> String {
                format!("p={}, block_size={}, inplace={}", float(self.p), self.block_size, python(self.inplace))
            }
        }
    )*};
}

drops! {
    /// [`drop_block2d`](super::drop_block2d) while training (`torchvision.ops.DropBlock2d`).
    ///
    /// ```
    /// use torsh_nn::{Module, ModuleExt};
    /// use torsh_tensor::ones;
    /// use torsh_vision::ops::DropBlock2d;
    /// let layer = DropBlock2d::new(0.5, 3);
    /// layer.eval();
    /// assert_eq!(layer.forward(&ones(&[1, 1, 4, 4]))?, ones(&[1, 1, 4, 4]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    DropBlock2d drop_block2d_with;
    /// [`drop_block3d`](super::drop_block3d) while training (`torchvision.ops.DropBlock3d`).
    ///
    /// ```
    /// use torsh_nn::{Module, ModuleExt};
    /// use torsh_tensor::ones;
    /// use torsh_vision::ops::DropBlock3d;
    /// let layer = DropBlock3d::new(0.5, 3);
    /// layer.eval();
    /// assert_eq!(layer.forward(&ones(&[1, 1, 4, 4, 4]))?, ones(&[1, 1, 4, 4, 4]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    DropBlock3d drop_block3d_with;
}
