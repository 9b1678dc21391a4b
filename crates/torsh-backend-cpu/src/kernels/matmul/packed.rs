//! The product of large matrices: blocks of both operands are copied into panels that stream
//! through the caches, and the result is computed tile by tile in registers (K. Goto,
//! R. van de Geijn, "Anatomy of high-performance matrix multiplication", ACM TOMS 34, 2008).

mod plan;

use std::ops::Range;

use torsh_core::machine::machine;
use torsh_core::{Result, pool};

use self::plan::{PackedPlan, PackedSizes, Partition, Stationary};
use super::operands::{Matrix, Product};
use super::panel::{Lines, Square};
use super::tile::{Next, Tile, Tiled, Tiles, even_parts};
use crate::machine::tuning::matmul as tuning;
use crate::memory::dense::{Ptr, Scratch};
use crate::memory::stream;
use crate::simd::level;

/// Numbers that copying a panel may write behind it.
const SPILL: usize = 8;

/// Numbers with the blocked product.
pub(crate) trait Packable: Square + Send + Sync + 'static {
    /// The numbers that one is made of, neighbouring terms. A right operand of several comes in
    /// panels, and its matrix is that of the numbers: the steps count those.
    const NUMBERS: usize = 1;
}
impl Packable for f32 {}
impl Packable for f64 {}

/// Writes some terms of some columns of the right operand as a panel: term `p` of column `j` to
/// `to[p * pitch + j]`, both counted from the first of their range. What lies beyond the columns
/// up to the pitch must be written too, with anything that is a number.
pub(crate) type PanelFn<'a, T> = dyn Fn(Range<usize>, Range<usize>, *mut T, usize) + Sync + 'a;

/// What is done with rows and columns of the result once they are complete: they start at the address.
pub(crate) type FinishFn<'a, O> = dyn Fn(Range<usize>, Range<usize>, *mut O) + Sync + 'a;

/// Writes `count` rows of `n` adjacent terms as a panel.
///
/// # Safety
/// `rows` holds them, and `to` has room for `n` terms of `pitch`, which is the width of a panel.
pub(crate) unsafe fn turn<T: Packable>(
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

/// Computes a product, by up to `threads` threads, with the right operand from `panels` and what it is
/// added to from `start`, if they are given. `finish` is called for each part of the result, by the thread that computed
/// it; the result's columns must be adjacent then. The result does not depend on the number of threads. Fails, with nothing
/// done, where there is no memory for the panels.
///
/// # Safety
/// The matrices are valid for their sizes, and `out` overlaps neither other.
pub(crate) unsafe fn product<T: Packable + Tiled>(
    x: &Product<T>,
    panels: Option<&PanelFn<'_, T>>,
    start: Option<Matrix<T>>,
    finish: Option<&FinishFn<'_, T>>,
    threads: usize,
) -> Result<()> {
    // Transposing all three transposes the product.
    if x.out.col != 1 && x.out.row == 1 && panels.is_none() {
        // SAFETY: the caller's promise.
        return unsafe { product(&x.transposed(), None, start.map(Matrix::t), None, threads) };
    }
    let tiles = T::tiles(level());
    // Nor is a large right operand of adjacent terms, as the weight of a layer is, copied for few
    // rows of more than one tile: as the left one of the product transposed it is read where it is.
    let few = x.m > tiles.rows && x.m <= x.n && x.m <= tiles.block.in_place * tiles.columns;
    let few = few && x.n * x.k * size_of::<T>() <= tuning::SHARED_BLOCK;
    if tiles.transposes
        && few
        && x.b.row == 1
        && x.b.col != 1
        && panels.is_none()
        && finish.is_none()
    {
        // SAFETY: the caller's promise.
        return unsafe { into(&x.transposed(), None, start.map(Matrix::t), None, threads) };
    }
    // SAFETY: the caller's promise.
    unsafe { into(x, panels, start, finish, threads) }
}

/// [`product`], whatever the order of the result.
///
/// # Safety
/// As there.
pub(super) unsafe fn into<T: Packable + Tiled<O>, O: Send + Sync + 'static>(
    x: &Product<T, O>,
    panels: Option<&PanelFn<'_, T>>,
    start: Option<Matrix<O>>,
    finish: Option<&FinishFn<'_, O>>,
    threads: usize,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { with(x, (panels, start, finish), threads, T::tiles(level())) }
}

