//! The transforms of tiles of 6 x 6 inputs and of 4 x 4 outputs, on vectors of tiles.

use std::ops::Range;

use super::points::{POINTS, PRODUCTS, SIDE, TALLEST, WIDEST, gradients, inputs, load, outputs};
use super::shuffle::{copy_row, gather, interleave};
use crate::multiversion;
use crate::simd::Arch;
use crate::simd::Vector;

/// Adjacent tiles of a row of tiles.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    /// The offset in a plane of pixel (0, `columns.start`) of the rows that the tiles read, which
    /// may lie outside.
    pub first: isize,
    /// Which of these rows, and of their pixels, lie inside the image.
    pub rows: Range<usize>,
    pub columns: Range<usize>,
    /// Where its rows are written.
    pub at: usize,
}

/// The transform of the inputs of one channel.
pub(super) struct Inputs<'a> {
    pub plane: *const f32,
    /// The steps to the next row of the image and to the next channel.
    pub row: usize,
    pub next: usize,
    pub segments: &'a [Segment],
    /// Zeros, as many as a row of a segment has.
    pub zeros: *const f32,
    /// Room for the segments' rows, zero outside the image, and the step between rows.
    pub lines: *mut f32,
    pub pitch: usize,
    /// Where in the first row each tile of some panels is.
    pub tiles: &'a [usize],
    /// Tiles of a panel.
    pub width: usize,
    /// The first product's panel, and the steps to the next product's and the next panel.
    pub to: *mut f32,
    pub product: usize,
    pub panel: usize,
}

multiversion! {
    /// Writes the panels of a channel.
    ///
    /// # Safety
    /// The pointers are valid for what the fields say.
    #[allow(dead_code, reason = "called by level")]
    pub(super) unsafe fn transform_inputs<L>(x: &Inputs<'_>) {
        // SAFETY: the caller's promise; the processor has the level.
        unsafe { input_panels::<L, L::F32>(x) }
    }

    /// Writes some channels of a panel's outputs, and says whether all are finite.
    ///
    /// # Safety
    /// The pointers are valid for what the fields say.
    #[allow(dead_code, reason = "called by level")]
    pub(super) unsafe fn transform_outputs<L>(x: &Outputs<'_>) -> bool {
        // SAFETY: the caller's promise; the processor has the level.
        unsafe { output_rows::<L, L::F32>(x) }
    }

    /// Writes the transform of a channel of the outputs' gradients, for the tiles of a panel.
    ///
    /// # Safety
    /// The pointers are valid for what the fields say.
    #[allow(dead_code, reason = "called by level")]
    pub(super) unsafe fn transform_gradients<L>(x: &OutputGradients<'_>) {
        // SAFETY: the caller's promise; the processor has the level.
        unsafe { gradient_panel::<L, L::F32>(x) }
    }
}

/// # Safety
/// As [`transform_inputs`].
#[inline(always)]
unsafe fn input_panels<L: Arch, V: Vector<T = f32>>(x: &Inputs<'_>) {
    // SAFETY: the caller's promise.
    unsafe {
        for segment in x.segments {
            lift::<V>(x, segment);
        }
        let mut some = [0.0; POINTS * WIDEST];
        for (index, tiles) in x.tiles.chunks_exact(x.width).enumerate() {
            for i in 0..POINTS {
                let to = x.to.add(index * x.panel + i * POINTS * x.product);
                gather::<L>(x.lines.add(i * x.pitch), tiles, some.as_mut_ptr());
                for v in (0..x.width).step_by(V::N) {
                    let from = some.as_ptr().add(v);
                    let row = inputs::<V>(load(from, WIDEST));
                    for j in 0..POINTS {
                        row[j].store(to.add(j * x.product + v));
                    }
                }
            }
        }
    }
}

/// Transforms the columns of a segment, from the image to its rows.
///
/// # Safety
/// As [`transform_inputs`].
#[inline(always)]
unsafe fn lift<V: Vector<T = f32>>(x: &Inputs<'_>, s: &Segment) {
    // SAFETY: the caller's promise: only pixels inside the image are read.
    unsafe {
        let mut rows = [x.zeros; POINTS];
        for r in s.rows.clone() {
            rows[r] = x.plane.wrapping_offset(s.first + (r * x.row) as isize);
        }
        let to = x.lines.add(s.at + s.columns.start);
        let n = s.columns.len();
        let mut done = 0;
        while done < n {
            // The last vector overlaps the one before; a row that is no vector is filled up with
            // zeros.
            let first = if n < V::N { 0 } else { done.min(n - V::N) };
            let mut column = [V::splat(0.0); POINTS];
            // The next channel's rows come from memory meanwhile.
            for r in 0..POINTS {
                V::prefetch_l2(rows[r].wrapping_add(first + x.next));
            }
            if n >= V::N {
                for r in 0..POINTS {
                    column[r] = V::load(rows[r].add(first));
                }
            } else {
                let mut part = [0.0f32; POINTS * TALLEST];
                for r in 0..POINTS {
                    // Branches, since a copy of so few would be a call.
                    for i in 0..V::N {
                        if i < n {
                            part[r * TALLEST + i] = *rows[r].add(i);
                        }
                    }
                }
                column = load(part.as_ptr(), TALLEST);
            }
            let column = inputs::<V>(column);
            for i in 0..POINTS {
                column[i].store(to.add(first + i * x.pitch));
            }
            done = first + V::N;
        }
    }
}

