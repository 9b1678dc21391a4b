//! A few singular values or eigenvalues of large matrices.

use torsh_core::DType;
use torsh_tensor::record::{OpRecord, sample};
use torsh_tensor::{Result, Tensor, TorshError, Value, is_grad_enabled, no_grad};

use crate::cholesky::{cholesky, positive_definite};
use crate::help::{batch, check_dtype, check_matrix, check_square, shape, sides, within};
use crate::options::{LobpcgOptions, PcaLowrankOptions, SvdLowrankOptions, SvdOptions};
use crate::qr::qr;
use crate::solve::triangular;
use crate::spectral::{eigh, svd_with};

pub(crate) const RECORDS: &[&OpRecord] = &[&SVD_LOWRANK, &PCA_LOWRANK, &LOBPCG];

static SVD_LOWRANK: OpRecord = OpRecord::new(
    "svd_lowrank",
    "The largest singular values of matrices, with their vectors, by subspace iteration from random vectors.",
    "(Tensor A, int? q=6, int? niter=2, Tensor? M=None)",
)
.by_name(|b| {
    let options = SvdLowrankOptions {
        q: b.opt_int(1).unwrap_or(6),
        niter: b.opt_int(2).unwrap_or(2),
        m: b.opt_tensor(3).cloned(),
    };
    svd_lowrank_with(b.tensor(0)?, options).map(Into::into)
})
.constant();

#[torsh_tensor::by_name(pca_lowrank_with(.., PcaLowrankOptions))]
static PCA_LOWRANK: OpRecord = OpRecord::new(
    "pca_lowrank",
    "The principal components of the rows of matrices, by subspace iteration from random vectors.",
    "(Tensor A, int? q=None, bool center=True, int niter=2)",
)
.constant();

static LOBPCG: OpRecord = OpRecord::new(
    "lobpcg",
    "A few extreme eigenvalues of Hermitian matrices, with their vectors, by the locally optimal block preconditioned conjugate gradient method.",
    "(Tensor A, int? k=None, Tensor? B=None, Tensor? X=None, int? n=None, Tensor? iK=None, int? niter=None, float? tol=None, bool? largest=None, str? method=None)",
)
.by_name(|b| {
    if let Value::Str(m) = b.value(9)
        && !matches!(m.as_str(), "basic" | "ortho")
    {
        let text = format!("method is 'basic' or 'ortho', got '{m}'");
        return Err(TorshError::invalid("lobpcg", text));
    }
    let options = LobpcgOptions {
        k: b.opt_int(1),
        b: b.opt_tensor(2).cloned(),
        x: b.opt_tensor(3).cloned(),
        n: b.opt_int(4),
        ik: b.opt_tensor(5).cloned(),
        niter: b.opt_int(6),
        tol: b.opt_float(7),
        largest: match b.value(8) {
            Value::Bool(v) => Some(*v),
            _ => None,
        },
    };
    lobpcg_with(b.tensor(0)?, options).map(Into::into)
})
.samples(|s| {
    let all = positive_definite(s, &[4, 4])?;
    Ok(all.into_iter().map(|a| sample![a, 1]).collect())
});

fn whole(name: &str, v: i64) -> Result<usize> {
    usize::try_from(v)
        .map_err(|_| TorshError::invalid("", format!("{name} must not be negative, got {v}")))
}

/// The `q` largest singular values and their vectors of matrices, `(U, S, V)` with `A` about `U diag(S) Vᴴ`
/// (`torch.svd_lowrank`), by Halko's subspace iteration. It draws `min(m, n) * q` numbers of the normal
/// distribution from the default generator, as PyTorch does.
///
/// It multiplies the matrix with `q` columns `2 niter + 2` times, at `2 m n q` operations each; a whole decomposition
/// costs several times `m n min(m, n)` (Halko, Martinsson and Tropp, 2009).
///
/// ```
/// use torsh_core::random::manual_seed;
/// use torsh_linalg::{self as linalg, SvdLowrankOptions};
/// use torsh_tensor::tensor;
/// manual_seed(0);
/// let a = tensor![[2.0, 4.0], [1.0, 2.0]];
/// let (u, s, v) = linalg::svd_lowrank_with(&a, SvdLowrankOptions::new().q(1))?;
/// assert!((s.item::<f32>()? - 5.0).abs() < 1e-4);
/// assert!(u.mul(&s)?.matmul(&v.t()?)?.sub(&a)?.abs()?.max()?.item::<f32>()? < 1e-4);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If `a` is not a batch of matrices of float32, float64, complex64 or complex128, or `q` or `niter` is negative.
#[track_caller]
pub fn svd_lowrank(a: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
    svd_lowrank_with(a, SvdLowrankOptions::new())
}

