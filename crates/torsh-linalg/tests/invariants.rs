//! Decompositions and solvers by what defines them: residuals and orthogonality, in the four dtypes, of square, tall, wide,
//! deficient, repeated, clustered, graded and scaled matrices of sizes 0 to 200, and some of 430.

use crate::common::{DTYPES, eps, wide};
use torsh_linalg::{self as linalg, LstsqOptions, QrMode, QrOptions, SvdOptions};
use torsh_tensor::sample::Sampler;
use torsh_tensor::{DType, Device, Result, Tensor, tensor};

/// The 2-norm of all elements, without overflow.
fn size(t: &Tensor) -> Result<f64> {
    if t.numel() == 0 {
        return Ok(0.0);
    }
    let top = t.abs()?.max()?.item::<f64>()?;
    if top == 0.0 {
        return Ok(0.0);
    }
    Ok(wide(t)?.div(top)?.norm()?.item::<f64>()? * top)
}

/// Asserts that `off` is at most `10 n eps` of `of`.
fn small(what: &str, off: &Tensor, of: f64, n: usize, dtype: DType) -> Result<()> {
    let (off, most) = (size(off)?, 10.0 * n.max(1) as f64 * eps(dtype) * of);
    // What is left of numbers that are too small for the dtype.
    let tiny = if eps(dtype) > 1e-10 { 1e-42 } else { 0.0 };
    assert!(
        off <= most + tiny,
        "{what}: {off:e} of {of:e} is more than {most:e}"
    );
    Ok(())
}

/// Asserts that the columns are orthonormal.
fn orthonormal(what: &str, q: &Tensor, n: usize, dtype: DType) -> Result<()> {
    let q = wide(q)?;
    let k = q.dims()[1];
    let id = Tensor::eye(k, q.dtype(), Device::Cpu)?;
    let off = q.adjoint()?.matmul(&q)?.sub(&id)?;
    small(
        &format!("{what}, orthogonality"),
        &off,
        (k as f64).sqrt().max(1.0),
        n,
        dtype,
    )
}

struct Case {
    name: String,
    a: Tensor,
}

fn random(s: &mut Sampler, m: usize, n: usize, dtype: DType) -> Result<Tensor> {
    match dtype.is_complex() {
        true => s.complex(&[m, n]),
        false => s.real(&[m, n]),
    }
}

fn cases(dtype: DType) -> Result<Vec<Case>> {
    let mut s = Sampler::new(23, DType::F64);
    let mut all = Vec::new();
    let mut add = |name: &str, a: Tensor| -> Result<()> {
        all.push(Case {
            name: format!("{dtype} {name} {}", a.shape()),
            a: a.to_dtype(dtype)?,
        });
        Ok(())
    };
    for n in [0, 1, 2, 3, 5, 8, 17, 64, 200] {
        add("random", random(&mut s, n, n, dtype)?)?;
        if n == 200 || n == 0 {
            continue;
        }
        let a = random(&mut s, n, n, dtype)?;
        let k = n.div_ceil(2);
        let low = random(&mut s, n, k, dtype)?.matmul(&random(&mut s, k, n, dtype)?)?;
        add("deficient", low)?;
        add(
            "repeated",
            Tensor::eye(n, a.dtype(), Device::Cpu)?.mul(3.0)?,
        )?;
        add("zero", a.zeros_like()?)?;
        let (q, _) = linalg::qr(&a)?;
        let near = torsh_tensor::arange(0.0, n as f64, 1.0)
            .to_dtype(DType::F64)?
            .mul(1e-9)?
            .add(1.0)?;
        add(
            "clustered",
            q.mul(&near.to_dtype(q.dtype())?)?.matmul(&q.adjoint()?)?,
        )?;
        let steps: Vec<f64> = (0..n)
            .map(|i| 10f64.powf(-10.0 * i as f64 / n.max(2) as f64))
            .collect();
        let grade = Tensor::from_data(&steps, [n])?.to_dtype(a.dtype())?;
        add("graded", a.mul(&grade)?.mul(&grade.unsqueeze(-1)?)?)?;
        let scale = if eps(dtype) > 1e-10 { 1e30 } else { 1e150 };
        add("huge", a.mul(scale)?)?;
        add("tiny", a.div(scale)?)?;
        add("tall", random(&mut s, 2 * n + 1, n, dtype)?)?;
        add("wide", random(&mut s, n, 2 * n + 1, dtype)?)?;
        add("very tall", random(&mut s, 12 * n, n, dtype)?)?;
    }
    add("empty rows", random(&mut s, 0, 3, dtype)?)?;
    add("empty columns", random(&mut s, 3, 0, dtype)?)?;
    Ok(all)
}

