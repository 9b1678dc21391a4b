//! Extremes with their positions: the first of equals, and the first NaN where there is one.

use std::marker::PhantomData;
use std::mem::{MaybeUninit, size_of};
use std::ops::Add;

use super::drive::{Params, RUN, ReduceOp, WIDTH};
use super::fold::{self, LaneFold, Plain};
use super::load::Out;
use crate::memory::stream;
use crate::simd::lanes;
use crate::simd::{Arch, Level};

/// Value and position of one result; the position is -1 before the first element.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct At<T> {
    value: T,
    index: i64,
}

/// An element type with an order, and the integer of its size, so that values and positions fill
/// the same number of vectors.
pub(crate) trait ArgElement: Copy + PartialOrd + 'static {
    type Index: Copy + PartialOrd + Add<Output = Self::Index>;
    type Wide: Plain;
    const LOW: Self;
    fn index(i: usize) -> Self::Index;
    fn wide_index(i: Self::Index) -> i64;
    fn wide(self) -> Self::Wide;
}
macro_rules! ordered {
    ($($t:ident $index:ident $wide:ident $low:literal;)*) => {$(
        impl ArgElement for $t {
            type Index = $index;
            type Wide = $wide;
            const LOW: $t = $low;
            #[inline(always)]
            fn index(i: usize) -> $index {
                i as $index
            }
            #[inline(always)]
            fn wide_index(i: $index) -> i64 {
                i as i64
            }
            #[inline(always)]
            fn wide(self) -> $wide {
                self as $wide
            }
        }
    )*};
}
ordered! {
    f32 i32 f64 0.0;
    f64 i64 f64 0.0;
    i64 i64 i64 0;
}

/// Which extreme: its fold over values, and whether `x` comes before `a`.
pub(crate) trait Side: 'static {
    type T: ArgElement;
    type Values: LaneFold<T = Self::T, L = Self::T>;
    fn better(a: Self::T, x: Self::T) -> bool;
}

macro_rules! sides {
    ($($name:ident, $t:ty, $values:ident, $cmp:tt;)*) => {$(
        pub(crate) struct $name;
        impl Side for $name {
            type T = $t;
            type Values = fold::$values;
            #[inline(always)]
            #[allow(clippy::eq_op)]
            fn better(a: $t, x: $t) -> bool {
                // A NaN compares to nothing: it is better than any number, and nothing than it.
                !(x $cmp a) & (a == a)
            }
        }
    )*};
}
sides! {
    TopF32, f32, MaxF32, <=;
    TopF64, f64, MaxF64, <=;
    TopI64, i64, MaxI64, <=;
    BottomF32, f32, MinF32, >=;
    BottomF64, f64, MinF64, >=;
    BottomI64, i64, MinI64, >=;
}

/// Extreme with position; writes values, then positions where there are two outputs, and
/// positions alone where there is one.
pub(crate) struct Arg<D>(PhantomData<D>);

/// The first position of a value (or of a NaN, if it is one) that is among `n` elements.
///
/// # Safety
/// `x` must be valid for `n` reads.
#[inline(always)]
#[allow(clippy::eq_op)]
unsafe fn find<T: ArgElement>(x: *const T, n: usize, value: T) -> usize {
    // SAFETY: the caller's promise.
    unsafe {
        match value == value {
            true => first(x, n, |v| v == value),
            false => first(x, n, |v| v != v),
        }
    }
}

/// The first of `n` elements that `hit` is true of; `n` where it is of none.
///
/// # Safety
/// `x` must be valid for `n` reads.
#[inline(always)]
unsafe fn first<T: ArgElement>(x: *const T, n: usize, hit: impl Fn(T) -> bool) -> usize {
    const STEP: usize = 32;
    let mut i = 0;
    // SAFETY: i < n, the caller's promise.
    unsafe {
        while i + STEP <= n {
            let mut any = false;
            for j in 0..STEP {
                any |= hit(*x.add(i + j));
            }
            if any {
                break;
            }
            i += STEP;
        }
        while i < n && !hit(*x.add(i)) {
            i += 1;
        }
    }
    i
}