/// [`svd_lowrank`] with options.
///
/// ```
/// use torsh_linalg::{self as linalg, SvdLowrankOptions};
/// use torsh_tensor::ones;
/// let (u, s, v) = linalg::svd_lowrank_with(&ones(&[4, 3]), SvdLowrankOptions::new().q(2))?;
/// assert_eq!((u.dims(), s.dims(), v.dims()), (&[4, 2][..], &[2][..], &[3, 2][..]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`svd_lowrank`].
#[torsh_tensor::names_caller]
pub fn svd_lowrank_with(
    a: &Tensor,
    options: SvdLowrankOptions,
) -> Result<(Tensor, Tensor, Tensor)> {
    within("svd_lowrank", &[a], || {
        let SvdLowrankOptions { q, niter, m } = options;
        low_rank(a, whole("q", q)?, whole("niter", niter)?, m.as_ref())
    })
}

fn low_rank(
    a: &Tensor,
    q: usize,
    niter: usize,
    mean: Option<&Tensor>,
) -> Result<(Tensor, Tensor, Tensor)> {
    check_matrix(a)?;
    check_dtype(a)?;
    let (m, n) = sides(a);
    let mean = mean.map(|t| t.expand(a.shape())).transpose()?;
    let wide = m < n;
    let (a, mean) = match wide {
        true => (a.adjoint()?, mean.map(|t| t.adjoint()).transpose()?),
        false => (a.clone(), mean),
    };
    let times = |x: &Tensor| match &mean {
        Some(t) => a.matmul(x)?.sub(&t.matmul(x)?),
        None => a.matmul(x),
    };
    let back = |x: &Tensor| match &mean {
        Some(t) => a.adjoint()?.matmul(x)?.sub(&t.adjoint()?.matmul(x)?),
        None => a.adjoint()?.matmul(x),
    };
    let start = Tensor::randn([sides(&a).1, q], a.dtype(), a.device())?;
    let mut basis = qr(&times(&start)?)?.0;
    for _ in 0..niter {
        basis = qr(&back(&basis)?)?.0;
        basis = qr(&times(&basis)?)?.0;
    }
    let small = back(&basis)?.adjoint()?;
    let options = SvdOptions {
        full_matrices: false,
        ..Default::default()
    };
    let (u, s, vh) = svd_with(&small, options)?;
    let (u, v) = (basis.matmul(&u)?, vh.adjoint()?);
    Ok(if wide { (v, s, u) } else { (u, s, v) })
}

/// The principal components of the rows of matrices (`torch.pca_lowrank`): the singular values and vectors of the matrix
/// after the mean of each column was subtracted.
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// let a = tensor![[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]];
/// let (_, s, v) = linalg::pca_lowrank(&a)?;
/// assert!((s.i(0)?.item::<f32>()? - 2.0).abs() < 1e-4);
/// assert!((v.i((0, 0))?.item::<f32>()?.abs() - 0.70710678).abs() < 1e-4);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`svd_lowrank`], and if `q` is more than the smaller side.
#[track_caller]
pub fn pca_lowrank(a: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
    pca_lowrank_with(a, PcaLowrankOptions::new())
}

