//! Pooling of regions of interest.
//!
//! A bilinear sample weighs two rows and two columns, and the samples of a bin are a grid. So the average of a bin is a sum
//! over rows and columns whose weights are products of a row's and a column's. The weights of a region's rows and columns
//! are computed once for all channels. A channel's rows are summed with a row of bins' weights first, in vectors, and what
//! comes of it is summed with the columns' weights.

use std::marker::PhantomData;
use std::ops::Range;

use torsh_backend_cpu::operations::pick;
use torsh_core::kernel::HostCall;
use torsh_core::{Result, TorshError};

use super::choose::{AlignAlgorithm, AlignProblem};
use super::tuning::{ROI_BINS, ROI_COLUMNS};
use super::{Real, Work, mismatch, shares, sizes, widest};
use crate::ops::attrs;

/// Bins with more samples along a side are refused: boxes that large are a mistake.
const MOST_SAMPLES: f64 = 1e6;

/// The call of a kernel.
struct Problem {
    n: usize,
    c: usize,
    h: usize,
    w: usize,
    rois: usize,
    height: usize,
    width: usize,
    scale: f64,
    ratio: i64,
    aligned: bool,
}

impl Problem {
    /// The call, where regions and attributes are as they must be.
    fn of(call: &HostCall<'_>) -> Result<Problem> {
        let a = call.attrs::<attrs::VisionRoi>()?;
        let [rois, five] = sizes::<2>(call, 1)?;
        let image: Vec<usize> = a
            .images
            .iter()
            .filter_map(|&n| usize::try_from(n).ok())
            .collect();
        let (&[n, c, h, w], 5) = (&image[..], five) else {
            return Err(mismatch());
        };
        if a.height == 0 || a.width == 0 {
            return Err(mismatch());
        }
        Ok(Problem {
            n,
            c,
            h,
            w,
            rois,
            height: a.height,
            width: a.width,
            scale: a.scale,
            ratio: a.ratio,
            aligned: a.aligned,
        })
    }

    /// As [`Problem::of`], of a call that reads images.
    fn forward(call: &HostCall<'_>, channels: usize) -> Result<Problem> {
        let p = Problem::of(call)?;
        match sizes::<4>(call, 0)? == [p.n, p.c, p.h, p.w]
            && call.output_shape(0)? == p.pooled(channels)
        {
            true => Ok(p),
            false => Err(mismatch()),
        }
    }

    /// As [`Problem::of`], of a call that gives images.
    fn backward(call: &HostCall<'_>, channels: usize) -> Result<Problem> {
        let p = Problem::of(call)?;
        match sizes::<4>(call, 0)? == p.pooled(channels)
            && call.output_shape(0)? == [p.n, p.c, p.h, p.w]
        {
            true => Ok(p),
            false => Err(mismatch()),
        }
    }

    fn pooled(&self, channels: usize) -> [usize; 4] {
        [self.rois, channels, self.height, self.width]
    }

    fn bins(&self) -> usize {
        self.height * self.width
    }

    /// The image of each region.
    fn images<T: Real>(&self, rois: &[T]) -> Result<Vec<usize>> {
        let one = |(i, roi): (usize, &[T])| {
            if let Some(v) = roi.iter().find(|v| !v.is_finite()) {
                let text = format!("box {i} has the coordinate {}", v.wide());
                return Err(TorshError::invalid("", text).with_hint("boxes must be finite"));
            }
            let at = roi[0].wide();
            match at >= 0.0 && at < self.n as f64 {
                true => Ok(at as usize),
                false => Err(TorshError::invalid(
                    "",
                    format!("box {i} is of image {at}, and there are {}", self.n),
                )
                .with_hint("the first column of boxes is the number of an image, from 0")),
            }
        };
        rois.chunks_exact(5).enumerate().map(one).collect()
    }
}

