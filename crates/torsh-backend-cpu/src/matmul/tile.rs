//! The inner loops of the blocked product: one tile of the result, held in registers.

use std::mem::MaybeUninit;

use super::lane::Lane;
use crate::arch::Level;

/// One tile of a product: up to `MR` rows by `NR` columns, over `k` terms.
pub(crate) struct Tile<T, O = T> {
    pub k: usize,
    /// The left operand: either its panel (`[k][rows]`), or its rows, `a_row` elements apart.
    pub a: *const T,
    pub a_row: isize,
    /// The right operand: `NR` adjacent numbers for each term, `b_term` elements apart.
    pub b: *const T,
    pub b_term: isize,
    /// The result, and the steps to its next row and column.
    pub out: *mut O,
    pub out_row: isize,
    pub out_column: isize,
    /// Columns to write, `NR` at most.
    pub columns: usize,
    pub alpha: T,
    pub add: bool,
    /// Terms that are summed one after the other, fewer than usual where smaller errors are wanted.
    pub stretch: usize,
}

/// A version of [`tile`].
pub(crate) type TileFn<T, O = T> = unsafe fn(&Tile<T, O>);

/// The tiles of one instruction set, for products of `T` into `O`.
pub(crate) struct Tiles<T: 'static, O: 'static = T> {
    /// Rows of the largest one.
    pub rows: usize,
    /// Columns of each.
    pub columns: usize,
    pub block: BlockSizes,
    /// By rows less one: for a panel of the left operand.
    pub packed: &'static [TileFn<T, O>],
    /// By rows less one: for rows of the left operand where they are; empty where nothing takes them.
    pub in_place: &'static [TileFn<T, O>],
}

/// What the product of large matrices is cut into.
#[derive(Clone, Copy)]
pub(crate) struct BlockSizes {
    /// Terms of a block. A panel of the right operand stays in the nearest caches while the left
    /// operand's pass by; the more terms, the less often the result is read and written.
    pub terms: usize,
    /// Bytes of a block of the left operand, in a core's second-level cache.
    pub left: usize,
    /// Terms that are summed one after the other. The sums of such stretches are summed in turn, so
    /// that the rounding of a long sum grows with the root of their length and number, not of all
    /// terms.
    pub stretch: usize,
    /// Panels of the right operand up to which rows of the left one are read where they are. With
    /// 14 rows their addresses do not fit the registers, and a copy pays from one panel on.
    pub in_place: usize,
}

/// [`BlockSizes::stretch`] where nothing speaks for another.
pub(crate) const STRETCH: usize = 96;

/// For second-level caches of 512 KiB.
const MODEST: BlockSizes = BlockSizes {
    terms: 384,
    left: 192 * 1024,
    stretch: STRETCH,
    in_place: 4,
};
/// For those of 1 MiB and more, which all processors with AVX-512 have.
#[cfg(target_arch = "x86_64")]
const LARGE: BlockSizes = BlockSizes {
    terms: 512,
    left: 384 * 1024,
    stretch: 128,
    in_place: 0,
};

/// The largest tile of any instruction set, in numbers.
const LARGEST: usize = 32;

/// Adds one term's products.
///
/// # Safety
/// As [`tile`].
#[inline(always)]
unsafe fn term<V: Lane, const R: usize, const C: usize, const PACKED: bool>(
    a: *const V::T,
    a_row: isize,
    b: *const V::T,
    sums: &mut [[V; C]; R],
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut right = [V::load(b); C];
        for c in 1..C {
            right[c] = V::load(b.add(c * V::N));
        }
        for r in 0..R {
            let left = V::splat(match PACKED {
                true => *a.add(r),
                false => *a.offset(r as isize * a_row),
            });
            for c in 0..C {
                sums[r][c] = sums[r][c].add_terms(left, right[c]);
            }
        }
    }
}

