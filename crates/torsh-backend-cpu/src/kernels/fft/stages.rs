//! Transforms of several lines at once: each lane of a vector has a line of its own.
//!
//! Loads and stores are of whole vectors and the factors are the same in all lanes, so nothing is permuted
//! between the first load and the last store. Real and imaginary parts are in vectors of their own. The algorithm
//! is Stockham's: each stage reads one buffer and writes another, and the results come in their order. Only forward
//! transforms are computed: an inverse one is a forward one that reads, or writes, its points in the other direction,
//! or one with real and imaginary parts exchanged on both sides.

use super::plans::root;
use super::transposition::lanes;
use crate::memory::stream::{LINE, prefetch_second};
use crate::scalar::Real;
use crate::simd::{Arch, FloatVector, Vector, Vectors};

/// The points of one side of a stage.
#[derive(Clone, Copy)]
pub(super) enum TransformSide<T> {
    /// A vector of real parts and one of imaginary parts, each with its step from one point to the next.
    Split([*mut T; 2], [isize; 2]),
    /// Complex numbers: the lanes are adjacent. Point 0, where the others are counted from, and the step.
    Pairs([*mut T; 2], isize),
}
use TransformSide::{Pairs, Split};

impl<T> TransformSide<T> {
    /// A buffer of so many lanes.
    pub(super) fn buffer(ptr: *mut T, lanes: usize) -> TransformSide<T> {
        Split([ptr, ptr.wrapping_add(lanes)], [2 * lanes as isize; 2])
    }
    /// Complex columns whose rows begin every `row` complex numbers.
    pub(super) fn columns(ptr: *mut T, row: isize) -> TransformSide<T> {
        Pairs([ptr; 2], 2 * row)
    }
    /// Addresses and steps, whichever it is.
    #[inline(always)]
    pub(super) fn parts(self) -> ([*mut T; 2], [isize; 2]) {
        match self {
            Split(ptr, step) => (ptr, step),
            Pairs(ptr, step) => (ptr, [step; 2]),
        }
    }
}

/// Both sides for the inverse of a transform of `n` points.
fn inverted<T>(
    n: usize,
    from: TransformSide<T>,
    to: TransformSide<T>,
) -> (TransformSide<T>, TransformSide<T>) {
    // Point 0 stays, and the others are taken from the end.
    let reversed = |ptr: *mut T, step: isize| {
        let end = ptr.wrapping_offset(n as isize * step);
        Pairs([ptr, end], -step)
    };
    match (from, to) {
        (Pairs(ptr, step), to) => (reversed(ptr[0], step), to),
        (from, Pairs(ptr, step)) => (from, reversed(ptr[0], step)),
        (Split([a, b], [c, d]), Split([e, f], [g, h])) => {
            (Split([b, a], [d, c]), Split([f, e], [h, g]))
        }
    }
}

/// Point `i` of a side that is `TransformSide::Pairs`, or `TransformSide::Split`.
///
/// # Safety
/// It is there.
#[inline(always)]
pub(super) unsafe fn load<V: FloatVector, const PAIRS: bool>(
    (ptr, step): ([*mut V::T; 2], [isize; 2]),
    i: usize,
) -> [V; 2] {
    // SAFETY: the caller's promise.
    unsafe {
        if PAIRS {
            let at = ptr[usize::from(i > 0)].offset(i as isize * step[0]);
            V::load(at).deinterleave(V::load(at.add(V::N)))
        } else {
            let i = i as isize;
            [
                V::load(ptr[0].offset(i * step[0])),
                V::load(ptr[1].offset(i * step[1])),
            ]
        }
    }
}

/// Writes point `i` of such a side.
///
/// # Safety
/// It is there.
#[inline(always)]
pub(super) unsafe fn store<V: FloatVector, const PAIRS: bool>(
    (ptr, step): ([*mut V::T; 2], [isize; 2]),
    i: usize,
    [re, im]: [V; 2],
) {
    // SAFETY: the caller's promise.
    unsafe {
        if PAIRS {
            let at = ptr[usize::from(i > 0)].offset(i as isize * step[0]);
            let [low, high] = re.interleave(im);
            low.store(at);
            high.store(at.add(V::N));
        } else {
            let i = i as isize;
            re.store(ptr[0].offset(i * step[0]));
            im.store(ptr[1].offset(i * step[1]));
        }
    }
}

type Z<V> = [V; 2];
/// The vectors of the lines.
pub(super) type Wide<A, T> = <T as Vectors>::V<A>;

