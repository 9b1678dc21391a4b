//! Convolutions on a matrix unit, of float32 in three parts (see [`amx`](crate::kernels::matmul::amx)).
//!
//! AMX wants the terms of its right operand in pairs. Each number of a band of the image is
//! split into its parts once, into words of a pair: of two channels, or of two adjacent columns
//! where the number of channels is odd. What a stride separates has sheets of its own, so that a
//! tap of adjacent results is adjacent words. A panel of windows is then rows of words copied into
//! the first-level cache, where it stays while all kernels are multiplied by it.
//!
//! Intrinsics: Rows of words are merged by masked loads of integers, and addresses are gathered.

mod plan;
mod rows;

use std::arch::x86_64::*;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use smallvec::SmallVec;
use torsh_core::{Result, pool};

use self::plan::{AmxConvPlan, Cut};
pub(super) use self::plan::{accepts, pays};
use self::rows::{InputRows, MaskedColumns};
use super::GRAIN;
use super::columns::Geometry;
use super::epilogue::Epilogue;
use crate::kernels::matmul::amx::pack::{AmxLines, first};
use crate::kernels::matmul::amx::tiles::{self, SIDE, STEP, Sums, TILE, TilePrefetch};
use crate::kernels::matmul::amx::{OF_STEP, Safe, SplitParts, is_finite, is_safe};
use crate::memory::dense::{Ptr, Scratch};
use crate::memory::operands::missing;

/// Bytes of a block of sums.
const BLOCK: usize = 4 * SIDE * SIDE;
/// Pairs of terms of a step.
const PAIRS: usize = STEP / 2;

/// A convolution that [is accepted](accepts); `false` where a result is not finite, which the splitting
/// does not survive.
pub(super) fn run(
    g: &Geometry,
    [image, weight, out]: [Ptr<f32>; 3],
    epilogue: Epilogue<'_, f32>,
) -> Result<bool> {
    let parts = pool::chunk_count(g.work(), GRAIN).max(1);
    let plan = AmxConvPlan::new(g, Cut::new(g, parts).ok_or_else(missing)?);
    let blocks = g.out_channels.div_ceil(SIDE);
    let packed = Scratch::<u8>::new(g.groups * blocks * plan.kernels())?;
    let call = AmxConvCall {
        g,
        plan: &plan,
        blocks,
        kernels: Ptr::new(packed.ptr()),
        image,
        epilogue,
        out,
    };
    let greatest = AtomicU32::new(0);
    pool::parallel_parts(
        g.groups * blocks,
        parts.min(g.groups * blocks),
        &|_, range| {
            for task in range {
                // SAFETY: AMX is there, the kernels are the geometry's, and no other thread packs these.
                let of_these = unsafe { call.pack(weight, task / blocks, task % blocks) };
                greatest.fetch_max(of_these, Ordering::Relaxed);
            }
        },
    );
    let tasks = g.images.div_ceil(plan.together) * g.groups * plan.bands;
    let parts = parts.min(tasks);
    let each = call.memory();
    let memory = Scratch::<u8>::new(parts * each)?;
    let memory = Ptr::new(memory.ptr());
    let greatest = greatest.into_inner();
    let failed = AtomicBool::new(false);
    pool::parallel_parts(tasks, parts, &|part, range| {
        // SAFETY: AMX is there, each part has its memory, and no two bands the same results.
        let done = unsafe { call.bands(range, greatest, memory.at((part * each) as isize)) };
        failed.fetch_or(!done, Ordering::Relaxed);
    });
    Ok(!failed.into_inner())
}

struct AmxConvCall<'a> {
    g: &'a Geometry,
    plan: &'a AmxConvPlan,
    /// Panels of kernels.
    blocks: usize,
    kernels: Ptr<u8>,
    image: Ptr<f32>,
    epilogue: Epilogue<'a, f32>,
    out: Ptr<f32>,
}

/// A part of the results: of some images of a group, some rows.
struct AmxConvBand {
    group: usize,
    images: Range<usize>,
    first: usize,
    rows: usize,
    /// Its split words.
    words: *mut u8,
}

/// Adjacent words of a row of a panel: their lanes, and where lane 0 would be in the first sheet.
#[derive(Clone, Copy)]
struct AdjacentWords {
    lanes: u16,
    at: isize,
}
type PanelRowWords = SmallVec<[AdjacentWords; 4]>;

