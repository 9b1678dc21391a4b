//! The arguments that functions take beyond those PyTorch requires.

use torsh_tensor::Tensor;

pub use torsh_tensor::Reduction;

/// One size for both directions of an image, or one for each.
///
/// Built from an integer, a pair or an array: `3`, `(3, 5)`, `[3, 5]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size2(pub [i64; 2]);

impl std::fmt::Display for Size2 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "({}, {})", self.0[0], self.0[1])
    }
}

macro_rules! sizes {
    ($($ty:ty),*) => {$(
        impl From<$ty> for Size2 {
            fn from(v: $ty) -> Self {
                Size2([v as i64, v as i64])
            }
        }

        impl From<($ty, $ty)> for Size2 {
            fn from(v: ($ty, $ty)) -> Self {
                Size2([v.0 as i64, v.1 as i64])
            }
        }

        impl From<[$ty; 2]> for Size2 {
            fn from(v: [$ty; 2]) -> Self {
                Size2([v[0] as i64, v[1] as i64])
            }
        }
    )*};
}

sizes!(i64, i32, usize);

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
