//! Products on AMX, the matrix unit of Intel's server processors since 2023.
//!
//! AMX multiplies bfloat16 and adds in float32. A float32 is the exact sum of three
//! bfloat16 of 8 bits each, and of the nine products of two such sums six carry all that the 24
//! bits of a result can show; the others are below its last bit by a factor of 8. That makes
//! float32 products of full precision at a sixth of AMX's rate, which is still more than
//! twice that of AVX-512. (G. Henry, P. Tang, A. Heinecke, "Leveraging the bfloat16 artificial
//! intelligence datatype for higher-precision computations", ARITH 2019.)
//!
//! AMX takes subnormal numbers for zeros, so parts of a term below about 1e-38 are lost.
//! Infinities and NaN do not survive the splitting: where the magnitudes of the operands allow a
//! result that is not finite, each block is looked through, and computed again by the blocked
//! product if there is one.
//!
//! A large block of the right operand is packed once, by all threads, of a small one each thread packs
//! what it needs; and each packs its rows of the left one. The terms of a block are taken in
//! stretches: a stretch of a panel of the right operand stays in the first cache while all packed
//! rows are multiplied by it. The last sums go to the output itself.
//!
//! Intrinsics: Results are rounded to bfloat16 and checked for infinities on their bits.

mod blocks;
pub(crate) mod pack;
mod peak;
pub(crate) mod tiles;

pub(crate) use blocks::{Blocks, OF_STEP};
pub(crate) use peak::peak;
pub(crate) use tiles::{SIDE, STEP, Sums, TILE, TilePrefetch};

use std::arch::x86_64::*;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use smallvec::SmallVec;
#[cfg(not(feature = "unit-tests"))]
use torsh_core::machine::machine;
use torsh_core::pool;

use self::pack::AmxLines;
use super::gemm;
use super::grid;
use super::operands::{Matrix, Product};
use crate::machine::tuning::matmul_amx::{ALONE, COLUMNS, NEAR, OWN};
use crate::memory::dense::{Ptr, Scratch};
use crate::simd::isa;
#[cfg(feature = "unit-tests")]
use crate::testing::machine;

/// Whether the processor has AMX and the system lets this process use it; never where
/// `TORSH_SIMD` is set.
#[inline]
pub(crate) fn is_available() -> bool {
    machine().bf16_tiles
}

/// In how many bfloat16 each number of the operands is multiplied.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SplitParts {
    /// It is one.
    One,
    /// Any float32.
    Three,
}

impl SplitParts {
    fn count(self) -> usize {
        match self {
            SplitParts::One => 1,
            SplitParts::Three => 3,
        }
    }

    /// Terms of a block, and bytes of packed rows of the left operand that stay in a core's second
    /// cache. What is added up in the output can go there more often.
    fn block(self, direct: bool) -> (usize, usize) {
        match (self, direct) {
            (SplitParts::One, _) => (2048, 512 * 1024),
            (SplitParts::Three, true) => (512, 512 * 1024),
            (SplitParts::Three, false) => (1024, 768 * 1024),
        }
    }

    /// Terms of the right operand's panel that are in the first cache while all rows are multiplied
    /// by them. A few more are better than half as many.
    pub(crate) fn chain(self, terms: usize) -> usize {
        let (most, usual) = match self {
            SplitParts::One => (640, 576),
            SplitParts::Three => (160, 160),
        };
        if terms > most {
            even(terms, usual, STEP)
        } else {
            terms
        }
    }
}

/// What products on AMX are of.
pub(super) trait Operand {
    const PARTS: SplitParts;
}
impl Operand for f32 {
    const PARTS: SplitParts = SplitParts::Three;
}
impl Operand for half::bf16 {
    const PARTS: SplitParts = SplitParts::One;
}

/// A product whose matrices have steps in bytes, of operands in any number of parts.
struct TileProduct {
    x: Product<u8, u8, f32>,
    parts: SplitParts,
    /// Whether results are bfloat16; float32 otherwise.
    narrow: bool,
}

impl std::ops::Deref for TileProduct {
    type Target = Product<u8, u8, f32>;
    fn deref(&self) -> &Product<u8, u8, f32> {
        &self.x
    }
}

/// A matrix with steps in bytes.
fn bytes<T>(m: Matrix<T>) -> Matrix<u8> {
    let size = size_of::<T>() as isize;
    Matrix::new(m.ptr.cast(), m.row * size, m.col * size)
}

