//! The inner loops of the blocked product: one tile of the result, held in registers.

use std::mem::MaybeUninit;

use super::panel::{Lines, Square};
use crate::machine::tuning::product_blocks::{BlockSizes, MODEST};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use crate::machine::tuning::product_blocks::{LARGE, WIDE};
use crate::simd::Level;
use crate::simd::Vector;

/// One tile of a product, over `k` terms.
pub(crate) struct Tile<T, O = T> {
    pub rows: usize,
    pub k: usize,
    /// The left operand: either its panel (`[k][rows]`), or its rows, `a_row` elements apart.
    pub a: *const T,
    pub a_row: isize,
    /// The right operand: the adjacent numbers of a panel for each term, `b_term` elements apart.
    pub b: *const T,
    pub b_term: isize,
    /// The result, and the steps to its next row and column.
    pub out: *mut O,
    pub out_row: isize,
    pub out_column: isize,
    /// Columns to write, at most the panel's.
    pub columns: usize,
    pub alpha: T,
    /// What is added to, if anything (else null), with steps of its own: the result as it is, or what
    /// it starts from.
    pub from: *const O,
    pub from_row: isize,
    pub from_column: isize,
    /// Terms that are summed one after the other, fewer than usual where smaller errors are wanted.
    pub chain: usize,
    pub next: Next<T>,
}

/// What to ask for into the second-level cache meanwhile, every four terms: some lines, `pitch`
/// elements apart, and those `step` elements further on the next time.
pub(crate) struct Next<T> {
    pub at: *const T,
    pub step: isize,
    pub lines: usize,
    pub pitch: isize,
}

impl<T> Next<T> {
    /// Nothing.
    pub const NONE: Next<T> = Next {
        at: std::ptr::null(),
        step: 0,
        lines: 0,
        pitch: 0,
    };
}

impl<T> Clone for Next<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Next<T> {}

/// A version of [`tile`].
pub(crate) type TileFn<T, O = T> = unsafe fn(&Tile<T, O>);

/// The tiles of one instruction set, for products of `T` into `O`.
pub(crate) struct Tiles<T: 'static, O: 'static = T> {
    /// Rows of the largest one.
    pub rows: usize,
    /// Columns of the narrowest one; the others have multiples of them.
    pub step: usize,
    /// Columns of the widest one.
    pub columns: usize,
    pub block: BlockSizes,
    /// By steps of columns less one, then by rows less one: for a panel of the left operand.
    pub packed: &'static [&'static [TileFn<T, O>]],
    /// The same for rows of the left operand where they are; empty where nothing takes them.
    pub in_place: &'static [&'static [TileFn<T, O>]],
    /// Whether a result whose rows are adjacent is written as fast as one whose columns are.
    pub transposes: bool,
}

impl<T, O> Tiles<T, O> {
    /// How wide a panel of so many columns is, [`Tiles::columns`] at most.
    #[inline]
    pub fn width(&self, columns: usize) -> usize {
        columns.next_multiple_of(self.step)
    }
    /// The tiles for panels of a width.
    #[inline]
    pub fn packed(&self, width: usize) -> &'static [TileFn<T, O>] {
        self.packed[width / self.step - 1]
    }
    /// [`Tiles::packed`], for rows of the left operand where they are.
    #[inline]
    pub fn in_place(&self, width: usize) -> &'static [TileFn<T, O>] {
        self.in_place[width / self.step - 1]
    }
}

/// `n` things in as few even parts of `most` as there can be: the first and the size of each.
#[inline]
pub(crate) fn even_parts(n: usize, most: usize) -> impl Iterator<Item = (usize, usize)> {
    let parts = n.div_ceil(most);
    let (size, larger) = (n / parts.max(1), n % parts.max(1));
    (0..parts).map(move |i| (i * size + i.min(larger), size + usize::from(i < larger)))
}

/// The columns of the widest tile of any instruction set.
pub(super) const WIDEST: usize = 48;

