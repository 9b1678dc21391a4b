//! Pooling.

use torsh_functional::{self as F, MaxPool2dOptions, Size2, Sizes};
use torsh_tensor::{Result, Tensor, TorshError};

use crate::Module;
use crate::layers::python;
use crate::module::{Hooks, Training};

/// The greatest element of each window of an image (`torch.nn.MaxPool2d`).
///
/// Takes `[N, C, H, W]` or `[C, H, W]`.
#[derive(Module)]
pub struct MaxPool2d {
    #[module(skip)]
    options: MaxPool2dBuilder,
    training: Training,
    hooks: Hooks,
}

impl MaxPool2d {
    /// Windows of this size, beside each other. An error where it is 0.
    #[track_caller]
    pub fn new(kernel_size: impl Into<Size2>) -> Result<MaxPool2d> {
        MaxPool2d::builder(kernel_size).build()
    }

    /// Pooling with PyTorch's other arguments.
    pub fn builder(kernel_size: impl Into<Size2>) -> MaxPool2dBuilder {
        let kernel_size = kernel_size.into();
        MaxPool2dBuilder {
            kernel_size,
            stride: None,
            padding: Sizes([0, 0]),
            dilation: Sizes([1, 1]),
            ceil_mode: false,
        }
    }

    fn arguments(&self) -> MaxPool2dOptions {
        let o = &self.options;
        MaxPool2dOptions {
            stride: Some(o.stride.unwrap_or(o.kernel_size).0),
            padding: o.padding.0,
            dilation: o.dilation.0,
            ceil_mode: o.ceil_mode,
        }
    }

    /// The greatest elements, and where each was found in its flattened image.
    #[track_caller]
    pub fn forward_with_indices(&self, x: &Tensor) -> Result<(Tensor, Tensor)> {
        F::max_pool2d_with_indices(x, self.options.kernel_size.0, self.arguments())
    }
}

impl Module for MaxPool2d {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            F::max_pool2d_with(x, self.options.kernel_size.0, self.arguments())
        })
    }

    fn extra_repr(&self) -> String {
        let o = &self.options;
        let one = |s: Size2| {
            if s.0[0] == s.0[1] {
                s.0[0].to_string()
            } else {
                s.to_string()
            }
        };
        format!(
            "kernel_size={}, stride={}, padding={}, dilation={}, ceil_mode={}",
            one(o.kernel_size),
            one(o.stride.unwrap_or(o.kernel_size)),
            one(o.padding),
            one(o.dilation),
            python(o.ceil_mode)
        )
    }
}

/// Builds a [`MaxPool2d`].
#[derive(Clone, Debug)]
pub struct MaxPool2dBuilder {
    kernel_size: Size2,
    stride: Option<Size2>,
    padding: Size2,
    dilation: Size2,
    ceil_mode: bool,
}

impl MaxPool2dBuilder {
    /// Steps of the window; its size unless set.
    #[must_use]
    pub fn stride(mut self, stride: impl Into<Size2>) -> Self {
        self.stride = Some(stride.into());
        self
    }

    /// How much is added around the image; 0 unless set.
    #[must_use]
    pub fn padding(mut self, padding: impl Into<Size2>) -> Self {
        self.padding = padding.into();
        self
    }

    /// Distance between the elements of the window; 1 unless set.
    #[must_use]
    pub fn dilation(mut self, dilation: impl Into<Size2>) -> Self {
        self.dilation = dilation.into();
        self
    }

    /// Whether windows that reach over the edge count; false unless set.
    #[must_use]
    pub fn ceil_mode(mut self, ceil_mode: bool) -> Self {
        self.ceil_mode = ceil_mode;
        self
    }

    /// Makes the layer. An error where a size is 0.
    #[track_caller]
    pub fn build(self) -> Result<MaxPool2d> {
        let stride = self.stride.unwrap_or(self.kernel_size);
        for (name, size) in [
            ("kernel_size", self.kernel_size),
            ("stride", stride),
            ("dilation", self.dilation),
        ] {
            if size.0.iter().any(|&v| v <= 0) {
                return Err(TorshError::invalid(
                    "MaxPool2d",
                    format!("{name} must be positive, got {size}"),
                ));
            }
        }
        Ok(MaxPool2d {
            options: self,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }
}
