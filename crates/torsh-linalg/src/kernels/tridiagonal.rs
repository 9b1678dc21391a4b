//! Eigenvalues and eigenvectors of a symmetric tridiagonal matrix by the QL algorithm without square roots of Pal, Walker and
//! Kahan, as `sterf` (B. Parlett, "The Symmetric Eigenvalue Problem", 1980, section 8.15).
//!
//! A step of a sweep has the squares of a rotation's sine and cosine, and no root or division waits for another one. Where
//! eigenvectors are wanted, the roots are taken after the sweep, many at a time, and the rotations are applied to whole
//! vectors. The scalars are float64 throughout, so that the eigenvalues of a float32 matrix keep all the digits that its
//! reduction left.

use std::sync::{Mutex, PoisonError};

use torsh_core::pool;

use super::blocked::{Blocked, Looped, Loops};
use super::field::{Field, Real};
use crate::kernels::tuning::tridiagonal::{COLLECTED, ROTATIONS_THREAD, STRIP};

/// Sweeps that an eigenvalue may take; two are usual.
const SWEEPS: usize = 60;

/// The squared cosine below which it counts as 0: its inverse would overflow.
const LEAST: f64 = 1e-290;

/// Which numbers beside the diagonal count as zero: relative to their neighbours on the diagonal, and to the largest number
/// of the matrix.
#[derive(Clone, Copy)]
pub(crate) struct Precision {
    relative: f64,
    absolute: f64,
}

impl Precision {
    /// For eigenvalues in a type of this precision.
    pub fn new(eps: f64) -> Precision {
        Precision {
            relative: eps,
            absolute: 0.1 * eps,
        }
    }

    /// For eigenvalues whose roots are wanted in float32: small ones keep their digits.
    pub fn of_squares() -> Precision {
        Precision {
            relative: 1e-7,
            absolute: 0.1 * f64::EPSILON,
        }
    }

    /// Which changes of a matrix count as zero, relative to its largest number, where it is divided and conquered.
    pub fn deflated(self) -> f64 {
        80.0 * self.absolute
    }
}

/// As [`Precision`], of the squares of the numbers beside the diagonal of a matrix.
#[derive(Clone, Copy)]
struct Negligible {
    /// Relative to the neighbours on the diagonal.
    relative: f64,
    /// In any case.
    absolute: f64,
}

impl Negligible {
    fn new(d: &[f64], e: &[f64], precision: Precision) -> Negligible {
        let Precision { relative, absolute } = precision;
        let largest = d
            .iter()
            .chain(e)
            .fold(0.0, |most: f64, v| most.max(v.abs()));
        let absolute = absolute * largest;
        Negligible {
            relative: relative * relative,
            absolute: absolute * absolute,
        }
    }

    /// The first row from `from` on at which the matrix splits; `end` where it does not.
    #[inline(always)]
    fn split(self, d: &[f64], squares: &[f64], from: usize, end: usize) -> usize {
        let mut at = from;
        while at < end {
            let square = squares[at];
            if square <= self.relative * (d[at] * d[at + 1]).abs() || square <= self.absolute {
                break;
            }
            at += 1;
        }
        at
    }
}

/// The shift of a sweep: the eigenvalue of the first two rows that is nearer to the first number.
#[inline(always)]
fn shift(first: f64, second: f64, square: f64) -> f64 {
    let beside = square.sqrt();
    let g = (second - first) / (2.0 * beside);
    let r = g.hypot(1.0);
    first - beside / (g + r.copysign(g))
}

/// What is done with the sweeps.
trait Sweeps {
    /// Rows of a part of the matrix change places: the first one with the last one, and so on.
    fn reverse(&mut self, from: usize, to: usize);
    /// The rotation of the rows `i` and `i + 1`: the squares of its cosine and sine, and whether the cosine is negative.
    fn rotation(&mut self, i: usize, cosine: f64, sine: f64, negative: bool);
    /// A sweep over the rows from `l` to `m` has ended; `negative` is the sign of what is now beside the diagonal at `l`.
    fn swept(&mut self, l: usize, m: usize, negative: bool);
}

/// For eigenvalues alone.
struct Nothing;

impl Sweeps for Nothing {
    #[inline(always)]
    fn reverse(&mut self, _: usize, _: usize) {}
    #[inline(always)]
    fn rotation(&mut self, _: usize, _: f64, _: f64, _: bool) {}
    #[inline(always)]
    fn swept(&mut self, _: usize, _: usize, _: bool) {}
}