/// [`pca_lowrank`] with options.
///
/// ```
/// use torsh_linalg::{self as linalg, PcaLowrankOptions};
/// use torsh_tensor::ones;
/// let (_, s, _) = linalg::pca_lowrank_with(&ones(&[4, 3]), PcaLowrankOptions::new().q(1).center(false))?;
/// assert!((s.item::<f32>()? - 12f32.sqrt()).abs() < 1e-4);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`pca_lowrank`].
#[torsh_tensor::names_caller]
pub fn pca_lowrank_with(
    a: &Tensor,
    options: PcaLowrankOptions,
) -> Result<(Tensor, Tensor, Tensor)> {
    within("pca_lowrank", &[a], || {
        check_matrix(a)?;
        check_dtype(a)?;
        let (m, n) = sides(a);
        let q = match options.q {
            None => 6.min(m).min(n),
            Some(q) => whole("q", q)?,
        };
        if q > m.min(n) {
            let text = format!(
                "q must not be more than the smaller side {}, got {q}",
                m.min(n)
            );
            return Err(TorshError::invalid("", text));
        }
        let niter = whole("niter", options.niter)?;
        match options.center {
            true => low_rank(&a.sub(&a.mean_dim(-2, true)?)?, q, niter, None),
            false => low_rank(a, q, niter, None),
        }
    })
}

/// A few of the largest or smallest eigenvalues of Hermitian matrices, and their vectors (`torch.lobpcg`), for the problem
/// `A x = l B x`, by the locally optimal block preconditioned conjugate gradient method.
///
/// It reads `a` in products alone. Where a gradient is recorded, all eigenvalues are computed instead, by
/// [`eigh`](crate::eigh).
///
/// ```
/// use torsh_core::random::manual_seed;
/// use torsh_linalg::{self as linalg, LobpcgOptions};
/// use torsh_tensor::{arange, Tensor};
/// manual_seed(0);
/// let a = arange(1.0, 21.0, 1.0).diag(0)?;
/// let (l, _) = linalg::lobpcg_with(&a, LobpcgOptions::new().k(2))?;
/// assert!(l.allclose(&Tensor::from_data(&[20.0f32, 19.0], [2])?)?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If `a` is not a batch of square matrices of float32, float64, complex64 or complex128, or has fewer rows than three times
/// the columns that are iterated.
#[track_caller]
pub fn lobpcg(a: &Tensor) -> Result<(Tensor, Tensor)> {
    lobpcg_with(a, LobpcgOptions::new())
}

