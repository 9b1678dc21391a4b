//! Convolutions.

use torsh_tensor::{Result, Tensor};

pub use torsh_tensor::{
    Conv1dOptions, Conv2dOptions, Conv3dOptions, ConvOptions, ConvTranspose1dOptions,
    ConvTranspose2dOptions, ConvTranspose3dOptions, ConvTransposeOptions, OutputSize, Padding,
    Sizes, UnfoldOptions,
};

macro_rules! convolutions {
    ($($(#[doc = $doc:literal])+ $name:ident $with:ident $options:ident;)*) => {$(
        $(#[doc = $doc])+
        #[track_caller]
        pub fn $name<'b>(
            input: &Tensor,
            weight: &Tensor,
            bias: impl Into<Option<&'b Tensor>>,
        ) -> Result<Tensor> {
            input.$name(weight, bias.into())
        }

        #[doc = concat!("[`", stringify!($name), "`] with options.")]
        #[track_caller]
        pub fn $with<'b>(
            input: &Tensor,
            weight: &Tensor,
            bias: impl Into<Option<&'b Tensor>>,
            options: $options,
        ) -> Result<Tensor> {
            input.$with(weight, bias.into(), options)
        }
    )*};
}

convolutions! {
    /// A convolution of signals `[N, C, L]` with a weight `[out, C, k]`, in steps of 1.
    conv1d conv1d_with Conv1dOptions;
    /// A convolution of images `[N, C, H, W]` with a weight `[out, C, kh, kw]`, in steps of 1.
    conv2d conv2d_with Conv2dOptions;
    /// A convolution of volumes `[N, C, D, H, W]` with a weight `[out, C, kd, kh, kw]`, in steps of 1.
    conv3d conv3d_with Conv3dOptions;
    /// A transposed convolution of signals `[N, C, L]` with a weight `[C, out, k]`, in steps of 1.
    conv_transpose1d conv_transpose1d_with ConvTranspose1dOptions;
    /// A transposed convolution of images `[N, C, H, W]` with a weight `[C, out, kh, kw]`, in steps
    /// of 1.
    conv_transpose2d conv_transpose2d_with ConvTranspose2dOptions;
    /// A transposed convolution of volumes `[N, C, D, H, W]` with a weight `[C, out, kd, kh, kw]`,
    /// in steps of 1.
    conv_transpose3d conv_transpose3d_with ConvTranspose3dOptions;
}

/// The windows of images `[N, C, H, W]` as columns `[N, C * kh * kw, windows]`. (The views of the
/// windows of one dimension are the method [`Tensor::unfold`].)
#[track_caller]
pub fn unfold(input: &Tensor, kernel_size: impl Into<Sizes<2>>) -> Result<Tensor> {
    input.im2col(kernel_size)
}

/// [`unfold`] with options.
#[track_caller]
pub fn unfold_with(
    input: &Tensor,
    kernel_size: impl Into<Sizes<2>>,
    options: UnfoldOptions,
) -> Result<Tensor> {
    input.im2col_with(kernel_size, options)
}

/// The sums of columns `[N, C * kh * kw, windows]` in the places of their windows of images of
/// `output_size`.
#[track_caller]
pub fn fold(
    input: &Tensor,
    output_size: impl Into<Sizes<2>>,
    kernel_size: impl Into<Sizes<2>>,
) -> Result<Tensor> {
    input.col2im(output_size, kernel_size)
}

/// [`fold`] with options.
#[track_caller]
pub fn fold_with(
    input: &Tensor,
    output_size: impl Into<Sizes<2>>,
    kernel_size: impl Into<Sizes<2>>,
    options: UnfoldOptions,
) -> Result<Tensor> {
    input.col2im_with(output_size, kernel_size, options)
}