/// Adds one term's products.
///
/// # Safety
/// As [`tile`].
#[inline(always)]
pub(crate) unsafe fn term<V: Vector, const R: usize, const C: usize, const PACKED: bool>(
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

/// `out = alpha a b`, or `out = from + alpha a b`.
///
/// # Safety
/// The operands of `t` are valid for `R` rows, which it has, `V::N * C` columns (`t.columns` of the
/// result) and `t.k` terms; the processor has the instruction set of `V`; `edge` is [`edge`].
#[inline(always)]
pub(super) unsafe fn tile<V: Vector, const R: usize, const C: usize, const PACKED: bool>(
    t: &Tile<V::T>,
    edge: unsafe fn(&Tile<V::T>, *mut V::T),
) {
    // SAFETY: the caller's promise.
    unsafe {
        let zero = V::splat(std::mem::zeroed());
        let mut sums = [[zero; C]; R];
        let (mut a, mut b) = (t.a, t.b);
        // What the sums go to comes to the second cache meanwhile, and to the first in the last
        // terms, a row at a time: what passes in between would drive it out again.
        for r in 0..R {
            let out = t.out.wrapping_offset(r as isize * t.out_row);
            for c in 0..C {
                V::prefetch_l2(out.wrapping_add(c * V::N));
            }
            V::prefetch_l2(out.wrapping_add(C * V::N - 1));
        }
        let mut row = t.out;
        let (mut next, next_step) = (t.next.at, t.next.step);
        let (lines, pitch) = (t.next.lines, t.next.pitch);
        let step = if PACKED { R } else { 1 };
        let mut totals = [[zero; C]; R];
        let mut left = t.k;
        let chain =
            t.k.div_ceil(t.k.div_ceil(t.chain).max(1))
                .next_multiple_of(4);
        loop {
            let mut k = left.min(chain);
            left -= k;
            let late = if left == 0 { 4 * R + 3 } else { 0 };
            while k >= 4 {
                if k <= late {
                    for c in 0..C {
                        V::prefetch_l1(row.wrapping_add(c * V::N));
                    }
                    V::prefetch_l1(row.wrapping_add(C * V::N - 1));
                    row = row.wrapping_offset(t.out_row);
                }
                for line in 0..lines {
                    V::prefetch_l2(next.wrapping_offset(line as isize * pitch));
                }
                next = next.wrapping_offset(next_step);
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
                    totals[r][c] = totals[r][c].add(sums[r][c]);
                    sums[r][c] = zero;
                }
            }
        }
        if t.k > chain {
            for r in 0..R {
                for c in 0..C {
                    sums[r][c] = sums[r][c].add(totals[r][c]);
                }
            }
        }
        let alpha = V::splat(t.alpha);
        let add = !t.from.is_null();
        if t.columns == C * V::N && t.out_column == 1 && (!add || t.from_column == 1) {
            for r in 0..R {
                let out = t.out.offset(r as isize * t.out_row);
                let from = t.from.wrapping_offset(r as isize * t.from_row);
                for c in 0..C {
                    let out = out.add(c * V::N);
                    if add {
                        let from = V::load(from.add(c * V::N));
                        from.add_product(sums[r][c], alpha).store(out);
                    } else {
                        sums[r][c].mul(alpha).store(out);
                    }
                }
            }
        } else {
            // The sums leave their registers here, and only here: an index that is not a constant
            // would keep them in memory all along.
            let mut block = [const { MaybeUninit::<[V::T; WIDEST]>::uninit() }; R];
            for r in 0..R {
                for c in 0..C {
                    let row = block[r].as_mut_ptr().cast::<V::T>();
                    sums[r][c].store(row.add(c * V::N));
                }
            }
            edge(t, block.as_mut_ptr().cast());
        }
    }
}

/// Rows of a tile that are written together where they are adjacent in the result.
pub(super) const GROUP: usize = 8;