#[inline(always)]
unsafe fn add<V: FloatVector>(a: Z<V>, b: Z<V>) -> Z<V> {
    // SAFETY: the caller is compiled for the vectors.
    unsafe { [a[0].add(b[0]), a[1].add(b[1])] }
}
#[inline(always)]
unsafe fn sub<V: FloatVector>(a: Z<V>, b: Z<V>) -> Z<V> {
    // SAFETY: the caller is compiled for the vectors.
    unsafe { [a[0].sub(b[0]), a[1].sub(b[1])] }
}
/// The negative; as a factor it becomes a part of the multiplication and addition.
#[inline(always)]
unsafe fn neg<V: FloatVector>(a: V) -> V {
    // SAFETY: the caller is compiled for the vectors.
    unsafe { V::splat(V::T::c(-0.0)).sub(a) }
}
/// `a + c b` with a real `c`.
#[inline(always)]
unsafe fn axpy<V: FloatVector>(a: Z<V>, c: V, b: Z<V>) -> Z<V> {
    // SAFETY: the caller is compiled for the vectors.
    unsafe { [a[0].add_product(c, b[0]), a[1].add_product(c, b[1])] }
}
#[inline(always)]
unsafe fn scale<V: FloatVector>(c: V, b: Z<V>) -> Z<V> {
    // SAFETY: the caller is compiled for the vectors.
    unsafe { [c.mul(b[0]), c.mul(b[1])] }
}
/// `a - i b`
#[inline(always)]
unsafe fn sub_i<V: FloatVector>(a: Z<V>, b: Z<V>) -> Z<V> {
    // SAFETY: the caller is compiled for the vectors.
    unsafe { [a[0].add(b[1]), a[1].sub(b[0])] }
}
/// `a + i b`
#[inline(always)]
unsafe fn add_i<V: FloatVector>(a: Z<V>, b: Z<V>) -> Z<V> {
    // SAFETY: the caller is compiled for the vectors.
    unsafe { [a[0].sub(b[1]), a[1].add(b[0])] }
}
/// `a * (c - i s)`, where `s` and `-s` come as vectors.
#[inline(always)]
pub(super) unsafe fn times<V: FloatVector>(a: Z<V>, wr: V, wi: V) -> Z<V> {
    // SAFETY: the caller is compiled for the vectors.
    unsafe {
        [
            a[0].mul(wr).add_product(neg(a[1]), wi),
            a[1].mul(wr).add_product(a[0], wi),
        ]
    }
}

#[inline(always)]
unsafe fn dft4<V: FloatVector>(a: Z<V>, b: Z<V>, c: Z<V>, d: Z<V>) -> [Z<V>; 4] {
    // SAFETY: the caller is compiled for the vectors.
    unsafe {
        let (p, q, r, s) = (add(a, c), sub(a, c), add(b, d), sub(b, d));
        [add(p, r), sub_i(q, s), sub(p, r), add_i(q, s)]
    }
}

/// `z (1 - i) / sqrt 2`
#[inline(always)]
unsafe fn eighth<V: FloatVector>(z: Z<V>) -> Z<V> {
    // SAFETY: the caller is compiled for the vectors.
    unsafe {
        let h = V::splat(V::T::c(std::f64::consts::FRAC_1_SQRT_2));
        [h.mul(z[0].add(z[1])), h.mul(z[1].sub(z[0]))]
    }
}
/// `z (-1 - i) / sqrt 2`
#[inline(always)]
unsafe fn three_eighths<V: FloatVector>(z: Z<V>) -> Z<V> {
    // SAFETY: the caller is compiled for the vectors.
    unsafe {
        let h = V::splat(V::T::c(std::f64::consts::FRAC_1_SQRT_2));
        let g = V::splat(V::T::c(-std::f64::consts::FRAC_1_SQRT_2));
        [h.mul(z[1].sub(z[0])), g.mul(z[0].add(z[1]))]
    }
}

