//! Products of a matrix of stored blocks and a dense one, and of dense ones at the stored blocks.
//!
//! The dense operand is packed into panels of columns as that of a dense product is, once for all blocks. A register tile of the
//! result then takes the terms of all stored blocks of its line, one block after the other, from the panel: what is not
//! stored costs nothing, and sums leave their registers once. Each number is the sum of the same terms in the same order
//! whatever the number of threads.

use std::mem::MaybeUninit;
use std::ops::Range;

use torsh_core::{Result, TorshError, pool};

use super::choose::{BlocksSplit, BlocksSplitProblem};
use super::number::{Index, Number};
use super::product::check_sizes;
use super::rows::{Majors, check_pointers, out_of_range};
use super::split::{balanced, even};
use super::tuning;
use crate::kernels::matmul::panel::Lines;
use crate::kernels::panels::{
    BlocksProduct, CausalBand, MatrixRows, PanelProduct, Panels, pack_columns, pack_rows,
};
use crate::machine::choice::pick;
use crate::memory::dense::{Ptr, Scratch};
use crate::simd::level;

#[cfg(feature = "unit-tests")]
mod tests;

/// Where the stored blocks of a matrix are, by lines: its block rows, or its block columns.
///
/// Line `i` has the stored blocks `pointers[i]..pointers[i + 1]`.
///
/// ```
/// use torsh_backend_cpu::sparse::BlockLines;
/// // Two block rows of two blocks of 2 x 3, of which one is stored each.
/// assert!(BlockLines::new(&[0i64, 1, 2], &[1, 0], [2, 3], false, 2).is_ok());
/// let error = BlockLines::new(&[0i64, 1, 2], &[1, 5], [2, 3], false, 2).unwrap_err();
/// assert!(error.to_string().contains("block index 5"), "{error}");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct BlockLines<'a, I> {
    pointers: &'a [I],
    places: &'a [I],
    block: [usize; 2],
    by_columns: bool,
    width: usize,
}

impl<'a, I: Index> BlockLines<'a, I> {
    /// The lines of a matrix. `places` says which of the `width` blocks of its line each stored block is; `block` has the rows
    /// and the columns of a block. Lines are block rows, or block columns if `by_columns`.
    ///
    /// # Errors
    /// If the pointers do not start at 0, decrease, or do not end at the number of stored blocks, a place is out of range, or
    /// blocks have no elements.
    pub fn new(
        pointers: &'a [I],
        places: &'a [I],
        block: [usize; 2],
        by_columns: bool,
        width: usize,
    ) -> Result<BlockLines<'a, I>> {
        check_pointers(pointers, places.len())?;
        if let Some(error) = out_of_range(places, width, "block") {
            return Err(error);
        }
        let lines = BlockLines {
            pointers,
            places,
            block,
            by_columns,
            width,
        };
        let [size, terms] = lines.sides();
        let fits = lines.count().checked_mul(size).is_some() && width.checked_mul(terms).is_some();
        match fits && size > 0 && terms > 0 && size.checked_mul(terms).is_some() {
            true => Ok(lines),
            false => Err(TorshError::shape(
                "",
                format!(
                    "there is no matrix of {} by {width} blocks of {} x {}",
                    lines.count(),
                    block[0],
                    block[1]
                ),
            )),
        }
    }

    /// How many lines there are.
    pub fn count(&self) -> usize {
        self.pointers.len() - 1
    }

    /// Rows that a line gives the result, and terms that a block has for each.
    fn sides(&self) -> [usize; 2] {
        let [rows, columns] = self.block;
        match self.by_columns {
            false => [rows, columns],
            true => [columns, rows],
        }
    }

    /// Elements of a block.
    fn elements(&self) -> usize {
        self.block[0] * self.block[1]
    }

    /// The stored blocks of a line.
    fn line(&self, i: usize) -> Range<usize> {
        self.pointers[i].place()..self.pointers[i + 1].place()
    }

    /// The blocks of a row of blocks, and of a column.
    fn grid(&self) -> [usize; 2] {
        match self.by_columns {
            false => [self.count(), self.width],
            true => [self.width, self.count()],
        }
    }
}

