//! Convolutions whose windows stay in the image: bands of it are padded, with what a stride separates
//! side by side, so that a tap of adjacent results is adjacent numbers, from row to row too. Tiles of
//! channels by vectors of results are then summed over all terms, and no window is copied.

use std::ops::Range;

use smallvec::SmallVec;
use torsh_core::machine::Machine;
use torsh_core::{Result, pool};

use super::GRAIN;
use super::choose::ConvProblem;
use super::columns::Geometry;
use super::direct_loops::{ChannelBlock, LANES, Loops, OutputRows, PadRows, fitting, lanes};
use super::element::ConvKind;
use super::epilogue::Epilogue;
use super::plan::{Band, ConvAxis, Grid, Terms, axes, interleave, narrowed};
use super::windows::Windowed;
use crate::kernels::matmul::panel::Lines;
use crate::machine::tuning::conv as tuning;
use crate::machine::tuning::conv_tiles::{AGAIN, BAND, LARGE_BAND, MOST, OUTS};
use crate::machine::tuning::product_blocks::CHAIN;
use crate::memory::dense::{Ptr, Scratch};
use crate::memory::operands::missing;
use crate::simd::{Level, level};

/// How a convolution goes through its image.
struct DirectTilesPlan {
    grid: Grid,
    /// The places that are taken along the two last dimensions, modulo the step but for columns without
    /// anything between rows. The rows of a pair of places are together.
    places: [SmallVec<[usize; 8]>; 2],
    /// Numbers of a padded row, of the rows of a pair of places, of a plane, and of a band.
    pitch: usize,
    padded_plane: usize,
    plane: usize,
    band: usize,
    all: Terms,
}

/// The bands of an image, before the terms of its results are listed.
struct DirectTilesBands {
    grid: Grid,
    places: [SmallVec<[usize; 8]>; 2],
    /// Numbers between a row's results and the next row's.
    between: usize,
    padded_plane: usize,
    plane: usize,
    /// Results of a plane, and lanes of vectors that have none.
    results: usize,
    wasted: usize,
}

impl DirectTilesBands {
    /// The bands of a convolution or of its transpose, for vectors of `lanes` numbers of `size` bytes
    /// and for `parts` threads; `None` where a band would be too large.
    fn new(
        g: &Geometry,
        kind: ConvKind,
        lanes: usize,
        size: usize,
        parts: usize,
    ) -> Option<DirectTilesBands> {
        let (channels, outs) = g.channels(kind);
        // A pointwise convolution is a product of the image itself.
        if g.is_pointwise() {
            return None;
        }
        let axes = axes(g, kind, MOST)?;
        let [z, y, x] = &axes;
        let mut rows = y.results(0);
        if rows * x.results(0) == 0 {
            return None;
        }
        let mut places = [y.taken(), x.taken()];
        // With a copy of each row for every tap, nothing is between rows. It repays what is copied
        // more than once, `AGAIN` multiply-adds each.
        let again = x.offsets().len() - places[1].len();
        let between = match x.beyond() {
            n if x.step * x.spread > 1
                && rows > 1
                && (outs * g.taps()).saturating_mul(n)
                    > AGAIN * again * places[0].len() * x.results(0) =>
            {
                places[1] = x.offsets();
                0
            }
            n => n,
        };
        let padded_planes = places[0].len() * places[1].len();
        let padded_plane =
            |rows: usize, columns: usize| (rows + y.beyond()).saturating_mul(columns + between);
        // An odd number of cache lines, so that planes do not meet in the same part of the cache.
        let line = 64 / size;
        let plane = |rows, columns| {
            let numbers = padded_plane(rows, columns).saturating_mul(padded_planes);
            (numbers.div_ceil(line) | 1).saturating_mul(line)
        };
        let all = channels.saturating_mul(z.offsets().len());
        let bytes = |rows, columns| {
            plane(rows, columns)
                .saturating_mul(all)
                .saturating_mul(size)
        };
        let most = if lanes * size == 64 { LARGE_BAND } else { BAND };
        let columns = narrowed(x.results(0), lanes, 16 * lanes, |n| bytes(1, n) > most);
        // Bands of about equal size, but none whose greater part is in the next too.
        let planes = g.images * g.groups;
        let mut bands = 1;
        while rows > 2 * y.beyond().max(1)
            && (bytes(rows, columns) > most || planes * bands < parts)
        {
            bands += 1;
            rows = y.results(0).div_ceil(bands);
        }
        let vectors = |rows: usize| match rows {
            0 => 0,
            _ => ((rows - 1) * (columns + between) + columns).div_ceil(lanes),
        };
        let all_vectors =
            |rows: usize| y.results(0) / rows * vectors(rows) + vectors(y.results(0) % rows);
        // Fewer rows that fill vectors better, where no thread waits for another's greater band.
        if bands > 1 && planes.is_multiple_of(parts) {
            let some = (rows.div_ceil(2)..=rows).rev();
            rows = some.min_by_key(|&n| all_vectors(n)).unwrap_or(rows);
        }
        // Places between the rows' results and behind the last one.
        let results = y.results(0) * columns;
        let wasted = all_vectors(rows) * lanes - results;
        if bytes(rows, columns) > MOST {
            return None;
        }
        Some(DirectTilesBands {
            between,
            padded_plane: padded_plane(rows, columns),
            plane: plane(rows, columns),
            results,
            wasted,
            places,
            grid: Grid::new(g, kind, axes, [rows, columns]),
        })
    }
}

