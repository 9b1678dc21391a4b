//! The choices of algorithms, and that all algorithms of an operation agree. A forced algorithm is forced for the whole
//! process, hence a program of its own.

use torsh_backend_cpu::operations::{Force, choices, operations};
use torsh_core::random::LocalGenerator;
use torsh_linalg as linalg;
use torsh_tensor::{DType, Result, Tensor, eye, randn};

/// The choices for the examples of this crate's operations. Where one changes, the file's diff shows it;
/// `TORSH_WRITE_CHOICES=1` writes it anew.
#[test]
fn the_choices_of_the_examples() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/choices.txt");
    let text: String = operations()
        .iter()
        .filter(|(op, _)| op.starts_with("linalg."))
        .map(|(op, _)| choices(op).unwrap())
        .collect();
    if std::env::var_os("TORSH_WRITE_CHOICES").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(path).unwrap());
}

/// How far `a` is from `b`, relative to the largest number of `b`.
fn off(a: &Tensor, b: &Tensor) -> Result<f64> {
    let most = b.abs()?.max()?.item::<f64>()?;
    Ok(a.sub(b)?.abs()?.max()?.item::<f64>()? / most)
}

/// What an operation gives by each of its algorithms, which must be taken.
fn by_each(op: &str, f: impl Fn() -> Result<Tensor>) -> Result<Vec<Tensor>> {
    let all = operations();
    let (_, algorithms) = all.iter().find(|(name, _)| *name == op).unwrap();
    (algorithms.iter())
        .map(|algorithm| {
            let force = Force::new(op, algorithm).unwrap();
            let found = f()?.to_dtype(DType::F64)?;
            let scalar = std::env::var_os("TORSH_SIMD").is_some_and(|v| v == "scalar");
            let without_lanes = *algorithm == "lanes" && (scalar || cfg!(miri));
            assert!(force.taken() > 0 || without_lanes, "{op}: {algorithm}");
            Ok(found)
        })
        .collect()
}

#[test]
fn all_algorithms_agree() -> Result<()> {
    let _own = LocalGenerator::new(5).enter();
    for dtype in [DType::F32, DType::F64] {
        let eps = if dtype == DType::F32 { 1e-4 } else { 1e-12 };
        let random = |shape: &[usize]| randn(shape).to_dtype(dtype);
        let agree = |op: &str, f: &dyn Fn() -> Result<Tensor>| -> Result<()> {
            let all = by_each(op, f)?;
            for (i, found) in all.iter().enumerate() {
                let off = off(found, &all[0])?;
                assert!(off < eps, "{op}, algorithm {i}, {dtype}: {off:e}");
            }
            Ok(())
        };
        let batch = random(&[20, 6, 6])?;
        let spread = batch.add(eye(6).mul(8.0)?.to_dtype(dtype)?)?;
        agree("linalg.batch", &|| linalg::inv(&spread))?;
        agree("linalg.batch", &|| linalg::svdvals(&batch))?;
        for n in [7, 40] {
            let a = random(&[n, n])?.add(eye(n).mul(3 * n as i64)?.to_dtype(dtype)?)?;
            agree("linalg.factor", &|| linalg::inv(&a))?;
            agree("linalg.factor", &|| linalg::qr(&a)?.1.abs())?;
            let definite = a.matmul(&a.t()?)?;
            agree("linalg.factor", &|| linalg::cholesky(&definite))?;
            let symmetric = a.add(&a.t()?)?;
            agree("linalg.eigh", &|| linalg::eigvalsh(&symmetric))?;
            // Small matrices of float32 are decomposed in float64.
            if dtype == DType::F32 && n > 24 {
                agree("linalg.svd", &|| linalg::svdvals(&a))?;
            }
            // Eigenvalues of a symmetric matrix are real, which gives them an order.
            let real = || linalg::eigvals(&symmetric)?.real()?.sort();
            agree("linalg.eig", &|| Ok(real()?.0))?;
        }
        let a = random(&[90, 90])?;
        let symmetric = a.add(&a.t()?)?;
        agree("linalg.update", &|| linalg::eigvalsh(&symmetric))?;
    }
    Ok(())
}
