//! Passes over a block of scores, between the products.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::__m512;

use crate::kernels::panels::{Panels, ROWS};
use crate::scalar::Real;
use crate::simd::array::Element;
use crate::simd::lanes::tree;
use crate::simd::{Arch, FloatVector};
use crate::vmath::VMath;

/// Lanes of the passes; rows of scores are padded to a multiple.
pub(super) const LANES: usize = 16;

/// The numbers that attention computes in.
pub(super) trait ScoreNumber: Panels + Element {
    /// Vectors of the passes over scores with AVX-512.
    #[cfg(target_arch = "x86_64")]
    type Wide: FloatVector<T = Self>;
}
impl ScoreNumber for f32 {
    #[cfg(target_arch = "x86_64")]
    type Wide = __m512;
}
impl ScoreNumber for f64 {
    #[cfg(target_arch = "x86_64")]
    type Wide = [f64; LANES];
}

/// Vectors that are summed side by side, so that additions do not wait for one another.
const WAYS: usize = 4;

/// Makes the numbers from `seen` on, up to the end of that vector, `value`.
///
/// # Safety
/// `x` must have room for whole vectors; the processor has the vector's instruction set.
#[inline(always)]
pub(super) unsafe fn cut<T: ScoreNumber, V: FloatVector<T = T>>(x: *mut T, seen: usize, value: T) {
    let n = seen % LANES;
    if n > 0 {
        let at = x.wrapping_add(seen - n);
        // As the vector that will be read: one of other bounds would have to be in the cache first.
        // SAFETY: the caller's promise.
        unsafe { V::load_part(at, 0, n, V::splat(value)).store(at) };
    }
}

/// Makes the vectors from `start` to `end` 0.
///
/// # Safety
/// As [`cut`].
#[inline(always)]
unsafe fn clear<T: ScoreNumber, V: FloatVector<T = T>>(x: *mut T, start: usize, end: usize) {
    let mut i = start;
    while i < end {
        // SAFETY: the caller's promise.
        unsafe { V::splat(T::ZERO).store(x.wrapping_add(i)) };
        i += LANES;
    }
}

/// The greatest of `n` numbers, a multiple of the lanes, and `most`; nan is passed over.
///
/// # Safety
/// `x` must hold them; the processor has the vector's instruction set.
#[inline(always)]
pub(super) unsafe fn greatest<T: ScoreNumber, V: FloatVector<T = T>>(
    x: *const T,
    n: usize,
    most: T,
) -> T {
    // SAFETY: the caller's promise.
    unsafe {
        let mut ways = [V::splat(most); WAYS];
        let mut i = 0;
        while i + WAYS * LANES <= n {
            for w in 0..WAYS {
                ways[w] = V::load(x.wrapping_add(i + w * LANES)).max(ways[w]);
            }
            i += WAYS * LANES;
        }
        while i < n {
            ways[0] = V::load(x.wrapping_add(i)).max(ways[0]);
            i += LANES;
        }
        let (low, high) = (ways[1].max(ways[0]), ways[3].max(ways[2]));
        high.max(low).reduce_max()
    }
}

/// Makes `n` numbers, a multiple of the lanes, into `exp(x - base)`, and gives their sum.
///
/// # Safety
/// As [`greatest`].
#[inline(always)]
unsafe fn exponentials<A: Arch, T: ScoreNumber, V: FloatVector<T = T>>(
    x: *mut T,
    n: usize,
    base: T,
) -> T {
    // SAFETY: the caller's promise.
    unsafe {
        let base = V::splat(base);
        let mut ways = [V::splat(T::ZERO); WAYS];
        let mut i = 0;
        while i + WAYS * LANES <= n {
            for w in 0..WAYS {
                let at = x.wrapping_add(i + w * LANES);
                let v = V::load(at).sub(base).exp_nonpositive::<A>();
                ways[w] = ways[w].add(v);
                v.store(at);
            }
            i += WAYS * LANES;
        }
        while i < n {
            let at = x.wrapping_add(i);
            let v = V::load(at).sub(base).exp_nonpositive::<A>();
            ways[0] = ways[0].add(v);
            v.store(at);
            i += LANES;
        }
        let all = ways[0].add(ways[1]).add(ways[2].add(ways[3]));
        all.reduce_sum()
    }
}

/// Scores of a block of rows against a block of keys.
#[derive(Clone, Copy)]
pub(super) struct Scores<T> {
    pub rows: usize,
    /// Keys of the block.
    pub keys: usize,
    /// How far row 0 reaches: row `r` sees the keys below `r + reach`.
    pub reach: isize,
    /// Row `r` sees the keys from `r + from` on.
    pub from: isize,
    pub at: *mut T,
    /// From row to row: as many whole vectors as the keys take, or more.
    pub ld: usize,
}

