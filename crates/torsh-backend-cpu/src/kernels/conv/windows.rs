//! Windows of images in the order in which the blocked product reads its right operand.
//!
//! Intrinsics: Pieces are joined by a bitwise or of masked loads, which is an instruction less than `Vector::load_part`.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;
use std::ops::Range;

use smallvec::SmallVec;

use super::columns::Geometry;
use super::element::ConvElement;
use crate::kernels::matmul::packed::Packable;
use crate::kernels::matmul::tile::Tiled;
use crate::multiversion;
#[cfg(target_arch = "x86_64")]
use crate::simd::Level;

/// Numbers whose convolutions are blocked products.
pub(super) trait Windowed: ConvElement + Packable + Tiled + num_traits::One {}
impl Windowed for f32 {}
impl Windowed for f64 {}

/// Adjacent pixels of a panel, whose tap is read `step` apart in a plane.
#[derive(Clone, Copy)]
pub(super) struct PixelRun {
    /// The first one's place in the panel, and how many there are.
    at: usize,
    len: usize,
    /// Where the first is read, from the plane's start.
    from: usize,
    step: usize,
}

/// Planes of an image: the first, and the step to the next.
pub(super) struct Planes<T> {
    ptr: *const T,
    step: usize,
}

/// Rows of a panel: the first, their width, and the step to the next.
pub(super) struct WindowRows<T> {
    ptr: *mut T,
    width: usize,
    step: usize,
}

multiversion! {
    /// Writes a tap of a panel's pixels, of `count` channels.
    ///
    /// # Safety
    /// The runs lie inside the planes and inside the rows, which have room for their width.
    unsafe fn put_taps<A, T: Windowed>(runs: &[PixelRun], from: Planes<T>, to: WindowRows<T>, count: usize) {
        // SAFETY: the caller's promise; numbers of 4 bytes are float32.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            if A::LEVEL >= Level::Avx2 && size_of::<T>() == 4 && runs.iter().all(|r| r.step == 1) {
                let (ptr, step) = (from.ptr.cast(), from.step);
                let to = WindowRows { ptr: to.ptr.cast(), width: to.width, step: to.step };
                return by_eights(runs, Planes { ptr, step }, to, count);
            }
            one_by_one(runs, from, to, count)
        }
    }
}

/// # Safety
/// As [`put_taps`].
#[inline(always)]
unsafe fn one_by_one<T: Copy + Default>(
    runs: &[PixelRun],
    from: Planes<T>,
    to: WindowRows<T>,
    count: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        for c in 0..count {
            let (from, to) = (from.ptr.add(c * from.step), to.ptr.add(c * to.step));
            let mut next = 0;
            for run in runs {
                (next..run.at).for_each(|i| *to.add(i) = T::default());
                let (from, to) = (from.add(run.from), to.add(run.at));
                match run.step {
                    1 => copy_short(run.len, from, to),
                    step => (0..run.len).for_each(|i| *to.add(i) = *from.add(i * step)),
                }
                next = run.at + run.len;
            }
        }
        let end = runs.last().map_or(0, |run| run.at + run.len);
        for c in 0..count {
            (end..to.width).for_each(|i| *to.ptr.add(c * to.step + i) = T::default());
        }
    }
}

/// Copies `n` adjacent elements, few as a rule; the last of several pieces overlaps the one before.
///
/// # Safety
/// Both are valid for so many, which are apart.
#[inline(always)]
unsafe fn copy_short<T: Copy>(n: usize, from: *const T, to: *mut T) {
    const EACH: usize = 8;
    // SAFETY: the caller's promise.
    unsafe {
        let piece = |at: usize| {
            let piece = from.add(at).cast::<[T; EACH]>().read_unaligned();
            to.add(at).cast::<[T; EACH]>().write_unaligned(piece);
        };
        match n.checked_sub(EACH) {
            Some(last) => {
                (0..last).step_by(EACH).for_each(piece);
                piece(last);
            }
            None => (0..n).for_each(|i| *to.add(i) = *from.add(i)),
        }
    }
}

/// A vector of a panel's row: the pixels `lanes` of it, read from `from` less the first lane.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
struct PixelLanes {
    lanes: (usize, usize),
    from: isize,
}

/// Ones in lanes `lo` to below `hi`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn mask(lo: usize, hi: usize) -> __m256i {
    static FROM: [i32; 16] = [0, 0, 0, 0, 0, 0, 0, 0, -1, -1, -1, -1, -1, -1, -1, -1];
    static TO: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
    // SAFETY: both are at most 8.
    unsafe {
        let from = _mm256_loadu_si256(FROM.as_ptr().add(8 - lo).cast());
        let to = _mm256_loadu_si256(TO.as_ptr().add(8 - hi).cast());
        _mm256_and_si256(from, to)
    }
}