fn each(f: impl Fn(&Case, DType) -> Result<()>) -> Result<()> {
    for dtype in DTYPES {
        for case in cases(dtype)? {
            f(&case, dtype).map_err(|e| e.with_hint(format!("in the case {}", case.name)))?;
        }
    }
    Ok(())
}

#[test]
fn qr_holds() -> Result<()> {
    each(|Case { name, a }, dtype| {
        let (m, n) = (a.dims()[0], a.dims()[1]);
        for mode in [QrMode::Reduced, QrMode::Complete] {
            let (q, r) = linalg::qr_with(a, QrOptions { mode })?;
            let k = if mode == QrMode::Complete {
                m
            } else {
                m.min(n)
            };
            assert_eq!((q.dims(), r.dims()), (&[m, k][..], &[k, n][..]), "{name}");
            // In units of the matrix, so that no product overflows.
            let unit = size(a)?.max(f64::MIN_POSITIVE);
            let off = wide(&q)?
                .matmul(&wide(&r)?.div(unit)?)?
                .sub(&wide(a)?.div(unit)?)?;
            small(&format!("qr {name}"), &off, 1.0, m.max(n), dtype)?;
            orthonormal(&format!("qr {name}"), &q, m.max(n), dtype)?;
            assert_eq!(r, r.triu(0)?, "{name}");
            let only = linalg::qr_with(a, QrOptions { mode: QrMode::R })?.1;
            assert_eq!(only.dims(), &[m.min(n), n], "{name}");
        }
        Ok(())
    })
}

fn svd_of(Case { name, a }: &Case, dtype: DType) -> Result<()> {
    let (m, n) = (a.dims()[0], a.dims()[1]);
    let k = m.min(n);
    for full_matrices in [false, true] {
        if full_matrices && m.max(n) > 100 {
            continue;
        }
        let (u, s, vh) = linalg::svd_with(
            a,
            SvdOptions {
                full_matrices,
                driver: None,
            },
        )?;
        let (p, q) = if full_matrices { (m, n) } else { (k, k) };
        assert_eq!(
            (u.dims(), s.dims(), vh.dims()),
            (&[m, p][..], &[k][..], &[q, n][..]),
            "{name}"
        );
        let unit = size(a)?.max(f64::MIN_POSITIVE);
        let (u1, v1) = (wide(&u.narrow(1, 0, k)?)?, wide(&vh.narrow(0, 0, k)?)?);
        let s1 = s.to_dtype(DType::F64)?.div(unit)?.to_dtype(u1.dtype())?;
        let off = u1.mul(&s1)?.matmul(&v1)?.sub(&wide(a)?.div(unit)?)?;
        small(&format!("svd {name}"), &off, 1.0, m.max(n), dtype)?;
        orthonormal(&format!("svd U {name}"), &u, m.max(n), dtype)?;
        orthonormal(&format!("svd V {name}"), &vh.adjoint()?, m.max(n), dtype)?;
        let values = s.to_vec::<f64>()?;
        assert!(
            values.windows(2).all(|w| w[0] >= w[1]) && values.iter().all(|&v| v >= 0.0),
            "{name}"
        );
        let alone = linalg::svdvals(a)?;
        small(
            &format!("svdvals {name}"),
            &alone.sub(&s)?,
            values.first().copied().unwrap_or(0.0),
            m.max(n),
            dtype,
        )?;
    }
    Ok(())
}

#[test]
fn svd_holds() -> Result<()> {
    each(svd_of)
}

