//! The loops that blocks are decomposed by: in vectors of real or complex numbers, and plain.

use num_complex::Complex;
use pulp::bytemuck::{self, Pod};
use torsh_backend_cpu::matmul::Factor;

use crate::kernels::field::{Field, Real};
use crate::kernels::lanes::{Lane, Lanes, MOST, Work};

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

/// The side of the squares in which plain loops transpose: a few cache lines of both matrices.
const TILE: usize = 16;

/// Sums of an inner product in plain loops.
const DOTS: usize = 8;

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
            let mut sums = [T::ZERO; DOTS];
            let (mut xs, mut cs) = (x.chunks_exact(DOTS), c.chunks_exact(DOTS));
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
        for top in (0..rows).step_by(TILE) {
            for left in (0..cols).step_by(TILE) {
                let part = (top..(top + TILE).min(rows), left..(left + TILE).min(cols));
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
struct Vectors<L>(L);

/// The vector that numbers start with.
#[inline(always)]
fn vector<L: Lanes>(x: &[L::T]) -> L::V {
    bytemuck::pod_read_unaligned(bytemuck::cast_slice(&x[..L::N]))
}

/// Writes a vector to the first numbers.
#[inline(always)]
fn write<L: Lanes>(v: L::V, to: &mut [L::T]) {
    to[..L::N].copy_from_slice(bytemuck::cast_slice(&[v]));
}

/// `W` vectors from `i` on, with multiples of lines subtracted.
#[inline(always)]
fn strip<L: Lanes, const W: usize>(
    l: L,
    c: &[L::T],
    (x, ld): (&[L::T], usize),
    u: &[L::T],
    i: usize,
) -> [L::V; W] {
    let mut sum = read_vectors::<L, W>(l, &c[i..]);
    for (p, &by) in u.iter().enumerate() {
        let by = l.splat(by);
        let line = &x[p * ld + i..][..W * L::N];
        for (w, sum) in sum.iter_mut().enumerate() {
            *sum = l.less(by, vector::<L>(&line[w * L::N..]), *sum);
        }
    }
    sum
}

/// The inner products of `W` lines with `c`.
#[inline(always)]
fn inner<L: Lanes, const W: usize>(l: L, out: &mut [L::T], (x, ld): (&[L::T], usize), c: &[L::T]) {
    let n = c.len();
    let mut lines = [&x[..0]; W];
    for (w, line) in lines.iter_mut().enumerate() {
        *line = &x[w * ld..][..n];
    }
    let zero = <L::T as Field>::ZERO;
    // Two sums a line, which do not wait for one another.
    let mut sums = [[l.splat(zero); 2]; W];
    let whole = n - n % L::N;
    let twice = whole - whole % (2 * L::N);
    for i in (0..twice).step_by(2 * L::N) {
        for half in 0..2 {
            let at = i + half * L::N;
            let v = vector::<L>(&c[at..]);
            for (w, sum) in sums.iter_mut().enumerate() {
                sum[half] = l.plus(vector::<L>(&lines[w][at..]), v, sum[half]);
            }
        }
    }
    if twice < whole {
        let v = vector::<L>(&c[twice..]);
        for (w, sum) in sums.iter_mut().enumerate() {
            sum[0] = l.plus(vector::<L>(&lines[w][twice..]), v, sum[0]);
        }
    }
    for (w, (out, sum)) in out.iter_mut().zip(sums).enumerate() {
        let both = [l.add(sum[0], sum[1])];
        let lanes: &[L::T] = bytemuck::cast_slice(&both);
        let rest = lines[w][whole..].iter().zip(&c[whole..]);
        let rest = rest.fold(zero, |sum, (x, c)| sum + *x * *c);
        *out = lanes.iter().fold(rest, |sum, v| sum + *v);
    }
}

/// Rotates `W` vectors of neighbouring lines from `at` on.
#[inline(always)]
fn rotate_vectors<L: Lanes, const W: usize>(
    l: L,
    z: &mut [L::T],
    (ld, at): (usize, usize),
    by: &[(L::T, L::T)],
) {
    // The upper line of a rotation is the lower one of the next, and stays in registers.
    let mut lower = read_vectors::<L, W>(l, &z[by.len() * ld + at..]);
    for (i, &(c, s)) in by.iter().enumerate().rev() {
        let (c, s) = (l.splat(c), l.splat(s));
        let upper = read_vectors::<L, W>(l, &z[i * ld + at..]);
        let mut done = upper;
        for w in 0..W {
            done[w] = l.plus(s, upper[w], l.mul(c, lower[w]));
            lower[w] = l.less(s, lower[w], l.mul(c, upper[w]));
        }
        z[(i + 1) * ld + at..][..W * L::N].copy_from_slice(bytemuck::cast_slice(&done));
    }
    z[at..][..W * L::N].copy_from_slice(bytemuck::cast_slice(&lower));
}

/// The first `W` vectors. No closure reads them: one that is not inlined would lack the instruction set.
#[inline(always)]
fn read_vectors<L: Lanes, const W: usize>(l: L, x: &[L::T]) -> [L::V; W] {
    let mut out = [l.splat(<L::T as Field>::ZERO); W];
    for (out, x) in out.iter_mut().zip(x[..W * L::N].chunks_exact(L::N)) {
        *out = vector::<L>(x);
    }
    out
}

impl<T: Real + Pod, L: Lanes<T = T>> Loops<T> for Vectors<L> {
    #[inline(always)]
    fn combine(self, c: &mut [T], x: &[T], ld: usize, u: &[T]) {
        let (l, n) = (self.0, c.len());
        if n < L::N {
            return Plain.combine(c, x, ld, u);
        }
        // The last vector overlaps the one before, so it is computed before that is written.
        let last = strip::<L, 1>(l, c, (x, ld), u, n - L::N);
        let mut i = 0;
        while i + 8 * L::N <= n {
            let sum = strip::<L, 8>(l, c, (x, ld), u, i);
            c[i..][..8 * L::N].copy_from_slice(bytemuck::cast_slice(&sum));
            i += 8 * L::N;
        }
        while i + 4 * L::N <= n {
            let sum = strip::<L, 4>(l, c, (x, ld), u, i);
            c[i..][..4 * L::N].copy_from_slice(bytemuck::cast_slice(&sum));
            i += 4 * L::N;
        }
        while i + L::N < n {
            let sum = strip::<L, 1>(l, c, (x, ld), u, i);
            write::<L>(sum[0], &mut c[i..]);
            i += L::N;
        }
        if i < n {
            write::<L>(last[0], &mut c[n - L::N..]);
        }
    }

    #[inline(always)]
    fn greatest(self, c: &[T]) -> usize {
        let (l, whole) = (self.0, c.len() - c.len() % L::N);
        if whole == 0 {
            return Plain.greatest(c);
        }
        let mut most = [l.abs(vector::<L>(c)); 2];
        for (i, at) in (0..whole).step_by(L::N).enumerate() {
            most[i % 2] = l.max(most[i % 2], l.abs(vector::<L>(&c[at..])));
        }
        let most = [l.max(most[0], most[1])];
        let lanes: &[T] = bytemuck::cast_slice(&most);
        let zero = <T as Field>::ZERO;
        let most = lanes.iter().fold(zero, |a, &v| if v > a { v } else { a });
        let rest = whole + Plain.greatest(&c[whole..]);
        if c.get(rest).is_some_and(|v| v.abs1() > most) {
            return rest;
        }
        let wanted = l.splat(most);
        let found = (0..whole)
            .step_by(L::N)
            .find(|&at| l.any(l.eq(l.abs(vector::<L>(&c[at..])), wanted)));
        let at = found.unwrap_or(0);
        // Nan is found nowhere; then any row will do.
        let lane = c[at..whole].iter().position(|v| v.abs1() == most);
        at + lane.unwrap_or(0)
    }

    #[inline(always)]
    fn scale(self, c: &mut [T], by: T) {
        let (l, v) = (self.0, self.0.splat(by));
        let mut vectors = c.chunks_exact_mut(L::N);
        for c in &mut vectors {
            write::<L>(l.mul(vector::<L>(c), v), c);
        }
        Plain.scale(vectors.into_remainder(), by);
    }

    #[inline(always)]
    fn dots(self, out: &mut [T], x: &[T], ld: usize, c: &[T]) {
        let mut lines = out.chunks_exact_mut(4);
        let mut at = 0;
        for out in &mut lines {
            inner::<L, 4>(self.0, out, (&x[at..], ld), c);
            at += 4 * ld;
        }
        for out in lines.into_remainder().chunks_exact_mut(1) {
            inner::<L, 1>(self.0, out, (&x[at..], ld), c);
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
        let whole = (rows - rows % L::N, cols - cols % L::N);
        let mut square = [self.0.splat(<T as Field>::ZERO); MOST];
        for top in (0..whole.0).step_by(L::N) {
            for left in (0..whole.1).step_by(L::N) {
                for (i, v) in square[..L::N].iter_mut().enumerate() {
                    *v = vector::<L>(&from[(top + i) * ld + left..]);
                }
                self.0.transpose(&mut square);
                for (j, v) in square[..L::N].iter().enumerate() {
                    write::<L>(*v, &mut to[(left + j) * to_ld + top..]);
                }
            }
        }
        transpose_part((from, ld), (0..whole.0, whole.1..cols), (to, to_ld));
        transpose_part((from, ld), (whole.0..rows, 0..cols), (to, to_ld));
    }

    #[inline(always)]
    fn rotate(self, z: &mut [T], ld: usize, width: usize, by: &[(T, T)]) {
        if !width.is_multiple_of(L::N) {
            return Plain.rotate(z, ld, width, by);
        }
        let mut at = 0;
        while at + 4 * L::N <= width {
            rotate_vectors::<L, 4>(self.0, z, (ld, at), by);
            at += 4 * L::N;
        }
        while at + 2 * L::N <= width {
            rotate_vectors::<L, 2>(self.0, z, (ld, at), by);
            at += 2 * L::N;
        }
        while at < width {
            rotate_vectors::<L, 1>(self.0, z, (ld, at), by);
            at += L::N;
        }
    }
}

/// Loops over vectors of complex numbers. What is done once for each column stays in plain loops.
#[derive(Clone, Copy)]
struct ComplexVectors<L>(L);

/// Vectors of complex numbers that are computed side by side.
const SIDE: usize = 4;

/// The complex numbers of a register.
#[inline(always)]
fn complex<L: Lanes>(x: &[Complex<L::T>]) -> L::C
where
    Complex<L::T>: Pod,
{
    bytemuck::pod_read_unaligned(bytemuck::cast_slice(&x[..L::N / 2]))
}

impl<T: Real + Pod, L: Lanes<T = T>> Loops<Complex<T>> for ComplexVectors<L>
where
    Complex<T>: Field<R = T> + Pod,
{
    #[inline(always)]
    fn combine(self, c: &mut [Complex<T>], x: &[Complex<T>], ld: usize, u: &[Complex<T>]) {
        let (l, each) = (self.0, L::N / 2);
        let whole = c.len() - c.len() % each;
        let mut at = 0;
        while at < whole {
            let width = (whole - at).min(SIDE * each) / each;
            let mut sum = [l.splat_complex(<Complex<T> as Field>::ZERO); SIDE];
            for (w, sum) in sum[..width].iter_mut().enumerate() {
                *sum = complex::<L>(&c[at + w * each..]);
            }
            for (p, &by) in u.iter().enumerate() {
                let by = l.splat_complex(-by);
                let line = &x[p * ld + at..][..width * each];
                for (w, sum) in sum[..width].iter_mut().enumerate() {
                    *sum = l.plus_complex(by, complex::<L>(&line[w * each..]), *sum);
                }
            }
            c[at..][..width * each].copy_from_slice(bytemuck::cast_slice(&sum[..width]));
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
        let zero = self.0.splat_complex(<Complex<T> as Field>::ZERO);
        let v = self.0.splat_complex(by);
        let mut vectors = c.chunks_exact_mut(L::N / 2);
        for c in &mut vectors {
            let scaled = self.0.plus_complex(v, complex::<L>(c), zero);
            c.copy_from_slice(bytemuck::cast_slice(&[scaled]));
        }
        Plain.scale(vectors.into_remainder(), by);
    }

    #[inline(always)]
    fn dots(self, out: &mut [Complex<T>], x: &[Complex<T>], ld: usize, c: &[Complex<T>]) {
        let (l, each) = (self.0, L::N / 2);
        let zero = <Complex<T> as Field>::ZERO;
        let whole = c.len() - c.len() % each;
        for (p, out) in out.iter_mut().enumerate() {
            let x = &x[p * ld..][..c.len()];
            // Several sums, which do not wait for one another.
            let mut sums = [l.splat_complex(zero); SIDE];
            for (i, at) in (0..whole).step_by(each).enumerate() {
                let sum = &mut sums[i % SIDE];
                *sum = l.plus_conjugate(complex::<L>(&x[at..]), complex::<L>(&c[at..]), *sum);
            }
            let parts: &[Complex<T>] = bytemuck::cast_slice(&sums);
            let rest = x[whole..].iter().zip(&c[whole..]);
            let rest: Complex<T> = rest.map(|(x, c)| Field::conj(*x) * *c).sum();
            *out = parts.iter().copied().sum::<Complex<T>>() + rest;
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

struct InVectors<W>(W);

impl<T: Lane, W: Looped<T>> Work<T> for InVectors<W> {
    type Output = W::Output;
    #[inline(always)]
    fn run<L: Lanes<T = T>>(self, l: L) -> W::Output {
        self.0.run(Vectors(l))
    }
}

struct InComplexVectors<W>(W);

impl<T: Lane, W: Looped<Complex<T>>> Work<T> for InComplexVectors<W>
where
    Complex<T>: Field<R = T> + Pod,
{
    type Output = W::Output;
    #[inline(always)]
    fn run<L: Lanes<T = T>>(self, l: L) -> W::Output {
        self.0.run(ComplexVectors(l))
    }
}

macro_rules! blocked {
    ($($t:ty),*) => {$(
        impl Blocked for $t {
            #[inline]
            fn looped<W: Looped<$t>>(w: W) -> W::Output {
                <$t as Lane>::widest(InVectors(w)).unwrap_or_else(|w| w.0.run(Plain))
            }
        }

        impl Blocked for Complex<$t> {
            #[inline]
            fn looped<W: Looped<Complex<$t>>>(w: W) -> W::Output {
                <$t as Lane>::widest(InComplexVectors(w)).unwrap_or_else(|w| w.0.run(Plain))
            }
        }
    )*};
}
blocked!(f32, f64);