/// The extreme of `n` elements, at least `N`, and its place, in one pass: each lane keeps the first of
/// its extremes, and which lane's is the first of all is found without a branch, so that the next
/// row's loads need not wait for a wrong guess.
///
/// # Safety
/// `x` must be valid for `n` reads.
#[inline(always)]
unsafe fn extreme<D: Side, const N: usize>(p: &Params, x: *const D::T, n: usize) -> (D::T, i64) {
    let zero = D::T::index(0);
    // All lanes have the first element, which only the first one has at its own place.
    // SAFETY: the caller's promise.
    let (mut value, mut at) = ([unsafe { *x }; N], [zero; N]);
    let fetch = n < RUN && p.fetch;
    let mut i = 0;
    // SAFETY: i + N <= n, the caller's promise.
    unsafe {
        while i < n {
            // The last `N` elements end with the row; those that were seen before change nothing.
            let from = i.min(n - N);
            if fetch {
                let ahead = stream::AHEAD / size_of::<D::T>();
                stream::prefetch_all::<D::T, N>(x.wrapping_add(ahead + from));
            }
            let here = D::T::index(from);
            for j in 0..N {
                let new = *x.add(from + j);
                let better = D::better(value[j], new);
                (value[j], at[j]) = if better {
                    (new, here)
                } else {
                    (value[j], at[j])
                };
            }
            i += N;
        }
    }
    let best = lanes::tree(value, D::Values::join);
    let mut places = [zero; N];
    for j in 0..N {
        let place = at[j] + D::T::index(j);
        let other = D::better(value[j], best);
        places[j] = if other { D::T::index(RUN) } else { place };
    }
    let first = lanes::tree(places, |a, b| if b < a { b } else { a });
    (best, D::T::wide_index(first))
}

/// [`extreme`] of any number of elements. Those that go on from elements whose extreme is `before`
/// have none that is better more often than not, and are looked through for its value first.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn extreme_of<A: Arch, D: Side, const N: usize>(
    p: &Params,
    x: *const D::T,
    n: usize,
    before: Option<D::T>,
) -> Option<(D::T, i64)> {
    // SAFETY: the caller's promise.
    unsafe {
        if before.is_none() && n >= N {
            return Some(extreme::<D, N>(p, x, n));
        }
        let value = D::Values::block::<A>(p, x, n, false);
        match before {
            Some(before) if !D::better(before, value) => None,
            _ => Some((value, find(x, n, value) as i64)),
        }
    }
}

impl<D: Side> ReduceOp for Arg<D> {
    type T = D::T;
    type S = At<D::T>;

    const MANY: bool = false;

    fn start() -> Self::S {
        At {
            value: D::T::LOW,
            index: -1,
        }
    }

    #[inline(always)]
    unsafe fn rows<A: Arch>(p: &Params, x: *const D::T, n: usize, base: i64, s: &mut Self::S) {
        let before = (s.index >= 0).then_some(s.value);
        // SAFETY: the caller's promise.
        let new = unsafe {
            match size_of::<D::T>() {
                _ if A::LEVEL == Level::Base => extreme_of::<A, D, 16>(p, x, n, before),
                4 => extreme_of::<A, D, 64>(p, x, n, before),
                _ => extreme_of::<A, D, 32>(p, x, n, before),
            }
        };
        if let Some((value, at)) = new {
            *s = At {
                value,
                index: base + at,
            };
        }
    }

    #[inline(always)]
    unsafe fn cols<A: Arch>(
        _: &Params,
        x: *const D::T,
        stride: isize,
        rows: usize,
        w: usize,
        base: i64,
        s: *mut Self::S,
    ) {
        let mut values = [const { MaybeUninit::<D::T>::uninit() }; WIDTH];
        let mut indices = [const { MaybeUninit::<<D::T as ArgElement>::Index>::uninit() }; WIDTH];
        let v = values.as_mut_ptr().cast::<D::T>();
        let at = indices.as_mut_ptr().cast::<<D::T as ArgElement>::Index>();
        // SAFETY: w is at most WIDTH, and the caller promises the elements and states.
        unsafe {
            for j in 0..w {
                *v.add(j) = *x.add(j);
                *at.add(j) = D::T::index(0);
            }
            let mut r = 1;
            while r + 2 <= rows {
                let x0 = x.offset(r as isize * stride);
                let x1 = x0.offset(stride);
                let (i0, i1) = (D::T::index(r), D::T::index(r + 1));
                for j in 0..w {
                    let (mut a, mut i) = (*v.add(j), *at.add(j));
                    let y = *x0.add(j);
                    let better = D::better(a, y);
                    a = if better { y } else { a };
                    i = if better { i0 } else { i };
                    let y = *x1.add(j);
                    let better = D::better(a, y);
                    *v.add(j) = if better { y } else { a };
                    *at.add(j) = if better { i1 } else { i };
                }
                r += 2;
            }
            if r < rows {
                let x0 = x.offset(r as isize * stride);
                let i0 = D::T::index(r);
                for j in 0..w {
                    let (a, y) = (*v.add(j), *x0.add(j));
                    let better = D::better(a, y);
                    *v.add(j) = if better { y } else { a };
                    *at.add(j) = if better { i0 } else { *at.add(j) };
                }
            }
            for j in 0..w {
                let new = At {
                    value: *v.add(j),
                    index: base + D::T::wide_index(*at.add(j)),
                };
                *s.add(j) = Self::merge(*s.add(j), new);
            }
        }
    }

