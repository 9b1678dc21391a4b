//! Batches of small matrices, which are decomposed side by side, agree with their matrices one by one, which are not: in
//! every size from 1 to 32, in batches that fill the lanes of vectors and that do not, in the four dtypes, of random,
//! deficient, clustered, graded and scaled matrices, and of some that are singular or hold nan or infinity.

use crate::common::{DTYPES, eps, wide};
use torsh_linalg::{self as linalg, CholeskyOptions, EighOptions, SolveTriangularOptions};
use torsh_tensor::sample::Sampler;
use torsh_tensor::{DType, Device, Result, Tensor};

/// The 2-norms of the matrices, without overflow.
fn sizes(t: &Tensor) -> Result<Vec<f64>> {
    (0..t.dims()[0])
        .map(|i| {
            let m = wide(&t.select(0, i as i64)?)?;
            let top = m.abs()?.max()?.item::<f64>()?;
            Ok(match top > 0.0 && top.is_finite() {
                true => m.div(top)?.norm()?.item::<f64>()? * top,
                false => top,
            })
        })
        .collect()
}

/// Asserts that every matrix of `off` is at most `10 n eps` of that of `of`.
fn small(what: &str, off: &Tensor, of: &[f64], dtype: DType) -> Result<()> {
    let n = off.dims()[1].max(off.dims()[2]) as f64;
    for (i, (off, of)) in sizes(off)?.into_iter().zip(of).enumerate() {
        let most = 10.0 * n * eps(dtype) * of + if eps(dtype) > 1e-10 { 1e-42 } else { 0.0 };
        assert!(
            off <= most,
            "{what}, matrix {i}: {off:e} of {of:e} is more than {most:e}"
        );
    }
    Ok(())
}

fn orthonormal(what: &str, q: &Tensor, dtype: DType) -> Result<()> {
    let q = wide(q)?;
    let k = q.dims()[2];
    let off = q
        .adjoint()?
        .matmul(&q)?
        .sub(&Tensor::eye(k, q.dtype(), Device::Cpu)?)?;
    let ones = vec![(k as f64).sqrt(); q.dims()[0]];
    small(what, &off, &ones, dtype)
}

fn random(s: &mut Sampler, shape: &[usize], dtype: DType) -> Result<Tensor> {
    match dtype.is_complex() {
        true => s.complex(shape),
        false => s.real(shape),
    }
}

/// Batches of `count` matrices of `n` rows, with what they are.
fn batches(n: usize, count: usize, dtype: DType) -> Result<Vec<(String, Tensor)>> {
    let mut s = Sampler::new(5 + n as u64, DType::F64);
    let a = random(&mut s, &[count, n, n], dtype)?;
    let k = n.div_ceil(2);
    let low =
        random(&mut s, &[count, n, k], dtype)?.matmul(&random(&mut s, &[count, k, n], dtype)?)?;
    let (q, _) = linalg::qr(&a)?;
    let real = |v: Vec<f64>| Tensor::from_data(&v, [n])?.to_dtype(a.dtype());
    let near = real((0..n).map(|i| 1.0 + 1e-9 * i as f64).collect())?;
    let clustered = q.mul(&near)?.matmul(&q.adjoint()?)?;
    let grade = real(
        (0..n)
            .map(|i| 10f64.powf(-10.0 * i as f64 / n.max(2) as f64))
            .collect(),
    )?;
    let graded = a.mul(&grade)?.mul(&grade.unsqueeze(-1)?)?;
    let scale = if eps(dtype) > 1e-10 { 1e30 } else { 1e150 };
    // One batch of all kinds: no lane may disturb another.
    let mixed = [
        &a,
        &low,
        &clustered,
        &graded,
        &a.mul(scale)?,
        &a.div(scale)?,
    ];
    let mixed: Vec<Tensor> = (0..count)
        .map(|i| mixed[i % mixed.len()].select(0, i as i64))
        .collect::<Result<_>>()?;
    let all = [
        ("random", a.clone()),
        ("deficient", low),
        ("clustered", clustered),
        ("graded", graded),
        ("huge", a.mul(scale)?),
        ("tiny", a.div(scale)?),
        ("mixed", Tensor::stack(&mixed, 0)?),
    ];
    all.into_iter()
        .map(|(name, t)| Ok((format!("{name} {dtype} {count} of {n}"), t.to_dtype(dtype)?)))
        .collect()
}

