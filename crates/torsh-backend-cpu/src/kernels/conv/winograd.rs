//! Convolutions of 3 x 3 kernels with stride 1 by Winograd's minimal filtering: a quarter of the
//! multiply-adds of the definition (A. Lavin, S. Gray, "Fast algorithms for convolutional neural
//! networks", CVPR 2016).
//!
//! Tiles of 4 x 4 outputs, of all images, become 36 products of `[out channels, channels]` by
//! `[channels, tiles]`, whose results become the outputs. What is transformed of some panels of
//! tiles stays in the cache. The largest errors are about those of the definition's sums one after
//! the other, and three to five times those of its sums in stretches.

mod kernels;
mod points;
mod shuffle;
mod tiles;
mod weight;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use torsh_core::machine::Machine;
use torsh_core::{Result, pool};

use super::GRAIN;
use super::choose::ConvProblem;
use super::columns::Geometry;
use super::element::ConvKind;
use super::epilogue::Epilogue;
use super::implicit::forward_geometry;
use crate::kernels::matmul::tile::{Next, Tile, Tiled, Tiles};
use crate::machine::tuning::conv as tuning;
use crate::machine::tuning::winograd::{CHAIN, GAP, INPUTS, OWN, SHARED, SUMS, TERMS};
use crate::memory::dense::{Ptr, Scratch};
use crate::memory::operands::missing;
use crate::simd::{Level, level};
use kernels::{Kernels, Weights, transform_kernels};
use points::{PRODUCTS, SIDE, WIDEST};
use tiles::{Inputs, Outputs, Segment, WinogradTarget, transform_inputs, transform_outputs};

/// Whether a convolution is one of 3 x 3 kernels with stride 1 in two dimensions.
pub(super) fn accepts(g: &Geometry) -> bool {
    let flat = g.input[0] == 1 && g.output[0] == 1 && g.padding[0] == 0;
    let simple =
        g.groups == 1 && g.stride == [1; 3] && g.dilation == [1; 3] && g.kernel == [1, 3, 3];
    flat && simple
}

/// Whether the transforms are repaid, for a geometry that is [accepted](accepts).
///
/// Few channels are left to the definition: it is exact on small integers there, and its sums are
/// short.
pub(super) fn pays(kind: ConvKind, g: &Geometry, machine: &Machine) -> bool {
    if g.in_channels < tuning::WINOGRAD_CHANNELS || g.out_channels < tuning::WINOGRAD_CHANNELS {
        return false;
    }
    // Multiply-adds of a pair of channels, as far as they are done for the panels' width; the
    // tiles' own work and the transform of the kernels count as about so many.
    let all = f32::tiles(machine.level);
    let (width, step) = (panel_width(all), all.step);
    let definition = 9 * (g.images * g.out_pixels()).next_multiple_of(width);
    let (tiles, kernels) = match (kind, WinogradGrid::new(g).tiles()) {
        // Tiles are its terms, not its columns.
        (ConvKind::Weight, tiles) => (PRODUCTS * tiles, tuning::WINOGRAD_WEIGHT_TRANSFORM),
        (_, tiles) => (
            PRODUCTS * tiles.next_multiple_of(step),
            tuning::WINOGRAD_TRANSFORM * width,
        ),
    };
    5 * definition >= 6 * (tiles + tiles / 3 + kernels)
}

/// Columns of a panel: 32 where tiles have up to 48, which few images would not fill.
fn panel_width(tiles: &Tiles<f32>) -> usize {
    WIDEST.min(tiles.columns)
}

/// The tiles of the outputs, counted through all images.
#[derive(Clone, Copy)]
struct WinogradGrid<'a> {
    g: &'a Geometry,
    /// Rows of tiles of an image, and tiles of a row.
    rows: usize,
    columns: usize,
}