/// Numbers that products of blocks have loops for: `f32` and `f64`.
pub trait BlockNumber: Number {
    /// Computes a checked product.
    #[doc(hidden)]
    fn multiply<I: Index>(
        x: &BlockFactors<'_, Self, I>,
        out: &mut [MaybeUninit<Self>],
    ) -> Result<()>;
    /// Computes a checked product at stored blocks.
    #[doc(hidden)]
    fn sample<I: Index>(x: &BlockSamples<'_, Self, I>, out: &mut [MaybeUninit<Self>])
    -> Result<()>;
}

macro_rules! numbers {
    ($($t:ty),*) => { $(
        impl BlockNumber for $t {
            fn multiply<I: Index>(
                x: &BlockFactors<'_, $t, I>,
                out: &mut [MaybeUninit<$t>],
            ) -> Result<()> {
                x.multiply(out)
            }
            fn sample<I: Index>(
                x: &BlockSamples<'_, $t, I>,
                out: &mut [MaybeUninit<$t>],
            ) -> Result<()> {
                x.sample(out)
            }
        }
    )* };
}
numbers!(f32, f64);

/// The product of a matrix of stored blocks, whose rows are the lines, and a dense one of `m` columns. Where lines are block
/// columns that is the product of the transposed matrix.
///
/// `values` has the blocks, row-major each; with `order` stored block `e` is number `order[e]` of them, else number `e`. The
/// dense operand and the result are row-major, or both transposed if `transposed`: `[m, terms]` and `[m, rows]`. Every
/// element of the result is written.
///
/// ```
/// use std::mem::MaybeUninit;
/// use torsh_backend_cpu::sparse::{BlockLines, block_product};
/// // [[1, 2, 0, 0], [0, 0, 3, 4]] times a column.
/// let lines = BlockLines::new(&[0i64, 1, 2], &[0, 1], [1, 2], false, 2)?;
/// let (values, dense) = ([1.0f32, 2.0, 3.0, 4.0], [1.0, 10.0, 100.0, 1000.0]);
/// let mut out = [MaybeUninit::uninit(); 2];
/// block_product(lines, &values, None, &dense, 1, false, &mut out)?;
/// // SAFETY: every element was written.
/// assert_eq!(out.map(|v| unsafe { v.assume_init() }), [21.0, 4300.0]);
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
///
/// # Errors
/// If the sizes do not go together, `order` names blocks that are not there, or there is no memory for the panels.
pub fn block_product<T: BlockNumber, I: Index>(
    lines: BlockLines<'_, I>,
    values: &[T],
    order: Option<&[i64]>,
    dense: &[T],
    m: usize,
    transposed: bool,
    out: &mut [MaybeUninit<T>],
) -> Result<()> {
    let (stored, each) = (lines.places.len(), lines.elements());
    let blocks = values.len() / each;
    let listed = order.map_or(blocks, <[i64]>::len);
    if listed != stored || !values.len().is_multiple_of(each) {
        return Err(TorshError::shape(
            "",
            format!(
                "{} values are not those of {stored} blocks of {} x {}",
                values.len(),
                lines.block[0],
                lines.block[1]
            ),
        ));
    }
    if let Some(error) = order.and_then(|order| out_of_range(order, blocks, "value")) {
        return Err(error);
    }
    let [size, terms] = lines.sides();
    check_sizes(dense.len(), lines.width * terms, m, "the dense operand")?;
    check_sizes(out.len(), lines.count() * size, m, "the result")?;
    if stored == 0 || out.is_empty() {
        out.fill(MaybeUninit::new(T::default()));
        return Ok(());
    }
    let factors = BlockFactors {
        lines,
        values,
        order,
        dense,
        m,
        transposed,
    };
    T::multiply(&factors, out)
}

/// For each stored block its elements of `x @ y.T`, row-major; both operands have `k` columns, or both are transposed if
/// `transposed`: `[k, rows]` and `[k, columns]`. Every element of the result is written.
///
/// ```
/// use std::mem::MaybeUninit;
/// use torsh_backend_cpu::sparse::{BlockLines, block_sampled_product};
/// let lines = BlockLines::new(&[0i64, 0, 1], &[0], [1, 2], false, 1)?;
/// let mut out = [MaybeUninit::uninit(); 2];
/// block_sampled_product(lines, &[2.0f64, 3.0], &[10.0, 100.0], 1, false, &mut out)?;
/// // SAFETY: every element was written.
/// assert_eq!(out.map(|v| unsafe { v.assume_init() }), [30.0, 300.0]);
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
///
/// # Errors
/// If the sizes do not go together, or there is no memory for the panels.
pub fn block_sampled_product<T: BlockNumber, I: Index>(
    lines: BlockLines<'_, I>,
    x: &[T],
    y: &[T],
    k: usize,
    transposed: bool,
    out: &mut [MaybeUninit<T>],
) -> Result<()> {
    let ([rows, columns], [r, c]) = (lines.grid(), lines.block);
    check_sizes(x.len(), rows * r, k, "the left operand")?;
    check_sizes(y.len(), columns * c, k, "the right operand")?;
    check_sizes(out.len(), lines.places.len(), r * c, "the result")?;
    if k == 0 || out.is_empty() {
        out.fill(MaybeUninit::new(T::default()));
        return Ok(());
    }
    let samples = BlockSamples {
        lines,
        x,
        y,
        k,
        transposed,
    };
    T::sample(&samples, out)
}

/// How many threads are worth it for so many items that take so many picoseconds each.
fn threads_for(count: usize, item: usize) -> usize {
    even(count, item).len() - 1
}

/// Some rows of adjacent numbers as they are.
fn plain_rows<T: Panels>(from: *const T, step: usize, sizes: [usize; 2]) -> MatrixRows<T> {
    MatrixRows {
        from,
        steps: [step as isize, 1],
        sizes,
        factor: T::ONE,
        factors: std::ptr::null(),
    }
}

/// A checked call of [`block_product`].
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct BlockFactors<'a, T, I> {
    lines: BlockLines<'a, I>,
    values: &'a [T],
    order: Option<&'a [i64]>,
    dense: &'a [T],
    m: usize,
    transposed: bool,
}