fn singles(t: &Tensor) -> Result<Vec<Tensor>> {
    (0..t.dims()[0]).map(|i| t.select(0, i as i64)).collect()
}

/// Calls `f` with every batch. The counts fill no number of lanes, but one: 16.
fn every(f: impl Fn(&str, &Tensor, DType) -> Result<()>) -> Result<()> {
    for dtype in DTYPES {
        for n in 1..=32 {
            let count = [5, 16, 19][n % 3];
            for (name, a) in batches(n, count, dtype)? {
                f(&name, &a, dtype)?;
            }
        }
    }
    Ok(())
}

#[test]
fn lu_multiplies_to_its_matrices() -> Result<()> {
    every(|name, a, dtype| {
        let (p, l, u) = linalg::lu(a)?;
        let of = sizes(a)?;
        let growth: Vec<f64> = sizes(&l)?
            .iter()
            .zip(sizes(&u)?)
            .map(|(l, u)| l * u)
            .collect();
        let bound: Vec<f64> = of.iter().zip(growth).map(|(a, g)| a.max(g)).collect();
        let back = wide(&p)?.matmul(&wide(&l)?)?.matmul(&wide(&u)?)?;
        small(
            &format!("lu of {name}"),
            &back.sub(&wide(a)?)?,
            &bound,
            dtype,
        )?;
        // Pivots are the largest of their columns: by the sum of the parts' magnitudes where they are complex.
        let largest = l.abs()?.max()?.item::<f64>()?;
        let most = if dtype.is_complex() { 2f64.sqrt() } else { 1.0 };
        assert!(largest <= most + 4.0 * eps(dtype), "{name}: {largest}");
        Ok(())
    })
}

#[test]
fn determinants_are_those_of_single_matrices() -> Result<()> {
    every(|name, a, dtype| {
        if !name.starts_with("random") {
            return Ok(());
        }
        let all = linalg::det(a)?;
        let (sign, log) = linalg::slogdet(a)?;
        let n = a.dims()[1] as f64;
        for (i, one) in singles(a)?.iter().enumerate() {
            let (batched, single) = (all.select(0, i as i64)?, linalg::det(one)?);
            // The determinant's own condition: that of the matrix.
            let cond = sizes(&one.unsqueeze(0)?)?[0]
                * sizes(&linalg::inv(&one.to_dtype(wide(one)?.dtype())?)?.unsqueeze(0)?)?[0];
            let off = wide(&batched)?.sub(&wide(&single)?)?.abs()?.item::<f64>()?;
            let size = wide(&single)?.abs()?.item::<f64>()?;
            assert!(
                off <= 10.0 * n * eps(dtype) * cond * size,
                "{name}, matrix {i}: {off:e} of {size:e}, condition {cond:e}"
            );
            let (s, l) = linalg::slogdet(one)?;
            let off = sign.select(0, i as i64)?.sub(&s)?.abs()?.item::<f64>()?;
            assert!(off <= 10.0 * n * eps(dtype) * cond, "{name}: sign {off:e}");
            let off = log.select(0, i as i64)?.sub(&l)?.abs()?.item::<f64>()?;
            assert!(off <= 10.0 * n * eps(dtype) * cond, "{name}: log {off:e}");
        }
        Ok(())
    })
}

