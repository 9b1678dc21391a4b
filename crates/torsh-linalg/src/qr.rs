//! QR decompositions and products of reflectors.

use smallvec::smallvec;
use torsh_tensor::call::Arg;

use torsh_tensor::record::{OpRecord, Plan, PlanCx, Spec, sample};
use torsh_tensor::{Autocast, BackwardCx, Grads, Result, Tensor, TorshError, is_grad_enabled};

use crate::attrs;
use crate::attrs::QrMode;
use crate::help::{
    NONE, alike, batch, check_matrix, diagonal, embed, matrices, shape, sides, within,
};
use crate::kernels::keys;
use crate::options::{OrmqrOptions, QrOptions};
use crate::solve::{regular, triangular};

pub(crate) const RECORDS: &[&OpRecord] = &[
    &QR_KERNEL,
    &QR,
    &OLD_QR,
    &GEQRF,
    &HOUSEHOLDER_KERNEL,
    &HOUSEHOLDER_PRODUCT,
    &ORMQR_KERNEL,
    &ORMQR,
];

static QR_KERNEL: OpRecord = OpRecord::new(
    "_linalg_qr",
    "The factors Q and R of matrices.",
    "(Tensor A, *, str mode)",
)
.internal()
.with_key(&keys::QR, |c| {
    let a = matrices(c, 0)?;
    let (m, n) = sides(a);
    let k = m.min(n);
    let (q, r) = match c.attrs::<attrs::LinalgQr>()?.mode {
        QrMode::Reduced => (shape(batch(a), &[m, k]), k),
        QrMode::Complete => (shape(batch(a), &[m, m]), m),
        QrMode::R => (shape(&[], &[0]), k),
    };
    let dtype = a.dtype();
    Ok(Plan::many(
        dtype,
        [
            Spec::new(q, dtype),
            Spec::new(shape(batch(a), &[r, n]), dtype),
        ],
    ))
})
.autocast(Autocast::Fp32)
.grads(1, 0b11, qr_backward);

fn qr_backward(c: &BackwardCx<'_>) -> Result<Grads> {
    let refuse = |why: &str| Err(TorshError::autograd("linalg.qr", why));
    let (m, n) = match *c.input_shape(0).dims() {
        [.., m, n] => (m, n),
        _ => return refuse("the operand is no matrix"),
    };
    match c.attrs::<attrs::LinalgQr>()?.mode {
        QrMode::R => {
            return refuse("mode 'r' has no derivative, because it has no Q: use mode 'reduced'");
        }
        QrMode::Complete if m > n => {
            return refuse(
                "mode 'complete' has no derivative for more rows than columns: use mode 'reduced'",
            );
        }
        _ => {}
    }
    let (q, r) = (c.output(0)?, c.output(1)?);
    let k = m.min(n);
    let (mut gq, mut gr) = (
        c.grad(0).cloned(),
        c.grad(1).map(|g| g.triu(0)).transpose()?,
    );
    let r1 = r.narrow(-1, 0, k)?;
    let mut rest = None;
    if n > m {
        // A = [A1 A2], R = [R1 R2], and R2 = Qᴴ A2.
        if let Some(whole) = &gr {
            let g2 = whole.narrow(-1, k, n - k)?;
            let a2 = c.input(0)?.narrow(-1, k, n - k)?;
            let more = a2.matmul(&g2.adjoint()?)?;
            gq = Some(match gq {
                Some(g) => g.add(&more)?,
                None => more,
            });
            rest = Some(q.matmul(&g2)?);
            gr = Some(whole.narrow(-1, 0, k)?);
        } else {
            rest = Some(c.input(0)?.narrow(-1, k, n - k)?.zeros_like()?);
        }
    }
    let mut middle = match &gr {
        Some(g) => g.matmul(&r1.adjoint()?)?,
        None => r1.zeros_like()?,
    };
    if let Some(g) = &gq {
        middle = middle.sub(&q.adjoint()?.matmul(g)?)?;
    }
    let middle = middle.triu(0)?;
    // The part above the diagonal on both sides of it, and the real part of the diagonal.
    let both = middle.add(&middle.adjoint()?)?;
    let both = both.sub(&embed(&diagonal(&both)?.mul(0.5)?)?)?;
    let mut g = q.matmul(&both)?;
    if let Some(gq) = gq {
        g = g.add(&gq)?;
    }
    let first = triangular(&r1.adjoint()?, &g, false, false, false)?;
    Ok(smallvec![Some(match rest {
        Some(second) => Tensor::cat(&[first, second], -1)?,
        None => first,
    })])
}

