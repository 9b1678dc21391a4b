//! Singular value decompositions and eigenvalues.

use smallvec::smallvec;
use torsh_tensor::call::{Arg, Outputs};

use torsh_tensor::record::{Backward, OpRecord, Plan, Sample, Spec, sample};
use torsh_tensor::sample::Sampler;
use torsh_tensor::{
    Autocast, BackwardCx, Grads, Result, Tensor, TorshError, Value, is_grad_enabled,
};

use crate::attrs;
use crate::cholesky::positive_definite;
use crate::help::{batch, diagonal, embed, matrices, shape, sides, squares, within};
use crate::kernels::keys;
use crate::options::{EighOptions, OldSvdOptions, SvdOptions, SvdvalsOptions};
use crate::solve::solve;

pub(crate) const RECORDS: &[&OpRecord] = &[
    &SVD_KERNEL,
    &SVD,
    &SVDVALS,
    &OLD_SVD,
    &EIGH_KERNEL,
    &EIGH,
    &EIGVALSH,
    &EIG_KERNEL,
    &EIG,
    &EIGVALS,
];

static SVD_KERNEL: OpRecord = OpRecord::new(
    "_linalg_svd",
    "Singular values of matrices, with or without singular vectors.",
    "(Tensor A, *, bool full_matrices, bool vectors)",
)
.internal()
.with_key(&keys::SVD, |c| {
    let a = matrices(c, 0)?;
    let &attrs::LinalgSvd {
        full_matrices,
        vectors,
    } = c.attrs()?;
    let (m, n) = sides(a);
    let (k, dtype) = (m.min(n), a.dtype());
    let (p, q) = if full_matrices { (m, n) } else { (k, k) };
    let values = Spec::new(shape(batch(a), &[k]), dtype.to_real());
    Ok(match vectors {
        false => Plan::many(dtype, [values]),
        true => Plan::many(
            dtype,
            [
                Spec::new(shape(batch(a), &[m, p]), dtype),
                values,
                Spec::new(shape(batch(a), &[q, n]), dtype),
            ],
        ),
    })
})
.autocast(Autocast::Fp32)
.backward(Backward::Full {
    inputs: 0,
    outputs: 0b111,
    constant: 0,
    formula: svd_backward,
});