impl<'a> WinogradGrid<'a> {
    fn new(g: &'a Geometry) -> WinogradGrid<'a> {
        WinogradGrid {
            g,
            rows: g.output[1].div_ceil(SIDE),
            columns: g.output[2].div_ceil(SIDE),
        }
    }

    fn tiles(&self) -> usize {
        self.g.images * self.rows * self.columns
    }

    /// The pixels of the segments' rows for at most so many tiles.
    fn pitch(&self, tiles: usize) -> usize {
        (tiles.min(self.columns) * SIDE + 2 + 2 * GAP).next_multiple_of(GAP)
    }

    /// The segments of some tiles, and where in their first rows each tile is.
    fn segments(&self, tiles: Range<usize>, pitch: usize) -> (Vec<Segment>, Vec<usize>) {
        let ([_, height, width], [_, top, left]) = (self.g.input, self.g.padding);
        let (mut segments, mut places) = (Vec::new(), Vec::new());
        let mut tile = tiles.start;
        while tile < tiles.end {
            let (row, column) = (tile / self.columns, tile % self.columns);
            let (image, row) = (row / self.rows, row % self.rows);
            let count = (self.columns - column).min(tiles.end - tile);
            let (y, x) = (row * SIDE, column * SIDE);
            let inside = |first: usize, padding: usize, size: usize, n: usize| {
                let start = padding.saturating_sub(first).min(n);
                start..(size + padding).saturating_sub(first).clamp(start, n)
            };
            let columns = inside(x, left, width, count * SIDE + 2);
            let plane = (image * self.g.in_channels * height * width) as isize;
            let first = (y as isize - top as isize) * width as isize + (x + columns.start) as isize
                - left as isize;
            let at = segments.len() * 6 * pitch;
            segments.push(Segment {
                first: plane + first,
                rows: inside(y, top, height, 6),
                columns,
                at,
            });
            places.extend((0..count).map(|i| at + i * SIDE));
            tile += count;
        }
        (segments, places)
    }

    /// Where the outputs of a tile go.
    fn target(&self, tile: usize) -> WinogradTarget {
        let [_, height, width] = self.g.output;
        let (row, column) = (tile / self.columns, tile % self.columns);
        let (image, row) = (row / self.rows, row % self.rows);
        let (y, x) = (row * SIDE, column * SIDE);
        WinogradTarget {
            at: (image * self.g.out_channels * height + y) * width + x,
            rows: SIDE.min(height - y),
            columns: SIDE.min(width - x),
        }
    }
}

/// A convolution under way.
struct WinogradJob<'a> {
    level: Level,
    grid: WinogradGrid<'a>,
    tiles: &'static Tiles<f32>,
    input: Ptr<f32>,
    /// None where the gradient of the weight is computed.
    weights: Option<Weights>,
    epilogue: Epilogue<'a, f32>,
    out: Ptr<f32>,
}

// SAFETY: the weights are only read.
unsafe impl Sync for WinogradJob<'_> {}

/// Transformed inputs of the panels from `first` on.
#[derive(Clone, Copy)]
struct InputPanels {
    first: usize,
    at: Ptr<f32>,
    /// The step to the next product.
    product: usize,
}