/// The reverse.
fn floats(m: Matrix<u8>) -> Matrix<f32> {
    Matrix::new(m.ptr.cast(), m.row / 4, m.col / 4)
}

/// As [`Number::product`](super::Number::product), on `threads` threads; `false`, with nothing
/// done, where there is no memory to pack into. Results are float32 or, of two bytes, bfloat16,
/// which nothing can be added to.
///
/// # Safety
/// As there, and [`is_available`].
pub(super) unsafe fn product<T: Operand, O>(x: &Product<T, O, f32>, threads: usize) -> bool {
    let whole = Product {
        m: x.m,
        n: x.n,
        k: x.k,
        out: bytes(x.out),
        a: bytes(x.a),
        b: bytes(x.b),
        alpha: x.alpha,
        add: x.add,
    };
    // Transposing all three transposes the product.
    let x = match x.out.col != 1 && x.out.row == 1 {
        true => whole.transposed(),
        false => whole,
    };
    let narrow = size_of::<O>() == 2;
    debug_assert!(!(narrow && x.add));
    let product = TileProduct {
        x,
        parts: T::PARTS,
        narrow,
    };
    // SAFETY: the caller's promise.
    unsafe { product.run(threads) }
}

/// How a product is cut.
struct AmxPlan {
    /// Terms of a block, and bytes that they take of a packed line.
    terms: usize,
    line: usize,
    /// Columns packed at a time, and rows that a thread packs at a time.
    columns: usize,
    rows: usize,
    /// Parts of the rows and of a block's columns; a thread's panels of either.
    grid: (usize, usize),
    share: (usize, usize),
    /// Whether a thread packs its rows for the first columns, and keeps them for the others.
    once: bool,
    /// Terms summed before the next rows are.
    chain: usize,
    /// Whether whole blocks of sums are kept in the output.
    direct: bool,
    /// Whether all blocks of a part are kept elsewhere.
    kept: bool,
    /// Bytes that a thread keeps.
    own: usize,
}

/// `n` in about equal pieces of at most `most`, rounded up to `unit`.
fn even(n: usize, most: usize, unit: usize) -> usize {
    n.div_ceil(n.div_ceil(most)).next_multiple_of(unit)
}

impl AmxPlan {
    /// The panels of a block of the right operand that a part multiplies.
    fn panels(&self, part: usize, right: &RightBlock) -> Range<usize> {
        let (pj, panels) = (part % self.grid.1, right.columns.1.div_ceil(SIDE));
        let start = (pj * self.share.1).min(panels);
        start..panels.min(start + self.share.1)
    }

    fn new(p: &TileProduct, threads: usize) -> AmxPlan {
        let direct = p.alpha == 1.0 && !p.add && !p.narrow && p.out.col == 4;
        let (most, left) = p.parts.block(direct);
        let terms = even(p.k, most, STEP);
        let line = terms * 2 * p.parts.count();
        // Rows that are packed once, all of them.
        let once = terms >= p.k && p.m.next_multiple_of(SIDE) * line <= left;
        // Each thread is to have as many of them.
        let unit = if once { SIDE * threads } else { SIDE };
        let most = match once {
            true => COLUMNS.min((NEAR * threads / line).max(8 * SIDE)),
            false => COLUMNS,
        };
        let columns = even(p.n, (most / unit * unit).max(unit), unit);
        let panels = (p.m.div_ceil(SIDE), columns / SIDE);
        // As in the blocked product, rows that other products and the steps of optimizers part at,
        // so that each thread finds them in its own cache.
        let grid = match columns * p.k * 4 <= OWN && panels.0 >= threads {
            true => (threads, 1),
            false => grid(panels.0, panels.1, threads),
        };
        let share = (panels.0.div_ceil(grid.0), panels.1.div_ceil(grid.1));
        let rows = even(share.0 * SIDE, (left / line).max(SIDE), SIDE);
        let kept = !direct && p.k > terms;
        let sums = match kept {
            true => share.0 * share.1,
            false => rows / SIDE + 1,
        };
        AmxPlan {
            terms,
            line,
            columns,
            rows,
            grid,
            share,
            once,
            chain: p.parts.chain(terms),
            direct,
            kept,
            own: rows * line + sums * SIDE * SIDE * 4,
        }
    }
}

/// A block of results.
#[derive(Clone, Copy)]
struct AmxBlock {
    at: (usize, usize),
    /// The room for its sums that is not in the output.
    index: usize,
    size: (usize, usize),
    out: Matrix<u8>,
    sums: Sums,
    in_place: bool,
}