#[test]
fn solutions_and_inverses_have_small_residuals() -> Result<()> {
    every(|name, a, dtype| {
        if name.starts_with("deficient") || name.starts_with("mixed") {
            return Ok(());
        }
        let (count, n) = (a.dims()[0], a.dims()[1]);
        let mut s = Sampler::new(3, DType::F64);
        let of = sizes(a)?;
        let times = |x: &Tensor| -> Result<Vec<f64>> {
            Ok(of.iter().zip(sizes(x)?).map(|(a, x)| a * x).collect())
        };
        for cols in [1, 3, 8] {
            let b = random(&mut s, &[count, n, cols], dtype)?.to_dtype(dtype)?;
            let (x, info) = linalg::solve_ex(a, &b)?;
            if info.any()?.item::<bool>()? || !x.isfinite()?.all()?.item::<bool>()? {
                continue;
            }
            let off = wide(a)?.matmul(&wide(&x)?)?.sub(&wide(&b)?)?;
            small(&format!("solve of {name}"), &off, &times(&x)?, dtype)?;
        }
        let (x, info) = linalg::inv_ex(a)?;
        if name.starts_with("graded") || info.any()?.item::<bool>()? {
            return Ok(());
        }
        if x.isfinite()?.all()?.item::<bool>()? {
            let id = Tensor::eye(n, wide(a)?.dtype(), Device::Cpu)?;
            let off = wide(a)?.matmul(&wide(&x)?)?.sub(&id)?;
            small(&format!("inv of {name}"), &off, &times(&x)?, dtype)?;
        }
        Ok(())
    })
}

#[test]
fn triangular_systems_have_small_residuals() -> Result<()> {
    every(|name, a, dtype| {
        if !name.starts_with("random") {
            return Ok(());
        }
        let (count, n) = (a.dims()[0], a.dims()[1]);
        let mut s = Sampler::new(3, DType::F64);
        let a = a.add(&Tensor::eye(n, a.dtype(), Device::Cpu)?.mul(2.0 * n as f64)?)?;
        for (upper, unit) in [(true, false), (false, false), (true, true), (false, true)] {
            // With ones on the diagonal, what is beside it has to be small.
            let a = if unit {
                a.div(4.0 * n as f64)?
            } else {
                a.clone()
            };
            let whole = if upper { a.triu(0)? } else { a.tril(0)? };
            let whole = match unit {
                false => whole,
                true => whole
                    .sub(&linalg::diagonal(&whole)?.diag_embed(0, -2, -1)?)?
                    .add(&Tensor::eye(n, a.dtype(), Device::Cpu)?)?,
            };
            for cols in [1, 5, 8] {
                let b = random(&mut s, &[count, n, cols], dtype)?.to_dtype(dtype)?;
                let options = SolveTriangularOptions::new().unitriangular(unit);
                let x = linalg::solve_triangular_with(&a, &b, upper, options)?;
                let of: Vec<f64> = sizes(&whole)?
                    .iter()
                    .zip(sizes(&x)?)
                    .map(|(a, x)| a * x)
                    .collect();
                let off = wide(&whole)?.matmul(&wide(&x)?)?.sub(&wide(&b)?)?;
                small(&format!("triangular of {name}"), &off, &of, dtype)?;
            }
        }
        Ok(())
    })
}

#[test]
fn cholesky_multiplies_to_its_matrices() -> Result<()> {
    every(|name, a, dtype| {
        if name.starts_with("huge") || name.starts_with("tiny") || name.starts_with("mixed") {
            return Ok(());
        }
        let n = a.dims()[1];
        let shift = Tensor::eye(n, a.dtype(), Device::Cpu)?.mul(n as f64)?;
        let spd = a.matmul(&a.adjoint()?)?.add(&shift)?;
        let l = linalg::cholesky(&spd)?;
        let off = wide(&l)?.matmul(&wide(&l)?.adjoint()?)?.sub(&wide(&spd)?)?;
        small(&format!("cholesky of {name}"), &off, &sizes(&spd)?, dtype)?;
        assert_eq!(l, l.tril(0)?, "{name}");
        let r = linalg::cholesky_with(&spd, CholeskyOptions::new().upper(true))?;
        let off = wide(&r)?.adjoint()?.matmul(&wide(&r)?)?.sub(&wide(&spd)?)?;
        small(&format!("cholesky of {name}"), &off, &sizes(&spd)?, dtype)?;
        assert_eq!(r, r.triu(0)?, "{name}");
        Ok(())
    })
}