/// Rows of a panel's tiles to write: words of a band at the places of 16 results.
struct Fill<'a> {
    plan: &'a AmxConvPlan,
    band: *const i32,
    pieces: &'a [AdjacentWords],
}

impl Fill<'_> {
    /// Writes a step in every other tile from `to` on.
    ///
    /// # Safety
    /// The words must be the band's, and there be room.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]
    unsafe fn step(&self, step: usize, to: *mut u8) {
        let from = |piece: &AdjacentWords| self.band.wrapping_offset(piece.at);
        // SAFETY: the caller's promise; the masks leave out what is not there.
        unsafe {
            match self.pieces {
                [all] if all.lanes == u16::MAX => {
                    let from = from(all);
                    self.rows(step, to, |at| {
                        _mm512_loadu_si512(from.wrapping_add(at).cast())
                    });
                }
                [x, y] => {
                    let from = [from(x), from(y)];
                    self.rows(step, to, |at| {
                        let row = _mm512_maskz_loadu_epi32(x.lanes, from[0].wrapping_add(at));
                        _mm512_mask_loadu_epi32(row, y.lanes, from[1].wrapping_add(at))
                    });
                }
                pieces => self.rows(step, to, |at| {
                    let mut row = _mm512_setzero_si512();
                    for piece in pieces {
                        let from = from(piece).wrapping_add(at);
                        row = _mm512_mask_loadu_epi32(row, piece.lanes, from);
                    }
                    row
                }),
            }
        }
    }

    /// Writes the rows that `row` reads, of all parts, and zeros where there are no more words.
    ///
    /// # Safety
    /// As [`Fill::step`].
    #[inline(always)]
    unsafe fn rows(&self, step: usize, to: *mut u8, row: impl Fn(usize) -> __m512i) {
        let words = self.plan.words.get(step * PAIRS..).unwrap_or_default();
        for i in 0..PAIRS {
            for part in 0..3 {
                // SAFETY: the caller's promise.
                unsafe {
                    let row = match words.get(i) {
                        Some(word) => row(word.at + part * self.plan.part),
                        None => _mm512_setzero_si512(),
                    };
                    _mm512_store_si512(to.add(2 * TILE * part + 64 * i).cast(), row);
                }
            }
        }
    }
}

/// A block of results.
#[derive(Clone, Copy)]
struct TileBlock {
    panel: usize,
    block: usize,
    sums: Sums,
    in_place: bool,
}