impl DirectTilesPlan {
    /// The plan of bands.
    fn new(g: &Geometry, bands: DirectTilesBands) -> DirectTilesPlan {
        let DirectTilesBands {
            grid,
            places,
            between,
            padded_plane,
            plane,
            ..
        } = bands;
        let [_, y, x] = &grid.axes;
        let pitch = grid.columns + between;
        let nth = |all: &[usize], at| all.iter().position(|&p| p == at).unwrap_or(0);
        let all = Terms::new(&grid, g.kernel, |channel, [pz, py, px]| {
            let (px, column) = match between {
                0 => (px, 0),
                _ => (px % x.step, px / x.step),
            };
            let place = nth(&places[0], py % y.step) * places[1].len() + nth(&places[1], px);
            grid.line(channel, pz) * plane + place * padded_plane + py / y.step * pitch + column
        });
        DirectTilesPlan {
            pitch,
            padded_plane,
            plane,
            // Vectors may reach beyond the last number.
            band: grid.channels * grid.depths.len() * plane + 2 * LANES,
            all,
            places,
            grid,
        }
    }
}

fn bands(p: &ConvProblem, machine: &Machine, threads: usize) -> Option<DirectTilesBands> {
    let lanes = lanes(p.dtype, machine.level);
    DirectTilesBands::new(&p.g, p.kind, lanes, p.dtype.size(), threads)
}

/// Whether bands of the image fit.
pub(super) fn accepts(p: &ConvProblem, machine: &Machine, threads: usize) -> bool {
    bands(p, machine, threads).is_some()
}

/// Whether they do, there are enough terms to repay the padding, and few lanes are wasted.
pub(super) fn pays(p: &ConvProblem, machine: &Machine, threads: usize) -> bool {
    let g = &p.g;
    // A result of the transpose takes only the taps of its phase.
    let phases = match p.kind {
        ConvKind::Transposed => g.stride.iter().product(),
        _ => 1,
    };
    // Of a pointwise one with a stride the packed product takes the image's pixels as they are.
    let padded = p.kind == ConvKind::Transposed || g.taps() > 1;
    padded
        && g.channels(p.kind).0 * g.taps() >= tuning::DIRECT_TILES_TERMS * phases
        && bands(p, machine, threads).is_some_and(|b| 4 * b.wasted <= b.results)
}

