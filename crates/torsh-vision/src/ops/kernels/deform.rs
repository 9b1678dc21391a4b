//! Deformable convolutions.
//!
//! The images are turned so that the channels of a pixel are adjacent. Then a sample is a sum of four vectors, whose weights
//! and places are computed once for all channels of a group of offsets. Blocks of output pixels are sampled into rows of all
//! that their windows see, which the weight multiplies in one product. Threads take blocks.
//!
//! Backwards, a product gives the gradients of these rows. Each is added to four pixels of the image's gradient, of which
//! every thread has its own, and its products with the four pixels give the gradients of offsets and mask.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Mutex;

use torsh_backend_cpu::matmul::{Strided, multiply_add};
use torsh_core::kernel::HostCall;
use torsh_core::{Result, TorshError, pool};

use super::tuning::{DEFORM_BLOCK, DEFORM_TILE};
use super::{Real, Work, mismatch, shares, sizes, widest};
use crate::ops::attrs;

/// Channels that share a group of weights and one of offsets.
#[derive(Clone, Copy)]
struct Segment {
    first: usize,
    len: usize,
    group: usize,
    offsets: usize,
}

/// The call of a kernel.
struct Problem {
    n: usize,
    c: usize,
    h: usize,
    w: usize,
    o: usize,
    kw: usize,
    /// Elements of a window.
    points: usize,
    oh: usize,
    ow: usize,
    stride: [i64; 2],
    padding: [i64; 2],
    dilation: [i64; 2],
    groups: usize,
    offset_groups: usize,
    segments: Vec<Segment>,
    /// Output pixels of a block.
    block: usize,
}

/// Two positive numbers, or 0 where they may be.
fn two(list: &[i64], least: i64) -> Result<[i64; 2]> {
    match *list {
        [a, b] if a >= least && b >= least && a.max(b) < 1 << 40 => Ok([a, b]),
        _ => Err(mismatch()),
    }
}

impl Problem {
    /// The call, whose operands from `first` on are images, weight, offsets and mask.
    fn of(call: &HostCall<'_>, first: usize, result: &[usize]) -> Result<Problem> {
        let a = call.attrs::<attrs::VisionDeformConv>()?;
        let [n, c, h, w] = sizes::<4>(call, first)?;
        let [o, per, kh, kw] = sizes::<4>(call, first + 1)?;
        let [rn, ro, oh, ow] = <[usize; 4]>::try_from(result).map_err(|_| mismatch())?;
        let points = kh * kw;
        let (g, og) = (a.groups, a.offset_groups);
        let even = g > 0 && og > 0 && o.is_multiple_of(g) && c.is_multiple_of(og) && per * g == c;
        if !even
            || points == 0
            || (rn, ro) != (n, o)
            || sizes::<4>(call, first + 2)? != [n, 2 * og * points, oh, ow]
        {
            return Err(mismatch());
        }
        let mut segments = Vec::new();
        let (of_offsets, mut at) = (c / og, 0);
        while at < c {
            let end = ((at / per + 1) * per).min((at / of_offsets + 1) * of_offsets);
            segments.push(Segment {
                first: at,
                len: end - at,
                group: at / per,
                offsets: at / of_offsets,
            });
            at = end;
        }
        // Blocks fit the cache, and there are some for each thread.
        let fits = DEFORM_BLOCK / (points * c).max(1);
        let each = (n * oh * ow).div_ceil(4 * pool::num_threads());
        let block = fits.min(each).max(16).next_multiple_of(16);
        Ok(Problem {
            n,
            c,
            h,
            w,
            o,
            kw,
            points,
            oh,
            ow,
            stride: two(&a.stride, 1)?,
            padding: two(&a.padding, 0)?,
            dilation: two(&a.dilation, 1)?,
            groups: g,
            offset_groups: og,
            segments,
            block,
        })
    }

    /// Pixels of an output plane.
    fn out_plane(&self) -> usize {
        self.oh * self.ow
    }

    /// Blocks of an image's output.
    fn blocks(&self) -> usize {
        self.out_plane().div_ceil(self.block)
    }

