use super::*;

/// Runs a test by the processor's instructions, where it has them, and by their model.
fn by_both(test: impl Fn()) {
    let Some(unit) = isa::stand_in() else { return };
    if isa::bf16::is_present() {
        test();
    }
    let _unit = unit.by_model();
    test();
}

/// What a result is read as.
trait Output: Copy + Send + Sync + PartialEq + std::fmt::Debug + 'static {
    fn of(x: f32) -> Self;
}
impl Output for Pair {
    fn of(x: f32) -> Pair {
        Pair(x.to_bits())
    }
}
impl Output for bf16 {
    fn of(x: f32) -> bf16 {
        bf16::from_f32(x)
    }
}
impl PartialEq for Pair {
    fn eq(&self, other: &Pair) -> bool {
        self.0 == other.0
    }
}
impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f32::from_bits(self.0).fmt(f)
    }
}

/// Numbers that are exact in bfloat16, and of which few sums round in float32.
fn numbers(n: usize, seed: usize) -> Vec<bf16> {
    (0..n)
        .map(|i| bf16::from_f32(((i * 7919 + seed * 31) % 17) as f32 - 8.0))
        .collect()
}

/// A matrix in row-major order, column-major order, with gaps, or of rows an odd number apart.
fn matrix<T>(data: &mut [T], rows: usize, columns: usize, order: usize) -> Matrix<T> {
    let (row, col) = match order {
        0 => (columns, 1),
        1 => (1, rows),
        2 => (2 * columns, 2),
        _ => (columns | 1, 1),
    };
    assert!(data.len() >= 2 * rows * columns);
    Matrix::new(data.as_mut_ptr(), row as isize, col as isize)
}

fn check<O: Output>([m, n, k]: [usize; 3], orders: [usize; 3], add: bool)
where
    Pair: Tiled<O>,
{
    let (mut a, mut b) = (numbers(2 * m * k, 1), numbers(2 * k * n, 2));
    let mut out = vec![O::of(3.0); 2 * m * n];
    let x = Product {
        m,
        n,
        k,
        out: matrix(&mut out, m, n, orders[0]),
        a: matrix(&mut a, m, k, orders[1]),
        b: matrix(&mut b, k, n, orders[2]),
        alpha: if orders[0] == 1 { 0.5 } else { 1.0 },
        add,
    };
    // SAFETY: the matrices have these sizes, and the caller has asked for the instructions.
    unsafe { product(&x, 1 + orders[2] % 2) }.unwrap();
    let mut written = vec![false; out.len()];
    for i in 0..m {
        for j in 0..n {
            // SAFETY: the indices are below the sizes.
            let sum: f64 = (0..k)
                .map(|p| unsafe { (*x.a.at(i, p).ptr).to_f64() * (*x.b.at(p, j).ptr).to_f64() })
                .sum();
            let expected = f64::from(x.alpha) * sum + if add { 3.0 } else { 0.0 };
            // SAFETY: both are in `out`.
            let at = unsafe { x.out.at(i, j).ptr.cast_const().offset_from(out.as_ptr()) } as usize;
            written[at] = true;
            let expected = O::of(expected as f32);
            assert_eq!(out[at], expected, "{m} {n} {k} {orders:?} at {i}, {j}");
        }
    }
    for (at, _) in written.iter().enumerate().filter(|(_, w)| !**w) {
        assert_eq!(out[at], O::of(3.0), "written beyond the result");
    }
}

#[torsh_macros::unit_test]
fn products_are_those_of_the_definition() {
    by_both(|| {
        let sizes = [
            [2, 2, 16],
            [8, 48, 64],
            [9, 49, 65],
            [15, 33, 66],
            [1, 40, 127],
            [29, 100, 31],
            [60, 7, 250],
            [130, 70, 1],
        ];
        for size in sizes {
            for orders in 0..64 {
                let orders = [orders % 4, orders / 4 % 4, orders / 16];
                check::<bf16>(size, orders, false);
                check::<Pair>(size, orders, orders[1] == 2);
            }
        }
    });
}

#[torsh_macros::unit_test]
fn many_terms_are_added_up_in_blocks() {
    by_both(|| {
        check::<Pair>([17, 35, 2 * AT_ONCE + 3], [0, 0, 0], false);
        check::<Pair>([17, 35, AT_ONCE + 3], [0, 1, 1], true);
        check::<bf16>([17, 35, AT_ONCE], [0, 1, 0], false);
    });
}

/// Of even numbers of columns for each of two threads, which make panels of their own.
#[torsh_macros::unit_test]
fn threads_may_have_columns_of_their_own() {
    by_both(|| {
        for k in [37, AT_ONCE] {
            check::<bf16>([9, 530, k], [0, 0, 3], false);
            check::<Pair>([9, 530, k], [0, 0, 1], false);
        }
    });
}

#[torsh_macros::unit_test]
fn special_values_go_through() {
    by_both(|| {
        let (m, n, k) = (3, 40, 20);
        let mut a = vec![bf16::ONE; m * k];
        a[0] = bf16::INFINITY;
        a[k + 3] = bf16::NAN;
        let mut b = vec![bf16::ONE; k * n];
        let mut out = vec![bf16::ZERO; m * n];
        let x = Product {
            m,
            n,
            k,
            out: Matrix::new(out.as_mut_ptr(), n as isize, 1),
            a: Matrix::new(a.as_mut_ptr(), k as isize, 1),
            b: Matrix::new(b.as_mut_ptr(), n as isize, 1),
            alpha: 1.0,
            add: false,
        };
        // SAFETY: the matrices have these sizes, and the processor has the instructions.
        unsafe { product(&x, 1) }.unwrap();
        assert!(out[..n].iter().all(|&x| x == bf16::INFINITY));
        assert!(out[n..2 * n].iter().all(|x| x.is_nan()));
        assert!(out[2 * n..].iter().all(|&x| x == bf16::from_f32(20.0)));
    });
}