/// A convolution, or with [`ConvKind::Transposed`] its transpose, that [is accepted](accepts).
pub(super) fn run<T: Windowed>(
    p: &ConvProblem,
    operands: [Ptr<T>; 3],
    epilogue: Epilogue<'_, T>,
) -> Result<()> {
    at(level(), p.kind, &p.g, operands, epilogue)
}

/// [`run`] with the loops of a level.
fn at<T: Windowed>(
    level: Level,
    kind: ConvKind,
    g: &Geometry,
    [image, weight, out]: [Ptr<T>; 3],
    epilogue: Epilogue<'_, T>,
) -> Result<()> {
    let loops = T::loops(level);
    let parts = pool::chunk_count(g.work(), GRAIN).max(1);
    let bands =
        DirectTilesBands::new(g, kind, loops.lanes, size_of::<T>(), parts).ok_or_else(missing)?;
    let plan = DirectTilesPlan::new(g, bands);
    let packed = Scratch::new(plan.grid.groups * plan.grid.outs * plan.all.terms.len())?;
    let call = DirectTilesCall {
        plan: &plan,
        loops,
        operands: [image, Ptr::new(packed.ptr()), out],
        epilogue,
    };
    // The steps to the weight of the next channel out and in; the next tap's is the next one.
    let taps = g.taps();
    let steps = match kind {
        ConvKind::Transposed => [taps, plan.grid.outs * taps],
        _ => [plan.grid.channels * taps, taps],
    };
    call.pack(weight, steps, parts);
    call.run(parts)
}

/// Results of a row that are in a strip: the first one's lane, their number, and the first one's row
/// and column in the band.
struct StripRow {
    lane: usize,
    len: usize,
    row: usize,
    column: usize,
}

struct DirectTilesCall<'a, T: 'static> {
    plan: &'a DirectTilesPlan,
    loops: &'static Loops<T>,
    /// The image, the packed weights and the result.
    operands: [Ptr<T>; 3],
    epilogue: Epilogue<'a, T>,
}

