//! The arguments that functions take beyond those PyTorch requires.

use torsh_tensor::{Sizes, Tensor};

pub use torsh_tensor::Reduction;

/// One size for both directions of an image, or one for each.
///
/// Built from an integer, a pair or an array: `3`, `(3, 5)`, `[3, 5]`.
pub type Size2 = Sizes<2>;

/// A struct of options with a setter for each field.
macro_rules! options {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$field_doc:meta])* $field:ident: $ty:ty = $default:expr, $arg:ty => $convert:expr;)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $ty,)*
        }

        impl Default for $name {
            fn default() -> Self {
                $name { $($field: $default,)* }
            }
        }

        impl $name {
            $(
                $(#[$field_doc])*
                #[must_use]
                pub fn $field(mut self, $field: $arg) -> Self {
                    let convert: fn($arg) -> $ty = $convert;
                    self.$field = convert($field);
                    self
                }
            )*
        }
    };
}

options! {
    /// What [`cross_entropy_with`](crate::cross_entropy_with) may be told.
    CrossEntropyOptions {
        /// A factor for each class.
        weight: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// A class that counts for nothing.
        ignore_index: i64 = -100, i64 => |v| v;
        /// How the losses become the result.
        reduction: Reduction = Reduction::Mean, Reduction => |v| v;
        /// How much of each target is spread over all classes.
        label_smoothing: f64 = 0.0, f64 => |v| v;
    }
}

options! {
    /// What [`nll_loss_with`](crate::nll_loss_with) may be told.
    NllLossOptions {
        /// A factor for each class.
        weight: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// A class that counts for nothing.
        ignore_index: i64 = -100, i64 => |v| v;
        /// How the losses become the result.
        reduction: Reduction = Reduction::Mean, Reduction => |v| v;
    }
}

options! {
    /// What [`batch_norm_with`](crate::batch_norm_with) may be told.
    BatchNormOptions {
        /// A factor for each channel.
        weight: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// Added to each channel.
        bias: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// Whether the batch's own statistics are used, and the running ones moved.
        training: bool = false, bool => |v| v;
        /// How much a batch moves the running statistics.
        momentum: f64 = 0.1, f64 => |v| v;
        /// Added to the variance.
        eps: f64 = 1e-5, f64 => |v| v;
    }
}

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