#[test]
fn qr_multiplies_to_its_matrices() -> Result<()> {
    every(|name, a, dtype| {
        let n = a.dims()[1];
        // Square, tall and wide ones.
        let k = n.div_ceil(2) as i64;
        for a in [a.clone(), a.narrow(2, 0, k)?, a.narrow(1, 0, k)?] {
            let (q, r) = linalg::qr(&a)?;
            orthonormal(&format!("qr of {name}"), &q, dtype)?;
            let off = wide(&q)?.matmul(&wide(&r)?)?.sub(&wide(&a)?)?;
            small(&format!("qr of {name}"), &off, &sizes(&a)?, dtype)?;
            assert_eq!(r, r.triu(0)?, "{name}");
        }
        Ok(())
    })
}

#[test]
fn eigenvectors_diagonalise() -> Result<()> {
    every(|name, a, dtype| {
        let a = a.add(&a.adjoint()?)?;
        for upper in [false, true] {
            let options = EighOptions::new().uplo(if upper { 'U' } else { 'L' });
            let (l, v) = linalg::eigh_with(&a, options)?;
            orthonormal(&format!("eigh of {name}"), &v, dtype)?;
            let v = wide(&v)?;
            let scaled = v.mul(&l.to_dtype(v.dtype())?.unsqueeze(1)?)?;
            let off = scaled.matmul(&v.adjoint()?)?.sub(&wide(&a)?)?;
            small(&format!("eigh of {name}"), &off, &sizes(&a)?, dtype)?;
            assert!(
                l.diff()?.ge(0.0)?.all()?.item::<bool>()?,
                "{name}: eigenvalues ascend"
            );
            let alone = linalg::eigvalsh(&a)?;
            let off = wide(&alone)?.sub(&wide(&l)?)?.unsqueeze(1)?;
            small(&format!("eigvalsh of {name}"), &off, &sizes(&a)?, dtype)?;
        }
        Ok(())
    })
}

#[test]
fn singular_vectors_diagonalise() -> Result<()> {
    every(|name, a, dtype| {
        let n = a.dims()[1];
        let k = n.div_ceil(2) as i64;
        for a in [a.clone(), a.narrow(2, 0, k)?, a.narrow(1, 0, k)?] {
            let thin = linalg::SvdOptions::new().full_matrices(false);
            let (u, s, vh) = linalg::svd_with(&a, thin)?;
            orthonormal(&format!("svd of {name}, left"), &u, dtype)?;
            orthonormal(&format!("svd of {name}, right"), &vh.adjoint()?, dtype)?;
            let scaled = wide(&u)?.mul(&s.to_dtype(wide(&u)?.dtype())?.unsqueeze(1)?)?;
            let off = scaled.matmul(&wide(&vh)?)?.sub(&wide(&a)?)?;
            small(&format!("svd of {name}"), &off, &sizes(&a)?, dtype)?;
            assert!(s.diff()?.le(0.0)?.all()?.item::<bool>()?, "{name}: descend");
            assert!(s.ge(0.0)?.all()?.item::<bool>()?, "{name}: negative");
            let alone = linalg::svdvals(&a)?;
            let off = wide(&alone)?.sub(&wide(&s)?)?.unsqueeze(1)?;
            small(&format!("svdvals of {name}"), &off, &sizes(&a)?, dtype)?;
        }
        Ok(())
    })
}

