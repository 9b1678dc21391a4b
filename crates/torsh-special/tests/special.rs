//! Names, dtypes, gradients and refusals of the special functions. Their exactness is measured by
//! `torsh-conformance special`.

use torsh_autograd::{gradcheck, gradgradcheck};
use torsh_special as special;
use torsh_tensor::{DType, Result, Tensor, Value, ops, tensor};

/// PyTorch's 56 names.
const NAMES: [&str; 56] = [
    "airy_ai",
    "bessel_j0",
    "bessel_j1",
    "bessel_y0",
    "bessel_y1",
    "chebyshev_polynomial_t",
    "chebyshev_polynomial_u",
    "chebyshev_polynomial_v",
    "chebyshev_polynomial_w",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammainc",
    "gammaincc",
    "gammaln",
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
    "log1p",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logsumexp",
    "modified_bessel_i0",
    "modified_bessel_i1",
    "modified_bessel_k0",
    "modified_bessel_k1",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "round",
    "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1",
    "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
    "sinc",
    "softmax",
    "spherical_bessel_j0",
    "xlog1py",
    "xlogy",
    "zeta",
];

type Unary = fn(&Tensor) -> Result<Tensor>;
type Binary = fn(&Tensor, &Tensor) -> Result<Tensor>;

const UNARY: &[(&str, Unary)] = &[
    ("airy_ai", |x| special::airy_ai(x)),
    ("bessel_j0", |x| special::bessel_j0(x)),
    ("bessel_j1", |x| special::bessel_j1(x)),
    ("bessel_y0", |x| special::bessel_y0(x)),
    ("bessel_y1", |x| special::bessel_y1(x)),
    ("digamma", |x| special::digamma(x)),
    ("entr", |x| special::entr(x)),
    ("erfcx", |x| special::erfcx(x)),
    ("gammaln", |x| special::gammaln(x)),
    ("i0", |x| special::i0(x)),
    ("i0e", |x| special::i0e(x)),
    ("i1", |x| special::i1(x)),
    ("i1e", |x| special::i1e(x)),
    ("log_ndtr", |x| special::log_ndtr(x)),
    ("modified_bessel_i0", |x| special::modified_bessel_i0(x)),
    ("modified_bessel_i1", |x| special::modified_bessel_i1(x)),
    ("modified_bessel_k0", |x| special::modified_bessel_k0(x)),
    ("modified_bessel_k1", |x| special::modified_bessel_k1(x)),
    ("ndtr", |x| special::ndtr(x)),
    ("ndtri", |x| special::ndtri(x)),
    ("psi", |x| special::psi(x)),
    ("scaled_modified_bessel_k0", |x| {
        special::scaled_modified_bessel_k0(x)
    }),
    ("scaled_modified_bessel_k1", |x| {
        special::scaled_modified_bessel_k1(x)
    }),
    ("spherical_bessel_j0", |x| special::spherical_bessel_j0(x)),
];

const BINARY: &[(&str, Binary)] = &[
    ("chebyshev_polynomial_t", |x, n| {
        special::chebyshev_polynomial_t(x, n)
    }),
    ("chebyshev_polynomial_u", |x, n| {
        special::chebyshev_polynomial_u(x, n)
    }),
    ("chebyshev_polynomial_v", |x, n| {
        special::chebyshev_polynomial_v(x, n)
    }),
    ("chebyshev_polynomial_w", |x, n| {
        special::chebyshev_polynomial_w(x, n)
    }),
    ("gammainc", |x, y| special::gammainc(x, y)),
    ("gammaincc", |x, y| special::gammaincc(x, y)),
    ("hermite_polynomial_h", |x, n| {
        special::hermite_polynomial_h(x, n)
    }),
    ("hermite_polynomial_he", |x, n| {
        special::hermite_polynomial_he(x, n)
    }),
    ("laguerre_polynomial_l", |x, n| {
        special::laguerre_polynomial_l(x, n)
    }),
    ("legendre_polynomial_p", |x, n| {
        special::legendre_polynomial_p(x, n)
    }),
    ("shifted_chebyshev_polynomial_t", |x, n| {
        special::shifted_chebyshev_polynomial_t(x, n)
    }),
    ("shifted_chebyshev_polynomial_u", |x, n| {
        special::shifted_chebyshev_polynomial_u(x, n)
    }),
    ("shifted_chebyshev_polynomial_v", |x, n| {
        special::shifted_chebyshev_polynomial_v(x, n)
    }),
    ("shifted_chebyshev_polynomial_w", |x, n| {
        special::shifted_chebyshev_polynomial_w(x, n)
    }),
    ("xlog1py", |x, y| special::xlog1py(x, y)),
    ("xlogy", |x, y| special::xlogy(x, y)),
    ("zeta", |x, y| special::zeta(x, y)),
];