/// The channels of the results of position-sensitive kernels.
fn spread(call: &HostCall<'_>) -> Result<usize> {
    let a = call.attrs::<attrs::VisionRoi>()?;
    let bins = a.height.saturating_mul(a.width) as i64;
    match a.images.get(1) {
        Some(&c) if c >= 0 && bins > 0 && c % bins == 0 => Ok((c / bins) as usize),
        _ => Err(mismatch()),
    }
}

/// The regions of each image.
fn by_image(images: &[usize], n: usize) -> Vec<Vec<usize>> {
    let mut lists = vec![Vec::new(); n];
    for (i, &image) in images.iter().enumerate() {
        lists[image].push(i);
    }
    lists
}

/// The weights of rows, or columns, in the bins of a region along one side.
struct Axis<T> {
    /// Of each bin the first row, and where its weights begin.
    bins: Vec<(usize, usize)>,
    weights: Vec<T>,
    /// The rows of all bins.
    span: Range<usize>,
}

impl<T: Real> Axis<T> {
    fn weights(&self, bin: usize) -> (usize, &[T]) {
        let (first, at) = self.bins[bin];
        let end = self.bins.get(bin + 1).map_or(self.weights.len(), |b| b.1);
        (first, &self.weights[at..end])
    }

    /// The weights of `bins` bins from `start` on, each of `size`, with `grid` samples.
    fn new(start: T, size: T, (bins, grid): (usize, usize), length: usize) -> Axis<T> {
        let half = T::of(0.5);
        let mut axis = Axis {
            bins: Vec::with_capacity(bins),
            weights: Vec::new(),
            span: 0..0,
        };
        // Two rows of a sample, and the weight of the second; none outside of the image.
        let sample = |bin: usize, i: usize| {
            let at = start + T::whole(bin) * size + (T::whole(i) + half) * size / T::whole(grid);
            if !(at >= -T::one() && at <= T::whole(length)) || length == 0 {
                return None;
            }
            let at = at.max(T::zero());
            let low = at.to_usize().unwrap_or(0);
            match low >= length - 1 {
                true => Some((length - 1, length - 1, T::zero())),
                false => Some((low, low + 1, at - T::whole(low))),
            }
        };
        for bin in 0..bins {
            let (mut from, mut to) = (usize::MAX, 0);
            for (low, high, _) in (0..grid).filter_map(|i| sample(bin, i)) {
                (from, to) = (from.min(low), to.max(high + 1));
            }
            let at = axis.weights.len();
            if from >= to {
                axis.bins.push((0, at));
                continue;
            }
            axis.bins.push((from, at));
            axis.weights.resize(at + to - from, T::zero());
            for (low, high, second) in (0..grid).filter_map(|i| sample(bin, i)) {
                axis.weights[at + low - from] += T::one() - second;
                axis.weights[at + high - from] += second;
            }
            axis.span = match axis.span.is_empty() {
                true => from..to,
                false => axis.span.start.min(from)..axis.span.end.max(to),
            };
        }
        axis
    }
}

/// A region: its image, the weights of its rows and columns, and what the sums of a bin are divided by.
struct Region<T> {
    image: usize,
    rows: Axis<T>,
    columns: Axis<T>,
    count: T,
}

/// The regions of a call. Position-sensitive ones are of whatever size their boxes are, and bins without samples are
/// divided by 0.
fn regions<T: Real>(p: &Problem, rois: &[T], sensitive: bool) -> Result<Vec<Region<T>>> {
    let images = p.images(rois)?;
    let scale = T::of(p.scale);
    let offset = T::of(if p.aligned { 0.5 } else { 0.0 });
    let one = |(i, (&image, roi)): (usize, (&usize, &[T]))| {
        let edge = |k: usize| roi[k] * scale - offset;
        let side = |k: usize, bins: usize| {
            let (start, mut size) = (edge(k), edge(k + 2) - edge(k));
            if !p.aligned {
                size = size.max(T::one());
            }
            let size = size / T::whole(bins);
            let grid = match p.ratio > 0 {
                true => p.ratio as f64,
                false => size.ceil().wide(),
            };
            match grid <= MOST_SAMPLES {
                true => Ok((start, size, grid)),
                false => Err(TorshError::invalid(
                    "",
                    format!("the bins of box {i} have {grid} samples along a side, of which {MOST_SAMPLES} are the most"),
                )
                .with_hint("check the box and spatial_scale, or give a sampling_ratio")),
            }
        };
        let (y, bin_h, grid_h) = side(2, p.height)?;
        let (x, bin_w, grid_w) = side(1, p.width)?;
        let count = T::of(grid_h * grid_w);
        Ok(Region {
            image,
            rows: Axis::new(y, bin_h, (p.height, grid_h as usize), p.h),
            columns: Axis::new(x, bin_w, (p.width, grid_w as usize), p.w),
            count: if sensitive {
                count
            } else {
                count.max(T::one())
            },
        })
    };
    images
        .iter()
        .zip(rois.chunks_exact(5))
        .enumerate()
        .map(one)
        .collect()
}

