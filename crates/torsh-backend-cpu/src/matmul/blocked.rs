//! The product of large matrices: blocks of both operands are copied into panels that stream
//! through the caches, and the result is computed tile by tile in registers (K. Goto,
//! R. van de Geijn, "Anatomy of high-performance matrix multiplication", ACM TOMS 34, 2008).

use std::ops::Range;

use torsh_core::{Result, pool};

use super::gemm::Product;
use super::panel::{Lines, Square};
use super::tile::{Tile, Tiled, Tiles};
use crate::arch::level;
use crate::dense::{Ptr, Scratch};

/// Bytes of a block of the right operand, in the shared cache.
const RIGHT: usize = 2 * 1024 * 1024;

/// Numbers that copying a panel may write behind it.
const SPILL: usize = 8;

/// Numbers with the blocked product.
pub(crate) trait Blocked: Square + Send + Sync + 'static {
    /// Whether the processor has a unit that multiplies matrices of this size faster than the
    /// blocked product.
    fn has_unit(_m: usize, _n: usize, _k: usize) -> bool {
        false
    }
}
impl Blocked for f32 {
    #[cfg(target_arch = "x86_64")]
    fn has_unit(m: usize, n: usize, k: usize) -> bool {
        super::amx::suits(m, n, k, super::amx::Parts::Three)
    }
}
impl Blocked for f64 {}

/// Writes some terms of some columns of the right operand as a panel: term `p` of column `j` to
/// `to[p * pitch + j]`, both counted from the first of their range. What lies beyond the columns
/// up to the pitch must be written too, with anything that is a number.
pub(crate) type PanelFn<'a, T> = dyn Fn(Range<usize>, Range<usize>, *mut T, usize) + Sync + 'a;

/// Writes `count` rows of `n` adjacent terms as a panel.
///
/// # Safety
/// `rows` holds them, and `to` has room for `n` terms of `pitch`, which is the width of a panel.
pub(crate) unsafe fn turn<T: Blocked>(
    rows: *const T,
    n: usize,
    count: usize,
    to: *mut T,
    pitch: usize,
) {
    let lines = Lines {
        ptr: rows,
        line: n as isize,
        term: 1,
    };
    // SAFETY: the caller's promise.
    unsafe {
        if count < pitch {
            std::ptr::write_bytes(to, 0, n * pitch);
        }
        T::copy(lines, count, n, to, pitch);
    }
}

/// Computes a product, by up to `threads` threads, with the right operand from `panels` if they
/// are given. The result does not depend on the number of threads. Fails, with nothing done, where
/// there is no memory for the panels.
///
/// # Safety
/// The matrices are valid for their sizes, and `out` overlaps neither other.
pub(crate) unsafe fn product<T: Blocked + Tiled>(
    x: &Product<T>,
    panels: Option<&PanelFn<'_, T>>,
    threads: usize,
) -> Result<()> {
    // Transposing all three transposes the product.
    if x.out.col != 1 && x.out.row == 1 && panels.is_none() {
        // SAFETY: the caller's promise.
        return unsafe { product(&x.turned(), None, threads) };
    }
    // SAFETY: the caller's promise.
    unsafe { into(x, panels, threads) }
}

/// [`product`], whatever the order of the result.
///
/// # Safety
/// As there.
pub(super) unsafe fn into<T: Blocked + Tiled<O>, O: Send + Sync + 'static>(
    x: &Product<T, O>,
    panels: Option<&PanelFn<'_, T>>,
    threads: usize,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { with(x, panels, threads, T::tiles(level())) }
}

