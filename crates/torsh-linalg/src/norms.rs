//! Norms and condition numbers.

use torsh_core::DType;
use torsh_tensor::record::{OpRecord, Sample, sample};
use torsh_tensor::{Bound, NormOrd, Result, Tensor, TorshError, Value};

use crate::help::{batch, check_matrix, check_square, within};
use crate::options::{CondOptions, MatrixNormOptions, NormOptions, VectorNormOptions};
use crate::solve::{inv_ex, regular};
use crate::spectral::svdvals;

pub(crate) const RECORDS: &[&OpRecord] = &[&NORM, &MATRIX_NORM, &COND];

static NORM: OpRecord = OpRecord::new(
    "linalg.norm",
    "A vector norm over one dimension, or a matrix norm over two.",
    "(Tensor A, Any ord=None, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None)",
)
.by_name(|b| {
    let options = NormOptions {
        ord: order(b, 1)?,
        dim: b.opt_ints(2).map(Into::into),
        keepdim: b.bool(3),
        dtype: b.dtype(4),
    };
    norm_with(b.tensor(0)?, options).map(Value::Tensor)
})
.samples(|s| {
    let x = s.real(&[2, 3])?;
    let call = |ord: Value| sample![&x, ord];
    Ok(vec![
        call(Value::None),
        call(Value::Int(2)),
        call("nuc".into()),
        call(Value::Float(f64::INFINITY)),
        sample![s.real(&[4])?, 3],
        sample![s.complex(&[2, 2])?, "fro", keepdim = true],
    ])
});

fn order(b: &Bound, i: usize) -> Result<Option<NormOrd>> {
    match b.value(i) {
        Value::None => Ok(None),
        Value::Str(s) => NormOrd::from(s.as_str()).known("ord").map(Some),
        Value::Int(_) | Value::Float(_) => Ok(Some(NormOrd::Number(b.float(i)))),
        other => Err(TorshError::invalid(
            "",
            format!("the order of a norm cannot be a {}", other.kind()),
        )),
    }
}

static MATRIX_NORM: OpRecord = OpRecord::new(
    "linalg.matrix_norm",
    "A matrix norm over two dimensions.",
    "(Tensor A, Any ord='fro', int[] dim=[-2, -1], bool keepdim=False, *, ScalarType? dtype=None)",
)
.by_name(|b| {
    let dims = b.ints(2);
    let [first, second] = dims[..] else {
        return Err(TorshError::invalid(
            "",
            format!("dim must be two dimensions, got {dims:?}"),
        ));
    };
    let options = MatrixNormOptions {
        ord: order(b, 1)?.unwrap_or(NormOrd::Fro),
        dim: [first, second],
        keepdim: b.bool(3),
        dtype: b.dtype(4),
    };
    matrix_norm_with(b.tensor(0)?, options).map(Value::Tensor)
})
.samples(|s| {
    let x = s.real(&[2, 3])?;
    let orders = [1.0, -1.0, 2.0, -2.0, f64::INFINITY, f64::NEG_INFINITY];
    let mut all: Vec<Sample> = orders
        .iter()
        .map(|&o| sample![&x, Value::Float(o)])
        .collect();
    all.push(sample![s.complex(&[2, 2, 3])?, "nuc"]);
    Ok(all)
});

static COND: OpRecord = OpRecord::new(
    "linalg.cond",
    "The condition numbers of matrices, in a norm.",
    "(Tensor A, Any p=None)",
)
.by_name(|b| {
    let options = CondOptions { p: order(b, 1)? };
    cond_with(b.tensor(0)?, options).map(Value::Tensor)
})
.samples(|s| {
    let [a, z] = regular(s, &[3, 3])?;
    Ok(vec![
        sample![&a],
        sample![&a, -2],
        sample![a, 1],
        sample![z, "fro"],
    ])
});

fn converted(t: &Tensor, dtype: Option<DType>) -> Result<Tensor> {
    let t = match dtype {
        Some(d) if d != t.dtype() => {
            if t.dtype().is_complex() && !d.is_complex() {
                let text = format!("a norm of {} cannot be computed in {d}", t.dtype());
                return Err(TorshError::dtype("", text));
            }
            t.to_dtype(d)?
        }
        _ => t.clone(),
    };
    match t.dtype().is_differentiable() {
        true => Ok(t),
        false => Err(TorshError::dtype(
            "",
            format!(
                "expected a floating point or complex tensor as input, got {}",
                t.dtype()
            ),
        )
        .with_hint("convert it with to_dtype(DType::F32)")),
    }
}

fn vector(t: &Tensor, p: f64, dim: Option<Vec<i64>>, keepdim: bool) -> Result<Tensor> {
    t.norm_with(torsh_tensor::NormOptions {
        p: p.into(),
        dim: dim.map(Into::into),
        keepdim,
        dtype: None,
    })
}

