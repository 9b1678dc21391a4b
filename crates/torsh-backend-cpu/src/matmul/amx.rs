//! Products on AMX, the matrix unit of Intel's server processors since 2023.
//!
//! The unit multiplies bfloat16 and adds in float32. A float32 is the exact sum of three
//! bfloat16 of 8 bits each, and of the nine products of two such sums six carry all that the 24
//! bits of a result can show; the others are below its last bit by a factor of 8. That makes
//! float32 products of full precision at a sixth of the unit's rate, which is still more than
//! twice that of AVX-512. (G. Henry, P. Tang, A. Heinecke, "Leveraging the bfloat16 artificial
//! intelligence datatype for higher-precision computations", ARITH 2019.)
//!
//! The unit takes subnormal numbers for zeros, so parts of a term below about 1e-38 are lost.
//! Infinities and NaN do not survive the splitting: where the magnitudes of the operands allow a
//! result that is not finite, each block is looked through, and computed again by the blocked
//! product if there is one.
//!
//! A block of the right operand is packed once, by all threads; each thread packs its rows of the
//! left one. Sums stay in the tiles for as many terms as fit into the cache, and go to the output
//! itself.

mod pack;
mod peak;
mod tiles;

pub(crate) use peak::peak;

use std::arch::x86_64::*;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use smallvec::SmallVec;
use torsh_core::pool;

use self::pack::Lines;
use self::tiles::{Ahead, SIDE, STEP, Sums, TILE};
use super::gemm::{self, Matrix};
use super::grid;
use crate::arch::Level;
use crate::dense::{Ptr, Scratch};

/// Terms of a block, times the number of parts: a panel of packed lines is 192 KiB.
const TERMS: usize = 3072;
/// Bytes of packed rows of the left operand that stay in a core's second cache.
const LEFT: usize = 768 * 1024;
/// Columns of the right operand that are packed at a time, for all threads.
const COLUMNS: usize = 2048;