/// `out = alpha a b`, or `out += alpha a b`.
///
/// # Safety
/// The operands of `t` are valid for `R` rows, `V::N * C` columns (`t.columns` of the result) and
/// `t.k` terms; the processor has the instruction set of `V`; `edge` is [`edge`].
#[inline(always)]
pub(super) unsafe fn tile<V: Lane, const R: usize, const C: usize, const PACKED: bool>(
    t: &Tile<V::T>,
    edge: unsafe fn(&Tile<V::T>, *mut V::T, usize),
) {
    // SAFETY: the caller's promise.
    unsafe {
        let zero = V::splat(std::mem::zeroed());
        let mut sums = [[zero; C]; R];
        let (mut a, mut b) = (t.a, t.b);
        // What the sums go to comes from the second or third cache meanwhile.
        for r in 0..R {
            let out = t.out.wrapping_offset(r as isize * t.out_row);
            V::fetch(out);
            V::fetch(out.wrapping_add(C * V::N - 1));
        }
        let step = if PACKED { R } else { 1 };
        let mut totals = [[zero; C]; R];
        let mut left = t.k;
        let stretch =
            t.k.div_ceil(t.k.div_ceil(t.stretch).max(1))
                .next_multiple_of(4);
        loop {
            let mut k = left.min(stretch);
            left -= k;
            while k >= 4 {
                for u in 0..4 {
                    let b = b.offset(u as isize * t.b_term);
                    term::<V, R, C, PACKED>(a.add(u * step), t.a_row, b, &mut sums);
                }
                a = a.add(4 * step);
                b = b.offset(4 * t.b_term);
                k -= 4;
            }
            while k > 0 {
                term::<V, R, C, PACKED>(a, t.a_row, b, &mut sums);
                a = a.add(step);
                b = b.offset(t.b_term);
                k -= 1;
            }
            if left == 0 {
                break;
            }
            for r in 0..R {
                for c in 0..C {
                    totals[r][c] = totals[r][c].plus(sums[r][c]);
                    sums[r][c] = zero;
                }
            }
        }
        if t.k > stretch {
            for r in 0..R {
                for c in 0..C {
                    sums[r][c] = sums[r][c].plus(totals[r][c]);
                }
            }
        }
        let alpha = V::splat(t.alpha);
        if t.columns == C * V::N && t.out_column == 1 {
            for r in 0..R {
                let out = t.out.offset(r as isize * t.out_row);
                for c in 0..C {
                    let out = out.add(c * V::N);
                    if t.add {
                        V::load(out).add_product(sums[r][c], alpha).store(out);
                    } else {
                        sums[r][c].times(alpha).store(out);
                    }
                }
            }
        } else {
            // The sums leave their registers here, and only here: an index that is not a constant
            // would keep them in memory all along.
            let mut block = [const { MaybeUninit::<[V::T; LARGEST]>::uninit() }; R];
            for r in 0..R {
                for c in 0..C {
                    let row = block[r].as_mut_ptr().cast::<V::T>();
                    sums[r][c].store(row.add(c * V::N));
                }
            }
            edge(t, block.as_mut_ptr().cast(), R);
        }
    }
}

/// Writes the part of a tile that the result has, or columns that are not adjacent. Every number
/// is rounded as in a whole tile.
///
/// # Safety
/// As [`tile`]; `block` holds the sums, rows of [`LARGEST`].
#[inline(always)]
pub(super) unsafe fn edge<V: Lane, const C: usize>(t: &Tile<V::T>, block: *mut V::T, rows: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let alpha = V::splat(t.alpha);
        for r in 0..rows {
            let out = t.out.offset(r as isize * t.out_row);
            let at = |i: usize| out.offset(i as isize * t.out_column);
            let sums = block.add(r * LARGEST);
            let mut row = [std::mem::zeroed::<V::T>(); LARGEST];
            if t.add {
                for i in 0..t.columns {
                    row[i] = *at(i);
                }
            }
            for c in 0..C {
                let row = row.as_mut_ptr().add(c * V::N);
                let sum = V::load(sums.add(c * V::N));
                if t.add {
                    V::load(row).add_product(sum, alpha).store(row);
                } else {
                    sum.times(alpha).store(row);
                }
            }
            for i in 0..t.columns {
                *at(i) = row[i];
            }
        }
    }
}

