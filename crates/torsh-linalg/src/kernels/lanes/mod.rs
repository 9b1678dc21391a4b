//! Small matrices side by side: each lane of a vector register holds an element of another matrix of the batch.
//!
//! A block of as many matrices as a register has lanes (16 in float32 with AVX-512) is interleaved into vectors, one for
//! each element of a matrix, decomposed by one sequence of vector instructions, and written back. No lane waits for
//! another: what differs between the matrices, such as the row of a pivot, is chosen with masks. A matrix that the
//! vectorised algorithm does not do well, because it holds nan or infinity, or numbers whose squares vanish, is reported,
//! and decomposed by itself.
//!
//! [`Lanes`] is the instruction set as the algorithms see it, [`widest`] compiles and calls them for the processor's.

mod batched;
mod cholesky;
mod exponential;
mod jacobi;
mod lu;
mod qr;
mod transpose;

use num_complex::Complex;
use num_traits::Float;
use pulp::bytemuck::{self, Pod};
use pulp::{NullaryFnOnce, Simd};

use super::field::{Field, Real};

pub(crate) use batched::Batched;
pub(crate) use lu::Sides;
use transpose::Square;

/// The most lanes that a register has.
pub(crate) const MOST: usize = 16;

/// Vectors of one number type in one instruction set.
pub(crate) trait Lanes: Copy {
    /// The number type.
    type T: Real + Pod;
    /// A register.
    type V: Pod;
    /// A register of complex numbers, of which it has half as many.
    type C: Pod;
    /// A lane's choice.
    type M: Copy;
    /// The lanes of a register.
    const N: usize;
    /// `v` in every lane.
    fn splat(self, v: Self::T) -> Self::V;
    /// `a + b`.
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a - b`.
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a b`.
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a / b`.
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a b + c`.
    fn plus(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `c - a b`.
    fn less(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// The root.
    fn sqrt(self, a: Self::V) -> Self::V;
    /// The magnitude.
    fn abs(self, a: Self::V) -> Self::V;
    /// The larger one.
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a < b`, and false for nan.
    fn lt(self, a: Self::V, b: Self::V) -> Self::M;
    /// `a == b`.
    fn eq(self, a: Self::V, b: Self::V) -> Self::M;
    /// `a` where chosen, else `b`.
    fn select(self, m: Self::M, a: Self::V, b: Self::V) -> Self::V;
    /// Whether a lane is chosen.
    fn any(self, m: Self::M) -> bool;
    /// The largest power of two that is at most a positive number.
    fn power_below(self, a: Self::V) -> Self::V;
    /// The transpose of the square of which the first `N` of these are the rows.
    fn transpose(self, rows: &mut [Self::V; MOST]);
    /// `v` in every place.
    fn splat_complex(self, v: Complex<Self::T>) -> Self::C;
    /// `a b + c`.
    fn plus_complex(self, a: Self::C, b: Self::C, c: Self::C) -> Self::C;
    /// `conj(a) b + c`.
    fn plus_conjugate(self, a: Self::C, b: Self::C, c: Self::C) -> Self::C;
}

/// The vectors of float32 in an instruction set.
#[derive(Clone, Copy)]
pub(crate) struct Single<S>(S);

/// The vectors of float64 in an instruction set.
#[derive(Clone, Copy)]
pub(crate) struct Double<S>(S);

macro_rules! lanes {
    ($name:ident, $t:ident, $u:ident, $m:ident, $lanes:ident, $exponent:literal) => {
        pulp_names! { $name, $t, $u, $m, $lanes, $exponent }
    };
}

macro_rules! pulp_names {
    (Single, $t:ident, $u:ident, $m:ident, $lanes:ident, $exponent:literal) => {
        implement! { Single, $t, $lanes, $exponent, f32s, m32s, u32s, splat_f32s, splat_u32s, add_f32s, sub_f32s,
        mul_f32s, div_f32s, mul_add_f32s, negate_mul_add_f32s, sqrt_f32s, abs_f32s, max_f32s, less_than_f32s,
        equal_f32s, select_f32s, first_true_m32s, and_u32s, single, c32s, splat_c32s, mul_add_c32s, conj_mul_add_c32s }
    };
    (Double, $t:ident, $u:ident, $m:ident, $lanes:ident, $exponent:literal) => {
        implement! { Double, $t, $lanes, $exponent, f64s, m64s, u64s, splat_f64s, splat_u64s, add_f64s, sub_f64s,
        mul_f64s, div_f64s, mul_add_f64s, negate_mul_add_f64s, sqrt_f64s, abs_f64s, max_f64s, less_than_f64s,
        equal_f64s, select_f64s, first_true_m64s, and_u64s, double, c64s, splat_c64s, mul_add_c64s, conj_mul_add_c64s }
    };
}

macro_rules! implement {
    ($name:ident, $t:ident, $lanes:ident, $exponent:literal, $v:ident, $m:ident, $u:ident, $splat:ident,
     $splat_u:ident, $add:ident, $sub:ident, $mul:ident, $div:ident, $fma:ident, $fnma:ident, $sqrt:ident, $abs:ident,
     $max:ident, $lt:ident, $eq:ident, $select:ident, $first:ident, $and:ident, $square:ident, $c:ident,
     $splat_c:ident, $plus_c:ident, $conjugate:ident) => {
        impl<S: Square> Lanes for $name<S> {
            type T = $t;
            type V = S::$v;
            type C = S::$c;
            type M = S::$m;
            const N: usize = <S as Simd>::$lanes;
            #[inline(always)]
            fn splat(self, v: $t) -> Self::V {
                self.0.$splat(v)
            }
            #[inline(always)]
            fn add(self, a: Self::V, b: Self::V) -> Self::V {
                self.0.$add(a, b)
            }
            #[inline(always)]
            fn sub(self, a: Self::V, b: Self::V) -> Self::V {
                self.0.$sub(a, b)
            }
            #[inline(always)]
            fn mul(self, a: Self::V, b: Self::V) -> Self::V {
                self.0.$mul(a, b)
            }
            #[inline(always)]
            fn div(self, a: Self::V, b: Self::V) -> Self::V {
                self.0.$div(a, b)
            }
            #[inline(always)]
            fn plus(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
                self.0.$fma(a, b, c)
            }
            #[inline(always)]
            fn less(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
                self.0.$fnma(a, b, c)
            }
            #[inline(always)]
            fn sqrt(self, a: Self::V) -> Self::V {
                self.0.$sqrt(a)
            }
            #[inline(always)]
            fn abs(self, a: Self::V) -> Self::V {
                self.0.$abs(a)
            }
            #[inline(always)]
            fn max(self, a: Self::V, b: Self::V) -> Self::V {
                self.0.$max(a, b)
            }
            #[inline(always)]
            fn lt(self, a: Self::V, b: Self::V) -> Self::M {
                self.0.$lt(a, b)
            }
            #[inline(always)]
            fn eq(self, a: Self::V, b: Self::V) -> Self::M {
                self.0.$eq(a, b)
            }
            #[inline(always)]
            fn select(self, m: Self::M, a: Self::V, b: Self::V) -> Self::V {
                self.0.$select(m, a, b)
            }
            #[inline(always)]
            fn any(self, m: Self::M) -> bool {
                self.0.$first(m) < Self::N
            }
            #[inline(always)]
            fn power_below(self, a: Self::V) -> Self::V {
                let bits: S::$u = bytemuck::cast(a);
                bytemuck::cast(self.0.$and(bits, self.0.$splat_u($exponent)))
            }
            #[inline(always)]
            fn transpose(self, rows: &mut [Self::V; MOST]) {
                self.0.$square(rows);
            }
            #[inline(always)]
            fn splat_complex(self, v: Complex<$t>) -> Self::C {
                self.0.$splat_c(v)
            }
            #[inline(always)]
            fn plus_complex(self, a: Self::C, b: Self::C, c: Self::C) -> Self::C {
                self.0.$plus_c(a, b, c)
            }
            #[inline(always)]
            fn plus_conjugate(self, a: Self::C, b: Self::C, c: Self::C) -> Self::C {
                self.0.$conjugate(a, b, c)
            }
        }
    };
}
lanes!(Single, f32, u32, m32, F32_LANES, 0x7f80_0000);
lanes!(Double, f64, u64, m64, F64_LANES, 0x7ff0_0000_0000_0000);

/// What is done to the vectors of some instruction set.
pub(crate) trait Work<T> {
    /// What it gives.
    type Output;
    /// Does it; to be inlined, so that it is compiled for the instruction set.
    fn run<L: Lanes<T = T>>(self, l: L) -> Self::Output;
}

struct Call<L, W>(L, W);

impl<L: Lanes, W: Work<L::T>> NullaryFnOnce for Call<L, W> {
    type Output = W::Output;
    #[inline(always)]
    fn call(self) -> W::Output {
        self.1.run(self.0)
    }
}

/// A real number type that the processor has vectors of.
pub(crate) trait Lane: Real + Pod {
    /// The lanes of the widest register that [`Lane::widest`] uses; 0 where the processor has none of them.
    fn lanes() -> usize;
    /// Does what is to be done with the processor's widest vectors; the work comes back where it has none.
    fn widest<W: Work<Self>>(w: W) -> Result<W::Output, W>;
}

macro_rules! lane {
    ($t:ident, $name:ident, $lanes:ident) => {
        impl Lane for $t {
            fn lanes() -> usize {
                struct Count;
                impl Work<$t> for Count {
                    type Output = usize;
                    #[inline(always)]
                    fn run<L: Lanes<T = $t>>(self, _: L) -> usize {
                        L::N
                    }
                }
                Self::widest(Count).unwrap_or(0)
            }
            #[cfg(target_arch = "x86_64")]
            fn widest<W: Work<$t>>(w: W) -> Result<W::Output, W> {
                use torsh_core::machine::{Level, machine};
                if machine().level >= Level::Avx512
                    && let Some(simd) = pulp::x86::V4::try_new()
                {
                    return Ok(simd.vectorize(Call($name(simd), w)));
                }
                if machine().level >= Level::Avx2
                    && let Some(simd) = pulp::x86::V3::try_new()
                {
                    return Ok(simd.vectorize(Call($name(simd), w)));
                }
                Err(w)
            }
            #[cfg(target_arch = "aarch64")]
            fn widest<W: Work<$t>>(w: W) -> Result<W::Output, W> {
                match pulp::aarch64::Neon::try_new() {
                    Some(simd) => Ok(simd.vectorize(Call($name(simd), w))),
                    None => Err(w),
                }
            }
            #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
            fn widest<W: Work<$t>>(w: W) -> Result<W::Output, W> {
                Err(w)
            }
        }
    };
}
lane!(f32, Single, F32_LANES);
lane!(f64, Double, F64_LANES);

/// A thread's memory for vectors, used again from block to block.
pub(crate) struct Scratch<T> {
    data: Vec<T>,
    /// Matrices one after the other.
    rows: Vec<T>,
}

impl<T> Scratch<T> {
    /// No memory.
    pub fn new() -> Scratch<T> {
        Scratch {
            data: Vec::new(),
            rows: Vec::new(),
        }
    }
}

impl<T: Real + Pod> Scratch<T> {
    /// `n` vectors, on cache lines of their own, with what was last written there.
    #[inline(always)]
    fn vectors<L: Lanes<T = T>>(&mut self, l: L, n: usize) -> &mut [L::V] {
        self.both(l, n).0
    }

    /// As [`Scratch::vectors`], and matrices one after the other.
    #[inline(always)]
    fn both<L: Lanes<T = T>>(&mut self, _: L, n: usize) -> (&mut [L::V], &mut Vec<T>) {
        let need = n * L::N + MOST;
        if self.data.len() < need {
            self.data.resize(need, <T as Field>::ZERO);
        }
        let off = self.data.as_ptr().align_offset(64).min(MOST);
        let vectors = bytemuck::cast_slice_mut(&mut self.data[off..][..n * L::N]);
        (vectors, &mut self.rows)
    }
}

/// Matrices that a block could not decompose, one bit each.
pub(crate) type Missed = u32;

/// The lanes of `m`, as bits.
#[inline(always)]
fn bits<L: Lanes>(l: L, m: L::M) -> Missed {
    if !l.any(m) {
        return 0;
    }
    let one = <L::T as Field>::ONE;
    let zero = <L::T as Field>::ZERO;
    let chosen = [l.select(m, l.splat(one), l.splat(zero))];
    let chosen: &[L::T] = bytemuck::cast_slice(&chosen);
    chosen
        .iter()
        .enumerate()
        .fold(0, |all, (i, v)| all | (Missed::from(*v == one) << i))
}

/// Interleaves `count` matrices of `size` elements; lanes beyond them repeat the last one. Returns which of them hold nan
/// or infinity.
#[inline(always)]
fn load<L: Lanes>(l: L, from: &[L::T], count: usize, size: usize, to: &mut [L::V]) -> Missed {
    let zero = l.splat(<L::T as Field>::ZERO);
    let mut odd = zero;
    let whole = size - size % L::N;
    let mut rows = [zero; MOST];
    for at in (0..whole).step_by(L::N) {
        for (lane, row) in rows[..L::N].iter_mut().enumerate() {
            let from = &from[lane.min(count - 1) * size + at..][..L::N];
            *row = bytemuck::pod_read_unaligned(bytemuck::cast_slice(from));
        }
        l.transpose(&mut rows);
        for (to, v) in to[at..][..L::N].iter_mut().zip(&rows) {
            // Only finite numbers give 0.
            odd = l.plus(*v, zero, odd);
            *to = *v;
        }
    }
    for at in whole..size {
        let v: &mut [L::T] = bytemuck::cast_slice_mut(&mut to[at..=at]);
        for (lane, v) in v.iter_mut().enumerate() {
            *v = from[lane.min(count - 1) * size + at];
        }
        odd = l.plus(to[at], zero, odd);
    }
    let odd: [L::V; 1] = [odd];
    let odd: &[L::T] = bytemuck::cast_slice(&odd);
    odd.iter().enumerate().fold(0, |all, (i, v)| {
        all | (Missed::from(Float::is_nan(*v)) << i)
    })
}

/// Writes vectors as `count` matrices of `size` elements.
#[inline(always)]
fn store<L: Lanes>(l: L, from: &[L::V], to: &mut [L::T], count: usize, size: usize) {
    let whole = size - size % L::N;
    let mut rows = [l.splat(<L::T as Field>::ZERO); MOST];
    for at in (0..whole).step_by(L::N) {
        rows[..L::N].copy_from_slice(&from[at..][..L::N]);
        l.transpose(&mut rows);
        for (lane, row) in rows[..L::N].iter().enumerate().take(count) {
            let row = [*row];
            to[lane * size + at..][..L::N].copy_from_slice(bytemuck::cast_slice(&row));
        }
    }
    for at in whole..size {
        let v: &[L::T] = bytemuck::cast_slice(&from[at..=at]);
        for (lane, v) in v.iter().enumerate().take(count) {
            to[lane * size + at] = *v;
        }
    }
}

/// `rows` of `cols` vectors times the others: `x[i] -= sum of a(j) x[j]` over `known`, where row `i` is not known.
#[inline(always)]
fn eliminate<L: Lanes>(
    l: L,
    x: &mut [L::V],
    cols: usize,
    i: usize,
    known: std::ops::Range<usize>,
    a: impl Fn(usize) -> L::V,
    scale: impl Fn(L::V) -> L::V,
) {
    const WIDE: usize = 8;
    let mut c = 0;
    while c + WIDE <= cols {
        let mut sum = [x[0]; WIDE];
        sum.copy_from_slice(&x[i * cols + c..][..WIDE]);
        for j in known.clone() {
            let by = a(j);
            for (s, v) in sum.iter_mut().zip(&x[j * cols + c..][..WIDE]) {
                *s = l.less(by, *v, *s);
            }
        }
        for (to, s) in x[i * cols + c..][..WIDE].iter_mut().zip(sum) {
            *to = scale(s);
        }
        c += WIDE;
    }
    for c in c..cols {
        let mut s = x[i * cols + c];
        for j in known.clone() {
            s = l.less(a(j), x[j * cols + c], s);
        }
        x[i * cols + c] = scale(s);
    }
}