/// The derivative of the decomposition, as PyTorch's `svd_backward`.
fn svd_backward(c: &BackwardCx<'_>) -> Result<Grads> {
    if !c.attrs::<attrs::LinalgSvd>()?.vectors {
        return Err(TorshError::autograd(
            "linalg.svdvals",
            "singular values without vectors were computed while nothing was recorded",
        ));
    }
    let (u, s, vh) = (c.output(0)?, c.output(1)?, c.output(2)?);
    let k = s.dims()[s.ndim() - 1];
    let (m, n) = (sides(&u).0, sides(&vh).1);
    let (u, vh) = (u.narrow(-1, 0, k)?, vh.narrow(-2, 0, k)?);
    let gu = c.grad(0).map(|g| g.narrow(-1, 0, k)).transpose()?;
    let gvh = c.grad(2).map(|g| g.narrow(-2, 0, k)).transpose()?;
    let gs = c.grad(1).map(|g| g.to_dtype(u.dtype())).transpose()?;
    if gu.is_none() && gvh.is_none() {
        let gs = gs.map_or_else(|| s.zeros_like(), Ok)?;
        return Ok(smallvec![Some(u.mul(&gs.unsqueeze(-2)?)?.matmul(&vh)?)]);
    }
    let complex = u.dtype().is_complex();
    let skew = |x: Tensor| x.sub(&x.adjoint()?);
    let ugu = gu
        .as_ref()
        .map(|g| skew(u.adjoint()?.matmul(g)?))
        .transpose()?;
    let vgv = gvh
        .as_ref()
        .map(|g| skew(vh.matmul(&g.adjoint()?)?))
        .transpose()?;
    if complex {
        let turn = |x: &Option<Tensor>| -> Result<Tensor> {
            match x {
                Some(x) => diagonal(&x.detach())?.imag()?.copy(),
                None => s.detach().zeros_like(),
            }
        };
        let (a, b) = (turn(&ugu)?, turn(&vgv)?);
        let off = a.add(&b)?.abs()?.sub(&b.abs()?.mul(0.01)?)?;
        if off.device().has_data() && off.gt(0.01)?.any()?.item::<bool>()? {
            return Err(TorshError::autograd(
                "linalg.svd",
                "complex singular vectors are determined up to a phase e^(i phi), and the loss depends on it, so it has no derivative",
            )
            .with_hint("use only what the phases leave alone, as abs() of the vectors, or U and Vh together"));
        }
    }
    let squares = s.mul(&s)?;
    let e = squares.unsqueeze(-2)?.sub(&squares.unsqueeze(-1)?)?;
    let id = Tensor::eye(k, e.dtype(), e.device())?;
    let e = e.add(&id)?;
    let right = |x: &Tensor| x.mul(&s.unsqueeze(-2)?);
    let left = |x: &Tensor| x.mul(&s.unsqueeze(-1)?);
    let mut middle = match (&ugu, &vgv) {
        (Some(u), Some(v)) => right(u)?.add(&left(v)?)?,
        (Some(u), None) => right(u)?,
        (None, Some(v)) => left(v)?,
        (None, None) => e.zeros_like()?,
    }
    .div(&e)?;
    // The phases: what is on the diagonal was divided by 1.
    if complex {
        middle = middle.sub(&embed(&diagonal(&middle)?)?)?;
    }
    if let Some(gs) = &gs {
        middle = middle.add(&embed(gs)?)?;
    }
    if let (true, Some(ugu), true) = (complex, &ugu, vgv.is_some()) {
        middle = middle.add(&embed(&diagonal(ugu)?.div(&s.mul(2.0)?)?)?)?;
    }
    Ok(smallvec![Some(match (gu, gvh) {
        (Some(gu), _) if m > k => {
            let scaled = gu.div(&s.unsqueeze(-2)?)?;
            let beyond = scaled.sub(&u.matmul(&u.adjoint()?.matmul(&scaled)?)?)?;
            u.matmul(&middle)?.add(&beyond)?.matmul(&vh)?
        }
        (_, Some(gvh)) if n > k => {
            let scaled = gvh.div(&s.unsqueeze(-1)?)?;
            let beyond = scaled.sub(&scaled.matmul(&vh.adjoint()?)?.matmul(&vh)?)?;
            u.matmul(&middle.matmul(&vh)?.add(&beyond)?)?
        }
        _ => u.matmul(&middle)?.matmul(&vh)?,
    })])
}

#[track_caller]
fn decomposed(a: &Tensor, full_matrices: bool) -> Result<(Tensor, Tensor, Tensor)> {
    let attrs = attrs::LinalgSvd {
        full_matrices,
        vectors: true,
    };
    let mut outs = SVD_KERNEL.call(&[Arg::T(a)], &attrs)?.into_iter();
    match (outs.next(), outs.next(), outs.next()) {
        (Some(u), Some(s), Some(vh)) => Ok((u, s, vh)),
        _ => Err(TorshError::failed("", "the kernel gave too few results")),
    }
}

/// Refuses a driver's name: drivers are cuSOLVER's.
fn no_driver(driver: &Option<String>) -> Result<()> {
    match driver {
        None => Ok(()),
        Some(name) => Err(TorshError::invalid(
            "",
            format!(
                "driver='{name}' is a method of cuSOLVER, and the operand is not on a CUDA device"
            ),
        )
        .with_hint("leave the driver away")),
    }
}

#[torsh_tensor::by_name(svd_with(.., SvdOptions))]
static SVD: OpRecord = OpRecord::new(
    "linalg.svd",
    "Left singular vectors, singular values in descending order, and conjugated right singular vectors: A = U diag(S) Vh.",
    "(Tensor A, bool full_matrices=True, *, str? driver=None)",
)
.samples(tall_and_wide);

