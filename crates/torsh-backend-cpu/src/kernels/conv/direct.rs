//! Convolutions of few channels, depthwise ones above all: bands of the image are padded, and the sums
//! over all taps are taken in registers.

use std::ops::Range;

use torsh_core::machine::Machine;
use torsh_core::{Result, pool};

use super::GRAIN;
use super::choose::ConvProblem;
use super::columns::Geometry;
use super::direct_loops::{Dots, Loops, PLANES, PadRows, RowTile, fitting, lanes};
use super::element::{ConvElement, ConvKind, add, clear};
use super::epilogue::Epilogue;
use super::plan::{Band, BandPlan, Bands, Phase, interleave};
use crate::machine::tuning::conv as tuning;
use crate::memory::dense::{Ptr, Scratch};
use crate::memory::operands::missing;
use crate::memory::stream;
use crate::simd::level;

/// The bands of a problem.
fn bands(p: &ConvProblem, machine: &Machine) -> Option<Bands> {
    let lanes = lanes(p.dtype, machine.level);
    Bands::new(&p.g, p.kind, lanes, p.dtype.size())
}

/// Whether bands of the image fit, and no more terms are summed one after the other than are exact
/// enough.
pub(super) fn accepts(p: &ConvProblem, machine: &Machine) -> bool {
    let (channels, _) = p.g.channels(p.kind);
    let depthwise = channels == 1 && p.g.groups > 1;
    (depthwise || channels.saturating_mul(p.g.taps()) <= tuning::DIRECT_TERMS)
        && bands(p, machine).is_some()
}

/// Whether there are so few channels that tiles of a product would be mostly empty.
pub(super) fn pays(p: &ConvProblem) -> bool {
    let (channels, outs) = p.g.channels(p.kind);
    channels.min(outs) <= tuning::DIRECT_CHANNELS
        || p.g.groups > 1 && channels <= tuning::DIRECT_GROUP_CHANNELS
}

/// Computes a problem that [is accepted](accepts).
pub(super) fn run<T: ConvElement>(
    p: &ConvProblem,
    operands: [Ptr<T>; 3],
    epilogue: Epilogue<'_, T>,
) -> Result<()> {
    let g = &p.g;
    let loops = T::loops(level());
    let bands = Bands::new(g, p.kind, loops.lanes, size_of::<T>()).ok_or_else(missing)?;
    let plan = BandPlan::new(g, bands);
    let [x, y, out] = operands;
    let streamed = plan.streams(size_of::<T>());
    let call = |operands: [Ptr<T>; 3], streamed: bool| DirectCall {
        plan: &plan,
        loops,
        operands,
        epilogue,
        streamed,
    };
    match p.kind {
        ConvKind::Forward => sums(&call(operands, streamed), g.work()),
        ConvKind::Transposed => {
            let weights = by_phases(g, &plan, y)?;
            sums(&call([x, Ptr::new(weights.ptr()), out], streamed), g.work())
        }
        // Of the image and the output's gradient.
        ConvKind::Weight => weights(&call([y, x, out], false), g.work()),
    }
}

/// The weights of each phase's terms, by channels of the result.
fn by_phases<T: ConvElement>(g: &Geometry, plan: &BandPlan, weight: Ptr<T>) -> Result<Scratch<T>> {
    let taps = g.taps();
    let (ic, each) = (g.in_channels, g.in_channels * g.out_channels * taps);
    let weights = Scratch::<T>::new(g.groups * each)?;
    let mut to = weights.ptr();
    for group in 0..g.groups {
        for phase in &plan.all.phases {
            for c in 0..ic {
                for term in &plan.all.terms[phase.first..phase.first + phase.count] {
                    let from = group * each + (term.channel * ic + c) * taps + term.tap;
                    // SAFETY: both hold a weight for each group, pair of channels and tap.
                    unsafe { *to = *weight.at(from as isize) };
                    to = to.wrapping_add(1);
                }
            }
        }
    }
    Ok(weights)
}

struct DirectCall<'a, T: 'static> {
    plan: &'a BandPlan,
    loops: &'static Loops<T>,
    /// The image, the weights (or the output's gradient) and the result.
    operands: [Ptr<T>; 3],
    epilogue: Epilogue<'a, T>,
    /// Whether results are written past the caches.
    streamed: bool,
}

