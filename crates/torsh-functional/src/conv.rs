//! Convolutions.

use torsh_tensor::{Result, Tensor};

pub use torsh_tensor::{
    Conv1dOptions, Conv2dOptions, Conv3dOptions, ConvOptions, ConvTranspose1dOptions,
    ConvTranspose2dOptions, ConvTranspose3dOptions, ConvTransposeOptions, OutputSize, Padding,
    Sizes,
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
