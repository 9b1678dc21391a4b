//! Passes over a block of scores, between the products.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

use super::number::Number;
use crate::kernels::panels::ROWS;
use crate::scalar::Real;
use crate::simd::Arch;
use crate::simd::lanes::tree;
use crate::vmath::VMath;

/// Lanes of the passes; rows of scores are padded to a multiple.
pub(super) const LANES: usize = 16;

/// Vectors that are summed side by side, so that additions do not wait for one another.
const WAYS: usize = 4;

/// [`LANES`] scores. All functions must be inlined into a function compiled for the instruction set.
pub(super) trait Vector<T>: Copy {
    /// # Safety
    /// The processor has the vector's instruction set; here and in every function below.
    unsafe fn splat(value: T) -> Self;
    /// # Safety
    /// `from` is valid for reads of the lanes.
    unsafe fn load(from: *const T) -> Self;
    /// # Safety
    /// `to` is valid for writes of the lanes.
    unsafe fn store(self, to: *mut T);
    /// The first `n` lanes from memory, and `fill` in the others.
    ///
    /// # Safety
    /// `from` is valid for reads of the lanes, the first `n` of which hold numbers.
    unsafe fn load_first(from: *const T, n: usize, fill: T) -> Self;
    /// The greater ones of each two; those of `self` where `other` has nan.
    ///
    /// # Safety
    /// As [`Vector::splat`].
    unsafe fn greater(self, other: Self) -> Self;
    /// # Safety
    /// As [`Vector::splat`].
    unsafe fn plus(self, other: Self) -> Self;
    /// # Safety
    /// As [`Vector::splat`].
    unsafe fn minus(self, other: Self) -> Self;
    /// # Safety
    /// As [`Vector::splat`].
    unsafe fn times(self, other: Self) -> Self;
    /// e to the power of numbers that are not above 0 by more than rounding.
    ///
    /// # Safety
    /// As [`Vector::splat`].
    unsafe fn exponential<A: Arch>(self) -> Self;
    /// The greatest of the lanes, none of which is nan.
    ///
    /// # Safety
    /// As [`Vector::splat`].
    unsafe fn most(self) -> T;
    /// # Safety
    /// As [`Vector::splat`].
    unsafe fn total(self) -> T;
}

impl<T: Number> Vector<T> for [T; LANES] {
    #[inline(always)]
    unsafe fn splat(value: T) -> Self {
        [value; LANES]
    }
    #[inline(always)]
    unsafe fn load(from: *const T) -> Self {
        // SAFETY: the caller's promise.
        unsafe { from.cast::<Self>().read() }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut T) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<Self>().write(self) }
    }
    #[inline(always)]
    unsafe fn load_first(from: *const T, n: usize, fill: T) -> Self {
        let mut all = [fill; LANES];
        // SAFETY: the caller's promise.
        unsafe {
            let from = from.cast::<[MaybeUninit<T>; LANES]>().read();
            for l in 0..LANES {
                all[l] = if l < n { from[l].assume_init() } else { fill };
            }
        }
        all
    }
    #[inline(always)]
    unsafe fn greater(mut self, other: Self) -> Self {
        for l in 0..LANES {
            self[l] = if other[l] > self[l] {
                other[l]
            } else {
                self[l]
            };
        }
        self
    }
    #[inline(always)]
    unsafe fn plus(mut self, other: Self) -> Self {
        for l in 0..LANES {
            self[l] = self[l] + other[l];
        }
        self
    }
    #[inline(always)]
    unsafe fn minus(mut self, other: Self) -> Self {
        for l in 0..LANES {
            self[l] = self[l] - other[l];
        }
        self
    }
    #[inline(always)]
    unsafe fn times(mut self, other: Self) -> Self {
        for l in 0..LANES {
            self[l] = self[l] * other[l];
        }
        self
    }
    #[inline(always)]
    unsafe fn exponential<A: Arch>(mut self) -> Self {
        for l in 0..LANES {
            self[l] = Number::exponential::<A>(self[l]);
        }
        self
    }
    #[inline(always)]
    unsafe fn most(self) -> T {
        tree(self, |a, b| if b > a { b } else { a })
    }
    #[inline(always)]
    unsafe fn total(self) -> T {
        tree(self, |a, b| a + b)
    }
}

/// `2^r` for r in [0, 1), but for the constant term 1: the coefficients of `r` to `r^6`, with a relative
/// error below 2^-28.
#[cfg(target_arch = "x86_64")]
const POWER: [f32; 6] = [
    0.693_147_06,
    0.240_229_31,
    0.055_485_282,
    0.009_675_452,
    0.001_246_784_7,
    0.000_216_129_15,
];