impl WinogradJob<'_> {
    /// Columns of a panel.
    fn width(&self) -> usize {
        panel_width(self.tiles)
    }
    fn panels(&self) -> usize {
        self.grid.tiles().div_ceil(self.width())
    }
    /// Columns of a panel that products are computed for: whole vectors of those with a tile.
    fn lanes(&self, panel: usize) -> usize {
        let tiles = self.grid.tiles() - panel * self.width();
        tiles.next_multiple_of(self.tiles.step).min(self.width())
    }
    /// Numbers of a panel for one product.
    fn of_panel(&self) -> usize {
        self.grid.g.in_channels * self.width()
    }
    /// Numbers of a register tile of kernels for one product.
    fn of_rows(&self) -> usize {
        self.grid.g.in_channels * self.tiles.rows + GAP
    }
    /// Register tiles of all output channels.
    fn row_tiles(&self) -> usize {
        self.grid.g.out_channels.div_ceil(self.tiles.rows)
    }
    /// Numbers between the panels of two products.
    fn product(&self, panels: usize) -> usize {
        panels * self.of_panel() + GAP
    }
    /// Room for the rows of the segments of some panels.
    fn of_lines(&self, panels: usize) -> usize {
        let tiles = panels * self.width();
        // The last segment may be followed by zeros, and panels may start anywhere in a row.
        let segments = tiles.div_ceil(self.grid.columns) + 1;
        (6 * segments + 1) * self.grid.pitch(tiles)
    }

    /// Transforms some channels of some panels.
    ///
    /// # Safety
    /// The operands have the sizes of the geometry, `lines` has room for the panels' segments and
    /// `to` for the panels.
    unsafe fn inputs(
        &self,
        channels: Range<usize>,
        some: Range<usize>,
        to: InputPanels,
        lines: *mut f32,
    ) {
        let (g, width) = (self.grid.g, self.width());
        let tiles = some.start * width..(some.end * width).min(self.grid.tiles());
        let pitch = self.grid.pitch(some.len() * width);
        let (segments, mut places) = self.grid.segments(tiles, pitch);
        // Lanes without a tile repeat one.
        places.resize(some.len() * width, 0);
        let zeros = segments.len() * 6 * pitch;
        // SAFETY: the caller's promise.
        unsafe { super::clear(lines, zeros + pitch) };
        for c in channels {
            let start = (some.start - to.first) * self.of_panel() + c * width;
            let x = Inputs {
                plane: self.input.at((c * g.in_pixels()) as isize),
                row: g.input[2],
                next: g.in_pixels(),
                segments: &segments,
                zeros: lines.wrapping_add(zeros),
                lines,
                pitch,
                tiles: &places,
                width,
                to: to.at.at(start as isize),
                product: to.product,
                panel: self.of_panel(),
            };
            // SAFETY: the caller's promise.
            unsafe { transform_inputs::at(self.level)(&x) };
        }
    }

    /// Transforms the kernels of some register tiles, as panels `step` apart.
    ///
    /// # Safety
    /// As [`WinogradJob::inputs`].
    unsafe fn kernels(&self, some: Range<usize>, to: *mut f32, step: usize) {
        let (g, rows) = (self.grid.g, self.tiles.rows);
        let Some(all) = self.weights else {
            return;
        };
        for (index, tile) in some.enumerate() {
            let first = tile * rows;
            let weights = Weights {
                ptr: all.ptr.wrapping_add(first * all.row),
                ..all
            };
            let x = Kernels {
                weights,
                rows: rows.min(g.out_channels - first),
                terms: g.in_channels,
                to: to.wrapping_add(index * self.of_rows()),
                product: step,
            };
            // SAFETY: the caller's promise.
            unsafe { transform_kernels::at(self.level)(&x) };
        }
    }

    /// The output channels of some register tiles.
    fn channels(&self, row_tiles: &Range<usize>) -> Range<usize> {
        let rows = self.tiles.rows;
        row_tiles.start * rows..(row_tiles.end * rows).min(self.grid.g.out_channels)
    }

    /// Multiplies the kernels of some register tiles with a panel.
    ///
    /// # Safety
    /// As [`WinogradJob::outputs`].
    unsafe fn products(
        &self,
        row_tiles: Range<usize>,
        (kernels, step): (*const f32, usize),
        panel: usize,
        from: InputPanels,
        sums: *mut f32,
    ) {
        let tiles = self.tiles;
        let channels = self.channels(&row_tiles).len();
        let inputs = from
            .at
            .at(((panel - from.first) * self.of_panel()) as isize);
        let (terms, width) = (self.grid.g.in_channels, self.width());
        let lanes = self.lanes(panel);
        let row_tiles = (0..channels).step_by(tiles.rows).enumerate();
        for (p, (index, row)) in (0..PRODUCTS).flat_map(|p| row_tiles.clone().map(move |r| (p, r)))
        {
            let rows = tiles.rows.min(channels - row);
            for term in (0..terms).step_by(TERMS) {
                let out = sums.wrapping_add((row * PRODUCTS + p) * width);
                let out_row = (PRODUCTS * width) as isize;
                let tile = Tile {
                    rows,
                    k: TERMS.min(terms - term),
                    a: kernels.wrapping_add(p * step + index * self.of_rows() + term * rows),
                    a_row: 0,
                    b: inputs.wrapping_add(p * from.product + term * width),
                    b_term: width as isize,
                    out,
                    out_row,
                    out_column: 1,
                    columns: lanes,
                    alpha: 1.0,
                    from: match term {
                        0 => std::ptr::null(),
                        _ => out.cast_const(),
                    },
                    from_row: out_row,
                    from_column: 1,
                    chain: CHAIN,
                    next: Next::NONE,
                };
                // SAFETY: the caller's promise.
                unsafe { tiles.packed(lanes)[rows - 1](&tile) };
            }
        }
    }

    /// Computes the outputs of the channels of some register tiles, for some panels, and says
    /// whether all are finite.
    ///
    /// # Safety
    /// As [`WinogradJob::inputs`]; `kernels` are those of the tiles, `step` apart, and `sums` has room for
    /// the products.
    unsafe fn outputs(
        &self,
        row_tiles: Range<usize>,
        (kernels, step): (*const f32, usize),
        some: Range<usize>,
        from: InputPanels,
        sums: *mut f32,
    ) -> bool {
        let g = self.grid.g;
        let channels = self.channels(&row_tiles);
        let first = channels.start;
        let mut finite = true;
        let mut targets = [WinogradTarget::default(); WIDEST];
        for panel in some {
            // SAFETY: the caller's promise.
            unsafe { self.products(row_tiles.clone(), (kernels, step), panel, from, sums) };
            self.targets(panel, &mut targets);
            let x = Outputs {
                from: sums,
                width: self.width(),
                lanes: self.lanes(panel),
                channels: channels.len(),
                bias: self
                    .epilogue
                    .bias
                    .map(|b| b.at(first as isize).cast_const()),
                out: self.out.at((first * g.out_pixels()) as isize),
                plane: g.out_pixels(),
                row: g.output[2],
                targets: &targets[..self.width()],
            };
            // SAFETY: the caller's promise.
            finite &= unsafe { transform_outputs::at(self.level)(&x) };
            if self.epilogue.affine.is_some() {
                // SAFETY: the caller's promise.
                unsafe { self.finish(&channels, panel) };
            }
        }
        finite
    }

    /// Finishes the outputs of some channels for a panel, by the adjacent tiles of a row.
    ///
    /// # Safety
    /// As [`WinogradJob::outputs`].
    unsafe fn finish(&self, channels: &Range<usize>, panel: usize) {
        let (g, grid) = (self.grid.g, &self.grid);
        let ([_, height, width], size) = (g.output, g.out_pixels());
        let mut tile = panel * self.width();
        let end = (tile + self.width()).min(grid.tiles());
        while tile < end {
            let (row, column) = (tile / grid.columns, tile % grid.columns);
            let count = (grid.columns - column).min(end - tile);
            let plane = row / grid.rows * g.out_channels;
            let planes = plane + channels.start..plane + channels.end;
            let columns = column * SIDE..((column + count) * SIDE).min(width);
            let top = row % grid.rows * SIDE;
            for y in top..(top + SIDE).min(height) {
                let pixels = y * width + columns.start..y * width + columns.end;
                let out = self.out.at((planes.start * size + pixels.start) as isize);
                // SAFETY: the caller's promise.
                unsafe { self.epilogue.finish(planes.clone(), pixels, out, size) };
            }
            tile += count;
        }
    }

    /// Where the outputs of a panel go; lanes without a tile have none.
    fn targets(&self, panel: usize, to: &mut [WinogradTarget; WIDEST]) {
        let width = self.width();
        for (lane, target) in to[..width].iter_mut().enumerate() {
            let tile = panel * width + lane;
            *target = match tile < self.grid.tiles() {
                true => self.grid.target(tile),
                false => WinogradTarget::default(),
            };
        }
    }

    /// Register tiles of output channels whose products to have at a time.
    fn chunk(&self, row_tiles: usize) -> usize {
        let fits = SUMS / (PRODUCTS * self.tiles.rows * self.width() * size_of::<f32>());
        let chunks = row_tiles.div_ceil(fits.max(1));
        row_tiles.div_ceil(chunks.max(1)).max(1)
    }
}