#[test]
fn exponentials_are_those_of_single_matrices_in_double_precision() -> Result<()> {
    every(|name, a, dtype| {
        if !name.starts_with("random") && !name.starts_with("graded") {
            return Ok(());
        }
        // Up to a norm of about 10, so that no result overflows.
        for norm in [0.1, 1.0, 10.0] {
            let a = a.mul(norm / (2.0 * a.dims()[1] as f64).sqrt() / 2.0)?;
            let all = linalg::matrix_exp(&a)?;
            for (i, one) in singles(&a)?.iter().enumerate() {
                let exact = linalg::matrix_exp(&wide(one)?)?;
                let off = wide(&all.select(0, i as i64)?)?.sub(&exact)?;
                // Squaring and the condition of the exponential multiply errors by the norm.
                let norm = 1.0 + sizes(&one.unsqueeze(0)?)?[0];
                let of = [sizes(&exact.unsqueeze(0)?)?[0] * norm];
                small(&format!("exp of {name}"), &off.unsqueeze(0)?, &of, dtype)?;
            }
        }
        Ok(())
    })
}

#[test]
fn what_is_wrong_with_a_matrix_stays_with_it() -> Result<()> {
    for dtype in DTYPES {
        let mut s = Sampler::new(9, DType::F64);
        for n in [2, 8, 17, 32] {
            let a = random(&mut s, &[19, n, n], dtype)?.to_dtype(dtype)?;
            let mut each = singles(&a)?;
            each[4] = each[4].zeros_like()?;
            let zero = Tensor::stack(&each, 0)?;
            let e = linalg::inv(&zero).unwrap_err().to_string();
            assert!(
                e.starts_with(
                    "linalg.inv: matrix 4 of the batch is singular: U[0, 0] is zero (LU)"
                ),
                "{e}"
            );
            let (_, info) = linalg::inv_ex(&zero)?;
            let info = info.to_vec::<i32>()?;
            assert!((0..19).all(|i| info[i] == i32::from(i == 4)), "{info:?}");
            assert_eq!(linalg::det(&zero)?.select(0, 4)?.abs()?.item::<f64>()?, 0.0);
            let (_, info) = linalg::cholesky_ex(&zero)?;
            assert_eq!(info.to_vec::<i32>()?[4], 1);

            for bad in [f64::NAN, f64::INFINITY] {
                each[4] = Tensor::full([n, n], bad, dtype, Device::Cpu)?;
                let odd = Tensor::stack(&each, 0)?;
                for e in [
                    linalg::svd(&odd).unwrap_err(),
                    linalg::eigh(&odd).unwrap_err(),
                ] {
                    let e = e.to_string();
                    assert!(
                        e.contains("matrix 4 of the batch has an infinity or a nan"),
                        "{e}"
                    );
                }
                let e = linalg::svdvals(&odd).unwrap_err().to_string();
                assert!(
                    e.starts_with("linalg.svdvals: matrix 4 of the batch has"),
                    "{e}"
                );
                for t in [
                    linalg::qr(&odd)?.1,
                    linalg::inv_ex(&odd)?.0,
                    linalg::matrix_exp(&odd)?,
                ] {
                    let fine = t.isfinite()?.flatten(1)?.all_dim(1, false)?;
                    let fine = fine.to_vec::<bool>()?;
                    assert!(
                        (0..19).all(|i| fine[i] == (i != 4)),
                        "{dtype} {n}: {fine:?}"
                    );
                }
            }
        }
    }
    Ok(())
}

#[test]
fn a_batch_gives_the_same_bits_wherever_its_matrices_stand() -> Result<()> {
    let mut s = Sampler::new(11, DType::F64);
    for dtype in [DType::F32, DType::F64] {
        for n in [3, 8, 20] {
            let a = s.real(&[37, n, n])?.to_dtype(dtype)?;
            let turned = a.flip([0])?;
            let (l, v) = linalg::eigh(&a.add(&a.transpose(-1, -2)?)?)?;
            let (m, w) = linalg::eigh(&turned.add(&turned.transpose(-1, -2)?)?)?;
            assert_eq!(l, m.flip([0])?);
            assert_eq!(v, w.flip([0])?);
            assert_eq!(linalg::inv(&a)?, linalg::inv(&turned)?.flip([0])?);
        }
    }
    Ok(())
}
