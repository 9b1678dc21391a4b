//! Vectors for safe code: a value that exists only where the processor has the instruction set.
//!
//! ```
//! use torsh_backend_cpu::simd::{FloatVector, Simd, VectorWork, vectorized};
//!
//! /// The squares of numbers, in place.
//! struct Squares<'a>(&'a mut [f32]);
//!
//! impl VectorWork<f32> for Squares<'_> {
//!     type Output = ();
//!     #[inline(always)]
//!     fn run<V: FloatVector<T = f32>>(self, simd: Simd<V>) {
//!         let mut vectors = self.0.chunks_exact_mut(V::N);
//!         for x in &mut vectors {
//!             let v = simd.load(x);
//!             simd.store(simd.mul(v, v), x);
//!         }
//!         Squares(vectors.into_remainder()).plain();
//!     }
//!     fn plain(self) {
//!         self.0.iter_mut().for_each(|x| *x *= *x);
//!     }
//! }
//!
//! let mut x: Vec<f32> = (0..20).map(|i| i as f32).collect();
//! vectorized(Squares(&mut x));
//! assert_eq!(x[19], 361.0);
//! ```

use std::marker::PhantomData;

use num_complex::Complex;

use super::{FloatVector, Level, Vectors, level};
use crate::multiversion;
use crate::scalar::Real;

/// The operations of the vectors `V`, on a processor that has them.
///
/// Code that uses it must be `#[inline(always)]` up to [`VectorWork::run`], so that it is compiled for the instruction
/// set. Elsewhere its results are the same, but each operation is a call.
#[derive(Clone, Copy, Debug)]
pub struct Simd<V>(PhantomData<V>);

/// What is done with the processor's widest vectors of `T`, or number by number where it has none.
pub trait VectorWork<T> {
    /// The result.
    type Output;
    /// Does the work with vectors. It must be `#[inline(always)]`.
    fn run<V: FloatVector<T = T>>(self, simd: Simd<V>) -> Self::Output;
    /// Does the work where the processor has no vectors, or `TORSH_SIMD=scalar` turns them off.
    fn plain(self) -> Self::Output;
}

/// Does the work with the processor's widest vectors.
#[inline]
pub fn vectorized<T: Vectors, W: VectorWork<T>>(work: W) -> W::Output {
    match level() {
        Level::Base => work.plain(),
        _ => widest::<T, W>(work),
    }
}

/// How many numbers the widest vectors have that [`vectorized`] uses; 1 where it uses none.
///
/// ```
/// assert!([1, 4, 8, 16].contains(&torsh_backend_cpu::simd::lanes_of::<f32>()));
/// ```
pub fn lanes_of<T: Vectors>() -> usize {
    match level() {
        Level::Base => 1,
        level => level.vector_bytes() / size_of::<T>(),
    }
}

multiversion! {
    fn widest<A, T: Vectors, W: VectorWork<T>>(work: W) -> W::Output {
        match A::LEVEL {
            Level::Base => work.plain(),
            // The version for a level runs only where the processor has it.
            _ => work.run(Simd::<T::V<A>>(PhantomData)),
        }
    }
}

/// The number of rows that [`Simd::transpose`] takes: no vector is longer.
pub const MOST_LANES: usize = 16;

macro_rules! methods {
    ($($(#[$doc:meta])* $name:ident($($x:ident),*) -> $out:ty = $call:expr;)*) => { $(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name(self, $($x: V),*) -> $out {
            // SAFETY: a `Simd` exists only where the processor has the instructions of its vectors.
            unsafe { $call }
        }
    )* };
}

impl<V: FloatVector> Simd<V> {
    methods! {
        /// `a + b`
        add(a, b) -> V = a.add(b);
        /// `a - b`
        sub(a, b) -> V = a.sub(b);
        /// `a * b`
        mul(a, b) -> V = a.mul(b);
        /// `a / b`
        div(a, b) -> V = a.div(b);
        /// `a * b + c`, fused.
        mul_add(a, b, c) -> V = c.add_product(a, b);
        /// `c - a * b`, fused.
        neg_mul_add(a, b, c) -> V = c.sub_product(a, b);
        /// `a * b + c` of complex numbers, whose real parts are in even lanes and imaginary parts behind them.
        complex_mul_add(a, b, c) -> V = c.add_complex_product(a, b);
        /// `conj(a) * b + c` of complex numbers.
        conj_mul_add(a, b, c) -> V = c.add_conjugate_product(a, b);
        /// The square root.
        sqrt(a) -> V = a.sqrt();
        /// The magnitude.
        abs(a) -> V = a.abs();
        /// The larger of each two; `b`'s where they are equal or one is NaN.
        max(a, b) -> V = a.max(b);
        /// The largest power of two that is at most a positive normal number.
        power_below(a) -> V = a.power_below();
        /// `a < b`, which is false where one is NaN.
        lt(a, b) -> V::Mask = a.lt(b);
        /// `a == b`, which is false where one is NaN.
        eq(a, b) -> V::Mask = a.eq(b);
    }