/// [`lobpcg`] with options.
///
/// ```
/// use torsh_core::random::manual_seed;
/// use torsh_linalg::{self as linalg, LobpcgOptions};
/// use torsh_tensor::{arange, Tensor};
/// manual_seed(0);
/// let a = arange(1.0, 21.0, 1.0).diag(0)?;
/// let (l, _) = linalg::lobpcg_with(&a, LobpcgOptions::new().k(1).largest(false))?;
/// assert!((l.item::<f32>()? - 1.0).abs() < 1e-3);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`lobpcg`].
#[torsh_tensor::names_caller]
pub fn lobpcg_with(a: &Tensor, options: LobpcgOptions) -> Result<(Tensor, Tensor)> {
    within("lobpcg", &[a], || {
        check_square(a)?;
        check_dtype(a)?;
        let m = sides(a).0;
        let LobpcgOptions {
            k,
            b,
            x,
            n,
            ik,
            niter,
            tol,
            largest,
        } = options;
        let given = x.as_ref().map(|x| sides(x).1);
        let k = match k {
            Some(k) => whole("k", k)?,
            None => given.unwrap_or(1),
        };
        let n = match n {
            Some(n) => whole("n", n)?,
            None => given.unwrap_or(k),
        };
        let largest = largest.unwrap_or(true);
        let recorded = |t: &Tensor| is_grad_enabled() && t.requires_grad();
        if recorded(a) || b.as_ref().is_some_and(recorded) {
            return dense(a, b.as_ref(), k.min(m), largest);
        }
        if k == 0 || k > n || m / 3 < n {
            let text = format!(
                "{m} rows are fewer than 3 times the {n} columns that are iterated, or k={k} is not from 1 to {n}"
            );
            return Err(
                TorshError::invalid("", text).with_hint("use linalg.eigh for small matrices")
            );
        }
        let real = a.dtype().to_real();
        let usual = if real == DType::F32 {
            f64::from(f32::EPSILON)
        } else {
            f64::EPSILON
        }
        .sqrt();
        let most = match niter.unwrap_or(1000) {
            -1 => 10_000,
            i => whole("niter", i)?.min(10_000),
        };
        let start = match x {
            Some(x) => x.expand(shape(batch(a), &[m, n]))?,
            None => Tensor::randn(shape(batch(a), &[m, n]), a.dtype(), a.device())?,
        };
        if !a.device().has_data() {
            return Ok((
                Tensor::zeros(shape(batch(a), &[k]), real, a.device())?,
                Tensor::zeros(shape(batch(a), &[m, k]), a.dtype(), a.device())?,
            ));
        }
        let flat = |t: &Tensor| {
            let (rows, cols) = sides(t);
            let count = batch(a).iter().product::<usize>();
            t.expand(shape(batch(a), &[rows, cols]))?
                .reshape([count, rows, cols])
        };
        let b = b.as_ref().map(flat).transpose()?;
        let ik = ik.as_ref().map(flat).transpose()?;
        let (all, starts) = (flat(a)?, flat(&start)?);
        let (mut values, mut vectors) = (Vec::new(), Vec::new());
        no_grad(|| {
            for i in 0..all.dims()[0] {
                let pick = |t: &Option<Tensor>| t.as_ref().map(|t| t.select(0, i)).transpose();
                let problem = Problem {
                    a: all.select(0, i)?,
                    b: pick(&b)?,
                    ik: pick(&ik)?,
                };
                let (l, x) = problem.iterate(
                    &starts.select(0, i)?,
                    k,
                    most,
                    tol.unwrap_or(usual),
                    largest,
                )?;
                values.push(l);
                vectors.push(x);
            }
            Ok::<_, TorshError>(())
        })?;
        if values.is_empty() {
            let none = Tensor::zeros(shape(batch(a), &[k]), real, a.device())?;
            return Ok((
                none,
                Tensor::zeros(shape(batch(a), &[m, k]), a.dtype(), a.device())?,
            ));
        }
        Ok((
            Tensor::stack(&values, 0)?.reshape(shape(batch(a), &[k]))?,
            Tensor::stack(&vectors, 0)?.reshape(shape(batch(a), &[m, k]))?,
        ))
    })
}

/// The first or last `k` of all eigenvalues, with derivatives.
fn dense(a: &Tensor, b: Option<&Tensor>, k: usize, largest: bool) -> Result<(Tensor, Tensor)> {
    let m = sides(a).0;
    let l = b.map(cholesky).transpose()?;
    let problem = match &l {
        None => a.clone(),
        Some(l) => {
            let left = triangular(l, a, false, true, false)?;
            triangular(&l.adjoint()?, &left, true, false, false)?
        }
    };
    let (values, vectors) = eigh(&problem)?;
    let vectors = match &l {
        None => vectors,
        Some(l) => triangular(&l.adjoint()?, &vectors, true, true, false)?,
    };
    match largest {
        true => Ok((
            values.narrow(-1, m - k, k)?.flip(-1)?,
            vectors.narrow(-1, m - k, k)?.flip(-1)?,
        )),
        false => Ok((values.narrow(-1, 0, k)?, vectors.narrow(-1, 0, k)?)),
    }
}

struct Problem {
    a: Tensor,
    b: Option<Tensor>,
    ik: Option<Tensor>,
}

impl Problem {
    fn times_b(&self, x: &Tensor) -> Result<Tensor> {
        match &self.b {
            Some(b) => b.matmul(x),
            None => Ok(x.clone()),
        }
    }