    /// The image and the output pixels of a block.
    fn item(&self, item: usize) -> (usize, Range<usize>) {
        let (image, block) = (item / self.blocks(), item % self.blocks());
        let first = block * self.block;
        (image, first..(first + self.block).min(self.out_plane()))
    }

    /// Channels of a group of weights.
    fn per(&self) -> usize {
        self.c / self.groups
    }

    /// What a window sees in a group.
    fn row(&self) -> usize {
        self.points * self.per()
    }

    /// The operand that may be absent: a mask.
    fn mask<'a, T: Real>(&self, call: &HostCall<'a>, i: usize) -> Result<Option<Cow<'a, [T]>>> {
        match call.input_shape(i) {
            Ok(s) if s == [self.n, self.offset_groups * self.points, self.oh, self.ow] => {
                Ok(Some(call.input(i)?))
            }
            Ok(_) => Err(mismatch()),
            Err(_) => Ok(None),
        }
    }
}

/// Images whose pixels' channels are adjacent.
fn turned<T: Real>(p: &Problem, x: &[T]) -> Result<Vec<T>> {
    let plane = p.h * p.w;
    let mut out = vec![T::zero(); x.len()];
    shares(&mut out, p.c, p.c, |pixels, out| {
        let mut at = pixels.start;
        while at < pixels.end {
            let (image, pixel) = (at / plane, at % plane);
            let n = DEFORM_TILE.min(pixels.end - at).min(plane - pixel);
            let to = &mut out[(at - pixels.start) * p.c..][..n * p.c];
            for channel in 0..p.c {
                let from = &x[(image * p.c + channel) * plane + pixel..][..n];
                for (i, &v) in from.iter().enumerate() {
                    to[i * p.c + channel] = v;
                }
            }
            at += n;
        }
        Ok(())
    })?;
    Ok(out)
}

/// The weight, whose windows' channels are adjacent: for each output channel, the elements of the window, the channels.
fn turned_weight<T: Real>(p: &Problem, weight: &[T]) -> Vec<T> {
    let (per, points) = (p.per(), p.points);
    let mut out = vec![T::zero(); weight.len()];
    for (to, from) in out
        .chunks_exact_mut(per * points)
        .zip(weight.chunks_exact(per * points))
    {
        for (channel, window) in from.chunks_exact(points).enumerate() {
            for (k, &v) in window.iter().enumerate() {
                to[k * per + channel] = v;
            }
        }
    }
    out
}

/// The four pixels around a position: where they begin, whether they are in the image, and their weights.
#[derive(Clone, Copy)]
struct Corners<T> {
    at: [usize; 4],
    there: [bool; 4],
    weight: [T; 4],
    /// How far the position is below and to the right of the first.
    far: (T, T),
}

impl<T: Real> Corners<T> {
    #[inline(always)]
    fn new(y: T, x: T, (h, w, c): (usize, usize, usize)) -> Corners<T> {
        let (y0, x0) = (y.floor(), x.floor());
        let (dy, dx) = (y - y0, x - x0);
        let (ey, ex) = (T::one() - dy, T::one() - dx);
        // What is far outside ends up outside on the same side.
        let (low, high) = (T::of(-2.0), T::of(1e9));
        let cell = |v: T| v.max(low).min(high).to_i64().unwrap_or(-2);
        let (yi, xi) = (cell(y0), cell(x0));
        let row = |y: i64| y >= 0 && y < h as i64;
        let column = |x: i64| x >= 0 && x < w as i64;
        let places = [(yi, xi), (yi, xi + 1), (yi + 1, xi), (yi + 1, xi + 1)];
        let there = places.map(|(y, x)| row(y) && column(x));
        let weights = [ey * ex, ey * dx, dy * ex, dy * dx];
        Corners {
            at: std::array::from_fn(|i| match there[i] {
                true => (places[i].0 as usize * w + places[i].1 as usize) * c,
                false => 0,
            }),
            weight: std::array::from_fn(|i| if there[i] { weights[i] } else { T::zero() }),
            there,
            far: (dy, dx),
        }
    }
}