/// What a channel of a region takes, in nanoseconds, roughly.
fn plane_ns(p: &Problem) -> usize {
    20 + 4 * p.bins()
}

/// Adds `by` times a line.
#[inline(always)]
fn add_line<T: Real>(to: &mut [T], from: &[T], by: T) {
    for (to, &v) in to.iter_mut().zip(from) {
        *to += by * v;
    }
}

/// The bins of several channels of one region.
struct Align<'a, T> {
    region: &'a Region<T>,
    /// Planes of `h` rows of `w`.
    planes: &'a [T],
    size: (usize, usize),
    line: &'a mut [T],
    out: &'a mut [T],
}

impl<T: Real> Work for Align<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Region { columns, .. } = self.region;
        let (span, w) = (columns.span.len(), self.size.1);
        let problem = AlignProblem {
            bins: columns.bins.len(),
            span,
            width: w,
        };
        match pick(&problem, 1) {
            AlignAlgorithm::ShortVectors => self.vectors::<{ ROI_COLUMNS[0] }>(),
            AlignAlgorithm::LongVectors => self.vectors::<{ ROI_COLUMNS[1] }>(),
            AlignAlgorithm::Lines => self.lines(),
        }
    }
}

impl<T: Real> Align<'_, T> {
    /// The sums of a region of any size.
    #[inline(always)]
    fn lines(self) {
        let (h, w) = self.size;
        let Region { rows, columns, .. } = self.region;
        let (bins, span) = (columns.bins.len(), columns.span.clone());
        let line = &mut self.line[..span.len()];
        let per = rows.bins.len() * bins;
        for (plane, out) in self
            .planes
            .chunks_exact(h * w)
            .zip(self.out.chunks_exact_mut(per))
        {
            for (bin, out) in out.chunks_exact_mut(bins).enumerate() {
                let (first, weights) = rows.weights(bin);
                line.fill(T::zero());
                for (row, &weight) in (first..).zip(weights) {
                    add_line(line, &plane[row * w..][span.clone()], weight);
                }
                self.region.along(line, span.start, out);
            }
        }
    }

    /// The sums of a region of at most `W` columns, by the dense matrix of the columns' weights: vectors of `W` columns,
    /// then of [`ROI_BINS`] bins.
    #[inline(always)]
    fn vectors<const W: usize>(self) {
        let (h, w) = self.size;
        let Region {
            rows,
            columns,
            count,
            ..
        } = self.region;
        let bins = columns.bins.len();
        let start = columns.span.start.min(w - W);
        let mut dense = [[T::zero(); ROI_BINS]; W];
        for bin in 0..bins {
            let (first, weights) = columns.weights(bin);
            for (column, &weight) in (first..).zip(weights) {
                dense[column - start][bin] = weight;
            }
        }
        let per = rows.bins.len() * bins;
        for (plane, out) in self
            .planes
            .chunks_exact(h * w)
            .zip(self.out.chunks_exact_mut(per))
        {
            for (bin, out) in out.chunks_exact_mut(bins).enumerate() {
                let (first, weights) = rows.weights(bin);
                let mut line = [T::zero(); W];
                for (row, &weight) in (first..).zip(weights) {
                    if let Some(from) = plane[row * w + start..].first_chunk::<W>() {
                        for (to, &v) in line.iter_mut().zip(from) {
                            *to += weight * v;
                        }
                    }
                }
                let mut sums = [T::zero(); ROI_BINS];
                for (&v, weights) in line.iter().zip(&dense) {
                    for (sum, &weight) in sums.iter_mut().zip(weights) {
                        *sum += weight * v;
                    }
                }
                // A weight of 0 times what is not finite is not 0: columns that the bin does not have would count.
                match sums.iter().any(|sum| sum.is_nan()) {
                    true => self.region.along(&line, start, out),
                    false => {
                        for (out, sum) in out.iter_mut().zip(sums) {
                            *out = sum / *count;
                        }
                    }
                }
            }
        }
    }
}