/// The product of sizes of memory.
///
/// # Errors
/// Where sums of some of them might not fit a word.
fn room(sizes: &[usize]) -> Result<usize> {
    let all = sizes.iter().try_fold(1usize, |n, &s| n.checked_mul(s));
    all.filter(|&n| n <= isize::MAX as usize / 16)
        .ok_or_else(|| TorshError::out_of_memory(torsh_core::Device::Cpu, usize::MAX))
}

#[expect(private_bounds, reason = "its methods are for this crate alone")]
impl<T: Panels, I: Index> BlockFactors<'_, T, I> {
    fn multiply(&self, out: &mut [MaybeUninit<T>]) -> Result<()> {
        let ([size, terms], m) = (self.lines.sides(), self.m);
        let (count, stored) = (self.lines.count(), self.lines.places.len());
        let width = T::width(level());
        room(&[2, size, width])?;
        let panels = m.div_ceil(width);
        let of_column = stored.saturating_mul(size * terms);
        let threads = threads_for(of_column.saturating_mul(m), tuning::BLOCK_TERM);
        let problem = BlocksSplitProblem {
            lines: count,
            columns: m,
        };
        let split = pick::<BlocksSplit>(&problem, threads);
        let task = BlockTask {
            x: self,
            out: Ptr::new(out.as_mut_ptr().cast::<T>()),
            width,
            panel: room(&[self.lines.width, terms, width])?,
        };
        let most = match split {
            BlocksSplit::Columns => panels.div_ceil(threads.min(panels)),
            BlocksSplit::Lines => panels,
        };
        let at_once = task.panels_at_once(most);
        let (packed, own) = (at_once * task.panel, task.own());
        if split == BlocksSplit::Columns {
            let parts = threads.min(panels);
            let memory = Scratch::<T>::new(room(&[parts, packed + own])?)?;
            let start = Ptr::new(memory.ptr());
            pool::parallel_parts(panels, parts, &|part, range| {
                let at = start.at((part * (packed + own)) as isize);
                for first in range.clone().step_by(at_once) {
                    let some = first..(first + at_once).min(range.end);
                    // SAFETY: the memory is this part's alone, as are the columns of these panels.
                    unsafe {
                        task.pack(some.clone(), at);
                        task.lines(0..count, some, at, at.wrapping_add(packed));
                    }
                }
            });
            return Ok(());
        }
        let columns = at_once * width;
        let block = (size * terms * columns).saturating_mul(tuning::BLOCK_TERM);
        let ends = balanced(self.lines.pointers, block, size * columns * tuning::PASS);
        let parts = ends.len() - 1;
        let memory = Scratch::<T>::new(packed + room(&[parts, own])?)?;
        let start = Ptr::new(memory.ptr());
        for first in (0..panels).step_by(at_once) {
            let some = first..(first + at_once).min(panels);
            let packing = threads_for(some.len(), task.panel * tuning::PASS);
            pool::parallel_parts(some.len(), packing, &|_, range| {
                let at = start.at((range.start * task.panel) as isize);
                // SAFETY: the memory of these panels is this part's alone.
                unsafe { task.pack(first + range.start..first + range.end, at) };
            });
            pool::parallel_parts(parts, parts, &|part, _| {
                let own = start.at((packed + part * own) as isize);
                let lines = ends[part]..ends[part + 1];
                // SAFETY: the panels are packed, the memory at `own` and the rows of these lines are this part's alone.
                unsafe { task.lines(lines, some.clone(), start.get(), own) };
            });
        }
        Ok(())
    }
}

