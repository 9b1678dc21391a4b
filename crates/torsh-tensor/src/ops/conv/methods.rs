//! Convolutions as methods.

use super::*;

macro_rules! methods {
    ($($(#[doc = $doc:literal])+ $name:ident $with:ident $with_test:literal $n:literal $record:ident $options:ident $call:ident;)*) => {
        impl Tensor {$(
            $(#[doc = $doc])+
            #[track_caller]
            pub fn $name(&self, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
                self.$call::<$n>(&$record, weight, bias, $options::default())
            }

            #[doc = concat!("[`Tensor::", stringify!($name), "`] with its other arguments.")]
            #[doc = crate::options::example!($with_test)]
            #[track_caller]
            pub fn $with(&self, weight: &Tensor, bias: Option<&Tensor>, options: $options<$n>) -> Result<Tensor> {
                self.$call(&$record, weight, bias, options)
            }
        )*}
    };
}
methods! {
    /// Convolution of signals `[n, c, l]` (or one of `[c, l]`) with a weight of `[o, c, k]` and a
    /// bias of `[o]`, with a stride of 1 and no padding (`torch.nn.functional.conv1d`).
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// let (x, w) = (tensor![[[1.0, 2.0, 3.0, 4.0]]], tensor![[[1.0, -1.0]]]);
    /// assert_eq!(x.conv1d(&w, None)?, tensor![[[-1.0, -1.0, -1.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    conv1d
        conv1d_with "use torsh_tensor::{Conv1dOptions, tensor};\n\
            let (x, w) = (tensor![[[1.0, 2.0, 3.0, 4.0]]], tensor![[[1.0, -1.0]]]);\n\
            let y = x.conv1d_with(&w, None, Conv1dOptions::new().stride(2))?;\n\
            assert_eq!(y, tensor![[[-1.0, -1.0]]]);" 1 CONV1D ConvOptions convolution;
    /// Convolution of images `[n, c, h, w]` (or one of `[c, h, w]`) with a weight of
    /// `[o, c, kh, kw]` and a bias of `[o]`, with a stride of 1 and no padding
    /// (`torch.nn.functional.conv2d`).
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// let (x, w) = (tensor![[[[1.0, 2.0], [3.0, 4.0]]]], tensor![[[[1.0, 1.0], [1.0, 1.0]]]]);
    /// assert_eq!(x.conv2d(&w, Some(&tensor![0.5]))?, tensor![[[[10.5]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    conv2d
        conv2d_with "use torsh_tensor::{Conv2dOptions, tensor};\n\
            let (x, w) = (tensor![[[[1.0, 2.0], [3.0, 4.0]]]], tensor![[[[1.0, 1.0], [1.0, 1.0]]]]);\n\
            let y = x.conv2d_with(&w, None, Conv2dOptions::new().padding(1))?;\n\
            assert_eq!(y, tensor![[[[1.0, 3.0, 2.0], [4.0, 10.0, 6.0], [3.0, 7.0, 4.0]]]]);" 2 CONV2D ConvOptions convolution;
    /// Convolution of volumes `[n, c, d, h, w]` (or one of `[c, d, h, w]`) with a weight of
    /// `[o, c, kd, kh, kw]` and a bias of `[o]`, with a stride of 1 and no padding
    /// (`torch.nn.functional.conv3d`).
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// let x = tensor![[[[[1.0, 2.0], [3.0, 4.0]]]]];
    /// let w = tensor![[[[[1.0, 1.0], [1.0, 1.0]]]]];
    /// assert_eq!(x.conv3d(&w, None)?, tensor![[[[[10.0]]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    conv3d
        conv3d_with "use torsh_tensor::{Conv3dOptions, tensor};\n\
            let x = tensor![[[[[1.0, 2.0], [3.0, 4.0]]]]];\n\
            let w = tensor![[[[[1.0, 1.0], [1.0, 1.0]]]]];\n\
            let y = x.conv3d_with(&w, None, Conv3dOptions::new().padding((0, 0, 1)))?;\n\
            assert_eq!(y, tensor![[[[[4.0, 10.0, 6.0]]]]]);" 3 CONV3D ConvOptions convolution;
    /// Transposed convolution of signals `[n, c, l]` (or one of `[c, l]`) with a weight of
    /// `[c, o, k]` and a bias of `[o]` (`torch.nn.functional.conv_transpose1d`).
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// let (x, w) = (tensor![[[1.0, 2.0]]], tensor![[[1.0, 10.0]]]);
    /// assert_eq!(x.conv_transpose1d(&w, None)?, tensor![[[1.0, 12.0, 20.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    conv_transpose1d
        conv_transpose1d_with "use torsh_tensor::{ConvTranspose1dOptions, tensor};\n\
            let (x, w) = (tensor![[[1.0, 2.0]]], tensor![[[1.0, 10.0]]]);\n\
            let y = x.conv_transpose1d_with(&w, None, ConvTranspose1dOptions::new().stride(2))?;\n\
            assert_eq!(y, tensor![[[1.0, 10.0, 2.0, 20.0]]]);" 1 CONV_TRANSPOSE1D ConvTransposeOptions convolution_transpose;
    /// Transposed convolution of images `[n, c, h, w]` (or one of `[c, h, w]`) with a weight of
    /// `[c, o, kh, kw]` and a bias of `[o]` (`torch.nn.functional.conv_transpose2d`).
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// let (x, w) = (tensor![[[[1.0, 2.0]]]], tensor![[[[1.0, 10.0]]]]);
    /// assert_eq!(x.conv_transpose2d(&w, None)?, tensor![[[[1.0, 12.0, 20.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    conv_transpose2d
        conv_transpose2d_with "use torsh_tensor::{ConvTranspose2dOptions, tensor};\n\
            let (x, w) = (tensor![[[[1.0, 2.0]]]], tensor![[[[1.0, 10.0]]]]);\n\
            let y = x.conv_transpose2d_with(&w, None, ConvTranspose2dOptions::new().stride((1, 2)))?;\n\
            assert_eq!(y, tensor![[[[1.0, 10.0, 2.0, 20.0]]]]);" 2 CONV_TRANSPOSE2D ConvTransposeOptions convolution_transpose;
    /// Transposed convolution of volumes `[n, c, d, h, w]` (or one of `[c, d, h, w]`) with a
    /// weight of `[c, o, kd, kh, kw]` and a bias of `[o]`
    /// (`torch.nn.functional.conv_transpose3d`).
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// let (x, w) = (tensor![[[[[1.0, 2.0]]]]], tensor![[[[[1.0, 10.0]]]]]);
    /// assert_eq!(x.conv_transpose3d(&w, None)?, tensor![[[[[1.0, 12.0, 20.0]]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    conv_transpose3d
        conv_transpose3d_with "use torsh_tensor::{ConvTranspose3dOptions, tensor};\n\
            let (x, w) = (tensor![[[[[1.0, 2.0]]]]], tensor![[[[[1.0, 10.0]]]]]);\n\
            let y = x.conv_transpose3d_with(&w, None, ConvTranspose3dOptions::new().stride((1, 1, 2)))?;\n\
            assert_eq!(y, tensor![[[[[1.0, 10.0, 2.0, 20.0]]]]]);" 3 CONV_TRANSPOSE3D ConvTransposeOptions convolution_transpose;
}