impl<T: Real> Region<T> {
    /// The bins of a line whose first number is of the column `start`.
    #[inline(always)]
    fn along(&self, line: &[T], start: usize, out: &mut [T]) {
        for (bin, out) in out.iter_mut().enumerate() {
            let (first, weights) = self.columns.weights(bin);
            let mut sum = T::zero();
            if !weights.is_empty() {
                let line = &line[first - start..][..weights.len()];
                for (&v, &weight) in line.iter().zip(weights) {
                    sum += weight * v;
                }
            }
            *out = sum / self.count;
        }
    }
}

pub(super) fn align<T: Real>(call: &mut HostCall<'_>, _: PhantomData<T>) -> Result<()> {
    let channels = sizes::<4>(call, 0)?[1];
    let p = Problem::forward(call, channels)?;
    let (x, rois) = (call.input::<T>(0)?, call.input::<T>(1)?);
    let regions = regions(&p, &rois, false)?;
    let out = call.output::<T>(0)?;
    let (bins, plane) = (p.bins(), p.h * p.w);
    if plane == 0 {
        return Ok(());
    }
    // The items are planes of the result; those of a region are done together.
    shares(out, bins, plane_ns(&p), |items, out| {
        let mut line = vec![T::zero(); p.w];
        let (mut at, mut rest) = (items.start, out);
        while at < items.end {
            let (roi, channel) = (at / p.c, at % p.c);
            let n = (p.c - channel).min(items.end - at);
            let (own, tail) = std::mem::take(&mut rest).split_at_mut(n * bins);
            let region = &regions[roi];
            let first = (region.image * p.c + channel) * plane;
            widest(Align {
                region,
                planes: &x[first..first + n * plane],
                size: (p.h, p.w),
                line: &mut line,
                out: own,
            });
            (at, rest) = (at + n, tail);
        }
        Ok(())
    })
}

/// The gradient of one plane from those of the bins of one region.
struct AlignBackward<'a, T> {
    region: &'a Region<T>,
    grad: &'a [T],
    line: &'a mut [T],
    plane: &'a mut [T],
    w: usize,
}

impl<T: Real> Work for AlignBackward<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Region {
            rows,
            columns,
            count,
            ..
        } = self.region;
        let (bins, span) = (columns.bins.len(), columns.span.clone());
        let line = &mut self.line[..span.len()];
        for (bin, grad) in self.grad.chunks_exact(bins).enumerate() {
            let (first_row, row_weights) = rows.weights(bin);
            if row_weights.is_empty() {
                continue;
            }
            line.fill(T::zero());
            for (bin, &g) in grad.iter().enumerate() {
                let (first, weights) = columns.weights(bin);
                if !weights.is_empty() {
                    add_line(
                        &mut line[first - span.start..][..weights.len()],
                        weights,
                        g / *count,
                    );
                }
            }
            for (row, &weight) in (first_row..).zip(row_weights) {
                add_line(&mut self.plane[row * self.w..][span.clone()], line, weight);
            }
        }
    }
}

