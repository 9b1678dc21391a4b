//! Products of bfloat16 by the instructions that add the products of two neighbouring terms to a
//! float32 (AVX512-BF16): a pair of terms is one element of the blocked product, 32 bits as a
//! float32 is, and a pair of a row of the left operand is multiplied by those of 16 columns at once.
//!
//! The sums are float32. Unlike those of widened numbers, they take subnormal operands for zeros, as
//! the instruction does.
//!
//! Intrinsics: A pair of bfloat16 is a 32 bit lane, and its product an instruction of AVX512-BF16.

use std::arch::x86_64::*;
use std::mem::MaybeUninit;
use std::ops::Range;

use half::bf16;
use torsh_core::{Result, pool};

use super::operands::{Matrix, Product};
use super::packed::{self, Packable};
use super::panel::{Lines, Square};
use super::tile::{GROUP, Tile, TileFn, Tiled, Tiles, WIDEST, edge, tile, tiles};
use crate::machine::tuning::product_blocks::PAIRS;
use crate::memory::convert::rounded_to_bf16;
use crate::memory::dense::{Ptr, Scratch};
use crate::simd::Level;
use crate::simd::Vector;
use crate::simd::isa;

/// Two neighbouring terms, or a float32 of the result.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Pair(u32);

/// 16 pairs, or 16 sums.
#[derive(Clone, Copy)]
struct Pairs(__m512i);

impl Pairs {
    #[inline(always)]
    fn sums(self) -> __m512 {
        // SAFETY: both are 64 bytes, and any bits are valid.
        unsafe { std::mem::transmute(self.0) }
    }
    #[inline(always)]
    fn of(sums: __m512) -> Pairs {
        // SAFETY: as above.
        Pairs(unsafe { std::mem::transmute::<__m512, __m512i>(sums) })
    }
}

impl Vector for Pairs {
    type T = Pair;
    const N: usize = 16;

    #[inline(always)]
    unsafe fn splat(value: Pair) -> Self {
        // SAFETY: the caller's promise.
        Pairs(unsafe { _mm512_set1_epi32(value.0 as i32) })
    }
    #[inline(always)]
    unsafe fn load(from: *const Pair) -> Self {
        // SAFETY: the caller's promise.
        Pairs(unsafe { _mm512_loadu_si512(from.cast()) })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut Pair) {
        // SAFETY: the caller's promise.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) }
    }
    #[inline(always)]
    unsafe fn add_terms(self, a: Self, b: Self) -> Self {
        // SAFETY: the caller's promise.
        Pairs::of(unsafe { isa::bf16::dot(self.sums(), a.0, b.0) })
    }
    #[inline(always)]
    unsafe fn add_product(self, a: Self, b: Self) -> Self {
        // SAFETY: the caller's promise.
        Pairs::of(unsafe { _mm512_fmadd_ps(a.sums(), b.sums(), self.sums()) })
    }
    #[inline(always)]
    unsafe fn mul(self, b: Self) -> Self {
        // SAFETY: the caller's promise.
        Pairs::of(unsafe { _mm512_mul_ps(self.sums(), b.sums()) })
    }
    #[inline(always)]
    unsafe fn add(self, b: Self) -> Self {
        // SAFETY: the caller's promise.
        Pairs::of(unsafe { _mm512_add_ps(self.sums(), b.sums()) })
    }
    #[inline(always)]
    unsafe fn keep_first(self, n: usize) -> Self {
        // SAFETY: the caller's promise.
        Pairs(unsafe { _mm512_maskz_mov_epi32(((1u32 << n) - 1) as u16, self.0) })
    }
    #[inline(always)]
    unsafe fn keep_last(self, n: usize) -> Self {
        // SAFETY: the caller's promise.
        Pairs(unsafe { _mm512_maskz_mov_epi32(!((1u32 << (16 - n)) - 1) as u16, self.0) })
    }
}

/// Terms up to which a result is summed in one go, so that it can be rounded at once.
pub(super) const AT_ONCE: usize = 2 * PAIRS.terms;

tiles!(avx512, tile of Pair into Pair, Pairs, Pairs, [1 2 3] by [1 2 3 4 5 6 7 8], [1 2 3] by [1 2 3 4 5 6 7 8], PAIRS, "avx512f,avx512dq,avx512vl,avx512bw,avx512cd,avx512bf16,avx2,fma,f16c,bmi1,bmi2");

/// The same tiles, whose sums are rounded.
static ROUNDED: Tiles<Pair, bf16> = Tiles {
    rows: avx512::TILES.rows,
    step: avx512::TILES.step,
    columns: avx512::TILES.columns,
    block: PAIRS,
    packed: &[&PACKED_ROWS, &PACKED_ROWS, &PACKED_ROWS],
    in_place: &[&ROWS_IN_PLACE, &ROWS_IN_PLACE, &ROWS_IN_PLACE],
    transposes: false,
};
static PACKED_ROWS: [TileFn<Pair, bf16>; 8] = [rounded::<true>; 8];
static ROWS_IN_PLACE: [TileFn<Pair, bf16>; 8] = [rounded::<false>; 8];