/// [`product`] with the tiles of some level.
///
/// # Safety
/// As there; the processor has the level.
unsafe fn with<T: Blocked, O: Send + Sync>(
    x: &Product<T, O>,
    right: Option<&PanelFn<'_, T>>,
    threads: usize,
    tiles: &'static Tiles<T, O>,
) -> Result<()> {
    // Few rows: each thread has columns of its own. Else rows, and the columns are copied once.
    let panels = x.n.div_ceil(tiles.columns);
    let parts = match x.n >= 4 * x.m || x.m < 2 * threads * tiles.rows {
        true => threads.min(panels),
        false => 1,
    };
    let inside = threads / parts;
    let size = size_of::<T>();
    // Panels that all rows are done with at once need not outlast a core's own cache.
    let few = x.m * tiles.block.terms * size <= tiles.block.left;
    let bytes = if few { tiles.block.left } else { RIGHT };
    let columns = (bytes / (tiles.block.terms * size)).next_multiple_of(tiles.columns);
    let columns = columns.min(panels.div_ceil(parts) * tiles.columns);
    let terms = x.k.min(tiles.block.terms);
    let of_right = columns * terms;
    let of_left = (tiles.block.left / size)
        .max(tiles.rows * terms)
        .min(x.m * terms)
        + SPILL;
    let of_left = of_left.next_multiple_of(64);
    let memory = Scratch::<T>::new(parts * (of_right + inside * of_left))?;
    let start = Ptr::new(memory.ptr());
    pool::parallel_parts(panels, parts, &|index, some| {
        let end = (some.end * tiles.columns).min(x.n);
        let right_panels = start.at((index * (of_right + inside * of_left)) as isize);
        let part = Part {
            x,
            right,
            tiles,
            threads: inside,
            columns,
            right_panels: Ptr::new(right_panels),
            left_panels: Ptr::new(right_panels.wrapping_add(of_right)),
            of_left,
        };
        // SAFETY: the caller's promise; no other thread writes these columns.
        unsafe { part.all(some.start * tiles.columns..end) };
    });
    Ok(())
}

/// A product on some threads.
struct Part<'a, T: 'static, O: 'static> {
    x: &'a Product<T, O>,
    right: Option<&'a PanelFn<'a, T>>,
    tiles: &'static Tiles<T, O>,
    threads: usize,
    /// Columns whose panels there is room for.
    columns: usize,
    right_panels: Ptr<T>,
    /// Room for some rows' panels of each thread.
    left_panels: Ptr<T>,
    of_left: usize,
}

impl<T: Blocked, O: Send + Sync> Part<'_, T, O> {
    /// # Safety
    /// As [`product`].
    unsafe fn all(&self, all: Range<usize>) {
        let x = self.x;
        let mut from = all.start;
        while from < all.end {
            let columns = from..(from + self.columns).min(all.end);
            from = columns.end;
            let mut term = 0;
            while term < x.k {
                // Two blocks of about one size rather than a full and a tiny one.
                let (left, most) = (x.k - term, self.tiles.block.terms);
                let terms = match left {
                    _ if left <= most => left,
                    _ if left < 2 * most => left.div_ceil(2).next_multiple_of(8),
                    _ => most,
                };
                let block = Block {
                    part: self,
                    terms: term..term + terms,
                    columns: columns.clone(),
                    add: x.add || term > 0,
                };
                // SAFETY: the caller's promise.
                unsafe { block.compute() };
                term += terms;
            }
        }
    }
}

/// Some terms of some columns.
struct Block<'a, T: 'static, O: 'static> {
    part: &'a Part<'a, T, O>,
    terms: Range<usize>,
    columns: Range<usize>,
    add: bool,
}

impl<'a, T: 'static, O: 'static> std::ops::Deref for Block<'a, T, O> {
    type Target = Part<'a, T, O>;
    fn deref(&self) -> &Part<'a, T, O> {
        self.part
    }
}