/// A string, where one is given.
pub(crate) fn text(v: &Value) -> Option<String> {
    match v {
        Value::Str(s) => Some(s.clone()),
        _ => None,
    }
}

fn tall_and_wide(s: &mut Sampler) -> Result<Vec<Sample>> {
    let shapes: [&[usize]; 4] = [&[3, 3], &[4, 2], &[2, 3], &[2, 2, 2]];
    shapes
        .iter()
        .map(|shape| Ok(sample![s.real(shape)?]))
        .collect()
}

#[torsh_tensor::by_name(svdvals_with(.., SvdvalsOptions))]
static SVDVALS: OpRecord = OpRecord::new(
    "linalg.svdvals",
    "The singular values of matrices in descending order.",
    "(Tensor A, *, str? driver=None)",
)
.samples(|s| {
    let mut all = tall_and_wide(s)?;
    all.push(sample![s.complex(&[3, 2])?]);
    Ok(all)
});

#[torsh_tensor::by_name(old_svd_with(.., OldSvdOptions))]
static OLD_SVD: OpRecord = OpRecord::new(
    "svd",
    "Left singular vectors, singular values and right singular vectors: A = U diag(S) Vᴴ. linalg.svd has replaced it.",
    "(Tensor input, bool some=True, bool compute_uv=True)",
)
.samples(tall_and_wide);

static EIGH_KERNEL: OpRecord = OpRecord::new(
    "_linalg_eigh",
    "Eigenvalues of Hermitian matrices, with or without eigenvectors.",
    "(Tensor A, *, bool upper, bool vectors)",
)
.internal()
.with_key(&keys::EIGH, |c| {
    let a = squares(c, 0)?;
    let values = Spec::new(shape(batch(a), &[sides(a).0]), a.dtype().to_real());
    Ok(match c.attrs::<attrs::LinalgEigh>()?.vectors {
        false => Plan::many(a.dtype(), [values]),
        true => Plan::many(a.dtype(), [values, Spec::new(a.shape().clone(), a.dtype())]),
    })
})
.autocast(Autocast::Fp32)
.backward(Backward::Full {
    inputs: 0,
    outputs: 0b11,
    constant: 0,
    formula: |c| {
        if !c.attrs::<attrs::LinalgEigh>()?.vectors {
            return Err(without_vectors("linalg.eigvalsh"));
        }
        eigen_backward(c, true)
    },
});

#[cold]
fn without_vectors(op: &'static str) -> TorshError {
    TorshError::autograd(
        op,
        "eigenvalues without vectors were computed while nothing was recorded",
    )
}

