//! Matrices that stay orthogonal while they are trained (`torch.nn.utils.parametrizations.orthogonal`).

use torsh_tensor::named::Named;
use torsh_tensor::{
    DType, Device, DiagonalOptions, Result, SumOptions, Tensor, TorshError, no_grad,
};

use crate::init;
use crate::module::Parameter;

/// How a matrix without constraints becomes an orthogonal one.
///
/// ```
/// use torsh_nn::utils::parametrizations::{OrthogonalMap, OrthogonalOptions};
/// let options = OrthogonalOptions::new().orthogonal_map(OrthogonalMap::Cayley);
/// assert_eq!(options.orthogonal_map, Some(OrthogonalMap::Cayley));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OrthogonalMap {
    /// The exponential of the skew-symmetric matrix `L - L^T`, where `L` is the lower triangle (`"matrix_exp"`).
    MatrixExp,
    /// `(I + A / 2) (I - A / 2)^-1` of the same matrix (`"cayley"`).
    Cayley,
    /// A product of reflections by the columns of the strictly lower triangle (`"householder"`).
    Householder,
    /// A string that is none of the words; the function that gets it refuses it.
    #[doc(hidden)]
    Unknown(torsh_tensor::named::Unknown),
}

torsh_tensor::named! {
    OrthogonalMap, "orthogonal_map",
    "matrix_exp" => OrthogonalMap::MatrixExp,
    "cayley" => OrthogonalMap::Cayley,
    "householder" => OrthogonalMap::Householder,
}

/// A map, its word, or `None` for the one that is chosen by the shape.
pub trait IntoOrthogonalMap {
    /// The map.
    fn into_map(self) -> Option<OrthogonalMap>;
}

impl IntoOrthogonalMap for OrthogonalMap {
    fn into_map(self) -> Option<OrthogonalMap> {
        Some(self)
    }
}

impl IntoOrthogonalMap for Option<OrthogonalMap> {
    fn into_map(self) -> Option<OrthogonalMap> {
        self
    }
}

impl IntoOrthogonalMap for &str {
    fn into_map(self) -> Option<OrthogonalMap> {
        Some(self.into())
    }
}

torsh_tensor::options! {
    /// PyTorch's keyword arguments of `torch.nn.utils.parametrizations.orthogonal`.
    ///
    /// ```
    /// let options = torsh_nn::utils::parametrizations::OrthogonalOptions::new();
    /// assert!(options.use_trivialization && options.orthogonal_map.is_none());
    /// ```
    OrthogonalOptions {
        /// The map; that of the matrix exponential for square matrices and reflections for others unless set.
        orthogonal_map: Option<OrthogonalMap> = None, impl IntoOrthogonalMap => |m| m.into_map();
        /// Whether the matrix is a map of what is trained times a fixed one, which makes it begin as the layer's own.
        use_trivialization: bool = true;
    }
}

/// The map, what is trained, and what the map's result is multiplied by.
pub(super) type Parts = (OrthogonalMap, Tensor, Option<Tensor>);

/// What a weight is computed from.
pub(super) fn parts(weight: &Parameter, options: OrthogonalOptions) -> Result<Parts> {
    if weight.ndim() < 2 {
        return Err(TorshError::shape(
            "",
            format!(
                "expected a matrix or a batch of matrices, got {}",
                weight.describe()
            ),
        ));
    }
    if weight.dtype().is_complex() || weight.device() == Device::Meta {
        return Err(TorshError::invalid(
            "",
            format!(
                "the weight is real and on a device with memory, got {}",
                weight.describe()
            ),
        ));
    }
    let (rows, columns) = sides(weight);
    let map = options.orthogonal_map.unwrap_or(match rows == columns {
        true => OrthogonalMap::MatrixExp,
        false => OrthogonalMap::Householder,
    });
    let map = map.known()?;
    let weight = weight.detach();
    no_grad(|| {
        if options.use_trivialization {
            // Reflections by nothing, whose signs are the diagonal, are the identity.
            let diagonal = Tensor::eye_with(rows, columns, &weight)?.neg()?;
            let original = diagonal.expand(weight.shape())?.copy()?;
            return Ok((map, original, Some(base(&weight)?)));
        }
        let original = match map {
            OrthogonalMap::Householder => reflections(&weight)?,
            _ => weight.copy()?,
        };
        Ok((map, original, None))
    })
}

/// The weight that follows from them.
pub(super) fn weight(
    map: OrthogonalMap,
    original: &Tensor,
    base: Option<&Tensor>,
) -> Result<Tensor> {
    let (rows, columns) = sides(original);
    let wide = rows < columns;
    let x = match wide {
        true => original.transpose(-2, -1)?,
        false => original.clone(),
    };
    let q = match map {
        OrthogonalMap::Householder => reflected(&x)?,
        map => rotation(map, &x)?,
    };
    let q = match base {
        Some(base) => base.matmul(&q)?,
        None => q,
    };
    if wide { q.transpose(-2, -1) } else { Ok(q) }
}

