//! The loops that blocks are decomposed by: in vectors of real or complex numbers, and plain.

use num_complex::Complex;
use torsh_backend_cpu::matmul::Factor;
use torsh_backend_cpu::simd::{FloatVector, MOST_LANES, Simd, VectorWork, vectorized};

use crate::kernels::field::{Field, Real};
use crate::kernels::lanes::Lanes;
use crate::kernels::tuning::{COMPLEX_VECTORS, DOT_SUMS, TRANSPOSE_TILE};

/// The loops that blocks are decomposed by.
pub(crate) trait Loops<T: Field>: Copy {
    /// Subtracts multiples of lines from `c`: `c[i] -= u[0] x[i] + u[1] x[ld + i] + ..`.
    fn combine(self, c: &mut [T], x: &[T], ld: usize, u: &[T]);
    /// The first position of the number whose parts have the largest sum of magnitudes.
    fn greatest(self, c: &[T]) -> usize;
    /// Multiplies by a number.
    fn scale(self, c: &mut [T], by: T);
    /// The inner products of lines, conjugated, with `c`: `out[p] = conj(x[p ld]) c[0] + conj(x[p ld + 1]) c[1] + ..`.
    fn dots(self, out: &mut [T], x: &[T], ld: usize, c: &[T]);
    /// Writes the transpose of `rows` lines of `cols` numbers, which are `ld` apart, to lines that are `to_ld` apart.
    fn transpose(self, from: (&[T], usize), size: (usize, usize), to: (&mut [T], usize));
    /// Rotates neighbouring lines of `width` numbers, which are `ld` apart, the last two first: the lines `i` and `i + 1`
    /// become `c x - s y` and `s x + c y` for `by[i] = (c, s)`.
    fn rotate(self, z: &mut [T], ld: usize, width: usize, by: &[(T, T)]);
}

/// Plain loops.
#[derive(Clone, Copy)]
struct Plain;

/// Transposes some rows and columns, number by number.
#[inline(always)]
fn transpose_part<T: Copy>(
    (from, ld): (&[T], usize),
    (rows, cols): (std::ops::Range<usize>, std::ops::Range<usize>),
    (to, to_ld): (&mut [T], usize),
) {
    for j in cols {
        for i in rows.clone() {
            to[j * to_ld + i] = from[i * ld + j];
        }
    }
}

impl<T: Field> Loops<T> for Plain {
    #[inline(always)]
    fn combine(self, c: &mut [T], x: &[T], ld: usize, u: &[T]) {
        let n = c.len();
        let mut fours = u.chunks_exact(4);
        let mut at = 0;
        // Four lines at a time read and write `c` a quarter as often.
        for by in &mut fours {
            let lines: [&[T]; 4] = std::array::from_fn(|p| &x[at + p * ld..][..n]);
            for (i, c) in c.iter_mut().enumerate() {
                let first = by[0] * lines[0][i] + by[1] * lines[1][i];
                *c -= first + (by[2] * lines[2][i] + by[3] * lines[3][i]);
            }
            at += 4 * ld;
        }
        for (p, &by) in fours.remainder().iter().enumerate() {
            for (c, x) in c.iter_mut().zip(&x[at + p * ld..]) {
                *c -= by * *x;
            }
        }
    }

    #[inline(always)]
    fn greatest(self, c: &[T]) -> usize {
        let (mut at, mut most) = (0, -<T::R as Field>::ONE);
        for (i, v) in c.iter().enumerate() {
            let size = v.abs1();
            if size > most {
                (at, most) = (i, size);
            }
        }
        at
    }

    #[inline(always)]
    fn scale(self, c: &mut [T], by: T) {
        c.iter_mut().for_each(|v| *v *= by);
    }