/// The derivative of eigenvalues and eigenvectors, as PyTorch's `linalg_eig_backward`.
fn eigen_backward(c: &BackwardCx<'_>, hermitian: bool) -> Result<Grads> {
    let (l, v) = (c.output(0)?, c.output(1)?);
    let n = sides(&v).0;
    let gl = c.grad(0).map(|g| g.to_dtype(v.dtype())).transpose()?;
    let middle = match c.grad(1) {
        None => {
            let gl = gl.map_or_else(|| l.zeros_like()?.to_dtype(v.dtype()), Ok)?;
            if hermitian {
                return Ok(smallvec![Some(
                    v.mul(&gl.unsqueeze(-2)?)?.matmul(&v.adjoint()?)?
                )]);
            }
            embed(&gl)?
        }
        Some(gv) => {
            let vgv = v.adjoint()?.matmul(gv)?;
            let diag = diagonal(&vgv)?;
            if v.dtype().is_complex() {
                let turn = diag.detach().imag()?.abs()?;
                if turn.device().has_data() && turn.gt(0.01)?.any()?.item::<bool>()? {
                    let op = if hermitian {
                        "linalg.eigh"
                    } else {
                        "linalg.eig"
                    };
                    return Err(TorshError::autograd(
                        op,
                        "complex eigenvectors are determined up to a phase e^(i phi), and the loss depends on it, so it has no derivative",
                    )
                    .with_hint("use only what the phases leave alone, as abs() of the vectors"));
                }
            }
            let projected = match hermitian {
                true => vgv.sub(&vgv.adjoint()?)?.mul(0.5)?,
                // The vectors have length 1.
                false => {
                    let real = match v.dtype().is_complex() {
                        true => diag.real()?,
                        false => diag.clone(),
                    };
                    let along = v.adjoint()?.matmul(&v.mul(&real.unsqueeze(-2)?)?)?;
                    vgv.sub(&along)?
                }
            };
            let e = l.unsqueeze(-2)?.sub(&l.unsqueeze(-1)?)?;
            let e = if hermitian { e } else { e.conj()? };
            let id = Tensor::eye(n, e.dtype(), e.device())?;
            let ratio = projected.div(&e.add(&id)?)?;
            let ratio = ratio.sub(&embed(&diagonal(&ratio)?)?)?;
            match &gl {
                Some(gl) => ratio.add(&embed(gl)?)?,
                None => ratio,
            }
        }
    };
    let right = middle.matmul(&v.adjoint()?)?;
    Ok(smallvec![Some(match hermitian {
        true => v.matmul(&right)?,
        false => solve(&v.adjoint()?, &right)?,
    })])
}

fn upper(uplo: char) -> Result<bool> {
    match uplo {
        'L' | 'l' => Ok(false),
        'U' | 'u' => Ok(true),
        other => Err(TorshError::invalid(
            "",
            format!("UPLO is 'L' or 'U', got '{other}'"),
        )),
    }
}

static EIGH: OpRecord = OpRecord::new(
    "linalg.eigh",
    "The eigenvalues of Hermitian matrices in ascending order, and their eigenvectors as columns.",
    "(Tensor A, str UPLO='L')",
)
.by_name(|b| eigh_with(b.tensor(0)?, uplo(b.str(1))?).map(Into::into))
.samples(hermitian_samples);

fn uplo(s: &str) -> Result<EighOptions> {
    match s.chars().next() {
        Some(uplo) => Ok(EighOptions { uplo }),
        None => Err(TorshError::invalid("", "UPLO is 'L' or 'U', got ''")),
    }
}

fn hermitian_samples(s: &mut Sampler) -> Result<Vec<Sample>> {
    let all = [
        positive_definite(s, &[3, 3])?,
        positive_definite(s, &[2, 2, 2])?,
    ]
    .concat();
    Ok(all.into_iter().map(|a| sample![a]).collect())
}

static EIGVALSH: OpRecord = OpRecord::new(
    "linalg.eigvalsh",
    "The eigenvalues of Hermitian matrices in ascending order.",
    "(Tensor A, str UPLO='L')",
)
.by_name(|b| eigvalsh_with(b.tensor(0)?, uplo(b.str(1))?).map(Value::Tensor))
.samples(hermitian_samples);

static EIG_KERNEL: OpRecord = OpRecord::new(
    "_linalg_eig",
    "Eigenvalues of matrices, with or without eigenvectors, as complex numbers.",
    "(Tensor A, *, bool vectors)",
)
.internal()
.with_key(&keys::EIG, |c| {
    let a = squares(c, 0)?;
    let complex = a.dtype().to_complex();
    let values = Spec::new(shape(batch(a), &[sides(a).0]), complex);
    Ok(match c.attrs::<attrs::LinalgEig>()?.vectors {
        false => Plan::many(a.dtype(), [values]),
        true => Plan::many(a.dtype(), [values, Spec::new(a.shape().clone(), complex)]),
    })
})
.autocast(Autocast::Fp32)
.backward(Backward::Full {
    inputs: 0,
    outputs: 0b11,
    constant: 0,
    formula: |c| {
        if !c.attrs::<attrs::LinalgEig>()?.vectors {
            return Err(without_vectors("linalg.eigvals"));
        }
        eigen_backward(c, false)
    },
});

