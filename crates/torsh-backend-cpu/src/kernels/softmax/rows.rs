//! The four operations on a row, and on a tile of neighbouring rows.

use super::*;
pub(super) use crate::machine::tuning::softmax::BLOCK;

/// Lanes of a row's loops.
pub(super) const N: usize = 32;

/// float32 or float64, with what the loops need.
pub(super) trait SoftmaxNumber: ExpRows {
    fn ln(self) -> Self;
    /// e^x.
    fn power<A: Arch>(self) -> Self;
    /// e^x for x <= 0, times [`VMath::RAISED`].
    fn raised<A: Arch>(self) -> Self;
    /// Sums `e^(x - m)` of a row whose greatest element is `m`. Where it stores them too, the
    /// stored ones and the sum have a common factor.
    ///
    /// # Safety
    /// As [`sum_map`].
    #[inline(always)]
    unsafe fn exps<A: Arch, const STORE: bool>(
        x: *const Self,
        dst: *mut Self,
        n: usize,
        m: Self,
    ) -> Self {
        // SAFETY: the caller's promise.
        unsafe { exps_lanes::<A, Self, STORE>(x, dst, n, m) }
    }
    /// `dst *= factor`, asking for the row that follows meanwhile.
    ///
    /// # Safety
    /// `dst` must be valid for `n` elements.
    #[inline(always)]
    unsafe fn scale<A: Arch>(dst: *mut Self, n: usize, factor: Self) {
        // SAFETY: the caller's promise.
        unsafe { map_in_place(dst, n, |e| e * factor) }
    }
}
macro_rules! float {
    ($t:ident, $ln:path, $exp:path, $raised:path, $($wide:item)*) => {
        impl SoftmaxNumber for $t {
            #[inline(always)]
            fn ln(self) -> $t {
                $ln(self)
            }
            #[inline(always)]
            fn power<A: Arch>(self) -> $t {
                $exp(self)
            }
            #[inline(always)]
            fn raised<A: Arch>(self) -> $t {
                $raised(self)
            }
            $($wide)*
        }
    };
}
float! { f64, f64::ln, VMath::exp_low::<A>, VMath::exp_low::<A>, }
float! {
    f32,
    f32::ln,
    VMath::exp::<A>,
    VMath::exp_raised::<A>,
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn exps<A: Arch, const STORE: bool>(
        x: *const f32,
        dst: *mut f32,
        n: usize,
        m: f32,
    ) -> f32 {
        // SAFETY: the caller's promise; code of this level runs where the processor has it.
        unsafe {
            if A::LEVEL == crate::simd::Level::Avx512 {
                exp_sum_512::<STORE>(x, dst, n, m, stream::fetches_rows(n * 4).then_some(n))
            } else {
                exps_lanes::<A, f32, STORE>(x, dst, n, m)
            }
        }
    }
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn scale<A: Arch>(dst: *mut f32, n: usize, factor: f32) {
        // SAFETY: as above.
        unsafe {
            if A::LEVEL == crate::simd::Level::Avx512 {
                scale_512(dst, n, factor, stream::fetches_rows(n * 4).then_some(n))
            } else {
                map_in_place(dst, n, |e| e * factor)
            }
        }
    }
}

/// [`SoftmaxNumber::exps`] in lanes.
///
/// # Safety
/// As [`sum_map`].
#[inline(always)]
pub(super) unsafe fn exps_lanes<A: Arch, T: SoftmaxNumber, const STORE: bool>(
    x: *const T,
    dst: *mut T,
    n: usize,
    m: T,
) -> T {
    // SAFETY: the caller's promise.
    let sum = unsafe { sum_map::<T, STORE>(x, x, dst, n, |x, _| (x - m).raised::<A>()) };
    match STORE {
        true => sum,
        false => sum * (T::ONE / T::RAISED),
    }
}