    /// `value` in every lane.
    #[inline(always)]
    pub fn splat(self, value: V::T) -> V {
        // SAFETY: the processor has the instructions; here and below.
        unsafe { V::splat(value) }
    }

    /// `re` in every even lane, `im` in every odd one.
    #[inline(always)]
    pub fn splat_complex(self, value: Complex<V::T>) -> V {
        // SAFETY: as above.
        unsafe { V::splat(value.re).interleave(V::splat(value.im))[0] }
    }

    /// `a` where `mask` is true, else `b`.
    #[inline(always)]
    pub fn select(self, mask: V::Mask, a: V, b: V) -> V {
        // SAFETY: as above.
        unsafe { V::select(mask, a, b) }
    }

    /// Whether `mask` is true for a lane.
    #[inline(always)]
    pub fn any(self, mask: V::Mask) -> bool {
        // SAFETY: as above.
        unsafe { V::any(mask) }
    }

    /// The first numbers of `from`, which has at least `V::N`.
    #[inline(always)]
    pub fn load(self, from: &[V::T]) -> V {
        let from = &from[..V::N];
        // SAFETY: as above, and so many numbers are there.
        unsafe { V::load(from.as_ptr()) }
    }

    /// Writes to the first numbers of `to`, which has at least `V::N`.
    #[inline(always)]
    pub fn store(self, v: V, to: &mut [V::T]) {
        let to = &mut to[..V::N];
        // SAFETY: as above, and there is room for so many.
        unsafe { v.store(to.as_mut_ptr()) }
    }

    /// The first complex numbers of `from`, which has at least `V::N / 2`.
    #[inline(always)]
    pub fn load_complex(self, from: &[Complex<V::T>]) -> V {
        let from = &from[..V::N / 2];
        // SAFETY: as above; a complex number is its two parts.
        unsafe { V::load(from.as_ptr().cast()) }
    }

    /// Writes to the first complex numbers of `to`, which has at least `V::N / 2`.
    #[inline(always)]
    pub fn store_complex(self, v: V, to: &mut [Complex<V::T>]) {
        let to = &mut to[..V::N / 2];
        // SAFETY: as above; a complex number is its two parts.
        unsafe { v.store(to.as_mut_ptr().cast()) }
    }

    /// Transposes the square of the first `V::N` vectors.
    #[inline(always)]
    pub fn transpose(self, rows: &mut [V; MOST_LANES]) {
        // SAFETY: as above; the first rows are an array of them.
        unsafe {
            let all = rows.as_mut_ptr();
            match V::N {
                2 => *all.cast::<[V; 2]>() = V::transpose(*all.cast::<[V; 2]>()),
                4 => *all.cast::<[V; 4]>() = V::transpose(*all.cast::<[V; 4]>()),
                8 => *all.cast::<[V; 8]>() = V::transpose(*all.cast::<[V; 8]>()),
                _ => *rows = V::transpose(*rows),
            }
        }
    }

    /// The numbers of vectors: those of the first one, then those of the next.
    #[inline(always)]
    pub fn numbers(self, vectors: &[V]) -> &[V::T] {
        // SAFETY: the crate's vectors, which alone have a `Simd`, are their elements.
        unsafe { std::slice::from_raw_parts(vectors.as_ptr().cast(), vectors.len() * V::N) }
    }

    /// As [`numbers`](Self::numbers), to write to.
    #[inline(always)]
    pub fn numbers_mut(self, vectors: &mut [V]) -> &mut [V::T] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(vectors.as_mut_ptr().cast(), vectors.len() * V::N) }
    }

    /// `n` vectors in the numbers of `room`, which become as many as are needed: on cache lines of their own, with what
    /// was last written there.
    #[inline(always)]
    pub fn vectors(self, room: &mut Vec<V::T>, n: usize) -> &mut [V] {
        let need = n * V::N + MOST_LANES;
        if room.len() < need {
            room.resize(need, V::T::ZERO);
        }
        let at = room.as_ptr().align_offset(64).min(MOST_LANES);
        let room = &mut room[at..][..n * V::N];
        assert!(room.as_ptr().cast::<V>().is_aligned());
        // SAFETY: as above; the memory is aligned, has room for so many, and any number may be in a lane.
        unsafe { std::slice::from_raw_parts_mut(room.as_mut_ptr().cast(), n) }
    }
}