pub(super) fn align_backward<T: Real>(call: &mut HostCall<'_>, _: PhantomData<T>) -> Result<()> {
    let channels = sizes::<4>(call, 0)?[1];
    let p = Problem::backward(call, channels)?;
    if p.c != channels {
        return Err(mismatch());
    }
    let (grad, rois) = (call.input::<T>(0)?, call.input::<T>(1)?);
    let regions = regions(&p, &rois, false)?;
    let images: Vec<usize> = regions.iter().map(|r| r.image).collect();
    let lists = by_image(&images, p.n);
    let out = call.output::<T>(0)?;
    let bins = p.bins();
    let ns = plane_ns(&p) * (1 + p.rois / p.n.max(1));
    shares(out, p.h * p.w, ns, |planes, out| {
        let mut line = vec![T::zero(); p.w];
        for (item, plane) in planes.zip(out.chunks_exact_mut(p.h * p.w)) {
            let (image, channel) = (item / p.c, item % p.c);
            for &i in &lists[image] {
                widest(AlignBackward {
                    region: &regions[i],
                    grad: &grad[(i * p.c + channel) * bins..][..bins],
                    line: &mut line,
                    plane,
                    w: p.w,
                });
            }
        }
        Ok(())
    })
}

pub(super) fn ps_align<T: Real>(call: &mut HostCall<'_>, _: PhantomData<T>) -> Result<()> {
    let channels = spread(call)?;
    let p = Problem::forward(call, channels)?;
    let (x, rois) = (call.input::<T>(0)?, call.input::<T>(1)?);
    let regions = regions(&p, &rois, true)?;
    let out = call.output::<T>(0)?;
    let bins = p.bins();
    shares(out, bins, 20 * bins, |items, out| {
        for (item, out) in items.zip(out.chunks_exact_mut(bins)) {
            let (roi, channel) = (item / channels, item % channels);
            let Region {
                image,
                rows,
                columns,
                count,
            } = &regions[roi];
            for (bin, out) in out.iter_mut().enumerate() {
                let plane = &x[(image * p.c + channel * bins + bin) * p.h * p.w..][..p.h * p.w];
                let ((y, of_rows), (x, of_columns)) =
                    (rows.weights(bin / p.width), columns.weights(bin % p.width));
                let mut sum = T::zero();
                for (y, &wy) in (y..).zip(of_rows) {
                    let mut line = T::zero();
                    for (&v, &wx) in plane[y * p.w + x..].iter().zip(of_columns) {
                        line += wx * v;
                    }
                    sum += wy * line;
                }
                *out = sum / *count;
            }
        }
        Ok(())
    })
}

pub(super) fn ps_align_backward<T: Real>(call: &mut HostCall<'_>, _: PhantomData<T>) -> Result<()> {
    let channels = spread(call)?;
    let p = Problem::backward(call, channels)?;
    let (grad, rois) = (call.input::<T>(0)?, call.input::<T>(1)?);
    let regions = regions(&p, &rois, true)?;
    let images: Vec<usize> = regions.iter().map(|r| r.image).collect();
    let lists = by_image(&images, p.n);
    let out = call.output::<T>(0)?;
    let bins = p.bins();
    shares(
        out,
        p.h * p.w,
        20 * (1 + p.rois / p.n.max(1)),
        |planes, out| {
            for (item, plane) in planes.zip(out.chunks_exact_mut(p.h * p.w)) {
                let (image, bin, channel) = (item / p.c, item % p.c % bins, item % p.c / bins);
                for &i in &lists[image] {
                    let Region {
                        rows,
                        columns,
                        count,
                        ..
                    } = &regions[i];
                    let g = grad[(i * channels + channel) * bins + bin] / *count;
                    let ((y, of_rows), (x, of_columns)) =
                        (rows.weights(bin / p.width), columns.weights(bin % p.width));
                    for (y, &wy) in (y..).zip(of_rows) {
                        add_line(
                            &mut plane[y * p.w + x..][..of_columns.len()],
                            of_columns,
                            g * wy,
                        );
                    }
                }
            }
            Ok(())
        },
    )
}

