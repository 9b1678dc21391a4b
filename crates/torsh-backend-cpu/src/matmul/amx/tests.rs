use super::*;

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
    parts: Parts,
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
    // SAFETY: the matrices have these sizes, and the tests below ask whether AMX is there.
    let ours = worst(&|o| unsafe {
        let x = of([m, n, k], o, a, b, (c.alpha, c.add));
        assert!(product(&x, c.parts, c.threads));
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
) -> gemm::Product<f32> {
    gemm::Product {
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
unsafe fn plain(x: &gemm::Product<f32>) {
    // SAFETY: the caller's promise.
    unsafe { gemm::plain(x, 1) }
}

#[test]
fn of_the_precision_of_float32() {
    if !is_available() {
        return;
    }
    let sizes = [
        [32, 32, 32],
        [33, 65, 31],
        [16, 100, 129],
        [70, 300, 700],
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
                parts: Parts::Three,
                threads: 1 + orders[2],
            };
            let (ours, theirs) = errors(&case, &mut a, &mut b);
            assert!(
                ours < 3.0 && ours < 2.0 * theirs + 1.0,
                "{sizes:?} {orders:?}: {ours} of the blocked product's {theirs}"
            );
        }
    }
}

#[test]
fn of_bfloat16_in_one_part() {
    if !is_available() {
        return;
    }
    let [m, n, k] = [50, 70, 600];
    let cut = |v: Vec<f32>| -> Vec<f32> {
        v.iter()
            .map(|x| f32::from_bits(x.to_bits() & 0xffff_0000))
            .collect()
    };
    for orders in [[0, 0, 0], [1, 0, 1], [0, 1, 2]] {
        let case = Case {
            sizes: [m, n, k],
            orders,
            alpha: 2.0,
            add: true,
            parts: Parts::One,
            threads: 2,
        };
        let (mut a, mut b) = (cut(numbers(2 * m * k, 6)), cut(numbers(2 * k * n, 7)));
        let (ours, _) = errors(&case, &mut a, &mut b);
        assert!(ours < 3.0, "{orders:?}: {ours}");
    }
}

#[test]
fn what_is_not_finite_comes_out_as_from_the_general_kernel() {
    if !is_available() {
        return;
    }
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
                assert!(product(&of(sizes, ours, a, b, (1.0, add)), Parts::Three, 1));
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

#[test]
fn of_several_blocks_of_rows_columns_and_terms() {
    if !is_available() {
        return;
    }
    let [m, n, k] = [1100, 1060, 1600];
    let cut = |x: &mut f32| *x = f32::from_bits(x.to_bits() & 0xffff_0000);
    for parts in [Parts::Three, Parts::One] {
        let (mut a, mut b) = (numbers(m * k, 1), numbers(k * n, 2));
        if parts == Parts::One {
            a.iter_mut().chain(&mut b).for_each(cut);
        }
        let (a, b) = (matrix(&mut a, m, k, 0), matrix(&mut b, k, n, 1));
        let mut outs = [vec![0f32; m * n], vec![0f32; m * n]];
        let [ours, theirs] = outs.each_mut().map(|o| matrix(o, m, n, 0));
        // SAFETY: the matrices have these sizes.
        unsafe {
            assert!(product(&of([m, n, k], ours, a, b, (1.0, false)), parts, 3));
            plain(&of([m, n, k], theirs, a, b, (1.0, false)));
        }
        // The terms' magnitudes sum up to about 3e4.
        let worst = outs[0].iter().zip(&outs[1]);
        let worst = worst.fold(0f32, |worst, (x, y)| worst.max((x - y).abs()));
        assert!(worst < 0.05, "{worst}");
    }
}
