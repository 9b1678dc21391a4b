//! gradcheck and gradgradcheck, in float64 and complex128, of every differentiable op: on its record's samples, or, where
//! an op reads one triangle or gives vectors that are free up to a phase, on functions without that freedom.

use torsh_autograd::{gradcheck, gradgradcheck};
use torsh_linalg::{
    self as linalg, EighOptions, LobpcgOptions, LstsqOptions, PinvOptions, SvdOptions,
};
use torsh_tensor::ops::{self, families};
use torsh_tensor::record::{Backward, OpRecord, Sample, Samples};
use torsh_tensor::sample::Sampler;
use torsh_tensor::{DType, Result, Tensor, Value};

/// Ops whose samples are not checked as they are, and why.
const ELSEWHERE: &[(&str, &str)] = &[
    (
        "_householder_product",
        "without elements it has no gradient; linalg.householder_product is checked",
    ),
    (
        "cholesky_solve",
        "reads one triangle; checked on triangular factors below",
    ),
    (
        "cholesky_inverse",
        "reads one triangle; checked on triangular factors below",
    ),
    (
        "_solve_factor",
        "what cholesky_solve calls, whose checks run it",
    ),
    (
        "linalg.cholesky_ex",
        "reads one triangle; checked on Hermitian matrices below",
    ),
    (
        "linalg.cholesky",
        "reads one triangle; checked on Hermitian matrices below",
    ),
    (
        "cholesky",
        "reads one triangle; checked on Hermitian matrices below",
    ),
    (
        "linalg.svd",
        "vectors are free up to a phase; checked on their products below",
    ),
    (
        "svd",
        "vectors are free up to a phase; checked on their products below",
    ),
    ("_linalg_svd", "what linalg.svd calls, whose checks run it"),
    (
        "linalg.eigh",
        "reads one triangle, and vectors are free up to a phase; checked below",
    ),
    (
        "linalg.eigvalsh",
        "reads one triangle; checked on Hermitian matrices below",
    ),
    (
        "_linalg_eigh",
        "what linalg.eigh calls, whose checks run it",
    ),
    (
        "linalg.eig",
        "vectors are free up to a phase; checked on their products below",
    ),
    ("_linalg_eig", "what linalg.eig calls, whose checks run it"),
    (
        "linalg.matrix_sqrth",
        "reads one triangle; checked on Hermitian matrices below",
    ),
    (
        "_sylvester_hermitian",
        "the derivative of linalg.polar, whose gradgradcheck runs its own",
    ),
    (
        "lobpcg",
        "reads one triangle, and vectors are free up to a phase; checked below",
    ),
    ("_linalg_qr", "what linalg.qr calls, whose checks run it"),
    ("_linalg_det", "what linalg.det calls, whose checks run it"),
    (
        "_linalg_slogdet",
        "what linalg.slogdet calls, whose checks run it",
    ),
    (
        "_linalg_lstsq",
        "what linalg.lstsq calls, whose checks run it",
    ),
    (
        "_linalg_pinv",
        "what linalg.pinv calls, whose checks run it",
    ),
    (
        "linalg.ldl_solve",
        "the factors have no derivative; the right-hand side is checked below",
    ),
    ("linalg.ldl_factor", "PyTorch has no derivative either"),
    ("linalg.ldl_factor_ex", "PyTorch has no derivative either"),
    (
        "geqrf",
        "PyTorch has no derivative either: linalg.qr has one",
    ),
    (
        "svd_lowrank",
        "draws random numbers; made of ops that are checked",
    ),
    (
        "pca_lowrank",
        "draws random numbers; made of ops that are checked",
    ),
];

fn leaves_of(v: &Value, out: &mut Vec<Tensor>) {
    match v {
        Value::Tensor(t) if matches!(t.dtype(), DType::F64 | DType::C128) => {
            out.push(t.detach().requires_grad_(true));
        }
        Value::List(l) | Value::Tuple(l) => l.iter().for_each(|v| leaves_of(v, out)),
        _ => {}
    }
}

fn replace(v: &Value, from: &mut std::slice::Iter<'_, Tensor>) -> Value {
    match v {
        Value::Tensor(t) if matches!(t.dtype(), DType::F64 | DType::C128) => {
            Value::Tensor(from.next().cloned().unwrap_or_else(|| t.clone()))
        }
        Value::List(l) => Value::List(l.iter().map(|v| replace(v, from)).collect()),
        Value::Tuple(l) => Value::Tuple(l.iter().map(|v| replace(v, from)).collect()),
        v => v.clone(),
    }
}