fn eigh_of(Case { name, a }: &Case, dtype: DType) -> Result<()> {
    if a.dims()[0] != a.dims()[1] {
        return Ok(());
    }
    let n = a.dims()[0];
    let a = a.mul(0.5)?.add(&a.adjoint()?.mul(0.5)?)?;
    let (l, v) = linalg::eigh(&a)?;
    let unit = size(&a)?.max(f64::MIN_POSITIVE);
    let (w, v1) = (wide(&a)?.div(unit)?, wide(&v)?);
    let l1 = l.to_dtype(DType::F64)?.div(unit)?.to_dtype(v1.dtype())?;
    small(
        &format!("eigh {name}"),
        &w.matmul(&v1)?.sub(&v1.mul(&l1)?)?,
        1.0,
        n,
        dtype,
    )?;
    orthonormal(&format!("eigh {name}"), &v, n, dtype)?;
    let values = l.to_vec::<f64>()?;
    assert!(values.windows(2).all(|w| w[0] <= w[1]), "{name}");
    small(
        &format!("eigvalsh {name}"),
        &linalg::eigvalsh(&a)?.sub(&l)?,
        unit,
        n,
        dtype,
    )
}

#[test]
fn eigh_holds() -> Result<()> {
    each(eigh_of)
}

#[test]
fn large_matrices_hold() -> Result<()> {
    let n = 430;
    for dtype in [DType::F32, DType::F64] {
        let mut s = Sampler::new(29, DType::F64);
        let check = |name: &str, a: Tensor| {
            let case = Case {
                name: format!("{dtype} {name} {}", a.shape()),
                a: a.to_dtype(dtype)?,
            };
            eigh_of(&case, dtype)?;
            svd_of(&case, dtype)
        };
        let a = random(&mut s, n, n, dtype)?;
        check("random", a.clone())?;
        // A few singular values that are far below the precision, and a large null space.
        for k in [n - 5, n / 2] {
            let low = random(&mut s, n, k, dtype)?.matmul(&random(&mut s, k, n, dtype)?)?;
            check("deficient", low)?;
        }
        let steps: Vec<f64> = (0..n)
            .map(|i| 10f64.powf(-9.0 * i as f64 / n as f64))
            .collect();
        check("graded", a.mul(&Tensor::from_data(&steps, [n])?)?)?;
        check("tall", random(&mut s, 2 * n + 1, n, dtype)?)?;
    }
    Ok(())
}

#[test]
fn eig_holds() -> Result<()> {
    each(|Case { name, a }, dtype| {
        // The decomposition does not balance rows of very different sizes first, which LAPACK's does.
        if a.dims()[0] != a.dims()[1] || name.contains("graded") {
            return Ok(());
        }
        let n = a.dims()[0];
        let (l, v) = linalg::eig(a)?;
        let unit = size(a)?.max(f64::MIN_POSITIVE);
        let (w, v1) = (wide(a)?.to_dtype(DType::C128)?.div(unit)?, wide(&v)?);
        let l1 = wide(&l)?.div(unit)?;
        let off = w.matmul(&v1)?.sub(&v1.mul(&l1)?)?;
        small(
            &format!("eig {name}"),
            &off,
            (n as f64).sqrt().max(1.0),
            n,
            dtype,
        )?;
        for j in 0..n {
            let length = size(&v.narrow(1, j, 1)?)?;
            assert!(
                (length - 1.0).abs() < 100.0 * eps(dtype),
                "{name}: {length}"
            );
        }
        Ok(())
    })
}

#[test]
fn lu_and_its_solutions_hold() -> Result<()> {
    each(|Case { name, a }, dtype| {
        let (m, n) = (a.dims()[0], a.dims()[1]);
        let (p, l, u) = linalg::lu(a)?;
        let unit = size(a)?.max(f64::MIN_POSITIVE);
        let off = wide(&p)?
            .matmul(&wide(&l)?)?
            .matmul(&wide(&u)?.div(unit)?)?;
        small(
            &format!("lu {name}"),
            &off.sub(&wide(a)?.div(unit)?)?,
            1.0,
            m.max(n),
            dtype,
        )?;
        assert_eq!((l.clone(), u.clone()), (l.tril(0)?, u.triu(0)?), "{name}");
        if m != n || !(name.contains("random") || name.contains("huge") || name.contains("tiny")) {
            return Ok(());
        }
        let b = a.narrow(1, 0, n.min(2))?.copy()?;
        let x = linalg::solve(a, &b)?;
        let residual = wide(a)?
            .div(unit)?
            .matmul(&wide(&x)?)?
            .sub(&wide(&b)?.div(unit)?)?;
        small(
            &format!("solve {name}"),
            &residual,
            size(&x)?.max(1.0),
            n,
            dtype,
        )?;
        let x = linalg::inv(a)?;
        let scaled = wide(&x)?.mul(unit)?;
        let id = Tensor::eye(n, scaled.dtype(), Device::Cpu)?;
        let residual = wide(a)?.div(unit)?.matmul(&scaled)?.sub(&id)?;
        small(&format!("inv {name}"), &residual, size(&scaled)?, n, dtype)?;
        let (ld, pivots) = linalg::ldl_factor(&a.add(&a.transpose(0, 1)?)?)?;
        let x = linalg::ldl_solve(&ld, &pivots, &b)?;
        let whole = wide(&a.add(&a.transpose(0, 1)?)?)?.div(unit)?;
        let residual = whole.matmul(&wide(&x)?)?.sub(&wide(&b)?.div(unit)?)?;
        small(
            &format!("ldl {name}"),
            &residual,
            2.0 * size(&x)?.max(1.0),
            n,
            dtype,
        )
    })
}

