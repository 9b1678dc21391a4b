//! Reductions that take in one element at a time: sums, products, extremes, norms.

use std::marker::PhantomData;
use std::mem::{MaybeUninit, size_of};
use std::sync::atomic::{Ordering, compiler_fence};

use num_complex::Complex;
use torsh_core::cmath;

use super::drive::{Params, RUN, ReduceOp, SHORT, WIDTH};
use super::load::{Half, Out};
use super::{extremes, sums};
use crate::memory::stream;
use crate::simd::lanes;
use crate::simd::{Arch, Level};
use crate::vmath::VMath;

/// A reduction by a lane that takes in an element.
///
/// A block is folded in many independent lanes, which are then joined as a tree; blocks are added
/// to a state of higher precision. So the rounding error of a float32 sum grows with the block,
/// not with the tensor.
pub(crate) trait LaneFold: 'static {
    type T: Copy;
    type L: Copy;
    type S: Copy;
    const ZERO: Self::L;
    const START: Self::S;

    fn step<A: Arch>(p: &Params, l: Self::L, x: Self::T) -> Self::L;
    fn join(a: Self::L, b: Self::L) -> Self::L;
    /// All lanes joined.
    #[inline(always)]
    fn all<A: Arch, const N: usize>(lanes: [Self::L; N]) -> Self::L {
        lanes::tree(lanes, Self::join)
    }
    /// `n` elements, at most [`RUN`], as one lane. Where another row of `n` follows, it may `fetch` it
    /// meanwhile.
    ///
    /// # Safety
    /// `x` must be valid for `n` reads.
    #[inline(always)]
    unsafe fn block<A: Arch>(p: &Params, x: *const Self::T, n: usize, fetch: bool) -> Self::L
    where
        Self: Sized,
    {
        // SAFETY: the caller's promise.
        unsafe { in_lanes::<A, Self>(p, x, n, fetch) }
    }
    /// Adds a block's lane to the state.
    fn total(s: Self::S, l: Self::L) -> Self::S;
    fn merge(a: Self::S, b: Self::S) -> Self::S;
    /// As [`ReduceOp::SHORT`].
    const SHORT: usize = SHORT;
    /// Whether no element can change the state any more.
    #[inline(always)]
    fn settled(_: &Self::S) -> bool {
        false
    }
    /// # Safety
    /// As for [`ReduceOp::finish`].
    unsafe fn finish(p: &Params, s: &[Self::S], out: Out);
}

/// Folds `n` elements in `N` lanes. Where another row of `n` follows, it may `fetch` it meanwhile,
/// which pays if this is the last pass over the row.
///
/// # Safety
/// `x` must be valid for `n` reads.
#[inline(always)]
pub(crate) unsafe fn fold_lanes<A: Arch, M: LaneFold, const N: usize>(
    p: &Params,
    x: *const M::T,
    n: usize,
    fetch: bool,
) -> M::L {
    // Two levels of lanes: short chains of roundings, at the price of one more operation in 16.
    const CHAIN: usize = 16;
    let mut acc = [M::ZERO; N];
    let whole = n / N * N;
    // A long run is read at four places at once, which hides the start of each page; not by every
    // loop, for each would be twice as long.
    let long = A::LEVEL == Level::Avx512 && size_of::<M::L>() == 4 && n == RUN;
    let apart = if long { RUN / 4 } else { N / 4 };
    let step = if long { N / 4 } else { N };
    let mut i = 0;
    while i < whole {
        let end = whole.min(i + CHAIN * N);
        let mut short = [M::ZERO; N];
        while i < end {
            if fetch {
                stream::prefetch_all::<M::T, N>(x.wrapping_add(n + i));
            } else {
                // No instruction. LLVM would make vectors of neighbouring rounds of integers,
                // gathered lane by lane.
                compiler_fence(Ordering::SeqCst);
            }
            // SAFETY: i < whole <= n, and each place is below n.
            unsafe {
                let x = x.add(i / N * step);
                for k in 0..4 {
                    for j in 0..N / 4 {
                        let l = k * (N / 4) + j;
                        short[l] = M::step::<A>(p, short[l], *x.add(k * apart + j));
                    }
                }
            }
            i += N;
        }
        for j in 0..N {
            acc[j] = M::join(acc[j], short[j]);
        }
    }
    if whole < n && whole > 0 && size_of::<M::L>() <= 4 {
        // The last `N` elements, but for those that are in their lanes already.
        let done = N - (n - whole);
        for j in 0..N {
            // SAFETY: n - N + j < n.
            let last = M::step::<A>(p, M::ZERO, unsafe { *x.add(n - N + j) });
            acc[j] = M::join(acc[j], if j < done { M::ZERO } else { last });
        }
    } else if whole < n {
        // In an array of its own, so that the loop above keeps its lanes in registers.
        let mut tail = [M::ZERO; N];
        for (j, a) in tail.iter_mut().enumerate().take(n - whole) {
            // SAFETY: whole + j < n.
            *a = M::step::<A>(p, *a, unsafe { *x.add(whole + j) });
        }
        for j in 0..N {
            acc[j] = M::join(acc[j], tail[j]);
        }
    }
    M::all::<A, N>(acc)
}

