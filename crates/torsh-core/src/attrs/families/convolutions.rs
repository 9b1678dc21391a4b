//! Attributes of convolutions, `im2col` and `col2im`.

use crate::Ints;

crate::attributes! {
    /// `Conv`, its transpose `ConvTranspose` and the gradient of its weight, `ConvWeight`. The lists
    /// but the last have a number for each spatial dimension.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::Conv {
    ///     stride: [2, 2].into(),
    ///     padding: [1, 1].into(),
    ///     dilation: [1, 1].into(),
    ///     groups: 1,
    ///     output_shape: [8, 16, 14, 14].into(),
    /// };
    /// assert_eq!(
    ///     attrs::display(&call).to_string(),
    ///     "stride=[2, 2], padding=[1, 1], dilation=[1, 1], groups=1, output_shape=[8, 16, 14, 14]"
    /// );
    /// ```
    Conv {
        /// Steps of the window.
        stride: Ints,
        /// Zeros before the image in each dimension. How many come behind it shows in the sizes of
        /// the operands.
        padding: Ints,
        /// Steps between the window's taps.
        dilation: Ints,
        /// Groups of channels that are convolved apart; at least 1.
        groups: usize,
        /// All sizes of the result.
        output_shape: Ints,
    }

    /// `ConvBatchNorm`: `Conv`, then `BatchNorm` by the running statistics.
    ConvBatchNorm {
        /// As in [`Conv`].
        stride: Ints,
        /// As in [`Conv`].
        padding: Ints,
        /// As in [`Conv`].
        dilation: Ints,
        /// As in [`Conv`].
        groups: usize,
        /// As in [`Conv`].
        output_shape: Ints,
        /// Added to the variance.
        eps: f64,
        /// The least value of a result, which lesser ones take.
        min: Option<f64>,
        /// The greatest value of a result, which greater ones take.
        max: Option<f64>,
    }

    /// `Im2Col`, the windows of images as columns, and its transpose `Col2Im`. The lists but the
    /// last are height and width.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::Im2Col {
    ///     kernel_size: [3, 3].into(), dilation: [1, 1].into(), padding: [0, 0].into(), stride: [1, 1].into(),
    ///     output_shape: [1, 9, 4].into(),
    /// };
    /// assert_eq!(
    ///     attrs::display(&call).to_string(),
    ///     "kernel_size=[3, 3], dilation=[1, 1], padding=[0, 0], stride=[1, 1], output_shape=[1, 9, 4]"
    /// );
    /// ```
    Im2Col {
        /// The window's size.
        kernel_size: Ints,
        /// Steps between the window's elements.
        dilation: Ints,
        /// Zeros on both sides of the image.
        padding: Ints,
        /// Steps of the window.
        stride: Ints,
        /// All sizes of the result.
        output_shape: Ints,
    }
}

impl ConvBatchNorm {
    /// Returns the attributes of the convolution.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let fused = attrs::ConvBatchNorm {
    ///     stride: [1].into(), padding: [0].into(), dilation: [1].into(), groups: 4,
    ///     output_shape: [2, 8, 5].into(), eps: 1e-5, min: Some(0.0), max: None,
    /// };
    /// assert_eq!(fused.convolution().groups, 4);
    /// ```
    pub fn convolution(&self) -> Conv {
        Conv {
            stride: self.stride.clone(),
            padding: self.padding.clone(),
            dilation: self.dilation.clone(),
            groups: self.groups,
            output_shape: self.output_shape.clone(),
        }
    }
}
