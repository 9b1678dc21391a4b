//! Convolutions.

use torsh_tensor::{Result, Tensor};

pub use torsh_tensor::{
    Conv1dOptions, Conv2dOptions, Conv3dOptions, ConvOptions, ConvTranspose1dOptions,
    ConvTranspose2dOptions, ConvTranspose3dOptions, ConvTransposeOptions, OutputSize, Padding,
    Sizes, UnfoldOptions,
};

macro_rules! convolutions {
    ($($(#[$doc:meta])* $name:ident $(#[$with_doc:meta])* $with:ident $options:ident;)*) => {$(
        $(#[$doc])*
        #[track_caller]
        pub fn $name<'b>(
            input: &Tensor,
            weight: &Tensor,
            bias: impl Into<Option<&'b Tensor>>,
        ) -> Result<Tensor> {
            input.$name(weight, bias.into())
        }

        $(#[$with_doc])*
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
    /// A convolution of signals `[N, C, L]` with a weight `[out, C, k]`, in steps of 1
    /// (`torch.nn.functional.conv1d`).
    ///
    /// Gives `[N, out, L - k + 1]`; `N` may be missing, `bias` is `[out]` or `None`. An error for
    /// other shapes, for dtypes that differ, and where the window is longer than the signal.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[[1.0, 2.0, 3.0, 4.0]]];
    /// assert_eq!(F::conv1d(&x, &tensor![[[1.0, 10.0]]], None)?, tensor![[[21.0, 32.0, 43.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    conv1d
    /// [`conv1d`] with options: `stride`, `padding`, `dilation` and `groups`.
    ///
    /// With groups the weight is `[out, C / groups, k]`. An error where they do not divide `C` and
    /// `out`.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[[1.0, 2.0, 3.0, 4.0]]];
    /// let options = F::Conv1dOptions::new().stride(2).padding(1);
    /// assert_eq!(F::conv1d_with(&x, &tensor![[[1.0, 10.0]]], None, options)?, tensor![[[10.0, 32.0, 4.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    conv1d_with Conv1dOptions;
    /// A convolution of images `[N, C, H, W]` with a weight `[out, C, kh, kw]`, in steps of 1
    /// (`torch.nn.functional.conv2d`).
    ///
    /// Gives `[N, out, H - kh + 1, W - kw + 1]`; `N` may be missing, `bias` is `[out]` or `None`.
    /// An error for other shapes, for dtypes that differ, and where the window is larger than the
    /// image.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::{ones, tensor};
    /// let x = tensor![[[[1.0, 2.0], [3.0, 4.0]]]];
    /// assert_eq!(F::conv2d(&x, &ones([1, 1, 2, 2]), &tensor![0.5])?, tensor![[[[10.5]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    conv2d
    /// [`conv2d`] with options: `stride`, `padding`, `dilation` and `groups`.
    ///
    /// With groups the weight is `[out, C / groups, kh, kw]`. An error where they do not divide `C`
    /// and `out`.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::{ones, tensor};
    /// let x = tensor![[[[1.0, 2.0], [3.0, 4.0]]]];
    /// let options = F::Conv2dOptions::new().padding(F::Padding::Same);
    /// let y = F::conv2d_with(&x, &ones([1, 1, 3, 3]), None, options)?;
    /// assert_eq!(y, tensor![[[[10.0, 10.0], [10.0, 10.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    conv2d_with Conv2dOptions;
    /// A convolution of volumes `[N, C, D, H, W]` with a weight `[out, C, kd, kh, kw]`, in steps of
    /// 1 (`torch.nn.functional.conv3d`).
    ///
    /// Gives `[N, out, D - kd + 1, H - kh + 1, W - kw + 1]`; `N` may be missing, `bias` is `[out]`
    /// or `None`. An error for other shapes, for dtypes that differ, and where the window is larger
    /// than the volume.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::{ones, tensor};
    /// let x = tensor![[[[[1.0, 2.0]], [[3.0, 4.0]]]]];
    /// assert_eq!(F::conv3d(&x, &ones([1, 1, 2, 1, 1]), None)?, tensor![[[[[4.0, 6.0]]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    conv3d
    /// [`conv3d`] with options: `stride`, `padding`, `dilation` and `groups`.
    ///
    /// With groups the weight is `[out, C / groups, kd, kh, kw]`. An error where they do not divide
    /// `C` and `out`.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::{full, tensor};
    /// let x = tensor![[[[[1.0, 2.0, 3.0]]]]];
    /// let options = F::Conv3dOptions::new().stride((1, 1, 2));
    /// assert_eq!(F::conv3d_with(&x, &full([1, 1, 1, 1, 1], 2.0), None, options)?, tensor![[[[[2.0, 6.0]]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    conv3d_with Conv3dOptions;
    /// A transposed convolution of signals `[N, C, L]` with a weight `[C, out, k]`, in steps of 1
    /// (`torch.nn.functional.conv_transpose1d`): each element adds its multiple of the weight.
    ///
    /// Gives `[N, out, L + k - 1]`; `N` may be missing, `bias` is `[out]` or `None`. An error for
    /// other shapes, and for dtypes that differ.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let y = F::conv_transpose1d(&tensor![[[1.0, 2.0]]], &tensor![[[1.0, 10.0]]], None)?;
    /// assert_eq!(y, tensor![[[1.0, 12.0, 20.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    conv_transpose1d
    /// [`conv_transpose1d`] with options: `stride`, `padding`, `output_padding`, `groups` and
    /// `dilation`.
    ///
    /// An error where `output_padding` is not below the stride or the dilation, and where the
    /// groups do not divide `C`.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let options = F::ConvTranspose1dOptions::new().stride(2);
    /// let y = F::conv_transpose1d_with(&tensor![[[1.0, 2.0]]], &tensor![[[1.0, 10.0]]], None, options)?;
    /// assert_eq!(y, tensor![[[1.0, 10.0, 2.0, 20.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    conv_transpose1d_with ConvTranspose1dOptions;
    /// A transposed convolution of images `[N, C, H, W]` with a weight `[C, out, kh, kw]`, in steps
    /// of 1 (`torch.nn.functional.conv_transpose2d`): each element adds its multiple of the weight.
    ///
    /// Gives `[N, out, H + kh - 1, W + kw - 1]`; `N` may be missing, `bias` is `[out]` or `None`.
    /// An error for other shapes, and for dtypes that differ.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::{ones, tensor};
    /// let y = F::conv_transpose2d(&tensor![[[[1.0, 2.0]]]], &ones([1, 1, 2, 2]), None)?;
    /// assert_eq!(y, tensor![[[[1.0, 3.0, 2.0], [1.0, 3.0, 2.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    conv_transpose2d
    /// [`conv_transpose2d`] with options: `stride`, `padding`, `output_padding`, `groups` and
    /// `dilation`.
    ///
    /// An error where `output_padding` is not below the stride or the dilation, and where the
    /// groups do not divide `C`.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::{ones, tensor};
    /// let options = F::ConvTranspose2dOptions::new().stride((1, 2));
    /// let y = F::conv_transpose2d_with(&tensor![[[[1.0, 2.0]]]], &ones([1, 1, 1, 2]), None, options)?;
    /// assert_eq!(y, tensor![[[[1.0, 1.0, 2.0, 2.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    conv_transpose2d_with ConvTranspose2dOptions;
    /// A transposed convolution of volumes `[N, C, D, H, W]` with a weight `[C, out, kd, kh, kw]`,
    /// in steps of 1 (`torch.nn.functional.conv_transpose3d`): each element adds its multiple of
    /// the weight.
    ///
    /// Gives `[N, out, D + kd - 1, H + kh - 1, W + kw - 1]`; `N` may be missing, `bias` is `[out]`
    /// or `None`. An error for other shapes, and for dtypes that differ.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::{ones, tensor};
    /// let y = F::conv_transpose3d(&tensor![[[[[1.0, 2.0]]]]], &ones([1, 1, 2, 1, 1]), None)?;
    /// assert_eq!(y, tensor![[[[[1.0, 2.0]], [[1.0, 2.0]]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    conv_transpose3d
    /// [`conv_transpose3d`] with options: `stride`, `padding`, `output_padding`, `groups` and
    /// `dilation`.
    ///
    /// An error where `output_padding` is not below the stride or the dilation, and where the
    /// groups do not divide `C`.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::{ones, tensor};
    /// let options = F::ConvTranspose3dOptions::new().padding((0, 0, 1));
    /// let y = F::conv_transpose3d_with(&tensor![[[[[1.0, 2.0, 3.0]]]]], &ones([1, 1, 1, 1, 1]), None, options)?;
    /// assert_eq!(y, tensor![[[[[2.0]]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    conv_transpose3d_with ConvTranspose3dOptions;
}

/// The windows of images `[N, C, H, W]` as columns `[N, C * kh * kw, windows]`
/// (`torch.nn.functional.unfold`). (The views of the windows of one dimension are the method
/// [`Tensor::unfold`].)
///
/// `N` may be missing. An error for other dimensions, and where no window fits.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let x = tensor![[[[1.0, 2.0, 3.0]]]];
/// assert_eq!(F::unfold(&x, (1, 2))?, tensor![[[1.0, 2.0], [2.0, 3.0]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn unfold(input: &Tensor, kernel_size: impl Into<Sizes<2>>) -> Result<Tensor> {
    input.im2col(kernel_size)
}

/// [`unfold`] with options: `dilation`, `padding` and `stride`.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let x = tensor![[[[1.0, 2.0, 3.0, 4.0]]]];
/// assert_eq!(F::unfold_with(&x, (1, 2), F::UnfoldOptions::new().stride(2))?, tensor![[[1.0, 3.0], [2.0, 4.0]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn unfold_with(
    input: &Tensor,
    kernel_size: impl Into<Sizes<2>>,
    options: UnfoldOptions,
) -> Result<Tensor> {
    input.im2col_with(kernel_size, options)
}

/// The sums of columns `[N, C * kh * kw, windows]` in the places of their windows of images of
/// `output_size` (`torch.nn.functional.fold`).
///
/// Gives `[N, C, H, W]`; `N` may be missing. An error where the number of rows or of windows is
/// another.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let columns = tensor![[[1.0, 2.0], [2.0, 3.0]]];
/// assert_eq!(F::fold(&columns, (1, 3), (1, 2))?, tensor![[[[1.0, 4.0, 3.0]]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn fold(
    input: &Tensor,
    output_size: impl Into<Sizes<2>>,
    kernel_size: impl Into<Sizes<2>>,
) -> Result<Tensor> {
    input.col2im(output_size, kernel_size)
}

/// [`fold`] with options: `dilation`, `padding` and `stride`.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let columns = tensor![[[1.0, 3.0], [2.0, 4.0]]];
/// let y = F::fold_with(&columns, (1, 4), (1, 2), F::UnfoldOptions::new().stride(2))?;
/// assert_eq!(y, tensor![[[[1.0, 2.0, 3.0, 4.0]]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn fold_with(
    input: &Tensor,
    output_size: impl Into<Sizes<2>>,
    kernel_size: impl Into<Sizes<2>>,
    options: UnfoldOptions,
) -> Result<Tensor> {
    input.col2im_with(output_size, kernel_size, options)
}
