//! The borders between tensors that all ranks have and tensors of which each has a part.
//!
//! Each function communicates in one direction of the pass and its conjugate in the other: what is copied forward is summed
//! backward, and so on. A backward pass of a backward pass crosses the border once more, so higher derivatives are right.

use torsh_core::shape::wrap_dim;
use torsh_tensor::{CustomBackward, IntoDim, Result, Tensor, cat, no_grad, record_function};

use super::share;
use crate::group::ProcessGroup;
use crate::reduce::ReduceOp;

/// A border, by what happens in the forward pass.
#[derive(Clone, Copy, Debug)]
pub(super) enum Region {
    /// Nothing.
    Copy,
    /// The ranks' tensors are added.
    Reduce,
    /// The parts are joined.
    Gather(usize),
    /// Each rank takes its part of a tensor that all have.
    Scatter(usize),
    /// The parts are joined for work that differs from rank to rank.
    GatherToWork(usize),
    /// The ranks' tensors are added, and each takes its part of the sum.
    ReduceScatter(usize),
}

impl Region {
    fn conjugate(self) -> Region {
        match self {
            Region::Copy => Region::Reduce,
            Region::Reduce => Region::Copy,
            Region::Gather(d) => Region::Scatter(d),
            Region::Scatter(d) => Region::Gather(d),
            Region::GatherToWork(d) => Region::ReduceScatter(d),
            Region::ReduceScatter(d) => Region::GatherToWork(d),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Region::Copy => "copy_to_tensor_parallel_region",
            Region::Reduce => "reduce_from_tensor_parallel_region",
            Region::Gather(_) => "gather_from_tensor_parallel_region",
            Region::Scatter(_) => "scatter_to_tensor_parallel_region",
            Region::GatherToWork(_) => "gather_from_sequence_parallel_region",
            Region::ReduceScatter(_) => "reduce_scatter_to_sequence_parallel_region",
        }
    }
}

struct Crossing {
    region: Region,
    group: ProcessGroup,
}

impl CustomBackward for Crossing {
    fn name(&self) -> &str {
        self.region.name()
    }

    fn backward(&self, grads: &[Option<Tensor>], _saved: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        let g = grads.first().and_then(Option::as_ref);
        let back = self.region.conjugate();
        Ok(vec![g.map(|g| cross(g, back, &self.group)).transpose()?])
    }
}

/// Takes a tensor over a border, recorded as one node.
#[track_caller]
pub(super) fn cross(x: &Tensor, region: Region, group: &ProcessGroup) -> Result<Tensor> {
    if group.size() == 1 {
        return Ok(x.clone());
    }
    let y = no_grad(|| carry(&x.detach(), region, group))?;
    let node = Crossing {
        region,
        group: group.clone(),
    };
    let inputs = std::slice::from_ref(x);
    let mut out = record_function(inputs, vec![y], &[], 0, Box::new(node))?;
    Ok(out.remove(0))
}

fn carry(x: &Tensor, region: Region, group: &ProcessGroup) -> Result<Tensor> {
    let op = region.name();
    match region {
        Region::Copy => Ok(x.clone()),
        Region::Reduce => {
            let sum = x.copy()?;
            group.all_reduce_(&sum, ReduceOp::Sum)?;
            Ok(sum)
        }
        Region::Gather(d) | Region::GatherToWork(d) => cat(&group.all_gather(&x.contiguous()?)?, d),
        Region::Scatter(d) => {
            let n = share(
                op,
                &format!("dimension {d} of {}", x.describe()),
                x.dims()[d],
                group,
            )?;
            x.narrow(d, group.rank() * n, n)?.contiguous()
        }
        Region::ReduceScatter(d) => {
            let n = share(
                op,
                &format!("dimension {d} of {}", x.describe()),
                x.dims()[d],
                group,
            )?;
            let pieces = (0..group.size())
                .map(|r| x.narrow(d, r * n, n)?.contiguous())
                .collect::<Result<Vec<_>>>()?;
            group.reduce_scatter(&pieces, ReduceOp::Sum)
        }
    }
}

fn at(x: &Tensor, dim: impl IntoDim) -> Result<usize> {
    wrap_dim(dim.value(), x.ndim())
}

/// Hands a tensor that all ranks have to work that is divided over them: the values as they are; gradients are summed over
/// the ranks, each of which has the part that comes from its share of the work.
///
/// ```
/// use torsh_distributed::spawn;
/// use torsh_distributed::tensor_parallel::copy_to_tensor_parallel_region;
/// use torsh_tensor::tensor;
///
/// let grads = spawn(2, |g| {
///     let x = tensor![1.0].requires_grad_(true);
///     // The ranks multiply by 1 and by 10.
///     let y = copy_to_tensor_parallel_region(&x, &g)?.mul([1.0, 10.0][g.rank()])?;
///     y.backward()?;
///     x.grad().map(|g| g.item::<f32>()).transpose()
/// })?;
/// assert_eq!(grads, [Some(11.0), Some(11.0)]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Those of [`all_reduce_`](ProcessGroup::all_reduce_), in the backward pass.
#[torsh_tensor::names_caller]
pub fn copy_to_tensor_parallel_region(x: &Tensor, group: &ProcessGroup) -> Result<Tensor> {
    cross(x, Region::Copy, group)
}