    #[inline(always)]
    fn dots(self, out: &mut [T], x: &[T], ld: usize, c: &[T]) {
        for (p, out) in out.iter_mut().enumerate() {
            let x = &x[p * ld..][..c.len()];
            // Several sums, which do not wait for one another.
            let mut sums = [T::ZERO; DOT_SUMS];
            let (mut xs, mut cs) = (x.chunks_exact(DOT_SUMS), c.chunks_exact(DOT_SUMS));
            for (x, c) in (&mut xs).zip(&mut cs) {
                for (sum, (x, c)) in sums.iter_mut().zip(x.iter().zip(c)) {
                    *sum += Field::conj(*x) * *c;
                }
            }
            let rest = xs.remainder().iter().zip(cs.remainder());
            let rest: T = rest.map(|(x, c)| Field::conj(*x) * *c).sum();
            *out = sums.into_iter().sum::<T>() + rest;
        }
    }

    #[inline(always)]
    fn transpose(self, from: (&[T], usize), (rows, cols): (usize, usize), to: (&mut [T], usize)) {
        for top in (0..rows).step_by(TRANSPOSE_TILE) {
            for left in (0..cols).step_by(TRANSPOSE_TILE) {
                let part = (
                    top..(top + TRANSPOSE_TILE).min(rows),
                    left..(left + TRANSPOSE_TILE).min(cols),
                );
                transpose_part(from, part, (&mut *to.0, to.1));
            }
        }
    }

    #[inline(always)]
    fn rotate(self, z: &mut [T], ld: usize, width: usize, by: &[(T, T)]) {
        for (i, &(c, s)) in by.iter().enumerate().rev() {
            let (x, y) = z[i * ld..].split_at_mut(ld);
            for (x, y) in x[..width].iter_mut().zip(&mut y[..width]) {
                (*x, *y) = (c * *x - s * *y, s * *x + c * *y);
            }
        }
    }
}

/// Loops over vectors.
#[derive(Clone, Copy)]
struct Vectors<V>(Simd<V>);

/// Writes vectors side by side to the first numbers.
#[inline(always)]
fn write<V: Lanes, const W: usize>(l: Simd<V>, vectors: [V; W], to: &mut [V::T]) {
    for (v, to) in vectors
        .into_iter()
        .zip(to[..W * V::N].chunks_exact_mut(V::N))
    {
        l.store(v, to);
    }
}

/// `W` vectors from `i` on, with multiples of lines subtracted.
#[inline(always)]
fn strip<V: Lanes, const W: usize>(
    l: Simd<V>,
    c: &[V::T],
    (x, ld): (&[V::T], usize),
    u: &[V::T],
    i: usize,
) -> [V; W] {
    let mut sum = read::<V, W>(l, &c[i..]);
    for (p, &by) in u.iter().enumerate() {
        let by = l.splat(by);
        let line = &x[p * ld + i..][..W * V::N];
        for (w, sum) in sum.iter_mut().enumerate() {
            *sum = l.neg_mul_add(by, l.load(&line[w * V::N..]), *sum);
        }
    }
    sum
}

/// The inner products of `W` lines with `c`.
#[inline(always)]
fn inner<V: Lanes, const W: usize>(
    l: Simd<V>,
    out: &mut [V::T],
    (x, ld): (&[V::T], usize),
    c: &[V::T],
) {
    let n = c.len();
    let mut lines = [&x[..0]; W];
    for (w, line) in lines.iter_mut().enumerate() {
        *line = &x[w * ld..][..n];
    }
    let zero = <V::T as Field>::ZERO;
    // Two sums a line, which do not wait for one another.
    let mut sums = [[l.splat(zero); 2]; W];
    let whole = n - n % V::N;
    let twice = whole - whole % (2 * V::N);
    for i in (0..twice).step_by(2 * V::N) {
        for half in 0..2 {
            let at = i + half * V::N;
            let v = l.load(&c[at..]);
            for (w, sum) in sums.iter_mut().enumerate() {
                sum[half] = l.mul_add(l.load(&lines[w][at..]), v, sum[half]);
            }
        }
    }
    if twice < whole {
        let v = l.load(&c[twice..]);
        for (w, sum) in sums.iter_mut().enumerate() {
            sum[0] = l.mul_add(l.load(&lines[w][twice..]), v, sum[0]);
        }
    }
    for (w, (out, sum)) in out.iter_mut().zip(sums).enumerate() {
        let both = [l.add(sum[0], sum[1])];
        let lanes: &[V::T] = l.numbers(&both);
        let rest = lines[w][whole..].iter().zip(&c[whole..]);
        let rest = rest.fold(zero, |sum, (x, c)| sum + *x * *c);
        *out = lanes.iter().fold(rest, |sum, v| sum + *v);
    }
}

