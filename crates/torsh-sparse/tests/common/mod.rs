//! Small operands of every kind, and what is checked of them today.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{SystemTime, UNIX_EPOCH};

use torsh_sparse::{SparseExt, ToSparseOptions};
use torsh_tensor::sample::Sampler;
use torsh_tensor::sparse::{Pattern, from_values};
use torsh_tensor::{DType, Result, Tensor, TensorLayout, tensor};

/// The sparse layouts.
pub(crate) const LAYOUTS: [TensorLayout; 5] = [
    TensorLayout::SparseCoo,
    TensorLayout::SparseCsr,
    TensorLayout::SparseCsc,
    TensorLayout::SparseBsr,
    TensorLayout::SparseBsc,
];

/// Blocks of the matrices of [`matrices`]: columns of them in BSR, rows in BSC.
const BLOCKS: [[usize; 2]; 2] = [[2, 1], [1, 3]];

/// An operand: where its elements are.
#[derive(Clone)]
pub(crate) enum Kind {
    /// Everywhere.
    Strided(Vec<usize>),
    /// In a pattern.
    Sparse(Pattern),
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Kind::Strided(shape) => write!(f, "strided{shape:?}"),
            Kind::Sparse(p) if p.is_coalesced() => write!(f, "{p:?}"),
            Kind::Sparse(p) => write!(f, "{p:?}, not coalesced"),
        }
    }
}

impl Kind {
    pub(crate) fn strided(shape: &[usize]) -> Kind {
        Kind::Strided(shape.to_vec())
    }

    pub(crate) fn pattern(&self) -> Option<&Pattern> {
        match self {
            Kind::Strided(_) => None,
            Kind::Sparse(p) => Some(p),
        }
    }

    /// A tensor of it, of float64 or complex128.
    pub(crate) fn tensor(&self, s: &mut Sampler, complex: bool) -> Result<Tensor> {
        let of = match self {
            Kind::Strided(shape) => shape.clone(),
            Kind::Sparse(p) => p.values_shape().dims().to_vec(),
        };
        let v = match complex {
            true => s.complex(&of)?.copy()?,
            false => s.real(&of)?,
        };
        match self {
            Kind::Strided(_) => Ok(v),
            Kind::Sparse(p) => from_values(p, &v),
        }
    }
}

/// How a tensor of two rows and three columns is converted.
pub(crate) fn options(layout: TensorLayout) -> ToSparseOptions {
    let options = ToSparseOptions::new().layout(layout);
    match layout {
        TensorLayout::SparseBsr => options.blocksize(BLOCKS[0]),
        TensorLayout::SparseBsc => options.blocksize(BLOCKS[1]),
        _ => options,
    }
}

/// The pattern of the elements that are not 0.
fn stored(elements: &[i64], shape: &[usize], how: ToSparseOptions) -> Result<Kind> {
    let x = Tensor::from_data(elements, shape)?.to_sparse_with(how)?;
    Ok(Kind::Sparse(x.pattern().expect("a sparse tensor")))
}

/// A COO pattern with an element that is stored twice, out of order.
fn repeated(shape: &[usize], indices: &Tensor) -> Result<Kind> {
    Ok(Kind::Sparse(Pattern::coo(shape, indices, false)?))
}

/// Matrices of two rows and three columns: each layout, and COO that is not coalesced.
pub(crate) fn matrices() -> Result<Vec<Kind>> {
    let mut all = vec![repeated(&[2, 3], &tensor![[1i64, 0, 1], [2, 1, 2]])?];
    for layout in LAYOUTS {
        let elements = match layout {
            TensorLayout::SparseBsr => [1, 0, 1, 1, 0, 1],
            TensorLayout::SparseBsc => [0, 0, 0, 1, 1, 1],
            _ => [0, 1, 0, 1, 0, 1],
        };
        all.push(stored(&elements, &[2, 3], options(layout))?);
    }
    Ok(all)
}

/// The transposed ones of [`matrices`], of the same layouts.
pub(crate) fn tall() -> Result<Vec<Kind>> {
    let mut all = vec![repeated(&[3, 2], &tensor![[2i64, 1, 2], [1, 0, 1]])?];
    for layout in LAYOUTS {
        let how = ToSparseOptions::new().layout(layout);
        let (how, elements) = match layout {
            TensorLayout::SparseBsr => (how.blocksize([1, 2]), [1, 1, 0, 0, 1, 1]),
            TensorLayout::SparseBsc => (how.blocksize([3, 1]), [0, 1, 0, 1, 0, 1]),
            _ => (how, [0, 1, 1, 0, 0, 1]),
        };
        all.push(stored(&elements, &[3, 2], how)?);
    }
    Ok(all)
}

/// Two matrices of [`matrices`] that store equally many elements, and blocks of either size.
pub(crate) fn batches() -> Result<Vec<Kind>> {
    let each = LAYOUTS.into_iter().map(|layout| {
        let elements = match layout {
            TensorLayout::SparseBsr => [0, 1, 0, 0, 1, 0, 1, 0, 0, 1, 0, 0],
            TensorLayout::SparseBsc => [0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0],
            _ => [0, 1, 0, 1, 0, 0, 0, 0, 1, 1, 0, 0],
        };
        stored(&elements, &[2, 2, 3], options(layout))
    });
    each.collect()
}

/// Matrices whose elements are vectors of two numbers.
pub(crate) fn hybrids() -> Result<Vec<Kind>> {
    let mut all = vec![repeated(&[2, 3, 2], &tensor![[1i64, 0, 1], [2, 1, 2]])?];
    for layout in LAYOUTS {
        let mut elements = [0; 12];
        match layout {
            TensorLayout::SparseBsr => elements[4..6].copy_from_slice(&[1, 1]),
            TensorLayout::SparseBsc => elements[6..8].copy_from_slice(&[1, 1]),
            _ => {
                elements[2..4].copy_from_slice(&[1, 1]);
                elements[6..8].copy_from_slice(&[1, 1]);
            }
        }
        let how = options(layout).dense_dim(1);
        all.push(stored(&elements, &[2, 3, 2], how)?);
    }
    Ok(all)
}

/// As a strided tensor.
pub(crate) fn dense(x: &Tensor) -> Result<Tensor> {
    match x.layout().is_strided() {
        true => Ok(x.clone()),
        false => x.to_dense(),
    }
}

/// Numbers of which gradients and results are compared.
pub(crate) fn sampler() -> Sampler {
    Sampler::new(7, DType::F64)
}

/// How many parts the slowest checks are divided into. Each day another part runs.
const PARTS: u64 = 4;

/// The part of this run: `TORSH_CI_PART`, or that of the day.
pub(crate) fn part() -> u64 {
    let day = match std::env::var("TORSH_CI_PART") {
        Ok(text) => text.parse().expect("a number"),
        Err(_) => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            now.expect("after 1970").as_secs() / 86_400
        }
    };
    day % PARTS
}

/// Whether a check is in the part of this run, which its name decides.
pub(crate) fn is_todays(check: &str) -> bool {
    let mut hasher = DefaultHasher::new();
    check.hash(&mut hasher);
    hasher.finish() % PARTS == part()
}
