//! What the functions share: names in errors, and index tensors on the host.

use smallvec::SmallVec;
use torsh_core::{DType, Device, TensorLayout};
use torsh_tensor::call::Outputs;
use torsh_tensor::observe;
use torsh_tensor::{Result, Tensor, TorshError};

/// Runs a function that is written in ops: observers see it, and errors name it.
#[track_caller]
pub(crate) fn within<T>(
    op: &'static str,
    args: &[&Tensor],
    f: impl FnOnce() -> Result<T>,
) -> Result<T> {
    observe::composite(op, args, f).map_err(|e| e.renamed(op))
}

/// One result.
pub(crate) fn one(t: Tensor) -> Outputs {
    SmallVec::from_iter([t])
}

/// The first result.
pub(crate) fn first(outs: Outputs) -> Result<Tensor> {
    outs.into_iter()
        .next()
        .ok_or_else(|| TorshError::failed("", "the op gave no result"))
}

/// The name that PyTorch's errors have for a layout.
pub(crate) fn named(layout: TensorLayout) -> &'static str {
    match layout {
        TensorLayout::Strided => "Strided",
        TensorLayout::SparseCoo => "Sparse",
        TensorLayout::SparseCsr => "SparseCsr",
        TensorLayout::SparseCsc => "SparseCsc",
        TensorLayout::SparseBsr => "SparseBsr",
        TensorLayout::SparseBsc => "SparseBsc",
        other => other.name(),
    }
}

/// The elements of an index tensor, int32 or int64.
pub(crate) fn host(index: &Tensor) -> Result<Vec<i64>> {
    match index.dtype() {
        DType::I32 => Ok(index.to_vec::<i32>()?.into_iter().map(i64::from).collect()),
        _ => index.to_vec::<i64>(),
    }
}

/// An index tensor of these elements.
pub(crate) fn index_tensor(
    data: Vec<i64>,
    shape: &[usize],
    dtype: DType,
    device: Device,
) -> Result<Tensor> {
    Tensor::from_vec(data, shape)?
        .to_dtype(dtype)?
        .to_device(device)
}

/// A list of positions as an int64 tensor.
pub(crate) fn positions(list: &[usize], device: Device) -> Result<Tensor> {
    let data: Vec<i64> = list.iter().map(|&i| i as i64).collect();
    let n = data.len();
    index_tensor(data, &[n], DType::I64, device)
}

/// The sizes `a`, then `b`.
pub(crate) fn sizes(a: &[usize], b: &[usize]) -> Vec<usize> {
    [a, b].concat()
}

/// The product of sizes.
///
/// # Errors
/// Where it is more than 64 bits hold.
pub(crate) fn product(sizes: &[usize]) -> Result<usize> {
    match sizes.contains(&0) {
        true => Ok(0),
        false => sizes
            .iter()
            .try_fold(1usize, |n, &s| n.checked_mul(s))
            .filter(|&n| n <= isize::MAX as usize)
            .ok_or_else(|| {
                TorshError::invalid(
                    "",
                    format!("the sizes {sizes:?} have more elements than memory can address"),
                )
            }),
    }
}

/// `to` plus the rows of `values` at the positions of `index`; where a bool is added twice it is true.
pub(crate) fn added(to: &Tensor, index: &Tensor, values: &Tensor) -> Result<Tensor> {
    match values.dtype() {
        DType::Bool => to
            .to_dtype(DType::I64)?
            .index_add(0, index, &values.to_dtype(DType::I64)?)?
            .ne(0),
        _ => to.index_add(0, index, values),
    }
}