impl<T: Windowed> DirectTilesCall<'_, T> {
    /// The tile that starts at channel `o`: its channels and its loop.
    fn tile(&self, o: usize) -> (usize, unsafe fn(&ChannelBlock<T>)) {
        fitting(self.loops.blocks, self.plan.grid.outs - o)
    }

    /// Channels of the largest tile, and of as many of these as are summed together.
    fn channels(&self) -> (usize, usize) {
        let most = self.loops.blocks.last().map_or(1, |b| b.0);
        (most, OUTS / most * most)
    }

    /// Results of a row of the largest tile.
    fn width(&self) -> usize {
        self.loops.vectors * self.loops.lanes
    }

    /// Packs the weights: by groups, phases, tiles of channels, terms, channels of the tile.
    fn pack(&self, weight: Ptr<T>, [out_step, in_step]: [usize; 2], parts: usize) {
        let p = self.plan;
        let each = p.grid.outs * p.all.terms.len();
        let (most, _) = self.channels();
        let tiles = p.grid.outs.div_ceil(most);
        let tasks = p.grid.groups * tiles;
        pool::parallel_parts(tasks, parts.min(tasks), &|_, range| {
            for task in range {
                let (group, first) = (task / tiles, task % tiles * most);
                let weight = weight.at((group * each) as isize);
                for phase in &p.all.phases {
                    let mut o = first;
                    while o < p.grid.outs.min(first + most) {
                        let (rows, _) = self.tile(o);
                        let at = (group * p.all.terms.len() + phase.first) * p.grid.outs;
                        let mut to = self.operands[1].at((at + o * phase.count) as isize);
                        if rows == 8 && in_step * p.grid.channels == out_step {
                            let rows = Lines {
                                ptr: weight.wrapping_add(o * out_step).cast_const(),
                                line: out_step as isize,
                                term: 1,
                            };
                            // SAFETY: both hold the weights of eight channels, which are in the order
                            // of the terms; eight of each term leave nothing to write beyond.
                            unsafe { T::copy(rows, 8, phase.count, to, 8) };
                            o += 8;
                            continue;
                        }
                        for term in &p.all.terms[phase.first..][..phase.count] {
                            let from = weight.wrapping_add(term.channel * in_step + term.tap);
                            for r in 0..rows {
                                // SAFETY: both hold a weight for each group, pair of channels and tap.
                                unsafe { *to.add(r) = *from.add((o + r) * out_step) };
                            }
                            to = to.wrapping_add(rows);
                        }
                        o += rows;
                    }
                }
            }
        });
    }

    /// Numbers of the sums of a strip.
    fn sums(&self) -> usize {
        OUTS.min(self.plan.grid.outs) * self.plan.grid.axes[2].spread * self.width()
    }

    /// Computes all results, by `parts` threads.
    fn run(&self, parts: usize) -> Result<()> {
        let p = self.plan;
        let bands = p.grid.bands();
        let (most, _) = self.channels();
        let tasks = p.grid.planes * bands;
        // Few bands are done by several threads, each for channels of its own.
        let chunks = match tasks.is_multiple_of(parts) || tasks >= 4 * parts {
            true => 1,
            false => parts.min(p.grid.outs.div_ceil(2 * most)),
        };
        let channels = p.grid.outs.div_ceil(chunks).next_multiple_of(most);
        let chunks = p.grid.outs.div_ceil(channels);
        let tasks = tasks * chunks;
        let parts = parts.min(tasks);
        let each = (p.band + self.sums()).next_multiple_of(64);
        let scratch = Scratch::<T>::new(parts * each)?;
        let memory = Ptr::new(scratch.ptr());
        pool::parallel_parts(tasks, parts, &|part, range| {
            let memory = memory.at((part * each) as isize);
            let mut padded = None;
            for task in range {
                let (index, chunk) = (task / chunks, task % chunks);
                let band = p.grid.band(index / bands, index % bands);
                let outs = chunk * channels..((chunk + 1) * channels).min(p.grid.outs);
                // SAFETY: each part has its memory, and no two tasks the same results.
                unsafe {
                    if padded != Some(index) {
                        self.pad(&band, memory);
                        padded = Some(index);
                    }
                    self.results(&band, outs, memory);
                }
            }
        });
        Ok(())
    }

    /// Writes the padded rows of a band.
    ///
    /// # Safety
    /// The image is the plan's, and `to` has room for a band.
    unsafe fn pad(&self, band: &Band, to: *mut T) {
        let p = self.plan;
        let [z, y, x] = &p.grid.axes;
        let size = y.input * x.input;
        let rows = band.count[0] + y.beyond();
        // The positions from `first` on, a step apart, up to `input`, of so many.
        let before = |first: isize, axis: &ConvAxis, input: usize, most: usize| {
            let n = (input as isize - first).max(0) as usize;
            n.div_ceil(axis.step).min(most)
        };
        for plane in 0..p.grid.channels * p.grid.depths.len() {
            let (image, within) = p.grid.source(band, plane);
            let image = self.operands[0].get().wrapping_offset(image);
            let mut dst = to.wrapping_add(plane * p.plane);
            for &py in &p.places[0] {
                let top = y.start + (band.first[0] * y.step + py) as isize;
                let inside = before(top, y, 0, rows)..before(top, y, y.input, rows);
                let row = top + (inside.start * y.step) as isize;
                // The next plane's rows come meanwhile.
                let mut next = (z.input * size) as isize;
                for &px in &p.places[1] {
                    let from = x.start + (band.first[1] * x.step + px) as isize;
                    let left = before(from, x, 0, p.pitch);
                    let column = from + (left * x.step) as isize;
                    let pad = PadRows {
                        src: image.wrapping_offset(row * x.input as isize + column),
                        next: std::mem::take(&mut next),
                        step: x.step,
                        src_row: y.step * x.input,
                        inside: if within { inside.clone() } else { 0..0 },
                        rows,
                        left,
                        right: before(from, x, x.input, p.pitch),
                        width: p.pitch,
                        dst,
                        dst_row: p.pitch,
                    };
                    // SAFETY: the places are the image's; the caller's promise. What whole vectors
                    // write behind a row is written later, or behind the last plane.
                    unsafe { (self.loops.pad)(&pad) };
                    dst = dst.wrapping_add(p.padded_plane);
                }
            }
        }
    }

    /// The results of some channels of a band.
    ///
    /// # Safety
    /// The operands are the plan's, and no other thread writes these results; `memory` has the band's
    /// padded rows and room for the sums of a strip.
    unsafe fn results(&self, band: &Band, outs: Range<usize>, memory: *mut T) {
        let p = self.plan;
        let [z, y, x] = &p.grid.axes;
        let lanes = self.loops.lanes;
        let (_, some) = self.channels();
        for first in outs.clone().step_by(some) {
            let outs = first..(first + some).min(outs.end);
            for index in 0..z.spread * y.spread {
                let (oz, top) = (band.z * z.spread + index / y.spread, index % y.spread);
                let rows = band.count[0].min(y.results(top).saturating_sub(band.first[0]));
                if oz >= z.output || rows == 0 {
                    continue;
                }
                let plane = (band.plane * p.grid.outs + outs.start) * z.output + oz;
                let row = plane * y.output + band.first[0] * y.spread + top;
                let at = row * x.output + band.first[1] * x.spread;
                let length = (rows - 1) * p.pitch + band.count[1];
                let vectors = length.div_ceil(lanes);
                let mut start = 0;
                for left in (1..=vectors.div_ceil(self.loops.vectors)).rev() {
                    let end = start + (vectors - start).div_ceil(left);
                    let strip = start * lanes..(end * lanes).min(length);
                    // SAFETY: the caller's promise.
                    unsafe { self.strip(band, index, &strip, &outs, at, memory) };
                    start = end;
                }
            }
        }
    }

    /// The pieces of a strip: rows without places between them are one.
    fn pieces(&self, strip: &Range<usize>, columns: usize) -> SmallVec<[StripRow; 8]> {
        let p = self.plan;
        if p.pitch == p.grid.axes[2].output && p.grid.axes[1].spread == 1 {
            let (row, column) = (strip.start / p.pitch, strip.start % p.pitch);
            let len = strip.len();
            return SmallVec::from_iter([StripRow {
                lane: 0,
                len,
                row,
                column,
            }]);
        }
        let rows = strip.start / p.pitch..strip.end.div_ceil(p.pitch);
        rows.filter_map(|row| {
            let start = strip.start.max(row * p.pitch);
            let end = strip.end.min(row * p.pitch + columns);
            (start < end).then(|| StripRow {
                lane: start - strip.start,
                len: end - start,
                row,
                column: start - row * p.pitch,
            })
        })
        .collect()
    }

    /// A strip of the results of some channels, of all phases along the last dimension; `at` is where
    /// the band's first result goes.
    ///
    /// # Safety
    /// As [`DirectTilesCall::results`].
    unsafe fn strip(
        &self,
        band: &Band,
        index: usize,
        strip: &Range<usize>,
        outs: &Range<usize>,
        at: usize,
        memory: *mut T,
    ) {
        let p = self.plan;
        let [z, y, x] = &p.grid.axes;
        let vectors = strip.len().div_ceil(self.loops.lanes);
        let width = self.width();
        let [row, plane] = [y.spread * x.output, z.output * y.output * x.output];
        let out = self.operands[2].at(at as isize);
        let group = band.plane % p.grid.groups;
        let zeros = [T::default(); OUTS];
        let bias = self.epilogue.bias.map_or(zeros.as_ptr(), |bias| {
            bias.at((group * p.grid.outs + outs.start) as isize)
                .cast_const()
        });
        let columns = |phase| band.count[1].min(x.results(phase).saturating_sub(band.first[1]));
        let whole = vectors * self.loops.lanes;
        let lines =
            |phase: usize| memory.wrapping_add(p.band + phase * OUTS.min(p.grid.outs) * width);
        let pieces = self.pieces(strip, columns(0));
        // Results that are all there go to their place at once.
        let direct = match pieces[..] {
            [
                StripRow {
                    lane: 0,
                    len,
                    row: y,
                    column,
                },
            ] if len == whole && x.spread == 1 => Some(out.wrapping_add(y * row + column)),
            _ => None,
        };
        for phase in 0..x.spread {
            let of = &p.all.phases[index * x.spread + phase];
            let sums = lines(phase);
            let blocks = of.count.div_ceil(CHAIN).max(1);
            let each = of.count.div_ceil(blocks);
            for block in 0..blocks {
                let terms = block * each..((block + 1) * each).min(of.count);
                let (to, to_row) = match direct {
                    Some(out) if block + 1 == blocks => (out, plane),
                    _ => (sums, width),
                };
                let mut o = outs.start;
                while o < outs.end {
                    let (rows, sum) = self.tile(o);
                    let weight =
                        (group * p.all.terms.len() + of.first) * p.grid.outs + o * of.count;
                    let weight = weight + terms.start * rows;
                    let nth = o - outs.start;
                    let (from, from_row) = match block {
                        0 => (bias.wrapping_add(nth), 1),
                        _ => (sums.wrapping_add(nth * width).cast_const(), width),
                    };
                    let tiles = (outs.end - o) / rows;
                    let tile = ChannelBlock {
                        tiles,
                        terms: p.all.offsets[of.first + terms.start..].as_ptr(),
                        count: terms.len(),
                        src: memory.wrapping_add(strip.start),
                        weights: self.operands[1].at(weight as isize),
                        weights_tile: rows * of.count,
                        vectors,
                        from,
                        from_row,
                        is_first: block == 0,
                        to: to.wrapping_add(nth * to_row),
                        to_row,
                    };
                    // SAFETY: the caller's promise; all operands hold the tiles.
                    unsafe { sum(&tile) };
                    o += tiles * rows;
                }
            }
        }
        if self.epilogue.affine.is_some() {
            let size = z.output * y.output * x.output;
            let planes = band.plane * p.grid.outs;
            let planes = planes + outs.start..planes + outs.end;
            for piece in &pieces {
                let (from, pitch) = match direct {
                    Some(out) => (out, plane),
                    None => (lines(0).wrapping_add(piece.lane), width),
                };
                let first = at - planes.start * size + piece.row * row + piece.column;
                let pixels = first..first + piece.len;
                // SAFETY: the caller's promise; only a convolution's results are finished, which have one
                // phase, so the sums of their channels are `width` apart.
                unsafe { self.epilogue.finish(planes.clone(), pixels, from, pitch) };
            }
        }
        if direct.is_some() {
            return;
        }
        for piece in &pieces {
            let to = out.wrapping_add(piece.row * row + piece.column * x.spread);
            let from = |phase: usize| lines(phase).wrapping_add(piece.lane).cast_const();
            if x.spread == 1 {
                let rows = OutputRows {
                    from: from(0),
                    from_row: width,
                    to,
                    to_row: plane,
                    rows: outs.len(),
                    width: piece.len,
                };
                // SAFETY: the caller's promise.
                unsafe { (self.loops.put)(&rows) };
                continue;
            }
            // Of later phases there may be a column less.
            let len = |phase| piece.len.min(columns(phase).saturating_sub(piece.column));
            for nth in 0..outs.len() {
                let (to, at) = (to.wrapping_add(nth * plane), nth * width);
                let from = |phase| from(phase).wrapping_add(at);
                // SAFETY: the caller's promise.
                unsafe { interleave(self.loops, x.spread, len, from, to) };
            }
        }
    }
}

#[cfg(feature = "unit-tests")]
mod tests;