/// Whether two results agree bit for bit, nan with nan.
fn same(a: &Tensor, b: &Tensor) -> Result<bool> {
    let (a, b) = (a.to_dtype(DType::F64)?, b.to_dtype(DType::F64)?);
    let (a, b) = (a.to_vec::<f64>()?, b.to_vec::<f64>()?);
    Ok(a.len() == b.len()
        && a.iter()
            .zip(&b)
            .all(|(x, y)| x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan())))
}

#[test]
fn every_name_is_called_by_name() {
    for name in NAMES {
        assert!(ops::find(&format!("special.{name}")).is_some(), "{name}");
    }
    for name in [
        "lgamma",
        "digamma",
        "polygamma",
        "mvlgamma",
        "igamma",
        "igammac",
        "i0",
        "erfinv",
        "logit",
        "sinc",
        "xlogy",
    ] {
        assert!(ops::find(name).is_some(), "{name}");
    }
}

#[test]
fn functions_are_their_calls_by_name() -> Result<()> {
    let (x, y) = (tensor![0.3, 0.9], tensor![2.0, 3.0]);
    let by_name = |name: &str, args: &[&Tensor]| -> Result<Tensor> {
        let args: Vec<Value> = args.iter().map(|&t| t.clone().into()).collect();
        match ops::call(&format!("special.{name}"), &args, &[])? {
            Value::Tensor(t) => Ok(t),
            other => panic!("{name} gave {other:?}"),
        }
    };
    for (name, f) in UNARY {
        assert!(same(&f(&x)?, &by_name(name, &[&x])?)?, "{name}");
    }
    for (name, f) in BINARY {
        assert!(same(&f(&x, &y)?, &by_name(name, &[&x, &y])?)?, "{name}");
    }
    Ok(())
}

#[test]
fn narrow_dtypes_are_computed_wide_and_rounded_once() -> Result<()> {
    let x = tensor![0.0625, 0.25, 0.5, 0.75].to_dtype(DType::F32)?;
    let n = tensor![3.0, 2.0, 5.0, 4.0].to_dtype(DType::F32)?;
    for dtype in [DType::F16, DType::BF16] {
        let (narrow, order) = (x.to_dtype(dtype)?, n.to_dtype(dtype)?);
        for (name, f) in UNARY {
            let got = f(&narrow)?;
            assert_eq!(got.dtype(), dtype, "{name}");
            assert!(same(&got, &f(&x)?.to_dtype(dtype)?)?, "{name} in {dtype}");
        }
        for (name, f) in BINARY {
            let got = f(&narrow, &order)?;
            assert_eq!(got.dtype(), dtype, "{name}");
            assert!(
                same(&got, &f(&x, &n)?.to_dtype(dtype)?)?,
                "{name} in {dtype}"
            );
        }
    }
    Ok(())
}

#[test]
fn integers_become_the_default_dtype_and_complex_numbers_are_refused() -> Result<()> {
    let (ints, bools) = (tensor![1, 2], tensor![true, false]);
    let complex = tensor![1.0, 2.0].to_dtype(DType::C64)?;
    for (name, f) in UNARY {
        for x in [&ints, &bools] {
            let wide = f(&x.to_dtype(DType::F32)?)?;
            let got = f(x)?;
            assert_eq!(got.dtype(), DType::F32, "{name}");
            assert!(same(&got, &wide)?, "{name}");
        }
        let error = f(&complex).expect_err(name).to_string();
        assert!(error.contains("complex64"), "{name}: {error}");
    }
    for (name, f) in BINARY {
        let wide = f(&ints.to_dtype(DType::F32)?, &ints.to_dtype(DType::F32)?)?;
        if name.starts_with("gammainc") {
            // PyTorch has no igamma of integers.
            let error = f(&ints, &ints).expect_err(name).to_string();
            assert!(
                error.contains("igamma") && error.contains("int64"),
                "{error}"
            );
        } else {
            assert!(same(&f(&ints, &ints)?, &wide)?, "{name}");
        }
        assert!(f(&complex, &complex).is_err(), "{name}");
    }
    Ok(())
}

#[test]
fn second_operands_have_the_gradients_that_pytorch_has() -> Result<()> {
    let a = tensor![0.5, 2.0, 3.5, 40.0].to_dtype(DType::F64)?;
    let x = || -> Result<Tensor> {
        Ok(tensor![0.7, 1.5, 3.0, 42.0]
            .to_dtype(DType::F64)?
            .requires_grad_(true))
    };
    let s = tensor![1.5, 2.0, 3.5, 6.0].to_dtype(DType::F64)?;
    let functions: [Binary; 2] = [
        |a, x| special::gammainc(a, x),
        |a, x| special::gammaincc(a, x),
    ];
    for f in functions {
        gradcheck(|v| Ok(vec![f(&a, &v[0])?]), &[x()?])?;
        gradgradcheck(|v| Ok(vec![f(&a, &v[0])?]), &[x()?])?;
    }
    gradcheck(|v| Ok(vec![special::zeta(&s, &v[0])?]), &[x()?])?;
    gradgradcheck(|v| Ok(vec![special::zeta(&s, &v[0])?]), &[x()?])?;
    Ok(())
}