/// A transform of `R` points in place.
///
/// # Safety
/// The caller is compiled for the vectors.
#[inline(always)]
pub(super) unsafe fn dft<V: FloatVector, const R: usize>(x: &mut [Z<V>; R]) {
    // SAFETY: the caller is compiled for the vectors.
    let c = |v: f64| unsafe { V::splat(V::T::c(v)) };
    // SAFETY: as above.
    unsafe {
        match R {
            2 => (x[0], x[1]) = (add(x[0], x[1]), sub(x[0], x[1])),
            3 => {
                let (p, m) = (add(x[1], x[2]), sub(x[1], x[2]));
                let half = axpy(x[0], c(-0.5), p);
                let s = scale(c(0.866_025_403_784_438_6), m);
                x[0] = add(x[0], p);
                (x[1], x[2]) = (sub_i(half, s), add_i(half, s));
            }
            4 => {
                let y = dft4(x[0], x[1], x[2], x[3]);
                (x[0], x[1], x[2], x[3]) = (y[0], y[1], y[2], y[3]);
            }
            5 => {
                let (p1, m1) = (add(x[1], x[4]), sub(x[1], x[4]));
                let (p2, m2) = (add(x[2], x[3]), sub(x[2], x[3]));
                let (c1, c2) = (c(0.309_016_994_374_947_45), c(-0.809_016_994_374_947_5));
                let (s1, s2) = (c(0.951_056_516_295_153_5), c(0.587_785_252_292_473_1));
                let a = axpy(axpy(x[0], c1, p1), c2, p2);
                let b = axpy(axpy(x[0], c2, p1), c1, p2);
                let s = axpy(scale(s1, m1), s2, m2);
                let t = axpy(scale(s2, m1), c(-0.951_056_516_295_153_5), m2);
                x[0] = add(x[0], add(p1, p2));
                (x[1], x[4]) = (sub_i(a, s), add_i(a, s));
                (x[2], x[3]) = (sub_i(b, t), add_i(b, t));
            }
            7 => {
                let (p1, m1) = (add(x[1], x[6]), sub(x[1], x[6]));
                let (p2, m2) = (add(x[2], x[5]), sub(x[2], x[5]));
                let (p3, m3) = (add(x[3], x[4]), sub(x[3], x[4]));
                let (c1, c2, c3) = (
                    c(0.623_489_801_858_733_5),
                    c(-0.222_520_933_956_314_4),
                    c(-0.900_968_867_902_419_1),
                );
                let (s1, s2, s3) = (
                    c(0.781_831_482_468_029_8),
                    c(0.974_927_912_181_823_6),
                    c(0.433_883_739_117_558_1),
                );
                let a = axpy(axpy(axpy(x[0], c1, p1), c2, p2), c3, p3);
                let b = axpy(axpy(axpy(x[0], c2, p1), c3, p2), c1, p3);
                let d = axpy(axpy(axpy(x[0], c3, p1), c1, p2), c2, p3);
                let s = axpy(axpy(scale(s1, m1), s2, m2), s3, m3);
                let t = sub(scale(s2, m1), axpy(scale(s3, m2), s1, m3));
                let u = axpy(sub(scale(s3, m1), scale(s1, m2)), s2, m3);
                x[0] = add(x[0], add(p1, add(p2, p3)));
                (x[1], x[6]) = (sub_i(a, s), add_i(a, s));
                (x[2], x[5]) = (sub_i(b, t), add_i(b, t));
                (x[3], x[4]) = (sub_i(d, u), add_i(d, u));
            }
            8 => {
                let e = dft4(x[0], x[2], x[4], x[6]);
                let o = dft4(x[1], x[3], x[5], x[7]);
                let (o1, o3) = (eighth(o[1]), three_eighths(o[3]));
                (x[0], x[4]) = (add(e[0], o[0]), sub(e[0], o[0]));
                (x[1], x[5]) = (add(e[1], o1), sub(e[1], o1));
                (x[2], x[6]) = (sub_i(e[2], o[2]), add_i(e[2], o[2]));
                (x[3], x[7]) = (add(e[3], o3), sub(e[3], o3));
            }
            _ => debug_assert!(false, "no such radix"),
        }
    }
}

/// Factors that the results of the last stage are multiplied with, and differ between lanes.
#[derive(Clone, Copy)]
pub(super) struct Turn<T> {
    /// For each point a pair of vectors.
    pub(super) lanes: *const T,
    /// For each point a complex number.
    pub(super) block: *const T,
}

/// Memory that is used after this transform, or at its end: while the stages compute, it comes into L2.
#[derive(Clone, Copy)]
pub(super) struct FftPrefetch<T> {
    ptr: *const T,
    /// From one line to the next.
    step: isize,
    /// Which bits of a point's index are the line's; the others count pieces of a line.
    mask: usize,
    shift: u32,
}