#[torsh_tensor::by_name(eig)]
static EIG: OpRecord = OpRecord::new(
    "linalg.eig",
    "The eigenvalues of square matrices, and their eigenvectors of length 1 as columns; both complex.",
    "(Tensor A)",
)
.samples(apart);

/// Matrices whose eigenvalues are apart.
fn apart(s: &mut Sampler) -> Result<Vec<Sample>> {
    let d = embed(&s.distinct(&[3])?.mul(20.0)?)?;
    let small = s.real(&[3, 3])?.mul(0.5)?.add(&d)?;
    let complex = s.complex(&[3, 3])?.mul(0.5)?.add(&d)?;
    Ok(vec![sample![small], sample![complex]])
}

#[torsh_tensor::by_name(eigvals)]
static EIGVALS: OpRecord = OpRecord::new(
    "linalg.eigvals",
    "The eigenvalues of square matrices, complex.",
    "(Tensor A)",
)
.samples(apart);

fn recorded(a: &Tensor) -> bool {
    is_grad_enabled() && a.requires_grad()
}

/// The singular value decomposition `A = U diag(S) Vh` (`torch.linalg.svd`), with square `U` and `Vh`.
///
/// `a` is `[.., m, n]` in float32, float64, complex64 or complex128. `u` is `[.., m, m]`, `s` `[.., min(m, n)]`, real and
/// descending, `vh` `[.., n, n]`.
///
/// The gradient is PyTorch's formula. It divides by differences of squared singular values, so it is infinite or nan
/// where values are repeated: differentiate [`svdvals`], or perturb the matrix. Complex singular vectors are determined up
/// to a phase; backward through a loss that depends on it is an error.
///
/// The singular values give rank, norm and condition number; the first columns of `U` and rows of `Vh` give the best
/// approximation of a lower rank (Eckart and Young, 1936). It costs several times what [`qr`](crate::qr) does, of the
/// order of `m n min(m, n)`; [`svdvals`] costs a fraction of it. With `full_matrices(false)` the factors of a tall or
/// wide matrix are small.
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// let a = tensor![[3.0, 0.0], [0.0, -4.0]];
/// let (u, s, vh) = linalg::svd(&a)?;
/// assert!(s.allclose(&tensor![4.0, 3.0])?);
/// assert!(u.mul(&s)?.matmul(&vh)?.allclose(&a)?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If `a` is not a batch of matrices of these dtypes, or has a nan or infinity.
#[track_caller]
pub fn svd(a: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
    svd_with(a, SvdOptions::new())
}

/// [`svd`] with options: without `full_matrices`, `u` has only as many columns, and `vh` as many rows, as there are
/// singular values.
///
/// ```
/// use torsh_linalg::{self as linalg, SvdOptions};
/// use torsh_tensor::ones;
/// let options = SvdOptions { full_matrices: false, ..Default::default() };
/// let (u, s, vh) = linalg::svd_with(&ones(&[4, 2]), options)?;
/// assert_eq!((u.dims(), s.dims(), vh.dims()), (&[4, 2][..], &[2][..], &[2, 2][..]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`svd`], and for a driver.
#[torsh_tensor::names_caller]
pub fn svd_with(a: &Tensor, options: SvdOptions) -> Result<(Tensor, Tensor, Tensor)> {
    within("linalg.svd", &[a], || {
        no_driver(&options.driver)?;
        decomposed(a, options.full_matrices)
    })
}

/// The singular values of matrices, descending (`torch.linalg.svdvals`). Their gradient is finite where values are repeated.
///
/// It computes no vectors, so it costs a fraction of [`svd`].
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// let s = linalg::svdvals(&tensor![[3.0, 0.0], [0.0, -4.0]])?;
/// assert!(s.allclose(&tensor![4.0, 3.0])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`svd`].
#[track_caller]
pub fn svdvals(a: &Tensor) -> Result<Tensor> {
    svdvals_with(a, SvdvalsOptions::new())
}

