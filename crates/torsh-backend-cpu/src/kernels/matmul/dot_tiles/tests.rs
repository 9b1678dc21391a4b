use torsh_core::DType;
use torsh_core::machine::{Machine, machine};

use super::*;
use crate::kernels::matmul::Matrix;
use crate::kernels::matmul::choose::ProductAlgorithm::{self, DotTiles};
use crate::kernels::matmul::choose::ProductProblem;
use crate::machine::choice::Algorithm;
use crate::testing::has_avx512;

fn numbers(n: usize, seed: usize) -> Vec<f32> {
    (0..n)
        .map(|i| ((i * 7919 + seed * 31) % 17) as f32 - 8.0)
        .collect()
}

/// Sums of small integers are exact, so every order gives the same.
#[torsh_macros::unit_test]
fn of_every_size() {
    if !has_avx512() {
        return;
    }
    for [m, n, k] in [
        [4, 4, 30],
        [32, 10, 128],
        [6, 7, 97],
        [13, 5, 64],
        [17, 33, 111],
    ] {
        for (alpha, add, threads) in [(1.0, false, 1), (0.5, true, 2), (2.0, false, 3)] {
            // Rows of each lie a little apart.
            let (of_a, of_b, of_out) = (k + 3, k + 1, n + 2);
            let (mut a, mut b) = (numbers(m * of_a, 1), numbers(n * of_b, 2));
            let before = numbers(m * of_out, 3);
            let mut out = before.clone();
            let x = Product {
                m,
                n,
                k,
                out: Matrix::new(out.as_mut_ptr(), of_out as isize, 1),
                a: Matrix::new(a.as_mut_ptr(), of_a as isize, 1),
                b: Matrix::new(b.as_mut_ptr(), 1, of_b as isize),
                alpha,
                add,
            };
            let problem = ProductProblem::new(DType::F32, &x);
            assert!(DotTiles.accepts(&problem, machine()), "{m} {n} {k}");
            // SAFETY: the matrices have these sizes.
            unsafe { product(&x, threads, None) };
            for (at, &got) in out.iter().enumerate() {
                let (i, j) = (at / of_out, at % of_out);
                let mut wanted = before[at];
                if j < n {
                    let sum: f32 = (0..k).map(|p| a[i * of_a + p] * b[j * of_b + p]).sum();
                    wanted = alpha * sum + if add { wanted } else { 0.0 };
                }
                assert_eq!(got, wanted, "{m} {n} {k} at {i}, {j}");
            }
        }
    }
}

#[torsh_macros::unit_test]
fn only_of_adjacent_terms_and_many_of_them() {
    let at = std::ptr::NonNull::<f32>::dangling().as_ptr();
    let x = |[m, n, k]: [usize; 3], a, b| Product {
        m,
        n,
        k,
        out: Matrix::new(at, n as isize, 1),
        a: Matrix::new(at, k as isize, a),
        b: Matrix::new(at, b, k as isize),
        alpha: 1.0,
        add: false,
    };
    let zen4 = Machine::described("zen4").unwrap();
    let suits = |x: &Product<f32>| {
        ProductAlgorithm::choose(&ProductProblem::new(DType::F32, x), &zen4, 1).0 == DotTiles
    };
    assert!(suits(&x([32, 128, 784], 1, 1)));
    assert!(!suits(&x([32, 128, 784], 2, 1)));
    assert!(!suits(&x([32, 128, 784], 1, 2)));
    assert!(!suits(&x([32, 128, 256], 1, 1)));
    assert!(!suits(&x([3, 128, 784], 1, 1)));
    assert!(!suits(&x([256, 256, 2000], 1, 1)));
}