#[track_caller]
fn factors(a: &Tensor, mode: QrMode) -> Result<(Tensor, Tensor)> {
    let mut outs = QR_KERNEL.call(&[Arg::T(a)], &attrs::LinalgQr { mode })?;
    match (outs.pop(), outs.pop()) {
        (Some(r), Some(q)) => Ok((q, r)),
        _ => Err(TorshError::failed("", "the kernel gave too few results")),
    }
}

static QR: OpRecord = OpRecord::new(
    "linalg.qr",
    "Q with orthonormal columns and upper triangular R, with A = Q R.",
    "(Tensor A, str mode='reduced')",
)
.by_name(|b| {
    let options = QrOptions::new().mode(b.str(1));
    qr_with(b.tensor(0)?, options).map(Into::into)
})
.samples(|s| {
    let [a, z] = regular(s, &[3, 3])?;
    Ok(vec![
        sample![a],
        sample![z],
        sample![s.real(&[4, 2])?],
        sample![s.complex(&[2, 3, 2])?],
        sample![s.real(&[2, 3])?],
        sample![s.complex(&[2, 3])?, mode = "complete"],
    ])
});

static OLD_QR: OpRecord = OpRecord::new(
    "qr",
    "Q with orthonormal columns and upper triangular R, with A = Q R; linalg.qr has replaced it.",
    "(Tensor input, bool some=True)",
)
.by_name(|b| {
    let mode = if b.bool(1) {
        crate::QrMode::Reduced
    } else {
        crate::QrMode::Complete
    };
    qr_with(b.tensor(0)?, QrOptions { mode })
        .map(Into::into)
        .map_err(|e| e.renamed("qr"))
})
.samples(|s| Ok(vec![sample![s.real(&[3, 2])?]]));

#[torsh_tensor::by_name(geqrf)]
static GEQRF: OpRecord = OpRecord::new(
    "geqrf",
    "R and the reflectors of Q below it, packed in one matrix, and the factors of the reflectors.",
    "(Tensor input)",
)
.with_key(&keys::GEQRF, |c| {
    let a = matrices(c, 0)?;
    let (m, n) = sides(a);
    let tau = Spec::new(shape(batch(a), &[m.min(n)]), a.dtype());
    Ok(Plan::many(
        a.dtype(),
        [Spec::new(a.shape().clone(), a.dtype()), tau],
    ))
})
.autocast(Autocast::Fp32)
.samples(|s| Ok(vec![sample![s.real(&[3, 2])?]]));

fn reflectors<'a>(c: &PlanCx<'a>) -> Result<&'a Tensor> {
    let a = matrices(c, 0)?;
    check_reflectors(a, c.tensor(1)?)?;
    Ok(a)
}

fn check_reflectors(a: &Tensor, tau: &Tensor) -> Result<()> {
    check_matrix(a)?;
    let (m, n) = sides(a);
    let k = tau.dims().last().copied().unwrap_or(0);
    if a.dtype() != tau.dtype() {
        let text = format!(
            "tau must have the dtype of the input, got {} and {}",
            tau.dtype(),
            a.dtype()
        );
        return Err(TorshError::dtype("", text));
    }
    if m < n || k > n || tau.shape() != &shape(batch(a), &[k]) {
        let text = format!(
            "reflectors of shape {} and tau of shape {} do not go together: there are at most as many as columns, and at least as many rows",
            a.shape(),
            tau.shape()
        );
        return Err(TorshError::shape("", text));
    }
    Ok(())
}

static HOUSEHOLDER_KERNEL: OpRecord = OpRecord::new(
    "_householder_product",
    "The first columns of a product of reflectors.",
    "(Tensor input, Tensor tau)",
)
.internal()
.with_key(&keys::HOUSEHOLDER_PRODUCT, |c| {
    let a = reflectors(c)?;
    Ok(Plan::one(a.dtype(), a.shape().clone(), a.dtype()))
})
.autocast(Autocast::Fp32)
// It is recorded only without elements or reflectors, where PyTorch has no gradients; else the product is written in ops.
.grads(0, 0, |_| Ok(smallvec![None, None]));

#[torsh_tensor::by_name(householder_product)]
static HOUSEHOLDER_PRODUCT: OpRecord = OpRecord::new(
    "linalg.householder_product",
    "The first columns of the product of the reflectors that geqrf gives.",
    "(Tensor A, Tensor tau)",
)
.samples(|s| {
    Ok(vec![
        sample![s.real(&[3, 2])?, s.real(&[2])?],
        sample![s.complex(&[2, 3, 2])?, s.complex(&[2, 2])?],
    ])
});