/// Sums `f` of the elements of one or two rows, storing what `f` says to store, and asking for the
/// rows that are read next meanwhile.
///
/// # Safety
/// `x` and `y` must be valid for `n` reads, `dst`, if `STORE`, for `n` writes.
#[inline(always)]
pub(super) unsafe fn sum_map<T: SoftmaxNumber, const STORE: bool>(
    x: *const T,
    y: *const T,
    dst: *mut T,
    n: usize,
    f: impl Fn(T, T) -> T,
) -> T {
    let mut acc = [T::ZERO; N];
    let whole = n / N * N;
    let fetch = stream::fetches_rows(n * size_of::<T>());
    let mut i = 0;
    // SAFETY: the caller's promise; reads of a chunk come before its writes, so rows may coincide.
    unsafe {
        while i < whole {
            if fetch {
                let next = n + i;
                stream::prefetch_all::<T, N>(x.wrapping_add(next));
                if y != x {
                    stream::prefetch_all::<T, N>(y.wrapping_add(next));
                }
            }
            let mut e = [T::ZERO; N];
            for j in 0..N {
                e[j] = f(*x.add(i + j), *y.add(i + j));
            }
            for j in 0..N {
                acc[j] = acc[j] + e[j];
            }
            if STORE {
                dst.add(i).cast::<[T; N]>().write(e);
            }
            i += N;
        }
        if i < n {
            let mut e = [T::ZERO; N];
            for (j, e) in e.iter_mut().enumerate().take(n - i) {
                *e = f(*x.add(i + j), *y.add(i + j));
            }
            for j in 0..N {
                acc[j] = acc[j] + e[j];
            }
            if STORE {
                for (j, e) in e.iter().enumerate().take(n - i) {
                    *dst.add(i + j) = *e;
                }
            }
        }
    }
    lanes::tree(acc, |a, b| a + b)
}

/// Asks for `m` elements from `i` on of the row of `n` results that follows the one at `dst`. The last
/// pass over a row does so, since an earlier one asks for what is read next.
#[inline(always)]
pub(super) fn prefetch_results<T>(dst: *mut T, n: usize, i: usize, m: usize) {
    if stream::fetches_rows(n * size_of::<T>()) {
        stream::prefetch_write_row(dst.wrapping_add(n + i), m);
    }
}

/// `dst = f(x, y)` elementwise; `dst` may be `x` or `y`.
///
/// # Safety
/// All must be valid for `n` elements.
#[inline(always)]
pub(super) unsafe fn map<T: SoftmaxNumber>(
    x: *const T,
    y: *const T,
    dst: *mut T,
    n: usize,
    f: impl Fn(T, T) -> T,
) {
    let mut block = [const { MaybeUninit::<T>::uninit() }; BLOCK];
    let mut i = 0;
    // SAFETY: the caller's promise; reads of a block come before its writes.
    unsafe {
        while i < n {
            let m = BLOCK.min(n - i);
            prefetch_results(dst, n, i, m);
            for (j, b) in block[..m].iter_mut().enumerate() {
                b.write(f(*x.add(i + j), *y.add(i + j)));
            }
            std::ptr::copy_nonoverlapping(block.as_ptr().cast(), dst.add(i), m);
            i += m;
        }
    }
}

/// `dst = f(dst)` elementwise.
///
/// # Safety
/// `dst` must be valid for `n` elements.
#[inline(always)]
pub(super) unsafe fn map_in_place<T: SoftmaxNumber>(dst: *mut T, n: usize, f: impl Fn(T) -> T) {
    for i in (0..n).step_by(BLOCK) {
        let m = BLOCK.min(n - i);
        prefetch_results(dst, n, i, m);
        for j in i..i + m {
            // SAFETY: the caller's promise.
            unsafe { *dst.add(j) = f(*dst.add(j)) };
        }
    }
}

/// Rows of a tile: where they start and the stride from one to the next.
#[derive(Clone, Copy)]
pub(super) struct RowAddresses<T> {
    pub(super) ptr: T,
    pub(super) stride: isize,
}

impl<T> RowAddresses<*const T> {
    #[inline(always)]
    fn row(self, r: usize) -> *const T {
        self.ptr.wrapping_offset(r as isize * self.stride)
    }
}
impl<T> RowAddresses<*mut T> {
    #[inline(always)]
    fn row(self, r: usize) -> *mut T {
        self.ptr.wrapping_offset(r as isize * self.stride)
    }
}

