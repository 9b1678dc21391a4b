//! The optional arguments of functions.

use torsh_tensor::Sizes;

pub use torsh_tensor::{
    AddOptions, AddcmulOptions, AddmmOptions, BatchNormOptions, CrossEntropyOptions, CumsumOptions,
    DiagonalOptions, DivOptions, EluOptions, FlattenOptions, GeluOptions, HardtanhOptions,
    LeakyReluOptions, LogitOptions, LossOptions, MultinomialOptions, NanToNumOptions,
    NllLossOptions, PadOptions, Reduction, ShrinkOptions, SoftmaxOptions, SoftplusOptions,
};

/// One size for both directions of an image, or one for each.
///
/// Built from an integer, a pair or an array: `3`, `(3, 5)`, `[3, 5]`.
pub type Size2 = Sizes<2>;

/// What `lp_pool1d_with`, `lp_pool2d_with` and `lp_pool3d_with` may be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LpPoolOptions<const N: usize> {
    /// Steps of the window; the window's own size where not given.
    pub stride: Option<Sizes<N>>,
    /// Whether a window that reaches past the end counts.
    pub ceil_mode: bool,
}

impl<const N: usize> LpPoolOptions<N> {
    /// Steps of the window.
    #[must_use]
    pub fn stride(mut self, stride: impl Into<Sizes<N>>) -> Self {
        self.stride = Some(stride.into());
        self
    }
    /// Whether a window that reaches past the end counts.
    #[must_use]
    pub fn ceil_mode(mut self, ceil_mode: bool) -> Self {
        self.ceil_mode = ceil_mode;
        self
    }
}