static ORMQR_KERNEL: OpRecord = OpRecord::new(
    "_ormqr",
    "A matrix times a product of reflectors, from either side.",
    "(Tensor input, Tensor tau, Tensor other, *, bool left, bool transpose)",
)
.internal()
.with_key(&keys::ORMQR, |c| {
    let (a, tau, other) = (matrices(c, 0)?, c.tensor(1)?, c.tensor(2)?);
    let left = c.attrs::<attrs::LinalgOrmqr>()?.left;
    alike(a, other)?;
    let (rows, cols) = sides(other);
    let k = tau.dims().last().copied().unwrap_or(0);
    let own = if left { rows } else { cols };
    let fits = tau.dtype() == a.dtype() && tau.shape() == &shape(batch(a), &[k]);
    let (m, n) = sides(a);
    if !fits || own != m || k > n || k > m {
        let text = format!(
            "reflectors of shape {}, tau of shape {} and a matrix of shape {} do not go together",
            a.shape(),
            tau.shape(),
            other.shape()
        );
        return Err(TorshError::shape("", text));
    }
    Ok(Plan::one(a.dtype(), other.shape().clone(), a.dtype()))
})
.autocast(Autocast::Fp32)
.constant();

#[torsh_tensor::by_name(ormqr_with(.., OrmqrOptions))]
static ORMQR: OpRecord = OpRecord::new(
    "ormqr",
    "A matrix times the product Q of the reflectors that geqrf gives, or times its conjugate transpose, from either side.",
    "(Tensor input, Tensor tau, Tensor other, bool left=True, bool transpose=False)",
)
.samples(|s| {
    Ok(vec![
        sample![s.real(&[3, 2])?, s.real(&[2])?, s.real(&[3, 2])?],
        sample![s.complex(&[3, 2])?, s.complex(&[2])?, s.complex(&[2, 3])?, left = false, transpose = true],
    ])
});

/// `Q` with orthonormal columns and upper triangular `R`, with `A = Q R` (`torch.linalg.qr`), by Householder's reflections.
///
/// `a` is `[.., m, n]`; with `k = min(m, n)`, `q` is `[.., m, k]` and `r` `[.., k, n]`. The diagonal of `R` is real, of either
/// sign. The gradient needs independent first columns.
///
/// It gives an orthonormal basis of the columns, and solves least squares without squaring the condition number. For `m
/// >= n`, `R` costs `2 m n^2 - 2 n^3 / 3` operations, and `Q` as many again.
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// let a = tensor![[3.0, 1.0], [4.0, 2.0]];
/// let (q, r) = linalg::qr(&a)?;
/// assert!(q.matmul(&r)?.allclose(&a)?);
/// assert!(r.abs()?.allclose(&tensor![[5.0, 2.2], [0.0, 0.4]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If `a` is not a batch of matrices of float32, float64, complex64 or complex128.
#[track_caller]
pub fn qr(a: &Tensor) -> Result<(Tensor, Tensor)> {
    qr_with(a, QrOptions::new())
}

/// [`qr`] with a mode: `Reduced`; `Complete`, a square `Q`; `R`, an empty `Q`.
///
/// ```
/// use torsh_linalg::{self as linalg, QrMode, QrOptions};
/// use torsh_tensor::ones;
/// let (q, r) = linalg::qr_with(&ones(&[3, 2]), QrOptions { mode: QrMode::Complete })?;
/// assert_eq!((q.dims(), r.dims()), (&[3, 3][..], &[3, 2][..]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`qr`].
#[torsh_tensor::names_caller]
pub fn qr_with(a: &Tensor, options: QrOptions) -> Result<(Tensor, Tensor)> {
    within("linalg.qr", &[a], || factors(a, options.mode.plain()?))
}

/// `R` above and the reflectors of `Q` below the diagonal of one matrix, and the factors of the reflectors, as LAPACK's
/// `geqrf` packs them (`torch.geqrf`). It has no derivative: use [`qr`].
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// let (a, tau) = linalg::geqrf(&tensor![[3.0], [4.0]])?;
/// assert!(a.allclose(&tensor![[-5.0], [0.5]])?);
/// assert!(tau.allclose(&tensor![1.6])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`qr`].
#[torsh_tensor::names_caller]
pub fn geqrf(a: &Tensor) -> Result<(Tensor, Tensor)> {
    let mut outs = GEQRF.call(&[Arg::T(a)], NONE)?;
    match (outs.pop(), outs.pop()) {
        (Some(tau), Some(packed)) => Ok((packed, tau)),
        _ => Err(TorshError::failed(
            "geqrf",
            "the kernel gave too few results",
        )),
    }
}