/// [`svdvals`] with options.
///
/// ```
/// use torsh_linalg::{self as linalg, SvdvalsOptions};
/// use torsh_tensor::tensor;
/// assert!(linalg::svdvals_with(&tensor![[3.0]], SvdvalsOptions::new().driver("gesvd")).is_err());
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`svd`], and for a driver.
#[torsh_tensor::names_caller]
pub fn svdvals_with(a: &Tensor, options: SvdvalsOptions) -> Result<Tensor> {
    within("linalg.svdvals", &[a], || {
        no_driver(&options.driver)?;
        match recorded(a) {
            true => Ok(decomposed(a, false)?.1),
            false => {
                let attrs = attrs::LinalgSvd {
                    full_matrices: false,
                    vectors: false,
                };
                SVD_KERNEL.call1(&[Arg::T(a)], &attrs)
            }
        }
    })
}

/// The decomposition `A = U diag(S) Vᴴ` with as many vectors as singular values (`torch.svd`): `(U, S, V)`.
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::ones;
/// let (u, s, v) = linalg::old_svd(&ones(&[4, 2]))?;
/// assert_eq!((u.dims(), s.dims(), v.dims()), (&[4, 2][..], &[2][..], &[2, 2][..]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`svd`].
#[track_caller]
pub fn old_svd(a: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
    old_svd_with(a, OldSvdOptions::new())
}

/// [`old_svd`] with options.
///
/// ```
/// use torsh_linalg::{self as linalg, OldSvdOptions};
/// use torsh_tensor::ones;
/// let (u, _, _) = linalg::old_svd_with(&ones(&[4, 2]), OldSvdOptions::new().some(false))?;
/// assert_eq!(u.dims(), &[4, 4]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`svd`].
#[torsh_tensor::names_caller]
pub fn old_svd_with(a: &Tensor, options: OldSvdOptions) -> Result<(Tensor, Tensor, Tensor)> {
    within("svd", &[a], || {
        if options.compute_uv {
            let (u, s, vh) = decomposed(a, !options.some)?;
            return Ok((u, s, vh.adjoint()?));
        }
        let s = svdvals(a)?;
        let (m, n) = sides(a);
        let zeros =
            |side: usize| Tensor::zeros(shape(batch(a), &[side, side]), a.dtype(), a.device());
        Ok((zeros(m)?, s, zeros(n)?))
    })
}

#[track_caller]
fn hermitian(a: &Tensor, upper: bool, vectors: bool) -> Result<Outputs> {
    EIGH_KERNEL.call(&[Arg::T(a)], &attrs::LinalgEigh { upper, vectors })
}

fn pair(outs: Outputs) -> Result<(Tensor, Tensor)> {
    let mut outs = outs.into_iter();
    match (outs.next(), outs.next()) {
        (Some(values), Some(vectors)) => Ok((values, vectors)),
        _ => Err(TorshError::failed("", "the kernel gave too few results")),
    }
}

/// The eigenvalues of Hermitian matrices, real and ascending, and their eigenvectors as columns: `A V = V diag(L)`
/// (`torch.linalg.eigh`). The lower triangle is read.
///
/// The gradient divides by differences of eigenvalues, so it is infinite or nan where values are repeated: differentiate
/// [`eigvalsh`]. Backward through a loss that depends on the phases of complex eigenvectors is an error.
///
/// It serves for whitening, principal components and functions of symmetric matrices: `f(A) = V diag(f(w)) V^H`. The
/// reduction to three diagonals costs `4 n^3 / 3` operations, and the vectors about `4 n^3` more; [`eigvalsh`] leaves
/// them out.
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// let (l, v) = linalg::eigh(&tensor![[2.0, 1.0], [1.0, 2.0]])?;
/// assert!(l.allclose(&tensor![1.0, 3.0])?);
/// assert!(v.abs()?.allclose(&tensor![[0.70710678, 0.70710678], [0.70710678, 0.70710678]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If `a` is not a batch of square matrices of float32, float64, complex64 or complex128, or has a nan or infinity.
#[track_caller]
pub fn eigh(a: &Tensor) -> Result<(Tensor, Tensor)> {
    eigh_with(a, EighOptions::new())
}