/// Makes `d` the eigenvalues. `e` are the squares of what is beside the diagonal. Whether it converges.
fn iterate(d: &mut [f64], e: &mut [f64], no: Negligible, on: &mut impl Sweeps) -> bool {
    let n = d.len();
    let mut left = SWEEPS * n;
    let mut start = 0;
    while start < n {
        let end = no.split(d, e, start, n - 1);
        if end + 1 < n {
            e[end] = 0.0;
        }
        // It converges best from small numbers to large ones.
        if d[end].abs() < d[start].abs() {
            d[start..=end].reverse();
            e[start..end].reverse();
            on.reverse(start, end);
        }
        let mut l = start;
        while l <= end {
            let m = no.split(d, e, l, end);
            if m < end {
                e[m] = 0.0;
            }
            if m == l {
                l += 1;
                continue;
            }
            if left == 0 {
                return false;
            }
            left -= 1;
            let sigma = shift(d[l], d[l + 1], e[l]);
            let (mut c, mut s) = (1.0, 0.0);
            // Of the cosine before, and of the number that the next one is made of.
            let (mut negative, mut next) = (false, d[m] < sigma);
            let mut gamma = d[m] - sigma;
            let mut p = gamma * gamma;
            for i in (l..m).rev() {
                let square = e[i];
                let r = p + square;
                if i + 1 != m {
                    e[i + 1] = s * r;
                }
                let before = c;
                // No division waits for another one. All numbers are 0 where the rest of the matrix is.
                let inverse;
                (c, s, inverse) = match r > 0.0 {
                    true => (p / r, square / r, r / p),
                    false => (1.0, 0.0, 1.0),
                };
                on.rotation(i, c, s, next);
                let known = gamma;
                let alpha = d[i];
                gamma = c * (alpha - sigma) - s * known;
                d[i + 1] = known + (alpha - gamma);
                (p, next, negative) = match c > LEAST {
                    true => (gamma * gamma * inverse, (gamma < 0.0) != next, next),
                    false => (before * square, !negative, next),
                };
            }
            e[l] = s * p;
            d[l] = sigma + gamma;
            on.swept(l, m, next);
        }
        start = end + 1;
    }
    true
}

/// The eigenvalues in place of the diagonal `d`, in no order, to a precision; `false` where the iteration does not
/// converge. `e` is what is beside the diagonal.
pub(crate) fn values(d: &mut [f64], e: &mut [f64], precision: Precision) -> bool {
    let no = Negligible::new(d, e, precision);
    e.iter_mut().for_each(|v| *v *= *v);
    iterate(d, e, no, &mut Nothing)
}

/// Eigenvectors in the making.
struct Vectors<T> {
    /// Columns of the vectors: those of each thread lie by themselves, so that no two threads write to one cache line.
    columns: Vec<Mutex<Columns<T>>>,
    /// The squares of the cosines of a sweep, with the cosines' signs, and those of the sines.
    cosines: Vec<f64>,
    sines: Vec<f64>,
    /// The rotations of the sweeps that were not applied yet.
    rotations: Vec<(T, T)>,
    /// The first rows of these sweeps, and their lengths.
    sweeps: Vec<(usize, usize)>,
    /// The row whose number beside the diagonal is negative.
    negative: Option<usize>,
}

/// Some columns of a matrix.
struct Columns<T> {
    first: usize,
    width: usize,
    z: Vec<T>,
}

impl<T: Blocked + Real> Vectors<T> {
    /// The rows of the identity, with these signs.
    fn new(signs: &[T], ld: usize) -> Vectors<T> {
        let n = signs.len();
        let parts = pool::chunk_count(n * n * ld, ROTATIONS_THREAD).max(1);
        let width = ld.div_ceil(parts).next_multiple_of(STRIP);
        let columns = (0..ld).step_by(width).map(|first| {
            let width = width.min(ld - first);
            let mut z = vec![<T as Field>::ZERO; n * width];
            for (i, sign) in signs.iter().enumerate().skip(first).take(width) {
                z[i * width + i - first] = *sign;
            }
            Mutex::new(Columns { first, width, z })
        });
        Vectors {
            columns: columns.collect(),
            cosines: vec![0.0; n],
            sines: vec![0.0; n],
            rotations: Vec::with_capacity(COLLECTED + n),
            sweeps: Vec::new(),
            negative: None,
        }
    }