/// A norm over all elements, or of the vectors or matrices along dimensions (`torch.linalg.norm`): without options, the
/// 2-norm of all elements.
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// assert_eq!(linalg::norm(&tensor![[3.0, 0.0], [0.0, 4.0]])?.item::<f32>()?, 5.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If the dtype is neither floating point nor complex.
#[track_caller]
pub fn norm(a: &Tensor) -> Result<Tensor> {
    norm_with(a, NormOptions::new())
}

/// [`norm`] with options.
///
/// ```
/// use torsh_linalg::{self as linalg, NormOptions, NormOrd};
/// use torsh_tensor::tensor;
/// let a = tensor![[3.0, 0.0], [0.0, 4.0]];
/// let nuclear = linalg::norm_with(&a, NormOptions::new().ord(NormOrd::Nuc))?;
/// assert!((nuclear.item::<f32>()? - 7.0).abs() < 1e-5);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`norm`], and for an order that vectors or matrices have not, or more than two dimensions with an order.
#[torsh_tensor::names_caller]
pub fn norm_with(a: &Tensor, options: NormOptions) -> Result<Tensor> {
    within("linalg.norm", &[a], || {
        let NormOptions {
            ord,
            dim,
            keepdim,
            dtype,
        } = options;
        let x = converted(a, dtype)?;
        let dims = dim.map(|d| d.to_vec());
        let Some(ord) = ord else {
            return vector(&x, 2.0, dims, keepdim);
        };
        let ord = ord.known("ord")?;
        let count = dims.as_ref().map_or(x.ndim(), Vec::len);
        let numbered = |p: f64| vector(&x, p, dims.clone(), keepdim);
        match (count, ord) {
            (1, NormOrd::Number(p)) => numbered(p),
            (2, _) => {
                let dim = match &dims {
                    Some(d) => [d[0], d[1]],
                    None => [0, 1],
                };
                matrix(&x, ord, dim, keepdim)
            }
            (1, _) => Err(TorshError::invalid(
                "",
                "vectors have norms of a number as order, not 'fro' or 'nuc'",
            )),
            (n, _) => Err(TorshError::invalid(
                "",
                format!("with an order, dim must be one or two dimensions, got {n}"),
            )
            .with_hint("leave ord away for the 2-norm of all elements, or say dim")),
        }
    })
}

/// The p-norms of vectors along dimensions (`torch.linalg.vector_norm`): without options, the 2-norm of all elements.
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// assert_eq!(linalg::vector_norm(&tensor![3.0, 4.0])?.item::<f32>()?, 5.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`norm`].
#[track_caller]
pub fn vector_norm(x: &Tensor) -> Result<Tensor> {
    vector_norm_with(x, VectorNormOptions::new())
}

/// [`vector_norm`] with options.
///
/// ```
/// use torsh_linalg::{self as linalg, VectorNormOptions};
/// use torsh_tensor::tensor;
/// let x = tensor![[3.0, -4.0], [1.0, 1.0]];
/// let sums = linalg::vector_norm_with(&x, VectorNormOptions::new().ord(1.0).dim(1))?;
/// assert_eq!(sums, tensor![7.0, 2.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`norm`], and for dimensions that `x` has not.
#[torsh_tensor::names_caller]
pub fn vector_norm_with(x: &Tensor, options: VectorNormOptions) -> Result<Tensor> {
    within("linalg.vector_norm", &[x], || {
        let x = converted(x, options.dtype)?;
        vector(
            &x,
            options.ord,
            options.dim.map(|d| d.to_vec()),
            options.keepdim,
        )
    })
}

/// The Frobenius norms of matrices (`torch.linalg.matrix_norm`).
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// assert_eq!(linalg::matrix_norm(&tensor![[3.0, 0.0], [0.0, 4.0]])?.item::<f32>()?, 5.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If `a` has fewer than two dimensions, or is neither floating point nor complex.
#[track_caller]
pub fn matrix_norm(a: &Tensor) -> Result<Tensor> {
    matrix_norm_with(a, MatrixNormOptions::new())
}

/// [`matrix_norm`] with options: the orders are Frobenius's, the nuclear one (the sum of the singular values), 2 and -2 (the
/// largest and the smallest singular value), 1 and -1 (the largest and the smallest sum of magnitudes of a column),
/// infinity and its negative (of a row).
///
/// ```
/// use torsh_linalg::{self as linalg, MatrixNormOptions};
/// use torsh_tensor::tensor;
/// let a = tensor![[1.0, 2.0], [3.0, 4.0]];
/// assert_eq!(linalg::matrix_norm_with(&a, MatrixNormOptions::new().ord(1))?.item::<f32>()?, 6.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`matrix_norm`], and for another order.
#[torsh_tensor::names_caller]
pub fn matrix_norm_with(a: &Tensor, options: MatrixNormOptions) -> Result<Tensor> {
    within("linalg.matrix_norm", &[a], || {
        check_matrix(a)?;
        let a = converted(a, options.dtype)?;
        matrix(&a, options.ord, options.dim, options.keepdim)
    })
}

