//! Eigenvalues and eigenvectors of a symmetric tridiagonal matrix by divide and conquer (J. Cuppen, "A divide and conquer
//! method for the symmetric tridiagonal eigenproblem", 1981), as `stedc`.
//!
//! The matrix is torn in two at numbers beside the diagonal until its parts are small. The QL algorithm solves those. Two
//! solved parts are a diagonal matrix plus a multiple of `z z^T`: its eigenvalues are the roots of a rational function, found
//! by R.-C. Li's "middle way" ("Solving secular equations stably and efficiently", 1993). The eigenvectors are those of the
//! nearest matrix that has the computed roots as its exact eigenvalues (M. Gu and S. Eisenstat, "A stable and efficient
//! algorithm for the rank-one modification of the symmetric eigenproblem", 1994), so that they are orthogonal. Most of the
//! work is then the product of these vectors and those of the parts.
//!
//! The scalars are float64 throughout. Roots are found side by side, one to each lane of a vector.

use std::sync::{Mutex, PoisonError};

use torsh_backend_cpu::matmul::Strided;
use torsh_core::pool;

use super::blocked::{Blocked, Looped, Loops, in_chunks, write_product};
use super::field::{Field, Real};
use super::tridiagonal::{self, Precision};
use crate::kernels::tuning::tridiagonal::{PART, ROOTS, ROOTS_THREAD};

/// Steps that a root may take; four are usual.
const STEPS: usize = 64;

/// The eigenvalues in place of the diagonal `d`, in no order, and the eigenvectors as rows of `z`, which are `ld` apart: row
/// `i` belongs to `d[i]`. `e` is what is beside the diagonal, and `z` is zeros. Whether the iteration converged.
pub(crate) fn vectors<T: Blocked + Real>(
    d: &mut [f64],
    e: &mut [f64],
    z: &mut [T],
    ld: usize,
    precision: Precision,
) -> bool {
    let n = d.len();
    if n == 0 {
        return true;
    }
    // As many parts as a power of 2, of sizes that differ by one at most.
    let depth = n.div_ceil(PART).next_power_of_two().ilog2();
    let bounds = |depth: u32| {
        let parts = 1usize << depth;
        (0..=parts).map(|i| i * n / parts).collect::<Vec<_>>()
    };
    for &at in &bounds(depth)[1..1 << depth] {
        d[at - 1] -= e[at - 1].abs();
        d[at] -= e[at - 1].abs();
    }
    let done = Mutex::new(true);
    let failed = || *done.lock().unwrap_or_else(PoisonError::into_inner) = false;
    each(d, z, ld, &bounds(depth), |part, from, to| {
        let mut beside = e[from..to - 1].to_vec();
        let (rows, own) = (to - from, line(to - from));
        let mut vectors = vec![<T as Field>::ZERO; rows * own];
        if !tridiagonal::vectors(part.d, &mut beside, &mut vectors, own, precision) {
            failed();
        }
        for (to, from) in part.z.chunks_exact_mut(ld).zip(vectors.chunks_exact(own)) {
            to[part.first..][..rows].copy_from_slice(&from[..rows]);
        }
    });
    if !done.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return false;
    }
    for depth in (0..depth).rev() {
        let torn = bounds(depth + 1);
        let halves = |from: usize| torn[torn.partition_point(|b| *b <= from)];
        each(d, z, ld, &bounds(depth), |part, from, _| {
            let middle = halves(from);
            merge(part, middle - from, e[middle - 1], precision);
        });
    }
    true
}

/// Numbers to a line of vectors: whole registers.
pub(crate) fn line(n: usize) -> usize {
    n.next_multiple_of(16)
}

/// Some rows of the matrix: their part of its diagonal, and of the vectors.
struct Part<'a, T> {
    d: &'a mut [f64],
    /// Rows that are `ld` apart, and zero but from column `first` on.
    z: &'a mut [T],
    ld: usize,
    first: usize,
}