/// Writes the part of a tile that the result has, or columns that are not adjacent. Every number
/// is rounded as in a whole tile.
///
/// # Safety
/// As [`tile`]; `block` holds the sums, rows of [`WIDEST`]. The processor has the instruction set of
/// `G` too.
#[inline(always)]
pub(super) unsafe fn edge<V, G>(t: &Tile<V::T>, block: *mut V::T)
where
    V: Vector<T: Square>,
    G: Vector<T = V::T>,
{
    // SAFETY: the caller's promise.
    unsafe {
        let add = !t.from.is_null();
        let adjacent = t.out_row == 1 && (!add || t.from_row == 1);
        if G::N == GROUP && t.rows == GROUP && adjacent {
            return transposed::<G>(t, block);
        }
        let alpha = V::splat(t.alpha);
        for r in 0..t.rows {
            let out = t.out.offset(r as isize * t.out_row);
            let at = |i: usize| out.offset(i as isize * t.out_column);
            let sums = block.add(r * WIDEST);
            let mut row = [std::mem::zeroed::<V::T>(); WIDEST];
            if add {
                let from = t.from.offset(r as isize * t.from_row);
                for i in 0..t.columns {
                    row[i] = *from.offset(i as isize * t.from_column);
                }
            }
            for c in 0..t.columns.div_ceil(V::N) {
                let row = row.as_mut_ptr().add(c * V::N);
                let sum = V::load(sums.add(c * V::N));
                if add {
                    V::load(row).add_product(sum, alpha).store(row);
                } else {
                    sum.mul(alpha).store(row);
                }
            }
            for i in 0..t.columns {
                *at(i) = row[i];
            }
        }
    }
}

/// Writes a tile whose columns are apart, and have [`GROUP`] adjacent rows.
///
/// # Safety
/// As [`edge`].
#[inline(always)]
unsafe fn transposed<G: Vector<T: Square>>(t: &Tile<G::T>, block: *mut G::T) {
    // SAFETY: the caller's promise. Beyond the tile's columns the block has numbers of any kind,
    // which are not written.
    unsafe {
        let side = 32 / size_of::<G::T>();
        let alpha = G::splat(t.alpha);
        let add = !t.from.is_null();
        for first in (0..t.columns).step_by(GROUP) {
            let mut columns = [[std::mem::zeroed::<G::T>(); GROUP]; GROUP];
            for row in (0..GROUP).step_by(side) {
                for column in (0..GROUP).step_by(side) {
                    let from = Lines {
                        ptr: block.add(row * WIDEST + first + column).cast_const(),
                        line: WIDEST as isize,
                        term: 1,
                    };
                    let to = columns[column].as_mut_ptr().add(row);
                    G::T::transpose(from, side, to, GROUP);
                }
            }
            for (i, column) in columns.iter().enumerate().take(t.columns - first) {
                let out = t.out.offset((first + i) as isize * t.out_column);
                let sum = G::load(column.as_ptr());
                if add {
                    let from = t.from.offset((first + i) as isize * t.from_column);
                    G::load(from).add_product(sum, alpha).store(out);
                } else {
                    sum.mul(alpha).store(out);
                }
            }
        }
    }
}

/// The tiles of a number of vectors, by rows less one.
macro_rules! tile_rows {
    ($of:ident $vectors:literal [$($rows:literal)*] $packed:literal) => {
        &[$($of::<$rows, $vectors, $packed>),*] as &[_]
    };
}
pub(super) use tile_rows;

