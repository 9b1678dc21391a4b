//! Between the transform of a real line's pairs and the line's half spectrum.
//!
//! With `m` pairs, numbers `k` and `m - k` of one side follow from the same two of the other: the even elements'
//! spectrum is half of `a + conj(b)`, the odd ones' is half of `(a - conj(b)) / i`, turned by the twiddle factor.

use super::plans::FftReal;
use super::stages::{TransformSide, Wide, load, store};
use crate::simd::{Arch, FloatVector, Vector};

/// A pass over a line, or over lines in lanes.
#[derive(Clone, Copy)]
pub(super) struct Halves<T> {
    /// Half of the length.
    pub(super) m: usize,
    /// `exp(-2 pi i k / 2 m)`, complex, for `k` up to `m / 2`.
    pub(super) twiddles: *const T,
    pub(super) scale: T,
    /// The scale of all but the first and last of the spectrum.
    pub(super) inner: T,
    /// The sign of the spectrum's imaginary parts.
    pub(super) sign: T,
    /// Whether the other half of the spectrum is written too.
    pub(super) whole: bool,
}

impl<T: FftReal> Halves<T> {
    /// How many different `k` and `m - k` there are, 0 among them, and not the middle.
    pub(super) fn pairs(&self) -> usize {
        self.m.div_ceil(2)
    }
}

/// Numbers `k` and `m - k` of the spectrum, from the pairs' transform.
#[inline(always)]
unsafe fn forward<V: FloatVector>(
    a: [V; 2],
    b: [V; 2],
    w: [V; 2],
    half: V,
    signed: V,
) -> [[V; 2]; 2] {
    // SAFETY: the caller is compiled for the vectors.
    unsafe {
        let even = [a[0].add(b[0]), a[1].sub(b[1])];
        // The difference, turned by -i and by the twiddle factor.
        let odd = super::stages::times([a[1].add(b[1]), b[0].sub(a[0])], w[0], w[1]);
        [
            [
                even[0].add(odd[0]).mul(half),
                even[1].add(odd[1]).mul(signed),
            ],
            [
                even[0].sub(odd[0]).mul(half),
                odd[1].sub(even[1]).mul(signed),
            ],
        ]
    }
}

/// The other way; `w` is conjugated.
#[inline(always)]
unsafe fn backward<V: FloatVector>(
    a: [V; 2],
    b: [V; 2],
    w: [V; 2],
    inner: V,
    signed: V,
) -> [[V; 2]; 2] {
    // SAFETY: the caller is compiled for the vectors.
    unsafe {
        let a = [a[0].mul(inner), a[1].mul(signed)];
        let b = [b[0].mul(inner), b[1].mul(signed)];
        let even = [a[0].add(b[0]), a[1].sub(b[1])];
        let odd = super::stages::times([a[0].sub(b[0]), a[1].add(b[1])], w[0], w[1]);
        [
            [even[0].sub(odd[1]), even[1].add(odd[0])],
            [even[0].add(odd[1]), odd[0].sub(even[1])],
        ]
    }
}

