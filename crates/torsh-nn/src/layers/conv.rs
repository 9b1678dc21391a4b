//! Convolutions.

use torsh_functional::{self as F, Conv2dOptions, Padding, Size2, Sizes};
use torsh_tensor::{Result, Tensor, TorshError};

use crate::Module;
use crate::layers::{Factory, factory_setters, linear};
use crate::module::{Hooks, Parameter, Training};

/// What stands beyond the edge of an image.
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
}

impl PaddingMode {
    fn name(self) -> &'static str {
        match self {
            PaddingMode::Zeros => "zeros",
            PaddingMode::Reflect => "reflect",
            PaddingMode::Replicate => "replicate",
            PaddingMode::Circular => "circular",
        }
    }
}

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
#[derive(Module)]
pub struct Conv2d {
    /// `[out_channels, in_channels / groups, kernel_h, kernel_w]`
    pub weight: Parameter,
    /// `[out_channels]`
    pub bias: Option<Parameter>,
    #[module(skip)]
    stride: Size2,
    #[module(skip)]
    padding: Padding,
    #[module(skip)]
    dilation: Size2,
    #[module(skip)]
    groups: i64,
    #[module(skip)]
    padding_mode: PaddingMode,
    training: Training,
    hooks: Hooks,
}

impl Conv2d {
    /// A convolution with bias and zero padding. An error where a size is 0.
    #[track_caller]
    pub fn new(
        in_channels: usize,
        out_channels: usize,
        kernel_size: impl Into<Size2>,
        stride: impl Into<Size2>,
        padding: impl Into<Padding>,
    ) -> Result<Conv2d> {
        Conv2d::builder(in_channels, out_channels, kernel_size)
            .stride(stride)
            .padding(padding)
            .build()
    }

    /// A convolution with PyTorch's other arguments.
    pub fn builder(
        in_channels: usize,
        out_channels: usize,
        kernel_size: impl Into<Size2>,
    ) -> Conv2dBuilder {
        Conv2dBuilder {
            in_channels,
            out_channels,
            kernel_size: kernel_size.into(),
            stride: Sizes([1, 1]),
            padding: 0i64.into(),
            dilation: Sizes([1, 1]),
            groups: 1,
            bias: true,
            padding_mode: PaddingMode::Zeros,
            factory: Factory::default(),
        }
    }

    /// Draws the weights anew.
    #[track_caller]
    pub fn reset_parameters(&self) -> Result<()> {
        linear::reset(&self.weight, self.bias.as_deref())
    }

    fn kernel_size(&self) -> Size2 {
        let d = self.weight.dims();
        (d[2], d[3]).into()
    }

    /// Rows and columns added before and after: left, right, top, bottom.
    fn edges(&self) -> [i64; 4] {
        match self.padding {
            Padding::Valid => [0; 4],
            Padding::Sizes([h, w]) => [w, w, h, h],
            Padding::Same => {
                let total = |i: usize| self.dilation.0[i] * (self.kernel_size().0[i] - 1);
                let (h, w) = (total(0), total(1));
                [w / 2, w - w / 2, h / 2, h - h / 2]
            }
        }
    }
}

impl Module for Conv2d {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let mut options = Conv2dOptions {
                stride: self.stride.0,
                padding: self.padding,
                dilation: self.dilation.0,
                groups: self.groups,
            };
            let bias = self.bias.as_deref();
            if self.padding_mode == PaddingMode::Zeros {
                return F::conv2d_with(x, &self.weight, bias, options);
            }
            let x = F::pad_with(x, self.edges(), self.padding_mode.name(), None)?;
            options.padding = Padding::Valid;
            F::conv2d_with(&x, &self.weight, bias, options)
        })
    }

    fn extra_repr(&self) -> String {
        let d = self.weight.dims();
        let mut text = format!(
            "{}, {}, kernel_size={}, stride={}",
            d[1] as i64 * self.groups,
            d[0],
            self.kernel_size(),
            self.stride
        );
        match self.padding {
            Padding::Sizes([0, 0]) => {}
            Padding::Sizes(p) => text += &format!(", padding={}", Sizes(p)),
            Padding::Same => text += ", padding=same",
            Padding::Valid => text += ", padding=valid",
        }
        if self.dilation != Sizes([1, 1]) {
            text += &format!(", dilation={}", self.dilation);
        }
        if self.groups != 1 {
            text += &format!(", groups={}", self.groups);
        }
        if self.bias.is_none() {
            text += ", bias=False";
        }
        if self.padding_mode != PaddingMode::Zeros {
            text += &format!(", padding_mode={}", self.padding_mode.name());
        }
        text
    }
}