impl Tiled for Pair {
    fn tiles(_: Level) -> &'static Tiles<Pair> {
        &avx512::TILES
    }
}

impl Tiled<bf16> for Pair {
    fn tiles(_: Level) -> &'static Tiles<Pair, bf16> {
        &ROUNDED
    }
}

/// A tile whose sums are rounded to bfloat16, over all terms at once.
///
/// # Safety
/// As [`tile`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
unsafe fn rounded<const PACKED: bool>(t: &Tile<Pair, bf16>) {
    let tiles = &avx512::TILES;
    let width = tiles.width(t.columns);
    let mut sums = [[const { MaybeUninit::<Pair>::uninit() }; WIDEST]; 8];
    // SAFETY: the caller's promise; the sums have room for a whole tile.
    unsafe {
        // The tile asks for the place of its sums only.
        for r in 0..t.rows {
            let out = t.out.wrapping_offset(r as isize * t.out_row);
            Pairs::prefetch_l2(out.cast());
            Pairs::prefetch_l2(out.wrapping_add(WIDEST - 1).cast());
        }
        let of = match PACKED {
            true => tiles.packed(width),
            false => tiles.in_place(width),
        };
        of[t.rows - 1](&Tile {
            rows: t.rows,
            k: t.k,
            a: t.a,
            a_row: t.a_row,
            b: t.b,
            b_term: t.b_term,
            out: sums.as_mut_ptr().cast(),
            out_row: WIDEST as isize,
            out_column: 1,
            columns: width,
            alpha: t.alpha,
            from: std::ptr::null(),
            from_row: 0,
            from_column: 0,
            chain: t.chain,
            next: t.next,
        });
        for (r, row) in sums[..t.rows].iter().enumerate() {
            let out = t.out.offset(r as isize * t.out_row);
            round(row.as_ptr().cast(), out, t.columns, t.out_column);
        }
    }
}

/// The bits of bfloat16's nan.
const NAN: i16 = rounded_to_bf16(f32::NAN.to_bits()) as i16;

/// Rounds `columns` sums. Subnormal ones become zeros, as the products that they are of do.
///
/// # Safety
/// `sums` holds them, and those of whole vectors; `out` has room for the columns, a step apart. The
/// processor has the instructions.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
unsafe fn round(sums: *const f32, out: *mut bf16, columns: usize, step: isize) {
    // SAFETY: the caller's promise.
    unsafe {
        for first in (0..columns).step_by(Pairs::N) {
            let some = _mm512_loadu_ps(sums.add(first));
            let half = isa::bf16::rounded(some);
            // Every nan becomes the one of a conversion.
            let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(some, some);
            let half = _mm256_mask_set1_epi16(half, nan, NAN);
            let count = (columns - first).min(Pairs::N);
            if step == 1 && count == Pairs::N {
                // Stores under a mask are slower by far.
                _mm256_storeu_si256(out.add(first).cast(), half);
            } else if step == 1 {
                let some = ((1u32 << count) - 1) as u16;
                _mm256_mask_storeu_epi16(out.add(first).cast(), some, half);
            } else {
                let half = std::mem::transmute::<__m256i, [bf16; 16]>(half);
                for (i, &half) in half[..count].iter().enumerate() {
                    *out.offset((first + i) as isize * step) = half;
                }
            }
        }
    }
}

/// Pairs are copied as the float32 that are as large.
impl Square for Pair {
    unsafe fn transpose(from: Lines<Pair>, lines: usize, to: *mut Pair, pitch: usize) {
        // SAFETY: the caller's promise.
        unsafe { f32::transpose(from.cast(), lines, to.cast(), pitch) }
    }
    unsafe fn copy(from: Lines<Pair>, lines: usize, terms: usize, to: *mut Pair, pitch: usize) {
        // SAFETY: the caller's promise.
        unsafe { f32::copy(from.cast(), lines, terms, to.cast(), pitch) }
    }
    unsafe fn spread(from: Lines<Pair>, panels: usize, width: usize, terms: usize, to: *mut Pair) {
        // SAFETY: the caller's promise.
        unsafe { f32::spread(from.cast(), panels, width, terms, to.cast()) }
    }
}

impl Packable for Pair {
    const NUMBERS: usize = 2;
}

/// Terms that are asked for ahead of those that are copied.
const AHEAD: usize = 32;