impl<T: ConvElement> DirectCall<'_, T> {
    /// Writes the padded rows of a band.
    ///
    /// # Safety
    /// The image is the plan's, and `to` has room for a band.
    unsafe fn pad(&self, band: &Band, to: *mut T) {
        let p = self.plan;
        let [z, y, x] = &p.grid.axes;
        let start = x.start + (band.first[1] * x.step) as isize;
        let top = y.start + (band.first[0] * y.step) as isize;
        let rows = y.reach(band.count[0]);
        // The rows inside the image, and the row there of the first of them.
        let inside = |input: usize| (input as isize - top).clamp(0, rows as isize) as usize;
        let inside = inside(0)..inside(y.input);
        let first = top + inside.start as isize;
        let size = y.input * x.input;
        let far = p.grid.planes * p.grid.channels * z.input * size * size_of::<T>() >= stream::FAR;
        for plane in 0..p.grid.channels * p.grid.depths.len() {
            let (image, within) = p.grid.source(band, plane);
            let row = self.operands[0]
                .get()
                .wrapping_offset(image + first * x.input as isize);
            // The next plane's rows come meanwhile, or those of the next band, which is the first
            // plane's.
            let mut next =
                match plane + 1 == p.grid.channels * p.grid.depths.len() && p.grid.bands() > 1 {
                    _ if !far => 0,
                    true => {
                        (p.grid.rows * y.step * x.input) as isize
                            - ((p.grid.channels - 1) * z.input * size) as isize
                    }
                    false => (z.input * size) as isize,
                };
            for &phase in &p.places {
                // The places of the rows whose column lies inside the image.
                let from = start + phase as isize;
                let place = |column: isize| {
                    let n = (column - from).max(0) as usize;
                    n.div_ceil(x.step).min(p.width)
                };
                let (left, right) = (place(0), place(x.input as isize));
                let line = plane * p.plane + phase * p.width;
                let rows = PadRows {
                    src: row.wrapping_offset(from + (left * x.step) as isize),
                    next: std::mem::take(&mut next),
                    step: x.step,
                    src_row: x.input,
                    inside: if within { inside.clone() } else { 0..0 },
                    rows,
                    left,
                    right,
                    width: p.width,
                    dst: to.wrapping_add(line),
                    dst_row: p.line,
                };
                // SAFETY: the places are the image's; the caller's promise.
                unsafe { (self.loops.pad)(&rows) };
            }
        }
    }

    /// The results of a band.
    ///
    /// # Safety
    /// The operands are the plan's, and no other thread writes the band's results; `memory` has
    /// room for a band and for the lines of [`DirectCall::memory`].
    unsafe fn results(&self, band: &Band, memory: *mut T) {
        let p = self.plan;
        let [z, y, x] = &p.grid.axes;
        // SAFETY: the caller's promise.
        unsafe { self.pad(band, memory) };
        for (index, phases) in p.all.phases.chunks(x.spread).enumerate() {
            let (oz, top) = (band.z * z.spread + index / y.spread, index % y.spread);
            let rows = band.count[0].min(y.results(top).saturating_sub(band.first[0]));
            if oz >= z.output || rows == 0 {
                continue;
            }
            let oy = band.first[0] * y.spread + top;
            let mut o = 0;
            while o < p.grid.outs {
                let (planes, _) = fitting(self.loops.row_tiles, p.grid.outs - o);
                let plane = (band.plane * p.grid.outs + o) * z.output + oz;
                let at = (plane * y.output + oy) * x.output + band.first[1] * x.spread;
                // SAFETY: the caller's promise; these planes and rows are the band's.
                unsafe { self.planes(band, phases, [o, planes, rows], at, memory) };
                o += planes;
            }
        }
    }

    /// The results of `phases` along the last dimension, of `planes` planes from `o` on, whose first
    /// one is at `at`.
    ///
    /// # Safety
    /// As [`DirectCall::results`].
    unsafe fn planes(
        &self,
        band: &Band,
        phases: &[Phase],
        [o, planes, rows]: [usize; 3],
        at: usize,
        memory: *mut T,
    ) {
        let p = self.plan;
        let [z, y, x] = &p.grid.axes;
        let zeros = [T::default(); PLANES];
        let group = band.plane % p.grid.groups;
        let bias = self
            .epilogue
            .bias
            .map(|b| b.at((group * p.grid.outs + o) as isize));
        let out = self.operands[2].at(at as isize);
        let [row, plane] = [y.spread * x.output, z.output * y.output * x.output];
        // With phases the results go through lines of their own, and so they do on their way past
        // the caches.
        let width = band.count[1];
        let lines = memory.wrapping_add(p.band);
        let line = |phase: usize| lines.wrapping_add(phase * planes * rows * width);
        let columns = |phase| width.min(x.results(phase).saturating_sub(band.first[1]));
        for (i, phase) in phases.iter().enumerate() {
            let weight = (group * p.all.terms.len() + phase.first) * p.grid.outs + o * phase.count;
            let (out, out_row, out_plane) = match x.spread {
                1 if !self.streamed => (out, row, plane),
                _ => (line(i), width, rows * width),
            };
            let strip = RowTile {
                terms: p.all.offsets[phase.first..].as_ptr(),
                count: phase.count,
                weights: self.operands[1].at(weight as isize),
                bias: bias.map_or(zeros.as_ptr(), |b| b.cast_const()),
                src: memory,
                src_row: y.step * p.line,
                out,
                out_row,
                out_plane,
                rows,
                width: columns(i),
            };
            // SAFETY: the caller's promise; all planes of the strip are there.
            unsafe { fitting(self.loops.row_tiles, planes).1(&strip) };
            if self.epilogue.affine.is_some() {
                // SAFETY: as above; only a convolution's results are finished, which have one phase.
                unsafe { self.finish(&strip, band.plane * p.grid.outs + o, planes, at) };
            }
        }
        if x.spread == 1 {
            if self.streamed {
                // Whole rows are one piece.
                let (pieces, each) = match width == x.output && y.spread == 1 {
                    true => (1, rows * width),
                    false => (rows, width),
                };
                for i in 0..planes * pieces {
                    let to = out.wrapping_add(i / pieces * plane + i % pieces * row);
                    let from = line(0).wrapping_add(i * each).cast_const();
                    // SAFETY: the caller's promise.
                    unsafe { stream::copy(from.cast(), to.cast(), each * size_of::<T>()) };
                }
            }
            return;
        }
        for i in 0..planes * rows {
            let to = out.wrapping_add(i / rows * plane + i % rows * row);
            let from = |phase: usize| line(phase).wrapping_add(i * width).cast_const();
            // SAFETY: the caller's promise.
            unsafe { interleave(self.loops, x.spread, columns, from, to) };
        }
    }

    /// Finishes the results of a strip of so many planes from `plane` on, of which the first one's place is `at`.
    ///
    /// # Safety
    /// As [`DirectCall::results`].
    unsafe fn finish(&self, strip: &RowTile<T>, plane: usize, planes: usize, at: usize) {
        let [z, y, x] = &self.plan.grid.axes;
        let first = at - plane * z.output * y.output * x.output;
        // Whole rows are one.
        let whole = strip.out_row == x.output && strip.width == x.output;
        let (rows, len) = match whole {
            true => (1, strip.rows * strip.width),
            false => (strip.rows, strip.width),
        };
        for row in 0..rows {
            let start = first + row * x.output;
            let out = strip.out.wrapping_add(row * strip.out_row);
            let planes = plane..plane + planes;
            // SAFETY: the caller's promise.
            unsafe {
                self.epilogue
                    .finish(planes, start..start + len, out, strip.out_plane)
            };
        }
    }

    /// Adds the products of a band's gradients and windows to the sums for its group's weights.
    ///
    /// # Safety
    /// The operands are the plan's; `memory` has room for a band, and nobody else has `sums`, a
    /// vector for each weight.
    unsafe fn products(&self, band: &Band, memory: *mut T, sums: *mut T) {
        let p = self.plan;
        let [z, y, x] = &p.grid.axes;
        // SAFETY: the caller's promise.
        unsafe { self.pad(band, memory) };
        let count = p.all.terms.len();
        let mut o = 0;
        while o < p.grid.outs {
            let (planes, taps) = fitting(self.loops.dots, p.grid.outs - o);
            let plane = (band.plane * p.grid.outs + o) * z.output + band.z;
            let at = (plane * y.output + band.first[0]) * x.output + band.first[1];
            let mut term = 0;
            while term < count {
                let (some, add) = fitting(taps, count - term);
                let dots = Dots {
                    terms: p.all.offsets[term..].as_ptr(),
                    src: memory,
                    src_row: y.step * p.line,
                    grad: self.operands[1].at(at as isize),
                    grad_row: x.output,
                    grad_plane: z.output * y.output * x.output,
                    rows: band.count[0],
                    width: band.count[1],
                    sums: sums.wrapping_add((o * count + term) * self.loops.lanes),
                    sums_plane: count * self.loops.lanes,
                };
                // SAFETY: the caller's promise; the terms are some of the plan's.
                unsafe { add(&dots) };
                term += some;
            }
            o += planes;
        }
    }

    /// Numbers of what a thread needs for a band.
    fn memory(&self) -> usize {
        let p = self.plan;
        let spread = p.grid.axes[2].spread;
        let lines = if spread > 1 || self.streamed {
            PLANES.min(p.grid.outs) * spread * p.grid.rows * p.grid.columns
        } else {
            0
        };
        (p.band + lines + self.loops.lanes).next_multiple_of(64)
    }
}