/// Calls `f` for each part with its bounds: where there are enough parts for all threads, a thread to a part.
fn each<T: Blocked>(
    d: &mut [f64],
    z: &mut [T],
    ld: usize,
    bounds: &[usize],
    f: impl Fn(Part<'_, T>, usize, usize) + Sync,
) {
    let (mut d, mut z) = (d, z);
    let mut parts = Vec::with_capacity(bounds.len());
    for ends in bounds.windows(2) {
        let rows = ends[1] - ends[0];
        let (head, rest) = d.split_at_mut(rows);
        let (lines, others) = z.split_at_mut(rows * ld);
        let part = Part {
            d: head,
            z: lines,
            ld,
            first: ends[0],
        };
        parts.push(Mutex::new(Some((part, ends[0], ends[1]))));
        (d, z) = (rest, others);
    }
    let run = |part: &Mutex<Option<(Part<'_, T>, usize, usize)>>| {
        let part = part.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((part, from, to)) = part {
            f(part, from, to);
        }
    };
    if parts.len() < pool::num_threads() {
        return parts.iter().for_each(run);
    }
    pool::parallel_for(parts.len(), 1, &|range| parts[range].iter().for_each(run));
}

/// What a diagonal matrix plus `rho z z^T` is made of, without what is deflated.
struct Secular {
    /// Ascending.
    d: Vec<f64>,
    /// The squares of the components of `z`.
    squares: Vec<f64>,
    rho: f64,
}

/// Eigenvalues: `near[i] + by[i]`, where `near[i]` is the number on the diagonal that is nearest to it.
struct Roots {
    near: Vec<f64>,
    by: Vec<f64>,
}

/// Which of the two parts' columns a vector is not zero in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Upper,
    Both,
    Lower,
}

/// Makes two solved parts, which are torn before row `middle`, one.
fn merge<T: Blocked + Real>(part: Part<'_, T>, middle: usize, beside: f64, precision: Precision) {
    let Part { d, z, ld, first } = part;
    let n = d.len();
    let row = |i: usize| i * ld + first..i * ld + first + n;
    let mut update: Vec<f64> = (0..n)
        .map(|i| match i < middle {
            true => z[row(i)][middle - 1].wide(),
            false => z[row(i)][middle].wide(),
        })
        .collect();
    if beside < 0.0 {
        update[middle..].iter_mut().for_each(|v| *v = -*v);
    }
    let rho = beside.abs();
    let mut kinds = vec![Kind::Upper; n];
    kinds[middle..].fill(Kind::Lower);
    let kept = deflate(
        d,
        &mut update,
        &mut kinds,
        rho,
        precision,
        |upper, lower, (c, s)| {
            for k in 0..n {
                let (x, y) = (z[row(upper)][k], z[row(lower)][k]);
                z[row(upper)][k] = T::of_f64(c) * x + T::of_f64(s) * y;
                z[row(lower)][k] = T::of_f64(c) * y - T::of_f64(s) * x;
            }
        },
    );
    if kept.is_empty() {
        return;
    }
    let secular = Secular {
        d: kept.iter().map(|&i| d[i]).collect(),
        squares: kept.iter().map(|&i| update[i] * update[i]).collect(),
        rho,
    };
    let roots = secular.roots();
    let lengths = secular.components(&roots);
    // Vectors of the upper part first, then those of both, then those of the lower one: two products, of whole blocks.
    let mut places: Vec<usize> = (0..kept.len()).collect();
    places.sort_by_key(|&p| kinds[kept[p]] as u8);
    let count = |kind: Kind| kept.iter().filter(|&&i| kinds[i] == kind).count();
    let (upper, both) = (count(Kind::Upper), count(Kind::Both));
    let k = kept.len();
    let mut known = vec![<T as Field>::ZERO; k * n];
    for (line, &p) in known.chunks_exact_mut(n).zip(&places) {
        line.copy_from_slice(&z[row(kept[p])]);
    }
    let poles: Vec<f64> = places.iter().map(|&p| secular.d[p]).collect();
    let signed: Vec<f64> = places
        .iter()
        .map(|&p| lengths[p].copysign(update[kept[p]]))
        .collect();
    let mut by = vec![<T as Field>::ZERO; k * k];
    shared(&mut by, k, k / ROOTS * k, |from, lines| {
        f64::looped(Combinations {
            poles: &poles,
            signed: &signed,
            near: &roots.near[from..],
            add: &roots.by[from..],
            to: lines,
        });
    });
    let mut out = vec![<T as Field>::ZERO; k * n];
    let halves = [(0..upper + both, 0..middle), (upper..k, middle..n)];
    for (lines, columns) in halves {
        if lines.is_empty() {
            continue;
        }
        write_product(
            (k, columns.len(), lines.len()),
            (
                Strided::rows(&by[lines.start..], k),
                Strided::rows(&known[lines.start * n + columns.start..], n),
            ),
            (&mut out[columns.start..], n),
        );
    }
    for (p, &i) in kept.iter().enumerate() {
        d[i] = roots.near[p] + roots.by[p];
        z[row(i)].copy_from_slice(&out[p * n..][..n]);
    }
}

