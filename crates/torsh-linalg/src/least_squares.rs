//! Least squares, pseudoinverses and ranks.

use smallvec::smallvec;
use torsh_core::DType;
use torsh_tensor::call::Arg;
use torsh_tensor::record::{Backward, OpRecord, Plan, Sample, Spec, sample};
use torsh_tensor::{Autocast, Result, Tensor, TorshError, Value, no_grad};

use crate::attrs;
use crate::attrs::LstsqDriver;
use crate::help::{
    alike, batch, broadcast, check_dtype, check_matrix, check_square, is_vector, matrices, shape,
    sides, within,
};
use crate::kernels::epsilon;
use crate::kernels::keys;
use crate::options::{LstsqOptions, PinvOptions, Tolerance};
use crate::spectral::{eigvalsh, svdvals, text};

pub(crate) const RECORDS: &[&OpRecord] = &[
    &LSTSQ_KERNEL,
    &LSTSQ,
    &PINV_KERNEL,
    &PINV,
    &PINVERSE,
    &MATRIX_RANK,
];

/// The results of [`lstsq`], with PyTorch's names.
#[derive(Clone, Debug)]
pub struct Lstsq {
    /// The solutions, `[.., n, k]`.
    pub solution: Tensor,
    /// The squared residuals `[.., k]`, where every matrix has full rank and more rows than columns, else empty; also empty
    /// for the driver `gelsy`.
    pub residuals: Tensor,
    /// The ranks, int64, of the shape of the batch; empty for the driver `gels`.
    pub rank: Tensor,
    /// The singular values `[.., min(m, n)]`, for the drivers `gelsd` and `gelss`, else empty.
    pub singular_values: Tensor,
}

static LSTSQ_KERNEL: OpRecord = OpRecord::new(
    "_linalg_lstsq",
    "Least squares solutions, ranks and singular values.",
    "(Tensor A, Tensor B, *, float rcond, str driver)",
)
.internal()
.with_key(&keys::LSTSQ, |c| {
    let (a, b) = (matrices(c, 0)?, c.tensor(1)?);
    alike(a, b)?;
    c.attrs::<attrs::LinalgLstsq>()?;
    let ((m, n), (rows, cols)) = (sides(a), sides(b));
    if rows != m {
        let text = format!(
            "A of shape {} and B of shape {} have not as many rows",
            a.shape(),
            b.shape()
        );
        return Err(TorshError::shape("", text));
    }
    let dtype = a.dtype();
    Ok(Plan::many(
        dtype,
        [
            Spec::new(shape(batch(a), &[n, cols]), dtype),
            Spec::new(shape(batch(a), &[]), DType::I64),
            Spec::new(shape(batch(a), &[m.min(n)]), dtype.to_real()),
        ],
    ))
})
.autocast(Autocast::Fp32)
.backward(Backward::Full {
    inputs: 0b11,
    outputs: 0,
    constant: 0b110,
    formula: |c| {
        let (a, b, g) = (c.input(0)?, c.input(1)?, c.g());
        let inverse = pinv(&a)?;
        let gb = inverse.adjoint()?.matmul(g)?;
        let ga = match c.needs(0) {
            true => Some(pinv_gradient(&g.matmul(&b.adjoint()?)?, &inverse, &a)?),
            false => None,
        };
        Ok(smallvec![ga, Some(gb)])
    },
});

static LSTSQ: OpRecord = OpRecord::new(
    "linalg.lstsq",
    "The X of the least norm of A X - B, with residuals, ranks and singular values.",
    "(Tensor A, Tensor B, float? rcond=None, *, str? driver=None)",
)
.by_name(|b| {
    let options = LstsqOptions {
        rcond: b.opt_float(2),
        driver: text(b.value(3)),
    };
    let all = lstsq_with(b.tensor(0)?, b.tensor(1)?, options)?;
    let parts = [all.solution, all.residuals, all.rank, all.singular_values];
    Ok(Value::Tuple(parts.map(Value::Tensor).into()))
})
.samples(|s| {
    Ok(vec![
        sample![s.real(&[3, 3])?, s.real(&[3, 2])?],
        sample![s.real(&[4, 2])?, s.real(&[4, 1])?, driver = "gels"],
        sample![
            s.complex(&[2, 2, 3])?,
            s.complex(&[2, 2, 1])?,
            driver = "gelsd"
        ],
    ])
});