    #[inline(always)]
    fn merge(a: Self::S, b: Self::S) -> Self::S {
        if b.index >= 0 && (a.index < 0 || D::better(a.value, b.value)) {
            b
        } else {
            a
        }
    }

    unsafe fn finish(_: &Params, s: &[Self::S], outs: &[Out]) {
        let positions = if let [values, positions] = outs {
            let mut wide = [D::T::LOW.wide(); WIDTH];
            for (chunk, k) in s.chunks(WIDTH).zip(0..) {
                for (w, s) in wide.iter_mut().zip(chunk) {
                    *w = s.value.wide();
                }
                let skip = (k * WIDTH) as isize * values.stride * values.dtype.size() as isize;
                // SAFETY: the caller's promise; the chunk's results start there.
                unsafe {
                    Plain::write(
                        &wide[..chunk.len()],
                        Out {
                            ptr: values.ptr.offset(skip),
                            ..*values
                        },
                        |v| v,
                    )
                };
            }
            positions
        } else {
            &outs[0]
        };
        // SAFETY: the caller's promise.
        unsafe { positions.int(s.len(), |i| s[i].index) }
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::simd::Base;
    #[cfg(target_arch = "aarch64")]
    use crate::simd::Neon as Wide;
    #[cfg(target_arch = "x86_64")]
    use crate::simd::{Avx2, Avx512 as Wide};

    /// Position of the extreme as the lanes of every level find it.
    fn at<D: Side>(x: &[D::T]) -> [i64; 3] {
        let p = Params::default();
        let mut s = [Arg::<D>::start(); 3];
        // SAFETY: as long as it says.
        unsafe {
            Arg::<D>::rows::<Base>(&p, x.as_ptr(), x.len(), 0, &mut s[0]);
            #[cfg(target_arch = "x86_64")]
            Arg::<D>::rows::<Avx2>(&p, x.as_ptr(), x.len(), 0, &mut s[1]);
            #[cfg(not(target_arch = "x86_64"))]
            Arg::<D>::rows::<Base>(&p, x.as_ptr(), x.len(), 0, &mut s[1]);
            Arg::<D>::rows::<Wide>(&p, x.as_ptr(), x.len(), 0, &mut s[2]);
        }
        s.map(|s| s.index)
    }

    #[torsh_macros::unit_test]
    fn the_first_of_equals_wherever_it_is() {
        for n in (1..150).chain([1000, 4096]) {
            for place in (0..n).step_by(1 + n / 40) {
                let numbers = |i: usize| {
                    if i >= place && i % 7 == place % 7 {
                        3
                    } else {
                        -2
                    }
                };
                let x: Vec<i64> = (0..n).map(numbers).collect();
                let want = [place as i64; 3];
                let single: Vec<f32> = x.iter().map(|&v| v as f32).collect();
                let double: Vec<f64> = x.iter().map(|&v| -v as f64).collect();
                assert_eq!(at::<TopI64>(&x), want, "{n}");
                assert_eq!(at::<TopF32>(&single), want, "{n}");
                assert_eq!(at::<BottomF64>(&double), want, "{n}");
                // A nan comes before any number.
                let mut single = single;
                single[n - 1] = f32::NAN;
                single[(place + n) / 2] = f32::NAN;
                let nan = single.iter().position(|v| v.is_nan()).expect("there");
                assert_eq!(at::<TopF32>(&single), [nan as i64; 3], "{n}");
                assert_eq!(at::<BottomF32>(&single), [nan as i64; 3], "{n}");
            }
            let low = vec![f32::NEG_INFINITY; n];
            assert_eq!(at::<TopF32>(&low), [0; 3], "{n}");
        }
    }
}
