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
///
/// ```
/// # use torsh_functional as F;
/// assert_eq!(F::Size2::from(3), F::Size2::from((3, 3)));
/// ```
pub type Size2 = Sizes<2>;

/// The options of [`lp_pool1d_with`](crate::lp_pool1d_with),
/// [`lp_pool2d_with`](crate::lp_pool2d_with) and [`lp_pool3d_with`](crate::lp_pool3d_with).
///
/// ```
/// # use torsh_functional as F;
/// let options = F::LpPoolOptions::<2>::default().ceil_mode(true);
/// assert_eq!((options.stride, options.ceil_mode), (None, true));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LpPoolOptions<const N: usize> {
    /// Steps of the window; the window's own size where not given.
    pub stride: Option<Sizes<N>>,
    /// Whether a window that reaches past the end counts.
    pub ceil_mode: bool,
}

impl<const N: usize> LpPoolOptions<N> {
    /// PyTorch's defaults.
    ///
    /// ```
    /// assert!(torsh_functional::LpPoolOptions::<2>::new().stride.is_none());
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Steps of the window, one for all dimensions or one for each.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// assert_eq!(F::LpPoolOptions::<2>::default().stride(3).stride, Some(F::Size2::from((3, 3))));
    /// ```
    #[must_use]
    pub fn stride(mut self, stride: impl Into<Sizes<N>>) -> Self {
        self.stride = Some(stride.into());
        self
    }
    /// Whether a window that reaches past the end counts.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let options = F::LpPoolOptions::default().ceil_mode(true);
    /// assert_eq!(F::lp_pool1d_with(&tensor![[[3.0, 4.0, 5.0]]], 2.0, 2, options)?.dims(), [1, 1, 2]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[must_use]
    pub fn ceil_mode(mut self, ceil_mode: bool) -> Self {
        self.ceil_mode = ceil_mode;
        self
    }
}
