//! The geometry of a convolution, and windows of an image as columns of a matrix.

use std::ops::Range;

use super::element::{ConvElement, ConvKind, add, clear};

/// Sizes of a convolution in up to three dimensions: `[depth, height, width]`, the leading ones 1
/// where there are fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Geometry {
    pub images: usize,
    pub groups: usize,
    /// Channels of one group.
    pub in_channels: usize,
    pub out_channels: usize,
    pub input: [usize; 3],
    pub output: [usize; 3],
    pub kernel: [usize; 3],
    pub stride: [usize; 3],
    /// What is before the image; what is behind follows from the output.
    pub padding: [usize; 3],
    pub dilation: [usize; 3],
}

impl Geometry {
    /// The channels of a group that a result sums over, and those of its results.
    pub fn channels(&self, kind: ConvKind) -> (usize, usize) {
        match kind {
            ConvKind::Transposed => (self.out_channels, self.in_channels),
            _ => (self.in_channels, self.out_channels),
        }
    }
    /// Weights of one pair of channels.
    pub fn taps(&self) -> usize {
        self.kernel.iter().product()
    }
    /// Weights of one output channel.
    pub fn window(&self) -> usize {
        self.in_channels * self.taps()
    }
    pub fn in_pixels(&self) -> usize {
        self.input.iter().product()
    }
    pub fn out_pixels(&self) -> usize {
        self.output.iter().product()
    }
    /// Whether the columns are the image itself.
    pub fn is_pointwise(&self) -> bool {
        self.kernel == [1; 3]
            && self.stride == [1; 3]
            && self.padding == [0; 3]
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

    /// Calls `f` for each tap, in the order of the weights.
    #[inline(always)]
    pub fn each_tap(&self, mut f: impl FnMut(&Tap)) {
        let [kd, kh, kw] = self.kernel;
        for kz in 0..kd {
            let (zs, iz) = self.inside(0, kz);
            for ky in 0..kh {
                let (ys, iy) = self.inside(1, ky);
                for kx in 0..kw {
                    let (xs, ix) = self.inside(2, kx);
                    f(&Tap {
                        outputs: [zs.clone(), ys.clone(), xs],
                        first: [iz, iy, ix],
                    });
                }
            }
        }
    }

    /// Calls `f(columns, row inside)` for each row of the output that has some of the
    /// pixels: which of its columns these are, and the offset of the input's row that the tap
    /// reads, where it lies inside the image.
    #[inline(always)]
    pub fn each_row(
        &self,
        tap: &Tap,
        pixels: &Range<usize>,
        mut f: impl FnMut(Range<usize>, Option<usize>),
    ) {
        let [_, height, width] = self.output;
        let [zs, ys, _] = &tap.outputs;
        let first = pixels.start / width;
        let (mut z, mut y) = (first / height, first % height);
        let mut start = first * width;
        while start < pixels.end {
            let columns = pixels.start.saturating_sub(start)..(pixels.end - start).min(width);
            let inside = ys.contains(&y) && zs.contains(&z);
            f(columns, inside.then(|| self.row(tap, z, y)));
            start += width;
            y += 1;
            if y == height {
                (z, y) = (z + 1, 0);
            }
        }
    }

    /// Calls `f` for each channel, tap and row of the output that has some of the pixels: where these are in
    /// columns whose rows are `pitch` apart, their number, those of them whose tap lies inside the image, and
    /// where the first of them reads.
    #[inline(always)]
    fn each_run(
        &self,
        channels: usize,
        pixels: &Range<usize>,
        pitch: usize,
        mut f: impl FnMut(usize, usize, Range<usize>, usize),
    ) {
        let mut row = 0;
        for c in 0..channels {
            self.each_tap(|tap| {
                let xs = &tap.outputs[2];
                let mut at = row;
                self.each_row(tap, pixels, |columns, inside| {
                    let (from, to) = (columns.start, columns.end);
                    let (lo, hi) = (xs.start.clamp(from, to), xs.end.clamp(from, to));
                    match inside {
                        Some(line) if lo < hi => {
                            let column = tap.first[2] + (lo - xs.start) * self.stride[2];
                            let read = c * self.in_pixels() + line + column;
                            f(at, to - from, lo - from..hi - from, read);
                        }
                        _ => f(at, to - from, 0..0, 0),
                    }
                    at += to - from;
                });
                row += pitch;
            });
        }
    }

    /// The offset of the input's row that a tap reads for row `(z, y)` of the output.
    #[inline(always)]
    pub fn row(&self, tap: &Tap, z: usize, y: usize) -> usize {
        let iz = tap.first[0] + (z - tap.outputs[0].start) * self.stride[0];
        let iy = tap.first[1] + (y - tap.outputs[1].start) * self.stride[1];
        (iz * self.input[1] + iy) * self.input[2]
    }
}

/// Where one tap lies inside the image.
pub(crate) struct Tap {
    /// The output positions, by dimension.
    pub outputs: [Range<usize>; 3],
    /// The input positions of the first of them.
    pub first: [usize; 3],
}

/// Writes the windows of the output pixels `pixels` as columns: row `(c, kz, ky, kx)` of `col`
/// (rows `pitch` apart) holds that tap of each pixel, 0 outside the image.
///
/// # Safety
/// `image` must hold `channels` planes, and `col` as many rows of taps.
pub(super) unsafe fn to_columns<T: Copy + Default>(
    g: &Geometry,
    image: *const T,
    channels: usize,
    pixels: Range<usize>,
    col: *mut T,
    pitch: usize,
) {
    let step = g.stride[2];
    // SAFETY: the pixels inside lie inside the image, and the row of `col` has room for every pixel.
    g.each_run(channels, &pixels, pitch, |at, n, inside, read| unsafe {
        let (src, dst) = (image.add(read), col.add(at));
        clear(dst, inside.start);
        let inner = dst.add(inside.start);
        if step == 1 {
            std::ptr::copy_nonoverlapping(src, inner, inside.len());
        } else {
            for i in 0..inside.len() {
                *inner.add(i) = *src.add(i * step);
            }
        }
        clear(dst.add(inside.end), n - inside.end);
    });
}

/// The transpose of [`to_columns`]: adds the columns of some pixels to the planes.
///
/// # Safety
/// As [`to_columns`].
pub(super) unsafe fn from_columns<T: ConvElement>(
    g: &Geometry,
    col: *const T,
    channels: usize,
    pixels: Range<usize>,
    image: *mut T,
    pitch: usize,
) {
    let step = g.stride[2];
    // SAFETY: as in `to_columns`.
    g.each_run(channels, &pixels, pitch, |at, _, inside, read| unsafe {
        if !inside.is_empty() {
            add(
                inside.len(),
                col.add(at + inside.start),
                image.add(read),
                step,
            );
        }
    });
}
