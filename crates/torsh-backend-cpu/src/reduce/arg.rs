//! Extremes with their positions: the first of equals, and the first NaN where there is one.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use super::drive::{Params, Tile, WIDTH};
use super::fold::{self, Lanes, Plain, fold_block};
use super::load::Out;
use crate::arch::Arch;

/// Value and position of one result; the position is -1 before the first element.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct At<T> {
    value: T,
    index: i64,
}

/// An element type with an order, and the integer of its size, so that values and positions fill
/// the same number of vectors.
pub(crate) trait Ordered: Copy + PartialOrd + 'static {
    type Index: Copy;
    type Wide: Plain;
    const LOW: Self;
    fn index(i: usize) -> Self::Index;
    fn wide_index(i: Self::Index) -> i64;
    fn wide(self) -> Self::Wide;
}
impl Ordered for f32 {
    type Index = i32;
    type Wide = f64;
    const LOW: f32 = 0.0;
    #[inline(always)]
    fn index(i: usize) -> i32 {
        i as i32
    }
    #[inline(always)]
    fn wide_index(i: i32) -> i64 {
        i as i64
    }
    #[inline(always)]
    fn wide(self) -> f64 {
        self as f64
    }
}
impl Ordered for f64 {
    type Index = i64;
    type Wide = f64;
    const LOW: f64 = 0.0;
    #[inline(always)]
    fn index(i: usize) -> i64 {
        i as i64
    }
    #[inline(always)]
    fn wide_index(i: i64) -> i64 {
        i
    }
    #[inline(always)]
    fn wide(self) -> f64 {
        self
    }
}
impl Ordered for i64 {
    type Index = i64;
    type Wide = i64;
    const LOW: i64 = 0;
    #[inline(always)]
    fn index(i: usize) -> i64 {
        i as i64
    }
    #[inline(always)]
    fn wide_index(i: i64) -> i64 {
        i
    }
    #[inline(always)]
    fn wide(self) -> i64 {
        self
    }
}

/// Which extreme: its fold over values, and whether `x` comes before `a`.
pub(crate) trait Side: 'static {
    type T: Ordered;
    type Values: Lanes<T = Self::T, L = Self::T>;
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
unsafe fn find<T: Ordered>(x: *const T, n: usize, value: T) -> usize {
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
unsafe fn first<T: Ordered>(x: *const T, n: usize, hit: impl Fn(T) -> bool) -> usize {
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

impl<D: Side> Tile for Arg<D> {
    type T = D::T;
    type S = At<D::T>;

    fn start() -> Self::S {
        At {
            value: D::T::LOW,
            index: -1,
        }
    }

    #[inline(always)]
    unsafe fn rows<A: Arch>(p: &Params, x: *const D::T, n: usize, base: i64, s: &mut Self::S) {
        // SAFETY: the caller's promise.
        let value = unsafe { fold_block::<A, D::Values>(p, x, n) };
        if s.index < 0 || D::better(s.value, value) {
            // SAFETY: the caller's promise.
            let at = unsafe { find(x, n, value) };
            *s = At {
                value,
                index: base + at as i64,
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
        let mut indices = [const { MaybeUninit::<<D::T as Ordered>::Index>::uninit() }; WIDTH];
        let v = values.as_mut_ptr().cast::<D::T>();
        let at = indices.as_mut_ptr().cast::<<D::T as Ordered>::Index>();
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