macro_rules! tiles {
    ($name:ident, $tile:ident of $t:ident into $o:ty, $v:ty, $g:ty, [$($c:literal)*] by $r:tt, [$($d:literal)*] by $i:tt, $block:expr $(, $features:literal)?) => {
        mod $name {
            use super::*;
            #[cfg(target_arch = "aarch64")]
            #[allow(unused_imports)]
            use std::arch::aarch64::*;
            #[cfg(target_arch = "x86_64")]
            #[allow(unused_imports)]
            use std::arch::x86_64::*;

            use $crate::kernels::matmul::tile::Tile;

            /// # Safety
            /// As [`tile`].
            $(#[target_feature(enable = $features)])?
            unsafe fn of<const R: usize, const C: usize, const PACKED: bool>(t: &Tile<$t, $o>) {
                // SAFETY: the caller's promise.
                unsafe { $tile::<$v, R, C, PACKED>(t, edges) }
            }

            /// One for the tiles of any number of rows.
            ///
            /// # Safety
            /// As [`tile`].
            $(#[target_feature(enable = $features)])?
            #[inline(never)]
            unsafe fn edges(t: &Tile<$t, $o>, block: *mut $t) {
                // SAFETY: the caller's promise.
                unsafe { edge::<$v, $g>(t, block) }
            }

            const PACKED: &[&[$crate::kernels::matmul::tile::TileFn<$t, $o>]] = &[$($crate::kernels::matmul::tile::tile_rows!(of $c $r true)),*];
            /// Vectors of the narrowest tile, and of the widest.
            const VECTORS: (usize, usize) = {
                let all: &[usize] = &[$($c),*];
                (all[0], all[all.len() - 1])
            };

            pub(super) static TILES: Tiles<$t, $o> = Tiles {
                rows: PACKED[0].len(),
                step: VECTORS.0 * <$v as Vector>::N,
                columns: VECTORS.1 * <$v as Vector>::N,
                block: $block,
                packed: PACKED,
                transposes: PACKED[0].len() == GROUP && <$g as Vector>::N == GROUP,
                in_place: &[$($crate::kernels::matmul::tile::tile_rows!(of $d $i false)),*],
            };
        }
    };
}
#[cfg(target_arch = "x86_64")]
pub(super) use tiles;

// 8 rows of a result whose rows are a multiple of 4 KiB long share a set of the first-level cache,
// which has 12 ways or 8; the panels are three cache lines wide for that.
#[cfg(target_arch = "x86_64")]
tiles!(avx512_f32, tile of f32 into f32, __m512, __m256, [1 2 3] by [1 2 3 4 5 6 7 8], [1 2 3] by [1 2 3 4 5 6 7 8], LARGE, "avx512f,avx512dq,avx512vl,avx512bw,avx512cd,avx2,fma,f16c,bmi1,bmi2");
#[cfg(target_arch = "x86_64")]
tiles!(avx512_f64, tile of f64 into f64, __m512d, __m512d, [1 2 3 4] by [1 2 3 4 5 6], [1 2 3 4] by [1 2 3 4 5 6], WIDE, "avx512f,avx512dq,avx512vl,avx512bw,avx512cd,avx2,fma,f16c,bmi1,bmi2");
#[cfg(target_arch = "x86_64")]
tiles!(avx2_f32, tile of f32 into f32, __m256, __m256, [2] by [1 2 3 4 5 6], [2] by [1 2 3 4 5 6], MODEST, "avx2,fma,f16c,bmi1,bmi2");
#[cfg(target_arch = "x86_64")]
tiles!(avx2_f64, tile of f64 into f64, __m256d, __m256d, [2] by [1 2 3 4 5 6], [2] by [1 2 3 4 5 6], MODEST, "avx2,fma,f16c,bmi1,bmi2");
// 16 by 6: 24 registers of sums, of 32.
#[cfg(target_arch = "aarch64")]
tiles!(neon_f32, tile of f32 into f32, float32x4_t, float32x4_t, [2 4] by [1 2 3 4 5 6], [2 4] by [1 2 3 4 5 6], LARGE);
#[cfg(target_arch = "aarch64")]
tiles!(neon_f64, tile of f64 into f64, float64x2_t, float64x2_t, [2 4] by [1 2 3 4 5 6], [2 4] by [1 2 3 4 5 6], WIDE);
tiles!(base_f32, tile of f32 into f32, [f32; 4], [f32; 4], [2] by [1 2 3 4 5 6], [2] by [1 2 3 4 5 6], MODEST);
tiles!(base_f64, tile of f64 into f64, [f64; 2], [f64; 2], [2] by [1 2 3 4 5 6], [2] by [1 2 3 4 5 6], MODEST);

/// A number with tiles of its own, whose products are an `O`.
pub(crate) trait Tiled<O = Self>: Sized + Copy + 'static {
    /// The tiles of a level.
    fn tiles(level: Level) -> &'static Tiles<Self, O>;
}

macro_rules! tiled {
    ($($t:ident: $avx512:ident $avx2:ident $neon:ident $base:ident),*) => {$(
        impl Tiled for $t {
            #[inline]
            fn tiles(level: Level) -> &'static Tiles<$t> {
                match level {
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx512 => &$avx512::TILES,
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx2 => &$avx2::TILES,
                    #[cfg(target_arch = "aarch64")]
                    Level::Neon => &$neon::TILES,
                    _ => &$base::TILES,
                }
            }
        }
    )*};
}
tiled!(f32: avx512_f32 avx2_f32 neon_f32 base_f32, f64: avx512_f64 avx2_f64 neon_f64 base_f64);