/// Panels, what the product is added to, and what is done with the result.
type Given<'a, T, O> = (
    Option<&'a PanelFn<'a, T>>,
    Option<Matrix<O>>,
    Option<&'a FinishFn<'a, O>>,
);

/// [`product`] with the tiles of some level.
///
/// # Safety
/// As there; the processor has the level.
unsafe fn with<T: Packable, O: Send + Sync>(
    x: &Product<T, O>,
    (right, start, finish): Given<'_, T, O>,
    threads: usize,
    tiles: &'static Tiles<T, O>,
) -> Result<()> {
    let size = size_of::<T>();
    let sizes = PackedSizes {
        m: x.m,
        n: x.n,
        k: x.k,
        a: (&x.a).into(),
        element: size,
        numbers: T::NUMBERS,
        is_matrix: right.is_none(),
        tile_rows: tiles.rows,
        tile_step: tiles.step,
        tile_columns: tiles.columns,
        block: tiles.block,
    };
    let plan = PackedPlan::new(&sizes, machine(), threads);
    let PackedPlan {
        parts,
        inside,
        unit,
        units,
        columns,
        ..
    } = plan;
    let terms = x.k.min(tiles.block.terms);
    let of_right = columns * terms;
    let of_left = (tiles.block.left / size)
        .max(tiles.rows * terms)
        .min(x.m * terms)
        + SPILL;
    let of_left = of_left.next_multiple_of(64);
    let memory = Scratch::<T>::new(parts * (of_right + inside * of_left))?;
    let own = Ptr::new(memory.ptr());
    let start = Addend(start.filter(|_| x.add));
    pool::parallel_parts(units, parts, &|index, some| {
        let cut = |unit: usize, n: usize| some.start * unit..(some.end * unit).min(n);
        let (rows, columns_of_part) = match plan.partition {
            Partition::Rows => (cut(unit, x.m), 0..x.n),
            Partition::Columns | Partition::Shared => (0..x.m, cut(unit, x.n)),
        };
        let x = Product {
            m: rows.len(),
            out: x.out.at(rows.start, 0),
            a: x.a.at(rows.start, 0),
            ..*x
        };
        let right_panels = own.at((index * (of_right + inside * of_left)) as isize);
        let part = Part {
            x: &x,
            right,
            start: start.at(rows.start),
            first_row: rows.start,
            finish,
            tiles,
            threads: inside,
            columns,
            stationary: plan.stationary,
            right_panels: Ptr::new(right_panels),
            left_panels: Ptr::new(right_panels.wrapping_add(of_right)),
            of_left,
        };
        // SAFETY: the caller's promise; no other thread writes these rows and columns.
        unsafe { part.all(columns_of_part) };
    });
    Ok(())
}

/// What a product is added to, of which threads read the rows and columns that they write.
struct Addend<O>(Option<Matrix<O>>);
// SAFETY: it is only read.
unsafe impl<O: Sync> Sync for Addend<O> {}

impl<O> Addend<O> {
    /// The one of the rows from `row` on.
    fn at(&self, row: usize) -> Addend<O> {
        Addend(self.0.map(|m| m.at(row, 0)))
    }
}