    /// A basis of the columns of `s`, orthonormal in the inner product of `B`; directions that are no longer told from
    /// rounding are left out.
    fn basis(&self, s: &Tensor) -> Result<Tensor> {
        let mut s = s.clone();
        // Twice, because once leaves what rounding has mixed in.
        for _ in 0..2 {
            let norms = s.mul(&s.conj()?)?;
            let norms = if norms.dtype().is_complex() {
                norms.real()?
            } else {
                norms
            };
            let norms = norms
                .sum_dim(-2, true)?
                .sqrt()?
                .clamp_min(f64::from(f32::MIN_POSITIVE))?;
            s = s.div(&norms)?;
            let (d, v) = eigh(&s.adjoint()?.matmul(&self.times_b(&s)?)?)?;
            let eps = crate::kernels::epsilon(s.dtype()) * s.dims()[1] as f64;
            let top = d.amax(-1, false)?.item::<f64>()?;
            let kept: Vec<f64> = d
                .to_vec::<f64>()?
                .into_iter()
                .filter(|&x| x > eps * top)
                .collect();
            let (n, k) = (d.numel(), kept.len());
            if k == 0 {
                return Err(TorshError::failed(
                    "",
                    "the start is zero, or B is not positive definite",
                ));
            }
            let scale = d.narrow(-1, n - k, k)?.rsqrt()?;
            s = s.matmul(&v.narrow(-1, n - k, k)?.mul(&scale)?)?;
        }
        Ok(s)
    }

    fn iterate(
        &self,
        start: &Tensor,
        k: usize,
        most: usize,
        tol: f64,
        largest: bool,
    ) -> Result<(Tensor, Tensor)> {
        let n = start.dims()[1];
        // The Ritz values and vectors of a basis: the wanted ones first.
        let ritz = |s: &Tensor| -> Result<(Tensor, Tensor)> {
            let (l, v) = eigh(&s.adjoint()?.matmul(&self.a.matmul(s)?)?)?;
            let count = l.numel().min(n);
            match largest {
                true => {
                    let from = l.numel() - count;
                    Ok((
                        l.narrow(-1, from, count)?.flip(-1)?,
                        v.narrow(-1, from, count)?.flip(-1)?,
                    ))
                }
                false => Ok((l.narrow(-1, 0, count)?, v.narrow(-1, 0, count)?)),
            }
        };
        let norm = |t: &Tensor| -> Result<f64> { t.norm()?.item::<f64>() };
        let (size_a, size_b) = (norm(&self.a)?, self.b.as_ref().map_or(Ok(1.0), norm)?);
        let basis = self.basis(start)?;
        let (mut l, v) = ritz(&basis)?;
        let mut x = basis.matmul(&v)?;
        let mut p: Option<Tensor> = None;
        for _ in 0..most {
            let residual = self.a.matmul(&x)?.sub(&self.times_b(&x)?.mul(&l)?)?;
            let good = (0..k.min(l.numel())).try_fold(true, |all, j| -> Result<bool> {
                let (r, y) = (
                    norm(&residual.narrow(-1, j, 1)?)?,
                    norm(&x.narrow(-1, j, 1)?)?,
                );
                let value = l.select(-1, j)?.item::<f64>()?.abs();
                Ok(all && r <= tol * y * (size_a + value * size_b))
            })?;
            if good {
                break;
            }
            let w = match &self.ik {
                Some(t) => t.matmul(&residual)?,
                None => residual,
            };
            let mut parts = vec![x.clone(), w];
            parts.extend(p.take());
            let s = self.basis(&Tensor::cat(&parts, -1)?)?;
            let (values, v) = ritz(&s)?;
            let next = s.matmul(&v)?;
            // The conjugate direction: the step without its part along the former vectors.
            let along = x.adjoint()?.matmul(&self.times_b(&next)?)?;
            p = Some(next.sub(&x.matmul(&along)?)?);
            (l, x) = (values, next);
        }
        if l.numel() < k {
            let text = format!(
                "the iteration found {} of {k} eigenvalues: the start has too low a rank",
                l.numel()
            );
            return Err(TorshError::failed("", text));
        }
        Ok((l.narrow(-1, 0, k)?, x.narrow(-1, 0, k)?))
    }
}