static PINV_KERNEL: OpRecord = OpRecord::new(
    "_linalg_pinv",
    "Pseudoinverses of matrices.",
    "(Tensor A, Tensor atol, Tensor rtol, *, bool hermitian)",
)
.internal()
.with_key(&keys::PINV, |c| {
    let (a, real) = (matrices(c, 0)?, c.tensor(0)?.dtype().to_real());
    let (m, n) = sides(a);
    if c.attrs::<attrs::LinalgPinv>()?.hermitian {
        check_square(a)?;
    }
    for t in [c.tensor(1)?, c.tensor(2)?] {
        if t.dtype() != real || t.dims() != batch(a) {
            let text = format!(
                "the tolerances of {} matrices are {real} of the shape of the batch",
                a.shape()
            );
            return Err(TorshError::shape("", text));
        }
    }
    Ok(Plan::one(a.dtype(), shape(batch(a), &[n, m]), a.dtype()))
})
.autocast(Autocast::Fp32)
.grads(1, 1, |c| {
    let g = pinv_gradient(c.g(), &c.out()?, &c.input(0)?)?;
    Ok(smallvec![Some(g), None, None])
});

/// The gradient of a matrix from that of its pseudoinverse, as PyTorch's `pinv_backward`.
fn pinv_gradient(g: &Tensor, inverse: &Tensor, a: &Tensor) -> Result<Tensor> {
    let (m, n) = sides(a);
    let (ih, gh) = (inverse.adjoint()?, g.adjoint()?);
    if m <= n {
        let k = gh.matmul(inverse)?;
        let k_ih = k.matmul(&ih)?;
        return inverse
            .matmul(&k)?
            .adjoint()?
            .neg()?
            .add(&k_ih)?
            .sub(&a.matmul(inverse)?.matmul(&k_ih)?)?
            .add(&ih.matmul(inverse)?.matmul(&gh.sub(&k.matmul(a)?)?)?);
    }
    let k = inverse.matmul(&gh)?;
    let ih_k = ih.matmul(&k)?;
    k.matmul(inverse)?
        .adjoint()?
        .neg()?
        .add(&gh.sub(&a.matmul(&k)?)?.matmul(inverse)?.matmul(&ih)?)?
        .add(&ih_k)?
        .sub(&ih_k.matmul(inverse)?.matmul(a)?)
}

static PINV: OpRecord = OpRecord::new(
    "linalg.pinv",
    "The pseudoinverses of matrices.",
    "(Tensor A, *, Operand? atol=None, Operand? rtol=None, bool hermitian=False)",
)
.by_name(|b| {
    let options = PinvOptions {
        atol: tolerance(b.value(1)),
        rtol: tolerance(b.value(2)),
        hermitian: b.bool(3),
    };
    pinv_with(b.tensor(0)?, options).map(Value::Tensor)
})
.samples(|s| {
    let shapes: [&[usize]; 3] = [&[3, 3], &[4, 2], &[2, 2, 3]];
    let mut all: Vec<Sample> = shapes
        .iter()
        .map(|x| Ok(sample![s.real(x)?]))
        .collect::<Result<_>>()?;
    all.push(sample![s.complex(&[3, 2])?]);
    Ok(all)
});

fn tolerance(v: &Value) -> Option<Tolerance> {
    match v {
        Value::Tensor(t) => Some(Tolerance::Tensor(t.clone())),
        Value::Int(i) => Some(Tolerance::Number(*i as f64)),
        Value::Float(f) => Some(Tolerance::Number(*f)),
        _ => None,
    }
}

#[torsh_tensor::by_name(pinverse)]
static PINVERSE: OpRecord = OpRecord::new(
    "pinverse",
    "The pseudoinverses of matrices; linalg.pinv has replaced it.",
    "(Tensor input, float rcond=1e-15)",
)
.samples(|s| Ok(vec![sample![s.real(&[3, 2])?]]));

static MATRIX_RANK: OpRecord = OpRecord::new(
    "linalg.matrix_rank",
    "The ranks of matrices: how many singular values are not small.",
    "(Tensor A, *, Operand? atol=None, Operand? rtol=None, bool hermitian=False)",
)
.by_name(|b| {
    let options = PinvOptions {
        atol: tolerance(b.value(1)),
        rtol: tolerance(b.value(2)),
        hermitian: b.bool(3),
    };
    matrix_rank_with(b.tensor(0)?, options).map(Value::Tensor)
})
.constant()
.samples(|s| Ok(vec![sample![s.real(&[2, 3, 2])?]]));