/// Where the outputs of a tile go.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WinogradTarget {
    pub at: usize,
    /// How many of its rows and columns there are.
    pub rows: usize,
    pub columns: usize,
}

/// The transform of a panel of some output channels.
pub(super) struct Outputs<'a> {
    /// For each channel the products of `width` tiles, of which the first `lanes` were computed.
    pub from: *const f32,
    pub width: usize,
    pub lanes: usize,
    pub channels: usize,
    pub bias: Option<*const f32>,
    /// The first channel of the first image, and the steps to the next channel and the next row.
    pub out: *mut f32,
    pub plane: usize,
    pub row: usize,
    pub targets: &'a [WinogradTarget],
}

/// # Safety
/// As [`transform_outputs`].
#[inline(always)]
unsafe fn output_rows<L: Arch, V: Vector<T = f32>>(x: &Outputs<'_>) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        // Zero as long as everything is finite.
        let mut check = V::splat(0.0);
        let zero = V::splat(0.0);
        let mut planes = [0.0f32; SIDE * SIDE * WIDEST];
        for c in 0..x.channels {
            let bias = V::splat(x.bias.map_or(0.0, |b| *b.add(c)));
            for v in (0..x.lanes).step_by(V::N) {
                let from = x.from.add(c * PRODUCTS * x.width + v);
                let mut rows = [[zero; POINTS]; SIDE];
                for j in 0..POINTS {
                    let from = from.add(j * x.width);
                    let column = outputs::<V>(load(from, POINTS * x.width));
                    for r in 0..SIDE {
                        rows[r][j] = column[r];
                    }
                }
                for r in 0..SIDE {
                    let row = outputs::<V>(rows[r]);
                    for j in 0..SIDE {
                        let value = row[j].add(bias);
                        check = check.add_product(value, zero);
                        value.store(planes.as_mut_ptr().add((r * SIDE + j) * WIDEST + v));
                    }
                }
            }
            let out = x.out.add(c * x.plane);
            for r in 0..SIDE {
                scatter::<L, V>(planes.as_ptr().add(r * SIDE * WIDEST), r, x, out);
            }
        }
        let mut lanes = [0.0f32; TALLEST];
        check.store(lanes.as_mut_ptr());
        lanes.iter().all(|&v| v == 0.0)
    }
}

/// Writes row `r` of all tiles, whose pixels are rows of `planes`.
///
/// # Safety
/// As [`transform_outputs`].
#[inline(always)]
unsafe fn scatter<L: Arch, V: Vector<T = f32>>(
    planes: *const f32,
    r: usize,
    x: &Outputs<'_>,
    out: *mut f32,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut quads = [0.0f32; 8 * SIDE];
        for (group, targets) in x.targets.chunks_exact(8).enumerate() {
            let planes = planes.add(group * 8);
            interleave::<L>(planes, quads.as_mut_ptr());
            for (lane, target) in targets.iter().enumerate() {
                if r >= target.rows {
                    continue;
                }
                let to = out.add(target.at + r * x.row);
                let quad = quads.as_ptr().add(lane * SIDE);
                copy_row(quad, to, target.columns);
            }
        }
    }
}

/// The transform of one channel of the outputs' gradients.
pub(super) struct OutputGradients<'a> {
    /// The channel in the first image, and the step between rows.
    pub from: *const f32,
    pub row: usize,
    /// Where the tiles are, one for each of the panel's lanes.
    pub tiles: &'a [WinogradTarget],
    /// The first product's, and the step to the next.
    pub to: *mut f32,
    pub product: usize,
}

/// # Safety
/// As [`transform_gradients`].
#[inline(always)]
unsafe fn gradient_panel<L: Arch, V: Vector<T = f32>>(x: &OutputGradients<'_>) {
    // SAFETY: the caller's promise.
    unsafe {
        let width = x.tiles.len();
        let mut places = [0; WIDEST];
        for (lane, place) in places.iter_mut().enumerate() {
            *place = lane * SIDE;
        }
        let mut planes = [0.0f32; SIDE * POINTS * WIDEST];
        for r in 0..SIDE {
            let mut quads = [0.0f32; WIDEST * SIDE + 2];
            for (lane, tile) in x.tiles.iter().enumerate() {
                if r >= tile.rows {
                    continue;
                }
                let from = x.from.add(tile.at + r * x.row);
                let to = quads.as_mut_ptr().add(lane * SIDE);
                copy_row(from, to, tile.columns);
            }
            let to = planes.as_mut_ptr().add(r * POINTS * WIDEST);
            gather::<L>(quads.as_ptr(), &places[..width], to);
        }
        for v in (0..width).step_by(V::N) {
            let mut rows = [[V::splat(0.0); SIDE]; POINTS];
            for j in 0..SIDE {
                let mut column = [V::splat(0.0); SIDE];
                for r in 0..SIDE {
                    column[r] = V::load(planes.as_ptr().add((r * POINTS + j) * WIDEST + v));
                }
                let column = gradients::<V>(column);
                for i in 0..POINTS {
                    rows[i][j] = column[i];
                }
            }
            for i in 0..POINTS {
                let row = gradients::<V>(rows[i]);
                for j in 0..POINTS {
                    row[j].store(x.to.add((i * POINTS + j) * x.product + v));
                }
            }
        }
    }
}