/// `n` rounded up to whole vectors.
#[inline(always)]
pub(super) fn whole(n: usize) -> usize {
    n.wrapping_add(LANES - 1) / LANES * LANES
}

impl<T: Real> Scores<T> {
    /// Hides the keys ahead of each row's first one.
    ///
    /// # Safety
    /// The scores must be there.
    pub unsafe fn hide_earlier(&self) {
        for r in 0..self.rows {
            let first = self
                .from
                .saturating_add_unsigned(r)
                .clamp(0, self.keys as isize);
            let row = self.at.wrapping_add(r * self.ld);
            for j in 0..first as usize {
                // SAFETY: the caller's promise.
                unsafe { *row.wrapping_add(j) = -T::INFINITY };
            }
        }
    }

    /// How many keys a row sees; that and how many of its places are read afterwards in whole
    /// vectors.
    #[inline(always)]
    fn seen(&self, r: usize) -> (usize, usize, usize) {
        let seen = (r as isize)
            .saturating_add(self.reach)
            .clamp(0, self.keys as isize) as usize;
        let read = seen.wrapping_add(ROWS).min(self.keys);
        (seen, whole(seen), whole(read))
    }
}

/// What is known of each row of a block so far, in as many whole vectors as that takes.
#[derive(Clone, Copy)]
pub(super) struct ScoreRows<T> {
    /// The greatest score.
    pub most: *mut T,
    /// The sum of the weights, which are `exp(score - most)`.
    pub sum: *mut T,
    /// Room for the greatest score and the sum of one block of keys.
    pub before: *mut T,
    pub added: *mut T,
}

impl<T> ScoreRows<T> {
    /// The four arrays, `step` numbers apart, from `at` on.
    pub fn new(at: *mut T, step: usize) -> ScoreRows<T> {
        let [most, sum, before, added] = [0, 1, 2, 3].map(|n| at.wrapping_add(n * step));
        ScoreRows {
            most,
            sum,
            before,
            added,
        }
    }
}

/// Makes scores into `exp(score - maximum)`, and moves the rows' maxima, sums and, unless these are
/// the first keys, results.
///
/// # Safety
/// `rows` must hold the block's, `out` be null or hold rows of `width`.
#[inline(always)]
pub(super) unsafe fn weigh<A: Arch, T: ScoreNumber, V: FloatVector<T = T>>(
    s: &Scores<T>,
    rows: &ScoreRows<T>,
    out: *mut T,
    width: usize,
) {
    let first = out.is_null();
    let mut r = 0;
    // Some rows at a time, so that none waits for the greatest score of its own.
    while r < s.rows {
        let end = s.rows.min(r.wrapping_add(LANES));
        let before = rows.before.wrapping_add(r);
        let (most, sum) = (rows.most.wrapping_add(r), rows.sum.wrapping_add(r));
        let added = rows.added.wrapping_add(r);
        // SAFETY: the caller's promise: the arrays are whole vectors; sums are there from the first
        // keys on.
        unsafe {
            let old = match first {
                true => V::splat(-T::INFINITY),
                false => V::load(most),
            };
            old.store(before);
            for r in r..end {
                let row = s.at.wrapping_add(r.wrapping_mul(s.ld));
                let (seen, whole, _) = s.seen(r);
                cut::<T, V>(row, seen, -T::INFINITY);
                let before = *rows.before.wrapping_add(r);
                *rows.most.wrapping_add(r) = greatest::<T, V>(row, whole, before);
            }
            for r in r..end {
                let row = s.at.wrapping_add(r.wrapping_mul(s.ld));
                let (_, whole, read) = s.seen(r);
                // A row that sees nothing has weights of 0, not of nan.
                let most = *rows.most.wrapping_add(r);
                let base = if most == -T::INFINITY { T::ZERO } else { most };
                *rows.added.wrapping_add(r) = exponentials::<A, T, V>(row, whole, base);
                *rows.before.wrapping_add(r) = *rows.before.wrapping_add(r) - base;
                clear::<T, V>(row, whole, read);
            }
            for r in end..r.wrapping_add(LANES) {
                *rows.most.wrapping_add(r) = T::ZERO;
                *rows.added.wrapping_add(r) = T::ZERO;
            }
            let mut total = V::load(added);
            if !first {
                let shrink = V::load(before).exp_nonpositive::<A>();
                shrink.store(before);
                total = V::load(sum).mul(shrink).add(total);
            }
            total.store(sum);
        }
        r = end;
    }
    if first {
        return;
    }
    for r in 0..s.rows {
        // SAFETY: the caller's promise.
        unsafe {
            let shrink = *rows.before.wrapping_add(r);
            if shrink == T::ONE {
                continue;
            }
            let out = out.wrapping_add(r.wrapping_mul(width));
            for i in 0..width {
                *out.wrapping_add(i) = *out.wrapping_add(i) * shrink;
            }
        }
    }
}