/// One of the four operations: for a row, and for `w` columns of `n` rows.
pub(super) trait Op: 'static {
    type T: SoftmaxNumber;
    /// # Safety
    /// The rows must be valid for `n` elements; `dst` may be `x` or `y`.
    unsafe fn row<A: Arch>(x: *const Self::T, y: *const Self::T, dst: *mut Self::T, n: usize);
    /// # Safety
    /// `n` rows of `w` elements must be valid; `w` is at most [`WIDTH`]; `dst` may be `x` or `y`.
    unsafe fn tile<A: Arch>(
        of: [RowAddresses<*const Self::T>; 2],
        dst: RowAddresses<*mut Self::T>,
        size: [usize; 2],
    );
}

pub(super) struct Soft<T>(std::marker::PhantomData<T>);
pub(super) struct LogSoft<T, R = Exact>(std::marker::PhantomData<(T, R)>);
/// How the logarithm of a sum is rounded.
pub(super) trait Round<T>: 'static {
    fn log(sum: T) -> T;
}
pub(super) struct Exact;
impl<T: SoftmaxNumber> Round<T> for Exact {
    #[inline(always)]
    fn log(sum: T) -> T {
        sum.ln()
    }
}
/// Sum and logarithm are rounded to a half type, as PyTorch has them along the last dimension.
pub(super) struct Rounded<H>(std::marker::PhantomData<H>);
impl<H: Half> Round<f32> for Rounded<H> {
    #[inline(always)]
    fn log(sum: f32) -> f32 {
        H::nearest(H::nearest(sum).ln())
    }
}
pub(super) struct SoftBackward<T>(std::marker::PhantomData<T>);
pub(super) struct LogSoftBackward<T>(std::marker::PhantomData<T>);

/// The columns' maxima.
///
/// # Safety
/// As for [`Op::tile`]; `m` must have room for `w`.
#[inline(always)]
pub(super) unsafe fn tops<T: SoftmaxNumber>(
    x: RowAddresses<*const T>,
    n: usize,
    w: usize,
    m: *mut T,
) {
    // SAFETY: the caller's promise.
    unsafe {
        for j in 0..w {
            *m.add(j) = -T::INFINITY;
        }
        for r in 0..n {
            let x = x.row(r);
            for j in 0..w {
                *m.add(j) = fold::max(*m.add(j), *x.add(j));
            }
        }
    }
}

/// The sum of `f` of each column's elements, by row and column, into `s`.
///
/// # Safety
/// As for [`Op::tile`]; `s` must have room for `w`.
#[inline(always)]
unsafe fn column_sums<T: SoftmaxNumber>(
    [x, y]: [RowAddresses<*const T>; 2],
    [n, w]: [usize; 2],
    s: *mut T,
    f: impl Fn([usize; 2], T, T) -> T,
) {
    // SAFETY: the caller's promise.
    unsafe {
        for j in 0..w {
            *s.add(j) = T::ZERO;
        }
        for r in 0..n {
            let (x, y) = (x.row(r), y.row(r));
            for j in 0..w {
                *s.add(j) = *s.add(j) + f([r, j], *x.add(j), *y.add(j));
            }
        }
    }
}

/// `dst = f(x, y)` of each element, by column.
///
/// # Safety
/// As for [`Op::tile`].
#[inline(always)]
unsafe fn map_columns<T: SoftmaxNumber>(
    [x, y]: [RowAddresses<*const T>; 2],
    dst: RowAddresses<*mut T>,
    [n, w]: [usize; 2],
    f: impl Fn(usize, T, T) -> T,
) {
    for r in 0..n {
        let (x, y, d) = (x.row(r), y.row(r), dst.row(r));
        for j in 0..w {
            // SAFETY: the caller's promise.
            unsafe { *d.add(j) = f(j, *x.add(j), *y.add(j)) };
        }
    }
}