/// A product on some threads.
struct Part<'a, T: 'static, O: 'static> {
    x: &'a Product<T, O>,
    right: Option<&'a PanelFn<'a, T>>,
    /// What the result starts from, unless it is the result itself.
    start: Addend<O>,
    /// The place of its first row among those of the whole.
    first_row: usize,
    finish: Option<&'a FinishFn<'a, O>>,
    tiles: &'static Tiles<T, O>,
    threads: usize,
    /// Columns whose panels there is room for.
    columns: usize,
    stationary: Stationary,
    right_panels: Ptr<T>,
    /// Room for some rows' panels of each thread.
    left_panels: Ptr<T>,
    of_left: usize,
}

impl<T: Packable, O: Send + Sync> Part<'_, T, O> {
    /// # Safety
    /// As [`product`].
    unsafe fn all(&self, all: Range<usize>) {
        let x = self.x;
        let most = self.tiles.block.terms;
        // Rows that are copied, and all fit at once, are copied once for all columns.
        let rows = x.m.div_ceil(self.threads);
        let copied = !self.reads_in_place(self.columns.min(all.len()));
        let stay = copied && rows <= self.rows_at_once(x.k.min(most));
        let blocks = all.len().div_ceil(self.columns);
        let block = |terms: &Range<usize>, nth: usize| {
            let from = all.start + nth * self.columns;
            let block = PackedBlock {
                part: self,
                terms: terms.clone(),
                columns: from..(from + self.columns).min(all.end),
                from: match (terms.start, x.add) {
                    (0, false) => Addend(None),
                    (0, true) => Addend(self.start.0.or(Some(x.out))),
                    _ => Addend(Some(x.out)),
                },
                left_stays: stay && nth > 0,
            };
            // SAFETY: the caller's promise.
            unsafe { block.compute() };
        };
        let terms = || {
            let mut term = 0;
            std::iter::from_fn(move || {
                // Two blocks of about one size rather than a full and a tiny one.
                let terms = match x.k - term {
                    left if left <= most => left,
                    left if left < 2 * most => left.div_ceil(2).next_multiple_of(8),
                    _ => most,
                };
                term += terms;
                (terms > 0).then(|| term - terms..term)
            })
        };
        if stay {
            for terms in terms() {
                (0..blocks).for_each(|nth| block(&terms, nth));
            }
        } else {
            for nth in 0..blocks {
                terms().for_each(|terms| block(&terms, nth));
            }
        }
    }

    /// Whether rows of the left operand are read where they are for so many columns: those of adjacent
    /// terms, if few panels would not repay a copy.
    fn reads_in_place(&self, columns: usize) -> bool {
        let panels = columns.div_ceil(self.tiles.columns);
        self.stationary == Stationary::Right
            || self.x.a.col == 1 && panels <= self.tiles.block.in_place
    }

    /// Rows of the left operand, of so many terms, whose copies stay in a core's second-level cache.
    fn rows_at_once(&self, terms: usize) -> usize {
        let most = self.tiles.block.left / (terms * size_of::<T>());
        most.max(self.tiles.rows) / self.tiles.rows * self.tiles.rows
    }
}

/// Some terms of some columns.
struct PackedBlock<'a, T: 'static, O: 'static> {
    part: &'a Part<'a, T, O>,
    terms: Range<usize>,
    columns: Range<usize>,
    /// What the products are added to.
    from: Addend<O>,
    /// Whether the rows of the left operand, if they are copied, have been for columns before.
    left_stays: bool,
}

impl<'a, T: 'static, O: 'static> std::ops::Deref for PackedBlock<'a, T, O> {
    type Target = Part<'a, T, O>;
    fn deref(&self) -> &Part<'a, T, O> {
        self.part
    }
}