/// Rotates `W` vectors of neighbouring lines from `at` on.
#[inline(always)]
fn rotate_vectors<V: Lanes, const W: usize>(
    l: Simd<V>,
    z: &mut [V::T],
    (ld, at): (usize, usize),
    by: &[(V::T, V::T)],
) {
    // The upper line of a rotation is the lower one of the next, and stays in registers.
    let mut lower = read::<V, W>(l, &z[by.len() * ld + at..]);
    for (i, &(c, s)) in by.iter().enumerate().rev() {
        let (c, s) = (l.splat(c), l.splat(s));
        let upper = read::<V, W>(l, &z[i * ld + at..]);
        let mut done = upper;
        for w in 0..W {
            done[w] = l.mul_add(s, upper[w], l.mul(c, lower[w]));
            lower[w] = l.neg_mul_add(s, lower[w], l.mul(c, upper[w]));
        }
        write(l, done, &mut z[(i + 1) * ld + at..]);
    }
    write(l, lower, &mut z[at..]);
}

/// The first `W` vectors. No closure reads them: one that is not inlined would lack the instruction set.
#[inline(always)]
fn read<V: Lanes, const W: usize>(l: Simd<V>, x: &[V::T]) -> [V; W] {
    let mut out = [l.splat(<V::T as Field>::ZERO); W];
    for (out, x) in out.iter_mut().zip(x[..W * V::N].chunks_exact(V::N)) {
        *out = l.load(x);
    }
    out
}

impl<T: Real, V: Lanes<T = T>> Loops<T> for Vectors<V> {
    #[inline(always)]
    fn combine(self, c: &mut [T], x: &[T], ld: usize, u: &[T]) {
        let (l, n) = (self.0, c.len());
        if n < V::N {
            return Plain.combine(c, x, ld, u);
        }
        // The last vector overlaps the one before, so it is computed before that is written.
        let last = strip::<V, 1>(l, c, (x, ld), u, n - V::N);
        let mut i = 0;
        while i + 8 * V::N <= n {
            let sum = strip::<V, 8>(l, c, (x, ld), u, i);
            write(l, sum, &mut c[i..]);
            i += 8 * V::N;
        }
        while i + 4 * V::N <= n {
            let sum = strip::<V, 4>(l, c, (x, ld), u, i);
            write(l, sum, &mut c[i..]);
            i += 4 * V::N;
        }
        while i + V::N < n {
            let sum = strip::<V, 1>(l, c, (x, ld), u, i);
            write(l, sum, &mut c[i..]);
            i += V::N;
        }
        if i < n {
            write(l, last, &mut c[n - V::N..]);
        }
    }

    #[inline(always)]
    fn greatest(self, c: &[T]) -> usize {
        let (l, whole) = (self.0, c.len() - c.len() % V::N);
        if whole == 0 {
            return Plain.greatest(c);
        }
        let mut most = [l.abs(l.load(c)); 2];
        for (i, at) in (0..whole).step_by(V::N).enumerate() {
            most[i % 2] = l.max(most[i % 2], l.abs(l.load(&c[at..])));
        }
        let most = [l.max(most[0], most[1])];
        let lanes: &[T] = l.numbers(&most);
        let zero = <T as Field>::ZERO;
        let most = lanes.iter().fold(zero, |a, &v| if v > a { v } else { a });
        let rest = whole + Plain.greatest(&c[whole..]);
        if c.get(rest).is_some_and(|v| v.abs1() > most) {
            return rest;
        }
        let wanted = l.splat(most);
        let found = (0..whole)
            .step_by(V::N)
            .find(|&at| l.any(l.eq(l.abs(l.load(&c[at..])), wanted)));
        let at = found.unwrap_or(0);
        // Nan is found nowhere; then any row will do.
        let lane = c[at..whole].iter().position(|v| v.abs1() == most);
        at + lane.unwrap_or(0)
    }

