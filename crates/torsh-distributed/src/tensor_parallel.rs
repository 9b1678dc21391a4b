//! Tensor parallel: layers whose weights are divided over the ranks of a group.
//!
//! A pair of layers shares its work so that one all-reduce in each direction is enough (M. Shoeybi et al., "Megatron-LM",
//! 2019): the first has a part of the outputs ([`ColumnParallelLinear`]), the second the same part of the inputs
//! ([`RowParallelLinear`]). The ranks of the group get the same input, and have the same output.
//!
//! * [`parallelize_module`] changes an ordinary model in place, by a [`plan!`](crate::plan!) of names.
//! * [`ColumnParallelLinear`], [`RowParallelLinear`], [`VocabParallelEmbedding`] and [`TensorParallelAttention`] are the
//!   layers for models that are written for it.
//! * [`vocab_parallel_cross_entropy`] is the loss of logits of which each rank has a part.
//! * [`copy_to_tensor_parallel_region`] and its kin are what they are made of, for layers of one's own.
//! * [`with_sharded_rng`] draws other numbers on each rank, as dropout of a divided tensor needs.
//!
//! With sequence parallel (V. Korthikanti et al., "Reducing activation recomputation in large transformer models", 2022)
//! norms and dropouts work on a part of the sequence: the all-reduce becomes an all-gather before the first layer of a pair
//! and a reduce-scatter after the second.
//!
//! Sums are made in the order of ranks, so results are the same on all ranks and from run to run. They differ from those of
//! the undivided model by rounding, as the order of its sums is another.

mod attention;
mod layers;
mod loss;
mod parallelize;
mod pattern;
mod regions;
mod rng;
mod style;

use torsh_tensor::{Result, TorshError};

use crate::group::ProcessGroup;
use crate::mesh::DeviceMesh;

pub use attention::TensorParallelAttention;
pub use layers::{ColumnParallelLinear, RowParallelLinear, VocabParallelEmbedding};
pub use loss::{vocab_parallel_cross_entropy, vocab_parallel_cross_entropy_with};
pub use parallelize::{TensorParallel, parallelize_module};
pub use regions::{
    copy_to_tensor_parallel_region, gather_from_sequence_parallel_region,
    gather_from_tensor_parallel_region, reduce_from_tensor_parallel_region,
    reduce_scatter_to_sequence_parallel_region, scatter_to_tensor_parallel_region,
};
pub use rng::{synchronize_rng, with_sharded_rng};
pub use style::{
    ColumnParallel, ParallelStyle, PrepareModuleInput, PrepareModuleOutput, RowParallel,
    SequenceParallel, VocabParallel,
};

/// What names a group of ranks: a [`ProcessGroup`], or a [`DeviceMesh`] of one dimension such as `&mesh["tp"]`.
///
/// ```
/// use torsh_distributed::tensor_parallel::AsProcessGroup;
/// use torsh_distributed::{DeviceMesh, spawn};
///
/// let sizes = spawn(2, |g| {
///     let mesh = DeviceMesh::new(&[2], &["tp"])?;
///     Ok([g.process_group("example")?.size(), mesh["tp"].process_group("example")?.size()])
/// })?;
/// assert_eq!(sizes, [[2, 2], [2, 2]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub trait AsProcessGroup {
    /// The group. `op` is the operation that errors name.
    ///
    /// # Errors
    /// A mesh of several dimensions.
    fn process_group(&self, op: &'static str) -> Result<ProcessGroup>;
}

impl AsProcessGroup for ProcessGroup {
    fn process_group(&self, _op: &'static str) -> Result<ProcessGroup> {
        Ok(self.clone())
    }
}

impl AsProcessGroup for DeviceMesh {
    fn process_group(&self, op: &'static str) -> Result<ProcessGroup> {
        if self.ndim() != 1 {
            return Err(TorshError::invalid(
                op,
                format!(
                    "the mesh has the dimensions {:?} of sizes {:?}; one is needed",
                    self.names(),
                    self.shape()
                ),
            )
            .with_hint("name one: &mesh[\"tp\"]"));
        }
        self.group(0)
    }
}

/// A rank's share of a size; an error where the ranks do not divide it.
pub(crate) fn share(
    op: &'static str,
    what: &str,
    size: usize,
    group: &ProcessGroup,
) -> Result<usize> {
    let n = group.size();
    if !size.is_multiple_of(n) {
        return Err(TorshError::shape(
            op,
            format!(
                "{what} is {size}, which the {n} ranks of group {} do not divide",
                group.name()
            ),
        )
        .with_hint(format!(
            "choose a multiple of {n} ({}), or a group of another size",
            size.next_multiple_of(n)
        )));
    }
    Ok(size / n)
}