/// Makes the rows' sums into what their results are multiplied by, and writes the logarithms of the
/// sums of `exp(score)`.
///
/// # Safety
/// `rows` must hold `n` rows, `lse` have room for as many.
#[inline(always)]
pub(super) unsafe fn finish<A: Arch, T: ScoreNumber>(rows: &ScoreRows<T>, n: usize, lse: *mut T) {
    for r in 0..n {
        // SAFETY: the caller's promise.
        unsafe {
            let sum = *rows.sum.wrapping_add(r);
            let none = sum == T::ZERO;
            let log = *rows.most.wrapping_add(r) + VMath::log::<A>(sum);
            *lse.wrapping_add(r) = if none { T::INFINITY } else { log };
            *rows.sum.wrapping_add(r) = if none { T::ZERO } else { T::ONE / sum };
        }
    }
}

/// Makes scores into weights, `exp(score - lse)`, and their gradients into those of the scores,
/// `weight * (gradient - delta)`.
///
/// # Safety
/// `g` must lie as the scores, `lse` and `delta` hold a number for each row.
#[inline(always)]
pub(super) unsafe fn weigh_back<A: Arch, T: ScoreNumber, V: FloatVector<T = T>>(
    s: &Scores<T>,
    g: *mut T,
    lse: *const T,
    delta: *const T,
) {
    for r in 0..s.rows {
        // SAFETY: the caller's promise.
        unsafe {
            let row = s.at.wrapping_add(r.wrapping_mul(s.ld));
            let grad = g.wrapping_add(r.wrapping_mul(s.ld));
            let (seen, whole, read) = s.seen(r);
            let (lse, delta) = (*lse.wrapping_add(r), *delta.wrapping_add(r));
            cut::<T, V>(row, seen, -T::INFINITY);
            cut::<T, V>(grad, seen, T::ZERO);
            let (lse, delta) = (V::splat(lse), V::splat(delta));
            let mut i = 0;
            while i < whole {
                let (at, to) = (row.wrapping_add(i), grad.wrapping_add(i));
                let weights = V::load(at).sub(lse).exp_nonpositive::<A>();
                weights.store(at);
                weights.mul(V::load(to).sub(delta)).store(to);
                i += LANES;
            }
            clear::<T, V>(row, whole, read);
            clear::<T, V>(grad, whole, read);
        }
    }
}

/// Adds a mask's row to scores, or hides those whose byte is 0.
///
/// # Safety
/// `s` and, `step` apart, the one of `added` and `shown` that is not null must hold `n` elements.
#[inline(always)]
pub(super) unsafe fn mask<T: Real>(
    s: *mut T,
    added: *const T,
    shown: *const u8,
    step: isize,
    n: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        match (added.is_null(), step) {
            (false, 1) => (0..n).for_each(|i| {
                *s.wrapping_add(i) = *s.wrapping_add(i) + *added.wrapping_add(i);
            }),
            (false, _) => (0..n).for_each(|i| {
                let m = *added.wrapping_offset((i as isize).wrapping_mul(step));
                *s.wrapping_add(i) = *s.wrapping_add(i) + m;
            }),
            (true, 1) => (0..n).for_each(|i| {
                let v = *s.wrapping_add(i);
                let hidden = *shown.wrapping_add(i) == 0;
                *s.wrapping_add(i) = if hidden { -T::INFINITY } else { v };
            }),
            (true, _) => (0..n).for_each(|i| {
                if *shown.wrapping_offset((i as isize).wrapping_mul(step)) == 0 {
                    *s.wrapping_add(i) = -T::INFINITY;
                }
            }),
        }
    }
}