/// [`eigh`] of one triangle.
///
/// ```
/// use torsh_linalg::{self as linalg, EighOptions};
/// use torsh_tensor::tensor;
/// let (l, _) = linalg::eigh_with(&tensor![[2.0, 1.0], [9.0, 2.0]], EighOptions { uplo: 'U' })?;
/// assert!(l.allclose(&tensor![1.0, 3.0])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`eigh`], and if `uplo` is neither `'L'` nor `'U'`.
#[torsh_tensor::names_caller]
pub fn eigh_with(a: &Tensor, options: EighOptions) -> Result<(Tensor, Tensor)> {
    within("linalg.eigh", &[a], || {
        pair(hermitian(a, upper(options.uplo)?, true)?)
    })
}

/// The eigenvalues of Hermitian matrices, real and ascending (`torch.linalg.eigvalsh`).
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// assert!(linalg::eigvalsh(&tensor![[2.0, 1.0], [1.0, 2.0]])?.allclose(&tensor![1.0, 3.0])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`eigh`].
#[track_caller]
pub fn eigvalsh(a: &Tensor) -> Result<Tensor> {
    eigvalsh_with(a, EighOptions::new())
}

/// [`eigvalsh`] of one triangle.
///
/// ```
/// use torsh_linalg::{self as linalg, EighOptions};
/// use torsh_tensor::tensor;
/// let l = linalg::eigvalsh_with(&tensor![[2.0, 0.0], [9.0, 1.0]], EighOptions { uplo: 'U' })?;
/// assert!(l.allclose(&tensor![1.0, 2.0])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`eigh_with`].
#[torsh_tensor::names_caller]
pub fn eigvalsh_with(a: &Tensor, options: EighOptions) -> Result<Tensor> {
    within("linalg.eigvalsh", &[a], || {
        let mut outs = hermitian(a, upper(options.uplo)?, recorded(a))?;
        Ok(outs.swap_remove(0))
    })
}

/// The eigenvalues of square matrices, in no order, and their eigenvectors of length 1 as columns; both complex
/// (`torch.linalg.eig`). A vector's largest entry is real.
///
/// The gradient divides by differences of eigenvalues, so it is infinite or nan where values are repeated. Backward
/// through a loss that depends on the phases of the vectors is an error.
///
/// It costs about `25 n^3` operations, some five times what [`eigh`] costs: use that for symmetric and Hermitian
/// matrices.
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// let (l, v) = linalg::eig(&tensor![[0.0, -1.0], [1.0, 0.0]])?;
/// assert!(l.abs()?.allclose(&tensor![1.0, 1.0])?);
/// assert!(v.abs()?.allclose(&tensor![[0.70710678, 0.70710678], [0.70710678, 0.70710678]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`eigh`].
#[torsh_tensor::names_caller]
pub fn eig(a: &Tensor) -> Result<(Tensor, Tensor)> {
    within("linalg.eig", &[a], || {
        pair(EIG_KERNEL.call(&[Arg::T(a)], &attrs::LinalgEig { vectors: true })?)
    })
}

/// The eigenvalues of square matrices, in no order, complex (`torch.linalg.eigvals`).
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// let l = linalg::eigvals(&tensor![[0.0, -1.0], [1.0, 0.0]])?;
/// assert!(l.imag()?.abs()?.allclose(&tensor![1.0, 1.0])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`eigh`].
#[torsh_tensor::names_caller]
pub fn eigvals(a: &Tensor) -> Result<Tensor> {
    within("linalg.eigvals", &[a], || {
        EIG_KERNEL.call1(
            &[Arg::T(a)],
            &attrs::LinalgEig {
                vectors: recorded(a),
            },
        )
    })
}
