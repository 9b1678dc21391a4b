use half::bf16;

use super::*;
use crate::simd::isa;

/// Numbers of all magnitudes between 2^-8 and 2^8, without a library.
fn numbers(n: usize, seed: u64) -> Vec<f32> {
    let mut s = seed;
    (0..n)
        .map(|_| {
            s = s.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let unit = (s >> 40) as f32 / (1u64 << 23) as f32 - 1.0;
            unit * ((s >> 33) % 16) as f32
        })
        .collect()
}

/// The matrix of `rows` and `cols` in memory of one of three orders.
fn matrix(data: &mut [f32], rows: usize, cols: usize, order: usize) -> Matrix<f32> {
    let ptr = data.as_mut_ptr();
    match order {
        0 => Matrix::new(ptr, cols as isize, 1),
        1 => Matrix::new(ptr, 1, rows as isize),
        _ => Matrix::new(ptr, 2 * cols as isize, 2),
    }
}

struct Case {
    sizes: [usize; 3],
    orders: [usize; 3],
    alpha: f32,
    add: bool,
    threads: usize,
}

/// The greatest error against float64, in units of the last bit of the terms' sum of
/// magnitudes; the same of the blocked product.
fn errors(c: &Case, a: &mut [f32], b: &mut [f32]) -> (f64, f64) {
    let [m, n, k] = c.sizes;
    let start = numbers(2 * m * n, 5);
    let (a, b) = (matrix(a, m, k, c.orders[0]), matrix(b, k, n, c.orders[1]));
    let worst = |by: &dyn Fn(Matrix<f32>)| {
        let mut out = start.clone();
        let o = matrix(&mut out, m, n, c.orders[2]);
        by(o);
        let before = matrix(&mut start.clone(), m, n, c.orders[2]);
        let before = (before.row, before.col);
        let mut worst = 0f64;
        for i in 0..m {
            for j in 0..n {
                let at = (i as isize * before.0 + j as isize * before.1) as usize;
                let (mut sum, mut size) = (0f64, 0f64);
                for p in 0..k {
                    // SAFETY: every index is below its size.
                    let (x, y) = unsafe { (*a.at(i, p).ptr, *b.at(p, j).ptr) };
                    sum += f64::from(x) * f64::from(y);
                    size += f64::from(x * y).abs();
                }
                sum *= f64::from(c.alpha);
                if c.add {
                    sum += f64::from(start[at]);
                }
                let error = (f64::from(out[at]) - sum).abs() / (size + 1.0);
                worst = worst.max(error * f64::from(1u32 << 24));
            }
        }
        worst
    };
    // SAFETY: the matrices have these sizes, and the tests below ask for AMX.
    let ours = worst(&|o| unsafe {
        let x = of([m, n, k], o, a, b, (c.alpha, c.add));
        assert!(product(&x, c.threads));
    });
    // SAFETY: as above.
    let theirs = worst(&|o| unsafe { plain(&of([m, n, k], o, a, b, (c.alpha, c.add))) });
    (ours, theirs)
}

fn of(
    [m, n, k]: [usize; 3],
    out: Matrix<f32>,
    a: Matrix<f32>,
    b: Matrix<f32>,
    (alpha, add): (f32, bool),
) -> Product<f32> {
    Product {
        m,
        n,
        k,
        out,
        a,
        b,
        alpha,
        add,
    }
}

/// The same without AMX.
///
/// # Safety
/// As [`product`].
unsafe fn plain(x: &Product<f32>) {
    // SAFETY: the caller's promise.
    unsafe { gemm::plain(x, 1) }
}

#[torsh_macros::unit_test]
fn of_the_precision_of_float32() {
    let Some(_unit) = isa::stand_in() else { return };
    let sizes = [
        [32, 32, 32],
        [33, 65, 31],
        [16, 100, 129],
        [70, 300, 700],
        [40, 600, 300],
        [530, 40, 1100],
    ];
    for (index, sizes) in sizes.into_iter().enumerate() {
        let [m, n, k] = sizes;
        for orders in 0..27 {
            let orders = [orders / 9, orders / 3 % 3, orders % 3];
            if index > 2 && orders.contains(&2) {
                continue;
            }
            let (mut a, mut b) = (numbers(2 * m * k, 3), numbers(2 * k * n, 4));
            let case = Case {
                sizes,
                orders,
                alpha: if index % 2 == 0 { 1.0 } else { 0.5 },
                add: orders[0] == orders[1],
                threads: 1 + orders[2],
            };
            let (ours, theirs) = errors(&case, &mut a, &mut b);
            assert!(
                ours < 3.0 && ours < 2.0 * theirs + 1.5,
                "{sizes:?} {orders:?}: {ours} of the blocked product's {theirs}"
            );
        }
    }
}