/// Builds a [`Conv2d`].
#[derive(Clone, Debug)]
pub struct Conv2dBuilder {
    in_channels: usize,
    out_channels: usize,
    kernel_size: Size2,
    stride: Size2,
    padding: Padding,
    dilation: Size2,
    groups: i64,
    bias: bool,
    padding_mode: PaddingMode,
    factory: Factory,
}

impl Conv2dBuilder {
    /// Steps of the window; 1 unless set.
    #[must_use]
    pub fn stride(mut self, stride: impl Into<Size2>) -> Self {
        self.stride = stride.into();
        self
    }

    /// What is added around the image: sizes, [`Padding::Same`] or [`Padding::Valid`]; 0 unless set.
    #[must_use]
    pub fn padding(mut self, padding: impl Into<Padding>) -> Self {
        self.padding = padding.into();
        self
    }

    /// Distance between the elements of the window; 1 unless set.
    #[must_use]
    pub fn dilation(mut self, dilation: impl Into<Size2>) -> Self {
        self.dilation = dilation.into();
        self
    }

    /// Groups of channels that do not see each other; 1 unless set.
    #[must_use]
    pub fn groups(mut self, groups: i64) -> Self {
        self.groups = groups;
        self
    }

    /// Whether a bias is added; true unless set.
    #[must_use]
    pub fn bias(mut self, bias: bool) -> Self {
        self.bias = bias;
        self
    }

    /// What stands beyond the edge of the image; zeros unless set.
    #[must_use]
    pub fn padding_mode(mut self, mode: PaddingMode) -> Self {
        self.padding_mode = mode;
        self
    }

    factory_setters!();

    /// Makes the layer and draws its weights. An error where sizes are 0, or the channels do not
    /// divide into the groups.
    #[track_caller]
    pub fn build(self) -> Result<Conv2d> {
        let refuse = |why: String| Err(TorshError::invalid("Conv2d", why));
        let (device, dtype) = (self.factory.device, self.factory.dtype());
        if self.groups <= 0 {
            return refuse("groups must be a positive integer".into());
        }
        let groups = self.groups as usize;
        for (name, n) in [
            ("in_channels", self.in_channels),
            ("out_channels", self.out_channels),
        ] {
            if !n.is_multiple_of(groups) {
                return refuse(format!(
                    "{name} must be divisible by groups, and {n} is not by {groups}"
                ));
            }
        }
        let sizes = [
            ("kernel_size", self.kernel_size),
            ("stride", self.stride),
            ("dilation", self.dilation),
        ];
        for (name, size) in sizes {
            if size.0.iter().any(|&v| v <= 0) {
                return refuse(format!("{name} must be positive, got {size}"));
            }
        }
        if let Padding::Sizes(p) = self.padding
            && p.iter().any(|&v| v < 0)
        {
            return refuse(format!("padding must not be negative, got {}", Sizes(p)));
        }
        if self.padding == Padding::Same && self.stride != Sizes([1, 1]) {
            return refuse("padding='same' is not supported for strided convolutions".into());
        }
        let [h, w] = self.kernel_size.0;
        let shape = [
            self.out_channels as i64,
            (self.in_channels / groups) as i64,
            h,
            w,
        ];
        let weight = Tensor::empty(shape, dtype, device)?;
        let bias = if self.bias {
            Some(self.factory.empty(&[self.out_channels])?)
        } else {
            None
        };
        let layer = Conv2d {
            weight: Parameter::with_requires_grad(weight, true)?,
            bias: bias
                .map(|b| Parameter::with_requires_grad(b, true))
                .transpose()?,
            stride: self.stride,
            padding: self.padding,
            dilation: self.dilation,
            groups: self.groups,
            padding_mode: self.padding_mode,
            training: Training::default(),
            hooks: Hooks::new(),
        };
        layer.reset_parameters()?;
        Ok(layer)
    }
}
