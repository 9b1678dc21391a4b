//! Convolutions as methods.

use super::*;

macro_rules! methods {
    ($($(#[doc = $doc:literal])+ $name:ident $(#[doc = $with_doc:literal])+ $with:ident $n:literal $record:ident $options:ident $call:ident;)*) => {
        #[torsh_tensor::functions]
        impl Tensor {$(
            $(#[doc = $doc])+
            #[function]
            #[track_caller]
            pub fn $name<'b>(&self, weight: &Tensor, bias: impl Into<Option<&'b Tensor>>) -> Result<Tensor> {
                self.$call::<$n>(&$record, weight, bias.into(), $options::default())
            }

            $(#[doc = $with_doc])+
            #[function]
            #[track_caller]
            pub fn $with<'b>(&self, weight: &Tensor, bias: impl Into<Option<&'b Tensor>>, options: $options<$n>) -> Result<Tensor> {
                self.$call(&$record, weight, bias.into(), options)
            }
        )*}
    };
}
methods! {
    /// A convolution of signals `[N, C, L]` with a weight `[out, C, k]`, in steps of 1
    /// (`torch.nn.functional.conv1d`).
    ///
    /// Gives `[N, out, L - k + 1]`; `N` may be missing, `bias` is `[out]` or `None`. An error for
    /// other shapes, for dtypes that differ, and where the window is longer than the signal.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// let (x, w) = (tensor![[[1.0, 2.0, 3.0, 4.0]]], tensor![[[1.0, -1.0]]]);
    /// assert_eq!(x.conv1d(&w, None)?, tensor![[[-1.0, -1.0, -1.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    conv1d
    /// [`Tensor::conv1d`] with options: `stride`, `padding`, `dilation` and `groups`.
    ///
    /// With groups the weight is `[out, C / groups, k]`. An error where they do not divide `C` and
    /// `out`.
    ///
    /// ```
    /// use torsh_tensor::{Conv1dOptions, tensor};
    /// let (x, w) = (tensor![[[1.0, 2.0, 3.0, 4.0]]], tensor![[[1.0, -1.0]]]);
    /// let y = x.conv1d_with(&w, None, Conv1dOptions::new().stride(2))?;
    /// assert_eq!(y, tensor![[[-1.0, -1.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    conv1d_with 1 CONV1D ConvOptions convolution;
    /// A convolution of images `[N, C, H, W]` with a weight `[out, C, kh, kw]`, in steps of 1
    /// (`torch.nn.functional.conv2d`).
    ///
    /// Gives `[N, out, H - kh + 1, W - kw + 1]`; `N` may be missing, `bias` is `[out]` or `None`. An
    /// error for other shapes, for dtypes that differ, and where the window is larger than the image.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// let (x, w) = (tensor![[[[1.0, 2.0], [3.0, 4.0]]]], tensor![[[[1.0, 1.0], [1.0, 1.0]]]]);
    /// assert_eq!(x.conv2d(&w, Some(&tensor![0.5]))?, tensor![[[[10.5]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    conv2d
    /// [`Tensor::conv2d`] with options: `stride`, `padding`, `dilation` and `groups`.
    ///
    /// With groups the weight is `[out, C / groups, kh, kw]`. An error where they do not divide `C`
    /// and `out`.
    ///
    /// ```
    /// use torsh_tensor::{Conv2dOptions, tensor};
    /// let (x, w) = (tensor![[[[1.0, 2.0], [3.0, 4.0]]]], tensor![[[[1.0, 1.0], [1.0, 1.0]]]]);
    /// let y = x.conv2d_with(&w, None, Conv2dOptions::new().padding(1))?;
    /// assert_eq!(y, tensor![[[[1.0, 3.0, 2.0], [4.0, 10.0, 6.0], [3.0, 7.0, 4.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    conv2d_with 2 CONV2D ConvOptions convolution;
    /// A convolution of volumes `[N, C, D, H, W]` with a weight `[out, C, kd, kh, kw]`, in steps of 1
    /// (`torch.nn.functional.conv3d`).
    ///
    /// Gives `[N, out, D - kd + 1, H - kh + 1, W - kw + 1]`; `N` may be missing, `bias` is `[out]` or
    /// `None`. An error for other shapes, for dtypes that differ, and where the window is larger than
    /// the volume.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// let x = tensor![[[[[1.0, 2.0], [3.0, 4.0]]]]];
    /// let w = tensor![[[[[1.0, 1.0], [1.0, 1.0]]]]];
    /// assert_eq!(x.conv3d(&w, None)?, tensor![[[[[10.0]]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    conv3d
    /// [`Tensor::conv3d`] with options: `stride`, `padding`, `dilation` and `groups`.
    ///
    /// With groups the weight is `[out, C / groups, kd, kh, kw]`. An error where they do not divide
    /// `C` and `out`.
    ///
    /// ```
    /// use torsh_tensor::{Conv3dOptions, tensor};
    /// let x = tensor![[[[[1.0, 2.0], [3.0, 4.0]]]]];
    /// let w = tensor![[[[[1.0, 1.0], [1.0, 1.0]]]]];
    /// let y = x.conv3d_with(&w, None, Conv3dOptions::new().padding((0, 0, 1)))?;
    /// assert_eq!(y, tensor![[[[[4.0, 10.0, 6.0]]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    conv3d_with 3 CONV3D ConvOptions convolution;
    /// A transposed convolution of signals `[N, C, L]` with a weight `[C, out, k]`, in steps of 1
    /// (`torch.nn.functional.conv_transpose1d`): each element adds its multiple of the weight.
    ///
    /// Gives `[N, out, L + k - 1]`; `N` may be missing, `bias` is `[out]` or `None`. An error for
    /// other shapes, and for dtypes that differ.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// let (x, w) = (tensor![[[1.0, 2.0]]], tensor![[[1.0, 10.0]]]);
    /// assert_eq!(x.conv_transpose1d(&w, None)?, tensor![[[1.0, 12.0, 20.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    conv_transpose1d
    /// [`Tensor::conv_transpose1d`] with options: `stride`, `padding`, `output_padding`, `groups` and
    /// `dilation`.
    ///
    /// An error where `output_padding` is not below the stride or the dilation, and where the groups
    /// do not divide `C`.
    ///
    /// ```
    /// use torsh_tensor::{ConvTranspose1dOptions, tensor};
    /// let (x, w) = (tensor![[[1.0, 2.0]]], tensor![[[1.0, 10.0]]]);
    /// let y = x.conv_transpose1d_with(&w, None, ConvTranspose1dOptions::new().stride(2))?;
    /// assert_eq!(y, tensor![[[1.0, 10.0, 2.0, 20.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    conv_transpose1d_with 1 CONV_TRANSPOSE1D ConvTransposeOptions convolution_transpose;
    /// A transposed convolution of images `[N, C, H, W]` with a weight `[C, out, kh, kw]`, in steps
    /// of 1 (`torch.nn.functional.conv_transpose2d`): each element adds its multiple of the weight.
    ///
    /// Gives `[N, out, H + kh - 1, W + kw - 1]`; `N` may be missing, `bias` is `[out]` or `None`. An
    /// error for other shapes, and for dtypes that differ.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// let (x, w) = (tensor![[[[1.0, 2.0]]]], tensor![[[[1.0, 10.0]]]]);
    /// assert_eq!(x.conv_transpose2d(&w, None)?, tensor![[[[1.0, 12.0, 20.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    conv_transpose2d
    /// [`Tensor::conv_transpose2d`] with options: `stride`, `padding`, `output_padding`, `groups` and
    /// `dilation`.
    ///
    /// An error where `output_padding` is not below the stride or the dilation, and where the groups
    /// do not divide `C`.
    ///
    /// ```
    /// use torsh_tensor::{ConvTranspose2dOptions, tensor};
    /// let (x, w) = (tensor![[[[1.0, 2.0]]]], tensor![[[[1.0, 10.0]]]]);
    /// let y = x.conv_transpose2d_with(&w, None, ConvTranspose2dOptions::new().stride((1, 2)))?;
    /// assert_eq!(y, tensor![[[[1.0, 10.0, 2.0, 20.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    conv_transpose2d_with 2 CONV_TRANSPOSE2D ConvTransposeOptions convolution_transpose;
    /// A transposed convolution of volumes `[N, C, D, H, W]` with a weight `[C, out, kd, kh, kw]`, in
    /// steps of 1 (`torch.nn.functional.conv_transpose3d`): each element adds its multiple of the
    /// weight.
    ///
    /// Gives `[N, out, D + kd - 1, H + kh - 1, W + kw - 1]`; `N` may be missing, `bias` is `[out]` or
    /// `None`. An error for other shapes, and for dtypes that differ.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// let (x, w) = (tensor![[[[[1.0, 2.0]]]]], tensor![[[[[1.0, 10.0]]]]]);
    /// assert_eq!(x.conv_transpose3d(&w, None)?, tensor![[[[[1.0, 12.0, 20.0]]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    conv_transpose3d
    /// [`Tensor::conv_transpose3d`] with options: `stride`, `padding`, `output_padding`, `groups` and
    /// `dilation`.
    ///
    /// An error where `output_padding` is not below the stride or the dilation, and where the groups
    /// do not divide `C`.
    ///
    /// ```
    /// use torsh_tensor::{ConvTranspose3dOptions, tensor};
    /// let (x, w) = (tensor![[[[[1.0, 2.0]]]]], tensor![[[[[1.0, 10.0]]]]]);
    /// let y = x.conv_transpose3d_with(&w, None, ConvTranspose3dOptions::new().stride((1, 1, 2)))?;
    /// assert_eq!(y, tensor![[[[[1.0, 10.0, 2.0, 20.0]]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    conv_transpose3d_with 3 CONV_TRANSPOSE3D ConvTransposeOptions convolution_transpose;
}