fn check(record: &'static OpRecord, sample: Sample) -> std::result::Result<(), String> {
    let mut leaves = Vec::new();
    let named = sample.kwargs.iter().map(|(_, v)| v);
    sample
        .args
        .iter()
        .chain(named)
        .for_each(|v| leaves_of(v, &mut leaves));
    let run = |x: &[Tensor]| {
        let mut from = x.iter();
        let args: Vec<Value> = sample.args.iter().map(|v| replace(v, &mut from)).collect();
        let kwargs: Vec<(&str, Value)> = sample
            .kwargs
            .iter()
            .map(|(n, v)| (*n, replace(v, &mut from)))
            .collect();
        Ok(ops::call(record.base_name(), &args, &kwargs)?.tensors())
    };
    gradcheck(run, &leaves).map_err(|e| format!("gradcheck: {e}"))?;
    gradgradcheck(run, &leaves).map_err(|e| format!("gradgradcheck: {e}"))?;
    Ok(())
}

#[test]
fn every_differentiable_op_passes_on_its_samples() {
    let (mut wrong, mut checked) = (Vec::new(), 0);
    let records = families().iter().flat_map(|f| f.records);
    for record in records.filter(|r| !ELSEWHERE.iter().any(|(n, _)| *n == r.name)) {
        let differentiable = match record.backward {
            Backward::NonDifferentiable => continue,
            Backward::Missing => false,
            Backward::Composite | Backward::PerInput(_) | Backward::Full { .. } => true,
        };
        let Samples::Calls(samples) = record.samples else {
            wrong.push(format!("{}: without samples", record.name));
            continue;
        };
        assert!(
            differentiable,
            "{}: no derivative, and no reason",
            record.name
        );
        let samples = samples(&mut Sampler::new(7, DType::F64)).expect("samples");
        for (i, sample) in samples.into_iter().enumerate() {
            match check(record, sample) {
                Ok(()) => checked += 1,
                Err(e) => wrong.push(format!("{}: sample {i}: {e}", record.name)),
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} checked, wrong:\n{}",
        checked,
        wrong.join("\n")
    );
    assert!(checked > 80, "{checked}");
}

#[test]
fn reasons_are_of_ops_that_exist() {
    for (name, reason) in ELSEWHERE {
        assert!(
            ops::records().any(|r| r.name == *name),
            "{name} is not there"
        );
        assert!(reason.len() > 20);
    }
}

type Function = fn(&[Tensor]) -> Result<Vec<Tensor>>;

fn hermitian(a: &Tensor) -> Result<Tensor> {
    a.add(&a.adjoint()?)?.mul(0.5)
}

/// A Hermitian positive definite matrix of any matrix.
fn positive(a: &Tensor) -> Result<Tensor> {
    let n = a.dims()[a.ndim() - 1];
    a.matmul(&a.adjoint()?)?
        .add(&Tensor::eye(n, a.dtype(), a.device())?)
}

/// Weights that tell the values of a decomposition apart.
fn weighted(v: &Tensor, like: &Tensor) -> Result<Tensor> {
    let k = v.dims()[v.ndim() - 1];
    let w = torsh_tensor::arange(1.0, k as f64 + 1.0, 1.0).to_dtype(like.dtype())?;
    v.mul(&w)
}

fn passes(name: &str, f: Function, inputs: &[Tensor]) {
    let leaves: Vec<Tensor> = inputs
        .iter()
        .map(|t| t.detach().requires_grad_(true))
        .collect();
    gradcheck(f, &leaves).unwrap_or_else(|e| panic!("{name}: gradcheck: {e}"));
    gradgradcheck(f, &leaves).unwrap_or_else(|e| panic!("{name}: gradgradcheck: {e}"));
}

#[test]
fn functions_of_hermitian_matrices_pass() -> Result<()> {
    let mut s = Sampler::new(3, DType::F64);
    let all: [(&str, Function); 8] = [
        ("cholesky", |x| {
            Ok(vec![linalg::cholesky(&positive(&x[0])?)?])
        }),
        ("cholesky, upper", |x| {
            let options = linalg::CholeskyOptions { upper: true };
            Ok(vec![linalg::cholesky_with(&positive(&x[0])?, options)?])
        }),
        ("eigvalsh", |x| {
            Ok(vec![linalg::eigvalsh(&hermitian(&x[0])?)?])
        }),
        ("eigh", |x| {
            let (l, v) = linalg::eigh(&hermitian(&x[0])?)?;
            let projector = weighted(&v, &v)?.matmul(&v.adjoint()?)?;
            Ok(vec![l, projector, v.abs()?])
        }),
        ("eigh, upper", |x| {
            let (l, v) = linalg::eigh_with(&hermitian(&x[0])?, EighOptions { uplo: 'U' })?;
            Ok(vec![l, v.abs()?])
        }),
        ("matrix_sqrth", |x| {
            Ok(vec![linalg::matrix_sqrth(&positive(&x[0])?)?])
        }),
        ("pinv, hermitian", |x| {
            let options = PinvOptions::new().hermitian(true);
            Ok(vec![linalg::pinv_with(&positive(&x[0])?, options)?])
        }),
        ("lobpcg", |x| {
            let (l, v) = linalg::lobpcg_with(&positive(&x[0])?, LobpcgOptions::new().k(2))?;
            Ok(vec![l, v.abs()?])
        }),
    ];
    for (name, f) in all {
        passes(name, f, &[s.real(&[3, 3])?]);
        passes(name, f, &[s.complex(&[2, 3, 3])?]);
    }
    Ok(())
}

#[test]
fn singular_vectors_pass() -> Result<()> {
    let mut s = Sampler::new(5, DType::F64);
    let thin: Function = |x| {
        let options = SvdOptions {
            full_matrices: false,
            ..Default::default()
        };
        let (u, s, vh) = linalg::svd_with(&x[0], options)?;
        Ok(vec![weighted(&u, &u)?.matmul(&vh)?, s, u.abs()?, vh.abs()?])
    };
    let left: Function = |x| Ok(vec![linalg::svd(&x[0])?.0.narrow(-1, 0, 2)?.abs()?]);
    for shape in [&[3, 3][..], &[4, 2], &[2, 3], &[2, 3, 2]] {
        for x in [s.real(shape)?, s.complex(shape)?] {
            passes("svd", thin, &[x.clone()]);
            passes("svd, left vectors", left, &[x]);
        }
    }
    Ok(())
}

#[test]
fn eigenvectors_pass() -> Result<()> {
    let mut s = Sampler::new(11, DType::F64);
    let f: Function = |x| {
        let (l, v) = linalg::eig(&x[0])?;
        let function = v
            .mul(&l.mul(&l)?.unsqueeze(-2)?)?
            .matmul(&linalg::inv(&v)?)?;
        Ok(vec![function, v.abs()?])
    };
    let d = s.distinct(&[3])?.mul(20.0)?.diag(0)?;
    passes("eig", f, &[s.real(&[3, 3])?.add(&d)?]);
    passes("eig", f, &[s.complex(&[3, 3])?.add(&d)?]);
    // A pair of complex eigenvalues.
    let turn = Tensor::from_data(&[1.0f64, -2.0, 0.3, 2.0, 1.5, 0.2, 0.1, 0.4, -3.0], [3, 3])?;
    passes("eig of a rotation", f, &[turn]);
    Ok(())
}

#[test]
fn solutions_of_vectors_and_factors_pass() -> Result<()> {
    let mut s = Sampler::new(13, DType::F64);
    passes(
        "lstsq",
        |x| {
            let options = LstsqOptions::new().driver("gelss");
            let all = linalg::lstsq_with(&x[0], &x[1], options)?;
            Ok(vec![all.solution, all.residuals])
        },
        &[s.real(&[4, 2])?, s.real(&[4, 2])?],
    );
    passes(
        "ldl_solve",
        |x| {
            let a = Tensor::from_data(&[2.0f64, 1.0, 1.0, -3.0], [2, 2])?;
            let (ld, pivots) = linalg::ldl_factor(&a)?;
            Ok(vec![linalg::ldl_solve(&ld, &pivots, &x[0])?])
        },
        &[s.real(&[2, 2])?],
    );
    passes(
        "lu",
        |x| {
            let (_, l, u) = linalg::lu(&x[0])?;
            Ok(vec![l, u])
        },
        &[s.complex(&[2, 3, 2])?],
    );
    Ok(())
}

#[test]
fn functions_of_cholesky_factors_pass() -> Result<()> {
    let mut s = Sampler::new(19, DType::F64);
    let f: Function = |x| {
        let l = x[0].tril(0)?;
        let upper = linalg::CholeskyOptions { upper: true };
        Ok(vec![
            linalg::cholesky_solve(&x[1], &l)?,
            linalg::cholesky_inverse(&l)?,
            linalg::cholesky_solve_with(&x[1], &l.adjoint()?, upper)?,
        ])
    };
    passes("cholesky_solve", f, &[s.real(&[3, 3])?, s.real(&[3, 2])?]);
    passes(
        "cholesky_solve",
        f,
        &[s.complex(&[2, 2, 2])?, s.complex(&[2, 1])?],
    );
    Ok(())
}

/// The determinant is smooth where it is 0. As in PyTorch, only a recorded gradient uses the formula that knows it:
/// the other one, by LU factors, gives 0.
#[test]
fn determinants_of_singular_matrices_have_a_gradient() -> Result<()> {
    let a = Tensor::from_data(&[1.0f64, 2.0, 2.0, 4.0], [2, 2])?.requires_grad_(true);
    let expected = Tensor::from_data(&[4.0f64, -2.0, -2.0, 1.0], [2, 2])?;
    for graph in [false, true] {
        let expected = if graph {
            expected.clone()
        } else {
            expected.mul(0.0)?
        };
        let g = torsh_tensor::grad(
            &[linalg::det(&a)?],
            &[a.clone()],
            &[None],
            graph,
            graph,
            false,
        )?;
        let off = g[0]
            .as_ref()
            .expect("a gradient")
            .sub(&expected)?
            .abs()?
            .max()?
            .item::<f64>()?;
        assert!(off < 1e-9, "{off}");
    }
    Ok(())
}

#[test]
fn losses_that_depend_on_a_phase_are_refused() -> Result<()> {
    let a = Sampler::new(17, DType::F64)
        .complex(&[3, 3])?
        .requires_grad_(true);
    let e = linalg::svd(&a)?
        .0
        .real()?
        .sum()?
        .backward()
        .expect_err("svd");
    assert!(
        e.to_string()
            .contains("linalg.svd: complex singular vectors are determined up to a phase"),
        "{e}"
    );
    let e = linalg::eigh(&hermitian(&a)?)?
        .1
        .real()?
        .sum()?
        .backward()
        .expect_err("eigh");
    assert!(
        e.to_string()
            .contains("linalg.eigh: complex eigenvectors are determined up to a phase"),
        "{e}"
    );
    Ok(())
}

/// The gradients of functions at matrices with equal singular values or eigenvalues, where those of vectors alone divide
/// by 0. Values are PyTorch's.
#[test]
fn values_alone_at_equal_values() -> Result<()> {
    type F = fn(&Tensor) -> Result<Tensor>;
    let eye = |n: usize| Tensor::eye(n, DType::F64, torsh_tensor::Device::Cpu);
    let zeros = Tensor::zeros([2, 3], DType::F64, torsh_tensor::Device::Cpu)?;
    let rotation = Tensor::from_data(&[0.6f64, -0.8, 0.8, 0.6], [2, 2])?;
    let gradient = |f: F, a: &Tensor| -> Result<Tensor> {
        let a = a.detach().requires_grad_(true);
        f(&a)?.backward()?;
        Ok(a.grad().expect("a gradient"))
    };
    let check = |name: &str, f: F, a: &Tensor, want: &Tensor| -> Result<()> {
        let g = gradient(f, a)?;
        let off = g.sub(want)?.abs()?.max()?.item::<f64>()?;
        assert!(off < 1e-12, "{name}: {g}, not {want}");
        Ok(())
    };
    fn norm(op: &str, a: &Tensor, ord: impl Into<Value>) -> Result<Tensor> {
        match ops::call(op, &[a.clone().into(), ord.into()], &[])? {
            Value::Tensor(t) => Ok(t),
            other => panic!("{other:?}"),
        }
    }
    let sums: [(&str, F); 6] = [
        ("svdvals", |a| linalg::svdvals(a)?.sum()),
        ("S of svd", |a| {
            linalg::svd_with(a, SvdOptions::new().full_matrices(false))?
                .1
                .sum()
        }),
        ("S of the full svd", |a| linalg::svd(a)?.1.sum()),
        ("S of old svd", |a| linalg::old_svd(a)?.1.sum()),
        ("nuclear norm", |a| norm("linalg.norm", a, "nuc")),
        ("nuclear matrix norm", |a| {
            norm("linalg.matrix_norm", a, "nuc")
        }),
    ];
    for (name, f) in sums {
        check(name, f, &eye(3)?, &eye(3)?)?;
        check(name, f, &rotation, &rotation)?;
        check(name, f, &zeros, &eye(3)?.narrow(0, 0, 2)?)?;
    }
    let spectral: [(&str, F); 2] = [
        ("spectral norm", |a| norm("linalg.norm", a, 2.0)),
        ("least singular value", |a| {
            norm("linalg.matrix_norm", a, -2.0)
        }),
    ];
    for (name, f) in spectral {
        check(name, f, &eye(3)?, &eye(3)?.div(3.0)?)?;
        check(name, f, &rotation, &rotation.div(2.0)?)?;
        check(name, f, &zeros, &eye(3)?.narrow(0, 0, 2)?.div(2.0)?)?;
    }
    // A condition number: of vectors that are free, but the derivative along the matrix itself is 0.
    let g = gradient(linalg::cond, &rotation)?;
    assert!(g.mul(&rotation)?.sum()?.item::<f64>()?.abs() < 1e-12, "{g}");
    let values: [(&str, F); 4] = [
        ("eigvalsh", |a| linalg::eigvalsh(a)?.sum()),
        ("values of eigh", |a| linalg::eigh(a)?.0.sum()),
        ("eigvals", |a| linalg::eigvals(a)?.real()?.sum()),
        ("values of eig", |a| linalg::eig(a)?.0.real()?.sum()),
    ];
    for (name, f) in values {
        check(name, f, &eye(3)?, &eye(3)?)?;
        check(name, f, &eye(2)?.mul(0.0)?, &eye(2)?)?;
    }
    Ok(())
}

/// Factors of no reflectors have no gradient, as in PyTorch, and the product is no view of its operand.
#[test]
fn products_of_no_reflectors() -> Result<()> {
    let leaf = |shape: &[usize]| -> Result<Tensor> {
        let t = Tensor::ones(shape, DType::F64, torsh_tensor::Device::Cpu)?;
        Ok(t.requires_grad_(true))
    };
    let (a, tau) = (leaf(&[3, 2])?, leaf(&[0])?);
    let q = linalg::householder_product(&a, &tau)?;
    let eye = Tensor::eye_nm(3, 2, DType::F64, torsh_tensor::Device::Cpu)?;
    assert!(q.requires_grad() && q.detach() == eye, "{q}");
    q.sum()?.backward()?;
    assert!(a.grad().is_none() && tau.grad().is_none());
    let (a, tau, other) = (leaf(&[3, 0])?, leaf(&[0])?, leaf(&[3, 2])?);
    let y = linalg::ormqr(&a, &tau, &other)?;
    y.sum()?.backward()?;
    assert!(a.grad().is_none() && tau.grad().is_none());
    assert_eq!(other.grad(), Some(other.detach()));
    torsh_tensor::no_grad(|| y.add_(1.0))?;
    assert_eq!(other.sum()?.item::<f64>()?, 6.0);
    Ok(())
}

/// Norms of matrices without elements, as PyTorch's: 0, of which those along an empty dimension have no history.
#[test]
fn norms_of_empty_matrices() -> Result<()> {
    let call = |shape: &[usize], ord: Value| -> Result<Option<Vec<f64>>> {
        let a = Tensor::zeros(shape, DType::F64, torsh_tensor::Device::Cpu)?.requires_grad_(true);
        let dims = vec![-2i64, -1];
        let y = ops::call("linalg.norm", &[(&a).into(), ord, dims.into()], &[])?;
        let y = y.tensors().remove(0);
        assert!(y.to_vec::<f64>()?.iter().all(|v| *v == 0.0), "{y}");
        if !y.requires_grad() {
            return Ok(None);
        }
        y.sum()?.backward()?;
        a.grad().expect("a gradient").to_vec().map(Some)
    };
    let (inf, recorded) = (f64::INFINITY, Some(Vec::new()));
    for shape in [&[0, 0][..], &[0, 3], &[3, 0], &[2, 0, 0], &[2, 0, 3]] {
        for ord in [Value::None, "fro".into(), "nuc".into()] {
            assert_eq!(call(shape, ord)?, recorded);
        }
        let [.., rows, columns] = *shape else {
            continue;
        };
        assert_eq!(call(shape, 2.0.into())?, None);
        assert_eq!(call(shape, 1.0.into())?.is_some(), columns > 0, "{shape:?}");
        assert_eq!(call(shape, inf.into())?.is_some(), rows > 0, "{shape:?}");
        assert!(call(shape, (-2.0).into()).is_err());
        assert_eq!(call(shape, (-1.0).into()).is_ok(), columns > 0, "{shape:?}");
        assert_eq!(call(shape, (-inf).into()).is_ok(), rows > 0, "{shape:?}");
    }
    Ok(())
}
