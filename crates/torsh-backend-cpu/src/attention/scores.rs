//! Passes over a block of scores, between the products.

use super::product::{Number, ROWS};
use crate::arch::Arch;
use crate::scalar::Real;

/// Lanes of the passes; rows of scores are padded to a multiple.
pub(super) const LANES: usize = 16;

/// The greatest of `n` numbers, a multiple of the lanes, and `most`; nan is passed over.
///
/// # Safety
/// `x` must hold them.
#[inline(always)]
unsafe fn greatest<T: Real>(x: *const T, n: usize, most: T) -> T {
    let mut lanes = [most; LANES];
    let mut i = 0;
    while i < n {
        // SAFETY: the caller's promise.
        let v = unsafe { *x.wrapping_add(i).cast::<[T; LANES]>() };
        for l in 0..LANES {
            lanes[l] = if v[l] > lanes[l] { v[l] } else { lanes[l] };
        }
        i += LANES;
    }
    lanes.iter().fold(most, |m, &v| if v > m { v } else { m })
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
    pub ld: usize,
}

impl<T: Real> Scores<T> {
    /// How many keys a row sees, and how many of its places are read afterwards: a multiple of
    /// the lanes.
    #[inline(always)]
    fn seen(&self, r: usize) -> (usize, usize) {
        let seen = (r as isize)
            .saturating_add(self.reach)
            .clamp(0, self.keys as isize) as usize;
        let read = seen.wrapping_add(ROWS).min(self.keys);
        (seen, read.wrapping_add(LANES - 1) / LANES * LANES)
    }
}

/// Makes scores into `exp(score - maximum)`, and moves the rows' maxima, sums and, where there
/// already are some, results.
///
/// # Safety
/// `max` and `sum` must hold a number for each row, `out` be null or hold rows of `width`, a
/// multiple of the lanes.
#[inline(always)]
pub(super) unsafe fn weigh<A: Arch, T: Number>(
    s: &Scores<T>,
    max: *mut T,
    sum: *mut T,
    out: *mut T,
    width: usize,
) {
    for r in 0..s.rows {
        // SAFETY: the caller's promise.
        unsafe {
            let row = s.at.wrapping_add(r.wrapping_mul(s.ld));
            let (seen, read) = s.seen(r);
            for i in seen..read {
                *row.wrapping_add(i) = -T::INFINITY;
            }
            let before = *max.wrapping_add(r);
            let most = greatest(row, read, before);
            // A row that sees nothing has weights of 0, not of nan.
            let base = if most == -T::INFINITY { T::ZERO } else { most };
            let mut lanes = [T::ZERO; LANES];
            let mut i = 0;
            while i < read {
                let at = row.wrapping_add(i).cast::<[T; LANES]>();
                let mut v = *at;
                for l in 0..LANES {
                    v[l] = Number::exponential::<A>(v[l] - base);
                }
                for l in 0..LANES {
                    lanes[l] = lanes[l] + v[l];
                }
                *at = v;
                i += LANES;
            }
            let total = lanes.iter().fold(T::ZERO, |a, &v| a + v);
            let shrink = Number::exponential::<A>(before - base);
            *max.wrapping_add(r) = most;
            *sum.wrapping_add(r) = shrink.fma::<A>(*sum.wrapping_add(r), total);
            if !out.is_null() && !(shrink == T::ONE) {
                let o = out.wrapping_add(r.wrapping_mul(width));
                for i in 0..width {
                    *o.wrapping_add(i) = *o.wrapping_add(i) * shrink;
                }
            }
        }
    }
}

/// Makes scores into weights, `exp(score - lse)`, and their gradients into those of the scores,
/// `weight * (gradient - delta)`.
///
/// # Safety
/// `g` must lie as the scores, `lse` and `delta` hold a number for each row.
#[inline(always)]
pub(super) unsafe fn weigh_back<A: Arch, T: Number>(
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
            let (seen, read) = s.seen(r);
            let (lse, delta) = (*lse.wrapping_add(r), *delta.wrapping_add(r));
            for i in seen..read {
                *row.wrapping_add(i) = -T::INFINITY;
                *grad.wrapping_add(i) = T::ZERO;
            }
            let mut i = 0;
            while i < read {
                let at = row.wrapping_add(i).cast::<[T; LANES]>();
                let to = grad.wrapping_add(i).cast::<[T; LANES]>();
                let (mut v, mut g) = (*at, *to);
                for l in 0..LANES {
                    v[l] = Number::exponential::<A>(v[l] - lse);
                }
                for l in 0..LANES {
                    g[l] = v[l] * (g[l] - delta);
                }
                *at = v;
                *to = g;
                i += LANES;
            }
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
        let mut sum = lanes.iter().fold(T::ZERO, |a, &v| a + v);
        for i in whole as isize..n as isize {
            let a = *x.wrapping_offset(i.wrapping_mul(dx));
            sum = a.fma::<A>(*y.wrapping_offset(i.wrapping_mul(dy)), sum);
        }
        sum
    }
}