crate::multiversion! {
    /// Writes the spectrum of lines in lanes, from their pairs' transforms in a buffer, which may be the same.
    ///
    /// # Safety
    /// Both sides and the factors are there.
    pub(super) unsafe fn spectrum<A, T: FftReal>(g: &Halves<T>, from: TransformSide<T>, to: TransformSide<T>) {
        // SAFETY: the caller's promise.
        unsafe {
            match to {
                TransformSide::Split(..) => spectrum_of::<A, T, false>(g, from, to),
                TransformSide::Pairs(..) => spectrum_of::<A, T, true>(g, from, to),
            }
        }
    }

    /// Writes to a buffer what the transforms of pairs are, from half spectra of lines in lanes, which may be in
    /// the same buffer.
    ///
    /// # Safety
    /// Both sides and the factors are there.
    pub(super) unsafe fn pairs<A, T: FftReal>(g: &Halves<T>, from: TransformSide<T>, to: TransformSide<T>) {
        // SAFETY: the caller's promise.
        unsafe {
            match from {
                TransformSide::Split(..) => pairs_of::<A, T, false>(g, from, to),
                TransformSide::Pairs(..) => pairs_of::<A, T, true>(g, from, to),
            }
        }
    }

    /// Writes the first `count` numbers of spectra in lanes, scaled; they may be in the same buffer.
    ///
    /// # Safety
    /// Both sides are there.
    pub(super) unsafe fn rescaled<A, T: FftReal>(g: &Halves<T>, from: TransformSide<T>, to: TransformSide<T>, count: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match to {
                TransformSide::Split(..) => rescaled_of::<A, T, false>(g, from, to, count),
                TransformSide::Pairs(..) => rescaled_of::<A, T, true>(g, from, to, count),
            }
        }
    }

    /// Writes the `n` numbers of spectra in lanes to a buffer, from the first `n / 2 + 1`, which may be in the same
    /// buffer; `n` is odd.
    ///
    /// # Safety
    /// Both sides are there.
    pub(super) unsafe fn completed<A, T: FftReal>(g: &Halves<T>, from: TransformSide<T>, to: TransformSide<T>, n: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match from {
                TransformSide::Split(..) => completed_of::<A, T, false>(g, from, to, n),
                TransformSide::Pairs(..) => completed_of::<A, T, true>(g, from, to, n),
            }
        }
    }

    /// [`spectrum`] of the pairs `first..end` of one line whose numbers are complex and adjacent, in place. The
    /// range that begins with 0 also takes the middle.
    ///
    /// # Safety
    /// The line has `m + 1` numbers.
    pub(super) unsafe fn spectrum_of_line<A, T: FftReal>(g: &Halves<T>, line: *mut T, first: usize, end: usize) {
        // SAFETY: the caller's promise; each number is read before it is written.
        unsafe {
            let (m, lanes) = (g.m, Wide::<A, T>::N);
            let half = g.inner * T::c(0.5);
            let at = |k: usize| line.add(2 * k);
            if first == 0 {
                let (re, im) = (*line, *line.add(1));
                (*at(0), *at(0).add(1)) = ((re + im) * g.scale, T::ZERO);
                (*at(m), *at(m).add(1)) = ((re - im) * g.scale, T::ZERO);
                if m.is_multiple_of(2) {
                    let z = at(m / 2);
                    (*z, *z.add(1)) = (*z * g.inner, -*z.add(1) * (g.inner * g.sign));
                }
            }
            let mut k = first.max(1);
            let (h, s) = (Wide::<A, T>::splat(half), Wide::<A, T>::splat(half * g.sign));
            while k + lanes <= end {
                let (low, high) = (at(k), at(m + 1 - k - lanes));
                let a = Wide::<A, T>::load(low).deinterleave(Wide::<A, T>::load(low.add(lanes)));
                let b = Wide::<A, T>::load(high).deinterleave(Wide::<A, T>::load(high.add(lanes)));
                let w = g.twiddles.add(2 * k);
                let w = Wide::<A, T>::load(w).deinterleave(Wide::<A, T>::load(w.add(lanes)));
                let [x, y] = forward(a, [b[0].reversed(), b[1].reversed()], w, h, s);
                let [p, q] = x[0].interleave(x[1]);
                p.store(low);
                q.store(low.add(lanes));
                let [p, q] = y[0].reversed().interleave(y[1].reversed());
                p.store(high);
                q.store(high.add(lanes));
                k += lanes;
            }
            while k < end {
                let (a, b, w) = (at(k), at(m - k), g.twiddles.add(2 * k));
                let (ar, ai, br, bi, wr, wi) = (*a, *a.add(1), *b, *b.add(1), *w, *w.add(1));
                let (even, odd) = ((ar + br, ai - bi), (ai + bi, br - ar));
                let odd = (odd.0 * wr - odd.1 * wi, odd.0 * wi + odd.1 * wr);
                let signed = half * g.sign;
                (*a, *a.add(1)) = ((even.0 + odd.0) * half, (even.1 + odd.1) * signed);
                (*b, *b.add(1)) = ((even.0 - odd.0) * half, (odd.1 - even.1) * signed);
                k += 1;
            }
        }
    }

    /// [`pairs`] of the pairs `first..end` of one line whose numbers are complex and adjacent. The range that
    /// begins with 0 also takes the middle.
    ///
    /// # Safety
    /// `from` has `m + 1` numbers and `to` has `m`; they may be the same.
    pub(super) unsafe fn pairs_of_line<A, T: FftReal>(g: &Halves<T>, from: *const T, to: *mut T, first: usize, end: usize) {
        // SAFETY: the caller's promise; each number is read before it is written.
        unsafe {
            let (m, lanes) = (g.m, Wide::<A, T>::N);
            let signed = g.inner * g.sign;
            if first == 0 {
                let (x, y) = (*from * g.scale, *from.add(2 * m) * g.scale);
                (*to, *to.add(1)) = (x + y, x - y);
                if m.is_multiple_of(2) {
                    let (z, two) = (from.add(m), T::c(2.0));
                    let (re, im) = (two * *z * g.inner, -two * *z.add(1) * signed);
                    (*to.add(m), *to.add(m + 1)) = (re, im);
                }
            }
            let mut k = first.max(1);
            let (i, s) = (Wide::<A, T>::splat(g.inner), Wide::<A, T>::splat(signed));
            while k + lanes <= end {
                let (low, high) = (2 * k, 2 * (m + 1 - k - lanes));
                let pair = |at: *const T| Wide::<A, T>::load(at).deinterleave(Wide::<A, T>::load(at.add(lanes)));
                let (a, b) = (pair(from.add(low)), pair(from.add(high)));
                let w = pair(g.twiddles.add(2 * k));
                let w = [w[0], Wide::<A, T>::splat(T::ZERO).sub(w[1])];
                let [x, y] = backward(a, [b[0].reversed(), b[1].reversed()], w, i, s);
                let [p, q] = x[0].interleave(x[1]);
                p.store(to.add(low));
                q.store(to.add(low + lanes));
                let [p, q] = y[0].reversed().interleave(y[1].reversed());
                p.store(to.add(high));
                q.store(to.add(high + lanes));
                k += lanes;
            }
            while k < end {
                let (a, b, w) = (from.add(2 * k), from.add(2 * (m - k)), g.twiddles.add(2 * k));
                let (ar, ai) = (*a * g.inner, *a.add(1) * signed);
                let (br, bi) = (*b * g.inner, *b.add(1) * signed);
                let (wr, wi) = (*w, *w.add(1));
                let (even, odd) = ((ar + br, ai - bi), (ar - br, ai + bi));
                let odd = (odd.0 * wr + odd.1 * wi, odd.1 * wr - odd.0 * wi);
                let (a, b) = (to.add(2 * k), to.add(2 * (m - k)));
                (*a, *a.add(1)) = (even.0 - odd.1, even.1 + odd.0);
                (*b, *b.add(1)) = (even.0 + odd.1, odd.0 - even.1);
                k += 1;
            }
        }
    }
}