/// A product on its way to threads.
struct BlockTask<'a, T, I> {
    x: &'a BlockFactors<'a, T, I>,
    out: Ptr<T>,
    /// Columns of a panel.
    width: usize,
    /// Numbers of a panel.
    panel: usize,
}

impl<T: Panels, I: Index> BlockTask<'_, T, I> {
    /// Panels that are packed at a time, of `most`.
    fn panels_at_once(&self, most: usize) -> usize {
        let bytes = self.panel.saturating_mul(size_of::<T>());
        (tuning::BLOCK_PANELS / bytes.max(1)).clamp(1, most)
    }

    /// Numbers of a thread's own memory: the sums of a line, and these transposed, which are written in whole vectors.
    fn own(&self) -> usize {
        let sums = self.x.lines.sides()[0] * self.width;
        (2 * sums + 8).next_multiple_of(64)
    }

    /// Packs the columns of some panels.
    ///
    /// # Safety
    /// `to` has room for them.
    unsafe fn pack(&self, panels: Range<usize>, to: *mut T) {
        let (x, k) = (self.x, self.panel / self.width);
        let columns = panels.start * self.width..(panels.end * self.width).min(x.m);
        let (first, n) = (columns.start, columns.len());
        // SAFETY: the dense operand has the sizes that were checked, and the rest is the caller's promise.
        unsafe {
            match x.transposed {
                false => {
                    let rows = plain_rows(x.dense.as_ptr().wrapping_add(first), x.m, [k, n]);
                    pack_columns(&rows, self.width, to);
                }
                true => {
                    let from = x.dense.as_ptr().wrapping_add(first * k);
                    pack_rows(from, [k as isize, 1], [n, k], self.width, to);
                }
            }
        }
    }

    /// Computes the rows of some lines for the columns of some panels.
    ///
    /// # Safety
    /// `packed` has the panels, `own` is memory of [`BlockTask::own`], and nobody else writes these rows and columns.
    unsafe fn lines(
        &self,
        lines: Range<usize>,
        panels: Range<usize>,
        packed: *const T,
        own: *mut T,
    ) {
        let of = &self.x.lines;
        let ([size, terms], columns) = (of.sides(), of.block[1] as isize);
        let steps = match of.by_columns {
            false => [columns, 1],
            true => [1, columns],
        };
        let mut blocks: Vec<[usize; 2]> = Vec::new();
        for line in lines {
            blocks.clear();
            blocks.extend(of.line(line).map(|e| {
                let at = self.x.order.map_or(e, |order| order[e].place());
                [at * of.elements(), of.places[e].place() * terms]
            }));
            for (nth, panel) in panels.clone().enumerate() {
                let product = BlocksProduct {
                    m: size,
                    terms,
                    blocks: &blocks,
                    a: self.x.values.as_ptr(),
                    steps,
                    b: packed.wrapping_add(nth * self.panel),
                    c: own,
                };
                // SAFETY: places and order were checked, so blocks and terms are there; the rest is the caller's promise.
                unsafe {
                    T::product_of_blocks(&product);
                    self.put(line, panel, own);
                }
            }
        }
    }

    /// Puts the sums of a line and a panel in their place.
    ///
    /// # Safety
    /// As [`BlockTask::lines`]; `own` has the sums.
    unsafe fn put(&self, line: usize, panel: usize, own: *mut T) {
        let (x, width, size) = (self.x, self.width, self.x.lines.sides()[0]);
        let first = panel * width;
        let columns = width.min(x.m - first);
        // SAFETY: the result has the sizes that were checked, and the rest is the caller's promise.
        unsafe {
            if !x.transposed {
                for r in 0..size {
                    let to = self.out.at(((line * size + r) * x.m + first) as isize);
                    std::ptr::copy_nonoverlapping(own.wrapping_add(r * width), to, columns);
                }
                return;
            }
            let sums = Lines {
                ptr: own.cast_const(),
                line: width as isize,
                term: 1,
            };
            let turned = own.wrapping_add(size * width);
            T::copy(sums, size, width, turned, size);
            let rows = x.lines.count() * size;
            for j in 0..columns {
                let to = self.out.at(((first + j) * rows + line * size) as isize);
                std::ptr::copy_nonoverlapping(turned.wrapping_add(j * size), to, size);
            }
        }
    }
}

