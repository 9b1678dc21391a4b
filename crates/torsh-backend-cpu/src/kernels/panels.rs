//! Products of rows with panels that lie in the cache, and the packing of panels.
//!
//! A panel is `width` columns of the right operand: `width` adjacent numbers for each of the `k`
//! terms. Some rows of one panel are summed in registers.

use crate::kernels::matmul::panel::{Lines, Square};
use crate::kernels::matmul::tile::{even_parts, term};
use crate::machine::tuning::panel::FETCHED as LINES;
use crate::memory::stream::{LINE, prefetch_second};
use crate::multiversion;
use crate::scalar::Real;
use crate::simd::{Arch, FloatVector, Level, Vectors};

/// Rows that are summed at once, at most.
pub(crate) const ROWS: usize = 8;
/// The same of two panels.
const PAIR_ROWS: usize = 6;

/// Whether a level has registers for two panels at once. That takes fewer loads for a multiply-add;
/// on Intel's processors the clock is the lower the more both pass together.
pub(crate) const fn pairs(level: Level) -> bool {
    matches!(level, Level::Avx512)
}

/// Rows that are summed at once, of one panel or two: as many as the level has registers for.
pub(crate) const fn rows(level: Level, two: bool) -> usize {
    match level {
        Level::Avx512 if !two => ROWS,
        _ => PAIR_ROWS,
    }
}

/// Which products count where a query sees no later keys: row `r` of the scores reaches column
/// `r + d`.
#[derive(Clone, Copy)]
pub(crate) enum CausalBand {
    /// All.
    All,
    /// Columns of the result up to the row's reach.
    Columns(isize),
    /// Terms up to the row's reach.
    Terms(isize),
    /// Terms from the one on that reaches the row: the left operand is transposed.
    Since(isize),
}

/// Rows of bytes that will be needed soon: products fetch some cache lines of them before each tile,
/// so that what lies beyond the caches comes while they compute.
#[derive(Clone, Copy)]
pub(crate) struct Prefetch {
    at: *const u8,
    /// From row to row.
    step: isize,
    rows: usize,
    /// Bytes of a row.
    bytes: usize,
}

impl Prefetch {
    pub const NOTHING: Prefetch = Prefetch {
        at: std::ptr::null(),
        step: 0,
        rows: 0,
        bytes: 0,
    };

    /// `rows` rows of `columns` adjacent numbers, `step` numbers apart.
    pub fn rows<T>(at: *const T, step: isize, rows: usize, columns: usize) -> Prefetch {
        Prefetch {
            at: at.cast(),
            step: step * size_of::<T>() as isize,
            rows: if columns > 0 { rows } else { 0 },
            bytes: columns * size_of::<T>(),
        }
    }
}

/// Asks for the next rows of what is needed soon, until these are [`LINES`].
#[inline(always)]
pub(crate) fn fetch(prefetches: &mut [Prefetch]) {
    fetch_lines(prefetches, LINES);
}

/// The same, until these are so many lines.
#[inline(always)]
pub(crate) fn fetch_lines(prefetches: &mut [Prefetch], lines: usize) {
    let mut bytes = 0;
    for s in prefetches {
        while s.rows > 0 {
            if bytes >= lines * LINE {
                return;
            }
            let mut at = 0;
            while at < s.bytes {
                prefetch_second(s.at.wrapping_add(at));
                at += LINE;
            }
            s.at = s.at.wrapping_offset(s.step);
            s.rows -= 1;
            bytes += s.bytes;
        }
    }
}

/// The next of these rows, of so many bytes or a little less, for one who asks for their lines itself: none
/// where rows are apart or longer.
#[cfg(target_arch = "x86_64")]
pub(crate) fn take(prefetches: &mut [Prefetch], bytes: usize) -> Option<*const u8> {
    let s = prefetches.iter_mut().find(|s| s.rows > 0)?;
    let rows = (bytes / s.bytes).min(s.rows);
    if rows == 0 || s.step != s.bytes as isize {
        return None;
    }
    let at = s.at;
    s.at = s.at.wrapping_add(rows * s.bytes);
    s.rows -= rows;
    Some(at)
}

