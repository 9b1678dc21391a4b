//! The arguments that functions take beyond those PyTorch requires.

use torsh_tensor::Tensor;

/// How the losses of elements become the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reduction {
    /// They stay.
    None,
    /// Their mean.
    #[default]
    Mean,
    /// Their sum.
    Sum,
}

impl Reduction {
    /// PyTorch's name: `none`, `mean` or `sum`.
    pub fn name(self) -> &'static str {
        match self {
            Reduction::None => "none",
            Reduction::Mean => "mean",
            Reduction::Sum => "sum",
        }
    }
}

/// One size for both directions of an image, or one for each.
///
/// Built from an integer, a pair or an array: `3`, `(3, 5)`, `[3, 5]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size2(pub [usize; 2]);

impl std::fmt::Display for Size2 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "({}, {})", self.0[0], self.0[1])
    }
}

impl From<usize> for Size2 {
    fn from(v: usize) -> Self {
        Size2([v, v])
    }
}

impl From<(usize, usize)> for Size2 {
    fn from(v: (usize, usize)) -> Self {
        Size2([v.0, v.1])
    }
}

impl From<[usize; 2]> for Size2 {
    fn from(v: [usize; 2]) -> Self {
        Size2(v)
    }
}

/// What is added around an image: sizes, as much as keeps the size (`"same"`), or nothing
/// (`"valid"`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// So many rows and columns on either side.
    Size([usize; 2]),
    /// As much as keeps the size; the odd one at the end.
    Same,
    /// Nothing.
    Valid,
}

impl Default for Padding {
    fn default() -> Self {
        Padding::Size([0, 0])
    }
}

impl TryFrom<&str> for Padding {
    type Error = torsh_tensor::TorshError;

    fn try_from(name: &str) -> Result<Self, Self::Error> {
        match name {
            "same" => Ok(Padding::Same),
            "valid" => Ok(Padding::Valid),
            _ => Err(torsh_tensor::TorshError::invalid(
                "padding",
                format!("expected `same` or `valid`, got `{name}`"),
            )),
        }
    }
}

impl From<usize> for Padding {
    fn from(v: usize) -> Self {
        Padding::Size([v, v])
    }
}

impl From<(usize, usize)> for Padding {
    fn from(v: (usize, usize)) -> Self {
        Padding::Size([v.0, v.1])
    }
}

impl From<[usize; 2]> for Padding {
    fn from(v: [usize; 2]) -> Self {
        Padding::Size(v)
    }
}

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
    /// What [`conv2d_with`](crate::conv2d_with) may be told.
    Conv2dOptions {
        /// `[out_channels]`
        bias: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// Steps of the window.
        stride: [usize; 2] = [1, 1], [usize; 2] => |v| v;
        /// What is added around the image.
        padding: Padding = Padding::default(), Padding => |v| v;
        /// Distance between the elements of the window.
        dilation: [usize; 2] = [1, 1], [usize; 2] => |v| v;
        /// Groups of channels that do not see each other.
        groups: usize = 1, usize => |v| v;
    }
}

options! {
    /// What [`max_pool2d_with`](crate::max_pool2d_with) may be told.
    MaxPool2dOptions {
        /// Steps of the window; its size when `None`.
        stride: Option<[usize; 2]> = None, [usize; 2] => Some;
        /// How much is added around the image.
        padding: [usize; 2] = [0, 0], [usize; 2] => |v| v;
        /// Distance between the elements of the window.
        dilation: [usize; 2] = [1, 1], [usize; 2] => |v| v;
        /// Whether windows that reach over the edge count.
        ceil_mode: bool = false, bool => |v| v;
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
