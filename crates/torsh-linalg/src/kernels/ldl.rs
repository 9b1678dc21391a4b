//! Factors of symmetric and Hermitian indefinite matrices by Bunch and Kaufman's pivoting, packed as LAPACK's `sytrf`
//! with the lower triangle.

use num_traits::Float;

use super::field::{Field, Real};

#[inline(always)]
fn turn<T: Field>(v: T, hermitian: bool) -> T {
    if hermitian { Field::conj(v) } else { v }
}

/// Swaps elements `i` and `j` of row-major `a`.
fn swap<T: Copy>(a: &mut [T], i: usize, j: usize) {
    let (x, y) = (a[i], a[j]);
    a[i] = y;
    a[j] = x;
}

/// Factors the lower triangle of row-major `a` in place. Pivots count from 1; two equal negative ones are of a block of two
/// rows. Returns the position, from 1, of the first block that is zero.
pub(crate) fn factor<T: Field>(a: &mut [T], n: usize, pivots: &mut [i32], hermitian: bool) -> i32 {
    let alpha = <T::R as Real>::of_f64((1.0 + 17f64.sqrt()) / 8.0);
    let zero = <T::R as Field>::ZERO;
    let (mut info, mut k) = (0, 0);
    let diagonal = |v: T| if hermitian { T::of(v.re()) } else { v };
    while k < n {
        let mut step = 1;
        let size = diagonal(a[k * n + k]).abs1();
        let (mut largest, mut row) = (zero, k);
        for i in k + 1..n {
            let v = a[i * n + k].abs1();
            if v > largest {
                (largest, row) = (v, i);
            }
        }
        let mut pivot = k;
        let worst = if size > largest { size } else { largest };
        if worst == zero || worst.is_nan() || size.is_nan() {
            info = if info == 0 { k as i32 + 1 } else { info };
            a[k * n + k] = diagonal(a[k * n + k]);
            pivots[k] = k as i32 + 1;
            k += 1;
            continue;
        }
        if size < alpha * largest {
            // The largest number of row `row` beside the diagonal.
            let mut other = zero;
            for j in k..row {
                other = Float::max(other, a[row * n + j].abs1());
            }
            for i in row + 1..n {
                other = Float::max(other, a[i * n + row].abs1());
            }
            if size >= alpha * largest * (largest / other) {
                pivot = k;
            } else if diagonal(a[row * n + row]).abs1() >= alpha * other {
                pivot = row;
            } else {
                (pivot, step) = (row, 2);
            }
        }
        let kk = k + step - 1;
        if pivot != kk {
            // Rows and columns `kk` and `pivot` of the trailing part change places.
            for i in pivot + 1..n {
                swap(a, i * n + kk, i * n + pivot);
            }
            for j in kk + 1..pivot {
                let (x, y) = (a[j * n + kk], a[pivot * n + j]);
                a[j * n + kk] = turn(y, hermitian);
                a[pivot * n + j] = turn(x, hermitian);
            }
            if hermitian {
                a[pivot * n + kk] = Field::conj(a[pivot * n + kk]);
            }
            swap(a, kk * n + kk, pivot * n + pivot);
            if step == 2 {
                swap(a, (k + 1) * n + k, pivot * n + k);
            }
        }
        if hermitian {
            a[k * n + k] = diagonal(a[k * n + k]);
            a[kk * n + kk] = diagonal(a[kk * n + kk]);
        }
        if step == 1 {
            let d = a[k * n + k];
            for j in k + 1..n {
                let l = turn(a[j * n + k], hermitian).over(d);
                for i in j..n {
                    let v = a[i * n + k] * l;
                    a[i * n + j] -= v;
                }
                if hermitian {
                    a[j * n + j] = diagonal(a[j * n + j]);
                }
            }
            for i in k + 1..n {
                a[i * n + k] = a[i * n + k].over(d);
            }
            pivots[k] = pivot as i32 + 1;
        } else {
            let (d11, d22, d21) = (a[k * n + k], a[(k + 1) * n + k + 1], a[(k + 1) * n + k]);
            // The inverse of the block, scaled by its off-diagonal entry.
            let (p, q) = (d22.over(d21), d11.over(turn(d21, hermitian)));
            let t = T::ONE.over(p * q - T::ONE);
            for j in k + 2..n {
                let (x, y) = (a[j * n + k], a[j * n + k + 1]);
                // (x y) times the inverse of [[d11, d21'], [d21, d22]].
                let w0 = (p * x - y) * t;
                let w1 = (q * y - x) * t;
                let (w0, w1) = (w0.over(turn(d21, hermitian)), w1.over(d21));
                let (c0, c1) = (turn(w0, hermitian), turn(w1, hermitian));
                for i in j..n {
                    let v = a[i * n + k] * c0 + a[i * n + k + 1] * c1;
                    a[i * n + j] -= v;
                }
                a[j * n + k] = w0;
                a[j * n + k + 1] = w1;
                if hermitian {
                    a[j * n + j] = diagonal(a[j * n + j]);
                }
            }
            pivots[k] = -(pivot as i32) - 1;
            pivots[k + 1] = -(pivot as i32) - 1;
        }
        k += step;
    }
    for i in 0..n {
        a[i * n + i + 1..(i + 1) * n].fill(T::ZERO);
    }
    info
}