/// Computes one of the kernels, or says `false`, with nothing done, where a result is not finite: such
/// a value spreads over its tile, and large ones may overflow on the way.
///
/// For the gradient of the input the kernels of the convolution that gives it are turned by half a
/// turn, with input and output channels exchanged.
pub(super) fn run(
    p: &ConvProblem,
    operands: [Ptr<f32>; 3],
    epilogue: Epilogue<'_, f32>,
) -> Result<bool> {
    match p.kind {
        ConvKind::Forward => at(level(), &p.g, operands, epilogue, false),
        ConvKind::Transposed => {
            let g = forward_geometry(&p.g).ok_or_else(missing)?;
            at(level(), &g, operands, epilogue, true)
        }
        ConvKind::Weight => weight::at(level(), &p.g, operands),
    }
}

/// The convolution at a level.
fn at(
    level: Level,
    g: &Geometry,
    [input, weight, out]: [Ptr<f32>; 3],
    epilogue: Epilogue<'_, f32>,
    transposed: bool,
) -> Result<bool> {
    let (row, term) = match transposed {
        true => (g.taps(), g.out_channels * g.taps()),
        false => (g.window(), g.taps()),
    };
    let weights = Weights {
        ptr: weight.get(),
        row,
        term,
        transposed,
    };
    let job = WinogradJob {
        level,
        grid: WinogradGrid::new(g),
        tiles: f32::tiles(level),
        input,
        weights: Some(weights),
        epilogue,
        out,
    };
    let threads = pool::chunk_count(g.work(), 4 * GRAIN).max(1);
    let kernels = PRODUCTS * job.row_tiles() * job.of_rows() * size_of::<f32>();
    match kernels <= SHARED && job.panels() >= 2 * threads {
        true => by_panels(&job, threads),
        false => by_channels(&job, threads),
    }
}