impl<T: SoftmaxNumber> Op for Soft<T> {
    type T = T;
    #[inline(always)]
    unsafe fn row<A: Arch>(x: *const T, _: *const T, dst: *mut T, n: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let m = T::top::<A>(x, n);
            let sum = T::exps::<A, true>(x, dst, n, m);
            T::scale::<A>(dst, n, T::ONE / sum);
        }
    }
    #[inline(always)]
    unsafe fn tile<A: Arch>(
        [x, _]: [RowAddresses<*const T>; 2],
        dst: RowAddresses<*mut T>,
        [n, w]: [usize; 2],
    ) {
        let mut buffers = [const { MaybeUninit::<[T; WIDTH]>::uninit() }; 2];
        let [m, s] = buffers.each_mut().map(|b| b.as_mut_ptr().cast::<T>());
        // SAFETY: the caller's promise.
        unsafe {
            tops(x, n, w, m);
            column_sums([x; 2], [n, w], s, |[r, j], x, _| {
                let e = (x - *m.add(j)).raised::<A>();
                *dst.row(r).add(j) = e;
                e
            });
            for j in 0..w {
                *s.add(j) = T::ONE / *s.add(j);
            }
            let e = RowAddresses {
                ptr: dst.ptr.cast_const(),
                stride: dst.stride,
            };
            map_columns([e; 2], dst, [n, w], |j, e, _| e * *s.add(j));
        }
    }
}

impl<T: SoftmaxNumber, R: Round<T>> Op for LogSoft<T, R> {
    type T = T;
    #[inline(always)]
    unsafe fn row<A: Arch>(x: *const T, _: *const T, dst: *mut T, n: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let m = T::top::<A>(x, n);
            let l = R::log(T::exps::<A, false>(x, dst, n, m));
            map(x, x, dst, n, |x, _| x - m - l);
        }
    }
    #[inline(always)]
    unsafe fn tile<A: Arch>(
        [x, _]: [RowAddresses<*const T>; 2],
        dst: RowAddresses<*mut T>,
        [n, w]: [usize; 2],
    ) {
        let mut buffers = [const { MaybeUninit::<[T; WIDTH]>::uninit() }; 2];
        let [m, s] = buffers.each_mut().map(|b| b.as_mut_ptr().cast::<T>());
        // SAFETY: the caller's promise.
        unsafe {
            tops(x, n, w, m);
            column_sums([x; 2], [n, w], s, |[_, j], x, _| {
                (x - *m.add(j)).raised::<A>()
            });
            for j in 0..w {
                *s.add(j) = R::log(*s.add(j) * (T::ONE / T::RAISED));
            }
            map_columns([x; 2], dst, [n, w], |j, x, _| x - *m.add(j) - *s.add(j));
        }
    }
}

impl<T: SoftmaxNumber> Op for SoftBackward<T> {
    type T = T;
    #[inline(always)]
    unsafe fn row<A: Arch>(g: *const T, y: *const T, dst: *mut T, n: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let s = sum_map::<T, false>(g, y, dst, n, |g, y| g * y);
            map(g, y, dst, n, |g, y| (g - s) * y);
        }
    }
    #[inline(always)]
    unsafe fn tile<A: Arch>(
        of: [RowAddresses<*const T>; 2],
        dst: RowAddresses<*mut T>,
        [n, w]: [usize; 2],
    ) {
        let mut buffer = MaybeUninit::<[T; WIDTH]>::uninit();
        let s = buffer.as_mut_ptr().cast::<T>();
        // SAFETY: the caller's promise.
        unsafe {
            column_sums(of, [n, w], s, |_, g, y| g * y);
            map_columns(of, dst, [n, w], |j, g, y| (g - *s.add(j)) * y);
        }
    }
}

impl<T: SoftmaxNumber> Op for LogSoftBackward<T> {
    type T = T;
    #[inline(always)]
    unsafe fn row<A: Arch>(g: *const T, y: *const T, dst: *mut T, n: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let s = sum_map::<T, false>(g, y, dst, n, |g, _| g);
            map(g, y, dst, n, |g, y| g - y.power::<A>() * s);
        }
    }
    #[inline(always)]
    unsafe fn tile<A: Arch>(
        [g, y]: [RowAddresses<*const T>; 2],
        dst: RowAddresses<*mut T>,
        [n, w]: [usize; 2],
    ) {
        let mut buffer = MaybeUninit::<[T; WIDTH]>::uninit();
        let s = buffer.as_mut_ptr().cast::<T>();
        // SAFETY: the caller's promise.
        unsafe {
            column_sums([g; 2], [n, w], s, |_, g, _| g);
            map_columns([g, y], dst, [n, w], |j, g, y| {
                g - y.power::<A>() * *s.add(j)
            });
        }
    }
}