/// The rows that take part in the update, ascending in `d`: the others are eigenvectors as they are, because their component
/// of `z` is negligible, or has been made so by a rotation with a row of nearly the same value. As `laed2`.
fn deflate(
    d: &mut [f64],
    z: &mut [f64],
    kinds: &mut [Kind],
    rho: f64,
    precision: Precision,
    mut rotate: impl FnMut(usize, usize, (f64, f64)),
) -> Vec<usize> {
    let largest = |v: &[f64]| v.iter().fold(0.0, |most: f64, v| most.max(v.abs()));
    let negligible = precision.deflated() * largest(d).max(largest(z));
    let mut order: Vec<usize> = (0..d.len()).collect();
    order.sort_unstable_by(|&i, &j| d[i].total_cmp(&d[j]));
    let mut kept: Vec<usize> = Vec::with_capacity(d.len());
    for next in order {
        if rho * z[next].abs() <= negligible {
            continue;
        }
        let Some(&last) = kept.last() else {
            kept.push(next);
            continue;
        };
        let length = z[last].hypot(z[next]);
        let (c, s) = (z[next] / length, -z[last] / length);
        if ((d[next] - d[last]) * c * s).abs() > negligible {
            kept.push(next);
            continue;
        }
        (z[last], z[next]) = (0.0, length);
        rotate(last, next, (c, s));
        let (low, high) = (d[last], d[next]);
        d[last] = low * c * c + high * s * s;
        d[next] = low * s * s + high * c * c;
        if kinds[last] != kinds[next] {
            kinds[next] = Kind::Both;
        }
        kept.pop();
        kept.push(next);
    }
    kept
}

/// Calls `f` with parts of whole lines of `width` numbers of `to` and the line that each begins with, on several threads where
/// `work` is worth them.
fn shared<T: Send>(to: &mut [T], width: usize, work: usize, f: impl Fn(usize, &mut [T]) + Sync) {
    let lines = (to.len() / width).div_ceil(ROOTS);
    let parts = pool::chunk_count(work, ROOTS_THREAD).clamp(1, lines.max(1));
    if parts < 2 {
        return f(0, to);
    }
    let each = lines.div_ceil(parts) * ROOTS * width;
    in_chunks(to, each, |from, part| f(from / width, part));
}

impl Secular {
    /// All roots of `1 / rho + sum z_j^2 / (d_j - x)`: one above each `d_j`.
    fn roots(&self) -> Roots {
        let k = self.d.len();
        let mut found = vec![(0.0, 0.0); k];
        shared(&mut found, 1, k / ROOTS * k, |from, to| {
            f64::looped(Find {
                secular: self,
                from,
                to,
            });
        });
        let (near, by) = found.into_iter().unzip();
        Roots { near, by }
    }

    /// The magnitudes of the components of the `z` for which the roots are exact, up to a common factor.
    fn components(&self, roots: &Roots) -> Vec<f64> {
        let k = self.d.len();
        let mut out = vec![0.0; k];
        shared(&mut out, 1, k / ROOTS * k, |from, to| {
            f64::looped(Components {
                d: &self.d,
                roots,
                from,
                to,
            });
        });
        out
    }
}