impl<T> FftPrefetch<T> {
    /// Nothing.
    pub(super) const NONE: FftPrefetch<T> = FftPrefetch {
        ptr: std::ptr::null(),
        step: 0,
        mask: 0,
        shift: 0,
    };
    /// Columns whose rows begin every `step` numbers.
    pub(super) fn columns(ptr: *const T, step: isize) -> FftPrefetch<T> {
        FftPrefetch {
            ptr,
            step,
            mask: usize::MAX,
            shift: usize::BITS - 1,
        }
    }
    /// So many lines, a power of two, of adjacent numbers, which begin every `step` numbers.
    pub(super) fn lines(ptr: *const T, step: isize, count: usize) -> FftPrefetch<T> {
        FftPrefetch {
            ptr,
            step,
            mask: count - 1,
            shift: count.trailing_zeros(),
        }
    }

    /// Fetches what point `i` of all lanes needs, `2 * lanes` numbers.
    #[inline(always)]
    fn fetch(&self, i: usize, lanes: usize) {
        let line = (i & self.mask) as isize * self.step;
        let piece = (i >> self.shift) * 2 * lanes;
        let at = self
            .ptr
            .wrapping_offset(line)
            .wrapping_add(piece)
            .cast::<u8>();
        // The last bytes of cache lines: where numbers begin within one, its first bytes came with those before.
        let mut end = LINE;
        while end <= 2 * lanes * size_of::<T>() {
            prefetch_second(at.wrapping_add(end - 1));
            end += LINE;
        }
    }
}

/// One stage: where it reads and writes, and its place in the transform.
#[derive(Clone, Copy)]
pub(super) struct Stage<T> {
    from: TransformSide<T>,
    to: TransformSide<T>,
    /// `R - 1` for each of the `m` places.
    twiddles: *const T,
    m: usize,
    s: usize,
    scale: T,
    turn: Option<Turn<T>>,
    ahead: FftPrefetch<T>,
}

crate::multiversion! {
    /// Computes a stage.
    ///
    /// # Safety
    /// Both sides and the factors are there; the sides are apart, or the transform is this stage alone.
    pub(super) unsafe fn stage<A, T: Vectors; const R: usize>(g: &Stage<T>) {
        // SAFETY: the caller's promise.
        unsafe {
            match (g.from, g.to) {
                (Split(..), Split(..)) => stage_of::<A, T, R, false, false>(g),
                (Pairs(..), Split(..)) => stage_of::<A, T, R, true, false>(g),
                (Split(..), Pairs(..)) => stage_of::<A, T, R, false, true>(g),
                // No call has it: transforms of one stage go through a buffer.
                (Pairs(..), Pairs(..)) => debug_assert!(false, "one side is a buffer"),
            }
        }
    }
}

/// # Safety
/// As for [`stage`].
#[inline(always)]
unsafe fn stage_of<A: Arch, T: Vectors, const R: usize, const FROM: bool, const TO: bool>(
    g: &Stage<T>,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let (from, to, m, s) = (g.from.parts(), g.to.parts(), g.m, g.s);
        let scaled = g.scale != T::ONE;
        for p in 0..m {
            let w = g.twiddles.wrapping_add(2 * (R - 1) * p);
            for q in 0..s {
                let mut x = [[Wide::<A, T>::splat(T::ZERO); 2]; R];
                if !g.ahead.ptr.is_null() {
                    for k in 0..R {
                        g.ahead.fetch((p * s + q) * R + k, Wide::<A, T>::N);
                    }
                }
                for j in 0..R {
                    x[j] = load::<Wide<A, T>, FROM>(from, q + s * (p + m * j));
                }
                dft::<Wide<A, T>, R>(&mut x);
                if m > 1 {
                    for k in 1..R {
                        let (wr, wi) = (*w.add(2 * k - 2), *w.add(2 * k - 1));
                        x[k] = times(x[k], Wide::<A, T>::splat(wr), Wide::<A, T>::splat(wi));
                    }
                }
                if scaled {
                    let f = Wide::<A, T>::splat(g.scale);
                    for k in 0..R {
                        x[k] = scale(f, x[k]);
                    }
                }
                if let Some(turn) = g.turn {
                    for k in 0..R {
                        let i = q + s * (R * p + k);
                        let (br, bi) = (*turn.block.add(2 * i), *turn.block.add(2 * i + 1));
                        let at = turn.lanes.add(2 * Wide::<A, T>::N * i);
                        let l = [
                            Wide::<A, T>::load(at),
                            Wide::<A, T>::load(at.add(Wide::<A, T>::N)),
                        ];
                        let [wr, wi] = times(l, Wide::<A, T>::splat(br), Wide::<A, T>::splat(bi));
                        x[k] = times(x[k], wr, wi);
                    }
                }
                for k in 0..R {
                    store::<Wide<A, T>, TO>(to, q + s * (R * p + k), x[k]);
                }
            }
        }
    }
}