/// `x` times `1 - tau v vᴴ` from the left, where `v` is 0 before row `k`, 1 there, and column `k` of `a` after it.
fn reflected(a: &Tensor, tau: &Tensor, k: usize, adjoint: bool, x: &Tensor) -> Result<Tensor> {
    let v = a.narrow(-1, k, 1)?.tril(-(k as i64) - 1)?;
    let (m, _) = sides(&v);
    let one = Tensor::eye(m, v.dtype(), v.device())?.narrow(-1, k, 1)?;
    let v = v.add(&one)?;
    let t = tau.narrow(-1, k, 1)?.unsqueeze(-1)?;
    let t = if adjoint { t.conj()? } else { t };
    let along = v.adjoint()?.matmul(x)?;
    x.sub(&v.mul(&t)?.matmul(&along)?)
}

/// The product of the reflectors (or its conjugate transpose) times a matrix, in ops that have derivatives.
fn product(a: &Tensor, tau: &Tensor, adjoint: bool, x: &Tensor) -> Result<Tensor> {
    let k = tau.dims().last().copied().unwrap_or(0);
    if k == 0 {
        return x.copy();
    }
    let mut x = x.clone();
    for step in 0..k {
        let i = if adjoint { step } else { k - 1 - step };
        x = reflected(a, tau, i, adjoint, &x)?;
    }
    Ok(x)
}

fn recorded(all: &[&Tensor]) -> bool {
    is_grad_enabled() && all.iter().any(|t| t.requires_grad())
}

/// The first `n` columns of the product of the reflectors in `a`, `[.., m, n]`, with the factors `tau`, `[.., k]`
/// (`torch.linalg.householder_product`, LAPACK's `orgqr`).
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// let (a, tau) = linalg::geqrf(&tensor![[3.0], [4.0]])?;
/// let q = linalg::householder_product(&a, &tau)?;
/// assert!(q.allclose(&tensor![[-0.6], [-0.8]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If the shapes do not go together, there are more columns than rows, or the dtypes differ.
#[torsh_tensor::names_caller]
pub fn householder_product(a: &Tensor, tau: &Tensor) -> Result<Tensor> {
    within("linalg.householder_product", &[a, tau], || {
        if !recorded(&[a, tau]) || a.numel() == 0 || tau.numel() == 0 {
            return HOUSEHOLDER_KERNEL.call1(&[Arg::T(a), Arg::T(tau)], NONE);
        }
        check_reflectors(a, tau)?;
        let (m, n) = sides(a);
        let start = a.copy()?;
        start.copy_(&Tensor::eye_nm(m, n, a.dtype(), a.device())?.expand(a.shape())?)?;
        product(a, tau, false, &start)
    })
}

/// `Q other`, where `Q` is the product of the reflectors in `a` with the factors `tau` (`torch.ormqr`).
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// let (a, tau) = linalg::geqrf(&tensor![[3.0], [4.0]])?;
/// let x = linalg::ormqr(&a, &tau, &tensor![[1.0], [0.0]])?;
/// assert!(x.allclose(&tensor![[-0.6], [-0.8]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If the shapes do not go together, or the dtypes differ.
#[track_caller]
pub fn ormqr(a: &Tensor, tau: &Tensor, other: &Tensor) -> Result<Tensor> {
    ormqr_with(a, tau, other, OrmqrOptions::new())
}

/// [`ormqr`] with options: `Qᴴ other`, `other Q` or `other Qᴴ`.
///
/// ```
/// use torsh_linalg::{self as linalg, OrmqrOptions};
/// use torsh_tensor::tensor;
/// let (a, tau) = linalg::geqrf(&tensor![[3.0], [4.0]])?;
/// let options = OrmqrOptions::new().transpose(true);
/// let x = linalg::ormqr_with(&a, &tau, &tensor![[3.0], [4.0]], options)?;
/// assert!(x.sub(&tensor![[-5.0], [0.0]])?.abs()?.max()?.item::<f32>()? < 1e-5);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`ormqr`].
#[torsh_tensor::names_caller]
pub fn ormqr_with(
    a: &Tensor,
    tau: &Tensor,
    other: &Tensor,
    options: OrmqrOptions,
) -> Result<Tensor> {
    within("ormqr", &[a, tau, other], || {
        let OrmqrOptions { left, transpose } = options;
        check_matrix(a)?;
        check_matrix(other)?;
        let operands = [Arg::T(a), Arg::T(tau), Arg::T(other)];
        let value = ORMQR_KERNEL.call1(&operands, &attrs::LinalgOrmqr { left, transpose })?;
        if !recorded(&[a, tau, other]) {
            return Ok(value);
        }
        // Without elements or reflectors these have no gradient, as in PyTorch.
        let none = a.numel() == 0 || tau.numel() == 0;
        let part = |t: &Tensor| if none { t.detach() } else { t.clone() };
        let (a, tau) = (&part(a), &part(tau));
        match left {
            true => product(a, tau, transpose, other),
            false => product(a, tau, !transpose, &other.adjoint()?)?.adjoint(),
        }
    })
}
