//! Tensors at the elements of another one, and in other sizes.

use torsh_core::attrs::NONE;
use torsh_core::{DType, TensorLayout};
use torsh_tensor::call::{Arg, Outputs};
use torsh_tensor::record::{OpRecord, sample};
use torsh_tensor::sparse::{self, Pattern, SparseCall, SparseRule};
use torsh_tensor::{Grads, IntoShape, Result, Tensor, TorshError, Value, no_grad};

use crate::convert;
use crate::grid::{self, is_sparse, pattern};
use crate::help::{first, one, within};

/// The rules of this file.
pub static MASKS: &[SparseRule] = &[SparseRule {
    op: "sparse_mask",
    call: mask_rule,
}];

/// The ops of this file.
pub static RECORDS: &[&OpRecord] = &[&MASK_OF_SPARSE, &SPARSE_MASK, &RESIZE, &RESIZE_AND_CLEAR];

/// The gradient of a sparse tensor at the elements of a mask is that of the result there.
static MASK_OF_SPARSE: OpRecord = OpRecord::new(
    "_sparse_mask",
    "A sparse tensor at the elements of a sparse mask.",
    "(Tensor input, Tensor mask)",
)
.internal()
.grads(2, 0, |c| {
    let p = pattern(&c.y()?)?;
    let v = convert::at_pattern(c.g(), &p)?;
    Ok(Grads::from_iter([Some(sparse::from_values(&p, &v)?), None]))
});

static SPARSE_MASK: OpRecord = OpRecord::new(
    "sparse_mask",
    "The elements of a tensor, strided or sparse, that a sparse tensor stores, in its layout.",
    "(Tensor input, Tensor mask)",
)
.by_name(|b| mask(b.tensor(0)?, b.tensor(1)?).map(Value::Tensor))
.samples(|s| {
    let x = s.real(&[2, 3])?;
    let kept = Tensor::from_data(&[true, false, true, true, false, false], [2, 3])?;
    let kept = convert::to_layout(&kept, TensorLayout::SparseCoo, None, None)?;
    Ok(vec![sample![x, kept]])
});

fn resize_arguments(b: &torsh_tensor::Bound) -> (Vec<i64>, i64, i64) {
    (b.ints(1), b.int(2), b.int(3))
}

static RESIZE: OpRecord = OpRecord::new(
    "sparse_resize_",
    "The stored elements of a sparse tensor in other sizes.",
    "(Tensor input, int[] size, int sparse_dim, int dense_dim)",
)
.by_name(|b| {
    let (size, sparse_dim, dense_dim) = resize_arguments(b);
    resize(b.tensor(0)?, size, sparse_dim, dense_dim).map(Value::Tensor)
});

static RESIZE_AND_CLEAR: OpRecord = OpRecord::new(
    "sparse_resize_and_clear_",
    "A sparse tensor of other sizes that stores no elements.",
    "(Tensor input, int[] size, int sparse_dim, int dense_dim)",
)
.by_name(|b| {
    let (size, sparse_dim, dense_dim) = resize_arguments(b);
    resize_and_clear(b.tensor(0)?, size, sparse_dim, dense_dim).map(Value::Tensor)
});

fn mask_rule(c: &SparseCall<'_>) -> Result<Outputs> {
    masked(c.tensor(0)?, c.tensor(1)?).map(one)
}

/// The elements of `x`, strided or sparse, that `mask` stores, in the layout and with the indices of `mask`
/// (`Tensor.sparse_mask`). What `x` does not store is 0.
///
/// The gradient of a strided `x` is strided, that of a sparse one has the elements of `mask`.
///
/// ```
/// use torsh_sparse::{self as sparse, SparseExt};
/// use torsh_tensor::tensor;
/// let mask = tensor![[1.0, 0.0], [0.0, 1.0]].to_sparse()?;
/// let y = sparse::mask(&tensor![[1, 2], [3, 4]], &mask)?;
/// assert_eq!(y.values()?, tensor![1, 4]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A strided mask, and shapes that differ.
#[torsh_tensor::names_caller]
pub fn mask(x: &Tensor, mask: &Tensor) -> Result<Tensor> {
    within("sparse_mask", &[x, mask], || masked(x, mask))
}

fn masked(x: &Tensor, mask: &Tensor) -> Result<Tensor> {
    if !is_sparse(mask) {
        return Err(TorshError::invalid(
            "",
            format!("the mask must be a sparse tensor, got {}", mask.describe()),
        )
        .with_hint("to_sparse() makes one of a strided tensor"));
    }
    if x.shape() != mask.shape() {
        return Err(TorshError::shape(
            "",
            format!(
                "operands have incompatible sizes; self has size {} but mask has size {}",
                x.shape(),
                mask.shape()
            ),
        ));
    }
    let p = pattern(mask)?;
    if !p.is_coalesced() {
        // An element that is stored twice would have its whole value twice.
        return masked(x, &grid::settled(&mask.detach())?);
    }
    if !is_sparse(x) {
        return sparse::from_values(&p, &convert::mask(x, &p)?);
    }
    let out = no_grad(|| {
        let values = convert::at_pattern(x, &p)?;
        // Those of `x` itself where it has the very indices of the mask.
        let values = match x.pattern().is_some_and(|own| own.is_same(&p)) {
            true => values.copy()?,
            false => values,
        };
        sparse::from_values(&p, &values)
    })?;
    first(MASK_OF_SPARSE.recorded(&[Arg::T(x), Arg::T(&mask.detach())], NONE, one(out))?)
}