/// What blocks of output pixels are sampled from.
struct Source<'a, T> {
    p: &'a Problem,
    /// Turned images.
    x: &'a [T],
    offset: &'a [T],
    mask: Option<&'a [T]>,
}

impl<T: Real> Source<'_, T> {
    /// The position of a sample, and its mask.
    #[inline(always)]
    fn corners(&self, image: usize, pixel: usize, offsets: usize, k: usize) -> (Corners<T>, T) {
        let p = self.p;
        let plane = p.out_plane();
        let point = (image * p.offset_groups + offsets) * p.points + k;
        let base = |d: usize, out: usize, k: usize| {
            T::of((out as i64 * p.stride[d] - p.padding[d] + k as i64 * p.dilation[d]) as f64)
        };
        let y = base(0, pixel / p.ow, k / p.kw) + self.offset[2 * point * plane + pixel];
        let x = base(1, pixel % p.ow, k % p.kw) + self.offset[(2 * point + 1) * plane + pixel];
        let mask = self.mask.map_or(T::one(), |m| m[point * plane + pixel]);
        (Corners::new(y, x, (p.h, p.w, p.c)), mask)
    }

    #[inline(always)]
    fn image(&self, image: usize) -> &[T] {
        let size = self.p.h * self.p.w * self.p.c;
        &self.x[image * size..][..size]
    }
}

/// Samples a block into rows: of each group, for each pixel, the elements of its window, their channels.
struct Sample<'a, T> {
    source: &'a Source<'a, T>,
    image: usize,
    pixels: Range<usize>,
    rows: &'a mut [T],
}

impl<T: Real> Work for Sample<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let (s, p) = (self.source, self.source.p);
        let x = s.image(self.image);
        let (n, row, per) = (self.pixels.len(), p.row(), p.per());
        for seg in &p.segments {
            for k in 0..p.points {
                for (i, pixel) in self.pixels.clone().enumerate() {
                    let (corners, mask) = s.corners(self.image, pixel, seg.offsets, k);
                    let at = (seg.group * n + i) * row + k * per + seg.first % per;
                    let out = &mut self.rows[at..][..seg.len];
                    if !corners.there.contains(&true) {
                        out.fill(T::zero());
                        continue;
                    }
                    let [a, b, c, d] = corners.at.map(|at| &x[at + seg.first..][..seg.len]);
                    let [wa, wb, wc, wd] = corners.weight.map(|w| w * mask);
                    for i in 0..out.len() {
                        out[i] = wa * a[i] + wb * b[i] + (wc * c[i] + wd * d[i]);
                    }
                }
            }
        }
    }
}

/// The rows of planes, cut into those of each block.
fn pieces<'a, T>(data: &'a mut [T], p: &Problem, planes: usize) -> Vec<Mutex<Vec<&'a mut [T]>>> {
    let mut all: Vec<Vec<&mut [T]>> = (0..p.n * p.blocks())
        .map(|_| Vec::with_capacity(planes))
        .collect();
    for (i, plane) in data.chunks_exact_mut(p.out_plane()).enumerate() {
        let first = i / planes * p.blocks();
        for (piece, all) in plane.chunks_mut(p.block).zip(&mut all[first..]) {
            all.push(piece);
        }
    }
    all.into_iter().map(Mutex::new).collect()
}

fn take<'a, T>(pieces: &[Mutex<Vec<&'a mut [T]>>], item: usize) -> Vec<&'a mut [T]> {
    let own = pieces.get(item).and_then(|p| p.lock().ok());
    own.map(|mut p| std::mem::take(&mut *p)).unwrap_or_default()
}

/// The first error that a thread has.
#[derive(Default)]
struct Failed(Mutex<Option<TorshError>>);

impl Failed {
    fn note(&self, result: Result<()>) {
        if let Err(e) = result
            && let Ok(mut first) = self.0.lock()
        {
            first.get_or_insert(e);
        }
    }

    fn check(self) -> Result<()> {
        match self.0.into_inner() {
            Ok(None) => Ok(()),
            Ok(Some(e)) => Err(e),
            Err(_) => Err(TorshError::failed("", "a thread panicked")),
        }
    }
}