#[cfg(target_arch = "x86_64")]
impl Vector<f32> for __m512 {
    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: the caller's promise; here and below.
        unsafe { _mm512_set1_ps(value) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller's promise.
        unsafe { _mm512_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { _mm512_storeu_ps(to, self) }
    }
    #[inline(always)]
    unsafe fn load_first(from: *const f32, n: usize, fill: f32) -> Self {
        // SAFETY: the caller's promise.
        unsafe { _mm512_mask_loadu_ps(_mm512_set1_ps(fill), ((1u32 << n) - 1) as u16, from) }
    }
    #[inline(always)]
    unsafe fn greater(self, other: Self) -> Self {
        // SAFETY: the caller's promise.
        unsafe { _mm512_max_ps(other, self) }
    }
    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        // SAFETY: the caller's promise.
        unsafe { _mm512_add_ps(self, other) }
    }
    #[inline(always)]
    unsafe fn minus(self, other: Self) -> Self {
        // SAFETY: the caller's promise.
        unsafe { _mm512_sub_ps(self, other) }
    }
    #[inline(always)]
    unsafe fn times(self, other: Self) -> Self {
        // SAFETY: the caller's promise.
        unsafe { _mm512_mul_ps(self, other) }
    }
    /// `2^r` times 2 to the power of the integer below, where the instructions that take numbers
    /// apart do right by infinities and subnormal results.
    #[inline(always)]
    unsafe fn exponential<A: Arch>(self) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            let x = _mm512_mul_ps(self, _mm512_set1_ps(std::f32::consts::LOG2_E));
            let r = _mm512_reduce_ps::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(x);
            let mut p = _mm512_set1_ps(POWER[5]);
            for c in [POWER[4], POWER[3], POWER[2], POWER[1], POWER[0], 1.0] {
                p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(c));
            }
            _mm512_scalef_ps(p, x)
        }
    }
    #[inline(always)]
    unsafe fn most(self) -> f32 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_reduce_max_ps(self) }
    }
    #[inline(always)]
    unsafe fn total(self) -> f32 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_reduce_add_ps(self) }
    }
}

/// Makes the numbers from `seen` on, up to the end of that vector, `value`.
///
/// # Safety
/// `x` must have room for whole vectors; the processor has the vector's instruction set.
#[inline(always)]
pub(super) unsafe fn cut<T: Number, V: Vector<T>>(x: *mut T, seen: usize, value: T) {
    let n = seen % LANES;
    if n > 0 {
        let at = x.wrapping_add(seen - n);
        // As the vector that will be read: one of other bounds would have to be in the cache first.
        // SAFETY: the caller's promise.
        unsafe { V::load_first(at, n, value).store(at) };
    }
}

/// Makes the vectors from `start` to `end` 0.
///
/// # Safety
/// As [`cut`].
#[inline(always)]
unsafe fn clear<T: Number, V: Vector<T>>(x: *mut T, start: usize, end: usize) {
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
pub(super) unsafe fn greatest<T: Number, V: Vector<T>>(x: *const T, n: usize, most: T) -> T {
    // SAFETY: the caller's promise.
    unsafe {
        let mut ways = [V::splat(most); WAYS];
        let mut i = 0;
        while i + WAYS * LANES <= n {
            for w in 0..WAYS {
                ways[w] = ways[w].greater(V::load(x.wrapping_add(i + w * LANES)));
            }
            i += WAYS * LANES;
        }
        while i < n {
            ways[0] = ways[0].greater(V::load(x.wrapping_add(i)));
            i += LANES;
        }
        let all = ways[0].greater(ways[1]).greater(ways[2].greater(ways[3]));
        all.most()
    }
}

/// Makes `n` numbers, a multiple of the lanes, into `exp(x - base)`, and gives their sum.
///
/// # Safety
/// As [`greatest`].
#[inline(always)]
unsafe fn exponentials<A: Arch, T: Number, V: Vector<T>>(x: *mut T, n: usize, base: T) -> T {
    // SAFETY: the caller's promise.
    unsafe {
        let base = V::splat(base);
        let mut ways = [V::splat(T::ZERO); WAYS];
        let mut i = 0;
        while i + WAYS * LANES <= n {
            for w in 0..WAYS {
                let at = x.wrapping_add(i + w * LANES);
                let v = V::load(at).minus(base).exponential::<A>();
                ways[w] = ways[w].plus(v);
                v.store(at);
            }
            i += WAYS * LANES;
        }
        while i < n {
            let at = x.wrapping_add(i);
            let v = V::load(at).minus(base).exponential::<A>();
            ways[0] = ways[0].plus(v);
            v.store(at);
            i += LANES;
        }
        let all = ways[0].plus(ways[1]).plus(ways[2].plus(ways[3]));
        all.total()
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
pub(super) struct Rows<T> {
    /// The greatest score.
    pub most: *mut T,
    /// The sum of the weights, which are `exp(score - most)`.
    pub sum: *mut T,
    /// Room for the greatest score and the sum of one block of keys.
    pub before: *mut T,
    pub added: *mut T,
}

/// Makes scores into `exp(score - maximum)`, and moves the rows' maxima, sums and, unless these are
/// the first keys, results.
///
/// # Safety
/// `rows` must hold the block's, `out` be null or hold rows of `width`.
#[inline(always)]
pub(super) unsafe fn weigh<A: Arch, T: Number, V: Vector<T>>(
    s: &Scores<T>,
    rows: &Rows<T>,
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
                let shrink = V::load(before).exponential::<A>();
                shrink.store(before);
                total = V::load(sum).times(shrink).plus(total);
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
pub(super) unsafe fn finish<A: Arch, T: Number>(rows: &Rows<T>, n: usize, lse: *mut T) {
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
pub(super) unsafe fn weigh_back<A: Arch, T: Number, V: Vector<T>>(
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
                let weights = V::load(at).minus(lse).exponential::<A>();
                weights.store(at);
                weights.times(V::load(to).minus(delta)).store(to);
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