/// The sizes of a call, checked.
fn sizes(
    x: &Tensor,
    size: &impl IntoShape,
    sparse_dim: i64,
    dense_dim: i64,
) -> Result<(Vec<usize>, usize, usize)> {
    let shape = size.shape()?.dims().to_vec();
    if x.layout() != TensorLayout::SparseCoo {
        return Err(TorshError::invalid(
            "",
            format!(
                "expected a sparse COO tensor, got {} ({})",
                x.describe(),
                x.layout()
            ),
        ));
    }
    let counts = usize::try_from(sparse_dim)
        .ok()
        .zip(usize::try_from(dense_dim).ok());
    match counts {
        Some((s, d)) if s.checked_add(d) == Some(shape.len()) => Ok((shape, s, d)),
        _ => Err(TorshError::invalid(
            "",
            format!(
                "number of dimensions must be sparse_dim ({sparse_dim}) + dense_dim ({dense_dim}), but got {}",
                shape.len()
            ),
        )),
    }
}

/// The stored elements of a COO tensor in other sizes (`Tensor.sparse_resize_`).
///
/// The shape of a tensor never changes, so that this is another tensor, which shares the indices of `x`, and its values where
/// the dense sizes stay. A tensor that stores elements keeps its numbers of sparse and of dense dimensions, and no size
/// shrinks. Not recorded.
///
/// ```
/// use torsh_sparse::{self as sparse, SparseExt};
/// use torsh_tensor::tensor;
/// let x = tensor![[0.0, 5.0]].to_sparse()?;
/// assert_eq!(sparse::resize(&x, [2, 2], 2, 0)?.to_dense()?, tensor![[0.0, 5.0], [0.0, 0.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Another layout than COO; sizes that shrink, or another number of sparse or dense dimensions, where elements are stored;
/// a tensor that requires a gradient.
#[torsh_tensor::names_caller]
pub fn resize(x: &Tensor, size: impl IntoShape, sparse_dim: i64, dense_dim: i64) -> Result<Tensor> {
    within("sparse_resize_", &[x], || {
        let (shape, sparse_dim, dense_dim) = sizes(x, &size, sparse_dim, dense_dim)?;
        unrecorded(x)?;
        let p = pattern(x)?;
        if p.nnz() == 0 {
            return cleared(x, &shape, sparse_dim);
        }
        let changed = match () {
            _ if sparse_dim != p.sparse_dim() => Some(format!(
                "changing the number of sparse dimensions (from {} to {sparse_dim})",
                p.sparse_dim()
            )),
            _ if dense_dim != p.dense_dim() => Some(format!(
                "changing the number of dense dimensions (from {} to {dense_dim})",
                p.dense_dim()
            )),
            _ if (0..shape.len()).any(|d| shape[d] < x.dims()[d]) => Some(format!(
                "shrinking the sizes (from {} to {shape:?})",
                x.shape()
            )),
            _ => None,
        };
        if let Some(what) = changed {
            return Err(TorshError::invalid(
                "",
                format!("{what} on a non-empty sparse tensor is not supported"),
            )
            .with_hint("sparse_resize_and_clear_ makes an empty tensor of any sizes"));
        }
        let v = sparse::values(&x.detach())?;
        let mut grown = v.clone();
        for d in 1..v.ndim() {
            let (have, want) = (grown.dims()[d], shape[sparse_dim + d - 1]);
            if want > have {
                let mut dims = grown.dims().to_vec();
                dims[d] = want - have;
                let zeros = Tensor::zeros(&dims[..], v.dtype(), v.device())?;
                grown = Tensor::cat(&[grown, zeros], d)?;
            }
        }
        grid::coo(&shape, p.indices(), &grown, p.is_coalesced())
    })
}

/// A COO tensor of other sizes that stores no elements, of the dtype and on the device of `x`
/// (`Tensor.sparse_resize_and_clear_`).
///
/// ```
/// use torsh_sparse::{self as sparse, SparseExt};
/// use torsh_tensor::tensor;
/// let x = tensor![[0.0, 5.0]].to_sparse()?;
/// let y = sparse::resize_and_clear(&x, [3, 2], 1, 1)?;
/// assert_eq!((y.dims(), y.nnz()?), (&[3, 2][..], 0));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Another layout than COO; a tensor that requires a gradient.
#[torsh_tensor::names_caller]
pub fn resize_and_clear(
    x: &Tensor,
    size: impl IntoShape,
    sparse_dim: i64,
    dense_dim: i64,
) -> Result<Tensor> {
    within("sparse_resize_and_clear_", &[x], || {
        let (shape, sparse_dim, _) = sizes(x, &size, sparse_dim, dense_dim)?;
        unrecorded(x)?;
        cleared(x, &shape, sparse_dim)
    })
}

fn unrecorded(x: &Tensor) -> Result<()> {
    match grid::is_recorded(x) {
        true => Err(TorshError::autograd(
            "",
            "a tensor that requires a gradient cannot be resized",
        )
        .with_hint("detach() it, or do it under no_grad")),
        false => Ok(()),
    }
}

fn cleared(x: &Tensor, shape: &[usize], sparse_dim: usize) -> Result<Tensor> {
    let indices = Tensor::zeros([sparse_dim, 0], DType::I64, x.device())?;
    let p = Pattern::coo(shape, &indices, true)?;
    sparse::from_values(&p, &Tensor::zeros(p.values_shape(), x.dtype(), x.device())?)
}