/// Hides the scores of `rows` queries and `keys` keys whose bit is not set: one word of bits for each query.
///
/// # Safety
/// All must be there.
#[inline(always)]
pub(super) unsafe fn hide<T: Real>(
    (s, ld): (*mut T, usize),
    bits: *const u64,
    [rows, keys]: [usize; 2],
) {
    let hidden = -T::INFINITY;
    for r in 0..rows {
        // SAFETY: the caller's promise.
        let seen = unsafe { *bits.wrapping_add(r) };
        if seen == u64::MAX {
            continue;
        }
        let row = s.wrapping_add(r.wrapping_mul(ld));
        let mut j = 0;
        // Lanes against constants: a bit shifted for each key would be one of 64 bits.
        while j + LANES <= keys {
            let at = row.wrapping_add(j).cast::<[T; LANES]>();
            let some = (seen >> (j & 63)) as u32;
            // SAFETY: the caller's promise.
            unsafe {
                let mut x = *at;
                for l in 0..LANES {
                    x[l] = if some & (1 << l) == 0 { hidden } else { x[l] };
                }
                *at = x;
            }
            j += LANES;
        }
        while j < keys {
            if seen >> (j & 63) & 1 == 0 {
                // SAFETY: the caller's promise.
                unsafe { *row.wrapping_add(j) = hidden };
            }
            j += 1;
        }
    }
}

/// The sum of the products of two rows' elements.
///
/// # Safety
/// Both must hold `n` elements.
#[inline(always)]
pub(super) unsafe fn dot<A: Arch, T: Real>(
    x: *const T,
    y: *const T,
    [dx, dy]: [isize; 2],
    n: usize,
) -> T {
    let mut lanes = [T::ZERO; LANES];
    let whole = if dx == 1 && dy == 1 {
        n / LANES * LANES
    } else {
        0
    };
    let mut i = 0;
    // SAFETY: the caller's promise.
    unsafe {
        while i < whole {
            let a = *x.wrapping_add(i).cast::<[T; LANES]>();
            let b = *y.wrapping_add(i).cast::<[T; LANES]>();
            for l in 0..LANES {
                lanes[l] = a[l].fma::<A>(b[l], lanes[l]);
            }
            i += LANES;
        }
        let mut sum = tree(lanes, |a, b| a + b);
        for i in whole as isize..n as isize {
            let a = *x.wrapping_offset(i.wrapping_mul(dx));
            sum = a.fma::<A>(*y.wrapping_offset(i.wrapping_mul(dy)), sum);
        }
        sum
    }
}

/// The products of `rows` queries of `e` numbers, one after the other, with `keys` keys where they lie.
///
/// # Safety
/// All must be there; `out` must have room for rows of `ld` numbers.
#[inline(always)]
pub(super) unsafe fn products<A: Arch, T: Real>(
    [rows, keys, e]: [usize; 3],
    q: *const T,
    (k, [to_key, to_column]): (*const T, [isize; 2]),
    (out, ld): (*mut T, usize),
) {
    for j in 0..keys {
        let key = k.wrapping_offset((j as isize).wrapping_mul(to_key));
        for r in 0..rows {
            let q = q.wrapping_add(r.wrapping_mul(e));
            // SAFETY: the caller's promise.
            unsafe {
                *out.wrapping_add(r.wrapping_mul(ld).wrapping_add(j)) =
                    dot::<A, T>(q, key, [1, to_column], e);
            }
        }
    }
}

/// The sums of values, `d` numbers each where they lie, times each row's weights.
///
/// # Safety
/// All must be there; `out` must have room for rows of `ld` numbers.
#[inline(always)]
pub(super) unsafe fn sums<A: Arch, T: Real>(
    weights: &Scores<T>,
    (v, [to_key, to_column]): (*const T, [isize; 2]),
    d: usize,
    (out, ld): (*mut T, usize),
) {
    for r in 0..weights.rows {
        for n in 0..d {
            // SAFETY: the caller's promise.
            unsafe { *out.wrapping_add(r.wrapping_mul(ld).wrapping_add(n)) = T::ZERO };
        }
    }
    for j in 0..weights.keys {
        let value = v.wrapping_offset((j as isize).wrapping_mul(to_key));
        for r in 0..weights.rows {
            if j >= weights.seen(r).0 {
                continue;
            }
            let out = out.wrapping_add(r.wrapping_mul(ld));
            // SAFETY: the caller's promise.
            unsafe {
                let weight = *weights
                    .at
                    .wrapping_add(r.wrapping_mul(weights.ld).wrapping_add(j));
                if to_column == 1 {
                    for n in 0..d {
                        let sum = out.wrapping_add(n);
                        *sum = weight.fma::<A>(*value.wrapping_add(n), *sum);
                    }
                    continue;
                }
                for n in 0..d {
                    let sum = out.wrapping_add(n);
                    let value = *value.wrapping_offset((n as isize).wrapping_mul(to_column));
                    *sum = weight.fma::<A>(value, *sum);
                }
            }
        }
    }
}