/// `c = a b` or `c += a b`; `c` has rows of whole panels.
#[derive(Clone, Copy)]
pub(crate) struct PanelProduct<T> {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub a: *const T,
    /// From row to row and from term to term of `a`.
    pub steps: [isize; 2],
    pub b: *const T,
    /// From panel to panel and from term to term of `b`.
    pub right: [usize; 2],
    pub c: *mut T,
    pub ld: usize,
    pub add: bool,
    pub band: CausalBand,
}

/// `c = a b` of one panel, where the terms are those of stored blocks: the sums stay in registers from one block to the next.
#[derive(Clone, Copy)]
pub(crate) struct BlocksProduct<'a, T> {
    /// Rows of a block, and of `c`.
    pub m: usize,
    /// Terms of a block.
    pub terms: usize,
    /// Where each block begins in `a`, and which of the panel's terms is its first.
    pub blocks: &'a [[usize; 2]],
    pub a: *const T,
    /// From row to row and from term to term of a block.
    pub steps: [isize; 2],
    /// The panel: adjacent numbers for each term.
    pub b: *const T,
    /// Rows of the panel's width.
    pub c: *mut T,
}

/// Adds the products of one term.
///
/// # Safety
/// As [`tile`].
#[inline(always)]
unsafe fn add_term<A: Arch, T: Real, const M: usize, const N: usize, const P: usize>(
    (a, b): (*const T, *const T),
    row: isize,
    panel: usize,
    sums: &mut [[[T; N]; P]; M],
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut right = [[T::ZERO; N]; P];
        for i in 0..P {
            right[i] = *b.wrapping_add(i.wrapping_mul(panel)).cast::<[T; N]>();
        }
        for r in 0..M {
            let x = *a.wrapping_offset((r as isize).wrapping_mul(row));
            for i in 0..P {
                for l in 0..N {
                    sums[r][i][l] = x.fma::<A>(right[i][l], sums[r][i][l]);
                }
            }
        }
    }
}

/// `M` rows of `P` panels.
///
/// # Safety
/// The operands must hold what the sizes say.
#[inline(always)]
unsafe fn tile<A: Arch, T: Real, const M: usize, const N: usize, const P: usize>(
    p: &PanelProduct<T>,
    k: usize,
    (a, b, c): (*const T, *const T, *mut T),
) {
    let ([row, step], [panel, term]) = (p.steps, p.right);
    let mut sums = [[[T::ZERO; N]; P]; M];
    let (mut a, mut b) = (a, b);
    let mut left = k;
    // Terms of a row are adjacent: two at a time move fewer pointers.
    if const { P == 2 && M == PAIR_ROWS } && step == 1 {
        while left >= 2 {
            // SAFETY: the caller's promise.
            unsafe {
                add_term::<A, T, M, N, P>((a, b), row, panel, &mut sums);
                let next = (a.wrapping_add(1), b.wrapping_add(term));
                add_term::<A, T, M, N, P>(next, row, panel, &mut sums);
            }
            a = a.wrapping_add(2);
            b = b.wrapping_add(term.wrapping_mul(2));
            left -= 2;
        }
    }
    for _ in 0..left {
        // SAFETY: the caller's promise.
        unsafe { add_term::<A, T, M, N, P>((a, b), row, panel, &mut sums) };
        a = a.wrapping_offset(step);
        b = b.wrapping_add(term);
    }
    for r in 0..M {
        for i in 0..P {
            let c = c
                .wrapping_add(r.wrapping_mul(p.ld).wrapping_add(i * N))
                .cast::<[T; N]>();
            // SAFETY: the caller's promise.
            unsafe {
                if p.add {
                    let old = *c;
                    for l in 0..N {
                        sums[r][i][l] = sums[r][i][l] + old[l];
                    }
                }
                *c = sums[r][i];
            }
        }
    }
}