/// The rows, or columns, of whole pixels of a region's bins.
fn whole_bins<T: Real>(start: i64, size: T, bins: usize, most: usize) -> Vec<Range<usize>> {
    let clip =
        |at: T| (start.saturating_add(at.to_i64().unwrap_or(0))).clamp(0, most as i64) as usize;
    (0..bins)
        .map(|i| clip((T::whole(i) * size).floor())..clip((T::whole(i + 1) * size).ceil()))
        .collect()
}

/// The bins of whole pixels of a region: rows and columns. Where bins have channels of their own, the image's last row and
/// column are part of none, except in gradients, as in torchvision: so `VisionPsRoiPool` reads them where its attributes say
/// `aligned`, which is what the gradient's own gradient asks for.
fn whole<T: Real>(
    p: &Problem,
    roi: &[T],
    (sensitive, to_edge): (bool, bool),
) -> (Vec<Range<usize>>, Vec<Range<usize>>) {
    let scale = T::of(p.scale);
    let edge = |k: usize| (roi[k] * scale).round().to_i64().unwrap_or(0);
    let side = |k: usize, bins: usize, length: usize| {
        let (start, end) = (edge(k), edge(k + 2));
        // The last pixel is part of a region, but not where bins have channels of their own.
        let size = end
            .saturating_sub(start)
            .saturating_add(i64::from(!sensitive))
            .max(1);
        let most = length.saturating_sub(usize::from(sensitive && !to_edge));
        whole_bins(start, T::of(size as f64) / T::whole(bins), bins, most)
    };
    (side(2, p.height, p.h), side(1, p.width, p.w))
}

pub(super) fn pool<T: Real>(call: &mut HostCall<'_>, _: PhantomData<T>) -> Result<()> {
    let channels = sizes::<4>(call, 0)?[1];
    let p = Problem::forward(call, channels)?;
    if call.output_shape(1)? != p.pooled(channels) {
        return Err(mismatch());
    }
    let (x, rois) = (call.input::<T>(0)?, call.input::<T>(1)?);
    let images = p.images(&rois)?;
    let parts: Vec<_> = rois
        .chunks_exact(5)
        .map(|roi| whole(&p, roi, (false, true)))
        .collect();
    let (out, places) = (call.output::<T>(0)?, call.output::<i64>(1)?);
    let bins = p.bins();
    let mut both: Vec<(&mut T, &mut i64)> = out.iter_mut().zip(places).collect();
    shares(&mut both, bins, 30 * bins, |items, out| {
        for (item, out) in items.zip(out.chunks_exact_mut(bins)) {
            let (roi, channel) = (item / channels, item % channels);
            let plane = &x[(images[roi] * p.c + channel) * p.h * p.w..][..p.h * p.w];
            let (rows, columns) = &parts[roi];
            for (bin, (out, place)) in out.iter_mut().enumerate() {
                let (rows, columns) = (rows[bin / p.width].clone(), columns[bin % p.width].clone());
                (**out, **place) = match rows.is_empty() || columns.is_empty() {
                    true => (T::zero(), -1),
                    false => greatest(plane, p.w, rows, columns),
                };
            }
        }
        Ok(())
    })
}

/// The greatest element of a part of a plane, and its place. No element is, where all are nan.
fn greatest<T: Real>(plane: &[T], w: usize, rows: Range<usize>, columns: Range<usize>) -> (T, i64) {
    let (mut most, mut place) = (T::of(-f64::from(f32::MAX)), -1);
    for y in rows {
        for (x, &v) in columns.clone().zip(&plane[y * w..][columns.clone()]) {
            if v > most {
                (most, place) = (v, (y * w + x) as i64);
            }
        }
    }
    (most, place)
}