/// A matrix of bfloat16 in one of three orders.
fn matrix16(data: &mut [bf16], rows: usize, cols: usize, order: usize) -> Matrix<bf16> {
    let m = matrix(&mut [], rows, cols, order);
    Matrix::new(data.as_mut_ptr(), m.row, m.col)
}

fn numbers16(n: usize, seed: u64) -> Vec<bf16> {
    numbers(n, seed).into_iter().map(bf16::from_f32).collect()
}

#[torsh_macros::unit_test]
fn of_bfloat16() {
    let Some(_unit) = isa::stand_in() else { return };
    let sizes = [
        [32, 32, 32],
        [33, 65, 31],
        [50, 70, 600],
        [16, 100, 385],
        [100, 33, 2500],
        [330, 90, 290],
    ];
    for (index, [m, n, k]) in sizes.into_iter().enumerate() {
        for orders in 0..27 {
            let orders = [orders / 9, orders / 3 % 3, orders % 3];
            if index > 3 && orders.contains(&2) {
                continue;
            }
            let (mut a, mut b) = (numbers16(2 * m * k, 6), numbers16(2 * k * n, 7));
            let start = numbers16(2 * m * n, 5);
            let mut narrow = start.clone();
            let mut wide: Vec<f32> = start.iter().map(|x| x.to_f32()).collect();
            let x = Product {
                m,
                n,
                k,
                out: matrix16(&mut narrow, m, n, orders[0]),
                a: matrix16(&mut a, m, k, orders[1]),
                b: matrix16(&mut b, k, n, orders[2]),
                alpha: 1.0 + index as f32,
                add: false,
            };
            let added = Product {
                out: matrix(&mut wide, m, n, orders[0]),
                m,
                n,
                k,
                a: x.a,
                b: x.b,
                alpha: x.alpha,
                add: true,
            };
            // SAFETY: the matrices have these sizes, and AMX is there.
            unsafe {
                assert!(product(&x, 1 + orders[1]));
                assert!(product(&added, 1 + orders[2]));
            }
            for i in 0..m {
                for j in 0..n {
                    let at = (i as isize * x.out.row + j as isize * x.out.col) as usize;
                    let (mut sum, mut size) = (0f64, 1f64);
                    for p in 0..k {
                        // SAFETY: every index is below its size.
                        let (x, y) = unsafe { (*x.a.at(i, p).ptr, *x.b.at(p, j).ptr) };
                        sum += x.to_f64() * y.to_f64();
                        size += (x.to_f64() * y.to_f64()).abs();
                    }
                    let (sum, size) = (f64::from(x.alpha) * sum, f64::from(x.alpha) * size);
                    let of = f64::from(wide[at]) - start[at].to_f64();
                    let error = (of - sum).abs() / size * f64::from(1u32 << 24);
                    assert!(error < 3.0, "{m} {n} {k} {orders:?} at {i}, {j}: {error}");
                    let error = (narrow[at].to_f64() - sum).abs();
                    let most = sum.abs() / 256.0 + size * 3.0 / f64::from(1u32 << 24);
                    assert!(error <= most, "{m} {n} {k} {orders:?} at {i}, {j}: {error}");
                }
            }
            let inside: std::collections::HashSet<usize> = (0..m * n)
                .map(|at| (at / n) as isize * x.out.row + (at % n) as isize * x.out.col)
                .map(|at| at as usize)
                .collect();
            for at in (0..2 * m * n).filter(|at| !inside.contains(at)) {
                assert_eq!(narrow[at], start[at]);
                assert_eq!(wide[at], start[at].to_f32());
            }
        }
    }
}

