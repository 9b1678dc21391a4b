//! The gradient of the weight: for each of a tile's 36 products a sum over all tiles, the product
//! of `[out channels, tiles]` by `[tiles, channels]`.

use super::super::epilogue::Epilogue;
use super::kernels::{KernelGradients, transform_sums};
use super::tiles::{OutputGradients, transform_gradients};
use super::*;
use crate::kernels::matmul::panel::{Lines, Square};

/// Terms that are summed one after the other.
const CHAIN: usize = 32;
/// Panels of tiles whose sums are added up in registers: more would not stay in the first-level
/// cache.
const TOGETHER: usize = 16;

/// The sums of some output channels and a group of channels: the first product's, and the steps to
/// the next output channel's and to the next product's.
#[derive(Clone, Copy)]
struct Slab {
    at: *mut f32,
    row: usize,
    product: usize,
}

/// A gradient under way. The job's output is that of the convolution, whose gradient is read.
struct Weight<'a> {
    job: WinogradJob<'a>,
    threads: usize,
    /// Output channels of a register tile, so many that threads have about as many each.
    rows: usize,
    /// Panels at a time.
    most: usize,
    /// Whether there are several blocks of panels, so that the sums of all channels are kept.
    keep: bool,
    /// Register tiles of output channels at a time.
    chunk: usize,
    memory: Ptr<f32>,
}