pub(super) fn pool_backward<T: Real>(call: &mut HostCall<'_>, _: PhantomData<T>) -> Result<()> {
    let channels = sizes::<4>(call, 0)?[1];
    let p = Problem::backward(call, channels)?;
    if sizes::<4>(call, 2)? != p.pooled(channels) || p.c != channels {
        return Err(mismatch());
    }
    let (grad, rois, places) = (
        call.input::<T>(0)?,
        call.input::<T>(1)?,
        call.input::<i64>(2)?,
    );
    let lists = by_image(&p.images(&rois)?, p.n);
    let out = call.output::<T>(0)?;
    let bins = p.bins();
    shares(
        out,
        p.h * p.w,
        2 * bins * (1 + p.rois / p.n.max(1)),
        |planes, out| {
            for (item, plane) in planes.zip(out.chunks_exact_mut(p.h * p.w)) {
                let (image, channel) = (item / p.c, item % p.c);
                for &i in &lists[image] {
                    let of = (i * p.c + channel) * bins..(i * p.c + channel + 1) * bins;
                    for (&place, &g) in places[of.clone()].iter().zip(&grad[of]) {
                        let to = usize::try_from(place)
                            .ok()
                            .and_then(|place| plane.get_mut(place));
                        if let Some(to) = to {
                            *to += g;
                        }
                    }
                }
            }
            Ok(())
        },
    )
}

pub(super) fn ps_pool<T: Real>(call: &mut HostCall<'_>, _: PhantomData<T>) -> Result<()> {
    let channels = spread(call)?;
    let p = Problem::forward(call, channels)?;
    let (x, rois) = (call.input::<T>(0)?, call.input::<T>(1)?);
    let images = p.images(&rois)?;
    let parts: Vec<_> = rois
        .chunks_exact(5)
        .map(|roi| whole(&p, roi, (true, p.aligned)))
        .collect();
    let out = call.output::<T>(0)?;
    let bins = p.bins();
    shares(out, bins, 20 * bins, |items, out| {
        for (item, out) in items.zip(out.chunks_exact_mut(bins)) {
            let (roi, channel) = (item / channels, item % channels);
            let (rows, columns) = &parts[roi];
            for (bin, out) in out.iter_mut().enumerate() {
                let plane =
                    &x[(images[roi] * p.c + channel * bins + bin) * p.h * p.w..][..p.h * p.w];
                let (rows, columns) = (rows[bin / p.width].clone(), columns[bin % p.width].clone());
                let area = rows.len() * columns.len();
                let mut sum = T::zero();
                if area > 0 {
                    for y in rows {
                        for &v in &plane[y * p.w..][columns.clone()] {
                            sum += v;
                        }
                    }
                    *out = sum / T::whole(area);
                }
            }
        }
        Ok(())
    })
}

pub(super) fn ps_pool_backward<T: Real>(call: &mut HostCall<'_>, _: PhantomData<T>) -> Result<()> {
    let channels = spread(call)?;
    let p = Problem::backward(call, channels)?;
    let (grad, rois) = (call.input::<T>(0)?, call.input::<T>(1)?);
    let lists = by_image(&p.images(&rois)?, p.n);
    let parts: Vec<_> = rois
        .chunks_exact(5)
        .map(|roi| whole(&p, roi, (true, true)))
        .collect();
    let out = call.output::<T>(0)?;
    let bins = p.bins();
    shares(
        out,
        p.h * p.w,
        20 * (1 + p.rois / p.n.max(1)),
        |planes, out| {
            for (item, plane) in planes.zip(out.chunks_exact_mut(p.h * p.w)) {
                let (image, bin, channel) = (item / p.c, item % p.c % bins, item % p.c / bins);
                for &i in &lists[image] {
                    let (rows, columns) = &parts[i];
                    let (rows, columns) =
                        (rows[bin / p.width].clone(), columns[bin % p.width].clone());
                    let area = rows.len() * columns.len();
                    if area == 0 {
                        continue;
                    }
                    let g = grad[(i * channels + channel) * bins + bin] / T::whole(area);
                    for y in rows {
                        for to in &mut plane[y * p.w..][columns.clone()] {
                            *to += g;
                        }
                    }
                }
            }
            Ok(())
        },
    )
}