/// Numbers that are computed side by side.
type Side = [f64; ROOTS];

/// The function's sum below the roots and the one above them, and their derivatives.
struct Sums {
    below: Side,
    below_slope: Side,
    above: Side,
    above_slope: Side,
}

/// The sum of `z_j^2 / (d_j - x)`, and its derivative.
#[inline(always)]
fn sum(d: &[f64], squares: &[f64], near: &Side, by: &Side) -> (Side, Side) {
    let (mut value, mut slope) = ([0.0; ROOTS], [0.0; ROOTS]);
    for (d, square) in d.iter().zip(squares) {
        for l in 0..ROOTS {
            let inverse = 1.0 / ((d - near[l]) - by[l]);
            let term = square * inverse;
            value[l] += term;
            slope[l] += term * inverse;
        }
    }
    (value, slope)
}

/// Finds roots.
struct Find<'a> {
    secular: &'a Secular,
    /// The first of them.
    from: usize,
    to: &'a mut [(f64, f64)],
}

impl Find<'_> {
    /// The sums for the roots from `first` on.
    #[inline(always)]
    fn sums(&self, first: usize, near: &Side, by: &Side) -> Sums {
        let Secular { d, squares, .. } = self.secular;
        let end = (first + ROOTS).min(d.len());
        let (mut below, mut below_slope) = sum(&d[..first], &squares[..first], near, by);
        let (mut above, mut above_slope) = sum(&d[end..], &squares[end..], near, by);
        for j in first..end {
            for l in 0..ROOTS {
                let inverse = 1.0 / ((d[j] - near[l]) - by[l]);
                let term = squares[j] * inverse;
                let slope = term * inverse;
                match j <= first + l {
                    true => {
                        below[l] += term;
                        below_slope[l] += slope;
                    }
                    false => {
                        above[l] += term;
                        above_slope[l] += slope;
                    }
                }
            }
        }
        Sums {
            below,
            below_slope,
            above,
            above_slope,
        }
    }

    /// The roots from `first` on, one to each lane; lanes beyond the last root repeat it.
    #[inline(always)]
    fn group(&self, first: usize) -> (Side, Side) {
        let Secular { d, squares, rho } = self.secular;
        let k = d.len();
        let constant = 1.0 / rho;
        // The poles beside each root; the last root has none above it, and lies below this number.
        let most = d[k - 1] + rho * squares.iter().sum::<f64>();
        let (mut low, mut high) = ([0.0; ROOTS], [0.0; ROOTS]);
        for l in 0..ROOTS {
            let i = (first + l).min(k - 1);
            low[l] = d[i];
            high[l] = if i + 1 < k { d[i + 1] } else { most };
        }
        // From the middle on: a root is told by its distance from the nearer pole.
        let mut near = low;
        let (mut by, mut least, mut greatest) = ([0.0; ROOTS], [0.0; ROOTS], [0.0; ROOTS]);
        for l in 0..ROOTS {
            by[l] = 0.5 * (high[l] - low[l]);
        }
        let mut sums = self.sums(first, &near, &by);
        for l in 0..ROOTS {
            let half = by[l];
            let value = constant + sums.below[l] + sums.above[l];
            let last = first + l + 1 >= k;
            (near[l], by[l], least[l], greatest[l]) = match (value >= 0.0, last) {
                (true, _) => (low[l], half, 0.0, half),
                (false, true) => (low[l], half, half, 2.0 * half),
                (false, false) => (high[l], -half, -half, 0.0),
            };
        }
        let mut done = [false; ROOTS];
        for _ in 0..STEPS {
            let mut all = true;
            for l in 0..ROOTS {
                let (to_low, to_high) = ((low[l] - near[l]) - by[l], (high[l] - near[l]) - by[l]);
                let slope = sums.below_slope[l] + sums.above_slope[l];
                let size = constant + sums.below[l].abs() + sums.above[l].abs();
                let value = constant + sums.below[l] + sums.above[l];
                done[l] |= value.abs() <= 4.0 * f64::EPSILON * size;
                greatest[l] = if value > 0.0 { by[l] } else { greatest[l] };
                least[l] = if value < 0.0 { by[l] } else { least[l] };
                // A constant and two poles, with the function's value and the slopes of both sums.
                let c = value - to_low * sums.below_slope[l] - to_high * sums.above_slope[l];
                let a = (to_low + to_high) * value - to_low * to_high * slope;
                let b = to_low * to_high * value;
                let root = (a * a - 4.0 * b * c).max(0.0).sqrt();
                let step = match a <= 0.0 {
                    true => (a - root) / (2.0 * c),
                    false => 2.0 * b / (a + root),
                };
                let step = match value * step < 0.0 {
                    true => step,
                    false => -value / slope,
                };
                let next = by[l] + step;
                let next = match least[l] < next && next < greatest[l] {
                    true => next,
                    false => 0.5 * (least[l] + greatest[l]),
                };
                // A step of no size would be the last one as well.
                let ends = (next - by[l]).abs() <= f64::EPSILON * by[l].abs();
                by[l] = if done[l] { by[l] } else { next };
                done[l] |= ends;
                all &= done[l];
            }
            if all {
                break;
            }
            sums = self.sums(first, &near, &by);
        }
        (near, by)
    }
}