/// The least squares solutions: the `X` of the least norm `|A X - B|`, and of these the one of the least norm `|X|`
/// (`torch.linalg.lstsq`).
///
/// `a` is `[.., m, n]`, `b` `[.., m, k]` or, beside the batch of `a`, `[.., m]`. The driver `gelsy` (the default), `gelsd`
/// and `gelss` find the rank; `gels` is faster and needs full rank. The gradient is that of `pinv(A) B`.
///
/// It minimises `||A X - B||`. The default driver tries a QR factorisation, which costs about `2 m n^2` operations for
/// `m >= n`, and takes singular values where the rank may be deficient.
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// // A line through three points.
/// let a = tensor![[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]];
/// let fit = linalg::lstsq(&a, &tensor![[1.0], [3.0], [5.0]])?;
/// assert!(fit.solution.allclose(&tensor![[2.0], [1.0]])?);
/// assert_eq!(fit.rank.item::<i64>()?, 2);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If the shapes do not go together, the dtype is not float32, float64, complex64 or complex128, a matrix has a nan or
/// infinity, or with `gels` has not full rank.
#[track_caller]
pub fn lstsq(a: &Tensor, b: &Tensor) -> Result<Lstsq> {
    lstsq_with(a, b, LstsqOptions::new())
}

/// [`lstsq`] with options.
///
/// ```
/// use torsh_linalg::{self as linalg, LstsqOptions};
/// use torsh_tensor::tensor;
/// let a = tensor![[3.0, 0.0], [0.0, 0.0]];
/// let fit = linalg::lstsq_with(&a, &tensor![[6.0], [1.0]], LstsqOptions::new().driver("gelsd"))?;
/// assert!(fit.solution.allclose(&tensor![[2.0], [0.0]])?);
/// assert!(fit.singular_values.allclose(&tensor![3.0, 0.0])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`lstsq`], and for another driver.
#[torsh_tensor::names_caller]
pub fn lstsq_with(a: &Tensor, b: &Tensor, options: LstsqOptions) -> Result<Lstsq> {
    within("linalg.lstsq", &[a, b], || {
        check_matrix(a)?;
        check_dtype(a)?;
        let name = options.driver.as_deref().unwrap_or("gelsy");
        let Some(driver) = LstsqDriver::parse(name) else {
            let text = format!("driver is 'gels', 'gelsy', 'gelsd' or 'gelss', got '{name}'");
            return Err(TorshError::invalid("", text));
        };
        let (m, n) = sides(a);
        let vector = is_vector(a, b);
        let matrix = if vector { b.unsqueeze(-1)? } else { b.clone() };
        check_matrix(&matrix)?;
        let (a, matrix) = broadcast(a, &matrix)?;
        let rcond = options
            .rcond
            .unwrap_or(epsilon(a.dtype()) * m.max(n) as f64);
        let attrs = attrs::LinalgLstsq { rcond, driver };
        let mut outs = LSTSQ_KERNEL
            .call(&[Arg::T(&a), Arg::T(&matrix)], &attrs)?
            .into_iter();
        let (Some(x), Some(rank), Some(values)) = (outs.next(), outs.next(), outs.next()) else {
            return Err(TorshError::failed("", "the kernel gave too few results"));
        };
        let empty = |dtype| Tensor::zeros([0], dtype, a.device());
        let full = driver == LstsqDriver::Gels
            || !rank.device().has_data()
            || rank.detach().eq(n as i64)?.all()?.item::<bool>()?;
        let residuals = match m > n && full && driver != LstsqDriver::Gelsy {
            true => {
                let off = a.matmul(&x)?.sub(&matrix)?.abs()?;
                off.mul(&off)?.sum_dim(-2, false)?
            }
            // Empty, but of the graph, as PyTorch's.
            false => x.abs()?.flatten(0)?.narrow(0, 0, 0)?,
        };
        Ok(Lstsq {
            solution: if vector { x.squeeze(-1)? } else { x },
            residuals,
            rank: if driver == LstsqDriver::Gels {
                empty(DType::I64)?
            } else {
                rank
            },
            singular_values: match driver {
                LstsqDriver::Gelsd | LstsqDriver::Gelss => values,
                _ => empty(a.dtype().to_real())?,
            },
        })
    })
}

/// The two tolerances for each matrix of a batch.
fn tolerances(a: &Tensor, options: &PinvOptions) -> Result<(Tensor, Tensor)> {
    let (m, n) = sides(a);
    let real = a.dtype().to_real();
    let of = |t: &Tolerance| -> Result<Tensor> {
        match t {
            Tolerance::Number(v) => Tensor::full(batch(a), *v, real, a.device()),
            Tolerance::Tensor(t) if t.dtype().is_complex() => Err(TorshError::dtype(
                "",
                format!("a tolerance is a real number, got {}", t.dtype()),
            )),
            Tolerance::Tensor(t) => t.detach().to_dtype(real)?.expand(batch(a)),
        }
    };
    let usual = epsilon(a.dtype()) * m.max(n) as f64;
    let atol = match &options.atol {
        Some(t) => of(t)?,
        None => of(&Tolerance::Number(0.0))?,
    };
    let rtol = match (&options.rtol, &options.atol) {
        (Some(t), _) => of(t)?,
        (None, None) => of(&Tolerance::Number(usual))?,
        // An absolute tolerance stands alone, where it is not 0.
        (None, Some(_)) => Tensor::where_(&atol.gt(0)?, 0.0, &of(&Tolerance::Number(usual))?)?,
    };
    Ok((atol, rtol.to_dtype(real)?))
}