/// What a thread walks with one set of packed rows.
struct Walk<'a> {
    plan: &'a AmxPlan,
    /// The first row of the thread's part.
    from: usize,
    /// The first of the packed rows, and their panels.
    rows: (usize, usize),
    /// The first column, and the first panel of the thread's part.
    columns: (usize, usize),
    /// Room for sums.
    sums: *mut f32,
}

impl Walk<'_> {
    fn sums_at(&self, index: usize) -> Sums {
        Sums {
            ptr: self.sums.wrapping_add(index * SIDE * SIDE),
            step: 4 * SIDE,
        }
    }
}

/// Whether a product can be done in parts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Safe {
    Yes,
    /// If the results turn out to be finite.
    Maybe,
    /// There is a NaN, which may be lost.
    No,
}

/// A block of columns and terms of the right operand, packed.
struct RightBlock {
    ptr: Ptr<u8>,
    columns: (usize, usize),
    terms: (usize, usize),
    /// Bytes of a panel.
    panel: usize,
}

impl TileProduct {
    /// # Safety
    /// As [`product`].
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]
    unsafe fn run(&self, threads: usize) -> bool {
        let plan = AmxPlan::new(self, threads);
        let parts = plan.grid.0 * plan.grid.1;
        let packed = plan.columns * plan.line;
        // What another core has just written takes longer to read than to pack again.
        let alone = parts > 1 && packed <= ALONE;
        let rights = if alone { parts } else { 1 };
        let Ok(scratch) = Scratch::<u8>::new(rights * packed + parts * plan.own) else {
            return false;
        };
        let start = Ptr::new(scratch.ptr());
        let own = |part: usize| start.at((rights * packed + part * plan.own) as isize);
        let right = |j0: usize, k0: usize, nth: usize| {
            let terms = plan.terms.min(self.k - k0);
            RightBlock {
                ptr: Ptr::new(start.at((nth * packed) as isize)),
                columns: (j0, plan.columns.min(self.n - j0)),
                terms: (k0, terms),
                panel: terms.next_multiple_of(STEP) * 2 * self.parts.count() * SIDE,
            }
        };
        // The greatest magnitudes of the right operand's columns, and of each part's rows.
        let greatest: SmallVec<[AtomicU32; 9]> = (0..=parts).map(|_| AtomicU32::new(0)).collect();
        let (columns, terms) = (0..self.n, 0..self.k);
        let blocks = (columns.step_by(plan.columns))
            .flat_map(|j0| terms.clone().step_by(plan.terms).map(move |k0| (j0, k0)));
        if alone {
            pool::parallel_parts(parts, parts, &|part, _| {
                let of_right = AtomicU32::new(0);
                for (j0, k0) in blocks.clone() {
                    let right = right(j0, k0, part);
                    if k0 == 0 {
                        of_right.store(0, Ordering::Relaxed);
                    }
                    let of_part = [&of_right, &greatest[1 + part]];
                    // SAFETY: both memories are this part's.
                    unsafe {
                        let panels = plan.panels(part, &right);
                        of_right.fetch_max(self.pack_right(&right, panels), Ordering::Relaxed);
                        self.part(&plan, &right, part, own(part), of_part);
                    }
                }
            });
            return true;
        }
        for (j0, k0) in blocks {
            let right = right(j0, k0, 0);
            if k0 == 0 {
                greatest[0].store(0, Ordering::Relaxed);
            }
            let panels = right.columns.1.div_ceil(SIDE);
            pool::parallel_parts(panels, parts, &|_, range| {
                // SAFETY: no other thread has these panels.
                let magnitude = unsafe { self.pack_right(&right, range) };
                greatest[0].fetch_max(magnitude, Ordering::Relaxed);
            });
            pool::parallel_parts(parts, parts, &|part, _| {
                let of_part = [&greatest[0], &greatest[1 + part]];
                // SAFETY: `own` is this part's memory, and the right operand is packed.
                unsafe { self.part(&plan, &right, part, own(part), of_part) };
            });
        }
        true
    }

    /// Packs some panels of the right operand, and returns the bits of the greatest magnitude.
    ///
    /// # Safety
    /// As [`product`]; nobody else uses these panels.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]
    unsafe fn pack_right(&self, right: &RightBlock, panels: Range<usize>) -> u32 {
        let start = panels.start * SIDE;
        let lines = AmxLines {
            ptr: self.b.at(right.terms.0, right.columns.0 + start).ptr,
            across: self.b.col,
            along: self.b.row,
            count: (panels.len() * SIDE).min(right.columns.1.saturating_sub(start)),
            terms: right.terms.1,
        };
        let to = right.ptr.at((panels.start * right.panel) as isize);
        // SAFETY: the columns are within the operand, and the panels within the scratch memory.
        unsafe { lines.pack::<true>(to, self.parts) }
    }

    /// The sums of a part of a block's columns.
    ///
    /// # Safety
    /// As [`product`]; `own` must have room for what the plan says, and `right` be packed.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]
    unsafe fn part(
        &self,
        plan: &AmxPlan,
        right: &RightBlock,
        part: usize,
        own: *mut u8,
        greatest: [&AtomicU32; 2],
    ) {
        let pi = part / plan.grid.1;
        let from = pi * plan.share.0 * SIDE;
        let to = (from + plan.share.0 * SIDE).min(self.m);
        let columns = plan.panels(part, right);
        let ((k0, terms), (j0, _)) = (right.terms, right.columns);
        let (first, last) = (k0 == 0, k0 + terms == self.k);
        let steps = terms.div_ceil(STEP);
        let of_step = 2 * TILE * self.parts.count();
        let sums = own.wrapping_add(plan.rows * plan.line).cast::<f32>();
        // SAFETY: every index below is within its matrix, and all memory has the room that the
        // plan says.
        unsafe {
            tiles::configure();
            for i1 in (from..to).step_by(plan.rows) {
                let left = AmxLines {
                    ptr: self.a.at(i1, k0).ptr,
                    across: self.a.row,
                    along: self.a.col,
                    count: plan.rows.min(to - i1),
                    terms,
                };
                if !plan.once || j0 == 0 {
                    greatest[1].fetch_max(left.pack::<false>(own, self.parts), Ordering::Relaxed);
                }
                let safe = match self.parts {
                    SplitParts::One => Safe::Yes,
                    SplitParts::Three => self.is_safe(greatest),
                };
                let count = left.count.div_ceil(SIDE);
                let walk = Walk {
                    plan,
                    from,
                    rows: (i1, count),
                    columns: (j0, columns.start),
                    sums,
                };
                // What the tiles hold, and whether that is all.
                let mut before: Option<(AmxBlock, bool)> = None;
                for j in columns.clone() {
                    let pb = right.ptr.at((j * right.panel) as isize).cast_const();
                    for s in (0..steps).step_by(plan.chain / STEP) {
                        let some = (plan.chain / STEP).min(steps - s);
                        let (begins, ends) = (first && s == 0, s + some == steps);
                        for p in 0..count {
                            let block = self.block(&walk, j, p);
                            if plan.direct && !block.in_place && !first && s == 0 {
                                fetch(block.sums.ptr, floats(block.out), block.size);
                            }
                            let pa = own.wrapping_add(p * right.panel + s * of_step).cast_const();
                            let (mut a, mut b, mut left) = (pa, pb.wrapping_add(s * of_step), some);
                            // Sums of the first terms are kept where they lie close together.
                            let mut block = block;
                            let (whole, some_of) = (block.sums, walk.sums_at(block.index));
                            let resumed = if s == 0 { whole } else { some_of };
                            let resumed = (!begins).then_some(resumed);
                            if !ends {
                                block.sums = some_of;
                            }
                            let mut ended = None;
                            match before {
                                // The tiles go on.
                                Some((x, false)) if x.at == block.at => {}
                                Some((x, done)) => {
                                    tiles::turn(self.parts, x.sums, resumed, a, b);
                                    (a, b) = (a.wrapping_add(of_step), b.wrapping_add(of_step));
                                    left -= 1;
                                    ended = done.then_some(x);
                                }
                                None => match resumed {
                                    Some(sums) => sums.resume(),
                                    None => Sums::clear(),
                                },
                            }
                            // What comes next where it is not in the cache, and this block's share
                            // of the next panel.
                            let near = match plan.direct || plan.kept {
                                true if s == 0 && p + 1 < count => {
                                    Some(self.block(&walk, j, p + 1).sums.ahead())
                                }
                                true if s == 0 => Some(self.block(&walk, j + 1, 0).sums.ahead()),
                                // What these sums go to once they are complete.
                                false if ends && self.out.col == 4 => Some(TilePrefetch {
                                    ptr: block.out.ptr,
                                    step: self.out.row as usize,
                                }),
                                _ => None,
                            };
                            let share = right.panel + right.panel / count * p;
                            let ahead = TilePrefetch {
                                ptr: pb.wrapping_add(share + s * tiles::fetched(self.parts)),
                                step: tiles::pieces(self.parts).1,
                            };
                            tiles::steps_near(self.parts, left, a, b, near, ahead);
                            // Not right after it was written, when it could not be read back yet.
                            if let Some(x) = ended {
                                self.done(plan, &x, safe, last);
                            }
                            before = Some((block, ends));
                        }
                    }
                }
                if let Some((block, done)) = before {
                    block.sums.store();
                    if done {
                        self.done(plan, &block, safe, last);
                    }
                }
            }
            tiles::release();
        }
    }
    /// Block `p` of the rows by panel `j` of the columns.
    fn block(&self, walk: &Walk<'_>, j: usize, p: usize) -> AmxBlock {
        let plan = walk.plan;
        let at = (walk.rows.0 + p * SIDE, walk.columns.0 + j * SIDE);
        let left = (self.m.saturating_sub(at.0), self.n.saturating_sub(at.1));
        let size = (left.0.min(SIDE), left.1.min(SIDE));
        let out = self.out.at(at.0, at.1);
        let in_place = plan.direct && size == (SIDE, SIDE);
        // Blocks lie in the order in which they are walked. One alone must not be what is still in
        // the tiles.
        let index = match plan.kept {
            true => (j - walk.columns.1) * plan.share.0 + (at.0 - walk.from) / SIDE,
            false if walk.rows.1 == 1 => j % 2,
            false => p,
        };
        let sums = match in_place {
            true => Sums {
                ptr: out.ptr.cast(),
                step: out.row as usize,
            },
            false => walk.sums_at(index),
        };
        AmxBlock {
            at,
            index,
            size,
            out,
            sums,
            in_place,
        }
    }

    /// Ends a block whose sums are complete, or complete for now.
    ///
    /// # Safety
    /// As [`product`].
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]
    unsafe fn done(&self, plan: &AmxPlan, block: &AmxBlock, safe: Safe, last: bool) {
        // SAFETY: the caller's promise; the block is within the output.
        unsafe {
            if last && !(safe == Safe::Yes || safe == Safe::Maybe && is_finite(block.sums)) {
                let again = Product {
                    m: block.size.0,
                    n: block.size.1,
                    k: self.k,
                    out: floats(block.out),
                    a: floats(self.a.at(block.at.0, 0)),
                    b: floats(self.b.at(0, block.at.1)),
                    alpha: self.alpha,
                    add: self.add,
                };
                gemm::plain(&again, 1);
            } else if !block.in_place && (last || plan.direct) {
                match self.narrow {
                    true => self.round(block),
                    false => self.finish(block),
                }
            }
        }
    }

    /// Whether operands of these magnitudes have finite parts and a finite product.
    fn is_safe(&self, greatest: [&AtomicU32; 2]) -> Safe {
        is_safe(greatest.map(|g| g.load(Ordering::Relaxed)), self.k)
    }

    /// Writes a block's results.
    ///
    /// # Safety
    /// The block must be within the output, of float32.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]
    unsafe fn finish(&self, block: &AmxBlock) {
        let alpha = _mm512_set1_ps(self.alpha);
        let (out, (rows, cols)) = (floats(block.out), block.size);
        // SAFETY: the caller's promise.
        unsafe {
            for i in 0..rows {
                let from = block.sums.ptr.add(i * SIDE);
                let to = out.at(i, 0);
                if to.col != 1 {
                    for j in 0..cols {
                        let o = to.at(0, j).ptr;
                        let before = if self.add { *o } else { 0.0 };
                        *o = self.alpha.mul_add(*from.add(j), before);
                    }
                    continue;
                }
                for half in 0..2 {
                    let mask = pack::first(cols.saturating_sub(16 * half));
                    let to = to.ptr.wrapping_add(16 * half);
                    let x = _mm512_loadu_ps(from.add(16 * half));
                    let x = match self.add {
                        true => _mm512_fmadd_ps(alpha, x, _mm512_maskz_loadu_ps(mask, to)),
                        false => _mm512_mul_ps(alpha, x),
                    };
                    _mm512_mask_storeu_ps(to, mask, x);
                }
            }
        }
    }

    /// The same, of bfloat16.
    ///
    /// # Safety
    /// As there.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,fma")]
    unsafe fn round(&self, block: &AmxBlock) {
        let alpha = _mm512_set1_ps(self.alpha);
        let (rows, cols) = block.size;
        // The instruction takes subnormal numbers for zeros, which AMX's sums never are.
        let exact = self.alpha == 1.0;
        // SAFETY: the caller's promise.
        unsafe {
            for i in 0..rows {
                let from = block.sums.ptr.add(i * SIDE);
                let to = block.out.at(i, 0);
                if exact && to.col == 2 {
                    let (x, y) = (_mm512_loadu_ps(from), _mm512_loadu_ps(from.add(16)));
                    put_rounded(x, y, to.ptr, ((1u64 << cols) - 1) as u32);
                    continue;
                }
                for half in 0..2 {
                    let x = _mm512_mul_ps(alpha, _mm512_loadu_ps(from.add(16 * half)));
                    let x = rounded(x);
                    if to.col == 2 {
                        let mask = pack::first(cols.saturating_sub(16 * half));
                        let to = to.ptr.wrapping_add(32 * half);
                        _mm256_mask_storeu_epi16(to.cast(), mask, x);
                        continue;
                    }
                    let mut each = [0u16; 16];
                    _mm256_storeu_si256(each.as_mut_ptr().cast(), x);
                    for (j, x) in (16 * half..cols).zip(each) {
                        to.at(0, j).ptr.cast::<u16>().write(x);
                    }
                }
            }
        }
    }
}