impl AmxConvCall<'_> {
    /// Bytes that a thread needs: words of a band, a stretch of a panel, and sums.
    fn memory(&self) -> usize {
        let p = self.plan;
        let sums = self.blocks
            + 1
            + if self.epilogue.bias.is_some() {
                self.blocks
            } else {
                0
            };
        3 * 4 * p.part + p.chain * OF_STEP + sums * BLOCK
    }

    /// Packs a panel of kernels, in the order of the words. Returns the bits of the greatest magnitude.
    ///
    /// # Safety
    /// AMX must be there, and the kernels be the geometry's.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]
    unsafe fn pack(&self, weight: Ptr<f32>, group: usize, block: usize) -> u32 {
        let (p, g) = (self.plan, self.g);
        let count = SIDE.min(g.out_channels - block * SIDE);
        let first = (group * g.out_channels + block * SIDE) * g.window();
        let from = weight.at(first as isize).cast_const();
        let to = (group * self.blocks + block) * p.kernels();
        let mut to = self.kernels.at(to as isize);
        let mut greatest = 0;
        for words in p.words.chunks(PAIRS) {
            // Where the weights of a step are in a kernel, of which there are fewer than 2^31.
            let (mut places, mut there) = ([0i32; STEP], 0u32);
            for (i, weight) in words.iter().flat_map(|word| word.weights).enumerate() {
                if let Some(weight) = weight {
                    places[i] = weight as i32;
                    there |= 1 << i;
                }
            }
            let mut dense = [0f32; SIDE * STEP];
            for (o, dense) in dense.chunks_exact_mut(STEP).enumerate().take(count) {
                let from = from.wrapping_add(o * g.window());
                for half in 0..2 {
                    // SAFETY: the caller's promise; the mask leaves out what is not there.
                    unsafe {
                        let places = _mm512_loadu_si512(places.as_ptr().add(16 * half).cast());
                        let there = (there >> (16 * half)) as u16;
                        let zero = _mm512_setzero_ps();
                        let x = _mm512_mask_i32gather_ps::<4>(zero, there, places, from);
                        _mm512_storeu_ps(dense.as_mut_ptr().add(16 * half), x);
                    }
                }
            }
            let lines = AmxLines {
                ptr: dense.as_ptr().cast(),
                across: 4 * STEP as isize,
                along: 4,
                count: SIDE,
                terms: STEP,
            };
            // SAFETY: the lines are there, and there is room for a step.
            let of_step = unsafe { lines.pack::<false>(to, SplitParts::Three) };
            greatest = greatest.max(of_step);
            to = to.wrapping_add(OF_STEP);
        }
        greatest
    }

    /// Computes some bands; `false` where results may not be finite.
    ///
    /// # Safety
    /// AMX must be there, the operands be the geometry's, `memory` have room, and nobody else
    /// write these bands.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]
    unsafe fn bands(&self, tasks: Range<usize>, greatest: u32, memory: *mut u8) -> bool {
        let (p, g) = (self.plan, self.g);
        let panel = memory.wrapping_add(3 * 4 * p.part);
        let sums = panel.wrapping_add(p.chain * OF_STEP).cast::<f32>();
        let bias = sums.wrapping_add((self.blocks + 1) * SIDE * SIDE);
        let mut of_group = None;
        let mut all = true;
        // SAFETY: the caller's promise.
        unsafe {
            tiles::configure();
            for task in tasks {
                let (task, index) = (task / p.bands, task % p.bands);
                let (images, group) = (task / g.groups * p.together, task % g.groups);
                let first = index * p.rows;
                let band = AmxConvBand {
                    group,
                    images: images..(images + p.together).min(g.images),
                    first,
                    rows: p.rows.min(g.output[1].saturating_sub(first)),
                    words: memory,
                };
                if let Some(from) = self.epilogue.bias
                    && of_group != Some(group)
                {
                    let from = from.at((group * g.out_channels) as isize);
                    for i in 0..self.blocks * SIDE {
                        let value = if i < g.out_channels {
                            *from.add(i)
                        } else {
                            0.0
                        };
                        std::slice::from_raw_parts_mut(bias.add(i * SIDE), SIDE).fill(value);
                    }
                    of_group = Some(group);
                }
                let safe = is_safe([self.split(&band), greatest], g.window() + 1);
                if safe == Safe::No {
                    all = false;
                    break;
                }
                let bias = self.epilogue.bias.map(|_| bias.cast_const());
                if !self.band(&band, panel, sums, bias, safe == Safe::Maybe) {
                    all = false;
                    break;
                }
                let ([_, _, width], outs, size) = (g.output, g.out_channels, g.out_pixels());
                for image in band.images.clone() {
                    let plane = (image * g.groups + group) * outs;
                    let pixels = band.first * width..(band.first + band.rows) * width;
                    let out = self.out.at((plane * size + pixels.start) as isize);
                    self.epilogue.finish(plane..plane + outs, pixels, out, size);
                }
            }
            tiles::release();
        }
        all
    }

    /// Writes the words of a band. Returns the bits of the greatest magnitude.
    ///
    /// # Safety
    /// As [`AmxConvCall::bands`].
    #[inline(never)]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]
    unsafe fn split(&self, band: &AmxConvBand) -> u32 {
        let (p, g) = (self.plan, self.g);
        let ([_, height, width], [_, top, left]) = (g.input, g.padding);
        let mut greatest = _mm512_setzero_si512();
        for (nth, image) in band.images.clone().enumerate() {
            let channels = (image * g.groups + band.group) * g.in_channels;
            for (i, padded_plane) in p.padded_planes.iter().enumerate() {
                // The rows that are in the image.
                let y = (band.first * g.stride[1] + padded_plane.row) as isize - top as isize;
                let rows = band.rows + p.beyond;
                let before = |end: isize| {
                    let n = (end - y).max(0) as usize;
                    n.div_ceil(g.stride[1]).min(rows)
                };
                let inside = before(0)..before(height as isize);
                let row = y + (inside.start * g.stride[1]) as isize;
                // A term that is not there is one outside of the image.
                let column = |term: Option<(usize, usize)>| match term {
                    Some((channel, column)) => {
                        let plane = ((channels + channel) * height) as isize;
                        let from = self.image.at((plane + row) * width as isize);
                        (from.cast_const(), column as isize - left as isize)
                    }
                    None => (self.image.get().cast_const(), width as isize),
                };
                let [x, y] = [column(padded_plane.terms[0]), column(padded_plane.terms[1])];
                let to = band
                    .words
                    .wrapping_add(4 * (nth * p.image + i * p.padded_plane));
                // From the end, since a row's last vector may reach into the next row.
                for j in (0..p.pitch).step_by(PAIRS).rev() {
                    let rows = InputRows {
                        x: MaskedColumns::new(x, j * g.stride[2], width),
                        y: MaskedColumns::new(y, j * g.stride[2], width),
                        step: g.stride[1] * width,
                        count: rows,
                        inside: inside.clone(),
                        next: 2 * height * width,
                        to: to.wrapping_add(4 * j),
                        pitch: 4 * p.pitch,
                        apart: 4 * p.part,
                    };
                    // SAFETY: the caller's promise.
                    unsafe {
                        match g.stride[2] {
                            1 => rows.split::<1>(&mut greatest),
                            _ => rows.split::<2>(&mut greatest),
                        }
                    }
                }
            }
        }
        _mm512_reduce_max_epu32(greatest)
    }

    /// The results of a band whose words are there; `false` where some are not finite.
    ///
    /// # Safety
    /// As [`AmxConvCall::bands`].
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]
    unsafe fn band(
        &self,
        band: &AmxConvBand,
        panel: *mut u8,
        sums: *mut f32,
        bias: Option<*const f32>,
        doubtful: bool,
    ) -> bool {
        let p = self.plan;
        let results = band.images.len() * band.rows * self.g.output[2];
        let kernels = self
            .kernels
            .at((band.group * self.blocks * p.kernels()) as isize);
        let kept = |index: usize| Sums {
            ptr: sums.wrapping_add(index * SIDE * SIDE),
            step: 4 * SIDE,
        };
        let nothing = TilePrefetch {
            ptr: panel,
            step: 0,
        };
        // What the tiles hold, and whether that is all.
        let mut before: Option<(TileBlock, bool)> = None;
        let mut finite = true;
        // SAFETY: the caller's promise; the memory has room for a stretch and the blocks.
        unsafe {
            for nth in 0..results.div_ceil(SIDE) {
                let halves = [0, 1].map(|half| self.pieces(band, nth * SIDE + 16 * half, results));
                for s in (0..p.steps).step_by(p.chain) {
                    let some = p.chain.min(p.steps - s);
                    for step in 0..some {
                        for (half, pieces) in halves.iter().enumerate() {
                            let fill = Fill {
                                plan: p,
                                band: band.words.cast::<i32>().cast_const(),
                                pieces,
                            };
                            fill.step(s + step, panel.wrapping_add(step * OF_STEP + half * TILE));
                        }
                    }
                    let (begins, epilogue) = (s == 0, s + some == p.steps);
                    for i in 0..self.blocks {
                        // One block alone must not be what is still in the tiles.
                        let index = if self.blocks == 1 { nth % 2 } else { i };
                        let sums = kept(index);
                        let place = match epilogue {
                            true => self.place(band, nth, i, results),
                            false => None,
                        };
                        let block = TileBlock {
                            panel: nth,
                            block: i,
                            sums: place.unwrap_or(sums),
                            in_place: place.is_some(),
                        };
                        let a = kernels.wrapping_add(i * p.kernels() + s * OF_STEP);
                        let (mut a, mut b, mut left) = (a.cast_const(), panel.cast_const(), some);
                        let resumed = match bias {
                            _ if !begins => Some(sums),
                            Some(bias) => Some(Sums {
                                ptr: bias.wrapping_add(i * SIDE * SIDE).cast_mut(),
                                ..sums
                            }),
                            None => None,
                        };
                        let mut ended = None;
                        match before {
                            // The tiles go on.
                            Some((x, false)) if x.panel == nth && x.block == i => {}
                            Some((x, done)) => {
                                tiles::turn(SplitParts::Three, x.sums, resumed, a, b);
                                (a, b) = (a.wrapping_add(OF_STEP), b.wrapping_add(OF_STEP));
                                left -= 1;
                                ended = done.then_some(x);
                            }
                            None => match resumed {
                                Some(sums) => sums.resume(),
                                None => Sums::clear(),
                            },
                        }
                        let near = place.map(Sums::ahead);
                        tiles::steps_near(SplitParts::Three, left, a, b, near, nothing);
                        // Not right after it was written, when it could not be read back yet.
                        if let Some(x) = ended {
                            finite &= self.done(band, &x, results, doubtful);
                        }
                        before = Some((block, epilogue));
                    }
                }
            }
            if let Some((block, _)) = before {
                block.sums.store();
                finite &= self.done(band, &block, results, doubtful);
            }
        }
        finite
    }

    /// The pieces of 16 results of a band, from `start` on.
    fn pieces(&self, band: &AmxConvBand, start: usize, results: usize) -> PanelRowWords {
        let (p, width) = (self.plan, self.g.output[2]);
        let mut pieces = PanelRowWords::new();
        let end = results.min(start + 16);
        let mut j = start;
        while j < end {
            let (row, x) = (j / width, j % width);
            let (image, row) = (row / band.rows, row % band.rows);
            // Rows with nothing between them are one.
            let left = match p.pitch == width {
                true => (band.rows - row) * width - x,
                false => width - x,
            };
            let (lane, count) = (j - start, left.min(end - j));
            pieces.push(AdjacentWords {
                lanes: first(count) << lane,
                at: (image * p.image + row * p.pitch + x) as isize - lane as isize,
            });
            j += count;
        }
        pieces
    }

    /// Where result `at` of a band is, of the first channel of a block, and how many follow it there.
    fn result(&self, band: &AmxConvBand, at: usize, block: usize) -> (*mut f32, usize) {
        let g = self.g;
        let of_image = band.rows * g.output[2];
        let (image, pixel) = (at / of_image, at % of_image);
        let plane = ((band.images.start + image) * g.groups + band.group) * g.out_channels;
        let to = (plane + block * SIDE) * g.out_pixels() + band.first * g.output[2] + pixel;
        (self.out.at(to as isize), of_image - pixel)
    }

    /// The place of a block of results that is whole.
    fn place(
        &self,
        band: &AmxConvBand,
        panel: usize,
        block: usize,
        results: usize,
    ) -> Option<Sums> {
        let (ptr, left) = self.result(band, panel * SIDE, block);
        let whole = left >= SIDE && panel * SIDE + SIDE <= results;
        (whole && (block + 1) * SIDE <= self.g.out_channels).then_some(Sums {
            ptr,
            step: 4 * self.g.out_pixels(),
        })
    }

    /// Brings the sums of a block to the results; `false` where some are not finite.
    ///
    /// # Safety
    /// As [`AmxConvCall::bands`].
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]
    unsafe fn done(
        &self,
        band: &AmxConvBand,
        x: &TileBlock,
        results: usize,
        doubtful: bool,
    ) -> bool {
        // SAFETY: the block was written.
        let finite = unsafe { !doubtful || is_finite(x.sums) };
        if x.in_place {
            return finite;
        }
        let rows = SIDE.min(self.g.out_channels - x.block * SIDE);
        let end = results.min(x.panel * SIDE + SIDE);
        let mut at = x.panel * SIDE;
        while at < end {
            let (to, left) = self.result(band, at, x.block);
            let from = x.sums.ptr.wrapping_add(at - x.panel * SIDE);
            let count = left.min(end - at).min(16);
            for i in 0..rows {
                // SAFETY: the results are the geometry's.
                unsafe {
                    let row = _mm512_maskz_loadu_ps(first(count), from.wrapping_add(i * SIDE));
                    let to = to.add(i * self.g.out_pixels());
                    _mm512_mask_storeu_ps(to, first(count), row);
                }
            }
            at += count;
        }
        finite
    }
}

#[cfg(feature = "unit-tests")]
mod tests;