#[test]
fn cholesky_holds() -> Result<()> {
    each(|Case { name, a }, dtype| {
        if name.contains("huge") || name.contains("tiny") {
            return Ok(());
        }
        let n = a.dims()[0];
        let id = Tensor::eye(n, a.dtype(), Device::Cpu)?;
        let a = a.matmul(&a.adjoint()?)?.add(&id)?;
        let l = linalg::cholesky(&a)?;
        let w = wide(&l)?;
        small(
            &format!("cholesky {name}"),
            &w.matmul(&w.adjoint()?)?.sub(&wide(&a)?)?,
            size(&a)?,
            n,
            dtype,
        )?;
        assert_eq!(l, l.tril(0)?, "{name}");
        let root = linalg::matrix_sqrth(&a)?;
        let w = wide(&root)?;
        small(
            &format!("matrix_sqrth {name}"),
            &w.matmul(&w)?.sub(&wide(&a)?)?,
            size(&a)?,
            n,
            dtype,
        )
    })
}

#[test]
fn polar_and_least_squares_hold() -> Result<()> {
    each(|Case { name, a }, dtype| {
        let (m, n) = (a.dims()[0], a.dims()[1]);
        if m < n || m.max(n) > 100 {
            return Ok(());
        }
        let unit = size(a)?.max(f64::MIN_POSITIVE);
        let (u, h) = linalg::polar(a)?;
        let off = wide(&u)?
            .matmul(&wide(&h)?.div(unit)?)?
            .sub(&wide(a)?.div(unit)?)?;
        small(&format!("polar {name}"), &off, 1.0, m, dtype)?;
        orthonormal(&format!("polar {name}"), &u, m, dtype)?;
        assert_eq!(h, h.adjoint()?, "{name}");
        if !(name.contains("random") || name.contains("tall")) || n == 0 {
            return Ok(());
        }
        // The residual is orthogonal to the columns.
        let b = a.narrow(1, 0, 1)?.add(1.0)?;
        for driver in ["gels", "gelsy", "gelsd", "gelss"] {
            let fit = linalg::lstsq_with(a, &b, LstsqOptions::new().driver(driver))?;
            let residual = wide(a)?.matmul(&wide(&fit.solution)?)?.sub(&wide(&b)?)?;
            let along = wide(a)?.adjoint()?.matmul(&residual)?;
            let of = unit * (unit * size(&fit.solution)? + size(&b)?);
            small(&format!("lstsq {driver} {name}"), &along, of, m, dtype)?;
        }
        Ok(())
    })
}

