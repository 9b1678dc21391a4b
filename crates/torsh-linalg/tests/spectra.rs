//! Eigenvalues and vectors in float64 of matrices that are hard for the algorithms behind them: divide and conquer and QL
//! steps for symmetric matrices of three diagonals, double steps for general ones.

use torsh_linalg as linalg;
use torsh_tensor::{Result, Tensor};

/// The rows from which on divide and conquer splits a matrix.
const PART: usize = 64;

/// Numbers between -1 and 1 that come in no order.
fn scattered(n: usize, seed: u64) -> Vec<f64> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

/// Checks values and vectors of the symmetric matrix with the diagonal `d` and `e` beside it: residuals, orthogonality, the
/// values alone and, where they are known, the values.
fn check_symmetric(name: &str, d: &[f64], e: &[f64], known: Option<&[f64]>) -> Result<()> {
    let n = d.len();
    let mut a = vec![0.0; n * n];
    for i in 0..n {
        a[i * n + i] = d[i];
        if i + 1 < n {
            a[i * n + i + 1] = e[i];
            a[(i + 1) * n + i] = e[i];
        }
    }
    let a = Tensor::from_data(&a, [n, n])?;
    let (values, vectors) = linalg::eigh(&a)?;
    let size = d
        .iter()
        .chain(e)
        .fold(0.0, |most: f64, v| most.max(v.abs()));
    let bound = 20.0 * n as f64 * f64::EPSILON;
    let residual = a.matmul(&vectors)?.sub(&vectors.mul(&values)?)?;
    let residual = residual.abs()?.max()?.item::<f64>()?;
    assert!(residual <= bound * size, "{name}, {n}: residual {residual}");
    let dots = vectors.t()?.matmul(&vectors)?;
    let off = dots.sub(&Tensor::from_data(&identity(n), [n, n])?)?.abs()?;
    let off = off.max()?.item::<f64>()?;
    assert!(off <= bound, "{name}, {n}: orthogonality {off}");
    let alone = linalg::eigvalsh(&a)?.to_vec::<f64>()?;
    let values = values.to_vec::<f64>()?;
    for (value, want) in values.iter().zip(known.unwrap_or(&alone)) {
        assert!(
            (value - want).abs() <= bound * size,
            "{name}, {n}: {value} {want}"
        );
    }
    for (value, want) in alone.iter().zip(&values) {
        assert!(
            (value - want).abs() <= bound * size,
            "{name}, {n}: alone {value}, {want}"
        );
    }
    Ok(())
}

fn identity(n: usize) -> Vec<f64> {
    (0..n * n).map(|i| f64::from(i % (n + 1) == 0)).collect()
}

#[test]
fn known_values_of_symmetric_matrices() -> Result<()> {
    for n in [1, 2, 3, 17, PART, PART + 1, 100, 2 * PART + 1, 131, 300] {
        // The second difference.
        let step = std::f64::consts::PI / (n + 1) as f64;
        let known = (1..=n).map(|k| 2.0 - 2.0 * (k as f64 * step).cos());
        let known: Vec<f64> = known.collect();
        check_symmetric(
            "second difference",
            &vec![2.0; n],
            &vec![-1.0; n - 1],
            Some(&known),
        )?;
    }
    check_symmetric("zeros", &[0.0; 5], &[0.0; 4], Some(&[0.0; 5]))?;
    let blocks = [-1.0, 0.0, 0.0, 1.0];
    check_symmetric("blocks", &[0.0; 4], &[1.0, 0.0, 1e-200], Some(&blocks))
}

#[test]
fn symmetric_matrices_of_all_kinds() -> Result<()> {
    for n in [49, 100, 257] {
        check_symmetric("scattered", &scattered(n, 1), &scattered(n - 1, 2), None)?;
        let graded = |v: Vec<f64>| -> Vec<f64> {
            let scale = |(i, v): (usize, &f64)| v * 0.8f64.powi(i as i32);
            v.iter().enumerate().map(scale).collect()
        };
        let (d, e) = (graded(scattered(n, 3)), graded(scattered(n - 1, 4)));
        check_symmetric("graded", &d, &e, None)?;
        let small: Vec<f64> = scattered(n - 1, 5).iter().map(|v| v * 1e-9).collect();
        check_symmetric("nearly equal values", &vec![1.0; n], &small, None)?;
        check_symmetric("identity", &vec![1.0; n], &vec![0.0; n - 1], None)?;
        check_symmetric("zeros", &vec![0.0; n], &vec![0.0; n - 1], None)?;
        // Wilkinson's matrices of 21 rows, weakly coupled: clusters of pairs.
        let pairs: Vec<f64> = (0..n).map(|i| (i as f64 % 21.0 - 10.0).abs()).collect();
        let weak = |i: usize| if i % 21 == 20 { 1e-7 } else { 1.0 };
        let beside: Vec<f64> = (0..n - 1).map(weak).collect();
        check_symmetric("glued", &pairs, &beside, None)?;
    }
    Ok(())
}

/// `A v = lambda v` for each value and vector of a real matrix, and the sum of the values.
fn check_general(a: &[f64], n: usize) -> Result<()> {
    let matrix = Tensor::from_data(a, [n, n])?;
    let (values, vectors) = linalg::eig(&matrix)?;
    let complex = matrix.to_dtype(vectors.dtype())?;
    let off = complex
        .matmul(&vectors)?
        .sub(&vectors.mul(&values)?)?
        .abs()?;
    let off = off.max()?.item::<f64>()?;
    let bound = 1e-13 * n as f64;
    assert!(off <= bound, "{n}: a vector is off by {off}");
    let lengths = vectors
        .abs()?
        .square()?
        .sum_dim(0, false)?
        .sub(1.0)?
        .abs()?;
    assert!(lengths.max()?.item::<f64>()? < bound, "{n}: lengths");
    let trace: f64 = (0..n).map(|i| a[i * n + i]).sum();
    let sum = values.real()?.sum()?.item::<f64>()?;
    assert!((trace - sum).abs() < 1e-12, "{n}: {trace} {sum}");
    Ok(())
}

#[test]
fn general_matrices_have_their_vectors() -> Result<()> {
    for n in (1..=24).chain([63, 100]) {
        for seed in 1..=8 {
            check_general(&scattered(n * n, seed), n)?;
        }
    }
    Ok(())
}

#[test]
fn matrices_that_shifts_go_round_in_have_their_vectors() -> Result<()> {
    // A cyclic permutation: all shifts are 0.
    let n = 6;
    let mut a = vec![0.0; n * n];
    (0..n).for_each(|i| a[i * n + (i + 1) % n] = 1.0);
    check_general(&a, n)?;
    check_general(&[0.0, 1.0, -1.0, 0.0], 2)?;
    check_general(&[0.0; 9], 3)?;
    check_general(&[2.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 2.0], 3)
}