/// [`spectrum_of_line`] of all, and the other half where it is wanted.
///
/// # Safety
/// The line has the numbers that are written, and `m + 1` at least.
pub(super) unsafe fn spectrum_in_place<T: FftReal>(g: &Halves<T>, line: *mut T) {
    // SAFETY: the caller's promise.
    unsafe {
        spectrum_of_line(g, line, 0, g.pairs());
        if g.whole {
            other_half(line, g.m);
        }
    }
}

/// Writes the numbers after `m` of a spectrum of `2 m`.
///
/// # Safety
/// The line has them.
pub(super) unsafe fn other_half<T: FftReal>(line: *mut T, m: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        for k in 1..m {
            let (from, to) = (line.add(2 * k), line.add(2 * (2 * m - k)));
            (*to, *to.add(1)) = (*from, -*from.add(1));
        }
    }
}

/// # Safety
/// As for [`spectrum`].
#[inline(always)]
unsafe fn spectrum_of<A: Arch, T: FftReal, const TO: bool>(
    g: &Halves<T>,
    from: TransformSide<T>,
    to: TransformSide<T>,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let (m, n, from, to) = (g.m, 2 * g.m, from.parts(), to.parts());
        let splat = |v: T| Wide::<A, T>::splat(v);
        let zero = splat(T::ZERO);
        let half = g.inner * T::c(0.5);
        let put = |k: usize, z: [Wide<A, T>; 2]| {
            store::<Wide<A, T>, TO>(to, k, z);
            if g.whole && k > 0 && k < m {
                store::<Wide<A, T>, TO>(to, n - k, [z[0], zero.sub(z[1])]);
            }
        };
        let first = load::<Wide<A, T>, false>(from, 0);
        for k in 1..g.pairs() {
            let a = load::<Wide<A, T>, false>(from, k);
            let b = load::<Wide<A, T>, false>(from, m - k);
            let w = g.twiddles.add(2 * k);
            let w = [splat(*w), splat(*w.add(1))];
            let [x, y] = forward(a, b, w, splat(half), splat(half * g.sign));
            put(k, x);
            put(m - k, y);
        }
        if m.is_multiple_of(2) {
            let z = load::<Wide<A, T>, false>(from, m / 2);
            put(
                m / 2,
                [
                    z[0].mul(splat(g.inner)),
                    z[1].mul(splat(-(g.inner * g.sign))),
                ],
            );
        }
        let scale = splat(g.scale);
        put(0, [first[0].add(first[1]).mul(scale), zero]);
        put(m, [first[0].sub(first[1]).mul(scale), zero]);
    }
}

