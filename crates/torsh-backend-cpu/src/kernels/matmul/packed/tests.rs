use super::*;
use crate::kernels::matmul::Matrix;
use crate::simd::Level;

/// `n` numbers of which few sums round.
fn numbers(n: usize, seed: usize) -> Vec<f64> {
    (0..n)
        .map(|i| ((i * 7919 + seed * 31) % 17) as f64 - 8.0)
        .collect()
}

/// A matrix in row-major order, column-major order, or with gaps.
fn matrix<T>(data: &mut [T], rows: usize, columns: usize, order: usize) -> Matrix<T> {
    let (row, col) = match order {
        0 => (columns, 1),
        1 => (1, rows),
        _ => (2 * columns, 2),
    };
    assert!(data.len() >= 2 * rows * columns);
    Matrix::new(data.as_mut_ptr(), row as isize, col as isize)
}

trait Test: Packable + Tiled + num_traits::One + PartialEq + std::fmt::Debug {
    fn of(x: f64) -> Self;
    fn to(self) -> f64;
}
impl Test for f32 {
    fn of(x: f64) -> f32 {
        x as f32
    }
    fn to(self) -> f64 {
        f64::from(self)
    }
}
impl Test for f64 {
    fn of(x: f64) -> f64 {
        x
    }
    fn to(self) -> f64 {
        self
    }
}

fn check<T: Test>([m, n, k]: [usize; 3], orders: [usize; 3], level: Level) {
    let list = |n: usize, seed| -> Vec<T> { numbers(n, seed).into_iter().map(T::of).collect() };
    let (mut a, mut b, mut c) = (list(2 * m * k, 1), list(2 * k * n, 2), list(2 * m * n, 3));
    let before = c.clone();
    let x = Product {
        m,
        n,
        k,
        out: matrix(&mut c, m, n, orders[0]),
        a: matrix(&mut a, m, k, orders[1]),
        b: matrix(&mut b, k, n, orders[2]),
        alpha: T::of(if orders[0] == 1 { 0.5 } else { 1.0 }),
        add: orders[1] == orders[2],
    };
    // What the products are added to: the output, a row, a column or a matrix.
    let mut others = list(2 * m * n + m + n, 4);
    let from = match (m + n + k) % 4 {
        0 => None,
        1 => Some(Matrix::new(others.as_mut_ptr(), 0, 1)),
        2 => Some(Matrix::new(others.as_mut_ptr(), 1, 0)),
        _ => Some(matrix(&mut others, m, n, orders[1])),
    };
    // SAFETY: the matrices have these sizes, and the level is there.
    unsafe {
        match level == super::level() && orders[2] == 1 && !n.is_multiple_of(5) {
            // Which may transpose the product.
            true => product(&x, None, from, None, 1 + m % 2),
            false => with(
                &x,
                (None, from, None),
                1 + (orders[2] + m) % 3,
                T::tiles(level),
            ),
        }
    }
    .unwrap();
    let start = x.out.ptr.cast_const();
    let mut written = vec![false; c.len()];
    for i in 0..m {
        for j in 0..n {
            // SAFETY: the indices are below the sizes.
            let sum: f64 = (0..k)
                .map(|p| unsafe { (*x.a.at(i, p).ptr).to() * (*x.b.at(p, j).ptr).to() })
                .sum();
            // SAFETY: both are in `c`.
            let at = unsafe { x.out.at(i, j).ptr.cast_const().offset_from(start) } as usize;
            written[at] = true;
            let kept = match from {
                _ if !x.add => 0.0,
                None => before[at].to(),
                // SAFETY: the indices are below the sizes.
                Some(from) => unsafe { (*from.at(i, j).ptr).to() },
            };
            let expected = T::of(x.alpha.to() * sum + kept);
            assert_eq!(
                c[at], expected,
                "{m} {n} {k} {orders:?} {level:?} at {i}, {j}"
            );
        }
    }
    for (at, _) in written.iter().enumerate().filter(|(_, w)| !**w) {
        assert_eq!(c[at], before[at], "written beyond the result");
    }
}