/// Whether the processor has the unit and the system lets this process use it; never where
/// `TORSH_SIMD` names a lesser instruction set. Asked once.
pub(crate) fn is_available() -> bool {
    static STATE: AtomicU8 = AtomicU8::new(0);
    match STATE.load(Ordering::Relaxed) {
        1 => true,
        2 => false,
        _ => {
            let yes = detect();
            STATE.store(if yes { 1 } else { 2 }, Ordering::Relaxed);
            yes
        }
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
fn detect() -> bool {
    if std::env::var_os("TORSH_SIMD").is_some() || !Level::Avx512.is_available() {
        return false;
    }
    let (max, features) = (__cpuid(0).eax, __cpuid_count(7, 0).edx);
    // Bits 22 and 24: AMX-BF16 and AMX-TILE.
    if max < 7 || features >> 22 & 1 == 0 || features >> 24 & 1 == 0 {
        return false;
    }
    // The tiles' state is large, so Linux wants to be asked for it, once for all threads
    // (ARCH_REQ_XCOMP_PERM of component 18).
    const ARCH_PRCTL: i64 = 158;
    const REQUEST: i64 = 0x1023;
    let result: i64;
    // SAFETY: a system call without pointers, which changes nothing but this permission.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => result,
            in("rdi") REQUEST,
            in("rsi") 18i64,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    result == 0
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn detect() -> bool {
    false
}

/// Whether a product is large enough to be worth the packing, which takes `(m + n) k` where the
/// product takes `m n k`.
#[inline]
pub(super) fn suits(m: usize, n: usize, k: usize, parts: Parts) -> bool {
    let ratio = match parts {
        Parts::One => 24,
        Parts::Three => 64,
    };
    k >= 64 && m * n >= ratio * (m + n) && is_available()
}

/// Into how many bfloat16 a float32 operand is split.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Parts {
    /// The operands are bfloat16 that were widened.
    One,
    /// Any float32.
    Three,
}

impl Parts {
    pub(super) fn of(of_bf16: bool) -> Parts {
        if of_bf16 { Parts::One } else { Parts::Three }
    }

    fn count(self) -> usize {
        match self {
            Parts::One => 1,
            Parts::Three => 3,
        }
    }
}

/// A product, and how its operands are split.
struct Product {
    x: gemm::Product<f32>,
    parts: Parts,
}

impl std::ops::Deref for Product {
    type Target = gemm::Product<f32>;
    fn deref(&self) -> &gemm::Product<f32> {
        &self.x
    }
}

/// As [`Number::product`](super::Number::product) of float32, on `threads` threads; `false`, with
/// nothing done, where there is no memory to pack into.
///
/// # Safety
/// As there, and [`is_available`].
pub(super) unsafe fn product(x: &gemm::Product<f32>, parts: Parts, threads: usize) -> bool {
    // Transposing all three transposes the product.
    let x = match x.out.col != 1 && x.out.row == 1 {
        true => x.turned(),
        false => *x,
    };
    // SAFETY: the caller's promise.
    unsafe { Product { x, parts }.run(threads) }
}

/// How a product is cut.
struct Plan {
    /// Terms of a block, and bytes that they take of a packed line.
    terms: usize,
    line: usize,
    /// Columns packed at a time, and rows that a thread packs at a time.
    columns: usize,
    rows: usize,
    /// Parts of the rows and of a block's columns; a thread's panels of either.
    grid: (usize, usize),
    share: (usize, usize),
    /// Whether whole blocks of sums are kept in the output.
    direct: bool,
    /// Blocks of sums that a thread keeps elsewhere, and bytes of all that it keeps.
    sums: usize,
    own: usize,
}

/// `n` in about equal pieces of at most `most`, rounded up to `unit`.
fn even(n: usize, most: usize, unit: usize) -> usize {
    n.div_ceil(n.div_ceil(most)).next_multiple_of(unit)
}

impl Plan {
    fn new(p: &Product, threads: usize) -> Plan {
        let terms = even(p.k, TERMS / p.parts.count(), STEP);
        let line = terms * 2 * p.parts.count();
        let columns = even(p.n, COLUMNS, SIDE);
        let panels = (p.m.div_ceil(SIDE), columns / SIDE);
        let grid = grid(panels.0, panels.1, threads);
        let share = (panels.0.div_ceil(grid.0), panels.1.div_ceil(grid.1));
        let rows = even(share.0 * SIDE, (LEFT / line).max(SIDE), SIDE);
        let direct = p.alpha == 1.0 && !p.add && p.out.col == 1;
        let sums = match direct || p.k <= terms {
            true => 1,
            false => share.0 * share.1,
        };
        Plan {
            terms,
            line,
            columns,
            rows,
            grid,
            share,
            direct,
            sums,
            own: rows * line + sums * SIDE * SIDE * 4,
        }
    }
}

/// Whether a product can be done in parts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Safe {
    Yes,
    /// If the results turn out to be finite.
    Maybe,
    /// There is a NaN, which may be lost.
    No,
}

/// A block of columns and terms of the right operand, packed.
struct Right {
    ptr: Ptr<u8>,
    columns: (usize, usize),
    terms: (usize, usize),
    /// Bytes of a panel.
    panel: usize,
}

impl Product {
    /// # Safety
    /// As [`product`].
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]
    unsafe fn run(&self, threads: usize) -> bool {
        let plan = Plan::new(self, threads);
        let parts = plan.grid.0 * plan.grid.1;
        let packed = plan.columns * plan.line;
        let Ok(scratch) = Scratch::<u8>::new(packed + parts * plan.own) else {
            return false;
        };
        let own = Ptr::new(scratch.ptr().wrapping_add(packed));
        // The greatest magnitudes of the right operand's columns, and of each part's rows.
        let greatest: SmallVec<[AtomicU32; 9]> = (0..=parts).map(|_| AtomicU32::new(0)).collect();
        for j0 in (0..self.n).step_by(plan.columns) {
            greatest[0].store(0, Ordering::Relaxed);
            for k0 in (0..self.k).step_by(plan.terms) {
                let terms = plan.terms.min(self.k - k0);
                let right = Right {
                    ptr: Ptr::new(scratch.ptr()),
                    columns: (j0, plan.columns.min(self.n - j0)),
                    terms: (k0, terms),
                    panel: terms.next_multiple_of(STEP) * 2 * self.parts.count() * SIDE,
                };
                let panels = right.columns.1.div_ceil(SIDE);
                pool::parallel_parts(panels, parts, &|_, range| {
                    let start = range.start * SIDE;
                    let lines = Lines {
                        ptr: self.b.at(k0, j0 + start).ptr,
                        across: self.b.col,
                        along: self.b.row,
                        count: (range.len() * SIDE).min(right.columns.1.saturating_sub(start)),
                        terms,
                    };
                    let to = right.ptr.at((range.start * right.panel) as isize);
                    // SAFETY: the columns are within the operand, and the panels within the
                    // scratch memory; no other thread has them.
                    let magnitude = unsafe { lines.pack::<true>(to, self.parts) };
                    greatest[0].fetch_max(magnitude, Ordering::Relaxed);
                });
                pool::parallel_parts(parts, parts, &|part, _| {
                    let own = own.at((part * plan.own) as isize);
                    let of_part = [&greatest[0], &greatest[1 + part]];
                    // SAFETY: `own` is this part's memory, and the right operand is packed.
                    unsafe { self.part(&plan, &right, part, own, of_part) };
                });
            }
        }
        true
    }

    /// The sums of a part of a block's columns.
    ///
    /// # Safety
    /// As [`product`]; `own` must have room for what the plan says, and `right` be packed.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]
    unsafe fn part(
        &self,
        plan: &Plan,
        right: &Right,
        part: usize,
        own: *mut u8,
        greatest: [&AtomicU32; 2],
    ) {
        let (pi, pj) = (part / plan.grid.1, part % plan.grid.1);
        let from = pi * plan.share.0 * SIDE;
        let to = (from + plan.share.0 * SIDE).min(self.m);
        let panels = right.columns.1.div_ceil(SIDE);
        let columns = pj * plan.share.1..panels.min((pj + 1) * plan.share.1);
        let ((k0, terms), (j0, _)) = (right.terms, right.columns);
        let (first, last) = (k0 == 0, k0 + terms == self.k);
        let steps = terms.div_ceil(STEP);
        let sums = own.wrapping_add(plan.rows * plan.line).cast::<f32>();
        let elsewhere = |block: usize| Sums {
            ptr: sums.wrapping_add(block * SIDE * SIDE),
            step: 4 * SIDE,
        };
        let in_output = |i: usize, j: usize| Sums {
            ptr: self.out.at(i, j).ptr,
            step: 4 * self.out.row as usize,
        };
        // SAFETY: every index below is within its matrix, and all memory has the room that the
        // plan says.
        unsafe {
            tiles::configure();
            for i1 in (from..to).step_by(plan.rows) {
                let left = Lines {
                    ptr: self.a.at(i1, k0).ptr,
                    across: self.a.row,
                    along: self.a.col,
                    count: plan.rows.min(to - i1),
                    terms,
                };
                greatest[1].fetch_max(left.pack::<false>(own, self.parts), Ordering::Relaxed);
                let safe = self.is_safe(greatest);
                let count = left.count.div_ceil(SIDE);
                for j in columns.clone() {
                    let pb = right.ptr.at((j * right.panel) as isize);
                    for p in 0..count {
                        let (i, j1) = (i1 + p * SIDE, j0 + j * SIDE);
                        let (rows, cols) = (SIDE.min(self.m - i), SIDE.min(self.n - j1));
                        let o = self.out.at(i, j1);
                        let whole = rows == SIDE && cols == SIDE;
                        // Blocks lie in the order in which they are walked.
                        let block = match plan.sums {
                            1 => elsewhere(0),
                            _ => elsewhere((j - columns.start) * plan.share.0 + (i - from) / SIDE),
                        };
                        let (block, next) = match (plan.direct && whole, p + 1 < count) {
                            (true, true) => (in_output(i, j1), in_output(i + SIDE, j1)),
                            (true, false) => (in_output(i, j1), in_output(i1, j1 + SIDE)),
                            _ => (block, block.next()),
                        };
                        if first {
                            Sums::clear();
                        } else {
                            if plan.direct && !whole {
                                fetch(block.ptr, o, rows, cols);
                            }
                            block.resume();
                        }
                        // The next sums, where they are not in the first cache, and this block's
                        // share of the next panel.
                        let next = (plan.direct || plan.sums > 1).then_some(next);
                        let ahead = pb.wrapping_add(right.panel + right.panel / count * p);
                        let pa = own.wrapping_add(p * right.panel);
                        self.multiply(steps, pa, pb, next, ahead);
                        block.store();
                        let in_place = plan.direct && whole;
                        if last && !(safe == Safe::Yes || safe == Safe::Maybe && is_finite(block)) {
                            let again = gemm::Product {
                                m: rows,
                                n: cols,
                                out: o,
                                a: self.a.at(i, 0),
                                b: self.b.at(0, j1),
                                ..self.x
                            };
                            gemm::plain(&again, 1);
                        } else if !in_place && (last || plan.direct) {
                            self.finish(block.ptr, o, rows, cols);
                        }
                    }
                }
            }
            tiles::release();
        }
    }

    /// Adds the products of two packed panels to the tiles' sums. Meanwhile the cache fetches
    /// `next` and then from `ahead`.
    ///
    /// # Safety
    /// The panels must hold `steps` steps, and the tiles be configured.
    unsafe fn multiply(
        &self,
        steps: usize,
        left: *const u8,
        right: *const u8,
        next: Option<Sums>,
        ahead: *const u8,
    ) {
        let (kernel, pieces): (unsafe fn(_, _, _, _), _) = match self.parts {
            Parts::One => (tiles::one, tiles::PIECES_OF_ONE),
            Parts::Three => (tiles::three, tiles::PIECES),
        };
        let near = match next {
            Some(_) => SIDE.div_ceil(pieces).min(steps - 1),
            None => 0,
        };
        let skip = near * 2 * TILE * self.parts.count();
        // SAFETY: the caller's promise; at least one step is left for the second call.
        unsafe {
            if let Some(next) = next.filter(|_| near > 0) {
                let next = Ahead {
                    ptr: next.ptr.cast(),
                    step: next.step,
                };
                kernel(near, left, right, next);
            }
            let ahead = Ahead {
                ptr: ahead,
                step: 128,
            };
            kernel(steps - near, left.add(skip), right.add(skip), ahead);
        }
    }

    /// Whether operands of these magnitudes have finite parts and a finite product.
    fn is_safe(&self, greatest: [&AtomicU32; 2]) -> Safe {
        let bits = greatest.map(|g| g.load(Ordering::Relaxed));
        let [right, left] = bits.map(|g| f64::from(f32::from_bits(g)));
        let most = f64::from(2f32.powi(126));
        if left.is_nan() || right.is_nan() {
            Safe::No
        } else if left < most && right < most && left * right * (self.k as f64) < most {
            Safe::Yes
        } else {
            Safe::Maybe
        }
    }

    /// Writes a block's results.
    ///
    /// # Safety
    /// `block` is a whole block, `out` valid for `rows` and `cols`.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]
    unsafe fn finish(&self, block: *const f32, out: Matrix<f32>, rows: usize, cols: usize) {
        let alpha = _mm512_set1_ps(self.alpha);
        // SAFETY: the caller's promise.
        unsafe {
            for i in 0..rows {
                let from = block.add(i * SIDE);
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
}

/// Reads the sums of a block at the output's edge back, with zeros beyond.
///
/// # Safety
/// `block` has room for a block, `out` is valid for `rows` and `cols`, adjacent ones.
#[target_feature(enable = "avx512f")]
unsafe fn fetch(block: *mut f32, out: Matrix<f32>, rows: usize, cols: usize) {
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
unsafe fn is_finite(block: Sums) -> bool {
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

#[cfg(test)]
mod tests;