pub(super) fn forward<T: Real>(call: &mut HostCall<'_>, _: PhantomData<T>) -> Result<()> {
    let p = Problem::of(call, 0, call.output_shape(0)?)?;
    let mask = p.mask::<T>(call, 3)?;
    let bias: Option<Cow<'_, [T]>> = match call.input_shape(4) {
        Ok(s) if s == [p.o] => Some(call.input(4)?),
        Ok(_) => return Err(mismatch()),
        Err(_) => None,
    };
    let offset = call.input::<T>(2)?;
    let x = turned(&p, &call.input::<T>(0)?)?;
    let weight = turned_weight(&p, &call.input::<T>(1)?);
    let out = call.output::<T>(0)?;
    if out.is_empty() {
        return Ok(());
    }
    let source = Source {
        p: &p,
        x: &x,
        offset: &offset,
        mask: mask.as_deref(),
    };
    let outs = pieces(out, &p, p.o);
    let failed = Failed::default();
    pool::parallel_for(outs.len(), 1, &|items| {
        let (row, of_group) = (p.row(), p.o / p.groups);
        let mut rows = vec![T::zero(); p.block * p.points * p.c];
        let mut results = vec![T::zero(); p.o * p.block];
        for item in items {
            let (image, pixels) = p.item(item);
            let n = pixels.len();
            widest(Sample {
                source: &source,
                image,
                pixels,
                rows: &mut rows,
            });
            for (o, results) in results[..p.o * n].chunks_exact_mut(n).enumerate() {
                results.fill(bias.as_ref().map_or(T::zero(), |b| b[o]));
            }
            for g in 0..p.groups {
                let operands = (
                    Strided::rows(&weight[g * of_group * row..], row),
                    Strided::rows(&rows[g * n * row..], row).t(),
                );
                let to = (&mut results[g * of_group * n..], n);
                failed.note(multiply_add((of_group, n, row), T::one(), operands, to));
            }
            for (to, from) in take(&outs, item).into_iter().zip(results.chunks_exact(n)) {
                to.copy_from_slice(from);
            }
        }
    });
    failed.check()
}

/// The sum of products.
#[inline(always)]
fn dot<T: Real>(a: &[T], b: &[T]) -> T {
    const LANES: usize = 16;
    let mut sums = [T::zero(); LANES];
    let (blocks_a, rest_a) = a.as_chunks::<LANES>();
    let (blocks_b, rest_b) = b.as_chunks::<LANES>();
    for (a, b) in blocks_a.iter().zip(blocks_b) {
        for i in 0..LANES {
            sums[i] += a[i] * b[i];
        }
    }
    let mut sum = T::zero();
    for (&a, &b) in rest_a.iter().zip(rest_b) {
        sum += a * b;
    }
    for s in sums {
        sum += s;
    }
    sum
}

/// Spreads the gradients of a block's rows.
struct Spread<'a, T> {
    source: &'a Source<'a, T>,
    image: usize,
    pixels: Range<usize>,
    /// Gradients of the rows.
    rows: &'a [T],
    /// The gradient of the turned image, where it is wanted.
    input: Option<&'a mut [T]>,
    /// Those of offsets and mask, a list for each plane; empty where they are not wanted.
    offset: &'a mut [&'a mut [T]],
    mask: &'a mut [&'a mut [T]],
}