/// # Safety
/// As for [`pairs`].
#[inline(always)]
unsafe fn pairs_of<A: Arch, T: FftReal, const FROM: bool>(
    g: &Halves<T>,
    from: TransformSide<T>,
    to: TransformSide<T>,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let (m, from, to) = (g.m, from.parts(), to.parts());
        let splat = |v: T| Wide::<A, T>::splat(v);
        let signed = g.inner * g.sign;
        let first = load::<Wide<A, T>, FROM>(from, 0)[0].mul(splat(g.scale));
        let last = load::<Wide<A, T>, FROM>(from, m)[0].mul(splat(g.scale));
        store::<Wide<A, T>, false>(to, 0, [first.add(last), first.sub(last)]);
        for k in 1..g.pairs() {
            let a = load::<Wide<A, T>, FROM>(from, k);
            let b = load::<Wide<A, T>, FROM>(from, m - k);
            let w = g.twiddles.add(2 * k);
            let w = [splat(*w), splat(-*w.add(1))];
            let [x, y] = backward(a, b, w, splat(g.inner), splat(signed));
            store::<Wide<A, T>, false>(to, k, x);
            store::<Wide<A, T>, false>(to, m - k, y);
        }
        if m.is_multiple_of(2) {
            let z = load::<Wide<A, T>, FROM>(from, m / 2);
            let two = T::c(2.0);
            let z = [
                z[0].mul(splat(two * g.inner)),
                z[1].mul(splat(-(two * signed))),
            ];
            store::<Wide<A, T>, false>(to, m / 2, z);
        }
    }
}

/// # Safety
/// As for [`rescaled`].
#[inline(always)]
unsafe fn rescaled_of<A: Arch, T: FftReal, const TO: bool>(
    g: &Halves<T>,
    from: TransformSide<T>,
    to: TransformSide<T>,
    count: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let (from, to) = (from.parts(), to.parts());
        for k in 0..count {
            let f = if k == 0 { g.scale } else { g.inner };
            let (re, im) = (Wide::<A, T>::splat(f), Wide::<A, T>::splat(f * g.sign));
            let z = load::<Wide<A, T>, false>(from, k);
            store::<Wide<A, T>, TO>(to, k, [z[0].mul(re), z[1].mul(im)]);
        }
    }
}

/// # Safety
/// As for [`completed`].
#[inline(always)]
unsafe fn completed_of<A: Arch, T: FftReal, const FROM: bool>(
    g: &Halves<T>,
    from: TransformSide<T>,
    to: TransformSide<T>,
    n: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let (from, to) = (from.parts(), to.parts());
        let zero = Wide::<A, T>::splat(T::ZERO);
        let first = load::<Wide<A, T>, FROM>(from, 0)[0].mul(Wide::<A, T>::splat(g.scale));
        store::<Wide<A, T>, false>(to, 0, [first, zero]);
        for k in 1..n / 2 + 1 {
            let z = load::<Wide<A, T>, FROM>(from, k);
            let re = z[0].mul(Wide::<A, T>::splat(g.inner));
            let im = z[1].mul(Wide::<A, T>::splat(g.inner * g.sign));
            store::<Wide<A, T>, false>(to, k, [re, im]);
            store::<Wide<A, T>, false>(to, n - k, [re, zero.sub(im)]);
        }
    }
}