/// # Safety
/// As for [`tile`].
#[inline(always)]
unsafe fn multiply<A: Arch, T: Real, const N: usize>(
    p: &PanelProduct<T>,
    prefetches: &mut [Prefetch],
) {
    let mut first = 0;
    let (mut b, mut c) = (p.b, p.c);
    let [panel, term] = p.right;
    while first < p.n {
        let pair = const { pairs(A::LEVEL) } && p.n - first > N;
        let most = rows(A::LEVEL, pair);
        // Tiles of about the same height: a low one waits for its sums.
        let height = match p.band {
            CausalBand::All => p.m.div_ceil(p.m.div_ceil(most).max(1)),
            _ => most,
        };
        let mut r = 0;
        while r < p.m {
            let rows = (p.m - r).min(height);
            let (mut low, mut high) = (0, p.k);
            let reach = |d: isize| (r + rows) as isize + d;
            let mut both = pair;
            match p.band {
                CausalBand::All => {}
                CausalBand::Columns(d) if first as isize >= reach(d) => high = 0,
                CausalBand::Columns(d) => both &= ((first + N) as isize) < reach(d),
                CausalBand::Terms(d) => high = p.k.min(reach(d).max(0) as usize),
                CausalBand::Since(d) => low = p.k.min((r as isize - d).max(0) as usize),
            }
            // Scores beyond the reach are never read, sums of no terms are.
            let skip = high == 0 && matches!(p.band, CausalBand::Columns(_));
            if !skip {
                fetch(prefetches);
                let a =
                    p.a.wrapping_offset(r as isize * p.steps[0] + low as isize * p.steps[1]);
                let at = (a, b.wrapping_add(low * term), c.wrapping_add(r * p.ld));
                let k = high - low;
                // SAFETY: the caller's promise.
                unsafe {
                    match (both, rows) {
                        (true, _) if !const { pairs(A::LEVEL) } => {}
                        (true, 1) => tile::<A, T, 1, N, 2>(p, k, at),
                        (true, 2) => tile::<A, T, 2, N, 2>(p, k, at),
                        (true, 3) => tile::<A, T, 3, N, 2>(p, k, at),
                        (true, 4) => tile::<A, T, 4, N, 2>(p, k, at),
                        (true, 5) => tile::<A, T, 5, N, 2>(p, k, at),
                        (true, _) => tile::<A, T, 6, N, 2>(p, k, at),
                        (_, 1) => tile::<A, T, 1, N, 1>(p, k, at),
                        (_, 2) => tile::<A, T, 2, N, 1>(p, k, at),
                        (_, 3) => tile::<A, T, 3, N, 1>(p, k, at),
                        (_, 4) => tile::<A, T, 4, N, 1>(p, k, at),
                        (_, 5) => tile::<A, T, 5, N, 1>(p, k, at),
                        (_, 6) => tile::<A, T, 6, N, 1>(p, k, at),
                        (_, 7) => tile::<A, T, 7, N, 1>(p, k, at),
                        (_, _) => tile::<A, T, 8, N, 1>(p, k, at),
                    }
                }
            }
            r += height;
        }
        let panels = 1 + usize::from(pair);
        first += panels * N;
        b = b.wrapping_add(panels * panel);
        c = c.wrapping_add(panels * N);
    }
}

/// `M` rows from `first` on, of a panel of `C` vectors.
///
/// # Safety
/// The operands must hold what the sizes and the blocks say; the processor has the instruction set of `V`.
#[inline(always)]
unsafe fn tile_of_blocks<V: FloatVector, const M: usize, const C: usize>(
    p: &BlocksProduct<'_, V::T>,
    first: usize,
) {
    let [row, step] = p.steps;
    let rows = p.a.wrapping_offset(first as isize * row);
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [[V::splat(<V::T as Real>::ZERO); C]; M];
        for &[at, first_term] in p.blocks {
            let mut a = rows.wrapping_add(at);
            let mut b = p.b.wrapping_add(first_term * (C * V::N));
            for _ in 0..p.terms {
                term::<V, M, C, false>(a, row, b, &mut sums);
                a = a.wrapping_offset(step);
                b = b.wrapping_add(C * V::N);
            }
        }
        for r in 0..M {
            for c in 0..C {
                sums[r][c].store(p.c.wrapping_add(((first + r) * C + c) * V::N));
            }
        }
    }
}