/// Computes all results.
fn sums<T: ConvElement>(call: &DirectCall<'_, T>, work: usize) -> Result<()> {
    let bands = call.plan.grid.bands();
    let tasks = call.plan.grid.planes * bands;
    let parts = pool::chunk_count(work, GRAIN).clamp(1, tasks.max(1));
    let each = call.memory();
    let scratch = Scratch::<T>::new(parts * each)?;
    let memory = Ptr::new(scratch.ptr());
    pool::parallel_parts(tasks, parts, &|part, range| {
        for task in range {
            let band = call.plan.grid.band(task / bands, task % bands);
            // SAFETY: each part has its memory, and no two bands the same results.
            unsafe { call.results(&band, memory.at((part * each) as isize)) };
        }
        if call.streamed {
            stream::fence();
        }
    });
    Ok(())
}

/// Computes the weight's gradient: each thread has groups of its own, else bands and sums of its
/// own.
fn weights<T: ConvElement>(call: &DirectCall<'_, T>, work: usize) -> Result<()> {
    let p = call.plan;
    let (bands, images) = (call.plan.grid.bands(), p.grid.planes / p.grid.groups);
    let threads = pool::chunk_count(work, GRAIN).max(1);
    let by_group = p.grid.groups >= 4 * threads
        || (p.grid.groups > 1 && p.grid.groups.is_multiple_of(threads));
    let tasks = if by_group {
        p.grid.groups
    } else {
        images * bands
    };
    let parts = threads.min(tasks);
    let (each, size, lanes) = (
        call.memory(),
        p.grid.outs * p.all.terms.len(),
        call.loops.lanes,
    );
    // Sums of all groups, or of one at a time.
    let all = if by_group { size } else { p.grid.groups * size };
    let scratch = Scratch::<T>::new(parts * (each + all * lanes))?;
    let memory = Ptr::new(scratch.ptr());
    let sums = Ptr::new(memory.at((parts * each) as isize));
    // The sum of a weight's lanes, and of its parts in order.
    let total = |parts: Range<usize>, n: usize, to: *mut T| {
        // SAFETY: the result has `n` weights there, and their sums are done.
        unsafe {
            clear(to, n);
            for part in parts {
                for i in 0..n {
                    let from = sums.at(((part * all + i) * lanes) as isize);
                    // A step of 0: all lanes are added to one number.
                    add(lanes, from, to.add(i), 0);
                }
            }
        }
    };
    let out = call.operands[2];
    pool::parallel_parts(tasks, parts, &|part, range| {
        let memory = memory.at((part * each) as isize);
        let sums = sums.at((part * all * lanes) as isize);
        let (groups, tasks) = match by_group {
            true => (range, 0..images * bands),
            false => (0..p.grid.groups, range),
        };
        for group in groups {
            let first = if by_group { 0 } else { group * size };
            // SAFETY: each part has its memory and its sums.
            unsafe {
                let sums = sums.add(first * lanes);
                clear(sums, size * lanes);
                for task in tasks.clone() {
                    let band = call
                        .plan
                        .grid
                        .band(task / bands * p.grid.groups + group, task % bands);
                    call.products(&band, memory, sums);
                }
            }
            if by_group {
                total(part..part + 1, size, out.at((group * size) as isize));
            }
        }
    });
    if !by_group {
        total(0..parts, all, out.get());
    }
    Ok(())
}

#[cfg(feature = "unit-tests")]
mod tests;