    #[inline(always)]
    fn scale(self, c: &mut [T], by: T) {
        let (l, v) = (self.0, self.0.splat(by));
        let mut vectors = c.chunks_exact_mut(V::N);
        for c in &mut vectors {
            l.store(l.mul(l.load(c), v), c);
        }
        Plain.scale(vectors.into_remainder(), by);
    }

    #[inline(always)]
    fn dots(self, out: &mut [T], x: &[T], ld: usize, c: &[T]) {
        let mut lines = out.chunks_exact_mut(4);
        let mut at = 0;
        for out in &mut lines {
            inner::<V, 4>(self.0, out, (&x[at..], ld), c);
            at += 4 * ld;
        }
        for out in lines.into_remainder().chunks_exact_mut(1) {
            inner::<V, 1>(self.0, out, (&x[at..], ld), c);
            at += ld;
        }
    }

    #[inline(always)]
    fn transpose(
        self,
        (from, ld): (&[T], usize),
        (rows, cols): (usize, usize),
        (to, to_ld): (&mut [T], usize),
    ) {
        let whole = (rows - rows % V::N, cols - cols % V::N);
        let mut square = [self.0.splat(<T as Field>::ZERO); MOST_LANES];
        for top in (0..whole.0).step_by(V::N) {
            for left in (0..whole.1).step_by(V::N) {
                for (i, v) in square[..V::N].iter_mut().enumerate() {
                    *v = self.0.load(&from[(top + i) * ld + left..]);
                }
                self.0.transpose(&mut square);
                for (j, v) in square[..V::N].iter().enumerate() {
                    self.0.store(*v, &mut to[(left + j) * to_ld + top..]);
                }
            }
        }
        transpose_part((from, ld), (0..whole.0, whole.1..cols), (to, to_ld));
        transpose_part((from, ld), (whole.0..rows, 0..cols), (to, to_ld));
    }

    #[inline(always)]
    fn rotate(self, z: &mut [T], ld: usize, width: usize, by: &[(T, T)]) {
        if !width.is_multiple_of(V::N) {
            return Plain.rotate(z, ld, width, by);
        }
        let mut at = 0;
        while at + 4 * V::N <= width {
            rotate_vectors::<V, 4>(self.0, z, (ld, at), by);
            at += 4 * V::N;
        }
        while at + 2 * V::N <= width {
            rotate_vectors::<V, 2>(self.0, z, (ld, at), by);
            at += 2 * V::N;
        }
        while at < width {
            rotate_vectors::<V, 1>(self.0, z, (ld, at), by);
            at += V::N;
        }
    }
}

/// Loops over vectors of complex numbers. What is done once for each column stays in plain loops.
#[derive(Clone, Copy)]
struct ComplexVectors<V>(Simd<V>);