/// Solves `A X = B` in place of row-major `b` from the factors.
pub(crate) fn solve<T: Field>(
    (a, pivots): (&[T], &[i32]),
    b: &mut [T],
    (n, cols): (usize, usize),
    hermitian: bool,
) {
    let swap_rows = |b: &mut [T], i: usize, p: usize| {
        if i != p && p < n {
            for c in 0..cols {
                swap(b, i * cols + c, p * cols + c);
            }
        }
    };
    let place = |k: usize| (pivots[k].unsigned_abs() as usize).saturating_sub(1);
    let two = |k: usize| pivots[k] < 0 && k + 1 < n;
    let mut k = 0;
    while k < n {
        let step = 1 + usize::from(two(k));
        swap_rows(b, k + step - 1, place(k));
        for i in k + step..n {
            for s in 0..step {
                let l = a[i * n + k + s];
                for c in 0..cols {
                    let v = l * b[(k + s) * cols + c];
                    b[i * cols + c] -= v;
                }
            }
        }
        match step {
            1 => {
                let d = a[k * n + k];
                b[k * cols..][..cols]
                    .iter_mut()
                    .for_each(|v| *v = v.over(d));
            }
            _ => {
                let (d11, d22, d21) = (a[k * n + k], a[(k + 1) * n + k + 1], a[(k + 1) * n + k]);
                let d12 = turn(d21, hermitian);
                let (p, q) = (d11.over(d12), d22.over(d21));
                let det = p * q - T::ONE;
                for c in 0..cols {
                    let (x, y) = (b[k * cols + c].over(d12), b[(k + 1) * cols + c].over(d21));
                    b[k * cols + c] = (q * x - y).over(det);
                    b[(k + 1) * cols + c] = (p * y - x).over(det);
                }
            }
        }
        k += step;
    }
    while k > 0 {
        // A block of two ends at k - 1.
        let step = 1 + usize::from(
            k >= 2 && pivots[k - 1] < 0 && pivots[k - 2] < 0 && ends_block(pivots, k - 1),
        );
        k -= step;
        for s in 0..step {
            for i in k + step..n {
                let l = turn(a[i * n + k + s], hermitian);
                for c in 0..cols {
                    let v = l * b[i * cols + c];
                    b[(k + s) * cols + c] -= v;
                }
            }
        }
        swap_rows(b, k + step - 1, place(k));
    }
}

/// Whether row `at`, of a negative pivot, is the second of its block: blocks begin at the first negative pivot of a run.
fn ends_block(pivots: &[i32], at: usize) -> bool {
    let run = pivots[..=at].iter().rev().take_while(|p| **p < 0).count();
    run % 2 == 0
}
