//! Attributes of the operators of images: boxes, regions of interest and deformable convolutions.
//!
//! The kernels of these keys check all that they are called with.

use torsh_core::Ints;

torsh_core::attributes! {
    /// `VisionNms`: operands are boxes `[n, 4]` of corners, scores `[n]` and, where only boxes of one class compete, the
    /// classes `[n]` (int64). Results are indices `[n]` (int64), of which the first are those of the boxes that are
    /// kept, by falling score, and how many these are (int64).
    VisionNms {
        /// A box that overlaps a better one by more than this part of their union is dropped.
        threshold: f64,
    }

    /// `VisionRoiAlign` and `VisionPsRoiAlign` (averages of samples), `VisionRoiPool` and `VisionPsRoiPool` (the
    /// greatest element, and averages, of whole pixels), of the bins of regions. Operands are images `[n, c, h, w]` and
    /// regions `[k, 5]`: the image's number and two corners.
    ///
    /// `VisionRoiPool` has a second result, the place of each maximum in its plane (int64; -1 in empty bins).
    VisionRoi {
        /// What a region's coordinates are multiplied by.
        scale: f64,
        /// Rows of bins.
        height: usize,
        /// Columns of bins.
        width: usize,
        /// Samples along each side of a bin; where it is not positive, as many as the bin has pixels.
        ratio: i64,
        /// Whether the regions are moved by half a pixel.
        aligned: bool,
        /// The sizes of the images, which is what the transposes `VisionRoiAlignBackward`, `VisionRoiPoolBackward`,
        /// `VisionPsRoiAlignBackward` and `VisionPsRoiPoolBackward` give. Their operands are the gradient, the regions
        /// and, of `VisionRoiPoolBackward`, the places of the maxima.
        images: Ints,
    }

    /// `VisionDeformConv`: operands are images, the weight, the offsets, the mask and the bias, of which the last two
    /// may be absent. The operands of `VisionDeformConvBackward` are the gradient, images, weight, offsets and mask; its
    /// results are the gradients of images, weight, offsets and mask, as far as they are asked for.
    VisionDeformConv {
        /// Steps of the window.
        stride: Ints,
        /// Zeros on both sides of the image.
        padding: Ints,
        /// Steps between the window's elements.
        dilation: Ints,
        /// Groups of channels with weights of their own.
        groups: usize,
        /// Groups of channels with offsets of their own.
        offset_groups: usize,
        /// Which gradients are asked for; a bit each.
        wanted: usize,
    }
}