/// The numbers of rows and columns of a matrix or of each of a batch.
fn sides(t: &Tensor) -> (usize, usize) {
    match t.dims() {
        [.., rows, columns] => (*rows, *columns),
        _ => (0, 0),
    }
}

trait Like: Sized {
    /// Ones on the diagonal of a matrix of another tensor's dtype and device.
    fn eye_with(rows: usize, columns: usize, like: &Tensor) -> Result<Self>;
}

impl Like for Tensor {
    fn eye_with(rows: usize, columns: usize, like: &Tensor) -> Result<Tensor> {
        init::eye_(&Tensor::empty(
            [rows, columns],
            like.dtype(),
            like.device(),
        )?)
    }
}

/// The first columns of an orthogonal matrix that follows from the lower triangle of a tall one.
fn rotation(map: OrthogonalMap, x: &Tensor) -> Result<Tensor> {
    let (n, k) = sides(x);
    let mut lower = x.tril(0)?;
    if n != k {
        lower = lower.pad([0, (n - k) as i64])?;
    }
    let a = lower.sub(&lower.transpose(-2, -1)?)?;
    let q = match map {
        OrthogonalMap::Cayley => {
            let one = Tensor::eye_with(n, n, x)?;
            let half = a.mul(0.5)?;
            // Both factors commute.
            inverse(&one.sub(&half)?)?.matmul(&one.add(&half)?)?
        }
        _ => exponential(&a)?,
    };
    q.narrow(-1, 0, k as i64)
}

/// The exponential by its series, of a matrix that was halved until its norm is at most a half, squared as often.
fn exponential(a: &Tensor) -> Result<Tensor> {
    let (n, _) = sides(a);
    let norm = match a.numel() {
        0 => 0.0,
        _ => {
            let rows = SumOptions::new().dim(-1);
            a.detach().abs()?.sum_with(rows)?.max()?.item::<f64>()?
        }
    };
    let halvings = (norm * 2.0).log2().ceil().max(0.0);
    let a = a.mul(0.5f64.powf(halvings))?;
    let one = Tensor::eye_with(n, n, &a)?;
    let mut sum = one.clone();
    for i in (1..=14).rev() {
        sum = one.add(&a.matmul(&sum)?.div(i)?)?;
    }
    for _ in 0..halvings as usize {
        sum = sum.matmul(&sum)?;
    }
    Ok(sum)
}

/// The inverse of a matrix whose symmetric part is positive definite, as is then that of each block on its diagonal and
/// of what is left of the other: no pivots are needed.
fn inverse(m: &Tensor) -> Result<Tensor> {
    let (n, _) = sides(m);
    if n <= 1 {
        return m.reciprocal();
    }
    let h = (n / 2) as i64;
    let rest = n as i64 - h;
    let block = |row: (i64, i64), column: (i64, i64)| {
        m.narrow(-2, row.0, row.1)?.narrow(-1, column.0, column.1)
    };
    let (first, second) = ((0, h), (h, rest));
    let a = inverse(&block(first, first)?)?;
    let (b, c) = (block(first, second)?, block(second, first)?);
    let (ab, ca) = (a.matmul(&b)?, c.matmul(&a)?);
    let s = inverse(&block(second, second)?.sub(&c.matmul(&ab)?)?)?;
    let abs = ab.matmul(&s)?;
    let top = Tensor::cat(&[a.add(&abs.matmul(&ca)?)?, abs.neg()?], -1)?;
    let bottom = Tensor::cat(&[s.matmul(&ca)?.neg()?, s], -1)?;
    Tensor::cat(&[top, bottom], -2)
}

/// The first columns of the product of the reflections by a tall matrix's columns, times the whole numbers of its diagonal.
fn reflected(x: &Tensor) -> Result<Tensor> {
    let (n, k) = sides(x);
    let one = Tensor::eye_with(n, k, x)?;
    let below = x.tril(-1)?;
    let vectors = below.add(&one)?;
    let squares = vectors.square()?;
    let lengths = squares.sum_with(SumOptions::new().dim(-2).keepdim(true))?;
    let tau = lengths.reciprocal()?.mul(2.0)?;
    let mut q = one.expand(x.shape())?;
    for i in (0..k as i64).rev() {
        let v = vectors.narrow(-1, i, 1)?;
        let along = v
            .transpose(-2, -1)?
            .matmul(&q)?
            .mul(&tau.narrow(-1, i, 1)?)?;
        q = q.sub(&v.matmul(&along)?)?;
    }
    let signs = x
        .detach()
        .diagonal_with(DiagonalOptions::new().dim1(-2).dim2(-1))?;
    q.mul(&signs.trunc()?.unsqueeze(-2)?)
}