/// Sums of small integers are exact, so every order gives the same.
#[torsh_macros::unit_test]
fn of_every_size_order_and_level() {
    let sizes = [
        [1, 1, 1],
        [2, 3, 4],
        [5, 17, 9],
        [6, 16, 8],
        [7, 31, 33],
        [13, 32, 5],
        [14, 33, 100],
        [15, 8, 385],
        [16, 96, 64],
        [20, 121, 100],
        [17, 23, 600],
        [29, 70, 390],
        [100, 5, 770],
    ];
    for level in Level::ALL.into_iter().filter(|l| l.is_available()) {
        for sizes in sizes {
            for orders in 0..27 {
                let orders = [orders / 9, orders / 3 % 3, orders % 3];
                check::<f32>(sizes, orders, level);
                check::<f64>(sizes, orders, level);
            }
        }
    }
}

#[torsh_macros::unit_test]
fn of_several_blocks_of_rows_and_columns() {
    check::<f32>([300, 40, 900], [0, 0, 1], level());
    check::<f32>([9, 2000, 800], [0, 0, 0], level());
    check::<f64>([170, 1100, 30], [0, 1, 0], level());
    check::<f64>([70, 300, 600], [0, 0, 0], level());
    check::<f64>([35, 300, 600], [0, 0, 1], level());
    // Rows that are copied once for all columns.
    check::<f32>([100, 500, 900], [0, 1, 0], level());
    check::<f32>([101, 390, 1100], [0, 1, 1], level());
    check::<f32>([120, 400, 1100], [0, 2, 0], level());
    // Panels that are copied just ahead of their use, and by two threads before.
    check::<f32>([400, 121, 600], [0, 0, 1], level());
    check::<f32>([401, 121, 600], [0, 0, 1], level());
    // Threads with rows of their own.
    check::<f32>([131, 77, 32], [0, 1, 0], level());
    check::<f32>([201, 20, 400], [0, 0, 2], level());
    check::<f32>([129, 30, 600], [1, 0, 1], level());
    check::<f64>([130, 100, 60], [0, 2, 0], level());
}

#[torsh_macros::unit_test]
fn the_right_operand_may_come_in_panels() {
    let [m, n, k] = [20, 75, 400];
    let of = |p: usize, j: usize| ((p * 3 + j * 5) % 7) as f32;
    let write = |terms: Range<usize>, columns: Range<usize>, to: *mut f32, pitch: usize| {
        for (p, term) in terms.enumerate() {
            for j in 0..pitch {
                let column = columns.start + j;
                let value = if column < columns.end {
                    of(term, column)
                } else {
                    0.0
                };
                // SAFETY: a panel has `pitch` numbers for each term.
                unsafe { *to.add(p * pitch + j) = value };
            }
        }
    };
    let (mut a, mut c) = (vec![1f32; m * k], vec![0f32; m * n]);
    let x = Product {
        m,
        n,
        k,
        out: Matrix::new(c.as_mut_ptr(), n as isize, 1),
        a: Matrix::new(a.as_mut_ptr(), k as isize, 1),
        b: Matrix::new(std::ptr::null_mut(), 0, 0),
        alpha: 1.0,
        add: false,
    };
    // SAFETY: the matrices have these sizes.
    unsafe { product(&x, Some(&write), None, None, 2) }.unwrap();
    for j in 0..n {
        let sum: f32 = (0..k).map(|p| of(p, j)).sum();
        assert!((0..m).all(|i| c[i * n + j] == sum));
    }
}

/// Lines of every number in every width, as all levels pack them.
#[torsh_macros::unit_test]
fn lines_are_copied_into_panels() {
    for lines in 1..=33 {
        for terms in [1, 3, 8, 21] {
            for (line, term) in [(1, 40), (25, 1), (50, 2)] {
                let from: Vec<f32> = (0..50 * 33 + 1000).map(|i| i as f32).collect();
                let mut to = vec![-1f32; lines * terms + 8];
                let of = Lines {
                    ptr: from.as_ptr(),
                    line,
                    term,
                };
                // SAFETY: all is within the two, with room behind.
                unsafe { f32::copy(of, lines, terms, to.as_mut_ptr(), lines) };
                for p in 0..terms {
                    for i in 0..lines {
                        let at = i as isize * line + p as isize * term;
                        assert_eq!(to[p * lines + i], at as f32);
                    }
                }
            }
        }
    }
}