impl<T: Real, V: Lanes<T = T>> Loops<Complex<T>> for ComplexVectors<V>
where
    Complex<T>: Field<R = T>,
{
    #[inline(always)]
    fn combine(self, c: &mut [Complex<T>], x: &[Complex<T>], ld: usize, u: &[Complex<T>]) {
        let (l, each) = (self.0, V::N / 2);
        let whole = c.len() - c.len() % each;
        let mut at = 0;
        while at < whole {
            let width = (whole - at).min(COMPLEX_VECTORS * each) / each;
            let mut sum = [l.splat_complex(<Complex<T> as Field>::ZERO); COMPLEX_VECTORS];
            for (w, sum) in sum[..width].iter_mut().enumerate() {
                *sum = l.load_complex(&c[at + w * each..]);
            }
            for (p, &by) in u.iter().enumerate() {
                let by = l.splat_complex(-by);
                let line = &x[p * ld + at..][..width * each];
                for (w, sum) in sum[..width].iter_mut().enumerate() {
                    *sum = l.complex_mul_add(by, l.load_complex(&line[w * each..]), *sum);
                }
            }
            for (w, sum) in sum[..width].iter().enumerate() {
                l.store_complex(*sum, &mut c[at + w * each..]);
            }
            at += width * each;
        }
        for (i, c) in c.iter_mut().enumerate().skip(whole) {
            for (p, &by) in u.iter().enumerate() {
                *c -= by * x[p * ld + i];
            }
        }
    }

    #[inline(always)]
    fn greatest(self, c: &[Complex<T>]) -> usize {
        Plain.greatest(c)
    }

    #[inline(always)]
    fn scale(self, c: &mut [Complex<T>], by: Complex<T>) {
        let l = self.0;
        let zero = l.splat_complex(<Complex<T> as Field>::ZERO);
        let v = l.splat_complex(by);
        let mut vectors = c.chunks_exact_mut(V::N / 2);
        for c in &mut vectors {
            l.store_complex(l.complex_mul_add(v, l.load_complex(c), zero), c);
        }
        Plain.scale(vectors.into_remainder(), by);
    }

    #[inline(always)]
    fn dots(self, out: &mut [Complex<T>], x: &[Complex<T>], ld: usize, c: &[Complex<T>]) {
        let (l, each) = (self.0, V::N / 2);
        let zero = <Complex<T> as Field>::ZERO;
        let whole = c.len() - c.len() % each;
        for (p, out) in out.iter_mut().enumerate() {
            let x = &x[p * ld..][..c.len()];
            // Several sums, which do not wait for one another.
            let mut sums = [l.splat_complex(zero); COMPLEX_VECTORS];
            for (i, at) in (0..whole).step_by(each).enumerate() {
                let sum = &mut sums[i % COMPLEX_VECTORS];
                *sum = l.conj_mul_add(l.load_complex(&x[at..]), l.load_complex(&c[at..]), *sum);
            }
            let parts = l.numbers(&sums).chunks_exact(2);
            let parts = parts.map(|v| Complex::new(v[0], v[1]));
            let rest = x[whole..].iter().zip(&c[whole..]);
            let rest: Complex<T> = rest.map(|(x, c)| Field::conj(*x) * *c).sum();
            *out = parts.sum::<Complex<T>>() + rest;
        }
    }

    #[inline(always)]
    fn transpose(
        self,
        from: (&[Complex<T>], usize),
        size: (usize, usize),
        to: (&mut [Complex<T>], usize),
    ) {
        Plain.transpose(from, size, to);
    }

    #[inline(always)]
    fn rotate(
        self,
        z: &mut [Complex<T>],
        ld: usize,
        width: usize,
        by: &[(Complex<T>, Complex<T>)],
    ) {
        Plain.rotate(z, ld, width, by);
    }
}

/// Something that is done in loops.
pub(crate) trait Looped<T: Field> {
    /// What it gives.
    type Output;
    /// Does it; to be inlined, so that it is compiled for the instruction set.
    fn run<O: Loops<T>>(self, o: O) -> Self::Output;
}

/// A number type whose matrices are decomposed in blocks.
pub(crate) trait Blocked: Field + Factor {
    /// Does something in the best loops that there are.
    fn looped<W: Looped<Self>>(w: W) -> W::Output;
}

/// What is done in loops, over vectors of a real type.
struct InVectors<W>(W);

/// What is done in loops over complex numbers, over vectors of their parts.
struct InComplexVectors<W>(W);

macro_rules! blocked {
    ($($in:ident $loops:ident $t:ident: $number:ty;)*) => {$(
        impl<W: Looped<$number>> VectorWork<$t> for $in<W> {
            type Output = W::Output;
            #[inline(always)]
            fn run<V: FloatVector<T = $t>>(self, l: Simd<V>) -> W::Output {
                self.0.run($loops(l))
            }
            fn plain(self) -> W::Output {
                self.0.run(Plain)
            }
        }

        impl Blocked for $number {
            #[inline]
            fn looped<W: Looped<$number>>(w: W) -> W::Output {
                vectorized::<$t, _>($in(w))
            }
        }
    )*};
}
blocked! {
    InVectors Vectors f32: f32;
    InVectors Vectors f64: f64;
    InComplexVectors ComplexVectors f32: Complex<f32>;
    InComplexVectors ComplexVectors f64: Complex<f64>;
}