impl<T: Blocked, O: Send + Sync> Block<'_, T, O> {
    /// # Safety
    /// As [`product`].
    unsafe fn compute(&self) {
        let (x, width, terms) = (self.x, self.tiles.columns, self.terms.len());
        let panels = self.columns.len().div_ceil(width);
        // Columns that lie in memory as a panel would hold them are read where they are, where
        // few rows would not repay the copying.
        let direct = self.right.is_none() && x.b.col == 1 && x.m <= 4 * self.tiles.rows;
        let packed = match direct {
            // Only the last, narrow one.
            true => panels - self.columns.len() / width,
            false => panels,
        };
        let store = self.right_panels;
        let first = panels - packed;
        pool::parallel_parts(packed, self.threads.min(packed), &|_, some| {
            let from = self.columns.start + (first + some.start) * width;
            let to = store.at((some.start * width * terms) as isize);
            let columns = from..(from + some.len() * width).min(self.columns.end);
            // SAFETY: the panels' memory is the thread's own; the columns are the operand's.
            unsafe { self.pack(columns, to) };
        });
        let panel = |index: usize| match direct {
            true if index < first => {
                let column = self.columns.start + index * width;
                let b = x.b.at(self.terms.start, column);
                (b.ptr.cast_const(), b.row)
            }
            _ => {
                let at = (index - first) * width * terms;
                (store.at(at as isize).cast_const(), width as isize)
            }
        };
        let rows = self.tiles.rows;
        let units = x.m.div_ceil(rows);
        pool::parallel_parts(units, self.threads.min(units), &|thread, some| {
            let rows = some.start * rows..(some.end * rows).min(x.m);
            // SAFETY: no other thread writes these rows.
            unsafe { self.rows(thread, rows, panels, &panel) };
        });
    }

    /// Copies columns into panels.
    ///
    /// # Safety
    /// The columns are the operand's, and `to` has room for their panels.
    unsafe fn pack(&self, columns: Range<usize>, to: *mut T) {
        let (width, terms) = (self.tiles.columns, self.terms.len());
        let b = self.x.b.at(self.terms.start, columns.start);
        let lines = Lines {
            ptr: b.ptr.cast_const(),
            line: b.col,
            term: b.row,
        };
        // SAFETY: the caller's promise; a panel's width is a multiple of 8 or a divisor of it, so
        // nothing is written beyond it.
        unsafe {
            let mut from = columns.start;
            if self.right.is_none() && lines.line == 1 {
                let whole = columns.len() / width;
                T::spread(lines, whole, width, terms, to);
                from += whole * width;
            }
            while from < columns.end {
                let some = from..(from + width).min(columns.end);
                let to = to.add((from - columns.start) * terms);
                match self.right {
                    Some(write) => write(self.terms.clone(), some, to, width),
                    None => {
                        if some.len() < width {
                            std::ptr::write_bytes(to, 0, width * terms);
                        }
                        let lines = lines.from(from - columns.start);
                        T::copy(lines, some.len(), terms, to, width);
                    }
                }
                from += width;
            }
        }
    }

    /// Computes some rows of some panels.
    ///
    /// # Safety
    /// As [`product`]; nothing else writes this part of the result.
    unsafe fn rows(
        &self,
        thread: usize,
        rows: Range<usize>,
        panels: usize,
        panel: &dyn Fn(usize) -> (*const T, isize),
    ) {
        let (x, tiles, terms) = (self.x, self.tiles, self.terms.len());
        let most =
            (tiles.block.left / (terms * size_of::<T>())).max(tiles.rows) / tiles.rows * tiles.rows;
        // Rows of adjacent terms are read where they are if few panels would not repay a copy.
        let direct = x.a.col == 1 && panels <= tiles.block.in_place;
        let memory = self.left_panels.at((thread * self.of_left) as isize);
        let mut row = rows.start;
        while row < rows.end {
            let some = row..(row + most).min(rows.end);
            if !direct {
                let mut i = some.start;
                while i < some.end {
                    let lines = tiles.rows.min(some.end - i);
                    let a = x.a.at(i, self.terms.start);
                    let from = Lines {
                        ptr: a.ptr.cast_const(),
                        line: a.row,
                        term: a.col,
                    };
                    // SAFETY: the rows are the operand's; the memory holds all of them, with room
                    // behind.
                    unsafe {
                        let to = memory.add((i - some.start) * terms);
                        T::copy(from, lines, terms, to, lines);
                    }
                    i += lines;
                }
            }
            for index in 0..panels {
                let (b, b_term) = panel(index);
                let column = self.columns.start + index * tiles.columns;
                let columns = tiles.columns.min(self.columns.end - column);
                let mut i = some.start;
                while i < some.end {
                    let lines = tiles.rows.min(some.end - i);
                    let out = x.out.at(i, column);
                    let (of, a) = match direct {
                        true => (tiles.in_place, x.a.at(i, self.terms.start).ptr),
                        false => (tiles.packed, memory.wrapping_add((i - some.start) * terms)),
                    };
                    let tile = Tile {
                        k: terms,
                        a: a.cast_const(),
                        a_row: x.a.row,
                        b,
                        b_term,
                        out: out.ptr,
                        out_row: x.out.row,
                        out_column: x.out.col,
                        columns,
                        alpha: x.alpha,
                        add: self.add,
                        stretch: tiles.block.stretch,
                    };
                    // SAFETY: the operands of the tile are those of the product.
                    unsafe { of[lines - 1](&tile) };
                    i += lines;
                }
            }
            row = some.end;
        }
    }
}

#[cfg(test)]
mod tests;
