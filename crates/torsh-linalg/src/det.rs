//! Determinants, by LU decompositions.

use smallvec::smallvec;
use torsh_core::DType;
use torsh_tensor::call::Arg;
use torsh_tensor::record::{Backward, OpRecord, Plan, Spec, sample};
use torsh_tensor::{Autocast, Result, Scalar, Tensor, TorshError, is_grad_enabled};

use crate::help::{NONE, batch, diagonal, embed, shape, sides, squares, within};
use crate::kernels::keys;
use crate::lu::lu_solve_kernel;
use crate::solve::{regular, solve};
use crate::spectral::svd;

pub(crate) const RECORDS: &[&OpRecord] = &[&DET_KERNEL, &DET, &SLOGDET_KERNEL, &SLOGDET, &LOGDET];

static DET_KERNEL: OpRecord = OpRecord::new(
    "_linalg_det",
    "Determinants, LU factors and pivots of square matrices.",
    "(Tensor A)",
)
.internal()
.with_key(&keys::DET, |c| {
    let a = squares(c, 0)?;
    Ok(Plan::many(
        a.dtype(),
        [
            Spec::new(shape(batch(a), &[]), a.dtype()),
            Spec::new(a.shape().clone(), a.dtype()),
            Spec::new(shape(batch(a), &[sides(a).0]), DType::I32),
        ],
    ))
})
.autocast(Autocast::Fp32)
.backward(Backward::Full {
    inputs: 1,
    outputs: 0b111,
    constant: 0b110,
    formula: |c| {
        let (a, det) = (c.input(0)?, c.out()?);
        let d = c.g().mul(&det.conj()?)?;
        let n = sides(&a).0;
        let d = embed(&d.unsqueeze(-1)?.expand(shape(batch(&a), &[n]))?)?;
        if !is_grad_enabled() {
            // The determinant is smooth, so a factor may be moved away from zero.
            let lu = c.output(1)?.detach();
            let zero = diagonal(&lu)?.eq(0)?.to_dtype(lu.dtype())?;
            let moved = lu.add(&embed(&zero.mul(crate::kernels::epsilon(lu.dtype()))?)?)?;
            return Ok(smallvec![Some(lu_solve_kernel(
                &moved,
                &c.output(2)?.detach(),
                &d,
                true,
                true
            )?)]);
        }
        let regular = !det.device().has_data() || det.detach().ne(0)?.all()?.item::<bool>()?;
        Ok(smallvec![Some(match regular {
            true => solve(&a.adjoint()?, &d)?,
            false => cofactors(&a, c.g())?,
        })])
    },
});

/// The gradient of determinants by singular values, which singular matrices have too.
fn cofactors(a: &Tensor, g: &Tensor) -> Result<Tensor> {
    let (u, s, vh) = svd(a)?;
    let n = sides(a).0;
    // The product of the other singular values.
    let others = s.unsqueeze(-2)?.expand(shape(batch(a), &[n, n]))?;
    let id = Tensor::eye(n, DType::Bool, a.device())?;
    let others = others.masked_fill(&id, 1.0)?.prod_dim(-1, false)?;
    let phase = det(&u)?.mul(&det(&vh)?)?.conj()?;
    let factor = g.mul(&phase)?.unsqueeze(-1)?.mul(&others)?;
    u.mul(&factor.unsqueeze(-2)?)?.matmul(&vh)
}

#[torsh_tensor::by_name(det)]
static DET: OpRecord = OpRecord::new(
    "linalg.det",
    "The determinants of square matrices.",
    "(Tensor A)",
)
.samples(|s| {
    let ([a, z], [c, _]) = (regular(s, &[3, 3])?, regular(s, &[2, 2, 2])?);
    Ok([a, z, c].map(|a| sample![a]).into())
});