#[torsh_macros::unit_test]
fn of_bfloat16_that_are_not_finite() {
    let Some(_unit) = isa::stand_in() else { return };
    let [m, n, k] = [40, 33, 70];
    let mut a = vec![bf16::ONE; m * k];
    a[0] = bf16::INFINITY;
    a[k + 3] = bf16::NAN;
    (a[3 * k], a[3 * k + 1]) = (bf16::INFINITY, bf16::NEG_INFINITY);
    (a[4 * k], a[5 * k]) = (bf16::NEG_INFINITY, bf16::MAX);
    let mut b = vec![bf16::ONE; k * n];
    let mut out = vec![bf16::ZERO; m * n];
    let x = Product {
        m,
        n,
        k,
        out: matrix16(&mut out, m, n, 0),
        a: matrix16(&mut a, m, k, 0),
        b: matrix16(&mut b, k, n, 0),
        alpha: 2.0,
        add: false,
    };
    // SAFETY: the matrices have these sizes.
    assert!(unsafe { product(&x, 2) });
    let rows: Vec<&[bf16]> = out.chunks(n).collect();
    assert!(rows[0].iter().all(|&x| x == bf16::INFINITY));
    assert!(rows[1].iter().all(|&x| x.to_bits() == 0x7fc0));
    assert!(rows[2].iter().all(|&x| x == bf16::from_f32(140.0)));
    assert!(rows[3].iter().all(|&x| x.to_bits() == 0x7fc0));
    assert!(rows[4].iter().all(|&x| x == bf16::NEG_INFINITY));
    assert!(rows[5].iter().all(|&x| x == bf16::INFINITY));
}

#[torsh_macros::unit_test]
fn what_is_not_finite_comes_out_as_from_the_general_kernel() {
    let Some(_unit) = isa::stand_in() else { return };
    let [m, n, k] = [64, 64, 1100];
    let payload = f32::from_bits(0x7fff_ffff);
    for (value, at) in [
        (f32::INFINITY, 5),
        (f32::NEG_INFINITY, 40 * 1100 + 1050),
        (f32::NAN, 3),
        (payload, 63 * 1100 + 1099),
        (f32::MAX, 1),
    ] {
        for add in [false, true] {
            let (mut a, mut b) = (numbers(m * k, 1), numbers(k * n, 2));
            // A value that is exact in bfloat16 has parts of zero, which times infinity are
            // NaN.
            b.iter_mut().for_each(|b| *b = b.round().max(1.0));
            a[at] = value;
            let (a, b) = (matrix(&mut a, m, k, 0), matrix(&mut b, k, n, 0));
            let mut outs = [numbers(m * n, 8), numbers(m * n, 8)];
            let [ours, theirs] = outs.each_mut().map(|o| matrix(o, m, n, 0));
            // SAFETY: the matrices have these sizes.
            unsafe {
                let sizes = [m, n, k];
                assert!(product(&of(sizes, ours, a, b, (1.0, add)), 1));
                plain(&of(sizes, theirs, a, b, (1.0, add)));
            }
            for (x, y) in outs[0].iter().zip(&outs[1]) {
                let close = (x - y).abs() <= 1e-5 * y.abs().max(1e3);
                assert!(
                    x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan() || close,
                    "{value}: {x} is not {y}"
                );
            }
        }
    }
}

#[torsh_macros::unit_test]
fn of_several_blocks_of_rows_columns_and_terms() {
    let Some(_unit) = isa::stand_in() else { return };
    let [m, n, k] = [1100, 1060, 1600];
    let (mut a, mut b) = (numbers(m * k, 1), numbers(k * n, 2));
    let (a, b) = (matrix(&mut a, m, k, 0), matrix(&mut b, k, n, 1));
    let mut outs = [vec![0f32; m * n], vec![0f32; m * n]];
    let [ours, theirs] = outs.each_mut().map(|o| matrix(o, m, n, 0));
    // SAFETY: the matrices have these sizes.
    unsafe {
        assert!(product(&of([m, n, k], ours, a, b, (1.0, false)), 3));
        plain(&of([m, n, k], theirs, a, b, (1.0, false)));
    }
    // The terms' magnitudes sum up to about 3e4.
    let worst = outs[0].iter().zip(&outs[1]);
    let worst = worst.fold(0f32, |worst, (x, y)| worst.max((x - y).abs()));
    assert!(worst < 0.05, "{worst}");
}

#[torsh_macros::unit_test]
fn the_number_of_threads_changes_nothing() {
    let Some(_unit) = isa::stand_in() else { return };
    let [m, n, k] = [700, 330, 2300];
    let (mut a, mut b) = (numbers16(m * k, 1), numbers16(k * n, 2));
    let outs = [1, 2, 3].map(|threads| {
        let mut out = vec![bf16::ZERO; m * n];
        let x = Product {
            m,
            n,
            k,
            out: matrix16(&mut out, m, n, 0),
            a: matrix16(&mut a, m, k, 0),
            b: matrix16(&mut b, k, n, 1),
            alpha: 1.0,
            add: false,
        };
        // SAFETY: the matrices have these sizes.
        assert!(unsafe { product(&x, threads) });
        out
    });
    assert!(outs[1] == outs[0] && outs[2] == outs[0]);
}