/// [`fold_lanes`] with as many lanes as fill four wide registers, or with fewer where registers are
/// narrow.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn in_lanes<A: Arch, M: LaneFold>(
    p: &Params,
    x: *const M::T,
    n: usize,
    fetch: bool,
) -> M::L {
    // SAFETY: the caller's promise.
    unsafe {
        match size_of::<M::L>() {
            _ if A::LEVEL == Level::Base => fold_lanes::<A, M, 16>(p, x, n, fetch),
            1 | 2 | 4 => fold_lanes::<A, M, 64>(p, x, n, fetch),
            8 => fold_lanes::<A, M, 32>(p, x, n, fetch),
            _ => fold_lanes::<A, M, 16>(p, x, n, fetch),
        }
    }
}

/// The [`ReduceOp`] of [`LaneFold`].
pub(crate) struct Of<M>(PhantomData<M>);

impl<M: LaneFold> ReduceOp for Of<M> {
    type T = M::T;
    type S = M::S;

    const MANY: bool = true;
    const SHORT: usize = M::SHORT;

    fn start() -> M::S {
        M::START
    }

    #[inline(always)]
    unsafe fn rows<A: Arch>(p: &Params, x: *const M::T, n: usize, _: i64, s: &mut M::S) {
        if !M::settled(s) {
            // Less is a row, likely with another after it; through long runs the processor finds its way.
            let fetch = n < RUN && p.fetch;
            // SAFETY: the caller's promise.
            *s = M::total(*s, unsafe { M::block::<A>(p, x, n, fetch) });
        }
    }

    #[inline(always)]
    unsafe fn cols<A: Arch>(
        p: &Params,
        x: *const M::T,
        stride: isize,
        rows: usize,
        w: usize,
        _: i64,
        s: *mut M::S,
    ) {
        let mut lanes = [const { MaybeUninit::<M::L>::uninit() }; WIDTH];
        let acc = lanes.as_mut_ptr().cast::<M::L>();
        // SAFETY: w is at most WIDTH, and the caller promises the elements and states.
        unsafe {
            for j in 0..w {
                *acc.add(j) = M::ZERO;
            }
            let mut r = 0;
            while r + 4 <= rows {
                let x0 = x.offset(r as isize * stride);
                let (x1, x2, x3) = (
                    x0.offset(stride),
                    x0.offset(2 * stride),
                    x0.offset(3 * stride),
                );
                for j in 0..w {
                    let a = M::step::<A>(p, M::ZERO, *x0.add(j));
                    let a = M::step::<A>(p, a, *x1.add(j));
                    let a = M::step::<A>(p, a, *x2.add(j));
                    *acc.add(j) = M::join(*acc.add(j), M::step::<A>(p, a, *x3.add(j)));
                }
                r += 4;
            }
            while r < rows {
                let x0 = x.offset(r as isize * stride);
                for j in 0..w {
                    *acc.add(j) = M::step::<A>(p, *acc.add(j), *x0.add(j));
                }
                r += 1;
            }
            for j in 0..w {
                *s.add(j) = M::total(*s.add(j), *acc.add(j));
            }
        }
    }

    fn merge(a: M::S, b: M::S) -> M::S {
        M::merge(a, b)
    }

    unsafe fn finish(p: &Params, s: &[M::S], outs: &[Out]) {
        // SAFETY: the caller's promise.
        unsafe { M::finish(p, s, outs[0]) }
    }
}