/// Each matrix of a batch as the numbers of its longer side's vectors, changed by `f`, which may add vectors, and put
/// together again as columns.
fn by_matrix(
    weight: &Tensor,
    out: usize,
    f: impl Fn(usize, Vec<Vec<f64>>) -> Result<Vec<Vec<f64>>>,
) -> Result<Tensor> {
    let (rows, columns) = sides(weight);
    let (n, k) = (rows.max(columns), rows.min(columns));
    let numbers = weight.to_vec::<f64>()?;
    let mut values = Vec::with_capacity(numbers.len() / k.max(1) * out);
    let each = (rows * columns).max(1);
    for (number, matrix) in numbers.chunks(each).enumerate() {
        let at = |i: usize, v: usize| match rows < columns {
            true => matrix[v * columns + i],
            false => matrix[i * columns + v],
        };
        let vectors = (0..k).map(|v| (0..n).map(|i| at(i, v)).collect()).collect();
        let vectors = f(number, vectors)?;
        values.extend((0..n).flat_map(|i| vectors.iter().map(move |v| v[i])));
    }
    let mut shape = weight.dims().to_vec();
    let places = shape.len() - 2;
    shape[places..].copy_from_slice(&[n, out]);
    let matrices = Tensor::empty(&shape[..], weight.dtype(), weight.device())?;
    init::write(&matrices, values)
}

/// An orthogonal matrix whose first columns are the weight where that is orthogonal, else the orthogonal factor of it.
fn base(weight: &Tensor) -> Result<Tensor> {
    let (rows, columns) = sides(weight);
    let (n, k) = (rows.max(columns), rows.min(columns));
    if n == k && is_orthogonal(weight)? {
        return weight.copy();
    }
    let mut shape = weight.dims().to_vec();
    let last = shape.len() - 2;
    shape[last..].copy_from_slice(&[n, n - k]);
    let draws = match n == k {
        true => Vec::new(),
        false => {
            let draws = Tensor::empty(&shape[..], weight.dtype(), weight.device())?;
            init::normal_(&draws, 0.0, 1.0)?.to_vec::<f64>()?
        }
    };
    by_matrix(weight, n, |number, mut vectors| {
        let more = &draws[number * n * (n - k)..(number + 1) * n * (n - k)];
        for v in 0..n - k {
            vectors.push((0..n).map(|i| more[i * (n - k) + v]).collect());
        }
        init::orthonormalize(&mut vectors);
        Ok(vectors)
    })
}

/// Whether the columns of square matrices are orthonormal, as near as PyTorch asks for.
fn is_orthogonal(q: &Tensor) -> Result<bool> {
    let (n, _) = sides(q);
    let eps = match q.dtype() {
        DType::F64 => f64::EPSILON,
        DType::F16 => 2f64.powi(-10),
        DType::BF16 => 2f64.powi(-7),
        _ => f32::EPSILON as f64,
    };
    let limit = 10.0 * n as f64 * eps;
    let numbers = q.to_vec::<f64>()?;
    let product = |m: &[f64], a: usize, b: usize| -> f64 {
        (0..n).map(|i| m[i * n + a] * m[i * n + b]).sum()
    };
    let mut matrices = numbers.chunks((n * n).max(1));
    Ok(matrices.all(|m| {
        (0..n).all(|a| {
            (0..=a).all(|b| match a == b {
                true => (product(m, a, a) - 1.0).abs() <= limit + 1e-5,
                false => product(m, a, b).abs() <= limit,
            })
        })
    }))
}

/// The reflections of a matrix's QR decomposition as LAPACK's `geqrf` stores them, and in the diagonal the signs of the
/// triangular factor's, turned where there is no reflection.
fn reflections(weight: &Tensor) -> Result<Tensor> {
    let (rows, columns) = sides(weight);
    let k = rows.min(columns);
    let tall = by_matrix(weight, k, |_, mut vectors| {
        let n = vectors.first().map_or(0, Vec::len);
        for j in 0..k {
            let norm = vectors[j][j + 1..]
                .iter()
                .map(|x| x * x)
                .sum::<f64>()
                .sqrt();
            let alpha = vectors[j][j];
            if norm == 0.0 {
                vectors[j][j] = -sign(alpha);
                continue;
            }
            let beta = -alpha.hypot(norm).copysign(alpha);
            let tau = (beta - alpha) / beta;
            for x in &mut vectors[j][j + 1..] {
                *x /= alpha - beta;
            }
            vectors[j][j] = 1.0;
            let (done, rest) = vectors.split_at_mut(j + 1);
            let v = &done[j];
            for w in rest {
                let share: f64 = (j..n).map(|i| v[i] * w[i]).sum::<f64>() * tau;
                for i in j..n {
                    w[i] -= share * v[i];
                }
            }
            vectors[j][j] = sign(beta);
        }
        Ok(vectors)
    })?;
    if rows < columns {
        tall.transpose(-2, -1)?.copy()
    } else {
        Ok(tall)
    }
}

fn sign(x: f64) -> f64 {
    if x == 0.0 { 0.0 } else { x.signum() }
}
