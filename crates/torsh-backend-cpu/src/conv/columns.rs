//! The geometry of a convolution, and windows of an image as columns of a matrix.

use std::ops::Range;

use super::number::{ConvNumber, clear};

/// Sizes of a convolution in two dimensions; `[height, width]` where there are two.
#[derive(Clone, Copy, Debug)]
pub(super) struct Geometry {
    pub images: usize,
    pub groups: usize,
    /// Channels of one group.
    pub in_channels: usize,
    pub out_channels: usize,
    pub input: [usize; 2],
    pub output: [usize; 2],
    pub kernel: [usize; 2],
    pub stride: [usize; 2],
    /// Rows above and columns left of the image; what is below and right follows from the output.
    pub padding: [usize; 2],
    pub dilation: [usize; 2],
}

impl Geometry {
    /// Weights of one output channel.
    pub fn window(&self) -> usize {
        self.in_channels * self.kernel[0] * self.kernel[1]
    }
    pub fn in_pixels(&self) -> usize {
        self.input[0] * self.input[1]
    }
    pub fn out_pixels(&self) -> usize {
        self.output[0] * self.output[1]
    }
    /// Whether the columns are the image itself.
    pub fn is_pointwise(&self) -> bool {
        self.kernel == [1, 1]
            && self.stride == [1, 1]
            && self.padding == [0, 0]
            && self.input == self.output
    }
    /// Multiply-adds of the whole.
    pub fn work(&self) -> usize {
        let each = self.window() * self.out_channels * self.groups;
        self.images
            .saturating_mul(each)
            .saturating_mul(self.out_pixels())
    }

    /// The output positions along `axis` whose tap `tap` lies inside the image, and the input
    /// position of the first of them.
    #[inline]
    pub fn inside(&self, axis: usize, tap: usize) -> (Range<usize>, usize) {
        let (stride, padding) = (self.stride[axis], self.padding[axis]);
        let shift = tap * self.dilation[axis];
        let first = padding.saturating_sub(shift).div_ceil(stride);
        // One past the last: the smallest position whose tap is at or beyond the image's end.
        let end = (self.input[axis] + padding)
            .saturating_sub(shift)
            .div_ceil(stride);
        let end = end.min(self.output[axis]);
        let first = first.min(end);
        (first..end, (first * stride + shift).saturating_sub(padding))
    }
}

/// Writes the windows of the output pixels `pixels` as columns: row `(c, ky, kx)` of `col` (rows
/// `pitch` apart) holds that tap of each pixel, 0 outside the image.
///
/// # Safety
/// `image` must hold `channels` planes, and `col` as many rows of taps.
pub(super) unsafe fn to_columns<T: ConvNumber>(
    g: &Geometry,
    image: *const T,
    channels: usize,
    pixels: Range<usize>,
    col: *mut T,
    pitch: usize,
) {
    let [kh, kw] = g.kernel;
    let width = g.output[1];
    let (y0, y1) = (pixels.start / width, (pixels.end - 1) / width + 1);
    let mut row = col;
    for c in 0..channels {
        for ky in 0..kh {
            let (ys, _) = g.inside(0, ky);
            for kx in 0..kw {
                let (xs, ix) = g.inside(1, kx);
                let mut dst = row;
                for y in y0..y1 {
                    let from = if y == y0 { pixels.start - y * width } else { 0 };
                    let to = (pixels.end - y * width).min(width);
                    let (lo, hi) = (xs.start.clamp(from, to), xs.end.clamp(from, to));
                    // SAFETY: columns `lo..hi` of this tap lie inside the image, and the row of
                    // `col` has room for every pixel.
                    unsafe {
                        if !ys.contains(&y) || lo >= hi {
                            clear(dst, to - from);
                        } else {
                            let iy = y * g.stride[0] + ky * g.dilation[0] - g.padding[0];
                            let at = (c * g.input[0] + iy) * g.input[1];
                            let step = g.stride[1];
                            let src = image.add(at + ix + (lo - xs.start) * step);
                            clear(dst, lo - from);
                            let inner = dst.add(lo - from);
                            if step == 1 {
                                std::ptr::copy_nonoverlapping(src, inner, hi - lo);
                            } else {
                                for i in 0..hi - lo {
                                    *inner.add(i) = *src.add(i * step);
                                }
                            }
                            clear(dst.add(hi - from), to - hi);
                        }
                        dst = dst.add(to - from);
                    }
                }
                row = row.wrapping_add(pitch);
            }
        }
    }
}

/// The transpose of [`to_columns`] over all pixels: sums the columns into the planes.
///
/// # Safety
/// As [`to_columns`]; the planes are written whole.
pub(super) unsafe fn from_columns<T: ConvNumber>(
    g: &Geometry,
    col: *const T,
    channels: usize,
    image: *mut T,
) {
    let [kh, kw] = g.kernel;
    let width = g.output[1];
    // SAFETY: every tap of `inside` lies inside the image.
    unsafe {
        clear(image, channels * g.in_pixels());
        let mut row = col;
        for c in 0..channels {
            for ky in 0..kh {
                let (ys, mut iy) = g.inside(0, ky);
                let first = iy;
                for kx in 0..kw {
                    let (xs, ix) = g.inside(1, kx);
                    iy = first;
                    for y in ys.clone() {
                        let dst = image.add((c * g.input[0] + iy) * g.input[1] + ix);
                        T::add(xs.len(), row.add(y * width + xs.start), dst, g.stride[1]);
                        iy += g.stride[0];
                    }
                    row = row.add(g.out_pixels());
                }
            }
        }
    }
}