impl Weight<'_> {
    fn channels(&self) -> usize {
        self.job.grid.g.in_channels
    }
    /// Tiles that there is room for.
    fn tiles(&self) -> usize {
        self.most * self.job.width()
    }
    /// Panels of channels.
    fn groups(&self) -> usize {
        self.channels().div_ceil(self.job.width())
    }
    /// Numbers between the transformed inputs of two products.
    fn of_turned(&self) -> usize {
        self.groups() * self.tiles() * self.job.width() + GAP
    }
    /// Numbers of the transformed gradients of a register tile of channels, which are adjacent for
    /// each tile.
    fn of_packed(&self) -> usize {
        self.rows * self.tiles() + GAP
    }
    /// Numbers between those of two products, and of one panel before they are packed.
    fn of_gradients(&self, row_tiles: usize) -> usize {
        row_tiles * self.of_packed() + GAP
    }
    fn of_lines(&self) -> usize {
        self.rows * self.job.width() + GAP
    }

    /// Numbers between the sums of two products that are kept, and of two of a thread's own.
    fn of_kept(&self) -> usize {
        let rows = if self.keep {
            self.job.grid.g.out_channels
        } else {
            0
        };
        rows * self.channels() + GAP
    }
    fn of_sums(&self) -> usize {
        let rows = if self.keep { 0 } else { self.chunk * self.rows };
        rows * self.job.width() + GAP
    }
    /// Numbers that all threads share: transformed inputs, with the channels of a register tile
    /// adjacent, and the sums that are kept.
    fn of_all(&self) -> usize {
        PRODUCTS * (self.of_turned() + self.of_kept())
    }
    /// Numbers that each thread has for itself.
    fn of_thread(&self) -> usize {
        let inputs = PRODUCTS * self.job.width().pow(2) + self.job.of_lines(1);
        let gradients = self.of_gradients(self.chunk) + self.of_lines();
        inputs.max(PRODUCTS * (gradients + self.of_sums()))
    }
    fn own(&self, thread: usize) -> *mut f32 {
        self.memory
            .at((self.of_all() + thread * self.of_thread()) as isize)
    }

    /// The output channels of some register tiles.
    fn outputs(&self, tiles: &Range<usize>) -> Range<usize> {
        let end = self.job.grid.g.out_channels;
        tiles.start * self.rows..(tiles.end * self.rows).min(end)
    }

    /// The channels of a group.
    fn group(&self, group: usize) -> Range<usize> {
        let width = self.job.width();
        group * width..((group + 1) * width).min(self.channels())
    }

    /// Where a thread has the sums of a group, of the output channels from a register tile on.
    fn sums(&self, thread: usize, tile: usize, group: usize) -> Slab {
        let width = self.job.width();
        let at = tile * self.rows * self.channels() + group * width;
        match self.keep {
            true => Slab {
                at: self.memory.at((PRODUCTS * self.of_turned() + at) as isize),
                row: self.channels(),
                product: self.of_kept(),
            },
            false => Slab {
                at: self
                    .own(thread)
                    .wrapping_add(PRODUCTS * (self.of_gradients(self.chunk) + self.of_lines())),
                row: width,
                product: self.of_sums(),
            },
        }
    }

    /// Transforms a group of channels of a panel, the `index`-th of those that are there.
    ///
    /// # Safety
    /// The operands have the sizes of the geometry; `memory` has room for a square of each product,
    /// and for the lines of a panel behind.
    unsafe fn inputs(&self, group: usize, panel: usize, index: usize, memory: *mut f32) {
        let width = self.job.width();
        let channels = self.group(group);
        let square = width * width;
        let to = InputPanels {
            first: panel,
            at: Ptr::new(memory.wrapping_sub(channels.start * width)),
            product: square,
        };
        // SAFETY: the caller's promise.
        unsafe {
            let lines = memory.add(PRODUCTS * square);
            self.job
                .inputs(channels.clone(), panel..panel + 1, to, lines);
            for p in 0..PRODUCTS {
                let from = Lines {
                    ptr: memory.add(p * square).cast_const(),
                    line: width as isize,
                    term: 1,
                };
                let at = p * self.of_turned() + (group * self.tiles() + index * width) * width;
                let to = self.memory.at(at as isize);
                if channels.len() < width {
                    super::super::clear(to, square);
                }
                f32::copy(from, channels.len(), width, to, width);
            }
        }
    }

    /// Transforms the gradients of some panels, of the channels of some register tiles.
    ///
    /// # Safety
    /// As [`Weight::inputs`]; `memory` has room for these gradients, and for those of a panel behind.
    unsafe fn gradients(&self, row_tiles: &Range<usize>, some: &Range<usize>, memory: *mut f32) {
        let (g, width) = (self.job.grid.g, self.job.width());
        let lines = memory.wrapping_add(PRODUCTS * self.of_gradients(self.chunk));
        let mut targets = [WinogradTarget::default(); WIDEST];
        for (index, panel) in some.clone().enumerate() {
            self.job.targets(panel, &mut targets);
            for (nth, tile) in row_tiles.clone().enumerate() {
                let channels = self.outputs(&(tile..tile + 1));
                for (row, channel) in channels.clone().enumerate() {
                    let x = OutputGradients {
                        from: self.job.out.at((channel * g.out_pixels()) as isize),
                        row: g.output[2],
                        tiles: &targets[..width],
                        to: lines.wrapping_add(row * width),
                        product: self.of_lines(),
                    };
                    // SAFETY: the caller's promise.
                    unsafe { transform_gradients::at(self.job.level)(&x) };
                }
                let to =
                    memory.wrapping_add(nth * self.of_packed() + index * width * channels.len());
                for p in 0..PRODUCTS {
                    let from = Lines {
                        ptr: lines.wrapping_add(p * self.of_lines()).cast_const(),
                        line: width as isize,
                        term: 1,
                    };
                    let to = to.wrapping_add(p * self.of_gradients(row_tiles.len()));
                    // SAFETY: the caller's promise. What is written beyond a panel is the next one,
                    // which is written later, or in the gap.
                    unsafe { f32::copy(from, channels.len(), width, to, channels.len()) };
                }
            }
        }
    }

    /// Adds the products of some panels to the sums of a group and the channels of some register
    /// tiles, or writes them.
    ///
    /// # Safety
    /// As [`Weight::inputs`]; the inputs of the panels are there, and their gradients in `memory`.
    unsafe fn products(
        &self,
        row_tiles: &Range<usize>,
        some: &Range<usize>,
        group: usize,
        sums: Slab,
        add: bool,
        memory: *const f32,
    ) {
        let (tiles, channels) = (self.job.tiles, self.group(group).len());
        let rows = self.outputs(row_tiles).len();
        let (width, length) = (self.job.width(), self.tiles());
        let step = self.of_gradients(row_tiles.len());
        // The last panel may be filled in part.
        let terms = self.job.grid.tiles().min(some.end * width) - some.start * width;
        for p in 0..PRODUCTS {
            let inputs = p * self.of_turned() + group * length * width;
            for (nth, row) in (0..rows).step_by(self.rows).enumerate() {
                let rows = self.rows.min(rows - row);
                let out = sums.at.wrapping_add(p * sums.product + row * sums.row);
                let tile = Tile {
                    rows,
                    k: terms,
                    a: memory.wrapping_add(p * step + nth * self.of_packed()),
                    a_row: 1,
                    b: self.memory.at(inputs as isize).cast_const(),
                    b_term: width as isize,
                    out,
                    out_row: sums.row as isize,
                    out_column: 1,
                    columns: channels,
                    alpha: 1.0,
                    from: if add {
                        out.cast_const()
                    } else {
                        std::ptr::null()
                    },
                    from_row: sums.row as isize,
                    from_column: 1,
                    chain: CHAIN,
                    next: Next::NONE,
                };
                // SAFETY: the caller's promise.
                unsafe { tiles.packed(width)[rows - 1](&tile) };
            }
        }
    }

    /// Writes the gradients of a group and the channels of some register tiles, and says whether all
    /// are finite.
    ///
    /// # Safety
    /// As [`Weight::inputs`].
    unsafe fn finish(
        &self,
        row_tiles: &Range<usize>,
        group: usize,
        sums: Slab,
        out: Ptr<f32>,
    ) -> bool {
        let (g, inputs) = (self.job.grid.g, self.group(group));
        let mut finite = true;
        for (row, channel) in self.outputs(row_tiles).enumerate() {
            let x = KernelGradients {
                from: sums.at.wrapping_add(row * sums.row).cast_const(),
                product: sums.product,
                channels: inputs.len(),
                to: out.at((channel * g.window() + inputs.start * g.taps()) as isize),
            };
            // SAFETY: the caller's promise.
            finite &= unsafe { transform_sums::at(self.job.level)(&x) };
        }
        finite
    }

    /// Computes the gradient, and says whether all of it is finite.
    ///
    /// # Safety
    /// As [`Weight::inputs`]; the memory has room for what is shared and for each thread's own.
    unsafe fn compute(&self, out: Ptr<f32>) -> bool {
        let panels = self.job.panels();
        let row_tiles = self.job.grid.g.out_channels.div_ceil(self.rows);
        let finite = AtomicBool::new(true);
        for first in (0..panels).step_by(self.most) {
            let some = first..(first + self.most).min(panels);
            let tasks = self.groups() * some.len();
            pool::parallel_parts(tasks, self.threads.min(tasks), &|thread, range| {
                for task in range {
                    let (group, index) = (task / some.len(), task % some.len());
                    // SAFETY: the group's panel and the memory are the thread's own.
                    unsafe { self.inputs(group, first + index, index, self.own(thread)) };
                }
            });
            pool::parallel_parts(row_tiles, self.threads.min(row_tiles), &|thread, range| {
                let mut all = true;
                for tile in range.clone().step_by(self.chunk) {
                    let tiles = tile..(tile + self.chunk).min(range.end);
                    let memory = self.own(thread);
                    // SAFETY: the channels and the memory are the thread's own.
                    unsafe {
                        self.gradients(&tiles, &some, memory);
                        for group in 0..self.groups() {
                            let sums = self.sums(thread, tile, group);
                            self.products(&tiles, &some, group, sums, first > 0, memory);
                            if some.end == panels {
                                all &= self.finish(&tiles, group, sums, out);
                            }
                        }
                    }
                }
                finite.fetch_and(all, Ordering::Relaxed);
            });
        }
        finite.into_inner()
    }
}