impl<T: Packable, O: Send + Sync> PackedBlock<'_, T, O> {
    /// # Safety
    /// As [`product`].
    unsafe fn compute(&self) {
        let (x, width) = (self.x, self.tiles.columns);
        let panels = self.columns.len().div_ceil(width);
        // Columns that lie in memory as a panel would hold them are read where they are, where
        // few rows would not repay the copying, or few terms fit the nearest cache.
        let near = x.k <= tuning::UNPACKED_RIGHT_TERMS
            && !(x.b.row.unsigned_abs() * size_of::<T>()).is_multiple_of(1024);
        let direct = self.right.is_none() && x.b.col == 1 && (near || x.m <= 4 * self.tiles.rows);
        let packed = match direct {
            // Only the last one, where it has not whole vectors.
            true => usize::from(!self.columns.len().is_multiple_of(self.tiles.step)),
            false => panels,
        };
        let first = panels - packed;
        if !self.copies_late() {
            pool::parallel_parts(packed, self.threads.min(packed), &|_, some| {
                // SAFETY: the panels' memory is the thread's own.
                unsafe { self.pack(first + some.start..first + some.end, first) };
            });
        }
        let threads = self.threads.min(x.m.div_ceil(self.tiles.rows));
        pool::parallel_parts(x.m, threads, &|thread, rows| {
            // SAFETY: no other thread writes these rows.
            unsafe { self.rows(thread, rows, panels, first) };
        });
    }

    /// The columns of a panel: of one vector none but where that is all, since its sums wait for
    /// one another.
    fn panel(&self, index: usize) -> Range<usize> {
        let (all, width, step) = (&self.columns, self.tiles.columns, self.tiles.step);
        let last = all.len().div_ceil(width) - 1;
        let narrow = last > 0 && width > 2 * step && all.len() - last * width <= step;
        // Where a panel starts that is moved if it is the last one.
        let start = |index: usize| {
            let moved = if narrow && index == last { step } else { 0 };
            all.start + index * width - moved
        };
        start(index)..start(index + 1).min(all.end)
    }

    /// The right operand from a panel on.
    fn lines(&self, index: usize) -> Lines<T> {
        let (b, numbers) = (self.x.b, T::NUMBERS);
        Lines {
            ptr: self.number(self.terms.start * numbers, self.panel(index).start),
            line: b.col / numbers as isize,
            term: b.row,
        }
    }

    /// Where a number of the right operand is, or the element that it is part of.
    fn number(&self, term: usize, column: usize) -> *const T {
        let b = self.x.b;
        let numbers = term as isize * b.row + column as isize * b.col;
        b.ptr.wrapping_offset(numbers / T::NUMBERS as isize)
    }

    /// Whether panels are copied just ahead of their use, and the next ones asked for meanwhile: by
    /// one thread, and of columns of adjacent terms, or where elements are made of rows of numbers.
    /// The others are best copied one after the other, since columns side by side share lines and
    /// pages.
    fn copies_late(&self) -> bool {
        let known = self.right.is_none() || T::NUMBERS > 1;
        self.threads == 1 && known && (self.x.b.row == 1 || self.is_woven())
    }

    /// Whether elements are made of numbers of neighbouring rows.
    fn is_woven(&self) -> bool {
        T::NUMBERS > 1 && self.x.b.col == 1
    }

    /// Where a panel is, of those from `first` on that are copied.
    fn copied(&self, index: usize, first: usize) -> *mut T {
        let columns = self.panel(index).start - self.panel(first).start;
        self.right_panels.at((columns * self.terms.len()) as isize)
    }

    /// Copies some panels of those from `first` on.
    ///
    /// # Safety
    /// No other thread uses the panels' memory.
    unsafe fn pack(&self, some: Range<usize>, first: usize) {
        let (width, terms) = (self.tiles.columns, self.terms.len());
        let mut next = some.start;
        // SAFETY: the columns are the operand's, and there is room for the panels. Their width is a
        // multiple of 8 or a divisor of it, so nothing is written beyond it. The last one is as wide
        // as its columns need.
        unsafe {
            if self.right.is_none() && self.x.b.col == 1 {
                let whole = some
                    .clone()
                    .filter(|&i| self.panel(i).len() == width)
                    .count();
                T::spread(
                    self.lines(next),
                    whole,
                    width,
                    terms,
                    self.copied(next, first),
                );
                next += whole;
            }
            for index in next..some.end {
                let (columns, to) = (self.panel(index), self.copied(index, first));
                let width = self.tiles.width(columns.len());
                match self.right {
                    Some(write) => write(self.terms.clone(), columns, to, width),
                    None => {
                        if columns.len() < width {
                            std::ptr::write_bytes(to, 0, width * terms);
                        }
                        T::copy(self.lines(index), columns.len(), terms, to, width);
                    }
                }
            }
        }
    }

    /// What tile `nth` of `count` asks for of the panel after this one, which is copied to `to` and
    /// may have left the core's own cache since.
    fn next(&self, to: *const T, nth: usize, count: usize) -> Next<T> {
        // Cache lines of the panel, and how many a tile asks for at a time.
        let each = stream::LINE / size_of::<T>();
        let lines = self.terms.len() * self.tiles.columns / each;
        let times = self.terms.len() / 4;
        let some = lines.div_ceil((count * times).max(1));
        let first = nth * times * some;
        if first >= lines {
            return Next::NONE;
        }
        Next {
            at: to.wrapping_add(first * each),
            step: (some * each) as isize,
            lines: some,
            pitch: each as isize,
        }
    }

    /// What tile `nth` of `count` asks for of the panel after this one, which is still to be copied:
    /// lines of terms, of one column after the other.
    fn next_late(&self, index: usize, nth: usize, count: usize) -> Next<T> {
        if self.is_woven() {
            return self.next_woven(index, nth, count);
        }
        let each = stream::LINE / size_of::<T>();
        let lines = self.terms.len().div_ceil(each);
        let some = lines.div_ceil(count);
        if nth * some >= lines {
            return Next::NONE;
        }
        let of = self.lines(index + 1);
        Next {
            at: of.at(0, nth * some * each),
            step: of.line,
            lines: some,
            pitch: each as isize,
        }
    }

    /// The same of a panel that is made of rows of numbers: the lines in which they start in each
    /// row, then those in which they end.
    fn next_woven(&self, index: usize, nth: usize, count: usize) -> Next<T> {
        let rows = self.terms.len() * T::NUMBERS;
        let times = (self.terms.len() / 4).max(1);
        let some = (2 * rows).div_ceil(count * times);
        let tiles = rows.div_ceil(some * times);
        let columns = self.panel(index + 1);
        let column = match nth / tiles {
            0 => columns.start,
            1 => columns.end - 1,
            _ => return Next::NONE,
        };
        let row = self.terms.start * T::NUMBERS + nth % tiles * some * times;
        let pitch = self.x.b.row / T::NUMBERS as isize;
        Next {
            at: self.number(row, column),
            step: some as isize * pitch,
            lines: some,
            pitch,
        }
    }

    /// What a tile of panel `nth` of `count` asks for of the rows that come next: every line twice,
    /// since a line has more terms than four.
    fn next_rows(&self, rows: Range<usize>, nth: usize, count: usize) -> Next<T> {
        let all = rows.len().min(self.tiles.rows);
        let each = self.tiles.rows.div_ceil(count);
        let first = nth * each;
        if first >= all {
            return Next::NONE;
        }
        let a = self.x.a.at(rows.start + first, self.terms.start);
        Next {
            at: a.ptr.cast_const(),
            step: 4,
            lines: each.min(all - first),
            pitch: self.x.a.row,
        }
    }

    /// Computes some rows of some panels.
    ///
    /// # Safety
    /// As [`product`]; nothing else writes this part of the result.
    unsafe fn rows(&self, thread: usize, rows: Range<usize>, panels: usize, first: usize) {
        let (x, tiles, terms) = (self.x, self.tiles, self.terms.len());
        let most = match self.stationary {
            Stationary::Right => tiles.rows,
            Stationary::Left => self.rows_at_once(terms),
        };
        let direct = self.reads_in_place(self.columns.len());
        let memory = self.left_panels.at((thread * self.of_left) as isize);
        // As many tiles at a time as there is room for, all of about one height.
        let all = rows.len().div_ceil(tiles.rows);
        for (tile, some) in even_parts(all, most / tiles.rows) {
            let (size, larger) = (rows.len() / all, rows.len() % all);
            let start = |tile: usize| tile * size + tile.min(larger);
            let (row, count) = (start(tile), start(tile + some) - start(tile));
            // Whether panels are still to be copied.
            let packs = row == 0 && self.copies_late();
            let row = rows.start + row;
            if !direct && !self.left_stays {
                let a = x.a.at(row, self.terms.start);
                let from = Lines {
                    ptr: a.ptr.cast_const(),
                    line: a.row,
                    term: a.col,
                };
                // Rows side by side share cache lines, so panels of them are written together.
                let together = match from.line {
                    1 => even_parts(count, tiles.rows)
                        .filter(|&(_, lines)| lines == tiles.rows)
                        .count(),
                    _ => 0,
                };
                // SAFETY: the rows are the operand's; the memory holds all of them, with room
                // behind. Those of whole tiles come first.
                unsafe {
                    T::spread(from, together, tiles.rows, terms, memory);
                    for (i, lines) in even_parts(count, tiles.rows).skip(together) {
                        T::copy(from.from(i), lines, terms, memory.add(i * terms), lines);
                    }
                }
            }
            for index in 0..panels {
                let columns = self.panel(index);
                let width = tiles.width(columns.len());
                let (b, b_term) = match index < first {
                    true => {
                        let of = self.lines(index);
                        (of.ptr, of.term)
                    }
                    false => (self.copied(index, first).cast_const(), width as isize),
                };
                if packs && index >= first {
                    // SAFETY: the panels' memory is this thread's.
                    unsafe { self.pack(index..index + 1, first) };
                }
                let of = match direct {
                    true => tiles.in_place(width),
                    false => tiles.packed(width),
                };
                let (all_rows, mut finished) = (count, 0);
                for (nth, (i, lines)) in even_parts(count, tiles.rows).enumerate() {
                    let out = x.out.at(row + i, columns.start);
                    let from = self.from.0.map(|f| f.at(row + i, columns.start));
                    let a = match direct {
                        true => x.a.at(row + i, self.terms.start).ptr,
                        false => memory.wrapping_add(i * terms),
                    };
                    let count = count.div_ceil(tiles.rows);
                    let next = match packs {
                        false if self.stationary == Stationary::Right => {
                            self.next_rows(row + i + lines..rows.end, index, panels)
                        }
                        _ if index + 1 >= panels => Next::NONE,
                        true => self.next_late(index, nth, count),
                        false if index + 1 < first => Next::NONE,
                        false => self.next(self.copied(index + 1, first), nth, count),
                    };
                    let tile = Tile {
                        rows: lines,
                        k: terms,
                        a: a.cast_const(),
                        a_row: x.a.row,
                        b,
                        b_term,
                        out: out.ptr,
                        out_row: x.out.row,
                        out_column: x.out.col,
                        columns: columns.len(),
                        alpha: x.alpha,
                        from: from.map_or(std::ptr::null(), |f| f.ptr.cast_const()),
                        from_row: from.map_or(0, |f| f.row),
                        from_column: from.map_or(0, |f| f.col),
                        chain: tiles.block.chain,
                        next,
                    };
                    // SAFETY: the operands of the tile are those of the product.
                    unsafe { of[lines - 1](&tile) };
                    let done = i + lines;
                    if let Some(finish) = self.finish
                        && self.terms.end == x.k
                        && (done == all_rows || done - finished >= tuning::FINISHED_ROWS)
                    {
                        let first = self.first_row + row;
                        let out = x.out.at(row + finished, columns.start);
                        finish(first + finished..first + done, columns.clone(), out.ptr);
                        finished = done;
                    }
                }
            }
        }
    }
}

#[cfg(feature = "unit-tests")]
mod tests;