    /// Applies the rotations that were collected.
    fn apply(&mut self) {
        let (sweeps, rotations) = (&self.sweeps[..], &self.rotations[..]);
        let columns = &self.columns[..];
        pool::parallel_parts(columns.len(), columns.len(), &|_, range| {
            for columns in &columns[range] {
                let mut columns = columns.lock().unwrap_or_else(PoisonError::into_inner);
                T::looped(Rotate {
                    ld: columns.width,
                    z: &mut columns.z,
                    sweeps,
                    rotations,
                });
            }
        });
        self.sweeps.clear();
        self.rotations.clear();
    }

    /// Writes the vectors to rows that are `ld` apart.
    fn write(self, z: &mut [T], ld: usize) {
        for columns in self.columns {
            let columns = columns.into_inner().unwrap_or_else(PoisonError::into_inner);
            let from = columns.z.chunks_exact(columns.width);
            for (to, from) in z.chunks_exact_mut(ld).zip(from) {
                to[columns.first..][..columns.width].copy_from_slice(from);
            }
        }
    }
}

impl<T: Blocked + Real> Sweeps for Vectors<T> {
    fn reverse(&mut self, from: usize, to: usize) {
        self.apply();
        for columns in &mut self.columns {
            let Columns { width, z, .. } =
                columns.get_mut().unwrap_or_else(PoisonError::into_inner);
            for i in 0..(to - from).div_ceil(2) {
                let (head, tail) = z.split_at_mut((to - i) * *width);
                head[(from + i) * *width..][..*width].swap_with_slice(&mut tail[..*width]);
            }
        }
    }

    #[inline(always)]
    fn rotation(&mut self, i: usize, cosine: f64, sine: f64, negative: bool) {
        // No branch: signs come in no order.
        let sign = u64::from(negative) << 63;
        self.cosines[i] = f64::from_bits(cosine.to_bits() | sign);
        self.sines[i] = sine;
    }

    fn swept(&mut self, l: usize, m: usize, negative: bool) {
        let first = self.rotations.len();
        let zero = <T as Field>::ZERO;
        self.rotations.resize(first + m - l, (zero, zero));
        T::looped(Roots {
            cosines: &self.cosines[l..m],
            sines: &self.sines[l..m],
            to: &mut self.rotations[first..],
        });
        // All numbers beside the diagonal are taken as positive but the one that the last sweep left.
        if self.negative == Some(l) {
            self.rotations[first].1 = -self.rotations[first].1;
        }
        // The next cosine would have had the sign of the next sine, too.
        let negative = negative != (self.negative == Some(l));
        self.negative = negative.then_some(l);
        self.sweeps.push((l, m - l));
        if self.rotations.len() >= COLLECTED {
            self.apply();
        }
    }
}

/// The rotations of a sweep.
struct Roots<'a, T> {
    cosines: &'a [f64],
    sines: &'a [f64],
    to: &'a mut [(T, T)],
}

impl<T: Real> Looped<T> for Roots<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<O: Loops<T>>(self, _: O) {
        for ((c, s), to) in self.cosines.iter().zip(self.sines).zip(self.to) {
            *to = (T::of_f64(c.abs().sqrt().copysign(*c)), T::of_f64(s.sqrt()));
        }
    }
}

/// Sweeps of rotations of neighbouring rows.
struct Rotate<'a, T> {
    z: &'a mut [T],
    ld: usize,
    sweeps: &'a [(usize, usize)],
    rotations: &'a [(T, T)],
}

impl<T: Real> Looped<T> for Rotate<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<O: Loops<T>>(self, o: O) {
        for at in (0..self.ld).step_by(STRIP) {
            let width = STRIP.min(self.ld - at);
            let mut done = 0;
            for &(first, length) in self.sweeps {
                let by = &self.rotations[done..done + length];
                o.rotate(&mut self.z[first * self.ld + at..], self.ld, width, by);
                done += length;
            }
        }
    }
}

/// As [`values`], and writes the eigenvectors to the rows of `z`, which are `ld` apart: row `i` belongs to `d[i]`.
pub(crate) fn vectors<T: Blocked + Real>(
    d: &mut [f64],
    e: &mut [f64],
    z: &mut [T],
    ld: usize,
    precision: Precision,
) -> bool {
    let n = d.len();
    let no = Negligible::new(d, e, precision);
    // Vectors of either sign, so that what is beside the diagonal is positive.
    let mut signs = vec![<T as Field>::ONE; n];
    for i in 1..n {
        signs[i] = match e[i - 1] < 0.0 {
            true => -signs[i - 1],
            false => signs[i - 1],
        };
    }
    e.iter_mut().for_each(|v| *v *= *v);
    let mut on = Vectors::new(&signs, ld);
    let done = iterate(d, e, no, &mut on);
    on.apply();
    on.write(z, ld);
    done
}