/// [`put_taps`] of runs with step 1, for a width of whole vectors.
///
/// # Safety
/// As there; the processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn by_eights(runs: &[PixelRun], from: Planes<f32>, to: WindowRows<f32>, count: usize) {
    // SAFETY: the caller's promise: only lanes of runs are read.
    unsafe {
        let mut first = 0;
        while first < to.width {
            let mut pieces: SmallVec<[PixelLanes; 8]> = SmallVec::new();
            for run in runs {
                let (lo, hi) = (run.at.max(first), (run.at + run.len).min(first + 8));
                if lo < hi {
                    pieces.push(PixelLanes {
                        lanes: (lo - first, hi - first),
                        from: run.from as isize + first as isize - run.at as isize,
                    });
                }
            }
            let row = |c: usize| from.ptr.wrapping_add(c * from.step);
            let put = to.ptr.add(first);
            match pieces[..] {
                [] => {
                    for c in 0..count {
                        _mm256_storeu_ps(put.add(c * to.step), _mm256_setzero_ps());
                    }
                }
                [a] if a.lanes == (0, 8) => {
                    for c in 0..count {
                        let v = _mm256_loadu_ps(row(c).wrapping_offset(a.from));
                        _mm256_storeu_ps(put.add(c * to.step), v);
                    }
                }
                [a] => {
                    let ma = mask(a.lanes.0, a.lanes.1);
                    for c in 0..count {
                        let v = _mm256_maskload_ps(row(c).wrapping_offset(a.from), ma);
                        _mm256_storeu_ps(put.add(c * to.step), v);
                    }
                }
                [a, b] => {
                    let ma = mask(a.lanes.0, a.lanes.1);
                    let mb = mask(b.lanes.0, b.lanes.1);
                    for c in 0..count {
                        let v = _mm256_maskload_ps(row(c).wrapping_offset(a.from), ma);
                        let w = _mm256_maskload_ps(row(c).wrapping_offset(b.from), mb);
                        _mm256_storeu_ps(put.add(c * to.step), _mm256_or_ps(v, w));
                    }
                }
                _ => {
                    for c in 0..count {
                        let mut v = _mm256_setzero_ps();
                        for a in &pieces {
                            let ma = mask(a.lanes.0, a.lanes.1);
                            let w = _mm256_maskload_ps(row(c).wrapping_offset(a.from), ma);
                            v = _mm256_or_ps(v, w);
                        }
                        _mm256_storeu_ps(put.add(c * to.step), v);
                    }
                }
            }
            first += 8;
        }
    }
}

/// The images of one group.
pub(super) struct Windows<'a, T> {
    pub g: &'a Geometry,
    /// The group's first plane in the first image, and the step to the next image.
    pub image: *const T,
    pub step: usize,
}

// SAFETY: the images are only read.
unsafe impl<T: Sync> Sync for Windows<'_, T> {}

impl<T: Windowed> Windows<'_, T> {
    /// The runs of a tap over some pixels, counted through all images.
    fn runs(&self, tap: &super::columns::Tap, pixels: &Range<usize>) -> SmallVec<[PixelRun; 8]> {
        let (g, each) = (self.g, self.g.out_pixels());
        let step = g.stride[2];
        let xs = &tap.outputs[2];
        let mut runs = SmallVec::new();
        let mut at = 0;
        let mut first = pixels.start;
        while first < pixels.end {
            let image = first / each;
            let end = pixels.end.min((image + 1) * each);
            let inner = first - image * each..end - image * each;
            g.each_row(tap, &inner, |columns, inside| {
                let (from, to) = (columns.start, columns.end);
                let (lo, hi) = (xs.start.clamp(from, to), xs.end.clamp(from, to));
                if let Some(row) = inside
                    && lo < hi
                {
                    runs.push(PixelRun {
                        at: at + lo - from,
                        len: hi - lo,
                        from: image * self.step + row + tap.first[2] + (lo - xs.start) * step,
                        step,
                    });
                }
                at += to - from;
            });
            first = end;
        }
        runs
    }

    /// Writes a panel of the columns: terms are channels and taps, columns are pixels (see
    /// [`PanelFn`](crate::kernels::matmul::packed::PanelFn)).
    ///
    /// # Safety
    /// The images hold what the geometry says, and `to` has room for a panel.
    pub unsafe fn panel(
        &self,
        terms: Range<usize>,
        pixels: Range<usize>,
        to: *mut T,
        pitch: usize,
    ) {
        let (taps, plane) = (self.g.taps(), self.g.in_pixels());
        let mut index = 0;
        self.g.each_tap(|tap| {
            let first = terms.start.saturating_sub(index).div_ceil(taps);
            let end = terms.end.saturating_sub(index).div_ceil(taps);
            if first < end {
                let runs = self.runs(tap, &pixels);
                let row = first * taps + index - terms.start;
                // SAFETY: the channels' terms are some of the panel's.
                unsafe {
                    let from = Planes {
                        ptr: self.image.wrapping_add(first * plane),
                        step: plane,
                    };
                    let to = WindowRows {
                        ptr: to.add(row * pitch),
                        width: pitch,
                        step: taps * pitch,
                    };
                    put_taps(&runs, from, to, end - first);
                }
            }
            index += 1;
        });
    }

    /// Writes lines of the columns: a row of `to` for each channel and tap of `lines`, with the
    /// tap of each of the pixels.
    ///
    /// # Safety
    /// As [`Windows::panel`]; `to` has rows of `pitch`, at least as many as there are pixels.
    pub unsafe fn lines(
        &self,
        lines: Range<usize>,
        pixels: &Range<usize>,
        to: *mut T,
        pitch: usize,
    ) {
        let (taps, plane) = (self.g.taps(), self.g.in_pixels());
        let mut index = 0;
        self.g.each_tap(|tap| {
            let first = lines.start.saturating_sub(index).div_ceil(taps);
            let end = lines.end.saturating_sub(index).div_ceil(taps);
            if first < end {
                let runs = self.runs(tap, pixels);
                for c in first..end {
                    let row = c * taps + index - lines.start;
                    let from = Planes {
                        ptr: self.image.wrapping_add(c * plane),
                        step: 0,
                    };
                    // SAFETY: the caller's promise.
                    unsafe {
                        let to = WindowRows {
                            ptr: to.add(row * pitch),
                            width: pixels.len(),
                            step: 0,
                        };
                        one_by_one(&runs, from, to, 1);
                    }
                }
            }
            index += 1;
        });
    }
}