/// The gradient of the weight, or `false` as [`run`]. Operands are the output's gradient, the input
/// and the result.
pub(super) fn at(level: Level, g: &Geometry, [grad, input, out]: [Ptr<f32>; 3]) -> Result<bool> {
    let job = WinogradJob {
        level,
        grid: WinogradGrid::new(g),
        tiles: f32::tiles(level),
        input,
        weights: None,
        epilogue: Epilogue::bias(None),
        out: grad,
    };
    let panels = job.panels();
    let threads = pool::chunk_count(g.work(), 4 * GRAIN).max(1);
    // With fewer tiles than threads these would be too low.
    let row_tiles = match job.row_tiles() {
        n if n < threads => n,
        n => n.next_multiple_of(threads),
    };
    let rows = g.out_channels.div_ceil(row_tiles);
    let fits = INPUTS / (PRODUCTS * job.of_panel() * size_of::<f32>());
    let blocks = panels.div_ceil(fits.clamp(1, TOGETHER));
    let (most, keep) = (panels.div_ceil(blocks), blocks > 1);
    let of_row = (most + usize::from(!keep)) * job.width();
    let fits = OWN / 2 / (PRODUCTS * of_row * rows * size_of::<f32>());
    let mut x = Weight {
        threads,
        rows,
        most,
        keep,
        chunk: fits.clamp(1, row_tiles.div_ceil(threads)),
        memory: out,
        job,
    };
    let memory = Scratch::<f32>::new(x.of_all() + threads * x.of_thread())?;
    x.memory = Ptr::new(memory.ptr());
    // SAFETY: the memory is that; the operands have the sizes of the geometry.
    Ok(unsafe { x.compute(out) })
}
