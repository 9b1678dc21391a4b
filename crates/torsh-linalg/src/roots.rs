//! Polar decompositions and square roots.

use smallvec::smallvec;
use torsh_tensor::call::Arg;
use torsh_tensor::record::{OpRecord, Plan, Spec, sample};
use torsh_tensor::{Autocast, Result, Tensor, TorshError};

use crate::cholesky::positive_definite;
use crate::help::{NONE, alike, batch, matrices, shape, sides, squares, within};
use crate::kernels::keys;
use crate::solve::solve;

pub(crate) const RECORDS: &[&OpRecord] = &[&POLAR, &MATRIX_SQRTH, &SYLVESTER];

#[torsh_tensor::by_name(polar)]
static POLAR: OpRecord = OpRecord::new(
    "linalg.polar",
    "The polar decomposition A = U H: U has orthonormal columns, and H is Hermitian positive semidefinite.",
    "(Tensor A)",
)
.with_key(&keys::POLAR, |c| {
    let a = matrices(c, 0)?;
    let (m, n) = sides(a);
    if m < n {
        let text = format!("expected matrices of at least as many rows as columns, got {m} by {n}");
        return Err(TorshError::shape("", text).with_hint("decompose the adjoint"));
    }
    let h = Spec::new(shape(batch(a), &[n, n]), a.dtype());
    Ok(Plan::many(a.dtype(), [Spec::new(a.shape().clone(), a.dtype()), h]))
})
.autocast(Autocast::Fp32)
.grads(0, 0b11, |c| {
    let (u, h) = (c.output(0)?, c.output(1)?);
    let (m, n) = sides(&u);
    let mut k = h.zeros_like()?;
    let mut inner = h.zeros_like()?;
    if let Some(gh) = c.grad(1) {
        k = k.sub(&gh.matmul(&h)?)?;
        inner = inner.add(gh)?;
    }
    let mut beyond = None;
    if let Some(gu) = c.grad(0) {
        let along = u.adjoint()?.matmul(gu)?;
        k = k.add(&along)?;
        if m > n {
            let rest = gu.sub(&u.matmul(&along)?)?;
            beyond = Some(solve(&h, &rest.adjoint()?)?.adjoint()?);
        }
    }
    inner = inner.add(&sylvester(&h, &k.sub(&k.adjoint()?)?)?)?;
    let g = u.matmul(&inner)?;
    Ok(smallvec![Some(match beyond {
        Some(b) => g.add(&b)?,
        None => g,
    })])
})
.samples(|s| {
    Ok(vec![
        sample![s.real(&[3, 3])?],
        sample![s.real(&[2, 3, 2])?],
        sample![s.complex(&[3, 2])?],
    ])
});

#[torsh_tensor::by_name(matrix_sqrth)]
static MATRIX_SQRTH: OpRecord = OpRecord::new(
    "linalg.matrix_sqrth",
    "The Hermitian positive definite square root of Hermitian positive definite matrices.",
    "(Tensor A)",
)
.with_key(&keys::MATRIX_SQRTH, |c| {
    let a = squares(c, 0)?;
    Ok(Plan::one(a.dtype(), a.shape().clone(), a.dtype()))
})
.autocast(Autocast::Fp32)
.grads(0, 1, |c| {
    let g = sylvester(&c.out()?, c.g())?;
    Ok(smallvec![Some(g.add(&g.adjoint()?)?.mul(0.5)?)])
})
.samples(|s| {
    let all = positive_definite(s, &[3, 3])?;
    Ok(all.into_iter().map(|a| sample![a]).collect())
});

/// `X` of `H X + X H = M` for Hermitian `H`.
static SYLVESTER: OpRecord = OpRecord::new(
    "_sylvester_hermitian",
    "The solution X of H X + X H = M for Hermitian H.",
    "(Tensor H, Tensor M)",
)
.internal()
.with_key(&keys::SYLVESTER, |c| {
    let (h, m) = (squares(c, 0)?, c.tensor(1)?);
    alike(h, m)?;
    match h.shape() == m.shape() {
        true => Ok(Plan::one(m.dtype(), m.shape().clone(), m.dtype())),
        false => Err(TorshError::shape("", "H and M must have one shape")),
    }
})
.autocast(Autocast::Fp32)
.grads(1, 1, |c| {
    let (x, y) = (c.out()?, sylvester(&c.input(0)?, c.g())?);
    let gh = match c.needs(0) {
        true => {
            let xh = x.adjoint()?;
            Some(y.matmul(&xh)?.add(&xh.matmul(&y)?)?.neg()?)
        }
        false => None,
    };
    Ok(smallvec![gh, Some(y)])
});

fn sylvester(h: &Tensor, m: &Tensor) -> Result<Tensor> {
    SYLVESTER.call1(&[Arg::T(h), Arg::T(m)], NONE)
}

/// The polar decomposition `A = U H` of matrices with at least as many rows as columns (`torch.linalg.polar`), by singular
/// values: `U` has orthonormal columns, `H` is Hermitian positive semidefinite. The gradient needs full rank.
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// let (u, h) = linalg::polar(&tensor![[0.0, -2.0], [1.0, 0.0]])?;
/// assert!(u.matmul(&h)?.sub(&tensor![[0.0, -2.0], [1.0, 0.0]])?.abs()?.max()?.item::<f32>()? < 1e-6);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If `a` is not a batch of such matrices of float32, float64, complex64 or complex128, or has a nan or infinity.
#[torsh_tensor::names_caller]
pub fn polar(a: &Tensor) -> Result<(Tensor, Tensor)> {
    let mut outs = POLAR.call(&[Arg::T(a)], NONE)?;
    match (outs.pop(), outs.pop()) {
        (Some(h), Some(u)) => Ok((u, h)),
        _ => Err(TorshError::failed(
            "linalg.polar",
            "the kernel gave too few results",
        )),
    }
}

/// The Hermitian positive definite `X` with `X X = A`, of Hermitian positive definite matrices of which the lower triangle is
/// read (`torch.linalg.matrix_sqrth`), by eigenvalues.
///
/// It is `V diag(sqrt(w)) V^H` of [`eigh`](crate::eigh), at its cost.
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// let x = linalg::matrix_sqrth(&tensor![[4.0, 0.0], [0.0, 9.0]])?;
/// assert!(x.allclose(&tensor![[2.0, 0.0], [0.0, 3.0]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If `a` is not a batch of square matrices of float32, float64, complex64 or complex128, or has a nan or infinity. A matrix
/// with a negative eigenvalue gives nan.
#[torsh_tensor::names_caller]
pub fn matrix_sqrth(a: &Tensor) -> Result<Tensor> {
    within("linalg.matrix_sqrth", &[a], || {
        MATRIX_SQRTH.call1(&[Arg::T(a)], NONE)
    })
}