impl<T: Real> Work for Spread<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(mut self) {
        let (s, p) = (self.source, self.source.p);
        let x = s.image(self.image);
        let (n, row, per) = (self.pixels.len(), p.row(), p.per());
        let positions = !self.offset.is_empty() || !self.mask.is_empty();
        for seg in &p.segments {
            for k in 0..p.points {
                let point = seg.offsets * p.points + k;
                for (i, pixel) in self.pixels.clone().enumerate() {
                    let (corners, mask) = s.corners(self.image, pixel, seg.offsets, k);
                    let at = (seg.group * n + i) * row + k * per + seg.first % per;
                    let g = &self.rows[at..][..seg.len];
                    if let Some(input) = &mut self.input {
                        for j in 0..4 {
                            if !corners.there[j] {
                                continue;
                            }
                            let by = corners.weight[j] * mask;
                            let to = &mut input[corners.at[j] + seg.first..][..seg.len];
                            for (to, &g) in to.iter_mut().zip(g) {
                                *to += by * g;
                            }
                        }
                    }
                    if !positions {
                        continue;
                    }
                    let mut d = [T::zero(); 4];
                    for j in 0..4 {
                        if corners.there[j] {
                            d[j] = dot(g, &x[corners.at[j] + seg.first..][..seg.len]);
                        }
                    }
                    let (dy, dx) = corners.far;
                    let (ey, ex) = (T::one() - dy, T::one() - dx);
                    if let [y, x] = &mut self.offset[..]
                        .get_mut(2 * point..2 * point + 2)
                        .unwrap_or(&mut [])[..]
                    {
                        y[i] += mask * (dx * (d[3] - d[1]) + ex * (d[2] - d[0]));
                        x[i] += mask * (dy * (d[3] - d[2]) + ey * (d[1] - d[0]));
                    }
                    if let Some(m) = self.mask.get_mut(point) {
                        let w = corners.weight;
                        m[i] += w[0] * d[0] + w[1] * d[1] + (w[2] * d[2] + w[3] * d[3]);
                    }
                }
            }
        }
    }
}

/// What a thread adds up.
struct Sums<T> {
    /// The gradient of the turned weight.
    weight: Vec<T>,
    /// The gradients of turned images, from this one on.
    first: usize,
    input: Vec<T>,
}

pub(super) fn backward<T: Real>(call: &mut HostCall<'_>, _: PhantomData<T>) -> Result<()> {
    let p = Problem::of(call, 1, call.input_shape(0)?)?;
    let wanted = call.attrs::<attrs::VisionDeformConv>()?.wanted;
    let mask = p.mask::<T>(call, 4)?;
    let wants = |i: usize| wanted >> i & 1 == 1;
    // Results are those that are wanted, in order.
    let place = |i: usize| wants(i).then(|| (0..i).filter(|&k| wants(k)).count());
    if wants(3) && mask.is_none() || call.outputs() != (0..4).filter(|&i| wants(i)).count() {
        return Err(mismatch());
    }
    for (i, operand) in [1, 2, 3, 4].into_iter().enumerate() {
        if let Some(to) = place(i)
            && call.output_shape(to)? != call.input_shape(operand)?
        {
            return Err(mismatch());
        }
    }
    let (grad, offset) = (call.input::<T>(0)?, call.input::<T>(3)?);
    let x = turned(&p, &call.input::<T>(1)?)?;
    let weight = turned_weight(&p, &call.input::<T>(2)?);
    let mut output = |i: usize| place(i).map(|to| call.output::<T>(to)).transpose();
    let (to_input, to_weight, to_offset, to_mask) =
        (output(0)?, output(1)?, output(2)?, output(3)?);
    if grad.is_empty() {
        return Ok(());
    }
    let source = Source {
        p: &p,
        x: &x,
        offset: &offset,
        mask: mask.as_deref(),
    };
    let point_planes = p.offset_groups * p.points;
    let offsets = to_offset
        .map(|to| pieces(to, &p, 2 * point_planes))
        .unwrap_or_default();
    let masks = to_mask
        .map(|to| pieces(to, &p, point_planes))
        .unwrap_or_default();
    let items = p.n * p.blocks();
    let parts = pool::chunk_count(items, 1);
    let (all, failed) = (Mutex::new(Vec::new()), Failed::default());
    pool::parallel_parts(items, parts, &|part, range| {
        let sums = backward_part(
            &source,
            range,
            (&grad, &weight),
            (wants(0), wants(1)),
            (&offsets, &masks),
        );
        match (sums, all.lock()) {
            (Ok(sums), Ok(mut all)) => all.push((part, sums)),
            (Err(e), _) => failed.note(Err(e)),
            _ => {}
        }
    });
    failed.check()?;
    let mut all = all.into_inner().unwrap_or_default();
    // The same order of sums whoever ended first.
    all.sort_by_key(|(part, _)| *part);
    if let Some(to) = to_weight {
        let (per, points) = (p.per(), p.points);
        for (_, sums) in &all {
            for (to, from) in to
                .chunks_exact_mut(per * points)
                .zip(sums.weight.chunks_exact(per * points))
            {
                for (channel, window) in to.chunks_exact_mut(points).enumerate() {
                    for (k, to) in window.iter_mut().enumerate() {
                        *to += from[k * per + channel];
                    }
                }
            }
        }
    }
    if let Some(to) = to_input {
        let plane = p.h * p.w;
        shares(to, plane, plane, |planes, to| {
            let mut at = planes.start;
            while at < planes.end {
                let (image, channel) = (at / p.c, at % p.c);
                let n = DEFORM_TILE.min(planes.end - at).min(p.c - channel);
                let to = &mut to[(at - planes.start) * plane..][..n * plane];
                for (_, sums) in &all {
                    let from = image.checked_sub(sums.first).map(|i| i * plane * p.c);
                    let Some(from) = from.and_then(|i| sums.input.get(i..i + plane * p.c)) else {
                        continue;
                    };
                    for (pixel, from) in from.chunks_exact(p.c).enumerate() {
                        for (i, &v) in from[channel..][..n].iter().enumerate() {
                            to[i * plane + pixel] += v;
                        }
                    }
                }
                at += n;
            }
            Ok(())
        })?;
    }
    Ok(())
}