/// The sum of the ranks' tensors, for work that is the same on all ranks: gradients stay as they are. Tensors of one shape
/// and dtype.
///
/// ```
/// use torsh_distributed::spawn;
/// use torsh_distributed::tensor_parallel::reduce_from_tensor_parallel_region;
/// use torsh_tensor::tensor;
///
/// let sums = spawn(2, |g| {
///     let part = tensor![1.0].mul(g.rank() as f64 + 1.0)?;
///     reduce_from_tensor_parallel_region(&part, &g)?.item::<f32>()
/// })?;
/// assert_eq!(sums, [3.0, 3.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Those of [`all_reduce_`](ProcessGroup::all_reduce_).
#[torsh_tensor::names_caller]
pub fn reduce_from_tensor_parallel_region(x: &Tensor, group: &ProcessGroup) -> Result<Tensor> {
    cross(x, Region::Reduce, group)
}

/// The ranks' parts joined along `dim`, for work that is the same on all ranks: each takes its part of the gradient.
///
/// ```
/// use torsh_distributed::spawn;
/// use torsh_distributed::tensor_parallel::gather_from_tensor_parallel_region;
/// use torsh_tensor::tensor;
///
/// let whole = spawn(2, |g| {
///     let part = tensor![[1.0], [2.0]].add(10.0 * g.rank() as f64)?;
///     gather_from_tensor_parallel_region(&part, -1, &g)?.to_vec2::<f32>()
/// })?;
/// assert_eq!(whole[0], [[1.0, 11.0], [2.0, 12.0]]);
/// assert_eq!(whole[1], whole[0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// `dim` is not there, and those of [`all_gather`](ProcessGroup::all_gather).
#[torsh_tensor::names_caller]
pub fn gather_from_tensor_parallel_region(
    x: &Tensor,
    dim: impl IntoDim,
    group: &ProcessGroup,
) -> Result<Tensor> {
    cross(x, Region::Gather(at(x, dim)?), group)
}

/// This rank's part, along `dim`, of a tensor that all ranks have: the parts of the gradient are joined. It is the way into
/// a sequence-parallel region too.
///
/// ```
/// use torsh_distributed::spawn;
/// use torsh_distributed::tensor_parallel::scatter_to_tensor_parallel_region;
/// use torsh_tensor::tensor;
///
/// let parts = spawn(2, |g| {
///     scatter_to_tensor_parallel_region(&tensor![1.0, 2.0, 3.0, 4.0], 0, &g)?.to_vec::<f32>()
/// })?;
/// assert_eq!(parts, [[1.0, 2.0], [3.0, 4.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// `dim` is not there, or its size is no multiple of the ranks.
#[torsh_tensor::names_caller]
pub fn scatter_to_tensor_parallel_region(
    x: &Tensor,
    dim: impl IntoDim,
    group: &ProcessGroup,
) -> Result<Tensor> {
    cross(x, Region::Scatter(at(x, dim)?), group)
}

/// The ranks' parts of a sequence joined along `dim`, for work that is divided over the ranks: gradients are summed over
/// the ranks, and each takes its part of the sum.
///
/// ```
/// use torsh_distributed::spawn;
/// use torsh_distributed::tensor_parallel::gather_from_sequence_parallel_region;
/// use torsh_tensor::tensor;
///
/// let grads = spawn(2, |g| {
///     let x = tensor![1.0].requires_grad_(true);
///     let whole = gather_from_sequence_parallel_region(&x, 0, &g)?;
///     whole.mul([1.0, 10.0][g.rank()])?.sum()?.backward()?;
///     x.grad().map(|g| g.item::<f32>()).transpose()
/// })?;
/// assert_eq!(grads, [Some(11.0), Some(11.0)]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// `dim` is not there, and those of [`all_gather`](ProcessGroup::all_gather).
#[torsh_tensor::names_caller]
pub fn gather_from_sequence_parallel_region(
    x: &Tensor,
    dim: impl IntoDim,
    group: &ProcessGroup,
) -> Result<Tensor> {
    cross(x, Region::GatherToWork(at(x, dim)?), group)
}

/// This rank's part, along `dim`, of the sum of the ranks' tensors: the parts of the gradient are joined.
///
/// ```
/// use torsh_distributed::spawn;
/// use torsh_distributed::tensor_parallel::reduce_scatter_to_sequence_parallel_region;
/// use torsh_tensor::tensor;
///
/// let parts = spawn(2, |g| {
///     let mine = tensor![1.0, 2.0].mul([1.0, 10.0][g.rank()])?;
///     reduce_scatter_to_sequence_parallel_region(&mine, 0, &g)?.to_vec::<f32>()
/// })?;
/// assert_eq!(parts, [[11.0], [22.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// `dim` is not there, or its size is no multiple of the ranks, and those of
/// [`reduce_scatter`](ProcessGroup::reduce_scatter).
#[torsh_tensor::names_caller]
pub fn reduce_scatter_to_sequence_parallel_region(
    x: &Tensor,
    dim: impl IntoDim,
    group: &ProcessGroup,
) -> Result<Tensor> {
    cross(x, Region::ReduceScatter(at(x, dim)?), group)
}