/// # Safety
/// As for [`tile_of_blocks`].
#[inline(always)]
unsafe fn multiply_blocks<A: Arch, T: Vectors, const C: usize>(p: &BlocksProduct<'_, T>) {
    for (first, count) in even_parts(p.m, rows(A::LEVEL, false)) {
        // SAFETY: the caller's promise.
        unsafe {
            match count {
                1 => tile_of_blocks::<T::V<A>, 1, C>(p, first),
                2 => tile_of_blocks::<T::V<A>, 2, C>(p, first),
                3 => tile_of_blocks::<T::V<A>, 3, C>(p, first),
                4 => tile_of_blocks::<T::V<A>, 4, C>(p, first),
                5 => tile_of_blocks::<T::V<A>, 5, C>(p, first),
                6 => tile_of_blocks::<T::V<A>, 6, C>(p, first),
                _ if const { rows(A::LEVEL, false) <= 6 } => {}
                7 => tile_of_blocks::<T::V<A>, 7, C>(p, first),
                _ => tile_of_blocks::<T::V<A>, 8, C>(p, first),
            }
        }
    }
}

/// Packs `rows` rows of `columns` into panels of `width` rows: `width` rows' first elements, then
/// their second ones. Rows that are missing are 0.
///
/// # Safety
/// `from` must hold the rows, `to` as many elements, the rows rounded up to whole panels.
pub(crate) unsafe fn pack_rows<T: Panels>(
    from: *const T,
    [row, step]: [isize; 2],
    [rows, columns]: [usize; 2],
    width: usize,
    to: *mut T,
) {
    let lines = Lines {
        ptr: from,
        line: row,
        term: step,
    };
    for first in (0..rows).step_by(width) {
        let panel = to.wrapping_add(first * columns);
        let some = width.min(rows - first);
        // SAFETY: the caller's promise; panels are multiples of the squares that are transposed, so
        // that nothing is written beyond them.
        unsafe {
            T::copy(lines.from(first), some, columns, panel, width);
            if some < width {
                for c in 0..columns {
                    (some..width).for_each(|r| *panel.wrapping_add(c * width + r) = T::ZERO);
                }
            }
        }
    }
}

/// Elements that are copied at once.
const LANES: usize = 16;

/// Rows of a matrix, times a factor, to be copied or packed.
pub(crate) struct MatrixRows<T> {
    pub from: *const T,
    pub steps: [isize; 2],
    /// Rows and columns.
    pub sizes: [usize; 2],
    pub factor: T,
    /// A factor for each row besides, or null.
    pub factors: *const T,
}

impl<T: Real> MatrixRows<T> {
    #[inline(always)]
    unsafe fn factor(&self, row: usize) -> T {
        if self.factors.is_null() {
            return self.factor;
        }
        // SAFETY: the caller's promise that there is such a row.
        unsafe { self.factor * *self.factors.wrapping_add(row) }
    }
}

/// # Safety
/// `from` must hold `n` elements, `step` apart, and `to` adjacent ones.
#[inline(always)]
unsafe fn scale<T: Real>(from: *const T, step: isize, n: usize, factor: T, to: *mut T) {
    let whole = if step == 1 { n / LANES * LANES } else { 0 };
    let mut i = 0;
    // SAFETY: the caller's promise.
    unsafe {
        while i < whole {
            let mut v = *from.wrapping_add(i).cast::<[T; LANES]>();
            for l in 0..LANES {
                v[l] = v[l] * factor;
            }
            *to.wrapping_add(i).cast::<[T; LANES]>() = v;
            i += LANES;
        }
        while i < n {
            let v = *from.wrapping_offset((i as isize).wrapping_mul(step));
            *to.wrapping_add(i) = v * factor;
            i += 1;
        }
    }
}