/// Writes states that are real numbers, integers or complex numbers as they are.
pub(crate) trait Plain: Copy {
    /// # Safety
    /// As for [`ReduceOp::finish`].
    unsafe fn write(s: &[Self], out: Out, f: impl Fn(Self) -> Self);
}
impl Plain for f64 {
    #[inline(always)]
    unsafe fn write(s: &[f64], out: Out, f: impl Fn(f64) -> f64) {
        // SAFETY: the caller's promise.
        unsafe { out.real(s.len(), |i| f(s[i])) }
    }
}
impl Plain for i64 {
    #[inline(always)]
    unsafe fn write(s: &[i64], out: Out, f: impl Fn(i64) -> i64) {
        // SAFETY: the caller's promise.
        unsafe { out.int(s.len(), |i| f(s[i])) }
    }
}
impl Plain for Complex<f64> {
    #[inline(always)]
    unsafe fn write(s: &[Complex<f64>], out: Out, f: impl Fn(Complex<f64>) -> Complex<f64>) {
        // SAFETY: the caller's promise.
        unsafe { out.complex(s.len(), |i| f(s[i])) }
    }
}

macro_rules! lanes {
    ($(#[$meta:meta])* $name:ident, $t:ty, $l:ty, $s:ty:
        zero $zero:expr, start $start:expr;
        step |$p:ident, $a:ident, $x:ident| $step:expr;
        join |$j1:ident, $j2:ident| $join:expr;
        total |$s1:ident, $l1:ident| $total:expr;
        merge |$m1:ident, $m2:ident| $merge:expr;
        finish |$q:ident, $f:ident| $finish:expr;
        $(all $all:ident;)? $(block $rows:ident $block:ident;)?
    ) => {
        $(#[$meta])*
        pub(crate) struct $name;
        impl LaneFold for $name {
            type T = $t;
            type L = $l;
            type S = $s;
            const ZERO: $l = $zero;
            const START: $s = $start;
            #[inline(always)]
            fn step<A: Arch>($p: &Params, $a: $l, $x: $t) -> $l { $step }
            #[inline(always)]
            fn join($j1: $l, $j2: $l) -> $l { $join }
            $(
            #[inline(always)]
            fn all<A: Arch, const N: usize>(lanes: [$l; N]) -> $l { lanes::$all::<A, Self::T, N>(lanes) }
            )?
            $(
            const SHORT: usize = $rows::SHORT / size_of::<$t>();
            #[inline(always)]
            unsafe fn block<A: Arch>(p: &Params, x: *const $t, n: usize, fetch: bool) -> $l {
                // SAFETY: the caller's promise.
                unsafe {
                    match $rows::$block::<A, $t>(x, n, fetch) {
                        Some(row) => row,
                        None => in_lanes::<A, Self>(p, x, n, fetch),
                    }
                }
            }
            )?
            #[inline(always)]
            fn total($s1: $s, $l1: $l) -> $s { $total }
            #[inline(always)]
            fn merge($m1: $s, $m2: $s) -> $s { $merge }
            unsafe fn finish($q: &Params, s: &[$s], out: Out) {
                // SAFETY: the caller's promise.
                unsafe { <$s as Plain>::write(s, out, |$f| $finish) }
            }
        }
    };
}

type C32 = Complex<f32>;
type C64 = Complex<f64>;
const C32_ONE: C32 = Complex::new(1.0, 0.0);
const C64_ONE: C64 = Complex::new(1.0, 0.0);

#[inline(always)]
fn wide(z: C32) -> C64 {
    Complex::new(z.re as f64, z.im as f64)
}

macro_rules! float_folds {
    ($t:ident, $sum:ident, $mean:ident, $nansum:ident, $prod:ident, $max:ident, $min:ident,
     $norm1:ident, $norm2:ident, $normp:ident, $absmax:ident, $absmin:ident) => {
        lanes! { $sum, $t, $t, f64: zero 0.0, start 0.0;
        step |_p, a, x| a + x; join |a, b| a + b; total |s, l| s + l as f64; merge |a, b| a + b;
        finish |_q, s| s; all sum_of; block sums sum; }
        lanes! { $mean, $t, $t, f64: zero 0.0, start 0.0;
        step |_p, a, x| a + x; join |a, b| a + b; total |s, l| s + l as f64; merge |a, b| a + b;
        finish |q, s| s / q.count; all sum_of; block sums sum; }
        lanes! { $nansum, $t, $t, f64: zero 0.0, start 0.0;
        step |_p, a, x| if x.is_nan() { a } else { a + x }; join |a, b| a + b;
        total |s, l| s + l as f64; merge |a, b| a + b; finish |_q, s| s; }
        lanes! { $prod, $t, $t, f64: zero 1.0, start 1.0;
        step |_p, a, x| a * x; join |a, b| a * b; total |s, l| s * l as f64; merge |a, b| a * b;
        finish |_q, s| s; }
        lanes! {
        /// NaN where there is one.
        $max, $t, $t, f64: zero <$t>::NEG_INFINITY, start f64::NEG_INFINITY;
        step |_p, a, x| max(a, x); join |a, b| max(a, b);
        total |s, l| max(s, l as f64); merge |a, b| max(a, b); finish |_q, s| s; block extremes largest; }
        lanes! {
        /// NaN where there is one.
        $min, $t, $t, f64: zero <$t>::INFINITY, start f64::INFINITY;
        step |_p, a, x| min(a, x); join |a, b| min(a, b);
        total |s, l| min(s, l as f64); merge |a, b| min(a, b); finish |_q, s| s; block extremes smallest; }
        lanes! { $norm1, $t, $t, f64: zero 0.0, start 0.0;
        step |_p, a, x| a + x.abs(); join |a, b| a + b; total |s, l| s + l as f64;
        merge |a, b| a + b; finish |_q, s| s; }
        lanes! { $norm2, $t, $t, f64: zero 0.0, start 0.0;
        step |_p, a, x| if A::FMA { x.mul_add(x, a) } else { a + x * x }; join |a, b| a + b;
        total |s, l| s + l as f64; merge |a, b| a + b; finish |_q, s| s.sqrt(); }
        lanes! { $normp, $t, $t, f64: zero 0.0, start 0.0;
        step |p, a, x| a + VMath::pow::<A>(x.abs(), p.p as $t); join |a, b| a + b;
        total |s, l| s + l as f64; merge |a, b| a + b; finish |q, s| cmath::pow(s, 1.0 / q.p); }
        lanes! { $absmax, $t, $t, f64: zero 0.0, start 0.0;
        step |_p, a, x| max(a, x.abs()); join |a, b| max(a, b);
        total |s, l| max(s, l as f64); merge |a, b| max(a, b); finish |_q, s| s; }
        lanes! { $absmin, $t, $t, f64: zero <$t>::INFINITY, start f64::INFINITY;
        step |_p, a, x| min(a, x.abs()); join |a, b| min(a, b);
        total |s, l| min(s, l as f64); merge |a, b| min(a, b); finish |_q, s| s; }
    };
}

/// The larger; NaN where one is (the first).
#[inline(always)]
#[allow(clippy::eq_op)]
pub(crate) fn max<T: PartialOrd + Copy>(a: T, x: T) -> T {
    // Not `x > a`: a NaN compares to nothing.
    if !(x <= a) & (a == a) { x } else { a }
}

/// The smaller; NaN where one is (the first).
#[inline(always)]
#[allow(clippy::eq_op)]
pub(crate) fn min<T: PartialOrd + Copy>(a: T, x: T) -> T {
    if !(x >= a) & (a == a) { x } else { a }
}

float_folds!(
    f32, SumF32, MeanF32, NanSumF32, ProdF32, MaxF32, MinF32, Norm1F32, Norm2F32, NormPF32,
    AbsMaxF32, AbsMinF32
);
float_folds!(
    f64, SumF64, MeanF64, NanSumF64, ProdF64, MaxF64, MinF64, Norm1F64, Norm2F64, NormPF64,
    AbsMaxF64, AbsMinF64
);

lanes! { SumI64, i64, i64, i64: zero 0, start 0;
step |_p, a, x| a.wrapping_add(x); join |a, b| a.wrapping_add(b); total |s, l| s.wrapping_add(l);
merge |a, b| a.wrapping_add(b); finish |_q, s| s; }
lanes! { ProdI64, i64, i64, i64: zero 1, start 1;
step |_p, a, x| a.wrapping_mul(x); join |a, b| a.wrapping_mul(b); total |s, l| s.wrapping_mul(l);
merge |a, b| a.wrapping_mul(b); finish |_q, s| s; }
lanes! { MaxI64, i64, i64, i64: zero i64::MIN, start i64::MIN;
step |_p, a, x| if x > a { x } else { a }; join |a, b| a.max(b); total |s, l| s.max(l);
merge |a, b| a.max(b); finish |_q, s| s; }
lanes! { MinI64, i64, i64, i64: zero i64::MAX, start i64::MAX;
step |_p, a, x| if x < a { x } else { a }; join |a, b| a.min(b); total |s, l| s.min(l);
merge |a, b| a.min(b); finish |_q, s| s; }

lanes! { SumC64, C32, C32, C64: zero Complex::new(0.0, 0.0), start Complex::new(0.0, 0.0);
step |_p, a, x| a + x; join |a, b| a + b; total |s, l| s + wide(l); merge |a, b| a + b; finish |_q, s| s; }
lanes! { MeanC64, C32, C32, C64: zero Complex::new(0.0, 0.0), start Complex::new(0.0, 0.0);
step |_p, a, x| a + x; join |a, b| a + b; total |s, l| s + wide(l); merge |a, b| a + b; finish |q, s| s / q.count; }
lanes! { ProdC64, C32, C32, C64: zero C32_ONE, start C64_ONE;
step |_p, a, x| a * x; join |a, b| a * b; total |s, l| s * wide(l); merge |a, b| a * b; finish |_q, s| s; }
lanes! { SumC128, C64, C64, C64: zero Complex::new(0.0, 0.0), start Complex::new(0.0, 0.0);
step |_p, a, x| a + x; join |a, b| a + b; total |s, l| s + l; merge |a, b| a + b; finish |_q, s| s; }
lanes! { MeanC128, C64, C64, C64: zero Complex::new(0.0, 0.0), start Complex::new(0.0, 0.0);
step |_p, a, x| a + x; join |a, b| a + b; total |s, l| s + l; merge |a, b| a + b; finish |q, s| s / q.count; }
lanes! { ProdC128, C64, C64, C64: zero C64_ONE, start C64_ONE;
step |_p, a, x| a * x; join |a, b| a * b; total |s, l| s * l; merge |a, b| a * b; finish |_q, s| s; }

lanes! {
/// How many are not zero.
Count, u8, u32, i64: zero 0, start 0;
step |_p, a, x| a + (x != 0) as u32; join |a, b| a + b; total |s, l| s + l as i64; merge |a, b| a + b;
finish |_q, s| s; }

/// The product of half-precision numbers, rounded after every factor as PyTorch's is.
pub(crate) struct HalfProd<H>(PhantomData<H>);

impl<H: Half> ReduceOp for HalfProd<H> {
    type T = f32;
    type S = f64;

    const MANY: bool = true;

    fn start() -> f64 {
        1.0
    }

    #[inline(always)]
    unsafe fn rows<A: Arch>(_: &Params, x: *const f32, n: usize, _: i64, s: &mut f64) {
        let mut a = *s as f32;
        for i in 0..n {
            // SAFETY: the caller's promise.
            a = H::nearest(a * unsafe { *x.add(i) });
        }
        *s = a as f64;
    }

    #[inline(always)]
    unsafe fn cols<A: Arch>(
        _: &Params,
        x: *const f32,
        stride: isize,
        rows: usize,
        w: usize,
        _: i64,
        s: *mut f64,
    ) {
        for r in 0..rows {
            let y = x.wrapping_offset(r as isize * stride);
            for j in 0..w {
                // SAFETY: the caller's promise.
                unsafe { *s.add(j) = H::nearest(*s.add(j) as f32 * *y.add(j)) as f64 };
            }
        }
    }

    fn merge(a: f64, b: f64) -> f64 {
        H::nearest((a * b) as f32) as f64
    }

    unsafe fn finish(_: &Params, s: &[f64], outs: &[Out]) {
        // SAFETY: the caller's promise.
        unsafe { f64::write(s, outs[0], |v| v) }
    }
}

macro_rules! truth {
    ($name:ident, $start:literal, $op:tt, $settled:literal) => {
        pub(crate) struct $name;
        impl LaneFold for $name {
            type T = u8;
            type L = u8;
            type S = u8;
            const ZERO: u8 = $start;
            const START: u8 = $start;
            #[inline(always)]
            fn step<A: Arch>(_: &Params, a: u8, x: u8) -> u8 { a $op (x != 0) as u8 }
            #[inline(always)]
            fn join(a: u8, b: u8) -> u8 { a $op b }
            #[inline(always)]
            fn total(s: u8, l: u8) -> u8 { s $op l }
            #[inline(always)]
            fn merge(a: u8, b: u8) -> u8 { a $op b }
            #[inline(always)]
            fn settled(s: &u8) -> bool { *s == $settled }
            unsafe fn finish(_: &Params, s: &[u8], out: Out) {
                // SAFETY: the caller's promise.
                unsafe { out.int(s.len(), |i| s[i] as i64) }
            }
        }
    };
}
truth!(Any, 0, |, 1);
truth!(All, 1, &, 0);