/// A checked call of [`block_sampled_product`].
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct BlockSamples<'a, T, I> {
    lines: BlockLines<'a, I>,
    x: &'a [T],
    y: &'a [T],
    k: usize,
    transposed: bool,
}

#[expect(private_bounds, reason = "its methods are for this crate alone")]
impl<T: Panels, I: Index> BlockSamples<'_, T, I> {
    fn sample(&self, out: &mut [MaybeUninit<T>]) -> Result<()> {
        let ([rows, columns], [r, c]) = (self.lines.grid(), self.lines.block);
        let width = T::width(level());
        // Columns of a block with those that fill its last panel.
        let wide = c.next_multiple_of(width);
        let most = self.k.min(tuning::BLOCK_TERMS);
        let of_right = room(&[columns, wide, most])?;
        let of_left = match self.transposed {
            true => room(&[rows, r, most])?,
            false => 0,
        };
        let own = room(&[r, wide])?;
        let item = own.saturating_mul(most).saturating_mul(tuning::BLOCK_TERM);
        let ends = even(self.lines.places.len(), item);
        let parts = ends.len() - 1;
        let memory = Scratch::<T>::new(of_right + of_left + room(&[parts, own])?)?;
        let (right, out) = (
            Ptr::new(memory.ptr()),
            Ptr::new(out.as_mut_ptr().cast::<T>()),
        );
        let left = Ptr::new(right.at(of_right as isize));
        let owned = Ptr::new(left.at(of_left as isize));
        for first in (0..self.k).step_by(most) {
            let terms = first..(first + most).min(self.k);
            let n = terms.len();
            let packing = threads_for(columns, wide * n * tuning::PASS);
            pool::parallel_parts(columns, packing, &|_, range| {
                for j in range {
                    let to = right.at((j * wide * n) as isize);
                    // SAFETY: the panels of block column `j` are this part's alone.
                    unsafe { self.pack(self.y, [j * c, c, columns * c], terms.clone(), width, to) };
                }
            });
            if self.transposed {
                let packing = threads_for(rows, r * n * tuning::PASS);
                pool::parallel_parts(rows, packing, &|_, range| {
                    for i in range {
                        let to = left.at((i * r * n) as isize);
                        // SAFETY: the panel of block row `i` is this part's alone.
                        unsafe { self.pack(self.x, [i * r, r, rows * r], terms.clone(), r, to) };
                    }
                });
            }
            pool::parallel_parts(parts, parts, &|part, _| {
                let mut walk = Majors::Pointers(self.lines.pointers).walk(ends[part]);
                for e in ends[part]..ends[part + 1] {
                    let (line, place) = (walk.major(e), self.lines.places[e].place());
                    let (i, j) = match self.lines.by_columns {
                        false => (line, place),
                        true => (place, line),
                    };
                    let (a, steps) = match self.transposed {
                        true => (left.at((i * r * n) as isize).cast_const(), [1, r as isize]),
                        false => {
                            let at = i * r * self.k + first;
                            (self.x.as_ptr().wrapping_add(at), [self.k as isize, 1])
                        }
                    };
                    let block = out.at((e * r * c) as isize);
                    let own = owned.at((part * own) as isize);
                    let (to, ld) = if c == wide { (block, c) } else { (own, wide) };
                    let product = PanelProduct {
                        m: r,
                        n: c,
                        k: n,
                        a,
                        steps,
                        b: right.at((j * wide * n) as isize).cast_const(),
                        right: [width * n, width],
                        c: to,
                        ld,
                        add: c == wide && first > 0,
                        band: CausalBand::All,
                    };
                    // SAFETY: operands have the sizes that were checked, places are in range, the panels are packed, and
                    // block `e` and the memory at `own` are this part's alone.
                    unsafe {
                        T::product(&product);
                        if c != wide {
                            add_rows(own, wide, block, [r, c], first > 0);
                        }
                    }
                }
            });
        }
        Ok(())
    }

    /// Packs some terms of `count` rows from `first` on, of `all`, into panels of `width`.
    ///
    /// # Safety
    /// `to` has room for them.
    unsafe fn pack(
        &self,
        from: &[T],
        [first, count, all]: [usize; 3],
        terms: Range<usize>,
        width: usize,
        to: *mut T,
    ) {
        let n = terms.len();
        // SAFETY: the operand has the sizes that were checked, and the rest is the caller's promise.
        unsafe {
            match self.transposed {
                true => {
                    let from = from.as_ptr().wrapping_add(terms.start * all + first);
                    pack_columns(&plain_rows(from, all, [n, count]), width, to);
                }
                false => {
                    let from = from.as_ptr().wrapping_add(first * self.k + terms.start);
                    pack_rows(from, [self.k as isize, 1], [count, n], width, to);
                }
            }
        }
    }
}

/// Writes or adds rows that are `step` numbers apart to adjacent ones.
///
/// # Safety
/// Both hold the rows.
unsafe fn add_rows<T: Panels>(
    from: *const T,
    step: usize,
    to: *mut T,
    [rows, columns]: [usize; 2],
    add: bool,
) {
    for r in 0..rows {
        for c in 0..columns {
            let to = to.wrapping_add(r * columns + c);
            // SAFETY: the caller's promise.
            unsafe {
                let sum = *from.wrapping_add(r * step + c);
                *to = if add { sum + *to } else { sum };
            }
        }
    }
}