macro_rules! tiles {
    ($name:ident, $tile:ident of $t:ident into $o:ty, $v:ty, $c:literal, [$($r:literal)*] [$($i:literal)*], $block:expr $(, $features:literal)?) => {
        mod $name {
            use super::*;
            #[cfg(target_arch = "x86_64")]
            #[allow(unused_imports)]
            use std::arch::x86_64::*;

            use $crate::matmul::tile::Tile;

            /// # Safety
            /// As [`tile`].
            $(#[target_feature(enable = $features)])?
            unsafe fn of<const R: usize, const PACKED: bool>(t: &Tile<$t, $o>) {
                // SAFETY: the caller's promise.
                unsafe { $tile::<$v, R, $c, PACKED>(t, edges) }
            }

            /// One for the tiles of any number of rows.
            ///
            /// # Safety
            /// As [`tile`].
            $(#[target_feature(enable = $features)])?
            #[inline(never)]
            unsafe fn edges(t: &Tile<$t, $o>, block: *mut $t, rows: usize) {
                // SAFETY: the caller's promise.
                unsafe { edge::<$v, $c>(t, block, rows) }
            }

            pub(super) static TILES: Tiles<$t, $o> = Tiles {
                rows: [$($r),*].len(),
                columns: $c * <$v as Lane>::N,
                block: $block,
                packed: &[$(of::<$r, true>),*],
                in_place: &[$(of::<$i, false>),*],
            };
        }
    };
}
pub(super) use tiles;

#[cfg(target_arch = "x86_64")]
tiles!(avx512_f32, tile of f32 into f32, __m512, 2, [1 2 3 4 5 6 7 8 9 10 11 12 13 14] [], LARGE, "avx512f,avx512dq,avx512vl,avx512bw,avx512cd,avx2,fma,f16c,bmi1,bmi2");
#[cfg(target_arch = "x86_64")]
tiles!(avx512_f64, tile of f64 into f64, __m512d, 2, [1 2 3 4 5 6 7 8 9 10 11 12 13 14] [], LARGE, "avx512f,avx512dq,avx512vl,avx512bw,avx512cd,avx2,fma,f16c,bmi1,bmi2");
#[cfg(target_arch = "x86_64")]
tiles!(avx2_f32, tile of f32 into f32, __m256, 2, [1 2 3 4 5 6] [1 2 3 4 5 6], MODEST, "avx2,fma,f16c,bmi1,bmi2");
#[cfg(target_arch = "x86_64")]
tiles!(avx2_f64, tile of f64 into f64, __m256d, 2, [1 2 3 4 5 6] [1 2 3 4 5 6], MODEST, "avx2,fma,f16c,bmi1,bmi2");
tiles!(base_f32, tile of f32 into f32, [f32; 4], 2, [1 2 3 4 5 6] [1 2 3 4 5 6], MODEST);
tiles!(base_f64, tile of f64 into f64, [f64; 2], 2, [1 2 3 4 5 6] [1 2 3 4 5 6], MODEST);

/// A number with tiles of its own, whose products are an `O`.
pub(crate) trait Tiled<O = Self>: Sized + Copy + 'static {
    /// The tiles of a level.
    fn tiles(level: Level) -> &'static Tiles<Self, O>;
}

macro_rules! tiled {
    ($($t:ident: $avx512:ident $avx2:ident $base:ident),*) => {$(
        impl Tiled for $t {
            #[inline]
            fn tiles(level: Level) -> &'static Tiles<$t> {
                match level {
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx512 => &$avx512::TILES,
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx2 => &$avx2::TILES,
                    _ => &$base::TILES,
                }
            }
        }
    )*};
}
tiled!(f32: avx512_f32 avx2_f32 base_f32, f64: avx512_f64 avx2_f64 base_f64);