/// Whether two operands of which these are the bits of the greatest magnitudes have finite parts and
/// finite sums of `terms` products.
pub(crate) fn is_safe(greatest: [u32; 2], terms: usize) -> Safe {
    let [right, left] = greatest.map(|g| f64::from(f32::from_bits(g)));
    let most = f64::from(2f32.powi(126));
    if left.is_nan() || right.is_nan() {
        Safe::No
    } else if left < most && right < most && left * right * (terms as f64) < most {
        Safe::Yes
    } else {
        Safe::Maybe
    }
}

/// Writes those of 32 numbers that the mask says as bfloat16.
///
/// # Safety
/// `to` must be valid for them.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn put_rounded(x: __m512, y: __m512, to: *mut u8, mask: u32) {
    // SAFETY: the caller's promise.
    unsafe { _mm512_mask_storeu_epi16(to.cast(), mask, isa::bf16::rounded_two(x, y)) };
}

/// As [`rounded_to_bf16`](crate::memory::convert::rounded_to_bf16).
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]
fn rounded(x: __m512) -> __m256i {
    let bits = _mm512_castps_si512(x);
    let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
    let more = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
    let up = _mm512_srli_epi32::<16>(_mm512_add_epi32(bits, more));
    let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
    _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(up, nan, _mm512_set1_epi32(0x7fc0)))
}