/// Writes `count` lines of `terms` terms as pairs: pair `p` of line `i` to `to[p * pitch + i]`. Where
/// the terms are odd, the last one's partner is 0.
///
/// # Safety
/// `from` is valid for the lines and terms, and `to` for the pairs.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2")]
unsafe fn weave(from: Lines<bf16>, count: usize, terms: usize, to: *mut u32, pitch: usize) {
    // SAFETY: the caller's promise; every index is below its size.
    unsafe {
        for p in 0..terms / 2 {
            let to = to.add(p * pitch);
            let (even, odd) = (
                from.at(0, 2 * p).cast::<u16>(),
                from.at(0, 2 * p + 1).cast::<u16>(),
            );
            let mut i = 0;
            if from.line == 1 {
                // Rows lie on pages of their own, where the processor does not look ahead, and may
                // share sets of the first-level cache.
                for row in [AHEAD, AHEAD + 1] {
                    for column in [0, count - 1] {
                        _mm_prefetch::<_MM_HINT_T1>(from.at(column, 2 * p + row).cast());
                    }
                }
                while i + 16 <= count {
                    let low = _mm512_cvtepu16_epi32(_mm256_loadu_si256(even.add(i).cast()));
                    let high = _mm512_cvtepu16_epi32(_mm256_loadu_si256(odd.add(i).cast()));
                    let both = _mm512_or_si512(low, _mm512_slli_epi32::<16>(high));
                    _mm512_storeu_si512(to.add(i).cast(), both);
                    i += 16;
                }
            }
            while i < count {
                let at = i as isize * from.line;
                *to.add(i) = u32::from(*even.offset(at)) | u32::from(*odd.offset(at)) << 16;
                i += 1;
            }
        }
        if terms % 2 == 1 {
            let to = to.add(terms / 2 * pitch);
            for i in 0..count {
                *to.add(i) = u32::from(from.at(i, terms - 1).cast::<u16>().read());
            }
        }
    }
}

/// Whether pairs of adjacent terms can be read as such: all lines start an even number of numbers
/// apart.
fn is_paired(term: isize, line: isize, k: usize) -> bool {
    term == 1 && line % 2 == 0 && k.is_multiple_of(2)
}

/// Computes a product by up to `threads` threads, where `O` is [`Pair`] for float32 results, or
/// bfloat16 for up to [`AT_ONCE`] terms that are not added to anything. The result does not depend
/// on the number of threads. Fails, with nothing done, where there is no memory for the panels.
///
/// # Safety
/// The matrices are valid for their sizes, `out` overlaps neither other, and [`is_available`].
pub(super) unsafe fn product<O: Send + Sync + 'static>(
    x: &Product<bf16, O, f32>,
    threads: usize,
) -> Result<()>
where
    Pair: Tiled<O>,
{
    if x.out.col != 1 && x.out.row == 1 {
        // SAFETY: the caller's promise.
        return unsafe { product(&x.transposed(), threads) };
    }
    let pairs = x.k.div_ceil(2);
    let in_place = is_paired(x.a.col, x.a.row, x.k);
    let memory = match in_place {
        true => None,
        false => Some(Scratch::<Pair>::new(pairs * x.m)?),
    };
    let left = match &memory {
        None => Matrix::new(x.a.ptr.cast(), x.a.row / 2, 1),
        Some(memory) => {
            let (line, term) = (x.a.row, x.a.col);
            let to = Ptr::new(memory.ptr());
            let (m, k, start) = (x.m, x.k, Ptr::new(x.a.ptr));
            pool::parallel_parts(pairs, threads.min(pairs), &|_, some| {
                let terms = 2 * some.start..(2 * some.end).min(k);
                let from = Lines {
                    ptr: start.at(terms.start as isize * term).cast_const(),
                    line,
                    term,
                };
                let to = to.at((some.start * m) as isize).cast();
                // SAFETY: the memory has room for all pairs, and these are the thread's own.
                unsafe { weave(from, m, terms.len(), to, m) };
            });
            Matrix::new(memory.ptr(), 1, x.m as isize)
        }
    };
    let whole = Product {
        m: x.m,
        n: x.n,
        k: pairs,
        out: x.out,
        a: left,
        b: Matrix::new(x.b.ptr.cast(), x.b.row, x.b.col),
        alpha: Pair(x.alpha.to_bits()),
        add: x.add,
    };
    let right = RightOperand { k: x.k, b: x.b };
    // SAFETY: the caller's promise.
    unsafe {
        packed::into(
            &whole,
            Some(&|terms, columns, to, pitch| right.write(terms, columns, to, pitch)),
            None,
            None,
            threads,
        )
    }
}

/// The right operand, from which panels are written.
struct RightOperand {
    k: usize,
    b: Matrix<bf16>,
}
// SAFETY: the operand is only read.
unsafe impl Sync for RightOperand {}

impl RightOperand {
    fn write(&self, pairs: Range<usize>, columns: Range<usize>, to: *mut Pair, pitch: usize) {
        let x = self;
        let b = x.b.at(2 * pairs.start, columns.start);
        let terms = (2 * pairs.end).min(x.k) - 2 * pairs.start;
        // SAFETY: the terms and columns are the operand's, and the panel has room for all of them.
        unsafe {
            if columns.len() < pitch {
                std::ptr::write_bytes(to, 0, pairs.len() * pitch);
            }
            if is_paired(x.b.row, x.b.col, x.k) {
                let lines = Lines {
                    ptr: b.ptr.cast_const().cast::<Pair>(),
                    line: x.b.col / 2,
                    term: 1,
                };
                Pair::copy(lines, columns.len(), pairs.len(), to, pitch);
            } else {
                let lines = Lines {
                    ptr: b.ptr.cast_const(),
                    line: x.b.col,
                    term: x.b.row,
                };
                weave(lines, columns.len(), terms, to.cast(), pitch);
            }
        }
    }
}

#[cfg(feature = "unit-tests")]
mod tests;