fn matrix(a: &Tensor, ord: NormOrd, dim: [i64; 2], keepdim: bool) -> Result<Tensor> {
    let n = a.ndim() as i64;
    let wrap = |d: i64| match (-n..n).contains(&d) {
        true => Ok(d.rem_euclid(n)),
        false => Err(TorshError::index(
            "",
            format!("dimension {d} is out of range for a tensor of {n} dimensions"),
        )),
    };
    let (first, second) = (wrap(dim[0])?, wrap(dim[1])?);
    if first == second {
        return Err(TorshError::invalid(
            "",
            format!("dim must be two different dimensions, got {dim:?}"),
        ));
    }
    match ord.known("ord")? {
        NormOrd::Fro | NormOrd::Unknown(_) => vector(a, 2.0, Some(vec![first, second]), keepdim),
        NormOrd::Number(p) if p.abs() == 1.0 || p.is_infinite() => {
            // Sums along one dimension, and the extreme along the other.
            let (sum, other) = match p.abs() == 1.0 {
                true => (first, second),
                false => (second, first),
            };
            let sums = vector(a, 1.0, Some(vec![sum]), keepdim)?;
            let at = if keepdim || other < sum {
                other
            } else {
                other - 1
            };
            extreme(&sums, at, p, keepdim)
        }
        NormOrd::Nuc | NormOrd::Number(2.0) | NormOrd::Number(-2.0) => {
            let s = svdvals(&a.movedim([first, second], [-2, -1])?)?;
            let value = match ord {
                NormOrd::Number(p) => extreme(&s, s.ndim() as i64 - 1, p, false)?,
                _ => s.sum_dim(-1, false)?,
            };
            match keepdim {
                true => value
                    .unsqueeze(first.min(second))?
                    .unsqueeze(first.max(second)),
                false => Ok(value),
            }
        }
        NormOrd::Number(p) => Err(TorshError::invalid(
            "",
            format!("order {p} is not there for matrices"),
        )
        .with_hint("matrices have the orders 1, -1, 2, -2, inf, -inf, 'fro' and 'nuc'")),
    }
}

/// The largest element along a dimension, 0 where there is none, or for an order below 0 the smallest.
fn extreme(t: &Tensor, dim: i64, order: f64, keepdim: bool) -> Result<Tensor> {
    let at = dim as usize;
    if order < 0.0 {
        return t.amin(dim, keepdim);
    }
    if t.dims()[at] > 0 {
        return t.amax(dim, keepdim);
    }
    let mut sizes = t.dims().to_vec();
    if keepdim {
        sizes[at] = 1;
    } else {
        sizes.remove(at);
    }
    Tensor::zeros(&sizes[..], t.dtype(), t.device())
}

/// The condition numbers of matrices (`torch.linalg.cond`): the largest singular value over the smallest.
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// assert_eq!(linalg::cond(&tensor![[4.0, 0.0], [0.0, 2.0]])?.item::<f32>()?, 2.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If `a` is not a batch of matrices of float32, float64, complex64 or complex128, or has a nan or infinity.
#[track_caller]
pub fn cond(a: &Tensor) -> Result<Tensor> {
    cond_with(a, CondOptions::new())
}

/// [`cond`] in another norm: the product of the norms of a square matrix and its inverse, infinite for a singular one.
///
/// ```
/// use torsh_linalg::{self as linalg, CondOptions};
/// use torsh_tensor::tensor;
/// let a = tensor![[1.0, 1.0], [1.0, 1.0]];
/// assert_eq!(linalg::cond_with(&a, CondOptions::new().p(1))?.item::<f32>()?, f32::INFINITY);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`cond`], for another order, and for matrices that are not square with an order other than 2 and -2.
#[torsh_tensor::names_caller]
pub fn cond_with(a: &Tensor, options: CondOptions) -> Result<Tensor> {
    within("linalg.cond", &[a], || {
        check_matrix(a)?;
        let p = options.p.unwrap_or(NormOrd::Number(2.0)).known("p")?;
        if let NormOrd::Number(order) = p
            && order.abs() == 2.0
        {
            let s = svdvals(a)?;
            let k = s.dims()[s.ndim() - 1];
            if k == 0 {
                return Tensor::zeros(batch(a), s.dtype(), s.device());
            }
            let (first, last) = (s.select(-1, 0)?, s.select(-1, k - 1)?);
            return if order > 0.0 {
                first.div(&last)
            } else {
                last.div(&first)
            };
        }
        check_square(a)?;
        let (inverse, info) = inv_ex(a)?;
        if a.numel() == 0 {
            return Tensor::zeros(batch(a), a.dtype().to_real(), a.device());
        }
        let (of, back) = (matrix(a, p, [-2, -1], false)?, matrix_or_nan(&inverse, p)?);
        Tensor::where_(&info.eq(0)?, &of.mul(&back)?, f64::INFINITY)
    })
}

/// The norm of an inverse: singular matrices, whose inverse may have nan or infinity, are left out by the caller.
fn matrix_or_nan(inverse: &Tensor, p: NormOrd) -> Result<Tensor> {
    match p {
        NormOrd::Nuc => matrix(&inverse.nan_to_num()?, p, [-2, -1], false),
        _ => matrix(inverse, p, [-2, -1], false),
    }
}