/// The plan of a transform of lines in lanes.
pub(super) struct Stages<T> {
    n: usize,
    /// Radix, and the place of its factors.
    stages: Vec<(usize, usize)>,
    twiddles: Vec<T>,
}

/// Whether a length has no prime factors but 2, 3, 5 and 7.
pub(super) fn has_radices(n: usize) -> bool {
    let left = [2, 3, 5, 7].into_iter().fold(n.max(1), |mut n, r| {
        while n.is_multiple_of(r) {
            n /= r;
        }
        n
    });
    n > 1 && left == 1
}

/// The radices of such a length.
fn radices(mut n: usize) -> Vec<usize> {
    let mut all = Vec::new();
    for r in [7, 5, 3] {
        while n.is_multiple_of(r) {
            all.push(r);
            n /= r;
        }
    }
    let mut bits = n.trailing_zeros();
    // Eights, and fours for what they leave.
    let mut twos = Vec::new();
    while bits > 0 {
        let b = match bits {
            2 | 4 => 2,
            1 => 1,
            _ => 3,
        };
        twos.push(1 << b);
        bits -= b;
    }
    twos.sort_unstable();
    all.extend(twos);
    all.reverse();
    all
}

impl<T: Vectors> Stages<T> {
    /// The plan for a length that [`has_radices`].
    pub(super) fn new(n: usize) -> Stages<T> {
        let (mut stages, mut twiddles, mut left) = (Vec::new(), Vec::new(), n);
        for r in radices(n) {
            stages.push((r, twiddles.len()));
            let m = left / r;
            if m > 1 {
                for p in 0..m {
                    for k in 1..r {
                        let (re, im) = root(p * k % left, left);
                        twiddles.push(T::c(re));
                        twiddles.push(T::c(im));
                    }
                }
            }
            left = m;
        }
        Stages {
            n,
            stages,
            twiddles,
        }
    }

    /// How many stages there are.
    pub(super) fn count(&self) -> usize {
        self.stages.len()
    }

    /// The bytes of its factors.
    pub(super) fn bytes(&self) -> usize {
        self.twiddles.len() * size_of::<T>()
    }

    /// Transforms the points of `from`, where it must not be `to`, and returns the buffer that has the result,
    /// unless `to` has. The first two stages fetch `ahead`.
    ///
    /// # Safety
    /// Both buffers have room for the points in all lanes; `from` may be the first one. All sides are there, and
    /// the factors of `turn`.
    pub(super) unsafe fn run(
        &self,
        from: TransformSide<T>,
        to: Option<TransformSide<T>>,
        buffers: [*mut T; 2],
        inverse: bool,
        scale: T,
        turn: Option<Turn<T>>,
        ahead: [FftPrefetch<T>; 2],
    ) -> *mut T {
        let width = lanes::<T>();
        let count = self.stages.len();
        let result = buffers[count % 2];
        let to = to.unwrap_or(TransformSide::buffer(result, width));
        let (mut from, to) = match inverse {
            true => inverted(self.n, from, to),
            false => (from, to),
        };
        let (mut m, mut s) = (self.n, 1);
        for (i, &(r, at)) in self.stages.iter().enumerate() {
            m /= r;
            let last = i + 1 == count;
            // The first stage leaves the first buffer alone, from which it may read.
            let own = TransformSide::buffer(buffers[(i + 1) % 2], width);
            let g = Stage {
                from,
                to: if last { to } else { own },
                twiddles: self.twiddles.as_ptr().wrapping_add(at),
                m,
                s,
                scale: if last { scale } else { T::ONE },
                turn: if last { turn } else { None },
                ahead: *ahead.get(i).unwrap_or(&FftPrefetch::NONE),
            };
            // SAFETY: the caller's promise; the buffers are apart.
            unsafe {
                match r {
                    2 => stage::<T, 2>(&g),
                    3 => stage::<T, 3>(&g),
                    4 => stage::<T, 4>(&g),
                    5 => stage::<T, 5>(&g),
                    7 => stage::<T, 7>(&g),
                    _ => stage::<T, 8>(&g),
                }
            }
            from = g.to;
            s *= r;
        }
        result
    }
}