#[test]
fn batches_are_their_matrices() -> Result<()> {
    let mut s = Sampler::new(29, DType::F64);
    for dtype in DTYPES {
        for n in [1, 4, 30] {
            let a = match dtype.is_complex() {
                true => s.complex(&[2, 3, n, n])?,
                false => s.real(&[2, 3, n, n])?,
            };
            let a = a.to_dtype(dtype)?;
            let spd = a.matmul(&a.adjoint()?)?;
            let one = |t: &Tensor| t.select(0, 1)?.select(0, 2);
            let inverse = linalg::inv(&one(&a)?)?;
            let (eigenvalues, vectors) = linalg::eigh(&spd)?;
            let (values, alone) = linalg::eigh(&one(&spd)?)?;
            // Where real matrices are decomposed side by side, rounding differs from that of one by itself, by as much
            // as the condition of the problem allows; directions may have the other sign.
            let cond = size(&one(&a)?)? * size(&inverse)?;
            let whole = |l: &Tensor, v: &Tensor| -> Result<Tensor> {
                let v = wide(v)?;
                v.mul(&l.to_dtype(v.dtype())?)?.matmul(&v.adjoint()?)
            };
            let pairs = [
                ("inv", one(&linalg::inv(&a)?)?, inverse, cond),
                (
                    "svdvals",
                    one(&linalg::svdvals(&a)?)?,
                    linalg::svdvals(&one(&a)?)?,
                    1.0,
                ),
                ("eigvalsh", one(&eigenvalues)?, values.clone(), 1.0),
                (
                    "eigh",
                    whole(&one(&eigenvalues)?, &one(&vectors)?)?,
                    whole(&values, &alone)?,
                    1.0,
                ),
                (
                    "qr",
                    one(&linalg::qr(&a)?.0)?,
                    linalg::qr(&one(&a)?)?.0,
                    cond,
                ),
                (
                    "det",
                    one(&linalg::det(&a)?)?,
                    linalg::det(&one(&a)?)?,
                    cond,
                ),
                (
                    "matrix_exp",
                    one(&linalg::matrix_exp(&a)?)?,
                    linalg::matrix_exp(&one(&a)?)?,
                    1.0 + size(&one(&a)?)?,
                ),
            ];
            for (name, batched, single, by) in pairs {
                let off = wide(&batched)?.sub(&wide(&single)?)?;
                let of = by * size(&single)?;
                small(&format!("{name} {dtype} {n}"), &off, of, n, dtype)?;
                // Complex ones take the same path.
                assert!(!dtype.is_complex() || batched == single, "{name} {dtype}");
            }
            // Another layout of the same matrices.
            let turned = a.transpose(-2, -1)?.copy()?.transpose(-2, -1)?;
            assert_eq!(linalg::inv(&turned)?, linalg::inv(&a)?);
        }
    }
    Ok(())
}

#[test]
fn exponentials_of_known_matrices() -> Result<()> {
    for dtype in DTYPES {
        for angle in [1e-4, 0.2, 1.0, 2.5, 10.0, 300.0] {
            let a = Tensor::from_data(&[0.0f64, -angle, angle, 0.0], [2, 2])?.to_dtype(dtype)?;
            let e = linalg::matrix_exp(&a)?;
            let (sin, cos) = f64::sin_cos(angle);
            let exact =
                Tensor::from_data(&[cos, -sin, sin, cos], [2, 2])?.to_dtype(wide(&e)?.dtype())?;
            let off = size(&wide(&e)?.sub(&exact)?)?;
            assert!(
                off <= 20.0 * eps(dtype) * angle.max(1.0),
                "{dtype} {angle}: {off:e}"
            );
        }
    }
    Ok(())
}

#[test]
fn words_stand_for_options() -> Result<()> {
    let a = tensor![[3.0, 0.0], [0.0, -4.0]];
    let norm = |ord: &str| {
        let options = linalg::MatrixNormOptions::new().ord(ord);
        linalg::matrix_norm_with(&a, options)?.item::<f32>()
    };
    assert!((norm("nuc")? - 7.0).abs() < 1e-5);
    assert_eq!((norm("fro")?, norm("inf")?, norm("-inf")?), (5.0, 4.0, 3.0));
    let text = norm("nuclear").unwrap_err().to_string();
    assert!(
        text.contains("nuclear is not a valid value for ord"),
        "{text}"
    );
    assert!(
        text.contains("ord is \"fro\", \"nuc\", \"inf\" or \"-inf\""),
        "{text}"
    );
    let r = linalg::qr_with(&a, QrOptions::new().mode("r"))?;
    assert_eq!((r.0.numel(), r.1.dims()), (0, &[2, 2][..]));
    let text = linalg::qr_with(&a, QrOptions::new().mode("full"))
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("mode is \"reduced\", \"complete\" or \"r\""),
        "{text}"
    );
    let lower = tensor![[1.0, 9.0], [0.0, 2.0]];
    let of = |uplo: &str| linalg::eigvalsh_with(&lower, linalg::EighOptions::new().uplo(uplo));
    assert!(of("L")?.allclose(&tensor![1.0, 2.0])?);
    assert!(of("x").is_err());
    Ok(())
}