/// Each thread has panels of its own, which stay in its cache.
fn by_panels(job: &WinogradJob<'_>, threads: usize) -> Result<bool> {
    let row_tiles = job.row_tiles();
    let step = row_tiles * job.of_rows() + GAP;
    let of_kernels = PRODUCTS * step;
    let chunk = job.chunk(row_tiles);
    let of_inputs = PRODUCTS * job.product(1);
    let of_sums = PRODUCTS * chunk * job.tiles.rows * job.width();
    let of_thread = of_inputs + of_sums + job.of_lines(1);
    let memory = Scratch::<f32>::new(of_kernels + threads * of_thread)?;
    let start = Ptr::new(memory.ptr());
    pool::parallel_parts(row_tiles, threads.min(row_tiles), &|_, some| {
        let to = start.at((some.start * job.of_rows()) as isize);
        // SAFETY: the register tiles are the thread's own.
        unsafe { job.kernels(some, to, step) };
    });
    let finite = AtomicBool::new(true);
    pool::parallel_parts(job.panels(), threads, &|thread, some| {
        let own = Ptr::new(start.at((of_kernels + thread * of_thread) as isize));
        let (sums, lines) = (
            own.at(of_inputs as isize),
            own.at((of_inputs + of_sums) as isize),
        );
        // From the end, since the first threads have more panels, and the last panel may have fewer lanes.
        for nth in some {
            let panel = job.panels() - 1 - nth;
            let to = InputPanels {
                first: panel,
                at: own,
                product: job.product(1),
            };
            let mut all = true;
            // SAFETY: the panel and the memory are the thread's own.
            unsafe {
                job.inputs(0..job.grid.g.in_channels, panel..panel + 1, to, lines);
                for first in (0..row_tiles).step_by(chunk) {
                    let tiles = first..(first + chunk).min(row_tiles);
                    let kernels = start.at((first * job.of_rows()) as isize).cast_const();
                    all &= job.outputs(tiles, (kernels, step), panel..panel + 1, to, sums);
                }
            }
            finite.fetch_and(all, Ordering::Relaxed);
        }
    });
    Ok(finite.into_inner())
}

/// Each thread has output channels of its own; many channels' kernels are read and transformed
/// once.
fn by_channels(job: &WinogradJob<'_>, threads: usize) -> Result<bool> {
    let (row_tiles, channels) = (job.row_tiles(), job.grid.g.in_channels);
    let parts = threads.min(row_tiles);
    let of_panel = PRODUCTS * job.of_panel() * size_of::<f32>();
    let most = (INPUTS / of_panel).clamp(1, job.panels());
    let of_kernels = PRODUCTS * job.of_rows() * size_of::<f32>();
    let chunk = job
        .chunk(row_tiles.div_ceil(parts))
        .min((OWN / of_kernels).max(1));
    let step = chunk * job.of_rows() + GAP;
    let of_inputs = PRODUCTS * job.product(most);
    let of_sums = PRODUCTS * chunk * job.tiles.rows * job.width();
    let of_lines = job.of_lines(most);
    let of_thread = (PRODUCTS * step + of_sums).max(of_lines);
    let memory = Scratch::<f32>::new(of_inputs + threads * of_thread)?;
    let start = Ptr::new(memory.ptr());
    let own = |thread: usize| start.at((of_inputs + thread * of_thread) as isize);
    let finite = AtomicBool::new(true);
    for first in (0..job.panels()).step_by(most) {
        let panels = InputPanels {
            first,
            at: start,
            product: job.product(most),
        };
        let some = first..(first + most).min(job.panels());
        pool::parallel_parts(channels, threads.min(channels), &|thread, range| {
            // SAFETY: the channels and the rows are the thread's own.
            unsafe { job.inputs(range, some.clone(), panels, own(thread)) };
        });
        pool::parallel_parts(row_tiles, parts, &|thread, range| {
            let kernels = own(thread);
            let sums = kernels.wrapping_add(PRODUCTS * step);
            let mut all = true;
            for first in range.clone().step_by(chunk) {
                let tiles = first..(first + chunk).min(range.end);
                // SAFETY: the channels and the memory are the thread's own.
                unsafe {
                    job.kernels(tiles.clone(), kernels, step);
                    all &= job.outputs(tiles, (kernels, step), some.clone(), panels, sums);
                }
            }
            finite.fetch_and(all, Ordering::Relaxed);
        });
    }
    Ok(finite.into_inner())
}

#[cfg(feature = "unit-tests")]
mod tests;