#[test]
fn gradients_that_pytorch_lacks_are_errors() -> Result<()> {
    let x = tensor![1.5, 2.5].requires_grad_(true);
    let functions: [Unary; 3] = [
        |x| special::zeta(x, 2.0),
        |x| special::gammainc(x, 2.0),
        |x| special::gammaincc(x, 2.0),
    ];
    for f in functions {
        let error = f(&x)?
            .sum()?
            .backward()
            .expect_err("no gradient")
            .to_string();
        assert!(error.contains("not implemented"), "{error}");
    }
    for (name, f) in UNARY
        .iter()
        .filter(|(n, _)| n.starts_with("airy") || n.contains("sc"))
    {
        let error = f(&x)?.sum()?.backward().expect_err(name).to_string();
        assert!(error.contains("not implemented"), "{name}: {error}");
    }
    Ok(())
}

/// Slopes where the formula would divide by 0.
#[test]
fn gradients_at_zero_are_the_limits() -> Result<()> {
    let functions: [Unary; 3] = [
        |x| special::bessel_j1(x),
        |x| special::i1(x),
        |x| special::i1e(x),
    ];
    for f in functions {
        let x = tensor![0.0].requires_grad_(true);
        f(&x)?.sum()?.backward()?;
        assert_eq!(x.grad().expect("a leaf's gradient"), tensor![0.5]);
    }
    Ok(())
}

#[test]
fn methods_write_in_place() -> Result<()> {
    let x = tensor![0.5, 1.5];
    for (out, f) in [
        (x.i0()?, Tensor::i0_ as fn(&Tensor) -> Result<Tensor>),
        (x.polygamma(2)?, |x| x.polygamma_(2)),
        (x.add(2.0)?.mvlgamma(3)?, |x| x.add_(2.0)?.mvlgamma_(3)),
        (x.igamma(2.0)?, |x| x.igamma_(2.0)),
        (x.igammac(2.0)?, |x| x.igammac_(2.0)),
    ] {
        let y = x.copy()?;
        f(&y)?;
        assert_eq!(y, out);
    }
    Ok(())
}

#[test]
fn hostile_orders_end_soon() -> Result<()> {
    let x = tensor![
        -3.0,
        -1.0,
        -0.5,
        0.0,
        0.5,
        1.0,
        3.0,
        f64::NAN,
        f64::INFINITY
    ]
    .to_dtype(DType::F64)?;
    for n in [
        1e18,
        9.3e18,
        -1e18,
        1e6,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        0.0,
        -0.5,
    ] {
        for (_, f) in BINARY {
            let order = Tensor::from_data(&[n], &[1])?;
            assert_eq!(f(&x, &order)?.numel(), 9);
            assert_eq!(f(&order, &x)?.numel(), 9);
        }
    }
    for n in [150, 151, 1000, 1 << 40, i64::MAX] {
        assert_eq!(special::polygamma(n, &x)?.numel(), 9);
    }
    assert_eq!(special::multigammaln(&x, 100_000)?.numel(), 9);
    let error = special::polygamma(-1, &x)
        .expect_err("negative")
        .to_string();
    assert!(
        error.contains("polygamma") && error.contains("-1"),
        "{error}"
    );
    for p in [0, -1, i64::MAX] {
        let error = special::multigammaln(&x, p).expect_err("p").to_string();
        assert!(
            error.contains("mvlgamma") && error.contains(&p.to_string()),
            "{error}"
        );
    }
    Ok(())
}

/// Values far from the golden points.
#[test]
fn values_are_exact_in_the_extremes() -> Result<()> {
    let close = |got: Tensor, want: f64| -> Result<()> {
        let got = got.item::<f64>()?;
        assert!((got / want - 1.0).abs() < 1e-13, "{got:e}, not {want:e}");
        Ok(())
    };
    let at = |x: f64| Tensor::from_data(&[x], &[1]);
    close(special::polygamma(200, at(10.0)?)?, -7.886578711401554e+173)?;
    close(special::zeta(at(50.0)?, at(30.0)?)?, 1.7339354776081936e-74)?;
    close(
        special::gammainc(at(1e6)?, at(1.001e6)?)?,
        0.8413447863683403,
    )?;
    close(
        special::gammaincc(at(1e6)?, at(1.01e6)?)?,
        1.0606997477586902e-23,
    )?;
    close(special::ndtri(at(1e-300)?)?, -37.0470962993612)?;
    close(special::log_ndtr(at(-1e8)?)?, -5e15)?;
    close(
        special::chebyshev_polynomial_t(at(1.0001)?, 2000.0)?,
        960661906676.3579,
    )?;
    Ok(())
}