/// The pseudoinverses of matrices, of Moore and Penrose (`torch.linalg.pinv`), `[.., n, m]` for `[.., m, n]`. Singular
/// values up to the larger of `atol` and `rtol` times the largest count as zero.
///
/// It is made by a QR factorisation where all singular values are surely above that limit, else from singular values, at
/// the cost of [`svd`](crate::svd). To solve least squares, [`lstsq`] is cheaper.
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// let inverse = linalg::pinv(&tensor![[2.0, 0.0], [0.0, 0.0], [0.0, 0.0]])?;
/// assert!(inverse.allclose(&tensor![[0.5, 0.0, 0.0], [0.0, 0.0, 0.0]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If `a` is not a batch of matrices of float32, float64, complex64 or complex128, or has a nan or infinity.
#[track_caller]
pub fn pinv(a: &Tensor) -> Result<Tensor> {
    pinv_with(a, PinvOptions::new())
}

/// [`pinv`] with options.
///
/// ```
/// use torsh_linalg::{self as linalg, PinvOptions};
/// use torsh_tensor::tensor;
/// let a = tensor![[2.0, 0.0], [0.0, 0.5]];
/// let inverse = linalg::pinv_with(&a, PinvOptions::new().atol(1.0))?;
/// assert!(inverse.allclose(&tensor![[0.5, 0.0], [0.0, 0.0]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`pinv`], and for tolerances that do not broadcast to the batch.
#[torsh_tensor::names_caller]
pub fn pinv_with(a: &Tensor, options: PinvOptions) -> Result<Tensor> {
    within("linalg.pinv", &[a], || {
        check_matrix(a)?;
        check_dtype(a)?;
        let (atol, rtol) = tolerances(a, &options)?;
        let attrs = attrs::LinalgPinv {
            hermitian: options.hermitian,
        };
        PINV_KERNEL.call1(&[Arg::T(a), Arg::T(&atol), Arg::T(&rtol)], &attrs)
    })
}

/// The pseudoinverses of matrices, with singular values up to `rcond` times the largest as zero (`torch.pinverse`, whose
/// default is 1e-15).
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// assert!(linalg::pinverse(&tensor![[2.0]], 1e-15)?.allclose(&tensor![[0.5]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`pinv`].
#[torsh_tensor::names_caller]
pub fn pinverse(a: &Tensor, rcond: f64) -> Result<Tensor> {
    pinv_with(a, PinvOptions::new().rtol(rcond)).map_err(|e| e.renamed("pinverse"))
}

/// The ranks of matrices (`torch.linalg.matrix_rank`), int64: how many singular values are above the larger of `atol` and
/// `rtol` times the largest.
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::ones;
/// assert_eq!(linalg::matrix_rank(&ones(&[3, 3]))?.item::<i64>()?, 1);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`pinv`].
#[track_caller]
pub fn matrix_rank(a: &Tensor) -> Result<Tensor> {
    matrix_rank_with(a, PinvOptions::new())
}

/// [`matrix_rank`] with options.
///
/// ```
/// use torsh_linalg::{self as linalg, PinvOptions};
/// use torsh_tensor::tensor;
/// let a = tensor![[2.0, 0.0], [0.0, 0.5]];
/// assert_eq!(linalg::matrix_rank_with(&a, PinvOptions::new().atol(1.0))?.item::<i64>()?, 1);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`pinv_with`].
#[torsh_tensor::names_caller]
pub fn matrix_rank_with(a: &Tensor, options: PinvOptions) -> Result<Tensor> {
    within("linalg.matrix_rank", &[a], || {
        check_matrix(a)?;
        check_dtype(a)?;
        no_grad(|| {
            let s = match options.hermitian {
                true => eigvalsh(a)?.abs()?,
                false => svdvals(a)?,
            };
            if s.numel() == 0 {
                return Tensor::zeros(batch(a), DType::I64, a.device());
            }
            let (atol, rtol) = tolerances(a, &options)?;
            let cut = atol.maximum(&rtol.mul(&s.amax(-1, false)?)?)?;
            s.gt(&cut.unsqueeze(-1)?)?
                .to_dtype(DType::I64)?
                .sum_dim(-1, false)
        })
    })
}