multiversion! {
    /// Packs rows into panels of `width` columns. Columns that are missing are 0.
    ///
    /// # Safety
    /// `rows` must be there, `to` hold as many elements, the columns rounded up to whole panels.
    pub(crate) unsafe fn pack_columns<A, T: Real>(rows: &MatrixRows<T>, width: usize, to: *mut T) {
        let ([count, columns], [row, step]) = (rows.sizes, rows.steps);
        for r in 0..count {
            let from = rows.from.wrapping_offset((r as isize).wrapping_mul(row));
            // SAFETY: the row is there.
            let factor = unsafe { rows.factor(r) };
            let mut first = 0;
            while first < columns {
                let n = width.min(columns - first);
                let to = to.wrapping_add(
                    first
                        .wrapping_mul(count)
                        .wrapping_add(r.wrapping_mul(width)),
                );
                let from = from.wrapping_offset((first as isize).wrapping_mul(step));
                // SAFETY: the caller's promise.
                unsafe {
                    scale(from, step, n, factor, to);
                    for c in n..width {
                        *to.wrapping_add(c) = T::ZERO;
                    }
                }
                first += width;
            }
        }
    }

    /// Copies rows to others, `steps` apart.
    ///
    /// # Safety
    /// Both must hold the rows.
    pub(crate) unsafe fn copy_rows<A, T: Real>(rows: &MatrixRows<T>, to: *mut T, steps: [isize; 2]) {
        let [count, columns] = rows.sizes;
        for r in 0..count {
            let from = rows
                .from
                .wrapping_offset((r as isize).wrapping_mul(rows.steps[0]));
            let to = to.wrapping_offset((r as isize).wrapping_mul(steps[0]));
            // SAFETY: the caller's promise.
            unsafe {
                let factor = rows.factor(r);
                if steps[1] == 1 {
                    scale(from, rows.steps[1], columns, factor, to);
                } else {
                    for c in 0..columns as isize {
                        let v = *from.wrapping_offset(c.wrapping_mul(rows.steps[1]));
                        *to.wrapping_offset(c.wrapping_mul(steps[1])) = v * factor;
                    }
                }
            }
        }
    }
}

/// Numbers of which there are products with panels.
pub(crate) trait Panels: Real + Square {
    /// Columns of a panel.
    fn width(level: Level) -> usize;
    /// See [`multiply`].
    unsafe fn product_with(p: &PanelProduct<Self>, prefetches: &mut [Prefetch]);
    /// See [`multiply`].
    #[inline]
    unsafe fn product(p: &PanelProduct<Self>) {
        // SAFETY: the caller's promise.
        unsafe { Self::product_with(p, &mut []) }
    }
    /// See [`multiply_blocks`].
    unsafe fn product_of_blocks(p: &BlocksProduct<'_, Self>);
}

macro_rules! panels {
    ($($t:ident $base:literal $fused:literal $avx2:literal $avx512:literal, $product:ident $blocks:ident;)*) => {$(
        multiversion! {
            pub(crate) unsafe fn $product<A>(p: &PanelProduct<$t>, prefetches: &mut [Prefetch]) {
                // SAFETY: the caller's promise.
                unsafe {
                    match (A::LEVEL, A::FMA) {
                        (Level::Avx512, _) => multiply::<A, $t, $avx512>(p, prefetches),
                        (Level::Avx2, _) => multiply::<A, $t, $avx2>(p, prefetches),
                        (Level::Neon, _) | (Level::Base, true) => multiply::<A, $t, $fused>(p, prefetches),
                        (Level::Base, false) => multiply::<A, $t, $base>(p, prefetches),
                    }
                }
            }

            pub(crate) unsafe fn $blocks<A>(p: &BlocksProduct<'_, $t>) {
                // SAFETY: the caller's promise.
                unsafe {
                    // As many vectors as a panel has at each level.
                    match (A::LEVEL, A::FMA) {
                        (Level::Neon, _) | (Level::Base, true) => multiply_blocks::<A, $t, 4>(p),
                        _ => multiply_blocks::<A, $t, 2>(p),
                    }
                }
            }
        }
        impl Panels for $t {
            fn width(level: Level) -> usize {
                match level {
                    Level::Avx512 => $avx512,
                    Level::Avx2 => $avx2,
                    Level::Neon => $fused,
                    Level::Base if crate::simd::Base::FMA => $fused,
                    Level::Base => $base,
                }
            }
            unsafe fn product_with(p: &PanelProduct<$t>, prefetches: &mut [Prefetch]) {
                // SAFETY: the caller's promise.
                unsafe { $product(p, prefetches) }
            }
            unsafe fn product_of_blocks(p: &BlocksProduct<'_, $t>) {
                // SAFETY: the caller's promise.
                unsafe { $blocks(p) }
            }
        }
    )*};
}
panels! {
    f32 8 16 16 32, product_f32 blocks_f32;
    f64 4 8 8 16, product_f64 blocks_f64;
}