/// Reads the sums of a block at the output's edge back, with zeros beyond.
///
/// # Safety
/// `block` has room for a block, `out` is valid for `rows` and `cols`, adjacent ones.
#[target_feature(enable = "avx512f")]
unsafe fn fetch(block: *mut f32, out: Matrix<f32>, (rows, cols): (usize, usize)) {
    // SAFETY: the caller's promise.
    unsafe {
        for i in 0..SIDE {
            for half in 0..2 {
                let cols = if i < rows { cols } else { 0 };
                let mask = pack::first(cols.saturating_sub(16 * half));
                let from = out.at(i, 0).ptr.wrapping_add(16 * half);
                let x = _mm512_maskz_loadu_ps(mask, from);
                _mm512_storeu_ps(block.add(i * SIDE + 16 * half), x);
            }
        }
    }
}

/// Whether all of a block is finite.
///
/// # Safety
/// It must be valid.
#[target_feature(enable = "avx512f")]
pub(crate) unsafe fn is_finite(block: Sums) -> bool {
    let infinite = _mm512_set1_epi32(0x7f80_0000);
    let mut found = 0;
    for i in 0..SIDE {
        for half in 0..2 {
            let from = block
                .ptr
                .wrapping_byte_add(i * block.step)
                .wrapping_add(16 * half);
            // SAFETY: the caller's promise.
            let x = unsafe { _mm512_loadu_si512(from.cast()) };
            found |= _mm512_cmpeq_epi32_mask(_mm512_and_si512(x, infinite), infinite);
        }
    }
    found == 0
}

#[cfg(feature = "unit-tests")]
mod tests;
