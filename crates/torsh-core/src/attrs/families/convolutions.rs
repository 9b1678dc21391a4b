//! Attributes of convolutions, `im2col` and `col2im`.

use crate::Ints;

crate::attributes! {
    /// `Conv`, its transpose `ConvTranspose` and the gradient of its weight, `ConvWeight`. The lists
    /// but the last have a number for each spatial dimension.
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

    /// `Im2Col`, the windows of images as columns, and its transpose `Col2Im`. The lists but the
    /// last are height and width.
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