impl Looped<f64> for Find<'_> {
    type Output = ();

    #[inline(always)]
    fn run<O: Loops<f64>>(mut self, _: O) {
        let to = std::mem::take(&mut self.to);
        for (g, to) in to.chunks_mut(ROOTS).enumerate() {
            let (near, by) = self.group(self.from + g * ROOTS);
            for (l, to) in to.iter_mut().enumerate() {
                *to = (near[l], by[l]);
            }
        }
    }
}

/// Finds the components of `z` for which the roots are exact.
struct Components<'a> {
    d: &'a [f64],
    roots: &'a Roots,
    from: usize,
    to: &'a mut [f64],
}

impl Looped<f64> for Components<'_> {
    type Output = ();

    #[inline(always)]
    fn run<O: Loops<f64>>(self, _: O) {
        let Components { d, roots, from, to } = self;
        let k = d.len();
        for (g, to) in to.chunks_mut(ROOTS).enumerate() {
            let first = from + g * ROOTS;
            let mut own = [0.0; ROOTS];
            for (l, own) in own.iter_mut().enumerate() {
                *own = d[(first + l).min(k - 1)];
            }
            let mut product = [1.0; ROOTS];
            for j in 0..k {
                let inside = first <= j && j < first + ROOTS;
                for l in 0..ROOTS {
                    let apart = d[j] - own[l];
                    // The root of a pole itself has no other pole to be divided by.
                    let apart = if inside && first + l == j { 1.0 } else { apart };
                    product[l] *= ((roots.near[j] - own[l]) + roots.by[j]) / apart;
                }
            }
            for (l, to) in to.iter_mut().enumerate() {
                *to = product[l].abs().sqrt();
            }
        }
    }
}

/// Makes eigenvectors, of length 1, of the diagonal matrix plus `rho z z^T`.
struct Combinations<'a, T> {
    poles: &'a [f64],
    signed: &'a [f64],
    near: &'a [f64],
    add: &'a [f64],
    /// A line of numbers for each root.
    to: &'a mut [T],
}

impl<T: Real> Looped<f64> for Combinations<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<O: Loops<f64>>(self, o: O) {
        let k = self.poles.len();
        let mut line = vec![0.0; k];
        for (r, to) in self.to.chunks_exact_mut(k).enumerate() {
            let (near, add) = (self.near[r], self.add[r]);
            for ((v, pole), z) in line.iter_mut().zip(self.poles).zip(self.signed) {
                *v = z / ((pole - near) - add);
            }
            let mut square = [0.0];
            o.dots(&mut square, &line, 0, &line);
            let inverse = 1.0 / square[0].sqrt();
            for (to, v) in to.iter_mut().zip(&line) {
                *to = T::of_f64(v * inverse);
            }
        }
    }
}