static SLOGDET_KERNEL: OpRecord = OpRecord::new(
    "_linalg_slogdet",
    "Signs and logarithms of the magnitudes of determinants, LU factors and pivots of square matrices.",
    "(Tensor A)",
)
.internal()
.with_key(&keys::SLOGDET, |c| {
    let a = squares(c, 0)?;
    Ok(Plan::many(
        a.dtype(),
        [
            Spec::new(shape(batch(a), &[]), a.dtype()),
            Spec::new(shape(batch(a), &[]), a.dtype().to_real()),
            Spec::new(a.shape().clone(), a.dtype()),
            Spec::new(shape(batch(a), &[sides(a).0]), DType::I32),
        ],
    ))
})
.autocast(Autocast::Fp32)
.backward(Backward::Full {
    inputs: 1,
    outputs: 0b1101,
    constant: 0b1100,
    formula: |c| {
        let a = c.input(0)?;
        let n = sides(&a).0;
        let mut w = match c.grad(1) {
            Some(g) => g.to_dtype(a.dtype())?,
            None => Tensor::zeros(batch(&a), a.dtype(), a.device())?,
        };
        if let (true, Some(g)) = (a.dtype().is_complex(), c.grad(0)) {
            let turn = g.mul(&c.output(0)?.conj()?)?.imag()?;
            w = w.add(&turn.to_dtype(a.dtype())?.mul(Scalar::Complex(0.0, 1.0))?)?;
        }
        let d = embed(&w.unsqueeze(-1)?.expand(shape(batch(&a), &[n]))?)?;
        Ok(smallvec![Some(match is_grad_enabled() {
            true => solve(&a.adjoint()?, &d)?,
            false => lu_solve_kernel(&c.output(2)?.detach(), &c.output(3)?.detach(), &d, true, true)?,
        })])
    },
});

#[torsh_tensor::by_name(slogdet)]
static SLOGDET: OpRecord = OpRecord::new(
    "linalg.slogdet",
    "The signs of determinants, and the natural logarithms of their magnitudes.",
    "(Tensor A)",
)
.samples(|s| {
    let ([a, z], [c, _]) = (regular(s, &[3, 3])?, regular(s, &[2, 2, 2])?);
    Ok([a, z, c].map(|a| sample![a]).into())
});

#[torsh_tensor::by_name(logdet)]
static LOGDET: OpRecord = OpRecord::new(
    "logdet",
    "The natural logarithms of the determinants of square matrices; nan where one is negative.",
    "(Tensor input)",
)
.samples(|s| {
    let [a, z] = regular(s, &[3, 3])?;
    let square = |x: Tensor| x.matmul(&x.adjoint()?);
    Ok(vec![sample![square(a)?], sample![z]])
});

#[track_caller]
fn det_outputs(a: &Tensor) -> Result<Tensor> {
    DET_KERNEL.call1(&[Arg::T(a)], NONE)
}

/// The determinants of square matrices (`torch.linalg.det`), of the shape of the batch; by LU.
///
/// It is the product of the diagonal of an LU factorisation, negated for an odd number of row exchanges. The
/// factorisation costs `2 n^3 / 3` operations. The product of a large matrix overflows or vanishes: use [`slogdet`].
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// assert_eq!(linalg::det(&tensor![[1.0, 2.0], [4.0, 4.0]])?.item::<f32>()?, -4.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If `a` is not a batch of square matrices of a dtype that [`lu_factor`](crate::lu_factor) takes.
#[torsh_tensor::names_caller]
pub fn det(a: &Tensor) -> Result<Tensor> {
    within("linalg.det", &[a], || det_outputs(a))
}

/// The signs of determinants (of magnitude 1, or 0), and the natural logarithms of their magnitudes, which are real
/// (`torch.linalg.slogdet`).
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// let (sign, log) = linalg::slogdet(&tensor![[-1.0, 0.0], [0.0, 1.0]])?;
/// assert_eq!((sign.item::<f32>()?, log.item::<f32>()?), (-1.0, 0.0));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`det`].
#[torsh_tensor::names_caller]
pub fn slogdet(a: &Tensor) -> Result<(Tensor, Tensor)> {
    within("linalg.slogdet", &[a], || {
        let mut outs = SLOGDET_KERNEL.call(&[Arg::T(a)], NONE)?.into_iter();
        match (outs.next(), outs.next()) {
            (Some(sign), Some(log)) => Ok((sign, log)),
            _ => Err(TorshError::failed("", "the kernel gave too few results")),
        }
    })
}

/// The natural logarithms of determinants (`torch.logdet`): nan where one is negative, minus infinity where one is 0.
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// assert_eq!(linalg::logdet(&tensor![[1.0, 0.0], [0.0, 1.0]])?.item::<f32>()?, 0.0);
/// assert!(linalg::logdet(&tensor![[-1.0]])?.item::<f32>()?.is_nan());
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`det`].
#[torsh_tensor::names_caller]
pub fn logdet(a: &Tensor) -> Result<Tensor> {
    within("logdet", &[a], || {
        let (sign, log) = slogdet(a)?;
        match a.dtype().is_complex() {
            true => sign.log()?.add(&log),
            false => Tensor::where_(&sign.eq(-1)?, f64::NAN, &log),
        }
    })
}