type Pieces<'a, T> = [Mutex<Vec<&'a mut [T]>>];

/// The blocks of one thread.
fn backward_part<T: Real>(
    source: &Source<'_, T>,
    items: Range<usize>,
    (grad, weight): (&[T], &[T]),
    (wants_input, wants_weight): (bool, bool),
    (offsets, masks): (&Pieces<'_, T>, &Pieces<'_, T>),
) -> Result<Sums<T>> {
    let p = source.p;
    let (row, of_group, image_size) = (p.row(), p.o / p.groups, p.h * p.w * p.c);
    let first = items.start / p.blocks();
    let images = match items.is_empty() {
        true => 0,
        false => (items.end - 1) / p.blocks() + 1 - first,
    };
    let mut sums = Sums {
        weight: vec![T::zero(); if wants_weight { weight.len() } else { 0 }],
        first,
        input: vec![T::zero(); if wants_input { images * image_size } else { 0 }],
    };
    let spread = wants_input || !offsets.is_empty() || !masks.is_empty();
    let mut rows = vec![T::zero(); p.block * p.points * p.c];
    let mut grads = vec![T::zero(); p.o * p.block];
    for item in items {
        let (image, pixels) = p.item(item);
        let n = pixels.len();
        for (o, to) in grads[..p.o * n].chunks_exact_mut(n).enumerate() {
            to.copy_from_slice(&grad[(image * p.o + o) * p.out_plane() + pixels.start..][..n]);
        }
        if wants_weight {
            widest(Sample {
                source,
                image,
                pixels: pixels.clone(),
                rows: &mut rows,
            });
            for g in 0..p.groups {
                let operands = (
                    Strided::rows(&grads[g * of_group * n..], n),
                    Strided::rows(&rows[g * n * row..], row),
                );
                let to = (&mut sums.weight[g * of_group * row..], row);
                multiply_add((of_group, row, n), T::one(), operands, to)?;
            }
        }
        if !spread {
            continue;
        }
        rows[..n * p.points * p.c].fill(T::zero());
        for g in 0..p.groups {
            let operands = (
                Strided::rows(&grads[g * of_group * n..], n).t(),
                Strided::rows(&weight[g * of_group * row..], row),
            );
            let to = (&mut rows[g * n * row..], row);
            multiply_add((n, row, of_group), T::one(), operands, to)?;
        }
        let (mut offset, mut mask) = (take(offsets, item), take(masks, item));
        let at = (image - first) * image_size;
        widest(Spread {
            source,
            image,
            pixels,
            rows: &rows,
            input: wants_input.then(|| &mut sums.input[at..at + image_size]),
            offset: &mut offset,
            mask: &mut mask,
        });
    }
    Ok(sums)
}
